//! What the tests share: a store whose clock stands still, and calls as JSON.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runkeep::{ManualClock, Options, Result, Store};
use serde_json::Value;

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
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("runkeep-{}-{number}", std::process::id()));
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
