import type { ClaimedItem, EnqueueItem, EventInput, Execution, Store, WorkItem } from "runkeep";
import { codeOf, isFinal, messageOf, pause, persist } from "./errors.js";
import { nextRecord, type Recording } from "./recording.js";
import type { Format } from "./sessions/index.js";

/**
 * A replay is an execution that walks through a recording, one work item a step. Completing step k appends its record to
 * the run's log and enqueues step k + 1 in one transaction, so however often a worker, the store or the browser dies,
 * the log holds each step once and in order.
 */
export const REPLAY = "session-replay";

export type RunInput = {
  recordingId: string;
  file: string;
  format: Format;
  steps: number;
  rejected: number;
  remarks: number;
};

/** What a work item says: which step it is, and after which sequence of the recording's log its record stands. */
export type StepPayload = { recordingId: string; step: number; steps: number; after: number };

export function inputOf(run: Execution): RunInput {
  return run.input as unknown as RunInput;
}

export function payloadOf(item: WorkItem): StepPayload {
  return item.payload as StepPayload;
}

export function isFinished(run: Execution): boolean {
  return !["pending", "running", "paused"].includes(run.status);
}

/** One queue a run: pausing a run is then not to claim from its queue, and its item waits there as it is. */
export function queueOf(runId: string): string {
  return `replay/${runId}`;
}

export async function startRun(store: Store, recording: Recording, file: string): Promise<Execution> {
  const { id: recordingId, format, steps, rejected, remarks } = recording;
  const input: RunInput = { recordingId, file, format, steps, rejected, remarks };
  const id = crypto.randomUUID();
  const run = await persist(() =>
    store.executions.create({ id, workflowId: REPLAY, workflowVersion: "1", input }),
  );
  await ensureStarted(store, run);
  return run;
}

/** Enqueues a run's first step, if a crash came between the creation of the run and that. Both name their ids, so doing it again changes nothing. */
export async function ensureStarted(store: Store, run: Execution): Promise<void> {
  const { recordingId, steps } = inputOf(run);
  await persist(() => store.queue.enqueue(stepItem(run.id, { recordingId, step: 1, steps, after: 0 })));
}

/** A further try at a step whose item was dead-lettered. */
export async function tryAgain(store: Store, item: WorkItem): Promise<void> {
  const next = stepItem(item.executionId!, payloadOf(item));
  await persist(() => store.queue.enqueue({ ...next, id: `${item.id}+` }));
}

function stepItem(runId: string, payload: StepPayload): EnqueueItem {
  return {
    id: `${runId}/step-${payload.step}`,
    executionId: runId,
    nodeId: `step-${payload.step}`,
    queue: queueOf(runId),
    payload,
    // A reload in the middle of a step costs an attempt, and no number of reloads should end a run.
    maxAttempts: 50,
    backoff: { kind: "fixed", baseMs: 250 },
  };
}

export const speeds = { slow: 2000, normal: 500, fast: 100, max: 0 } as const;
export type Speed = keyof typeof speeds;

export interface WorkersOptions {
  count: number;
  speed: Speed;
  /** How long a worker that vanished keeps its step from the others. */
  leaseMs?: number;
  /** A hidden page's timers may fire once a minute, so its leases and registrations have to last longer. */
  isHidden(): boolean;
  onTrouble(what: string, error: unknown): void;
}

const LIVENESS_MS = 15_000;
const HIDDEN_MS = 150_000;
const IDLE_MS = 500;

export const POOL = "console";

/** The workers of this page. They claim from the queues of the runs that are under way. */
export class Workers {
  readonly ids: readonly string[];
  readonly #store: Store;
  readonly #options: Required<WorkersOptions>;
  readonly #held = new Map<string, { item: ClaimedItem; interrupt: AbortController }>();
  readonly #bell = new Bell();
  readonly #stop = new AbortController();
  #paceChanged = new AbortController();
  #queues: readonly string[] = [];
  #speed: Speed;

  constructor(store: Store, options: WorkersOptions) {
    this.#store = store;
    this.#options = { leaseMs: 5000, ...options };
    this.#speed = options.speed;
    // Unique per boot: a worker that reused the name of a dead one would inherit its leases.
    const boot = crypto.randomUUID().slice(0, 8);
    this.ids = Array.from({ length: options.count }, (_, i) => `${POOL}-${boot}-${i + 1}`);
  }

  start(): void {
    for (const id of this.ids) void this.#work(id);
  }

  /** Says on a page's way out that its workers are gone, so that nobody waits for their leases to run out. */
  stop(): void {
    this.#stop.abort();
    this.#bell.close();
    for (const workerId of this.ids) {
      this.#store.workers.markDead({ workerId, reason: "page closed" }).then(undefined, () => {
        // Nobody is left to tell; the leases run out by themselves.
      });
    }
  }

  setSpeed(speed: Speed): void {
    this.#speed = speed;
    this.#paceChanged.abort();
    this.#paceChanged = new AbortController();
  }

  /** The runs to work on. A step in hand of a run that is not among them is given back. */
  setRuns(runIds: readonly string[]): void {
    const queues = runIds.map(queueOf);
    const isNews = queues.some((queue) => !this.#queues.includes(queue));
    this.#queues = queues;
    for (const { item, interrupt } of this.#held.values()) {
      if (!runIds.includes(item.executionId!)) interrupt.abort();
    }
    if (isNews) this.#bell.ring();
  }

  /** Called when the page is shown or hidden: takes the leases in hand to the length that now fits. */
  async visibilityChanged(): Promise<void> {
    for (const { item } of this.#held.values()) await this.#renew(item).catch((error: unknown) => this.#trouble("renew", error));
  }

  get #leaseMs(): number {
    return this.#options.isHidden() ? HIDDEN_MS : this.#options.leaseMs;
  }

  async #work(workerId: string): Promise<void> {
    const registration = new Registration(this.#store, workerId);
    for (let failures = 0; !this.#stop.signal.aborted; ) {
      const queues = this.#queues;
      try {
        await registration.refresh(queues, this.#options.isHidden() ? HIDDEN_MS : LIVENESS_MS);
        const claimed =
          queues.length === 0 ? [] : await this.#store.queue.claim({ workerId, queues: [...queues], leaseMs: this.#leaseMs });
        for (const item of claimed) await this.#step(workerId, item);
        failures = 0;
        // The rest of the pool goes first: the worker that rang stands at the end of the line.
        if (claimed.length > 0) this.#bell.ring();
        await this.#bell.wait(IDLE_MS);
      } catch (error) {
        this.#trouble(workerId, error);
        await pause(Math.min(200 * 2 ** failures++, 3000), this.#stop.signal);
      }
    }
  }

  async #step(workerId: string, item: ClaimedItem): Promise<void> {
    const interrupt = new AbortController();
    this.#held.set(workerId, { item, interrupt });
    try {
      if (!this.#queues.includes(item.queue)) interrupt.abort();
      if (await this.#paced(item, interrupt.signal)) {
        await this.#complete(item);
      } else if (!this.#stop.signal.aborted) {
        await this.#store.queue.release(item, { reason: "the run was paused or cancelled" });
      }
    } catch (error) {
      if (!isFinal(error)) throw error;
      this.#trouble(`${workerId}, ${item.nodeId}`, error);
      // Another delivery does this step, or has done it.
      if (codeOf(error) === "lease_lost" || codeOf(error) === "conflict") return;
      const told = { message: messageOf(error), code: codeOf(error) ?? "internal" };
      await this.#store.queue.fail(item, { error: told, retryable: false });
    } finally {
      this.#held.delete(workerId);
    }
  }

  /** Waits for the step's time, keeping the lease. False if the step is to be given back. */
  async #paced(item: ClaimedItem, interrupted: AbortSignal): Promise<boolean> {
    const began = performance.now();
    let renewed = began;
    for (;;) {
      if (interrupted.aborted || this.#stop.signal.aborted) return false;
      const now = performance.now();
      const rest = began + speeds[this.#speed] - now;
      if (rest <= 0) return true;
      const untilRenewal = renewed + this.#options.leaseMs / 3 - now;
      if (untilRenewal <= 0) {
        if (await this.#renew(item)) return false;
        renewed = performance.now();
      } else {
        await pause(
          Math.min(rest, untilRenewal),
          AbortSignal.any([interrupted, this.#stop.signal, this.#paceChanged.signal]),
        );
      }
    }
  }

  /** True if somebody asked to cancel the item. */
  async #renew(item: ClaimedItem): Promise<boolean> {
    const { cancelRequested } = await this.#store.queue.renew(item, { leaseMs: this.#leaseMs });
    return cancelRequested;
  }

  async #complete(item: ClaimedItem): Promise<void> {
    const { recordingId, step, steps, after } = payloadOf(item);
    const runId = item.executionId!;
    const found = await nextRecord(this.#store, recordingId, after);
    if (found === null || found.recorded.step !== step) {
      throw Object.assign(new Error(`step ${step} is missing from recording ${recordingId}`), { code: "not_found" });
    }
    const { kind, line, record } = found.recorded;
    const events: EventInput[] = [{ type: `x-session.${kind}`, data: { step, line, record } }];
    if (step === 1) {
      const initialInput = { recordingId, steps };
      events.unshift({ type: "workflow_started", data: { workflowId: REPLAY, workflowVersion: "1", initialInput } });
    }
    if (step === steps) events.push({ type: "workflow_completed", data: { output: { steps } } });
    const enqueue = step < steps ? [stepItem(runId, { recordingId, step: step + 1, steps, after: found.sequence })] : [];
    // The same call under the same fence answers the same: an answer that was lost is asked for again.
    await persist(() => this.#store.queue.complete(item, { events, enqueue }), (error) => this.#trouble(item.nodeId!, error));
  }

  #trouble(what: string, error: unknown): void {
    if (!this.#stop.signal.aborted) this.#options.onTrouble(what, error);
  }
}

/** A worker's row in the registry: registered once its queues are known, again when they change, and kept alive in between. */
class Registration {
  readonly #store: Store;
  readonly #workerId: string;
  #registered = "";
  #nextHeartbeat = 0;

  constructor(store: Store, workerId: string) {
    this.#store = store;
    this.#workerId = workerId;
  }

  async refresh(queues: readonly string[], livenessTtlMs: number): Promise<void> {
    const workerId = this.#workerId;
    const wanted = JSON.stringify([queues, livenessTtlMs]);
    const now = performance.now();
    if (wanted !== this.#registered) {
      await this.#store.workers.register({
        workerId,
        pool: POOL,
        queues: [...queues],
        capabilities: [],
        livenessTtlMs,
      });
      this.#registered = wanted;
    } else if (now >= this.#nextHeartbeat) {
      const { outcome } = await this.#store.workers.heartbeat({ workerId });
      if (outcome === "not_registered") {
        this.#registered = "";
        return this.refresh(queues, livenessTtlMs);
      }
    } else {
      return;
    }
    this.#nextHeartbeat = now + livenessTtlMs / 3;
  }
}

/** Lets workers wait in line for work. A ring with nobody waiting is kept for the next who comes. */
class Bell {
  #line: (() => void)[] = [];
  #rung = false;
  #closed = false;

  ring(): void {
    const first = this.#line.shift();
    if (first) first();
    else this.#rung = true;
  }

  close(): void {
    this.#closed = true;
    for (const leave of this.#line.splice(0)) leave();
  }

  wait(ms: number): Promise<void> {
    if (this.#rung || this.#closed) {
      this.#rung = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const leave = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#line = this.#line.filter((each) => each !== leave);
        resolve();
      }, ms);
      this.#line.push(leave);
    });
  }
}
