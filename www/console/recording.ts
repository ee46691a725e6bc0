import type { Event, EventInput, Execution, Store } from "runkeep";
import { isFinal, messageOf, persist } from "./errors.js";
import { parseSession, type Entry, type Format, type JsonObject, type Kind } from "./sessions/index.js";

/**
 * A recording is an execution whose log holds what a session file says: `x-record` for each step, `x-rejected` and
 * `x-remark` for the lines that were not taken as they are, in file order, between `workflow_started` and
 * `workflow_completed`. It is stored whole before a run begins, so that the run needs the file no more.
 */
export const RECORDING = "recording";

export interface RecordedStep {
  step: number;
  line: number;
  kind: Kind;
  record: JsonObject;
}

export interface RecordingSummary {
  format: Format;
  steps: number;
  rejected: number;
  remarks: number;
}

export interface Recording extends RecordingSummary {
  id: string;
}

export interface Progress {
  steps: number;
  bytes: number;
}

const CHUNK = { events: 200, bytes: 1_000_000 };
const PIECE = 1 << 20;

/**
 * Names a file by what is in it: SHA-256 over its pieces, each chained to the one before, since a digest of the whole
 * would need the whole in memory.
 */
export async function fingerprint(file: Blob): Promise<string> {
  let digest = new Uint8Array();
  for (let at = 0; at === 0 || at < file.size; at += PIECE) {
    const piece = await new Blob([digest, file.slice(at, at + PIECE)]).arrayBuffer();
    digest = new Uint8Array(await crypto.subtle.digest("SHA-256", piece));
  }
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The execution that keeps a recording: the newest attempt at this content that has not failed, or the id for a new one. */
async function findRecording(store: Store, print: string): Promise<{ id: string; execution: Execution | null }> {
  for (let attempt = 1; ; attempt++) {
    const id = `recording-${print}-${attempt}`;
    const execution = await persist(() => store.executions.get(id));
    if (execution === null || !["failed", "cancelled"].includes(execution.status)) return { id, execution };
  }
}

/** The complete recording of a file with this fingerprint, if there is one. */
export async function completeRecording(store: Store, print: string): Promise<Recording | null> {
  const { execution } = await findRecording(store, print);
  return execution === null ? null : asRecording(execution);
}

/** The recording that an execution holds, or null while it is not stored to the end. */
export function asRecording(execution: Execution): Recording | null {
  if (execution.status !== "completed") return null;
  return { id: execution.id, ...(execution.output as unknown as RecordingSummary) };
}

/**
 * Stores a file as a recording, or finishes what an earlier try began. Each event has an id of its own, made from the
 * recording's and its place in the file, so a chunk whose answer was lost is sent again and stored once.
 */
export async function storeRecording(
  store: Store,
  file: File,
  print: string,
  onProgress: (progress: Progress) => void,
): Promise<Recording> {
  const { id, execution } = await findRecording(store, print);
  const known = execution && asRecording(execution);
  if (known) return known;

  const entries = parseSession(bytesOf(file));
  const first = await entries.next();
  if (first.done || first.value.type !== "format") throw new Error("a session begins with its format");
  const { format } = first.value;

  const input = { file: file.name, bytes: file.size, format };
  if (execution === null) {
    await persist(() => store.executions.create({ id, workflowId: RECORDING, workflowVersion: "1", input }));
  }
  try {
    return { id, ...(await appendEntries(store, id, format, entries, onProgress)) };
  } catch (error) {
    if (isFinal(error)) {
      const reason = messageOf(error).slice(0, 500);
      await persist(() => store.executions.setStatus(id, { status: "failed", reason }));
    }
    throw error;
  }
}

async function appendEntries(
  store: Store,
  id: string,
  format: Format,
  entries: AsyncIterable<Entry>,
  onProgress: (progress: Progress) => void,
): Promise<RecordingSummary> {
  const summary: RecordingSummary = { format, steps: 0, rejected: 0, remarks: 0 };
  const progress: Progress = { steps: 0, bytes: 0 };
  let chunk: EventInput[] = [];
  let chunkBytes = 0;
  let count = 0;

  const add = (event: EventInput, bytes: number) => {
    chunk.push({ ...event, id: `${id}/${count++}` });
    chunkBytes += bytes;
  };
  const flush = async () => {
    await persist(() => store.events.appendMany(id, chunk));
    progress.steps = summary.steps;
    progress.bytes += chunkBytes;
    onProgress({ ...progress });
    chunk = [];
    chunkBytes = 0;
  };

  add({ type: "workflow_started", data: { workflowId: RECORDING, workflowVersion: "1", initialInput: { format } } }, 0);
  for await (const entry of entries) {
    if (entry.type === "step") {
      const { line, kind, record, bytes } = entry;
      if (chunk.length >= CHUNK.events || chunkBytes + bytes > CHUNK.bytes) await flush();
      const recorded: RecordedStep = { step: ++summary.steps, line, kind, record };
      add({ type: "x-record", data: recorded }, bytes);
    } else if (entry.type !== "format") {
      if (chunk.length >= CHUNK.events) await flush();
      if (entry.type === "rejected") summary.rejected++;
      else summary.remarks++;
      add({ type: `x-${entry.type}`, data: { line: entry.line, reason: entry.reason } }, 100);
    }
  }
  add({ type: "workflow_completed", data: { output: summary } }, 0);
  await flush();
  return summary;
}

/** A Blob's bytes as they are read. (Not every browser lets a stream be iterated.) */
export async function* bytesOf(file: Blob): AsyncGenerator<Uint8Array> {
  const reader = file.stream().getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}

/** The next record of a recording after a sequence of its log, with its own sequence; null at the end. */
export async function nextRecord(
  store: Store,
  recordingId: string,
  after: number,
): Promise<{ sequence: number; recorded: RecordedStep } | null> {
  const list = store.events.list({ executionId: recordingId, after, types: ["x-record"], limit: 1 });
  for await (const event of list) return { sequence: event.sequence, recorded: recordedStep(event) };
  return null;
}

/** All records of a recording, in order. */
export async function* recordsOf(store: Store, recordingId: string): AsyncGenerator<RecordedStep> {
  for await (const event of store.events.list({ executionId: recordingId, types: ["x-record"] })) {
    yield recordedStep(event);
  }
}

function recordedStep(event: Event): RecordedStep {
  return event.data as unknown as RecordedStep;
}
