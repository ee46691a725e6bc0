// The console as a person uses it: sessions are dropped on it, and whatever is killed, the log ends up as the recorded session.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { root } from "../../scripts/run.mjs";
import { assertReplayed, choose, openConsole, reached, ready, reloadAt, setSpeed, status } from "./console-page.mjs";
import { openBrowser } from "./harness.mjs";

const sample = readFileSync(join(root, "www", "console", "sample-session.jsonl"));
const fixture = (name) => readFileSync(join(root, "tests", "fixtures", "sessions", name));

let browser;
before(async () => {
  browser = await openBrowser();
});
after(() => browser.close());

/** A session of so many records, different for each name. */
function session(name, count, extra = () => ({})) {
  const lines = Array.from({ length: count }, (_, i) =>
    JSON.stringify({ type: "user", sessionId: name, message: { role: "user", content: `prompt ${i + 1}` }, uuid: `${name}-${i}`, ...extra(i) }),
  );
  return Buffer.from(`${lines.join("\n")}\n`);
}

test("the sample becomes a run, and its log the sample", async () => {
  const page = await openConsole(browser);
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
  const page = await openConsole(browser);
  await reloadAt(page, "max");
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
  await page.locator(".verdict").getByText("The log equals the file: 30 steps, each once.").waitFor();
  browser.assertNoErrors();
});

test("a run goes on where it was after a reload in the middle", async () => {
  const page = await openConsole(browser);
  await reloadAt(page, "fast");
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
  const page = await openConsole(browser);
  await reloadAt(page, "fast");
  const content = session("closed", 30);
  await choose(page, "closed.jsonl", content);
  await reached(page, 10);
  await page.close();
  const again = await openConsole(browser);
  await again.getByRole("heading", { level: 2, name: "closed.jsonl" }).waitFor();
  await setSpeed(again, "max");
  await assertReplayed(again, content);
  browser.assertNoErrors();
});

test("a second tab shows the same store, and goes on when the first is closed", async () => {
  const first = await openConsole(browser);
  const second = await browser.page("console/");
  await ready(second);
  await first.close();
  await second.reload();
  await ready(second);
  browser.assertNoErrors();
});

test("nothing is lost when the store's worker is killed in the middle, several times", async () => {
  const page = await openConsole(browser);
  await reloadAt(page, "fast");
  const content = session("killed", 60);
  await choose(page, "killed.jsonl", content);
  // So far apart that the worker of the next kill has been at work in between.
  for (const steps of [5, 12, 20, 30]) {
    await reached(page, steps);
    await page.getByRole("button", { name: "Kill the store's worker" }).click();
  }
  await page.getByText("killed 4 times").waitFor();
  await reached(page, 40);
  await setSpeed(page, "max");
  await page.getByRole("button", { name: "Kill the store's worker" }).click();
  await assertReplayed(page, content);
  browser.assertNoErrors();
});

test("nothing is lost when the whole browser is killed in the middle", async () => {
  const page = await openConsole(browser);
  await reloadAt(page, "fast");
  const content = session("browser", 30);
  await choose(page, "browser.jsonl", content);
  await reached(page, 10);
  await browser.killBrowser();
  browser.takeErrors();
  await browser.relaunch();
  const again = await openConsole(browser);
  await again.getByRole("heading", { level: 2, name: "browser.jsonl" }).waitFor();
  await reloadAt(again, "max");
  await assertReplayed(again, content);
  browser.assertNoErrors();
});

test("a paused run waits, also over a reload, and a cancelled one ends", async () => {
  const page = await openConsole(browser);
  await reloadAt(page, "fast");
  const content = session("paused", 30);
  await choose(page, "paused.jsonl", content);
  await reached(page, 5);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await status(page, "paused");
  await page.getByText("waits for the run to be resumed").waitFor();
  const steps = await page.locator(".selected progress").getAttribute("value");
  await page.reload();
  await ready(page);
  await status(page, "paused");
  await page.getByText("waits for the run to be resumed").waitFor();
  assert.equal(await page.locator(".selected progress").getAttribute("value"), steps);
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await setSpeed(page, "max");
  await assertReplayed(page, content);

  await setSpeed(page, "slow");
  await page.getByRole("button", { name: "Replay again" }).click();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await status(page, "cancelled");
  await page.getByRole("button", { name: "Verify" }).click();
  await page.locator(".verdict").getByText(/^The run is cancelled\. Its log so far, \d steps?, equals the recording\.$/).waitFor();
  browser.assertNoErrors();
});

test("a step that became a dead letter is shown with its error, and can be tried again", async () => {
  const page = await openConsole(browser);
  await reloadAt(page, "slow");
  const content = session("refused", 20);
  await choose(page, "refused.jsonl", content);
  await reached(page, 1);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByText("waits for the run to be resumed").waitFor();
  await page.evaluate(async () => {
    const { openStore } = await import("./runkeep/index.js");
    const store = await openStore({ name: "console" });
    const run = new URLSearchParams(location.hash.slice(1)).get("run");
    const [item] = await store.queue.claim({ workerId: "somebody", queues: [`replay/${run}`] });
    await store.queue.fail(item, { error: "cannot be read", retryable: false });
    await store.close();
  });
  await page.getByRole("alert").getByText(/^Step 2 was given up after 1 attempt and is now a dead letter: cannot be read$/).waitFor();
  await setSpeed(page, "max");
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await page.getByRole("button", { name: "Try this step again" }).click();
  await assertReplayed(page, content);
  browser.assertNoErrors();
});

test("the lines that were not taken as they are are listed with the reason", async () => {
  const page = await openConsole(browser);
  await reloadAt(page, "max");
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
  const page = await openConsole(browser);
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
    const content = session("interrupted", 120, () => ({ text }));
    writeFileSync(path, content);
    const page = await openConsole(browser);
    await reloadAt(page, "max");
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
  const page = await openConsole(browser);
  await reloadAt(page, "max");
  const content = session("long", 1500);
  await choose(page, "long.jsonl", content);
  await status(page, "completed");
  const log = page.getByRole("log");
  const rows = log.getByRole("listitem");
  await log.getByText("The run is complete").waitFor();
  assert.ok((await rows.count()) <= 400);
  const button = page.getByRole("button", { name: "Show earlier events" });
  await button.scrollIntoViewIfNeeded();
  for (let first = await firstSequence(rows); first > 1000; first = await firstSequence(rows)) {
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
