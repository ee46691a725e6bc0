// The conformance suite: what a store does, in its users' words, wherever it runs. Groups of cases; see run.mjs for what a case is.
import { approvals } from "./approvals.mjs";
import { batches } from "./batches.mjs";
import { blobs } from "./blobs.mjs";
import { cron } from "./cron.mjs";
import { documentCases } from "./documents.mjs";
import { errors } from "./errors.mjs";
import { eventTypes } from "./event-types.mjs";
import { events } from "./events.mjs";
import { executions } from "./executions.mjs";
import { folding } from "./fold.mjs";
import { ids } from "./ids.mjs";
import { inbox } from "./inbox.mjs";
import { items } from "./items.mjs";
import { leases } from "./leases.mjs";
import { lists } from "./lists.mjs";
import { limits } from "./limits.mjs";
import { attempts } from "./queue-attempts.mjs";
import { cancelling } from "./queue-cancel.mjs";
import { claiming } from "./queue-claim.mjs";
import { enqueueing } from "./queue-enqueue.mjs";
import { settling } from "./queue-settle.mjs";
import { retention } from "./retention.mjs";
import { runs } from "./runs.mjs";
import { search } from "./search.mjs";
import { suspension } from "./suspension.mjs";
import { sweeping } from "./sweep.mjs";
import { tenants } from "./tenants.mjs";
import { texts } from "./text.mjs";
import { threadEvents } from "./thread-events.mjs";
import { threads } from "./threads.mjs";
import { timers } from "./timers.mjs";
import { times } from "./times.mjs";
import { tokens } from "./tokens.mjs";
import { turns } from "./turns.mjs";
import { usage } from "./usage.mjs";
import { workers } from "./workers.mjs";
import { workflows } from "./workflows.mjs";

export const suite = {
  executions,
  events,
  "event types": eventTypes,
  "the fold": folding,
  runs,
  approvals,
  workflows,
  enqueueing,
  claiming,
  settling,
  attempts,
  cancelling,
  limits,
  leases,
  workers,
  suspension,
  threads,
  turns,
  "thread events": threadEvents,
  inbox,
  usage,
  blobs,
  timers,
  cron,
  sweeps: sweeping,
  retention,
  items,
  "streaming text": texts,
  search,
  tokens,
  tenants,
  batches,
  lists,
  documents: documentCases,
  ids,
  times,
  errors,
};
