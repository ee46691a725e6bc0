// The host: groups of calls, each in one transaction of the engine.
import assert from "node:assert/strict";
import { test } from "node:test";
import { modules } from "./client-modules.mjs";

const { groupLimit, Host, sharedNow, waitingLimit } = modules;

function setUp(run = (calls) => calls.filter((_, index) => index % 2 === 0).map((operation) => `${operation} done`)) {
  const state = { runs: [], closed: 0, tasks: [], crashes: [], told: [], answers: {} };
  const engine = {
    run(group) {
      state.runs.push(group);
      return { answers: run(group.calls), ...(state.changes && { changes: JSON.stringify(state.changes) }) };
    },
    close: () => state.closed++,
  };
  const host = new Host(engine, {
    schedule: (task) => state.tasks.push(task),
    onCrash: (reason) => state.crashes.push(reason),
    onChange: (changes) => state.told.push([changes, Object.keys(state.answers)]),
  });
  const submit = (name, { count = 1, args = "{}", ...more } = {}) => {
    const calls = Array.from({ length: count }, () => [name, args]).flat();
    return host.submit({ calls, ...more }, (answers) => {
      assert.ok(!(name in state.answers), "answered once");
      state.answers[name] = answers;
    });
  };
  const work = () => {
    while (state.tasks.length > 0) state.tasks.shift()();
  };
  return { ...state, state, host, submit, work };
}

test("messages that wait share one run, and are answered after it", () => {
  const { runs, answers, tasks, submit, work } = setUp();
  submit("a");
  submit("b", { count: 2 });
  assert.equal(tasks.length, 1);
  assert.equal(runs.length, 0);
  work();
  assert.deepEqual(runs.map(({ calls }) => calls), [["a", "{}", "b", "{}", "b", "{}"]]);
  assert.deepEqual(answers, { a: ["a done"], b: ["b done", "b done"] });
});

test("a group is bounded in calls and in text; a larger message goes alone", () => {
  const { runs, answers, submit, work } = setUp();
  submit("a", { count: groupLimit.calls - 1 });
  submit("b", { count: 2 });
  submit("c", { args: "x".repeat(groupLimit.size) });
  submit("d");
  submit("e", { count: 3 * groupLimit.calls });
  submit("f");
  work();
  assert.deepEqual(runs.map(({ calls }) => [...new Set(calls.filter((text) => text.length === 1))].join()), ["a", "b", "c", "d", "e", "f"]);
  assert.equal(answers.e.length, 3 * groupLimit.calls);
});

test("calls of different times are not run together", () => {
  const { runs, submit, work } = setUp();
  submit("a", { nowMs: 1 });
  submit("b", { nowMs: 1 });
  submit("c", { nowMs: 2 });
  submit("d");
  work();
  assert.deepEqual(runs.map(({ calls, nowMs }) => [calls.length / 2, nowMs]), [[2, 1], [1, 2], [1, undefined]]);
});

test("a call whose deadline has passed is not run", () => {
  const { runs, answers, submit, work } = setUp();
  submit("a", { count: 3, deadlines: [sharedNow() + 60_000, sharedNow() - 1, sharedNow() + 60_000] });
  submit("b", { deadlines: [sharedNow() - 1] });
  work();
  assert.deepEqual(runs.map(({ calls }) => calls.length / 2), [2]);
  assert.equal(answers.a[0], "a done");
  assert.equal(answers.a[2], "a done");
  assert.equal(JSON.parse(answers.a[1]).error.code, "timeout");
  assert.equal(JSON.parse(answers.b[0]).error.code, "timeout");
  submit("c", { deadlines: [sharedNow() - 1] });
  work();
  assert.equal(runs.length, 1, "no run for nothing");
});

test("the waiting line is bounded in calls and in text", () => {
  const { answers, submit, work } = setUp();
  submit("a", { count: waitingLimit.calls });
  submit("b");
  assert.equal(JSON.parse(answers.b[0]).error.code, "busy");
  work();
  const half = "x".repeat(waitingLimit.size / 2);
  submit("c", { args: half });
  submit("d", { args: half });
  assert.equal(JSON.parse(answers.d[0]).error.code, "busy");
  submit("e");
  work();
  assert.deepEqual([answers.c, answers.e], [["c done"], ["e done"]]);
});

test("after a trap all calls are answered with internal, and the host says that it crashed", () => {
  const { runs, answers, crashes, state, submit, work, host } = setUp(() => {
    throw new WebAssembly.RuntimeError("unreachable");
  });
  submit("a", { count: 2 });
  submit("b", { nowMs: 1 });
  work();
  for (const answer of [...answers.a, ...answers.b]) {
    const { error } = JSON.parse(answer);
    assert.equal(error.code, "internal");
    assert.match(error.message, /unreachable/);
  }
  assert.deepEqual(crashes, ["RuntimeError: unreachable"]);
  submit("c");
  assert.equal(JSON.parse(answers.c[0]).error.code, "internal");
  host.close();
  assert.equal(runs.length, 1);
  assert.equal(state.closed, 0, "a dead engine is not touched");
});

test("close runs what waits, then closes the engine", () => {
  const { answers, state, submit, host, work } = setUp();
  submit("a");
  submit("b", { nowMs: 1 });
  host.close();
  assert.deepEqual(answers, { a: ["a done"], b: ["b done"] });
  assert.equal(state.closed, 1);
  work();
  assert.equal(state.runs.length, 2);
});

test("what is in the background lets others go first, but not for ever", () => {
  const { runs, submit, work } = setUp();
  submit("import", { background: true });
  submit("import 2", { background: true });
  for (let n = 0; n < 40; n++) submit(`call ${n}`, { nowMs: n });
  work();
  const order = runs.map(({ calls }) => calls[0]);
  assert.equal(order.length, 42);
  assert.deepEqual([order.indexOf("import"), order.indexOf("import 2")], [20, 41]);
});

test("the engine learns whose calls they are, which were sent before, and what has arrived", () => {
  const { runs, submit, work } = setUp();
  submit("a", { client: "one", count: 2, requests: { numbers: [7, 8], again: [true, false], acked: 5 } });
  submit("b", { client: "two", requests: { numbers: [1], acked: 0 } });
  submit("c");
  submit("d", { client: "one", requests: { numbers: [9], acked: 6 } });
  work();
  const [{ clients, requests, acked }] = runs;
  assert.deepEqual(clients, ["one", "two"]);
  assert.deepEqual(requests, [0, 7, 1, 0, 8, 0, 1, 1, 0, -1, 0, 0, 0, 9, 0]);
  assert.deepEqual(acked, [6, 0]);
});

test("changes are told after the answers", () => {
  const { state, submit, work } = setUp();
  state.changes = [{ tenant: "default", topics: { events: ["run"] } }];
  submit("a");
  work();
  assert.deepEqual(state.told, [[state.changes, ["a"]]]);
});

test("a host that has left answers nothing, and its engine is closed", () => {
  const { answers, state, submit, work, host } = setUp();
  submit("a");
  host.leave();
  host.leave();
  submit("b");
  work();
  assert.deepEqual([answers, state.runs, state.closed], [{}, [], 1]);
});

test("several that drive sweeps have one for all in an interval, and another at once while there is more", async () => {
  let more = false;
  const { runs, work, host } = setUp(() => [JSON.stringify({ ok: { more } })]);
  const tick = (nowMs) => {
    const report = host.tick(1_000, nowMs);
    work();
    return report;
  };
  await tick(5_000);
  await tick(5_500);
  assert.equal(runs.length, 1);
  more = true;
  await tick(6_000);
  await tick(6_001);
  more = false;
  await tick(6_002);
  await tick(6_003);
  assert.equal(runs.length, 4);
  await tick(100);
  assert.equal(runs.length, 5, "after a clock that was put back");
  assert.deepEqual(runs[0].calls, ["sweep", '{"intervalMs":1000}']);
});
