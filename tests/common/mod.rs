//! What the tests share: a store whose clock stands still, and calls as JSON.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runkeep::{ManualClock, Options, Result, Store};
use serde_json::{Value, json};

/// 2026-01-01T00:00:00Z.
pub const START: i64 = 1_767_225_600_000;

pub fn clock() -> ManualClock {
    ManualClock::new(START)
}

pub fn options(clock: &ManualClock) -> Options {
    Options { clock: Arc::new(clock.clone()), ..Options::default() }
}

pub fn in_memory() -> (Store, ManualClock) {
    let clock = clock();
    (Store::in_memory_with(options(&clock)).unwrap(), clock)
}

/// Calls an operation with arguments and answer as JSON values.
pub fn try_call(store: &Store, operation: &str, arguments: Value) -> Result<Value> {
    store.call(operation, &arguments.to_string()).map(|text| serde_json::from_str(&text).unwrap())
}

/// [`try_call`], for a call that must succeed.
#[track_caller]
pub fn call(store: &Store, operation: &str, arguments: Value) -> Value {
    try_call(store, operation, arguments.clone()).unwrap_or_else(|error| panic!("{operation} {arguments} failed: {error}"))
}

/// The code that a call fails with.
#[track_caller]
pub fn code(store: &Store, operation: &str, arguments: Value) -> &'static str {
    match try_call(store, operation, arguments.clone()) {
        Ok(answer) => panic!("{operation} {arguments} succeeded: {answer}"),
        Err(error) => error.code().as_str(),
    }
}

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// Not on a disk, where the system has a place for that: for tests that write a lot.
    pub fn in_memory() -> Self {
        let shared_memory = Path::new("/dev/shm");
        if shared_memory.is_dir() { Self::below(shared_memory) } else { Self::new() }
    }

    fn below(parent: &Path) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("runkeep-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `base` with the members of `more`.
pub fn with(base: &Value, more: Value) -> Value {
    let mut all = base.clone();
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// What can be claimed from a queue by the worker `w`, at most 10, with leases of a second.
#[track_caller]
pub fn claim(store: &Store, queue: &str) -> Vec<Value> {
    claim_as(store, queue, json!({}))
}

/// [`claim`] with other arguments.
#[track_caller]
pub fn claim_as(store: &Store, queue: &str, more: Value) -> Vec<Value> {
    let request = json!({ "workerId": "w", "queues": [queue], "limit": 10, "leaseMs": 1000 });
    serde_json::from_value(call(store, "queue.claim", with(&request, more))).unwrap()
}

/// The next item of a queue, which must have one; with a lease of a second.
#[track_caller]
pub fn claim_one(store: &Store, queue: &str) -> Value {
    let mut claimed = claim_as(store, queue, json!({ "limit": 1 }));
    assert_eq!(claimed.len(), 1, "there is nothing to claim in {queue}");
    claimed.remove(0)
}

/// The id and fence of a claimed item, which is what settles it.
pub fn held(item: &Value) -> Value {
    json!({ "id": item["id"], "fence": item["fence"] })
}

#[track_caller]
pub fn complete(store: &Store, item: &Value) -> Value {
    call(store, "queue.complete", held(item))
}

#[track_caller]
pub fn fail(store: &Store, item: &Value, more: Value) -> Value {
    call(store, "queue.fail", with(&with(&held(item), json!({ "error": "e" })), more))
}

#[track_caller]
pub fn item(store: &Store, id: &Value) -> Value {
    call(store, "queue.get", json!({ "id": id }))
}

/// The ids of records, in order.
pub fn ids(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["id"].as_str().unwrap()).collect()
}

/// All pages of a list.
#[track_caller]
pub fn pages(store: &Store, operation: &str, filter: Value) -> Vec<Value> {
    let mut all = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let mut page = call(store, operation, with(&filter, json!({ "cursor": cursor })));
        all.append(page["items"].as_array_mut().unwrap());
        cursor = page["nextCursor"].take();
        if cursor.is_null() {
            return all;
        }
    }
}

/// The types in the log of an execution, in order, with their data.
#[track_caller]
pub fn log(store: &Store, execution_id: &str) -> Vec<(String, Value)> {
    let events = pages(store, "events.list", json!({ "executionId": execution_id }));
    events.into_iter().map(|mut event| (event["type"].as_str().unwrap().to_owned(), event["data"].take())).collect()
}

/// Every row of every table in the file at `path`, as text.
pub fn dump(path: &std::path::Path) -> String {
    let raw = rusqlite::Connection::open(path).unwrap();
    let mut schema = raw.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> = schema.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut text = String::new();
    for table in tables {
        let mut statement = raw.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let width = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<_> = (0..width).map(|at| format!("{:?}", row.get_ref(at).unwrap())).collect();
            text.push_str(&format!("{table}: {}\n", values.join(", ")));
        }
    }
    text
}
