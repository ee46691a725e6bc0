// From a method call to an operation and its arguments.
import { invalid, RunkeepError } from "./errors.js";
import type { OperationShape, Page, StoreOperations } from "./generated.js";
import { operations } from "./operations.js";

/** What can be said about one call. */
export interface CallOptions {
  /** Aborting rejects the call with `signal.reason`. It undoes nothing: the call may have taken effect. */
  signal?: AbortSignal | undefined;
  /** After so long the call rejects with `timeout`: its outcome is unknown. 0 or nothing is the store's default. */
  timeoutMs?: number | undefined;
}

/** Await it for one page, or iterate over it (`for await`) for all rows. Nothing is sent before that. */
export interface List<T> extends PromiseLike<Page<T>>, AsyncIterable<T> {
  catch: Promise<Page<T>>["catch"];
  finally: Promise<Page<T>>["finally"];
}

/** Sends one call and answers its result. */
export type Send = (operation: string, writes: boolean, args: Arguments, options: CallOptions, bytes?: Uint8Array) => Promise<unknown>;

type Arguments = Record<string, unknown>;

/** An operation of a batch; made by the methods of `tx`. */
export interface BatchCall<Result> {
  readonly operation: string;
  readonly arguments: Record<string, unknown>;
  /** Only a type: what the batch answers for it. */
  readonly result?: Result;
}

type InBatch<Member> = Member extends (...given: infer Given) => Promise<infer Result>
  ? (...given: Given) => BatchCall<Result>
  : Member extends (...given: never[]) => unknown
    ? never
    : { [Name in keyof Member]: InBatch<Member[Name]> };

/** The same methods as a store's, for `batch`. */
export type BatchOperations = InBatch<StoreOperations>;

export type BatchResults<Calls extends readonly BatchCall<unknown>[]> = {
  -readonly [Index in keyof Calls]: Calls[Index] extends BatchCall<infer Result> ? Result : never;
};

/** The namespaces of the API: one method for each operation of the table that `include` admits. */
export function buildOperations(send: Send, include = (_operation: string) => true): StoreOperations {
  return buildApi(include, (operation, shape) => {
    const run = async (given: unknown[], more?: Arguments): Promise<any> => {
      const bytes = shape.bytes ? await toBytes(operation, given[0]) : undefined;
      const { args, options } = readArguments(operation, shape, bytes ? given.slice(1) : given);
      return await send(operation, shape.writes, { ...args, ...more }, options, bytes);
    };
    return shape.list
      ? (...given: unknown[]) => lazyList((cursor) => run(given, cursor === undefined ? undefined : { cursor }), operation)
      : (...given: unknown[]) => run(given);
  }) as StoreOperations;
}

/** Methods that say what is to be done instead of doing it. */
export const batchOperations = buildApi(
  () => true,
  (operation, shape) =>
    (...given: unknown[]): BatchCall<unknown> => {
      if (shape.bytes) throw invalid(`${operation} cannot be part of a batch: it takes bytes.`);
      return { operation, arguments: readArguments(operation, shape, given).args };
    },
) as BatchOperations;

function buildApi(include: (operation: string) => boolean, method: (operation: string, shape: OperationShape) => (...given: unknown[]) => unknown): object {
  const api: Record<string, any> = {};
  for (const [operation, shape] of Object.entries(operations)) {
    if (operation === "batch" || !include(operation)) continue;
    const names = operation.split(".");
    const last = names.pop()!;
    const namespace = names.reduce((target, name) => (target[name] ??= {}), api);
    namespace[last] = method(operation, shape);
  }
  return api;
}

/** First the subject, then an array or an object of arguments, last the options of the call. */
function readArguments(operation: string, { subject, orObject, array }: OperationShape, given: unknown[]): { args: Arguments; options: CallOptions } {
  const rest = [...given];
  let args: Arguments = {};
  if (subject.length === 1) {
    const first = rest.shift();
    if (typeof first === "string") args[subject[0]!] = first;
    else if (orObject && isObject(first)) args = { ...first };
    else throw misused(operation, `the first argument is ${subject[0]}, a string${orObject ? ", or an object" : ""}`, first);
  } else if (subject.length > 1) {
    const holder = rest.shift();
    const expected = `the first argument is an object with ${subject.join(" and ")}`;
    if (!isObject(holder)) throw misused(operation, expected, holder);
    for (const name of subject) {
      if (holder[name] === undefined) throw invalid(`${operation}: ${expected}; ${name} is missing.`);
      args[name] = holder[name];
    }
  }
  if (array) {
    const elements = rest.shift();
    const position = subject.length > 0 ? "second" : "first";
    if (!Array.isArray(elements)) throw misused(operation, `the ${position} argument is an array (${array})`, elements);
    args[array] = elements;
  }

  const taken = given.length - rest.length;
  const objects = rest.filter((value) => value !== undefined);
  const limit = array ? 1 : 2;
  if (objects.length > limit) throw invalid(`${operation} takes at most ${taken + limit} arguments; got ${given.length}.`);
  for (const value of objects) {
    if (!isObject(value)) throw misused(operation, `argument ${taken + 1 + rest.indexOf(value)} is an object`, value);
  }
  // The last object may be arguments or options: what is not for the client goes to the store, which knows its own.
  const { signal, timeoutMs, ...last } = (objects.pop() ?? {}) as CallOptions & Arguments;
  for (const members of [...(objects as Arguments[]), last]) {
    const twice = Object.keys(members).find((name) => Object.hasOwn(args, name));
    if (twice !== undefined) throw invalid(`${operation}: ${twice} is given twice.`);
    args = { ...args, ...members };
  }
  checkSignal(operation, signal);
  if (timeoutMs !== undefined && !isDuration(timeoutMs)) throw misused(operation, `timeoutMs is a number of ${ofMs}`, timeoutMs);
  return { args, options: { signal, timeoutMs } };
}

/** @internal What a duration is. */
export const ofMs = "milliseconds, from 0 to 1,000,000,000";

async function toBytes(operation: string, given: unknown): Promise<Uint8Array> {
  if (given instanceof Uint8Array) return given;
  if (given instanceof ArrayBuffer) return new Uint8Array(given);
  if (typeof Blob === "function" && given instanceof Blob) return new Uint8Array(await given.arrayBuffer());
  throw misused(operation, "the first argument is a Blob, an ArrayBuffer or a Uint8Array", given);
}

export function checkSignal(operation: string, value: unknown): asserts value is AbortSignal | undefined {
  // Not instanceof: it may come from another window.
  const isSignal = isObject(value) && "aborted" in value && "addEventListener" in value;
  if (value !== undefined && !isSignal) throw misused(operation, "signal is an AbortSignal", value);
}

/** `expected` tells which argument it is. */
export function checkFunction(operation: string, expected: string, value: unknown): void {
  if (typeof value !== "function") throw misused(operation, expected, value);
}

/** Two of them are less than the longest time that a timer takes. */
export function isDuration(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 1e9;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function misused(operation: string, expected: string, got: unknown): RunkeepError {
  return wrong(`${operation}: ${expected}`, got);
}

/** `invalid_argument`, for a value that is not what the sentence says. */
export function wrong(expected: string, got: unknown): RunkeepError {
  return invalid(`${expected}; got ${describe(got)}.`);
}

/** Refuses what is not an object of these members. */
export function checkMembers(where: string, value: unknown, known: string[]): void {
  if (!isObject(value)) throw invalid(`${where}: expected an object, got ${describe(value)}.`);
  const unknown = Object.keys(value).find((key) => !known.includes(key));
  if (unknown !== undefined) throw invalid(`${where}: unknown option ${JSON.stringify(unknown)}; there are ${known.join(", ")}.`);
}

/** The error that rows which cannot be read are to those who wanted all. */
export function damaged(operation: string, rows: NonNullable<Page<unknown>["damaged"]>): RunkeepError {
  const named = rows.map(({ table, id, reason }) => `${table} ${id} (${reason})`).join(", ");
  return new RunkeepError("corrupt", `${operation} met rows that cannot be read: ${named}.`, { details: { damaged: rows } });
}

/** A value as part of an error message. */
export function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "an array" : "an object";
}

function lazyList<T>(fetch: (cursor?: string) => Promise<Page<T>>, operation: string): List<T> {
  let first: Promise<Page<T>> | undefined;
  const page = () => (first ??= fetch());
  return {
    then: (onPage, onError) => page().then(onPage, onError),
    catch: (onError) => page().catch(onError),
    finally: (onEnd) => page().finally(onEnd),
    async *[Symbol.asyncIterator]() {
      let cursor: string | undefined;
      do {
        const page: Page<T> = await fetch(cursor);
        yield* page.items;
        if (page.damaged?.length) throw damaged(operation, page.damaged);
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);
    },
  };
}
