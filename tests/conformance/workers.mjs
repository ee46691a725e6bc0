import { equal, match } from "./assert.mjs";
import { all, claim, claimOne, enqueue, refuses, register, start, story } from "./kit.mjs";

const listed = async (store, filter) => (await all(store.workers.list(filter))).map(({ workerId }) => workerId);

export const workers = {
  "a worker registers, and is listed with what it said": async ({ store, clock }) => {
    match(await register(store, { metadata: { tab: 1 } }), { outcome: "registered" });
    const { items } = await store.workers.list();
    match(items, [
      {
        workerId: "w1",
        namespace: "default",
        pool: "p",
        queues: ["q"],
        capabilities: [],
        livenessTtlMs: 60_000,
        registeredAt: clock.now(),
        lastHeartbeatAt: clock.now(),
        metadata: { tab: 1 },
      },
    ]);
  },

  "registering again refreshes: queues, capabilities and TTL are replaced": async ({ store, clock }) => {
    await register(store, { queues: ["a"], capabilities: ["x"] });
    clock.advance(10);
    match(await register(store, { queues: ["b"], capabilities: ["y"], livenessTtlMs: 5_000 }), { outcome: "refreshed" });
    match((await store.workers.list()).items, [{ queues: ["b"], capabilities: ["y"], livenessTtlMs: 5_000, registeredAt: clock.now() - 10, lastHeartbeatAt: clock.now() }]);
  },

  "queues and capabilities are sets: each once, sorted, with commas and quotes in them": async ({ store }) => {
    await register(store, { queues: ["z", "a,b", "z"], capabilities: ['say "hi"', "🎉", "a,b", "a", "a,b"] });
    match((await store.workers.list()).items, [{ queues: ["a,b", "z"], capabilities: ["a", "a,b", 'say "hi"', "🎉"] }]);
    equal(await listed(store, { capability: "b" }), []);
    equal(await listed(store, { capability: "a,b" }), ["w1"]);
    equal(await listed(store, { queue: "a" }), []);
    equal(await listed(store, { queue: "a,b" }), ["w1"]);
  },

  "a live worker's id cannot be taken by another pool": async ({ store, clock }) => {
    await register(store);
    await refuses(store, () => register(store, { pool: "other" }), "conflict", /worker id reassigned/);
    clock.advance(60_000);
    match(await register(store, { pool: "other" }), { outcome: "registered" });
  },

  "a worker is alive up to its last heartbeat plus its TTL, and no longer": async ({ store, clock }) => {
    await register(store, { livenessTtlMs: 1_000 });
    clock.advance(999);
    equal(await listed(store), ["w1"]);
    clock.advance(1);
    equal(await listed(store), []);
    match(await register(store, { livenessTtlMs: 1_000 }), { outcome: "registered" });
  },

  "a heartbeat prolongs by the TTL of the registration": async ({ store, clock }) => {
    await register(store, { livenessTtlMs: 1_000 });
    clock.advance(900);
    equal(await store.workers.heartbeat({ workerId: "w1" }), { outcome: "refreshed", nextExpiryAt: clock.now() + 1_000 });
    clock.advance(999);
    equal(await listed(store), ["w1"]);
    match(await store.workers.heartbeat({ workerId: "w1", load: 0.5 }), { outcome: "refreshed", nextExpiryAt: clock.now() + 1_000 });
    match((await store.workers.list()).items, [{ load: 0.5, lastHeartbeatAt: clock.now() }]);
  },

  "a heartbeat of a worker that is unknown, or has lapsed, registers nothing": async ({ store, clock }) => {
    equal(await store.workers.heartbeat({ workerId: "w1" }), { outcome: "not_registered" });
    await register(store, { livenessTtlMs: 1_000 });
    equal(await store.workers.heartbeat({ workerId: "w1", namespace: "other" }), { outcome: "not_registered" });
    clock.advance(1_000);
    equal(await store.workers.heartbeat({ workerId: "w1" }), { outcome: "not_registered" });
    equal(await listed(store), []);
  },

  "a sweep before its time does not change who is alive": async ({ store, clock }) => {
    await register(store, { livenessTtlMs: 1_000 });
    clock.advance(999);
    match(await store.sweep(), { workersExpired: 0 });
    equal(await listed(store), ["w1"]);
    clock.advance(1);
    match(await store.sweep(), { workersExpired: 1 });
    match(await store.sweep(), { workersExpired: 0 });
  },

  "a worker marked dead is gone, and its leases end by the rule of attempts": async ({ store, clock }) => {
    await register(store);
    const { id: executionId } = await start(store);
    await enqueue(store, { id: "again", executionId, nodeId: "a" });
    await enqueue(store, { id: "for good", executionId, nodeId: "b", maxAttempts: 1 });
    await enqueue(store, { id: "to be cancelled", executionId, nodeId: "c" });
    const [again] = await claim(store, { limit: 3 });
    await store.queue.cancel("to be cancelled");
    await enqueue(store, { id: "another's" });
    await claimOne(store, { workerId: "w2" });
    match(await store.workers.markDead({ workerId: "w1", reason: "the tab crashed" }), { outcome: "marked" });
    equal(await listed(store), []);
    match(await store.queue.get("again"), { status: "scheduled", attempt: 1, runAt: clock.now() + 2_000 });
    match(await store.queue.get("for good"), { status: "dead_lettered" });
    match(await store.queue.get("to be cancelled"), { status: "cancelled" });
    match(await store.queue.get("another's"), { status: "claimed" });
    equal((await story(store, executionId)).map(([type, { nodeId }]) => [type, nodeId]).sort(), [["node_cancelled", "c"], ["node_failed", "b"], ["retry_scheduled", "a"]]);
    await refuses(store, () => store.queue.complete(again), "lease_lost");
    match(await store.queue.attempts("again"), [{ attempt: 1, workerId: "w1" }]);
  },

  "a worker marked dead may keep its leases until they run out": async ({ store, clock }) => {
    await register(store);
    await enqueue(store, { id: "held" });
    await claimOne(store, { leaseMs: 1_000 });
    match(await store.workers.markDead({ workerId: "w1", reason: "restart", releaseLeases: false }), { outcome: "marked" });
    match(await store.queue.get("held"), { status: "claimed" });
    clock.advance(1_000);
    match(await store.sweep(), { leasesRetried: 1 });
  },

  "a worker that is unknown, or has lapsed, cannot be marked dead": async ({ store, clock }) => {
    match(await store.workers.markDead({ workerId: "w1", reason: "r" }), { outcome: "not_registered" });
    await register(store, { livenessTtlMs: 1_000 });
    clock.advance(1_000);
    match(await store.workers.markDead({ workerId: "w1", reason: "r" }), { outcome: "not_registered" });
  },

  "the reason of a death is at most 256 bytes, without control characters": async ({ store }) => {
    await register(store);
    for (const reason of ["x".repeat(257), "🎉".repeat(65), "a\nb", "a\u0000"]) {
      await refuses(store, () => store.workers.markDead({ workerId: "w1", reason }), "invalid_argument", /reason/);
    }
    match(await store.workers.markDead({ workerId: "w1", reason: "🎉".repeat(64) }), { outcome: "marked" });
  },

  "a death may have an empty reason": async ({ store }) => {
    await register(store);
    match(await store.workers.markDead({ workerId: "w1", reason: "" }), { outcome: "marked" });
  },

  "the same id in two namespaces is two workers": async ({ store }) => {
    await register(store, { namespace: "a", pool: "one" });
    match(await register(store, { namespace: "b", pool: "two" }), { outcome: "registered" });
    await enqueue(store, { id: "of a" });
    await claimOne(store, { namespace: "a" });
    await enqueue(store, { id: "of b" });
    await claimOne(store, { namespace: "b" });
    await store.workers.markDead({ workerId: "w1", namespace: "a", reason: "r" });
    match(await store.workers.list(), { items: [{ namespace: "b", pool: "two" }] });
    match(await store.queue.get("of a"), { status: "scheduled" });
    match(await store.queue.get("of b"), { status: "claimed" });
  },

  "workers can be listed by namespace, pool, queue and capability": async ({ store }) => {
    for (const [workerId, namespace, pool, queues, capabilities] of [
      ["a", "n1", "p1", ["q1", "q2"], ["gpu"]],
      ["b", "n1", "p2", ["q2"], []],
      ["c", "n2", "p1", ["q1"], ["gpu", "net"]],
    ]) {
      await register(store, { workerId, namespace, pool, queues, capabilities });
    }
    equal(await listed(store), ["a", "b", "c"]);
    equal(await listed(store, { namespace: "n1" }), ["a", "b"]);
    equal(await listed(store, { pool: "p1" }), ["a", "c"]);
    equal(await listed(store, { queue: "q2" }), ["a", "b"]);
    equal(await listed(store, { capability: "gpu", queue: "q1" }), ["a", "c"]);
    equal(await listed(store, { capability: "net", namespace: "n1" }), []);
    equal(await listed(store, { order: "desc", limit: 1 }), ["c", "b", "a"]);
  },

  "a claim needs no registration": async ({ store }) => {
    await enqueue(store);
    match(await claimOne(store, { workerId: "nobody knows me" }), { workerId: "nobody knows me" });
  },

  "a new worker under a dead one's name does not adopt its lease": async ({ store, clock }) => {
    await register(store, { livenessTtlMs: 1_000 });
    const { id } = await enqueue(store);
    const old = await claimOne(store, { leaseMs: 10_000 });
    clock.advance(5_000);
    match(await register(store, { livenessTtlMs: 60_000 }), { outcome: "registered" });
    match(await store.queue.get(id), { leaseExpiresAt: old.leaseExpiresAt, fence: old.fence });
    clock.advance(5_000);
    await store.workers.heartbeat({ workerId: "w1" });
    match(await store.sweep(), { leasesRetried: 1 });
  },

  "the history of workers tells what became of each, in order, and not every heartbeat": async ({ store, clock }) => {
    await register(store, { livenessTtlMs: 1_000 });
    clock.advance(10);
    await register(store, { livenessTtlMs: 1_000 });
    await store.workers.heartbeat({ workerId: "w1" });
    await register(store, { workerId: "w2", namespace: "n" });
    clock.advance(10);
    await store.workers.markDead({ workerId: "w2", namespace: "n", reason: "the tab, it crashed" });
    clock.advance(1_000);
    await store.sweep();
    const history = async (filter) => (await all(store.workers.history({ limit: 2, ...filter }))).map(({ workerId, change, reason }) => [workerId, change, ...(reason ? [reason] : [])]);
    equal(await history({}), [["w1", "registered"], ["w1", "refreshed"], ["w2", "registered"], ["w2", "marked_dead", "the tab, it crashed"], ["w1", "ttl_swept"]]);
    equal(await history({ workerId: "w1" }), [["w1", "registered"], ["w1", "refreshed"], ["w1", "ttl_swept"]]);
    equal(await history({ namespace: "n" }), [["w2", "registered"], ["w2", "marked_dead", "the tab, it crashed"]]);
    equal(await history({ namespace: "n", workerId: "w1" }), []);
  },

  "the registry is there after the store was opened again": async ({ store, reopen }) => {
    await register(store, { capabilities: ["gpu"] });
    await enqueue(store, { requires: ["gpu"] });
    const before = await store.workers.list();
    const again = await reopen();
    equal(await again.workers.list(), before);
    equal((await claim(again)).length, 1);
  },
};
