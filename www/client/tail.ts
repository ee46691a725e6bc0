// What is there, then what comes: iterables over the logs and over the text of an item.
import { checkMembers, checkSignal, damaged, misused, type Send } from "./calls.js";
import type { NewText, Page, StoreOperations, Topic } from "./generated.js";
import type { Follow } from "./subscriptions.js";

type RowsOf<Namespace extends string> = Namespace extends keyof StoreOperations
  ? StoreOperations[Namespace] extends { list(...given: never[]): AsyncIterable<infer Row> }
    ? Row
    : never
  : never;

interface TailOptions {
  /** Ends the tail: the iteration throws `signal.reason`. */
  signal?: AbortSignal | undefined;
}

/** What can be followed, beside the operations of a namespace. */
export interface Tails {
  events: {
    /**
     * The events of an execution after the sequence `after` (from the first, unless given), then those that come, in order, without gaps,
     * whichever tab writes them. It goes on until you leave the loop, abort it, or close the store (`closed`).
     */
    tail(input: { executionId: string; after?: number | undefined }, options?: TailOptions): AsyncIterable<RowsOf<"events">>;
  };
  threadEvents: {
    /** The events of a thread after the sequence `after`, then those that come; see `events.tail`. */
    tail(input: { threadId: string; after?: number | undefined }, options?: TailOptions): AsyncIterable<RowsOf<"threadEvents">>;
  };
  items: {
    /**
     * The text of an item after so many UTF-16 code units, in pieces as they come: joined, they are the text. Ends when the item has ended, and
     * with `conflict` once another text takes the place of the one it has begun (`items.update`). `version` is that of `items.readText`, where
     * what comes before `after` was read by it.
     */
    tail(id: string, input?: { after?: number | undefined; version?: string | undefined }, options?: TailOptions): AsyncIterable<string>;
  };
}

/** An API with the tails of its namespaces. */
export type WithTails<Api> = { readonly [Name in keyof Api]: Name extends keyof Tails ? Api[Name] & Tails[Name] : Api[Name] };

/** What one read found, and where the next one begins. */
interface Piece<Value, Position> {
  values: readonly Value[];
  position: Position;
  /** There is more to read at once. */
  more: boolean;
  /** Nothing will ever follow. */
  last?: boolean;
}

interface Source<Value, Position> {
  signal: AbortSignal | undefined;
  topic: Topic;
  /** Only changes of this id matter, where it is known. */
  id?: string | undefined;
  start: Position;
  read(position: Position, signal: AbortSignal): Promise<Piece<Value, Position>>;
}

/** The tails of one tenant. */
export function buildTails(send: Send, follow: Follow): Tails {
  const rows = <Row extends { sequence: number }>(operation: string, topic: Topic, id: string, given: unknown[]) => {
    const name = operation.replace("list", "tail");
    return tail<Row, { after?: unknown; cursor?: string }>(follow, () => {
      const { args, signal } = readTail(name, given, [id, "after"]);
      const { after, ...which } = args;
      return {
        signal,
        topic,
        id: typeof which[id] === "string" ? which[id] : undefined,
        start: { after },
        async read(position, signal) {
          const page = (await send(operation, false, { ...which, ...position, limit: rowsAtOnce }, { signal })) as Page<Row>;
          if (page.damaged?.length) throw damaged(name, page.damaged);
          const { items, nextCursor } = page;
          if (nextCursor !== null) return { values: items, position: { ...position, cursor: nextCursor }, more: true };
          return { values: items, position: { after: items.at(-1)?.sequence ?? position.after }, more: false };
        },
      };
    });
  };
  return {
    events: { tail: (...given) => rows("events.list", "events", "executionId", given) },
    threadEvents: { tail: (...given) => rows("threadEvents.list", "thread_events", "threadId", given) as AsyncIterable<never> },
    items: {
      tail: (id, ...given) =>
        tail<string, Record<string, unknown>>(follow, () => {
          if (typeof id !== "string") throw misused("items.tail", "the first argument is id, a string", id);
          const { args, signal } = readTail("items.tail", given, ["after", "version"]);
          return {
            signal,
            topic: "thread_items",
            start: args,
            async read(position, signal) {
              const { text, status, length: after, version } = (await send("items.readText", false, { id, ...position }, { signal })) as NewText;
              return { values: text === "" ? [] : [text], position: { after, version }, more: false, last: status !== "queued" && status !== "in_progress" };
            },
          };
        }),
    },
  };
}

const rowsAtOnce = 500;

/** One or two objects, the last of which may hold the signal. */
function readTail(name: string, given: unknown[], known: string[]): { args: Record<string, unknown>; signal: AbortSignal | undefined } {
  const args: Record<string, unknown> = {};
  for (const object of given) {
    if (object === undefined) continue;
    checkMembers(name, object, [...known, "signal"]);
    Object.assign(args, object);
  }
  const { signal, ...rest } = args;
  checkSignal(name, signal);
  return { args: rest, signal };
}

function tail<Value, Position>(follow: Follow, source: () => Source<Value, Position>): AsyncIterable<Value> {
  async function* valuesUntil(left: AbortSignal): AsyncGenerator<Value, undefined> {
    const { signal, topic, id, start, read } = source();
    signal?.throwIfAborted();
    const over = new AbortController();
    let wake = () => {};
    const end = (reason: unknown) => {
      over.abort(reason);
      wake();
    };
    let stale = false;
    const unfollow = follow({
      onTick({ topics }) {
        const which = topics === undefined ? null : topics[topic];
        if (which === undefined || (which !== null && id !== undefined && !which.includes(id))) return;
        stale = true;
        wake();
      },
      onEnd: end,
    });
    // With the end, nothing is listened to any more.
    const untilEnd = { signal: over.signal };
    signal?.addEventListener("abort", () => end(signal.reason), untilEnd);
    left.addEventListener("abort", () => end(undefined), untilEnd);
    try {
      for (let position = start; ; ) {
        // The first tick says that from now on no change is missed.
        while (!stale && !over.signal.aborted) await new Promise<void>((resolve) => (wake = resolve));
        stale = false;
        for (let more = true; more; ) {
          over.signal.throwIfAborted();
          const piece = await read(position, over.signal);
          for (const value of piece.values) {
            over.signal.throwIfAborted();
            yield value;
          }
          if (piece.last) return;
          ({ position, more } = piece);
        }
      }
    } catch (error) {
      if (left.aborted) return;
      throw error;
    } finally {
      unfollow();
      over.abort();
    }
  }

  return {
    [Symbol.asyncIterator]() {
      const left = new AbortController();
      const values = valuesUntil(left.signal);
      return {
        next: () => values.next(),
        // A generator alone would not hear of it while it waits.
        return: () => {
          left.abort();
          return values.return(undefined);
        },
      };
    },
  };
}
