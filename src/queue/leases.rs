//! Leases that have run out.

use super::{ItemStatus, queues_with, touch};
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::page::Page;
use crate::store::{Columns, Tx};

records! {
    /// A claimed item whose lease has run out. Nothing has been done about it yet.
    pub struct ExpiredLease {
        pub id: String,
        pub execution_id: Option<String>,
        pub queue: String,
        pub fence: i64,
        pub worker_id: String,
        pub namespace: String,
        pub attempt: i64,
        /// Unix milliseconds.
        pub lease_expires_at: i64,
    }
}

arguments! {
    /// Which expired leases to list.
    pub struct ListExpiredLeases {
        /// Unix milliseconds: leases that end up to then; now unless given.
        pub as_of: Option<i64>,
        /// All namespaces unless given.
        pub namespace: Option<Name>,
        /// 1 to 10,000; 1000 unless given.
        pub limit: Option<i64>,
        pub cursor: Option<String>,
    }
}

const DEFAULT_LIMIT: i64 = 1000;
const MAX_LIMIT: i64 = 10_000;

/// Lists by (leaseExpiresAt, sequence), so that a walk is stable while leases of the same millisecond come and go.
pub(crate) fn list_expired(tx: &Tx<'_>, filter: ListExpiredLeases) -> Result<Page<ExpiredLease>> {
    let limit = filter.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_LIMIT}, not {limit}")).with("path", "limit"));
    }
    let as_of = filter.as_of.unwrap_or(tx.now);
    let (after, number) = filter.cursor.as_deref().map_or(Ok((i64::MIN, 0)), parse_cursor)?;
    // One index range a queue, merged: each gives its first rows in order.
    let mut expired: Vec<(i64, i64)> = Vec::new();
    for queue in queues_with(tx, ItemStatus::Claimed)? {
        expired.extend(tx.rows(
            "SELECT lease_expires_at, key FROM items
             WHERE queue = ?1 AND status = 'claimed' AND lease_expires_at <= ?2 AND (lease_expires_at, key) > (?3, ?4)
                 AND (?6 IS NULL OR namespace = ?6)
             ORDER BY lease_expires_at, key LIMIT ?5",
            (queue, as_of, after, tx.key_of(number), limit + 1, &filter.namespace),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?);
    }
    expired.sort_unstable();
    let mut page = Page { items: Vec::new(), next_cursor: None, damaged: Vec::new() };
    for (at, key) in expired {
        if page.items.len() + page.damaged.len() == limit as usize {
            return Ok(page);
        }
        match lease(tx, key) {
            Ok(lease) => page.items.push(lease),
            Err(error) if error.code() == crate::ErrorCode::Corrupt => page.damaged.push((&error).into()),
            Err(error) => return Err(error),
        }
        page.next_cursor = Some(format!("{at}:{}", tx.number_of(key)));
    }
    page.next_cursor = None;
    Ok(page)
}

fn lease(tx: &Tx<'_>, key: i64) -> Result<ExpiredLease> {
    let lease = tx.row(
        "SELECT i.id, e.id, q.name, i.fence, i.worker_id, i.namespace, i.attempt, i.lease_expires_at
         FROM items i JOIN queues q ON q.key = i.queue LEFT JOIN executions e ON e.key = i.execution WHERE i.key = ?1",
        [key],
        |row| {
            let columns = Columns::with_id(row, "items", 0);
            Ok(ExpiredLease {
                id: columns.get(0)?,
                execution_id: columns.get(1)?,
                queue: columns.get(2)?,
                fence: columns.get(3)?,
                worker_id: columns.get(4)?,
                namespace: columns.get(5)?,
                attempt: columns.get(6)?,
                lease_expires_at: columns.get(7)?,
            })
        },
    )?;
    lease.ok_or_else(|| Error::corrupt("items", &key.to_string(), "its row is missing"))
}

fn parse_cursor(cursor: &str) -> Result<(i64, i64)> {
    let parsed = cursor.split_once(':').and_then(|(at, number)| Some((at.parse().ok()?, number.parse().ok()?)));
    parsed.ok_or_else(|| {
        Error::invalid(format!("cursor {cursor:?} is none of this list's; pass nextCursor of the page before"))
            .with("path", "cursor")
    })
}

/// Gives leases that ran out after `since` one more period, at most once per fence: the device slept, and their holders with it.
pub(crate) fn grace(tx: &Tx<'_>, since: i64) -> Result<()> {
    for queue in queues_with(tx, ItemStatus::Claimed)? {
        let graced = tx.execute(
            "UPDATE items SET lease_expires_at = ?3 + lease_ms, graced_fence = fence
             WHERE queue = ?1 AND status = 'claimed' AND lease_expires_at > ?2 AND lease_expires_at <= ?3
                 AND (graced_fence IS NULL OR graced_fence < fence)",
            (queue, since, tx.now),
        )?;
        if graced > 0 {
            touch(tx, queue)?;
        }
    }
    Ok(())
}
