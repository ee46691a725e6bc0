export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What one line of text holds: usually one object, sometimes several glued together, sometimes none. */
export interface LineContent {
  objects: JsonObject[];
  /** Why the line, or what follows its last good object, was not taken. */
  problem?: string;
}

/** Reads the objects of a line. A writer that was interrupted between a record and its newline leaves two on one line. */
export function objectsIn(text: string): LineContent {
  try {
    const value: Json = JSON.parse(text);
    return isObject(value) ? { objects: [value] } : { objects: [], problem: `not an object but ${nameOf(value)}` };
  } catch (error) {
    return gluedObjects(text, notJson(error));
  }
}

function gluedObjects(text: string, whole: string): LineContent {
  const objects: JsonObject[] = [];
  let at = skipSpace(text, 0);
  while (at < text.length) {
    const end = text[at] === "{" ? objectEnd(text, at) : undefined;
    if (end === undefined) break;
    if (end < 0) return { objects, problem: after(objects.length, "cut off: the line ends inside an object") };
    try {
      objects.push(JSON.parse(text.slice(at, end)) as JsonObject);
    } catch (error) {
      const problem = objects.length > 0 ? notJson(error) : whole;
      return { objects, problem: after(objects.length, problem) };
    }
    at = skipSpace(text, end);
  }
  if (at < text.length) return { objects, problem: after(objects.length, objects.length > 0 ? "more text" : whole) };
  return { objects };
}

/** The parser's own words, without the excerpt of the text that it appends. */
function notJson(error: unknown): string {
  const message = (error as Error).message.split(/, (?:"|\.\.\.)/, 1)[0]!.replace(" is not valid JSON", "");
  return `not valid JSON: ${message}`;
}

function after(count: number, problem: string): string {
  if (count === 0) return problem;
  return `after ${count === 1 ? "one good object" : `${count} good objects`}: ${problem}`;
}

/** Where the object that starts at `start` ends (exclusive), or -1 if the text ends first. Not recursive: a line may be nested 100,000 deep. */
function objectEnd(text: string, start: number): number {
  let depth = 0;
  for (let i = start; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case 0x22: {
        i = stringEnd(text, i);
        if (i < 0) return -1;
        break;
      }
      case 0x7b:
      case 0x5b:
        depth++;
        break;
      case 0x7d:
      case 0x5d:
        if (--depth === 0) return i + 1;
        break;
    }
  }
  return -1;
}

/** The index of the quote that closes the string opened at `start`, or -1. */
function stringEnd(text: string, start: number): number {
  let at = start + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return -1;
    let slashes = 0;
    while (quote - slashes - 1 >= at && text[quote - slashes - 1] === "\\") slashes++;
    if (slashes % 2 === 0) return quote;
    at = quote + 1;
  }
}

function skipSpace(text: string, from: number): number {
  while (from < text.length && " \t\r\n".includes(text[from]!)) from++;
  return from;
}

function nameOf(value: Json): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "an array" : `a ${typeof value}`;
}

/** Why a store could not keep a value, if so: it is nested too deep, or has a number that JavaScript reads as infinite. Not recursive either. */
export function whyUnstorable(value: Json, maxDepth: number): string | undefined {
  let level: Json[] = [value];
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > maxDepth) return `nested deeper than ${maxDepth} levels`;
    const below: Json[] = [];
    for (const container of level) {
      for (const child of Array.isArray(container) ? container : Object.values(container as JsonObject)) {
        if (typeof child === "object" && child !== null) below.push(child);
        else if (child === Infinity || child === -Infinity) return "a number is too large for JavaScript";
      }
    }
    level = below;
  }
  return undefined;
}

/** The integers in a JSON text that a JavaScript number cannot hold, as written. */
export function roundedIntegers(text: string): string[] {
  if (!/\d{16}/.test(text)) return [];
  const found: string[] = [];
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '"') {
      i = stringEnd(text, i);
      if (i < 0) break;
    } else if (isDigit(text[i])) {
      let end = i;
      while (isDigit(text[end])) end++;
      const digits = text.slice(i, end);
      const isInteger = text[end] !== "." && text[end] !== "e" && text[end] !== "E";
      if (isInteger && digits.length >= 16 && BigInt(digits) !== BigInt(Number(digits))) found.push(digits);
      // What follows the point or the exponent is not an integer of its own.
      while (end < text.length && /[\d.eE+-]/.test(text[end]!)) end++;
      i = end - 1;
    }
  }
  return found;
}

function isDigit(char: string | undefined): boolean {
  return char !== undefined && char >= "0" && char <= "9";
}

const HALF_ESCAPE = /\\u[dD][89a-fA-F]/;
const HALVES = /\p{Surrogate}/gu;

/** The value with every half of a surrogate pair replaced by U+FFFD, which is what any UTF-8 store makes of it; the same value if there is none. */
export function wellFormed<T extends Json>(value: T, text: string): T {
  return HALF_ESCAPE.test(text) ? (repair(value) as T) : value;
}

function repair(value: Json): Json {
  if (typeof value === "string") return value.replace(HALVES, "\uFFFD");
  if (Array.isArray(value)) return replaceIfChanged(value, value.map(repair));
  if (!isObject(value)) return value;
  let changed = false;
  const entries = Object.entries(value).map(([key, child]) => {
    const entry: [string, Json] = [key.replace(HALVES, "\uFFFD"), repair(child)];
    changed ||= entry[0] !== key || entry[1] !== child;
    return entry;
  });
  return changed ? Object.fromEntries(entries) : value;
}

function replaceIfChanged(before: Json[], after: Json[]): Json[] {
  return after.some((child, i) => child !== before[i]) ? after : before;
}
