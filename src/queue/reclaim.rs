//! How deliveries end without completion: one rule for failures, expired leases and dead workers. And cancelling.

use serde_json::json;

use super::limits::{Settings, changed};
use super::{AttemptOutcome, Held, ItemId, ItemStatus, WorkItem, by_key, log, queues_with, select_held, shift, touch};
use crate::error::{Error, Result};
use crate::events::NewEvent;
use crate::executions::Head;
use crate::json::Json;
use crate::store::Tx;

/// What became of an item when a delivery of it ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ended {
    pub(super) status: ItemStatus,
    /// When it can be claimed again, where it can.
    pub(super) run_at: Option<i64>,
}

/// Why a delivery ends.
pub(super) struct Ending<'a> {
    pub(super) outcome: AttemptOutcome,
    /// A string, or `{message, code?, stack?}`.
    pub(super) error: Option<&'a Json>,
    /// Whether another attempt makes sense.
    pub(super) retryable: bool,
    /// Overrides the backoff.
    pub(super) delay_ms: Option<i64>,
    /// Events of the caller's, appended before the store's own.
    pub(super) events: Vec<NewEvent>,
    /// Where a call settles the delivery: what a repeat of it is answered.
    pub(super) settlement: &'a dyn Fn(Ended) -> Option<String>,
}

/// Ends the delivery of a claimed item by the attempt rule: again after a delay while attempts are left, else to the dead letters.
/// A cancelled item, or one whose execution has ended, is not tried again.
pub(super) fn end_delivery(tx: &Tx<'_>, item: &Held, ending: Ending<'_>) -> Result<Ended> {
    let mut execution = item.execution(tx)?;
    let mut events = ending.events;
    // The caller's events may end the execution, so they come first.
    log(tx, &mut execution, std::mem::take(&mut events))?;
    let released = ending.outcome == AttemptOutcome::Released;
    let tries_again = released || (ending.retryable && item.attempt < item.max_attempts);
    let gone = execution.as_ref().is_some_and(|head| head.status.is_terminal());
    let node_id = item.node_id.as_deref().unwrap_or_default();
    let backoff = match &item.backoff {
        Some(own) => own.clone(),
        None => Settings::of(tx, item.queue)?.backoff.unwrap_or_default(),
    };
    let (ended, delay_ms) = if item.cancel_requested || (gone && tries_again) {
        (Ended { status: ItemStatus::Cancelled, run_at: None }, 0)
    } else if tries_again {
        let delay_ms =
            ending.delay_ms.unwrap_or_else(|| if released { 0 } else { backoff.delay_ms(item.attempt, item.key ^ item.fence) });
        let status = if delay_ms > 0 { ItemStatus::Scheduled } else { ItemStatus::Pending };
        (Ended { status, run_at: Some(tx.now.saturating_add(delay_ms)) }, delay_ms)
    } else {
        (Ended { status: ItemStatus::DeadLettered, run_at: None }, 0)
    };
    let events = match ended.status {
        ItemStatus::Cancelled => vec![NewEvent::of("node_cancelled", &json!({ "nodeId": node_id }))],
        ItemStatus::DeadLettered => {
            let error = ending.error.map_or_else(|| Ok(json!("unknown")), Json::to)?;
            let data = json!({ "nodeId": node_id, "error": error, "attempt": item.attempt, "retryable": false });
            vec![NewEvent::of("node_failed", &data)]
        }
        _ if released => Vec::new(),
        _ => {
            let data = json!({ "nodeId": node_id, "attempt": item.attempt, "delayMs": delay_ms });
            vec![NewEvent::of("retry_scheduled", &data)]
        }
    };
    log(tx, &mut execution, events)?;
    let outcome = if ended.status == ItemStatus::Cancelled { AttemptOutcome::Cancelled } else { ending.outcome };
    tx.execute_one(
        "INSERT INTO attempts (item, fence, attempt, worker_id, namespace, claimed_at, ended_at, outcome, error)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        (item.key, item.fence, item.attempt, &item.worker_id, &item.namespace, item.claimed_at, tx.now, outcome, ending.error),
    )?;
    tx.execute_one(
        "UPDATE items SET status = ?3, attempt = attempt - ?4, run_at = coalesce(?5, run_at), lease_expires_at = NULL, lease_ms = NULL,
                          finished_at = ?6, last_error = CASE WHEN ?4 THEN last_error ELSE coalesce(?7, last_error) END, settlement = ?8
         WHERE key = ?1 AND fence = ?2 AND status = 'claimed'",
        (
            item.key,
            item.fence,
            ended.status,
            released,
            // Without a delay the item keeps its place in the order.
            ended.run_at.filter(|_| delay_ms > 0),
            ended.status.is_finished().then_some(tx.now),
            ending.error,
            (ending.settlement)(ended),
        ),
    )?;
    shift(tx, item.queue, Some(ItemStatus::Claimed), Some(ended.status), 1)?;
    changed(tx, item.queue, item.concurrency_key.as_deref())?;
    Ok(ended)
}

/// Ends deliveries of a queue whose lease has run out, the earliest first. Answers what became of them.
pub(crate) fn reclaim_expired(tx: &Tx<'_>, queue: i64, limit: i64) -> Result<Reclaimed> {
    let expired = tx.rows(
        select_held!(
            "WHERE queue = ?1 AND status = 'claimed' AND lease_expires_at <= ?2 ORDER BY lease_expires_at, key LIMIT ?3"
        ),
        (queue, tx.now, limit),
        Held::read,
    )?;
    let mut reclaimed = Reclaimed::default();
    for item in expired {
        let error = json!({
            "code": "lease_expired",
            "message": format!("the lease of worker {:?} ran out", item.worker_id.as_deref().unwrap_or_default()),
        });
        reclaimed.add(end_without_call(tx, &item, &error.into())?);
    }
    Ok(reclaimed)
}

/// What became of deliveries that ended by themselves.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Reclaimed {
    pub(crate) retried: i64,
    pub(crate) dead_lettered: i64,
    pub(crate) cancelled: i64,
}

impl Reclaimed {
    fn add(&mut self, ended: Ended) {
        match ended.status {
            ItemStatus::DeadLettered => self.dead_lettered += 1,
            ItemStatus::Cancelled => self.cancelled += 1,
            _ => self.retried += 1,
        }
    }

    pub(crate) fn all(&self) -> i64 {
        self.retried + self.dead_lettered + self.cancelled
    }
}

fn end_without_call(tx: &Tx<'_>, item: &Held, error: &Json) -> Result<Ended> {
    let ending = Ending {
        outcome: AttemptOutcome::LeaseExpired,
        error: Some(error),
        retryable: true,
        delay_ms: None,
        events: Vec::new(),
        settlement: &|_| None,
    };
    end_delivery(tx, item, ending)
}

/// Ends the deliveries that a dead worker holds.
pub(crate) fn end_leases_of_worker(tx: &Tx<'_>, namespace: &str, worker_id: &str, reason: &str) -> Result<Reclaimed> {
    let mut held = Vec::new();
    for queue in queues_with(tx, ItemStatus::Claimed)? {
        // The index of leases is as short as the list of what is being worked on now.
        held.extend(tx.rows(
            select_held!(
                "WHERE queue = ?1 AND status = 'claimed' AND worker_id = ?2 AND namespace = ?3 ORDER BY lease_expires_at, key"
            ),
            (queue, worker_id, namespace),
            Held::read,
        )?);
    }
    let error =
        Json::from(json!({ "code": "worker_dead", "message": format!("worker {worker_id:?} was marked dead: {reason}") }));
    let mut reclaimed = Reclaimed::default();
    for item in held {
        reclaimed.add(end_without_call(tx, &item, &error)?);
    }
    Ok(reclaimed)
}

/// Moves scheduled items of a queue that have become due to pending. Answers how many.
pub(crate) fn ready_scheduled(tx: &Tx<'_>, queue: i64, limit: i64) -> Result<i64> {
    let due = tx.rows(
        "SELECT key, concurrency_key FROM items WHERE queue = ?1 AND status = 'scheduled' AND run_at <= ?2 ORDER BY run_at LIMIT ?3",
        (queue, tx.now, limit),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?)),
    )?;
    let moved = due.len() as i64;
    shift(tx, queue, Some(ItemStatus::Scheduled), Some(ItemStatus::Pending), moved)?;
    for (key, concurrency_key) in due {
        tx.execute_one("UPDATE items SET status = 'pending', blocked = 0 WHERE key = ?1 AND status = 'scheduled'", [key])?;
        changed(tx, queue, concurrency_key.as_deref())?;
    }
    Ok(moved)
}

/// Cancels what waits for an execution that has ended. Answers the nodes, in the order in which their items were enqueued.
pub(crate) fn cancel_waiting(tx: &Tx<'_>, execution: i64) -> Result<Vec<String>> {
    let waiting = tx.rows(
        select_held!("WHERE execution = ?1 AND status IN ('scheduled', 'pending') ORDER BY key"),
        [execution],
        Held::read,
    )?;
    for item in &waiting {
        cancel_one(tx, item)?;
    }
    Ok(waiting.into_iter().filter_map(|item| item.node_id).collect())
}

fn cancel_one(tx: &Tx<'_>, item: &Held) -> Result<()> {
    tx.execute_one(
        "UPDATE items SET status = 'cancelled', blocked = 0, finished_at = ?3 WHERE key = ?1 AND status = ?2",
        (item.key, item.status, tx.now),
    )?;
    shift(tx, item.queue, Some(item.status), Some(ItemStatus::Cancelled), 1)?;
    changed(tx, item.queue, item.concurrency_key.as_deref())
}

pub(crate) fn cancel(tx: &Tx<'_>, arguments: ItemId) -> Result<WorkItem> {
    let item = Held::get(tx, &arguments.id)?;
    match item.status {
        ItemStatus::Scheduled | ItemStatus::Pending => {
            cancel_one(tx, &item)?;
            let mut execution: Option<Head> = item.execution(tx)?;
            let node_id = item.node_id.as_deref().unwrap_or_default();
            log(tx, &mut execution, vec![NewEvent::of("node_cancelled", &json!({ "nodeId": node_id }))])?;
        }
        ItemStatus::Claimed => {
            tx.execute_one("UPDATE items SET cancel_requested = 1 WHERE key = ?1 AND status = 'claimed'", [item.key])?;
            touch(tx, item.queue)?;
        }
        finished => {
            return Err(Error::conflict(format!("the work item {:?} is {} already", item.id, finished.as_str()))
                .with("id", item.id.as_str())
                .with("status", finished.as_str()));
        }
    }
    by_key(tx, item.key)
}
