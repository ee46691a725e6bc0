import { equal, match, rejects } from "./assert.mjs";
import { all, claim, claimOne, contents, enqueue, range, refuses, register, start } from "./kit.mjs";

/** Something of every kind. */
async function fill(store, name) {
  await start(store, { id: "run", workflowId: name });
  await store.executions.patchState("run", { patch: { name } });
  await enqueue(store, { id: "item", executionId: "run", nodeId: "n", payload: name, idempotencyKey: "key" });
  await enqueue(store, { id: "dead", maxAttempts: 1, priority: 1 });
  await store.queue.fail(await claimOne(store), { error: name });
  await store.events.append("run", { id: "event", type: "tool_approval_required", data: { nodeId: "n", approvalId: "a", toolName: name, approver: null, context: null } });
  await store.workflows.put({ id: "wf", version: "1", definition: name });
  await store.timers.schedule({ id: "timer", executionId: "run", nodeId: "n", delayMs: 1_000, enqueue: { id: "woken", queue: "timers", payload: name } });
  await store.cron.put({ name: "cron", expression: "* * * * *", workflowId: name });
  await register(store, { metadata: name });
  await store.queues.configure("q", { concurrency: 5 });
  await store.retention.set({ itemsMs: 1e9 });
  return store.tokens.create({ name, role: "viewer" });
}

async function two(store) {
  await store.tenants.create({ id: "acme" });
  await store.tenants.create({ id: "globex" });
  return [store.forTenant("acme"), store.forTenant("globex")];
}

export const tenants = {
  "there is always the tenant default; others are made, changed and listed": async ({ store, clock }) => {
    match(await store.tenants.get("default"), { id: "default", status: "active" });
    const limits = { maxWorkflows: 3, maxCostPerMonthUsd: 0.5 };
    match(await store.tenants.create({ id: "acme", name: "Acme", policy: { tools: ["x"] }, limits }), { id: "acme", status: "active", policy: { tools: ["x"] }, limits, createdAt: clock.now(), created: true });
    match(await store.tenants.create({ id: "acme", name: "Acme", policy: { tools: ["x"] }, limits }), { created: false });
    await refuses(store, () => store.tenants.create({ id: "acme" }), "conflict", /acme/);
    await refuses(store, () => store.tenants.create({ id: "default" }), "conflict", /default/);
    match(await store.tenants.create({}), { created: true });
    clock.advance(5);
    match(await store.tenants.update("acme", { status: "suspended", policy: null }), { name: "Acme", status: "suspended", limits, updatedAt: clock.now() });
    equal((await store.tenants.get("acme")).policy, undefined);
    equal((await all(store.tenants.list({ limit: 1 }))).map(({ id }) => id).slice(0, 2), ["default", "acme"]);
    equal((await all(store.tenants.list({ status: "suspended" }))).map(({ id }) => id), ["acme"]);
    equal(await store.tenants.get("ghost"), null);
    await refuses(store, () => store.tenants.update("ghost", {}), "not_found", /ghost/);
    await refuses(store, () => store.tenants.update("default", { status: "archived" }), "invalid_transition", /default/);
  },

  "nothing of another tenant can be read, and the same ids are free for everybody": async ({ store }) => {
    const [acme, globex] = await two(store);
    const nothing = await contents(globex);
    const { token } = await fill(acme, "acme");
    equal(await contents(globex), nothing, "what globex sees of acme");
    await fill(globex, "globex");
    const plain = await fill(store, "plain");
    for (const [name, id, handle] of [["acme", "acme", acme], ["globex", "globex", globex], ["plain", "default", store]]) {
      const { tenants: _, ...seen } = await contents(handle);
      const text = JSON.stringify(seen);
      for (const other of ["acme", "globex", "plain"]) equal(text.includes(`"${other}"`), other === name, `whether ${name} sees ${other}`);
      equal(seen.executions.map((run) => [run.id, run.tenantId]), [["run", id]]);
      match(seen.stats, { counts: { pending: 1, dead_lettered: 1 } });
      equal(seen.counts.total, 1);
    }
    // A token is known to its own tenant, and to the plain store.
    match(await acme.tokens.validate(token), { tenantId: "acme" });
    match(await store.tokens.validate(token), { tenantId: "acme" });
    equal([await globex.tokens.validate(token), await acme.tokens.validate(plain.token)], [null, null]);
  },

  "nothing of another tenant can be changed, claimed or found to exist": async ({ store }) => {
    const [acme, globex] = await two(store);
    const { info } = await fill(acme, "acme");
    const item = await claimOne(acme);
    const before = await contents(acme);
    for (const attempt of [
      () => globex.executions.setStatus("run", { status: "running" }),
      () => globex.executions.patchState("run", { patch: {} }),
      () => globex.executions.delete("run"),
      () => globex.executions.fork("run"),
      () => globex.executions.continueAsNew("run"),
      () => globex.executions.materialize("run"),
      () => globex.events.append("run", { type: "x-a" }),
      () => globex.events.latestSequence("run"),
      () => globex.approvals.resolve({ executionId: "run", approvalId: "a", decision: "approved" }),
      () => globex.queue.complete(item),
      () => globex.queue.renew(item),
      () => globex.queue.cancel("item"),
      () => globex.queue.attempts("item"),
      () => globex.queue.enqueue({ queue: "q", executionId: "run", nodeId: "n" }),
      () => globex.deadLetters.redrive("dead"),
      () => globex.deadLetters.delete("dead"),
      () => globex.timers.cancel("timer"),
      () => globex.timers.schedule({ executionId: "run", nodeId: "n", delayMs: 1 }),
      () => globex.cron.trigger("cron"),
      () => globex.cron.delete("cron"),
      () => globex.tokens.revoke(info.id),
    ]) {
      await rejects(attempt(), "not_found");
    }
    equal(await globex.queue.claim({ workerId: "w", queues: ["q", "timers"], limit: 10 }), []);
    match(await globex.workers.heartbeat({ workerId: "w1" }), { outcome: "not_registered" });
    match(await globex.workers.markDead({ workerId: "w1", reason: "r" }), { outcome: "not_registered" });
    equal(await globex.deadLetters.redrive({ queue: "q" }), { redriven: 0, refused: [] });
    await globex.queues.pause("q");
    await globex.retention.set({ itemsMs: 0 });
    equal(await contents(acme), before);
    match(await acme.queue.complete(item), { status: "completed" });
  },

  "a tenant's numbers have no gaps from what others do": async ({ store }) => {
    const [acme, globex] = await two(store);
    // Whatever a cursor says, it says the same of a tenant that is alone.
    await store.tenants.create({ id: "alone" });
    const alone = store.forTenant("alone");
    for (const n of range(6)) {
      for (const m of range(n)) await start(globex, { id: `${n}-${m}` });
      await start(acme, { id: `r${n}` });
    }
    for (const n of range(6)) await start(alone, { id: `r${n}` });
    const cursors = async (tenant) => {
      const seen = [];
      for (let cursor; cursor !== null; seen.push(cursor)) ({ nextCursor: cursor } = await tenant.executions.list({ limit: 1, cursor }));
      return seen;
    };
    equal(await cursors(acme), await cursors(alone));
  },

  "a sweep does what time brings to every tenant": async ({ store, clock }) => {
    const [acme, globex] = await two(store);
    await fill(acme, "acme");
    await fill(globex, "globex");
    await claimOne(acme, { leaseMs: 500 });
    clock.advance(60_000);
    match(await store.sweep(), { timersFired: 2, cronsFired: 2, leasesRetried: 1, workersExpired: 2, errors: [] });
    match(await acme.queue.claim({ workerId: "w", queues: ["timers"] }), [{ payload: "acme", tenantId: "acme" }]);
    equal((await all(globex.executions.list())).map(({ workflowId, tenantId }) => [workflowId, tenantId]), [["globex", "globex"], ["globex", "globex"]]);
  },

  "a suspended tenant reads and settles what it holds, and neither creates nor claims": async ({ store, clock }) => {
    const [acme] = await two(store);
    await fill(acme, "acme");
    const item = await claimOne(acme);
    await enqueue(acme, { id: "waits" });
    for (const status of ["suspended", "archived"]) {
      await store.tenants.update("acme", { status });
      const before = await contents(acme);
      for (const attempt of [
        () => start(acme, {}),
        () => enqueue(acme, {}),
        () => claim(acme),
        () => acme.workflows.put({ id: "new", version: "1", definition: 1 }),
        () => acme.timers.schedule({ executionId: "run", nodeId: "n", delayMs: 1 }),
        () => acme.cron.put({ name: "new", expression: "* * * * *", workflowId: "w" }),
        () => acme.cron.trigger("cron"),
        () => acme.tokens.create({ name: "n", role: "viewer" }),
        () => acme.executions.fork("run"),
        () => acme.executions.continueAsNew("run"),
      ]) {
        await rejects(attempt(), "tenant_suspended", new RegExp(status));
      }
      equal(await contents(acme), before);
      match(await acme.executions.get("run"), { id: "run" });
    }
    match(await acme.queue.renew(item), { cancelRequested: false });
    match(await acme.queue.complete(item, { statePatch: { done: true }, events: [{ type: "x-a" }], enqueue: [{ queue: "later" }] }), { status: "completed" });
    match(await acme.executions.get("run"), { state: { done: true } });
    clock.advance(120_000);
    match(await store.sweep(), { timersFired: 0, cronsFired: 0 });
    await store.tenants.update("acme", { status: "active" });
    match(await claimOne(acme), { id: "waits" });
    match(await store.sweep(), { timersFired: 1 });
  },

  "a reached limit refuses what would begin, never what records": async ({ store }) => {
    await store.tenants.create({ id: "acme", limits: { maxConcurrentExecutions: 1, maxWorkflows: 1 } });
    const acme = store.forTenant("acme");
    const { id } = await start(acme);
    const error = await rejects(start(acme), "limit_exceeded", /maxConcurrentExecutions/);
    match(error, { details: { limit: "maxConcurrentExecutions" } });
    await rejects(acme.executions.fork(id), "limit_exceeded");
    // The next segment takes the place of the one that ends.
    const next = await acme.executions.continueAsNew(id, {});
    match(next, { segment: 1, created: true });
    await acme.executions.cancel(next.id);
    match(await start(acme), { created: true });
    await acme.workflows.put({ id: "a", version: "1", definition: 1 });
    await acme.workflows.put({ id: "a", version: "2", definition: 1 });
    await rejects(acme.workflows.put({ id: "b", version: "1", definition: 1 }), "limit_exceeded", /maxWorkflows/);
    match(await start(store), { created: true });
    equal((await all(acme.workflows.list())).length, 2);
  },

  "the tokens and the money of a month are spent until the month ends in UTC": async ({ store, clock }) => {
    for (const [limits, spent] of [[{ maxTokensPerMonth: 100 }, { inputTokens: 60, outputTokens: 40 }], [{ maxCostPerMonthUsd: 0.5 }, { costUsd: 0.5 }]]) {
      clock.set(Date.parse("2026-01-31T23:59:00Z"));
      const [limit] = Object.keys(limits);
      await store.tenants.create({ id: limit, limits });
      const tenant = store.forTenant(limit);
      const { id } = await start(tenant);
      await enqueue(tenant);
      const spend = () => tenant.events.append(id, { type: "node_completed", data: { nodeId: "n", output: null, statePatch: null, durationMs: 1, ...spent } });
      await spend();
      await rejects(start(tenant), "limit_exceeded", new RegExp(limit));
      await rejects(claim(tenant), "limit_exceeded", new RegExp(limit));
      match(await spend(), { sequence: 2 });
      clock.set(Date.parse("2026-02-01T00:00:00Z") - 1);
      await rejects(start(tenant), "limit_exceeded");
      clock.advance(1);
      match(await start(tenant), { created: true });
      await claimOne(tenant);
    }
  },
};
