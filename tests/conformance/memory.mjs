// The store in WebAssembly, in memory, as a place in Node.
import { readFile } from "node:fs/promises";
import * as runkeep from "../../dist/index.js";
import * as testing from "../../dist/testing.js";
import init, { Engine } from "../../target/wasm/runkeep.js";
import { readAnswer } from "./run.mjs";

export function memoryPlace() {
  return {
    runkeep,
    testing,
    durable: false,
    open: ({ clock, name }) => testing.openTestStore({ clock, name }),
    // The package lets nobody past its client: an engine of our own.
    async openRaw({ clock, name }) {
      await init({ module_or_path: readFile(new URL("../../dist/runkeep.wasm", import.meta.url)) });
      const engine = await Engine.open({ name, storage: "memory", nowMs: clock.now() });
      const transport = {
        info: engine.info(),
        send: async ({ calls, nowMs, bytes }) => engine.run({ calls, nowMs, bytes }).answers,
        close: async () => engine.close(),
      };
      const store = await testing.openTestStore({ clock, name, transport });
      return { store, call: async (operation, text) => readAnswer(engine.run({ calls: [operation, text], nowMs: clock.now() }).answers[0]) };
    },
  };
}
