//! SQL is code: each statement that the store runs finds its rows by an index, however large the tables are.
//!
//! A scenario calls every operation in all its variants, and an import, and records the SQL. SQLite is then asked for the plan of each statement, on a
//! database of some size, with and without the statistics of ANALYZE.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::{Folder, START, clock, options, with};
use runkeep::imports::{ImportJamjet, SessionFormat};
use runkeep::threads::blobs::PutBlob;
use runkeep::{Call, ManualClock, OPERATIONS, Request, Result, Store, Topic};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::{Value, json};

/// Operations whose cost must not depend on how much is stored: none of their statements may be among [`EXCEPTIONS`]. The sweep's
/// reclaiming and readying are parts of a claim too. Not part of this is that a large state, and a snapshot that is due, are folded from
/// the newest snapshot.
const HOT: &[&str] = &[
    "events.append",
    "events.latestSequence",
    "executions.create",
    "executions.get",
    "executions.recent",
    "executions.count",
    "executions.setState",
    "executions.patchState",
    "snapshots.latest",
    "snapshots.list",
    "approvals.list",
    "approvals.resolve",
    "timers.schedule",
    "timers.cancel",
    "timers.get",
    "timers.list",
    "cron.put",
    "cron.get",
    "cron.list",
    "cron.trigger",
    "tokens.create",
    "tokens.validate",
    "tokens.revoke",
    "tokens.list",
    "workflows.get",
    "workflows.list",
    "inbox.admit",
    "inbox.get",
    "inbox.next",
    "inbox.steers",
    "inbox.promote",
    "inbox.withdraw",
    "inbox.list",
    "usage.record",
    "usage.get",
    "usage.list",
    "blobs.put",
    "blobs.get",
    "blobs.list",
    "queue.get",
    "queue.enqueue",
    "queue.claim",
    "queue.renew",
    "queue.complete",
    "queue.fail",
    "queue.release",
    "workers.heartbeat",
    "queues.stats",
    "leases.listExpired",
    "threads.create",
    "threads.get",
    "threads.update",
    "threads.list",
    "threads.recent",
    "threads.archive",
    "turns.create",
    "turns.get",
    "turns.update",
    "turns.list",
    "turns.listIncomplete",
    "threadEvents.append",
    "threadEvents.list",
    "threads.search",
    "items.create",
    "items.put",
    "items.get",
    "items.update",
    "items.list",
    "items.appendText",
    "items.readText",
    "imports.chunk",
];

const JAMJET: &[u8] = include_bytes!("fixtures/jamjet-0.3.2.db");

/// Another program's file, with rows in each of its tables.
fn jamjet() -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.file("jamjet.db");
    std::fs::write(&path, JAMJET).unwrap();
    let database = Connection::open(&path).unwrap();
    let timer = "INSERT INTO timers (id, execution_id, tenant_id, node_id, fire_at, fired, created_at)
                 SELECT 't', execution_id, tenant_id, 'n', started_at, 0, started_at FROM workflow_executions LIMIT 1";
    assert_eq!(database.execute(timer, ()).unwrap(), 1);
    database.close().unwrap();
    std::fs::read(&path).unwrap()
}

/// How rows are found: an index (`table.key` is the primary key), and the terms by which it is searched. More terms are fine.
struct Search {
    by: &'static str,
    terms: &'static [&'static str],
    /// What bounds the rows found, where it is not that they are one row or those of one thing. `LIMIT` is looked for in the statement.
    bounded_by: &'static str,
}

const fn search(by: &'static str, terms: &'static [&'static str], bounded_by: &'static str) -> Search {
    Search { by, terms, bounded_by }
}

const LIMIT: &str = "LIMIT";
const FEW: &str = "a store has few tenants and queues";

const SEARCHES: &[Search] = &[
    search("tenants.key", &["rowid=?"], ""),
    search("tenants.key", &[], FEW),
    search("sqlite_autoindex_tenants_1", &["id=?"], ""),
    search("sqlite_autoindex_tenants_1", &[], FEW),
    search("execution_counts.key", &["tenant=?"], "a row for each status"),
    search("monthly_usage.key", &["tenant=?", "month=?"], ""),
    search("tokens.key", &["rowid=?"], ""),
    search("tokens.key", &["rowid>?", "rowid<?"], LIMIT),
    search("tokens_by_id", &["tenant=?", "id=?"], ""),
    search("sqlite_autoindex_tokens_1", &["sha256=?"], ""),
    search("workflows.key", &["rowid=?"], ""),
    search("workflows.key", &["rowid>?", "rowid<?"], LIMIT),
    search("workflows_by_version", &["tenant=?", "id=?"], "a workflow has few versions"),
    search("workflows_by_version", &["tenant=?"], LIMIT),
    search("retention.key", &["rowid=?"], ""),
    search("requests.key", &["client=?", "number=?"], ""),
    search("requests.key", &["client=?", "number<?"], "what was acknowledged since the client's last call"),
    search("requests.key", &["client=?"], LIMIT),
    search("requests.key", &["client>?"], LIMIT),
    search("executions.key", &["rowid=?"], ""),
    search("executions.key", &["rowid>?", "rowid<?"], LIMIT),
    search("executions_by_id", &["tenant=?", "id=?"], ""),
    search("executions_by_status", &["tenant=?", "status=?", "rowid>?", "rowid<?"], LIMIT),
    search("executions_by_parent", &["tenant=?", "parent_id=?", "rowid>?", "rowid<?"], LIMIT),
    search("executions_by_parent", &["tenant=?", "parent_id=?"], LIMIT),
    search("executions_by_change", &["tenant=?"], LIMIT),
    search("execution_documents.key", &["rowid=?"], ""),
    search("execution_states.key", &["rowid=?"], ""),
    search("execution_bases.key", &["rowid=?"], ""),
    search("snapshots.key", &["execution=?", "sequence=?"], ""),
    search("snapshots.key", &["execution=?"], LIMIT),
    search("events.key", &["execution=?", "sequence=?"], ""),
    search("events.key", &["execution=?", "sequence>?", "sequence<?"], LIMIT),
    search("events_by_id", &["tenant=?", "id=?"], ""),
    search("approvals.key", &["rowid=?"], ""),
    search("approvals.key", &["rowid>?", "rowid<?"], LIMIT),
    search("approvals_of_execution", &["execution=?", "approval_id=?"], ""),
    search("approvals_in_order", &["execution=?", "rowid>?", "rowid<?"], LIMIT),
    search("approvals_open", &["execution=?"], "what is not decided of one execution"),
    search("approvals_by_status", &["tenant=?", "status=?", "rowid>?", "rowid<?"], LIMIT),
    search("timers.key", &["rowid=?"], ""),
    search("timers.key", &["rowid>?", "rowid<?"], LIMIT),
    search("timers_by_id", &["tenant=?", "id=?"], ""),
    search("timers_due", &["tenant=?", "fire_at<?"], LIMIT),
    search("timers_of_execution", &["execution=?", "rowid>?", "rowid<?"], LIMIT),
    search("timers_by_status", &["tenant=?", "status=?", "rowid>?", "rowid<?"], LIMIT),
    search("crons.key", &["rowid=?"], ""),
    search("crons.key", &["rowid>?", "rowid<?"], LIMIT),
    search("crons_by_name", &["tenant=?", "name=?"], ""),
    search("crons_due", &["tenant=?", "wake_at<?"], LIMIT),
    search("queues.key", &["rowid=?"], ""),
    search("queues.key", &["rowid>?", "rowid<?"], FEW),
    search("queues_by_name", &["tenant=?", "name=?"], ""),
    search("queue_keys.key", &["queue=?", "concurrency_key=?"], ""),
    search("queue_keys_by_wake", &["queue=?", "wake_at<?"], LIMIT),
    search("queue_keys_by_wake", &["queue=?", "wake_at>?"], LIMIT),
    search("queue_keys_by_wake", &["queue=?"], LIMIT),
    search("requirement_classes.key", &["rowid=?"], ""),
    search("requirement_classes.key", &["rowid>?", "rowid<?"], LIMIT),
    search("requirement_classes_of_queue", &["queue=?"], "64 classes a queue"),
    search("items.key", &["rowid=?"], ""),
    search("items.key", &["rowid>?", "rowid<?"], LIMIT),
    search("items_by_id", &["tenant=?", "id=?"], ""),
    search("items_ready", &["queue=?", "class=?"], LIMIT),
    search("items_scheduled", &["queue=?", "run_at<?"], LIMIT),
    search("items_leased", &["queue=?", "lease_expires_at<?"], LIMIT),
    search("items_leased", &["queue=?"], LIMIT),
    search("items_dead_lettered", &["tenant=?", "rowid>?"], LIMIT),
    search("items_blocked", &["queue=?"], LIMIT),
    search("items_waiting_by_key", &["queue=?", "concurrency_key=?", "class=?", "blocked=?"], ""),
    search("items_waiting_by_key", &["queue=?", "concurrency_key>?"], LIMIT),
    search("items_claimed_by_key", &["queue=?", "concurrency_key=?"], LIMIT),
    search("items_of_execution", &["execution=?"], "the items of one execution"),
    search("items_by_idempotency_key", &["queue=?", "idempotency_key=?"], ""),
    search("item_payloads.key", &["rowid=?"], ""),
    search("attempts.key", &["item=?"], ""),
    search("workers.key", &["rowid=?"], ""),
    search("workers.key", &["rowid>?", "rowid<?"], LIMIT),
    search("workers_by_id", &["tenant=?", "namespace=?", "worker_id=?"], ""),
    search("workers_by_expiry", &["tenant=?", "expires_at<?"], LIMIT),
    search("threads.key", &["rowid=?"], ""),
    search("threads.key", &["rowid>?", "rowid<?"], LIMIT),
    search("threads_by_id", &["tenant=?", "id=?"], ""),
    search("threads_by_archived", &["tenant=?", "archived=?", "rowid>?", "rowid<?"], LIMIT),
    search("threads_by_change", &["tenant=?", "archived=?"], LIMIT),
    search("thread_documents.key", &["rowid=?"], ""),
    search("turns.key", &["rowid=?"], ""),
    search("turns.key", &["rowid>?", "rowid<?"], LIMIT),
    search("turns_by_id", &["tenant=?", "id=?"], ""),
    search("turns_of_thread", &["thread=?", "rowid>?", "rowid<?"], LIMIT),
    search("turns_of_thread", &["thread=?"], LIMIT),
    search("turns_open", &["tenant=?", "rowid>?", "rowid<?"], LIMIT),
    search("thread_items_by_position", &["thread=?", "position>?", "position<?"], LIMIT),
    search("thread_events.key", &["rowid=?"], ""),
    search("thread_events_of_thread", &["thread=?", "rowid>?", "rowid<?"], LIMIT),
    search("thread_event_sequences.key", &["rowid=?"], ""),
    search("thread_items.key", &["rowid=?"], ""),
    search("thread_items.key", &["rowid>?", "rowid<?"], LIMIT),
    search("thread_items_by_id", &["tenant=?", "id=?"], ""),
    search("thread_items_by_position", &["thread=?"], LIMIT),
    search("thread_items_of_turn", &["turn=?", "position>?", "position<?"], LIMIT),
    search("thread_items_of_turn", &["turn=?"], "the items of one turn, as it ends"),
    search("item_contents.key", &["rowid=?"], ""),
    search("item_deltas.key", &["item=?", "until>?"], "what has streamed into one item and is new"),
    search("item_deltas.key", &["item=?"], "what has streamed into one item"),
    search("inbox.key", &["rowid=?"], ""),
    search("inbox.key", &["rowid>?", "rowid<?"], LIMIT),
    search("inbox_by_id", &["tenant=?", "id=?"], ""),
    search("inbox_of_thread", &["thread=?", "admitted_sequence>?", "admitted_sequence<?"], LIMIT),
    search("inbox_by_turn", &["tenant=?", "turn_id=?"], LIMIT),
    search("inbox_waiting", &["thread=?", "delivery=?"], LIMIT),
    search("usage_records.key", &["rowid=?"], ""),
    search("usage_records.key", &["rowid>?", "rowid<?"], LIMIT),
    search("usage_by_response", &["tenant=?", "response_id=?"], ""),
    search("usage_by_time", &["tenant=?", "created_at>?", "created_at<?"], LIMIT),
    search("usage_of_turn", &["turn=?", "rowid>?", "rowid<?"], LIMIT),
    search("usage_of_turn", &["turn=?"], "the responses of one turn"),
    search("usage_unpriced", &["tenant=?", "rowid>?", "rowid<?"], LIMIT),
    search("price_lists.key", &["rowid=?"], ""),
    search("blobs.key", &["rowid=?"], ""),
    search("blobs.key", &["rowid>?", "rowid<?"], LIMIT),
    search("blobs_by_hash", &["tenant=?", "sha256=?"], ""),
    search("imported_records.key", &["thread=?", "record=?"], ""),
    search("blob_chunks.key", &["blob=?", "number>?", "number<?"], "the range that is asked for"),
    search("worker_history.key", &["rowid=?"], ""),
    search("worker_history.key", &["rowid>?", "rowid<?"], LIMIT),
    search("search_index", &["rowid=?"], ""),
    search("search_index", &["MATCH ?", "rowid>?", "rowid<?"], LIMIT),
];

/// Statements that may find more rows than that, each for a reason. None of a hot operation is among them.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("DELETE FROM executions WHERE key = ?1", "retention lets go of a log as a whole"),
    (
        "SELECT sequence, id, type, data, created_at FROM events WHERE execution = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence",
        "folds the log from the snapshot before",
    ),
    (
        "SELECT coalesce(sum(length(CAST(data AS BLOB))), 0) FROM events WHERE execution = ?1 AND sequence > ?2",
        "an import weighs the log that it brought, after its newest snapshot",
    ),
    (
        "SELECT key, id, queue, execution, node_id, status, attempt, max_attempts, fence, lease_expires_at, lease_ms, namespace, worker_id, \
         claimed_at, cancel_requested, backoff, concurrency_key, settlement FROM items WHERE queue = ?1 AND status = 'claimed' AND worker_id = ?2",
        "a worker dies: looks at what is being worked on now",
    ),
    ("UPDATE items SET lease_expires_at = ?3 + lease_ms, graced_fence", "the device slept: looks at what was being worked on"),
    ("UPDATE workers SET expires_at = ?3 + liveness_ttl_ms", "the device slept: looks at the workers that were alive"),
    ("UPDATE queue_keys SET tokens = NULL", "a setting of all keys has changed"),
    ("DELETE FROM blobs WHERE key = ?1", "deletes the bytes of a blob as a whole"),
    ("SELECT NULL, coalesce(sum(input_tokens), 0)", "sums what was used in a span of time"),
    ("SELECT model, coalesce(sum(input_tokens), 0)", "sums what was used in a span of time"),
    ("SELECT provider, coalesce(sum(input_tokens), 0)", "sums what was used in a span of time"),
    ("SELECT thread_id, coalesce(sum(input_tokens), 0)", "sums what was used in a span of time"),
    ("DELETE FROM search_index WHERE search_index MATCH ?1", "lets go of a thread as a whole"),
    ("DELETE FROM threads WHERE key = ?1", "lets go of a thread as a whole"),
    ("SELECT coalesce(max(turn), 0) FROM thread_items", "copies a thread as a whole"),
];

/// The SQL that each operation has run.
struct Recorder {
    store: Store,
    clock: ManualClock,
    statements: BTreeMap<&'static str, BTreeSet<String>>,
    /// The number of the last call.
    number: i64,
    /// Compares what changed with what is said to have changed.
    watch: Option<Watch>,
}

impl Recorder {
    fn new(store: Store, clock: ManualClock, watch: Option<Watch>) -> Self {
        store.efforts();
        Self { store, clock, statements: BTreeMap::new(), number: 0, watch }
    }

    #[track_caller]
    fn call(&mut self, operation: &str, arguments: Value) -> Value {
        self.number += 1;
        self.send(operation, &arguments, false).unwrap_or_else(|error| panic!("{operation} {arguments} failed: {error}"))
    }

    /// The last call once more, as if its answer had been lost.
    #[track_caller]
    fn again(&mut self, operation: &str, arguments: Value) -> Value {
        self.send(operation, &arguments, true).unwrap_or_else(|error| panic!("{operation} {arguments} failed again: {error}"))
    }

    #[track_caller]
    fn fails(&mut self, operation: &str, arguments: Value, expected: &str) {
        self.number += 1;
        let error = self.send(operation, &arguments, false).expect_err(operation);
        assert_eq!(error.code().as_str(), expected, "{operation} {arguments}: {error}");
    }

    fn send(&mut self, operation: &str, arguments: &Value, again: bool) -> Result<Value> {
        let text = arguments.to_string();
        let request = Request { client: "client", number: self.number, again, acked: self.number - 1 };
        let mut outcome = self.store.call_many(&[Call { request: Some(request), ..Call::new(operation, &text) }]);
        self.record(operation);
        if let Some(watch) = &mut self.watch {
            let said = outcome.changes.iter().flat_map(|change| change.topics.keys().copied()).collect();
            watch.check(&format!("{operation} {arguments}"), &said);
        }
        outcome.answers.remove(0).map(|answer| serde_json::from_str(&answer.text).unwrap())
    }

    fn record(&mut self, operation: &str) {
        let operation = operation.split('@').next().unwrap();
        let name = OPERATIONS.iter().find(|known| known.name == operation).unwrap().name;
        self.statements.entry(name).or_default().extend(self.store.efforts().into_keys());
    }

    /// An import into a store of its own, and a repeat of it.
    fn import(&mut self) {
        let store = Store::in_memory_with(options(&self.clock)).unwrap();
        store.efforts();
        let jamjet = jamjet();
        for _ in 0..2 {
            assert_eq!(store.imports().jamjet(ImportJamjet { bytes: jamjet.clone() }).unwrap().rejected, []);
        }
        self.statements.entry("imports.jamjet").or_default().extend(store.efforts().into_keys());
        let sessions = [
            (SessionFormat::ClaudeCode, "sessions/imports/claude.jsonl"),
            (SessionFormat::Codex, "sessions/imports/codex.jsonl"),
            (SessionFormat::Zagens, "zagens-0.8.1"),
        ];
        for (format, path) in [sessions, sessions].concat() {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(path);
            let imports = store.imports();
            let reports = match format {
                SessionFormat::ClaudeCode => imports.claude_code(&[path], |_| true),
                SessionFormat::Codex => imports.codex(&[path], |_| true),
                SessionFormat::Zagens => imports.zagens_json(&[path], |_| true),
            };
            assert!(
                reports.unwrap().iter().all(|report| report.imported + report.skipped > 0 || report.path.ends_with("state.json"))
            );
        }
        self.statements.entry("imports.chunk").or_default().extend(store.efforts().into_keys());
    }

    fn all(&self) -> BTreeSet<&str> {
        self.statements.values().flatten().map(String::as_str).collect()
    }

    #[track_caller]
    fn claim_from(&mut self, queue: &str) -> Value {
        let claimed = self.call("queue.claim", json!({ "workerId": "w", "queues": [queue], "leaseMs": 1000 }));
        assert_eq!(claimed.as_array().unwrap().len(), 1, "{queue}");
        json!({ "id": claimed[0]["id"], "fence": claimed[0]["fence"] })
    }
}

/// Another connection to the store, which sees what its tables hold.
struct Watch {
    connection: Connection,
    /// Digests of the tables' content when they were last looked at.
    before: BTreeMap<&'static str, u64>,
    /// For which topics rows have changed.
    seen: BTreeSet<Topic>,
}

/// What callers see of each topic.
const SHOWN: &[(Topic, &str, &str)] = &[
    (Topic::Executions, "executions", "SELECT e.id, e.status, e.last_sequence, e.updated_at FROM executions e"),
    (Topic::Executions, "documents", "SELECT * FROM execution_documents"),
    (Topic::Executions, "counts", "SELECT * FROM execution_counts WHERE count > 0"),
    (Topic::Events, "events", "SELECT * FROM events"),
    (Topic::Events, "approvals", "SELECT * FROM approvals"),
    (Topic::Events, "snapshots", "SELECT * FROM snapshots"),
    (
        Topic::Items,
        "items",
        "SELECT i.id, i.status, i.attempt, i.fence, i.run_at, i.lease_expires_at, i.worker_id, i.output, i.last_error, i.progress,
                i.cancel_requested, i.finished_at, i.payload, q.name FROM items i JOIN queues q ON q.key = i.queue",
    ),
    (Topic::Items, "payloads", "SELECT * FROM item_payloads"),
    (Topic::Items, "attempts", "SELECT * FROM attempts"),
    (
        Topic::Queues,
        "queues",
        "SELECT name, paused, held_until, concurrency, key_concurrency, rate_limit, key_rate_limit, max_attempts, backoff FROM queues",
    ),
    (Topic::Workers, "workers", "SELECT * FROM workers"),
    (Topic::Workers, "history", "SELECT * FROM worker_history"),
    (Topic::Workflows, "workflows", "SELECT * FROM workflows"),
    (Topic::Timers, "timers", "SELECT * FROM timers"),
    (Topic::Crons, "crons", "SELECT * FROM crons"),
    (Topic::Threads, "threads", "SELECT id, title, archived, head_item_id, latest_turn_id, last_message_at, updated_at FROM threads"),
    (Topic::Threads, "thread documents", "SELECT * FROM thread_documents"),
    (Topic::Turns, "turns", "SELECT * FROM turns"),
    (Topic::ThreadItems, "thread items", "SELECT * FROM thread_items"),
    (Topic::ThreadItems, "contents", "SELECT * FROM item_contents"),
    (Topic::ThreadItems, "deltas", "SELECT * FROM item_deltas"),
    (Topic::ThreadEvents, "thread events", "SELECT * FROM thread_events"),
    (Topic::Inbox, "inbox", "SELECT * FROM inbox"),
    (Topic::Usage, "usage", "SELECT * FROM usage_records"),
    (Topic::Usage, "prices", "SELECT * FROM price_lists"),
    (Topic::Blobs, "blobs", "SELECT * FROM blobs"),
];

impl Watch {
    fn new(connection: Connection) -> Self {
        let mut watch = Self { connection, before: BTreeMap::new(), seen: BTreeSet::new() };
        watch.changed();
        watch
    }

    /// What differs from the last time, by topic.
    fn changed(&mut self) -> Vec<(Topic, &'static str)> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut changed = Vec::new();
        for &(topic, name, sql) in SHOWN {
            let mut statement = self.connection.prepare_cached(sql).unwrap();
            let columns = statement.column_count();
            let mut rows = statement.query(()).unwrap();
            let mut hasher = DefaultHasher::new();
            while let Some(row) = rows.next().unwrap() {
                (0..columns).for_each(|at| format!("{:?}", row.get_ref(at).unwrap()).hash(&mut hasher));
            }
            let digest = hasher.finish();
            if self.before.insert(name, digest) != Some(digest) {
                changed.push((topic, name));
            }
        }
        changed
    }

    fn check(&mut self, call: &str, said: &BTreeSet<Topic>) {
        for (topic, table) in self.changed() {
            assert!(said.contains(&topic), "{call} changed {table}, and says only {said:?}");
            self.seen.insert(topic);
        }
    }
}

/// Calls every operation in all its variants.
fn scenario() -> Recorder {
    let clock = clock();
    play(Recorder::new(Store::in_memory_with(options(&clock)).unwrap(), clock, None))
}

fn play(mut r: Recorder) -> Recorder {
    requests(&mut r);
    executions(&mut r);
    events(&mut r);
    states(&mut r);
    approvals(&mut r);
    segments_and_forks(&mut r);
    workflows(&mut r);
    tenants_and_tokens(&mut r);
    batch(&mut r);
    timers_and_cron(&mut r);
    workers(&mut r);
    items(&mut r);
    settlements(&mut r);
    searching(&mut r);
    limits(&mut r);
    dead_letters(&mut r);
    threads_and_turns(&mut r);
    thread_items(&mut r);
    prompts(&mut r);
    used(&mut r);
    bytes(&mut r);
    lists(&mut r);
    time(&mut r);
    r.import();
    r
}

/// Calls whose answers are lost.
fn requests(r: &mut Recorder) {
    let run = json!({ "workflowId": "w" });
    let id = r.call("executions.create", run.clone())["id"].clone();
    assert_eq!(r.again("executions.create", run)["id"], id);
    r.call("queue.enqueue", json!({ "queue": "again" }));
    let claim = json!({ "workerId": "w", "queues": ["again"] });
    let claimed = r.call("queue.claim", claim.clone());
    assert_eq!(r.again("queue.claim", claim), claimed);
    let token = json!({ "name": "n", "role": "viewer" });
    r.call("tokens.create", token.clone());
    r.again("tokens.create", token);
    r.clock.advance(11 * 60 * 1000);
    r.store.forget_clients(&["another"]).unwrap();
    r.record("sweep");
    r.clock.advance(-11 * 60 * 1000);
    r.call("exportDatabase", json!({}));
    // Of another tenant.
    r.call("tenants.create", json!({ "id": "other" }));
    r.call("executions.create@other", json!({ "workflowId": "w" }));
}

fn executions(r: &mut Recorder) {
    let run = json!({ "workflowId": "w", "id": "run", "tags": ["t"], "metadata": {}, "input": 1 });
    r.call("executions.create", run.clone());
    r.call("executions.create", run);
    r.fails("executions.create", json!({ "workflowId": "other", "id": "run" }), "conflict");
    r.call("executions.create", json!({ "workflowId": "w", "parentId": "run" }));
    r.call("executions.get", json!({ "id": "run" }));
    r.call("executions.setStatus", json!({ "id": "run", "status": "running", "expectedStatus": "pending", "reason": "go" }));
    r.fails("executions.setStatus", json!({ "id": "run", "status": "pending" }), "invalid_transition");
    r.call("executions.recent", json!({}));
    r.call("executions.recent", json!({ "limit": 1 }));
    r.call("executions.count", json!({}));
    r.call("executions.count", json!({ "groupBy": "status" }));
}

fn events(r: &mut Recorder) {
    let of = |event_type: &str, data: Value| json!({ "executionId": "run", "type": event_type, "data": data });
    r.call("events.append", with(&of("x-a", json!(1)), json!({ "id": "e-1", "expectedSequence": 1 })));
    r.call("events.append", with(&of("x-a", json!(1)), json!({ "id": "e-1", "expectedSequence": 1 })));
    r.fails("events.append", with(&of("x-b", json!(1)), json!({ "id": "e-1" })), "conflict");
    r.call("events.append", of("node_started", json!({ "nodeId": "n", "workerId": "w", "attempt": 1 })));
    let done = json!({ "nodeId": "n", "output": 1, "statePatch": { "a": 1 }, "durationMs": 1 });
    r.call("events.append", of("node_completed", done));
    r.call("events.append", of("interrupt_raised", json!({ "nodeId": "n", "reason": "r", "stateForReview": {} })));
    r.call("events.append", of("approval_received", json!({ "nodeId": "n", "decision": "approved" })));
    let asks = json!({ "nodeId": "n", "approvalId": "a", "toolName": "t", "approver": "me", "context": {} });
    r.call("events.append", of("tool_approval_required", asks));
    r.call("events.append", of("approval_received", json!({ "nodeId": "n", "approvalId": "a", "decision": "rejected" })));
    r.call("events.appendMany", json!({ "executionId": "run", "events": [{ "type": "x-a" }, { "type": "x-b", "id": "e-2" }] }));
    r.call("events.latestSequence", json!({ "executionId": "run" }));
    r.call("executions.materialize", json!({ "id": "run" }));
    r.call("executions.materialize", json!({ "id": "run", "at": 2 }));
}

/// States, small and large, and the snapshots of long logs.
fn states(r: &mut Recorder) {
    r.call("executions.create", json!({ "workflowId": "w", "id": "state" }));
    let of = |more: Value| with(&json!({ "id": "state" }), more);
    r.call("executions.setState", of(json!({ "state": { "a": 1 }, "expectedSequence": 0 })));
    r.fails("executions.setState", of(json!({ "state": {}, "expectedSequence": 0 })), "conflict");
    r.call("executions.patchState", of(json!({ "patch": { "b": 1 }, "expectedSequence": 1 })));
    r.call("executions.appendToState", of(json!({ "key": "list", "value": 1 })));
    r.call("executions.appendToState", of(json!({ "key": "list", "value": 2, "expectedSequence": 3 })));
    r.fails("executions.appendToState", of(json!({ "key": "a", "value": 1 })), "conflict");
    assert_eq!(r.call("snapshots.latest", json!({ "executionId": "state" })), Value::Null);
    for _ in 0..2 {
        let events = vec![json!({ "type": "x-a", "data": "x".repeat(200) }); 100];
        r.call("events.appendMany", json!({ "executionId": "state", "events": events }));
    }
    assert!(r.call("snapshots.latest", json!({ "executionId": "state" }))["sequence"].as_i64() > Some(100));
    r.call("executions.materialize", json!({ "id": "state" }));
    r.call("executions.materialize", json!({ "id": "state", "at": 2 }));
    // Too large to be kept beside the log.
    r.call("executions.setState", of(json!({ "state": { "text": "x".repeat(5000) } })));
    r.call("executions.patchState", of(json!({ "patch": { "b": 2 } })));
    r.call("executions.appendToState", of(json!({ "key": "list", "value": 1 })));
    let whole = r.call("executions.list", json!({ "workflowId": "w", "order": "desc" }));
    assert_eq!(whole["items"][0]["state"]["b"], 2);
    // A snapshot that would weigh more than the events since the last one has to wait.
    let events = vec![json!({ "type": "x-a", "data": 1 }); 100];
    r.call("events.appendMany", json!({ "executionId": "state", "events": events }));
    r.call("queue.enqueue", json!({ "queue": "of-state", "executionId": "state", "nodeId": "n" }));
    r.call("executions.cancel", of(json!({ "reason": "enough" })));
    r.call("executions.cancel", of(json!({})));
    r.fails("executions.setState", of(json!({ "state": {} })), "invalid_transition");
    r.fails("executions.cancel", json!({ "id": "none" }), "not_found");
}

/// What people are asked, and decide.
fn approvals(r: &mut Recorder) {
    r.call("executions.create", json!({ "workflowId": "w", "id": "asks" }));
    r.call("executions.setStatus", json!({ "id": "asks", "status": "running" }));
    let asks = |id: &str| json!({ "nodeId": "n", "approvalId": id, "toolName": "t", "approver": "me", "context": { "a": 1 } });
    let of = |event_type: &str, data: Value| json!({ "executionId": "asks", "type": event_type, "data": data });
    for id in ["first", "second", "third"] {
        r.call("events.append", of("tool_approval_required", asks(id)));
    }
    // Asked again while it is open.
    r.call("events.append", of("tool_approval_required", asks("first")));
    let decision = json!({ "executionId": "asks", "approvalId": "first", "decision": "approved" });
    let more = json!({ "userId": "me", "comment": "c", "statePatch": { "ok": true }, "payload": 1 });
    r.call("approvals.resolve", with(&decision, more));
    r.fails("approvals.resolve", decision.clone(), "conflict");
    r.fails("approvals.resolve", with(&decision, json!({ "approvalId": "none" })), "not_found");
    // And after it was decided.
    r.call("events.append", of("tool_approval_required", asks("first")));
    r.call("approvals.resolve", with(&decision, json!({ "decision": "rejected" })));
    r.call("events.append", of("approval_received", json!({ "nodeId": "n", "decision": "approved" })));
}

/// Executions that begin with what another one has come to.
fn segments_and_forks(r: &mut Recorder) {
    let done = json!({ "nodeId": "n", "output": 1, "statePatch": { "a": 1 }, "durationMs": 1, "inputTokens": 5, "costUsd": 0.5 });
    r.call("events.append", json!({ "executionId": "asks", "type": "node_completed", "data": done }));
    r.call("executions.fork", json!({ "id": "asks", "newId": "fork" }));
    r.call("executions.fork", json!({ "id": "asks", "newId": "fork" }));
    r.fails("executions.fork", json!({ "id": "asks", "newId": "fork", "at": 1 }), "conflict");
    r.call("executions.fork", json!({ "id": "asks", "at": 2 }));
    r.call("executions.get", json!({ "id": "fork" }));
    r.call("executions.materialize", json!({ "id": "fork" }));
    // An inherited question.
    let inherited = r.call("approvals.list", json!({ "executionId": "fork", "status": "pending" }));
    assert_eq!(inherited["items"][0]["context"]["a"], 1, "{inherited}");
    r.call("approvals.resolve", json!({ "executionId": "fork", "approvalId": "third", "decision": "approved" }));
    let item = json!({ "queue": "next-segment", "nodeId": "n", "concurrencyKey": "k" });
    let next = json!({ "id": "fork", "state": { "carried": 1 }, "enqueue": item });
    let child = r.call("executions.continueAsNew", next.clone());
    assert_eq!(r.call("executions.continueAsNew", next)["created"], false);
    r.fails("executions.continueAsNew", json!({ "id": "fork" }), "conflict");
    r.call("executions.continueAsNew", json!({ "id": child["id"] }));
    // With items that wait and that are held, payloads, attempts, approvals and snapshots.
    let payload = json!({ "queue": "of-asks", "executionId": "asks", "nodeId": "n", "payload": "x".repeat(5000) });
    for _ in 0..2 {
        r.call("queue.enqueue", with(&payload, json!({ "concurrencyKey": "k" })));
    }
    r.claim_from("of-asks");
    r.call("executions.delete", json!({ "id": "asks" }));
    r.call("executions.delete", json!({ "id": "state" }));
    r.fails("executions.delete", json!({ "id": "asks" }), "not_found");
}

fn workflows(r: &mut Recorder) {
    let workflow = json!({ "id": "w", "version": "1", "definition": { "a": 1 } });
    r.call("workflows.put", workflow.clone());
    r.call("workflows.put", workflow.clone());
    let other = with(&workflow, json!({ "definition": { "a": 2 } }));
    r.fails("workflows.put", other.clone(), "conflict");
    r.call("workflows.put", with(&other, json!({ "replace": true })));
    r.call("tenants.update", json!({ "id": "default", "limits": { "maxWorkflows": 1 } }));
    r.call("workflows.put", with(&workflow, json!({ "version": "2" })));
    r.fails("workflows.put", with(&workflow, json!({ "id": "v" })), "limit_exceeded");
    r.call("tenants.update", json!({ "id": "default", "limits": null }));
    r.call("workflows.put", with(&workflow, json!({ "id": "v" })));
    r.call("workflows.get", json!({ "id": "w" }));
    r.call("workflows.get", json!({ "id": "w", "version": "1" }));
    r.call("workflows.get", json!({ "id": "none" }));
}

fn tenants_and_tokens(r: &mut Recorder) {
    let tenant = json!({ "id": "t", "name": "n", "policy": { "a": 1 }, "limits": { "maxWorkflows": 9 } });
    r.call("tenants.create", tenant.clone());
    r.call("tenants.create", tenant);
    r.fails("tenants.create", json!({ "id": "t" }), "conflict");
    r.call("tenants.create", json!({}));
    r.call("tenants.get", json!({ "id": "t" }));
    r.call("tenants.get", json!({ "id": "none" }));
    for changes in [json!({ "name": "m" }), json!({ "policy": null }), json!({ "status": "suspended" })] {
        r.call("tenants.update", with(&json!({ "id": "t" }), changes));
    }
    r.fails("tenants.update", json!({ "id": "none" }), "not_found");
    // As one that is bound to a tenant calls it.
    let bound = r.store.for_tenant("t");
    assert_eq!(common::code(&bound, "executions.create", json!({ "workflowId": "w" })), "tenant_suspended");
    r.record("executions.create");
    // Each limit, reached and not.
    for (limit, most, next) in
        [("maxConcurrentExecutions", 0, 1_000_000), ("maxTokensPerMonth", 5, 6), ("maxCostPerMonthUsd", 0, 1)]
    {
        for (most, fails) in [(most, true), (next, false)] {
            let mut limits = json!({});
            limits[limit] = most.into();
            r.call("tenants.update", json!({ "id": "default", "limits": limits }));
            let create = json!({ "workflowId": "w", "id": format!("within {limit}") });
            if fails {
                r.fails("executions.create", create, "limit_exceeded");
            } else {
                r.call("executions.create", create);
            }
        }
    }
    r.call("tenants.update", json!({ "id": "default", "limits": null }));

    for expires in [json!({}), json!({ "expiresAt": START * 2 })] {
        let token = r.call("tokens.create", with(&json!({ "name": "n", "role": "viewer" }), expires));
        for _ in 0..2 {
            assert_eq!(r.call("tokens.validate", json!({ "token": token["token"] }))["role"], "viewer");
        }
        let revoked = json!({ "id": token["info"]["id"] });
        r.call("tokens.revoke", revoked.clone());
        r.call("tokens.revoke", revoked);
        assert_eq!(r.call("tokens.validate", json!({ "token": token["token"] })), Value::Null);
    }
    r.call("tokens.validate", json!({ "token": "none" }));
    r.fails("tokens.revoke", json!({ "id": "none" }), "not_found");
}

fn batch(r: &mut Recorder) {
    let calls = json!([
        { "operation": "executions.create", "arguments": { "workflowId": "w", "id": "of-batch" } },
        { "operation": "events.append", "arguments": { "executionId": "of-batch", "type": "x-a" } },
        { "operation": "queue.enqueue", "arguments": { "queue": "of-batch", "executionId": "of-batch", "nodeId": "n" } },
    ]);
    r.call("batch", json!({ "calls": calls }));
    let calls = json!([{ "operation": "executions.cancel", "arguments": { "id": "none" } }]);
    r.fails("batch", json!({ "calls": calls }), "not_found");
}

/// Timers and cron schedules, in all their ends.
fn timers_and_cron(r: &mut Recorder) {
    r.call("executions.create", json!({ "workflowId": "w", "id": "timed" }));
    let timer = json!({ "executionId": "timed", "nodeId": "n", "delayMs": 1, "enqueue": { "queue": "timed" } });
    for id in ["fires", "fires", "cancelled"] {
        r.call("timers.schedule", with(&timer, json!({ "id": id })));
    }
    r.fails("timers.schedule", with(&timer, json!({ "id": "fires", "delayMs": 2 })), "conflict");
    // Refused when it comes due.
    r.call("timers.schedule", with(&timer, json!({ "enqueue": { "queue": "timed", "executionId": "nobody", "nodeId": "n" } })));
    r.call("timers.cancel", json!({ "id": "cancelled" }));
    r.call("timers.get", json!({ "id": "fires" }));
    for filter in [json!({}), json!({ "executionId": "timed" }), json!({ "status": "pending" })] {
        for order in ["asc", "desc"] {
            r.call("timers.list", with(&filter, json!({ "order": order })));
        }
    }
    let cron =
        json!({ "name": "c", "expression": "* * * * *", "workflowId": "w", "enqueue": { "queue": "timed", "nodeId": "n" } });
    r.call("cron.put", cron.clone());
    r.call("cron.put", cron.clone());
    r.call("cron.get", json!({ "name": "c" }));
    r.call("cron.trigger", json!({ "name": "c" }));
    for order in ["asc", "desc"] {
        r.call("cron.list", json!({ "order": order }));
    }
    r.clock.advance(60_000);
    let report = r.call("sweep", json!({}));
    assert_eq!((&report["timersFired"], &report["cronsFired"]), (&json!(1), &json!(1)), "{report}");
    // One that cannot begin an execution is put off.
    r.call("tenants.update", json!({ "id": "default", "limits": { "maxConcurrentExecutions": 1 } }));
    r.clock.advance(60_000);
    assert_eq!(r.call("sweep", json!({}))["errors"][0]["id"], "c");
    r.call("tenants.update", json!({ "id": "default", "limits": null }));
    r.call("cron.delete", json!({ "name": "c" }));
    r.call("executions.delete", json!({ "id": "timed" }));
}

fn workers(r: &mut Recorder) {
    let worker = json!({ "workerId": "w", "pool": "p", "queues": ["q"], "capabilities": ["gpu"], "livenessTtlMs": 600_000 });
    r.call("workers.register", worker.clone());
    r.call("workers.register", worker.clone());
    r.fails("workers.register", with(&worker, json!({ "pool": "other" })), "conflict");
    r.call("workers.heartbeat", json!({ "workerId": "w", "load": 0.5 }));
    r.call("workers.heartbeat", json!({ "workerId": "nobody" }));
    r.call("workers.register", with(&worker, json!({ "workerId": "dead", "livenessTtlMs": 1 })));
    r.clock.advance(1);
    r.call("workers.register", with(&worker, json!({ "workerId": "dead" })));
    r.call("queue.enqueue", json!({ "queue": "of-dead" }));
    r.call("queue.claim", json!({ "workerId": "dead", "queues": ["of-dead"] }));
    r.call("workers.markDead", json!({ "workerId": "dead", "reason": "gone" }));
    r.call("workers.markDead", json!({ "workerId": "nobody", "reason": "gone", "releaseLeases": false }));
}

fn items(r: &mut Recorder) {
    let item = json!({ "queue": "q", "executionId": "run", "nodeId": "n" });
    r.call("queue.enqueue", json!({ "queue": "q" }));
    r.call("queue.enqueue", with(&item, json!({ "id": "i-1", "payload": "x".repeat(5000) })));
    r.call("queue.enqueue", with(&item, json!({ "id": "i-1", "payload": "x".repeat(5000) })));
    r.fails("queue.enqueue", with(&item, json!({ "id": "i-1" })), "conflict");
    r.call("queue.enqueue", with(&item, json!({ "delayMs": 100, "backoff": { "kind": "fixed" }, "priority": 1 })));
    r.call("queue.enqueue", with(&item, json!({ "runAt": START, "requires": ["gpu"] })));
    r.call("queue.enqueue", with(&item, json!({ "requires": ["gpu"], "maxAttempts": 1 })));
    for unique_for in [Value::Null, json!("unfinished"), json!("ever"), json!("ever")] {
        r.call("queue.enqueue", json!({ "queue": "once", "idempotencyKey": "k", "uniqueFor": unique_for }));
    }
    r.fails("queue.enqueue", json!({ "queue": "once", "idempotencyKey": "k", "payload": 1 }), "conflict");
    drain(r, "once");
    r.call("queue.enqueue", json!({ "queue": "once", "idempotencyKey": "k", "uniqueFor": "ever" }));
    r.call("queue.enqueueMany", json!({ "items": [{ "queue": "q" }, { "queue": "q2", "concurrencyKey": "k" }] }));
    for id in ["wait-1", "wait-2"] {
        let delay_ms = if id == "wait-1" { 0 } else { 1000 };
        r.call("queue.enqueue", with(&item, json!({ "id": id, "queue": "to-cancel", "delayMs": delay_ms })));
        r.call("queue.cancel", json!({ "id": id }));
        r.fails("queue.cancel", json!({ "id": id }), "conflict");
    }
    r.call("queue.get", json!({ "id": "i-1" }));
    r.call("queue.get", json!({ "id": "none" }));
}

fn settlements(r: &mut Recorder) {
    let item = json!({ "queue": "s", "executionId": "run", "nodeId": "n", "backoff": { "kind": "fixed", "baseMs": 0 } });
    let enqueue = |r: &mut Recorder| {
        r.call("queue.enqueue", item.clone());
        r.claim_from("s")
    };
    let held = enqueue(r);
    r.call("queue.renew", held.clone());
    r.call("queue.renew", with(&held, json!({ "leaseMs": 5000, "progress": { "at": 1 } })));
    // The second of the items is the first again.
    let next = json!({ "queue": "next", "id": "next" });
    let complete = json!({ "output": 1, "events": [{ "type": "x-a" }], "statePatch": { "b": 2 }, "enqueue": [{ "queue": "next" }, next, next] });
    r.call("queue.complete", with(&held, complete.clone()));
    r.call("queue.complete", with(&held, complete));
    r.fails("queue.complete", held.clone(), "conflict");
    r.fails("queue.renew", held, "conflict");
    // Each way in which a delivery ends without completion.
    for how in [json!({}), json!({ "delayMs": 1 }), json!({ "retryable": false, "events": [{ "type": "x-a" }] })] {
        let held = enqueue(r);
        r.call("queue.fail", with(&with(&held, json!({ "error": "e" })), how));
        r.clock.advance(1);
        drain(r, "s");
    }
    for how in [json!({}), json!({ "delayMs": 1, "reason": "429" })] {
        let held = enqueue(r);
        r.call("queue.release", with(&held, how));
        r.clock.advance(1);
        drain(r, "s");
    }
    let held = enqueue(r);
    r.call("queue.cancel", json!({ "id": held["id"] }));
    r.call("queue.release", held.clone());
    r.fails("queue.release", json!({ "id": held["id"], "fence": 99 }), "lease_lost");
    r.call("queue.attempts", json!({ "id": held["id"] }));
    // A lease that a claim finds expired.
    enqueue(r);
    r.clock.advance(1000);
    drain(r, "s");
}

/// Completes what can be claimed.
fn drain(r: &mut Recorder, queue: &str) {
    while let Some(item) =
        r.call("queue.claim", json!({ "workerId": "w", "queues": [queue], "limit": 10 })).as_array().unwrap().first()
    {
        r.call("queue.complete", json!({ "id": item["id"], "fence": item["fence"] }));
    }
}

fn limits(r: &mut Recorder) {
    let keyed = json!({ "queue": "l", "concurrencyKey": "k" });
    for n in 0..4 {
        r.call("queue.enqueue", with(&keyed, json!({ "delayMs": 20 * n })));
    }
    let rate = json!({ "limit": 2, "perMs": 10 });
    let all = json!({
        "name": "l", "concurrency": 2, "keyConcurrency": 1, "rateLimit": rate, "keyRateLimit": rate, "maxAttempts": 2,
        "backoff": { "kind": "linear" },
    });
    r.call("queues.configure", all.clone());
    r.call("queues.configure", all);
    r.call("queue.enqueue", keyed.clone());
    let held = r.claim_from("l");
    assert_eq!(r.call("queue.claim", json!({ "workerId": "w", "queues": ["l", "q2", "none"], "limit": 2 }))[0]["queue"], "q2");
    r.call("queue.complete", held);
    let held = r.claim_from("l");
    r.call("queue.fail", with(&held, json!({ "error": "e", "delayMs": 1 })));
    r.clock.advance(20);
    let held = r.claim_from("l");
    r.call("queue.complete", held);
    r.call("queues.hold", json!({ "name": "l", "key": "k", "until": START + 1_000_000 }));
    r.call("queues.stats", json!({ "queue": "l" }));
    r.call("queues.hold", json!({ "name": "l", "key": "k", "until": null }));
    r.call("queues.hold", json!({ "name": "l", "until": START + 1_000_000 }));
    r.call("queues.hold", json!({ "name": "l", "until": null }));
    r.call("queues.pause", json!({ "name": "l" }));
    r.call("queues.resume", json!({ "name": "l" }));
    // An item that waited for a token goes before one that comes when there is one.
    r.call("queues.configure", json!({ "name": "o", "keyRateLimit": { "limit": 1, "perMs": 10 } }));
    for id in ["o-1", "o-2", "o-3"] {
        r.call("queue.enqueue", json!({ "queue": "o", "id": id, "concurrencyKey": "k" }));
        r.call("queue.claim", json!({ "workerId": "w", "queues": [if id == "o-1" { "o" } else { "none" }] }));
        r.clock.advance(if id == "o-2" { 10 } else { 0 });
    }
    assert_eq!(r.claim_from("o")["id"], "o-2");
    // A lowered limit, and none.
    r.call("queues.configure", json!({ "name": "l", "keyConcurrency": 2 }));
    r.call("queues.configure", json!({ "name": "l", "keyConcurrency": 1, "keyRateLimit": null }));
    r.call("queues.configure", json!({ "name": "l", "keyConcurrency": null }));
}

fn dead_letters(r: &mut Recorder) {
    for id in ["d-1", "d-2", "d-3", "d-4"] {
        r.call("queue.enqueue", json!({ "queue": "d", "id": id, "idempotencyKey": id }));
        let held = r.claim_from("d");
        r.call("queue.fail", with(&held, json!({ "error": "e", "retryable": false })));
    }
    r.call("deadLetters.redrive", json!({ "id": "d-1" }));
    r.fails("deadLetters.redrive", json!({ "id": "d-1" }), "conflict");
    r.call("deadLetters.redrive", json!({ "id": "d-2", "payload": "x".repeat(5000) }));
    r.call("queue.enqueue", json!({ "queue": "d", "idempotencyKey": "d-3" }));
    assert_eq!(r.call("deadLetters.redrive", json!({ "queue": "d", "payload": 1 }))["refused"][0]["code"], "conflict");
    r.call("deadLetters.redrive", json!({ "queue": "none" }));
    r.call("deadLetters.delete", json!({ "id": "d-3" }));
    drain(r, "d");
}

/// Threads with turns and events, in all their ends.
fn threads_and_turns(r: &mut Recorder) {
    let thread = json!({ "id": "thread", "title": "t", "metadata": {} });
    for _ in 0..2 {
        r.call("threads.create", thread.clone());
    }
    r.fails("threads.create", with(&thread, json!({ "title": "other" })), "conflict");
    r.call("threads.get", json!({ "id": "thread" }));
    for changes in
        [json!({ "title": "u" }), json!({ "model": "m", "mode": null, "metadata": { "a": 1 } }), json!({ "archived": true })]
    {
        r.call("threads.update", with(&json!({ "id": "thread" }), changes));
    }
    r.call("threads.unarchive", json!({ "id": "thread" }));
    r.call("threads.archive", json!({ "id": "thread" }));
    for archived in ["exclude", "include", "only"] {
        r.call("threads.recent", json!({ "archived": archived }));
        for order in ["asc", "desc"] {
            r.call("threads.list", json!({ "archived": archived, "order": order }));
        }
    }
    let turn = json!({ "id": "ends", "threadId": "thread" });
    for _ in 0..2 {
        r.call("turns.create", turn.clone());
    }
    r.fails("turns.create", with(&turn, json!({ "inputSummary": "other" })), "conflict");
    for (id, status, owner) in [("waits", "queued", "o"), ("runs", "in_progress", "alive"), ("gone", "in_progress", "o")] {
        r.call("turns.create", json!({ "id": id, "threadId": "thread", "status": status, "ownerId": owner }));
    }
    r.call(
        "items.create",
        json!({ "id": "open", "threadId": "thread", "turnId": "gone", "kind": "error", "status": "in_progress" }),
    );
    r.call("turns.get", json!({ "id": "ends" }));
    r.call("turns.update", json!({ "id": "ends", "status": "in_progress", "expectedStatus": "queued" }));
    r.call("turns.update", json!({ "id": "ends", "status": "completed", "lastRequestInputTokens": 5, "metadata": null }));
    r.fails("turns.update", json!({ "id": "ends", "status": "queued" }), "invalid_transition");
    for order in ["asc", "desc"] {
        r.call("turns.list", json!({ "threadId": "thread", "order": order }));
        r.call("turns.list", json!({ "threadId": "thread", "order": order, "status": "queued", "cursor": "1" }));
        r.call("turns.listIncomplete", json!({ "order": order }));
    }
    let recovered = r.call("turns.recover", json!({ "liveOwnerIds": ["alive"] }));
    assert!(recovered["interrupted"].as_array().unwrap().contains(&json!("gone")), "{recovered}");
    for _ in 0..2 {
        r.call("threadEvents.append", json!({ "threadId": "thread", "type": "said", "data": { "a": 1 } }));
    }
    for filter in [json!({}), json!({ "types": ["said"], "after": 1 })] {
        for order in ["asc", "desc"] {
            r.call("threadEvents.list", with(&filter, json!({ "threadId": "thread", "order": order })));
        }
    }
    for point in [
        json!({}),
        json!({ "atItem": "open", "newId": "fork" }),
        json!({ "atItem": "open", "newId": "fork" }),
        json!({ "atTurn": "runs" }),
    ] {
        r.call("threads.fork", with(&json!({ "id": "thread" }), point));
    }
    r.fails("threads.fork", json!({ "id": "thread", "newId": "fork" }), "conflict");
    r.call("threads.delete", json!({ "id": "thread" }));
}

/// Items of threads, with texts that stream.
fn thread_items(r: &mut Recorder) {
    r.call("threads.create", json!({ "id": "talk" }));
    r.call("turns.create", json!({ "id": "of-talk", "threadId": "talk", "status": "in_progress" }));
    let item = json!({ "threadId": "talk", "turnId": "of-talk", "kind": "assistant_message" });
    for id in ["said", "said", "streams", "left"] {
        r.call("items.create", with(&item, json!({ "id": id })));
    }
    r.fails("items.create", with(&item, json!({ "id": "said", "text": "other" })), "conflict");
    r.call("items.create", json!({ "threadId": "talk", "kind": "user_message", "text": "asks" }));
    for text in ["one", "two"] {
        r.call("items.appendText", json!({ "id": "streams", "delta": text }));
        r.call("items.readText", json!({ "id": "streams", "after": 2 }));
        r.call("items.get", json!({ "id": "streams" }));
    }
    r.call("items.put", with(&item, json!({ "id": "put", "data": { "input": 1 } })));
    r.call("items.put", json!({ "id": "put", "data": null, "blobs": [{ "blobId": "b" }] }));
    r.fails("items.put", json!({ "id": "put", "threadId": "other" }), "conflict");
    for changes in [json!({ "summary": "s" }), json!({ "text": "whole", "parentId": "said" }), json!({ "status": "completed" })] {
        r.call("items.update", with(&json!({ "id": "streams" }), changes));
    }
    r.call("items.readText", json!({ "id": "streams" }));
    r.fails("items.appendText", json!({ "id": "streams", "delta": "more" }), "invalid_transition");
    for filter in
        [json!({ "threadId": "talk" }), json!({ "turnId": "of-talk" }), json!({ "threadId": "talk", "turnId": "of-talk" })]
    {
        for order in ["asc", "desc"] {
            r.call("items.list", with(&filter, json!({ "order": order, "limit": 1 })));
            r.call("items.list", with(&filter, json!({ "order": order, "cursor": "2" })));
        }
    }
    r.call("items.appendText", json!({ "id": "left", "delta": "so far" }));
    r.call("turns.update", json!({ "id": "of-talk", "status": "interrupted" }));
    r.call("threads.fork", json!({ "id": "talk" }));
    r.call("items.delete", json!({ "id": "said" }));
}

/// Threads with words in them, from being made to being deleted.
fn searching(r: &mut Recorder) {
    r.call("threads.create", json!({ "id": "words", "title": "found by its title" }));
    let item =
        json!({ "threadId": "words", "kind": "tool_call", "status": "completed", "data": { "output": "found by its output" } });
    for id in ["words-1", "words-2"] {
        r.call("items.create", with(&item, json!({ "id": id })));
    }
    for more in [json!({}), json!({ "threadId": "words" }), json!({ "archived": "only" }), json!({ "limit": 1 })] {
        r.call("threads.search", with(&json!({ "text": "found" }), more));
    }
    r.call("items.update", json!({ "id": "words-1", "text": "changed" }));
    r.call("threads.update", json!({ "id": "words", "title": "changed" }));
    assert_eq!(r.call("threads.search", json!({ "text": "chang" }))["items"].as_array().unwrap().len(), 2);
    r.call("items.delete", json!({ "id": "words-2" }));
    r.call("threads.delete", json!({ "id": "words" }));
}

/// Filters by execution, by status, and by both.
fn of_a_run() -> Vec<Value> {
    let (of_run, pending) = (json!({ "executionId": "run" }), json!({ "status": "pending" }));
    vec![of_run.clone(), pending.clone(), with(&of_run, pending)]
}

fn lists(r: &mut Recorder) {
    for n in 0..2 {
        r.call("timers.schedule", json!({ "executionId": "run", "nodeId": "n", "fireAt": START * 2 }));
        let cron = json!({ "name": format!("l-{n}"), "expression": "0 0 1 1 *", "workflowId": "w", "enabled": n == 0 });
        r.call("cron.put", cron);
    }
    r.call("executions.create", json!({ "workflowId": "w", "id": "long" }));
    for _ in 0..2 {
        let events = vec![json!({ "type": "x-a", "data": "x".repeat(20) }); 100];
        r.call("events.appendMany", json!({ "executionId": "long", "events": events }));
    }
    for (operation, filters) in [
        (
            "executions.list",
            vec![
                json!({ "status": "running" }),
                json!({ "workflowId": "w" }),
                json!({ "parentId": "run" }),
                json!({ "parentId": "run", "status": "pending" }),
                json!({ "tag": "t" }),
                json!({ "createdAfter": 0, "createdBefore": START * 2 }),
            ],
        ),
        ("events.list", vec![json!({ "executionId": "run" }), json!({ "executionId": "run", "after": 1, "types": ["x-a"] })]),
        (
            "queue.list",
            vec![
                json!({ "queue": "q" }),
                json!({ "queue": "none" }),
                json!({ "status": "pending" }),
                json!({ "executionId": "run" }),
                json!({ "executionId": "run", "queue": "q", "status": "completed" }),
            ],
        ),
        ("queues.list", vec![]),
        ("approvals.list", of_a_run()),
        ("timers.list", of_a_run()),
        ("snapshots.list", vec![json!({ "executionId": "long" })]),
        ("cron.list", vec![]),
        ("workflows.list", vec![json!({ "id": "w" }), json!({ "id": "none" })]),
        ("tokens.list", vec![]),
        ("tenants.list", vec![json!({ "status": "active" })]),
        ("deadLetters.list", vec![json!({ "queue": "d" }), json!({ "queue": "none" })]),
        (
            "workers.list",
            vec![json!({ "namespace": "default", "pool": "p" }), json!({ "queue": "q" }), json!({ "capability": "gpu" })],
        ),
        ("workers.history", vec![json!({ "namespace": "default" }), json!({ "workerId": "w" })]),
    ] {
        let mut filters = filters;
        if !["events.list", "snapshots.list"].contains(&operation) {
            filters.push(json!({}));
        }
        for (filter, order) in filters.iter().flat_map(|filter| [(filter, "asc"), (filter, "desc")]) {
            let filter = with(filter, json!({ "order": order, "limit": 1 }));
            let page = r.call(operation, filter.clone());
            if !page["nextCursor"].is_null() {
                r.call(operation, with(&filter, json!({ "cursor": page["nextCursor"] })));
            }
        }
    }
    for of in [json!({}), json!({ "queue": "q" }), json!({ "executionId": "run" }), json!({ "executionId": "run", "queue": "q" })]
    {
        r.call("queues.stats", of);
    }
    r.call("queue.enqueueMany", json!({ "items": [{ "queue": "e" }, { "queue": "e", "executionId": "run", "nodeId": "n" }] }));
    r.call("queue.claim", json!({ "workerId": "w", "queues": ["e"], "limit": 2, "leaseMs": 1 }));
    r.clock.advance(1);
    let page = r.call("leases.listExpired", json!({ "limit": 1 }));
    let rest = json!({ "cursor": page["nextCursor"], "namespace": "default", "asOf": START * 2 });
    assert!(!r.call("leases.listExpired", rest)["items"].as_array().unwrap().is_empty());
}

/// What time brings, and the ends of things.
fn time(r: &mut Recorder) {
    for (queue, more) in [
        ("t1", json!({})),
        ("t1", json!({ "maxAttempts": 1 })),
        ("t1", json!({})),
        ("t2", json!({ "delayMs": 5000 })),
        ("t3", json!({ "concurrencyKey": "k" })),
    ] {
        r.call("queue.enqueue", with(&json!({ "queue": queue, "executionId": "run", "nodeId": "n" }), more));
    }
    r.call("queues.hold", json!({ "name": "t3", "key": "k", "until": START + 1_000_000 }));
    let claimed = r.call("queue.claim", json!({ "workerId": "w", "queues": ["t1"], "limit": 3, "leaseMs": 1000 }));
    r.call("queue.cancel", json!({ "id": claimed[2]["id"] }));
    r.call("sweep", json!({ "intervalMs": 1000 }));
    // The device sleeps.
    r.clock.advance(600_000);
    assert_eq!(r.call("sweep", json!({ "intervalMs": 1000 }))["suspendedMs"], 600_000);
    r.clock.advance(700_000);
    let report = r.call("sweep", json!({}));
    for part in ["leasesRetried", "leasesDeadLettered", "leasesCancelled", "workersExpired"] {
        assert!(report[part].as_i64() > Some(0), "{part}: {report}");
    }
    // An end, with items that wait; and what is left of it.
    let end = json!({ "executionId": "run", "type": "workflow_completed", "data": { "finalState": {}, "output": 1 } });
    r.call("events.append", end);
    r.call("retention.get", json!({}));
    for kept in ["itemsMs", "executionsMs", "threadsMs"] {
        r.call("retention.set", json!({ kept: 1_000_000_000 }));
        r.call("sweep", json!({ "limit": 1 }));
        r.call("retention.set", json!({ kept: null }));
    }
    let no_time = json!({ "executionsMs": 0, "itemsMs": 0, "attemptsMs": 0, "deadLettersMs": 0, "historyMs": 0, "threadsMs": 0 });
    r.call("retention.set", no_time);
    let mut pruned = 0;
    for _ in 0..10 {
        let report = r.call("sweep", json!({ "limit": 10_000 }));
        assert_eq!(report["errors"], json!([]));
        pruned += report["pruned"].as_i64().unwrap();
    }
    assert!(pruned > 20, "{pruned}");
    assert_eq!(r.call("executions.get", json!({ "id": "run" })), Value::Null);
}

/// The string literals of Rust source text that hold SQL.
fn sql_literals(source: &str) -> Vec<String> {
    let mut literals = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let from = &rest[at..];
        if from.starts_with("//") {
            rest = from.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(literal) = from.strip_prefix('"') {
            let mut escaped = false;
            let end = literal.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let (literal, after) = literal.split_at(end.expect("a string that ends"));
            literals.push(literal.to_owned());
            rest = &after[1..];
        } else if from.starts_with("'\"'") || from.starts_with("'\\") {
            rest = &from[3..];
        } else {
            rest = &from[1..];
        }
    }
    let starts = ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "WHERE "];
    literals.retain(|literal| starts.iter().any(|start| literal.starts_with(start)));
    literals
}

fn sources(folder: &Path, into: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else {
            into.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn the_scenario_calls_every_operation_and_runs_all_sql_of_the_sources() {
    let recorder = scenario();
    let called: Vec<_> = recorder.statements.keys().copied().collect();
    let mut known: Vec<_> = OPERATIONS.iter().map(|operation| operation.name).collect();
    known.sort_unstable();
    assert_eq!(called, known);

    let ran = recorder.all();
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut literals = 0;
    for (file, source) in files {
        // What reads other programs' files reads them from one end to the other, and the statements of statements.rs are a test's.
        if file.ends_with("foreign.rs") || file.ends_with("statements.rs") {
            continue;
        }
        // Opening a store happens before anything is recorded, and reads tables of one row.
        let literal_of_opening = |literal: &str| {
            ["sqlite_schema", "ON CONFLICT DO NOTHING", "SELECT EXISTS"].iter().any(|part| literal.contains(part))
        };
        for literal in sql_literals(&source).into_iter().filter(|literal| !literal_of_opening(literal)) {
            literals += 1;
            // What stands in braces is filled in.
            let parts: Vec<_> = literal.split(['{', '}']).step_by(2).collect();
            let has_run = ran.iter().any(|sql| parts.iter().all(|part| sql.contains(part)));
            assert!(has_run, "{file}: the scenario does not run {literal:?}; add a call that does");
        }
    }
    assert!(literals > 90, "only {literals} pieces of SQL found");
}

#[test]
fn every_call_says_what_it_changed() {
    let (folder, clock) = (Folder::in_memory(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    let watch = Watch::new(Connection::open(&path).unwrap());
    let recorder = play(Recorder::new(store, clock, Some(watch)));
    let of_runs: BTreeSet<_> = SHOWN.iter().map(|shown| shown.0).collect();
    assert_eq!(recorder.watch.unwrap().seen, of_runs);
}

/// Rows as a store has them after some use: mostly finished things.
const ROWS: &str = "
    CREATE TEMP VIEW numbers AS WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 40000) SELECT n FROM n;
    INSERT INTO executions (key, tenant, id, workflow_id, status, parent_id, segment, last_sequence, created_at, updated_at, completed_at,
                            changed, snapshot_at, snapshot_bytes, tail_bytes)
        SELECT (1 << 40) + n, 1, 'run-' || n, 'w-' || n % 7, CASE n % 10 WHEN 0 THEN 'running' ELSE 'completed' END,
               CASE n % 5 WHEN 0 THEN 'run-' || n / 5 END, 0, 4, n, n, CASE n % 10 WHEN 0 THEN NULL ELSE n END, n, 2, 2, 4
        FROM numbers WHERE n <= 10000;
    INSERT INTO execution_counts (tenant, status, count) SELECT 1, status, count(*) FROM executions GROUP BY status;
    INSERT INTO monthly_usage (tenant, month, tokens, cost_usd) SELECT 1, n, n, n FROM numbers WHERE n <= 100;
    INSERT INTO tokens (key, tenant, id, sha256, name, role, created_at)
        SELECT (1 << 40) + n, 1, 'token-' || n, CAST('digest ' || n AS BLOB), 'n', 'viewer', n FROM numbers WHERE n <= 1000;
    INSERT INTO workflows (key, tenant, id, version, definition, digest, created_at, updated_at)
        SELECT (1 << 40) + n, 1, 'w-' || n % 700, 'v' || n, '{}', x'00', n, n FROM numbers WHERE n <= 2100;
    INSERT INTO execution_documents (execution, input, tags) SELECT key, '{}', '[]' FROM executions;
    INSERT INTO execution_states (execution, state) SELECT key, '{}' FROM executions;
    INSERT INTO execution_bases (execution, fold) SELECT key, '{}' FROM executions WHERE key % 10 = 0;
    INSERT INTO snapshots (execution, sequence, fold, created_at) SELECT key, 2, '{}', 2 FROM executions;
    INSERT INTO events (execution, sequence, tenant, id, type, data, created_at)
        SELECT (1 << 40) + 1 + n / 4, 1 + n % 4, 1, 'event-' || n, 'x-' || n % 9, '{}', n FROM numbers WHERE n < 40000;
    INSERT INTO approvals (key, tenant, execution, approval_id, node_id, status, requested, decided)
        SELECT (1 << 40) + 1 + n, 1, (1 << 40) + 1 + n / 2, 'a-' || n, 'n', CASE n % 9 WHEN 0 THEN 'pending' ELSE 'approved' END, n,
               CASE n % 9 WHEN 0 THEN NULL ELSE n END FROM numbers WHERE n < 2000;
    INSERT INTO timers (key, tenant, id, execution, node_id, status, fire_at, created_at, fired_at)
        SELECT (1 << 40) + n, 1, 'timer-' || n, (1 << 40) + 1 + n % 5000, 'n', CASE n % 9 WHEN 0 THEN 'pending' ELSE 'fired' END, n, n,
               CASE n % 9 WHEN 0 THEN NULL ELSE n END FROM numbers WHERE n <= 10000;
    INSERT INTO crons (key, tenant, name, expression, timezone, workflow_id, input, enabled, catch_up, next_at, wake_at, created_at,
                       updated_at)
        SELECT (1 << 40) + n, 1, 'cron-' || n, '* * * * *', 'UTC', 'w', 'null', n % 9 > 0, 'skip', CASE WHEN n % 9 > 0 THEN n END,
               CASE WHEN n % 9 > 0 THEN n END, n, n FROM numbers WHERE n <= 500;
    INSERT INTO queues (key, tenant, name) SELECT (1 << 40) + n, 1, 'q-' || n FROM numbers WHERE n <= 20;
    INSERT INTO queue_keys (queue, concurrency_key, wake_at) SELECT (1 << 40) + 1 + n % 20, 'k-' || n, n FROM numbers WHERE n < 2000;
    INSERT INTO requirement_classes (key, queue, requires)
        SELECT (1 << 40) + n, (1 << 40) + 1 + n % 20, '[\"' || n || '\"]' FROM numbers WHERE n <= 100;
    INSERT INTO items (key, tenant, id, queue, class, execution, node_id, status, priority, attempt, max_attempts, run_at, fence,
                       lease_expires_at, lease_ms, namespace, worker_id, created_at, claimed_at, finished_at, concurrency_key, blocked,
                       idempotency_key, payload)
        SELECT (1 << 40) + n, 1, 'item-' || n, (1 << 40) + 1 + n % 20, CASE n % 4 WHEN 0 THEN (1 << 40) + 1 + n % 100 ELSE 0 END,
               CASE n % 2 WHEN 0 THEN (1 << 40) + 1 + n % 10000 END, CASE n % 2 WHEN 0 THEN 'n' END, status, n % 3, 1, 3, n, 1,
               CASE status WHEN 'claimed' THEN n END, 1000, 'default', 'worker-' || n % 500, n, n,
               CASE WHEN status IN ('completed', 'dead_lettered', 'cancelled') THEN n END,
               CASE n % 3 WHEN 0 THEN 'k-' || n % 500 END, status = 'pending' AND n % 3 = 0 AND n % 2 = 0,
               CASE n % 5 WHEN 0 THEN 'once-' || n % 1000 END, CASE WHEN n % 50 > 0 THEN '{}' END
        FROM (SELECT n, CASE WHEN n % 100 < 70 THEN 'completed' WHEN n % 100 < 85 THEN 'pending' WHEN n % 100 < 90 THEN 'scheduled'
                             WHEN n % 100 < 92 THEN 'claimed' WHEN n % 100 < 96 THEN 'cancelled' ELSE 'dead_lettered' END AS status
              FROM numbers);
    INSERT INTO item_payloads (item, payload) SELECT key, '{}' FROM items WHERE payload IS NULL;
    INSERT INTO attempts (item, fence, attempt, worker_id, namespace, claimed_at, ended_at, outcome)
        SELECT (1 << 40) + 1 + n / 2, 1 + n % 2, 1 + n % 2, 'worker', 'default', n, n, 'failed' FROM numbers WHERE n < 4000;
    INSERT INTO workers (key, tenant, namespace, worker_id, pool, queues, capabilities, liveness_ttl_ms, registered_at, last_heartbeat_at,
                         expires_at)
        SELECT (1 << 40) + n, 1, 'default', 'worker-' || n, 'p', '[]', '[]', 1000, n, n, n FROM numbers WHERE n <= 500;
    INSERT INTO worker_history (key, tenant, namespace, worker_id, pool, change, at)
        SELECT (1 << 40) + n, 1, 'default', 'worker-' || n % 500, 'p', 'registered', n FROM numbers WHERE n <= 10000;
    INSERT INTO threads (key, tenant, id, title, archived, head_item_id, latest_turn_id, last_message_at, created_at, updated_at, changed,
                         last_position, last_admitted)
        SELECT (1 << 40) + n, 1, 'thread-' || n, 'title', n % 9 = 0, 'line-' || n, 'turn-' || n, n, n, n, n, 20, 5 FROM numbers WHERE n <= 2000;
    INSERT INTO thread_documents (thread) SELECT key FROM threads;
    INSERT INTO thread_events (key, tenant, thread, type, data, created_at)
        SELECT (1 << 40) + n, 1, (1 << 40) + 1 + n % 500, 'said', '{}', n FROM numbers WHERE n <= 4000;
    INSERT INTO thread_event_sequences (tenant, last) VALUES (1, 4000);
    INSERT INTO turns (key, tenant, id, thread, status, input_summary, created_at, owner_id)
        SELECT (1 << 40) + n, 1, 'turn-' || n, (1 << 40) + 1 + n % 2000, CASE n % 50 WHEN 0 THEN 'in_progress' ELSE 'completed' END, '', n,
               'owner-' || n % 20 FROM numbers WHERE n <= 4000;
    INSERT INTO thread_items (key, tenant, id, thread, turn, position, kind, status, summary, created_at)
        SELECT (1 << 40) + n, 1, 'line-' || n, (1 << 40) + 1 + n % 2000, CASE WHEN n % 4 THEN (1 << 40) + 1 + n % 4000 END, 1 + n / 2000,
               'tool_call', CASE n % 50 WHEN 0 THEN 'in_progress' ELSE 'completed' END, '', n FROM numbers;
    INSERT INTO item_contents (item, length, text) SELECT key, 1, 'x' FROM thread_items;
    INSERT INTO item_deltas (item, until, bytes, text) SELECT key, 2, 2, 'y' FROM thread_items WHERE status = 'in_progress';
    INSERT INTO inbox (key, tenant, id, thread, admitted_sequence, status, delivery, prompt, turn_id, created_at)
        SELECT (1 << 40) + n, 1, 'prompt-' || n, (1 << 40) + 1 + n % 2000, 1 + n / 2000, CASE n % 50 WHEN 0 THEN 'admitted' ELSE 'promoted' END,
               CASE n % 3 WHEN 0 THEN 'steer' ELSE 'queue' END, '1', CASE WHEN n % 50 THEN 'turn-' || n END, n FROM numbers WHERE n <= 10000;
    INSERT INTO usage_records (key, tenant, response_id, turn, turn_id, thread_id, model, input_tokens, output_tokens, no_cache_tokens,
                               cost_usd, created_at)
        SELECT (1 << 40) + n, 1, 'response-' || n, (1 << 40) + 1 + n % 4000, 'turn-' || n % 4000, 'thread-' || n % 2000, 'm-' || n % 5, 1, 1, 1,
               CASE WHEN n % 50 THEN 1.0 END, n FROM numbers WHERE n <= 20000;
    INSERT INTO price_lists (tenant, prices) VALUES (1, '[]');
    INSERT INTO blobs (key, tenant, sha256, size, created_at)
        SELECT (1 << 40) + n, 1, CAST('digest ' || n AS BLOB), 1, n FROM numbers WHERE n <= 2000;
    INSERT INTO blob_chunks (blob, number, bytes) SELECT key, n, x'00' FROM blobs JOIN numbers WHERE n < 5;
    INSERT INTO retention (tenant, items_ms) VALUES (1, 1000);
    INSERT INTO requests (client, number, digest, answer, at) SELECT 'client-' || n % 50, n, x'00', '{}', n FROM numbers WHERE n <= 1000;
    DROP VIEW numbers;";

/// A file with such rows.
fn database(folder: &Folder) -> Connection {
    let path = folder.file("store.db");
    Store::open(&path).unwrap().close().unwrap();
    let database = Connection::open(path).unwrap();
    // As the store does.
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    database.execute_batch(&format!("BEGIN; {ROWS} COMMIT;")).unwrap();
    database
}

fn prompts(r: &mut Recorder) {
    r.call("threads.create", json!({ "id": "asked" }));
    r.call("turns.create", json!({ "id": "of-asked", "threadId": "asked" }));
    let prompt = json!({ "threadId": "asked", "prompt": "p" });
    for (id, delivery) in
        [("p-1", "queue"), ("p-1", "queue"), ("p-2", "queue"), ("s-1", "steer"), ("s-2", "steer"), ("p-3", "queue")]
    {
        r.call("inbox.admit", with(&prompt, json!({ "id": id, "delivery": delivery })));
    }
    r.fails("inbox.admit", with(&prompt, json!({ "id": "p-1", "request": 1 })), "conflict");
    r.call("inbox.get", json!({ "id": "p-1" }));
    r.call("inbox.next", json!({ "threadId": "asked" }));
    r.call("inbox.steers", json!({ "threadId": "asked" }));
    r.call("inbox.promote", json!({ "id": "s-1", "turnId": "of-asked" }));
    r.fails("inbox.promote", json!({ "id": "s-1" }), "conflict");
    for _ in 0..2 {
        r.call("inbox.promoteNext", json!({ "threadId": "asked", "turn": { "id": "of-p-1" } }));
    }
    r.call("inbox.promoteNext", json!({ "threadId": "asked", "includeSteers": true }));
    r.call("inbox.withdraw", json!({ "id": "p-3" }));
    for order in ["asc", "desc"] {
        r.call("inbox.list", json!({ "threadId": "asked", "order": order }));
        r.call("inbox.list", json!({ "threadId": "asked", "order": order, "status": "promoted", "cursor": "2" }));
    }
}

fn used(r: &mut Recorder) {
    r.call("threads.create", json!({ "id": "costs" }));
    r.call("turns.create", json!({ "id": "of-costs", "threadId": "costs" }));
    let of = |id: &str| json!({ "turnId": "of-costs", "responseId": id, "model": "m", "inputTokens": 1, "outputTokens": 1 });
    for id in ["response-1", "response-2", "response-2"] {
        r.call("usage.record", of(id));
    }
    r.call("usage.get", json!({ "responseId": "response-1" }));
    r.call("turns.get", json!({ "id": "of-costs" }));
    for order in ["asc", "desc"] {
        r.call("usage.list", json!({ "order": order }));
        r.call("usage.list", json!({ "order": order, "turnId": "of-costs" }));
    }
    for group in ["day", "model", "provider", "thread"] {
        r.call("usage.aggregate", json!({ "groupBy": group }));
    }
    r.call("usage.getPrices", json!({}));
    r.call("usage.setPrices", json!({ "prices": [{ "modelPattern": "m", "input": 1, "output": 1 }] }));
    r.call("usage.reprice", json!({ "onlyUnpriced": true }));
    r.call("usage.reprice", json!({}));
}

fn bytes(r: &mut Recorder) {
    let mut id = String::new();
    for media_type in [None, Some("text/plain"), None] {
        let media_type = media_type.map(|text| text.parse().unwrap());
        id = r.store.blobs().put(PutBlob { bytes: b"bytes".to_vec(), media_type }).unwrap().record.id;
        if let Some(watch) = &mut r.watch {
            watch.check("blobs.put", &BTreeSet::from([Topic::Blobs]));
        }
        r.record("blobs.put");
    }
    r.call("blobs.get", json!({ "id": id }));
    for order in ["asc", "desc"] {
        r.call("blobs.list", json!({ "order": order }));
    }
    r.call("blobs.delete", json!({ "id": id }));
}

/// The steps of SQLite's plan for a statement.
fn plan(database: &Connection, sql: &str) -> Vec<String> {
    let mut explained = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let rows = explained.raw_query();
    rows.mapped(|row| row.get(3)).collect::<Result<_, _>>().unwrap()
}

/// One table that a plan looks into.
#[derive(Debug)]
struct Access {
    /// The index, or `table.key` for the primary key.
    by: String,
    terms: Vec<String>,
}

/// The tables that a statement calls by other names.
fn aliases(sql: &str) -> BTreeMap<&str, &str> {
    let words: Vec<_> = sql.split(|c: char| c.is_whitespace() || "(),".contains(c)).filter(|word| !word.is_empty()).collect();
    let named = words.windows(3).filter(|words| ["FROM", "JOIN"].contains(&words[0]));
    named.map(|words| (words[2], words[1])).collect()
}

/// Reads a step of a plan: `SEARCH items USING COVERING INDEX items_ready (queue=? AND class=?)`. None for steps that touch no table.
fn access(step: &str, sql: &str) -> Result<Option<Access>, String> {
    let aliases = aliases(sql);
    let table = |name: &str| aliases.get(name).copied().unwrap_or(name).to_owned();
    let words: Vec<_> = step.split(' ').collect();
    match words[..] {
        // The rows of a subquery: what they come from is a step of its own.
        ["SCAN", "(subquery-1)"]
        | ["LIST", "SUBQUERY", _]
        | ["SCALAR", "SUBQUERY", _]
        | ["CORRELATED", "SCALAR", "SUBQUERY", _]
        | ["CO-ROUTINE", _] => Ok(None),
        // Several searches, each of which is a step of its own.
        ["MULTI-INDEX", "OR"] | ["INDEX", _] => Ok(None),
        ["SCAN", _, "USING", .., "INDEX", index] => Ok(Some(Access { by: index.to_owned(), terms: Vec::new() })),
        ["SCAN", name, "VIRTUAL", "TABLE", "INDEX", how] => search_by_words(name, how).map(Some),
        ["SCAN", name] => Ok(Some(Access { by: format!("{}.key", table(name)), terms: Vec::new() })),
        ["SEARCH", name, "USING", ..] => {
            let (how, terms) = step.split_once(" (").ok_or("no terms")?;
            let terms = terms.trim_end_matches(" LEFT-JOIN").trim_end_matches(')');
            let by = match how.rsplit_once(" INDEX ") {
                Some((_, index)) => index.to_owned(),
                None if how.ends_with("PRIMARY KEY") => format!("{}.key", table(name)),
                None => return Err("neither by an index nor by the primary key".to_owned()),
            };
            Ok(Some(Access { by, terms: terms.split(" AND ").map(str::to_owned).collect() }))
        }
        _ => Err("not a search by an index".to_owned()),
    }
}

/// How FTS5 says that it looks rows up: the order that it makes, and what by, in signs (`64:M4><`).
fn search_by_words(name: &str, how: &str) -> Result<Access, String> {
    const SORTED_BY_RANK: i64 = 0x20;
    let (order, signs) = how.split_once(':').ok_or("not a search by words")?;
    if order.parse::<i64>().map_or(true, |order| order & SORTED_BY_RANK != 0) {
        return Err("sorts all that it finds".to_owned());
    }
    let term = |sign| match sign {
        'M' => Some("MATCH ?"),
        '=' => Some("rowid=?"),
        '>' => Some("rowid>?"),
        '<' => Some("rowid<?"),
        _ => None,
    };
    Ok(Access { by: name.to_owned(), terms: signs.chars().filter_map(term).map(str::to_owned).collect() })
}

/// Why a step of a statement's plan is not good enough, if it is not.
fn fault(step: &str, sql: &str) -> Option<String> {
    let access = match access(step, sql) {
        Ok(None) => return None,
        Ok(Some(access)) => access,
        Err(reason) => return Some(reason),
    };
    let known: Vec<_> = SEARCHES.iter().filter(|search| search.by == access.by).collect();
    let narrow_enough = known.iter().any(|search| {
        // EXISTS looks no further than the first row.
        let bounded = search.bounded_by != LIMIT || sql.contains(" LIMIT ") || sql.contains("EXISTS (");
        bounded && search.terms.iter().all(|term| access.terms.iter().any(|have| have == term))
    });
    if narrow_enough {
        return None;
    }
    let wanted: Vec<_> = known.iter().map(|search| format!("{} {}", search.terms.join(" AND "), search.bounded_by)).collect();
    Some(format!("{access:?} is none of the searches that are known: {wanted:?}"))
}

fn one_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_statement_searches_by_an_index() {
    let recorder = scenario();
    let hot: BTreeSet<_> = HOT.iter().flat_map(|name| &recorder.statements[name]).map(String::as_str).collect();
    let folder = Folder::new();
    let database = database(&folder);
    let mut faults = Vec::new();
    let mut excused = BTreeSet::new();
    let mut searches = 0;
    for statistics in ["", "ANALYZE", MORE_TENANTS] {
        database.execute_batch(statistics).unwrap();
        for sql in recorder.all() {
            let exception = EXCEPTIONS.iter().position(|(begin, _)| one_line(sql).starts_with(begin));
            for step in plan(&database, sql) {
                searches += i64::from(step.starts_with("SEARCH"));
                let Some(reason) = fault(&step, sql) else { continue };
                match exception.filter(|_| !hot.contains(sql)) {
                    Some(exception) => drop(excused.insert(exception)),
                    None => faults.push(format!("{}\n    after {statistics:?}: {step}\n    {reason}", one_line(sql))),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} bad plans:\n{}", faults.len(), faults.join("\n"));
    assert_eq!(excused.len(), EXCEPTIONS.len(), "an exception is needed no more; those that are: {excused:?}");
    println!("{} statements, {} of them hot, {searches} searches", recorder.all().len(), hot.len());
}

const MORE_TENANTS: &str = "
    WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n LIMIT 1000) INSERT INTO tenants (number, id, created_at, updated_at) SELECT n, 'tenant-' || n, 0, 0 FROM n;
    ANALYZE";

/// An index costs each write something. What no statement uses, and keeps nothing unique, has to go.
#[test]
fn every_index_is_of_use() {
    let recorder = scenario();
    let folder = Folder::new();
    let database = database(&folder);
    let steps: Vec<_> = recorder.all().into_iter().flat_map(|sql| plan(&database, sql)).collect();
    let mut statement = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL").unwrap();
    let indexes: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(indexes.len() > 15, "{indexes:?}");
    for index in indexes {
        let used = steps.iter().any(|step| step.contains(&format!(" INDEX {index} (")));
        assert!(used, "no statement searches by {index}");
    }
}

/// The test's own eyes: it must see what it is there to see.
#[test]
fn a_bad_plan_is_seen() {
    let folder = Folder::new();
    let database = database(&folder);
    for sql in [
        "SELECT key FROM items WHERE status = 'pending' AND blocked = 0 LIMIT 1",
        "SELECT i.key FROM items i WHERE i.worker_id = ?1 LIMIT 1",
        "SELECT key FROM items WHERE queue = ?1 AND status = 'scheduled' ORDER BY priority LIMIT 1",
        "SELECT key FROM items WHERE queue IN (?1, ?2) AND class = ?3 AND status = 'pending' AND blocked = 0 ORDER BY priority DESC LIMIT 1",
        "SELECT key FROM items WHERE key BETWEEN ?1 AND ?2",
        "SELECT count(*) FROM events",
        "SELECT max(sequence) FROM events WHERE type = ?1",
        "SELECT key FROM tokens WHERE sha256 = ?1 OR name = ?2",
        "SELECT key FROM executions WHERE tenant = ?1 ORDER BY updated_at DESC LIMIT ?2",
        "SELECT key FROM timers WHERE tenant = ?1 AND status = 'pending' ORDER BY key LIMIT 1",
        "SELECT sum(count) FROM execution_counts",
        "SELECT rowid FROM search_index WHERE title = ?1 LIMIT 1",
        "SELECT rowid FROM search_index WHERE rowid BETWEEN ?1 AND ?2 LIMIT 1",
        "SELECT rowid FROM search_index WHERE search_index MATCH ?1 AND rowid BETWEEN ?2 AND ?3",
        "SELECT rowid FROM search_index WHERE search_index MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rank LIMIT ?4",
    ] {
        let steps = plan(&database, sql);
        assert!(steps.iter().any(|step| fault(step, sql).is_some()), "{sql}: {steps:?}");
    }
}
