// The dedicated worker of one store: boots the engine, then hands messages to the host.
import { isErrorData, loadWasm, openEngine, toErrorData, unavailable } from "./boot.js";
import { Host } from "./host.js";
import { sharedNow, type Answer, type BootOptions, type FromHost, type HostInfo, type ToHost } from "./protocol.js";

const longestHandleWaitMs = 10_000;

let host: Host;
let releaseStorage = () => {};
/** How to end the waits of claims, by the number of their message. */
const withdrawals = new Map<number, () => void>();

self.onmessage = ({ data }: MessageEvent<ToHost>) => {
  if (data.type === "boot") {
    boot(data.options, data.alive).then(
      (info) => post({ type: "ready", info }),
      (error) => post({ type: "failed", error: toErrorData(error) }),
    );
  } else if (data.type === "calls") {
    const { id, calls, nowMs, deadlines, waitMs, bytes } = data;
    const answer = (answers: Answer[]) => {
      withdrawals.delete(id);
      post({ type: "answers", id, answers });
    };
    // An answer is given later, except by a host that refuses; then there is nothing to withdraw.
    const withdraw = host.submit(calls, nowMs, deadlines, answer, waitMs, bytes);
    if (waitMs !== undefined) withdrawals.set(id, withdraw);
  } else if (data.type === "withdraw") {
    withdrawals.get(data.id)?.();
  } else {
    host.close();
    releaseStorage();
    end();
  }
};

function end(): void {
  post({ type: "closed" });
  self.close();
}

async function boot(options: BootOptions, alive: string): Promise<HostInfo> {
  const { name, wasmUrl } = options;
  if (navigator.locks) await holdLock(alive);
  post({ type: "waiting", reason: "its WebAssembly is still loading" });
  const missing = options.storage === "memory" ? undefined : await missingOpfs();
  if (missing !== undefined && options.storage === "opfs") {
    throw unavailable(`There is no storage "opfs" here: ${missing}. Memory is what storage "auto" would take.`);
  }
  const storage = options.storage === "memory" || missing !== undefined ? "memory" : "opfs";

  await loadWasm(wasmUrl);
  if (storage === "opfs" && navigator.locks) {
    post({ type: "waiting", reason: "another tab or worker of this origin has it open; close that one, then try again" });
    releaseStorage = await holdLock(`runkeep:${name}`);
  }
  const { engine, info } = await openWhenFree({ ...options, storage });
  host = new Host(engine, afterQueuedMessages(), (reason) => {
    post({ type: "crashed", reason });
    // After the answers that follow.
    queueMicrotask(end);
  });
  return missing === undefined ? info : { ...info, storageReason: missing };
}

/** A worker that has just ended may keep its file handles a little longer than its lock. */
async function openWhenFree(options: BootOptions): ReturnType<typeof openEngine> {
  const giveUpAt = sharedNow() + longestHandleWaitMs;
  for (let pauseMs = 10; ; pauseMs = Math.min(pauseMs * 2, 500)) {
    try {
      return await openEngine(options);
    } catch (error) {
      const inUse = options.storage === "opfs" && isErrorData(error) && error.code === "storage_unavailable";
      if (!inUse || sharedNow() > giveUpAt) throw error;
      post({ type: "waiting", reason: error.message });
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/** Why this browser has no OPFS for us; undefined when it has. Being in use by someone is no reason. */
async function missingOpfs(): Promise<string | undefined> {
  if (!self.isSecureContext) return "the page is not a secure context (https: or localhost)";
  if (!navigator.storage?.getDirectory || !FileSystemFileHandle.prototype.createSyncAccessHandle) {
    return "this browser has no origin private file system with synchronous access";
  }
  try {
    await navigator.storage.getDirectory();
  } catch (error) {
    if (error instanceof DOMException && error.name === "SecurityError") return `the browser refuses it, as in private windows (${error.message})`;
  }
  return undefined;
}

/** Resolves, once the lock is held, to the function that releases it. */
function holdLock(name: string): Promise<() => void> {
  return new Promise((resolve, reject) => {
    navigator.locks.request(name, () => new Promise<void>((release) => resolve(release))).catch(reject);
  });
}

/** A message to ourselves queues behind those that have already arrived; a timer would be throttled. */
function afterQueuedMessages(): (task: () => void) => void {
  const { port1, port2 } = new MessageChannel();
  let next: () => void;
  port1.onmessage = () => next();
  return (task) => {
    next = task;
    port2.postMessage(null);
  };
}

function post(message: FromHost): void {
  self.postMessage(message);
}
