//! Every hot operation costs the same in a small store and in a large one. The cost is the number of instructions that SQLite runs,
//! which is the same each time; `cargo run --release --example claims` measures the time, with a million rows.

mod common;

use std::collections::BTreeMap;

use common::{Folder, START, clock, options};
use runkeep::effort::Effort;
use runkeep::{Call, ManualClock, Request, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

const SMALL: i64 = 1_000;
const LARGE: i64 = 50_000;

/// A store, and what each call to it has cost.
struct World {
    store: Store,
    clock: ManualClock,
    raw: Connection,
    costs: Vec<(String, BTreeMap<String, Effort>)>,
    _folder: Folder,
}

impl World {
    fn new() -> Self {
        let (folder, clock) = (Folder::new(), clock());
        let path = folder.file("store.db");
        let store = Store::open_with(&path, options(&clock)).unwrap();
        Self { store, clock, raw: Connection::open(path).unwrap(), costs: Vec::new(), _folder: folder }
    }

    /// Puts `count` items into a queue, as `status` has them. `more` sets other columns, by the number `n` of the item.
    fn put(&self, queue: &str, status: &str, count: i64, more: &[(&str, &str)]) {
        common::call(&self.store, "queues.resume", json!({ "name": queue }));
        let (columns, values): (Vec<_>, Vec<_>) =
            more.iter().map(|(column, value)| (format!(", {column}"), format!(", {value}"))).unzip();
        let (lease, finished) = match status {
            "claimed" => (
                "lease_expires_at, lease_ms, namespace, worker_id, claimed_at, ",
                "?3 + 1000 + n / 10, 1000, 'default', 'gone', ?3, ",
            ),
            "completed" | "cancelled" | "dead_lettered" => ("finished_at, ", "?3, "),
            _ => ("", ""),
        };
        let sql = format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT ?2)
             INSERT INTO items (tenant, queue, {lease} status, class, attempt, max_attempts, fence, created_at, payload, key, id
                                {columns}, priority, run_at)
             SELECT 1, q.key, {finished} '{status}', 0, 1, 3, 1, ?3, '{{}}', coalesce((SELECT max(key) FROM items), 1 << 40) + n,
                    ?1 || '-{status}-' || n {values}, n % 3, ?3 + CASE '{status}' WHEN 'scheduled' THEN 1000000000 + n ELSE 0 END
             FROM numbers JOIN queues q ON q.name = ?1",
            columns = columns.concat(),
            values = values.concat(),
        );
        assert_eq!(self.raw.execute(&sql, (queue, count, START)).unwrap() as i64, count);
        let counter = format!("UPDATE queues SET {status} = {status} + ?2 WHERE name = ?1");
        self.raw.execute(&counter, (queue, count)).unwrap();
    }

    /// A call that is only made.
    #[track_caller]
    fn call(&self, operation: &str, arguments: Value) -> Value {
        common::call(&self.store, operation, arguments)
    }

    /// A call whose cost is kept.
    #[track_caller]
    fn measure(&mut self, operation: &str, arguments: Value) -> Value {
        self.store.efforts();
        let label = format!("{operation} {arguments}");
        let answer = common::call(&self.store, operation, arguments);
        self.costs.push((label, self.store.efforts()));
        answer
    }

    /// A call whose cost is kept, and which is kept itself.
    #[track_caller]
    fn measure_request(&mut self, operation: &str, arguments: Value, request: Request<'_>) {
        self.store.efforts();
        let text = arguments.to_string();
        let outcome = self.store.call_many(&[Call { request: Some(request), ..Call::new(operation, &text) }]);
        assert!(outcome.answers[0].is_ok(), "{operation} {arguments}: {outcome:?}");
        self.costs.push((format!("{operation} {arguments} as {request:?}"), self.store.efforts()));
    }

    #[track_caller]
    fn claim(&mut self, queues: &[&str]) -> Value {
        let claimed = self.measure("queue.claim", json!({ "workerId": "w", "queues": queues, "leaseMs": 100 }));
        assert_eq!(claimed.as_array().unwrap().len(), 1, "{queues:?}");
        json!({ "id": claimed[0]["id"], "fence": claimed[0]["fence"] })
    }

    fn append(&self, count: i64) {
        let sql = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT ?1)
             INSERT INTO events (execution, sequence, tenant, id, type, data, created_at)
             SELECT e.key, n, 1, e.id || '-' || n, 'x-a', '{}', 0 FROM numbers JOIN executions e ON e.id = 'run'";
        self.raw.execute(sql, [count]).unwrap();
        // As after a snapshot: otherwise one is due, which folds all of these.
        self.raw.execute("UPDATE executions SET last_sequence = ?1, snapshot_at = ?1 WHERE id = 'run'", [count]).unwrap();
    }

    /// Puts rows into a table, with the number `n` of the row in `values`; their keys come after those that are there.
    fn fill(&self, table: &str, count: i64, values: &[(&str, &str)]) {
        let (columns, values): (Vec<_>, Vec<_>) = values.iter().copied().unzip();
        let sql = format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT ?1)
             INSERT INTO {table} (tenant, key, {})
             SELECT 1, coalesce((SELECT max(key) FROM {table}), 1 << 40) + n, {} FROM numbers",
            columns.join(", "),
            values.join(", "),
        );
        assert_eq!(self.raw.execute(&sql, [count]).unwrap() as i64, count);
    }

    /// What the rows of an execution weigh that a change of its state may write.
    fn bytes_of_rows(&self, id: &str) -> i64 {
        let sql = "SELECT (SELECT sum(length(CAST(data AS BLOB))) FROM events WHERE execution = e.key)
                     + coalesce((SELECT length(CAST(state AS BLOB)) FROM execution_states WHERE execution = e.key), 0)
                     + coalesce((SELECT sum(length(CAST(fold AS BLOB))) FROM snapshots WHERE execution = e.key), 0)
                   FROM executions e WHERE id = ?1";
        self.raw.query_row(sql, [id], |row| row.get(0)).unwrap()
    }

    /// Puts finished executions.
    fn put_executions(&self, count: i64) {
        self.fill(
            "executions",
            count,
            &[
                ("id", "'past-' || n"),
                ("workflow_id", "'w'"),
                ("status", "'completed'"),
                ("segment", "0"),
                ("last_sequence", "0"),
                ("created_at", "0"),
                ("updated_at", "0"),
                ("completed_at", "0"),
                ("changed", "n"),
            ],
        );
        let documents = "INSERT INTO execution_documents (execution, input, tags)
                         SELECT key, 'null', '[]' FROM executions WHERE id LIKE 'past-%'";
        assert_eq!(self.raw.execute(documents, ()).unwrap() as i64, count);
        let counts = "INSERT INTO execution_counts (tenant, status, count) VALUES (1, 'completed', ?1)";
        self.raw.execute(counts, [count]).unwrap();
    }
}

/// Runs `script` in a small world and in a large one, and compares what each call has cost.
fn compare(script: impl Fn(&mut World, i64)) {
    compare_sizes([SMALL, LARGE], script);
}

fn compare_sizes(sizes: [i64; 2], script: impl Fn(&mut World, i64)) {
    let [small, large] = sizes.map(|size| {
        let mut world = World::new();
        script(&mut world, size);
        world.costs
    });
    assert_eq!(small.len(), large.len());
    let mut differing = Vec::new();
    for ((label, before), (_, after)) in small.iter().zip(&large) {
        let steps = |efforts: &BTreeMap<String, Effort>| efforts.values().map(|effort| effort.steps).sum::<i64>();
        println!("{:>8} {:>8}  {label}", steps(before), steps(after));
        for (sql, effort) in after {
            // The list of tenants is short.
            if sql.contains("FROM tenants") {
                continue;
            }
            assert_eq!((effort.scanned, effort.sorts, effort.replans), (0, 0, 0), "{label}: {sql}");
            match before.get(sql) {
                Some(before) if before.steps == effort.steps => {}
                before => differing.push(format!("{label}: {:?} and {effort:?} for {sql}", before)),
            }
        }
        assert_eq!(before.len(), after.len(), "{label}");
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Lesson 15: finished and future items pile up, and a claim neither meets nor sorts them.
#[test]
fn claiming_and_settling_cost_the_same_whatever_waits_or_is_finished() {
    compare(|world, size| {
        world.put("q", "completed", size, &[]);
        world.put("q", "scheduled", size, &[]);
        world.put("q", "cancelled", size, &[]);
        world.put("q", "dead_lettered", size, &[]);
        world.call("queue.enqueue", json!({ "queue": "q" }));
        let only = world.claim(&["q"]);
        world.measure("queue.release", only);
        world.put("q", "pending", size, &[]);
        world.put("p", "pending", size, &[]);
        for n in 0..3 {
            world.measure("queue.enqueue", json!({ "queue": "q", "priority": n }));
            let held = world.claim(&["q"]);
            world.measure("queue.renew", held.clone());
            world.measure("queue.complete", held);
            let mut failed = world.claim(&["q", "p", "none"]);
            failed["error"] = json!("e");
            world.measure("queue.fail", failed);
            let released = world.claim(&["q"]);
            world.measure("queue.release", released);
        }
        world.measure("queue.claim", json!({ "workerId": "w", "queues": ["q", "p"], "limit": 50 }));
        world.measure("queue.get", json!({ "id": "q-completed-9" }));
        world.measure("queue.list", json!({ "limit": 10 }));
        world.measure("queue.cancel", json!({ "id": "q-pending-9" }));
        world.measure("deadLetters.list", json!({ "limit": 10, "order": "desc" }));
        world.measure("deadLetters.redrive", json!({ "id": "q-dead_lettered-9" }));
        world.measure("deadLetters.delete", json!({ "id": "q-dead_lettered-10" }));
        world.measure("queues.stats", json!({ "queue": "q" }));
        world.measure("queues.stats", json!({}));
    });
}

#[test]
fn claiming_from_five_queues_costs_the_same_however_long_they_are() {
    compare(|world, size| {
        let queues = ["q1", "q2", "q3", "q4", "q5"];
        for queue in queues {
            world.put(queue, "pending", size / 5, &[]);
        }
        for _ in 0..5 {
            world.claim(&queues);
        }
    });
}

#[test]
fn items_of_a_saturated_concurrency_key_are_not_passed_over_one_by_one() {
    compare(|world, size| {
        world.call("queue.enqueue", json!({ "queue": "q", "concurrencyKey": "busy", "priority": 9 }));
        world.put("q", "pending", size, &[("concurrency_key", "'busy'")]);
        world.call("queues.configure", json!({ "name": "q", "keyConcurrency": 1 }));
        world.put("q2", "pending", 20, &[("concurrency_key", "'other-' || n")]);
        let first = world.claim(&["q"]);
        world.call("queue.enqueue", json!({ "queue": "q", "priority": -1 }));
        let behind = world.claim(&["q"]);
        world.measure("queue.complete", behind);
        world.measure("queue.enqueue", json!({ "queue": "q", "concurrencyKey": "busy" }));
        world.measure("queue.claim", json!({ "workerId": "w", "queues": ["q", "q2"], "limit": 5 }));
        world.measure("queue.complete", first);
        let next = world.claim(&["q"]);
        world.measure("queue.release", next);
        world.measure("queues.stats", json!({ "queue": "q" }));
    });
}

/// Room for thousands does not mean that thousands are counted, or moved, with each call.
#[test]
fn a_key_with_much_room_and_many_items_costs_no_more_than_one_with_few() {
    compare_sizes([20_000, LARGE], |world, size| {
        world.put("q", "pending", size, &[("concurrency_key", "'busy'")]);
        let most = json!({ "limit": 100_000, "perMs": 1000 });
        world.call("queues.configure", json!({ "name": "q", "keyConcurrency": 100_000, "keyRateLimit": most }));
        world.measure("queue.enqueue", json!({ "queue": "q", "concurrencyKey": "busy" }));
        let held = world.claim(&["q"]);
        world.measure("queue.complete", held);
        world.measure("queue.claim", json!({ "workerId": "w", "queues": ["q"], "limit": 10 }));
        // A hold meets them all. When it ends, they come back by and by.
        world.call("queues.hold", json!({ "name": "q", "key": "busy", "until": START + 100 }));
        world.clock.advance(100);
        world.claim(&["q"]);
        world.call("queues.hold", json!({ "name": "q", "key": "busy", "until": START + 1000 }));
        world.call("queues.configure", json!({ "name": "q", "keyConcurrency": null, "keyRateLimit": null }));
        world.clock.advance(1000);
        world.claim(&["q"]);
        world.measure("queue.enqueue", json!({ "queue": "q", "concurrencyKey": "busy", "priority": 9 }));
        let held = world.claim(&["q"]);
        world.measure("queue.release", held);
    });
}

#[test]
fn counts_do_not_depend_on_how_many_concurrency_keys_wait() {
    compare(|world, size| {
        world.put("q", "pending", size, &[("concurrency_key", "'k-' || n")]);
        world.put("few", "pending", size, &[("concurrency_key", "'k-' || n % 10")]);
        for queue in ["q", "few"] {
            world.measure("queues.stats", json!({ "queue": queue }));
        }
        world.call("queues.configure", json!({ "name": "few", "keyConcurrency": 1 }));
        assert_eq!(world.measure("queues.stats", json!({ "queue": "few" }))["counts"]["pending"], size);
    });
}

#[test]
fn a_long_log_and_many_executions_make_appending_no_dearer() {
    compare(|world, size| {
        world.call("executions.create", json!({ "workflowId": "w", "id": "run" }));
        world.append(size);
        world.put("q", "completed", size, &[("execution", "(SELECT key FROM executions WHERE id = 'run')"), ("node_id", "'n'")]);
        let event = json!({ "executionId": "run", "type": "x-a", "data": 1 });
        world.measure("events.append", event.clone());
        world.measure("events.append", event);
        let patch = json!({ "nodeId": "n", "output": 1, "statePatch": { "a": 1 }, "durationMs": 1 });
        world.measure("events.append", json!({ "executionId": "run", "type": "node_completed", "data": patch }));
        world.measure(
            "events.appendMany",
            json!({ "executionId": "run", "events": [{ "type": "x-a" }, { "type": "x-b", "id": "b" }] }),
        );
        world.measure("events.latestSequence", json!({ "executionId": "run" }));
        world.measure("events.list", json!({ "executionId": "run", "after": 400, "limit": 10 }));
        world.measure("events.list", json!({ "executionId": "run", "order": "desc", "limit": 10 }));
        world.measure("executions.get", json!({ "id": "run" }));
        world.measure("executions.list", json!({ "limit": 10 }));
        let mut state = json!({ "id": "run", "patch": { "a": 1 } });
        world.measure("executions.patchState", state.clone());
        state["expectedSequence"] = world.call("events.latestSequence", json!({ "executionId": "run" }));
        world.measure("executions.patchState", state);
        world.measure("queue.enqueue", json!({ "queue": "q", "executionId": "run", "nodeId": "n" }));
        let held = world.claim(&["q"]);
        let mut done = held;
        done["statePatch"] = json!({ "b": 2 });
        world.measure("queue.complete", done);
    });
}

#[test]
fn a_patch_of_one_key_costs_the_same_however_large_the_state_is() {
    compare(|world, size| {
        world.call("executions.create", json!({ "workflowId": "w", "id": "run" }));
        // Too large to be kept beside the log in both.
        let state: serde_json::Map<_, _> = (0..size).map(|n| (format!("key-{n}"), json!(n))).collect();
        world.call("executions.setState", json!({ "id": "run", "state": state }));
        let before = world.bytes_of_rows("run");
        for n in 0..3 {
            world.measure("executions.patchState", json!({ "id": "run", "patch": { "key-1": n } }));
        }
        let written = world.bytes_of_rows("run") - before;
        assert!(written < 200, "3 patches have left {written} bytes");
    });
}

#[test]
fn recent_executions_and_their_counts_cost_the_same_however_many_there_are() {
    compare(|world, size| {
        world.put_executions(size);
        for n in 0..20 {
            world.call("executions.create", json!({ "workflowId": "w", "id": format!("new-{n}") }));
        }
        let event = json!({ "executionId": "past-7", "type": "x-a" });
        world.measure("events.append", event);
        world.measure("executions.create", json!({ "workflowId": "w" }));
        let recent = world.measure("executions.recent", json!({ "limit": 10 }));
        assert_eq!(recent["items"][1]["id"], "past-7");
        world.measure("executions.recent", json!({}));
        assert_eq!(world.measure("executions.count", json!({}))["total"], size + 21);
        world.measure("executions.count", json!({ "groupBy": "status" }));
    });
}

#[test]
fn open_approvals_are_found_among_however_many_decided_ones() {
    compare(|world, size| {
        world.call("executions.create", json!({ "workflowId": "w", "id": "run" }));
        let run = ("execution", "(SELECT key FROM executions WHERE id = 'run')");
        for (status, decided) in [("approved", "2"), ("pending", "NULL"), ("rejected", "2")] {
            let status_value = format!("'{status}'");
            let id = format!("'{status}-' || n");
            world.fill(
                "approvals",
                if status == "pending" { 30 } else { size },
                &[
                    run,
                    ("approval_id", &id),
                    ("node_id", "'n'"),
                    ("status", &status_value),
                    ("requested", "1"),
                    ("decided", decided),
                ],
            );
        }
        for order in ["asc", "desc"] {
            let filter = json!({ "status": "pending", "limit": 10, "order": order });
            let page = world.measure("approvals.list", filter.clone());
            assert_eq!(page["items"].as_array().unwrap().len(), 10);
            let mut rest = filter;
            rest["cursor"] = page["nextCursor"].clone();
            rest["limit"] = json!(100);
            assert_eq!(world.call("approvals.list", rest)["items"].as_array().unwrap().len(), 20);
        }
        let asks = json!({ "nodeId": "n", "approvalId": "new", "toolName": "t", "approver": "me", "context": {} });
        world.measure("events.append", json!({ "executionId": "run", "type": "tool_approval_required", "data": asks }));
        let decision = json!({ "executionId": "run", "approvalId": "new", "decision": "approved" });
        world.measure("approvals.resolve", decision);
    });
}

#[test]
fn due_timers_and_schedules_are_found_among_however_many_others() {
    compare(|world, size| {
        world.call("executions.create", json!({ "workflowId": "w", "id": "run" }));
        let run = ("execution", "(SELECT key FROM executions WHERE id = 'run')");
        for (status, fire_at) in [("fired", "0"), ("pending", "1 << 50"), ("cancelled", "0")] {
            let (id, status) = (format!("'{status}-' || n"), format!("'{status}'"));
            let values = [run, ("id", &id), ("node_id", "'n'"), ("status", &status), ("fire_at", fire_at), ("created_at", "0")];
            world.fill("timers", size, &values);
        }
        // And many that are due, of which a sweep takes some.
        world.fill(
            "timers",
            size,
            &[run, ("id", "'due-' || n"), ("node_id", "'n'"), ("status", "'pending'"), ("fire_at", "n"), ("created_at", "0")],
        );
        let timer = json!({ "executionId": "run", "nodeId": "n", "delayMs": 1, "id": "new" });
        world.measure("timers.schedule", timer);
        world.measure("timers.cancel", json!({ "id": "new" }));
        world.measure("timers.list", json!({ "status": "fired", "limit": 10, "order": "desc" }));
        assert_eq!(world.measure("sweep", json!({ "limit": 10 }))["timersFired"], 10);

        world.raw.execute("DELETE FROM timers WHERE fire_at < (1 << 50)", ()).unwrap();
        for (name, next_at) in [("later", "1 << 50"), ("off", "NULL")] {
            let id = format!("'{name}-' || n");
            world.fill(
                "crons",
                size,
                &[
                    ("name", &id),
                    ("expression", "'* * * * *'"),
                    ("timezone", "'UTC'"),
                    ("workflow_id", "'w'"),
                    ("input", "'null'"),
                    ("enabled", if name == "off" { "0" } else { "1" }),
                    ("catch_up", "'skip'"),
                    ("next_at", next_at),
                    ("wake_at", next_at),
                    ("created_at", "0"),
                    ("updated_at", "0"),
                ],
            );
        }
        for n in 0..5 {
            let cron = json!({ "name": format!("due-{n}"), "expression": "* * * * *", "workflowId": "w" });
            world.measure("cron.put", cron);
        }
        world.clock.advance(60_000);
        assert_eq!(world.measure("sweep", json!({}))["cronsFired"], 5);
        world.measure("cron.list", json!({ "limit": 10 }));
    });
}

#[test]
fn a_token_is_found_among_however_many() {
    compare(|world, size| {
        let values = [
            ("id", "'past-' || n"),
            ("sha256", "CAST('the digest of ' || n AS BLOB)"),
            ("name", "'n'"),
            ("role", "'viewer'"),
            ("created_at", "0"),
        ];
        world.fill("tokens", size, &values);
        let made = world.measure("tokens.create", json!({ "name": "n", "role": "viewer" }));
        let token = made["token"].clone();
        for _ in 0..2 {
            let found = world.measure("tokens.validate", json!({ "token": token }));
            assert_eq!(found["id"], made["info"]["id"]);
        }
        world.measure("tokens.validate", json!({ "token": "none" }));
        world.measure("tokens.list", json!({ "limit": 10 }));
        world.measure("tokens.revoke", json!({ "id": made["info"]["id"] }));
        assert_eq!(world.call("tokens.validate", json!({ "token": token })), Value::Null);
    });
}

/// Of calls that are kept, a lone one inserts a row and deletes the one before, whatever other clients have left.
#[test]
fn keeping_calls_costs_the_same_however_many_are_kept() {
    compare(|world, size| {
        let fill = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT ?1)
                    INSERT INTO requests (client, number, digest, answer, at) SELECT 'c-' || n % 50, n, x'00', '{}', ?2 FROM numbers";
        assert_eq!(world.raw.execute(fill, (size, START)).unwrap() as i64, size);
        let of = |number, again| Request { client: "c-2x", number, again, acked: number - 1 };
        let enqueue = json!({ "queue": "q" });
        for number in 1..=3 {
            world.measure_request("queue.enqueue", enqueue.clone(), of(number, false));
        }
        world.measure_request("queue.enqueue", enqueue, of(3, true));
        let claim = json!({ "workerId": "w", "queues": ["q"] });
        world.measure_request("queue.claim", claim.clone(), of(4, false));
        world.measure_request("queue.claim", claim, of(4, true));
        // From client to client, not from row to row.
        world.store.efforts();
        world.store.forget_clients(&[]).unwrap();
        world.costs.push(("forget clients".to_owned(), world.store.efforts()));
    });
}

#[test]
fn an_idempotency_key_that_is_used_day_by_day_is_found_at_once() {
    compare(|world, size| {
        world.put("q", "completed", size, &[("idempotency_key", "'daily'")]);
        let daily = json!({ "queue": "q", "idempotencyKey": "daily" });
        assert_eq!(world.measure("queue.enqueue", daily.clone())["created"], true);
        assert_eq!(world.measure("queue.enqueue", daily)["created"], false);
        let held = world.claim(&["q"]);
        let mut failed = held;
        failed["error"] = json!("e");
        failed["retryable"] = json!(false);
        let id = failed["id"].clone();
        world.measure("queue.fail", failed);
        world.measure("deadLetters.redrive", json!({ "id": id }));
    });
}

#[test]
fn expired_leases_are_found_and_ended_by_the_page() {
    compare(|world, size| {
        world.put("q", "claimed", size, &[]);
        world.clock.advance(1_000_000);
        let page = world.measure("leases.listExpired", json!({ "limit": 10 }));
        assert_eq!(page["items"].as_array().unwrap().len(), 10);
        world.measure("leases.listExpired", json!({ "limit": 10, "cursor": page["nextCursor"] }));
        assert_eq!(world.measure("sweep", json!({ "limit": 100 }))["leasesRetried"], 100);
        // A claim ends some leases on its way, and no more than some.
        world.call("queue.enqueue", json!({ "queue": "q", "priority": 10 }));
        world.claim(&["q"]);
    });
}

#[test]
fn items_that_become_due_are_moved_by_the_hundred() {
    compare(|world, size| {
        world.put("q", "scheduled", size, &[]);
        world.clock.advance(2_000_000_000);
        assert_eq!(world.measure("sweep", json!({ "limit": 100 }))["itemsReadied"], 100);
        world.claim(&["q"]);
    });
}

#[test]
fn the_registry_costs_the_same_however_many_are_in_it() {
    compare(|world, size| {
        let worker = |n: i64| json!({ "workerId": format!("w-{n}"), "pool": "p", "queues": ["q"], "capabilities": ["gpu"], "livenessTtlMs": 600_000_000 });
        for n in 0..size / 50 {
            world.call("workers.register", worker(n));
        }
        for n in 0..2 {
            world.measure("workers.register", worker(100_000 + n));
            world.measure("workers.register", worker(100_000 + n));
            world.measure("workers.heartbeat", json!({ "workerId": format!("w-{n}") }));
        }
        world.measure("workers.list", json!({ "limit": 5, "order": "desc" }));
        world.measure("workers.history", json!({ "limit": 5, "order": "desc" }));
        world.put("q", "pending", size, &[]);
        world.call("queue.enqueue", json!({ "queue": "q", "requires": ["gpu"], "priority": 10 }));
        let claim = json!({ "workerId": "w-1", "queues": ["q"] });
        assert_eq!(world.measure("queue.claim", claim)[0]["requires"], json!(["gpu"]));
        world.measure("workers.markDead", json!({ "workerId": "w-1", "reason": "gone" }));
    });
}

#[test]
fn retention_goes_through_what_is_kept_step_by_step() {
    compare(|world, size| {
        world.put("q", "completed", size, &[]);
        world.put("q", "pending", size, &[]);
        world.clock.advance(1000);
        world.call("retention.set", json!({ "itemsMs": 1000, "attemptsMs": 1000, "executionsMs": 1000 }));
        for _ in 0..2 {
            assert_eq!(world.measure("sweep", json!({ "limit": 100 }))["pruned"], 100);
        }
    });
}

/// Puts threads that nobody has written to for long, every third archived, each with its documents.
fn put_threads(world: &World, count: i64) {
    world.fill(
        "threads",
        count,
        &[("id", "'thread-' || n"), ("archived", "n % 3 = 0"), ("created_at", "0"), ("updated_at", "0"), ("changed", "n")],
    );
    let documents = "INSERT INTO thread_documents (thread) SELECT key FROM threads WHERE id LIKE 'thread-%'";
    assert_eq!(world.raw.execute(documents, ()).unwrap() as i64, count);
}

/// Puts turns that have ended into a thread.
fn put_turns(world: &World, thread: &str, count: i64) {
    let of = format!("(SELECT key FROM threads WHERE id = '{thread}')");
    world.fill(
        "turns",
        count,
        &[
            ("id", &format!("'{thread}-' || n")),
            ("thread", &of),
            ("status", "'completed'"),
            ("input_summary", "''"),
            ("created_at", "0"),
            ("ended_at", "0"),
        ],
    );
}

#[test]
fn a_thread_among_many_with_many_turns_and_events_costs_what_the_first_one_does() {
    compare(|world, size| {
        put_threads(world, size);
        put_turns(world, "thread-1", size);
        let thread = "(SELECT key FROM threads WHERE id = 'thread-1')";
        world.fill("thread_events", size, &[("thread", thread), ("type", "'x'"), ("data", "'{}'"), ("created_at", "0")]);
        world.raw.execute("INSERT INTO thread_event_sequences (tenant, last) VALUES (1, ?1)", [size]).unwrap();
        for id in ["a", "b"] {
            world.measure("threads.create", json!({ "id": id, "title": "of no great length" }));
        }
        world.measure("threads.get", json!({ "id": "thread-1" }));
        world.measure("threads.update", json!({ "id": "thread-1", "title": "other", "model": "m" }));
        world.measure("threads.archive", json!({ "id": "a" }));
        for archived in ["exclude", "include", "only"] {
            for order in ["asc", "desc"] {
                world.measure("threads.list", json!({ "archived": archived, "order": order, "limit": 2 }));
            }
            world.measure("threads.recent", json!({ "archived": archived, "limit": 5 }));
        }
        for id in ["u", "v", "w"] {
            world.measure("turns.create", json!({ "id": id, "threadId": "thread-1", "status": "in_progress", "ownerId": id }));
        }
        world.measure("turns.get", json!({ "id": "u" }));
        world.measure("turns.update", json!({ "id": "u", "status": "completed", "lastRequestInputTokens": 5 }));
        for order in ["asc", "desc"] {
            world.measure("turns.list", json!({ "threadId": "thread-1", "order": order, "limit": 5 }));
            world.measure("threadEvents.list", json!({ "threadId": "thread-1", "order": order, "limit": 5 }));
        }
        world.measure("turns.listIncomplete", json!({}));
        assert_eq!(world.measure("turns.recover", json!({ "liveOwnerIds": ["w"] }))["interrupted"], json!(["v"]));
        for _ in 0..2 {
            world.measure("threadEvents.append", json!({ "threadId": "thread-1", "type": "x" }));
        }
        world.measure("threadEvents.list", json!({ "threadId": "thread-1", "after": size / 2, "limit": 5 }));
        world.measure("threads.fork", json!({ "id": "a" }));
        world.measure("threads.delete", json!({ "id": "b" }));
    });
}

#[test]
fn threads_that_have_not_changed_go_by_the_hundred() {
    compare(|world, size| {
        put_threads(world, size);
        world.call("retention.set", json!({ "threadsMs": 1000 }));
        for _ in 0..2 {
            assert_eq!(world.measure("sweep", json!({ "limit": 100 }))["pruned"], 100);
        }
    });
}

/// Puts items into the thread `t`, each with its contents.
fn put_thread_items(world: &World, count: i64) {
    let thread = "(SELECT key FROM threads WHERE id = 't')";
    world.fill(
        "thread_items",
        count,
        &[
            ("id", "'past-' || n"),
            ("thread", thread),
            ("turn", "(SELECT key FROM turns WHERE id = 'past')"),
            ("position", "n"),
            ("kind", "'reasoning'"),
            ("status", "'completed'"),
            ("summary", "''"),
            ("created_at", "0"),
            ("ended_at", "0"),
        ],
    );
    let contents =
        "INSERT INTO item_contents (item, length, text) SELECT key, 4, 'text' FROM thread_items WHERE id LIKE 'past-%'";
    assert_eq!(world.raw.execute(contents, ()).unwrap() as i64, count);
    world.raw.execute("UPDATE threads SET last_position = ?1 WHERE id = 't'", [count]).unwrap();
}

#[test]
fn items_of_a_long_thread_cost_no_more_than_those_of_a_short_one() {
    compare(|world, size| {
        world.call("threads.create", json!({ "id": "t" }));
        world.call("turns.create", json!({ "id": "past", "threadId": "t" }));
        world.call("turns.create", json!({ "id": "turn", "threadId": "t", "status": "in_progress" }));
        put_thread_items(world, size);
        let item = json!({ "threadId": "t", "turnId": "turn", "kind": "reasoning" });
        let of = |id: &str, more: Value| common::with(&json!({ "id": id }), more);
        for id in ["a", "b", "c"] {
            world.measure("items.create", common::with(&item, of(id, json!({}))));
        }
        world.measure("items.put", common::with(&item, of("d", json!({ "text": "whole" }))));
        world.measure("items.put", of("d", json!({ "summary": "s" })));
        world.measure("items.get", of("past-9", json!({})));
        world.measure("items.list", json!({ "threadId": "t", "limit": 10 }));
        world.measure("items.list", json!({ "threadId": "t", "limit": 10, "order": "desc" }));
        world.measure("items.list", json!({ "threadId": "t", "limit": 10, "cursor": (size / 2).to_string() }));
        world.measure("items.list", json!({ "turnId": "turn", "limit": 10 }));
        world.measure("items.appendText", of("a", json!({ "delta": "one" })));
        world.measure("items.readText", of("a", json!({ "after": 1 })));
        world.measure("items.update", of("a", json!({ "status": "completed" })));
        world.measure("items.update", of("past-9", json!({ "data": { "a": 1 } })));
        world.measure("items.delete", of("b", json!({})));
        world.measure("turns.update", of("turn", json!({ "status": "interrupted" })));
    });
}

/// The 10,000th delta of a text costs what the second did, and so does reading it.
#[test]
fn a_delta_costs_the_same_however_long_the_text_is() {
    let mut world = World::new();
    world.call("threads.create", json!({ "id": "t" }));
    world.call("items.create", json!({ "id": "i", "threadId": "t", "kind": "assistant_message" }));
    let mut length = 0;
    for _ in 0..10_000 {
        let delta = json!({ "id": "i", "delta": "twenty bytes of text", "at": length });
        world.measure("items.appendText", delta);
        length = world.measure("items.readText", json!({ "id": "i", "after": length }))["length"].as_i64().unwrap();
    }
    assert_eq!(length, 200_000);
    // The first call of each has begun the item; from then on all are alike.
    let calls = &world.costs[2..];
    for (label, efforts) in calls {
        let like = &calls[usize::from(label.starts_with("items.readText"))].1;
        assert_eq!(efforts, like, "{label}");
    }
    // What a reader missed costs what it is, not what the text is.
    world.measure("items.readText", json!({ "id": "i", "after": length - 200 }));
    world.measure("items.readText", json!({ "id": "i", "after": 200 }));
    let steps = |at: usize| world.costs[world.costs.len() - at].1.values().map(|effort| effort.steps).sum::<i64>();
    assert!(steps(2) * 100 < steps(1), "{} and {}", steps(2), steps(1));
    world.call("items.update", json!({ "id": "i", "status": "completed" }));
    assert_eq!(world.call("items.get", json!({ "id": "i" }))["text"].as_str().unwrap().len(), 200_000);
}

#[test]
fn the_inbox_costs_the_same_however_many_prompts_there_were() {
    compare(|world, size| {
        world.call("threads.create", json!({ "id": "t" }));
        world.call("turns.create", json!({ "id": "turn", "threadId": "t" }));
        let thread = "(SELECT key FROM threads WHERE id = 't')";
        // Of each kind more than any operation looks at.
        let mut before = 0;
        for (status, delivery) in [("promoted", "queue"), ("withdrawn", "steer"), ("admitted", "queue"), ("admitted", "steer")] {
            world.fill(
                "inbox",
                size,
                &[
                    ("id", &format!("'{status}-{delivery}-' || n")),
                    ("thread", thread),
                    ("admitted_sequence", &format!("{before} + n")),
                    ("status", &format!("'{status}'")),
                    ("delivery", &format!("'{delivery}'")),
                    ("prompt", "'\"p\"'"),
                    ("turn_id", if status == "promoted" { "'past-' || n" } else { "NULL" }),
                    ("created_at", "0"),
                ],
            );
            before += size;
        }
        world.raw.execute("UPDATE threads SET last_admitted = ?1 WHERE id = 't'", [before]).unwrap();
        for _ in 0..2 {
            world.measure("inbox.admit", json!({ "threadId": "t", "id": "p", "prompt": "p" }));
        }
        world.measure("inbox.next", json!({ "threadId": "t" }));
        world.measure("inbox.steers", json!({ "threadId": "t" }));
        for _ in 0..2 {
            world.measure("inbox.promoteNext", json!({ "threadId": "t", "turn": { "id": "next" } }));
        }
        world.measure("inbox.promoteNext", json!({ "threadId": "t", "includeSteers": true }));
        world.measure("inbox.promote", json!({ "id": "admitted-steer-9", "turnId": "turn" }));
        world.measure("inbox.withdraw", json!({ "id": "p" }));
        world.measure("inbox.list", json!({ "threadId": "t", "limit": 10 }));
        world.measure("inbox.list", json!({ "threadId": "t", "limit": 10, "order": "desc" }));
    });
}

/// Puts responses of long ago into the turn `past`, one of a hundred without a price.
fn put_usage(world: &World, count: i64) {
    world.call("threads.create", json!({ "id": "t" }));
    world.call("turns.create", json!({ "id": "past", "threadId": "t" }));
    world.call("turns.create", json!({ "id": "turn", "threadId": "t" }));
    world.fill(
        "usage_records",
        count,
        &[
            ("response_id", "'past-' || n"),
            ("turn", "(SELECT key FROM turns WHERE id = 'past')"),
            ("turn_id", "'past'"),
            ("thread_id", "'t'"),
            ("model", "'m'"),
            ("input_tokens", "1"),
            ("output_tokens", "1"),
            ("no_cache_tokens", "1"),
            ("cost_usd", "1.0"),
            ("cost_without_cache", "1.0"),
            ("created_at", "n"),
        ],
    );
}

#[test]
fn usage_is_recorded_and_found_at_the_same_cost_however_much_there_is() {
    compare(|world, size| {
        put_usage(world, size);
        for response in ["r-1", "r-2", "r-2"] {
            let used = json!({ "turnId": "turn", "responseId": response, "model": "m", "inputTokens": 1, "outputTokens": 1 });
            world.measure("usage.record", used);
        }
        world.measure("usage.get", json!({ "responseId": "past-9" }));
        world.measure("usage.list", json!({ "limit": 10 }));
        world.measure("usage.list", json!({ "limit": 10, "turnId": "past", "order": "desc" }));
        world.measure("turns.get", json!({ "id": "turn" }));
        let repriced = world.measure("usage.reprice", json!({ "onlyUnpriced": true }));
        assert_eq!(repriced["lookedAt"], 2);
    });
}

/// A sum costs what it sums up: in which table of which size it lies makes no difference.
#[test]
fn a_sum_over_some_days_costs_the_same_however_much_lies_before_them() {
    let cost = |size: i64| {
        let world = World::new();
        put_usage(&world, size);
        for n in 0..20 {
            let used = json!({ "turnId": "turn", "responseId": format!("r-{n}"), "model": "m", "inputTokens": 1, "outputTokens": 1,
                               "createdAt": START + n * 8 * 3_600_000 });
            world.call("usage.record", used);
        }
        let mut steps = Vec::new();
        for group in ["day", "model", "thread"] {
            world.store.efforts();
            let sums = world.call("usage.aggregate", json!({ "since": START, "groupBy": group, "timezone": "Europe/Berlin" }));
            assert_eq!(sums["totals"]["inputTokens"], 20);
            steps.push(world.store.efforts().values().map(|effort| effort.steps).sum::<i64>());
        }
        steps
    };
    assert_eq!(cost(SMALL), cost(LARGE));
}

/// A range of a blob costs what the range does: it is the same in a blob of 50 MiB, among many others.
#[test]
fn a_range_of_a_large_blob_costs_what_the_range_does() {
    let chunk = 256 * 1024;
    compare_sizes([4, 200], |world, chunks| {
        let others = [("sha256", "CAST('the digest of ' || n AS BLOB)"), ("size", "0"), ("created_at", "0")];
        world.fill("blobs", chunks * 100, &others);
        let id = "ab".repeat(32);
        world.fill("blobs", 1, &[("sha256", &format!("x'{id}'")), ("size", &(chunks * chunk).to_string()), ("created_at", "0")]);
        let rows = "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers LIMIT ?1)
             INSERT INTO blob_chunks (blob, number, bytes) SELECT b.key, n, zeroblob(?2) FROM numbers JOIN blobs b ON b.size > 0";
        assert_eq!(world.raw.execute(rows, [chunks, chunk]).unwrap() as i64, chunks);
        let end = chunks * chunk;
        for (offset, length) in [(0, 10), (chunk - 5, 10), (end - 10, 10), (end - chunk, chunk)] {
            world.measure("blobs.get", json!({ "id": id, "offset": offset, "length": length }));
        }
        world.measure("blobs.list", json!({ "limit": 10 }));
    });
}

/// A record costs the same whatever was imported before, into its own thread and others.
#[test]
fn an_import_costs_the_same_whatever_is_there() {
    let record = |session: &str, n: i64| {
        let (role, id) = if n % 2 == 0 { ("user", String::new()) } else { ("assistant", format!("{session}-{n}")) };
        let used = json!({ "input_tokens": 1, "output_tokens": 1 });
        let message = json!({ "role": role, "id": id, "model": "m", "content": "said", "usage": used });
        json!({ "type": role, "sessionId": session, "uuid": n.to_string(), "timestamp": "2026-02-01T08:00:00Z", "message": message })
            .to_string()
            + "\n"
    };
    let cost = |size: i64| {
        let world = World::new();
        let import = |session: &str, numbers: std::ops::Range<i64>| {
            let text: String = numbers.map(|n| record(session, n)).collect();
            let format = runkeep::imports::SessionFormat::ClaudeCode;
            world.store.imports().read(format, "a.jsonl", text.as_bytes(), |_| true).unwrap().imported
        };
        import("other", 0..size);
        import("own", 0..size);
        world.store.efforts();
        assert_eq!(import("own", size..size + 10), 10);
        world.store.efforts().into_iter().map(|(sql, effort)| (sql, effort.steps)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(cost(100), cost(4_000));
}
