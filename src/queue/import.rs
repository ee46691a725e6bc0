//! Items that an import brings, in the status that they have.

use super::enqueue::{is_inline, store_apart};
use super::limits::Settings;
use super::{ItemStatus, claim, shift};
use crate::error::Result;
use crate::ids::Name;
use crate::json::Json;
use crate::store::Tx;

/// An item as it was elsewhere.
#[derive(Clone)]
pub(crate) struct ImportedItem {
    pub(crate) id: Name,
    /// The key of its execution.
    pub(crate) execution: i64,
    pub(crate) node_id: Name,
    pub(crate) queue: Name,
    pub(crate) payload: Json,
    pub(crate) status: ItemStatus,
    pub(crate) attempt: i64,
    pub(crate) max_attempts: i64,
    pub(crate) run_at: i64,
    pub(crate) lease_expires_at: Option<i64>,
    pub(crate) worker_id: Option<Name>,
    pub(crate) created_at: i64,
    pub(crate) claimed_at: Option<i64>,
    pub(crate) finished_at: Option<i64>,
    pub(crate) last_error: Option<Json>,
    pub(crate) digest: [u8; 32],
}

/// The digest of the item with this id, if there is one.
pub(crate) fn digest_of(tx: &Tx<'_>, id: &Name) -> Result<Option<Option<[u8; 32]>>> {
    tx.row("SELECT digest FROM items WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| Ok(row.get(0)?))
}

/// Inserts an item. Nothing is logged: its log comes with the import.
pub(crate) fn import(tx: &Tx<'_>, item: &ImportedItem) -> Result<()> {
    let settings = Settings::ensure(tx, &item.queue)?;
    let key = tx.next_key("SELECT key FROM items WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    let lease_ms = item.lease_expires_at.zip(item.claimed_at).map(|(end, start)| end.saturating_sub(start)).filter(|ms| *ms > 0);
    let held = item.status == ItemStatus::Claimed;
    tx.execute_one(
        "INSERT INTO items (key, tenant, id, queue, class, execution, node_id, status, priority, attempt, max_attempts, run_at, fence,
                            lease_expires_at, lease_ms, namespace, worker_id, created_at, claimed_at, finished_at, last_error, digest,
                            payload)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?9, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
        rusqlite::params![
            key,
            tx.tenant,
            item.id,
            settings.key,
            claim::NOTHING_REQUIRED,
            item.execution,
            item.node_id,
            item.status,
            // The fence is the number of deliveries too: it only has to rise.
            item.attempt,
            item.max_attempts,
            item.run_at,
            item.lease_expires_at.filter(|_| held),
            lease_ms.filter(|_| held),
            item.worker_id.as_ref().map(|_| crate::workers::namespace(None)),
            item.worker_id,
            item.created_at,
            item.claimed_at,
            item.finished_at,
            item.last_error,
            item.digest,
            is_inline(&item.payload).then_some(&item.payload),
        ],
    )?;
    if !is_inline(&item.payload) {
        store_apart(tx, key, &item.payload)?;
    }
    shift(tx, settings.key, None, Some(item.status), 1)
}
