// `npm run bench`: runkeep beside what people would use instead, natively and in a browser, in one run. Prints a table and what is aimed at, and
// writes both to target/bench.json. `native`, `browser` or `size` for a part; `--quick` for a smaller run, whose figures only show that it works.
// RUNKEEP_ROUNDS (5) says how many rounds each figure is the median of.
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join, relative } from "node:path";
import { build } from "../scripts/build.mjs";
import { Failure, main, root, say, targetDir } from "../scripts/run.mjs";
import { setup } from "../scripts/setup.mjs";
import { browser, sizes } from "./browser.mjs";
import { native } from "./native.mjs";

const parts = { native, browser, size: sizes };

await main(async () => {
  const words = process.argv.slice(2);
  const quick = words.includes("--quick");
  const named = words.filter((word) => word !== "--quick");
  const unknown = named.filter((word) => !Object.hasOwn(parts, word));
  if (unknown.length > 0) throw new Failure(`There is no part ${unknown.join(", ")}; there are: ${Object.keys(parts).join(", ")}, and --quick.`);
  const rounds = Number(process.env.RUNKEEP_ROUNDS ?? 5);

  const all = { at: new Date().toISOString(), node: process.version, cpu: cpus()[0]?.model, cores: cpus().length, rounds, quick, records: [], targets: [] };
  const wanted = Object.keys(parts).filter((name) => named.length === 0 || named.includes(name));
  await setup({ browser: wanted.includes("browser") });
  if (wanted.some((name) => name !== "native")) await build();
  for (const name of wanted) {
    const { records, targets } = await parts[name]({ rounds, quick, say });
    all.records.push(...records);
    all.targets.push(...targets);
  }
  say(`\n${table(all)}`);
  const path = join(targetDir, "bench.json");
  writeFileSync(path, `${JSON.stringify(all, null, 1)}\n`);
  say(`\nalso in ${relative(root, path)}`);
});

function table({ records, targets }) {
  const columns = ["where", "work", "rows", "synchronous", "engine", "unit", "median", "min", "max", "runs", "note"];
  const lines = [columns, ...records.map((record) => columns.map((column) => figure(record[column] ?? "")))];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => line[at].length)));
  const isNumber = (at) => at > 5 && at < 10;
  const rows = lines.map((line) => line.map((cell, at) => (isNumber(at) ? cell.padStart(widths[at]) : cell.padEnd(widths[at]))).join("  ").trimEnd());
  const width = Math.max(...targets.map(({ name }) => name.length));
  const aims = targets.map(({ name, value, limit, holds }) => `${name.padEnd(width)}  ${figure(value).padStart(8)}  ${String(limit).padEnd(8)} ${holds ? "holds" : "MISSED"}`);
  return [...rows, "", ...aims].join("\n");
}

function figure(value) {
  return String(typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value);
}
