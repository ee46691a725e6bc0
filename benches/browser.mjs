// The browser's half of `npm run bench`: runkeep beside SQLite by hand, Dexie and PGlite in one Chromium. Alone it prints a table; `--quick` does less.
import assert from "node:assert/strict";
import { cpSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress } from "node:zlib";
import { pageScripts } from "../scripts/build.mjs";
import { isMain, main, mustRun, root, say as print, targetDir } from "../scripts/run.mjs";
import { openBrowser } from "../tests/browser/harness.mjs";

const pages = join(root, "benches", "browser");
const peers = join(root, "benches", "peers", "browser");
const modules = join(peers, "node_modules");
const built = join(targetDir, "bench", "browser");
const dist = join(root, "dist");

const names = { runkeep: "runkeep", sqlite: "SQLite by hand", dexie: "Dexie", pglite: "PGlite" };
const engines = Object.keys(names);
/** Of the stores that are opened; the one that is worked on begins with as many. */
const seeded = 10_000;

/** `{ records, targets }`. What is compared is measured in turns within each round. */
export async function browser({ rounds = 5, say = print, quick = false } = {}) {
  if (quick) rounds = Math.min(rounds, 3);
  await bundlePeers();
  const chromium = await openBrowser({
    roots: { "/": pages, "/bench/": built, "/runkeep/": dist },
  });
  const samples = new Samples();
  try {
    await oneTab(chromium, samples, { rounds, say, each: quick ? 100 : 200, flight: quick ? 1_000 : 5_000 });
    await opening(chromium, samples, { rounds, say });
    await fourTabs(chromium, samples, { rounds, say, each: quick ? 100 : 200 });
    chromium.assertNoErrors();
  } finally {
    await chromium.close();
  }
  return { records: samples.records(), targets: samples.targets() };
}

const oneByOne = {
  append: "append an event",
  enqueue: "enqueue",
  claim: "claim and complete",
  list: "list 100 items",
  state: "materialize 1,000 events",
};

/** Dexie and PGlite queue their transactions, and 5,000 of them take a minute: a tenth tells as well what each takes. */
const flightOf = (engine, flight) => (engine === "dexie" || engine === "pglite" ? flight / 10 : flight);
const warmUp = 20;

async function oneTab(chromium, samples, { rounds, say, each, flight }) {
  const page = await chromium.page("bench.html");
  const inPage = (method, ...given) => page.evaluate(([method, given]) => bench[method](...given), [method, given]);
  for (const engine of engines) {
    say(`browser: seeding ${names[engine]}`);
    await inPage("open", engine, "work");
    await inPage("seed", engine, seeded);
    for (const work of Object.keys(oneByOne)) await inPage("inTurn", engine, work, warmUp);
  }
  await inPage("inTurn", "sqlite", "nothing", 200);
  for (let round = 0; round < rounds; round++) {
    say(`browser: one tab, round ${round + 1} of ${rounds}`);
    samples.add("browser", roundTrip, "a worker", await inPage("inTurn", "sqlite", "nothing", each * 3));
    for (const [work, name] of Object.entries(oneByOne)) {
      for (const engine of rotated(engines, round)) samples.add("browser", name, engine, await inPage("inTurn", engine, work, each));
    }
    samples.add("browser", foldedAnew, "runkeep", await inPage("inTurn", "runkeep", "stateAnew", each));
    for (const work of ["append", "enqueue"]) {
      for (const engine of rotated(engines, round)) {
        const count = flightOf(engine, flight);
        const note = count < flight ? `${count} in flight` : undefined;
        samples.add("browser", `${oneByOne[work]}, ${flight.toLocaleString("en")} in flight`, engine, await inPage("together", engine, work, count), note);
      }
    }
  }
  // Whatever the engines did, it was all of it.
  for (const engine of engines) {
    const [settled, written] = [warmUp + rounds * each, warmUp + rounds * (each + flightOf(engine, flight))];
    const expected = { events: seeded + written, pending: seeded + written - settled, claimed: 0, completed: settled };
    assert.deepEqual(await inPage("counts", engine), expected, names[engine]);
  }
  for (const engine of engines) await inPage("close", engine);
  await page.close();
}

/** Each in a page that has just been loaded. */
async function opening(chromium, samples, { rounds, say }) {
  const inNewPage = async (work, given) => {
    const page = await chromium.page("bench.html");
    const answer = await page.evaluate(work, given);
    await page.close();
    return answer;
  };
  const open = (engine, name, isNew) => inNewPage((given) => bench.opening(...given), [engine, name, isNew]);
  for (const engine of engines) {
    const seed = async ([engine, count]) => {
      await bench.open(engine, "warm");
      await bench.seed(engine, count);
      await bench.close(engine);
    };
    await inNewPage(seed, [engine, seeded]);
    // The browser has its files by now, as it would have on a second visit.
    await open(engine, "warm", false);
  }
  for (let round = 0; round < rounds; round++) {
    say(`browser: opening, round ${round + 1} of ${rounds}`);
    for (const engine of rotated(engines, round)) samples.add("browser", openCold, engine, (await open(engine, `cold-${round}`, true)).open);
    for (const engine of rotated(engines, round)) {
      const times = await open(engine, "warm", false);
      samples.add("browser", openWarm, engine, times.open);
      samples.add("browser", "first claim after that", engine, times.claim);
    }
  }
}

/** Three tabs append at the same time, each one by one, to a store that the first tab has open. */
async function fourTabs(chromium, samples, { rounds, say, each }) {
  const shared = ["runkeep", "pglite"];
  const tabs = [];
  for (let n = 0; n < 4; n++) {
    const page = await chromium.page("bench.html");
    for (const engine of shared) {
      await page.evaluate((engine) => bench.open(engine, "shared"), engine);
      if (n === 0) await page.evaluate((engine) => bench.seed(engine, 100), engine);
    }
    tabs.push(page);
  }
  const inFollowers = async (engine, count) => {
    const times = await Promise.all(tabs.slice(1).map((tab) => tab.evaluate(([engine, count]) => bench.inTurn(engine, "append", count), [engine, count])));
    return times.reduce((sum, ms) => sum + ms, 0) / times.length;
  };
  for (const engine of shared) await inFollowers(engine, warmUp);
  for (let round = 0; round < rounds; round++) {
    say(`browser: 4 tabs, round ${round + 1} of ${rounds}`);
    for (const engine of rotated(shared, round)) samples.add("4 tabs", fromFollowers, engine, await inFollowers(engine, each));
  }
  const expected = { events: 100 + 3 * (warmUp + rounds * each), pending: 100, claimed: 0, completed: 0 };
  for (const engine of shared) assert.deepEqual(await tabs[0].evaluate((engine) => bench.counts(engine), engine), expected, names[engine]);
  for (const tab of tabs) await tab.close();
}

const roundTrip = "empty round trip";
const foldedAnew = "materialize at a sequence of them";
const openCold = "open, no store yet";
const openWarm = `open, ${seeded.toLocaleString("en")} items and events`;
const fromFollowers = "append an event, from 3 tabs at once";

const rotated = (list, by) => list.map((_, index) => list[(index + by) % list.length]);

class Samples {
  #all = new Map();

  add(where, work, engine, ms, note) {
    const key = JSON.stringify([where, work, names[engine] ?? engine, note]);
    this.#all.set(key, [...(this.#all.get(key) ?? []), ms]);
  }

  records() {
    return [...this.#all].map(([key, runs]) => {
      const [where, work, engine, note] = JSON.parse(key);
      return { where, work, engine, unit: "ms", ...summary(runs), ...(note && { note }) };
    });
  }

  /** The times of the rounds, in their order. */
  #of(work, engine) {
    for (const [key, runs] of this.#all) {
      const [, done, by] = JSON.parse(key);
      if (done === work && by === (names[engine] ?? engine)) return runs;
    }
  }

  targets() {
    // Of each round, so that what disturbs a round disturbs both sides of it.
    const ratio = (work, a, b, besides) => {
      const [over, under] = [this.#of(work, a), this.#of(work, b)];
      return over && under && summary(over.map((ms, round) => ms / (under[round] + (besides?.[round] ?? 0)))).median;
    };
    const targets = [];
    const add = (name, value, limit, atLeast = false) => targets.push({ name, value, limit, holds: atLeast ? value >= limit : value <= limit });
    for (const work of Object.values(oneByOne)) {
      add(`${work}: runkeep : SQLite by hand and an empty round trip, at most`, ratio(work, "runkeep", "sqlite", this.#of(roundTrip, "a worker")), 1);
    }
    const works = [...new Set([...this.#all.keys()].map((key) => JSON.parse(key)[1]))].filter((work) => work !== roundTrip);
    for (const work of works.filter((work) => work.endsWith("in flight"))) {
      add(`${work}: SQLite by hand : runkeep, at least`, ratio(work, "sqlite", "runkeep"), 8, true);
    }
    for (const work of works) {
      for (const peer of ["dexie", "pglite"]) {
        const value = ratio(work, "runkeep", peer);
        if (value !== undefined) add(`${work}: runkeep : ${names[peer]}, at most`, value, 1);
      }
    }
    for (const work of [openCold, openWarm]) add(`${work}: PGlite : runkeep, at least`, ratio(work, "pglite", "runkeep"), 20, true);
    add(`${openWarm}: runkeep : SQLite by hand, at most`, ratio(openWarm, "runkeep", "sqlite"), 1.5);
    return targets;
  }
}

function summary(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return { median, min: sorted[0], max: sorted.at(-1), runs: sorted.length };
}

async function installPeers() {
  if (!existsSync(modules)) await mustRun("npm", ["ci", "--prefix", peers], { log: "bench-peers-browser", deadlineMs: 600_000 });
}

async function bundlePeers() {
  await installPeers();
  mkdirSync(built, { recursive: true });
  await bundle({
    entryPoints: ["page.js", "sqlite-worker.js", "pglite-worker.js"].map((name) => join(pages, name)),
    outdir: built,
    loader: { ".sql": "text" },
  });
  // Each looks for its files beside the script that loads them.
  for (const path of [["@sqlite.org", "sqlite-wasm", "dist", "sqlite3.wasm"], ...pgliteFiles]) cpSync(join(modules, ...path), join(built, path.at(-1)));
}

const pgliteFiles = ["pglite.wasm", "pglite.data", "initdb.wasm"].map((name) => ["@electric-sql", "pglite", "dist", name]);

async function bundle(options) {
  const { build } = await import("esbuild");
  const common = { bundle: true, format: "esm", target: "es2022", platform: "browser", minify: true, legalComments: "none", logLevel: "error" };
  // runkeep is served as it was built; the rest is what peers ask for where there is Node.
  return build({ ...common, nodePaths: [modules], external: ["/runkeep/*", "node:*"], ...options });
}

/** What a page loads of each engine: all its JavaScript, minified, and the rest. */
export async function sizes() {
  await installPeers();
  const total = (files) => files.reduce((sum, file) => sum + file.length, 0);
  const weigh = async (work, engine, files) => {
    // Not the synchronous one: esbuild's service ends when nothing is heard from here for seconds.
    const compressed = await Promise.all(files.map((file) => promisify(brotliCompress)(file)));
    return [["raw", total(files)], ["brotli", total(compressed)]].map(([how, bytes]) => ({ where: "size", work: `${work}, ${how}`, engine, unit: "KB", ...summary([bytes / 1024]) }));
  };
  const wasm = (...paths) => paths.map((path) => readFileSync(join(modules, ...path)));
  const script = async (engine, contents) => {
    const { outputFiles } = await bundle({ stdin: { contents, resolveDir: peers }, write: false, outdir: built });
    return weigh("JavaScript", engine, outputFiles.map((file) => file.contents));
  };
  const records = [
    ...(await weigh("WebAssembly and data", "runkeep", [readFileSync(join(dist, "runkeep.wasm"))])),
    ...(await weigh("JavaScript", "runkeep", [...pageScripts().values()])),
    ...(await weigh("WebAssembly and data", "sqlite-wasm", wasm(["@sqlite.org", "sqlite-wasm", "dist", "sqlite3.wasm"]))),
    ...(await script("sqlite-wasm", `export { default } from "@sqlite.org/sqlite-wasm"`)),
    ...(await weigh("WebAssembly and data", "wa-sqlite", wasm(["wa-sqlite", "dist", "wa-sqlite.wasm"]))),
    ...(await script(
      "wa-sqlite",
      `export { default } from "wa-sqlite/dist/wa-sqlite.mjs"; export * from "wa-sqlite"; export * from "wa-sqlite/src/examples/AccessHandlePoolVFS.js"`,
    )),
    ...(await weigh("WebAssembly and data", "PGlite", wasm(...pgliteFiles))),
    ...(await script("PGlite", `export { PGlite } from "@electric-sql/pglite"; export * from "@electric-sql/pglite/worker"`)),
    ...(await script("Dexie", `export { default } from "dexie"`)),
  ];
  const brotli = (work) => records.find((record) => record.engine === "runkeep" && record.work === `${work}, brotli`).median;
  const target = (name, value, limit) => ({ name, value, limit, holds: value <= limit });
  const targets = [
    target("runkeep.wasm in brotli, KB at most", brotli("WebAssembly and data"), 470),
    target("runkeep's JavaScript in brotli, KB at most", brotli("JavaScript"), 20),
  ];
  return { records, targets };
}

if (isMain(import.meta.url)) {
  await main(async () => {
    const measured = await browser({ quick: process.argv.includes("--quick") });
    const weighed = await sizes();
    print("");
    for (const { where, work, engine, unit, median, min, max, runs, note } of [...measured.records, ...weighed.records]) {
      const range = [runs > 1 && `${figure(min)} … ${figure(max)}, ${runs} rounds`, note].filter(Boolean).join(", ");
      print(`${where.padEnd(8)} ${work.padEnd(38)} ${engine.padEnd(15)} ${figure(median).padStart(8)} ${unit}  ${range}`);
    }
    print("");
    for (const { name, value, limit, holds } of [...measured.targets, ...weighed.targets]) {
      print(`${holds ? "holds " : "MISSED"} ${name}: ${figure(value)} (${figure(limit)})`);
    }
  });
}

function figure(value) {
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}
