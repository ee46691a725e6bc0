// The client's and the host's modules straight from their sources, for tests of what the package does not export.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { root } from "../../scripts/run.mjs";

const client = ["open", "testing", "calls", "connection", "encode", "errors", "sweeper", "subscriptions", "live", "tail"].map((name) => `client/${name}`);
const sources = [...client, "host/host", "host/owner", "host/protocol"];

const noWasm = "export const loadWasm = null, openEngine = null, unavailable = null;";
// In a file, for a data: address would be printed whole in each stack.
const folder = mkdtempSync(join(tmpdir(), "runkeep-modules-"));
const outfile = join(folder, "modules.mjs");
process.once("exit", () => rmSync(folder, { recursive: true }));
await build({
  stdin: { contents: sources.map((source) => `export * from "./www/${source}.ts";`).join("\n"), resolveDir: root },
  outfile,
  bundle: true,
  format: "esm",
  target: "es2022",
  platform: "neutral",
  define: { RUNKEEP_VERSION: '"0.0.0"' },
  plugins: [{ name: "no-wasm", setup: ({ onLoad }) => onLoad({ filter: /host\/boot\.ts$/ }, () => ({ contents: noWasm })) }],
});
const url = pathToFileURL(outfile).href;

export const modules = await import(url);
/** The same again, as another copy of the package would be. */
export const secondCopy = () => import(`${url}?copy`);

/** A transport that keeps what it is sent and answers `respond(operation, args, nowMs)`; an ErrorData `{error}` is passed on as it is. */
export function fakeTransport(respond = () => null) {
  const transport = {
    messages: [],
    closed: 0,
    ended: undefined,
    async send({ calls, nowMs, deadlines }) {
      const message = { nowMs, deadlines, calls: [] };
      for (let index = 0; index < calls.length; index += 2) message.calls.push([calls[index], JSON.parse(calls[index + 1])]);
      transport.messages.push(message);
      const answers = await Promise.all(message.calls.map(([operation, args]) => respond(operation, args, nowMs)));
      return answers.map((answer) => JSON.stringify(answer?.error ? answer : { ok: answer }));
    },
    async close() {
      transport.closed++;
    },
  };
  return transport;
}

/** All calls that reached the transport, without regard to messages. */
export const callsOf = (transport) => transport.messages.flatMap(({ calls }) => calls);

/** Lets all promises that can go on go on. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));

export const failsWith = (code, message) => (error) => {
  if (!modules.isRunkeepError(error, code)) throw new Error(`expected a RunkeepError ${code}, got ${error?.code}: ${error?.stack ?? error}`);
  const asExpected = message === undefined || (message instanceof RegExp ? message.test(error.message) : error.message === message);
  if (!asExpected) throw new Error(`unexpected message: ${error.message}`);
  return true;
};
