//! How long `executions.materialize` takes on a log of 100,000 events, with a state of 4 KB and 1,000 nodes:
//! `cargo run --release --example materialize`.

use std::time::{Duration, Instant};

use runkeep::executions::{CreateExecution, Materialize};
use runkeep::{Result, Store};

const EVENTS: usize = 100_000;
const NODES: usize = 1000;

fn main() -> Result<()> {
    let store = Store::in_memory()?;
    store.executions().create(CreateExecution { id: Some("run".parse()?), workflow_id: "w".parse()?, ..Default::default() })?;
    let text = "x".repeat(3900);
    store.call("executions.patchState", &format!(r#"{{"id":"run","patch":{{"text":"{text}"}}}}"#))?;
    let event = |n: usize| {
        let node = n % NODES;
        format!(
            r#"{{"type":"node_completed","data":{{"nodeId":"node-{node}","output":{{"n":{n}}},"statePatch":{{"last":{n}}},"durationMs":1}}}}"#
        )
    };
    for from in (0..EVENTS - NODES).step_by(100) {
        let events: Vec<String> = (from..from + 100).map(event).collect();
        store.call("events.appendMany", &format!(r#"{{"executionId":"run","events":[{}]}}"#, events.join(",")))?;
    }
    // The last ones come singly, so that the log is met at every distance from its last snapshot.
    let mut times = Vec::new();
    for n in EVENTS - NODES..EVENTS {
        store.call("events.appendMany", &format!(r#"{{"executionId":"run","events":[{}]}}"#, event(n)))?;
        // With a sequence it is folded anew each time. The fastest of five, which other work of the machine has not disturbed.
        let at = Some(n as i64 + 1);
        let mut fastest = Duration::MAX;
        for _ in 0..5 {
            let began = now();
            let fold = store.executions().materialize(Materialize { id: "run".parse()?, at })?;
            fastest = fastest.min(began.elapsed());
            assert_eq!(fold.completed_nodes.len(), NODES);
        }
        times.push(fastest);
    }
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!("{EVENTS} events: median {:?}, 99 of 100 within {:?}, slowest {:?}", at(50), at(99), at(100));
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a measurement takes real time")]
fn now() -> Instant {
    Instant::now()
}
