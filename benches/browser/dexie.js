// Dexie as its documentation has it: in the page, one transaction an operation. Commits are as durable as Chrome's default "relaxed" makes them.
import Dexie from "dexie";
import { event, item, large, largeLog, largeState, leaseMs, listed, output, pageSize, queue, Requests, run, workerId } from "./work.js";

export async function open(name) {
  const db = new Dexie(name);
  db.version(1).stores({
    executions: "++key, &id, status, changed",
    states: "execution",
    snapshots: "[execution+sequence]",
    events: "[execution+sequence], &id",
    queues: "++key, &name",
    // The fields that only pending and only claimed items have make what SQLite calls partial indexes.
    items: "++key, &id, queue, execution, [queue+ready.rank+ready.runAt+key], [queue+leaseExpiresAt]",
    requests: "[client+number]",
  });
  await db.open();
  const requests = new Requests();
  const change = (tables, work) =>
    requests.make((client, number, acked) =>
      db.transaction("rw", [...tables, "requests"], async () => {
        const now = Date.now();
        const answer = await work(now);
        await db.requests.add({ client, number, digest: crypto.getRandomValues(new Uint8Array(32)), answer: JSON.stringify(answer), at: now });
        await db.requests.where("[client+number]").between([client, 0], [client, acked], true, true).delete();
        return answer;
      }),
    );

  async function append(given, now) {
    const head = await db.executions.get({ id: run });
    const last = await db.executions.orderBy("changed").last();
    const record = newEvent(given, head.key, head.lastSequence + 1, now);
    await db.events.add(record);
    head.lastSequence++;
    head.updatedAt = now;
    if (last.key !== head.key) head.changed = last.changed + 1;
    if (head.lastSequence - head.snapshotAt >= 100) {
      head.snapshotAt = head.lastSequence;
      await db.snapshots.add({ execution: head.key, sequence: head.lastSequence, fold: { state: {} }, createdAt: now });
      await db.states.put({ execution: head.key, state: {} });
    }
    await db.executions.put(head);
    return { record, created: true };
  }

  async function enqueue(given, now) {
    const head = await db.executions.get({ id: given.executionId });
    const into = await db.queues.get({ name: given.queue });
    const record = newItem(given, head.key, into.key, now);
    await db.items.add(record);
    into.pending++;
    await db.queues.put(into);
    return { record, created: true };
  }

  return {
    read: () => db.executions.get({ id: run }),
    seed: (count) =>
      db.transaction("rw", db.tables, async () => {
        const now = Date.now();
        const execution = { workflowId: "bench", status: "pending", createdAt: now, updatedAt: now, snapshotAt: 0 };
        const [runKey, largeKey] = await db.executions.bulkAdd(
          [
            { ...execution, id: run, changed: 1, lastSequence: count, snapshotAt: count },
            { ...execution, id: large, changed: 2, lastSequence: largeLog.length },
          ],
          { allKeys: true },
        );
        const queues = [[listed, 200], [queue, count]];
        const keys = await db.queues.bulkAdd(queues.map(([name, pending]) => ({ name, pending, claimed: 0, completed: 0 })), { allKeys: true });
        for (const [index, [name, count]] of queues.entries()) {
          await db.items.bulkAdd(Array.from({ length: count }, (_, n) => newItem(item(n, name), runKey, keys[index], now)));
        }
        const logs = [[runKey, Array.from({ length: count }, (_, n) => event(n))], [largeKey, largeLog]];
        for (const [key, log] of logs) await db.events.bulkAdd(log.map((event, n) => newEvent(event, key, n + 1, now)));
        await db.states.put({ execution: largeKey, state: largeState });
      }),
    append: (n) => change(["executions", "events", "snapshots", "states"], (now) => append(event(n), now)),
    enqueue: (n) => change(["executions", "queues", "items"], (now) => enqueue(item(n), now)),
    claim: () =>
      change(["queues", "items"], async (now) => {
        const from = await db.queues.get({ name: queue });
        if (await db.items.where("[queue+leaseExpiresAt]").between([from.key, 0], [from.key, now], true, true).count()) throw new Error("the bench has none");
        const index = "[queue+ready.rank+ready.runAt+key]";
        const found = await db.items.where(index).between([from.key, Dexie.minKey], [from.key, Dexie.maxKey]).first();
        if (!found) return undefined;
        const { ready, ...rest } = found;
        const taken = { ...rest, status: "claimed", attempt: found.attempt + 1, fence: found.fence + 1, leaseExpiresAt: now + leaseMs, leaseMs, workerId, claimedAt: now };
        await db.items.put(taken);
        from.pending--;
        from.claimed++;
        await db.queues.put(from);
        return taken;
      }),
    complete: ({ id, fence }) =>
      change(["executions", "queues", "items"], async (now) => {
        const { leaseExpiresAt, leaseMs, ...held } = await db.items.get({ id });
        if (held.status !== "claimed" || held.fence !== fence) throw new Error("the lease is lost");
        const { lastSequence } = await db.executions.get(held.execution);
        const answer = { status: "completed", late: false, lastSequence, enqueued: [], dropped: false };
        const settlement = { call: "complete", digest: "0".repeat(64), answer };
        await db.items.put({ ...held, status: "completed", finishedAt: now, output, settlement });
        const of = await db.queues.get(held.queue);
        of.claimed--;
        of.completed++;
        await db.queues.put(of);
        return answer;
      }),
    async list() {
      const { key } = await db.queues.get({ name: listed });
      return db.items.where({ queue: key }).limit(pageSize).toArray();
    },
    async state() {
      const { key } = await db.executions.get({ id: large });
      return (await db.states.get(key)).state;
    },
    async counts() {
      const { pending, claimed, completed } = await db.queues.get({ name: queue });
      const { key } = await db.executions.get({ id: run });
      return { events: await db.events.where("[execution+sequence]").between([key, 0], [key, Infinity]).count(), pending, claimed, completed };
    },
    close: async () => db.close(),
  };
}

const newEvent = ({ type, data }, execution, sequence, createdAt) => ({ id: crypto.randomUUID(), execution, sequence, type, data, createdAt });

function newItem({ payload, nodeId }, execution, queue, now) {
  const made = { id: crypto.randomUUID(), queue, class: 0, execution, nodeId, status: "pending", priority: 0, attempt: 0, maxAttempts: 3, fence: 0 };
  return { ...made, runAt: now, ready: { rank: 0, runAt: now }, createdAt: now, payload };
}
