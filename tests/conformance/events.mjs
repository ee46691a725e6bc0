import { equal, match, ok } from "./assert.mjs";
import { all, claimOne, enqueue, log, range, refuses, start } from "./kit.mjs";

const numbers = (events) => events.map(({ sequence }) => sequence);

export const events = {
  "events are numbered 1, 2, 3 in each execution by itself": async ({ store, clock }) => {
    const a = await start(store);
    const b = await start(store);
    const first = await store.events.append(a.id, { type: "x-a", data: { n: 1 } });
    const { id, ...rest } = first;
    equal(rest, { executionId: a.id, sequence: 1, type: "x-a", data: { n: 1 }, createdAt: clock.now(), created: true });
    await store.events.append(b.id, { type: "x-b" });
    await store.events.append(a.id, { type: "x-a", data: { n: 2 } });
    await store.events.append(b.id, { type: "x-b" });
    const { created, ...stored } = first;
    equal((await log(store, a.id))[0], stored);
    equal(numbers(await log(store, a.id)), [1, 2]);
    equal(numbers(await log(store, b.id)), [1, 2]);
    ok(typeof id === "string" && created, "the event has no id");
  },

  "appendMany appends in order and answers each event": async ({ store }) => {
    const { id } = await start(store);
    await store.events.append(id, { type: "x-before" });
    const answers = await store.events.appendMany(id, [{ type: "x-a", data: 1 }, { type: "x-b", data: 2 }]);
    match(answers, [{ sequence: 2, type: "x-a", data: 1, created: true }, { sequence: 3, type: "x-b", data: 2, created: true }]);
    equal((await log(store, id)).map(({ type }) => type), ["x-before", "x-a", "x-b"]);
    equal(await store.events.appendMany(id, []), []);
  },

  "appendMany is all or nothing, and names the event at fault": async ({ store }) => {
    const { id } = await start(store);
    const good = { type: "x-a" };
    const error = await refuses(store, () => store.events.appendMany(id, [good, good, { type: "workflow_started", data: {} }]), "invalid_argument", /workflow/);
    match(error.details, { index: 2 });
    await store.events.append(id, { type: "x-a", id: "taken" });
    await refuses(store, () => store.events.appendMany(id, [good, { type: "x-other", id: "taken" }]), "conflict", /taken/);
  },

  "expectedSequence lets one of two writers win": async ({ store }) => {
    const { id } = await start(store);
    const event = { type: "x-a" };
    match(await store.events.append(id, event, { expectedSequence: 0 }), { sequence: 1 });
    await refuses(store, () => store.events.append(id, event, { expectedSequence: 0 }), "conflict", /sequence 1/);
    await refuses(store, () => store.events.append(id, event, { expectedSequence: 2 }), "conflict");
    match(await store.events.appendMany(id, [event, event], { expectedSequence: 1 }), [{ sequence: 2 }, { sequence: 3 }]);
    await refuses(store, () => store.events.appendMany(id, [event], { expectedSequence: 1 }), "conflict");
    const race = await Promise.allSettled(range(5).map(() => store.events.append(id, event, { expectedSequence: 3 })));
    equal(race.filter(({ status }) => status === "fulfilled").length, 1, "number of winners");
    equal(numbers(await log(store, id)), [1, 2, 3, 4]);
  },

  "an append that is repeated under its id is one event": async ({ store, clock }) => {
    const { id } = await start(store);
    const event = { id: "e1", type: "x-a", data: { a: 1, b: [2] } };
    const { created, ...first } = await store.events.append(id, event, { expectedSequence: 0 });
    equal(created, true);
    await store.events.append(id, { type: "x-b" });
    clock.advance(5);
    equal(await store.events.append(id, event), { ...first, created: false });
    equal(await store.events.append(id, { ...event, data: { b: [2], a: 1 } }), { ...first, created: false }, "the answer with the members in another order");
    equal(await store.events.append(id, event, { expectedSequence: 0 }), { ...first, created: false }, "the answer with the sequence of the first call");
    equal(numbers(await log(store, id)), [1, 2]);
  },

  "an event's id is taken for other content and for other executions": async ({ store }) => {
    const { id } = await start(store);
    const other = await start(store);
    await store.events.append(id, { id: "e1", type: "x-a", data: 1 });
    await refuses(store, () => store.events.append(id, { id: "e1", type: "x-a", data: 2 }), "conflict", /e1/);
    await refuses(store, () => store.events.append(id, { id: "e1", type: "x-b", data: 1 }), "conflict", /e1/);
    await refuses(store, () => store.events.append(other.id, { id: "e1", type: "x-a", data: 1 }), "conflict", /e1/);
  },

  "appendMany that is repeated with its ids is recorded once": async ({ store }) => {
    const { id } = await start(store);
    const events = [{ id: "e1", type: "x-a" }, { id: "e2", type: "x-b" }];
    await store.events.appendMany(id, events, { expectedSequence: 0 });
    match(await store.events.appendMany(id, events, { expectedSequence: 0 }), [{ sequence: 1, created: false }, { sequence: 2, created: false }]);
    equal(numbers(await log(store, id)), [1, 2]);
  },

  "latestSequence counts what is there": async ({ store }) => {
    const { id } = await start(store);
    equal(await store.events.latestSequence(id), 0);
    await store.events.appendMany(id, range(3).map((n) => ({ type: "x-a", data: n })));
    equal(await store.events.latestSequence(id), 3);
    match(await store.executions.get(id), { lastSequence: 3 });
  },

  "a log can be read from any point, by type, and backwards": async ({ store }) => {
    const { id } = await start(store);
    await store.events.appendMany(id, range(10).map((n) => ({ type: n % 3 === 0 ? "x-third" : "x-other", data: n })));
    const read = async (filter) => numbers(await all(store.events.list({ executionId: id, ...filter })));
    equal(await read({}), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    equal(await read({ after: 7 }), [8, 9, 10]);
    equal(await read({ after: 10 }), []);
    equal(await read({ types: ["x-third"] }), [1, 4, 7, 10]);
    equal(await read({ types: ["x-third", "x-other"], after: 8 }), [9, 10]);
    equal(await read({ types: ["x-nothing"] }), []);
    equal(await read({ order: "desc", limit: 3 }), [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    equal(await read({ order: "desc", after: 6, types: ["x-other"], limit: 1 }), [9, 8]);
  },

  "an event never changes, whatever follows it": async ({ store, clock }) => {
    const { id } = await start(store);
    await store.events.append(id, { type: "node_started", data: { nodeId: "n", workerId: "w1", attempt: 1 } });
    const [first] = await log(store, id);
    clock.advance(1_000);
    await store.events.append(id, { type: "node_failed", data: { nodeId: "n", error: "no", attempt: 1, retryable: false } });
    await store.executions.setStatus(id, { status: "failed" });
    equal((await log(store, id))[0], first);
  },

  "when the clock goes back, the order of events stays": async ({ store, clock }) => {
    const { id } = await start(store);
    const at = clock.now();
    await store.events.append(id, { type: "x-first" });
    clock.advance(-100);
    await store.events.append(id, { type: "x-second" });
    equal((await log(store, id)).map(({ sequence, type, createdAt }) => [sequence, type, createdAt - at]), [[1, "x-first", 0], [2, "x-second", -100]]);
  },

  "eight writers on one execution leave no gap, and a reader misses none": async ({ store }) => {
    const { id } = await start(store);
    const writer = async (name) => {
      for (const n of range(25)) await store.events.append(id, { type: "x-step", data: [name, n] });
    };
    const seen = [];
    const reader = async () => {
      while (seen.length < 200) {
        for (const event of (await store.events.list({ executionId: id, after: seen.length })).items) {
          equal(event.sequence, seen.length + 1, "the sequence that the reader sees next");
          seen.push(event.data);
        }
      }
    };
    await Promise.all([reader(), ...range(8).map(writer)]);
    for (const name of range(8)) equal(seen.filter(([by]) => by === name).map(([, n]) => n), range(25), `the events of writer ${name}`);
  },

  "types that begin with x- are the caller's, and keep any data": async ({ store }) => {
    const { id } = await start(store);
    const documents = [{ a: { b: [1, { c: 2 }] } }, [1, "two", null], "text", 0, false, null, {}];
    for (const data of documents) match(await store.events.append(id, { type: "x-any.thing/π 🎉", data }), { data });
    match(await store.events.append(id, { type: "x-nothing" }), { data: null });
    equal((await log(store, id)).map(({ data }) => data), [...documents, null]);
    match(await store.executions.get(id), { status: "pending", state: {} });
  },

  "an unknown type is refused, and the nearest known one is named": async ({ store }) => {
    const { id } = await start(store);
    const near = { node_complete: "node_completed", workflowStarted: "workflow_started", "timer-fired": "timer_fired", toolcalled: "tool_called" };
    for (const [type, name] of Object.entries(near)) {
      await refuses(store, () => store.events.append(id, { type, data: {} }), "invalid_argument", new RegExp(`${type}.*${name}`));
    }
  },

  "events that the store writes itself cannot be appended": async ({ store }) => {
    const { id } = await start(store);
    await enqueue(store, { executionId: id, nodeId: "n" });
    const item = await claimOne(store);
    const own = [
      { type: "execution_status_set", data: { from: "pending", to: "completed" } },
      { type: "execution_state_set", data: { state: {} } },
      { type: "execution_state_patched", data: { patch: {} } },
      { type: "execution_state_appended", data: { key: "k", value: 1 } },
      { type: "execution_reconciled", data: { status: "completed", state: {} } },
      { type: "execution_other", data: {} },
      { type: "segment_boundary", data: { segmentNumber: 1, nextExecutionId: "e" } },
    ];
    for (const event of own) {
      const named = new RegExp(event.type);
      await refuses(store, () => store.events.append(id, event), "invalid_argument", named);
      await refuses(store, () => store.events.appendMany(id, [event]), "invalid_argument", named);
      await refuses(store, () => store.queue.complete(item, { events: [event] }), "invalid_argument", named);
      await refuses(store, () => store.queue.fail(item, { error: "no", events: [event] }), "invalid_argument", named);
    }
  },

  "an execution that does not exist has no log and takes no event": async ({ store }) => {
    await refuses(store, () => store.events.append("nobody", { type: "x-a" }), "not_found", /nobody/);
    await refuses(store, () => store.events.appendMany("nobody", [{ type: "x-a" }]), "not_found", /nobody/);
    await refuses(store, () => store.events.latestSequence("nobody"), "not_found", /nobody/);
    equal(await store.executions.get("nobody"), null);
  },

  "an append moves updatedAt of its execution": async ({ store, clock }) => {
    const { id, createdAt } = await start(store);
    clock.advance(42);
    await store.events.append(id, { type: "x-a" });
    match(await store.executions.get(id), { createdAt, updatedAt: createdAt + 42 });
  },

  "the log is whole after the store was opened again": async ({ store, reopen }) => {
    const { id } = await start(store);
    await store.events.appendMany(id, range(20).map((n) => ({ type: "x-step", data: { n } })));
    const before = await log(store, id);
    const again = await reopen();
    equal(await log(again, id), before);
    match(await again.events.append(id, { type: "x-step" }), { sequence: 21 });
  },
};
