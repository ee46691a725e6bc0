//! Items as the store shows them, and how they come into a queue.

use super::*;

#[derive(Debug, Clone, Default)]
pub struct Settlement {
    pub call: &'static str,
    pub arguments: Value,
    pub answer: Value,
}

/// A delivery that did not complete, as `queue.attempts` shows it.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub record: Value,
    /// Whether retention may have let it go.
    pub may_be_gone: bool,
}

#[derive(Debug, Clone)]
pub struct Item {
    pub id: String,
    pub queue: usize,
    pub execution: Option<usize>,
    pub node: Option<String>,
    pub payload: Value,
    pub priority: i64,
    pub requires: BTreeSet<String>,
    pub status: Status,
    pub attempt: i64,
    pub max_attempts: i64,
    pub run_at: i64,
    /// The earliest that `run_at` may be, where the backoff leaves a part of it to chance and the answer has not told it yet.
    pub run_at_least: Option<i64>,
    pub backoff: Option<Value>,
    pub idempotency_key: Option<String>,
    pub concurrency_key: Option<String>,
    pub created_at: i64,
    pub claimed_at: Option<i64>,
    pub finished_at: Option<i64>,
    pub worker: Option<String>,
    pub namespace: Option<String>,
    pub lease_expires_at: Option<i64>,
    pub lease_ms: i64,
    pub graced_fence: i64,
    pub fence: i64,
    pub output: Option<Value>,
    pub last_error: Option<Value>,
    pub progress: Option<Value>,
    pub cancel_requested: bool,
    /// By what a repeated call is known; only of items that were given an id or an idempotency key.
    pub arguments: Option<Value>,
    pub settlement: Option<Settlement>,
    pub attempts: Vec<Attempt>,
    /// Deleted, or pruned.
    pub gone: bool,
}

impl Model {
    /// The item as the store should show it.
    pub fn item_json(&self, index: usize) -> Value {
        let item = &self.items[index];
        object([
            ("id", Some(json!(item.id))),
            ("tenantId", Some(json!("default"))),
            ("executionId", item.execution.map(|execution| json!(self.executions[execution].id))),
            ("nodeId", item.node.clone().map(Value::from)),
            ("queue", Some(json!(self.queues[item.queue].name))),
            ("payload", Some(item.payload.clone())),
            ("priority", Some(json!(item.priority))),
            ("requires", Some(json!(item.requires))),
            ("status", Some(json!(item.status.word()))),
            ("attempt", Some(json!(item.attempt))),
            ("maxAttempts", Some(json!(item.max_attempts))),
            ("runAt", Some(json!(item.run_at))),
            ("backoff", item.backoff.clone()),
            ("idempotencyKey", item.idempotency_key.clone().map(Value::from)),
            ("concurrencyKey", item.concurrency_key.clone().map(Value::from)),
            ("createdAt", Some(json!(item.created_at))),
            ("claimedAt", item.claimed_at.map(Value::from)),
            ("finishedAt", item.finished_at.map(Value::from)),
            ("workerId", item.worker.clone().map(Value::from)),
            ("leaseExpiresAt", item.lease_expires_at.map(Value::from)),
            ("fence", Some(json!(item.fence))),
            ("output", item.output.clone()),
            ("lastError", item.last_error.clone()),
            ("progress", item.progress.clone()),
            ("cancelRequested", Some(json!(item.cancel_requested))),
        ])
    }

    /// Compares an item as the store shows it with what it should be.
    pub fn compare_item(&mut self, index: usize, found: &Value) -> Verdict {
        let mut found = found.clone();
        if let Some(error) = found.get_mut("lastError") {
            *error = without_wording(error);
        }
        self.learn_run_at(index, &found["runAt"])?;
        expect_equal(&format!("the item {:?}", self.items[index].id), &found, &self.item_json(index))
    }

    /// Takes over a `runAt` that was left to chance, if it lies where it may.
    pub fn learn_run_at(&mut self, index: usize, found: &Value) -> Verdict {
        let item = &mut self.items[index];
        if let Some(least) = item.run_at_least.take() {
            let found = found.as_i64().unwrap_or_default();
            ensure!(
                (least..=item.run_at).contains(&found),
                "runAt of the item {:?} is {found}, and should be {least} to {}",
                item.id,
                item.run_at
            );
            item.run_at = found;
        }
        Ok(())
    }

    pub fn set_status(&mut self, index: usize, status: Status) {
        let item = &mut self.items[index];
        item.status = status;
        if status.is_finished() {
            item.finished_at = Some(self.now);
            self.open.remove(&index);
        } else {
            item.finished_at = None;
            self.open.insert(index);
        }
    }

    pub fn remove_item(&mut self, index: usize) {
        self.items[index].gone = true;
        self.past_fence = self.past_fence.max(self.items[index].fence);
        let id = self.items[index].id.clone();
        self.by_id.remove(&id);
        self.open.remove(&index);
    }

    /// Enqueues one item, under an empty id where the store makes it. Answers where it is, and whether it is new.
    pub fn enqueue(&mut self, arguments: &Value) -> Result<(usize, bool), Code> {
        let mut canonical = arguments.clone();
        if let Some(members) = canonical.as_object_mut() {
            members.remove("uniqueFor");
            if let Some(requires) = members.get_mut("requires") {
                *requires = json!(names(requires));
            }
        }
        let same = |item: &Item| item.arguments.as_ref() == Some(&canonical);
        if let Some(known) = self.find(&arguments["id"]) {
            return if same(&self.items[known]) { Ok((known, false)) } else { Err("conflict") };
        }
        let queue = self.find_queue(&arguments["queue"]);
        let idempotency_key = text(&arguments["idempotencyKey"]);
        if let (Some(queue), Some(_)) = (queue, &idempotency_key) {
            let of_key = || self.living().filter(|(_, item)| item.queue == queue && item.idempotency_key == idempotency_key);
            let unfinished = of_key().find(|(_, item)| !item.status.is_finished());
            let kept = of_key().max_by_key(|(index, item)| (item.finished_at, *index));
            if let Some((known, item)) = unfinished.or(kept.filter(|_| arguments["uniqueFor"] == json!("ever"))) {
                return if same(item) { Ok((known, false)) } else { Err("conflict") };
            }
        }
        let execution = match arguments.get("executionId") {
            None => None,
            Some(id) => {
                let execution = self.find_execution(id).ok_or("not_found")?;
                if self.executions[execution].is_terminal() {
                    return Err("invalid_transition");
                }
                Some(execution)
            }
        };
        let queue = self.ensure_queue(&arguments["queue"]);
        let delayed = arguments["delayMs"].as_i64().map(|ms| self.now + ms);
        let run_at = arguments["runAt"].as_i64().or(delayed).unwrap_or(self.now);
        let id = text(&arguments["id"]).unwrap_or_default();
        let max_attempts = arguments["maxAttempts"].as_i64().or(self.queues[queue].max_attempts).unwrap_or(3);
        let named = arguments.get("id").is_some() || idempotency_key.is_some();
        let index = self.items.len();
        self.items.push(Item {
            id: id.clone(),
            queue,
            execution,
            node: text(&arguments["nodeId"]),
            payload: arguments.get("payload").cloned().unwrap_or_default(),
            priority: arguments["priority"].as_i64().unwrap_or(0),
            requires: names(&arguments["requires"]),
            status: if run_at > self.now { Status::Scheduled } else { Status::Pending },
            attempt: 0,
            max_attempts,
            run_at,
            run_at_least: None,
            backoff: arguments.get("backoff").cloned(),
            idempotency_key,
            concurrency_key: text(&arguments["concurrencyKey"]),
            created_at: self.now,
            claimed_at: None,
            finished_at: None,
            worker: None,
            namespace: None,
            lease_expires_at: None,
            lease_ms: 0,
            graced_fence: 0,
            fence: if id.is_empty() { 0 } else { self.past_fence },
            output: None,
            last_error: None,
            progress: None,
            cancel_requested: false,
            arguments: named.then_some(canonical),
            settlement: None,
            attempts: Vec::new(),
            gone: false,
        });
        self.open.insert(index);
        if !id.is_empty() {
            self.by_id.insert(id, index);
        }
        Ok((index, true))
    }

    /// Takes over the id that the store made.
    pub fn name_item(&mut self, index: usize, id: &Value) -> Verdict {
        if self.items[index].id.is_empty() {
            let id = text(id).ok_or("an item without an id")?;
            ensure!(!self.by_id.contains_key(&id), "the id {id:?} was made twice");
            self.by_id.insert(id.clone(), index);
            self.items[index].id = id;
        }
        Ok(())
    }

    pub fn compare_created(&mut self, index: usize, created: bool, found: &Value) -> Verdict {
        let mut found = found.clone();
        let said = found.as_object_mut().and_then(|found| found.remove("created"));
        ensure!(said == Some(json!(created)), "created is {said:?}, and should be {created}");
        self.name_item(index, &found["id"])?;
        if !created {
            self.saw("a repeated enqueue finds its item");
        }
        self.compare_item(index, &found)
    }

    pub fn enqueue_one(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        match self.enqueue(arguments) {
            Err(code) => refused(answer, code),
            Ok((index, created)) => self.compare_created(index, created, answered(answer)?),
        }
    }

    /// Enqueues a list of items, or stops at the first that is refused.
    pub fn enqueue_all(&mut self, items: &Value, bad: Option<Bad>) -> Result<Vec<(usize, bool)>, Code> {
        let mut enqueued = Vec::new();
        for (at, item) in items.as_array().into_iter().flatten().enumerate() {
            match bad {
                Some(Bad::Item(bad)) if bad == at => return Err("invalid_argument"),
                _ => enqueued.push(self.enqueue(item)?),
            }
        }
        Ok(enqueued)
    }

    pub fn enqueue_many(&mut self, op: &Op, answer: &Answer) -> Verdict {
        match self.enqueue_all(&op.arguments["items"], op.bad) {
            Err(code) => refused(answer, code),
            Ok(enqueued) => {
                let found = answered(answer)?.as_array().cloned().unwrap_or_default();
                ensure!(found.len() == enqueued.len(), "{} items were answered for {}", found.len(), enqueued.len());
                enqueued.into_iter().zip(&found).try_for_each(|((index, created), found)| {
                    // Each was answered when it was enqueued. What came later in the same call changed none of them.
                    self.compare_created(index, created, found)
                })
            }
        }
    }
}
