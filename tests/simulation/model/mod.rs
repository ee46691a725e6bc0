//! What the store should have done: a plain model of executions, items, queues and workers by which every answer is judged. It has no
//! indexes, no counters and no derived columns: what it needs to know it finds by looking at everything.

mod deliveries;
mod executions;
mod items;
mod limits;
mod sweeps;
mod workers;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

pub use executions::*;
pub use items::*;
pub use limits::*;
pub use workers::*;

/// `Err` says how an answer differs from what it should have been.
pub type Verdict<T = ()> = Result<T, String>;

/// What a call was answered: its result, or the code of its error.
pub type Answer = Result<Value, String>;

pub type Code = &'static str;

macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(format!($($message)+));
        }
    };
}
pub(crate) use ensure;

/// One call of the simulation.
#[derive(Debug, Clone)]
pub struct Op {
    pub name: &'static str,
    pub arguments: Value,
    pub bad: Option<Bad>,
}

/// What is wrong with a call's arguments.
#[derive(Debug, Clone, Copy)]
pub enum Bad {
    /// It must be refused with this code, whatever is stored.
    Call(Code),
    /// The item at this place of its list is `invalid_argument`.
    Item(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Scheduled,
    Pending,
    Claimed,
    Completed,
    DeadLettered,
    Cancelled,
}

impl Status {
    pub const ALL: [Self; 6] =
        [Self::Scheduled, Self::Pending, Self::Claimed, Self::Completed, Self::DeadLettered, Self::Cancelled];

    pub fn word(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Pending => "pending",
            Self::Claimed => "claimed",
            Self::Completed => "completed",
            Self::DeadLettered => "dead_lettered",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::DeadLettered | Self::Cancelled)
    }
}

pub fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(members.collect::<Map<_, _>>())
}

pub fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub fn names(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().filter_map(text).collect()
}

pub fn namespace(arguments: &Value) -> String {
    text(&arguments["namespace"]).unwrap_or_else(|| "default".to_owned())
}

/// The text of an error that the store words itself says nothing that can be judged; its code does.
pub fn without_wording(error: &Value) -> Value {
    match error["code"].as_str() {
        Some(code @ ("lease_expired" | "worker_dead")) => json!({ "code": code }),
        _ => error.clone(),
    }
}

pub fn expect_equal(what: &str, found: &Value, expected: &Value) -> Verdict {
    ensure!(found == expected, "{what} is\n    {found}\n  and should be\n    {expected}");
    Ok(())
}

pub fn refused(answer: &Answer, code: Code) -> Verdict {
    match answer {
        Err(found) if found == code => Ok(()),
        other => Err(format!("answered {other:?}, and should be refused as {code}")),
    }
}

pub fn answered(answer: &Answer) -> Verdict<&Value> {
    answer.as_ref().map_err(|code| format!("refused as {code}, and should have succeeded"))
}

pub const STORES: usize = 2;

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub now: i64,
    /// In the order in which they were made.
    pub queues: Vec<Queue>,
    /// Every item that ever was, in the order of enqueueing.
    pub items: Vec<Item>,
    pub by_id: BTreeMap<String, usize>,
    /// Items that are not finished.
    pub open: BTreeSet<usize>,
    pub executions: Vec<Execution>,
    pub workers: BTreeMap<WorkerKey, Worker>,
    pub registered: u64,
    /// The changes of each worker's registration, and which of them retention may have let go (all before the number).
    pub history: BTreeMap<WorkerKey, Vec<(&'static str, i64)>>,
    pub history_gone_before: i64,
    pub retention: BTreeMap<String, i64>,
    /// The execution, type and data of each event that was given an id.
    pub event_ids: BTreeMap<String, (usize, String, Value)>,
    /// The last tick of each store's driver: when, and its interval.
    pub ticks: [Option<(i64, i64)>; STORES],
    /// Every claim that was ever answered: which item, which fence. No two are the same, also not of items that share an id.
    granted: BTreeSet<(String, i64)>,
    /// The same, in the order of the claims.
    pub grants: Vec<(String, i64)>,
    /// Items whose `runAt` may still have to be learnt.
    pub unsure: Vec<usize>,
    /// The largest fence of an item that is gone: where fences of a new item with an old id begin.
    pub past_fence: i64,
    /// How often each thing worth reaching was reached.
    pub seen: BTreeMap<&'static str, u64>,
}

impl Model {
    pub fn new(now: i64) -> Self {
        Self { now, ..Self::default() }
    }

    pub fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub fn set_now(&mut self, now: i64) {
        for queue in &mut self.queues {
            if let Some(rate) = &queue.rate
                && now < self.now
            {
                queue.bucket.clock_went_back(rate, self.now, now);
            }
            for key in queue.keys.values_mut() {
                if let Some(rate) = &queue.key_rate
                    && now < self.now
                {
                    key.bucket.clock_went_back(rate, self.now, now);
                }
                if let Some(hold) = &mut key.hold {
                    hold.passed |= now >= hold.until;
                }
            }
        }
        self.now = now;
    }

    /// After a crash: what was in memory only is gone.
    pub fn forget_ticks(&mut self) {
        self.ticks = Default::default();
    }

    pub fn is_overdue(&self, store: usize) -> bool {
        self.ticks[store].is_some_and(|(at, interval)| self.now - at > (2 * 60 * 1000).max(interval * 3))
    }

    pub fn waking(&self, store: usize) -> i64 {
        match self.ticks[store] {
            Some((at, _)) if self.is_overdue(store) => at,
            _ => self.now,
        }
    }

    pub fn living(&self) -> impl Iterator<Item = (usize, &Item)> {
        self.items.iter().enumerate().filter(|(_, item)| !item.gone)
    }

    pub fn find(&self, id: &Value) -> Option<usize> {
        self.by_id.get(id.as_str()?).copied()
    }

    pub fn find_execution(&self, id: &Value) -> Option<usize> {
        let id = id.as_str()?;
        self.executions.iter().position(|execution| execution.id == id && !execution.gone)
    }

    pub fn find_queue(&self, name: &Value) -> Option<usize> {
        let name = name.as_str()?;
        self.queues.iter().position(|queue| queue.name == name)
    }

    pub fn ensure_queue(&mut self, name: &Value) -> usize {
        self.find_queue(name).unwrap_or_else(|| {
            self.queues.push(Queue { name: text(name).unwrap_or_default(), ..Queue::default() });
            self.queues.len() - 1
        })
    }

    /// How the items of a queue, or of an execution, are counted.
    pub fn stats(&self, queue: Option<usize>, execution: Option<usize>) -> Value {
        let chosen = |item: &Item| {
            !item.gone
                && queue.is_none_or(|queue| item.queue == queue)
                && execution.is_none_or(|execution| item.execution == Some(execution))
        };
        let mut counts: BTreeMap<&str, i64> = Status::ALL.iter().map(|status| (status.word(), 0)).collect();
        let mut oldest: Option<i64> = None;
        for item in self.items.iter().filter(|item| chosen(item)) {
            *counts.entry(item.status.word()).or_default() += 1;
            if item.status == Status::Pending {
                oldest = Some(oldest.map_or(item.run_at, |oldest| oldest.min(item.run_at)));
            }
        }
        object([("counts", Some(json!(counts))), ("oldestPendingAt", oldest.map(Value::from))])
    }

    /// Judges the answer to a call, and does in the model what the store did.
    pub fn judge(&mut self, store: usize, op: &Op, answer: &Answer) -> Verdict {
        if let Some(Bad::Call(code)) = op.bad {
            self.saw("a bad call is refused");
            return refused(answer, code);
        }
        let adds_items = match op.name {
            "queue.enqueueMany" => true,
            "queue.complete" | "executions.continueAsNew" => op.arguments.get("enqueue").is_some(),
            _ => false,
        };
        if answer.is_err() && adds_items {
            // Refused calls change nothing. Of these the model does a part before it sees that, so it is asked on a copy.
            let seen = std::mem::take(&mut self.seen);
            let mut copy = self.clone();
            let verdict = copy.judge_call(store, op, answer);
            self.seen = seen;
            for (what, count) in copy.seen {
                *self.seen.entry(what).or_default() += count;
            }
            if op.bad.is_some() {
                self.saw("a bad item undoes a call");
            }
            return verdict;
        }
        self.judge_call(store, op, answer)
    }

    pub fn judge_call(&mut self, store: usize, op: &Op, answer: &Answer) -> Verdict {
        let arguments = &op.arguments;
        match op.name {
            "executions.create" => self.create_execution(arguments, answer),
            "executions.setStatus" => self.set_execution_status(arguments, answer),
            "executions.cancel" => self.cancel_execution(arguments, answer),
            "executions.setState" => self.change_state("execution_state_set", arguments, answer),
            "executions.patchState" => self.change_state("execution_state_patched", arguments, answer),
            "executions.appendToState" => self.change_state("execution_state_appended", arguments, answer),
            "executions.continueAsNew" => self.continue_as_new(op, answer),
            "executions.delete" => self.delete_execution(arguments, answer),
            "events.append" => self.append(arguments, &[Event::given(arguments)], answer),
            "events.appendMany" => self.append(arguments, &Event::of_list(&arguments["events"]), answer),
            "queue.enqueue" => self.enqueue_one(arguments, answer),
            "queue.enqueueMany" => self.enqueue_many(op, answer),
            "queue.claim" => self.claim(store, arguments, answer),
            "queue.renew" => self.renew(arguments, answer),
            "queue.complete" => self.complete(op, answer),
            "queue.fail" => self.give_up("fail", arguments, answer),
            "queue.release" => self.give_up("release", arguments, answer),
            "queue.cancel" => self.cancel(arguments, answer),
            "queues.configure" => self.configure(arguments, answer),
            "queues.pause" => self.set_paused(arguments, true, answer),
            "queues.resume" => self.set_paused(arguments, false, answer),
            "queues.hold" => self.hold(arguments, answer),
            "deadLetters.redrive" => self.redrive(arguments, answer),
            "deadLetters.delete" => self.delete_dead_letter(arguments, answer),
            "workers.register" => self.register(store, arguments, answer),
            "workers.heartbeat" => self.heartbeat(store, arguments, answer),
            "workers.markDead" => self.mark_dead(store, arguments, answer),
            "retention.set" => self.set_retention(arguments, answer),
            "sweep" => self.sweep(store, arguments, answer),
            other => Err(format!("the model does not know {other}")),
        }
    }
}
