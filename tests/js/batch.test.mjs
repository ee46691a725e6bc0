// Batches and tenants, as JavaScript uses them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isRunkeepError } from "../../dist/index.js";
import { manualClock, openTestStore } from "../../dist/testing.js";

const open = () => openTestStore({ clock: manualClock() });

test("a batch answers the results of its calls in order", async () => {
  const store = await open();
  const { id } = await store.executions.create({ workflowId: "w" });
  const [item, event, run] = await store.batch((tx) => [
    tx.queue.enqueue({ queue: "q", executionId: id, nodeId: "n" }),
    tx.events.append(id, { type: "x-note", data: { n: 1 } }),
    tx.executions.setStatus(id, { status: "running" }, { expectedStatus: "pending" }),
  ]);
  assert.equal(item.status, "pending");
  assert.equal(event.sequence, 1);
  assert.equal(run.status, "running");
  assert.equal((await store.executions.get(id)).lastSequence, 2);
  await store.close();
});

test("one failure undoes a whole batch and names its index", async () => {
  const store = await open();
  await store.executions.create({ workflowId: "w", id: "run" });
  const failing = store.batch((tx) => [
    tx.events.append("run", { type: "x-note", data: 1 }),
    tx.queue.enqueue({ queue: "q" }),
    tx.executions.setStatus("run", { status: "completed" }),
  ]);
  await assert.rejects(failing, (error) => {
    assert.ok(isRunkeepError(error, "invalid_transition"), String(error));
    assert.equal(error.details.index, 2);
    assert.equal(error.details.operation, "executions.setStatus");
    return true;
  });
  assert.equal((await store.executions.get("run")).lastSequence, 0);
  assert.equal((await store.queues.stats()).counts.pending, 0);
  await store.close();
});

test("a batch sees what its earlier calls did", async () => {
  const store = await open();
  const [, item] = await store.batch((tx) => [
    tx.executions.create({ workflowId: "w", id: "run" }),
    tx.queue.enqueue({ queue: "q", executionId: "run", nodeId: "n" }),
    tx.queue.claim({ workerId: "w", queues: ["q"] }),
  ]);
  assert.equal((await store.queue.get(item.id)).status, "claimed");
  await store.close();
});

test("what changes nothing, and what is a series of transactions, is no part of a batch", async () => {
  const store = await open();
  for (const build of [
    (tx) => [tx.queue.get("id")],
    (tx) => [tx.executions.list()],
    (tx) => [tx.sweep()],
    (tx) => [tx.deadLetters.redrive("id")],
    () => [{ operation: "batch", arguments: { calls: [] } }],
    () => [{ operation: "no.such", arguments: {} }],
    () => ({ not: "an array" }),
  ]) {
    await assert.rejects(store.batch(build), (error) => isRunkeepError(error, "invalid_argument") || isRunkeepError(error, "unsupported"));
  }
  assert.deepEqual(await store.batch(() => []), []);
  await store.close();
});

test("a tenant's handle sees the tenant's rows only", async () => {
  const store = await open();
  await store.tenants.create({ id: "acme" });
  await store.tenants.create({ id: "globex" });
  const [acme, globex] = [store.forTenant("acme"), store.forTenant("globex")];
  await acme.executions.create({ id: "run", workflowId: "a" });
  await globex.executions.create({ id: "run", workflowId: "g" });
  assert.equal((await acme.executions.get("run")).workflowId, "a");
  assert.equal((await globex.executions.get("run")).workflowId, "g");
  assert.equal((await globex.executions.get("run")).tenantId, "globex");
  assert.equal(await store.executions.get("run"), null);
  const rows = [];
  for await (const execution of acme.executions.list()) rows.push(execution.workflowId);
  assert.deepEqual(rows, ["a"]);
  const [item] = await acme.batch((tx) => [tx.queue.enqueue({ queue: "q" })]);
  assert.deepEqual(await globex.queue.claim({ workerId: "w", queues: ["q"] }), []);
  assert.equal((await acme.queue.claim({ workerId: "w", queues: ["q"], waitMs: 1_000 }))[0].id, item.id);
  await store.close();
});

test("a tenant's handle has nothing that concerns the whole store, and an unknown tenant is not found", async () => {
  const store = await open();
  const nobody = store.forTenant("nobody");
  for (const name of ["tenants", "sweep", "close", "info", "forTenant"]) assert.equal(nobody[name], undefined, name);
  assert.equal(nobody.imports.jamjet, undefined);
  await assert.rejects(nobody.executions.list(), (error) => isRunkeepError(error, "not_found") && /nobody/.test(error.message));
  assert.throws(() => store.forTenant(""), (error) => isRunkeepError(error, "invalid_argument"));
  await store.close();
});

test("a tenant's name may hold an @", async () => {
  const store = await open();
  await store.tenants.create({ id: "me@home" });
  await store.forTenant("me@home").executions.create({ id: "run", workflowId: "w" });
  assert.equal((await store.forTenant("me@home").executions.get("run")).tenantId, "me@home");
  await store.close();
});
