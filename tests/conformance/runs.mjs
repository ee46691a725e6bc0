// What is done with whole runs: their state, their segments, their forks, their end.
import { equal, match, ok } from "./assert.mjs";
import { all, claim, claimOne, contents, enqueue, log, range, refuses, start, story } from "./kit.mjs";

const ids = (rows) => rows.map(({ id }) => id);

export const runs = {
  "recent answers what changed last, newest first, whatever was created last": async ({ store, clock }) => {
    for (const n of range(4)) await start(store, { id: `r${n}` });
    await store.events.append("r1", { type: "x-a" });
    // Of what has changed, not of when: the clock may go back.
    clock.advance(-60_000);
    await store.executions.patchState("r0", { patch: { a: 1 } });
    const { items } = await store.executions.recent();
    equal(ids(items), ["r0", "r1", "r3", "r2"]);
    equal(items[0], await store.executions.get("r0"));
    equal(ids((await store.executions.recent({ limit: 2 })).items), ["r0", "r1"]);
  },

  "count counts executions, by status where that is asked for": async ({ store }) => {
    equal((await store.executions.count()).total, 0);
    for (const n of range(4)) await start(store, { id: `r${n}` });
    await store.executions.setStatus("r1", { status: "running" });
    await store.executions.cancel("r2");
    await store.events.append("r3", { type: "workflow_failed", data: { error: "no" } });
    match(await store.executions.count({ groupBy: "status" }), { total: 4, byStatus: { pending: 1, running: 1, cancelled: 1, failed: 1 } });
    await store.executions.delete("r2");
    match(await store.executions.count({ groupBy: "status" }), { total: 3, byStatus: { pending: 1, running: 1, failed: 1 } });
  },

  "cancelling a run ends it, with the reason in its log, and cancels what waits": async ({ store }) => {
    const { id } = await start(store);
    await enqueue(store, { id: "waits", executionId: id, nodeId: "n" });
    match(await store.executions.cancel(id, { reason: "enough" }), { id, status: "cancelled" });
    match((await story(store, id))[0], ["execution_status_set", { from: "pending", to: "cancelled", reason: "enough" }]);
    match(await store.queue.get("waits"), { status: "cancelled" });
    equal(await claim(store), []);
    const before = await contents(store);
    match(await store.executions.cancel(id, { reason: "again" }), { status: "cancelled" });
    equal(await contents(store), before, "what the store holds after cancelling again");
    const done = await start(store);
    await store.events.append(done.id, { type: "workflow_completed", data: {} });
    await refuses(store, () => store.executions.cancel(done.id), "invalid_transition", /completed.*cancelled/);
    await refuses(store, () => store.executions.cancel("ghost"), "not_found", /ghost/);
  },

  "every change of a state is an event, and the state is what the events make of it": async ({ store }) => {
    const { id } = await start(store);
    match(await store.executions.setState(id, { state: { a: 1, b: { c: 1, d: 2 } } }), { lastSequence: 1 });
    match(await store.executions.patchState(id, { patch: { a: null, b: { c: null, e: [3] }, f: "x" } }), { lastSequence: 2 });
    match(await store.executions.appendToState(id, { key: "list", value: { n: 1 } }), { lastSequence: 3 });
    match(await store.executions.appendToState(id, { key: "list", value: null }), { lastSequence: 4 });
    const state = { b: { d: 2, e: [3] }, f: "x", list: [{ n: 1 }, null] };
    match(await store.executions.get(id), { state, lastSequence: 4 });
    match(await store.executions.materialize(id), { state });
    match(await store.executions.materialize(id, { at: 1 }), { state: { a: 1, b: { c: 1, d: 2 } } });
    equal(await story(store, id), [
      ["execution_state_set", { state: { a: 1, b: { c: 1, d: 2 } } }],
      ["execution_state_patched", { patch: { a: null, b: { c: null, e: [3] }, f: "x" } }],
      ["execution_state_appended", { key: "list", value: { n: 1 } }],
      ["execution_state_appended", { key: "list", value: null }],
    ]);
  },

  "appending where the state holds something else is a conflict, and changes nothing": async ({ store }) => {
    const { id } = await start(store);
    await store.executions.setState(id, { state: { text: "t", map: {}, nothing: null } });
    for (const key of ["text", "map", "nothing"]) await refuses(store, () => store.executions.appendToState(id, { key, value: 1 }), "conflict", new RegExp(key));
    await store.executions.setState(id, { state: [1] });
    await refuses(store, () => store.executions.appendToState(id, { key: "a", value: 1 }), "conflict");
  },

  "a change of state on a log that has moved on is a conflict": async ({ store }) => {
    const { id } = await start(store);
    await store.executions.setState(id, { state: { a: 1 } }, { expectedSequence: 0 });
    for (const change of [
      (options) => store.executions.setState(id, { state: { a: 2 } }, options),
      (options) => store.executions.patchState(id, { patch: { a: 2 } }, options),
      (options) => store.executions.appendToState(id, { key: "b", value: 2 }, options),
    ]) {
      await refuses(store, () => change({ expectedSequence: 0 }), "conflict", /\b1\b/);
    }
    match(await store.executions.patchState(id, { patch: { a: 3 } }, { expectedSequence: 1 }), { lastSequence: 2 });
  },

  "the state of a run that has ended does not change any more, and it takes no work": async ({ store }) => {
    const { id } = await start(store);
    await store.executions.patchState(id, { patch: { kept: true } });
    await store.executions.cancel(id);
    await refuses(store, () => store.executions.setState(id, { state: {} }), "invalid_transition", /cancelled/);
    await refuses(store, () => store.executions.patchState(id, { patch: { a: 1 } }), "invalid_transition", /cancelled/);
    await refuses(store, () => store.executions.appendToState(id, { key: "a", value: 1 }), "invalid_transition", /cancelled/);
    await refuses(store, () => enqueue(store, { executionId: id, nodeId: "n" }), "invalid_transition", /cancelled/);
    await refuses(store, () => store.timers.schedule({ executionId: id, nodeId: "n", delayMs: 1 }), "invalid_transition", /cancelled/);
    await refuses(store, () => store.executions.continueAsNew(id), "invalid_transition", /cancelled/);
  },

  "a state with any keys comes back as it went in": async ({ store, reopen }) => {
    const state = JSON.parse('{"__proto__":{"a":1},"constructor":2,"":3,"🎉":[null,{"x":1e-7}],"nul":"a\\u0000b"}');
    const { id } = await start(store);
    await store.executions.setState(id, { state });
    await store.executions.appendToState(id, { key: "toString", value: 1 });
    const again = await reopen();
    equal((await again.executions.get(id)).state, Object.assign(JSON.parse(JSON.stringify(state)), { toString: [1] }));
  },

  "a run goes on in its next segment, with its state and its first work item": async ({ store }) => {
    const { id } = await start(store, { input: { goal: 1 }, tags: ["t"], sessionType: "resumable", workflowVersion: "7" });
    await store.executions.setState(id, { state: { history: [1, 2, 3] } });
    const next = await store.executions.continueAsNew(id, { state: { summary: "s" }, enqueue: { id: "first", queue: "q", nodeId: "n", payload: 5 } });
    match(next, { created: true, status: "pending", parentId: id, segment: 1, state: { summary: "s" }, workflowId: "w", workflowVersion: "7", sessionType: "resumable", lastSequence: 0 });
    match(await store.executions.get(id), { status: "completed", state: { history: [1, 2, 3] } });
    equal((await story(store, id)).at(-1), ["segment_boundary", { segmentNumber: 0, nextExecutionId: next.id }]);
    match(await claimOne(store), { id: "first", executionId: next.id, nodeId: "n", payload: 5 });
    match(await store.executions.materialize(next.id, { at: 0 }), { status: "pending", state: { summary: "s" } });
    match(await store.executions.continueAsNew(next.id, { state: {} }), { segment: 2, parentId: next.id });
  },

  "asked twice, a continuation is the same one": async ({ store }) => {
    const { id } = await start(store);
    const given = { state: { n: 1 }, enqueue: { queue: "q", nodeId: "n" } };
    const next = await store.executions.continueAsNew(id, given);
    await store.executions.setStatus(next.id, { status: "running" });
    const before = await contents(store);
    match(await store.executions.continueAsNew(id, given), { id: next.id, created: false, status: "running" });
    equal(await contents(store), before, "what the store holds after the second time");
    equal(ids(await all(store.executions.list({ parentId: id }))), [next.id]);
    await refuses(store, () => store.executions.continueAsNew(id, { state: { n: 2 } }), "conflict");
  },

  "a continuation whose first work item is refused does not happen at all": async ({ store }) => {
    const { id } = await start(store);
    await enqueue(store, { id: "taken" });
    await refuses(store, () => store.executions.continueAsNew(id, { state: {}, enqueue: { id: "taken", queue: "q", nodeId: "n" } }), "conflict", /taken/);
    await refuses(store, () => store.executions.continueAsNew(id, { enqueue: { queue: "q", nodeId: "n", surplus: 1 } }), "invalid_argument", /surplus/);
  },

  "a fork is a run of its own that begins where another one stood": async ({ store }) => {
    const { id } = await start(store, { input: { goal: 1 }, tags: ["t"] });
    await store.events.append(id, { type: "workflow_started", data: { workflowId: "w", workflowVersion: "1", initialInput: null } });
    await store.events.append(id, { type: "node_completed", data: { nodeId: "a", output: { big: "x".repeat(500) }, statePatch: { a: 1 }, durationMs: 1, inputTokens: 10 } });
    await store.events.append(id, { type: "tool_approval_required", data: { nodeId: "b", approvalId: "p", toolName: "rm", approver: null, context: { path: "/" } } });
    const at = 3;
    const then = await store.executions.materialize(id, { at });
    await store.executions.patchState(id, { patch: { a: 2 } });
    const before = await store.executions.get(id);
    const fork = await store.executions.fork(id, { newId: "fork" }, { at });
    match(fork, { id: "fork", created: true, parentId: id, status: "running", state: { a: 1 }, input: { goal: 1 }, lastSequence: 0, segment: 0 });
    equal(await log(store, "fork"), []);
    const { lastSequence, pendingApprovals, ...rest } = await store.executions.materialize("fork");
    const { lastSequence: _, pendingApprovals: open, ...expected } = then;
    equal(rest, expected, "the fold of the fork");
    equal([lastSequence, pendingApprovals], [0, open.map((approval) => ({ ...approval, sequence: 0 }))]);
    equal(await store.executions.get(id), before, "the run that was forked");
    match(await store.executions.fork(id, { newId: "fork" }, { at }), { id: "fork", created: false });
    await refuses(store, () => store.executions.fork(id, { newId: "fork" }, { at: 2 }), "conflict", /fork/);
  },

  "what happens to a fork and to what it came from is apart, also when that is deleted": async ({ store }) => {
    const { id } = await start(store);
    await store.events.append(id, { type: "node_completed", data: { nodeId: "a", output: [1], statePatch: { a: 1 }, durationMs: 1 } });
    const fork = await store.executions.fork(id);
    await store.executions.patchState(fork.id, { patch: { b: 1 } });
    await store.executions.patchState(id, { patch: { c: 1 } });
    match(await store.executions.get(id), { state: { a: 1, c: 1 } });
    await store.executions.delete(id);
    match(await store.executions.get(fork.id), { state: { a: 1, b: 1 }, parentId: id });
    match(await store.executions.materialize(fork.id), { completedNodes: { a: [1] }, lastSequence: 1 });
    match(await store.executions.fork(fork.id), { state: { a: 1, b: 1 }, parentId: fork.id });
  },

  "a finished run can be forked from before its end, and goes on from there": async ({ store }) => {
    const { id } = await start(store);
    await store.executions.setStatus(id, { status: "running" });
    await store.events.append(id, { type: "workflow_failed", data: { error: "no" } });
    const fork = await store.executions.fork(id, {}, { at: 1 });
    match(fork, { status: "running" });
    equal([fork.error, fork.completedAt], [undefined, undefined]);
    match(await store.executions.setStatus(fork.id, { status: "completed" }), { status: "completed" });
    for (const at of [-1, 3]) await refuses(store, () => store.executions.fork(id, {}, { at }), "invalid_argument", /at/);
  },

  "a deleted run takes its log, items, timers and approvals along, and leaves its children": async ({ store, clock }) => {
    const empty = await contents(store);
    const { id } = await start(store, { id: "run" });
    await enqueue(store, { id: "item", executionId: id, nodeId: "n" });
    await enqueue(store, { id: "claimed", executionId: id, nodeId: "n", priority: 1 });
    const item = await claimOne(store);
    await store.timers.schedule({ id: "timer", executionId: id, nodeId: "n", delayMs: 10, enqueue: { queue: "q" } });
    await store.events.append(id, { type: "interrupt_raised", data: { nodeId: "n", reason: "r", stateForReview: null } });
    await start(store, { id: "child", parentId: id });
    equal(await store.executions.delete(id), null);
    equal([await store.executions.get(id), await store.queue.get("item"), await store.queue.get("claimed"), await store.timers.get("timer")], [null, null, null, null]);
    match(await store.executions.get("child"), { parentId: id });
    await refuses(store, () => store.queue.complete(item), "not_found", /claimed/);
    await refuses(store, () => store.executions.delete(id), "not_found", /run/);
    clock.advance(1_000);
    match(await store.sweep(), { timersFired: 0, errors: [] });
    await store.executions.delete("child");
    const { queues, ...rest } = await contents(store);
    const { queues: _, ...expected } = empty;
    equal(rest, expected, "what is left");
    match(await start(store, { id: "run", input: "another" }), { created: true, lastSequence: 0, state: {} });
  },

  "snapshots are written by themselves, and change no answer": async ({ store }) => {
    const { id } = await start(store);
    equal(await store.snapshots.latest(id), null);
    equal(await all(store.snapshots.list({ executionId: id })), []);
    for (const part of range(5)) {
      await store.events.appendMany(id, range(60).map((n) => ({ type: "node_completed", data: { nodeId: `n${n % 7}`, output: part, statePatch: { [`k${n % 5}`]: part * 60 + n }, durationMs: 1, inputTokens: 1 } })));
    }
    const snapshots = await all(store.snapshots.list({ executionId: id }));
    ok(snapshots.length >= 1 && snapshots.length <= 3, `${snapshots.length} snapshots of 300 events`);
    for (const snapshot of snapshots) {
      match(snapshot, { executionId: id });
      ok(snapshot.sequence >= 100 && snapshot.sequence <= 300 && snapshot.bytes > 0, JSON.stringify(snapshot));
    }
    equal(await store.snapshots.latest(id), snapshots.at(-1));
    const { state, budget } = await store.executions.materialize(id);
    equal([state, budget.inputTokens], [{ k0: 295, k1: 296, k2: 297, k3: 298, k4: 299 }, 300]);
    match(await store.executions.materialize(id, { at: 101 }), { state: { k0: 100, k4: 99 }, budget: { inputTokens: 101 }, lastSequence: 101 });
    await refuses(store, () => store.snapshots.list({ executionId: "ghost" }), "not_found", /ghost/);
    await refuses(store, () => store.snapshots.latest("ghost"), "not_found", /ghost/);
  },
};
