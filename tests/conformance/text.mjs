import { equal, match, rejects } from "./assert.mjs";
import { all, random, range, refuses } from "./kit.mjs";

/** An item i of a thread t. */
async function prepare(store, more) {
  await store.threads.create({ id: "t" });
  await store.items.create({ id: "i", threadId: "t", kind: "assistant_message", ...more });
}

const append = (store, delta, at) => store.items.appendText("i", { delta }, { at });
const read = async (store, after) => {
  const { version, ...found } = await store.items.readText("i", { after });
  equal(typeof version, "string");
  return found;
};

export const texts = {
  "text streams into an item, and a reader gets what is new": async ({ store, clock }) => {
    await prepare(store);
    equal(await read(store), { text: "", length: 0, status: "queued" });
    clock.advance(5);
    equal(await append(store, "Hel"), { length: 3 });
    match(await store.items.get("i"), { text: "Hel", status: "in_progress", startedAt: clock.now() });
    equal(await read(store), { text: "Hel", length: 3, status: "in_progress" });
    equal(await append(store, "lo, ", 3), { length: 7 });
    equal(await append(store, "🎉 Grüße", 7), { length: 15 });
    equal(await read(store, 3), { text: "lo, 🎉 Grüße", length: 15, status: "in_progress" });
    equal(await read(store, 5), { text: ", 🎉 Grüße", length: 15, status: "in_progress" });
    equal(await read(store, 15), { text: "", length: 15, status: "in_progress" });
    equal((await store.items.list({ threadId: "t" })).items[0].text, "Hello, 🎉 Grüße");
    clock.advance(5);
    match(await store.items.update("i", { status: "completed" }), { text: "Hello, 🎉 Grüße", status: "completed", endedAt: clock.now() });
    for (const after of range(16)) equal(await read(store, after), { text: "Hello, 🎉 Grüße".slice(after), length: 15, status: "completed" });
  },

  "text streams on after what an item began with": async ({ store }) => {
    await prepare(store, { text: "Once 🎉", status: "queued" });
    equal(await append(store, " more", 7), { length: 12 });
    for (const after of range(13)) equal((await read(store, after)).text, "Once 🎉 more".slice(after));
    match(await store.items.get("i"), { text: "Once 🎉 more", status: "in_progress" });
    match(await store.items.update("i", { status: "failed" }), { text: "Once 🎉 more" });
  },

  "a delta that comes twice is seen by its place": async ({ store }) => {
    await prepare(store);
    await append(store, "🎉", 0);
    const error = await refuses(store, () => append(store, "🎉", 0), "conflict", /\b2\b.*\b0\b/);
    equal(error.details, { id: "i", at: 0, length: 2 });
    await refuses(store, () => append(store, "late", 3), "conflict", /\b2\b.*\b3\b/);
    await refuses(store, () => append(store, "", 1), "conflict", /\b2\b.*\b1\b/);
    equal(await append(store, "", 2), { length: 2 });
    equal(await append(store, "!", error.details.length), { length: 3 });
    match(await store.items.get("i"), { text: "🎉!" });
  },

  "a pair that is split across deltas is whole again, wherever it is split": async ({ store }) => {
    await prepare(store);
    const text = "a🎉👩‍👩‍👧z\\ud83c\\";
    for (const [at, unit] of range(text.length).entries()) {
      equal(await append(store, text[unit], at), { length: at + 1 });
      equal(await read(store, at), { text: text[unit], length: at + 1, status: "in_progress" });
    }
    for (const after of range(text.length)) equal((await read(store, after)).text, text.slice(after));
    match(await store.items.get("i"), { text });
    match(await store.items.update("i", { status: "completed" }), { text });
    for (const after of range(text.length)) equal((await read(store, after)).text, text.slice(after));
  },

  "halves meet within a batch too": async ({ store }) => {
    await prepare(store);
    const answers = await store.batch((tx) => [tx.items.appendText("i", { delta: "x\ud83c" }, { at: 0 }), tx.items.appendText("i", { delta: "\udf89y" }, { at: 2 })]);
    equal(answers, [{ length: 2 }, { length: 4 }]);
    match(await store.items.get("i"), { text: "x🎉y" });
  },

  "a half whose other half never comes is U+FFFD": async ({ store }) => {
    await prepare(store);
    for (const delta of ["\udf89a\ud83c", "b", "\udf89", "\ud83c", "\ud83c", "\udf89", "c\ud83cd\udf89e", "\ud83c"]) await append(store, delta);
    const kept = "\ufffda\ufffdb\ufffd\ufffd🎉c\ufffdd\ufffde\ufffd";
    match(await store.items.get("i"), { text: kept });
    match(await read(store), { text: `\udf89${kept.slice(1, -1)}\ud83c`, length: kept.length });
    match(await store.items.update("i", { status: "interrupted" }), { text: kept });
    match(await read(store), { text: kept, length: kept.length });
  },

  "what was read bit by bit is what is there in the end": async ({ store }) => {
    const next = random(7);
    const pieces = ["a", "ü", "漢字", "🎉", "👩‍👩‍👧", "\u0000", "\n", '"', "\\", "x".repeat(300)];
    const text = range(200).map(() => pieces[Math.floor(next() * pieces.length)]).join("");
    await prepare(store);
    let [sent, seen] = [0, ""];
    while (sent < text.length) {
      const end = Math.min(text.length, sent + Math.floor(next() * 12));
      equal((await append(store, text.slice(sent, end), sent)).length, end);
      sent = end;
      if (next() < 0.4) seen += (await read(store, seen.length)).text;
      equal(seen, text.slice(0, seen.length));
    }
    await store.items.update("i", { status: "completed" });
    seen += (await read(store, seen.length)).text;
    equal(seen, text);
  },

  "a text given whole takes the place of all that has streamed in": async ({ store }) => {
    await prepare(store);
    for (const delta of ["one ", "two ", "three\ud83c"]) await append(store, delta);
    match(await store.items.update("i", { text: "four" }), { text: "four", status: "in_progress" });
    equal(await read(store), { text: "four", length: 4, status: "in_progress" });
    const error = await rejects(read(store, 14), "conflict", /\b4\b.*\b14\b/);
    equal(error.details, { id: "i", after: 14, length: 4 });
    equal(await append(store, "!", 4), { length: 5 });
    match(await store.items.put({ id: "i", text: "five", status: "completed" }), { text: "five" });
    equal(await read(store), { text: "five", length: 4, status: "completed" });
    match(await store.items.update("i", { text: "after the end" }), { text: "after the end", status: "completed" });
    equal((await read(store, 6)).text, "the end");
  },

  "who has read a text is told that another one took its place, however long that is": async ({ store }) => {
    await prepare(store);
    await append(store, "hello world");
    const { length: after, version } = await store.items.readText("i");
    const next = () => store.items.readText("i", { after, version });
    // What is known stays the beginning: more streams in, a text that goes on from it is given whole, and other things change.
    await append(store, "!");
    match(await next(), { text: "!", version });
    await store.items.update("i", { text: "hello world! And more" });
    match(await next(), { text: "! And more", version });
    await store.items.update("i", { text: "hello world! And more", summary: "s", data: { tokens: 1 } });
    await append(store, ".");
    match(await next(), { text: "! And more.", version });

    const others = ["completely different text, longer", "hello", "another hello world", "hello worl", ""];
    let last = version;
    for (const text of others) {
      await store.items.update("i", { text });
      const error = await rejects(next(), "conflict", /another text now; read from 0/);
      equal(error.details, { id: "i", after, length: text.length });
      const found = await store.items.readText("i", { after: 0, version: last });
      match(found, { text, length: text.length });
      equal(found.version === last, false, text);
      last = found.version;
    }
    await append(store, "more");
    match(await store.items.readText("i", { after: 0, version: last }), { text: "more", version: last });

    // The same where the item ends with it, and after that, and where it is put.
    await store.items.put({ id: "i", text: "less, and more", status: "completed" });
    await rejects(store.items.readText("i", { after: 1, version: last }), "conflict", /read from 0/);
    const done = await store.items.readText("i");
    await store.items.update("i", { text: "something else in its place" });
    await rejects(store.items.readText("i", { after: done.length, version: done.version }), "conflict", /read from 0/);

    // An end that joins what streamed in changes no text.
    await store.items.create({ id: "j", threadId: "t", kind: "reasoning", text: "so", status: "in_progress" });
    await store.items.appendText("j", { delta: " far" });
    const open = await store.items.readText("j");
    await store.items.update("j", { status: "completed" });
    equal(await store.items.readText("j", { after: 3, version: open.version }), { text: "far", length: 6, status: "completed", version: open.version });

    // Another item under the same id has another text.
    await store.items.delete("j");
    await store.items.create({ id: "j", threadId: "t", kind: "reasoning", text: "somebody else's" });
    await rejects(store.items.readText("j", { after: 6, version: open.version }), "conflict", /read from 0/);
  },

  "other changes leave standing what streams in": async ({ store }) => {
    await prepare(store);
    await append(store, "one");
    match(await store.items.update("i", { data: { tokens: 1 }, summary: "s" }), { text: "one", data: { tokens: 1 } });
    equal(await append(store, " two", 3), { length: 7 });
    match(await store.items.update("i", { data: { tokens: 2 }, status: "completed" }), { text: "one two", data: { tokens: 2 } });
  },

  "an item that has ended takes no more text": async ({ store }) => {
    await prepare(store);
    await append(store, "all");
    for (const status of ["completed", "failed", "interrupted", "cancelled"]) {
      await store.items.create({ id: status, threadId: "t", kind: "reasoning", text: "all", status });
      const error = await refuses(store, () => store.items.appendText(status, { delta: "more" }), "invalid_transition", new RegExp(status));
      equal(error.details, { id: status, from: status, to: "in_progress" });
      match(await store.items.get(status), { text: "all" });
    }
    await refuses(store, () => store.items.appendText("ghost", { delta: "x" }), "not_found", /item "ghost"/);
    await rejects(store.items.readText("ghost"), "not_found", /item "ghost"/);
    await rejects(read(store, -1), "invalid_argument", /after.*-1/);
  },

  "what was acknowledged is there after opening again": async ({ store, reopen }) => {
    await prepare(store);
    for (const n of range(300)) await append(store, `${n},`);
    await append(store, "\ud83c");
    const again = await reopen();
    const text = `${range(300).join(",")},`;
    equal(await read(again), { text: `${text}\ud83c`, length: text.length + 1, status: "in_progress" });
    await again.items.appendText("i", { delta: "\udf89" }, { at: text.length + 1 });
    match(await again.items.update("i", { status: "completed" }), { text: `${text}🎉` });
  },

  "many items stream at once and do not meet": async ({ store }) => {
    await prepare(store);
    const ids = range(20).map((n) => `s${n}`);
    for (const id of ids) await store.items.create({ id, threadId: "t", kind: "reasoning" });
    for (const n of range(10)) await Promise.all(ids.map((id) => store.items.appendText(id, { delta: `${id}:${n} ` })));
    const found = await all(store.items.list({ threadId: "t" }));
    equal(found.slice(1).map(({ text }) => text), ids.map((id) => range(10).map((n) => `${id}:${n} `).join("")));
  },

  "a turn that ends leaves no item open": async ({ store, clock }) => {
    await store.threads.create({ id: "t" });
    for (const status of ["interrupted", "failed", "cancelled"]) {
      await store.turns.create({ id: status, threadId: "t", status: "in_progress" });
      const of = (name, more) => store.items.create({ id: `${status}-${name}`, threadId: "t", turnId: status, kind: "assistant_message", ...more });
      await of("done", { text: "done", status: "completed" });
      await of("waits");
      await of("streams");
      await store.items.appendText(`${status}-streams`, { delta: "so far" });
      clock.advance(5);
      await store.turns.update(status, { status });
      const found = (await store.items.list({ turnId: status })).items;
      equal(found.map(({ text, endedAt }) => [text, endedAt]), [["done", clock.now() - 5], ["", clock.now()], ["so far", clock.now()]]);
      equal(found[0].status, "completed");
      equal(found.map((item) => ["queued", "in_progress"].includes(item.status)), [false, false, false]);
    }
  },
};
