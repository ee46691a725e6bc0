// One real Chromium in a persistent profile (OPFS in the default, private context behaves and costs otherwise), with the built package served to it.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { killPids, listProcesses, processTree, root } from "../../scripts/run.mjs";
import { serve } from "../../scripts/serve.mjs";
import { findChromium } from "../../scripts/setup.mjs";

const flags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** URL prefixes of the tests' server: the tests' own pages, the package, the console. */
export const testRoots = {
  "/": join(root, "tests", "browser", "pages"),
  "/runkeep/": join(root, "dist"),
  "/console/": join(root, "dist", "console"),
  "/console/runkeep/": join(root, "dist"),
};

/**
 * Starts a server and a browser; meant for `before`, with `close()` for `after`. `csp` replaces the policy of the server's answers;
 * with `backForwardCache` pages that are left are kept for the back button, as for people.
 *
 * - `url`: of the server, ending in "/"; it stays the same over relaunches, and with it the origin's storage
 * - `context`: Playwright's BrowserContext, a new one after a relaunch
 * - `page(path = "blank.html")`: a new page that has loaded that path
 * - `killBrowser()`: SIGKILL to every process of the browser; `relaunch()`: a new one on the same profile
 * - `takeErrors()`: uncaught errors, console errors and crashes of all pages since the last call; `assertNoErrors()`: that there are none
 */
export async function openBrowser({ roots = testRoots, csp, backForwardCache = false } = {}) {
  const executablePath = findChromium();
  assert.ok(executablePath, "no Chromium: run `node scripts/setup.mjs --browser`");
  const server = await serve({ roots, ...(csp === undefined ? {} : { csp }) });
  const profile = mkdtempSync(join(tmpdir(), "runkeep-browser-"));
  let errors = [];
  let context;

  const browserPids = () => {
    const processes = listProcesses();
    // Its children carry the profile on their command lines too, and some are no children any more.
    const own = processes.filter(({ command }) => command.includes(`--user-data-dir=${profile}`));
    return [...new Set(own.flatMap(({ pid }) => processTree(pid, processes)))].filter((pid) => pid !== process.pid);
  };
  // Waits for the end, for the profile is not free before; in one go, because it must also work while this process exits.
  const killAll = () => {
    const pause = new Int32Array(new SharedArrayBuffer(4));
    const deadline = performance.now() + 10_000;
    for (let pids = browserPids(); pids.length > 0; pids = browserPids()) {
      assert.ok(performance.now() < deadline, `processes of the browser do not end: ${pids}`);
      killPids(pids);
      Atomics.wait(pause, 0, 0, 10);
    }
  };
  const cleanUp = () => {
    killAll();
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  };
  // Also when a test file fails to close, or is ended at its deadline.
  process.once("exit", cleanUp);

  async function launch() {
    context = await chromium.launchPersistentContext(profile, {
      executablePath,
      headless: true,
      args: flags,
      // Playwright turns it off by default.
      ...(backForwardCache && { ignoreDefaultArgs: ["--disable-back-forward-cache"] }),
      // scripts/run.mjs turns signals into an exit, at which the browser is killed.
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
    });
    context.on("page", watch);
    for (const page of context.pages()) watch(page);
  }

  function watch(page) {
    const note = (what) => errors.push(`${page.url()}: ${what}`);
    page.on("pageerror", (error) => note(error.stack ?? String(error)));
    page.on("console", (message) => message.type() === "error" && note(`${message.text()} (${message.location().url})`));
    page.on("crash", () => note("the page crashed"));
  }

  const browser = {
    url: server.url,
    get context() {
      return context;
    },
    async page(path = "blank.html") {
      const page = await context.newPage();
      await page.goto(new URL(path, server.url).href);
      return page;
    },
    async killBrowser() {
      const closed = new Promise((resolve) => context.once("close", resolve));
      killAll();
      await closed;
    },
    async relaunch() {
      await launch();
    },
    takeErrors() {
      const taken = errors;
      errors = [];
      return taken;
    },
    assertNoErrors() {
      assert.deepEqual(browser.takeErrors(), []);
    },
    async close() {
      const closed = context.close().then(() => true);
      // A browser that hangs must not hold up the tests.
      let timer;
      const late = new Promise((resolve) => (timer = setTimeout(resolve, 15_000, false)));
      const inTime = await Promise.race([closed, late]);
      clearTimeout(timer);
      await server.close();
      process.off("exit", cleanUp);
      cleanUp();
      assert.ok(inTime, "the browser did not close within 15 s and was killed");
    },
  };

  try {
    await launch();
  } catch (error) {
    await server.close();
    process.off("exit", cleanUp);
    cleanUp();
    throw error;
  }
  return browser;
}
