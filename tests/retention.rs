//! For how long finished things are kept.

mod common;

use common::{call, claim_as, claim_one, code, complete, fail, held, ids, in_memory, item, log, pages, with};
use runkeep::Store;
use serde_json::{Value, json};

fn set(store: &Store, times: Value) -> Value {
    call(store, "retention.set", times)
}

/// Sweeps until nothing more goes. Answers how much each sweep let go.
fn prune(store: &Store, limit: i64) -> Vec<i64> {
    let mut counts = Vec::new();
    let mut idle = 0;
    while idle < 3 {
        let report = call(store, "sweep", json!({ "limit": limit }));
        assert_eq!(report["errors"], json!([]));
        let pruned = report["pruned"].as_i64().unwrap();
        assert!(pruned <= limit, "{pruned} of at most {limit}");
        idle = if pruned == 0 { idle + 1 } else { 0 };
        counts.extend((pruned > 0).then_some(pruned));
    }
    counts
}

fn exists(store: &Store, id: &str) -> bool {
    !call(store, "queue.get", json!({ "id": id })).is_null()
}

#[test]
fn everything_is_kept_for_ever_unless_asked_otherwise() {
    let (store, clock) = in_memory();
    call(&store, "queue.enqueue", json!({ "queue": "q", "id": "i" }));
    complete(&store, &claim_one(&store, "q"));
    clock.advance(100 * 366 * 24 * 3_600_000);
    assert_eq!(prune(&store, 500), [0; 0]);
    assert!(exists(&store, "i"));
    assert_eq!(call(&store, "retention.get", json!({})), json!({}));
    assert_eq!(set(&store, json!({ "itemsMs": 5, "historyMs": 6 })), json!({ "itemsMs": 5, "historyMs": 6 }));
    assert_eq!(set(&store, json!({ "itemsMs": null, "attemptsMs": 0 })), json!({ "attemptsMs": 0, "historyMs": 6 }));
    assert_eq!(call(&store, "retention.get", json!({})), json!({ "attemptsMs": 0, "historyMs": 6 }));
    assert_eq!(code(&store, "retention.set", json!({ "days": 1 })), "invalid_argument");
}

#[test]
fn items_go_when_their_time_after_the_end_is_over_and_unfinished_ones_stay() {
    let (store, clock) = in_memory();
    set(&store, json!({ "itemsMs": 1000 }));
    for id in ["completed", "cancelled", "dead", "pending", "later"] {
        let delay_ms = if id == "later" { 1_000_000 } else { 0 };
        call(&store, "queue.enqueue", json!({ "queue": "q", "id": id, "delayMs": delay_ms, "payload": "x".repeat(5000) }));
    }
    let jobs = claim_as(&store, "q", json!({ "limit": 3 }));
    complete(&store, &jobs[0]);
    call(&store, "queue.cancel", json!({ "id": "cancelled" }));
    call(&store, "queue.release", held(&jobs[1]));
    fail(&store, &jobs[2], json!({ "retryable": false }));
    clock.advance(999);
    assert_eq!(prune(&store, 500), [0; 0]);
    clock.advance(1);
    assert_eq!(prune(&store, 500), [2]);
    assert_eq!(ids(&pages(&store, "queue.list", json!({}))), ["dead", "pending", "later"]);
    let counts = call(&store, "queues.stats", json!({}))["counts"].clone();
    assert_eq!(
        counts,
        json!({
            "scheduled": 1, "pending": 1, "claimed": 0, "completed": 0, "dead_lettered": 1, "cancelled": 0,
        })
    );
    // Dead letters have a time of their own.
    set(&store, json!({ "deadLettersMs": 5000, "itemsMs": null }));
    clock.advance(3999);
    assert_eq!(prune(&store, 500), [0; 0]);
    clock.advance(1);
    assert_eq!(prune(&store, 500), [1]);
    assert!(!exists(&store, "dead"));
    assert_eq!(code(&store, "queue.attempts", json!({ "id": "dead" })), "not_found");
}

#[test]
fn attempts_go_before_the_items_that_they_belong_to() {
    let (store, clock) = in_memory();
    set(&store, json!({ "attemptsMs": 1000 }));
    call(
        &store,
        "queue.enqueue",
        json!({ "queue": "q", "id": "i", "maxAttempts": 9, "backoff": { "kind": "fixed", "baseMs": 0 } }),
    );
    for _ in 0..3 {
        clock.advance(400);
        fail(&store, &claim_one(&store, "q"), json!({}));
    }
    let numbers = || {
        let attempts = call(&store, "queue.attempts", json!({ "id": "i" }));
        attempts.as_array().unwrap().iter().map(|one| one["attempt"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(numbers(), [1, 2, 3]);
    clock.advance(599);
    assert_eq!(prune(&store, 500), [1]);
    assert_eq!(numbers(), [2, 3]);
    assert_eq!(item(&store, &json!("i"))["attempt"], 3, "what is counted stays counted");
    clock.advance(1000);
    assert_eq!(prune(&store, 500), [2]);
    assert_eq!(numbers(), [0; 0]);
}

#[test]
fn the_history_of_workers_goes_from_its_beginning() {
    let (store, clock) = in_memory();
    set(&store, json!({ "historyMs": 1000 }));
    for n in 0..30 {
        let worker = json!({ "pool": "p", "queues": [], "capabilities": [], "livenessTtlMs": 1_000_000 });
        call(&store, "workers.register", with(&worker, json!({ "workerId": format!("w-{n}") })));
        clock.advance(100);
    }
    // Now is 3000: the first 21 are a second old or more.
    assert_eq!(prune(&store, 8), [8, 8, 5]);
    let left = pages(&store, "workers.history", json!({}));
    assert_eq!((left.len(), &left[0]["workerId"]), (9, &json!("w-21")));
    assert_eq!(pages(&store, "workers.list", json!({})).len(), 30, "they are alive all the same");
}

#[test]
fn an_execution_goes_with_its_log_and_items_once_it_has_ended_and_nobody_works_for_it() {
    let (store, clock) = in_memory();
    set(&store, json!({ "executionsMs": 1000 }));
    for id in ["open", "held", "done", "parent"] {
        call(&store, "executions.create", json!({ "workflowId": "w", "id": id, "input": {}, "tags": ["t"] }));
        call(&store, "events.append", json!({ "executionId": id, "type": "x-a" }));
        call(&store, "queue.enqueue", json!({ "queue": "q", "id": id, "executionId": id, "nodeId": "n" }));
    }
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "child", "parentId": "parent" }));
    let jobs = claim_as(&store, "q", json!({ "leaseMs": 100_000 }));
    assert_eq!(ids(&jobs), ["open", "held", "done", "parent"]);
    for at in [2, 3] {
        complete(&store, &jobs[at]);
    }
    for id in ["held", "done", "parent"] {
        call(&store, "executions.setStatus", json!({ "id": id, "status": "cancelled" }));
    }
    clock.advance(999);
    assert_eq!(prune(&store, 500), [0; 0]);
    clock.advance(1);
    assert_eq!(prune(&store, 500), [2]);
    assert_eq!(ids(&pages(&store, "executions.list", json!({}))), ["open", "held", "child"]);
    for id in ["done", "parent"] {
        assert!(!exists(&store, id));
        assert_eq!(code(&store, "events.list", json!({ "executionId": id })), "not_found");
    }
    assert_eq!(call(&store, "executions.get", json!({ "id": "child" }))["parentId"], "parent");
    // Whoever holds an item of it settles, and then it goes.
    complete(&store, &jobs[1]);
    assert_eq!(log(&store, "held").len(), 2);
    assert_eq!(prune(&store, 500), [1]);
    assert_eq!(call(&store, "executions.get", json!({ "id": "held" })), Value::Null);
    assert_eq!(call(&store, "queues.stats", json!({}))["counts"]["completed"], 0);
    // The id is free.
    assert_eq!(call(&store, "executions.create", json!({ "workflowId": "other", "id": "done" }))["created"], true);
}

#[test]
fn many_rows_go_in_bounded_steps_and_what_is_kept_among_them_stays() {
    let (store, clock) = in_memory();
    set(&store, json!({ "itemsMs": 1000, "deadLettersMs": 1000 }));
    let items: Vec<_> = (0..1000).map(|n| json!({ "queue": "q", "id": format!("i-{n}") })).collect();
    call(&store, "queue.enqueueMany", json!({ "items": items }));
    let jobs = claim_as(&store, "q", json!({ "limit": 1000, "leaseMs": 1_000_000 }));
    for (n, job) in jobs.iter().enumerate() {
        // Every third is kept, by being held; runs of kept ones are longer than a step.
        if n % 3 > 0 && !(300..500).contains(&n) {
            if n % 2 == 0 {
                complete(&store, job)
            } else {
                fail(&store, job, json!({ "retryable": false }))
            };
        }
    }
    let finished = call(&store, "queues.stats", json!({}))["counts"].clone();
    let total = finished["completed"].as_i64().unwrap() + finished["dead_lettered"].as_i64().unwrap();
    assert!(total > 500);
    clock.advance(1000);
    let mut sum = 0;
    for sweeps in 1.. {
        let report = call(&store, "sweep", json!({ "limit": 50 }));
        sum += report["pruned"].as_i64().unwrap();
        if sum == total {
            println!("{total} rows went in {sweeps} sweeps");
            break;
        }
        assert!(sweeps < 100, "after {sweeps} sweeps only {sum} of {total} rows are gone");
    }
    assert_eq!(call(&store, "queues.stats", json!({}))["counts"]["claimed"], 1000 - total);
    assert_eq!(pages(&store, "queue.list", json!({ "limit": 1000 })).len() as i64, 1000 - total);
    // What ends later goes later, also where the walk has passed it.
    complete(&store, &jobs[0]);
    clock.advance(1000);
    assert_eq!(prune(&store, 10_000), [1]);
}

#[test]
fn a_sweep_finds_the_old_item_behind_many_that_stay() {
    let (store, clock) = in_memory();
    let waiting: Vec<_> = (0..1000).map(|_| json!({ "queue": "wait" })).collect();
    call(&store, "queue.enqueueMany", json!({ "items": waiting }));
    call(&store, "queue.enqueue", json!({ "queue": "q", "id": "old" }));
    call(&store, "queue.cancel", json!({ "id": "old" }));
    call(&store, "retention.set", json!({ "itemsMs": 1000 }));
    clock.advance(5000);
    let mut sweeps = Vec::new();
    loop {
        let report = call(&store, "sweep", json!({}));
        sweeps.push(report["pruned"].as_i64().unwrap());
        if report["more"] == false {
            break;
        }
    }
    assert_eq!(sweeps, [0, 0, 1], "500 rows are looked at in each");
    assert!(call(&store, "queue.get", json!({ "id": "old" })).is_null());
}

#[test]
fn nothing_is_walked_again_before_something_can_be_due() {
    let (store, clock) = in_memory();
    call(&store, "retention.set", json!({ "itemsMs": 60_000 }));
    let items: Vec<_> = (0..600).map(|n| json!({ "queue": "q", "id": format!("i{n}") })).collect();
    call(&store, "queue.enqueueMany", json!({ "items": items }));
    assert_eq!(call(&store, "sweep", json!({}))["more"], true, "the first walk has not ended");
    assert_eq!(call(&store, "sweep", json!({}))["more"], false);
    call(&store, "queue.cancel", json!({ "id": "i7" }));
    clock.advance(59_999);
    assert_eq!(call(&store, "sweep", json!({}))["pruned"], 0);
    clock.advance(1);
    let pruned: i64 = (0..3).map(|_| call(&store, "sweep", json!({}))["pruned"].as_i64().unwrap()).sum();
    assert_eq!(pruned, 1);
}
