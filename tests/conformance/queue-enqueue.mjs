import { equal, match } from "./assert.mjs";
import { all, claim, claimOne, enqueue, range, refuses, start } from "./kit.mjs";

export const enqueueing = {
  "an item has what it was given": async ({ store, clock }) => {
    await start(store, { id: "run" });
    const given = {
      id: "item-1",
      executionId: "run",
      nodeId: "fetch",
      queue: "tools",
      payload: { url: "https://example.org/", tries: [1, 2] },
      priority: -3,
      requires: ["gpu", "net"],
      maxAttempts: 5,
      runAt: clock.now() + 1_000,
      backoff: { kind: "linear", baseMs: 10, maxMs: 100 },
      idempotencyKey: "fetch-1",
      concurrencyKey: "thread-1",
    };
    const record = { ...given, tenantId: "default", status: "scheduled", attempt: 0, createdAt: clock.now(), fence: 0, cancelRequested: false };
    equal(await store.queue.enqueue(given), { ...record, created: true });
    equal(await store.queue.get("item-1"), record);
  },

  "an item needs a queue only": async ({ store, clock }) => {
    const { id, created, ...record } = await store.queue.enqueue({ queue: "q" });
    equal(created, true);
    equal(record, {
      tenantId: "default",
      queue: "q",
      payload: null,
      priority: 0,
      requires: [],
      status: "pending",
      attempt: 0,
      maxAttempts: 3,
      runAt: clock.now(),
      createdAt: clock.now(),
      fence: 0,
      cancelRequested: false,
    });
    equal(await store.queue.get(id), { id, ...record });
  },

  "get of an item that does not exist is null": async ({ store }) => {
    equal(await store.queue.get("nothing"), null);
  },

  "an item of the future is scheduled, one that is due is pending": async ({ store, clock }) => {
    const now = clock.now();
    match(await enqueue(store, { runAt: now + 1 }), { status: "scheduled", runAt: now + 1 });
    match(await enqueue(store, { delayMs: 500 }), { status: "scheduled", runAt: now + 500 });
    match(await enqueue(store, { runAt: now }), { status: "pending", runAt: now });
    match(await enqueue(store, { runAt: now - 1_000 }), { status: "pending", runAt: now - 1_000 });
    match(await enqueue(store, { delayMs: 0 }), { status: "pending", runAt: now });
  },

  "enqueueMany answers the items in order": async ({ store }) => {
    const items = await store.queue.enqueueMany(range(5).map((n) => ({ id: `i${n}`, queue: "q", payload: n })));
    match(items, range(5).map((n) => ({ id: `i${n}`, payload: n, created: true })));
    equal((await all(store.queue.list())).map(({ payload }) => payload), [0, 1, 2, 3, 4]);
    equal(await store.queue.enqueueMany([]), []);
  },

  "enqueueMany is all or nothing, and names the item at fault": async ({ store }) => {
    await enqueue(store, { id: "taken", payload: 1 });
    const good = { queue: "q" };
    for (const [bad, code] of [[{ queue: "q", maxAttempts: 0 }, "invalid_argument"], [{ queue: "q", id: "taken", payload: 2 }, "conflict"], [{ queue: "q", executionId: "nobody", nodeId: "n" }, "not_found"]]) {
      match((await refuses(store, () => store.queue.enqueueMany([good, bad, good]), code)).details, { index: 1 });
    }
    await refuses(store, () => store.queue.enqueueMany([good, { queue: "q", surplus: 1 }]), "invalid_argument", /surplus/);
  },

  "an idempotency key names one unfinished item of its queue": async ({ store, clock }) => {
    const given = { idempotencyKey: "k", payload: { a: 1, b: 2 }, delayMs: 100 };
    const { created, ...first } = await enqueue(store, given);
    equal(created, true);
    equal(await enqueue(store, given), { ...first, created: false }, "while it is scheduled");
    equal(await enqueue(store, { ...given, payload: { b: 2, a: 1 } }), { ...first, created: false }, "with members in another order");
    clock.advance(100);
    await store.sweep();
    match(await enqueue(store, given), { id: first.id, status: "pending", created: false }, "while it is pending");
    const item = await claimOne(store);
    match(await enqueue(store, given), { id: first.id, status: "claimed", created: false }, "while it is claimed");
    match(await enqueue(store, { ...given, queue: "other" }), { created: true }, "in another queue");
    await store.queue.complete(item);
    match(await enqueue(store, given), { created: true }, "when it is finished");
    equal((await all(store.queue.list({ queue: "q" }))).length, 2);
  },

  "an idempotency key is free again after a dead letter and after a cancel": async ({ store }) => {
    const first = await enqueue(store, { idempotencyKey: "k" });
    await store.queue.cancel(first.id);
    match(await enqueue(store, { idempotencyKey: "k" }), { created: true });
    await store.queue.fail(await claimOne(store), { error: "no", retryable: false });
    match(await enqueue(store, { idempotencyKey: "k" }), { created: true });
  },

  "with uniqueFor ever, an idempotency key is never free again": async ({ store }) => {
    const given = { idempotencyKey: "k", uniqueFor: "ever", payload: 1 };
    const { id } = await enqueue(store, given);
    await store.queue.complete(await claimOne(store), { output: "o" });
    match(await enqueue(store, given), { id, status: "completed", output: "o", created: false });
    await refuses(store, () => enqueue(store, { ...given, payload: 2 }), "conflict", /"k"/);
  },

  "uniqueFor ever also finds an item that was enqueued without it": async ({ store }) => {
    const { id } = await enqueue(store, { idempotencyKey: "k", payload: 1 });
    await store.queue.complete(await claimOne(store));
    match(await enqueue(store, { idempotencyKey: "k", payload: 1, uniqueFor: "ever" }), { id, created: false });
  },

  "the same idempotency key with other arguments is a conflict": async ({ store }) => {
    await enqueue(store, { idempotencyKey: "k", payload: 1 });
    await refuses(store, () => enqueue(store, { idempotencyKey: "k", payload: 2 }), "conflict", /"k"/);
    await refuses(store, () => enqueue(store, { idempotencyKey: "k", payload: 1, priority: 1 }), "conflict", /"k"/);
  },

  "one call that names a key twice makes one item": async ({ store }) => {
    const [first, second] = await store.queue.enqueueMany([{ queue: "q", idempotencyKey: "k" }, { queue: "q", idempotencyKey: "k" }]);
    equal([first.created, second.created, second.id], [true, false, first.id]);
  },

  "an item of an execution names its node": async ({ store }) => {
    const { id } = await start(store);
    await refuses(store, () => enqueue(store, { executionId: id }), "invalid_argument", /nodeId/);
  },

  "an item of an execution that does not exist is refused": async ({ store }) => {
    await refuses(store, () => enqueue(store, { executionId: "nobody", nodeId: "n" }), "not_found", /nobody/);
  },

  "runAt and delayMs together are refused": async ({ store, clock }) => {
    await refuses(store, () => enqueue(store, { runAt: clock.now(), delayMs: 1 }), "invalid_argument", /delayMs/);
  },

  "required capabilities are a set": async ({ store }) => {
    match(await enqueue(store, { requires: ["b", "a,c", "b", 'quo"te'] }), { requires: ["a,c", "b", 'quo"te'] });
    equal(await claim(store), []);
  },
};
