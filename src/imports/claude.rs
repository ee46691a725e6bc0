//! Sessions of Claude Code: one record a line, of which users' and assistants' hold blocks of content.

use std::borrow::Cow;

use super::foreign;
use super::record::{MOST_TOKENS, Object, call_title, document, gist, json, name, object_of, quoted, text_of};
use super::sessions::{End, Import, NewItem, Record, hex, model, model_or_unknown, not_counted};
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::json::Json;
use crate::threads::import::{ImportedThread, record_usage};
use crate::threads::items::{ItemKind, ThreadItemStatus};
use crate::threads::usage::RecordUsage;

const PREFIX: &str = "claude";

/// Types that say something of the session, but are nothing that is said in it.
const KNOWN_EVENTS: &[&str] = &["system", "summary", "custom-title", "ai-title"];

/// The thread of a record that tells of which session it is.
pub(super) fn begin(import: &Import<'_, '_>, object: &Object<'_>) -> Option<(Name, ImportedThread)> {
    let id: Name = object.text("sessionId")?.parse().ok()?;
    let own = object.text("timestamp").and_then(|text| foreign::time(&text).ok()).filter(|at| *at >= 0);
    let at = own.unwrap_or(import.tx.now);
    // What the whole session has in common.
    let common = ["version", "gitBranch", "slug", "userType"];
    let members: Vec<(&str, &str)> = common.iter().filter_map(|name| Some((*name, object.raw(name)?.get()))).collect();
    let source = quoted("claude_code");
    let thread = ImportedThread {
        workspace: object.text("cwd").map(Cow::into_owned),
        metadata: document([("importedFrom", source.as_str())].into_iter().chain(members)),
        created_at: at,
        updated_at: at,
        ..ImportedThread::default()
    };
    Some((id, thread))
}

/// Imports one record. Answers what is wrong with one that could only be kept as an event.
pub(super) fn record(import: &mut Import<'_, '_>, record: &Record<'_>) -> Result<Option<String>> {
    let Some(kind) = record.object.text("type") else {
        import.event(record, PREFIX, "record")?;
        return Ok(Some("a record without a type; it was kept as an event of the thread".to_owned()));
    };
    match (kind.as_ref(), record.object.object("message")) {
        ("user", Some(message)) => user(import, record, &message)?,
        ("assistant", Some(message)) => return assistant(import, record, &message),
        ("user" | "assistant", None) => {
            import.event(record, PREFIX, &kind)?;
            return Ok(Some(format!("a record of the type {kind:?} without a message; it was kept as an event of the thread")));
        }
        ("system", _) if record.object.text("subtype").as_deref() == Some("compact_boundary") => compacted(import, record)?,
        (kind, _) => other(import, record, kind)?,
    }
    Ok(None)
}

/// A record whose uuid another one of the session has: what it says is said already, in other words.
pub(super) fn repeat(import: &mut Import<'_, '_>, record: &Record<'_>) -> Result<Option<String>> {
    let kind = record.object.text("type").unwrap_or(Cow::Borrowed("record"));
    import.event(record, PREFIX, &kind)?;
    let mut problem = None;
    if let ("assistant", Some(message)) = (kind.as_ref(), record.object.object("message")) {
        problem = usage(import, record, &message)?;
    }
    let said = "an earlier record has the same uuid and says something else; this one was kept as an event of the thread";
    Ok(Some(problem.map_or_else(|| said.to_owned(), |problem| format!("{said}; {problem}"))))
}

fn other(import: &mut Import<'_, '_>, record: &Record<'_>, kind: &str) -> Result<()> {
    let title = match kind {
        "summary" => record.object.text("summary"),
        "custom-title" => record.object.text("customTitle"),
        "ai-title" => record.object.text("aiTitle"),
        _ => None,
    };
    if let Some(title) = title.map(|title| gist(&title)).filter(|title| !title.is_empty()) {
        if record.is_new {
            let (tx, instead_of) = (import.tx, import.state.title.clone());
            import.conversation()?.entitle(tx, &title, instead_of.as_deref())?;
        }
        import.state.title = Some(title);
    }
    if !KNOWN_EVENTS.contains(&kind) {
        import.count_unknown(kind);
    }
    import.event(record, PREFIX, kind)
}

fn compacted(import: &mut Import<'_, '_>, record: &Record<'_>) -> Result<()> {
    let id = item_id(import, record, 0)?;
    let text = record.object.text("content").map(Cow::into_owned).unwrap_or_default();
    import.state.compaction = Some(id.clone());
    let item = NewItem {
        id,
        kind: ItemKind::ContextCompaction,
        status: ThreadItemStatus::Completed,
        summary: gist(&text),
        text,
        data: record.object.raw("compactMetadata").map(json).transpose()?,
        metadata: metadata(record, None, &["compactMetadata", "content"]),
    };
    import.item(record, item)
}

fn user(import: &mut Import<'_, '_>, record: &Record<'_>, message: &Object<'_>) -> Result<()> {
    let object = record.object;
    let blocks = blocks(message);
    if object.is_true("isCompactSummary") {
        return summary(import, record, &all_text(&blocks));
    }
    let mut rest = metadata(record, Some(message), &["message", "toolUseResult"]);
    // What an agent is asked begins a turn only where the file has nothing of the one that asks.
    let mut is_prompt = !object.is_true("isMeta") && (!record.is_side || import.state.turn.is_none());
    for (number, block) in blocks.iter().enumerate() {
        if block.kind == "tool_result" {
            let Some(of) = &block.object else { continue };
            let Some(call) = of.text("tool_use_id") else {
                // Nothing tells what it is the result of.
                add(import, record, number, block, ItemKind::ToolCall, &mut rest)?;
                continue;
            };
            let output = of.raw("content").map_or("null", |content| content.get());
            // Of the record only where it has one result.
            let result = object.raw("toolUseResult").filter(|_| blocks.len() == 1);
            let own =
                metadata(record, Some(message), if result.is_some() { &["message"] } else { &["message", "toolUseResult"] });
            import.result(record, number, &call, output, of.is_true("is_error"), own)?;
            continue;
        }
        let said = block.text.as_ref();
        if said.starts_with("[Request interrupted by user") {
            if let Some(turn) = import.state.turn.as_mut().filter(|turn| turn.is_of(record)) {
                turn.ends_as = Some(End::Interrupted);
                turn.at = turn.at.max(record.at);
            }
            add(import, record, number, block, ItemKind::Status, &mut rest)?;
            continue;
        }
        // What a command that runs here puts out is no prompt, and nobody answers it.
        if ["<local-command-stdout>", "<local-command-stderr>", "<bash-stdout>", "<bash-stderr>"]
            .iter()
            .any(|tag| said.starts_with(tag))
        {
            if let Some(turn) = &mut import.state.turn {
                turn.is_answered = true;
                turn.at = turn.at.max(record.at);
            }
            add(import, record, number, block, ItemKind::Status, &mut rest)?;
            continue;
        }
        if object.is_true("isMeta") {
            add(import, record, number, block, ItemKind::Status, &mut rest)?;
            continue;
        }
        if std::mem::take(&mut is_prompt) && !blocks.iter().any(|block| block.kind == "tool_result") {
            let prompt = all_text(&blocks);
            let of = record
                .is_side
                .then(|| ["isSidechain", "agentId"].iter().filter_map(|name| Some((*name, object.raw(name)?.get()))));
            import.open_turn(record, &prompt, of.and_then(document))?;
            if !prompt.starts_with('<') && !record.is_side {
                import.title_of_prompt(record, &prompt)?;
            }
        } else {
            let turn = import.turn(record)?;
            turn.is_answered &= !turn.is_of(record);
        }
        add(import, record, number, block, ItemKind::UserMessage, &mut rest)?;
    }
    Ok(())
}

/// The summary that a compaction leaves: the text of its item.
fn summary(import: &mut Import<'_, '_>, record: &Record<'_>, text: &str) -> Result<()> {
    let boundary = import.state.compaction.take();
    if !record.is_new {
        return Ok(());
    }
    let own = metadata(record, None, &["message"]);
    let tx = import.tx;
    if let Some(boundary) = boundary
        && let Some((key, _, _, known)) = import.conversation()?.contents(tx, &boundary)?
    {
        let known =
            own.map(|own| super::sessions::with_member(known.as_ref(), "summaryRecord", own.as_str())).transpose()?.or(known);
        return import.conversation()?.write_text(tx, key, text, known.as_ref());
    }
    let item = NewItem {
        id: item_id(import, record, 0)?,
        kind: ItemKind::ContextCompaction,
        status: ThreadItemStatus::Completed,
        summary: gist(text),
        text: text.to_owned(),
        data: None,
        metadata: own,
    };
    import.item(record, item)
}

fn assistant(import: &mut Import<'_, '_>, record: &Record<'_>, message: &Object<'_>) -> Result<Option<String>> {
    let mut rest = metadata(record, Some(message), &["message"]);
    let is_error = record.object.is_true("isApiErrorMessage");
    import.turn(record)?;
    for (number, block) in blocks(message).iter().enumerate() {
        let kind = match block.kind.as_ref() {
            "tool_use" | "server_tool_use" => {
                call(import, record, block, &mut rest)?;
                continue;
            }
            _ if is_error => ItemKind::Error,
            "text" => ItemKind::AssistantMessage,
            "thinking" | "redacted_thinking" => ItemKind::Reasoning,
            // Results of tools that ran at the provider, and what is still unknown.
            _ => ItemKind::ToolCall,
        };
        add(import, record, number, block, kind, &mut rest)?;
        let turn = import.turn(record)?;
        if turn.is_of(record) {
            turn.is_answered = kind == ItemKind::AssistantMessage || kind == ItemKind::Error;
            turn.ends_as = is_error.then_some(End::Failed);
            turn.error = is_error.then(|| gist(&block.text));
        }
    }
    usage(import, record, message)
}

fn call(import: &mut Import<'_, '_>, record: &Record<'_>, block: &Block<'_>, rest: &mut Option<Json>) -> Result<()> {
    let Some(object) = &block.object else { return Ok(()) };
    let name = object.text("name").unwrap_or(Cow::Borrowed("tool"));
    let call = object.text("id").unwrap_or_else(|| Cow::Owned(hex(&record.mark)));
    let kind = match name.as_ref() {
        "Bash" => ItemKind::CommandExecution,
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => ItemKind::FileChange,
        _ => ItemKind::ToolCall,
    };
    let turn = import.turn(record)?;
    if turn.is_of(record) {
        turn.is_answered = false;
        turn.ends_as = None;
        turn.error = None;
        import.called(&call);
    }
    let (tool, id) = (quoted(&name), quoted(&call));
    let input = object.raw("input").map_or("null", |input| input.get());
    let more = object.without(&["type", "id", "name", "input"]);
    let more = more.as_ref().map(|more| ("block", more.as_str()));
    let item = NewItem {
        id: import.id(&["call", &call])?,
        kind,
        status: ThreadItemStatus::InProgress,
        summary: call_title(&name, object.object("input").as_ref()),
        text: String::new(),
        data: document([("tool", tool.as_str()), ("callId", id.as_str()), ("input", input)].into_iter().chain(more)),
        metadata: rest.take(),
    };
    import.item(record, item)
}

/// Adds a block as an item. The first one of a record takes what the record says besides.
fn add(
    import: &mut Import<'_, '_>,
    record: &Record<'_>,
    number: usize,
    block: &Block<'_>,
    kind: ItemKind,
    rest: &mut Option<Json>,
) -> Result<()> {
    let without: &[&str] = match block.kind.as_ref() {
        "text" => &["type", "text"],
        "thinking" => &["type", "thinking"],
        _ => &[],
    };
    let item = NewItem {
        id: item_id(import, record, number)?,
        kind,
        status: if kind == ItemKind::Error { ThreadItemStatus::Failed } else { ThreadItemStatus::Completed },
        summary: gist(&block.text),
        text: block.text.to_string(),
        data: block.object.as_ref().and_then(|object| object.without(without)),
        metadata: rest.take(),
    };
    import.item(record, item)
}

fn item_id(import: &Import<'_, '_>, record: &Record<'_>, number: usize) -> Result<Name> {
    let own = record.object.text("uuid").unwrap_or_else(|| Cow::Owned(hex(&record.mark)));
    if number == 0 { import.id(&[&own]) } else { import.id(&[&own, &number.to_string()]) }
}

/// Records what the response has used, as far as this record knows; the same response is on several.
fn usage(import: &mut Import<'_, '_>, record: &Record<'_>, message: &Object<'_>) -> Result<Option<String>> {
    let (Some(used), Some(response)) = (message.object("usage"), message.text("id")) else { return Ok(None) };
    let (model, problem) = model("message.model", message.text("model").as_deref());
    let mut given = match figures(&used, &response) {
        Ok(given) => given,
        Err(error) => return Ok(Some(not_counted(&error))),
    };
    let turn = import.turn(record)?;
    if turn.is_of(record) && given.input_tokens > 0 {
        turn.last_input = Some(given.input_tokens);
    }
    given.turn_id = turn.id.clone();
    let tx = import.tx;
    // Models that are none, such as "<synthetic>", answer for the program itself. Agents may have others than the session.
    let is_model = model.as_ref().is_none_or(|model| !model.starts_with('<'));
    if is_model && !record.is_side && model.is_some() && import.state.model.is_none() {
        if record.is_new {
            import.conversation()?.complete(tx, model.as_deref(), None)?;
        }
        import.state.model = model.clone();
    }
    if record.is_new {
        given.model = model_or_unknown(model)?;
        given.provider = is_model.then(|| "anthropic".parse()).transpose()?;
        given.created_at = Some(record.at);
        record_usage(tx, given)?;
    }
    Ok(problem)
}

fn figures(used: &Object<'_>, response: &str) -> Result<RecordUsage> {
    let (read, write) = (used.tokens("cache_read_input_tokens")?, used.tokens("cache_creation_input_tokens")?);
    let input_tokens = used.tokens("input_tokens")?.unwrap_or(0) + read.unwrap_or(0) + write.unwrap_or(0);
    if input_tokens > MOST_TOKENS {
        return Err(Error::invalid(format!(
            "input_tokens, cache_read_input_tokens and cache_creation_input_tokens are {input_tokens} together, more than {MOST_TOKENS}"
        )));
    }
    Ok(RecordUsage {
        response_id: name("message.id", response)?,
        input_tokens,
        output_tokens: used.tokens("output_tokens")?.unwrap_or(0),
        cache_read_tokens: read,
        cache_write_tokens: write,
        ..RecordUsage::default()
    })
}

/// What a record says besides its content, under its own names.
fn metadata(record: &Record<'_>, message: Option<&Object<'_>>, without: &[&str]) -> Option<Json> {
    let own = record.object.without(&[without, &["type"]].concat());
    let message = message.and_then(|message| message.without(&["content", "role", "type"]));
    match (own, message) {
        (own, Some(message)) => super::sessions::with_member(own.as_ref(), "message", message.as_str()).ok(),
        (own, None) => own,
    }
}

/// A block of a message's content; text that stands alone is one.
struct Block<'a> {
    kind: Cow<'a, str>,
    text: Cow<'a, str>,
    object: Option<Object<'a>>,
}

fn blocks<'a>(message: &Object<'a>) -> Vec<Block<'a>> {
    if let Some(text) = message.text("content") {
        return vec![Block { kind: Cow::Borrowed("text"), text, object: None }];
    }
    let block = |raw: &'a serde_json::value::RawValue| {
        let Some(object) = object_of(raw) else {
            return Block { kind: Cow::Borrowed("text"), text: text_of(raw).unwrap_or(Cow::Borrowed(raw.get())), object: None };
        };
        Block {
            kind: object.text("type").unwrap_or(Cow::Borrowed("unknown")),
            text: object.text("text").or_else(|| object.text("thinking")).unwrap_or_default(),
            object: Some(object),
        }
    };
    message.list("content").unwrap_or_default().into_iter().map(block).collect()
}

fn all_text(blocks: &[Block<'_>]) -> String {
    let texts: Vec<&str> = blocks.iter().filter(|block| block.kind == "text").map(|block| block.text.as_ref()).collect();
    texts.join("\n")
}
