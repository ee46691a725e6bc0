//! Writing records as JSON text: one function for the members of each type, and everything else shared. See [`read`](super::read) for why
//! it is not serde's derived code.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::Json;

/// What can be written as JSON text.
pub(crate) trait ToJson {
    fn to_json(&self, out: &mut Vec<u8>);

    /// Whether it is nothing, so that an object has no member for it.
    fn is_nothing(&self) -> bool {
        false
    }
}

/// What is written as an object.
pub(crate) trait Record {
    fn members(&self, object: &mut Object<'_>);
}

/// An object that is being written.
pub(crate) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl Object<'_> {
    /// Writes a member. `value` is left out where it is nothing.
    pub(crate) fn member(&mut self, name: &str, value: &dyn ToJson) {
        if !value.is_nothing() {
            self.member_or_null(name, value);
        }
    }

    /// Writes a member, as null where it is nothing.
    pub(crate) fn member_or_null(&mut self, name: &str, value: &dyn ToJson) {
        self.out.extend_from_slice(if self.is_empty { b"\"" } else { b",\"" });
        self.is_empty = false;
        // Names of members need no escapes.
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        value.to_json(self.out);
    }
}

/// Writes an object.
pub(crate) fn object(record: &dyn Record, out: &mut Vec<u8>) {
    out.push(b'{');
    record.members(&mut Object { out, is_empty: true });
    out.push(b'}');
}

/// The JSON text of a value.
pub(crate) fn text(value: &dyn ToJson) -> String {
    let mut out = Vec::new();
    value.to_json(&mut out);
    // Everything that is written is UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// For types that are written as here by whatever serde writes: `serde::Serialize` by way of JSON text.
pub(crate) fn by_text<S: serde::Serializer>(value: &dyn ToJson, serializer: S) -> Result<S::Ok, S::Error> {
    let text = RawValue::from_string(text(value)).map_err(serde::ser::Error::custom)?;
    serde::Serialize::serialize(&text, serializer)
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.to_json(out),
            None => out.extend_from_slice(b"null"),
        }
    }

    fn is_nothing(&self) -> bool {
        self.is_none()
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self, out: &mut Vec<u8>) {
        list(&mut self.iter().map(|element| element as &dyn ToJson), out);
    }
}

impl<T: ToJson> ToJson for BTreeSet<T> {
    fn to_json(&self, out: &mut Vec<u8>) {
        list(&mut self.iter().map(|element| element as &dyn ToJson), out);
    }
}

/// Names of members are written as strings.
impl<K: AsRef<str>, T: ToJson> ToJson for BTreeMap<K, T> {
    fn to_json(&self, out: &mut Vec<u8>) {
        map(&mut self.iter().map(|(key, value)| (key.as_ref(), value as &dyn ToJson)), out);
    }
}

fn list(elements: &mut dyn Iterator<Item = &dyn ToJson>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, element) in elements.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        element.to_json(out);
    }
    out.push(b']');
}

fn map<'v>(members: &mut dyn Iterator<Item = (&'v str, &'v dyn ToJson)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (name, value)) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        string(name, out);
        out.push(b':');
        value.to_json(out);
    }
    out.push(b'}');
}

/// Writes a string, with its quotes and escapes.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    by_serde(text, out);
}

fn by_serde<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    // Neither writing to memory nor strings and numbers can fail.
    let _ = serde_json::to_writer(out, value);
}

impl ToJson for Json {
    fn to_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_str().as_bytes());
    }
}

impl ToJson for crate::ErrorCode {
    fn to_json(&self, out: &mut Vec<u8>) {
        string(self.as_str(), out);
    }
}

impl ToJson for () {
    fn to_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"null");
    }
}

impl ToJson for bool {
    fn to_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if *self { b"true" } else { b"false" });
    }
}

impl ToJson for str {
    fn to_json(&self, out: &mut Vec<u8>) {
        string(self, out);
    }
}

impl ToJson for &str {
    fn to_json(&self, out: &mut Vec<u8>) {
        string(self, out);
    }
}

impl ToJson for String {
    fn to_json(&self, out: &mut Vec<u8>) {
        string(self, out);
    }
}

impl ToJson for crate::Name {
    fn to_json(&self, out: &mut Vec<u8>) {
        string(self.as_str(), out);
    }
}

macro_rules! to_json_by_serde {
    ($($type:ty)*) => {$(
        impl ToJson for $type {
            fn to_json(&self, out: &mut Vec<u8>) {
                by_serde(self, out);
            }
        }
    )*};
}

to_json_by_serde! { i64 [i64; 4] u64 f64 usize serde_json::Value crate::threads::items::Piece }
