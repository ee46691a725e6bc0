import type { Event, Execution, Store } from "runkeep";
import { bytesOf, recordsOf, type RecordedStep } from "./recording.js";
import { inputOf, isFinished } from "./replay.js";
import { parseSession } from "./sessions/index.js";
import { isObject, type Json } from "./sessions/json.js";

export interface Verdict {
  /** `partial`: as far as the run came, it is equal. */
  outcome: "equal" | "partial" | "different";
  /** One sentence for a person. */
  text: string;
}

/** Where the recorded steps come from: the recording in the store, or the file itself. */
type Steps = AsyncIterable<Omit<RecordedStep, "kind">>;

/** Reads the whole log of a run and compares it, step by step, with its recording, or with a file that was dropped again. */
export async function verify(store: Store, run: Execution, file?: Blob): Promise<Verdict> {
  const { recordingId, steps } = inputOf(run);
  const name = file ? "the file" : "the recording";
  const wanted: Steps = file ? stepsOf(file) : recordsOf(store, recordingId);
  const recorded = wanted[Symbol.asyncIterator]();
  const differs = (text: string): Verdict => ({ outcome: "different", text: `The log differs from ${name}: ${text}` });
  let at = 0;
  let started = 0;
  let completed = 0;
  let retries = 0;
  try {
    for await (const event of store.events.list({ executionId: run.id })) {
      if (event.type === "workflow_started") started++;
      else if (event.type === "workflow_completed") completed++;
      else if (event.type === "retry_scheduled") retries++;
      if (!event.type.startsWith("x-session.")) continue;
      const next = await recorded.next();
      if (next.done) return differs(`event ${event.sequence} is one step more than the ${at} that ${name} has.`);
      at++;
      const problem = stepDiffers(event, next.value);
      if (problem) return differs(`event ${event.sequence}, where step ${at} belongs: ${problem}.`);
    }
    const next = await recorded.next();
    if (run.status !== "completed") {
      const state = isFinished(run) ? run.status : "under way";
      return { outcome: "partial", text: `The run is ${state}. Its log so far, ${count(at)}, equals ${name}.` };
    }
    if (!next.done) return differs(`it ends after ${count(at)}, and ${name} has more.`);
  } finally {
    await recorded.return?.();
  }
  if (at !== steps) return differs(`the run was to have ${count(steps)} and ${name} has ${at}.`);
  if (started !== 1 || completed !== 1) {
    return differs(`the run was started ${started} times and completed ${completed} times.`);
  }
  return { outcome: "equal", text: `The log equals ${name}: ${count(steps)}, each once.${repeated(retries)}` };
}

async function* stepsOf(file: Blob): AsyncGenerator<Omit<RecordedStep, "kind">> {
  let step = 0;
  for await (const entry of parseSession(bytesOf(file))) {
    if (entry.type === "step") yield { step: ++step, line: entry.line, record: entry.record };
  }
}

function stepDiffers(event: Event, wanted: Omit<RecordedStep, "kind">): string | undefined {
  const data = event.data as unknown as RecordedStep;
  if (data.step !== wanted.step) return `it is step ${data.step}`;
  if (data.line !== wanted.line) return `its line is ${data.line} instead of ${wanted.line}`;
  const path = difference(data.record, wanted.record);
  return path === undefined ? undefined : `the record differs at ${path}`;
}

/** The path of the first place where two JSON values differ, the order of members included; undefined if they are equal. */
export function difference(a: Json | undefined, b: Json | undefined, path = "record"): string | undefined {
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let i = 0; i < Math.max(a.length, b.length); i++) {
      const found = difference(a[i], b[i], `${path}[${i}]`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (!isObject(a) || !isObject(b)) return a === b ? undefined : path;
  const names = Object.keys(a);
  const others = Object.keys(b);
  for (let i = 0; i < Math.max(names.length, others.length); i++) {
    const name = names[i];
    if (name === undefined || name !== others[i]) return `${path}.${name ?? others[i]}`;
    const found = difference(a[name], b[name], `${path}.${name}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

function count(steps: number): string {
  return steps === 1 ? "1 step" : `${steps} steps`;
}

function repeated(deliveries: number): string {
  if (deliveries === 0) return "";
  return deliveries === 1 ? " One delivery did not finish and was repeated." : ` ${deliveries} deliveries did not finish and were repeated.`;
}
