// The worker of one store in one page: it stands by until nobody else has the store open, opens it then, and serves it to all of the origin. As a
// shared worker, the same script hands ports from page to page. Elsewhere it does nothing by itself, and is imported for its parts.
import { isErrorData, loadWasm, openEngine, toErrorData, unavailable } from "./boot.js";
import { Host } from "./host.js";
import { Owner, type Link } from "./owner.js";
import {
  aliveLock,
  clientChannel,
  clientLock,
  holdLock,
  sharedNow,
  storeChannel,
  storeLock,
  type BootOptions,
  type Broadcast,
  type ErrorData,
  type FromOwner,
  type FromWorker,
  type ToBroker,
  type ToOwner,
  type ToWorker,
} from "./protocol.js";

// For the host outside browsers, inline.ts.
export { loadWasm, openEngine, unavailable } from "./boot.js";
export { ChangeFeed } from "./changes.js";
export { Host } from "./host.js";

const longestHandleWaitMs = 10_000;
/** How long the worker that shall take the store over may take to take its lock. */
const takeOverMs = 300;
/** How often it is looked whether the files are still there. */
const lookMs = 2_000;
const forgetMs = 10 * 60_000;

// It may be a worker of somebody else's program that has imported this script, whose messages are its own.
if ("SharedWorkerGlobalScope" in globalThis) {
  if (self.name === "runkeep") broker();
} else if ("DedicatedWorkerGlobalScope" in globalThis) {
  stand();
}

/** Pages cannot hand ports to each other's workers by themselves. */
function broker(): void {
  const owners = new Map<string, MessagePort>();
  const waiting = new Map<string, MessagePort[]>();
  const handOver = (page: MessagePort, port: MessagePort) => page.postMessage({ type: "visitor" }, [port]);
  (self as unknown as SharedWorkerGlobalScope).onconnect = ({ ports: [page] }) => {
    page!.onmessage = ({ data: { type, owner }, ports: [port] }: MessageEvent<ToBroker>) => {
      if (type === "own") {
        owners.set(owner, page!);
        for (const visitor of waiting.get(owner) ?? []) handOver(page!, visitor);
        waiting.delete(owner);
      } else if (owners.has(owner)) {
        handOver(owners.get(owner)!, port!);
      } else {
        waiting.set(owner, [...(waiting.get(owner) ?? []), port!]);
      }
    };
  };
}

function stand(): void {
  /** Empty until it is told to boot. */
  let id = "";
  let options: BootOptions;
  let channel: BroadcastChannel | undefined;
  /** The newest epoch that was heard of. */
  let heard = 0;
  let epoch = 0;
  /** While this worker has the store open. */
  let owning: { host: Host; owner: Owner; receive: (message: ToOwner) => void; release: () => void; timer: ReturnType<typeof setInterval> } | undefined;
  let isLost = false;
  /** Takes the lock from an owner that gives it away. */
  let steal = () => {};

  const announce = () => owning && !isLost && channel?.postMessage({ type: "owner", owner: id, epoch } satisfies Broadcast);

  self.addEventListener("message", ({ data, ports: [port] }: MessageEvent<ToWorker | ToOwner>) => {
    if (id === "" && !(data?.type === "boot" && data.id)) return;
    switch (data.type) {
      case "boot":
        ({ id, options } = data);
        boot().catch((error) => post({ type: "failed", error: toErrorData(error) }));
        break;
      case "visitor":
        if (owning) serve(port!);
        else port!.postMessage({ type: "leaving", reason: "another tab has taken the store over" } satisfies FromOwner);
        break;
      case "steal":
        steal();
        break;
      case "close":
        end("the page that had it open has closed it", () => owning?.host.close());
        break;
      default:
        owning?.receive(data);
    }
  });

  async function boot(): Promise<void> {
    const { name, wasmUrl } = options;
    // While it loads, what can be done without it is done. Where it fails, that is told below.
    const loading = loadWasm(wasmUrl);
    loading.catch(() => {});
    if (navigator.locks) await holdLock(aliveLock(id));
    post({ type: "waiting", reason: "its WebAssembly is still loading" });
    const missing = options.storage === "memory" ? undefined : await missingOpfs();
    if (missing !== undefined && options.storage === "opfs") {
      throw unavailable(`There is no storage "opfs" here: ${missing}. Memory is what storage "auto" would take.`);
    }
    await loading;
    if (options.storage === "memory" || missing !== undefined) {
      await own({ ...options, storage: "memory" }, () => {}, missing);
      return;
    }
    channel = new BroadcastChannel(storeChannel(name));
    channel.onmessage = ({ data }: MessageEvent<Broadcast>) => {
      if (data.type === "who") announce();
      else if (data.type === "owner") heard = Math.max(heard, data.epoch);
      else if (owning && data.owner === id) visit(data.hello);
    };
    await take();
  }

  /** Stands by until the store's lock is there, and opens the store then. */
  async function take(): Promise<void> {
    post({ type: "standby" });
    post({ type: "waiting", reason: "another tab has it open, and does not answer: it may be frozen, or in a debugger" });
    const queue = new AbortController();
    const onLost = () => giveUp("another tab has taken the store over");
    const release = await new Promise<() => void>((resolve, reject) => {
      steal = () => {
        queue.abort();
        holdLock(storeLock(options.name), { steal: true }, onLost).then(resolve, reject);
      };
      holdLock(storeLock(options.name), { signal: queue.signal }, onLost).then(resolve, (error) => queue.signal.aborted || reject(error));
    });
    steal = () => {};
    try {
      await own({ ...options, storage: "opfs" }, release);
    } catch (error) {
      release();
      throw error;
    }
  }

  async function own(how: BootOptions, release: () => void, storageReason?: string): Promise<void> {
    const { engine, info } = await openWhenFree(how);
    const { directory, ...told } = info;
    const host = new Host(engine, { schedule: afterQueuedMessages(), onCrash, onChange: (changes) => owner.tell(changes) });
    const owner = new Owner(host, { ...told, ...(storageReason !== undefined && { storageReason }) }, handOver);
    const timer = setInterval(() => look(directory), lookMs);
    owning = { host, owner, receive: owner.connect({ post }, true), release, timer };
    epoch = Math.max(sharedNow(), heard + 1);
    announce();
    post({ type: "owning", epoch });
  }

  function serve(port: MessagePort): void {
    const receive = owning!.owner.connect({ post: (message) => port.postMessage(message), close: () => port.close() });
    port.onmessage = ({ data }) => receive(data);
  }

  /** A client that has no port. */
  function visit(hello: ToOwner & { type: "hello" }): void {
    const line = new BroadcastChannel(clientChannel(id, hello.client));
    const link: Link = { post: (message) => line.postMessage(message), close: () => line.close() };
    const receive = owning!.owner.connect(link);
    line.onmessage = ({ data }) => receive(data);
    receive(hello);
  }

  /** What a client that is not there may still ask again is forgotten by and by. */
  let forgottenAt = -Infinity;
  async function forgetClients(): Promise<void> {
    if (!navigator.locks || sharedNow() - forgottenAt < forgetMs) return;
    forgottenAt = sharedNow();
    const prefix = clientLock("");
    const { held = [] } = await navigator.locks.query();
    const alive = held.flatMap(({ name }) => (name?.startsWith(prefix) ? [name.slice(prefix.length)] : []));
    owning?.host.forgetClients(alive);
  }

  /** Site data can be cleared under an open store, which then writes into files that nobody will find again. */
  async function look(directory: string | undefined): Promise<void> {
    forgetClients();
    if (directory === undefined) return;
    try {
      let folder = await navigator.storage.getDirectory();
      for (const part of directory.split("/")) folder = await folder.getDirectoryHandle(part);
    } catch (problem) {
      if (!(problem instanceof DOMException && problem.name === "NotFoundError")) return;
      const message = `The data of the store ${JSON.stringify(options.name)} was removed while it was open, as by clearing the site's data. Reload the page.`;
      if (isLost) return;
      isLost = true;
      owning?.owner.lose({ code: "storage_lost", message, retryable: false } satisfies ErrorData);
      // The other pages stop standing by meanwhile: none of them shall go on with an empty store. The database is not closed, for that may block
      // for ever on files that are gone.
      setTimeout(() => end("its files are gone"), takeOverMs);
    }
  }

  /** Gives the store to the worker of that client, or to the next in line. */
  async function handOver(to: string): Promise<void> {
    if (!owning) return;
    const { owner, release } = owning;
    const given = to === "" ? undefined : { type: "takeOver" as const };
    giveUp("another tab has taken the store over", () => given && owner.post(to, given));
    // Stealing ends our hold by itself.
    if (given) await new Promise((resolve) => setTimeout(resolve, takeOverMs));
    release();
  }

  /** Has the store no longer, and stands by again. */
  function giveUp(reason: string, before = () => {}): void {
    if (!owning) return;
    const { host, owner, timer } = owning;
    owning = undefined;
    clearInterval(timer);
    host.leave();
    before();
    owner.leave(reason);
    post({ type: "disowned" });
    take().catch((error) => post({ type: "failed", error: toErrorData(error) }));
  }

  function onCrash(reason: string): void {
    owning?.host.leave();
    // After the answers that follow.
    queueMicrotask(() => end(`its engine crashed: ${reason}`));
  }

  function end(reason: string, before = () => {}): void {
    try {
      before();
    } catch {
      // Whoever opens the store next recovers it.
    }
    owning?.owner.leave(reason);
    owning?.release();
    channel?.close();
    post({ type: "closed", reason });
    self.close();
  }

  /** A worker that has just ended may keep its file handles a little longer than its lock. */
  async function openWhenFree(how: BootOptions): ReturnType<typeof openEngine> {
    const giveUpAt = sharedNow() + longestHandleWaitMs;
    for (let pauseMs = 5; ; pauseMs = Math.min(pauseMs * 2, 500)) {
      try {
        return await openEngine(how);
      } catch (error) {
        const inUse = how.storage === "opfs" && isErrorData(error) && error.code === "storage_unavailable";
        if (!inUse || sharedNow() > giveUpAt) throw error;
        post({ type: "waiting", reason: error.message });
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

/** Why this browser has no OPFS for us; undefined when it has. Being in use by someone is no reason. */
async function missingOpfs(): Promise<string | undefined> {
  if (!self.isSecureContext) return "the page is not a secure context (https: or localhost)";
  if (!navigator.storage?.getDirectory || !FileSystemFileHandle.prototype.createSyncAccessHandle) {
    return "this browser has no origin private file system with synchronous access";
  }
  if (!navigator.locks) return "this browser has no Web Locks";
  try {
    await navigator.storage.getDirectory();
  } catch (error) {
    if (error instanceof DOMException && error.name === "SecurityError") return `the browser refuses it, as in private windows (${error.message})`;
  }
  return undefined;
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

function post(message: FromWorker | FromOwner): void {
  self.postMessage(message);
}
