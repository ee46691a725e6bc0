import { equal, match, ok, rejects, show } from "./assert.mjs";
import { all, claimOne, contents, enqueue, nested, refuses, register, start } from "./kit.mjs";

const mebibyte = 1 << 20;
const limit = 16 * mebibyte;

/** Every place where a caller's document is kept: puts one there and reads it back. */
const places = {
  input: async (store, document) => (await store.executions.get((await start(store, { input: document })).id)).input,
  metadata: async (store, document) => (await store.executions.get((await start(store, { metadata: document })).id)).metadata,
  payload: async (store, document) => (await store.queue.get((await enqueue(store, { payload: document, queue: "payloads" })).id)).payload,
  output: async (store, document) => {
    await enqueue(store);
    const item = await claimOne(store);
    await store.queue.complete(item, { output: document });
    return (await store.queue.get(item.id)).output;
  },
  progress: async (store, document) => {
    await enqueue(store);
    const item = await claimOne(store);
    await store.queue.renew(item, { progress: document });
    const { progress } = await store.queue.get(item.id);
    await store.queue.complete(item);
    return progress;
  },
  data: async (store, document) => {
    const { id } = await start(store);
    await store.events.append(id, { type: "x-a", data: document });
    return (await store.events.list({ executionId: id })).items[0].data;
  },
  "metadata of a worker": async (store, document) => {
    await register(store, { metadata: document });
    return (await store.workers.list()).items[0].metadata;
  },
  "metadata of a thread": async (store, document) => (await store.threads.get((await store.threads.create({ metadata: document })).id)).metadata,
  "metadata of a turn": async (store, document) => (await store.turns.get((await store.turns.create({ threadId: await thread(store), metadata: document })).id)).metadata,
  "data of a thread's item": async (store, document) => (await store.items.get((await threadItem(store, { data: document })).id)).data,
  "metadata of a thread's item": async (store, document) => (await store.items.get((await threadItem(store, { metadata: document })).id)).metadata,
  prompt: async (store, document) => (await store.inbox.get((await store.inbox.admit(await thread(store), { prompt: document })).id)).prompt,
  request: async (store, document) => (await store.inbox.get((await store.inbox.admit(await thread(store), { prompt: "p", request: document })).id)).request,
  "data of a thread event": async (store, document) => {
    const threadId = await thread(store);
    await store.threadEvents.append(threadId, { type: "x", data: document });
    return (await store.threadEvents.list({ threadId })).items[0].data;
  },
};

const thread = async (store) => (await store.threads.create({})).id;
const threadItem = async (store, more) => store.items.create({ threadId: await thread(store), kind: "tool_call", ...more });

const documents = [
  { a: { b: [1, { c: 2 }] } },
  [],
  {},
  [[], [{}], { "": { "": [] } }],
  "",
  0,
  true,
  false,
  -1.5,
  1e21,
  5e-324,
  Number.MAX_SAFE_INTEGER,
  "line\nbreak\ttab \" \\ / \u007f \u2028 \u2029 \ufeff",
  "naïve 漢字 🎉 👩‍👩‍👧",
  ...[100, 4_094, 4_095, 70_000].map((length) => "x".repeat(length)),
  { "key with \"quotes\", commas and 🎉": 1, 'it\'s; DROP TABLE items --': 2, "\u0000": 3 },
  JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1, "toString": null}'),
];

export const documentCases = {
  ...Object.fromEntries(
    Object.entries(places).map(([place, roundTrip]) => [
      `${place}: any JSON value comes back as it was given, as plain objects`,
      async ({ store }) => {
        for (const document of documents) equal(await roundTrip(store, document), document, `${place} ${show(document)}`);
      },
    ]),
  ),

  "null is a document like any other": async ({ store }) => {
    const found = {};
    for (const [place, roundTrip] of Object.entries(places)) found[place] = await roundTrip(store, null);
    // A thread always has metadata.
    equal(found, { ...Object.fromEntries(Object.keys(places).map((place) => [place, null])), "metadata of a thread": {} });
  },

  "the state of an execution holds any JSON": async ({ store }) => {
    const { id } = await start(store);
    await enqueue(store, { executionId: id, nodeId: "n" });
    const state = Object.fromEntries(documents.map((document, index) => [`d${index}`, document]));
    // A merge patch with a null inside an object removes, so that one document cannot be there as it is.
    delete state[`d${documents.length - 1}`];
    await store.queue.complete(await claimOne(store), { statePatch: state });
    equal((await store.executions.get(id)).state, state);
    equal((await store.executions.materialize(id)).state, state);
  },

  "a Date becomes its ISO string, and members that are undefined vanish": async ({ store }) => {
    const date = new Date(Date.UTC(2026, 1, 3, 4, 5, 6, 7));
    const { id } = await enqueue(store, { payload: { at: date, nothing: undefined, in: [{ nothing: undefined, at: date }] }, priority: undefined });
    equal((await store.queue.get(id)).payload, { at: "2026-02-03T04:05:06.007Z", in: [{ at: "2026-02-03T04:05:06.007Z" }] });
  },

  "what JSON cannot hold is refused, and its path is named": async ({ store }) => {
    const cyclic = { deep: {} };
    cyclic.deep.again = cyclic;
    const values = {
      function: () => {},
      symbol: Symbol("s"),
      bigint: 10n,
      NaN: Number.NaN,
      Infinity: Number.POSITIVE_INFINITY,
      "-Infinity": Number.NEGATIVE_INFINITY,
      Map: new Map([["a", 1]]),
      Set: new Set([1]),
      Uint8Array: new Uint8Array(3),
      Float64Array: new Float64Array(3),
      ArrayBuffer: new ArrayBuffer(3),
      DataView: new DataView(new ArrayBuffer(3)),
      Blob: new Blob(["b"]),
      "a cycle": cyclic,
      "an invalid Date": new Date(Number.NaN),
    };
    for (const [name, value] of Object.entries(values)) {
      const where = name === "a cycle" ? /payload\.items\[3\]\.cost\.deep\.again/ : /payload\.items\[3\]\.cost/;
      const attempt = () => enqueue(store, { payload: { items: [0, 1, 2, { cost: value }] } });
      await refuses(store, attempt, "invalid_argument", where).catch((error) => Promise.reject(new Error(`${name}: ${error.message}`)));
    }
    const { id } = await start(store);
    await refuses(store, () => store.events.append(id, { type: "x-a", data: { m: new Map() } }), "invalid_argument", /data\.m/);
    await refuses(store, () => store.executions.create({ workflowId: "w", input: Number.NaN }), "invalid_argument", /input/);
    await refuses(store, () => store.events.appendMany(id, [{ type: "x-a" }, { type: "x-a", data: 1n }]), "invalid_argument", /events\[1\]\.data/);
  },

  "half an emoji becomes U+FFFD, and whole ones and NUL survive": async ({ store }) => {
    const given = { high: "cut \ud83c", low: "\udf89 cut", swapped: "\udf89\ud83c", whole: "🎉\ud83c\udf89", nul: "a\u0000b", "key \ud800": 1, text: "\\ud800" };
    const kept = { high: "cut \ufffd", low: "\ufffd cut", swapped: "\ufffd\ufffd", whole: "🎉🎉", nul: "a\u0000b", "key \ufffd": 1, text: "\\ud800" };
    for (const [place, roundTrip] of Object.entries(places)) equal(await roundTrip(store, given), kept, place);
    const { id } = await start(store);
    await store.events.append(id, { type: "node_completed", data: { nodeId: "n", output: given, statePatch: given, durationMs: 1 } });
    match(await store.executions.get(id), { state: kept });
    match(await store.executions.materialize(id), { state: kept, completedNodes: { n: kept } });
    await enqueue(store);
    const item = await claimOne(store);
    await store.queue.fail(item, { error: "cut \ud83c", retryable: false });
    match(await store.queue.get(item.id), { lastError: "cut \ufffd" });
  },

  "what was written comes back as the same text, numbers beyond 2^53 included": async ({ openRaw }) => {
    const { call } = await openRaw();
    const text = '{ "n":9007199254740993, "f":1.10, "e":1E400,\t"u":"\\u00e9", "dup":1,"dup":2, "z":-0 }';
    const results = {
      payload: ['queue.enqueue', `{"queue":"q","id":"i","payload":${text}}`, "queue.get", '{"id":"i"}'],
      input: ["executions.create", `{"workflowId":"w","id":"e","input":${text}}`, "executions.get", '{"id":"e"}'],
      data: ["events.append", `{"executionId":"e","type":"x-a","data":${text}}`, "events.list", '{"executionId":"e"}'],
      metadata: ["threads.create", `{"id":"t","metadata":${text}}`, "threads.list", "{}"],
      prompt: ["inbox.admit", `{"id":"p","threadId":"t","prompt":${text}}`, "inbox.next", '{"threadId":"t"}'],
    };
    for (const [place, [write, args, read, which]] of Object.entries(results)) {
      const written = await call(write, args);
      ok(written.error === undefined && written.text.includes(`"${place}":${text}`), `the answer to ${write}: ${written.text}`);
      const answer = await call(read, which);
      ok(answer.text.includes(`"${place}":${text}`), `the answer to ${read}: ${answer.text}`);
    }
    match(await call("items.create", `{"id":"i","threadId":"t","kind":"tool_call","data":${text}}`), { ok: { created: true } });
    match(await call("threadEvents.append", `{"threadId":"t","type":"x","data":${text}}`), { ok: 1 });
    for (const operation of ["items.list", "threadEvents.list"]) {
      const answer = await call(operation, '{"threadId":"t"}');
      ok(answer.text.includes(`"data":${text}`), `the answer to ${operation}: ${answer.text}`);
    }
  },

  "a number beyond 2^53 in the state keeps its digits": async ({ openRaw }) => {
    const { store, call } = await openRaw();
    await start(store, { id: "e" });
    const data = '{"nodeId":"n","output":9007199254740993,"statePatch":{"n":9007199254740993},"durationMs":1}';
    await call("events.append", `{"executionId":"e","type":"node_completed","data":${data}}`);
    for (const operation of ["executions.get", "executions.materialize"]) {
      const { text } = await call(operation, '{"id":"e"}');
      ok(text.includes('"state":{"n":9007199254740993}'), `the answer to ${operation}: ${text}`);
    }
  },

  "a document may have 128 levels, wherever it is": async ({ store }) => {
    const deep = nested(128);
    for (const [place, roundTrip] of Object.entries(places)) equal(await roundTrip(store, deep), deep, place);
  },

  "a document of 129 levels is too_large, wherever it is": async ({ store }) => {
    const { id } = await start(store);
    await register(store);
    const threadId = await thread(store);
    for (const levels of [129, 1_000, 100_000]) {
      const deep = nested(levels);
      const queue = "deep";
      await refuses(store, () => start(store, { input: deep }), "too_large", /input/);
      await refuses(store, () => start(store, { metadata: deep }), "too_large", /metadata/);
      await refuses(store, () => store.queue.enqueueMany([{ queue }, { queue, payload: deep }]), "too_large", /items\[1\]\.payload/);
      await refuses(store, () => store.events.append(id, { type: "x-a", data: deep }), "too_large", /data/);
      await refuses(store, () => register(store, { metadata: deep }), "too_large", /metadata/);
      await refuses(store, () => store.threads.create({ metadata: deep }), "too_large", /metadata/);
      await refuses(store, () => store.turns.create({ threadId, metadata: deep }), "too_large", /metadata/);
      await refuses(store, () => store.items.create({ threadId, kind: "tool_call", data: deep }), "too_large", /data/);
      await refuses(store, () => store.items.create({ threadId, kind: "tool_call", metadata: deep }), "too_large", /metadata/);
      await refuses(store, () => store.inbox.admit(threadId, { prompt: deep }), "too_large", /prompt/);
      await refuses(store, () => store.inbox.admit(threadId, { prompt: 1, request: deep }), "too_large", /request/);
      await refuses(store, () => store.threadEvents.append(threadId, { type: "x", data: deep }), "too_large", /data/);
    }
    await enqueue(store);
    const item = await claimOne(store);
    const deep = nested(129);
    await refuses(store, () => store.queue.renew(item, { progress: deep }), "too_large", /progress/);
    await refuses(store, () => store.queue.complete(item, { output: deep }), "too_large", /output/);
    await refuses(store, () => store.queue.complete(item, { enqueue: [{ queue: "q", payload: deep }] }), "too_large", /enqueue\[0\]\.payload/);
  },

  "a patch of 128 levels becomes the state, and later ones merge with it": async ({ store }) => {
    const { id } = await start(store);
    let patch = { end: 1 };
    for (let level = 1; level < 128; level++) patch = { a: patch };
    await enqueue(store, { executionId: id, nodeId: "n" });
    await store.queue.complete(await claimOne(store), { statePatch: patch });
    await enqueue(store, { executionId: id, nodeId: "n" });
    await store.queue.complete(await claimOne(store), { statePatch: { b: 1 } });
    equal((await store.executions.get(id)).state, { ...patch, b: 1 });
    equal((await store.executions.materialize(id)).state, { ...patch, b: 1 });
    match((await all(store.events.list({ executionId: id }))).map(({ data }) => data), [{ patch }, { patch: { b: 1 } }]);
  },

  "a document may be 16 MiB of text, and not a byte more": async ({ store }) => {
    const most = "é".repeat(limit / 2 - 1);
    const { id, payload } = await enqueue(store, { payload: most });
    ok(payload === most, "the payload came back as another");
    const { fence } = await claimOne(store);
    await start(store, { id: "run" });
    for (const [attempt, field] of [
      [() => enqueue(store, { payload: `${most}x` }), /payload/],
      [() => store.events.append("run", { type: "x-a", data: [most] }), /data/],
      [() => store.queue.complete({ id, fence }, { output: `${most}x` }), /output/],
    ]) {
      const error = await rejects(attempt(), "too_large", field);
      ok(error.message.includes(String(limit)), `the message does not name the limit: ${error.message}`);
    }
    equal((await store.queues.stats()).counts, { scheduled: 0, pending: 0, claimed: 1, completed: 0, dead_lettered: 0, cancelled: 0 });
    equal(await store.events.latestSequence("run"), 0);
  },

  "many large documents in one list come in pages, and none is missing": async ({ store }) => {
    const payload = "x".repeat(2.5 * mebibyte);
    for (let n = 0; n < 4; n++) await enqueue(store, { id: `r${n}`, payload });
    const found = [];
    for await (const item of store.queue.list()) {
      found.push(item.id);
      equal(item.payload.length, payload.length);
    }
    equal(found, ["r0", "r1", "r2", "r3"]);
  },

  "a document is the same after the store was opened again": async ({ store, reopen }) => {
    for (const [index, document] of documents.entries()) await enqueue(store, { id: `d${index}`, payload: document });
    const before = await contents(store);
    const again = await reopen();
    equal(await contents(again), before);
  },
};
