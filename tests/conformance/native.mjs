// The native store as a place: a process of the example conformance-host for each store. For Node only.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import * as runkeep from "../../dist/index.js";
import * as testing from "../../dist/testing.js";
import { root, targetDir } from "../../scripts/run.mjs";
import { readAnswer } from "./run.mjs";

const program = join(targetDir, "debug", "examples", "conformance-host");

export function nativePlace() {
  if (!existsSync(program)) throw new Error(`${program} is missing: run \`cargo build --example conformance-host\``);
  const transports = new Map();
  const open = ({ clock, name }) => {
    if (!transports.has(name)) transports.set(name, startHost(() => transports.delete(name)));
    return testing.openTestStore({ clock, name, transport: transports.get(name) });
  };
  return {
    runkeep,
    testing,
    durable: false,
    open,
    async openRaw({ clock, name }) {
      const store = await open({ clock, name });
      const transport = transports.get(name);
      return { store, call: async (operation, text) => readAnswer((await transport.send({ calls: [operation, text], nowMs: clock.now() }))[0]) };
    },
  };
}

function startHost(onClose) {
  const child = spawn(program, { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
  const waiting = [];
  let ended;
  const finished = new Promise((resolve) => {
    const end = (reason) => {
      ended ??= reason;
      for (const { reject } of waiting.splice(0)) reject(new Error(ended));
      resolve();
    };
    child.once("error", (error) => end(`conformance-host cannot be started: ${error.message}`));
    child.once("close", (code, signal) => end(`conformance-host ended (${signal ?? code})`));
  });
  // What is written to a process that has just ended; `close` tells why it ended.
  child.stdin.on("error", () => {});
  onLines(child.stdout, (line) => waiting.shift().resolve(JSON.parse(line).answers));
  return {
    // Tells the client that a host that ended has taken the store along.
    info: { storage: "memory" },
    get ended() {
      return ended;
    },
    async send({ calls, nowMs, bytes }) {
      const answers = await new Promise((resolve, reject) => {
        if (ended !== undefined) return reject(new Error(ended));
        waiting.push({ resolve, reject });
        const hex = bytes?.map((some) => some && Buffer.from(some).toString("hex"));
        child.stdin.write(`${JSON.stringify({ calls, nowMs, ...(hex && { bytes: hex.map((text) => text ?? null) }) })}\n`);
      });
      return answers.map((answer) => (typeof answer === "string" ? answer : { text: answer.text, bytes: new Uint8Array(Buffer.from(answer.bytes, "hex")) }));
    },
    async close() {
      onClose();
      child.stdin.end();
      await finished;
    },
  };
}

/** Not readline: it also ends lines at U+2028, which JSON text may hold. */
function onLines(stream, take) {
  let parts = [];
  stream.on("data", (chunk) => {
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      take(Buffer.concat([...parts, chunk.subarray(from, end)]).toString());
      parts = [];
      from = end + 1;
    }
    parts.push(chunk.subarray(from));
  });
}
