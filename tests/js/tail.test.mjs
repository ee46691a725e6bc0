// Tails: what is there, then what comes, each once and in order, until somebody has had enough.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeStore } from "./changes-kit.mjs";
import { failsWith, modules, settled } from "./client-modules.mjs";

const { buildTails, RunkeepError } = modules;

/** Follows the log of "run" until it is stopped by `enough` values; answers the values as they come. */
function follow(store, given = {}, options = undefined, enough = Infinity) {
  const seen = [];
  const outcome = (async () => {
    for await (const { sequence } of buildTails(store.send, store.follow).events.tail({ executionId: "run", ...given }, options)) {
      seen.push(sequence);
      if (seen.length >= enough) break;
    }
  })();
  outcome.catch(() => {});
  return { seen, outcome };
}

const range = (count) => Array.from({ length: count }, (_, index) => index + 1);

test("yields what is there, then what comes; `after` begins later", async () => {
  const store = fakeStore();
  for (let n = 0; n < 3; n++) store.append(n);
  const all = follow(store);
  const later = follow(store, { after: 2 });
  await settled();
  assert.deepEqual([all.seen, later.seen], [[1, 2, 3], [3]]);
  store.append(3);
  await settled();
  store.append(4);
  store.append(5);
  await settled();
  assert.deepEqual([all.seen, later.seen], [range(6), [3, 4, 5, 6]]);
});

test("an empty log is waited for, and nothing is asked before there is a change", async () => {
  const store = fakeStore();
  const { seen } = follow(store);
  await settled();
  store.source.change({ events: ["another"] });
  store.source.change({ items: null });
  await settled();
  assert.equal(store.reads.length, 1);
  store.append("a");
  await settled();
  assert.deepEqual(seen, [1]);
});

test("many pages are one tail", async () => {
  const store = fakeStore();
  store.pageSize = 3;
  for (let n = 0; n < 10; n++) store.append(n);
  const { seen } = follow(store);
  await settled();
  store.append("a");
  await settled();
  assert.deepEqual(seen, range(11));
});

test("over a failover there is no gap and none twice: what came while nobody told is there after the reconnection", async () => {
  const store = fakeStore();
  const { seen } = follow(store);
  await settled();
  store.append("a");
  await settled();
  store.append("lost", { told: false });
  store.append("lost", { told: false });
  await settled();
  assert.deepEqual(seen, [1]);
  store.source.tell("all");
  store.source.tell("all");
  await settled();
  assert.deepEqual(seen, [1, 2, 3]);
});

test("what comes while it reads is read next", async () => {
  const store = fakeStore();
  store.delay = true;
  const { seen } = follow(store);
  await settled();
  store.answer = ((answer) => (...given) => {
    const page = answer(...given);
    if (store.log.length < 3) store.append("meanwhile");
    return page;
  })(store.answer);
  for (let n = 0; n < 5; n++) await store.release();
  assert.deepEqual(seen, [1, 2, 3]);
  assert.equal(store.held.length, 0, "and then it is quiet");
});

test("a slow reader is not overrun: nothing is asked before it wants more, and it misses nothing", async () => {
  const store = fakeStore();
  store.pageSize = 5;
  const iterator = buildTails(store.send, store.follow).events.tail({ executionId: "run" })[Symbol.asyncIterator]();
  for (let n = 0; n < 50; n++) store.append(n);
  const seen = [(await iterator.next()).value.sequence];
  for (let n = 0; n < 50; n++) store.append(n);
  await settled();
  assert.equal(store.reads.length, 1);
  while (seen.length < 100) seen.push((await iterator.next()).value.sequence);
  assert.deepEqual(seen, range(100));
  await iterator.return();
});

test("a burst of changes is few reads", async () => {
  const store = fakeStore();
  const { seen } = follow(store);
  await settled();
  for (let n = 0; n < 1_000; n++) store.append(n);
  await settled();
  await settled();
  assert.equal(seen.length, 1_000);
  assert.ok(store.reads.length <= 6, `${store.reads.length} reads`);
});

test("break ends it and leaves nothing listening", async () => {
  const store = fakeStore();
  for (let n = 0; n < 3; n++) store.append(n);
  const { seen, outcome } = follow(store, {}, undefined, 2);
  await outcome;
  assert.deepEqual([seen, store.source.listening], [[1, 2], 0]);
  store.append("a");
  await settled();
  assert.equal(store.reads.length, 1);
});

test("return() ends it also while it waits or reads", async () => {
  for (const delay of [false, true]) {
    const store = fakeStore();
    store.delay = delay;
    const iterator = buildTails(store.send, store.follow).events.tail({ executionId: "run" })[Symbol.asyncIterator]();
    const pending = iterator.next();
    await settled();
    assert.equal((await iterator.return()).done, true);
    assert.deepEqual(await pending, { done: true, value: undefined });
    assert.deepEqual(await iterator.next(), { done: true, value: undefined });
    assert.equal(store.source.listening, 0);
  }
});

test("never begun, it asks and hears nothing", async () => {
  const store = fakeStore();
  const tail = buildTails(store.send, store.follow).events.tail({ executionId: "run" });
  await tail[Symbol.asyncIterator]().return();
  await settled();
  assert.deepEqual([store.reads.length, store.source.listening], [0, 0]);
});

test("abort throws the signal's reason: before, while it waits, while it reads, between two values", async () => {
  const reason = new Error("enough");
  const aborted = fakeStore();
  await assert.rejects(follow(aborted, {}, { signal: AbortSignal.abort(reason) }).outcome, reason);
  assert.deepEqual([aborted.reads.length, aborted.source.listening], [0, 0]);

  for (const delay of [false, true]) {
    const store = fakeStore();
    store.delay = delay;
    const aborter = new AbortController();
    const { outcome } = follow(store, { signal: aborter.signal });
    await settled();
    aborter.abort(reason);
    await assert.rejects(outcome, reason);
    assert.equal(store.source.listening, 0);
  }

  const store = fakeStore();
  store.append("a");
  store.append("b");
  const aborter = new AbortController();
  const seen = [];
  const loop = async () => {
    for await (const { sequence } of buildTails(store.send, store.follow).events.tail({ executionId: "run" }, { signal: aborter.signal })) {
      seen.push(sequence);
      aborter.abort(reason);
    }
  };
  await assert.rejects(loop(), reason);
  assert.deepEqual([seen, store.source.listening], [[1], 0]);
});

test("it ends with the error of a read, with rows that cannot be read, and with the store", async () => {
  const broken = fakeStore();
  broken.fault = new RunkeepError("storage_lost", "gone");
  await assert.rejects(follow(broken).outcome, failsWith("storage_lost"));

  const damaged = fakeStore();
  damaged.answer = () => ({ items: [], nextCursor: null, damaged: [{ table: "events", id: "7", reason: "bad JSON" }] });
  await assert.rejects(follow(damaged).outcome, failsWith("corrupt", /^events.tail met rows that cannot be read: events 7/));

  const closed = fakeStore();
  const { outcome } = follow(closed);
  await settled();
  closed.close();
  await assert.rejects(outcome, failsWith("closed"));
  assert.deepEqual([broken, damaged, closed].map(({ source }) => source.listening), [0, 0, 0]);
});

test("what it does not know is refused by name", async () => {
  const store = fakeStore();
  const { events, items } = buildTails(store.send, store.follow);
  for (const [tail, message] of [
    [events.tail({ executionId: "run", types: ["x-a"] }), /events.tail: unknown option "types"; there are executionId, after, signal/],
    [events.tail("run"), /events.tail: expected an object, got "run"/],
    [events.tail({ executionId: "run" }, { signal: 1 }), /events.tail: signal is an AbortSignal; got 1/],
    [items.tail(7), /items.tail: the first argument is id, a string; got 7/],
  ]) {
    await assert.rejects(tail[Symbol.asyncIterator]().next(), failsWith("invalid_argument", message));
  }
  assert.deepEqual([store.reads.length, store.source.listening], [0, 0]);
});

test("the text of an item comes in pieces that make the whole, from wherever one begins, and ends with the item", async () => {
  const store = fakeStore();
  const item = { text: "", status: "queued" };
  const versions = [];
  const write = (text, status = "in_progress") => {
    item.text += text;
    item.status = status;
    store.source.change({ thread_items: ["thread"] });
  };
  store.answer = (operation, { id, after, version }) => {
    assert.deepEqual([operation, id], ["items.readText", "i1"]);
    versions.push(version);
    return { text: item.text.slice(after), length: item.text.length, status: item.status, version: "1.0" };
  };
  const { items } = buildTails(store.send, store.follow);
  const read = async (given) => {
    const pieces = [];
    for await (const piece of items.tail("i1", given)) pieces.push(piece);
    return pieces;
  };
  const whole = read();
  const later = read({ after: 6 });
  for (const word of ["Hello ", "wo", "rld 🎉"]) {
    write(word);
    await settled();
  }
  write("", "completed");
  assert.deepEqual(await whole, ["Hello ", "wo", "rld 🎉"]);
  assert.deepEqual(await later, ["wo", "rld 🎉"]);
  versions.length = 0;
  assert.deepEqual(await read({ after: 3 }), ["lo world 🎉"], "of one that has ended: what is there");
  assert.deepEqual(await read({ after: 3, version: "1.0" }), ["lo world 🎉"]);
  assert.deepEqual(versions, [undefined, "1.0"], "the version is told where it is known");
  assert.equal(store.source.listening, 0);
});

test("the events of a thread are followed by its id", async () => {
  const store = fakeStore();
  store.answer = ((answer) => (operation, args) => {
    assert.deepEqual([operation, args.threadId], ["threadEvents.list", "t1"]);
    return answer(operation, args);
  })(store.answer);
  const seen = [];
  (async () => {
    for await (const { sequence } of buildTails(store.send, store.follow).threadEvents.tail({ threadId: "t1" })) seen.push(sequence);
  })();
  await settled();
  store.append("a", { told: false });
  store.source.change({ thread_events: ["t2"] });
  await settled();
  assert.deepEqual(seen, []);
  store.source.change({ thread_events: ["t1"] });
  await settled();
  assert.deepEqual(seen, [1]);
});
