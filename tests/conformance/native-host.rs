//! A native store in memory behind JSON lines: one message a line, one answer a line.
//!
//! `{"calls": ["op", "args", …], "nowMs": 1}` is answered by `{"answers": ["…", …]}`. The store's clock stands where `nowMs` puts it; the
//! first message opens the store, so that nothing of it is older than that.

use std::io::{BufRead, Write};
use std::sync::Arc;

use runkeep::{Call, ManualClock, Options, Store, envelope};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    calls: Vec<String>,
    now_ms: i64,
}

#[derive(Serialize)]
struct Answer {
    answers: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new(0);
    let mut opened = None;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: Message = serde_json::from_str(&line?)?;
        clock.set(message.now_ms);
        let store = match opened.take() {
            Some(store) => store,
            None => Store::in_memory_with(Options { clock: Arc::new(clock.clone()), ..Options::default() })?,
        };
        let calls: Vec<Call<'_>> =
            message.calls.chunks_exact(2).map(|pair| Call { operation: &pair[0], arguments: &pair[1] }).collect();
        let answers = store.call_many(&calls).into_iter().map(envelope).collect();
        opened = Some(store);
        serde_json::to_writer(&mut out, &Answer { answers })?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}
