import { equal, match, ok } from "./assert.mjs";
import { all, claim, claimOne, contents, enqueue, log, random, range, refuses, start, story } from "./kit.mjs";

const settlers = {
  complete: (store, item) => store.queue.complete(item, { output: 1 }),
  fail: (store, item) => store.queue.fail(item, { error: "no" }),
  release: (store, item) => store.queue.release(item, { delayMs: 10 }),
};
const others = {
  complete: (store, item) => store.queue.complete(item, { output: 2 }),
  fail: (store, item) => store.queue.fail(item, { error: "another" }),
  release: (store, item) => store.queue.release(item, { delayMs: 20 }),
};

/** An execution with a claimed item. */
async function step(store, more) {
  const { id } = await start(store);
  await enqueue(store, { executionId: id, nodeId: "n", ...more });
  return { id, item: await claimOne(store) };
}

export const settling = {
  "renew keeps the lease for as long again, or for as long as asked": async ({ store, clock }) => {
    await enqueue(store);
    const item = await claimOne(store, { leaseMs: 1_000 });
    clock.advance(600);
    match(await store.queue.renew(item), { leaseExpiresAt: clock.now() + 1_000, cancelRequested: false });
    match(await store.queue.get(item.id), { leaseExpiresAt: clock.now() + 1_000, status: "claimed", fence: item.fence, attempt: 1 });
    match(await store.queue.renew(item, { leaseMs: 5_000 }), { leaseExpiresAt: clock.now() + 5_000 });
    clock.advance(4_999);
    match(await store.sweep(), { leasesRetried: 0 });
  },

  "a long job that renews in time is never taken away": async ({ store, clock }) => {
    const { id } = await enqueue(store);
    const item = await claimOne(store, { leaseMs: 3_000 });
    for (let third = 0; third < 30; third++) {
      clock.advance(1_000);
      match(await store.sweep(), { leasesRetried: 0, leasesDeadLettered: 0 });
      equal(await claim(store, { workerId: "w2" }), []);
      await store.queue.renew(item);
    }
    match(await store.queue.complete(item), { status: "completed", late: false });
    equal(await store.queue.attempts(id), []);
  },

  "progress stays on the item, and the next attempt sees it": async ({ store }) => {
    const { id } = await enqueue(store);
    const item = await claimOne(store);
    await store.queue.renew(item, { progress: { done: [1, 2], of: 9 } });
    await store.queue.renew(item);
    match(await store.queue.get(id), { progress: { done: [1, 2], of: 9 } });
    await store.queue.release(item);
    match(await claimOne(store), { progress: { done: [1, 2], of: 9 } });
  },

  "complete settles the item with its output": async ({ store, clock }) => {
    const { id } = await enqueue(store);
    const item = await claimOne(store);
    clock.advance(7);
    match(await store.queue.complete(item, { output: { n: [1] } }), { status: "completed", late: false, enqueued: [] });
    const { leaseExpiresAt, ...rest } = item;
    equal(await store.queue.get(id), { ...rest, status: "completed", finishedAt: clock.now(), output: { n: [1] } });
  },

  "complete needs id and fence only": async ({ store }) => {
    await enqueue(store);
    const { id, fence } = await claimOne(store);
    await store.queue.complete({ id, fence });
    const { status, output } = await store.queue.get(id);
    equal([status, output], ["completed", undefined]);
  },

  "complete commits a step as one: settled, events appended, state patched, next items enqueued": async ({ store, clock }) => {
    const { id, item } = await step(store);
    const done = { type: "node_completed", data: { nodeId: "n", output: 1, statePatch: { b: 2 }, durationMs: 5 } };
    const answer = await store.queue.complete(item, {
      output: 1,
      statePatch: { a: 1 },
      events: [done, { type: "x-note", data: "n" }],
      enqueue: [{ id: "next", executionId: id, nodeId: "m", queue: "q", payload: 3 }, { id: "later", queue: "other", delayMs: 10 }],
    });
    match(answer, { status: "completed", lastSequence: 3, enqueued: [{ id: "next", created: true }, { id: "later", created: true }] });
    equal((await story(store, id)).slice(1), [[done.type, done.data], ["x-note", "n"]]);
    match(await store.executions.get(id), { state: { a: 1, b: 2 }, lastSequence: 3 });
    match(await store.queue.get("next"), { executionId: id, nodeId: "m", payload: 3, status: "pending" });
    match(await store.queue.get("later"), { status: "scheduled", runAt: clock.now() + 10 });
  },

  "complete is all or nothing, whatever part of it is refused": async ({ store }) => {
    const { id, item } = await step(store);
    await enqueue(store, { id: "taken", delayMs: 1 });
    await store.events.append(id, { id: "event", type: "x-a", data: 1 });
    const good = { output: 1, statePatch: { a: 1 }, events: [{ type: "x-b" }], enqueue: [{ queue: "q" }] };
    const complete = (more) => () => store.queue.complete(item, { ...good, ...more });
    await refuses(store, complete({ events: [{ type: "x-b" }, { type: "node_started", data: {} }] }), "invalid_argument", /node/);
    await refuses(store, complete({ events: [{ type: "x-b" }, { id: "event", type: "x-a", data: 2 }] }), "conflict", /event/);
    await refuses(store, complete({ enqueue: [{ queue: "q" }, { queue: "q", id: "taken" }] }), "conflict", /taken/);
    await refuses(store, complete({ enqueue: [{ queue: "q" }, { queue: "q", executionId: "nobody", nodeId: "n" }] }), "not_found", /nobody/);
    await refuses(store, complete({ enqueue: [{ queue: "q", maxAttempts: 0 }] }), "invalid_argument", /maxAttempts/);
    await refuses(store, complete({ statePatch: nestedTooDeep() }), "too_large", /statePatch/);
    match(await store.queue.complete(item, good), { status: "completed" });
  },

  "fail plans another attempt and keeps the error": async ({ store, clock }) => {
    const { id } = await enqueue(store);
    const error = { message: "no", code: "E1", stack: "at line 1" };
    match(await store.queue.fail(await claimOne(store), { error }), { outcome: "retry_scheduled", runAt: clock.now() + 2_000 });
    match(await store.queue.get(id), { status: "scheduled", attempt: 1, runAt: clock.now() + 2_000, lastError: error });
    clock.advance(2_000);
    match(await claimOne(store), { attempt: 2, lastError: error });
  },

  "an error may be a text; anything else is refused": async ({ store }) => {
    await enqueue(store);
    const item = await claimOne(store);
    for (const error of [undefined, null, 5, [], {}, { message: 5 }, { message: "m", other: 1 }]) {
      await refuses(store, () => store.queue.fail(item, { error }), "invalid_argument", /error/);
    }
    await store.queue.fail(item, { error: "only a text" });
    match(await store.queue.get(item.id), { lastError: "only a text" });
  },

  "an Error of JavaScript is kept with message and stack": async ({ store }) => {
    await enqueue(store);
    const item = await claimOne(store);
    const problem = new TypeError("no such thing");
    await store.queue.fail(item, { error: problem });
    match((await store.queue.get(item.id)).lastError, { message: "no such thing", stack: problem.stack });
  },

  "fail with retryable false sends the item to the dead letters at once": async ({ store, clock }) => {
    const { id } = await enqueue(store);
    match(await store.queue.fail(await claimOne(store), { error: "never", retryable: false }), { outcome: "dead_lettered" });
    match(await store.queue.get(id), { status: "dead_lettered", finishedAt: clock.now(), lastError: "never" });
    clock.advance(1e9);
    await store.sweep();
    equal(await claim(store), []);
  },

  "fail waits as long as asked instead of the backoff": async ({ store, clock }) => {
    await enqueue(store, { id: "a", maxAttempts: 9 });
    match(await store.queue.fail(await claimOne(store), { error: "busy", delayMs: 500 }), { runAt: clock.now() + 500 });
    clock.advance(500);
    match(await store.queue.fail(await claimOne(store), { error: "busy", delayMs: 0 }), { outcome: "retry_scheduled", runAt: clock.now() });
    match(await claimOne(store), { attempt: 3 });
  },

  "fail appends its events": async ({ store }) => {
    const { id, item } = await step(store, { maxAttempts: 1 });
    await store.queue.fail(item, { error: "no", events: [{ type: "x-trace", data: 1 }] });
    equal(await story(store, id), [["x-trace", 1], ["node_failed", { nodeId: "n", error: "no", attempt: 1, retryable: false }]]);
  },

  "release gives an item back without counting the attempt": async ({ store, clock }) => {
    const { id } = await enqueue(store, { maxAttempts: 1 });
    for (let n = 0; n < 5; n++) {
      match(await claimOne(store), { attempt: 1 });
      const item = await store.queue.get(id);
      match(await store.queue.release(item, { reason: "the tab closes" }), { outcome: "released" });
      match(await store.queue.get(id), { status: "pending", attempt: 0 });
    }
    await store.queue.release(await claimOne(store), { delayMs: 60_000 });
    match(await store.queue.get(id), { status: "scheduled", runAt: clock.now() + 60_000, attempt: 0 });
    equal(await claim(store), []);
  },

  "a released item keeps its place before those enqueued after it": async ({ store, clock }) => {
    await enqueue(store, { id: "first" });
    clock.advance(10);
    await enqueue(store, { id: "second" });
    await store.queue.release(await claimOne(store));
    match(await claimOne(store), { id: "first" });
  },

  "a fence that is not the current one changes nothing": async ({ store }) => {
    const { id, item } = await step(store);
    for (const fence of [item.fence - 1, item.fence + 1, 0, -1]) {
      const stale = { id: item.id, fence };
      await refuses(store, () => store.queue.renew(stale, { progress: 1 }), "lease_lost");
      await refuses(store, () => store.queue.complete(stale, { output: 1, events: [{ type: "x-a" }], statePatch: { a: 1 }, enqueue: [{ queue: "q" }] }), "lease_lost");
      await refuses(store, () => store.queue.fail(stale, { error: "no" }), "lease_lost");
      await refuses(store, () => store.queue.release(stale), "lease_lost");
    }
    equal(await log(store, id), []);
  },

  "an item that was never claimed has no lease to settle": async ({ store }) => {
    const { id } = await enqueue(store);
    for (const settle of Object.values(settlers)) await refuses(store, () => settle(store, { id, fence: 0 }), "lease_lost", new RegExp(id));
    await refuses(store, () => store.queue.renew({ id, fence: 0 }), "lease_lost");
  },

  "an item that does not exist cannot be renewed or settled": async ({ store }) => {
    const ghost = { id: "ghost", fence: 1 };
    await refuses(store, () => store.queue.renew(ghost), "not_found", /ghost/);
    for (const settle of Object.values(settlers)) await refuses(store, () => settle(store, ghost), "not_found", /ghost/);
  },

  "a zombie cannot finish a job that another worker has now": async ({ store, clock }) => {
    const { id, item: mine } = await step(store);
    const done = { events: [{ type: "node_completed", data: { nodeId: "n", output: 1, statePatch: null, durationMs: 1 } }] };
    clock.advance(30_000);
    await store.sweep();
    await refuses(store, () => store.queue.complete(mine, done), "lease_lost");
    clock.advance(2_000);
    const theirs = await claimOne(store, { workerId: "w2" });
    await refuses(store, () => store.queue.complete(mine, done), "lease_lost");
    await refuses(store, () => store.queue.renew(mine), "lease_lost");
    await store.queue.complete(theirs, done);
    await refuses(store, () => store.queue.complete(mine, done), "lease_lost");
    equal((await story(store, id)).filter(([type]) => type === "node_completed").length, 1);
  },

  "a late holder may still renew or settle while nobody has noticed": async ({ store, clock }) => {
    for (const id of ["completes", "fails", "is released", "is renewed"]) await enqueue(store, { id });
    const [completes, fails, released, renewed] = await claim(store, { limit: 4, leaseMs: 1_000 });
    clock.advance(5_000);
    match(await store.queue.complete(completes), { status: "completed", late: true });
    match(await store.queue.fail(fails, { error: "no" }), { outcome: "retry_scheduled", late: true });
    match(await store.queue.release(released), { outcome: "released", late: true });
    match(await store.queue.renew(renewed), { leaseExpiresAt: clock.now() + 1_000, late: true });
    match(await store.sweep(), { leasesRetried: 0 });
    match(await store.queue.renew(renewed), { late: false });
  },

  "the same settling call again has the first answer, and happens once": async ({ store, clock }) => {
    for (const [name, settle] of Object.entries(settlers)) {
      const { item } = await step(store);
      const first = await settle(store, item);
      const before = await contents(store);
      clock.advance(3);
      equal(await settle(store, item), first, `the answer to the second ${name}`);
      equal(await contents(store), before, `what the store holds after the second ${name}`);
      await store.queue.cancel(item.id).catch(() => {});
    }
  },

  "a repeated failure has the first answer until the item is given out again": async ({ store, clock }) => {
    await enqueue(store);
    const item = await claimOne(store);
    const first = await settlers.fail(store, item);
    clock.advance(2_000);
    await store.sweep();
    equal(await settlers.fail(store, item), first);
    await claimOne(store, { workerId: "w2" });
    await refuses(store, () => settlers.fail(store, item), "lease_lost");
  },

  "another settling call under the same fence is a conflict": async ({ store }) => {
    for (const name of Object.keys(settlers)) {
      const { item } = await step(store);
      await settlers[name](store, item);
      for (const other of Object.keys(others)) await refuses(store, () => others[other](store, item), "conflict", new RegExp(name));
      await refuses(store, () => store.queue.renew(item), "conflict");
      await store.queue.cancel(item.id).catch(() => {});
    }
  },

  "complete with everything again has the first answer": async ({ store }) => {
    const { id, item } = await step(store);
    const everything = { output: { a: 1, b: 2 }, statePatch: { s: 1 }, events: [{ type: "x-a" }], enqueue: [{ queue: "other" }] };
    const first = await store.queue.complete(item, everything);
    equal(await store.queue.complete(item, { ...everything, output: { b: 2, a: 1 } }), first);
    equal((await log(store, id)).length, 2);
    equal((await all(store.queue.list({ queue: "other" }))).length, 1);
  },

  "of two settlements that race, exactly one succeeds": async ({ store }) => {
    for (const round of range(20)) {
      await enqueue(store, { id: `i${round}` });
      const item = await claimOne(store);
      const calls = [() => store.queue.complete(item), () => store.queue.fail(item, { error: "no", retryable: false })];
      if (round % 2) calls.reverse();
      const outcomes = await Promise.allSettled(calls.map((call) => call()));
      equal(outcomes.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
      const { code } = outcomes.find(({ status }) => status === "rejected").reason;
      equal(code, "conflict");
      const { status, outcome } = outcomes.find(({ status }) => status === "fulfilled").value;
      match(await store.queue.get(item.id), { status: status ?? outcome });
    }
  },

  "a settled item never changes again, whatever comes late": async ({ store, clock }) => {
    const { item } = await step(store);
    await store.queue.complete(item, { output: 1 });
    const settled = await store.queue.get(item.id);
    clock.advance(1e9);
    await store.sweep();
    await claim(store, { limit: 1000 });
    for (const late of [
      () => store.queue.cancel(item.id),
      () => store.queue.renew(item),
      () => store.queue.fail(item, { error: "no" }),
      () => store.queue.release(item),
      () => store.queue.complete(item, { output: 2 }),
    ]) {
      await refuses(store, late, "conflict");
    }
    equal(await store.queue.get(item.id), settled);
  },

  "a hundred races of cancel and complete end as the call that succeeded says": async ({ store }) => {
    const chance = random(20_260_101);
    for (const round of range(100)) {
      const { id } = await enqueue(store, { id: `i${round}` });
      const item = await claimOne(store);
      const [complete, cancel] = [() => store.queue.complete(item), () => store.queue.cancel(id)];
      const cancelFirst = chance() < 0.5;
      const outcomes = await Promise.allSettled((cancelFirst ? [cancel, complete] : [complete, cancel]).map((call) => call()));
      const [first, second] = outcomes.map(({ value, reason }) => value?.status ?? reason.code);
      equal([first, second], cancelFirst ? ["claimed", "completed"] : ["completed", "conflict"]);
      match(await store.queue.get(id), { status: "completed", cancelRequested: cancelFirst });
    }
  },
};

/** A patch of more levels than a document may have. */
function nestedTooDeep() {
  let value = {};
  for (let level = 1; level < 129; level++) value = { a: value };
  return value;
}
