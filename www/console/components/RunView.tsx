import type { Model, Run } from "../model.js";
import { inputOf, payloadOf, speeds, type Speed } from "../replay.js";
import { formatNames } from "../sessions/index.js";
import { Log } from "./Log.js";
import { Status } from "./Status.js";

export function RunView({ model, run }: { model: Model; run: Run }) {
  const { execution, done, steps, item } = run;
  const { file, format } = inputOf(execution);
  const verdict = model.verdicts.get(execution.id);
  const { status } = execution;
  return (
    <section class="panel selected" aria-labelledby="run-name">
      <div class="title">
        <h2 id="run-name">
          <bdi>{file}</bdi>
        </h2>
        <Status execution={execution} />
      </div>
      <p class="hint">
        {formatNames[format]} · run <code>{execution.id}</code>
      </p>
      <div class="progress">
        <progress aria-label="Steps in the log" max={steps} value={done} />
        <span>
          {done} of {steps} steps
        </span>
      </div>
      <div class="row controls">
        {status === "running" && (
          <button type="button" onClick={() => void model.pause(run)}>
            Pause
          </button>
        )}
        {status === "paused" && (
          <button type="button" class="primary" onClick={() => void model.resume(run)}>
            Resume
          </button>
        )}
        {["pending", "running", "paused"].includes(status) && (
          <button type="button" onClick={() => void model.cancel(run)}>
            Cancel
          </button>
        )}
        <button type="button" disabled={verdict === "checking"} onClick={() => void model.verify(run)}>
          Verify
        </button>
        <button type="button" onClick={() => void model.replayAgain(run)}>
          Replay again
        </button>
        <SpeedChoice model={model} />
      </div>
      {verdict !== undefined && (
        <p class={`verdict ${verdict === "checking" ? "checking" : verdict.outcome}`}>
          {verdict === "checking" ? "Comparing the log with what was recorded …" : verdict.text}
        </p>
      )}
      {item?.status === "dead_lettered" && (
        <div class="error" role="alert">
          <p>
            Step {payloadOf(item).step} was given up after {item.attempt} {item.attempt === 1 ? "attempt" : "attempts"} and
            is now a dead letter: {errorText(item.lastError)}
          </p>
          {status !== "cancelled" && (
            <button type="button" onClick={() => void model.tryAgain(run)}>
              Try this step again
            </button>
          )}
        </div>
      )}
      {model.log?.runId === execution.id && <Log key={execution.id} model={model} log={model.log} />}
    </section>
  );
}

function SpeedChoice({ model }: { model: Model }) {
  return (
    <fieldset class="speed">
      <legend>Speed</legend>
      {(Object.keys(speeds) as Speed[]).map((speed) => (
        <label key={speed}>
          <input
            type="radio"
            name="speed"
            value={speed}
            checked={model.speed === speed}
            onChange={() => model.setSpeed(speed)}
          />
          <span>{speed}</span>
        </label>
      ))}
    </fieldset>
  );
}

function errorText(error: unknown): string {
  if (typeof error === "string") return error;
  if (typeof error === "object" && error !== null && "message" in error) return String(error.message);
  return "the store keeps no reason.";
}
