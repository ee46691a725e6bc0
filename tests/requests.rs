//! Calls whose answer was lost are sent again: each is applied once, and answered as it was the first time.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Folder, clock, in_memory, options};
use runkeep::{Answer, Call, Durability, ErrorCode, Given, ManualClock, Options, Outcome, Request, Result, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

/// A client of a store, as a host sees it.
struct Client {
    id: &'static str,
    number: i64,
    acked: i64,
}

impl Client {
    fn new(id: &'static str) -> Self {
        Self { id, number: 0, acked: 0 }
    }

    fn request(&self, again: bool) -> Request<'static> {
        Request { client: self.id, number: self.number, again, acked: self.acked }
    }

    /// Makes the next call.
    fn send(&mut self, store: &Store, operation: &str, arguments: &Value) -> Result<Value> {
        self.number += 1;
        one(store, operation, arguments, self.request(false))
    }

    /// Makes the last call once more.
    fn again(&self, store: &Store, operation: &str, arguments: &Value) -> Result<Value> {
        one(store, operation, arguments, self.request(true))
    }

    /// Has received the answer to all calls so far.
    fn ack(&mut self) {
        self.acked = self.number;
    }
}

fn one(store: &Store, operation: &str, arguments: &Value, request: Request<'_>) -> Result<Value> {
    let text = arguments.to_string();
    let mut outcome = store.call_many(&[Call { request: Some(request), ..Call::new(operation, &text) }]);
    outcome.answers.remove(0).map(value)
}

fn value(answer: Answer) -> Value {
    serde_json::from_str(&answer.text).unwrap()
}

/// Calls that run together, with the requests they are.
fn group(store: &Store, calls: &[(&str, Value, Option<Request<'_>>)]) -> Outcome {
    let texts: Vec<String> = calls.iter().map(|call| call.1.to_string()).collect();
    let calls: Vec<_> =
        calls.iter().zip(&texts).map(|(call, text)| Call { request: call.2, ..Call::new(call.0, text) }).collect();
    store.call_many(&calls)
}

/// What the log holds, by client and number.
fn kept(path: &Path) -> BTreeMap<(String, i64), String> {
    let database = Connection::open(path).unwrap();
    let mut statement = database.prepare("SELECT client, number, answer FROM requests").unwrap();
    let rows = statement.query_map((), |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

fn numbers(path: &Path, client: &str) -> Vec<i64> {
    kept(path).into_keys().filter(|(of, _)| of == client).map(|(_, number)| number).collect()
}

struct File {
    folder: Folder,
    clock: ManualClock,
}

impl File {
    fn new() -> (Self, Store) {
        let file = Self { folder: Folder::in_memory(), clock: clock() };
        let store = file.open();
        (file, store)
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.file("store.db")
    }

    fn open(&self) -> Store {
        Store::open_with(self.path(), options(&self.clock)).unwrap()
    }
}

#[test]
fn a_call_that_is_sent_again_is_answered_and_not_applied_again() {
    let (store, clock) = in_memory();
    let mut client = Client::new("c");
    let create = json!({ "workflowId": "w", "tags": ["t"] });
    let first = client.send(&store, "executions.create", &create).unwrap();
    clock.advance(1000);
    assert_eq!(client.again(&store, "executions.create", &create).unwrap(), first);
    assert_eq!(client.again(&store, "executions.create", &create).unwrap(), first);
    assert_eq!(common::call(&store, "executions.count", json!({}))["total"], 1);
    // Marked as sent before, but never applied: it is applied now.
    client.number += 1;
    let event = json!({ "executionId": first["id"], "type": "x-a" });
    let applied = client.again(&store, "events.append", &event).unwrap();
    assert_eq!(applied["sequence"], 1);
    assert_eq!(client.again(&store, "events.append", &event).unwrap(), applied);
}

#[test]
fn what_was_answered_from_the_log_changed_nothing_now() {
    let (store, _) = in_memory();
    let client = Client { number: 1, ..Client::new("c") };
    let create = json!({ "id": "run", "workflowId": "w" });
    let call = |again| group(&store, &[("executions.create", create.clone(), Some(client.request(again)))]);
    assert_eq!(
        serde_json::to_value(call(false).changes).unwrap(),
        json!([{ "tenant": "default", "topics": { "executions": ["run"] } }])
    );
    assert_eq!(call(true).changes, []);
}

#[test]
fn a_reply_that_is_lost_between_commit_and_crash_is_found_after_reopening() {
    let (file, store) = File::new();
    let mut client = Client::new("c");
    let create = json!({ "workflowId": "w" });
    let lost = client.send(&store, "executions.create", &create).unwrap();
    // Everybody is gone; another owner opens the file.
    drop(store);
    let store = file.open();
    assert_eq!(client.again(&store, "executions.create", &create).unwrap(), lost);
    assert_eq!(common::call(&store, "executions.count", json!({}))["total"], 1);
}

#[test]
fn members_of_a_group_are_kept_one_by_one_also_where_one_fails() {
    let (file, store) = File::new();
    let calls = |again| {
        let request = |number| Some(Request { client: "c", number, again, acked: 0 });
        let other = Some(Request { client: "d", number: 1, again, acked: 0 });
        vec![
            ("executions.create", json!({ "workflowId": "w", "metadata": 1 }), request(1)),
            ("events.append", json!({ "executionId": "none", "type": "x-a" }), request(2)),
            ("queue.enqueue", json!({ "queue": "q" }), other),
            ("executions.count", json!({}), request(3)),
            ("queue.enqueue", json!({ "queue": "q" }), None),
        ]
    };
    let first = group(&store, &calls(false));
    let read = |outcome: &Outcome| -> Vec<String> {
        outcome
            .answers
            .iter()
            .map(|answer| answer.as_ref().map_or_else(|e| e.code().as_str().to_owned(), |a| a.text.clone()))
            .collect()
    };
    assert_eq!(first.answers[1].as_ref().unwrap_err().code(), ErrorCode::NotFound);
    assert_eq!(kept(&file.path()).into_keys().collect::<Vec<_>>(), [("c".to_owned(), 1), ("d".to_owned(), 1)]);
    let second = group(&store, &calls(true));
    assert_eq!(read(&second)[..4], read(&first)[..4]);
    // Only the one that nobody asked to apply once was applied twice.
    assert_eq!(common::call(&store, "queues.stats", json!({}))["counts"]["pending"], 3);
    assert_eq!(common::call(&store, "executions.count", json!({}))["total"], 1);
    // A group in which all goes well.
    let request = |number, again| Some(Request { client: "e", number, again, acked: 0 });
    let calls = |again| [1, 2].map(|number| ("queue.enqueue", json!({ "queue": "e" }), request(number, again)));
    let first = group(&store, &calls(false));
    assert_eq!(read(&group(&store, &calls(true))), read(&first));
    assert_eq!(common::call(&store, "queues.stats", json!({ "queue": "e" }))["counts"]["pending"], 2);
}

#[test]
fn another_call_under_the_same_number_is_refused_and_changes_nothing() {
    let (store, _) = in_memory();
    let mut client = Client::new("c");
    client.send(&store, "queue.enqueue", &json!({ "queue": "q" })).unwrap();
    for (operation, arguments) in [("queue.enqueue", json!({ "queue": "other" })), ("queues.pause", json!({ "name": "q" }))] {
        let error = client.again(&store, operation, &arguments).unwrap_err();
        assert_eq!((error.code(), &error.details()["number"]), (ErrorCode::Conflict, &json!(1)));
    }
    // The same call for another tenant is another call.
    common::call(&store, "tenants.create", json!({ "id": "t" }));
    assert_eq!(client.again(&store, "queue.enqueue@t", &json!({ "queue": "q" })).unwrap_err().code(), ErrorCode::Conflict);
    // Not marked as sent before: numbers must not be used twice.
    let error = one(&store, "queue.enqueue", &json!({ "queue": "q" }), client.request(false)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Conflict);
    assert_eq!(common::call(&store, "queues.stats", json!({}))["counts"]["pending"], 1);
    // Another client has numbers of its own.
    Client::new("d").send(&store, "queue.enqueue", &json!({ "queue": "q" })).unwrap();
    assert_eq!(common::call(&store, "queues.stats", json!({}))["counts"]["pending"], 2);
}

#[test]
fn a_claim_is_kept_as_its_items_and_answered_as_they_are_now() {
    let (file, store) = File::new();
    let mut client = Client::new("c");
    for n in 0..3 {
        common::call(&store, "queue.enqueue", json!({ "id": format!("i-{n}"), "queue": "q", "payload": "x".repeat(1000) }));
    }
    let claim = json!({ "workerId": "w", "queues": ["q"], "limit": 3, "leaseMs": 1000 });
    let claimed = client.send(&store, "queue.claim", &claim).unwrap();
    assert_eq!(claimed.as_array().unwrap().len(), 3);
    assert_eq!(kept(&file.path())[&("c".to_owned(), 1)], r#"[["i-0",1],["i-1",1],["i-2",1]]"#);
    assert_eq!(client.again(&store, "queue.claim", &claim).unwrap(), claimed);
    // One is settled, the lease of another runs out and it is claimed by somebody else: neither is this claim's any more.
    common::call(&store, "queue.complete", json!({ "id": "i-0", "fence": 1 }));
    common::call(&store, "queue.renew", json!({ "id": "i-2", "fence": 1, "leaseMs": 100_000 }));
    file.clock.advance(5000);
    common::call(&store, "sweep", json!({}));
    file.clock.advance(10_000);
    assert_eq!(common::claim(&store, "q")[0]["fence"], 2);
    let again = client.again(&store, "queue.claim", &claim).unwrap();
    let ids: Vec<_> = again.as_array().unwrap().iter().map(|item| &item["id"]).collect();
    assert_eq!(ids, ["i-2"]);
    assert_eq!(again[0]["leaseExpiresAt"], common::START + 100_000);
    // Nothing new was claimed by asking again.
    assert_eq!(common::call(&store, "queues.stats", json!({}))["counts"]["claimed"], 2);
}

/// The redriving of many is a procedure and is run again: what is redriven already is no dead letter any more.
#[test]
fn one_dead_letter_is_redriven_once() {
    let (file, store) = File::new();
    let mut client = Client::new("c");
    common::call(&store, "queue.enqueue", json!({ "id": "i", "queue": "q" }));
    let die = || {
        let item = common::claim_one(&store, "q");
        common::fail(&store, &item, json!({ "retryable": false }));
    };
    die();
    let redrive = json!({ "id": "i", "payload": 5 });
    let first = client.send(&store, "deadLetters.redrive", &redrive).unwrap();
    assert_eq!(client.again(&store, "deadLetters.redrive", &redrive).unwrap(), first);
    die();
    assert_eq!(client.again(&store, "deadLetters.redrive", &redrive).unwrap(), first);
    assert_eq!(common::call(&store, "queue.get", json!({ "id": "i" }))["status"], "dead_lettered");
    let error = client.again(&store, "deadLetters.redrive", &json!({ "id": "i" })).unwrap_err();
    assert_eq!((error.code(), &error.details()["client"]), (ErrorCode::Conflict, &json!("c")));
    client.ack();
    let many = json!({ "queue": "q" });
    assert_eq!(client.send(&store, "deadLetters.redrive", &many).unwrap()["redriven"], 1);
    assert_eq!(client.again(&store, "deadLetters.redrive", &many).unwrap()["redriven"], 0);
    assert_eq!(numbers(&file.path(), "c"), [1]);
    client.send(&store, "queues.pause", &json!({ "name": "q" })).unwrap();
    assert_eq!(numbers(&file.path(), "c"), [3]);
}

#[test]
fn the_secret_of_a_token_is_not_kept() {
    let (file, store) = File::new();
    let mut client = Client::new("c");
    let create = json!({ "name": "n", "role": "viewer" });
    let lost = client.send(&store, "tokens.create", &create).unwrap();
    let again = client.again(&store, "tokens.create", &create).unwrap();
    assert_eq!(again["info"], lost["info"]);
    assert_eq!(common::call(&store, "tokens.validate", json!({ "token": lost["token"] })), Value::Null);
    assert_eq!(common::call(&store, "tokens.validate", json!({ "token": again["token"] }))["id"], lost["info"]["id"]);
    assert_eq!(common::call(&store, "tokens.list", json!({}))["items"].as_array().unwrap().len(), 1);
    // In a batch neither.
    let batch = json!({ "calls": [
        { "operation": "tokens.create", "arguments": { "name": "m", "role": "viewer" } },
        { "operation": "queue.enqueue", "arguments": { "queue": "q" } },
        { "operation": "queue.claim", "arguments": { "workerId": "w", "queues": ["q"] } },
    ] });
    let first = client.send(&store, "batch", &batch).unwrap();
    let again = client.again(&store, "batch", &batch).unwrap();
    assert_eq!((&again[0]["info"], &again[1], &again[2]), (&first[0]["info"], &first[1], &first[2]));
    assert_eq!(common::call(&store, "tokens.validate", json!({ "token": again[0]["token"] }))["name"], "m");
    for answer in kept(&file.path()).values() {
        assert!(!answer.contains("rk_"), "{answer}");
    }
}

#[test]
fn what_was_acknowledged_goes_with_the_next_call_that_is_kept() {
    let (file, store) = File::new();
    let (mut client, mut other) = (Client::new("c"), Client::new("d"));
    let enqueue = json!({ "queue": "q" });
    for client in [&mut client, &mut other] {
        for _ in 0..3 {
            client.send(&store, "queue.enqueue", &enqueue).unwrap();
        }
    }
    assert_eq!(numbers(&file.path(), "c"), [1, 2, 3]);
    client.ack();
    // A call that changes nothing writes nothing.
    client.send(&store, "executions.count", &json!({})).unwrap();
    client.send(&store, "queue.claim", &json!({ "workerId": "w", "queues": ["none"] })).unwrap();
    assert_eq!(numbers(&file.path(), "c"), [1, 2, 3]);
    client.send(&store, "queue.enqueue", &enqueue).unwrap();
    assert_eq!(numbers(&file.path(), "c"), [6]);
    assert_eq!(numbers(&file.path(), "d"), [1, 2, 3]);
    // In a group, those of each client.
    client.ack();
    other.acked = 2;
    client.number += 1;
    other.number += 1;
    let both =
        [("queue.enqueue", enqueue.clone(), Some(client.request(false))), ("queue.enqueue", enqueue, Some(other.request(false)))];
    assert!(group(&store, &both).answers.iter().all(Result::is_ok));
    assert_eq!((numbers(&file.path(), "c"), numbers(&file.path(), "d")), (vec![7], vec![3, 4]));
}

#[test]
fn nothing_is_kept_of_what_reads_or_changed_nothing() {
    let (file, store) = File::new();
    let mut client = Client::new("c");
    let workflow = json!({ "id": "w", "version": "1", "definition": {} });
    common::call(&store, "workflows.put", workflow.clone());
    common::call(&store, "executions.create", json!({ "id": "run", "workflowId": "w" }));
    common::call(&store, "queue.enqueue", json!({ "id": "i", "queue": "q", "delayMs": 1000 }));
    for (operation, arguments) in [
        ("executions.list", json!({})),
        ("exportDatabase", json!({})),
        ("workflows.put", workflow),
        ("executions.create", json!({ "id": "run", "workflowId": "w" })),
        ("executions.setStatus", json!({ "id": "run", "status": "pending" })),
        ("queue.enqueue", json!({ "id": "i", "queue": "q", "delayMs": 1000 })),
        ("queue.claim", json!({ "workerId": "w", "queues": ["q"] })),
        ("sweep", json!({})),
    ] {
        client.send(&store, operation, &arguments).unwrap();
    }
    client.send(&store, "executions.create", &json!({ "workflowId": "" })).unwrap_err();
    client.send(&store, "events.append", &json!({ "executionId": "none", "type": "x-a" })).unwrap_err();
    assert_eq!(kept(&file.path()), BTreeMap::new());
}

#[test]
fn what_is_kept_of_clients_that_are_gone_goes_after_ten_minutes() {
    let (file, store) = File::new();
    let enqueue = json!({ "queue": "q" });
    for id in ["alive", "dead", "late"] {
        let mut client = Client::new(id);
        client.send(&store, "queue.enqueue", &enqueue).unwrap();
        client.send(&store, "queue.enqueue", &enqueue).unwrap();
    }
    file.clock.advance(10 * 60 * 1000);
    Client { number: 2, ..Client::new("late") }.send(&store, "queue.enqueue", &enqueue).unwrap();
    store.forget_clients(&["alive"]).unwrap();
    assert_eq!(kept(&file.path()).len(), 7, "it is not over ten minutes yet");
    file.clock.advance(1);
    store.forget_clients(&["alive"]).unwrap();
    assert_eq!(numbers(&file.path(), "dead"), [0; 0]);
    assert_eq!((numbers(&file.path(), "alive"), numbers(&file.path(), "late")), (vec![1, 2], vec![1, 2, 3]));
    // Where the clock went back, what was kept in its future must not stay for ever.
    file.clock.advance(-60 * 60 * 1000);
    store.forget_clients(&["alive"]).unwrap();
    assert_eq!(kept(&file.path()).into_keys().map(|(client, _)| client).collect::<Vec<_>>(), ["alive", "alive"]);
}

#[test]
fn bytes_count_when_a_repeat_is_told_from_another_call() {
    let (store, _) = in_memory();
    let request = |again| Some(Request { client: "c", number: 1, again, acked: 0 });
    let given = |bytes| Given { arguments: "{}", bytes: Some(bytes) };
    // An operation that takes no bytes refuses them, repeated or not.
    for again in [false, true] {
        let call = Call { operation: "queue.enqueue", given: given(b"1"), request: request(again) };
        assert_eq!(store.call_many(&[call]).answers[0].as_ref().unwrap_err().code(), ErrorCode::InvalidArgument);
    }
}

/// Owners die in the middle of writes, at places that nobody chose, and every call whose reply was lost is sent again.
#[test]
#[cfg(unix)]
fn of_200_killed_owners_no_call_is_lost_or_applied_twice() {
    if let Some(path) = std::env::var_os("RUNKEEP_TEST_STORE") {
        return answer_until_killed(path);
    }
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    const KILLS: i64 = 200;
    let folder = Folder::in_memory();
    let path = folder.file("store.db");
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    Store::open(&path).unwrap();
    let (mut number, mut again, mut acked) = (1, false, 0);
    // How many calls were applied when their owner died, and how many not.
    let (mut applied, mut lost) = (0, 0);
    let watch = Connection::open(&path).unwrap();
    for _ in 0..KILLS {
        let mut owner = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "of_200_killed_owners_no_call_is_lost_or_applied_twice", "--nocapture"])
            .env("RUNKEEP_TEST_STORE", &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut to = owner.stdin.take().unwrap();
        let mut from = BufReader::new(owner.stdout.take().unwrap()).lines();
        // Answers some calls in full, then dies at some time after another one was sent.
        for _ in 0..random(4) {
            writeln!(to, "{number} {} {acked}", i32::from(again)).unwrap();
            let answer = from.by_ref().map(|line| line.unwrap()).find(|line| line.starts_with("answer ")).unwrap();
            assert_eq!(answer, format!("answer {number}"));
            (acked, number, again) = (number, number + 1, false);
        }
        writeln!(to, "{number} {} {acked}", i32::from(again)).unwrap();
        // Until it says that it has begun; from there on a part of what a call takes.
        from.by_ref().map(|line| line.unwrap()).find(|line| *line == format!("begin {number}")).unwrap();
        for _ in 0..random(60_000) {
            std::hint::spin_loop();
        }
        owner.kill().unwrap();
        owner.wait().unwrap();
        let rows = "SELECT count(*) FROM items WHERE payload = ?1";
        match watch.query_row(rows, [number.to_string()], |row| row.get::<_, i64>(0)).unwrap() {
            0 => lost += 1,
            _ => applied += 1,
        }
        again = true;
    }
    let store = Store::open(&path).unwrap();
    let request = Request { client: "c", number, again, acked };
    let arguments = json!({ "queue": "q", "payload": number });
    one(&store, "queue.enqueue", &arguments, request).unwrap();
    let mut numbers = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = common::call(&store, "queue.list", json!({ "limit": 1000, "cursor": cursor }));
        numbers.extend(page["items"].as_array().unwrap().iter().map(|item| item["payload"].as_i64().unwrap()));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(numbers, (1..=number).collect::<Vec<_>>());
    println!("{number} calls; of {KILLS} whose reply was lost {applied} had been applied, and {lost} had not");
}

/// What the test above does in the processes that it starts and kills: reads calls, `number again acked` a line, and answers each.
#[cfg(unix)]
fn answer_until_killed(path: std::ffi::OsString) {
    let store = Store::open(path).unwrap();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let call: Vec<i64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let &[number, again, acked] = call.as_slice() else { panic!("{line}") };
        println!("begin {number}");
        let request = Request { client: "c", number, again: again == 1, acked };
        one(&store, "queue.enqueue", &json!({ "queue": "q", "payload": number }), request).unwrap();
        println!("answer {number}");
    }
}

/// Lesson 46, first half: an export misses what is in the WAL.
#[test]
fn an_export_has_everything_that_was_committed() {
    let (file, store) = File::new();
    let create =
        |id: String| common::call(&store, "executions.create", json!({ "id": id, "workflowId": "w", "input": "é".repeat(3000) }));
    (0..100).for_each(|n| drop(create(format!("run-{n}"))));
    assert!(std::fs::metadata(file.folder.file("store.db-wal")).unwrap().len() > 500_000, "it is in the WAL");
    let call = Call::new("exportDatabase", "{}");
    let answer = store.call_many(&[call]).answers.remove(0).unwrap();
    let bytes = answer.bytes.clone().unwrap();
    assert_eq!(value(answer), json!({ "schemaVersion": runkeep::SCHEMA_VERSION, "size": bytes.len() }));
    assert_eq!(bytes[18..20], [1, 1]);
    create("after".to_owned());
    // By itself, without a WAL beside it.
    let copy = file.folder.file("copy.db");
    std::fs::write(&copy, &bytes).unwrap();
    let whole: String = Connection::open(&copy).unwrap().query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    let copy = Store::open_with(&copy, options(&file.clock)).unwrap();
    assert_eq!(common::call(&copy, "executions.count", json!({}))["total"], 100);
    let of = |store| common::call(store, "executions.list", json!({ "limit": 100 }))["items"].clone();
    assert_eq!(of(&copy), of(&store));
    create("still here".to_owned());
    // A store in memory too; and one that is bound to a tenant not.
    let (memory, _) = in_memory();
    common::call(&memory, "executions.create", json!({ "id": "run", "workflowId": "w" }));
    let exported = memory.upkeep().export_database(runkeep::export::ExportDatabase {}).unwrap();
    std::fs::write(file.folder.file("memory.db"), exported.bytes).unwrap();
    let copy = Store::open_with(file.folder.file("memory.db"), options(&file.clock)).unwrap();
    assert_eq!(common::call(&copy, "executions.get", json!({ "id": "run" }))["workflowId"], "w");
    common::call(&memory, "tenants.create", json!({ "id": "t" }));
    assert_eq!(common::code(&memory.for_tenant("t"), "exportDatabase", json!({})), "unsupported");
}

#[test]
fn durability_is_chosen_at_opening_and_can_be_changed() {
    let (file, store) = File::new();
    for durability in [Durability::Strict, Durability::Relaxed] {
        store.set_durability(durability).unwrap();
        common::call(&store, "queue.enqueue", json!({ "queue": "q" }));
    }
    let strict = Store::open_with(file.path(), Options { durability: Durability::Strict, ..options(&file.clock) }).unwrap();
    common::call(&strict, "queue.enqueue", json!({ "queue": "q" }));
    assert_eq!(common::call(&store, "queues.stats", json!({}))["counts"]["pending"], 3);
    strict.close().unwrap();
    assert_eq!(strict.set_durability(Durability::Relaxed).unwrap_err().code(), ErrorCode::Closed);
}
