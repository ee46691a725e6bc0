// The calls of one store between the moment they are made and the moment they are settled, whatever becomes of the host.
import { groupLimit, sharedNow, waitingLimit, type Answer, type HostInfo, type Transport, type Wait } from "../host/protocol.js";
import { RunkeepError, toRunkeepError } from "./errors.js";

export type Connect = (signal: AbortSignal) => Promise<Transport>;

const reconnectAttempts = 3;
const longestTimerMs = 2 ** 31 - 1;

interface CallSettings {
  writes: boolean;
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  /** For a claim: how long it waits for something to claim, on top of its timeout. */
  waitMs?: number | undefined;
  /** Bytes beside the arguments. */
  bytes?: Uint8Array | undefined;
}

interface Call {
  readonly operation: string;
  readonly args: string;
  readonly bytes: Uint8Array | undefined;
  /** Of text and bytes. */
  readonly size: number;
  readonly writes: boolean;
  readonly nowMs: number | undefined;
  readonly timeoutMs: number;
  readonly deadline: number;
  readonly wait: Wait | undefined;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
  sent: boolean;
  /** Stops listening to the caller's signal. */
  ignoreSignal?: () => void;
}

export class Connection {
  readonly #connect: Connect;
  readonly #now: (() => number) | undefined;
  readonly #aborter = new AbortController();
  #transport: Transport | undefined;
  #connecting: Promise<void> | undefined;
  /** Why nothing can be called any more. */
  #over: RunkeepError | undefined;
  #info: HostInfo | undefined;

  readonly #calls = new Set<Call>();
  #size = 0;
  #unsent: Call[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Infinity;

  /** `now` is the store's time, where it is not the system's. */
  constructor(connect: Connect, now?: () => number) {
    this.#connect = connect;
    this.#now = now;
  }

  /** What the host last told about itself. */
  get info(): HostInfo | undefined {
    return this.#info;
  }

  /** Connects, if it is not connected. Calls that wait are sent then. */
  open(attempts = 1): Promise<void> {
    return (this.#connecting ??= this.#open(attempts).finally(() => (this.#connecting = undefined)));
  }

  async #open(attempts: number): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        this.#transport = await this.#connect(this.#aborter.signal);
        break;
      } catch (error) {
        if (attempt === attempts || this.#over) throw toRunkeepError(error);
      }
    }
    this.#info = this.#transport.info;
    if (!this.#over) this.#flush();
  }

  async call(operation: string, args: string, { writes, timeoutMs, signal, waitMs = 0, bytes }: CallSettings): Promise<unknown> {
    signal?.throwIfAborted();
    if (this.#over) throw this.#over;
    const size = args.length + (bytes?.length ?? 0);
    if (this.#calls.size >= waitingLimit.calls || this.#size + size > waitingLimit.size) {
      throw new RunkeepError("busy", `${this.#calls.size} calls are waiting for this store; await some before sending more.`);
    }
    const answer = await new Promise<Answer>((resolve, reject) => {
      const deadline = sharedNow() + timeoutMs + waitMs;
      const aborter = new AbortController();
      const wait = waitMs > 0 ? { ms: waitMs, signal: aborter.signal } : undefined;
      const call: Call = { operation, args, bytes, size, writes, nowMs: this.#now?.(), timeoutMs, deadline, wait, resolve, reject, sent: false };
      if (signal) {
        const onAbort = () => {
          aborter.abort();
          this.#reject(call, signal.reason);
        };
        signal.addEventListener("abort", onAbort);
        call.ignoreSignal = () => signal.removeEventListener("abort", onAbort);
      }
      this.#calls.add(call);
      this.#size += size;
      this.#watch(deadline);
      // All calls of one turn of the page's code go together.
      if (this.#unsent.push(call) === 1) queueMicrotask(() => this.#flush());
    });
    // Made an error here, where its stack leads to the caller.
    return readAnswer(answer);
  }

  /** Gives the storage back while the page is kept for the back button; the next call opens it again. */
  suspend(): void {
    if (this.#info?.storage !== "opfs") return;
    this.#transport?.close().catch(() => {});
    this.#transport = undefined;
  }

  /** Calls in flight are answered where the host still can, and rejected with `closed` otherwise. */
  async close(error: RunkeepError): Promise<void> {
    if (this.#transport && this.#transport.ended === undefined) this.#flush();
    this.#over ??= error;
    this.#aborter.abort();
    try {
      await this.#connecting?.catch(() => {});
      await this.#transport?.close();
    } catch (problem) {
      throw toRunkeepError(problem);
    } finally {
      this.#rejectAll();
    }
  }

  #flush(): void {
    if (this.#unsent.length === 0) return;
    const transport = this.#transport;
    if (transport && transport.ended === undefined) {
      const calls = this.#unsent.filter((call) => this.#calls.has(call));
      this.#unsent = [];
      for (const message of intoMessages(calls)) void this.#send(transport, message);
    } else if (transport && this.#info?.storage === "memory") {
      this.#lose(transport);
    } else {
      this.open(reconnectAttempts).catch((error) => this.#rejectAll(error));
    }
  }

  async #send(transport: Transport, calls: Call[]): Promise<void> {
    for (const call of calls) call.sent = true;
    let answers: Answer[];
    try {
      answers = await transport.send(
        calls.flatMap(({ operation, args }) => [operation, args]),
        calls[0]?.nowMs,
        calls.map(({ deadline }) => deadline),
        calls[0]?.wait,
        calls.some(({ bytes }) => bytes) ? calls.map(({ bytes }) => bytes) : undefined,
      );
    } catch (error) {
      return this.#unanswered(transport, calls, error);
    }
    calls.forEach((call, index) => this.#settle(call) && call.resolve(answers[index]!));
  }

  /** The host ended under these calls, or could not be reached. */
  #unanswered(transport: Transport, calls: Call[], error: unknown): void {
    if (this.#over || transport.ended === undefined) {
      for (const call of calls) this.#reject(call, this.#over ?? toRunkeepError(error));
    } else if (this.#info?.storage === "memory") {
      this.#lose(transport);
    } else {
      const message = `outcome unknown: the store's worker ended while the call ran (${transport.ended})`;
      for (const call of calls) {
        if (call.writes) this.#reject(call, new RunkeepError("timeout", `${call.operation}: ${message}.`));
        else this.#unsent.push(call);
      }
      this.#flush();
    }
  }

  #lose(transport: Transport): void {
    const message = `The store was in memory only, and its host ended: ${transport.ended}. Close it and open it anew.`;
    this.#over ??= new RunkeepError("storage_lost", message);
    this.#rejectAll();
  }

  /** Whether the call was still open. */
  #settle(call: Call): boolean {
    if (!this.#calls.delete(call)) return false;
    this.#size -= call.size;
    call.ignoreSignal?.();
    if (this.#calls.size === 0) {
      clearTimeout(this.#timer);
      this.#timerAt = Infinity;
    }
    return true;
  }

  #reject(call: Call, error: unknown): void {
    if (this.#settle(call)) call.reject(error);
  }

  #rejectAll(error?: unknown): void {
    for (const call of this.#calls) this.#reject(call, this.#over ?? error);
    this.#unsent = [];
  }

  /** One timer, for the earliest deadline. */
  #watch(deadline: number): void {
    if (deadline >= this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = deadline;
    this.#timer = setTimeout(() => this.#expire(), Math.min(deadline - sharedNow(), longestTimerMs));
  }

  #expire(): void {
    this.#timerAt = Infinity;
    const now = sharedNow();
    let earliest = Infinity;
    for (const call of this.#calls) {
      if (call.deadline > now) {
        earliest = Math.min(earliest, call.deadline);
      } else {
        const state = call.sent ? "its outcome is unknown" : "it was not sent, because the store was not ready";
        this.#reject(call, new RunkeepError("timeout", `${call.operation} was not answered within ${call.timeoutMs + (call.wait?.ms ?? 0)} ms; ${state}.`));
      }
    }
    this.#watch(earliest);
  }
}

function readAnswer(answer: Answer): unknown {
  const { text, bytes } = typeof answer === "string" ? { text: answer } : answer;
  const { ok, error } = JSON.parse(text) as { ok?: unknown; error?: unknown };
  if (error !== undefined) throw toRunkeepError(error);
  return bytes ? { ...(ok as object), bytes } : ok;
}

function intoMessages(calls: Call[]): Call[][] {
  const messages: Call[][] = [];
  let [last, size]: [Call[], number] = [[], 0];
  for (const call of calls) {
    const alone = call.wait !== undefined || last[0]?.wait !== undefined;
    const fits = !alone && last.length < groupLimit.calls && size + call.size <= groupLimit.size && last[0]?.nowMs === call.nowMs;
    if (!fits || last.length === 0) {
      messages.push((last = []));
      size = 0;
    }
    last.push(call);
    size += call.size;
  }
  return messages;
}
