// What a subscriber is told, and when.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeSource } from "./changes-kit.mjs";
import { failsWith, modules, settled } from "./client-modules.mjs";

const { subscribe, Subscriptions } = modules;

function world() {
  const source = fakeSource();
  const subscriptions = new Subscriptions(source);
  const follow = (follower) => subscriptions.follow("default", follower);
  const subscribeTo = (...given) => subscribe(follow, given);
  return { source, subscriptions, subscribeTo };
}

test("answers at once, ticks once it listens, then with each change and after each reconnection", async () => {
  const { source, subscribeTo } = world();
  const told = [];
  const stop = subscribeTo({ topics: ["events", "items"] }, (change) => told.push(change));
  assert.deepEqual([told.length, source.listening], [0, 1]);
  await settled();
  source.change({ events: ["a", "b"], executions: ["a"] });
  source.change({ executions: null });
  source.change({ items: null });
  source.tell("all");
  assert.deepEqual(told, [
    { reason: "start", topics: { events: null, items: null } },
    { reason: "change", topics: { events: ["a", "b"] } },
    { reason: "change", topics: { items: null } },
    { reason: "reconnect", topics: { events: null, items: null } },
  ]);
  stop();
  source.change({ events: null });
  assert.deepEqual([told.length, source.listening], [4, 0]);
});

test("ids narrow it; null is anything and always told", async () => {
  const { source, subscribeTo } = world();
  const told = [];
  subscribeTo({ topics: "events", ids: ["a"] }, ({ reason, topics }) => reason === "change" && told.push(topics));
  await settled();
  source.change({ events: ["b"] });
  source.change({ events: ["b", "a"] });
  source.change({ events: null });
  assert.deepEqual(told, [{ events: ["a"] }, { events: null }]);
});

test("without a filter everything is told, but nothing of another tenant", async () => {
  const { source, subscriptions, subscribeTo } = world();
  const told = [];
  const others = [];
  subscribeTo(({ reason, topics }) => reason === "change" && told.push(topics));
  subscriptions.follow("acme", { onTick: ({ reason, topics }) => reason === "change" && others.push(topics) });
  await settled();
  source.tell([
    { tenant: "default", topics: { workers: ["w"], crons: null } },
    { tenant: "acme", topics: { events: ["e"] } },
  ]);
  assert.deepEqual([told, others], [[{ crons: null, workers: ["w"] }], [{ events: ["e"] }]]);
});

test("StrictMode: subscribed, unsubscribed and subscribed again, there is one tick, and one listener at most", async () => {
  const { source, subscribeTo } = world();
  let ticks = 0;
  const tick = () => ticks++;
  const first = subscribeTo(tick);
  first();
  const second = subscribeTo(tick);
  first();
  await settled();
  assert.deepEqual([ticks, source.listening], [1, 1]);
  second();
  second();
  assert.equal(source.listening, 0);
});

test("many subscribers are one listener on the way to the store", async () => {
  const { source, subscribeTo } = world();
  const stops = Array.from({ length: 10 }, () => subscribeTo(() => {}));
  assert.equal(source.listening, 1);
  for (const stop of stops) stop();
  assert.equal(source.listening, 0);
});

test("a callback that throws is an uncaught error, and the others are told", async (context) => {
  const { source, subscribeTo } = world();
  const uncaught = [];
  const listeners = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => uncaught.push(error.message));
  context.after(() => {
    process.removeAllListeners("uncaughtException");
    for (const listener of listeners) process.on("uncaughtException", listener);
  });
  const told = [];
  subscribeTo(({ reason }) => {
    throw new Error(`of ${reason}`);
  });
  subscribeTo(({ reason }) => told.push(reason));
  await settled();
  source.change({ events: null });
  await settled();
  assert.deepEqual([uncaught, told], [["of start", "of change"], ["start", "change"]]);
});

test("one that ends another in its callback: the other is told no more", async () => {
  const { source, subscribeTo } = world();
  const told = [];
  subscribeTo(({ reason }) => reason === "change" && stop());
  const stop = subscribeTo(({ reason }) => told.push(reason));
  await settled();
  source.change({ events: null });
  assert.deepEqual(told, ["start"]);
});

test("using: a subscription is disposable", { skip: !Symbol.dispose }, async () => {
  const { source, subscribeTo } = world();
  const subscription = subscribeTo(() => {});
  subscription[Symbol.dispose]();
  assert.equal(source.listening, 0);
});

test("what is no filter and no function is refused at once, by name", () => {
  const { source, subscribeTo } = world();
  const callback = () => {};
  for (const [given, message] of [
    [[], /the last argument is a function; got undefined/],
    [[{}], /the last argument is a function; got an object/],
    [["events", callback], /expected an object, got "events"/],
    [[{ topic: "events" }, callback], /unknown option "topic"; there are topics, ids/],
    [[{ topics: "evnts" }, callback], /topics is one or several of .*events.*; got \["evnts"\]/],
    [[{ topics: [] }, callback], /topics is one or several of/],
    [[{ ids: "run" }, callback], /ids is an array of strings, at least one; got "run"/],
    [[{ ids: [] }, callback], /ids is an array of strings, at least one; got \[\]/],
  ]) {
    assert.throws(() => subscribeTo(...given), failsWith("invalid_argument", message));
  }
  assert.equal(source.listening, 0);
});
