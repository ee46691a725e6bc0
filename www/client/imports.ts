// Files of other programs, streamed to the store chunk by chunk: a file of any size passes through in bounded memory.
import { checkFunction, checkMembers, checkSignal, misused, wrong } from "./calls.js";
import { isRunkeepError } from "./errors.js";
import type { ImportedChunk, ImportChunk, SessionFormat } from "./generated.js";

/** A file and how to call it. */
export interface NamedBlob {
  path: string;
  blob: Blob;
}

/** What `store.imports` takes: files, or handles of files and of directories, which are walked through. */
export type ImportFile = File | NamedBlob | FileSystemFileHandle | FileSystemDirectoryHandle;

export interface ImportProgress {
  path: string;
  /** Of this file. */
  bytes: number;
  totalBytes: number;
  /** How many files are done. */
  files: number;
}

export interface ImportOptions {
  onProgress?: ((progress: ImportProgress) => void) | undefined;
  /** Aborting rejects with `signal.reason`. What was imported until then stays, and is passed over the next time. */
  signal?: AbortSignal | undefined;
}

/** What became of one file. Importing it again adds nothing. Line 0 among the rejected is the file itself. */
export interface FileReport extends Omit<ImportedChunk, "state"> {
  path: string;
}

/** Imports that take many files. */
export interface FileImports {
  /** Sessions of Claude Code (`.jsonl`). */
  claudeCode(files: ImportFiles, options?: ImportOptions): Promise<FileReport[]>;
  /** Rollouts of Codex (`.jsonl`). */
  codex(files: ImportFiles, options?: ImportOptions): Promise<FileReport[]>;
  /** The directory of a zagens store, or files of it, in any order. */
  zagensJson(files: ImportFiles, options?: ImportOptions): Promise<FileReport[]>;
}

export type ImportFiles = Iterable<ImportFile> | AsyncIterable<ImportFile> | FileSystemDirectoryHandle;

type Send = (bytes: Uint8Array, input: ImportChunk, options: { signal?: AbortSignal | undefined }) => Promise<ImportedChunk>;

const chunkBytes = 256 * 1024;
const mostLineBytes = 64 * 1024 * 1024;
const mostRejected = 1000;
const attempts = 4;
/** Small files on their way at a time; they are applied in the order in which they are sent. */
const mostInFlight = 16;

/** @internal */
export function fileImports(send: Send): FileImports {
  const imports = (name: string, format: SessionFormat) => async (files: ImportFiles, options: ImportOptions = {}) => {
    const { signal } = readOptions(name, options);
    const found = filesIn(name, files, format === "zagens" ? /\.jsonl?$/i : /\.jsonl$/i);
    const importFile = importer(send, format, options);
    const reports: FileReport[] = [];
    if (format === "zagens") {
      // Most files of a zagens store are small, and each transaction takes several. Files of a kind do not need each other.
      for (const kind of await zagensOrder(found)) {
        for (let at = 0; at < kind.length; at += mostInFlight) reports.push(...(await Promise.all(kind.slice(at, at + mostInFlight).map(importFile))));
      }
    } else {
      for await (const file of found) reports.push(await importFile(file));
    }
    signal?.throwIfAborted();
    return reports;
  };
  return { claudeCode: imports("claudeCode", "claude_code"), codex: imports("codex", "codex"), zagensJson: imports("zagensJson", "zagens") };
}

/** Imports one file after the other, or several at a time. */
function importer(send: Send, format: SessionFormat, { onProgress, signal }: ImportOptions): (file: NamedBlob) => Promise<FileReport> {
  let files = 0;

  /** A chunk that is sent again adds nothing, so a call whose outcome is not known is repeated. */
  async function sendChunk(bytes: Uint8Array, input: ImportChunk): Promise<ImportedChunk> {
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted();
      try {
        return await send(bytes, input, { signal });
      } catch (error) {
        const again = isRunkeepError(error, "timeout") || isRunkeepError(error, "busy");
        if (!again || attempt === attempts) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 100 * attempt));
    }
  }

  return async ({ path, blob }) => {
    signal?.throwIfAborted();
    const report: FileReport = { path, imported: 0, skipped: 0, rejected: [], rejectedCount: 0, unknownTypes: {} };
    const reject = (line: number, reason: string) => {
      report.rejectedCount++;
      if (report.rejected.length < mostRejected) report.rejected.push({ line, reason });
    };
    const chunks = chunksOf(blob, format === "zagens", reject);
    let state: ImportChunk["state"];
    let line = 1;
    // While the store works on one chunk, the next one is read.
    let next = chunks.next();
    for (let last = false; !last; ) {
      let chunk: Chunk;
      try {
        const read = await next;
        chunk = read.value as Chunk;
      } catch (error) {
        reject(line === 1 ? 0 : line, `the file cannot be read: ${error}`);
        chunk = { bytes: new Uint8Array(), lines: 0, read: blob.size, last: true };
      }
      last = chunk.last;
      if (!last) (next = chunks.next()).catch(() => {});
      const answer = await sendChunk(chunk.bytes, { format, line, last, ...(state !== undefined && { state }) });
      state = answer.state as ImportChunk["state"];
      line += chunk.lines;
      merge(report, answer);
      if (last) files++;
      onProgress?.({ path, bytes: chunk.read, totalBytes: blob.size, files });
    }
    return report;
  };
}

function merge(report: FileReport, answer: ImportedChunk): void {
  if (answer.threadId !== undefined) report.threadId = answer.threadId;
  report.imported += answer.imported;
  report.skipped += answer.skipped;
  report.rejectedCount += answer.rejectedCount;
  report.rejected.push(...answer.rejected.slice(0, mostRejected - report.rejected.length));
  for (const [type, count] of Object.entries(answer.unknownTypes)) report.unknownTypes[type] = (report.unknownTypes[type] ?? 0) + (count ?? 0);
}

interface Chunk {
  bytes: Uint8Array;
  lines: number;
  /** Of the file, so far. */
  read: number;
  last: boolean;
}

/** Cuts a file at its newlines. An object of zagens spreads over lines, so a file of one is one chunk. */
async function* chunksOf(blob: Blob, isZagens: boolean, reject: (line: number, reason: string) => void): AsyncGenerator<Chunk> {
  let parts: Uint8Array[] = [];
  let size = 0;
  /** Where the last whole line in `parts` ends. */
  let end = 0;
  let line = 1;
  let read = 0;
  /** The length of a line that is passed over. */
  let skipped = 0;
  let isWhole = isZagens;

  const cut = (last = false): Chunk => {
    const all = join(parts, size);
    const bytes = last ? all : all.subarray(0, end);
    const rest = last ? new Uint8Array() : all.subarray(end);
    [parts, size, end] = [rest.length > 0 ? [rest] : [], rest.length, 0];
    const lines = count(bytes);
    line += lines;
    // What is sent to a worker must not take the rest along.
    return { bytes: bytes.length === bytes.buffer.byteLength ? bytes : bytes.slice(), lines, read, last };
  };
  const tooLong = () => {
    reject(line, `too_large: the line has ${skipped} bytes; at most ${mostLineBytes} are taken`);
    skipped = 0;
  };

  for await (const piece of piecesOf(blob)) {
    read += piece.length;
    let from = 0;
    if (skipped > 0) {
      const newline = piece.indexOf(10);
      skipped += newline < 0 ? piece.length : newline;
      if (newline < 0) continue;
      tooLong();
      // Keeps its number.
      from = newline;
    }
    if (isWhole && read === piece.length) isWhole = !(piece[0] === 0x7b && piece[1] === 0x22);
    const taken = from > 0 ? piece.subarray(from) : piece;
    const newline = taken.lastIndexOf(10);
    if (newline >= 0) end = size + newline + 1;
    parts.push(taken);
    size += taken.length;
    if (!isWhole && end >= chunkBytes) yield cut();
    if (size - end > mostLineBytes) {
      if (end > 0) yield cut();
      skipped = size;
      [parts, size] = [[], 0];
    }
  }
  if (skipped > 0) tooLong();
  yield cut(true);
}

async function* piecesOf(blob: Blob): AsyncGenerator<Uint8Array> {
  const reader = blob.stream().getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      // Browsers give pieces of several MiB.
      for (let at = 0; at < value.length; at += chunkBytes) yield value.subarray(at, at + chunkBytes);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function join(parts: Uint8Array[], size: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function count(bytes: Uint8Array): number {
  let lines = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) lines++;
  return lines;
}

/** The files that are given, and those in the directories, of the wanted kind. */
async function* filesIn(name: string, files: ImportFiles, wanted: RegExp): AsyncGenerator<NamedBlob> {
  if (isHandle(files)) {
    yield* filesOf(name, files, "", wanted, true);
    return;
  }
  const isList = typeof files === "object" && files !== null && (Symbol.iterator in files || Symbol.asyncIterator in files);
  if (!isList) throw misused(`imports.${name}`, "the first argument is a directory handle, or an iterable of files", files);
  for await (const file of files as AsyncIterable<ImportFile>) yield* filesOf(name, file, "", wanted, true);
}

async function* filesOf(name: string, file: unknown, folder: string, wanted: RegExp, isGiven: boolean): AsyncGenerator<NamedBlob> {
  if (isHandle(file)) {
    const path = folder + file.name;
    if (file.kind === "file") {
      if (isGiven || wanted.test(file.name)) yield { path, blob: await file.getFile() };
      return;
    }
    const entries: (FileSystemFileHandle | FileSystemDirectoryHandle)[] = [];
    for await (const entry of (file as unknown as { values(): AsyncIterable<FileSystemFileHandle | FileSystemDirectoryHandle> }).values()) entries.push(entry);
    // Files before directories, and side chains after the session that they belong to.
    const order = ({ kind, name }: FileSystemHandle) => `${kind === "file" ? 0 : 1}${name.startsWith("agent-") ? 1 : 0}${name}`;
    entries.sort((a, b) => (order(a) < order(b) ? -1 : 1));
    for (const entry of entries) yield* filesOf(name, entry, `${path}/`, wanted, false);
  } else if (file instanceof Blob) {
    const { webkitRelativePath, name } = file as Partial<File>;
    yield { path: webkitRelativePath || name || "(a blob)", blob: file };
  } else {
    const { path, blob } = (file ?? {}) as Partial<NamedBlob>;
    if (typeof path !== "string" || !(blob instanceof Blob)) {
      throw wrong(`imports.${name} takes files, {path, blob}, and handles of files and directories`, file);
    }
    yield { path, blob };
  }
}

function isHandle(value: unknown): value is FileSystemFileHandle | FileSystemDirectoryHandle {
  const kind = typeof value === "object" && value !== null && !(value instanceof Blob) && (value as { kind?: unknown }).kind;
  return kind === "file" || kind === "directory";
}

/** Threads, turns, items, and the rest; threads and turns in the order in which they were made. */
async function zagensOrder(files: AsyncIterable<NamedBlob>): Promise<NamedBlob[][]> {
  const kinds: { file: NamedBlob; at: number }[][] = [[], [], [], [], []];
  for await (const file of files) {
    const folder = ["threads", "turns", "items", "events"].indexOf(file.path.split("/").at(-2) ?? "");
    const head = folder >= 2 ? undefined : await headOf(file.blob);
    kinds[folder >= 0 ? folder : kindOf(head)]!.push({ file, at: Date.parse(String(head?.created_at)) || 0 });
  }
  for (const kind of kinds) kind.sort((a, b) => a.at - b.at || (a.file.path < b.file.path ? -1 : 1));
  return kinds.map((kind) => kind.map(({ file }) => file));
}

async function headOf(blob: Blob): Promise<Record<string, unknown> | undefined> {
  try {
    return JSON.parse(await blob.text());
  } catch {
    // The import tells.
    return undefined;
  }
}

function kindOf(head: Record<string, unknown> | undefined): number {
  if (head === undefined || "event" in head) return 3;
  if ("turn_id" in head) return 2;
  if ("thread_id" in head) return 1;
  return "id" in head ? 0 : 4;
}

function readOptions(name: string, options: ImportOptions): ImportOptions {
  const operation = `imports.${name}`;
  checkMembers(operation, options, ["onProgress", "signal"]);
  checkSignal(operation, options.signal);
  if (options.onProgress !== undefined) checkFunction(operation, "onProgress is a function", options.onProgress);
  return options;
}
