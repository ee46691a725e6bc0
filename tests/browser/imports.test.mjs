// Imports on OPFS, in a real browser.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
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
