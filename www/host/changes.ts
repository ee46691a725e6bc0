// What changed, on its way to one member: at most one message per 10 ms, and none while the last one is still on its way.
import type { Change } from "./protocol.js";

const pauseMs = 10;

export class ChangeFeed {
  readonly #send: (changes: Change[]) => void;
  #pending: Change[] | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #underway = false;

  /** After each `send` there has to be a `seen()`. */
  constructor(send: (changes: Change[]) => void) {
    this.#send = send;
  }

  add(changes: Change[]): void {
    this.#pending = this.#pending ? merge(this.#pending, changes) : changes;
    this.#flush();
  }

  seen(): void {
    this.#underway = false;
    this.#flush();
  }

  stop(): void {
    this.#pending = undefined;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #flush(): void {
    if (!this.#pending || this.#underway || this.#timer !== undefined) return;
    const changes = this.#pending;
    this.#pending = undefined;
    this.#underway = true;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#flush();
    }, pauseMs);
    this.#send(changes);
  }
}

/** More ids than this say no more than "anything". */
const mostIds = 100;

/** One entry a tenant. */
export function merge(first: Change[], second: Change[]): Change[] {
  const merged = new Map(first.map(({ tenant, topics }) => [tenant, { ...topics }]));
  for (const { tenant, topics } of second) {
    const known = merged.get(tenant);
    if (!known) {
      merged.set(tenant, topics);
      continue;
    }
    for (const topic of Object.keys(topics) as (keyof typeof topics)[]) {
      const [before, after] = [known[topic], topics[topic]!];
      const ids = before === null || after === null ? null : [...new Set([...(before ?? []), ...after])];
      known[topic] = ids && ids.length > mostIds ? null : ids;
    }
  }
  return [...merged].map(([tenant, topics]) => ({ tenant, topics }));
}
