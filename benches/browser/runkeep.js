import { openStore } from "/runkeep/index.js";
import { event, item, large, largeLog, leaseMs, listed, output, pageSize, queue, run, text, workerId } from "./work.js";

export async function open(name) {
  const store = await openStore({ name });
  return {
    read: () => store.executions.get(run),
    async seed(count) {
      await store.executions.create({ id: run, workflowId: "bench" });
      await inParts(200, (n) => item(n, listed), (items) => store.queue.enqueueMany(items));
      await inParts(count, item, (items) => store.queue.enqueueMany(items));
      await inParts(count, event, (events) => store.events.appendMany(run, events));
      await store.executions.create({ id: large, workflowId: "bench" });
      await store.executions.patchState(large, { patch: { text } });
      await inParts(largeLog.length, (n) => largeLog[n], (events) => store.events.appendMany(large, events));
    },
    append: (n) => store.events.append(run, event(n)),
    enqueue: (n) => store.queue.enqueue(item(n)),
    claim: async () => (await store.queue.claim({ workerId, queues: [queue], leaseMs }))[0],
    complete: (claimed) => store.queue.complete(claimed, { output }),
    list: async () => (await store.queue.list({ queue: listed, limit: pageSize })).items,
    state: async () => (await store.executions.materialize(large)).state,
    // With a sequence it is folded anew each time.
    stateAnew: async () => (await store.executions.materialize(large, { at: largeLog.length + 1 })).state,
    async counts() {
      const { pending, claimed, completed } = (await store.queues.stats({ queue })).counts;
      return { events: (await store.executions.get(run)).lastSequence, pending, claimed, completed };
    },
    close: () => store.close(),
  };
}

async function inParts(count, make, send) {
  for (let from = 0; from < count; from += 500) await send(Array.from({ length: Math.min(500, count - from) }, (_, n) => make(from + n)));
}
