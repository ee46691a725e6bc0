// Claims that wait: the host tries them again until there is something to claim.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isRunkeepError } from "../../dist/index.js";
import { manualClock, openTestStore } from "../../dist/testing.js";

const waiting = (store, waitMs = 60_000, options) => store.queue.claim({ workerId: "w", queues: ["q"], waitMs }, options);

/** A store, and a way to let the host take in what was sent so far. */
async function open() {
  const clock = manualClock();
  const store = await openTestStore({ clock });
  return { clock, store, settled: () => store.queues.stats() };
}

test("a claim waits for an item and gets it", async () => {
  const { store, settled } = await open();
  const claim = waiting(store);
  await settled();
  const { id } = await store.queue.enqueue({ queue: "q" });
  assert.equal((await claim)[0].id, id);
  await store.close();
});

test("each of many waiting claims gets an item of its own", async () => {
  const { store, settled } = await open();
  const claims = Array.from({ length: 20 }, () => waiting(store));
  await settled();
  await store.queue.enqueueMany(Array.from({ length: 15 }, () => ({ queue: "q" })));
  assert.equal((await store.queues.stats()).counts.claimed, 15);
  await store.queue.enqueueMany(Array.from({ length: 5 }, () => ({ queue: "q" })));
  const all = (await Promise.all(claims)).flat();
  assert.equal(new Set(all.map((item) => item.id)).size, 20);
  await store.close();
});

test("a claim notices an item whose time has come", async () => {
  const { store, clock, settled } = await open();
  await store.queue.enqueue({ queue: "q", delayMs: 5_000 });
  const claim = waiting(store);
  await settled();
  clock.advance(5_000);
  await store.sweep();
  assert.equal((await claim).length, 1);
  await store.close();
});

test("an item that comes due by itself is noticed too, without anybody's call", async () => {
  const store = await openTestStore();
  await store.queue.enqueue({ queue: "q", delayMs: 20 });
  assert.equal((await waiting(store)).length, 1);
  await store.close();
});

test("a claim that waited in vain answers nothing, after its time", async () => {
  const { store } = await open();
  const begin = performance.now();
  assert.deepEqual(await waiting(store, 80), []);
  assert.ok(performance.now() - begin >= 79);
  await store.close();
});

test("a wait is not cut short by the call's timeout", async () => {
  const { store } = await open();
  assert.deepEqual(await waiting(store, 120, { timeoutMs: 40 }), []);
  await store.close();
});

test("an aborted claim takes nothing", async () => {
  const { store, settled } = await open();
  const controller = new AbortController();
  const claim = waiting(store, 60_000, { signal: controller.signal });
  await settled();
  controller.abort(new Error("not any more"));
  await assert.rejects(claim, /not any more/);
  const { id } = await store.queue.enqueue({ queue: "q" });
  assert.equal((await store.queue.get(id)).status, "pending");
  await store.close();
});

test("closing ends the waits", async () => {
  const { store, settled } = await open();
  const claim = waiting(store).catch((error) => error);
  await settled();
  await store.close();
  const outcome = await claim;
  assert.ok(Array.isArray(outcome) ? outcome.length === 0 : isRunkeepError(outcome, "closed"), String(outcome));
});

test("waitMs is checked", async () => {
  const { store } = await open();
  for (const waitMs of [-1, 1.5, "5", 10 * 60_000 + 1]) {
    await assert.rejects(waiting(store, waitMs), (error) => isRunkeepError(error, "invalid_argument") && /waitMs/.test(error.message));
  }
  await store.close();
});
