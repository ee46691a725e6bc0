// Builds dist/: the crate as WebAssembly, the package's JavaScript and types, and the console.
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, extname, join, relative } from "node:path";
import { brotliCompressSync } from "node:zlib";
import { capture, Failure, isMain, main, mustRun, root, say, seconds, targetDir } from "./run.mjs";
import { wasmBindgen, wasmTarget } from "./setup.mjs";

const minute = 60_000;
const dist = join(root, "dist");
const wasmDir = join(targetDir, "wasm");

/**
 * What cargo compiles for browsers, and how. Rust's own library is compiled with the crate, for size and without the texts of panics, which
 * nobody would see: a panic ends a worker in either case. The options are not stable yet; the variable has the stable compiler take them.
 * SHA-256 is compiled as a loop.
 */
export const forBrowsers = {
  args: ["--lib", "--profile", "wasm", "--target", wasmTarget, "-Z", "build-std=std,panic_abort", "-Z", "build-std-features=optimize_for_size"],
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
    mustRun("cargo", ["build", ...forBrowsers.args, ...(process.env.CI ? ["--locked"] : [])], {
      log: "build-crate",
      env: forBrowsers.env,
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
  optArgs.push("--minify-imports-and-exports-and-modules");
  // What the names in the glue are is a matter of shortNames too.
  const tools = [capture(wasmBindgen, ["--version"]), installedVersion("binaryen"), bindgenArgs, optArgs, String(shortNames)];
  const hash = createHash("sha256").update(JSON.stringify(tools)).update(readFileSync(input)).digest("hex");
  if (existsSync(output) && existsSync(stamp) && readFileSync(stamp, "utf8") === hash) return;

  rmSync(wasmDir, { recursive: true, force: true });
  await step("wasm-bindgen", () => mustRun(wasmBindgen, [...bindgenArgs, "--out-dir", wasmDir, input], { log: "build-wasm-bindgen", deadlineMs: 10 * minute }));
  const optimized = await step("wasm-opt", () =>
    mustRun(process.execPath, [join(root, "node_modules", "binaryen", "bin", "wasm-opt"), ...optArgs, join(wasmDir, "runkeep_bg.wasm"), "-o", output], {
      log: "build-wasm-opt",
      deadlineMs: 20 * minute,
    }),
  );
  const glue = join(wasmDir, "runkeep.js");
  writeFileSync(glue, shortNames(readFileSync(glue, "utf8"), optimized.output()));
  const bytes = readFileSync(output);
  say(`       runkeep.wasm: ${kilobytes(bytes)} raw, ${kilobytes(brotliCompressSync(bytes))} in brotli`);
  writeFileSync(stamp, hash);
}

/**
 * The glue with the names that wasm-opt has given to what the WebAssembly imports and exports. Those of wasm-bindgen have hashes, which nothing
 * compresses: they were a tenth of the worker's script.
 */
function shortNames(glue, optimizerLog) {
  const { imports, exports } = JSON.parse(/^\{[^]*^\}/m.exec(optimizerLog)[0]);
  const short = { import: new Map(imports.map(([, name, short]) => [name, short])), export: new Map(exports) };
  const nameOf = (kind, name) => {
    if (!short[kind].has(name)) throw new Failure(`The glue has an ${kind} ${name}, which the WebAssembly has not.`);
    return short[kind].get(name);
  };
  let count = 0;
  const renamed = glue
    .replace(/^( {8})(__wb\w+)(?=: function\()/gm, (_, indent, name) => `${indent}${(count++, nameOf("import", name))}`)
    .replace(/(?<=\bwasm\.)\w+/g, (name) => nameOf("export", name))
    .replace('"./runkeep_bg.js": import0', "a: import0");
  if (count !== imports.length || renamed.includes("runkeep_bg.js")) throw new Failure("The glue has another form than is known: see shortNames in scripts/build.mjs.");
  return renamed;
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
  const common = { sourcemap: "linked", external: ["node:*"], platform: "neutral", outdir: dist, minifySyntax: true, minifyIdentifiers: true };
  // The host for where there are no browser workers takes its parts from worker.js, so that they are there once. Pages do not load it.
  const external = (filter, path) => ({
    name: `external ${path}`,
    setup: ({ onResolve }) => onResolve({ filter }, ({ kind }) => (kind === "entry-point" ? undefined : { path, external: true })),
  });
  return shrink([
    // One shared chunk, so that both entries have the same error class. It lies beside them: import.meta.url leads to worker and wasm from each.
    ...(await bundle({
      ...common,
      entryPoints: ["www/client/index.ts", "www/client/testing.ts"],
      splitting: true,
      chunkNames: "client",
      plugins: [external(/\/inline\.js$/, "./inline.js")],
    })),
    ...(await bundle({ ...common, entryPoints: ["www/host/worker.ts"], plugins: [trimGlue] })),
    ...(await bundle({ ...common, entryPoints: ["www/host/inline.ts"], plugins: [external(/^\.\/(boot|changes|host)\.js$/, "./worker.js")] })),
  ]);
}

/** Takes out of wasm-bindgen's glue what never runs here. A part that is not found any more fails the build. */
const trimGlue = {
  name: "trim-glue",
  setup: ({ onLoad, esbuild }) =>
    onLoad({ filter: /\/wasm\/runkeep\.js$/ }, async ({ path }) => {
      let glue = readFileSync(path, "utf8");
      const unneeded = {
        "the rendering of any value, where String() does": /^function debugString\(val\) \{[^]*?^\}\n/m,
        "help for browsers that cannot run the WebAssembly either": /^if \(!\('encodeInto' in cachedTextEncoder\)\) \{[^]*?^\}\n/m,
        "a way to pass strings that nothing takes": /^ {4}if \(realloc === undefined\) \{[^]*?^ {4}\}\n/m,
        "the end of an engine, which lives as long as its thread": /^ {8}EngineFinalization\..*\n/m,
        "the registry for it": /^const EngineFinalization = [^]*?;\n/m,
        "ways to free one": /^ {4}__destroy_into_raw\(\) \{[^]*?^ {4}\}\n {4}free\(\) \{[^]*?^ {4}\}\n/m,
        "one more of them": /^if \(Symbol\.dispose\) .*\n/m,
      };
      for (const [what, pattern] of Object.entries(unneeded)) {
        if (!pattern.test(glue)) throw new Error(`wasm-bindgen's glue does not have ${what}: see trimGlue in scripts/build.mjs.`);
        glue = glue.replace(pattern, "");
      }
      const define = { debugString: "String", global: "undefined", window: "undefined", self: "undefined" };
      const { code } = await esbuild.transform(glue, { define, drop: ["console"], sourcemap: "inline", sourcefile: path });
      return { contents: code };
    }),
};

/** Minified: the worker's script is loaded as it lies here. In brotli, what Terser makes of it is 4 % smaller than what esbuild alone makes. */
async function shrink(files) {
  const { minify } = await import("terser");
  const maps = new Map(files.filter(({ path }) => path.endsWith(".map")).map(({ path, text }) => [path, text]));
  const made = [];
  for (const { path, text } of files.filter(({ path }) => path.endsWith(".js"))) {
    const content = JSON.parse(maps.get(`${path}.map`));
    // An entry that only passes on what a chunk exports has none.
    const isMapped = content.sources.length > 0;
    const sources = new Map(content.sources.map((source, index) => [source, content.sourcesContent[index]]));
    const { code, map } = await minify(text, {
      module: true,
      ecma: 2020,
      // The glue's own.
      mangle: { properties: { regex: /^_+wbg_|^__wrap$/ } },
      compress: { passes: 2, sequences: false, unsafe_methods: true },
      // What bundlers shall leave alone.
      format: { comments: /webpackIgnore|@vite-ignore/ },
      sourceMap: isMapped && { content, url: `${basename(path)}.map`, asObject: true },
    });
    made.push({ path, contents: code });
    if (!isMapped) continue;
    // Terser leaves out what the sources hold.
    const sourcesContent = map.sources.map((source) => sources.get(source));
    made.push({ path: `${path}.map`, contents: JSON.stringify({ ...map, sourcesContent }) });
  }
  return made;
}

/** The scripts that a page and its worker load of the package that was built, as they are: index.js, whatever it imports, and worker.js. */
export function pageScripts() {
  const found = new Map();
  for (const todo = ["index.js", "worker.js"]; todo.length > 0; ) {
    const name = todo.pop();
    if (found.has(name)) continue;
    const bytes = readFileSync(join(dist, name));
    found.set(name, bytes);
    for (const [, next] of bytes.toString().matchAll(/(?:from|import)\s*"\.\/([^"]+\.js)"/g)) todo.push(next);
  }
  return found;
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
