// The store in WebAssembly on OPFS as a place, and a function that runs one case of the conformance suite there.
import * as runkeep from "/runkeep/index.js";
import * as testing from "/runkeep/testing.js";
import { readAnswer, runCase } from "/conformance/run.mjs";
import { suite } from "/conformance/suite.mjs";

const workers = new Map();
globalThis.Worker = class extends Worker {
  postMessage(message, ...more) {
    if (message.type === "boot") workers.set(message.options.name, this);
    super.postMessage(message, ...more);
  }
};

let messages = 0;

/** Speaks to a store's worker past its client, under ids that the client does not use. */
function ask(worker, operation, text, nowMs) {
  const id = `raw-${++messages}`;
  return new Promise((resolve) => {
    worker.addEventListener("message", function take({ data }) {
      if (data.type !== "answers" || data.id !== id) return;
      worker.removeEventListener("message", take);
      resolve(readAnswer(data.answers[0]));
    });
    worker.postMessage({ type: "calls", id, calls: [operation, text], nowMs });
  });
}

const open = ({ clock, name }) => testing.openTestStore({ clock, name, storage: "opfs" });

const place = {
  runkeep,
  testing,
  durable: true,
  open,
  async openRaw({ clock, name }) {
    const store = await open({ clock, name });
    return { store, call: (operation, text) => ask(workers.get(name), operation, text, clock.now()) };
  },
};

/** Answers null, or what went wrong. */
globalThis.runConformanceCase = async (group, name) => {
  try {
    await runCase(suite[group][name], place);
    return null;
  } catch (error) {
    return { message: `${error?.message ?? error}`, stack: `${error?.stack ?? error}` };
  }
};
