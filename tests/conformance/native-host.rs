//! A native store in memory behind JSON lines: one message a line, one answer a line.
//!
//! `{"calls": ["op", "args", …], "nowMs": 1}` is answered by `{"answers": ["…", …]}`; bytes beside a call's text are in `bytes`, one hex text or
//! null a call, and beside an answer's as `{"text", "bytes"}`. The store's clock stands where `nowMs` puts it; the
//! first message opens the store, so that nothing of it is older than that.

use std::io::{BufRead, Write};
use std::sync::Arc;

use runkeep::{Call, Given, ManualClock, Options, Store, envelope};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    calls: Vec<String>,
    #[serde(default)]
    bytes: Vec<Option<String>>,
    now_ms: i64,
}

#[derive(Serialize)]
struct Answers {
    answers: Vec<Answer>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Text(String),
    Both { text: String, bytes: String },
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Result<Vec<u8>, std::num::ParseIntError> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16)).collect()
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
        let bytes: Vec<Option<Vec<u8>>> =
            message.bytes.iter().map(|hex| hex.as_deref().map(from_hex).transpose()).collect::<Result<_, _>>()?;
        let calls: Vec<Call<'_>> = message
            .calls
            .chunks_exact(2)
            .enumerate()
            .map(|(index, pair)| Call {
                operation: &pair[0],
                given: Given { arguments: &pair[1], bytes: bytes.get(index).and_then(Option::as_deref) },
                request: None,
            })
            .collect();
        let answers = store.call_many(&calls).answers.into_iter().map(envelope).map(|answer| match answer.bytes {
            None => Answer::Text(answer.text),
            Some(bytes) => Answer::Both { text: answer.text, bytes: to_hex(&bytes) },
        });
        let answers = answers.collect();
        opened = Some(store);
        serde_json::to_writer(&mut out, &Answers { answers })?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}
