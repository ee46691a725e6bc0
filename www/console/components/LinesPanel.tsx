import type { Model, Run } from "../model.js";
import { inputOf } from "../replay.js";

export function LinesPanel({ model, run }: { model: Model; run: Run }) {
  const { rejected, remarks } = inputOf(run.execution);
  return (
    <section class="panel">
      <h2>Lines of the file</h2>
      {rejected + remarks === 0 ? (
        <p class="hint">Every line was taken as it is.</p>
      ) : (
        <>
          <p class="hint">
            {rejected} rejected, {remarks} kept with a change. All others were taken as they are.
          </p>
          <ul class="lines">
            {model.notes.items.map((note, i) => (
              <li key={i}>
                <span class="number">line {note.line}</span>
                <span>
                  {note.rejected ? "rejected: " : "kept: "}
                  {note.reason}
                </span>
              </li>
            ))}
          </ul>
          {model.notes.cursor !== null && (
            <button type="button" class="plain" onClick={() => void model.moreNotes()}>
              Show more
            </button>
          )}
        </>
      )}
    </section>
  );
}
