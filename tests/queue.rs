//! Work items: backoff, idempotency, cancelling, attempts, dead letters, counts, and arguments that are refused.

mod common;

use common::{
    Folder, START, call, claim, claim_as, claim_one, clock, code, complete, dump, fail, held, ids, in_memory, item, log, options,
    pages, try_call, with,
};
use runkeep::Store;
use serde_json::{Value, json};

fn enqueue(store: &Store, more: Value) -> Value {
    call(store, "queue.enqueue", with(&json!({ "queue": "q" }), more))
}

/// The delay in milliseconds after each of the first failures.
fn delays(backoff: Value, failures: usize) -> Vec<i64> {
    let (store, clock) = in_memory();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    enqueue(&store, json!({ "executionId": "run", "nodeId": "n", "maxAttempts": 100, "backoff": backoff }));
    let mut delays = Vec::new();
    for _ in 0..failures {
        let job = claim_one(&store, "q");
        let now = item(&store, &job["id"])["claimedAt"].as_i64().unwrap();
        let failed = fail(&store, &job, json!({}));
        let delay = failed["runAt"].as_i64().unwrap() - now;
        delays.push(delay);
        // Not a millisecond before.
        if delay > 0 {
            clock.advance(delay - 1);
            assert!(claim(&store, "q").is_empty());
            clock.advance(1);
        }
    }
    let told: Vec<_> = log(&store, "run").into_iter().map(|(_, data)| data["delayMs"].as_i64().unwrap()).collect();
    assert_eq!(told, delays, "the log tells the same");
    delays
}

#[test]
fn what_enqueueing_answers_is_what_is_read_from_then_on() {
    let (store, _clock) = in_memory();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    call(&store, "queues.configure", json!({ "name": "q", "maxAttempts": 7, "keyConcurrency": 1 }));
    let options = [
        json!({}),
        json!({ "payload": { "n": 1.50, "text": "\u{1F600} \n" } }),
        json!({ "payload": "x".repeat(5000) }),
        json!({ "id": "mine", "executionId": "run", "nodeId": "n", "priority": -3, "requires": ["b", "a", "b"], "maxAttempts": 2 }),
        json!({ "runAt": START + 60_000, "backoff": { "kind": "linear", "baseMs": 5, "jitter": 0.5 } }),
        json!({ "delayMs": 0, "idempotencyKey": "once", "uniqueFor": "ever", "concurrencyKey": "key" }),
        json!({ "delayMs": 10, "concurrencyKey": "key" }),
        json!({ "concurrencyKey": "key" }),
    ];
    for more in options {
        let mut answered = enqueue(&store, more.clone());
        assert_eq!(answered.as_object_mut().unwrap().remove("created"), Some(json!(true)), "{more}");
        assert_eq!(answered, item(&store, &answered["id"]), "{more}");
        let many = call(
            &store,
            "queue.enqueueMany",
            json!({ "items": [with(&json!({ "queue": "other" }), with(&more, json!({ "id": null })))] }),
        );
        assert_eq!(many[0]["created"], true, "{more}");
        assert_eq!(
            with(&many[0], json!({ "created": null })),
            with(&item(&store, &many[0]["id"]), json!({ "created": null })),
            "{more}"
        );
    }
}

#[test]
fn the_delay_before_the_next_attempt_grows_as_asked() {
    const HOUR: i64 = 3_600_000;
    assert_eq!(delays(Value::Null, 8), [2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000, 64_000], "the default");
    assert_eq!(delays(json!({ "kind": "exponential" }), 2), [2000, 4000]);
    let slow = json!({ "kind": "exponential", "baseMs": 10, "factor": 1.5, "maxMs": 40 });
    assert_eq!(delays(slow, 5), [15, 22, 33, 40, 40]);
    assert_eq!(delays(json!({ "kind": "fixed", "baseMs": 70 }), 3), [70, 70, 70]);
    assert_eq!(delays(json!({ "kind": "fixed" }), 2), [1000, 1000]);
    assert_eq!(delays(json!({ "kind": "linear", "baseMs": 100, "maxMs": 250 }), 4), [100, 200, 250, 250]);
    assert_eq!(delays(json!({ "kind": "fixed", "baseMs": 0 }), 2), [0, 0]);
    assert_eq!(delays(json!({ "kind": "fixed", "baseMs": 1000, "maxMs": 0 }), 2), [0, 0]);
    // More than a day only where it is asked for.
    assert_eq!(delays(json!({ "kind": "fixed", "baseMs": 48 * HOUR }), 1), [48 * HOUR]);
    assert_eq!(
        delays(json!({ "kind": "exponential", "baseMs": 20 * HOUR, "maxMs": 100 * HOUR }), 3),
        [40 * HOUR, 80 * HOUR, 100 * HOUR]
    );
}

#[test]
fn the_delay_saturates_however_large_attempt_factor_and_base_are() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    let huge = i64::MAX;
    for (backoff, expected) in [
        (json!({ "kind": "exponential" }), 64_000),
        (json!({ "kind": "exponential", "factor": 1e300 }), 64_000),
        (json!({ "kind": "exponential", "baseMs": 1, "factor": 1, "maxMs": 5 }), 1),
        (json!({ "kind": "exponential", "baseMs": huge, "factor": 2, "maxMs": 86_400_000 }), 86_400_000),
        (json!({ "kind": "linear" }), 64_000),
        (json!({ "kind": "linear", "baseMs": huge / 2, "maxMs": 90_000_000 }), 90_000_000),
        (json!({ "kind": "linear", "baseMs": 1, "maxMs": huge }), 1_000_000),
        (json!({ "kind": "fixed" }), 1000),
    ] {
        let id = enqueue(&store, json!({ "maxAttempts": 2_000_000, "backoff": backoff }))["id"].clone();
        let raw = rusqlite::Connection::open(&path).unwrap();
        raw.execute("UPDATE items SET attempt = 999999 WHERE id = ?1", [id.as_str()]).unwrap();
        let job = claim_one(&store, "q");
        assert_eq!(job["attempt"], 1_000_000);
        assert_eq!(fail(&store, &job, json!({}))["runAt"], START + expected, "{backoff}");
    }
}

#[test]
fn jitter_takes_away_at_most_the_part_that_it_says_and_differs_between_items() {
    let (store, _) = in_memory();
    let items: Vec<_> =
        (0..200).map(|_| json!({ "queue": "q", "backoff": { "kind": "fixed", "baseMs": 10_000, "jitter": 0.25 } })).collect();
    call(&store, "queue.enqueueMany", json!({ "items": items }));
    let mut delays: Vec<i64> = Vec::new();
    while let Some(job) = claim_as(&store, "q", json!({ "limit": 1 })).first() {
        let failed = fail(&store, job, json!({}));
        assert_eq!(fail(&store, job, json!({})), failed, "a repeated call is answered the same");
        delays.push(failed["runAt"].as_i64().unwrap() - START);
    }
    assert!(delays.iter().all(|delay| (7500..=10_000).contains(delay)), "{delays:?}");
    let below = delays.iter().filter(|delay| **delay < 8750).count();
    assert!((50..150).contains(&below), "{below} of {} lie in the lower half", delays.len());
}

#[test]
fn a_failure_may_say_when_to_try_again_and_a_queue_how_in_general() {
    let (store, clock) = in_memory();
    let settings = json!({ "name": "q", "maxAttempts": 2, "backoff": { "kind": "fixed", "baseMs": 5 } });
    call(&store, "queues.configure", settings);
    let plain = enqueue(&store, json!({}));
    assert_eq!(plain["maxAttempts"], 2);
    let own = enqueue(&store, json!({ "maxAttempts": 9, "backoff": { "kind": "fixed", "baseMs": 7 } }));
    let jobs = claim(&store, "q");
    assert_eq!(ids(&jobs), [&plain, &own].map(|one| one["id"].as_str().unwrap()));
    assert_eq!(fail(&store, &jobs[0], json!({}))["runAt"], START + 5);
    assert_eq!(fail(&store, &jobs[1], json!({}))["runAt"], START + 7);
    clock.advance(7);
    let jobs = claim(&store, "q");
    let two_days = 2 * 86_400_000;
    assert_eq!(fail(&store, &jobs[1], json!({ "delayMs": two_days }))["runAt"], START + 7 + two_days, "asked for");
    // The last attempt has nothing to wait for.
    let dead = fail(&store, &jobs[0], json!({ "delayMs": 5 }));
    assert_eq!((&dead["outcome"], dead.get("runAt")), (&json!("dead_lettered"), None));
    // At once, and not for ever.
    let job = enqueue(&store, json!({ "backoff": { "kind": "fixed" } }));
    let failed = fail(&store, &claim_one(&store, "q"), json!({ "delayMs": 0 }));
    assert_eq!(failed["outcome"], "retry_scheduled");
    assert_eq!(claim_one(&store, "q")["id"], job["id"]);
}

#[test]
fn items_come_by_priority_then_by_time_then_as_they_were_enqueued_from_all_queues() {
    let (store, clock) = in_memory();
    for (id, queue, priority, run_at) in [
        ("f", "a", 0, START),
        ("g", "b", 0, START),
        ("e", "a", 0, START - 1),
        ("a", "b", i64::MAX, START),
        ("h", "c", -1, START - 5),
        ("i", "a", i64::MIN, START),
        ("b", "c", 5, START + 10),
        ("c", "a", 5, START + 20),
        ("d", "b", 5, START + 20),
    ] {
        call(&store, "queue.enqueue", json!({ "queue": queue, "id": id, "priority": priority, "runAt": run_at }));
    }
    clock.advance(20);
    let mut seen = Vec::new();
    for limit in [1, 2, 3, 10] {
        let request = json!({ "workerId": "w", "queues": ["c", "a", "b", "a", "none"], "limit": limit });
        let claimed: Vec<Value> = serde_json::from_value(call(&store, "queue.claim", request)).unwrap();
        seen.extend(claimed.iter().map(|one| one["id"].as_str().unwrap().to_owned()));
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    assert_eq!(call(&store, "queue.claim", json!({ "workerId": "w", "queues": [] })), json!([]));
}

#[test]
fn an_idempotency_key_names_an_item_until_it_is_finished() {
    type Ends = fn(&Store, &Value);
    let ends: [(&str, Ends); 4] = [
        ("completed", |store, _| drop(complete(store, &claim_one(store, "q")))),
        ("dead_lettered", |store, _| drop(fail(store, &claim_one(store, "q"), json!({ "retryable": false })))),
        ("cancelled", |store, one| drop(call(store, "queue.cancel", json!({ "id": one["id"] })))),
        ("cancelled", |store, one| {
            let job = claim_one(store, "q");
            call(store, "queue.cancel", json!({ "id": one["id"] }));
            call(store, "queue.release", held(&job));
        }),
    ];
    for (status, end) in ends {
        let (store, clock) = in_memory();
        let once = json!({ "queue": "q", "idempotencyKey": "k", "payload": { "a": 1, "b": [2] }, "requires": [] });
        let ever = with(&once, json!({ "uniqueFor": "ever" }));
        let first = call(&store, "queue.enqueue", once.clone());
        assert_eq!(first["created"], true);
        let same = |again: &Value, what: &str| {
            assert_eq!((&again["id"], &again["created"]), (&first["id"], &json!(false)), "{status}: {what}");
        };
        // White space and the order of keys make no other arguments, and neither does how long the key counts.
        let text = r#"{ "payload": { "b": [ 2 ], "a": 1 }, "queue": "q", "requires": [], "idempotencyKey": "k" }"#;
        same(&serde_json::from_str(&store.call("queue.enqueue", text).unwrap()).unwrap(), "written differently");
        same(&call(&store, "queue.enqueue", ever.clone()), "pending");
        let job = claim_one(&store, "q");
        same(&call(&store, "queue.enqueue", once.clone()), "claimed");
        fail(&store, &job, json!({ "delayMs": 5 }));
        same(&call(&store, "queue.enqueue", once.clone()), "scheduled");
        for other in
            [json!({ "payload": 2 }), json!({ "priority": 1 }), json!({ "delayMs": 5 }), json!({ "concurrencyKey": "c" })]
        {
            assert_eq!(code(&store, "queue.enqueue", with(&once, other.clone())), "conflict", "{other}");
        }
        let elsewhere = call(&store, "queue.enqueue", with(&once, json!({ "queue": "other" })));
        assert_eq!(elsewhere["created"], true, "keys are the queue's own");

        clock.advance(5);
        end(&store, &first);
        assert_eq!(item(&store, &first["id"])["status"], status);
        same(&call(&store, "queue.enqueue", ever.clone()), "ever");
        assert_eq!(code(&store, "queue.enqueue", with(&ever, json!({ "payload": 2 }))), "conflict", "{status}");
        let second = call(&store, "queue.enqueue", with(&once, json!({ "payload": 2 })));
        assert_eq!(second["created"], true, "{status}: finished, so the key is free");
        // With `ever` the key names the newest.
        assert_eq!(code(&store, "queue.enqueue", ever), "conflict");
        let ever = json!({ "uniqueFor": "ever", "payload": 2 });
        assert_eq!(call(&store, "queue.enqueue", with(&once, ever))["id"], second["id"]);
    }
}

#[test]
fn a_set_of_capabilities_is_the_same_in_any_order() {
    let (store, _) = in_memory();
    let of = |requires: Value| enqueue(&store, json!({ "id": "item", "requires": requires }));
    assert_eq!(of(json!(["b", "a", "b"]))["requires"], json!(["a", "b"]));
    assert_eq!(of(json!(["a", "b"]))["created"], false);
    assert_eq!(code(&store, "queue.enqueue", json!({ "queue": "q", "id": "item", "requires": ["a"] })), "conflict");
}

#[test]
fn cancelling_depends_on_where_the_item_stands() {
    type Ends = fn(&Store, &runkeep::ManualClock, &Value) -> Value;
    let asked: [(&str, Ends); 5] = [
        ("cancelled", |store, _, job| fail(store, job, json!({}))),
        ("cancelled", |store, _, job| fail(store, job, json!({ "retryable": false }))),
        ("cancelled", |store, _, job| call(store, "queue.release", held(job))),
        ("cancelled", |store, clock, _| {
            clock.advance(1000);
            call(store, "sweep", json!({}))
        }),
        // Who completes had not seen it, and what is done is done.
        ("completed", |store, _, job| complete(store, job)),
    ];
    for (status, end) in asked {
        let (store, clock) = in_memory();
        call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
        enqueue(&store, json!({ "id": "item", "executionId": "run", "nodeId": "n" }));
        let job = claim_one(&store, "q");
        assert_eq!(call(&store, "queue.renew", held(&job))["cancelRequested"], false);
        for _ in 0..2 {
            let answer = call(&store, "queue.cancel", json!({ "id": "item" }));
            assert_eq!((&answer["status"], &answer["cancelRequested"]), (&json!("claimed"), &json!(true)));
        }
        assert_eq!(call(&store, "queue.renew", held(&job))["cancelRequested"], true);
        let answer = end(&store, &clock, &job);
        assert!(answer.to_string().contains(status) || answer["leasesCancelled"] == 1, "{answer}");
        assert_eq!(item(&store, &json!("item"))["status"], status);
        let cancelled = status == "cancelled";
        let told: Vec<_> = log(&store, "run").into_iter().map(|(event_type, _)| event_type).collect();
        assert_eq!(told, if cancelled { vec!["node_cancelled"] } else { vec![] });
        let attempts = call(&store, "queue.attempts", json!({ "id": "item" }));
        assert_eq!(
            attempts.as_array().unwrap().iter().filter(|one| one["outcome"] == "cancelled").count(),
            usize::from(cancelled)
        );
        assert_eq!(code(&store, "queue.cancel", json!({ "id": "item" })), "conflict");
    }

    let (store, _) = in_memory();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    for (id, delay_ms, from) in [("now", 0, "pending"), ("later", 5, "scheduled")] {
        let node = json!({ "id": id, "executionId": "run", "nodeId": id, "delayMs": delay_ms });
        assert_eq!(enqueue(&store, node)["status"], from);
        let answer = call(&store, "queue.cancel", json!({ "id": id }));
        assert_eq!((&answer["status"], &answer["finishedAt"]), (&json!("cancelled"), &json!(START)));
        assert!(claim(&store, "q").is_empty());
        let error = try_call(&store, "queue.cancel", json!({ "id": id })).unwrap_err();
        assert_eq!((error.code().as_str(), &error.details()["status"]), ("conflict", &json!("cancelled")));
    }
    let told = log(&store, "run");
    assert_eq!(told, ["now", "later"].map(|id| ("node_cancelled".to_owned(), json!({ "nodeId": id }))));
    enqueue(&store, json!({ "id": "dead", "maxAttempts": 1 }));
    fail(&store, &claim_one(&store, "q"), json!({}));
    let error = try_call(&store, "queue.cancel", json!({ "id": "dead" })).unwrap_err();
    assert_eq!((error.code().as_str(), &error.details()["status"]), ("conflict", &json!("dead_lettered")));
    assert_eq!(code(&store, "queue.cancel", json!({ "id": "none" })), "not_found");
}

#[test]
fn each_delivery_that_did_not_complete_is_kept_with_what_went_wrong() {
    let (store, clock) = in_memory();
    enqueue(&store, json!({ "id": "item", "maxAttempts": 10, "backoff": { "kind": "fixed", "baseMs": 0 } }));
    let take = |worker: &str| claim_as(&store, "q", json!({ "workerId": worker, "namespace": "here" })).remove(0);
    let errors =
        [json!("plain"), json!({ "message": "no", "code": "E_NO", "stack": "at\nline 1" }), json!({ "message": "short" })];
    for error in &errors {
        clock.advance(10);
        fail(&store, &take("a"), json!({ "error": error }));
        assert_eq!(&item(&store, &json!("item"))["lastError"], error);
    }
    let job = take("b");
    clock.advance(5);
    call(&store, "queue.release", with(&held(&job), json!({ "reason": "429: slow down" })));
    assert_eq!(item(&store, &json!("item"))["attempt"], 3, "a release is not counted");
    assert_eq!(take("c")["attempt"], 4);
    clock.advance(1000);
    call(&store, "sweep", json!({}));
    complete(&store, &take("d"));
    let attempts = call(&store, "queue.attempts", json!({ "id": "item" }));
    let expected = json!([
        { "attempt": 1, "fence": 1, "workerId": "a", "namespace": "here", "claimedAt": START + 10, "endedAt": START + 10,
          "outcome": "failed", "error": errors[0] },
        { "attempt": 2, "fence": 2, "workerId": "a", "namespace": "here", "claimedAt": START + 20, "endedAt": START + 20,
          "outcome": "failed", "error": errors[1] },
        { "attempt": 3, "fence": 3, "workerId": "a", "namespace": "here", "claimedAt": START + 30, "endedAt": START + 30,
          "outcome": "failed", "error": errors[2] },
        { "attempt": 4, "fence": 4, "workerId": "b", "namespace": "here", "claimedAt": START + 30, "endedAt": START + 35,
          "outcome": "released", "error": "429: slow down" },
        { "attempt": 4, "fence": 5, "workerId": "c", "namespace": "here", "claimedAt": START + 35, "endedAt": START + 1035,
          "outcome": "lease_expired", "error": { "code": "lease_expired", "message": "the lease of worker \"c\" ran out" } },
    ]);
    assert_eq!(attempts, expected);
    assert_eq!(code(&store, "queue.attempts", json!({ "id": "none" })), "not_found");
}

#[test]
fn progress_is_shown_to_the_next_attempt() {
    let (store, clock) = in_memory();
    enqueue(&store, json!({ "id": "item", "backoff": { "kind": "fixed", "baseMs": 0 } }));
    let job = claim_one(&store, "q");
    assert_eq!(job.get("progress"), None);
    call(&store, "queue.renew", with(&held(&job), json!({ "progress": { "page": 7 } })));
    call(&store, "queue.renew", held(&job));
    assert_eq!(item(&store, &json!("item"))["progress"], json!({ "page": 7 }), "a renewal without any leaves it");
    fail(&store, &job, json!({}));
    let job = claim_one(&store, "q");
    assert_eq!(job["progress"], json!({ "page": 7 }));
    call(&store, "queue.renew", with(&held(&job), json!({ "progress": null })));
    clock.advance(1000);
    call(&store, "sweep", json!({}));
    let job = claim_one(&store, "q");
    assert_eq!(job["progress"], Value::Null, "null is a document like any other");
    assert_eq!(job["attempt"], 3);
}

/// Items `prefix-0`, `prefix-1` … of the queue, all dead.
fn bury(store: &Store, queue: &str, prefix: &str, count: usize, more: Value) {
    let items: Vec<_> = (0..count)
        .map(|n| with(&json!({ "queue": queue, "id": format!("{prefix}-{n}"), "payload": n, "maxAttempts": 1 }), more.clone()))
        .collect();
    call(store, "queue.enqueueMany", json!({ "items": items }));
    for job in claim_as(store, queue, json!({ "limit": 1000 })) {
        fail(store, &job, json!({}));
    }
}

#[test]
fn a_redriven_dead_letter_has_all_its_attempts_again_and_keeps_its_history() {
    let (store, clock) = in_memory();
    bury(&store, "q", "d", 1, json!({}));
    let dead = item(&store, &json!("d-0"));
    assert_eq!((&dead["status"], &dead["attempt"], &dead["finishedAt"]), (&json!("dead_lettered"), &json!(1), &json!(START)));
    clock.advance(50);
    assert_eq!(call(&store, "deadLetters.redrive", json!({ "id": "d-0" })), json!({ "redriven": 1, "refused": [] }));
    let alive = item(&store, &json!("d-0"));
    assert_eq!((&alive["status"], &alive["attempt"], &alive["runAt"]), (&json!("pending"), &json!(0), &json!(START + 50)));
    assert_eq!((&alive["lastError"], alive.get("finishedAt"), &alive["payload"]), (&json!("e"), None, &json!(0)));
    let job = claim_one(&store, "q");
    assert_eq!((&job["attempt"], &job["fence"]), (&json!(1), &json!(2)), "fences go on");
    fail(&store, &job, json!({}));
    assert_eq!(call(&store, "queue.attempts", json!({ "id": "d-0" })).as_array().unwrap().len(), 2);
    // Another payload, large or small.
    for payload in [json!("x".repeat(5000)), json!({ "fixed": true }), json!("y".repeat(10_000)), json!(null)] {
        call(&store, "deadLetters.redrive", json!({ "id": "d-0", "payload": payload }));
        let job = claim_one(&store, "q");
        assert_eq!(job["payload"], payload);
        fail(&store, &job, json!({}));
    }
    for (id, expected) in [("none", "not_found"), ("alive", "conflict"), ("done", "conflict")] {
        if id == "done" {
            complete(&store, &claim_one(&store, "q"));
        } else if id == "alive" {
            enqueue(&store, json!({ "id": "alive" }));
        }
        let id = if id == "done" { "alive" } else { id };
        assert_eq!(code(&store, "deadLetters.redrive", json!({ "id": id })), expected);
        assert_eq!(code(&store, "deadLetters.delete", json!({ "id": id })), expected);
    }
    for bad in [json!({}), json!({ "id": "d-0", "queue": "q" })] {
        assert_eq!(code(&store, "deadLetters.redrive", bad), "invalid_argument");
    }
}

#[test]
fn a_dead_letter_does_not_come_back_beside_its_replacement_or_into_a_run_that_has_ended() {
    let (store, _) = in_memory();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    bury(&store, "q", "once", 1, json!({ "idempotencyKey": "k" }));
    bury(&store, "q", "of-run", 1, json!({ "executionId": "run", "nodeId": "n" }));
    let live = enqueue(&store, json!({ "idempotencyKey": "k" }));
    let error = try_call(&store, "deadLetters.redrive", json!({ "id": "once-0", "payload": 1 })).unwrap_err();
    assert_eq!((error.code().as_str(), &error.details()["liveId"]), ("conflict", &live["id"]));
    call(&store, "executions.setStatus", json!({ "id": "run", "status": "cancelled" }));
    assert_eq!(code(&store, "deadLetters.redrive", json!({ "id": "of-run-0" })), "invalid_transition");
    let report = call(&store, "deadLetters.redrive", json!({ "queue": "q" }));
    assert_eq!(report["redriven"], 0);
    let refused = report["refused"].as_array().unwrap();
    assert_eq!(ids(refused), ["once-0", "of-run-0"]);
    assert_eq!([&refused[0]["code"], &refused[1]["code"]], [&json!("conflict"), &json!("invalid_transition")]);
    // Nothing of them has changed: not the payload either.
    assert_eq!(item(&store, &json!("once-0"))["payload"], 0);
    complete(&store, &claim_one(&store, "q"));
    assert_eq!(call(&store, "deadLetters.redrive", json!({ "id": "once-0" }))["redriven"], 1);
}

#[test]
fn many_dead_letters_are_listed_redriven_and_deleted() {
    let (store, _) = in_memory();
    bury(&store, "q", "d", 250, json!({}));
    bury(&store, "other", "o", 30, json!({}));
    let all: Vec<String> = (0..250).map(|n| format!("d-{n}")).chain((0..30).map(|n| format!("o-{n}"))).collect();
    let list = |filter: Value| pages(&store, "deadLetters.list", filter);
    assert_eq!(ids(&list(json!({ "limit": 70 }))), all);
    assert_eq!(ids(&list(json!({ "queue": "other", "limit": 7 }))), all[250..]);
    let mut backwards = all.clone();
    backwards.reverse();
    assert_eq!(ids(&list(json!({ "order": "desc", "limit": 33 }))), backwards);
    for n in [3, 100] {
        call(&store, "deadLetters.delete", json!({ "id": format!("d-{n}") }));
    }
    assert_eq!(call(&store, "queue.get", json!({ "id": "d-3" })), Value::Null);
    assert_eq!(call(&store, "queues.stats", json!({ "queue": "q" }))["counts"]["dead_lettered"], 248);
    assert_eq!(call(&store, "deadLetters.redrive", json!({ "queue": "q", "payload": "again" }))["redriven"], 248);
    assert_eq!(
        call(&store, "queues.stats", json!({}))["counts"],
        json!({
            "scheduled": 0, "pending": 248, "claimed": 0, "completed": 0, "dead_lettered": 30, "cancelled": 0,
        })
    );
    assert_eq!(ids(&list(json!({}))), all[250..]);
    assert!(claim_as(&store, "q", json!({ "limit": 1000 })).iter().all(|job| job["payload"] == "again"));
    assert_eq!(call(&store, "deadLetters.redrive", json!({ "queue": "none" }))["redriven"], 0);
}

#[test]
fn counts_tell_where_items_stand_and_since_when_the_oldest_can_be_claimed() {
    let (store, clock) = in_memory();
    let stats = |of: Value| call(&store, "queues.stats", of);
    let counts = |of: Value| {
        let counts = stats(of)["counts"].clone();
        ["scheduled", "pending", "claimed", "completed", "dead_lettered", "cancelled"]
            .map(|status| counts[status].as_i64().unwrap())
    };
    assert_eq!(counts(json!({ "queue": "none" })), [0; 6]);
    assert_eq!(stats(json!({})).get("oldestPendingAt"), None);
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    for n in 0..6 {
        enqueue(&store, json!({ "id": format!("i-{n}"), "priority": n, "executionId": "run", "nodeId": "n" }));
        clock.advance(10);
    }
    enqueue(&store, json!({ "delayMs": 1000 }));
    call(&store, "queue.enqueue", json!({ "queue": "other", "runAt": START - 500 }));
    assert_eq!((counts(json!({ "queue": "q" })), counts(json!({}))), ([1, 6, 0, 0, 0, 0], [1, 7, 0, 0, 0, 0]));
    assert_eq!(stats(json!({ "queue": "q" }))["oldestPendingAt"], START, "that of the lowest priority");
    assert_eq!(stats(json!({}))["oldestPendingAt"], START - 500);
    let jobs = claim_as(&store, "q", json!({ "limit": 4 }));
    complete(&store, &jobs[0]);
    fail(&store, &jobs[1], json!({ "retryable": false }));
    fail(&store, &jobs[2], json!({}));
    call(&store, "queue.cancel", json!({ "id": "i-1" }));
    let expected = [2, 1, 1, 1, 1, 1];
    assert_eq!(counts(json!({ "queue": "q" })), expected);
    assert_eq!(counts(json!({ "executionId": "run" })), [1, 1, 1, 1, 1, 1]);
    assert_eq!(counts(json!({ "executionId": "run", "queue": "other" })), [0; 6]);
    assert_eq!(stats(json!({ "executionId": "run" }))["oldestPendingAt"], START);
    call(&store, "queue.release", held(&jobs[3]));
    assert_eq!(counts(json!({ "queue": "q" })), [2, 2, 0, 1, 1, 1]);
    assert_eq!(code(&store, "queues.stats", json!({ "executionId": "none" })), "not_found");
    claim(&store, "other");
    claim(&store, "q");
    assert_eq!(stats(json!({})).get("oldestPendingAt"), None);
}

#[test]
fn the_oldest_pending_item_counts_also_where_a_limit_keeps_it_back() {
    let (store, clock) = in_memory();
    call(&store, "queues.configure", json!({ "name": "q", "keyConcurrency": 1 }));
    enqueue(&store, json!({ "concurrencyKey": "k", "priority": 9 }));
    claim_one(&store, "q");
    let oldest = || call(&store, "queues.stats", json!({ "queue": "q" })).get("oldestPendingAt").cloned();
    assert_eq!(oldest(), None);
    // Of one key: the first in line is not the one that waits longest.
    enqueue(&store, json!({ "concurrencyKey": "k" }));
    clock.advance(10);
    enqueue(&store, json!({ "concurrencyKey": "k", "priority": 5 }));
    enqueue(&store, json!({ "concurrencyKey": "k", "priority": 5, "requires": ["gpu"] }));
    assert_eq!(oldest(), Some(json!(START)));
    enqueue(&store, json!({ "runAt": START - 1 }));
    assert_eq!(oldest(), Some(json!(START - 1)));
}

/// What must be refused, and how.
#[test]
fn arguments_that_make_no_sense_are_refused_and_change_nothing() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    let worker = json!({ "workerId": "w", "pool": "p", "queues": [], "capabilities": [], "livenessTtlMs": 1000 });
    call(&store, "workers.register", worker.clone());
    enqueue(&store, json!({}));
    let job = held(&claim_one(&store, "q"));
    let classes: Vec<_> = (0..64).map(|n| json!({ "queue": "classes", "requires": [format!("c-{n}")] })).collect();
    call(&store, "queue.enqueueMany", json!({ "items": classes }));
    call(&store, "queue.enqueue", json!({ "queue": "classes" }));

    let item = json!({ "queue": "new" });
    let request = json!({ "workerId": "w", "queues": ["q"] });
    let dead = json!({ "workerId": "w", "reason": "r" });
    let long = "r".repeat(257);
    let huge = 1_000_000_000;
    let mut refusals: Vec<(&str, Value, &str)> = Vec::new();
    let mut invalid = |operation: &'static str, base: &Value, wrong: Value, path: &'static str| {
        refusals.push((operation, with(base, wrong), path));
    };
    for attempts in [json!(0), json!(-1), json!(1.5), json!("3")] {
        invalid("queue.enqueue", &item, json!({ "maxAttempts": attempts }), "maxAttempts");
    }
    for delay in [json!(-1), json!(i64::MIN), json!(i64::MAX), json!(0.5)] {
        invalid("queue.enqueue", &item, json!({ "delayMs": delay }), "delayMs");
        invalid("queue.fail", &job, json!({ "error": "e", "delayMs": delay }), "delayMs");
        invalid("queue.release", &job, json!({ "delayMs": delay }), "delayMs");
    }
    for lease in [json!(0), json!(-1), json!(i64::MAX)] {
        invalid("queue.claim", &request, json!({ "leaseMs": lease }), "leaseMs");
        invalid("queue.renew", &job, json!({ "leaseMs": lease }), "leaseMs");
    }
    for limit in [json!(0), json!(-1), json!(1001), json!(huge)] {
        invalid("queue.claim", &request, json!({ "limit": limit }), "limit");
        for operation in ["queue.list", "queues.list", "deadLetters.list", "workers.list", "workers.history", "executions.list"] {
            invalid(operation, &json!({}), json!({ "limit": limit }), "limit");
        }
        invalid("events.list", &json!({ "executionId": "run" }), json!({ "limit": limit }), "limit");
    }
    for limit in [json!(0), json!(-1), json!(10_001), json!(huge)] {
        invalid("leases.listExpired", &json!({}), json!({ "limit": limit }), "limit");
        invalid("sweep", &json!({}), json!({ "limit": limit }), "limit");
    }
    invalid("sweep", &json!({}), json!({ "intervalMs": 0 }), "intervalMs");
    for reason in [json!(long), json!("two\nlines"), json!("nul\u{0}"), json!("\u{7f}"), json!(1)] {
        invalid("workers.markDead", &dead, json!({ "reason": reason }), "reason");
        invalid("queue.release", &job, json!({ "reason": reason }), "reason");
    }
    for ttl in [json!(0), json!(-1), json!(i64::MAX)] {
        invalid("workers.register", &worker, json!({ "livenessTtlMs": ttl }), "livenessTtlMs");
    }
    for until in [json!(START), json!(START - 1), json!(-1), json!(0)] {
        invalid("queues.hold", &json!({ "name": "q" }), json!({ "until": until }), "until");
        invalid("queues.hold", &json!({ "name": "new", "key": "k" }), json!({ "until": until }), "until");
    }
    invalid("queues.hold", &json!({ "name": "q" }), json!({}), "");
    for name in [json!(""), json!("n".repeat(257)), json!("tab\t"), json!(null), json!(7)] {
        invalid("queue.enqueue", &item, json!({ "queue": name }), "queue");
        invalid("queue.claim", &request, json!({ "workerId": name }), "workerId");
        invalid("queues.pause", &json!({}), json!({ "name": name }), "name");
        invalid("workers.register", &worker, json!({ "queues": [name] }), "queues[0]");
        invalid("queue.enqueue", &item, json!({ "requires": ["ok", name] }), "requires[1]");
    }
    for (field, wrong) in [
        ("concurrency", json!(0)),
        ("concurrency", json!(-1)),
        ("keyConcurrency", json!(0)),
        ("maxAttempts", json!(0)),
        ("rateLimit", json!({ "limit": 0, "perMs": 1 })),
        ("rateLimit", json!({ "limit": 1, "perMs": 0 })),
        ("rateLimit", json!({ "limit": i64::MAX, "perMs": 2 })),
        ("keyRateLimit", json!({ "limit": -1, "perMs": 1 })),
        ("keyRateLimit", json!({ "limit": 1 })),
        ("backoff", json!({ "kind": "random" })),
        ("backoff", json!({ "kind": "fixed", "baseMs": -1 })),
        ("backoff", json!({ "kind": "fixed", "maxMs": -1 })),
        ("backoff", json!({ "kind": "exponential", "factor": 0.5 })),
        ("backoff", json!({ "kind": "exponential", "jitter": 1.5 })),
    ] {
        invalid("queues.configure", &json!({ "name": "new" }), json!({ field: wrong }), field);
        if field == "backoff" {
            invalid("queue.enqueue", &item, json!({ field: wrong }), field);
        }
    }
    for (wrong, path) in [
        (json!({ "runAt": -1 }), "runAt"),
        (json!({ "runAt": START, "delayMs": 1 }), "delayMs"),
        (json!({ "executionId": "run" }), "nodeId"),
        (json!({ "nodeId": "n" }), "nodeId"),
        (json!({ "uniqueFor": "ever" }), "uniqueFor"),
        (json!({ "idempotencyKey": "k", "uniqueFor": "always" }), "uniqueFor"),
        (json!({ "prority": 1 }), ""),
    ] {
        invalid("queue.enqueue", &item, wrong, path);
    }
    for field in ["executionsMs", "itemsMs", "attemptsMs", "deadLettersMs", "historyMs"] {
        invalid("retention.set", &json!({}), json!({ field: -1 }), field);
    }
    let before = dump(&path);
    for (operation, arguments, field) in &refusals {
        let error = try_call(&store, operation, arguments.clone()).expect_err(&format!("{operation} {arguments}"));
        assert_eq!(error.code().as_str(), "invalid_argument", "{operation} {arguments}: {error}");
        let path = error.details().get("path").and_then(Value::as_str).unwrap_or_default();
        assert!(path.starts_with(field), "{operation} {arguments}: {error} names {path:?}, not {field:?}");
        assert!(!error.retryable());
        // Nor does any of a list of items come in when one is refused.
        if *operation == "queue.enqueue" {
            let error = try_call(&store, "queue.enqueueMany", json!({ "items": [item, arguments] })).unwrap_err();
            assert!(error.message().contains("items[1]"), "{error}");
        }
    }
    let one_more = json!({ "queue": "classes", "requires": ["c-0", "c-1"] });
    let error = try_call(&store, "queue.enqueue", one_more.clone()).unwrap_err();
    assert_eq!((error.code().as_str(), &error.details()["queue"]), ("limit_exceeded", &json!("classes")));
    assert_eq!(code(&store, "queue.enqueueMany", json!({ "items": [item, one_more] })), "limit_exceeded");
    assert!(refusals.len() > 120);
    assert_eq!(dump(&path), before, "a refused call has left something behind");
    // Those that are there already go on.
    assert_eq!(call(&store, "queue.enqueue", json!({ "queue": "classes", "requires": ["c-63"] }))["created"], true);
    call(&store, "workers.markDead", with(&dead, json!({ "reason": "r".repeat(256) })));
}
