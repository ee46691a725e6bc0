//! The log is the truth: whatever is done to executions, the record as answered is the fold of the base and the events, as SPEC tells it
//! and as it is written down here a second time, plainly.
//!
//! `RUNKEEP_SEED` repeats a run, `RUNKEEP_CASES` sets how many cases there are.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{call, clock, options, try_call};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use runkeep::{ManualClock, Store};
use serde_json::{Map, Value, json};

/// The fold, as plainly as it can be said.
#[derive(Debug, Clone)]
struct Naive {
    status: String,
    state: Value,
    output: Option<Value>,
    error: Option<Value>,
    started_at: Option<i64>,
    completed_at: Option<i64>,
    done: BTreeMap<String, Value>,
    active: BTreeSet<String>,
    tokens: (i64, i64),
    cost: f64,
    iterations: i64,
    tool_calls: i64,
    errors: i64,
    tripped: bool,
    /// Approval, node, tool, sequence.
    pending: Vec<(String, String, Option<String>, i64)>,
    last: i64,
}

impl Naive {
    fn new() -> Self {
        Self {
            status: "pending".to_owned(),
            state: json!({}),
            output: None,
            error: None,
            started_at: None,
            completed_at: None,
            done: BTreeMap::new(),
            active: BTreeSet::new(),
            tokens: (0, 0),
            cost: 0.0,
            iterations: 0,
            tool_calls: 0,
            errors: 0,
            tripped: false,
            pending: Vec::new(),
            last: 0,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed" | "cancelled" | "limit_exceeded")
    }

    fn enter(&mut self, status: &str, at: i64) {
        if self.has_ended() {
            return;
        }
        self.status = status.to_owned();
        if status == "running" {
            self.started_at.get_or_insert(at);
        }
        if self.has_ended() {
            self.completed_at = Some(at);
        }
    }

    fn merge(&mut self, patch: &Value) {
        if !self.has_ended() && !patch.is_null() {
            self.state = merged(&self.state, patch);
        }
    }

    fn ask(&mut self, id: &str, data: &Value, sequence: i64) {
        if self.pending.iter().all(|open| open.0 != id) {
            let tool = data["toolName"].as_str().map(str::to_owned);
            self.pending.push((id.to_owned(), data["nodeId"].as_str().unwrap().to_owned(), tool, sequence));
        }
    }

    fn fold(&mut self, event: &Value) {
        let (data, at, sequence) = (&event["data"], event["createdAt"].as_i64().unwrap(), event["sequence"].as_i64().unwrap());
        let node = || data["nodeId"].as_str().unwrap().to_owned();
        let ended = self.has_ended();
        self.last = sequence;
        match event["type"].as_str().unwrap() {
            "workflow_started" => self.enter("running", at),
            "workflow_completed" => {
                if !ended {
                    if let Some(state) = data.get("finalState") {
                        self.state = state.clone();
                    }
                    self.output = data.get("output").cloned();
                }
                self.enter("completed", at);
            }
            "workflow_failed" => {
                if !ended {
                    self.error = data.get("error").cloned();
                }
                self.enter("failed", at);
            }
            "workflow_cancelled" => self.enter("cancelled", at),
            "strategy_limit_hit" => self.enter("limit_exceeded", at),
            "segment_boundary" => self.enter("completed", at),
            "execution_status_set" => {
                let to = data["to"].as_str().unwrap();
                if !ended && to == "failed" {
                    self.error = data.get("reason").cloned();
                }
                self.enter(to, at);
            }
            "node_scheduled" | "node_started" => {
                self.active.insert(node());
            }
            "node_completed" => {
                self.active.remove(&node());
                self.done.insert(node(), data["output"].clone());
                self.merge(&data["statePatch"]);
                self.tokens.0 += data["inputTokens"].as_i64().unwrap_or(0);
                self.tokens.1 += data["outputTokens"].as_i64().unwrap_or(0);
                self.cost += data["costUsd"].as_f64().unwrap_or(0.0);
                self.errors = 0;
            }
            "node_failed" => {
                self.active.remove(&node());
                self.errors += 1;
            }
            "node_skipped" | "node_cancelled" => {
                self.active.remove(&node());
            }
            "interrupt_raised" => {
                self.ask(event["id"].as_str().unwrap(), data, sequence);
                self.enter("paused", at);
            }
            "tool_approval_required" => {
                let id = data["approvalId"].as_str().unwrap_or(event["id"].as_str().unwrap());
                self.ask(id, data, sequence);
            }
            "approval_received" => {
                let settled = match data["approvalId"].as_str() {
                    Some(id) => self.pending.iter().position(|open| open.0 == id),
                    None => self.pending.iter().position(|open| open.1 == node()),
                };
                settled.map(|at| self.pending.remove(at));
                self.merge(&data["statePatch"]);
                if self.status == "paused" && self.pending.is_empty() {
                    self.enter("running", at);
                }
            }
            "execution_state_set" if !ended => self.state = data["state"].clone(),
            "execution_state_patched" => self.merge(&data["patch"]),
            "execution_state_appended" if !ended => {
                let mut values = self.state[data["key"].as_str().unwrap()].as_array().cloned().unwrap_or_default();
                values.push(data["value"].clone());
                self.state[data["key"].as_str().unwrap()] = values.into();
            }
            "tool_called" => self.tool_calls += 1,
            "iteration_completed" => self.iterations += 1,
            "circuit_breaker_tripped" => {
                self.tripped = true;
                self.errors = data["consecutiveErrors"].as_i64().unwrap();
            }
            _ => {}
        }
    }

    /// As `executions.get` shows it.
    fn shown(&self) -> Value {
        let mut shown = json!({ "status": self.status, "state": self.state, "lastSequence": self.last });
        for (name, value) in [
            ("output", self.output.clone()),
            ("error", self.error.clone()),
            ("startedAt", self.started_at.map(Value::from)),
            ("completedAt", self.completed_at.map(Value::from)),
        ] {
            if let Some(value) = value {
                shown[name] = value;
            }
        }
        shown
    }

    /// As `executions.materialize` answers it.
    fn materialized(&self) -> Value {
        let pending: Vec<Value> = self
            .pending
            .iter()
            .map(|(id, node, tool, sequence)| {
                let mut open = json!({ "approvalId": id, "nodeId": node, "sequence": sequence });
                if let Some(tool) = tool {
                    open["toolName"] = tool.as_str().into();
                }
                open
            })
            .collect();
        let mut answer = json!({
            "status": self.status, "state": self.state, "completedNodes": self.done, "activeNodes": self.active,
            "budget": {
                "inputTokens": self.tokens.0, "outputTokens": self.tokens.1, "costUsd": self.cost, "iterations": self.iterations,
                "toolCalls": self.tool_calls, "consecutiveErrors": self.errors, "circuitBreakerTripped": self.tripped,
            },
            "pendingApprovals": pending, "lastSequence": self.last,
        });
        if let Some(output) = &self.output {
            answer["output"] = output.clone();
        }
        answer
    }

    /// As the beginning of another log.
    fn as_base(&self) -> Self {
        let mut base = Self { last: 0, ..self.clone() };
        base.pending.iter_mut().for_each(|open| open.3 = 0);
        base
    }
}

/// RFC 7396.
fn merged(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target: Map<String, Value> = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.remove(key)),
            value => {
                let merged = merged(target.get(key).unwrap_or(&Value::Null), value);
                target.insert(key.clone(), merged);
            }
        }
    }
    target.into()
}

/// One operation, as numbers that [`World::run`] reads.
type Op = (u8, u8, u8, u16);

/// One execution under test: its base, and what its log has made of it.
struct Run {
    id: String,
    base: Naive,
    now: Naive,
    events: Vec<Value>,
}

struct World<'s> {
    store: &'s Store,
    clock: &'s ManualClock,
    runs: Vec<Run>,
    done: usize,
}

const STATUSES: [&str; 7] = ["running", "paused", "running", "completed", "failed", "cancelled", "limit_exceeded"];

/// A value, some of them large: a state is kept with the record up to 4096 bytes.
fn value(b: u16) -> Value {
    match b % 9 {
        0 => json!(b),
        1 => json!({ "deep": { "n": b, "gone": null } }),
        2 => json!("z".repeat(4000 + usize::from(b % 120))),
        3 => json!([b, { "in": null }]),
        4 => json!("y".repeat(1000)),
        5 => json!("\u{1f600}\u{0}\"text"),
        6 => json!(f64::from(b) / 8.0),
        7 => json!({}),
        _ => json!(null),
    }
}

fn patch(a: u8, b: u16) -> Value {
    let key = format!("k{}", a % 4);
    match a % 5 {
        0 => json!({}),
        1 => json!({ key: null }),
        2 => json!({ key: { format!("d{}", b % 3): value(b / 3) } }),
        _ => json!({ key: value(b) }),
    }
}

/// An event, of every type that a caller may write and that changes anything.
fn event(kind: u8, a: u8, b: u16) -> Value {
    let node = format!("n{}", a % 5);
    let (event_type, data) = match kind % 22 {
        0 => ("workflow_started", json!({ "workflowId": "w", "workflowVersion": "1", "initialInput": value(b) })),
        1 if b.is_multiple_of(3) => ("workflow_completed", json!({ "finalState": value(b), "output": value(b / 2) })),
        1 if b % 3 == 1 => ("workflow_completed", json!({ "output": null })),
        1 => ("workflow_completed", json!({})),
        2 if b.is_multiple_of(2) => ("workflow_failed", json!({ "error": "broken" })),
        2 => ("workflow_failed", json!({ "error": { "message": "broken", "code": "E" } })),
        3 => ("workflow_cancelled", json!({ "reason": "enough" })),
        4 => ("strategy_limit_hit", json!({ "limitType": "t", "limitValue": 1, "actualValue": 2 })),
        5 => ("node_scheduled", json!({ "nodeId": node, "queueType": "q" })),
        6 => ("node_started", json!({ "nodeId": node, "workerId": "w", "attempt": 1 })),
        7..=9 => (
            "node_completed",
            json!({ "nodeId": node, "output": value(b), "statePatch": if b.is_multiple_of(4) { Value::Null } else { patch(a / 5, b) },
                    "durationMs": 1, "inputTokens": b, "outputTokens": null, "costUsd": f64::from(b) / 4.0 }),
        ),
        10 => ("node_failed", json!({ "nodeId": node, "error": "e", "attempt": 1, "retryable": false })),
        11 => ("node_skipped", json!({ "nodeId": node, "reason": "r" })),
        12 => ("node_cancelled", json!({ "nodeId": node })),
        13 | 14 => ("interrupt_raised", json!({ "nodeId": node, "reason": "look", "stateForReview": value(b) })),
        15 if b.is_multiple_of(2) => (
            "tool_approval_required",
            json!({ "nodeId": node, "approvalId": format!("a{}", b / 2 % 3), "toolName": format!("t{}", b % 5), "approver": "x", "context": value(b) }),
        ),
        15 => ("tool_approval_required", json!({ "nodeId": node, "toolName": "t", "approver": "x", "context": null })),
        16 | 17 => {
            let mut data = json!({ "nodeId": node, "decision": if b.is_multiple_of(2) { "approved" } else { "rejected" } });
            match b % 5 {
                0 => data["statePatch"] = patch(a, b / 5),
                1 => data["approvalId"] = json!(format!("a{}", b / 5 % 3)),
                2 => data["statePatch"] = Value::Null,
                3 => data["approvalId"] = Value::Null,
                _ => {}
            }
            ("approval_received", data)
        }
        18 => ("tool_called", json!({ "nodeId": node, "tool": "t" })),
        19 => ("iteration_completed", json!({ "iteration": b, "inputTokens": 7, "outputTokens": 7, "costDeltaUsd": 1.0 })),
        20 => ("circuit_breaker_tripped", json!({ "nodeId": node, "agentRef": "a", "consecutiveErrors": b, "threshold": 1 })),
        _ => ("x-note", value(b)),
    };
    json!({ "type": event_type, "data": data })
}

impl World<'_> {
    fn create(&mut self) {
        let answer = call(self.store, "executions.create", json!({ "workflowId": "w" }));
        let id = answer["id"].as_str().unwrap().to_owned();
        self.runs.push(Run { id, base: Naive::new(), now: Naive::new(), events: Vec::new() });
    }

    fn run(&mut self, (kind, target, a, b): Op) {
        let at = usize::from(target) % self.runs.len();
        let id = self.runs[at].id.clone();
        let has_ended = self.runs[at].now.has_ended();
        let change = |operation: &str, mut arguments: Value, open_only: bool| {
            arguments["id"] = id.as_str().into();
            let outcome = try_call(self.store, operation, arguments.clone());
            if open_only && has_ended {
                assert_eq!(outcome.as_ref().unwrap_err().code().as_str(), "invalid_transition", "{operation} {arguments}");
            }
            outcome.ok()
        };
        match kind % 32 {
            0..=13 => {
                // Ends are rare, so that logs grow.
                let kind = if (1..=4).contains(&(a % 22)) && b % 8 != 0 { 8 } else { a };
                let mut arguments = event(kind, a / 2, b);
                arguments["executionId"] = id.as_str().into();
                call(self.store, "events.append", arguments);
            }
            14 => {
                let events: Vec<Value> =
                    (0..b % 7).map(|n| event(a.wrapping_add(5 + 3 * n as u8), a, b.wrapping_add(n))).collect();
                call(self.store, "events.appendMany", json!({ "executionId": id, "events": events }));
            }
            15 if b.is_multiple_of(3) => {
                let events: Vec<Value> = (0..90 + b % 60)
                    .map(|n| event([8, 18, 19, 21, 5][usize::from(n.wrapping_add(b) % 5)], (n % 40) as u8, b.wrapping_add(n % 9)))
                    .collect();
                for chunk in events.chunks(1 + usize::from(a)) {
                    call(self.store, "events.appendMany", json!({ "executionId": id, "events": chunk }));
                }
            }
            15..=17 => {
                let to = STATUSES[usize::from(a) % if b.is_multiple_of(6) { 7 } else { 3 }];
                change("executions.setStatus", json!({ "status": to, "reason": "r" }), false);
            }
            18 if b.is_multiple_of(5) => drop(change("executions.cancel", json!({ "reason": "r" }), false)),
            18 | 19 => {
                let state =
                    if b.is_multiple_of(3) { value(b / 3) } else { json!({ format!("k{}", a % 4): value(b), "list": [] }) };
                change("executions.setState", json!({ "state": state }), true);
            }
            20..=23 => drop(change("executions.patchState", json!({ "patch": patch(a, b) }), true)),
            24..=26 => {
                let key = if a.is_multiple_of(2) { "list".to_owned() } else { format!("k{}", a % 4) };
                let state = self.runs[at].now.state.clone();
                let takes = state.as_object().is_some_and(|state| state.get(&key).is_none_or(Value::is_array));
                let done = change("executions.appendToState", json!({ "key": key, "value": value(b) }), true);
                assert_eq!(done.is_some(), takes && !has_ended, "{key} of {state}");
            }
            27 | 28 => {
                let sequence = i64::from(b) % (self.runs[at].now.last + 1);
                let fork = change("executions.fork", json!({ "at": sequence }), false).expect("a fork");
                let mut base = self.runs[at].base.clone();
                self.runs[at].events[..sequence as usize].iter().for_each(|event| base.fold(event));
                let base = base.as_base();
                let id = fork["id"].as_str().unwrap().to_owned();
                self.runs.push(Run { id, now: base.clone(), base, events: Vec::new() });
            }
            29 if b.is_multiple_of(3) => {
                let mut arguments = json!({});
                if a.is_multiple_of(2) {
                    arguments["state"] = value(b / 3);
                }
                if let Some(next) = change("executions.continueAsNew", arguments.clone(), false) {
                    let state = arguments.get("state").unwrap_or(&self.runs[at].now.state).clone();
                    let base = Naive { state, ..Naive::new() };
                    let id = next["id"].as_str().unwrap().to_owned();
                    assert_eq!(next["created"].as_bool(), Some(self.runs.iter().all(|run| run.id != id)));
                    if next["created"] == true {
                        assert!(!has_ended);
                        self.runs.push(Run { id, now: base.clone(), base, events: Vec::new() });
                    }
                }
            }
            29 | 30 => {
                let open = self.runs[at].now.pending.clone();
                if let Some((approval, ..)) = open.get(usize::from(a) % (open.len() + 1)) {
                    let mut arguments = json!({ "executionId": id, "approvalId": approval, "decision": "approved" });
                    if b.is_multiple_of(2) {
                        arguments["statePatch"] = patch(a, b / 2);
                    }
                    let outcome = try_call(self.store, "approvals.resolve", arguments.clone());
                    assert_eq!(outcome.is_ok(), !has_ended);
                    let again = try_call(self.store, "approvals.resolve", arguments);
                    assert_eq!(again.unwrap_err().code().as_str(), if has_ended { "invalid_transition" } else { "conflict" });
                }
            }
            _ => self.clock.advance(i64::from(b) - 30_000),
        }
        self.done += 1;
        self.check_all();
    }

    /// Reads what each log has grown by, and compares the record with the fold of it.
    fn check_all(&mut self) {
        for run in &mut self.runs {
            loop {
                let page =
                    call(self.store, "events.list", json!({ "executionId": run.id, "after": run.events.len(), "limit": 1000 }));
                for event in page["items"].as_array().unwrap() {
                    assert_eq!(event["sequence"], run.events.len() + 1);
                    run.now.fold(event);
                    run.events.push(event.clone());
                }
                if page["nextCursor"].is_null() {
                    break;
                }
            }
            let record = call(self.store, "executions.get", json!({ "id": run.id }));
            let mut shown = json!({});
            for name in ["status", "state", "output", "error", "startedAt", "completedAt", "lastSequence"] {
                if let Some(value) = record.get(name) {
                    shown[name] = value.clone();
                }
            }
            assert_eq!(shown, run.now.shown(), "the record of {} after {} events", run.id, run.events.len());
        }
    }

    fn finish(&self) -> (usize, usize) {
        let (mut cuts, mut snapshots) = (0, 0);
        for run in &self.runs {
            let kept = call(self.store, "snapshots.list", json!({ "executionId": run.id, "limit": 1000 }));
            let kept = kept["items"].as_array().unwrap();
            snapshots += kept.len();
            let sequences: Vec<i64> = kept.iter().map(|snapshot| snapshot["sequence"].as_i64().unwrap()).collect();
            // Every cut of a short log; of a long one every cut near a snapshot, and some others.
            let is_cut = |at: i64| run.events.len() <= 60 || at % 13 == 0 || sequences.iter().any(|near| (at - near).abs() <= 2);
            let mut fold = run.base.clone();
            for at in 0..=run.events.len() as i64 {
                if at > 0 {
                    fold.fold(&run.events[at as usize - 1]);
                }
                if is_cut(at) || at == run.events.len() as i64 {
                    cuts += 1;
                    let answer = call(self.store, "executions.materialize", json!({ "id": run.id, "at": at }));
                    assert_eq!(answer, fold.materialized(), "{} as of {at} of {}", run.id, run.events.len());
                }
            }
            assert_eq!(call(self.store, "executions.materialize", json!({ "id": run.id })), run.now.materialized());
            // The table of approvals is in step with the log.
            let open = call(self.store, "approvals.list", json!({ "executionId": run.id, "status": "pending", "limit": 1000 }));
            let listed = |key: &str| -> BTreeMap<String, Value> {
                open["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|a| (a["approvalId"].as_str().unwrap().to_owned(), a[key].clone()))
                    .collect()
            };
            let told: BTreeMap<_, _> = run.now.pending.iter().map(|open| (open.0.clone(), json!(open.1))).collect();
            assert_eq!(listed("nodeId"), told);
            let told: BTreeMap<_, _> = run.now.pending.iter().map(|open| (open.0.clone(), json!(open.2))).collect();
            assert_eq!(listed("toolName"), told);
            // Snapshots weigh no more than the log, and are there when the events have come to outweigh the next one.
            let weight = |events: &[Value]| -> usize { events.iter().map(|event| event["data"].to_string().len()).sum() };
            let bytes: i64 = kept.iter().map(|snapshot| snapshot["bytes"].as_i64().unwrap()).sum();
            assert!(bytes as usize <= 2 * weight(&run.events), "{bytes} bytes of snapshots");
            let after = sequences.last().copied().unwrap_or(0) as usize;
            let next = run.now.shown().to_string().len()
                + 60 * run.now.done.len()
                + if run.base.done.is_empty() { 0 } else { json!(run.base.done).to_string().len() }
                + run.now.pending.iter().map(|open| 200 + open.0.len() + if open.3 == 0 { 6000 } else { 0 }).sum::<usize>()
                + 1000;
            let base = json!([run.base.materialized(), run.base.shown()]).to_string().len();
            let tail = &run.events[after..];
            let is_due = tail.len() > 100 && weight(tail) > next.max(base) * 5 / 4;
            assert!(!is_due, "{} events weigh {} and no snapshot of {next}", tail.len(), weight(tail));
        }
        (cuts, snapshots)
    }
}

#[test]
fn the_record_is_the_fold_of_the_log() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("RUNKEEP_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
    let cases = number("RUNKEEP_CASES").unwrap_or(2000) as u32;
    println!("RUNKEEP_SEED={seed} RUNKEEP_CASES={cases}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let clock = clock();
    // One store for all cases: each has executions of its own.
    let store = Store::in_memory_with(options(&clock)).unwrap();
    let totals = std::cell::RefCell::new([0usize; 5]);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let operations = prop::collection::vec(any::<Op>(), 1..24);
    runner
        .run(&operations, |operations| {
            let mut world = World { store: &store, clock: &clock, runs: Vec::new(), done: 0 };
            world.create();
            operations.iter().for_each(|&operation| world.run(operation));
            let (cuts, snapshots) = world.finish();
            let mut totals = totals.borrow_mut();
            let events: usize = world.runs.iter().map(|run| run.events.len()).sum();
            for (total, more) in totals.iter_mut().zip([world.done, world.runs.len(), events, cuts, snapshots]) {
                *total += more;
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("RUNKEEP_SEED={seed}: {error}"));
    let [operations, executions, events, cuts, snapshots] = *totals.borrow();
    println!(
        "{cases} cases: {operations} operations, {executions} executions, {events} events, {cuts} cuts, {snapshots} snapshots"
    );
    assert!(cases < 1000 || snapshots > 0, "no case was long enough for a snapshot");
}
