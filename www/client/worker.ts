// The page's end of a store's worker.
import type { Answer, BootOptions, CallBytes, FromHost, HostInfo, ToHost, Transport, Wait } from "../host/protocol.js";
import { isRunkeepError, RunkeepError, toRunkeepError } from "./errors.js";

const closeTimeoutMs = 10_000;

export interface WorkerOptions {
  boot: BootOptions;
  bootTimeoutMs: number;
  workerUrl?: string | undefined;
}

/** Starts a worker; resolves once it has the store open. */
export async function startWorker(options: WorkerOptions, signal: AbortSignal): Promise<Transport> {
  const transport = new WorkerTransport(options);
  await transport.ready(options, signal);
  return transport;
}

class WorkerTransport implements Transport {
  info!: HostInfo;
  ended: string | undefined;
  readonly #worker: Worker;
  readonly #alive = `runkeep-alive:${globalThis.crypto?.randomUUID?.() ?? Math.random()}`;
  readonly #sent = new Map<number, { resolve: (answers: Answer[]) => void; reject: (error: unknown) => void }>();
  #lastId = 0;
  #watching = false;
  #terminated = false;
  #waitingFor: string;
  #onReady = (_error?: unknown) => {};
  #onEnd = () => {};

  constructor({ workerUrl }: WorkerOptions) {
    const script = `script ${workerUrl ?? `worker.js beside ${import.meta.url}`}`;
    const causes =
      "Likely causes: its address answers with 404 or an HTML page (after a deploy), it is of another origin, " +
      "or a Content-Security-Policy forbids it (worker-src)";
    this.#waitingFor = `its worker has not started, ${script}. ${causes}`;
    const failed = (problem: unknown) => new RunkeepError("storage_unavailable", `The store's worker failed, ${script}: ${problem}. ${causes}.`);
    try {
      this.#worker =
        workerUrl === undefined
          ? // Bundlers look for exactly this form, with options that they can read.
            new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "runkeep" })
          : new Worker(workerUrl, { type: "module", name: "runkeep" });
    } catch (error) {
      throw failed(String(error).replace(/\.$/, ""));
    }
    this.#worker.onmessage = ({ data }: MessageEvent<FromHost>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      const problem = event.message || "the browser gives no reason";
      this.#end(`it failed: ${problem}`, failed(problem));
    };
  }

  ready({ boot, bootTimeoutMs }: WorkerOptions, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (reason: string) => {
        const message = `The store ${JSON.stringify(boot.name)} could not be opened ${reason}.`;
        this.#end(reason, new RunkeepError("storage_unavailable", message));
      };
      const onAbort = () => fail("before it was closed");
      const timer = setTimeout(() => fail(`within ${bootTimeoutMs} ms: ${this.#waitingFor}`), bootTimeoutMs);
      this.#onReady = (error) => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onAbort);
        if (error === undefined) resolve();
        else reject(error);
      };
      signal.addEventListener("abort", onAbort);
      if (signal.aborted) onAbort();
      else this.#post({ type: "boot", options: boot, alive: this.#alive });
    });
  }

  send(calls: string[], nowMs?: number, deadlines?: number[], wait?: Wait, bytes?: CallBytes): Promise<Answer[]> {
    return new Promise((resolve, reject) => {
      if (this.ended !== undefined) return reject(new Error(this.ended));
      const id = ++this.#lastId;
      this.#sent.set(id, { resolve, reject });
      this.#post({ type: "calls", id, calls, nowMs, deadlines, waitMs: wait?.ms, bytes });
      wait?.signal?.addEventListener("abort", () => this.#terminated || this.#post({ type: "withdraw", id }), { once: true });
    });
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#terminated) return resolve();
      const timer = setTimeout(() => this.#end("it did not close in time"), closeTimeoutMs);
      this.#onEnd = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#post({ type: "close" });
    });
  }

  #receive(message: FromHost): void {
    switch (message.type) {
      case "waiting":
        this.#watchLife();
        this.#waitingFor = message.reason;
        break;
      case "ready":
        this.info = message.info;
        this.#onReady();
        break;
      case "failed":
        this.#end(message.error.message, toRunkeepError(message.error));
        break;
      case "answers":
        this.#sent.get(message.id)?.resolve(message.answers);
        this.#sent.delete(message.id);
        break;
      case "crashed":
        // Nothing more is sent; what was sent is still answered.
        this.ended = `its engine crashed: ${message.reason}`;
        break;
      case "closed":
        this.#end("it was closed");
    }
  }

  /** The worker holds this lock: whoever gets it knows that the worker is gone. */
  #watchLife(): void {
    if (this.#watching || !navigator.locks) return;
    this.#watching = true;
    navigator.locks.request(this.#alive, () => this.#end("it was terminated")).catch(() => {});
  }

  #end(reason: string, error: unknown = new Error(reason)): void {
    if (this.#terminated) return;
    this.#terminated = true;
    this.ended ??= reason;
    this.#worker.terminate();
    // While it boots, nobody has asked anything of it yet: trying again is all there is to do.
    const unavailable = () => new RunkeepError("storage_unavailable", `The store's worker ended while it was starting: ${reason}.`);
    this.#onReady(isRunkeepError(error) ? error : unavailable());
    this.#onEnd();
    for (const { reject } of this.#sent.values()) reject(error);
    this.#sent.clear();
  }

  #post(message: ToHost): void {
    this.#worker.postMessage(message);
  }
}
