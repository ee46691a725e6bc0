// The conformance suite on the store in WebAssembly on OPFS, in a real Chromium.
import { join } from "node:path";
import { after, before } from "node:test";
import { registerSuite } from "../conformance/node.mjs";
import { root } from "../../scripts/run.mjs";
import { openBrowser, testRoots } from "./harness.mjs";

let browser;
let page;
before(async () => {
  browser = await openBrowser({ roots: { ...testRoots, "/conformance/": join(root, "tests", "conformance") } });
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

// Several at a time, for starting a worker takes longer than most cases.
const concurrency = 4;

registerSuite("wasm on OPFS", runInPage, concurrency);

async function runInPage(group, name) {
  const problem = await page.evaluate(([group, name]) => runConformanceCase(group, name), [group, name]);
  if (problem !== null) throw Object.assign(new Error(problem.message), { stack: problem.stack });
}
