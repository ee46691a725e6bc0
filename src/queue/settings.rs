//! Queues as such: their settings, pauses, holds and counts.

use super::limits::{Settings, hold_key, json_column, rebalance_all, select_settings};
use super::{Backoff, ItemCounts, QueueStats};
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::Tx;

arguments! {
    /// A token bucket: `limit` items at once, refilled evenly over `perMs`.
    #[derive(PartialEq)]
    pub struct QueueRate {
        /// At least 1.
        pub limit: i64,
        /// Milliseconds, at least 1.
        pub per_ms: i64,
    }
}

records! {
    /// A queue and its settings.
    pub struct QueueInfo {
        pub name: String,
        pub paused: bool,
        /// Unix milliseconds: nothing of the queue is claimed before.
        pub held_until: Option<i64>,
        /// How many of its items may be claimed at the same time.
        pub concurrency: Option<i64>,
        /// How many items of one concurrency key may be claimed at the same time.
        pub key_concurrency: Option<i64>,
        /// How fast items are handed out.
        pub rate_limit: Option<QueueRate>,
        /// How fast items of one concurrency key are handed out.
        pub key_rate_limit: Option<QueueRate>,
        /// For items that are enqueued without one of their own.
        pub max_attempts: Option<i64>,
        /// For items without one of their own.
        pub backoff: Option<Backoff>,
    }
}

arguments! {
    /// Settings to change. What is left out stays, null clears.
    pub struct ConfigureQueue {
        pub name: Name,
        pub concurrency: Option<Option<i64>>,
        pub key_concurrency: Option<Option<i64>>,
        pub rate_limit: Option<Option<QueueRate>>,
        pub key_rate_limit: Option<Option<QueueRate>>,
        pub max_attempts: Option<Option<i64>>,
        pub backoff: Option<Option<Backoff>>,
    }

    pub struct QueueName {
        pub name: Name,
    }

    /// Holds a queue, or one concurrency key of it, back until a time.
    pub struct HoldQueue {
        pub name: Name,
        /// The whole queue unless given.
        pub key: Option<Name>,
        /// Unix milliseconds, in the future; null lets go.
        #[cfg_attr(feature = "development", ts(optional = false))]
        pub until: Option<i64> as required,
    }

    /// Which queues to list.
    pub struct ListQueues {
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

impl From<Settings> for QueueInfo {
    fn from(settings: Settings) -> Self {
        Self {
            name: settings.name,
            paused: settings.paused,
            held_until: settings.held_until,
            concurrency: settings.concurrency,
            key_concurrency: settings.key_concurrency,
            rate_limit: settings.rate_limit,
            key_rate_limit: settings.key_rate_limit,
            max_attempts: settings.max_attempts,
            backoff: settings.backoff,
        }
    }
}

fn check(arguments: &ConfigureQueue) -> Result<()> {
    let refuse = |path: &str, least: &str| Err(Error::invalid(format!("{path} must be at least {least}")).with("path", path));
    for (path, given) in [
        ("concurrency", arguments.concurrency),
        ("keyConcurrency", arguments.key_concurrency),
        ("maxAttempts", arguments.max_attempts),
    ] {
        if given.flatten().is_some_and(|limit| limit < 1) {
            return refuse(path, "1");
        }
    }
    for (path, given) in [("rateLimit", &arguments.rate_limit), ("keyRateLimit", &arguments.key_rate_limit)] {
        if let Some(Some(rate)) = given {
            if rate.limit < 1 {
                return refuse(&format!("{path}.limit"), "1");
            }
            if rate.per_ms < 1 {
                return refuse(&format!("{path}.perMs"), "1 millisecond");
            }
            if rate.limit.checked_mul(rate.per_ms).is_none() {
                return Err(Error::invalid(format!(
                    "{path} is too large: limit times perMs must be at most {}; leave it out for no limit",
                    i64::MAX
                ))
                .with("path", path));
            }
        }
    }
    arguments.backoff.iter().flatten().try_for_each(|backoff| backoff.check(""))
}

pub(crate) fn configure(tx: &Tx<'_>, arguments: ConfigureQueue) -> Result<QueueInfo> {
    check(&arguments)?;
    let settings = Settings::ensure(tx, &arguments.name)?;
    tx.touch(Topic::Queues, &settings.name);
    // A new rate begins with a full bucket; the same one keeps what it has.
    let refill = arguments.rate_limit.as_ref().is_some_and(|rate| *rate != settings.rate_limit);
    let mut after = settings.clone();
    after.concurrency = arguments.concurrency.unwrap_or(after.concurrency);
    after.key_concurrency = arguments.key_concurrency.unwrap_or(after.key_concurrency);
    after.rate_limit = arguments.rate_limit.unwrap_or(after.rate_limit);
    after.key_rate_limit = arguments.key_rate_limit.unwrap_or(after.key_rate_limit);
    after.max_attempts = arguments.max_attempts.unwrap_or(after.max_attempts);
    after.backoff = arguments.backoff.unwrap_or(after.backoff);
    tx.execute_one(
        "UPDATE queues SET concurrency = ?2, key_concurrency = ?3, rate_limit = ?4, key_rate_limit = ?5, max_attempts = ?6, backoff = ?7,
                           tokens = CASE WHEN ?8 THEN NULL ELSE tokens END, tokens_at = CASE WHEN ?8 THEN NULL ELSE tokens_at END
         WHERE key = ?1",
        (
            after.key,
            after.concurrency,
            after.key_concurrency,
            json_column(after.rate_limit.as_ref())?,
            json_column(after.key_rate_limit.as_ref())?,
            after.max_attempts,
            json_column(after.backoff.as_ref())?,
            refill,
        ),
    )?;
    if after.key_rate_limit != settings.key_rate_limit {
        tx.execute("UPDATE queue_keys SET tokens = NULL, tokens_at = NULL, wake_at = ?2 WHERE queue = ?1", (after.key, tx.now))?;
    }
    if after.key_concurrency != settings.key_concurrency || after.key_rate_limit != settings.key_rate_limit {
        rebalance_all(tx, &after)?;
    }
    Settings::of(tx, after.key).map(QueueInfo::from)
}

fn set_paused(tx: &Tx<'_>, name: &Name, paused: bool) -> Result<QueueInfo> {
    let settings = Settings::ensure(tx, name)?;
    tx.touch(Topic::Queues, &settings.name);
    tx.execute_one("UPDATE queues SET paused = ?2 WHERE key = ?1", (settings.key, paused))?;
    Settings::of(tx, settings.key).map(QueueInfo::from)
}

pub(crate) fn pause(tx: &Tx<'_>, arguments: QueueName) -> Result<QueueInfo> {
    set_paused(tx, &arguments.name, true)
}

pub(crate) fn resume(tx: &Tx<'_>, arguments: QueueName) -> Result<QueueInfo> {
    set_paused(tx, &arguments.name, false)
}

pub(crate) fn hold(tx: &Tx<'_>, arguments: HoldQueue) -> Result<QueueInfo> {
    if let Some(until) = arguments.until.filter(|&until| until <= tx.now) {
        return Err(Error::invalid(format!(
            "until must lie in the future; it is {until}, and now is {}. Null ends a hold",
            tx.now
        ))
        .with("path", "until")
        .with("now", tx.now));
    }
    let settings = Settings::ensure(tx, &arguments.name)?;
    tx.touch(Topic::Queues, &settings.name);
    match &arguments.key {
        Some(key) => hold_key(tx, &settings, key, arguments.until)?,
        None => {
            tx.execute_one("UPDATE queues SET held_until = ?2 WHERE key = ?1", (settings.key, arguments.until))?;
        }
    }
    Settings::of(tx, settings.key).map(QueueInfo::from)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListQueues) -> Result<Page<QueueInfo>> {
    let mut page = PageBuilder::unfiltered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => select_settings!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"),
        Order::Desc => select_settings!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3"),
    };
    tx.walk(sql, (from, to, page.scanned()), |row| {
        page.visit(tx.number_of(row.get(0)?), Settings::read(row).map(QueueInfo::from), |_| 300)
    })?;
    Ok(page.finish())
}

arguments! {
    /// Of what to answer the counts; without members, of all queues.
    pub struct StatsOf {
        pub queue: Option<Name>,
        pub execution_id: Option<Name>,
    }
}

pub(crate) fn stats(tx: &Tx<'_>, of: StatsOf) -> Result<QueueStats> {
    let mut stats = QueueStats { counts: ItemCounts::default(), oldest_pending_at: None };
    let queue = match &of.queue {
        None => None,
        Some(name) => match super::queue_key(tx, name)? {
            None => return Ok(stats),
            key => key,
        },
    };
    if let Some(id) = &of.execution_id {
        super::stats_of_execution(tx, id, queue, &mut stats)?;
        return Ok(stats);
    }
    let queues = tx.rows(
        "SELECT key, scheduled, pending, claimed, completed, dead_lettered, cancelled FROM queues WHERE key BETWEEN ?1 AND ?2",
        queue.map_or(tx.keys(), |queue| (queue, queue)),
        |row| {
            let counts = &mut stats.counts;
            counts.scheduled += row.get::<_, i64>(1)?;
            counts.pending += row.get::<_, i64>(2)?;
            counts.claimed += row.get::<_, i64>(3)?;
            counts.completed += row.get::<_, i64>(4)?;
            counts.dead_lettered += row.get::<_, i64>(5)?;
            counts.cancelled += row.get::<_, i64>(6)?;
            Ok(row.get::<_, i64>(0)?)
        },
    )?;
    for queue in queues {
        stats.oldest_pending_at = super::earlier(stats.oldest_pending_at, super::oldest_pending(tx, queue)?);
    }
    Ok(stats)
}
