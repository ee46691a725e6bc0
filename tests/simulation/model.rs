//! What the store should have done: a plain model of executions, items, queues and workers by which every answer is judged. It has no
//! indexes, no counters and no derived columns: what it needs to know it finds by looking at everything.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

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

#[derive(Debug, Clone, Default)]
pub struct Settlement {
    call: &'static str,
    arguments: Value,
    answer: Value,
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
    arguments: Option<Value>,
    settlement: Option<Settlement>,
    pub attempts: Vec<Attempt>,
    /// Deleted, or pruned.
    pub gone: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    limit: i64,
    per_ms: i64,
}

impl Rate {
    fn of(value: &Value) -> Option<Self> {
        Some(Self { limit: value["limit"].as_i64()?, per_ms: value["perMs"].as_i64()? })
    }

    fn json(&self) -> Value {
        json!({ "limit": self.limit, "perMs": self.per_ms })
    }
}

/// What is in a bucket, in parts of which `perMs` make a token.
#[derive(Debug, Clone, Copy)]
struct Level {
    parts: i64,
    at: i64,
}

impl Level {
    fn now(self, rate: &Rate, now: i64) -> i64 {
        (self.parts + (now - self.at).max(0) * rate.limit).min(rate.limit * rate.per_ms)
    }
}

/// A token bucket. After the clock went back it is not said how fast a bucket fills, so there is a least and a most that it may hold;
/// while time goes forwards the two are the same. Full where there is none.
#[derive(Debug, Clone, Default)]
pub struct Bucket(Option<(Level, Level)>);

impl Bucket {
    fn least_and_most(&self, rate: &Rate, now: i64) -> (i64, i64) {
        let full = rate.limit * rate.per_ms;
        self.0.map_or((full, full), |(least, most)| (least.now(rate, now), most.now(rate, now)))
    }

    fn verdict(&self, rate: &Rate, now: i64) -> May {
        let (least, most) = self.least_and_most(rate, now);
        match () {
            () if most < rate.per_ms => May::Not,
            () if least >= rate.per_ms => May::Must,
            () => May::Either,
        }
    }

    fn spend(&mut self, rate: &Rate, now: i64) {
        let (least, most) = self.least_and_most(rate, now);
        let at = self.0.map_or(now, |(least, _)| least.at.max(now));
        let less = |parts: i64| (parts - rate.per_ms).max(0);
        self.0 = Some((Level { parts: less(least), at }, Level { parts: less(most), at: now }));
    }

    fn clock_went_back(&mut self, rate: &Rate, from: i64, to: i64) {
        if let Some((_, most)) = &mut self.0 {
            *most = Level { parts: most.now(rate, from), at: to };
        }
    }

    /// From here on the present counts, also where the clock went back.
    fn look(&mut self, now: i64) {
        if let Some((least, _)) = &mut self.0 {
            least.at = least.at.min(now);
        }
    }
}

/// Whether an item that stands in line may be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum May {
    Not,
    Either,
    Must,
}

#[derive(Debug, Clone, Default)]
pub struct Hold {
    until: i64,
    /// Whether its end has passed: a clock that goes back need not bring it back.
    passed: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Key {
    hold: Option<Hold>,
    bucket: Bucket,
}

impl Key {
    fn held(&self, now: i64) -> May {
        match &self.hold {
            Some(hold) if now < hold.until && hold.passed => May::Either,
            Some(hold) if now < hold.until => May::Not,
            _ => May::Must,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Queue {
    pub name: String,
    paused: bool,
    held_until: Option<i64>,
    concurrency: Option<i64>,
    key_concurrency: Option<i64>,
    rate: Option<Rate>,
    key_rate: Option<Rate>,
    max_attempts: Option<i64>,
    backoff: Option<Value>,
    bucket: Bucket,
    keys: BTreeMap<String, Key>,
}

impl Queue {
    fn json(&self) -> Value {
        object([
            ("name", Some(json!(self.name))),
            ("paused", Some(json!(self.paused))),
            ("heldUntil", self.held_until.map(Value::from)),
            ("concurrency", self.concurrency.map(Value::from)),
            ("keyConcurrency", self.key_concurrency.map(Value::from)),
            ("rateLimit", self.rate.as_ref().map(Rate::json)),
            ("keyRateLimit", self.key_rate.as_ref().map(Rate::json)),
            ("maxAttempts", self.max_attempts.map(Value::from)),
            ("backoff", self.backoff.clone()),
        ])
    }

    /// How many more items of a key may run, where no clock has a say in it.
    pub fn timeless_room_of_key(&self, key: &str, claimed: i64) -> Option<i64> {
        let is_timeless = self.key_rate.is_none() && self.keys.get(key).is_none_or(|key| key.hold.is_none());
        is_timeless.then(|| self.key_concurrency.map_or(i64::MAX, |limit| (limit - claimed).max(0)))
    }
}

#[derive(Debug, Clone)]
pub struct Worker {
    pub pool: String,
    pub queues: BTreeSet<String>,
    pub capabilities: BTreeSet<String>,
    ttl_ms: i64,
    registered_at: i64,
    last_heartbeat_at: i64,
    pub expires_at: i64,
    graced: bool,
    load: Option<f64>,
    /// The order of registration.
    number: u64,
}

pub type WorkerKey = (String, String);

/// An event about to be appended.
#[derive(Debug, Clone)]
pub struct Event {
    id: Option<String>,
    kind: String,
    data: Value,
}

impl Event {
    fn own(kind: &str, data: Value) -> Self {
        Self { id: None, kind: kind.to_owned(), data }
    }

    fn given(input: &Value) -> Self {
        Self { id: text(&input["id"]), kind: text(&input["type"]).unwrap_or_default(), data: input["data"].clone() }
    }

    fn of_list(list: &Value) -> Vec<Self> {
        list.as_array().map(|events| events.iter().map(Self::given).collect()).unwrap_or_default()
    }
}

#[derive(Debug, Clone)]
pub struct Execution {
    pub id: String,
    arguments: Value,
    pub status: String,
    pub state: Value,
    pub output: Option<Value>,
    pub last_sequence: i64,
    /// How many events of each type and node are in the log.
    pub counts: BTreeMap<(String, String), i64>,
    /// Approval id, where it is known, and node. The oldest first.
    pending_approvals: Vec<(Option<String>, String)>,
    pub created_at: i64,
    started_at: Option<i64>,
    pub completed_at: Option<i64>,
    updated_at: i64,
    pub gone: bool,
}

pub fn is_terminal(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled" | "limit_exceeded")
}

impl Execution {
    pub fn is_terminal(&self) -> bool {
        is_terminal(&self.status)
    }

    fn enter(&mut self, status: &str, now: i64) {
        self.status = status.to_owned();
        if status == "running" && self.started_at.is_none() {
            self.started_at = Some(now);
        }
        if self.is_terminal() {
            self.completed_at = Some(now);
        }
    }

    /// Brings the execution up to one more event, as SPEC's fold says.
    fn fold(&mut self, event: &Event, now: i64) {
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
fn merge(target: &mut Value, patch: &Value) {
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

fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(members.collect::<Map<_, _>>())
}

pub fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn names(value: &Value) -> BTreeSet<String> {
    value.as_array().into_iter().flatten().filter_map(text).collect()
}

fn namespace(arguments: &Value) -> String {
    text(&arguments["namespace"]).unwrap_or_else(|| "default".to_owned())
}

/// The text of an error that the store words itself says nothing that can be judged; its code does.
fn without_wording(error: &Value) -> Value {
    match error["code"].as_str() {
        Some(code @ ("lease_expired" | "worker_dead")) => json!({ "code": code }),
        _ => error.clone(),
    }
}

fn expect_equal(what: &str, found: &Value, expected: &Value) -> Verdict {
    ensure!(found == expected, "{what} is\n    {found}\n  and should be\n    {expected}");
    Ok(())
}

fn refused(answer: &Answer, code: Code) -> Verdict {
    match answer {
        Err(found) if found == code => Ok(()),
        other => Err(format!("answered {other:?}, and should be refused as {code}")),
    }
}

fn answered(answer: &Answer) -> Verdict<&Value> {
    answer.as_ref().map_err(|code| format!("refused as {code}, and should have succeeded"))
}

/// How a delivery ends without completion.
struct Ending {
    outcome: &'static str,
    error: Option<Value>,
    retryable: bool,
    delay_ms: Option<i64>,
    events: Vec<Event>,
}

/// Where a settling call stands.
enum Turn {
    Held(usize),
    Repeated(Value),
    Refused(Code),
}

/// How many expired leases and due items of a queue a claim deals with.
const UPKEEP_LIMIT: usize = 100;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

pub const STORES: usize = 2;

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub now: i64,
    /// In the order in which they were made.
    pub queues: Vec<Queue>,
    /// Every item that ever was, in the order of enqueueing.
    pub items: Vec<Item>,
    by_id: BTreeMap<String, usize>,
    /// Items that are not finished.
    pub open: BTreeSet<usize>,
    pub executions: Vec<Execution>,
    pub workers: BTreeMap<WorkerKey, Worker>,
    registered: u64,
    /// The changes of each worker's registration, and which of them retention may have let go (all before the number).
    pub history: BTreeMap<WorkerKey, Vec<(&'static str, i64)>>,
    pub history_gone_before: i64,
    pub retention: BTreeMap<String, i64>,
    /// The execution, type and data of each event that was given an id.
    event_ids: BTreeMap<String, (usize, String, Value)>,
    /// The last tick of each store's driver: when, and its interval.
    ticks: [Option<(i64, i64)>; STORES],
    /// Every claim that was ever answered: which item, which fence. No two are the same, also not of items that share an id.
    granted: BTreeSet<(String, i64)>,
    /// The largest fence of an item that is gone: where fences of a new item with an old id begin.
    past_fence: i64,
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

    fn is_overdue(&self, store: usize) -> bool {
        self.ticks[store].is_some_and(|(at, interval)| self.now - at > (2 * 60 * 1000).max(interval * 3))
    }

    fn waking(&self, store: usize) -> i64 {
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

    fn find_queue(&self, name: &Value) -> Option<usize> {
        let name = name.as_str()?;
        self.queues.iter().position(|queue| queue.name == name)
    }

    fn ensure_queue(&mut self, name: &Value) -> usize {
        self.find_queue(name).unwrap_or_else(|| {
            self.queues.push(Queue { name: text(name).unwrap_or_default(), ..Queue::default() });
            self.queues.len() - 1
        })
    }

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
    fn learn_run_at(&mut self, index: usize, found: &Value) -> Verdict {
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

    /// Items whose `runAt` is still to be learnt.
    pub fn unsure(&self) -> Vec<usize> {
        self.open.iter().copied().filter(|&index| self.items[index].run_at_least.is_some()).collect()
    }

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

    fn set_status(&mut self, index: usize, status: Status) {
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

    fn remove_item(&mut self, index: usize) {
        self.items[index].gone = true;
        self.past_fence = self.past_fence.max(self.items[index].fence);
        let id = self.items[index].id.clone();
        self.by_id.remove(&id);
        self.open.remove(&index);
    }

    // ---- Events and executions

    /// Whether an event of these has an id that another event has already.
    fn contradicts(&self, execution: usize, events: &[Event]) -> bool {
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
    fn record(&mut self, index: usize, events: &[Event]) {
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

    fn node_event(&self, kind: &str, item: usize, mut data: Value) -> Event {
        data["nodeId"] = json!(self.items[item].node);
        Event::own(kind, data)
    }

    /// Appends an event about an item to its execution's log, where it has one.
    fn log(&mut self, item: usize, kind: &str, data: Value) {
        if let Some(execution) = self.items[item].execution {
            let event = self.node_event(kind, item, data);
            self.record(execution, &[event]);
        }
    }

    fn create_execution(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
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
        self.executions.push(Execution {
            id: text(&found["id"]).unwrap_or_default(),
            arguments: arguments.clone(),
            status: "pending".to_owned(),
            state: json!({}),
            output: None,
            last_sequence: 0,
            counts: BTreeMap::new(),
            pending_approvals: Vec::new(),
            created_at: self.now,
            started_at: None,
            completed_at: None,
            updated_at: self.now,
            gone: false,
        });
        self.compare_execution(self.executions.len() - 1, found)
    }

    fn set_execution_status(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
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

    fn append(&mut self, arguments: &Value, events: &[Event], answer: &Answer) -> Verdict {
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

    // ---- Enqueueing

    /// Enqueues one item, under an empty id where the store makes it. Answers where it is, and whether it is new.
    fn enqueue(&mut self, arguments: &Value) -> Result<(usize, bool), Code> {
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
    fn name_item(&mut self, index: usize, id: &Value) -> Verdict {
        if self.items[index].id.is_empty() {
            let id = text(id).ok_or("an item without an id")?;
            ensure!(!self.by_id.contains_key(&id), "the id {id:?} was made twice");
            self.by_id.insert(id.clone(), index);
            self.items[index].id = id;
        }
        Ok(())
    }

    fn compare_created(&mut self, index: usize, created: bool, found: &Value) -> Verdict {
        let mut found = found.clone();
        let said = found.as_object_mut().and_then(|found| found.remove("created"));
        ensure!(said == Some(json!(created)), "created is {said:?}, and should be {created}");
        self.name_item(index, &found["id"])?;
        if !created {
            self.saw("a repeated enqueue finds its item");
        }
        self.compare_item(index, &found)
    }

    fn enqueue_one(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        match self.enqueue(arguments) {
            Err(code) => refused(answer, code),
            Ok((index, created)) => self.compare_created(index, created, answered(answer)?),
        }
    }

    /// Enqueues a list of items, or stops at the first that is refused.
    fn enqueue_all(&mut self, items: &Value, bad: Option<Bad>) -> Result<Vec<(usize, bool)>, Code> {
        let mut enqueued = Vec::new();
        for (at, item) in items.as_array().into_iter().flatten().enumerate() {
            match bad {
                Some(Bad::Item(bad)) if bad == at => return Err("invalid_argument"),
                _ => enqueued.push(self.enqueue(item)?),
            }
        }
        Ok(enqueued)
    }

    fn enqueue_many(&mut self, op: &Op, answer: &Answer) -> Verdict {
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

    // ---- Deliveries

    fn delay_after(&self, item: &Item) -> (i64, i64) {
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
    fn end_delivery(&mut self, index: usize, ending: Ending) -> (Status, Option<(i64, i64)>) {
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
            item.run_at_least = (delay.0 < delay.1).then_some(now + delay.0);
        }
        self.set_status(index, status);
        (status, again)
    }

    fn expire(&mut self, index: usize, code: &str) -> Status {
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
    fn expired(&self, queue: Option<usize>) -> Vec<usize> {
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

    fn due(&self, queue: Option<usize>) -> Vec<usize> {
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

    pub fn claimed_of(&self, queue: usize, key: Option<&String>) -> i64 {
        let counts = |item: &Item| {
            item.queue == queue
                && item.status == Status::Claimed
                && key.is_none_or(|key| item.concurrency_key.as_ref() == Some(key))
        };
        self.open.iter().filter(|&&index| counts(&self.items[index])).count() as i64
    }

    /// Whether the limits let an item go now.
    fn verdict(&self, index: usize) -> (May, &'static str) {
        let item = &self.items[index];
        let queue = &self.queues[item.queue];
        if queue.paused {
            return (May::Not, "its queue is paused");
        }
        if queue.held_until.is_some_and(|until| until > self.now) {
            return (May::Not, "its queue is held");
        }
        if queue.concurrency.is_some_and(|limit| self.claimed_of(item.queue, None) >= limit) {
            return (May::Not, "its queue runs as many as it may");
        }
        let mut may = May::Must;
        if let Some(rate) = &queue.rate {
            may = may.min(queue.bucket.verdict(rate, self.now));
        }
        if may == May::Not {
            return (May::Not, "the bucket of its queue is empty");
        }
        let Some(key) = &item.concurrency_key else { return (may, "") };
        if queue.key_concurrency.is_some_and(|limit| self.claimed_of(item.queue, Some(key)) >= limit) {
            return (May::Not, "its key runs as many as it may");
        }
        let Some(state) = queue.keys.get(key) else { return (may, "") };
        may = may.min(state.held(self.now));
        if may == May::Not {
            return (May::Not, "its key is held");
        }
        if let Some(rate) = &queue.key_rate {
            may = may.min(state.bucket.verdict(rate, self.now));
        }
        (may, "the bucket of its key is empty")
    }

    fn claim(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
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

    fn hand_out(&mut self, index: usize, (namespace, worker): &WorkerKey, lease_ms: i64) -> Verdict {
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

    /// The last fences that were given, each with its item, and whether it is still held.
    pub fn grants(&self) -> &BTreeSet<(String, i64)> {
        &self.granted
    }

    fn turn(&mut self, call: &'static str, arguments: &Value) -> Turn {
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

    fn is_late(&self, index: usize) -> bool {
        self.items[index].lease_expires_at.is_some_and(|at| at <= self.now)
    }

    fn settle(&mut self, index: usize, call: &'static str, arguments: &Value, answer: &Value) {
        self.items[index].settlement = Some(Settlement { call, arguments: arguments.clone(), answer: answer.clone() });
    }

    fn renew(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
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

    fn complete(&mut self, op: &Op, answer: &Answer) -> Verdict {
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
    fn give_up(&mut self, call: &'static str, arguments: &Value, answer: &Answer) -> Verdict {
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

    fn cancel(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
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

    // ---- Queues and dead letters

    fn configure(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let index = self.ensure_queue(&arguments["name"]);
        let queue = &mut self.queues[index];
        let number = |field: &str, before: Option<i64>| arguments.get(field).map_or(before, Value::as_i64);
        queue.concurrency = number("concurrency", queue.concurrency);
        queue.key_concurrency = number("keyConcurrency", queue.key_concurrency);
        queue.max_attempts = number("maxAttempts", queue.max_attempts);
        if let Some(backoff) = arguments.get("backoff") {
            queue.backoff = Some(backoff.clone()).filter(|backoff| !backoff.is_null());
        }
        if let Some(rate) = arguments.get("rateLimit").map(Rate::of) {
            if rate != queue.rate {
                queue.bucket = Bucket::default();
            }
            queue.rate = rate;
        }
        if let Some(rate) = arguments.get("keyRateLimit").map(Rate::of) {
            if rate != queue.key_rate {
                queue.keys.values_mut().for_each(|key| key.bucket = Bucket::default());
            }
            queue.key_rate = rate;
        }
        self.compare_queue(index, answer)
    }

    fn compare_queue(&self, index: usize, answer: &Answer) -> Verdict {
        expect_equal("the queue", answered(answer)?, &self.queues[index].json())
    }

    fn set_paused(&mut self, arguments: &Value, paused: bool, answer: &Answer) -> Verdict {
        let index = self.ensure_queue(&arguments["name"]);
        self.queues[index].paused = paused;
        self.compare_queue(index, answer)
    }

    fn hold(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let until = arguments["until"].as_i64();
        if until.is_some_and(|until| until <= self.now) {
            return refused(answer, "invalid_argument");
        }
        let index = self.ensure_queue(&arguments["name"]);
        match text(&arguments["key"]) {
            None => self.queues[index].held_until = until,
            Some(key) => {
                self.queues[index].keys.entry(key).or_default().hold = until.map(|until| Hold { until, passed: false });
            }
        }
        self.compare_queue(index, answer)
    }

    fn redrive_one(&mut self, index: usize, payload: Option<&Value>) -> Result<(), Code> {
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

    fn redrive(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
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

    fn delete_dead_letter(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let Some(index) = self.find(&arguments["id"]) else { return refused(answer, "not_found") };
        if self.items[index].status != Status::DeadLettered {
            return refused(answer, "conflict");
        }
        answered(answer)?;
        self.saw("a dead letter is deleted");
        self.remove_item(index);
        Ok(())
    }

    // ---- Workers

    fn live(&self, store: usize, worker: &WorkerKey) -> Option<&Worker> {
        self.workers.get(worker).filter(|known| known.expires_at > self.waking(store))
    }

    fn remember(&mut self, worker: &WorkerKey, change: &'static str) {
        let now = self.now;
        self.history.entry(worker.clone()).or_default().push((change, now));
    }

    fn register(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
        let key = (namespace(arguments), text(&arguments["workerId"]).unwrap_or_default());
        let pool = text(&arguments["pool"]).unwrap_or_default();
        let now = self.now;
        let ttl_ms = arguments["livenessTtlMs"].as_i64().unwrap_or_default();
        let (queues, capabilities) = (names(&arguments["queues"]), names(&arguments["capabilities"]));
        let outcome = match self.live(store, &key).cloned() {
            Some(live) if live.pool != pool => {
                self.saw("a worker id is reassigned");
                return refused(answer, "conflict");
            }
            Some(live) => {
                let refreshed = Worker {
                    queues,
                    capabilities,
                    ttl_ms,
                    last_heartbeat_at: now,
                    expires_at: now + ttl_ms,
                    graced: false,
                    ..live
                };
                self.workers.insert(key.clone(), refreshed);
                "refreshed"
            }
            None => {
                if self.workers.remove(&key).is_some() {
                    self.remember(&key, "ttl_swept");
                }
                self.registered += 1;
                let registered = Worker {
                    pool,
                    queues,
                    capabilities,
                    ttl_ms,
                    registered_at: now,
                    last_heartbeat_at: now,
                    expires_at: now + ttl_ms,
                    graced: false,
                    load: None,
                    number: self.registered,
                };
                self.workers.insert(key.clone(), registered);
                "registered"
            }
        };
        self.remember(&key, outcome);
        expect_equal("the answer", answered(answer)?, &json!({ "outcome": outcome, "nextExpiryAt": now + ttl_ms }))
    }

    fn heartbeat(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
        let key = (namespace(arguments), text(&arguments["workerId"]).unwrap_or_default());
        let Some(live) = self.live(store, &key).cloned() else {
            return expect_equal("the answer", answered(answer)?, &json!({ "outcome": "not_registered" }));
        };
        let expires_at = self.now + live.ttl_ms;
        let load = arguments["load"].as_f64().or(live.load);
        let refreshed = Worker { last_heartbeat_at: self.now, expires_at, graced: false, load, ..live };
        self.workers.insert(key, refreshed);
        expect_equal("the answer", answered(answer)?, &json!({ "outcome": "refreshed", "nextExpiryAt": expires_at }))
    }

    fn mark_dead(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
        let key = (namespace(arguments), text(&arguments["workerId"]).unwrap_or_default());
        if self.live(store, &key).is_none() {
            return expect_equal("the answer", answered(answer)?, &json!({ "outcome": "not_registered", "leasesEnded": 0 }));
        }
        self.workers.remove(&key);
        self.remember(&key, "marked_dead");
        let mut ended = 0;
        if arguments["releaseLeases"].as_bool().unwrap_or(true) {
            let is_held = |item: &Item| {
                item.status == Status::Claimed && item.worker.as_ref() == Some(&key.1) && item.namespace.as_ref() == Some(&key.0)
            };
            let held: Vec<usize> = self.open.iter().copied().filter(|&index| is_held(&self.items[index])).collect();
            for index in held {
                self.saw("the lease of a dead worker ends");
                self.expire(index, "worker_dead");
                ended += 1;
            }
        }
        expect_equal("the answer", answered(answer)?, &json!({ "outcome": "marked", "leasesEnded": ended }))
    }

    /// The live workers in the order of registration.
    pub fn workers_json(&self, store: usize) -> Vec<Value> {
        let mut live: Vec<(&WorkerKey, &Worker)> =
            self.workers.iter().filter(|(_, worker)| worker.expires_at > self.waking(store)).collect();
        live.sort_by_key(|(_, worker)| worker.number);
        live.into_iter()
            .map(|((namespace, id), worker)| {
                object([
                    ("workerId", Some(json!(id))),
                    ("namespace", Some(json!(namespace))),
                    ("pool", Some(json!(worker.pool))),
                    ("queues", Some(json!(worker.queues))),
                    ("capabilities", Some(json!(worker.capabilities))),
                    ("livenessTtlMs", Some(json!(worker.ttl_ms))),
                    ("registeredAt", Some(json!(worker.registered_at))),
                    ("lastHeartbeatAt", Some(json!(worker.last_heartbeat_at))),
                    ("expiresAt", Some(json!(worker.expires_at))),
                    ("load", worker.load.map(Value::from)),
                ])
            })
            .collect()
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

    // ---- Sweeps

    /// Everything but retention, of which [`pruned`](Self::pruned) judges.
    fn sweep(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
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
    fn grace(&mut self, since: i64) {
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

    fn set_retention(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        for (field, ms) in arguments.as_object().into_iter().flatten() {
            match ms.as_i64() {
                Some(ms) => self.retention.insert(field.clone(), ms),
                None => self.retention.remove(field),
            };
        }
        expect_equal("the answer", answered(answer)?, &json!(self.retention))
    }

    /// Judges what a sweep let go: which items and executions are there after it.
    pub fn pruned(&mut self, report: i64, items: &BTreeSet<String>, executions: &BTreeSet<String>) -> Verdict {
        let cutoff = |kind: &str| self.retention.get(kind).map(|ms| self.now - ms);
        let is_over = |kind: &str, at: Option<i64>| cutoff(kind).zip(at).is_some_and(|(cutoff, at)| at <= cutoff);
        let gone_executions: Vec<usize> = (0..self.executions.len())
            .filter(|&index| !self.executions[index].gone && !executions.contains(&self.executions[index].id))
            .collect();
        let gone_items: Vec<usize> =
            self.living().filter(|(_, item)| !items.contains(&item.id)).map(|(index, _)| index).collect();
        let mut counted = gone_executions.len() as i64;
        for &index in &gone_executions {
            let execution = &self.executions[index];
            ensure!(is_over("executionsMs", execution.completed_at), "the execution {:?} is gone before its time", execution.id);
            let left = self.living().find(|(_, item)| item.execution == Some(index) && items.contains(&item.id));
            ensure!(left.is_none(), "the execution {:?} is gone, and its item {left:?} is not", execution.id);
        }
        for &index in &gone_items {
            let item = &self.items[index];
            let with_execution = item.execution.is_some_and(|execution| gone_executions.contains(&execution));
            let over = match item.status {
                Status::Completed | Status::Cancelled => is_over("itemsMs", item.finished_at),
                Status::DeadLettered => is_over("deadLettersMs", item.finished_at),
                _ => false,
            };
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
            self.executions[index].gone = true;
            self.event_ids.retain(|_, (execution, _, _)| *execution != index);
        }
        Ok(())
    }

    // ---- All calls

    /// Judges the answer to a call, and does in the model what the store did.
    pub fn judge(&mut self, store: usize, op: &Op, answer: &Answer) -> Verdict {
        if let Some(Bad::Call(code)) = op.bad {
            self.saw("a bad call is refused");
            return refused(answer, code);
        }
        let adds_items = op.name == "queue.enqueueMany" || (op.name == "queue.complete" && op.arguments.get("enqueue").is_some());
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

    fn judge_call(&mut self, store: usize, op: &Op, answer: &Answer) -> Verdict {
        let arguments = &op.arguments;
        match op.name {
            "executions.create" => self.create_execution(arguments, answer),
            "executions.setStatus" => self.set_execution_status(arguments, answer),
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
