//! The registry of workers, namespaces, expired leases, and what a sleep of the device does to both.

mod common;

use std::collections::BTreeSet;

use common::{
    Folder, START, call, claim, claim_as, claim_one, clock, code, complete, held, ids, in_memory, item, options, pages, try_call,
    with,
};
use runkeep::{ManualClock, Store};
use serde_json::{Value, json};

fn register(store: &Store, more: Value) -> Value {
    let worker = json!({ "workerId": "w", "pool": "p", "queues": [], "capabilities": [], "livenessTtlMs": 1000 });
    call(store, "workers.register", with(&worker, more))
}

fn enqueue(store: &Store, count: usize) {
    let items: Vec<_> = (0..count).map(|n| json!({ "queue": "q", "id": format!("i-{n}") })).collect();
    call(store, "queue.enqueueMany", json!({ "items": items }));
}

fn worker_ids(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["workerId"].as_str().unwrap()).collect()
}

#[test]
fn the_history_of_the_registry_tells_what_happened_to_whom_in_order() {
    let (store, clock) = in_memory();
    register(&store, json!({ "workerId": "a" }));
    register(&store, json!({ "workerId": "a" }));
    clock.advance(10);
    for _ in 0..5 {
        call(&store, "workers.heartbeat", json!({ "workerId": "a" }));
    }
    register(&store, json!({ "workerId": "b", "namespace": "other", "pool": "p2" }));
    call(&store, "workers.markDead", json!({ "workerId": "a", "reason": "tab closed, \"quoted\" 🚪" }));
    call(&store, "workers.markDead", json!({ "workerId": "a", "reason": "twice" }));
    clock.advance(1000);
    assert_eq!(call(&store, "sweep", json!({}))["workersExpired"], 1);
    register(&store, json!({ "workerId": "b", "namespace": "other" }));
    clock.advance(1000);
    // Lapsed, and registered again before any sweep has met it.
    register(&store, json!({ "workerId": "b", "namespace": "other" }));
    let entry = |worker: &str, namespace: &str, pool: &str, change: &str, at: i64| json!({ "workerId": worker, "namespace": namespace, "pool": pool, "change": change, "at": START + at });
    let expected = [
        entry("a", "default", "p", "registered", 0),
        entry("a", "default", "p", "refreshed", 0),
        entry("b", "other", "p2", "registered", 10),
        with(&entry("a", "default", "p", "marked_dead", 10), json!({ "reason": "tab closed, \"quoted\" 🚪" })),
        entry("b", "other", "p2", "ttl_swept", 1010),
        entry("b", "other", "p", "registered", 1010),
        entry("b", "other", "p", "ttl_swept", 2010),
        entry("b", "other", "p", "registered", 2010),
    ];
    assert_eq!(pages(&store, "workers.history", json!({ "limit": 3 })), expected);
    let backwards: Vec<_> = expected.iter().rev().cloned().collect();
    assert_eq!(pages(&store, "workers.history", json!({ "limit": 3, "order": "desc" })), backwards);
    for (filter, kept) in [
        (json!({ "workerId": "a" }), [true, true, false, true, false, false, false, false]),
        (json!({ "namespace": "other" }), [false, false, true, false, true, true, true, true]),
        (json!({ "namespace": "other", "workerId": "a" }), [false; 8]),
    ] {
        let wanted: Vec<_> = expected.iter().zip(kept).filter(|(_, kept)| *kept).map(|(one, _)| one.clone()).collect();
        assert_eq!(pages(&store, "workers.history", with(&filter, json!({ "limit": 1 }))), wanted, "{filter}");
    }
}

#[test]
fn a_worker_id_belongs_to_one_pool_while_it_lives() {
    let (store, clock) = in_memory();
    assert_eq!(register(&store, json!({})), json!({ "outcome": "registered", "nextExpiryAt": START + 1000 }));
    clock.advance(999);
    let elsewhere = json!({ "workerId": "w", "pool": "p2", "queues": [], "capabilities": [], "livenessTtlMs": 1000 });
    let error = try_call(&store, "workers.register", elsewhere.clone()).unwrap_err();
    assert_eq!((error.code().as_str(), &error.details()["pool"]), ("conflict", &json!("p")));
    assert!(error.message().contains("worker id reassigned"), "{error}");
    assert_eq!(call(&store, "workers.list", json!({}))["items"][0]["pool"], "p");
    // In another namespace it is another worker.
    let there = call(&store, "workers.register", with(&elsewhere, json!({ "namespace": "n" })));
    assert_eq!(there["outcome"], "registered");
    // Lapsed counts as absent, to the millisecond, and so does dead.
    clock.advance(1);
    assert_eq!(call(&store, "workers.heartbeat", json!({ "workerId": "w" })), json!({ "outcome": "not_registered" }));
    assert_eq!(call(&store, "workers.register", elsewhere)["outcome"], "registered");
    call(&store, "workers.markDead", json!({ "workerId": "w", "reason": "" }));
    assert_eq!(register(&store, json!({}))["outcome"], "registered");
    assert_eq!(register(&store, json!({ "livenessTtlMs": 50 })), json!({ "outcome": "refreshed", "nextExpiryAt": START + 1050 }));
    clock.advance(40);
    let beat = call(&store, "workers.heartbeat", json!({ "workerId": "w", "load": 0.5 }));
    assert_eq!(beat, json!({ "outcome": "refreshed", "nextExpiryAt": START + 1090 }), "the TTL of the registration");
}

#[test]
fn namespaces_keep_workers_and_their_leases_apart() {
    let (store, clock) = in_memory();
    enqueue(&store, 4);
    for namespace in ["here", "there"] {
        register(&store, json!({ "namespace": namespace, "capabilities": [namespace], "livenessTtlMs": 100_000 }));
        call(&store, "queue.enqueue", json!({ "queue": "q", "id": namespace, "requires": [namespace], "priority": 1 }));
    }
    let take = |namespace: &str| claim_as(&store, "q", json!({ "namespace": namespace, "limit": 2 }));
    assert_eq!(ids(&take("here")), ["here", "i-0"], "what a worker can do is what it said in its namespace");
    assert_eq!(ids(&take("there")), ["there", "i-1"]);
    assert_eq!(ids(&claim(&store, "q")), ["i-2", "i-3"]);
    assert_eq!(pages(&store, "workers.list", json!({ "namespace": "here" })).len(), 1);
    assert_eq!(pages(&store, "workers.list", json!({})).len(), 2);
    assert_eq!(pages(&store, "workers.list", json!({ "namespace": "default" })).len(), 0);
    assert_eq!(call(&store, "workers.heartbeat", json!({ "workerId": "w" }))["outcome"], "not_registered");
    // A death ends what is held in its namespace.
    let dead = call(&store, "workers.markDead", json!({ "workerId": "w", "namespace": "there", "reason": "gone" }));
    assert_eq!(dead, json!({ "outcome": "marked", "leasesEnded": 2 }));
    assert_eq!(item(&store, &json!("i-1"))["status"], "scheduled");
    clock.advance(1000);
    let expired = |namespace: Value| {
        let all = pages(&store, "leases.listExpired", json!({ "namespace": namespace }));
        all.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(expired(json!("here")), ["i-0", "here"]);
    assert_eq!(expired(json!("there")), [""; 0]);
    assert_eq!(expired(json!("default")), ["i-2", "i-3"]);
    assert_eq!(expired(Value::Null), ["i-0", "i-2", "i-3", "here"]);
    let dead = json!({ "workerId": "w", "namespace": "here", "reason": "gone", "releaseLeases": false });
    assert_eq!(call(&store, "workers.markDead", dead), json!({ "outcome": "marked", "leasesEnded": 0 }));
    assert_eq!(expired(json!("here")).len(), 2);
}

#[test]
fn sets_of_names_survive_commas_quotes_and_emoji() {
    let (store, _) = in_memory();
    let odd = ["a,b", "it's", "say \"hi\"", "back\\slash", "[brackets]", "🚀🧑‍🚀", "ümlaut", "a", "%_*", "null"];
    let mut sorted: Vec<_> = odd.to_vec();
    sorted.sort_unstable();
    let twice: Vec<_> = odd.iter().chain(odd.iter().rev()).collect();
    register(&store, json!({ "workerId": "all", "queues": twice, "capabilities": twice }));
    register(&store, json!({ "workerId": "b", "queues": ["b"], "capabilities": ["b"] }));
    let listed = pages(&store, "workers.list", json!({ "queue": "a,b" }));
    assert_eq!(worker_ids(&listed), ["all"]);
    assert_eq!((&listed[0]["queues"], &listed[0]["capabilities"]), (&json!(sorted), &json!(sorted)));
    for name in odd {
        assert_eq!(worker_ids(&pages(&store, "workers.list", json!({ "queue": name, "capability": name }))), ["all"], "{name}");
        let created =
            call(&store, "queue.enqueue", json!({ "queue": name, "id": name, "requires": [name], "concurrencyKey": name }));
        assert_eq!((&created["queue"], &created["requires"]), (&json!(name), &json!([name])));
        assert!(claim_as(&store, name, json!({ "workerId": "b" })).is_empty(), "{name}");
        let job = claim_as(&store, name, json!({ "workerId": "all" })).remove(0);
        assert_eq!(job["id"], name);
        complete(&store, &job);
        assert_eq!(call(&store, "queues.stats", json!({ "queue": name }))["counts"]["completed"], 1);
    }
    // Parts of a name are no names.
    for part in ["b\"", "say", "a,", ",b"] {
        assert!(pages(&store, "workers.list", json!({ "queue": part })).is_empty(), "{part}");
    }
    let everything = json!({ "queue": "q", "requires": odd });
    assert_eq!(call(&store, "queue.enqueue", everything)["requires"], json!(sorted));
    assert_eq!(claim_as(&store, "q", json!({ "workerId": "all" })).len(), 1);
}

#[test]
fn a_walk_over_expired_leases_is_stable_while_leases_of_the_same_moment_come_and_go() {
    let (store, clock) = in_memory();
    for queue in ["a", "b", "c"] {
        let items: Vec<_> = (0..20).map(|n| json!({ "queue": queue, "id": format!("{queue}-{n}") })).collect();
        call(&store, "queue.enqueueMany", json!({ "items": items }));
    }
    let take = |limit: i64| {
        let request = json!({ "workerId": "w", "queues": ["a", "b", "c"], "limit": limit, "leaseMs": 1000 });
        serde_json::from_value::<Vec<Value>>(call(&store, "queue.claim", request)).unwrap()
    };
    // All of them run out in the same millisecond.
    let held_all_along = take(40);
    clock.advance(1000);
    let as_of = START + 1000;
    let mut seen: Vec<String> = Vec::new();
    let mut cursor = Value::Null;
    let mut gone = BTreeSet::new();
    for round in 0.. {
        let page = call(&store, "leases.listExpired", json!({ "asOf": as_of, "limit": 3, "cursor": cursor }));
        let leases: Vec<Value> = serde_json::from_value(page["items"].clone()).unwrap();
        assert!(leases.iter().all(|lease| lease["leaseExpiresAt"] == as_of));
        seen.extend(leases.iter().map(|lease| lease["id"].as_str().unwrap().to_owned()));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
        // One settles, one is renewed, and one more comes that ran out in that very millisecond.
        let unwatched = &held_all_along[2 * round..];
        if unwatched.len() > 20 {
            complete(&store, &unwatched[0]);
            call(&store, "queue.renew", with(&held(&unwatched[1]), json!({ "leaseMs": 10_000 })));
            gone.extend([&unwatched[0], &unwatched[1]].map(|job| job["id"].as_str().unwrap().to_owned()));
        }
        clock.set(START);
        take(1);
        clock.set(as_of);
    }
    let distinct: BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "a lease was listed twice");
    for job in ids(&held_all_along) {
        assert!(gone.contains(job) || distinct.contains(&job.to_owned()), "{job} was there all along, and is not listed");
    }
    // Reading has changed nothing.
    let after = call(&store, "leases.listExpired", json!({ "asOf": as_of }));
    assert!(after["items"].as_array().unwrap().iter().all(|lease| item(&store, &lease["id"])["status"] == "claimed"));
}

#[test]
fn expired_leases_come_by_the_time_at_which_they_ran_out() {
    let (store, clock) = in_memory();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    let lease_ms = [50, 10, 30, 10, 20];
    for (n, lease) in lease_ms.into_iter().enumerate() {
        let queue = format!("q-{}", n % 2);
        let node = if n == 0 { json!({ "executionId": "run", "nodeId": "n" }) } else { json!({}) };
        call(&store, "queue.enqueue", with(&json!({ "queue": queue, "id": format!("i-{n}") }), node));
        claim_as(&store, &queue, json!({ "leaseMs": lease, "workerId": format!("w-{n}") }));
    }
    let list = |filter: Value| pages(&store, "leases.listExpired", filter);
    assert!(list(json!({})).is_empty());
    assert_eq!(ids(&list(json!({ "asOf": START + 100 }))), ["i-1", "i-3", "i-4", "i-2", "i-0"], "what will have run out by then");
    clock.advance(30);
    assert_eq!(ids(&list(json!({ "limit": 1 }))), ["i-1", "i-3", "i-4", "i-2"]);
    assert_eq!(ids(&list(json!({ "asOf": START + 10 }))), ["i-1", "i-3"]);
    clock.advance(20);
    let last = list(json!({})).pop().unwrap();
    let expected = json!({
        "id": "i-0", "executionId": "run", "queue": "q-0", "fence": 1, "workerId": "w-0", "namespace": "default", "attempt": 1,
        "leaseExpiresAt": START + 50,
    });
    assert_eq!(last, expected);
    for cursor in ["", "7", "a:b", "1:2:3", "99999999999999999999:1"] {
        assert_eq!(code(&store, "leases.listExpired", json!({ "cursor": cursor })), "invalid_argument", "{cursor}");
    }
}

#[test]
fn a_page_of_expired_leases_holds_up_to_ten_thousand() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    call(&store, "queue.enqueue", json!({ "queue": "q" }));
    claim_one(&store, "q");
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch(
        "CREATE TEMP TABLE one AS SELECT * FROM items;
         WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 10004)
         INSERT INTO items (key, id, tenant, queue, class, status, priority, attempt, max_attempts, run_at, fence, lease_expires_at, lease_ms,
                            namespace, worker_id, created_at, claimed_at)
         SELECT key + n, 'i-' || n, tenant, queue, class, status, priority, attempt, max_attempts, run_at, fence, lease_expires_at, lease_ms,
                namespace, worker_id, created_at, claimed_at FROM one, n;
         UPDATE queues SET claimed = claimed + 10004;",
    )
    .unwrap();
    clock.advance(1000);
    let first = call(&store, "leases.listExpired", json!({ "limit": 10_000 }));
    assert_eq!(first["items"].as_array().unwrap().len(), 10_000);
    let rest = call(&store, "leases.listExpired", json!({ "limit": 10_000, "cursor": first["nextCursor"] }));
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["nextCursor"]), (5, &Value::Null));
    assert_eq!(call(&store, "leases.listExpired", json!({}))["items"].as_array().unwrap().len(), 1000);
    for limit in [0, 10_001] {
        assert_eq!(code(&store, "leases.listExpired", json!({ "limit": limit })), "invalid_argument");
    }
}

const MINUTE: i64 = 60_000;

/// A store that is swept each `interval` milliseconds, with an item that a worker holds; both have a minute.
fn driven(interval: i64) -> (Store, ManualClock, Value) {
    let (store, clock) = in_memory();
    register(&store, json!({ "livenessTtlMs": MINUTE }));
    call(&store, "queue.enqueue", json!({ "queue": "q", "id": "item", "backoff": { "kind": "fixed", "baseMs": 0 } }));
    assert_eq!(tick(&store, interval)["suspendedMs"], 0);
    let job = claim_as(&store, "q", json!({ "leaseMs": MINUTE })).remove(0);
    (store, clock, job)
}

fn tick(store: &Store, interval: i64) -> Value {
    call(store, "sweep", json!({ "intervalMs": interval }))
}

#[test]
fn what_ran_out_while_the_device_slept_gets_as_much_time_again() {
    let (store, clock, job) = driven(1000);
    clock.advance(30 * MINUTE);
    // The page wakes. Others ask before its timer does: nothing is taken away.
    let other = claim_as(&store, "q", json!({ "workerId": "other" }));
    assert!(other.is_empty());
    assert_eq!(item(&store, &json!("item"))["status"], "claimed");
    assert_eq!(worker_ids(&pages(&store, "workers.list", json!({}))), ["w"]);
    let report = tick(&store, 1000);
    assert_eq!(
        (&report["suspendedMs"], &report["leasesRetried"], &report["workersExpired"]),
        (&json!(30 * MINUTE), &json!(0), &json!(0))
    );
    assert_eq!(item(&store, &json!("item"))["leaseExpiresAt"], START + 31 * MINUTE);
    assert_eq!(call(&store, "workers.list", json!({}))["items"][0]["expiresAt"], START + 31 * MINUTE);
    assert!(claim_as(&store, "q", json!({ "workerId": "other" })).is_empty());
    // The holder goes on as if nothing had been.
    clock.advance(1000);
    assert_eq!(tick(&store, 1000)["suspendedMs"], 0);
    assert_eq!(call(&store, "queue.renew", held(&job))["late"], false);
    complete(&store, &job);
}

#[test]
fn the_grace_of_a_sleep_is_given_once_for_each_claim_and_heartbeat() {
    let (store, clock, _) = driven(1000);
    for (sleep, lost) in [(10 * MINUTE, 0), (10 * MINUTE, 1)] {
        clock.advance(sleep);
        let report = tick(&store, 1000);
        assert_eq!(report["suspendedMs"], sleep);
        assert_eq!((&report["leasesRetried"], &report["workersExpired"]), (&json!(lost), &json!(lost)));
    }
    // Another claim is another fence, another registration another worker.
    register(&store, json!({ "livenessTtlMs": MINUTE }));
    let job = claim_as(&store, "q", json!({ "leaseMs": MINUTE })).remove(0);
    assert_eq!(job["attempt"], 2);
    clock.advance(10 * MINUTE);
    let report = tick(&store, 1000);
    assert_eq!((&report["leasesRetried"], &report["workersExpired"]), (&json!(0), &json!(0)));
    // A heartbeat begins anew, a renewal does not: it is the same claim.
    call(&store, "workers.heartbeat", json!({ "workerId": "w" }));
    call(&store, "queue.renew", held(&job));
    clock.advance(10 * MINUTE);
    let report = tick(&store, 1000);
    assert_eq!((&report["leasesRetried"], &report["workersExpired"]), (&json!(1), &json!(0)));
    // And a lease that nobody has taken up again after its grace ends.
    claim_as(&store, "q", json!({ "leaseMs": MINUTE })).remove(0);
    clock.advance(10 * MINUTE);
    tick(&store, 1000);
    clock.advance(MINUTE);
    assert_eq!(tick(&store, 1000)["leasesDeadLettered"], 1);
}

#[test]
fn a_heartbeat_right_after_waking_finds_its_worker_alive() {
    let (store, clock, _) = driven(1000);
    clock.advance(30 * MINUTE);
    let beat = call(&store, "workers.heartbeat", json!({ "workerId": "w" }));
    assert_eq!(beat, json!({ "outcome": "refreshed", "nextExpiryAt": START + 31 * MINUTE }));
    assert_eq!(tick(&store, 1000)["workersExpired"], 0);

    // So does a registration, and a claim of what needs a capability.
    let (store, clock, _) = driven(1000);
    register(&store, json!({ "livenessTtlMs": MINUTE, "capabilities": ["gpu"] }));
    call(&store, "queue.enqueue", json!({ "queue": "q", "id": "gpu", "requires": ["gpu"] }));
    clock.advance(30 * MINUTE);
    assert_eq!(ids(&claim(&store, "q")), ["gpu"]);
    assert_eq!(register(&store, json!({}))["outcome"], "refreshed");
}

#[test]
fn only_a_gap_over_two_minutes_and_three_intervals_is_a_sleep() {
    for (interval, longest_gap) in [(1000, 2 * MINUTE), (MINUTE, 3 * MINUTE), (40_000, 2 * MINUTE), (40_001, 120_003)] {
        let (store, clock, _) = driven(interval);
        clock.advance(longest_gap);
        let report = tick(&store, interval);
        assert_eq!((&report["suspendedMs"], &report["leasesRetried"]), (&json!(0), &json!(1)), "{interval}");

        let (store, clock, _) = driven(interval);
        clock.advance(longest_gap + 1);
        let report = tick(&store, interval);
        assert_eq!((&report["suspendedMs"], &report["leasesRetried"]), (&json!(longest_gap + 1), &json!(0)), "{interval}");
    }
}

#[test]
fn what_had_run_out_before_the_sleep_gets_no_grace() {
    let (store, clock, _) = driven(1000);
    clock.advance(MINUTE);
    // Due at the last tick already: the sweep of that tick would have ended it, had its limit not been used up.
    let (folder, slow) = (Folder::new(), common::clock());
    let crowded = Store::open_with(folder.file("store.db"), options(&slow)).unwrap();
    enqueue(&crowded, 3);
    claim(&crowded, "q");
    slow.advance(1000);
    assert_eq!(call(&crowded, "sweep", json!({ "intervalMs": 1000, "limit": 1 }))["leasesRetried"], 1);
    slow.advance(10 * MINUTE);
    let report = tick(&crowded, 1000);
    assert_eq!((&report["suspendedMs"], &report["leasesRetried"]), (&json!(10 * MINUTE), &json!(2)));

    let report = tick(&store, 1000);
    assert_eq!((&report["suspendedMs"], &report["leasesRetried"]), (&json!(0), &json!(1)));
}

#[test]
fn without_a_driver_nothing_is_a_sleep() {
    let (store, clock) = in_memory();
    enqueue(&store, 2);
    claim_as(&store, "q", json!({ "limit": 1 }));
    for _ in 0..2 {
        clock.advance(60 * MINUTE);
        // Without an interval it is a sweep, and no tick.
        let report = call(&store, "sweep", json!({}));
        assert_eq!(report["suspendedMs"], 0);
    }
    assert_eq!(item(&store, &json!("i-0"))["attempt"], 1);
    assert_eq!(call(&store, "queue.attempts", json!({ "id": "i-0" })).as_array().unwrap().len(), 1);
    // The first tick has none before it.
    clock.advance(60 * MINUTE);
    assert_eq!(tick(&store, 1000)["suspendedMs"], 0);
    // A claim between regular ticks does end what has run out.
    let (store, clock, _) = driven(1000);
    clock.advance(MINUTE + 1);
    assert_eq!(claim_as(&store, "q", json!({ "workerId": "other" })).len(), 1, "the backoff is 0 ms");
}
