//! The seeded simulation: actors of all kinds drive the store, and a model in memory judges every answer.
//!
//! A failing seed is printed with the last operations, and runs again by itself:
//!
//! ```sh
//! RUNKEEP_SIM_FIRST_SEED=17 RUNKEEP_SIM_SEEDS=1 cargo test --features development --test simulation
//! ```
//!
//! `RUNKEEP_SIM_SEEDS` and `RUNKEEP_SIM_STEPS` make longer runs, `RUNKEEP_SIM_SHOW` shows more operations.

#[path = "simulation/actors.rs"]
mod actors;
#[path = "simulation/checks.rs"]
mod checks;
mod common;
#[path = "simulation/model/mod.rs"]
mod model;
#[path = "simulation/random.rs"]
mod random;
#[path = "simulation/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use world::{Failure, World};

const SEEDS: u64 = 200;
const STEPS: u64 = 2_000;

/// How many of the last operations are shown of a seed that fails.
const SHOW: u64 = 30;

/// After how many steps everything is looked at, where nothing is known to be wrong.
const LOOK_EVERY: usize = 25;

/// What a run of the usual length has to reach: a simulation that meets nothing proves nothing.
const REACHED: [&str; 49] = [
    "a bad call is refused",
    "a bad item undoes a call",
    "a claim ends an expired lease",
    "a claim hands out several items",
    "a claim leaves leases alone while the driver is overdue",
    "a claim passes over an item that requires more",
    "a claimed item goes with its execution",
    "a claimed item is asked to stop",
    "a crash",
    "a crash in the middle of a call",
    "a dead letter is deleted",
    "a dead letter is redriven",
    "a delivery ends in cancellation",
    "a driver wakes from a suspension",
    "a failure ends in the dead letters",
    "a failure is tried again",
    "a hold of a key keeps an item back",
    "a hold of a queue keeps an item back",
    "a key's concurrency keeps an item back",
    "a key's rate keeps an item back",
    "a lease is lengthened after a suspension",
    "a lease that ran out unnoticed is still used",
    "a limit ends a sweep",
    "a pause keeps an item back",
    "a queue's concurrency keeps an item back",
    "a queue's rate keeps an item back",
    "a redrive is refused for a living item of the same key",
    "a repeated continuation finds the next segment",
    "a repeated enqueue finds its item",
    "a repeated settlement is answered again",
    "a second settlement is a conflict",
    "a sweep ends an expired lease",
    "a sweep removes a lapsed worker",
    "a waiting item is cancelled",
    "a worker id is reassigned",
    "a zombie is told that its lease is lost",
    "an event is known already",
    "an execution is continued",
    "an expired lease ends in the dead letters",
    "an expired lease is tried again",
    "an item goes with its execution",
    "an item is claimed",
    "an item is completed",
    "an item is released",
    "retention lets an execution go",
    "retention lets an item go",
    "the end of an execution cancels an item",
    "the lease of a dead worker ends",
    "what a completion adds to an ended execution is dropped",
];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, not a number")))
}

type Seen = BTreeMap<&'static str, u64>;

/// Runs one seed. Answers what it reached.
fn run(seed: u64, steps: usize, look_every: usize) -> Result<Seen, Failure> {
    let mut world = World::new(seed, setting("RUNKEEP_SIM_SHOW", SHOW) as usize);
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run(steps, look_every)));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let message = format!("a panic: {}", text.unwrap_or_default());
        Err(Failure { step: world.step, message, last: world.last.iter().cloned().collect() })
    })?;
    Ok(world.model.seen)
}

/// What to print of a seed that failed. It is run again with a look after each step, to find the step after which all was lost.
fn report(seed: u64, steps: usize, failure: Failure) -> String {
    let failure = run(seed, steps, 1).err().unwrap_or(failure);
    let Failure { step, message, last } = failure;
    format!(
        "seed {seed} fails at step {step}: {message}\n\nthe last operations (step, milliseconds since the start, [store] call -> answer):\n{}\n\n\
         Again: RUNKEEP_SIM_FIRST_SEED={seed} RUNKEEP_SIM_SEEDS=1 RUNKEEP_SIM_STEPS={steps} cargo test --features development --test simulation",
        last.join("\n")
    )
}

#[test]
fn whatever_happens_the_store_keeps_its_word() {
    let first = setting("RUNKEEP_SIM_FIRST_SEED", 1);
    let seeds = setting("RUNKEEP_SIM_SEEDS", SEEDS);
    let steps = setting("RUNKEEP_SIM_STEPS", STEPS) as usize;
    let next = AtomicU64::new(first);
    let seen = Mutex::new(Seen::new());
    let failed: Mutex<Vec<(u64, Failure)>> = Mutex::default();
    std::thread::scope(|scope| {
        // Each thread has files in memory.
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from).min(8) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds || !failed.lock().unwrap().is_empty() {
                        return;
                    }
                    match run(seed, steps, LOOK_EVERY) {
                        Ok(reached) => {
                            let mut seen = seen.lock().unwrap();
                            reached.into_iter().for_each(|(what, count)| *seen.entry(what).or_default() += count);
                        }
                        Err(failure) => failed.lock().unwrap().push((seed, failure)),
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap();
    failed.sort_by_key(|(seed, _)| *seed);
    if let Some((seed, failure)) = failed.into_iter().next() {
        panic!("{}", report(seed, steps, failure));
    }
    let seen = seen.into_inner().unwrap();
    println!("{seeds} seeds of {steps} steps, from {first}, reached:");
    for (what, count) in &seen {
        println!("{count:>10} {what}");
    }
    if seeds >= SEEDS && steps >= STEPS as usize {
        let missed: Vec<_> = REACHED.iter().filter(|what| !seen.contains_key(*what)).collect();
        assert!(missed.is_empty(), "the simulation does not reach: {missed:?}");
    }
}

/// Without this, a seed that failed could not be looked at again.
#[test]
fn a_seed_is_the_same_each_time() {
    let [first, second] =
        [LOOK_EVERY, 1].map(|look_every| run(7, 500, look_every).unwrap_or_else(|failure| panic!("{}", failure.message)));
    assert_eq!(first, second);
}
