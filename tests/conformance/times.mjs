import { ok } from "./assert.mjs";
import { claim, claimOne, contents, enqueue, register, start } from "./kit.mjs";

/** Visits every member of what is nested in `value`. */
function visit(value, take, path = "") {
  if (typeof value !== "object" || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    take(key, member, `${path}.${key}`);
    visit(member, take, `${path}.${key}`);
  }
}

export const times = {
  "every time is a whole number of milliseconds by the clock": async ({ store, clock }) => {
    const from = clock.now();
    clock.advance(100);
    const { id } = await start(store);
    await store.executions.setStatus(id, { status: "running" });
    await enqueue(store, { id: "completed", executionId: id, nodeId: "n" });
    clock.advance(20);
    await store.queue.complete(await claimOne(store));
    await enqueue(store, { id: "failed" });
    clock.advance(3);
    await store.queue.fail(await claimOne(store), { error: "no" });
    await enqueue(store, { id: "claimed" });
    await claim(store, { leaseMs: 1_000 });
    await enqueue(store, { delayMs: 500 });
    await register(store, { livenessTtlMs: 1_000 });
    clock.advance(1);
    await store.executions.setStatus(id, { status: "completed" });
    let seen = 0;
    visit(await contents(store), (key, value, path) => {
      if (!/At$/.test(key)) return;
      seen += 1;
      ok(Number.isSafeInteger(value) && value >= from && value <= clock.now() + 2_000, `${path} is ${JSON.stringify(value)}, the clock ${clock.now()}`);
    });
    ok(seen > 20, `only ${seen} times were found`);
  },
};
