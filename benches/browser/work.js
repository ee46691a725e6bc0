// What all engines are given to do. Each writes the same facts, under ids of its own making.
export const listed = "listed";
export const queue = "steps";
export const run = "run";
export const large = "large";
export const workerId = "worker";
export const leaseMs = 600_000;
export const pageSize = 100;

const words = "the quick brown fox jumps over the lazy dog ".repeat(5);

export const event = (n) => ({ type: "x-step", data: { n, text: words } });
export const item = (n, name = queue) => ({ queue: name, executionId: run, nodeId: "search", payload: { n, query: words.slice(0, 100) } });
export const output = { result: words.slice(0, 100) };

/** The log of 1,000 events whose fold has a state of some KB. Stores that do not fold keep the state itself. */
export const text = "x".repeat(3000);
export const largeLog = Array.from({ length: 999 }, (_, n) => ({
  type: "node_completed",
  data: { nodeId: `node-${n % 50}`, output: { n }, statePatch: { last: n }, durationMs: 1 },
}));
export const largeState = { text, last: 998 };

/** Numbers calls, and knows up to which all are answered: what is kept to answer them again goes with the next. */
export class Requests {
  client = crypto.randomUUID();
  #last = 0;
  #acked = 0;
  #answered = new Set();

  async make(send) {
    const number = ++this.#last;
    const answer = await send(this.client, number, this.#acked);
    this.#answered.add(number);
    while (this.#answered.delete(this.#acked + 1)) this.#acked++;
    return answer;
  }
}
