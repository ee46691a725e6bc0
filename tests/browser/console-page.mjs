// The console's page in the hands of a test.
import assert from "node:assert/strict";
import { importConsole } from "../js/console-source.mjs";

const { parseSession } = await importConsole("sessions/index.ts");

/** The console in a tab of its own: one tab at a time holds the store. */
export async function openConsole(browser) {
  for (const page of browser.context.pages()) await page.close();
  const page = await browser.page("console/");
  page.setDefaultTimeout(20_000);
  await ready(page);
  return page;
}

/** Waits until the page has opened its store. */
export const ready = (page) => page.getByRole("button", { name: "Try the sample" }).waitFor();

/** Loads the page anew with another speed, which is remembered from visit to visit. */
export async function reloadAt(page, speed) {
  await page.evaluate((speed) => localStorage.setItem("speed", speed), speed);
  await page.reload();
  await ready(page);
}

/** Changes the speed on the page of a run. */
export const setSpeed = (page, speed) => page.getByRole("group", { name: "Speed" }).getByText(speed, { exact: true }).click();

/** Gives the page a file, and waits for its run. */
export async function choose(page, name, buffer) {
  await page.locator("input[type=file]").setInputFiles({ name, mimeType: "application/jsonl", buffer });
  await page.getByRole("heading", { level: 2, name, exact: true }).waitFor();
}

/** Waits until the selected run has that status. */
export const status = (page, name) => page.locator(`.selected .status.${name}`).waitFor();

/** Waits until the selected run has so many steps in its log. */
export const reached = (page, steps) => page.waitForFunction((steps) => document.querySelector(".selected progress")?.value >= steps, steps);

/** Waits for the end of the selected run, and compares its log with the file's content: on the page, and record by record here. */
export async function assertReplayed(page, content) {
  await status(page, "completed");
  await page.getByRole("button", { name: "Verify" }).click();
  const verdict = page.locator(".verdict.equal, .verdict.different");
  await verdict.waitFor();
  const expected = await stepsOf(content);
  assert.match(await verdict.textContent(), new RegExp(`^The log equals the recording: ${expected.length} steps, each once\\.`));
  const id = new URLSearchParams(new URL(page.url()).hash.slice(1)).get("run");
  assert.deepEqual(await logOf(page, id), expected);
}

/** The steps that a file's content records. */
export async function stepsOf(content) {
  const steps = [];
  for await (const entry of parseSession(asStream(content))) {
    if (entry.type === "step") steps.push({ step: steps.length + 1, line: entry.line, type: `x-session.${entry.kind}`, record: JSON.stringify(entry.record) });
  }
  return steps;
}

async function* asStream(content) {
  yield content;
}

/** The steps in a run's log, asked of the store that the page holds. */
const logOf = (page, executionId) =>
  page.evaluate(async (executionId) => {
    const { openStore } = await import("./runkeep/index.js");
    const store = await openStore({ name: "console" });
    const steps = [];
    for await (const { type, data } of store.events.list({ executionId })) {
      if (type.startsWith("x-session.")) steps.push({ step: data.step, line: data.line, type, record: JSON.stringify(data.record) });
    }
    await store.close();
    return steps;
  }, executionId);
