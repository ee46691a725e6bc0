// Real session files, and what may become of them on a disk, through kills of everything that can be killed.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { assertReplayed, openConsole, reached, ready, reloadAt, stepsOf } from "./console-page.mjs";
import { openBrowser } from "./harness.mjs";

const folder = process.env.RUNKEEP_SESSIONS;
const skip = folder ? false : "RUNKEEP_SESSIONS names no folder of session files";

let browser;
before(async () => {
  if (!skip) browser = await openBrowser();
});
after(() => browser?.close());

test("session files come out of kills and reloads as they went in", { skip }, async () => {
  const paths = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".jsonl")).map((name) => join(folder, name));
  assert.notEqual(paths.length, 0, `there is no .jsonl under ${folder}`);
  const files = await Promise.all(paths.map(async (path) => ({ path, name: basename(path), steps: (await stepsOf(readFileSync(path))).length })));
  // The longest comes last, so that all are stored while it is under way.
  files.sort((a, b) => a.steps - b.steps);
  const longest = files.at(-1);

  let page = await openConsole(browser);
  await reloadAt(page, "max");
  const run = ({ name }) => page.locator(".runs").getByText(name, { exact: true });
  const kill = () => page.getByRole("button", { name: "Kill the store's worker" }).click();
  await page.locator("input[type=file]").setInputFiles(files.map(({ path }) => path));
  await run(files[0]).waitFor();
  await kill();
  await page.getByRole("heading", { level: 2, name: longest.name }).waitFor();
  await reached(page, longest.steps * 0.1);
  await kill();
  await reached(page, longest.steps * 0.3);
  await kill();
  await page.reload();
  await ready(page);
  await reached(page, longest.steps * 0.5);
  await browser.killBrowser();
  browser.takeErrors();
  await browser.relaunch();
  page = await openConsole(browser);
  // What the browser remembers of preferences does not survive such a kill.
  await reloadAt(page, "max");

  for (const file of files) {
    await run(file).click();
    await page.getByRole("heading", { level: 2, name: file.name }).waitFor();
    await assertReplayed(page, readFileSync(file.path));
  }
  browser.assertNoErrors();
});
