// The console as a person uses it: sessions are dropped on it, and whatever is killed, the log ends up as the recorded session.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { root } from "../../scripts/run.mjs";
import { importConsole } from "../js/console-source.mjs";
import { openBrowser } from "./harness.mjs";

const { parseSession } = await importConsole("sessions/index.ts");
const sample = readFileSync(join(root, "www", "console", "sample-session.jsonl"));
const fixture = (name) => readFileSync(join(root, "tests", "fixtures", "sessions", name));

let browser;
before(async () => {
  browser = await openBrowser();
});
after(() => browser.close());

async function openConsole() {
  const page = await browser.page("console/");
  await ready(page);
  return page;
}

const ready = (page) => page.getByRole("button", { name: "Try the sample" }).waitFor();

/** A session of so many records, different for each name. */
function session(name, count, extra = () => ({})) {
  const lines = Array.from({ length: count }, (_, i) =>
    JSON.stringify({ type: "user", sessionId: name, message: { role: "user", content: `prompt ${i + 1}` }, uuid: `${name}-${i}`, ...extra(i) }),
  );
  return Buffer.from(`${lines.join("\n")}\n`);
}

async function choose(page, name, buffer) {
  await page.locator("input[type=file]").setInputFiles({ name, mimeType: "application/jsonl", buffer });
  await page.getByRole("heading", { level: 2, name, exact: true }).waitFor();
}

const setSpeed = (page, speed) => page.getByRole("group", { name: "Speed" }).getByText(speed, { exact: true }).click();
const status = (page, name) => page.locator(`.selected .status.${name}`).waitFor();

/** Waits until the selected run has so many steps in its log. */
const reached = (page, steps) => page.waitForFunction((steps) => document.querySelector(".selected progress")?.value >= steps, steps);

/** Waits for the end of the selected run, and compares its log with the file: on the page, and record by record here. */
async function assertReplayed(page, content) {
  await status(page, "completed");
  await page.getByRole("button", { name: "Verify" }).click();
  const verdict = page.locator(".verdict.equal, .verdict.different");
  await verdict.waitFor();
  const expected = await stepsOf(content);
  assert.match(await verdict.textContent(), new RegExp(`^The log equals the recording: ${expected.length} steps, each once\\.`));
  const id = new URLSearchParams(new URL(page.url()).hash.slice(1)).get("run");
  assert.deepEqual(await logOf(page, id), expected);
}

async function stepsOf(content) {
  const steps = [];
  for await (const entry of parseSession([content])) {
    if (entry.type === "step") steps.push({ step: steps.length + 1, line: entry.line, type: `x-session.${entry.kind}`, record: JSON.stringify(entry.record) });
  }
  return steps;
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

test("the sample becomes a run, and its log the sample", async () => {
  const page = await openConsole();
  await page.getByText("Nothing is running yet").waitFor();
  await page.getByText("stored in OPFS").waitFor();
  await page.getByRole("button", { name: "Try the sample" }).click();
  await page.getByRole("heading", { level: 2, name: "sample-session.jsonl" }).waitFor();
  await page.locator(".items").getByText(/claimed/).waitFor();
  await page.getByText(/^console-[0-9a-f]{8}-3$/).waitFor();
  await setSpeed(page, "max");
  await assertReplayed(page, sample);
  await page.getByText("Every line was taken as it is.").waitFor();
  assert.equal(await page.getByRole("status").textContent(), "The log equals the recording: 36 steps, each once.");
  browser.assertNoErrors();
});

test("a file that is dropped on the page is replayed; dropped again, it is compared with the log", async () => {
  const page = await openConsole();
  await setSpeedBeforehand(page, "max");
  const content = session("dropped", 30);
  const drop = async (text) => {
    const transfer = await page.evaluateHandle((text) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], "dropped.jsonl"));
      return transfer;
    }, text);
    for (const type of ["dragover", "drop"]) await page.dispatchEvent("main", type, { dataTransfer: transfer });
  };
  await drop(content.toString());
  await page.getByRole("heading", { level: 2, name: "dropped.jsonl" }).waitFor();
  await assertReplayed(page, content);
  await drop(content.toString());
  await page.getByText("The log equals the file: 30 steps, each once.").waitFor();
  browser.assertNoErrors();
});

test("a run goes on where it was after a reload in the middle", async () => {
  const page = await openConsole();
  await setSpeedBeforehand(page, "fast");
  const content = session("reloaded", 40);
  await choose(page, "reloaded.jsonl", content);
  await reached(page, 10);
  await page.reload();
  await ready(page);
  await reached(page, 20);
  await page.reload();
  await ready(page);
  await setSpeed(page, "max");
  await assertReplayed(page, content);
  browser.assertNoErrors();
});

test("a run goes on when the page was closed and is opened again", async () => {
  const page = await openConsole();
  await setSpeedBeforehand(page, "fast");
  const content = session("closed", 30);
  await choose(page, "closed.jsonl", content);
  await reached(page, 10);
  await page.close();
  const again = await openConsole();
  await again.getByRole("heading", { level: 2, name: "closed.jsonl" }).waitFor();
  await setSpeed(again, "max");
  await assertReplayed(again, content);
  browser.assertNoErrors();
});

test("nothing is lost when the store's worker is killed in the middle, several times", async () => {
  const page = await openConsole();
  await setSpeedBeforehand(page, "fast");
  const content = session("killed", 60);
  await choose(page, "killed.jsonl", content);
  for (const steps of [5, 12, 20, 21, 30]) {
    await reached(page, steps);
    await page.getByRole("button", { name: "Kill the store's worker" }).click();
  }
  await page.getByText("killed 5 times").waitFor();
  await reached(page, 40);
  await setSpeed(page, "max");
  await page.getByRole("button", { name: "Kill the store's worker" }).click();
  await assertReplayed(page, content);
  browser.assertNoErrors();
});

test("nothing is lost when the whole browser is killed in the middle", async () => {
  const page = await openConsole();
  await setSpeedBeforehand(page, "fast");
  const content = session("browser", 30);
  await choose(page, "browser.jsonl", content);
  await reached(page, 10);
  await browser.killBrowser();
  browser.takeErrors();
  await browser.relaunch();
  const again = await openConsole();
  await again.getByRole("heading", { level: 2, name: "browser.jsonl" }).waitFor();
  await setSpeedBeforehand(again, "max");
  await assertReplayed(again, content);
  browser.assertNoErrors();
});

test("a paused run waits, also over a reload, and a cancelled one ends", async () => {
  const page = await openConsole();
  await setSpeedBeforehand(page, "fast");
  const content = session("paused", 30);
  await choose(page, "paused.jsonl", content);
  await reached(page, 5);
  await page.getByRole("button", { name: "Pause" }).click();
  await status(page, "paused");
  await page.getByText("waits for the run to be resumed").waitFor();
  const steps = await page.locator(".selected progress").getAttribute("value");
  await page.reload();
  await ready(page);
  await status(page, "paused");
  await page.getByText("waits for the run to be resumed").waitFor();
  assert.equal(await page.locator(".selected progress").getAttribute("value"), steps);
  await page.getByRole("button", { name: "Resume" }).click();
  await setSpeed(page, "max");
  await assertReplayed(page, content);

  await setSpeed(page, "slow");
  await page.getByRole("button", { name: "Replay again" }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  await status(page, "cancelled");
  await page.getByRole("button", { name: "Verify" }).click();
  await page.getByText(/^The run is cancelled\. Its log so far, \d steps?, equals the recording\.$/).waitFor();
  browser.assertNoErrors();
});

test("the lines that were not taken as they are are listed with the reason", async () => {
  const page = await openConsole();
  await setSpeedBeforehand(page, "max");
  const content = fixture("claude-hostile.jsonl");
  await choose(page, "claude-hostile.jsonl", content);
  await assertReplayed(page, content);
  const panel = page.locator(".panel", { has: page.getByRole("heading", { name: "Lines of the file" }) });
  await panel.getByText("11 rejected, 2 kept with a change.").waitFor();
  assert.deepEqual((await panel.getByRole("listitem").allTextContents()).slice(3, 5), [
    "line 8rejected: after one good object: cut off: the line ends inside an object",
    "line 9rejected: after one good object: more text",
  ]);
  browser.assertNoErrors();
});

test("a file that is no session is refused, saying why, and leaves nothing behind", async () => {
  const page = await openConsole();
  const runs = await page.locator(".runs li").count();
  await page.locator("input[type=file]").setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("# Notes\n") });
  await page.getByRole("alert").getByText("notes.txt: The file holds no JSON records: line 1 is not valid JSON").waitFor();
  assert.equal(await page.locator(".runs li").count(), runs);
  browser.assertNoErrors();
});

test("a recording that the page was closed over is incomplete, and finished when the file comes again", async () => {
  const folder = mkdtempSync(join(tmpdir(), "runkeep-console-test-"));
  try {
    const path = join(folder, "interrupted.jsonl");
    const text = "x".repeat(200_000);
    const content = session("interrupted", 250, () => ({ text }));
    writeFileSync(path, content);
    const page = await openConsole();
    await setSpeedBeforehand(page, "max");
    await page.locator("input[type=file]").setInputFiles(path);
    await page.getByText(/^Storing interrupted\.jsonl: [1-9]/).waitFor();
    await page.reload();
    await page.getByText("interrupted.jsonl is incomplete: drop the file again to finish it.").waitFor();
    assert.equal(await page.locator(".runs").getByText("interrupted.jsonl").count(), 0);
    await page.locator("input[type=file]").setInputFiles(path);
    await page.getByRole("heading", { level: 2, name: "interrupted.jsonl" }).waitFor();
    await assertReplayed(page, content);
    assert.equal(await page.getByText("is incomplete").count(), 0);
    browser.assertNoErrors();
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a log of thousands of events is followed, read upwards and opened, with a bounded number of rows", async () => {
  const page = await openConsole();
  await setSpeedBeforehand(page, "max");
  const content = session("long", 3000);
  await choose(page, "long.jsonl", content);
  await status(page, "completed");
  const log = page.getByRole("log");
  const rows = log.getByRole("listitem");
  await log.getByText("The run is complete").waitFor();
  assert.ok((await rows.count()) <= 400);
  const button = page.getByRole("button", { name: "Show earlier events" });
  await button.scrollIntoViewIfNeeded();
  for (let first = await firstSequence(rows); first > 2000; first = await firstSequence(rows)) {
    await button.click();
    await page.waitForFunction((first) => Number(document.querySelector("[data-sequence]").dataset.sequence) < first, first);
  }
  assert.ok((await rows.count()) <= 400);
  const row = rows.nth(20);
  const sequence = Number(await row.getAttribute("data-sequence"));
  await row.locator("summary").focus();
  await page.keyboard.press("Enter");
  await row.getByText(`"content": "prompt ${sequence - 1}"`).waitFor();
  await page.getByRole("button", { name: /go to the end/ }).click();
  await log.getByText("The run is complete").waitFor();
  assert.ok((await rows.count()) <= 400);
  browser.assertNoErrors();
});

const firstSequence = async (rows) => Number(await rows.first().getAttribute("data-sequence"));

const real = process.env.RUNKEEP_SESSIONS;
test("real session files come out of kills and a reload as they went in", { skip: real ? false : "RUNKEEP_SESSIONS names no folder" }, async () => {
  const paths = readdirSync(real, { recursive: true }).filter((name) => name.endsWith(".jsonl")).map((name) => join(real, name));
  assert.notEqual(paths.length, 0, `no .jsonl under ${real}`);
  const page = await openConsole();
  await setSpeedBeforehand(page, "max");
  await page.locator("input[type=file]").setInputFiles(paths);
  const kill = page.getByRole("button", { name: "Kill the store's worker" });
  const begun = (path) => page.locator(".runs").getByText(basename(path), { exact: true }).waitFor();
  await begun(paths[0]);
  await kill.click();
  await begun(paths.at(-1));
  await kill.click();
  await page.reload();
  await ready(page);
  await kill.click();
  for (const path of paths) {
    await page.locator(".runs").getByText(basename(path), { exact: true }).click();
    await page.getByRole("heading", { level: 2, name: basename(path) }).waitFor();
    await assertReplayed(page, readFileSync(path));
  }
  browser.assertNoErrors();
});

/** The choice is remembered, and the page that is open takes it over at once. */
async function setSpeedBeforehand(page, speed) {
  await page.evaluate((speed) => localStorage.setItem("speed", speed), speed);
  await page.reload();
  await ready(page);
}
