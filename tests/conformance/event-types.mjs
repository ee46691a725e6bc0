// The event types of SPEC 13 and their fields, written down from there by hand: a second opinion on the table that the store has.
import { equal, match } from "./assert.mjs";
import { contents, log, refuses, start } from "./kit.mjs";

// Fields as `name:kind`, `name?:kind` where it may be left out. A kind has a value that fits, and where the specification is clear about it
// also values that do not: "any" is any JSON, "word" a string as any reader would give it, "count" a whole number likewise.
const kinds = {
  id: { fits: "an id", wrong: [5, null, ["an id"], {}] },
  word: { fits: "a word" },
  int: { fits: 12, wrong: ["12", 1.5, null, [12]] },
  count: { fits: 3 },
  num: { fits: 0.25, wrong: ["0.25", null, {}] },
  bool: { fits: true, wrong: ["true", 1, null] },
  error: { fits: { message: "no", code: "E1", stack: "at x" }, wrong: [5, null, ["no"], {}, { message: 5 }, { message: "no", code: 5 }, { code: "E1" }] },
  decision: { fits: "rejected", wrong: ["maybe", 5, null, true] },
  patch: { fits: { a: 1, b: null } },
  provenance: {
    fits: { modelId: "m", modelVersion: "1", confidence: 0.5, verified: true, source: "s", trustDomain: "t", evidenceRefs: ["e"] },
    wrong: [5, "m", { verified: "yes" }, { confidence: "high" }, { evidenceRefs: "e" }, { modelId: 5 }],
  },
  any: { fits: { any: ["thing", 1, null] } },
};

const families = {
  "the life of a workflow": {
    workflow_started: "workflowId:id workflowVersion:word initialInput:any",
    workflow_completed: "finalState?:any output?:any",
    workflow_failed: "error:error",
    workflow_cancelled: "reason?:id",
  },
  nodes: {
    node_scheduled: "nodeId:id queueType:word",
    node_started: "nodeId:id workerId:id attempt:int",
    node_completed:
      "nodeId:id output:any statePatch:patch durationMs:int genAiSystem?:word genAiModel?:word inputTokens?:int outputTokens?:int finishReason?:id costUsd?:num provenance?:provenance idempotencyKey?:word",
    node_failed: "nodeId:id error:error attempt:int retryable:bool",
    node_parked: "nodeId:id attempt:int retryAfter:count",
    node_skipped: "nodeId:id reason:id",
    node_cancelled: "nodeId:id",
    retry_scheduled: "nodeId:id attempt:int delayMs:int",
  },
  "interrupts and approvals": {
    interrupt_raised: "nodeId:id reason:id stateForReview:any",
    tool_approval_required: "nodeId:id approvalId?:id toolName:id approver:any context:any",
    approval_received: "nodeId:id approvalId?:id userId?:id decision:decision comment?:word statePatch?:patch payload?:any",
  },
  "timers, outside events and children": {
    timer_created: "nodeId:id fireAt:int correlationKey?:word",
    timer_fired: "nodeId:id correlationKey?:word lateByMs?:int",
    external_event_received: "correlationKey:word payload:any",
    child_workflow_started: "nodeId:id childExecutionId:id childWorkflowId:id",
    child_workflow_completed: "nodeId:id childExecutionId:id result:any",
    child_workflow_failed: "nodeId:id childExecutionId:id error:error",
  },
  "budgets, limits and policies": {
    budget_exceeded: "nodeId:id kind:word limit:count current:count",
    token_budget_exceeded: "nodeId:id kind:word limit:count current:count",
    cost_budget_exceeded: "nodeId:id limitUsd:num currentUsd:num",
    autonomy_limit_reached: "nodeId:id agentRef:word limitType:word limitValue:any actualValue:any",
    circuit_breaker_tripped: "nodeId:id agentRef:word consecutiveErrors:int threshold:count",
    escalation_required: "nodeId:id agentRef:word reason:id escalationTarget:any",
    policy_violation: "nodeId:id rule:any decision:any policyScope:any",
  },
  strategies: {
    strategy_started: "strategy:any config:any",
    plan_generated: "steps:any",
    iteration_started: "iteration:count",
    tool_called: "nodeId:id tool:any",
    critic_verdict: "nodeId:id score:num passed:bool feedback?:any",
    iteration_completed: "iteration:count costDeltaUsd?:num inputTokens:int outputTokens:int",
    strategy_limit_hit: "limitType:word limitValue:any actualValue:any",
    strategy_completed: "iterations:int totalCostUsd?:num",
  },
  "the coordinator": {
    coordinator_discovery: "nodeId:id querySkills:any queryTrustDomain?:any candidates:any filteredOut:any",
    coordinator_scoring: "nodeId:id rankings:any spread:any weights:any",
    coordinator_decision: "nodeId:id selected?:any method:any reasoning?:any confidence:num rejected:any tiebreakerTokens?:int tiebreakerCost?:num",
  },
  "agents as tools": {
    agent_tool_invoked: "nodeId:id agentUri:word mode:any protocol:any inputHash:word",
    agent_tool_progress: "nodeId:id chunkIndex:count partialOutputSummary:word",
    agent_tool_turn: "nodeId:id turnNumber:count direction:any contentSummary:word tokens:int cost:num",
    agent_tool_completed: "nodeId:id output:any provenance?:provenance totalCost:num latencyMs:int totalTurns?:count",
    agent_tool_terminated: "nodeId:id reason:id chunksReceived:count partialOutput?:any cost:num",
    agent_tool_failed: "nodeId:id failureType:word message:word retryable:bool",
  },
};

function parse(fields) {
  return fields.split(" ").map((field) => {
    const [name, kind] = field.split(":");
    return { name: name.replace("?", ""), optional: name.endsWith("?"), kind: kinds[kind] };
  });
}

const dataOf = (fields) => Object.fromEntries(fields.map(({ name, kind }) => [name, kind.fits]));

async function checkType(store, type, fields) {
  // Each in a run of its own, for some end it.
  const run = async () => (await start(store)).id;
  for (const data of [dataOf(fields), dataOf(fields.filter(({ optional }) => !optional))]) {
    const id = await run();
    match(await store.events.append(id, { type, data }), { sequence: 1 }, `${type} with ${Object.keys(data)}`);
    equal((await log(store, id)).map(({ type, data }) => [type, data]), [[type, data]]);
  }

  const id = await run();
  const before = await contents(store);
  const refuse = async (data, field) => {
    const error = await store.events.append(id, { type, data }).then(
      () => null,
      (error) => error,
    );
    match(error, { name: "RunkeepError", code: "invalid_argument", message: new RegExp(field) }, `the error of ${type} with ${JSON.stringify(data)}`);
  };
  const whole = dataOf(fields);
  for (const { name, optional, kind } of fields) {
    const { [name]: _, ...without } = whole;
    if (!optional) await refuse(without, name);
    // An optional field that is null may be taken as left out.
    for (const wrong of (kind.wrong ?? []).filter((value) => !(optional && value === null))) await refuse({ ...whole, [name]: wrong }, name);
  }
  await refuse({ ...whole, surplus: 1 }, "surplus");
  for (const data of [null, [], "text", 5]) await refuse(data, "data");
  equal(await contents(store), before, `what the store holds after bad ${type}`);
}

export const eventTypes = {
  ...Object.fromEntries(
    Object.entries(families).map(([family, types]) => [
      `events of ${family} are kept whole; a field that is missing, ill-typed or unknown is refused and named`,
      async ({ store }) => {
        for (const [type, fields] of Object.entries(types)) await checkType(store, type, parse(fields));
      },
    ]),
  ),

  "an error in an event is a text, or a message with code and stack": async ({ store }) => {
    const { id } = await start(store);
    for (const error of ["no", { message: "no" }, { message: "no", code: "E1" }, { message: "", stack: "" }]) {
      match(await store.events.append(id, { type: "node_failed", data: { nodeId: "n", error, attempt: 1, retryable: true } }), { data: { error } });
    }
  },

  "a decision is approved or rejected": async ({ store }) => {
    const { id } = await start(store);
    for (const decision of ["approved", "rejected"]) await store.events.append(id, { type: "approval_received", data: { nodeId: "n", decision } });
    for (const decision of ["Approved", "yes", ""]) {
      await refuses(store, () => store.events.append(id, { type: "approval_received", data: { nodeId: "n", decision } }), "invalid_argument", /decision/);
    }
  },

  "a patch of a node may be null, which is no change": async ({ store }) => {
    const { id } = await start(store);
    const done = (statePatch) => store.events.append(id, { type: "node_completed", data: { nodeId: "n", output: 1, statePatch, durationMs: 1 } });
    await done({ a: 1 });
    await done(null);
    match(await store.executions.get(id), { state: { a: 1 } });
  },

  "the events of a step are checked like any others, and named by their place": async ({ store }) => {
    const { id } = await start(store);
    await store.queue.enqueue({ queue: "q", executionId: id, nodeId: "n" });
    const [item] = await store.queue.claim({ workerId: "w1", queues: ["q"] });
    const events = [{ type: "x-fine" }, { type: "node_started", data: { nodeId: "n", workerId: "w1" } }];
    match((await refuses(store, () => store.queue.complete(item, { events }), "invalid_argument", /attempt/)).details, { index: 1 });
    match((await refuses(store, () => store.queue.fail(item, { error: "no", events }), "invalid_argument", /attempt/)).details, { index: 1 });
  },
};
