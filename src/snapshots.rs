//! Snapshots: whole folds, kept so that no log has to be folded from its beginning.

use crate::error::Result;
use crate::events;
use crate::executions::{Head, keep};
use crate::fold::{Fold, Materialized, Outputs};
use crate::ids::Name;
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Columns, Tx};

records! {
    /// A fold that is kept.
    pub struct Snapshot {
        pub execution_id: String,
        /// The last event that counts in it.
        pub sequence: i64,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Its size as JSON text.
        pub bytes: i64,
    }
}

arguments! {
    pub struct LatestSnapshot {
        pub execution_id: Name,
    }

    /// Of which execution to list the snapshots.
    pub struct ListSnapshots {
        pub execution_id: Name,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

/// A snapshot is written after at least so many events, and when they weigh more than the last snapshot did: so the size of all
/// snapshots, and the work of writing them, stay in proportion to the log.
const LEAST_EVENTS: i64 = 100;

/// Writes a snapshot if one is due.
pub(crate) fn after_append(tx: &Tx<'_>, head: &mut Head) -> Result<()> {
    if head.last_sequence - head.snapshot_at < LEAST_EVENTS || head.tail_bytes < head.snapshot_bytes {
        return Ok(());
    }
    let fold = fold(tx, head, head.last_sequence)?;
    let text = fold.to_json()?;
    let bytes = text.as_str().len() as i64;
    head.snapshot_bytes = bytes;
    // The fold may weigh more than the events since the last one; then it waits until they have caught up. It grows with them: the wait
    // is never so short that folding again and again would cost more than the log.
    if bytes > head.tail_bytes {
        head.snapshot_bytes = bytes.max(head.tail_bytes.saturating_add(head.tail_bytes / 8));
    } else {
        tx.execute_one(
            "INSERT INTO snapshots (execution, sequence, fold, created_at) VALUES (?1, ?2, ?3, ?4)",
            (head.key, head.last_sequence, text, tx.now),
        )?;
        head.snapshot_at = head.last_sequence;
        head.tail_bytes = 0;
        keep(tx, head, &fold.outcome)?;
    }
    tx.execute_one(
        "UPDATE executions SET snapshot_at = ?2, snapshot_bytes = ?3, tail_bytes = ?4 WHERE key = ?1",
        (head.key, head.snapshot_at, head.snapshot_bytes, head.tail_bytes),
    )
}

/// The fold of an execution's log up to the sequence `at`.
pub(crate) fn fold(tx: &Tx<'_>, head: &Head, at: i64) -> Result<Fold> {
    resume(tx, head, at, Outputs::InTheLog)
}

/// The fold up to the sequence `at` with the outputs of its nodes, as callers see it.
pub(crate) fn materialize(tx: &Tx<'_>, head: &Head, at: i64) -> Result<Materialized> {
    let mut fold = resume(tx, head, at, Outputs::Held)?;
    fold.hold_outputs(tx, head)?;
    Ok(fold.into())
}

/// The same of the whole log, from where it was last asked for.
pub(crate) fn materialize_present(tx: &Tx<'_>, head: &Head) -> Result<Materialized> {
    let version = tx.row("PRAGMA data_version", (), |row| Ok(row.get(0)?))?.unwrap_or_default();
    let known = tx.folds().take(version, head.key);
    let mut fold = match known {
        Some(mut fold) => {
            events::walk(tx, head, fold.last_sequence(), head.last_sequence, &mut |event| fold.apply(event, Outputs::Held))?;
            fold
        }
        None => Box::new(resume(tx, head, head.last_sequence, Outputs::Held)?),
    };
    fold.hold_outputs(tx, head)?;
    let materialized = Fold::clone(&fold).into();
    tx.folds().keep(head.key, fold);
    Ok(materialized)
}

fn resume(tx: &Tx<'_>, head: &Head, at: i64, outputs: Outputs) -> Result<Fold> {
    let kept = tx.row(
        "SELECT sequence, fold FROM snapshots WHERE execution = ?1 AND sequence <= ?2 ORDER BY sequence DESC LIMIT 1",
        (head.key, at),
        |row| {
            let columns = Columns::new(row, "snapshots", head.id.as_str());
            Ok((columns.get::<i64>(0)?, columns.json::<Fold>(1)?))
        },
    )?;
    let (after, fold) = match kept {
        Some((sequence, fold)) => (sequence, fold),
        None => (0, base(tx, head)?),
    };
    let mut fold = fold.unwrap_or_else(Fold::empty);
    events::walk(tx, head, after, at, &mut |event| fold.apply(event, outputs))?;
    Ok(fold)
}

/// The fold at sequence 0, where it is not the empty one.
pub(crate) fn base(tx: &Tx<'_>, head: &Head) -> Result<Option<Fold>> {
    let base = tx.row("SELECT fold FROM execution_bases WHERE execution = ?1", [head.key], |row| {
        Columns::new(row, "execution_bases", head.id.as_str()).json::<Fold>(0)
    })?;
    Ok(base.flatten())
}

pub(crate) fn latest(tx: &Tx<'_>, arguments: LatestSnapshot) -> Result<Option<Snapshot>> {
    let head = Head::get(tx, &arguments.execution_id)?;
    tx.row(
        "SELECT sequence, created_at, length(CAST(fold AS BLOB)) FROM snapshots WHERE execution = ?1 ORDER BY sequence DESC LIMIT 1",
        [head.key],
        |row| read(row, &head),
    )
}

fn read(row: &rusqlite::Row<'_>, head: &Head) -> Result<Snapshot> {
    let columns = Columns::new(row, "snapshots", head.id.as_str());
    Ok(Snapshot { execution_id: head.id.clone(), sequence: columns.get(0)?, created_at: columns.get(1)?, bytes: columns.get(2)? })
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListSnapshots) -> Result<Page<Snapshot>> {
    let head = Head::get(tx, &filter.execution_id)?;
    let mut page = PageBuilder::unfiltered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::sequences(filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => {
            "SELECT sequence, created_at, length(CAST(fold AS BLOB)) FROM snapshots
             WHERE execution = ?1 AND sequence BETWEEN ?2 AND ?3 ORDER BY sequence LIMIT ?4"
        }
        Order::Desc => {
            "SELECT sequence, created_at, length(CAST(fold AS BLOB)) FROM snapshots
             WHERE execution = ?1 AND sequence BETWEEN ?2 AND ?3 ORDER BY sequence DESC LIMIT ?4"
        }
    };
    tx.walk(sql, (head.key, from, to, page.scanned()), |row| page.visit(row.get(0)?, read(row, &head), |_| 200))?;
    Ok(page.finish())
}

/// Keeps the fold at a sequence of an imported log, where a snapshot of that log was. Answers the fold.
pub(crate) fn import(tx: &Tx<'_>, head: &mut Head, sequence: i64, created_at: i64) -> Result<Fold> {
    let fold = fold(tx, head, sequence)?;
    let text = fold.to_json()?;
    let bytes = text.as_str().len() as i64;
    tx.execute_one(
        "INSERT INTO snapshots (execution, sequence, fold, created_at) VALUES (?1, ?2, ?3, ?4)",
        (head.key, sequence, text, created_at),
    )?;
    if sequence >= head.snapshot_at {
        let tail = tx.row(
            "SELECT coalesce(sum(length(CAST(data AS BLOB))), 0) FROM events WHERE execution = ?1 AND sequence > ?2",
            (head.key, sequence),
            |row| Ok(row.get::<_, i64>(0)?),
        )?;
        (head.snapshot_at, head.snapshot_bytes, head.tail_bytes) = (sequence, bytes, tail.unwrap_or_default());
        tx.execute_one(
            "UPDATE executions SET snapshot_at = ?2, snapshot_bytes = ?3, tail_bytes = ?4 WHERE key = ?1",
            (head.key, head.snapshot_at, head.snapshot_bytes, head.tail_bytes),
        )?;
    }
    Ok(fold)
}

/// When the snapshot at a sequence was made, if there is one.
pub(crate) fn made_at(tx: &Tx<'_>, head: &Head, sequence: i64) -> Result<Option<i64>> {
    tx.row("SELECT created_at FROM snapshots WHERE execution = ?1 AND sequence = ?2", (head.key, sequence), |row| Ok(row.get(0)?))
}
