//! Items of threads: their order, their text while it streams, and what a crash leaves of it.

mod common;

use common::{Folder, START, call, clock, code, ids, in_memory, options, pages, try_call, with};
use runkeep::threads::items::{AppendText, Piece, ReadText, ThreadItemId};
use runkeep::{ErrorCode, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

fn create(store: &Store, id: &str, more: Value) -> Value {
    let item = json!({ "id": id, "threadId": "t", "kind": "assistant_message" });
    call(store, "items.create", with(&item, more))
}

fn append(store: &Store, id: &str, delta: &str) -> i64 {
    call(store, "items.appendText", json!({ "id": id, "delta": delta }))["length"].as_i64().unwrap()
}

fn text(store: &Store, id: &str) -> String {
    call(store, "items.get", json!({ "id": id }))["text"].as_str().unwrap().to_owned()
}

/// Lesson 23.
#[test]
fn items_of_one_millisecond_stay_in_order_after_reopening_and_after_an_update() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    let expected: Vec<String> = (0..100).map(|n| format!("item-{}", (n * 37) % 100)).collect();
    for id in &expected {
        assert_eq!(create(&store, id, json!({}))["createdAt"], START);
    }
    store.close().unwrap();
    let store = Store::open_with(&path, options(&clock)).unwrap();
    let order = || pages(&store, "items.list", json!({ "threadId": "t", "limit": 9 }));
    assert_eq!(ids(&order()), expected);
    call(&store, "items.update", json!({ "id": expected[2], "status": "completed", "text": "other" }));
    append(&store, &expected[3], "more");
    assert_eq!(ids(&order()), expected);
    let newest = call(&store, "items.list", json!({ "threadId": "t", "order": "desc", "limit": 1 }));
    assert_eq!(newest["items"][0]["id"], expected[99]);
}

/// Lesson 29: a row that cannot be read is named, and the others are there.
#[test]
fn an_unreadable_item_is_named_and_hides_no_other() {
    let spoil = [
        "UPDATE thread_items SET status = 'running' WHERE id = 'b'",
        "UPDATE thread_items SET kind = 'poem' WHERE id = 'b'",
        "UPDATE item_contents SET data = '{broken' WHERE item = (SELECT key FROM thread_items WHERE id = 'b')",
        "UPDATE item_contents SET blobs = '[{\"blobId\":5}]' WHERE item = (SELECT key FROM thread_items WHERE id = 'b')",
        "UPDATE item_contents SET text = CAST(x'ff' AS TEXT) WHERE item = (SELECT key FROM thread_items WHERE id = 'b')",
        "DELETE FROM item_contents WHERE item = (SELECT key FROM thread_items WHERE id = 'b')",
        "DELETE FROM turns WHERE id = 'u'",
    ];
    for spoil in spoil {
        let folder = Folder::new();
        let path = folder.file("store.db");
        let store = Store::open(&path).unwrap();
        call(&store, "threads.create", json!({ "id": "t" }));
        call(&store, "turns.create", json!({ "id": "u", "threadId": "t" }));
        create(&store, "a", json!({}));
        create(&store, "b", json!({ "turnId": "u", "data": {}, "blobs": [{ "blobId": "x" }] }));
        create(&store, "c", json!({}));
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch("PRAGMA ignore_check_constraints = on; PRAGMA foreign_keys = off;").unwrap();
        assert_eq!(raw.execute(spoil, ()).unwrap(), 1, "{spoil}");
        let page = call(&store, "items.list", json!({ "threadId": "t" }));
        assert_eq!(ids(page["items"].as_array().unwrap()), ["a", "c"], "{spoil}");
        let damaged = &page["damaged"];
        assert_eq!((damaged.as_array().unwrap().len(), &damaged[0]["id"]), (1, &json!("b")), "{spoil}: {damaged}");
        let error = try_call(&store, "items.get", json!({ "id": "b" })).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Corrupt, "{spoil}");
        assert_eq!((&error.details()["table"], &error.details()["id"]), (&json!("thread_items"), &json!("b")), "{spoil}");
        // One after the other, the pages are whole too.
        assert_eq!(ids(&pages(&store, "items.list", json!({ "threadId": "t", "limit": 1 }))), ["a", "c"], "{spoil}");
    }
}

#[test]
fn an_unreadable_delta_is_corrupt_and_its_item_is_named() {
    let folder = Folder::new();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    call(&store, "turns.create", json!({ "id": "u", "threadId": "t", "status": "in_progress" }));
    for id in ["a", "b", "c"] {
        create(&store, id, json!({ "turnId": if id == "a" { Value::Null } else { json!("u") } }));
        append(&store, id, "one");
        append(&store, id, "two");
    }
    let spoil = "UPDATE item_deltas SET text = CAST(x'fffe' AS TEXT) WHERE text = 'one' AND item = (SELECT key FROM thread_items WHERE id = 'b')";
    assert_eq!(Connection::open(&path).unwrap().execute(spoil, ()).unwrap(), 1);
    let page = call(&store, "items.list", json!({ "threadId": "t" }));
    assert_eq!((&page["items"][0]["text"], &page["damaged"][0]["id"]), (&json!("onetwo"), &json!("b")));
    for (operation, arguments) in [
        ("items.get", json!({ "id": "b" })),
        ("items.readText", json!({ "id": "b" })),
        ("items.update", json!({ "id": "b", "status": "completed" })),
    ] {
        assert_eq!(code(&store, operation, arguments), "corrupt", "{operation}");
    }
    // It keeps neither its turn nor its neighbours from ending.
    call(&store, "turns.update", json!({ "id": "u", "status": "interrupted" }));
    let page = call(&store, "items.list", json!({ "turnId": "u" }));
    assert_eq!((ids(page["items"].as_array().unwrap()), &page["damaged"][0]["id"]), (vec!["c"], &json!("b")));
    assert_eq!((&page["items"][0]["status"], &page["items"][0]["text"]), (&json!("interrupted"), &json!("onetwo")));
    // What is behind it can be read, and another text put in its place.
    assert_eq!(call(&store, "items.readText", json!({ "id": "b", "after": 3 }))["text"], "two");
    call(&store, "items.update", json!({ "id": "b", "text": "mended", "status": "completed" }));
    assert_eq!(text(&store, "b"), "mended");
}

/// Whenever the process is killed, each delta that was acknowledged is there.
#[test]
fn a_crash_loses_no_acknowledged_delta() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    create(&store, "i", json!({}));
    let mut expected = String::new();
    for n in 0..120 {
        let delta = format!("{n} 🎉,");
        expected.push_str(&delta);
        append(&store, "i", &delta);
        if n % 10 > 0 {
            continue;
        }
        // What a killed process leaves behind: the files as they are, without a checkpoint.
        let copy = folder.file(&format!("copy-{n}.db"));
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(folder.file("store.db-wal"), folder.file(&format!("copy-{n}.db-wal"))).unwrap();
        let after = Store::open_with(&copy, options(&clock)).unwrap();
        assert_eq!(text(&after, "i"), expected);
        let length = expected.encode_utf16().count() as i64;
        assert_eq!(call(&after, "items.readText", json!({ "id": "i", "after": length }))["length"], length);
        append(&after, "i", "on");
        call(&after, "items.update", json!({ "id": "i", "status": "completed" }));
        assert_eq!(text(&after, "i"), format!("{expected}on"));
    }
}

/// One process streams and is killed in the middle of it, again and again; another one reads what it had acknowledged.
#[test]
#[cfg(unix)]
fn a_killed_process_loses_no_acknowledged_delta() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    const ROLE: &str = "RUNKEEP_TEST_STREAMS_INTO";
    if let Ok(path) = std::env::var(ROLE) {
        // The process that will be killed.
        let store = Store::open(path).unwrap();
        let mut length = call(&store, "items.readText", json!({ "id": "i" }))["length"].as_i64().unwrap();
        loop {
            let delta = format!("{length};");
            length =
                call(&store, "items.appendText", json!({ "id": "i", "delta": delta, "at": length }))["length"].as_i64().unwrap();
            println!("acknowledged {length}");
        }
    }
    let folder = Folder::new();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    create(&store, "i", json!({}));
    for round in 1..=5 {
        let name = "a_killed_process_loses_no_acknowledged_delta";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(ROLE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut acknowledged =
            lines.filter_map(|line| line.strip_prefix("acknowledged ").and_then(|text| text.parse::<usize>().ok()));
        acknowledged.by_ref().nth(40 * round).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let last = acknowledged.last().unwrap_or(0);
        let text = text(&store, "i");
        assert!(text.len() >= last, "{} of {last} bytes are there", text.len());
        let mut expected = String::new();
        while expected.len() < text.len() {
            expected.push_str(&format!("{};", expected.len()));
        }
        assert_eq!(text, expected);
    }
}

#[test]
fn pieces_are_cut_and_joined_anywhere() {
    let (store, _) = in_memory();
    call(&store, "threads.create", json!({ "id": "t" }));
    let id = create(&store, "i", json!({}))["id"].as_str().unwrap().parse::<runkeep::Name>().unwrap();
    let append =
        |delta: Piece, at: i64| store.items().append_text(AppendText { id: id.clone(), delta, at: Some(at) }).unwrap().length;
    assert_eq!(append("a🎉".into(), 0), 3);
    let half: Piece = serde_json::from_str(r#""\ud83c""#).unwrap();
    assert_eq!((half.length(), half.to_string().as_str()), (1, "\u{fffd}"));
    assert_eq!(append(half, 3), 4);
    let new = store.items().read_text(ReadText { id: id.clone(), after: Some(2), version: None }).unwrap();
    assert_eq!((new.length, serde_json::to_string(&new.text).unwrap().as_str()), (4, r#""\udf89\ud83c""#));
    assert_eq!(store.items().get(ThreadItemId { id: id.clone() }).unwrap().unwrap().text, "a🎉\u{fffd}");
    assert_eq!(append(serde_json::from_str(r#""\udf89\u0000\\ud83c""#).unwrap(), 4), 12);
    let new = store.items().read_text(ReadText { id: id.clone(), after: Some(3), version: Some(new.version) }).unwrap();
    assert_eq!(new.text, Piece::from("🎉\0\\ud83c"));
    assert_eq!(store.items().get(ThreadItemId { id }).unwrap().unwrap().text, "a🎉🎉\0\\ud83c");
    // However short the text beside a half is, and whatever looks like one.
    for (text, length, shown) in [
        ("\u{200d}\\ud83c", 2, "\u{200d}\u{fffd}"),
        ("\\udf89é", 2, "\u{fffd}é"),
        ("\\udf89\\ud83c", 2, "\u{fffd}\u{fffd}"),
        ("\\ud83c\\udf89", 2, "🎉"),
        ("\\\\ud83c", 6, "\\ud83c"),
        ("\\\\\\ud83c", 2, "\\\u{fffd}"),
        ("\\ud83c\\ud83c", 2, "\u{fffd}\u{fffd}"),
        ("", 0, ""),
    ] {
        let piece: Piece = serde_json::from_str(&format!("\"{text}\"")).unwrap();
        assert_eq!((piece.length(), piece.to_string().as_str()), (length, shown), "{text}");
        assert_eq!(serde_json::from_str::<Piece>(&serde_json::to_string(&piece).unwrap()).unwrap(), piece, "{text}");
    }
    for wrong in ["5", "null", "[\"x\"]", "{}", r#""\x""#, "true"] {
        assert!(serde_json::from_str::<Piece>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn halves_in_the_text_of_a_call_meet() {
    let (store, _) = in_memory();
    call(&store, "threads.create", json!({ "id": "t" }));
    create(&store, "i", json!({}));
    let append = |delta: &str| store.call("items.appendText", &format!(r#"{{"id":"i","delta":"{delta}"}}"#)).unwrap();
    assert_eq!(append(r"a\ud83c"), r#"{"length":2}"#);
    let read = |after: i64| store.call("items.readText", &json!({ "id": "i", "after": after }).to_string()).unwrap();
    assert_eq!(read(0), r#"{"text":"a\ud83c","length":2,"status":"in_progress","version":"1.0"}"#);
    assert_eq!(append(r"\udf89b"), r#"{"length":4}"#);
    assert_eq!(read(2), r#"{"text":"\udf89b","length":4,"status":"in_progress","version":"1.0"}"#);
    assert_eq!(text(&store, "i"), "a🎉b");
    for delta in ["5", "null", "{\"a\":1}", "[1]", "true"] {
        let error = store.call("items.appendText", &format!(r#"{{"id":"i","delta":{delta}}}"#)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains("delta") && error.message().contains("expected a string"), "{error}");
        assert_eq!(error.details()["path"], "delta");
    }
}

/// What is left of an item in the tables, by what it was deleted with.
#[test]
fn a_deleted_item_leaves_nothing_behind() {
    let folder = Folder::new();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    create(&store, "i", json!({}));
    append(&store, "i", "some");
    let raw = Connection::open(&path).unwrap();
    let rows = |table: &str| raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0)).unwrap();
    let tables = ["thread_items", "item_contents", "item_deltas"];
    assert_eq!(tables.map(rows), [1, 1, 1]);
    call(&store, "items.delete", json!({ "id": "i" }));
    assert_eq!(tables.map(rows), [0, 0, 0]);
    // Deltas that were joined are gone too.
    create(&store, "i", json!({}));
    append(&store, "i", "some");
    call(&store, "items.update", json!({ "id": "i", "status": "completed" }));
    assert_eq!(tables.map(rows), [1, 1, 0]);
    assert_eq!(text(&store, "i"), "some");
}

/// A suspended tenant begins nothing, and what runs is recorded to its end.
#[test]
fn a_running_turn_of_a_suspended_tenant_is_recorded() {
    let (store, _) = in_memory();
    call(&store, "tenants.create", json!({ "id": "acme" }));
    let tenant = store.for_tenant("acme");
    call(&tenant, "threads.create", json!({ "id": "t" }));
    for (id, status) in [("runs", "in_progress"), ("waits", "queued")] {
        call(&tenant, "turns.create", json!({ "id": id, "threadId": "t", "status": status }));
    }
    create(&tenant, "answer", json!({ "turnId": "runs" }));
    call(&store, "tenants.update", json!({ "id": "acme", "status": "suspended" }));
    append(&tenant, "answer", "is recorded");
    create(&tenant, "call", json!({ "turnId": "runs", "kind": "tool_call" }));
    call(&tenant, "items.put", json!({ "id": "result", "threadId": "t", "turnId": "runs", "kind": "tool_call" }));
    call(&tenant, "items.update", json!({ "id": "answer", "status": "completed" }));
    for of in [json!({ "turnId": "waits" }), json!({})] {
        let item = with(&json!({ "id": "new", "threadId": "t", "kind": "user_message" }), of);
        assert_eq!(code(&tenant, "items.create", item.clone()), "tenant_suspended");
        assert_eq!(code(&tenant, "items.put", item), "tenant_suspended");
    }
    assert_eq!(ids(&pages(&tenant, "items.list", json!({ "threadId": "t" }))), ["answer", "call", "result"]);
}

/// What a fork has of the items: all of them in order, and nothing that is still going on.
#[test]
fn a_fork_has_the_items_up_to_its_point() {
    let (store, clock) = in_memory();
    call(&store, "threads.create", json!({ "id": "t" }));
    call(&store, "turns.create", json!({ "id": "u", "threadId": "t", "status": "in_progress" }));
    create(&store, "asks", json!({ "turnId": "u", "kind": "user_message", "text": "question", "metadata": { "a": 1 } }));
    create(&store, "gone", json!({}));
    create(
        &store,
        "calls",
        json!({ "turnId": "u", "parentId": "asks", "kind": "tool_call", "data": [1], "blobs": [{ "blobId": "b" }] }),
    );
    create(&store, "streams", json!({ "turnId": "u", "parentId": "calls" }));
    append(&store, "streams", "so ");
    append(&store, "streams", "far");
    create(&store, "after", json!({ "parentId": "streams" }));
    call(&store, "items.delete", json!({ "id": "gone" }));
    clock.advance(5);
    let before = pages(&store, "items.list", json!({ "threadId": "t" }));
    let fork = call(&store, "threads.fork", json!({ "id": "t", "atItem": "streams" }))["id"].clone();
    let copies = pages(&store, "items.list", json!({ "threadId": fork }));
    assert_eq!(pages(&store, "items.list", json!({ "threadId": "t" })), before);
    assert_eq!(copies.len(), 3);
    let turn = &copies[0]["turnId"];
    assert_eq!(call(&store, "turns.get", json!({ "id": turn }))["threadId"], fork);
    let expected = [
        (json!(null), json!({ "position": 1 })),
        (copies[0]["id"].clone(), json!({ "position": 2, "status": "interrupted", "endedAt": START + 5 })),
        (copies[1]["id"].clone(), json!({ "position": 3, "status": "interrupted", "endedAt": START + 5, "text": "so far" })),
    ];
    for ((copy, original), (parent, more)) in copies.iter().zip([&before[0], &before[1], &before[2]]).zip(expected) {
        let mut expected = with(original, json!({ "id": copy["id"], "threadId": fork, "turnId": turn }));
        if !parent.is_null() {
            expected["parentId"] = parent;
        }
        assert_eq!(*copy, with(&expected, more));
        assert_ne!(copy["id"], original["id"]);
    }
    // It goes on where it was forked, and the one it came from does too.
    let next = call(&store, "items.create", json!({ "threadId": fork, "kind": "error" }));
    assert_eq!(next["position"], 4);
    assert_eq!(call(&store, "threads.get", json!({ "id": fork }))["headItemId"], next["id"]);
    assert_eq!(append(&store, "streams", "!"), 7);
    assert_eq!(code(&store, "items.appendText", json!({ "id": copies[2]["id"], "delta": "!" })), "invalid_transition");
}
