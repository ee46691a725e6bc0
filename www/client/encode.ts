// Arguments to JSON text. JSON.stringify turns some values silently into null, {} or nothing; those are refused here, by path.
import { invalid, isRunkeepError, RunkeepError } from "./errors.js";

// A document may have 128 levels and lies a few levels inside the arguments; its exact depth is the store's to check.
const maxDepth = 128 + 8;
// A few objects that refer to each other many times over would otherwise keep us busy for ever.
const maxObjects = 32 << 20;

const refusedTypes = new Set(["Map", "Set", "WeakMap", "WeakSet", "ArrayBuffer", "SharedArrayBuffer", "Blob", "File", "Promise"]);

/** The JSON text of `args`, an object. Throws `invalid_argument` or `too_large` with the path of the value at fault. */
export function encode(args: object): string {
  const path: (string | number)[] = [];
  const ancestors: object[] = [];
  let objects = 0;
  let hasErrors = false;

  function check(value: unknown, key: string | number): void {
    switch (typeof value) {
      case "number":
        if (!Number.isFinite(value)) refuse(key, `is ${value}, which JSON cannot hold`);
        return;
      case "object":
        if (value !== null) checkObject(value, key);
        return;
      case "function":
      case "symbol":
      case "bigint":
        refuse(key, `is a ${typeof value}, which JSON cannot hold`);
    }
  }

  function checkObject(value: object, key: string | number): void {
    if (++objects > maxObjects) throw new RunkeepError("too_large", `The arguments hold more than ${maxObjects} objects.`);
    // Not its toJSON: Node's Buffer has one, that makes an array of numbers.
    if (ArrayBuffer.isView(value)) refuse(key, `is a ${typeName(value)}; bytes cannot be part of a document`);
    if (value instanceof Number || value instanceof BigInt || value instanceof Symbol) return check(value.valueOf(), key);
    if (value instanceof Date && Number.isNaN(value.getTime())) refuse(key, "is an invalid Date");
    if ("toJSON" in value && typeof value.toJSON === "function") {
      const replacement: unknown = value.toJSON(String(key));
      // Checked as it is: JSON.stringify asks only once.
      if (typeof replacement !== "object" || replacement === null) return check(replacement, key);
      value = replacement;
    }
    if (refusedTypes.has(typeName(value))) refuse(key, `is a ${typeName(value)}, which JSON would write as {}`);
    if (value instanceof Error) {
      hasErrors = true;
      return;
    }
    if (ancestors.includes(value)) refuse(key, "contains itself");
    path.push(key);
    if (path.length > maxDepth) {
      const where = pathOf(path);
      throw new RunkeepError("too_large", `${where} is nested deeper than 128 levels.`, { details: { path: where } });
    }
    ancestors.push(value);
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index++) check(value[index], index);
    } else {
      for (const member of Object.keys(value)) check((value as Record<string, unknown>)[member], member);
    }
    ancestors.pop();
    path.pop();
  }

  function refuse(key: string | number, problem: string): never {
    const where = pathOf([...path, key]);
    throw invalid(`${where} ${problem}.`, { path: where });
  }

  try {
    for (const key of Object.keys(args)) check((args as Record<string, unknown>)[key], key);
    return JSON.stringify(args, hasErrors ? errorsAsData : undefined);
  } catch (error) {
    if (isRunkeepError(error)) throw error;
    // The engine's limit of string length.
    if (error instanceof RangeError) throw new RunkeepError("too_large", "The arguments are too large to be sent as one text.");
    // A getter, a toJSON or a proxy of the caller's threw.
    throw invalid(`The arguments cannot be read: ${error}.`, { path: pathOf(path) });
  }
}

/** The members of an Error that matter are not enumerable: JSON.stringify alone would write {}. */
function errorsAsData(_key: string, value: unknown): unknown {
  if (!(value instanceof Error)) return value;
  const { message, stack } = value;
  const code = (value as { code?: unknown }).code;
  return { message, ...(typeof code === "string" && { code }), stack };
}

function typeName(value: object): string {
  return Object.prototype.toString.call(value).slice(8, -1);
}

/** `payload.items[3].cost`, cut where it is too long to be read. */
function pathOf(keys: (string | number)[]): string {
  let text = "";
  for (const key of keys) {
    if (text.length > 200) return `${text}…`;
    if (typeof key === "number") text += `[${key}]`;
    else if (/^[\w$]+$/.test(key)) text += text ? `.${key}` : key;
    else text += `[${JSON.stringify(key)}]`;
  }
  return text;
}
