// The host in the caller's own thread, where there are no browser workers: Node, Deno, Bun, servers. Memory storage only.
import { loadWasm, openEngine, unavailable } from "./boot.js";
import { ChangeFeed } from "./changes.js";
import { Host } from "./host.js";
import type { BootOptions, Transport } from "./protocol.js";

// Taken before anybody replaces it with a fake clock, under which the store would stand still.
const { setImmediate } = globalThis as { setImmediate?: (task: () => void) => void };
const schedule = setImmediate ?? ((task: () => void) => void setTimeout(task, 0));

export async function startInline(options: BootOptions): Promise<Transport> {
  // A shared worker is part of a browser, whose data it would not see in memory.
  if (options.storage === "opfs" || (options.storage === "auto" && "WorkerGlobalScope" in globalThis)) {
    throw unavailable('There is no storage "opfs" here: it needs a page, or a worker that can start workers, which shared workers cannot; otherwise use storage "memory".');
  }
  await loadWasm(options.wasmUrl);
  const { engine, info } = await openEngine({ ...options, storage: "memory" });
  let ended: string | undefined;
  let feed: ChangeFeed | undefined;
  const host = new Host(engine, { schedule, onCrash: (reason) => (ended = reason), onChange: (changes) => feed?.add(changes) });
  return {
    info: { ...info, owner: true, ...(options.storage === "auto" && { storageReason: "there is no OPFS outside browsers" }) },
    get ended() {
      return ended;
    },
    send: (message, wait) =>
      new Promise((resolve) => {
        const withdraw = host.submit({ ...message, waitMs: wait?.ms }, resolve);
        wait?.signal?.addEventListener("abort", withdraw);
      }),
    tick: (intervalMs, nowMs) => host.tick(intervalMs, nowMs),
    listen(onChange) {
      feed?.stop();
      const own = (feed =
        onChange &&
        new ChangeFeed((changes) => {
          onChange(changes);
          own!.seen();
        }));
    },
    close: async () => {
      feed?.stop();
      host.close();
    },
  };
}
