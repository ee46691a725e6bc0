//! The chat side against a plain model of it: random operations on threads, turns, items, the inbox and thread events, with a second
//! tenant beside, opened again now and then. After each few, everything that can be read is what the model says, searches too.
//!
//! `RUNKEEP_SEED` repeats a run, `RUNKEEP_CASES` sets how many there are.

mod common;

#[allow(dead_code, reason = "each test uses a part")]
#[path = "simulation/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{Folder, call, clock, options, pages, try_call};
use random::Random;
use runkeep::{ManualClock, Store};
use serde_json::{Value, json};

const STEPS: usize = 400;
const WORDS: [&str; 12] =
    ["apple", "apricot", "banana", "bandana", "Überraschung", "学习", "main.rs", "cherry", "cherries", "date", "don't", "fig"];
const TERMINAL: [&str; 4] = ["completed", "failed", "interrupted", "cancelled"];
const KINDS: [&str; 6] = ["user_message", "assistant_message", "reasoning", "tool_call", "command_execution", "error"];

const CALLED: [&str; 24] = [
    "conflict",
    "invalid_transition",
    "not_found",
    "inbox.admit",
    "inbox.promote",
    "inbox.promoteNext",
    "inbox.withdraw",
    "items.appendText",
    "items.create",
    "items.delete",
    "items.put",
    "items.readText",
    "items.update",
    "threadEvents.append",
    "threads.archive",
    "threads.create",
    "threads.delete",
    "threads.fork",
    "threads.search",
    "threads.unarchive",
    "threads.update",
    "turns.create",
    "turns.recover",
    "turns.update",
];

fn is_terminal(status: &str) -> bool {
    TERMINAL.contains(&status)
}

/// A few words; each is one, or several that stand together.
fn text(random: &mut Random) -> String {
    let count = random.below(6);
    (0..count).map(|_| random.pick(&WORDS)).collect::<Vec<_>>().join(" ")
}

/// `record` with one member set, or taken out for none.
fn set(record: &mut Value, member: &str, value: Option<Value>) {
    let members = record.as_object_mut().unwrap();
    match value {
        Some(value) => drop(members.insert(member.to_owned(), value)),
        None => drop(members.remove(member)),
    }
}

fn word(record: &Value, member: &str) -> String {
    record[member].as_str().unwrap_or_default().to_owned()
}

/// What a tenant has, as its records are answered.
#[derive(Default)]
struct Model {
    threads: BTreeMap<String, Value>,
    /// In the order in which they were created.
    turns: Vec<Value>,
    items: Vec<Value>,
    prompts: Vec<Value>,
    events: Vec<Value>,
    /// The last position, and the last admission, of each thread.
    last: BTreeMap<String, (i64, i64)>,
    last_event: i64,
    /// Threads by when they changed.
    changes: Vec<String>,
    /// Ids are not used again.
    made: usize,
}

impl Model {
    fn new_id(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("{kind}{}", self.made)
    }

    fn changed(&mut self, thread: &str, now: i64) {
        self.changes.retain(|id| id != thread);
        self.changes.push(thread.to_owned());
        set(self.threads.get_mut(thread).unwrap(), "updatedAt", Some(now.into()));
    }

    fn turn(&mut self, id: &str) -> &mut Value {
        self.turns.iter_mut().find(|turn| turn["id"] == id).unwrap()
    }

    fn item(&mut self, id: &str) -> &mut Value {
        self.items.iter_mut().find(|item| item["id"] == id).unwrap()
    }

    fn of<'m>(all: &'m [Value], member: &str, id: &str) -> Vec<&'m Value> {
        all.iter().filter(|record| record[member] == id).collect()
    }

    /// Puts a status on a turn or an item, with the times that it brings.
    fn enter(record: &mut Value, status: &str, now: i64, is_turn: bool) {
        if record["status"] == status {
            return;
        }
        set(record, "status", Some(status.into()));
        if status == "in_progress" && record.get("startedAt").is_none() {
            set(record, "startedAt", Some(now.into()));
        }
        if is_terminal(status) {
            set(record, "endedAt", Some(now.into()));
            if let Some(started) = record.get("startedAt").and_then(Value::as_i64).filter(|_| is_turn) {
                set(record, "durationMs", Some((now - started).max(0).into()));
            }
        }
    }

    /// A turn ends, and with it what it has left open.
    fn end_turn(&mut self, id: &str, status: &str, now: i64) {
        let turn = self.turn(id);
        if turn["status"] == status {
            return;
        }
        Self::enter(turn, status, now, true);
        if is_terminal(status) {
            let left_open = self.items.iter_mut().filter(|item| item["turnId"] == id && !is_terminal(&word(item, "status")));
            left_open.for_each(|item| Self::enter(item, status, now, false));
        }
    }

    /// What is found by words, plainly: the ids of items, and of threads where it is their title.
    fn search(&self, query: &[&str], thread: Option<&str>, archived: &str) -> BTreeSet<String> {
        let takes = |id: &str| {
            let is_archived = self.threads[id]["archived"] == true;
            thread.is_none_or(|wanted| wanted == id) && (archived == "include" || (archived == "only") == is_archived)
        };
        let titles = self.threads.iter().map(|(id, thread)| (id.clone(), id.as_str(), word(thread, "title")));
        let items = self.items.iter().filter_map(|item| {
            let mut text = word(item, "text");
            match item["kind"].as_str().unwrap() {
                _ if !is_terminal(&word(item, "status")) => return None,
                "reasoning" => return None,
                "tool_call" | "command_execution" | "error" => {
                    text = format!("{text} | {} | {}", word(item, "summary"), item["data"]["output"].as_str().unwrap_or_default())
                }
                _ => {}
            }
            Some((word(item, "id"), item["threadId"].as_str().unwrap(), text))
        });
        let all = titles.chain(items).filter(|(_, thread, text)| takes(thread) && found_in(query, text));
        all.map(|(id, ..)| id).collect()
    }
}

/// Whether all of the words are in a text, the last as the beginning of one.
fn found_in(query: &[&str], text: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace('ü', "u");
    let text = plain(text);
    // A word as it is written, and each of what it is made of.
    let parts = |word: &str| {
        let divided = word.replace(['.', '\''], " ").replace("学习", "学 习");
        divided.split(' ').map(str::to_owned).chain([word.to_owned()]).collect::<Vec<_>>()
    };
    let words: Vec<String> = text.split(' ').flat_map(parts).collect();
    query.iter().enumerate().all(|(at, wanted)| {
        let (wanted, is_last) = (plain(wanted), at + 1 == query.len());
        words.iter().any(|word| *word == wanted || (is_last && word.starts_with(&wanted)))
    })
}

struct World {
    /// Two connections, which take turns.
    stores: [Store; 2],
    clock: ManualClock,
    random: Random,
    path: std::path::PathBuf,
    models: [Model; 2],
    /// Whose turn it is.
    tenant: usize,
    told: Vec<String>,
    seen: BTreeMap<&'static str, usize>,
    _folder: Folder,
}

fn open(path: &std::path::Path, clock: &ManualClock) -> [Store; 2] {
    std::array::from_fn(|_| Store::open_with(path, options(clock)).unwrap())
}

impl World {
    fn new(seed: u64) -> Self {
        let (folder, clock) = (Folder::in_memory(), clock());
        let path = folder.file("store.db");
        let stores = open(&path, &clock);
        call(&stores[0], "tenants.create", json!({ "id": "acme" }));
        Self {
            stores,
            clock,
            random: Random::new(seed),
            path,
            models: Default::default(),
            tenant: 0,
            told: Vec::new(),
            seen: BTreeMap::new(),
            _folder: folder,
        }
    }

    fn bound(&self) -> Store {
        let store = &self.stores[self.told.len() % 2];
        if self.tenant == 0 { store.clone() } else { store.for_tenant("acme") }
    }

    fn model(&mut self) -> &mut Model {
        &mut self.models[self.tenant]
    }

    fn now(&self) -> i64 {
        use runkeep::Clock;
        self.clock.now()
    }

    /// A call that the model says succeeds.
    #[track_caller]
    fn call(&mut self, operation: &'static str, arguments: Value) -> Value {
        self.told.push(format!("{} {operation} {arguments}", self.tenant));
        *self.seen.entry(operation).or_default() += 1;
        call(&self.bound(), operation, arguments)
    }

    /// A call that the model says is refused.
    #[track_caller]
    fn refused(&mut self, operation: &'static str, arguments: Value, code: &'static str) {
        self.told.push(format!("{} {operation} {arguments}: {code}", self.tenant));
        *self.seen.entry(code).or_default() += 1;
        match try_call(&self.bound(), operation, arguments) {
            Ok(answer) => panic!("{operation} succeeded: {answer}"),
            Err(error) => assert_eq!(error.code().as_str(), code, "{operation}: {error}"),
        }
    }

    /// A creation; the record as it is from then on, which has what was given.
    #[track_caller]
    fn create(&mut self, operation: &'static str, arguments: &Value) -> Value {
        let mut record = self.call(operation, arguments.clone());
        assert_eq!(record["created"], true);
        set(&mut record, "created", None);
        for (member, given) in arguments.as_object().unwrap() {
            assert_eq!(&record[member], given, "{operation} {arguments}: {member}");
        }
        assert_eq!(record["createdAt"], self.now());
        if self.random.percent(20) {
            // The same again is the same; with something else it is refused.
            let again = self.call(operation, arguments.clone());
            assert_eq!(again["created"], false);
            let mut other = arguments.clone();
            let member = ["title", "inputSummary", "summary", "prompt"].into_iter().find(|&member| other.get(member).is_some());
            if let Some(member) = member {
                set(&mut other, member, Some("something else".into()));
                self.refused(operation, other, "conflict");
            }
        }
        record
    }

    fn some(&mut self, kind: fn(&Model) -> Vec<String>) -> Option<String> {
        let all = kind(self.model());
        self.random.maybe_pick(&all)
    }

    fn some_thread(&mut self) -> Option<String> {
        self.some(|model| model.threads.keys().cloned().collect())
    }

    fn some_turn(&mut self) -> Option<String> {
        self.some(|model| model.turns.iter().map(|turn| word(turn, "id")).collect())
    }

    fn some_item(&mut self) -> Option<String> {
        self.some(|model| model.items.iter().map(|item| word(item, "id")).collect())
    }

    fn some_prompt(&mut self) -> Option<String> {
        self.some(|model| model.prompts.iter().map(|prompt| word(prompt, "id")).collect())
    }

    fn step(&mut self) {
        self.tenant = usize::from(self.random.percent(25));
        let advance = self.random.pick(&[0, 0, 0, 1, 1, 1000, -500]);
        self.clock.advance(advance);
        match self.random.weighted(&[5, 4, 3, 1, 2, 6, 8, 2, 16, 14, 12, 3, 6, 6, 2, 5]) {
            0 => self.create_thread(),
            1 => self.update_thread(),
            2 => self.archive_thread(),
            3 => self.delete_thread(),
            4 => self.fork_thread(),
            5 => self.create_turn(),
            6 => self.update_turn(),
            7 => self.recover_turns(),
            8 => self.create_item(),
            9 => self.update_item(),
            10 => self.append_text(),
            11 => self.delete_item(),
            12 => self.admit(),
            13 => self.promote(),
            14 => self.withdraw(),
            _ => self.append_event(),
        }
    }

    fn create_thread(&mut self) {
        let mut given = json!({ "id": self.model().new_id("t"), "metadata": { "n": 1 } });
        if self.random.percent(70) {
            set(&mut given, "title", Some(text(&mut self.random).into()));
        }
        let record = self.create("threads.create", &given);
        assert_eq!(record["archived"], false);
        let id = word(&record, "id");
        let model = self.model();
        model.threads.insert(id.clone(), record);
        model.last.insert(id.clone(), (0, 0));
        model.changes.push(id);
    }

    fn update_thread(&mut self) {
        let Some(id) = self.some_thread() else {
            return self.refused("threads.update", json!({ "id": "ghost", "title": "x" }), "not_found");
        };
        let (member, value) = match self.random.below(4) {
            0 => ("title", None),
            1 => ("model", Some(json!("gpt"))),
            2 => ("metadata", Some(json!({ "n": self.random.below(9) }))),
            _ => ("title", Some(json!(text(&mut self.random)))),
        };
        let answer = self.call("threads.update", json!({ "id": id, member: value }));
        let now = self.now();
        let model = self.model();
        set(model.threads.get_mut(&id).unwrap(), member, value);
        model.changed(&id, now);
        assert_eq!(answer, self.model().threads[&id]);
    }

    fn archive_thread(&mut self) {
        let Some(id) = self.some_thread() else { return };
        let (operation, archived) = self.random.pick(&[("threads.archive", true), ("threads.unarchive", false)]);
        let answer = self.call(operation, json!({ "id": id }));
        let now = self.now();
        let model = self.model();
        if model.threads[&id]["archived"] != archived {
            set(model.threads.get_mut(&id).unwrap(), "archived", Some(archived.into()));
            model.changed(&id, now);
        }
        assert_eq!(answer, self.model().threads[&id]);
    }

    fn delete_thread(&mut self) {
        let Some(id) = self.some_thread() else { return };
        assert_eq!(self.call("threads.delete", json!({ "id": id })), Value::Null);
        let model = self.model();
        model.threads.remove(&id);
        model.last.remove(&id);
        model.changes.retain(|changed| *changed != id);
        for records in [&mut model.turns, &mut model.items, &mut model.prompts, &mut model.events] {
            records.retain(|record| record["threadId"] != id.as_str());
        }
        // Nothing brings it back.
        self.refused("items.create", json!({ "threadId": id, "kind": "error" }), "not_found");
        self.refused("turns.create", json!({ "threadId": id }), "not_found");
        self.refused("inbox.admit", json!({ "threadId": id, "prompt": "x" }), "not_found");
        self.refused("threadEvents.append", json!({ "threadId": id, "type": "x", "data": 1 }), "not_found");
    }

    fn create_turn(&mut self) {
        let Some(thread) = self.some_thread() else { return };
        let mut given = json!({ "id": self.model().new_id("u"), "threadId": thread, "inputSummary": text(&mut self.random) });
        if self.random.percent(60) {
            set(&mut given, "status", Some("in_progress".into()));
        }
        if self.random.percent(60) {
            set(&mut given, "ownerId", Some(self.random.pick(&["tab-1", "tab-2"]).into()));
        }
        let record = self.create("turns.create", &given);
        self.made_turn(record);
    }

    fn made_turn(&mut self, record: Value) {
        let now = self.now();
        let (id, thread) = (record["id"].clone(), word(&record, "threadId"));
        let model = self.model();
        set(model.threads.get_mut(&thread).unwrap(), "latestTurnId", Some(id));
        model.changed(&thread, now);
        model.turns.push(record);
    }

    fn update_turn(&mut self) {
        let Some(id) = self.some_turn() else { return };
        let (from, to) = (
            word(self.model().turn(&id), "status"),
            self.random.pick(&["queued", "in_progress", "in_progress", "completed", "failed", "interrupted", "cancelled"]),
        );
        let may = from == to
            || match (from.as_str(), to) {
                ("queued", "in_progress" | "cancelled" | "failed" | "interrupted") => true,
                ("in_progress", to) => is_terminal(to),
                _ => false,
            };
        if !may {
            return self.refused("turns.update", json!({ "id": id, "status": to }), "invalid_transition");
        }
        let answer = self.call("turns.update", json!({ "id": id, "status": to, "error": "e" }));
        let now = self.now();
        let model = self.model();
        model.end_turn(&id, to, now);
        set(model.turn(&id), "error", Some("e".into()));
        let thread = word(model.turn(&id), "threadId");
        model.changed(&thread, now);
        assert_eq!(answer, *model.turn(&id));
    }

    fn recover_turns(&mut self) {
        let live = self.random.pick(&[json!([]), json!(["tab-1"]), json!(["tab-1", "tab-2"])]);
        self.call("turns.recover", json!({ "liveOwnerIds": live }));
        let now = self.now();
        let is_dead = |turn: &Value| {
            turn["status"] == "in_progress" && turn.get("ownerId").is_none_or(|owner| !live.as_array().unwrap().contains(owner))
        };
        let dead: Vec<String> = self.model().turns.iter().filter(|turn| is_dead(turn)).map(|turn| word(turn, "id")).collect();
        for id in dead {
            let recovered = call(&self.bound(), "turns.get", json!({ "id": id }));
            assert!(recovered["error"].is_object() || recovered["error"].is_string(), "a reason is given: {recovered}");
            let model = self.model();
            model.end_turn(&id, "interrupted", now);
            set(model.turn(&id), "error", recovered.get("error").cloned());
            let thread = word(model.turn(&id), "threadId");
            model.changed(&thread, now);
        }
    }

    /// The copy is what there was, and is from then on a thread like others.
    fn fork_thread(&mut self) {
        let Some(id) = self.some_thread() else { return };
        if self.model().threads.len() > 6 {
            return;
        }
        let at = self.some_item().filter(|item| self.model().item(item)["threadId"] == id.as_str());
        let mut given = json!({ "id": id });
        set(&mut given, "atItem", at.clone().map(Value::from));
        let mut fork = self.call("threads.fork", given);
        set(&mut fork, "created", None);
        let (new, store) = (word(&fork, "id"), self.bound());
        assert_eq!((&fork["title"], &fork["archived"]), (&self.model().threads[&id]["title"], &json!(false)));
        let turns = pages(&store, "turns.list", json!({ "threadId": new }));
        let items = pages(&store, "items.list", json!({ "threadId": new }));
        let model = self.model();
        let mut originals = Model::of(&model.items, "threadId", &id);
        if let Some(at) = &at {
            let end = originals.iter().position(|item| item["id"] == at.as_str()).unwrap();
            originals.truncate(end + 1);
        }
        assert_eq!(items.len(), originals.len());
        for (copy, original) in items.iter().zip(originals) {
            for member in ["kind", "text", "summary", "data", "metadata", "createdAt"] {
                assert_eq!(copy[member], original[member], "{member} of a copy");
            }
            let status = word(original, "status");
            assert_eq!(copy["status"], if is_terminal(&status) { status.as_str() } else { "interrupted" });
        }
        assert!(turns.iter().all(|turn| is_terminal(&word(turn, "status"))));
        let thread = call(&store, "threads.get", json!({ "id": new }));
        let last = items.iter().map(|item| item["position"].as_i64().unwrap()).max().unwrap_or(0);
        model.threads.insert(new.clone(), thread);
        model.last.insert(new.clone(), (last, 0));
        model.changes.push(new);
        model.turns.extend(turns);
        model.items.extend(items);
    }

    fn create_item(&mut self) {
        let Some(thread) = self.some_thread() else { return };
        let kind = self.random.pick(&KINDS);
        let mut given =
            json!({ "id": self.model().new_id("i"), "threadId": thread, "kind": kind, "summary": text(&mut self.random) });
        let turn = self.some_turn().filter(|turn| self.model().turn(turn)["threadId"] == thread.as_str());
        set(&mut given, "turnId", turn.map(Value::from));
        if self.random.percent(60) {
            set(&mut given, "text", Some(text(&mut self.random).into()));
        }
        if self.random.percent(40) {
            set(&mut given, "data", Some(json!({ "output": text(&mut self.random), "exitCode": 0 })));
        }
        if self.random.percent(50) {
            set(&mut given, "status", Some(self.random.pick(&["queued", "in_progress", "completed", "failed"]).into()));
        }
        let record = if self.random.percent(70) {
            self.create("items.create", &given)
        } else {
            let mut record = self.call("items.put", given);
            assert_eq!(record["created"], true);
            set(&mut record, "created", None);
            record
        };
        let now = self.now();
        let model = self.model();
        let (position, _) = model.last.get_mut(&thread).unwrap();
        *position += 1;
        assert_eq!(record["position"], *position);
        let head = model.threads.get_mut(&thread).unwrap();
        set(head, "headItemId", Some(record["id"].clone()));
        if kind.ends_with("_message") {
            set(head, "lastMessageAt", Some(now.into()));
        }
        model.changed(&thread, now);
        model.items.push(record);
    }

    fn update_item(&mut self) {
        let Some(id) = self.some_item() else { return self.refused("items.update", json!({ "id": "ghost" }), "not_found") };
        let mut given = json!({ "id": id });
        if self.random.percent(50) {
            set(&mut given, "text", Some(text(&mut self.random).into()));
        }
        if self.random.percent(30) {
            let data = self.random.pick(&[Value::Null, json!({ "output": "banana split" }), json!({ "output": "date" })]);
            set(&mut given, "data", Some(data));
        }
        if self.random.percent(30) {
            set(&mut given, "summary", Some(text(&mut self.random).into()));
        }
        if self.random.percent(60) {
            set(
                &mut given,
                "status",
                Some(self.random.pick(&["queued", "in_progress", "completed", "failed", "cancelled"]).into()),
            );
        }
        let from = word(self.model().item(&id), "status");
        let to = given["status"].as_str().unwrap_or(&from).to_owned();
        let may = from == to || (from == "queued") || (from == "in_progress" && is_terminal(&to));
        let operation = self.random.pick(&["items.update", "items.put"]);
        if !may {
            return self.refused(operation, given, "invalid_transition");
        }
        let mut answer = self.call(operation, given.clone());
        if operation == "items.put" {
            assert_eq!(answer["created"], false);
            set(&mut answer, "created", None);
        }
        let now = self.now();
        let model = self.model();
        let item = model.item(&id);
        for member in ["text", "data", "summary"] {
            match given.get(member) {
                None => {}
                Some(Value::Null) => set(item, member, None),
                Some(value) => set(item, member, Some(value.clone())),
            }
        }
        Model::enter(item, &to, now, false);
        let thread = word(item, "threadId");
        if given.as_object().unwrap().len() > 1 {
            model.changed(&thread, now);
        }
        assert_eq!(answer, *model.item(&id));
    }

    fn append_text(&mut self) {
        let Some(id) = self.some_item() else { return };
        let delta = format!(" {}", text(&mut self.random));
        let (status, before) = (word(self.model().item(&id), "status"), word(self.model().item(&id), "text"));
        let length = before.encode_utf16().count();
        if is_terminal(&status) {
            return self.refused("items.appendText", json!({ "id": id, "delta": delta }), "invalid_transition");
        }
        if self.random.percent(10) {
            return self.refused("items.appendText", json!({ "id": id, "delta": delta, "at": length + 1 }), "conflict");
        }
        let answer = self.call("items.appendText", json!({ "id": id, "delta": delta, "at": length }));
        let whole = format!("{before}{delta}");
        assert_eq!(answer["length"], whole.encode_utf16().count());
        let read = self.call("items.readText", json!({ "id": id, "after": length }));
        assert_eq!((&read["text"], &read["status"]), (&json!(delta), &json!("in_progress")));
        let now = self.now();
        let model = self.model();
        let item = model.item(&id);
        set(item, "text", Some(whole.into()));
        Model::enter(item, "in_progress", now, false);
        let thread = word(item, "threadId");
        if status == "queued" {
            model.changed(&thread, now);
        }
    }

    fn delete_item(&mut self) {
        let Some(id) = self.some_item() else { return };
        self.call("items.delete", json!({ "id": id }));
        let now = self.now();
        let model = self.model();
        let thread = word(model.item(&id), "threadId");
        model.items.retain(|item| item["id"] != id.as_str());
        let newest = Model::of(&model.items, "threadId", &thread).last().map(|item| item["id"].clone());
        set(model.threads.get_mut(&thread).unwrap(), "headItemId", newest);
        model.changed(&thread, now);
        self.refused("items.appendText", json!({ "id": id, "delta": "late" }), "not_found");
    }

    fn admit(&mut self) {
        let Some(thread) = self.some_thread() else { return };
        let delivery = self.random.pick(&["queue", "queue", "steer"]);
        let given =
            json!({ "id": self.model().new_id("p"), "threadId": thread, "prompt": text(&mut self.random), "delivery": delivery });
        let record = self.create("inbox.admit", &given);
        let model = self.model();
        let (_, admitted) = model.last.get_mut(&thread).unwrap();
        *admitted += 1;
        assert_eq!((&record["admittedSequence"], &record["status"]), (&json!(*admitted), &json!("admitted")));
        model.prompts.push(record);
    }

    /// The prompts of a thread that wait, oldest first.
    fn waiting(&mut self, thread: &str, delivery: &str) -> Vec<Value> {
        let all = Model::of(&self.model().prompts, "threadId", thread);
        all.into_iter().filter(|prompt| prompt["status"] == "admitted" && prompt["delivery"] == delivery).cloned().collect()
    }

    fn promoted(&mut self, id: &str, turn: Option<&str>) -> Value {
        let now = self.now();
        let prompt = self.model().prompts.iter_mut().find(|prompt| prompt["id"] == id).unwrap();
        set(prompt, "status", Some("promoted".into()));
        set(prompt, "promotedAt", Some(now.into()));
        set(prompt, "turnId", turn.map(Value::from));
        prompt.clone()
    }

    fn promote(&mut self) {
        if self.random.percent(60) {
            let Some(thread) = self.some_thread() else { return };
            let turn = json!({ "id": self.model().new_id("u"), "status": "in_progress", "ownerId": "tab-2" });
            let mut answer = self.call("inbox.promoteNext", json!({ "threadId": thread, "turn": turn }));
            let Some(oldest) = self.waiting(&thread, "queue").first().map(|prompt| word(prompt, "id")) else {
                return assert_eq!(answer, Value::Null);
            };
            let expected = self.promoted(&oldest, turn["id"].as_str());
            assert_eq!(answer["prompt"], expected);
            let turn = answer["turn"].take();
            assert_eq!((&turn["status"], &turn["ownerId"]), (&json!("in_progress"), &json!("tab-2")));
            return self.made_turn(turn);
        }
        let Some(id) = self.some_prompt() else { return };
        let prompt = self.model().prompts.iter().find(|prompt| prompt["id"] == id.as_str()).unwrap().clone();
        let turn = self.some_turn().filter(|turn| self.model().turn(turn)["threadId"] == prompt["threadId"]);
        let mut given = json!({ "id": id });
        set(&mut given, "turnId", turn.clone().map(Value::from));
        if prompt["status"] != "admitted" {
            return self.refused("inbox.promote", given, "conflict");
        }
        let status = turn.as_ref().map(|turn| word(self.model().turn(turn), "status"));
        if status.is_some_and(|status| !matches!(status.as_str(), "queued" | "in_progress")) {
            return self.refused("inbox.promote", given, "invalid_transition");
        }
        let answer = self.call("inbox.promote", given);
        assert_eq!(answer, self.promoted(&id, turn.as_deref()));
        if let Some(turn) = turn.filter(|_| prompt["delivery"] == "steer") {
            let count = self.model().turn(&turn)["steerCount"].as_i64().unwrap() + 1;
            set(self.model().turn(&turn), "steerCount", Some(count.into()));
            let now = self.now();
            self.model().changed(prompt["threadId"].as_str().unwrap(), now);
        }
    }

    fn withdraw(&mut self) {
        let Some(id) = self.some_prompt() else { return };
        let status = self.model().prompts.iter().find(|prompt| prompt["id"] == id.as_str()).unwrap()["status"].clone();
        if status == "promoted" {
            return self.refused("inbox.withdraw", json!({ "id": id }), "conflict");
        }
        let answer = self.call("inbox.withdraw", json!({ "id": id }));
        let now = self.now();
        let prompt = self.model().prompts.iter_mut().find(|prompt| prompt["id"] == id.as_str()).unwrap();
        if status == "admitted" {
            set(prompt, "status", Some("withdrawn".into()));
            set(prompt, "withdrawnAt", Some(now.into()));
        }
        assert_eq!(answer, *prompt);
    }

    fn append_event(&mut self) {
        let Some(thread) = self.some_thread() else { return };
        let given = json!({ "threadId": thread, "type": "x.note", "data": { "n": self.random.below(100) } });
        let sequence = self.call("threadEvents.append", given.clone());
        let now = self.now();
        let model = self.model();
        model.last_event += 1;
        assert_eq!(sequence, model.last_event);
        model.events.push(common::with(&given, json!({ "sequence": sequence, "createdAt": now })));
    }

    fn reopen(&mut self) {
        self.stores.iter().for_each(|store| store.close().unwrap());
        self.stores = open(&self.path, &self.clock);
        self.told.push("reopened".to_owned());
    }

    /// Everything that can be read is what the model says.
    fn check(&mut self) {
        for tenant in 0..2 {
            self.tenant = tenant;
            let (store, limit) = (self.bound(), 1 + self.random.below(40));
            let queries: Vec<(Vec<&str>, Value)> = (0..6).map(|_| self.query()).collect();
            let model = &self.models[tenant];
            let list =
                |operation: &str, filter: Value| pages(&store, operation, common::with(&filter, json!({ "limit": limit })));
            for archived in ["exclude", "include", "only"] {
                let expected: Vec<&Value> = model
                    .threads
                    .values()
                    .filter(|thread| archived == "include" || (archived == "only") == (thread["archived"] == true))
                    .collect();
                let mut listed = list("threads.list", json!({ "archived": archived }));
                listed.sort_by_key(|thread| word(thread, "id"));
                assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "threads.list {archived}");
            }
            let recent = call(&store, "threads.recent", json!({ "archived": "include", "limit": 200 }));
            let recent: Vec<String> = recent["items"].as_array().unwrap().iter().map(|thread| word(thread, "id")).collect();
            assert_eq!(recent, model.changes.iter().rev().cloned().collect::<Vec<_>>(), "threads.recent");
            for (id, thread) in &model.threads {
                let of = json!({ "threadId": id });
                assert_eq!(call(&store, "threads.get", json!({ "id": id })), *thread);
                for (operation, records) in [
                    ("turns.list", &model.turns),
                    ("items.list", &model.items),
                    ("inbox.list", &model.prompts),
                    ("threadEvents.list", &model.events),
                ] {
                    let expected = Model::of(records, "threadId", id);
                    assert_eq!(list(operation, of.clone()).iter().collect::<Vec<_>>(), expected, "{operation} of {id}");
                }
                let waiting = |delivery: &str| {
                    let all = Model::of(&model.prompts, "threadId", id);
                    all.into_iter()
                        .filter(|prompt| prompt["status"] == "admitted" && prompt["delivery"] == delivery)
                        .cloned()
                        .collect::<Vec<_>>()
                };
                assert_eq!(call(&store, "inbox.next", of.clone()), waiting("queue").first().cloned().unwrap_or_default());
                assert_eq!(call(&store, "inbox.steers", of.clone()), Value::from(waiting("steer")));
            }
            for turn in &model.turns {
                assert_eq!(call(&store, "turns.get", json!({ "id": turn["id"] })), *turn);
                let expected = Model::of(&model.items, "turnId", turn["id"].as_str().unwrap());
                assert_eq!(list("items.list", json!({ "turnId": turn["id"] })).iter().collect::<Vec<_>>(), expected);
            }
            for (operation, records) in [("items.get", &model.items), ("inbox.get", &model.prompts)] {
                for record in records {
                    assert_eq!(call(&store, operation, json!({ "id": record["id"] })), *record);
                }
            }
            let mut open = list("turns.listIncomplete", json!({}));
            open.sort_by_key(|turn| model.turns.iter().position(|known| known["id"] == turn["id"]));
            let expected: Vec<&Value> = model.turns.iter().filter(|turn| !is_terminal(&word(turn, "status"))).collect();
            assert_eq!(open.iter().collect::<Vec<_>>(), expected, "turns.listIncomplete");
            for (query, filter) in queries {
                let asked = common::with(&json!({ "text": query.join(" "), "limit": 200 }), filter.clone());
                let hits = call(&store, "threads.search", asked.clone());
                let found: Vec<String> = hits["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|hit| word(hit, if hit.get("itemId").is_some() { "itemId" } else { "threadId" }))
                    .collect();
                let expected =
                    model.search(&query, filter["threadId"].as_str(), filter["archived"].as_str().unwrap_or("exclude"));
                assert_eq!(found.len(), found.iter().collect::<BTreeSet<_>>().len(), "{asked} finds something twice: {found:?}");
                assert_eq!((found.into_iter().collect::<BTreeSet<_>>(), &hits["more"]), (expected, &json!(false)), "{asked}");
                *self.seen.entry("threads.search").or_default() += hits["items"].as_array().unwrap().len();
                for hit in hits["items"].as_array().unwrap() {
                    assert!(hit["snippet"].as_array().unwrap().iter().any(|piece| piece["match"] == true), "{asked}: {hit}");
                }
            }
        }
    }

    /// What somebody may look for, and where.
    fn query(&mut self) -> (Vec<&'static str>, Value) {
        const ASKED: [&str; 18] = [
            "apple",
            "ap",
            "apri",
            "ban",
            "banan",
            "uber",
            "ÜBERRASCHUNG",
            "学",
            "习",
            "学习",
            "main",
            "main.rs",
            "rs",
            "cher",
            "cherri",
            "date",
            "don't",
            "fig",
        ];
        let query = (0..=self.random.below(2)).map(|_| self.random.pick(&ASKED)).collect();
        let mut filter = json!({});
        set(&mut filter, "archived", self.random.pick(&[None, Some("include"), Some("only")]).map(Value::from));
        let thread = self.some_thread().filter(|_| self.random.percent(30));
        set(&mut filter, "threadId", thread.map(Value::from));
        (query, filter)
    }
}

fn run(seed: u64) -> BTreeMap<&'static str, usize> {
    let mut world = World::new(seed);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        for step in 0..STEPS {
            world.step();
            if world.random.percent(2) {
                world.reopen();
            }
            if step % 10 == 9 {
                world.check();
            }
        }
    }));
    if outcome.is_err() {
        let told = &world.told[world.told.len().saturating_sub(25)..];
        panic!("seed {seed}; RUNKEEP_SEED={seed} repeats it. Up to the failure:\n{}", told.join("\n"));
    }
    world.seen
}

#[test]
fn the_chat_side_is_what_its_model_says() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("RUNKEEP_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("RUNKEEP_CASES").unwrap_or(20)).collect(),
    };
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in seeds {
        for (what, count) in run(seed) {
            *seen.entry(what).or_default() += count;
        }
    }
    println!("{seen:?}");
    // What is never called, or never refused, is not tested.
    for what in CALLED {
        assert!(seen.get(what).is_some_and(|count| *count > 0), "{what} never happened: {seen:?}");
    }
}
