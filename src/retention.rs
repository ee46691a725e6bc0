//! How long finished things are kept.

use crate::error::{Error, Result};
use crate::executions;
use crate::queue;
use crate::store::{Columns, Tx};
use crate::threads;
use crate::workers;

records! {
    /// Milliseconds for which finished things are kept; what has no time is kept for ever.
    #[derive(Default)]
    pub struct RetentionTimes {
        /// Executions that have ended, with their log.
        pub executions_ms: Option<i64>,
        /// Work items that completed or were cancelled.
        pub items_ms: Option<i64>,
        /// Records of deliveries that did not complete.
        pub attempts_ms: Option<i64>,
        pub dead_letters_ms: Option<i64>,
        /// Changes in the registry of workers.
        pub history_ms: Option<i64>,
        /// Threads that have not changed for so long, with all that is in them; not those of which a turn waits or runs.
        pub threads_ms: Option<i64>,
    }
}

arguments! {
    /// Times to change. What is left out stays; null keeps for ever again.
    pub struct SetRetention {
        pub executions_ms: Option<Option<i64>>,
        pub items_ms: Option<Option<i64>>,
        pub attempts_ms: Option<Option<i64>>,
        pub dead_letters_ms: Option<Option<i64>>,
        pub history_ms: Option<Option<i64>>,
        pub threads_ms: Option<Option<i64>>,
    }

    pub struct GetRetention {}
}

pub(crate) fn get(tx: &Tx<'_>, _: GetRetention) -> Result<RetentionTimes> {
    let kept = tx.row(
        "SELECT executions_ms, items_ms, attempts_ms, dead_letters_ms, history_ms, threads_ms FROM retention WHERE tenant = ?1",
        [tx.tenant],
        |row| {
            let columns = Columns::new(row, "retention", tx.tenant.to_string());
            Ok(RetentionTimes {
                executions_ms: columns.get(0)?,
                items_ms: columns.get(1)?,
                attempts_ms: columns.get(2)?,
                dead_letters_ms: columns.get(3)?,
                history_ms: columns.get(4)?,
                threads_ms: columns.get(5)?,
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
        ("threadsMs", changes.threads_ms),
    ] {
        if let Some(ms) = given.flatten().filter(|ms| *ms < 0) {
            return Err(Error::invalid(format!("{path} must not be negative; it is {ms}")).with("path", path));
        }
    }
    let before = get(tx, GetRetention {})?;
    tx.execute_one(
        "INSERT INTO retention (tenant, executions_ms, items_ms, attempts_ms, dead_letters_ms, history_ms, threads_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (tenant) DO UPDATE SET executions_ms = excluded.executions_ms, items_ms = excluded.items_ms,
             attempts_ms = excluded.attempts_ms, dead_letters_ms = excluded.dead_letters_ms, history_ms = excluded.history_ms,
             threads_ms = excluded.threads_ms, item_cursor = 0, item_due = 0, execution_cursor = 0, execution_due = 0,
             thread_cursor = 0, thread_due = 0",
        (
            tx.tenant,
            changes.executions_ms.unwrap_or(before.executions_ms),
            changes.items_ms.unwrap_or(before.items_ms),
            changes.attempts_ms.unwrap_or(before.attempts_ms),
            changes.dead_letters_ms.unwrap_or(before.dead_letters_ms),
            changes.history_ms.unwrap_or(before.history_ms),
            changes.threads_ms.unwrap_or(before.threads_ms),
        ),
    )?;
    get(tx, GetRetention {})
}

/// What a step of pruning did.
#[derive(Default)]
pub(crate) struct Pruned {
    pub(crate) looked_at: i64,
    pub(crate) pruned: i64,
}

/// Lets go of finished things whose time is over, looking at no more than `limit` rows. It has looked at fewer when there is nothing more
/// to do now. Things are finished in about the order in which they began, so each pass walks on from where the last one stopped, and no
/// index of endings is kept; at the end of a walk it is known when the next one can find something.
pub(crate) fn prune(tx: &Tx<'_>, limit: i64) -> Result<Pruned> {
    let kept = get(tx, GetRetention {})?;
    let cutoff = |ms: Option<i64>| ms.map(|ms| tx.now.saturating_sub(ms));
    let mut done = Pruned::default();
    if let Some(cutoff) = cutoff(kept.history_ms) {
        done.pruned = workers::prune_history(tx, cutoff, limit)?;
        done.looked_at = done.pruned;
    }
    let least = [kept.items_ms, kept.dead_letters_ms, kept.attempts_ms].into_iter().flatten().min();
    if let Some(least) = least {
        let cutoffs = queue::Cutoffs {
            finished: cutoff(kept.items_ms),
            dead_letters: cutoff(kept.dead_letters_ms),
            attempts: cutoff(kept.attempts_ms),
        };
        pass(tx, &ITEMS, least, limit, &mut done, |after, limit| queue::prune(tx, cutoffs, after, limit))?;
    }
    if let Some(least) = kept.executions_ms {
        let cutoff = tx.now.saturating_sub(least);
        pass(tx, &EXECUTIONS, least, limit, &mut done, |after, limit| executions::prune(tx, cutoff, after, limit))?;
    }
    if let Some(least) = kept.threads_ms {
        let cutoff = tx.now.saturating_sub(least);
        pass(tx, &THREADS, least, limit, &mut done, |after, limit| threads::prune(tx, cutoff, after, limit))?;
    }
    Ok(done)
}

/// How far a pass got.
pub(crate) struct Pass {
    pub(crate) looked_at: i64,
    pub(crate) pruned: i64,
    /// The last key looked at; none at the end of the table.
    pub(crate) last: Option<i64>,
    /// When the time of a row that was kept is over.
    pub(crate) earliest: Option<i64>,
}

impl Pass {
    /// A pass over rows with these keys, of which there could have been `limit`.
    pub(crate) fn over(keys: impl ExactSizeIterator<Item = i64>, limit: i64) -> Self {
        let looked_at = keys.len() as i64;
        Self { looked_at, pruned: 0, last: keys.last().filter(|_| looked_at == limit), earliest: None }
    }

    /// A row that is kept until `at`.
    pub(crate) fn keep_until(&mut self, at: i64) {
        self.earliest = Some(self.earliest.map_or(at, |earliest| earliest.min(at)));
    }
}

/// The statements for where a walk stands.
struct Walk {
    read: &'static str,
    write: &'static str,
}

const ITEMS: Walk = Walk {
    read: "SELECT item_cursor, item_due FROM retention WHERE tenant = ?1",
    write: "UPDATE retention SET item_cursor = ?2, item_due = ?3 WHERE tenant = ?1",
};

const EXECUTIONS: Walk = Walk {
    read: "SELECT execution_cursor, execution_due FROM retention WHERE tenant = ?1",
    write: "UPDATE retention SET execution_cursor = ?2, execution_due = ?3 WHERE tenant = ?1",
};

const THREADS: Walk = Walk {
    read: "SELECT thread_cursor, thread_due FROM retention WHERE tenant = ?1",
    write: "UPDATE retention SET thread_cursor = ?2, thread_due = ?3 WHERE tenant = ?1",
};

/// Goes on with a walk over a table; begins another one only when it can find something. `least` is for how long things are kept at least.
fn pass(
    tx: &Tx<'_>,
    walk: &Walk,
    least: i64,
    limit: i64,
    done: &mut Pruned,
    step: impl FnOnce(i64, i64) -> Result<Pass>,
) -> Result<()> {
    let left = limit - done.looked_at;
    let (after, due) =
        tx.row(walk.read, [tx.tenant], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?.unwrap_or((0, 0));
    // Something may be over by `due`, which was less than `least` away; it is further away where the clock has gone back since.
    let waits = tx.now < due && due <= tx.now.saturating_add(least);
    if left <= 0 || (after == 0 && waits) {
        return Ok(());
    }
    let pass = step(after, left)?;
    // What is not finished yet is kept for `least` from now on, or longer.
    let so_far = if after == 0 { tx.now.saturating_add(least) } else { due };
    let due = pass.earliest.map_or(so_far, |earliest| earliest.min(so_far));
    tx.execute_one(walk.write, (tx.tenant, pass.last.unwrap_or(0), due))?;
    done.looked_at += pass.looked_at;
    done.pruned += pass.pruned;
    Ok(())
}
