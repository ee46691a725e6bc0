// The package in a real browser: one tab, its worker, and what can go wrong between them.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { openBrowser } from "./harness.mjs";

let browser;
before(async () => {
  browser = await openBrowser();
});
after(() => browser.close());
afterEach(async () => {
  await browser.context.unrouteAll();
  for (const page of browser.context.pages().slice(1)) await page.close();
  browser.assertNoErrors();
});

let stores = 0;
const newName = () => `client-${++stores}`;

/** A page with `runkeep` and `workers`, all the workers it has started, as globals. */
async function newPage() {
  const page = await browser.context.newPage();
  await page.addInitScript(() => {
    window.workers = [];
    const RealWorker = Worker;
    window.Worker = class extends RealWorker {
      constructor(...given) {
        super(...given);
        window.workers.push(this);
      }
    };
  });
  await visit(page);
  return page;
}

/** Loads the page, for the first time or anew. */
async function visit(page) {
  await page.goto(new URL("blank.html", browser.url).href);
  await page.evaluate(async () => {
    window.runkeep = await import("/runkeep/index.js");
    window.rejection = (promise) =>
      promise.then(
        () => "it resolved",
        (error) => ({
          ours: error instanceof runkeep.RunkeepError && runkeep.isRunkeepError(error),
          ...Object.fromEntries(["name", "code", "message", "details", "retryable"].map((key) => [key, error?.[key]])),
        }),
      );
    window.append = (store, executionId, n) => store.events.append(executionId, { type: "x-step", data: { n } });
    window.readLog = async (store, executionId) => {
      const steps = [];
      for await (const { data } of store.events.list({ executionId, limit: 7 })) steps.push(data.n);
      return steps;
    };
    window.open = (options) => runkeep.openStore({ sweep: false, ...options });
  });
}

/** What the worker's script begins with. */
async function prependToWorker(code) {
  await browser.context.route("**/runkeep/worker.js", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: `${code};\n${await response.text()}` });
  });
}

const range = (from, to) => Array.from({ length: to - from }, (_, index) => from + index);

test("what was acknowledged is there after each reload, with no close before it", async () => {
  const page = await newPage();
  const name = newName();
  for (let round = 0; round < 8; round++) {
    const log = await page.evaluate(
      async ([name, round]) => {
        const store = await open({ name });
        await store.executions.create({ id: "run", workflowId: "w" });
        await Promise.all([0, 1, 2].map((n) => append(store, "run", round * 3 + n)));
        return readLog(store, "run");
      },
      [name, round],
    );
    assert.deepEqual(log, range(0, 3 * (round + 1)));
    await visit(page);
  }
});

test("fifty rounds of close and open, with writes, keep every one of them", async () => {
  const page = await newPage();
  const log = await page.evaluate(async (name) => {
    for (let round = 0; round < 50; round++) {
      const store = await open({ name });
      await store.executions.create({ id: "run", workflowId: "w" });
      await append(store, "run", round);
      // Not always awaited: the next open comes while this one closes.
      const closing = store.close();
      if (round % 2) await closing;
    }
    const store = await open({ name });
    return readLog(store, "run");
  }, newName());
  assert.deepEqual(log, range(0, 50));
});

test("every name that the rules allow is a store of its own", async () => {
  const page = await newPage();
  const names = ["../up", "a/b", "A", "a", ".", "con", "é 🎉, \"quoted\"", "x".repeat(256), "é".repeat(128), "🎉".repeat(64)];
  const found = await page.evaluate(async (names) => {
    const stores = await Promise.all(names.map((name) => open({ name })));
    await Promise.all(stores.map((store, n) => store.executions.create({ id: `run-${n}`, workflowId: "w" })));
    await Promise.all(stores.map((store) => store.close()));
    const again = await Promise.all(names.map((name) => open({ name })));
    return Promise.all(again.map(async (store) => (await store.executions.list()).items.map(({ id }) => id)));
  }, names);
  assert.deepEqual(found, names.map((_, n) => [`run-${n}`]));
});

test("open, close, open in one breath, as React's StrictMode does", async () => {
  const page = await newPage();
  const status = await page.evaluate(async (name) => {
    const first = open({ name });
    const closing = first.then((store) => store.close());
    const store = await open({ name });
    await closing;
    return (await store.executions.create({ workflowId: "w" })).status;
  }, newName());
  assert.equal(status, "pending");
});

test("close resolves right after open, twice, and with calls in flight, which are answered", async () => {
  const page = await newPage();
  const [before, log] = await page.evaluate(async (name) => {
    const store = await open({ name });
    await Promise.all([store.close(), store.close()]);
    const busy = await open({ name });
    const calls = [busy.executions.create({ id: "run", workflowId: "w" }), ...[0, 1, 2].map((n) => append(busy, "run", n))];
    const [outcomes] = await Promise.all([Promise.allSettled(calls), busy.close()]);
    return [outcomes.map(({ status }) => status), await readLog(await open({ name }), "run")];
  }, newName());
  assert.deepEqual(before, Array(4).fill("fulfilled"));
  assert.deepEqual(log, [0, 1, 2]);
});

test("ten opens in one page are one worker, and the tenth close ends it", async () => {
  const page = await newPage();
  const result = await page.evaluate(async (name) => {
    const handles = await Promise.all(Array.from({ length: 10 }, () => open({ name })));
    await handles[0].executions.create({ id: "run", workflowId: "w" });
    const isFree = (options) => navigator.locks.request(`runkeep:${name}`, options, (lock) => lock !== null);
    for (const handle of handles.slice(0, 9)) await handle.close();
    const seen = await handles[9].executions.get("run");
    const before = await isFree({ ifAvailable: true });
    await handles[9].close();
    // The browser hears of the release a moment later.
    const after = await isFree({ signal: AbortSignal.timeout(5_000) });
    return { workers: workers.length, id: seen.id, before, after, refused: (await rejection(handles[9].executions.get("run"))).code };
  }, newName());
  assert.deepEqual(result, { workers: 1, id: "run", before: false, after: true, refused: "closed" });
});

test("the worker is terminated in the middle: the store goes on with another one, and its log has each acknowledged step once", async () => {
  const page = await newPage();
  const { log, acknowledged, unknown, workerCount, reads } = await page.evaluate(async (name) => {
    const store = await open({ name });
    await store.executions.create({ id: "run", workflowId: "w" });
    const [acknowledged, unknown, reads] = [[], [], []];
    let n = 0;
    for (let kill = 0; kill < 5; kill++) {
      for (let count = 0; count < 20; count++, n++) {
        const step = n;
        const pending = append(store, "run", step).then(
          () => acknowledged.push(step),
          (error) => unknown.push([step, error.code, error.retryable, error.message]),
        );
        const read = store.executions.get("run").then((execution) => reads.push(execution.id));
        if (count === 10) {
          // The messages are on their way.
          await null;
          workers.at(-1).terminate();
        }
        await Promise.all([pending, read]);
      }
    }
    return { log: await readLog(store, "run"), acknowledged, unknown, workerCount: workers.length, reads: reads.length };
  }, newName());
  assert.equal(workerCount, 6);
  assert.equal(reads, 100);
  assert.equal(new Set(log).size, log.length);
  assert.deepEqual(log.filter((n) => acknowledged.includes(n)), acknowledged);
  const uncertain = unknown.map(([n]) => n);
  assert.deepEqual(log.filter((n) => !acknowledged.includes(n) && !uncertain.includes(n)), []);
  for (const [, code, retryable, message] of unknown) {
    assert.deepEqual([code, retryable], ["timeout", true]);
    assert.match(message, /^events\.append: outcome unknown: the store's worker ended while the call ran/);
  }
});

test("a terminated worker of a memory store has lost it", async () => {
  const page = await newPage();
  const result = await page.evaluate(async (name) => {
    const store = await open({ name, storage: "memory" });
    await store.executions.create({ id: "run", workflowId: "w" });
    workers[0].terminate();
    const errors = [await rejection(store.executions.get("run")), await rejection(store.executions.create({ workflowId: "w" }))];
    await store.close();
    return { errors, anew: await (await open({ name, storage: "memory" })).executions.get("run"), workers: workers.length };
  }, newName());
  for (const { code, ours } of result.errors) assert.deepEqual([code, ours], ["storage_lost", true]);
  assert.equal(result.anew, null);
  assert.equal(result.workers, 2);
});

test("a trap of the engine answers its calls with internal, and the store goes on with a new worker", async () => {
  const page = await newPage();
  await prependToWorker(`
    let trap = false;
    new BroadcastChannel("trap").onmessage = ({ data }) => ((trap = true), new BroadcastChannel("trapped").postMessage(data));
    const { Instance } = WebAssembly;
    const guarded = (run) => (...given) => { if (trap) throw new WebAssembly.RuntimeError("unreachable"); return run(...given); };
    WebAssembly.Instance = function (...given) {
      const exports = Object.entries(new Instance(...given).exports);
      return { exports: Object.fromEntries(exports.map(([name, value]) => [name, typeof value === "function" ? guarded(value) : value])) };
    }`);
  const result = await page.evaluate(async (name) => {
    const store = await open({ name });
    await store.executions.create({ id: "run", workflowId: "w" });
    const trapped = new Promise((resolve) => (new BroadcastChannel("trapped").onmessage = resolve));
    new BroadcastChannel("trap").postMessage(1);
    await trapped;
    const errors = await Promise.all([rejection(append(store, "run", 1)), rejection(store.executions.get("run"))]);
    await append(store, "run", 2);
    return { errors, log: await readLog(store, "run"), workers: workers.length };
  }, newName());
  for (const { code, message } of result.errors) {
    assert.equal(code, "internal");
    assert.match(message, /crashed.*RuntimeError: unreachable/);
  }
  assert.deepEqual([result.log, result.workers], [[2], 2]);
});

test("errors keep their class, code, details and retryable on the way from the worker", async () => {
  const page = await newPage();
  const error = await page.evaluate(async (name) => {
    const store = await open({ name });
    return rejection(store.executions.setStatus("nobody", { status: "running" }));
  }, newName());
  assert.deepEqual({ ...error, message: "", details: {} }, { ours: true, name: "RunkeepError", code: "not_found", message: "", details: {}, retryable: false });
  assert.match(error.message, /nobody/);
});

test("an abort rejects with the signal's reason, and a call with its deadline passed with timeout", async () => {
  const page = await newPage();
  const result = await page.evaluate(async (name) => {
    const store = await open({ name });
    const aborter = new AbortController();
    const pending = store.executions.create({ id: "run", workflowId: "w" }, { signal: aborter.signal }).catch((reason) => reason);
    aborter.abort("enough");
    const tooLate = [];
    // A worker that is kept busy answers nothing in time.
    const many = Array.from({ length: 3_000 }, (_, n) => store.executions.create({ id: `run-${n}`, workflowId: "w" }));
    tooLate.push(await rejection(store.executions.get("run-0", { timeoutMs: 1 })));
    await Promise.all(many);
    return { aborted: await pending, sent: await store.executions.get("run"), timeout: tooLate[0].code };
  }, newName());
  assert.deepEqual(result, { aborted: "enough", sent: null, timeout: "timeout" });
});

test("thousands of calls made at once are all answered, each with its own result", async () => {
  const page = await newPage();
  const ids = await page.evaluate(async (name) => {
    const store = await open({ name });
    const made = await Promise.all(Array.from({ length: 3_000 }, (_, n) => store.executions.create({ id: `run-${n}`, workflowId: "w" })));
    return made.map(({ id }) => id);
  }, newName());
  assert.deepEqual(ids, range(0, 3_000).map((n) => `run-${n}`));
});

test("an owner that never answers, as a frozen one, is an error at the boot deadline", async () => {
  const name = newName();
  const [first, second] = [await newPage(), await newPage()];
  // Somebody holds the store's lock, and nobody serves it.
  await first.evaluate((name) => new Promise((held) => navigator.locks.request(`runkeep:${name}`, () => new Promise((release) => (window.release = release, held())))), name);
  const { error, ms } = await second.evaluate(async (name) => {
    const started = performance.now();
    return { error: await rejection(open({ name, bootTimeoutMs: 500 })), ms: performance.now() - started };
  }, name);
  assert.deepEqual([error.code, error.ours, error.retryable], ["storage_unavailable", true, true]);
  assert.match(error.message, /another tab has it open, and does not answer: it may be frozen/);
  assert.ok(ms >= 500 && ms < 5_000, `${ms} ms`);

  // One that waits gets in as soon as it can.
  const waiting = second.evaluate(async (name) => (await (await open({ name })).executions.create({ id: "run", workflowId: "w" })).id, name);
  await first.evaluate(() => window.release());
  assert.equal(await waiting, "run");
});

test("a page kept for the back button gives the store back, and takes it again when it is called", async () => {
  const name = newName();
  const [first, second] = [await newPage(), await newPage()];
  await first.evaluate(async (name) => {
    window.store = await open({ name });
    await window.store.executions.create({ id: "run", workflowId: "w" });
    dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }));
  }, name);
  await second.evaluate(async (name) => {
    const store = await open({ name });
    await append(store, "run", 1);
    await store.close();
  }, name);
  assert.deepEqual(await first.evaluate(() => readLog(window.store, "run")), [1]);
});

test("a store opened in a worker of the page's own", async () => {
  const page = await newPage();
  const storage = await page.evaluate(
    (name) =>
      new Promise((resolve, reject) => {
        const worker = new Worker("/opener.js", { type: "module" });
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = (event) => reject(new Error(event.message));
        worker.postMessage({ name });
      }),
    newName(),
  );
  assert.equal(storage, "opfs");
});

test("a shared worker, which cannot start workers, has no store of its own in place of the one that pages see", async () => {
  const page = await newPage();
  const [byDefault, asked] = await page.evaluate(async (name) => {
    const shared = new SharedWorker("/opener.js", { type: "module" });
    const { port } = shared;
    const openThere = (options) =>
      new Promise((resolve, reject) => {
        shared.onerror = (event) => reject(new Error(event.message));
        port.onmessage = ({ data }) => resolve(data);
        port.postMessage({ name, ...options });
      });
    return [await openThere({}), await openThere({ storage: "memory" })];
  }, newName());
  assert.equal(byDefault.code, "storage_unavailable");
  assert.match(byDefault.message, /it needs a page, or a worker that can start workers, which shared workers cannot/);
  assert.equal(asked, "memory");
});

test("a worker that cannot start is a clear error in bounded time", async () => {
  const page = await newPage();
  const scripts = ["/nowhere.js", "/blank.html", "https://example.org/worker.js"];
  const failures = await page.evaluate((scripts) => Promise.all(scripts.map((workerUrl) => rejection(open({ name: workerUrl, workerUrl })))), scripts);
  for (const [index, path] of scripts.entries()) {
    assert.deepEqual([failures[index].code, failures[index].ours], ["storage_unavailable", true]);
    assert.ok(failures[index].message.includes(path), failures[index].message);
    assert.match(failures[index].message, /Likely causes: .*404.*Content-Security-Policy/);
  }
  assert.equal(await page.evaluate(async (name) => (await (await open({ name })).info()).storage, newName()), "opfs");
  browser.takeErrors();
});

test("a policy that forbids the worker is a clear error at once", async () => {
  await browser.context.route("**/blank.html", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, headers: { ...response.headers(), "content-security-policy": "script-src 'self'; worker-src 'none'" } });
  });
  const page = await newPage();
  const error = await page.evaluate((name) => rejection(open({ name })), newName());
  assert.equal(error.code, "storage_unavailable");
  assert.match(error.message, /worker\.js.*Likely causes: .*Content-Security-Policy forbids it \(worker-src\)/);
  browser.takeErrors();
});

test("a worker that starts and says nothing is an error at the boot deadline", async () => {
  const page = await newPage();
  const error = await page.evaluate((name) => rejection(open({ name, workerUrl: "/keeper.js", bootTimeoutMs: 300 })), newName());
  assert.equal(error.code, "storage_unavailable");
  assert.match(error.message, /within 300 ms: its worker has not started, script .*\/keeper\.js\. Likely causes/);
  browser.takeErrors();
});

test("a missing or wrong .wasm is a clear error; a wrong MIME type is none", async () => {
  const page = await newPage();
  const name = newName();
  for (const [wasmUrl, expected] of [
    ["/nowhere.wasm", /nowhere\.wasm cannot be loaded: it answers with status 404\. .*wasmUrl/],
    ["/blank.html", /blank\.html cannot be loaded: it answers with an HTML page\./],
    ["/keeper.js", /keeper\.js cannot be loaded: .*magic/],
  ]) {
    const error = await page.evaluate(([name, wasmUrl]) => rejection(open({ name, wasmUrl })), [name, wasmUrl]);
    assert.equal(error.code, "storage_unavailable");
    assert.match(error.message, expected);
  }
  browser.takeErrors();

  await browser.context.route("**/runkeep.wasm", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, headers: { ...response.headers(), "content-type": "application/octet-stream" } });
  });
  assert.equal(await page.evaluate(async (name) => (await (await open({ name })).info()).storage, name), "opfs");
});

test("a policy without wasm-unsafe-eval is a clear error, and names what is missing", async () => {
  const page = await newPage();
  await browser.context.route("**/runkeep/worker.js", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, headers: { ...response.headers(), "content-security-policy": "script-src 'self'; connect-src 'self'" } });
  });
  const error = await page.evaluate((name) => rejection(open({ name })), newName());
  assert.equal(error.code, "storage_unavailable");
  assert.match(error.message, /The Content-Security-Policy of the worker script must allow 'wasm-unsafe-eval'/);
  browser.takeErrors();
});

for (const [what, code, reason] of [
  ["has no OPFS", "delete StorageManager.prototype.getDirectory", /no origin private file system/],
  ["has no synchronous access", "delete FileSystemFileHandle.prototype.createSyncAccessHandle", /no origin private file system with synchronous access/],
  [
    "refuses it, as in a private window",
    'StorageManager.prototype.getDirectory = async () => { throw new DOMException("denied", "SecurityError") }',
    /refuses it.*denied/,
  ],
]) {
  test(`a browser that ${what}: auto is memory and says so, opfs is an error`, async () => {
    const page = await newPage();
    await prependToWorker(code);
    const warnings = [];
    page.on("console", (message) => message.type() === "warning" && warnings.push(message.text()));
    const { infos, error } = await page.evaluate(async (name) => {
      const stores = [await open({ name }), await open({ name: `${name}-other` })];
      return { infos: await Promise.all(stores.map((store) => store.info())), error: await rejection(open({ name: `${name}-opfs`, storage: "opfs" })) };
    }, newName());
    for (const info of infos) {
      assert.equal(info.storage, "memory");
      assert.match(info.storageReason, reason);
    }
    assert.equal(warnings.length, 1);
    assert.match(warnings[0], reason);
    assert.equal(error.code, "storage_unavailable");
    assert.match(error.message, reason);
  });
}

test("info() tells where the data is, and persist() asks", async () => {
  const page = await newPage();
  const name = newName();
  const { info, persisted } = await page.evaluate(async (name) => {
    const store = await open({ name });
    return { info: await store.info(), persisted: await store.persist() };
  }, name);
  assert.equal(info.name, name);
  assert.equal(info.storage, "opfs");
  assert.equal(info.storageReason, undefined);
  assert.deepEqual(Object.fromEntries(Object.entries(info).map(([key, value]) => [key, typeof value])), {
    name: "string",
    clientId: "string",
    owner: "boolean",
    version: "string",
    schemaVersion: "number",
    sqliteVersion: "string",
    storage: "string",
    persisted: "boolean",
    usage: "number",
    quota: "number",
  });
  assert.equal(typeof persisted, "boolean");
});

test("the page drives the sweeps, and a closed store's sweeps end", async () => {
  const page = await newPage();
  const counts = await page.evaluate(async (name) => {
    let sweeps = 0;
    const postMessage = Worker.prototype.postMessage;
    const swept = new Promise((resolve) => {
      Worker.prototype.postMessage = function (message) {
        if (message.type === "tick" && ++sweeps === 3) resolve();
        postMessage.apply(this, arguments);
      };
    });
    const store = await runkeep.openStore({ name, sweep: { intervalMs: 5 } });
    await swept;
    await store.close();
    const after = sweeps;
    const other = await open({ name });
    for (let n = 0; n < 20; n++) await other.executions.get("nobody");
    return [after, sweeps];
  }, newName());
  assert.equal(counts[0], counts[1]);
});
