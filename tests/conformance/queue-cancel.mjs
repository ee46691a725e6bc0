import { equal, match } from "./assert.mjs";
import { claim, claimOne, enqueue, refuses, start, story } from "./kit.mjs";

async function cancelledWhileClaimed(store, more) {
  const { id: executionId } = await start(store);
  const { id } = await enqueue(store, { executionId, nodeId: "n", ...more });
  const item = await claimOne(store, { leaseMs: 1_000 });
  match(await store.queue.cancel(id), { status: "claimed", cancelRequested: true });
  return { executionId, item };
}

async function endsCancelled(store, { executionId, item }, at) {
  match(await store.queue.get(item.id), { status: "cancelled", finishedAt: at });
  equal((await story(store, executionId)).at(-1), ["node_cancelled", { nodeId: "n" }]);
}

export const cancelling = {
  "an item that waits is cancelled at once, and its execution's log says so": async ({ store, clock }) => {
    const { id: executionId } = await start(store);
    for (const more of [{}, { delayMs: 1_000 }]) {
      const { id } = await enqueue(store, { executionId, nodeId: "n", ...more });
      clock.advance(1);
      match(await store.queue.cancel(id), { id, status: "cancelled", finishedAt: clock.now() });
      equal((await story(store, executionId)).at(-1), ["node_cancelled", { nodeId: "n" }]);
    }
    equal((await story(store, executionId)).length, 2);
    clock.advance(60_000);
    equal(await claim(store), []);
  },

  "an item of no execution can be cancelled too": async ({ store }) => {
    const { id } = await enqueue(store);
    match(await store.queue.cancel(id), { status: "cancelled" });
  },

  "the holder of a claimed item is asked to stop, and hears of it when it renews": async ({ store }) => {
    const { item } = await cancelledWhileClaimed(store);
    match(await store.queue.renew(item), { cancelRequested: true });
    match(await store.queue.get(item.id), { status: "claimed", cancelRequested: true });
    match(await store.queue.cancel(item.id), { status: "claimed", cancelRequested: true });
  },

  "a cancelled item that then fails is cancelled": async ({ store, clock }) => {
    const cancelled = await cancelledWhileClaimed(store);
    match(await store.queue.fail(cancelled.item, { error: "stopped" }), { outcome: "cancelled" });
    await endsCancelled(store, cancelled, clock.now());
  },

  "a cancelled item that is then released is cancelled": async ({ store, clock }) => {
    const cancelled = await cancelledWhileClaimed(store);
    match(await store.queue.release(cancelled.item), { outcome: "cancelled" });
    await endsCancelled(store, cancelled, clock.now());
  },

  "a cancelled item whose lease then runs out is cancelled": async ({ store, clock }) => {
    const swept = await cancelledWhileClaimed(store);
    clock.advance(1_000);
    match(await store.sweep(), { leasesRetried: 0, leasesDeadLettered: 0 });
    await endsCancelled(store, swept, clock.now());
    const met = await cancelledWhileClaimed(store, { maxAttempts: 1 });
    clock.advance(1_000);
    equal(await claim(store), []);
    await endsCancelled(store, met, clock.now());
  },

  "a cancelled item that completes all the same is completed": async ({ store }) => {
    const { item } = await cancelledWhileClaimed(store);
    await store.queue.complete(item, { output: "done after all" });
    match(await store.queue.get(item.id), { status: "completed", output: "done after all" });
  },

  "a finished item cannot be cancelled, and the error says what it is": async ({ store }) => {
    await enqueue(store, { id: "done" });
    await store.queue.complete(await claimOne(store));
    await enqueue(store, { id: "dead" });
    await store.queue.fail(await claimOne(store), { error: "no", retryable: false });
    await enqueue(store, { id: "cancelled" });
    await store.queue.cancel("cancelled");
    for (const [id, status] of [["done", "completed"], ["dead", "dead_lettered"], ["cancelled", "cancelled"]]) {
      await refuses(store, () => store.queue.cancel(id), "conflict", new RegExp(`${id}.* ${status}`));
    }
  },

  "an item that does not exist cannot be cancelled": async ({ store }) => {
    await refuses(store, () => store.queue.cancel("ghost"), "not_found", /ghost/);
  },

  "a cancelled item that was given back is not given out again": async ({ store, clock }) => {
    const { item } = await cancelledWhileClaimed(store, { maxAttempts: 9 });
    await store.queue.release(item);
    clock.advance(1e9);
    await store.sweep();
    equal(await claim(store, { limit: 10 }), []);
  },
};
