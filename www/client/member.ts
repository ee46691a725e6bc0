// A page among those that have a store open: it finds whoever owns the store, or has its own worker be the owner.
import {
  aliveLock,
  clientChannel,
  clientLock,
  holdLock,
  sharedNow,
  storeChannel,
  type Answer,
  type BootOptions,
  type Broadcast,
  type Calls,
  type Change,
  type FromOwner,
  type FromWorker,
  type HostInfo,
  type ToOwner,
  type Transport,
  type Wait,
} from "../host/protocol.js";
import { RunkeepError, toRunkeepError } from "./errors.js";
import { OwnWorker } from "./worker.js";

declare const RUNKEEP_VERSION: string;

/** How long a port may take to reach the owner before a channel is taken. */
const portMs = 250;
/** How long a page without a worker of its own waits for somebody else's before it gives up. */
const graceMs = 300;
const askMs = 500;
/** When a page whose own worker could not start tries to stand by again. */
const standbyRetryMs = 5_000;
const closeTimeoutMs = 10_000;

export interface MemberOptions {
  /** The same over all the ways that a page goes: it tells its calls from others'. */
  clientId: string;
  boot: BootOptions;
  bootTimeoutMs: number;
  workerUrl?: string | undefined;
  onVersionChange: (message: string) => void;
  onLost: (error: RunkeepError) => void;
}

interface OwnerSeen {
  id: string;
  epoch: number;
}

export class Member {
  readonly #options: MemberOptions;
  readonly #ends = new AbortController();
  readonly #gone = new Set<string>();
  #worker: OwnWorker | undefined;
  #ready = false;
  #channel: BroadcastChannel | undefined;
  #broker: MessagePort | undefined;
  #releaseLife = () => {};
  #joined: Promise<void> | undefined;
  #owner: OwnerSeen | undefined;
  #route: Route | undefined;
  #attempts = 0;
  #failure: RunkeepError | undefined;
  /** Who waits for a route. */
  #pending: { resolve: (route: Route) => void; reject: (error: unknown) => void } | undefined;

  constructor(options: MemberOptions) {
    this.#options = options;
  }

  get isClosed(): boolean {
    return this.#ends.signal.aborted;
  }

  /** Resolves to the way to whoever has the store open. */
  async connect(signal: AbortSignal): Promise<Transport> {
    const { boot, bootTimeoutMs } = this.#options;
    const failed = (reason: string) => new RunkeepError("storage_unavailable", `The store ${JSON.stringify(boot.name)} could not be opened ${reason}.`);
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asking: ReturnType<typeof setInterval> | undefined;
    const onAbort = () => this.#pending?.reject(failed("before it was closed"));
    try {
      return await new Promise<Route>((resolve, reject) => {
        this.#pending = { resolve, reject };
        timer = setTimeout(() => reject(failed(`within ${bootTimeoutMs} ms: ${this.#worker?.waitingFor ?? "its worker has ended"}`)), bootTimeoutMs);
        signal.addEventListener("abort", onAbort);
        if (signal.aborted) return onAbort();
        this.#failure = undefined;
        // Whoever refused this page, or did not answer, is asked again.
        if (this.#route?.ended !== undefined) this.#owner = undefined;
        this.#joined ??= this.#join();
        this.#joined.then(() => {
          if (this.isClosed) return;
          this.#startWorker();
          this.#broadcast({ type: "who" });
          if (this.#route?.ended === undefined && this.#route?.info) resolve(this.#route);
        }, reject);
        // What is said while nobody listens is lost.
        asking = setInterval(() => this.#broadcast({ type: "who" }), askMs);
      });
    } catch (error) {
      // A member without a store must not stand in anybody's way.
      this.#end("it could not be opened");
      throw error;
    } finally {
      this.#pending = undefined;
      clearTimeout(timer);
      clearInterval(asking);
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Answers what was sent, and leaves. */
  async close(): Promise<void> {
    if (this.isClosed) return;
    const route = this.#route;
    if (route?.ended === undefined) await route?.settled(closeTimeoutMs);
    route?.post({ type: "goodbye" });
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.close();
    this.#end("it was closed");
  }

  /** Leaves at once, with nothing held: the browser keeps the page for its back button. */
  suspend(): void {
    this.#route?.post({ type: "goodbye" });
    this.#end("the page was put aside by the browser");
  }

  async #join(): Promise<void> {
    const { boot, clientId } = this.#options;
    const { signal } = this.#ends;
    if (navigator.locks) this.#releaseLife = await holdLock(clientLock(clientId), { signal });
    if (signal.aborted) return this.#releaseLife();
    if (boot.storage !== "memory" && typeof BroadcastChannel === "function") {
      this.#channel = new BroadcastChannel(storeChannel(boot.name));
      this.#channel.onmessage = ({ data }: MessageEvent<Broadcast>) => data.type === "owner" && this.#found({ id: data.owner, epoch: data.epoch });
    }
    if (typeof document === "undefined") return;
    const tell = () => this.#tellState();
    document.addEventListener("visibilitychange", tell, { signal });
    document.addEventListener("freeze", () => this.#tellState(true), { signal });
    document.addEventListener("resume", tell, { signal });
  }

  #tellState(isFrozen = false): void {
    this.#route?.post({ type: "state", visible: !isFrozen && isVisible(), ready: this.#ready, leaving: isFrozen });
  }

  #broadcast(message: Broadcast): void {
    this.#channel?.postMessage(message);
  }

  #startWorker(): void {
    if (this.#worker || this.isClosed) return;
    const { boot, workerUrl } = this.#options;
    this.#ready = false;
    let hasStarted = false;
    try {
      const worker: OwnWorker = new OwnWorker(
        workerUrl,
        (message) => {
          hasStarted ||= message.type === "standby" || message.type === "owning";
          this.#hear(worker, message);
        },
        (reason, error) => {
          if (this.#worker !== worker) return;
          this.#worker = undefined;
          this.#ready = false;
          const isLost = this.#route?.info?.storage === "memory";
          this.#ended(worker.id, `the store's worker ended: ${reason}`);
          // With it went the data.
          if (isLost) this.#end(reason);
          else if (hasStarted) this.#startWorker();
          else this.#fail(error ?? new RunkeepError("storage_unavailable", `The store's worker ended while it was starting: ${reason}.`));
        },
      );
      this.#worker = worker;
      worker.boot(boot);
    } catch (error) {
      this.#fail(toRunkeepError(error));
    }
  }

  #hear(worker: OwnWorker, message: FromWorker | FromOwner): void {
    switch (message.type) {
      case "standby":
        this.#ready = true;
        this.#tellState();
        break;
      case "owning":
        this.#ready = false;
        this.#callBroker()?.postMessage({ type: "own", owner: worker.id });
        this.#found({ id: worker.id, epoch: message.epoch });
        break;
      case "disowned":
        this.#ended(worker.id, "another tab has taken the store over", false);
        break;
      case "failed":
        this.#fail(toRunkeepError(message.error));
        break;
      default:
        if (this.#owner?.id === worker.id) this.#route?.receive(message as FromOwner);
    }
  }

  /** The own worker cannot have the store. Somebody else's still may. */
  #fail(error: RunkeepError): void {
    this.#failure = error;
    const worker = this.#worker;
    this.#worker = undefined;
    worker?.end(error.message);
    setTimeout(() => {
      if (this.#failure !== error) return;
      if (this.#route === undefined || this.#route.ended !== undefined) this.#pending?.reject(error);
      // Somebody else's serves. To stand by is worth another try, later.
      else setTimeout(() => this.#startWorker(), standbyRetryMs);
    }, graceMs);
  }

  #found(owner: OwnerSeen): void {
    if (this.isClosed || this.#gone.has(owner.id)) return;
    // One that has given the store away may have got it again.
    if (this.#owner && owner.epoch <= this.#owner.epoch && (owner.id === this.#owner.id || this.#route?.ended === undefined)) return;
    this.#route?.end("another tab has taken the store over");
    this.#owner = owner;
    const isOwn = owner.id === this.#worker?.id;
    const route = new Route({
      repeats: this.#options.boot.storage !== "memory",
      close: () => this.close(),
      suspend: () => this.suspend(),
      onWelcome: () => this.#route === route && this.#pending?.resolve(route),
      onRefused: (error) => {
        this.#options.onVersionChange(error.message);
        this.#pending?.reject(error);
      },
      onTakeOver: () => this.#worker?.post({ type: "steal" }),
      onVersionChange: this.#options.onVersionChange,
      onLost: (error) => {
        this.#options.onLost(error);
        // The owner's worker ends by itself, when no other page stands by any more to go on with an empty store.
        if (isOwn) this.#worker = undefined;
        this.#end(error.message);
      },
    });
    this.#route = route;
    if (isOwn) {
      const worker = this.#worker!;
      route.use({ post: (message) => worker.post(message) });
      route.post(this.#hello());
    } else {
      const watch = () => this.#ended(owner.id, "the tab that had the store open is gone");
      navigator.locks.request(aliveLock(owner.id), { signal: this.#ends.signal }, watch).catch(() => {});
      void this.#reach(owner, route);
    }
  }

  /** `forGood` unless that worker may own the store again. */
  #ended(id: string, reason: string, forGood = true): void {
    if (forGood) this.#gone.add(id);
    if (this.#owner?.id !== id) return;
    this.#owner = undefined;
    this.#route?.end(reason);
    this.#broadcast({ type: "who" });
  }

  async #reach(owner: OwnerSeen, route: Route): Promise<void> {
    const broker = this.#callBroker();
    if (broker) {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = ({ data }) => route.receive(data);
      route.use({ post: (message) => port1.postMessage(message), close: () => port1.close() });
      broker.postMessage({ type: "reach", owner: owner.id }, [port2]);
      route.post(this.#hello());
      if (await route.isAnswered(portMs)) return;
      port1.close();
    }
    if (route.ended !== undefined || this.isClosed) return;
    const line = new BroadcastChannel(clientChannel(owner.id, this.#options.clientId));
    line.onmessage = ({ data }) => route.receive(data);
    route.use({ post: (message) => line.postMessage(message), close: () => line.close() });
    this.#broadcast({ type: "visit", owner: owner.id, hello: this.#hello() });
  }

  /** The shared worker that hands ports from page to page; none where the browser has none. */
  #callBroker(): MessagePort | undefined {
    if (this.#broker || typeof SharedWorker !== "function" || !this.#channel) return this.#broker;
    const { workerUrl } = this.#options;
    try {
      const shared =
        workerUrl === undefined
          ? new SharedWorker(new URL("./worker.js", import.meta.url), { type: "module", name: "runkeep" })
          : new SharedWorker(workerUrl, { type: "module", name: "runkeep" });
      // Then the channels serve.
      shared.onerror = (event) => event.preventDefault();
      this.#broker = shared.port;
      this.#broker.onmessage = ({ ports: [port] }) => port && this.#worker?.post({ type: "visitor" }, [port]);
    } catch {
      // Likewise.
    }
    return this.#broker;
  }

  #hello(): ToOwner & { type: "hello" } {
    const { clientId, boot } = this.#options;
    return {
      type: "hello",
      client: clientId,
      attempt: ++this.#attempts,
      version: RUNKEEP_VERSION,
      now: sharedNow(),
      durability: boot.durability,
      visible: isVisible(),
      ready: this.#ready,
    };
  }

  #end(reason: string): void {
    if (this.isClosed) return;
    this.#ends.abort();
    const worker = this.#worker;
    this.#worker = undefined;
    worker?.end(reason);
    this.#route?.end(reason);
    this.#channel?.close();
    this.#broker?.close();
    this.#releaseLife();
    this.#pending?.reject(new RunkeepError("storage_unavailable", `The store's way to its data ended: ${reason}.`));
  }
}

function isVisible(): boolean {
  return typeof document === "undefined" || document.visibilityState !== "hidden";
}

interface Link {
  post(message: ToOwner): void;
  close?(): void;
}

interface RouteEvents {
  repeats: boolean;
  close: () => Promise<void>;
  suspend: () => void;
  onWelcome: () => void;
  onRefused: (error: RunkeepError) => void;
  onTakeOver: () => void;
  onVersionChange: (message: string) => void;
  onLost: (error: RunkeepError) => void;
}

/** The way to one owner. */
class Route implements Transport {
  info?: HostInfo;
  ended: string | undefined;
  readonly whenEnded: Promise<void>;
  readonly #events: RouteEvents;
  readonly #sent = new Map<number, { resolve: (answers: Answer[]) => void; reject: (error: unknown) => void; waits: boolean }>();
  readonly #answered: Promise<void>;
  #link: Link | undefined;
  #lastId = 0;
  #onChange: ((changes: Change[]) => void) | undefined;
  #onAnswered = () => {};
  #onEnded = () => {};
  #onSettled = () => {};

  constructor(events: RouteEvents) {
    this.#events = events;
    this.whenEnded = new Promise((resolve) => (this.#onEnded = resolve));
    this.#answered = new Promise((resolve) => (this.#onAnswered = resolve));
  }

  get repeats(): boolean {
    return this.#events.repeats && this.info?.storage === "opfs";
  }

  use(link: Link): void {
    this.#link = link;
  }

  post(message: ToOwner): void {
    if (this.ended === undefined) this.#link?.post(message);
  }

  isAnswered(withinMs: number): Promise<boolean> {
    return within(this.#answered, withinMs);
  }

  /** Resolves once all that was sent is answered, but for claims that wait, which are called back. */
  async settled(withinMs: number): Promise<void> {
    for (const [id, { waits }] of this.#sent) if (waits) this.post({ type: "withdraw", id });
    if (this.#sent.size > 0) await within(new Promise<void>((resolve) => (this.#onSettled = resolve)), withinMs);
  }

  send({ ...message }: Calls, wait?: Wait): Promise<Answer[]> {
    return this.#ask((id) => {
      wait?.signal?.addEventListener("abort", () => this.post({ type: "withdraw", id }), { once: true });
      return { type: "calls", id, waitMs: wait?.ms, ...message };
    }, wait !== undefined);
  }

  async tick(intervalMs: number, nowMs?: number): Promise<Answer> {
    return (await this.#ask((id) => ({ type: "tick", id, intervalMs, nowMs })))[0]!;
  }

  listen(onChange: ((changes: Change[]) => void) | undefined): void {
    this.#onChange = onChange;
    this.post({ type: "listen", on: onChange !== undefined });
  }

  close(): Promise<void> {
    return this.#events.close();
  }

  suspend(): void {
    this.#events.suspend();
  }

  receive(message: FromOwner): void {
    if (this.ended !== undefined) return;
    switch (message.type) {
      case "welcome":
        this.info = message.info;
        this.#onAnswered();
        this.#events.onWelcome();
        break;
      case "refused": {
        const error = toRunkeepError(message.error);
        this.#onAnswered();
        this.end(error.message);
        this.#events.onRefused(error);
        break;
      }
      case "answers":
        this.#sent.get(message.id)?.resolve(message.answers);
        this.#sent.delete(message.id);
        if (this.#sent.size === 0) this.#onSettled();
        break;
      case "changed":
        this.#onChange?.(message.changes);
        this.post({ type: "seen" });
        break;
      case "leaving":
        this.end(message.reason);
        break;
      case "takeOver":
        this.#events.onTakeOver();
        break;
      case "versionchange":
        this.#events.onVersionChange(message.message);
        break;
      case "lost":
        this.#events.onLost(toRunkeepError(message.error));
    }
  }

  end(reason: string): void {
    if (this.ended !== undefined) return;
    this.ended = reason;
    this.#link?.close?.();
    this.#onAnswered();
    this.#onSettled();
    for (const { reject } of this.#sent.values()) reject(new Error(reason));
    this.#sent.clear();
    this.#onEnded();
  }

  #ask(message: (id: number) => ToOwner, waits = false): Promise<Answer[]> {
    return new Promise((resolve, reject) => {
      if (this.ended !== undefined) return reject(new Error(this.ended));
      const id = ++this.#lastId;
      this.#sent.set(id, { resolve, reject, waits });
      this.post(message(id));
    });
  }
}

function within(promise: Promise<void>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(resolve, ms, false)));
  return Promise.race([promise.then(() => true), late]).finally(() => clearTimeout(timer));
}
