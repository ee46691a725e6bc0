//! Where the time comes from.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Tells the time in Unix milliseconds, UTC. The store asks once per operation.
pub trait Clock: Send + Sync {
    /// Unix milliseconds, UTC. May jump either way between two calls.
    fn now(&self) -> i64;
}

/// The clock of the machine or the browser.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the system for the time")]
    fn now(&self) -> i64 {
        chrono::Utc::now().timestamp_millis()
    }
}

/// A clock that moves only when told to, for tests. Clones share the time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that stands at `start_ms` (Unix milliseconds).
    pub fn new(start_ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(start_ms)))
    }

    /// Moves by `ms`, which may be negative.
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the time to `ms` (Unix milliseconds).
    pub fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}
