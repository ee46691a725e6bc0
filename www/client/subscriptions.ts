// Who wants to hear of changes: one listener on the connection for all of a page's subscriptions of one store.
import type { Change } from "../host/protocol.js";
import { checkFunction, checkMembers, describe } from "./calls.js";
import { invalid, type RunkeepError } from "./errors.js";
import { topics as allTopics, type Topic } from "./generated.js";

/** Per topic that changed: the ids of what changed, or null where it may be anything. */
export type ChangedTopics = Readonly<Partial<Record<Topic, readonly string[] | null>>>;

/** What a subscriber is told. */
export interface StoreChange {
  readonly topics: ChangedTopics;
  /** `start`: it listens from now on. `reconnect`: the way to the store was lost for a while. In both, anything may have changed. */
  readonly reason: "start" | "change" | "reconnect";
}

/** What to be told of; everything where nothing is said. */
export interface ChangeFilter {
  topics?: Topic | readonly Topic[] | undefined;
  /**
   * Only of these: of executions, events and timers ids of executions, of items and queues names of queues, of threads and what belongs
   * to them ids of threads.
   */
  ids?: readonly string[] | undefined;
}

/** Ends a subscription; calling it again does nothing. */
export interface Unsubscribe extends Disposable {
  (): void;
}

/** What reaches those that follow the changes of one tenant; without `topics` it may be anything. */
export interface Tick {
  reason: StoreChange["reason"];
  topics?: ChangedTopics;
}

/** Who follows the changes of one tenant. */
export interface Follower {
  onTick(tick: Tick): void;
  /** The store was closed under it: nothing comes any more. */
  onEnd?(error: RunkeepError): void;
}

/** Answers the function that ends it. The first tick comes soon, and never before that. */
export type Follow = (follower: Follower) => () => void;

/** The part of a connection that tells of changes. */
export interface ChangeSource {
  /** What is read after this was called holds all that is not reported. `"all"`: anything may have changed, for the way was lost. */
  listen(onChange: (changes: Change[] | "all") => void): () => void;
}

export class Subscriptions {
  readonly #source: ChangeSource;
  readonly #followers = new Set<{ tenant: string; follower: Follower }>();
  #stopListening: (() => void) | undefined;

  constructor(source: ChangeSource) {
    this.#source = source;
  }

  follow(tenant: string, follower: Follower): () => void {
    const entry = { tenant, follower };
    this.#followers.add(entry);
    this.#stopListening ??= this.#source.listen((changes) => this.#tell(changes));
    // Not at once: the caller does not have its unsubscribe function yet.
    queueMicrotask(() => this.#followers.has(entry) && guarded(() => follower.onTick({ reason: "start" })));
    return () => {
      if (!this.#followers.delete(entry) || this.#followers.size > 0) return;
      this.#stopListening?.();
      this.#stopListening = undefined;
    };
  }

  #tell(changes: Change[] | "all"): void {
    for (const entry of [...this.#followers]) {
      const { tenant, follower } = entry;
      const ticks: Tick[] = changes === "all" ? [{ reason: "reconnect" }] : changes.filter((change) => change.tenant === tenant).map(({ topics }) => ({ reason: "change", topics }));
      // One may have ended another meanwhile.
      for (const tick of ticks) if (this.#followers.has(entry)) guarded(() => follower.onTick(tick));
    }
  }
}

const knownTopics = [...allTopics].sort();

type OnChange = (change: StoreChange) => void;

/** `store.subscribe`, for one tenant. */
export function subscribe(follow: Follow, given: [ChangeFilter | undefined, OnChange] | [OnChange]): Unsubscribe {
  const callback = given.at(-1) as OnChange;
  checkFunction("subscribe", "the last argument is a function", callback);
  const filter = (given.length > 1 && (given[0] as ChangeFilter | undefined)) || {};
  checkMembers("subscribe", filter, ["topics", "ids"]);
  const { topics: asked, ids } = filter;
  const topics = asked === undefined ? knownTopics : typeof asked === "string" ? [asked] : asked;
  if (!isArrayOf(topics, (topic) => knownTopics.includes(topic as Topic))) {
    throw invalid(`subscribe: topics is one or several of ${knownTopics.join(", ")}; got ${named(topics)}.`);
  }
  if (ids !== undefined && !isArrayOf(ids, (id) => typeof id === "string")) {
    throw invalid(`subscribe: ids is an array of strings, at least one; got ${named(ids)}.`);
  }
  const everything = Object.fromEntries(topics.map((topic) => [topic, null])) as ChangedTopics;
  const wanted = ids && new Set(ids);
  const stop = follow({
    onTick({ reason, topics: changed }) {
      if (changed === undefined) return callback({ reason, topics: everything });
      const told: Partial<Record<Topic, readonly string[] | null>> = {};
      for (const topic of topics) {
        const which = changed[topic];
        if (which === undefined) continue;
        const some = which === null || wanted === undefined ? which : which.filter((id) => wanted.has(id));
        if (some === null || some.length > 0) told[topic] = some;
      }
      if (Object.keys(told).length > 0) callback({ reason, topics: told });
    },
  });
  return unsubscriber(stop);
}

export function unsubscriber(stop: () => void): Unsubscribe {
  const unsubscribe = (() => stop()) as Unsubscribe;
  if (Symbol.dispose) unsubscribe[Symbol.dispose] = unsubscribe;
  return unsubscribe;
}

function isArrayOf(value: unknown, is: (element: unknown) => boolean): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(is);
}

function named(value: unknown): string {
  return Array.isArray(value) ? `[${value.map(describe).join(", ")}]` : describe(value);
}

/** Runs a function of the caller's. What it throws is an uncaught error, as an event listener's, and keeps nothing from the others. */
export function guarded(run: () => void): void {
  try {
    run();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
