// `npm run soak`: many tabs on one store, with their owner killed again and again, and what that costs. Prints a table, and one line of JSON at the end.
// RUNKEEP_KILLS (200), RUNKEEP_ROUNDS (200) and RUNKEEP_TAKEOVERS (20) say how long it takes.
import assert from "node:assert/strict";
import { writeFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { capture, main, mustRun, say, targetDir } from "../scripts/run.mjs";
import { openBrowser } from "../tests/browser/harness.mjs";
import { tabsOf, until, visit } from "../tests/browser/tabs-kit.mjs";

const number = (name, standard) => Number(process.env[name] ?? standard);
const kills = number("RUNKEEP_KILLS", 200);
const rounds = number("RUNKEEP_ROUNDS", 200);
const takeovers = number("RUNKEEP_TAKEOVERS", 20);

/** Ends the worker that is about to answer a call of such a text, after its commit and before its reply; once for each call. */
const lossy = `
  const lost = new Set();
  const tellLost = new BroadcastChannel("soak-lost");
  tellLost.onmessage = ({ data }) => lost.add(data);
  for (const target of [MessagePort.prototype, BroadcastChannel.prototype, self]) {
    const post = target.postMessage;
    target.postMessage = function (message, ...more) {
      // Not what reads the log afterwards.
      const found = message?.type === "answers" && /lose-this-reply-[a-z0-9]+(?=.*"created":true)/.exec(message.answers.join());
      if (found && !lost.has(found[0])) {
        lost.add(found[0]);
        tellLost.postMessage(found[0]);
        return self.close();
      }
      return post.call(this, message, ...more);
    };
  };`;

const results = {};
const report = (name, value) => {
  results[name] = value;
  say(`${name.padEnd(44)}${typeof value === "object" ? JSON.stringify(value) : value}`);
};
const range = (count) => Array.from({ length: count }, (_, index) => index);
const summary = (times) => {
  const sorted = [...times].sort((a, b) => a - b).map((ms) => Number(ms.toPrecision(3)));
  return { median: sorted[sorted.length >> 1], min: sorted[0], max: sorted.at(-1), count: sorted.length };
};

await main(async () => {
  await mustRun("cargo", ["build", "--features", "development", "--example", "integrity"], { log: "integrity", deadlineMs: 600_000 });
  const browser = await openBrowser();
  try {
    await costs(browser);
    await notifications(browser);
    await takeOver(browser);
    await underKills(browser);
    await underReloads(browser);
  } finally {
    await browser.close();
  }
  say(`\n${JSON.stringify(results)}`);
});

/** One after another, and many at once; the owner's page, a follower over a port, a follower over a channel. */
async function costs(browser) {
  const { tab } = tabsOf(browser);
  const owner = await tab("costs");
  await owner.evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
  const follower = await tab("costs");
  const other = await browser.context.newPage();
  await other.addInitScript(() => delete window.SharedWorker);
  await visit(other, new URL("blank.html", browser.url).href);
  await other.evaluate(async () => (window.store = await open({ name: "costs" })));
  const oneByOne = (page) =>
    page.evaluate(async () => {
      for (let n = 0; n < 100; n++) await append(store, "run", n);
      const begun = performance.now();
      for (let n = 0; n < 500; n++) await append(store, "run", n);
      return (performance.now() - begun) / 500;
    });
  const times = { owner: [], port: [], channel: [] };
  for (let round = 0; round < 5; round++) {
    for (const [name, page] of [["owner", owner], ["port", follower], ["channel", other]]) times[name].push(await oneByOne(page));
  }
  for (const [name, all] of Object.entries(times)) report(`ms per append, ${name}`, summary(all));
  const median = (name) => summary(times[name]).median;
  report("follower over a port : owner", Number((median("port") / median("owner")).toFixed(2)));
  report("follower over a channel : owner", Number((median("channel") / median("owner")).toFixed(2)));
  const together = [];
  for (let round = 0; round < 5; round++) {
    together.push(
      await owner.evaluate(async () => {
        const begun = performance.now();
        await Promise.all(Array.from({ length: 5_000 }, (_, n) => append(store, "run", n)));
        return (performance.now() - begun) / 5_000;
      }),
    );
  }
  report("ms per append, 5,000 at once", summary(together));
  report("5,000 at once : one by one", Number((summary(together).median / median("owner")).toFixed(3)));
  for (const page of [owner, follower, other]) await page.close();
}

async function notifications(browser) {
  const { tab } = tabsOf(browser);
  const tabs = [await tab("told"), await tab("told"), await tab("told")];
  await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
  for (const page of tabs) {
    await page.evaluate(() => {
      [window.seen, window.wakes] = [[], 0];
      store.subscribe({ topics: "events" }, () => window.wakes++);
      (async () => {
        for await (const { sequence } of store.events.tail({ executionId: "run" })) window.seen.push(sequence);
      })();
    });
  }
  await tabs[1].evaluate(async () => {
    for (let n = 0; n < 5_000; n++) await append(store, "run", n);
    await Promise.all(Array.from({ length: 5_000 }, (_, n) => append(store, "run", n)));
  });
  for (const [index, page] of tabs.entries()) {
    await until(() => page.evaluate(() => window.seen.length >= 10_000), "ten thousand events", 60_000);
    const { isWhole, wakes } = await page.evaluate(() => ({ isWhole: window.seen.every((sequence, at) => sequence === at + 1), wakes: window.wakes }));
    assert.ok(isWhole, "a tail has a gap");
    report(`wake-ups for 10,000 events, tab ${index + 1}`, wakes);
  }
  for (const page of tabs) await page.close();
}

async function takeOver(browser) {
  const { tab } = tabsOf(browser);
  const times = { "its tab closed": [], "its worker terminated": [] };
  for (let round = 0; round < takeovers; round++) {
    const name = `takeover-${round}`;
    const tabs = [await tab(name), await tab(name)];
    await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
    await tabs[1].evaluate(() => append(store, "run", "warm"));
    // Calls all the time: the longest pause is the takeover.
    const pause = tabs[1].evaluate(async () => {
      let [last, longest] = [performance.now(), 0];
      window.going = true;
      while (window.going) {
        await append(store, "run", 1);
        const now = performance.now();
        [last, longest] = [now, Math.max(longest, now - last)];
      }
      return longest;
    });
    await until(() => tabs[1].evaluate(() => window.going), "the calls");
    if (round % 2) await tabs[0].close();
    else await tabs[0].evaluate(() => workers.at(-1).terminate());
    await until(() => tabs[1].evaluate(async () => (await store.info()).owner), "the takeover");
    await tabs[1].evaluate(() => (window.going = false));
    times[round % 2 ? "its tab closed" : "its worker terminated"].push(await pause);
    for (const page of tabs) if (!page.isClosed()) await page.close();
  }
  for (const [how, all] of Object.entries(times)) if (all.length > 0) report(`ms of takeover after ${how}`, summary(all));
  report("ms of takeover, all", summary(Object.values(times).flat()));
}

async function underKills(browser) {
  const { tab } = tabsOf(browser);
  await browser.context.route("**/runkeep/worker.js", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: `${lossy}\n${await response.text()}` });
  });
  const begin = async () => {
    const page = await tab("kills");
    await page.evaluate(() => {
      window.acknowledged = [];
      window.failed = [];
      window.going = true;
      window.load = (async () => {
        const me = Math.random().toString(36).slice(2);
        for (let n = 0; window.going; n++) {
          // Several in flight.
          await Promise.all(
            [0, 1, 2].map(async (part) => {
              const data = `${me}/${n}/${part}${window.lossy ? `/lose-this-reply-${me}${n}` : ""}`;
              if (window.lossy) window.lossy = false;
              try {
                const { sequence } = await append(store, "run", data);
                window.acknowledged.push([sequence, data]);
              } catch (error) {
                window.failed.push(String(error));
              }
            }),
          );
        }
      })();
    });
    return page;
  };
  const first = await tab("kills");
  await first.evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
  await first.close();
  let tabs = await Promise.all(range(4).map(begin));
  const acknowledged = [];
  const failed = [];
  const collect = async (page) => {
    const found = await page.evaluate(() => [window.acknowledged.splice(0), window.failed.splice(0)]).catch(() => [[], []]);
    acknowledged.push(...found[0]);
    failed.push(...found[1]);
  };
  const byKind = {};
  const ownerOf = async () => {
    for (const page of tabs) if (await page.evaluate(async () => (await store.info()).owner).catch(() => false)) return page;
    return undefined;
  };
  let seed = 42;
  const random = () => (seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31;
  for (let kill = 0; kill < kills; kill++) {
    const owner = await until(ownerOf, "an owner", 20_000);
    await new Promise((resolve) => setTimeout(resolve, random() * 40));
    const kind = ["worker terminated", "worker terminated", "between commit and reply", "between commit and reply", "tab closed", "page crashed"][Math.floor(random() * 6)];
    byKind[kind] = (byKind[kind] ?? 0) + 1;
    if (kind === "worker terminated") {
      // One that is an owner: the page of one that has just begun could not know of its end.
      await owner.evaluate(async () => (await store.info()).owner && workers.at(-1).terminate());
    } else if (kind === "between commit and reply") {
      await tabs[Math.floor(random() * 4)].evaluate(() => void (window.lossy = true));
    } else {
      await collect(owner);
      if (kind === "tab closed") await owner.close();
      else owner.goto("chrome://crash").catch(() => {});
      if (kind !== "tab closed") await owner.close();
      tabs = tabs.filter((page) => page !== owner);
      tabs.push(await begin());
    }
    // All go on.
    await Promise.all(tabs.map((page) => page.evaluate(() => store.executions.get("run"))));
  }
  for (const page of tabs) await page.evaluate(async () => ((window.going = false), await window.load));
  for (const page of tabs) await collect(page);
  assert.deepEqual(failed, [], "a call failed");
  const log = await tabs[0].evaluate(() => readLog(store, "run"));
  assert.deepEqual(log.map(([sequence]) => sequence), log.map((_, index) => index + 1), "the sequence has gaps");
  assert.equal(new Set(log.map(([, data]) => data)).size, log.length, "something was applied twice");
  const found = new Map(log);
  const lost = acknowledged.filter(([sequence, data]) => found.get(sequence) !== data);
  assert.deepEqual(lost, [], "something acknowledged is not there");
  report("kills survived", { all: kills, ...byKind });
  report("appends acknowledged under kills, in the log", [acknowledged.length, log.length]);
  report("integrity_check after the kills", await integrity(tabs[0]));
  for (const page of tabs) await page.close();
  await browser.context.unrouteAll();
  browser.takeErrors();
}

async function integrity(page) {
  const base64 = await page.evaluate(async () => {
    const { bytes } = await store.exportDatabase();
    return await new Promise((resolve) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result.split(",")[1]);
      reader.readAsDataURL(new Blob([bytes]));
    });
  });
  const file = join(tmpdir(), `runkeep-soak-${process.pid}.db`);
  writeFileSync(file, Buffer.from(base64, "base64"));
  try {
    const answer = capture(join(targetDir, "debug", "examples", "integrity"), [file])?.trim();
    assert.equal(answer, "ok");
    return answer;
  } finally {
    rmSync(file, { force: true });
  }
}

async function underReloads(browser) {
  const { tab, reload } = tabsOf(browser);
  const tabs = await Promise.all(range(5).map(() => tab("reloads")));
  await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
  const acknowledged = [];
  for (let round = 0; round < rounds; round++) {
    const wrote = await Promise.all(
      tabs.map(async (page, index) => {
        const what = (round + index) % 5;
        if (what === 0) await reload(page, "reloads");
        if (what === 1) await page.evaluate(async () => (await store.close(), (window.store = await open({ name: "reloads" }))).info());
        if (what === 2) await page.evaluate(async () => (await open({ name: "reloads" })).close());
        return page.evaluate((data) => append(store, "run", data).then(({ sequence, data }) => [sequence, data]), `${round}/${index}`);
      }),
    );
    acknowledged.push(...wrote);
  }
  assert.deepEqual(await tabs[2].evaluate(() => readLog(store, "run")), acknowledged.sort(([a], [b]) => a - b));
  browser.assertNoErrors();
  report("rounds of reload, close, open and write in 5 tabs", rounds);
  report("rows = acknowledged writes", acknowledged.length);
  for (const page of tabs) await page.close();
}
