//! What a log makes of an execution. Pure: the same events give the same result, wherever and whenever they are folded.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::events::types::Fields;
use crate::events::{self, Logged};
use crate::executions::{ExecutionStatus, Head};
use crate::json::{FromJson, Json, given};
use crate::store::Tx;

/// What one event changes.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    Nothing,
    Status(ExecutionStatus),
    Completed { final_state: Option<Value>, output: Option<Json> },
    Failed { status: ExecutionStatus, error: Option<Json> },
    NodeActive(String),
    NodeCompleted { node_id: String, patch: Option<Map<String, Value>>, input_tokens: i64, output_tokens: i64, cost_usd: f64 },
    NodeFailed(String),
    NodeInactive(String),
    Interrupted { node_id: String },
    ApprovalRequired { node_id: String, approval_id: Option<String>, tool_name: Option<String> },
    ApprovalReceived { node_id: String, approval_id: Option<String>, patch: Option<Map<String, Value>> },
    StateSet(Value),
    StatePatched(Map<String, Value>),
    StateAppended { key: String, value: Value },
    Reconciled { status: ExecutionStatus, state: Value },
    ToolCalled,
    IterationCompleted,
    CircuitBreakerTripped { consecutive_errors: i64 },
}

impl Effect {
    /// Reads what an event of this type and data changes. Types of the caller's own, and unknown ones, change nothing.
    pub(crate) fn of(event_type: &str, data: &str) -> Result<Self> {
        if event_type.starts_with("x-") {
            return Ok(Self::Nothing);
        }
        Self::read(event_type, &Fields::read(data)?)
    }

    fn read(event_type: &str, fields: &Fields<'_>) -> Result<Self> {
        let node_id = || fields.text("nodeId").unwrap_or_default();
        let value = |field: &str| fields.raw(field).map(to_value).transpose();
        let patch = |field: &str| -> Result<Option<Map<String, Value>>> {
            Ok(match value(field)? {
                Some(Value::Object(patch)) => Some(patch),
                _ => None,
            })
        };
        let status = |field: &str| -> Result<ExecutionStatus> {
            fields.json(field).map_or(Ok(ExecutionStatus::Pending), |json| json.read())
        };
        Ok(match event_type {
            "workflow_started" => Self::Status(ExecutionStatus::Running),
            "workflow_completed" => Self::Completed { final_state: value("finalState")?, output: fields.json("output") },
            "workflow_failed" => Self::Failed { status: ExecutionStatus::Failed, error: fields.json("error") },
            "workflow_cancelled" => Self::Status(ExecutionStatus::Cancelled),
            "strategy_limit_hit" => Self::Status(ExecutionStatus::LimitExceeded),
            "segment_boundary" => Self::Status(ExecutionStatus::Completed),
            "execution_status_set" => match status("to")? {
                to @ ExecutionStatus::Failed => Self::Failed { status: to, error: fields.json("reason") },
                to => Self::Status(to),
            },
            "node_scheduled" | "node_started" => Self::NodeActive(node_id()),
            "node_completed" => Self::NodeCompleted {
                node_id: node_id(),
                patch: patch("statePatch")?,
                input_tokens: fields.integer("inputTokens"),
                output_tokens: fields.integer("outputTokens"),
                cost_usd: fields.number("costUsd"),
            },
            "node_failed" => Self::NodeFailed(node_id()),
            "node_skipped" | "node_cancelled" => Self::NodeInactive(node_id()),
            "interrupt_raised" => Self::Interrupted { node_id: node_id() },
            "tool_approval_required" => Self::ApprovalRequired {
                node_id: node_id(),
                approval_id: fields.text("approvalId"),
                tool_name: fields.text("toolName"),
            },
            "approval_received" => {
                Self::ApprovalReceived { node_id: node_id(), approval_id: fields.text("approvalId"), patch: patch("statePatch")? }
            }
            "execution_state_set" => Self::StateSet(value("state")?.unwrap_or_default()),
            "execution_state_patched" => Self::StatePatched(patch("patch")?.unwrap_or_default()),
            "execution_state_appended" => {
                Self::StateAppended { key: fields.text("key").unwrap_or_default(), value: value("value")?.unwrap_or_default() }
            }
            "execution_reconciled" => Self::Reconciled { status: status("status")?, state: value("state")?.unwrap_or_default() },
            "tool_called" => Self::ToolCalled,
            "iteration_completed" => Self::IterationCompleted,
            "circuit_breaker_tripped" => Self::CircuitBreakerTripped { consecutive_errors: fields.integer("consecutiveErrors") },
            _ => Self::Nothing,
        })
    }
}

/// The part of the fold that lists and records show; see [`Fold`] for the whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    pub(crate) status: ExecutionStatus,
    pub(crate) state: Value,
    /// An output may be null, which is not the same as none.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Json>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Json>,
    pub(crate) started_at: Option<i64>,
    pub(crate) completed_at: Option<i64>,
}

impl Outcome {
    pub(crate) fn empty() -> Self {
        Self {
            status: ExecutionStatus::Pending,
            state: Value::Object(Map::new()),
            output: None,
            error: None,
            started_at: None,
            completed_at: None,
        }
    }

    /// Whether the effect needs the state, which is loaded only then.
    pub(crate) fn touches_state(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Reconciled { .. } => true,
            _ if self.status.is_terminal() => false,
            Effect::Completed { .. } | Effect::Failed { .. } => true,
            Effect::NodeCompleted { patch, .. } | Effect::ApprovalReceived { patch, .. } => patch.is_some(),
            Effect::StateSet(_) | Effect::StatePatched(_) | Effect::StateAppended { .. } => true,
            _ => false,
        }
    }

    /// Applies one event's effect. `others_pending` tells whether an approval is still open after it.
    pub(crate) fn apply(&mut self, effect: Effect, at: i64, others_pending: bool) {
        // Terminal is final: what comes later is recorded and changes neither status nor state.
        if let Effect::Reconciled { status, state } = effect {
            self.state = state;
            return self.enter(status, at);
        }
        if self.status.is_terminal() {
            return;
        }
        match effect {
            Effect::Status(status) => self.enter(status, at),
            Effect::Completed { final_state, output } => {
                if let Some(state) = final_state {
                    self.state = state;
                }
                self.output = output;
                self.enter(ExecutionStatus::Completed, at);
            }
            Effect::Failed { status, error } => {
                self.error = error;
                self.enter(status, at);
            }
            Effect::NodeCompleted { patch: Some(patch), .. } | Effect::StatePatched(patch) => {
                merge(&mut self.state, Value::Object(patch));
            }
            Effect::Interrupted { .. } => self.enter(ExecutionStatus::Paused, at),
            Effect::ApprovalReceived { patch, .. } => {
                if let Some(patch) = patch {
                    merge(&mut self.state, Value::Object(patch));
                }
                if self.status == ExecutionStatus::Paused && !others_pending {
                    self.enter(ExecutionStatus::Running, at);
                }
            }
            Effect::StateSet(state) => self.state = state,
            Effect::StateAppended { key, value } => {
                if !self.state.is_object() {
                    self.state = Value::Object(Map::new());
                }
                match &mut self.state[key] {
                    Value::Array(values) => values.push(value),
                    other => *other = Value::Array(vec![value]),
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, status: ExecutionStatus, at: i64) {
        self.status = status;
        if status == ExecutionStatus::Running && self.started_at.is_none() {
            self.started_at = Some(at);
        }
        self.completed_at = status.is_terminal().then_some(at);
    }
}

records! {
    /// An execution as its log tells it, as of one sequence.
    pub struct Materialized {
        pub status: ExecutionStatus,
        #[cfg_attr(feature = "development", ts(type = "JsonValue"))]
        pub state: Value,
        pub output: Option<Json>,
        /// The nodes that completed, with their outputs.
        pub completed_nodes: BTreeMap<String, Json>,
        /// The nodes that are scheduled or started, sorted.
        pub active_nodes: BTreeSet<String>,
        pub budget: Budget,
        /// What waits for a decision, oldest first.
        pub pending_approvals: Vec<PendingApproval>,
        pub last_sequence: i64,
    }

    /// What the run has used so far. Tokens and costs are those of its `node_completed` events.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct Budget {
        pub input_tokens: i64,
        pub output_tokens: i64,
        /// US dollars.
        pub cost_usd: f64,
        pub iterations: i64,
        pub tool_calls: i64,
        pub consecutive_errors: i64,
        pub circuit_breaker_tripped: bool,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct PendingApproval {
        pub approval_id: String,
        pub node_id: String,
        pub tool_name: Option<String>,
        /// The event that asks; 0 where a fork or a continuation brought it along.
        pub sequence: i64,
    }
}

/// Where the output of a completed node is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum NodeOutput {
    /// In the event of this sequence: a snapshot does not repeat what the log holds.
    At(i64),
    /// Here, where the log that held it may be another execution's.
    Value(Json),
}

/// Where a fold has the outputs of the nodes whose completion it is told of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outputs {
    InTheLog,
    /// In itself: it is about to be shown, and not kept.
    Held,
}

/// The whole fold.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fold {
    pub(crate) outcome: Outcome,
    completed_nodes: BTreeMap<String, NodeOutput>,
    active_nodes: BTreeSet<String>,
    budget: Budget,
    pending_approvals: Vec<PendingApproval>,
    /// What the events said that asked for them, where those are in another execution's log; by approval.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    inherited: BTreeMap<String, Json>,
    last_sequence: i64,
}

impl Fold {
    /// The fold of no events.
    pub(crate) fn empty() -> Self {
        Self {
            outcome: Outcome::empty(),
            completed_nodes: BTreeMap::new(),
            active_nodes: BTreeSet::new(),
            budget: Budget::default(),
            pending_approvals: Vec::new(),
            inherited: BTreeMap::new(),
            last_sequence: 0,
        }
    }

    pub(crate) fn to_json(&self) -> Result<Json> {
        Json::from_value(self)
    }

    pub(crate) fn pending_approvals(&self) -> &[PendingApproval] {
        &self.pending_approvals
    }

    /// What the event said that asked for an approval which a fork brought along.
    pub(crate) fn inherited(&self, approval_id: &str) -> Option<&Json> {
        self.inherited.get(approval_id)
    }

    /// The same fold as the beginning of another log: nothing in it points into this one.
    pub(crate) fn detached(mut self, tx: &Tx<'_>, head: &Head) -> Result<Self> {
        self.hold_outputs(tx, head)?;
        for pending in &mut self.pending_approvals {
            if let Some(asked) = events::at(tx, head, pending.sequence)? {
                self.inherited.insert(pending.approval_id.clone(), asked.data);
            }
            pending.sequence = 0;
        }
        self.last_sequence = 0;
        Ok(self)
    }

    pub(crate) fn apply(&mut self, event: &Logged<'_>, outputs: Outputs) -> Result<()> {
        let Logged { sequence, id, event_type, data, created_at: at } = *event;
        self.last_sequence = sequence;
        if event_type.starts_with("x-") {
            // Only whether it can be read: it may be any JSON.
            serde_json::from_str::<&RawValue>(data).map_err(|error| Error::invalid(error.to_string()))?;
            return Ok(());
        }
        let fields = Fields::read(data)?;
        let effect = Effect::read(event_type, &fields)?;
        match &effect {
            Effect::NodeActive(node_id) => {
                self.active_nodes.insert(node_id.clone());
            }
            Effect::NodeCompleted { node_id, input_tokens, output_tokens, cost_usd, .. } => {
                self.active_nodes.remove(node_id);
                let output = match outputs {
                    Outputs::InTheLog => NodeOutput::At(sequence),
                    Outputs::Held => NodeOutput::Value(fields.json("output").unwrap_or_default()),
                };
                self.completed_nodes.insert(node_id.clone(), output);
                self.budget.consecutive_errors = 0;
                self.budget.spend(*input_tokens, *output_tokens, *cost_usd);
            }
            Effect::NodeFailed(node_id) => {
                self.active_nodes.remove(node_id);
                self.budget.consecutive_errors += 1;
            }
            Effect::NodeInactive(node_id) => {
                self.active_nodes.remove(node_id);
            }
            Effect::Interrupted { node_id } => self.ask(id.to_owned(), node_id, None, sequence),
            Effect::ApprovalRequired { node_id, approval_id, tool_name } => {
                let approval_id = approval_id.clone().unwrap_or_else(|| id.to_owned());
                self.ask(approval_id, node_id, tool_name.clone(), sequence);
            }
            Effect::ApprovalReceived { node_id, approval_id, .. } => {
                // Without an approvalId the oldest open approval of the node is meant.
                let settled = self.pending_approvals.iter().position(|pending| match approval_id {
                    Some(id) => pending.approval_id == *id,
                    None => pending.node_id == *node_id,
                });
                if let Some(settled) = settled {
                    let settled = self.pending_approvals.remove(settled);
                    self.inherited.remove(&settled.approval_id);
                }
            }
            Effect::ToolCalled => self.budget.tool_calls += 1,
            // Its tokens and costs are those of the nodes that completed in it, which have been counted.
            Effect::IterationCompleted => self.budget.iterations += 1,
            Effect::CircuitBreakerTripped { consecutive_errors } => {
                self.budget.circuit_breaker_tripped = true;
                self.budget.consecutive_errors = *consecutive_errors;
            }
            _ => {}
        }
        self.outcome.apply(effect, at, !self.pending_approvals.is_empty());
        Ok(())
    }

    /// Opens an approval. One that is open already stays as it is.
    fn ask(&mut self, approval_id: String, node_id: &str, tool_name: Option<String>, sequence: i64) {
        if !self.pending_approvals.iter().any(|pending| pending.approval_id == approval_id) {
            let node_id = node_id.to_owned();
            self.pending_approvals.push(PendingApproval { approval_id, node_id, tool_name, sequence });
        }
    }

    /// Brings the outputs of its nodes in from the log.
    pub(crate) fn hold_outputs(&mut self, tx: &Tx<'_>, head: &Head) -> Result<()> {
        for output in self.completed_nodes.values_mut() {
            if let NodeOutput::At(sequence) = *output {
                *output = NodeOutput::Value(events::node_output(tx, head, sequence)?);
            }
        }
        Ok(())
    }

    pub(crate) fn last_sequence(&self) -> i64 {
        self.last_sequence
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        const AN_ENTRY: usize = 64;
        let documents = [&self.outcome.output, &self.outcome.error].into_iter().flatten().chain(self.inherited.values());
        let outputs = self.completed_nodes.iter().map(|(node, output)| match output {
            NodeOutput::At(_) => node.len() + AN_ENTRY,
            NodeOutput::Value(output) => node.len() + output.as_str().len() + AN_ENTRY,
        });
        let others = self.active_nodes.len() + self.pending_approvals.len();
        bytes(&self.outcome.state)
            + documents.map(|document| document.as_str().len()).sum::<usize>()
            + outputs.sum::<usize>()
            + others * 2 * AN_ENTRY
    }
}

/// With the outputs of its nodes, which it must hold.
impl From<Fold> for Materialized {
    fn from(fold: Fold) -> Self {
        let output = |output| match output {
            NodeOutput::At(_) => Json::default(),
            NodeOutput::Value(output) => output,
        };
        Self {
            status: fold.outcome.status,
            state: fold.outcome.state,
            output: fold.outcome.output,
            completed_nodes: fold.completed_nodes.into_iter().map(|(node, at)| (node, output(at))).collect(),
            active_nodes: fold.active_nodes,
            budget: fold.budget,
            pending_approvals: fold.pending_approvals,
            last_sequence: fold.last_sequence,
        }
    }
}

/// About how much memory a value takes.
fn bytes(value: &Value) -> usize {
    let inner: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(bytes).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| key.len() + 32 + bytes(value)).sum(),
        _ => 0,
    };
    inner + size_of::<Value>()
}

impl Budget {
    fn spend(&mut self, input_tokens: i64, output_tokens: i64, cost_usd: f64) {
        self.input_tokens = self.input_tokens.saturating_add(input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
        // A sum beyond what JSON can write would read as null.
        self.cost_usd = (self.cost_usd + cost_usd).clamp(f64::MIN, f64::MAX);
    }
}

/// RFC 7396: a null removes a key, an object merges, anything else replaces.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (key, value) in patch {
            if value.is_null() {
                target.remove(&key);
            } else {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}

fn to_value(text: &str) -> Result<Value> {
    // With a lone surrogate, which serde_json does not read, it may have come from elsewhere.
    Value::from_json(text).or_else(|_| Json::parse(text)?.to())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{Fold, Json, Logged, Outputs};

    /// An event as numbers tell it.
    fn event(kind: u8, n: u8) -> (&'static str, Json) {
        let node = format!("n{}", n % 3);
        let patch = json!({ "a": n, format!("k{}", n % 5): if n.is_multiple_of(2) { json!(null) } else { json!({ "x": [n], "y": null }) } });
        let (event_type, data) = match kind % 14 {
            0 => ("workflow_started", json!({})),
            1 if n.is_multiple_of(4) => ("workflow_completed", json!({ "output": null, "finalState": n })),
            1 if n % 4 == 1 => ("workflow_failed", json!({ "error": { "message": "m" } })),
            1 | 2 => ("node_started", json!({ "nodeId": node })),
            3 | 4 => {
                ("node_completed", json!({ "nodeId": node, "output": n, "statePatch": patch, "inputTokens": n, "costUsd": 0.1 }))
            }
            5 => ("node_failed", json!({ "nodeId": node })),
            6 => ("interrupt_raised", json!({ "nodeId": node })),
            7 => ("tool_approval_required", json!({ "nodeId": node, "approvalId": format!("a{}", n % 3), "toolName": "t" })),
            8 | 9 => ("approval_received", json!({ "nodeId": node, "decision": "approved", "statePatch": patch })),
            10 => {
                ("execution_state_set", json!({ "state": if n.is_multiple_of(5) { json!([n]) } else { json!({ "list": [n] }) } }))
            }
            11 => ("execution_state_appended", json!({ "key": "list", "value": n })),
            12 => ("circuit_breaker_tripped", json!({ "nodeId": node, "consecutiveErrors": n })),
            _ => ("execution_state_patched", json!({ "patch": patch })),
        };
        (event_type, data.into())
    }

    fn apply(fold: &mut Fold, at: usize, (kind, n): (u8, u8)) {
        let (event_type, data) = event(kind, n);
        let (id, sequence, created_at) = (format!("event {at}"), at as i64 + 1, 1000 + at as i64);
        fold.apply(&Logged { sequence, id: &id, event_type, data: data.as_str(), created_at }, Outputs::InTheLog).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_fold_goes_on_from_where_it_was_kept(events in prop::collection::vec(any::<(u8, u8)>(), 0..40)) {
            let mut whole = Fold::empty();
            let mut kept = vec![whole.to_json().unwrap()];
            for (at, &event) in events.iter().enumerate() {
                apply(&mut whole, at, event);
                kept.push(whole.to_json().unwrap());
            }
            for (cut, text) in kept.iter().enumerate() {
                let mut fold: Fold = text.to().unwrap();
                for (at, &event) in events.iter().enumerate().skip(cut) {
                    apply(&mut fold, at, event);
                }
                prop_assert_eq!(fold.to_json().unwrap(), whole.to_json().unwrap(), "cut at {}", cut);
            }
        }
    }
}
