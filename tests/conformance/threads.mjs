import { equal, match, ok, rejects } from "./assert.mjs";
import { all, contents, range, refuses } from "./kit.mjs";

const ids = async (list) => (await all(list)).map(({ id }) => id);
const recent = async (store, more) => (await store.threads.recent(more)).items.map(({ id }) => id);

/** A thread of two turns: 1 to 3 are of the first, 4 and 5 of the second, which runs; 6 is of none. */
async function conversation(store) {
  await store.threads.create({ id: "t", title: "A talk", model: "m", systemPrompt: "Be kind.", metadata: { a: 1 } });
  await store.turns.create({ id: "first", threadId: "t", status: "in_progress", inputSummary: "ask" });
  const add = (id, turnId, kind, more) => store.items.create({ id, threadId: "t", turnId, kind, text: id, status: "completed", ...more });
  await add("1", "first", "user_message");
  await add("2", "first", "tool_call", { parentId: "1", data: { output: 5 }, metadata: { b: 2 } });
  await add("3", "first", "assistant_message", { parentId: "2" });
  await store.usage.record({ turnId: "first", responseId: "r", model: "m", inputTokens: 5, outputTokens: 5 });
  await store.turns.update("first", { status: "completed", lastRequestInputTokens: 5 });
  await store.turns.create({ id: "second", threadId: "t", status: "in_progress", ownerId: "tab" });
  await add("4", "second", "user_message");
  await add("5", "second", "assistant_message", { status: "in_progress", text: "" });
  await store.items.appendText("5", { delta: "so " });
  await store.items.appendText("5", { delta: "far" });
  await add("6", undefined, "status");
  await store.inbox.admit("t", { prompt: "waits" });
  await store.threadEvents.append("t", { type: "opened" });
}

const texts = async (store, threadId) => (await all(store.items.list({ threadId }))).map(({ text }) => text);

export const threads = {
  "a thread needs nothing to begin with": async ({ store, clock }) => {
    const now = clock.now();
    for (const thread of [await store.threads.create({}), await store.threads.create()]) {
      ok(thread.id.length === 36, "its id is made by the store");
      equal({ ...thread, id: "" }, { id: "", archived: false, metadata: {}, createdAt: now, updatedAt: now, created: true });
      const { created: _, ...record } = thread;
      equal(await store.threads.get(thread.id), record);
    }
    equal(await store.threads.get("ghost"), null);
  },

  "a thread keeps what it is given": async ({ store, reopen }) => {
    const given = { id: "t", title: "T\u{0}itle 😀", model: "m", mode: "plan", workspace: "/w", systemPrompt: "Be kind.", taskId: "task", taskType: "bug", archived: true, metadata: [1, { n: null }] };
    match(await store.threads.create(given), { ...given, created: true });
    match(await (await reopen()).threads.get("t"), given);
  },

  "creating again with the same id and arguments answers the thread there is": async ({ store }) => {
    const thread = await store.threads.create({ id: "t", title: "a" });
    equal(await store.threads.create({ id: "t", title: "a" }), { ...thread, created: false });
    await store.threads.update("t", { title: "b" });
    match(await store.threads.create({ title: "a", id: "t" }), { title: "b", created: false });
    await refuses(store, () => store.threads.create({ id: "t", title: "b" }), "conflict", /"t"/);
    await refuses(store, () => store.threads.create({ id: "t" }), "conflict", /"t"/);
  },

  "an update changes what is named; null clears": async ({ store, clock }) => {
    const given = { id: "t", title: "a", model: "m", mode: "plan", workspace: "/w", systemPrompt: "s", taskId: "i", taskType: "y", metadata: { a: 1 } };
    const { created: _, ...before } = await store.threads.create(given);
    clock.advance(5);
    for (const [field, value] of Object.entries({ ...given, archived: true })) {
      if (field === "id") continue;
      const other = typeof value === "string" ? "other" : field === "archived" ? true : { b: 2 };
      equal(await store.threads.update("t", { [field]: other }), { ...before, [field]: other, updatedAt: clock.now() });
      if (field === "archived") continue;
      const { [field]: __, ...cleared } = before;
      equal(await store.threads.update("t", { [field]: null }), { ...cleared, ...(field === "metadata" && { metadata: {} }), updatedAt: clock.now() });
      await store.threads.update("t", { [field]: value });
    }
    clock.advance(5);
    const { updatedAt } = await store.threads.get("t");
    match(await store.threads.update("t", { title: undefined }), { title: "a", updatedAt });
    await refuses(store, () => store.threads.update("ghost", { title: "a" }), "not_found", /"ghost"/);
  },

  "title and archive flag that are changed at once are both kept": async ({ store }) => {
    await store.threads.create({ id: "t" });
    for (const n of range(20)) {
      await Promise.all([store.threads.update("t", { title: `title ${n}` }), store.threads[n % 2 ? "unarchive" : "archive"]("t"), store.threads.update("t", { metadata: n })]);
      match(await store.threads.get("t"), { title: `title ${n}`, archived: n % 2 === 0, metadata: n });
    }
  },

  "archived threads are out of sight and can be written to": async ({ store, clock }) => {
    for (const id of ["a", "b", "c"]) await store.threads.create({ id });
    clock.advance(1);
    match(await store.threads.archive("b"), { archived: true, updatedAt: clock.now() });
    clock.advance(1);
    match(await store.threads.archive("b"), { archived: true, updatedAt: clock.now() - 1 });
    const seen = (archived) => Promise.all([ids(store.threads.list({ archived, limit: 1 })), recent(store, { archived })]);
    equal(await seen(undefined), [["a", "c"], ["c", "a"]]);
    equal(await seen("exclude"), [["a", "c"], ["c", "a"]]);
    equal(await seen("only"), [["b"], ["b"]]);
    equal(await seen("include"), [["a", "b", "c"], ["b", "c", "a"]]);
    equal(await ids(store.threads.list({ archived: "include", order: "desc" })), ["c", "b", "a"]);
    equal(await ids(store.threads.list({ order: "desc", limit: 1 })), ["c", "a"]);
    match(await store.turns.create({ threadId: "b" }), { threadId: "b" });
    match(await store.threads.unarchive("b"), { archived: false });
    equal(await ids(store.threads.list()), ["a", "b", "c"]);
    await refuses(store, () => store.threads.archive("ghost"), "not_found");
    await refuses(store, () => store.threads.unarchive("ghost"), "not_found");
  },

  "what changed last comes first, whatever changed": async ({ store }) => {
    for (const id of ["a", "b", "c"]) await store.threads.create({ id });
    equal(await recent(store), ["c", "b", "a"]);
    await store.threads.update("a", { model: "m" });
    equal(await recent(store), ["a", "c", "b"]);
    await store.turns.create({ id: "turn", threadId: "b" });
    equal(await recent(store, { limit: 2 }), ["b", "a"]);
    await store.items.create({ id: "i", threadId: "c", kind: "error" });
    equal(await recent(store), ["c", "b", "a"]);
    await store.turns.update("turn", { status: "in_progress" });
    equal(await recent(store), ["b", "c", "a"]);
    await store.items.update("i", { summary: "s" });
    equal(await recent(store), ["c", "b", "a"]);
  },

  "deleting a thread deletes all of it but what it used": async ({ store }) => {
    await conversation(store);
    await store.threads.create({ id: "other" });
    await store.threads.delete("t");
    equal([await store.threads.get("t"), await store.turns.get("first"), await store.items.get("1")], [null, null, null]);
    equal((await store.threads.search({ text: "talk" })).items, []);
    equal(await ids(store.turns.listIncomplete()), []);
    match(await store.usage.get("r"), { turnId: "first", threadId: "t" });
    for (const attempt of [
      () => store.threads.update("t", { title: "x" }),
      () => store.threads.archive("t"),
      () => store.threads.fork("t"),
      () => store.turns.create({ threadId: "t" }),
      () => store.turns.update("first", { inputSummary: "x" }),
      () => store.items.appendText("5", { delta: "x" }),
      () => store.items.create({ threadId: "t", kind: "error" }),
      () => store.inbox.admit("t", { prompt: 1 }),
      () => store.threadEvents.append("t", { type: "late" }),
      () => store.threads.delete("t"),
    ]) {
      await refuses(store, attempt, "not_found");
    }
    equal(await ids(store.threads.list({ archived: "include" })), ["other"]);
    // Its id is free again, and nothing of the old thread is in the new one.
    match(await store.threads.create({ id: "t" }), { created: true });
    equal([await ids(store.turns.list({ threadId: "t" })), await all(store.items.list({ threadId: "t" })), await all(store.threadEvents.list({ threadId: "t" }))], [[], [], []]);
  },

  "a fork is the thread with ids of its own, and lives for itself": async ({ store, clock }) => {
    await conversation(store);
    const now = clock.advance(10) ?? clock.now();
    const before = await contents(store);
    const fork = await store.threads.fork("t");
    match(fork, { title: "A talk", model: "m", systemPrompt: "Be kind.", metadata: { a: 1 }, forkedFrom: { threadId: "t" }, createdAt: clock.now(), created: true });
    const [first, second, ...none] = await all(store.turns.list({ threadId: fork.id }));
    equal(none, []);
    match(first, { status: "completed", inputSummary: "ask", lastRequestInputTokens: 5, createdAt: now - 10 });
    equal([first.usage, first.id === "first"], [undefined, false]);
    match(second, { status: "interrupted", endedAt: clock.now(), durationMs: 10 });
    equal(fork.latestTurnId, second.id);
    const items = await all(store.items.list({ threadId: fork.id }));
    equal(items.map(({ text, turnId, position, status }) => [text, turnId, position, status]), [
      ["1", first.id, 1, "completed"],
      ["2", first.id, 2, "completed"],
      ["3", first.id, 3, "completed"],
      ["4", second.id, 4, "completed"],
      ["so far", second.id, 5, "interrupted"],
      ["6", undefined, 6, "completed"],
    ]);
    match(items[1], { parentId: items[0].id, data: { output: 5 }, metadata: { b: 2 } });
    equal([items[2].parentId, fork.headItemId], [items[1].id, items[5].id]);
    equal([await all(store.inbox.list({ threadId: fork.id })), await all(store.threadEvents.list({ threadId: fork.id }))], [[], []]);
    await store.threads.delete(fork.id);
    equal(await contents(store), before);
  },

  "a fork ends with the item or the turn that is named": async ({ store }) => {
    await conversation(store);
    const forked = async (point) => {
      const { id, forkedFrom } = await store.threads.fork("t", point);
      return [forkedFrom, await texts(store, id), (await all(store.turns.list({ threadId: id }))).length];
    };
    equal(await forked({ atItem: "2" }), [{ threadId: "t", itemId: "2" }, ["1", "2"], 1]);
    equal(await forked({ atItem: "4" }), [{ threadId: "t", itemId: "4" }, ["1", "2", "3", "4"], 2]);
    equal(await forked({ atItem: "6" }), [{ threadId: "t", itemId: "6" }, ["1", "2", "3", "4", "so far", "6"], 2]);
    equal(await forked({ atTurn: "first" }), [{ threadId: "t", turnId: "first" }, ["1", "2", "3"], 1]);
    equal(await forked({ atTurn: "second" }), [{ threadId: "t", turnId: "second" }, ["1", "2", "3", "4", "so far"], 2]);
    await store.threads.create({ id: "other" });
    await store.items.create({ id: "elsewhere", threadId: "other", kind: "error" });
    await store.turns.create({ id: "turn elsewhere", threadId: "other" });
    await refuses(store, () => store.threads.fork("t", { atItem: "elsewhere" }), "invalid_argument", /elsewhere/);
    await refuses(store, () => store.threads.fork("t", { atTurn: "turn elsewhere" }), "invalid_argument", /elsewhere/);
    await refuses(store, () => store.threads.fork("t", { atItem: "ghost" }), "not_found", /ghost/);
    await refuses(store, () => store.threads.fork("t", { atTurn: "ghost" }), "not_found", /ghost/);
    await refuses(store, () => store.threads.fork("t", { atItem: "1", atTurn: "first" }), "invalid_argument", /atTurn/);
  },

  "the same fork asked for twice is one thread": async ({ store }) => {
    await conversation(store);
    const fork = await store.threads.fork("t", { newId: "copy", atItem: "3" });
    match(fork, { id: "copy", created: true });
    const before = await contents(store);
    equal(await store.threads.fork("t", { newId: "copy", atItem: "3" }), { ...fork, created: false });
    equal(await contents(store), before);
    await refuses(store, () => store.threads.fork("t", { newId: "copy", atItem: "2" }), "conflict", /copy/);
    await refuses(store, () => store.threads.fork("t", { newId: "t" }), "conflict", /"t"/);
    // What is found in a fork is found as in any thread.
    equal((await store.threads.search({ text: "talk" })).items.map(({ threadId }) => threadId).sort(), ["copy", "t"]);
  },

  "threads that have not changed for long go where that is asked for, unless a turn is open": async ({ store, clock }) => {
    const day = 86_400_000;
    await conversation(store);
    for (const id of ["old", "archived", "written"]) await store.threads.create({ id });
    await store.threads.archive("archived");
    clock.advance(day);
    match(await store.sweep(), { pruned: 0 });
    equal(await store.retention.set({ threadsMs: day }), { threadsMs: day });
    await store.items.create({ threadId: "written", kind: "error" });
    match(await store.sweep(), { pruned: 2, errors: [] });
    equal(await ids(store.threads.list({ archived: "include" })), ["t", "written"]);
    // What ends now is kept for a day from now.
    await store.turns.update("second", { status: "completed" });
    clock.advance(day - 1);
    match(await store.sweep(), { pruned: 0 });
    clock.advance(1);
    match(await store.sweep(), { pruned: 2, errors: [] });
    equal(await ids(store.threads.list()), []);
    match(await store.usage.get("r"), { responseId: "r" });
    await rejects(store.retention.set({ threadsMs: -1 }), "invalid_argument", /threadsMs/);
  },

  "a suspended tenant makes no threads and turns, and ends those it has": async ({ store }) => {
    await store.tenants.create({ id: "x" });
    const tenant = store.forTenant("x");
    await tenant.threads.create({ id: "t" });
    await tenant.turns.create({ id: "u", threadId: "t", status: "in_progress" });
    await store.tenants.update("x", { status: "suspended" });
    for (const attempt of [() => tenant.threads.create({}), () => tenant.threads.fork("t"), () => tenant.turns.create({ threadId: "t" })]) {
      await refuses(tenant, attempt, "tenant_suspended");
    }
    match(await tenant.threads.update("t", { title: "a" }), { title: "a" });
    equal(await tenant.turns.recover({ liveOwnerIds: [] }), { interrupted: ["u"] });
    await store.tenants.update("x", { status: "active", limits: { maxTokensPerMonth: 5 } });
    await tenant.usage.record({ turnId: "u", responseId: "r", model: "m", inputTokens: 5, outputTokens: 0 });
    match(await tenant.threads.create({}), { created: true });
    await refuses(tenant, () => tenant.turns.create({ threadId: "t" }), "limit_exceeded", /maxTokensPerMonth/);
  },
};
