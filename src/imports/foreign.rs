//! SQLite files of other programs, opened so that nothing in them runs: no triggers, no views, no functions, no computed columns.

use std::io::Read as _;

use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{Connection, Row};
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorCode, Result};
use crate::ids::Name;
use crate::json::Json;

/// A table that is read, and its columns. The first one names the row in reports.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [&'static str],
    pub(super) required: bool,
}

/// A value of a row, or why it cannot be read.
pub(super) type Read<T> = std::result::Result<T, String>;

pub(super) struct Foreign {
    connection: Connection,
}

const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;

impl Foreign {
    /// Opens a copy of the file in memory, to be read only. `what` says in errors what it should be.
    pub(super) fn open(bytes: &[u8], what: &str) -> Result<Self> {
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(MAGIC) {
            return Err(Error::invalid(format!(
                "these {} bytes are not a SQLite database, so they are no {what}; pass the content of the file",
                bytes.len()
            )));
        }
        check_length(bytes)?;
        // A database in memory has no WAL; the format of the pages is the same.
        let mut head = bytes[..20].to_vec();
        head[18..20].fill(1);
        let mut connection = Connection::open_in_memory()?;
        for (setting, on) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        ] {
            connection.set_db_config(setting, on)?;
        }
        connection.deserialize_read_exact("main", head.as_slice().chain(&bytes[20..]), bytes.len(), true)?;
        connection.execute_batch("PRAGMA query_only = on; PRAGMA cell_size_check = on; PRAGMA ignore_check_constraints = on")?;
        Ok(Self { connection })
    }

    /// Which of the tables are there. Refuses the file where one that must be is not, or what bears its name is no plain table with
    /// these columns.
    pub(super) fn tables(&self, tables: &'static [Table], what: &str) -> Result<Vec<&'static Table>> {
        let mut there = Vec::new();
        let mut missing = Vec::new();
        for table in tables {
            let mut kinds = self.connection.prepare(
                "SELECT type, coalesce(rootpage, 0) FROM main.sqlite_schema WHERE lower(name) = ?1 AND type <> 'index'",
            )?;
            let kinds = kinds
                .query_map([table.name], |row| Ok((lossy(row)?, row.get::<_, i64>(1)?)))?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            match kinds.as_slice() {
                [] if table.required => missing.push(table.name),
                [] => {}
                // A virtual table has no pages: its rows come from a module's code.
                [(kind, root)] if kind == "table" && *root > 0 => {
                    self.check_columns(table, what)?;
                    self.check_pages(table)?;
                    there.push(table);
                }
                [(kind, _), ..] => {
                    let kind = if kind == "table" { "virtual table" } else { kind.as_str() };
                    return Err(Error::invalid(format!(
                        "{:?} is a {kind} in this file and a plain table in a {what}; nothing was imported",
                        table.name
                    ))
                    .with("table", table.name));
                }
            }
        }
        if missing.is_empty() {
            return Ok(there);
        }
        Err(Error::invalid(format!(
            "this SQLite database is no {what}: it has no table {}. Rows that are still in its \"-wal\" file do not count: checkpoint \
             it first",
            missing.join(", ")
        ))
        .with("missing", missing))
    }

    fn check_columns(&self, table: &Table, what: &str) -> Result<()> {
        let mut columns = self.connection.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")?;
        let columns = columns
            .query_map([table.name], |row| Ok((lossy(row)?, row.get::<_, i64>(1)?)))?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        for wanted in table.columns {
            match columns.iter().find(|(name, _)| name == wanted) {
                Some((_, 0)) => {}
                Some(_) => {
                    return Err(Error::invalid(format!(
                        "{}.{wanted} is computed in this file and a plain column in a {what}; nothing was imported",
                        table.name
                    ))
                    .with("table", table.name));
                }
                None => {
                    return Err(Error::invalid(format!(
                        "the table {:?} of this file has no column {wanted:?}, which a {what} has; nothing was imported",
                        table.name
                    ))
                    .with("table", table.name));
                }
            }
        }
        // The rows are named by it, and it must not be a column of the file's own.
        if columns.iter().any(|(name, _)| ["rowid", "_rowid_", "oid"].contains(&name.to_lowercase().as_str())) {
            return Err(Error::invalid(format!(
                "the table {:?} of this file has a column rowid, which a {what} has not",
                table.name
            ))
            .with("table", table.name));
        }
        Ok(())
    }

    /// Refuses a table whose pages are damaged: where they refer to each other, reading it might never end.
    fn check_pages(&self, table: &Table) -> Result<()> {
        // These are about single rows, which are told when they are read.
        const OF_ROWS: &[&str] = &["ok", "NULL value in ", "TEXT value in ", "NUMERIC value in ", "non-unique entry in "];
        let mut found = self.connection.prepare(&format!("PRAGMA main.quick_check({})", table.name))?;
        let mut found = found.query([])?;
        while let Some(row) = found.next()? {
            let said = lossy(row)?;
            if !OF_ROWS.iter().any(|beginning| said.starts_with(beginning)) {
                return Err(Error::new(
                    ErrorCode::Corrupt,
                    format!("the table {:?} of the file is damaged: {said}; nothing was imported", table.name),
                )
                .with("table", table.name));
            }
        }
        Ok(())
    }

    /// Reads a table through, in the order in which its rows were made, and answers what `read` makes of each. A file that is damaged
    /// shows it here.
    pub(super) fn scan<T>(&self, table: &Table, mut read: impl FnMut(i64, &Record<'_, '_>) -> T) -> Result<Vec<T>> {
        let sql = format!("SELECT {}, rowid FROM main.{} NOT INDEXED ORDER BY rowid", table.columns.join(", "), table.name);
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            for column in 0..table.columns.len() {
                row.get_ref(column)?;
            }
            all.push(read(row.get(table.columns.len())?, &Record { row, table }));
        }
        Ok(all)
    }

    /// Reads one row.
    pub(super) fn row<T>(&self, table: &Table, rowid: i64, read: impl FnOnce(&Record<'_, '_>) -> T) -> Result<T> {
        let sql = format!("SELECT {} FROM main.{} NOT INDEXED WHERE rowid = ?1", table.columns.join(", "), table.name);
        let mut statement = self.connection.prepare(&sql)?;
        Ok(statement.query_row([rowid], |row| Ok(read(&Record { row, table })))?)
    }
}

/// The text in the first column, whatever bytes it has.
fn lossy(row: &Row<'_>) -> rusqlite::Result<String> {
    Ok(row.get_ref(0)?.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())?)
}

/// Refuses a file that ends before its own header says.
fn check_length(bytes: &[u8]) -> Result<()> {
    let page = match u16::from_be_bytes([bytes[16], bytes[17]]) {
        1 => 65_536,
        size => usize::from(size),
    };
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    // The number of pages counts only where the same version wrote it that changed the file last.
    let pages = if word(24) == word(92) { word(28) as usize } else { 1 };
    let expected = page.saturating_mul(pages);
    if bytes.len() >= expected {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::Corrupt,
        format!("the file is cut off: it has {} bytes, and its header speaks of {expected}; nothing was imported", bytes.len()),
    )
    .with("bytes", bytes.len())
    .with("expectedBytes", expected))
}

/// A row of a foreign table. What cannot be read is said in words, with the column.
pub(super) struct Record<'r, 'q> {
    row: &'r Row<'q>,
    table: &'r Table,
}

impl Record<'_, '_> {
    /// What the row is called in reports.
    pub(super) fn id(&self) -> String {
        match self.row.get_ref(0) {
            Ok(ValueRef::Text(text) | ValueRef::Blob(text)) => String::from_utf8_lossy(text).into_owned(),
            Ok(ValueRef::Integer(number)) => number.to_string(),
            _ => "(no text)".to_owned(),
        }
    }

    pub(super) fn get<T: FromSql>(&self, column: &str) -> Read<T> {
        self.row.get(column).map_err(|error| match error {
            rusqlite::Error::FromSqlConversionFailure(_, _, inner) => format!("{column}: {inner}"),
            rusqlite::Error::InvalidColumnType(_, _, kind) => format!("{column}: its type is {kind}"),
            other => format!("{column}: {other}"),
        })
    }

    pub(super) fn name(&self, column: &str) -> Read<Name> {
        self.get::<String>(column)?.parse().map_err(|error: Error| format!("{column}: {}", error.message()))
    }

    pub(super) fn json(&self, column: &str) -> Read<Json> {
        Json::parse(self.get::<String>(column)?).map_err(|error| format!("{column}: {}", error.message()))
    }

    pub(super) fn optional_json(&self, column: &str) -> Read<Option<Json>> {
        match self.get::<Option<String>>(column)? {
            None => Ok(None),
            Some(_) => self.json(column).map(Some),
        }
    }

    pub(super) fn time(&self, column: &str) -> Read<i64> {
        time(&self.get::<String>(column)?).map_err(|reason| format!("{column}: {reason}"))
    }

    pub(super) fn optional_time(&self, column: &str) -> Read<Option<i64>> {
        match self.get::<Option<String>>(column)? {
            None => Ok(None),
            Some(_) => self.time(column).map(Some),
        }
    }

    /// A digest of the whole row: tells it from another one of the same id.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.table.name);
        for column in 0..self.table.columns.len() {
            let (kind, bytes): (u8, Vec<u8>) = match self.row.get_ref(column) {
                Ok(ValueRef::Integer(number)) => (b'i', number.to_be_bytes().to_vec()),
                Ok(ValueRef::Real(number)) => (b'r', number.to_be_bytes().to_vec()),
                Ok(ValueRef::Text(text)) => (b't', text.to_vec()),
                Ok(ValueRef::Blob(blob)) => (b'b', blob.to_vec()),
                Ok(ValueRef::Null) | Err(_) => (b'n', Vec::new()),
            };
            digest.update([kind]);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
        digest.finalize().into()
    }
}

/// A time as text, RFC 3339 or as SQLite's `datetime()` writes it (UTC), in Unix milliseconds. What is finer is cut off.
pub(super) fn time(text: &str) -> Read<i64> {
    let read = |text: &str| chrono::DateTime::parse_from_rfc3339(text).map(|time| time.timestamp_millis());
    // RFC 3339 allows the space that SQLite writes, and wants a zone.
    let of_sqlite = || text.contains(' ').then(|| format!("{text}Z"));
    read(text)
        .or_else(|refused| of_sqlite().map_or(Err(refused), |text| read(&text)))
        .map_err(|_| format!("{text:?} is no RFC 3339 time"))
}
