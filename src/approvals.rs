//! Approvals: what runs wait for a person to decide.

use rusqlite::types::ToSql;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::events::{self, Event, NewEvent, types::Fields};
use crate::executions::{Head, record};
use crate::fold::{Effect, PendingApproval};
use crate::ids::Name;
use crate::json::Json;
use crate::page::{self, Order, Page, PageBuilder};
use crate::snapshots;
use crate::store::{Columns, Tx};

words! {
    pub enum ApprovalStatus {
        Pending = "pending",
        Approved = "approved",
        Rejected = "rejected",
    }

    #[derive(Default)]
    pub enum Decision {
        #[default]
        Approved = "approved",
        Rejected = "rejected",
    }
}

records! {
    /// A question that a run waits for, or waited for.
    pub struct Approval {
        pub execution_id: String,
        pub approval_id: String,
        pub node_id: String,
        pub status: ApprovalStatus,
        pub tool_name: Option<String>,
        /// Why a run was interrupted.
        pub reason: Option<String>,
        /// What there is to judge: `context` or `stateForReview` of the event that asked.
        pub context: Option<Json>,
        /// Unix milliseconds; absent where a fork or a continuation brought the question along.
        pub requested_at: Option<i64>,
        /// Unix milliseconds.
        pub decided_at: Option<i64>,
        pub user_id: Option<String>,
        pub comment: Option<String>,
        pub payload: Option<Json>,
    }
}

arguments! {
    /// Which approvals to list; without members, all of them.
    pub struct ListApprovals {
        pub status: Option<ApprovalStatus>,
        pub execution_id: Option<Name>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }

    /// A decision.
    pub struct ResolveApproval {
        pub execution_id: Name,
        pub approval_id: Name,
        pub decision: Decision,
        pub user_id: Option<Name>,
        pub comment: Option<String>,
        /// Merged into the state of the execution.
        pub state_patch: Option<Json> as optional,
        /// Any JSON.
        pub payload: Option<Json>,
    }
}

/// Keeps the table of approvals in step with an event. Answers whether one is still open, where that matters.
pub(crate) fn track(tx: &Tx<'_>, head: &Head, event: &Event, effect: &Effect) -> Result<bool> {
    match effect {
        Effect::Interrupted { node_id } | Effect::ApprovalRequired { node_id, .. } => {
            let approval_id = match effect {
                Effect::ApprovalRequired { approval_id: Some(id), .. } => id,
                _ => &event.id,
            };
            ask(tx, head.key, approval_id, node_id, event.sequence)?;
            Ok(true)
        }
        Effect::ApprovalReceived { node_id, approval_id, .. } => {
            let decision = match Fields::read(event.data.as_str())?.raw("decision") {
                Some("\"approved\"") => ApprovalStatus::Approved,
                _ => ApprovalStatus::Rejected,
            };
            // The oldest open one of the node where no id is given, as in the fold.
            tx.execute(
                "UPDATE approvals SET status = ?5, decided = ?4 WHERE execution = ?1 AND status = 'pending' AND approval_id = coalesce(?2,
                     (SELECT approval_id FROM approvals WHERE execution = ?1 AND status = 'pending' AND node_id = ?3
                      ORDER BY requested, key LIMIT 1))",
                (head.key, approval_id, node_id, event.sequence, decision),
            )?;
            let open =
                tx.row("SELECT 1 FROM approvals WHERE execution = ?1 AND status = 'pending' LIMIT 1", [head.key], |_| Ok(()))?;
            Ok(open.is_some())
        }
        _ => Ok(false),
    }
}

/// Opens an approval. One that is open already stays as it is.
fn ask(tx: &Tx<'_>, execution: i64, approval_id: &str, node_id: &str, requested: i64) -> Result<()> {
    let known =
        tx.row("SELECT key, status FROM approvals WHERE execution = ?1 AND approval_id = ?2", (execution, approval_id), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)? == ApprovalStatus::Pending.as_str()))
        })?;
    match known {
        Some((_, true)) => Ok(()),
        Some((key, false)) => tx.execute_one(
            "UPDATE approvals SET status = 'pending', node_id = ?2, requested = ?3, decided = NULL WHERE key = ?1",
            (key, node_id, requested),
        ),
        None => {
            let key = tx.next_key("SELECT key FROM approvals WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
            tx.execute_one(
                "INSERT INTO approvals (key, tenant, execution, approval_id, node_id, status, requested)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'pending', ?6)",
                (key, tx.tenant, execution, approval_id, node_id, requested),
            )
        }
    }
}

/// The questions that an execution's base brings along.
pub(crate) fn inherit(tx: &Tx<'_>, execution: i64, pending: &[PendingApproval]) -> Result<()> {
    pending.iter().try_for_each(|pending| ask(tx, execution, &pending.approval_id, &pending.node_id, 0))
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListApprovals) -> Result<Page<Approval>> {
    let limit = page::limit(filter.limit)?;
    let order = filter.order.unwrap_or_default();
    let execution = match &filter.execution_id {
        None => None,
        Some(id) => Some(Head::get(tx, id)?.key),
    };
    let filtered = filter.status.is_some() || execution.is_some();
    let mut page = if filtered { PageBuilder::filtered(limit) } else { PageBuilder::unfiltered(limit) };
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let wanted = filter.status.map(ApprovalStatus::as_str);
    // ?4 is the execution or the status that the index begins with, where one is asked for.
    let (sql, by): (_, Option<Box<dyn ToSql>>) = match (execution, wanted, order) {
        (Some(key), _, Order::Asc) => (
            "SELECT key, status FROM approvals WHERE execution = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
            Some(Box::new(key)),
        ),
        (Some(key), _, Order::Desc) => (
            "SELECT key, status FROM approvals WHERE execution = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3",
            Some(Box::new(key)),
        ),
        (None, Some(status), Order::Asc) => (
            "SELECT key, status FROM approvals WHERE tenant = ?5 AND status = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
            Some(Box::new(status)),
        ),
        (None, Some(status), Order::Desc) => (
            "SELECT key, status FROM approvals WHERE tenant = ?5 AND status = ?4 AND key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3",
            Some(Box::new(status)),
        ),
        (None, None, Order::Asc) => ("SELECT key, status FROM approvals WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3", None),
        (None, None, Order::Desc) => {
            ("SELECT key, status FROM approvals WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3", None)
        }
    };
    let scanned = page.scanned();
    let mut parameters: Vec<&dyn ToSql> = vec![&from, &to, &scanned];
    parameters.extend(by.as_deref());
    if execution.is_none() && wanted.is_some() {
        parameters.push(&tx.tenant);
    }
    tx.walk(sql, parameters.as_slice(), |row| {
        let key: i64 = row.get(0)?;
        let status: String = row.get(1)?;
        if filter.status.is_some_and(|wanted| wanted.as_str() != status) {
            page.skip(tx.number_of(key));
            return Ok(true);
        }
        page.visit(tx.number_of(key), by_key(tx, key), |approval| {
            approval.context.as_ref().map_or(300, |c| c.as_str().len() + 300)
        })
    })?;
    Ok(page.finish())
}

fn by_key(tx: &Tx<'_>, key: i64) -> Result<Approval> {
    let found = tx.row(
        "SELECT execution, approval_id, node_id, status, requested, decided FROM approvals WHERE key = ?1",
        [key],
        |row| {
            let columns = Columns::with_id(row, "approvals", 1);
            let approval: (String, String, ApprovalStatus) = (columns.get(1)?, columns.get(2)?, columns.get(3)?);
            Ok((row.get::<_, i64>(0)?, approval, columns.get::<i64>(4)?, columns.get::<Option<i64>>(5)?))
        },
    )?;
    let (execution, (approval_id, node_id, status), requested, decided) =
        found.ok_or_else(|| Error::corrupt("approvals", &key.to_string(), "its row is missing"))?;
    let head = Head::by_key(tx, execution)?;
    let asked = events::at(tx, &head, requested)?;
    let requested_at = asked.as_ref().map(|event| event.created_at);
    let asked = match asked {
        Some(event) => Some(event.data),
        None => snapshots::base(tx, &head)?.and_then(|base| base.inherited(&approval_id).cloned()),
    };
    let answered = decided.map(|sequence| events::at(tx, &head, sequence)).transpose()?.flatten();
    let decided_at = answered.as_ref().map(|event| event.created_at);
    let answered = answered.map(|event| event.data);
    let member = |data: &Option<Json>, field: &str| -> Result<Option<Json>> {
        data.as_ref().map_or(Ok(None), |data| Ok(Fields::read(data.as_str())?.json(field)))
    };
    let text =
        |data: &Option<Json>, field: &str| -> Result<Option<String>> { member(data, field)?.map_or(Ok(None), |json| json.to()) };
    Ok(Approval {
        execution_id: head.id.clone(),
        approval_id,
        node_id,
        status,
        tool_name: text(&asked, "toolName")?,
        reason: text(&asked, "reason")?,
        context: member(&asked, "context")?.or(member(&asked, "stateForReview")?),
        requested_at,
        decided_at,
        user_id: text(&answered, "userId")?,
        comment: text(&answered, "comment")?,
        payload: member(&answered, "payload")?,
    })
}

pub(crate) fn resolve(tx: &Tx<'_>, arguments: ResolveApproval) -> Result<Approval> {
    tx.document("statePatch", arguments.state_patch.as_ref())?;
    tx.document("payload", arguments.payload.as_ref())?;
    let mut head = Head::get(tx, &arguments.execution_id)?;
    let found = tx.row(
        "SELECT key, node_id, status FROM approvals WHERE execution = ?1 AND approval_id = ?2",
        (head.key, &arguments.approval_id),
        |row| {
            let columns = Columns::new(row, "approvals", arguments.approval_id.as_str());
            Ok((columns.get::<i64>(0)?, columns.get::<String>(1)?, columns.get::<ApprovalStatus>(2)?))
        },
    )?;
    let (key, node_id, status) = found.ok_or_else(|| Error::not_found("approval", &arguments.approval_id))?;
    if status != ApprovalStatus::Pending {
        return Err(Error::conflict(format!(
            "the approval {:?} has been decided already: it is {}",
            arguments.approval_id.as_str(),
            status.as_str()
        ))
        .with("approvalId", arguments.approval_id.as_str())
        .with("status", status.as_str()));
    }
    head.must_be_open("decisions")?;
    let mut data = json!({ "nodeId": node_id, "approvalId": arguments.approval_id, "decision": arguments.decision });
    if let Some(patch) = &arguments.state_patch {
        data["statePatch"] = match patch.to()? {
            patch @ (Value::Object(_) | Value::Null) => patch,
            _ => return Err(Error::invalid("statePatch must be an object: it is a merge patch").with("path", "statePatch")),
        };
    }
    if let Some(user_id) = arguments.user_id {
        data["userId"] = user_id.as_str().into();
    }
    if let Some(comment) = arguments.comment {
        data["comment"] = comment.into();
    }
    if let Some(payload) = &arguments.payload {
        data["payload"] = payload.to()?;
    }
    record(tx, &mut head, vec![NewEvent::of("approval_received", &data)])?;
    by_key(tx, key)
}
