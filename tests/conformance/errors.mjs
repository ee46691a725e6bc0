import { equal, match, ok } from "./assert.mjs";
import { claimOne, contents, enqueue, refuses, register, start } from "./kit.mjs";

// What does not fit a field of each kind.
const wrong = {
  name: [5, "", "x".repeat(257), "a\nb", {}],
  names: ["x", [5], [""], {}],
  word: ["nonsense", "", 5],
  text: [5, {}],
  integer: ["5", 1.5, true, {}],
  number: ["5", true, {}],
  boolean: ["true", 1],
  objects: [{}, [5], "x"],
  error: [5, true, [], {}, { message: 5 }],
  backoff: [5, {}, { kind: "random" }, { kind: "fixed", baseMs: "1" }],
  rate: [5, {}, { limit: 1 }, { limit: "1", perMs: 1_000 }],
  object: [5, "x", []],
  blobs: [5, "x", [5], [{}], [{ blobId: 5 }], [{ blobId: "b", surplus: 1 }]],
  limits: [5, "x", { surplus: 1 }, { maxWorkflows: "1" }, { maxWorkflows: -1 }, { maxCostPerMonthUsd: -0.5 }],
};

const listing = { limit: "integer", order: "word", cursor: "text" };
const thread = { title: "text", model: "text", mode: "text", workspace: "text", systemPrompt: "text", taskId: "name", taskType: "name", archived: "boolean" };
const threadItem = { parentId: "name", status: "word", summary: "text", text: "text", blobs: "blobs" };
const item = { executionId: "name", nodeId: "name", priority: "integer", requires: "names", maxAttempts: "integer", runAt: "integer", backoff: "backoff", idempotencyKey: "name", uniqueFor: "word", concurrencyKey: "name" };

// Of each operation: how it is called, arguments that it takes in the world of `prepare`, the kinds of its fields, and which are required.
const operations = {
  "executions.create": {
    call: (store, args) => store.executions.create(args),
    fits: { id: "e2", workflowId: "w" },
    fields: { id: "name", workflowId: "name", workflowVersion: "name", sessionType: "word", parentId: "name", tags: "names" },
    required: ["workflowId"],
  },
  "executions.get": { call: (store, { id, ...rest }) => store.executions.get(id, rest), fits: { id: "e" }, fields: { id: "name" }, required: ["id"] },
  "executions.list": {
    call: (store, args) => store.executions.list(args),
    fits: {},
    fields: { status: "word", workflowId: "name", parentId: "name", tag: "name", createdAfter: "integer", createdBefore: "integer", ...listing },
  },
  "executions.setStatus": {
    call: (store, { id, expectedStatus, ...args }) => store.executions.setStatus(id, args, { expectedStatus }),
    fits: { id: "e", status: "running" },
    fields: { id: "name", status: "word", reason: "text", expectedStatus: "word" },
    required: ["id", "status"],
  },
  "executions.materialize": {
    call: (store, { id, ...options }) => store.executions.materialize(id, options),
    fits: { id: "e" },
    fields: { id: "name", at: "integer" },
    required: ["id"],
  },
  "executions.recent": { call: (store, args) => store.executions.recent(args), fits: {}, fields: { limit: "integer" }, beyond: { limit: [0, -1, 201] } },
  "executions.count": { call: (store, args) => store.executions.count(args), fits: { groupBy: "status" }, fields: { groupBy: "word" } },
  "executions.cancel": {
    call: (store, { id, ...args }) => store.executions.cancel(id, args),
    fits: { id: "e" },
    fields: { id: "name", reason: "text" },
    required: ["id"],
  },
  "executions.setState": {
    call: (store, { id, expectedSequence, ...args }) => store.executions.setState(id, args, { expectedSequence }),
    fits: { id: "e", state: { a: 1 } },
    fields: { id: "name", expectedSequence: "integer" },
    required: ["id"],
  },
  "executions.patchState": {
    call: (store, { id, expectedSequence, ...args }) => store.executions.patchState(id, args, { expectedSequence }),
    fits: { id: "e", patch: { a: 1 } },
    fields: { id: "name", patch: "object", expectedSequence: "integer" },
    required: ["id", "patch"],
  },
  "executions.appendToState": {
    call: (store, { id, expectedSequence, ...args }) => store.executions.appendToState(id, args, { expectedSequence }),
    fits: { id: "e", key: "a", value: 1 },
    fields: { id: "name", key: "text", expectedSequence: "integer" },
    required: ["id", "key"],
  },
  "executions.continueAsNew": {
    call: (store, { id, ...args }) => store.executions.continueAsNew(id, args),
    fits: { id: "e" },
    fields: { id: "name", enqueue: "object" },
    required: ["id"],
  },
  "executions.fork": {
    call: (store, { id, at, ...args }) => store.executions.fork(id, args, { at }),
    fits: { id: "e" },
    fields: { id: "name", newId: "name", at: "integer" },
    required: ["id"],
    beyond: { at: [-1, 99] },
  },
  "executions.delete": { call: (store, { id, ...rest }) => store.executions.delete(id, rest), fits: { id: "e" }, fields: { id: "name" }, required: ["id"] },
  "events.append": {
    call: (store, { executionId, expectedSequence, ...args }) => store.events.append(executionId, args, { expectedSequence }),
    fits: { executionId: "e", type: "x-a" },
    fields: { executionId: "name", type: "name", id: "name", expectedSequence: "integer" },
    required: ["executionId", "type"],
  },
  "events.appendMany": {
    call: (store, { executionId, events, ...options }) => store.events.appendMany(executionId, events, options),
    fits: { executionId: "e", events: [{ type: "x-a" }] },
    fields: { executionId: "name", events: "objects", expectedSequence: "integer" },
    required: ["executionId", "events"],
  },
  "events.list": {
    call: (store, args) => store.events.list(args),
    fits: { executionId: "e" },
    fields: { executionId: "name", after: "integer", types: "names", ...listing },
    required: ["executionId"],
  },
  "events.latestSequence": {
    call: (store, { executionId, ...rest }) => store.events.latestSequence(executionId, rest),
    fits: { executionId: "e" },
    fields: { executionId: "name" },
    required: ["executionId"],
  },
  "snapshots.latest": {
    call: (store, { executionId, ...rest }) => store.snapshots.latest(executionId, rest),
    fits: { executionId: "e" },
    fields: { executionId: "name" },
    required: ["executionId"],
  },
  "snapshots.list": {
    call: (store, args) => store.snapshots.list(args),
    fits: { executionId: "e" },
    fields: { executionId: "name", ...listing },
    required: ["executionId"],
  },
  "approvals.list": { call: (store, args) => store.approvals.list(args), fits: {}, fields: { status: "word", executionId: "name", ...listing } },
  "approvals.resolve": {
    call: (store, args) => store.approvals.resolve(args),
    fits: { executionId: "e", approvalId: "a", decision: "approved" },
    fields: { executionId: "name", approvalId: "name", decision: "word", userId: "name", comment: "text", statePatch: "object" },
    required: ["executionId", "approvalId", "decision"],
  },
  "workflows.put": {
    call: (store, args) => store.workflows.put(args),
    fits: { id: "wf", version: "2", definition: {} },
    fields: { id: "name", version: "name", replace: "boolean" },
    required: ["id", "version"],
  },
  "workflows.get": {
    call: (store, { id, ...args }) => store.workflows.get(id, args),
    fits: { id: "wf" },
    fields: { id: "name", version: "name" },
    required: ["id"],
  },
  "workflows.list": { call: (store, args) => store.workflows.list(args), fits: {}, fields: { id: "name", ...listing } },
  "queue.enqueue": {
    call: (store, args) => store.queue.enqueue(args),
    fits: { id: "i2", queue: "q" },
    fields: { id: "name", queue: "name", ...item },
    required: ["queue"],
    beyond: { maxAttempts: [0, -1], runAt: [-1] },
  },
  "queue.enqueueMany": {
    call: (store, { items, ...rest }) => store.queue.enqueueMany(items, rest),
    fits: { items: [{ queue: "q" }] },
    fields: { items: "objects" },
    required: ["items"],
  },
  "queue.claim": {
    call: (store, args) => store.queue.claim(args),
    fits: { workerId: "w1", queues: ["q"] },
    fields: { workerId: "name", namespace: "name", queues: "names", limit: "integer", leaseMs: "integer", waitMs: "integer" },
    required: ["workerId", "queues"],
    beyond: { limit: [0, 1001], leaseMs: [0, -1], waitMs: [-1] },
  },
  "queue.renew": {
    call: (store, { id, fence, ...args }) => store.queue.renew({ id, fence }, args),
    fits: { id: "i", fence: 1 },
    fields: { id: "name", fence: "integer", leaseMs: "integer" },
    required: ["id", "fence"],
    beyond: { leaseMs: [0, -1] },
  },
  "queue.complete": {
    call: (store, { id, fence, ...args }) => store.queue.complete({ id, fence }, args),
    fits: { id: "i", fence: 1 },
    fields: { id: "name", fence: "integer", events: "objects", enqueue: "objects" },
    required: ["id", "fence"],
  },
  "queue.fail": {
    call: (store, { id, fence, ...args }) => store.queue.fail({ id, fence }, args),
    fits: { id: "i", fence: 1, error: "no" },
    fields: { id: "name", fence: "integer", error: "error", retryable: "boolean", delayMs: "integer", events: "objects" },
    required: ["id", "fence", "error"],
    beyond: { delayMs: [-1] },
  },
  "queue.release": {
    call: (store, { id, fence, ...args }) => store.queue.release({ id, fence }, args),
    fits: { id: "i", fence: 1 },
    fields: { id: "name", fence: "integer", delayMs: "integer", reason: "text" },
    required: ["id", "fence"],
    beyond: { delayMs: [-1] },
  },
  "queue.cancel": { call: (store, { id, ...rest }) => store.queue.cancel(id, rest), fits: { id: "i" }, fields: { id: "name" }, required: ["id"] },
  "queue.get": { call: (store, { id, ...rest }) => store.queue.get(id, rest), fits: { id: "i" }, fields: { id: "name" }, required: ["id"] },
  "queue.list": { call: (store, args) => store.queue.list(args), fits: {}, fields: { queue: "name", status: "word", executionId: "name", ...listing } },
  "queue.attempts": { call: (store, { id, ...rest }) => store.queue.attempts(id, rest), fits: { id: "i" }, fields: { id: "name" }, required: ["id"] },
  "queues.list": { call: (store, args) => store.queues.list(args), fits: {}, fields: listing },
  "queues.configure": {
    call: (store, { name, ...args }) => store.queues.configure(name, args),
    fits: { name: "q", concurrency: 2 },
    fields: { name: "name", concurrency: "integer", keyConcurrency: "integer", rateLimit: "rate", keyRateLimit: "rate", maxAttempts: "integer", backoff: "backoff" },
    required: ["name"],
    beyond: { concurrency: [-1], keyConcurrency: [-1], maxAttempts: [0] },
  },
  "queues.pause": { call: (store, { name, ...rest }) => store.queues.pause(name, rest), fits: { name: "q" }, fields: { name: "name" }, required: ["name"] },
  "queues.resume": { call: (store, { name, ...rest }) => store.queues.resume(name, rest), fits: { name: "q" }, fields: { name: "name" }, required: ["name"] },
  "queues.hold": {
    call: (store, { name, ...args }) => store.queues.hold(name, args),
    fits: { name: "q", until: null },
    fields: { name: "name", key: "name", until: "integer" },
    required: ["name"],
  },
  "queues.stats": { call: (store, args) => store.queues.stats(args), fits: {}, fields: { queue: "name", executionId: "name" } },
  "deadLetters.list": { call: (store, args) => store.deadLetters.list(args), fits: {}, fields: { queue: "name", ...listing } },
  "deadLetters.redrive": { call: (store, args) => store.deadLetters.redrive(args), fits: { id: "dead" }, fields: { id: "name", queue: "name" } },
  "deadLetters.delete": { call: (store, { id, ...rest }) => store.deadLetters.delete(id, rest), fits: { id: "dead" }, fields: { id: "name" }, required: ["id"] },
  "leases.listExpired": {
    call: (store, args) => store.leases.listExpired(args),
    fits: {},
    fields: { asOf: "integer", namespace: "name", limit: "integer", cursor: "text" },
    beyond: { limit: [0, 10_001], cursor: ["", "nonsense"] },
  },
  "workers.register": {
    call: (store, args) => store.workers.register(args),
    fits: { workerId: "w2", pool: "p", queues: ["q"], capabilities: [], livenessTtlMs: 1_000 },
    fields: { workerId: "name", pool: "name", queues: "names", capabilities: "names", livenessTtlMs: "integer", namespace: "name" },
    required: ["workerId", "pool", "queues", "capabilities", "livenessTtlMs"],
    beyond: { livenessTtlMs: [0, -1] },
  },
  "workers.heartbeat": {
    call: (store, args) => store.workers.heartbeat(args),
    fits: { workerId: "w1" },
    fields: { workerId: "name", namespace: "name", load: "number" },
    required: ["workerId"],
  },
  "workers.markDead": {
    call: (store, args) => store.workers.markDead(args),
    fits: { workerId: "w1", reason: "r" },
    fields: { workerId: "name", namespace: "name", reason: "text", releaseLeases: "boolean" },
    required: ["workerId", "reason"],
  },
  "workers.history": { call: (store, args) => store.workers.history(args), fits: {}, fields: { namespace: "name", workerId: "name", ...listing } },
  "workers.list": { call: (store, args) => store.workers.list(args), fits: {}, fields: { namespace: "name", pool: "name", queue: "name", capability: "name", ...listing } },
  "timers.schedule": {
    call: (store, args) => store.timers.schedule(args),
    fits: { id: "t2", executionId: "e", nodeId: "n", fireAt: 5 },
    fields: { id: "name", executionId: "name", nodeId: "name", fireAt: "integer", delayMs: "integer", correlationKey: "name", enqueue: "object" },
    required: ["executionId", "nodeId", "fireAt"],
    beyond: { fireAt: [-1], delayMs: [-1] },
  },
  "timers.cancel": { call: (store, { id, ...rest }) => store.timers.cancel(id, rest), fits: { id: "t" }, fields: { id: "name" }, required: ["id"] },
  "timers.get": { call: (store, { id, ...rest }) => store.timers.get(id, rest), fits: { id: "t" }, fields: { id: "name" }, required: ["id"] },
  "timers.list": { call: (store, args) => store.timers.list(args), fits: {}, fields: { executionId: "name", status: "word", ...listing } },
  "cron.put": {
    call: (store, args) => store.cron.put(args),
    fits: { name: "c2", expression: "0 3 * * *", workflowId: "w" },
    fields: { name: "name", expression: "text", timezone: "text", workflowId: "name", workflowVersion: "name", enqueue: "object", enabled: "boolean", catchUp: "word" },
    required: ["name", "expression", "workflowId"],
    beyond: { expression: ["", "nonsense", "* * * *", "60 * * * *", "0 0 30 2 *"], timezone: ["", "Mars/Olympus", "+02:00"] },
  },
  "cron.get": { call: (store, { name, ...rest }) => store.cron.get(name, rest), fits: { name: "c" }, fields: { name: "name" }, required: ["name"] },
  "cron.list": { call: (store, args) => store.cron.list(args), fits: {}, fields: listing },
  "cron.delete": { call: (store, { name, ...rest }) => store.cron.delete(name, rest), fits: { name: "c" }, fields: { name: "name" }, required: ["name"] },
  "cron.trigger": { call: (store, { name, ...rest }) => store.cron.trigger(name, rest), fits: { name: "c" }, fields: { name: "name" }, required: ["name"] },
  "threads.create": { call: (store, args) => store.threads.create(args), fits: { id: "talk" }, fields: { id: "name", ...thread } },
  "threads.get": { call: (store, { id, ...rest }) => store.threads.get(id, rest), fits: { id: "asked" }, fields: { id: "name" }, required: ["id"] },
  "threads.update": {
    call: (store, { id, ...args }) => store.threads.update(id, args),
    fits: { id: "asked", title: "t" },
    fields: { id: "name", ...thread },
    required: ["id"],
  },
  "threads.list": { call: (store, args) => store.threads.list(args), fits: {}, fields: { archived: "word", ...listing } },
  "threads.recent": {
    call: (store, args) => store.threads.recent(args),
    fits: {},
    fields: { archived: "word", limit: "integer" },
    beyond: { limit: [0, -1, 201] },
  },
  "threads.archive": { call: (store, { id, ...rest }) => store.threads.archive(id, rest), fits: { id: "asked" }, fields: { id: "name" }, required: ["id"] },
  "threads.unarchive": { call: (store, { id, ...rest }) => store.threads.unarchive(id, rest), fits: { id: "asked" }, fields: { id: "name" }, required: ["id"] },
  "threads.delete": { call: (store, { id, ...rest }) => store.threads.delete(id, rest), fits: { id: "asked" }, fields: { id: "name" }, required: ["id"] },
  "threads.fork": {
    call: (store, { id, ...args }) => store.threads.fork(id, args),
    fits: { id: "asked", atItem: "line" },
    fields: { id: "name", atItem: "name", newId: "name" },
    required: ["id"],
  },
  "turns.create": {
    call: (store, args) => store.turns.create(args),
    fits: { id: "turn 2", threadId: "asked" },
    fields: { id: "name", threadId: "name", executionId: "name", status: "word", inputSummary: "text", ownerId: "name" },
    required: ["threadId"],
  },
  "turns.get": { call: (store, { id, ...rest }) => store.turns.get(id, rest), fits: { id: "of asked" }, fields: { id: "name" }, required: ["id"] },
  "turns.update": {
    call: (store, { id, expectedStatus, ...args }) => store.turns.update(id, args, { expectedStatus }),
    fits: { id: "of asked", status: "in_progress" },
    fields: { id: "name", status: "word", inputSummary: "text", executionId: "name", lastRequestInputTokens: "integer", error: "error", ownerId: "name", expectedStatus: "word" },
    required: ["id"],
    beyond: { lastRequestInputTokens: [-1] },
  },
  "turns.list": {
    call: (store, args) => store.turns.list(args),
    fits: { threadId: "asked" },
    fields: { threadId: "name", status: "word", ...listing },
    required: ["threadId"],
  },
  "turns.listIncomplete": { call: (store, args) => store.turns.listIncomplete(args), fits: {}, fields: listing },
  "turns.recover": { call: (store, args) => store.turns.recover(args), fits: { liveOwnerIds: ["tab"] }, fields: { liveOwnerIds: "names" } },
  "threadEvents.append": {
    call: (store, { threadId, ...args }) => store.threadEvents.append(threadId, args),
    fits: { threadId: "asked", type: "said" },
    fields: { threadId: "name", turnId: "name", itemId: "name", type: "name" },
    required: ["threadId", "type"],
  },
  "threadEvents.list": {
    call: (store, args) => store.threadEvents.list(args),
    fits: { threadId: "asked" },
    fields: { threadId: "name", after: "integer", types: "names", ...listing },
    required: ["threadId"],
  },
  "threads.search": {
    call: (store, args) => store.threads.search(args),
    fits: { text: "line" },
    fields: { text: "text", threadId: "name", archived: "word", limit: "integer" },
    required: ["text"],
    beyond: { limit: [0, -1, 201] },
  },
  "items.create": {
    call: (store, args) => store.items.create(args),
    fits: { id: "line 2", threadId: "asked", kind: "tool_call" },
    fields: { id: "name", threadId: "name", turnId: "name", kind: "word", ...threadItem },
    required: ["threadId", "kind"],
  },
  "items.put": {
    call: (store, args) => store.items.put(args),
    fits: { id: "line 2", threadId: "asked", kind: "tool_call" },
    fields: { id: "name", threadId: "name", turnId: "name", kind: "word", ...threadItem },
    required: ["id", "threadId", "kind"],
  },
  "items.get": { call: (store, { id, ...rest }) => store.items.get(id, rest), fits: { id: "line" }, fields: { id: "name" }, required: ["id"] },
  "items.update": {
    call: (store, { id, ...args }) => store.items.update(id, args),
    fits: { id: "line", summary: "s" },
    fields: { id: "name", ...threadItem },
    required: ["id"],
  },
  "items.delete": { call: (store, { id, ...rest }) => store.items.delete(id, rest), fits: { id: "line" }, fields: { id: "name" }, required: ["id"] },
  "items.list": {
    call: (store, args) => store.items.list(args),
    fits: { threadId: "asked" },
    fields: { threadId: "name", turnId: "name", ...listing },
    required: ["threadId"],
  },
  "items.appendText": {
    call: (store, { id, at, ...args }) => store.items.appendText(id, args, { at }),
    fits: { id: "line", delta: "more", at: 0 },
    fields: { id: "name", delta: "text", at: "integer" },
    required: ["id", "delta"],
  },
  "items.readText": {
    call: (store, { id, ...args }) => store.items.readText(id, args),
    fits: { id: "line", after: 0, version: "1.0" },
    fields: { id: "name", after: "integer", version: "text" },
    required: ["id"],
    beyond: { after: [-1] },
  },
  "tokens.create": {
    call: (store, args) => store.tokens.create(args),
    fits: { name: "laptop", role: "viewer" },
    fields: { name: "name", role: "word", expiresAt: "integer" },
    required: ["name", "role"],
    beyond: { expiresAt: [0, -1] },
  },
  "tokens.validate": { call: (store, { token, ...rest }) => store.tokens.validate(token, rest), fits: { token: "rk_0" }, fields: { token: "text" }, required: ["token"] },
  "tokens.revoke": {
    // The store makes the ids of tokens.
    call: async (store, { id, ...rest }) => store.tokens.revoke(id === "token" ? (await store.tokens.list()).items[0].id : id, rest),
    fits: { id: "token" },
    fields: { id: "name" },
    required: ["id"],
  },
  "tokens.list": { call: (store, args) => store.tokens.list(args), fits: {}, fields: listing },
  "tenants.create": { call: (store, args) => store.tenants.create(args), fits: { id: "globex" }, fields: { id: "name", name: "name", limits: "limits" } },
  "tenants.get": { call: (store, { id, ...rest }) => store.tenants.get(id, rest), fits: { id: "acme" }, fields: { id: "name" }, required: ["id"] },
  "tenants.list": { call: (store, args) => store.tenants.list(args), fits: {}, fields: { status: "word", ...listing } },
  "tenants.update": {
    call: (store, { id, ...args }) => store.tenants.update(id, args),
    fits: { id: "acme", name: "Acme" },
    fields: { id: "name", name: "name", status: "word", limits: "limits" },
    required: ["id"],
  },
  "inbox.admit": {
    call: (store, { threadId, ...args }) => store.inbox.admit(threadId, args),
    fits: { threadId: "asked", prompt: "hi", id: "prompt 2" },
    fields: { threadId: "name", id: "name", delivery: "word" },
    required: ["threadId", "prompt"],
  },
  "inbox.get": { call: (store, { id, ...rest }) => store.inbox.get(id, rest), fits: { id: "prompt" }, fields: { id: "name" }, required: ["id"] },
  "inbox.next": { call: (store, { threadId, ...rest }) => store.inbox.next(threadId, rest), fits: { threadId: "asked" }, fields: { threadId: "name" }, required: ["threadId"] },
  "inbox.steers": { call: (store, { threadId, ...rest }) => store.inbox.steers(threadId, rest), fits: { threadId: "asked" }, fields: { threadId: "name" }, required: ["threadId"] },
  "inbox.promote": {
    call: (store, { id, ...args }) => store.inbox.promote(id, args),
    fits: { id: "prompt", turnId: "of asked" },
    fields: { id: "name", turnId: "name" },
    required: ["id"],
  },
  "inbox.promoteNext": {
    call: (store, { threadId, ...args }) => store.inbox.promoteNext(threadId, args),
    fits: { threadId: "asked", turn: { id: "new turn" } },
    fields: { threadId: "name", turn: "object", includeSteers: "boolean" },
    required: ["threadId"],
    beyond: { turn: [{ id: "" }, { status: "nonsense" }, { inputSummary: 5 }] },
  },
  "inbox.withdraw": { call: (store, { id, ...rest }) => store.inbox.withdraw(id, rest), fits: { id: "prompt" }, fields: { id: "name" }, required: ["id"] },
  "inbox.list": {
    call: (store, args) => store.inbox.list(args),
    fits: { threadId: "asked" },
    fields: { threadId: "name", status: "word", delivery: "word", ...listing },
    required: ["threadId"],
  },
  "usage.record": {
    call: (store, args) => store.usage.record(args),
    fits: { turnId: "of asked", responseId: "r", model: "m", inputTokens: 1, outputTokens: 1 },
    fields: {
      turnId: "name",
      responseId: "name",
      model: "name",
      provider: "name",
      inputTokens: "integer",
      outputTokens: "integer",
      cacheReadTokens: "integer",
      cacheWriteTokens: "integer",
      noCacheTokens: "integer",
      reasoningTokens: "integer",
      createdAt: "integer",
    },
    required: ["turnId", "responseId", "model", "inputTokens", "outputTokens"],
    beyond: { inputTokens: [-1], cacheReadTokens: [-1], createdAt: [-1, 1e15], reasoningTokens: [1e13] },
  },
  "usage.get": { call: (store, { responseId, ...rest }) => store.usage.get(responseId, rest), fits: { responseId: "r" }, fields: { responseId: "name" }, required: ["responseId"] },
  "usage.list": { call: (store, args) => store.usage.list(args), fits: { turnId: "of asked" }, fields: { turnId: "name", ...listing } },
  "usage.aggregate": {
    call: (store, args) => store.usage.aggregate(args),
    fits: { groupBy: "day", timezone: "UTC" },
    fields: { since: "integer", until: "integer", groupBy: "word", timezone: "text" },
    beyond: { timezone: ["Mars/Olympus", ""] },
  },
  "usage.getPrices": { call: (store, args) => store.usage.getPrices(args), fits: {}, fields: {} },
  "usage.setPrices": {
    call: (store, { prices, ...rest }) => store.usage.setPrices(prices, rest),
    fits: { prices: [] },
    fields: { prices: "objects" },
    required: ["prices"],
  },
  "usage.reprice": { call: (store, args) => store.usage.reprice(args), fits: {}, fields: { onlyUnpriced: "boolean" } },
  "blobs.put": {
    call: (store, { bytes, ...args }) => store.blobs.put(bytes, args),
    fits: { bytes: new Uint8Array(3) },
    fields: { mediaType: "name" },
  },
  "blobs.get": {
    call: (store, { id, ...args }) => store.blobs.get(id, args),
    fits: { id: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    fields: { id: "name", offset: "integer", length: "integer" },
    required: ["id"],
    beyond: { offset: [-1, 4], length: [-1] },
  },
  "blobs.delete": {
    call: (store, { id, ...rest }) => store.blobs.delete(id, rest),
    fits: { id: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
    fields: { id: "name" },
    required: ["id"],
  },
  "blobs.list": { call: (store, args) => store.blobs.list(args), fits: {}, fields: { ...listing } },
  "imports.chunk": {
    call: (store, { bytes, ...args }) => store.imports.chunk(bytes, args),
    fits: { bytes: new TextEncoder().encode("{}\n"), format: "codex" },
    fields: { format: "word", line: "integer", state: "object", last: "boolean" },
    required: ["format"],
    beyond: { line: [0, -1] },
  },
  "retention.get": { call: (store, args) => store.retention.get(args), fits: {}, fields: {} },
  "retention.set": {
    call: (store, args) => store.retention.set(args),
    fits: { itemsMs: 1_000 },
    fields: { executionsMs: "integer", itemsMs: "integer", attemptsMs: "integer", deadLettersMs: "integer", historyMs: "integer", threadsMs: "integer" },
    beyond: { itemsMs: [-1] },
  },
  exportDatabase: { call: (store, args) => store.exportDatabase(args), fits: {}, fields: {} },
  sweep: { call: (store, args) => store.sweep(args), fits: {}, fields: { limit: "integer", intervalMs: "integer" }, beyond: { limit: [0, -1], intervalMs: [0, -1] } },
};

/** An execution e with an open approval a and a timer t, its item i, claimed, a dead letter, a worker w1, a workflow wf, a schedule c, a token and a tenant acme. */
async function prepare(store) {
  await enqueue(store, { id: "dead" });
  await store.queue.fail(await claimOne(store), { error: "no", retryable: false });
  await start(store, { id: "e" });
  await enqueue(store, { id: "i", executionId: "e", nodeId: "n" });
  await register(store);
  equal((await claimOne(store)).fence, 1);
  await store.events.append("e", { type: "tool_approval_required", data: { nodeId: "n", approvalId: "a", toolName: "rm", approver: null, context: null } });
  await store.timers.schedule({ id: "t", executionId: "e", nodeId: "n", delayMs: 60_000 });
  await store.workflows.put({ id: "wf", version: "1", definition: {} });
  await store.cron.put({ name: "c", expression: "0 3 * * *", workflowId: "w" });
  await store.tokens.create({ name: "phone", role: "operator" });
  await store.tenants.create({ id: "acme" });
  await store.threads.create({ id: "asked" });
  await store.turns.create({ id: "of asked", threadId: "asked" });
  await store.items.create({ id: "line", threadId: "asked", kind: "assistant_message" });
  await store.inbox.admit("asked", { id: "prompt", prompt: "hello" });
  await store.blobs.put(new TextEncoder().encode("abc"));
}

export const errors = {
  ...Object.fromEntries(
    Object.entries(operations).map(([operation, { call, fits, fields, required = [], beyond = {} }]) => [
      `${operation}: unknown fields, missing ones and wrong types are refused and named, and change nothing`,
      async ({ store }) => {
        await prepare(store);
        const before = await contents(store);
        const refuse = async (args, field) => {
          // A list is no promise before somebody waits for it.
          const attempt = async () => await call(store, args);
          const error = await attempt().then(
            () => ({ code: "none" }),
            (error) => error,
          );
          match(error, { code: "invalid_argument", message: new RegExp(`\\b${field}\\b`) }, `the error of ${operation} with ${JSON.stringify(args).slice(0, 200)}`);
        };
        await refuse({ ...fits, surplus: 1 }, "surplus");
        for (const field of required) await refuse({ ...fits, [field]: undefined }, field);
        for (const [field, kind] of Object.entries(fields)) {
          for (const value of [...wrong[kind], ...(beyond[field] ?? []), ...(required.includes(field) ? [null] : [])]) await refuse({ ...fits, [field]: value }, field);
        }
        equal(await contents(store), before);
        // What was refused was refused for that field: without it the call is a good one.
        await call(store, fits);
      },
    ]),
  ),

  "every operation is among those": async ({ store }) => {
    // These are no operations, or have cases of their own.
    const others = ["info", "persist", "close", "on", "subscribe", "live", "batch", "forTenant", "events.tail", "items.tail", "threadEvents.tail"];
    const isOperation = (name) => !others.includes(name);
    const { imports, ...rest } = store;
    equal(Object.keys(imports).sort(), ["chunk", "claudeCode", "codex", "jamjet", "zagensJson"]);
    const found = Object.entries(rest).flatMap(([name, member]) =>
      typeof member === "function" ? [name] : Object.keys(member).map((method) => `${name}.${method}`),
    );
    equal([...found.filter(isOperation), "imports.chunk"].sort(), Object.keys(operations).sort());
  },

  "unknown fields inside are refused and named too": async ({ store }) => {
    await prepare(store);
    const lease = { id: "i", fence: 1 };
    await refuses(store, () => store.events.appendMany("e", [{ type: "x-a" }, { type: "x-a", surplus: 1 }]), "invalid_argument", /surplus/);
    await refuses(store, () => store.queue.enqueueMany([{ queue: "q", surplus: 1 }]), "invalid_argument", /surplus/);
    await refuses(store, () => enqueue(store, { backoff: { kind: "fixed", surplus: 1 } }), "invalid_argument", /surplus/);
    await refuses(store, () => store.queue.complete(lease, { events: [{ type: "x-a", surplus: 1 }] }), "invalid_argument", /surplus/);
    await refuses(store, () => store.queue.complete(lease, { enqueue: [{ queue: "q", surplus: 1 }] }), "invalid_argument", /surplus/);
    await refuses(store, () => store.queue.fail(lease, { error: { message: "m", surplus: 1 } }), "invalid_argument", /error/);
  },

  "an operation that does not exist is refused as unsupported and named": async ({ openRaw }) => {
    const { store, call } = await openRaw();
    await prepare(store);
    const before = await contents(store);
    for (const operation of ["executions.destroyAll", "queue", "", "QUEUE.GET", "queue.get ", "__proto__"]) {
      const { error } = await call(operation, "{}");
      match(error, { code: "unsupported", retryable: false }, operation);
      ok(error.message.includes(JSON.stringify(operation)), `the message does not name ${operation}: ${error.message}`);
    }
    equal(await contents(store), before);
  },

  "arguments that are not JSON, or no object, are refused": async ({ openRaw }) => {
    const { store, call } = await openRaw();
    await prepare(store);
    const before = await contents(store);
    for (const text of ["", "{", "nonsense", "[]", "5", "null", '"x"', '{"queue":"q"} {}', '{"queue":"q",}', "{'queue':'q'}", '{"queue":"q","payload":01}', '{"queue":"q","payload":"\u0000"}']) {
      const { error } = await call("queue.enqueue", text);
      match(error, { code: "invalid_argument", message: /queue\.enqueue/ }, `the error of ${text}`);
    }
    equal(await contents(store), before);
  },

  "a fault of one call does no harm to others that are made at the same time": async ({ store }) => {
    const calls = [
      start(store, { id: "a" }),
      store.executions.setStatus("nobody", { status: "running" }),
      enqueue(store, { id: "b" }),
      enqueue(store, { id: "b", payload: 1 }),
      store.queue.claim({ workerId: "w1", queues: ["q"], limit: 0 }),
      start(store, { id: "c" }),
    ];
    const outcomes = await Promise.allSettled(calls);
    equal(outcomes.map(({ value, reason }) => value?.id ?? reason.code), ["a", "not_found", "b", "conflict", "invalid_argument", "c"]);
    equal((await contents(store)).executions.map(({ id }) => id), ["a", "c"]);
  },

  "aborting a call rejects it with the signal's reason, and harms no other": async ({ store }) => {
    const reason = new Error("enough");
    const before = await enqueue(store, {}).then(() => contents(store));
    equal(await store.queue.enqueue({ queue: "q", id: "never" }, { signal: AbortSignal.abort(reason) }).catch((error) => error === reason), true);
    equal(await contents(store), before);
    const controller = new AbortController();
    const calls = [start(store, { id: "a" }), store.executions.create({ id: "b", workflowId: "w" }, { signal: controller.signal }), start(store, { id: "c" })];
    controller.abort(reason);
    const outcomes = await Promise.allSettled(calls);
    equal(outcomes.map(({ value, reason: why }) => value?.id ?? (why === reason ? "aborted" : why)), ["a", "aborted", "c"]);
  },

  "after an error the next write works": async ({ store }) => {
    await enqueue(store, { id: "taken" });
    for (let n = 0; n < 5; n++) {
      await refuses(store, () => store.queue.enqueueMany([{ queue: "new", id: `n${n}` }, { queue: "q", id: "taken", payload: 1 }]), "conflict");
      match(await enqueue(store, { id: `i${n}` }), { created: true });
    }
  },

  "an error has its class, code, details and retryable, and says which value is at fault": async ({ store, runkeep }) => {
    const { RunkeepError, isRunkeepError } = runkeep;
    await start(store, { id: "run" });
    const error = await store.executions.setStatus("run", { status: "completed" }).catch((error) => error);
    ok(error instanceof RunkeepError && error instanceof Error, "it is not of the class");
    equal([isRunkeepError(error), isRunkeepError(error, "invalid_transition"), isRunkeepError(error, "conflict"), isRunkeepError(new Error("x"))], [true, true, false, false]);
    match(error, { name: "RunkeepError", code: "invalid_transition", message: /run.*pending.*completed/, retryable: false });
    equal(error.details, { id: "run", from: "pending", to: "completed" });
    // What else a stack says is the browser's.
    match(error, { stack: /errors\.mjs/ });
  },

  "details of an error are plain data, however deep": async ({ store }) => {
    const error = await enqueue(store, { payload: { items: [1, { bad: 5n }] } }).catch((error) => error);
    equal(JSON.parse(JSON.stringify(error.details)), error.details);
    const second = await store.queue.enqueueMany([{ queue: "q" }, { queue: "q", maxAttempts: 0 }]).catch((error) => error);
    equal(second.details, { index: 1, path: "items[1].maxAttempts" });
  },
};
