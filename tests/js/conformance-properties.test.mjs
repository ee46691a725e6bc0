// Random operations on the native store, compared with models written from the specification. A failure prints its seed: give it to fast-check
// (`{ seed, path }` in `parameters`) to see it again.
import { test } from "node:test";
import fc from "fast-check";
import { equal, match } from "../conformance/assert.mjs";
import { fold } from "../conformance/fold-model.mjs";
import { all, log, range } from "../conformance/kit.mjs";
import { nativePlace } from "../conformance/native.mjs";
import { QueueModel } from "../conformance/queue-model.mjs";
import { runCase } from "../conformance/run.mjs";

const place = nativePlace();
const parameters = { numRuns: 60 };

/** Holds for any list of operations, each list on a new store. */
const holds = (operation, run) =>
  fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 50 }), (operations) => runCase((context) => run(context, operations), place)),
    parameters,
  );

const small = (max) => fc.integer({ min: 0, max });

/** One of an operation's kinds, with its arguments. */
const oneOf = (kinds) => fc.oneof(...Object.entries(kinds).map(([kind, { weight = 1, ...args }]) => ({ weight, arbitrary: fc.record({ kind: fc.constant(kind), ...args }) })));

const maybe = (arbitrary) => fc.option(arbitrary, { nil: undefined });

test("any operations on the queue do what the model of the queue does", () => {
  // Which item, and how its fence is off: mostly not at all.
  const item = { which: small(100), off: fc.constantFrom(0, 0, 0, 0, 0, -1, 1) };
  const operation = oneOf({
    enqueue: { weight: 4, queue: fc.constantFrom("a", "b"), priority: fc.integer({ min: -1, max: 1 }), maxAttempts: fc.integer({ min: 1, max: 3 }), delayMs: fc.constantFrom(0, 0, 100, 3_000) },
    claim: { weight: 5, workerId: fc.constantFrom("w1", "w2"), limit: fc.integer({ min: 1, max: 3 }), leaseMs: fc.constantFrom(1, 1_000, 10_000) },
    renew: { ...item, leaseMs: maybe(fc.constantFrom(500, 20_000)) },
    complete: { weight: 2, ...item, output: maybe(small(1)) },
    fail: { weight: 3, ...item, error: fc.constantFrom("no", "never"), retryable: maybe(fc.boolean()), delayMs: maybe(fc.constantFrom(0, 50)) },
    release: { ...item, delayMs: maybe(fc.constantFrom(0, 50)) },
    cancel: { which: small(100) },
    sweep: {},
    advance: { weight: 4, ms: fc.constantFrom(1, 100, 1_000, 2_000, 70_000, -500) },
  });

  return holds(operation, async ({ store, clock }, operations) => {
    const model = new QueueModel(clock);
    // What the store answers, or the code of its error, as the model says it.
    const answer = (promise) => promise.catch(({ code, message }) => ({ error: code ?? message }));
    for (const { kind, which, off, ...args } of operations) {
      const item = model.items[which % model.items.length];
      if (which !== undefined && item === undefined) continue;
      const lease = item && { id: item.id, fence: item.fence + off };
      const what = `${kind} ${JSON.stringify({ ...lease, ...args })}`;
      switch (kind) {
        case "enqueue": {
          const id = `i${model.items.length}`;
          await store.queue.enqueue({ id, ...args });
          model.enqueue({ id, ...args });
          break;
        }
        case "claim":
          match(await store.queue.claim({ queues: ["a", "b"], ...args }), model.claim(args), what);
          break;
        case "renew":
          match(await answer(store.queue.renew(lease, args)), withoutCall(model.renew(item, lease.fence, args)), what);
          break;
        case "complete":
        case "fail":
        case "release":
          match(await answer(store.queue[kind](lease, args)), withoutCall(model.settle(kind, item, lease.fence, args)), what);
          break;
        case "cancel":
          match(await answer(store.queue.cancel(item.id)), model.cancel(item), what);
          break;
        case "sweep":
          await store.sweep();
          model.sweep();
          break;
        case "advance":
          clock.advance(args.ms);
      }
      const stored = await all(store.queue.list());
      const shown = ({ id, status, attempt, runAt, fence, leaseExpiresAt, cancelRequested }) => ({ id, status, attempt, runAt, fence, leaseExpiresAt, cancelRequested });
      equal(stored.map(shown), model.items.map(shown), `the items after ${what}`);
      equal((await store.queues.stats()).counts, model.counts(), `the counts after ${what}`);
    }
    for (const { id, attempts } of model.items) match(await store.queue.attempts(id), attempts, `the attempts of ${id}`);
  });
});

function withoutCall({ call, ...answer }) {
  return answer;
}

test("after any operations the record, the store's fold and the model's fold of the log are the same, now and as of each event", () => {
  const node = fc.constantFrom("a", "b", "__proto__");
  // An approval's id may be that of the event that raises another.
  const approval = fc.constantFrom("p", "q", ...range(8).map((n) => `event-${n}`));
  const json = fc.jsonValue({ maxDepth: 2 });
  const patch = fc.option(fc.dictionary(fc.constantFrom("a", "b", "c", "__proto__"), fc.oneof(json, fc.constant(null), fc.dictionary(fc.constantFrom("a", "b"), json))), { nil: null });
  const event = (type, data, weight) => ({ weight, type: fc.constant(type), data: fc.record(data, { requiredKeys: Object.keys(data).filter((key) => !key.endsWith("?")) }).map(unmark) });
  const unmark = (data) => Object.fromEntries(Object.entries(data).map(([key, value]) => [key.replace("?", ""), value]));
  const events = {
    started: event("workflow_started", { workflowId: fc.constant("w"), workflowVersion: fc.constant("1"), initialInput: json }),
    completed: event("workflow_completed", { "finalState?": json, "output?": json }),
    failed: event("workflow_failed", { error: fc.constantFrom("no", { message: "no" }) }),
    limit: event("strategy_limit_hit", { limitType: fc.constant("t"), limitValue: json, actualValue: json }),
    scheduled: event("node_scheduled", { nodeId: node, queueType: fc.constant("t") }, 2),
    nodeStarted: event("node_started", { nodeId: node, workerId: fc.constant("w"), attempt: small(3) }, 2),
    done: event("node_completed", { nodeId: node, output: json, statePatch: patch, durationMs: small(9), "inputTokens?": small(99), "outputTokens?": small(99), "costUsd?": fc.constantFrom(0.5, 0.25, 2) }, 6),
    nodeFailed: event("node_failed", { nodeId: node, error: fc.constant("no"), attempt: small(3), retryable: fc.boolean() }, 2),
    skipped: event("node_skipped", { nodeId: node, reason: fc.constant("r") }),
    interrupt: event("interrupt_raised", { nodeId: node, reason: fc.constant("r"), stateForReview: json }, 4),
    ask: event("tool_approval_required", { nodeId: node, "approvalId?": approval, toolName: fc.constant("rm"), approver: json, context: json }, 4),
    received: event("approval_received", { nodeId: node, "approvalId?": approval, decision: fc.constantFrom("approved", "rejected"), "statePatch?": patch }, 8),
    tool: event("tool_called", { nodeId: node, tool: json }),
    iteration: event("iteration_completed", { iteration: small(9), inputTokens: small(99), outputTokens: small(99) }),
    own: event("x-own", {}),
  };
  const operation = oneOf({
    ...events,
    status: { weight: 2, status: fc.constantFrom("running", "paused", "running", "paused", "completed", "failed", "cancelled") },
    setState: { state: fc.oneof(json, fc.dictionary(fc.constantFrom("a", "b", "__proto__"), fc.oneof(json, fc.constant([])))) },
    patchState: { weight: 2, patch: patch.map((given) => given ?? {}) },
    appendToState: { weight: 3, key: fc.constantFrom("a", "b", "c", "__proto__"), value: json },
    resolve: { weight: 3, approvalId: approval, decision: fc.constantFrom("approved", "rejected"), statePatch: patch },
    enqueue: { weight: 2, nodeId: node },
    complete: { weight: 2, statePatch: patch },
    fail: { retryable: fc.boolean() },
    cancel: {},
  });

  return holds(operation, async ({ store, clock }, operations) => {
    const { id } = await store.executions.create({ workflowId: "w" });
    const items = [];
    const refused = ({ code }) => equal(["conflict", "invalid_transition", "not_found"].includes(code), true, `whether ${code} may refuse this`);
    const claim = async () => (await store.queue.claim({ workerId: "w", queues: ["q"] }))[0];
    let appended = 0;
    for (const { kind, ...args } of operations) {
      clock.advance(1_000);
      if (Object.hasOwn(events, kind)) {
        await store.events.append(id, { ...args, id: `event-${appended++}` });
      } else if (kind === "status") {
        await store.executions.setStatus(id, args).catch(refused);
      } else if (["setState", "patchState", "appendToState"].includes(kind)) {
        await store.executions[kind](id, args).catch(refused);
      } else if (kind === "resolve") {
        await store.approvals.resolve({ executionId: id, ...args }).catch(refused);
      } else if (kind === "enqueue") {
        await store.queue.enqueue({ queue: "q", executionId: id, nodeId: args.nodeId }).then((item) => items.push(item), refused);
      } else if (kind === "cancel") {
        if (items.length > 0) await store.queue.cancel(items.pop().id).catch(refused);
      } else {
        const item = await claim();
        if (item && kind === "complete") await store.queue.complete(item, { statePatch: args.statePatch ?? undefined });
        if (item && kind === "fail") await store.queue.fail(item, { error: "no", retryable: args.retryable });
      }
      const written = await log(store, id);
      const folded = fold(written);
      const what = `after ${kind} ${JSON.stringify(args)}`;
      const { status, state, output, lastSequence } = await store.executions.get(id);
      equal({ status, state, output, lastSequence }, { status: folded.status, state: folded.state, output: folded.output, lastSequence: folded.lastSequence }, `the record ${what}`);
      equal(await store.executions.materialize(id), folded, `the store's fold ${what}`);
    }
    const written = await log(store, id);
    for (let at = 0; at <= written.length; at++) equal(await store.executions.materialize(id, { at }), fold(written.slice(0, at)), `the store's fold at ${at}`);
  });
});
