import type { Event, Store } from "runkeep";
import { describe, type Format, type JsonObject } from "./sessions/index.js";

/** One event as a line of the log. Its data is not kept: a record may be a megabyte, and is read again when somebody opens it. */
export interface Row {
  sequence: number;
  /** The recorded step's kind, or `run` for what the store itself noted. */
  kind: string;
  title: string;
  type: string;
  at: number;
  line?: number;
}

const PAGE = 200;
const MOST = 400;

/**
 * The part of a run's log that is on the page: its end, as long as it is followed, or a stretch further up. However long
 * the log, at most `MOST` rows are held.
 */
export class LogWindow {
  readonly runId: string;
  rows: readonly Row[] = [];
  total = 0;
  following = true;
  readonly #store: Store;
  readonly #format: Format;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(store: Store, runId: string, format: Format) {
    this.#store = store;
    this.runId = runId;
    this.#format = format;
  }

  get hasEarlier(): boolean {
    return (this.rows[0]?.sequence ?? 1) > 1;
  }

  get newer(): number {
    return this.total - this.#last;
  }

  get #last(): number {
    return this.rows.at(-1)?.sequence ?? 0;
  }

  /** Takes note of how long the log is now, and reads on if its end is followed. */
  refresh(total: number): Promise<void> {
    return this.#inTurn(async () => {
      this.total = total;
      if (this.following) await this.#readEnd();
    });
  }

  follow(): Promise<void> {
    return this.#inTurn(async () => {
      this.following = true;
      await this.#readEnd();
    });
  }

  stay(): void {
    this.following = false;
  }

  earlier(): Promise<void> {
    return this.#inTurn(async () => {
      this.following = false;
      const before = (this.rows[0]?.sequence ?? 1) - 1;
      const rows = await this.#read(Math.max(0, before - PAGE), before);
      this.rows = [...rows, ...this.rows].slice(0, MOST);
    });
  }

  later(): Promise<void> {
    return this.#inTurn(async () => {
      const rows = await this.#read(this.#last, Math.min(this.#last + PAGE, this.total));
      this.rows = [...this.rows, ...rows].slice(-MOST);
    });
  }

  /** An event's data as text for a person, or null if there is no such event. */
  async data(sequence: number): Promise<string | null> {
    const list = this.#store.events.list({ executionId: this.runId, after: sequence - 1, limit: 1 });
    const { items } = await list;
    return items[0] === undefined ? null : JSON.stringify(items[0].data, null, 2);
  }

  async #readEnd(): Promise<void> {
    const tooFar = this.total - this.#last > PAGE;
    const rows = await this.#read(tooFar ? Math.max(0, this.total - PAGE) : this.#last, this.total);
    if (rows.length > 0) this.rows = tooFar ? rows : [...this.rows, ...rows].slice(-MOST);
  }

  /** Reads the events after one sequence up to another. Pages may be short: their size in bytes is bounded too. */
  async #read(after: number, upTo: number): Promise<Row[]> {
    const rows: Row[] = [];
    for (let at = after; at < upTo; at = rows.at(-1)!.sequence) {
      const limit = Math.min(PAGE, upTo - at);
      const { items } = await this.#store.events.list({ executionId: this.runId, after: at, limit });
      if (items.length === 0) break;
      rows.push(...items.map((event) => rowOf(event, this.#format)));
    }
    return rows;
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {
      // Whoever asked is told; the next turn starts anew.
    });
    return done;
  }
}

function rowOf(event: Event, format: Format): Row {
  const row = { sequence: event.sequence, type: event.type, at: event.createdAt };
  const data = event.data as unknown as JsonObject;
  if (event.type.startsWith("x-session.")) {
    return { ...row, ...describe(format, data.record as JsonObject), line: data.line as number };
  }
  return { ...row, kind: "run", title: titleOf(event.type, data) };
}

function titleOf(type: string, data: JsonObject): string {
  switch (type) {
    case "workflow_started":
      return "The run starts";
    case "workflow_completed":
      return "The run is complete";
    case "execution_status_set":
      return `${data.from} → ${data.to}${data.reason ? `: ${data.reason}` : ""}`;
    case "retry_scheduled":
      return `${data.nodeId} goes back to the queue: attempt ${data.attempt} did not finish`;
    case "node_failed":
      return `${data.nodeId} failed: ${typeof data.error === "string" ? data.error : (data.error as JsonObject).message}`;
    case "node_cancelled":
      return `${data.nodeId} cancelled`;
    default:
      return type.replaceAll("_", " ");
  }
}
