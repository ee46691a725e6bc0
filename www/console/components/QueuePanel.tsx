import { Fragment } from "preact";
import { isUnderWay, type Model, type Run } from "../model.js";
import { inputOf, payloadOf } from "../replay.js";
import { seconds } from "./format.js";

const labels = {
  pending: "pending",
  scheduled: "scheduled",
  claimed: "claimed",
  completed: "completed",
  dead_lettered: "dead letters",
  cancelled: "cancelled",
} as const;

export function QueuePanel({ model }: { model: Model }) {
  const current = model.runs.filter((run) => run.item && isUnderWay(run));
  return (
    <section class="panel">
      <h2>Queue</h2>
      <p class="hint">Each step is a work item. Completing it appends the step and enqueues the next in one transaction.</p>
      <dl class="counts">
        {(Object.keys(labels) as (keyof typeof labels)[]).map((status) => (
          <div key={status}>
            <dt>{labels[status]}</dt>
            <dd>{model.stats?.counts[status] ?? 0}</dd>
          </div>
        ))}
      </dl>
      {current.length > 0 && (
        <ul class="items">
          {current.map((run) => (
            <li key={run.execution.id}>
              <Item run={run} now={model.now} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Item({ run, now }: { run: Run; now: number }) {
  const item = run.item!;
  const left = (item.leaseExpiresAt ?? now) - now;
  const facts: string[] = [item.status.replace("_", " ")];
  if (item.attempt > 0) facts.push(`attempt ${item.attempt} of ${item.maxAttempts}`);
  if (item.status === "claimed") facts.push(`${item.workerId}`, left > 0 ? `lease ${seconds(left)}` : "lease ran out");
  if (item.status === "pending" && run.execution.status === "paused") facts.push("waits for the run to be resumed");
  return (
    <>
      <span>
        <strong>step {payloadOf(item).step}</strong> of <bdi>{inputOf(run.execution).file}</bdi>
      </span>
      <span class="hint">
        {facts.map((fact, i) => (
          <Fragment key={i}>
            <span class="whole">{i < facts.length - 1 ? `${fact} ·` : fact}</span>{" "}
          </Fragment>
        ))}
      </span>
    </>
  );
}
