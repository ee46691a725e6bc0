// The conformance suite on the store in WebAssembly on OPFS, in real browsers.
import { join } from "node:path";
import { after, before } from "node:test";
import { registerSuite } from "../conformance/node.mjs";
import { root } from "../../scripts/run.mjs";
import { openFirefox } from "./firefox.mjs";
import { openBrowser, testRoots } from "./harness.mjs";

const roots = { ...testRoots, "/conformance/": join(root, "tests", "conformance") };
// Several at a time, for starting a worker takes longer than most cases.
const concurrency = 4;

for (const [place, start] of [
  ["wasm on OPFS", openBrowser],
  ["wasm on OPFS in Firefox", openFirefox],
]) {
  let browser;
  let page;
  before(async () => {
    browser = await start({ roots });
    page = await browser.page("conformance.html");
    await page.waitForFunction(() => "runConformanceCase" in globalThis);
  });
  after(async () => {
    try {
      browser.assertNoErrors();
    } finally {
      await browser.close();
    }
  });

  registerSuite(
    place,
    async (group, name) => {
      const problem = await page.evaluate(([group, name]) => runConformanceCase(group, name), [group, name]);
      if (problem !== null) throw Object.assign(new Error(problem.message), { stack: problem.stack });
    },
    concurrency,
  );
}
