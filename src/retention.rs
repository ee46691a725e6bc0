//! How long finished things are kept.

use serde::{Deserialize, Deserializer};

use crate::error::{Error, Result};
use crate::executions;
use crate::queue;
use crate::store::{Columns, Tx};
use crate::workers;

records! {
    /// Milliseconds for which finished things are kept; what has no time is kept for ever.
    #[derive(Default)]
    pub struct RetentionTimes {
        /// Executions that have ended, with their log.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub executions_ms: Option<i64>,
        /// Work items that completed or were cancelled.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub items_ms: Option<i64>,
        /// Records of deliveries that did not complete.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub attempts_ms: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dead_letters_ms: Option<i64>,
        /// Changes in the registry of workers.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub history_ms: Option<i64>,
    }
}

arguments! {
    /// Times to change. What is left out stays; null keeps for ever again.
    pub struct SetRetention {
        #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
        pub executions_ms: Option<Option<i64>>,
        #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
        pub items_ms: Option<Option<i64>>,
        #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
        pub attempts_ms: Option<Option<i64>>,
        #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
        pub dead_letters_ms: Option<Option<i64>>,
        #[serde(default, deserialize_with = "change", skip_serializing_if = "Option::is_none")]
        pub history_ms: Option<Option<i64>>,
    }

    pub struct GetRetention {}
}

fn change<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

pub(crate) fn get(tx: &Tx<'_>, _: GetRetention) -> Result<RetentionTimes> {
    let kept = tx.row(
        "SELECT executions_ms, items_ms, attempts_ms, dead_letters_ms, history_ms FROM retention WHERE tenant = ?1",
        [tx.tenant],
        |row| {
            let columns = Columns::new(row, "retention", tx.tenant.to_string());
            Ok(RetentionTimes {
                executions_ms: columns.get(0)?,
                items_ms: columns.get(1)?,
                attempts_ms: columns.get(2)?,
                dead_letters_ms: columns.get(3)?,
                history_ms: columns.get(4)?,
            })
        },
    )?;
    Ok(kept.unwrap_or_default())
}

pub(crate) fn set(tx: &Tx<'_>, changes: SetRetention) -> Result<RetentionTimes> {
    for (path, given) in [
        ("executionsMs", changes.executions_ms),
        ("itemsMs", changes.items_ms),
        ("attemptsMs", changes.attempts_ms),
        ("deadLettersMs", changes.dead_letters_ms),
        ("historyMs", changes.history_ms),
    ] {
        if let Some(ms) = given.flatten().filter(|ms| *ms < 0) {
            return Err(Error::invalid(format!("{path} must not be negative; it is {ms}")).with("path", path));
        }
    }
    let before = get(tx, GetRetention {})?;
    tx.execute_one(
        "INSERT INTO retention (tenant, executions_ms, items_ms, attempts_ms, dead_letters_ms, history_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (tenant) DO UPDATE SET executions_ms = excluded.executions_ms, items_ms = excluded.items_ms,
             attempts_ms = excluded.attempts_ms, dead_letters_ms = excluded.dead_letters_ms, history_ms = excluded.history_ms",
        (
            tx.tenant,
            changes.executions_ms.unwrap_or(before.executions_ms),
            changes.items_ms.unwrap_or(before.items_ms),
            changes.attempts_ms.unwrap_or(before.attempts_ms),
            changes.dead_letters_ms.unwrap_or(before.dead_letters_ms),
            changes.history_ms.unwrap_or(before.history_ms),
        ),
    )?;
    get(tx, GetRetention {})
}

/// Lets go of finished things whose time is over, at most `limit` rows. Answers how many. Things are finished in about the order in
/// which they began, so each pass walks on from where the last one stopped, and no index of endings is kept.
pub(crate) fn prune(tx: &Tx<'_>, limit: i64) -> Result<i64> {
    let kept = get(tx, GetRetention {})?;
    let cutoff = |ms: Option<i64>| ms.map(|ms| tx.now.saturating_sub(ms));
    let mut pruned = 0;
    if let Some(cutoff) = cutoff(kept.history_ms) {
        pruned += workers::prune_history(tx, cutoff, limit)?;
    }
    if kept.items_ms.is_some() || kept.dead_letters_ms.is_some() || kept.attempts_ms.is_some() {
        let cutoffs = queue::Cutoffs {
            finished: cutoff(kept.items_ms),
            dead_letters: cutoff(kept.dead_letters_ms),
            attempts: cutoff(kept.attempts_ms),
        };
        pruned += pass(tx, "item_cursor", limit - pruned, |after, limit| queue::prune(tx, cutoffs, after, limit))?;
    }
    if let Some(cutoff) = cutoff(kept.executions_ms) {
        pruned += pass(tx, "execution_cursor", limit - pruned, |after, limit| executions::prune(tx, cutoff, after, limit))?;
    }
    Ok(pruned)
}

/// How far a pass got.
pub(crate) struct Pass {
    pub(crate) pruned: i64,
    /// The last key looked at; none at the end of the table.
    pub(crate) last: Option<i64>,
}

/// Goes on with a walk over a table, and begins anew at its end.
fn pass(tx: &Tx<'_>, cursor: &str, limit: i64, step: impl FnOnce(i64, i64) -> Result<Pass>) -> Result<i64> {
    if limit <= 0 {
        return Ok(0);
    }
    let after =
        tx.row(&format!("SELECT {cursor} FROM retention WHERE tenant = ?1"), [tx.tenant], |row| Ok(row.get::<_, i64>(0)?))?;
    let after = after.unwrap_or(0);
    let pass = step(after, limit)?;
    let next = pass.last.unwrap_or(0);
    if next != after {
        tx.execute_one(&format!("UPDATE retention SET {cursor} = ?2 WHERE tenant = ?1"), (tx.tenant, next))?;
    }
    Ok(pass.pruned)
}
