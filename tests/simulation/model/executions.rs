//! Executions and their logs.

use std::rc::Rc;

use super::*;

/// An event about to be appended.
#[derive(Debug, Clone)]
pub struct Event {
    pub id: Option<String>,
    pub kind: String,
    pub data: Value,
}

impl Event {
    pub fn own(kind: &str, data: Value) -> Self {
        Self { id: None, kind: kind.to_owned(), data }
    }

    pub fn given(input: &Value) -> Self {
        Self { id: text(&input["id"]), kind: text(&input["type"]).unwrap_or_default(), data: input["data"].clone() }
    }

    pub fn of_list(list: &Value) -> Vec<Self> {
        list.as_array().map(|events| events.iter().map(Self::given).collect()).unwrap_or_default()
    }
}

#[derive(Debug, Clone)]
pub struct Execution {
    pub id: String,
    pub arguments: Value,
    pub status: String,
    pub state: Value,
    pub output: Option<Value>,
    pub last_sequence: i64,
    /// How many events of each type and node are in the log.
    pub counts: BTreeMap<(String, String), i64>,
    /// Approval id, where it is known, and node. The oldest first.
    pub pending_approvals: Vec<(Option<String>, String)>,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub completed_at: Option<i64>,
    pub updated_at: i64,
    /// Status and state after each event, from before the first on.
    pub past: Vec<(String, Rc<Value>)>,
    /// The next segment.
    next: Option<usize>,
    pub gone: bool,
}

pub fn is_terminal(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled" | "limit_exceeded")
}

impl Execution {
    pub fn is_terminal(&self) -> bool {
        is_terminal(&self.status)
    }

    pub fn enter(&mut self, status: &str, now: i64) {
        self.status = status.to_owned();
        if status == "running" && self.started_at.is_none() {
            self.started_at = Some(now);
        }
        if self.is_terminal() {
            self.completed_at = Some(now);
        }
    }

    /// Brings the execution up to one more event, as SPEC's fold says.
    pub fn fold(&mut self, event: &Event, now: i64) {
        let data = &event.data;
        let node = text(&data["nodeId"]).unwrap_or_default();
        // What is open for approval is told by the log, of an execution that has ended too.
        match event.kind.as_str() {
            "interrupt_raised" | "tool_approval_required" => {
                let id = text(&data["approvalId"]).or_else(|| event.id.clone());
                if id.is_none() || !self.pending_approvals.iter().any(|(known, _)| *known == id) {
                    self.pending_approvals.push((id, node.clone()));
                }
            }
            "approval_received" => {
                let settled = self.pending_approvals.iter().position(|(id, of)| match text(&data["approvalId"]) {
                    Some(wanted) => id.as_ref() == Some(&wanted),
                    None => *of == node,
                });
                if let Some(settled) = settled {
                    self.pending_approvals.remove(settled);
                }
            }
            _ => {}
        }
        if self.is_terminal() {
            return;
        }
        match event.kind.as_str() {
            "workflow_started" => self.enter("running", now),
            "workflow_completed" => {
                if let Some(state) = data.get("finalState") {
                    self.state = state.clone();
                }
                self.output = data.get("output").cloned();
                self.enter("completed", now);
            }
            "workflow_failed" => self.enter("failed", now),
            "workflow_cancelled" => self.enter("cancelled", now),
            "strategy_limit_hit" => self.enter("limit_exceeded", now),
            "execution_status_set" => {
                let to = text(&data["to"]).unwrap_or_default();
                self.enter(&to, now);
            }
            "interrupt_raised" => self.enter("paused", now),
            "node_completed" => merge(&mut self.state, &data["statePatch"]),
            "execution_state_patched" => merge(&mut self.state, &data["patch"]),
            "execution_state_set" => self.state = data["state"].clone(),
            "execution_state_appended" => {
                let key = text(&data["key"]).unwrap_or_default();
                if self.state[&key].is_null() {
                    self.state[&key] = json!([]);
                }
                self.state[&key].as_array_mut().into_iter().for_each(|values| values.push(data["value"].clone()));
            }
            "segment_boundary" => self.enter("completed", now),
            "approval_received" => {
                merge(&mut self.state, &data["statePatch"]);
                if self.status == "paused" && self.pending_approvals.is_empty() {
                    self.enter("running", now);
                }
            }
            _ => {}
        }
    }
}

/// RFC 7396, for a patch that is an object; anything else is no patch.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.as_object_mut().map(|target| target.remove(key));
            }
            Value::Object(_) => merge(&mut target[key], value),
            other => target[key] = other.clone(),
        }
    }
}

impl Model {
    pub fn execution_json(&self, index: usize) -> Value {
        let execution = &self.executions[index];
        object([
            ("id", Some(json!(execution.id))),
            ("status", Some(json!(execution.status))),
            ("state", Some(execution.state.clone())),
            ("output", execution.output.clone()),
            ("lastSequence", Some(json!(execution.last_sequence))),
            ("createdAt", Some(json!(execution.created_at))),
            ("startedAt", execution.started_at.map(Value::from)),
            ("updatedAt", Some(json!(execution.updated_at))),
            ("completedAt", execution.completed_at.map(Value::from)),
        ])
    }

    pub fn compare_execution(&self, index: usize, found: &Value) -> Verdict {
        let shown = self.execution_json(index);
        let members = ["id", "status", "state", "output", "lastSequence", "createdAt", "startedAt", "updatedAt", "completedAt"];
        let found = object(members.map(|name| (name, found.get(name).cloned())));
        expect_equal("the execution", &found, &shown)
    }

    /// Whether an event of these has an id that another event has already.
    pub fn contradicts(&self, execution: usize, events: &[Event]) -> bool {
        let mut known = BTreeMap::new();
        events.iter().any(|event| {
            let Some(id) = &event.id else { return false };
            let content = (execution, event.kind.clone(), event.data.clone());
            let before = self.event_ids.get(id).or_else(|| known.get(id)).cloned();
            known.insert(id.clone(), content.clone());
            before.is_some_and(|before| before != content)
        })
    }

    /// Appends events, which [`contradicts`](Self::contradicts) has found to be fine.
    pub fn record(&mut self, index: usize, events: &[Event]) {
        let mut events: std::collections::VecDeque<Event> = events.iter().cloned().collect();
        let now = self.now;
        while let Some(event) = events.pop_front() {
            if let Some(id) = &event.id {
                if self.event_ids.contains_key(id) {
                    self.saw("an event is known already");
                    continue;
                }
                self.event_ids.insert(id.clone(), (index, event.kind.clone(), event.data.clone()));
            }
            let execution = &mut self.executions[index];
            let ended = execution.is_terminal();
            execution.last_sequence += 1;
            execution.updated_at = now;
            let node = text(&event.data["nodeId"]).unwrap_or_default();
            *execution.counts.entry((event.kind.clone(), node)).or_default() += 1;
            execution.fold(&event, now);
            let before = execution.past.last().filter(|(_, state)| **state == execution.state);
            let state = before.map_or_else(|| Rc::new(execution.state.clone()), |(_, state)| state.clone());
            execution.past.push((execution.status.clone(), state));
            if !execution.is_terminal() || ended {
                continue;
            }
            let waiting: Vec<usize> = self
                .open
                .iter()
                .copied()
                .filter(|&item| self.items[item].execution == Some(index) && self.items[item].status != Status::Claimed)
                .collect();
            for item in waiting {
                self.saw("the end of an execution cancels an item");
                self.set_status(item, Status::Cancelled);
                events.push_back(self.node_event("node_cancelled", item, json!({})));
            }
        }
    }

    pub fn node_event(&self, kind: &str, item: usize, mut data: Value) -> Event {
        data["nodeId"] = json!(self.items[item].node);
        Event::own(kind, data)
    }

    /// Appends an event about an item to its execution's log, where it has one.
    pub fn log(&mut self, item: usize, kind: &str, data: Value) {
        if let Some(execution) = self.items[item].execution {
            let event = self.node_event(kind, item, data);
            self.record(execution, &[event]);
        }
    }

    pub fn create_execution(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        if let Some(known) = self.find_execution(&arguments["id"]) {
            if self.executions[known].arguments != *arguments {
                return refused(answer, "conflict");
            }
            let found = answered(answer)?;
            ensure!(found["created"] == json!(false), "an execution was created twice");
            return self.compare_execution(known, found);
        }
        let found = answered(answer)?;
        ensure!(found["created"] == json!(true), "a new execution was not created");
        let index = self.begin(found, arguments, json!({}));
        self.compare_execution(index, found)
    }

    fn begin(&mut self, found: &Value, arguments: &Value, state: Value) -> usize {
        self.executions.push(Execution {
            id: text(&found["id"]).unwrap_or_default(),
            arguments: arguments.clone(),
            status: "pending".to_owned(),
            past: vec![("pending".to_owned(), Rc::new(state.clone()))],
            state,
            output: None,
            last_sequence: 0,
            counts: BTreeMap::new(),
            pending_approvals: Vec::new(),
            created_at: self.now,
            started_at: None,
            completed_at: None,
            updated_at: self.now,
            next: None,
            gone: false,
        });
        self.executions.len() - 1
    }

    pub fn cancel_execution(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        self.set_execution_status(&json!({ "id": arguments["id"], "status": "cancelled" }), answer)
    }

    /// `setState`, `patchState` and `appendToState`.
    pub fn change_state(&mut self, kind: &str, arguments: &Value, answer: &Answer) -> Verdict {
        let Some(index) = self.find_execution(&arguments["id"]) else { return refused(answer, "not_found") };
        let execution = &self.executions[index];
        if execution.is_terminal() {
            return refused(answer, "invalid_transition");
        }
        if arguments["expectedSequence"].as_i64().is_some_and(|expected| expected != execution.last_sequence) {
            return refused(answer, "conflict");
        }
        if kind == "execution_state_appended" {
            let held = execution.state.as_object().map(|state| state.get(arguments["key"].as_str().unwrap_or_default()));
            if !held.is_some_and(|held| held.is_none_or(Value::is_array)) {
                return refused(answer, "conflict");
            }
        }
        self.record(index, &[Event::own(kind, arguments.clone())]);
        let execution = &self.executions[index];
        let expected = json!({ "lastSequence": execution.last_sequence, "status": execution.status });
        expect_equal("the answer", answered(answer)?, &expected)
    }

    pub fn continue_as_new(&mut self, op: &Op, answer: &Answer) -> Verdict {
        let arguments = &op.arguments;
        let Some(index) = self.find_execution(&arguments["id"]) else { return refused(answer, "not_found") };
        let execution = &self.executions[index];
        if let Some(next) = execution.next.filter(|&next| !self.executions[next].gone) {
            if self.executions[next].arguments != *arguments {
                return refused(answer, "conflict");
            }
            let found = answered(answer)?;
            ensure!(found["created"] == json!(false), "an execution was continued twice");
            self.saw("a repeated continuation finds the next segment");
            return self.compare_execution(next, found);
        }
        if execution.is_terminal() {
            return refused(answer, "invalid_transition");
        }
        let state = arguments.get("state").unwrap_or(&execution.state).clone();
        self.record(index, &[Event::own("segment_boundary", json!({}))]);
        let found = answer.as_ref().unwrap_or(&Value::Null);
        let next = self.begin(found, arguments, state);
        self.executions[index].next = Some(next);
        if let Some(item) = arguments.get("enqueue") {
            let mut item = item.clone();
            // Where the call is refused, its execution has no id, and is none.
            item["executionId"] = json!(self.executions[next].id);
            let enqueued = if op.bad.is_some() { Err("invalid_argument") } else { self.enqueue(&item) };
            if let Err(code) = enqueued {
                return refused(answer, code);
            }
        }
        self.saw("an execution is continued");
        let found = answered(answer)?;
        ensure!(found["created"] == json!(true), "the next segment was not created");
        self.compare_execution(next, found)
    }

    pub fn delete_execution(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let Some(index) = self.find_execution(&arguments["id"]) else { return refused(answer, "not_found") };
        answered(answer)?;
        let items: Vec<usize> = self.living().filter(|(_, item)| item.execution == Some(index)).map(|(item, _)| item).collect();
        for item in items {
            self.saw(match self.items[item].status {
                Status::Claimed => "a claimed item goes with its execution",
                _ => "an item goes with its execution",
            });
            self.remove_item(item);
        }
        self.remove_execution(index);
        Ok(())
    }

    pub fn remove_execution(&mut self, index: usize) {
        self.executions[index].gone = true;
        self.event_ids.retain(|_, (execution, _, _)| *execution != index);
    }

    pub fn set_execution_status(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let Some(index) = self.find_execution(&arguments["id"]) else { return refused(answer, "not_found") };
        let from = self.executions[index].status.clone();
        let to = text(&arguments["status"]).unwrap_or_default();
        if arguments.get("expectedStatus").is_some_and(|expected| *expected != json!(from)) {
            return refused(answer, "conflict");
        }
        let allowed: &[&str] = match from.as_str() {
            "pending" => &["running", "cancelled", "failed"],
            "running" => &["paused", "completed", "failed", "cancelled", "limit_exceeded"],
            "paused" => &["running", "cancelled", "failed", "limit_exceeded"],
            _ => &[],
        };
        if from != to {
            if !allowed.contains(&to.as_str()) {
                return refused(answer, "invalid_transition");
            }
            self.record(index, &[Event::own("execution_status_set", json!({ "from": from, "to": to }))]);
        }
        self.compare_execution(index, answered(answer)?)
    }

    pub fn append(&mut self, arguments: &Value, events: &[Event], answer: &Answer) -> Verdict {
        let Some(index) = self.find_execution(&arguments["executionId"]) else { return refused(answer, "not_found") };
        let before = self.executions[index].last_sequence;
        let all_known =
            !events.is_empty() && events.iter().all(|event| event.id.as_ref().is_some_and(|id| self.event_ids.contains_key(id)));
        if self.contradicts(index, events) {
            return refused(answer, "conflict");
        }
        if arguments["expectedSequence"].as_i64().is_some_and(|expected| expected != before) && !all_known {
            return refused(answer, "conflict");
        }
        let known: Vec<bool> = {
            let mut ids: BTreeSet<&String> = self.event_ids.keys().collect();
            events.iter().map(|event| event.id.as_ref().is_some_and(|id| !ids.insert(id))).collect()
        };
        let found = answered(answer)?;
        let one = [found.clone()];
        let found = found.as_array().map_or(&one[..], Vec::as_slice);
        ensure!(found.len() == events.len(), "{} events were answered for {}", found.len(), events.len());
        let mut sequence = before;
        for ((event, found), known) in events.iter().zip(found).zip(known) {
            ensure!(found["created"] == json!(!known), "created is {}", found["created"]);
            ensure!(found["type"] == json!(event.kind) && found["data"] == event.data, "another event was answered: {found}");
            if !known {
                sequence += 1;
                ensure!(found["sequence"] == json!(sequence), "the sequence is {}, and should be {sequence}", found["sequence"]);
            }
        }
        self.record(index, events);
        Ok(())
    }
}
