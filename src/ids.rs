//! Ids and names.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use rusqlite::types::{ToSql, ToSqlOutput};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, Result};

/// The longest name, in bytes of UTF-8.
const MAX_NAME_BYTES: usize = 256;

/// An id or a name: 1 to 256 bytes of UTF-8 without control characters.
// Made with `"text".parse()?`. `Default` exists so that argument structs can be written with `..Default::default()`; an empty name is
// refused when it reaches the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
#[cfg_attr(feature = "development", derive(ts_rs::TS), ts(type = "string"))]
pub struct Name(String);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn check(text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Err("must not be empty (a name is 1 to 256 bytes of UTF-8)".to_owned());
        }
        Self::check_text(text)
    }

    /// The rule for short texts that may be empty.
    pub(crate) fn check_text(text: &str) -> Result<(), String> {
        if text.len() > MAX_NAME_BYTES {
            return Err(format!("is {} bytes long; at most {MAX_NAME_BYTES} bytes of UTF-8 are allowed", text.len()));
        }
        match text.chars().find(|c| c.is_control()) {
            Some(c) => Err(format!("contains the control character U+{:04X}", c as u32)),
            None => Ok(()),
        }
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::check(text).map_err(|reason| Error::invalid(format!("the name {reason}")))?;
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::check(&text).map_err(serde::de::Error::custom)?;
        Ok(Self(text))
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ToSql for Name {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        // The last guard for names that Rust callers made with `Default`.
        Self::check(&self.0)
            .map_err(|reason| rusqlite::Error::ToSqlConversionFailure(Box::new(Error::invalid(format!("a name {reason}")))))?;
        self.0.to_sql()
    }
}

/// A new UUIDv7 for something made at `now_ms`. Ids made in the same millisecond keep no particular order.
#[expect(clippy::disallowed_methods, reason = "the one place that draws random ids")]
pub(crate) fn new_id(now_ms: i64) -> String {
    let ms = u64::try_from(now_ms).unwrap_or(0);
    let timestamp = uuid::Timestamp::from_unix(uuid::NoContext, ms / 1000, ((ms % 1000) * 1_000_000) as u32);
    uuid::Uuid::new_v7(timestamp).to_string()
}

/// 32 random bytes in hex.
pub(crate) fn new_secret() -> Result<String> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(crate::ErrorCode::Internal, format!("there is no source of randomness: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
