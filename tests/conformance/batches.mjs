import { equal, match, ok, rejects } from "./assert.mjs";
import { all, claimOne, contents, enqueue, range, refuses, start, story } from "./kit.mjs";

export const batches = {
  "a batch answers the results of its calls in order, and each call sees those before it": async ({ store }) => {
    const results = await store.batch((tx) => [
      tx.workflows.put({ id: "wf", version: "1", definition: {} }),
      tx.executions.create({ id: "run", workflowId: "wf" }),
      tx.executions.setStatus("run", { status: "running" }, { expectedStatus: "pending" }),
      tx.events.append("run", { type: "x-a", data: 1 }, { expectedSequence: 1 }),
      tx.events.appendMany("run", [{ type: "x-b" }, { type: "x-c" }]),
      tx.queue.enqueue({ id: "item", queue: "q", executionId: "run", nodeId: "n" }),
      tx.queue.claim({ workerId: "w", queues: ["q"] }),
      tx.executions.patchState("run", { patch: { a: 1 } }),
      tx.timers.schedule({ id: "t", executionId: "run", nodeId: "n", delayMs: 5 }),
      tx.tenants.create({ id: "acme" }),
    ]);
    match(results, [
      { id: "wf", created: true },
      { id: "run", created: true },
      { status: "running" },
      { sequence: 2 },
      [{ sequence: 3 }, { sequence: 4 }],
      { id: "item" },
      [{ id: "item", status: "claimed" }],
      { lastSequence: 5 },
      { id: "t" },
      { id: "acme" },
    ]);
    match(await store.executions.get("run"), { state: { a: 1 }, lastSequence: 6 });
  },

  "one failure undoes a whole batch, and names its place": async ({ store }) => {
    await start(store, { id: "run" });
    await enqueue(store, { id: "item" });
    const item = await claimOne(store);
    for (const [failing, code, message] of [
      [(tx) => tx.executions.setStatus("run", { status: "completed" }), "invalid_transition", /completed/],
      [(tx) => tx.events.append("ghost", { type: "x-a" }), "not_found", /ghost/],
      [(tx) => tx.queue.enqueue({ queue: "q", surplus: 1 }), "invalid_argument", /surplus/],
      [(tx) => tx.queue.fail({ id: "item", fence: 9 }, { error: "no" }), "lease_lost", /item/],
      [(tx) => tx.executions.create({ id: "run", workflowId: "another" }), "conflict", /run/],
    ]) {
      const error = await refuses(
        store,
        () => store.batch((tx) => [tx.executions.patchState("run", { patch: { a: 1 } }), tx.queue.complete(item, { output: 1 }), failing(tx), tx.queue.enqueue({ queue: "new" })]),
        code,
        message,
      );
      match(error, { details: { index: 2 } });
    }
    match(await store.queue.complete(item), { status: "completed" });
    // The place in the batch, also where the call has places of its own.
    const error = await rejects(store.batch((tx) => [tx.queue.enqueue({ queue: "q" }), tx.queue.enqueueMany([{ queue: "q" }, { queue: "q" }, { queue: "q", maxAttempts: 0 }])]), "invalid_argument");
    match(error.details, { index: 1, operation: "queue.enqueueMany" });
  },

  "a claim in a batch does not keep the store waiting": async ({ store }) => {
    const from = Date.now();
    equal(await store.batch((tx) => [tx.queue.claim({ workerId: "w", queues: ["q"], waitMs: 30_000 })]), [[]]);
    ok(Date.now() - from < 10_000, "it waited");
  },

  "a batch that is refused harms none that is made at the same time": async ({ store }) => {
    await start(store, { id: "run" });
    const outcomes = await Promise.allSettled([
      store.batch((tx) => [tx.events.append("run", { type: "x-first" })]),
      store.batch((tx) => [tx.events.append("run", { type: "x-lost" }), tx.events.append("ghost", { type: "x-lost" })]),
      store.events.append("run", { type: "x-second" }),
      store.batch((tx) => [tx.events.append("run", { type: "x-third" })]),
    ]);
    equal(outcomes.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    equal((await story(store, "run")).map(([type]) => type), ["x-first", "x-second", "x-third"]);
  },

  "what reads, or is a series of transactions, is refused in a batch and named": async ({ store }) => {
    await start(store, { id: "run" });
    for (const build of [(tx) => [tx.executions.get("run")], (tx) => [tx.queue.list()], (tx) => [tx.sweep()], (tx) => [tx.deadLetters.redrive("x")]]) {
      const before = await contents(store);
      const error = await store.batch((tx) => [tx.queue.enqueue({ queue: "q" }), ...build(tx)]).catch((error) => error);
      ok(["invalid_argument", "unsupported"].includes(error.code), `the error is ${error.code}: ${error.message}`);
      equal(await contents(store), before);
    }
    for (const build of [() => ({}), () => undefined, () => "x"]) await rejects(store.batch(build), "invalid_argument", /array/);
    equal(await store.batch(() => []), []);
  },

  "a batch of a hundred calls is one step, and large documents are in it as they came": async ({ store }) => {
    const payload = { text: "🎉\u0000\u2028".repeat(50_000) };
    const results = await store.batch((tx) => [tx.queue.enqueue({ id: "large", queue: "q", payload }), ...range(100).map((n) => tx.queue.enqueue({ id: `i${n}`, queue: "q" }))]);
    equal(results.length, 101);
    equal((await store.queue.get("large")).payload, payload);
    equal((await all(store.queue.list())).length, 101);
    const bad = await store.batch((tx) => [tx.queue.enqueue({ queue: "q" }), tx.queue.enqueue({ queue: "q", payload: { n: 1n } })]).catch((error) => error);
    match(bad, { code: "invalid_argument", message: /payload\.n/ });
  },

  "a tenant's batch is the tenant's": async ({ store }) => {
    await store.tenants.create({ id: "acme" });
    const acme = store.forTenant("acme");
    match(await acme.batch((tx) => [tx.executions.create({ id: "run", workflowId: "w" }), tx.queue.enqueue({ queue: "q", executionId: "run", nodeId: "n" })]), [{ tenantId: "acme" }, { tenantId: "acme" }]);
    equal(await store.executions.get("run"), null);
    await start(store, { id: "plain" });
    await rejects(acme.batch((tx) => [tx.executions.setStatus("plain", { status: "running" })]), "not_found", /plain/);
    const error = await acme.batch((tx) => [tx.tenants.create({ id: "globex" })]).catch((error) => error);
    ok(["invalid_argument", "unsupported"].includes(error.code), `the error is ${error.code ?? error.message}`);
    equal(await store.tenants.get("globex"), null);
  },

  "an unknown tenant is not found, and a handle has nothing of the whole store": async ({ store }) => {
    const nobody = store.forTenant("nobody");
    for (const name of ["tenants", "sweep", "close", "persist", "forTenant"]) equal(nobody[name], undefined, name);
    equal(nobody.imports.jamjet, undefined, "imports.jamjet");
    await rejects(nobody.executions.create({ workflowId: "w" }), "not_found", /nobody/);
    await rejects(nobody.batch((tx) => [tx.executions.create({ workflowId: "w" })]), "not_found", /nobody/);
    await store.tenants.create({ id: "nobody" });
    match(await nobody.executions.create({ workflowId: "w" }), { tenantId: "nobody" });
    for (const id of ["", "x".repeat(257), "a\nb", 5]) {
      let error;
      try {
        store.forTenant(id);
      } catch (thrown) {
        error = thrown;
      }
      match(error, { code: "invalid_argument" }, `the error of forTenant(${JSON.stringify(id)?.slice(0, 20)})`);
    }
    for (const id of ["me@home", "a, b; \"c\" 'd' %_\\", "🎉".repeat(64), "__proto__"]) {
      await store.tenants.create({ id });
      match(await store.forTenant(id).executions.create({ id: "run", workflowId: "w" }), { tenantId: id });
    }
  },
};
