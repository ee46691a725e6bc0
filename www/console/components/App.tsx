import { useEffect, useReducer } from "preact/hooks";
import type { Model } from "../model.js";
import { DropZone } from "./DropZone.js";
import { Header } from "./Header.js";
import { LinesPanel } from "./LinesPanel.js";
import { ProblemsPanel } from "./ProblemsPanel.js";
import { QueuePanel } from "./QueuePanel.js";
import { RunList } from "./RunList.js";
import { RunView } from "./RunView.js";
import { WorkersPanel } from "./WorkersPanel.js";

export function App({ model }: { model: Model }) {
  const [, redraw] = useReducer((count: number, _: void) => count + 1, 0);
  useEffect(() => model.subscribe(() => redraw()), [model]);
  const run = model.runs.find((each) => each.execution.id === model.selected);
  return (
    <>
      <Header model={model} />
      <p class="unseen" role="status" aria-live="polite">
        {model.announcement}
      </p>
      <main class={run ? "with-run" : ""}>
        <div class="side">
          <DropZone model={model} />
          <RunList model={model} />
        </div>
        <div class="middle">{run ? <RunView model={model} run={run} /> : <Welcome />}</div>
        <div class="side">
          <QueuePanel model={model} />
          <WorkersPanel model={model} />
          {run && <LinesPanel model={model} run={run} />}
          <ProblemsPanel model={model} />
        </div>
      </main>
    </>
  );
}

function Welcome() {
  return (
    <section class="panel welcome">
      <h2>Nothing is running yet</h2>
      <p>
        Drop a session file on the page, or try the sample. It becomes a run: each recorded step is a work item, and the
        workers on this page take the items one by one and write the steps to the run's log.
      </p>
      <p>
        Then try to break it. Reload the page, close it and come back, or terminate the store's worker in the middle. The
        run goes on from where it was, and its log ends up as the recorded session, each step once.
      </p>
    </section>
  );
}
