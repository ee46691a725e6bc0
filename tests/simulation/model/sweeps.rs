//! What time brings.

use super::*;

impl Model {
    /// Everything but retention, of which [`pruned`](Self::pruned) judges.
    pub fn sweep(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
        let found = answered(answer)?;
        let count = |field: &str| found[field].as_i64().unwrap_or_default();
        let limit = arguments["limit"].as_i64().unwrap_or(500);
        let mut suspended = 0;
        if let Some(interval) = arguments["intervalMs"].as_i64() {
            if let Some((at, _)) = self.ticks[store].filter(|_| self.is_overdue(store)) {
                suspended = self.now - at;
                self.grace(at);
                self.saw("a driver wakes from a suspension");
            }
            self.ticks[store] = Some((self.now, interval));
        }
        let mut left = limit;
        let (mut retried, mut dead_lettered, mut cancelled) = (0, 0, 0);
        for index in self.expired(None).into_iter().take(left as usize) {
            left -= 1;
            self.saw("a sweep ends an expired lease");
            match self.expire(index, "lease_expired") {
                Status::DeadLettered => dead_lettered += 1,
                Status::Cancelled => cancelled += 1,
                _ => retried += 1,
            }
        }
        let mut lapsed: Vec<(i64, u64, WorkerKey)> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.expires_at <= self.now)
            .map(|(key, worker)| (worker.expires_at, worker.number, key.clone()))
            .collect();
        lapsed.sort();
        lapsed.truncate(left.max(0) as usize);
        left -= lapsed.len() as i64;
        for (_, _, worker) in &lapsed {
            self.saw("a sweep removes a lapsed worker");
            self.workers.remove(worker);
            self.remember(worker, "ttl_swept");
        }
        let mut due = self.due(None);
        due.truncate(left.max(0) as usize);
        for &index in &due {
            self.items[index].status = Status::Pending;
        }
        for (field, expected) in [
            ("leasesRetried", retried),
            ("leasesDeadLettered", dead_lettered),
            ("leasesCancelled", cancelled),
            ("workersExpired", lapsed.len() as i64),
            ("itemsReadied", due.len() as i64),
            ("suspendedMs", suspended),
            ("durationMs", 0),
        ] {
            ensure!(count(field) == expected, "{field} is {}, and should be {expected}", count(field));
        }
        ensure!(found["errors"] == json!([]), "a part of the sweep failed: {}", found["errors"]);
        let remains = !self.expired(None).is_empty()
            || self.workers.values().any(|worker| worker.expires_at <= self.now)
            || !self.due(None).is_empty();
        let may_remain = !self.retention.is_empty() || self.queues.iter().any(|queue| !queue.keys.is_empty());
        match found["more"] == json!(true) {
            true => ensure!(remains || may_remain, "more is true, and nothing is left to do"),
            false => ensure!(!remains, "more is false, and something is left to do"),
        }
        if remains {
            self.saw("a limit ends a sweep");
        }
        Ok(())
    }

    /// One more period for what ran out while the device slept, once.
    pub fn grace(&mut self, since: i64) {
        let now = self.now;
        for &index in &self.open.clone() {
            let item = &mut self.items[index];
            if item.lease_expires_at.is_some_and(|at| since < at && at <= now) && item.graced_fence < item.fence {
                item.graced_fence = item.fence;
                item.lease_expires_at = Some(now + item.lease_ms);
                self.saw("a lease is lengthened after a suspension");
            }
        }
        for worker in self.workers.values_mut().filter(|worker| since < worker.expires_at && worker.expires_at <= now) {
            if !worker.graced {
                worker.graced = true;
                worker.expires_at = now + worker.ttl_ms;
            }
        }
    }

    pub fn set_retention(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        for (field, ms) in arguments.as_object().into_iter().flatten() {
            match ms.as_i64() {
                Some(ms) => self.retention.insert(field.clone(), ms),
                None => self.retention.remove(field),
            };
        }
        expect_equal("the answer", answered(answer)?, &json!(self.retention))
    }

    pub fn is_over(&self, kind: &str, at: Option<i64>) -> bool {
        self.retention.get(kind).zip(at).is_some_and(|(ms, at)| at <= self.now - ms)
    }

    pub fn is_item_over(&self, item: &Item) -> bool {
        match item.status {
            Status::Completed | Status::Cancelled => self.is_over("itemsMs", item.finished_at),
            Status::DeadLettered => self.is_over("deadLettersMs", item.finished_at),
            _ => false,
        }
    }

    /// An item or an execution that retention should have let go, where none of its items is unfinished.
    pub fn what_is_over(&self) -> Option<String> {
        let item = self.living().find(|(_, item)| self.is_item_over(item)).map(|(_, item)| &item.id);
        let is_over = |execution: &&Execution| !execution.gone && self.is_over("executionsMs", execution.completed_at);
        let execution = self.executions.iter().find(is_over).map(|execution| &execution.id);
        item.map(|id| format!("the item {id:?}")).or(execution.map(|id| format!("the execution {id:?}")))
    }

    /// Judges what a sweep let go: which items and executions are there after it.
    pub fn pruned(&mut self, report: i64, items: &BTreeSet<String>, executions: &BTreeSet<String>) -> Verdict {
        let cutoff = |kind: &str| self.retention.get(kind).map(|ms| self.now - ms);
        let gone_executions: Vec<usize> = (0..self.executions.len())
            .filter(|&index| !self.executions[index].gone && !executions.contains(&self.executions[index].id))
            .collect();
        let gone_items: Vec<usize> =
            self.living().filter(|(_, item)| !items.contains(&item.id)).map(|(index, _)| index).collect();
        let mut counted = gone_executions.len() as i64;
        for &index in &gone_executions {
            let execution = &self.executions[index];
            ensure!(
                self.is_over("executionsMs", execution.completed_at),
                "the execution {:?} is gone before its time",
                execution.id
            );
            let left = self.living().find(|(_, item)| item.execution == Some(index) && items.contains(&item.id));
            ensure!(left.is_none(), "the execution {:?} is gone, and its item {left:?} is not", execution.id);
        }
        for &index in &gone_items {
            let item = &self.items[index];
            let with_execution = item.execution.is_some_and(|execution| gone_executions.contains(&execution));
            let over = self.is_item_over(item);
            ensure!(
                over || (with_execution && item.status.is_finished()),
                "the item {:?} ({}) is gone before its time",
                item.id,
                item.status.word()
            );
            counted += i64::from(!with_execution);
        }
        ensure!(report >= counted, "{counted} were pruned, and {report} reported");
        let attempts = cutoff("attemptsMs");
        let history = cutoff("historyMs");
        for attempt in self.items.iter_mut().flat_map(|item| &mut item.attempts) {
            attempt.may_be_gone |= attempts.is_some_and(|cutoff| attempt.record["endedAt"].as_i64() <= Some(cutoff));
        }
        if let Some(cutoff) = history {
            self.history_gone_before = self.history_gone_before.max(cutoff);
        }
        for index in gone_items {
            self.saw("retention lets an item go");
            self.remove_item(index);
        }
        for index in gone_executions {
            self.saw("retention lets an execution go");
            self.remove_execution(index);
        }
        Ok(())
    }
}
