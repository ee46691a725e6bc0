//! What went wrong for others in queues of this kind, each as a test of its whole kind. Others are in files.rs, documents.rs and growth.rs.

mod common;

use std::sync::Barrier;

use common::{
    Folder, START, call, claim, claim_as, claim_one, clock, code, complete, fail, held, ids, in_memory, item, log, options,
    pages, try_call, with,
};
use runkeep::{ManualClock, Store};
use serde_json::{Value, json};

/// A store with a running execution, and an item of it in the queue `q`.
fn with_run(more: Value) -> (Store, ManualClock) {
    let (store, clock) = in_memory();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    let node = json!({ "queue": "q", "id": "item", "executionId": "run", "nodeId": "n" });
    call(&store, "queue.enqueue", with(&node, more));
    (store, clock)
}

fn sweep(store: &Store) -> Value {
    call(store, "sweep", json!({}))
}

/// What the log tells of the item.
fn told(store: &Store) -> Vec<String> {
    log(store, "run").into_iter().map(|(event_type, _)| event_type).collect()
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }
}

/// Lesson 2.
#[test]
fn a_worker_that_dies_does_not_take_its_job_along() {
    type Ends = fn(&Store);
    let ends: [(&str, Ends); 3] = [
        ("a sweep", |store| assert_eq!(sweep(store)["leasesRetried"], 1)),
        ("another claim", |store| assert!(claim(store, "q").is_empty(), "the backoff has only begun")),
        ("the registry", |store| {
            let worker = json!({ "workerId": "w", "pool": "p", "queues": [], "capabilities": [], "livenessTtlMs": 1 });
            call(store, "workers.register", worker);
            let dead = call(store, "workers.markDead", json!({ "workerId": "w", "reason": "crashed" }));
            assert_eq!(dead["leasesEnded"], 1);
        }),
    ];
    for (how, end) in ends {
        let (store, clock) = with_run(json!({}));
        let first = claim_one(&store, "q");
        clock.advance(999);
        sweep(&store);
        assert!(claim(&store, "q").is_empty(), "{how}: the lease runs for another millisecond");
        clock.advance(1);
        end(&store);
        let waiting = item(&store, &json!("item"));
        assert_eq!((&waiting["status"], &waiting["runAt"]), (&json!("scheduled"), &json!(START + 1000 + 2000)), "{how}");
        clock.advance(1999);
        assert!(claim(&store, "q").is_empty(), "{how}: the backoff is 2 s");
        clock.advance(1);
        let second = claim_one(&store, "q");
        assert_eq!(second["attempt"], 2, "{how}");
        assert!(second["fence"].as_i64() > first["fence"].as_i64(), "{how}");
        assert_eq!(told(&store), ["retry_scheduled"], "{how}");
    }
}

/// Lesson 3.
#[test]
fn a_zombie_cannot_settle_a_job_that_another_now_owns() {
    let (store, clock) = with_run(json!({}));
    let zombie = held(&claim_one(&store, "q"));
    clock.advance(1000);
    sweep(&store);
    let done = json!({ "nodeId": "n", "output": 1, "statePatch": { "by": "zombie" }, "durationMs": 1 });
    let tries = [
        ("queue.complete", json!({ "events": [{ "type": "node_completed", "data": done }], "enqueue": [{ "queue": "next" }] })),
        ("queue.complete", json!({ "statePatch": { "by": "zombie" } })),
        ("queue.fail", json!({ "error": "e" })),
        ("queue.release", json!({})),
        ("queue.renew", json!({})),
    ];
    let all_refused = |when: &str| {
        let before = item(&store, &json!("item"));
        for (operation, more) in &tries {
            assert_eq!(code(&store, operation, with(&zombie, more.clone())), "lease_lost", "{operation} {when}");
        }
        assert_eq!(item(&store, &json!("item")), before, "{when}");
    };
    all_refused("while the item waits");
    clock.advance(2000);
    let mut owner = claim_as(&store, "q", json!({ "workerId": "other" }));
    all_refused("while another holds it");
    let done = json!({ "nodeId": "n", "output": 2, "statePatch": { "by": "owner" }, "durationMs": 1 });
    let settle = with(&held(&owner.remove(0)), json!({ "events": [{ "type": "node_completed", "data": done }] }));
    call(&store, "queue.complete", settle);
    all_refused("after another has completed it");
    assert_eq!(told(&store), ["retry_scheduled", "node_completed"]);
    assert_eq!(call(&store, "executions.get", json!({ "id": "run" }))["state"], json!({ "by": "owner" }));
    assert_eq!(call(&store, "queues.stats", json!({ "queue": "next" }))["counts"]["pending"], 0);
}

/// The other side of lesson 3: a lease that has run out, and that nobody has noticed, is still its holder's.
#[test]
fn who_is_late_and_not_replaced_may_settle() {
    for operation in ["queue.complete", "queue.fail", "queue.release", "queue.renew"] {
        let (store, clock) = with_run(json!({}));
        let held = held(&claim_one(&store, "q"));
        clock.advance(1_000_000);
        let more = if operation == "queue.fail" { json!({ "error": "e" }) } else { json!({}) };
        assert_eq!(call(&store, operation, with(&held, more))["late"], true, "{operation}");
    }
}

/// Lesson 4.
#[test]
fn a_thousand_jobs_that_are_done_in_their_first_millisecond_lose_no_lock() {
    let (store, _) = in_memory();
    let items: Vec<_> = (0..1000).map(|_| json!({ "queue": "q" })).collect();
    call(&store, "queue.enqueueMany", json!({ "items": items }));
    for _ in 0..1000 {
        complete(&store, &claim_one(&store, "q"));
    }
    assert!(claim(&store, "q").is_empty());
    assert_eq!(call(&store, "queues.stats", json!({ "queue": "q" }))["counts"]["completed"], 1000);
}

/// Lesson 5.
#[test]
fn a_stalled_job_that_has_no_attempt_left_is_a_dead_letter_and_the_log_says_so() {
    type Finds = fn(&Store);
    let finders: [Finds; 2] = [
        |store| assert_eq!(sweep(store)["leasesDeadLettered"], 1),
        |store| assert!(claim(store, "q").is_empty(), "there is nothing to claim"),
    ];
    for find in finders {
        let (store, clock) = with_run(json!({ "maxAttempts": 1 }));
        claim_one(&store, "q");
        clock.advance(1000);
        find(&store);
        let letters = pages(&store, "deadLetters.list", json!({}));
        assert_eq!(ids(&letters), ["item"]);
        assert_eq!(letters[0]["lastError"]["code"], "lease_expired");
        let log = log(&store, "run");
        assert_eq!(log.len(), 1);
        assert_eq!(log[0].0, "node_failed");
        assert_eq!((&log[0].1["nodeId"], &log[0].1["attempt"], &log[0].1["retryable"]), (&json!("n"), &json!(1), &json!(false)));
        // The execution does not fail by it: that is its own decision.
        assert_eq!(call(&store, "executions.get", json!({ "id": "run" }))["status"], "pending");
    }
}

/// Lesson 6.
#[test]
fn a_job_that_crashes_its_process_each_time_dies_after_its_attempts() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let open = || Store::open_with(&path, options(&clock)).unwrap();
    call(&open(), "queue.enqueue", json!({ "queue": "q", "id": "item", "maxAttempts": 3 }));
    for n in 1..=3 {
        // Each process claims, and is never heard of again; nobody sweeps.
        let store = open();
        assert_eq!(claim_one(&store, "q")["attempt"], n);
        drop(store);
        clock.advance(60_000);
        assert!(claim(&open(), "q").is_empty(), "the claim that finds the expired lease begins the backoff");
        clock.advance(64_000);
    }
    let store = open();
    assert!(claim(&store, "q").is_empty());
    assert_eq!(item(&store, &json!("item"))["status"], "dead_lettered");
    let attempts = call(&store, "queue.attempts", json!({ "id": "item" }));
    let told: Vec<_> = attempts.as_array().unwrap().iter().map(|one| (one["attempt"].clone(), one["outcome"].clone())).collect();
    assert_eq!(told, [1, 2, 3].map(|n| (json!(n), json!("lease_expired"))));
}

/// Lesson 7.
#[test]
fn a_new_process_of_the_same_name_does_not_adopt_an_old_lease() {
    let (store, clock) = in_memory();
    let worker = json!({ "workerId": "w", "pool": "p", "queues": ["q"], "capabilities": [], "livenessTtlMs": 500 });
    call(&store, "workers.register", worker.clone());
    call(&store, "queue.enqueue", json!({ "queue": "q", "id": "item" }));
    let old = claim_one(&store, "q");
    clock.advance(600);
    assert_eq!(call(&store, "workers.register", worker)["outcome"], "registered", "the old one has lapsed");
    for _ in 0..4 {
        clock.advance(99);
        call(&store, "workers.heartbeat", json!({ "workerId": "w" }));
        assert!(claim(&store, "q").is_empty());
        assert_eq!(item(&store, &json!("item"))["leaseExpiresAt"], old["leaseExpiresAt"]);
    }
    clock.advance(4);
    assert_eq!(sweep(&store)["leasesRetried"], 1);
    clock.advance(2000);
    assert_eq!(claim_one(&store, "q")["attempt"], 2);
}

/// Lesson 8.
#[test]
fn a_long_job_that_renews_is_never_taken_away() {
    let (store, clock) = with_run(json!({}));
    let job = claim_one(&store, "q");
    // Ten periods, a renewal each third of one.
    for n in 1..=30 {
        clock.advance(333);
        assert_eq!(sweep(&store)["leasesRetried"], 0);
        assert!(claim_as(&store, "q", json!({ "workerId": "other" })).is_empty());
        let renewed = call(&store, "queue.renew", held(&job));
        assert_eq!(renewed["leaseExpiresAt"], START + n * 333 + 1000);
        assert_eq!(renewed["late"], false);
    }
    complete(&store, &job);
    assert_eq!(call(&store, "queue.attempts", json!({ "id": "item" })), json!([]));
    assert_eq!(told(&store), [""; 0]);
}

/// Runs two calls at the same moment on connections of their own.
fn race(stores: &[Store; 2], calls: [(&str, Value); 2]) -> [Result<Value, runkeep::Error>; 2] {
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        let [a, b] = [0, 1].map(|n| {
            let (start, store, (operation, arguments)) = (&start, &stores[n], calls[n].clone());
            scope.spawn(move || {
                start.wait();
                try_call(store, operation, arguments)
            })
        });
        [a.join().unwrap(), b.join().unwrap()]
    })
}

/// Lesson 9.
#[test]
fn a_job_is_never_both_finished_and_failed() {
    let folder = Folder::new();
    let stores = [0, 1].map(|_| Store::open(folder.file("store.db")).unwrap());
    let others = [
        ("queue.fail", json!({ "error": "e", "retryable": false })),
        ("queue.fail", json!({ "error": "e", "delayMs": 600_000 })),
        ("queue.release", json!({ "delayMs": 600_000 })),
        ("queue.complete", json!({ "output": 2 })),
    ];
    let mut firsts = [0; 2];
    for round in 0..200 {
        call(&stores[0], "queue.enqueue", json!({ "queue": "q" }));
        let job = claim_as(&stores[0], "q", json!({ "leaseMs": 600_000 })).remove(0);
        let (operation, more) = &others[round % others.len()];
        let mut calls =
            [("queue.complete", with(&held(&job), json!({ "output": 1 }))), (*operation, with(&held(&job), more.clone()))];
        if round % 2 == 1 {
            calls.swap(0, 1);
        }
        let outcomes = race(&stores, calls.clone());
        let first = outcomes.iter().position(Result::is_ok).expect("one succeeds");
        firsts[first] += 1;
        let refused = outcomes[1 - first].as_ref().expect_err("and the other does not");
        assert_eq!(refused.code().as_str(), "conflict");
        let settled = item(&stores[1], &job["id"]);
        let (winner, arguments) = &calls[first];
        let expected = match *winner {
            "queue.complete" => ("completed", arguments["output"].clone()),
            "queue.fail" if arguments.get("retryable").is_some() => ("dead_lettered", Value::Null),
            _ => ("scheduled", Value::Null),
        };
        assert_eq!((settled["status"].as_str().unwrap(), &settled["output"]), (expected.0, &expected.1), "{winner} {refused}");
        // And the same call once more is answered as it was.
        assert_eq!(&try_call(&stores[1 - first], winner, arguments.clone()).unwrap(), outcomes[first].as_ref().unwrap());
    }
    println!("the first of the two was first {firsts:?} times");
}

/// Lesson 10.
#[test]
fn a_concurrency_slot_neither_leaks_nor_is_given_back_twice() {
    for limit in ["concurrency", "keyConcurrency"] {
        let (store, clock) = in_memory();
        call(&store, "queues.configure", json!({ "name": "q", limit: 1, "backoff": { "kind": "fixed", "baseMs": 0 } }));
        let mut number = 0;
        let mut enqueue = |more: Value| {
            number += 1;
            let item = json!({ "queue": "q", "id": format!("item-{number}"), "concurrencyKey": "k" });
            call(&store, "queue.enqueue", with(&item, more));
        };
        let running = || call(&store, "queues.stats", json!({ "queue": "q" }))["counts"]["claimed"].as_i64().unwrap();
        // Takes what can be taken: one, and no more.
        let one = || {
            let mut claimed = claim(&store, "q");
            assert_eq!((claimed.len(), running()), (1, 1), "{limit}");
            claimed.remove(0)
        };
        // The story of the lesson: A's lease is swept, B runs, A finishes late.
        (0..4).for_each(|_| enqueue(json!({ "maxAttempts": 10 })));
        let a = one();
        clock.advance(1000);
        sweep(&store);
        let b = one();
        assert_eq!(code(&store, "queue.complete", held(&a)), "lease_lost");
        assert!(claim(&store, "q").is_empty(), "{limit}: B runs");
        complete(&store, &b);
        assert_eq!(running(), 0);

        // Each other way in which a delivery ends frees the slot, once.
        let slot = one();
        call(&store, "queue.release", held(&slot));
        let slot = one();
        fail(&store, &slot, json!({}));
        let slot = one();
        fail(&store, &slot, json!({ "retryable": false }));
        call(&store, "deadLetters.redrive", json!({ "id": slot["id"] }));
        let slot = one();
        call(&store, "queue.cancel", json!({ "id": slot["id"] }));
        assert!(claim(&store, "q").is_empty(), "{limit}: asked to stop, and still running");
        call(&store, "queue.release", held(&slot));
        let slot = one();
        assert_eq!(code(&store, "queue.cancel", json!({ "id": b["id"] })), "conflict");
        // Repeated settlements, and those of zombies.
        for _ in 0..3 {
            complete(&store, &slot);
            assert_eq!(code(&store, "queue.complete", held(&a)), "lease_lost");
        }
        let slot = one();
        let worker = json!({ "workerId": "w", "pool": "p", "queues": [], "capabilities": [], "livenessTtlMs": 1000 });
        call(&store, "workers.register", worker);
        call(&store, "workers.markDead", json!({ "workerId": "w", "reason": "gone" }));
        let again = one();
        assert_eq!(code(&store, "queue.release", held(&slot)), "lease_lost");
        assert!(claim(&store, "q").is_empty());
        complete(&store, &again);
        while let Some(rest) = claim(&store, "q").first() {
            assert_eq!(running(), 1);
            complete(&store, rest);
        }
        let counts = call(&store, "queues.stats", json!({ "queue": "q" }))["counts"].clone();
        assert_eq!((&counts["claimed"], &counts["pending"], &counts["scheduled"]), (&json!(0), &json!(0), &json!(0)));
        enqueue(json!({}));
        one();
    }
}

/// Lesson 11.
#[test]
fn a_payload_that_no_handler_can_read_backs_off_and_dies_and_holds_nobody_up() {
    let (store, clock) = in_memory();
    call(&store, "queue.enqueue", json!({ "queue": "q", "id": "poison", "payload": "\u{0}?", "priority": 9 }));
    let mut deliveries = Vec::new();
    for n in 0..20 {
        call(&store, "queue.enqueue", json!({ "queue": "q", "id": format!("good-{n}") }));
        // A worker that loops as fast as it can.
        while let Some(job) = claim_as(&store, "q", json!({ "limit": 1 })).first() {
            if job["id"] == "poison" {
                let error = json!({ "message": "cannot parse", "code": "bad_payload" });
                deliveries.push((n, fail(&store, job, json!({ "error": error }))["outcome"].clone()));
            } else {
                complete(&store, job);
            }
        }
        assert_eq!(item(&store, &json!(format!("good-{n}")))["status"], "completed");
        clock.advance(1000);
    }
    // At once, after 2 s and after 4 more.
    assert_eq!(deliveries, [(0, json!("retry_scheduled")), (2, json!("retry_scheduled")), (6, json!("dead_lettered"))]);
    let letters = pages(&store, "deadLetters.list", json!({ "queue": "q" }));
    assert_eq!(ids(&letters), ["poison"]);
    assert_eq!(letters[0]["lastError"], json!({ "message": "cannot parse", "code": "bad_payload" }));
}

/// Lesson 12.
#[test]
fn a_run_that_waits_for_an_approval_still_waits_after_a_restart() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let open = || Store::open_with(&path, options(&clock)).unwrap();
    let store = open();
    let append = |store: &Store, event_type: &str, data: Value| {
        call(store, "events.append", json!({ "executionId": "run", "type": event_type, "data": data }));
    };
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    append(&store, "workflow_started", json!({ "workflowId": "w", "workflowVersion": "1", "initialInput": {} }));
    append(&store, "interrupt_raised", json!({ "nodeId": "n", "reason": "sure?", "stateForReview": {} }));
    drop(store);
    for _ in 0..3 {
        let store = open();
        // Days pass, and the upkeep after a restart runs.
        clock.advance(3 * 24 * 60 * 60 * 1000);
        call(&store, "sweep", json!({ "intervalMs": 1000 }));
        let run = call(&store, "executions.get", json!({ "id": "run" }));
        assert_eq!((&run["status"], &run["lastSequence"]), (&json!("paused"), &json!(2)));
        let folded = call(&store, "executions.materialize", json!({ "id": "run" }));
        assert_eq!(folded["pendingApprovals"].as_array().unwrap().len(), 1);
    }
    let store = open();
    append(&store, "approval_received", json!({ "nodeId": "n", "decision": "approved" }));
    assert_eq!(call(&store, "executions.get", json!({ "id": "run" }))["status"], "running");
}

/// Lesson 13.
#[test]
fn cancelling_what_is_completed_says_so_and_changes_nothing() {
    let (store, _) = with_run(json!({}));
    complete(&store, &claim_one(&store, "q"));
    let before = item(&store, &json!("item"));
    let error = try_call(&store, "queue.cancel", json!({ "id": "item" })).unwrap_err();
    assert_eq!((error.code().as_str(), &error.details()["status"]), ("conflict", &json!("completed")));
    assert!(error.message().contains("completed"), "{error}");
    assert_eq!(item(&store, &json!("item")), before);
    assert_eq!(told(&store), [""; 0]);
}

/// Lesson 13, in a thousand orders of what can happen to an item.
#[test]
fn after_any_order_of_cancel_and_complete_the_item_is_what_the_call_that_succeeded_said() {
    for seed in 1..=1000 {
        let mut random = Random(seed);
        let (store, clock) = with_run(json!({ "maxAttempts": 2, "backoff": { "kind": "fixed", "baseMs": 10 } }));
        let mut deliveries: Vec<Value> = Vec::new();
        // What the calls that succeeded have made of it.
        let (mut ended, mut asked) = (None, false);
        for _ in 0..8 {
            let job = deliveries.last().map(held);
            let said = match random.below(7) {
                0 | 1 => try_call(&store, "queue.cancel", json!({ "id": "item" })).map(|answer| ("cancel", answer)),
                2 | 3 => match &job {
                    Some(job) => try_call(&store, "queue.complete", job.clone()).map(|answer| ("complete", answer)),
                    None => continue,
                },
                4 => match &job {
                    Some(job) => try_call(&store, "queue.release", job.clone()).map(|answer| ("release", answer)),
                    None => continue,
                },
                5 => {
                    deliveries.extend(claim(&store, "q"));
                    continue;
                }
                _ => {
                    clock.advance(random.below(700) as i64);
                    let report = sweep(&store);
                    if report["leasesCancelled"] == 1 {
                        ended = Some("cancelled");
                    } else if report["leasesDeadLettered"] == 1 {
                        ended = Some("dead_lettered");
                    }
                    continue;
                }
            };
            let before = ended;
            match said {
                Ok(("cancel", answer)) if answer["status"] == "cancelled" => ended = Some("cancelled"),
                Ok(("cancel", answer)) => {
                    assert_eq!(answer["cancelRequested"], true, "seed {seed}");
                    asked = true;
                }
                Ok(("complete", answer)) => {
                    assert_eq!(answer["status"], "completed", "seed {seed}");
                    ended = Some("completed");
                }
                Ok((_, answer)) => {
                    assert_eq!(answer["outcome"], if asked { "cancelled" } else { "released" }, "seed {seed}");
                    ended = if asked { Some("cancelled") } else { ended };
                }
                Err(error) => assert!(["conflict", "lease_lost"].contains(&error.code().as_str()), "seed {seed}: {error}"),
            }
            assert!(before.is_none() || before == ended, "seed {seed}: {before:?} became {ended:?}");
            let status = item(&store, &json!("item"))["status"].clone();
            match ended {
                Some(ended) => assert_eq!(status, ended, "seed {seed}"),
                None => assert!(["scheduled", "pending", "claimed"].contains(&status.as_str().unwrap()), "seed {seed}: {status}"),
            }
        }
        let cancelled = told(&store).iter().filter(|event_type| *event_type == "node_cancelled").count();
        assert_eq!(cancelled, usize::from(ended == Some("cancelled")), "seed {seed}");
    }
}

/// Lesson 13, at the same moment on two connections.
#[test]
fn cancel_and_complete_at_the_same_moment_agree() {
    let folder = Folder::new();
    let stores = [0, 1].map(|_| Store::open(folder.file("store.db")).unwrap());
    for round in 0..100 {
        call(&stores[0], "queue.enqueue", json!({ "queue": "q" }));
        let job = claim_one(&stores[0], "q");
        let [cancelled, completed] =
            race(&stores, [("queue.cancel", json!({ "id": job["id"] })), ("queue.complete", held(&job))]);
        assert_eq!(completed.unwrap()["status"], "completed", "round {round}");
        let settled = item(&stores[0], &job["id"]);
        assert_eq!(settled["status"], "completed", "round {round}");
        match cancelled {
            Ok(asked) => assert_eq!((&asked["status"], &asked["cancelRequested"]), (&json!("claimed"), &json!(true))),
            Err(error) => assert_eq!((error.code().as_str(), &settled["cancelRequested"]), ("conflict", &json!(false))),
        }
    }
}

/// Lesson 14.
#[test]
fn items_that_need_what_a_worker_lacks_do_not_starve_it() {
    let (store, clock) = in_memory();
    let gpu: Vec<_> =
        (0..100).map(|n| json!({ "queue": "q", "id": format!("gpu-{n}"), "requires": ["gpu"], "priority": 5 })).collect();
    call(&store, "queue.enqueueMany", json!({ "items": gpu }));
    call(&store, "queue.enqueue", json!({ "queue": "q", "id": "both", "requires": ["gpu", "big"], "priority": 9 }));
    let plain = |id: &str| call(&store, "queue.enqueue", json!({ "queue": "q", "id": id }));
    let worker = |id: &str, capabilities: Value| {
        let worker =
            json!({ "workerId": id, "pool": "p", "queues": ["q"], "capabilities": capabilities, "livenessTtlMs": 10_000 });
        call(&store, "workers.register", worker);
    };
    worker("plain", json!(["cpu"]));
    worker("gpu", json!(["gpu", "cpu"]));
    worker("both", json!(["big", "gpu"]));
    for who in ["plain", "nobody-registered"] {
        plain(who);
        assert_eq!(ids(&claim_as(&store, "q", json!({ "workerId": who }))), [who]);
    }
    plain("last");
    let claimed = claim_as(&store, "q", json!({ "workerId": "gpu", "limit": 3 }));
    assert_eq!(ids(&claimed), ["gpu-0", "gpu-1", "gpu-2"], "by priority, and not the one that needs more");
    assert_eq!(claimed[0]["requires"], json!(["gpu"]));
    assert_eq!(ids(&claim_as(&store, "q", json!({ "workerId": "both", "limit": 2 }))), ["both", "gpu-3"]);
    // What it can do is what it says now.
    worker("gpu", json!(["cpu"]));
    assert_eq!(ids(&claim_as(&store, "q", json!({ "workerId": "gpu" }))), ["last"]);
    // Who has lapsed can do nothing.
    clock.advance(10_000);
    plain("later");
    let claimed = claim_as(&store, "q", json!({ "workerId": "both", "leaseMs": 1_000_000, "limit": 1 }));
    assert_eq!(ids(&claimed), ["later"]);
}

/// Lesson 17.
#[test]
fn a_reader_in_the_middle_of_a_list_keeps_nobody_from_writing() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let [reader, writer] = [0, 1].map(|_| Store::open_with(&path, options(&clock)).unwrap());
    call(&writer, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    let write = |n: i64| {
        call(&writer, "queue.enqueue", json!({ "queue": "q", "id": format!("item-{n}") }));
        call(&writer, "events.append", json!({ "executionId": "run", "type": "x-a", "data": n }));
        // Nobody holds a lock, not even for reading: the log can be truncated, which waits for readers.
        let raw = rusqlite::Connection::open(&path).unwrap();
        raw.busy_timeout(std::time::Duration::ZERO).unwrap();
        let busy: i64 = raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert_eq!(busy, 0, "a list was left open");
    };
    (0..10).for_each(write);
    for (operation, filter) in [("queue.list", json!({})), ("events.list", json!({ "executionId": "run" }))] {
        let mut seen = 0;
        let mut cursor = Value::Null;
        loop {
            let page = call(&reader, operation, with(&filter, json!({ "limit": 3, "cursor": cursor })));
            seen += page["items"].as_array().unwrap().len();
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
            if seen < 20 {
                write(1000 + seen as i64 + if operation == "queue.list" { 0 } else { 100 });
            }
        }
        assert!(seen > 12, "{seen}: rows that came meanwhile are seen too");
    }
}

/// Lesson 19.
#[test]
fn a_clock_that_goes_back_changes_no_order_but_that_of_run_at() {
    let (store, clock) = in_memory();
    let worker = json!({ "workerId": "w-1", "pool": "p", "queues": [], "capabilities": [], "livenessTtlMs": 100_000 });
    for n in 1..=2 {
        call(&store, "executions.create", json!({ "workflowId": "w", "id": format!("run-{n}") }));
        let appended = call(&store, "events.append", json!({ "executionId": "run-1", "type": "x-a", "data": n }));
        assert_eq!((&appended["sequence"], &appended["createdAt"]), (&json!(n), &json!(START - 100 * (n - 1))));
        call(&store, "queue.enqueue", json!({ "queue": "q", "id": format!("item-{n}") }));
        call(&store, "workers.register", with(&worker, json!({ "workerId": format!("w-{n}") })));
        clock.advance(-100);
    }
    let sequence = |event: &Value| event["sequence"].as_i64().unwrap();
    let events = pages(&store, "events.list", json!({ "executionId": "run-1" }));
    assert_eq!(events.iter().map(sequence).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(ids(&pages(&store, "executions.list", json!({}))), ["run-1", "run-2"]);
    assert_eq!(ids(&pages(&store, "queue.list", json!({}))), ["item-1", "item-2"]);
    let changes = pages(&store, "workers.history", json!({}));
    assert_eq!(changes.iter().map(|one| one["workerId"].clone()).collect::<Vec<_>>(), ["w-1", "w-2"]);
    // What ran at an earlier time by the clock goes first; both can be claimed although one "is in the future" now.
    clock.set(START - 1000);
    assert_eq!(ids(&claim(&store, "q")), ["item-2", "item-1"]);
    // Fences rise whatever the clock says, and a lease from before the jump is as good as any.
    let job = item(&store, &json!("item-1"));
    clock.set(START - 100_000);
    call(&store, "queue.release", held(&job));
    let again = claim_one(&store, "q");
    assert_eq!(again["id"], "item-1");
    assert!(again["fence"].as_i64() > job["fence"].as_i64());
    assert_eq!(code(&store, "queue.complete", held(&job)), "lease_lost");
    complete(&store, &again);
}
