/** A line of the file, or why it cannot be read as text. Lines count from 1, blank ones included. */
export type Line = { number: number; bytes: number } & ({ text: string } | { problem: string });

const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BOM = [0xef, 0xbb, 0xbf];

/**
 * Cuts a stream of bytes into lines. It holds one line at a time, and of a line longer than `maxBytes` nothing but its
 * length, so a file of any size passes through in bounded memory.
 */
export async function* linesOf(source: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Line> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let number = 1;
  let parts: Uint8Array[] = [];
  let length = 0;

  const add = (part: Uint8Array) => {
    length += part.length;
    if (length > maxBytes) parts = [];
    else if (part.length > 0) parts.push(part);
  };
  const finish = (): Line => {
    const line = { number: number++, bytes: length };
    let bytes = join(parts, length);
    parts = [];
    length = 0;
    if (line.bytes > maxBytes) {
      return { ...line, problem: `too long: ${line.bytes} bytes, and one record may have ${maxBytes}` };
    }
    if (line.number === 1 && BOM.every((byte, i) => bytes[i] === byte)) bytes = bytes.subarray(BOM.length);
    if (bytes.at(-1) === CARRIAGE_RETURN) bytes = bytes.subarray(0, -1);
    try {
      return { ...line, text: decoder.decode(bytes) };
    } catch {
      return { ...line, problem: "not valid UTF-8" };
    }
  };

  for await (const chunk of source) {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      add(chunk.subarray(from, at));
      yield finish();
      from = at + 1;
    }
    // The source may reuse its buffer for the next chunk, and this rest outlives it.
    if (from < chunk.length) add(chunk.slice(from));
  }
  if (length > 0) yield finish();
}

function join(parts: Uint8Array[], length: number): Uint8Array {
  if (parts.length === 0) return new Uint8Array();
  if (parts.length === 1) return parts[0]!;
  const joined = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
