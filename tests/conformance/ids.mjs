import { equal, match, ok } from "./assert.mjs";
import { all, claim, contents, enqueue, range, refuses, register, start } from "./kit.mjs";

const uuid7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Every argument that is a name: a call that gives it, and succeeds where it is a good one. */
const named = {
  "executions.create id": (store, id) => start(store, { id }),
  "executions.create workflowId": (store, workflowId) => start(store, { workflowId }),
  "executions.create workflowVersion": (store, workflowVersion) => start(store, { workflowVersion }),
  "executions.create parentId": (store, parentId) => start(store, { parentId }),
  "executions.create tags": (store, tag) => start(store, { tags: [tag] }),
  "events.append id": async (store, id) => store.events.append((await start(store)).id, { type: "x-a", id }),
  "queue.enqueue id": (store, id) => enqueue(store, { id }),
  "queue.enqueue queue": (store, queue) => enqueue(store, { queue }),
  "queue.enqueue nodeId": async (store, nodeId) => enqueue(store, { executionId: (await start(store)).id, nodeId }),
  "queue.enqueue requires": (store, capability) => enqueue(store, { requires: [capability] }),
  "queue.enqueue idempotencyKey": (store, idempotencyKey) => enqueue(store, { idempotencyKey }),
  "queue.enqueue concurrencyKey": (store, concurrencyKey) => enqueue(store, { concurrencyKey }),
  "queue.claim workerId": (store, workerId) => claim(store, { workerId }),
  "queue.claim namespace": (store, namespace) => claim(store, { namespace }),
  "queue.claim queues": (store, queue) => claim(store, { queues: [queue] }),
  "workers.register workerId": (store, workerId) => register(store, { workerId }),
  "workers.register pool": async (store, pool) => {
    await register(store, { pool });
    await store.workers.markDead({ workerId: "w1", reason: "the next one is of another pool" });
  },
  "workers.register queues": (store, queue) => register(store, { queues: [queue] }),
  "workers.register capabilities": (store, capability) => register(store, { capabilities: [capability] }),
  "workers.register namespace": (store, namespace) => register(store, { namespace }),
  // In a tenant of its own: an execution of that name is there already.
  "executions.fork newId": async (store, newId) => {
    const tenant = store.forTenant((await store.tenants.create({})).id);
    return tenant.executions.fork((await start(tenant)).id, { newId });
  },
  "workflows.put id": (store, id) => store.workflows.put({ id, version: "1", definition: 1 }),
  "workflows.put version": (store, version) => store.workflows.put({ id: "w", version, definition: 1 }),
  "approvals.resolve approvalId": async (store, approvalId) => {
    const { id } = await start(store);
    const asked = { nodeId: "n", approvalId: approvalId || "p", toolName: "t", approver: null, context: null };
    await store.events.append(id, { type: "tool_approval_required", data: asked });
    await store.approvals.resolve({ executionId: id, approvalId, decision: "approved" });
  },
  "timers.schedule id": async (store, id) => store.timers.schedule({ id, executionId: (await start(store)).id, nodeId: "n", delayMs: 1 }),
  "timers.schedule nodeId": async (store, nodeId) => store.timers.schedule({ executionId: (await start(store)).id, nodeId, delayMs: 1 }),
  "timers.schedule correlationKey": async (store, correlationKey) => store.timers.schedule({ executionId: (await start(store)).id, nodeId: "n", delayMs: 1, correlationKey }),
  "cron.put name": (store, name) => store.cron.put({ name, expression: "0 0 1 1 *", workflowId: "w" }),
  "cron.put workflowId": (store, workflowId) => store.cron.put({ name: "c", expression: "0 0 1 1 *", workflowId }),
  "queues.configure name": (store, name) => store.queues.configure(name, { concurrency: 1 }),
  "queues.hold key": (store, key) => store.queues.hold("q", { key, until: null }),
  "tokens.create name": (store, name) => store.tokens.create({ name, role: "viewer" }),
  "threads.create id": (store, id) => store.threads.create({ id }),
  "threads.create taskId": (store, taskId) => store.threads.create({ taskId }),
  "turns.create id": async (store, id) => store.turns.create({ id, threadId: await thread(store) }),
  "turns.create ownerId": async (store, ownerId) => store.turns.create({ ownerId, threadId: await thread(store) }),
  "turns.create executionId": async (store, executionId) => store.turns.create({ executionId, threadId: await thread(store) }),
  "items.create id": async (store, id) => store.items.create({ id, threadId: await thread(store), kind: "error" }),
  "inbox.admit id": async (store, id) => store.inbox.admit(await thread(store), { id, prompt: 1 }),
  "threadEvents.append type": async (store, type) => store.threadEvents.append(await thread(store), { type }),
  "tenants.create id": (store, id) => store.tenants.create({ id }),
  "tenants.create name": (store, name) => store.tenants.create({ name }),
};

const thread = async (store) => (await store.threads.create({})).id;

export const ids = {
  "ids are UUIDs of version 7, with the time of their making, and never the same": async ({ store, clock }) => {
    const made = [];
    for (const n of range(50)) {
      clock.advance(n);
      const run = await start(store);
      const item = await enqueue(store);
      const event = await store.events.append(run.id, { type: "x-a" });
      for (const { id } of [run, item, event]) {
        match({ id }, { id: uuid7 });
        equal(Number.parseInt(id.replace("-", "").slice(0, 12), 16), clock.now(), `the time in ${id}`);
        made.push(id);
      }
    }
    equal(new Set(made).size, made.length);
  },

  "creating an execution again with the same arguments answers the one there is": async ({ store, clock }) => {
    const given = { id: "run", workflowId: "w", input: { a: 1, b: [2] }, tags: ["t"] };
    await store.executions.create(given);
    await store.executions.setStatus("run", { status: "running" });
    clock.advance(5);
    const before = await store.executions.get("run");
    equal(await store.executions.create(given), { ...before, created: false });
    equal(await store.executions.create({ ...given, input: { b: [2], a: 1 } }), { ...before, created: false }, "with members in another order");
    equal(await contents(store).then(({ executions }) => executions), [before]);
  },

  "creating an execution with a known id and other arguments is a conflict": async ({ store }) => {
    await store.executions.create({ id: "run", workflowId: "w", input: 1 });
    for (const other of [{ workflowId: "w2", input: 1 }, { workflowId: "w", input: 2 }, { workflowId: "w" }, { workflowId: "w", input: 1, tags: ["t"] }]) {
      await refuses(store, () => store.executions.create({ id: "run", ...other }), "conflict", /run/);
    }
  },

  "enqueueing again with the same id and arguments answers the item there is": async ({ store }) => {
    const given = { id: "item", queue: "q", payload: { a: 1, b: 2 } };
    await store.queue.enqueue(given);
    const [item] = await claim(store);
    equal(await store.queue.enqueue({ ...given, payload: { b: 2, a: 1 } }), { ...item, created: false });
    await store.queue.complete(item);
    match(await store.queue.enqueue(given), { status: "completed", created: false });
    equal((await all(store.queue.list())).length, 1);
  },

  "enqueueing with a known id and other arguments is a conflict": async ({ store }) => {
    await store.queue.enqueue({ id: "item", queue: "q", payload: 1 });
    for (const other of [{ queue: "q", payload: 2 }, { queue: "other", payload: 1 }, { queue: "q", payload: 1, priority: 1 }]) {
      await refuses(store, () => store.queue.enqueue({ id: "item", ...other }), "conflict", /item/);
    }
  },

  "nothing of the chat side takes the place of another one with its id": async ({ store }) => {
    for (const id of ["t", "other"]) await store.threads.create({ id, title: "first" });
    await store.turns.create({ id: "u", threadId: "t", inputSummary: "first" });
    await store.items.create({ id: "i", threadId: "t", kind: "tool_call", text: "first" });
    await store.inbox.admit("t", { id: "p", prompt: "first" });
    const repeat = {
      thread: (more) => store.threads.create({ id: "t", title: "first", ...more }),
      turn: (more) => store.turns.create({ id: "u", threadId: "t", inputSummary: "first", ...more }),
      item: (more) => store.items.create({ id: "i", threadId: "t", kind: "tool_call", text: "first", ...more }),
      prompt: ({ threadId = "t", ...more }) => store.inbox.admit(threadId, { id: "p", prompt: "first", ...more }),
    };
    const others = {
      thread: [{ title: "second" }, { model: "m" }, { metadata: { a: 1 } }],
      turn: [{ threadId: "other" }, { inputSummary: "second" }, { status: "in_progress" }],
      item: [{ threadId: "other" }, { kind: "error" }, { text: "second" }, { turnId: "u" }, { data: null }],
      prompt: [{ threadId: "other" }, { prompt: "second" }, { delivery: "steer" }, { request: 1 }],
    };
    for (const [kind, create] of Object.entries(repeat)) {
      for (const other of others[kind]) await refuses(store, () => create(other), "conflict", /"[tuip]"/);
      const before = await contents(store);
      match(await create({}), { created: false });
      equal(await contents(store), before);
    }
  },

  "arguments that differ in the last digit of a number are other arguments": async ({ openRaw }) => {
    const { call } = await openRaw();
    const numbers = ["9007199254740992", "9007199254740993", "123456789012345678901", "123456789012345678902", "123456789.12345679", "123456789.1234568"];
    for (const [index, first] of numbers.entries()) {
      const enqueueWith = (number) => call("queue.enqueue", `{"queue":"q","id":"i${index}","payload":[${number}]}`);
      match(await enqueueWith(first), { ok: { created: true } });
      match(await enqueueWith(first), { ok: { created: false } });
      match(await enqueueWith(numbers[index % 2 ? index - 1 : index + 1]), { error: { code: "conflict" } }, `the answer to a number other than ${first}`);
    }
  },

  "a record whose id the store made is not met again by giving that id with other arguments": async ({ store }) => {
    const run = await start(store, { input: 1 });
    const item = await enqueue(store, { payload: 1 });
    await refuses(store, () => start(store, { id: run.id, input: 2 }), "conflict");
    await refuses(store, () => enqueue(store, { id: item.id, payload: 2 }), "conflict");
  },

  "an execution, an item and an event may have the same id": async ({ store }) => {
    match(await start(store, { id: "one" }), { id: "one", created: true });
    match(await enqueue(store, { id: "one" }), { id: "one", created: true });
    match(await store.events.append("one", { id: "one", type: "x-a" }), { id: "one", created: true });
  },

  "a name may be 256 bytes of anything but control characters": async ({ store }) => {
    for (const [what, give] of Object.entries(named)) {
      for (const name of ["🎉".repeat(64), "é".repeat(128), "x".repeat(256), "a, b; \"c\" 'd' `e` %_\\ --", "__proto__", " ", "\u2028"]) {
        await give(store, name).catch((error) => Promise.reject(new Error(`${what} ${JSON.stringify(name)}: ${error.message}`)));
      }
    }
    equal(await store.executions.get("🎉".repeat(64)).then(({ id }) => id), "🎉".repeat(64));
    equal(await store.queue.get("a, b; \"c\" 'd' `e` %_\\ --").then(({ id }) => id), "a, b; \"c\" 'd' `e` %_\\ --");
  },

  "a name that is empty, too long or has control characters is refused and named": async ({ store }) => {
    for (const [what, give] of Object.entries(named)) {
      const field = new RegExp(what.split(" ")[1]);
      for (const name of ["", `${"🎉".repeat(64)}x`, "é".repeat(129), "x".repeat(257), "x".repeat(300), "a\u0000", "\n", "a\u001fb", "\u007f", "\u0085", "\u009f"]) {
        const before = await store.queues.stats();
        const error = await give(store, name).then(
          () => ({ code: "none" }),
          (error) => error,
        );
        match(error, { code: "invalid_argument", message: field }, `the error of ${what} ${JSON.stringify(name)}`);
        equal(await store.queues.stats(), before);
      }
    }
    const { executions, items, workers } = await contents(store);
    ok(executions.every(({ workflowId }) => workflowId === "w"), "an execution with a bad name is there");
    equal([items, workers], [[], []]);
  },

  "names are compared byte by byte": async ({ store }) => {
    for (const id of ["Run", "run", "run ", "ｒun", "re\u0301sume\u0301", "r\u00e9sum\u00e9"]) match(await start(store, { id }), { id, created: true });
    equal(await store.executions.get("RUN"), null);
  },
};
