//! Files: what opening does to them, several connections on one, and what a crash leaves.

mod common;

use common::{Folder, call, clock, code, options, try_call};
use runkeep::{ErrorCode, Store};
use rusqlite::Connection;
use serde_json::json;

#[test]
fn what_was_acknowledged_is_there_after_reopening() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    let run = call(&store, "executions.create", json!({ "workflowId": "w", "id": "run-1" }));
    call(&store, "events.append", json!({ "executionId": "run-1", "type": "x-note", "data": { "n": 1 } }));
    drop(store);
    let store = Store::open_with(&path, options(&clock)).unwrap();
    let again = call(&store, "executions.get", json!({ "id": "run-1" }));
    assert_eq!(again["createdAt"], run["createdAt"]);
    assert_eq!(again["lastSequence"], 1);
}

#[test]
fn a_store_that_was_not_closed_is_whole_when_opened_again() {
    let (folder, clock) = (Folder::new(), clock());
    let (path, copy) = (folder.file("store.db"), folder.file("copy.db"));
    let store = Store::open_with(&path, options(&clock)).unwrap();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run-1" }));
    for n in 0..100 {
        call(&store, "events.append", json!({ "executionId": "run-1", "type": "x-note", "data": n }));
    }
    // What a killed process leaves behind: the files as they are, without a checkpoint.
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(folder.file("store.db-wal"), folder.file("copy.db-wal")).unwrap();
    let store = Store::open_with(&copy, options(&clock)).unwrap();
    assert_eq!(call(&store, "events.latestSequence", json!({ "executionId": "run-1" })), 100);
}

#[test]
fn a_newer_schema_is_refused_and_the_file_untouched() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    drop(Store::open_with(&path, options(&clock)).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", runkeep::SCHEMA_VERSION + 1).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Store::open_with(&path, options(&clock)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::SchemaTooNew);
    assert_eq!(error.details()["schema"], runkeep::SCHEMA_VERSION + 1);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(!folder.file("store.db-wal").exists() && !folder.file("store.db-shm").exists(), "nothing is left beside it");
    // Still refused, and still untouched, where the newer version's last changes are in the WAL.
    let newer = Connection::open(&path).unwrap();
    newer.execute_batch("CREATE TABLE of_the_future (a) STRICT").unwrap_or_default();
    newer.execute_batch("CREATE TABLE of_the_future (a TEXT) STRICT; INSERT INTO of_the_future VALUES ('kept')").unwrap();
    let before = (std::fs::read(&path).unwrap(), std::fs::read(folder.file("store.db-wal")).unwrap());
    assert_eq!(Store::open_with(&path, options(&clock)).unwrap_err().code(), ErrorCode::SchemaTooNew);
    assert_eq!((std::fs::read(&path).unwrap(), std::fs::read(folder.file("store.db-wal")).unwrap()), before);
}

#[test]
fn a_file_that_is_no_database_is_corrupt_and_untouched() {
    let folder = Folder::new();
    let path = folder.file("notes.txt");
    let text = "no database at all, but quite a long text. ".repeat(100);
    std::fs::write(&path, &text).unwrap();
    assert_eq!(Store::open(&path).unwrap_err().code(), ErrorCode::Corrupt);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn somebody_elses_database_is_refused_and_untouched() {
    let folder = Folder::new();
    let path = folder.file("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (text); INSERT INTO notes VALUES ('mine')").unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Corrupt);
    assert!(error.message().contains("not a runkeep store"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_path_that_cannot_be_opened_is_storage_unavailable() {
    let folder = Folder::new();
    assert_eq!(Store::open(folder.file("no/such/folder.db")).unwrap_err().code(), ErrorCode::StorageUnavailable);
}

#[test]
fn many_connections_open_one_new_file_at_the_same_moment() {
    for _ in 0..20 {
        let folder = Folder::new();
        let path = folder.file("store.db");
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..4).map(|_| scope.spawn(|| Store::open(&path).map(drop))).collect();
            for one in opened {
                one.join().unwrap().unwrap();
            }
        });
    }
}

#[test]
fn a_closed_store_says_so() {
    let (store, _) = common::in_memory();
    let handle = store.clone();
    store.close().unwrap();
    store.close().unwrap();
    assert_eq!(code(&handle, "executions.list", json!({})), "closed");
}

/// Lesson 1: two connections that loop claim and complete share the work, each item once.
#[test]
fn two_connections_never_claim_the_same_item() {
    let folder = Folder::new();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    let items: Vec<_> = (0..1000).map(|n| json!({ "queue": "q", "id": format!("item-{n}"), "maxAttempts": 1 })).collect();
    call(&store, "queue.enqueueMany", json!({ "items": items }));
    let work = |worker: &str| {
        let store = Store::open(&path).unwrap();
        let mut done = Vec::new();
        loop {
            let claimed = call(&store, "queue.claim", json!({ "workerId": worker, "queues": ["q"], "leaseMs": 600_000 }));
            let Some(item) = claimed.get(0) else { return done };
            call(&store, "queue.complete", json!({ "id": item["id"], "fence": item["fence"] }));
            done.push(item["id"].as_str().unwrap().to_owned());
        }
    };
    let mut all = std::thread::scope(|scope| {
        let (a, b) = (scope.spawn(|| work("a")), scope.spawn(|| work("b")));
        [a.join().unwrap(), b.join().unwrap()].concat()
    });
    assert_eq!(all.len(), 1000);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 1000, "an item was claimed twice");
    assert_eq!(call(&store, "queues.stats", json!({ "queue": "q" }))["counts"]["completed"], 1000);
}

/// Lesson 24: numbers are given in the transaction that commits them.
#[test]
fn eight_appenders_leave_one_log_without_gaps_and_a_reader_misses_nothing() {
    const APPENDERS: i64 = 8;
    const EACH: i64 = 100;
    let folder = Folder::new();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    std::thread::scope(|scope| {
        for appender in 0..APPENDERS {
            let path = &path;
            scope.spawn(move || {
                let store = Store::open(path).unwrap();
                for n in 0..EACH {
                    call(&store, "events.append", json!({ "executionId": "run", "type": "x-a", "data": [appender, n] }));
                }
            });
        }
        let mut seen = 0;
        while seen < APPENDERS * EACH {
            let page = call(&store, "events.list", json!({ "executionId": "run", "after": seen, "limit": 1000 }));
            for event in page["items"].as_array().unwrap() {
                seen += 1;
                assert_eq!(event["sequence"], seen);
            }
            std::thread::yield_now();
        }
    });
}

/// Lesson 16: an error leaves nothing behind that keeps the next write out.
#[test]
fn a_refused_statement_leaves_the_database_usable() {
    let folder = Folder::new();
    let path = folder.file("store.db");
    let (one, two) = (Store::open(&path).unwrap(), Store::open(&path).unwrap());
    call(&one, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    assert_eq!(code(&one, "executions.create", json!({ "workflowId": "other", "id": "run" })), "conflict");
    assert_eq!(code(&one, "queue.enqueue", json!({ "queue": "q", "executionId": "none", "nodeId": "n" })), "not_found");
    call(&two, "executions.create", json!({ "workflowId": "w", "id": "another" }));
    call(&one, "executions.create", json!({ "workflowId": "w", "id": "a third" }));
}

/// Lesson 18: every time is an integer, in every row.
#[test]
fn every_time_in_the_database_is_an_integer() {
    let folder = Folder::new();
    let path = folder.file("store.db");
    let clock = clock();
    let store = Store::open_with(&path, options(&clock)).unwrap();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    call(&store, "executions.setStatus", json!({ "id": "run", "status": "running" }));
    call(
        &store,
        "workers.register",
        json!({ "workerId": "w", "pool": "p", "queues": [], "capabilities": [], "livenessTtlMs": 1000 }),
    );
    call(&store, "queue.enqueue", json!({ "queue": "q", "executionId": "run", "nodeId": "n" }));
    let item = call(&store, "queue.claim", json!({ "workerId": "w", "queues": ["q"] }))[0].clone();
    call(&store, "queue.fail", json!({ "id": item["id"], "fence": item["fence"], "error": "e" }));
    let raw = Connection::open(&path).unwrap();
    let columns: Vec<(String, String)> = raw
        .prepare(
            "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c
             WHERE m.type = 'table' AND (c.name LIKE '%\\_at' ESCAPE '\\' OR c.name LIKE '%\\_ms' ESCAPE '\\' OR c.name = 'at')",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(|row| row.unwrap())
        .collect();
    assert!(columns.len() > 15, "{columns:?}");
    for (table, column) in columns {
        let others: i64 = raw
            .query_row(&format!("SELECT count(*) FROM {table} WHERE typeof({column}) NOT IN ('integer', 'null')"), [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(others, 0, "{table}.{column}");
    }
}

/// Lesson 29: a row that cannot be read is named, and the others are there.
#[test]
fn an_unreadable_row_is_named_and_hides_no_other() {
    let folder = Folder::new();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    for id in ["a", "b", "c"] {
        call(&store, "executions.create", json!({ "workflowId": "w", "id": id, "input": {} }));
        call(&store, "queue.enqueue", json!({ "queue": "q", "id": id, "payload": {} }));
        call(&store, "events.append", json!({ "executionId": "a", "id": id, "type": "x-a", "data": {} }));
    }
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(
        "PRAGMA ignore_check_constraints = on;
         UPDATE execution_documents SET input = '{broken' WHERE execution = (SELECT key FROM executions WHERE id = 'b');
         UPDATE items SET status = 'queued' WHERE id = 'b';
         UPDATE events SET data = 'nonsense' WHERE id = 'b';",
    )
    .unwrap();
    for (operation, arguments, table) in [
        ("executions.list", json!({}), "executions"),
        ("queue.list", json!({}), "items"),
        ("events.list", json!({ "executionId": "a" }), "events"),
    ] {
        let page = call(&store, operation, arguments);
        let ids: Vec<_> = page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["a", "c"], "{operation}");
        assert_eq!(page["damaged"][0]["table"], table);
        assert_eq!(page["damaged"][0]["id"], "b");
    }
    for (operation, table) in [("executions.get", "executions"), ("queue.get", "items")] {
        let error = try_call(&store, operation, json!({ "id": "b" })).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Corrupt, "{operation}");
        assert_eq!(error.details()["table"], table);
        assert_eq!(error.details()["id"], "b");
    }
}
