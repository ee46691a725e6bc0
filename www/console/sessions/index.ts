import { describeClaude, isClaude } from "./claude.js";
import { describeBareCodex, describeCodex, isBareCodex, isCodex } from "./codex.js";
import type { Description, Kind } from "./describe.js";
import { objectsIn, roundedIntegers, wellFormed, whyUnstorable, type JsonObject } from "./json.js";
import { linesOf, type Line } from "./lines.js";

export type { Description, Kind } from "./describe.js";
export type { Json, JsonObject } from "./json.js";

export type Format = "claude-code" | "codex" | "codex-bare";

export const formatNames: Record<Format, string> = {
  "claude-code": "Claude Code",
  codex: "Codex",
  "codex-bare": "Codex (2025, bare records)",
};

/** One recorded step: the record as it was parsed, and the line it stands on. Two steps may share a line. */
export interface Step {
  type: "step";
  line: number;
  kind: Kind;
  title: string;
  record: JsonObject;
  /** The length of its line, for whoever sends steps on in batches. */
  bytes: number;
}

/** A line, or the rest of one, that is no step. */
export interface Rejected {
  type: "rejected";
  line: number;
  reason: string;
}

/** Something of the step before that JavaScript cannot hold as it was written. */
export interface Remark {
  type: "remark";
  line: number;
  reason: string;
}

export type Entry = { type: "format"; format: Format } | Step | Rejected | Remark;

export interface Limits {
  maxLineBytes: number;
  maxDepth: number;
}

/** A store takes documents of 16 MiB and 128 levels; a step travels inside a small envelope. */
export const defaultLimits: Limits = { maxLineBytes: 16 * 1024 * 1024 - 4096, maxDepth: 126 };

/** The file is no recorded session. Its message is for the person who dropped it. */
export class UnknownFormatError extends Error {
  override readonly name = "UnknownFormatError";
}

/** How far to look for the first record that tells the format. */
const SEARCH = { records: 64, lines: 4096, bytes: 4 * 1024 * 1024 };

const readers: Record<Format, { is(record: JsonObject): boolean; describe(record: JsonObject): Description }> = {
  "claude-code": { is: isClaude, describe: describeClaude },
  codex: { is: isCodex, describe: describeCodex },
  "codex-bare": { is: isBareCodex, describe: describeBareCodex },
};

export function describe(format: Format, record: JsonObject): Description {
  return readers[format].describe(record);
}

/**
 * Reads a recorded session: first its format, then everything in file order. What is not a record is rejected with its
 * line and the reason, and the rest goes on. However the bytes are cut into chunks, the entries are the same. Throws an
 * `UnknownFormatError` before the first entry.
 */
export async function* parseSession(
  source: AsyncIterable<Uint8Array>,
  limits: Limits = defaultLimits,
): AsyncGenerator<Entry> {
  let format: Format | undefined;
  let waiting: (Found | Rejected)[] = [];
  const seen = { records: 0, lines: 0, bytes: 0 };

  for await (const line of linesOf(source, limits.maxLineBytes)) {
    const found = entriesOf(line, limits);
    if (format === undefined) {
      waiting.push(...found);
      seen.lines++;
      seen.bytes += line.bytes;
      const records = found.filter((entry) => entry.type === "found");
      seen.records += records.length;
      format = formatOf(records);
      if (format !== undefined) {
        yield { type: "format", format };
        for (const entry of waiting) yield* finished(entry, format);
        waiting = [];
      } else if (seen.records >= SEARCH.records || seen.lines >= SEARCH.lines || seen.bytes >= SEARCH.bytes) {
        break;
      }
    } else {
      for (const entry of found) yield* finished(entry, format);
    }
  }
  if (format === undefined) throw new UnknownFormatError(whyUnknown(seen, waiting));
}

/** A record whose format is not known yet. */
interface Found {
  type: "found";
  line: number;
  bytes: number;
  record: JsonObject;
  remarks: string[];
}

function entriesOf(line: Line, limits: Limits): (Found | Rejected)[] {
  const reject = (reason: string): Rejected => ({ type: "rejected", line: line.number, reason });
  if ("problem" in line) return [reject(line.problem)];
  if (line.text.trim() === "") return [];
  const { objects, problem } = objectsIn(line.text);
  const entries: (Found | Rejected)[] = objects.map((parsed, i) => {
    const unstorable = whyUnstorable(parsed, limits.maxDepth);
    if (unstorable !== undefined) return reject(unstorable);
    const record = wellFormed(parsed, line.text);
    const remarks = i === 0 ? roundedIntegers(line.text).map(remarkOnRounding) : [];
    if (record !== parsed) remarks.push("half of a character (a lone surrogate) became U+FFFD");
    return { type: "found", line: line.number, bytes: line.bytes, record, remarks };
  });
  if (problem !== undefined) entries.push(reject(problem));
  return entries;
}

function remarkOnRounding(digits: string): string {
  return `${digits} is more than JavaScript counts exactly and became ${BigInt(Number(digits))}`;
}

function formatOf(found: Found[]): Format | undefined {
  for (const { record } of found) {
    for (const [format, reader] of Object.entries(readers)) if (reader.is(record)) return format as Format;
  }
  return undefined;
}

function* finished(entry: Found | Rejected, format: Format): Generator<Step | Rejected | Remark> {
  if (entry.type === "rejected") {
    yield entry;
    return;
  }
  const { line, bytes, record, remarks } = entry;
  yield { type: "step", line, ...describe(format, record), record, bytes };
  for (const reason of remarks) yield { type: "remark", line, reason };
}

function whyUnknown(seen: { records: number; lines: number; bytes: number }, entries: (Found | Rejected)[]): string {
  const wanted = "Drop a session file of Claude Code or a rollout file of Codex (.jsonl).";
  if (seen.bytes === 0) return `The file is empty. ${wanted}`;
  if (seen.records > 0) {
    const { record } = entries.find((entry): entry is Found => entry.type === "found")!;
    const fields = Object.keys(record).slice(0, 6).map((name) => JSON.stringify(name.slice(0, 40)));
    return `The file is JSON, but neither a Claude Code session nor a Codex rollout: its first record has the fields ${
      fields.join(", ") || "of an empty object"
    }. ${wanted}`;
  }
  const first = entries.find((entry): entry is Rejected => entry.type === "rejected");
  const why = first ? `line ${first.line} is ${first.reason}` : "all its lines are blank";
  return `The file holds no JSON records: ${why}. ${wanted}`;
}
