// The suite as tests of node:test.
import { describe, test } from "node:test";
import { suite } from "./suite.mjs";

/** A suite for each group, with the place in its name, and a test for each case. `run(group, name)` runs it, `concurrency` of them at a time. */
export function registerSuite(place, run, concurrency = 1) {
  for (const [group, cases] of Object.entries(suite)) {
    describe(`conformance, ${place}: ${group}`, { concurrency }, () => {
      for (const name of Object.keys(cases)) test(name, { timeout: 60_000 }, () => run(group, name));
    });
  }
}
