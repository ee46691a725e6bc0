// What `npm pack` makes is what users get: complete, importable anywhere, typed.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { brotliCompressSync } from "node:zlib";
import { pageScripts } from "../../scripts/build.mjs";
import { root } from "../../scripts/run.mjs";

let folder;
let files;
before(() => {
  folder = mkdtempSync(join(tmpdir(), "runkeep-package-"));
  const [packed] = JSON.parse(call("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], root));
  files = packed.files.map(({ path }) => path);
  const home = join(folder, "node_modules", "runkeep");
  mkdirSync(home, { recursive: true });
  call("tar", ["-xzf", join(folder, packed.filename), "-C", home, "--strip-components=1"], folder);
});
after(() => rmSync(folder, { recursive: true, force: true }));

function call(command, args, cwd) {
  const done = spawnSync(command, args, { cwd, encoding: "utf8", timeout: 60_000 });
  assert.equal(done.status, 0, `${command} ${args.join(" ")}\n${done.error ?? ""}${done.stdout}${done.stderr}`);
  return done.stdout;
}

test("the package holds what it is made of and nothing else", () => {
  const { exports, types } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const named = [types, ...Object.values(exports).flatMap((entry) => (typeof entry === "string" ? entry : Object.values(entry)))];
  for (const path of [...named.map((path) => path.replace(/^\.\//, "")), "README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]) {
    assert.ok(files.includes(path), `${path} is missing`);
  }
  const docs = call("git", ["ls-files", "docs"], root).trim().split("\n");
  for (const path of docs) assert.ok(files.includes(path), `${path} is missing`);
  const other = files.filter(
    (path) =>
      !/^dist\/(index|client|testing|worker|inline)\.js(\.map)?$/.test(path) &&
      !/^dist\/types\/[\w/-]+\.d\.ts$/.test(path) &&
      !["package.json", "README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "dist/runkeep.wasm", ...docs].includes(path),
  );
  assert.deepEqual(other, []);
});

test("the scripts that a page and its worker load are 20 KB at most, compressed", () => {
  const sizes = [...pageScripts()].map(([name, bytes]) => [name, brotliCompressSync(bytes).length]);
  const sum = sizes.reduce((sum, [, size]) => sum + size, 0);
  assert.ok(sum <= 20 * 1024, `${sum} bytes in brotli: ${sizes.map((size) => size.join(" ")).join(", ")}`);
});

test("importing it on a server does nothing, and its entries share one error class", () => {
  const script = `
    const before = Object.keys(globalThis).length;
    const main = await import("runkeep");
    const testing = await import("runkeep/testing");
    const store = await testing.openTestStore({ clock: testing.manualClock(0) });
    const error = await store.executions.setStatus("nothing", { status: "running" }).catch((error) => error);
    await store.close();
    console.log(JSON.stringify([Object.keys(globalThis).length - before, error instanceof main.RunkeepError, error.code]));`;
  assert.deepEqual(JSON.parse(call(process.execPath, ["--input-type=module", "-e", script], folder)), [0, true, "not_found"]);
  // It must also end by itself.
  assert.equal(call(process.execPath, ["--input-type=module", "-e", 'await import("runkeep"); await import("runkeep/testing");'], folder), "");
});

test("its types are complete, with either way of resolving modules and without Node's", () => {
  writeFileSync(
    join(folder, "user.ts"),
    `import { openStore, RunkeepError, type Execution } from "runkeep";
import { manualClock, openTestStore } from "runkeep/testing";
export async function use(): Promise<Execution | null> {
  const store = await openStore({ name: "types" });
  const created = await store.executions.create({ workflowId: "w" });
  for await (const event of store.events.list({ executionId: created.id })) console.log(event.sequence satisfies number);
  const test = await openTestStore({ clock: manualClock(0) });
  await test.close();
  // @ts-expect-error: a status that does not exist
  await store.executions.setStatus(created.id, { status: "nonsense" }).catch((error: unknown) => error instanceof RunkeepError && error.code);
  return store.executions.get(created.id);
}
`,
  );
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  for (const [module, moduleResolution] of [["ESNext", "Bundler"], ["NodeNext", "NodeNext"]]) {
    const compilerOptions = { module, moduleResolution, target: "ES2022", lib: ["ES2022", "ESNext.Disposable", "DOM", "DOM.AsyncIterable"], types: [], strict: true, noEmit: true, skipLibCheck: false };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["user.ts"] }));
    call(process.execPath, [tsc, "-p", folder], folder);
  }
});
