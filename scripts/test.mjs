// `npm test`: sets up, builds, runs every suite (or those named) and ends with a line per suite and one with the sum.
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { build, forBrowsers } from "./build.mjs";
import { Failure, main, root, run, say, seconds, tail, targetDir } from "./run.mjs";
import { findChromium, setup } from "./setup.mjs";

const minute = 60_000;
const ci = process.env.CI ? ["--locked"] : [];
const cargoTests = ["--features", "development", ...ci];
const tsc = [process.execPath, join("node_modules", "typescript", "bin", "tsc"), "--noEmit"];

// Each answers `{passed, failed, skipped, problems: string[], notes: string[]}`. All native ones share the debug profile and the features, and clippy
// for wasm32 the build's profile: SQLite is compiled once for each.
const suites = {
  fmt: { title: "rustfmt", run: () => check("fmt", 5, { command: ["cargo", "fmt", "--check", "--", "--color", "never"] }) },
  clippy: {
    title: "clippy",
    run: () =>
      check("clippy", 20, { command: ["cargo", "clippy", "--all-targets", ...cargoTests, "--", "-D", "warnings"] }, {
        command: ["cargo", "clippy", ...forBrowsers.args, ...ci, "--", "-D", "warnings"],
        env: forBrowsers.env,
      }),
  },
  types: { title: "types", needsBuild: true, run: () => check("types", 5, { command: tsc }, { command: [...tsc, "-p", "tsconfig.worker.json"] }) },
  cargo: { title: "cargo tests", run: runCargoTests },
  js: { title: "Node tests", needsBuild: true, run: () => runNodeTests("js", { fileMinutes: 5, minutes: 15 }) },
  browser: { title: "browser tests", needsBuild: true, run: () => runNodeTests("browser", { oneByOne: true, fileMinutes: 10, minutes: 30 }) },
};
const groups = { lint: ["fmt", "clippy", "types"] };

await main(async () => {
  const started = performance.now();
  const picked = pick(process.argv.slice(2));
  const results = [];
  await setup({ browser: picked.includes("browser"), lint: true });

  let unbuilt;
  if (picked.some((name) => suites[name].needsBuild)) {
    try {
      await build();
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      unbuilt = failure("the build failed");
      say(`\n✖ build\n${error.message}`);
      results.push({ title: "build", ms: performance.now() - started, ...unbuilt });
    }
  }
  for (const name of picked) {
    const suite = suites[name];
    if (suite.needsBuild && unbuilt) {
      results.push({ title: suite.title, ms: 0, ...unbuilt });
      continue;
    }
    say(`test:  ${suite.title}`);
    const start = performance.now();
    const result = await suite.run();
    results.push({ title: suite.title, ms: performance.now() - start, ...result });
    for (const note of result.notes) say(`       ${note}`);
    if (result.failed > 0) say(`\n✖ ${suite.title}\n${result.problems.join("\n")}\n`);
  }

  say("");
  const sum = { passed: 0, failed: 0, skipped: 0 };
  for (const result of results) {
    for (const count of Object.keys(sum)) sum[count] += result[count];
    say(`${result.title.padEnd(16)}${counts(result).padEnd(40)}${seconds(result.ms).padStart(6)}`);
  }
  say(`${"all".padEnd(56)}${seconds(performance.now() - started).padStart(6)}\n`);
  say(counts(sum));
  if (sum.failed > 0) process.exitCode = 1;
});

function pick(names) {
  const known = { ...Object.fromEntries(Object.keys(suites).map((name) => [name, [name]])), ...groups };
  const unknown = names.filter((name) => !Object.hasOwn(known, name));
  if (unknown.length > 0) throw new Failure(`There is no suite ${unknown.join(", ")}; there are: ${Object.keys(known).join(", ")}.`);
  const wanted = names.length > 0 ? names.flatMap((name) => known[name]) : Object.keys(suites);
  return Object.keys(suites).filter((name) => wanted.includes(name));
}

function counts({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

function failure(problem) {
  return { passed: 0, failed: 1, skipped: 0, problems: [problem], notes: [] };
}

/** Programs of which each is one check. */
async function check(name, minutes, ...commands) {
  const result = { passed: 0, failed: 0, skipped: 0, problems: [], notes: [] };
  for (const [index, { command: [command, ...args], env }] of commands.entries()) {
    const done = await run(command, args, { log: `${name}-${index + 1}`, env, deadlineMs: minutes * minute });
    result[done.ok ? "passed" : "failed"] += 1;
    if (!done.ok) result.problems.push(tail(done.output(), 120));
  }
  return result;
}

async function runCargoTests() {
  const done = await run("cargo", ["test", "--no-fail-fast", ...cargoTests], { log: "cargo", env: { RUST_BACKTRACE: "1" }, deadlineMs: 40 * minute });
  const output = done.output();
  const sum = { passed: 0, failed: 0, skipped: 0 };
  for (const [, passed, failed, ignored] of output.matchAll(/^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored;/gm)) {
    sum.passed += Number(passed);
    sum.failed += Number(failed);
    sum.skipped += Number(ignored);
  }
  const failing = [...new Set([...output.matchAll(/^test (.+) \.\.\. FAILED$/gm)].map(([, name]) => name))];
  // What the failing tests printed stands between these two lines, once for each test program.
  const details = [...output.matchAll(/^failures:\n\n([\s\S]*?)\n\nfailures:\n/gm)].map(([, text]) => tail(text, 150));
  // A test program that crashed has no result.
  for (const [, program, text] of done.ok ? [] : output.matchAll(/^ +((?:Running|Doc-tests) .*)\n([\s\S]*?)(?=^ +(?:Running|Doc-tests) |(?![\s\S]))/gm)) {
    if (/^test result: /m.test(text)) continue;
    sum.failed += 1;
    failing.push(`${program.replace(/^Running /, "")} (crashed)`);
    details.push(tail(text, 30));
  }
  const notes = [...output.matchAll(/^test (.+) \.\.\. ignored(?:, (.*))?$/gm)].map(([, name, reason]) => skipNote(name, reason));
  return judge({ ...sum, done, failing, notes, details });
}

async function runNodeTests(folder, { oneByOne = false, fileMinutes, minutes }) {
  const path = join(root, "tests", folder);
  const files = existsSync(path) ? readdirSync(path).filter((name) => name.endsWith(".test.mjs")).sort() : [];
  if (files.length === 0) return failure(`tests/${folder} holds no *.test.mjs`);
  if (folder === "js") {
    // The Node tests compare with the native store.
    const host = await run("cargo", ["build", "--example", "conformance-host", ...cargoTests], { log: "conformance-host", deadlineMs: 20 * minute });
    if (!host.ok) return failure(tail(host.output(), 80));
  }
  const resultsFile = join(targetDir, "logs", `${folder}.results.jsonl`);
  rmSync(resultsFile, { force: true });
  const done = await run(
    process.execPath,
    [
      "--test",
      ...(oneByOne ? ["--test-concurrency=1"] : []),
      `--test-timeout=${fileMinutes * minute}`, // for a file as a whole: one that hangs is ended and named, and the others still run
      "--test-reporter=spec",
      "--test-reporter-destination=stdout",
      "--test-reporter=./scripts/results-reporter.mjs",
      `--test-reporter-destination=${resultsFile}`,
      ...files.map((file) => join("tests", folder, file)),
    ],
    { log: folder, env: { RUNKEEP_CHROMIUM: folder === "browser" ? findChromium() : undefined }, deadlineMs: minutes * minute },
  );
  const tests = existsSync(resultsFile) ? readFileSync(resultsFile, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line)) : [];
  const isEmpty = (test) => test.isFile && test.passed;
  const skipped = tests.filter((test) => test.skipped !== false);
  const failed = tests.filter((test) => test.skipped === false && (!test.passed || isEmpty(test)));
  const output = done.output();
  const summary = output.lastIndexOf("failing tests:");
  return judge({
    passed: tests.length - skipped.length - failed.length,
    failed: failed.length,
    skipped: skipped.length,
    done,
    failing: failed.map((test) => {
      if (!test.isFile) return test.name;
      const why = test.passed ? "holds no test" : test.during.length > 0 ? `ended in: ${test.during.join(" / ")}` : "did not run to its end";
      return `${relative(root, test.name)} (${why})`;
    }),
    notes: skipped.map((test) => skipNote(test.name, test.skipped)),
    details: [tail(summary < 0 ? output : output.slice(summary), 200)],
  });
}

function skipNote(name, reason) {
  return `skipped: ${name}${typeof reason === "string" && reason !== "" ? ` (${reason})` : ""}`;
}

/** A run that failed in another way than by a test, or ran no test, has failed too. */
function judge({ passed, failed, skipped, done, failing, notes, details }) {
  const problems = [...failing.map((name) => `  ${name}`), ...(failed > 0 ? details : [])];
  const otherwise =
    done.timedOut ? `not done within ${seconds(done.ms)}` : !done.ok && failed === 0 ? "ended with an error outside of the tests" : passed + failed === 0 ? "no test ran" : null;
  if (otherwise !== null) problems.push(otherwise, tail(done.output(), 80));
  if (problems.length > 0) problems.push(`The whole log: ${relative(root, done.logFile)}`);
  return { passed, failed: failed + (otherwise === null ? 0 : 1), skipped, problems, notes };
}
