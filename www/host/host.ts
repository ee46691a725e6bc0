// Runs the calls that wait in groups, each group in one transaction of the engine.
import { groupLimit, sharedNow, waitingLimit, type Answer, type CallBytes, type Calls, type Change, type Durability, type ErrorData } from "./protocol.js";

/** The part of the WebAssembly engine that a host drives. */
export interface Engine {
  run(group: Group): { answers: Answer[]; changes?: string };
  /** Lets go of what is kept to answer clients again that are not among these, and have not been there for long. */
  forgetClients(alive: string[]): void;
  setDurability(durability: Durability): void;
  close(): void;
}

/** Calls as the engine takes them. */
export interface Group {
  calls: string[];
  bytes?: CallBytes;
  nowMs?: number;
  clients?: string[];
  /** Three a call: index into `clients` or -1, number, 1 where it was sent before. */
  requests?: number[];
  /** One a client. */
  acked?: number[];
}

/** A message of calls as a host takes it. With `waitMs` it is one claim, which is tried again while it finds nothing. */
export interface Submission extends Calls {
  client?: string | undefined;
  waitMs?: number | undefined;
}

export interface HostOptions {
  /** Runs its task after the messages that are already on their way here, so that they join the same group. */
  schedule: (task: () => void) => void;
  /** Told before the calls are answered: nobody shall send more because of an answer. */
  onCrash: (reason: string) => void;
  /** Told after the calls are answered. */
  onChange?: (changes: Change[]) => void;
}

interface Message extends Submission {
  /** Until when a claim that finds nothing waits, on the shared clock. */
  waitUntil: number | undefined;
  /** The size of texts and bytes. */
  size: number;
  answer: (answers: Answer[]) => void;
}

interface Sweep {
  begunAt: number;
  more: boolean;
  report: Promise<Answer>;
}

export class Host {
  readonly #engine: Engine;
  readonly #options: HostOptions;
  #waiting: Message[] = [];
  /** What lets others go first. */
  #background: Message[] = [];
  /** How many groups have gone ahead of the first of them. */
  #passed = 0;
  /** Claims that found nothing yet. */
  readonly #parked = new Set<Message>();
  #parkTimer: ReturnType<typeof setTimeout> | undefined;
  #waitingCalls = 0;
  #waitingSize = 0;
  #scheduled = false;
  #crashed: string | undefined;
  #left = false;
  #sweep: Sweep | undefined;

  constructor(engine: Engine, options: HostOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /** Takes one message of calls; `answer` is called once, after the commit. Answers the function that ends the wait of a claim. */
  submit(submission: Submission, answer: (answers: Answer[]) => void): () => void {
    const { calls, bytes = [], waitMs } = submission;
    const size = calls.reduce((sum, text) => sum + text.length, 0) + bytes.reduce((sum, some) => sum + (some?.length ?? 0), 0);
    const message: Message = { ...submission, size, answer, waitUntil: waitMs === undefined ? waitMs : sharedNow() + waitMs };
    if (this.#crashed !== undefined) answerAll(message, crash(this.#crashed));
    else if (this.#waitingCalls + calls.length / 2 > waitingLimit.calls || this.#waitingSize + size > waitingLimit.size) answerAll(message, busy());
    // One that has left answers nothing any more: another host will.
    else if (!this.#left) this.#enqueue(message);
    return () => {
      message.waitUntil = undefined;
      if (this.#parked.delete(message)) answerAll(message, nothing);
    };
  }

  /** Sweeps, unless that was begun less than an interval ago and left nothing to do. Answers the report of the last sweep. */
  tick(intervalMs: number, nowMs?: number): Promise<Answer> {
    const last = this.#sweep;
    const now = nowMs ?? sharedNow();
    // Timers of several pages are never quite in step, and a clock that was put back must not end the sweeps.
    if (last && !last.more && now >= last.begunAt && now - last.begunAt < intervalMs * 0.9) return last.report;
    const sweep: Sweep = { begunAt: now, more: false, report: Promise.resolve("") };
    this.#sweep = sweep;
    return (sweep.report = new Promise((resolve) => {
      this.submit({ calls: ["sweep", JSON.stringify({ intervalMs })], nowMs, background: true }, ([report]) => {
        const { ok } = JSON.parse(report as string) as { ok?: { more: boolean } };
        sweep.more = ok?.more ?? true;
        resolve(report!);
      });
    }));
  }

  setDurability(durability: Durability): void {
    this.#engine.setDurability(durability);
  }

  forgetClients(alive: string[]): void {
    this.#engine.forgetClients(alive);
  }

  /** Runs what waits, then closes the database. */
  close(): void {
    for (const message of [...this.#parked, ...this.#waiting]) message.waitUntil = undefined;
    for (const message of this.#parked) answerAll(message, nothing);
    this.#parked.clear();
    while (this.#waiting.length + this.#background.length > 0) this.#runGroup();
    this.leave();
  }

  /** Closes the database. What waits is not answered: another host will. */
  leave(): void {
    if (this.#left) return;
    this.#left = true;
    clearTimeout(this.#parkTimer);
    this.#parked.clear();
    this.#waiting = [];
    this.#background = [];
    if (this.#crashed === undefined) this.#engine.close();
  }

  #enqueue(message: Message): void {
    (message.background ? this.#background : this.#waiting).push(message);
    this.#waitingCalls += message.calls.length / 2;
    this.#waitingSize += message.size;
    this.#wake();
  }

  #wake(): void {
    if (this.#scheduled || this.#waiting.length + this.#background.length === 0) return;
    this.#scheduled = true;
    this.#options.schedule(() => {
      this.#scheduled = false;
      if (this.#left || this.#waiting.length + this.#background.length === 0) return;
      this.#runGroup();
      this.#wake();
    });
  }

  #runGroup(): void {
    const group = this.#takeGroup();
    const now = sharedNow();
    const isLate = ({ deadlines }: Message, index: number) => deadlines !== undefined && deadlines[index]! <= now;
    const taken = group.flatMap((message) => callIndices(message).flatMap((index) => (isLate(message, index) ? [] : [{ message, index }])));
    let answers: Answer[] = [];
    let changes: string | undefined;
    try {
      if (taken.length > 0) ({ answers, changes } = this.#engine.run(toGroup(taken)));
    } catch (trap) {
      return this.#crash(String(trap), group);
    }
    let next = 0;
    for (const message of group) {
      const own = callIndices(message).map((index) => (isLate(message, index) ? late : answers[next++]!));
      if (message.waitUntil !== undefined && message.waitUntil > now && own[0] === nothing) this.#park(message);
      else message.answer(own);
    }
    if (changes !== undefined) this.#options.onChange?.(JSON.parse(changes) as Change[]);
    // What other calls have changed may be what a claim waits for.
    if (this.#parked.size > 0 && group.some(({ waitUntil }) => waitUntil === undefined)) this.#retryParked(group[0]?.nowMs);
  }

  #crash(reason: string, group: Message[]): void {
    this.#crashed = reason;
    this.#options.onCrash(reason);
    // What else waits has not been begun. A host that has left by now leaves it to another.
    const waiting = this.#left ? [] : [...this.#waiting, ...this.#background, ...this.#parked];
    this.leave();
    for (const message of [...group, ...waiting]) answerAll(message, crash(reason));
  }

  #park(message: Message): void {
    this.#parked.add(message);
    // Items also become claimable by themselves, when their time has come.
    this.#parkTimer ??= setTimeout(() => this.#retryParked(), Math.min(parkedRetryMs, message.waitUntil! - sharedNow()));
  }

  #retryParked(nowMs?: number): void {
    clearTimeout(this.#parkTimer);
    this.#parkTimer = undefined;
    for (const message of this.#parked) {
      if (nowMs !== undefined) message.nowMs = nowMs;
      this.#enqueue(message);
    }
    this.#parked.clear();
  }

  #takeGroup(): Message[] {
    // Others go first, but not for ever.
    const isBackground = this.#background.length > 0 && (this.#waiting.length === 0 || ++this.#passed > mostPassed);
    if (isBackground) this.#passed = 0;
    const line = isBackground ? this.#background : this.#waiting;
    let [count, calls, size] = [0, 0, 0];
    for (const message of line) {
      const fits = !isBackground && calls + message.calls.length / 2 <= groupLimit.calls && size + message.size <= groupLimit.size;
      if (count > 0 && !(fits && message.nowMs === line[0]!.nowMs)) break;
      count++;
      calls += message.calls.length / 2;
      size += message.size;
    }
    this.#waitingCalls -= calls;
    this.#waitingSize -= size;
    return line.splice(0, count);
  }
}

/** How often claims that wait look again, besides after each change. */
const parkedRetryMs = 250;

/** So many groups of others go ahead of what lets them. */
const mostPassed = 20;

/** The answer to a claim that finds nothing. */
const nothing = JSON.stringify({ ok: [] });

function toGroup(taken: { message: Message; index: number }[]): Group {
  const group: Group = { calls: taken.flatMap(({ message, index }) => message.calls.slice(2 * index, 2 * index + 2)) };
  const { nowMs } = taken[0]!.message;
  if (nowMs !== undefined) group.nowMs = nowMs;
  if (taken.some(({ message }) => message.bytes)) group.bytes = taken.map(({ message, index }) => message.bytes?.[index]);
  if (!taken.some(({ message }) => message.requests)) return group;
  const clients = new Map<string, { index: number; acked: number }>();
  group.requests = taken.flatMap(({ message: { client, requests }, index }) => {
    if (client === undefined || requests === undefined) return [-1, 0, 0];
    const known = clients.get(client) ?? { index: clients.size, acked: 0 };
    clients.set(client, known);
    known.acked = Math.max(known.acked, requests.acked);
    return [known.index, requests.numbers[index]!, requests.again?.[index] ? 1 : 0];
  });
  group.clients = [...clients.keys()];
  group.acked = [...clients.values()].map(({ acked }) => acked);
  return group;
}

function callIndices({ calls }: Message): number[] {
  return Array.from({ length: calls.length / 2 }, (_, index) => index);
}

function answerAll({ calls, answer }: Message, error: string): void {
  answer(new Array<string>(calls.length / 2).fill(error));
}

function failure(error: ErrorData): string {
  return JSON.stringify({ error });
}

const late = failure({ code: "timeout", message: "The deadline passed before the call was begun; it was not run.", retryable: true });

function busy(): string {
  const message = `More than ${waitingLimit.calls} calls or ${waitingLimit.size >> 20} MiB of arguments are waiting; send less at once.`;
  return failure({ code: "busy", message, retryable: true });
}

function crash(reason: string): string {
  const message = `The store's engine crashed, which is a fault of runkeep: ${reason}. Whether this call took effect is not known.`;
  return failure({ code: "internal", message, retryable: false });
}
