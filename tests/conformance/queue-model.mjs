// The queue without a database, written once more from the specification: a second opinion on the one that the store has. Of items without
// executions and requirements, in few queues.

const defaultBackoff = { base: 1_000, factor: 2, max: 64_000 };

export class QueueModel {
  items = [];
  #clock;

  constructor(clock) {
    this.#clock = clock;
  }

  enqueue({ id, queue, priority = 0, maxAttempts = 3, delayMs = 0 }) {
    const now = this.#clock.now();
    this.items.push({ id, queue, priority, maxAttempts, status: delayMs > 0 ? "scheduled" : "pending", attempt: 0, runAt: now + delayMs, fence: 0, cancelRequested: false, attempts: [] });
  }

  /** From all queues. Answers what `queue.claim` does, in short. */
  claim({ workerId, limit, leaseMs }) {
    const now = this.#clock.now();
    this.sweep();
    const ready = this.items.filter(({ status }) => status === "pending");
    // The sort is stable, so that equals stay in the order of enqueueing.
    ready.sort((a, b) => b.priority - a.priority || a.runAt - b.runAt);
    return ready.slice(0, limit).map((item) => {
      Object.assign(item, { status: "claimed", attempt: item.attempt + 1, fence: item.fence + 1, leaseMs, leaseExpiresAt: now + leaseMs, workerId, settled: undefined });
      return { id: item.id, fence: item.fence, attempt: item.attempt };
    });
  }

  /** Ends what has run out and makes due what is due. */
  sweep() {
    const now = this.#clock.now();
    for (const item of this.items) {
      if (item.status === "claimed" && item.leaseExpiresAt <= now) this.#end(item, "lease_expired", {});
      if (item.status === "scheduled" && item.runAt <= now) item.status = "pending";
    }
  }

  renew(item, fence, { leaseMs }) {
    const refusal = this.#refusal(item, fence, "renew");
    if (refusal) return refusal;
    const now = this.#clock.now();
    const late = item.leaseExpiresAt <= now;
    item.leaseMs = leaseMs ?? item.leaseMs;
    item.leaseExpiresAt = now + item.leaseMs;
    return { leaseExpiresAt: item.leaseExpiresAt, cancelRequested: item.cancelRequested, late };
  }

  /** `call` is complete, fail or release. */
  settle(call, item, fence, args) {
    const key = JSON.stringify([call, args]);
    if (item.fence === fence && item.settled?.key === key) return item.settled.answer;
    const refusal = this.#refusal(item, fence, call);
    if (refusal) return refusal;
    const late = item.leaseExpiresAt <= this.#clock.now();
    let answer;
    if (call === "complete") {
      Object.assign(item, { status: "completed", leaseExpiresAt: undefined });
      answer = { status: "completed", late };
    } else {
      const runAt = this.#end(item, call === "fail" ? "failed" : "released", args);
      const cancelled = item.status === "cancelled";
      const outcome = cancelled ? "cancelled" : call === "release" ? "released" : item.status === "dead_lettered" ? "dead_lettered" : "retry_scheduled";
      answer = { outcome, late, ...(runAt === undefined ? {} : { runAt }) };
    }
    item.settled = { key, answer };
    return answer;
  }

  cancel(item) {
    if (item.status === "claimed") item.cancelRequested = true;
    else if (item.status === "scheduled" || item.status === "pending") item.status = "cancelled";
    else return { error: "conflict" };
    return { status: item.status, cancelRequested: item.cancelRequested };
  }

  counts() {
    const counts = { scheduled: 0, pending: 0, claimed: 0, completed: 0, dead_lettered: 0, cancelled: 0 };
    for (const { status } of this.items) counts[status] += 1;
    return counts;
  }

  #refusal(item, fence, call) {
    if (item.fence !== fence) return { error: "lease_lost" };
    if (item.status === "claimed") return undefined;
    return { error: item.settled ? "conflict" : "lease_lost", call };
  }

  /** The rule of attempts. Answers when the item can be had again, if it can. */
  #end(item, outcome, { retryable = true, delayMs }) {
    const now = this.#clock.now();
    const released = outcome === "released";
    item.attempts.push({ attempt: item.attempt, fence: item.fence, workerId: item.workerId, outcome: item.cancelRequested ? "cancelled" : outcome });
    item.leaseExpiresAt = undefined;
    item.settled = undefined;
    const again = released || (retryable && item.attempt < item.maxAttempts);
    const { base, factor, max } = defaultBackoff;
    const delay = delayMs ?? (released ? 0 : Math.min(base * factor ** item.attempt, max));
    if (released) item.attempt -= 1;
    if (item.cancelRequested) item.status = "cancelled";
    else if (!again) item.status = "dead_lettered";
    else {
      item.status = delay > 0 ? "scheduled" : "pending";
      // Without a delay it keeps its place in the order.
      if (delay > 0) item.runAt = now + delay;
      return now + delay;
    }
    return undefined;
  }
}
