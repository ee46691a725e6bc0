//! Files of a zagens store: a thread, a turn or an item each, and events, one a line. A thread comes before its turns, a turn before its
//! items.

use std::borrow::Cow;

use serde::de::IntoDeserializer;
use serde_json::value::RawValue;

use super::foreign;
use super::record::{self, MOST_TOKENS, Object, gist, quoted, text_of};
use super::sessions::{Import, mark, model, model_or_unknown, not_counted, prefixed, why_unreadable, with_member};
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::json::Json;
use crate::threads::import::{
    Conversation, ImportedItem, ImportedThread, ImportedTurn, Known, find_turn, record_usage, thread_of,
};
use crate::threads::items::{ItemKind, ThreadItemStatus};
use crate::threads::turns::TurnStatus;
use crate::threads::usage::RecordUsage;

const PREFIX: &str = "zagens";

pub(super) fn import(import: &mut Import<'_, '_>, first: i64, bytes: &[u8]) -> Result<()> {
    let Some(whole) = import.text(first, bytes) else { return Ok(()) };
    match serde_json::from_str::<Object<'_>>(&whole) {
        Ok(object) => one(import, first, whole.trim(), &object),
        // Nothing else spreads over lines: one object each.
        Err(error) if !whole.trim_start().starts_with("{\"") && first == 1 => {
            import.reject(1, why_unreadable(&whole, &error));
            Ok(())
        }
        Err(_) => {
            for (number, line) in (first..).zip(bytes.split(|byte| *byte == b'\n')) {
                let Some(text) = import.text(number, line) else { continue };
                match serde_json::from_str::<Object<'_>>(&text) {
                    Ok(object) => one(import, number, text.trim(), &object)?,
                    Err(error) => import.reject(number, why_unreadable(&text, &error)),
                }
            }
            Ok(())
        }
    }
}

/// What a file holds tells its fields, whatever its name.
fn one(import: &mut Import<'_, '_>, line: i64, text: &str, object: &Object<'_>) -> Result<()> {
    let tx = import.tx;
    let before = import.conversation.clone();
    let outcome = tx.attempt(|_| {
        let has = |name: &str| object.raw(name).is_some();
        let found = if has("event") && has("seq") {
            event(import, text, object)
        } else if has("turn_id") && has("kind") {
            item(import, text, object)
        } else if has("thread_id") && has("status") {
            turn(import, text, object)
        } else if has("id") && (has("model") || has("workspace") || has("mode")) {
            thread(import, text, object)
        } else if has("next_seq") {
            // The store's own counter; the numbers here are others.
            return Ok(None);
        } else {
            Err(Error::invalid("it is no thread, turn, item or event of zagens"))
        };
        found.map(Some)
    })?;
    if outcome.is_err() {
        import.conversation = before;
    }
    if let Some(outcome) = outcome.transpose() {
        import.settle(line, outcome);
    }
    // A file has what belongs to one thread, but need not.
    if let Some(conversation) = &mut import.conversation {
        conversation.save(tx)?;
    }
    Ok(())
}

type Outcome = (Known, Option<String>);

/// Goes on with this thread, which must be there.
fn of_thread(import: &mut Import<'_, '_>, id: &Name) -> Result<()> {
    if import.conversation.as_ref().is_none_or(|known| known.id != *id) {
        let found = Conversation::find(import.tx, id)?;
        import.conversation = Some(found.ok_or_else(|| missing("thread", id))?);
    }
    Ok(())
}

fn missing(kind: &str, id: &str) -> Error {
    Error::not_found(kind, id).with("hint", "import the threads first, then turns, then items and events")
}

fn note(import: &mut Import<'_, '_>, kind: &str, id: &str, text: &str) -> Result<Known> {
    let tx = import.tx;
    match import.conversation()?.note(tx, &mark(&[kind, id]), &mark(&[text]))? {
        Known::Other => Err(Error::conflict(format!("the {kind} {id:?} was imported before with other content; that stays"))),
        known => Ok(known),
    }
}

fn required<'a>(object: &Object<'a>, name: &str) -> Result<Cow<'a, str>> {
    object.text(name).ok_or_else(|| Error::invalid(format!("{name} is missing, or no string")))
}

fn name(object: &Object<'_>, member: &str) -> Result<Name> {
    record::name(member, &required(object, member)?)
}

fn time(object: &Object<'_>, name: &str) -> Result<Option<i64>> {
    let Some(text) = object.text(name) else { return Ok(None) };
    foreign::time(&text).map(Some).map_err(|reason| Error::invalid(format!("{name}: {reason}")))
}

fn owned(object: &Object<'_>, name: &str) -> Option<String> {
    object.text(name).map(Cow::into_owned)
}

/// A word of ours, where it is one.
fn word<T: for<'de> serde::Deserialize<'de>>(text: &str) -> Option<T> {
    let text: serde::de::value::StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
    T::deserialize(text).ok()
}

fn thread(import: &mut Import<'_, '_>, text: &str, object: &Object<'_>) -> Result<Outcome> {
    let id = name(object, "id")?;
    let tx = import.tx;
    let ours = [
        "id",
        "title",
        "model",
        "mode",
        "workspace",
        "system_prompt",
        "task_id",
        "task_type",
        "archived",
        "created_at",
        "updated_at",
        "latest_turn_id",
        "metadata",
    ];
    let created_at = time(object, "created_at")?.unwrap_or(tx.now);
    import.conversation = Some(match Conversation::find(tx, &id)? {
        Some(known) => known,
        None => {
            let imported = ImportedThread {
                title: owned(object, "title"),
                model: owned(object, "model"),
                mode: owned(object, "mode"),
                workspace: owned(object, "workspace"),
                system_prompt: owned(object, "system_prompt"),
                task_id: owned(object, "task_id"),
                task_type: owned(object, "task_type"),
                archived: object.is_true("archived"),
                metadata: Some(metadata(object, &ours)?),
                created_at,
                updated_at: time(object, "updated_at")?.unwrap_or(created_at),
            };
            Conversation::create(tx, &id, imported)?
        }
    });
    Ok((note(import, "thread", &id, text)?, None))
}

/// What is left of an object, its own metadata included.
fn metadata(object: &Object<'_>, without: &[&str]) -> Result<Json> {
    let rest = object.without(without);
    let rest = match object.raw("metadata") {
        Some(own) if without.contains(&"metadata") => Some(with_member(rest.as_ref(), "metadata", own.get())?),
        _ => rest,
    };
    with_member(rest.as_ref(), "importedFrom", &quoted(PREFIX))
}

fn turn(import: &mut Import<'_, '_>, text: &str, object: &Object<'_>) -> Result<Outcome> {
    let (id, thread) = (name(object, "id")?, name(object, "thread_id")?);
    of_thread(import, &thread)?;
    let known = note(import, "turn", &id, text)?;
    if known == Known::Same {
        return Ok((known, None));
    }
    let tx = import.tx;
    let status = required(object, "status")?;
    let at = time(object, "created_at")?.unwrap_or(tx.now);
    let Some(word) = word::<TurnStatus>(&status) else {
        return keep(import, text, object, "turn", &status, at);
    };
    let ours = [
        "id",
        "thread_id",
        "status",
        "input_summary",
        "created_at",
        "started_at",
        "ended_at",
        "duration_ms",
        "usage",
        "error",
        "last_request_input_tokens",
        "steer_count",
    ];
    let error = object.raw("error").map(|error| match text_of(error) {
        Some(message) => Ok(Json::from(serde_json::Value::from(message))),
        None => Json::parse(error.get()),
    });
    let (last, mut problem) = match object.tokens("last_request_input_tokens") {
        Ok(last) => (last, None),
        Err(error) => (None, Some(error.message().to_owned())),
    };
    let imported = ImportedTurn {
        id: id.clone(),
        status: word,
        input_summary: object.text("input_summary").map(Cow::into_owned).unwrap_or_default(),
        created_at: at,
        started_at: time(object, "started_at")?,
        ended_at: time(object, "ended_at")?,
        duration_ms: object.integer("duration_ms").filter(|ms| *ms >= 0),
        last_request_input_tokens: last,
        error: error.transpose()?,
        steer_count: object.integer("steer_count").unwrap_or(0).max(0),
        metadata: Some(metadata(object, &ours)?),
        is_side: false,
    };
    let conversation = import.conversation()?;
    conversation.turn(tx, imported)?;
    for item in object.list("item_ids").unwrap_or_default().into_iter().filter_map(text_of) {
        conversation.reserve(tx, &mark(&["item", &item]))?;
    }
    let key = conversation.key;
    if let Some(used) = object.object("usage") {
        let model = thread_of(tx, key)?.and_then(|(_, model)| model);
        problem = usage(import, &id, &used, model.as_deref(), at)?.or(problem);
    }
    Ok((known, problem))
}

fn usage(import: &mut Import<'_, '_>, turn: &Name, used: &Object<'_>, told: Option<&str>, at: i64) -> Result<Option<String>> {
    let (model, problem) = model("the model of the thread", told);
    let model = model_or_unknown(model)?;
    let mut given = match figures(used) {
        Ok(given) => given,
        Err(error) => return Ok(Some(not_counted(&error))),
    };
    given.turn_id = turn.clone();
    given.response_id = prefixed(PREFIX, turn)?;
    given.provider = Some(provider(&model).parse()?);
    given.model = model;
    given.created_at = Some(at);
    record_usage(import.tx, given)?;
    Ok(problem)
}

fn figures(used: &Object<'_>) -> Result<RecordUsage> {
    let (hit, miss) = (used.tokens("prompt_cache_hit_tokens")?, used.tokens("prompt_cache_miss_tokens")?);
    let parts = hit.unwrap_or(0) + miss.unwrap_or(0);
    if parts > MOST_TOKENS {
        return Err(Error::invalid(format!(
            "prompt_cache_hit_tokens and prompt_cache_miss_tokens are {parts} together, more than {MOST_TOKENS}"
        )));
    }
    Ok(RecordUsage {
        input_tokens: used.tokens("input_tokens")?.unwrap_or(0).max(parts),
        output_tokens: used.tokens("output_tokens")?.unwrap_or(0),
        cache_read_tokens: hit,
        reasoning_tokens: used.tokens("reasoning_tokens")?,
        ..RecordUsage::default()
    })
}

fn provider(model: &str) -> &'static str {
    match model {
        model if model.starts_with("deepseek-ai/") => "nvidia-nim",
        model if model.starts_with("deepseek-") => "deepseek",
        model if model.starts_with("openai/") || model.starts_with("anthropic/") => "openrouter",
        _ => "unknown",
    }
}

fn item(import: &mut Import<'_, '_>, text: &str, object: &Object<'_>) -> Result<Outcome> {
    let (id, turn) = (name(object, "id")?, name(object, "turn_id")?);
    let tx = import.tx;
    let found = find_turn(tx, &turn)?;
    let (turn_key, thread) = found.ok_or_else(|| missing("turn", &turn))?;
    let (thread, _) = thread_of(tx, thread)?.ok_or_else(|| missing("turn", &turn))?;
    of_thread(import, &thread)?;
    let called = mark(&["item", &id]);
    let position = import.conversation()?.reserved(tx, &called)?;
    let known = note(import, "item", &id, text)?;
    if known == Known::Same {
        return Ok((known, None));
    }
    let (started_at, ended_at) = (time(object, "started_at")?, time(object, "ended_at")?);
    let at = started_at.or(ended_at).unwrap_or(tx.now);
    let (kind, status) = (required(object, "kind")?, required(object, "status")?);
    let of = match kind.as_ref() {
        "agent_message" => Some(ItemKind::AssistantMessage),
        "agent_reasoning" => Some(ItemKind::Reasoning),
        kind => word::<ItemKind>(kind),
    };
    let (Some(of), Some(word)) = (of, word::<ThreadItemStatus>(&status)) else {
        let said = if of.is_none() { &kind } else { &status };
        return keep(import, text, object, "item", said, at);
    };
    let ours = ["id", "turn_id", "kind", "status", "summary", "detail", "metadata", "started_at", "ended_at"];
    let imported = ImportedItem {
        id,
        turn: Some(turn_key),
        kind: of,
        status: word,
        summary: object.text("summary").map(Cow::into_owned).unwrap_or_default(),
        text: object.text("detail").map(Cow::into_owned).unwrap_or_default(),
        // Structured, such as a tool's name and arguments.
        data: object.raw("metadata").map(RawValue::get).map(Json::parse).transpose()?,
        metadata: Some(metadata(object, &ours[..])?),
        created_at: at,
        started_at,
        ended_at,
        position,
    };
    import.conversation()?.item(tx, imported)?;
    Ok((known, None))
}

fn event(import: &mut Import<'_, '_>, text: &str, object: &Object<'_>) -> Result<Outcome> {
    let thread = name(object, "thread_id")?;
    of_thread(import, &thread)?;
    let seq = object.raw("seq").map_or("", RawValue::get);
    let known = note(import, "event", seq, text)?;
    if known == Known::New {
        let at = time(object, "timestamp")?.unwrap_or(import.tx.now);
        let kind = required(object, "event")?;
        append(import, text, object, &kind, at)?;
    }
    Ok((known, None))
}

/// Keeps what has a status or a kind that is none of ours: it is not read as another one.
fn keep(import: &mut Import<'_, '_>, text: &str, object: &Object<'_>, kind: &str, said: &str, at: i64) -> Result<Outcome> {
    import.count_unknown(&format!("{kind}:{said}"));
    append(import, text, object, kind, at)?;
    Ok((
        Known::New,
        Some(format!("the {kind} has {:?}, which is unknown here; it was kept as an event of its thread", gist(said))),
    ))
}

fn append(import: &mut Import<'_, '_>, text: &str, object: &Object<'_>, kind: &str, at: i64) -> Result<()> {
    let tx = import.tx;
    let (turn_id, item_id) = (object.text("turn_id"), object.text("item_id"));
    let id = |text: Option<Cow<'_, str>>| text.and_then(|text| text.parse().ok());
    let event_type = prefixed(PREFIX, kind)?;
    import.conversation()?.event(tx, event_type, id(turn_id), id(item_id), Json::parse(text)?, at)
}
