import { equal, match } from "./assert.mjs";
import { all, claim, claimOne, contents, enqueue, range, register, refuses, start } from "./kit.mjs";

const day = 86_400_000;

/** A finished, a dead, a cancelled, a waiting and a claimed item, an ended run with its log and an open one. */
async function fill(store, clock) {
  await start(store, { id: "ended" });
  await enqueue(store, { id: "done", executionId: "ended", nodeId: "n", backoff: { kind: "fixed", baseMs: 0 } });
  await store.queue.fail(await claimOne(store), { error: "once" });
  await store.queue.complete(await claimOne(store));
  await store.executions.cancel("ended");
  await start(store, { id: "open" });
  await store.events.append("open", { type: "x-a" });
  await enqueue(store, { id: "dead", maxAttempts: 1 });
  await store.queue.fail(await claimOne(store), { error: "no" });
  await enqueue(store, { id: "cancelled" });
  await store.queue.cancel("cancelled");
  await enqueue(store, { id: "claimed" });
  await claim(store, { leaseMs: 3 * 3_600_000 });
  await store.queues.pause("q");
  await enqueue(store, { id: "waits" });
  await register(store, { livenessTtlMs: 86_400_000 });
  clock.advance(1);
}

async function sweepAll(store) {
  let pruned = 0;
  for (const _ of range(20)) {
    const report = await store.sweep();
    equal(report.errors, []);
    pruned += report.pruned;
    if (!report.more) return pruned;
  }
  throw new Error("the sweeps do not end");
}

const items = async (store) => (await all(store.queue.list())).map(({ id }) => id);
const executions = async (store) => (await all(store.executions.list())).map(({ id }) => id);

export const retention = {
  "unless asked, everything is kept for ever": async ({ store, clock }) => {
    await fill(store, clock);
    equal(await store.retention.get(), {});
    await store.sweep();
    clock.advance(3_600_000);
    const before = await contents(store);
    equal(await sweepAll(store), 0);
    equal(await contents(store), before);
  },

  "finished items go when their time is over, and nothing that is not finished": async ({ store, clock }) => {
    await fill(store, clock);
    equal(await store.retention.set({ itemsMs: 3_600_000 }), { itemsMs: 3_600_000 });
    clock.advance(3_599_990);
    await sweepAll(store);
    equal(await items(store), ["done", "dead", "cancelled", "claimed", "waits"]);
    clock.advance(20);
    await sweepAll(store);
    equal(await items(store), ["dead", "claimed", "waits"]);
    match(await store.queues.stats(), { counts: { completed: 0, cancelled: 0, dead_lettered: 1, claimed: 1, pending: 1 } });
    equal((await executions(store)), ["ended", "open"]);
  },

  "dead letters have a time of their own": async ({ store, clock }) => {
    await fill(store, clock);
    await store.retention.set({ deadLettersMs: 1_000 });
    clock.advance(2_000);
    await sweepAll(store);
    equal(await items(store), ["done", "cancelled", "claimed", "waits"]);
    equal(await all(store.deadLetters.list()), []);
  },

  "records of deliveries go, and the items they are of stay": async ({ store, clock }) => {
    await fill(store, clock);
    equal((await store.queue.attempts("done")).length, 1);
    await store.retention.set({ attemptsMs: 1_000 });
    clock.advance(2_000);
    await sweepAll(store);
    equal(await store.queue.attempts("done"), []);
    equal((await items(store)).length, 5);
  },

  "ended runs go with all that is theirs, and open ones stay, however old": async ({ store, clock }) => {
    await fill(store, clock);
    await start(store, { id: "child", parentId: "ended" });
    await store.retention.set({ executionsMs: day });
    clock.advance(day - 10);
    await sweepAll(store);
    equal(await executions(store), ["ended", "open", "child"]);
    clock.advance(100 * day);
    await sweepAll(store);
    equal(await executions(store), ["open", "child"]);
    equal(await store.queue.get("done"), null);
    match(await store.executions.get("child"), { parentId: "ended" });
    equal((await all(store.events.list({ executionId: "open" }))).length, 1);
    match(await store.executions.count({ groupBy: "status" }), { total: 2, byStatus: { pending: 2 } });
  },

  "the history of workers goes, and the workers stay": async ({ store, clock }) => {
    await fill(store, clock);
    equal((await all(store.workers.history())).length, 1);
    await store.retention.set({ historyMs: 0 });
    clock.advance(1);
    await sweepAll(store);
    equal(await all(store.workers.history()), []);
    equal((await all(store.workers.list())).length, 1);
  },

  "times are set one by one, kept, and null keeps for ever again": async ({ store, clock, reopen }) => {
    await store.retention.set({ itemsMs: 5, executionsMs: 6 });
    equal(await store.retention.set({ itemsMs: null, historyMs: 7 }), { executionsMs: 6, historyMs: 7 });
    const again = await reopen();
    equal(await again.retention.get(), { executionsMs: 6, historyMs: 7 });
    await again.retention.set({ executionsMs: null, historyMs: null });
    await fill(again, clock);
    clock.advance(3_600_000);
    equal(await sweepAll(again), 0);
    await refuses(again, () => again.retention.set({ itemsMs: -1 }), "invalid_argument", /itemsMs/);
  },

  "pruning is bounded, and says that there is more": async ({ store, clock }) => {
    await store.queue.enqueueMany(range(30).map(() => ({ queue: "q" })));
    for (const item of await claim(store, { limit: 30 })) await store.queue.complete(item);
    await store.retention.set({ itemsMs: 1_000 });
    clock.advance(2_000);
    match(await store.sweep({ limit: 10 }), { pruned: 10, more: true });
    await sweepAll(store);
    equal(await items(store), []);
  },
};
