// A reporter for `node --test`: one JSON line per finished test, for the counts of scripts/test.mjs.
import { resolve } from "node:path";

export default async function* results(events) {
  const running = new Map(); // file → names of the tests that have begun and not ended
  for await (const { type, data } of events) {
    // The runner counts each file as a test as well: one that passes held no test, one that fails could not be run to its end.
    const isFile = data.file !== undefined && data.name !== undefined && resolve(data.name) === resolve(data.file);
    if (type === "test:dequeue" && !isFile) running.set(data.file, [...(running.get(data.file) ?? []), data.name]);
    if (type === "test:complete") running.set(data.file, (running.get(data.file) ?? []).filter((name) => name !== data.name));
    if ((type !== "test:pass" && type !== "test:fail") || data.details?.type === "suite") continue;
    const passed = type === "test:pass";
    yield `${JSON.stringify({
      name: data.name,
      isFile,
      passed,
      skipped: data.skip ?? data.todo ?? false,
      ...(isFile && !passed ? { during: running.get(data.file) ?? [] } : {}),
    })}\n`;
  }
}
