//! Thread events: what happened to a thread, numbered for the whole tenant.

use rusqlite::Row;

use super::Head;
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::json::Json;
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Columns, Tx};

records! {
    /// Something that happened to a thread.
    pub struct ThreadEvent {
        /// Rises with each event of the tenant, whichever thread it is of; no number is given twice.
        pub sequence: i64,
        pub thread_id: String,
        pub turn_id: Option<String>,
        pub item_id: Option<String>,
        #[cfg_attr(feature = "development", ts(rename = "type"))]
        pub event_type: String as "type",
        pub data: Json,
        /// Unix milliseconds.
        pub created_at: i64,
    }
}

arguments! {
    /// A new event of a thread.
    pub struct AppendThreadEvent {
        pub thread_id: Name,
        /// Kept as it is given.
        pub turn_id: Option<Name>,
        /// Kept as it is given.
        pub item_id: Option<Name>,
        #[cfg_attr(feature = "development", ts(rename = "type"))]
        pub event_type: Name as "type",
        /// Any JSON; null unless given.
        pub data: Option<Json>,
    }

    /// Which events of a thread to list.
    pub struct ListThreadEvents {
        pub thread_id: Name,
        /// Only events with a larger sequence.
        pub after: Option<i64>,
        /// Only events of these types.
        pub types: Option<Vec<Name>>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT key, type, turn_id, item_id, data, created_at FROM thread_events ", $rest)
    };
}

fn read(tx: &Tx<'_>, row: &Row<'_>, thread: &Head) -> Result<ThreadEvent> {
    let sequence = tx.number_of(row.get(0)?);
    let columns = Columns::new(row, "thread_events", sequence.to_string());
    Ok(ThreadEvent {
        sequence,
        thread_id: thread.id.to_string(),
        event_type: columns.get(1)?,
        turn_id: columns.get(2)?,
        item_id: columns.get(3)?,
        data: columns.get(4)?,
        created_at: columns.get(5)?,
    })
}

/// Appends an event. Answers its sequence.
pub(crate) fn append(tx: &Tx<'_>, arguments: AppendThreadEvent) -> Result<i64> {
    tx.document("data", arguments.data.as_ref())?;
    let thread = Head::get(tx, &arguments.thread_id)?;
    tx.touch(Topic::ThreadEvents, &thread.id);
    // Not the largest key: that one may have been deleted.
    let sequence = tx.row(
        "INSERT INTO thread_event_sequences (tenant, last) VALUES (?1, 1) ON CONFLICT (tenant) DO UPDATE SET last = last + 1 RETURNING last",
        [tx.tenant],
        |row| Ok(row.get::<_, i64>(0)?),
    )?;
    let sequence =
        sequence.ok_or_else(|| Error::corrupt("thread_event_sequences", &tx.tenant.to_string(), "its row cannot be written"))?;
    tx.execute_one(
        "INSERT INTO thread_events (key, tenant, thread, turn_id, item_id, type, data, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        (
            tx.key_of(sequence),
            tx.tenant,
            thread.key,
            arguments.turn_id,
            arguments.item_id,
            arguments.event_type,
            arguments.data.unwrap_or_default(),
            tx.now,
        ),
    )?;
    Ok(sequence)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListThreadEvents) -> Result<Page<ThreadEvent>> {
    let limit = page::limit(filter.limit)?;
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let from = from.max(tx.key_of(filter.after.unwrap_or(0).max(0)).saturating_add(1));
    let thread = Head::get(tx, &filter.thread_id)?;
    let mut page = if filter.types.is_none() { PageBuilder::unfiltered(limit) } else { PageBuilder::filtered(limit) };
    let sql = match order {
        Order::Asc => select!("WHERE thread = ?1 AND key BETWEEN ?2 AND ?3 ORDER BY key LIMIT ?4"),
        Order::Desc => select!("WHERE thread = ?1 AND key BETWEEN ?2 AND ?3 ORDER BY key DESC LIMIT ?4"),
    };
    tx.walk(sql, (thread.key, from, to, page.scanned()), |row| {
        let sequence = tx.number_of(row.get(0)?);
        if let Some(types) = &filter.types {
            // One whose type cannot be read may be any.
            let is_other = row.get::<_, String>(1).is_ok_and(|of| !types.iter().any(|wanted| wanted.as_str() == of));
            if is_other {
                page.skip(sequence);
                return Ok(true);
            }
        }
        page.visit(sequence, read(tx, row, &thread), |event| event.data.as_str().len() + 400)
    })?;
    Ok(page.finish())
}
