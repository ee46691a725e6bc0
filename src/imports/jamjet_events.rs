//! JamJet's events: one object each, tagged with its type, its fields in snake_case.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::foreign::{Read, time};
use crate::events::types::{EVENT_TYPES, EventType, check_kind, is_written_by_store, parse_field};
use crate::json::Json;

/// The type and data of an event as this store knows it.
pub(super) struct Converted {
    pub(super) event_type: String,
    pub(super) data: Json,
    /// Whether it is one of this store's types.
    pub(super) is_known: bool,
}

type Members<'a> = BTreeMap<String, &'a RawValue>;

pub(super) fn convert(kind: &Json) -> Read<Converted> {
    let members: Members<'_> =
        serde_json::from_str(kind.as_str()).map_err(|error| format!("kind_json: it must be an object: {error}"))?;
    let name: String = members
        .get("type")
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .ok_or_else(|| "kind_json: it has no type".to_owned())?;
    let known = EVENT_TYPES.iter().find(|known| known.name == name && !is_written_by_store(known.name));
    if let Some(data) = known.and_then(|known| data_of(known, members)) {
        return Ok(Converted { event_type: name, data: parse(data)?, is_known: true });
    }
    let event_type = format!("x-jamjet.{name}");
    event_type.parse::<crate::Name>().map_err(|error| format!("kind_json: type: {}", error.message()))?;
    Ok(Converted { event_type, data: kind.clone(), is_known: false })
}

fn parse(text: String) -> Read<Json> {
    Json::parse(text).map_err(|error| format!("kind_json: {}", error.message()))
}

/// The data of an event of a known type; nothing where a field is missing or of another kind. Values keep their text.
fn data_of(known: &EventType, mut members: Members<'_>) -> Option<String> {
    members.remove("type");
    let mut data = Vec::new();
    for spec in known.fields.split(' ') {
        let (field, kind, optional) = parse_field(spec);
        let text = match members.remove(&snake_case(field)).map(RawValue::get) {
            None | Some("null") if optional => continue,
            None => return None,
            Some(text) => text,
        };
        let text = match kind {
            "p" => provenance(text)?,
            "i" if text.starts_with('"') => time(&serde_json::from_str::<String>(text).ok()?).ok()?.to_string(),
            _ => text.to_owned(),
        };
        check_kind(kind, &text).ok()?;
        data.push(member(field, &text));
    }
    // What later versions may have added.
    data.extend(members.iter().map(|(field, raw)| member(&camel_case(field), raw.get())));
    Some(format!("{{{}}}", data.join(",")))
}

fn provenance(text: &str) -> Option<String> {
    let members: Members<'_> = serde_json::from_str(text).ok()?;
    let given = members.iter().filter(|(_, raw)| raw.get() != "null");
    let given: Vec<String> = given.map(|(field, raw)| member(&camel_case(field), raw.get())).collect();
    Some(format!("{{{}}}", given.join(",")))
}

fn member(field: &str, text: &str) -> String {
    format!("{}:{text}", serde_json::Value::from(field))
}

fn snake_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn camel_case(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' && !out.is_empty() {
            upper = true;
            continue;
        }
        out.push(if upper { c.to_ascii_uppercase() } else { c });
        upper = false;
    }
    out
}
