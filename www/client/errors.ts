import type { ErrorData } from "../host/protocol.js";
import type { ErrorCode } from "./generated.js";

// Registered, so that an error of another copy of the package is known as one of ours.
const brand = Symbol.for("runkeep.error");

const retryableCodes: readonly ErrorCode[] = ["busy", "timeout", "storage_unavailable", "quota_exceeded", "limit_exceeded"];

/** What every call of a store rejects with, except for an abort, which rejects with the signal's reason. */
export class RunkeepError extends Error {
  /** The kind of fault: what a program should act on. */
  readonly code: ErrorCode;
  /** More about it, as plain data. */
  readonly details: Readonly<Record<string, unknown>>;
  /** Whether the same call may succeed later, unchanged. */
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, more: { details?: Record<string, unknown>; retryable?: boolean } = {}) {
    super(message);
    this.code = code;
    this.details = more.details ?? {};
    this.retryable = more.retryable ?? retryableCodes.includes(code);
  }

  override get name(): string {
    return "RunkeepError";
  }

  /** For logs: JSON.stringify alone would leave the message out. */
  toJSON(): object {
    const { name, code, message, details, retryable } = this;
    return { name, code, message, details, retryable };
  }

  /** @internal */
  get [brand](): true {
    return true;
  }
}

/** Whether `error` is a `RunkeepError`, and of that code if one is named; holds across several copies of the package. */
export function isRunkeepError(error: unknown, code?: ErrorCode): error is RunkeepError {
  const known = typeof error === "object" && error !== null && brand in error;
  return known && (code === undefined || (error as unknown as RunkeepError).code === code);
}

export function invalid(message: string, details?: Record<string, unknown>): RunkeepError {
  return new RunkeepError("invalid_argument", message, details && { details });
}

/** Gives what came as data its class back. */
export function toRunkeepError(error: unknown): RunkeepError {
  if (isRunkeepError(error)) return error;
  const { code, message, details, retryable } = (error ?? {}) as Partial<ErrorData>;
  if (typeof code !== "string" || typeof message !== "string" || typeof retryable !== "boolean") {
    return new RunkeepError("internal", `The way to the store failed: ${error}`, { details: { cause: String(error) } });
  }
  return new RunkeepError(code as ErrorCode, message, { retryable, ...(details !== undefined && { details: details as Record<string, unknown> }) });
}
