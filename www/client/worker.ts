// A page's own worker of one store.
import { aliveLock, type BootOptions, type FromOwner, type FromWorker, type ToOwner, type ToWorker } from "../host/protocol.js";
import { RunkeepError } from "./errors.js";

const closeTimeoutMs = 10_000;

export class OwnWorker {
  readonly id = newId();
  /** What it waits for while it boots, as the end of a sentence. */
  waitingFor: string;
  #worker: Worker;
  #ended = false;
  #watching = false;
  readonly #unwatch = new AbortController();
  readonly #onMessage: (message: FromWorker | FromOwner) => void;
  readonly #onEnd: (reason: string, error?: RunkeepError) => void;
  #onClosed = () => {};

  /** `onEnd` is told once that it is gone: with an error where it could not start. */
  constructor(workerUrl: string | undefined, onMessage: (message: FromWorker | FromOwner) => void, onEnd: (reason: string, error?: RunkeepError) => void) {
    this.#onMessage = onMessage;
    this.#onEnd = onEnd;
    const script = `script ${workerUrl ?? `worker.js beside ${import.meta.url}`}`;
    const causes =
      "Likely causes: its address answers with 404 or an HTML page (after a deploy), it is of another origin, " +
      "or a Content-Security-Policy forbids it (worker-src)";
    this.waitingFor = `its worker has not started, ${script}. ${causes}`;
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
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker | FromOwner>) => this.#receive(data);
    this.#worker.onerror = (event) => {
      const problem = event.message || "the browser gives no reason";
      this.end(`it failed: ${problem}`, failed(problem));
    };
  }

  boot(options: BootOptions): void {
    this.post({ type: "boot", options, id: this.id });
  }

  post(message: ToWorker | ToOwner, transfer: Transferable[] = []): void {
    if (!this.#ended) this.#worker.postMessage(message, transfer);
  }

  /** Has it answer what it was sent and end. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#ended) return resolve();
      const timer = setTimeout(() => this.end("it did not close in time"), closeTimeoutMs);
      this.#onClosed = () => {
        clearTimeout(timer);
        resolve();
      };
      this.post({ type: "close" });
    });
  }

  end(reason: string, error?: RunkeepError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#worker.terminate();
    this.#unwatch.abort();
    this.#onClosed();
    this.#onEnd(reason, error);
  }

  #receive(message: FromWorker | FromOwner): void {
    if (message.type === "waiting") {
      // The first one says that it holds its lock: whoever gets that knows that the worker is gone.
      this.#watchLife();
      this.waitingFor = message.reason;
    } else if (message.type === "closed") {
      this.end(message.reason);
    } else {
      this.#onMessage(message);
    }
  }

  #watchLife(): void {
    if (this.#watching || !navigator.locks) return;
    this.#watching = true;
    navigator.locks.request(aliveLock(this.id), { signal: this.#unwatch.signal }, () => this.end("it was terminated")).catch(() => {});
  }
}

export function newId(): string {
  return globalThis.crypto?.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
}
