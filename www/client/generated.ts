// Written by `npm run bindings` from the Rust types and src/operation.rs. Do not edit.
import type { CallOptions, List } from "./calls.js";

/** A JSON document as it comes back. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** A JSON document as it may be given: a Date becomes its ISO string, members that are undefined vanish. What JSON cannot hold is refused. */
export type JsonInput = unknown;

/** An item under a lease. */
export type ClaimedItem = WorkItem & { status: "claimed"; workerId: string; claimedAt: number; leaseExpiresAt: number };

/** Bytes as they may be given: a Blob of the platform's (a File, too), not the record of that name. */
export type Bytes = globalThis.Blob | ArrayBuffer | Uint8Array;

/** What names the lease of an item; a claimed item may be passed whole. */
export type Lease = { readonly id: string; readonly fence: number };

/** How a method's arguments become those of its operation. */
export interface OperationShape {
  /** What the first argument names. */
  readonly subject: readonly string[];
  /** The first argument may also be an object of all arguments. */
  readonly orObject: boolean;
  /** Which argument is given as an array by itself; empty where there is none. */
  readonly array: string;
  readonly list: boolean;
  readonly bytes: boolean;
  readonly writes: boolean;
  /** What it changes, or reads. */
  readonly topics: readonly Topic[];
}

/** In the order of their letters in the table. */
export const topics: readonly Topic[] = ["executions", "events", "items", "workflows", "queues", "workers", "timers", "crons", "threads", "turns", "thread_items", "thread_events", "inbox", "usage", "blobs"];

/** See operations.ts. */
export const table = `executions create!A get?Aid list*A setStatus!ABCid recent?A count?A cancel!ABCid setState!ABid patchState!ABid appendToState!ABid continueAsNew!ABCid fork!Aid delete!ABCid materialize?ABid
events append!ABCexecutionId appendMany!ABCexecutionId=events list*B latestSequence?BexecutionId
snapshots latest?BexecutionId list*B
approvals list*B resolve!ABC
workflows put!D get?Did list*D
queue enqueue!C enqueueMany!C=items claim!C renew!Cid+fence complete!CABid+fence fail!CABid+fence release!CABid+fence cancel!CABid get?Cid list*C attempts?Cid
queues list*E configure!ECname pause!Ename resume!Ename hold!Ename stats?C
deadLetters list*C redrive|Cid delete!Cid
leases listExpired*C
workers register!F heartbeat!F markDead!FCAB history*F list*F
timers schedule!GAB cancel!Gid get?Gid list*G
cron put!H get?Hname list*H delete!Hname trigger!HACname
threads create!I get?Iid update!Iid list*I recent?I archive!Iid unarchive!Iid delete!IJKLMid fork!IJKid search?IK
turns create!JI get?JNid update!JIKid list*JN listIncomplete*JN recover!JIK
items create!KI put!KI get?Kid update!KIid delete!KIid list*K appendText!Kid readText?Kid
threadEvents append!LthreadId list*L
inbox admit!MthreadId get?Mid next?MthreadId steers?MthreadId promote!MJid promoteNext!MJIthreadId withdraw!Mid list*M
usage record!NJ get?NresponseId list*N aggregate?N getPrices?N setPrices!N=prices reprice!NJ
blobs put#O get?Oid delete!Oid list*O
imports jamjet#ABCD chunk#IJKLN
tokens create! validate!token revoke!id list*
tenants create! get?id list* update!id
retention get? set!
 batch!=calls sweep!CFABGHIJKLM exportDatabase?`;

/** The operations that change nothing. */
export type ReadOperation =
  | "executions.get"
  | "executions.list"
  | "executions.recent"
  | "executions.count"
  | "executions.materialize"
  | "events.list"
  | "events.latestSequence"
  | "snapshots.latest"
  | "snapshots.list"
  | "approvals.list"
  | "workflows.get"
  | "workflows.list"
  | "queue.get"
  | "queue.list"
  | "queue.attempts"
  | "queues.list"
  | "queues.stats"
  | "deadLetters.list"
  | "leases.listExpired"
  | "workers.history"
  | "workers.list"
  | "timers.get"
  | "timers.list"
  | "cron.get"
  | "cron.list"
  | "threads.get"
  | "threads.list"
  | "threads.recent"
  | "threads.search"
  | "turns.get"
  | "turns.list"
  | "turns.listIncomplete"
  | "items.get"
  | "items.list"
  | "items.readText"
  | "threadEvents.list"
  | "inbox.get"
  | "inbox.next"
  | "inbox.steers"
  | "inbox.list"
  | "usage.get"
  | "usage.list"
  | "usage.aggregate"
  | "usage.getPrices"
  | "blobs.get"
  | "blobs.list"
  | "tokens.list"
  | "tenants.get"
  | "tenants.list"
  | "retention.get"
  | "exportDatabase";

export type AdmitPrompt = { threadId: Name, 
/**
 * Made by the store unless given. The same id with the same arguments answers the admission that exists.
 */
id?: Name, 
/**
 * A text, or whatever the agent takes.
 */
prompt: JsonInput, 
/**
 * `queue` unless given.
 */
delivery?: Delivery, 
/**
 * What goes with it, such as the model to use.
 */
request?: JsonInput, };

/** What to sum up. */
export type AggregateUsage = { 
/**
 * Unix milliseconds: what was used at this time or later.
 */
since?: number, 
/**
 * Unix milliseconds: what was used before this time.
 */
until?: number, groupBy?: UsageGroup, 
/**
 * The IANA time zone whose days count; `UTC` unless given.
 */
timezone?: string, };

export type AppendEvents = { executionId: Name, events: Array<EventInput>, expectedSequence?: number, };

/** Text that has come in for an item. */
export type AppendText = { id: Name, 
/**
 * What follows on the text there is.
 */
delta: Piece, 
/**
 * The length of the text there is, in UTF-16 code units: `conflict` if it is another, so that a delta that comes twice is seen.
 */
at?: number, };

/** A new event of a thread. */
export type AppendThreadEvent = { threadId: Name, 
/**
 * Kept as it is given.
 */
turnId?: Name, 
/**
 * Kept as it is given.
 */
itemId?: Name, type: Name, 
/**
 * Any JSON; null unless given.
 */
data?: JsonInput, };

/** Appends a value to an array in the state, and makes the array where there is none. */
export type AppendToState = { id: Name, key: string, 
/**
 * Any JSON.
 */
value?: JsonInput, 
/**
 * Makes the change only if this is the log's last sequence; `conflict` otherwise.
 */
expectedSequence?: number, };

/** A question that a run waits for, or waited for. */
export type Approval = { executionId: string, approvalId: string, nodeId: string, status: ApprovalStatus, toolName?: string, 
/**
 * Why a run was interrupted.
 */
reason?: string, 
/**
 * What there is to judge: `context` or `stateForReview` of the event that asked.
 */
context?: JsonValue, 
/**
 * Unix milliseconds; absent where a fork or a continuation brought the question along.
 */
requestedAt?: number, 
/**
 * Unix milliseconds.
 */
decidedAt?: number, userId?: string, comment?: string, payload?: JsonValue, };

export type ApprovalStatus = "pending" | "approved" | "rejected";

/** Whether archived threads are meant: with the others, without them, or they alone. */
export type Archived = "exclude" | "include" | "only";

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

/** The delay before the next attempt: by default 2 s after the first, doubled with each attempt, at most 64 s, without jitter. */
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

export type Batch = { calls: Array<BatchCall>, };

/** An operation and its arguments, one object. */
export type BatchCall = { operation: string, arguments: JsonInput, };

/** What there is to know of a blob, without its bytes. */
export type Blob = { 
/**
 * The SHA-256 of the bytes, in hex.
 */
id: string, 
/**
 * In bytes.
 */
size: number, mediaType?: string, 
/**
 * Unix milliseconds.
 */
createdAt: number, };

/** A blob and its bytes, or a range of them. */
export type BlobContent = { 
/**
 * The SHA-256 of all the bytes, in hex.
 */
id: string, 
/**
 * Of the whole blob, in bytes.
 */
size: number, mediaType?: string, 
/**
 * Unix milliseconds.
 */
createdAt: number, };

export type BlobId = { id: Name, };

/** A blob that an item has to do with. */
export type BlobReference = { blobId: Name, 
/**
 * What it is called here.
 */
name?: Name, };

/** What the run has used so far. Tokens and costs are those of its `node_completed` events. */
export type Budget = { inputTokens: number, outputTokens: number, 
/**
 * US dollars.
 */
costUsd: number, iterations: number, toolCalls: number, consecutiveErrors: number, circuitBreakerTripped: boolean, };

export type CancelExecution = { id: Name, 
/**
 * Kept in the event.
 */
reason?: string, };

/** What becomes of the times that passed while nobody swept. */
export type CatchUp = "skip" | "once" | "all";

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

/** Ends the execution, and begins its next segment. */
export type ContinueAsNew = { id: Name, 
/**
 * What the next segment begins with; the present state unless given.
 */
state?: JsonInput, 
/**
 * The first work item of the next segment; its executionId is filled in.
 */
enqueue?: EnqueueItem, };

export type CountExecutions = { groupBy?: GroupBy, };

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

/** A new item, at the end of its thread. */
export type CreateItem = { 
/**
 * Made by the store unless given. The same id with the same arguments answers the item that exists.
 */
id?: Name, threadId: Name, 
/**
 * A turn of the thread.
 */
turnId?: Name, 
/**
 * The item that this one belongs to, one of the same thread.
 */
parentId?: Name, kind: ItemKind, 
/**
 * Unless given, `completed` for what is whole as it comes (a `user_message`, `status` or `error`, and an `assistant_message` or
 * `reasoning` with a text), and `queued` for what is still to be made.
 */
status?: ThreadItemStatus, summary?: string, text?: string, data?: JsonInput, metadata?: JsonInput, blobs?: Array<BlobReference>, };

export type CreateTenant = { 
/**
 * Made by the store unless given.
 */
id?: Name, name?: Name, policy?: JsonInput, limits?: TenantLimits, };

/** A new thread; nothing has to be given. */
export type CreateThread = { 
/**
 * Made by the store unless given. The same id with the same arguments answers the thread that exists.
 */
id?: Name, title?: string, model?: string, mode?: string, workspace?: string, systemPrompt?: string, taskId?: Name, taskType?: Name, archived?: boolean, 
/**
 * Any JSON; `{}` unless given.
 */
metadata?: JsonInput, };

export type CreateToken = { name: Name, role: Role, 
/**
 * Unix milliseconds; never unless given.
 */
expiresAt?: number, };

/** A new turn of a thread. */
export type CreateTurn = { threadId: Name, 
/**
 * Made by the store unless given. The same id with the same arguments answers the turn that exists, whoever owns it.
 */
id?: Name, executionId?: Name, 
/**
 * `queued` unless given.
 */
status?: TurnStatus, inputSummary?: string, ownerId?: Name, metadata?: JsonInput, };

/** A record, and whether this call made it. */
export type Created<T> = { 
/**
 * False where the same call had been made before, and its record is answered again.
 */
created: boolean, } & T;

export type CronItem = { queue: Name, nodeId: Name, 
/**
 * Any JSON; null unless given.
 */
payload?: JsonInput, };

export type CronName = { name: Name, };

/** A schedule by which executions begin. */
export type CronSchedule = { name: string, expression: string, timezone: string, workflowId: string, workflowVersion?: string, input: JsonValue, 
/**
 * The first work item of each execution, as it was given.
 */
enqueue?: JsonValue, enabled: boolean, catchUp: CatchUp, 
/**
 * Unix milliseconds: when it comes due next, or has come due and not fired yet. Absent while it is disabled.
 */
nextAt?: number, 
/**
 * Unix milliseconds: when it fired last.
 */
lastAt?: number, 
/**
 * Why it could not fire; absent once it has fired again.
 */
lastError?: Problem, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds: when it was put last.
 */
updatedAt: number, };

/** A row that cannot be read. */
export type Damaged = { table: string, id: string, reason: string, };

export type DeadLetterId = { id: Name, };

export type Decision = "approved" | "rejected";

export type DeleteExecution = { id: Name, };

/** What a prompt is for. */
export type Delivery = "queue" | "steer";

export type DifferingSnapshot = { tenantId: string, executionId: string, sequence: number, };

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

/** Event types of your own, by declaration merging: `interface CustomEvents { "x-note": { text: string } }`. Once there are any, no others are accepted. */
export interface CustomEvents {}

/** What went wrong. */
export type EventError = string | { message: string; code?: string; stack?: string };

/** Where a result comes from. */
export type Provenance = { modelId?: string; modelVersion?: string; confidence?: number; verified?: boolean; source?: string; trustDomain?: string; evidenceRefs?: string[] };

type OwnEvents<J> = [keyof CustomEvents] extends [never] ? { [type: `x-${string}`]: J } : CustomEvents;
type InputOf<Events> = { [T in keyof Events & string]: { type: T; data: Events[T]; id?: string } }[keyof Events & string];
type RecordOf<Events> = { [T in keyof Events & string]: { id: string; executionId: string; sequence: number; type: T; data: Events[T]; createdAt: number } }[keyof Events & string];

/** An event to append. */
export type EventInput = InputOf<Omit<KnownEvents<JsonInput>, StoreEvents>> | InputOf<OwnEvents<JsonInput>>;

/** One fact in the log of an execution. `sequence` is 1, 2, 3 … per execution, without gaps; `createdAt` Unix milliseconds. */
export type Event = RecordOf<KnownEvents<JsonValue>> | RecordOf<OwnEvents<JsonValue>>;

/** Types that only the store writes. */
export type StoreEvents = "segment_boundary" | "execution_status_set" | "execution_state_set" | "execution_state_patched" | "execution_state_appended" | "execution_reconciled";

/** The known event types and their data; `J` is what stands for any JSON. */
export interface KnownEvents<J = JsonValue> {
  workflow_started: { workflowId: string; workflowVersion: string; initialInput: J };
  workflow_completed: { finalState?: J; output?: J };
  workflow_failed: { error: EventError };
  workflow_cancelled: { reason?: string };
  node_scheduled: { nodeId: string; queueType: string };
  node_started: { nodeId: string; workerId: string; attempt: number };
  node_completed: { nodeId: string; output: J; statePatch: { [key: string]: J } | null; durationMs: number; genAiSystem?: string; genAiModel?: string; inputTokens?: number; outputTokens?: number; finishReason?: string; costUsd?: number; provenance?: Provenance; idempotencyKey?: string };
  node_failed: { nodeId: string; error: EventError; attempt: number; retryable: boolean };
  node_parked: { nodeId: string; attempt: number; retryAfter: number };
  node_skipped: { nodeId: string; reason: string };
  node_cancelled: { nodeId: string };
  retry_scheduled: { nodeId: string; attempt: number; delayMs: number };
  interrupt_raised: { nodeId: string; reason: string; stateForReview: J };
  approval_received: { nodeId: string; approvalId?: string; userId?: string; decision: "approved" | "rejected"; comment?: string; statePatch?: { [key: string]: J } | null; payload?: J };
  timer_created: { nodeId: string; fireAt: number; correlationKey?: string };
  timer_fired: { nodeId: string; correlationKey?: string; lateByMs?: number };
  external_event_received: { correlationKey: string; payload: J };
  child_workflow_started: { nodeId: string; childExecutionId: string; childWorkflowId: string };
  child_workflow_completed: { nodeId: string; childExecutionId: string; result: J };
  child_workflow_failed: { nodeId: string; childExecutionId: string; error: EventError };
  budget_exceeded: { nodeId: string; kind: string; limit: number; current: number };
  token_budget_exceeded: { nodeId: string; kind: string; limit: number; current: number };
  cost_budget_exceeded: { nodeId: string; limitUsd: number; currentUsd: number };
  autonomy_limit_reached: { nodeId: string; agentRef: string; limitType: string; limitValue: J; actualValue: J };
  circuit_breaker_tripped: { nodeId: string; agentRef: string; consecutiveErrors: number; threshold: number };
  escalation_required: { nodeId: string; agentRef: string; reason: string; escalationTarget: J };
  policy_violation: { nodeId: string; rule: J; decision: J; policyScope: J };
  tool_approval_required: { nodeId: string; approvalId?: string; toolName: string; approver: J; context: J };
  strategy_started: { strategy: J; config: J };
  plan_generated: { steps: J };
  iteration_started: { iteration: number };
  tool_called: { nodeId: string; tool: J };
  critic_verdict: { nodeId: string; score: number; passed: boolean; feedback?: J };
  iteration_completed: { iteration: number; costDeltaUsd?: number; inputTokens: number; outputTokens: number };
  strategy_limit_hit: { limitType: string; limitValue: J; actualValue: J };
  strategy_completed: { iterations: number; totalCostUsd?: number };
  coordinator_discovery: { nodeId: string; querySkills: J; queryTrustDomain?: J; candidates: J; filteredOut: J };
  coordinator_scoring: { nodeId: string; rankings: J; spread: J; weights: J };
  coordinator_decision: { nodeId: string; selected?: J; method: J; reasoning?: J; confidence: number; rejected: J; tiebreakerTokens?: number; tiebreakerCost?: number };
  agent_tool_invoked: { nodeId: string; agentUri: string; mode: J; protocol: J; inputHash: string };
  agent_tool_progress: { nodeId: string; chunkIndex: number; partialOutputSummary: string };
  agent_tool_turn: { nodeId: string; turnNumber: number; direction: J; contentSummary: string; tokens: number; cost: number };
  agent_tool_completed: { nodeId: string; output: J; provenance?: Provenance; totalCost: number; latencyMs: number; totalTurns?: number };
  agent_tool_terminated: { nodeId: string; reason: string; chunksReceived: number; partialOutput?: J; cost: number };
  agent_tool_failed: { nodeId: string; failureType: string; message: string; retryable: boolean };
  segment_boundary: { segmentNumber: number; nextExecutionId: string };
  execution_status_set: { from: string; to: string; reason?: string };
  execution_state_set: { state: J };
  execution_state_patched: { patch: { [key: string]: J } | null };
  execution_state_appended: { key: string; value: J };
  execution_reconciled: { status: string; state: J };
}

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

export type ExecutionCounts = { total: number, 
/**
 * By status, where that was asked for; a status without executions is left out.
 */
byStatus?: { [status in ExecutionStatus]?: number }, };

export type ExecutionId = { id: Name, };

/** Where an execution stands. The last four are terminal: nothing leaves them. */
export type ExecutionStatus = "pending" | "running" | "paused" | "completed" | "failed" | "cancelled" | "limit_exceeded";

/** A claimed item whose lease has run out. Nothing has been done about it yet. */
export type ExpiredLease = { id: string, executionId?: string, queue: string, fence: number, workerId: string, namespace: string, attempt: number, 
/**
 * Unix milliseconds.
 */
leaseExpiresAt: number, };

export type ExportDatabase = Record<symbol, never>;

/** A store as a file. In Rust, `bytes` are the file; elsewhere they travel beside the text. */
export type Exported = { schemaVersion: number, 
/**
 * In bytes.
 */
size: number, };

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

/** Begins an execution from a point in the log of another one. */
export type ForkExecution = { id: Name, 
/**
 * The sequence up to which the log counts; the whole log unless given.
 */
at?: number, 
/**
 * The id of the new execution; made by the store unless given.
 */
newId?: Name, };

/** A thread that goes on from a point of another one: from the end of an item or a turn, or of the whole thread as it is. */
export type ForkThread = { id: Name, 
/**
 * The last item that belongs to the fork, with those before it.
 */
atItem?: Name, 
/**
 * The last turn that belongs to the fork, with those before it.
 */
atTurn?: Name, 
/**
 * The id of the new thread; made by the store unless given. The same call again then answers the thread that exists.
 */
newId?: Name, };

/** The point of another thread at which a thread begins: the end of an item, of a turn, or of what the whole thread then was. */
export type ForkedFrom = { threadId: string, itemId?: string, turnId?: string, };

/** Which bytes to get; all unless a range is given. */
export type GetBlob = { id: Name, 
/**
 * Of the first byte; 0 unless given, at most the blob's size.
 */
offset?: number, 
/**
 * How many bytes at most; up to the end unless given.
 */
length?: number, };

export type GetPrices = Record<symbol, never>;

export type GetRetention = Record<symbol, never>;

export type GetWorkflow = { id: Name, 
/**
 * The one that was put first last, unless given.
 */
version?: Name, };

export type GroupBy = "status";

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

/** A part of a file: whole lines. Of a zagens thread, turn or item the whole file. */
export type ImportChunk = { format: SessionFormat, 
/**
 * The number of the first line; 1 unless given.
 */
line?: number, 
/**
 * What the chunk before answered; left out for the first one.
 */
state?: JsonInput, 
/**
 * Whether the file ends here.
 */
last?: boolean, };

/** What became of the rows of one table. */
export type ImportCounts = { read: number, imported: number, 
/**
 * Imported before.
 */
skipped: number, rejected: number, };

/** A JamJet state database. */
export type ImportJamjet = {  };

/** What an import did. Importing the same file again adds nothing. */
export type ImportReport = { 
/**
 * By the tables of the file.
 */
tables: { [key in string]: ImportCounts }, 
/**
 * Executions whose row said something else than their events; an `execution_reconciled` follows those.
 */
reconciled: Array<ReconciledExecution>, 
/**
 * Rows that were not imported, and why.
 */
rejected: Array<RejectedRow>, 
/**
 * Snapshots whose state is not what the events before them make. They were imported with what the events make.
 */
differingSnapshots: Array<DifferingSnapshot>, 
/**
 * Events of other types than those of this store, or with other data, by the type under which they were kept.
 */
unknownEvents: { [key in string]: number }, };

/** What became of a part of a file. */
export type ImportedChunk = { 
/**
 * For the next chunk of the file; says nothing to others.
 */
state: JsonValue, threadId?: string, 
/**
 * Records that are new.
 */
imported: number, 
/**
 * Records that were imported before.
 */
skipped: number, 
/**
 * Lines of which something was not imported as what it is, and why; at most 1000 of them.
 */
rejected: Array<RejectedLine>, rejectedCount: number, 
/**
 * Records of types that have no counterpart, by type. They became thread events.
 */
unknownTypes: { [key in string]: number }, };

export type InboxOf = { threadId: Name, };

export type ItemCounts = { scheduled: number, pending: number, claimed: number, completed: number, dead_lettered: number, cancelled: number, };

export type ItemId = { id: Name, };

/** What an item is. */
export type ItemKind = "user_message" | "assistant_message" | "reasoning" | "tool_call" | "file_change" | "command_execution" | "context_compaction" | "status" | "error";

/** Where a work item stands. */
export type ItemStatus = "scheduled" | "pending" | "claimed" | "completed" | "dead_lettered" | "cancelled";

export type LatestSequence = { executionId: Name, };

export type LatestSnapshot = { executionId: Name, };

/** Which approvals to list; without members, all of them. */
export type ListApprovals = { status?: ApprovalStatus, executionId?: Name, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

export type ListBlobs = { 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which schedules to list. */
export type ListCrons = { 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

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

export type ListIncompleteTurns = { 
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

/** Which prompts to list. */
export type ListPrompts = { threadId: Name, status?: PromptStatus, delivery?: Delivery, 
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

/** Of which execution to list the snapshots. */
export type ListSnapshots = { executionId: Name, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which tenants to list. */
export type ListTenants = { status?: TenantStatus, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which events of a thread to list. */
export type ListThreadEvents = { threadId: Name, 
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

/** Which items to list: those of a thread, or of a turn. */
export type ListThreadItems = { threadId?: Name, turnId?: Name, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which threads to list. */
export type ListThreads = { 
/**
 * "exclude" unless given.
 */
archived?: Archived, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which timers to list. */
export type ListTimers = { executionId?: Name, status?: TimerStatus, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which tokens to list. */
export type ListTokens = { 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which turns to list. */
export type ListTurns = { threadId: Name, status?: TurnStatus, 
/**
 * 1 to 1000; 100 unless given.
 */
limit?: number, order?: Order, cursor?: string, };

/** Which records to list. */
export type ListUsage = { turnId?: Name, 
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

/** Which definitions to list; without members, all of them. */
export type ListWorkflows = { id?: Name, 
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

/** What of a text is new. */
export type NewText = { text: Piece, 
/**
 * Of the whole text, in UTF-16 code units: after how many to read next.
 */
length: number, 
/**
 * Where the item stands; once it has ended, nothing more streams in.
 */
status: ThreadItemStatus, 
/**
 * Of the text, to be given with the next read: another one once the text no longer begins with what it was.
 */
version: string, };

/** A new token. */
export type NewToken = { 
/**
 * The secret. It is shown this once.
 */
token: string, info: TokenInfo, };

/** The turn for the prompt, as for `turns.create`. */
export type NextTurn = { 
/**
 * Made by the store unless given. The same call again answers the same prompt and turn.
 */
id?: Name, executionId?: Name, 
/**
 * `queued` unless given.
 */
status?: TurnStatus, 
/**
 * The beginning of the prompt, where that is a text, unless given.
 */
inputSummary?: string, ownerId?: Name, metadata?: JsonInput, };

/** The direction of a list. */
export type Order = "asc" | "desc";

/** One page of a list. */
export type Page<T> = { items: Array<T>, 
/**
 * Where the next page begins; null at the end. Only null is the end: a page of a filtered list may be short, or empty, before it.
 */
nextCursor: string | null, 
/**
 * Rows of this page that cannot be read. The others are all in `items`.
 */
damaged?: Array<Damaged>, };

/** Merges a patch into the state (RFC 7396): null removes a key, an object merges, anything else replaces. */
export type PatchState = { id: Name, 
/**
 * An object.
 */
patch: JsonInput, 
/**
 * Makes the change only if this is the log's last sequence; `conflict` otherwise.
 */
expectedSequence?: number, };

export type PendingApproval = { approvalId: string, nodeId: string, toolName?: string, 
/**
 * The event that asks; 0 where a fork or a continuation brought it along.
 */
sequence: number, };

/** A piece of a text that streams. A stream is cut anywhere, also within a surrogate pair: a piece may begin with the second half of one, and end with the first half. In JSON such a half is an escape (`"\ud83c"`); where the two meet again, the character is whole. */
export type Piece = string;

/** What a model's tokens cost from one time to another, in US dollars per million. Of the prices that fit a response, the one with the most specific pattern counts: one without `*` before one with it, then the one with the most other characters; of equal patterns one that names the provider; of what is still equal the later in the list. */
export type Price = { 
/**
 * The model's name, in any case; `*` stands for any characters, or none.
 */
modelPattern: Name, 
/**
 * Only for responses of this provider, in any case.
 */
provider?: Name, 
/**
 * Unix milliseconds: only for responses of this time and later.
 */
from?: number, 
/**
 * Unix milliseconds: only for responses before this time.
 */
until?: number, 
/**
 * Of input that is neither read from the cache nor written to it.
 */
input: number, 
/**
 * Of input that the cache held; as `input` unless given.
 */
cacheRead?: number, 
/**
 * Of input that went into the cache; as `input` unless given.
 */
cacheWrite?: number, 
/**
 * Of output, reasoning included.
 */
output: number, };

/** The prices that count. */
export type PriceList = { prices: Array<Price>, 
/**
 * Whether they are the ones that come with runkeep, and none were set.
 */
isDefault: boolean, 
/**
 * The day on which the default prices were gathered, as `YYYY-MM-DD`.
 */
asOf?: string, 
/**
 * Where the default prices are from.
 */
source?: string, };

/** Why something could not be done that was due: the code of an error, and its message. */
export type Problem = { code: string, message: string, };

export type PromoteNext = { threadId: Name, turn?: NextTurn, 
/**
 * Takes a steer that no turn has taken, too, if it is the oldest that waits.
 */
includeSteers?: boolean, };

export type PromotePrompt = { id: Name, 
/**
 * The turn that takes it, one of the same thread that has not ended.
 */
turnId?: Name, };

/** A prompt and the turn that was created for it. */
export type PromotedNext = { prompt: Prompt, turn: Turn, 
/**
 * False where the same call had promoted it before.
 */
created: boolean, };

/** A prompt that was admitted to a thread. */
export type Prompt = { id: string, threadId: string, 
/**
 * The prompts of a thread are numbered 1, 2, 3 … as they come; no number is given twice.
 */
admittedSequence: number, status: PromptStatus, delivery: Delivery, 
/**
 * As it was given.
 */
prompt: JsonValue, request?: JsonValue, 
/**
 * The turn that has taken it.
 */
turnId?: string, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds.
 */
promotedAt?: number, 
/**
 * Unix milliseconds.
 */
withdrawnAt?: number, };

export type PromptId = { id: Name, };

/** Where a prompt stands. Nothing leaves the last two. */
export type PromptStatus = "admitted" | "promoted" | "withdrawn";

/** Bytes to keep, at most 128 MiB. */
export type PutBlob = { 
/**
 * Such as `image/png`. The first one that is given for these bytes stays.
 */
mediaType?: Name, };

/** A schedule. There is one under a name: putting it again changes it. */
export type PutCron = { name: Name, 
/**
 * Five fields: minute, hour, day of the month, month, day of the week. Names, ranges, lists and steps are fine; a day of the
 * month and a day of the week together mean either.
 */
expression: string, 
/**
 * An IANA name such as `Europe/Berlin`; `UTC` unless given.
 */
timezone?: string, workflowId: Name, workflowVersion?: Name, 
/**
 * The input of each execution: any JSON; null unless given.
 */
input?: JsonInput, 
/**
 * The first work item of each execution.
 */
enqueue?: CronItem, 
/**
 * Stays as it is unless given; true at first.
 */
enabled?: boolean, 
/**
 * `skip` unless given.
 */
catchUp?: CatchUp, };

/** An item to insert, or to bring up to what is named. */
export type PutItem = { id: Name, 
/**
 * Needed for a new item; that of an item that exists cannot change.
 */
threadId?: Name, 
/**
 * That of an item that exists cannot change.
 */
turnId?: Name, 
/**
 * Needed for a new item; that of an item that exists cannot change.
 */
kind?: ItemKind, parentId?: Name | null, status?: ThreadItemStatus, summary?: string, text?: string, data?: JsonInput | null, metadata?: JsonInput | null, blobs?: Array<BlobReference> | null, };

/** A definition. The same content again changes nothing; other content under the same id and version is `conflict`. */
export type PutWorkflow = { id: Name, version: Name, 
/**
 * Any JSON.
 */
definition: JsonInput, 
/**
 * Puts other content in the place of what there is.
 */
replace?: boolean, };

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

export type ReadText = { id: Name, 
/**
 * How many UTF-16 code units are known already; 0 unless given.
 */
after?: number, 
/**
 * The version of the text that they are of, as `readText` answered it: `conflict` if another text has taken its place since, so that
 * the beginning of one is never read with the end of another.
 */
version?: string, };

/** The rows that changed last, newest first. */
export type Recent<T> = { items: Array<T>, 
/**
 * Rows among them that cannot be read.
 */
damaged?: Array<Damaged>, };

/** Which executions changed last. */
export type RecentExecutions = { 
/**
 * 1 to 200; 50 unless given.
 */
limit?: number, };

/** Which threads changed last. */
export type RecentThreads = { 
/**
 * 1 to 200; 50 unless given.
 */
limit?: number, 
/**
 * "exclude" unless given.
 */
archived?: Archived, };

export type ReconciledExecution = { tenantId: string, executionId: string, 
/**
 * Of the `execution_reconciled` event.
 */
sequence: number, 
/**
 * What the row says.
 */
status: ExecutionStatus, 
/**
 * What the events make.
 */
foldedStatus: ExecutionStatus, 
/**
 * Whether the states differed.
 */
stateDiffered: boolean, };

/** What a response has used. Tokens are 0 to 1,000,000,000,000. */
export type RecordUsage = { turnId: Name, 
/**
 * The provider's id of the response. What is known already answers the first record, whatever else is given.
 */
responseId: Name, model: Name, provider?: Name, 
/**
 * All input, cache reads and writes included.
 */
inputTokens: number, 
/**
 * All output, reasoning included.
 */
outputTokens: number, 
/**
 * Input that a cache held; leave it out where the provider does not tell.
 */
cacheReadTokens?: number, 
/**
 * Input that went into a cache.
 */
cacheWriteTokens?: number, 
/**
 * Input that had nothing to do with a cache; the rest of `inputTokens` unless given.
 */
noCacheTokens?: number, 
/**
 * Output that is reasoning: part of `outputTokens`.
 */
reasoningTokens?: number, metadata?: JsonInput, 
/**
 * Unix milliseconds; now unless given. The price is that of this time.
 */
createdAt?: number, };

export type RecoverTurns = { 
/**
 * The owners whose turns are left alone. In JavaScript, unless given, the pages and workers that have the store open; from Rust it has
 * to be told.
 */
liveOwnerIds?: Array<Name>, };

/** What a recovery did. */
export type Recovered = { 
/**
 * The ids of the turns that are `interrupted` now, in the order in which they were created.
 */
interrupted: Array<string>, 
/**
 * Rows that cannot be read; they are as they were.
 */
damaged?: Array<Damaged>, };

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

export type RejectedLine = { 
/**
 * Lines count from 1.
 */
line: number, reason: string, };

export type RejectedRow = { table: string, id: string, reason: string, };

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

export type RepriceUsage = { 
/**
 * Only what has no price so far. Otherwise everything gets the cost that it has by today's list, or none.
 */
onlyUnpriced?: boolean, };

export type Repriced = { 
/**
 * How many responses were looked at.
 */
lookedAt: number, 
/**
 * How many of them have another cost now.
 */
repriced: number, 
/**
 * How many of them have no price.
 */
unpriced: number, };

/** A decision. */
export type ResolveApproval = { executionId: Name, approvalId: Name, decision: Decision, userId?: Name, comment?: string, 
/**
 * Merged into the state of the execution.
 */
statePatch?: JsonInput, 
/**
 * Any JSON.
 */
payload?: JsonInput, };

export type ResponseId = { responseId: Name, };

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
historyMs?: number, 
/**
 * Threads that have not changed for so long, with all that is in them; not those of which a turn waits or runs.
 */
threadsMs?: number, };

export type Role = "operator" | "developer" | "reviewer" | "viewer";

/** A new timer, with `fireAt` or `delayMs`. */
export type ScheduleTimer = { 
/**
 * Made by the store unless given. The same id with the same arguments answers the timer that exists.
 */
id?: Name, executionId: Name, nodeId: Name, 
/**
 * Unix milliseconds. A time in the past fires with the next sweep.
 */
fireAt?: number, 
/**
 * Milliseconds from now.
 */
delayMs?: number, 
/**
 * Whatever the timer is to be known by; its events have it.
 */
correlationKey?: Name, 
/**
 * A work item to enqueue when it fires, for the timer's execution and node unless it names others.
 */
enqueue?: EnqueueItem, };

/** A title or an item that was found. */
export type SearchHit = { threadId: string, threadTitle?: string, 
/**
 * Whether the thread is archived.
 */
archived: boolean, 
/**
 * The item; none where it is the title that was found.
 */
itemId?: string, turnId?: string, kind?: ItemKind, 
/**
 * When the item, or the thread, was created, in Unix milliseconds.
 */
createdAt: number, 
/**
 * Where it was found: plain text in pieces, those that match marked. White space is one space; "…" stands for what was left out.
 */
snippet: Array<SnippetPart>, };

/** What a search has found, best first. */
export type SearchResults = { items: Array<SearchHit>, 
/**
 * Whether there is more than `limit` let through.
 */
more: boolean, 
/**
 * Rows among them that cannot be read.
 */
damaged?: Array<Damaged>, };

/** What to look for. */
export type SearchThreads = { 
/**
 * What somebody has typed. All words have to be there, in any order and spelt with or without accents; of the last one, the
 * beginning (two letters at least). What is written together ("main.rs", 你好) or in double quotes has to stand together. No other
 * sign means anything. Without a word nothing is found. Of a long text, the first 64 words count.
 */
text: string, 
/**
 * Only in this thread.
 */
threadId?: Name, 
/**
 * "exclude" unless given.
 */
archived?: Archived, 
/**
 * 1 to 200; 20 unless given.
 */
limit?: number, };

/** Whose files these are. */
export type SessionFormat = "claude_code" | "codex" | "zagens";

/** What kind of session the execution is. The store keeps it and does nothing by it. */
export type SessionType = "stateless" | "resumable" | "persistent_governed" | "ephemeral" | "approval_gated";

export type SetPrices = { 
/**
 * Takes the place of all prices, the default ones included. An empty list leaves everything without a price.
 */
prices: Array<Price>, };

/** Times to change. What is left out stays; null keeps for ever again. */
export type SetRetention = { executionsMs?: number | null, itemsMs?: number | null, attemptsMs?: number | null, deadLettersMs?: number | null, historyMs?: number | null, threadsMs?: number | null, };

/** Puts another state in the place of the one there is. */
export type SetState = { id: Name, 
/**
 * Any JSON.
 */
state: JsonInput, 
/**
 * Makes the change only if this is the log's last sequence; `conflict` otherwise.
 */
expectedSequence?: number, };

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

/** A fold that is kept. */
export type Snapshot = { executionId: string, 
/**
 * The last event that counts in it.
 */
sequence: number, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Its size as JSON text.
 */
bytes: number, };

/** A piece of a snippet: plain text, not HTML. */
export type SnippetPart = { text: string, 
/**
 * Whether this is what was looked for.
 */
match: boolean, };

/** That a state was changed. The state itself may be large: ask for it with `get`. */
export type StateChanged = { 
/**
 * The sequence of the event that says so.
 */
lastSequence: number, status: ExecutionStatus, };

/** Of what to answer the counts; without members, of all queues. */
export type StatsOf = { queue?: Name, executionId?: Name, };

export type SweepError = { part: string, 
/**
 * Which timer, or the name of which schedule.
 */
id?: string, code: string, message: string, };

/** What a sweep did. */
export type SweepReport = { leasesRetried: number, leasesDeadLettered: number, leasesCancelled: number, workersExpired: number, timersFired: number, 
/**
 * Executions that cron schedules began.
 */
cronsFired: number, itemsReadied: number, 
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
 * What failed: parts, or single timers and schedules. The others were done.
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

export type Tenant = { id: string, name?: string, status: TenantStatus, 
/**
 * The caller's own; the store keeps it.
 */
policy?: JsonValue, limits: TenantLimits, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds.
 */
updatedAt: number, };

export type TenantId = { id: Name, };

/** What a tenant may have at most. A limit that is reached refuses what would begin something, never what records. */
export type TenantLimits = { 
/**
 * Executions that have not ended.
 */
maxConcurrentExecutions?: number, 
/**
 * Workflows, whatever their versions.
 */
maxWorkflows?: number, 
/**
 * Input and output tokens in one UTC month.
 */
maxTokensPerMonth?: number, 
/**
 * US dollars in one UTC month.
 */
maxCostPerMonthUsd?: number, };

export type TenantStatus = "active" | "suspended" | "archived";

export type TextLength = { 
/**
 * Of the whole text, in UTF-16 code units.
 */
length: number, };

/** A conversation, or whatever else consists of turns and items. */
export type Thread = { id: string, title?: string, model?: string, mode?: string, workspace?: string, systemPrompt?: string, taskId?: string, taskType?: string, archived: boolean, 
/**
 * The newest item.
 */
headItemId?: string, latestTurnId?: string, 
/**
 * Unix milliseconds: when the newest message of a person or an assistant was made.
 */
lastMessageAt?: number, 
/**
 * Where the thread was forked.
 */
forkedFrom?: ForkedFrom, 
/**
 * `{}` unless given.
 */
metadata: JsonValue, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds: when the thread, one of its turns or one of its items changed last.
 */
updatedAt: number, };

/** Something that happened to a thread. */
export type ThreadEvent = { 
/**
 * Rises with each event of the tenant, whichever thread it is of; no number is given twice.
 */
sequence: number, threadId: string, turnId?: string, itemId?: string, type: string, data: JsonValue, 
/**
 * Unix milliseconds.
 */
createdAt: number, };

export type ThreadId = { id: Name, };

/** Something in a thread: a message, a call of a tool, a change of files. */
export type ThreadItem = { id: string, threadId: string, turnId?: string, parentId?: string, 
/**
 * 1, 2, 3 … within the thread, in the order in which items were made. A deleted item's is not given again.
 */
position: number, kind: ItemKind, status: ThreadItemStatus, summary: string, 
/**
 * What a person reads, with what has streamed in so far.
 */
text: string, 
/**
 * What programs read: a tool's input and output.
 */
data?: JsonValue, metadata?: JsonValue, blobs: Array<BlobReference>, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds: when it came to be in progress.
 */
startedAt?: number, 
/**
 * Unix milliseconds.
 */
endedAt?: number, };

export type ThreadItemId = { id: Name, };

/** Where an item stands. The last four are its end: nothing leaves them. */
export type ThreadItemStatus = "queued" | "in_progress" | "completed" | "failed" | "interrupted" | "cancelled";

/** Something that happens to an execution at a time. */
export type Timer = { id: string, executionId: string, nodeId: string, correlationKey?: string, status: TimerStatus, 
/**
 * Unix milliseconds.
 */
fireAt: number, 
/**
 * The work item that it enqueues, as it was given.
 */
enqueue?: JsonValue, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds.
 */
firedAt?: number, 
/**
 * How long after `fireAt` it fired.
 */
lateByMs?: number, error?: Problem, };

export type TimerId = { id: Name, };

/** Where a timer stands. Nothing leaves the last three. */
export type TimerStatus = "pending" | "fired" | "cancelled" | "failed";

export type TokenId = { id: Name, };

/** What there is to know of a token, without the secret itself. */
export type TokenInfo = { id: string, tenantId: string, name: string, role: Role, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds.
 */
expiresAt?: number, 
/**
 * Unix milliseconds.
 */
revokedAt?: number, 
/**
 * Unix milliseconds, to the minute.
 */
lastUsedAt?: number, };

/** What a change is about, for those who want to hear of it. */
export type Topic = "executions" | "events" | "items" | "queues" | "workers" | "workflows" | "timers" | "crons" | "threads" | "turns" | "thread_items" | "thread_events" | "inbox" | "usage" | "blobs";

/** One exchange of a thread. */
export type Turn = { id: string, threadId: string, executionId?: string, status: TurnStatus, 
/**
 * A short text of what was asked; empty unless given.
 */
inputSummary: string, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds: when it came to be in progress.
 */
startedAt?: number, 
/**
 * Unix milliseconds.
 */
endedAt?: number, 
/**
 * From `startedAt` to `endedAt`.
 */
durationMs?: number, 
/**
 * What its responses have used, where any was recorded.
 */
usage?: TurnUsage, 
/**
 * The input tokens of its last request: how full the context is.
 */
lastRequestInputTokens?: number, 
/**
 * A string, or `{message, code?, stack?}`.
 */
error?: JsonValue, 
/**
 * How many prompts of the inbox it has taken while it ran.
 */
steerCount: number, 
/**
 * Who runs it: `turns.recover` asks whether that one is alive.
 */
ownerId?: string, metadata?: JsonValue, };

export type TurnId = { id: Name, };

/** Where a turn stands. The last four are terminal: nothing leaves them. */
export type TurnStatus = "queued" | "in_progress" | "completed" | "failed" | "interrupted" | "cancelled";

/** What the responses of one turn have used. */
export type TurnUsage = { inputTokens: number, outputTokens: number, cacheReadTokens: number, cacheWriteTokens: number, noCacheTokens: number, reasoningTokens: number, 
/**
 * In US dollars, of the responses that have a price; null where none has.
 */
costUsd: number | null, responses: number, 
/**
 * Of them, how many have no price.
 */
unpricedResponses: number, };

/** For how long an idempotency key names its item. */
export type UniqueFor = "unfinished" | "ever";

/** What to change of an item. What is left out stays; null clears. */
export type UpdateItem = { id: Name, parentId?: Name | null, status?: ThreadItemStatus, summary?: string, 
/**
 * In the place of the whole text, of what has streamed in too. Who follows the text learns of one that does not begin with it by a
 * `conflict`.
 */
text?: string, data?: JsonInput | null, metadata?: JsonInput | null, blobs?: Array<BlobReference> | null, };

/** What to change. What is left out stays, null clears. */
export type UpdateTenant = { id: Name, name?: Name | null, status?: TenantStatus, policy?: JsonInput | null, 
/**
 * Takes the place of all limits.
 */
limits?: TenantLimits | null, };

/** What to change of a thread. What is left out stays, null clears. */
export type UpdateThread = { id: Name, title?: string | null, model?: string | null, mode?: string | null, workspace?: string | null, systemPrompt?: string | null, taskId?: Name | null, taskType?: Name | null, archived?: boolean, metadata?: JsonInput | null, };

/** What to change of a turn. What is left out stays, null clears. */
export type UpdateTurn = { id: Name, 
/**
 * The next status. A turn that has ended stays as it ended.
 */
status?: TurnStatus, inputSummary?: string, executionId?: Name | null, lastRequestInputTokens?: number | null, 
/**
 * A string, or `{message, code?, stack?}`.
 */
error?: JsonInput | null, 
/**
 * Who runs the turn from now on.
 */
ownerId?: Name | null, metadata?: JsonInput | null, 
/**
 * Makes the change only if this is the turn's status; `conflict` otherwise.
 */
expectedStatus?: TurnStatus, };

export type UsageAggregate = { totals: UsageTotals, 
/**
 * In the order of their keys, null last. None unless `groupBy` is given.
 */
buckets: Array<UsageBucket>, 
/**
 * Whether some response came without `cacheReadTokens`: `cacheHitPercent` and the costs know nothing of its cache.
 */
cacheTelemetryIncomplete: boolean, };

export type UsageBucket = { 
/**
 * The day as `YYYY-MM-DD`, the model, the provider, or the thread's id; null for what has no provider.
 */
key: string | null, 
/**
 * All input, cache reads and writes included.
 */
inputTokens: number, 
/**
 * All output, reasoning included.
 */
outputTokens: number, cacheReadTokens: number, cacheWriteTokens: number, 
/**
 * Input that had nothing to do with a cache.
 */
noCacheTokens: number, reasoningTokens: number, 
/**
 * In US dollars, of the responses that have a price; null where there are responses and none has one.
 */
costUsd: number | null, 
/**
 * What the same responses would have cost, had there been no cache.
 */
costUsdWithoutCache: number | null, 
/**
 * The difference; 0 where the cache made it dearer.
 */
cacheSavingsUsd: number | null, 
/**
 * Cache reads in percent of all input; null without input.
 */
cacheHitPercent: number | null, 
/**
 * How many turns the responses belong to.
 */
turns: number, 
/**
 * Of them, how many have a response without a price: the costs lack it.
 */
unpricedTurns: number, };

/** What the responses of a bucket have in common. */
export type UsageGroup = "day" | "model" | "provider" | "thread";

/** What one response of a model has used. */
export type UsageRecord = { responseId: string, turnId: string, threadId: string, model: string, provider?: string, 
/**
 * All input, cache reads and writes included.
 */
inputTokens: number, 
/**
 * All output, reasoning included.
 */
outputTokens: number, 
/**
 * Absent where the provider did not tell.
 */
cacheReadTokens?: number, cacheWriteTokens?: number, 
/**
 * Input that had nothing to do with a cache.
 */
noCacheTokens: number, reasoningTokens?: number, 
/**
 * In US dollars, by the prices of the time at which it was recorded; absent where there was none for the model.
 */
costUsd?: number, 
/**
 * What it would have cost, had there been no cache.
 */
costUsdWithoutCache?: number, metadata?: JsonValue, 
/**
 * Unix milliseconds.
 */
createdAt: number, };

/** Sums over responses. */
export type UsageTotals = { 
/**
 * All input, cache reads and writes included.
 */
inputTokens: number, 
/**
 * All output, reasoning included.
 */
outputTokens: number, cacheReadTokens: number, cacheWriteTokens: number, 
/**
 * Input that had nothing to do with a cache.
 */
noCacheTokens: number, reasoningTokens: number, 
/**
 * In US dollars, of the responses that have a price; null where there are responses and none has one.
 */
costUsd: number | null, 
/**
 * What the same responses would have cost, had there been no cache.
 */
costUsdWithoutCache: number | null, 
/**
 * The difference; 0 where the cache made it dearer.
 */
cacheSavingsUsd: number | null, 
/**
 * Cache reads in percent of all input; null without input.
 */
cacheHitPercent: number | null, 
/**
 * How many turns the responses belong to.
 */
turns: number, 
/**
 * Of them, how many have a response without a price: the costs lack it.
 */
unpricedTurns: number, };

export type ValidateToken = { token: string, };

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

export type Workflow = { id: string, version: string, definition: JsonValue, 
/**
 * Unix milliseconds.
 */
createdAt: number, 
/**
 * Unix milliseconds.
 */
updatedAt: number, };

export interface Executions {
  /** Creates an execution; it starts `pending`. */
  create(input: CreateExecution, options?: CallOptions): Promise<Created<Execution>>;
  /** The execution, or null. */
  get(id: string, options?: CallOptions): Promise<Execution | null>;
  /** Lists executions in the order in which they were created. */
  list(input?: ListExecutions, options?: CallOptions): List<Execution>;
  /** Changes the status by command, where the table of transitions allows it; `invalid_transition` otherwise. Entering a terminal status cancels the execution's waiting items. */
  setStatus(id: string, input: Omit<SetStatus, "id" | "expectedStatus">, options?: CallOptions & Pick<SetStatus, "expectedStatus">): Promise<Execution>;
  /** The executions that changed last, newest first: what a sidebar shows. */
  recent(input?: RecentExecutions, options?: CallOptions): Promise<Recent<Execution>>;
  /** Counts executions, by status where that is asked for. Costs the same however many there are. */
  count(input?: CountExecutions, options?: CallOptions): Promise<ExecutionCounts>;
  /** Cancels an execution that has not ended, and its waiting items. */
  cancel(id: string, input?: Omit<CancelExecution, "id">, options?: CallOptions): Promise<Execution>;
  /** Puts another state in the place of the one there is; `invalid_transition` once the execution has ended. */
  setState(id: string, input: Omit<SetState, "id" | "expectedSequence">, options?: CallOptions & Pick<SetState, "expectedSequence">): Promise<StateChanged>;
  /** Merges a patch into the state (RFC 7396); `invalid_transition` once the execution has ended. */
  patchState(id: string, input: Omit<PatchState, "id" | "expectedSequence">, options?: CallOptions & Pick<PatchState, "expectedSequence">): Promise<StateChanged>;
  /** Appends a value to an array of the state, which is made where there is none; `conflict` where the key holds something else. */
  appendToState(id: string, input: Omit<AppendToState, "id" | "expectedSequence">, options?: CallOptions & Pick<AppendToState, "expectedSequence">): Promise<StateChanged>;
  /** Ends the execution `completed`, and begins its next segment with a state and a first work item, in one transaction. Asked twice, it answers the same segment. */
  continueAsNew(id: string, input?: Omit<ContinueAsNew, "id">, options?: CallOptions): Promise<Created<Execution>>;
  /** Begins an execution whose past is this one's log up to a sequence. */
  fork(id: string, input?: Omit<ForkExecution, "id" | "at">, options?: CallOptions & Pick<ForkExecution, "at">): Promise<Created<Execution>>;
  /** Deletes an execution with its log, items, timers and snapshots. Its children stay. */
  delete(id: string, options?: CallOptions): Promise<null>;
  /** The fold of the log: status, state, nodes, budget and open approvals, now or as of a sequence. */
  materialize(id: string, options?: CallOptions & Pick<Materialize, "at">): Promise<Materialized>;
}

export interface Events {
  /** Appends one event, and brings the execution up to it in the same transaction. */
  append(executionId: string, event: EventInput, options?: CallOptions & Pick<AppendEvents, "expectedSequence">): Promise<Created<Event>>;
  /** Appends several events, all or none. */
  appendMany(executionId: string, events: AppendEvents["events"], options?: CallOptions & Pick<AppendEvents, "expectedSequence">): Promise<Array<Created<Event>>>;
  /** Lists the events of an execution in the order of their sequence. */
  list(input: ListEvents, options?: CallOptions): List<Event>;
  /** The sequence of the newest event; 0 without any. */
  latestSequence(executionId: string, options?: CallOptions): Promise<number>;
}

export interface Snapshots {
  /** The newest snapshot of an execution, or null. */
  latest(executionId: string, options?: CallOptions): Promise<Snapshot | null>;
  /** Lists the snapshots of an execution in the order of their sequence. */
  list(input: ListSnapshots, options?: CallOptions): List<Snapshot>;
}

export interface Approvals {
  /** Lists approvals across executions in the order in which they were asked for. */
  list(input?: ListApprovals, options?: CallOptions): List<Approval>;
  /** Decides an approval. The first decision counts; a second is `conflict`. */
  resolve(input: ResolveApproval, options?: CallOptions): Promise<Approval>;
}

export interface Workflows {
  /** Stores a definition under an id and a version. The same content again changes nothing; other content is `conflict`, unless `replace` is true. */
  put(input: PutWorkflow, options?: CallOptions): Promise<Created<Workflow>>;
  /** A definition, or null: of a version, or the newest. */
  get(id: string, input?: Omit<GetWorkflow, "id">, options?: CallOptions): Promise<Workflow | null>;
  /** Lists definitions in the order in which they were first put. */
  list(input?: ListWorkflows, options?: CallOptions): List<Workflow>;
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

export interface Timers {
  /** Schedules a timer, and appends `timer_created`. Once it is due, the sweep appends `timer_fired` and enqueues its work item, in one transaction and once. `invalid_transition` where the execution has ended. */
  schedule(input: ScheduleTimer, options?: CallOptions): Promise<Created<Timer>>;
  /** Cancels a timer that has not fired; `invalid_transition` once it has. */
  cancel(id: string, options?: CallOptions): Promise<Timer>;
  /** The timer, or null. */
  get(id: string, options?: CallOptions): Promise<Timer | null>;
  /** Lists timers in the order in which they were scheduled. */
  list(input?: ListTimers, options?: CallOptions): List<Timer>;
}

export interface Cron {
  /** Puts a schedule under a name, or changes the one that is there. Each time it comes due, the sweep begins an execution and enqueues its first work item, in one transaction and once; the execution's metadata is `{cron, dueAt}`. An expression, time zone and enabled that stay the same leave standing when it comes due. */
  put(input: PutCron, options?: CallOptions): Promise<Created<CronSchedule>>;
  /** The schedule, or null. */
  get(name: string, options?: CallOptions): Promise<CronSchedule | null>;
  /** Lists schedules in the order in which they were first put. */
  list(input?: ListCrons, options?: CallOptions): List<CronSchedule>;
  /** Deletes a schedule. The executions that it began stay. */
  delete(name: string, options?: CallOptions): Promise<null>;
  /** Fires a schedule now, also one that is disabled, and answers the execution. When it comes due next does not change. */
  trigger(name: string, options?: CallOptions): Promise<Execution>;
}

export interface Threads {
  /** Creates a thread; nothing has to be given. */
  create(input?: CreateThread, options?: CallOptions): Promise<Created<Thread>>;
  /** The thread, or null. */
  get(id: string, options?: CallOptions): Promise<Thread | null>;
  /** Changes what is named and nothing else. What is left out stays, null clears. */
  update(id: string, input: Omit<UpdateThread, "id">, options?: CallOptions): Promise<Thread>;
  /** Lists threads in the order in which they were created; archived ones only where that is asked for. */
  list(input?: ListThreads, options?: CallOptions): List<Thread>;
  /** The threads that changed last, newest first: what a sidebar shows. A thread changes with its turns and items. */
  recent(input?: RecentThreads, options?: CallOptions): Promise<Recent<Thread>>;
  /** Puts a thread out of sight. It can be written to as before. */
  archive(id: string, options?: CallOptions): Promise<Thread>;
  /** Brings an archived thread back. */
  unarchive(id: string, options?: CallOptions): Promise<Thread>;
  /** Deletes a thread with its turns, items, events and prompts. What it has used stays recorded, and blobs stay. */
  delete(id: string, options?: CallOptions): Promise<null>;
  /** Copies a thread into a new one, whole or up to and including an item or a turn. What is open is `interrupted` in the copy; usage, prompts and events are not copied. */
  fork(id: string, input?: Omit<ForkThread, "id">, options?: CallOptions): Promise<Created<Thread>>;
  /** Finds threads by their titles, and by what was asked, answered and put out by tools: best matches first, each with a snippet. What is typed is taken as words, the last one as a beginning. Of an item, the first MiB counts, once it has ended. */
  search(input: SearchThreads, options?: CallOptions): Promise<SearchResults>;
}

export interface Turns {
  /** Creates a turn, `queued` unless a status is given. */
  create(input: CreateTurn, options?: CallOptions): Promise<Created<Turn>>;
  /** The turn, or null. */
  get(id: string, options?: CallOptions): Promise<Turn | null>;
  /** Changes what is named. A status goes from `queued` to `in_progress` to an end, or from `queued` to an end other than `completed`; `invalid_transition` otherwise. Items that are open when the turn ends, end as it does. */
  update(id: string, input: Omit<UpdateTurn, "id" | "expectedStatus">, options?: CallOptions & Pick<UpdateTurn, "expectedStatus">): Promise<Turn>;
  /** Lists the turns of a thread in the order in which they were created. */
  list(input: ListTurns, options?: CallOptions): List<Turn>;
  /** Lists the turns of all threads that are queued or in progress, in the order in which they were created. */
  listIncomplete(input?: ListIncompleteTurns, options?: CallOptions): List<Turn>;
  /** Ends the turns in progress whose owner is not among those alive, or that have none: they, and what is open in them, become `interrupted`, with the reason in `error`. Queued turns are left alone. */
  recover(input?: RecoverTurns, options?: CallOptions): Promise<Recovered>;
}

export interface Items {
  /** Creates an item at the end of a thread. */
  create(input: CreateItem, options?: CallOptions): Promise<Created<ThreadItem>>;
  /** Inserts an item, or changes what is named of the one that has this id; its thread, turn and kind stay (`conflict`). */
  put(input: PutItem, options?: CallOptions): Promise<Created<ThreadItem>>;
  /** The item, or null. */
  get(id: string, options?: CallOptions): Promise<ThreadItem | null>;
  /** Changes what is named. A status goes from `queued` to `in_progress` to an end, or from `queued` to an end at once; `invalid_transition` otherwise. */
  update(id: string, input: Omit<UpdateItem, "id">, options?: CallOptions): Promise<ThreadItem>;
  /** Deletes an item. The others keep their positions. */
  delete(id: string, options?: CallOptions): Promise<null>;
  /** Lists the items of a thread, or of a turn, in the order of their positions. */
  list(input: ListThreadItems, options?: CallOptions): List<ThreadItem>;
  /** Appends to the text of an item, at the same cost however long it is; a queued item comes to be in progress. `invalid_transition` once it has ended, `conflict` (with `details.length`) where the text is not as long as `at`. A delta may end within a surrogate pair, of which the next one brings the rest. */
  appendText(id: string, input: Omit<AppendText, "id" | "at">, options?: CallOptions & Pick<AppendText, "at">): Promise<TextLength>;
  /** What of an item's text is new to one who knows its first `after` UTF-16 code units. `conflict` (with `details.length`) where it is shorter than that: another text has taken its place. */
  readText(id: string, input?: Omit<ReadText, "id">, options?: CallOptions): Promise<NewText>;
}

export interface ThreadEvents {
  /** Appends an event, and answers its sequence: a number that rises with each event of the tenant and is never given twice. */
  append(threadId: string, input: Omit<AppendThreadEvent, "threadId">, options?: CallOptions): Promise<number>;
  /** Lists the events of a thread in the order of their sequence. */
  list(input: ListThreadEvents, options?: CallOptions): List<ThreadEvent>;
}

export interface Inbox {
  /** Admits a prompt: it gets the thread's next number and waits, `queue` for a turn of its own, `steer` for the turn that is running. */
  admit(threadId: string, input: Omit<AdmitPrompt, "threadId">, options?: CallOptions): Promise<Created<Prompt>>;
  /** The prompt, or null. */
  get(id: string, options?: CallOptions): Promise<Prompt | null>;
  /** The oldest prompt that waits for a turn of its own, or null. */
  next(threadId: string, options?: CallOptions): Promise<Prompt | null>;
  /** The prompts that wait for the turn that is running, oldest first; at most 1000 and 8 MiB of them, more once these are promoted. */
  steers(threadId: string, options?: CallOptions): Promise<Array<Prompt>>;
  /** Takes a prompt out of the inbox, into a turn if one is named; once: `conflict` after that. */
  promote(id: string, input?: Omit<PromotePrompt, "id">, options?: CallOptions): Promise<Prompt>;
  /** Creates the turn of the oldest prompt that waits for one, and takes the prompt out of the inbox, in one transaction; null where none waits. */
  promoteNext(threadId: string, input?: Omit<PromoteNext, "threadId">, options?: CallOptions): Promise<PromotedNext | null>;
  /** Takes a prompt back; `conflict` once a turn has taken it. */
  withdraw(id: string, options?: CallOptions): Promise<Prompt>;
  /** Lists the prompts of a thread in the order in which they were admitted. */
  list(input: ListPrompts, options?: CallOptions): List<Prompt>;
}

export interface Usage {
  /** Records what a response has used, once: a response id that is known answers the first record. Its cost is that of its time. */
  record(input: RecordUsage, options?: CallOptions): Promise<Created<UsageRecord>>;
  /** What a response has used, or null. */
  get(responseId: string, options?: CallOptions): Promise<UsageRecord | null>;
  /** Lists records in the order in which they were made. */
  list(input?: ListUsage, options?: CallOptions): List<UsageRecord>;
  /** Sums up what was used in a span of time, and by day, model, provider or thread. What has no price is counted in `unpricedTurns`. */
  aggregate(input?: AggregateUsage, options?: CallOptions): Promise<UsageAggregate>;
  /** The prices that count for what is recorded from now on. */
  getPrices(options?: CallOptions): Promise<PriceList>;
  /** Sets the prices, in US dollars per million tokens. They take the place of all, the default ones included, and change nothing that was recorded. */
  setPrices(prices: SetPrices["prices"], options?: CallOptions): Promise<PriceList>;
  /** Gives what was recorded the cost that it has by the list of now. What the list has no price for has no cost then. */
  reprice(input?: RepriceUsage, options?: CallOptions): Promise<Repriced>;
}

export interface Blobs {
  /** Keeps bytes, at most 128 MiB, under their SHA-256. The same bytes again answer the blob that exists. */
  put(bytes: Bytes, input?: PutBlob, options?: CallOptions): Promise<Created<Blob>>;
  /** The blob with its bytes, or a range of them, or null. A range ends where the blob does. */
  get(id: string, input?: Omit<GetBlob, "id">, options?: CallOptions): Promise<(BlobContent & { bytes: Uint8Array }) | null>;
  /** Deletes a blob's bytes, whether or not something refers to them. */
  delete(id: string, options?: CallOptions): Promise<null>;
  /** Lists blobs, without their bytes, in the order in which they were first put. */
  list(input?: ListBlobs, options?: CallOptions): List<Blob>;
}

export interface Imports {
  /** Imports a JamJet state database: definitions, executions, events, snapshots, work items, dead letters, tenants, token digests. Importing it again adds nothing. What cannot be read is in the report, with its table and id; the rest is imported. */
  jamjet(bytes: Bytes, input?: ImportJamjet, options?: CallOptions): Promise<ImportReport>;
  /** Imports a part of a file, whole lines of it, in one transaction; what `claudeCode`, `codex` and `zagensJson` are made of. The same part again adds nothing. */
  chunk(bytes: Bytes, input: ImportChunk, options?: CallOptions): Promise<ImportedChunk>;
}

export interface Tokens {
  /** Makes a token. The secret is in this answer only; the store keeps its digest. */
  create(input: CreateToken, options?: CallOptions): Promise<NewToken>;
  /** What a token stands for, or null where it is unknown, expired or revoked. On the plain store, of any tenant. */
  validate(token: string, options?: CallOptions): Promise<TokenInfo | null>;
  /** Ends a token. */
  revoke(id: string, options?: CallOptions): Promise<TokenInfo>;
  /** Lists tokens in the order in which they were made. */
  list(input?: ListTokens, options?: CallOptions): List<TokenInfo>;
}

export interface Tenants {
  /** Creates a tenant. */
  create(input: CreateTenant, options?: CallOptions): Promise<Created<Tenant>>;
  /** The tenant, or null. */
  get(id: string, options?: CallOptions): Promise<Tenant | null>;
  /** Lists tenants in the order in which they were made. */
  list(input?: ListTenants, options?: CallOptions): List<Tenant>;
  /** Changes what is named: status, name, policy, limits. */
  update(id: string, input: Omit<UpdateTenant, "id">, options?: CallOptions): Promise<Tenant>;
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
  readonly snapshots: Snapshots;
  readonly approvals: Approvals;
  readonly workflows: Workflows;
  readonly queue: Queue;
  readonly queues: Queues;
  readonly deadLetters: DeadLetters;
  readonly leases: Leases;
  readonly workers: Workers;
  readonly timers: Timers;
  readonly cron: Cron;
  readonly threads: Threads;
  readonly turns: Turns;
  readonly items: Items;
  readonly threadEvents: ThreadEvents;
  readonly inbox: Inbox;
  readonly usage: Usage;
  readonly blobs: Blobs;
  readonly imports: Imports;
  readonly tokens: Tokens;
  readonly tenants: Tenants;
  readonly retention: Retention;
  /** Runs operations that change something in one transaction: all or none. The error of one names its index in `details.index`. */
  batch(calls: Batch["calls"], options?: CallOptions): Promise<Array<JsonValue>>;
  /** Does what time brings: fires due timers and schedules, ends expired leases, removes lapsed workers, makes due items claimable. Call it regularly. */
  sweep(input?: SweepRequest, options?: CallOptions): Promise<SweepReport>;
  /** The whole store as a SQLite file, which a store of this version or a newer one opens: everything that was committed before, nothing of what comes after. Made in memory. */
  exportDatabase(options?: CallOptions): Promise<Exported & { bytes: Uint8Array }>;
}
