//! The log of an execution: numbered, never changed.

pub mod types;

use rusqlite::Row;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::executions::{Created, Head, record};
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Columns, Tx};

records! {
    /// One fact in the log of an execution.
    pub struct Event {
        pub id: String,
        pub execution_id: String,
        /// 1, 2, 3 … per execution, without gaps.
        pub sequence: i64,
        #[cfg_attr(feature = "development", ts(rename = "type"))]
        pub event_type: String as "type",
        pub data: Json,
        /// Unix milliseconds.
        pub created_at: i64,
    }
}

arguments! {
    pub struct AppendEvent {
        pub execution_id: Name,
        /// A known type, or one of your own that begins with `x-`.
        #[cfg_attr(feature = "development", ts(rename = "type"))]
        pub event_type: Name as "type",
        pub data: Option<Json> as optional,
        /// Made by the store unless given. The same id with the same arguments answers the event that exists.
        pub id: Option<Name>,
        /// Appends only if this is the log's last sequence; `conflict` otherwise.
        pub expected_sequence: Option<i64>,
    }

    /// An event of a list of them.
    pub struct EventInput {
        #[cfg_attr(feature = "development", ts(rename = "type"))]
        pub event_type: Name as "type",
        pub data: Option<Json> as optional,
        pub id: Option<Name>,
    }

    pub struct AppendEvents {
        pub execution_id: Name,
        pub events: Vec<EventInput>,
        pub expected_sequence: Option<i64>,
    }

    /// Which events of an execution to list.
    pub struct ListEvents {
        pub execution_id: Name,
        /// Only events with a larger sequence.
        pub after: Option<i64>,
        /// Only events of these types.
        pub types: Option<Vec<Name>>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }

    pub struct LatestSequence {
        pub execution_id: Name,
    }
}

/// An event about to be appended.
pub(crate) struct NewEvent {
    id: Option<Name>,
    pub(crate) event_type: String,
    pub(crate) data: Json,
}

impl NewEvent {
    /// One that the store itself writes.
    pub(crate) fn of(event_type: &str, data: &Value) -> Self {
        Self { id: None, event_type: event_type.to_owned(), data: data.into() }
    }

    /// One that a caller gives. `path` names it in errors.
    pub(crate) fn checked(tx: &Tx<'_>, path: &str, input: EventInput) -> Result<Self> {
        let data = input.data.unwrap_or_default();
        tx.document(&format!("{path}data"), Some(&data))?;
        types::check(&input.event_type, &data)?;
        Ok(Self { id: input.id, event_type: input.event_type.to_string(), data })
    }
}

/// Checks a list of a caller's events.
pub(crate) fn checked(tx: &Tx<'_>, path: &str, inputs: Vec<EventInput>) -> Result<Vec<NewEvent>> {
    inputs
        .into_iter()
        .enumerate()
        .map(|(index, input)| {
            NewEvent::checked(tx, &format!("{path}[{index}]."), input).map_err(|error| error.with("index", index))
        })
        .collect()
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT sequence, id, type, data, created_at FROM events ", $rest)
    };
}

fn read(row: &Row<'_>, execution_id: &str) -> Result<Event> {
    let columns = Columns::with_id(row, "events", 1);
    Ok(Event {
        sequence: columns.get(0)?,
        id: columns.get(1)?,
        event_type: columns.get(2)?,
        data: columns.get(3)?,
        created_at: columns.get(4)?,
        execution_id: execution_id.to_owned(),
    })
}

/// The event that exists under the id of `event`, if it is the same one; `conflict` if it is another.
pub(crate) fn known(tx: &Tx<'_>, head: &Head, event: &NewEvent) -> Result<Option<Event>> {
    let Some(id) = &event.id else { return Ok(None) };
    let known = tx.row(
        "SELECT sequence, id, type, data, created_at, execution FROM events WHERE tenant = ?1 AND id = ?2",
        (tx.tenant, id),
        |row| Ok((read(row, &head.id)?, row.get::<_, i64>(5)?)),
    )?;
    let Some((known, execution)) = known else { return Ok(None) };
    let same = execution == head.key
        && known.event_type == event.event_type
        && (known.data == event.data || digest(&known.data)? == digest(&event.data)?);
    if !same {
        return Err(
            Error::conflict(format!("there is an event {:?} already, with other content", id.as_str())).with("id", id.as_str())
        );
    }
    Ok(Some(known))
}

/// Inserts one event under the next sequence.
pub(crate) fn insert(tx: &Tx<'_>, head: &mut Head, event: NewEvent) -> Result<Event> {
    head.last_sequence += 1;
    let id = event.id.map_or_else(|| new_id(tx.now), |id| id.to_string());
    tx.execute_one(
        "INSERT INTO events (execution, sequence, tenant, id, type, data, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (head.key, head.last_sequence, tx.tenant, &id, &event.event_type, &event.data, tx.now),
    )?;
    Ok(Event {
        id,
        execution_id: head.id.clone(),
        sequence: head.last_sequence,
        event_type: event.event_type,
        data: event.data,
        created_at: tx.now,
    })
}

/// An event in its row.
pub(crate) struct Logged<'r> {
    pub(crate) sequence: i64,
    pub(crate) id: &'r str,
    pub(crate) event_type: &'r str,
    pub(crate) data: &'r str,
    pub(crate) created_at: i64,
}

/// Visits the events of a log in order, after one sequence and up to another. A row that cannot be read ends the walk as `corrupt`, and so
/// does an error of `visit`: it is the row's.
pub(crate) fn walk(
    tx: &Tx<'_>,
    head: &Head,
    after: i64,
    at: i64,
    visit: &mut dyn FnMut(&Logged<'_>) -> Result<()>,
) -> Result<()> {
    tx.walk(
        select!("WHERE execution = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence"),
        (head.key, after, at),
        |row| {
            let text = |at| row.get_ref(at).ok()?.as_str().ok();
            let logged = || {
                let (sequence, created_at) = (row.get(0).ok()?, row.get(4).ok()?);
                Some(Logged { sequence, id: text(1)?, event_type: text(2)?, data: text(3)?, created_at })
            };
            // Reading it in full says what is wrong.
            let Some(logged) = logged() else { return read(row, &head.id).map(|_| true) };
            visit(&logged).map_err(|error| Error::corrupt("events", logged.id, format!("data: {}", error.message())))?;
            Ok(true)
        },
    )
}

/// One event of a log.
pub(crate) fn at(tx: &Tx<'_>, head: &Head, sequence: i64) -> Result<Option<Event>> {
    tx.row(select!("WHERE execution = ?1 AND sequence = ?2"), (head.key, sequence), |row| read(row, &head.id))
}

/// What a `node_completed` event says that the node put out.
pub(crate) fn node_output(tx: &Tx<'_>, head: &Head, sequence: i64) -> Result<Json> {
    let output = tx.row("SELECT data, id FROM events WHERE execution = ?1 AND sequence = ?2", (head.key, sequence), |row| {
        let unreadable = |reason: String| match row.get::<_, String>(1) {
            Ok(id) => Error::corrupt("events", &id, format!("data: {reason}")),
            Err(error) => error.into(),
        };
        let data = row.get_ref(0)?.as_str().map_err(|error| unreadable(error.to_string()))?;
        let fields = types::Fields::read(data).map_err(|error| unreadable(error.message().to_owned()))?;
        Ok(fields.json("output").unwrap_or_default())
    })?;
    output
        .ok_or_else(|| Error::corrupt("events", &format!("{}/{sequence}", head.id), "a snapshot speaks of it, and it is missing"))
}

/// Refuses a change that expects the log to be elsewhere.
pub(crate) fn check_sequence(head: &Head, expected: Option<i64>) -> Result<()> {
    match expected.filter(|&expected| expected != head.last_sequence) {
        None => Ok(()),
        Some(expected) => Err(Error::conflict(format!(
            "the log of the execution {:?} is at sequence {}, not {expected} as expected",
            head.id, head.last_sequence
        ))
        .with("executionId", head.id.as_str())
        .with("expectedSequence", expected)
        .with("lastSequence", head.last_sequence)),
    }
}

fn check_expected(tx: &Tx<'_>, head: &Head, expected: Option<i64>, new: &[NewEvent]) -> Result<()> {
    let checked = check_sequence(head, expected);
    if checked.is_err() && !new.is_empty() {
        // A repeated call finds its own events in the log, and answers them as it did the first time.
        let mut repeated = true;
        for event in new {
            repeated = repeated && known(tx, head, event)?.is_some();
        }
        if repeated {
            return Ok(());
        }
    }
    checked
}

pub(crate) fn append(tx: &Tx<'_>, arguments: AppendEvent) -> Result<Created<Event>> {
    let input = EventInput { event_type: arguments.event_type, data: arguments.data, id: arguments.id };
    let new = vec![NewEvent::checked(tx, "", input)?];
    let mut head = Head::get(tx, &arguments.execution_id)?;
    check_expected(tx, &head, arguments.expected_sequence, &new)?;
    let mut appended = record(tx, &mut head, new)?;
    Ok(appended.swap_remove(0))
}

pub(crate) fn append_many(tx: &Tx<'_>, arguments: AppendEvents) -> Result<Vec<Created<Event>>> {
    let new = checked(tx, "events", arguments.events)?;
    let mut head = Head::get(tx, &arguments.execution_id)?;
    check_expected(tx, &head, arguments.expected_sequence, &new)?;
    let given = new.len();
    let mut appended = record(tx, &mut head, new)?;
    // Events that followed from these (items cancelled by an end) are in the log, and not part of the answer.
    appended.truncate(given);
    Ok(appended)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListEvents) -> Result<Page<Event>> {
    let limit = page::limit(filter.limit)?;
    let head = Head::get(tx, &filter.execution_id)?;
    let cursor = page::parse_cursor(filter.cursor.as_deref())?;
    let order = filter.order.unwrap_or_default();
    let (mut from, mut to) = (filter.after.unwrap_or(0).max(0).saturating_add(1), i64::MAX);
    match (cursor, order) {
        (Some(cursor), Order::Asc) => from = from.max(cursor.saturating_add(1)),
        (Some(cursor), Order::Desc) => to = cursor - 1,
        (None, _) => {}
    }
    let mut page = if filter.types.is_none() { PageBuilder::unfiltered(limit) } else { PageBuilder::filtered(limit) };
    let sql = match order {
        Order::Asc => select!("WHERE execution = ?1 AND sequence BETWEEN ?2 AND ?3 ORDER BY sequence LIMIT ?4"),
        Order::Desc => select!("WHERE execution = ?1 AND sequence BETWEEN ?2 AND ?3 ORDER BY sequence DESC LIMIT ?4"),
    };
    tx.walk(sql, (head.key, from, to, page.scanned()), |row| {
        let sequence: i64 = row.get(0)?;
        if let Some(types) = &filter.types {
            let event_type: String = row.get(2)?;
            if !types.iter().any(|wanted| wanted.as_str() == event_type) {
                page.skip(sequence);
                return Ok(true);
            }
        }
        page.visit(sequence, read(row, &head.id), |event| event.data.as_str().len() + 200)
    })?;
    Ok(page.finish())
}

pub(crate) fn latest_sequence(tx: &Tx<'_>, arguments: LatestSequence) -> Result<i64> {
    Ok(Head::get(tx, &arguments.execution_id)?.last_sequence)
}
