//! Executions: one run of a workflow or an agent each. Their log is the truth; the rows here are kept in step with it.

mod changes;
mod import;
mod record;

use std::collections::BTreeMap;

use rusqlite::Row;

use crate::approvals;
use crate::error::{Error, Result};
use crate::fold::{Fold, Materialized, Outcome};
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder, Recent};
use crate::queue;
use crate::retention::Pass;
use crate::snapshots;
use crate::store::{Columns, Tx};
use crate::tenants;

pub use changes::{
    AppendToState, CancelExecution, ContinueAsNew, DeleteExecution, ForkExecution, PatchState, SetState, SetStatus, StateChanged,
};
pub(crate) use changes::{append_to_state, cancel, continue_as_new, delete, fork, patch_state, set_state, set_status};
pub(crate) use import::{ImportedExecution, import, import_event, known as known_import, settle as settle_import, touch};
pub(crate) use record::{Head, keep, record};

words! {
    #[derive(Default)]
    /// Where an execution stands. The last four are terminal: nothing leaves them.
    pub enum ExecutionStatus {
        #[default]
        Pending = "pending",
        Running = "running",
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        LimitExceeded = "limit_exceeded",
    }

    /// What kind of session the execution is. The store keeps it and does nothing by it.
    pub enum SessionType {
        Stateless = "stateless",
        Resumable = "resumable",
        PersistentGoverned = "persistent_governed",
        Ephemeral = "ephemeral",
        ApprovalGated = "approval_gated",
    }
}

impl ExecutionStatus {
    /// Whether the execution has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::LimitExceeded)
    }

    /// Whether the command `setStatus` may go from here to `to`. Setting the same status again changes nothing and is fine.
    pub fn may_become(self, to: Self) -> bool {
        use ExecutionStatus::*;
        match self {
            Pending => matches!(to, Running | Cancelled | Failed),
            Running => matches!(to, Paused | Completed | Failed | Cancelled | LimitExceeded),
            Paused => matches!(to, Running | Cancelled | Failed | LimitExceeded),
            Completed | Failed | Cancelled | LimitExceeded => false,
        }
    }
}

/// A record, and whether this call made it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "development", derive(ts_rs::TS))]
pub struct Created<T> {
    #[cfg_attr(feature = "development", ts(flatten))]
    pub record: T,
    /// False where the same call had been made before, and its record is answered again.
    pub created: bool,
}

written! { Created<T: crate::json::Record> { record as members, created, } }

words! {
    pub enum GroupBy {
        Status = "status",
    }
}

records! {
    pub struct ExecutionCounts {
        pub total: i64,
        /// By status, where that was asked for; a status without executions is left out.
        #[cfg_attr(feature = "development", ts(optional, type = "{ [status in ExecutionStatus]?: number }"))]
        pub by_status: Option<BTreeMap<String, i64>>,
    }

    /// One run of a workflow or an agent.
    pub struct Execution {
        pub id: String,
        pub tenant_id: String,
        pub workflow_id: String,
        pub workflow_version: Option<String>,
        pub status: ExecutionStatus,
        pub input: Json,
        /// What the events of the log have made of the state so far; `{}` at first.
        pub state: Json,
        pub output: Option<Json>,
        pub session_type: Option<SessionType>,
        pub parent_id: Option<String>,
        /// 0 for a run that was started, one more with each continuation.
        pub segment: i64,
        /// A string, or `{message, code?, stack?}`, as the event that failed the run gave it.
        pub error: Option<Json>,
        pub tags: Vec<String>,
        pub metadata: Option<Json>,
        /// The sequence of the newest event; 0 without any.
        pub last_sequence: i64,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds: when it first ran.
        pub started_at: Option<i64>,
        /// Unix milliseconds: when the newest event was appended.
        pub updated_at: i64,
        /// Unix milliseconds: when it ended.
        pub completed_at: Option<i64>,
    }
}

arguments! {
    /// A new execution. It starts `pending`.
    pub struct CreateExecution {
        /// Made by the store unless given. The same id with the same arguments answers the execution that exists.
        pub id: Option<Name>,
        pub workflow_id: Name,
        pub workflow_version: Option<Name>,
        /// Any JSON; null unless given.
        pub input: Option<Json>,
        pub session_type: Option<SessionType>,
        pub parent_id: Option<Name>,
        pub tags: Option<Vec<Name>>,
        pub metadata: Option<Json>,
    }

    pub struct ExecutionId {
        pub id: Name,
    }

    /// Which executions to list; without members, all of them.
    pub struct ListExecutions {
        pub status: Option<ExecutionStatus>,
        pub workflow_id: Option<Name>,
        pub parent_id: Option<Name>,
        pub tag: Option<Name>,
        /// Unix milliseconds, exclusive.
        pub created_after: Option<i64>,
        /// Unix milliseconds, exclusive.
        pub created_before: Option<i64>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }

    /// Which executions changed last.
    pub struct RecentExecutions {
        /// 1 to 200; 50 unless given.
        pub limit: Option<i64>,
    }

    pub struct CountExecutions {
        pub group_by: Option<GroupBy>,
    }

    pub struct Materialize {
        pub id: Name,
        /// The sequence as of which to fold; the whole log unless given.
        pub at: Option<i64>,
    }
}

/// What an execution begins with.
pub(crate) struct Beginning {
    pub(crate) id: String,
    pub(crate) workflow_id: String,
    pub(crate) workflow_version: Option<String>,
    pub(crate) session_type: Option<SessionType>,
    pub(crate) parent_id: Option<String>,
    pub(crate) segment: i64,
    pub(crate) input: Json,
    /// Sorted.
    pub(crate) tags: Vec<String>,
    pub(crate) metadata: Option<Json>,
    pub(crate) digest: Option<[u8; 32]>,
    /// The fold at sequence 0, where it is not the empty one.
    pub(crate) base: Option<Fold>,
}

/// Whether an id is free, taken by the same call, or taken by another one, which is `conflict`.
pub(crate) fn is_repeated(tx: &Tx<'_>, id: &Name, digest: Option<[u8; 32]>) -> Result<bool> {
    let known: Option<Option<[u8; 32]>> = tx.row(
        "SELECT d.digest FROM executions e LEFT JOIN execution_documents d ON d.execution = e.key WHERE e.tenant = ?1 AND e.id = ?2",
        (tx.tenant, id),
        |row| Ok(row.get(0)?),
    )?;
    match known {
        None => Ok(false),
        Some(known) if known.is_some() && known == digest => Ok(true),
        Some(_) => Err(Error::conflict(format!("there is an execution {:?} already, created with other arguments", id.as_str()))
            .with("id", id.as_str())),
    }
}

/// Inserts an execution with its base. Answers its key.
pub(crate) fn begin(tx: &Tx<'_>, beginning: &Beginning) -> Result<i64> {
    tenants::admit_execution(tx)?;
    let key = tx.next_key("SELECT key FROM executions WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    let empty = Outcome::empty();
    let outcome = beginning.base.as_ref().map_or(&empty, |base| &base.outcome);
    tx.execute_one(
        "INSERT INTO executions (key, tenant, id, workflow_id, workflow_version, status, session_type, parent_id, segment,
                                 last_sequence, created_at, updated_at, started_at, completed_at, changed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10, ?10, ?11, ?12, ?13)",
        (
            key,
            tx.tenant,
            &beginning.id,
            &beginning.workflow_id,
            &beginning.workflow_version,
            outcome.status,
            beginning.session_type,
            &beginning.parent_id,
            beginning.segment,
            tx.now,
            outcome.started_at,
            outcome.completed_at,
            record::next_change(tx)?,
        ),
    )?;
    tx.touch(Topic::Executions, &beginning.id);
    record::count(tx, outcome.status, 1)?;
    tx.execute_one(
        "INSERT INTO execution_documents (execution, input, tags, metadata, digest) VALUES (?1, ?2, ?3, ?4, ?5)",
        (key, &beginning.input, Json::of(&beginning.tags)?, &beginning.metadata, beginning.digest),
    )?;
    if let Some(base) = &beginning.base {
        let text = base.to_json()?;
        let bytes = text.as_str().len() as i64;
        tx.execute_one("INSERT INTO execution_bases (execution, fold) VALUES (?1, ?2)", (key, text))?;
        // The base is the snapshot at sequence 0.
        tx.execute_one("UPDATE executions SET snapshot_bytes = ?2 WHERE key = ?1", (key, bytes))?;
        record::keep(tx, &Head::by_key(tx, key)?, &base.outcome)?;
        approvals::inherit(tx, key, base.pending_approvals())?;
        tx.touch(Topic::Events, &beginning.id);
    }
    Ok(key)
}

pub(crate) fn create(tx: &Tx<'_>, arguments: CreateExecution) -> Result<Created<Execution>> {
    tx.document("input", arguments.input.as_ref())?;
    tx.document("metadata", arguments.metadata.as_ref())?;
    let digest = arguments.id.is_some().then(|| digest(&arguments)).transpose()?;
    if let Some(id) = &arguments.id
        && is_repeated(tx, id, digest)?
    {
        return Ok(Created { record: existing(tx, id)?, created: false });
    }
    let mut tags: Vec<String> = arguments.tags.unwrap_or_default().iter().map(Name::to_string).collect();
    tags.sort();
    tags.dedup();
    let beginning = Beginning {
        id: arguments.id.map_or_else(|| new_id(tx.now), |id| id.to_string()),
        workflow_id: arguments.workflow_id.to_string(),
        workflow_version: arguments.workflow_version.map(|version| version.to_string()),
        session_type: arguments.session_type,
        parent_id: arguments.parent_id.map(|id| id.to_string()),
        segment: 0,
        input: arguments.input.unwrap_or_default(),
        tags,
        metadata: arguments.metadata,
        digest,
        base: None,
    };
    begin(tx, &beginning)?;
    Ok(Created { record: existing(tx, &beginning.id)?, created: true })
}

/// The record of an execution that must be there.
pub(crate) fn existing(tx: &Tx<'_>, id: &str) -> Result<Execution> {
    find(tx, id)?.ok_or_else(|| Error::not_found("execution", id))
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT e.key, e.id, t.id, e.workflow_id, e.workflow_version, e.status, d.input, s.state, s.output, e.session_type,
                    e.parent_id, e.segment, s.error, d.tags, d.metadata, e.last_sequence, e.created_at, e.started_at, e.updated_at,
                    e.completed_at, d.execution, s.execution, e.snapshot_bytes
             FROM executions e
             CROSS JOIN tenants t ON t.number = e.tenant
             LEFT JOIN execution_documents d ON d.execution = e.key
             LEFT JOIN execution_states s ON s.execution = e.key ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<Execution> {
    let columns = Columns::with_id(row, "executions", 1);
    if columns.get::<Option<i64>>(20)?.is_none() {
        return Err(Error::corrupt("executions", &columns.get::<String>(1)?, "its row in execution_documents is missing"));
    }
    Ok(Execution {
        id: columns.get(1)?,
        tenant_id: columns.get(2)?,
        workflow_id: columns.get(3)?,
        workflow_version: columns.get(4)?,
        status: columns.get(5)?,
        input: columns.get(6)?,
        // Of a large state, the caller asks the fold.
        state: columns.get::<Option<Json>>(7)?.unwrap_or_else(|| Outcome::empty().state.into()),
        output: columns.get(8)?,
        session_type: columns.get(9)?,
        parent_id: columns.get(10)?,
        segment: columns.get(11)?,
        error: columns.get(12)?,
        tags: columns.json(13)?.unwrap_or_default(),
        metadata: columns.get(14)?,
        last_sequence: columns.get(15)?,
        created_at: columns.get(16)?,
        started_at: columns.get(17)?,
        updated_at: columns.get(18)?,
        completed_at: columns.get(19)?,
    })
}

/// Reads a record, and folds its state where that is too large to be kept.
fn read_whole(tx: &Tx<'_>, row: &Row<'_>) -> Result<Execution> {
    let execution = read(row)?;
    let is_large = row.get::<_, Option<i64>>(21)?.is_some() && row.get::<_, Option<String>>(7)?.is_none();
    if !is_large {
        return Ok(execution);
    }
    let head = Head::by_key(tx, row.get(0)?)?;
    let state = snapshots::fold(tx, &head, head.last_sequence)?.outcome.state.into();
    Ok(Execution { state, ..execution })
}

fn find(tx: &Tx<'_>, id: &str) -> Result<Option<Execution>> {
    tx.row(select!("WHERE e.tenant = ?1 AND e.id = ?2"), (tx.tenant, id), |row| read_whole(tx, row))
}

pub(crate) fn get(tx: &Tx<'_>, arguments: ExecutionId) -> Result<Option<Execution>> {
    find(tx, &arguments.id)
}

fn weigh(execution: &Execution) -> usize {
    execution.input.as_str().len() + execution.state.as_str().len() + execution.output.as_ref().map_or(0, |o| o.as_str().len())
}

/// What a list of executions is searched by.
enum By {
    Key,
    Status,
    Parent,
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListExecutions) -> Result<Page<Execution>> {
    let limit = page::limit(filter.limit)?;
    let unfiltered = filter.status.is_none()
        && filter.workflow_id.is_none()
        && filter.parent_id.is_none()
        && filter.tag.is_none()
        && filter.created_after.is_none()
        && filter.created_before.is_none();
    let mut page = if unfiltered { PageBuilder::unfiltered(limit) } else { PageBuilder::filtered(limit) };
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    if unfiltered {
        let sql = match order {
            Order::Asc => select!("WHERE e.key BETWEEN ?1 AND ?2 ORDER BY e.key LIMIT ?3"),
            Order::Desc => select!("WHERE e.key BETWEEN ?1 AND ?2 ORDER BY e.key DESC LIMIT ?3"),
        };
        tx.walk(sql, (from, to, page.scanned()), |row| page.visit(tx.number_of(row.get(0)?), read_whole(tx, row), weigh))?;
        return Ok(page.finish());
    }
    // Two steps: which rows belong is told from narrow columns, and only those are read whole.
    let mut wanted: Vec<(i64, bool)> = Vec::new();
    let mut matches = 0;
    let status = filter.status.map(ExecutionStatus::as_str);
    // By the narrowest index that there is.
    let (by, value) = match (&filter.parent_id, status) {
        (Some(parent), _) => (By::Parent, Some(parent.as_str())),
        (None, Some(status)) => (By::Status, Some(status)),
        (None, None) => (By::Key, None),
    };
    let sql = match (by, order) {
        (By::Key, Order::Asc) => {
            "SELECT key, status, workflow_id, created_at FROM executions
             WHERE key BETWEEN ?1 AND ?2 AND ?4 IS NULL AND ?5 IS NOT NULL ORDER BY key LIMIT ?3"
        }
        (By::Key, Order::Desc) => {
            "SELECT key, status, workflow_id, created_at FROM executions
             WHERE key BETWEEN ?1 AND ?2 AND ?4 IS NULL AND ?5 IS NOT NULL ORDER BY key DESC LIMIT ?3"
        }
        (By::Status, Order::Asc) => {
            "SELECT key, status, workflow_id, created_at FROM executions
             WHERE tenant = ?5 AND status = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"
        }
        (By::Status, Order::Desc) => {
            "SELECT key, status, workflow_id, created_at FROM executions
             WHERE tenant = ?5 AND status = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3"
        }
        (By::Parent, Order::Asc) => {
            "SELECT key, status, workflow_id, created_at FROM executions
             WHERE tenant = ?5 AND parent_id = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"
        }
        (By::Parent, Order::Desc) => {
            "SELECT key, status, workflow_id, created_at FROM executions
             WHERE tenant = ?5 AND parent_id = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3"
        }
    };
    tx.walk(sql, (from, to, page.scanned(), value, tx.tenant), |row| {
        let key: i64 = row.get(0)?;
        let text = |at: usize| -> Result<Option<String>> { Ok(row.get(at)?) };
        let created_at: i64 = row.get(3)?;
        let belongs = filter.workflow_id.as_ref().is_none_or(|id| text(2).is_ok_and(|have| have.as_deref() == Some(id)))
            && status.is_none_or(|status| text(1).is_ok_and(|have| have.as_deref() == Some(status)))
            && filter.created_after.is_none_or(|after| created_at > after)
            && filter.created_before.is_none_or(|before| created_at < before);
        wanted.push((key, belongs));
        matches += i64::from(belongs);
        // A tag is known only from another table, so no early end is possible then.
        Ok(filter.tag.is_some() || matches <= limit)
    })?;
    for (key, belongs) in wanted {
        let number = tx.number_of(key);
        if !belongs {
            page.skip(number);
            continue;
        }
        if let Some(tag) = &filter.tag
            && !has_tag(tx, key, tag)?
        {
            page.skip(number);
            continue;
        }
        let record = tx.row(select!("WHERE e.key = ?1"), [key], |row| Ok(read_whole(tx, row)))?;
        if let Some(record) = record
            && !page.visit(number, record, weigh)?
        {
            break;
        }
    }
    Ok(page.finish())
}

/// Whether an execution has a tag. One whose tags cannot be read has any: its record then says that it is damaged.
fn has_tag(tx: &Tx<'_>, key: i64, tag: &str) -> Result<bool> {
    let tags = tx.row("SELECT tags FROM execution_documents WHERE execution = ?1", [key], |row| {
        Ok(Columns::new(row, "execution_documents", "").json::<Vec<String>>(0))
    })?;
    Ok(match tags {
        Some(Ok(Some(tags))) => tags.iter().any(|have| have == tag),
        _ => true,
    })
}

/// The sequence that an `at` means.
fn check_at(head: &Head, at: Option<i64>) -> Result<i64> {
    let at = at.unwrap_or(head.last_sequence);
    if (0..=head.last_sequence).contains(&at) {
        return Ok(at);
    }
    let last = head.last_sequence;
    Err(Error::invalid(format!("at must be 0 to {last}, the last sequence of the execution {:?}, not {at}", head.id))
        .with("path", "at")
        .with("lastSequence", last))
}

pub(crate) fn materialize(tx: &Tx<'_>, arguments: Materialize) -> Result<Materialized> {
    let head = Head::get(tx, &arguments.id)?;
    match arguments.at {
        None => snapshots::materialize_present(tx, &head),
        at => snapshots::materialize(tx, &head, check_at(&head, at)?),
    }
}

/// The executions that changed last, newest first.
pub(crate) fn recent(tx: &Tx<'_>, arguments: RecentExecutions) -> Result<Recent<Execution>> {
    let limit = page::recent_limit(arguments.limit)?;
    let mut recent = Recent { items: Vec::new(), damaged: Vec::new() };
    let keys =
        tx.rows("SELECT key FROM executions WHERE tenant = ?1 ORDER BY changed DESC LIMIT ?2", (tx.tenant, limit), |row| {
            Ok(row.get::<_, i64>(0)?)
        })?;
    for key in keys {
        let record = tx.row(select!("WHERE e.key = ?1"), [key], |row| Ok(read_whole(tx, row)))?;
        record.map_or(Ok(()), |record| recent.push(record))?;
    }
    Ok(recent)
}

pub(crate) fn count(tx: &Tx<'_>, arguments: CountExecutions) -> Result<ExecutionCounts> {
    let mut counts = ExecutionCounts { total: 0, by_status: None };
    let mut by_status = BTreeMap::new();
    tx.walk("SELECT status, count FROM execution_counts WHERE tenant = ?1 AND count > 0", [tx.tenant], |row| {
        let columns = Columns::with_id(row, "execution_counts", 0);
        let (status, count): (ExecutionStatus, i64) = (columns.get(0)?, columns.get(1)?);
        counts.total += count;
        by_status.insert(status.as_str().to_owned(), count);
        Ok(true)
    })?;
    counts.by_status = arguments.group_by.map(|GroupBy::Status| by_status);
    Ok(counts)
}

/// One bounded walk of retention over the executions after the key `after`. What ended by the cutoff goes, with its log and items.
pub(crate) fn prune(tx: &Tx<'_>, cutoff: i64, after: i64, limit: i64) -> Result<Pass> {
    let (first, last) = tx.keys();
    let executions = tx.rows(
        "SELECT key, completed_at FROM executions WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
        (first.max(after.saturating_add(1)), last, limit),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)),
    )?;
    let mut pass = Pass::over(executions.iter().map(|execution| execution.0), limit);
    for (key, completed_at) in executions {
        let Some(at) = completed_at else { continue };
        if at > cutoff {
            pass.keep_until(tx.now + (at - cutoff));
        } else if queue::remove_of_execution(tx, key)? {
            remove(tx, &Head::by_key(tx, key)?)?;
            pass.pruned += 1;
        } else {
            // An item that is still held settles first: its holder must not be told that there never was one.
            pass.keep_until(tx.now);
        }
    }
    Ok(pass)
}

/// Deletes an execution whose items are gone: its log, approvals, timers and snapshots with it.
pub(super) fn remove(tx: &Tx<'_>, head: &Head) -> Result<()> {
    tx.execute_one("DELETE FROM executions WHERE key = ?1", [head.key])?;
    tx.folds().clear();
    for topic in [Topic::Executions, Topic::Events, Topic::Timers] {
        tx.touch(topic, &head.id);
    }
    record::count(tx, head.status, -1)
}
