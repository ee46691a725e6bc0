// One real Firefox, driven over WebDriver BiDi, with the built package served to it. Its pages are Puppeteer's, whose `evaluate` and `goto` are as
// Playwright's where the tests use them.
import assert from "node:assert/strict";
import puppeteer from "puppeteer-core";
import { serve } from "../../scripts/serve.mjs";
import { findFirefox } from "../../scripts/setup.mjs";
import { testRoots } from "./harness.mjs";

/**
 * Starts a server and a browser; meant for `before`, with `close()` for `after`.
 *
 * - `url`: of the server, ending in "/"
 * - `page(path = "blank.html")`: a new tab that has loaded that path
 * - `privatePage(path)`: one in a context of its own, as a private window has
 * - `assertNoErrors()`: that no page had an uncaught error or wrote one to the console since the last call
 */
export async function openFirefox({ roots = testRoots, csp } = {}) {
  const executablePath = findFirefox();
  assert.ok(executablePath, "no Firefox: run `node scripts/setup.mjs --browser`");
  const server = await serve({ roots, ...(csp === undefined ? {} : { csp }) });
  const firefox = await puppeteer.launch({
    browser: "firefox",
    executablePath,
    headless: true,
    // No tab of ours waits for another, and none asks the network for anything.
    extraPrefsFirefox: { "browser.sessionstore.resume_from_crash": false, "network.captive-portal-service.enabled": false, "network.connectivity-service.enabled": false },
  });
  let errors = [];

  async function load(page, path) {
    page.on("pageerror", (error) => errors.push(`${page.url()}: ${error.stack ?? error}`));
    page.on("console", (message) => message.type() === "error" && errors.push(`${page.url()}: ${message.text()}`));
    await page.goto(new URL(path, server.url).href);
    return page;
  }

  return {
    url: server.url,
    page: async (path = "blank.html") => load(await firefox.newPage(), path),
    privatePage: async (path = "blank.html") => load(await (await firefox.createBrowserContext()).newPage(), path),
    assertNoErrors() {
      const taken = errors;
      errors = [];
      assert.deepEqual(taken, []);
    },
    async close() {
      await firefox.close();
      await server.close();
    },
  };
}
