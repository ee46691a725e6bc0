// The replay of a recording, on a store in memory whose calls fail now and then, as they do when its worker is killed.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { openStore, RunkeepError } from "../../dist/index.js";
import { root } from "../../scripts/run.mjs";
import { importConsole } from "./console-source.mjs";

const { fingerprint, storeRecording, completeRecording, recordsOf, startRun, ensureStarted, tryAgain, Workers, verify, difference } = await importConsole(
  "recording.ts",
  "replay.ts",
  "verify.ts",
);

const sample = fileOf("sample-session.jsonl", readFileSync(join(root, "www", "console", "sample-session.jsonl")));
const small = fileOf("claude.jsonl", readFileSync(join(root, "tests", "fixtures", "sessions", "claude.jsonl")));
const hostile = fileOf("claude-hostile.jsonl", readFileSync(join(root, "tests", "fixtures", "sessions", "claude-hostile.jsonl")));

function fileOf(name, content) {
  return new File([content], name);
}

let stores = 0;
async function openMemory(t, sweep = { intervalMs: 20 }) {
  const store = await openStore({ name: `replay-${++stores}`, storage: "memory", sweep });
  t.after(() => store.close());
  return store;
}

async function record(store, file, onProgress = () => {}) {
  return storeRecording(store, file, await fingerprint(file), onProgress);
}

function workersOf(store, t, options = {}) {
  const troubles = [];
  const workers = new Workers(store, { count: 3, speed: "max", isHidden: () => false, onTrouble: (what, error) => troubles.push([what, error]), ...options });
  t.after(() => workers.stop());
  workers.start();
  return { workers, troubles };
}

/** Resolves to the execution once it is as asked for. */
async function until(store, id, isSo) {
  for (;;) {
    const execution = await store.executions.get(id);
    if (await isSo(execution)) return execution;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const isCompleted = (execution) => execution.status === "completed";

async function allOf(list) {
  const items = [];
  for await (const item of list) items.push(item);
  return items;
}

/** A store in which calls fail as `decide(operation)` says: "before" they reach it, or "after" they took effect. */
function failing(store, decide) {
  const gone = () => Promise.reject(new RunkeepError("timeout", "the store's worker ended while the call ran"));
  const namespace = (name) =>
    Object.fromEntries(
      Object.entries(store[name]).map(([method, call]) => {
        const path = `${name}.${method}`;
        const fails = async (...args) => {
          const when = decide(path);
          if (when === "before") return gone();
          const result = await call(...args);
          return when === "after" ? gone() : result;
        };
        if (method !== "list") return [method, fails];
        const list = (...args) => ({
          then: (resolve, reject) => fails(...args).then(resolve, reject),
          async *[Symbol.asyncIterator]() {
            if (decide(path) !== undefined) await gone();
            yield* call(...args);
          },
        });
        return [method, list];
      }),
    );
  return Object.fromEntries(["executions", "events", "queue", "workers"].map((name) => [name, namespace(name)]));
}

test("a run's log is the recorded session, each step once and in order", async (t) => {
  const store = await openMemory(t);
  for (const file of [sample, hostile]) {
    const recording = await record(store, file);
    const run = await startRun(store, recording, file.name);
    const { workers, troubles } = workersOf(store, t);
    workers.setRuns([run.id]);
    const completed = await until(store, run.id, isCompleted);
    assert.deepEqual(completed.output, { steps: recording.steps });
    assert.deepEqual(troubles, []);
    const events = await allOf(store.events.list({ executionId: run.id }));
    assert.equal(events[0].type, "workflow_started");
    assert.equal(events.at(-1).type, "workflow_completed");
    assert.deepEqual(events.slice(1, -1).map(({ data }) => data.step), Array.from({ length: recording.steps }, (_, i) => i + 1));
    assert.deepEqual(
      events.slice(1, -1).map(({ type, data: { line, record } }) => ({ type, line, record })),
      (await allOf(recordsOf(store, recording.id))).map(({ kind, line, record }) => ({ type: `x-session.${kind}`, line, record })),
    );
    const text = `${recording.steps} steps, each once.`;
    assert.deepEqual(await verify(store, completed), { outcome: "equal", text: `The log equals the recording: ${text}` });
    assert.deepEqual(await verify(store, completed, file), { outcome: "equal", text: `The log equals the file: ${text}` });
  }
});

test("whatever calls fail, before or after they took effect, the log ends up the same", async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.infiniteStream(fc.oneof({ weight: 11, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom("before", "after") })), async (fates) => {
      const store = await openStore({ name: `replay-${++stores}`, storage: "memory", sweep: { intervalMs: 20 } });
      let workers;
      try {
        // Two failures in a row are waited out; ten would be a store that is gone for good.
        let last;
        const flaky = failing(store, (path) => (path === "workers.markDead" || last !== undefined ? (last = undefined) : (last = fates.next().value)));
        const run = await startRun(flaky, await record(flaky, small), small.name);
        workers = new Workers(flaky, { count: 2, speed: "max", leaseMs: 50, isHidden: () => false, onTrouble() {} });
        workers.start();
        workers.setRuns([run.id]);
        const completed = await until(store, run.id, isCompleted);
        const verdict = await verify(store, completed, small);
        assert.equal(verdict.outcome, "equal", verdict.text);
      } finally {
        workers?.stop();
        await store.close();
      }
    }),
    { numRuns: 5 },
  );
});

test("a recording that broke off is no recording until the same file comes again, and is then finished", async (t) => {
  const store = await openMemory(t);
  const lines = readFileSync(join(root, "www", "console", "sample-session.jsonl"), "utf8");
  const file = fileOf("long.jsonl", lines.repeat(20));
  const print = await fingerprint(file);
  let chunks = 0;
  const dies = failing(store, (path) => {
    if (path === "events.appendMany") chunks++;
    if (chunks > 2) throw new Error("the page is gone");
  });
  await assert.rejects(storeRecording(dies, file, print, () => {}), /the page is gone/);
  assert.equal(await completeRecording(store, print), null);
  const [broken] = await allOf(store.executions.list({ workflowId: "recording", status: "running" }));
  assert.equal(broken.input.file, "long.jsonl");

  const renamed = fileOf("renamed.jsonl", lines.repeat(20));
  const recording = await storeRecording(store, renamed, await fingerprint(renamed), () => {});
  assert.equal(recording.id, broken.id);
  assert.equal(recording.steps, 36 * 20);
  const recorded = await allOf(recordsOf(store, recording.id));
  assert.deepEqual(recorded.map(({ step }) => step), Array.from({ length: recording.steps }, (_, i) => i + 1));
  // And once more: nothing is stored twice.
  const before = (await store.executions.get(recording.id)).lastSequence;
  assert.deepEqual(await record(store, file), recording);
  assert.equal((await store.executions.get(recording.id)).lastSequence, before);
});

test("a file of another format leaves no trace", async (t) => {
  const store = await openMemory(t);
  await assert.rejects(record(store, fileOf("x.jsonl", '{"a":1}\n')), { name: "UnknownFormatError" });
  assert.deepEqual((await store.executions.list()).items, []);
});

test("the same content is the same file, whatever its name and however it is read", async () => {
  const bytes = Buffer.alloc(3 << 20, "abc");
  const one = await fingerprint(new Blob([bytes]));
  assert.equal(await fingerprint(new File([bytes.subarray(0, 7), bytes.subarray(7)], "other")), one);
  assert.notEqual(await fingerprint(new Blob([bytes.subarray(1)])), one);
  assert.match(await fingerprint(new Blob([])), /^[0-9a-f]{64}$/);
});

test("a run whose first item was lost to a crash is started again, once", async (t) => {
  const store = await openMemory(t);
  const recording = await record(store, sample);
  const dies = failing(store, (path) => {
    if (path === "queue.enqueue") throw new Error("the page is gone");
  });
  await assert.rejects(startRun(dies, recording, sample.name), /the page is gone/);
  const [run] = (await store.executions.list({ workflowId: "session-replay" })).items;
  assert.equal(run.status, "pending");
  await ensureStarted(store, run);
  await ensureStarted(store, run);
  assert.equal((await store.queue.list({ executionId: run.id })).items.length, 1);
});

test("a paused run stands still with its item unclaimed, and goes on where it was", async (t) => {
  const store = await openMemory(t);
  const recording = await record(store, sample);
  const run = await startRun(store, recording, sample.name);
  const { workers } = workersOf(store, t, { speed: "slow" });
  workers.setRuns([run.id]);
  await until(store, run.id, async () => (await store.queues.stats({})).counts.claimed === 1);
  // Long before the step's time is over the run is taken from the workers, and the item comes back at once.
  workers.setRuns([]);
  await until(store, run.id, async () => (await store.queues.stats({})).counts.pending === 1);
  const [item] = (await store.queue.list({ executionId: run.id })).items;
  assert.equal(item.attempt, 0);
  workers.setSpeed("max");
  workers.setRuns([run.id]);
  assert.equal((await verify(store, await until(store, run.id, isCompleted))).outcome, "equal");
});

test("a hidden page, whose timers may sleep for a minute, takes longer leases, and a page that goes says so", async (t) => {
  const store = await openMemory(t);
  const run = await startRun(store, await record(store, sample), sample.name);
  const page = { hidden: true };
  const { workers } = workersOf(store, t, { count: 1, speed: "slow", isHidden: () => page.hidden });
  workers.setRuns([run.id]);
  const newest = async () => (await store.queue.list({ executionId: run.id, order: "desc", limit: 1 })).items[0];
  const lease = async () => (await newest()).leaseExpiresAt - Date.now();
  await until(store, run.id, async () => (await newest()).status === "claimed");
  assert.ok((await lease()) > 60_000);
  page.hidden = false;
  await workers.visibilityChanged();
  assert.ok((await lease()) <= 5000);
  const [worker] = (await store.workers.list({ pool: "console" })).items;
  assert.equal(worker.workerId, workers.ids[0]);
  assert.deepEqual(worker.queues, [`replay/${run.id}`]);
  workers.stop();
  await until(store, run.id, async () => (await newest()).status !== "claimed");
  assert.deepEqual((await store.workers.list({ pool: "console" })).items, []);
});

test("a change of speed counts at once, in the middle of a step", async (t) => {
  const store = await openMemory(t);
  const run = await startRun(store, await record(store, sample), sample.name);
  const { workers } = workersOf(store, t, { speed: "slow" });
  workers.setRuns([run.id]);
  await until(store, run.id, async () => (await store.queues.stats({})).counts.claimed === 1);
  const began = performance.now();
  workers.setSpeed("max");
  await until(store, run.id, isCompleted);
  assert.ok(performance.now() - began < 1900, "the slow step was waited out");
});

test("a step that the store refuses is dead-lettered with the reason, and can be tried again", async (t) => {
  const store = await openMemory(t);
  const run = await startRun(store, await record(store, sample), sample.name);
  let refuse = true;
  const refusing = new Proxy(store, {
    get: (target, name) =>
      name !== "queue"
        ? target[name]
        : { ...target.queue, complete: (item, result) => (refuse && item.nodeId === "step-5" ? Promise.reject(new RunkeepError("too_large", "data is too large")) : target.queue.complete(item, result)) },
  });
  const { workers, troubles } = workersOf(refusing, t);
  workers.setRuns([run.id]);
  const newest = async () => (await store.queue.list({ executionId: run.id, order: "desc", limit: 1 })).items[0];
  await until(store, run.id, async () => (await newest()).status === "dead_lettered");
  const item = await newest();
  assert.equal(item.nodeId, "step-5");
  assert.match(item.lastError.message, /too_large: data is too large/);
  assert.equal(troubles.length, 1);
  assert.equal((await store.executions.get(run.id)).status, "running");
  refuse = false;
  await tryAgain(store, item);
  assert.equal((await verify(store, await until(store, run.id, isCompleted), sample)).outcome, "equal");
});

test("a comparison says what differs", async (t) => {
  const store = await openMemory(t);
  const run = await startRun(store, await record(store, sample), sample.name);
  assert.deepEqual(await verify(store, run), { outcome: "partial", text: "The run is under way. Its log so far, 0 steps, equals the recording." });
  const { workers } = workersOf(store, t);
  workers.setRuns([run.id]);
  const completed = await until(store, run.id, isCompleted);

  const text = await sample.text();
  const verdict = async (content) => (await verify(store, completed, new Blob([content]))).text;
  assert.equal(await verdict(text.replace("four tests", "five tests")), "The log differs from the file: event 36, where step 35 belongs: the record differs at record.message.content[0].text.");
  assert.equal(await verdict(text.replace(/\n$/, `\n${text.split("\n")[3]}\n`)), "The log differs from the file: it ends after 36 steps, and the file has more.");
  assert.equal(await verdict(text.split("\n").slice(0, 20).join("\n")), "The log differs from the file: event 22 is one step more than the 20 that the file has.");
  assert.equal(await verdict(`\n${text}`), "The log differs from the file: event 2, where step 1 belongs: its line is 1 instead of 2.");
});

test("two JSON values are equal in everything, or the first place where they are not is named", () => {
  const json = fc.jsonValue();
  fc.assert(fc.property(json, (value) => difference(value, structuredClone(value)) === undefined));
  fc.assert(fc.property(json, json, (a, b) => (difference(a, b) === undefined) === (JSON.stringify(a) === JSON.stringify(b))));
  assert.equal(difference({ a: [1, { b: 2 }] }, { a: [1, { b: 3 }] }), "record.a[1].b");
  assert.equal(difference({ a: 1, b: 2 }, { b: 2, a: 1 }), "record.a");
  assert.equal(difference({ a: 1 }, {}), "record.a");
  assert.equal(difference([1], [1, 2]), "record[1]");
  assert.equal(difference({}, []), "record");
});
