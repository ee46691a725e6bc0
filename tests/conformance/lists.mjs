import { equal, match, ok } from "./assert.mjs";
import { all, claim, claimOne, enqueue, range, refuses, register, start } from "./kit.mjs";

const ids = (rows) => rows.map(({ id }) => id);

/** Something to list of each kind: how to make the nth, how to list, how to name a row. */
const kinds = {
  executions: { make: (store, n) => start(store, { id: `r${n}` }), list: (store, filter) => store.executions.list(filter), name: ({ id }) => id },
  items: { make: (store, n) => enqueue(store, { id: `r${n}` }), list: (store, filter) => store.queue.list(filter), name: ({ id }) => id },
  workers: { make: (store, n) => register(store, { workerId: `r${n}` }), list: (store, filter) => store.workers.list(filter), name: ({ workerId }) => workerId },
  events: {
    make: async (store, n) => {
      if (n === 0) await start(store, { id: "run" });
      await store.events.append("run", { type: "x-a", id: `r${n}` });
    },
    list: (store, filter) => store.events.list({ executionId: "run", ...filter }),
    name: ({ id }) => id,
  },
  approvals: {
    make: async (store, n) => {
      if (n === 0) await start(store, { id: "run" });
      await store.events.append("run", { type: "tool_approval_required", data: { nodeId: "n", approvalId: `r${n}`, toolName: "t", approver: null, context: null } });
    },
    list: (store, filter) => store.approvals.list(filter),
    name: ({ approvalId }) => approvalId,
  },
  workflows: { make: (store, n) => store.workflows.put({ id: `r${n}`, version: "1", definition: n }), list: (store, filter) => store.workflows.list(filter), name: ({ id }) => id },
  timers: {
    make: async (store, n) => {
      if (n === 0) await start(store, { id: "run" });
      await store.timers.schedule({ id: `r${n}`, executionId: "run", nodeId: "n", delayMs: 100 - n });
    },
    list: (store, filter) => store.timers.list(filter),
    name: ({ id }) => id,
  },
  schedules: { make: (store, n) => store.cron.put({ name: `r${n}`, expression: "0 * * * *", workflowId: "w" }), list: (store, filter) => store.cron.list(filter), name: ({ name }) => name },
  tokens: { make: (store, n) => store.tokens.create({ name: `r${n}`, role: "viewer" }), list: (store, filter) => store.tokens.list(filter), name: ({ name }) => name },
  tenants: {
    // The first one is there already.
    make: async (store, n) => void (n > 0 && (await store.tenants.create({ id: `r${n}` }))),
    list: (store, filter) => store.tenants.list(filter),
    name: ({ id }) => (id === "default" ? "r0" : id),
  },
  queues: { make: (store, n) => store.queues.configure(`r${n}`, {}), list: (store, filter) => store.queues.list(filter), name: ({ name }) => name },
  "dead letters": {
    make: async (store, n) => {
      await enqueue(store, { id: `r${n}`, maxAttempts: 1 });
      await store.queue.fail(await claimOne(store), { error: "no" });
    },
    list: (store, filter) => store.deadLetters.list(filter),
    name: ({ id }) => id,
  },
};

const names = (count) => range(count).map((n) => `r${n}`);

async function pages(list) {
  const found = [];
  let cursor;
  do {
    const { items, nextCursor } = await list(cursor === undefined ? {} : { cursor });
    found.push(items);
    cursor = nextCursor ?? undefined;
  } while (cursor !== undefined);
  return found;
}

export const lists = {
  ...Object.fromEntries(
    Object.entries(kinds).map(([kind, { make, list, name }]) => [
      `a list of ${kind} is complete and in order, awaited page by page or iterated, forwards or backwards`,
      async ({ store }) => {
        for (const n of range(7)) await make(store, n);
        for (const [order, expected] of [["asc", names(7)], ["desc", names(7).reverse()], [undefined, names(7)]]) {
          for (const limit of [1, 3, 7, 8, undefined]) {
            const filter = { order, limit };
            const found = await pages((more) => list(store, { ...filter, ...more }));
            equal(found.flat().map(name), expected, `the pages with ${JSON.stringify(filter)}`);
            ok(found.every((page) => page.length <= (limit ?? 100)), "a page is longer than its limit");
            equal((await all(list(store, filter))).map(name), expected, `the iteration with ${JSON.stringify(filter)}`);
          }
        }
        equal((await list(store, { limit: 7 })).nextCursor, null, "the cursor after the last row");
      },
    ]),
  ),

  "limits are 1 to 1000, and 100 unless given": async ({ store }) => {
    await store.queue.enqueueMany(range(120).map(() => ({ queue: "q" })));
    equal((await store.queue.list()).items.length, 100);
    equal((await store.queue.list({ limit: 1000 })).items.length, 120);
    await start(store, { id: "run" });
    for (const limit of [0, -1, 1001, 2.5, "10"]) {
      await refuses(store, () => store.executions.list({ limit }), "invalid_argument", /limit/);
      await refuses(store, () => store.queue.list({ limit }), "invalid_argument", /limit/);
      await refuses(store, () => store.workers.list({ limit }), "invalid_argument", /limit/);
      await refuses(store, () => store.events.list({ executionId: "run", limit }), "invalid_argument", /limit/);
    }
  },

  "a cursor or an order that is none is refused": async ({ store }) => {
    await start(store, { id: "run" });
    for (const list of [(filter) => store.executions.list(filter), (filter) => store.queue.list(filter), (filter) => store.workers.list(filter), (filter) => store.events.list({ executionId: "run", ...filter })]) {
      for (const cursor of ["", "abc", "-1", "1.5", "🎉", 5]) await refuses(store, () => list({ cursor }), "invalid_argument", /cursor/);
      for (const order of ["ASC", "newest", 1]) await refuses(store, () => list({ order }), "invalid_argument", /order/);
    }
  },

  "a list of nothing is an empty page": async ({ store }) => {
    equal(await store.executions.list(), { items: [], nextCursor: null });
    equal(await store.queue.list({ queue: "unknown" }), { items: [], nextCursor: null });
    equal(await store.workers.list({ pool: "unknown" }), { items: [], nextCursor: null });
  },

  "a row that changes while a list is read appears once all the same": async ({ store }) => {
    for (const n of range(6)) await start(store, { id: `r${n}` });
    const first = await store.executions.list({ limit: 3 });
    await store.executions.setStatus("r4", { status: "running" });
    await store.events.append("r1", { type: "x-touch" });
    const second = await store.executions.list({ limit: 3, cursor: first.nextCursor });
    equal([...ids(first.items), ...ids(second.items)], names(6));
  },

  "rows that are added while a list is read repeat none and hide none": async ({ store }) => {
    for (const n of range(6)) await enqueue(store, { id: `r${n}` });
    for (const order of ["asc", "desc"]) {
      const found = [];
      for await (const { id } of store.queue.list({ limit: 2, order })) {
        found.push(id);
        if (found.length < 9) await enqueue(store, { priority: 1 });
      }
      const known = found.filter((id) => /^r\d$/.test(id));
      equal(known, order === "asc" ? names(6) : names(6).reverse());
      equal(new Set(found).size, found.length);
    }
  },

  "items whose status changes while they are listed by another filter appear once": async ({ store }) => {
    await store.queue.enqueueMany(range(30).map((n) => ({ queue: "q", id: `r${n}` })));
    const found = [];
    for await (const { id } of store.queue.list({ queue: "q", limit: 4 })) {
      found.push(id);
      if (found.length % 5 === 0) await store.queue.complete(await claimOne(store));
    }
    equal(found, names(30));
  },

  "a hundred rows of one millisecond keep their order, also when one is changed and after opening again": async ({ store, reopen }) => {
    for (const n of range(100)) await start(store, { id: `r${n}` });
    await store.executions.setStatus("r2", { status: "running" });
    equal(ids(await all(store.executions.list({ limit: 33 }))), names(100));
    equal(ids(await all((await reopen()).executions.list())), names(100));
  },

  "executions can be listed by status, workflow, parent, tag and time": async ({ store, clock }) => {
    const at = clock.now();
    for (const [id, more] of [
      ["a", { workflowId: "w1", tags: ["red", "blue"], parentId: "p" }],
      ["b", { workflowId: "w2", tags: ["red"] }],
      ["c", { workflowId: "w1", parentId: "p" }],
      ["d", { workflowId: "w1", tags: ["re"], parentId: "q" }],
    ]) {
      await start(store, { id, ...more });
      clock.advance(1_000);
    }
    await store.executions.setStatus("b", { status: "running" });
    await store.executions.setStatus("d", { status: "running" });
    const list = async (filter) => ids(await all(store.executions.list({ limit: 1, ...filter })));
    equal(await list({ status: "running" }), ["b", "d"]);
    equal(await list({ status: "running", order: "desc" }), ["d", "b"]);
    equal(await list({ status: "pending" }), ["a", "c"]);
    equal(await list({ status: "failed" }), []);
    equal(await list({ workflowId: "w1" }), ["a", "c", "d"]);
    equal(await list({ parentId: "p" }), ["a", "c"]);
    equal(await list({ tag: "red" }), ["a", "b"]);
    equal(await list({ tag: "re" }), ["d"]);
    equal(await list({ createdAfter: at + 500 }), ["b", "c", "d"]);
    equal(await list({ createdAfter: at + 500, createdBefore: at + 2_500 }), ["b", "c"]);
    equal(await list({ status: "running", workflowId: "w1", order: "desc" }), ["d"]);
    equal(await list({ workflowId: "w1", tag: "red", parentId: "p", status: "pending" }), ["a"]);
  },

  "items can be listed by queue, status and execution": async ({ store }) => {
    await start(store, { id: "run" });
    await enqueue(store, { id: "a", executionId: "run", nodeId: "n" });
    await enqueue(store, { id: "b" });
    await enqueue(store, { id: "c", queue: "other", executionId: "run", nodeId: "m" });
    await enqueue(store, { id: "d", delayMs: 1 });
    await store.queue.complete(await claimOne(store));
    const list = async (filter) => ids(await all(store.queue.list({ limit: 1, ...filter })));
    equal(await list({ queue: "q" }), ["a", "b", "d"]);
    equal(await list({ status: "completed" }), ["a"]);
    equal(await list({ status: "pending" }), ["b", "c"]);
    equal(await list({ executionId: "run" }), ["a", "c"]);
    equal(await list({ executionId: "run", status: "pending", order: "desc" }), ["c"]);
    equal(await list({ queue: "q", status: "scheduled" }), ["d"]);
  },

  "a tag may hold commas and quotes, and is matched as a whole": async ({ store }) => {
    match(await start(store, { tags: ["a,b", "b", 'quo"te', "🎉"] }), { tags: ["a,b", "b", 'quo"te', "🎉"] });
    for (const [tag, count] of [["a", 0], ["a,b", 1], ["quo", 0], ['quo"te', 1], ["🎉", 1], ["%", 0]]) {
      equal((await all(store.executions.list({ tag }))).length, count, `the number of executions with the tag ${tag}`);
    }
  },

  "when the clock goes back, lists stay in the order of creation": async ({ store, clock }) => {
    for (const n of range(4)) {
      await start(store, { id: `r${n}` });
      await enqueue(store, { id: `r${n}` });
      await register(store, { workerId: `r${n}` });
      clock.advance(-1_000);
    }
    equal(ids(await all(store.executions.list({ limit: 1 }))), names(4));
    equal(ids(await all(store.queue.list({ limit: 1 }))), names(4));
    equal((await all(store.workers.list({ limit: 1 }))).map(({ workerId }) => workerId), names(4));
  },

  "stats counts items by status, of a queue, an execution or all": async ({ store, clock }) => {
    const none = { scheduled: 0, pending: 0, claimed: 0, completed: 0, dead_lettered: 0, cancelled: 0 };
    equal(await store.queues.stats(), { counts: none });
    await start(store, { id: "run" });
    await enqueue(store, { executionId: "run", nodeId: "n" });
    await store.queue.complete(await claimOne(store));
    await enqueue(store);
    await store.queue.fail(await claimOne(store), { error: "no", retryable: false });
    const { id } = await enqueue(store, { executionId: "run", nodeId: "n" });
    await store.queue.cancel(id);
    await enqueue(store);
    await claimOne(store);
    await enqueue(store, { delayMs: 1_000 });
    await enqueue(store, { executionId: "run", nodeId: "n" });
    await enqueue(store, { queue: "other" });
    const now = clock.now();
    equal(await store.queues.stats(), { counts: { scheduled: 1, pending: 2, claimed: 1, completed: 1, dead_lettered: 1, cancelled: 1 }, oldestPendingAt: now });
    equal(await store.queues.stats({ queue: "q" }), { counts: { scheduled: 1, pending: 1, claimed: 1, completed: 1, dead_lettered: 1, cancelled: 1 }, oldestPendingAt: now });
    equal(await store.queues.stats({ executionId: "run" }), { counts: { ...none, pending: 1, completed: 1, cancelled: 1 }, oldestPendingAt: now });
    equal(await store.queues.stats({ executionId: "run", queue: "other" }), { counts: none });
    equal(await store.queues.stats({ queue: "unknown" }), { counts: none });
  },

  "stats tells since when the oldest item waits": async ({ store, clock }) => {
    const at = clock.now();
    await enqueue(store, { priority: -5 });
    clock.advance(100);
    await enqueue(store, { priority: 5 });
    await enqueue(store, { requires: ["gpu"] });
    match(await store.queues.stats(), { oldestPendingAt: at });
    await claim(store, { limit: 1 });
    match(await store.queues.stats({ queue: "q" }), { oldestPendingAt: at });
    await claim(store, { limit: 1 });
    match(await store.queues.stats({ queue: "q" }), { oldestPendingAt: at + 100 });
  },
};
