// Queries that stay true: what somebody who renders them sees.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeStore } from "./changes-kit.mjs";
import { failsWith, modules, settled } from "./client-modules.mjs";

const { Live, RunkeepError } = modules;

function live(store, query = (s) => s.events.list({ executionId: "run" })) {
  return new Live(query, store.send, store.follow);
}

/** Subscribes, and keeps each snapshot that the listener was told of. */
function watch(query) {
  const seen = [];
  const stop = query.subscribe(() => seen.push(query.getSnapshot()));
  return { seen, stop };
}

const sequences = ({ data }) => data.items.map(({ sequence }) => sequence);

test("loading, then the result, then each later one; a snapshot is the same object until something is new", async () => {
  const store = fakeStore();
  const query = live(store);
  store.append("a");
  assert.equal(query.getSnapshot().status, "loading");
  assert.equal(store.reads.length, 0, "nothing runs before somebody subscribes");
  const { seen } = watch(query);
  await settled();
  store.append("b");
  await settled();
  assert.deepEqual(seen.map(({ status }) => status), ["ready", "ready"]);
  assert.deepEqual(seen.map(sequences), [[1], [1, 2]]);
  assert.equal(query.getSnapshot(), query.getSnapshot());
  assert.equal(query.getSnapshot(), seen[1]);
});

test("runs again for what it read, and for nothing else", async () => {
  const store = fakeStore();
  watch(live(store));
  await settled();
  store.source.change({ items: null, executions: ["run"] });
  store.source.change({ events: ["another"] });
  store.source.change({ events: ["run"] }, "acme");
  await settled();
  assert.equal(store.reads.length, 1);
  store.source.change({ events: ["another", "run"] });
  await settled();
  store.source.change({ events: null });
  await settled();
  store.source.tell("all");
  await settled();
  assert.equal(store.reads.length, 4);
});

test("an id counts where the argument names what the changes name, and only there", async () => {
  for (const [query, change, runs] of [
    [(s) => s.executions.get("run"), { executions: ["other"] }, 1],
    [(s) => s.executions.get("run"), { executions: ["run"] }, 2],
    [(s) => s.executions.list({ parentId: "run" }), { executions: ["other"] }, 2],
    [(s) => s.queue.list({ queue: "q" }), { items: ["other"] }, 1],
    [(s) => s.queue.list({ queue: "q" }), { items: ["q"] }, 2],
    [(s) => s.queue.list({ executionId: "run" }), { items: ["q"] }, 2],
    [(s) => s.queue.get("item"), { items: ["q"] }, 2],
  ]) {
    const store = fakeStore();
    watch(live(store, query));
    await settled();
    store.source.change(change);
    await settled();
    assert.equal(store.reads.length, runs, `${query} ${JSON.stringify(change)}`);
  }
});

test("a query of several reads, some of which depend on others, hears of all of them", async () => {
  const store = fakeStore();
  const query = live(store, async (s) => {
    const { items } = await s.events.list({ executionId: "run" });
    return items.length > 0 ? s.queue.list({ queue: "q" }) : null;
  });
  watch(query);
  await settled();
  store.source.change({ items: ["q"] });
  await settled();
  assert.equal(store.reads.length, 1, "it has not read items yet");
  store.append("a");
  await settled();
  store.source.change({ items: ["q"] });
  await settled();
  assert.deepEqual(store.reads.map(([operation]) => operation), ["events.list", "events.list", "queue.list", "events.list", "queue.list"]);
});

test("a slow query runs once at a time; the changes meanwhile are one run more, and older never replaces newer", async () => {
  const store = fakeStore();
  const { seen } = watch(live(store));
  store.delay = true;
  await settled();
  for (let n = 0; n < 100; n++) store.append(n);
  await settled();
  assert.equal(store.reads.length, 1);
  await store.release();
  assert.equal(store.reads.length, 2);
  await store.release();
  await settled();
  assert.equal(store.reads.length, 2);
  assert.deepEqual(seen.map(({ data }) => data.items.length), [100, 100]);
  assert.equal(store.held.length, 0);
});

test("a change between the answer and its arrival is not missed", async () => {
  const store = fakeStore();
  const query = live(store);
  store.send = ((send) => async (...given) => {
    const answer = await send(...given);
    if (store.log.length === 0) store.append("in between");
    return answer;
  })(store.send);
  const { seen } = watch(live(store));
  await settled();
  assert.deepEqual(seen.map(sequences), [[], [1]]);
  assert.equal(query.getSnapshot().status, "loading", "another query of nobody's");
});

test("StrictMode: subscribed, unsubscribed, subscribed again, it runs once; while it runs, once more at most", async () => {
  const store = fakeStore();
  const query = live(store);
  query.subscribe(() => {})();
  const again = watch(query);
  await settled();
  assert.equal(store.reads.length, 1);
  store.delay = true;
  store.append("a");
  await settled();
  again.stop();
  const last = watch(query);
  await settled();
  assert.equal(store.reads.length, 2, "the slow one is not run twice at once");
  await store.release();
  await store.release();
  assert.equal(store.reads.length, 3);
  assert.deepEqual(sequences(last.seen.at(-1)), [1]);
});

test("nobody subscribes any more: nothing runs, nothing listens; whoever comes back gets what is true then", async () => {
  const store = fakeStore();
  const query = live(store);
  const first = watch(query);
  const second = watch(query);
  await settled();
  assert.equal(store.reads.length, 1, "shared by both");
  first.stop();
  assert.equal(store.source.listening, 1);
  second.stop();
  assert.equal(store.source.listening, 0);
  store.append("a");
  await settled();
  assert.equal(store.reads.length, 1);
  const third = watch(query);
  assert.equal(query.getSnapshot().status, "ready", "the old one until then");
  await settled();
  assert.deepEqual(third.seen.map(sequences), [[1]]);
});

test("a fault is a snapshot that keeps the last result; the next change tries again", async () => {
  const store = fakeStore();
  const query = live(store);
  const { seen } = watch(query);
  await settled();
  store.fault = new RunkeepError("corrupt", "no");
  store.append("a");
  await settled();
  store.fault = undefined;
  store.append("b");
  await settled();
  assert.deepEqual(seen.map(({ status, data, error }) => [status, data.items.length, error?.code]), [
    ["ready", 0, undefined],
    ["error", 0, "corrupt"],
    ["ready", 2, undefined],
  ]);
});

test("a query that fails before it reads is an error and not a rejection", async () => {
  const store = fakeStore();
  const { seen } = watch(
    live(store, () => {
      throw new TypeError("mine");
    }),
  );
  await settled();
  assert.deepEqual(seen.map(({ status, error }) => [status, error.message]), [["error", "mine"]]);
});

test("what may pass by itself is tried again, later each time, while somebody subscribes", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const pass = async (ms) => {
    context.mock.timers.tick(ms);
    await settled();
  };
  const store = fakeStore();
  store.fault = new RunkeepError("timeout", "frozen");
  const { seen, stop } = watch(live(store));
  await settled();
  for (const [ms, reads] of [[999, 1], [1, 2], [1_999, 2], [1, 3]]) {
    await pass(ms);
    assert.equal(store.reads.length, reads);
  }
  store.fault = undefined;
  await pass(4_000);
  assert.deepEqual(seen.map(({ status }) => status), ["error", "error", "error", "ready"]);
  await pass(100_000);
  assert.equal(store.reads.length, 4);
  store.fault = new RunkeepError("timeout", "frozen");
  store.append("a");
  await settled();
  stop();
  await pass(100_000);
  assert.equal(store.reads.length, 5);
});

test("the store is closed: the snapshot says so, whoever subscribes later sees it too", async () => {
  const store = fakeStore();
  const query = live(store);
  const { seen } = watch(query);
  await settled();
  store.close();
  assert.deepEqual([seen.at(-1).status, seen.at(-1).error.code], ["error", "closed"]);
  const late = new Live((s) => s.executions.list(), store.send, () => {
    throw new RunkeepError("closed", "closed");
  });
  watch(late);
  assert.equal(late.getSnapshot().error.code, "closed");
});

test("a read that is under way when the store is closed does not make it look open", async () => {
  const store = fakeStore();
  store.delay = true;
  const query = live(store);
  const { seen } = watch(query);
  await settled();
  store.close();
  await store.release();
  assert.deepEqual(seen.map(({ status }) => status), ["error"]);
  assert.equal(query.getSnapshot().error.code, "closed");
});

test("it only reads: what writes is refused by name, and not sent", async () => {
  const store = fakeStore();
  const { seen } = watch(live(store, (s) => s.executions.create({ workflowId: "w" })));
  await settled();
  assert.ok(failsWith("invalid_argument", "live: a live query only reads; executions.create may change something.")(seen[0].error));
  assert.equal(store.reads.length, 0);
  assert.throws(() => live(store, "executions"), failsWith("invalid_argument", 'live: the argument is a function of the store; got "executions".'));
});

test("a query may walk a whole list", async () => {
  const store = fakeStore();
  store.pageSize = 2;
  for (let n = 0; n < 5; n++) store.append(n);
  const { seen } = watch(
    live(store, async (s) => {
      const all = [];
      for await (const event of s.events.list({ executionId: "run" })) all.push(event.sequence);
      return all;
    }),
  );
  await settled();
  assert.deepEqual(seen.map(({ data }) => data), [[1, 2, 3, 4, 5]]);
});
