// SQLite's own WebAssembly as one would use it by hand: a worker of one's own, and one message each way per call.
import { event, item, output, Requests } from "./work.js";

export async function open(name) {
  const worker = new Worker("/bench/sqlite-worker.js", { type: "module" });
  const waiting = new Map();
  let last = 0;
  worker.onmessage = ({ data: { id, answer, error } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) resolve(answer);
    else reject(new Error(error));
  };
  worker.onerror = ({ message }) => waiting.forEach(({ reject }) => reject(new Error(message)));
  const ask = (operation, given, request) =>
    new Promise((resolve, reject) => {
      const id = ++last;
      waiting.set(id, { resolve, reject });
      worker.postMessage({ id, operation, given, request });
    });
  const requests = new Requests();
  const change = (operation, given) => requests.make((client, number, acked) => ask(operation, given, { client, number, acked }));
  await ask("open", name);
  return {
    read: () => ask("read"),
    seed: (count) => ask("seed", count),
    append: (n) => change("append", event(n)),
    enqueue: (n) => change("enqueue", item(n)),
    claim: () => change("claim"),
    complete: ({ id, fence }) => change("complete", { id, fence, output }),
    list: () => ask("list"),
    state: () => ask("state"),
    nothing: () => ask("nothing"),
    counts: () => ask("counts"),
    async close() {
      await ask("close");
      worker.terminate();
    },
  };
}
