// What holds a queue back, and dead letters that get another life.
import { equal, match, ok } from "./assert.mjs";
import { all, claim, claimOne, contents, enqueue, range, refuses, start, story } from "./kit.mjs";

const ids = (rows) => rows.map(({ id }) => id);
const fill = (store, count, more = () => ({})) => store.queue.enqueueMany(range(count).map((n) => ({ queue: "q", id: `i${n}`, ...more(n) })));

export const limits = {
  "no more of a queue runs at once than its concurrency allows, however a delivery ends": async ({ store, clock }) => {
    await store.queues.configure("q", { concurrency: 2 });
    await fill(store, 9, () => ({ maxAttempts: 1 }));
    const [first, second, ...others] = await claim(store, { limit: 9, leaseMs: 1_000 });
    equal(others, []);
    equal(await claim(store, { workerId: "w2" }), []);
    await store.queue.complete(first);
    const third = await claimOne(store, { leaseMs: 1_000 });
    await store.queue.fail(second, { error: "no" });
    equal(ids(await claim(store, { limit: 9, leaseMs: 1_000 })), ["i3"]);
    await store.queue.release(third);
    await store.queue.cancel("i2");
    equal(ids(await claim(store, { limit: 9, leaseMs: 1_000 })), ["i4"]);
    clock.advance(1_000);
    equal(ids(await claim(store, { limit: 9 })), ["i5", "i6"]);
    match(await store.queues.configure("q", { concurrency: 3 }), { concurrency: 3 });
    equal(ids(await claim(store, { limit: 9 })), ["i7"]);
    equal((await store.queues.configure("q", { concurrency: null })).concurrency, undefined);
    equal(ids(await claim(store, { limit: 9 })), ["i8"]);
  },

  "a thread has one running turn, and others go on meanwhile": async ({ store }) => {
    await store.queues.configure("q", { keyConcurrency: 1 });
    await fill(store, 6, (n) => ({ concurrencyKey: n < 3 ? "thread a" : n === 3 ? "thread, b" : undefined }));
    const items = await claim(store, { limit: 9 });
    equal(ids(items), ["i0", "i3", "i4", "i5"]);
    equal(await claim(store), []);
    await store.queue.complete(items[0]);
    const second = await claimOne(store);
    equal(second.id, "i1");
    await store.queue.fail(second, { error: "no" });
    // Its turn is over until it is due again; the next one of the thread may run.
    match(await claimOne(store), { id: "i2" });
    equal(await claim(store), []);
  },

  "the same key in another queue is another key": async ({ store }) => {
    for (const name of ["q", "other"]) await store.queues.configure(name, { keyConcurrency: 1 });
    await enqueue(store, { concurrencyKey: "k" });
    await enqueue(store, { concurrencyKey: "k", queue: "other" });
    equal((await claim(store, { queues: ["q", "other"], limit: 5 })).length, 2);
  },

  "a queue hands out no more in a time than its rate allows, and catches up evenly": async ({ store, clock }) => {
    await store.queues.configure("q", { rateLimit: { limit: 3, perMs: 3_000 } });
    await fill(store, 12);
    equal((await claim(store, { limit: 12 })).length, 3);
    equal(await claim(store), []);
    clock.advance(999);
    equal(await claim(store), []);
    clock.advance(1);
    equal((await claim(store, { limit: 12 })).length, 1);
    clock.advance(60_000);
    equal((await claim(store, { limit: 12 })).length, 3);
    clock.advance(-120_000);
    clock.advance(1_000);
    ok((await claim(store, { limit: 12 })).length <= 1, "a clock that goes back brings more than the rate");
  },

  "each key has a rate of its own": async ({ store, clock }) => {
    await store.queues.configure("q", { keyRateLimit: { limit: 1, perMs: 1_000 } });
    await fill(store, 6, (n) => ({ concurrencyKey: n % 2 ? "odd" : "even" }));
    equal(ids(await claim(store, { limit: 9 })), ["i0", "i1"]);
    equal(await claim(store), []);
    clock.advance(1_000);
    equal(ids(await claim(store, { limit: 9 })), ["i2", "i3"]);
  },

  "a paused queue hands out nothing, also after opening again, and what is claimed goes on": async ({ store, reopen, clock }) => {
    await fill(store, 2);
    const item = await claimOne(store);
    match(await store.queues.pause("q"), { name: "q", paused: true });
    equal(await claim(store), []);
    match(await store.queue.renew(item), { cancelRequested: false });
    match(await store.queue.complete(item), { status: "completed" });
    const again = await reopen();
    clock.advance(1e9);
    equal(await claim(again), []);
    match(await again.queues.list(), { items: [{ name: "q", paused: true }] });
    match(await again.queues.resume("q"), { paused: false });
    match(await claimOne(again), { id: "i1" });
  },

  "a queue that is held hands out nothing until then, and may be let go before": async ({ store, clock }) => {
    await fill(store, 2);
    const until = clock.now() + 1_000;
    match(await store.queues.hold("q", { until }), { heldUntil: until });
    clock.set(until - 1);
    equal(await claim(store), []);
    clock.set(until);
    match(await claimOne(store), { id: "i0" });
    await store.queues.hold("q", { until: until + 60_000 });
    equal(await claim(store), []);
    await store.queues.hold("q", { until: null });
    match(await claimOne(store), { id: "i1" });
    await refuses(store, () => store.queues.hold("q", { until: clock.now() }), "invalid_argument", /until/);
  },

  "a key that is held holds back its own items only": async ({ store, clock }) => {
    await fill(store, 4, (n) => ({ concurrencyKey: n < 2 ? "openai" : "local" }));
    const until = clock.now() + 1_000;
    await store.queues.hold("q", { key: "openai", until });
    equal(ids(await claim(store, { limit: 9 })), ["i2", "i3"]);
    clock.set(until);
    equal(ids(await claim(store, { limit: 9 })), ["i0", "i1"]);
  },

  "settings of a queue are kept, and its items take attempts and backoff from them": async ({ store, reopen, clock }) => {
    const settings = { concurrency: 5, keyConcurrency: 2, rateLimit: { limit: 9, perMs: 10 }, keyRateLimit: { limit: 8, perMs: 10 }, maxAttempts: 2, backoff: { kind: "fixed", baseMs: 70 } };
    match(await store.queues.configure("q", settings), { name: "q", paused: false, ...settings });
    match(await store.queues.configure("q", { concurrency: null }), { keyConcurrency: 2, maxAttempts: 2 });
    const again = await reopen();
    const { concurrency, ...kept } = settings;
    match(await all(again.queues.list()), [kept]);
    match(await enqueue(again), { maxAttempts: 2 });
    match(await enqueue(again, { maxAttempts: 7 }), { maxAttempts: 7 });
    match(await again.queue.fail(await claimOne(again), { error: "no" }), { runAt: clock.now() + 70 });
  },

  "a dead letter that is redriven begins anew, with its history": async ({ store, clock }) => {
    await start(store, { id: "run" });
    await enqueue(store, { id: "dead", executionId: "run", nodeId: "n", payload: 1, maxAttempts: 1 });
    const item = await claimOne(store);
    await store.queue.fail(item, { error: "no" });
    match(await all(store.deadLetters.list({ queue: "q" })), [{ id: "dead", status: "dead_lettered", lastError: "no" }]);
    clock.advance(5);
    equal(await store.deadLetters.redrive("dead", { payload: 2 }), { redriven: 1, refused: [] });
    match(await store.queue.get("dead"), { status: "pending", attempt: 0, payload: 2, runAt: clock.now() });
    match(await store.queue.attempts("dead"), [{ attempt: 1, outcome: "failed", error: "no" }]);
    equal(await all(store.deadLetters.list()), []);
    await refuses(store, () => store.deadLetters.redrive("dead"), "conflict", /pending/);
    const again = await claimOne(store);
    ok(again.fence > item.fence, "the fence is not a new one");
    match(again, { attempt: 1 });
    await refuses(store, () => store.queue.complete(item), "lease_lost", /dead/);
    match(await store.queue.complete(again), { status: "completed" });
    match((await story(store, "run")).map(([type]) => type), ["node_failed"]);
  },

  "all dead letters of a queue are redriven, and what stays is named with the reason": async ({ store }) => {
    await start(store, { id: "over" });
    await enqueue(store, { id: "ended", executionId: "over", nodeId: "n" });
    await enqueue(store, { id: "keyed", idempotencyKey: "k" });
    await enqueue(store, { id: "plain" });
    await enqueue(store, { id: "elsewhere", queue: "other" });
    for (const item of await claim(store, { queues: ["q", "other"], limit: 9 })) await store.queue.fail(item, { error: "no", retryable: false });
    await enqueue(store, { id: "live", idempotencyKey: "k" });
    await store.executions.cancel("over");
    const { redriven, refused } = await store.deadLetters.redrive({ queue: "q" });
    equal(redriven, 1);
    match(refused, [{ id: "ended", code: "invalid_transition" }, { id: "keyed", code: "conflict", message: /live/ }]);
    equal(ids(await all(store.deadLetters.list())), ["ended", "keyed", "elsewhere"]);
    await refuses(store, () => store.deadLetters.redrive("keyed"), "conflict", /live/);
    equal(await store.deadLetters.delete("keyed"), null);
    equal(await store.queue.get("keyed"), null);
    for (const id of ["plain", "ghost"]) await refuses(store, () => store.deadLetters.delete(id), id === "plain" ? "conflict" : "not_found", new RegExp(id));
    await refuses(store, () => store.deadLetters.redrive({}), "invalid_argument", /id/);
    await refuses(store, () => store.deadLetters.redrive({ id: "ended", queue: "q" }), "invalid_argument", /id/);
    equal(await store.deadLetters.redrive({ queue: "unknown" }), { redriven: 0, refused: [] });
  },

  "limits of a queue hold for dead letters that are redriven too": async ({ store }) => {
    await store.queues.configure("q", { keyConcurrency: 1 });
    await fill(store, 3, () => ({ concurrencyKey: "k", maxAttempts: 1 }));
    for (const _ of range(3)) await store.queue.fail(await claimOne(store), { error: "no" });
    match(await store.deadLetters.redrive({ queue: "q" }), { redriven: 3 });
    equal(ids(await claim(store, { limit: 9 })), ["i0"]);
    equal((await contents(store)).stats.counts.pending, 2);
  },
};
