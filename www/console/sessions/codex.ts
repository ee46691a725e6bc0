import { callTitle, gist, type Description } from "./describe.js";
import { isObject, type Json, type JsonObject } from "./json.js";

const ENVELOPES = new Set(["session_meta", "response_item", "event_msg", "turn_context", "compacted"]);

/** A record of a Codex rollout as written since autumn 2025: `{timestamp, type, payload}`. */
export function isCodex(record: JsonObject): boolean {
  return typeof record.type === "string" && ENVELOPES.has(record.type) && isObject(record.payload);
}

/** A record of an older Codex rollout: the response items stand bare, after a header without a type. */
export function isBareCodex(record: JsonObject): boolean {
  switch (record.type) {
    case undefined:
      return typeof record.record_type === "string" || ("instructions" in record && typeof record.timestamp === "string");
    case "message":
      return typeof record.role === "string" && Array.isArray(record.content);
    case "reasoning":
      return Array.isArray(record.summary);
    case "function_call":
    case "function_call_output":
    case "local_shell_call":
    case "custom_tool_call":
    case "custom_tool_call_output":
      return typeof record.call_id === "string";
    default:
      return false;
  }
}

export function describeCodex(record: JsonObject): Description {
  const payload = isObject(record.payload) ? record.payload : undefined;
  switch (record.type) {
    case "session_meta":
      return { kind: "meta", title: `session started in ${gist(payload?.cwd) || "an unnamed folder"}` };
    case "turn_context":
      return { kind: "meta", title: `turn context: ${gist(payload?.model) || "no model named"}` };
    case "compacted":
      return { kind: "meta", title: `compacted: ${gist(payload?.message)}` };
    case "event_msg":
      return { kind: "meta", title: eventTitle(payload) };
    case "response_item":
      return payload ? describeItem(payload) : { kind: "other", title: "response item without a payload" };
    default:
      return { kind: "other", title: gist(record.type) || "a record without a type" };
  }
}

export function describeBareCodex(record: JsonObject): Description {
  if (record.type !== undefined) return describeItem(record);
  if (typeof record.record_type === "string") return { kind: "meta", title: gist(record.record_type) };
  return "instructions" in record
    ? { kind: "meta", title: "session started" }
    : { kind: "other", title: "a record without a type" };
}

/** Codex tells its interface of what it also records as an item, so an event is a remark beside the conversation. */
function eventTitle(payload: JsonObject | undefined): string {
  const text = gist(payload?.message ?? payload?.text ?? payload?.last_agent_message);
  return [gist(payload?.type) || "event", text].filter((part) => part !== "").join(": ");
}

function describeItem(item: JsonObject): Description {
  const type = typeof item.type === "string" ? item.type : "";
  switch (type) {
    case "message": {
      const title = gist(textOf(item.content)) || "no text";
      if (item.role === "user" || item.role === "assistant") return { kind: item.role, title };
      return { kind: "meta", title: `${gist(item.role)}: ${title}` };
    }
    case "reasoning":
      return { kind: "reasoning", title: gist(textOf(item.summary)) || "encrypted" };
    case "function_call":
      return { kind: "tool_call", title: callTitle(item.name, parsed(item.arguments)) };
    case "local_shell_call":
      return { kind: "tool_call", title: callTitle("shell", item.action) };
  }
  if (type.endsWith("_call")) return { kind: "tool_call", title: callTitle(item.name ?? type, item.input ?? item.action) };
  if (type.endsWith("_output")) return { kind: "tool_result", title: gist(outputOf(item.output)) || "no output" };
  return { kind: "other", title: gist(type) };
}

function textOf(content: Json | undefined): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => (isObject(part) && typeof part.text === "string" ? part.text : "")).join("\n");
}

/** Arguments and outputs are JSON inside a string, when they are JSON at all. */
function parsed(text: Json | undefined): Json | undefined {
  if (typeof text !== "string") return text;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

function outputOf(output: Json | undefined): Json | undefined {
  const value = parsed(output);
  if (isObject(value)) return value.output ?? value.content ?? value;
  return Array.isArray(value) ? textOf(value) : output;
}
