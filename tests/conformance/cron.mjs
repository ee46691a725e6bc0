import { equal, match, ok } from "./assert.mjs";
import { all, claim, claimOne, range, refuses } from "./kit.mjs";

const at = (text) => Date.parse(text);
const put = (store, more) => store.cron.put({ name: "c", expression: "0 * * * *", workflowId: "w", ...more });
const minutes = 60_000;

/** The next times of a schedule, each found by firing it on time. */
async function times(store, clock, from, more, count) {
  clock.set(at(from));
  let { nextAt } = await put(store, more);
  const found = [];
  while (found.length < count) {
    found.push(new Date(nextAt).toISOString().replace(":00.000Z", "Z"));
    clock.set(nextAt);
    match(await store.sweep(), { cronsFired: 1, errors: [] });
    ({ nextAt } = await store.cron.get(more.name ?? "c"));
  }
  await store.cron.delete(more.name ?? "c");
  return found;
}

const dues = async (store) => (await all(store.executions.list())).map(({ metadata }) => new Date(metadata.dueAt).toISOString().slice(11, 16));

export const cron = {
  "a schedule begins an execution with its first work item, once per due time": async ({ store, clock }) => {
    clock.set(at("2026-01-01T00:10:00Z"));
    const item = { queue: "q", nodeId: "n", payload: { n: 1 } };
    match(await put(store, { workflowVersion: "2", input: { a: 1 }, enqueue: item }), { name: "c", timezone: "UTC", enabled: true, catchUp: "skip", nextAt: at("2026-01-01T01:00:00Z"), created: true });
    match(await store.sweep(), { cronsFired: 0 });
    clock.set(at("2026-01-01T01:00:00Z") - 1);
    match(await store.sweep(), { cronsFired: 0 });
    clock.advance(1);
    const reports = await Promise.all(range(4).map(() => store.sweep()));
    equal(reports.reduce((sum, { cronsFired }) => sum + cronsFired, 0), 1);
    const [run, ...others] = await all(store.executions.list());
    equal(others, []);
    match(run, { workflowId: "w", workflowVersion: "2", input: { a: 1 }, status: "pending", metadata: { cron: "c", dueAt: clock.now() } });
    match(await claimOne(store), { executionId: run.id, nodeId: "n", payload: { n: 1 } });
    match(await store.cron.get("c"), { nextAt: at("2026-01-01T02:00:00Z"), lastAt: clock.now() });
  },

  "a daily time in Berlin stays that time when the clocks change, and fires once a day": async ({ store, clock }) => {
    const daily = { expression: "30 2 * * *", timezone: "Europe/Berlin" };
    equal(await times(store, clock, "2026-03-27T12:00:00Z", daily, 4), ["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z", "2026-03-31T00:30Z"]);
    equal(await times(store, clock, "2026-10-23T12:00:00Z", daily, 4), ["2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z", "2026-10-27T01:30Z"]);
    equal(await times(store, clock, "2026-03-28T12:00:00Z", { ...daily, expression: "0 9 * * mon-fri" }, 2), ["2026-03-30T07:00Z", "2026-03-31T07:00Z"]);
  },

  "an hourly schedule in Berlin goes by the hour through the changes of the clocks": async ({ store, clock }) => {
    const hourly = { expression: "0 * * * *", timezone: "Europe/Berlin" };
    equal(await times(store, clock, "2026-03-28T23:30:00Z", hourly, 4), ["2026-03-29T00:00Z", "2026-03-29T01:00Z", "2026-03-29T02:00Z", "2026-03-29T03:00Z"]);
    equal(await times(store, clock, "2026-10-24T22:30:00Z", hourly, 4), ["2026-10-24T23:00Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z"]);
  },

  "zones with halves and quarters of an hour, and names in any case, are right too": async ({ store, clock }) => {
    for (const [timezone, expression, from, expected] of [
      ["Asia/Kolkata", "0 9 * * *", "2026-01-01T00:00:00Z", ["2026-01-01T03:30Z", "2026-01-02T03:30Z"]],
      ["Asia/Kathmandu", "0 9 * * *", "2026-01-01T00:00:00Z", ["2026-01-01T03:15Z", "2026-01-02T03:15Z"]],
      ["Australia/Lord_Howe", "45 1 * * *", "2026-04-03T00:00:00Z", ["2026-04-03T14:45Z", "2026-04-04T14:45Z", "2026-04-05T15:15Z"]],
      ["america/new_york", "30 2 * * *", "2026-03-06T12:00:00Z", ["2026-03-07T07:30Z", "2026-03-08T07:00Z", "2026-03-09T06:30Z"]],
      ["UTC", "0 0 29 feb *", "2026-01-01T00:00:00Z", ["2028-02-29T00:00Z", "2032-02-29T00:00Z"]],
      [undefined, "*/20 8-9,22 * jan-mar Mon-FRI", "2026-01-02T12:00:00Z", ["2026-01-02T22:00Z", "2026-01-02T22:20Z", "2026-01-02T22:40Z", "2026-01-05T08:00Z"]],
    ]) {
      equal(await times(store, clock, from, { timezone, expression }, expected.length), expected, `${expression} in ${timezone}`);
    }
  },

  "what was missed while nobody swept is skipped, made up for once, or one by one, as asked": async ({ store, clock }) => {
    clock.set(at("2026-01-01T00:10:00Z"));
    for (const [catchUp, expected] of [["skip", []], ["once", ["03:00"]], ["all", ["01:00", "02:00", "03:00"]]]) {
      clock.set(at("2026-01-01T00:10:00Z"));
      await put(store, { catchUp });
      clock.set(at("2026-01-01T03:30:00Z"));
      for (let report = { more: true }; report.more; ) report = await store.sweep();
      for (const _ of range(4)) await store.sweep();
      equal(await dues(store), expected, `the due times with ${catchUp}`);
      match(await store.cron.get("c"), { nextAt: at("2026-01-01T04:00:00Z") });
      for (const { id } of await all(store.executions.list())) await store.executions.delete(id);
      await store.cron.delete("c");
    }
  },

  "a sweep that is a little late loses nothing of a schedule that skips": async ({ store, clock }) => {
    clock.set(at("2026-01-01T00:10:00Z"));
    await put(store);
    clock.set(at("2026-01-01T01:01:00Z"));
    match(await store.sweep(), { cronsFired: 1 });
    equal(await dues(store), ["01:00"]);
  },

  "a schedule that is put again is changed, and loses no due time by it": async ({ store, clock }) => {
    clock.set(at("2026-01-01T00:10:00Z"));
    await put(store, { catchUp: "all" });
    clock.set(at("2026-01-01T01:30:00Z"));
    match(await put(store, { catchUp: "all", input: 5 }), { created: false, input: 5, nextAt: at("2026-01-01T01:00:00Z") });
    match(await store.sweep(), { cronsFired: 1 });
    match(await put(store, { expression: "15 * * * *" }), { created: false, nextAt: at("2026-01-01T02:15:00Z") });
    equal((await all(store.cron.list())).length, 1);
  },

  "a disabled schedule does not fire, until it is enabled again; it can be triggered all the same": async ({ store, clock }) => {
    clock.set(at("2026-01-01T00:10:00Z"));
    const disabled = await put(store, { enabled: false, catchUp: "all", enqueue: { queue: "q", nodeId: "n" } });
    equal([disabled.enabled, disabled.nextAt], [false, undefined]);
    clock.set(at("2026-01-01T03:30:00Z"));
    match(await store.sweep(), { cronsFired: 0 });
    const run = await store.cron.trigger("c");
    match(run, { workflowId: "w", status: "pending" });
    match(await claimOne(store), { executionId: run.id });
    equal((await store.cron.get("c")).nextAt, undefined);
    match(await put(store, { enabled: true, catchUp: "all", enqueue: { queue: "q", nodeId: "n" } }), { nextAt: at("2026-01-01T04:00:00Z") });
    match(await store.sweep(), { cronsFired: 0 });
    clock.set(at("2026-01-01T04:00:00Z"));
    match(await store.sweep(), { cronsFired: 1 });
  },

  "a trigger begins a run now, and does not move the next time": async ({ store, clock }) => {
    clock.set(at("2026-01-01T00:10:00Z"));
    const { nextAt } = await put(store);
    const [first, second] = [await store.cron.trigger("c"), await store.cron.trigger("c")];
    ok(first.id !== second.id, "two triggers began one run");
    match(await store.cron.get("c"), { nextAt, lastAt: clock.now() });
    await refuses(store, () => store.cron.trigger("ghost"), "not_found", /ghost/);
  },

  "a deleted schedule fires no more, and what it began stays": async ({ store, clock }) => {
    clock.set(at("2026-01-01T00:10:00Z"));
    await put(store);
    clock.set(at("2026-01-01T01:00:00Z"));
    await store.sweep();
    equal(await store.cron.delete("c"), null);
    clock.set(at("2026-01-01T02:00:00Z"));
    match(await store.sweep(), { cronsFired: 0, errors: [] });
    equal((await all(store.executions.list())).length, 1);
    equal(await store.cron.get("c"), null);
    await refuses(store, () => store.cron.delete("c"), "not_found", /\bc\b/);
  },

  "an expression or a time zone that is none is refused, says what it was, and changes nothing": async ({ store }) => {
    await put(store);
    for (const expression of ["", "* * * *", "* * * * * *", "60 * * * *", "0 25 * * *", "0 0 30 2 *", "@daily", "a b c d e"]) {
      await refuses(store, () => put(store, { expression }), "invalid_argument", /expression/);
    }
    for (const timezone of ["", "Mars/Olympus", "+02:00", "Europe", "Europe/Berlin ", "Berlin"]) {
      await refuses(store, () => put(store, { timezone }), "invalid_argument", /timezone/);
    }
    for (const enqueued of [{ queue: "q" }, { queue: "", nodeId: "n" }, { queue: "q", nodeId: "n", surplus: 1 }]) await refuses(store, () => put(store, { enqueue: enqueued }), "invalid_argument", /nodeId|queue|surplus/);
  },

  "schedules that come due together all fire, also when one of them cannot": async ({ store, clock }) => {
    clock.set(at("2026-01-01T00:10:00Z"));
    for (const name of ["a", "b", "c"]) await put(store, { name });
    equal((await all(store.cron.list({ limit: 1 }))).map(({ name }) => name), ["a", "b", "c"]);
    await store.tenants.update("default", { limits: { maxConcurrentExecutions: 2 } });
    clock.set(at("2026-01-01T01:00:00Z"));
    const report = await store.sweep();
    match(report, { cronsFired: 2, errors: [{ part: "crons", code: "limit_exceeded" }] });
    const failed = report.errors[0].id;
    match(await store.cron.get(failed), { lastError: { code: "limit_exceeded" } });
    await store.tenants.update("default", { limits: null });
    clock.advance(minutes);
    match(await store.sweep(), { cronsFired: 1, errors: [] });
    equal((await store.cron.get(failed)).lastError, undefined);
    equal(await dues(store), ["01:00", "01:00", "01:00"]);
    equal(await claim(store), []);
  },
};
