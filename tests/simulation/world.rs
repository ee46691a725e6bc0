//! One run: the stores on their file, the clock, the actors, and the model that judges them.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;

use runkeep::{Call, ManualClock, Store};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::actors::{Actor, Actors, CAPABILITIES, KEYS, QUEUES, WEIGHTS};
use crate::checks;
use crate::common::{Folder, START, clock, options};
use crate::model::{Model, Op, STORES, Status, Verdict, ensure};
use crate::random::Random;

pub struct World {
    pub model: Model,
    pub stores: Vec<Store>,
    /// Reads the file beside the stores.
    pub raw: Connection,
    pub random: Random,
    /// For what to look at: looking more often must not change what happens.
    pub eyes: Random,
    pub last: VecDeque<String>,
    actors: Actors,
    weights: Vec<u64>,
    clock: ManualClock,
    folder: Folder,
    path: PathBuf,
    files: usize,
    pub step: usize,
    /// How many of the last operations are shown when something is wrong.
    remembers: usize,
}

/// How a run ended.
pub struct Failure {
    pub step: usize,
    pub message: String,
    pub last: Vec<String>,
}

impl World {
    pub fn new(seed: u64, remembers: usize) -> Self {
        let mut random = Random::new(seed);
        // Each seed has another mix of actors; some have few kinds of them, and those act often.
        let weights = WEIGHTS
            .iter()
            .map(|(_, weight, optional)| {
                weight
                    * match (optional, weight) {
                        (false, _) => random.pick(&[1, 1, 2]),
                        (true, 1) => random.pick(&[0, 0, 0, 0, 0, 1]),
                        (true, _) => random.pick(&[0, 1, 1, 1, 1, 3]),
                    }
            })
            .collect();
        let (folder, clock) = (Folder::in_memory(), clock());
        let path = folder.file("0.db");
        let stores = (0..STORES).map(|_| Store::open_with(&path, options(&clock)).unwrap()).collect();
        let raw = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let actors = Actors::new(Random::new(random.next()));
        let model = Model::new(START);
        Self {
            model,
            stores,
            raw,
            random,
            eyes: Random::new(seed),
            last: VecDeque::new(),
            actors,
            weights,
            clock,
            folder,
            path,
            files: 0,
            step: 0,
            remembers,
        }
    }

    /// Runs so many steps, looks at everything now and then, and brings all work to its end.
    pub fn run(&mut self, steps: usize, look_every: usize) -> Result<(), Failure> {
        let mut run = || -> Verdict {
            while self.step < steps {
                self.step += 1;
                self.take_step()?;
                if self.step.is_multiple_of(look_every) {
                    checks::look(self, self.step.is_multiple_of(look_every * 10))?;
                }
            }
            checks::look(self, true)?;
            self.drain()?;
            self.prune()?;
            checks::look(self, true)?;
            checks::look_at_file(self)
        };
        let outcome = run();
        outcome.map_err(|message| Failure { step: self.step, message, last: self.last.iter().cloned().collect() })
    }

    fn note(&mut self, line: String) {
        if self.last.len() == self.remembers {
            self.last.pop_front();
        }
        self.last.push_back(format!("{:>6} {} {line}", self.step, self.model.now - START));
    }

    fn take_step(&mut self) -> Verdict {
        let pause = self.random.pick(&[0, 0, 0, 1, 7, 40, 250]);
        self.set_clock(self.model.now + pause);
        let (actor, _, _) = WEIGHTS[self.random.weighted(&self.weights)];
        match actor {
            Actor::Observer => return checks::observe(self),
            Actor::ClockJumper => {
                let ms = self.random.pick(&[1_000, 5_000, 20_000, 100_000, 130_000, 3_600_000]);
                return self.jump(ms);
            }
            Actor::ClockTurner => {
                let ms = self.random.pick(&[1, 100, 5_000, 60_000, 3_600_000]);
                return self.jump(-ms);
            }
            Actor::Sleeper => {
                let ms = self.random.pick(&[121_000, 400_000, 28_800_000]);
                return self.jump(ms);
            }
            Actor::Crasher => return self.crash(),
            _ => {}
        }
        let Some(op) = self.actors.act(actor, &self.model) else { return Ok(()) };
        let store = usize::from(self.random.percent(20));
        let mut ops = vec![op];
        // Calls that share a transaction. Those after the first were thought of before it was answered.
        while ops.len() < 4 && self.random.percent(10) {
            let (actor, _, _) = WEIGHTS[self.random.weighted(&self.weights)];
            ops.extend(self.actors.act(actor, &self.model));
        }
        // What a sweep prunes is only known from the file, right after it.
        if ops.iter().any(|op| op.name == "sweep") {
            ops.truncate(1);
        }
        self.call(store, ops)
    }

    fn set_clock(&mut self, now: i64) {
        self.clock.set(now);
        self.model.set_now(now);
    }

    fn jump(&mut self, ms: i64) -> Verdict {
        self.note(format!("the clock goes by {ms}"));
        self.set_clock(self.model.now + ms);
        Ok(())
    }

    /// Makes calls as one group and judges every answer.
    pub fn call(&mut self, store: usize, ops: Vec<Op>) -> Verdict {
        let texts: Vec<String> = ops.iter().map(|op| op.arguments.to_string()).collect();
        let calls: Vec<Call<'_>> = ops.iter().zip(&texts).map(|(op, arguments)| Call::new(op.name, arguments)).collect();
        let answers: Vec<_> =
            self.stores[store].call_many(&calls).answers.into_iter().map(|answer| answer.map(|answer| answer.text)).collect();
        let group = if ops.len() > 1 { format!(" (of {} together)", ops.len()) } else { String::new() };
        for (op, answer) in ops.iter().zip(&answers) {
            let shown = match answer {
                Ok(text) => shorten(text, 300),
                Err(error) => shorten(&error.to_string(), 200),
            };
            self.note(format!("[{store}] {}{group} {} -> {shown}", op.name, shorten(&op.arguments.to_string(), 600)));
        }
        for (op, answer) in ops.iter().zip(answers) {
            let answer = match answer {
                Ok(text) => Ok(serde_json::from_str(&text).map_err(|error| format!("{} answered no JSON: {error}", op.name))?),
                Err(error) => Err(error.code().as_str().to_owned()),
            };
            self.model.judge(store, op, &answer).map_err(|wrong| format!("{} {}: {wrong}", op.name, op.arguments))?;
            self.actors.answered(op, answer.is_ok());
            if let (true, Ok(report)) = (op.name == "sweep" && !self.model.retention.is_empty(), &answer) {
                self.judge_pruning(report)?;
            }
        }
        let mut unsure = std::mem::take(&mut self.model.unsure);
        // A later call of the same group may have removed it.
        unsure.retain(|&index| !self.model.items[index].gone);
        for index in unsure {
            let id = self.model.items[index].id.clone();
            let found = self.read("queue.get", json!({ "id": id }))?;
            self.model.compare_item(index, &found)?;
        }
        Ok(())
    }

    fn judge_pruning(&mut self, report: &Value) -> Verdict {
        let ids = |table: &str| -> BTreeSet<String> {
            let mut statement = self.raw.prepare(&format!("SELECT id FROM {table}")).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(|id| id.unwrap()).collect()
        };
        let (items, executions) = (ids("items"), ids("executions"));
        self.model.pruned(report["pruned"].as_i64().unwrap_or_default(), &items, &executions)
    }

    /// A call that reads.
    pub fn read(&self, operation: &str, arguments: Value) -> Verdict<Value> {
        let answer = self.stores[0].call(operation, &arguments.to_string());
        let text = answer.map_err(|error| format!("{operation} {arguments} failed: {error}"))?;
        serde_json::from_str(&text).map_err(|error| format!("{operation} answered no JSON: {error}"))
    }

    /// All rows of a list, page by page.
    pub fn read_all(&self, operation: &str, mut arguments: Value, limit: usize) -> Verdict<Vec<Value>> {
        arguments["limit"] = json!(limit);
        let mut all = Vec::new();
        loop {
            let page = self.read(operation, arguments.clone())?;
            let items = page["items"].as_array().cloned().unwrap_or_default();
            ensure!(items.len() <= limit, "{operation}: a page of {limit} has {} rows", items.len());
            ensure!(page.get("damaged").is_none(), "{operation}: damaged rows: {}", page["damaged"]);
            all.extend(items);
            match &page["nextCursor"] {
                Value::Null => return Ok(all),
                cursor => arguments["cursor"] = cursor.clone(),
            }
        }
    }

    /// The process dies: between calls, or in the middle of one, which nobody gets to hear of then. Or it closes properly.
    fn crash(&mut self) -> Verdict {
        self.files += 1;
        let mut next = self.folder.file(&format!("{}.db", self.files));
        let wal = |path: &PathBuf| PathBuf::from(format!("{}-wal", path.display()));
        let how = self.random.below(3);
        if how == 0 {
            self.note("the stores close and open again".to_owned());
            for store in &self.stores {
                store.close().unwrap();
            }
            next.clone_from(&self.path);
        } else {
            std::fs::copy(&self.path, &next).unwrap();
            let before = std::fs::read(wal(&self.path)).unwrap_or_default();
            let mut left = before.clone();
            let doomed = if how == 1 { None } else { self.actors.act(Actor::Producer, &self.model) };
            if let Some(op) = doomed {
                let _ = self.stores[0].call(op.name, &op.arguments.to_string());
                let after = std::fs::read(wal(&self.path)).unwrap_or_default();
                if let Some(written) = written(&before, &after) {
                    // A part of what the call wrote has reached the file. The last byte, which commits, is not of it.
                    let end = self.random.between(written.start as i64, written.end as i64 - 1) as usize;
                    left.truncate(written.start);
                    left.extend_from_slice(&after[written.start..end]);
                    left.extend_from_slice(before.get(end..).unwrap_or_default());
                    self.model.saw("a crash in the middle of a call");
                }
            }
            self.note("the process dies".to_owned());
            std::fs::write(wal(&next), left).unwrap();
        }
        self.model.saw("a crash");
        self.reopen(next);
        checks::look(self, true)
    }

    fn reopen(&mut self, path: PathBuf) {
        self.stores.clear();
        self.raw = Connection::open_in_memory().unwrap();
        if path != self.path {
            for suffix in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{suffix}", self.path.display()));
            }
        }
        self.path = path;
        self.stores = (0..STORES).map(|_| Store::open_with(&self.path, options(&self.clock)).unwrap()).collect();
        self.raw = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        self.model.forget_ticks();
    }

    /// What is over goes in the end.
    fn prune(&mut self) -> Verdict {
        if self.model.retention.is_empty() {
            return Ok(());
        }
        // Also what ends after the clock went back, when the sweep thinks that it has looked at everything.
        self.one("sweep", json!({ "limit": 10_000 }))?;
        self.set_clock(self.model.now - 86_400_000);
        self.one("queue.enqueue", json!({ "id": "last", "queue": QUEUES[0] }))?;
        self.one("queue.cancel", json!({ "id": "last" }))?;
        self.one("executions.create", json!({ "id": "last", "workflowId": "w" }))?;
        self.one("executions.cancel", json!({ "id": "last" }))?;
        // Things may be kept for a while longer then: for as long as what is kept the shortest time.
        let of = |kind: &str| self.model.retention.get(kind).copied();
        let of_items = ["itemsMs", "deadLettersMs", "attemptsMs"].into_iter().filter_map(of).min();
        let longer = of_items.max(of("executionsMs")).unwrap_or(0);
        self.set_clock(self.model.now + longer + 1);
        for _ in 0..60 {
            self.one("sweep", json!({ "limit": 10_000 }))?;
        }
        match self.model.what_is_over() {
            None => Ok(()),
            Some(kept) => Err(format!("retention keeps {kept}")),
        }
    }

    fn one(&mut self, name: &'static str, arguments: Value) -> Verdict {
        self.call(0, vec![Op { name, arguments, bad: None }])
    }

    /// Everything that keeps items back is let go, and a worker that can do everything does it all.
    fn drain(&mut self) -> Verdict {
        self.note("everything is brought to its end".to_owned());
        let keeps_limits = self.random.percent(50);
        let queues: Vec<String> = self.model.queues.iter().map(|queue| queue.name.clone()).collect();
        for name in &queues {
            self.one("queues.resume", json!({ "name": name }))?;
            self.one("queues.hold", json!({ "name": name, "until": null }))?;
            for key in KEYS {
                self.one("queues.hold", json!({ "name": name, "key": key, "until": null }))?;
            }
            if !keeps_limits {
                let open =
                    json!({ "name": name, "concurrency": null, "keyConcurrency": null, "rateLimit": null, "keyRateLimit": null });
                self.one("queues.configure", open)?;
            }
        }
        checks::look(self, true)?;
        let mut patience = 0;
        let mut wait = 1_000;
        while !self.model.open.is_empty() {
            let worker = json!({
                "workerId": "drain", "pool": "drain", "queues": QUEUES, "capabilities": CAPABILITIES, "livenessTtlMs": 600_000_000,
            });
            self.one("workers.register", worker)?;
            loop {
                self.one("sweep", json!({}))?;
                if !self.last.back().is_some_and(|line| line.contains("\"more\":true")) {
                    break;
                }
            }
            let left = self.model.open.len();
            self.one("queue.claim", json!({ "workerId": "drain", "queues": queues, "limit": 1000 }))?;
            let held: Vec<Value> = self
                .model
                .open
                .iter()
                .map(|&index| &self.model.items[index])
                .filter(|item| item.status == Status::Claimed && item.worker.as_deref() == Some("drain"))
                .map(|item| json!({ "id": item.id, "fence": item.fence }))
                .collect();
            for lease in held {
                self.one("queue.complete", lease)?;
            }
            if self.model.open.len() < left {
                (patience, wait) = (0, 1_000);
            } else {
                patience += 1;
                wait *= 2;
            }
            let stuck = self.model.open.iter().next().map(|&index| self.model.item_json(index));
            ensure!(patience < 30, "an item is stuck: {}", stuck.unwrap_or_default());
            // A clock that was turned back far has to make up for it.
            self.set_clock(self.model.now + wait.min(3_600_000));
        }
        Ok(())
    }
}

/// Where one write-ahead log differs from the one it was before; nothing where it was begun anew.
fn written(before: &[u8], after: &[u8]) -> Option<std::ops::Range<usize>> {
    const HEADER: usize = 32;
    if before.get(..HEADER)? != after.get(..HEADER)? {
        return None;
    }
    let differs = |at: &usize| before.get(*at) != after.get(*at);
    let start = (HEADER..after.len()).find(differs)?;
    let end = (start..after.len()).rev().find(differs)?;
    Some(start..end + 1)
}

fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
