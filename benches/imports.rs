//! How long it takes to import a session of 200 MB, and how much memory: `cargo run --release --example imports`.
#![allow(clippy::disallowed_methods, reason = "this measures real time")]

use std::io::{BufReader, Read};
use std::time::Instant;

use runkeep::imports::SessionFormat;
use runkeep::{Result, Store};

const BYTES: u64 = 200 << 20;

/// A session that is made while it is read: turns of a prompt, an answer, a call and its result.
#[derive(Default)]
struct Session {
    record: u64,
    made: u64,
    line: Vec<u8>,
    at: usize,
}

impl Session {
    fn next(&mut self) {
        let n = self.record;
        self.record += 1;
        let text = "The gauge shows negative wind, which the north mark does not. ".repeat(30);
        let message = match n % 4 {
            0 => format!(r#"{{"role":"user","content":"{text}"}}"#),
            1 => format!(
                r#"{{"role":"assistant","id":"m{n}","model":"claude-sonnet-4-5","content":[{{"type":"text","text":"{text}"}}],"usage":{{"input_tokens":3,"output_tokens":40}}}}"#
            ),
            2 => format!(
                r#"{{"role":"assistant","id":"m{n}","model":"claude-sonnet-4-5","content":[{{"type":"tool_use","id":"t{n}","name":"Bash","input":{{"command":"make"}}}}],"usage":{{"input_tokens":3,"output_tokens":9}}}}"#
            ),
            _ => {
                format!(r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{}","content":"{text}"}}]}}"#, n - 1)
            }
        };
        let kind = if matches!(n % 4, 0 | 3) { "user" } else { "assistant" };
        let (minute, second) = (n / 60 % 60, n % 60);
        self.line = format!(
            "{{\"type\":\"{kind}\",\"sessionId\":\"large\",\"uuid\":\"u{n}\",\"timestamp\":\"2026-02-01T08:{minute:02}:{second:02}Z\",\"message\":{message}}}\n"
        )
        .into_bytes();
        self.at = 0;
        self.made += self.line.len() as u64;
    }
}

impl Read for Session {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.line.len() {
            if self.made >= BYTES {
                return Ok(0);
            }
            self.next();
        }
        let count = buffer.len().min(self.line.len() - self.at);
        buffer[..count].copy_from_slice(&self.line[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// The most memory that this process has had, in MiB, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes / 1024)
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("runkeep-imports-{}.db", std::process::id()));
    let store = Store::open(&path)?;
    let before = peak();
    for round in ["first", "again"] {
        let start = Instant::now();
        let report =
            store.imports().read(SessionFormat::ClaudeCode, "large.jsonl", BufReader::new(Session::default()), |_| true)?;
        println!("{round}: {} new, {} known in {:.1} s", report.imported, report.skipped, start.elapsed().as_secs_f64());
    }
    store.close()?;
    let size = std::fs::metadata(&path).map_or(0, |file| file.len() >> 20);
    println!("file {} MiB, database {size} MiB, memory at most {:?} MiB, before {before:?} MiB", BYTES >> 20, peak());
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", path.display()));
    }
    Ok(())
}
