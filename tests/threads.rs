//! Threads that several connections write to, and rows of theirs that cannot be read.

mod common;

use std::collections::BTreeSet;
use std::sync::Barrier;

use common::{Folder, call, clock, code, ids, in_memory, options, try_call};
use runkeep::{ManualClock, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

/// A file, opened several times.
fn connections<const COUNT: usize>(folder: &Folder) -> [Store; COUNT] {
    let clock = clock();
    std::array::from_fn(|_| Store::open_with(folder.file("store.db"), options(&clock)).unwrap())
}

/// Runs each connection's part at the same time.
fn at_once<R: Send>(stores: &[Store], part: impl Fn(usize, &Store) -> R + Sync) -> Vec<R> {
    let barrier = Barrier::new(stores.len());
    std::thread::scope(|scope| {
        let run = |(index, store)| {
            let (part, barrier) = (&part, &barrier);
            scope.spawn(move || {
                barrier.wait();
                part(index, store)
            })
        };
        let threads: Vec<_> = stores.iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Lesson 35.
#[test]
fn processes_that_append_at_once_share_one_rising_sequence() {
    let folder = Folder::new();
    let stores = connections::<4>(&folder);
    for id in ["a", "b"] {
        call(&stores[0], "threads.create", json!({ "id": id }));
    }
    let given = at_once(&stores, |index, store| {
        let append = |n| {
            let event = json!({ "threadId": if n % 2 == 0 { "a" } else { "b" }, "type": "x", "data": [index, n] });
            call(store, "threadEvents.append", event).as_i64().unwrap()
        };
        (0..100).map(append).collect::<Vec<_>>()
    });
    for own in &given {
        assert!(own.is_sorted_by(|a, b| a < b), "{own:?}");
    }
    let all: BTreeSet<i64> = given.iter().flatten().copied().collect();
    assert_eq!(all, (1..=400).collect());
    for (thread, parity) in [("a", 0), ("b", 1)] {
        let events = call(&stores[1], "threadEvents.list", json!({ "threadId": thread, "limit": 1000 }));
        let events = events["items"].as_array().unwrap();
        assert_eq!(events.len(), 200);
        assert!(events.is_sorted_by_key(|event| event["sequence"].as_i64()));
        for event in events {
            let (index, n) = (event["data"][0].as_u64().unwrap() as usize, event["data"][1].as_u64().unwrap() as usize);
            assert_eq!((given[index][n], n % 2), (event["sequence"].as_i64().unwrap(), parity));
        }
    }
    // Nor does a number come back when the newest events are gone.
    call(&stores[2], "threads.delete", json!({ "id": "a" }));
    call(&stores[3], "threads.delete", json!({ "id": "b" }));
    call(&stores[0], "threads.create", json!({ "id": "a" }));
    assert_eq!(call(&stores[1], "threadEvents.append", json!({ "threadId": "a", "type": "x" })), 401);
}

/// Lesson 31.
#[test]
fn nothing_that_comes_late_brings_a_deleted_thread_back() {
    for round in 0..20 {
        let folder = Folder::new();
        let stores = connections::<3>(&folder);
        call(&stores[0], "threads.create", json!({ "id": "t" }));
        call(&stores[0], "turns.create", json!({ "id": "u", "threadId": "t", "status": "in_progress" }));
        call(&stores[0], "items.create", json!({ "id": "i", "threadId": "t", "turnId": "u", "kind": "assistant_message" }));
        let late = [
            ("items.appendText", json!({ "id": "i", "delta": "x" })),
            ("items.create", json!({ "threadId": "t", "kind": "error" })),
            ("items.put", json!({ "id": "j", "threadId": "t", "kind": "error" })),
            ("turns.create", json!({ "threadId": "t" })),
            ("turns.update", json!({ "id": "u", "status": "completed" })),
            ("threadEvents.append", json!({ "threadId": "t", "type": "x" })),
            ("inbox.admit", json!({ "threadId": "t", "prompt": "x" })),
            ("threads.update", json!({ "id": "t", "title": "x" })),
        ];
        at_once(&stores, |index, store| match index {
            0 => drop(call(store, "threads.delete", json!({ "id": "t" }))),
            _ => {
                for (operation, arguments) in late.iter().cycle().skip(index + round).take(late.len()) {
                    // A turn that has ended is another reason why an item no longer takes text.
                    let outcome = try_call(store, operation, arguments.clone()).map_err(|error| error.code().as_str());
                    assert!(matches!(outcome, Ok(_) | Err("not_found" | "invalid_transition")), "{operation}: {outcome:?}");
                }
            }
        });
        for (operation, arguments) in late {
            assert_eq!(code(&stores[1], operation, arguments), "not_found", "{operation}");
        }
        let raw = Connection::open(folder.file("store.db")).unwrap();
        for table in
            ["threads", "thread_documents", "turns", "thread_items", "item_contents", "item_deltas", "thread_events", "inbox"]
        {
            let rows: i64 = raw.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0)).unwrap();
            assert_eq!(rows, 0, "{table}");
        }
    }
}

/// Lesson 32.
#[test]
fn two_tabs_that_change_different_fields_of_a_thread_both_have_their_way() {
    let folder = Folder::new();
    let stores = connections::<3>(&folder);
    call(&stores[0], "threads.create", json!({ "id": "t" }));
    for round in 0..30 {
        let changes = [
            json!({ "title": format!("title {round}"), "mode": format!("mode {round}") }),
            json!({ "archived": round % 2 == 0, "model": format!("model {round}") }),
            json!({ "metadata": { "round": round }, "workspace": null }),
        ];
        at_once(&stores, |index, store| {
            call(store, "threads.update", common::with(&json!({ "id": "t" }), changes[index].clone()))
        });
        let thread = call(&stores[0], "threads.get", json!({ "id": "t" }));
        for (field, value) in changes.iter().flat_map(|changes| changes.as_object().unwrap()) {
            assert_eq!(&thread[field], value, "{field} in round {round}");
        }
    }
}

/// Of two tabs that end a turn at the same moment, one says how it ended.
#[test]
fn a_turn_ends_once() {
    let folder = Folder::new();
    let stores = connections::<2>(&folder);
    call(&stores[0], "threads.create", json!({ "id": "t" }));
    for round in 0..30 {
        let id = format!("u{round}");
        call(&stores[0], "turns.create", json!({ "id": id, "threadId": "t", "status": "in_progress" }));
        let outcomes = at_once(&stores, |index, store| {
            let status = ["completed", "cancelled"][index];
            try_call(store, "turns.update", json!({ "id": id, "status": status })).map_err(|error| error.code().as_str())
        });
        let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|outcome| outcome.is_ok());
        assert_eq!((won.len(), lost), (1, vec![Err("invalid_transition")]));
        assert_eq!(call(&stores[1], "turns.get", json!({ "id": id }))["status"], won[0].as_ref().unwrap()["status"]);
    }
}

fn file_with_turns() -> (Folder, Store, Connection, ManualClock) {
    let (folder, clock) = (Folder::new(), clock());
    let store = Store::open_with(folder.file("store.db"), options(&clock)).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    for id in ["first", "bad", "last"] {
        call(&store, "turns.create", json!({ "id": id, "threadId": "t", "status": "in_progress", "ownerId": "gone" }));
    }
    let raw = Connection::open(folder.file("store.db")).unwrap();
    raw.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
    (folder, store, raw, clock)
}

/// Lesson 29.
#[test]
fn a_turn_that_cannot_be_read_is_named_and_keeps_no_other_from_being_recovered() {
    let damages = [
        "UPDATE turns SET status = 'finished' WHERE id = 'bad'",
        "UPDATE turns SET metadata = '{' WHERE id = 'bad'",
        "UPDATE turns SET owner_id = CAST(x'ff' AS TEXT) WHERE id = 'bad'",
    ];
    for damage in damages {
        let (_folder, store, raw, _clock) = file_with_turns();
        assert_eq!(raw.execute(damage, ()).unwrap(), 1);
        let error = try_call(&store, "turns.get", json!({ "id": "bad" })).unwrap_err();
        assert_eq!(
            (error.code().as_str(), &error.details()["table"], &error.details()["id"]),
            ("corrupt", &json!("turns"), &json!("bad"))
        );
        for filter in [json!({}), json!({ "status": "in_progress" }), json!({ "order": "desc" })] {
            let page = call(&store, "turns.list", common::with(&json!({ "threadId": "t" }), filter.clone()));
            assert_eq!(page["items"].as_array().unwrap().len(), 2, "{damage} {filter}");
            assert_eq!(page["damaged"][0]["id"], "bad", "{damage} {filter}");
        }
        let recovered = call(&store, "turns.recover", json!({ "liveOwnerIds": [] }));
        // One that is not known to be open, or that can be judged all the same, is no matter of a recovery's.
        let interrupted = recovered["interrupted"].as_array().unwrap().iter().filter(|id| *id != "bad");
        assert!(interrupted.eq(["first", "last"]), "{damage}: {recovered}");
    }
}

/// Lesson 29, of a part of a turn.
#[test]
fn an_item_that_cannot_be_read_leaves_its_turn_as_it_was() {
    let (_folder, store, raw, _clock) = file_with_turns();
    let item = json!({ "id": "i", "threadId": "t", "turnId": "bad", "kind": "assistant_message", "status": "in_progress" });
    call(&store, "items.create", item);
    assert_eq!(raw.execute("UPDATE thread_items SET id = CAST(x'ff' AS TEXT)", ()).unwrap(), 1);
    let recovered = call(&store, "turns.recover", json!({ "liveOwnerIds": [] }));
    assert_eq!(recovered["interrupted"], json!(["first", "last"]));
    assert_eq!(recovered["damaged"][0]["table"], "thread_items");
    assert_eq!(call(&store, "turns.get", json!({ "id": "bad" }))["status"], "in_progress");
}

/// Lesson 29.
#[test]
fn a_thread_that_cannot_be_read_is_named_and_the_others_are_there() {
    for damage in [
        "UPDATE threads SET title = CAST(x'ff' AS TEXT) WHERE id = 'bad'",
        "UPDATE thread_documents SET metadata = '{' WHERE thread = (1 << 40) + 2",
    ] {
        let (folder, clock) = (Folder::new(), clock());
        let store = Store::open_with(folder.file("store.db"), options(&clock)).unwrap();
        for id in ["first", "bad", "last"] {
            call(&store, "threads.create", json!({ "id": id }));
        }
        let raw = Connection::open(folder.file("store.db")).unwrap();
        raw.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        assert_eq!(raw.execute(damage, ()).unwrap(), 1);
        let page = call(&store, "threads.list", json!({ "archived": "include" }));
        assert_eq!(ids(page["items"].as_array().unwrap()), ["first", "last"], "{damage}");
        assert_eq!(page["damaged"][0]["id"], "bad", "{damage}");
        assert_eq!(code(&store, "threads.get", json!({ "id": "bad" })), "corrupt");
        let recent = call(&store, "threads.recent", json!({ "limit": 2 }));
        assert_eq!(recent["items"][0]["id"], "last", "{damage}");
    }
}

#[test]
fn a_call_that_fails_leaves_nothing_of_a_fork() {
    let (store, _clock) = in_memory();
    call(&store, "threads.create", json!({ "id": "t" }));
    call(&store, "turns.create", json!({ "id": "u", "threadId": "t" }));
    let calls = json!([
        { "operation": "threads.fork", "arguments": { "id": "t", "newId": "fork" } },
        { "operation": "threads.update", "arguments": { "id": "none", "title": "x" } },
    ]);
    assert_eq!(code(&store, "batch", json!({ "calls": calls })), "not_found");
    assert_eq!(call(&store, "threads.get", json!({ "id": "fork" })), Value::Null);
}

#[test]
fn a_sweep_removes_no_more_threads_than_their_items_allow_and_goes_on_with_the_next_one() {
    let (store, clock) = in_memory();
    for thread in ["a", "b", "c"] {
        call(&store, "threads.create", json!({ "id": thread }));
        for _ in 0..40 {
            call(&store, "items.create", json!({ "threadId": thread, "kind": "status" }));
        }
    }
    call(&store, "retention.set", json!({ "threadsMs": 1_000 }));
    clock.advance(2_000);
    let mut left = Vec::new();
    loop {
        let report = call(&store, "sweep", json!({ "limit": 50 }));
        assert_eq!(report["errors"], json!([]));
        left.push(call(&store, "threads.list", json!({}))["items"].as_array().unwrap().len());
        if report["more"] == json!(false) {
            break;
        }
    }
    assert_eq!(left, [2, 1, 0]);
}
