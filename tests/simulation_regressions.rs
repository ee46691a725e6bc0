//! What the simulation has found, each as short as it can be told.

mod common;

use common::{call, code, in_memory};
use runkeep::Store;
use serde_json::{Value, json};

fn enqueue(store: &Store, id: &str, rest: Value) {
    let mut item = json!({ "id": id, "queue": "q" });
    item.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    call(store, "queue.enqueue", item);
}

fn claim(store: &Store, limit: i64) -> Vec<Value> {
    let claimed = call(store, "queue.claim", json!({ "workerId": "w", "queues": ["q"], "limit": limit, "leaseMs": 600_000 }));
    claimed.as_array().unwrap().clone()
}

fn claimed_ids(store: &Store, limit: i64) -> Vec<String> {
    claim(store, limit).iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// A zombie of the first item must not settle the second one, which somebody else holds: to those who give ids, it is another piece of work.
#[test]
fn an_item_with_the_id_of_one_that_is_gone_gets_fences_of_its_own() {
    for by_retention in [false, true] {
        let (store, clock) = in_memory();
        enqueue(&store, "daily", json!({ "payload": 1 }));
        let first = claim(&store, 1)[0].clone();
        let lease = json!({ "id": "daily", "fence": first["fence"] });
        call(&store, "queue.fail", json!({ "id": "daily", "fence": first["fence"], "error": "e", "retryable": false }));
        if by_retention {
            call(&store, "retention.set", json!({ "deadLettersMs": 0 }));
            call(&store, "sweep", json!({}));
        } else {
            call(&store, "deadLetters.delete", json!({ "id": "daily" }));
        }
        clock.advance(1);
        enqueue(&store, "daily", json!({ "payload": 2 }));
        let second = claim(&store, 1)[0].clone();
        assert!(second["fence"].as_i64() > first["fence"].as_i64(), "{second}");
        for call in ["queue.complete", "queue.renew", "queue.release"] {
            assert_eq!(code(&store, call, lease.clone()), "lease_lost", "{call}");
        }
        call(&store, "queue.complete", json!({ "id": "daily", "fence": second["fence"] }));
    }
}

/// The item that comes back stands where its priority and runAt put it, and the place that it makes is the first one's.
#[test]
fn a_released_item_does_not_keep_the_place_of_its_key() {
    for gives_up in ["queue.release", "queue.fail"] {
        let (store, _) = in_memory();
        call(
            &store,
            "queues.configure",
            json!({ "name": "q", "keyConcurrency": 1, "backoff": { "kind": "fixed", "baseMs": 0 } }),
        );
        enqueue(&store, "low", json!({ "concurrencyKey": "k" }));
        let low = claim(&store, 1)[0].clone();
        enqueue(&store, "high", json!({ "concurrencyKey": "k", "priority": 1 }));
        let mut lease = json!({ "id": "low", "fence": low["fence"] });
        if gives_up == "queue.fail" {
            lease["error"] = json!("e");
        }
        call(&store, gives_up, lease);
        assert_eq!(claimed_ids(&store, 2), ["high"], "{gives_up}");
    }
}

#[test]
fn an_item_that_arrives_when_a_hold_has_ended_does_not_overtake_those_that_waited_for_it() {
    let (store, clock) = in_memory();
    call(&store, "queues.configure", json!({ "name": "q", "keyConcurrency": 1 }));
    call(&store, "queues.hold", json!({ "name": "q", "key": "k", "until": common::START + 100 }));
    enqueue(&store, "waits", json!({ "concurrencyKey": "k", "priority": 1 }));
    clock.advance(100);
    enqueue(&store, "arrives", json!({ "concurrencyKey": "k" }));
    assert_eq!(claimed_ids(&store, 2), ["waits"]);
}

#[test]
fn a_claim_of_several_keeps_the_order_where_a_key_s_bucket_has_filled_up_since_anybody_looked() {
    let (store, clock) = in_memory();
    call(&store, "queues.configure", json!({ "name": "q", "keyRateLimit": { "limit": 3, "perMs": 3_000 } }));
    for n in 0..3 {
        enqueue(&store, &format!("spends {n}"), json!({ "concurrencyKey": "k" }));
    }
    assert_eq!(claim(&store, 10).len(), 3);
    enqueue(&store, "first", json!({ "concurrencyKey": "k", "priority": 2 }));
    enqueue(&store, "second", json!({ "concurrencyKey": "k", "priority": 1 }));
    enqueue(&store, "third", json!({}));
    clock.advance(1_000);
    call(&store, "sweep", json!({}));
    clock.advance(1_500);
    assert_eq!(claimed_ids(&store, 10), ["first", "second", "third"]);
}

#[test]
fn retention_goes_on_when_the_clock_has_gone_back() {
    let (store, clock) = in_memory();
    call(&store, "retention.set", json!({ "itemsMs": 1_000, "executionsMs": 1_000 }));
    let finish = |id: &str| {
        enqueue(&store, id, json!({}));
        let fence = claim(&store, 1)[0]["fence"].clone();
        call(&store, "queue.complete", json!({ "id": id, "fence": fence }));
        call(&store, "executions.create", json!({ "id": id, "workflowId": "w" }));
        call(&store, "executions.setStatus", json!({ "id": id, "status": "cancelled" }));
    };
    finish("before");
    call(&store, "sweep", json!({}));
    clock.advance(-86_400_000);
    finish("after");
    clock.advance(2_000);
    call(&store, "sweep", json!({}));
    for operation in ["queue.get", "executions.get"] {
        assert_eq!(call(&store, operation, json!({ "id": "after" })), Value::Null, "{operation}");
        assert_ne!(call(&store, operation, json!({ "id": "before" })), Value::Null, "{operation}");
    }
}

/// The continuation of an execution that is gone is not that of another one which got its id.
#[test]
fn an_execution_with_the_id_of_one_that_is_gone_is_continued_by_itself() {
    let (store, _) = in_memory();
    let ask = |state: Value| call(&store, "executions.continueAsNew", json!({ "id": "run", "state": state }));
    call(&store, "executions.create", json!({ "id": "run", "workflowId": "w" }));
    let old = ask(json!("old"));
    call(&store, "executions.delete", json!({ "id": "run" }));
    call(&store, "executions.create", json!({ "id": "run", "workflowId": "w" }));
    let new = ask(json!("new"));
    assert_eq!(new["created"], true);
    assert_ne!(new["id"], old["id"]);
    let again = ask(json!("new"));
    assert_eq!((&again["id"], &again["created"]), (&new["id"], &json!(false)));
    // Ended otherwise, it has no continuation.
    call(&store, "executions.delete", json!({ "id": "run" }));
    call(&store, "executions.create", json!({ "id": "run", "workflowId": "w" }));
    call(&store, "executions.setStatus", json!({ "id": "run", "status": "running" }));
    call(&store, "executions.setStatus", json!({ "id": "run", "status": "completed" }));
    assert_eq!(code(&store, "executions.continueAsNew", json!({ "id": "run", "state": "new" })), "invalid_transition");
}
