// The owner of a store and the clients that it serves, without browsers: who is let in, who is answered, to whom it hands over.
import assert from "node:assert/strict";
import { test } from "node:test";
import { modules } from "./client-modules.mjs";

const { Host, Owner } = modules;

const version = "1.2.3";

function setUp() {
  const state = { tasks: [], durability: [], handedTo: [] };
  const engine = {
    run: ({ calls }) => ({ answers: calls.filter((_, index) => index % 2 === 0).map((operation) => `${operation} done`) }),
    setDurability: (durability) => state.durability.push(durability),
    close() {},
  };
  const host = new Host(engine, { schedule: (task) => state.tasks.push(task), onCrash() {} });
  const owner = new Owner(host, { version, schemaVersion: 1, sqliteVersion: "3", storage: "opfs" }, (to) => state.handedTo.push(to));
  const join = (client, { isOwn = false, post, ...hello } = {}) => {
    const heard = [];
    const receive = owner.connect({ post: post ?? ((message) => heard.push(message)) }, isOwn);
    receive({ type: "hello", client, attempt: 1, version, now: performance.timeOrigin + performance.now(), durability: "relaxed", visible: true, ready: false, ...hello });
    return { heard, receive, call: (id, operation) => receive({ type: "calls", id, calls: [operation, "{}"] }) };
  };
  const work = () => {
    while (state.tasks.length > 0) state.tasks.shift()();
  };
  return { ...state, owner, join, work };
}

test("each client is welcomed, told who it is, and gets its own answers", () => {
  const { join, work } = setUp();
  const own = join("own", { isOwn: true });
  const other = join("other");
  own.call(1, "a");
  other.call(1, "b");
  work();
  for (const [{ heard }, clientId, owner, answer] of [[own, "own", true, "a done"], [other, "other", false, "b done"]]) {
    assert.deepEqual([heard[0].type, heard[0].info.owner, heard[0].info.clientId], ["welcome", owner, clientId]);
    assert.deepEqual(heard[1], { type: "answers", id: 1, answers: [answer] });
  }
});

test("a client that cannot be reached keeps nothing from the others of its group", () => {
  const { join, work } = setUp();
  const dead = join("dead", {
    post() {
      throw new DOMException("closed", "InvalidStateError");
    },
  });
  const alive = join("alive");
  dead.call(1, "a");
  alive.call(1, "b");
  work();
  assert.deepEqual(alive.heard.at(-1), { type: "answers", id: 1, answers: ["b done"] });
});

test("a hello that took its time does not take the place of a later one", () => {
  const { join, work, owner } = setUp();
  const later = join("client", { attempt: 2 });
  const late = join("client", { attempt: 1 });
  assert.deepEqual(late.heard, []);
  later.call(1, "a");
  work();
  assert.equal(later.heard.at(-1).type, "answers");
  assert.deepEqual(owner.clients, ["client"]);
});

test("an older page is refused and told to reload; for a newer one the store is given up, and the others are told", () => {
  const { join, handedTo } = setUp();
  const own = join("own", { isOwn: true });
  const older = join("older", { version: "1.2.2" });
  assert.deepEqual([older.heard.length, older.heard[0].type, older.heard[0].error.code], [1, "refused", "unsupported"]);
  assert.match(older.heard[0].error.message, /runkeep 1\.2\.2.*held by 1\.2\.3: reload the page/);
  assert.deepEqual(handedTo, []);
  const newer = join("newer", { version: "1.10.0" });
  assert.deepEqual([newer.heard, handedTo], [[], []], "its worker would not be the next in line");
  newer.receive({ type: "state", visible: false, ready: true });
  assert.deepEqual(newer.heard.map(({ type }) => type), ["leaving"]);
  assert.equal(own.heard.at(-1).type, "versionchange");
  assert.match(own.heard.at(-1).message, /1\.10\.0.*reload this page/);
  assert.deepEqual(handedTo, [""]);
  join("newest", { version: "2.0.0", ready: true });
  assert.deepEqual(handedTo, ["", ""]);
});

test("a page whose worker is of another version is told so, whichever is newer", () => {
  for (const version of ["1.2.2", "1.10.0"]) {
    const { join, handedTo } = setUp();
    const own = join("own", { isOwn: true, version, ready: true });
    assert.deepEqual(own.heard.map(({ type, error }) => [type, error.code]), [["refused", "unsupported"]]);
    assert.deepEqual(handedTo, []);
  }
});

test("a hidden owner hands over to a visible client that is ready, after a second; at once where it can say no more", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { join, handedTo } = setUp();
  const own = join("own", { isOwn: true });
  join("hidden", { visible: false, ready: true });
  const other = join("other");
  own.receive({ type: "state", visible: false, ready: false });
  context.mock.timers.tick(5_000);
  assert.deepEqual(handedTo, [], "nobody is ready");
  other.receive({ type: "state", visible: true, ready: true });
  context.mock.timers.tick(999);
  own.receive({ type: "state", visible: true, ready: false });
  context.mock.timers.tick(5_000);
  assert.deepEqual(handedTo, [], "it is visible again");
  own.receive({ type: "state", visible: false, ready: false });
  context.mock.timers.tick(1_000);
  assert.deepEqual(handedTo, ["other"]);
  own.receive({ type: "state", visible: false, ready: false, leaving: true });
  assert.deepEqual(handedTo, ["other", "other"]);
});

test("the disk is flushed at each commit while one client asks for it", () => {
  const { join, durability } = setUp();
  join("a");
  const strict = join("b", { durability: "strict" });
  join("c", { durability: "strict" }).receive({ type: "goodbye" });
  strict.receive({ type: "goodbye" });
  assert.deepEqual(durability, ["strict", "relaxed"]);
});

test("changes are told to those who listen, merged while they are busy", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { join, owner } = setUp();
  const deaf = join("deaf");
  const { heard, receive } = join("listener");
  receive({ type: "listen", on: true });
  const tell = (...ids) => owner.tell([{ tenant: "default", topics: { events: ids } }]);
  tell("a");
  tell("b");
  tell("c", "b");
  const changed = () => heard.filter(({ type }) => type === "changed").map(({ changes }) => changes[0].topics.events);
  assert.deepEqual(changed(), [["a"]]);
  context.mock.timers.tick(50);
  assert.deepEqual(changed(), [["a"]], "the first is not dealt with yet");
  receive({ type: "seen" });
  assert.deepEqual(changed(), [["a"], ["b", "c"]]);
  receive({ type: "seen" });
  owner.tell([{ tenant: "default", topics: { events: null } }]);
  tell("d");
  context.mock.timers.tick(10);
  assert.deepEqual(changed().at(-1), null);
  receive({ type: "listen", on: false });
  receive({ type: "seen" });
  tell("e");
  context.mock.timers.tick(50);
  assert.equal(changed().length, 3);
  assert.equal(deaf.heard.length, 1);
});

test("those who are told that another owner comes get no answers any more", () => {
  const { join, owner, work } = setUp();
  const client = join("client");
  client.call(1, "a");
  owner.leave("closed");
  assert.deepEqual(client.heard.at(-1), { type: "leaving", reason: "closed" });
  assert.deepEqual(owner.clients, []);
  work();
});
