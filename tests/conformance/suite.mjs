// The conformance suite: what a store does, in its users' words, wherever it runs. Groups of cases; see run.mjs for what a case is.
import { documentCases } from "./documents.mjs";
import { errors } from "./errors.mjs";
import { eventTypes } from "./event-types.mjs";
import { events } from "./events.mjs";
import { executions } from "./executions.mjs";
import { folding } from "./fold.mjs";
import { ids } from "./ids.mjs";
import { leases } from "./leases.mjs";
import { lists } from "./lists.mjs";
import { attempts } from "./queue-attempts.mjs";
import { cancelling } from "./queue-cancel.mjs";
import { claiming } from "./queue-claim.mjs";
import { enqueueing } from "./queue-enqueue.mjs";
import { settling } from "./queue-settle.mjs";
import { sweeping } from "./sweep.mjs";
import { times } from "./times.mjs";
import { workers } from "./workers.mjs";

export const suite = {
  executions,
  events,
  "event types": eventTypes,
  "the fold": folding,
  enqueueing,
  claiming,
  settling,
  attempts,
  cancelling,
  leases,
  workers,
  sweeps: sweeping,
  lists,
  documents: documentCases,
  ids,
  times,
  errors,
};
