import { equal, match, ok, rejects } from "./assert.mjs";
import { all, claimOne, enqueue, log, refuses, start, story } from "./kit.mjs";

const transitions = {
  pending: ["running", "cancelled", "failed"],
  running: ["paused", "completed", "failed", "cancelled", "limit_exceeded"],
  paused: ["running", "cancelled", "failed", "limit_exceeded"],
  completed: [],
  failed: [],
  cancelled: [],
  limit_exceeded: [],
};
const statuses = Object.keys(transitions);
const waysTo = {
  pending: [],
  running: ["running"],
  paused: ["running", "paused"],
  completed: ["running", "completed"],
  failed: ["failed"],
  cancelled: ["cancelled"],
  limit_exceeded: ["running", "limit_exceeded"],
};
const terminal = ["completed", "failed", "cancelled", "limit_exceeded"];

async function startIn(store, status) {
  const { id } = await start(store);
  for (const step of waysTo[status]) await store.executions.setStatus(id, { status: step });
  return id;
}

const transitionCases = statuses.map((from) => [
  `an execution that is ${from} can become ${transitions[from].join(", ") || "nothing else"}${transitions[from].length > 0 ? ", and nothing else" : ""}`,
  async ({ store }) => {
    for (const to of statuses) {
      const id = await startIn(store, from);
      const before = await store.executions.get(id);
      const events = await log(store, id);
      if (to === from) {
        equal(await store.executions.setStatus(id, { status: to }), before, `the answer to ${from} → ${to}`);
        equal(await log(store, id), events, `the log after ${from} → ${to}`);
      } else if (transitions[from].includes(to)) {
        const answer = await store.executions.setStatus(id, { status: to });
        match(answer, { id, status: to, lastSequence: events.length + 1 }, `the answer to ${from} → ${to}`);
        equal(await store.executions.get(id), answer, `the execution after ${from} → ${to}`);
        equal((await story(store, id)).at(-1), ["execution_status_set", { from, to }], `the last event after ${from} → ${to}`);
      } else {
        const error = await refuses(store, () => store.executions.setStatus(id, { status: to }), "invalid_transition");
        ok(error.message.includes(from) && error.message.includes(to), `the error of ${from} → ${to} does not name both: ${error.message}`);
      }
    }
  },
]);

export const executions = {
  "a new execution is pending and has what it was given": async ({ store, clock }) => {
    const given = {
      id: "run-1",
      workflowId: "agent",
      workflowVersion: "1.2.0",
      input: { goal: "tidy up", files: ["a", "b"] },
      sessionType: "resumable",
      parentId: "run-0",
      tags: ["nightly"],
      metadata: { owner: "ann" },
    };
    const created = await store.executions.create(given);
    const record = { ...given, tenantId: "default", status: "pending", state: {}, segment: 0, lastSequence: 0, createdAt: clock.now(), updatedAt: clock.now() };
    equal(created, { ...record, created: true });
    equal(await store.executions.get("run-1"), record);
  },

  "an execution needs a workflowId only": async ({ store, clock }) => {
    const { id, created, ...record } = await store.executions.create({ workflowId: "w" });
    equal(created, true);
    equal(record, {
      tenantId: "default",
      workflowId: "w",
      status: "pending",
      input: null,
      state: {},
      segment: 0,
      tags: [],
      lastSequence: 0,
      createdAt: clock.now(),
      updatedAt: clock.now(),
    });
    equal(await store.executions.get(id), { id, ...record });
  },

  "get of an execution that does not exist is null": async ({ store }) => {
    equal(await store.executions.get("nobody"), null);
  },

  "the five session types are kept, any other is refused": async ({ store }) => {
    for (const sessionType of ["stateless", "resumable", "persistent_governed", "ephemeral", "approval_gated"]) {
      match(await start(store, { sessionType }), { sessionType });
    }
    await refuses(store, () => start(store, { sessionType: "eternal" }), "invalid_argument", /sessionType/);
  },

  ...Object.fromEntries(transitionCases),

  "setStatus keeps its reason in the log": async ({ store }) => {
    const { id } = await start(store);
    await store.executions.setStatus(id, { status: "running", reason: "because" });
    equal(await story(store, id), [["execution_status_set", { from: "pending", to: "running", reason: "because" }]]);
  },

  "expectedStatus makes a change conditional": async ({ store }) => {
    const { id } = await start(store);
    await refuses(store, () => store.executions.setStatus(id, { status: "running" }, { expectedStatus: "paused" }), "conflict", /pending/);
    match(await store.executions.setStatus(id, { status: "running" }, { expectedStatus: "pending" }), { status: "running" });
    await refuses(store, () => store.executions.setStatus(id, { status: "running" }, { expectedStatus: "pending" }), "conflict", /running/);
  },

  "setStatus of an execution that does not exist is not_found": async ({ store }) => {
    await refuses(store, () => store.executions.setStatus("nobody", { status: "running" }), "not_found", /nobody/);
  },

  "an execution tells when it first ran and when it ended": async ({ store, clock }) => {
    const at = clock.now();
    const { id } = await start(store);
    const set = async (status) => {
      clock.advance(10);
      const { startedAt, completedAt, createdAt, updatedAt } = await store.executions.setStatus(id, { status });
      return { startedAt: startedAt && startedAt - at, completedAt: completedAt && completedAt - at, createdAt: createdAt - at, updatedAt: updatedAt - at };
    };
    equal(await set("running"), { startedAt: 10, completedAt: undefined, createdAt: 0, updatedAt: 10 });
    equal(await set("paused"), { startedAt: 10, completedAt: undefined, createdAt: 0, updatedAt: 20 });
    equal(await set("running"), { startedAt: 10, completedAt: undefined, createdAt: 0, updatedAt: 30 });
    equal(await set("completed"), { startedAt: 10, completedAt: 40, createdAt: 0, updatedAt: 40 });
  },

  "an execution that ends cancels what still waits for it, and says so in its log": async ({ store, clock }) => {
    for (const status of terminal) {
      const { id } = await start(store);
      await store.executions.setStatus(id, { status: "running" });
      const pending = await enqueue(store, { queue: status, executionId: id, nodeId: "now" });
      const scheduled = await enqueue(store, { queue: status, executionId: id, nodeId: "later", delayMs: 60_000 });
      const stranger = await enqueue(store, { queue: status });
      clock.advance(5);
      await store.executions.setStatus(id, { status });
      for (const item of [pending, scheduled]) match(await store.queue.get(item.id), { status: "cancelled", finishedAt: clock.now() }, `an item of a run that is ${status}`);
      match(await store.queue.get(stranger.id), { status: "pending" }, "an item of no execution");
      const events = (await story(store, id)).slice(1);
      match(events[0], ["execution_status_set", { to: status }]);
      equal(events.slice(1).map(([type, { nodeId }]) => [type, nodeId]).sort(), [["node_cancelled", "later"], ["node_cancelled", "now"]]);
    }
  },

  "an execution that ends by an event cancels what still waits for it as well": async ({ store }) => {
    const endings = [
      { type: "workflow_completed", data: {} },
      { type: "workflow_failed", data: { error: "no" } },
      { type: "workflow_cancelled", data: {} },
      { type: "strategy_limit_hit", data: { limitType: "iterations", limitValue: 3, actualValue: 3 } },
    ];
    for (const ending of endings) {
      const { id } = await start(store);
      const { id: itemId } = await enqueue(store, { executionId: id, nodeId: "n" });
      await store.events.append(id, ending);
      match(await store.queue.get(itemId), { status: "cancelled" }, `the item after ${ending.type}`);
      equal(await story(store, id), [[ending.type, ending.data], ["node_cancelled", { nodeId: "n" }]]);
    }
  },

  "no more work is taken for an execution that has ended": async ({ store }) => {
    const id = await startIn(store, "cancelled");
    await refuses(store, () => enqueue(store, { executionId: id, nodeId: "n" }), "invalid_transition", /cancelled/);
    await refuses(store, () => store.queue.enqueueMany([{ queue: "q" }, { queue: "q", executionId: id, nodeId: "n" }]), "invalid_transition");
  },

  "a step that is done after its execution ended is settled, its events are recorded and its patch is dropped": async ({ store }) => {
    const { id } = await start(store);
    await enqueue(store, { executionId: id, nodeId: "n" });
    const item = await claimOne(store);
    await store.executions.setStatus(id, { status: "cancelled" });
    match(await store.queue.get(item.id), { status: "claimed" }, "the item while its holder works on");
    const event = { type: "x-done", data: 1 };
    match(await store.queue.complete(item, { output: "o", events: [event], statePatch: { a: 1 } }), { status: "completed", lastSequence: 2 });
    match(await store.queue.get(item.id), { status: "completed", output: "o" });
    equal((await story(store, id)).at(-1), ["x-done", 1]);
    match(await store.executions.get(id), { status: "cancelled", state: {}, lastSequence: 2 });
  },

  "a step that is done after its execution ended enqueues nothing for it": async ({ store }) => {
    const { id } = await start(store);
    await enqueue(store, { executionId: id, nodeId: "n" });
    const item = await claimOne(store);
    await store.executions.setStatus(id, { status: "failed" });
    match(await store.queue.complete(item, { enqueue: [{ queue: "q", executionId: id, nodeId: "next" }] }), { status: "completed", enqueued: [] });
    equal((await all(store.queue.list())).map(({ id }) => id), [item.id]);
  },

  "a step that is done after its execution ended enqueues nothing at all": async ({ store }) => {
    const { id } = await start(store);
    await enqueue(store, { executionId: id, nodeId: "n" });
    const item = await claimOne(store);
    await store.executions.setStatus(id, { status: "failed" });
    match(await store.queue.complete(item, { enqueue: [{ queue: "q" }] }), { status: "completed", enqueued: [] });
    equal((await all(store.queue.list())).map(({ id }) => id), [item.id]);
  },

  "a step that fails after its execution ended is cancelled, not tried again": async ({ store, clock }) => {
    const { id } = await start(store);
    for (const nodeId of ["fails", "is given back", "vanishes"]) await enqueue(store, { executionId: id, nodeId });
    const [fails, givenBack, vanishes] = await store.queue.claim({ workerId: "w1", queues: ["q"], limit: 3, leaseMs: 1_000 });
    await store.executions.setStatus(id, { status: "cancelled" });
    match(await store.queue.fail(fails, { error: "no", events: [{ type: "x-tried" }] }), { outcome: "cancelled" });
    match(await store.queue.release(givenBack), { outcome: "cancelled" });
    clock.advance(1_000);
    await store.sweep();
    for (const item of [fails, givenBack, vanishes]) match(await store.queue.get(item.id), { status: "cancelled" }, `the item that ${item.nodeId}`);
    ok((await story(store, id)).some(([type]) => type === "x-tried"), "the event of the failure is not in the log");
    match(await store.executions.get(id), { status: "cancelled" });
  },

  "a step that fails for good after its execution ended is a dead letter all the same": async ({ store }) => {
    const { id } = await start(store);
    await enqueue(store, { executionId: id, nodeId: "n" });
    const item = await claimOne(store);
    await store.executions.setStatus(id, { status: "cancelled" });
    match(await store.queue.fail(item, { error: "no", retryable: false }), { outcome: "dead_lettered" });
    match(await store.executions.get(id), { status: "cancelled" });
  },

  "a step whose events end its execution cancels what else waits for it": async ({ store }) => {
    const endings = {
      complete: (item, events) => store.queue.complete(item, { events, statePatch: { last: 1 } }),
      fail: (item, events) => store.queue.fail(item, { error: "no", events }),
    };
    for (const [name, settle] of Object.entries(endings)) {
      const { id } = await start(store);
      for (const nodeId of ["ends", "waits"]) await enqueue(store, { id: `${name}: ${nodeId}`, queue: name, executionId: id, nodeId });
      const item = await claimOne(store, { queues: [name] });
      await settle(item, [{ type: "workflow_completed", data: { output: "o" } }]);
      match(await store.executions.get(id), { status: "completed", output: "o", state: name === "complete" ? { last: 1 } : {} });
      match(await store.queue.get(item.id), { status: name === "complete" ? "completed" : "cancelled" });
      match(await store.queue.get(`${name}: waits`), { status: "cancelled" });
    }
  },

  "a run that waits for a person still waits after a restart": async ({ store, clock, reopen }) => {
    const { id } = await start(store);
    await store.events.appendMany(id, [
      { type: "workflow_started", data: { workflowId: "w", workflowVersion: "1", initialInput: null } },
      { type: "tool_approval_required", data: { nodeId: "shell", approvalId: "a1", toolName: "rm", approver: "ann", context: {} } },
      { type: "interrupt_raised", data: { nodeId: "review", reason: "look", stateForReview: {} } },
    ]);
    const before = await store.executions.materialize(id);
    const again = await reopen();
    clock.advance(24 * 60 * 60_000);
    await again.sweep({ intervalMs: 1_000 });
    equal(await again.executions.materialize(id), before);
    match(await again.executions.get(id), { status: "paused" });
  },

  "two stores know nothing of each other": async ({ store, openStore }) => {
    const other = await openStore();
    await start(store, { id: "mine" });
    await enqueue(store, { id: "mine too" });
    equal(await other.executions.get("mine"), null);
    equal(await other.queue.get("mine too"), null);
    equal((await other.executions.list()).items, []);
    await rejects(other.events.append("mine", { type: "x-a" }), "not_found");
  },
};
