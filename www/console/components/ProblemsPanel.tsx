import type { Model } from "../model.js";
import { clock } from "./format.js";

export function ProblemsPanel({ model }: { model: Model }) {
  return (
    <section class="panel">
      <h2>What went wrong</h2>
      {model.problems.length === 0 ? (
        <p class="hint">Nothing so far. Calls that fail are listed here; the workers try again.</p>
      ) : (
        <ul class="lines problems">
          {model.problems.map((problem) => (
            <li key={problem.id}>
              <span class="number">{clock(problem.at)}</span>
              <span>
                <bdi>{problem.what}</bdi>: {problem.text}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
