// The driver of the sweeps: one at a time, punctual where it can be, and never in anybody's way.
import assert from "node:assert/strict";
import { test } from "node:test";
import { modules, settled } from "./client-modules.mjs";

const { Sweeper } = modules;

function drive(context, reports, intervalMs = 1_000) {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const sweeps = [];
  const sweeper = new Sweeper(() => {
    const sweep = {};
    sweeps.push(sweep);
    return new Promise((resolve, reject) => Object.assign(sweep, { resolve, reject })).then((report) => report ?? { more: false });
  }, intervalMs);
  context.after(() => sweeper.stop());
  const pass = async (ms) => {
    context.mock.timers.tick(ms);
    await settled();
  };
  const end = async (report) => {
    sweeps.at(-1).resolve(report);
    await settled();
  };
  const fail = async () => {
    sweeps.at(-1).reject(new Error("no"));
    await settled();
  };
  return { sweeps, sweeper, pass, end, fail };
}

test("sweeps soon, after what the store was opened for, then an interval after each end", async (context) => {
  const { sweeps, pass, end } = drive(context);
  assert.equal(sweeps.length, 0);
  await pass(99);
  assert.equal(sweeps.length, 0);
  await pass(1);
  assert.equal(sweeps.length, 1);
  await pass(5_000);
  assert.equal(sweeps.length, 1, "one at a time");
  await end();
  await pass(999);
  assert.equal(sweeps.length, 1);
  await pass(1);
  assert.equal(sweeps.length, 2);
});

test("goes on at once while there is more, but not for ever", async (context) => {
  const { sweeps, pass, end } = drive(context);
  await pass(100);
  for (let count = 1; count <= 25; count++) await end({ more: true });
  assert.equal(sweeps.length, 20);
  await pass(1_000);
  assert.equal(sweeps.length, 21);
});

test("sweeps when the page comes back to life", async (context) => {
  const page = new EventTarget();
  page.visibilityState = "hidden";
  globalThis.document = page;
  globalThis.addEventListener = (...given) => page.addEventListener(...given);
  context.after(() => {
    delete globalThis.document;
    delete globalThis.addEventListener;
  });
  const { sweeps, sweeper, pass, end } = drive(context);
  await pass(100);
  await end();
  let expected = 1;
  for (const event of ["online", "pageshow", "resume", "visibilitychange"]) {
    if (event === "visibilitychange") {
      page.dispatchEvent(new Event(event));
      assert.equal(sweeps.length, expected, "not when it is hidden");
      page.visibilityState = "visible";
    }
    page.dispatchEvent(new Event(event));
    assert.equal(sweeps.length, ++expected, event);
    await end();
  }
  await pass(1_000);
  assert.equal(sweeps.length, ++expected, "and one timer only");
  await end();
  sweeper.stop();
  page.dispatchEvent(new Event("online"));
  await pass(10_000);
  assert.equal(sweeps.length, expected);
});

test("a failed sweep is tried again at the next tick; three in a row are worth one warning", async (context) => {
  const warn = context.mock.method(console, "warn", () => {});
  const { sweeps, pass, end, fail } = drive(context);
  await pass(100);
  for (let count = 1; count <= 5; count++) {
    await fail();
    assert.equal(warn.mock.callCount(), count < 3 ? 0 : 1);
    await pass(1_000);
    assert.equal(sweeps.length, count + 1);
  }
  await end();
  for (let count = 1; count <= 3; count++) {
    await pass(1_000);
    await fail();
  }
  assert.equal(warn.mock.callCount(), 2);
});

test("stops for good, in the middle of a sweep too", async (context) => {
  const warn = context.mock.method(console, "warn", () => {});
  const { sweeps, sweeper, pass, end } = drive(context);
  await pass(100);
  sweeper.stop();
  await end({ more: true });
  await pass(10_000);
  assert.equal(sweeps.length, 1);
  assert.equal(warn.mock.callCount(), 0);
});

test("an interval that is shorter counts from the beginning", async (context) => {
  const { sweeps, pass } = drive(context, [], 20);
  await pass(20);
  assert.equal(sweeps.length, 1);
});

test("its timer does not keep a process alive", async (context) => {
  let unref = 0;
  context.mock.method(globalThis, "setTimeout", () => ({ unref: () => unref++ }));
  const sweeper = new Sweeper(async () => ({ more: false }), 1_000);
  await settled();
  assert.equal(unref, 1);
  sweeper.stop();
});
