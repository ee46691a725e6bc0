import type { Event, Execution, QueueStats, Store, StoreInfo, Worker as RegisteredWorker, WorkItem } from "runkeep";
import { messageOf, persist } from "./errors.js";
import type { WorkerWatch } from "./kill.js";
import { LogWindow } from "./log.js";
import { asRecording, completeRecording, fingerprint, RECORDING, storeRecording, type Progress } from "./recording.js";
import {
  ensureStarted,
  inputOf,
  isFinished,
  payloadOf,
  POOL,
  REPLAY,
  speeds,
  startRun,
  tryAgain,
  Workers,
  type Speed,
} from "./replay.js";
import { verify, type Verdict } from "./verify.js";

export interface Run {
  execution: Execution;
  /** The item of the step that the run has come to: the newest one, as each step enqueues the next. */
  item?: WorkItem;
  /** Steps that are in the log. */
  done: number;
  steps: number;
}

export interface Problem {
  id: number;
  at: number;
  what: string;
  text: string;
}

/** A line of the file that was rejected, or kept with a change. */
export interface LineNote {
  line: number;
  reason: string;
  rejected: boolean;
}

export type Intake =
  | { state: "idle" }
  | { state: "reading"; file: string; size: number; progress: Progress }
  | { state: "failed"; file: string; text: string };

const POLL_MS = 250;
const RUNS_PAGE = 50;
const NOTES_PAGE = 100;
const MOST_PROBLEMS = 30;

/** What the page shows and does. It asks the store a few times a second for what may have changed; components draw what is here. */
export class Model {
  info: StoreInfo | null = null;
  /** Why the store does not answer at the moment. */
  trouble: string | null = null;
  runs: Run[] = [];
  moreRuns = false;
  /** Recordings that were begun and not stored to the end. */
  incomplete: Execution[] = [];
  selected: string | null = null;
  log: LogWindow | null = null;
  stats: QueueStats | null = null;
  workers: readonly RegisteredWorker[] = [];
  notes: { items: LineNote[]; cursor: string | null } = { items: [], cursor: null };
  problems: Problem[] = [];
  intake: Intake = { state: "idle" };
  verdicts = new Map<string, Verdict | "checking">();
  speed: Speed;
  kills = 0;
  /** What a screen reader is told. */
  announcement = "";
  now = Date.now();

  readonly #store: Store;
  readonly #watch: WorkerWatch;
  readonly #pool: Workers;
  readonly #known = new Map<string, Run>();
  readonly #listeners = new Set<() => void>();
  #shown = RUNS_PAGE;
  #polling: Promise<void> | null = null;
  #problemCount = 0;

  constructor(store: Store, watch: WorkerWatch) {
    this.#store = store;
    this.#watch = watch;
    this.speed = rememberedSpeed();
    this.#pool = new Workers(store, {
      count: 3,
      speed: this.speed,
      isHidden: () => document.hidden,
      onTrouble: (what, error) => this.#note(what, error),
    });
  }

  get workerIds(): readonly string[] {
    return this.#pool.ids;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Picks up what an earlier visit left unfinished, and begins to work and to look. */
  async start(): Promise<void> {
    for (const status of ["pending", "running", "paused"] as const) {
      for await (const execution of this.#store.executions.list({ workflowId: REPLAY, status })) this.#take(execution);
    }
    for (const { execution } of this.#known.values()) {
      if (execution.status !== "pending") continue;
      await this.#guard(inputOf(execution).file, ensureStarted(this.#store, execution));
    }
    await this.#readIncomplete();
    await this.#poll();
    const wanted = new URLSearchParams(location.hash.slice(1)).get("run");
    const first = this.runs.find((run) => run.execution.id === wanted) ?? this.runs.find(isUnderWay) ?? this.runs[0];
    if (first) this.select(first.execution.id);
    this.#pool.start();
    this.#schedule();
    document.addEventListener("visibilitychange", () => void this.#pool.visibilityChanged());
    addEventListener("pagehide", () => this.#pool.stop());
    // A page that comes back from the back/forward cache has lost its store and its workers.
    addEventListener("pageshow", (event) => event.persisted && location.reload());
  }

  select(runId: string): void {
    const run = this.#known.get(runId);
    if (!run) return;
    this.selected = runId;
    this.log = new LogWindow(this.#store, runId, inputOf(run.execution).format);
    this.notes = { items: [], cursor: null };
    history.replaceState(null, "", `#run=${runId}`);
    this.#changed();
    void this.#onLog((log) => log.refresh(run.execution.lastSequence));
    void this.moreNotes();
  }

  showMoreRuns(): void {
    this.#shown += RUNS_PAGE;
    void this.#poll();
  }

  setSpeed(speed: Speed): void {
    this.speed = speed;
    this.#pool.setSpeed(speed);
    try {
      localStorage.setItem("speed", speed);
    } catch {
      // Only a preference.
    }
    this.#changed();
  }

  async takeFiles(files: Iterable<File>): Promise<void> {
    for (const file of files) {
      // The next file takes the place of the message, which must not go unseen.
      if (this.intake.state === "failed") this.#note(this.intake.file, new Error(this.intake.text));
      await this.take(file, { compare: true });
    }
  }

  async takeSample(): Promise<void> {
    await this.#guard("the sample", async () => {
      const response = await fetch("sample-session.jsonl");
      if (!response.ok) throw new Error(`the server answers ${response.status} for the sample`);
      await this.take(new File([await response.blob()], "sample-session.jsonl"), { compare: false });
    });
  }

  /** Stores a file as a recording and starts a run of it. A file that has been replayed to the end is compared with that run's log instead, if so wanted. */
  async take(file: File, { compare }: { compare: boolean }): Promise<void> {
    if (this.intake.state === "reading") {
      this.#note(file.name, new Error(`wait until ${this.intake.file} is stored, then drop this file again`));
      return;
    }
    this.#setIntake({ state: "reading", file: file.name, size: file.size, progress: { steps: 0, bytes: 0 } });
    try {
      // The browser may otherwise drop what is stored here when it runs out of room.
      void this.#guard("persistent storage", async () => void (await this.#store.persist()));
      const print = await fingerprint(file);
      const known = await completeRecording(this.#store, print);
      const runs = known ? this.runs.filter((run) => inputOf(run.execution).recordingId === known.id) : [];
      const open = runs.find(isUnderWay);
      const finished = compare ? runs.find((run) => run.execution.status === "completed") : undefined;
      if (open) {
        this.select(open.execution.id);
        this.#announce(`${file.name} is being replayed already.`);
      } else if (finished) {
        this.select(finished.execution.id);
        this.#setIntake({ state: "idle" });
        await this.verify(finished, file);
      } else {
        const recording = await storeRecording(this.#store, file, print, (progress) => {
          this.#setIntake({ state: "reading", file: file.name, size: file.size, progress });
        });
        await this.#begin(recording, file.name);
      }
      this.#setIntake({ state: "idle" });
    } catch (error) {
      this.#setIntake({ state: "failed", file: file.name, text: messageOf(error) });
      this.#announce(`${file.name} could not be taken.`);
    }
    await this.#guard("recordings", this.#readIncomplete());
  }

  async replayAgain(run: Run): Promise<void> {
    const { recordingId, file } = inputOf(run.execution);
    await this.#guard(file, async () => {
      const execution = await persist(() => this.#store.executions.get(recordingId));
      const recording = execution && asRecording(execution);
      if (!recording) throw new Error(`the recording ${recordingId} is not there`);
      await this.#begin(recording, file);
    });
  }

  async verify(run: Run, file?: File): Promise<void> {
    const { id } = run.execution;
    if (this.verdicts.get(id) === "checking") return;
    this.#setVerdict(id, "checking");
    try {
      const execution = (await this.#store.executions.get(id)) ?? run.execution;
      const verdict = await verify(this.#store, execution, file);
      this.#setVerdict(id, verdict);
      this.#announce(verdict.text);
    } catch (error) {
      this.verdicts.delete(id);
      this.#note("comparison", error);
    }
  }

  pause(run: Run): Promise<void> {
    return this.#setStatus(run, "paused", "paused on the page");
  }

  resume(run: Run): Promise<void> {
    return this.#setStatus(run, "running");
  }

  cancel(run: Run): Promise<void> {
    return this.#setStatus(run, "cancelled", "cancelled on the page");
  }

  async tryAgain(run: Run): Promise<void> {
    await this.#guard(inputOf(run.execution).file, async () => {
      if (run.item) await tryAgain(this.#store, run.item);
      await this.#poll();
    });
  }

  async forget(recording: Execution): Promise<void> {
    await this.#guard("recordings", async () => {
      const change = { status: "cancelled", reason: "given up on the page" } as const;
      await persist(() => this.#store.executions.setStatus(recording.id, change));
      await this.#readIncomplete();
    });
  }

  async moreNotes(): Promise<void> {
    const run = this.selected === null ? undefined : this.#known.get(this.selected);
    if (!run) return;
    const { recordingId, rejected, remarks } = inputOf(run.execution);
    if (rejected + remarks === 0) return;
    const { cursor } = this.notes;
    await this.#guard("the file's lines", async () => {
      const { items, nextCursor } = await this.#store.events.list({
        executionId: recordingId,
        types: ["x-rejected", "x-remark"],
        limit: NOTES_PAGE,
        ...(cursor === null ? {} : { cursor }),
      });
      if (this.selected !== run.execution.id || this.notes.cursor !== cursor) return;
      this.notes = { items: [...this.notes.items, ...items.map(lineNote)], cursor: nextCursor };
      this.#changed();
    });
  }

  logEarlier(): Promise<void> {
    return this.#onLog((log) => log.earlier());
  }

  logLater(): Promise<void> {
    return this.#onLog((log) => log.later());
  }

  followLog(): Promise<void> {
    return this.#onLog((log) => log.follow());
  }

  stayInLog(): void {
    if (!this.log?.following) return;
    this.log.stay();
    this.#changed();
  }

  killStoreWorker(): void {
    const killed = this.#watch.kill();
    if (killed) this.kills++;
    this.#announce(killed ? "The store's worker was terminated." : "The next worker has not started yet.");
  }

  async #begin(recording: Parameters<typeof startRun>[1], file: string): Promise<void> {
    const execution = await startRun(this.#store, recording, file);
    this.#take(execution);
    this.#arrange();
    this.select(execution.id);
    this.#announce(`The replay of ${file} starts: ${recording.steps} steps.`);
    await this.#poll();
  }

  async #setStatus(run: Run, status: "paused" | "running" | "cancelled", reason?: string): Promise<void> {
    await this.#guard(inputOf(run.execution).file, async () => {
      const change = { status, ...(reason === undefined ? {} : { reason }) };
      const execution = await persist(() => this.#store.executions.setStatus(run.execution.id, change));
      this.#take(execution);
      this.#arrange();
    });
  }

  async #onLog(move: (log: LogWindow) => Promise<void>): Promise<void> {
    if (!this.log) return;
    await this.#guard("the log", move(this.log));
    this.#changed();
  }

  #schedule(): void {
    setTimeout(async () => {
      if (!document.hidden) await this.#poll();
      this.#schedule();
    }, POLL_MS);
  }

  /** One look at the store. A call that comes while one is under way waits for the next one. */
  async #poll(): Promise<void> {
    while (this.#polling) await this.#polling;
    this.#polling = this.#look().finally(() => (this.#polling = null));
    await this.#polling;
  }

  async #look(): Promise<void> {
    const store = this.#store;
    try {
      const [info, list, stats, workers] = await Promise.all([
        this.info ?? store.info(),
        store.executions.list({ workflowId: REPLAY, order: "desc", limit: this.#shown }),
        store.queues.stats({}),
        store.workers.list({ pool: POOL }),
      ]);
      this.info = info;
      this.stats = stats;
      this.workers = workers.items;
      this.moreRuns = list.nextCursor !== null;
      const listed = new Set(list.items.map((execution) => execution.id));
      // Runs that are under way but too old to be listed are looked at one by one.
      const older = [...this.#known.values()].filter((run) => isUnderWay(run) && !listed.has(run.execution.id));
      const others = await Promise.all(older.map((run) => store.executions.get(run.execution.id)));
      for (const execution of [...list.items, ...others]) if (execution) this.#take(execution);
      await Promise.all([...this.#known.values()].filter(isUnsettled).map((run) => this.#readProgress(run)));
      this.#arrange();
      const run = this.selected === null ? undefined : this.#known.get(this.selected);
      if (run && this.log?.runId === run.execution.id) await this.log.refresh(run.execution.lastSequence);
      this.trouble = null;
    } catch (error) {
      this.trouble = messageOf(error);
    }
    this.#changed();
  }

  /** Each completed step enqueues the next item, so the newest item of a run tells how far it is. */
  async #readProgress(run: Run): Promise<void> {
    const { items } = await this.#store.queue.list({ executionId: run.execution.id, order: "desc", limit: 1 });
    const item = items[0];
    if (!item) return;
    const { step } = payloadOf(item);
    this.#known.set(run.execution.id, { ...run, item, done: item.status === "completed" ? step : step - 1 });
  }

  async #readIncomplete(): Promise<void> {
    const found: Execution[] = [];
    for (const status of ["pending", "running"] as const) {
      for await (const execution of this.#store.executions.list({ workflowId: RECORDING, status })) found.push(execution);
    }
    this.incomplete = found;
    this.#changed();
  }

  #take(execution: Execution): void {
    const before = this.#known.get(execution.id);
    const { steps } = inputOf(execution);
    const done = execution.status === "completed" ? steps : (before?.done ?? 0);
    if (before && isUnderWay(before) && execution.status === "completed") {
      this.#announce(`The replay of ${inputOf(execution).file} is complete: ${steps} steps.`);
    }
    this.#known.set(execution.id, { ...before, execution, done, steps });
  }

  /** Puts the runs in order, newest first, and tells the workers which of them are under way. */
  #arrange(): void {
    this.runs = [...this.#known.values()].sort((a, b) => b.execution.createdAt - a.execution.createdAt);
    this.#pool.setRuns(
      this.runs.filter((run) => ["pending", "running"].includes(run.execution.status)).map((run) => run.execution.id),
    );
  }

  #setIntake(intake: Intake): void {
    this.intake = intake;
    this.#changed();
  }

  #setVerdict(runId: string, verdict: Verdict | "checking"): void {
    this.verdicts.set(runId, verdict);
    this.#changed();
  }

  #announce(text: string): void {
    this.announcement = text;
    this.#changed();
  }

  async #guard(what: string, work: PromiseLike<void> | (() => Promise<void>)): Promise<void> {
    try {
      await (typeof work === "function" ? work() : work);
    } catch (error) {
      this.#note(what, error);
    }
  }

  #note(what: string, error: unknown): void {
    const problem = { id: ++this.#problemCount, at: Date.now(), what, text: messageOf(error) };
    this.problems = [problem, ...this.problems].slice(0, MOST_PROBLEMS);
    this.#changed();
  }

  #changed(): void {
    this.now = Date.now();
    for (const listener of this.#listeners) listener();
  }
}

export function isUnderWay(run: Run): boolean {
  return !isFinished(run.execution);
}

/** Whether a run's newest item may still tell something new: one that was cancelled or failed is asked once how far it came. */
function isUnsettled(run: Run): boolean {
  return isUnderWay(run) || (run.execution.status !== "completed" && (!run.item || !isSettled(run.item)));
}

function isSettled(item: WorkItem): boolean {
  return ["completed", "cancelled", "dead_lettered"].includes(item.status);
}

function lineNote(event: Event): LineNote {
  const { line, reason } = event.data as unknown as LineNote;
  return { line, reason, rejected: event.type === "x-rejected" };
}

function rememberedSpeed(): Speed {
  try {
    const speed = localStorage.getItem("speed");
    return speed !== null && Object.hasOwn(speeds, speed) ? (speed as Speed) : "normal";
  } catch {
    return "normal";
  }
}
