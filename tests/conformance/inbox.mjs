import { equal, match } from "./assert.mjs";
import { all, contents, range, refuses } from "./kit.mjs";

const admit = (store, id, more) => store.inbox.admit("t", { id, prompt: `prompt ${id}`, delivery: "queue", ...more });

const ids = (prompts) => prompts.map(({ id }) => id);

/** Runs what waits, turn by turn, as an agent does. Answers the prompts in the order in which they ran. */
async function drain(store) {
  const ran = [];
  for (;;) {
    const next = await store.inbox.promoteNext("t", { turn: { status: "in_progress" } });
    if (next === null) return ran;
    await store.turns.update(next.turn.id, { status: "completed" });
    ran.push(next.prompt.id);
  }
}

export const inbox = {
  "three prompts that are queued while a turn runs are three turns, in order": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.turns.create({ threadId: "t", id: "running", status: "in_progress" });
    for (const id of ["a", "b", "c"]) match(await admit(store, id), { id, created: true, status: "admitted" });
    await store.turns.update("running", { status: "completed" });
    equal(await drain(store), ["a", "b", "c"]);
    const turns = await all(store.turns.list({ threadId: "t" }));
    equal(turns.map(({ inputSummary }) => inputSummary), ["", "prompt a", "prompt b", "prompt c"]);
    const prompts = await all(store.inbox.list({ threadId: "t" }));
    equal(prompts.map(({ status, turnId }) => [status, turnId]), turns.slice(1).map(({ id }) => ["promoted", id]));
    equal(await store.inbox.promoteNext("t"), null);
  },

  "each prompt of a thread gets the next number, at the same time too, and none twice": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.threads.create({ id: "other" });
    const admitted = await Promise.all(range(20).map((n) => admit(store, `p${n}`)));
    equal(admitted.map(({ admittedSequence }) => admittedSequence), range(20).map((n) => n + 1));
    await store.inbox.withdraw("p19");
    match(await store.inbox.admit("other", { prompt: "x" }), { admittedSequence: 1, delivery: "queue", threadId: "other" });
    match(await admit(store, "last"), { admittedSequence: 21 });
    equal(ids(await all(store.inbox.list({ threadId: "t", limit: 3 }))), [...range(20).map((n) => `p${n}`), "last"]);
    equal(ids(await all(store.inbox.list({ threadId: "t", limit: 3, order: "desc", status: "admitted" }))), ["last", ...range(19).map((n) => `p${18 - n}`)]);
  },

  "the same id twice is the same admission": async ({ store, clock }) => {
    await store.threads.create({ id: "t" });
    const given = { prompt: { text: "hello", files: ["a,b"] }, request: { model: "m" } };
    const first = await admit(store, "p", given);
    match(first, { ...given, admittedSequence: 1, createdAt: clock.now(), created: true });
    clock.advance(5);
    const before = await contents(store);
    equal(await admit(store, "p", given), { ...first, created: false });
    equal(await contents(store), before);
    await store.inbox.promote("p");
    match(await admit(store, "p", given), { status: "promoted", created: false });
    await refuses(store, () => admit(store, "p", { ...given, prompt: "other" }), "conflict", /\bp\b/);
    await refuses(store, () => admit(store, "p", { ...given, delivery: "steer" }), "conflict", /\bp\b/);
    match(await admit(store, "q"), { admittedSequence: 2 });
  },

  "next is the oldest that waits, steers are kept apart": async ({ store }) => {
    await store.threads.create({ id: "t" });
    equal(await store.inbox.next("t"), null);
    equal(await store.inbox.steers("t"), []);
    await admit(store, "s1", { delivery: "steer" });
    equal(await store.inbox.next("t"), null);
    equal(await store.inbox.promoteNext("t"), null);
    for (const [id, delivery] of [["q1", "queue"], ["s2", "steer"], ["q2", "queue"]]) await admit(store, id, { delivery });
    match(await store.inbox.next("t"), { id: "q1", prompt: "prompt q1", delivery: "queue" });
    equal(ids(await store.inbox.steers("t")), ["s1", "s2"]);
    await store.inbox.withdraw("q1");
    match(await store.inbox.next("t"), { id: "q2" });
    equal(ids(await all(store.inbox.list({ threadId: "t", delivery: "steer" }))), ["s1", "s2"]);
    await refuses(store, () => store.inbox.next("ghost"), "not_found", /ghost/);
    await refuses(store, () => store.inbox.steers("ghost"), "not_found", /ghost/);
  },

  "a steer goes into the running turn, once, and is counted there": async ({ store, clock }) => {
    await store.threads.create({ id: "t" });
    await store.turns.create({ threadId: "t", id: "turn", status: "in_progress" });
    for (const id of ["s1", "s2"]) await admit(store, id, { delivery: "steer" });
    clock.advance(3);
    for (const { id } of await store.inbox.steers("t")) match(await store.inbox.promote(id, { turnId: "turn" }), { id, status: "promoted", turnId: "turn", promotedAt: clock.now() });
    match(await store.turns.get("turn"), { steerCount: 2 });
    equal(await store.inbox.steers("t"), []);
    await refuses(store, () => store.inbox.promote("s1", { turnId: "turn" }), "conflict", /promoted.*turn/);
    match(await store.turns.get("turn"), { steerCount: 2 });
  },

  "a turn that has ended takes no more prompts: they stay for the next": async ({ store }) => {
    await store.threads.create({ id: "t" });
    for (const delivery of ["steer", "queue"]) await admit(store, delivery, { delivery });
    for (const status of ["completed", "failed", "interrupted", "cancelled"]) {
      await store.turns.create({ threadId: "t", id: status, status: "in_progress" });
      await store.turns.update(status, { status });
      for (const id of ["steer", "queue"]) {
        const message = new RegExp(`the turn "${status}" is ${status} and takes no more prompts`);
        const { details } = await refuses(store, () => store.inbox.promote(id, { turnId: status }), "invalid_transition", message);
        equal(details, { path: "turnId", turnId: status, status });
      }
      match(await store.turns.get(status), { steerCount: 0 });
    }
    await store.turns.create({ threadId: "t", id: "waits" });
    match(await store.inbox.promote("queue", { turnId: "waits" }), { status: "promoted", turnId: "waits" });
    match(await store.inbox.promoteNext("t", { includeSteers: true }), { prompt: { id: "steer" } });
  },

  "a steer that no turn took can have a turn of its own, in its place": async ({ store }) => {
    await store.threads.create({ id: "t" });
    for (const [id, delivery] of [["a", "queue"], ["s", "steer"], ["b", "queue"]]) await admit(store, id, { delivery });
    const ran = [];
    for (let next; (next = await store.inbox.promoteNext("t", { includeSteers: true })); ) ran.push(next.prompt.id);
    equal(ran, ["a", "s", "b"]);
  },

  "a prompt is promoted once, whoever asks": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.threads.create({ id: "other" });
    await store.turns.create({ threadId: "other", id: "elsewhere" });
    await admit(store, "p");
    await refuses(store, () => store.inbox.promote("p", { turnId: "ghost" }), "not_found", /ghost/);
    await refuses(store, () => store.inbox.promote("p", { turnId: "elsewhere" }), "invalid_argument", /elsewhere/);
    const outcomes = await Promise.allSettled(range(5).map(() => store.inbox.promote("p")));
    equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
    equal([...new Set(outcomes.flatMap(({ reason }) => reason?.code ?? []))], ["conflict"]);
    const error = await refuses(store, () => store.inbox.promote("p"), "conflict", /promoted/);
    match(error.details, { id: "p", status: "promoted" });
    await refuses(store, () => store.inbox.withdraw("p"), "conflict", /promoted/);
    await refuses(store, () => store.inbox.promote("ghost"), "not_found", /ghost/);
    await refuses(store, () => store.inbox.withdraw("ghost"), "not_found", /ghost/);
    equal(await store.inbox.get("ghost"), null);
  },

  "several who take the next prompt at once get one each": async ({ store }) => {
    await store.threads.create({ id: "t" });
    for (const n of range(5)) await admit(store, `p${n}`);
    const taken = await Promise.all(range(8).map(() => store.inbox.promoteNext("t")));
    equal(taken.filter((next) => next !== null).map(({ prompt }) => prompt.id), range(5).map((n) => `p${n}`));
    equal(new Set(taken.flatMap((next) => next?.turn.id ?? [])).size, 5);
  },

  "a withdrawn prompt never runs, and withdrawing again is fine": async ({ store, clock }) => {
    await store.threads.create({ id: "t" });
    for (const id of ["a", "b", "c"]) await admit(store, id);
    const withdrawn = await store.inbox.withdraw("b");
    match(withdrawn, { id: "b", status: "withdrawn", withdrawnAt: clock.now() });
    clock.advance(1);
    equal(await store.inbox.withdraw("b"), withdrawn);
    equal(await store.inbox.get("b"), withdrawn);
    await refuses(store, () => store.inbox.promote("b"), "conflict", /withdrawn/);
    equal(await drain(store), ["a", "c"]);
  },

  "promoteNext again with the same turn id answers the same prompt and turn": async ({ store }) => {
    await store.threads.create({ id: "t" });
    for (const id of ["a", "b"]) await admit(store, id);
    const turn = { id: "turn", metadata: { n: 1 }, inputSummary: "mine", executionId: "e" };
    const first = await store.inbox.promoteNext("t", { turn });
    match(first, { created: true, prompt: { id: "a", turnId: "turn" }, turn: { ...turn, threadId: "t", status: "queued" } });
    equal(await store.inbox.promoteNext("t", { turn }), { ...first, created: false });
    match(await store.inbox.next("t"), { id: "b" });
    await store.turns.create({ threadId: "t", id: "made" });
    await refuses(store, () => store.inbox.promoteNext("t", { turn: { id: "made" } }), "conflict", /made/);
    match(await store.inbox.next("t"), { id: "b" });
    await refuses(store, () => store.inbox.promoteNext("ghost"), "not_found", /ghost/);
  },

  "a turn that cannot be created leaves the prompt where it is": async ({ store }) => {
    await store.tenants.create({ id: "a", limits: { maxTokensPerMonth: 0 } });
    const a = store.forTenant("a");
    await a.threads.create({ id: "t" });
    await admit(a, "p");
    await refuses(a, () => a.inbox.promoteNext("t"), "limit_exceeded", /maxTokensPerMonth/);
    match(await a.inbox.next("t"), { id: "p", status: "admitted" });
    await store.tenants.update("a", { limits: {}, status: "suspended" });
    await refuses(a, () => a.inbox.promoteNext("t"), "tenant_suspended", /suspended/);
    await refuses(a, () => admit(a, "q"), "tenant_suspended", /suspended/);
    match(await a.inbox.withdraw("p"), { status: "withdrawn" });
  },

  "a prompt is kept as it came, up to the limit of documents": async ({ store }) => {
    await store.threads.create({ id: "t" });
    const prompts = ["", "a\u0000b 🦀 \u2028", null, 0, { text: "x", images: [{ blobId: "b" }] }, ["a"]];
    for (const [index, prompt] of prompts.entries()) {
      await admit(store, `p${index}`, { prompt, request: prompt });
      match(await store.inbox.get(`p${index}`), { prompt, request: prompt });
    }
    const error = await refuses(store, () => admit(store, "large", { prompt: "x".repeat(17 * 1024 * 1024) }), "too_large", /prompt/);
    match(error.details, { path: "prompt" });
    await refuses(store, () => admit(store, "large", { prompt: "x", request: "x".repeat(17 * 1024 * 1024) }), "too_large", /request/);
    const long = "é".repeat(300);
    for (const _ of prompts) await store.inbox.promoteNext("t");
    await admit(store, "long", { prompt: long });
    match(await store.inbox.promoteNext("t"), { turn: { inputSummary: "é".repeat(200) }, prompt: { prompt: long } });
  },

  "prompts go with their thread, and a late one does not bring it back": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await admit(store, "p");
    await store.threads.delete("t");
    equal(await store.inbox.get("p"), null);
    await refuses(store, () => admit(store, "q"), "not_found", /\bt\b/);
    await refuses(store, () => store.inbox.promote("p"), "not_found", /\bp\b/);
  },

  "prompts wait through closing and opening": async ({ store, reopen }) => {
    await store.threads.create({ id: "t" });
    for (const id of ["a", "b", "c"]) await admit(store, id);
    match(await store.inbox.promoteNext("t", { turn: { status: "in_progress" } }), { prompt: { id: "a" } });
    const again = await reopen();
    match(await again.inbox.next("t"), { id: "b" });
    equal(await drain(again), ["b", "c"]);
    match(await again.inbox.admit("t", { prompt: "x" }), { admittedSequence: 4 });
  },
};
