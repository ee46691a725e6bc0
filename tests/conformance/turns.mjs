import { equal, match } from "./assert.mjs";
import { all, contents, range, refuses } from "./kit.mjs";

const ids = async (list) => (await all(list)).map(({ id }) => id);
const ends = ["completed", "failed", "interrupted", "cancelled"];

export const turns = {
  "a turn waits, runs and ends, and keeps its times": async ({ store, clock }) => {
    await store.threads.create({ id: "t" });
    const from = clock.now();
    const turn = await store.turns.create({ id: "u", threadId: "t", executionId: "run", inputSummary: "ask", ownerId: "tab", metadata: { a: 1 } });
    equal(turn, { id: "u", threadId: "t", executionId: "run", status: "queued", inputSummary: "ask", createdAt: from, steerCount: 0, ownerId: "tab", metadata: { a: 1 }, created: true });
    match(await store.threads.get("t"), { latestTurnId: "u" });
    clock.advance(10);
    match(await store.turns.update("u", { status: "in_progress" }), { status: "in_progress", startedAt: from + 10 });
    clock.advance(5);
    const ended = await store.turns.update("u", { status: "failed", error: { message: "no", code: "x" }, lastRequestInputTokens: 7 });
    match(ended, { status: "failed", startedAt: from + 10, endedAt: from + 15, durationMs: 5, error: { message: "no", code: "x" }, lastRequestInputTokens: 7 });
    equal(await store.turns.get("u"), ended);
    match(await store.threads.get("t"), { updatedAt: from + 15 });
    equal(await store.turns.get("ghost"), null);
    await store.turns.create({ id: "v", threadId: "t" });
    match(await store.threads.get("t"), { latestTurnId: "v" });
    match(await store.turns.create({ threadId: "t", status: "in_progress" }), { inputSummary: "", startedAt: clock.now() });
  },

  "a turn goes its way and no other": async ({ store }) => {
    await store.threads.create({ id: "t" });
    const ways = { queued: ["in_progress", "cancelled", "failed", "interrupted"], in_progress: ends };
    let turn = 0;
    for (const from of ["queued", "in_progress", ...ends]) {
      for (const to of ["queued", "in_progress", ...ends]) {
        const id = `turn ${turn++}`;
        await store.turns.create({ id, threadId: "t", status: "queued" });
        if (from !== "queued") await store.turns.update(id, { status: "in_progress" });
        if (ends.includes(from)) await store.turns.update(id, { status: from });
        const before = await store.turns.get(id);
        if (from === to) equal(await store.turns.update(id, { status: to }), before);
        else if (ways[from]?.includes(to)) match(await store.turns.update(id, { status: to }), { status: to });
        else await refuses(store, () => store.turns.update(id, { status: to, inputSummary: "x" }), "invalid_transition", new RegExp(`${from}.*${to}`));
      }
    }
    await refuses(store, () => store.turns.update("ghost", { status: "failed" }), "not_found", /ghost/);
  },

  "an ended turn still takes what is told of it": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.turns.create({ id: "u", threadId: "t", status: "in_progress", executionId: "e", metadata: 1 });
    await store.turns.update("u", { status: "completed" });
    match(await store.turns.update("u", { inputSummary: "s", lastRequestInputTokens: 9, error: "late", executionId: null, ownerId: "o", metadata: { a: 1 } }), {
      status: "completed",
      inputSummary: "s",
      lastRequestInputTokens: 9,
      error: "late",
      ownerId: "o",
      metadata: { a: 1 },
    });
    const cleared = await store.turns.update("u", { lastRequestInputTokens: null, error: null, ownerId: null, metadata: null });
    equal([cleared.executionId, cleared.lastRequestInputTokens, cleared.error, cleared.ownerId, cleared.metadata], range(5).map(() => undefined));
    const before = await contents(store);
    equal(await store.turns.update("u", {}), cleared);
    equal(await contents(store), before);
  },

  "a change may name the status that it expects": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.turns.create({ id: "u", threadId: "t" });
    match(await store.turns.update("u", { status: "in_progress" }, { expectedStatus: "queued" }), { status: "in_progress" });
    const error = await refuses(store, () => store.turns.update("u", { status: "failed" }, { expectedStatus: "queued" }), "conflict", /in_progress/);
    match(error.details, { status: "in_progress" });
  },

  "creating again with the same id and arguments answers the turn there is, whoever asks": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.threads.create({ id: "other" });
    const given = { id: "u", threadId: "t", inputSummary: "s" };
    const turn = await store.turns.create({ ...given, ownerId: "tab 1" });
    await store.turns.create({ threadId: "t" });
    const before = await contents(store);
    equal(await store.turns.create({ ...given, ownerId: "tab 2" }), { ...turn, created: false });
    equal(await contents(store), before);
    await refuses(store, () => store.turns.create({ ...given, inputSummary: "x" }), "conflict", /"u"/);
    await refuses(store, () => store.turns.create({ ...given, threadId: "other" }), "conflict", /"u"/);
    await refuses(store, () => store.turns.create({ threadId: "ghost" }), "not_found", /ghost/);
  },

  "what a turn leaves open ends as it does": async ({ store, clock }) => {
    await store.threads.create({ id: "t" });
    for (const status of ends) {
      await store.turns.create({ id: status, threadId: "t", status: "in_progress" });
      const add = (more) => store.items.create({ threadId: "t", turnId: status, kind: "tool_call", ...more });
      await add({ id: `${status} done`, status: "completed" });
      await add({ id: `${status} waits`, status: "queued" });
      await add({ id: `${status} streams`, status: "in_progress", kind: "assistant_message" });
      await store.items.appendText(`${status} streams`, { delta: "so far" });
    }
    await store.items.create({ id: "of none", threadId: "t", kind: "status", status: "in_progress" });
    clock.advance(5);
    for (const status of ends) {
      await store.turns.update(status, { status });
      match(await store.items.get(`${status} done`), { status: "completed", endedAt: clock.now() - 5 });
      match(await store.items.get(`${status} waits`), { status, endedAt: clock.now() });
      match(await store.items.get(`${status} streams`), { status, text: "so far", endedAt: clock.now() });
    }
    match(await store.items.get("of none"), { status: "in_progress" });
  },

  "turns are listed in order, of a thread or what has not ended of all": async ({ store }) => {
    for (const id of ["t", "other"]) await store.threads.create({ id });
    for (const n of range(8)) await store.turns.create({ id: `${n}`, threadId: n % 2 ? "other" : "t", status: n < 4 ? "queued" : "in_progress" });
    await store.turns.update("2", { status: "cancelled" });
    await store.turns.update("5", { status: "completed" });
    const list = (more) => ids(store.turns.list({ threadId: "t", limit: 1, ...more }));
    equal(await list(), ["0", "2", "4", "6"]);
    equal(await list({ order: "desc" }), ["6", "4", "2", "0"]);
    equal(await list({ status: "in_progress" }), ["4", "6"]);
    equal(await ids(store.turns.listIncomplete({ limit: 2 })), ["0", "1", "3", "4", "6", "7"]);
    equal(await ids(store.turns.listIncomplete({ order: "desc", limit: 2 })), ["7", "6", "4", "3", "1", "0"]);
    await store.turns.update("0", { inputSummary: "changed" });
    equal(await list(), ["0", "2", "4", "6"]);
    await refuses(store, () => ids(store.turns.list({ threadId: "ghost" })), "not_found", /ghost/);
  },

  "a turn shows what its responses have used": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.turns.create({ id: "u", threadId: "t" });
    for (const n of range(2)) await store.usage.record({ turnId: "u", responseId: `r${n}`, model: "m", inputTokens: 10, outputTokens: 1 });
    const usage = { inputTokens: 20, outputTokens: 2, responses: 2 };
    match(await store.turns.get("u"), { usage });
    match((await store.turns.list({ threadId: "t" })).items[0], { usage });
    match((await store.turns.listIncomplete()).items[0], { usage });
  },

  "turns whose owner is gone are interrupted; those of live tabs, and queued ones, are left alone": async ({ store, clock }) => {
    for (const id of ["t", "other"]) await store.threads.create({ id });
    const add = (id, more) => store.turns.create({ id, threadId: "t", status: "in_progress", ...more });
    await add("gone", { ownerId: "tab 1" });
    await add("live", { ownerId: "tab 2" });
    await add("of nobody");
    await add("queued", { status: "queued", ownerId: "tab 1" });
    await add("ended", { ownerId: "tab 1" });
    await store.turns.update("ended", { status: "completed" });
    await add("elsewhere", { threadId: "other", ownerId: "tab 1" });
    for (const turnId of ["gone", "live"]) await store.items.create({ id: `streams in ${turnId}`, threadId: "t", turnId, kind: "assistant_message", status: "in_progress" });
    await store.items.appendText("streams in gone", { delta: "so far" });
    const left = () => Promise.all(["live", "queued", "ended"].map((id) => store.turns.get(id)));
    const before = await left();
    clock.advance(100);
    equal(await store.turns.recover({ liveOwnerIds: ["tab 2", "tab 3"] }), { interrupted: ["gone", "of nobody", "elsewhere"] });
    match(await store.turns.get("gone"), { status: "interrupted", endedAt: clock.now(), durationMs: 100, error: { code: "owner_gone" } });
    match((await store.turns.get("gone")).error.message, /tab 1/);
    // Where nobody was named, it is this client.
    match((await store.turns.get("of nobody")).error.message, /is gone/);
    match(await store.items.get("streams in gone"), { status: "interrupted", text: "so far", endedAt: clock.now() });
    match(await store.items.get("streams in live"), { status: "in_progress" });
    match(await store.threads.get("other"), { updatedAt: clock.now() });
    equal(await left(), before);
    equal(await ids(store.turns.listIncomplete()), ["live", "queued"]);
    const after = await contents(store);
    equal(await store.turns.recover({ liveOwnerIds: ["tab 2"] }), { interrupted: [] });
    equal(await contents(store), after);
    equal(await store.turns.recover({ liveOwnerIds: [] }), { interrupted: ["live"] });
  },

  "many turns are recovered in one call": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.batch((tx) => range(350).map((n) => tx.turns.create({ id: `u${n}`, threadId: "t", status: n % 7 ? "in_progress" : "queued", ownerId: n % 3 ? "gone" : "live" })));
    const expected = range(350).filter((n) => n % 7 && n % 3).map((n) => `u${n}`);
    equal(await store.turns.recover({ liveOwnerIds: ["live"] }), { interrupted: expected });
  },

  "a clock that goes back gives no turn a negative duration": async ({ store, clock }) => {
    await store.threads.create({ id: "t" });
    await store.turns.create({ id: "u", threadId: "t", status: "in_progress" });
    clock.advance(-500);
    match(await store.turns.update("u", { status: "completed" }), { durationMs: 0, endedAt: clock.now() });
  },
};
