import type { Json } from "./json.js";

/** What a recorded step is, whichever tool recorded it. `other` is a record of a kind unknown here: it is kept all the same. */
export type Kind = "user" | "assistant" | "reasoning" | "tool_call" | "tool_result" | "meta" | "other";

/** How one recorded step reads in a list: what it is, and its gist in one short line. */
export interface Description {
  kind: Kind;
  title: string;
}

const TITLE_LENGTH = 160;

/** The first line of a text that says something, short enough for a list. */
export function gist(text: Json | undefined): string {
  if (text === undefined || text === null) return "";
  const plain = typeof text === "string" ? text.slice(0, 4000) : JSON.stringify(text).slice(0, TITLE_LENGTH * 2);
  const line = plain.split(/[\r\n]+/).find((each) => each.trim() !== "") ?? "";
  const clean = line.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return clean.length > TITLE_LENGTH ? `${clean.slice(0, TITLE_LENGTH - 1).trimEnd()}…` : clean;
}

/** A tool's name with the argument that tells most. */
export function callTitle(name: Json | undefined, input: Json | undefined): string {
  const tool = typeof name === "string" && name !== "" ? name : "tool";
  return `${tool} ${gist(mainArgument(input))}`.trimEnd();
}

const TELLING = ["command", "cmd", "file_path", "pattern", "query", "url", "path", "description", "prompt", "input"];

function mainArgument(input: Json | undefined): Json | undefined {
  if (typeof input !== "object" || input === null || Array.isArray(input)) return input;
  for (const name of TELLING) {
    const value = input[name];
    if (typeof value === "string") return value;
    if (Array.isArray(value)) return value.every((part) => typeof part === "string") ? value.join(" ") : value;
  }
  return Object.keys(input).length > 0 ? input : undefined;
}
