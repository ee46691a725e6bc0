// Opens a store from within a worker.
import { openStore } from "/runkeep/index.js";

onmessage = async ({ data: name }) => {
  const store = await openStore({ name, sweep: false });
  postMessage((await store.info()).storage);
};
