import { useEffect, useState } from "preact/hooks";
import type { Model } from "../model.js";
import { bytes } from "./format.js";

export function DropZone({ model }: { model: Model }) {
  const over = usePageDrop((files) => void model.takeFiles(files));
  const { intake } = model;
  return (
    <section class={`panel drop ${over ? "over" : ""}`}>
      <h2>Replay a session</h2>
      <p class="hint">
        Drop a session file of Claude Code or a rollout file of Codex (<code>.jsonl</code>) anywhere on the page. Nothing
        leaves your browser.
      </p>
      <div class="row">
        <label class="button">
          Choose a file
          <input
            class="unseen"
            type="file"
            accept=".jsonl,.json,.ndjson,application/jsonl"
            multiple
            onChange={({ currentTarget }) => {
              const files = [...(currentTarget.files ?? [])];
              // So that choosing the same file again is a change again.
              currentTarget.value = "";
              void model.takeFiles(files);
            }}
          />
        </label>
        <button type="button" class="primary" onClick={() => void model.takeSample()}>
          Try the sample
        </button>
      </div>
      {intake.state === "reading" && (
        <div class="intake">
          <span>
            Storing <bdi>{intake.file}</bdi>: {intake.progress.steps} steps
          </span>
          <progress aria-label={`Storing ${intake.file}`} max={intake.size} value={intake.progress.bytes} />
          <span class="hint">
            {bytes(intake.progress.bytes)} of {bytes(intake.size)}
          </span>
        </div>
      )}
      {intake.state === "failed" && (
        <p class="error" role="alert">
          <bdi>{intake.file}</bdi>: {intake.text}
        </p>
      )}
      {model.incomplete
        .filter(() => intake.state !== "reading")
        .map((recording) => (
          <p class="incomplete" key={recording.id}>
            <span>
              <bdi>{(recording.input as { file: string }).file}</bdi> is incomplete: drop the file again to finish it.
            </span>
            <button type="button" class="plain" onClick={() => void model.forget(recording)}>
              Forget it
            </button>
          </p>
        ))}
    </section>
  );
}

/** Takes files that are dropped anywhere on the page; true while some are held over it. */
function usePageDrop(take: (files: File[]) => void): boolean {
  const [over, setOver] = useState(false);
  useEffect(() => {
    const listening = new AbortController();
    const { signal } = listening;
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    addEventListener(
      "dragover",
      (event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(true);
      },
      { signal },
    );
    addEventListener("dragleave", (event) => event.relatedTarget === null && setOver(false), { signal });
    addEventListener(
      "drop",
      (event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(false);
        take([...event.dataTransfer!.files]);
      },
      { signal },
    );
    return () => listening.abort();
  }, []);
  return over;
}
