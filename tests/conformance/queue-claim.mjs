import { equal, match, ok } from "./assert.mjs";
import { all, claim, claimOne, enqueue, range, refuses, register } from "./kit.mjs";

const ids = (items) => items.map(({ id }) => id);

export const claiming = {
  "a claim gives an item with a lease and a fence": async ({ store, clock }) => {
    const { created, ...item } = await enqueue(store, { payload: { n: 1 } });
    clock.advance(5);
    const claimed = await claimOne(store);
    equal(claimed, { ...item, status: "claimed", attempt: 1, fence: claimed.fence, workerId: "w1", claimedAt: clock.now(), leaseExpiresAt: clock.now() + 30_000 });
    ok(claimed.fence > 0, `the fence is ${claimed.fence}`);
    equal(await store.queue.get(item.id), claimed);
    equal(await claim(store, { workerId: "w2" }), []);
    await enqueue(store);
    match(await claimOne(store, { leaseMs: 1_234 }), { leaseExpiresAt: clock.now() + 1_234 });
  },

  "the order is priority, then runAt, then the order of enqueueing": async ({ store, clock }) => {
    const now = clock.now();
    for (const [id, priority, runAt] of [["e", 0, now], ["f", 0, now], ["d", 0, now - 10], ["b", 5, now], ["g", -1, now - 99], ["c", 5, now], ["a", 5, now - 1]]) {
      await enqueue(store, { id, priority, runAt });
    }
    equal(ids(await claim(store, { limit: 3 })), ["a", "b", "c"]);
    equal(ids(await claim(store, { limit: 1000 })), ["d", "e", "f", "g"]);
  },

  "the order goes over all named queues, and over no others": async ({ store }) => {
    for (const [id, queue, priority] of [["a2", "a", 2], ["b3", "b", 3], ["c9", "c", 9], ["b1", "b", 1], ["a1", "a", 1]]) await enqueue(store, { id, queue, priority });
    equal(ids(await claim(store, { queues: ["a", "b", "nothing here"], limit: 10 })), ["b3", "a2", "b1", "a1"]);
    equal(ids(await claim(store, { queues: ["c", "c"], limit: 10 })), ["c9"]);
  },

  "a claim gives one item unless told otherwise, and at most the limit": async ({ store }) => {
    await store.queue.enqueueMany(range(10).map(() => ({ queue: "q" })));
    equal((await claim(store)).length, 1);
    equal((await claim(store, { limit: 4 })).length, 4);
    equal((await claim(store, { limit: 1000 })).length, 5);
    equal(await claim(store, { limit: 1000 }), []);
    for (const limit of [0, -1, 1001, 1.5]) await refuses(store, () => claim(store, { limit }), "invalid_argument", /limit/);
  },

  "a claim from no queues, or from queues nobody knows, gives nothing": async ({ store }) => {
    await enqueue(store);
    equal(await claim(store, { queues: [], limit: 10 }), []);
    equal(await claim(store, { queues: ["unknown"], limit: 10 }), []);
  },

  "a scheduled item is given from its runAt on, without a sweep": async ({ store, clock }) => {
    const { id, runAt } = await enqueue(store, { delayMs: 100 });
    clock.advance(99);
    equal(await claim(store), []);
    clock.advance(1);
    equal(clock.now(), runAt);
    match(await claimOne(store), { id, attempt: 1 });
  },

  "a due item with a higher priority goes before one that waited": async ({ store, clock }) => {
    await enqueue(store, { id: "waits" });
    await enqueue(store, { id: "urgent", priority: 1, delayMs: 50 });
    clock.advance(50);
    equal(ids(await claim(store, { limit: 2 })), ["urgent", "waits"]);
  },

  "every claim of an item has a larger fence": async ({ store, clock }) => {
    await enqueue(store, { maxAttempts: 100, backoff: { kind: "fixed", baseMs: 0 } });
    const fences = [];
    for (const ends of ["release", "fail", "expire", "release", "expire", "fail"]) {
      const item = await claimOne(store, { leaseMs: 10 });
      fences.push(item.fence);
      if (ends === "release") await store.queue.release(item);
      if (ends === "fail") await store.queue.fail(item, { error: "no" });
      if (ends === "expire") clock.advance(10);
    }
    equal(fences, [...new Set(fences)].sort((a, b) => a - b));
  },

  "two workers that claim at once never get the same item, and finish them all": async ({ store }) => {
    const count = 300;
    await store.queue.enqueueMany(range(count).map((n) => ({ id: `i${n}`, queue: "q" })));
    const done = [];
    const work = async (workerId) => {
      for (;;) {
        const items = await claim(store, { workerId, limit: 7 });
        if (items.length === 0) return;
        await Promise.all(items.map((item) => store.queue.complete(item)));
        done.push(...ids(items));
      }
    };
    await Promise.all([work("w1"), work("w2"), work("w3")]);
    equal(done.length, count);
    equal(new Set(done).size, count);
    match(await store.queues.stats(), { counts: { completed: count, pending: 0, claimed: 0 } });
  },

  "an item that is claimed and completed in the same millisecond is completed, each time": async ({ store }) => {
    const count = 300;
    await store.queue.enqueueMany(range(count).map(() => ({ queue: "q" })));
    for (let n = 0; n < count; n++) await store.queue.complete(await claimOne(store));
    match(await store.queues.stats(), { counts: { completed: count } });
  },

  "an item with requirements goes only to a registered worker that has them all": async ({ store }) => {
    await enqueue(store, { requires: ["gpu", "big"] });
    await register(store, { workerId: "small", capabilities: ["gpu"] });
    await register(store, { workerId: "large", capabilities: ["x", "gpu", "big"] });
    equal(await claim(store, { workerId: "unknown" }), []);
    equal(await claim(store, { workerId: "small" }), []);
    match(await claimOne(store, { workerId: "large" }), { workerId: "large", requires: ["big", "gpu"] });
  },

  "a worker whose registration has lapsed gets plain items only": async ({ store, clock }) => {
    await register(store, { capabilities: ["gpu"], livenessTtlMs: 1_000 });
    await enqueue(store, { id: "gpu", requires: ["gpu"], priority: 1 });
    await enqueue(store, { id: "plain" });
    clock.advance(1_000);
    equal(ids(await claim(store, { limit: 10 })), ["plain"]);
    await register(store, { capabilities: ["gpu"] });
    equal(ids(await claim(store, { limit: 10 })), ["gpu"]);
  },

  "capabilities count in the worker's own namespace": async ({ store }) => {
    await register(store, { namespace: "a", capabilities: ["gpu"] });
    await enqueue(store, { requires: ["gpu"] });
    equal(await claim(store), []);
    equal(await claim(store, { namespace: "b" }), []);
    equal((await claim(store, { namespace: "a" })).length, 1);
  },

  "a hundred items for special workers do not hold up a plain one": async ({ store }) => {
    await store.queue.enqueueMany(range(100).map(() => ({ queue: "q", requires: ["gpu"], priority: 1 })));
    await enqueue(store, { id: "plain" });
    match(await claimOne(store), { id: "plain" });
  },

  "a lease that ran out is given on by a later claim, after the backoff": async ({ store, clock }) => {
    const { id } = await enqueue(store);
    const first = await claimOne(store, { leaseMs: 1_000 });
    clock.advance(999);
    equal(await claim(store, { workerId: "w2" }), []);
    match(await store.queue.get(id), { status: "claimed" });
    clock.advance(1);
    equal(await claim(store, { workerId: "w2" }), []);
    match(await store.queue.get(id), { status: "scheduled", attempt: 1, runAt: clock.now() + 2_000 });
    clock.advance(2_000);
    const second = await claimOne(store, { workerId: "w2" });
    match(second, { id, attempt: 2, workerId: "w2" });
    ok(second.fence > first.fence, "the fence did not rise");
  },

  "when the clock goes back, nothing is claimed twice or lost": async ({ store, clock }) => {
    await enqueue(store, { id: "a" });
    clock.advance(-60_000);
    await enqueue(store, { id: "b" });
    equal(ids(await claim(store, { limit: 10, leaseMs: 1_000 })), ["b", "a"]);
    clock.advance(-60_000);
    equal(await claim(store, { limit: 10 }), []);
    equal((await all(store.queue.list({ status: "claimed" }))).length, 2);
  },
};
