//! Who calls the store, and with what.

use serde_json::{Value, json};

use crate::model::{Bad, Model, Op, Status, is_terminal};
use crate::random::Random;

/// Names with everything that a name may have.
pub const QUEUES: [&str; 5] = ["mail", "gpu,cpu", "with \"quotes\"", "rocket 🚀", "plain"];
pub const WORKERS: [&str; 5] = ["w1", "w2", "tab,3", "tab \"4\"", "boot 🥾"];
pub const NAMESPACES: [&str; 2] = ["default", "other"];
pub const CAPABILITIES: [&str; 4] = ["gpu", "cuda 12", "a,b", "say \"hi\" 👋"];
pub const KEYS: [&str; 4] = ["k1", "k,2", "thread \"3\"", "🔑"];
const POOLS: [&str; 2] = ["pool", "puddle"];
const NODES: [&str; 4] = ["plan", "act", "check, again", "done ✅"];
const EVENT_IDS: usize = 12;

/// What a step may be. The order is that of [`WEIGHTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    Producer,
    BulkProducer,
    Flood,
    Claimer,
    Completer,
    Failer,
    Releaser,
    Renewer,
    Zombie,
    Repeater,
    Registrar,
    Heart,
    Undertaker,
    Canceller,
    Starter,
    Ender,
    Continuer,
    Eraser,
    Scribe,
    Narrator,
    Configurer,
    Pauser,
    Holder,
    Redriver,
    Deleter,
    Librarian,
    Sweeper,
    Driver,
    Vandal,
    Observer,
    ClockJumper,
    ClockTurner,
    Sleeper,
    Crasher,
}

/// How often each acts; every seed changes these for itself. The last column tells whether a seed may do without; what acts least, most
/// seeds do without.
pub const WEIGHTS: [(Actor, u64, bool); 34] = [
    (Actor::Producer, 130, false),
    (Actor::BulkProducer, 25, true),
    (Actor::Flood, 1, true),
    (Actor::Claimer, 160, false),
    (Actor::Completer, 110, false),
    (Actor::Failer, 60, true),
    (Actor::Releaser, 25, true),
    (Actor::Renewer, 35, true),
    (Actor::Zombie, 40, true),
    (Actor::Repeater, 25, true),
    (Actor::Registrar, 30, true),
    (Actor::Heart, 20, true),
    (Actor::Undertaker, 6, true),
    (Actor::Canceller, 20, true),
    (Actor::Starter, 14, true),
    (Actor::Ender, 10, true),
    (Actor::Continuer, 8, true),
    (Actor::Eraser, 6, true),
    (Actor::Scribe, 12, true),
    (Actor::Narrator, 25, true),
    (Actor::Configurer, 16, true),
    (Actor::Pauser, 10, true),
    (Actor::Holder, 14, true),
    (Actor::Redriver, 14, true),
    (Actor::Deleter, 5, true),
    (Actor::Librarian, 3, true),
    (Actor::Sweeper, 25, true),
    (Actor::Driver, 40, true),
    (Actor::Vandal, 10, true),
    (Actor::Observer, 40, false),
    (Actor::ClockJumper, 25, true),
    (Actor::ClockTurner, 5, true),
    (Actor::Sleeper, 3, true),
    (Actor::Crasher, 2, true),
];

/// The calls of one seed. It looks at the model to find what is worth calling for.
pub struct Actors {
    pub random: Random,
    /// Numbers for new ids.
    items: usize,
    executions: usize,
    /// Calls that settled something, to be made again.
    settled: Vec<Op>,
    /// Enqueued with an id or an idempotency key, to be made again.
    enqueued: Vec<Value>,
    /// Appended with an id, to be made again.
    appended: Vec<Value>,
    /// Continuations, to be made again.
    continued: Vec<Op>,
    queues: Vec<&'static str>,
}

fn op(name: &'static str, arguments: Value) -> Op {
    Op { name, arguments, bad: None }
}

fn bad(name: &'static str, arguments: Value, code: &'static str) -> Op {
    Op { name, arguments, bad: Some(Bad::Call(code)) }
}

impl Actors {
    pub fn new(mut random: Random) -> Self {
        // Few queues make crowds, many make orders over several.
        let count = random.between(1, QUEUES.len() as i64) as usize;
        Self {
            random,
            items: 0,
            executions: 0,
            settled: Vec::new(),
            enqueued: Vec::new(),
            appended: Vec::new(),
            continued: Vec::new(),
            queues: QUEUES[..count].to_vec(),
        }
    }

    /// The next call of an actor, if there is something for it to do.
    pub fn act(&mut self, actor: Actor, model: &Model) -> Option<Op> {
        match actor {
            Actor::Producer => Some(op("queue.enqueue", self.item(model))),
            Actor::BulkProducer => Some(self.many(model)),
            Actor::Flood => Some(self.flood(model)),
            Actor::Claimer => Some(self.claim(model)),
            Actor::Completer => self.complete(model, false),
            Actor::Failer => self.fail(model, false),
            Actor::Releaser => self.release(model, false),
            Actor::Renewer => self.renew(model, false),
            Actor::Zombie => self.zombie(model),
            Actor::Repeater => self.repeat(),
            Actor::Registrar => Some(self.register()),
            Actor::Heart => Some(self.heartbeat()),
            Actor::Undertaker => Some(self.mark_dead()),
            Actor::Canceller => self.cancel(model),
            Actor::Starter => Some(self.start(model)),
            Actor::Ender => self.end(model),
            Actor::Continuer => self.continue_as_new(model),
            Actor::Eraser => self.execution(model).map(|id| op("executions.delete", json!({ "id": id }))),
            Actor::Scribe => self.change_state(model),
            Actor::Narrator => self.narrate(model),
            Actor::Configurer => Some(self.configure()),
            Actor::Pauser => Some(self.pause()),
            Actor::Holder => Some(self.hold(model)),
            Actor::Redriver => Some(self.redrive(model)),
            Actor::Deleter => self.delete(model),
            Actor::Librarian => Some(self.retain()),
            Actor::Sweeper => Some(self.sweep(false)),
            Actor::Driver => Some(self.sweep(true)),
            Actor::Vandal => Some(self.vandalise(model)),
            Actor::Observer | Actor::ClockJumper | Actor::ClockTurner | Actor::Sleeper | Actor::Crasher => None,
        }
    }

    /// Remembers what may be worth repeating.
    pub fn answered(&mut self, op: &Op, succeeded: bool) {
        if !succeeded || op.bad.is_some() {
            return;
        }
        match op.name {
            "queue.complete" | "queue.fail" | "queue.release" => self.settled.push(op.clone()),
            "queue.enqueue" if op.arguments.get("id").is_some() || op.arguments.get("idempotencyKey").is_some() => {
                self.enqueued.push(op.arguments.clone());
            }
            "executions.continueAsNew" => self.continued.push(op.clone()),
            "events.append" if op.arguments.get("id").is_some() => self.appended.push(op.arguments.clone()),
            _ => {}
        }
    }

    fn document(&mut self) -> Value {
        match self.random.below(12) {
            0 => json!(null),
            1 => json!("text with \u{1F600}"),
            2 => json!([1, 2.5, { "deep": [true] }]),
            // Over the size that lies in the item's row.
            3 => json!({ "large": "x".repeat(5000), "n": self.random.below(1000) }),
            _ => json!({ "n": self.random.below(1000) }),
        }
    }

    fn queue(&mut self) -> &'static str {
        self.random.pick(&self.queues)
    }

    fn backoff(&mut self) -> Value {
        self.random.pick(&[
            json!({ "kind": "fixed", "baseMs": 0 }),
            json!({ "kind": "fixed", "baseMs": 100 }),
            json!({ "kind": "fixed", "baseMs": 700, "jitter": 0.5 }),
            json!({ "kind": "linear", "baseMs": 50 }),
            json!({ "kind": "linear", "baseMs": 3_000, "maxMs": 5_000 }),
            json!({ "kind": "exponential" }),
            json!({ "kind": "exponential", "baseMs": 10, "factor": 3.0, "maxMs": 500 }),
            json!({ "kind": "exponential", "baseMs": 200, "factor": 1.0, "jitter": 0.25 }),
            json!({ "kind": "exponential", "baseMs": 3_600_000, "factor": 1e300 }),
        ])
    }

    fn capabilities(&mut self, most: i64) -> Vec<&'static str> {
        (0..self.random.between(0, most)).map(|_| self.random.pick(&CAPABILITIES)).collect()
    }

    /// An execution's id; sometimes of one that has ended, or of none.
    fn execution(&mut self, model: &Model) -> Option<String> {
        if self.random.percent(2) {
            return Some("no such run".to_owned());
        }
        let wants_open = self.random.percent(90);
        let fitting: Vec<&String> = model
            .executions
            .iter()
            .filter(|execution| !execution.gone && (!wants_open || !is_terminal(&execution.status)))
            .map(|execution| &execution.id)
            .collect();
        self.random.maybe_pick(&fitting).cloned()
    }

    fn item(&mut self, model: &Model) -> Value {
        let random = &mut self.random;
        if random.percent(8)
            && let Some(mut known) = random.maybe_pick(&self.enqueued)
        {
            if random.percent(25) {
                known["priority"] = json!(99);
            }
            return known;
        }
        let mut item = json!({ "queue": self.queue() });
        let random = &mut self.random;
        match random.below(20) {
            0..=10 => {
                self.items += 1;
                item["id"] = json!(format!("item-{}", self.items));
            }
            // An id that was used before, perhaps by an item that is gone.
            11 if self.items > 0 => item["id"] = json!(format!("item-{}", 1 + random.below(self.items))),
            _ => {}
        }
        if random.percent(70) {
            item["payload"] = self.document();
        }
        let random = &mut self.random;
        if random.percent(40) {
            item["priority"] = json!(random.pick(&[-2, -1, 1, 1, 2, 5, i64::MAX, i64::MIN]));
        }
        match random.below(10) {
            0 | 1 => item["delayMs"] = json!(random.pick(&[0, 1, 50, 500, 5_000, 3_600_000])),
            2 => item["runAt"] = json!(model.now + random.between(-5_000, 5_000)),
            _ => {}
        }
        if random.percent(70) {
            item["maxAttempts"] = json!(random.between(1, 4));
        }
        if random.percent(50) {
            item["backoff"] = self.backoff();
        }
        let random = &mut self.random;
        if random.percent(15) {
            item["idempotencyKey"] = json!(format!("once-{}", random.below(8)));
            if random.percent(30) {
                item["uniqueFor"] = json!(random.pick(&["ever", "unfinished"]));
            }
        }
        if random.percent(45) {
            item["concurrencyKey"] = json!(random.pick(&KEYS));
        }
        if random.percent(20) {
            item["requires"] = json!(self.capabilities(2));
        }
        if self.random.percent(35)
            && let Some(execution) = self.execution(model)
        {
            item["executionId"] = json!(execution);
            item["nodeId"] = json!(self.random.pick(&NODES));
        }
        item
    }

    fn bad_item(&mut self) -> Value {
        let queue = self.queue();
        self.random.pick(&[
            json!({ "queue": queue, "maxAttempts": 0 }),
            json!({ "queue": queue, "delayMs": -1 }),
            json!({ "queue": queue, "delayMs": 1, "runAt": 1 }),
            json!({ "queue": queue, "nodeId": "without an execution" }),
            json!({ "queue": queue, "uniqueFor": "ever" }),
            json!({ "queue": queue, "runAt": -1 }),
            json!({ "queue": queue, "backoff": { "kind": "fixed", "jitter": 2 } }),
            json!({ "queue": queue, "backoff": { "kind": "exponential", "factor": 0.5 } }),
        ])
    }

    fn items(&mut self, model: &Model, most: i64) -> (Vec<Value>, Option<Bad>) {
        let count = self.random.between(1, most);
        let mut items: Vec<Value> = (0..count).map(|_| self.item(model)).collect();
        let mut bad = None;
        if self.random.percent(12) {
            let at = self.random.below(items.len());
            items[at] = self.bad_item();
            bad = Some(Bad::Item(at));
        }
        (items, bad)
    }

    fn many(&mut self, model: &Model) -> Op {
        let (items, bad) = self.items(model, 5);
        Op { name: "queue.enqueueMany", arguments: json!({ "items": items }), bad }
    }

    /// More than claims and sweeps deal with in one go.
    fn flood(&mut self, model: &Model) -> Op {
        if let Some(execution) = self.execution(model).filter(|_| self.random.percent(50)) {
            // So many that snapshots of the log are worth writing.
            let events = (0..150).map(|_| {
                let patch = self.patch();
                let data = json!({ "nodeId": self.random.pick(&NODES), "output": 1, "statePatch": patch, "durationMs": 1 });
                json!({ "type": "node_completed", "data": data })
            });
            return op("events.appendMany", json!({ "events": events.collect::<Vec<_>>(), "executionId": execution }));
        }
        let queue = self.queue();
        let delay = self.random.pick(&[0, 300]);
        let items: Vec<Value> = (0..self.random.between(101, 250))
            .map(|_| {
                let mut item = json!({ "queue": queue, "priority": self.random.between(0, 2), "delayMs": delay });
                if self.random.percent(30) {
                    item["concurrencyKey"] = json!(self.random.pick(&KEYS));
                }
                item
            })
            .collect();
        op("queue.enqueueMany", json!({ "items": items }))
    }

    fn worker(&mut self, arguments: &mut Value) {
        arguments["workerId"] = json!(self.random.pick(&WORKERS));
        if self.random.percent(30) {
            arguments["namespace"] = json!(self.random.pick(&NAMESPACES));
        }
    }

    fn claim(&mut self, model: &Model) -> Op {
        let count = self.random.pick(&[1, 1, 2, 3, 5]);
        let mut queues: Vec<&str> = (0..count).map(|_| self.queue()).collect();
        if self.random.percent(5) {
            queues.push("no such queue");
        }
        let mut arguments = json!({ "queues": queues });
        self.worker(&mut arguments);
        // Somebody who has what most items require.
        if self.random.percent(30) {
            let able: Vec<_> = model.workers.iter().filter(|(_, worker)| worker.capabilities.len() > 1).collect();
            if let Some(((namespace, worker), _)) = self.random.maybe_pick(&able) {
                arguments["workerId"] = json!(worker);
                arguments["namespace"] = json!(namespace);
            }
        }
        if self.random.percent(60) {
            arguments["limit"] = json!(self.random.pick(&[1, 2, 3, 5, 10, 1000]));
        }
        if self.random.percent(80) {
            arguments["leaseMs"] = json!(self.random.pick(&[1, 50, 200, 1_000, 5_000, 60_000, 600_000]));
        }
        op("queue.claim", arguments)
    }

    /// An item and a fence: of an item that is held now, or a past one.
    fn lease(&mut self, model: &Model, past: bool) -> Option<Value> {
        if past {
            // Mostly one that is not long ago.
            let from = if self.random.percent(70) { model.grants.len().saturating_sub(30) } else { 0 };
            return self.random.maybe_pick(&model.grants[from..]).map(|(id, fence)| json!({ "id": id, "fence": fence }));
        }
        let held: Vec<(String, i64)> = {
            let claimed = model.open.iter().map(|&index| &model.items[index]).filter(|item| item.status == Status::Claimed);
            claimed.map(|item| (item.id.clone(), item.fence)).collect()
        };
        self.random.maybe_pick(&held).map(|(id, fence)| json!({ "id": id, "fence": fence }))
    }

    /// Whether the item of a lease belongs to an execution.
    fn has_execution(model: &Model, lease: &Value) -> bool {
        model.find(&lease["id"]).is_some_and(|index| model.items[index].execution.is_some())
    }

    fn complete(&mut self, model: &Model, past: bool) -> Option<Op> {
        let mut arguments = self.lease(model, past)?;
        let mut bad = None;
        let can_tell = Self::has_execution(model, &arguments) || self.random.percent(3);
        if self.random.percent(50) {
            arguments["output"] = self.document();
        }
        if can_tell && self.random.percent(50) {
            arguments["statePatch"] = self.patch();
        }
        if can_tell && self.random.percent(40) {
            arguments["events"] = self.events();
        }
        if self.random.percent(25) {
            let (items, bad_item) = self.items(model, 2);
            arguments["enqueue"] = json!(items);
            bad = bad_item;
        }
        Some(Op { name: "queue.complete", arguments, bad })
    }

    fn error(&mut self) -> Value {
        self.random.pick(&[json!("it broke"), json!({ "message": "it broke", "code": "E1", "stack": "at line 1" })])
    }

    fn fail(&mut self, model: &Model, past: bool) -> Option<Op> {
        let mut arguments = self.lease(model, past)?;
        arguments["error"] = self.error();
        if self.random.percent(25) {
            arguments["retryable"] = json!(self.random.percent(50));
        }
        if self.random.percent(25) {
            arguments["delayMs"] = json!(self.random.pick(&[0, 1, 300, 10_000]));
        }
        if (Self::has_execution(model, &arguments) && self.random.percent(30)) || self.random.percent(2) {
            arguments["events"] = self.events();
        }
        Some(op("queue.fail", arguments))
    }

    fn release(&mut self, model: &Model, past: bool) -> Option<Op> {
        let mut arguments = self.lease(model, past)?;
        if self.random.percent(40) {
            arguments["delayMs"] = json!(self.random.pick(&[0, 1, 300, 10_000]));
        }
        if self.random.percent(40) {
            arguments["reason"] = json!("429");
        }
        Some(op("queue.release", arguments))
    }

    fn renew(&mut self, model: &Model, past: bool) -> Option<Op> {
        let mut arguments = self.lease(model, past)?;
        if self.random.percent(50) {
            arguments["leaseMs"] = json!(self.random.pick(&[1, 100, 5_000, 600_000]));
        }
        if self.random.percent(40) {
            arguments["progress"] = json!({ "percent": self.random.below(100) });
        }
        Some(op("queue.renew", arguments))
    }

    fn zombie(&mut self, model: &Model) -> Option<Op> {
        match self.random.below(4) {
            0 => self.complete(model, true),
            1 => self.fail(model, true),
            2 => self.release(model, true),
            _ => self.renew(model, true),
        }
    }

    /// Makes a settling call again: the same, another with the same lease, or the same with other arguments.
    fn repeat(&mut self) -> Option<Op> {
        let from = self.settled.len().saturating_sub(20);
        let mut again = self.random.maybe_pick(&self.settled[from..])?;
        match self.random.below(6) {
            0 => again.name = self.random.pick(&["queue.complete", "queue.release", "queue.renew"]),
            1 => again.arguments["output"] = json!("another one"),
            _ => return Some(again),
        }
        let known: &[&str] = match again.name {
            "queue.complete" => &["id", "fence", "output", "statePatch", "events", "enqueue"],
            "queue.release" => &["id", "fence", "delayMs", "reason"],
            "queue.renew" => &["id", "fence"],
            _ => return None,
        };
        again.arguments.as_object_mut()?.retain(|name, _| known.contains(&name.as_str()));
        Some(again)
    }

    fn register(&mut self) -> Op {
        let mut arguments = json!({
            "pool": if self.random.percent(90) { POOLS[0] } else { POOLS[1] },
            "queues": self.queues,
            "capabilities": self.capabilities(6),
            "livenessTtlMs": self.random.pick(&[100, 2_000, 30_000, 30_000, 7_200_000]),
        });
        self.worker(&mut arguments);
        op("workers.register", arguments)
    }

    fn heartbeat(&mut self) -> Op {
        let mut arguments = json!({});
        self.worker(&mut arguments);
        if self.random.percent(50) {
            arguments["load"] = json!(0.5);
        }
        op("workers.heartbeat", arguments)
    }

    fn mark_dead(&mut self) -> Op {
        let mut arguments = json!({ "reason": "its tab, they say, is \"gone\"" });
        self.worker(&mut arguments);
        if self.random.percent(40) {
            arguments["releaseLeases"] = json!(self.random.percent(50));
        }
        op("workers.markDead", arguments)
    }

    fn any_item(&mut self, model: &Model, status: Option<Status>) -> Option<String> {
        let fitting: Vec<&String> = model
            .living()
            .filter(|(_, item)| status.is_none_or(|status| item.status == status))
            .map(|(_, item)| &item.id)
            .collect();
        self.random.maybe_pick(&fitting).cloned()
    }

    fn cancel(&mut self, model: &Model) -> Option<Op> {
        let status = match self.random.below(4) {
            0 => None,
            1 => Some(Status::Claimed),
            2 => Some(Status::Scheduled),
            _ => Some(Status::Pending),
        };
        self.any_item(model, status).map(|id| op("queue.cancel", json!({ "id": id })))
    }

    fn start(&mut self, model: &Model) -> Op {
        let open = model.executions.iter().filter(|execution| !execution.gone && !execution.is_terminal()).count();
        // Ids of executions that are gone are used again.
        let gone: Vec<&String> =
            model.executions.iter().filter(|execution| execution.gone).map(|execution| &execution.id).collect();
        if self.random.percent(30)
            && let Some(id) = self.random.maybe_pick(&gone).filter(|id| id.starts_with("run-"))
        {
            return op("executions.create", json!({ "id": id, "workflowId": "w" }));
        }
        // Few at a time, so that several items share one.
        if open > 8 || (self.executions > 0 && self.random.percent(10)) {
            let number = 1 + self.random.below(self.executions.max(1));
            let workflow = if self.random.percent(70) { "w" } else { "another" };
            return op("executions.create", json!({ "id": format!("run-{number}"), "workflowId": workflow }));
        }
        self.executions += 1;
        op("executions.create", json!({ "id": format!("run-{}", self.executions), "workflowId": "w" }))
    }

    fn end(&mut self, model: &Model) -> Option<Op> {
        let mut arguments = json!({ "id": self.execution(model)? });
        if self.random.percent(15) {
            arguments["reason"] = json!("not needed any more");
            return Some(op("executions.cancel", arguments));
        }
        arguments["status"] = json!(self.random.pick(&[
            "running",
            "running",
            "paused",
            "paused",
            "pending",
            "completed",
            "failed",
            "cancelled",
            "limit_exceeded"
        ]));
        if self.random.percent(20) {
            arguments["expectedStatus"] = json!(self.random.pick(&["pending", "running", "paused", "completed"]));
        }
        Some(op("executions.setStatus", arguments))
    }

    fn continue_as_new(&mut self, model: &Model) -> Option<Op> {
        let from = self.continued.len().saturating_sub(5);
        if self.random.percent(30)
            && let Some(again) = self.random.maybe_pick(&self.continued[from..])
        {
            return Some(again);
        }
        let mut arguments = json!({ "id": self.execution(model)? });
        let mut bad = None;
        if self.random.percent(50) {
            arguments["state"] = json!({ "carried": self.random.below(9) });
        }
        if self.random.percent(70) {
            let mut item = self.item(model);
            if self.random.percent(10) {
                bad = Some(Bad::Item(0));
                item["maxAttempts"] = json!(0);
            }
            let members = item.as_object_mut()?;
            members.remove("executionId");
            members.insert("nodeId".to_owned(), json!(self.random.pick(&NODES)));
            // The answer does not tell the item's id.
            if !members.contains_key("id") {
                self.items += 1;
                members.insert("id".to_owned(), json!(format!("item-{}", self.items)));
            }
            arguments["enqueue"] = item;
        }
        Some(Op { name: "executions.continueAsNew", arguments, bad })
    }

    fn change_state(&mut self, model: &Model) -> Option<Op> {
        let mut arguments = json!({ "id": self.execution(model)? });
        let name = match self.random.below(5) {
            0 => {
                arguments["state"] = self.random.pick(&[json!({}), json!({ "a": 1, "log": ["first"] }), json!([1]), json!(null)]);
                "executions.setState"
            }
            1 | 2 => {
                arguments["patch"] = self.patch();
                "executions.patchState"
            }
            _ => {
                arguments["key"] = json!(self.random.pick(&["log", "log", "a"]));
                arguments["value"] = json!(self.random.below(100));
                "executions.appendToState"
            }
        };
        if self.random.percent(20) {
            arguments["expectedSequence"] = json!(self.random.below(20));
        }
        Some(op(name, arguments))
    }

    fn patch(&mut self) -> Value {
        let key = self.random.pick(&["a", "b", "c"]);
        match self.random.below(5) {
            0 => json!({ key: null }),
            1 => json!({ key: { "inner": self.random.below(9), "gone": null } }),
            2 => json!({ key: { "inner": { "deeper": [1, null] } } }),
            _ => json!({ key: self.random.below(100) }),
        }
    }

    fn event(&mut self) -> Value {
        let node = self.random.pick(&NODES);
        let approval = format!("id-{}", self.random.below(EVENT_IDS));
        let (kind, data) = match self.random.below(24) {
            0 => ("workflow_completed", json!({ "output": self.document() })),
            1 => ("workflow_completed", json!({ "finalState": { "final": self.random.below(9) } })),
            2 => ("workflow_failed", json!({ "error": "all is lost" })),
            3 if self.random.percent(50) => ("workflow_cancelled", json!({})),
            4 if self.random.percent(50) => {
                ("strategy_limit_hit", json!({ "limitType": "cost", "limitValue": 1, "actualValue": 2 }))
            }
            5..=7 => ("workflow_started", json!({ "workflowId": "w", "workflowVersion": "1", "initialInput": {} })),
            8..=10 => {
                let patch = if self.random.percent(70) { self.patch() } else { json!(null) };
                ("node_completed", json!({ "nodeId": node, "output": 1, "statePatch": patch, "durationMs": 5 }))
            }
            11 => ("node_failed", json!({ "nodeId": node, "error": "no", "attempt": 1, "retryable": true })),
            12 => ("node_started", json!({ "nodeId": node, "workerId": "w", "attempt": 1 })),
            13 | 14 => ("interrupt_raised", json!({ "nodeId": node, "reason": "why", "stateForReview": {} })),
            15 => ("tool_approval_required", json!({ "nodeId": node, "toolName": "rm", "approver": "me", "context": {} })),
            16 => (
                "tool_approval_required",
                json!({ "nodeId": node, "approvalId": approval, "toolName": "rm", "approver": "me", "context": {} }),
            ),
            17 | 18 => ("approval_received", json!({ "nodeId": node, "decision": "approved", "statePatch": self.patch() })),
            19 => ("approval_received", json!({ "nodeId": node, "approvalId": approval, "decision": "rejected" })),
            20 => ("tool_called", json!({ "nodeId": node, "tool": "rm" })),
            _ => ("x-note", json!({ "n": self.random.below(3) })),
        };
        let mut event = json!({ "type": kind, "data": data });
        // Event ids and approval ids come from the same names: an event without an approvalId names its approval by its own id.
        if self.random.percent(12) {
            event["id"] = json!(format!("id-{}", self.random.below(EVENT_IDS)));
        }
        event
    }

    fn events(&mut self) -> Value {
        let count = self.random.between(1, 3);
        (0..count).map(|_| self.event()).collect()
    }

    fn narrate(&mut self, model: &Model) -> Option<Op> {
        if self.random.percent(8) {
            let from = self.appended.len().saturating_sub(8);
            return self.random.maybe_pick(&self.appended[from..]).map(|again| op("events.append", again));
        }
        let execution = self.execution(model)?;
        let (name, mut arguments) = if self.random.percent(70) {
            ("events.append", self.event())
        } else {
            ("events.appendMany", json!({ "events": self.events() }))
        };
        arguments["executionId"] = json!(execution);
        if self.random.percent(20) {
            let known = model.find_execution(&json!(execution)).map_or(0, |index| model.executions[index].last_sequence);
            arguments["expectedSequence"] = json!(known - i64::from(self.random.percent(30)));
        }
        Some(op(name, arguments))
    }

    fn rate(&mut self) -> Value {
        let (limit, per_ms) = self.random.pick(&[(1, 1_000), (2, 1_000), (3, 1_000), (5, 777), (1, 60_000), (10, 100)]);
        json!({ "limit": limit, "perMs": per_ms })
    }

    fn configure(&mut self) -> Op {
        let mut arguments = json!({ "name": self.queue() });
        for field in ["concurrency", "keyConcurrency", "keyConcurrency", "rateLimit", "keyRateLimit", "maxAttempts", "backoff"] {
            if !self.random.percent(30) {
                continue;
            }
            arguments[field] = match field {
                _ if self.random.percent(25) => json!(null),
                "rateLimit" | "keyRateLimit" => self.rate(),
                "backoff" => self.backoff(),
                "concurrency" => json!(self.random.between(1, 12)),
                _ => json!(self.random.between(1, 3)),
            };
        }
        op("queues.configure", arguments)
    }

    fn pause(&mut self) -> Op {
        let name = if self.random.percent(35) { "queues.pause" } else { "queues.resume" };
        op(name, json!({ "name": self.queue() }))
    }

    fn hold(&mut self, model: &Model) -> Op {
        let mut arguments = json!({ "name": self.queue(), "until": null });
        if !self.random.percent(20) {
            arguments["until"] = json!(model.now + self.random.pick(&[1, 300, 2_000, 30_000, 120_000]));
        }
        if self.random.percent(65) {
            arguments["key"] = json!(self.random.pick(&KEYS));
        }
        op("queues.hold", arguments)
    }

    fn redrive(&mut self, model: &Model) -> Op {
        let letter = self.any_item(model, Some(Status::DeadLettered));
        let mut arguments = match letter {
            Some(id) if self.random.percent(80) => json!({ "id": id }),
            _ if self.random.percent(60) => json!({ "queue": self.queue() }),
            _ => json!({ "id": self.any_item(model, None).unwrap_or_else(|| "no such item".to_owned()) }),
        };
        if self.random.percent(30) {
            arguments["payload"] = self.document();
        }
        op("deadLetters.redrive", arguments)
    }

    fn delete(&mut self, model: &Model) -> Option<Op> {
        let status = self.random.percent(85).then_some(Status::DeadLettered);
        self.any_item(model, status).map(|id| op("deadLetters.delete", json!({ "id": id })))
    }

    fn retain(&mut self) -> Op {
        let mut arguments = json!({});
        for field in ["executionsMs", "itemsMs", "attemptsMs", "deadLettersMs", "historyMs"] {
            if self.random.percent(40) {
                arguments[field] = self.random.pick(&[json!(null), json!(0), json!(1_000), json!(60_000), json!(3_600_000)]);
            }
        }
        op("retention.set", arguments)
    }

    fn sweep(&mut self, driver: bool) -> Op {
        let mut arguments = json!({});
        if driver {
            arguments["intervalMs"] = json!(self.random.pick(&[1_000, 1_000, 60_000]));
        }
        if self.random.percent(30) {
            arguments["limit"] = json!(self.random.pick(&[1, 2, 5, 20]));
        }
        op("sweep", arguments)
    }

    /// Calls that are wrong whatever is stored.
    fn vandalise(&mut self, model: &Model) -> Op {
        let lease = self.lease(model, false).unwrap_or_else(|| json!({ "id": "x", "fence": 1 }));
        let with = |field: &str, value: Value| {
            let mut arguments = lease.clone();
            arguments[field] = value;
            arguments
        };
        let queue = self.queue();
        let invalid = "invalid_argument";
        let claim = |field: &str, value: Value| {
            let mut arguments = json!({ "workerId": "w1", "queues": [queue] });
            arguments[field] = value;
            bad("queue.claim", arguments, invalid)
        };
        match self.random.below(24) {
            0 => bad("queue.enqueue", self.bad_item(), invalid),
            1 => claim("limit", json!(0)),
            2 => claim("limit", json!(1_000_000_000)),
            3 => claim("leaseMs", json!(-1)),
            4 => claim("leaseMs", json!(0)),
            5 => claim("unknown", json!(1)),
            6 => claim("workerId", json!("a\u{7}b")),
            7 => claim("queues", json!([""])),
            8 => bad("queue.renew", with("leaseMs", json!(0)), invalid),
            9 => bad("queue.complete", with("statePatch", json!([1])), invalid),
            10 => bad("queue.complete", with("fence", json!("1")), invalid),
            11 => bad("queue.fail", with("retryable", json!(true)), invalid),
            12 => bad("queue.fail", with("error", json!({ "text": "no message" })), invalid),
            13 => bad("queue.release", with("delayMs", json!(-5)), invalid),
            14 => bad("queues.configure", json!({ "name": queue, "concurrency": 0 }), invalid),
            15 => bad("queues.configure", json!({ "name": queue, "rateLimit": { "limit": 1, "perMs": 0 } }), invalid),
            16 => bad("queues.hold", json!({ "name": queue, "until": model.now }), invalid),
            17 => bad("workers.markDead", json!({ "workerId": "w1", "reason": "r".repeat(257) }), invalid),
            18 => bad("workers.markDead", json!({ "workerId": "w1", "reason": "a\u{0}b" }), invalid),
            19 => bad(
                "workers.register",
                json!({ "workerId": "w1", "pool": "p", "queues": [], "capabilities": [], "livenessTtlMs": 0 }),
                invalid,
            ),
            20 => bad("sweep", json!({ "limit": 0 }), invalid),
            21 => bad("retention.set", json!({ "itemsMs": -1 }), invalid),
            22 => bad("deadLetters.redrive", json!({}), invalid),
            _ => bad("queue.cancel", json!({ "id": "no such item" }), "not_found"),
        }
    }
}
