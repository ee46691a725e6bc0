//! The prompt inbox when something breaks: each prompt runs exactly once and in order, whatever crashes, and at whichever step.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Folder, call, dump, pages, try_call};
use runkeep::{ErrorCode, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

fn admit(store: &Store, id: &str) {
    call(store, "inbox.admit", json!({ "threadId": "t", "id": id, "prompt": id, "delivery": "queue" }));
}

fn prompts(store: &Store) -> Vec<Value> {
    pages(store, "inbox.list", json!({ "threadId": "t" }))
}

/// The prompts whose turns have come to their end, in the order of the turns. No two prompts have one turn.
fn ran(store: &Store) -> Vec<String> {
    let mut ended = Vec::new();
    for prompt in prompts(store) {
        if prompt["turnId"].is_null() {
            continue;
        }
        let turn = call(store, "turns.get", json!({ "id": prompt["turnId"] }));
        assert!(!turn.is_null(), "{prompt} is promoted and has no turn");
        if turn["status"] == "completed" {
            ended.push((turn["endedAt"].as_i64(), prompt["turnId"].clone(), prompt["id"].as_str().unwrap().to_owned()));
        }
    }
    let mut turns: Vec<String> = ended.iter().map(|(_, turn, _)| turn.to_string()).collect();
    turns.sort();
    turns.dedup();
    assert_eq!(turns.len(), ended.len(), "two prompts have one turn");
    ended.into_iter().map(|(_, _, id)| id).collect()
}

/// What an agent does next: it goes on with a turn that was begun, or takes the next prompt. Answers whether there was something to do.
fn agent_step(store: &Store) -> bool {
    for prompt in prompts(store).iter().filter(|prompt| !prompt["turnId"].is_null()) {
        let turn = call(store, "turns.get", json!({ "id": prompt["turnId"] }));
        let next = match turn["status"].as_str().unwrap() {
            "queued" => "in_progress",
            "in_progress" => "completed",
            _ => continue,
        };
        call(store, "turns.update", json!({ "id": turn["id"], "status": next }));
        return true;
    }
    !call(store, "inbox.promoteNext", json!({ "threadId": "t" })).is_null()
}

/// A store as it is on the disk at this moment: what a crash leaves behind.
fn crash_image(path: &Path, folder: &Folder, name: &str) -> Store {
    for suffix in ["", "-wal"] {
        let from = format!("{}{suffix}", path.display());
        if Path::new(&from).exists() {
            std::fs::copy(from, folder.file(&format!("{name}{suffix}"))).unwrap();
        }
    }
    Store::open(folder.file(name)).unwrap()
}

#[test]
fn a_crash_between_any_two_steps_loses_and_repeats_no_prompt() {
    let folder = Folder::in_memory();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    call(&store, "turns.create", json!({ "id": "running", "threadId": "t", "status": "in_progress" }));
    let mut admitted = 0;
    let mut crashes = 0;
    loop {
        // The crash, and another agent that finds what is left.
        let copy = crash_image(&path, &folder, &format!("crash-{crashes}.db"));
        crashes += 1;
        while agent_step(&copy) {}
        let expected: Vec<String> = (0..admitted).map(|n| format!("p{n}")).collect();
        assert_eq!(ran(&copy), expected, "after {crashes} steps");
        assert!(prompts(&copy).iter().all(|prompt| prompt["status"] == "promoted"));
        // The next step of the one that did not crash.
        match admitted {
            0..3 => {
                admit(&store, &format!("p{admitted}"));
                admitted += 1;
            }
            _ if agent_step(&store) => {}
            _ => break,
        }
    }
    assert_eq!(ran(&store), ["p0", "p1", "p2"]);
    // Three admissions; of each prompt the turn, its beginning and its end; and before all of them.
    assert_eq!(crashes, 1 + 3 + 9);
}

#[test]
fn whichever_statement_fails_an_operation_is_done_as_a_whole_or_not_at_all() {
    let folder = Folder::in_memory();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    call(&store, "turns.create", json!({ "id": "running", "threadId": "t", "status": "in_progress" }));
    let raw = Connection::open(&path).unwrap();
    let mut failures = 0;
    for (operation, arguments) in [
        ("inbox.admit", json!({ "threadId": "t", "id": "a", "prompt": "a", "delivery": "queue" })),
        ("inbox.admit", json!({ "threadId": "t", "id": "s", "prompt": "s", "delivery": "steer" })),
        ("inbox.admit", json!({ "threadId": "t", "id": "b", "prompt": "b", "delivery": "queue" })),
        ("inbox.admit", json!({ "threadId": "t", "id": "c", "prompt": "c", "delivery": "queue" })),
        ("inbox.promote", json!({ "id": "s", "turnId": "running" })),
        ("inbox.promoteNext", json!({ "threadId": "t", "turn": { "id": "first" } })),
        ("inbox.withdraw", json!({ "id": "c" })),
        ("inbox.promoteNext", json!({ "threadId": "t" })),
    ] {
        for table in ["inbox", "threads", "turns", "thread_documents"] {
            for change in ["INSERT", "UPDATE", "DELETE"] {
                for moment in ["BEFORE", "AFTER"] {
                    let trigger =
                        format!("CREATE TRIGGER fault {moment} {change} ON {table} BEGIN SELECT RAISE(FAIL, 'fault'); END");
                    raw.execute_batch(&trigger).unwrap();
                    // Where it does no such thing, it would succeed: a failure after it undoes it.
                    let before = dump(&path);
                    let failed = try_call(
                        &store,
                        "batch",
                        json!({ "calls": [{ "operation": operation, "arguments": arguments },
                                                                             { "operation": "inbox.promote", "arguments": { "id": "ghost" } }] }),
                    );
                    let error = failed.unwrap_err();
                    let is_fault = error.message().contains("fault");
                    assert!(is_fault || error.code() == ErrorCode::NotFound, "{operation} {table} {change}: {error}");
                    if is_fault {
                        failures += 1;
                        assert!(try_call(&store, operation, arguments.clone()).is_err());
                    }
                    assert_eq!(dump(&path), before, "{operation} {moment} {change} {table}");
                    raw.execute_batch("DROP TRIGGER fault").unwrap();
                }
            }
        }
        assert!(!call(&store, operation, arguments).is_null());
    }
    // Each operation changes two tables, or withdraws one prompt.
    assert!(failures >= 2 * (7 * 2 + 1), "{failures} failures");
    let stand: Vec<_> = prompts(&store)
        .iter()
        .map(|prompt| (prompt["id"].clone(), prompt["status"].clone(), prompt["turnId"].is_null()))
        .collect();
    let expected = [("a", "promoted", false), ("s", "promoted", false), ("b", "promoted", false), ("c", "withdrawn", true)];
    assert_eq!(stand, expected.map(|(id, status, no_turn)| (json!(id), json!(status), no_turn)));
    assert_eq!(call(&store, "turns.get", json!({ "id": "running" }))["steerCount"], 1);
}

/// Set for the process that is to be killed: the file of its store.
const TO_BE_KILLED: &str = "RUNKEEP_TEST_INBOX_TO_BE_KILLED";

/// Admits and runs prompts until it is killed. Says what was acknowledged.
fn work_until_killed(path: &str) {
    let store = Store::open(path).unwrap();
    let first = prompts(&store).len();
    for n in first.. {
        println!("admitting p{n}");
        admit(&store, &format!("p{n}"));
        println!("admitted p{n}");
        if n % 3 == 2 {
            while agent_step(&store) {}
        }
    }
}

#[test]
fn a_killed_process_loses_and_repeats_no_prompt() {
    if let Ok(path) = std::env::var(TO_BE_KILLED) {
        return work_until_killed(&path);
    }
    let folder = Folder::in_memory();
    let path = folder.file("store.db");
    call(&Store::open(&path).unwrap(), "threads.create", json!({ "id": "t" }));
    let mut acknowledged = 0;
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_process_loses_and_repeats_no_prompt", "--nocapture"])
            .env(TO_BE_KILLED, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = 5 + round;
        while left > 0 {
            let line = lines.next().expect("the process has ended by itself").unwrap();
            left -= i32::from(line.starts_with("admitted") || line.starts_with("admitting"));
            acknowledged += usize::from(line.starts_with("admitted"));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged += lines.map_while(Result::ok).filter(|line| line.starts_with("admitted")).count();
        let store = Store::open(&path).unwrap();
        let all = prompts(&store);
        // The last one may have been admitted without being acknowledged.
        assert!((acknowledged..=acknowledged + 1).contains(&all.len()), "{} prompts, {acknowledged} acknowledged", all.len());
        acknowledged = all.len();
        for (n, prompt) in (1..).zip(&all) {
            assert_eq!((&prompt["admittedSequence"], &prompt["id"]), (&json!(n), &json!(format!("p{}", n - 1))));
        }
        let ran = ran(&store);
        let expected: Vec<String> = (0..ran.len()).map(|n| format!("p{n}")).collect();
        assert_eq!(ran, expected, "round {round}");
        assert!(all[ran.len()..].iter().filter(|prompt| prompt["status"] == "promoted").count() <= 1, "one turn at a time");
    }
    let store = Store::open(&path).unwrap();
    while agent_step(&store) {}
    assert_eq!(ran(&store).len(), acknowledged);
    assert!(acknowledged >= 30, "{acknowledged}");
}

#[test]
fn a_prompt_that_cannot_be_read_is_named_and_never_runs_as_something_else() {
    let folder = Folder::new();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    for id in ["a", "b", "c"] {
        admit(&store, id);
    }
    let raw = Connection::open(&path).unwrap();
    raw.execute("UPDATE inbox SET prompt = '{' WHERE id = 'b'", ()).unwrap();
    let page = call(&store, "inbox.list", json!({ "threadId": "t" }));
    assert_eq!(common::ids(page["items"].as_array().unwrap()), ["a", "c"]);
    assert_eq!((&page["damaged"][0]["table"], &page["damaged"][0]["id"]), (&json!("inbox"), &json!("b")));
    assert_eq!(common::code(&store, "inbox.get", json!({ "id": "b" })), "corrupt");
    call(&store, "inbox.promoteNext", json!({ "threadId": "t" }));
    let before = dump(&path);
    for operation in ["inbox.next", "inbox.promoteNext"] {
        assert_eq!(common::code(&store, operation, json!({ "threadId": "t" })), "corrupt");
    }
    assert_eq!(dump(&path), before);
}
