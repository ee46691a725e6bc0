/** Codes that say the call itself is wrong. Calling again would answer the same; other faults of a store may be gone in a moment. */
const final = new Set([
  "invalid_argument",
  "not_found",
  "conflict",
  "invalid_transition",
  "lease_lost",
  "too_large",
  "limit_exceeded",
  "schema_too_new",
  "corrupt",
  "unsupported",
  "nondeterminism",
]);

export function codeOf(error: unknown): string | undefined {
  return typeof error === "object" && error !== null && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined;
}

/** Whether calling again would answer the same. So it is for what is no store's error: a file that cannot be read, a fault of this page. */
export function isFinal(error: unknown): boolean {
  const code = codeOf(error);
  return code === undefined || final.has(code);
}

export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const code = codeOf(error);
  return code === undefined || message.startsWith(code) ? message : `${code}: ${message}`;
}

/** Resolves after `ms`, or at once when the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}

const RETRY_MS = [100, 300, 1000, 3000, 5000];

/**
 * Calls until the store answers. For calls that may be repeated: those that name the id of what they create, and those
 * that set what is already so.
 */
export async function persist<T>(call: () => PromiseLike<T>, onTrouble?: (error: unknown) => void): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await call();
    } catch (error) {
      const wait = RETRY_MS[tries];
      if (isFinal(error) || wait === undefined) throw error;
      onTrouble?.(error);
      await pause(wait);
    }
  }
}
