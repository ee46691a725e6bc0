// Runs one case of the suite on stores of its own, wherever that is.

let stores = 0;

/**
 * A place has `runkeep` and `testing`, the package's two modules; `durable`, whether a closed store keeps its content;
 * `open({clock, name})`, which answers a store, an empty one for a new name; and `openRaw({clock, name})`, which answers
 * `{store, call}`: `call(operation, text)` goes past the client and answers the parsed answer and its text.
 *
 * A case is a function of:
 * - `store`, new and empty; `clock`, its manual clock
 * - `openStore()`: another new store; `openRaw()`: another one, with `call`
 * - `reopen()`: the first store again, opened anew where that keeps its content
 * - `runkeep`: the package's main module
 */
export async function runCase(run, place) {
  const clock = place.testing.manualClock();
  const opened = [];
  const open = async (name) => {
    const store = await place.open({ clock, name });
    opened.push(store);
    return store;
  };
  const name = newName();
  try {
    const store = await open(name);
    await run({
      store,
      clock,
      runkeep: place.runkeep,
      openStore: () => open(newName()),
      async openRaw() {
        const raw = await place.openRaw({ clock, name: newName() });
        opened.push(raw.store);
        return raw;
      },
      async reopen() {
        if (place.durable) await store.close();
        return open(name);
      },
    });
  } finally {
    for (const store of opened) await store.close();
  }
}

/** An answer of the store's, `{ok}` or `{error}`, with the text that it is. */
export function readAnswer(text) {
  return { ...JSON.parse(text), text };
}

function newName() {
  return `conformance-${++stores}`;
}
