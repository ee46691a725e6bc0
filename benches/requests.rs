//! What it costs that calls are kept, so that they can be sent again: `cargo run --release --example requests`. Calls that are kept and
//! calls that are not take turns, each alone in its transaction, in a file.
#![allow(clippy::disallowed_methods, reason = "this measures real time")]

use std::time::Instant;

use runkeep::{Call, Request, Result, Store};

const ROUNDS: i64 = 20_000;

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("runkeep-requests-{}.db", std::process::id()));
    let store = Store::open(&path)?;
    let payload = "x".repeat(1000);
    let (mut number, mut order) = (0, [false, true]);
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        order.reverse();
        for is_kept in order {
            let arguments = format!("{{\"queue\":\"q\",\"payload\":\"{payload}\",\"priority\":{}}}", round % 7);
            let request = is_kept.then(|| {
                number += 1;
                Request { client: "0197f3a2-7c5e-7d31-9f5e-3b6f0c1d2e4a", number, again: false, acked: number - 1 }
            });
            let call = Call { request, ..Call::new("queue.enqueue", &arguments) };
            let start = Instant::now();
            let outcome = store.call_many(&[call]);
            times[usize::from(is_kept)].push(start.elapsed().as_nanos() as f64 / 1000.0);
            outcome.answers.into_iter().try_for_each(|answer| answer.map(drop))?;
        }
    }
    for (times, what) in times.iter_mut().zip(["not kept", "kept"]) {
        times.sort_unstable_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        println!("queue.enqueue of 1 KB, {what:<9} median {:.1} µs, mean {mean:.1} µs", times[times.len() / 2]);
    }
    store.close()?;
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    Ok(())
}
