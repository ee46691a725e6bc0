import type { Model } from "../model.js";
import { ago } from "./format.js";

export function WorkersPanel({ model }: { model: Model }) {
  const own = new Set(model.workerIds);
  return (
    <section class="panel">
      <h2>Workers</h2>
      <p class="hint">Live ones, as the registry knows them. Those of a page that was killed lapse after a while.</p>
      {model.workers.length === 0 ? (
        <p class="hint">None is registered.</p>
      ) : (
        <ul class="items">
          {model.workers.map((worker) => (
            <li key={worker.workerId}>
              <span>
                <strong>{worker.workerId}</strong>
                {!own.has(worker.workerId) && <span class="hint"> of another tab or visit</span>}
              </span>
              <span class="hint">heartbeat {ago(worker.lastHeartbeatAt, model.now)}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
