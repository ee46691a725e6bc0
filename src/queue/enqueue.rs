//! Putting items into a queue.

use super::limits::{Settings, rebalance};
use super::{Backoff, ItemStatus, LONGEST_DELAY_MS, WorkItem, by_key, check_ms, queue_key, shift};
use crate::error::{Error, ErrorCode, Result};
use crate::executions::{Created, Head};
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::store::Tx;
use crate::tenants;

words! {
    /// For how long an idempotency key names its item.
    pub enum UniqueFor {
        /// Until the item is finished.
        Unfinished = "unfinished",
        /// As long as the item is kept.
        Ever = "ever",
    }
}

arguments! {
    /// A new work item.
    pub struct EnqueueItem {
        /// Made by the store unless given. The same id with the same arguments answers the item that exists.
        pub id: Option<Name>,
        /// The execution that the item belongs to; its log tells of retries, failures and cancellations.
        pub execution_id: Option<Name>,
        /// Required with `executionId`.
        pub node_id: Option<Name>,
        pub queue: Name,
        /// Any JSON; null unless given.
        pub payload: Option<Json>,
        /// Higher first; 0 unless given.
        pub priority: Option<i64>,
        /// Only a registered worker with all these capabilities gets the item.
        pub requires: Option<Vec<Name>>,
        /// At least 1; the queue's unless given, or 3.
        pub max_attempts: Option<i64>,
        /// Unix milliseconds: not before this. At once unless given.
        pub run_at: Option<i64>,
        /// Milliseconds from now; instead of `runAt`.
        pub delay_ms: Option<i64>,
        /// The queue's unless given.
        pub backoff: Option<Backoff>,
        /// An item of the queue under the same key that is not finished is answered instead of making another.
        pub idempotency_key: Option<Name>,
        /// With `ever`, finished items count too.
        pub unique_for: Option<UniqueFor>,
        /// Items that share it share the limits that the queue sets for one key.
        pub concurrency_key: Option<Name>,
    }

    pub struct EnqueueItems {
        pub items: Vec<EnqueueItem>,
    }
}

const DEFAULT_MAX_ATTEMPTS: i64 = 3;

/// Different sets of `requires` that one queue takes: a claim looks at each of them.
const MAX_CLASSES: i64 = 64;

/// A payload of up to this many bytes lies in the item's row.
const INLINE_PAYLOAD_BYTES: usize = 4096;

pub(crate) fn enqueue(tx: &Tx<'_>, arguments: EnqueueItem) -> Result<Created<WorkItem>> {
    answer(tx, insert(tx, "", arguments)?)
}

pub(crate) fn enqueue_many(tx: &Tx<'_>, arguments: EnqueueItems) -> Result<Vec<Created<WorkItem>>> {
    let mut items = Vec::with_capacity(arguments.items.len());
    for (index, item) in arguments.items.into_iter().enumerate() {
        let inserted = insert(tx, &format!("items[{index}]."), item).map_err(|error| error.with("index", index))?;
        items.push(answer(tx, inserted)?);
    }
    Ok(items)
}

/// What became of a call for a new item.
pub(crate) enum Inserted {
    /// The same call made the item with this key before.
    Known(i64),
    /// The item as it is now in its rows, but for the tenant's id.
    New(Box<WorkItem>),
}

fn answer(tx: &Tx<'_>, inserted: Inserted) -> Result<Created<WorkItem>> {
    Ok(match inserted {
        Inserted::Known(key) => Created { record: by_key(tx, key)?, created: false },
        Inserted::New(item) => {
            // Not read back: that took a seventh of the time.
            Created { record: WorkItem { tenant_id: tenants::may_create(tx)?, ..*item }, created: true }
        }
    })
}

/// Inserts an item, or finds the one that the same call made before. `path` names the arguments in errors. Whether the tenant may create
/// items is the caller's to ask: what follows from a settlement is part of it.
pub(crate) fn insert(tx: &Tx<'_>, path: &str, mut arguments: EnqueueItem) -> Result<Inserted> {
    check(tx, path, &arguments)?;
    // A set has no order, and how long a key counts says something of the call, not of the item: neither makes it another call.
    if let Some(requires) = &mut arguments.requires {
        requires.sort();
        requires.dedup();
    }
    let unique_for = arguments.unique_for.take().unwrap_or(UniqueFor::Unfinished);
    let named = arguments.id.is_some() || arguments.idempotency_key.is_some();
    let digest = named.then(|| digest(&arguments)).transpose()?;
    if let Some(known) = known(tx, &arguments, unique_for, digest)? {
        return Ok(Inserted::Known(known));
    }
    let execution = match &arguments.execution_id {
        None => None,
        Some(id) => {
            let head = Head::get(tx, id)?;
            head.must_be_open("work items")?;
            Some(head.key)
        }
    };
    let settings = Settings::ensure(tx, &arguments.queue)?;
    let queue = settings.key;
    let class = class(tx, queue, &arguments)?;
    let run_at = arguments.run_at.or(arguments.delay_ms.map(|ms| tx.now.saturating_add(ms))).unwrap_or(tx.now);
    let status = if run_at > tx.now { ItemStatus::Scheduled } else { ItemStatus::Pending };
    // An id of the caller's may have been that of an item which is gone.
    let fence = match &arguments.id {
        None => None,
        Some(_) => tx.row("SELECT past_fence FROM tenants WHERE number = ?1", [tx.tenant], |row| Ok(row.get::<_, i64>(0)?))?,
    };
    let id = arguments.id.map_or_else(|| new_id(tx.now), |id| id.to_string());
    let item = WorkItem {
        id,
        tenant_id: String::new(),
        execution_id: arguments.execution_id.map(String::from),
        node_id: arguments.node_id.map(String::from),
        queue: arguments.queue.into(),
        payload: arguments.payload.unwrap_or_default(),
        priority: arguments.priority.unwrap_or(0),
        requires: arguments.requires.unwrap_or_default().into_iter().map(String::from).collect(),
        status,
        attempt: 0,
        max_attempts: arguments.max_attempts.or(settings.max_attempts).unwrap_or(DEFAULT_MAX_ATTEMPTS),
        run_at,
        backoff: arguments.backoff,
        idempotency_key: arguments.idempotency_key.map(String::from),
        concurrency_key: arguments.concurrency_key.map(String::from),
        created_at: tx.now,
        claimed_at: None,
        finished_at: None,
        worker_id: None,
        lease_expires_at: None,
        fence: fence.unwrap_or(0),
        output: None,
        last_error: None,
        progress: None,
        cancel_requested: false,
    };
    let key = tx.next_key("SELECT key FROM items WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO items (key, tenant, id, queue, class, execution, node_id, status, priority, attempt, max_attempts, run_at, fence,
                            created_at, concurrency_key, idempotency_key, backoff, digest, payload)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        rusqlite::params![
            key,
            tx.tenant,
            item.id,
            queue,
            class,
            execution,
            item.node_id,
            status,
            item.priority,
            item.max_attempts,
            run_at,
            item.fence,
            tx.now,
            item.concurrency_key,
            item.idempotency_key,
            item.backoff.as_ref().map(|backoff| Json::of(backoff)).transpose()?,
            digest,
            is_inline(&item.payload).then_some(&item.payload),
        ],
    )?;
    if !is_inline(&item.payload) {
        store_apart(tx, key, &item.payload)?;
    }
    shift(tx, queue, None, Some(status), 1)?;
    if let Some(concurrency_key) = item.concurrency_key.as_ref().filter(|_| status == ItemStatus::Pending) {
        rebalance(tx, &settings, concurrency_key)?;
    }
    Ok(Inserted::New(Box::new(item)))
}

pub(super) fn is_inline(payload: &Json) -> bool {
    payload.as_str().len() <= INLINE_PAYLOAD_BYTES
}

pub(super) fn store_apart(tx: &Tx<'_>, key: i64, payload: &Json) -> Result<()> {
    tx.execute_one("INSERT INTO item_payloads (item, payload) VALUES (?1, ?2)", (key, payload))
}

/// Puts another payload in the place of an item's.
pub(super) fn store_payload(tx: &Tx<'_>, key: i64, payload: &Json) -> Result<()> {
    tx.execute_one("UPDATE items SET payload = ?2 WHERE key = ?1", (key, is_inline(payload).then_some(payload)))?;
    tx.execute("DELETE FROM item_payloads WHERE item = ?1", [key])?;
    if is_inline(payload) { Ok(()) } else { store_apart(tx, key, payload) }
}

/// Refuses an item that could be enqueued at no time.
pub(crate) fn check(tx: &Tx<'_>, path: &str, arguments: &EnqueueItem) -> Result<()> {
    tx.document(&format!("{path}payload"), arguments.payload.as_ref())?;
    let refuse = |field: &str, rule: String| {
        let path = format!("{path}{field}");
        Err(Error::invalid(format!("{path} {rule}")).with("path", path))
    };
    if let Some(attempts) = arguments.max_attempts.filter(|attempts| *attempts < 1) {
        return refuse("maxAttempts", format!("must be at least 1, not {attempts}"));
    }
    if arguments.execution_id.is_some() && arguments.node_id.is_none() {
        return refuse("nodeId", "is required with executionId: it names the step of the execution".to_owned());
    }
    if arguments.execution_id.is_none() && arguments.node_id.is_some() {
        return refuse("nodeId", "is given without executionId; give both, or neither".to_owned());
    }
    if arguments.run_at.is_some() && arguments.delay_ms.is_some() {
        return refuse("delayMs", "is given beside runAt; give one of them".to_owned());
    }
    if let Some(at) = arguments.run_at.filter(|at| *at < 0) {
        return refuse("runAt", format!("must be Unix milliseconds, not {at}"));
    }
    if arguments.unique_for.is_some() && arguments.idempotency_key.is_none() {
        return refuse("uniqueFor", "says for how long an idempotencyKey counts, and there is none".to_owned());
    }
    check_ms(&format!("{path}delayMs"), arguments.delay_ms, 0, LONGEST_DELAY_MS)?;
    arguments.backoff.as_ref().map_or(Ok(()), |backoff| backoff.check(path))
}

/// The item that the same call made before, by id or by idempotency key; `conflict` where its arguments were others.
fn known(tx: &Tx<'_>, arguments: &EnqueueItem, unique_for: UniqueFor, digest: Option<[u8; 32]>) -> Result<Option<i64>> {
    let same = |key: i64, stored: Option<[u8; 32]>, kind: &str, id: &str| {
        if stored.is_some() && stored == digest {
            return Ok(Some(key));
        }
        Err(Error::conflict(format!("there is a work item with the {kind} {id:?} already, enqueued with other arguments"))
            .with(kind, id))
    };
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<[u8; 32]>>(1)?));
    if let Some(id) = &arguments.id {
        let found = tx.row("SELECT key, digest FROM items WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), read)?;
        if let Some((key, stored)) = found {
            return same(key, stored, "id", id);
        }
    }
    if let Some(idempotency_key) = &arguments.idempotency_key
        && let Some(queue) = queue_key(tx, &arguments.queue)?
    {
        // A key that is used day by day names many finished items: the index tells them apart.
        let of_key = (queue, idempotency_key);
        let unfinished = tx.row(
            "SELECT key, digest FROM items WHERE queue = ?1 AND idempotency_key = ?2 AND finished_at IS NULL LIMIT 1",
            of_key,
            read,
        )?;
        let found = match unfinished {
            None if unique_for == UniqueFor::Ever => tx.row(
                "SELECT key, digest FROM items WHERE queue = ?1 AND idempotency_key = ?2 ORDER BY finished_at DESC, key DESC LIMIT 1",
                of_key,
                read,
            )?,
            found => found,
        };
        if let Some((key, stored)) = found {
            return same(key, stored, "idempotencyKey", idempotency_key);
        }
    }
    Ok(None)
}

/// The class of the item's `requires`, which are sorted.
fn class(tx: &Tx<'_>, queue: i64, arguments: &EnqueueItem) -> Result<i64> {
    let Some(requires) = arguments.requires.as_ref().filter(|requires| !requires.is_empty()) else {
        return Ok(super::claim::NOTHING_REQUIRED);
    };
    let requires = Json::of(requires)?;
    let known = tx.row("SELECT key FROM requirement_classes WHERE queue = ?1 AND requires = ?2", (queue, &requires), |row| {
        Ok(row.get(0)?)
    })?;
    if let Some(key) = known {
        return Ok(key);
    }
    let count: Option<i64> =
        tx.row("SELECT count(*) FROM requirement_classes WHERE queue = ?1", [queue], |row| Ok(row.get(0)?))?;
    if count >= Some(MAX_CLASSES) {
        return Err(Error::new(
            ErrorCode::LimitExceeded,
            format!(
                "the queue {:?} has items of {MAX_CLASSES} different sets of requires already, the most it takes; use another queue",
                arguments.queue.as_str()
            ),
        )
        .with("queue", arguments.queue.as_str())
        .with("limit", MAX_CLASSES));
    }
    let key = tx.next_key("SELECT key FROM requirement_classes WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one("INSERT INTO requirement_classes (key, queue, requires) VALUES (?1, ?2, ?3)", (key, queue, &requires))?;
    Ok(key)
}
