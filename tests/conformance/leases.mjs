import { equal, match } from "./assert.mjs";
import { all, claim, contents, enqueue, range, start } from "./kit.mjs";

const expired = async (store, filter) => (await all(store.leases.listExpired(filter))).map(({ id }) => id);

export const leases = {
  "expired leases are listed with what a reconciler needs, and nothing is done to them": async ({ store, clock }) => {
    await start(store, { id: "run" });
    await enqueue(store, { id: "a", executionId: "run", nodeId: "n" });
    await enqueue(store, { id: "b" });
    const [a] = await claim(store, { limit: 2, leaseMs: 1_000 });
    clock.advance(999);
    equal(await expired(store), []);
    clock.advance(1);
    const before = await contents(store);
    const lease = { id: "a", executionId: "run", queue: "q", fence: a.fence, workerId: "w1", attempt: 1, leaseExpiresAt: clock.now() };
    match(await store.leases.listExpired(), { items: [lease, { id: "b", queue: "q", leaseExpiresAt: clock.now() }], nextCursor: null });
    equal(await contents(store), before);
    await store.sweep();
    equal(await expired(store), []);
  },

  "expired leases can be listed as of a time, and of one namespace": async ({ store, clock }) => {
    for (const [id, leaseMs, namespace] of [["late", 3_000, "one"], ["early", 1_000, "two"], ["middle", 2_000, "one"]]) {
      await enqueue(store, { id });
      await claim(store, { leaseMs, namespace });
    }
    const at = clock.now();
    equal(await expired(store, { asOf: at + 999 }), []);
    equal(await expired(store, { asOf: at + 2_000 }), ["early", "middle"]);
    equal(await expired(store, { asOf: at + 9_000 }), ["early", "middle", "late"]);
    equal(await expired(store, { asOf: at + 9_000, namespace: "one" }), ["middle", "late"]);
    equal(await expired(store, { asOf: at + 9_000, namespace: "three" }), []);
  },

  "leases that end in the same millisecond are each listed once, whatever the page": async ({ store, clock }) => {
    await store.queue.enqueueMany(range(20).map((n) => ({ id: `r${n}`, queue: `q${n % 3}` })));
    await claim(store, { queues: ["q0", "q1", "q2"], limit: 20, leaseMs: 1_000 });
    clock.advance(1_000);
    for (const limit of [1, 3, 20, undefined]) equal(await expired(store, { limit }), range(20).map((n) => `r${n}`), `with a limit of ${limit}`);
  },
};
