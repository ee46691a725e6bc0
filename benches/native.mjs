// `node benches/native.mjs`: what operations of the native store cost, beside the fewest SQLite statements that do the same (the floor, see
// native/floor.rs) and beside JamJet's own store (peers/jamjet). All of them run at once and take turns, so that whatever else the machine
// does meets each. RUNKEEP_ROUNDS (5) says how often; `--quick` takes 100,000 rows for a million, and few rounds.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Failure, isMain, main, mustRun, root, say as print, targetDir } from "../scripts/run.mjs";

const SMALL = 1000;
const FLOOR_LIMIT = 1.25;
const GROWTH_LIMIT = 1.5;
const JAMJET_LIMIT = 3.5;
const JAMJET_CLAIM_LIMIT = 100;
const JAMJET_PENDING = 60_000;

const WRITES = ["append", "enqueue", "claim_complete"];
const READS = ["list_executions", "list_items", "list_events", "materialize_at", "materialize"];

/** How many operations a turn has: enough of those that write for a checkpoint of the WAL to be among them. */
const iterations = (work, synchronous) => (READS.includes(work) ? 100 : synchronous === "full" ? 150 : 250);

/**
 * Measures, and answers `{records, targets}`. Within a round, each engine has several turns, of which the median counts. A record is of one
 * engine: microseconds an operation, median, least and most of the rounds. A ratio is the median of the rounds' own ratios: what disturbs
 * a round disturbs both sides of it.
 */
export async function native({ rounds = 5, say = print, quick = false } = {}) {
  const large = quick ? 100_000 : 1_000_000;
  const turns = quick ? 2 : 8;
  if (quick) rounds = Math.min(rounds, 3);
  const peer = join("benches", "peers", "jamjet", "Cargo.toml");
  const peerTarget = join(targetDir, "peers", "jamjet");
  say("building (the first time takes minutes) …");
  await mustRun("cargo", ["build", "--locked", "--release", "--example", "native-bench"], { log: "native-bench", deadlineMs: 1_800_000 });
  await mustRun("cargo", ["build", "--locked", "--release", "--manifest-path", peer, "--target-dir", peerTarget], {
    log: "native-peers",
    deadlineMs: 1_800_000,
  });

  const folder = mkdtempSync(join(tmpdir(), "runkeep-bench-"));
  const own = start(join(targetDir, "release", "examples", "native-bench"), folder);
  const jamjet = start(join(peerTarget, "release", "jamjet-bench"), folder);
  const programs = { runkeep: own, floor: own, jamjet };
  const removeFolder = () => rmSync(folder, { recursive: true, force: true });
  process.once("exit", removeFolder);
  try {
    const { verified } = await own.ask({ work: "verify" });
    say(`runkeep and the floor leave the same rows and read the same: ${verified} rows compared`);
    const cases = casesOf(large);
    // Files are made before anything is measured; the first operations only warm up.
    for (const { engines, ...request } of cases) {
      for (const engine of engines) await programs[engine].ask({ ...request, engine, iterations: 0 });
    }
    for (const { engines, ...request } of cases) {
      for (const engine of engines) await programs[engine].ask({ ...request, engine, iterations: engine === "jamjet" ? 5 : 20 });
    }
    for (let round = 0; round < rounds; round++) {
      say(`round ${round + 1} of ${rounds} …`);
      for (const { engines, times, ...request } of cases) {
        const taken = Object.fromEntries(engines.map((engine) => [engine, []]));
        for (let turn = 0; turn < turns; turn++) {
          for (let place = 0; place < engines.length; place++) {
            const engine = engines[(round + turn + place) % engines.length];
            const slow = engine === "jamjet" && request.work === "claim_complete" && request.rows > SMALL;
            const count = slow ? 10 : iterations(request.work, request.synchronous);
            taken[engine].push((await programs[engine].ask({ ...request, engine, iterations: count })).us);
          }
        }
        for (const engine of engines) times[engine].push(median(taken[engine]));
      }
    }
    return { records: recordsOf(cases), targets: targetsOf(cases, large) };
  } finally {
    await Promise.all([own.end(), jamjet.end()]);
    removeFolder();
    process.off("exit", removeFolder);
  }
}

/** What is measured: each with the engines that take turns at it, and their times. */
function casesOf(large) {
  const cases = [];
  const add = (work, rows, synchronous, engines) =>
    cases.push({ work, rows, synchronous, engines, times: Object.fromEntries(engines.map((engine) => [engine, []])) });
  for (const rows of [SMALL, large]) {
    for (const synchronous of ["normal", "full"]) {
      // JamJet's store flushes each commit, and takes no other setting.
      const besides = synchronous === "full" && rows === SMALL ? ["jamjet"] : [];
      for (const work of WRITES) add(work, rows, synchronous, ["runkeep", "floor", ...besides]);
    }
    // What reads does not flush.
    for (const work of READS) add(work, rows, "normal", ["runkeep", "floor"]);
  }
  add("claim_complete", JAMJET_PENDING, "full", ["runkeep", "jamjet"]);
  return cases;
}

const median = (numbers) => {
  const sorted = [...numbers].sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
};

const rounded = (number) => Number(number.toPrecision(4));

const recordsOf = (cases) =>
  cases.flatMap(({ work, rows, synchronous, engines, times }) =>
    engines.map((engine) => ({
      where: "native",
      work,
      rows,
      synchronous,
      engine,
      unit: "us",
      median: rounded(median(times[engine])),
      min: rounded(Math.min(...times[engine])),
      max: rounded(Math.max(...times[engine])),
      runs: times[engine].length,
    })),
  );

function targetsOf(cases, large) {
  const targets = [];
  const ratio = (times, others) => rounded(median(times.map((us, round) => us / others[round])));
  const atMost = (name, value, limit) => targets.push({ name, value, limit: `≤ ${limit}`, holds: value <= limit });
  const atLeast = (name, value, limit) => targets.push({ name, value, limit: `≥ ${limit}`, holds: value >= limit });
  for (const { work, rows, synchronous, engines, times } of cases) {
    const what = `${work}, ${rows} rows, ${synchronous}`;
    if (engines.includes("floor")) atMost(`${what}: runkeep / floor`, ratio(times.runkeep, times.floor), FLOOR_LIMIT);
    if (!engines.includes("jamjet")) continue;
    const limit = rows === JAMJET_PENDING ? JAMJET_CLAIM_LIMIT : JAMJET_LIMIT;
    atLeast(`${what}: jamjet / runkeep`, ratio(times.jamjet, times.runkeep), limit);
  }
  for (const small of cases.filter(({ rows }) => rows === SMALL)) {
    const same = ({ work, rows, synchronous }) => rows === large && work === small.work && synchronous === small.synchronous;
    const grown = cases.find(same).times.runkeep;
    atMost(`${small.work}, ${small.synchronous}: ${large} rows / ${SMALL} rows`, ratio(grown, small.times.runkeep), GROWTH_LIMIT);
  }
  return targets;
}

/** A program that answers a JSON line for each that it is sent. */
function start(program, folder) {
  // Its files lie in a folder of ours, so that they go whatever becomes of it.
  const child = spawn(program, { cwd: root, env: { ...process.env, TMPDIR: folder }, stdio: ["pipe", "pipe", "inherit"] });
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  const ended = new Promise((resolve) => child.once("close", resolve).once("error", resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  // An end of the program is seen where its answer is missing.
  child.stdin.on("error", () => {});
  return {
    async ask(request) {
      child.stdin.write(`${JSON.stringify(request)}\n`);
      const { value, done } = await lines.next();
      const answer = done ? { error: "the program has ended" } : JSON.parse(value);
      if (answer.error) throw new Failure(`${program}: ${JSON.stringify(request)}: ${answer.error}`);
      return answer;
    },
    async end() {
      child.stdin.end();
      await ended;
      process.off("exit", kill);
    },
  };
}

function table({ records, targets }) {
  const row = (cells) => cells.map((cell, at) => (at < 4 ? String(cell).padEnd([18, 9, 8, 9][at]) : String(cell).padStart(10))).join("");
  const lines = [row(["work", "rows", "sync", "engine", "median", "min", "max"])];
  for (const { work, rows, synchronous, engine, median, min, max } of records) lines.push(row([work, rows, synchronous, engine, median, min, max]));
  const width = Math.max(...targets.map(({ name }) => name.length)) + 2;
  for (const { name, value, limit, holds } of targets) lines.push(`${name.padEnd(width)}${String(value).padStart(8)}  ${limit.padEnd(8)}${holds ? "" : "MISSED"}`);
  return lines.join("\n");
}

if (isMain(import.meta.url)) {
  await main(async () => {
    const rounds = Number(process.env.RUNKEEP_ROUNDS ?? 5);
    const results = await native({ rounds, quick: process.argv.includes("--quick") });
    print(`\nmicroseconds an operation\n${table(results)}`);
    if (process.argv.includes("--json")) print(JSON.stringify(results));
  });
}
