//! How long it takes to claim, in small queues and in large ones: `cargo run --release --example claims`, a few minutes with a million
//! rows; `-- 100000` for fewer. Small and large take turns in one run, so that whatever else the machine does meets both.
#![allow(clippy::disallowed_methods, reason = "this measures real time")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use runkeep::queue::{ClaimItems, CompleteItem, ConfigureQueue, EnqueueItem, EnqueueItems, StatsOf, WorkItem};
use runkeep::{ManualClock, Name, Options, Result, Store};

/// How often each thing is timed.
const ROUNDS: usize = 3000;

/// What a ratio may be at most.
const LIMIT: f64 = 1.5;

const NOW: i64 = 1_767_225_600_000;

fn name(text: &str) -> Name {
    text.parse().unwrap_or_default()
}

/// A store in a file, with queues that are claimed from together.
struct World {
    store: Store,
    queues: Vec<Name>,
    path: PathBuf,
}

impl World {
    fn new(queues: usize) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("runkeep-claims-{}-{number}.db", std::process::id()));
        let options = Options { clock: Arc::new(ManualClock::new(NOW)), ..Options::default() };
        let store = Store::open_with(&path, options)?;
        Ok(Self { store, queues: (0..queues).map(|n| name(&format!("queue-{n}"))).collect(), path })
    }

    /// Enqueues `count` items into each queue, as `item` makes them.
    fn fill(&self, count: i64, item: impl Fn(i64, EnqueueItem) -> EnqueueItem) -> Result<()> {
        for queue in &self.queues {
            let mut done = 0;
            while done < count {
                let some =
                    (done..count.min(done + 1000)).map(|n| item(n, EnqueueItem { queue: queue.clone(), ..new(n) })).collect();
                self.store.queue().enqueue_many(EnqueueItems { items: some })?;
                done += 1000;
            }
        }
        Ok(())
    }

    fn claim(&self, limit: i64) -> Result<Vec<WorkItem>> {
        let queues = self.queues.clone();
        self.store.queue().claim(ClaimItems { worker_id: name("worker"), queues, limit: Some(limit), ..Default::default() })
    }

    fn complete(&self, item: &WorkItem) -> Result<()> {
        self.store.queue().complete(CompleteItem { id: name(&item.id), fence: item.fence, ..Default::default() }).map(drop)
    }

    fn finish(&self, count: i64) -> Result<()> {
        for _ in 0..count / 1000 {
            for item in self.claim(1000)? {
                self.complete(&item)?;
            }
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.store.close();
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(Path::new(&format!("{}{suffix}", self.path.display())));
        }
    }
}

/// Item number `n`: of one of ten priorities.
fn new(n: i64) -> EnqueueItem {
    EnqueueItem { priority: Some(n.wrapping_mul(7919).rem_euclid(10)), ..Default::default() }
}

#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn time<R>(&mut self, body: impl FnOnce() -> Result<R>) -> Result<R> {
        let start = Instant::now();
        let answer = body();
        self.0.push(start.elapsed());
        answer
    }

    /// Microseconds: median, least and most.
    fn summary(&mut self) -> (f64, f64, f64) {
        self.0.sort_unstable();
        let micros = |at: usize| self.0.get(at).map_or(0.0, |time| time.as_nanos() as f64 / 1000.0);
        (micros(self.0.len() / 2), micros(0), micros(self.0.len().saturating_sub(1)))
    }
}

/// Prints a line a size, and the ratio of the medians. Answers whether it is within the limit.
fn report(what: &str, sizes: [&str; 2], times: &mut [Times; 2]) -> bool {
    let summaries = times.each_mut().map(Times::summary);
    let ratio = summaries[1].0 / summaries[0].0;
    for ((size, (median, least, most)), ratio) in sizes.iter().zip(summaries).zip(["".to_owned(), format!("{ratio:.2}")]) {
        println!("{what:<24} {size:<38} {median:>9.1} {least:>9.1} {most:>9.1} {ratio:>7}");
    }
    ratio <= LIMIT
}

/// Claims one item after the other, in turns; each is completed and another one enqueued, so that the size stays.
fn cycle(worlds: &[World; 2], what: &str, sizes: [&str; 2]) -> Result<bool> {
    let [mut claims, mut completes, mut enqueues]: [[Times; 2]; 3] = Default::default();
    for round in 0..ROUNDS {
        for (at, world) in worlds.iter().enumerate() {
            for item in claims[at].time(|| world.claim(1))? {
                completes[at].time(|| world.complete(&item))?;
                let again = EnqueueItem { queue: name(&item.queue), ..new(round as i64) };
                enqueues[at].time(|| world.store.queue().enqueue(again))?;
            }
        }
    }
    let mut within = report(&format!("{what}: claim"), sizes, &mut claims);
    within &= report(&format!("{what}: complete"), sizes, &mut completes);
    within &= report(&format!("{what}: enqueue"), sizes, &mut enqueues);
    Ok(within)
}

fn waiting(rows: i64, queues: i64) -> Result<bool> {
    let worlds = [World::new(queues as usize)?, World::new(queues as usize)?];
    worlds[0].fill(1000 / queues, |_, item| item)?;
    worlds[1].fill(rows / queues, |_, item| item)?;
    cycle(&worlds, &format!("{queues} queue(s)"), ["1000 pending", &format!("{rows} pending")])
}

fn saturated_key(rows: i64) -> Result<bool> {
    let worlds = [World::new(1)?, World::new(1)?];
    for world in &worlds {
        let one = ConfigureQueue { name: world.queues[0].clone(), key_concurrency: Some(Some(1)), ..Default::default() };
        world.store.queues().configure(one)?;
        world.fill(1000, |_, item| item)?;
    }
    let busy = |_, item| EnqueueItem { concurrency_key: Some(name("busy")), priority: Some(1000), ..item };
    worlds[1].fill(rows, busy)?;
    let saturating = worlds[1].claim(1)?;
    assert_eq!(saturating[0].concurrency_key.as_deref(), Some("busy"));
    cycle(&worlds, "saturated key", ["1000 pending", &format!("the same behind {rows} of a busy key")])
}

fn piled_up(finished: i64, future: i64) -> Result<bool> {
    let worlds = [World::new(1)?, World::new(1)?];
    for (world, finished, future) in [(&worlds[0], 1000, 1000), (&worlds[1], finished, future)] {
        world.fill(finished, |_, item| item)?;
        world.finish(finished)?;
        world.fill(future, |n, item| EnqueueItem { run_at: Some(NOW + 1_000_000 + n), ..item })?;
        world.fill(1, |_, item| item)?;
    }
    let sizes = ["1000 completed, 1000 future, 1 ready", &format!("{finished} completed, {future} future, 1 ready")];
    let mut stats: [Times; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (at, world) in worlds.iter().enumerate() {
            stats[at].time(|| world.store.queues().stats(StatsOf::default()))?;
        }
    }
    Ok(report("piled up: stats", sizes, &mut stats) & cycle(&worlds, "piled up", sizes)?)
}

fn main() -> Result<()> {
    let rows: i64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    println!("{:<63} {:>9} {:>9} {:>9} {:>7}", "microseconds", "median", "least", "most", "ratio");
    let outcomes = [waiting(rows, 1)?, waiting(rows, 5)?, saturated_key(rows / 10)?, piled_up(rows / 5, rows / 20)?];
    println!("{}", if outcomes == [true; 4] { "Every ratio is at most 1.5." } else { "A ratio is over 1.5." });
    Ok(())
}
