//! Deliveries: how items are handed out, and how they come back.

use std::cmp::Reverse;

use super::*;

/// How a delivery ends without completion.
pub struct Ending {
    pub outcome: &'static str,
    pub error: Option<Value>,
    pub retryable: bool,
    pub delay_ms: Option<i64>,
    pub events: Vec<Event>,
}

/// Where a settling call stands.
pub enum Turn {
    Held(usize),
    Repeated(Value),
    Refused(Code),
}

/// How many expired leases and due items of a queue a claim deals with.
pub const UPKEEP_LIMIT: usize = 100;

pub const DAY_MS: i64 = 24 * 60 * 60 * 1000;

impl Model {
    pub fn claim(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
        let queues: BTreeSet<usize> =
            names(&arguments["queues"]).iter().filter_map(|name| self.find_queue(&json!(name))).collect();
        for &queue in &queues {
            if !self.is_overdue(store) {
                for index in self.expired(Some(queue)).into_iter().take(UPKEEP_LIMIT) {
                    self.saw("a claim ends an expired lease");
                    self.expire(index, "lease_expired");
                }
            }
            for index in self.due(Some(queue)).into_iter().take(UPKEEP_LIMIT) {
                self.items[index].status = Status::Pending;
            }
        }
        for &queue in &queues {
            if !self.queues[queue].paused && self.queues[queue].held_until.is_none_or(|until| until <= self.now) {
                self.queues[queue].bucket.look(self.now);
            }
        }
        if self.is_overdue(store) && queues.iter().any(|&queue| !self.expired(Some(queue)).is_empty()) {
            self.saw("a claim leaves leases alone while the driver is overdue");
        }
        let claimant = (namespace(arguments), text(&arguments["workerId"]).unwrap_or_default());
        let waking = self.waking(store);
        let capabilities = self
            .workers
            .get(&claimant)
            .filter(|worker| worker.expires_at > waking)
            .map(|worker| worker.capabilities.clone())
            .unwrap_or_default();
        let mut line: Vec<usize> = self
            .open
            .iter()
            .copied()
            .filter(|&index| self.items[index].status == Status::Pending && queues.contains(&self.items[index].queue))
            .collect();
        line.sort_by_key(|&index| (Reverse(self.items[index].priority), self.items[index].run_at, index));
        let limit = arguments["limit"].as_u64().unwrap_or(1) as usize;
        let lease_ms = arguments["leaseMs"].as_i64().unwrap_or(30_000);
        let found = answered(answer)?.as_array().cloned().unwrap_or_default();
        let mut handed_out = found.iter();
        let mut next = handed_out.next();
        let mut taken = 0;
        for index in line {
            if taken == limit {
                break;
            }
            let item = &self.items[index];
            let is_next = next.is_some_and(|found| found["id"] == json!(item.id));
            if !item.requires.is_subset(&capabilities) {
                ensure!(!is_next, "the item {:?} went to a worker without {:?}", item.id, item.requires);
                self.saw("a claim passes over an item that requires more");
                continue;
            }
            let (may, why_not) = self.verdict(index);
            let (id, queue) = (&item.id, &self.queues[item.queue].name);
            if !is_next {
                ensure!(
                    may != May::Must,
                    "the item {id:?} of the queue {queue:?} was passed over; {:?} came instead. The item is\n    {}\n  of\n    {:?}",
                    next.map(|found| &found["id"]),
                    self.item_json(index),
                    self.queues[item.queue]
                );
                self.saw(match why_not {
                    "its queue is paused" => "a pause keeps an item back",
                    "its queue is held" => "a hold of a queue keeps an item back",
                    "its queue runs as many as it may" => "a queue's concurrency keeps an item back",
                    "its key runs as many as it may" => "a key's concurrency keeps an item back",
                    "its key is held" => "a hold of a key keeps an item back",
                    "the bucket of its queue is empty" => "a queue's rate keeps an item back",
                    _ => "a key's rate keeps an item back",
                });
                continue;
            }
            ensure!(may != May::Not, "the item {id:?} of the queue {queue:?} was handed out, and {why_not}");
            taken += 1;
            self.hand_out(index, &claimant, lease_ms)?;
            self.compare_item(index, next.unwrap_or(&Value::Null))?;
            next = handed_out.next();
        }
        ensure!(
            next.is_none(),
            "the item {} was handed out, against the order, or is none that could be claimed",
            next.map(|found| found["id"].clone()).unwrap_or_default()
        );
        if taken > 1 {
            self.saw("a claim hands out several items");
        }
        Ok(())
    }

    pub fn hand_out(&mut self, index: usize, (namespace, worker): &WorkerKey, lease_ms: i64) -> Verdict {
        let now = self.now;
        self.saw("an item is claimed");
        let item = &mut self.items[index];
        item.status = Status::Claimed;
        item.attempt += 1;
        item.fence += 1;
        item.claimed_at = Some(now);
        item.worker = Some(worker.clone());
        item.namespace = Some(namespace.clone());
        item.lease_ms = lease_ms;
        item.lease_expires_at = Some(now + lease_ms);
        item.settlement = None;
        ensure!(
            item.attempt <= item.max_attempts,
            "the item {:?} is delivered for the {}th of {} times",
            item.id,
            item.attempt,
            item.max_attempts
        );
        ensure!(
            self.granted.insert((item.id.clone(), item.fence)),
            "the fence {} of an item {:?} was given before",
            item.fence,
            item.id
        );
        self.grants.push((item.id.clone(), item.fence));
        let key = item.concurrency_key.clone();
        let queue = &mut self.queues[item.queue];
        if let Some(rate) = &queue.rate {
            queue.bucket.spend(rate, now);
        }
        if let (Some(rate), Some(key)) = (&queue.key_rate, key) {
            queue.keys.entry(key).or_default().bucket.spend(rate, now);
        }
        Ok(())
    }

    pub fn turn(&mut self, call: &'static str, arguments: &Value) -> Turn {
        let Some(index) = self.find(&arguments["id"]) else { return Turn::Refused("not_found") };
        let item = &self.items[index];
        if arguments["fence"] != json!(item.fence) {
            self.saw("a zombie is told that its lease is lost");
            return Turn::Refused("lease_lost");
        }
        if item.status == Status::Claimed {
            if self.is_late(index) {
                self.saw("a lease that ran out unnoticed is still used");
            }
            return Turn::Held(index);
        }
        match item.settlement.clone() {
            None => {
                self.saw("a zombie is told that its lease is lost");
                Turn::Refused("lease_lost")
            }
            Some(settlement) if settlement.call == call && settlement.arguments == *arguments => {
                self.saw("a repeated settlement is answered again");
                Turn::Repeated(settlement.answer)
            }
            Some(_) => {
                self.saw("a second settlement is a conflict");
                Turn::Refused("conflict")
            }
        }
    }

    pub fn is_late(&self, index: usize) -> bool {
        self.items[index].lease_expires_at.is_some_and(|at| at <= self.now)
    }

    pub fn settle(&mut self, index: usize, call: &'static str, arguments: &Value, answer: &Value) {
        self.items[index].settlement = Some(Settlement { call, arguments: arguments.clone(), answer: answer.clone() });
    }

    pub fn renew(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let index = match self.turn("renew", arguments) {
            Turn::Refused(code) => return refused(answer, code),
            Turn::Repeated(_) => return Err("a renewal settled an item".to_owned()),
            Turn::Held(index) => index,
        };
        let late = self.is_late(index);
        let now = self.now;
        let item = &mut self.items[index];
        item.lease_ms = arguments["leaseMs"].as_i64().unwrap_or(item.lease_ms);
        item.lease_expires_at = Some(now + item.lease_ms);
        if let Some(progress) = arguments.get("progress") {
            item.progress = Some(progress.clone());
        }
        let expected = json!({
            "leaseExpiresAt": item.lease_expires_at, "cancelRequested": item.cancel_requested, "late": late,
        });
        expect_equal("the answer", answered(answer)?, &expected)
    }

    pub fn complete(&mut self, op: &Op, answer: &Answer) -> Verdict {
        let arguments = &op.arguments;
        let index = match self.turn("complete", arguments) {
            Turn::Refused(code) => return refused(answer, code),
            Turn::Repeated(first) => return expect_equal("the repeated answer", answered(answer)?, &first),
            Turn::Held(index) => index,
        };
        let late = self.is_late(index);
        let patch = arguments.get("statePatch");
        let mut events = Event::of_list(&arguments["events"]);
        let execution = self.items[index].execution;
        if execution.is_none() && (patch.is_some() || !events.is_empty()) {
            return refused(answer, "invalid_argument");
        }
        // Of an execution that had ended before, nothing follows. Where this call ends it, only what would be its own is dropped.
        let had_ended = execution.is_some_and(|execution| self.executions[execution].is_terminal());
        let mut dropped = had_ended && patch.is_some();
        if let Some(execution) = execution {
            if let Some(patch) = patch.filter(|_| !had_ended) {
                events.insert(0, Event::own("execution_state_patched", json!({ "patch": patch })));
            }
            if self.contradicts(execution, &events) {
                return refused(answer, "conflict");
            }
            self.record(execution, &events);
        }
        let is_dropped = |model: &Self, next: &Value| {
            had_ended
                || execution.is_some_and(|execution| {
                    let execution = &model.executions[execution];
                    execution.is_terminal() && next["executionId"] == json!(execution.id)
                })
        };
        let mut kept = Vec::new();
        let mut bad = None;
        for (at, next) in arguments["enqueue"].as_array().into_iter().flatten().enumerate() {
            if is_dropped(self, next) {
                dropped = true;
                continue;
            }
            if matches!(op.bad, Some(Bad::Item(given)) if given == at) {
                bad = Some(Bad::Item(kept.len()));
            }
            kept.push(next.clone());
        }
        let enqueued = match self.enqueue_all(&Value::Array(kept), bad) {
            Err(code) => return refused(answer, code),
            Ok(enqueued) => enqueued,
        };
        let found = answered(answer)?;
        for (&(next, _), found) in enqueued.iter().zip(found["enqueued"].as_array().into_iter().flatten()) {
            self.name_item(next, &found["id"])?;
        }
        let enqueued: Vec<Value> =
            enqueued.into_iter().map(|(next, created)| json!({ "id": self.items[next].id, "created": created })).collect();
        let expected = object([
            ("status", Some(json!("completed"))),
            ("late", Some(json!(late))),
            ("lastSequence", execution.map(|execution| json!(self.executions[execution].last_sequence))),
            ("enqueued", Some(json!(enqueued))),
            ("dropped", Some(json!(dropped))),
        ]);
        expect_equal("the answer", found, &expected)?;
        self.items[index].output = arguments.get("output").cloned();
        self.items[index].lease_expires_at = None;
        self.set_status(index, Status::Completed);
        self.settle(index, "complete", arguments, found);
        self.saw("an item is completed");
        if dropped {
            self.saw("what a completion adds to an ended execution is dropped");
        }
        Ok(())
    }

    /// `fail` and `release`.
    pub fn give_up(&mut self, call: &'static str, arguments: &Value, answer: &Answer) -> Verdict {
        let index = match self.turn(call, arguments) {
            Turn::Refused(code) => return refused(answer, code),
            Turn::Repeated(first) => return expect_equal("the repeated answer", answered(answer)?, &first),
            Turn::Held(index) => index,
        };
        let late = self.is_late(index);
        let events = Event::of_list(&arguments["events"]);
        match self.items[index].execution {
            None if !events.is_empty() => return refused(answer, "invalid_argument"),
            Some(execution) if self.contradicts(execution, &events) => return refused(answer, "conflict"),
            _ => {}
        }
        let released = call == "release";
        let ending = Ending {
            outcome: if released { "released" } else { "failed" },
            error: arguments.get(if released { "reason" } else { "error" }).cloned(),
            retryable: arguments["retryable"].as_bool().unwrap_or(true),
            delay_ms: arguments["delayMs"].as_i64(),
            events,
        };
        let (status, again) = self.end_delivery(index, ending);
        let found = answered(answer)?;
        let outcome = match status {
            Status::DeadLettered => "dead_lettered",
            Status::Cancelled => "cancelled",
            _ if released => "released",
            _ => "retry_scheduled",
        };
        ensure!(found["outcome"] == json!(outcome), "the outcome is {}, and should be {outcome}", found["outcome"]);
        ensure!(found["late"] == json!(late), "late is {}, and should be {late}", found["late"]);
        let run_at = found.get("runAt").and_then(Value::as_i64);
        let fits = match (run_at, again) {
            (None, None) => true,
            (Some(run_at), Some((least, most))) => (least..=most).contains(&run_at),
            _ => false,
        };
        ensure!(fits, "runAt is {run_at:?}, and should be {again:?}");
        if self.items[index].run_at_least.is_some() {
            self.learn_run_at(index, &found["runAt"])?;
        }
        self.settle(index, call, arguments, found);
        Ok(())
    }

    pub fn cancel(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let Some(index) = self.find(&arguments["id"]) else { return refused(answer, "not_found") };
        match self.items[index].status {
            Status::Claimed => {
                self.saw("a claimed item is asked to stop");
                self.items[index].cancel_requested = true;
            }
            status if status.is_finished() => return refused(answer, "conflict"),
            _ => {
                self.saw("a waiting item is cancelled");
                self.set_status(index, Status::Cancelled);
                self.log(index, "node_cancelled", json!({}));
            }
        }
        self.compare_item(index, answered(answer)?)
    }

    pub fn delay_after(&self, item: &Item) -> (i64, i64) {
        let backoff = item.backoff.clone().or_else(|| self.queues[item.queue].backoff.clone()).unwrap_or_else(|| json!({}));
        let base = backoff["baseMs"].as_i64().unwrap_or(1000);
        let grown = match backoff["kind"].as_str() {
            Some("fixed") => base as f64,
            Some("linear") => base as f64 * item.attempt as f64,
            _ => base as f64 * backoff["factor"].as_f64().unwrap_or(2.0).powi(item.attempt as i32),
        };
        let most = match backoff["maxMs"].as_i64() {
            Some(most) => most,
            None => base.max(64_000).min(DAY_MS.max(base)),
        };
        let delay = (grown as i64).min(most);
        let chance = (delay as f64 * backoff["jitter"].as_f64().unwrap_or(0.0)).ceil() as i64;
        (delay - chance, delay)
    }

    /// Ends a delivery by the attempt rule. Answers the new status, and when the item can be claimed again: at the earliest, and at the
    /// latest.
    pub fn end_delivery(&mut self, index: usize, ending: Ending) -> (Status, Option<(i64, i64)>) {
        if let Some(execution) = self.items[index].execution {
            self.record(execution, &ending.events);
        }
        let item = &self.items[index];
        let released = ending.outcome == "released";
        let tries_again = released || (ending.retryable && item.attempt < item.max_attempts);
        let gone = item.execution.is_some_and(|execution| self.executions[execution].is_terminal());
        let attempt = item.attempt;
        let (status, delay) = if item.cancel_requested || (gone && tries_again) {
            (Status::Cancelled, (0, 0))
        } else if tries_again {
            let delay = match ending.delay_ms {
                Some(ms) => (ms, ms),
                None if released => (0, 0),
                None => self.delay_after(item),
            };
            (if delay.1 > 0 { Status::Scheduled } else { Status::Pending }, delay)
        } else {
            (Status::DeadLettered, (0, 0))
        };
        let again = (!status.is_finished()).then_some((self.now + delay.0, self.now + delay.1));
        match status {
            Status::Cancelled => self.log(index, "node_cancelled", json!({})),
            Status::DeadLettered => self.log(index, "node_failed", json!({})),
            _ if released => {}
            _ => self.log(index, "retry_scheduled", json!({})),
        }
        self.saw(match (ending.outcome, status) {
            (_, Status::Cancelled) => "a delivery ends in cancellation",
            ("lease_expired", Status::DeadLettered) => "an expired lease ends in the dead letters",
            ("lease_expired", _) => "an expired lease is tried again",
            (_, Status::DeadLettered) => "a failure ends in the dead letters",
            ("released", _) => "an item is released",
            _ => "a failure is tried again",
        });
        let now = self.now;
        let item = &mut self.items[index];
        let outcome = if status == Status::Cancelled { "cancelled" } else { ending.outcome };
        item.attempts.push(Attempt {
            record: object([
                ("attempt", Some(json!(attempt))),
                ("fence", Some(json!(item.fence))),
                ("workerId", Some(json!(item.worker))),
                ("namespace", Some(json!(item.namespace))),
                ("claimedAt", Some(json!(item.claimed_at))),
                ("endedAt", Some(json!(now))),
                ("outcome", Some(json!(outcome))),
                ("error", ending.error.clone()),
            ]),
            may_be_gone: false,
        });
        item.lease_expires_at = None;
        item.settlement = None;
        if released {
            item.attempt -= 1;
        } else if ending.error.is_some() {
            item.last_error = ending.error;
        }
        if delay.1 > 0 {
            item.run_at = now + delay.1;
            if delay.0 < delay.1 {
                item.run_at_least = Some(now + delay.0);
                self.unsure.push(index);
            }
        }
        self.set_status(index, status);
        (status, again)
    }

    pub fn expire(&mut self, index: usize, code: &str) -> Status {
        let ending = Ending {
            outcome: "lease_expired",
            error: Some(json!({ "code": code })),
            retryable: true,
            delay_ms: None,
            events: Vec::new(),
        };
        self.end_delivery(index, ending).0
    }

    /// Claimed items whose lease has run out, in the order of queues, then of leases, then of enqueueing.
    pub fn expired(&self, queue: Option<usize>) -> Vec<usize> {
        let mut expired: Vec<usize> = self
            .open
            .iter()
            .copied()
            .filter(|&index| {
                let item = &self.items[index];
                queue.is_none_or(|queue| item.queue == queue) && item.lease_expires_at.is_some_and(|at| at <= self.now)
            })
            .collect();
        expired.sort_by_key(|&index| (self.items[index].queue, self.items[index].lease_expires_at, index));
        expired
    }

    pub fn due(&self, queue: Option<usize>) -> Vec<usize> {
        let mut due: Vec<usize> = self
            .open
            .iter()
            .copied()
            .filter(|&index| {
                let item = &self.items[index];
                queue.is_none_or(|queue| item.queue == queue) && item.status == Status::Scheduled && item.run_at <= self.now
            })
            .collect();
        due.sort_by_key(|&index| (self.items[index].queue, self.items[index].run_at, index));
        due
    }

    pub fn redrive_one(&mut self, index: usize, payload: Option<&Value>) -> Result<(), Code> {
        let item = &self.items[index];
        if item.status != Status::DeadLettered {
            return Err("conflict");
        }
        if item.execution.is_some_and(|execution| self.executions[execution].is_terminal()) {
            return Err("invalid_transition");
        }
        let is_rival = |other: &Item| {
            other.queue == item.queue && other.idempotency_key.is_some() && other.idempotency_key == item.idempotency_key
        };
        if self.open.iter().any(|&other| is_rival(&self.items[other])) {
            self.saw("a redrive is refused for a living item of the same key");
            return Err("conflict");
        }
        let now = self.now;
        let item = &mut self.items[index];
        item.attempt = 0;
        item.run_at = now;
        item.cancel_requested = false;
        item.settlement = None;
        if let Some(payload) = payload {
            item.payload = payload.clone();
        }
        self.set_status(index, Status::Pending);
        self.saw("a dead letter is redriven");
        Ok(())
    }

    pub fn redrive(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let payload = arguments.get("payload");
        if let Some(id) = arguments.get("id") {
            let Some(index) = self.find(id) else { return refused(answer, "not_found") };
            return match self.redrive_one(index, payload) {
                Err(code) => refused(answer, code),
                Ok(()) => expect_equal("the answer", answered(answer)?, &json!({ "redriven": 1, "refused": [] })),
            };
        }
        let queue = self.find_queue(&arguments["queue"]);
        let letters: Vec<usize> = self
            .living()
            .filter(|(_, item)| item.status == Status::DeadLettered && Some(item.queue) == queue)
            .map(|(index, _)| index)
            .collect();
        let (mut redriven, mut refusals) = (0, Vec::new());
        for index in letters {
            match self.redrive_one(index, payload) {
                Ok(()) => redriven += 1,
                Err(code) => refusals.push((self.items[index].id.clone(), code)),
            }
        }
        let found = answered(answer)?;
        ensure!(found["redriven"] == json!(redriven), "{} were redriven, and should be {redriven}", found["redriven"]);
        let found: Vec<(String, String)> = found["refused"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|refused| (text(&refused["id"]).unwrap_or_default(), text(&refused["code"]).unwrap_or_default()))
            .collect();
        ensure!(
            found.iter().map(|(id, code)| (id, code.as_str())).eq(refusals.iter().map(|(id, code)| (id, *code))),
            "refused are {found:?}, and should be {refusals:?}"
        );
        Ok(())
    }

    pub fn delete_dead_letter(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let Some(index) = self.find(&arguments["id"]) else { return refused(answer, "not_found") };
        if self.items[index].status != Status::DeadLettered {
            return refused(answer, "conflict");
        }
        answered(answer)?;
        self.saw("a dead letter is deleted");
        self.remove_item(index);
        Ok(())
    }

    /// Expired leases as `leases.listExpired` shows them.
    pub fn expired_json(&self) -> Vec<Value> {
        let mut expired = self.expired(None);
        expired.sort_by_key(|&index| (self.items[index].lease_expires_at, index));
        expired
            .into_iter()
            .map(|index| {
                let item = &self.items[index];
                object([
                    ("id", Some(json!(item.id))),
                    ("executionId", item.execution.map(|execution| json!(self.executions[execution].id))),
                    ("queue", Some(json!(self.queues[item.queue].name))),
                    ("fence", Some(json!(item.fence))),
                    ("workerId", Some(json!(item.worker))),
                    ("namespace", Some(json!(item.namespace))),
                    ("attempt", Some(json!(item.attempt))),
                    ("leaseExpiresAt", Some(json!(item.lease_expires_at))),
                ])
            })
            .collect()
    }
}
