//! What holds a queue back: concurrency, rates, holds and pauses.

mod common;

use common::{Folder, START, call, claim, claim_as, claim_one, clock, complete, fail, held, ids, in_memory, options, with};
use runkeep::{ManualClock, Store};
use serde_json::{Value, json};

fn configure(store: &Store, settings: Value) -> Value {
    call(store, "queues.configure", with(&json!({ "name": "q" }), settings))
}

/// Enqueues items `prefix-0`, `prefix-1` ….
fn fill(store: &Store, prefix: &str, count: usize, more: Value) {
    let items: Vec<_> = (0..count).map(|n| with(&json!({ "queue": "q", "id": format!("{prefix}-{n}") }), more.clone())).collect();
    call(store, "queue.enqueueMany", json!({ "items": items }));
}

#[test]
fn a_queue_runs_as_many_items_at_once_as_it_is_told() {
    let (store, clock) = in_memory();
    configure(&store, json!({ "concurrency": 2 }));
    fill(&store, "i", 10, json!({}));
    call(&store, "queue.enqueue", json!({ "queue": "free" }));
    let request = json!({ "workerId": "w", "queues": ["q", "free"], "limit": 10, "leaseMs": 1000 });
    let first: Vec<Value> = serde_json::from_value(call(&store, "queue.claim", request)).unwrap();
    assert_eq!(first.len(), 3, "two, and one of a queue without a limit");
    assert_eq!(ids(&first[..2]), ["i-0", "i-1"]);
    assert!(claim(&store, "q").is_empty());
    complete(&store, &first[0]);
    assert_eq!(ids(&claim(&store, "q")), ["i-2"]);
    // Higher: more at once. Lower than what runs: nothing until enough has ended. None: all.
    configure(&store, json!({ "concurrency": 5 }));
    assert_eq!(claim(&store, "q").len(), 3);
    configure(&store, json!({ "concurrency": 1 }));
    assert!(claim(&store, "q").is_empty());
    clock.advance(1000);
    assert_eq!(call(&store, "sweep", json!({}))["leasesRetried"], 6);
    assert_eq!(ids(&claim(&store, "q")), ["i-6"]);
    configure(&store, json!({ "concurrency": null }));
    assert_eq!(claim(&store, "q").len(), 3);
}

#[test]
fn one_turn_of_a_thread_runs_at_a_time_and_its_turns_stay_in_order() {
    let (store, _) = in_memory();
    configure(&store, json!({ "keyConcurrency": 1 }));
    for n in 0..5 {
        for thread in ["a", "b", "c"] {
            call(&store, "queue.enqueue", json!({ "queue": "q", "id": format!("{thread}-{n}"), "concurrencyKey": thread }));
        }
    }
    call(&store, "queue.enqueue", json!({ "queue": "q", "id": "free" }));
    for n in 0..5 {
        let turns = claim(&store, "q");
        let mut expected: Vec<_> = ["a", "b", "c"].iter().map(|thread| format!("{thread}-{n}")).collect();
        expected.extend((n == 0).then(|| "free".to_owned()));
        assert_eq!(ids(&turns), expected);
        assert!(claim(&store, "q").is_empty());
        turns.iter().for_each(|turn| drop(complete(&store, turn)));
    }
}

#[test]
fn the_limit_of_a_key_may_change_while_items_of_it_wait_and_run() {
    let (store, clock) = in_memory();
    let worker = json!({ "workerId": "w", "pool": "p", "queues": [], "capabilities": ["gpu"], "livenessTtlMs": 1_000_000 });
    call(&store, "workers.register", worker);
    fill(&store, "plain", 20, json!({ "concurrencyKey": "k" }));
    fill(&store, "gpu", 20, json!({ "concurrencyKey": "k", "requires": ["gpu"], "priority": 1 }));
    let runs = |expected: usize| {
        let claimed = claim_as(&store, "q", json!({ "limit": 1000, "leaseMs": 10_000 }));
        assert_eq!(claimed.len(), expected);
        claimed
    };
    configure(&store, json!({ "keyConcurrency": 2 }));
    let first = runs(2);
    assert_eq!(ids(&first), ["gpu-0", "gpu-1"]);
    configure(&store, json!({ "keyConcurrency": 5 }));
    assert_eq!(ids(&runs(3)), ["gpu-2", "gpu-3", "gpu-4"]);
    configure(&store, json!({ "keyConcurrency": 3 }));
    runs(0);
    complete(&store, &first[0]);
    complete(&store, &first[1]);
    runs(0);
    // What cannot be claimed by everybody does not keep the key's others back.
    configure(&store, json!({ "keyConcurrency": 4 }));
    assert_eq!(ids(&claim_as(&store, "q", json!({ "workerId": "plain", "limit": 10 }))), ["plain-0"]);
    configure(&store, json!({ "keyConcurrency": null }));
    assert_eq!(ids(&claim_as(&store, "q", json!({ "workerId": "plain", "limit": 2 }))), ["plain-1", "plain-2"]);
    configure(&store, json!({ "keyConcurrency": 1 }));
    runs(0);
    // Once all that runs has run out, one is let in; and it is the first of those that wait.
    clock.advance(20_000);
    assert_eq!(call(&store, "sweep", json!({}))["leasesRetried"], 6);
    assert_eq!(ids(&runs(1)), ["gpu-5"]);
    clock.advance(10_000);
    call(&store, "sweep", json!({}));
    clock.advance(2000);
    configure(&store, json!({ "keyConcurrency": null }));
    // 40, of which two are completed.
    runs(38);
}

/// When tokens come: the first `limit` at once, then one each `perMs / limit` milliseconds, to the millisecond.
fn expected_times(limit: i64, per_ms: i64, tokens: i64) -> Vec<i64> {
    (1 - limit..=tokens - limit).map(|n| if n <= 0 { 0 } else { (n * per_ms + limit - 1) / limit }).collect()
}

/// At which millisecond each item is handed out when asked for every `step` milliseconds.
fn times(store: &Store, clock: &ManualClock, count: usize, step: i64) -> Vec<i64> {
    let mut times = Vec::new();
    for at in (0..).step_by(step as usize) {
        clock.set(START + at);
        times.extend(claim_as(store, "q", json!({ "limit": 1000 })).iter().map(|job| {
            complete(store, job);
            at
        }));
        if times.len() >= count {
            return times;
        }
    }
    unreachable!()
}

#[test]
fn a_rate_limit_is_an_exact_token_bucket() {
    for setting in ["rateLimit", "keyRateLimit"] {
        for (limit, per_ms, tokens) in [(1, 10, 8), (3, 10, 20), (7, 30, 40), (10, 100, 30), (3, 100, 10), (5, 2, 15), (1, 1, 5)]
        {
            let (store, clock) = in_memory();
            configure(&store, json!({ setting: { "limit": limit, "perMs": per_ms } }));
            fill(&store, "i", tokens as usize, json!({ "concurrencyKey": "k" }));
            let expected = expected_times(limit, per_ms, tokens);
            assert_eq!(times(&store, &clock, tokens as usize, 1), expected, "{setting}: {limit} in {per_ms} ms");
        }
    }
}

#[test]
fn tokens_gather_while_nobody_asks_up_to_the_limit() {
    for setting in ["rateLimit", "keyRateLimit"] {
        let (store, clock) = in_memory();
        configure(&store, json!({ setting: { "limit": 4, "perMs": 1000 } }));
        fill(&store, "i", 50, json!({ "concurrencyKey": "k" }));
        let takes = |ms: i64, expected: usize| {
            clock.advance(ms);
            let jobs = claim(&store, "q");
            assert_eq!(jobs.len(), expected, "{setting}, {ms} ms later");
            jobs
        };
        takes(0, 4);
        takes(249, 0);
        takes(1, 1);
        takes(749, 2);
        takes(1, 1);
        takes(10_000_000, 4);
        takes(250, 1);
        // What comes back is handed out again, at the price of another token.
        let job = takes(250, 1).remove(0);
        call(&store, "queue.release", held(&job));
        takes(0, 0);
        let again = takes(250, 1);
        assert_eq!(again[0]["id"], job["id"]);
        // The same rate again keeps the bucket as it is; another one begins anew; none lets everything through.
        configure(&store, json!({ setting: { "limit": 4, "perMs": 1000 } }));
        takes(0, 0);
        configure(&store, json!({ setting: { "limit": 2, "perMs": 10 } }));
        takes(0, 2);
        takes(0, 0);
        configure(&store, json!({ setting: null }));
        takes(0, 10);
    }
}

#[test]
fn each_key_has_a_bucket_of_its_own_and_the_queue_one_for_all() {
    let (store, clock) = in_memory();
    configure(&store, json!({ "keyRateLimit": { "limit": 2, "perMs": 100 }, "rateLimit": { "limit": 5, "perMs": 100 } }));
    for key in ["a", "b"] {
        fill(&store, key, 10, json!({ "concurrencyKey": key }));
    }
    fill(&store, "free", 10, json!({ "priority": -1 }));
    assert_eq!(ids(&claim(&store, "q")), ["a-0", "a-1", "b-0", "b-1", "free-0"]);
    clock.advance(50);
    // The queue has two tokens by now, each key one.
    assert_eq!(ids(&claim(&store, "q")), ["a-2", "b-2"]);
    clock.advance(50);
    assert_eq!(ids(&claim(&store, "q")), ["a-3", "b-3", "free-1"]);
}

#[test]
fn many_keys_get_their_tokens_in_time() {
    let (store, clock) = in_memory();
    configure(&store, json!({ "keyRateLimit": { "limit": 1, "perMs": 1000 } }));
    for round in 0..3 {
        for key in 0..150 {
            call(
                &store,
                "queue.enqueue",
                json!({ "queue": "q", "id": format!("{round}-{key}"), "concurrencyKey": format!("k-{key}") }),
            );
        }
    }
    let take = || {
        let jobs = claim_as(&store, "q", json!({ "limit": 1000, "leaseMs": 100_000 }));
        jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let round = |n: i64| (0..150).map(|key| format!("{n}-{key}")).collect::<Vec<_>>();
    assert_eq!(take(), round(0));
    clock.advance(999);
    call(&store, "sweep", json!({}));
    assert_eq!(take(), [""; 0]);
    clock.advance(1);
    call(&store, "sweep", json!({}));
    assert_eq!(take(), round(1));
    // Without a sweep, each claim looks at some of them on its way.
    clock.advance(1000);
    let mut taken = take();
    assert!(taken.len() >= 100);
    taken.extend(take());
    taken.sort_unstable();
    let mut all = round(2);
    all.sort_unstable();
    assert_eq!(taken, all);
}

#[test]
fn a_clock_that_goes_back_brings_no_token_and_takes_no_time_away() {
    for setting in ["rateLimit", "keyRateLimit"] {
        let (store, clock) = in_memory();
        configure(&store, json!({ setting: { "limit": 2, "perMs": 1000 } }));
        // Of an earlier time, so that they can be claimed at all.
        fill(&store, "i", 20, json!({ "concurrencyKey": "k", "runAt": 0 }));
        let take = || claim(&store, "q").len();
        assert_eq!(take(), 2);
        clock.advance(250);
        assert_eq!(take(), 0);
        // An hour back: nothing comes of it, and from here on a token comes each 500 ms, as ever.
        clock.advance(-3_600_000);
        assert_eq!(take(), 0, "{setting}");
        clock.advance(499);
        assert_eq!(take(), 0, "{setting}");
        clock.advance(501);
        assert_eq!(take(), 2, "{setting}: two in a second, and not after an hour");
        clock.advance(500);
        assert_eq!(take(), 1, "{setting}");
        // Forward again: never more than the bucket holds.
        clock.advance(7_200_000);
        assert_eq!(take(), 2, "{setting}");
        assert_eq!(take(), 0, "{setting}");
    }
}

#[test]
fn a_hold_keeps_a_queue_back_until_its_time_or_until_it_is_lifted() {
    let (store, clock) = in_memory();
    fill(&store, "i", 5, json!({}));
    let running = claim_one(&store, "q");
    let until = START + 5000;
    assert_eq!(call(&store, "queues.hold", json!({ "name": "q", "until": until }))["heldUntil"], until);
    assert!(claim(&store, "q").is_empty());
    complete(&store, &running);
    call(&store, "queue.enqueue", json!({ "queue": "q" }));
    clock.advance(4999);
    assert!(claim(&store, "q").is_empty());
    clock.advance(1);
    let job = claim_one(&store, "q");
    // A later one, then an earlier one: the last word counts. And a pause is something else.
    call(&store, "queues.hold", json!({ "name": "q", "until": until + 10_000 }));
    call(&store, "queues.hold", json!({ "name": "q", "until": until + 100 }));
    call(&store, "queue.release", held(&job));
    clock.advance(100);
    assert_eq!(claim_one(&store, "q")["id"], job["id"]);
    call(&store, "queues.hold", json!({ "name": "q", "until": until + 10_000 }));
    call(&store, "queues.pause", json!({ "name": "q" }));
    let lifted = call(&store, "queues.hold", json!({ "name": "q", "until": null }));
    assert_eq!((lifted.get("heldUntil"), &lifted["paused"]), (None, &json!(true)));
    assert!(claim(&store, "q").is_empty());
    call(&store, "queues.resume", json!({ "name": "q" }));
    assert_eq!(claim(&store, "q").len(), 4);
}

#[test]
fn a_hold_of_a_key_keeps_its_items_back_and_no_others() {
    let (store, clock) = in_memory();
    for key in ["a", "b"] {
        fill(&store, key, 3, json!({ "concurrencyKey": key, "priority": 1 }));
    }
    fill(&store, "free", 1, json!({}));
    let running = claim_one(&store, "q");
    assert_eq!(running["id"], "a-0");
    // A provider says: not before five seconds.
    let hold = |until: Value| call(&store, "queues.hold", json!({ "name": "q", "key": "a", "until": until }));
    assert_eq!(hold(json!(START + 5000)).get("heldUntil"), None, "not the whole queue");
    fail(&store, &running, json!({ "delayMs": 0 }));
    call(&store, "queue.enqueue", json!({ "queue": "q", "id": "a-3", "concurrencyKey": "a", "priority": 9 }));
    assert_eq!(ids(&claim(&store, "q")), ["b-0", "b-1", "b-2", "free-0"]);
    assert_eq!(call(&store, "queues.stats", json!({ "queue": "q" }))["counts"]["pending"], 4);
    clock.advance(4999);
    assert!(claim(&store, "q").is_empty());
    clock.advance(1);
    assert_eq!(ids(&claim_as(&store, "q", json!({ "limit": 2 }))), ["a-3", "a-0"]);
    // Lifted before its time.
    hold(json!(START + 100_000));
    assert!(claim(&store, "q").is_empty());
    hold(Value::Null);
    assert_eq!(ids(&claim(&store, "q")), ["a-1", "a-2"]);
    // A hold of a key without items, of a queue without any, and beside a limit.
    call(&store, "queues.hold", json!({ "name": "later", "key": "k", "until": START + 100_000 }));
    call(&store, "queues.configure", json!({ "name": "later", "keyConcurrency": 1 }));
    for _ in 0..2 {
        call(&store, "queue.enqueue", json!({ "queue": "later", "concurrencyKey": "k" }));
    }
    assert!(claim(&store, "later").is_empty());
    clock.set(START + 100_000);
    assert_eq!(claim(&store, "later").len(), 1);
    assert!(claim(&store, "later").is_empty());
}

#[test]
fn a_paused_queue_hands_out_nothing_and_takes_everything_else() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    call(&store, "queues.pause", json!({ "name": "q" }));
    fill(&store, "i", 3, json!({}));
    assert!(claim(&store, "q").is_empty());
    call(&store, "queues.resume", json!({ "name": "q" }));
    let jobs = claim_as(&store, "q", json!({ "limit": 2 }));
    for _ in 0..2 {
        assert_eq!(call(&store, "queues.pause", json!({ "name": "q" }))["paused"], true);
    }
    call(&store, "queue.renew", held(&jobs[0]));
    complete(&store, &jobs[0]);
    clock.advance(1000);
    assert_eq!(call(&store, "sweep", json!({}))["leasesRetried"], 1, "time goes on");
    call(&store, "queue.cancel", json!({ "id": "i-2" }));
    drop(store);
    // Settings are kept.
    let store = Store::open_with(&path, options(&clock)).unwrap();
    clock.advance(2000);
    assert!(claim(&store, "q").is_empty());
    let info = &call(&store, "queues.list", json!({}))["items"][0];
    assert_eq!(info, &json!({ "name": "q", "paused": true }));
    call(&store, "queues.resume", json!({ "name": "q" }));
    assert_eq!(ids(&claim(&store, "q")), ["i-1"]);
}

#[test]
fn settings_that_are_left_out_stay_and_null_clears() {
    let (store, _) = in_memory();
    let rate = json!({ "limit": 5, "perMs": 1000 });
    let all = json!({
        "concurrency": 3, "keyConcurrency": 1, "rateLimit": rate, "keyRateLimit": rate, "maxAttempts": 7,
        "backoff": { "kind": "linear", "baseMs": 10, "factor": 3.0, "maxMs": 99, "jitter": 0.5 },
    });
    let expected = with(&all, json!({ "name": "q", "paused": false }));
    assert_eq!(configure(&store, all.clone()), expected);
    assert_eq!(configure(&store, json!({})), expected);
    for setting in all.as_object().unwrap().keys() {
        let info = configure(&store, json!({ setting: null }));
        assert_eq!(info.get(setting), None);
        assert_eq!(configure(&store, json!({ setting: all[setting] })), expected);
    }
}

#[test]
fn thousands_of_one_key_are_handed_out_in_order_among_others() {
    for settings in [json!({ "keyConcurrency": 100_000 }), json!({ "keyRateLimit": { "limit": 100_000, "perMs": 1 } }), json!({})]
    {
        let (store, clock) = in_memory();
        configure(&store, settings.clone());
        let priority = |n: i64| n * 7919 % 13;
        let mut expected = Vec::new();
        for some in 0..3 {
            let items: Vec<_> = (some * 1000..(some + 1) * 1000)
                .map(|n| {
                    expected.push((-priority(n), n));
                    let key = (n % 10 > 0).then_some("busy");
                    json!({ "queue": "q", "id": format!("{n}"), "concurrencyKey": key, "priority": priority(n) })
                })
                .collect();
            call(&store, "queue.enqueueMany", json!({ "items": items }));
            if some == 1 {
                call(&store, "queues.hold", json!({ "name": "q", "key": "busy", "until": START + 100 }));
                clock.advance(100);
            }
        }
        expected.sort_unstable();
        let mut taken = Vec::new();
        for limit in [1, 10, 1000, 300].into_iter().cycle() {
            let jobs = claim_as(&store, "q", json!({ "limit": limit, "leaseMs": 1_000_000 }));
            if jobs.is_empty() {
                break;
            }
            taken.extend(ids(&jobs).iter().map(|id| id.parse::<i64>().unwrap()));
        }
        assert_eq!(taken.len(), 3000, "{settings}");
        // Of one moment each; those of before the hold come first by their time.
        let (before, after): (Vec<_>, Vec<_>) = expected.iter().partition(|(_, n)| *n < 2000);
        let mut wanted: Vec<_> = before.into_iter().map(|(priority, n)| (priority, 0, n)).collect();
        wanted.extend(after.into_iter().map(|(priority, n)| (priority, 1, n)));
        wanted.sort_unstable();
        assert_eq!(taken, wanted.into_iter().map(|(_, _, n)| n).collect::<Vec<_>>(), "{settings}");
    }
}
