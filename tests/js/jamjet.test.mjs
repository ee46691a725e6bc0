// Importing a JamJet state database through the client. What becomes of each row is tested in tests/jamjet.rs.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { isRunkeepError, openStore } from "../../dist/index.js";

const file = await readFile(new URL("../fixtures/jamjet-0.3.2.db", import.meta.url));

test("a JamJet database is imported, once, from bytes, a buffer or a Blob", async () => {
  const store = await openStore({ name: "jamjet", sweep: false });
  const report = await store.imports.jamjet(new Blob([file]));
  assert.deepEqual(report.tables.workflow_executions, { read: 12, imported: 12, skipped: 0, rejected: 0 });
  assert.deepEqual(report.rejected, []);
  const tenants = [];
  for await (const tenant of store.tenants.list()) tenants.push(tenant.id);
  let executions = 0;
  for (const id of tenants) for await (const run of store.forTenant(id).executions.list()) executions += run.id ? 1 : 0;
  assert.equal(executions, 12);
  for (const again of [new Uint8Array(file), file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength)]) {
    const second = await store.imports.jamjet(again);
    assert.deepEqual(second.tables.workflow_executions, { read: 12, imported: 0, skipped: 12, rejected: 0 });
  }
  await store.close();
});

test("what is no JamJet database is refused, and nothing is changed", async () => {
  const store = await openStore({ name: "jamjet-bad", sweep: false });
  for (const bytes of [new Uint8Array(), new TextEncoder().encode("no database"), file.subarray(0, 5000)]) {
    await assert.rejects(store.imports.jamjet(bytes), (error) => isRunkeepError(error, "corrupt") || isRunkeepError(error, "invalid_argument"));
  }
  await assert.rejects(store.imports.jamjet("text"), (error) => isRunkeepError(error, "invalid_argument"));
  assert.equal((await store.executions.count()).total, 0);
  await store.close();
});
