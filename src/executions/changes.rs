//! Commands that change an execution. Each leaves an event that says what it did.

use serde_json::{Value, json};

use super::record::{Head, record};
use super::{Beginning, Execution, ExecutionStatus, begin, existing, is_repeated};
use crate::error::{Error, ErrorCode, Result};
use crate::events::NewEvent;
use crate::executions::Created;
use crate::fold::Fold;
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::queue::{self, EnqueueItem};
use crate::snapshots;
use crate::store::Tx;

arguments! {
    /// A change of status by command.
    pub struct SetStatus {
        pub id: Name,
        pub status: ExecutionStatus,
        /// Kept in the event.
        pub reason: Option<String>,
        /// Makes the change only from this status; `conflict` from any other.
        pub expected_status: Option<ExecutionStatus>,
    }

    pub struct CancelExecution {
        pub id: Name,
        /// Kept in the event.
        pub reason: Option<String>,
    }

    /// Puts another state in the place of the one there is.
    pub struct SetState {
        pub id: Name,
        /// Any JSON.
        pub state: Json,
        /// Makes the change only if this is the log's last sequence; `conflict` otherwise.
        pub expected_sequence: Option<i64>,
    }

    /// Merges a patch into the state (RFC 7396): null removes a key, an object merges, anything else replaces.
    pub struct PatchState {
        pub id: Name,
        /// An object.
        pub patch: Json,
        /// Makes the change only if this is the log's last sequence; `conflict` otherwise.
        pub expected_sequence: Option<i64>,
    }

    /// Appends a value to an array in the state, and makes the array where there is none.
    pub struct AppendToState {
        pub id: Name,
        pub key: String,
        /// Any JSON.
        pub value: Option<Json>,
        /// Makes the change only if this is the log's last sequence; `conflict` otherwise.
        pub expected_sequence: Option<i64>,
    }

    /// Ends the execution, and begins its next segment.
    pub struct ContinueAsNew {
        pub id: Name,
        /// What the next segment begins with; the present state unless given.
        pub state: Option<Json>,
        /// The first work item of the next segment; its executionId is filled in.
        pub enqueue: Option<EnqueueItem>,
    }

    /// Begins an execution from a point in the log of another one.
    pub struct ForkExecution {
        pub id: Name,
        /// The sequence up to which the log counts; the whole log unless given.
        pub at: Option<i64>,
        /// The id of the new execution; made by the store unless given.
        pub new_id: Option<Name>,
    }

    pub struct DeleteExecution {
        pub id: Name,
    }
}

records! {
    /// That a state was changed. The state itself may be large: ask for it with `get`.
    pub struct StateChanged {
        /// The sequence of the event that says so.
        pub last_sequence: i64,
        pub status: ExecutionStatus,
    }
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
    existing(tx, &head.id)
}

/// Ends an execution that has not ended. Repeating it is fine.
pub(crate) fn cancel(tx: &Tx<'_>, arguments: CancelExecution) -> Result<Execution> {
    let CancelExecution { id, reason } = arguments;
    set_status(tx, SetStatus { id, status: ExecutionStatus::Cancelled, reason, expected_status: None })
}

/// Refuses a change of state that the execution does not take, or not at this sequence.
fn check_change(head: &Head, expected_sequence: Option<i64>) -> Result<()> {
    head.must_be_open("changes of its state")?;
    crate::events::check_sequence(head, expected_sequence)
}

fn change_state(tx: &Tx<'_>, head: &mut Head, event_type: &str, data: &Value) -> Result<StateChanged> {
    record(tx, head, vec![NewEvent::of(event_type, data)])?;
    Ok(StateChanged { last_sequence: head.last_sequence, status: head.status })
}

pub(crate) fn set_state(tx: &Tx<'_>, arguments: SetState) -> Result<StateChanged> {
    tx.document("state", Some(&arguments.state))?;
    let mut head = Head::get(tx, &arguments.id)?;
    let state: Value = arguments.state.to()?;
    check_change(&head, arguments.expected_sequence)?;
    change_state(tx, &mut head, "execution_state_set", &json!({ "state": state }))
}

pub(crate) fn patch_state(tx: &Tx<'_>, arguments: PatchState) -> Result<StateChanged> {
    tx.document("patch", Some(&arguments.patch))?;
    let mut head = Head::get(tx, &arguments.id)?;
    let patch: Value = arguments.patch.to()?;
    if !patch.is_object() {
        return Err(Error::invalid("patch must be an object: it is a merge patch").with("path", "patch"));
    }
    check_change(&head, arguments.expected_sequence)?;
    change_state(tx, &mut head, "execution_state_patched", &json!({ "patch": patch }))
}

pub(crate) fn append_to_state(tx: &Tx<'_>, arguments: AppendToState) -> Result<StateChanged> {
    tx.document("value", arguments.value.as_ref())?;
    let value: Value = arguments.value.ok_or_else(|| Error::invalid("value is missing").with("path", "value"))?.to()?;
    // In the state it lies two levels deeper, and the state is a document too.
    tx.document("value", Some(&Json::from(json!([[&value]]))))?;
    let mut head = Head::get(tx, &arguments.id)?;
    check_change(&head, arguments.expected_sequence)?;
    let holder = snapshots::fold(tx, &head, head.last_sequence)?.outcome.state;
    let holds_other = match &holder {
        Value::Object(members) => members.get(&arguments.key).is_some_and(|held| !held.is_array()),
        _ => true,
    };
    if holds_other {
        return Err(Error::conflict(format!("the state of {:?} holds no array at {:?}", head.id, arguments.key))
            .with("id", head.id.as_str())
            .with("key", arguments.key));
    }
    let data = json!({ "key": arguments.key, "value": value });
    change_state(tx, &mut head, "execution_state_appended", &data)
}

/// The execution that continues this one, if there is one: of its children, only that has the next segment. A child with a smaller key is
/// that of another execution, which had the id before.
fn next_segment(tx: &Tx<'_>, key: i64, parent: &Execution) -> Result<Option<Name>> {
    let child = tx.row(
        "SELECT id FROM executions WHERE tenant = ?1 AND parent_id = ?2 AND key > ?3 AND segment = ?4 ORDER BY key LIMIT 1",
        (tx.tenant, &parent.id, key, parent.segment + 1),
        |row| Ok(row.get::<_, String>(0)?),
    )?;
    child.map(|id| id.parse()).transpose()
}

pub(crate) fn continue_as_new(tx: &Tx<'_>, arguments: ContinueAsNew) -> Result<Created<Execution>> {
    tx.document("state", arguments.state.as_ref())?;
    let digest = Some(digest(&arguments)?);
    let mut head = Head::get(tx, &arguments.id)?;
    let parent = existing(tx, &head.id)?;
    if let Some(child) = next_segment(tx, head.key, &parent)?.filter(|_| head.status == ExecutionStatus::Completed) {
        is_repeated(tx, &child, digest).map_err(|_| {
            Error::conflict(format!(
                "the execution {:?} has been continued already as {:?}, with other arguments",
                head.id,
                child.as_str()
            ))
            .with("id", head.id.as_str())
            .with("nextExecutionId", child.as_str())
        })?;
        return Ok(Created { record: existing(tx, &child)?, created: false });
    }
    head.must_be_open("a continuation")?;
    if let Some(enqueue) = arguments.enqueue.as_ref().filter(|enqueue| enqueue.execution_id.is_some()) {
        return Err(Error::invalid(format!(
            "enqueue.executionId is filled in with the id of the next segment; it was given as {:?}",
            enqueue.execution_id.as_deref().unwrap_or_default()
        ))
        .with("path", "enqueue.executionId"));
    }
    let mut base = Fold::empty();
    base.outcome.state = match &arguments.state {
        Some(state) => state.to()?,
        None => parent.state.to()?,
    };
    let child = Beginning {
        id: new_id(tx.now),
        workflow_id: parent.workflow_id,
        workflow_version: parent.workflow_version,
        session_type: parent.session_type,
        parent_id: Some(parent.id),
        segment: parent.segment + 1,
        input: parent.input,
        tags: parent.tags,
        metadata: parent.metadata,
        digest,
        base: Some(base),
    };
    let data = json!({ "segmentNumber": parent.segment, "nextExecutionId": child.id });
    record(tx, &mut head, vec![NewEvent::of("segment_boundary", &data)])?;
    begin(tx, &child)?;
    if let Some(first) = arguments.enqueue {
        let first = EnqueueItem { execution_id: Some(child.id.parse()?), ..first };
        queue::enqueue_named(tx, "enqueue.", first)?;
    }
    Ok(Created { record: existing(tx, &child.id)?, created: true })
}

pub(crate) fn fork(tx: &Tx<'_>, arguments: ForkExecution) -> Result<Created<Execution>> {
    let digest = arguments.new_id.is_some().then(|| digest(&arguments)).transpose()?;
    if let Some(id) = &arguments.new_id
        && is_repeated(tx, id, digest)?
    {
        return Ok(Created { record: existing(tx, id)?, created: false });
    }
    let head = Head::get(tx, &arguments.id)?;
    let at = super::check_at(&head, arguments.at)?;
    let origin = existing(tx, &head.id)?;
    let fork = Beginning {
        id: arguments.new_id.map_or_else(|| new_id(tx.now), |id| id.to_string()),
        workflow_id: origin.workflow_id,
        workflow_version: origin.workflow_version,
        session_type: origin.session_type,
        parent_id: Some(origin.id),
        segment: origin.segment,
        input: origin.input,
        tags: origin.tags,
        metadata: origin.metadata,
        digest,
        // The outputs of nodes are copied: the log that holds them may be deleted.
        base: Some(snapshots::fold(tx, &head, at)?.detached(tx, &head)?),
    };
    begin(tx, &fork)?;
    Ok(Created { record: existing(tx, &fork.id)?, created: true })
}

pub(crate) fn delete(tx: &Tx<'_>, arguments: DeleteExecution) -> Result<()> {
    let head = Head::get(tx, &arguments.id)?;
    queue::remove_all_of_execution(tx, head.key)?;
    super::remove(tx, &head)
}
