import { callTitle, gist, type Description } from "./describe.js";
import { isObject, type Json, type JsonObject } from "./json.js";

/** Whether a record is one of a Claude Code session: those carry the session's id, or one of the shapes that do without. */
export function isClaude(record: JsonObject): boolean {
  if (typeof record.type !== "string") return false;
  if (typeof record.sessionId === "string") return true;
  switch (record.type) {
    case "user":
    case "assistant":
      return isObject(record.message);
    case "summary":
      return "leafUuid" in record;
    case "file-history-snapshot":
      return "snapshot" in record;
    default:
      return false;
  }
}

export function describeClaude(record: JsonObject): Description {
  const described = describeRecord(record);
  return record.isSidechain === true ? { ...described, title: `side chain: ${described.title}` } : described;
}

function describeRecord(record: JsonObject): Description {
  switch (record.type) {
    case "user":
      return describeUser(record);
    case "assistant":
      return describeAssistant(record);
    case "summary":
      return { kind: "meta", title: `summary: ${gist(record.summary)}` };
    case "system":
      return { kind: "meta", title: `system: ${gist(record.content ?? record.subtype)}` };
    case "file-history-snapshot":
      return { kind: "meta", title: "file history snapshot" };
    case "progress":
      return { kind: "meta", title: `progress: ${gist(isObject(record.data) ? record.data.type : undefined)}` };
    default:
      return { kind: "other", title: gist(record.type) || "a record without a type" };
  }
}

function describeUser(record: JsonObject): Description {
  const content = contentOf(record);
  if (typeof content === "string") return { kind: record.isMeta === true ? "meta" : "user", title: gist(content) };
  const blocks = blocksOf(content);
  const result = blocks.find((block) => block.type === "tool_result");
  if (result) {
    const text = typeof result.content === "string" ? result.content : textOf(blocksOf(result.content));
    const failed = result.is_error === true ? "failed: " : "";
    return { kind: "tool_result", title: `${failed}${gist(text) || "no output"}` };
  }
  if (blocks.length === 0) return { kind: "other", title: "user record without a message" };
  const images = blocks.filter((block) => block.type === "image").length;
  const title = gist(textOf(blocks)) || `${images} ${images === 1 ? "image" : "images"}`;
  return { kind: record.isMeta === true ? "meta" : "user", title };
}

function describeAssistant(record: JsonObject): Description {
  const content = contentOf(record);
  if (typeof content === "string") return { kind: "assistant", title: gist(content) };
  const blocks = blocksOf(content);
  const calls = blocks.filter((block) => block.type === "tool_use" || block.type === "server_tool_use");
  if (calls.length > 0) {
    return { kind: "tool_call", title: calls.map((call) => callTitle(call.name, call.input)).join(" · ") };
  }
  const text = textOf(blocks);
  if (text !== "") return { kind: "assistant", title: gist(text) };
  const thought = blocks.find((block) => block.type === "thinking" || block.type === "redacted_thinking");
  if (thought) return { kind: "reasoning", title: gist(thought.thinking) || "redacted" };
  return { kind: "other", title: "assistant record without a message" };
}

function contentOf(record: JsonObject): Json | undefined {
  return isObject(record.message) ? record.message.content : undefined;
}

function blocksOf(content: Json | undefined): JsonObject[] {
  return Array.isArray(content) ? content.filter(isObject) : [];
}

function textOf(blocks: JsonObject[]): string {
  return blocks
    .filter((block) => block.type === "text" && typeof block.text === "string")
    .map((block) => block.text as string)
    .join("\n");
}
