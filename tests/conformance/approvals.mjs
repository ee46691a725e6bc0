import { equal, match } from "./assert.mjs";
import { all, refuses, start, story } from "./kit.mjs";

const ask = (store, executionId, approvalId, nodeId = "n") =>
  store.events.append(executionId, { type: "tool_approval_required", data: { nodeId, ...(approvalId && { approvalId }), toolName: "rm", approver: "me", context: { path: "/tmp" } } });
const interrupt = (store, executionId) => store.events.append(executionId, { type: "interrupt_raised", data: { nodeId: "n", reason: "look", stateForReview: { a: 1 } } });

async function running(store, id) {
  await start(store, { id });
  await store.executions.setStatus(id, { status: "running" });
}

export const approvals = {
  "what waits for a decision is listed across executions, with what there is to judge": async ({ store, clock }) => {
    await running(store, "a");
    await running(store, "b");
    await ask(store, "a", "first");
    clock.advance(5);
    const { id } = await interrupt(store, "b");
    const now = clock.now();
    equal(await all(store.approvals.list({ status: "pending", limit: 1 })), [
      { executionId: "a", approvalId: "first", nodeId: "n", status: "pending", toolName: "rm", context: { path: "/tmp" }, requestedAt: now - 5 },
      { executionId: "b", approvalId: id, nodeId: "n", status: "pending", reason: "look", context: { a: 1 }, requestedAt: now },
    ]);
    equal((await all(store.approvals.list({ executionId: "b" }))).map(({ approvalId }) => approvalId), [id]);
    equal((await all(store.approvals.list({ order: "desc" }))).map(({ executionId }) => executionId), ["b", "a"]);
    equal(await all(store.approvals.list({ status: "approved" })), []);
  },

  "a decision is an event with the question's node, and its patch changes the state": async ({ store, clock }) => {
    await running(store, "run");
    await ask(store, "run", "p", "deploy");
    clock.advance(7);
    const given = { executionId: "run", approvalId: "p", decision: "approved", userId: "ann", comment: "fine", statePatch: { ok: true }, payload: { n: 1 } };
    match(await store.approvals.resolve(given), { executionId: "run", approvalId: "p", nodeId: "deploy", status: "approved", decidedAt: clock.now(), userId: "ann", comment: "fine", payload: { n: 1 }, toolName: "rm" });
    const { executionId, ...data } = given;
    equal((await story(store, "run")).at(-1), ["approval_received", { nodeId: "deploy", ...data }]);
    match(await store.executions.get("run"), { state: { ok: true }, status: "running" });
    equal((await store.executions.materialize("run")).pendingApprovals, []);
    match(await all(store.approvals.list({ status: "approved" })), [{ approvalId: "p" }]);
  },

  "the first decision wins: a second one is a conflict and changes nothing": async ({ store }) => {
    await running(store, "run");
    await ask(store, "run", "p");
    const decide = (decision) => store.approvals.resolve({ executionId: "run", approvalId: "p", decision });
    const outcomes = await Promise.allSettled([decide("rejected"), decide("approved"), decide("rejected")]);
    equal(outcomes.map(({ value, reason }) => value?.status ?? reason.code), ["rejected", "conflict", "conflict"]);
    await refuses(store, () => decide("rejected"), "conflict", /rejected/);
    equal((await story(store, "run")).filter(([type]) => type === "approval_received").length, 1);
  },

  "a paused run goes on once nothing is left to decide": async ({ store }) => {
    await running(store, "run");
    const { id } = await interrupt(store, "run");
    await ask(store, "run");
    const { events } = { events: await all(store.events.list({ executionId: "run" })) };
    match(await store.executions.get("run"), { status: "paused" });
    await store.approvals.resolve({ executionId: "run", approvalId: id, decision: "approved" });
    match(await store.executions.get("run"), { status: "paused" });
    await store.approvals.resolve({ executionId: "run", approvalId: events.at(-1).id, decision: "rejected" });
    match(await store.executions.get("run"), { status: "running" });
  },

  "a decision in the log settles the question too": async ({ store }) => {
    await running(store, "run");
    await ask(store, "run", "p");
    await store.events.append("run", { type: "approval_received", data: { nodeId: "n", approvalId: "p", decision: "approved" } });
    match(await all(store.approvals.list()), [{ approvalId: "p", status: "approved" }]);
    await refuses(store, () => store.approvals.resolve({ executionId: "run", approvalId: "p", decision: "rejected" }), "conflict");
  },

  "a decision about what nobody asked is not found": async ({ store }) => {
    await running(store, "run");
    await refuses(store, () => store.approvals.resolve({ executionId: "run", approvalId: "ghost", decision: "approved" }), "not_found", /ghost/);
    await refuses(store, () => store.approvals.resolve({ executionId: "nobody", approvalId: "p", decision: "approved" }), "not_found", /nobody/);
  },

  "a fork brings the open questions along, and each is decided by itself": async ({ store }) => {
    await running(store, "run");
    await ask(store, "run", "p");
    const fork = await store.executions.fork("run");
    match(await store.approvals.resolve({ executionId: fork.id, approvalId: "p", decision: "rejected" }), { status: "rejected", nodeId: "n" });
    match(await all(store.approvals.list({ status: "pending" })), [{ executionId: "run", approvalId: "p" }]);
    match(await store.approvals.resolve({ executionId: "run", approvalId: "p", decision: "approved" }), { status: "approved" });
  },
};
