// Written by `npm run bindings` from the Rust types and src/operation.rs. Do not edit.
import type { CallOptions, List } from "./calls.js";

/** A JSON document as it comes back. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** A JSON document as it may be given: a Date becomes its ISO string, members that are undefined vanish. What JSON cannot hold is refused. */
export type JsonInput = unknown;

/** An item under a lease. */
export type ClaimedItem = WorkItem & { status: "claimed"; workerId: string; claimedAt: number; leaseExpiresAt: number };

/** What names the lease of an item; a claimed item may be passed whole. */
export type Lease = { readonly id: string; readonly fence: number };

/** How a method's arguments become those of its operation. */
export interface OperationShape {
  readonly subject: readonly string[];
  readonly orObject?: true;
  readonly array?: string;
  readonly list?: true;
  readonly writes: boolean;
}

export const operations = {
  "executions.create": { subject: [], writes: true },
  "executions.get": { subject: ["id"], writes: false },
  "executions.list": { subject: [], list: true, writes: false },
  "executions.setStatus": { subject: ["id"], writes: true },
  "executions.materialize": { subject: ["id"], writes: false },
  "events.append": { subject: ["executionId"], writes: true },
  "events.appendMany": { subject: ["executionId"], array: "events", writes: true },
  "events.list": { subject: [], list: true, writes: false },
  "events.latestSequence": { subject: ["executionId"], writes: false },
  "queue.enqueue": { subject: [], writes: true },
  "queue.enqueueMany": { subject: [], array: "items", writes: true },
  "queue.claim": { subject: [], writes: true },
  "queue.renew": { subject: ["id", "fence"], writes: true },
  "queue.complete": { subject: ["id", "fence"], writes: true },
  "queue.fail": { subject: ["id", "fence"], writes: true },
  "queue.release": { subject: ["id", "fence"], writes: true },
  "queue.cancel": { subject: ["id"], writes: true },
  "queue.get": { subject: ["id"], writes: false },
  "queue.list": { subject: [], list: true, writes: false },
  "queue.attempts": { subject: ["id"], writes: false },
  "queues.list": { subject: [], list: true, writes: false },
  "queues.configure": { subject: ["name"], writes: true },
  "queues.pause": { subject: ["name"], writes: true },
  "queues.resume": { subject: ["name"], writes: true },
  "queues.hold": { subject: ["name"], writes: true },
  "queues.stats": { subject: [], writes: false },
  "deadLetters.list": { subject: [], list: true, writes: false },
  "deadLetters.redrive": { subject: ["id"], orObject: true, writes: true },
  "deadLetters.delete": { subject: ["id"], writes: true },
  "leases.listExpired": { subject: [], list: true, writes: false },
  "workers.register": { subject: [], writes: true },
  "workers.heartbeat": { subject: [], writes: true },
  "workers.markDead": { subject: [], writes: true },
  "workers.history": { subject: [], list: true, writes: false },
  "workers.list": { subject: [], list: true, writes: false },
  "retention.get": { subject: [], writes: false },
  "retention.set": { subject: [], writes: true },
  "sweep": { subject: [], writes: true },
} as const satisfies Record<string, OperationShape>;

export type AppendEvent = { executionId: Name, 
/**
 * A known type, or one of your own that begins with `x-`.
 */
type: Name, data?: JsonInput, 
/**
 * Made by the store unless given. The same id with the same arguments answers the event that exists.
 */
id?: Name, 
/**
 * Appends only if this is the log's last sequence; `conflict` otherwise.
 */
expectedSequence?: number, };

export type AppendEvents = { executionId: Name, events: Array<EventInput>, expectedSequence?: number, };

/** A delivery that did not complete. */
export type Attempt = { attempt: number, fence: number, workerId: string, namespace: string, 
/**
 * Unix milliseconds.
 */
claimedAt: number, 
/**
 * Unix milliseconds.
 */
endedAt: number, outcome: AttemptOutcome, error?: JsonValue, };

/** How a delivery ended that did not complete. */
export type AttemptOutcome = "failed" | "lease_expired" | "released" | "cancelled";

/** The delay before the next attempt: by default 1 s, doubled with each attempt, at most 64 s, without jitter. */
export type Backoff = { kind: BackoffKind, 
/**
 * Milliseconds; 1000 unless given.
 */
baseMs?: number, 
/**
 * 2 unless given; exponential only.
 */
factor?: number, 
/**
 * Milliseconds; 64,000 unless given, or `baseMs` where that is more.
 */
maxMs?: number, 
/**
 * 0 to 1: the part of the delay that is left to chance; 0 unless given.
 */
jitter?: number, };

/** How the delay before the next attempt grows. */
export type BackoffKind = "exponential" | "fixed" | "linear";

/** What the run has used so far. Tokens and costs are those of its `node_completed` events. */
export type Budget = { inputTokens: number, outputTokens: number, 
/**
 * US dollars.
 */
costUsd: number, iterations: number, toolCalls: number, consecutiveErrors: number, circuitBreakerTripped: boolean, };

/** A request for work. */
export type ClaimItems = { workerId: Name, 
/**
 * `default` unless given.
 */
namespace?: Name, 
/**
 * The queues to claim from; none means no items.
 */
queues: Array<Name>, 
/**
 * 1 to 1000; 1 unless given.
 */
limit?: number, 
/**
 * Milliseconds that the worker has before it must renew or settle; 30,000 unless given.
 */
leaseMs?: number, 
/**
 * Milliseconds to wait for an item where there is none, at most 10 minutes; 0 unless given. In Rust, `claim` answers at once and
 * `claim_waiting` waits.
 */
waitMs?: number, };

/** Settles an item, with what follows from it, in one transaction. */
export type CompleteItem = { id: Name, fence: number, output?: JsonInput, 
/**
 * Appended to the log of the item's execution.
 */
events?: Array<EventInput>, 
/**
 * An RFC 7396 merge patch for the state of the item's execution, applied before `events`.
 */
statePatch?: JsonInput, 
/**
 * Items to enqueue.
 */
enqueue?: Array<EnqueueItem>, };

export type Completed = { status: ItemStatus, 
/**
 * Whether the lease had run out already, and nobody had noticed.
 */
late: boolean, 
/**
 * The last sequence of the execution's log, where the item has one.
 */
lastSequence?: number, 
/**
 * The items of `enqueue`, in order.
 */
enqueued: Array<EnqueuedItem>, 
/**
 * Whether the execution had ended, so that its statePatch and its items of `enqueue` were dropped.
 */
dropped: boolean, };

/** Settings to change. What is left out stays, null clears. */
export type ConfigureQueue = { name: Name, concurrency?: number | null, keyConcurrency?: number | null, rateLimit?: QueueRate | null, keyRateLimit?: QueueRate | null, maxAttempts?: number | null, backoff?: Backoff | null, };

/** A new execution. It starts `pending`. */
export type CreateExecution = { 
/**
 * Made by the store unless given. The same id with the same arguments answers the execution that exists.
 */
id?: Name, workflowId: Name, workflowVersion?: Name, 
/**
 * Any JSON; null unless given.
 */
input?: JsonInput, sessionType?: SessionType, parentId?: Name, tags?: Array<Name>, metadata?: JsonInput, };

/** A record, and whether this call made it. */
export type Created<T> = { 
/**
 * False where the same call had been made before, and its record is answered again.
 */
created: boolean, } & T;

/** A row that cannot be read. */
export type Damaged = { table: string, id: string, reason: string, };

export type DeadLetterId = { id: Name, };

/** A new work item. */
export type EnqueueItem = { 
/**
 * Made by the store unless given. The same id with the same arguments answers the item that exists.
 */
id?: Name, 
/**
 * The execution that the item belongs to; its log tells of retries, failures and cancellations.
 */
executionId?: Name, 
/**
 * Required with `executionId`.
 */
nodeId?: Name, queue: Name, 
/**
 * Any JSON; null unless given.
 */
payload?: JsonInput, 
/**
 * Higher first; 0 unless given.
 */
priority?: number, 
/**
 * Only a registered worker with all these capabilities gets the item.
 */
requires?: Array<Name>, 
/**
 * At least 1; the queue's unless given, or 3.
 */
maxAttempts?: number, 
/**
 * Unix milliseconds: not before this. At once unless given.
 */
runAt?: number, 
/**
 * Milliseconds from now; instead of `runAt`.
 */
delayMs?: number, 
/**
 * The queue's unless given.
 */
backoff?: Backoff, 
/**
 * An item of the queue under the same key that is not finished is answered instead of making another.
 */
idempotencyKey?: Name, 
/**
 * With `ever`, finished items count too.
 */
uniqueFor?: UniqueFor, 
/**
 * Items that share it share the limits that the queue sets for one key.
 */
concurrencyKey?: Name, };

export type EnqueueItems = { items: Array<EnqueueItem>, };

export type EnqueuedItem = { id: string, created: boolean, };

/** What went wrong, as a word that programs can act on. In JSON and in JavaScript each is the snake_case form of its name. */
export type ErrorCode = "invalid_argument" | "not_found" | "conflict" | "invalid_transition" | "lease_lost" | "too_large" | "limit_exceeded" | "tenant_suspended" | "quota_exceeded" | "storage_unavailable" | "storage_lost" | "busy" | "timeout" | "schema_too_new" | "corrupt" | "closed" | "unsupported" | "nondeterminism" | "internal";

/** One fact in the log of an execution. */
export type Event = { id: string, executionId: string, 
/**
 * 1, 2, 3 … per execution, without gaps.
 */
sequence: number, type: string, data: JsonValue, 
/**
 * Unix milliseconds.
 */
createdAt: number, };

/** An event of a list of them. */
export type EventInput = { type: Name, data?: JsonInput, id?: Name, };

/** One run of a workflow or an agent. */
export type Execution = { id: string, tenantId: string, workflowId: string, workflowVersion?: string, status: ExecutionStatus, input: JsonValue, 
/**
 * What the events of the log have made of the state so far; `{}` at first.
 */
state: JsonValue, output?: JsonValue, sessionType?: SessionType, parentId?: string, 
/**
 * 0 for a run that was started, one more with each continuation.
 */
segment: number, 
/**
 * A string, or `{message, code?, stack?}`, as the event that failed the run gave it.
 */
error?: JsonValue, tags: Array<string>, metadata?: JsonValue, 
/**
 * The sequence of the newest event; 0 without any.
 */
lastSequence: number, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds: when it first ran.
 */
startedAt?: number, 
/**
 * Unix milliseconds: when the newest event was appended.
 */
updatedAt: number, 
/**
 * Unix milliseconds: when it ended.
 */
completedAt?: number, };

export type ExecutionId = { id: Name, };

/** Where an execution stands. The last four are terminal: nothing leaves them. */
export type ExecutionStatus = "pending" | "running" | "paused" | "completed" | "failed" | "cancelled" | "limit_exceeded";

/** A claimed item whose lease has run out. Nothing has been done about it yet. */
export type ExpiredLease = { id: string, executionId?: string, queue: string, fence: number, workerId: string, namespace: string, attempt: number, 
/**
 * Unix milliseconds.
 */
leaseExpiresAt: number, };

/** Ends the delivery as failed. */
export type FailItem = { id: Name, fence: number, 
/**
 * A string, or `{message, code?, stack?}`.
 */
error: JsonInput, 
/**
 * False sends the item to the dead letters at once; true unless given.
 */
retryable?: boolean, 
/**
 * Milliseconds until the next attempt, instead of the backoff.
 */
delayMs?: number, 
/**
 * Appended to the log of the item's execution.
 */
events?: Array<EventInput>, };

export type FailOutcome = "retry_scheduled" | "dead_lettered" | "cancelled";

export type Failed = { outcome: FailOutcome, 
/**
 * Unix milliseconds: when it can be claimed again.
 */
runAt?: number, 
/**
 * Whether the lease had run out already, and nobody had noticed.
 */
late: boolean, };

export type GetRetention = Record<symbol, never>;

export type Heartbeat = { outcome: HeartbeatOutcome, 
/**
 * Unix milliseconds: dead from then on without another heartbeat.
 */
nextExpiryAt?: number, };

export type HeartbeatOutcome = "refreshed" | "not_registered";

/** One change of a worker's registration. */
export type HistoryEntry = { workerId: string, namespace: string, pool: string, change: WorkerChange, reason?: string, 
/**
 * Unix milliseconds.
 */
at: number, };

/** Holds a queue, or one concurrency key of it, back until a time. */
export type HoldQueue = { name: Name, 
/**
 * The whole queue unless given.
 */
key?: Name, 
/**
 * Unix milliseconds, in the future; null lets go.
 */
until: number | null, };

export type ItemCounts = { scheduled: number, pending: number, claimed: number, completed: number, dead_lettered: number, cancelled: number, };

export type ItemId = { id: Name, };

/** Where a work item stands. */
export type ItemStatus = "scheduled" | "pending" | "claimed" | "completed" | "dead_lettered" | "cancelled";

export type LatestSequence = { executionId: Name, };

/** Which dead letters to list; without members, all of them. */
export type ListDeadLetters = { queue?: Name, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which events of an execution to list. */
export type ListEvents = { executionId: Name, 
/**
 * Only events with a larger sequence.
 */
after?: number, 
/**
 * Only events of these types.
 */
types?: Array<Name>, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which executions to list; without members, all of them. */
export type ListExecutions = { status?: ExecutionStatus, workflowId?: Name, parentId?: Name, tag?: Name, 
/**
 * Unix milliseconds, exclusive.
 */
createdAfter?: number, 
/**
 * Unix milliseconds, exclusive.
 */
createdBefore?: number, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which expired leases to list. */
export type ListExpiredLeases = { 
/**
 * Unix milliseconds: leases that end up to then; now unless given.
 */
asOf?: number, 
/**
 * All namespaces unless given.
 */
namespace?: Name, 
/**
 * 1 to 10,000; 1000 unless given.
 */
limit?: number, cursor?: string, };

/** Which changes to list; without members, all of them. */
export type ListHistory = { namespace?: Name, workerId?: Name, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which items to list; without members, all of them. */
export type ListItems = { queue?: Name, status?: ItemStatus, executionId?: Name, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which queues to list. */
export type ListQueues = { 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which live workers to list; without members, all of them. */
export type ListWorkers = { 
/**
 * All namespaces unless given.
 */
namespace?: Name, pool?: Name, queue?: Name, capability?: Name, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

export type MarkDeadOutcome = "marked" | "not_registered";

export type MarkWorkerDead = { workerId: Name, 
/**
 * `default` unless given.
 */
namespace?: Name, 
/**
 * At most 256 bytes, no control characters.
 */
reason: string, 
/**
 * Whether its leases end at once, by the rule for expired ones; true unless given.
 */
releaseLeases?: boolean, };

export type MarkedDead = { outcome: MarkDeadOutcome, 
/**
 * How many of its leases ended by it.
 */
leasesEnded: number, };

export type Materialize = { id: Name, 
/**
 * The sequence as of which to fold; the whole log unless given.
 */
at?: number, };

/** An execution as its log tells it, as of one sequence. */
export type Materialized = { status: ExecutionStatus, state: JsonValue, output?: JsonValue, 
/**
 * The nodes that completed, with their outputs.
 */
completedNodes: { [key in string]: JsonValue }, 
/**
 * The nodes that are scheduled or started, sorted.
 */
activeNodes: Array<string>, budget: Budget, 
/**
 * What waits for a decision, oldest first.
 */
pendingApprovals: Array<PendingApproval>, lastSequence: number, };

/** An id or a name: 1 to 256 bytes of UTF-8 without control characters. */
export type Name = string;

/** The direction of a list. */
export type Order = "asc" | "desc";

/** One page of a list. */
export type Page<T> = { items: Array<T>, 
/**
 * Where the next page begins; null at the end.
 */
nextCursor: string | null, 
/**
 * Rows of this page that cannot be read. The others are all in `items`.
 */
damaged?: Array<Damaged>, };

export type PendingApproval = { approvalId: string, nodeId: string, toolName?: string, 
/**
 * The event that asks.
 */
sequence: number, };

/** A queue and its settings. */
export type QueueInfo = { name: string, paused: boolean, 
/**
 * Unix milliseconds: nothing of the queue is claimed before.
 */
heldUntil?: number, 
/**
 * How many of its items may be claimed at the same time.
 */
concurrency?: number, 
/**
 * How many items of one concurrency key may be claimed at the same time.
 */
keyConcurrency?: number, 
/**
 * How fast items are handed out.
 */
rateLimit?: QueueRate, 
/**
 * How fast items of one concurrency key are handed out.
 */
keyRateLimit?: QueueRate, 
/**
 * For items that are enqueued without one of their own.
 */
maxAttempts?: number, 
/**
 * For items without one of their own.
 */
backoff?: Backoff, };

export type QueueName = { name: Name, };

/** A token bucket: `limit` items at once, refilled evenly over `perMs`. */
export type QueueRate = { 
/**
 * At least 1.
 */
limit: number, 
/**
 * Milliseconds, at least 1.
 */
perMs: number, };

/** How many items stand where. */
export type QueueStats = { counts: ItemCounts, 
/**
 * Unix milliseconds: since when the item that waits longest could be claimed.
 */
oldestPendingAt?: number, };

/** Gives dead letters another life. */
export type Redrive = { 
/**
 * One of them.
 */
id?: Name, 
/**
 * All of a queue; give either this or `id`.
 */
queue?: Name, 
/**
 * Takes the place of the payload.
 */
payload?: JsonInput, };

export type Redriven = { 
/**
 * How many items are pending again.
 */
redriven: number, 
/**
 * Items of the queue that stay where they are, and why.
 */
refused: Array<Refused>, };

export type Refused = { id: string, code: ErrorCode, message: string, };

export type RegisterOutcome = "registered" | "refreshed";

/** Registers a worker, or refreshes the registration of a live one. */
export type RegisterWorker = { 
/**
 * One live process or tab; unique per boot.
 */
workerId: Name, 
/**
 * The logical group that it belongs to.
 */
pool: Name, queues: Array<Name>, capabilities: Array<Name>, 
/**
 * Milliseconds for which it counts as alive after a heartbeat.
 */
livenessTtlMs: number, 
/**
 * `default` unless given.
 */
namespace?: Name, metadata?: JsonInput, };

export type Registered = { outcome: RegisterOutcome, 
/**
 * Unix milliseconds: dead from then on without a heartbeat.
 */
nextExpiryAt: number, };

/** Gives the item back. The attempt is not counted. */
export type ReleaseItem = { id: Name, fence: number, 
/**
 * Milliseconds until it can be claimed again; 0 unless given.
 */
delayMs?: number, 
/**
 * At most 256 bytes, no control characters.
 */
reason?: string, };

export type ReleaseOutcome = "released" | "cancelled";

export type Released = { outcome: ReleaseOutcome, 
/**
 * Unix milliseconds: when it can be claimed again.
 */
runAt?: number, 
/**
 * Whether the lease had run out already, and nobody had noticed.
 */
late: boolean, };

/** Keeps the lease for longer. */
export type RenewLease = { id: Name, fence: number, 
/**
 * Milliseconds from now; the length of the claim's lease unless given.
 */
leaseMs?: number, 
/**
 * Any JSON, kept on the item and shown to the next attempt.
 */
progress?: JsonInput, };

export type Renewed = { 
/**
 * Unix milliseconds.
 */
leaseExpiresAt: number, 
/**
 * Whether somebody asked to cancel the item: stop, and `release` or `fail` it.
 */
cancelRequested: boolean, 
/**
 * Whether the lease had run out already, and nobody had noticed.
 */
late: boolean, };

/** Milliseconds for which finished things are kept; what has no time is kept for ever. */
export type RetentionTimes = { 
/**
 * Executions that have ended, with their log.
 */
executionsMs?: number, 
/**
 * Work items that completed or were cancelled.
 */
itemsMs?: number, 
/**
 * Records of deliveries that did not complete.
 */
attemptsMs?: number, deadLettersMs?: number, 
/**
 * Changes in the registry of workers.
 */
historyMs?: number, };

/** What kind of session the execution is. The store keeps it and does nothing by it. */
export type SessionType = "stateless" | "resumable" | "persistent_governed" | "ephemeral" | "approval_gated";

/** Times to change. What is left out stays; null keeps for ever again. */
export type SetRetention = { executionsMs?: number | null, itemsMs?: number | null, attemptsMs?: number | null, deadLettersMs?: number | null, historyMs?: number | null, };

/** A change of status by command. */
export type SetStatus = { id: Name, status: ExecutionStatus, 
/**
 * Kept in the event.
 */
reason?: string, 
/**
 * Makes the change only from this status; `conflict` from any other.
 */
expectedStatus?: ExecutionStatus, };

/** Of what to answer the counts; without members, of all queues. */
export type StatsOf = { queue?: Name, executionId?: Name, };

export type SweepError = { part: string, code: string, message: string, };

/** What a sweep did. */
export type SweepReport = { leasesRetried: number, leasesDeadLettered: number, leasesCancelled: number, workersExpired: number, itemsReadied: number, 
/**
 * Finished things that retention let go.
 */
pruned: number, 
/**
 * How long the device slept before this sweep, in milliseconds; 0 where it did not.
 */
suspendedMs: number, durationMs: number, 
/**
 * Whether the limit ended it: sweep again at once.
 */
more: boolean, 
/**
 * Parts that failed. The others were done.
 */
errors: Array<SweepError>, };

export type SweepRequest = { 
/**
 * The most rows to deal with in this call, 1 to 10,000; 500 unless given.
 */
limit?: number, 
/**
 * How often the caller sweeps, in milliseconds. Calls with it are a series: a gap in it of over two minutes and three intervals
 * means that the device slept. Leases and workers whose time ran out meanwhile get as much again, once.
 */
intervalMs?: number, };

/** For how long an idempotency key names its item. */
export type UniqueFor = "unfinished" | "ever";

/** A unit of work. */
export type WorkItem = { id: string, tenantId: string, executionId?: string, nodeId?: string, queue: string, payload: JsonValue, priority: number, 
/**
 * The capabilities that a worker must have, sorted.
 */
requires: Array<string>, status: ItemStatus, 
/**
 * How often it was delivered.
 */
attempt: number, maxAttempts: number, 
/**
 * Unix milliseconds: not before this.
 */
runAt: number, backoff?: Backoff, idempotencyKey?: string, concurrencyKey?: string, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds: the newest claim.
 */
claimedAt?: number, 
/**
 * Unix milliseconds.
 */
finishedAt?: number, 
/**
 * Who holds it, or held it last.
 */
workerId?: string, 
/**
 * Unix milliseconds; only while claimed.
 */
leaseExpiresAt?: number, 
/**
 * Names the newest claim, and rises with each.
 */
fence: number, output?: JsonValue, 
/**
 * A string, or `{message, code?, stack?}`.
 */
lastError?: JsonValue, 
/**
 * What the last `renew` with progress said.
 */
progress?: JsonValue, cancelRequested: boolean, };

/** A live worker. */
export type Worker = { workerId: string, namespace: string, pool: string, 
/**
 * Sorted.
 */
queues: Array<string>, 
/**
 * Sorted.
 */
capabilities: Array<string>, livenessTtlMs: number, 
/**
 * Unix milliseconds.
 */
registeredAt: number, 
/**
 * Unix milliseconds.
 */
lastHeartbeatAt: number, 
/**
 * Unix milliseconds: dead from then on without another heartbeat.
 */
expiresAt: number, load?: number, metadata?: JsonValue, };

/** What happened to a worker's registration. */
export type WorkerChange = "registered" | "refreshed" | "marked_dead" | "ttl_swept";

export type WorkerHeartbeat = { workerId: Name, 
/**
 * `default` unless given.
 */
namespace?: Name, 
/**
 * How busy it is, in a unit of its own.
 */
load?: number, };

export interface Executions {
  /** Creates an execution; it starts `pending`. */
  create(input: CreateExecution, options?: CallOptions): Promise<Created<Execution>>;
  /** The execution, or null. */
  get(id: string, options?: CallOptions): Promise<Execution | null>;
  /** Lists executions in the order in which they were created. */
  list(input?: ListExecutions, options?: CallOptions): List<Execution>;
  /** Changes the status by command, where the table of transitions allows it; `invalid_transition` otherwise. Entering a terminal status cancels the execution's waiting items. */
  setStatus(id: string, input: Omit<SetStatus, "id" | "expectedStatus">, options?: CallOptions & Pick<SetStatus, "expectedStatus">): Promise<Execution>;
  /** The fold of the log: status, state, nodes, budget and open approvals, now or as of a sequence. */
  materialize(id: string, options?: CallOptions & Pick<Materialize, "at">): Promise<Materialized>;
}

export interface Events {
  /** Appends one event, and brings the execution up to it in the same transaction. */
  append(executionId: string, input: Omit<AppendEvent, "executionId" | "expectedSequence">, options?: CallOptions & Pick<AppendEvent, "expectedSequence">): Promise<Created<Event>>;
  /** Appends several events, all or none. */
  appendMany(executionId: string, events: AppendEvents["events"], options?: CallOptions & Pick<AppendEvents, "expectedSequence">): Promise<Array<Created<Event>>>;
  /** Lists the events of an execution in the order of their sequence. */
  list(input: ListEvents, options?: CallOptions): List<Event>;
  /** The sequence of the newest event; 0 without any. */
  latestSequence(executionId: string, options?: CallOptions): Promise<number>;
}

export interface Queue {
  /** Enqueues one item. */
  enqueue(input: EnqueueItem, options?: CallOptions): Promise<Created<WorkItem>>;
  /** Enqueues several items, all or none. */
  enqueueMany(items: EnqueueItems["items"], options?: CallOptions): Promise<Array<Created<WorkItem>>>;
  /** Claims up to `limit` items for a worker: the highest priority first, then the earliest `runAt`, then the order of enqueueing. */
  claim(input: ClaimItems, options?: CallOptions): Promise<ClaimedItem[]>;
  /** Keeps the lease for longer, and tells whether the item is to be cancelled. */
  renew(item: Lease, input?: Omit<RenewLease, "id" | "fence">, options?: CallOptions): Promise<Renewed>;
  /** Settles the item as completed, and in the same transaction appends the events, patches the execution's state and enqueues what follows. */
  complete(item: Lease, input?: Omit<CompleteItem, "id" | "fence">, options?: CallOptions): Promise<Completed>;
  /** Ends the delivery as failed: another attempt after a delay, or the dead letters. */
  fail(item: Lease, input: Omit<FailItem, "id" | "fence">, options?: CallOptions): Promise<Failed>;
  /** Gives the item back without counting the attempt. */
  release(item: Lease, input?: Omit<ReleaseItem, "id" | "fence">, options?: CallOptions): Promise<Released>;
  /** Cancels a waiting item at once, and asks the holder of a claimed one to stop. */
  cancel(id: string, options?: CallOptions): Promise<WorkItem>;
  /** The item, or null. */
  get(id: string, options?: CallOptions): Promise<WorkItem | null>;
  /** Lists items in the order in which they were enqueued. */
  list(input?: ListItems, options?: CallOptions): List<WorkItem>;
  /** The deliveries of an item that did not complete, oldest first. */
  attempts(id: string, options?: CallOptions): Promise<Array<Attempt>>;
}

export interface Queues {
  /** Lists queues and their settings in the order in which they were made. */
  list(input?: ListQueues, options?: CallOptions): List<QueueInfo>;
  /** Changes settings of a queue; it need not have items yet. What is left out stays, null clears. */
  configure(name: string, input: Omit<ConfigureQueue, "name">, options?: CallOptions): Promise<QueueInfo>;
  /** Nothing of the queue is claimed until `resume`. What is claimed goes on. */
  pause(name: string, options?: CallOptions): Promise<QueueInfo>;
  /** Ends a pause. */
  resume(name: string, options?: CallOptions): Promise<QueueInfo>;
  /** Nothing of the queue, or of one concurrency key of it, is claimed until a time: what a provider's "retry after" asks for. */
  hold(name: string, input: Omit<HoldQueue, "name">, options?: CallOptions): Promise<QueueInfo>;
  /** Counts items by status, and tells how long the oldest pending one waits. Costs the same however many are finished. */
  stats(input?: StatsOf, options?: CallOptions): Promise<QueueStats>;
}

export interface DeadLetters {
  /** Lists dead letters in the order in which they were enqueued. */
  list(input?: ListDeadLetters, options?: CallOptions): List<WorkItem>;
  /** Makes a dead letter, or all of a queue (`{queue}`), pending again, with attempt 0. */
  redrive(id: string | Redrive, input?: Omit<Redrive, "id">, options?: CallOptions): Promise<Redriven>;
  /** Deletes a dead letter. */
  delete(id: string, options?: CallOptions): Promise<null>;
}

export interface Leases {
  /** Lists claimed items whose lease has run out, by `leaseExpiresAt`. It changes nothing: the sweep does. */
  listExpired(input?: ListExpiredLeases, options?: CallOptions): List<ExpiredLease>;
}

export interface Workers {
  /** Registers a worker, or refreshes the registration of a live one. */
  register(input: RegisterWorker, options?: CallOptions): Promise<Registered>;
  /** Says that a worker is alive. */
  heartbeat(input: WorkerHeartbeat, options?: CallOptions): Promise<Heartbeat>;
  /** Removes a worker. Its leases end as if they had run out. */
  markDead(input: MarkWorkerDead, options?: CallOptions): Promise<MarkedDead>;
  /** Lists changes of registrations, oldest first. Heartbeats are not among them. */
  history(input?: ListHistory, options?: CallOptions): List<HistoryEntry>;
  /** Lists live workers in the order in which they registered. */
  list(input?: ListWorkers, options?: CallOptions): List<Worker>;
}

export interface Retention {
  /** The times that are set. */
  get(options?: CallOptions): Promise<RetentionTimes>;
  /** Sets for how long finished things are kept; the sweep prunes what is older. Everything is kept for ever unless asked. */
  set(input: SetRetention, options?: CallOptions): Promise<RetentionTimes>;
}

/** Every operation of a store. */
export interface StoreOperations {
  readonly executions: Executions;
  readonly events: Events;
  readonly queue: Queue;
  readonly queues: Queues;
  readonly deadLetters: DeadLetters;
  readonly leases: Leases;
  readonly workers: Workers;
  readonly retention: Retention;
  /** Does what time brings: ends expired leases, removes lapsed workers, makes due items claimable. Call it regularly. */
  sweep(input?: SweepRequest, options?: CallOptions): Promise<SweepReport>;
}
