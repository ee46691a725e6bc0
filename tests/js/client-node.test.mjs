// The built package in Node: memory storage, in the caller's own thread.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { root } from "../../scripts/run.mjs";

const address = (file) => pathToFileURL(join(root, "dist", file)).href;
const { isRunkeepError, openStore, RunkeepError } = await import(address("index.js"));
const testing = await import(address("testing.js"));

const failsWith = (code, message) => (error) => {
  assert.ok(error instanceof RunkeepError && isRunkeepError(error, code), error?.stack);
  if (message) assert.match(error.message, message);
  return true;
};

/** Runs a program in a Node of its own, which has to end by itself. */
async function runNode(program) {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], { timeout: 20_000 });
  return { stdout: stdout.trim(), stderr: stderr.trim() };
}

test("a store in memory does a run from creation to its log", async () => {
  const store = await openStore({ name: "run", sweep: false });
  const execution = await store.executions.create({ workflowId: "w", input: { at: new Date(0), gone: undefined, big: [1, { a: null }] } });
  assert.equal(execution.created, true);
  assert.deepEqual((await store.executions.get(execution.id)).input, { at: "1970-01-01T00:00:00.000Z", big: [1, { a: null }] });
  await store.queue.enqueue({ queue: "q", executionId: execution.id, nodeId: "n", payload: { step: 1 } });
  const [item] = await store.queue.claim({ workerId: "me", queues: ["q"] });
  assert.deepEqual(item.payload, { step: 1 });
  // A claimed item may be passed whole.
  await store.queue.complete(item, { output: 1, events: [{ type: "x-done", data: "é\u0000🎉" }] });
  const types = [];
  for await (const event of store.events.list({ executionId: execution.id, limit: 1 })) types.push(event.type);
  assert.ok(types.includes("x-done"));
  await store.close();
});

test("an interval that is no whole number of milliseconds sweeps like any other", async () => {
  const store = await openStore({ name: "third", sweep: { intervalMs: 100 / 3 } });
  await store.queue.enqueue({ queue: "q" });
  const [item] = await store.queue.claim({ workerId: "w", queues: ["q"], leaseMs: 1 });
  const end = performance.now() + 5_000;
  while ((await store.queue.get(item.id)).status === "claimed") {
    assert.ok(performance.now() < end, "no sweep has ended the lease");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await store.close();
});

test("info() says that it is memory, and why", async () => {
  const store = await openStore({ name: "info" });
  const info = await store.info();
  assert.deepEqual([info.name, info.storage, info.storageReason], ["info", "memory", "there is no OPFS outside browsers"]);
  assert.equal(typeof info.schemaVersion, "number");
  assert.match(info.sqliteVersion, /^3\./);
  assert.equal(await store.persist(), false);
  await store.close();
});

test("opfs is refused with what to do", async () => {
  await assert.rejects(openStore({ name: "opfs", storage: "opfs" }), failsWith("storage_unavailable", /use storage "memory"/));
});

test("the store refuses what it does not know, by name, and an error of its own has the class of the package", async () => {
  const store = await testing.openTestStore();
  await assert.rejects(store.executions.create({ workflowId: "w", wrokflowVersion: "1" }), failsWith("invalid_argument", /wrokflowVersion/));
  await assert.rejects(store.executions.setStatus("nobody", { status: "running" }), failsWith("not_found", /nobody/));
  await assert.rejects(store.executions.create({ workflowId: "" }), failsWith("invalid_argument", /workflowId/));
  let deep = 1;
  for (let level = 0; level < 129; level++) deep = [deep];
  await assert.rejects(store.executions.create({ workflowId: "w", input: deep }), failsWith("too_large"));
  await store.close();
});

test("a failure takes an Error as it was caught", async () => {
  const store = await testing.openTestStore();
  await store.queue.enqueue({ queue: "q", maxAttempts: 1 });
  const [item] = await store.queue.claim({ workerId: "me", queues: ["q"] });
  await store.queue.fail(item, { error: new TypeError("no route") });
  assert.equal((await store.queue.get(item.id)).lastError.message, "no route");
  await store.close();
});

test("stores of different names are different; handles of one name are the same, until the last is closed", async () => {
  const [a, again, b] = await Promise.all(["a", "a", "b"].map((name) => openStore({ name, sweep: false })));
  await a.executions.create({ id: "e", workflowId: "w" });
  assert.equal((await again.executions.get("e")).id, "e");
  assert.equal(await b.executions.get("e"), null);
  await Promise.all([a.close(), again.close(), b.close()]);
  const anew = await openStore({ name: "a", sweep: false });
  assert.equal(await anew.executions.get("e"), null);
  await anew.close();
});

test("a manual clock is the store's time", async () => {
  const clock = testing.manualClock(1_000);
  const store = await testing.openTestStore({ clock });
  assert.equal((await store.executions.create({ workflowId: "w" })).createdAt, 1_000);
  clock.advance(234);
  assert.equal((await store.executions.create({ workflowId: "w" })).createdAt, 1_234);
  await store.queue.enqueue({ queue: "q", delayMs: 10 });
  assert.deepEqual(await store.queue.claim({ workerId: "me", queues: ["q"] }), []);
  clock.advance(10);
  assert.equal((await store.queue.claim({ workerId: "me", queues: ["q"] })).length, 1);
  await store.close();
});

test("a failing call in a group harms no other", async () => {
  const store = await testing.openTestStore();
  const outcomes = await Promise.allSettled([
    store.executions.create({ id: "a", workflowId: "w" }),
    store.executions.setStatus("nobody", { status: "running" }),
    store.executions.create({ id: "b", workflowId: "w" }),
  ]);
  assert.deepEqual(outcomes.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
  assert.equal((await store.executions.list()).items.length, 2);
  await store.close();
});

test("calls in flight when the store is closed are answered", async () => {
  const store = await testing.openTestStore();
  const calls = Array.from({ length: 2_500 }, (_, n) => store.executions.create({ id: `e${n}`, workflowId: "w" }));
  await store.close();
  assert.equal((await Promise.all(calls)).length, 2_500);
  await assert.rejects(store.executions.get("e1"), failsWith("closed"));
});

test("importing the package does nothing, and an open store does not keep a process alive", async () => {
  const imported = await runNode(`
    globalThis.fetch = WebAssembly.compile = WebAssembly.instantiate = () => { throw new Error("used"); };
    await import(${JSON.stringify(address("index.js"))});
    await import(${JSON.stringify(address("testing.js"))});`);
  assert.deepEqual(imported, { stdout: "", stderr: "" });
  const opened = await runNode(`
    const { openStore } = await import(${JSON.stringify(address("index.js"))});
    const store = await openStore();
    await store.executions.create({ workflowId: "w" });
    console.log((await store.info()).storage);`);
  assert.deepEqual(opened, { stdout: "memory", stderr: "" });
});

test("fake timers of the tests around it do not stop the store", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval", "setImmediate", "Date"] });
  const store = await testing.openTestStore();
  assert.equal((await store.executions.create({ workflowId: "w" })).status, "pending");
  await store.close();
});
