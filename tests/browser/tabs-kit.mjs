// Tabs of one origin that share stores, in whichever browser.

/** Loads the package into a page; for the first time or anew. What the tests say there is short by these globals. */
export async function visit(page, url) {
  await page.goto(url);
  await page.evaluate(async () => {
    // Workers that the page has started, so that a test can end them.
    window.workers = [];
    const RealWorker = Worker;
    window.Worker = class extends RealWorker {
      constructor(...given) {
        super(...given);
        window.workers.push(this);
      }
    };
    window.unhandled = [];
    addEventListener("unhandledrejection", (event) => window.unhandled.push(String(event.reason)));
    window.runkeep = await import("/runkeep/index.js");
    window.open = (options) => runkeep.openStore({ sweep: false, ...options });
    window.append = (store, executionId, data) => store.events.append(executionId, { type: "x-step", data });
    window.readLog = async (store, executionId) => {
      const log = [];
      for await (const { sequence, data } of store.events.list({ executionId, limit: 1000 })) log.push([sequence, data]);
      return log;
    };
    window.outcome = (promise) =>
      promise.then(
        () => "done",
        (error) => ({
          ours: error instanceof runkeep.RunkeepError && runkeep.isRunkeepError(error),
          ...Object.fromEntries(["name", "code", "message", "details", "retryable"].map((key) => [key, error?.[key]])),
        }),
      );
  });
}

/** How the tests make tabs in `browser` (openBrowser's or openFirefox's). */
export function tabsOf(browser) {
  const url = () => new URL("blank.html", browser.url).href;
  return {
    /** A tab that has the store `name` open as `store`, or none. */
    async tab(name, options = {}) {
      const page = await browser.page();
      await visit(page, url());
      if (name !== undefined) await openIn(page, name, options);
      return page;
    },
    /** The same tab after a reload. */
    async reload(page, name, options = {}) {
      await visit(page, url());
      if (name !== undefined) await openIn(page, name, options);
    },
  };
}

function openIn(page, name, options) {
  return page.evaluate(
    async ([name, options]) => {
      window.store = await open({ name, ...options });
    },
    [name, options],
  );
}

/** Which of the tabs holds the store: exactly one does, once all have answered. */
export async function owners(tabs) {
  const told = await Promise.all(
    tabs.map((tab) =>
      tab.evaluate(async () => {
        await store.executions.get("nobody");
        return (await store.info()).owner;
      }),
    ),
  );
  return tabs.filter((_, index) => told[index]);
}

/** Waits in Node until `check` answers something true. */
export async function until(check, what, timeoutMs = 10_000) {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (performance.now() > end) throw new Error(`${what}: not within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
