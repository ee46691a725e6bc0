//! Rollouts of Codex: records in envelopes `{timestamp, type, payload}`, or bare ones as in 2025.

use std::borrow::Cow;

use super::foreign;
use super::record::{Object, call_title, document, gist, object_of, quoted, text_of};
use super::sessions::{End, Import, NewItem, Record, hex, model_or_unknown, not_counted, prefixed};
use crate::error::Result;
use crate::ids::Name;
use crate::json::Json;
use crate::threads::import::{ImportedThread, record_usage};
use crate::threads::items::{ItemKind, ThreadItemStatus};
use crate::threads::usage::RecordUsage;

const PREFIX: &str = "codex";

/// Events that say again what an item says, or that this import reads.
const KNOWN_EVENTS: &[&str] = &[
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "token_count",
    "task_started",
    "task_complete",
    "turn_aborted",
    "context_compacted",
    "error",
];

/// The thread of a record that tells of which session it is: the header.
pub(super) fn begin(import: &Import<'_, '_>, object: &Object<'_>) -> Option<(Name, ImportedThread)> {
    let payload = object.object("payload");
    let header = match (object.text("type").as_deref(), &payload) {
        (Some("session_meta"), Some(payload)) => payload,
        (None, None) => object,
        _ => return None,
    };
    let id: Name = header.text("id")?.parse().ok()?;
    let own = header.text("timestamp").or_else(|| object.text("timestamp"));
    let at = own.and_then(|text| foreign::time(&text).ok()).filter(|at| *at >= 0).unwrap_or(import.tx.now);
    let instructions = header.object("base_instructions").and_then(|base| base.text("text"));
    let instructions = instructions.or_else(|| header.text("base_instructions")).or_else(|| header.text("instructions"));
    let rest = header.without(&["id", "cwd", "timestamp", "base_instructions", "instructions"]);
    let source = quoted("codex");
    let thread = ImportedThread {
        workspace: header.text("cwd").map(Cow::into_owned),
        system_prompt: instructions.map(Cow::into_owned),
        metadata: match rest {
            Some(rest) => super::sessions::with_member(Some(&rest), "importedFrom", &source).ok(),
            None => document([("importedFrom", source.as_str())].into_iter()),
        },
        created_at: at,
        updated_at: at,
        ..ImportedThread::default()
    };
    Some((id, thread))
}

/// Imports one record. Answers what is wrong with one that could only be kept as an event.
pub(super) fn record(import: &mut Import<'_, '_>, record: &Record<'_>) -> Result<Option<String>> {
    let object = record.object;
    let kind = object.text("type");
    if let (Some(kind), Some(payload)) = (&kind, object.object("payload")) {
        match kind.as_ref() {
            "session_meta" => {
                header(import, &payload)?;
                import.event(record, PREFIX, kind)?;
            }
            "turn_context" => {
                let mut problem = None;
                if let Some(told) = payload.text("model") {
                    let tx = import.tx;
                    let model;
                    (model, problem) = super::sessions::model("payload.model", Some(&told));
                    if record.is_new && import.state.model.is_none() {
                        import.conversation()?.complete(tx, model.as_deref(), None)?;
                    }
                    import.state.model = model;
                }
                import.event(record, PREFIX, kind)?;
                return Ok(problem);
            }
            "compacted" => compacted(import, record, &payload)?,
            "response_item" => item(import, record, &payload, false)?,
            "event_msg" => return event(import, record, &payload),
            other => {
                import.count_unknown(other);
                import.event(record, PREFIX, other)?;
            }
        }
        return Ok(None);
    }
    match kind {
        None if object.raw("id").is_some() => {
            header(import, object)?;
            import.event(record, PREFIX, "session_meta")?;
        }
        None => match object.text("record_type") {
            Some(kind) => import.event(record, PREFIX, &kind)?,
            None => {
                import.event(record, PREFIX, "record")?;
                return Ok(Some("a record without a type; it was kept as an event of the thread".to_owned()));
            }
        },
        Some(_) => item(import, record, object, true)?,
    }
    Ok(None)
}

/// A fork repeats its parent's header, and its parent's responses, which are not counted again.
fn header(import: &mut Import<'_, '_>, header: &Object<'_>) -> Result<()> {
    let root = ["forked_from_id", "id"].iter().find_map(|name| header.text(name)?.parse().ok());
    import.state.counted_as = root.or(import.state.counted_as.take());
    if import.state.provider.is_none() {
        import.state.provider = header.text("model_provider").and_then(|provider| provider.parse().ok());
    }
    Ok(())
}

fn event(import: &mut Import<'_, '_>, record: &Record<'_>, payload: &Object<'_>) -> Result<Option<String>> {
    let mut problem = None;
    let kind = payload.text("type").unwrap_or(Cow::Borrowed("event"));
    match kind.as_ref() {
        "user_message" => {
            let text = payload.text("message").unwrap_or_default();
            prompt(import, record, &text, payload.without(&["type", "message"]))?;
            return Ok(None);
        }
        "token_count" => problem = usage(import, record, payload)?,
        "task_complete" => {
            if let Some(turn) = &mut import.state.turn {
                turn.ends_as = turn.ends_as.or(Some(End::Completed));
                turn.at = turn.at.max(record.at);
            }
        }
        "turn_aborted" => {
            if let Some(turn) = &mut import.state.turn {
                turn.ends_as = Some(End::Interrupted);
                turn.error = payload.text("reason").as_deref().map(beginning);
                turn.at = turn.at.max(record.at);
            }
        }
        "error" => {
            let text = payload.text("message").map(Cow::into_owned).unwrap_or_default();
            let turn = import.turn(record)?;
            turn.ends_as = Some(End::Failed);
            turn.error = Some(beginning(&text));
            let item = NewItem {
                id: item_id(import, record)?,
                kind: ItemKind::Error,
                status: ThreadItemStatus::Failed,
                summary: gist(&text),
                text,
                data: payload.without(&["type", "message"]),
                metadata: None,
            };
            import.item(record, item)?;
            return Ok(None);
        }
        _ => {}
    }
    if !KNOWN_EVENTS.contains(&kind.as_ref()) {
        import.count_unknown(&kind);
    }
    import.event(record, PREFIX, &kind)?;
    Ok(problem)
}

/// What a turn says of its error. The state holds it until the turn ends; the whole text is in an item or an event.
fn beginning(text: &str) -> String {
    text[..text.floor_char_boundary(4096)].to_owned()
}

fn prompt(import: &mut Import<'_, '_>, record: &Record<'_>, text: &str, data: Option<Json>) -> Result<()> {
    import.open_turn(record, text, None)?;
    import.title_of_prompt(record, text)?;
    let item = NewItem {
        id: item_id(import, record)?,
        kind: ItemKind::UserMessage,
        status: ThreadItemStatus::Completed,
        summary: gist(text),
        text: text.to_owned(),
        data,
        metadata: None,
    };
    import.item(record, item)
}

fn compacted(import: &mut Import<'_, '_>, record: &Record<'_>, payload: &Object<'_>) -> Result<()> {
    let text = payload.text("message").map(Cow::into_owned).unwrap_or_default();
    let item = NewItem {
        id: item_id(import, record)?,
        kind: ItemKind::ContextCompaction,
        status: ThreadItemStatus::Completed,
        summary: gist(&text),
        text,
        data: payload.without(&["message"]),
        metadata: None,
    };
    import.item(record, item)
}

/// A response item. In an envelope, a person's message follows as an event, without what the program puts around it.
fn item(import: &mut Import<'_, '_>, record: &Record<'_>, item: &Object<'_>, is_bare: bool) -> Result<()> {
    let kind = item.text("type").unwrap_or(Cow::Borrowed("item"));
    match kind.as_ref() {
        "message" => {
            let text = text_in(item, "content");
            match item.text("role").as_deref() {
                Some("assistant") => said(import, record, item, ItemKind::AssistantMessage, text, &["type", "role", "content"]),
                Some("user") if is_bare && !is_of_the_program(&text) => {
                    let goes_on = import.state.turn.as_ref().is_some_and(|turn| !turn.is_answered) && !import.waits();
                    if goes_on {
                        return said(import, record, item, ItemKind::UserMessage, text, &["type", "role", "content"]);
                    }
                    prompt(import, record, &text, item.without(&["type", "role", "content"]))
                }
                _ => import.event(record, PREFIX, "message"),
            }
        }
        "reasoning" => {
            let texts = [text_in(item, "summary"), text_in(item, "content")];
            let text = texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
            said(import, record, item, ItemKind::Reasoning, text, &["type", "summary", "content"])
        }
        kind if kind.ends_with("_call") => call(import, record, item, kind),
        kind if kind.ends_with("_call_output") => {
            let call = item.text("call_id").unwrap_or_else(|| Cow::Owned(hex(&record.mark)));
            let output = item.raw("output").map_or("null", |output| output.get());
            import.result(record, 0, &call, output, has_failed(item), item.without(&["type", "call_id", "output"]))
        }
        kind => {
            import.count_unknown(kind);
            import.event(record, PREFIX, kind)
        }
    }
}

fn said(
    import: &mut Import<'_, '_>,
    record: &Record<'_>,
    item: &Object<'_>,
    kind: ItemKind,
    text: String,
    without: &[&str],
) -> Result<()> {
    let turn = import.turn(record)?;
    turn.is_answered = kind == ItemKind::AssistantMessage;
    let item = NewItem {
        id: item_id(import, record)?,
        kind,
        status: ThreadItemStatus::Completed,
        summary: gist(&text),
        text,
        data: None,
        metadata: item.without(without),
    };
    import.item(record, item)
}

fn call(import: &mut Import<'_, '_>, record: &Record<'_>, item: &Object<'_>, kind: &str) -> Result<()> {
    let name = match item.text("name") {
        Some(name) => name,
        None => Cow::Borrowed(kind.trim_end_matches("_call")),
    };
    let of = match name.as_ref() {
        "shell" | "local_shell" | "exec_command" | "write_stdin" | "shell_command" | "container.exec" => {
            ItemKind::CommandExecution
        }
        "apply_patch" => ItemKind::FileChange,
        _ => ItemKind::ToolCall,
    };
    // Arguments are JSON inside a string, when they are JSON at all.
    let written = item.text("arguments");
    let parsed = written.as_ref().and_then(|text| Json::parse(text.as_ref()).ok());
    let input = match &parsed {
        Some(input) => input.as_str(),
        None => ["arguments", "input", "action"].iter().find_map(|name| item.raw(name)).map_or("null", |raw| raw.get()),
    };
    let title = call_title(&name, serde_json::from_str::<Object<'_>>(input).ok().as_ref());
    let call = item.text("call_id").or_else(|| item.text("id"));
    let id = match &call {
        Some(call) => import.id(&["call", call])?,
        None => item_id(import, record)?,
    };
    let turn = import.turn(record)?;
    // What the provider runs by itself comes with its end.
    let is_done = item.raw("call_id").is_none();
    turn.is_answered = false;
    if let (Some(call), false) = (&call, is_done) {
        import.called(call);
    }
    let (tool, call) = (quoted(&name), quoted(call.as_deref().unwrap_or_default()));
    let item = NewItem {
        id,
        kind: of,
        status: if is_done { ThreadItemStatus::Completed } else { ThreadItemStatus::InProgress },
        summary: title,
        text: String::new(),
        data: document([("tool", tool.as_str()), ("callId", call.as_str()), ("input", input)].into_iter()),
        metadata: item.without(&["type", "name", "call_id", "arguments", "input", "action"]),
    };
    import.item(record, item)
}

fn item_id(import: &Import<'_, '_>, record: &Record<'_>) -> Result<Name> {
    import.id(&[&hex(&record.mark)])
}

/// Whether a call's output tells of an exit code that is none of success.
fn has_failed(item: &Object<'_>) -> bool {
    let Some(output) = item.text("output") else { return false };
    let Ok(output) = serde_json::from_str::<Object<'_>>(&output) else { return false };
    output.object("metadata").and_then(|metadata| metadata.integer("exit_code")).is_some_and(|code| code != 0)
}

/// What the program says in a person's place.
fn is_of_the_program(text: &str) -> bool {
    ["<environment_context>", "<user_instructions>", "<turn_aborted>"].iter().any(|tag| text.trim_start().starts_with(tag))
}

fn text_in(item: &Object<'_>, name: &str) -> String {
    if let Some(text) = item.text(name) {
        return text.into_owned();
    }
    let parts = item.list(name).unwrap_or_default();
    let texts = parts.into_iter().filter_map(|part| text_of(part).or_else(|| object_of(part)?.text("text")).map(Cow::into_owned));
    texts.collect::<Vec<_>>().join("\n")
}

/// Totals run through the whole session, and are repeated: what has been used since the last is a response.
fn usage(import: &mut Import<'_, '_>, record: &Record<'_>, payload: &Object<'_>) -> Result<Option<String>> {
    let Some(info) = payload.object("info") else { return Ok(None) };
    let Some(total) = info.object("total_token_usage") else { return Ok(None) };
    let before = import.state.used;
    let mut used = [0; 4];
    let mut now = before;
    let names = ["input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens"];
    for (at, name) in names.into_iter().enumerate() {
        match total.tokens(name) {
            Ok(tokens) => now[at] = before[at].max(tokens.unwrap_or(0)),
            Err(error) => return Ok(Some(not_counted(&error))),
        }
        used[at] = now[at] - before[at];
    }
    import.state.used = now;
    if used == [0; 4] {
        return Ok(None);
    }
    let [input_tokens, cached, output_tokens, reasoning] = used;
    let (last, problem) = match info.object("last_token_usage").map(|last| last.tokens("input_tokens")).transpose() {
        Ok(last) => (last.flatten(), None),
        Err(error) => (None, Some(format!("last_token_usage: {}", error.message()))),
    };
    let counted_as = import.state.counted_as.as_ref().or(import.state.thread.as_ref()).map_or("", Name::as_str);
    let [of_input, of_cached, of_output, of_reasoning] = now;
    let response_id = prefixed(PREFIX, &format!("{counted_as}:{of_input}-{of_cached}-{of_output}-{of_reasoning}"))?;
    let (model, provider) = (import.state.model.clone(), import.state.provider.clone());
    let turn = import.turn(record)?;
    turn.last_input = last.or(turn.last_input);
    let turn_id = turn.id.clone();
    if record.is_new {
        let given = RecordUsage {
            turn_id,
            response_id,
            model: model_or_unknown(model)?,
            provider,
            input_tokens,
            output_tokens,
            cache_read_tokens: Some(cached.min(input_tokens)),
            reasoning_tokens: Some(reasoning),
            created_at: Some(record.at),
            ..RecordUsage::default()
        };
        record_usage(import.tx, given)?;
    }
    Ok(problem)
}
