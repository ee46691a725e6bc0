import { equal, match, ok } from "./assert.mjs";
import { random, range, refuses } from "./kit.mjs";

const say = (store, text, more) => store.items.create({ threadId: "t", kind: "assistant_message", status: "completed", text, ...more });
const tool = (store, more) => say(store, "", { kind: "tool_call", ...more });

/** The ids of what is found, those of threads for titles, best first. */
const find = async (store, text, more) => (await store.threads.search({ text, ...more })).items.map((hit) => hit.itemId ?? hit.threadId);

/** The pieces of a snippet, what matches in brackets. */
const marked = ({ snippet }) => snippet.map((piece) => (piece.match ? `[${piece.text}]` : piece.text)).join("");

const one = async (store, text, more) => {
  const { items, more: isMore } = await store.threads.search({ text, ...more });
  equal([items.length, isMore], [1, false], `hits for ${JSON.stringify(text)}`);
  return items[0];
};

export const search = {
  "titles, prompts, answers and what tools put out are found, each with a snippet": async ({ store, clock }) => {
    const from = clock.now();
    await store.threads.create({ id: "t", title: "Deploying the website" });
    await store.turns.create({ id: "u", threadId: "t" });
    clock.advance(10);
    await say(store, "How do I roll back a release?", { id: "prompt", turnId: "u", kind: "user_message" });
    await say(store, "Use the previous tag:\n\n  git checkout v1.2", { id: "answer", turnId: "u" });
    await tool(store, { id: "tool", summary: "Reads a file", data: { input: { path: "/etc/nginx.conf" }, output: [{ text: "listen 8080;" }, 17, null, true] } });
    await say(store, "$ cargo test", { id: "command", kind: "command_execution", data: { output: "test result: ok" } });
    await say(store, "src/main.rs", { id: "file", kind: "file_change" });
    await say(store, "Segmentation fault", { id: "error", kind: "error", status: "failed" });
    equal(await one(store, "website"), {
      threadId: "t",
      threadTitle: "Deploying the website",
      archived: false,
      createdAt: from,
      snippet: [{ text: "Deploying the ", match: false }, { text: "website", match: true }],
    });
    equal(await one(store, "release"), {
      threadId: "t",
      threadTitle: "Deploying the website",
      archived: false,
      itemId: "prompt",
      turnId: "u",
      kind: "user_message",
      createdAt: from + 10,
      snippet: [{ text: "How do I roll back a ", match: false }, { text: "release", match: true }, { text: "?", match: false }],
    });
    equal(marked(await one(store, "TAG checkout")), "Use the previous [tag]: git [checkout] v1.2");
    equal(marked(await one(store, "nginx.conf")), "/etc/[nginx.conf]");
    equal(marked(await one(store, "8080")), "listen [8080];");
    equal(marked(await one(store, "reads")), "[Reads] a file");
    equal(marked(await one(store, "result ok")), "test [result]: [ok]");
    for (const [text, id] of [["cargo", "command"], ["main.rs", "file"], ["segmentation", "error"]]) equal(await find(store, text), [id]);
    for (const text of ["path", "input", "17", "true", "nothing", "website release"]) equal(await find(store, text), [], text);
  },

  "what an agent thinks to itself is not found, nor its progress": async ({ store }) => {
    await store.threads.create({ id: "t" });
    for (const kind of ["reasoning", "status", "context_compaction"]) await say(store, "marmalade", { kind, summary: "marmalade", data: "marmalade" });
    await say(store, "jam", { summary: "marmalade", data: ["marmalade"] });
    equal(await find(store, "marmalade"), []);
  },

  "the last word is a beginning: a search while somebody types": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await say(store, "An international conference", { id: "i" });
    await say(store, "Internal notes", { id: "n" });
    for (const text of ["inte", "INTERN", "interna", "internat", "international", "an int"]) ok((await find(store, text)).includes("i"), text);
    equal(await find(store, "int an"), []);
    equal((await find(store, "intern")).sort(), ["i", "n"]);
    equal(await find(store, "interna con"), []);
    equal(marked(await one(store, "international conf")), "An [international] [conference]");
    equal(await find(store, "a"), []);
    equal(await find(store, "n"), []);
  },

  "accents, case and width make no difference": async ({ store }) => {
    await store.threads.create({ id: "t" });
    const texts = ["Crème brûlée", "ŁÓDŹ", "Ёлка", "Ελλάδα", "İstanbul", "Straße", "Ｆｕｌｌ"];
    for (const text of texts) await say(store, text, { id: text });
    const spellings = ["creme", "cre\u0300me BRULEE", "lodz", "елка", "ελλαδα", "istanbul", "STRASSE", "full", "ｆｕｌｌ"];
    const found = [];
    for (const text of spellings) found.push(...(await find(store, text)));
    equal(found, [texts[0], texts[0], "ŁÓDŹ", "Ёлка", "Ελλάδα", "İstanbul", "Straße", "Ｆｕｌｌ", "Ｆｕｌｌ"]);
    equal(marked(await one(store, "creme")), "[Crème] brûlée");
  },

  "scripts without spaces are found inside longer runs": async ({ store }) => {
    await store.threads.create({ id: "t" });
    const texts = { zh: "我们使用机器学习模型来预测结果。", ja: "東京都の天気がGPTで分かる", ko: "오늘 학교에서 배웠다", th: "วันนี้อากาศดี", emoji: "shipped 🚀🎉" };
    for (const [id, text] of Object.entries(texts)) await say(store, text, { id });
    for (const [text, id] of [["机器学习", "zh"], ["模", "zh"], ["预测 使用", "zh"], ["天気", "ja"], ["京都", "ja"], ["gptで", "ja"], ["학교", "ko"], ["에서", "ko"], ["อากาศ", "th"], ["🚀", "emoji"]]) {
      equal(await find(store, text), [id], text);
    }
    for (const text of ["学机", "使用模型", "気天"]) equal(await find(store, text), [], text);
    equal(marked(await one(store, "学习模型")), "我们使用机器[学习模型]来预测结果。");
  },

  "what is written together, or in quotes, stands together": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await say(store, "Open src/main.rs and read it", { id: "together" });
    await say(store, "main thing: rs is a suffix; read and open", { id: "apart" });
    equal(await find(store, "main.rs"), ["together"]);
    equal((await find(store, "main rs")).sort(), ["apart", "together"]);
    equal(await find(store, '"and read"'), ["together"]);
    equal((await find(store, '"and re')).sort(), ["apart", "together"]);
    await tool(store, { id: "parts", data: ["first half", "second"] });
    equal(await find(store, '"half second"'), []);
    equal(await find(store, "second half"), ["parts"]);
  },

  "whatever is typed is text": async ({ store }) => {
    await store.threads.create({ id: "t", title: "Not near or and" });
    await say(store, "drop table threads; -- a NEAR b", { id: "i" });
    for (const text of ["", " ", "\n", "*", '"', '""', "'", "()", "^", "-", "—…", "\u0000", "{", ":", "+", ".*", "\ud800"]) {
      equal(await store.threads.search({ text }), { items: [], more: false }, JSON.stringify(text));
    }
    for (const text of ["NEAR", "near(a b)", "NOT", "title:near", "threads*", "^drop", "AND OR", "a AND b", "(drop", 'drop"', '"drop" "', "drop'; --", "{drop}", "-table", "tab*", "thread:1", "1§1", "ā§1", "drop\u0000table"]) {
      match(await store.threads.search({ text }), { more: false });
    }
    equal(await find(store, "near b"), ["i"]);
    equal(await find(store, "AND OR"), ["t"]);
    equal(await find(store, "drop\u0000table"), ["i"]);
    for (const unit of ["x", "drop table ", '"', "a b ", "学", "🎉", "(", '"a" ', "NOT ", "é"]) {
      match(await store.threads.search({ text: unit.repeat(10_000).slice(0, 10_000) }), { more: false });
    }
    const pasted = range(3_000).map((n) => `word${n}`).join(" ");
    await say(store, pasted, { id: "long" });
    equal(await find(store, pasted), ["long"]);
    equal(await find(store, "x".repeat(10_000)), []);
    const next = random(11);
    const signs = [..."ab \"'*()^-+:{}.,;\\\n\u0000é学🎉§¶ā", " AND ", " NOT ", " NEAR(", "OR"];
    for (const _ of range(200)) {
      const text = range(1 + next() * 12).map(() => signs[Math.floor(next() * signs.length)]).join("");
      const { items } = await store.threads.search({ text });
      for (const hit of items) equal(typeof marked(hit), "string", JSON.stringify(text));
    }
    await refuses(store, () => store.threads.search({ text: 5 }), "invalid_argument", /text/);
  },

  "titles come before talk, talk before output, and more of what was asked for before less": async ({ store }) => {
    const filler = " and other words".repeat(20);
    await store.threads.create({ id: "t" });
    await tool(store, { id: "output", text: `falcon${filler}` });
    await say(store, `falcon${filler}`, { id: "mentions" });
    await say(store, "The falcon, a bird", { id: "talks" });
    await store.threads.create({ id: "title", title: "Falcon" });
    for (const n of range(20)) await say(store, `Nothing of it here ${n}`);
    equal(await find(store, "falcon"), ["title", "talks", "mentions", "output"]);
    const hit = (await store.threads.search({ text: "falcon" })).items[0];
    equal(Object.keys(hit).filter((key) => /score|rank/.test(key)), []);
  },

  "a thread, a limit, and archived threads": async ({ store }) => {
    for (const id of ["t", "b", "c"]) {
      await store.threads.create({ id });
      for (const n of range(3)) await say(store, "walnut", { id: `${id}${n}`, threadId: id });
    }
    await store.threads.archive("b");
    equal((await find(store, "walnut")).sort(), ["c0", "c1", "c2", "t0", "t1", "t2"]);
    equal((await find(store, "walnut", { archived: "include" })).length, 9);
    equal((await find(store, "walnut", { archived: "only" })).sort(), ["b0", "b1", "b2"]);
    equal(await find(store, "walnut", { threadId: "t" }), ["t2", "t1", "t0"]);
    equal(await find(store, "walnut", { threadId: "b" }), []);
    match((await store.threads.search({ text: "walnut", threadId: "b", archived: "only" })).items[0], { threadId: "b", archived: true });
    const { items, more } = await store.threads.search({ text: "walnut", limit: 5 });
    equal([items.length, more], [5, true]);
    equal((await store.threads.search({ text: "walnut", limit: 6 })).more, false);
    await store.threads.unarchive("b");
    equal((await find(store, "walnut")).length, 9);
    await refuses(store, () => store.threads.search({ text: "walnut", threadId: "ghost" }), "not_found", /"ghost"/);
    for (const limit of [0, 201]) await refuses(store, () => store.threads.search({ text: "walnut", limit }), "invalid_argument", /1 to 200/);
  },

  "an item is found once it has ended, and as it is now": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.items.create({ id: "i", threadId: "t", kind: "assistant_message", status: "in_progress" });
    await store.items.appendText("i", { delta: "Photo" });
    await store.items.appendText("i", { delta: "synthesis works" });
    equal(await find(store, "photosynthesis"), []);
    await store.items.update("i", { status: "completed" });
    equal(await find(store, "photosynthesis"), ["i"]);
    await store.items.update("i", { text: "Respiration" });
    equal(await find(store, "photosynthesis"), []);
    equal(await find(store, "respiration"), ["i"]);
    await store.items.update("i", { text: "" });
    equal(await find(store, "respiration"), []);
    await tool(store, { id: "tool", data: "before" });
    await store.items.put({ id: "tool", data: "after" });
    equal([await find(store, "before"), await find(store, "after")], [[], ["tool"]]);
    await store.items.update("tool", { data: null });
    equal(await find(store, "after"), []);
  },

  "a title is found as it is now": async ({ store }) => {
    await store.threads.create({ id: "t", title: "Old name" });
    await store.threads.update("t", { title: "New name" });
    equal([await find(store, "old"), await find(store, "new")], [[], ["t"]]);
    await store.threads.update("t", { title: null });
    equal(await find(store, "name"), []);
  },

  "what a turn's end or a recovery ends is found": async ({ store }) => {
    await store.threads.create({ id: "t" });
    for (const id of ["u", "v"]) {
      await store.turns.create({ id, threadId: "t", status: "in_progress", ownerId: "gone" });
      await store.items.create({ id: `of-${id}`, threadId: "t", turnId: id, kind: "assistant_message", status: "in_progress" });
      await store.items.appendText(`of-${id}`, { delta: `halfway through ${id}${id}` });
    }
    await store.turns.update("u", { status: "failed" });
    await store.turns.recover({ liveOwnerIds: [] });
    equal([await find(store, "uu"), await find(store, "vv")], [["of-u"], ["of-v"]]);
  },

  "a fork's items are found too": async ({ store }) => {
    await store.threads.create({ id: "t", title: "Origin" });
    await say(store, "quokka", { id: "i" });
    const fork = await store.threads.fork("t", { atItem: "i" });
    const { items } = await store.threads.search({ text: "quokka" });
    equal(items.map(({ threadId }) => threadId).sort(), ["t", fork.id].sort());
    equal((await find(store, "quokka", { threadId: fork.id })).length, 1);
  },

  "nothing that was deleted is found": async ({ store, clock, reopen }) => {
    await store.threads.create({ id: "t", title: "kept zebra" });
    await store.threads.create({ id: "gone", title: "gone zebra" });
    await say(store, "zebra crossing", { id: "a" });
    await say(store, "zebra stripes", { id: "b" });
    await say(store, "zebra of the other", { threadId: "gone" });
    await store.items.delete("a");
    equal((await find(store, "zebra", { threadId: "t" })).sort(), ["b", "t"]);
    await store.threads.delete("gone");
    equal((await find(store, "zebra")).sort(), ["b", "t"]);
    equal(await find(store, "crossing"), []);
    const again = await reopen();
    equal(await find(again, "stripes"), ["b"]);
    await again.retention.set({ threadsMs: 1_000 });
    clock.advance(1_001);
    await again.sweep();
    equal(await find(again, "zebra"), []);
  },

  "what fails leaves no trace": async ({ store }) => {
    await store.threads.create({ id: "t" });
    await store.batch((tx) => [tx.items.create({ threadId: "t", kind: "error", text: "phantom" }), tx.items.create({ threadId: "ghost", kind: "error" })]).catch(() => {});
    equal(await find(store, "phantom"), []);
    await store.batch((tx) => [tx.items.create({ id: "i", threadId: "t", kind: "error", text: "present" }), tx.items.create({ id: "j", threadId: "t", kind: "error", text: "present" })]);
    equal(await find(store, "present"), ["j", "i"]);
  },

  "a tenant finds what is its own": async ({ store }) => {
    for (const id of ["a", "b"]) {
      await store.tenants.create({ id });
      const bound = store.forTenant(id);
      await bound.threads.create({ id: "t", title: "shared word" });
      await say(bound, `shared word of ${id}${id}`, { id: `of-${id}` });
    }
    equal(await find(store, "shared"), []);
    equal((await find(store.forTenant("a"), "shared")).sort(), ["of-a", "t"]);
    equal(await find(store.forTenant("b"), "aa"), []);
    await store.forTenant("a").threads.delete("t");
    equal((await find(store.forTenant("b"), "shared")).sort(), ["of-b", "t"]);
  },

  "the first MiB of an item counts, and bytes written as text do not": async ({ store }) => {
    await store.threads.create({ id: "t" });
    const line = "lorem ipsum dolor sit amet ";
    await say(store, `${line.repeat(Math.floor(((1 << 20) - 20) / line.length))}inside ${line}outside`, { id: "long" });
    equal(await find(store, "outside"), []);
    const hit = await one(store, "inside");
    ok(marked(hit).includes("[inside]"), marked(hit));
    ok(hit.snippet.reduce((sum, { text }) => sum + text.length, 0) < 300);
    await tool(store, { id: "picture", data: { image: "QUJD".repeat(10_000), alt: "a sunset" } });
    equal(await find(store, "qujd"), []);
    equal(await find(store, "sunset"), ["picture"]);
  },

  "a snippet shows where most of what was asked for is together": async ({ store }) => {
    await store.threads.create({ id: "t" });
    const filler = "some other words ".repeat(40);
    await say(store, `alpha ${filler} alpha with beta <b>&amp;</b> ${filler} beta`, { id: "i" });
    const hit = await one(store, "beta alpha");
    ok(marked(hit).includes("[alpha] with [beta] <b>&amp;</b>"), marked(hit));
    ok(marked(hit).startsWith("…") && marked(hit).endsWith("…"), marked(hit));
    ok(hit.snippet.every(({ text }) => text !== ""), marked(hit));
  },
};
