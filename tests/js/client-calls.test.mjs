// How a method call becomes an operation with arguments; lists; errors.
import assert from "node:assert/strict";
import { test } from "node:test";
import { callsOf, failsWith, fakeTransport, modules, secondCopy, settled } from "./client-modules.mjs";

const { isRunkeepError, manualClock, openStore, openTestStore, RunkeepError } = modules;

async function openFake(respond) {
  const transport = fakeTransport(respond);
  return { transport, store: await openTestStore({ transport }) };
}

test("subject, arguments and options become one object", async () => {
  const { store, transport } = await openFake();
  await store.executions.create({ workflowId: "w" });
  await store.executions.get("e1");
  await store.executions.get("e1", { timeoutMs: 5_000 });
  await store.executions.setStatus("e1", { status: "paused" }, { expectedStatus: "running", signal: new AbortController().signal });
  await store.events.appendMany("e1", [{ type: "x-a", data: 1 }], { expectedSequence: 3 });
  await store.queue.complete({ id: "i1", fence: 7, queue: "q", payload: {} }, { output: 1 }, undefined);
  await store.deadLetters.redrive("i1", { payload: 1 });
  await store.deadLetters.redrive({ queue: "q" }, undefined, { timeoutMs: 5_000 });
  await store.sweep();
  await store.sweep({ limit: 5 });
  assert.deepEqual(callsOf(transport), [
    ["executions.create", { workflowId: "w" }],
    ["executions.get", { id: "e1" }],
    ["executions.get", { id: "e1" }],
    ["executions.setStatus", { id: "e1", status: "paused", expectedStatus: "running" }],
    ["events.appendMany", { executionId: "e1", events: [{ type: "x-a", data: 1 }], expectedSequence: 3 }],
    ["queue.complete", { id: "i1", fence: 7, output: 1 }],
    ["deadLetters.redrive", { id: "i1", payload: 1 }],
    ["deadLetters.redrive", { queue: "q" }],
    ["sweep", {}],
    ["sweep", { limit: 5 }],
  ]);
});

test("unknown members go to the store, which refuses them", async () => {
  const { store, transport } = await openFake();
  await store.executions.create({ workflowId: "w", wrokflow: 1, ...JSON.parse('{"__proto__":2}') });
  assert.equal(JSON.stringify(callsOf(transport)[0][1]), '{"workflowId":"w","wrokflow":1,"__proto__":2}');
});

test("a wrong shape is a rejection that says what was expected, and sends nothing", async () => {
  const { store, transport } = await openFake();
  const cases = [
    [() => store.executions.get(), "executions.get: the first argument is id, a string; got undefined."],
    [() => store.executions.get(7), "executions.get: the first argument is id, a string; got 7."],
    [() => store.executions.get({ id: "e1" }), "executions.get: the first argument is id, a string; got an object."],
    [() => store.deadLetters.redrive(7), "deadLetters.redrive: the first argument is id, a string, or an object; got 7."],
    [() => store.executions.create("w"), 'executions.create: argument 1 is an object; got "w".'],
    [() => store.executions.create(null), "executions.create: argument 1 is an object; got null."],
    [() => store.executions.create([]), "executions.create: argument 1 is an object; got an array."],
    [() => store.executions.create({}, "soon"), 'executions.create: argument 2 is an object; got "soon".'],
    [() => store.executions.create({}, {}, {}), "executions.create takes at most 2 arguments; got 3."],
    [() => store.executions.setStatus("e1", { id: "e2", status: "paused" }), "executions.setStatus: id is given twice."],
    [() => store.events.appendMany("e1", { type: "x" }), "events.appendMany: the second argument is an array (events); got an object."],
    [() => store.queue.enqueueMany(), "queue.enqueueMany: the first argument is an array (items); got undefined."],
    [() => store.queue.complete("i1"), 'queue.complete: the first argument is an object with id and fence; got "i1".'],
    [() => store.queue.complete({ id: "i1" }), "queue.complete: the first argument is an object with id and fence; fence is missing."],
    [() => store.executions.get("e1", { signal: true }), "executions.get: signal is an AbortSignal; got true."],
    [() => store.executions.get("e1", { timeoutMs: "1s" }), 'executions.get: timeoutMs is a number of milliseconds, from 0 to 1,000,000,000; got "1s".'],
    [() => store.executions.get("e1", { timeoutMs: NaN }), "executions.get: timeoutMs is a number of milliseconds, from 0 to 1,000,000,000; got NaN."],
    // A timer takes no more than 2^31 - 1, and runs at once.
    [() => store.executions.get("e1", { timeoutMs: 3e9 }), "executions.get: timeoutMs is a number of milliseconds, from 0 to 1,000,000,000; got 3000000000."],
    [() => store.queue.enqueue({ queue: "q", payload: { cost: NaN } }), "payload.cost is NaN, which JSON cannot hold."],
    [() => store.executions.list("running"), 'executions.list: argument 1 is an object; got "running".'],
  ];
  for (const [call, message] of cases) await assert.rejects(async () => await call(), failsWith("invalid_argument", message));
  for (const [call] of cases) assert.doesNotThrow(() => Promise.resolve(call()).catch(() => {}));
  await assert.rejects(store.executions.list(7)[Symbol.asyncIterator]().next(), failsWith("invalid_argument"));
  assert.deepEqual(transport.messages, []);
});

const pages = {
  undefined: { items: [1, 2], nextCursor: "b" },
  b: { items: [], nextCursor: "c" },
  c: { items: [3], nextCursor: null },
};

test("a list is one page when awaited, all rows when iterated, and nothing before", async () => {
  const { store, transport } = await openFake((_, { cursor }) => pages[cursor]);
  const list = store.executions.list({ status: "running" });
  await settled();
  assert.equal(transport.messages.length, 0);

  const first = await list;
  assert.deepEqual(first, { items: [1, 2], nextCursor: "b" });
  assert.equal(await list, first);
  assert.equal(await list.then((page) => page.items.length), 2);
  assert.equal(await list.catch(() => {}).finally(() => {}), first);
  assert.equal(transport.messages.length, 1);

  const rows = [];
  for await (const row of list) rows.push(row);
  assert.deepEqual(rows, [1, 2, 3]);
  assert.deepEqual(callsOf(transport).slice(1).map(([, args]) => args), [{ status: "running" }, { status: "running", cursor: "b" }, { status: "running", cursor: "c" }]);
});

test("an iteration that is left asks for no more pages", async () => {
  const { store, transport } = await openFake((_, { cursor }) => pages[cursor]);
  for await (const row of store.executions.list()) if (row === 2) break;
  assert.equal(transport.messages.length, 1);
});

test("an iteration yields the good rows of a damaged page, then throws corrupt and names the others", async () => {
  const damaged = [{ table: "executions", id: "e2", reason: "bad JSON" }];
  const { store } = await openFake(() => ({ items: [1], nextCursor: "b", damaged }));
  assert.deepEqual((await store.executions.list()).damaged, damaged);
  const rows = [];
  await assert.rejects(
    async () => {
      for await (const row of store.executions.list()) rows.push(row);
    },
    (error) => failsWith("corrupt", /executions e2 \(bad JSON\)/)(error) && assert.deepEqual(error.details, { damaged }) === undefined,
  );
  assert.deepEqual(rows, [1]);
});

test("an iteration rejects with the store's error", async () => {
  const { store } = await openFake(() => ({ error: { code: "corrupt", message: "no", retryable: false } }));
  await assert.rejects(store.executions.list()[Symbol.asyncIterator]().next(), failsWith("corrupt", "no"));
});

test("an error keeps its class, code, message, details and retryable", async () => {
  const details = { nested: { list: [1, { a: null }] } };
  const { store } = await openFake(() => ({ error: { code: "lease_lost", message: "gone", details, retryable: false } }));
  let error;
  try {
    await store.executions.get("e1");
  } catch (thrown) {
    error = thrown;
  }
  assert.ok(error instanceof RunkeepError && error instanceof Error);
  assert.deepEqual([error.name, error.code, error.message, error.retryable], ["RunkeepError", "lease_lost", "gone", false]);
  assert.deepEqual(error.details, details);
  assert.equal(Object.getPrototypeOf(error.details.nested), Object.prototype);
  assert.match(error.stack, /client-calls\.test\.mjs/);
});

test("isRunkeepError knows the errors of another copy of the package", async () => {
  const other = await secondCopy();
  const error = new other.RunkeepError("conflict", "no");
  assert.notEqual(other.RunkeepError, RunkeepError);
  assert.ok(isRunkeepError(error) && isRunkeepError(error, "conflict"));
  assert.ok(!isRunkeepError(error, "not_found"));
  for (const value of [null, undefined, "conflict", new Error("x"), { code: "conflict" }]) assert.ok(!isRunkeepError(value));
});

test("options of openStore are checked, and named", async () => {
  const cases = [
    [{ nmae: "x" }, /unknown option "nmae"; there are name, storage/],
    [{ name: "" }, /^name must be/],
    [{ name: "é".repeat(129) }, /^name must be a string of 1 to 256 bytes/],
    [{ name: "a\u0000" }, /^name must be/],
    [{ name: 7 }, /^name must be .* got 7\.$/],
    [{ storage: "disk" }, /^storage must be "auto", "opfs" or "memory"; got "disk"\.$/],
    [{ sweep: true }, /^openStore: sweep: expected an object, got true/],
    [{ sweep: { interval: 1 } }, /^openStore: sweep: unknown option "interval"/],
    [{ sweep: { intervalMs: -1 } }, /^sweep\.intervalMs must be/],
    [{ timeoutMs: "1" }, /^timeoutMs must be/],
    [{ bootTimeoutMs: Infinity }, /^bootTimeoutMs must be/],
    ...["timeoutMs", "bootTimeoutMs"].map((option) => [{ [option]: 3e9 }, /Ms must be a number of milliseconds, from 0 to 1,000,000,000; got 3000000000\.$/]),
    [{ sweep: { intervalMs: Number.MAX_SAFE_INTEGER } }, /^sweep\.intervalMs must be/],
    [{ wasmUrl: 5 }, /^wasmUrl must be a URL; got 5\.$/],
    [{ workerUrl: "not absolute" }, /^workerUrl must be a URL/],
    [null, /^openStore: expected an object, got null/],
  ];
  for (const [options, message] of cases) await assert.rejects(openStore(options), failsWith("invalid_argument", message));
  await assert.rejects(openTestStore({ clcok: 1 }), failsWith("invalid_argument", /unknown option "clcok"/));
  await assert.rejects(openTestStore({ clock: 5 }), failsWith("invalid_argument", /^clock must be/));
});

test("a manual clock goes with each call, as it was when the call was made", async () => {
  const clock = manualClock(1_000);
  const transport = fakeTransport((_operation, _args, nowMs) => nowMs);
  const store = await openTestStore({ clock, transport });
  const calls = [store.executions.get("a"), store.executions.get("b")];
  clock.advance(500);
  calls.push(store.executions.get("c"));
  clock.set(10);
  calls.push(store.executions.get("d"));
  assert.deepEqual(await Promise.all(calls), [1_000, 1_000, 1_500, 10]);
  assert.equal(manualClock().now(), Date.UTC(2026, 0, 1));
  assert.throws(() => clock.advance(0.5), failsWith("invalid_argument"));
  assert.throws(() => manualClock(NaN), failsWith("invalid_argument"));
});

test("info() of a transport of one's own tells the name, and what the transport tells", async () => {
  const transport = { ...fakeTransport(), info: { version: "9", schemaVersion: 1, sqliteVersion: "3", storage: "memory" } };
  const store = await openTestStore({ transport, name: "mine" });
  const { clientId, ...info } = await store.info();
  assert.deepEqual(info, { name: "mine", ...transport.info });
  assert.match(clientId, /^.{8,}$/);
  assert.equal(await store.persist(), false);
});
