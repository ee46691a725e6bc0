import { equal, match, rejects } from "./assert.mjs";
import { all, range, refuses } from "./kit.mjs";

const mebibyte = 1 << 20;
const add = (store, more) => store.items.create({ threadId: "t", kind: "assistant_message", ...more });
const list = async (store, filter) => (await all(store.items.list({ threadId: "t", ...filter }))).map(({ id }) => id);

/** A thread t with a turn u, and another thread with a turn. */
async function prepare(store) {
  await store.threads.create({ id: "t" });
  await store.turns.create({ id: "u", threadId: "t" });
  await store.threads.create({ id: "other" });
  await store.turns.create({ id: "of-other", threadId: "other" });
}

export const items = {
  "an item comes back as it was given": async ({ store, clock }) => {
    await prepare(store);
    await add(store, { id: "before" });
    const given = {
      id: "i",
      threadId: "t",
      turnId: "u",
      parentId: "before",
      kind: "tool_call",
      status: "in_progress",
      summary: "Reads a file",
      text: "cat notes.txt\u0000🎉",
      data: { input: { path: "notes.txt" }, output: null },
      metadata: [1],
      blobs: [{ blobId: "b1", name: "notes.txt" }, { blobId: "b2" }],
    };
    const made = await store.items.create(given);
    equal(made, { ...given, position: 2, createdAt: clock.now(), startedAt: clock.now(), created: true });
    const { created, ...item } = made;
    equal(await store.items.get("i"), item);
    equal((await store.items.list({ turnId: "u" })).items, [item]);
    equal(await store.items.get("ghost"), null);
    const least = await add(store);
    equal(await store.items.get(least.id), {
      id: least.id,
      threadId: "t",
      position: 3,
      kind: "assistant_message",
      status: "queued",
      summary: "",
      text: "",
      blobs: [],
      createdAt: clock.now(),
    });
    match(await add(store, { data: null, metadata: null }), { data: null, metadata: null });
  },

  "what a person has said is complete, and what is still to be made is queued": async ({ store, clock }) => {
    await prepare(store);
    const complete = ["user_message", "status", "error"];
    for (const kind of [...complete, "assistant_message", "reasoning", "tool_call", "file_change", "command_execution", "context_compaction"]) {
      const item = await add(store, { kind });
      equal([item.status, item.endedAt], complete.includes(kind) ? ["completed", clock.now()] : ["queued", undefined], kind);
    }
    for (const kind of ["assistant_message", "reasoning"]) match(await add(store, { kind, text: "Whole." }), { status: "completed", endedAt: clock.now() });
    match(await add(store, { kind: "tool_call", text: "ls", data: {} }), { status: "queued" });
  },

  "creating again with the same id and arguments answers the item there is": async ({ store, clock }) => {
    await prepare(store);
    const given = { id: "i", turnId: "u", data: { a: 1 } };
    const made = await add(store, given);
    await store.items.update("i", { summary: "changed" });
    clock.advance(5);
    equal(await add(store, given), { ...made, summary: "changed", created: false });
    await refuses(store, () => add(store, { ...given, data: { a: 2 } }), "conflict", /"i"/);
    await store.items.put({ id: "p", threadId: "t", kind: "error" });
    await refuses(store, () => add(store, { id: "p", kind: "error" }), "conflict", /"p"/);
    equal(await list(store), ["i", "p"]);
  },

  "items of one millisecond stay in the order in which they were made, whatever changes": async ({ store, clock, reopen }) => {
    await prepare(store);
    const ids = range(100).map((n) => `i${(n * 37) % 100}`);
    for (const id of ids) await add(store, { id, turnId: "u" });
    equal(await list(store, { limit: 7 }), ids);
    await store.items.update(ids[2], { text: "changed", status: "completed" });
    await store.items.appendText(ids[50], { delta: "more" });
    equal(await list(store, { limit: 7 }), ids);
    const again = await reopen();
    equal(await list(again), ids);
    await again.items.put({ id: ids[2], summary: "again" });
    clock.advance(-60_000);
    await again.items.create({ id: "last", threadId: "t", kind: "error" });
    equal(await list(again, { limit: 30 }), [...ids, "last"]);
    equal(await list(again, { turnId: "u", threadId: undefined, limit: 30 }), ids);
    equal((await all(again.items.list({ threadId: "t" }))).map(({ position }) => position), range(101).map((n) => n + 1));
  },

  "the newest page comes first where that is asked for": async ({ store }) => {
    await prepare(store);
    for (const n of range(5)) await add(store, { id: `i${n}`, turnId: n % 2 ? "u" : undefined });
    const newest = await store.items.list({ threadId: "t", order: "desc", limit: 2 });
    equal(newest.items.map(({ id }) => id), ["i4", "i3"]);
    equal(await list(store, { order: "desc", limit: 2 }), ["i4", "i3", "i2", "i1", "i0"]);
    equal(await list(store, { turnId: "u", order: "desc", limit: 1 }), ["i3", "i1"]);
  },

  "a walk through the list meets each item once, whatever changes meanwhile": async ({ store }) => {
    await prepare(store);
    for (const n of range(6)) await add(store, { id: `i${n}` });
    const first = await store.items.list({ threadId: "t", limit: 3 });
    await store.items.update("i4", { status: "completed", text: "changed" });
    await store.items.delete("i1");
    await add(store, { id: "new" });
    const rest = await store.items.list({ threadId: "t", limit: 10, cursor: first.nextCursor });
    equal([...first.items, ...rest.items].map(({ id }) => id), ["i0", "i1", "i2", "i3", "i4", "i5", "new"]);
  },

  "items are listed by thread or by turn": async ({ store }) => {
    await prepare(store);
    await add(store, { id: "a", turnId: "u" });
    await add(store, { id: "b" });
    await add(store, { id: "c", threadId: "other", turnId: "of-other" });
    equal(await list(store), ["a", "b"]);
    equal(await list(store, { turnId: "u" }), ["a"]);
    equal(await list(store, { turnId: "of-other" }), []);
    equal(await list(store, { threadId: undefined, turnId: "of-other" }), ["c"]);
    await rejects(store.items.list({}), "invalid_argument", /threadId.*turnId/);
    await rejects(store.items.list({ threadId: "ghost" }), "not_found", /ghost/);
    await rejects(store.items.list({ turnId: "ghost" }), "not_found", /ghost/);
  },

  "an item of nothing, or of something unknown, is refused": async ({ store }) => {
    await prepare(store);
    await refuses(store, () => add(store, { threadId: "ghost" }), "not_found", /thread "ghost"/);
    await refuses(store, () => add(store, { turnId: "ghost" }), "not_found", /turn "ghost"/);
    await refuses(store, () => add(store, { turnId: "of-other" }), "conflict", /"of-other".*"t"/);
    await refuses(store, () => add(store, { kind: "poem" }), "invalid_argument", /kind.*poem/);
    await refuses(store, () => add(store, { status: "running" }), "invalid_argument", /status.*running/);
    await refuses(store, () => add(store, { blobs: [{ blobId: "b", size: 1 }] }), "invalid_argument", /blobs\[0\]\.size/);
    await refuses(store, () => add(store, { blobs: [{}] }), "invalid_argument", /blobs\[0\]\.blobId/);
    await refuses(store, () => store.items.put({ id: "new", kind: "error" }), "invalid_argument", /threadId/);
    await refuses(store, () => store.items.put({ id: "new", threadId: "t" }), "invalid_argument", /kind/);
    await refuses(store, () => store.items.update("ghost", { text: "x" }), "not_found", /item "ghost"/);
    await refuses(store, () => store.items.delete("ghost"), "not_found", /item "ghost"/);
    equal(await list(store), []);
  },

  "an update changes what it names, and null clears": async ({ store }) => {
    await prepare(store);
    await add(store, { id: "p" });
    const made = await add(store, { id: "i", parentId: "p", summary: "s", text: "t", data: 1, metadata: 2, blobs: [{ blobId: "b" }] });
    const { created, ...item } = made;
    equal(await store.items.update("i", {}), item);
    equal(await store.items.update("i", { text: undefined, summary: "other" }), { ...item, summary: "other" });
    equal(await store.items.update("i", { data: { deep: [2 ** 53] }, blobs: [{ blobId: "c", name: "n" }] }), {
      ...item,
      summary: "other",
      data: { deep: [2 ** 53] },
      blobs: [{ blobId: "c", name: "n" }],
    });
    const { parentId, data, metadata, ...rest } = item;
    equal(await store.items.update("i", { parentId: null, data: null, metadata: null, blobs: null, text: "", summary: "s" }), { ...rest, text: "", blobs: [] });
  },

  "an item begins and ends once, and what has ended stays so": async ({ store, clock }) => {
    await prepare(store);
    const begun = clock.now();
    const ends = ["completed", "failed", "interrupted", "cancelled"];
    for (const end of ends) {
      await add(store, { id: end });
      clock.advance(10);
      const started = clock.now();
      match(await store.items.update(end, { status: "in_progress" }), { status: "in_progress", startedAt: started });
      await refuses(store, () => store.items.update(end, { status: "queued" }), "invalid_transition", /in_progress.*queued/);
      clock.advance(10);
      match(await store.items.update(end, { status: "in_progress" }), { startedAt: started });
      const ended = clock.now();
      match(await store.items.update(end, { status: end }), { status: end, startedAt: started, endedAt: ended });
      clock.advance(10);
      match(await store.items.update(end, { status: end, summary: "later" }), { status: end, summary: "later", endedAt: ended });
      for (const other of ["queued", "in_progress", ...ends].filter((status) => status !== end)) {
        const error = await refuses(store, () => store.items.update(end, { status: other, summary: "never" }), "invalid_transition", new RegExp(`${end}.*${other}`));
        equal(error.details, { id: end, from: end, to: other });
      }
    }
    equal((await store.items.list({ threadId: "t" })).items[0].createdAt, begun);
    const { startedAt, ...at } = await add(store, { status: "failed" });
    equal([startedAt, at.endedAt], [undefined, clock.now()]);
  },

  "put inserts an item, or changes what it names of the one there is": async ({ store, clock }) => {
    await prepare(store);
    const inserted = await store.items.put({ id: "i", threadId: "t", turnId: "u", kind: "tool_call", status: "in_progress", data: { input: 1 }, metadata: null });
    match(inserted, { position: 1, status: "in_progress", data: { input: 1 }, created: true });
    equal("metadata" in inserted, false);
    await add(store, { id: "j" });
    clock.advance(5);
    const updated = await store.items.put({ id: "i", threadId: "t", turnId: "u", kind: "tool_call", status: "completed", text: "done" });
    equal(updated, { ...inserted, status: "completed", text: "done", endedAt: clock.now(), created: false });
    match(await store.items.put({ id: "i", data: null, summary: "s" }), { status: "completed", text: "done", summary: "s", position: 1 });
    equal("data" in (await store.items.get("i")), false);
    for (const [field, value, was] of [["threadId", "other", "t"], ["turnId", "of-other", "u"], ["kind", "error", "tool_call"]]) {
      const message = new RegExp(`^the item "i" has the ${field} "${was}", which cannot become "${value}"$`);
      await refuses(store, () => store.items.put({ id: "i", [field]: value, summary: "never" }), "conflict", message);
    }
    await refuses(store, () => store.items.put({ id: "j", turnId: "u" }), "conflict", /^the item "j" has no turnId, which cannot become "u"$/);
    match(await store.items.get("i"), { summary: "s" });
    equal(await list(store), ["i", "j"]);
  },

  "the item that another one belongs to is one of the same thread": async ({ store }) => {
    await prepare(store);
    await store.items.create({ id: "elsewhere", threadId: "other", kind: "reasoning" });
    await add(store, { id: "calls", kind: "tool_call" });
    await add(store, { id: "result", parentId: "calls" });
    await add(store, { id: "free" });
    const wrong = [
      ["ghost", "not_found", /there is no item "ghost"/],
      ["elsewhere", "conflict", /"elsewhere" is an item of another thread/],
    ];
    for (const [parentId, code, message] of wrong) {
      for (const attempt of [
        () => add(store, { id: "new", parentId }),
        () => add(store, { parentId }),
        () => store.items.put({ id: "new", threadId: "t", kind: "reasoning", parentId }),
        () => store.items.put({ id: "result", parentId }),
        () => store.items.update("free", { parentId, summary: "never" }),
      ]) {
        const { details } = await refuses(store, attempt, code, message);
        match(details, { path: "parentId", parentId });
      }
    }
    for (const attempt of [
      () => add(store, { id: "new", parentId: "new" }),
      () => store.items.put({ id: "new", threadId: "t", kind: "reasoning", parentId: "new" }),
      () => store.items.update("free", { parentId: "free" }),
    ]) {
      match((await refuses(store, attempt, "invalid_argument", /cannot belong to itself/)).details, { path: "parentId" });
    }
    match(await store.items.update("free", { parentId: "result" }), { parentId: "result" });
    // What comes again stands, though the item that it names has been deleted since.
    await store.items.delete("calls");
    match(await store.items.put({ id: "result", parentId: "calls", summary: "again" }), { parentId: "calls", summary: "again" });
    match(await add(store, { id: "result", parentId: "calls" }), { created: false });
    await refuses(store, () => store.items.update("free", { parentId: "calls" }), "not_found", /"calls"/);
    match(await store.batch((tx) => [add(tx, { id: "a" }), add(tx, { id: "b", parentId: "a" })]), [{ id: "a" }, { parentId: "a" }]);
  },

  "the thread tells of its newest item, also when that is deleted": async ({ store, clock }) => {
    await prepare(store);
    const head = async () => (await store.threads.get("t")).headItemId;
    equal(await head(), undefined);
    for (const id of ["a", "b", "c"]) await add(store, { id });
    equal(await head(), "c");
    await store.items.delete("b");
    equal(await head(), "c");
    await store.items.delete("c");
    equal([await head(), await store.items.get("c")], ["a", null]);
    await store.items.delete("a");
    equal(await head(), undefined);
    await refuses(store, () => store.items.delete("a"), "not_found", /"a"/);
    clock.advance(5);
    match(await add(store, { id: "d" }), { position: 4 });
    match(await store.threads.get("t"), { headItemId: "d", updatedAt: clock.now() });
    const last = clock.now();
    for (const kind of ["tool_call", "user_message", "reasoning", "assistant_message", "status"]) {
      clock.advance(1);
      await add(store, { kind });
    }
    match(await store.threads.get("t"), { lastMessageAt: last + 4 });
  },

  "nothing brings a deleted thread back": async ({ store }) => {
    await prepare(store);
    await add(store, { id: "i", turnId: "u", status: "in_progress" });
    await store.items.appendText("i", { delta: "some" });
    await store.threads.delete("t");
    for (const attempt of [
      () => add(store, { id: "late" }),
      () => store.items.put({ id: "late", threadId: "t", kind: "error" }),
      () => store.items.put({ id: "i", threadId: "t", kind: "assistant_message" }),
      () => store.items.update("i", { status: "completed" }),
      () => store.items.appendText("i", { delta: "more" }),
      () => store.items.readText("i"),
      () => store.items.delete("i"),
    ]) {
      await refuses(store, attempt, "not_found");
    }
    equal([await store.threads.get("t"), await store.items.get("i"), await store.items.get("late")], [null, null, null]);
  },

  "half an emoji becomes U+FFFD, and NUL survives": async ({ store }) => {
    await prepare(store);
    const given = { text: "cut \ud83c", summary: "\udf89 cut", data: { "k\ud83c": "a\u0000b\udf89" } };
    match(await add(store, { id: "i", ...given }), { text: "cut \ufffd", summary: "\ufffd cut", data: { "k\ufffd": "a\u0000b\ufffd" } });
    match(await store.items.update("i", { text: "\u0000 \udf89\ud83c" }), { text: "\u0000 \ufffd\ufffd" });
    equal((await store.items.list({ threadId: "t" })).items[0].text, "\u0000 \ufffd\ufffd");
  },

  "a text may have 16 MiB, and what is larger is refused": async ({ store }) => {
    await prepare(store);
    const most = "é".repeat(8 * mebibyte);
    equal((await add(store, { id: "i", text: most, status: "queued" })).text.length, most.length);
    equal((await store.items.appendText("i", { delta: "" })).length, most.length);
    for (const [attempt, path] of [
      [() => add(store, { text: `${most}x` }), "text"],
      [() => add(store, { summary: `${most}x` }), "summary"],
      [() => store.items.update("i", { text: `${most}x` }), "text"],
      [() => store.items.put({ id: "i", data: most }), "data"],
      [() => store.items.update("i", { metadata: most }), "metadata"],
      [() => store.items.appendText("i", { delta: "x" }), "delta"],
    ]) {
      const error = await rejects(attempt(), "too_large", new RegExp(`${path}.*16777216`));
      equal(error.details.path, path);
    }
    equal((await store.items.readText("i", { after: most.length })).length, most.length);
    await store.items.update("i", { text: most.slice(1) });
    equal((await store.items.appendText("i", { delta: "ab" })).length, most.length + 1);
    await rejects(store.items.appendText("i", { delta: "x" }), "too_large", /delta/);
  },
};
