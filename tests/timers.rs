//! Timers fire once, late or not, and a broken one is in nobody's way.

mod common;

use common::{Folder, START, call, clock, code, in_memory, options, try_call};
use runkeep::{ErrorCode, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

fn run(store: &Store, id: &str) {
    call(store, "executions.create", json!({ "id": id, "workflowId": "w" }));
}

fn events(store: &Store, id: &str) -> Vec<Value> {
    call(store, "events.list", json!({ "executionId": id }))["items"].as_array().unwrap().clone()
}

fn fired(store: &Store, id: &str) -> Vec<Value> {
    let of_timers = |event: &Value| event["type"] == "timer_fired";
    events(store, id).into_iter().filter(of_timers).map(|event| event["data"].clone()).collect()
}

#[test]
fn a_timer_fires_once_and_enqueues_its_item_for_its_execution() {
    let (store, clock) = in_memory();
    run(&store, "run");
    let timer = call(
        &store,
        "timers.schedule",
        json!({
            "executionId": "run", "nodeId": "remind", "delayMs": 5000, "correlationKey": "k",
            "enqueue": { "queue": "mail", "payload": { "n": 12345678901234567890_u64 } }
        }),
    );
    assert_eq!(timer["created"], true);
    assert_eq!((&timer["status"], &timer["fireAt"]), (&json!("pending"), &json!(START + 5000)));
    let created = &events(&store, "run")[0];
    assert_eq!(created["type"], "timer_created");
    assert_eq!(created["data"], json!({ "nodeId": "remind", "fireAt": START + 5000, "correlationKey": "k" }));

    clock.advance(4999);
    assert_eq!(call(&store, "sweep", json!({}))["timersFired"], 0);
    clock.advance(1);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["timersFired"], &report["more"], &report["errors"]), (&json!(1), &json!(false), &json!([])));
    assert_eq!(call(&store, "sweep", json!({}))["timersFired"], 0);
    assert_eq!(fired(&store, "run"), [json!({ "nodeId": "remind", "lateByMs": 0, "correlationKey": "k" })]);

    let items = call(&store, "queue.list", json!({ "queue": "mail" }))["items"].clone();
    assert_eq!(items.as_array().unwrap().len(), 1);
    assert_eq!((&items[0]["executionId"], &items[0]["nodeId"]), (&json!("run"), &json!("remind")));
    assert_eq!(items[0]["payload"]["n"], json!(12345678901234567890_u64));
    let timer = call(&store, "timers.get", json!({ "id": timer["id"] }));
    assert_eq!((&timer["status"], &timer["lateByMs"]), (&json!("fired"), &json!(0)));
    assert_eq!(timer["firedAt"], START + 5000);
}

#[test]
fn a_time_in_the_past_fires_at_once_and_tells_how_late() {
    let (store, clock) = in_memory();
    run(&store, "run");
    call(&store, "timers.schedule", json!({ "executionId": "run", "nodeId": "n", "fireAt": START - 60_000 }));
    call(&store, "timers.schedule", json!({ "executionId": "run", "nodeId": "n", "fireAt": 0 }));
    assert_eq!(call(&store, "sweep", json!({}))["timersFired"], 2);
    // The one that is due for longest comes first.
    assert_eq!(fired(&store, "run"), [json!({ "nodeId": "n", "lateByMs": START }), json!({ "nodeId": "n", "lateByMs": 60_000 })]);
    // A clock that goes back and forth again fires nothing twice.
    clock.advance(-120_000);
    assert_eq!(call(&store, "sweep", json!({}))["timersFired"], 0);
    clock.advance(240_000);
    assert_eq!(call(&store, "sweep", json!({}))["timersFired"], 0);
}

#[test]
fn the_item_may_name_another_execution_and_wait() {
    let (store, clock) = in_memory();
    run(&store, "one");
    run(&store, "two");
    let enqueue = json!({ "queue": "q", "executionId": "two", "nodeId": "other", "delayMs": 1000, "priority": 3 });
    call(&store, "timers.schedule", json!({ "executionId": "one", "nodeId": "n", "delayMs": 10, "enqueue": enqueue }));
    clock.advance(10);
    call(&store, "sweep", json!({}));
    let item = call(&store, "queue.list", json!({}))["items"][0].clone();
    assert_eq!((&item["executionId"], &item["nodeId"]), (&json!("two"), &json!("other")));
    assert_eq!((&item["status"], &item["runAt"]), (&json!("scheduled"), &json!(START + 1010)));
}

#[test]
fn several_stores_on_one_file_fire_each_timer_once() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    run(&store, "run");
    for n in 0..120 {
        let enqueue = json!({ "queue": "q", "payload": n });
        call(&store, "timers.schedule", json!({ "executionId": "run", "nodeId": "n", "delayMs": n % 7, "enqueue": enqueue }));
    }
    clock.advance(10);
    let fired: i64 = std::thread::scope(|scope| {
        let sweepers: Vec<_> = (0..4)
            .map(|_| {
                let (path, clock) = (&path, &clock);
                scope.spawn(move || {
                    let store = Store::open_with(path, options(clock)).unwrap();
                    let mut fired = 0;
                    loop {
                        let report = call(&store, "sweep", json!({}));
                        assert_eq!(report["errors"], json!([]));
                        fired += report["timersFired"].as_i64().unwrap();
                        if report["more"] == false {
                            return fired;
                        }
                    }
                })
            })
            .collect();
        sweepers.into_iter().map(|sweeper| sweeper.join().unwrap()).sum()
    });
    assert_eq!(fired, 120);
    let events = call(&store, "events.list", json!({ "executionId": "run", "types": ["timer_fired"], "limit": 1000 }));
    assert_eq!(events["items"].as_array().unwrap().len(), 120);
    let items = call(&store, "queue.list", json!({ "limit": 1000 }))["items"].clone();
    let mut payloads: Vec<i64> = items.as_array().unwrap().iter().map(|item| item["payload"].as_i64().unwrap()).collect();
    payloads.sort_unstable();
    assert_eq!(payloads, (0..120).collect::<Vec<_>>());
}

#[test]
fn a_broken_timer_is_reported_and_the_others_fire() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    for id in ["run", "gone"] {
        run(&store, id);
    }
    let schedule = |id: &str, execution: &str, enqueue: Value| {
        let timer = json!({ "id": id, "executionId": execution, "nodeId": "n", "delayMs": 1, "enqueue": enqueue });
        call(&store, "timers.schedule", timer);
    };
    schedule("unreadable", "run", json!({ "queue": "q" }));
    schedule("other form", "run", json!({ "queue": "q" }));
    schedule("orphan", "gone", json!({ "queue": "q" }));
    schedule("refused", "run", json!({ "queue": "q", "executionId": "nobody", "nodeId": "n" }));
    schedule("good", "run", json!({ "queue": "q" }));
    let raw = Connection::open(&path).unwrap();
    raw.execute("UPDATE timers SET enqueue = '{\"queue\":' WHERE id = 'unreadable'", []).unwrap();
    raw.execute("UPDATE timers SET enqueue = '{\"qeue\":1}' WHERE id = 'other form'", []).unwrap();
    raw.execute_batch("PRAGMA foreign_keys = off; DELETE FROM executions WHERE id = 'gone'").unwrap();

    let damaged = call(&store, "timers.list", json!({}))["damaged"].clone();
    assert_eq!(damaged.as_array().unwrap().len(), 2, "{damaged}");
    assert_eq!(code(&store, "timers.get", json!({ "id": "orphan" })), "corrupt");
    clock.advance(1);
    let report = call(&store, "sweep", json!({}));
    assert_eq!(report["timersFired"], 1);
    let errors: Vec<_> = report["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["part"].as_str().unwrap(), error["id"].as_str().unwrap(), error["code"].as_str().unwrap()))
        .collect();
    assert_eq!(
        errors,
        [
            ("timers", "unreadable", "corrupt"),
            ("timers", "other form", "corrupt"),
            ("timers", "orphan", "corrupt"),
            ("timers", "refused", "not_found"),
        ]
    );
    // Each is reported once, and nothing of a failed firing is left.
    assert_eq!(call(&store, "sweep", json!({}))["errors"], json!([]));
    assert_eq!(fired(&store, "run").len(), 1);
    let refused = call(&store, "timers.get", json!({ "id": "refused" }));
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!("failed"), &json!("not_found")));
    assert_eq!(call(&store, "timers.get", json!({ "id": "good" }))["status"], "fired");
    assert_eq!(code(&store, "timers.cancel", json!({ "id": "refused" })), "invalid_transition");
}

#[test]
fn an_execution_that_has_ended_gets_the_event_and_no_work() {
    let (store, clock) = in_memory();
    run(&store, "run");
    let timer = json!({ "executionId": "run", "nodeId": "n", "delayMs": 1, "enqueue": { "queue": "q" } });
    call(&store, "timers.schedule", timer.clone());
    call(&store, "executions.cancel", json!({ "id": "run" }));
    assert_eq!(code(&store, "timers.schedule", timer), "invalid_transition");
    clock.advance(1);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["timersFired"], &report["errors"]), (&json!(1), &json!([])));
    assert_eq!(fired(&store, "run").len(), 1);
    assert_eq!(call(&store, "queue.list", json!({}))["items"], json!([]));
    assert_eq!(call(&store, "executions.get", json!({ "id": "run" }))["status"], "cancelled");
}

#[test]
fn timers_go_with_their_execution() {
    let (store, clock) = in_memory();
    run(&store, "run");
    call(&store, "timers.schedule", json!({ "id": "t", "executionId": "run", "nodeId": "n", "delayMs": 1 }));
    call(&store, "executions.delete", json!({ "id": "run" }));
    assert_eq!(call(&store, "timers.get", json!({ "id": "t" })), Value::Null);
    clock.advance(1);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["timersFired"], &report["errors"]), (&json!(0), &json!([])));
}

#[test]
fn scheduling_twice_makes_one_timer_and_cancelling_ends_it() {
    let (store, clock) = in_memory();
    run(&store, "run");
    let timer = json!({ "id": "t", "executionId": "run", "nodeId": "n", "delayMs": 100 });
    let first = call(&store, "timers.schedule", timer.clone());
    clock.advance(50);
    let second = call(&store, "timers.schedule", timer);
    assert_eq!((&second["created"], &second["fireAt"]), (&json!(false), &first["fireAt"]));
    assert_eq!(events(&store, "run").len(), 1);
    let other = json!({ "id": "t", "executionId": "run", "nodeId": "n", "delayMs": 101 });
    assert_eq!(code(&store, "timers.schedule", other), "conflict");

    for _ in 0..2 {
        assert_eq!(call(&store, "timers.cancel", json!({ "id": "t" }))["status"], "cancelled");
    }
    clock.advance(100);
    assert_eq!(call(&store, "sweep", json!({}))["timersFired"], 0);
    call(&store, "timers.schedule", json!({ "id": "u", "executionId": "run", "nodeId": "n", "delayMs": 0 }));
    call(&store, "sweep", json!({}));
    assert_eq!(code(&store, "timers.cancel", json!({ "id": "u" })), "invalid_transition");
    assert_eq!(code(&store, "timers.cancel", json!({ "id": "nobody" })), "not_found");
    assert_eq!(call(&store, "timers.get", json!({ "id": "nobody" })), Value::Null);
}

#[test]
fn lists_by_execution_and_status() {
    let (store, clock) = in_memory();
    for id in ["a", "b"] {
        run(&store, id);
    }
    for n in 0..10 {
        let execution = if n % 2 == 0 { "a" } else { "b" };
        let timer = json!({ "id": format!("t{n}"), "executionId": execution, "nodeId": "n", "delayMs": n });
        call(&store, "timers.schedule", timer);
    }
    clock.advance(4);
    call(&store, "sweep", json!({}));
    let walk = |filter: Value| {
        let (mut ids, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let mut arguments = filter.clone();
            arguments["limit"] = json!(2);
            arguments["cursor"] = cursor;
            let page = call(&store, "timers.list", arguments);
            ids.extend(page["items"].as_array().unwrap().iter().map(|timer| timer["id"].as_str().unwrap().to_owned()));
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                return ids.join(" ");
            }
        }
    };
    assert_eq!(walk(json!({})), "t0 t1 t2 t3 t4 t5 t6 t7 t8 t9");
    assert_eq!(walk(json!({ "order": "desc", "executionId": "b" })), "t9 t7 t5 t3 t1");
    assert_eq!(walk(json!({ "status": "pending" })), "t5 t6 t7 t8 t9");
    assert_eq!(walk(json!({ "status": "fired", "order": "desc" })), "t4 t3 t2 t1 t0");
    assert_eq!(walk(json!({ "status": "pending", "executionId": "a" })), "t6 t8");
    assert_eq!(code(&store, "timers.list", json!({ "executionId": "nobody" })), "not_found");
}

#[test]
fn a_sweep_is_bounded_and_says_that_there_is_more() {
    let (store, clock) = in_memory();
    run(&store, "run");
    for _ in 0..250 {
        call(&store, "timers.schedule", json!({ "executionId": "run", "nodeId": "n", "delayMs": 1 }));
    }
    clock.advance(1);
    let report = call(&store, "sweep", json!({ "limit": 40 }));
    assert_eq!((&report["timersFired"], &report["more"]), (&json!(40), &json!(true)));
    // However large the limit, the other parts have their turn.
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["timersFired"], &report["more"]), (&json!(100), &json!(true)));
    call(&store, "sweep", json!({}));
    let report = call(&store, "sweep", json!({ "limit": 10 }));
    assert_eq!((&report["timersFired"], &report["more"]), (&json!(10), &json!(false)));
}

#[test]
fn timers_of_a_suspended_tenant_wait() {
    let (store, clock) = in_memory();
    call(&store, "tenants.create", json!({ "id": "acme" }));
    let acme = store.for_tenant("acme");
    run(&acme, "run");
    let timer = json!({ "executionId": "run", "nodeId": "n", "delayMs": 1, "enqueue": { "queue": "q" } });
    call(&acme, "timers.schedule", timer.clone());
    call(&store, "tenants.update", json!({ "id": "acme", "status": "suspended" }));
    assert_eq!(code(&acme, "timers.schedule", timer), "tenant_suspended");
    clock.advance(1000);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["timersFired"], &report["more"]), (&json!(0), &json!(false)));
    call(&store, "tenants.update", json!({ "id": "acme", "status": "active" }));
    assert_eq!(call(&store, "sweep", json!({}))["timersFired"], 1);
    assert_eq!(fired(&acme, "run"), [json!({ "nodeId": "n", "lateByMs": 999 })]);
}

#[test]
fn bad_arguments_are_named() {
    let (store, _) = in_memory();
    run(&store, "run");
    for (more, path) in [
        (json!({}), "fireAt"),
        (json!({ "fireAt": -1 }), "fireAt"),
        (json!({ "fireAt": 1, "delayMs": 1 }), "delayMs"),
        (json!({ "delayMs": -1 }), "delayMs"),
        (json!({ "delayMs": 1e18 as i64 }), "delayMs"),
        (json!({ "delayMs": 1, "enqueue": { "queue": "q", "maxAttempts": 0 } }), "enqueue.maxAttempts"),
        (json!({ "delayMs": 1, "enqueue": { "queue": "q", "runAt": 1, "delayMs": 1 } }), "enqueue.delayMs"),
    ] {
        let mut timer = json!({ "executionId": "run", "nodeId": "n" });
        timer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let error = try_call(&store, "timers.schedule", timer).unwrap_err();
        assert_eq!((error.code(), &error.details()["path"]), (ErrorCode::InvalidArgument, &json!(path)), "{error}");
    }
    assert_eq!(code(&store, "timers.schedule", json!({ "executionId": "x", "nodeId": "n", "delayMs": 1 })), "not_found");
    assert_eq!(code(&store, "timers.schedule", json!({ "executionId": "run", "nodeId": "", "delayMs": 1 })), "invalid_argument");
    assert_eq!(events(&store, "run"), Vec::<Value>::new());
}
