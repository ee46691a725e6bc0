//! Executions that an import brings. Their events are appended under their own sequences and times.

use super::ExecutionStatus;
use super::record::{Head, count, keep, next_change};
use crate::approvals;
use crate::error::Result;
use crate::events::Event;
use crate::fold::{Effect, Fold};
use crate::ids::Name;
use crate::json::Json;
use crate::operation::Topic;
use crate::snapshots;
use crate::store::Tx;
use crate::tenants;

/// An execution as it was elsewhere.
pub(crate) struct ImportedExecution {
    pub(crate) id: Name,
    pub(crate) workflow_id: Name,
    pub(crate) workflow_version: Name,
    pub(crate) status: ExecutionStatus,
    pub(crate) input: Json,
    pub(crate) state: Json,
    /// When it began, which is when it was made.
    pub(crate) started_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) completed_at: Option<i64>,
    pub(crate) digest: [u8; 32],
}

/// The key and the digest of the execution with this id, if there is one.
pub(crate) fn known(tx: &Tx<'_>, id: &Name) -> Result<Option<(i64, Option<[u8; 32]>)>> {
    tx.row(
        "SELECT e.key, d.digest FROM executions e LEFT JOIN execution_documents d ON d.execution = e.key WHERE e.tenant = ?1 AND e.id = ?2",
        (tx.tenant, id),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Inserts an execution without events. Recording is never refused, so no limit of the tenant counts. Answers its key.
pub(crate) fn import(tx: &Tx<'_>, imported: &ImportedExecution) -> Result<i64> {
    let key = tx.next_key("SELECT key FROM executions WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    let status = ExecutionStatus::Pending;
    tx.execute_one(
        "INSERT INTO executions (key, tenant, id, workflow_id, workflow_version, status, segment, last_sequence, created_at, updated_at,
                                 changed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, ?8, ?9)",
        (
            key,
            tx.tenant,
            &imported.id,
            &imported.workflow_id,
            &imported.workflow_version,
            status,
            imported.started_at,
            imported.updated_at,
            next_change(tx)?,
        ),
    )?;
    tx.touch(Topic::Executions, &imported.id);
    count(tx, status, 1)?;
    tx.execute_one(
        "INSERT INTO execution_documents (execution, input, tags, digest) VALUES (?1, ?2, '[]', ?3)",
        (key, &imported.input, imported.digest),
    )?;
    Ok(key)
}

/// Inserts one event under its own sequence, which must lie after the last one. The rows follow with [`settle`].
pub(crate) fn import_event(tx: &Tx<'_>, head: &mut Head, event: &Event, effect: &Effect) -> Result<()> {
    tx.execute_one(
        "INSERT INTO events (execution, sequence, tenant, id, type, data, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (head.key, event.sequence, tx.tenant, &event.id, &event.event_type, &event.data, event.created_at),
    )?;
    tx.touch(Topic::Events, &head.id);
    head.last_sequence = event.sequence;
    head.tail_bytes += event.data.as_str().len() as i64;
    approvals::track(tx, head, event, effect)?;
    if let Effect::NodeCompleted { input_tokens, output_tokens, cost_usd, .. } = effect {
        // It was used in the month in which it happened.
        tenants::spend(&tx.at(event.created_at), input_tokens.saturating_add(*output_tokens), *cost_usd)?;
    }
    Ok(())
}

/// Brings the rows up to the fold of the log. Times are those of the imported row. Answers the fold.
pub(crate) fn settle(tx: &Tx<'_>, head: &mut Head, imported: &ImportedExecution) -> Result<Fold> {
    let fold = snapshots::fold(tx, head, head.last_sequence)?;
    let status = fold.outcome.status;
    tx.touch(Topic::Executions, &head.id);
    keep(tx, head, &fold.outcome)?;
    if head.status != status {
        count(tx, head.status, -1)?;
        count(tx, status, 1)?;
        head.status = status;
    }
    let completed_at = imported.completed_at.or(fold.outcome.completed_at).filter(|_| status.is_terminal());
    let started_at = (status != ExecutionStatus::Pending).then_some(imported.started_at);
    tx.execute_one(
        "UPDATE executions SET status = ?2, last_sequence = ?3, started_at = ?4, completed_at = ?5, tail_bytes = ?6 WHERE key = ?1",
        (head.key, status, head.last_sequence, started_at, completed_at, head.tail_bytes),
    )?;
    snapshots::after_append(tx, head)?;
    Ok(fold)
}

/// Puts an execution behind all others in the order of changes.
pub(crate) fn touch(tx: &Tx<'_>, key: i64) -> Result<()> {
    tx.touch_any(Topic::Executions);
    tx.execute_one("UPDATE executions SET changed = ?2 WHERE key = ?1", (key, next_change(tx)?))
}
