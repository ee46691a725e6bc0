//! Turns: one exchange of a thread each, from what the person asked to where the answer ended.

use std::collections::BTreeSet;

use rusqlite::Row;
use serde_json::json;

use super::items::{self, ThreadItemStatus};
use super::usage::{self, TurnUsage};
use crate::error::{Error, ErrorCode, Result};
use crate::events::types::check_error;
use crate::executions::Created;
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::operation::Topic;
use crate::page::{self, Damaged, Order, Page, PageBuilder};
use crate::store::{Columns, Store, Tx};
use crate::{tenants, threads};

words! {
    /// Where a turn stands. The last four are terminal: nothing leaves them.
    #[derive(Default)]
    pub enum TurnStatus {
        #[default]
        Queued = "queued",
        InProgress = "in_progress",
        Completed = "completed",
        Failed = "failed",
        Interrupted = "interrupted",
        Cancelled = "cancelled",
    }
}

impl TurnStatus {
    /// Whether the turn has ended.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::InProgress)
    }

    /// Whether a turn may go from here to `to`. Setting the same status again changes nothing and is fine.
    pub fn may_become(self, to: Self) -> bool {
        match self {
            Self::Queued => matches!(to, Self::InProgress | Self::Cancelled | Self::Failed | Self::Interrupted),
            Self::InProgress => to.is_terminal(),
            Self::Completed | Self::Failed | Self::Interrupted | Self::Cancelled => false,
        }
    }

    /// What becomes of the items that a turn leaves open when it ends like this.
    fn of_items(self) -> Option<ThreadItemStatus> {
        match self {
            Self::Queued | Self::InProgress => None,
            Self::Completed => Some(ThreadItemStatus::Completed),
            Self::Failed => Some(ThreadItemStatus::Failed),
            Self::Interrupted => Some(ThreadItemStatus::Interrupted),
            Self::Cancelled => Some(ThreadItemStatus::Cancelled),
        }
    }
}

records! {
    /// One exchange of a thread.
    pub struct Turn {
        pub id: String,
        pub thread_id: String,
        pub execution_id: Option<String>,
        pub status: TurnStatus,
        /// A short text of what was asked; empty unless given.
        pub input_summary: String,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds: when it came to be in progress.
        pub started_at: Option<i64>,
        /// Unix milliseconds.
        pub ended_at: Option<i64>,
        /// From `startedAt` to `endedAt`.
        pub duration_ms: Option<i64>,
        /// What its responses have used, where any was recorded.
        pub usage: Option<TurnUsage>,
        /// The input tokens of its last request: how full the context is.
        pub last_request_input_tokens: Option<i64>,
        /// A string, or `{message, code?, stack?}`.
        pub error: Option<Json>,
        /// How many prompts of the inbox it has taken while it ran.
        pub steer_count: i64,
        /// Who runs it: `turns.recover` asks whether that one is alive.
        pub owner_id: Option<String>,
        pub metadata: Option<Json>,
    }

    /// What a recovery did.
    #[derive(Default)]
    pub struct Recovered {
        /// The ids of the turns that are `interrupted` now, in the order in which they were created.
        pub interrupted: Vec<String>,
        /// Rows that cannot be read; they are as they were.
        #[cfg_attr(feature = "development", ts(optional, as = "Option<Vec<Damaged>>"))]
        pub damaged: Vec<Damaged> as list,
    }
}

arguments! {
    /// A new turn of a thread.
    pub struct CreateTurn {
        pub thread_id: Name,
        /// Made by the store unless given. The same id with the same arguments answers the turn that exists, whoever owns it.
        pub id: Option<Name>,
        pub execution_id: Option<Name>,
        /// `queued` unless given.
        pub status: Option<TurnStatus>,
        pub input_summary: Option<String>,
        pub owner_id: Option<Name>,
        pub metadata: Option<Json>,
    }

    pub struct TurnId {
        pub id: Name,
    }

    /// What to change of a turn. What is left out stays, null clears.
    pub struct UpdateTurn {
        pub id: Name,
        /// The next status. A turn that has ended stays as it ended.
        pub status: Option<TurnStatus>,
        pub input_summary: Option<String>,
        pub execution_id: Option<Option<Name>>,
        pub last_request_input_tokens: Option<Option<i64>>,
        /// A string, or `{message, code?, stack?}`.
        pub error: Option<Option<Json>>,
        /// Who runs the turn from now on.
        pub owner_id: Option<Option<Name>>,
        pub metadata: Option<Option<Json>>,
        /// Makes the change only if this is the turn's status; `conflict` otherwise.
        pub expected_status: Option<TurnStatus>,
    }

    /// Which turns to list.
    pub struct ListTurns {
        pub thread_id: Name,
        pub status: Option<TurnStatus>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }

    pub struct ListIncompleteTurns {
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }

    pub struct RecoverTurns {
        /// The owners whose turns are left alone. In JavaScript, unless given, the pages and workers that have the store open; from Rust it has
        /// to be told.
        pub live_owner_ids: Option<Vec<Name>>,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT u.key, u.id, t.id, u.execution_id, u.status, u.input_summary, u.created_at, u.started_at, u.ended_at, u.duration_ms,
                    u.last_request_input_tokens, u.error, u.steer_count, u.owner_id, u.metadata
             FROM turns u LEFT JOIN threads t ON t.key = u.thread ",
            $rest
        )
    };
}

fn read(tx: &Tx<'_>, row: &Row<'_>) -> Result<Turn> {
    let columns = Columns::with_id(row, "turns", 1);
    let id: String = columns.get(1)?;
    let thread_id: Option<String> = columns.get(2)?;
    Ok(Turn {
        thread_id: thread_id.ok_or_else(|| Error::corrupt("turns", &id, "its thread is missing"))?,
        id,
        execution_id: columns.get(3)?,
        status: columns.get(4)?,
        input_summary: columns.get(5)?,
        created_at: columns.get(6)?,
        started_at: columns.get(7)?,
        ended_at: columns.get(8)?,
        duration_ms: columns.get(9)?,
        usage: usage::of_turn(tx, columns.get(0)?)?,
        last_request_input_tokens: columns.get(10)?,
        error: columns.get(11)?,
        steer_count: columns.get(12)?,
        owner_id: columns.get(13)?,
        metadata: columns.get(14)?,
    })
}

fn weigh(turn: &Turn) -> usize {
    let documents = [&turn.error, &turn.metadata];
    turn.input_summary.len() + documents.into_iter().flatten().map(|document| document.as_str().len()).sum::<usize>() + 800
}

fn by_key(tx: &Tx<'_>, key: i64) -> Result<Turn> {
    tx.row(select!("WHERE u.key = ?1"), [key], |row| read(tx, row))?
        .ok_or_else(|| Error::corrupt("turns", &tx.number_of(key).to_string(), "its row is missing"))
}

/// What the parts of a turn need of it.
pub(crate) struct Head {
    pub(crate) key: i64,
    pub(crate) id: Name,
    pub(crate) thread: i64,
    pub(crate) status: TurnStatus,
    started_at: Option<i64>,
}

impl Head {
    pub(crate) fn get(tx: &Tx<'_>, id: &Name) -> Result<Self> {
        let head =
            tx.row("SELECT key, thread, status, started_at FROM turns WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| {
                let columns = Columns::new(row, "turns", id.as_str());
                Ok(Self {
                    key: columns.get(0)?,
                    id: id.clone(),
                    thread: columns.get(1)?,
                    status: columns.get(2)?,
                    started_at: columns.get(3)?,
                })
            })?;
        head.ok_or_else(|| Error::not_found("turn", id))
    }

    /// Changes the status, if it is another one, and with it the times; what an ended turn leaves open ends too.
    fn change_status(&mut self, tx: &Tx<'_>, to: TurnStatus) -> Result<()> {
        if self.status == to {
            return Ok(());
        }
        if !self.status.may_become(to) {
            let message =
                format!("the turn {:?} is {} and cannot become {}", self.id.as_str(), self.status.as_str(), to.as_str());
            return Err(Error::new(ErrorCode::InvalidTransition, message)
                .with("id", self.id.as_str())
                .with("from", self.status.as_str())
                .with("to", to.as_str()));
        }
        let (started_at, ended_at) = times(tx, self.started_at, to);
        tx.execute_one(
            "UPDATE turns SET status = ?3, started_at = ?4, ended_at = ?5, duration_ms = ?6 WHERE key = ?1 AND status = ?2",
            (self.key, self.status, to, started_at, ended_at, duration(started_at, ended_at)),
        )?;
        (self.status, self.started_at) = (to, started_at);
        to.of_items().map_or(Ok(()), |status| items::interrupt_open_of_turn(tx, self.key, status))
    }
}

/// When a turn started and ended that has this status from now on.
fn times(tx: &Tx<'_>, started_at: Option<i64>, status: TurnStatus) -> (Option<i64>, Option<i64>) {
    let started_at = if status == TurnStatus::InProgress { started_at.or(Some(tx.now)) } else { started_at };
    (started_at, status.is_terminal().then_some(tx.now))
}

/// The clock may have gone back in between.
fn duration(started_at: Option<i64>, ended_at: Option<i64>) -> Option<i64> {
    Some(ended_at?.saturating_sub(started_at?).max(0))
}

pub(crate) fn create(tx: &Tx<'_>, arguments: CreateTurn) -> Result<Created<Turn>> {
    tx.text("inputSummary", arguments.input_summary.as_ref().map_or(0, String::len))?;
    tx.document("metadata", arguments.metadata.as_ref())?;
    // A page that is loaded again makes the same call as another owner.
    let same = CreateTurn { owner_id: None, ..arguments.clone() };
    let digest = arguments.id.is_some().then(|| digest(&same)).transpose()?;
    if let Some(id) = &arguments.id {
        let known = tx.row("SELECT key, digest FROM turns WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<[u8; 32]>>(1)?))
        })?;
        match known {
            Some((key, known)) if known.is_some() && known == digest => {
                return Ok(Created { record: by_key(tx, key)?, created: false });
            }
            Some(_) => {
                return Err(Error::conflict(format!("there is a turn {:?} already, created with other arguments", id.as_str()))
                    .with("id", id.as_str()));
            }
            None => {}
        }
    }
    tenants::may_begin(tx)?;
    let thread = threads::Head::get(tx, &arguments.thread_id)?;
    let status = arguments.status.unwrap_or_default();
    let (started_at, ended_at) = times(tx, None, status);
    let key = next_key(tx)?;
    let id = arguments.id.map_or_else(|| new_id(tx.now), |id| id.to_string());
    tx.execute_one(
        "INSERT INTO turns (key, tenant, id, thread, execution_id, status, input_summary, created_at, started_at, ended_at, duration_ms,
                            owner_id, metadata, digest)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        (
            key,
            tx.tenant,
            &id,
            thread.key,
            arguments.execution_id,
            status,
            arguments.input_summary.unwrap_or_default(),
            tx.now,
            started_at,
            ended_at,
            duration(started_at, ended_at),
            arguments.owner_id,
            arguments.metadata,
            digest,
        ),
    )?;
    thread.set_latest_turn(tx, &id)?;
    Ok(Created { record: by_key(tx, key)?, created: true })
}

fn next_key(tx: &Tx<'_>) -> Result<i64> {
    tx.next_key("SELECT key FROM turns WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")
}

pub(crate) fn get(tx: &Tx<'_>, arguments: TurnId) -> Result<Option<Turn>> {
    tx.row(select!("WHERE u.tenant = ?1 AND u.id = ?2"), (tx.tenant, &arguments.id), |row| read(tx, row))
}

pub(crate) fn update(tx: &Tx<'_>, changes: UpdateTurn) -> Result<Turn> {
    tx.text("inputSummary", changes.input_summary.as_ref().map_or(0, String::len))?;
    tx.document("metadata", changes.metadata.as_ref().and_then(Option::as_ref))?;
    if let Some(error) = changes.error.as_ref().and_then(Option::as_ref) {
        tx.document("error", Some(error))?;
        check_error("error", error)?;
    }
    if let Some(tokens) = changes.last_request_input_tokens.flatten().filter(|tokens| *tokens < 0) {
        return Err(Error::invalid(format!("lastRequestInputTokens must not be negative; it is {tokens}"))
            .with("path", "lastRequestInputTokens"));
    }
    let mut head = Head::get(tx, &changes.id)?;
    if let Some(expected) = changes.expected_status.filter(|&expected| expected != head.status) {
        return Err(Error::conflict(format!(
            "the turn {:?} is {}, not {} as expected",
            changes.id.as_str(),
            head.status.as_str(),
            expected.as_str()
        ))
        .with("id", changes.id.as_str())
        .with("expectedStatus", expected.as_str())
        .with("status", head.status.as_str()));
    }
    let before = head.status;
    changes.status.map_or(Ok(()), |to| head.change_status(tx, to))?;
    let is_more = changes.input_summary.is_some()
        || changes.execution_id.is_some()
        || changes.last_request_input_tokens.is_some()
        || changes.error.is_some()
        || changes.owner_id.is_some()
        || changes.metadata.is_some();
    if is_more {
        tx.execute_one(
            "UPDATE turns SET input_summary = coalesce(?2, input_summary), execution_id = CASE WHEN ?3 THEN ?4 ELSE execution_id END,
                 last_request_input_tokens = CASE WHEN ?5 THEN ?6 ELSE last_request_input_tokens END,
                 error = CASE WHEN ?7 THEN ?8 ELSE error END, owner_id = CASE WHEN ?9 THEN ?10 ELSE owner_id END,
                 metadata = CASE WHEN ?11 THEN ?12 ELSE metadata END
             WHERE key = ?1",
            (
                head.key,
                changes.input_summary,
                changes.execution_id.is_some(),
                changes.execution_id.flatten(),
                changes.last_request_input_tokens.is_some(),
                changes.last_request_input_tokens.flatten(),
                changes.error.is_some(),
                changes.error.flatten(),
                changes.owner_id.is_some(),
                changes.owner_id.flatten(),
                changes.metadata.is_some(),
                changes.metadata.flatten(),
            ),
        )?;
    }
    if is_more || before != head.status {
        threads::Head::touch(tx, head.thread)?;
    }
    by_key(tx, head.key)
}

/// Counts a prompt that a turn has taken while it ran.
pub(crate) fn count_steer(tx: &Tx<'_>, id: &Name) -> Result<()> {
    let head = Head::get(tx, id)?;
    tx.execute_one("UPDATE turns SET steer_count = steer_count + 1 WHERE key = ?1", [head.key])?;
    threads::Head::touch(tx, head.thread)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListTurns) -> Result<Page<Turn>> {
    let limit = page::limit(filter.limit)?;
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let thread = threads::Head::get(tx, &filter.thread_id)?.key;
    let mut page = if filter.status.is_some() { PageBuilder::filtered(limit) } else { PageBuilder::unfiltered(limit) };
    let sql = match order {
        Order::Asc => select!("WHERE u.thread = ?1 AND u.key BETWEEN ?2 AND ?3 ORDER BY u.key LIMIT ?4"),
        Order::Desc => select!("WHERE u.thread = ?1 AND u.key BETWEEN ?2 AND ?3 ORDER BY u.key DESC LIMIT ?4"),
    };
    tx.walk(sql, (thread, from, to, page.scanned()), |row| {
        let number = tx.number_of(row.get(0)?);
        // One whose status cannot be read may have any.
        if row.get::<_, TurnStatus>(4).is_ok_and(|status| filter.status.is_some_and(|wanted| wanted != status)) {
            page.skip(number);
            return Ok(true);
        }
        page.visit(number, read(tx, row), weigh)
    })?;
    Ok(page.finish())
}

/// The turns of all threads that have not ended.
pub(crate) fn list_incomplete(tx: &Tx<'_>, filter: ListIncompleteTurns) -> Result<Page<Turn>> {
    let mut page = PageBuilder::unfiltered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => {
            select!(
                "WHERE u.tenant = ?1 AND u.status IN ('queued', 'in_progress') AND u.key BETWEEN ?2 AND ?3 ORDER BY u.key LIMIT ?4"
            )
        }
        Order::Desc => {
            select!(
                "WHERE u.tenant = ?1 AND u.status IN ('queued', 'in_progress') AND u.key BETWEEN ?2 AND ?3
                 ORDER BY u.key DESC LIMIT ?4"
            )
        }
    };
    tx.walk(sql, (tx.tenant, from, to, page.scanned()), |row| page.visit(tx.number_of(row.get(0)?), read(tx, row), weigh))?;
    Ok(page.finish())
}

/// Whether a turn of a thread waits or runs.
pub(super) fn is_any_open(tx: &Tx<'_>, thread: i64) -> Result<bool> {
    let open = tx.row(
        "SELECT 1 FROM turns WHERE thread = ?1 AND status NOT IN ('completed', 'failed', 'interrupted', 'cancelled') LIMIT 1",
        [thread],
        |_| Ok(()),
    )?;
    Ok(open.is_some())
}

/// Copies the turns of a thread up to the key `last` into another one; what is open there is interrupted here. Answers the keys of the
/// turns, which rise, each with that of its copy.
pub(super) fn copy(tx: &Tx<'_>, from: &threads::Head, to: &threads::Head, last: i64) -> Result<Vec<(i64, i64)>> {
    let mut copies = Vec::new();
    let mut after = 0;
    loop {
        // One at a time: a thread may hold more than fits in memory.
        let next = tx.row(
            select!("WHERE u.thread = ?1 AND u.key BETWEEN ?2 AND ?3 ORDER BY u.key LIMIT 1"),
            (from.key, after + 1, last),
            |row| Ok((row.get::<_, i64>(0)?, read(tx, row)?)),
        )?;
        let Some((original, turn)) = next else { return Ok(copies) };
        after = original;
        let is_open = !turn.status.is_terminal();
        let ended_at = if is_open { Some(tx.now) } else { turn.ended_at };
        let (key, id) = (next_key(tx)?, new_id(tx.now));
        tx.execute_one(
            "INSERT INTO turns (key, tenant, id, thread, execution_id, status, input_summary, created_at, started_at, ended_at, duration_ms,
                                last_request_input_tokens, error, steer_count, owner_id, metadata)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            (
                key,
                tx.tenant,
                &id,
                to.key,
                turn.execution_id,
                if is_open { TurnStatus::Interrupted } else { turn.status },
                turn.input_summary,
                turn.created_at,
                turn.started_at,
                ended_at,
                if is_open { duration(turn.started_at, ended_at) } else { turn.duration_ms },
                turn.last_request_input_tokens,
                turn.error,
                turn.steer_count,
                turn.owner_id,
                turn.metadata,
            ),
        )?;
        to.set_latest_turn(tx, &id)?;
        copies.push((original, key));
    }
}

/// How many open turns one transaction of a recovery looks at.
const STEP: i64 = 100;

/// Interrupts the turns in progress whose owner is not alive. Bounded transactions: stopped anywhere, it can be run again.
pub(crate) fn recover(store: &Store, arguments: RecoverTurns) -> Result<Recovered> {
    let live = arguments.live_owner_ids.ok_or_else(|| {
        Error::invalid("turns.recover: liveOwnerIds is missing: an array, empty where nobody is alive")
            .with("path", "liveOwnerIds")
    })?;
    let live: BTreeSet<&str> = live.iter().map(Name::as_str).collect();
    let mut all = Recovered::default();
    let mut after = 0;
    loop {
        let (step, looked_at, last) = store.write(|tx| recover_step(tx, &live, after))?;
        all.interrupted.extend(step.interrupted);
        all.damaged.extend(step.damaged);
        if looked_at < STEP {
            return Ok(all);
        }
        after = last;
    }
}

/// An open turn, of which a recovery has to judge whether it still runs.
struct Open {
    head: Head,
    owner_id: Option<String>,
}

fn recover_step(tx: &Tx<'_>, live: &BTreeSet<&str>, after: i64) -> Result<(Recovered, i64, i64)> {
    let (first, last) = tx.keys();
    let open = tx.rows(
        "SELECT key, id, thread, status, started_at, owner_id FROM turns
         WHERE tenant = ?1 AND status IN ('queued', 'in_progress') AND key BETWEEN ?2 AND ?3 ORDER BY key LIMIT ?4",
        (tx.tenant, first.max(after + 1), last, STEP),
        |row| Ok((row.get::<_, i64>(0)?, read_open(row))),
    )?;
    let mut step = Recovered::default();
    let (looked_at, after) = (open.len() as i64, open.last().map_or(after, |(key, _)| *key));
    for (_, open) in open {
        let Open { mut head, owner_id } = match open {
            Ok(open) => open,
            Err(error) if error.code() == ErrorCode::Corrupt => {
                step.damaged.push(Damaged::from(&error));
                continue;
            }
            Err(error) => return Err(error),
        };
        let is_alive = owner_id.as_deref().is_some_and(|owner| live.contains(owner));
        if head.status != TurnStatus::InProgress || is_alive {
            continue;
        }
        let message = match &owner_id {
            Some(owner) => format!("the owner of the turn, {owner:?}, is gone"),
            None => "the turn was in progress and had no owner".to_owned(),
        };
        let interrupted = tx.attempt(|tx| {
            head.change_status(tx, TurnStatus::Interrupted)?;
            tx.execute_one(
                "UPDATE turns SET error = ?2 WHERE key = ?1",
                (head.key, Json::from(&json!({ "message": message, "code": "owner_gone" }))),
            )?;
            threads::Head::touch(tx, head.thread)
        })?;
        match interrupted {
            // One damaged item is in the way of no other turn.
            Err(error) if error.code() == ErrorCode::Corrupt => {
                step.damaged.push(Damaged::from(&error));
                continue;
            }
            other => other?,
        }
        tx.touch_any(Topic::Turns);
        step.interrupted.push(head.id.to_string());
    }
    Ok((step, looked_at, after))
}

fn read_open(row: &Row<'_>) -> Result<Open> {
    let columns = Columns::with_id(row, "turns", 1);
    let id: String = columns.get(1)?;
    let head = Head {
        key: columns.get(0)?,
        id: id.parse().map_err(|error: Error| Error::corrupt("turns", &id, error.message()))?,
        thread: columns.get(2)?,
        status: columns.get(3)?,
        started_at: columns.get(4)?,
    };
    Ok(Open { head, owner_id: columns.get(5)? })
}
