// A store as its subscribers see it: a log that can be written, read slowly, lost and found again.
import { modules, settled } from "./client-modules.mjs";

const { RunkeepError, Subscriptions } = modules;

/** Where changes come from. `tell` tells of changes, `listening` says whether anybody would hear. */
export function fakeSource() {
  const source = {
    listening: 0,
    listen(onChange) {
      source.listening++;
      source.tell = onChange;
      return () => {
        source.listening--;
        source.tell = () => {};
      };
    },
    tell() {},
    change: (topics, tenant = "default") => source.tell([{ tenant, topics }]),
  };
  return source;
}

/** A log of events, and how a tail or a live query comes to it. `delay` has the reads wait for `release`. */
export function fakeStore() {
  const source = fakeSource();
  const subscriptions = new Subscriptions(source);
  const followers = new Set();
  const store = {
    source,
    log: [],
    reads: [],
    held: [],
    delay: false,
    /** Rows that a page holds at most. */
    pageSize: Infinity,
    fault: undefined,
    append(data, { told = true } = {}) {
      store.log.push({ sequence: store.log.length + 1, data });
      if (told) source.change({ events: ["run"] });
    },
    async send(operation, _writes, args, { signal } = {}) {
      store.reads.push([operation, args]);
      if (store.fault) throw store.fault;
      if (store.delay) {
        await new Promise((resolve, reject) => {
          store.held.push(resolve);
          signal?.addEventListener("abort", () => reject(signal.reason));
        });
      }
      return store.answer(operation, args);
    },
    answer(_operation, { after = 0, cursor, limit }) {
      const from = cursor === undefined ? after : Number(cursor);
      const rows = store.log.filter(({ sequence }) => sequence > from);
      const items = rows.slice(0, Math.min(limit ?? 100, store.pageSize));
      return { items, nextCursor: items.length < rows.length ? String(items.at(-1).sequence) : null };
    },
    async release() {
      store.held.splice(0).forEach((resume) => resume());
      await settled();
    },
    follow(follower) {
      const stop = subscriptions.follow("default", follower);
      followers.add(follower);
      return () => {
        followers.delete(follower);
        stop();
      };
    },
    close() {
      for (const { onEnd } of [...followers]) onEnd?.(new RunkeepError("closed", "closed"));
    },
  };
  return store;
}
