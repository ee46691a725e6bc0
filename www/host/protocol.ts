// What client and host say to each other, wherever the host runs.

/** An error as data: classes do not survive a message between threads. */
export interface ErrorData {
  code: string;
  message: string;
  details?: unknown;
  retryable: boolean;
}

export interface HostInfo {
  version: string;
  schemaVersion: number;
  sqliteVersion: string;
  storage: "opfs" | "memory";
  /** Why memory was taken where `auto` was asked for. */
  storageReason?: string;
}

/** What a call is answered with: JSON text, `{"ok": result}` or `{"error": {code, message, details?, retryable}}`, and bytes beside it. */
export type Answer = string | { text: string; bytes: Uint8Array };

/** The way to a host: the worker, the same thread, or a program of your own. */
export interface Transport {
  readonly info?: HostInfo;
  /** Why the host ended by itself, once it has. */
  readonly ended?: string | undefined;
  /**
   * `calls` is flat: operation, arguments, operation, arguments …, the arguments being the JSON text of one object.
   * Answers each call, in order. `bytes` has one element a call: what bytes it has beside its text. `nowMs` is the store's time for these calls, where it is not the system's. `deadlines` has one time of `sharedNow`
   * per call; a call that was not begun by then need not be run. `wait` is for a message of one claim that finds nothing.
   */
  send(calls: string[], nowMs?: number, deadlines?: number[], wait?: Wait, bytes?: CallBytes): Promise<Answer[]>;
  /** Answers what was sent, then gives the storage back. */
  close(): Promise<void>;
}

/** How long a claim waits for something to claim, and what ends the wait early. */
export interface Wait {
  ms: number;
  signal?: AbortSignal | undefined;
}

/** One element a call. */
export type CallBytes = (Uint8Array | undefined)[];

export interface BootOptions {
  name: string;
  storage: "auto" | "opfs" | "memory";
  nowMs?: number | undefined;
  wasmUrl?: string | undefined;
}

export type ToHost =
  /** `alive` names a Web Lock that the worker holds as long as it lives. */
  | { type: "boot"; options: BootOptions; alive: string }
  | { type: "calls"; id: number; calls: string[]; nowMs: number | undefined; deadlines: number[] | undefined; waitMs: number | undefined; bytes: CallBytes | undefined }
  /** Nobody waits for the answer to that message any more. */
  | { type: "withdraw"; id: number }
  | { type: "close" };

export type FromHost =
  /** While it boots: what it waits for, as the end of a sentence. The first one says that `alive` is held. */
  | { type: "waiting"; reason: string }
  | { type: "ready"; info: HostInfo }
  | { type: "failed"; error: ErrorData }
  | { type: "answers"; id: number; answers: Answer[] }
  /** The engine is dead. The answers to all that arrived follow, then `closed`. */
  | { type: "crashed"; reason: string }
  | { type: "closed" };

/** So many calls, or so much text and bytes, make one message and one transaction at most. */
export const groupLimit = { calls: 1_000, size: 8 << 20 };
/** What may wait for the engine; beyond it calls are refused as `busy`. */
export const waitingLimit = { calls: 100_000, size: 256 << 20 };

/** Milliseconds on one clock for all threads of a page, which does not jump when the system's does. */
export function sharedNow(): number {
  return performance.timeOrigin + performance.now();
}
