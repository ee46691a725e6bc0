//! A JamJet state database becomes runs, logs, work and tokens. What is expected is read from the file itself.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{Folder, call, code, options};
use runkeep::imports::{ImportJamjet, ImportReport};
use runkeep::{Clock, ErrorCode, ManualClock, Options, Store};
use rusqlite::Connection;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const FILE: &[u8] = include_bytes!("fixtures/jamjet-0.3.2.db");

/// 2026-12-01T00:00:00Z: a few hours after the file was written.
const LATER: i64 = 1_796_083_200_000;

const TABLES: &[&str] = &[
    "tenants",
    "workflow_definitions",
    "api_tokens",
    "workflow_executions",
    "events",
    "snapshots",
    "work_items",
    "dead_letter_items",
    "timers",
    "cron_jobs",
    "agents",
];

fn store() -> (Store, ManualClock) {
    let clock = ManualClock::new(LATER);
    (Store::in_memory_with(options(&clock)).unwrap(), clock)
}

/// The file, changed by SQL.
fn changed(sql: &str) -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.file("jamjet.db");
    std::fs::write(&path, FILE).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(&format!("PRAGMA foreign_keys = off; {sql}")).unwrap();
    connection.close().unwrap();
    std::fs::read(&path).unwrap()
}

/// The rows of a query on the file, each column as text.
fn rows(bytes: &[u8], sql: &str) -> Vec<Vec<Option<String>>> {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.deserialize_read_exact("main", bytes, bytes.len(), true).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let read = |row: &rusqlite::Row<'_>| {
        (0..columns)
            .map(|at| {
                Ok(match row.get_ref(at)? {
                    rusqlite::types::ValueRef::Null => None,
                    rusqlite::types::ValueRef::Integer(number) => Some(number.to_string()),
                    other => Some(other.as_str()?.to_owned()),
                })
            })
            .collect()
    };
    statement.query_map([], read).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

fn count(bytes: &[u8], table: &str) -> i64 {
    rows(bytes, &format!("SELECT count(*) FROM {table}"))[0][0].as_ref().unwrap().parse().unwrap()
}

/// Unix milliseconds of `2026-11-30T19:37:37.205004825+00:00`, by other means than the import's.
fn ms(text: &str) -> i64 {
    let sql = "SELECT CAST(strftime('%s', substr(?1, 1, 19)) AS INTEGER) * 1000 + CAST(substr(?1 || '000', 21, 3) AS INTEGER)";
    let fraction = if text.contains('.') { text.to_owned() } else { format!("{}.000", &text[..19]) };
    Connection::open_in_memory().unwrap().query_row(sql, [fraction], |row| row.get(0)).unwrap()
}

fn time(column: &Option<String>) -> Value {
    column.as_deref().map_or(Value::Null, |text| ms(text).into())
}

fn of_tenant(store: &Store, id: &str) -> Store {
    if id == "default" { store.clone() } else { store.for_tenant(id) }
}

/// The text of one member of an answer, byte for byte.
fn raw(store: &Store, operation: &str, arguments: Value, member: &str) -> String {
    let answer = store.call(operation, &arguments.to_string()).unwrap();
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&answer).unwrap();
    members[member].get().to_owned()
}

fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |name, part| name + &part[..1].to_uppercase() + &part[1..])
}

/// The rows agree with each other, as always.
fn check_whole(path: &std::path::Path) {
    let connection = Connection::open(path).unwrap();
    let text = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(text("PRAGMA integrity_check"), "ok");
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    for (what, sql) in [
        (
            "executions",
            "SELECT count(*) FROM (SELECT tenant, status, count FROM execution_counts WHERE count > 0
             EXCEPT SELECT tenant, status, count(*) FROM executions GROUP BY tenant, status)",
        ),
        (
            "queues",
            "SELECT count(*) FROM queues q WHERE EXISTS (
                 SELECT 1 FROM (SELECT 'scheduled' AS status, q.scheduled AS count UNION ALL SELECT 'pending', q.pending
                     UNION ALL SELECT 'claimed', q.claimed UNION ALL SELECT 'completed', q.completed
                     UNION ALL SELECT 'dead_lettered', q.dead_lettered UNION ALL SELECT 'cancelled', q.cancelled) v
                 WHERE v.count <> (SELECT count(*) FROM items i WHERE i.queue = q.key AND i.status = v.status))",
        ),
        (
            "logs",
            "SELECT count(*) FROM executions e WHERE last_sequence <> (SELECT coalesce(max(sequence), 0) FROM events WHERE execution = e.key)
                OR snapshot_at <> (SELECT coalesce(max(sequence), 0) FROM snapshots WHERE execution = e.key)
                OR tail_bytes <> (SELECT coalesce(sum(length(CAST(data AS BLOB))), 0) FROM events
                                  WHERE execution = e.key AND sequence > e.snapshot_at)",
        ),
    ] {
        assert_eq!(number(sql), 0, "{what}");
    }
}

/// Every execution is what its log makes of it, now and from a snapshot.
fn check_folds(store: &Store) {
    for tenant in call(store, "tenants.list", json!({}))["items"].as_array().unwrap() {
        let store = of_tenant(store, tenant["id"].as_str().unwrap());
        for run in call(&store, "executions.list", json!({ "limit": 1000 }))["items"].as_array().unwrap() {
            let folded = call(&store, "executions.materialize", json!({ "id": run["id"] }));
            for member in ["status", "state", "output", "lastSequence"] {
                assert_eq!(run[member], folded[member], "{member} of {}", run["id"]);
            }
        }
    }
}

fn import(store: &Store, bytes: &[u8]) -> ImportReport {
    let report = store.imports().jamjet(ImportJamjet { bytes: bytes.to_vec() }).unwrap();
    for (table, counts) in &report.tables {
        assert_eq!(counts.read, counts.imported + counts.skipped + counts.rejected, "{table}: {report:?}");
        assert_eq!(counts.rejected, report.rejected.iter().filter(|row| row.table == *table).count() as i64, "{table}");
    }
    check_folds(store);
    report
}

#[test]
fn every_row_of_the_file_is_there_afterwards() {
    let folder = Folder::new();
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&ManualClock::new(LATER))).unwrap();
    let report = import(&store, FILE);
    assert_eq!(report.rejected, []);
    for table in TABLES {
        let counts = &report.tables[*table];
        assert_eq!((counts.read, counts.imported), (count(FILE, table), count(FILE, table)), "{table}");
    }
    assert!(report.unknown_events.is_empty());

    // Definitions, tenants and tokens.
    for row in rows(FILE, "SELECT tenant_id, workflow_id, version, ir_json, created_at FROM workflow_definitions") {
        let store = of_tenant(&store, row[0].as_ref().unwrap());
        let found = json!({ "id": row[1], "version": row[2] });
        assert_eq!(raw(&store, "workflows.get", found.clone(), "definition"), *row[3].as_ref().unwrap());
        assert_eq!(call(&store, "workflows.get", found)["createdAt"], time(&row[4]));
    }
    for row in rows(FILE, "SELECT id, name, status, policy_json, limits_json, created_at, updated_at FROM tenants") {
        let tenant = call(&store, "tenants.get", json!({ "id": row[0] }));
        assert_eq!((&tenant["name"], &tenant["status"]), (&json!(row[1]), &json!(row[2])));
        let policy: Value = row[3].as_deref().map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
        assert_eq!(tenant["policy"], policy);
        let limits: BTreeMap<String, Value> = serde_json::from_str(row[4].as_deref().unwrap_or("{}")).unwrap();
        let limits: BTreeMap<String, Value> = limits.into_iter().map(|(name, most)| (camel(&name), most)).collect();
        assert_eq!(tenant["limits"], json!(limits));
        assert_eq!((&tenant["createdAt"], &tenant["updatedAt"]), (&time(&row[5]), &time(&row[6])));
    }
    let tokens = call(&store, "tokens.list", json!({}))["items"].clone();
    let expected = rows(FILE, "SELECT id, tenant_id, name, role, created_at FROM api_tokens");
    assert_eq!(tokens.as_array().unwrap().len(), expected.len());
    assert_eq!(
        tokens[0],
        json!({ "id": expected[0][0], "tenantId": expected[0][1], "name": expected[0][2], "role": expected[0][3],
                "createdAt": time(&expected[0][4]) })
    );

    // Executions: status, times, input, state; apart by tenant.
    let executions = rows(
        FILE,
        "SELECT tenant_id, execution_id, workflow_id, workflow_version, status, initial_input, current_state, started_at, updated_at,
                completed_at FROM workflow_executions",
    );
    for row in &executions {
        let tenant = row[0].as_deref().unwrap();
        let own = of_tenant(&store, tenant);
        let run = call(&own, "executions.get", json!({ "id": row[1] }));
        assert_eq!((&run["tenantId"], &run["workflowId"]), (&json!(tenant), &json!(row[2])));
        assert_eq!((&run["workflowVersion"], &run["status"]), (&json!(row[3]), &json!(row[4])));
        assert_eq!(raw(&own, "executions.get", json!({ "id": row[1] }), "input"), *row[5].as_ref().unwrap());
        assert_eq!(run["state"], serde_json::from_str::<Value>(row[6].as_ref().unwrap()).unwrap());
        assert_eq!((&run["createdAt"], &run["startedAt"]), (&time(&row[7]), &time(&row[7])));
        assert_eq!((&run["updatedAt"], &run["completedAt"]), (&time(&row[8]), &time(&row[9])));
        for other in ["default", "acme"].into_iter().filter(|other| *other != tenant) {
            assert_eq!(call(&of_tenant(&store, other), "executions.get", json!({ "id": row[1] })), Value::Null);
        }
    }
    for tenant in ["default", "acme"] {
        let own = of_tenant(&store, tenant);
        let ids: Vec<&str> =
            executions.iter().filter(|row| row[0].as_deref() == Some(tenant)).map(|row| row[1].as_deref().unwrap()).collect();
        assert_eq!(call(&own, "executions.count", json!({}))["total"], json!(ids.len()));
        let listed = call(&own, "executions.list", json!({}))["items"].clone();
        let listed: Vec<&str> = listed.as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
        assert_eq!(listed, ids);
        let recent = call(&own, "executions.recent", json!({}))["items"].clone();
        let times: Vec<i64> = recent.as_array().unwrap().iter().map(|run| run["updatedAt"].as_i64().unwrap()).collect();
        assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    }

    // Events: sequence, type, data in camelCase, values byte for byte.
    for row in &executions {
        let own = of_tenant(&store, row[0].as_deref().unwrap());
        let id = row[1].as_deref().unwrap();
        let text = own.call("events.list", &json!({ "executionId": id, "limit": 1000 }).to_string()).unwrap();
        let events: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text).unwrap();
        let events: Vec<BTreeMap<String, Box<RawValue>>> = serde_json::from_str(events["items"].get()).unwrap();
        let expected = rows(
            FILE,
            &format!("SELECT id, sequence, kind_json, created_at FROM events WHERE execution_id = '{id}' ORDER BY sequence"),
        );
        let reconciled = report.reconciled.iter().filter(|run| run.execution_id == id).count();
        assert_eq!(events.len(), expected.len() + reconciled, "{id}");
        for (event, row) in events.iter().zip(&expected) {
            let text = |member: &str| serde_json::from_str::<Value>(event[member].get()).unwrap();
            assert_eq!((text("id"), event["sequence"].get()), (json!(row[0]), row[1].as_deref().unwrap()));
            assert_eq!(text("createdAt"), time(&row[3]));
            let kind: BTreeMap<String, Box<RawValue>> = serde_json::from_str(row[2].as_ref().unwrap()).unwrap();
            assert_eq!(event["type"].get(), kind["type"].get());
            let data: BTreeMap<String, Box<RawValue>> = serde_json::from_str(event["data"].get()).unwrap();
            assert_eq!(data.len(), kind.len() - 1);
            for (name, value) in kind.iter().filter(|(name, _)| *name != "type") {
                let have = data[&camel(name)].get();
                if name == "provenance" {
                    let expected = json!({ "modelId": "claude-haiku-4-5", "confidence": 0.9, "verified": true });
                    assert_eq!(serde_json::from_str::<Value>(have).unwrap(), expected);
                } else {
                    assert_eq!(have, value.get(), "{name} of {}", row[0].as_ref().unwrap());
                }
            }
        }
    }

    // Snapshots: the fold at their sequence.
    for row in rows(FILE, "SELECT tenant_id, execution_id, at_sequence, created_at FROM snapshots") {
        let own = of_tenant(&store, row[0].as_deref().unwrap());
        let snapshots = call(&own, "snapshots.list", json!({ "executionId": row[1] }))["items"].clone();
        assert_eq!(snapshots.as_array().unwrap().len(), 1);
        assert_eq!((snapshots[0]["sequence"].to_string(), &snapshots[0]["createdAt"]), (row[2].clone().unwrap(), &time(&row[3])));
    }

    // Work items, and dead letters with the reason.
    for row in rows(
        FILE,
        "SELECT w.tenant_id, w.id, w.execution_id, w.node_id, w.queue_type, w.payload_json, w.status, w.worker_id, w.lease_expires_at,
                w.created_at, w.claimed_at, w.completed_at, w.max_attempts, d.last_error, d.dead_lettered_at
         FROM work_items w LEFT JOIN dead_letter_items d ON d.id = w.id",
    ) {
        let own = of_tenant(&store, row[0].as_deref().unwrap());
        let item = call(&own, "queue.get", json!({ "id": row[1] }));
        for (member, column) in [("executionId", 2), ("nodeId", 3), ("queue", 4), ("status", 6), ("workerId", 7), ("lastError", 13)] {
            assert_eq!(item[member], json!(row[column]), "{member} of {:?}", row[1]);
        }
        assert_eq!(raw(&own, "queue.get", json!({ "id": row[1] }), "payload"), *row[5].as_ref().unwrap());
        for (member, column) in [("leaseExpiresAt", 8), ("createdAt", 9), ("claimedAt", 10), ("runAt", 9)] {
            assert_eq!(item[member], time(&row[column]), "{member} of {:?}", row[1]);
        }
        assert_eq!(item["finishedAt"], time(if row[14].is_some() { &row[14] } else { &row[11] }));
        assert_eq!(item["maxAttempts"].to_string(), *row[12].as_ref().unwrap());
    }
    for tenant in ["default", "acme"] {
        let letters = rows(FILE, &format!("SELECT id FROM dead_letter_items WHERE tenant_id = '{tenant}'"));
        let listed = call(&of_tenant(&store, tenant), "deadLetters.list", json!({}))["items"].clone();
        let listed: BTreeSet<&str> = listed.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
        assert_eq!(listed, letters.iter().map(|row| row[0].as_deref().unwrap()).collect());
    }

    // What was used counts in the month in which it was.
    let connection = Connection::open(&path).unwrap();
    for (tenant, number) in [("default", 1), ("acme", 2)] {
        let sql = format!(
            "SELECT sum(json_extract(kind_json, '$.input_tokens') + json_extract(kind_json, '$.output_tokens')) FROM events
             WHERE tenant_id = '{tenant}'"
        );
        let used: Vec<(i64, i64)> = connection
            .prepare("SELECT month, tokens FROM monthly_usage WHERE tenant = ?1")
            .unwrap()
            .query_map([number], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(used, [(2026 * 12 + 10, rows(FILE, &sql)[0][0].as_ref().unwrap().parse().unwrap())]);
    }
    store.close().unwrap();
    check_whole(&path);
}

/// What the events make of an execution, told by a fold of the test's own.
fn folded(bytes: &[u8], id: &str) -> (String, Value) {
    let (mut status, mut state) = ("pending".to_owned(), json!({}));
    for row in rows(bytes, &format!("SELECT kind_json FROM events WHERE execution_id = '{id}' ORDER BY sequence")) {
        let kind: Value = serde_json::from_str(row[0].as_ref().unwrap()).unwrap();
        match kind["type"].as_str().unwrap() {
            "workflow_started" => status = "running".to_owned(),
            "workflow_completed" => (status, state) = ("completed".to_owned(), kind["final_state"].clone()),
            "node_completed" => {
                for (key, value) in kind["state_patch"].as_object().unwrap() {
                    state[key] = value.clone();
                }
            }
            _ => {}
        }
    }
    (status, state)
}

#[test]
fn exactly_those_executions_are_reconciled_whose_row_differs_from_their_events() {
    // Two of them say what their events say.
    let alike = rows(FILE, "SELECT execution_id FROM workflow_executions ORDER BY execution_id LIMIT 2");
    let alike: Vec<&str> = alike.iter().map(|row| row[0].as_deref().unwrap()).collect();
    let updates: String = alike
        .iter()
        .map(|id| {
            let (status, state) = folded(FILE, id);
            format!("UPDATE workflow_executions SET status = '{status}', current_state = '{state}' WHERE execution_id = '{id}';")
        })
        .collect();
    let bytes = changed(&updates);
    let (store, _) = store();
    let report = import(&store, &bytes);
    let executions = rows(&bytes, "SELECT tenant_id, execution_id, status, current_state FROM workflow_executions");
    let mut differing = BTreeSet::new();
    for row in &executions {
        let id = row[1].as_deref().unwrap();
        let row_says = (row[2].clone().unwrap(), serde_json::from_str::<Value>(row[3].as_ref().unwrap()).unwrap());
        let own = of_tenant(&store, row[0].as_deref().unwrap());
        let events = call(&own, "events.list", json!({ "executionId": id }))["items"].clone();
        let last = events.as_array().unwrap().last().unwrap();
        let count: usize = rows(&bytes, &format!("SELECT count(*) FROM events WHERE execution_id = '{id}'"))[0][0]
            .as_ref()
            .unwrap()
            .parse()
            .unwrap();
        if folded(&bytes, id) == row_says {
            assert_eq!(last["sequence"], json!(count));
            continue;
        }
        differing.insert(id);
        assert_eq!((&last["type"], &last["sequence"]), (&json!("execution_reconciled"), &json!(count + 1)));
        assert_eq!(last["data"], json!({ "status": row_says.0, "state": row_says.1 }));
    }
    assert_eq!(executions.len() - differing.len(), alike.len());
    assert_eq!(report.reconciled.iter().map(|run| run.execution_id.as_str()).collect::<BTreeSet<_>>(), differing);
    // The past is as the events tell it.
    for row in &executions {
        let own = of_tenant(&store, row[0].as_deref().unwrap());
        let at = call(&own, "executions.materialize", json!({ "id": row[1], "at": 4 }));
        assert_eq!(at["state"]["last"], json!("plan"), "{at}");
    }
}

#[test]
fn importing_again_adds_nothing() {
    let folder = Folder::new();
    let path = folder.file("store.db");
    let clock = ManualClock::new(LATER);
    let store = Store::open_with(&path, options(&clock)).unwrap();
    let first = import(&store, FILE);
    let dump = || -> BTreeMap<String, Vec<String>> {
        let connection = Connection::open(&path).unwrap();
        let mut tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap().collect::<rusqlite::Result<Vec<_>>>().unwrap();
        tables
            .into_iter()
            .map(|table| {
                let mut statement = connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).unwrap();
                let columns = statement.column_count();
                let read =
                    |row: &rusqlite::Row<'_>| Ok(format!("{:?}", (0..columns).map(|at| row.get_ref(at)).collect::<Vec<_>>()));
                let rows = statement.query_map([], read).unwrap().collect::<rusqlite::Result<_>>().unwrap();
                (table, rows)
            })
            .collect()
    };
    let before = dump();
    clock.advance(60_000);
    let second = import(&store, FILE);
    assert_eq!(dump(), before);
    assert_eq!((&second.reconciled, &second.rejected), (&vec![], &vec![]));
    for (table, counts) in &second.tables {
        assert_eq!((counts.imported, counts.skipped), (0, first.tables[table].imported), "{table}");
    }
    // The store goes on; what it did since stays, and the file still adds nothing.
    let item = call(&store, "queue.claim", json!({ "workerId": "w9", "queues": ["tool", "model"] }))[0].clone();
    call(&store, "queue.complete", json!({ "id": item["id"], "fence": item["fence"] }));
    let run = json!({ "id": item["executionId"] });
    call(&store, "events.append", json!({ "executionId": item["executionId"], "type": "x-after", "data": {} }));
    let before = (call(&store, "executions.get", run.clone()), call(&store, "queue.get", json!({ "id": item["id"] })));
    let third = import(&store, FILE);
    assert!(third.tables.values().all(|counts| counts.imported == 0 && counts.rejected == 0), "{third:?}");
    assert_eq!((call(&store, "executions.get", run), call(&store, "queue.get", json!({ "id": item["id"] }))), before);
    store.close().unwrap();
    check_whole(&path);
}

#[test]
fn what_is_stored_is_never_overwritten() {
    let (store, _) = store();
    let run = rows(FILE, "SELECT execution_id FROM workflow_executions WHERE tenant_id = 'default' LIMIT 1")[0][0].clone();
    let item = rows(FILE, "SELECT id FROM work_items WHERE tenant_id = 'default' AND status = 'pending' LIMIT 1")[0][0].clone();
    call(&store, "executions.create", json!({ "id": run, "workflowId": "mine" }));
    call(&store, "queue.enqueue", json!({ "id": item, "queue": "mine" }));
    call(&store, "workflows.put", json!({ "id": "research", "version": "1.0.0", "definition": "mine" }));
    call(&store, "tenants.create", json!({ "id": "acme", "name": "Mine" }));
    call(&store, "tenants.update", json!({ "id": "default", "name": "Home" }));
    let report = import(&store, FILE);
    assert_eq!(call(&store, "executions.get", json!({ "id": run }))["workflowId"], "mine");
    assert_eq!(call(&store, "queue.get", json!({ "id": item }))["queue"], "mine");
    assert_eq!(call(&store, "workflows.get", json!({ "id": "research" }))["definition"], "mine");
    assert_eq!(call(&store, "tenants.get", json!({ "id": "acme" }))["name"], "Mine");
    assert_eq!(call(&store, "tenants.get", json!({ "id": "default" }))["name"], "Home");
    let rejected = |table: &str| report.tables[table].rejected;
    let own = |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table} WHERE execution_id = '{}'", run.as_ref().unwrap());
        rows(FILE, &sql)[0][0].as_ref().unwrap().parse().unwrap()
    };
    assert_eq!((rejected("tenants"), rejected("workflow_definitions"), rejected("workflow_executions")), (2, 1, 1));
    assert_eq!((rejected("events"), rejected("snapshots")), (own("events"), own("snapshots")));
    assert_eq!(rejected("work_items"), own("work_items") + 1);
    // What another tenant has under the same ids is another thing.
    assert_eq!(report.tables["workflow_executions"].imported, count(FILE, "workflow_executions") - 1);
    assert!(report.rejected.iter().all(|row| !row.reason.is_empty() && !row.id.is_empty()));
}

#[test]
fn what_can_be_claimed_is_claimed_and_expired_leases_come_back() {
    let (store, clock) = store();
    import(&store, FILE);
    let claimed = call(&store, "queue.claim", json!({ "workerId": "w9", "queues": ["tool", "model"], "limit": 100 }));
    let claimed: BTreeSet<&str> = claimed.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    let pending = rows(FILE, "SELECT id FROM work_items WHERE status = 'pending' AND tenant_id = 'default'");
    assert_eq!(claimed, pending.iter().map(|row| row[0].as_deref().unwrap()).collect());

    let report = call(&store, "sweep", json!({}));
    // The claim took the default tenant's along; the sweep finds the other one's.
    assert_eq!(report["leasesRetried"], 1, "{report}");
    for row in rows(FILE, "SELECT tenant_id, id FROM work_items WHERE status = 'claimed'") {
        let own = of_tenant(&store, row[0].as_deref().unwrap());
        let item = call(&own, "queue.get", json!({ "id": row[1] }));
        assert_eq!((&item["status"], &item["attempt"]), (&json!("scheduled"), &json!(1)), "{item}");
        let attempts = call(&own, "queue.attempts", json!({ "id": row[1] }));
        assert_eq!((&attempts[0]["workerId"], &attempts[0]["outcome"]), (&json!("w2"), &json!("lease_expired")));
    }
    clock.advance(10_000);
    let again = call(&of_tenant(&store, "acme"), "queue.claim", json!({ "workerId": "w9", "queues": ["tool"] }));
    assert_eq!(again[0]["attempt"], 2, "{again}");

    // A lease that still runs is its holder's.
    let (store, _) = (Store::in_memory_with(options(&ManualClock::new(ms("2026-11-30T19:37:40")))).unwrap(), ());
    import(&store, FILE);
    let item = rows(FILE, "SELECT id FROM work_items WHERE status = 'claimed' AND tenant_id = 'default'")[0][0].clone();
    let held = call(&store, "queue.get", json!({ "id": item }));
    let settled = call(&store, "queue.complete", json!({ "id": item, "fence": held["fence"], "output": [1] }));
    assert_eq!((&settled["status"], &settled["late"]), (&json!("completed"), &json!(false)));
    check_folds(&store);
}

#[test]
fn dead_letters_are_redriven_and_failed_items_are_dead_letters_with_a_reason() {
    let bytes =
        changed("UPDATE work_items SET status = 'failed', worker_id = NULL, lease_expires_at = NULL WHERE status = 'completed'");
    let (store, _) = store();
    let report = import(&store, &bytes);
    assert_eq!(report.rejected, []);
    let failed = rows(&bytes, "SELECT id FROM work_items WHERE status = 'failed' AND tenant_id = 'default'");
    let dead = rows(&bytes, "SELECT id FROM dead_letter_items WHERE tenant_id = 'default'");
    let letters = call(&store, "deadLetters.list", json!({}))["items"].clone();
    assert_eq!(letters.as_array().unwrap().len(), failed.len() + dead.len());
    for row in &failed {
        let item = call(&store, "queue.get", json!({ "id": row[0] }));
        assert_eq!((&item["status"], &item["lastError"]["code"]), (&json!("dead_lettered"), &json!("jamjet_failed")));
        assert!(item["finishedAt"].is_i64());
    }
    let mut redriven = 0;
    for row in failed.iter().chain(&dead) {
        let item = call(&store, "queue.get", json!({ "id": row[0] }));
        if call(&store, "executions.get", json!({ "id": item["executionId"] }))["status"] == "completed" {
            // As everywhere: an execution that has ended takes no work.
            assert_eq!(code(&store, "deadLetters.redrive", json!({ "id": row[0] })), "invalid_transition");
            continue;
        }
        assert_eq!(call(&store, "deadLetters.redrive", json!({ "id": row[0] }))["redriven"], 1);
        let item = call(&store, "queue.get", json!({ "id": row[0] }));
        assert_eq!((&item["status"], &item["attempt"]), (&json!("pending"), &json!(0)));
        redriven += 1;
    }
    assert!(redriven >= 2, "{redriven}");
    let stats = call(&store, "queues.stats", json!({}))["counts"].clone();
    assert_eq!(stats["dead_lettered"], json!(failed.len() + dead.len() - redriven));
    // Importing again does not undo it.
    let again = import(&store, &bytes);
    assert_eq!(again.tables["dead_letter_items"].skipped, count(&bytes, "dead_letter_items"));
    assert_eq!(call(&store, "queues.stats", json!({}))["counts"], stats);
}

#[test]
fn a_dead_letter_without_its_work_item_is_an_item() {
    let bytes = changed(
        "DELETE FROM work_items WHERE id IN (SELECT id FROM dead_letter_items WHERE tenant_id = 'acme');
         UPDATE work_items SET status = 'odd' WHERE status = 'dead_lettered' AND queue_type = 'tool';
         DELETE FROM dead_letter_items WHERE queue_type = 'model'",
    );
    let (store, _) = store();
    let report = import(&store, &bytes);
    assert_eq!((report.tables["work_items"].rejected, report.tables["dead_letter_items"].imported), (1, 2));
    assert_eq!(call(&store.for_tenant("acme"), "deadLetters.list", json!({}))["items"].as_array().unwrap().len(), 1);
    let letters = call(&store, "deadLetters.list", json!({}))["items"].clone();
    let reasons: Vec<&Value> = letters.as_array().unwrap().iter().map(|item| &item["lastError"]).collect();
    assert!(reasons.contains(&&json!("three strikes")) && reasons.iter().any(|error| error["code"] == "jamjet_dead_lettered"));
    let again = import(&store, &bytes);
    assert!(again.tables.values().all(|counts| counts.imported == 0));
}

#[test]
fn a_token_of_the_file_goes_on_working() {
    let hash: String = Sha256::digest(b"jj_secret").iter().map(|byte| format!("{byte:02x}")).collect();
    let bytes = changed(&format!(
        "UPDATE api_tokens SET token_hash = '{hash}', tenant_id = 'acme';
         INSERT INTO api_tokens (id, token_hash, name, role, created_at) VALUES ('bad', 'abc', 'b', 'viewer', '2026-11-30T19:37:37Z')"
    ));
    let (store, _) = store();
    let report = import(&store, &bytes);
    assert_eq!((report.rejected[0].table.as_str(), report.rejected[0].id.as_str()), ("api_tokens", "bad"));
    let info = call(&store, "tokens.validate", json!({ "token": "jj_secret" }));
    assert_eq!((&info["tenantId"], &info["role"]), (&json!("acme"), &json!("developer")));
    assert_eq!(call(&store, "tokens.validate", json!({ "token": "jj_other" })), Value::Null);
    // One that was revoked here stays so.
    call(&store.for_tenant("acme"), "tokens.revoke", json!({ "id": info["id"] }));
    assert_eq!(import(&store, &bytes).tables["api_tokens"].skipped, 1);
    assert_eq!(call(&store, "tokens.validate", json!({ "token": "jj_secret" })), Value::Null);
}

#[test]
fn rows_that_cannot_be_read_are_reported_and_the_rest_is_imported() {
    let pick = |sql: &str| rows(FILE, sql)[0][0].clone().unwrap();
    let run = pick("SELECT execution_id FROM workflow_executions WHERE tenant_id = 'acme' LIMIT 1");
    let event = pick("SELECT id FROM events WHERE tenant_id = 'default' AND sequence = 3 LIMIT 1");
    let odd = pick("SELECT id FROM events WHERE tenant_id = 'default' AND sequence = 5 LIMIT 1");
    let snapshot = pick("SELECT id FROM snapshots WHERE tenant_id = 'default' LIMIT 1 OFFSET 2");
    let item = pick("SELECT id FROM work_items WHERE tenant_id = 'default' AND status = 'pending' LIMIT 1");
    let bytes = changed(&format!(
        "UPDATE workflow_executions SET status = 'asleep' WHERE execution_id = '{run}';
         UPDATE events SET kind_json = '{{\"type\":' WHERE id = '{event}';
         UPDATE events SET kind_json = '{{\"type\":\"dream\",\"a\":[1.50]}}' WHERE id = '{odd}';
         UPDATE snapshots SET created_at = 'yesterday' WHERE id = '{snapshot}';
         UPDATE work_items SET payload_json = x'ff' WHERE id = '{item}';
         INSERT INTO work_items (id, execution_id, node_id, queue_type, payload_json, created_at) VALUES ('lost', 'none', 'n', 'q', '1',
             '2026-11-30T19:37:37+00:00');
         INSERT INTO cron_jobs (id, name, cron_expression, workflow_id, next_run_at, created_at) VALUES ('c', 'nightly', '0 0 2 * * *', 'w',
             '2026-11-30T19:37:37+00:00', '2026-11-30T19:37:37+00:00')"
    ));
    let (store, _) = store();
    let report = import(&store, &bytes);
    let rejected: BTreeSet<(&str, &str)> = report.rejected.iter().map(|row| (row.table.as_str(), row.id.as_str())).collect();
    for row in [
        ("workflow_executions", run.as_str()),
        ("events", &event),
        ("snapshots", &snapshot),
        ("work_items", &item),
        ("work_items", "lost"),
        ("cron_jobs", "nightly"),
    ] {
        assert!(rejected.contains(&row), "{row:?} of {rejected:?}");
    }
    let of_run = |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table} WHERE execution_id = '{run}'");
        rows(&bytes, &sql)[0][0].as_ref().unwrap().parse().unwrap()
    };
    let lost = |table: &str, own: i64| assert_eq!(report.tables[table].rejected, own, "{table}: {:?}", report.rejected);
    lost("workflow_executions", 1);
    lost("events", of_run("events") + 1);
    lost("snapshots", of_run("snapshots") + 1);
    lost("work_items", of_run("work_items") + 2);
    lost("dead_letter_items", of_run("dead_letter_items"));
    assert_eq!(report.unknown_events, BTreeMap::from([("x-jamjet.dream".to_owned(), 1)]));
    let log = rows(&bytes, &format!("SELECT execution_id FROM events WHERE id = '{odd}'"))[0][0].clone();
    let events = call(&store, "events.list", json!({ "executionId": log }))["items"].clone();
    let kept = events.as_array().unwrap().iter().find(|event| event["id"] == odd).unwrap();
    assert_eq!((&kept["sequence"], &kept["data"]), (&json!(5), &json!({ "type": "dream", "a": [1.5] })));
    let again = import(&store, &bytes);
    assert!(again.tables.values().all(|counts| counts.imported == 0), "{again:?}");
    assert_eq!(again.rejected.len(), report.rejected.len());
}

#[test]
fn timers_come_with_their_times() {
    let run =
        rows(FILE, "SELECT execution_id FROM workflow_executions WHERE tenant_id = 'default' AND status = 'running' LIMIT 1");
    let run = run[0][0].clone().unwrap();
    let bytes = changed(&format!(
        "INSERT INTO timers VALUES ('t1', '{run}', 'n', '2026-12-02T00:00:00.123456789+00:00', 'k', 0, '2026-11-30T19:37:37.5+00:00', NULL,
             'default');
         INSERT INTO timers VALUES ('t2', '{run}', 'n', '2026-11-30T20:00:00+00:00', NULL, 1, '2026-11-30T19:37:37+00:00',
             '2026-11-30T20:00:01+00:00', 'default')"
    ));
    let (store, _) = store();
    assert_eq!(import(&store, &bytes).tables["timers"].imported, 2);
    let timers = call(&store, "timers.list", json!({}))["items"].clone();
    assert_eq!((&timers[0]["status"], &timers[0]["fireAt"]), (&json!("pending"), &json!(ms("2026-12-02T00:00:00.123"))));
    assert_eq!((&timers[1]["status"], &timers[1]["lateByMs"]), (&json!("fired"), &json!(1000)));
    assert_eq!(import(&store, &bytes).tables["timers"].skipped, 2);
}

/// Refused, and nothing of it is in the store.
#[track_caller]
fn refused(bytes: &[u8], expected: ErrorCode) -> String {
    let (store, _) = store();
    let error = store.imports().jamjet(ImportJamjet { bytes: bytes.to_vec() }).unwrap_err();
    assert_eq!(error.code(), expected, "{error}");
    assert_eq!(call(&store, "executions.count", json!({}))["total"], 0);
    assert_eq!(call(&store, "tenants.list", json!({}))["items"].as_array().unwrap().len(), 1);
    assert_eq!(call(&store, "queues.list", json!({}))["items"], json!([]));
    error.message().to_owned()
}

#[test]
fn what_is_no_jamjet_database_is_refused_and_changes_nothing() {
    refused(b"", ErrorCode::InvalidArgument);
    refused(&[7; 5000], ErrorCode::InvalidArgument);
    refused(b"SQLite format 3\0", ErrorCode::InvalidArgument);
    let empty = changed(
        "DROP TABLE events; DROP TABLE snapshots; DROP TABLE work_items; DROP TABLE dead_letter_items; DROP TABLE api_tokens;
         DROP TABLE workflow_executions; DROP TABLE workflow_definitions; DROP TABLE tenants",
    );
    assert!(refused(&empty, ErrorCode::InvalidArgument).contains("tenants, workflow_definitions, api_tokens"));
    refused(&changed("ALTER TABLE events RENAME COLUMN tenant_id TO was"), ErrorCode::InvalidArgument);
    for length in [FILE.len() - 1, FILE.len() / 2, 4096, 512] {
        assert!(refused(&FILE[..length], ErrorCode::Corrupt).contains("cut off"));
    }
    let mut torn = FILE.to_vec();
    let page = 4096;
    // Every page but the first is noise.
    torn[page..].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 % 251) as u8);
    refused(&torn, ErrorCode::Corrupt);
}

#[test]
fn nothing_of_the_files_own_runs() {
    // A view in the place of a table.
    let view = changed("ALTER TABLE events RENAME TO real_events; CREATE VIEW events AS SELECT * FROM real_events");
    assert!(refused(&view, ErrorCode::InvalidArgument).contains("view"));
    let virtual_table = changed("DROP TABLE agents; CREATE VIRTUAL TABLE agents USING fts5(id, uri, tenant_id)");
    assert!(refused(&virtual_table, ErrorCode::InvalidArgument).contains("virtual table"));
    let computed = changed(
        "ALTER TABLE snapshots RENAME COLUMN state_json TO was;
         ALTER TABLE snapshots ADD COLUMN state_json TEXT AS (json_object('a', 1))",
    );
    assert!(refused(&computed, ErrorCode::InvalidArgument).contains("computed"));
    // Triggers have nothing to hang on: the file is only read.
    let triggers = changed("CREATE TRIGGER t BEFORE INSERT ON tenants BEGIN SELECT RAISE(ABORT, 'no'); END");
    let (store, _) = store();
    assert_eq!(import(&store, &triggers).rejected, []);
}

#[test]
fn a_file_in_wal_mode_is_read() {
    let mut bytes = FILE.to_vec();
    bytes[18..20].fill(2);
    let (store, _) = store();
    assert_eq!(import(&store, &bytes).tables["events"].imported, count(FILE, "events"));
}

#[test]
fn an_import_concerns_the_whole_store() {
    let (store, _) = store();
    call(&store, "tenants.create", json!({ "id": "acme" }));
    assert_eq!(
        store.for_tenant("acme").imports().jamjet(ImportJamjet { bytes: FILE.to_vec() }).unwrap_err().code(),
        ErrorCode::Unsupported
    );
    assert_eq!(code(&store, "executions.get", json!({})), "invalid_argument");
    store.close().unwrap();
    assert_eq!(store.imports().jamjet(ImportJamjet { bytes: FILE.to_vec() }).unwrap_err().code(), ErrorCode::Closed);
}

/// A long log takes several transactions, and folds fast afterwards.
#[test]
fn a_long_log_is_imported_in_steps() {
    let run =
        rows(FILE, "SELECT execution_id FROM workflow_executions WHERE tenant_id = 'default' AND status = 'running' LIMIT 1");
    let run = run[0][0].clone().unwrap();
    let bytes = changed(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 11 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
         INSERT INTO events SELECT 'long-' || i, '{run}', i,
             '{{\"type\":\"node_completed\",\"node_id\":\"n' || (i % 50) || '\",\"output\":' || i ||
             ',\"state_patch\":{{\"i\":' || i || '}},\"duration_ms\":1}}', '2026-11-30T20:00:00+00:00', 'default' FROM n;
         INSERT INTO snapshots VALUES ('s', '{run}', 3000, '{{}}', '2026-11-30T20:00:00+00:00', 'default')"
    ));
    let folder = Folder::new();
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&ManualClock::new(LATER))).unwrap();
    let report = import(&store, &bytes);
    assert_eq!((report.tables["events"].imported, &report.rejected), (count(&bytes, "events"), &vec![]));
    assert_eq!(call(&store, "events.latestSequence", json!({ "executionId": run })), json!(5001));
    let at = call(&store, "executions.materialize", json!({ "id": run, "at": 4321 }));
    assert_eq!(at["state"]["i"], 4321);
    assert!(import(&store, &bytes).tables.values().all(|counts| counts.imported == 0));
    store.close().unwrap();
    check_whole(&path);
}

/// Whatever bytes of the file are other ones: it is refused and nothing is changed, or rows are reported and the rest is whole.
#[test]
fn a_file_with_damaged_bytes_is_refused_or_imported_whole() {
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    let (mut refused, mut reported) = (0, 0);
    for _ in 0..150 {
        let mut bytes = FILE.to_vec();
        for _ in 0..=random(8) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        let (store, _) = store();
        match store.imports().jamjet(ImportJamjet { bytes: bytes.clone() }) {
            Err(error) => {
                assert!(matches!(error.code(), ErrorCode::Corrupt | ErrorCode::InvalidArgument), "{error}");
                assert_eq!(call(&store, "executions.count", json!({}))["total"], 0, "{error}");
                refused += 1;
            }
            Ok(_) => {
                import(&store, &bytes);
                reported += 1;
            }
        }
    }
    assert!(refused > 0 && reported > 0, "{refused} refused, {reported} reported");
}

/// One event of each kind that JamJet writes, as serde writes it.
const KINDS: &[&str] = &[
    r#"{"type":"workflow_failed","error":"e"}"#,
    r#"{"type":"workflow_cancelled","reason":null}"#,
    r#"{"type":"node_completed","node_id":"n","output":null,"state_patch":null,"duration_ms":1}"#,
    r#"{"type":"node_completed","node_id":"n","output":12345678901234567890.10,"state_patch":{},"duration_ms":1,"provenance":{"model_id":null,"model_version":null,"confidence":null,"verified":false,"source":null,"trust_domain":null,"evidence_refs":["a"]}}"#,
    r#"{"type":"node_skipped","node_id":"n","reason":"r"}"#,
    r#"{"type":"node_cancelled","node_id":"n"}"#,
    r#"{"type":"retry_scheduled","node_id":"n","attempt":1,"delay_ms":2000}"#,
    r#"{"type":"interrupt_raised","node_id":"n","reason":"r","state_for_review":{"a_b":1}}"#,
    r#"{"type":"approval_received","node_id":"n","user_id":"u","decision":"approved","comment":null,"state_patch":null}"#,
    r#"{"type":"timer_created","node_id":"n","fire_at":"2026-12-01T00:00:00.123456789Z","correlation_key":null}"#,
    r#"{"type":"timer_fired","node_id":"n","correlation_key":"k"}"#,
    r#"{"type":"external_event_received","correlation_key":"k","payload":[1]}"#,
    r#"{"type":"child_workflow_started","node_id":"n","child_execution_id":"c","child_workflow_id":"w"}"#,
    r#"{"type":"child_workflow_completed","node_id":"n","child_execution_id":"c","result":1}"#,
    r#"{"type":"child_workflow_failed","node_id":"n","child_execution_id":"c","error":"e"}"#,
    r#"{"type":"budget_exceeded","node_id":"n","kind":"k","limit":1,"current":2}"#,
    r#"{"type":"token_budget_exceeded","node_id":"n","kind":"input_tokens","limit":1,"current":2}"#,
    r#"{"type":"cost_budget_exceeded","node_id":"n","limit_usd":1.0,"current_usd":2.5}"#,
    r#"{"type":"autonomy_limit_reached","node_id":"n","agent_ref":"a","limit_type":"t","limit_value":1,"actual_value":2}"#,
    r#"{"type":"circuit_breaker_tripped","node_id":"n","agent_ref":"a","consecutive_errors":3,"threshold":3}"#,
    r#"{"type":"escalation_required","node_id":"n","agent_ref":"a","reason":"r","escalation_target":"human_approval"}"#,
    r#"{"type":"policy_violation","node_id":"n","rule":"r","decision":"blocked","policy_scope":"global"}"#,
    r#"{"type":"tool_approval_required","node_id":"m","tool_name":"shell","approver":"human","context":{"x":1}}"#,
    r#"{"type":"strategy_started","strategy":"react","config":{}}"#,
    r#"{"type":"plan_generated","steps":["a"]}"#,
    r#"{"type":"iteration_started","iteration":1}"#,
    r#"{"type":"tool_called","node_id":"n","tool":"t"}"#,
    r#"{"type":"critic_verdict","node_id":"n","score":0.5,"passed":true,"feedback":null}"#,
    r#"{"type":"iteration_completed","iteration":1,"cost_delta_usd":null,"input_tokens":1,"output_tokens":2}"#,
    r#"{"type":"strategy_limit_hit","limit_type":"t","limit_value":1,"actual_value":2}"#,
    r#"{"type":"strategy_completed","iterations":2,"total_cost_usd":null}"#,
    r#"{"type":"coordinator_discovery","node_id":"n","query_skills":["s"],"query_trust_domain":null,"candidates":[{"agent_uri":"u"}],"filtered_out":[]}"#,
    r#"{"type":"coordinator_scoring","node_id":"n","rankings":[],"spread":0.1,"weights":{}}"#,
    r#"{"type":"coordinator_decision","node_id":"n","selected":"s","method":"m","reasoning":null,"confidence":1.0,"rejected":[],"tiebreaker_tokens":null,"tiebreaker_cost":null}"#,
    r#"{"type":"agent_tool_invoked","node_id":"n","agent_uri":"u","mode":"sync","protocol":"a2a","input_hash":"h"}"#,
    r#"{"type":"agent_tool_progress","node_id":"n","chunk_index":0,"partial_output_summary":"s"}"#,
    r#"{"type":"agent_tool_turn","node_id":"n","turn_number":1,"direction":"in","content_summary":"s","tokens":1,"cost":0.1}"#,
    r#"{"type":"agent_tool_completed","node_id":"n","output":1,"provenance":null,"total_cost":0.1,"latency_ms":5,"total_turns":null}"#,
    r#"{"type":"agent_tool_terminated","node_id":"n","reason":"r","chunks_received":1,"partial_output":null,"cost":0.1}"#,
    r#"{"type":"agent_tool_failed","node_id":"n","failure_type":"f","message":"m","retryable":false}"#,
];

#[test]
fn every_kind_of_event_is_known() {
    let rows_of = |kinds: &[&str]| -> String {
        let insert = |(at, kind): (usize, &&str)| {
            let kind = kind.replace('\'', "''");
            format!("INSERT INTO events VALUES ('e{at}', 'all', {}, '{kind}', '2026-11-30T20:00:00Z', 'default');", at + 1)
        };
        kinds.iter().enumerate().map(insert).collect()
    };
    let run = "INSERT INTO workflow_executions VALUES ('all', 'w', '1', 'failed', '1', '{}', '2026-11-30T19:00:00Z', '2026-11-30T20:00:00Z',
               '2026-11-30T20:00:00Z', 'default');";
    let bytes = changed(&format!("{run}{}", rows_of(KINDS)));
    let (store, _) = store();
    let report = import(&store, &bytes);
    assert_eq!((&report.unknown_events, &report.rejected), (&BTreeMap::new(), &vec![]));
    assert!(report.reconciled.iter().all(|run| run.execution_id != "all"));
    let text = store.call("events.list", &json!({ "executionId": "all" }).to_string()).unwrap();
    assert!(text.contains(r#""output":12345678901234567890.10"#));
    let events: Value = serde_json::from_str(&text).unwrap();
    let event = |event_type: &str| {
        let events = events["items"].as_array().unwrap();
        events.iter().rfind(|event| event["type"] == event_type).unwrap()["data"].clone()
    };
    assert_eq!(event("workflow_cancelled"), json!({}));
    assert_eq!(event("node_completed")["provenance"], json!({ "verified": false, "evidenceRefs": ["a"] }));
    assert_eq!(event("timer_created"), json!({ "nodeId": "n", "fireAt": ms("2026-12-01T00:00:00.123") }));
    assert_eq!(event("interrupt_raised")["stateForReview"], json!({ "a_b": 1 }));
    // Each one is such that a caller may append it.
    call(&store, "executions.create", json!({ "id": "copy", "workflowId": "w" }));
    for event in events["items"].as_array().unwrap() {
        call(&store, "events.append", json!({ "executionId": "copy", "type": event["type"], "data": event["data"] }));
    }
    let approvals = call(&store, "approvals.list", json!({ "executionId": "all" }))["items"].clone();
    let found: Vec<(&Value, &Value)> =
        approvals.as_array().unwrap().iter().map(|approval| (&approval["nodeId"], &approval["status"])).collect();
    assert_eq!(found, [(&json!("n"), &json!("approved")), (&json!("m"), &json!("pending"))]);
}

/// A clock that stops the caller at one of its calls.
struct StoppingClock(AtomicI64);

impl Clock for StoppingClock {
    fn now(&self) -> i64 {
        assert_ne!(self.0.fetch_sub(1, Ordering::SeqCst), 0, "stopped");
        LATER
    }
}

/// Everything that a store tells, apart from ids that it made by itself.
fn everything(store: &Store) -> Vec<Value> {
    let mut all = vec![call(store, "tenants.list", json!({}))];
    for tenant in ["default", "acme"] {
        let store = store.for_tenant(tenant);
        for list in ["executions.list", "queue.list", "queues.list", "workflows.list", "tokens.list", "approvals.list"] {
            all.push(call(&store, list, json!({ "limit": 1000 })));
        }
        all.push(call(&store, "executions.count", json!({ "groupBy": "status" })));
        all.push(call(&store, "queues.stats", json!({})));
        for run in call(&store, "executions.list", json!({}))["items"].as_array().unwrap() {
            let mut events = call(&store, "events.list", json!({ "executionId": run["id"] }))["items"].clone();
            for event in events.as_array_mut().unwrap() {
                if event["type"] == "execution_reconciled" {
                    event["id"] = Value::Null;
                }
            }
            all.push(events);
            all.push(call(&store, "snapshots.list", json!({ "executionId": run["id"] })));
        }
    }
    all
}

#[test]
fn an_import_can_stop_anywhere_and_be_run_again() {
    let (whole, _) = store();
    import(&whole, FILE);
    let whole = everything(&whole);
    let mut stops = 0;
    loop {
        let clock = Arc::new(StoppingClock(AtomicI64::new(i64::MAX)));
        let store = Store::in_memory_with(Options { clock: clock.clone(), ..Options::default() }).unwrap();
        clock.0.store(stops, Ordering::SeqCst);
        let stopped =
            std::panic::catch_unwind(AssertUnwindSafe(|| store.imports().jamjet(ImportJamjet { bytes: FILE.to_vec() }).unwrap()))
                .is_err();
        clock.0.store(i64::MAX, Ordering::SeqCst);
        if !stopped {
            break;
        }
        store.imports().jamjet(ImportJamjet { bytes: FILE.to_vec() }).unwrap();
        assert_eq!(everything(&store), whole, "stopped at {stops}");
        stops += 1;
    }
    assert!(stops > 40, "{stops}");
}
