// Runs the calls that wait in groups, each group in one transaction of the engine.
import { groupLimit, sharedNow, waitingLimit, type Answer, type CallBytes, type ErrorData } from "./protocol.js";

/** The part of the WebAssembly engine that a host drives. */
export interface Engine {
  run(calls: string[], bytes?: CallBytes, nowMs?: number): Answer[];
  close(): void;
}

interface Message {
  calls: string[];
  nowMs: number | undefined;
  /** Until when a claim that finds nothing waits, on the shared clock. */
  waitUntil: number | undefined;
  deadlines: number[] | undefined;
  bytes: CallBytes | undefined;
  /** The size of texts and bytes. */
  size: number;
  answer: (answers: Answer[]) => void;
}

export class Host {
  readonly #engine: Engine;
  readonly #schedule: (task: () => void) => void;
  readonly #onCrash: (reason: string) => void;
  readonly #waiting: Message[] = [];
  /** Claims that found nothing yet. */
  readonly #parked = new Set<Message>();
  #parkTimer: ReturnType<typeof setTimeout> | undefined;
  #waitingCalls = 0;
  #waitingSize = 0;
  #scheduled = false;
  #crashed: string | undefined;

  /**
   * `schedule` runs its task after the messages that are already on their way here, so that they join the same group.
   * `onCrash` is told before the calls are answered: nobody shall send more because of an answer.
   */
  constructor(engine: Engine, schedule: (task: () => void) => void, onCrash: (reason: string) => void) {
    this.#engine = engine;
    this.#schedule = schedule;
    this.#onCrash = onCrash;
  }

  /**
   * Takes one message of calls; `answer` is called once, after the commit. With `waitMs` the message is one claim, which is tried
   * again while it finds nothing. Answers the function that ends that wait.
   */
  submit(
    calls: string[],
    nowMs: number | undefined,
    deadlines: number[] | undefined,
    answer: (answers: Answer[]) => void,
    waitMs?: number,
    bytes?: CallBytes,
  ): () => void {
    const size = calls.reduce((sum, text) => sum + text.length, 0) + (bytes ?? []).reduce((sum, some) => sum + (some?.length ?? 0), 0);
    const message: Message = { calls, nowMs, deadlines, bytes, size, answer, waitUntil: waitMs === undefined ? waitMs : sharedNow() + waitMs };
    if (this.#crashed !== undefined) {
      answerAll(message, crash(this.#crashed));
    } else if (this.#waitingCalls + calls.length / 2 > waitingLimit.calls || this.#waitingSize + size > waitingLimit.size) {
      answerAll(message, busy());
    } else {
      this.#enqueue(message);
    }
    return () => {
      message.waitUntil = undefined;
      if (this.#parked.delete(message)) answerAll(message, nothing);
    };
  }

  /** Runs what waits, then closes the database. */
  close(): void {
    for (const message of [...this.#parked, ...this.#waiting]) message.waitUntil = undefined;
    for (const message of this.#parked) answerAll(message, nothing);
    this.#parked.clear();
    clearTimeout(this.#parkTimer);
    while (this.#waiting.length > 0) this.#runGroup();
    if (this.#crashed === undefined) this.#engine.close();
  }

  #enqueue(message: Message): void {
    this.#waiting.push(message);
    this.#waitingCalls += message.calls.length / 2;
    this.#waitingSize += message.size;
    this.#wake();
  }

  #wake(): void {
    if (this.#scheduled || this.#waiting.length === 0) return;
    this.#scheduled = true;
    this.#schedule(() => {
      this.#scheduled = false;
      this.#runGroup();
      this.#wake();
    });
  }

  #runGroup(): void {
    const group = this.#takeGroup();
    const now = sharedNow();
    const isLate = ({ deadlines }: Message, index: number) => deadlines !== undefined && deadlines[index]! <= now;
    const calls = group.flatMap((message) => message.calls.filter((_, index) => !isLate(message, index >> 1)));
    let bytes: CallBytes | undefined;
    if (group.some((message) => message.bytes)) {
      bytes = group.flatMap((message) => callIndices(message).filter((index) => !isLate(message, index)).map((index) => message.bytes?.[index]));
    }
    let answers: Answer[];
    try {
      answers = calls.length > 0 ? this.#engine.run(calls, bytes, group[0]?.nowMs) : [];
    } catch (trap) {
      this.#crashed = String(trap);
      this.#onCrash(this.#crashed);
      for (const message of [...group, ...this.#waiting.splice(0), ...this.#parked]) answerAll(message, crash(this.#crashed));
      this.#parked.clear();
      return;
    }
    let next = 0;
    for (const message of group) {
      const own = callIndices(message).map((index) => (isLate(message, index) ? late : answers[next++]!));
      if (message.waitUntil !== undefined && message.waitUntil > now && own[0] === nothing) this.#park(message);
      else message.answer(own);
    }
    // What other calls have changed may be what a claim waits for.
    if (this.#parked.size > 0 && group.some(({ waitUntil }) => waitUntil === undefined)) this.#retryParked(group[0]?.nowMs);
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
    let [count, calls, size] = [0, 0, 0];
    for (const message of this.#waiting) {
      const fits = calls + message.calls.length / 2 <= groupLimit.calls && size + message.size <= groupLimit.size;
      if (count > 0 && !(fits && message.nowMs === this.#waiting[0]!.nowMs)) break;
      count++;
      calls += message.calls.length / 2;
      size += message.size;
    }
    this.#waitingCalls -= calls;
    this.#waitingSize -= size;
    return this.#waiting.splice(0, count);
  }
}

/** How often claims that wait look again, besides after each change. */
const parkedRetryMs = 250;

/** The answer to a claim that finds nothing. */
const nothing = JSON.stringify({ ok: [] });

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
