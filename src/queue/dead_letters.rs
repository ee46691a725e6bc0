//! Items whose attempts are used up.

use super::limits::changed;
use super::{Held, ItemStatus, WorkItem, queue_key, select_item, shift};
use crate::error::{Error, ErrorCode, Result};
use crate::ids::Name;
use crate::json::Json;
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Store, Tx};

arguments! {
    /// Which dead letters to list; without members, all of them.
    pub struct ListDeadLetters {
        pub queue: Option<Name>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }

    /// Gives dead letters another life.
    pub struct Redrive {
        /// One of them.
        pub id: Option<Name>,
        /// All of a queue; give either this or `id`.
        pub queue: Option<Name>,
        /// Takes the place of the payload.
        pub payload: Option<Json>,
    }

    pub struct DeadLetterId {
        pub id: Name,
    }
}

records! {
    pub struct Redriven {
        /// How many items are pending again.
        pub redriven: i64,
        /// Items of the queue that stay where they are, and why.
        pub refused: Vec<Refused>,
    }

    pub struct Refused {
        pub id: String,
        pub code: ErrorCode,
        pub message: String,
    }
}

/// Rows that one transaction of a redrive of many deals with.
const STEP: i64 = 100;

pub(crate) fn list(tx: &Tx<'_>, filter: ListDeadLetters) -> Result<Page<WorkItem>> {
    let limit = page::limit(filter.limit)?;
    let order = filter.order.unwrap_or_default();
    let queue = match &filter.queue {
        None => None,
        Some(name) => match queue_key(tx, name)? {
            None => return Ok(PageBuilder::unfiltered(limit).finish()),
            key => key,
        },
    };
    let mut page = if queue.is_none() { PageBuilder::unfiltered(limit) } else { PageBuilder::filtered(limit) };
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => {
            select_item!("WHERE i.tenant = ?4 AND i.status = 'dead_lettered' AND i.key BETWEEN ?1 AND ?2 ORDER BY i.key LIMIT ?3")
        }
        Order::Desc => {
            select_item!(
                "WHERE i.tenant = ?4 AND i.status = 'dead_lettered' AND i.key BETWEEN ?1 AND ?2 ORDER BY i.key DESC LIMIT ?3"
            )
        }
    };
    tx.walk(sql, (from, to, page.scanned(), tx.tenant), |row| {
        let number = tx.number_of(row.get(0)?);
        if filter.queue.is_some() && row.get::<_, String>(5)? != filter.queue.as_deref().unwrap_or_default() {
            page.skip(number);
            return Ok(true);
        }
        page.visit(number, super::read(row), WorkItem::weight)
    })?;
    Ok(page.finish())
}

pub(crate) fn redrive(store: &Store, arguments: Redrive) -> Result<Redriven> {
    store.write(|tx| tx.document("payload", arguments.payload.as_ref()))?;
    match (&arguments.id, &arguments.queue) {
        (Some(id), None) => {
            store.once(|tx| redrive_one(tx, &Held::get(tx, id)?, arguments.payload.as_ref()))?;
            Ok(Redriven { redriven: 1, refused: Vec::new() })
        }
        (None, Some(queue)) => redrive_queue(store, queue, arguments.payload.as_ref()),
        _ => {
            Err(Error::invalid("give the id of one dead letter, or the queue whose dead letters are all meant")
                .with("path", "id"))
        }
    }
}

fn redrive_queue(store: &Store, queue: &Name, payload: Option<&Json>) -> Result<Redriven> {
    let mut report = Redriven { redriven: 0, refused: Vec::new() };
    let mut after = 0;
    loop {
        let step = store.write(|tx| {
            let Some(queue) = queue_key(tx, queue)? else { return Ok(None) };
            let letters = tx.rows(
                super::select_held!(
                    "WHERE tenant = ?1 AND status = 'dead_lettered' AND key > ?2 AND queue = ?3 ORDER BY key LIMIT ?4"
                ),
                (tx.tenant, after, queue, STEP),
                Held::read,
            )?;
            let mut step = Redriven { redriven: 0, refused: Vec::new() };
            for letter in &letters {
                match redrive_one(tx, letter, payload) {
                    Ok(()) => step.redriven += 1,
                    Err(error) if matches!(error.code(), ErrorCode::Conflict | ErrorCode::InvalidTransition) => step
                        .refused
                        .push(Refused { id: letter.id.clone(), code: error.code(), message: error.message().to_owned() }),
                    Err(error) => return Err(error),
                }
            }
            Ok(letters.last().map(|last| (last.key, step)))
        })?;
        let Some((last, step)) = step else { return Ok(report) };
        after = last;
        report.redriven += step.redriven;
        report.refused.extend(step.refused);
    }
}

/// Checks everything before it changes anything, so that a refusal leaves the transaction of a series intact.
fn redrive_one(tx: &Tx<'_>, item: &Held, payload: Option<&Json>) -> Result<()> {
    must_be_dead(item)?;
    if let Some(head) = item.execution(tx)? {
        head.must_be_open("work items")?;
    }
    let live = tx.row(
        "SELECT l.id FROM items d JOIN items l ON l.queue = d.queue AND l.idempotency_key = d.idempotency_key AND l.finished_at IS NULL
         WHERE d.key = ?1 AND l.key <> d.key AND l.idempotency_key IS NOT NULL LIMIT 1",
        [item.key],
        |row| Ok(row.get::<_, String>(0)?),
    )?;
    if let Some(live) = live {
        return Err(Error::conflict(format!(
            "the dead letter {:?} has the idempotency key of the item {live:?}, which is not finished",
            item.id
        ))
        .with("id", item.id.as_str())
        .with("liveId", live));
    }
    tx.execute_one(
        "UPDATE items SET status = 'pending', blocked = 0, attempt = 0, run_at = ?2, finished_at = NULL, cancel_requested = 0, settlement = NULL
         WHERE key = ?1 AND status = 'dead_lettered'",
        (item.key, tx.now),
    )?;
    if let Some(payload) = payload {
        super::enqueue::store_payload(tx, item.key, payload)?;
    }
    shift(tx, item.queue, Some(ItemStatus::DeadLettered), Some(ItemStatus::Pending), 1)?;
    changed(tx, item.queue, item.concurrency_key.as_deref())
}

fn must_be_dead(item: &Held) -> Result<()> {
    if item.status == ItemStatus::DeadLettered {
        return Ok(());
    }
    Err(Error::conflict(format!("the work item {:?} is {}, not dead_lettered", item.id, item.status.as_str()))
        .with("id", item.id.as_str())
        .with("status", item.status.as_str()))
}

pub(crate) fn delete(tx: &Tx<'_>, arguments: DeadLetterId) -> Result<()> {
    let item = Held::get(tx, &arguments.id)?;
    must_be_dead(&item)?;
    super::remove(tx, item.key, item.queue, item.status)
}
