//! The registry of workers: who is alive, for which queues, with which capabilities.

use std::collections::BTreeSet;

use rusqlite::Row;

use crate::error::{Error, Result};
use crate::ids::Name;
use crate::json::Json;
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder};
use crate::queue::end_leases_of_worker;
use crate::store::{Columns, Tx};

records! {
    /// A live worker.
    pub struct Worker {
        pub worker_id: String,
        pub namespace: String,
        pub pool: String,
        /// Sorted.
        pub queues: Vec<String>,
        /// Sorted.
        pub capabilities: Vec<String>,
        pub liveness_ttl_ms: i64,
        /// Unix milliseconds.
        pub registered_at: i64,
        /// Unix milliseconds.
        pub last_heartbeat_at: i64,
        /// Unix milliseconds: dead from then on without another heartbeat.
        pub expires_at: i64,
        pub load: Option<f64>,
        pub metadata: Option<Json>,
    }

    /// One change of a worker's registration.
    pub struct HistoryEntry {
        pub worker_id: String,
        pub namespace: String,
        pub pool: String,
        pub change: WorkerChange,
        pub reason: Option<String>,
        /// Unix milliseconds.
        pub at: i64,
    }

    pub struct Registered {
        pub outcome: RegisterOutcome,
        /// Unix milliseconds: dead from then on without a heartbeat.
        pub next_expiry_at: i64,
    }

    pub struct Heartbeat {
        pub outcome: HeartbeatOutcome,
        /// Unix milliseconds: dead from then on without another heartbeat.
        pub next_expiry_at: Option<i64>,
    }

    pub struct MarkedDead {
        pub outcome: MarkDeadOutcome,
        /// How many of its leases ended by it.
        pub leases_ended: i64,
    }
}

words! {
    pub enum RegisterOutcome {
        /// None of this id was alive.
        Registered = "registered",
        /// Queues, capabilities and TTL of the live one were replaced.
        Refreshed = "refreshed",
    }

    pub enum HeartbeatOutcome {
        Refreshed = "refreshed",
        NotRegistered = "not_registered",
    }

    pub enum MarkDeadOutcome {
        Marked = "marked",
        NotRegistered = "not_registered",
    }

    /// What happened to a worker's registration.
    pub enum WorkerChange {
        Registered = "registered",
        Refreshed = "refreshed",
        MarkedDead = "marked_dead",
        TtlSwept = "ttl_swept",
    }
}

arguments! {
    /// Registers a worker, or refreshes the registration of a live one.
    pub struct RegisterWorker {
        /// One live process or tab; unique per boot.
        pub worker_id: Name,
        /// The logical group that it belongs to.
        pub pool: Name,
        pub queues: Vec<Name>,
        pub capabilities: Vec<Name>,
        /// Milliseconds for which it counts as alive after a heartbeat.
        pub liveness_ttl_ms: i64,
        /// `default` unless given.
        pub namespace: Option<Name>,
        pub metadata: Option<Json>,
    }

    pub struct WorkerHeartbeat {
        pub worker_id: Name,
        /// `default` unless given.
        pub namespace: Option<Name>,
        /// How busy it is, in a unit of its own.
        pub load: Option<f64>,
    }

    pub struct MarkWorkerDead {
        pub worker_id: Name,
        /// `default` unless given.
        pub namespace: Option<Name>,
        /// At most 256 bytes, no control characters.
        pub reason: String,
        /// Whether its leases end at once, by the rule for expired ones; true unless given.
        pub release_leases: Option<bool>,
    }

    /// Which live workers to list; without members, all of them.
    pub struct ListWorkers {
        /// All namespaces unless given.
        pub namespace: Option<Name>,
        pub pool: Option<Name>,
        pub queue: Option<Name>,
        pub capability: Option<Name>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

arguments! {
    /// Which changes to list; without members, all of them.
    pub struct ListHistory {
        pub namespace: Option<Name>,
        pub worker_id: Option<Name>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

const DEFAULT_NAMESPACE: &str = "default";

/// The longest time without a heartbeat: a week.
const LONGEST_TTL_MS: i64 = 7 * 24 * 60 * 60 * 1000;

pub(crate) fn namespace(given: Option<&Name>) -> &str {
    given.map_or(DEFAULT_NAMESPACE, Name::as_str)
}

/// A set of names as it is stored: sorted, each once.
fn set(names: &[Name]) -> Result<Json> {
    Json::of(&names.iter().map(Name::as_str).collect::<BTreeSet<_>>())
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT key, worker_id, namespace, pool, queues, capabilities, liveness_ttl_ms, registered_at, last_heartbeat_at, expires_at,
                    load, metadata FROM workers ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<Worker> {
    let columns = Columns::with_id(row, "workers", 1);
    Ok(Worker {
        worker_id: columns.get(1)?,
        namespace: columns.get(2)?,
        pool: columns.get(3)?,
        queues: columns.json(4)?.unwrap_or_default(),
        capabilities: columns.json(5)?.unwrap_or_default(),
        liveness_ttl_ms: columns.get(6)?,
        registered_at: columns.get(7)?,
        last_heartbeat_at: columns.get(8)?,
        expires_at: columns.get(9)?,
        load: columns.get(10)?,
        metadata: columns.get(11)?,
    })
}

/// The row of a worker that is alive now.
fn live(tx: &Tx<'_>, namespace: &str, worker_id: &str) -> Result<Option<(i64, Worker)>> {
    tx.row(
        select!("WHERE tenant = ?1 AND namespace = ?2 AND worker_id = ?3 AND expires_at > ?4"),
        (tx.tenant, namespace, worker_id, tx.waking()),
        |row| Ok((row.get(0)?, read(row)?)),
    )
}

/// The capabilities of a live worker; none where it is not registered.
pub(crate) fn capabilities(tx: &Tx<'_>, namespace: &str, worker_id: &str) -> Result<BTreeSet<String>> {
    Ok(live(tx, namespace, worker_id)?.map(|(_, worker)| worker.capabilities.into_iter().collect()).unwrap_or_default())
}

fn remember(tx: &Tx<'_>, namespace: &str, worker_id: &str, pool: &str, change: WorkerChange, reason: Option<&str>) -> Result<()> {
    tx.touch(Topic::Workers, worker_id);
    let key = tx.next_key("SELECT key FROM worker_history WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO worker_history (key, tenant, namespace, worker_id, pool, change, reason, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        (key, tx.tenant, namespace, worker_id, pool, change, reason, tx.now),
    )
}

fn expiry(tx: &Tx<'_>, ttl_ms: i64) -> i64 {
    tx.now.saturating_add(ttl_ms)
}

pub(crate) fn register(tx: &Tx<'_>, arguments: RegisterWorker) -> Result<Registered> {
    let ttl_ms = arguments.liveness_ttl_ms;
    if !(1..=LONGEST_TTL_MS).contains(&ttl_ms) {
        return Err(Error::invalid(format!("livenessTtlMs must be 1 to {LONGEST_TTL_MS} milliseconds, not {ttl_ms}"))
            .with("path", "livenessTtlMs"));
    }
    tx.document("metadata", arguments.metadata.as_ref())?;
    let namespace = namespace(arguments.namespace.as_ref());
    let next_expiry_at = expiry(tx, ttl_ms);
    if let Some((key, worker)) = live(tx, namespace, &arguments.worker_id)? {
        if worker.pool != arguments.pool.as_str() {
            return Err(Error::conflict(format!(
                "worker id reassigned: {:?} is alive in the pool {:?}, and asks for {:?}; use another workerId for each boot",
                worker.worker_id,
                worker.pool,
                arguments.pool.as_str()
            ))
            .with("workerId", worker.worker_id)
            .with("pool", worker.pool));
        }
        tx.execute_one(
            "UPDATE workers SET queues = ?2, capabilities = ?3, liveness_ttl_ms = ?4, last_heartbeat_at = ?5, expires_at = ?6, graced = 0,
                                metadata = ?7
             WHERE key = ?1",
            (key, set(&arguments.queues)?, set(&arguments.capabilities)?, ttl_ms, tx.now, next_expiry_at, &arguments.metadata),
        )?;
        remember(tx, namespace, &arguments.worker_id, &arguments.pool, WorkerChange::Refreshed, None)?;
        return Ok(Registered { outcome: RegisterOutcome::Refreshed, next_expiry_at });
    }
    // A lapsed row that no sweep has met yet counts as absent.
    remove(tx, namespace, &arguments.worker_id, WorkerChange::TtlSwept, None)?;
    let key = tx.next_key("SELECT key FROM workers WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO workers (key, tenant, namespace, worker_id, pool, queues, capabilities, liveness_ttl_ms, registered_at,
                              last_heartbeat_at, expires_at, metadata)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11)",
        (
            key,
            tx.tenant,
            namespace,
            &arguments.worker_id,
            &arguments.pool,
            set(&arguments.queues)?,
            set(&arguments.capabilities)?,
            ttl_ms,
            tx.now,
            next_expiry_at,
            &arguments.metadata,
        ),
    )?;
    remember(tx, namespace, &arguments.worker_id, &arguments.pool, WorkerChange::Registered, None)?;
    Ok(Registered { outcome: RegisterOutcome::Registered, next_expiry_at })
}

pub(crate) fn heartbeat(tx: &Tx<'_>, arguments: WorkerHeartbeat) -> Result<Heartbeat> {
    let namespace = namespace(arguments.namespace.as_ref());
    let Some((key, worker)) = live(tx, namespace, &arguments.worker_id)? else {
        return Ok(Heartbeat { outcome: HeartbeatOutcome::NotRegistered, next_expiry_at: None });
    };
    let next_expiry_at = expiry(tx, worker.liveness_ttl_ms);
    tx.touch(Topic::Workers, &arguments.worker_id);
    tx.execute_one(
        "UPDATE workers SET last_heartbeat_at = ?2, expires_at = ?3, graced = 0, load = coalesce(?4, load) WHERE key = ?1",
        (key, tx.now, next_expiry_at, arguments.load),
    )?;
    Ok(Heartbeat { outcome: HeartbeatOutcome::Refreshed, next_expiry_at: Some(next_expiry_at) })
}

pub(crate) fn mark_dead(tx: &Tx<'_>, arguments: MarkWorkerDead) -> Result<MarkedDead> {
    if let Err(reason) = Name::check_text(&arguments.reason) {
        return Err(Error::invalid(format!("reason {reason}")).with("path", "reason"));
    }
    let namespace = namespace(arguments.namespace.as_ref());
    if live(tx, namespace, &arguments.worker_id)?.is_none() {
        return Ok(MarkedDead { outcome: MarkDeadOutcome::NotRegistered, leases_ended: 0 });
    }
    remove(tx, namespace, &arguments.worker_id, WorkerChange::MarkedDead, Some(&arguments.reason))?;
    let leases_ended = if arguments.release_leases.unwrap_or(true) {
        end_leases_of_worker(tx, namespace, &arguments.worker_id, &arguments.reason)?.all()
    } else {
        0
    };
    Ok(MarkedDead { outcome: MarkDeadOutcome::Marked, leases_ended })
}

/// Removes a registration, if there is one, and remembers why.
fn remove(tx: &Tx<'_>, namespace: &str, worker_id: &str, change: WorkerChange, reason: Option<&str>) -> Result<()> {
    let pool = tx.row(
        "DELETE FROM workers WHERE tenant = ?1 AND namespace = ?2 AND worker_id = ?3 RETURNING pool",
        (tx.tenant, namespace, worker_id),
        |row| Ok(row.get::<_, String>(0)?),
    )?;
    pool.map_or(Ok(()), |pool| remember(tx, namespace, worker_id, &pool, change, reason))
}

/// Removes workers whose time to live has run out. Answers how many.
pub(crate) fn sweep_lapsed(tx: &Tx<'_>, limit: i64) -> Result<i64> {
    let lapsed = tx.rows(
        "SELECT namespace, worker_id FROM workers WHERE tenant = ?1 AND expires_at <= ?2 ORDER BY expires_at LIMIT ?3",
        (tx.tenant, tx.now, limit),
        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
    )?;
    for (namespace, worker_id) in &lapsed {
        remove(tx, namespace, worker_id, WorkerChange::TtlSwept, None)?;
    }
    Ok(lapsed.len() as i64)
}

/// Gives workers whose time ran out after `since` as much again, once: the device slept, and they with it.
pub(crate) fn grace(tx: &Tx<'_>, since: i64) -> Result<()> {
    let graced = tx.execute(
        "UPDATE workers SET expires_at = ?3 + liveness_ttl_ms, graced = 1
         WHERE tenant = ?1 AND expires_at > ?2 AND expires_at <= ?3 AND graced = 0",
        (tx.tenant, since, tx.now),
    )?;
    if graced > 0 {
        tx.touch_any(Topic::Workers);
    }
    Ok(())
}

/// Forgets changes from before `cutoff`. Answers how many.
pub(crate) fn prune_history(tx: &Tx<'_>, cutoff: i64, limit: i64) -> Result<i64> {
    let (first, last) = tx.keys();
    // In the order of keys, which is that of time as long as the clock does not jump; a younger row ends the walk.
    let old = tx.rows(
        "SELECT key, at FROM worker_history WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
        (first, last, limit),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
    )?;
    let mut pruned = 0;
    for (key, at) in old {
        if at > cutoff {
            break;
        }
        tx.execute_one("DELETE FROM worker_history WHERE key = ?1", [key])?;
        tx.touch_any(Topic::Workers);
        pruned += 1;
    }
    Ok(pruned)
}

pub(crate) fn history(tx: &Tx<'_>, filter: ListHistory) -> Result<Page<HistoryEntry>> {
    let limit = page::limit(filter.limit)?;
    let filtered = filter.namespace.is_some() || filter.worker_id.is_some();
    let mut page = if filtered { PageBuilder::filtered(limit) } else { PageBuilder::unfiltered(limit) };
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => {
            "SELECT key, worker_id, namespace, pool, change, reason, at FROM worker_history WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"
        }
        Order::Desc => {
            "SELECT key, worker_id, namespace, pool, change, reason, at FROM worker_history WHERE key BETWEEN ?1 AND ?2
             ORDER BY key DESC LIMIT ?3"
        }
    };
    tx.walk(sql, (from, to, page.scanned()), |row| {
        let number = tx.number_of(row.get(0)?);
        let differs = |wanted: &Option<Name>, at: usize| -> Result<bool> {
            let have: String = row.get(at)?;
            Ok(wanted.as_ref().is_some_and(|wanted| wanted.as_str() != have))
        };
        if differs(&filter.worker_id, 1)? || differs(&filter.namespace, 2)? {
            page.skip(number);
            return Ok(true);
        }
        let columns = Columns::with_id(row, "worker_history", 1);
        let entry = || {
            Ok(HistoryEntry {
                worker_id: columns.get(1)?,
                namespace: columns.get(2)?,
                pool: columns.get(3)?,
                change: columns.get(4)?,
                reason: columns.get(5)?,
                at: columns.get(6)?,
            })
        };
        page.visit(number, entry(), |_| 300)
    })?;
    Ok(page.finish())
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListWorkers) -> Result<Page<Worker>> {
    let mut page = PageBuilder::filtered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => select!("WHERE key BETWEEN ?1 AND ?2 AND expires_at > ?4 ORDER BY key LIMIT ?3"),
        Order::Desc => select!("WHERE key BETWEEN ?1 AND ?2 AND expires_at > ?4 ORDER BY key DESC LIMIT ?3"),
    };
    tx.walk(sql, (from, to, page.scanned(), tx.waking()), |row| {
        let number = tx.number_of(row.get(0)?);
        let record = read(row);
        let has = |set: &[String], wanted: &Option<Name>| {
            wanted.as_ref().is_none_or(|wanted| set.iter().any(|have| have == wanted.as_str()))
        };
        let belongs = record.as_ref().map_or(true, |worker| {
            filter.namespace.as_ref().is_none_or(|wanted| worker.namespace == wanted.as_str())
                && filter.pool.as_ref().is_none_or(|wanted| worker.pool == wanted.as_str())
                && has(&worker.queues, &filter.queue)
                && has(&worker.capabilities, &filter.capability)
        });
        if !belongs {
            page.skip(number);
            return Ok(true);
        }
        page.visit(number, record, |worker| worker.metadata.as_ref().map_or(500, |m| m.as_str().len() + 500))
    })?;
    Ok(page.finish())
}
