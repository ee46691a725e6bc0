//! The one way in which an execution changes: events are appended, and its rows are brought up to the fold of them.

use std::collections::VecDeque;

use rusqlite::Row;
use serde_json::{Value, json};

use super::ExecutionStatus;
use crate::approvals;
use crate::error::{Error, ErrorCode, Result};
use crate::events::{self, Event, NewEvent};
use crate::executions::Created;
use crate::fold::{Effect, Outcome};
use crate::json::Json;
use crate::operation::Topic;
use crate::queue;
use crate::snapshots;
use crate::store::{Columns, Tx};
use crate::tenants;

/// A state of up to so many bytes is written with each change; a larger one is folded when it is asked for.
const KEPT_STATE_BYTES: usize = 4096;

/// The narrow part of an execution's row: what appending to its log reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) key: i64,
    pub(crate) id: String,
    pub(crate) status: ExecutionStatus,
    pub(crate) last_sequence: i64,
    started_at: Option<i64>,
    completed_at: Option<i64>,
    changed: i64,
    pub(crate) snapshot_at: i64,
    pub(crate) snapshot_bytes: i64,
    pub(crate) tail_bytes: i64,
}

macro_rules! select_head {
    ($rest:literal) => {
        concat!(
            "SELECT key, id, status, last_sequence, started_at, completed_at, changed, snapshot_at, snapshot_bytes, tail_bytes
             FROM executions ",
            $rest
        )
    };
}

impl Head {
    pub(crate) fn find(tx: &Tx<'_>, id: &str) -> Result<Option<Self>> {
        tx.row(select_head!("WHERE tenant = ?1 AND id = ?2"), (tx.tenant, id), Self::read)
    }

    pub(crate) fn get(tx: &Tx<'_>, id: &str) -> Result<Self> {
        Self::find(tx, id)?.ok_or_else(|| Error::not_found("execution", id))
    }

    pub(crate) fn by_key(tx: &Tx<'_>, key: i64) -> Result<Self> {
        tx.row(select_head!("WHERE key = ?1"), [key], Self::read)?
            .ok_or_else(|| Error::new(ErrorCode::Internal, format!("the execution with key {key} is gone")))
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        let columns = Columns::with_id(row, "executions", 1);
        Ok(Self {
            key: columns.get(0)?,
            id: columns.get(1)?,
            status: columns.get(2)?,
            last_sequence: columns.get(3)?,
            started_at: columns.get(4)?,
            completed_at: columns.get(5)?,
            changed: columns.get(6)?,
            snapshot_at: columns.get(7)?,
            snapshot_bytes: columns.get(8)?,
            tail_bytes: columns.get(9)?,
        })
    }

    /// Refuses what a terminal execution no longer takes.
    pub(crate) fn must_be_open(&self, what: &str) -> Result<()> {
        if !self.status.is_terminal() {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::InvalidTransition,
            format!("the execution {:?} is {} and takes {what} no more", self.id, self.status.as_str()),
        )
        .with("id", self.id.as_str())
        .with("status", self.status.as_str()))
    }
}

/// The changed number that comes after all others of the tenant.
pub(super) fn next_change(tx: &Tx<'_>) -> Result<i64> {
    let last = tx.row("SELECT changed FROM executions WHERE tenant = ?1 ORDER BY changed DESC LIMIT 1", [tx.tenant], |row| {
        Ok(row.get::<_, i64>(0)?)
    })?;
    Ok(last.unwrap_or(0) + 1)
}

/// Keeps the counts by status in step with one execution.
pub(super) fn count(tx: &Tx<'_>, status: ExecutionStatus, by: i64) -> Result<()> {
    // The inserted row itself must satisfy the CHECK, so one less is an update.
    let sql = if by < 0 {
        "UPDATE execution_counts SET count = count + ?3 WHERE tenant = ?1 AND status = ?2"
    } else {
        "INSERT INTO execution_counts (tenant, status, count) VALUES (?1, ?2, ?3)
         ON CONFLICT (tenant, status) DO UPDATE SET count = count + excluded.count"
    };
    tx.execute_one(sql, (tx.tenant, status, by))
}

/// What the record shows of the fold, beside the status.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    state: Value,
    output: Option<Json>,
    error: Option<Json>,
}

/// What of it has to be read and written for a series of events.
enum Kept {
    /// Nothing touched it yet.
    Untouched,
    /// Read, with what it was.
    Loaded(Shown),
    /// The state is large: it is left to the fold, and only output and error are kept.
    Large,
}

/// Appends events to an execution's log and brings its rows up to the fold of them.
pub(crate) fn record(tx: &Tx<'_>, head: &mut Head, new: Vec<NewEvent>) -> Result<Vec<Created<Event>>> {
    let mut answers = Vec::with_capacity(new.len());
    let mut outcome =
        Outcome { status: head.status, started_at: head.started_at, completed_at: head.completed_at, ..Outcome::empty() };
    let mut kept = Kept::Untouched;
    let before = head.clone();
    let mut new = VecDeque::from(new);
    while let Some(event) = new.pop_front() {
        if let Some(known) = events::known(tx, head, &event)? {
            answers.push(Created { record: known, created: false });
            continue;
        }
        let effect = Effect::of(&event.event_type, event.data.as_str())?;
        let appended = events::insert(tx, head, event)?;
        head.tail_bytes += appended.data.as_str().len() as i64;
        if matches!(kept, Kept::Untouched) && outcome.touches_state(&effect) {
            kept = load(tx, head, &mut outcome)?;
        }
        let others_pending = approvals::track(tx, head, &appended, &effect)?;
        let ended_before = outcome.status.is_terminal();
        if let Effect::NodeCompleted { input_tokens, output_tokens, cost_usd, .. } = effect {
            tenants::spend(tx, input_tokens.saturating_add(output_tokens), cost_usd)?;
        }
        outcome.apply(effect, tx.now, others_pending);
        if outcome.status.is_terminal() && !ended_before {
            // What still waits for this execution will not run; the log says so right after the end.
            for node_id in queue::cancel_waiting(tx, head.key)? {
                new.push_back(NewEvent::of("node_cancelled", &json!({ "nodeId": node_id })));
            }
        }
        answers.push(Created { record: appended, created: true });
    }
    if head.last_sequence == before.last_sequence {
        return Ok(answers);
    }
    tx.touch(Topic::Executions, &head.id);
    tx.touch(Topic::Events, &head.id);
    store(tx, head, kept, &outcome)?;
    if before.status != outcome.status {
        count(tx, before.status, -1)?;
        count(tx, outcome.status, 1)?;
    }
    // A statement writes every index, and runs every CHECK, that one of its columns is in, whether or not that changes: what stays is not
    // named.
    if (before.status, before.started_at, before.completed_at) != (outcome.status, outcome.started_at, outcome.completed_at) {
        tx.execute_one(
            "UPDATE executions SET status = ?2, started_at = ?3, completed_at = ?4 WHERE key = ?1",
            (head.key, outcome.status, outcome.started_at, outcome.completed_at),
        )?;
    }
    let (sequence, tail) = (head.last_sequence, head.tail_bytes);
    let next = next_change(tx)?;
    if next > head.changed + 1 {
        // Another execution has changed since.
        head.changed = next;
        tx.execute_one(
            "UPDATE executions SET last_sequence = ?2, updated_at = ?3, tail_bytes = ?4, changed = ?5 WHERE key = ?1",
            (head.key, sequence, tx.now, tail, next),
        )?;
    } else {
        tx.execute_one(
            "UPDATE executions SET last_sequence = ?2, updated_at = ?3, tail_bytes = ?4 WHERE key = ?1",
            (head.key, sequence, tx.now, tail),
        )?;
    }
    head.status = outcome.status;
    head.started_at = outcome.started_at;
    head.completed_at = outcome.completed_at;
    snapshots::after_append(tx, head)?;
    Ok(answers)
}

/// Reads what the record shows into `outcome`, unless the state is large.
fn load(tx: &Tx<'_>, head: &Head, outcome: &mut Outcome) -> Result<Kept> {
    let stored = tx.row("SELECT state, output, error FROM execution_states WHERE execution = ?1", [head.key], |row| {
        let columns = Columns::new(row, "execution_states", head.id.as_str());
        Ok((columns.json::<Value>(0)?, columns.get(1)?, columns.get(2)?))
    })?;
    let is_large = matches!(stored, Some((None, ..)));
    if let Some((state, output, error)) = stored {
        (outcome.output, outcome.error) = (output, error);
        outcome.state = state.unwrap_or_default();
    }
    if is_large {
        return Ok(Kept::Large);
    }
    Ok(Kept::Loaded(Shown { state: outcome.state.clone(), output: outcome.output.clone(), error: outcome.error.clone() }))
}

/// Writes what the record shows, where events touched it.
fn store(tx: &Tx<'_>, head: &Head, kept: Kept, outcome: &Outcome) -> Result<()> {
    let state = match kept {
        Kept::Untouched => return Ok(()),
        Kept::Large => None,
        Kept::Loaded(before) => {
            let after = Shown { state: outcome.state.clone(), output: outcome.output.clone(), error: outcome.error.clone() };
            if after == before {
                return Ok(());
            }
            Some(after.state.to_string()).filter(|state| state.len() <= KEPT_STATE_BYTES)
        }
    };
    write_shown(tx, head.key, state, outcome.output.as_ref(), outcome.error.as_ref())
}

pub(super) fn write_shown(
    tx: &Tx<'_>,
    execution: i64,
    state: Option<String>,
    output: Option<&Json>,
    error: Option<&Json>,
) -> Result<()> {
    tx.execute_one(
        "INSERT INTO execution_states (execution, state, output, error) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (execution) DO UPDATE SET state = excluded.state, output = excluded.output, error = excluded.error",
        (execution, state, output, error),
    )
}

/// Writes what a fold has brought: a state that is small again needs no fold from then on.
pub(crate) fn keep(tx: &Tx<'_>, head: &Head, outcome: &Outcome) -> Result<()> {
    let state = Some(outcome.state.to_string()).filter(|state| state.len() <= KEPT_STATE_BYTES);
    write_shown(tx, head.key, state, outcome.output.as_ref(), outcome.error.as_ref())
}
