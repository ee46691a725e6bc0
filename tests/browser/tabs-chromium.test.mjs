// Many tabs, one store: what a test can do to Chromium alone. Crashes of pages, frozen and hidden tabs, the back/forward cache, full disks, cleared
// site data, replies that get lost.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { root } from "../../scripts/run.mjs";
import { openBrowser, testRoots } from "./harness.mjs";
import { owners, tabsOf, until, visit } from "./tabs-kit.mjs";

const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const newerVersion = version.replace(/^\d/, "9");

let browser;
let opened = [];
let kit;
/** The package as the next version of it, of which nothing but the version is another. */
const newer = mkdtempSync(join(tmpdir(), "runkeep-newer-"));
before(async () => {
  const replaced = [];
  for (const name of ["index.js", "client.js", "worker.js", "runkeep.wasm"]) {
    // As bytes, of which the length stays the same.
    const text = readFileSync(join(root, "dist", name), "latin1").replace(version, () => (replaced.push(name), newerVersion));
    writeFileSync(join(newer, name), text, "latin1");
  }
  assert.deepEqual(replaced, ["client.js", "runkeep.wasm"], "the version is not where it was");
  browser = await openBrowser({ roots: { ...testRoots, "/newer/": newer } });
  kit = tabsOf(browser);
});
after(async () => {
  await browser.close();
  rmSync(newer, { recursive: true });
});
afterEach(async () => {
  const open = opened.filter((page) => !page.isClosed());
  opened = [];
  for (const page of open) await page.close();
  browser.assertNoErrors();
});
const tab = async (...given) => {
  const page = await kit.tab(...given);
  opened.push(page);
  return page;
};

let stores = 0;
const newName = () => `tabs-chromium-${++stores}`;
const range = (count) => Array.from({ length: count }, (_, index) => index);
const create = (page) => page.evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
const sequences = (page) => page.evaluate(async () => (await readLog(store, "run")).map(([sequence]) => sequence));
const devtools = (page) => browser.context.newCDPSession(page);

test("the owner's page crashes: the others go on, and calls in flight settle once", async () => {
  const name = newName();
  const tabs = [await tab(name), await tab(name), await tab(name)];
  await create(tabs[0]);
  const calls = tabs.slice(1).map((page, index) =>
    page.evaluate(async (index) => {
      window.sent = 0;
      const outcomes = [];
      for (let n = 0; n < 200; n++) outcomes.push(await outcome(append(store, "run", `${index}/${n}`))), window.sent++;
      return outcomes;
    }, index),
  );
  await until(() => tabs[1].evaluate(() => window.sent > 20), "some calls");
  tabs[0].goto("chrome://crash").catch(() => {});
  assert.deepEqual((await Promise.all(calls)).flat().filter((one) => one !== "done"), []);
  assert.deepEqual(await sequences(tabs[2]), range(400).map((n) => n + 1));
  assert.equal((await owners(tabs.slice(1))).length, 1);
  browser.takeErrors();
});

test("the reply is lost after the commit: the call is answered with the stored result, and there is one row", async () => {
  const name = newName();
  const owner = await browser.context.newPage();
  opened.push(owner);
  // This worker ends instead of answering the call of that name, once it has committed it.
  await owner.route("**/runkeep/worker.js", async (route) => {
    const response = await route.fetch();
    const code = `
      for (const target of [MessagePort.prototype, BroadcastChannel.prototype, self]) {
        const post = target.postMessage;
        target.postMessage = function (message, ...more) {
          if (message?.type === "answers" && JSON.stringify(message.answers).includes("lose this reply")) return self.close();
          return post.call(this, message, ...more);
        };
      };`;
    await route.fulfill({ response, body: `${code}\n${await response.text()}` });
  });
  await visit(owner, new URL("blank.html", browser.url).href);
  await owner.evaluate(async (name) => (window.store = await open({ name })).executions.create({ id: "run", workflowId: "w" }), name);
  const follower = await tab(name);
  assert.deepEqual(await owners([owner, follower]), [owner]);
  const answer = await follower.evaluate(() => append(store, "run", "lose this reply"));
  assert.deepEqual([answer.sequence, answer.data, answer.created], [1, "lose this reply", true]);
  assert.deepEqual(await follower.evaluate(() => readLog(store, "run")), [[1, "lose this reply"]]);
  assert.equal(await follower.evaluate(async () => (await store.info()).owner), true);
});

test("a claim whose reply is lost is answered again, with the same item under the same fence", async () => {
  const name = newName();
  const owner = await browser.context.newPage();
  opened.push(owner);
  await owner.route("**/runkeep/worker.js", async (route) => {
    const response = await route.fetch();
    const code = `
      for (const target of [MessagePort.prototype, BroadcastChannel.prototype]) {
        const post = target.postMessage;
        target.postMessage = function (message, ...more) {
          if (message?.type === "answers" && JSON.stringify(message.answers).includes("claimedAt")) return self.close();
          return post.call(this, message, ...more);
        };
      };`;
    await route.fulfill({ response, body: `${code}\n${await response.text()}` });
  });
  await visit(owner, new URL("blank.html", browser.url).href);
  await owner.evaluate(async (name) => {
    window.store = await open({ name });
    await store.queue.enqueue({ id: "a", queue: "q", payload: { n: 1 } });
    await store.queue.enqueue({ id: "b", queue: "q" });
  }, name);
  const follower = await tab(name);
  const claimed = await follower.evaluate(() => store.queue.claim({ workerId: "w", queues: ["q"] }));
  assert.deepEqual(claimed.map(({ id, payload, attempt, status }) => [id, payload, attempt, status]), [["a", { n: 1 }, 1, "claimed"]]);
  const completed = await follower.evaluate((item) => store.queue.complete(item), claimed[0]);
  assert.equal(completed.status, "completed");
  assert.equal(await follower.evaluate(async () => (await store.queue.get("b")).status), "pending");
});

test("a frozen owner: calls end in timeout at their deadline, and work goes on once it wakes; what had expired is dropped", async () => {
  const name = newName();
  const tabs = [await tab(name), await tab(name)];
  await create(tabs[0]);
  assert.deepEqual(await owners(tabs), [tabs[0]]);
  const session = await devtools(tabs[0]);
  await session.send("Page.enable");
  await session.send("Page.setWebLifecycleState", { state: "frozen" });
  const frozen = await tabs[1].evaluate(async () => {
    const begun = performance.now();
    const error = await outcome(store.events.append("run", { type: "x-step", data: "late" }, { timeoutMs: 400 }));
    return { error, ms: performance.now() - begun };
  });
  await session.send("Page.setWebLifecycleState", { state: "active" });
  if (frozen.error === "done") {
    // The owner handed over before it froze, which is better still.
    assert.deepEqual(await sequences(tabs[1]), [1]);
  } else {
    assert.equal(frozen.error.code, "timeout");
    assert.ok(frozen.ms >= 390 && frozen.ms < 2_000, `${frozen.ms} ms`);
  }
  await tabs[1].evaluate(() => append(store, "run", "awake"));
  const log = await tabs[1].evaluate(() => readLog(store, "run"));
  assert.equal(log.at(-1)[1], "awake");
  assert.deepEqual(await sequences(tabs[0]), range(log.length).map((n) => n + 1));
});

test("an owner that is hidden hands over to a tab that is visible", async () => {
  const name = newName();
  const tabs = [await tab(name), await tab(name)];
  await create(tabs[0]);
  assert.deepEqual(await owners(tabs), [tabs[0]]);
  await tabs[0].evaluate(() => {
    Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until(async () => (await owners(tabs))[0] === tabs[1], "the visible tab to hold the store");
  await Promise.all(tabs.map((page, n) => page.evaluate((n) => append(store, "run", n), n)));
  assert.deepEqual(await sequences(tabs[0]), [1, 2]);
});

test("a page that goes into the back/forward cache gives everything up, and is a member again when it comes back", async () => {
  const name = newName();
  const tabs = [await tab(name), await tab(name)];
  await create(tabs[0]);
  await tabs[0].evaluate(() => {
    window.seen = 0;
    store.subscribe({}, () => window.seen++);
    dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }));
  });
  await tabs[1].evaluate(() => append(store, "run", 1));
  await until(() => tabs[1].evaluate(async () => (await store.info()).owner), "the other tab to own");
  await tabs[1].evaluate(() => append(store, "run", 2));
  const before = await tabs[0].evaluate(() => {
    const before = window.seen;
    dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
    return before;
  });
  await until(() => tabs[0].evaluate((before) => window.seen > before, before), "a tick after it came back");
  await tabs[0].evaluate(() => append(store, "run", 3));
  assert.deepEqual(await sequences(tabs[1]), [1, 2, 3]);
});

test("a full disk is quota_exceeded, for the call that is too large alone; the database is whole, deletes work, and so do writes when there is room", async () => {
  const name = newName();
  const page = await tab(name);
  await create(page);
  const session = await devtools(page);
  const origin = new URL(browser.url).origin;
  const { usage } = await session.send("Storage.getUsageAndQuota", { origin });
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: usage + 3_000_000 });
  try {
    const found = await page.evaluate(async () => {
      const large = "x".repeat(6_000_000);
      // All in one group.
      const calls = [append(store, "run", 1), append(store, "run", 2), append(store, "run", large), append(store, "run", 3)];
      const together = await Promise.all(calls.map(outcome));
      const alone = await outcome(store.executions.create({ id: "large", workflowId: "w", input: large }));
      const after = await outcome(append(store, "run", 4));
      await store.executions.create({ id: "gone", workflowId: "w" });
      const removal = await outcome(store.executions.delete("gone"));
      return { together: together.map((one) => one.code ?? one), alone: alone.code, after, removal, retryable: alone.retryable };
    });
    assert.deepEqual(found.together, ["done", "done", "quota_exceeded", "done"]);
    assert.deepEqual([found.alone, found.after, found.removal], ["quota_exceeded", "done", "done"]);
  } finally {
    await session.send("Storage.overrideQuotaForOrigin", { origin });
  }
  await page.evaluate(() => append(store, "run", "x".repeat(6_000_000)));
  assert.deepEqual(await sequences(page), range(5).map((n) => n + 1));
  browser.takeErrors();
});

test("site data that is cleared while the store is open is noticed, and said in every tab", async () => {
  const name = newName();
  const tabs = [await tab(name, { sweep: { intervalMs: 50 } }), await tab(name)];
  await create(tabs[0]);
  for (const page of tabs) {
    await page.evaluate(() => {
      window.lost = [];
      store.on("storagelost", () => window.lost.push("lost"));
    });
  }
  const session = await devtools(tabs[0]);
  await session.send("Storage.clearDataForOrigin", { origin: new URL(browser.url).origin, storageTypes: "file_systems,indexeddb,cache_storage" });
  for (const page of tabs) {
    await until(() => page.evaluate(() => window.lost.length > 0), "the loss to be told");
    assert.equal((await page.evaluate(() => outcome(append(store, "run", 1)))).code, "storage_lost");
  }
  // Chromium keeps the removed files locked until it ends, so that there is no opening anew before.
  await browser.killBrowser();
  await browser.relaunch();
  const fresh = await tab(name);
  assert.equal(await fresh.evaluate(() => store.executions.get("run")), null);
  browser.takeErrors();
});

test("a strict policy: script-src 'self' 'wasm-unsafe-eval', worker-src 'self'; two tabs, and no report", async () => {
  const strict = await openBrowser({ csp: "default-src 'none'; img-src data:; connect-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'" });
  try {
    const other = tabsOf(strict);
    const tabs = [await other.tab("strict"), await other.tab("strict")];
    await create(tabs[0]);
    await tabs[1].evaluate(() => append(store, "run", 1));
    assert.deepEqual(await sequences(tabs[0]), [1]);
    await tabs[0].close();
    await tabs[1].evaluate(() => append(store, "run", 2));
    strict.assertNoErrors();
  } finally {
    await strict.close();
  }
});

test("where there is no SharedWorker, tabs speak over a BroadcastChannel", async () => {
  const name = newName();
  const pages = [];
  for (let n = 0; n < 3; n++) {
    const page = await browser.context.newPage();
    opened.push(page);
    await page.addInitScript(() => delete window.SharedWorker);
    await visit(page, new URL("blank.html", browser.url).href);
    await page.evaluate(async (name) => (window.store = await open({ name })), name);
    pages.push(page);
  }
  await create(pages[0]);
  await Promise.all(pages.map((page, n) => page.evaluate((n) => append(store, "run", n), n)));
  await pages[0].evaluate(() => workers.at(-1).terminate());
  await Promise.all(pages.map((page, n) => page.evaluate((n) => append(store, "run", n), n)));
  assert.deepEqual(await sequences(pages[2]), range(6).map((n) => n + 1));
});

test("stores of several names live beside each other, each with an owner of its own", async () => {
  const names = [newName(), newName(), newName()];
  const tabs = await Promise.all(names.flatMap((name) => [tab(name), tab(name)]));
  for (const [index, page] of tabs.entries()) await page.evaluate((index) => store.executions.create({ id: `run-${index}`, workflowId: "w" }), index);
  for (let n = 0; n < 3; n++) {
    const found = await tabs[2 * n].evaluate(async () => (await store.executions.list()).items.map(({ id }) => id));
    assert.deepEqual(found, [`run-${2 * n}`, `run-${2 * n + 1}`]);
  }
});

test("takeover after the owner's tab has closed, and after its worker has died, takes less than half a second", async () => {
  const times = [];
  for (let round = 0; round < 6; round++) {
    const name = newName();
    const tabs = [await tab(name), await tab(name)];
    await create(tabs[0]);
    await tabs[1].evaluate(() => append(store, "run", "warm"));
    const answered = tabs[1].evaluate(async () => {
      // Asks all the time; the longest pause is the takeover.
      let [last, longest] = [performance.now(), 0];
      window.going = true;
      while (window.going || longest < 20) {
        await append(store, "run", 1);
        const now = performance.now();
        longest = Math.max(longest, now - last);
        last = now;
        if (!window.going && (await store.info()).owner) break;
      }
      return longest;
    });
    if (round % 2) await tabs[0].close();
    else await tabs[0].evaluate(() => workers.at(-1).terminate());
    await until(() => tabs[1].evaluate(async () => (await store.info()).owner), "the takeover");
    await tabs[1].evaluate(() => (window.going = false));
    times.push(await answered);
  }
  times.sort((a, b) => a - b);
  assert.ok(times[times.length >> 1] < 500, `${times.map(Math.round)} ms`);
});

test("a page that is left and come back to, with the back/forward cache on: the other tab goes on meanwhile, and so does the page afterwards", async () => {
  const cached = await openBrowser({ backForwardCache: true });
  try {
    const other = tabsOf(cached);
    const tabs = [await other.tab("left"), await other.tab("left")];
    await create(tabs[0]);
    await tabs[0].evaluate(() => {
      window.restored = [];
      addEventListener("pageshow", (event) => window.restored.push(event.persisted));
      window.seen = 0;
      store.subscribe({ topics: ["events"] }, () => window.seen++);
    });
    await tabs[0].goto(new URL("blank.html?elsewhere", cached.url).href);
    await tabs[1].evaluate(() => append(store, "run", 1));
    assert.deepEqual(await owners([tabs[1]]), [tabs[1]]);
    // A page that is restored does not load again.
    await tabs[0].goBack({ waitUntil: "commit" });
    assert.deepEqual(await tabs[0].evaluate(() => window.restored), [true], "the page was not kept: something holds it out of the cache");
    await until(() => tabs[0].evaluate(() => window.seen > 1), "a tick after it came back");
    await tabs[0].evaluate(() => append(store, "run", 2));
    assert.deepEqual(await sequences(tabs[1]), [1, 2]);
    cached.assertNoErrors();
  } finally {
    await cached.close();
  }
});

test("a page of an older version is refused, and told to reload; the others go on", async () => {
  const name = newName();
  const owner = await tab(name);
  await create(owner);
  const older = await browser.context.newPage();
  opened.push(older);
  let replaced = 0;
  await older.route("**/runkeep/*.js", async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace(/version:"\d+\.\d+\.\d+"/, () => (replaced++, 'version:"0.0.1"'));
    await route.fulfill({ response, body });
  });
  await visit(older, new URL("blank.html", browser.url).href);
  const error = await older.evaluate((name) => outcome(open({ name })), name);
  assert.equal(replaced, 1, "the version is not where it was");
  assert.deepEqual([error.ours, error.code], [true, "unsupported"]);
  assert.match(error.message, /This page runs runkeep 0\.0\.1, and the store is held by .*: reload the page/);
  await owner.evaluate(() => append(store, "run", 1));
  assert.deepEqual(await sequences(owner), [1]);
  await older.unrouteAll({ behavior: "wait" });
});

for (const count of [1, 3]) {
  test(`a page of a newer version takes the store over from ${count} of an older one, which are told to reload`, async () => {
    const name = newName();
    const older = [];
    for (let n = 0; n < count; n++) older.push(await tab(name));
    await create(older[0]);
    for (const page of older) {
      await page.evaluate(() => {
        window.told = [];
        store.on("versionchange", ({ message }) => told.push(message));
      });
    }
    const page = await tab();
    const opening = page.evaluate(async (name) => {
      window.runkeep = await import("/newer/index.js");
      window.store = await open({ name });
      return (({ version, owner }) => ({ version, owner }))(await store.info());
    }, name);
    assert.deepEqual(await opening, { version: newerVersion, owner: true });
    for (const one of older) {
      const { code, message } = await one.evaluate(() => outcome(append(store, "run", "old")));
      assert.equal(code, "unsupported");
      assert.ok(message.includes(`runkeep ${version}, and the store is held by ${newerVersion}: reload the page`), message);
      const told = await one.evaluate(() => told);
      assert.ok(told.length > 0 && told.every((message) => message.includes("reload")), JSON.stringify(told));
    }
    await page.evaluate(() => append(store, "run", "new"));
    assert.deepEqual(await sequences(page), [1]);
    // Those that were reloaded are of the newer version too.
    await page.close();
    await older[0].reload();
    await visit(older[0], new URL("blank.html", browser.url).href);
    await older[0].evaluate(async (name) => {
      window.runkeep = await import("/newer/index.js");
      window.store = await open({ name });
      await append(store, "run", "newer");
    }, name);
    assert.deepEqual(await sequences(older[0]), [1, 2]);
  });
}

test("a newer page that cannot take the store over yet does not take it from those who have it", async () => {
  const name = newName();
  const older = await tab(name);
  await create(older);
  const page = await tab();
  const failed = page.evaluate(async (name) => {
    window.runkeep = await import("/newer/index.js");
    return outcome(open({ name, workerUrl: "/nothing.js", bootTimeoutMs: 1_500 }));
  }, name);
  assert.equal((await failed).code, "storage_unavailable");
  await older.evaluate(() => append(store, "run", "mine"));
  assert.deepEqual(await sequences(older), [1]);
  browser.takeErrors();
});
