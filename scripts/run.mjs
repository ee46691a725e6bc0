// How the scripts call other programs: output goes to a log, a failure says what a reader needs, and nothing outlives us.
import { spawn, spawnSync } from "node:child_process";
import { accessSync, closeSync, constants, mkdirSync, openSync, readdirSync, readFileSync, realpathSync, statSync, writeSync } from "node:fs";
import { delimiter, dirname, join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
export const targetDir = join(root, "target");

/** An error whose message is all there is to say: printed without a stack. */
export class Failure extends Error {
  name = "Failure";
}

/** One short line of progress. */
export function say(text) {
  console.log(text);
}

export function seconds(ms) {
  return `${Math.max(1, Math.round(ms / 1000))} s`;
}

/** The path of a program on PATH, or null. */
export function findProgram(name) {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    const path = join(folder, name);
    if (folder !== "" && isExecutable(path)) return path;
  }
  return null;
}

export function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** What a short command prints, or null when it fails. */
export function capture(command, args) {
  const result = spawnSync(command, args, { cwd: root, encoding: "utf8", env: toolEnv() });
  return result.status === 0 ? result.stdout : null;
}

// One target folder whatever the user's environment says: the scripts look for the results there. And no colours in logs.
function toolEnv(extra) {
  return { ...process.env, CARGO_TARGET_DIR: targetDir, CARGO_TERM_COLOR: "never", NO_COLOR: "1", FORCE_COLOR: undefined, ...extra };
}

const running = new Set();

/**
 * Runs a program with its output in target/logs/<log>.log. After `deadlineMs` it and all that it started are killed.
 * Answers `{ok, code, timedOut, ms, logFile, output()}`; never rejects because the program failed.
 */
export function run(command, args, { log, append = false, env, deadlineMs }) {
  const logFile = join(targetDir, "logs", `${log}.log`);
  mkdirSync(dirname(logFile), { recursive: true });
  const fd = openSync(logFile, append ? "a" : "w");
  writeSync(fd, `$ ${[command, ...args].join(" ")}\n`);
  const started = performance.now();
  return new Promise((resolve) => {
    // A group of its own, so that the deadline ends also what the program started.
    const child = spawn(command, args, { cwd: root, env: toolEnv(env), stdio: ["ignore", fd, fd], detached: true });
    running.add(child);
    let ending = null;
    const timer = setTimeout(() => (ending = endTree(child)), deadlineMs);
    const finish = async (code, problem) => {
      clearTimeout(timer);
      const timedOut = ending !== null;
      await ending;
      running.delete(child);
      if (timedOut) problem = `killed: not done within ${seconds(deadlineMs)}`;
      if (problem) writeSync(fd, `\n${problem}\n`);
      closeSync(fd);
      resolve({
        ok: code === 0 && !timedOut,
        code,
        timedOut,
        ms: performance.now() - started,
        logFile,
        output: () => readFileSync(logFile, "utf8"),
      });
    };
    child.once("error", (error) => finish(null, `cannot run ${command}: ${error.message}`));
    child.once("exit", (code, signal) => finish(code, signal && `ended by ${signal}`));
  });
}

/** As `run`, but a failure is a `Failure` that shows the end of the log. */
export async function mustRun(command, args, options) {
  const result = await run(command, args, options);
  if (!result.ok) {
    throw new Failure(`failed: ${[command, ...args].join(" ")}\n\n${tail(result.output(), 40)}\n\nThe whole log: ${relative(root, result.logFile)}`);
  }
  return result;
}

export function tail(text, lines) {
  const all = text.trimEnd().split("\n");
  return (all.length > lines ? ["…", ...all.slice(-lines)] : all).join("\n");
}

/** Every process of this machine that can be seen: `{pid, ppid, command}`. */
export function listProcesses() {
  const folders = process.platform === "linux" ? readdirSync("/proc").filter((name) => /^\d+$/.test(name)) : null;
  if (folders === null) {
    const lines = spawnSync("ps", ["-axo", "pid=,ppid=,command="], { encoding: "utf8" }).stdout.split("\n");
    return lines.flatMap((line) => {
      const match = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line);
      return match ? [{ pid: Number(match[1]), ppid: Number(match[2]), command: match[3] }] : [];
    });
  }
  return folders.flatMap((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      // The name is in parentheses and may hold any character.
      const [state, ppid] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (state === "Z") return [];
      return [{ pid: Number(pid), ppid: Number(ppid), command: readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ") }];
    } catch {
      return []; // it ended meanwhile
    }
  });
}

/** `pid` and everything below it. */
export function processTree(pid, processes = listProcesses()) {
  const children = processes.filter((process) => process.ppid === pid);
  return [pid, ...children.flatMap((child) => processTree(child.pid, processes))];
}

export function killPids(pids, signal = "SIGKILL") {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // it ended meanwhile
    }
  }
}

/** Asks all of them to end, for the sake of temporary folders, and kills who has not after five seconds. */
async function endTree(child) {
  // Taken now: who loses its parent is no longer found below it.
  const pids = processTree(child.pid);
  killPids([-child.pid], "SIGTERM");
  const deadline = performance.now() + 5000;
  const left = () => listProcesses().filter(({ pid }) => pids.includes(pid)).map(({ pid }) => pid);
  while (left().length > 0 && performance.now() < deadline) await delay(50);
  killPids([...left(), -child.pid]);
}

/** The tree as well as the group: a browser leads a group of its own. */
function treeOf(child) {
  return [...processTree(child.pid), -child.pid];
}

process.on("exit", () => {
  for (const child of running) killPids(treeOf(child));
});
for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129]]) {
  process.once(signal, () => process.exit(code));
}

/** Runs a script's main function; a `Failure` is printed plainly. */
export async function main(work) {
  try {
    await work();
  } catch (error) {
    console.error(error instanceof Failure ? `\n${error.message}` : error);
    process.exitCode = 1;
  }
}

/** Whether the module at `url` is the script that was started. */
export function isMain(url) {
  return process.argv[1] !== undefined && fileURLToPath(url) === realpathSync(process.argv[1]);
}
