// The console's modules as they can be imported here: TypeScript, bundled.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "esbuild";
import { root } from "../../scripts/run.mjs";

/** What modules under www/console export, taken together. */
export async function importConsole(...paths) {
  const folder = mkdtempSync(join(tmpdir(), "runkeep-console-"));
  process.once("exit", () => rmSync(folder, { recursive: true }));
  const outfile = join(folder, "console.mjs");
  await build({
    stdin: { contents: paths.map((path) => `export * from "./www/console/${path}";`).join("\n"), resolveDir: root },
    outfile,
    bundle: true,
    format: "esm",
    target: "es2022",
  });
  return import(pathToFileURL(outfile).href);
}
