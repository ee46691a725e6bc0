import type { Execution } from "runkeep";

export function Status({ execution }: { execution: Execution }) {
  return <span class={`status ${execution.status}`}>{execution.status.replace("_", " ")}</span>;
}
