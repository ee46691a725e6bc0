//! Handing items to workers.

use std::collections::BTreeSet;

use super::{ItemStatus, LONGEST_LEASE_MS, WorkItem, by_key, check_ms, queue_key, ready_scheduled, reclaim_expired, shift};
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::store::{Columns, Tx};
use crate::workers;

arguments! {
    /// A request for work.
    pub struct ClaimItems {
        pub worker_id: Name,
        /// `default` unless given.
        pub namespace: Option<Name>,
        /// The queues to claim from; none means no items.
        pub queues: Vec<Name>,
        /// 1 to 1000; 1 unless given.
        pub limit: Option<i64>,
        /// Milliseconds that the worker has before it must renew or settle; 30,000 unless given.
        pub lease_ms: Option<i64>,
    }
}

pub(super) const DEFAULT_LEASE_MS: i64 = 30_000;

/// The class of items that every worker may have.
pub(super) const NOTHING_REQUIRED: i64 = 0;

/// How many expired leases and due items a claim deals with on its way; the sweep does the rest.
const UPKEEP_LIMIT: i64 = 100;

/// A set of required capabilities of one queue.
pub(super) struct Class {
    pub(super) key: i64,
    requires: Vec<String>,
}

pub(super) fn classes(tx: &Tx<'_>, queue: i64) -> Result<Vec<Class>> {
    let mut all = vec![Class { key: NOTHING_REQUIRED, requires: Vec::new() }];
    all.extend(tx.rows("SELECT key, requires FROM requirement_classes WHERE queue = ?1", [queue], |row| {
        let columns = Columns::new(row, "requirement_classes", queue.to_string());
        Ok(Class { key: columns.get(0)?, requires: columns.json(1)?.unwrap_or_default() })
    })?);
    Ok(all)
}

pub(crate) fn claim(tx: &Tx<'_>, arguments: ClaimItems) -> Result<Vec<WorkItem>> {
    let limit = arguments.limit.unwrap_or(1);
    if !(1..=1000).contains(&limit) {
        return Err(Error::invalid(format!("limit must be 1 to 1000, not {limit}")).with("path", "limit"));
    }
    let lease_ms = arguments.lease_ms.unwrap_or(DEFAULT_LEASE_MS);
    check_ms("leaseMs", Some(lease_ms), 1, LONGEST_LEASE_MS)?;
    let namespace = workers::namespace(arguments.namespace.as_ref());
    let names: BTreeSet<&Name> = arguments.queues.iter().collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    reclaim_expired(tx, UPKEEP_LIMIT)?;
    let mut capabilities = None;
    let mut ready = Vec::new();
    for name in names {
        let Some(queue) = queue_key(tx, name)? else { continue };
        ready_scheduled(tx, queue, UPKEEP_LIMIT)?;
        for class in classes(tx, queue)? {
            if !class.requires.is_empty() {
                // Asked for only where it matters: registration is needed for nothing else.
                let capabilities = match &mut capabilities {
                    Some(known) => known,
                    unknown => unknown.insert(workers::capabilities(tx, namespace, &arguments.worker_id)?),
                };
                if !class.requires.iter().all(|required| capabilities.contains(required)) {
                    continue;
                }
            }
            tx.walk(
                "SELECT key, priority, run_at FROM items WHERE queue = ?1 AND class = ?2 AND status = 'pending'
                 ORDER BY priority DESC, run_at, key LIMIT ?3",
                (queue, class.key, limit),
                |row| {
                    let (key, priority, run_at): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
                    ready.push((std::cmp::Reverse(priority), run_at, key, queue));
                    Ok(true)
                },
            )?;
        }
    }
    ready.sort_unstable();
    ready.truncate(limit as usize);
    let mut claimed = Vec::with_capacity(ready.len());
    for &(.., key, queue) in &ready {
        tx.execute_one(
            "UPDATE items SET status = 'claimed', attempt = attempt + 1, fence = fence + 1, lease_expires_at = ?2, lease_ms = ?3,
                              namespace = ?4, worker_id = ?5, claimed_at = ?6, settlement = NULL
             WHERE key = ?1 AND status = 'pending'",
            (key, tx.now.saturating_add(lease_ms), lease_ms, namespace, &arguments.worker_id, tx.now),
        )?;
        shift(tx, queue, Some(ItemStatus::Pending), ItemStatus::Claimed, 1)?;
        claimed.push(by_key(tx, key)?);
    }
    Ok(claimed)
}
