// Queries that are run again when what they read has changed.
import { buildOperations, checkFunction, type Send } from "./calls.js";
import { invalid, isRunkeepError } from "./errors.js";
import type { ReadOperation, StoreOperations, Topic } from "./generated.js";
import { operations } from "./operations.js";
import { guarded, type ChangedTopics, type Follow } from "./subscriptions.js";

type Reads<Namespace, Prefix extends string> = {
  readonly [Method in keyof Namespace as `${Prefix}.${Method & string}` extends ReadOperation ? Method : never]: Namespace[Method];
};

/** The operations that only read, for `live`. */
export type LiveOperations<Api = StoreOperations> = {
  readonly [Name in keyof Api as ReadOperation extends infer Read ? (Read extends `${Name & string}.${string}` ? Name : never) : never]: Reads<Api[Name], Name & string>;
};

/** What a live query has found so far. The same object as long as nothing is new. */
export type LiveSnapshot<Result> =
  | { readonly status: "loading"; readonly data?: undefined; readonly error?: undefined }
  | { readonly status: "ready"; readonly data: Result; readonly error?: undefined }
  /** `data` is the last result, if there was one. */
  | { readonly status: "error"; readonly data?: Result; readonly error: unknown };

/** A query that runs while somebody subscribes to it: made for React's `useSyncExternalStore`. */
export interface LiveQuery<Result> {
  /** What is known now. */
  getSnapshot(this: void): LiveSnapshot<Result>;
  /** Tells the listener of each new snapshot. Answers the function that ends it. */
  subscribe(this: void, listener: () => void): () => void;
}

const firstRetryMs = 1_000;
const longestRetryMs = 30_000;

/** Of which ids of a topic something was read; null where it may be any. */
type Interest = Map<Topic, Set<string> | null>;

export class Live<Result> implements LiveQuery<Result> {
  readonly #query: () => PromiseLike<Result> | Result;
  readonly #follow: Follow;
  readonly #listeners = new Set<{ listener: () => void }>();
  #snapshot: LiveSnapshot<Result> = { status: "loading" };
  #unfollow: (() => void) | undefined;
  #interest: Interest = new Map();
  /** Something has changed since the query last began. */
  #stale = false;
  #running = false;
  #retryMs = firstRetryMs;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(query: (store: LiveOperations) => PromiseLike<Result> | Result, send: Send, follow: Follow, include?: (operation: string) => boolean) {
    checkFunction("live", "the argument is a function of the store", query);
    const record: Send = async (operation, writes, args, options, bytes) => {
      if (writes) throw invalid(`live: a live query only reads; ${operation} may change something.`);
      note(this.#interest, operation, args);
      return await send(operation, writes, args, options, bytes);
    };
    const store = buildOperations(record, include) as unknown as LiveOperations;
    this.#query = () => query(store);
    this.#follow = follow;
  }

  getSnapshot = (): LiveSnapshot<Result> => this.#snapshot;

  subscribe = (listener: () => void): (() => void) => {
    checkFunction("live", "subscribe takes a function", listener);
    const entry = { listener };
    this.#listeners.add(entry);
    if (this.#listeners.size === 1) this.#start();
    return () => {
      if (this.#listeners.delete(entry) && this.#listeners.size === 0) this.#stop();
    };
  };

  #start(): void {
    try {
      this.#unfollow = this.#follow({
        onTick: ({ topics }) => (topics === undefined || concerns(this.#interest, topics)) && this.#refresh(),
        onEnd: (error) => {
          this.#unfollow = undefined;
          this.#failed(error);
        },
      });
    } catch (error) {
      // The store is closed. Whoever renders the snapshot sees it there.
      this.#failed(error);
    }
  }

  #stop(): void {
    this.#unfollow?.();
    this.#unfollow = undefined;
    clearTimeout(this.#retryTimer);
    this.#retryMs = firstRetryMs;
  }

  #refresh(): void {
    clearTimeout(this.#retryTimer);
    this.#stale = true;
    if (!this.#running) void this.#run();
  }

  /** One run at a time, so that no result can overtake a newer one. */
  async #run(): Promise<void> {
    this.#running = true;
    while (this.#stale && this.#listeners.size > 0) {
      this.#stale = false;
      // What the query has not asked for yet it will read as it is then.
      const before = this.#interest;
      this.#interest = new Map();
      try {
        const data = await this.#query();
        this.#retryMs = firstRetryMs;
        // What was under way when the store was closed comes too late.
        if (this.#unfollow) this.#set({ status: "ready", data });
      } catch (error) {
        // It may have failed before it came to ask for everything.
        for (const [topic, ids] of before) add(this.#interest, topic, ids);
        this.#failed(error);
        this.#retryLater(error);
      }
    }
    this.#running = false;
  }

  #failed(error: unknown): void {
    const { data } = this.#snapshot;
    this.#set(data === undefined ? { status: "error", error } : { status: "error", data, error });
  }

  /** For faults that pass by themselves, of which no change tells. */
  #retryLater(error: unknown): void {
    if (!isRunkeepError(error) || !error.retryable || this.#listeners.size === 0) return;
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => this.#refresh(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, longestRetryMs);
    // In Node a timer would keep the process alive.
    (this.#retryTimer as { unref?: () => void }).unref?.();
  }

  #set(snapshot: LiveSnapshot<Result>): void {
    this.#snapshot = snapshot;
    for (const entry of [...this.#listeners]) if (this.#listeners.has(entry)) guarded(entry.listener);
  }
}

/** Which argument holds what the ids of a topic's changes are. */
const idArguments: [name: string, topics: Topic[]][] = [
  ["executionId", ["executions", "events", "timers"]],
  ["queue", ["items", "queues"]],
  ["threadId", ["threads", "turns", "thread_items", "thread_events", "inbox"]],
];
const subjects: Record<string, string> = { "executions.get": "executionId", "executions.materialize": "executionId", "threads.get": "threadId" };

function note(interest: Interest, operation: string, args: Record<string, unknown>): void {
  const { topics } = operations[operation]!;
  for (const topic of topics) {
    const [name] = idArguments.find(([, topics]) => topics.includes(topic)) ?? [];
    const id = name !== undefined && (name === subjects[operation] ? args.id : args[name]);
    add(interest, topic, typeof id === "string" ? [id] : null);
  }
}

function add(interest: Interest, topic: Topic, ids: Iterable<string> | null): void {
  const known = interest.get(topic);
  if (ids === null || known === null) interest.set(topic, null);
  else interest.set(topic, new Set([...(known ?? []), ...ids]));
}

function concerns(interest: Interest, changed: ChangedTopics): boolean {
  for (const [topic, ids] of interest) {
    const which = changed[topic];
    if (which !== undefined && (which === null || ids === null || which.some((id) => ids.has(id)))) return true;
  }
  return false;
}
