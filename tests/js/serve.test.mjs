// The server of the console and of the browser tests gives out its folders and nothing else.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { serve, strictPolicy } from "../../scripts/serve.mjs";

let folder;
let server;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "runkeep-serve-"));
  mkdirSync(join(folder, "public", "sub"), { recursive: true });
  mkdirSync(join(folder, "public-too"));
  writeFileSync(join(folder, "secret.txt"), "secret");
  writeFileSync(join(folder, "public-too", "secret.txt"), "secret");
  writeFileSync(join(folder, "public", ".hidden"), "secret");
  writeFileSync(join(folder, "public", "index.html"), "<p>index</p>");
  writeFileSync(join(folder, "public", "sub", "index.html"), "<p>sub</p>");
  writeFileSync(join(folder, "public", "a b é.js"), "export {};");
  writeFileSync(join(folder, "public", "x.wasm"), Buffer.from([0, 0x61, 0x73, 0x6d]));
  symlinkSync(join(folder, "secret.txt"), join(folder, "public", "link.txt"));
  mkdirSync(join(folder, "other"));
  writeFileSync(join(folder, "other", "x.wasm"), "other");
  server = await serve({ roots: { "/": join(folder, "public"), "/other/": join(folder, "other") } });
});
after(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

// Not fetch: it tidies paths up before it sends them.
function ask(path, { method = "GET", headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port: server.port, path, method, headers }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk) => (body += chunk));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, body }));
    });
    sent.on("error", reject);
    sent.end();
  });
}

test("files come with their type, index.html stands for its folder, the longest prefix wins", async () => {
  const script = await ask("/a%20b%20%C3%A9.js?v=1");
  assert.deepEqual([script.status, script.headers["content-type"], script.body], [200, "text/javascript; charset=utf-8", "export {};"]);
  assert.equal((await ask("/x.wasm")).headers["content-type"], "application/wasm");
  assert.equal((await ask("/other/x.wasm")).body, "other");
  assert.equal((await ask("/")).body, "<p>index</p>");
  assert.equal((await ask("/sub/")).body, "<p>sub</p>");
  const moved = await ask("/sub");
  assert.deepEqual([moved.status, moved.headers.location], [301, "/sub/"]);
});

test("nothing outside of the folders is given out", async () => {
  for (const path of [
    "/../secret.txt",
    "/%2e%2e/secret.txt",
    "/..%2fsecret.txt",
    "/sub/../../secret.txt",
    "/sub/..%2f..%2fsecret.txt",
    "/..%5csecret.txt",
    "/../public-too/secret.txt",
    "/other/../secret.txt",
    "/link.txt",
    "/.hidden",
    "//etc/passwd",
    "/%00",
    "/x.wasm%00.js",
    "/%E0%A4%A",
    "/x.wasm/",
    "/x.wasm/y",
    `/${"a".repeat(5000)}`,
    "/nothing",
    "/__proto__",
    "*",
    "http://127.0.0.1/",
  ]) {
    const answer = await ask(path);
    assert.ok(answer.status === 404 || answer.status === 400, `${path}: ${answer.status}`);
    assert.equal(answer.headers["content-type"], "text/plain; charset=utf-8");
    assert.ok(!answer.body.includes("secret"), path);
  }
});

test("every answer carries the policy, none the headers of cross-origin isolation", async () => {
  const etag = (await ask("/x.wasm")).headers.etag;
  for (const [path, options, status] of [
    ["/x.wasm", {}, 200],
    ["/x.wasm", { headers: { "If-None-Match": etag } }, 304],
    ["/sub", {}, 301],
    ["/%", {}, 400],
    ["/nothing", {}, 404],
    ["/", { method: "POST" }, 405],
  ]) {
    const answer = await ask(path, options);
    assert.equal(answer.status, status, path);
    assert.equal(answer.headers["content-security-policy"], strictPolicy);
    assert.equal(answer.headers["x-content-type-options"], "nosniff");
    assert.equal(answer.headers["cache-control"], "no-cache");
    assert.equal(answer.headers["cross-origin-opener-policy"], undefined);
    assert.equal(answer.headers["cross-origin-embedder-policy"], undefined);
  }
});

test("a file is sent again only when its content changed", async () => {
  const path = join(folder, "public", "changing.js");
  writeFileSync(path, "1");
  const { etag } = (await ask("/changing.js")).headers;
  const conditional = (value) => ask("/changing.js", { headers: { "If-None-Match": value } });
  for (const value of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) assert.deepEqual([(await conditional(value)).status, (await conditional(value)).body], [304, ""]);
  assert.equal((await conditional('"other"')).status, 200);
  writeFileSync(path, "2");
  assert.equal((await conditional(etag)).body, "2");
});

test("HEAD answers without a body, other methods are refused", async () => {
  const head = await ask("/x.wasm", { method: "HEAD" });
  assert.deepEqual([head.status, head.headers["content-length"], head.body], [200, "4", ""]);
  for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
    const answer = await ask("/x.wasm", { method });
    assert.deepEqual([answer.status, answer.headers.allow], [405, "GET, HEAD"]);
  }
});

test("a taken port is an error, and close() does not wait for open connections", async () => {
  await assert.rejects(serve({ roots: {}, port: server.port }), { code: "EADDRINUSE" });
  const other = await serve({ roots: { "/": folder }, csp: "default-src 'self'" });
  const response = await fetch(new URL("secret.txt", other.url)); // kept alive by fetch
  assert.equal(response.headers.get("content-security-policy"), "default-src 'self'");
  await other.close();
  await assert.rejects(fetch(other.url));
});
