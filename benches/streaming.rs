//! How long it takes to append to a text that streams, at its beginning and at its end: `cargo run --release --example streaming`.
#![allow(clippy::disallowed_methods, reason = "this measures real time")]

use std::path::Path;
use std::time::{Duration, Instant};

use runkeep::threads::CreateThread;
use runkeep::threads::items::{AppendText, CreateItem, ItemKind, ReadText, ThreadItemId, ThreadItemStatus, UpdateItem};
use runkeep::{Error, Name, Result, Store};

const DELTAS: usize = 10_000;
const PART: usize = 1000;

/// 20 bytes.
const DELTA: &str = "twenty bytes of text";

/// What the ratio may be at most.
const LIMIT: f64 = 1.3;

/// Microseconds: median, least and most.
fn summary(times: &[Duration]) -> (f64, f64, f64) {
    let mut times = times.to_vec();
    times.sort_unstable();
    let micros = |at: usize| times.get(at).map_or(0.0, |time| time.as_nanos() as f64 / 1000.0);
    (micros(times.len() / 2), micros(0), micros(times.len().saturating_sub(1)))
}

/// Prints a line for the first calls and one for the last, and the ratio of the medians. Answers whether it is within the limit.
fn report(what: &str, times: &[Duration]) -> bool {
    let parts = [("first", &times[..PART]), ("last", &times[times.len() - PART..])].map(|(part, times)| (part, summary(times)));
    let ratio = parts[1].1.0 / parts[0].1.0;
    for ((part, (median, least, most)), ratio) in parts.into_iter().zip(["".to_owned(), format!("{ratio:.2}")]) {
        println!("{what:<12} {:<12} {median:>9.1} {least:>9.1} {most:>9.1} {ratio:>7}", format!("{part} {PART}"));
    }
    ratio <= LIMIT
}

fn measure(store: &Store) -> Result<bool> {
    let thread_id: Name = store.threads().create(CreateThread::default())?.record.id.parse()?;
    let item = CreateItem { thread_id, kind: ItemKind::AssistantMessage, ..Default::default() };
    let id: Name = store.items().create(item)?.record.id.parse()?;
    let (mut appends, mut reads) = (Vec::new(), Vec::new());
    let mut known = 0;
    for _ in 0..DELTAS {
        let delta = AppendText { id: id.clone(), delta: DELTA.into(), at: Some(known) };
        let start = Instant::now();
        store.items().append_text(delta)?;
        appends.push(start.elapsed());
        let start = Instant::now();
        known = store.items().read_text(ReadText { id: id.clone(), after: Some(known), ..ReadText::default() })?.length;
        reads.push(start.elapsed());
    }
    println!("{:<25} {:>9} {:>9} {:>9} {:>7}", "microseconds", "median", "least", "most", "ratio");
    let within = report("appendText", &appends) & report("readText", &reads);
    let start = Instant::now();
    store.items().update(UpdateItem { id: id.clone(), status: Some(ThreadItemStatus::Completed), ..Default::default() })?;
    println!("The end, which joins {DELTAS} deltas: {:.1} ms.", start.elapsed().as_secs_f64() * 1000.0);
    let text = store.items().get(ThreadItemId { id })?.map(|item| item.text);
    if text != Some(DELTA.repeat(DELTAS)) {
        return Err(Error::new(runkeep::ErrorCode::Internal, "the text is not what was appended"));
    }
    Ok(within)
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("runkeep-streaming-{}.db", std::process::id()));
    let store = Store::open(&path)?;
    let outcome = measure(&store);
    store.close()?;
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(Path::new(&format!("{}{suffix}", path.display())));
    }
    println!("{}", if outcome? { "Every ratio is at most 1.3." } else { "A ratio is over 1.3." });
    Ok(())
}
