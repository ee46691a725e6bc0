// Subscriptions, live queries and tails over the built package, in Node.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { root } from "../../scripts/run.mjs";

const { isRunkeepError, openStore } = await import(pathToFileURL(join(root, "dist", "index.js")).href);
const { openTestStore } = await import(pathToFileURL(join(root, "dist", "testing.js")).href);

const append = (store, data) => store.events.append("run", { type: "x-step", data });
const range = (count) => Array.from({ length: count }, (_, index) => index + 1);

async function withRun(store) {
  await store.executions.create({ id: "run", workflowId: "w" });
  return store;
}

/** Resolves once `check` is true, which it is asked after each change and at most ten seconds long. */
function until(store, check) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`not in time: ${check}`)), 10_000);
    const look = () => {
      if (!check()) return;
      clearTimeout(timer);
      clearInterval(again);
      resolve();
    };
    const again = setInterval(look, 1);
  });
}

test("a subscriber hears of what was committed: topics and ids, a thousand appends in a few calls, none missed", async () => {
  const store = await withRun(await openTestStore());
  const told = [];
  let known = 0;
  const stop = store.subscribe({ topics: "events" }, async (change) => {
    told.push(change);
    known = Math.max(known, await store.events.latestSequence("run"));
  });
  for (let n = 0; n < 10; n++) await Promise.all(range(100).map((data) => append(store, data)));
  await until(store, () => known === 1_000);
  assert.deepEqual(told[0], { reason: "start", topics: { events: null } });
  assert.ok(told.slice(1).every(({ reason }) => reason === "change"));
  assert.ok(told.length > 1 && told.length < 30, `${told.length} calls`);
  stop();
  const before = told.length;
  await append(store, "more");
  assert.equal(told.length, before);
  await store.close();
});

test("a change that fails tells nobody; one of another tenant tells the others nothing", async () => {
  const store = await withRun(await openTestStore());
  await store.tenants.create({ id: "acme" });
  const acme = store.forTenant("acme");
  const told = { store: [], acme: [] };
  store.subscribe(({ reason, topics }) => reason === "change" && told.store.push(Object.keys(topics)));
  acme.subscribe(({ reason, topics }) => reason === "change" && told.acme.push(Object.keys(topics)));
  await assert.rejects(store.executions.setStatus("nobody", { status: "running" }));
  await acme.queue.enqueue({ queue: "q" });
  await until(store, () => told.acme.length > 0);
  assert.deepEqual(told.store, []);
  assert.ok(told.acme[0].includes("items"));
  await store.close();
});

test("a live query follows what is written, in handles of its own, until the store is closed", async () => {
  const name = `live-${process.pid}`;
  const [store, writer] = await Promise.all([openStore({ name, sweep: false }), openStore({ name, sweep: false })]);
  const query = store.live((s) => s.executions.list({ workflowId: "w" }));
  const seen = [];
  query.subscribe(() => {
    const { status, data } = query.getSnapshot();
    seen.push([status, data?.items.map(({ id }) => id)]);
  });
  await until(store, () => seen.length === 1);
  await writer.executions.create({ id: "a", workflowId: "w" });
  await until(store, () => seen.at(-1)[1].length === 1);
  await writer.executions.create({ id: "b", workflowId: "w" });
  await until(store, () => seen.at(-1)[1].length === 2);
  assert.deepEqual([seen[0], seen.at(-1)], [["ready", []], ["ready", ["a", "b"]]]);
  await store.close();
  assert.equal(query.getSnapshot().error.code, "closed");
  query.subscribe(() => {})();
  assert.throws(() => store.subscribe(() => {}), (error) => isRunkeepError(error, "closed"));
  await writer.close();
});

test("eight writers and a reader that follows: 1..N, none missed, none twice", async () => {
  const store = await withRun(await openTestStore());
  const seen = [];
  const tail = (async () => {
    for await (const { sequence } of store.events.tail({ executionId: "run" })) if (seen.push(sequence) === 4_000) break;
  })();
  const writer = async () => {
    for (let n = 0; n < 500; n++) await append(store, n);
  };
  await Promise.all(range(8).map(writer));
  await tail;
  assert.deepEqual(seen, range(4_000));
  await store.close();
});

test("closing the store ends its tails with `closed`, and those of another handle go on", async () => {
  const name = `tails-${process.pid}`;
  const [store, other] = await Promise.all([openStore({ name, sweep: false }), openStore({ name, sweep: false })]);
  await withRun(store);
  const ended = (async () => {
    for await (const _ of store.events.tail({ executionId: "run" }));
  })();
  const next = other.events.tail({ executionId: "run" })[Symbol.asyncIterator]();
  const value = next.next();
  await store.close();
  await assert.rejects(ended, (error) => isRunkeepError(error, "closed"));
  await append(other, "on");
  assert.equal((await value).value.sequence, 1);
  await next.return();
  await other.close();
});

test("a tenant's tail and live query are the tenant's", async () => {
  const store = await openTestStore();
  await store.tenants.create({ id: "acme" });
  const acme = store.forTenant("acme");
  await Promise.all([withRun(store), withRun(acme)]);
  const live = acme.live((s) => s.events.list({ executionId: "run" }));
  live.subscribe(() => {});
  const tail = acme.events.tail({ executionId: "run" })[Symbol.asyncIterator]();
  const first = tail.next();
  await append(store, "the store's");
  await append(acme, "the tenant's");
  assert.equal((await first).value.data, "the tenant's");
  await until(store, () => live.getSnapshot().data?.items.length === 1);
  assert.equal(live.getSnapshot().data.items[0].data, "the tenant's");
  const refused = acme.live((s) => s.tenants.list());
  refused.subscribe(() => {});
  await until(store, () => refused.getSnapshot().status === "error");
  await tail.return();
  await store.close();
});

test("events and a durability that do not exist are refused by name", async () => {
  const store = await openTestStore();
  assert.throws(() => store.on("ownerchanged", () => {}), (error) => isRunkeepError(error, "invalid_argument") && /there are ownerchange, versionchange/.test(error.message));
  assert.throws(() => store.on("ownerchange"), (error) => isRunkeepError(error, "invalid_argument"));
  const stop = store.on("ownerchange", () => {});
  stop();
  stop();
  const name = `durable-${process.pid}`;
  const strict = await openStore({ name, durability: "strict", sweep: false });
  await strict.executions.create({ workflowId: "w" });
  await assert.rejects(openStore({ name, sweep: false }), (error) => isRunkeepError(error, "conflict") && /another durability/.test(error.message));
  await strict.close();
  await assert.rejects(openStore({ durability: "full" }), (error) => isRunkeepError(error, "invalid_argument") && /"relaxed" or "strict"/.test(error.message));
  await store.close();
});

test("the text of an answer is followed while it streams, piece by piece, and the tail ends with the item", async () => {
  const store = await openTestStore();
  const thread = await store.threads.create({});
  const item = await store.items.create({ threadId: thread.id, kind: "assistant_message", status: "in_progress" });
  const other = await store.items.create({ threadId: thread.id, kind: "reasoning", status: "in_progress" });
  const pieces = [];
  const reading = (async () => {
    for await (const piece of store.items.tail(item.id)) pieces.push(piece);
  })();
  const text = range(300).map((n) => `word ${n} 🎉 `);
  for (const delta of text) await Promise.all([store.items.appendText(item.id, { delta }), store.items.appendText(other.id, { delta: "another's" })]);
  await store.items.update(item.id, { status: "completed" });
  await reading;
  assert.equal(pieces.join(""), text.join(""));
  assert.ok(pieces.length > 1 && pieces.length <= 300, `${pieces.length} pieces`);
  const after = "word 1 🎉 ".length;
  const rest = [];
  for await (const piece of store.items.tail(item.id, { after })) rest.push(piece);
  assert.equal(rest.join(""), text.slice(1).join(""));
  await store.close();
});

test("a tail never joins two texts: another one in the place of the first ends it", async () => {
  const store = await openTestStore();
  const thread = await store.threads.create({});
  for (const [text, status] of [["completely different text, longer", "in_progress"], ["hello worms", "completed"], ["short", "in_progress"], ["hello world, and more", "completed"]]) {
    const { id } = await store.items.create({ threadId: thread.id, kind: "assistant_message", status: "in_progress", text: "hello world" });
    let read = "";
    let begun;
    const first = new Promise((resolve) => (begun = resolve));
    const outcome = (async () => {
      for await (const piece of store.items.tail(id)) {
        read += piece;
        begun();
      }
    })();
    outcome.catch(() => {});
    await first;
    await store.items.update(id, { text, status });
    if (text.startsWith("hello world")) {
      await outcome;
      assert.equal(read, text);
    } else {
      await assert.rejects(outcome, (error) => isRunkeepError(error, "conflict") && /it is another text now; read from 0/.test(error.message));
      assert.equal(read, "hello world");
    }
  }
  // One that was read elsewhere, up to some point, is gone on with in the same way.
  const { id } = await store.items.create({ threadId: thread.id, kind: "assistant_message", text: "hello world" });
  const { length: after, version } = await store.items.readText(id);
  await store.items.update(id, { text: "hello worms, and more" });
  await assert.rejects(store.items.tail(id, { after, version })[Symbol.asyncIterator]().next(), (error) => isRunkeepError(error, "conflict"));
  await store.close();
});

test("the events of a thread are followed in order, and those of another thread are not among them", async () => {
  const store = await openTestStore();
  const [thread, other] = [await store.threads.create({}), await store.threads.create({})];
  const seen = [];
  const reading = (async () => {
    for await (const { sequence, data } of store.threadEvents.tail({ threadId: thread.id })) {
      seen.push([sequence, data]);
      if (seen.length === 200) break;
    }
  })();
  for (const n of range(200)) {
    await Promise.all([
      store.threadEvents.append(thread.id, { type: "note", data: n }),
      store.threadEvents.append(other.id, { type: "note", data: "other" }),
    ]);
  }
  await reading;
  assert.deepEqual(seen.map(([, data]) => data), range(200));
  assert.ok(seen.every(([sequence], index) => index === 0 || sequence > seen[index - 1][0]));
  const last = seen.at(-2)[0];
  const rest = store.threadEvents.tail({ threadId: thread.id, after: last })[Symbol.asyncIterator]();
  assert.equal((await rest.next()).value.data, 200);
  await rest.return();
  await store.close();
});

test("a live query over a thread runs again for that thread only", async () => {
  const store = await openTestStore();
  const [thread, other] = [await store.threads.create({}), await store.threads.create({})];
  const query = store.live((s) => s.items.list({ threadId: thread.id }));
  let snapshots = 0;
  query.subscribe(() => snapshots++);
  await until(store, () => snapshots === 1);
  await store.items.create({ threadId: other.id, kind: "user_message", text: "elsewhere" });
  await store.items.create({ threadId: thread.id, kind: "user_message", text: "here" });
  await until(store, () => query.getSnapshot().data.items.length === 1);
  assert.equal(snapshots, 2);
  await store.close();
});
