// What the other browser tests take for granted.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openBrowser } from "./harness.mjs";

let browser;
before(async () => {
  browser = await openBrowser();
});
after(() => browser.close());

const keep = (page, line) =>
  page.evaluate(
    (line) =>
      new Promise((resolve, reject) => {
        const worker = new Worker("/keeper.js", { type: "module" });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = (event) => reject(new Error(event.message));
        worker.postMessage(line);
      }),
    line,
  );

test("OPFS outlives a kill of the browser", async () => {
  assert.equal(await keep(await browser.page(), "first"), "first");
  await browser.killBrowser();
  await browser.relaunch();
  assert.equal(await keep(await browser.page(), null), "first");
  browser.assertNoErrors();
});

test("the policy of the pages forbids eval, and what they complain about is collected", async () => {
  const page = await browser.page();
  const reason = await page.evaluate(async () => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.head.append(script);
    return window.ran ?? "refused";
  });
  assert.equal(reason, "refused");
  const errors = browser.takeErrors();
  assert.equal(errors.length, 1);
  assert.match(errors[0], /Content Security Policy/);
});
