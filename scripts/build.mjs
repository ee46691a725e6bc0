// Builds dist/: the crate as WebAssembly, the package's JavaScript and types, and the console.
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, extname, join, relative } from "node:path";
import { brotliCompressSync } from "node:zlib";
import { capture, Failure, isMain, main, mustRun, root, say, seconds, targetDir } from "./run.mjs";
import { wasmBindgen, wasmTarget } from "./setup.mjs";

const minute = 60_000;
const dist = join(root, "dist");
const wasmDir = join(targetDir, "wasm");

// Rust's own library is compiled with the crate, for size and without the texts of panics, which nobody would see: a panic ends a worker in
// either case. The options are not stable yet; the variable has the stable compiler take them. SHA-256 is compiled as a loop.
const forSize = {
  args: ["-Z", "build-std=std,panic_abort", "-Z", "build-std-features=optimize_for_size"],
  env: {
    RUSTC_BOOTSTRAP: "1",
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS: '-Zunstable-options -Cpanic=immediate-abort --cfg sha2_backend_soft="compact"',
  },
};

/** `jsOnly` takes the WebAssembly of the last build. */
export async function build({ jsOnly = false } = {}) {
  if (jsOnly) {
    if (!existsSync(join(wasmDir, "runkeep.wasm"))) throw new Failure("There is no WebAssembly yet to go with --js-only: run `npm run build` first.");
  } else {
    await buildWasm();
  }
  await buildPackage();
}

async function buildWasm() {
  await step("crate to wasm32", () =>
    mustRun("cargo", ["build", "--profile", "wasm", "--lib", "--target", wasmTarget, ...forSize.args, ...(process.env.CI ? ["--locked"] : [])], {
      log: "build-crate",
      env: forSize.env,
      deadlineMs: 30 * minute,
    }),
  );
  const input = join(targetDir, wasmTarget, "wasm", "runkeep.wasm");
  const output = join(wasmDir, "runkeep.wasm");
  const stamp = join(wasmDir, "input.sha256");
  // The glue would otherwise name a default address of the .wasm, which the bundlers of our users then look for.
  const bindgenArgs = ["--target", "web", "--out-name", "runkeep", "--omit-default-module-path"];
  // The features are in the module itself. Inlining makes the module smaller, but not what is downloaded: brotli has the copies of a function
  // that stay whole for nearly nothing (7 % less than with it), and browsers inline by themselves.
  const optArgs = ["-Oz", "--one-caller-inline-max-function-size=1", "--always-inline-max-function-size=1"];
  // The stack lies lowest in memory, so that no data is at the first kilobyte.
  optArgs.push("--low-memory-unused");
  // Functions of like names are alike, and brotli does better where they are neighbours.
  optArgs.push("--reorder-functions-by-name");
  const tools = [capture(wasmBindgen, ["--version"]), installedVersion("binaryen"), bindgenArgs, optArgs];
  const hash = createHash("sha256").update(JSON.stringify(tools)).update(readFileSync(input)).digest("hex");
  if (existsSync(output) && existsSync(stamp) && readFileSync(stamp, "utf8") === hash) return;

  rmSync(wasmDir, { recursive: true, force: true });
  await step("wasm-bindgen", () => mustRun(wasmBindgen, [...bindgenArgs, "--out-dir", wasmDir, input], { log: "build-wasm-bindgen", deadlineMs: 10 * minute }));
  await step("wasm-opt", () =>
    mustRun(process.execPath, [join(root, "node_modules", "binaryen", "bin", "wasm-opt"), ...optArgs, join(wasmDir, "runkeep_bg.wasm"), "-o", output], {
      log: "build-wasm-opt",
      deadlineMs: 20 * minute,
    }),
  );
  const bytes = readFileSync(output);
  say(`       runkeep.wasm: ${kilobytes(bytes)} raw, ${kilobytes(brotliCompressSync(bytes))} in brotli`);
  writeFileSync(stamp, hash);
}

async function buildPackage() {
  for (const source of ["client/index.ts", "client/testing.ts", "host/worker.ts", "console/main.tsx", "console/index.html"]) {
    if (!existsSync(join(root, "www", source))) throw new Failure(`www/${source} is missing`);
  }
  const types = join(targetDir, "types");
  // All of it is made before dist is touched: after an error the last good one is still there.
  const [declarations, ...files] = await step("package and console", async () => {
    rmSync(types, { recursive: true, force: true });
    await mustRun(process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), "-p", "tsconfig.types.json", "--outDir", types], {
      log: "build-types",
      deadlineMs: 5 * minute,
    });
    return [reachable(types, ["client/index.d.ts", "client/testing.d.ts"]), ...(await bundlePackage()), ...(await bundleConsole())];
  });
  rmSync(dist, { recursive: true, force: true });
  for (const path of declarations) cpSync(join(types, path), join(dist, "types", path));
  cpSync(join(wasmDir, "runkeep.wasm"), join(dist, "runkeep.wasm"));
  // What the console's page names besides its script: styles, pictures, the sample.
  cpSync(join(root, "www", "console"), join(dist, "console"), { recursive: true, filter: (path) => ![".ts", ".tsx"].includes(extname(path)) });
  for (const { path, contents } of files) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, contents);
  }
}

/** The declarations that the entries lead to: those of the inner parts are nobody's business, and name files that are not published. */
function reachable(folder, entries) {
  const found = new Set();
  for (const todo = [...entries]; todo.length > 0; ) {
    const path = todo.pop();
    if (found.has(path)) continue;
    if (!existsSync(join(folder, path))) throw new Failure(`The package's types lead to ${path}, which is not among them.`);
    found.add(path);
    for (const [, specifier] of readFileSync(join(folder, path), "utf8").matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)) {
      todo.push(join(dirname(path), specifier.replace(/\.js$/, ".d.ts")));
    }
  }
  return [...found];
}

async function bundlePackage() {
  const common = { sourcemap: "linked", external: ["node:*"], platform: "neutral", outdir: dist };
  return [
    // Shared chunks, so that both entries have the same error class. They lie beside the entries: import.meta.url leads to worker and wasm from each.
    ...(await bundle({ ...common, entryPoints: ["www/client/index.ts", "www/client/testing.ts"], splitting: true, chunkNames: "chunk-[hash]" })),
    ...(await bundle({ ...common, entryPoints: ["www/host/worker.ts"] })),
  ];
}

async function bundleConsole() {
  // The console is a user of the package like any other: it loads the built one, which is served beside it.
  const usePackage = {
    name: "use-package",
    setup: ({ onResolve }) =>
      onResolve({ filter: /^runkeep(\/testing)?$/ }, ({ path }) => ({
        path: path === "runkeep" ? "./runkeep/index.js" : "./runkeep/testing.js",
        external: true,
      })),
  };
  return bundle({ entryPoints: ["www/console/main.tsx"], outdir: join(dist, "console"), platform: "browser", minify: true, sourcemap: "linked", plugins: [usePackage] });
}

async function bundle(options) {
  const esbuild = await import("esbuild");
  try {
    const result = await esbuild.build({
      absWorkingDir: root,
      bundle: true,
      format: "esm",
      target: "es2022",
      legalComments: "none",
      logLevel: "silent",
      write: false,
      // Tabs tell each other which version they run.
      define: { RUNKEEP_VERSION: JSON.stringify(JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version) },
      ...options,
    });
    if (result.warnings.length > 0) say((await esbuild.formatMessages(result.warnings, { kind: "warning" })).join("\n"));
    return result.outputFiles;
  } catch (error) {
    if (!error.errors) throw error;
    throw new Failure((await esbuild.formatMessages(error.errors, { kind: "error" })).join("\n"));
  }
}

async function step(what, work) {
  const started = performance.now();
  const result = await work();
  say(`build: ${what} (${seconds(performance.now() - started)})`);
  return result;
}

function installedVersion(name) {
  return JSON.parse(readFileSync(join(root, "node_modules", name, "package.json"), "utf8")).version;
}

function kilobytes(bytes) {
  return `${Math.round(bytes.length / 1024)} KiB`;
}

if (isMain(import.meta.url)) {
  await main(async () => {
    const unknown = process.argv.slice(2).filter((option) => option !== "--js-only");
    if (unknown.length > 0) throw new Failure(`unknown option ${unknown.join(" ")}; there is: --js-only`);
    await build({ jsOnly: process.argv.includes("--js-only") });
    say(`build: ${relative(root, dist)}/ is ready`);
  });
}
