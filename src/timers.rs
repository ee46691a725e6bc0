//! Timers: at a time, an event in an execution's log, and a work item where one was asked for. The sweep fires them, each once.

use rusqlite::Row;
use serde_json::json;

use crate::error::{Error, ErrorCode, Result};
use crate::events::NewEvent;
use crate::executions::{Created, Head, record};
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder};
use crate::queue::{self, EnqueueItem};
use crate::store::{Columns, Tx};
use crate::sweep::{Problem, SweepReport};
use crate::tenants;

words! {
    /// Where a timer stands. Nothing leaves the last three.
    pub enum TimerStatus {
        Pending = "pending",
        Fired = "fired",
        Cancelled = "cancelled",
        /// It came due and could not fire; `error` tells why.
        Failed = "failed",
    }
}

records! {
    /// Something that happens to an execution at a time.
    pub struct Timer {
        pub id: String,
        pub execution_id: String,
        pub node_id: String,
        pub correlation_key: Option<String>,
        pub status: TimerStatus,
        /// Unix milliseconds.
        pub fire_at: i64,
        /// The work item that it enqueues, as it was given.
        pub enqueue: Option<Json>,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds.
        pub fired_at: Option<i64>,
        /// How long after `fireAt` it fired.
        pub late_by_ms: Option<i64>,
        pub error: Option<Problem>,
    }
}

arguments! {
    /// A new timer, with `fireAt` or `delayMs`.
    pub struct ScheduleTimer {
        /// Made by the store unless given. The same id with the same arguments answers the timer that exists.
        pub id: Option<Name>,
        pub execution_id: Name,
        pub node_id: Name,
        /// Unix milliseconds. A time in the past fires with the next sweep.
        pub fire_at: Option<i64>,
        /// Milliseconds from now.
        pub delay_ms: Option<i64>,
        /// Whatever the timer is to be known by; its events have it.
        pub correlation_key: Option<Name>,
        /// A work item to enqueue when it fires, for the timer's execution and node unless it names others.
        pub enqueue: Option<EnqueueItem>,
    }

    pub struct TimerId {
        pub id: Name,
    }

    /// Which timers to list.
    pub struct ListTimers {
        pub execution_id: Option<Name>,
        pub status: Option<TimerStatus>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT t.key, t.id, e.id, t.node_id, t.correlation_key, t.status, t.fire_at, t.enqueue, t.created_at, t.fired_at,
                    t.late_by_ms, t.error
             FROM timers t LEFT JOIN executions e ON e.key = t.execution ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<Timer> {
    let columns = Columns::with_id(row, "timers", 1);
    let id: String = columns.get(1)?;
    let execution_id: Option<String> = columns.get(2)?;
    Ok(Timer {
        execution_id: execution_id.ok_or_else(|| Error::corrupt("timers", &id, "its execution is missing"))?,
        id,
        node_id: columns.get(3)?,
        correlation_key: columns.get(4)?,
        status: columns.get(5)?,
        fire_at: columns.get(6)?,
        enqueue: columns.get(7)?,
        created_at: columns.get(8)?,
        fired_at: columns.get(9)?,
        late_by_ms: columns.get(10)?,
        error: columns.json(11)?,
    })
}

fn by_key(tx: &Tx<'_>, key: i64) -> Result<Timer> {
    tx.row(select!("WHERE t.key = ?1"), [key], read)?
        .ok_or_else(|| Error::corrupt("timers", &tx.number_of(key).to_string(), "its row is missing"))
}

/// The item that a timer enqueues, with what it takes from the timer.
fn complete(item: EnqueueItem, execution_id: &Name, node_id: &Name) -> EnqueueItem {
    EnqueueItem {
        execution_id: item.execution_id.or_else(|| Some(execution_id.clone())),
        node_id: item.node_id.or_else(|| Some(node_id.clone())),
        ..item
    }
}

pub(crate) fn schedule(tx: &Tx<'_>, arguments: ScheduleTimer) -> Result<Created<Timer>> {
    let fire_at = match (arguments.fire_at, arguments.delay_ms) {
        (Some(at), None) if at >= 0 => at,
        (Some(at), None) => {
            return Err(Error::invalid(format!("fireAt must be Unix milliseconds, not {at}")).with("path", "fireAt"));
        }
        (None, Some(ms)) => {
            queue::check_ms("delayMs", Some(ms), 0, queue::LONGEST_DELAY_MS)?;
            tx.now.saturating_add(ms)
        }
        (Some(_), Some(_)) => {
            return Err(Error::invalid("delayMs is given beside fireAt; give one of them").with("path", "delayMs"));
        }
        (None, None) => return Err(Error::invalid("fireAt is missing; give it, or delayMs").with("path", "fireAt")),
    };
    let given = arguments.enqueue.as_ref().map(Json::from_value).transpose()?;
    let digest = arguments.id.is_some().then(|| digest(&arguments)).transpose()?;
    if let Some(item) = arguments.enqueue {
        queue::check_item(tx, "enqueue.", &complete(item, &arguments.execution_id, &arguments.node_id))?;
    }
    if let Some(id) = &arguments.id {
        let known = tx.row("SELECT key, digest FROM timers WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<[u8; 32]>>(1)?))
        })?;
        match known {
            Some((key, known)) if known.is_some() && known == digest => {
                return Ok(Created { record: by_key(tx, key)?, created: false });
            }
            Some(_) => {
                return Err(Error::conflict(format!(
                    "there is a timer {:?} already, scheduled with other arguments",
                    id.as_str()
                ))
                .with("id", id.as_str()));
            }
            None => {}
        }
    }
    tenants::may_create(tx)?;
    let mut head = Head::get(tx, &arguments.execution_id)?;
    head.must_be_open("timers")?;
    tx.touch(Topic::Timers, &head.id);
    let key = tx.next_key("SELECT key FROM timers WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    let id = arguments.id.map_or_else(|| new_id(tx.now), |id| id.to_string());
    tx.execute_one(
        "INSERT INTO timers (key, tenant, id, execution, node_id, correlation_key, status, fire_at, enqueue, created_at, digest)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        (
            key,
            tx.tenant,
            id,
            head.key,
            &arguments.node_id,
            &arguments.correlation_key,
            TimerStatus::Pending,
            fire_at,
            given,
            tx.now,
            digest,
        ),
    )?;
    let mut data = json!({ "nodeId": arguments.node_id.as_str(), "fireAt": fire_at });
    if let Some(correlation_key) = &arguments.correlation_key {
        data["correlationKey"] = correlation_key.as_str().into();
    }
    record(tx, &mut head, vec![NewEvent::of("timer_created", &data)])?;
    Ok(Created { record: by_key(tx, key)?, created: true })
}

pub(crate) fn get(tx: &Tx<'_>, arguments: TimerId) -> Result<Option<Timer>> {
    tx.row(select!("WHERE t.tenant = ?1 AND t.id = ?2"), (tx.tenant, &arguments.id), read)
}

/// Cancels a timer that has not fired. Repeating it is fine.
pub(crate) fn cancel(tx: &Tx<'_>, arguments: TimerId) -> Result<Timer> {
    let id = &arguments.id;
    let found = tx.row("SELECT key, status FROM timers WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| {
        let columns = Columns::new(row, "timers", id.as_str());
        Ok((columns.get::<i64>(0)?, columns.get::<TimerStatus>(1)?))
    })?;
    let (key, status) = found.ok_or_else(|| Error::not_found("timer", id))?;
    match status {
        TimerStatus::Cancelled => {}
        TimerStatus::Pending => {
            tx.execute_one("UPDATE timers SET status = 'cancelled' WHERE key = ?1 AND status = 'pending'", [key])?;
            tx.touch(Topic::Timers, &by_key(tx, key)?.execution_id);
        }
        TimerStatus::Fired | TimerStatus::Failed => {
            let message = format!("the timer {:?} is {} and cannot be cancelled any more", id.as_str(), status.as_str());
            return Err(Error::new(ErrorCode::InvalidTransition, message)
                .with("id", id.as_str())
                .with("from", status.as_str())
                .with("to", TimerStatus::Cancelled.as_str()));
        }
    }
    by_key(tx, key)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListTimers) -> Result<Page<Timer>> {
    let limit = page::limit(filter.limit)?;
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let execution = filter.execution_id.as_ref().map(|id| Ok::<_, Error>(Head::get(tx, id)?.key)).transpose()?;
    let by_both = execution.is_some() && filter.status.is_some();
    let mut page = if by_both { PageBuilder::filtered(limit) } else { PageBuilder::unfiltered(limit) };
    let scanned = page.scanned();
    let status = filter.status.map(TimerStatus::as_str);
    let mut visit = |row: &Row<'_>| {
        let key: i64 = row.get(0)?;
        if by_both && Some(row.get::<_, String>(5)?.as_str()) != status {
            page.skip(tx.number_of(key));
            return Ok(true);
        }
        page.visit(tx.number_of(key), read(row), |timer| timer.enqueue.as_ref().map_or(0, |item| item.as_str().len()) + 300)
    };
    match (execution, status) {
        (Some(execution), _) => {
            let sql = match order {
                Order::Asc => select!("WHERE t.execution = ?1 AND t.key BETWEEN ?2 AND ?3 ORDER BY t.key LIMIT ?4"),
                Order::Desc => select!("WHERE t.execution = ?1 AND t.key BETWEEN ?2 AND ?3 ORDER BY t.key DESC LIMIT ?4"),
            };
            tx.walk(sql, (execution, from, to, scanned), &mut visit)?;
        }
        (None, Some(status)) => {
            let sql = match order {
                Order::Asc => {
                    select!("WHERE t.tenant = ?1 AND t.status = ?2 AND t.key BETWEEN ?3 AND ?4 ORDER BY t.key LIMIT ?5")
                }
                Order::Desc => {
                    select!("WHERE t.tenant = ?1 AND t.status = ?2 AND t.key BETWEEN ?3 AND ?4 ORDER BY t.key DESC LIMIT ?5")
                }
            };
            tx.walk(sql, (tx.tenant, status, from, to, scanned), &mut visit)?;
        }
        (None, None) => {
            let sql = match order {
                Order::Asc => select!("WHERE t.key BETWEEN ?1 AND ?2 ORDER BY t.key LIMIT ?3"),
                Order::Desc => select!("WHERE t.key BETWEEN ?1 AND ?2 ORDER BY t.key DESC LIMIT ?3"),
            };
            tx.walk(sql, (from, to, scanned), &mut visit)?;
        }
    }
    Ok(page.finish())
}

/// Fires the timer that is due for longest. Answers how many it dealt with: one, or none.
pub(crate) fn fire_due(tx: &Tx<'_>, report: &mut SweepReport) -> Result<i64> {
    // What a suspended tenant's timers bring has to wait; it is not lost.
    if !tenants::is_active(tx)? {
        return Ok(0);
    }
    let due = tx.row(
        "SELECT key FROM timers WHERE tenant = ?1 AND status = 'pending' AND fire_at <= ?2 ORDER BY fire_at LIMIT 1",
        (tx.tenant, tx.now),
        |row| Ok(row.get::<_, i64>(0)?),
    )?;
    let Some(key) = due else { return Ok(0) };
    match tx.attempt(|tx| fire(tx, key))? {
        Ok(()) => report.timers_fired += 1,
        Err(error) => {
            // Out of the way of those that come due after it.
            tx.execute_one(
                "UPDATE timers SET status = 'failed', error = ?2 WHERE key = ?1 AND status = 'pending'",
                (key, Json::of(&Problem::of(&error))?),
            )?;
            tx.touch_any(Topic::Timers);
            let id = tx.row("SELECT id FROM timers WHERE key = ?1", [key], |row| Ok(row.get::<_, String>(0)?))?;
            report.failed("timers", id, &error);
        }
    }
    Ok(1)
}

fn fire(tx: &Tx<'_>, key: i64) -> Result<()> {
    let timer = by_key(tx, key)?;
    tx.touch(Topic::Timers, &timer.execution_id);
    let late_by_ms = tx.now.saturating_sub(timer.fire_at).max(0);
    tx.execute_one(
        "UPDATE timers SET status = 'fired', fired_at = ?2, late_by_ms = ?3 WHERE key = ?1 AND status = 'pending'",
        (key, tx.now, late_by_ms),
    )?;
    let mut head = Head::get(tx, &timer.execution_id)?;
    let mut data = json!({ "nodeId": timer.node_id, "lateByMs": late_by_ms });
    if let Some(correlation_key) = &timer.correlation_key {
        data["correlationKey"] = correlation_key.as_str().into();
    }
    let is_open = !head.status.is_terminal();
    record(tx, &mut head, vec![NewEvent::of("timer_fired", &data)])?;
    // An execution that has ended takes no more work.
    if let Some(item) = timer.enqueue.filter(|_| is_open) {
        let item: EnqueueItem =
            item.read().map_err(|error| Error::corrupt("timers", &timer.id, format!("enqueue: {}", error.message())))?;
        queue::enqueue_named(tx, "enqueue.", complete(item, &timer.execution_id.parse()?, &timer.node_id.parse()?))?;
    }
    Ok(())
}
