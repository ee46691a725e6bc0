// A laptop that sleeps. A driver ticks by sweep({intervalMs}); a gap between its ticks is the sleep.
import { equal, match } from "./assert.mjs";
import { all, claim, claimOne, enqueue, register } from "./kit.mjs";

const tick = (store, more) => store.sweep({ intervalMs: 1_000, ...more });
const hour = 3_600_000;

export const suspension = {
  "a lease that ran out while the device slept gets one more period, once": async ({ store, clock }) => {
    await enqueue(store);
    const item = await claimOne(store, { leaseMs: 30_000 });
    await tick(store);
    clock.advance(hour);
    match(await tick(store), { suspendedMs: hour, leasesRetried: 0 });
    match(await store.queue.get(item.id), { status: "claimed", fence: item.fence, leaseExpiresAt: clock.now() + 30_000 });
    clock.advance(29_999);
    match(await tick(store), { suspendedMs: 0, leasesRetried: 0 });
    // Another sleep: this holder has had its chance.
    clock.advance(hour);
    match(await tick(store), { suspendedMs: hour, leasesRetried: 1 });
    clock.advance(hour);
    const again = await claimOne(store);
    equal([again.id, again.attempt], [item.id, 2]);
  },

  "a holder that wakes up settles as if nothing had happened": async ({ store, clock }) => {
    await enqueue(store);
    await tick(store);
    const item = await claimOne(store);
    clock.advance(hour);
    await tick(store);
    match(await store.queue.complete(item, { output: 1 }), { status: "completed", late: false });
  },

  "a lease that ran out before the sleep gets nothing": async ({ store, clock }) => {
    await enqueue(store);
    const item = await claimOne(store, { leaseMs: 500 });
    clock.advance(500);
    await enqueue(store, { id: "ticks on" });
    await store.sweep({ intervalMs: 1_000, limit: 1 });
    match(await store.queue.get(item.id), { status: "scheduled", attempt: 1 });
    clock.advance(hour);
    match(await tick(store), { suspendedMs: hour });
    match(await store.queue.get(item.id), { status: "pending", attempt: 1 });
  },

  "a worker that slept with the device is alive after it, once": async ({ store, clock }) => {
    await register(store, { livenessTtlMs: 10_000 });
    await tick(store);
    clock.advance(hour);
    match(await tick(store), { workersExpired: 0 });
    match(await all(store.workers.list()), [{ workerId: "w1", expiresAt: clock.now() + 10_000 }]);
    match(await store.workers.heartbeat({ workerId: "w1" }), { outcome: "refreshed" });
    clock.advance(hour);
    await tick(store);
    clock.advance(10_000);
    match(await tick(store), { workersExpired: 1, suspendedMs: 0 });
    match(await store.workers.heartbeat({ workerId: "w1" }), { outcome: "not_registered" });
  },

  "a claim after the sleep takes nothing away before the driver has ticked": async ({ store, clock }) => {
    await enqueue(store);
    const item = await claimOne(store);
    await tick(store);
    clock.advance(hour);
    equal(await claim(store, { workerId: "w2" }), []);
    match(await store.queue.get(item.id), { status: "claimed", fence: item.fence });
    await tick(store);
    match(await store.queue.renew(item), { late: false });
  },

  "a gap that is no longer than two minutes, or three intervals, is no sleep": async ({ store, clock }) => {
    for (const [intervalMs, gap, suspendedMs] of [[1_000, 120_000, 0], [1_000, 120_001, 120_001], [60_000, 180_000, 0], [60_000, 180_001, 180_001]]) {
      await store.sweep({ intervalMs });
      await store.sweep({ intervalMs });
      await enqueue(store, { queue: `${intervalMs} ${gap}`, id: `${gap}` });
      await store.queue.claim({ workerId: "w", queues: [`${intervalMs} ${gap}`], leaseMs: 1_000 });
      clock.advance(gap);
      match(await store.sweep({ intervalMs }), { suspendedMs, leasesRetried: suspendedMs === 0 ? 1 : 0 }, `the sweep after ${gap} ms at ${intervalMs}`);
      clock.advance(100_000);
      await store.sweep({ intervalMs });
    }
  },

  "sweeps without an interval are no ticks: without a driver nobody sleeps": async ({ store, clock }) => {
    await enqueue(store);
    await claimOne(store);
    await store.sweep();
    clock.advance(hour);
    match(await store.sweep(), { suspendedMs: 0, leasesRetried: 1 });
  },

  "a tab that sleeps alone is taken over from, for the driver ticks on": async ({ store, clock }) => {
    await enqueue(store);
    await claimOne(store, { leaseMs: 30_000 });
    let retried = 0;
    for (let passed = 0; passed < 60_000; passed += 10_000) {
      retried += (await tick(store)).leasesRetried;
      clock.advance(10_000);
    }
    equal(retried, 1);
    match(await claimOne(store, { workerId: "w2" }), { attempt: 2 });
  },

  "a clock that goes back is no sleep": async ({ store, clock }) => {
    await tick(store);
    clock.advance(-hour);
    match(await tick(store), { suspendedMs: 0 });
    clock.advance(1_000);
    match(await tick(store), { suspendedMs: 0 });
  },
};
