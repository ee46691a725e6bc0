// What may be given as a document, and what is refused rather than written as something else.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { failsWith, modules } from "./client-modules.mjs";

const { encode } = modules;

test("JSON values come out as JSON.stringify writes them", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (args) => {
      assert.equal(encode(args), JSON.stringify(args));
    }),
  );
});

test("a Date becomes its ISO string, undefined members vanish, toJSON is respected", () => {
  const money = { toJSON: () => ({ cents: 5 }) };
  const text = encode({ at: new Date(0), gone: undefined, list: [undefined], money, url: new URL("https://example.org/"), nothing: null });
  assert.deepEqual(JSON.parse(text), { at: "1970-01-01T00:00:00.000Z", list: [null], money: { cents: 5 }, url: "https://example.org/", nothing: null });
});

test("what JSON cannot hold is refused with its path", () => {
  const cyclic = { name: "loop" };
  cyclic.items = [{ parent: cyclic }];
  const cases = [
    [{ payload: { items: [0, 1, 2, { cost: NaN }] } }, "payload.items[3].cost is NaN, which JSON cannot hold."],
    [{ payload: -Infinity }, "payload is -Infinity, which JSON cannot hold."],
    [{ payload: { run() {} } }, "payload.run is a function, which JSON cannot hold."],
    [{ payload: [Symbol("s")] }, "payload[0] is a symbol, which JSON cannot hold."],
    [{ payload: { "a key": 1n } }, 'payload["a key"] is a bigint, which JSON cannot hold.'],
    [{ payload: new Map([[1, 2]]) }, "payload is a Map, which JSON would write as {}."],
    [{ payload: { tags: new Set() } }, "payload.tags is a Set, which JSON would write as {}."],
    [{ payload: { bytes: new Uint8Array(2) } }, "payload.bytes is a Uint8Array; bytes cannot be part of a document."],
    [{ payload: Buffer.from("x") }, "payload is a Uint8Array; bytes cannot be part of a document."],
    [{ payload: new ArrayBuffer(1) }, "payload is a ArrayBuffer, which JSON would write as {}."],
    [{ payload: [new Blob(["x"])] }, "payload[0] is a Blob, which JSON would write as {}."],
    [{ payload: Promise.resolve(1) }, "payload is a Promise, which JSON would write as {}."],
    [{ payload: new Date(NaN) }, "payload is an invalid Date."],
    [{ payload: { toJSON: () => NaN } }, "payload is NaN, which JSON cannot hold."],
    [{ payload: { toJSON: () => ({ deep: [1n] }) } }, "payload.deep[0] is a bigint, which JSON cannot hold."],
    [{ payload: cyclic }, "payload.items[0].parent contains itself."],
  ];
  for (const [args, message] of cases) assert.throws(() => encode(args), failsWith("invalid_argument", message));
});

test("the path is in the error's details", () => {
  assert.throws(() => encode({ payload: { a: [NaN] } }), (error) => error.details.path === "payload.a[0]");
});

test("an object that is named twice is no cycle", () => {
  const shared = { a: 1 };
  assert.equal(encode({ payload: [shared, shared] }), '{"payload":[{"a":1},{"a":1}]}');
});

test("an Error keeps its message, code and stack, wherever it stands", () => {
  const error = Object.assign(new TypeError("no route"), { code: "E_ROUTE", inner: 1n });
  const { failure, list } = JSON.parse(encode({ failure: error, list: [{ error: new Error("plain") }] }));
  assert.deepEqual(failure, { message: "no route", code: "E_ROUTE", stack: error.stack });
  assert.equal(list[0].error.message, "plain");
  assert.ok(!("code" in list[0].error));
});

test("nesting without end is too_large, not a stack overflow", () => {
  let deep = {};
  for (let level = 0; level < 200_000; level++) deep = { a: deep };
  assert.throws(() => encode({ payload: deep }), failsWith("too_large", /^payload\.a\.a.*… is nested deeper than 128 levels\.$/));
  let list = [];
  for (let level = 0; level < 200_000; level++) list = [list];
  assert.throws(() => encode({ payload: list }), failsWith("too_large"));
});

test("128 levels pass", () => {
  let document = 1;
  for (let level = 0; level < 128; level++) document = [document];
  assert.equal(encode({ payload: document }), JSON.stringify({ payload: document }));
});

test("__proto__ is a key like any other, and inherited members are not ours", () => {
  const document = JSON.parse('{"__proto__":{"polluted":true},"a":1}');
  assert.equal(encode({ payload: document }), '{"payload":{"__proto__":{"polluted":true},"a":1}}');
  assert.equal(encode({ payload: Object.create({ inherited: 1n }, { own: { value: 1, enumerable: true }, hidden: { value: 2n } }) }), '{"payload":{"own":1}}');
  assert.equal({}.polluted, undefined);
});
