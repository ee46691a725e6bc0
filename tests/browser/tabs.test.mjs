// Many tabs, one store: what people see when they open, close, reload and lose tabs. In Chromium and in Firefox.
import assert from "node:assert/strict";
import { after, afterEach, before, describe, test } from "node:test";
import { openFirefox } from "./firefox.mjs";
import { openBrowser } from "./harness.mjs";
import { owners, tabsOf, until } from "./tabs-kit.mjs";

let stores = 0;
const newName = () => `tabs-${++stores}`;
const range = (count) => Array.from({ length: count }, (_, index) => index);
const sequencesOf = (log) => log.map(([sequence]) => sequence);

for (const [title, start] of [
  ["Chromium", openBrowser],
  ["Firefox", openFirefox],
]) {
  describe(`tabs in ${title}`, () => {
    let browser;
    let tab;
    let reload;
    let opened = [];
    before(async () => {
      browser = await start();
      const kit = tabsOf(browser);
      tab = async (...given) => {
        const page = await kit.tab(...given);
        opened.push(page);
        return page;
      };
      reload = kit.reload;
    });
    after(() => browser.close());
    afterEach(async () => {
      const open = opened.filter((page) => !page.isClosed());
      opened = [];
      const unhandled = await Promise.all(open.map((page) => page.evaluate(() => window.unhandled)));
      for (const page of open) await page.close();
      assert.deepEqual(unhandled.flat(), []);
      browser.assertNoErrors();
    });

    test("a second tab answers through the first within a second, and both see what either writes", async () => {
      const name = newName();
      const first = await tab(name);
      await first.evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
      const second = await tab();
      const { ms, id } = await second.evaluate(async (name) => {
        const begun = performance.now();
        window.store = await open({ name });
        const { id } = await store.executions.get("run");
        return { ms: performance.now() - begun, id };
      }, name);
      assert.equal(id, "run");
      assert.ok(ms < 1_000, `${ms} ms`);
      await second.evaluate(() => append(store, "run", "from the second"));
      await first.evaluate(() => append(store, "run", "from the first"));
      assert.deepEqual(await second.evaluate(() => readLog(store, "run")), [[1, "from the second"], [2, "from the first"]]);
      assert.deepEqual(await owners([first, second]), [first]);
      assert.equal(await second.evaluate(async () => (await store.info()).storage), "opfs");
    });

    test("one of three tabs closes, the owner, and the others go on with the next call; there is one owner", async () => {
      const name = newName();
      const tabs = [await tab(name), await tab(name), await tab(name)];
      await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
      assert.deepEqual(await owners(tabs), [tabs[0]]);
      await tabs[0].close();
      const rest = tabs.slice(1);
      await Promise.all(rest.map((page, n) => page.evaluate((n) => append(store, "run", n), n)));
      const log = await rest[1].evaluate(() => readLog(store, "run"));
      assert.deepEqual(sequencesOf(log), [1, 2]);
      assert.equal((await owners(rest)).length, 1);
    });

    test("a follower closes, and nobody notices", async () => {
      const name = newName();
      const tabs = [await tab(name), await tab(name), await tab(name)];
      await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
      await tabs[1].evaluate(() => append(store, "run", 0));
      await tabs[1].close();
      await tabs[2].evaluate(() => append(store, "run", 1));
      await tabs[0].evaluate(() => append(store, "run", 2));
      assert.deepEqual(await tabs[2].evaluate(() => readLog(store, "run")), [[1, 0], [2, 1], [3, 2]]);
    });

    test("twenty calls are sent into the gap after the owner has died: all settle within five seconds, each once", async () => {
      const name = newName();
      const tabs = [await tab(name), await tab(name), await tab(name)];
      await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
      await tabs[1].evaluate(() => append(store, "run", "before"));
      await tabs[0].evaluate(() => workers.at(-1).terminate());
      const send = (page, from) =>
        page.evaluate(async (from) => {
          const begun = performance.now();
          const outcomes = await Promise.all(Array.from({ length: 10 }, (_, n) => outcome(append(store, "run", from + n))));
          return { outcomes, ms: performance.now() - begun };
        }, from);
      const answers = await Promise.all([send(tabs[1], 0), send(tabs[2], 10)]);
      for (const { outcomes, ms } of answers) {
        assert.deepEqual(outcomes, Array(10).fill("done"));
        assert.ok(ms < 5_000, `${ms} ms`);
      }
      const log = await tabs[1].evaluate(() => readLog(store, "run"));
      assert.deepEqual(sequencesOf(log), range(21).map((n) => n + 1));
      assert.deepEqual(log.map(([, data]) => data).filter((data) => data !== "before").sort((a, b) => a - b), range(20));
    });

    test("the owner's worker is ended again and again under load from all tabs: everything acknowledged is there once", async () => {
      const name = newName();
      const tabs = [await tab(name), await tab(name), await tab(name)];
      await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
      const loads = tabs.map((page, index) =>
        page.evaluate(async (index) => {
          const acknowledged = [];
          const failed = [];
          window.going = true;
          for (let n = 0; window.going; n++) {
            await append(store, "run", `${index}/${n}`).then(
              ({ sequence }) => acknowledged.push([sequence, `${index}/${n}`]),
              (error) => failed.push(String(error)),
            );
          }
          return { acknowledged, failed };
        }, index),
      );
      for (let kill = 0; kill < 6; kill++) {
        const ended = await until(async () => {
          for (const page of tabs) {
            const isOwner = await page.evaluate(async () => {
              if (!(await store.info()).owner) return false;
              workers.at(-1).terminate();
              return true;
            });
            if (isOwner) return true;
          }
          return false;
        }, "an owner");
        assert.ok(ended);
        // Until all go on.
        await Promise.all(tabs.map((page) => page.evaluate(() => store.executions.get("run"))));
      }
      for (const page of tabs) await page.evaluate(() => (window.going = false));
      const results = await Promise.all(loads);
      assert.deepEqual(results.flatMap(({ failed }) => failed), []);
      const log = await tabs[0].evaluate(() => readLog(store, "run"));
      assert.deepEqual(sequencesOf(log), range(log.length).map((n) => n + 1));
      const acknowledged = results.flatMap((result) => result.acknowledged).sort(([a], [b]) => a - b);
      assert.deepEqual(log, acknowledged);
    });

    test("close() right after open(), in two tabs at once, resolves and leaves no unhandled rejection", async () => {
      const name = newName();
      const tabs = [await tab(), await tab()];
      await Promise.all(
        tabs.map((page) =>
          page.evaluate(async (name) => {
            for (let round = 0; round < 10; round++) {
              const opening = open({ name });
              const closing = opening.then((store) => store.close());
              const again = await open({ name });
              await again.executions.create({ id: "run", workflowId: "w" });
              await Promise.all([closing, again.close()]);
            }
          }, name),
        ),
      );
      const last = await tab(name);
      assert.equal(await last.evaluate(async () => (await store.executions.get("run")).id), "run");
    });

    test("five tabs in rounds of reload, close, open and write: no error of handles, and every acknowledged write is there", async () => {
      const name = newName();
      const tabs = await Promise.all(range(5).map(() => tab(name)));
      await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
      let acknowledged = [];
      for (let round = 0; round < 8; round++) {
        const wrote = await Promise.all(
          tabs.map(async (page, index) => {
            const what = (round + index) % 5;
            if (what === 0) await reload(page, name);
            if (what === 1) await page.evaluate(async (name) => (await store.close(), (window.store = await open({ name }))).info(), name);
            if (what === 2) await page.evaluate(async (name) => (await open({ name })).close(), name);
            return page.evaluate((data) => append(store, "run", data).then(({ sequence, data }) => [sequence, data]), `${round}/${index}`);
          }),
        );
        acknowledged.push(...wrote);
      }
      const log = await tabs[2].evaluate(() => readLog(store, "run"));
      assert.deepEqual(log, acknowledged.sort(([a], [b]) => a - b));
      assert.equal((await owners(tabs)).length, 1);
    });

    test("an error is the same in every tab: its class, code, details, retryable", async () => {
      const name = newName();
      const tabs = [await tab(name), await tab(name)];
      const found = await Promise.all(tabs.map((page) => page.evaluate(() => outcome(store.executions.setStatus("nobody", { status: "running" })))));
      assert.deepEqual(found[0], found[1]);
      assert.deepEqual([found[0].ours, found[0].name, found[0].code, found[0].retryable], [true, "RunkeepError", "not_found", false]);
    });

    test("a hundred calls in parallel, with opening, closing and exporting among them", async () => {
      const name = newName();
      const tabs = [await tab(name), await tab(name)];
      await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
      const sums = await Promise.all(
        tabs.map((page) =>
          page.evaluate(async (name) => {
            const work = Array.from({ length: 100 }, (_, n) => {
              if (n % 10 === 3) return open({ name }).then((store) => store.close());
              if (n % 25 === 7) return store.exportDatabase().then((file) => file.bytes ?? file);
              return append(store, "run", n);
            });
            const outcomes = await Promise.all(work.map(outcome));
            return outcomes.filter((one) => one !== "done");
          }, name),
        ),
      );
      assert.deepEqual(sums.flat(), []);
      const log = await tabs[1].evaluate(() => readLog(store, "run"));
      assert.deepEqual(sequencesOf(log), range(2 * 86).map((n) => n + 1));
    });

    test("what one tab writes wakes the others, and a tail in each sees everything in order over the death of the owner", async () => {
      const name = newName();
      const tabs = [await tab(name), await tab(name), await tab(name)];
      await tabs[0].evaluate(() => store.executions.create({ id: "run", workflowId: "w" }));
      for (const page of tabs) {
        await page.evaluate(() => {
          window.seen = [];
          window.ticks = 0;
          store.subscribe({ topics: ["events"] }, () => window.ticks++);
          (async () => {
            for await (const { sequence } of store.events.tail({ executionId: "run" })) window.seen.push(sequence);
          })();
        });
      }
      await tabs[1].evaluate(() => Promise.all(Array.from({ length: 500 }, (_, n) => append(store, "run", n))));
      await tabs[0].evaluate(() => workers.at(-1).terminate());
      await tabs[2].evaluate(() => Promise.all(Array.from({ length: 500 }, (_, n) => append(store, "run", n))));
      const rest = tabs;
      for (const page of rest) {
        await until(() => page.evaluate(() => window.seen.length >= 1000), "a thousand events");
        assert.deepEqual(await page.evaluate(() => window.seen), range(1000).map((n) => n + 1));
        const ticks = await page.evaluate(() => window.ticks);
        assert.ok(ticks > 0 && ticks < 300, `${ticks} wake-ups for 1,000 events`);
      }
    });

    test("a tab that makes no call hears that it has the store open now", async () => {
      const name = newName();
      const owner = await tab(name);
      const other = await tab(name);
      await other.evaluate(() => {
        window.told = [];
        store.on("ownerchange", (detail) => told.push(detail.owner));
      });
      await owner.close();
      await until(() => other.evaluate(() => told.length > 0), "the event");
      assert.deepEqual(await other.evaluate(async () => [told, (await store.info()).owner]), [[true], true]);
    });

    test("of several tabs that drive sweeps, each does so, and what is due is fired once", async () => {
      const name = newName();
      const tabs = await Promise.all(range(3).map(() => tab(name, { sweep: { intervalMs: 20 } })));
      await tabs[0].evaluate(async () => {
        await store.executions.create({ id: "run", workflowId: "w" });
        await Promise.all(Array.from({ length: 50 }, (_, n) => store.timers.schedule({ executionId: "run", nodeId: `n${n}`, delayMs: 30 + n })));
      });
      await until(() => tabs[1].evaluate(async () => (await store.timers.list({ status: "pending" })).items.length === 0), "all timers to fire");
      const fired = await tabs[2].evaluate(async () => {
        const nodes = [];
        for await (const { type, data } of store.events.list({ executionId: "run" })) if (type === "timer_fired") nodes.push(data.nodeId);
        return nodes;
      });
      assert.deepEqual([...fired].sort(), range(50).map((n) => `n${n}`).sort());
    });

    test("five thousand appends sent at once cost at most a fifth per call of five hundred one after another", async () => {
      const page = await tab(newName());
      const ratio = await page.evaluate(async () => {
        await store.executions.create({ id: "run", workflowId: "w" });
        await append(store, "run", "warm");
        let begun = performance.now();
        for (let n = 0; n < 500; n++) await append(store, "run", n);
        const oneByOne = (performance.now() - begun) / 500;
        begun = performance.now();
        await Promise.all(Array.from({ length: 5_000 }, (_, n) => append(store, "run", n)));
        return (performance.now() - begun) / 5_000 / oneByOne;
      });
      assert.ok(ratio <= 0.2, `${ratio}`);
    });
  });
}
