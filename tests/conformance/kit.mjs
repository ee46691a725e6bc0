// What the cases have in common.
import { equal, rejects } from "./assert.mjs";

export const start = (store, more) => store.executions.create({ workflowId: "w", ...more });

export const enqueue = (store, more) => store.queue.enqueue({ queue: "q", ...more });

export const claim = (store, more) => store.queue.claim({ workerId: "w1", queues: ["q"], ...more });

/** Claims the one item that there is to claim. */
export async function claimOne(store, more) {
  const items = await claim(store, more);
  equal(items.length, 1, "number of claimed items");
  return items[0];
}

export const register = (store, more) => store.workers.register({ workerId: "w1", pool: "p", queues: ["q"], capabilities: [], livenessTtlMs: 60_000, ...more });

/** All rows of a list. */
export async function all(list) {
  const rows = [];
  for await (const row of list) rows.push(row);
  return rows;
}

/** The events of an execution. */
export const log = (store, executionId) => all(store.events.list({ executionId }));

/** The events of an execution as `[type, data]`. */
export const story = async (store, executionId) => (await log(store, executionId)).map(({ type, data }) => [type, data]);

/** All that can be read of a store, or of a tenant's part of it. */
export async function contents(store) {
  const [executions, items, threads] = await Promise.all([
    all(store.executions.list()),
    all(store.queue.list()),
    all(store.threads.list({ archived: "include" })),
  ]);
  const namespaces = ["queues", "deadLetters", "workers", "approvals", "workflows", "timers", "cron", "tokens", "usage", "blobs", "tenants"].filter((name) => name in store);
  const perExecution = (read) => Promise.all(executions.map(({ id }) => read(id)));
  const perThread = (read) => Promise.all(threads.map(({ id }) => read(id)));
  return {
    executions,
    events: await perExecution((id) => log(store, id)),
    snapshots: await perExecution((executionId) => all(store.snapshots.list({ executionId }))),
    items,
    threads,
    turns: await perThread((threadId) => all(store.turns.list({ threadId }))),
    prompts: await perThread((threadId) => all(store.inbox.list({ threadId }))),
    threadItems: await perThread((threadId) => all(store.items.list({ threadId }))),
    attempts: await Promise.all(items.map(({ id }) => store.queue.attempts(id))),
    stats: await store.queues.stats(),
    counts: await store.executions.count({ groupBy: "status" }),
    ...Object.fromEntries(await Promise.all(namespaces.map(async (namespace) => [namespace, await all(store[namespace].list())]))),
    history: await all(store.workers.history()),
    retention: await store.retention.get(),
  };
}

/** `attempt` rejects with the error, and leaves everything as it was. Answers the error. */
export async function refuses(store, attempt, code, pattern) {
  const before = await contents(store);
  const error = await rejects(attempt(), code, pattern);
  equal(await contents(store), before, `what the store holds after ${code} (${error.message})`);
  return error;
}

/** A value that is `levels` arrays and objects deep. */
export function nested(levels) {
  let value = [];
  for (let level = 1; level < levels; level++) value = level % 2 ? { a: value } : [value];
  return value;
}

/** Numbers from 0 up to 1, the same for each seed. */
export function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const range = (count) => Array.from({ length: count }, (_, index) => index);
