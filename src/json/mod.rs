//! JSON documents: kept as the text they came as.

mod read;
mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorCode, Result};

pub(crate) use read::{FromJson, Key, Members, Pairs, Problem, by_text as deserialize, deserialize_word, word};
pub(crate) use write::{Object, Record, ToJson, by_text as serialize, object, text};

/// The deepest nesting of arrays and objects in a document.
pub const MAX_DEPTH: usize = 128;

/// Levels of an operation's arguments, or of a kept fold, around a document, at most.
const ARGUMENT_LEVELS: usize = 4;

/// The size limit of a document unless the store was opened with another one, in bytes of JSON text: 16 MiB.
pub const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// A JSON document as its text. What was stored comes back byte for byte, numbers beyond 2^53 included.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Checks that `text` is one JSON value and keeps it. A lone surrogate escape (`\ud800`) becomes `\ufffd`.
    pub fn parse(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        let text = match replace_lone_surrogates(&text) {
            Cow::Owned(mended) => mended,
            Cow::Borrowed(_) => text,
        };
        RawValue::from_string(text).map(Self).map_err(|error| Error::invalid(format!("the document is not JSON: {error}")))
    }

    /// The document of a value that serialises to JSON.
    pub fn from_value(value: &impl Serialize) -> Result<Self> {
        serde_json::value::to_raw_value(value)
            .map(Self)
            .map_err(|error| Error::invalid(format!("the value cannot be written as JSON: {error}")))
    }

    /// A part of another document.
    pub(crate) fn part(raw: &RawValue) -> Self {
        match replace_lone_surrogates(raw.get()) {
            Cow::Borrowed(_) => Self(raw.to_owned()),
            // Replacing changes no structure.
            Cow::Owned(mended) => Self(RawValue::from_string(mended).unwrap_or_else(|_| raw.to_owned())),
        }
    }

    /// The document of something of the store's own.
    pub(crate) fn of(value: &dyn ToJson) -> Result<Self> {
        let text = text(value);
        RawValue::from_string(text)
            .map(Self)
            .map_err(|error| Error::new(ErrorCode::Internal, format!("what was written is not JSON: {error}")))
    }

    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the document as a Rust value.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T> {
        from_deep(self.as_str()).map_err(|error| Error::invalid(format!("the document has another form than expected: {error}")))
    }

    /// Reads the document as something of the store's own.
    pub(crate) fn read<T: FromJson>(&self) -> Result<T> {
        T::from_json(self.as_str())
            .map_err(|problem| Error::invalid(format!("the document has another form than expected: {problem}")))
    }

    /// Refuses a document over the limits, naming it.
    pub(crate) fn check(&self, name: &str, max_bytes: usize) -> Result<()> {
        let bytes = self.as_str().len();
        if bytes > max_bytes {
            return Err(Error::new(
                ErrorCode::TooLarge,
                format!("{name} is {bytes} bytes of JSON, over the limit of {max_bytes}"),
            )
            .with("path", name)
            .with("bytes", bytes)
            .with("maxDocumentBytes", max_bytes));
        }
        if depth(self.as_str()) > MAX_DEPTH {
            return Err(Error::new(ErrorCode::TooLarge, format!("{name} is nested over {MAX_DEPTH} levels deep"))
                .with("path", name)
                .with("maxDepth", MAX_DEPTH));
        }
        Ok(())
    }
}

fn from_deep<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| {
        // serde_json's own limit of 127 levels would refuse documents that the store took, and what the store wraps them in. The scan keeps
        // the recursion bounded.
        if depth(text) > MAX_DEPTH + ARGUMENT_LEVELS {
            return Err(error);
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        deserializer.disable_recursion_limit();
        let value = T::deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(value)
    })
}

macro_rules! from_deep_json {
    ($($type:ty)*) => {$(
        impl FromJson for $type {
            fn from_json(text: &str) -> Result<Self, Box<Problem>> {
                from_deep(text).map_err(|error| Problem::new(error.to_string()))
            }
        }
    )*};
}

from_deep_json! { Value crate::fold::Fold }

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Documents are equal when their texts are.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// `null`.
impl Default for Json {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        // A `Value` always has a JSON form.
        Self(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

impl ToSql for Json {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.as_str().to_sql()
    }
}

impl FromSql for Json {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = String::column_result(value)?;
        RawValue::from_string(text).map(Self).map_err(|error| FromSqlError::Other(Box::new(error)))
    }
}

/// For document fields where an explicit null is a document, not "left out": `#[serde(default, deserialize_with = "given")]`.
pub(crate) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// How many bytes the name of a field has in camelCase.
pub(crate) const fn camel_len(snake: &str) -> usize {
    let (bytes, mut at, mut len) = (snake.as_bytes(), 0, 0);
    while at < bytes.len() {
        if bytes[at] != b'_' {
            len += 1;
        }
        at += 1;
    }
    len
}

/// The name of a field in camelCase.
pub(crate) const fn camel<const N: usize>(snake: &str) -> [u8; N] {
    let (bytes, mut at, mut len, mut camel) = (snake.as_bytes(), 0, 0, [0; N]);
    while at < bytes.len() {
        if bytes[at] != b'_' {
            let begins_word = at > 0 && bytes[at - 1] == b'_';
            camel[len] = if begins_word { bytes[at].to_ascii_uppercase() } else { bytes[at] };
            len += 1;
        }
        at += 1;
    }
    camel
}

/// A word in a row that is none of its type.
pub(crate) fn no_such_word(word: &str, of: &str) -> FromSqlError {
    FromSqlError::Other(format!("{word:?} is no {of}").into())
}

/// A digest of arguments, by which a repeated call is told from another one. The order of an object's keys, white space and the
/// spelling of strings do not matter; numbers count to the last digit.
pub(crate) fn digest(arguments: &dyn ToJson) -> Result<[u8; 32]> {
    let text = text(arguments);
    // The documents in it are named when each is checked; here the recursion is kept bounded.
    if depth(&text) > MAX_DEPTH + ARGUMENT_LEVELS {
        return Err(Error::new(ErrorCode::TooLarge, format!("a document is nested over {MAX_DEPTH} levels deep"))
            .with("maxDepth", MAX_DEPTH));
    }
    let mut canonical = String::with_capacity(text.len());
    write_canonical(&text, &mut canonical)
        .map_err(|error| Error::new(ErrorCode::Internal, format!("arguments cannot be digested: {error}")))?;
    Ok(Sha256::digest(canonical.as_bytes()).into())
}

fn write_canonical(text: &str, out: &mut String) -> serde_json::Result<()> {
    match text.as_bytes().first() {
        Some(b'{') => {
            out.push('{');
            for (key, value) in serde_json::from_str::<BTreeMap<String, &RawValue>>(text)? {
                out.push_str(&serde_json::to_string(&key)?);
                out.push(':');
                write_canonical(value.get(), out)?;
                out.push(',');
            }
            out.push('}');
        }
        Some(b'[') => {
            out.push('[');
            for value in serde_json::from_str::<Vec<&RawValue>>(text)? {
                write_canonical(value.get(), out)?;
                out.push(',');
            }
            out.push(']');
        }
        Some(b'"') => out.push_str(&serde_json::to_string(&serde_json::from_str::<Cow<'_, str>>(text)?)?),
        _ => out.push_str(text),
    }
    Ok(())
}

/// The deepest nesting of valid JSON text. Not recursive.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0usize, false, false);
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Replaces `\uD800`…`\uDFFF` escapes that are not a pair by `\ufffd`: half an emoji of a stream that was cut must not keep the
/// rest of the text from being stored.
pub(crate) fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|&b| b == b'\\') {
        let start = at + found;
        let unit = unicode_escape(bytes, start);
        at = match unit {
            None => start + 2,
            Some(0xd800..=0xdbff) if matches!(unicode_escape(bytes, start + 6), Some(0xdc00..=0xdfff)) => start + 12,
            Some(0xd800..=0xdfff) => {
                out.get_or_insert_with(|| bytes.to_vec())[start..start + 6].copy_from_slice(b"\\ufffd");
                start + 6
            }
            Some(_) => start + 6,
        };
        if at >= bytes.len() {
            break;
        }
    }
    match out.map(String::from_utf8) {
        Some(Ok(mended)) => Cow::Owned(mended),
        _ => Cow::Borrowed(text),
    }
}

/// The code unit of the `\uXXXX` escape at `at`, if there is one.
pub(crate) fn unicode_escape(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    if &escape[..2] != b"\\u" {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(&escape[2..]).ok()?, 16).ok()
}

/// Where in JSON text the byte `offset` lies, as a path like `items[3].cost`. For messages.
fn path_at(text: &str, offset: usize) -> String {
    enum Level {
        Array(usize),
        Object(String),
    }
    let bytes = text.as_bytes();
    let end = offset.min(bytes.len());
    let mut levels: Vec<Level> = Vec::new();
    let mut at = 0;
    while at < end {
        match bytes[at] {
            b'"' => {
                let start = at;
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                let closing = (at + 1).min(bytes.len());
                let is_key = bytes[closing..].iter().find(|b| !b.is_ascii_whitespace()) == Some(&b':');
                if let (true, Some(Level::Object(key))) = (is_key && closing <= end, levels.last_mut()) {
                    *key = serde_json::from_str(&text[start..closing]).unwrap_or_default();
                }
            }
            b'{' => levels.push(Level::Object(String::new())),
            b'[' => levels.push(Level::Array(0)),
            // The last closing bracket before the offset ends the value that the message is about.
            b'}' | b']' if at + 1 < end => {
                levels.pop();
            }
            b',' if at + 1 < end => {
                if let Some(Level::Array(index)) = levels.last_mut() {
                    *index += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut path = String::new();
    for level in &levels {
        match level {
            Level::Array(index) => path.push_str(&format!("[{index}]")),
            Level::Object(key) if key.is_empty() => {}
            Level::Object(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
        }
    }
    path
}
