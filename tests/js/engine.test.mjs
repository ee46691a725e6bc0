// The engine as a host drives it: requests that are sent again, changes, durability, the export.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";
import init, { Engine } from "../../target/wasm/runkeep.js";

before(() => init({ module_or_path: readFile(new URL("../../dist/runkeep.wasm", import.meta.url)) }));

const open = () => Engine.open({ name: "engine", storage: "memory", nowMs: 1_000 });

const texts = (calls) => calls.flatMap(([operation, args]) => [operation, JSON.stringify(args)]);

const create = ["executions.create", { workflowId: "w" }];

test("a call that is sent again is answered from the log", async () => {
  const engine = await open();
  const batch = (again, acked = 0) => ({
    calls: texts([create, ["queue.enqueue", { queue: "q" }], ["executions.count", {}]]),
    nowMs: 2_000,
    clients: ["a", "b"],
    requests: [0, 7, again, 1, 7, again, -1, 0, 0],
    acked: [acked, 0],
  });
  const first = engine.run(batch(0));
  const second = engine.run(batch(1));
  assert.deepEqual(second.answers, first.answers);
  assert.equal(JSON.parse(first.answers[0]).ok.createdAt, 2_000);
  assert.deepEqual(JSON.parse(second.answers[2]), { ok: { total: 1 } });
  assert.deepEqual(JSON.parse(first.changes), [
    { tenant: "default", topics: { executions: [JSON.parse(first.answers[0]).ok.id], items: ["q"], queues: ["q"] } },
  ]);
  assert.equal("changes" in second, false);
  // Another call under a number that is taken.
  const { answers } = engine.run({ calls: texts([["queue.enqueue", { queue: "other" }]]), clients: ["a"], requests: [0, 7, 1], acked: [0] });
  assert.equal(JSON.parse(answers[0]).error.code, "conflict");
  // What was acknowledged is forgotten with the next call that changes something: then it counts as never made.
  engine.run({ calls: texts([create]), clients: ["a"], requests: [0, 8, 0], acked: [7] });
  const after = engine.run({ calls: texts([create]), clients: ["a"], requests: [0, 7, 1], acked: [6] });
  assert.notDeepEqual(after.answers[0], first.answers[0]);
  engine.forgetClients(["a"]);
  engine.close();
});

test("calls need neither clients nor requests", async () => {
  const engine = await open();
  const outcome = engine.run({ calls: texts([create, ["nonsense", {}]]) });
  assert.equal(outcome.answers.length, 2);
  assert.equal(JSON.parse(outcome.answers[1]).error.code, "unsupported");
  assert.deepEqual(engine.run({ calls: [] }), { answers: [] });
  assert.deepEqual(Object.keys(engine.run({ calls: texts([["executions.count", {}]]) })), ["answers"]);
  engine.close();
});

test("durability is one of two words", async () => {
  const engine = await open();
  engine.setDurability("strict");
  engine.setDurability("relaxed");
  assert.throws(() => engine.setDurability("eternal"), { code: "invalid_argument", details: { path: "durability" } });
  engine.close();
  assert.throws(() => engine.setDurability("strict"), { code: "closed" });
  assert.throws(() => engine.forgetClients([]), { code: "closed" });
});

test("the export is a SQLite file with everything in it", async () => {
  const engine = await open();
  engine.run({ calls: texts([create]) });
  const { answers } = engine.run({ calls: texts([["exportDatabase", {}]]) });
  const { text, bytes } = answers[0];
  assert.deepEqual(JSON.parse(text).ok.size, bytes.length);
  assert.equal(Buffer.from(bytes.subarray(0, 16)).toString(), "SQLite format 3\0");
  assert.deepEqual([...bytes.subarray(18, 20)], [1, 1]);
  engine.close();
});
