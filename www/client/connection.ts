// The calls of one store between the moment they are made and the moment they are settled, whatever becomes of the host.
import { groupLimit, sharedNow, waitingLimit, type Answer, type Change, type HostInfo, type Transport, type Wait } from "../host/protocol.js";
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
  /** Rises with each call: the store tells by it whether it has applied the call already. */
  readonly number: number;
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
  /** Whether it was ever sent. */
  sent: boolean;
  /** Over which it was sent, and is not answered yet. */
  via: Transport | undefined;
  /** Stops listening to the caller's signal. */
  ignoreSignal?: () => void;
}

/** What becomes of the store itself, by name. */
export interface ConnectionEvents {
  ownerchange: { readonly owner: boolean };
  versionchange: { readonly message: string };
  storagelow: { readonly usage?: number; readonly quota?: number };
  storagelost: { readonly message: string };
}

type OnChange = (changes: Change[] | "all") => void;

export class Connection {
  readonly #connect: Connect;
  readonly #now: (() => number) | undefined;
  readonly #aborter = new AbortController();
  readonly #changeListeners = new Set<OnChange>();
  readonly #eventListeners = new Map<string, Set<(detail: never) => void>>();
  #transport: Transport | undefined;
  #connecting: Promise<void> | undefined;
  /** Why nothing can be called any more. */
  #over: RunkeepError | undefined;
  #isSuspended = false;
  #info: HostInfo | undefined;

  /** In the order of their numbers. */
  readonly #calls = new Set<Call>();
  #lastNumber = 0;
  #size = 0;
  #unsent: Call[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Infinity;

  /** `now` is the store's time, where it is not the system's. */
  constructor(connect: Connect, now?: () => number) {
    this.#connect = connect;
    this.#now = now;
  }

  /** What the host last told about itself; one that has ended owns nothing any more. */
  get info(): HostInfo | undefined {
    const isOver = this.#info?.owner === true && this.#transport?.ended !== undefined;
    return isOver ? { ...this.#info!, owner: false } : this.#info;
  }

  /** Connects, if it is not connected. Calls that wait are sent then. */
  open(attempts = 1): Promise<void> {
    return (this.#connecting ??= this.#open(attempts).finally(() => (this.#connecting = undefined)));
  }

  async #open(attempts: number): Promise<void> {
    const isFirst = this.#transport === undefined;
    let transport: Transport;
    for (let attempt = 1; ; attempt++) {
      try {
        transport = await this.#connect(this.#aborter.signal);
        break;
      } catch (error) {
        if (attempt === attempts || this.#over) throw toRunkeepError(error);
      }
    }
    this.#transport = transport;
    const { owner = true } = this.#info ?? {};
    this.#info = transport.info;
    transport.whenEnded?.then(() => this.#onTransportEnd(transport));
    if (this.#over) return;
    // What the last host left unanswered goes before what was called since.
    for (const call of this.#calls) if (call.via && call.via !== transport) this.#takeBack(call, call.via);
    // Before the calls, so that what they change is told.
    if (this.#changeListeners.size > 0) this.#listen();
    this.#flush();
    if (isFirst) return;
    if (this.#info?.owner !== undefined && this.#info.owner !== owner) this.emit("ownerchange", { owner: this.#info.owner });
    this.#tell("all");
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
      const number = ++this.#lastNumber;
      const call: Call = { number, operation, args, bytes, size, writes, nowMs: this.#now?.(), timeoutMs, deadline, wait, resolve, reject, sent: false, via: undefined };
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
      // All calls of one turn of the page's code go together; what was left unanswered when the page was put aside, too.
      if (this.#unsent.push(call) === 1 || this.#isSuspended) queueMicrotask(() => this.#flush());
      this.#isSuspended = false;
    });
    // Made an error here, where its stack leads to the caller.
    return this.#read(answer);
  }

  /** Has a sweep done, unless another page has had it within the interval. */
  async tick(intervalMs: number, timeoutMs: number): Promise<{ more: boolean }> {
    const transport = this.#transport;
    if (!transport?.tick || transport.ended !== undefined || this.#over) {
      return (await this.call("sweep", JSON.stringify({ intervalMs }), { writes: true, timeoutMs })) as { more: boolean };
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new RunkeepError("timeout", "The sweep is late.")), timeoutMs)));
    try {
      return this.#read(await Promise.race([transport.tick(intervalMs, this.#now?.()), late])) as { more: boolean };
    } catch (error) {
      // The way was lost: the next tick takes the new one.
      if (transport.ended !== undefined && !this.#over) return { more: false };
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** What is read after this was called holds all that is not reported. `"all"`: anything may have changed, for the way was lost. */
  listen(onChange: OnChange): () => void {
    this.#changeListeners.add(onChange);
    if (this.#changeListeners.size === 1) this.#listen();
    return () => {
      if (this.#changeListeners.delete(onChange) && this.#changeListeners.size === 0 && this.#transport?.ended === undefined) this.#transport?.listen?.(undefined);
    };
  }

  on<Name extends keyof ConnectionEvents>(event: Name, listener: (detail: ConnectionEvents[Name]) => void): () => void {
    const listeners = this.#eventListeners.get(event) ?? new Set();
    this.#eventListeners.set(event, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  emit<Name extends keyof ConnectionEvents>(event: Name, detail: ConnectionEvents[Name]): void {
    for (const listener of this.#eventListeners.get(event) ?? []) queueMicrotask(() => (listener as (detail: ConnectionEvents[Name]) => void)(detail));
  }

  /** The data is gone. */
  lose(error: RunkeepError): void {
    if (this.#over) return;
    this.#over = error;
    this.#rejectAll();
    this.emit("storagelost", { message: error.message });
    this.#tell("all");
  }

  /** Gives everything up while the page is kept for the back button; `resume` or the next call opens the store again. */
  suspend(): void {
    if (this.#info?.storage !== "opfs" || !this.#transport?.suspend) return;
    this.#isSuspended = true;
    this.#transport.suspend();
  }

  resume(): void {
    this.#isSuspended = false;
    if (this.#transport?.ended === undefined || this.#over) return;
    if (this.#unsent.length > 0) this.#flush();
    else if (this.#changeListeners.size > 0) this.open(reconnectAttempts).catch(() => {});
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

  #listen(): void {
    if (this.#transport?.ended === undefined) this.#transport?.listen?.((changes) => this.#tell(changes));
  }

  #tell(changes: Change[] | "all"): void {
    for (const onChange of [...this.#changeListeners]) onChange(changes);
  }

  /** Who listens hears of the next owner, without a call being made. */
  #onTransportEnd(transport: Transport): void {
    // Where nobody listens, the next call finds the new way.
    if (this.#transport !== transport || this.#over || this.#isSuspended || !(this.#changeListeners.size + this.#eventListeners.size)) return;
    if (this.#info?.storage === "memory") this.#lose(transport);
    else this.open(reconnectAttempts).catch((error) => this.#rejectAll(error));
  }

  #flush(): void {
    if (this.#unsent.length === 0 || this.#isSuspended) return;
    const transport = this.#transport;
    if (transport && transport.ended === undefined) {
      // What is sent again goes first, as it did before.
      const calls = this.#unsent.filter((call) => this.#calls.has(call)).sort((a, b) => a.number - b.number);
      this.#unsent = [];
      for (const message of intoMessages(calls)) void this.#send(transport, message);
    } else if (transport && this.#info?.storage === "memory") {
      this.#lose(transport);
    } else {
      this.open(reconnectAttempts).catch((error) => this.#rejectAll(error));
    }
  }

  async #send(transport: Transport, calls: Call[]): Promise<void> {
    const again = calls.map(({ sent }) => sent);
    for (const call of calls) {
      call.sent = true;
      call.via = transport;
    }
    const [first] = calls;
    // The set is in the order of numbers.
    const [oldest] = this.#calls;
    let answers: Answer[];
    try {
      answers = await transport.send(
        {
          calls: calls.flatMap(({ operation, args }) => [operation, args]),
          nowMs: first!.nowMs,
          deadlines: calls.map(({ deadline }) => deadline),
          ...(calls.some(({ bytes }) => bytes) && { bytes: calls.map(({ bytes }) => bytes) }),
          ...(transport.repeats && {
            requests: { numbers: calls.map(({ number }) => number), ...(again.includes(true) && { again }), acked: (oldest ?? first!).number - 1 },
          }),
          ...(isBackground(first!) && { background: true }),
        },
        // One that is sent again has waited already.
        first!.wait && { ...first!.wait, ms: Math.max(0, Math.min(first!.wait.ms, first!.deadline - first!.timeoutMs - sharedNow())) },
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
      for (const call of calls) if (call.via === transport) this.#takeBack(call, transport);
      this.#flush();
    }
  }

  /** To be sent again, where that is safe. */
  #takeBack(call: Call, transport: Transport): void {
    call.via = undefined;
    if (!call.writes || transport.repeats) this.#unsent.push(call);
    else this.#reject(call, new RunkeepError("timeout", `${call.operation}: outcome unknown: the store's host ended while the call ran (${transport.ended}).`));
  }

  #lose(transport: Transport): void {
    const message = `The store was in memory only, and its host ended: ${transport.ended}. Close it and open it anew.`;
    this.lose(new RunkeepError("storage_lost", message));
  }

  #read(answer: Answer): unknown {
    const { text, bytes } = typeof answer === "string" ? { text: answer } : answer;
    const { ok, error } = JSON.parse(text) as { ok?: unknown; error?: { code: string } };
    if (error !== undefined) {
      if (error.code === "quota_exceeded") void this.#tellOfRoom();
      throw toRunkeepError(error);
    }
    return bytes ? { ...(ok as object), bytes } : ok;
  }

  async #tellOfRoom(): Promise<void> {
    if (!this.#eventListeners.get("storagelow")?.size) return;
    this.emit("storagelow", await estimateRoom());
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

/** What the browser says of this origin's storage. */
export async function estimateRoom(): Promise<{ usage?: number; quota?: number }> {
  const { usage, quota } = (await globalThis.navigator?.storage?.estimate?.()) ?? {};
  return { ...(usage !== undefined && { usage }), ...(quota !== undefined && { quota }) };
}

/** What may take long, and for which nobody waits at a screen. */
function isBackground({ operation }: Call): boolean {
  return operation.startsWith("imports.") || operation === "sweep";
}

function intoMessages(calls: Call[]): Call[][] {
  const messages: Call[][] = [];
  let [last, size]: [Call[], number] = [[], 0];
  for (const call of calls) {
    const alone = call.wait !== undefined || last[0]?.wait !== undefined || isBackground(call) || (last[0] && isBackground(last[0]));
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
