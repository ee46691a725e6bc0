// Session files as agents leave them on disk, and as disks leave them.
import assert from "node:assert/strict";
import { createReadStream, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { root } from "../../scripts/run.mjs";
import { importConsole } from "./console-source.mjs";

const { parseSession, UnknownFormatError } = await importConsole("sessions/index.ts");
const fixtures = join(root, "tests", "fixtures", "sessions");
const fixture = (name) => readFileSync(join(fixtures, name));

async function parse(chunks, limits) {
  const entries = [];
  for await (const entry of parseSession(asStream(typeof chunks === "string" ? [Buffer.from(chunks)] : chunks), limits)) entries.push(entry);
  const [{ format }, ...rest] = entries;
  const of = (type) => rest.filter((entry) => entry.type === type);
  return { format, entries: rest, steps: of("step"), rejected: of("rejected"), remarks: of("remark") };
}

async function* asStream(chunks) {
  yield* chunks;
}

const brief = ({ line, kind, title }) => `${line} ${kind} ${title}`;
const reasons = (entries) => entries.map(({ line, reason }) => `${line} ${reason}`);
const user = (content, more = {}) => JSON.stringify({ type: "user", sessionId: "s", message: { role: "user", content }, ...more });

test("a Claude Code session: each record is a step with its kind and gist", async () => {
  const { format, steps, rejected, remarks } = await parse([fixture("claude.jsonl")]);
  assert.equal(format, "claude-code");
  assert.deepEqual(steps.map(brief), [
    "1 meta summary: Kite: wind readings",
    "2 meta file history snapshot",
    "3 user The gauge shows negative wind.",
    "4 reasoning A sign error, probably.",
    "5 assistant I'll look at the sensor first.",
    "6 tool_call Read src/gauge.c · Bash make test",
    "7 tool_result int wind = -raw;",
    "8 tool_result failed: 2 of 9 failed",
    "9 user And a picture:",
    "10 assistant side chain: Searching on the side.",
    "11 meta Caveat: written by the tool itself.",
    "12 meta system: stop_hook_summary",
    "13 meta progress: hook_progress",
    "14 other queue-operation",
    "15 reasoning redacted",
    "16 assistant The sign is right now 🪁, and all 9 tests pass.",
  ]);
  assert.deepEqual([rejected, remarks], [[], []]);
});

const codexItems = [
  "meta developer: Rules of the house",
  "user Which port does the server take?",
  "reasoning Looking for listen()",
  "tool_call exec_command rg -n listen src",
  "tool_result src/main.rs:12: listen(8080)",
  "tool_call shell ls -la",
  "tool_call apply_patch *** Begin Patch",
  "tool_result Success",
  "assistant Port 8080.",
  "other ghost_item",
];

test("a Codex rollout in envelopes", async () => {
  const { format, steps } = await parse([fixture("codex.jsonl")]);
  assert.equal(format, "codex");
  assert.deepEqual(
    steps.map(({ kind, title }) => `${kind} ${title}`),
    [
      "meta session started in /home/dev/kite",
      "meta task_started",
      "meta turn context: gpt-5-codex",
      ...codexItems,
      "meta agent_message: Port 8080.",
      "meta token_count",
      "meta compacted: Short",
      "other new_envelope",
    ],
  );
});

test("a Codex rollout of the older kind, without envelopes", async () => {
  const { format, steps } = await parse([fixture("codex-bare.jsonl")]);
  assert.equal(format, "codex-bare");
  assert.deepEqual(
    steps.map(({ kind, title }) => `${kind} ${title}`),
    ["meta session started", "meta state", ...codexItems],
  );
});

test("a record is kept as it was parsed", async () => {
  for (const name of ["claude.jsonl", "codex.jsonl", "codex-bare.jsonl"]) {
    const { steps } = await parse([fixture(name)]);
    const lines = fixture(name).toString().trimEnd().split("\n");
    assert.deepEqual(steps.map(({ record }) => JSON.stringify(record)), lines);
  }
});

test("a bad line is rejected with its number and the reason, and the rest goes on", async () => {
  const { format, steps, rejected, remarks } = await parse([fixture("claude-hostile.jsonl")]);
  assert.equal(format, "claude-code");
  assert.deepEqual(reasons(rejected), [
    "4 not an object but an array",
    "5 not an object but null",
    "6 not an object but a string",
    "8 after one good object: cut off: the line ends inside an object",
    "9 after one good object: more text",
    "10 not valid UTF-8",
    "18 cut off: the line ends inside an object",
    "19 nested deeper than 126 levels",
    "20 a number is too large for JavaScript",
    "21 not an object but an array",
    "22 cut off: the line ends inside an object",
  ]);
  assert.deepEqual(reasons(remarks), [
    "11 half of a character (a lone surrogate) became U+FFFD",
    "13 9007199254740993 is more than JavaScript counts exactly and became 9007199254740992",
  ]);
  assert.deepEqual(steps.map(brief), [
    "1 user Grüße 🪁",
    "7 assistant one",
    '7 assistant glued to it: }{ \\" ',
    "8 user good",
    "9 user before garbage",
    "11 user half a kite: �",
    "12 user nothing:",
    "13 user count",
    "14 user the later key counts",
    "15 user prototype",
    "16 other user record without a message",
    "17 other brand-new-kind",
  ].map((line) => line.trimEnd()));
  const at = (line) => steps.find((step) => step.line === line).record;
  assert.equal(at(12).message.content, "nothing: \0");
  assert.deepEqual(at(13).fine, [-9007199254740992, 12345678901234567890.5, "9007199254740993"]);
  assert.equal(at(14).type, "user");
  assert.deepEqual(Object.getOwnPropertyDescriptor(at(15), "__proto__").value, { polluted: true });
  assert.equal({}.polluted, undefined);
});

test("however the bytes are cut into chunks, the entries are the same", async () => {
  for (const name of ["claude.jsonl", "claude-hostile.jsonl", "codex.jsonl", "codex-bare.jsonl"]) {
    const bytes = fixture(name);
    const whole = await parse([bytes]);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: bytes.length }), { maxLength: 40 }), async (cuts) => {
        const ends = [...cuts.sort((a, b) => a - b), bytes.length];
        const chunks = ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end));
        assert.deepEqual(await parse(chunks), whole);
      }),
      { numRuns: 40 },
    );
    assert.deepEqual(await parse([...bytes].map((byte) => Uint8Array.of(byte))), whole);
  }
});

test("a source may reuse its buffer for each chunk", async () => {
  const bytes = fixture("claude.jsonl");
  async function* reusing() {
    const buffer = new Uint8Array(97);
    for (let at = 0; at < bytes.length; at += buffer.length) {
      const count = bytes.copy(buffer, 0, at, at + buffer.length);
      yield buffer.subarray(0, count);
    }
  }
  assert.deepEqual(await parse(reusing()), await parse([bytes]));
});

test("of every line that is not blank, each byte sequence whatever, something is said", async () => {
  const piece = fc.oneof(
    fc.constantFrom("{", "}", "[", "]", '"', "\\", ":", ",", " ", "\r", "\uFEFF", "1e999", "\\ud800", "null", user("x")),
    fc.string({ unit: "binary", maxLength: 5 }),
  );
  const line = fc.oneof(fc.array(piece, { maxLength: 12 }).map((parts) => Buffer.from(parts.join("").replaceAll("\n", ""))), fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes.filter((byte) => byte !== 10))));
  await fc.assert(
    fc.asyncProperty(fc.array(line, { maxLength: 12 }), async (lines) => {
      const { entries } = await parse([Buffer.concat([Buffer.from(user("first")), ...lines.flatMap((each) => [Buffer.from("\n"), each])])]);
      lines.forEach((each, i) => {
        const isBlank = each.toString().trim() === "" && !each.toString().includes("\uFFFD");
        assert.equal(entries.some((entry) => entry.line === i + 2), !isBlank, JSON.stringify(each.toString()));
      });
    }),
    { numRuns: 500 },
  );
});

test("a line that is too long is rejected by its length, and never held", async () => {
  const long = Buffer.alloc(64 * 1024, "x");
  async function* source() {
    yield Buffer.from(`${user("before")}\n`);
    for (let i = 0; i < 16 * 1024; i++) yield long; // 1 GiB on one line
    yield Buffer.from(`\n${user("after")}`);
  }
  const before = process.memoryUsage().arrayBuffers;
  const { steps, rejected } = await parse(source());
  assert.ok(process.memoryUsage().arrayBuffers - before < 200 << 20);
  assert.deepEqual(steps.map(brief), ["1 user before", "3 user after"]);
  assert.deepEqual(reasons(rejected), [`2 too long: ${2 ** 30} bytes, and one record may have ${16 * 2 ** 20 - 4096}`]);
});

test("a record of megabytes is an ordinary one", async () => {
  const text = "long ".repeat(1 << 20);
  const { steps } = await parse([Buffer.from(`${user(text)}\n${user("next")}\n`)]);
  assert.equal(steps[0].record.message.content, text);
  assert.deepEqual(steps.map(({ line }) => line), [1, 2]);
});

test("what is no session is refused before anything is read from it, saying why", async () => {
  const cases = [
    ["", /^The file is empty\. Drop a session file/],
    ["\n \n\r\n", /^The file holds no JSON records: all its lines are blank/],
    ["# Notes\n\nNot JSON.\n", /^The file holds no JSON records: line 1 is not valid JSON: Unexpected token '#'\. /],
    [fixture("other.jsonl").toString(), /^The file is JSON, but neither .* its first record has the fields "level", "msg", "port"\./],
    ['{"type":"user"}\n{}\n', /neither a Claude Code session nor a Codex rollout/],
    ["[1]\n".repeat(5000), /no JSON records: line 1 is not an object but an array/],
    [Buffer.from("SQLite format 3\0\xff", "latin1"), /no JSON records: line 1 is not valid UTF-8/],
  ];
  for (const [content, message] of cases) {
    await assert.rejects(parse([Buffer.from(content)]), (error) => error instanceof UnknownFormatError && message.test(error.message), `${message}`);
  }
});

test("the format is found behind lines of another kind", async () => {
  const { format, steps, rejected } = await parse(`not a record\n{"level":"info"}\n${user("here")}\n`);
  assert.equal(format, "claude-code");
  assert.deepEqual(steps.map(brief), ["2 other a record without a type", "3 user here"]);
  assert.deepEqual(rejected.map(({ line }) => line), [1]);
});

const real = process.env.RUNKEEP_SESSIONS;
test("real session files: each line is a step or said to be none", { skip: real ? false : "RUNKEEP_SESSIONS names no folder" }, async () => {
  const files = readdirSync(real, { recursive: true }).filter((name) => name.endsWith(".jsonl"));
  assert.notEqual(files.length, 0, `no .jsonl under ${real}`);
  for (const name of files) {
    const lines = readFileSync(join(real, name), "utf8").split("\n");
    const { entries, steps, remarks } = await parse(createReadStream(join(real, name)));
    const told = new Set(entries.map(({ line }) => line));
    const changed = new Set(remarks.map(({ line }) => line));
    lines.forEach((text, i) => assert.equal(told.has(i + 1), text.trim() !== "", `${name}, line ${i + 1}`));
    for (const { line, record } of steps) {
      const glued = steps.filter((step) => step.line === line).length > 1;
      if (glued || changed.has(line)) continue;
      const text = lines[line - 1].replace(/^\uFEFF/, "");
      assert.equal(JSON.stringify(record), JSON.stringify(JSON.parse(text)), `${name}, line ${line}`);
    }
  }
});
