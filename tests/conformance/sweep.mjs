import { equal, match, ok } from "./assert.mjs";
import { all, claim, contents, enqueue, range, refuses, register } from "./kit.mjs";

export const sweeping = {
  "a sweep does what time brings, and reports it": async ({ store, clock }) => {
    await store.queue.enqueueMany([{ queue: "q", id: "retried" }, { queue: "q", id: "dead", maxAttempts: 1 }, { queue: "q", id: "held" }]);
    await claim(store, { limit: 2, leaseMs: 1_000 });
    await claim(store, { leaseMs: 60_000 });
    await enqueue(store, { id: "due", delayMs: 1_000 });
    await enqueue(store, { id: "not due", delayMs: 1_001 });
    await register(store, { workerId: "lapsed", livenessTtlMs: 1_000 });
    await register(store, { workerId: "alive", livenessTtlMs: 1_001 });
    clock.advance(1_000);
    match(await store.sweep(), { leasesRetried: 1, leasesDeadLettered: 1, workersExpired: 1, itemsReadied: 1, more: false, errors: [] });
    equal(
      Object.fromEntries((await all(store.queue.list())).map(({ id, status }) => [id, status])),
      { retried: "scheduled", dead: "dead_lettered", held: "claimed", due: "pending", "not due": "scheduled" },
    );
    equal((await all(store.workers.list())).map(({ workerId }) => workerId), ["alive"]);
  },

  "a sweep with nothing to do changes nothing": async ({ store, clock }) => {
    match(await store.sweep(), { leasesRetried: 0, leasesDeadLettered: 0, workersExpired: 0, itemsReadied: 0, more: false, errors: [] });
    await enqueue(store);
    await enqueue(store, { delayMs: 5_000 });
    await claim(store);
    await register(store);
    clock.advance(1_000);
    const before = await contents(store);
    await store.sweep();
    await store.sweep({ intervalMs: 1_000 });
    equal(await contents(store), before);
  },

  "a sweep again finds nothing that the first one did": async ({ store, clock }) => {
    await enqueue(store, { maxAttempts: 1 });
    await claim(store, { leaseMs: 1_000 });
    await enqueue(store, { delayMs: 500 });
    clock.advance(1_000);
    match(await store.sweep(), { leasesDeadLettered: 1, itemsReadied: 1 });
    const before = await contents(store);
    match(await store.sweep(), { leasesDeadLettered: 0, itemsReadied: 0 });
    equal(await contents(store), before);
  },

  "a sweep does a bounded amount of work, and says that there is more": async ({ store, clock }) => {
    await store.queue.enqueueMany(range(25).map(() => ({ queue: "q", maxAttempts: 1 })));
    await claim(store, { limit: 25, leaseMs: 1_000 });
    await store.queue.enqueueMany(range(7).map((n) => ({ queue: `q${n}`, delayMs: 1_000 })));
    clock.advance(1_000);
    const sum = { leasesDeadLettered: 0, itemsReadied: 0 };
    let sweeps = 0;
    for (let report = { more: true }; report.more; sweeps++) {
      ok(sweeps < 20, "the sweeps do not end");
      report = await store.sweep({ limit: 10 });
      const done = report.leasesDeadLettered + report.itemsReadied;
      ok(done <= 10, `one sweep did ${done}`);
      ok(done === 10 || !report.more, `a sweep that did ${done} of 10 says that there is more`);
      sum.leasesDeadLettered += report.leasesDeadLettered;
      sum.itemsReadied += report.itemsReadied;
    }
    equal(sum, { leasesDeadLettered: 25, itemsReadied: 7 });
  },

  "a sweep that has done exactly all there was says that there is no more": async ({ store, clock }) => {
    await store.queue.enqueueMany(range(3).map(() => ({ queue: "q", delayMs: 1_000 })));
    clock.advance(1_000);
    match(await store.sweep({ limit: 3 }), { itemsReadied: 3, more: false });
  },

  "by default a sweep deals with 500 rows": async ({ store, clock }) => {
    await store.queue.enqueueMany(range(510).map(() => ({ queue: "q", delayMs: 1_000 })));
    clock.advance(1_000);
    match(await store.sweep(), { itemsReadied: 500, more: true });
    match(await store.sweep(), { itemsReadied: 10, more: false });
  },

  "a sweep takes a limit and an interval that make sense, and nothing else": async ({ store, clock }) => {
    await enqueue(store, { delayMs: 10 });
    clock.advance(10);
    for (const limit of [0, -1, 1.5, "5"]) await refuses(store, () => store.sweep({ limit }), "invalid_argument", /limit/);
    for (const intervalMs of [0, -1, "5"]) await refuses(store, () => store.sweep({ intervalMs }), "invalid_argument", /intervalMs/);
    await refuses(store, () => store.sweep({ forever: true }), "invalid_argument", /forever/);
  },

  "a lease ends in the millisecond in which it runs out": async ({ store, clock }) => {
    await enqueue(store);
    const [{ leaseExpiresAt }] = await claim(store, { leaseMs: 500 });
    clock.set(leaseExpiresAt - 1);
    match(await store.sweep(), { leasesRetried: 0 });
    clock.set(leaseExpiresAt);
    match(await store.sweep(), { leasesRetried: 1 });
  },

  "the counts of the queue stay right over all that": async ({ store, clock }) => {
    await store.queue.enqueueMany(range(20).map((n) => ({ queue: `q${n % 3}`, maxAttempts: 1 + (n % 2), delayMs: n % 5 })));
    for (let turn = 0; turn < 6; turn++) {
      clock.advance(1_500);
      await store.queue.claim({ workerId: "w1", queues: ["q0", "q1", "q2"], limit: 6, leaseMs: 1_000 });
      await store.sweep({ limit: 4 });
      for (const queue of ["q0", "q1", "q2", undefined]) {
        const counts = { scheduled: 0, pending: 0, claimed: 0, completed: 0, dead_lettered: 0, cancelled: 0 };
        for (const { status } of await all(store.queue.list({ queue }))) counts[status] += 1;
        equal((await store.queues.stats({ queue })).counts, counts, `the counts of ${queue ?? "all queues"} in turn ${turn}`);
      }
    }
  },
};
