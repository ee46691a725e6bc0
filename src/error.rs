//! The one error type of the store.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::json::{self, Json, Object, Record, ToJson};

/// What went wrong, as a word that programs can act on.
///
/// In JSON and in JavaScript each is the snake_case form of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "development", derive(ts_rs::TS))]
#[non_exhaustive]
pub enum ErrorCode {
    /// An argument has the wrong type, an unknown field or a value that is not allowed.
    InvalidArgument,
    /// What the call names does not exist.
    NotFound,
    /// The call contradicts what is stored.
    Conflict,
    /// The status does not allow the change.
    InvalidTransition,
    /// The fence named is not, or no longer, the item's current one.
    LeaseLost,
    /// A document is over its size or nesting limit.
    TooLarge,
    /// A configured limit is reached.
    LimitExceeded,
    /// The tenant is suspended: it reads and settles, and neither creates nor claims.
    TenantSuspended,
    /// The device or the browser has no room left.
    QuotaExceeded,
    /// The database could not be opened or read.
    StorageUnavailable,
    /// The stored data was removed while the store was open.
    StorageLost,
    /// Another connection holds the database, or too many calls wait.
    Busy,
    /// The deadline passed; whether the call took effect is not known.
    Timeout,
    /// The database was written by a newer version.
    SchemaTooNew,
    /// A row, or the file itself, cannot be read.
    Corrupt,
    /// The store is closed.
    Closed,
    /// This operation does not exist here.
    Unsupported,
    /// A workflow took another path than the one recorded.
    Nondeterminism,
    /// A fault of runkeep itself.
    Internal,
}

impl ErrorCode {
    /// The code as it is written in JSON, for instance `invalid_argument`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::InvalidTransition => "invalid_transition",
            Self::LeaseLost => "lease_lost",
            Self::TooLarge => "too_large",
            Self::LimitExceeded => "limit_exceeded",
            Self::TenantSuspended => "tenant_suspended",
            Self::QuotaExceeded => "quota_exceeded",
            Self::StorageUnavailable => "storage_unavailable",
            Self::StorageLost => "storage_lost",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::SchemaTooNew => "schema_too_new",
            Self::Corrupt => "corrupt",
            Self::Closed => "closed",
            Self::Unsupported => "unsupported",
            Self::Nondeterminism => "nondeterminism",
            Self::Internal => "internal",
        }
    }

    /// Whether the store as such is the trouble, whatever it was asked to do.
    pub(crate) fn is_of_the_store(self) -> bool {
        matches!(self, Self::Busy | Self::StorageUnavailable | Self::StorageLost | Self::QuotaExceeded | Self::Closed)
    }

    /// Whether the same call may succeed later without being changed.
    pub fn retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Timeout | Self::StorageUnavailable | Self::QuotaExceeded | Self::LimitExceeded)
    }
}

/// What every operation answers when it does not succeed. Nothing has been changed then.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    code: ErrorCode,
    message: String,
    details: Map<String, Value>,
    retryable: bool,
}

/// The result of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with a message that says what was wrong, with which value, and what to do.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { code, message: message.into(), details: Map::new(), retryable: code.retryable() }))
    }

    /// Adds one member to [`details`](Self::details).
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(key.to_owned(), value.into());
        self
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArgument, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Conflict, message)
    }

    /// `kind` is what was looked for ("execution"), in the words of the documentation.
    pub(crate) fn not_found(kind: &str, id: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("there is no {kind} {id:?}")).with("kind", kind).with("id", id)
    }

    pub(crate) fn corrupt(table: &str, id: &str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::new(ErrorCode::Corrupt, format!("the row {id:?} of {table} cannot be read: {reason}"))
            .with("table", table)
            .with("id", id)
            .with("reason", reason)
    }

    /// What went wrong, as a word that programs can act on.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// What went wrong, in words.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Facts about the error: which id, which field, which statuses.
    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }

    /// Whether the same call may succeed later without being changed.
    pub fn retryable(&self) -> bool {
        self.0.retryable
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code.as_str(), self.0.message)
    }
}

impl std::error::Error for Error {}

impl Record for Error {
    fn members(&self, object: &mut Object<'_>) {
        object.member("code", &self.0.code.as_str());
        object.member("message", &self.0.message);
        if !self.0.details.is_empty() {
            object.member("details", &Json::from(Value::Object(self.0.details.clone())));
        }
        object.member("retryable", &self.0.retryable);
    }
}

impl ToJson for Error {
    fn to_json(&self, out: &mut Vec<u8>) {
        json::object(self, out);
    }
}

impl Serialize for Error {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json::serialize(self, serializer)
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ffi;
        match error {
            // An error of ours that travelled through a column conversion comes back as it was.
            rusqlite::Error::ToSqlConversionFailure(inner) | rusqlite::Error::FromSqlConversionFailure(_, _, inner)
                if inner.is::<Error>() =>
            {
                match inner.downcast::<Error>() {
                    Ok(own) => *own,
                    Err(other) => Self::new(ErrorCode::Internal, other.to_string()),
                }
            }
            rusqlite::Error::SqliteFailure(failure, ref text) => {
                let said = text.clone().unwrap_or_else(|| failure.to_string());
                let (code, message) = match failure.extended_code & 0xff {
                    ffi::SQLITE_FULL => (
                        ErrorCode::QuotaExceeded,
                        "the device or the browser has no room left for this store; delete data and try again".to_owned(),
                    ),
                    ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => {
                        (ErrorCode::Busy, "another connection holds the database; try again".to_owned())
                    }
                    ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => {
                        (ErrorCode::Corrupt, format!("the file is not a readable SQLite database: {said}"))
                    }
                    ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN | ffi::SQLITE_READONLY | ffi::SQLITE_PERM => {
                        (ErrorCode::StorageUnavailable, format!("the database cannot be read or written: {said}"))
                    }
                    ffi::SQLITE_TOOBIG => (ErrorCode::TooLarge, "a value is larger than SQLite can store".to_owned()),
                    _ => (ErrorCode::Internal, format!("SQLite: {said}")),
                };
                Self::new(code, message).with("sqlite", failure.extended_code)
            }
            other => Self::new(ErrorCode::Internal, format!("SQLite: {other}")),
        }
    }
}
