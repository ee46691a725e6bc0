import { equal, match, ok } from "./assert.mjs";
import { claim, claimOne, enqueue, range, start, story } from "./kit.mjs";

/** Fails the only item again and again; answers the delays before each next attempt. */
async function delays(store, clock, count, more) {
  const { id } = await enqueue(store, { maxAttempts: count + 1, ...more });
  const found = [];
  for (let n = 0; n < count; n++) {
    const { runAt } = await store.queue.fail(await claimOne(store), { error: "no" });
    match(await store.queue.get(id), { runAt });
    found.push(runAt - clock.now());
    clock.set(runAt);
  }
  await store.queue.cancel(id);
  return found;
}

export const attempts = {
  "an item is tried maxAttempts times, then it is a dead letter": async ({ store, clock }) => {
    const { id } = await enqueue(store, { maxAttempts: 3 });
    for (const attempt of [1, 2, 3]) {
      const item = await claimOne(store);
      match(item, { attempt });
      match(await store.queue.fail(item, { error: `no ${attempt}` }), { outcome: attempt < 3 ? "retry_scheduled" : "dead_lettered" });
      clock.advance(60_000);
    }
    match(await store.queue.get(id), { status: "dead_lettered", attempt: 3, lastError: "no 3" });
    equal(await claim(store), []);
  },

  "by default the delay doubles from two seconds up to 64": async ({ store, clock }) => {
    equal(await delays(store, clock, 8), [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000, 64_000]);
  },

  "a backoff of one's own: exponential, linear, fixed": async ({ store, clock }) => {
    equal(await delays(store, clock, 4, { backoff: { kind: "exponential", baseMs: 10, factor: 3 } }), [30, 90, 270, 810]);
    equal(await delays(store, clock, 4, { backoff: { kind: "exponential", baseMs: 10, factor: 3, maxMs: 100 } }), [30, 90, 100, 100]);
    equal(await delays(store, clock, 4, { backoff: { kind: "linear", baseMs: 10 } }), [10, 20, 30, 40]);
    equal(await delays(store, clock, 3, { backoff: { kind: "linear", baseMs: 10, maxMs: 15 } }), [10, 15, 15]);
    equal(await delays(store, clock, 3, { backoff: { kind: "fixed", baseMs: 10 } }), [10, 10, 10]);
    equal(await delays(store, clock, 3, { backoff: { kind: "fixed", baseMs: 0 } }), [0, 0, 0]);
  },

  "no factor and no number of attempts makes a delay overflow": async ({ store, clock }) => {
    equal(await delays(store, clock, 30, { backoff: { kind: "exponential", baseMs: 1_000, factor: 1e300 } }), range(30).map(() => 64_000));
    equal(await delays(store, clock, 3, { backoff: { kind: "exponential", baseMs: 1_000, factor: 1e300, maxMs: 90_000 } }), [90_000, 90_000, 90_000]);
  },

  "jitter shortens a delay, never beyond nothing": async ({ store, clock }) => {
    const some = await delays(store, clock, 12, { backoff: { kind: "fixed", baseMs: 10_000, jitter: 0.5 } });
    ok(some.every((ms) => Number.isInteger(ms) && ms >= 5_000 && ms <= 10_000), `the delays are ${some}`);
    ok(new Set(some).size > 1, `the delays are all ${some[0]}`);
  },

  "a failed step of an execution is in its log, with the delay": async ({ store, clock }) => {
    const { id } = await start(store);
    await enqueue(store, { executionId: id, nodeId: "n", maxAttempts: 2 });
    await store.queue.fail(await claimOne(store), { error: "no" });
    clock.advance(2_000);
    const error = { message: "no", code: "E1" };
    await store.queue.fail(await claimOne(store), { error });
    equal(await story(store, id), [
      ["retry_scheduled", { nodeId: "n", attempt: 1, delayMs: 2_000 }],
      ["node_failed", { nodeId: "n", error, attempt: 2, retryable: false }],
    ]);
  },

  "an execution does not fail because a step of it is a dead letter": async ({ store }) => {
    const { id } = await start(store);
    await store.executions.setStatus(id, { status: "running" });
    await enqueue(store, { executionId: id, nodeId: "n" });
    await store.queue.fail(await claimOne(store), { error: "no", retryable: false });
    match(await store.executions.get(id), { status: "running" });
    match((await story(store, id)).at(-1), ["node_failed", { retryable: false, attempt: 1 }]);
  },

  "attempts lists every delivery that did not complete": async ({ store, clock }) => {
    const { id } = await enqueue(store, { maxAttempts: 9, backoff: { kind: "fixed", baseMs: 0 } });
    const expected = [];
    for (const [outcome, error, attempt] of [["failed", "no", 1], ["lease_expired", /./, 2], ["released", "later", 3], ["failed", { message: "m" }, 3]]) {
      const item = await claimOne(store, { workerId: `w-${outcome}`, namespace: "ns", leaseMs: 100 });
      clock.advance(outcome === "lease_expired" ? 100 : 40);
      if (outcome === "failed") await store.queue.fail(item, { error });
      if (outcome === "released") await store.queue.release(item, { reason: error });
      if (outcome === "lease_expired") await store.sweep();
      const { claimedAt, fence } = item;
      expected.push({ attempt, fence, workerId: `w-${outcome}`, namespace: "ns", claimedAt, endedAt: clock.now(), outcome, ...(outcome === "lease_expired" ? {} : { error }) });
    }
    match(await store.queue.attempts(id), expected);
    await store.queue.complete(await claimOne(store));
    match(await store.queue.attempts(id), expected, "the attempts after the one that completed");
  },

  "a delivery that was cancelled is among the attempts": async ({ store }) => {
    const { id } = await enqueue(store);
    const item = await claimOne(store);
    await store.queue.cancel(id);
    await store.queue.fail(item, { error: "stopped" });
    match(await store.queue.attempts(id), [{ attempt: 1, fence: item.fence, outcome: "cancelled", error: "stopped" }]);
  },

  "attempts of an item without any are none; of one that does not exist, not_found": async ({ store }) => {
    const { id } = await enqueue(store);
    equal(await store.queue.attempts(id), []);
    const error = await store.queue.attempts("ghost").catch((error) => error);
    equal(error.code, "not_found");
  },

  "a worker that dies does not take its job along": async ({ store, clock }) => {
    const { id } = await enqueue(store);
    await claimOne(store);
    clock.advance(30_000);
    match(await store.sweep(), { leasesRetried: 1, leasesDeadLettered: 0 });
    match(await store.queue.get(id), { status: "scheduled", attempt: 1, runAt: clock.now() + 2_000 });
    clock.advance(2_000);
    match(await claimOne(store, { workerId: "w2" }), { id, attempt: 2 });
  },

  "a job whose last attempt ran out is a dead letter, and its execution hears of it": async ({ store, clock }) => {
    const { id } = await start(store);
    const { id: itemId } = await enqueue(store, { executionId: id, nodeId: "n", maxAttempts: 1 });
    await claimOne(store);
    clock.advance(30_000);
    match(await store.sweep(), { leasesRetried: 0, leasesDeadLettered: 1 });
    match(await store.queue.get(itemId), { status: "dead_lettered", attempt: 1, finishedAt: clock.now() });
    match(await story(store, id), [["node_failed", { nodeId: "n", attempt: 1, retryable: false }]]);
    match(await store.executions.materialize(id), { status: "pending", activeNodes: [] });
  },

  "a job that crashes its worker each time is given three times, and not a fourth": async ({ store, clock }) => {
    for (const found of ["by a sweep", "by a claim"]) {
      const { id } = await enqueue(store, { maxAttempts: 3 });
      for (const attempt of [1, 2, 3]) {
        match(await claimOne(store, { workerId: `w${attempt}` }), { id, attempt });
        clock.advance(30_000);
        if (found === "by a sweep") await store.sweep();
        else equal(await claim(store), []);
        clock.advance(64_000);
      }
      equal(await claim(store), [], `a fourth claim, expiry being found ${found}`);
      match(await store.queue.get(id), { status: "dead_lettered", attempt: 3 });
      match(await store.queue.attempts(id), [1, 2, 3].map((attempt) => ({ attempt, outcome: "lease_expired", workerId: `w${attempt}` })));
    }
  },

  "a payload that no handler can read ends in the dead letters while other items go on": async ({ store, clock }) => {
    await enqueue(store, { id: "poison", payload: "\u0000{", priority: 9 });
    await store.queue.enqueueMany(range(5).map((n) => ({ id: `good-${n}`, queue: "q" })));
    const delivered = [];
    for (let turn = 0; turn < 40; turn++) {
      for (const item of await claim(store)) {
        delivered.push(item.id);
        if (item.id === "poison") await store.queue.fail(item, { error: "cannot read it" });
        else await store.queue.complete(item);
      }
      clock.advance(500);
    }
    equal(delivered.filter((id) => id === "poison").length, 3);
    equal(delivered.slice(0, 3), ["poison", "good-0", "good-1"]);
    match(await store.queues.stats(), { counts: { completed: 5, dead_lettered: 1, pending: 0, scheduled: 0, claimed: 0 } });
  },

  "an item that failed is behind the one that waits, until its delay is over": async ({ store, clock }) => {
    await enqueue(store, { id: "fails" });
    await enqueue(store, { id: "waits" });
    await store.queue.fail(await claimOne(store), { error: "no" });
    match(await claimOne(store), { id: "waits" });
    clock.advance(1_999);
    equal(await claim(store), []);
    clock.advance(1);
    match(await claimOne(store), { id: "fails", attempt: 2 });
  },
};
