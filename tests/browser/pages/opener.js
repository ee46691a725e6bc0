// Opens a store from within a worker, or a shared worker.
import { openStore } from "/runkeep/index.js";

const tell = async (port, options) => {
  try {
    const store = await openStore({ sweep: false, ...options });
    port.postMessage((await store.info()).storage);
  } catch ({ code, message }) {
    port.postMessage({ code, message });
  }
};

globalThis.onmessage = ({ data }) => tell(globalThis, data);
globalThis.onconnect = ({ ports: [port] }) => (port.onmessage = ({ data }) => tell(port, data));
