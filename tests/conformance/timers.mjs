import { equal, match } from "./assert.mjs";
import { all, claim, claimOne, contents, enqueue, range, refuses, start, story } from "./kit.mjs";

const schedule = (store, more) => store.timers.schedule({ executionId: "run", nodeId: "n", ...more });

export const timers = {
  "a due timer fires once: an event, and its work item": async ({ store, clock }) => {
    await start(store, { id: "run" });
    const from = clock.now();
    const timer = await schedule(store, { delayMs: 1_000, correlationKey: "k", enqueue: { id: "wake", queue: "q", payload: { n: 1 } } });
    match(timer, { executionId: "run", nodeId: "n", status: "pending", fireAt: from + 1_000, created: true });
    clock.advance(999);
    match(await store.sweep(), { timersFired: 0 });
    equal(await claim(store), []);
    clock.advance(251);
    match(await store.sweep(), { timersFired: 1, errors: [] });
    match(await store.timers.get(timer.id), { status: "fired", firedAt: clock.now(), lateByMs: 250 });
    match(await claimOne(store), { id: "wake", executionId: "run", nodeId: "n", payload: { n: 1 } });
    const before = await contents(store);
    for (const _ of range(3)) match(await store.sweep(), { timersFired: 0 });
    equal(await contents(store), before);
    equal(await story(store, "run"), [
      ["timer_created", { nodeId: "n", fireAt: from + 1_000, correlationKey: "k" }],
      ["timer_fired", { nodeId: "n", correlationKey: "k", lateByMs: 250 }],
    ]);
  },

  "sweeps at the same time fire a timer once": async ({ store, clock }) => {
    await start(store, { id: "run" });
    await schedule(store, { delayMs: 10, enqueue: { queue: "q" } });
    clock.advance(10);
    const reports = await Promise.all(range(5).map(() => store.sweep()));
    equal(reports.reduce((sum, { timersFired }) => sum + timersFired, 0), 1);
    equal((await claim(store, { limit: 10 })).length, 1);
  },

  "a timer of a time that has passed fires with the next sweep; all in the order of their times": async ({ store, clock }) => {
    await start(store, { id: "run" });
    const now = clock.now();
    for (const [id, fireAt] of [["c", now + 20], ["a", now - 5], ["b", now + 10], ["old", 0]]) await schedule(store, { id, fireAt, correlationKey: id });
    match(await store.sweep(), { timersFired: 2 });
    clock.advance(20);
    match(await store.sweep(), { timersFired: 2 });
    const fired = (await story(store, "run")).filter(([type]) => type === "timer_fired");
    equal(fired.map(([, data]) => data.correlationKey), ["old", "a", "b", "c"]);
  },

  "what is scheduled comes due after opening again too, and a clock that goes back brings nothing twice": async ({ store, clock, reopen }) => {
    await start(store, { id: "run" });
    await store.cron.put({ name: "c", expression: "0 * * * *", workflowId: "w", enqueue: { queue: "cron", nodeId: "n" } });
    const { nextAt } = await store.cron.get("c");
    await schedule(store, { id: "t", fireAt: nextAt, enqueue: { queue: "q" } });
    const again = await reopen();
    clock.set(nextAt);
    match(await again.sweep(), { timersFired: 1, cronsFired: 1 });
    for (const ms of [-3_600_000, 0, 5]) {
      clock.set(nextAt + ms);
      match(await again.sweep(), { timersFired: 0, cronsFired: 0 });
    }
    equal((await again.queue.claim({ workerId: "w", queues: ["q", "cron"], limit: 9 })).length, 2);
  },

  "a cancelled timer does not fire, and one that has fired cannot be cancelled": async ({ store, clock }) => {
    await start(store, { id: "run" });
    await schedule(store, { id: "cancelled", delayMs: 10 });
    await schedule(store, { id: "fired", delayMs: 10 });
    match(await store.timers.cancel("cancelled"), { id: "cancelled", status: "cancelled" });
    match(await store.timers.cancel("cancelled"), { status: "cancelled" });
    clock.advance(10);
    match(await store.sweep(), { timersFired: 1 });
    await refuses(store, () => store.timers.cancel("fired"), "invalid_transition", /fired/);
    await refuses(store, () => store.timers.cancel("ghost"), "not_found", /ghost/);
    equal(await store.timers.get("ghost"), null);
  },

  "scheduling again with the same id and arguments answers the timer there is": async ({ store, clock }) => {
    await start(store, { id: "run" });
    const given = { id: "t", delayMs: 10, enqueue: { queue: "q" } };
    const timer = await schedule(store, given);
    clock.advance(3);
    const before = await contents(store);
    equal(await schedule(store, given), { ...timer, created: false });
    equal(await contents(store), before);
    await refuses(store, () => schedule(store, { ...given, delayMs: 11 }), "conflict", /\bt\b/);
    await refuses(store, () => schedule(store, {}), "invalid_argument", /fireAt/);
    await refuses(store, () => schedule(store, { fireAt: 1, delayMs: 1 }), "invalid_argument", /delayMs/);
    await refuses(store, () => schedule(store, { executionId: "ghost", delayMs: 1 }), "not_found", /ghost/);
    await refuses(store, () => schedule(store, { delayMs: 1, enqueue: { queue: "q", maxAttempts: 0 } }), "invalid_argument", /maxAttempts/);
  },

  "a timer that cannot fire is in the way of no other, and is named": async ({ store, clock }) => {
    await start(store, { id: "run" });
    await schedule(store, { id: "bad", delayMs: 1, enqueue: { id: "taken", queue: "q" } });
    await schedule(store, { id: "good", delayMs: 2, enqueue: { id: "fine", queue: "q" } });
    await enqueue(store, { id: "taken", queue: "elsewhere" });
    clock.advance(5);
    const report = await store.sweep();
    match(report, { timersFired: 1 });
    match(report.errors, [{ part: "timers", id: "bad", code: "conflict" }]);
    match(await store.timers.get("good"), { status: "fired" });
    match(await store.timers.get("bad"), { status: "failed", error: { code: "conflict" } });
    equal((await story(store, "run")).filter(([type]) => type === "timer_fired").length, 1);
    match(await store.sweep(), { timersFired: 0, errors: [] });
  },

  "a timer of a run that has ended queues no work": async ({ store, clock }) => {
    await start(store, { id: "run" });
    await schedule(store, { delayMs: 10, enqueue: { queue: "q" } });
    await store.executions.cancel("run");
    clock.advance(10);
    match(await store.sweep(), { errors: [] });
    equal(await claim(store), []);
    match(await store.executions.get("run"), { status: "cancelled" });
  },

  "timers are listed by execution and status": async ({ store, clock }) => {
    await start(store, { id: "run" });
    await start(store, { id: "other" });
    await schedule(store, { id: "a", delayMs: 1 });
    await schedule(store, { id: "b", delayMs: 50, executionId: "other" });
    await schedule(store, { id: "c", delayMs: 50 });
    clock.advance(1);
    await store.sweep();
    const list = async (filter) => (await all(store.timers.list({ limit: 1, ...filter }))).map(({ id }) => id);
    equal(await list(), ["a", "b", "c"]);
    equal(await list({ executionId: "run" }), ["a", "c"]);
    equal(await list({ status: "pending", order: "desc" }), ["c", "b"]);
    equal(await list({ executionId: "run", status: "fired" }), ["a"]);
  },
};
