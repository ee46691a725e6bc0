import { equal, match, ok } from "./assert.mjs";
import { all, range, refuses } from "./kit.mjs";

const sequences = async (store, threadId, more) => (await all(store.threadEvents.list({ threadId, ...more }))).map(({ sequence }) => sequence);

export const threadEvents = {
  "events of all threads are numbered in one rising sequence": async ({ store, clock }) => {
    for (const id of ["a", "b"]) await store.threads.create({ id });
    const given = [];
    for (const n of range(6)) given.push(await store.threadEvents.append(n % 2 ? "b" : "a", { type: "said", data: { n } }));
    equal(given, [1, 2, 3, 4, 5, 6]);
    equal([await sequences(store, "a"), await sequences(store, "b")], [[1, 3, 5], [2, 4, 6]]);
    clock.advance(5);
    await store.threadEvents.append("a", { type: "späte, \"Sache\"", turnId: "u", itemId: "i", data: [null, { deep: [1] }] });
    const { items } = await store.threadEvents.list({ threadId: "a", after: 5 });
    equal(items, [{ sequence: 7, threadId: "a", turnId: "u", itemId: "i", type: "späte, \"Sache\"", data: [null, { deep: [1] }], createdAt: clock.now() }]);
    await store.threadEvents.append("a", { type: "bare" });
    match((await store.threadEvents.list({ threadId: "a", after: 7 })).items, [{ type: "bare", data: null }]);
  },

  "a number is never given twice, also when the newest events are deleted": async ({ store, reopen }) => {
    for (const id of ["a", "b"]) await store.threads.create({ id });
    await store.threadEvents.append("a", { type: "x" });
    for (const _ of range(3)) await store.threadEvents.append("b", { type: "x" });
    await store.threads.delete("b");
    const again = await reopen();
    const first = (await again.threads.get("a")) ? 5 : 1;
    if (first === 1) await again.threads.create({ id: "a" });
    equal(await again.threadEvents.append("a", { type: "x" }), first);
  },

  "appending at the same time leaves no gap and repeats nothing": async ({ store }) => {
    await store.threads.create({ id: "t" });
    const given = await Promise.all(range(50).map((n) => store.threadEvents.append("t", { type: "x", data: n })));
    equal([...given].sort((a, b) => a - b), range(50).map((n) => n + 1));
    const events = await all(store.threadEvents.list({ threadId: "t", limit: 7 }));
    equal(events.map(({ sequence }) => sequence), range(50).map((n) => n + 1));
    for (const { sequence, data } of events) equal(given[data], sequence);
  },

  "events are listed after a sequence, by type, in either order": async ({ store }) => {
    await store.threads.create({ id: "t" });
    for (const n of range(9)) await store.threadEvents.append("t", { type: n % 3 ? "b" : "a" });
    const list = (more) => sequences(store, "t", { limit: 2, ...more });
    equal(await list(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    equal(await list({ after: 6 }), [7, 8, 9]);
    equal(await list({ after: 6, order: "desc" }), [9, 8, 7]);
    equal(await list({ types: ["a"] }), [1, 4, 7]);
    equal(await list({ types: ["a"], after: 1, order: "desc" }), [7, 4]);
    equal(await list({ types: ["a", "b"], after: 8 }), [9]);
    equal(await list({ types: [] }), []);
    equal(await list({ after: 9 }), []);
    equal(await list({ after: Number.MAX_SAFE_INTEGER }), []);
    equal((await list({ after: -5 })).length, 9);
  },

  "events of a thread that is not there are refused": async ({ store }) => {
    await refuses(store, () => store.threadEvents.append("ghost", { type: "x" }), "not_found", /ghost/);
    await refuses(store, () => sequences(store, "ghost"), "not_found", /ghost/);
    await store.threads.create({ id: "t" });
    ok((await store.threadEvents.append("t", { type: "x" })) === 1, "what is refused takes no number");
  },
};
