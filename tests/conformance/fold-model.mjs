// The fold of a log, written once more from the specification: a second opinion on the one that the store has.

const terminal = ["completed", "failed", "cancelled", "limit_exceeded"];

/** What `executions.materialize` answers for a log. */
export function fold(events) {
  let status = "pending";
  let state = {};
  let output;
  const completedNodes = new Map();
  const activeNodes = new Set();
  const waiting = new Map(); // approvalId → pending approval, oldest first
  const budget = { inputTokens: 0, outputTokens: 0, costUsd: 0, iterations: 0, toolCalls: 0, consecutiveErrors: 0, circuitBreakerTripped: false };

  for (const { id, type, data, sequence } of events) {
    const isOver = terminal.includes(status);
    const become = (next) => {
      if (!isOver) status = next;
    };
    const change = (patch) => {
      if (!isOver && patch !== null && patch !== undefined) state = mergePatch(state, patch);
    };
    const ask = (approvalId, more) => {
      if (!waiting.has(approvalId)) waiting.set(approvalId, { approvalId, nodeId: data.nodeId, ...more, sequence });
    };
    switch (type) {
      case "workflow_started":
        become("running");
        break;
      case "workflow_completed":
        if (!isOver && data.finalState !== undefined) state = data.finalState;
        if (!isOver && data.output !== undefined) output = data.output;
        become("completed");
        break;
      case "workflow_failed":
        become("failed");
        break;
      case "workflow_cancelled":
        become("cancelled");
        break;
      case "strategy_limit_hit":
        become("limit_exceeded");
        break;
      case "node_scheduled":
      case "node_started":
        activeNodes.add(data.nodeId);
        break;
      case "node_completed":
        activeNodes.delete(data.nodeId);
        completedNodes.set(data.nodeId, data.output);
        change(data.statePatch);
        budget.inputTokens += data.inputTokens ?? 0;
        budget.outputTokens += data.outputTokens ?? 0;
        budget.costUsd += data.costUsd ?? 0;
        budget.consecutiveErrors = 0;
        break;
      case "node_failed":
        activeNodes.delete(data.nodeId);
        budget.consecutiveErrors += 1;
        break;
      case "node_skipped":
      case "node_cancelled":
        activeNodes.delete(data.nodeId);
        break;
      case "interrupt_raised":
        become("paused");
        ask(id, {});
        break;
      case "tool_approval_required":
        ask(data.approvalId ?? id, { toolName: data.toolName });
        break;
      case "approval_received": {
        const oldest = [...waiting.values()].find(({ nodeId }) => nodeId === data.nodeId);
        waiting.delete(data.approvalId ?? oldest?.approvalId);
        change(data.statePatch);
        if (status === "paused" && waiting.size === 0) become("running");
        break;
      }
      case "execution_status_set":
        become(data.to);
        break;
      case "segment_boundary":
        become("completed");
        break;
      case "execution_state_set":
        if (!isOver) state = data.state;
        break;
      case "execution_state_patched":
        change(data.patch);
        break;
      case "execution_state_appended":
        if (!isOver) state = append(state, data.key, data.value);
        break;
      case "tool_called":
        budget.toolCalls += 1;
        break;
      case "iteration_completed":
        budget.iterations += 1;
        break;
    }
  }
  return {
    status,
    state,
    ...(output === undefined ? {} : { output }),
    completedNodes: Object.fromEntries(completedNodes),
    activeNodes: [...activeNodes].sort(),
    budget,
    pendingApprovals: [...waiting.values()],
    lastSequence: events.length,
  };
}

/** An object with a value more in the array of that key. */
function append(state, key, value) {
  const members = new Map(Object.entries(state));
  return Object.fromEntries(members.set(key, [...(members.get(key) ?? []), value]));
}

/** RFC 7396. */
function mergePatch(target, patch) {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const isObject = typeof target === "object" && target !== null && !Array.isArray(target);
  const merged = new Map(isObject ? Object.entries(target) : []);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key);
    else merged.set(key, mergePatch(merged.get(key), value));
  }
  return Object.fromEntries(merged);
}
