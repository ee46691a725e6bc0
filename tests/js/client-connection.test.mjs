// What becomes of calls: together in messages, late, aborted, without a host, closed.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { callsOf, failsWith, fakeTransport, modules, settled } from "./client-modules.mjs";

const { Connection, groupLimit, openTestStore, RunkeepError, waitingLimit } = modules;

const closed = new RunkeepError("closed", "closed");
const defaults = { writes: true, timeoutMs: 30_000 };
const call = (connection, operation, options) => connection.call(operation, "{}", { ...defaults, ...options });

async function connect(transport) {
  const connection = new Connection(async () => transport);
  await connection.open();
  return connection;
}

/** A transport with the memory or OPFS of a worker that can be ended; `answer()` answers what it holds. */
function mortalTransport(storage) {
  const held = [];
  const transport = fakeTransport(() => new Promise((resolve, reject) => held.push({ resolve, reject })));
  return Object.assign(transport, {
    info: { storage },
    answer: () => held.splice(0).forEach(({ resolve }) => resolve("answered")),
    end(reason) {
      transport.ended = reason;
      held.splice(0).forEach(({ reject }) => reject(new Error(reason)));
    },
  });
}

/** Connects to one after the other; an Error fails that attempt. */
function connectTo(...transports) {
  const attempts = [];
  return [
    new Connection(async () => {
      const next = transports[attempts.length] ?? transports.at(-1);
      attempts.push(next);
      if (next instanceof Error) throw next;
      return next;
    }),
    attempts,
  ];
}

/** Timers and the clock of deadlines by hand. */
function manualTime(context) {
  let now = 0;
  context.mock.timers.enable({ apis: ["setTimeout"] });
  context.mock.method(performance, "now", () => now);
  return async (ms) => {
    now += ms;
    context.mock.timers.tick(ms);
    await settled();
  };
}

test("calls of one turn go as one message, in order", async () => {
  const transport = fakeTransport((operation) => operation);
  const connection = await connect(transport);
  const first = ["a", "b", "c"].map((operation) => call(connection, operation));
  assert.equal(transport.messages.length, 0);
  assert.deepEqual(await Promise.all(first), ["a", "b", "c"]);
  await call(connection, "d");
  assert.deepEqual(transport.messages.map(({ calls }) => calls.map(([operation]) => operation)), [["a", "b", "c"], ["d"]]);
});

test("a message is bounded in calls and in text", async () => {
  const transport = fakeTransport();
  const connection = await connect(transport);
  await Promise.all(Array.from({ length: groupLimit.calls + 1 }, () => call(connection, "a")));
  assert.deepEqual(transport.messages.map(({ calls }) => calls.length), [groupLimit.calls, 1]);
  transport.messages.length = 0;
  const long = JSON.stringify("x".repeat(groupLimit.size / 2));
  await Promise.all([long, "1", long, "2", "3"].map((args) => connection.call("a", args, defaults)));
  assert.deepEqual(transport.messages.map(({ calls }) => calls.length), [2, 3]);
});

test("beyond the limit of waiting calls the next is busy, and there is room again once they are answered", async () => {
  const transport = mortalTransport("memory");
  const connection = await connect(transport);
  const waiting = Array.from({ length: waitingLimit.calls }, () => call(connection, "a"));
  await assert.rejects(call(connection, "a"), (error) => failsWith("busy")(error) && error.retryable);
  await settled();
  transport.answer();
  await Promise.all(waiting);
  const next = call(connection, "a");
  await settled();
  transport.answer();
  assert.equal(await next, "answered");
});

test("a call that is not answered rejects at its own deadline, by one timer", async (context) => {
  const pass = manualTime(context);
  const transport = mortalTransport("memory");
  const connection = await connect(transport);
  const timers = context.mock.method(globalThis, "setTimeout");
  const outcomes = {};
  for (const [name, timeoutMs] of [["late", 3_000], ["early", 1_000], ["middle", 2_000], ["same", 2_000]]) {
    call(connection, name, { timeoutMs }).catch((error) => (outcomes[name] = error));
  }
  assert.equal(timers.mock.callCount(), 2);
  await pass(999);
  assert.deepEqual(outcomes, {});
  await pass(1);
  assert.deepEqual(Object.keys(outcomes), ["early"]);
  assert.ok(failsWith("timeout", "early was not answered within 1000 ms; its outcome is unknown.")(outcomes.early) && outcomes.early.retryable);
  await pass(1_000);
  assert.deepEqual(Object.keys(outcomes), ["early", "middle", "same"]);
  transport.answer();
  await settled();
  await pass(10_000);
  assert.deepEqual(Object.keys(outcomes), ["early", "middle", "same"]);
});

test("the deadlines go along in the message", async (context) => {
  manualTime(context);
  const transport = fakeTransport();
  const connection = await connect(transport);
  await Promise.all([call(connection, "a", { timeoutMs: 1_000 }), call(connection, "b", { timeoutMs: 5 })]);
  assert.deepEqual(transport.messages[0].deadlines.map((deadline) => deadline - performance.timeOrigin), [1_000, 5]);
});

test("once all is answered no timer is left", async () => {
  const connection = await connect(fakeTransport());
  const set = mock.method(globalThis, "setTimeout");
  const cleared = mock.method(globalThis, "clearTimeout");
  await call(connection, "a");
  const timer = set.mock.calls[0].result;
  assert.ok(cleared.mock.calls.some(({ arguments: [value] }) => value === timer));
  mock.restoreAll();
});

test("the default deadline is the store's; 0 means the default", async (context) => {
  const pass = manualTime(context);
  const store = await openTestStore({ transport: mortalTransport("memory") });
  const outcomes = [];
  for (const options of [undefined, { timeoutMs: 0 }]) store.executions.get("e", options).catch(({ message }) => outcomes.push(message));
  await pass(29_999);
  assert.equal(outcomes.length, 0);
  await pass(1);
  assert.equal(outcomes.length, 2);
  assert.match(outcomes[1], /within 30000 ms/);
});

test("an abort rejects with the signal's reason; the answer that comes later is ignored", async () => {
  const transport = mortalTransport("memory");
  const connection = await connect(transport);
  const aborter = new AbortController();
  const pending = call(connection, "a", { signal: aborter.signal });
  await settled();
  const reason = new Error("enough");
  aborter.abort(reason);
  await assert.rejects(pending, (error) => error === reason);
  transport.answer();
  await settled();
});

test("nothing is sent for a signal that is aborted before the message leaves", async () => {
  const transport = fakeTransport();
  const connection = await connect(transport);
  await assert.rejects(call(connection, "a", { signal: AbortSignal.abort() }), { name: "AbortError" });
  const aborter = new AbortController();
  const pending = call(connection, "b", { signal: aborter.signal });
  aborter.abort("changed my mind");
  await assert.rejects(pending, (error) => error === "changed my mind");
  await call(connection, "c");
  assert.deepEqual(callsOf(transport).map(([operation]) => operation), ["c"]);
});

test("no listener stays at a signal that outlives its calls", async () => {
  const connection = await connect(fakeTransport());
  const { signal } = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...given) => (listeners++, addEventListener.apply(signal, given));
  signal.removeEventListener = (...given) => (listeners--, removeEventListener.apply(signal, given));
  await Promise.all([call(connection, "a", { signal }), call(connection, "b", { signal })]);
  assert.equal(listeners, 0);
});

test("when the worker ends, reads are sent again to the next one and writes are of unknown outcome", async () => {
  const [first, second] = [mortalTransport("opfs"), fakeTransport((operation) => `${operation} again`)];
  const [connection] = connectTo(first, second);
  await connection.open();
  const read = call(connection, "read", { writes: false });
  const write = call(connection, "write");
  await settled();
  first.end("it was terminated");
  const unknown = "write: outcome unknown: the store's host ended while the call ran (it was terminated).";
  await assert.rejects(write, (error) => failsWith("timeout", unknown)(error) && error.retryable);
  assert.equal(await read, "read again");
  assert.equal(await call(connection, "write"), "write again");
});

test("over a host that repeats, what is unanswered is sent again in the order of its numbers, marked, and settles with the next one's answer", async () => {
  const first = Object.assign(mortalTransport("opfs"), { repeats: true });
  const second = Object.assign(fakeTransport((operation) => `${operation} again`), { repeats: true, info: { storage: "opfs" } });
  const sent = [];
  for (const transport of [first, second]) {
    const { send } = transport;
    transport.send = (message, wait) => {
      sent.push({ ...message.requests, waits: wait?.ms !== undefined });
      return send.call(transport, message, wait);
    };
  }
  const [connection] = connectTo(first, second);
  await connection.open();
  const answered = call(connection, "zero");
  await settled();
  first.answer();
  assert.equal(await answered, "answered");
  const calls = [call(connection, "write"), call(connection, "read", { writes: false })];
  await settled();
  calls.push(call(connection, "claim", { waitMs: 60_000 }));
  await settled();
  first.end("it was terminated");
  calls.push(call(connection, "later"));
  assert.deepEqual(await Promise.all(calls), ["write again", "read again", "claim again", "later again"]);
  const again = sent.slice(3).flatMap(({ numbers, again = [] }) => numbers.map((number, index) => [number, again[index] === true]));
  assert.deepEqual(again, [[2, true], [3, true], [4, true], [5, false]]);
  assert.deepEqual(sent.map(({ acked }) => acked), [0, ...sent.slice(1).map(() => 1)]);
  await call(connection, "last");
  assert.equal(sent.at(-1).acked, 5);
});

test("calls made after the worker's end wait for the next one", async () => {
  const [first, second] = [mortalTransport("opfs"), fakeTransport((operation) => operation)];
  const [connection, attempts] = connectTo(first, second);
  await connection.open();
  first.ended = "it was terminated";
  assert.deepEqual(await Promise.all([call(connection, "a"), call(connection, "b")]), ["a", "b"]);
  assert.equal(attempts.length, 2);
  assert.equal(first.messages.length, 0);
});

test("three failed starts in a row reject what waits; a later call tries again", async () => {
  const refused = new RunkeepError("storage_unavailable", "refused");
  const [first, last] = [mortalTransport("opfs"), fakeTransport((operation) => operation)];
  const [connection, attempts] = connectTo(first, refused, refused, refused, last);
  await connection.open();
  first.ended = "it was terminated";
  const outcomes = await Promise.allSettled([call(connection, "a"), call(connection, "b", { writes: false })]);
  assert.deepEqual(outcomes.map(({ reason }) => reason), [refused, refused]);
  assert.equal(attempts.length, 4);
  assert.equal(await call(connection, "c"), "c");
});

test("the first start fails at once", async () => {
  const [connection, attempts] = connectTo(new RunkeepError("schema_too_new", "newer"));
  await assert.rejects(connection.open(), failsWith("schema_too_new"));
  assert.equal(attempts.length, 1);
});

test("memory that ended with its host is lost, and stays lost", async () => {
  const transport = mortalTransport("memory");
  const [connection, attempts] = connectTo(transport);
  await connection.open();
  const pending = [call(connection, "read", { writes: false }), call(connection, "write")];
  await settled();
  transport.end("it was terminated");
  for (const lost of [...pending, call(connection, "later")]) await assert.rejects(lost, failsWith("storage_lost", /in memory only.*it was terminated/));
  await assert.rejects(call(connection, "much later"), failsWith("storage_lost"));
  assert.equal(attempts.length, 1);
  await connection.close(closed);
});

test("a transport that rejects and goes on rejects its calls with that error", async () => {
  let problem = new RunkeepError("busy", "later");
  const connection = await connect({ send: async () => Promise.reject(problem), close: async () => {} });
  await assert.rejects(call(connection, "a"), (error) => error === problem);
  problem = new Error("pipe broke");
  await assert.rejects(call(connection, "a"), failsWith("internal", /pipe broke/));
});

test("close sends what was called before it, and rejects what stays unanswered", async () => {
  const transport = mortalTransport("opfs");
  const connection = await connect(transport);
  const [answered, unanswered] = [call(connection, "a"), call(connection, "b")];
  transport.close = async () => {
    await settled();
    assert.equal(callsOf(transport).length, 2);
  };
  const closing = connection.close(closed);
  await assert.rejects(call(connection, "c"), failsWith("closed"));
  await closing;
  await assert.rejects(answered, failsWith("closed"));
  await assert.rejects(unanswered, failsWith("closed"));
});

test("close while the host starts ends the start", async () => {
  const connection = new Connection(
    (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new RunkeepError("storage_unavailable", "stopped")))),
  );
  const opening = connection.open();
  const pending = call(connection, "a");
  const closing = connection.close(closed);
  await assert.rejects(opening);
  await assert.rejects(pending, failsWith("closed"));
  await closing;
});

test("a host that is ready after all is closed", async () => {
  const transport = fakeTransport();
  let ready;
  const connection = new Connection(() => new Promise((resolve) => (ready = () => resolve(transport))));
  const opening = connection.open();
  const closing = connection.close(closed);
  ready();
  await Promise.all([opening, closing]);
  assert.equal(transport.closed, 1);
});

test("a suspended store opens again with the next call, or when the page is back and something waits", async () => {
  for (const back of [(connection) => call(connection, "b"), (connection) => connection.resume()]) {
    const [first, second] = [Object.assign(mortalTransport("opfs"), { repeats: true }), fakeTransport((operation) => operation)];
    first.suspend = () => first.end("put aside");
    const [connection, attempts] = connectTo(first, second);
    await connection.open();
    const unanswered = call(connection, "a");
    await settled();
    connection.suspend();
    await settled();
    assert.equal(attempts.length, 1, "nothing is begun in a page that is put aside");
    void back(connection);
    assert.equal(await unanswered, "a");
  }
});

test("handles of one name share one connection; the last close ends it; calls on a closed handle are refused", async () => {
  const transport = fakeTransport();
  const options = { transport, name: "shared" };
  const [first, second] = await Promise.all([openTestStore(options), openTestStore(options)]);
  await first.close();
  await first.close();
  assert.equal(transport.closed, 0);
  for (const refused of [first.executions.get("e"), first.executions.list(), first.info(), first.persist(), first.sweep()]) {
    await assert.rejects(async () => await refused, failsWith("closed", 'The store "shared" is closed.'));
  }
  await second.executions.get("e");
  await Promise.all([second.close(), second.close()]);
  assert.equal(transport.closed, 1);
});

test("opening while the last handle closes waits, and works", async () => {
  const transports = [fakeTransport(() => 1), fakeTransport(() => 2)];
  const first = await openTestStore({ transport: transports[0], name: "again" });
  const closing = first.close();
  const second = await openTestStore({ transport: transports[1], name: "again" });
  await closing;
  assert.equal(transports[0].closed, 1);
  assert.equal(await second.executions.get("e"), 2);
  await second.close();
});

test("the same name with other options is a conflict", async () => {
  const transport = fakeTransport();
  const store = await openTestStore({ transport, name: "once" });
  const other = openTestStore({ transport, name: "once", storage: "opfs" });
  await assert.rejects(other, failsWith("conflict", /"once" is open in this page with another storage \("memory", not "opfs"\)/));
  await assert.rejects(openTestStore({ transport: fakeTransport(), name: "once" }), failsWith("conflict", /another transport/));
  await store.close();
});

test("await using closes the store", async () => {
  const transport = fakeTransport();
  const store = await openTestStore({ transport });
  await store[Symbol.asyncDispose]();
  assert.equal(transport.closed, 1);
});
