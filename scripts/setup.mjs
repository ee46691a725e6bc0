// Finds what is missing to build and test runkeep and installs it. Only Node's own modules: it runs before `npm ci`.
import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { capture, Failure, findProgram, isExecutable, isMain, main, mustRun, root, say, seconds, targetDir } from "./run.mjs";

export const wasmTarget = "wasm32-unknown-unknown";
const minute = 60_000;
export const wasmBindgen = join(targetDir, "tools", "bin", "wasm-bindgen");

/**
 * Installs what is missing: `browser` and `lint` add what only the tests need. If something cannot be installed here (no root, no apt),
 * nothing is, and the failure lists every missing thing with its command.
 */
export async function setup({ browser = false, lint = false } = {}) {
  const needs = missing({ browser, lint });
  if (needs.length === 0) return;
  const apt = isRoot() && findProgram("apt-get") !== null;
  const installable = (need) => (need.packages ? apt : need.install !== undefined);
  if (!needs.every(installable)) throw new Failure(instructions(needs, installable));

  const packages = [...new Set(needs.flatMap((need) => need.packages ?? []))];
  if (packages.length > 0) {
    await step(`apt-get install ${packages.join(" ")}`, async () => {
      const env = { DEBIAN_FRONTEND: "noninteractive" };
      const wait = ["-o", "DPkg::Lock::Timeout=300"];
      await mustRun("apt-get", ["update"], { log: "apt", env, deadlineMs: 10 * minute });
      await mustRun("apt-get", [...wait, "install", "-y", "--no-install-recommends", ...packages], {
        log: "apt",
        append: true,
        env,
        deadlineMs: 20 * minute,
      });
    });
  }
  for (const need of needs) {
    if (need.install) await step(need.command, need.install);
  }
  const left = missing({ browser, lint });
  if (left.length > 0) throw new Failure(`Set-up ran, but this is still missing:\n\n${left.map(describe).join("\n")}`);
}

async function step(what, work) {
  const started = performance.now();
  say(`set-up: ${what}`);
  await work();
  say(`        done in ${seconds(performance.now() - started)}`);
}

function isRoot() {
  return process.getuid?.() === 0;
}

/** Each: `what` is missing; either Debian `packages`, or a `command` (with `install` if it is ours to run), or `advice`. */
function missing({ browser, lint }) {
  const needs = [];
  if (Number(process.versions.node.split(".")[0]) < 20) {
    needs.push({ what: `Node 20 or newer (this is ${process.version})`, advice: "install a current Node.js" });
  }
  if (findProgram("npm") === null) needs.push({ what: "npm", advice: "install npm (it comes with Node.js)" });
  needs.push(...missingRust({ lint }));
  if (findProgram("cc") === null) {
    needs.push({ what: "a C compiler and linker for this machine (cc)", packages: ["gcc", "libc6-dev"] });
  }
  // Whoever names a compiler for the target has one.
  if (!process.env.CC_wasm32_unknown_unknown && !/^\s*wasm32\b/m.test(capture("clang", ["--print-targets"]) ?? "")) {
    needs.push({ what: "clang with its wasm32 target, which compiles SQLite to WebAssembly", packages: ["clang"] });
  }
  if (browser && findChromium() === null) {
    needs.push({ what: "Chromium, for the browser tests (or set RUNKEEP_CHROMIUM to the path of one)", packages: ["chromium"] });
  }
  if (browser && findFirefox() === null) {
    needs.push({ what: "Firefox, for the browser tests (or set RUNKEEP_FIREFOX to the path of one)", packages: ["firefox-esr"] });
  }
  needs.push(...missingWasmBindgen(), ...missingNpmPackages());
  return needs;
}

function missingRust({ lint }) {
  // Right after its installation rustup is not yet on the PATH of the shells that are open.
  const cargoHome = join(process.env.CARGO_HOME ?? join(homedir(), ".cargo"), "bin");
  if (findProgram("cargo") === null && isExecutable(join(cargoHome, "cargo"))) {
    process.env.PATH = `${cargoHome}${delimiter}${process.env.PATH ?? ""}`;
  }
  const wanted = /^rust-version\s*=\s*"([^"]+)"/m.exec(readFileSync(join(root, "Cargo.toml"), "utf8"))?.[1] ?? "1";
  const version = /^rustc (\S+)/.exec(capture("rustc", ["--version"]) ?? "")?.[1];
  const usable = version !== undefined && findProgram("cargo") !== null;
  const rustup = !usable || findProgram("rustup") !== null;
  const add = (what, ...args) =>
    rustup
      ? {
          what,
          command: `rustup ${args.join(" ")}`,
          install: () => mustRun("rustup", args, { log: "rustup", append: true, deadlineMs: 15 * minute }),
        }
      : { what, advice: `install it with your Rust, or install rustup and run: rustup ${args.join(" ")}` };
  const needs = [];
  if (!usable) {
    needs.push({ what: `Rust ${wanted} or newer, with cargo`, advice: "install rustup, as rustup.rs tells, and open a new shell" });
  } else if (older(version, wanted)) {
    const what = `Rust ${wanted} or newer (this is ${version})`;
    // Not ours to run: it changes the user's toolchain for other projects too.
    needs.push(rustup ? { what, command: "rustup update stable" } : { what, advice: "install a newer Rust" });
  }
  const sysroot = capture("rustc", ["--print", "sysroot"])?.trim();
  const has = (...path) => sysroot !== undefined && existsSync(join(sysroot, "lib", "rustlib", ...path));
  if (!has(wasmTarget, "lib")) needs.push(add(`Rust's ${wasmTarget} target`, "target", "add", wasmTarget));
  // The build for the browser compiles it.
  if (!has("src", "rust", "library", "Cargo.lock")) needs.push(add("the source of Rust's own library", "component", "add", "rust-src"));
  for (const [component, subcommand] of lint ? [["rustfmt", "fmt"], ["clippy", "clippy"]] : []) {
    if (capture("cargo", [subcommand, "--version"]) === null) needs.push(add(component, "component", "add", component));
  }
  return needs;
}

function older(version, wanted) {
  const [a, b] = [version, wanted].map((text) => text.split(/[.-]/).slice(0, 3).map(Number));
  const differing = [0, 1, 2].find((i) => (a[i] || 0) !== (b[i] || 0));
  return differing !== undefined && (a[differing] || 0) < (b[differing] || 0);
}

// The generated glue and the crate must be of one version, so a wasm-bindgen of the system's will not do. Not --locked: the tool's own lock file
// names a crate that is no longer to be had.
function missingWasmBindgen() {
  const version = lockedVersion("wasm-bindgen");
  if (isExecutable(wasmBindgen) && capture(wasmBindgen, ["--version"])?.trim() === `wasm-bindgen ${version}`) return [];
  const args = ["install", "wasm-bindgen-cli", "--version", version, "--root", "target/tools"];
  const build = join(targetDir, "tools", "build");
  const install = async () => {
    await mustRun("cargo", [...args, "--force"], { log: "wasm-bindgen-cli", env: { CARGO_TARGET_DIR: build }, deadlineMs: 30 * minute });
    rmSync(build, { recursive: true, force: true });
  };
  return [{ what: `wasm-bindgen-cli ${version} in target/tools (once; takes some minutes)`, command: `cargo ${args.join(" ")}`, install }];
}

export function lockedVersion(crate) {
  const lock = readFileSync(join(root, "Cargo.lock"), "utf8");
  const version = new RegExp(`^name = "${crate}"\nversion = "([^"]+)"`, "m").exec(lock)?.[1];
  if (version === undefined) throw new Failure(`Cargo.lock does not name ${crate}`);
  return version;
}

function missingNpmPackages() {
  const installed = join(root, "node_modules", ".package-lock.json");
  const wanted = join(root, "package-lock.json");
  if (existsSync(installed) && statSync(installed).mtimeMs >= statSync(wanted).mtimeMs) return [];
  // No package here needs its install script, and what is not run cannot do harm.
  const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
  const install = () => mustRun("npm", args, { log: "npm", deadlineMs: 15 * minute });
  return [{ what: "the npm packages of package-lock.json", command: `npm ${args.join(" ")}`, install }];
}

/** The browsers of the tests: the program that a variable names, or one on PATH; null if there is none. */
export function findChromium() {
  return findBrowser("RUNKEEP_CHROMIUM", ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]);
}

export function findFirefox() {
  return findBrowser("RUNKEEP_FIREFOX", ["firefox-esr", "firefox"]);
}

function findBrowser(variable, names) {
  const named = process.env[variable];
  if (named) {
    if (!isExecutable(named)) throw new Failure(`${variable} is ${named}, which is no program`);
    return named;
  }
  for (const name of names) {
    const path = findProgram(name);
    if (path !== null) return path;
  }
  return null;
}

function describe(need) {
  return `  ${need.what}\n      ${how(need)}`;
}

function how(need) {
  if (need.packages) return aptCommand(need.packages);
  return need.command ?? need.advice;
}

function aptCommand(packages) {
  const names = packages.join(" ");
  if (findProgram("apt-get") === null) return `install with your system's package manager what Debian calls: ${names}`;
  return `${isRoot() ? "" : "sudo "}apt-get install -y ${names}`;
}

function instructions(needs, installable) {
  const yours = needs.filter((need) => !installable(need));
  const ours = needs.filter(installable);
  const packages = yours.flatMap((need) => need.packages ?? []);
  const text = ["These are missing and cannot be installed from here. Nothing was changed. Please install them and run the command again.", ""];
  for (const need of yours) text.push(describe(need));
  if (packages.length > 1 && findProgram("apt-get") !== null) text.push("", "The Debian packages in one go:", `      ${aptCommand(packages)}`);
  if (ours.length > 0) text.push("", "Missing too, but installed by the next run itself:", ...ours.map(describe));
  return text.join("\n");
}

if (isMain(import.meta.url)) {
  await main(async () => {
    const known = ["--browser", "--lint"];
    const unknown = process.argv.slice(2).filter((option) => !known.includes(option));
    if (unknown.length > 0) throw new Failure(`unknown option ${unknown.join(" ")}; there are: ${known.join(" ")}`);
    await setup({ browser: process.argv.includes("--browser"), lint: process.argv.includes("--lint") });
    say("set-up: nothing is missing");
  });
}
