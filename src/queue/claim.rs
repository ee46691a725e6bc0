//! Handing items to workers.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::limits::{Settings, rebalance, spend_of_key, wake_keys};
use super::{ItemStatus, LONGEST_LEASE_MS, WorkItem, by_key, check_ms, ready_scheduled, reclaim_expired, shift};
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::store::{Columns, Tx};
use crate::tenants;
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
        /// Milliseconds to wait for an item where there is none, at most 10 minutes; 0 unless given. In Rust, `claim` answers at once and
        /// `claim_waiting` waits.
        pub wait_ms: Option<i64>,
    }
}

/// As many items one claim takes at most.
pub(super) const MOST_CLAIMED: i64 = 1000;

pub(super) const DEFAULT_LEASE_MS: i64 = 30_000;

/// The class of items that every worker may have.
pub(super) const NOTHING_REQUIRED: i64 = 0;

const LONGEST_WAIT_MS: i64 = 10 * 60 * 1000;

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
    if !(1..=MOST_CLAIMED).contains(&limit) {
        return Err(Error::invalid(format!("limit must be 1 to {MOST_CLAIMED}, not {limit}")).with("path", "limit"));
    }
    let lease_ms = arguments.lease_ms.unwrap_or(DEFAULT_LEASE_MS);
    check_ms("leaseMs", Some(lease_ms), 1, LONGEST_LEASE_MS)?;
    check_ms("waitMs", arguments.wait_ms, 0, LONGEST_WAIT_MS)?;
    tenants::may_begin(tx)?;
    let namespace = workers::namespace(arguments.namespace.as_ref());
    let names: BTreeSet<&str> = arguments.queues.iter().map(Name::as_str).collect();
    let mut sources = Vec::with_capacity(names.len());
    let mut capabilities = None;
    for name in names {
        let Some((settings, upkeep)) = Settings::to_claim_from(tx, name)? else { continue };
        // While the driver of sweeps is overdue, the device may have slept: only the next sweep can tell whose lease is to blame.
        if upkeep.has_expired && !tx.is_driver_overdue() {
            reclaim_expired(tx, settings.key, UPKEEP_LIMIT)?;
        }
        if upkeep.has_due {
            ready_scheduled(tx, settings.key, UPKEEP_LIMIT)?;
        }
        if upkeep.has_keys {
            wake_keys(tx, &settings, UPKEEP_LIMIT)?;
        }
        let mut takes = vec![NOTHING_REQUIRED];
        if upkeep.has_classes {
            // Asked for only where it matters: registration is needed for nothing else.
            let capabilities = match &mut capabilities {
                Some(known) => known,
                unknown => unknown.insert(workers::capabilities(tx, namespace, &arguments.worker_id)?),
            };
            let mut classes = classes(tx, settings.key)?;
            classes.retain(|class| class.requires.iter().all(|required| capabilities.contains(required)));
            takes = classes.iter().map(|class| class.key).collect();
        }
        sources.push(Source { room: settings.room(tx)?, classes: takes, taken: 0, settings });
    }
    let mut claimed = Vec::new();
    while (claimed.len() as i64) < limit {
        let ready = first_ready(tx, &sources, limit - claimed.len() as i64)?;
        if ready.is_empty() {
            break;
        }
        for Ready { key, source, concurrency_key, .. } in ready {
            let source = &mut sources[source];
            if source.room == 0 {
                continue;
            }
            if let Some(concurrency_key) = &concurrency_key {
                // An item before this one may have taken the key's last place; then this one is blocked by now.
                if source.settings.room_of_key(tx, concurrency_key)? == 0 {
                    rebalance(tx, &source.settings, concurrency_key)?;
                    continue;
                }
            }
            tx.execute_one(
                "UPDATE items SET status = 'claimed', attempt = attempt + 1, fence = fence + 1, lease_expires_at = ?2, lease_ms = ?3,
                                  namespace = ?4, worker_id = ?5, claimed_at = ?6, settlement = NULL
                 WHERE key = ?1 AND status = 'pending'",
                (key, tx.now.saturating_add(lease_ms), lease_ms, namespace, &arguments.worker_id, tx.now),
            )?;
            source.room -= 1;
            source.taken += 1;
            claimed.push(by_key(tx, key)?);
            if let Some(concurrency_key) = &concurrency_key {
                spend_of_key(tx, &source.settings, concurrency_key)?;
                if rebalance(tx, &source.settings, concurrency_key)? {
                    // The key's bucket had filled up further than anybody had noticed. What came in may be the next.
                    break;
                }
            }
        }
    }
    for source in &sources {
        shift(tx, source.settings.key, Some(ItemStatus::Pending), Some(ItemStatus::Claimed), source.taken)?;
        source.settings.spend(tx, source.taken)?;
    }
    Ok(claimed)
}

/// The items of an earlier claim that are still under the fence which it gave.
pub(crate) fn claimed_before(tx: &Tx<'_>, claimed: &[(String, i64)]) -> Result<Vec<WorkItem>> {
    let mut items = Vec::with_capacity(claimed.len());
    for (id, fence) in claimed {
        let key = tx.row(
            "SELECT key FROM items WHERE tenant = ?1 AND id = ?2 AND fence = ?3 AND status = 'claimed'",
            (tx.tenant, id, fence),
            |row| Ok(row.get(0)?),
        )?;
        if let Some(key) = key {
            items.push(by_key(tx, key)?);
        }
    }
    Ok(items)
}

/// A queue that a claim takes from.
struct Source {
    settings: Settings,
    /// The classes of `requires` that the worker may have.
    classes: Vec<i64>,
    /// How many more items the limits of the queue let through.
    room: i64,
    taken: i64,
}

/// An item that can be claimed. Ordered as claims are: by priority, then runAt, then the order of enqueueing.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    priority: Reverse<i64>,
    run_at: i64,
    key: i64,
    /// Which of the sources it comes from.
    source: usize,
    concurrency_key: Option<String>,
}

/// The first items over all sources. One index range a queue and class, merged here: one query over all of them would have to sort.
fn first_ready(tx: &Tx<'_>, sources: &[Source], limit: i64) -> Result<Vec<Ready>> {
    let mut ready = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        for class in &source.classes {
            tx.walk(
                "SELECT key, priority, run_at, concurrency_key FROM items
                 WHERE queue = ?1 AND class = ?2 AND status = 'pending' AND blocked = 0 ORDER BY priority DESC, run_at, key LIMIT ?3",
                (source.settings.key, class, limit.min(source.room)),
                |row| {
                    ready.push(Ready {
                        key: row.get(0)?,
                        priority: Reverse(row.get(1)?),
                        run_at: row.get(2)?,
                        concurrency_key: row.get(3)?,
                        source: index,
                    });
                    Ok(true)
                },
            )?;
        }
    }
    ready.sort_unstable();
    ready.truncate(limit as usize);
    Ok(ready)
}
