//! What the operations that count cost, by figures that are the same on every machine: how many statements run, how many instructions
//! SQLite takes for them, and how many pages the commit writes. An operation that became dearer fails here, whatever the clock of the
//! machine says. Times are measured by `npm run bench`.
//!
//! After a change that was meant: `RUNKEEP_WRITE_COSTS=1 cargo test --features development --test costs`.

mod common;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use common::{Folder, clock, options};
use runkeep::{Call, Request, Store};
use serde_json::{Value, json};

/// Bytes of a page, and of what the log of writes has before each.
const PAGE: u64 = 4096;
const FRAME_HEADER: u64 = 24;

struct World {
    store: Store,
    wal: PathBuf,
    lines: String,
    _folder: Folder,
}

impl World {
    fn new() -> Self {
        let (folder, clock) = (Folder::new(), clock());
        let path = folder.file("store.db");
        let store = Store::open_with(&path, options(&clock)).unwrap();
        Self { store, wal: folder.file("store.db-wal"), lines: String::new(), _folder: folder }
    }

    fn call(&self, operation: &str, arguments: Value) -> Value {
        common::call(&self.store, operation, arguments)
    }

    /// A call whose cost is written down under a name.
    fn measure(&mut self, name: &str, operation: &str, arguments: Value) -> Value {
        self.measure_as(name, operation, arguments, None)
    }

    fn measure_as(&mut self, name: &str, operation: &str, arguments: Value, request: Option<Request<'_>>) -> Value {
        let (text, before) = (arguments.to_string(), self.written());
        self.store.efforts();
        let mut outcome = self.store.call_many(&[Call { request, ..Call::new(operation, &text) }]);
        let answer = outcome.answers.remove(0).unwrap_or_else(|error| panic!("{operation} {arguments}: {error}"));
        let efforts = self.store.efforts();
        let statements: i64 = efforts.values().map(|effort| effort.runs).sum();
        let steps: i64 = efforts.values().map(|effort| effort.steps).sum();
        // Nothing was copied from the log into the file meanwhile, so that it only grew.
        let pages = (self.written() - before) / (PAGE + FRAME_HEADER);
        writeln!(self.lines, "{name:<44} {statements:>4} statements {steps:>6} steps {pages:>3} pages").unwrap();
        serde_json::from_str(&answer.text).unwrap()
    }

    fn written(&self) -> u64 {
        std::fs::metadata(&self.wal).map_or(0, |wal| wal.len())
    }
}

#[test]
fn the_operations_that_count_cost_what_they_cost() {
    let mut world = World::new();
    // What is made once, the queue and the counters among it, is there before anything is measured.
    for n in 0..20 {
        world.call("executions.create", json!({ "workflowId": "w", "id": format!("run-{n}"), "input": { "n": n } }));
        world.call("queue.enqueue", json!({ "queue": "q", "payload": { "n": n } }));
    }
    let append = |run: &str, n: i64| json!({ "executionId": run, "type": "x-note", "data": { "n": n } });
    for n in 0..3 {
        world.call("events.append", append("run-1", n));
        world.call("events.append", append("run-2", n));
    }

    world.measure("create an execution", "executions.create", json!({ "workflowId": "w", "id": "new" }));
    world.measure("append, the same run as before", "events.append", append("run-1", 3));
    world.measure("append, the same run again", "events.append", append("run-1", 4));
    world.measure("append, another run", "events.append", append("run-2", 4));
    let done = json!({ "executionId": "run-2", "type": "node_completed", "data": { "nodeId": "a", "output": 1, "durationMs": 1, "statePatch": { "a": 1 } } });
    world.measure("append with a patch of the state", "events.append", done);
    let ten: Vec<Value> = (0..10).map(|n| json!({ "type": "x-note", "data": { "n": n } })).collect();
    world.measure("append ten events", "events.appendMany", json!({ "executionId": "run-2", "events": ten }));
    world.measure("enqueue", "queue.enqueue", json!({ "queue": "q", "payload": { "n": 1 } }));
    let request = |number| Request { client: "0197f3a2-7c5e-7d31-9f5e-3b6f0c1d2e4a", number, again: false, acked: number - 1 };
    world.measure_as(
        "enqueue, kept as a request",
        "queue.enqueue",
        json!({ "queue": "q", "payload": { "n": 2 } }),
        Some(request(1)),
    );
    world.measure_as("append, kept as a request", "events.append", append("run-2", 5), Some(request(2)));
    let mine = json!({ "queue": "q", "executionId": "run-3", "nodeId": "n", "payload": 1, "priority": 9 });
    world.measure("enqueue for a run", "queue.enqueue", mine);
    let claim = json!({ "workerId": "w", "queues": ["q"], "leaseMs": 1000 });
    let held = world.measure("claim", "queue.claim", claim.clone());
    let item = json!({ "id": held[0]["id"], "fence": held[0]["fence"] });
    world.measure("renew", "queue.renew", item.clone());
    let mut complete = item;
    complete["statePatch"] = json!({ "b": 1 });
    world.measure("complete, with a patch of the state", "queue.complete", complete);
    let held = world.call("queue.claim", claim.clone());
    world.measure("complete", "queue.complete", json!({ "id": held[0]["id"], "fence": held[0]["fence"] }));
    let held = world.call("queue.claim", claim);
    world.measure("fail", "queue.fail", json!({ "id": held[0]["id"], "fence": held[0]["fence"], "error": "e" }));
    world.measure("list ten items", "queue.list", json!({ "limit": 10 }));
    world.measure("list ten runs", "executions.list", json!({ "limit": 10 }));
    world.measure("list ten events", "events.list", json!({ "executionId": "run-2", "limit": 10 }));
    world.measure("get a run", "executions.get", json!({ "id": "run-2" }));
    world.measure("materialize", "executions.materialize", json!({ "id": "run-2" }));

    world.call("threads.create", json!({ "id": "thread" }));
    world.call("turns.create", json!({ "threadId": "thread", "id": "turn", "inputSummary": "Why?" }));
    world.call("items.create", json!({ "threadId": "thread", "turnId": "turn", "id": "answer", "kind": "assistant_message" }));
    world.call("items.appendText", json!({ "id": "answer", "delta": "Ray", "at": 0 }));
    world.measure("append to a text", "items.appendText", json!({ "id": "answer", "delta": "leigh", "at": 3 }));
    let used = json!({ "turnId": "turn", "responseId": "r", "model": "m", "inputTokens": 1, "outputTokens": 1 });
    world.measure("record usage", "usage.record", used);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/costs.txt");
    if std::env::var_os("RUNKEEP_WRITE_COSTS").is_some() {
        std::fs::write(&path, &world.lines).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap();
    for (now, known) in world.lines.lines().zip(known.lines()) {
        assert_eq!(now, known, "costs something else than before; see the head of this file");
    }
    assert_eq!(world.lines.lines().count(), known.lines().count());
}
