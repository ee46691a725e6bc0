// What clients, workers and the owner of a store say to each other, wherever they run.
import type { Topic } from "../client/generated.js";

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
  /** Whether it is a worker of this page that has the store open. */
  owner?: boolean;
  /** The page among the store's clients. */
  clientId?: string;
}

/** What a call is answered with: JSON text, `{"ok": result}` or `{"error": {code, message, details?, retryable}}`, and bytes beside it. */
export type Answer = string | { text: string; bytes: Uint8Array };

/** One element a call. */
export type CallBytes = (Uint8Array | undefined)[];

/** What tells a call that is sent again from another one, so that it takes effect once. */
export interface Requests {
  /** One a call; they rise over the client's life. */
  numbers: number[];
  /** Which of the calls were sent before, and may have been applied. */
  again?: boolean[];
  /** The answers to all calls up to this number have arrived. */
  acked: number;
}

/** Calls that go together. */
export interface Calls {
  /** Flat: operation, arguments, operation, arguments …, the arguments being the JSON text of one object. */
  calls: string[];
  /** What bytes each call has beside its text, where any has. */
  bytes?: CallBytes | undefined;
  /** The store's time for these calls, where it is not the system's. */
  nowMs?: number | undefined;
  /** One time of `sharedNow` a call: one that was not begun by then need not be run. */
  deadlines?: number[] | undefined;
  requests?: Requests | undefined;
  /** Others go first. */
  background?: boolean | undefined;
}

/** What a commit changed for one tenant: per topic the ids of what changed, or null where it may be anything. */
export interface Change {
  tenant: string;
  topics: Partial<Record<Topic, string[] | null>>;
}

/** The way to a host: a worker, another tab, the same thread, or a program of your own. */
export interface Transport {
  readonly info?: HostInfo;
  /** Why the host ended by itself, or is no longer the one to ask. */
  readonly ended?: string | undefined;
  /** Resolves when `ended` is set. */
  readonly whenEnded?: Promise<void>;
  /** Whether calls that it left unanswered may be sent again to the next host, which then answers them without applying them twice. */
  readonly repeats?: boolean;
  /** Answers each call, in order. `wait` is for a message of one claim that finds nothing. */
  send(message: Calls, wait?: Wait): Promise<Answer[]>;
  /** Sweeps, unless another client has had it done within the interval; answers the report of the last sweep. */
  tick?(intervalMs: number, nowMs?: number): Promise<Answer>;
  /** From now on tells of changes after their commit, coalesced; or no longer. */
  listen?(onChange: ((changes: Change[]) => void) | undefined): void;
  /** Gives everything up at once, while the browser keeps the page for its back button. */
  suspend?(): void;
  /** Answers what was sent, then gives the storage back. */
  close(): Promise<void>;
}

/** How long a claim waits for something to claim, and what ends the wait early. */
export interface Wait {
  ms: number;
  signal?: AbortSignal | undefined;
}

export type Durability = "relaxed" | "strict";

export interface BootOptions {
  name: string;
  storage: "auto" | "opfs" | "memory";
  durability: Durability;
  nowMs?: number | undefined;
  wasmUrl?: string | undefined;
}

/** A client introduces itself to the owner, on the link that it will use. */
export interface Hello {
  type: "hello";
  client: string;
  /** Rises with each link that the client tries: the latest counts. */
  attempt: number;
  version: string;
  /** The client's `sharedNow`. */
  now: number;
  durability: Durability;
  visible: boolean;
  /** Whether its own worker stands by to take the store over. */
  ready: boolean;
}

/** From a client to the owner. */
export type ToOwner =
  | Hello
  | ({ type: "calls"; id: number; waitMs?: number | undefined } & Calls)
  | { type: "tick"; id: number; intervalMs: number; nowMs?: number | undefined }
  /** Nobody waits for the answer to that message any more. */
  | { type: "withdraw"; id: number }
  | { type: "listen"; on: boolean }
  /** The last `changed` has been dealt with. */
  | { type: "seen" }
  /** `leaving`: it will not be able to say more. */
  | { type: "state"; visible: boolean; ready: boolean; leaving?: boolean }
  | { type: "goodbye" };

/** From the owner to a client. */
export type FromOwner =
  | { type: "welcome"; info: HostInfo }
  | { type: "refused"; error: ErrorData }
  | { type: "answers"; id: number; answers: Answer[] }
  | { type: "changed"; changes: Change[] }
  /** What is not answered by now will not be: another owner comes. */
  | { type: "leaving"; reason: string }
  /** The client's worker shall take the store: nobody holds it open now. */
  | { type: "takeOver" }
  /** A newer version of the package wants the store. */
  | { type: "versionchange"; message: string }
  /** The files are gone. */
  | { type: "lost"; error: ErrorData };

/** From a page to its own worker, besides what it says to it as to an owner. */
export type ToWorker =
  /** `id` names the worker: it holds the lock `aliveLock(id)` as long as it lives. */
  | { type: "boot"; options: BootOptions; id: string }
  /** A port comes with it, whose other end a client in another page has. */
  | { type: "visitor" }
  | { type: "steal" }
  | { type: "close" };

/** From a worker to its page, besides what it says as an owner. */
export type FromWorker =
  /** While it boots: what it waits for, as the end of a sentence. The first one says that it holds its lock. */
  | { type: "waiting"; reason: string }
  /** It stands by: it will open the store once nobody else has it. */
  | { type: "standby" }
  | { type: "owning"; epoch: number }
  /** It has given the store to another. */
  | { type: "disowned" }
  | { type: "failed"; error: ErrorData }
  | { type: "closed"; reason: string };

/** On the channel of a store, heard by everyone. */
export type Broadcast =
  /** Whoever owns the store, say so. */
  | { type: "who" }
  /** `epoch` is larger than any before. */
  | { type: "owner"; owner: string; epoch: number }
  /** A client without a port: the owner opens `clientChannel` for it. */
  | { type: "visit"; owner: string; hello: Hello };

/** From pages to the broker, a shared worker. */
export type ToBroker =
  | { type: "own"; owner: string }
  /** A port comes with it, for that owner. */
  | { type: "reach"; owner: string };

/** The owner of a store holds this lock. */
export const storeLock = (name: string) => `runkeep:${name}`;
/** A worker holds it as long as it lives. */
export const aliveLock = (worker: string) => `runkeep-alive:${worker}`;
/** A client holds it as long as it lives. */
export const clientLock = (client: string) => `runkeep-client:${client}`;
export const storeChannel = (name: string) => `runkeep:${name}`;
export const clientChannel = (owner: string, client: string) => `runkeep:${owner}:${client}`;

/** So many calls, or so much text and bytes, make one message and one transaction at most. */
export const groupLimit = { calls: 1_000, size: 8 << 20 };
/** What may wait for the engine; beyond it calls are refused as `busy`. */
export const waitingLimit = { calls: 100_000, size: 256 << 20 };

/** Milliseconds on one clock for all threads of a page, which does not jump when the system's does. */
export function sharedNow(): number {
  return performance.timeOrigin + performance.now();
}

/** Whether a version number is older than another. */
export function isOlder(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split(/[.-]/).map(Number));
  const differing = [0, 1, 2].find((part) => (a![part] || 0) !== (b![part] || 0));
  return differing !== undefined && (a![differing] || 0) < (b![differing] || 0);
}

/** Resolves, once the lock is held, to the function that releases it. `onLost` hears of somebody who has stolen it. */
export function holdLock(name: string, options: LockOptions = {}, onLost = (_: unknown) => {}): Promise<() => void> {
  return new Promise((resolve, reject) => {
    let held = false;
    const hold = () =>
      new Promise<void>((release) => {
        held = true;
        resolve(release);
      });
    navigator.locks.request(name, options, hold).catch((error) => (held ? onLost(error) : reject(error)));
  });
}
