// Imports of session logs through the client, in Node. What becomes of each record is tested in tests/imports.rs.
import assert from "node:assert/strict";
import { openAsBlob } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { isRunkeepError, openStore } from "../../dist/index.js";

const fixtures = fileURLToPath(new URL("../fixtures/", import.meta.url));
const fixture = async (name) => new Blob([await readFile(join(fixtures, name))]);
const sessions = process.env.RUNKEEP_SESSIONS;

let count = 0;
async function withStore(run) {
  const store = await openStore({ name: `imports-${count++}`, sweep: false });
  try {
    await run(store);
  } finally {
    await store.close();
  }
}

async function all(list) {
  const rows = [];
  for await (const row of list) rows.push(row);
  return rows;
}

/** Everything that an import makes, in order. */
async function everything(store) {
  const threads = await all(store.threads.list());
  const rows = [];
  for (const { id } of threads) {
    rows.push(await all(store.turns.list({ threadId: id })), await all(store.items.list({ threadId: id })), await all(store.threadEvents.list({ threadId: id })));
  }
  return { threads, rows, usage: await all(store.usage.list()) };
}

/** A blob whose stream comes in pieces of that size. */
const inPieces = (bytes, size) =>
  Object.assign(new Blob([bytes]), {
    stream: () =>
      new ReadableStream({
        start(controller) {
          for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
          controller.close();
        },
      }),
  });

/** A directory handle as browsers have them. */
function handleOf(name, entries) {
  if (entries instanceof Blob) return { kind: "file", name, getFile: async () => new File([entries], name) };
  const handles = Object.entries(entries).map(([name, entry]) => handleOf(name, entry));
  return { kind: "directory", name, values: async function* () { yield* handles; } };
}

test("a session is imported once, with a report and its progress", () =>
  withStore(async (store) => {
    const blob = await fixture("sessions/imports/claude.jsonl");
    const progress = [];
    const [report] = await store.imports.claudeCode([{ path: "claude.jsonl", blob }], { onProgress: (at) => progress.push(at) });
    assert.equal(report.path, "claude.jsonl");
    assert.equal(report.threadId, "6b1f2d3c-0000-4000-8000-00000000aa01");
    assert.ok(report.imported > 20 && report.skipped === 1, JSON.stringify(report));
    assert.equal(report.rejected.length, report.rejectedCount);
    assert.deepEqual(progress, [{ path: "claude.jsonl", bytes: blob.size, totalBytes: blob.size, files: 1 }]);
    const before = await everything(store);
    const file = new File([blob], "again.jsonl");
    const [again] = await store.imports.claudeCode([file]);
    assert.deepEqual({ imported: again.imported, skipped: again.skipped, path: again.path }, { imported: 0, skipped: report.imported + 1, path: "again.jsonl" });
    assert.deepEqual(await everything(store), before);
  }));

for (const [method, name] of [["claudeCode", "claude"], ["codex", "codex"], ["codex", "codex-bare"]]) {
  test(`wherever the stream of ${name} is cut, the rows are the same`, async () => {
    const bytes = new Uint8Array(await readFile(join(fixtures, `sessions/imports/${name}.jsonl`)));
    let expected;
    for (const size of [bytes.length, 1, 7, 1000]) {
      await withStore(async (store) => {
        await store.imports[method]([{ path: "a.jsonl", blob: inPieces(bytes, size) }]);
        // When events without a time of their own were made is the time of the import.
        const found = await everything(store);
        expected ??= found;
        assert.deepEqual(found, expected, `pieces of ${size} bytes`);
      });
    }
  });
}

test("files of more than one chunk, with lines longer than a chunk, keep their line numbers", () =>
  withStore(async (store) => {
    const session = "00000000-0000-4000-8000-0000000000c1";
    const record = (number, text) =>
      JSON.stringify({ type: "user", sessionId: session, uuid: `u${number}`, timestamp: new Date(number * 1000).toISOString(), message: { role: "user", content: text } });
    const lines = [];
    for (let number = 1; number <= 400; number++) lines.push(number % 50 === 0 ? "not json" : record(number, "x".repeat(number === 77 ? 1_000_000 : 3_000)));
    const blob = inPieces(new TextEncoder().encode(lines.join("\n")), 65_536);
    const progress = [];
    const [report] = await store.imports.claudeCode([{ path: "long.jsonl", blob }], { onProgress: ({ bytes }) => progress.push(bytes) });
    assert.equal(report.imported, 392);
    assert.deepEqual(report.rejected.map(({ line }) => line), [50, 100, 150, 200, 250, 300, 350, 400]);
    assert.ok(progress.length > 4 && progress.at(-1) === blob.size, String(progress));
    assert.equal((await all(store.items.list({ threadId: session }))).length, 392);
  }));

test("a line over 64 MiB is passed over and told; the rest is there", () =>
  withStore(async (store) => {
    const record = (number) => JSON.stringify({ type: "user", sessionId: "s", uuid: `u${number}`, message: { role: "user", content: "hi" } });
    const blob = new Blob([record(1), "\n", new Uint8Array(70 << 20).fill(120), "\n", record(3), "\nbad\n"]);
    const [report] = await store.imports.claudeCode([{ path: "huge.jsonl", blob }]);
    assert.equal(report.imported, 2);
    assert.deepEqual(report.rejected.map(({ line }) => line).sort(), [2, 4]);
    assert.match(report.rejected.find(({ line }) => line === 2).reason, /too_large/);
  }));

test("directory handles are walked, other files passed over, side chains come after their session", () =>
  withStore(async (store) => {
    const claude = await fixture("sessions/imports/claude.jsonl");
    const folder = handleOf("projects", { kite: { "b.jsonl": claude, "agent-1.jsonl": claude, "notes.txt": new Blob(["no"]), deep: { "c.jsonl": claude } } });
    for (const files of [folder, [folder], (async function* () { yield folder; })()]) {
      const reports = await store.imports.claudeCode(files);
      assert.deepEqual(reports.map(({ path }) => path), ["projects/kite/b.jsonl", "projects/kite/agent-1.jsonl", "projects/kite/deep/c.jsonl"]);
    }
    assert.equal((await store.threads.list()).items.length, 1);
  }));

test("a zagens store is imported whatever the order of its files", async () => {
  const paths = (await readdir(join(fixtures, "zagens-0.8.1"), { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  let expected;
  for (const reverse of [false, true]) {
    await withStore(async (store) => {
      const files = [];
      for (const path of reverse ? paths.reverse() : paths) files.push({ path: path.slice(fixtures.length), blob: new Blob([await readFile(path)]) });
      const reports = await store.imports.zagensJson(files);
      assert.deepEqual(reports.filter(({ rejectedCount }) => rejectedCount > 0), []);
      assert.equal(reports.reduce((sum, { imported }) => sum + imported, 0), 126);
      const { totals, cacheTelemetryIncomplete } = await store.usage.aggregate();
      assert.deepEqual(
        [totals.inputTokens, totals.outputTokens, totals.cacheReadTokens, totals.noCacheTokens, totals.reasoningTokens, totals.turns, cacheTelemetryIncomplete],
        [18490, 3600, 6300, 12190, 720, 18, true],
      );
      const found = await everything(store);
      expected ??= found;
      assert.deepEqual(found.threads.map(({ id }) => id), expected.threads.map(({ id }) => id));
      assert.deepEqual(found.rows, expected.rows);
    });
  }
});

test("a signal that is none is refused by name", () =>
  withStore(async (store) => {
    const refused = { code: "invalid_argument", message: 'imports.codex: signal is an AbortSignal; got "x".' };
    await assert.rejects(store.imports.codex([], { signal: "x" }), refused);
  }));

test("an aborted import rejects with the reason; the next one brings the rest, once", () =>
  withStore(async (store) => {
    const session = "s";
    const lines = Array.from({ length: 3000 }, (_, number) => JSON.stringify({ type: "user", sessionId: session, uuid: `u${number}`, message: { role: "user", content: "x".repeat(1000) } }));
    const blob = new Blob([lines.join("\n")]);
    const controller = new AbortController();
    const reason = new Error("enough");
    const onProgress = () => controller.abort(reason);
    await assert.rejects(store.imports.claudeCode([{ path: "a", blob }], { onProgress, signal: controller.signal }), (error) => error === reason);
    const [report] = await store.imports.claudeCode([{ path: "a", blob }]);
    assert.ok(report.skipped > 0 && report.imported > 0 && report.skipped + report.imported === 3000, JSON.stringify(report));
    assert.equal((await all(store.items.list({ threadId: session }))).length, 3000);
  }));

test("what is no file is refused, and a file that cannot be read is told", () =>
  withStore(async (store) => {
    for (const files of [undefined, null, 5, {}, [5], [{ path: "a" }], [{ blob: new Blob() }]]) {
      await assert.rejects(store.imports.codex(files), (error) => isRunkeepError(error, "invalid_argument"), JSON.stringify(files));
    }
    await assert.rejects(store.imports.codex([], { progress: 1 }), (error) => isRunkeepError(error, "invalid_argument"));
    const blob = Object.assign(new Blob(["x"]), { stream: () => new ReadableStream({ start: (controller) => controller.error(new Error("gone")) }) });
    const [report] = await store.imports.codex([{ path: "gone", blob }]);
    assert.deepEqual(report.rejected.map(({ line }) => line), [0]);
    assert.match(report.rejected[0].reason, /gone/);
  }));

test("each tenant has its own imports", () =>
  withStore(async (store) => {
    await store.tenants.create({ id: "other" });
    const other = store.forTenant("other");
    const blob = await fixture("sessions/imports/codex.jsonl");
    const [first] = await store.imports.codex([{ path: "a", blob }]);
    const [second] = await other.imports.codex([{ path: "a", blob }]);
    assert.equal(second.imported, first.imported);
    assert.equal((await other.threads.list()).items.length, 1);
  }));

test("recorded sessions add up", { skip: sessions ? false : "RUNKEEP_SESSIONS names no folder of recorded sessions" }, async () => {
  const table = {
    "entire-2.0.76-small": [34, 744, 41_434, 122_052, 4],
    "happy-task_non_sdk": [25, 1_163, 28_106, 78_093, 5],
    "entire-2.0.76-compact": [102, 2_038, 649_094, 654_807, 13],
    "entire-2.1.12-gluedline": [346, 7_047, 168_250, 2_618_979, 42],
    "ccl-1.0.43-hugeline-0d3a8e6f": [138, 5_057, 85_100, 348_985, 15],
  };
  await withStore(async (store) => {
    const sums = [0, 0, 0, 0, 0];
    for (const [name, expected] of Object.entries(table)) {
      await store.imports.claudeCode([{ path: name, blob: await openAsBlob(join(sessions, "claude", `${name}.jsonl`)) }]);
      const { totals } = await store.usage.aggregate();
      const records = await all(store.usage.list());
      expected.forEach((figure, index) => (sums[index] += figure));
      assert.deepEqual([totals.noCacheTokens, totals.outputTokens, totals.cacheWriteTokens, totals.cacheReadTokens, records.length], sums, name);
    }
  });
  await withStore(async (store) => {
    const blobs = [];
    for (const name of await readdir(join(sessions, "codex"))) blobs.push({ path: name, blob: await openAsBlob(join(sessions, "codex", name)) });
    await store.imports.codex(blobs);
    const { totals } = await store.usage.aggregate();
    assert.deepEqual([totals.inputTokens, totals.cacheReadTokens, totals.outputTokens, totals.reasoningTokens], [2_084_270, 1_894_272, 16_154, 5_040]);
  });
});
