//! The work queue: items that workers claim under a lease, and settle once.

mod claim;
mod dead_letters;
mod enqueue;
mod import;
mod leases;
mod limits;
mod reclaim;
mod settings;
mod settle;

use rusqlite::Row;

use crate::error::{Error, ErrorCode, Result};
use crate::events::NewEvent;
use crate::executions::{Head, record};
use crate::ids::Name;
use crate::json::Json;
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder};
use crate::retention::Pass;
use crate::store::{Columns, Tx};

pub use claim::ClaimItems;
pub(crate) use claim::{claim, claimed_before};
pub use dead_letters::{DeadLetterId, ListDeadLetters, Redrive, Redriven};
pub(crate) use dead_letters::{delete as delete_dead_letter, list as list_dead_letters, redrive};
pub use enqueue::{EnqueueItem, EnqueueItems, UniqueFor};
pub(crate) use enqueue::{check as check_item, enqueue, enqueue_many, insert as enqueue_named};
pub(crate) use import::{ImportedItem, digest_of, import};
pub use leases::{ExpiredLease, ListExpiredLeases};
pub(crate) use leases::{grace, list_expired};
pub(crate) use reclaim::{cancel, cancel_waiting, end_leases_of_worker, ready_scheduled, reclaim_expired};
pub use settings::{ConfigureQueue, HoldQueue, ListQueues, QueueInfo, QueueName, QueueRate, StatsOf};
pub(crate) use settings::{configure, hold, list as list_queues, pause, resume, stats};
pub use settle::{CompleteItem, Completed, EnqueuedItem, FailItem, Failed, ReleaseItem, Released, RenewLease, Renewed};
pub(crate) use settle::{complete, fail, release, renew};

words! {
    /// Where a work item stands.
    pub enum ItemStatus {
        /// Waits for its `runAt`.
        Scheduled = "scheduled",
        /// Can be claimed.
        Pending = "pending",
        /// A worker holds its lease.
        Claimed = "claimed",
        Completed = "completed",
        /// Its attempts are used up, or it was failed for good.
        DeadLettered = "dead_lettered",
        Cancelled = "cancelled",
    }

    /// How the delay before the next attempt grows.
    #[derive(Default)]
    pub enum BackoffKind {
        #[default]
        /// `baseMs * factor ^ attempt`.
        Exponential = "exponential",
        /// `baseMs` each time.
        Fixed = "fixed",
        /// `baseMs * attempt`.
        Linear = "linear",
    }

    /// How a delivery ended that did not complete.
    pub enum AttemptOutcome {
        Failed = "failed",
        LeaseExpired = "lease_expired",
        Released = "released",
        Cancelled = "cancelled",
    }
}

impl ItemStatus {
    /// The legal transitions. Every statement that changes a status asks here first, and is guarded by the status it expects.
    pub fn may_become(self, to: Self) -> bool {
        use ItemStatus::*;
        match self {
            Scheduled => matches!(to, Pending | Cancelled),
            Pending => matches!(to, Claimed | Cancelled),
            Claimed => matches!(to, Completed | Scheduled | Pending | DeadLettered | Cancelled),
            // Redrive is the only way out of the dead letters.
            DeadLettered => matches!(to, Pending),
            Completed | Cancelled => false,
        }
    }

    /// Whether the item is settled for good.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::DeadLettered | Self::Cancelled)
    }
}

arguments! {
    /// The delay before the next attempt: by default 2 s after the first, doubled with each attempt, at most 64 s, without jitter.
    #[derive(PartialEq)]
    pub struct Backoff {
        pub kind: BackoffKind,
        /// Milliseconds; 1000 unless given.
        pub base_ms: Option<i64>,
        /// 2 unless given; exponential only.
        pub factor: Option<f64>,
        /// Milliseconds; 64,000 unless given, or `baseMs` where that is more.
        pub max_ms: Option<i64>,
        /// 0 to 1: the part of the delay that is left to chance; 0 unless given.
        pub jitter: Option<f64>,
    }
}

/// No computed delay is longer than a day.
const LONGEST_BACKOFF_MS: i64 = 24 * 60 * 60 * 1000;

impl Backoff {
    /// `path` names the arguments in errors.
    fn check(&self, path: &str) -> Result<()> {
        let refuse = |field: &str, rule: &str| {
            let path = format!("{path}backoff.{field}");
            Err(Error::invalid(format!("{path} {rule}")).with("path", path))
        };
        if self.base_ms.is_some_and(|ms| ms < 0) {
            return refuse("baseMs", "must not be negative");
        }
        if self.max_ms.is_some_and(|ms| ms < 0) {
            return refuse("maxMs", "must not be negative");
        }
        if self.factor.is_some_and(|factor| !(factor >= 1.0 && factor.is_finite())) {
            return refuse("factor", "must be a number of at least 1");
        }
        if self.jitter.is_some_and(|jitter| !(0.0..=1.0).contains(&jitter)) {
            return refuse("jitter", "must be 0 to 1");
        }
        Ok(())
    }

    /// The delay after delivery number `attempt`. `seed` stands in for chance, so that the same delivery always gets the same delay.
    fn delay_ms(&self, attempt: i64, seed: i64) -> i64 {
        let base = self.base_ms.unwrap_or(1000);
        let max = self.max_ms.unwrap_or_else(|| base.max(64_000));
        let grown = match self.kind {
            BackoffKind::Fixed => base as f64,
            BackoffKind::Linear => base as f64 * attempt as f64,
            BackoffKind::Exponential => base as f64 * self.factor.unwrap_or(2.0).powi(attempt.clamp(0, 1024) as i32),
        };
        // `as` saturates, so no factor or attempt overflows. A day is the limit unless a longer maxMs or base was asked for.
        let longest = if self.max_ms.is_some() { max } else { max.min(LONGEST_BACKOFF_MS.max(base)) };
        let delay = (grown as i64).min(longest);
        let chance = (seed.wrapping_mul(0x5851_f42d_4c95_7f2d) as u64 >> 11) as f64 / (1u64 << 53) as f64;
        delay - (delay as f64 * self.jitter.unwrap_or(0.0) * chance) as i64
    }
}

records! {
    /// A unit of work.
    pub struct WorkItem {
        pub id: String,
        pub tenant_id: String,
        pub execution_id: Option<String>,
        pub node_id: Option<String>,
        pub queue: String,
        pub payload: Json,
        pub priority: i64,
        /// The capabilities that a worker must have, sorted.
        pub requires: Vec<String>,
        pub status: ItemStatus,
        /// How often it was delivered.
        pub attempt: i64,
        pub max_attempts: i64,
        /// Unix milliseconds: not before this.
        pub run_at: i64,
        pub backoff: Option<Backoff>,
        pub idempotency_key: Option<String>,
        pub concurrency_key: Option<String>,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds: the newest claim.
        pub claimed_at: Option<i64>,
        /// Unix milliseconds.
        pub finished_at: Option<i64>,
        /// Who holds it, or held it last.
        pub worker_id: Option<String>,
        /// Unix milliseconds; only while claimed.
        pub lease_expires_at: Option<i64>,
        /// Names the newest claim, and rises with each.
        pub fence: i64,
        pub output: Option<Json>,
        /// A string, or `{message, code?, stack?}`.
        pub last_error: Option<Json>,
        /// What the last `renew` with progress said.
        pub progress: Option<Json>,
        pub cancel_requested: bool,
    }

    /// A delivery that did not complete.
    pub struct Attempt {
        pub attempt: i64,
        pub fence: i64,
        pub worker_id: String,
        pub namespace: String,
        /// Unix milliseconds.
        pub claimed_at: i64,
        /// Unix milliseconds.
        pub ended_at: i64,
        pub outcome: AttemptOutcome,
        pub error: Option<Json>,
    }

    /// How many items stand where.
    pub struct QueueStats {
        pub counts: ItemCounts,
        /// Unix milliseconds: since when the item that waits longest could be claimed.
        pub oldest_pending_at: Option<i64>,
    }

    #[derive(Default)]
    pub struct ItemCounts {
        pub scheduled: i64,
        pub pending: i64,
        pub claimed: i64,
        pub completed: i64,
        #[cfg_attr(feature = "development", ts(rename = "dead_lettered"))]
        pub dead_lettered: i64 as "dead_lettered",
        pub cancelled: i64,
    }
}

arguments! {
    pub struct ItemId {
        pub id: Name,
    }

    /// Which items to list; without members, all of them.
    pub struct ListItems {
        pub queue: Option<Name>,
        pub status: Option<ItemStatus>,
        pub execution_id: Option<Name>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

// CROSS JOIN keeps the order of the two tables, and with it that of the items: no statistics make SQLite begin with the short one.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT i.key, i.id, t.id, e.id, i.node_id, q.name, coalesce(i.payload, p.payload), i.priority, c.requires, i.status, i.attempt,
                    i.max_attempts, i.run_at, i.backoff, i.idempotency_key, i.concurrency_key, i.created_at, i.claimed_at,
                    i.finished_at, i.worker_id, i.lease_expires_at, i.fence, i.output, i.last_error, i.progress, i.cancel_requested
             FROM items i
             CROSS JOIN tenants t ON t.number = i.tenant
             JOIN queues q ON q.key = i.queue
             LEFT JOIN executions e ON e.key = i.execution
             LEFT JOIN requirement_classes c ON c.key = i.class
             LEFT JOIN item_payloads p ON p.item = i.key ",
            $rest
        )
    };
}

use select as select_item;

fn read(row: &Row<'_>) -> Result<WorkItem> {
    let columns = Columns::with_id(row, "items", 1);
    Ok(WorkItem {
        id: columns.get(1)?,
        tenant_id: columns.get(2)?,
        execution_id: columns.get(3)?,
        node_id: columns.get(4)?,
        queue: columns.get(5)?,
        payload: columns.get(6)?,
        priority: columns.get(7)?,
        requires: columns.json(8)?.unwrap_or_default(),
        status: columns.get(9)?,
        attempt: columns.get(10)?,
        max_attempts: columns.get(11)?,
        run_at: columns.get(12)?,
        backoff: columns.json(13)?,
        idempotency_key: columns.get(14)?,
        concurrency_key: columns.get(15)?,
        created_at: columns.get(16)?,
        claimed_at: columns.get(17)?,
        finished_at: columns.get(18)?,
        worker_id: columns.get(19)?,
        lease_expires_at: columns.get(20)?,
        fence: columns.get(21)?,
        output: columns.get(22)?,
        last_error: columns.get(23)?,
        progress: columns.get(24)?,
        cancel_requested: columns.get(25)?,
    })
}

impl WorkItem {
    /// About how many bytes it takes in a page.
    fn weight(&self) -> usize {
        let documents = [Some(&self.payload), self.output.as_ref(), self.last_error.as_ref(), self.progress.as_ref()];
        documents.into_iter().flatten().map(|document| document.as_str().len()).sum::<usize>() + 500
    }
}

fn by_key(tx: &Tx<'_>, key: i64) -> Result<WorkItem> {
    tx.row(select!("WHERE i.key = ?1"), [key], read)?
        .ok_or_else(|| Error::new(ErrorCode::Internal, format!("the item with key {key} is gone")))
}

/// The part of an item's row that transitions look at.
#[derive(Debug)]
struct Held {
    key: i64,
    id: String,
    queue: i64,
    execution: Option<i64>,
    node_id: Option<String>,
    status: ItemStatus,
    attempt: i64,
    max_attempts: i64,
    fence: i64,
    lease_expires_at: Option<i64>,
    lease_ms: Option<i64>,
    namespace: Option<String>,
    worker_id: Option<String>,
    claimed_at: Option<i64>,
    cancel_requested: bool,
    backoff: Option<Backoff>,
    concurrency_key: Option<String>,
    settlement: Option<Json>,
}

macro_rules! select_held {
    ($rest:literal) => {
        concat!(
            "SELECT key, id, queue, execution, node_id, status, attempt, max_attempts, fence, lease_expires_at, lease_ms, namespace,
                    worker_id, claimed_at, cancel_requested, backoff, concurrency_key, settlement FROM items ",
            $rest
        )
    };
}
use select_held;

impl Held {
    fn get(tx: &Tx<'_>, id: &str) -> Result<Self> {
        tx.row(select_held!("WHERE tenant = ?1 AND id = ?2"), (tx.tenant, id), Self::read)?
            .ok_or_else(|| Error::not_found("work item", id))
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        let columns = Columns::with_id(row, "items", 1);
        Ok(Self {
            key: columns.get(0)?,
            id: columns.get(1)?,
            queue: columns.get(2)?,
            execution: columns.get(3)?,
            node_id: columns.get(4)?,
            status: columns.get(5)?,
            attempt: columns.get(6)?,
            max_attempts: columns.get(7)?,
            fence: columns.get(8)?,
            lease_expires_at: columns.get(9)?,
            lease_ms: columns.get(10)?,
            namespace: columns.get(11)?,
            worker_id: columns.get(12)?,
            claimed_at: columns.get(13)?,
            cancel_requested: columns.get(14)?,
            backoff: columns.json(15)?,
            concurrency_key: columns.get(16)?,
            settlement: columns.get(17)?,
        })
    }

    /// The item's execution, where it has one.
    fn execution(&self, tx: &Tx<'_>) -> Result<Option<Head>> {
        self.execution.map(|key| Head::by_key(tx, key)).transpose()
    }

    /// Whether the lease has run out.
    fn is_late(&self, now: i64) -> bool {
        self.lease_expires_at.is_some_and(|at| at <= now)
    }
}

/// Says that items of a queue changed.
fn touch(tx: &Tx<'_>, queue: i64) -> Result<()> {
    if tx.is_heard() {
        let name = tx.row("SELECT name FROM queues WHERE key = ?1", [queue], |row| Ok(row.get::<_, String>(0)?))?;
        tx.touch(Topic::Items, &name.unwrap_or_default());
    }
    Ok(())
}

/// Keeps a queue's counters in step with `count` items that go from one status to another. Without the first they are new, without the
/// second they are deleted.
fn shift(tx: &Tx<'_>, queue: i64, from: Option<ItemStatus>, to: Option<ItemStatus>, count: i64) -> Result<()> {
    macro_rules! statements {
        (any $($any:ident)+; $($less:ident to $($more:ident)+;)+) => {
            match (from.map(ItemStatus::as_str), to.map(ItemStatus::as_str)) {
                $((None, Some(stringify!($any))) => {
                    concat!("UPDATE queues SET ", stringify!($any), " = ", stringify!($any), " + ?2 WHERE key = ?1")
                })+
                $((Some(stringify!($any)), None) => {
                    concat!("UPDATE queues SET ", stringify!($any), " = ", stringify!($any), " - ?2 WHERE key = ?1")
                })+
                $($((Some(stringify!($less)), Some(stringify!($more))) => concat!(
                    "UPDATE queues SET ", stringify!($less), " = ", stringify!($less), " - ?2, ",
                    stringify!($more), " = ", stringify!($more), " + ?2 WHERE key = ?1"
                ),)+)+
                (from, to) => {
                    return Err(Error::new(ErrorCode::Internal, format!("no transition leads from {} to {}", from.unwrap_or("nothing"), to.unwrap_or("nothing"))));
                }
            }
        };
    }

    if count == 0 || from == to {
        return Ok(());
    }
    let sql = statements! {
        any scheduled pending claimed completed dead_lettered cancelled;
        scheduled to pending cancelled;
        pending to claimed cancelled;
        claimed to completed scheduled pending dead_lettered cancelled;
        dead_lettered to pending;
    };
    touch(tx, queue)?;
    tx.execute_one(sql, (queue, count))
}

/// Deletes an item that is finished, with its attempts.
fn remove(tx: &Tx<'_>, key: i64, queue: i64, status: ItemStatus) -> Result<()> {
    let fence = tx.row("SELECT fence FROM items WHERE key = ?1", [key], |row| Ok(row.get::<_, i64>(0)?))?;
    tx.execute("UPDATE tenants SET past_fence = ?2 WHERE number = ?1 AND past_fence < ?2", (tx.tenant, fence))?;
    tx.execute_one("DELETE FROM items WHERE key = ?1 AND status = ?2", (key, status))?;
    shift(tx, queue, Some(status), None, 1)
}

/// Deletes the items of an execution, unless one of them is not finished. Answers whether they are gone.
pub(crate) fn remove_of_execution(tx: &Tx<'_>, execution: i64) -> Result<bool> {
    let items = tx.rows(select_held!("WHERE execution = ?1"), [execution], Held::read)?;
    if items.iter().any(|item| !item.status.is_finished()) {
        return Ok(false);
    }
    for item in items {
        remove(tx, item.key, item.queue, item.status)?;
    }
    Ok(true)
}

/// Deletes every item of an execution, whoever holds it.
pub(crate) fn remove_all_of_execution(tx: &Tx<'_>, execution: i64) -> Result<()> {
    for item in tx.rows(select_held!("WHERE execution = ?1"), [execution], Held::read)? {
        remove(tx, item.key, item.queue, item.status)?;
        limits::changed(tx, item.queue, item.concurrency_key.as_deref())?;
    }
    Ok(())
}

fn queue_key(tx: &Tx<'_>, name: &str) -> Result<Option<i64>> {
    tx.row("SELECT key FROM queues WHERE tenant = ?1 AND name = ?2", (tx.tenant, name), |row| Ok(row.get(0)?))
}

/// Appends an event about an item to its execution's log.
fn log(tx: &Tx<'_>, execution: &mut Option<Head>, events: Vec<NewEvent>) -> Result<()> {
    match execution {
        Some(head) if !events.is_empty() => record(tx, head, events).map(drop),
        _ => Ok(()),
    }
}

/// Checks a duration in milliseconds.
pub(crate) fn check_ms(path: &str, given: Option<i64>, least: i64, most: i64) -> Result<()> {
    match given {
        Some(ms) if !(least..=most).contains(&ms) => {
            Err(Error::invalid(format!("{path} must be {least} to {most} milliseconds, not {ms}")).with("path", path))
        }
        _ => Ok(()),
    }
}

/// The longest delay that can be asked for: ten years.
pub(crate) const LONGEST_DELAY_MS: i64 = 10 * 366 * 24 * 60 * 60 * 1000;

/// The longest lease: a week.
const LONGEST_LEASE_MS: i64 = 7 * 24 * 60 * 60 * 1000;

pub(crate) fn get(tx: &Tx<'_>, arguments: ItemId) -> Result<Option<WorkItem>> {
    tx.row(select!("WHERE i.tenant = ?1 AND i.id = ?2"), (tx.tenant, arguments.id), read)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListItems) -> Result<Page<WorkItem>> {
    let limit = page::limit(filter.limit)?;
    let order = filter.order.unwrap_or_default();
    let queue = match &filter.queue {
        None => None,
        Some(name) => match queue_key(tx, name)? {
            None => return Ok(PageBuilder::unfiltered(limit).finish()),
            key => key,
        },
    };
    let execution = match &filter.execution_id {
        None => None,
        Some(id) => match Head::find(tx, id)? {
            None => return Ok(PageBuilder::unfiltered(limit).finish()),
            Some(head) => Some(head.key),
        },
    };
    let unfiltered = queue.is_none() && filter.status.is_none() && execution.is_none();
    let mut page = if unfiltered { PageBuilder::unfiltered(limit) } else { PageBuilder::filtered(limit) };
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    if unfiltered {
        let sql = match order {
            Order::Asc => select!("WHERE i.key BETWEEN ?1 AND ?2 ORDER BY i.key LIMIT ?3"),
            Order::Desc => select!("WHERE i.key BETWEEN ?1 AND ?2 ORDER BY i.key DESC LIMIT ?3"),
        };
        tx.walk(sql, (from, to, page.scanned()), |row| page.visit(tx.number_of(row.get(0)?), read(row), WorkItem::weight))?;
        return Ok(page.finish());
    }
    let sql = match (execution.is_some(), order) {
        (false, Order::Asc) => {
            "SELECT key, queue, status FROM items WHERE key BETWEEN ?1 AND ?2 AND ?4 IS NULL ORDER BY key LIMIT ?3"
        }
        (false, Order::Desc) => {
            "SELECT key, queue, status FROM items WHERE key BETWEEN ?1 AND ?2 AND ?4 IS NULL ORDER BY key DESC LIMIT ?3"
        }
        (true, Order::Asc) => {
            "SELECT key, queue, status FROM items WHERE execution = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"
        }
        (true, Order::Desc) => {
            "SELECT key, queue, status FROM items WHERE execution = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3"
        }
    };
    tx.walk(sql, (from, to, page.scanned(), execution), |row| {
        let (key, in_queue): (i64, i64) = (row.get(0)?, row.get(1)?);
        let number = tx.number_of(key);
        let status: String = row.get(2)?;
        if queue.is_some_and(|queue| queue != in_queue) || filter.status.is_some_and(|wanted| wanted.as_str() != status) {
            page.skip(number);
            return Ok(true);
        }
        let record = tx.row(select!("WHERE i.key = ?1"), [key], |row| Ok(read(row)))?;
        match record {
            Some(record) => page.visit(number, record, WorkItem::weight),
            None => Ok(true),
        }
    })?;
    Ok(page.finish())
}

pub(crate) fn attempts(tx: &Tx<'_>, arguments: ItemId) -> Result<Vec<Attempt>> {
    let item = Held::get(tx, &arguments.id)?;
    tx.rows(
        "SELECT attempt, fence, worker_id, namespace, claimed_at, ended_at, outcome, error FROM attempts WHERE item = ?1 ORDER BY fence",
        [item.key],
        |row| {
            let columns = Columns::new(row, "attempts", item.id.as_str());
            Ok(Attempt {
                attempt: columns.get(0)?,
                fence: columns.get(1)?,
                worker_id: columns.get(2)?,
                namespace: columns.get(3)?,
                claimed_at: columns.get(4)?,
                ended_at: columns.get(5)?,
                outcome: columns.get(6)?,
                error: columns.get(7)?,
            })
        },
    )
}

/// Counts the items of one execution, by walking over them.
fn stats_of_execution(tx: &Tx<'_>, id: &str, queue: Option<i64>, stats: &mut QueueStats) -> Result<()> {
    let head = Head::get(tx, id)?;
    tx.walk("SELECT status, queue, run_at, id FROM items WHERE execution = ?1", [head.key], |row| {
        let in_queue: i64 = row.get(1)?;
        if queue.is_none_or(|queue| queue == in_queue) {
            let status: ItemStatus = Columns::with_id(row, "items", 3).get(0)?;
            stats.counts.add(status);
            if status == ItemStatus::Pending {
                stats.oldest_pending_at = earlier(stats.oldest_pending_at, Some(row.get(2)?));
            }
        }
        Ok(true)
    })
}

impl ItemCounts {
    fn add(&mut self, status: ItemStatus) {
        match status {
            ItemStatus::Scheduled => self.scheduled += 1,
            ItemStatus::Pending => self.pending += 1,
            ItemStatus::Claimed => self.claimed += 1,
            ItemStatus::Completed => self.completed += 1,
            ItemStatus::DeadLettered => self.dead_lettered += 1,
            ItemStatus::Cancelled => self.cancelled += 1,
        }
    }
}

fn earlier(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    a.into_iter().chain(b).min()
}

/// The earliest runAt among a queue's pending items: one index step for each class and priority in use, and one for what is blocked.
fn oldest_pending(tx: &Tx<'_>, queue: i64) -> Result<Option<i64>> {
    let mut oldest = None;
    for class in claim::classes(tx, queue)? {
        let mut below = i64::MAX;
        while let Some((priority, run_at)) = tx.row(
            "SELECT priority, run_at FROM items WHERE queue = ?1 AND class = ?2 AND status = 'pending' AND blocked = 0 AND priority <= ?3
             ORDER BY priority DESC, run_at LIMIT 1",
            (queue, class.key, below),
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        )? {
            oldest = earlier(oldest, Some(run_at));
            match priority.checked_sub(1) {
                Some(next) => below = next,
                None => break,
            }
        }
    }
    let blocked = tx.row(
        "SELECT run_at FROM items WHERE queue = ?1 AND status = 'pending' AND blocked = 1 ORDER BY run_at LIMIT 1",
        [queue],
        |row| Ok(row.get::<_, i64>(0)?),
    )?;
    Ok(earlier(oldest, blocked))
}

/// The tenant's queues that have items in this status.
pub(crate) fn queues_with(tx: &Tx<'_>, status: ItemStatus) -> Result<Vec<i64>> {
    let sql = match status {
        ItemStatus::Scheduled => "SELECT key FROM queues WHERE key BETWEEN ?1 AND ?2 AND scheduled > 0 ORDER BY key",
        ItemStatus::Pending => "SELECT key FROM queues WHERE key BETWEEN ?1 AND ?2 AND pending > 0 ORDER BY key",
        _ => "SELECT key FROM queues WHERE key BETWEEN ?1 AND ?2 AND claimed > 0 ORDER BY key",
    };
    tx.rows(sql, tx.keys(), |row| Ok(row.get(0)?))
}

/// What retention lets go of: things that ended before.
#[derive(Clone, Copy)]
pub(crate) struct Cutoffs {
    pub(crate) finished: Option<i64>,
    pub(crate) dead_letters: Option<i64>,
    pub(crate) attempts: Option<i64>,
}

/// One bounded walk of retention over the items after the key `after`.
pub(crate) fn prune(tx: &Tx<'_>, cutoffs: Cutoffs, after: i64, limit: i64) -> Result<Pass> {
    let (first, last) = tx.keys();
    let items = tx.rows(
        "SELECT key, queue, status, finished_at, id FROM items WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
        (first.max(after.saturating_add(1)), last, limit),
        |row| {
            let columns = Columns::with_id(row, "items", 4);
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, columns.get::<ItemStatus>(2)?, columns.get::<Option<i64>>(3)?))
        },
    )?;
    let mut pass = Pass::over(items.iter().map(|item| item.0), limit);
    for (key, queue, status, finished_at) in items {
        let cutoff = match status {
            ItemStatus::Completed | ItemStatus::Cancelled => cutoffs.finished,
            ItemStatus::DeadLettered => cutoffs.dead_letters,
            _ => None,
        };
        if let Some((cutoff, at)) = cutoff.zip(finished_at) {
            if at <= cutoff {
                remove(tx, key, queue, status)?;
                pass.pruned += 1;
                continue;
            }
            pass.keep_until(tx.now + (at - cutoff));
        }
        if let Some(cutoff) = cutoffs.attempts {
            let pruned = tx.execute("DELETE FROM attempts WHERE item = ?1 AND ended_at <= ?2", (key, cutoff))?;
            if pruned > 0 {
                touch(tx, queue)?;
            }
            pass.pruned += pruned as i64;
            let next =
                tx.row("SELECT min(ended_at) FROM attempts WHERE item = ?1", [key], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
            if let Some(at) = next.flatten() {
                pass.keep_until(tx.now + (at - cutoff));
            }
        }
    }
    Ok(pass)
}

/// Wakes concurrency keys of the tenant's queues, so that their items count among what can be claimed. Answers how many.
pub(crate) fn wake_keys(tx: &Tx<'_>, limit: i64) -> Result<i64> {
    let mut woken = 0;
    for queue in queues_with(tx, ItemStatus::Pending)? {
        woken += limits::wake_keys(tx, &limits::Settings::of(tx, queue)?, limit - woken)?;
    }
    Ok(woken)
}
