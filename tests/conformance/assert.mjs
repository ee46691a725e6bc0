// Assertions for the suite, which runs where node:assert does not exist. A failure says where the values differ, and how.

export class AssertionError extends Error {
  name = "AssertionError";
}

/** The stack begins at the caller of `assertion`. */
function fail(message, assertion) {
  const error = new AssertionError(message);
  Error.captureStackTrace?.(error, assertion);
  throw error;
}

export function ok(condition, message) {
  if (!condition) fail(message, ok);
}

/** Deep equality of JSON-like values: a member that is undefined is not the same as none, and only plain objects are objects. */
export function equal(actual, expected, what = "value") {
  report(what, differences(actual, expected, "", false), equal);
}

/** As `equal`, but objects may have more members than expected; a RegExp expects a string that it fits. */
export function match(actual, expected, what = "value") {
  report(what, differences(actual, expected, "", true), match);
}

/** Waits for a RunkeepError of this code, whose message fits `pattern`, and answers it. */
export async function rejects(promise, code, pattern) {
  const error = await promise.then(
    (value) => fail(`expected the error ${code}, got ${show(value)}`, rejects),
    (error) => error,
  );
  if (error?.name !== "RunkeepError") throw error;
  if (error.code !== code) fail(`expected the error ${code}, got ${error.code}: ${error.message}`, rejects);
  if (pattern !== undefined && !pattern.test(error.message)) fail(`the message of ${code} does not fit ${pattern}: ${error.message}`, rejects);
  // Of what the suite meets, only a limit may be another one by the next time.
  match(error, { message: /\S/, retryable: code === "limit_exceeded" }, code);
  ok(isPlain(error.details), `the details of ${code} are no plain object: ${show(error.details)}`);
  return error;
}

function report(what, found, assertion) {
  if (found.length === 0) return;
  const shown = found.slice(0, 8).map(({ path, text }) => `  ${path === "" ? "" : `${path}: `}${text}`);
  fail([`${what} is not as expected`, ...shown, ...(found.length > shown.length ? [`  and ${found.length - shown.length} more`] : [])].join("\n"), assertion);
}

function differences(actual, expected, path, partial) {
  const differ = (text) => [{ path, text }];
  const unlike = () => differ(`got ${show(actual)}, expected ${show(expected)}`);
  if (Object.is(actual, expected)) return [];
  if (partial && expected instanceof RegExp) return typeof actual === "string" && expected.test(actual) ? [] : unlike();
  if (typeof actual !== "object" || typeof expected !== "object" || actual === null || expected === null) return unlike();
  if (Array.isArray(actual) !== Array.isArray(expected)) return unlike();
  if (Array.isArray(actual)) {
    if (actual.length !== expected.length) return differ(`got ${actual.length} elements, expected ${expected.length}: got ${show(actual)}, expected ${show(expected)}`);
    return expected.flatMap((element, index) => differences(actual[index], element, `${path}[${index}]`, partial));
  }
  if (!partial && !isPlain(actual)) return differ(`got ${show(actual)}, expected a plain object`);
  const inner = (key) => (path === "" ? key : `${path}.${key}`);
  const missing = Object.keys(expected).filter((key) => expected[key] !== undefined || !partial);
  return [
    ...missing.flatMap((key) =>
      key in actual ? differences(actual[key], expected[key], inner(key), partial) : [{ path: inner(key), text: `missing, expected ${show(expected[key])}` }],
    ),
    ...(partial ? [] : Object.keys(actual).filter((key) => !Object.hasOwn(expected, key))).map((key) => ({ path: inner(key), text: `got ${show(actual[key])}, expected nothing` })),
  ];
}

function isPlain(value) {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

/** A value as part of a message. */
export function show(value) {
  if (typeof value === "object" && value !== null && !Array.isArray(value) && !isPlain(value)) return value instanceof RegExp ? String(value) : Object.prototype.toString.call(value);
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 300 ? `${text.slice(0, 300)}… (${text.length} characters)` : text;
}
