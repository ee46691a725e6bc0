import { equal, match } from "./assert.mjs";
import { all, range, refuses } from "./kit.mjs";

const day = 86_400_000;
const hour = 3_600_000;

/** A thread `t` with the turns named, in a thread of its own where one is named as `thread/turn`. */
async function begin(store, ...turns) {
  for (const name of turns) {
    const [turn, thread = "t"] = name.split("/").reverse();
    await store.threads.create({ id: thread });
    await store.turns.create({ threadId: thread, id: turn });
  }
}

let responses = 0;
const record = (store, more) => store.usage.record({ turnId: "turn", responseId: `r${++responses}`, model: "m", inputTokens: 0, outputTokens: 0, ...more });

const price = (more) => ({ modelPattern: "*", input: 1, output: 2, ...more });

/** Numbers that are sums of prices, to a billionth. */
const rounded = (value) => JSON.parse(JSON.stringify(value), (_, part) => (typeof part === "number" ? Math.round(part * 1e9) / 1e9 : part));

export const usage = {
  "what a response used is recorded with the model and the price of its time": async ({ store, clock }) => {
    await begin(store, "turn");
    await store.usage.setPrices([price({ input: 3, cacheRead: 0.3, cacheWrite: 3.75, output: 15 })]);
    const used = { model: "m", provider: "p", inputTokens: 1_000_000, outputTokens: 100_000, cacheReadTokens: 500_000, cacheWriteTokens: 200_000, reasoningTokens: 7 };
    const made = await record(store, { responseId: "r", ...used, metadata: { tier: "standard" } });
    equal(rounded(made), {
      ...used,
      responseId: "r",
      turnId: "turn",
      threadId: "t",
      noCacheTokens: 300_000,
      costUsd: 0.9 + 0.15 + 0.75 + 1.5,
      costUsdWithoutCache: 3 + 1.5,
      metadata: { tier: "standard" },
      createdAt: clock.now(),
      created: true,
    });
    await store.usage.setPrices([price({ input: 100, output: 100 })]);
    equal((await store.usage.get("r")).costUsd, made.costUsd);
    equal(await store.usage.get("ghost"), null);
  },

  "a response id counts once: it answers the first record, from another turn and with other figures too": async ({ store }) => {
    await begin(store, "turn", "fork/other");
    const { created, ...first } = await record(store, { responseId: "r", inputTokens: 10, outputTokens: 5 });
    equal(created, true);
    const again = [
      record(store, { responseId: "r", inputTokens: 10, outputTokens: 5 }),
      record(store, { responseId: "r", turnId: "other", inputTokens: 10, outputTokens: 5 }),
      record(store, { responseId: "r", model: "n", inputTokens: 99, outputTokens: 99 }),
      record(store, { responseId: "r", turnId: "ghost" }),
    ];
    for (const answer of await Promise.all(again)) equal(answer, { ...first, created: false });
    match(await store.usage.aggregate(), { totals: { inputTokens: 10, outputTokens: 5, turns: 1 } });
    equal((await all(store.usage.list())).length, 1);
  },

  "a fork copies no usage: what its log repeats counts once": async ({ store }) => {
    await begin(store, "turn");
    for (const n of range(3)) await record(store, { responseId: `of-parent-${n}`, inputTokens: 100, outputTokens: 10 });
    const before = await store.usage.aggregate();
    const fork = await store.threads.fork("t", {});
    await store.turns.create({ threadId: fork.id, id: "turn-of-fork" });
    equal(await store.usage.aggregate(), before);
    // A session log of the fork begins with a copy of its parent's.
    for (const n of range(3)) match(await record(store, { turnId: "turn-of-fork", responseId: `of-parent-${n}`, inputTokens: 100, outputTokens: 10 }), { created: false, turnId: "turn" });
    equal(await store.usage.aggregate(), before);
    await record(store, { turnId: "turn-of-fork", responseId: "of-fork", inputTokens: 1, outputTokens: 1 });
    match(await store.usage.aggregate(), { totals: { inputTokens: 301, outputTokens: 31, turns: 2 } });
  },

  "a turn shows the sums of its responses, of several models": async ({ store }) => {
    await begin(store, "turn", "idle");
    await store.usage.setPrices([price({ modelPattern: "known" })]);
    await record(store, { model: "known", inputTokens: 1_000_000, outputTokens: 0, cacheReadTokens: 5 });
    await record(store, { model: "unknown", inputTokens: 10, outputTokens: 3, reasoningTokens: 2 });
    equal((await store.turns.get("turn")).usage, {
      inputTokens: 1_000_010,
      outputTokens: 3,
      cacheReadTokens: 5,
      cacheWriteTokens: 0,
      noCacheTokens: 1_000_005,
      reasoningTokens: 2,
      costUsd: 1,
      responses: 2,
      unpricedResponses: 1,
    });
    equal((await store.turns.get("idle")).usage, undefined);
    equal((await all(store.usage.list({ turnId: "turn", order: "desc" }))).map(({ model }) => model), ["unknown", "known"]);
    await refuses(store, () => store.usage.list({ turnId: "ghost" }), "not_found", /ghost/);
  },

  "inputTokens is all input and outputTokens all output: fewer than their parts are refused, with the figures": async ({ store }) => {
    await begin(store, "turn");
    const parts = { inputTokens: 100, cacheReadTokens: 70, cacheWriteTokens: 40 };
    await refuses(store, () => record(store, parts), "invalid_argument", /100.*70.*40/);
    await refuses(store, () => record(store, { inputTokens: 100, cacheReadTokens: 70, noCacheTokens: 31 }), "invalid_argument", /100.*70.*31/);
    match(await record(store, { inputTokens: 100, cacheReadTokens: 70, cacheWriteTokens: 30 }), { noCacheTokens: 0 });
    match(await record(store, { inputTokens: 100, cacheReadTokens: 70, noCacheTokens: 25 }), { noCacheTokens: 25 });
    match(await record(store, { inputTokens: 100 }), { noCacheTokens: 100 });
    const reasoned = await refuses(store, () => record(store, { outputTokens: 8, reasoningTokens: 9 }), "invalid_argument", /outputTokens.*8.*reasoningTokens 9/);
    match(reasoned.details, { path: "outputTokens" });
    await refuses(store, () => record(store, { reasoningTokens: -1 }), "invalid_argument", /reasoningTokens.*-1/);
    match(await record(store, { outputTokens: 9, reasoningTokens: 9 }), { outputTokens: 9, reasoningTokens: 9 });
    for (const tokens of [-1, 1_000_000_000_001]) await refuses(store, () => record(store, { outputTokens: tokens }), "invalid_argument", /outputTokens/);
    await refuses(store, () => record(store, { turnId: "ghost" }), "not_found", /ghost/);
    await refuses(store, () => record(store, { createdAt: -1 }), "invalid_argument", /createdAt/);
  },

  "what has no price is counted and never costs nothing in silence": async ({ store }) => {
    await begin(store, "turn", "free", "mixed");
    await store.usage.setPrices([price({ modelPattern: "dear" }), price({ modelPattern: "free", input: 0, output: 0 })]);
    const nothing = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, noCacheTokens: 0, reasoningTokens: 0 };
    equal(await store.usage.aggregate({ groupBy: "model" }), {
      totals: { ...nothing, costUsd: 0, costUsdWithoutCache: 0, cacheSavingsUsd: 0, cacheHitPercent: null, turns: 0, unpricedTurns: 0 },
      buckets: [],
      cacheTelemetryIncomplete: false,
    });
    for (const turnId of ["turn", "mixed", "mixed"]) await record(store, { turnId, model: "unheard-of", inputTokens: 10, cacheReadTokens: 1 });
    const unpriced = { costUsd: null, costUsdWithoutCache: null, cacheSavingsUsd: null, turns: 2, unpricedTurns: 2 };
    match(await store.usage.aggregate(), { totals: unpriced });
    await record(store, { turnId: "free", model: "free", inputTokens: 10, cacheReadTokens: 1 });
    await record(store, { turnId: "mixed", model: "dear", inputTokens: 1_000_000, cacheReadTokens: 1 });
    const { totals, buckets } = await store.usage.aggregate({ groupBy: "model" });
    match(totals, { costUsd: 1, turns: 3, unpricedTurns: 2 });
    match(buckets, [
      { key: "dear", costUsd: 1, turns: 1, unpricedTurns: 0 },
      { key: "free", costUsd: 0, turns: 1, unpricedTurns: 0 },
      { key: "unheard-of", ...unpriced },
    ]);
  },

  "cache figures that a provider did not tell make the sums incomplete, and savings are not negative": async ({ store, clock }) => {
    await begin(store, "turn");
    await store.usage.setPrices([price({ input: 2, cacheRead: 1, cacheWrite: 10, output: 0 })]);
    await record(store, { inputTokens: 1_000_000, cacheReadTokens: 250_000 });
    match(await store.usage.aggregate(), { totals: { cacheHitPercent: 25, costUsd: 1.75, costUsdWithoutCache: 2, cacheSavingsUsd: 0.25 }, cacheTelemetryIncomplete: false });
    clock.advance(day);
    await record(store, { inputTokens: 1_000_000, cacheReadTokens: 0, cacheWriteTokens: 1_000_000 });
    const { totals, buckets } = await store.usage.aggregate({ groupBy: "day" });
    equal([totals, ...buckets].map(({ cacheSavingsUsd }) => cacheSavingsUsd), [0, 0.25, 0]);
    await record(store, { inputTokens: 1 });
    equal((await store.usage.aggregate()).cacheTelemetryIncomplete, true);
    equal((await store.usage.aggregate({ until: clock.now() })).cacheTelemetryIncomplete, false);
  },

  "sums by model, provider and thread; what has no provider has the key null, last": async ({ store }) => {
    await begin(store, "turn", "other/second");
    const rows = [["turn", "b", "p"], ["second", "a", "q"], ["turn", "a"], ["turn", "a", "p"]];
    for (const [index, [turnId, model, provider]] of rows.entries()) await record(store, { turnId, model, provider, inputTokens: 10 ** index });
    const by = async (groupBy) => (await store.usage.aggregate({ groupBy })).buckets.map(({ key, inputTokens, turns }) => [key, inputTokens, turns]);
    equal(await by("model"), [["a", 1110, 2], ["b", 1, 1]]);
    equal(await by("provider"), [["p", 1001, 1], ["q", 10, 1], [null, 100, 1]]);
    equal(await by("thread"), [["other", 10, 1], ["t", 1101, 1]]);
    equal(await by(undefined), []);
    await store.threads.delete("other");
    equal(await by("thread"), [["other", 10, 1], ["t", 1101, 1]]);
    match(await store.usage.get((await all(store.usage.list()))[1].responseId), { turnId: "second", threadId: "other" });
  },

  "days are those of the time zone, of 23 and 25 hours too": async ({ store }) => {
    await begin(store, "turn");
    const days = async (timezone, filter) => (await store.usage.aggregate({ groupBy: "day", timezone, ...filter })).buckets.map(({ key, inputTokens }) => [key, inputTokens]);
    // Berlin: 2026-03-29 has 23 hours, 2026-10-25 has 25. One token each hour, from midnight to midnight.
    for (const [first, hours] of [[Date.UTC(2026, 2, 28, 23), 24 + 23], [Date.UTC(2026, 9, 24, 22), 25 + 24]]) {
      for (const n of range(hours)) await record(store, { inputTokens: 1, createdAt: first + n * hour });
    }
    equal(await days("Europe/Berlin"), [["2026-03-29", 23], ["2026-03-30", 24], ["2026-10-25", 25], ["2026-10-26", 24]]);
    equal(await days("europe/berlin", { since: Date.UTC(2026, 9, 25, 22), until: Date.UTC(2026, 9, 26, 1) }), [["2026-10-25", 1], ["2026-10-26", 2]]);
    const utc = [["2026-03-28", 1], ["2026-03-29", 24], ["2026-03-30", 22], ["2026-10-24", 2], ["2026-10-25", 24], ["2026-10-26", 23]];
    equal(await days(undefined), utc);
    equal(await days("UTC"), utc);
    await refuses(store, () => store.usage.aggregate({ groupBy: "day", timezone: "Europe/Atlantis" }), "invalid_argument", /Atlantis/);
  },

  "a day whose midnight the clocks skip or repeat is whole": async ({ store }) => {
    await begin(store, "turn");
    const sums = async (timezone) => {
      const { buckets, totals } = await store.usage.aggregate({ groupBy: "day", timezone });
      equal(buckets.reduce((sum, { inputTokens }) => sum + inputTokens, 0), totals.inputTokens);
      return buckets.map(({ key, inputTokens }) => [key, inputTokens]);
    };
    // Half-hours of three days around the changes of Cairo 2023-04-28 (00:00 to 01:00) and Havana 2023-11-05 (01:00 back to 00:00).
    for (const first of [Date.UTC(2023, 3, 26, 22), Date.UTC(2023, 10, 4, 4)]) {
      for (const n of range(3 * 48)) await record(store, { inputTokens: 1, createdAt: first + (n * hour) / 2 });
    }
    equal((await sums("Africa/Cairo")).slice(0, 4), [["2023-04-27", 48], ["2023-04-28", 46], ["2023-04-29", 48], ["2023-04-30", 2]]);
    equal((await sums("America/Havana")).slice(-3), [["2023-11-04", 48], ["2023-11-05", 50], ["2023-11-06", 46]]);
    for (const zone of ["Pacific/Apia", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe"]) await sums(zone);
  },

  "the time of a record may be given, and since and until cut by it": async ({ store, clock }) => {
    await begin(store, "turn");
    const now = clock.now();
    for (const [at, inputTokens] of [[now - 2 * day, 1], [now - day, 10], [undefined, 100]]) await record(store, { inputTokens, createdAt: at });
    const sum = async (filter) => (await store.usage.aggregate(filter)).totals.inputTokens;
    equal(await sum({ since: now - day }), 110);
    equal(await sum({ until: now - day }), 1);
    equal(await sum({ since: now - day, until: now }), 10);
    equal(await sum({ since: now, until: now }), 0);
    await refuses(store, () => store.usage.aggregate({ since: 2, until: 1 }), "invalid_argument", /since/);
    await refuses(store, () => store.usage.aggregate({ groupBy: "week" }), "invalid_argument", /week/);
  },

  "the price of the most specific pattern counts, for its provider and its time": async ({ store, clock }) => {
    await begin(store, "turn");
    const now = clock.now();
    const prices = [
      price({ modelPattern: "*", input: 1 }),
      price({ modelPattern: "gpt-*", input: 2 }),
      price({ modelPattern: "gpt-5*", input: 3 }),
      price({ modelPattern: "gpt-5*", provider: "azure", input: 4 }),
      price({ modelPattern: "gpt-5-mini", input: 5, until: now }),
      price({ modelPattern: "gpt-5-mini", input: 6, from: now }),
      price({ modelPattern: "twice", input: 7 }),
      price({ modelPattern: "twice", input: 8 }),
    ];
    equal(await store.usage.setPrices(prices), { prices, isDefault: false });
    equal(await store.usage.getPrices(), { prices, isDefault: false });
    const cost = async (model, more) => (await record(store, { model, inputTokens: 1_000_000, ...more })).costUsd;
    equal(await cost("claude"), 1);
    equal(await cost("gpt-4"), 2);
    equal(await cost("GPT-5-nano"), 3);
    equal(await cost("gpt-5-nano", { provider: "Azure" }), 4);
    equal(await cost("gpt-5-mini", { provider: "azure", createdAt: now - 1 }), 5);
    equal(await cost("gpt-5-mini"), 6);
    equal(await cost("twice"), 8);
    // Without prices of their own, cached tokens cost what input does.
    equal(await cost("gpt-4", { cacheReadTokens: 400_000, cacheWriteTokens: 600_000 }), 2);
  },

  "prices are checked, and a list replaces the default one": async ({ store }) => {
    await begin(store, "turn");
    const { prices, isDefault, asOf, source } = await store.usage.getPrices();
    equal(isDefault, true);
    equal(/^\d{4}-\d\d-\d\d$/.test(asOf) && source.length > 20, true);
    match(await record(store, { model: "claude-sonnet-4-5-20250929", inputTokens: 1_000_000 }), { costUsd: 3 });
    match(prices.find(({ modelPattern }) => modelPattern === "gpt-5"), { input: 1.25, output: 10 });
    for (const [bad, pattern] of [
      [{ input: -1 }, /prices\[1\]\.input.*-1/],
      [{ output: 1e9 }, /prices\[1\]\.output/],
      [{ cacheRead: -0.5 }, /prices\[1\]\.cacheRead/],
      [{ from: 5, until: 5 }, /prices\[1\]\.until/],
      [{ modelPattern: "" }, /modelPattern/],
      [{ inputs: 1 }, /inputs/],
      [{ input: undefined }, /input/],
    ]) {
      await refuses(store, () => store.usage.setPrices([price(), price(bad)]), "invalid_argument", pattern);
    }
    await refuses(store, () => store.usage.setPrices(range(2001).map(() => price())), "too_large", /2001/);
    equal((await store.usage.getPrices()).isDefault, true);
    await store.usage.setPrices([]);
    const unpriced = await record(store, { model: "claude-sonnet-4-5", inputTokens: 1 });
    equal(unpriced.costUsd, undefined);
  },

  "repricing is the one way to change what was recorded: what had no price, or all": async ({ store }) => {
    await begin(store, "turn");
    await store.usage.setPrices([price({ modelPattern: "old", input: 1 })]);
    for (const n of range(510)) await record(store, { model: n % 2 ? "old" : "new", inputTokens: 1_000_000 });
    const costs = async () => (await store.usage.aggregate({ groupBy: "model" })).buckets.map(({ key, costUsd }) => [key, costUsd]);
    equal(await costs(), [["new", null], ["old", 255]]);
    equal(await store.usage.reprice({ onlyUnpriced: true }), { lookedAt: 255, repriced: 0, unpriced: 255 });
    await store.usage.setPrices([price({ modelPattern: "old", input: 5 }), price({ modelPattern: "new", input: 2 })]);
    equal(await costs(), [["new", null], ["old", 255]]);
    equal(await store.usage.reprice({ onlyUnpriced: true }), { lookedAt: 255, repriced: 255, unpriced: 0 });
    equal(await costs(), [["new", 510], ["old", 255]]);
    equal(await store.usage.reprice(), { lookedAt: 510, repriced: 255, unpriced: 0 });
    equal(await costs(), [["new", 510], ["old", 1275]]);
    equal(await store.usage.reprice(), { lookedAt: 510, repriced: 0, unpriced: 0 });
    await store.usage.setPrices([price({ modelPattern: "new", input: 2 })]);
    equal(await store.usage.reprice({}), { lookedAt: 510, repriced: 255, unpriced: 255 });
    equal(await costs(), [["new", 510], ["old", null]]);
  },

  "usage counts for the tenant's month, and recording is never refused": async ({ store }) => {
    await store.tenants.create({ id: "a", limits: { maxTokensPerMonth: 100, maxCostPerMonthUsd: 5 } });
    const a = store.forTenant("a");
    await begin(a, "turn");
    await a.usage.setPrices([price({ modelPattern: "m" })]);
    await record(a, { inputTokens: 90, outputTokens: 9 });
    await a.turns.create({ threadId: "t", id: "second" });
    await record(a, { inputTokens: 1 });
    await refuses(a, () => a.turns.create({ threadId: "t" }), "limit_exceeded", /maxTokensPerMonth/);
    match(await record(a, { inputTokens: 5_000_000 }), { created: true });
    await store.tenants.update("a", { limits: { maxCostPerMonthUsd: 5 }, status: "suspended" });
    match(await record(a, { model: "n", inputTokens: 5_000_000 }), { created: true });
    await store.tenants.update("a", { status: "active" });
    await refuses(a, () => a.turns.create({ threadId: "t" }), "limit_exceeded", /maxCostPerMonthUsd/);
  },

  "what was used in another month counts there": async ({ store, clock }) => {
    await store.tenants.create({ id: "a", limits: { maxTokensPerMonth: 100 } });
    const a = store.forTenant("a");
    await begin(a, "turn");
    await record(a, { inputTokens: 500, createdAt: clock.now() - 40 * day });
    match(await a.turns.create({ threadId: "t", id: "second" }), { created: true });
    await record(a, { inputTokens: 100 });
    await refuses(a, () => a.turns.create({ threadId: "t" }), "limit_exceeded", /maxTokensPerMonth/);
  },
};
