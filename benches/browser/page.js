// What the bench does in a page. An operation's time is that of the page: from the call to its answer.
import * as dexie from "./dexie.js";
import * as pglite from "./pglite.js";
import * as runkeep from "./runkeep.js";
import * as sqlite from "./sqlite.js";
import { largeState, pageSize } from "./work.js";

const engines = { runkeep, sqlite, dexie, pglite };
const stores = {};
let made = 0;

function check(ok, what) {
  if (!ok) throw new Error(`the engine answers wrongly: ${what}`);
}

function checkState({ text, last }) {
  check(text === largeState.text && last === largeState.last, "state");
}

const works = {
  append: async (store) => check((await store.append(made++)).created, "append"),
  enqueue: async (store) => check((await store.enqueue(made++)).created, "enqueue"),
  async claim(store) {
    const item = await store.claim();
    check((await store.complete(item)).status === "completed", "complete");
  },
  list: async (store) => check((await store.list()).length === pageSize, "list"),
  state: async (store) => checkState(await store.state()),
  stateAnew: async (store) => checkState(await store.stateAnew()),
  nothing: (store) => store.nothing(),
};

window.bench = {
  async open(engine, name) {
    stores[engine] = await engines[engine].open(name);
  },
  seed: (engine, count) => stores[engine].seed(count),
  close: (engine) => stores[engine].close(),
  counts: (engine) => stores[engine].counts(),
  /** One after another: milliseconds an operation. */
  async inTurn(engine, work, count) {
    const store = stores[engine];
    const begun = performance.now();
    for (let n = 0; n < count; n++) await works[work](store);
    const ms = (performance.now() - begun) / count;
    await store.settle?.();
    return ms;
  },
  /** All sent at once: milliseconds an operation. */
  async together(engine, work, count) {
    const store = stores[engine];
    const begun = performance.now();
    await Promise.all(Array.from({ length: count }, () => works[work](store)));
    const ms = (performance.now() - begun) / count;
    await store.settle?.();
    return ms;
  },
  /** From the call to the first answer, and the first claim after that. */
  async opening(engine, name, isNew) {
    const begun = performance.now();
    const store = await engines[engine].open(name);
    const found = await store.read();
    const open = performance.now() - begun;
    check(Boolean(found) === !isNew, "the first read");
    let claim;
    if (!isNew) {
      const claiming = performance.now();
      check((await store.claim()).id, "the first claim");
      claim = performance.now() - claiming;
    }
    await store.close();
    return { open, claim };
  },
};
