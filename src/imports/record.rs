//! Records of JSON lines, read without losing a digit: what is passed on stays the text that it was.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserializer;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::ids::Name;
use crate::json::{Json, Key, Pairs};

/// The most tokens that a response may have used.
pub(super) const MOST_TOKENS: i64 = 1_000_000_000_000;

/// The members of a JSON object, in order. Of members with one name the last counts.
#[derive(Default)]
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Pairs(mut members) = Pairs::deserialize(deserializer)?;
        let mut known = BTreeSet::new();
        members.reverse();
        members.retain(|(key, _)| known.insert(key.clone()));
        members.reverse();
        Ok(Object(members))
    }
}

impl<'a> Object<'a> {
    pub(super) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| *value).filter(|value| value.get() != "null")
    }

    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text_of(self.raw(name)?)
    }

    pub(super) fn object(&self, name: &str) -> Option<Object<'a>> {
        object_of(self.raw(name)?)
    }

    /// The elements of an array.
    pub(super) fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        let raw = self.raw(name)?.get();
        if raw.starts_with('[') { serde_json::from_str(raw).ok() } else { None }
    }

    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        serde_json::from_str(self.raw(name)?.get()).ok()
    }

    /// A number of tokens, where it is told.
    pub(super) fn tokens(&self, name: &str) -> Result<Option<i64>> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        match serde_json::from_str::<f64>(raw.get()) {
            Ok(told) if told.fract() == 0.0 && (0.0..=MOST_TOKENS as f64).contains(&told) => Ok(Some(told as i64)),
            _ => Err(Error::invalid(format!("{name} is {}; tokens are whole numbers of 0 to {MOST_TOKENS}", gist(raw.get())))),
        }
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.raw(name).is_some_and(|value| value.get() == "true")
    }

    /// The members but those, as a document; none where nothing is left.
    pub(super) fn without(&self, names: &[&str]) -> Option<Json> {
        let members = self.0.iter().filter(|(key, value)| !names.contains(&key.as_ref()) && value.get() != "null");
        document(members.map(|(key, value)| (key.as_ref(), value.get())))
    }
}

/// A document of members, whose values are JSON; none without any.
pub(super) fn document<'m>(members: impl Iterator<Item = (&'m str, &'m str)>) -> Option<Json> {
    let mut text = String::from("{");
    for (name, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&quoted(name));
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
    if text == "{}" { None } else { Json::parse(text).ok() }
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    Json::from(serde_json::Value::from(text)).as_str().to_owned()
}

pub(super) fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    if !raw.get().starts_with('"') {
        return None;
    }
    serde_json::from_str::<Key<'_>>(raw.get()).ok().map(|Key(text)| text)
}

pub(super) fn object_of(raw: &RawValue) -> Option<Object<'_>> {
    if raw.get().starts_with('{') { serde_json::from_str(raw.get()).ok() } else { None }
}

/// A name of a file's; where it is none, the error says which.
pub(super) fn name(path: &str, text: &str) -> Result<Name> {
    text.parse().map_err(|error: Error| Error::invalid(format!("{path}: {}", error.message())))
}

pub(super) fn json(raw: &RawValue) -> Result<Json> {
    Json::parse(raw.get())
}

/// The first line of a text that says something, short enough for a list.
pub(super) fn gist(text: &str) -> String {
    const LONGEST: usize = 160;
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut short = String::new();
    for (count, word) in line.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).enumerate() {
        if count > 0 {
            short.push(' ');
        }
        short.push_str(word);
        if short.len() > LONGEST {
            short.truncate(short.floor_char_boundary(LONGEST));
            short.push('…');
            break;
        }
    }
    short
}

/// A tool's name with the argument that tells most.
pub(super) fn call_title(name: &str, input: Option<&Object<'_>>) -> String {
    const TELLING: &[&str] =
        &["command", "cmd", "file_path", "pattern", "query", "url", "path", "description", "prompt", "input"];
    let told = input.and_then(|input| {
        TELLING.iter().find_map(|member| match input.text(member) {
            Some(text) => Some(text.into_owned()),
            None => {
                let words: Vec<Cow<'_, str>> = input.list(member)?.into_iter().filter_map(text_of).collect();
                (!words.is_empty()).then(|| words.join(" "))
            }
        })
    });
    gist(&format!("{name} {}", told.as_deref().map(gist).unwrap_or_default()))
}
