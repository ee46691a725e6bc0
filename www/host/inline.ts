// The host in the caller's own thread, where there are no browser workers: Node, Deno, Bun, servers. Memory storage only.
import { loadWasm, openEngine, unavailable } from "./boot.js";
import { Host } from "./host.js";
import type { BootOptions, Transport } from "./protocol.js";

// Taken before anybody replaces it with a fake clock, under which the store would stand still.
const schedule: (task: () => void) => void = globalThis.setImmediate ?? ((task) => setTimeout(task, 0));

export async function startInline(options: BootOptions): Promise<Transport> {
  if (options.storage === "opfs") {
    throw unavailable('There is no storage "opfs" here: it needs a browser page, or a worker that can start workers; use storage "memory".');
  }
  await loadWasm(options.wasmUrl);
  const { engine, info } = await openEngine({ ...options, storage: "memory" });
  let ended: string | undefined;
  const host = new Host(engine, schedule, (reason) => (ended = reason));
  return {
    info: options.storage === "auto" ? { ...info, storageReason: "there is no OPFS outside browsers" } : info,
    get ended() {
      return ended;
    },
    send: (calls, nowMs, deadlines, wait, bytes) =>
      new Promise((resolve) => {
        const withdraw = host.submit(calls, nowMs, deadlines, resolve, wait?.ms, bytes);
        wait?.signal?.addEventListener("abort", withdraw);
      }),
    close: async () => host.close(),
  };
}
