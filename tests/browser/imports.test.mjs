// Imports on OPFS, in a real browser.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { openBrowser } from "./harness.mjs";

let browser;
before(async () => (browser = await openBrowser()));
after(() => browser.close());

test("a JamJet database is imported into OPFS and is there after a reload", async () => {
  const text = (await readFile(new URL("../fixtures/jamjet-0.3.2.db", import.meta.url))).toString("base64");
  const page = await browser.page();
  const report = await page.evaluate(async (text) => {
    const { openStore } = await import("/runkeep/index.js");
    const store = await openStore({ name: "jamjet", sweep: false });
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const report = await store.imports.jamjet(new Blob([bytes]));
    await store.close();
    return report;
  }, text);
  assert.deepEqual(report.tables.events, { read: 124, imported: 124, skipped: 0, rejected: 0 });
  await page.reload();
  const found = await page.evaluate(async () => {
    const { openStore } = await import("/runkeep/index.js");
    const store = await openStore({ name: "jamjet", sweep: false });
    let [runs, events, differing] = [0, 0, 0];
    for await (const tenant of store.tenants.list()) {
      const own = store.forTenant(tenant.id);
      for await (const run of own.executions.list()) {
        runs++;
        for await (const event of own.events.list({ executionId: run.id })) events += event.type === "execution_reconciled" ? 0 : 1;
        const folded = await own.executions.materialize(run.id);
        if (folded.status !== run.status || JSON.stringify(folded.state) !== JSON.stringify(run.state)) differing++;
      }
    }
    await store.close();
    return { runs, events, differing };
  });
  assert.deepEqual(found, { runs: 12, events: 124, differing: 0 });
  browser.assertNoErrors();
});

/** In the page: what a store holds, to be compared. */
async function contentsOf(page, name) {
  return await page.evaluate(async (name) => {
    const { openStore } = await import("/runkeep/index.js");
    const store = await openStore({ name, sweep: false });
    const all = async (list) => {
      const rows = [];
      for await (const row of list) rows.push(row);
      return rows;
    };
    const found = { threads: [], usage: await all(store.usage.list()) };
    for (const thread of await all(store.threads.list())) {
      const of = { threadId: thread.id };
      found.threads.push({ thread, turns: await all(store.turns.list(of)), items: await all(store.items.list(of)), events: await all(store.threadEvents.list(of)) });
    }
    await store.close();
    return found;
  }, name);
}

/** In the page: files into a directory of OPFS, and its handle into the import. */
async function importFolder(page, name, method, files) {
  return await page.evaluate(
    async ([name, method, files]) => {
      const { openStore } = await import("/runkeep/index.js");
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle(`dropped-${name}`, { create: true });
      for (const [path, text] of Object.entries(files)) {
        const steps = path.split("/");
        let parent = folder;
        for (const step of steps.slice(0, -1)) parent = await parent.getDirectoryHandle(step, { create: true });
        const file = await (await parent.getFileHandle(steps.at(-1), { create: true })).createWritable();
        await file.write(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
        await file.close();
      }
      const store = await openStore({ name, sweep: false });
      const progress = [];
      const reports = await store.imports[method](folder, { onProgress: (at) => progress.push(at) });
      await store.close();
      return { reports, progress };
    },
    [name, method, files],
  );
}

async function filesOf(folder, wanted = () => true) {
  const files = {};
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    if (entry.isFile() && wanted(path)) files[relative(folder, path)] = (await readFile(path)).toString("base64");
  }
  return files;
}

const fixtures = fileURLToPath(new URL("../fixtures/", import.meta.url));
const recorded = process.env.RUNKEEP_SESSIONS;

test("dropped folders of sessions are imported into OPFS, once, and are there after a reload", async () => {
  const page = await browser.page();
  const sessions = await filesOf(join(fixtures, "sessions", "imports"));
  const zagens = await filesOf(join(fixtures, "zagens-0.8.1"));
  const { "claude.jsonl": claude, ...codex } = sessions;
  const counts = async () => {
    const sums = {};
    for (const [name, method, files] of [["a", "claudeCode", { "kite/claude.jsonl": claude }], ["a", "codex", codex], ["z", "zagensJson", zagens]]) {
      const { reports, progress } = await importFolder(page, `dropped ${name} ${method}`, method, files);
      assert.equal(progress.length, reports.length);
      sums[method] = reports.reduce(([imported, skipped], report) => [imported + report.imported, skipped + report.skipped], [0, 0]);
    }
    return sums;
  };
  const first = await counts();
  assert.deepEqual(first.zagensJson, [126, 0]);
  const before = await contentsOf(page, "dropped a claudeCode");
  await page.reload();
  const again = await counts();
  for (const [method, [imported, skipped]] of Object.entries(first)) assert.deepEqual(again[method], [0, imported + skipped], method);
  assert.deepEqual(await contentsOf(page, "dropped a claudeCode"), before);
  assert.ok(before.threads[0].items.length > 10 && before.usage.length === 8);
  browser.assertNoErrors();
});

test("recorded sessions add up in OPFS", { skip: recorded ? false : "RUNKEEP_SESSIONS names no folder of recorded sessions" }, async () => {
  const page = await browser.page();
  await importFolder(page, "recorded claude", "claudeCode", await filesOf(join(recorded, "claude")));
  await importFolder(page, "recorded codex", "codex", await filesOf(join(recorded, "codex")));
  const sums = async (name) => {
    const { usage } = await contentsOf(page, name);
    const sum = (field) => usage.reduce((total, record) => total + (record[field] ?? 0), 0);
    return ["noCacheTokens", "outputTokens", "cacheWriteTokens", "cacheReadTokens"].map(sum).concat(usage.length);
  };
  assert.deepEqual(await sums("recorded claude"), [645, 16_049, 971_984, 3_822_916, 79]);
  assert.deepEqual((await sums("recorded codex")).slice(0, 4), [2_084_270 - 1_894_272, 16_154, 0, 1_894_272]);
  browser.assertNoErrors();
});

test("an import goes on when its worker is killed, and after the page was; everything is there once", async () => {
  const page = await browser.page();
  const run = (name, kills, stopAfter) =>
    page.evaluate(
      async ([name, kills, stopAfter]) => {
        const workers = [];
        const OwnWorker = Worker;
        globalThis.Worker = class extends OwnWorker {
          constructor(...args) {
            super(...args);
            workers.push(this);
          }
        };
        const { openStore } = await import("/runkeep/index.js");
        const lines = [];
        for (let n = 0; n < 4000; n++) {
          const content = n % 2 ? [{ type: "text", text: `answer ${n} ${"x".repeat(600)}` }] : `prompt ${n} ${"y".repeat(600)}`;
          const message = n % 2 ? { role: "assistant", id: `m${n}`, model: "claude-sonnet-4-5", content, usage: { input_tokens: 1, output_tokens: 2 } } : { role: "user", content };
          lines.push(JSON.stringify({ type: message.role, sessionId: "killed", uuid: `u${n}`, timestamp: new Date(1.77e12 + n * 1000).toISOString(), message }));
        }
        const blob = new Blob([lines.join("\n")]);
        const store = await openStore({ name, sweep: false });
        const controller = new AbortController();
        let chunks = 0;
        const onProgress = () => {
          chunks++;
          if (kills.includes(chunks)) setTimeout(() => workers.at(-1).terminate(), 3);
          if (chunks === stopAfter) controller.abort("stopped");
        };
        const outcome = await store.imports.claudeCode([{ path: "a", blob }], { onProgress, signal: controller.signal }).then(
          ([report]) => report,
          (error) => String(error),
        );
        globalThis.Worker = OwnWorker;
        await store.close();
        return { outcome, workerCount: workers.length, chunks };
      },
      [name, kills, stopAfter],
    );
  const plain = await run("never killed", [], 0);
  assert.equal(plain.outcome.imported, 4000);
  const expected = await contentsOf(page, "never killed");
  assert.equal(expected.threads[0].items.length, 4000);

  const killed = await run("killed", [1, 3, 6], 0);
  assert.equal(killed.workerCount, 4, `${killed.chunks} chunks`);
  assert.equal(killed.outcome.imported + killed.outcome.skipped, 4000);
  assert.deepEqual(await contentsOf(page, "killed"), expected);

  assert.equal((await run("stopped", [2], 5)).outcome, "stopped");
  await page.reload();
  const resumed = await run("stopped", [2], 0);
  assert.ok(resumed.outcome.skipped > 0 && resumed.outcome.imported > 0);
  assert.deepEqual(await contentsOf(page, "stopped"), expected);
  browser.takeErrors();
});
