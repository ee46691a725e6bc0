import type { Model, Run } from "../model.js";
import { inputOf } from "../replay.js";
import { formatNames } from "../sessions/index.js";
import { ago } from "./format.js";
import { Status } from "./Status.js";

export function RunList({ model }: { model: Model }) {
  const { runs } = model;
  return (
    <section class="panel">
      <h2>Runs</h2>
      {runs.length === 0 ? (
        <p class="hint">No run yet. The first one appears here and stays, also after you close the page.</p>
      ) : (
        <ul class="runs">
          {runs.map((run) => (
            <li key={run.execution.id}>
              <RunButton model={model} run={run} />
            </li>
          ))}
        </ul>
      )}
      {model.moreRuns && (
        <button type="button" class="plain" onClick={() => model.showMoreRuns()}>
          Show older runs
        </button>
      )}
    </section>
  );
}

function RunButton({ model, run }: { model: Model; run: Run }) {
  const { execution, done, steps } = run;
  const { file, format } = inputOf(execution);
  return (
    <button
      type="button"
      class="run-button"
      aria-current={execution.id === model.selected ? "true" : undefined}
      onClick={() => model.select(execution.id)}
    >
      <span>
        <span class="name" title={file}>
          <bdi>{file}</bdi>
        </span>
        <Status execution={execution} />
      </span>
      <progress aria-hidden="true" max={steps} value={done} />
      <span class="hint">
        <span>
          {done} of {steps} steps
        </span>
        <span>
          {formatNames[format]} · {ago(execution.createdAt, model.now)}
        </span>
      </span>
    </button>
  );
}
