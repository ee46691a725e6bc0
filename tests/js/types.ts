// What the types must accept and refuse: checked by tsc, never run.
import type { Store } from "../../www/client/index.js";

export async function checks(store: Store): Promise<void> {
  await store.events.append("e", { type: "node_failed", data: { nodeId: "n", error: "e", attempt: 1, retryable: true } });
  await store.events.append("e", { type: "x-anything", data: { at: new Date() } });
  await store.events.append("e", { type: "x-anything", data: 1 }, { expectedSequence: 3, timeoutMs: 10 });
  // @ts-expect-error a field is missing
  await store.events.append("e", { type: "node_failed", data: { nodeId: "n", error: "e", attempt: 1 } });
  // @ts-expect-error the type is not known
  await store.events.append("e", { type: "node_faild", data: {} });
  // @ts-expect-error the store writes this one itself
  await store.events.append("e", { type: "execution_state_set", data: { state: {} } });

  for await (const event of store.events.list({ executionId: "e" })) {
    if (event.type === "node_completed") event.data.durationMs.toFixed();
    if (event.type === "execution_status_set") event.data.to.toUpperCase();
  }

  const [item, event] = await store.batch((tx) => [
    tx.queue.enqueue({ queue: "q" }),
    tx.events.append("e", { type: "node_skipped", data: { nodeId: "n", reason: "r" } }),
  ]);
  item.maxAttempts.toFixed();
  event.sequence.toFixed();
  // @ts-expect-error the result of the second call is an event
  event.maxAttempts;

  const acme = store.forTenant("acme");
  await acme.queue.claim({ workerId: "w", queues: ["q"] });
  // @ts-expect-error what concerns the whole store is not there
  acme.tenants;
  // @ts-expect-error nor this
  acme.sweep;

  const [claimed] = await store.queue.claim({ workerId: "w", queues: ["q"] });
  if (claimed) await store.queue.complete(claimed, { output: { any: "thing" } });
  // @ts-expect-error an integer
  await store.queue.enqueue({ queue: "q", priority: "high" });
}
