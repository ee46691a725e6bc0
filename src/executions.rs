//! Executions: one run of a workflow or an agent each. Their log is the truth; the rows here are kept in step with it.

use rusqlite::Row;
use serde_json::Value;

use crate::error::{Error, ErrorCode, Result};
use crate::events::{self, NewEvent};
use crate::fold::{Effect, Fold, Materialized, Outcome};
use crate::ids::{Name, new_id};
use crate::json::{Json, digest, given};
use crate::page::{self, Order, Page, PageBuilder};
use crate::queue;
use crate::retention::Pass;
use crate::store::{Columns, Tx};

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
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "development", derive(ts_rs::TS))]
pub struct Created<T> {
    #[serde(flatten)]
    pub record: T,
    /// False where the same call had been made before, and its record is answered again.
    pub created: bool,
}

records! {
    /// One run of a workflow or an agent.
    pub struct Execution {
        pub id: String,
        pub tenant_id: String,
        pub workflow_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub workflow_version: Option<String>,
        pub status: ExecutionStatus,
        pub input: Json,
        /// What the events of the log have made of the state so far; `{}` at first.
        pub state: Json,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub output: Option<Json>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub session_type: Option<SessionType>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub parent_id: Option<String>,
        /// 0 for a run that was started, one more with each continuation.
        pub segment: i64,
        /// A string, or `{message, code?, stack?}`, as the event that failed the run gave it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<Json>,
        pub tags: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub metadata: Option<Json>,
        /// The sequence of the newest event; 0 without any.
        pub last_sequence: i64,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds: when it first ran.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub started_at: Option<i64>,
        /// Unix milliseconds: when the newest event was appended.
        pub updated_at: i64,
        /// Unix milliseconds: when it ended.
        #[serde(skip_serializing_if = "Option::is_none")]
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
        #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
        pub input: Option<Json>,
        pub session_type: Option<SessionType>,
        pub parent_id: Option<Name>,
        pub tags: Option<Vec<Name>>,
        #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
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

    /// A change of status by command.
    pub struct SetStatus {
        pub id: Name,
        pub status: ExecutionStatus,
        /// Kept in the event.
        pub reason: Option<String>,
        /// Makes the change only from this status; `conflict` from any other.
        pub expected_status: Option<ExecutionStatus>,
    }

    pub struct Materialize {
        pub id: Name,
        /// The sequence as of which to fold; the whole log unless given.
        pub at: Option<i64>,
    }
}

const DEFAULT_SEGMENT: i64 = 0;

/// The narrow part of an execution's row: what appending to its log reads and writes.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) key: i64,
    pub(crate) id: String,
    pub(crate) status: ExecutionStatus,
    pub(crate) last_sequence: i64,
    started_at: Option<i64>,
    completed_at: Option<i64>,
}

impl Head {
    pub(crate) fn find(tx: &Tx<'_>, id: &str) -> Result<Option<Self>> {
        tx.row(
            "SELECT key, id, status, last_sequence, started_at, completed_at FROM executions WHERE tenant = ?1 AND id = ?2",
            (tx.tenant, id),
            Self::read,
        )
    }

    pub(crate) fn get(tx: &Tx<'_>, id: &str) -> Result<Self> {
        Self::find(tx, id)?.ok_or_else(|| Error::not_found("execution", id))
    }

    pub(crate) fn by_key(tx: &Tx<'_>, key: i64) -> Result<Self> {
        tx.row(
            "SELECT key, id, status, last_sequence, started_at, completed_at FROM executions WHERE key = ?1",
            [key],
            Self::read,
        )?
        .ok_or_else(|| Error::new(ErrorCode::Internal, format!("the execution with key {key} is gone")))
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        let columns = Columns::with_id(row, "executions", 1)?;
        Ok(Self {
            key: columns.get(0)?,
            id: columns.get(1)?,
            status: columns.get(2)?,
            last_sequence: columns.get(3)?,
            started_at: columns.get(4)?,
            completed_at: columns.get(5)?,
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

/// Appends events to an execution's log and brings its row up to the fold of them. This is the one way in which an execution changes.
pub(crate) fn record(tx: &Tx<'_>, head: &mut Head, new: Vec<NewEvent>) -> Result<Vec<Created<events::Event>>> {
    let mut answers = Vec::with_capacity(new.len());
    let mut outcome =
        Outcome { status: head.status, started_at: head.started_at, completed_at: head.completed_at, ..Outcome::empty() };
    let mut stored_state = None;
    let (first, was_terminal) = (head.last_sequence, head.status.is_terminal());
    let mut new = std::collections::VecDeque::from(new);
    while let Some(event) = new.pop_front() {
        if let Some(known) = events::known(tx, head, &event)? {
            answers.push(Created { record: known, created: false });
            continue;
        }
        let effect = Effect::of(&event.event_type, &event.data)?;
        let appended = events::insert(tx, head, event)?;
        if outcome.touches_state(&effect) && stored_state.is_none() {
            let (state, output, error) = load_state(tx, head)?;
            stored_state = Some((state.clone(), output.clone(), error.clone()));
            (outcome.state, outcome.output, outcome.error) = (state, output, error);
        }
        let others_pending = events::track_approvals(tx, head, &appended, &effect)?;
        let ended_before = outcome.status.is_terminal();
        outcome.apply(effect, tx.now, others_pending);
        if outcome.status.is_terminal() && !ended_before && !was_terminal {
            // What still waits for this execution will not run; the log says so right after the end.
            for node_id in queue::cancel_waiting(tx, head.key)? {
                new.push_back(NewEvent::of("node_cancelled", &serde_json::json!({ "nodeId": node_id })));
            }
        }
        answers.push(Created { record: appended, created: true });
    }
    if head.last_sequence > first {
        tx.execute_one(
            "UPDATE executions SET status = ?2, last_sequence = ?3, updated_at = ?4, started_at = ?5, completed_at = ?6 WHERE key = ?1",
            (head.key, outcome.status, head.last_sequence, tx.now, outcome.started_at, outcome.completed_at),
        )?;
        (head.status, head.started_at, head.completed_at) = (outcome.status, outcome.started_at, outcome.completed_at);
    }
    if let Some(before) = stored_state {
        let after = (outcome.state, outcome.output, outcome.error);
        if after != before {
            let (state, output, error) = after;
            tx.execute_one(
                "INSERT INTO execution_states (execution, state, output, error) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (execution) DO UPDATE SET state = excluded.state, output = excluded.output, error = excluded.error",
                (head.key, state.to_string(), output, error),
            )?;
        }
    }
    Ok(answers)
}

fn load_state(tx: &Tx<'_>, head: &Head) -> Result<(Value, Option<Json>, Option<Json>)> {
    let stored = tx.row("SELECT state, output, error FROM execution_states WHERE execution = ?1", [head.key], |row| {
        let columns = Columns::new(row, "execution_states", head.id.as_str());
        Ok((columns.json::<Value>(0)?, columns.get(1)?, columns.get(2)?))
    })?;
    Ok(match stored {
        Some((state, output, error)) => (state.unwrap_or_default(), output, error),
        None => (Outcome::empty().state, None, None),
    })
}

pub(crate) fn create(tx: &Tx<'_>, arguments: CreateExecution) -> Result<Created<Execution>> {
    tx.document("input", arguments.input.as_ref())?;
    tx.document("metadata", arguments.metadata.as_ref())?;
    let digest = arguments.id.is_some().then(|| digest(&arguments)).transpose()?;
    let id = match &arguments.id {
        None => new_id(tx.now),
        Some(id) => {
            let known: Option<Option<[u8; 32]>> = tx.row(
                "SELECT d.digest FROM executions e LEFT JOIN execution_documents d ON d.execution = e.key WHERE e.tenant = ?1 AND e.id = ?2",
                (tx.tenant, id),
                |row| Ok(row.get(0)?),
            )?;
            match known {
                None => id.to_string(),
                Some(known) if known.is_some() && known == digest => {
                    let record = get(tx, ExecutionId { id: id.clone() })?;
                    let record = record.ok_or_else(|| Error::not_found("execution", id))?;
                    return Ok(Created { record, created: false });
                }
                Some(_) => {
                    return Err(Error::conflict(format!(
                        "there is an execution {:?} already, created with other arguments",
                        id.as_str()
                    ))
                    .with("id", id.as_str()));
                }
            }
        }
    };
    let key = tx.next_key("SELECT key FROM executions WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO executions (key, tenant, id, workflow_id, workflow_version, status, session_type, parent_id, segment,
                                 last_sequence, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, 'pending', ?6, ?7, ?8, 0, ?9, ?9)",
        (
            key,
            tx.tenant,
            &id,
            &arguments.workflow_id,
            &arguments.workflow_version,
            arguments.session_type,
            &arguments.parent_id,
            DEFAULT_SEGMENT,
            tx.now,
        ),
    )?;
    let mut tags = arguments.tags.unwrap_or_default();
    tags.sort();
    tags.dedup();
    let null = Json::default();
    tx.execute_one(
        "INSERT INTO execution_documents (execution, input, tags, metadata, digest) VALUES (?1, ?2, ?3, ?4, ?5)",
        (key, arguments.input.as_ref().unwrap_or(&null), Json::from_value(&tags)?, &arguments.metadata, digest),
    )?;
    let record = get(tx, ExecutionId { id: id.parse()? })?.ok_or_else(|| Error::not_found("execution", &id))?;
    Ok(Created { record, created: true })
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT e.key, e.id, t.id, e.workflow_id, e.workflow_version, e.status, d.input, s.state, s.output, e.session_type,
                    e.parent_id, e.segment, s.error, d.tags, d.metadata, e.last_sequence, e.created_at, e.started_at, e.updated_at,
                    e.completed_at, d.execution
             FROM executions e
             CROSS JOIN tenants t ON t.number = e.tenant
             LEFT JOIN execution_documents d ON d.execution = e.key
             LEFT JOIN execution_states s ON s.execution = e.key ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<Execution> {
    let columns = Columns::with_id(row, "executions", 1)?;
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

pub(crate) fn get(tx: &Tx<'_>, arguments: ExecutionId) -> Result<Option<Execution>> {
    tx.row(select!("WHERE e.tenant = ?1 AND e.id = ?2"), (tx.tenant, arguments.id), read)
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
    let sql = match (by, filter.order.unwrap_or_default()) {
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
    let (from, to) = page::range(tx, filter.cursor.as_deref(), filter.order.unwrap_or_default())?;
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
        // A tag is known only when the row is read whole, so no early end is possible then.
        Ok(filter.tag.is_some() || matches <= limit)
    })?;
    for (key, belongs) in wanted {
        let number = tx.number_of(key);
        if !belongs {
            page.skip(number);
            continue;
        }
        let record = match tx.row(select!("WHERE e.key = ?1"), [key], |row| Ok(read(row)))? {
            Some(record) => record,
            None => continue,
        };
        let tagged = match (&filter.tag, &record) {
            (Some(tag), Ok(record)) => record.tags.iter().any(|have| have == tag.as_str()),
            _ => true,
        };
        if !tagged {
            page.skip(number);
        } else if !page.visit(number, record, weigh)? {
            break;
        }
    }
    Ok(page.finish())
}

pub(crate) fn set_status(tx: &Tx<'_>, arguments: SetStatus) -> Result<Execution> {
    let to = arguments.status;
    let mut head = Head::get(tx, &arguments.id)?;
    let from = head.status;
    if let Some(expected) = arguments.expected_status.filter(|&expected| expected != from) {
        return Err(Error::conflict(format!(
            "the execution {:?} is {}, not {} as expected",
            head.id,
            from.as_str(),
            expected.as_str()
        ))
        .with("id", head.id.as_str())
        .with("status", from.as_str())
        .with("expectedStatus", expected.as_str()));
    }
    if from != to {
        if !from.may_become(to) {
            return Err(Error::new(
                ErrorCode::InvalidTransition,
                format!("the execution {:?} is {} and cannot become {}", head.id, from.as_str(), to.as_str()),
            )
            .with("id", head.id.as_str())
            .with("from", from.as_str())
            .with("to", to.as_str()));
        }
        let mut data = serde_json::json!({ "from": from, "to": to });
        if let Some(reason) = arguments.reason {
            data["reason"] = reason.into();
        }
        record(tx, &mut head, vec![NewEvent::of("execution_status_set", &data)])?;
    }
    get(tx, ExecutionId { id: arguments.id })?.ok_or_else(|| Error::not_found("execution", &head.id))
}

pub(crate) fn materialize(tx: &Tx<'_>, arguments: Materialize) -> Result<Materialized> {
    let head = Head::get(tx, &arguments.id)?;
    let at = arguments.at.unwrap_or(head.last_sequence);
    if !(0..=head.last_sequence).contains(&at) {
        return Err(Error::invalid(format!(
            "at must be 0 to {}, the last sequence of the execution {:?}, not {at}",
            head.last_sequence, head.id
        ))
        .with("path", "at")
        .with("lastSequence", head.last_sequence));
    }
    let mut fold = Fold::empty();
    events::walk(tx, &head, at, |sequence, event| {
        fold.apply(sequence, &event.id, &event.event_type, &event.data, event.created_at)
    })?;
    Ok(fold.materialized())
}

/// One bounded walk of retention over the executions after the key `after`. What ended by the cutoff goes, with its log and items.
pub(crate) fn prune(tx: &Tx<'_>, cutoff: i64, after: i64, limit: i64) -> Result<Pass> {
    let (first, last) = tx.keys();
    let executions = tx.rows(
        "SELECT key, completed_at FROM executions WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
        (first.max(after.saturating_add(1)), last, limit),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?)),
    )?;
    let looked_at = executions.len() as i64;
    let mut pass = Pass { pruned: 0, last: executions.last().map(|execution| execution.0).filter(|_| looked_at == limit) };
    for (key, completed_at) in executions {
        // An item that is still held settles first: its holder must not be told that there never was one.
        if completed_at.is_some_and(|at| at <= cutoff) && queue::remove_of_execution(tx, key)? {
            tx.execute_one("DELETE FROM executions WHERE key = ?1", [key])?;
            pass.pruned += 1;
        }
    }
    Ok(pass)
}
