// How much memory a page needs to import a session of 200 MB into OPFS, and how long it takes: `node benches/imports.mjs [MiB]`, after a build.
import { readFileSync } from "node:fs";
import { listProcesses } from "../scripts/run.mjs";
import { openBrowser } from "../tests/browser/harness.mjs";

const mebibytes = Number(process.argv[2] ?? 200);
const browser = await openBrowser();
const page = await browser.page();

/** Of the browser's processes that run pages and their workers, the largest: MiB now, and at most so far. */
function memory() {
  const renderers = listProcesses().filter(({ command }) => command.includes("--type=renderer"));
  const read = (pid, field) => {
    try {
      return Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
    } catch {
      return 0;
    }
  };
  const most = (field) => Math.round(Math.max(0, ...renderers.map(({ pid }) => read(pid, field))));
  return { now: most("VmRSS"), peak: most("VmHWM") };
}

await page.evaluate(async (mebibytes) => {
  const { openStore } = await import("/runkeep/index.js");
  const text = "The gauge shows negative wind, which the north mark does not. ".repeat(30);
  const record = (n) => {
    const usage = { input_tokens: 3, output_tokens: 40 };
    const messages = [
      { role: "user", content: text },
      { role: "assistant", id: `m${n}`, model: "claude-sonnet-4-5", content: [{ type: "text", text }], usage },
      { role: "assistant", id: `m${n}`, model: "claude-sonnet-4-5", content: [{ type: "tool_use", id: `t${n}`, name: "Bash", input: { command: "make" } }], usage },
      { role: "user", content: [{ type: "tool_result", tool_use_id: `t${n - 1}`, content: text }] },
    ];
    const message = messages[n % 4];
    return `${JSON.stringify({ type: message.role, sessionId: "large", uuid: `u${n}`, timestamp: new Date(1.77e12 + n * 1000).toISOString(), message })}\n`;
  };
  // The file lies on the disk, as a dropped one does.
  const root = await navigator.storage.getDirectory();
  const handle = await root.getFileHandle("large.jsonl", { create: true });
  const file = await handle.createWritable();
  let n = 0;
  for (let written = 0; written < mebibytes << 20; ) {
    const lines = [];
    for (let count = 0; count < 500; count++) lines.push(record(n++));
    const part = lines.join("");
    await file.write(part);
    written += part.length;
  }
  await file.close();
  globalThis.handle = handle;
  globalThis.store = await openStore({ name: "large", sweep: false });
}, mebibytes);

const before = memory();
let most = 0;
const timer = setInterval(() => (most = Math.max(most, memory().now)), 250);
for (const round of ["first", "again"]) {
  const { ms, imported, skipped } = await page.evaluate(async () => {
    const start = performance.now();
    const [{ imported, skipped }] = await store.imports.claudeCode([handle]);
    return { ms: performance.now() - start, imported, skipped };
  });
  console.log(`${round}: ${imported} new, ${skipped} known in ${(ms / 1000).toFixed(1)} s; memory of the page ${before.now} MiB before, at most ${most} MiB`);
}
clearInterval(timer);
await browser.close();
