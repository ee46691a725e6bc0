// What the types must accept and refuse: checked by tsc, never run.
import { openStore, type Blob as BlobRecord, type Store } from "../../www/client/index.js";

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
  const stop = store.subscribe({ topics: ["events", "items"], ids: ["e"] }, ({ reason, topics }) => {
    if (reason !== "start") topics.events?.map((id) => id.toUpperCase());
    // @ts-expect-error null stands for anything
    topics.items satisfies readonly string[] | undefined;
    // @ts-expect-error there is no such topic
    topics.evnts;
  });
  stop();
  store.subscribe((change) => change.reason);
  using subscription = acme.subscribe({ topics: "queues" }, () => {});
  subscription();
  // @ts-expect-error there is no such topic
  store.subscribe({ topics: "evnts" }, () => {});

  const running = store.live((s) => s.executions.list({ status: "running" }));
  const snapshot = running.getSnapshot();
  if (snapshot.status === "ready") snapshot.data.items.map(({ workflowId }) => workflowId.toUpperCase());
  // @ts-expect-error there may be no data yet
  snapshot.data.items;
  running.subscribe(() => {})();
  const sizes = acme.live(async (s) => (await s.queues.stats({ queue: "q" })) && [1]);
  sizes.getSnapshot().data?.map((size) => size.toFixed());
  // @ts-expect-error a live query only reads
  store.live((s) => s.executions.create({ workflowId: "w" }));
  // @ts-expect-error what concerns the whole store is not there
  acme.live((s) => s.tenants.list());
  store.live((s) => s.tenants.list());
  // @ts-expect-error nor what is no operation of a namespace
  store.live((s) => s.sweep());

  for await (const event of acme.events.tail({ executionId: "e", after: 3 }, { signal: new AbortController().signal })) {
    if (event.type === "node_completed") event.data.durationMs.toFixed();
  }
  // @ts-expect-error whose events
  store.events.tail({});
  for await (const { sequence, data } of acme.threadEvents.tail({ threadId: "t" })) sequence.toFixed(data as number);
  // @ts-expect-error of which thread
  store.threadEvents.tail({});
  for await (const piece of store.items.tail("i", { after: 3 })) piece.toUpperCase();
  store.live((s) => s.items.readText("i")).getSnapshot().data?.text.toUpperCase();

  store.on("ownerchange", ({ owner }) => owner === true)();
  // @ts-expect-error there is no such event
  store.on("ownerchanged", () => {});
  // @ts-expect-error it is the whole store that has an owner
  acme.on;
  const { owner, clientId } = await store.info();
  (owner satisfies boolean | undefined) && clientId?.toUpperCase();
  await openStore({ durability: "strict" });
  // @ts-expect-error relaxed or strict
  await openStore({ durability: "full" });
  // @ts-expect-error it concerns the whole store
  acme.exportDatabase;

  // @ts-expect-error an integer
  await store.queue.enqueue({ queue: "q", priority: "high" });

  // The platform's Blob and the record of that name are two things, and so are the two kinds of Event and Worker.
  const file = new File(["x"], "x.png");
  const kept = await store.blobs.put(file, { mediaType: "image/png" });
  kept.mediaType?.toUpperCase();
  for (const bytes of [new Blob(["x"]), new ArrayBuffer(1), new Uint8Array(1)]) await store.blobs.put(bytes);
  await store.imports.jamjet(new Blob(["x"]));
  await store.imports.chunk(file.slice(0, 1), { format: "codex" });
  // @ts-expect-error of which format
  await store.imports.chunk(file);
  await store.imports.claudeCode([file, { path: "x", blob: new Blob(["x"]) }]);
  // @ts-expect-error the record of a blob is not its bytes
  await store.blobs.put({ id: "x", size: 1, createdAt: 3 });
  // @ts-expect-error nor is what the store has answered
  await store.imports.jamjet(kept);
  kept satisfies BlobRecord;
  // @ts-expect-error nor are a platform's bytes the record
  file satisfies BlobRecord;

  // What comes as null is declared so, and not as absent.
  const { totals, buckets } = await store.usage.aggregate({ groupBy: "provider" });
  totals.costUsd satisfies number | null;
  totals.cacheHitPercent satisfies number | null;
  // @ts-expect-error without input it is null
  totals.cacheHitPercent satisfies number;
  // @ts-expect-error without a price it is null
  totals.costUsd satisfies number | undefined;
  totals.costUsdWithoutCache satisfies number | null;
  totals.cacheSavingsUsd satisfies number | null;
  buckets.map(({ key, costUsd }) => [key satisfies string | null, costUsd satisfies number | null]);
  const turn = await store.turns.get("u");
  turn?.usage?.costUsd satisfies number | null | undefined;
  // @ts-expect-error null where no response has a price
  turn?.usage?.costUsd satisfies number | undefined;
  // A record of usage leaves out what it does not know.
  (await store.usage.get("r"))?.costUsd satisfies number | undefined;
}
