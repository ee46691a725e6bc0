//! What time brings: expired leases, lapsed workers, due items. Driven from outside, in bounded steps.

use crate::cron;
use crate::error::{Error, ErrorCode, Result};
use crate::queue::{self, ItemStatus, queues_with, ready_scheduled, reclaim_expired};
use crate::retention;
use crate::store::{Store, Tick, Tx};
use crate::timers;
use crate::workers::{self, sweep_lapsed};

arguments! {
    pub struct SweepRequest {
        /// The most rows to deal with in this call, 1 to 10,000; 500 unless given.
        pub limit: Option<i64>,
        /// How often the caller sweeps, in milliseconds. Calls with it are a series: a gap in it of over two minutes and three intervals
        /// means that the device slept. Leases and workers whose time ran out meanwhile get as much again, once.
        pub interval_ms: Option<i64>,
    }
}

records! {
    /// What a sweep did.
    #[derive(Default)]
    pub struct SweepReport {
        pub leases_retried: i64,
        pub leases_dead_lettered: i64,
        pub leases_cancelled: i64,
        pub workers_expired: i64,
        pub timers_fired: i64,
        /// Executions that cron schedules began.
        pub crons_fired: i64,
        pub items_readied: i64,
        /// Finished things that retention let go.
        pub pruned: i64,
        /// How long the device slept before this sweep, in milliseconds; 0 where it did not.
        pub suspended_ms: i64,
        pub duration_ms: i64,
        /// Whether the limit ended it: sweep again at once.
        pub more: bool,
        /// What failed: parts, or single timers and schedules. The others were done.
        pub errors: Vec<SweepError>,
    }

    pub struct SweepError {
        pub part: String,
        /// Which timer, or the name of which schedule.
        pub id: Option<String>,
        pub code: String,
        pub message: String,
    }
}

arguments! {
    /// Why something could not be done that was due: the code of an error, and its message.
    #[derive(PartialEq)]
    pub struct Problem {
        pub code: String,
        pub message: String,
    }
}

impl Problem {
    pub(crate) fn of(error: &Error) -> Self {
        Self { code: error.code().as_str().to_owned(), message: error.message().to_owned() }
    }
}

impl SweepReport {
    pub(crate) fn failed(&mut self, part: &str, id: Option<String>, error: &Error) {
        let Problem { code, message } = Problem::of(error);
        self.errors.push(SweepError { part: part.to_owned(), id, code, message });
    }
}

const DEFAULT_LIMIT: i64 = 500;
const MAX_LIMIT: i64 = 10_000;

/// Rows that one transaction deals with, so that a sweep holds nobody up for long.
const STEP: i64 = 100;

/// Of what has a transaction for each, how many are dealt with before the other parts have their turn.
const TURN: i64 = 100;

pub(crate) fn sweep(store: &Store, arguments: SweepRequest) -> Result<SweepReport> {
    let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(Error::invalid(format!("limit must be 1 to {MAX_LIMIT}, not {limit}")).with("path", "limit"));
    }
    if let Some(ms) = arguments.interval_ms.filter(|ms| *ms < 1) {
        return Err(Error::invalid(format!("intervalMs must be at least 1, not {ms}")).with("path", "intervalMs"));
    }
    let started = store.now();
    let mut report = SweepReport::default();
    let mut left = limit;
    let tenants = store.read(|tx| tx.tenants())?;
    if let Some(interval_ms) = arguments.interval_ms {
        let last = store.tick(None).filter(|last| last.is_overdue(started));
        if let Some(last) = last {
            report.suspended_ms = started - last.at;
            store.write(|tx| {
                tenants.iter().try_for_each(|&tenant| {
                    let tx = tx.of_tenant(tenant);
                    queue::grace(&tx, last.at)?;
                    workers::grace(&tx, last.at)
                })
            })?;
        }
        // Only now: until the grace is given, claims must not take the sleep for somebody's fault.
        store.tick(Some(Tick::new(started, interval_ms)));
    }
    let mut cut = false;
    for &tenant in &tenants {
        for part in PARTS {
            cut |= run(store, tenant, part, &mut left, &mut report);
        }
    }
    report.more = cut && tenants.iter().any(|&tenant| PARTS.iter().any(|part| has_more(store, tenant, part)));
    report.duration_ms = (store.now() - started).max(0);
    Ok(report)
}

/// One kind of work: deals with at most so many rows, and answers with how many.
struct Part {
    name: &'static str,
    /// Whether each row has a transaction of its own.
    is_singly: bool,
    step: fn(&Tx<'_>, i64, &mut SweepReport) -> Result<i64>,
}

const PARTS: &[Part] = &[
    Part { name: "timers", is_singly: true, step: |tx, _, report| timers::fire_due(tx, report) },
    Part { name: "crons", is_singly: true, step: |tx, _, report| cron::fire_due(tx, report) },
    Part {
        name: "leases",
        is_singly: false,
        step: |tx, limit, report| {
            let mut done = 0;
            for queue in queues_with(tx, ItemStatus::Claimed)? {
                let reclaimed = reclaim_expired(tx, queue, limit - done)?;
                report.leases_retried += reclaimed.retried;
                report.leases_dead_lettered += reclaimed.dead_lettered;
                report.leases_cancelled += reclaimed.cancelled;
                done += reclaimed.all();
            }
            Ok(done)
        },
    },
    Part {
        name: "workers",
        is_singly: false,
        step: |tx, limit, report| {
            let expired = sweep_lapsed(tx, limit)?;
            report.workers_expired += expired;
            Ok(expired)
        },
    },
    Part {
        name: "items",
        is_singly: false,
        step: |tx, limit, report| {
            let mut readied = 0;
            for queue in queues_with(tx, ItemStatus::Scheduled)? {
                readied += ready_scheduled(tx, queue, limit - readied)?;
            }
            report.items_readied += readied;
            Ok(readied)
        },
    },
    Part { name: "keys", is_singly: false, step: |tx, limit, _| queue::wake_keys(tx, limit) },
    Part {
        name: "retention",
        is_singly: false,
        step: |tx, limit, report| {
            // The rows that it looks at count, whether they go or not: that is what bounds the work.
            let step = retention::prune(tx, limit)?;
            report.pruned += step.pruned;
            Ok(step.looked_at)
        },
    },
];

/// Does one part for one tenant in transactions of its own, until nothing is left to do or the limit is used up. A failure ends
/// this part and is reported. Answers whether it stopped before its end.
fn run(store: &Store, tenant: i64, part: &Part, left: &mut i64, report: &mut SweepReport) -> bool {
    let mut turn = if part.is_singly { TURN } else { i64::MAX };
    while *left > 0 && turn > 0 {
        let limit = if part.is_singly { 1 } else { STEP.min(*left) };
        // A step that is rolled back must not have counted.
        let mut after = report.clone();
        match store.write(|tx| (part.step)(&tx.of_tenant(tenant), limit, &mut after)) {
            Ok(done) => {
                *report = after;
                *left -= done;
                turn = turn.saturating_sub(done);
                if done < limit {
                    return false;
                }
            }
            Err(error) => {
                report.failed(part.name, None, &error);
                return false;
            }
        }
    }
    true
}

/// Whether a part would find something to do: it does one row, and that is rolled back.
fn has_more(store: &Store, tenant: i64, part: &Part) -> bool {
    let mut found = false;
    let _ = store.write::<()>(|tx| {
        found = (part.step)(&tx.of_tenant(tenant), 1, &mut SweepReport::default())? > 0;
        Err(Error::new(ErrorCode::Internal, "rolls back"))
    });
    found
}
