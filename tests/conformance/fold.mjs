import { equal, match } from "./assert.mjs";
import { all, claimOne, enqueue, log, refuses, start, story } from "./kit.mjs";

const started = { type: "workflow_started", data: { workflowId: "w", workflowVersion: "1", initialInput: {} } };
const scheduled = (nodeId) => ({ type: "node_scheduled", data: { nodeId, queueType: "tools" } });
const nodeStarted = (nodeId) => ({ type: "node_started", data: { nodeId, workerId: "w1", attempt: 1 } });
const completed = (nodeId, more) => ({ type: "node_completed", data: { nodeId, output: null, statePatch: null, durationMs: 1, ...more } });
const failed = (nodeId) => ({ type: "node_failed", data: { nodeId, error: "no", attempt: 1, retryable: true } });
const interrupt = (nodeId, id) => ({ type: "interrupt_raised", data: { nodeId, reason: "look", stateForReview: {} }, id });
const askTool = (nodeId, approvalId, id) => ({ type: "tool_approval_required", data: { nodeId, approvalId, toolName: "rm", approver: "ann", context: {} }, id });
const answer = (nodeId, more) => ({ type: "approval_received", data: { nodeId, decision: "approved", ...more } });
const ended = { type: "workflow_completed", data: {} };

/** Appends the events to a new execution; answers the fold, having checked that the record says the same. */
async function fold(store, events) {
  const { id } = await start(store);
  for (const event of events) await store.events.append(id, event);
  return folded(store, id);
}

async function folded(store, id) {
  const whole = await store.executions.materialize(id);
  const { status, state, output, lastSequence } = await store.executions.get(id);
  const { status: itsStatus, state: itsState, output: itsOutput, lastSequence: itsSequence } = whole;
  equal({ status, state, output, lastSequence }, { status: itsStatus, state: itsState, output: itsOutput, lastSequence: itsSequence }, "the record, compared with the fold of its log");
  return whole;
}

const nothing = {
  status: "pending",
  state: {},
  completedNodes: {},
  activeNodes: [],
  budget: { inputTokens: 0, outputTokens: 0, costUsd: 0, iterations: 0, toolCalls: 0, consecutiveErrors: 0, circuitBreakerTripped: false },
  pendingApprovals: [],
  lastSequence: 0,
};

export const folding = {
  "without events an execution is pending and empty": async ({ store }) => {
    equal(await fold(store, []), nothing);
  },

  "workflow_started makes it running": async ({ store }) => {
    equal(await fold(store, [started]), { ...nothing, status: "running", lastSequence: 1 });
  },

  "workflow_completed ends it with its final state and output": async ({ store }) => {
    const events = [started, completed("n", { statePatch: { a: 1 } })];
    match(await fold(store, [...events, { type: "workflow_completed", data: { finalState: { b: 2 }, output: ["done"] } }]), { status: "completed", state: { b: 2 }, output: ["done"] });
  },

  "workflow_completed without final state and output keeps the state": async ({ store }) => {
    const whole = await fold(store, [started, completed("n", { statePatch: { a: 1 } }), ended]);
    match(whole, { status: "completed", state: { a: 1 } });
    equal(whole.output, undefined);
  },

  "workflow_failed, workflow_cancelled and strategy_limit_hit end it as what they say": async ({ store }) => {
    const endings = {
      failed: { type: "workflow_failed", data: { error: { message: "no", code: "E1" } } },
      cancelled: { type: "workflow_cancelled", data: { reason: "enough" } },
      limit_exceeded: { type: "strategy_limit_hit", data: { limitType: "iterations", limitValue: 3, actualValue: 4 } },
    };
    for (const [status, ending] of Object.entries(endings)) match(await fold(store, [started, ending]), { status });
  },

  "a failed execution tells its error": async ({ store }) => {
    const { id } = await start(store);
    await store.events.append(id, { type: "workflow_failed", data: { error: { message: "no", code: "E1" } } });
    match(await store.executions.get(id), { status: "failed", error: { message: "no", code: "E1" } });
  },

  "an event is a fact and is folded whatever the table of transitions says": async ({ store }) => {
    match(await fold(store, [ended]), { status: "completed" });
    match(await fold(store, [interrupt("n")]), { status: "paused" });
  },

  "nodes are active from scheduling to their end": async ({ store }) => {
    const all = ["completes", "fails", "is skipped", "is cancelled", "is scheduled", "is started"];
    const events = [
      ...all.map(scheduled),
      nodeStarted("is started"),
      completed("completes", { output: { n: 1 } }),
      failed("fails"),
      { type: "node_skipped", data: { nodeId: "is skipped", reason: "no need" } },
      { type: "node_cancelled", data: { nodeId: "is cancelled" } },
    ];
    match(await fold(store, events), { activeNodes: ["is scheduled", "is started"], completedNodes: { completes: { n: 1 } } });
    match(await fold(store, [nodeStarted("n")]), { activeNodes: ["n"] });
  },

  "a node that ran twice keeps its newest output": async ({ store }) => {
    match(await fold(store, [completed("n", { output: 1 }), nodeStarted("n"), completed("n", { output: 2 })]), { activeNodes: [], completedNodes: { n: 2 } });
  },

  "a patch merges by RFC 7396: members one by one, null removes, anything else replaces": async ({ store }) => {
    const patches = [
      [{ a: 1, b: { c: [1, 2], d: "x" } }, { a: 1, b: { c: [1, 2], d: "x" } }],
      [{ b: { c: [3] } }, { a: 1, b: { c: [3], d: "x" } }],
      [{ a: null }, { b: { c: [3], d: "x" } }],
      [{ b: { d: null, e: { f: null, g: 1 } } }, { b: { c: [3], e: { g: 1 } } }],
      [{ b: "flat" }, { b: "flat" }],
      [{ b: { again: {} }, missing: null }, { b: { again: {} } }],
      [{}, { b: { again: {} } }],
      [null, { b: { again: {} } }],
    ];
    const { id } = await start(store);
    for (const [statePatch, state] of patches) {
      await store.events.append(id, completed("n", { statePatch }));
      equal((await folded(store, id)).state, state, `the state after the patch ${JSON.stringify(statePatch)}`);
    }
  },

  "tokens and cost of nodes add up in the budget": async ({ store }) => {
    const events = [completed("a", { inputTokens: 100, outputTokens: 20, costUsd: 0.25 }), completed("b", { inputTokens: 1, costUsd: 0.5 }), completed("c")];
    match(await fold(store, events), { budget: { inputTokens: 101, outputTokens: 20, costUsd: 0.75 } });
  },

  "the budget counts iterations and tool calls": async ({ store }) => {
    const iteration = (n) => ({ type: "iteration_completed", data: { iteration: n, inputTokens: 0, outputTokens: 0 } });
    const tool = { type: "tool_called", data: { nodeId: "n", tool: "grep" } };
    match(await fold(store, [tool, iteration(1), tool, tool, iteration(2)]), { budget: { iterations: 2, toolCalls: 3 } });
  },

  "tokens count where a node completes, not again where its iteration does": async ({ store }) => {
    const events = [
      completed("a", { inputTokens: 100, outputTokens: 20, costUsd: 0.25 }),
      { type: "iteration_completed", data: { iteration: 1, costDeltaUsd: 0.25, inputTokens: 100, outputTokens: 20 } },
    ];
    match(await fold(store, events), { budget: { inputTokens: 100, outputTokens: 20, costUsd: 0.25, iterations: 1 } });
  },

  "the budget knows consecutive errors and a tripped circuit breaker": async ({ store }) => {
    const tripped = { type: "circuit_breaker_tripped", data: { nodeId: "n", agentRef: "a", consecutiveErrors: 2, threshold: 2 } };
    match(await fold(store, [failed("a"), failed("b")]), { budget: { consecutiveErrors: 2, circuitBreakerTripped: false } });
    match(await fold(store, [failed("a"), completed("b"), failed("c")]), { budget: { consecutiveErrors: 1 } });
    match(await fold(store, [failed("a"), failed("b"), tripped]), { budget: { consecutiveErrors: 2, circuitBreakerTripped: true } });
  },

  "an interrupt pauses the run until its approval is received": async ({ store }) => {
    const { id } = await start(store);
    await store.events.append(id, started);
    await store.events.append(id, interrupt("review", "i1"));
    match(await folded(store, id), { status: "paused", pendingApprovals: [{ approvalId: "i1", nodeId: "review", sequence: 2 }] });
    await store.events.append(id, answer("review", { approvalId: "i1", statePatch: { ok: true } }));
    match(await folded(store, id), { status: "running", state: { ok: true }, pendingApprovals: [] });
  },

  "a rejected approval is settled as well": async ({ store }) => {
    match(await fold(store, [started, interrupt("n", "i2"), answer("n", { decision: "rejected" })]), { status: "running", pendingApprovals: [] });
  },

  "a tool's approval waits under its approvalId, or under the id of the event that raised it": async ({ store }) => {
    match(await fold(store, [started, askTool("shell", "a1"), askTool("shell", undefined, "raised")]), {
      status: "running",
      pendingApprovals: [
        { approvalId: "a1", nodeId: "shell", toolName: "rm" },
        { approvalId: "raised", nodeId: "shell", toolName: "rm" },
      ],
    });
    match(await fold(store, [started, askTool("shell", "a1"), answer("shell", { approvalId: "a1" })]), { status: "running", pendingApprovals: [] });
  },

  "a paused run goes on only when nothing else waits": async ({ store }) => {
    const asked = [started, askTool("one", "a1"), interrupt("two", "i3"), askTool("three", "a3")];
    match(await fold(store, [...asked, answer("two", { approvalId: "i3" })]), { status: "paused", pendingApprovals: [{ approvalId: "a1" }, { approvalId: "a3" }] });
    const rest = [answer("one", { approvalId: "a1" }), answer("three", { approvalId: "a3" })];
    const { id } = await start(store);
    await store.events.appendMany(id, [started, askTool("one", "a1"), interrupt("two", "i4"), askTool("three", "a3")]);
    for (const [event, status] of [[answer("two", { approvalId: "i4" }), "paused"], [rest[0], "paused"], [rest[1], "running"]]) {
      await store.events.append(id, event);
      match(await folded(store, id), { status });
    }
  },

  "an approval for nothing that waits changes no other": async ({ store }) => {
    match(await fold(store, [started, interrupt("n", "i5"), answer("n", { approvalId: "unknown" })]), { status: "paused", pendingApprovals: [{ approvalId: "i5" }] });
    match(await fold(store, [started, answer("n", { statePatch: { a: 1 } })]), { status: "running", state: { a: 1 } });
    match(await fold(store, [answer("n")]), { status: "pending" });
  },

  "an approval that is asked for again while it waits is one approval": async ({ store }) => {
    const { id } = await start(store);
    await store.events.appendMany(id, [started, askTool("n", "a1"), askTool("n", "a1"), askTool("n", "i8"), interrupt("n", "i8")]);
    match(await folded(store, id), { status: "paused", pendingApprovals: [{ approvalId: "a1" }, { approvalId: "i8" }] });
    await store.events.appendMany(id, [answer("n", { approvalId: "a1" }), answer("n", { approvalId: "i8" })]);
    match(await folded(store, id), { status: "running", pendingApprovals: [] });
    await store.events.append(id, askTool("n", "a1"));
    match(await folded(store, id), { pendingApprovals: [{ approvalId: "a1", sequence: 8 }] });
  },

  "numbers in the state and in outputs stay what they were, to the last digit": async ({ store }) => {
    const numbers = [-4.0773263322065525e-258, 0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, 123_456_789.123_456_79, 2 ** 53 - 1, -(2 ** 53), 1e21, 2.5e-7];
    const whole = await fold(store, [completed("n", { output: numbers, statePatch: { numbers } })]);
    equal(whole.state, { numbers });
    equal(whole.completedNodes, { n: numbers });
  },

  "setStatus is part of the fold": async ({ store }) => {
    const { id } = await start(store);
    await store.executions.setStatus(id, { status: "running" });
    await store.executions.setStatus(id, { status: "paused" });
    match(await folded(store, id), { status: "paused", lastSequence: 2 });
  },

  "the state patch of a step is an event of the log": async ({ store }) => {
    const { id } = await start(store);
    await enqueue(store, { executionId: id, nodeId: "n" });
    await store.queue.complete(await claimOne(store), { statePatch: { a: { b: 1 } } });
    equal(await story(store, id), [["execution_state_patched", { patch: { a: { b: 1 } } }]]);
    match(await folded(store, id), { state: { a: { b: 1 } } });
  },

  "all other events change nothing": async ({ store }) => {
    const others = [
      { type: "node_parked", data: { nodeId: "n", attempt: 1, retryAfter: 5 } },
      { type: "retry_scheduled", data: { nodeId: "n", attempt: 1, delayMs: 5 } },
      { type: "timer_created", data: { nodeId: "n", fireAt: 5 } },
      { type: "timer_fired", data: { nodeId: "n" } },
      { type: "external_event_received", data: { correlationKey: "k", payload: { a: 1 } } },
      { type: "child_workflow_failed", data: { nodeId: "n", childExecutionId: "c", error: "no" } },
      { type: "budget_exceeded", data: { nodeId: "n", kind: "tokens", limit: 1, current: 2 } },
      { type: "policy_violation", data: { nodeId: "n", rule: "r", decision: "deny", policyScope: "s" } },
      { type: "strategy_started", data: { strategy: "react", config: {} } },
      { type: "plan_generated", data: { steps: ["a"] } },
      { type: "strategy_completed", data: { iterations: 3 } },
      { type: "agent_tool_completed", data: { nodeId: "n", output: 1, totalCost: 1, latencyMs: 1 } },
      { type: "agent_tool_failed", data: { nodeId: "n", failureType: "t", message: "m", retryable: false } },
      { type: "x-workflow_completed", data: { finalState: { a: 1 } } },
    ];
    equal(await fold(store, [started, ...others]), { ...nothing, status: "running", lastSequence: others.length + 1 });
  },

  "terminal is final: what comes later is recorded and changes neither status nor state nor output": async ({ store }) => {
    const endings = [
      { type: "workflow_completed", data: { finalState: { end: 1 }, output: "o" } },
      { type: "workflow_failed", data: { error: "no" } },
      { type: "workflow_cancelled", data: {} },
      { type: "strategy_limit_hit", data: { limitType: "t", limitValue: 1, actualValue: 1 } },
    ];
    for (const ending of endings) {
      const { id } = await start(store);
      await store.events.append(id, ending);
      const { status, state, output, error, completedAt } = await store.executions.get(id);
      const late = [started, completed("n", { statePatch: { late: 1 } }), interrupt("n"), answer("n", { statePatch: { late: 2 } }), ...endings];
      for (const event of late) await store.events.append(id, { ...event, id: undefined });
      const after = await store.executions.get(id);
      equal({ status: after.status, state: after.state, output: after.output, error: after.error, completedAt: after.completedAt }, { status, state, output, error, completedAt }, `what ${ending.type} left`);
      equal((await log(store, id)).length, 1 + late.length);
      await folded(store, id);
    }
  },

  "an execution can be seen as of any event": async ({ store }) => {
    const events = [started, scheduled("n"), completed("n", { output: 7, statePatch: { a: 1 }, inputTokens: 5 }), interrupt("m", "i6"), answer("m"), ended];
    const { id } = await start(store);
    const seen = [await store.executions.materialize(id)];
    for (const event of events) {
      await store.events.append(id, event);
      seen.push(await store.executions.materialize(id));
    }
    equal(seen.map(({ status }) => status), ["pending", "running", "running", "running", "paused", "running", "completed"]);
    for (const [at, then] of seen.entries()) equal(await store.executions.materialize(id, { at }), then, `the fold at ${at}`);
    for (const at of [-1, events.length + 1]) await refuses(store, () => store.executions.materialize(id, { at }), "invalid_argument", /\bat\b/);
    await refuses(store, () => store.executions.materialize("nobody"), "not_found", /nobody/);
  },

  "the same log folds to the same result in another store": async ({ store, clock, openStore }) => {
    const { id } = await start(store);
    const events = [started, scheduled("a"), completed("a", { statePatch: { b: 1, a: { z: 1, y: 2 } } }), failed("b"), interrupt("c", "i7"), answer("c", { statePatch: { a: { z: null } } })];
    await store.events.appendMany(id, events);
    const other = await openStore();
    clock.advance(86_400_000);
    const copy = await start(other);
    for (const { type, data, id: eventId } of await log(store, id)) await other.events.append(copy.id, { type, data, id: eventId });
    equal(await folded(other, copy.id), await folded(store, id));
  },

  "lists show the status that the log gives": async ({ store }) => {
    const { id } = await start(store);
    const other = await start(store);
    await store.events.append(id, started);
    const ids = async (status) => (await all(store.executions.list({ status }))).map(({ id }) => id);
    equal([await ids("running"), await ids("pending")], [[id], [other.id]]);
    await store.events.append(id, ended);
    equal([await ids("running"), await ids("completed")], [[], [id]]);
  },

  "node ids that are names of JavaScript's own are nodes like any others": async ({ store }) => {
    const names = ["__proto__", "constructor", "toString", "a,b", "🎉"];
    const whole = await fold(store, names.map((name) => completed(name, { output: name, statePatch: JSON.parse(`{${JSON.stringify(name)}: 1}`) })));
    for (const name of names) equal([Object.hasOwn(whole.completedNodes, name), Object.hasOwn(whole.state, name)], [true, true], name);
  },
};
