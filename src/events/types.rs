//! The known event types and the fields of their data.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::json::{FromJson, Json, Pairs};

/// A known type: its name and its fields, each `name:kind`, or `name?:kind` where it may be left out.
///
/// Kinds: `s` string, `i` integer, `n` number, `b` boolean, `e` error (a string or `{message, code?, stack?}`), `d` decision
/// (`approved` or `rejected`), `m` merge patch (an object or null), `p` provenance, `j` any JSON.
pub struct EventType {
    pub name: &'static str,
    pub fields: &'static str,
}

macro_rules! types {
    ($($name:literal: $fields:literal,)*) => {
        /// Every known type, in the order of the documentation. Types that begin with `x-` are the caller's own.
        pub const EVENT_TYPES: &[EventType] = &[$(EventType { name: $name, fields: $fields },)*];
    };
}

types! {
    "workflow_started": "workflowId:s workflowVersion:s initialInput:j",
    "workflow_completed": "finalState?:j output?:j",
    "workflow_failed": "error:e",
    "workflow_cancelled": "reason?:s",
    "node_scheduled": "nodeId:s queueType:s",
    "node_started": "nodeId:s workerId:s attempt:i",
    "node_completed": "nodeId:s output:j statePatch:m durationMs:i genAiSystem?:s genAiModel?:s inputTokens?:i outputTokens?:i finishReason?:s costUsd?:n provenance?:p idempotencyKey?:s",
    "node_failed": "nodeId:s error:e attempt:i retryable:b",
    "node_parked": "nodeId:s attempt:i retryAfter:i",
    "node_skipped": "nodeId:s reason:s",
    "node_cancelled": "nodeId:s",
    "retry_scheduled": "nodeId:s attempt:i delayMs:i",
    "interrupt_raised": "nodeId:s reason:s stateForReview:j",
    "approval_received": "nodeId:s approvalId?:s userId?:s decision:d comment?:s statePatch?:m payload?:j",
    "timer_created": "nodeId:s fireAt:i correlationKey?:s",
    "timer_fired": "nodeId:s correlationKey?:s lateByMs?:i",
    "external_event_received": "correlationKey:s payload:j",
    "child_workflow_started": "nodeId:s childExecutionId:s childWorkflowId:s",
    "child_workflow_completed": "nodeId:s childExecutionId:s result:j",
    "child_workflow_failed": "nodeId:s childExecutionId:s error:e",
    "budget_exceeded": "nodeId:s kind:s limit:n current:n",
    "token_budget_exceeded": "nodeId:s kind:s limit:i current:i",
    "cost_budget_exceeded": "nodeId:s limitUsd:n currentUsd:n",
    "autonomy_limit_reached": "nodeId:s agentRef:s limitType:s limitValue:j actualValue:j",
    "circuit_breaker_tripped": "nodeId:s agentRef:s consecutiveErrors:i threshold:i",
    "escalation_required": "nodeId:s agentRef:s reason:s escalationTarget:j",
    "policy_violation": "nodeId:s rule:j decision:j policyScope:j",
    "tool_approval_required": "nodeId:s approvalId?:s toolName:s approver:j context:j",
    "strategy_started": "strategy:j config:j",
    "plan_generated": "steps:j",
    "iteration_started": "iteration:i",
    "tool_called": "nodeId:s tool:j",
    "critic_verdict": "nodeId:s score:n passed:b feedback?:j",
    "iteration_completed": "iteration:i costDeltaUsd?:n inputTokens:i outputTokens:i",
    "strategy_limit_hit": "limitType:s limitValue:j actualValue:j",
    "strategy_completed": "iterations:i totalCostUsd?:n",
    "coordinator_discovery": "nodeId:s querySkills:j queryTrustDomain?:j candidates:j filteredOut:j",
    "coordinator_scoring": "nodeId:s rankings:j spread:j weights:j",
    "coordinator_decision": "nodeId:s selected?:j method:j reasoning?:j confidence:n rejected:j tiebreakerTokens?:i tiebreakerCost?:n",
    "agent_tool_invoked": "nodeId:s agentUri:s mode:j protocol:j inputHash:s",
    "agent_tool_progress": "nodeId:s chunkIndex:i partialOutputSummary:s",
    "agent_tool_turn": "nodeId:s turnNumber:i direction:j contentSummary:s tokens:i cost:n",
    "agent_tool_completed": "nodeId:s output:j provenance?:p totalCost:n latencyMs:i totalTurns?:i",
    "agent_tool_terminated": "nodeId:s reason:s chunksReceived:i partialOutput?:j cost:n",
    "agent_tool_failed": "nodeId:s failureType:s message:s retryable:b",
    "segment_boundary": "segmentNumber:i nextExecutionId:s",
    "execution_status_set": "from:s to:s reason?:s",
    "execution_state_set": "state:j",
    "execution_state_patched": "patch:m",
    "execution_state_appended": "key:s value:j",
    "execution_reconciled": "status:s state:j",
}

/// Whether only the store itself writes this type.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with("execution_") || name == "segment_boundary"
}

/// Whether no other program's log can hold this type.
pub(crate) fn is_written_by_store(name: &str) -> bool {
    name.starts_with("execution_")
}

/// Checks the type and the data of an event that a caller appends.
pub(crate) fn check(name: &str, data: &Json) -> Result<()> {
    if name.starts_with("x-") {
        return Ok(());
    }
    let Some(known) = EVENT_TYPES.iter().find(|known| known.name == name) else {
        let nearest = EVENT_TYPES
            .iter()
            .map(|known| known.name)
            .filter(|known| !is_reserved(known))
            .min_by_key(|known| distance(name, known))
            .unwrap_or_default();
        return Err(Error::invalid(format!(
            "the event type {name:?} is not known; the nearest is {nearest:?}, and types of your own begin with \"x-\""
        ))
        .with("path", "type")
        .with("type", name)
        .with("nearest", nearest));
    };
    if is_reserved(name) {
        return Err(Error::invalid(format!(
            "events of the type {name:?} are written by the store itself; use setStatus and the state operations"
        ))
        .with("path", "type")
        .with("type", name));
    }
    let wrong = |path: String, message: String| {
        Err(Error::invalid(format!("{name}: {path}: {message}")).with("path", path).with("type", name))
    };
    let Ok(fields) = Fields::read(data.as_str()) else {
        return wrong("data".to_owned(), "must be an object".to_owned());
    };
    let mut met = 0;
    for spec in known.fields.split(' ') {
        let (field, kind, optional) = parse_field(spec);
        let given = fields.raw(field);
        met += usize::from(given.is_some());
        match given {
            None if optional => {}
            None => return wrong(format!("data.{field}"), "is missing".to_owned()),
            // A null stands for a field left out, except where null is a value.
            Some("null") if optional => {}
            Some(text) => {
                if let Err(expected) = check_kind(kind, text) {
                    return wrong(format!("data.{field}"), format!("must be {expected}, not {}", excerpt(text)));
                }
            }
        }
    }
    if met == fields.0.len() {
        return Ok(());
    }
    let is_known = |field: &str| known.fields.split(' ').any(|spec| parse_field(spec).0 == field);
    match fields.0.iter().map(|(field, _)| field).find(|field| !is_known(field)) {
        Some(field) => wrong(format!("data.{field}"), "is no field of this event type".to_owned()),
        None => Ok(()),
    }
}

/// Checks an error as callers give it: a string, or `{message, code?, stack?}`.
pub(crate) fn check_error(path: &str, error: &Json) -> Result<()> {
    check_kind("e", error.as_str()).map_err(|expected| {
        Error::invalid(format!("{path} must be {expected}, not {}", excerpt(error.as_str()))).with("path", path)
    })
}

/// Splits `name?:kind`.
pub fn parse_field(spec: &'static str) -> (&'static str, &'static str, bool) {
    let (name, kind) = spec.split_once(':').unwrap_or((spec, "j"));
    name.strip_suffix('?').map_or((name, kind, false), |name| (name, kind, true))
}

/// Checks that a value is of a kind; see [`EventType`].
pub(crate) fn check_kind(kind: &str, text: &str) -> Result<(), &'static str> {
    let first = text.as_bytes().first().copied().unwrap_or_default();
    let is_number = first == b'-' || first.is_ascii_digit();
    let (ok, expected) = match kind {
        "s" => (first == b'"', "a string"),
        "i" => (text.parse::<i64>().is_ok(), "an integer"),
        "n" => (is_number, "a number"),
        "b" => (matches!(text, "true" | "false"), "true or false"),
        "d" => (matches!(text, "\"approved\"" | "\"rejected\""), "\"approved\" or \"rejected\""),
        "m" => (first == b'{' || text == "null", "an object or null"),
        "e" => (first == b'"' || ErrorShape::from_json(text).is_ok(), "a string or {message, code?, stack?}"),
        "p" => (
            ProvenanceShape::from_json(text).is_ok(),
            "{modelId?, modelVersion?, confidence?, verified?, source?, trustDomain?, evidenceRefs?}",
        ),
        _ => (true, "any JSON"),
    };
    if ok { Ok(()) } else { Err(expected) }
}

// These only tell whether text has their form.
arguments! {
    struct ErrorShape {
        message: String,
        code: Option<String>,
        stack: Option<String>,
    }

    struct ProvenanceShape {
        model_id: Option<String>,
        model_version: Option<String>,
        confidence: Option<f64>,
        verified: Option<bool>,
        source: Option<String>,
        trust_domain: Option<String>,
        evidence_refs: Option<Vec<String>>,
    }
}

/// The top-level members of an event's data, as texts.
pub(crate) struct Fields<'d>(Vec<(Cow<'d, str>, &'d RawValue)>);

impl<'d> Fields<'d> {
    pub(crate) fn read(data: &'d str) -> Result<Self> {
        let Pairs(fields) =
            serde_json::from_str(data).map_err(|error| Error::invalid(format!("data must be an object: {error}")))?;
        Ok(Self(fields))
    }

    /// Of fields with one name the last counts.
    fn value(&self, field: &str) -> Option<&'d RawValue> {
        self.0.iter().rev().find(|(known, _)| known == field).map(|(_, value)| *value)
    }

    pub(crate) fn raw(&self, field: &str) -> Option<&'d str> {
        self.value(field).map(RawValue::get)
    }

    pub(crate) fn json(&self, field: &str) -> Option<Json> {
        self.value(field).map(Json::part)
    }

    pub(crate) fn text(&self, field: &str) -> Option<String> {
        serde_json::from_str(self.raw(field)?).ok()
    }

    pub(crate) fn integer(&self, field: &str) -> i64 {
        self.raw(field).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub(crate) fn number(&self, field: &str) -> f64 {
        let text = self.raw(field).unwrap_or_default();
        // Not `parse`, which would be a second reader of numbers, with its tables, in the WebAssembly. It refuses what is out of range.
        let out_of_range = match text.as_bytes() {
            [b'-', ..] => f64::NEG_INFINITY,
            [b'0'..=b'9', ..] => f64::INFINITY,
            _ => 0.0,
        };
        serde_json::from_str(text).unwrap_or(out_of_range)
    }
}

/// The beginning of a JSON text, for messages.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The edit distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
