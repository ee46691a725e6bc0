//! What calls say that they changed: after the commit, by tenant, topic and id.

mod common;

use common::in_memory;
use runkeep::{Call, Store};
use serde_json::{Value, json};

/// What calls that run together changed.
fn changes(store: &Store, calls: &[(&str, Value)]) -> Value {
    let texts: Vec<String> = calls.iter().map(|call| call.1.to_string()).collect();
    let calls: Vec<_> = calls.iter().zip(&texts).map(|(call, text)| Call::new(call.0, text)).collect();
    serde_json::to_value(store.call_many(&calls).changes).unwrap()
}

fn of_default(topics: Value) -> Value {
    json!([{ "tenant": "default", "topics": topics }])
}

#[test]
fn topics_have_the_ids_that_they_speak_of() {
    let (store, clock) = in_memory();
    let one = |operation: &str, arguments: Value| changes(&store, &[(operation, arguments)]);
    assert_eq!(one("executions.create", json!({ "id": "run", "workflowId": "w" })), of_default(json!({ "executions": ["run"] })));
    assert_eq!(
        one("executions.setStatus", json!({ "id": "run", "status": "running" })),
        // Which items an end cancels is only known of an end.
        of_default(json!({ "executions": ["run"], "events": ["run"], "items": null }))
    );
    let item = json!({ "id": "i", "queue": "q", "executionId": "run", "nodeId": "n" });
    assert_eq!(one("queue.enqueue", item.clone()), of_default(json!({ "items": ["q"], "queues": ["q"] })));
    assert_eq!(one("queue.enqueue", json!({ "queue": "q" })), of_default(json!({ "items": ["q"] })));
    assert_eq!(one("queues.pause", json!({ "name": "q" })), of_default(json!({ "queues": ["q"] })));
    common::call(&store, "queues.resume", json!({ "name": "q" }));
    let timer = json!({ "executionId": "run", "nodeId": "n", "delayMs": 1000, "enqueue": { "queue": "later" } });
    assert_eq!(one("timers.schedule", timer), of_default(json!({ "timers": ["run"], "executions": ["run"], "events": ["run"] })));
    let cron = json!({ "name": "c", "expression": "* * * * *", "workflowId": "w" });
    assert_eq!(one("cron.put", cron), of_default(json!({ "crons": ["c"] })));
    let worker = json!({ "workerId": "w-1", "pool": "p", "livenessTtlMs": 1_000_000, "queues": [], "capabilities": [] });
    assert_eq!(one("workers.register", worker), of_default(json!({ "workers": ["w-1"] })));
    let workflow = json!({ "id": "flow", "version": "1", "definition": {} });
    assert_eq!(one("workflows.put", workflow.clone()), of_default(json!({ "workflows": ["flow"] })));
    // What is so already changes nothing; what reads, or fails, neither.
    assert_eq!(one("workflows.put", workflow), json!([]));
    assert_eq!(one("queue.enqueue", item), json!([]));
    assert_eq!(one("executions.list", json!({})), json!([]));
    assert_eq!(one("events.append", json!({ "executionId": "none", "type": "x-a" })), json!([]));
    assert_eq!(one("queue.claim", json!({ "workerId": "w", "queues": ["nothing"] })), json!([]));
    // A sweep tells what it brought, and nothing where there was nothing to do.
    assert_eq!(one("sweep", json!({})), json!([]));
    clock.advance(1000);
    let swept = json!({ "timers": ["run"], "executions": ["run"], "events": ["run"], "items": ["later"], "queues": ["later"] });
    assert_eq!(one("sweep", json!({})), of_default(swept));
    assert_eq!(one("exportDatabase", json!({})), json!([]));
}

#[test]
fn what_a_group_or_a_batch_changed_is_told_together() {
    let (store, _) = in_memory();
    common::call(&store, "tenants.create", json!({ "id": "t" }));
    let create = |id: &str| json!({ "id": id, "workflowId": "w" });
    let told = changes(
        &store,
        &[
            ("executions.create", create("a")),
            ("executions.create@t", create("b")),
            ("executions.count", json!({})),
            ("executions.create", create("c")),
            ("queue.enqueue", json!({ "queue": "q" })),
        ],
    );
    assert_eq!(
        told,
        json!([
            { "tenant": "default", "topics": { "executions": ["a", "c"], "items": ["q"], "queues": ["q"] } },
            { "tenant": "t", "topics": { "executions": ["b"] } },
        ])
    );
    // Where one fails, what the others changed, each for itself.
    let told = changes(
        &store,
        &[("executions.create", create("d")), ("executions.create", json!({ "id": "d", "workflowId": "other" }))],
    );
    assert_eq!(told, of_default(json!({ "executions": ["d"] })));
    let batch = |second: &str| {
        json!({ "calls": [
            { "operation": "executions.create", "arguments": create("e") },
            { "operation": "queues.pause", "arguments": { "name": second } },
        ] })
    };
    assert_eq!(changes(&store, &[("batch", batch(""))]), json!([]));
    assert_eq!(changes(&store, &[("batch", batch("q"))]), of_default(json!({ "executions": ["e"], "queues": ["q"] })));
}

#[test]
fn more_than_a_hundred_ids_are_any() {
    let (store, _) = in_memory();
    let calls = |range: std::ops::Range<i32>| -> Vec<_> {
        range.map(|n| ("executions.create", json!({ "id": format!("run-{n:03}"), "workflowId": "w" }))).collect()
    };
    let told = changes(&store, &calls(0..100));
    assert_eq!(told[0]["topics"]["executions"].as_array().unwrap().len(), 100);
    assert_eq!(changes(&store, &calls(100..201)), of_default(json!({ "executions": null })));
    // In one call too.
    let items: Vec<_> = (0..101).map(|n| json!({ "queue": format!("q-{n}") })).collect();
    assert_eq!(
        changes(&store, &[("queue.enqueueMany", json!({ "items": items }))]),
        of_default(json!({ "items": null, "queues": null }))
    );
}

#[test]
fn an_import_says_for_whom_it_brought_what() {
    let (store, _) = in_memory();
    let bytes = include_bytes!("fixtures/jamjet-0.3.2.db");
    let call = Call { given: runkeep::Given { arguments: "{}", bytes: Some(bytes) }, ..Call::new("imports.jamjet", "") };
    let outcome = store.call_many(&[call, call]);
    assert!(outcome.answers.iter().all(Result::is_ok), "{:?}", outcome.answers);
    let told = serde_json::to_value(outcome.changes).unwrap();
    // The second one brought nothing.
    assert_eq!((&told[0]["tenant"], &told[1]["tenant"], told.as_array().unwrap().len()), (&json!("acme"), &json!("default"), 2));
    assert_eq!(told[1]["topics"]["workflows"], json!(["research"]));
    let topics: Vec<_> = told[1]["topics"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(topics, ["events", "executions", "items", "queues", "workflows"]);
}
