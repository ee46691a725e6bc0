//! Cron schedules fire once for each time that they come due, whatever the clocks of their zone do.

mod common;

use std::sync::Arc;

use chrono::{DateTime, TimeZone, Utc};
use common::{Folder, START, call, clock, code, in_memory, options, try_call};
use proptest::prelude::*;
use runkeep::{ErrorCode, ManualClock, Options, Store, TzDatabase, Zones};
use rusqlite::Connection;
use serde_json::{Value, json};

const HOUR: i64 = 60 * 60 * 1000;
const DAY: i64 = 24 * HOUR;

fn at(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis()
}

fn text(ms: i64) -> String {
    Utc.timestamp_millis_opt(ms).unwrap().format("%Y-%m-%dT%H:%MZ").to_string()
}

fn put(store: &Store, name: &str, expression: &str, more: Value) -> Value {
    let mut cron = json!({ "name": name, "expression": expression, "workflowId": "w" });
    cron.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call(store, "cron.put", cron)
}

fn next_at(store: &Store, name: &str) -> String {
    text(call(store, "cron.get", json!({ "name": name }))["nextAt"].as_i64().unwrap())
}

/// The times that executions tell they are due for, in the order in which they began.
fn begun(store: &Store) -> Vec<String> {
    let runs = call(store, "executions.list", json!({ "limit": 1000 }));
    runs["items"].as_array().unwrap().iter().map(|run| text(run["metadata"]["dueAt"].as_i64().unwrap())).collect()
}

/// The next times of an expression, each found from the one before.
fn times(start: &str, expression: &str, timezone: &str, count: usize) -> Vec<String> {
    let clock = ManualClock::new(at(start));
    let store = Store::in_memory_with(options(&clock)).unwrap();
    put(&store, "c", expression, json!({ "timezone": timezone, "catchUp": "all" }));
    (0..count)
        .map(|_| {
            let next = call(&store, "cron.get", json!({ "name": "c" }))["nextAt"].as_i64().unwrap();
            clock.set(next);
            assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 1);
            text(next)
        })
        .collect()
}

#[test]
fn firing_begins_an_execution_with_its_first_item() {
    let (store, clock) = in_memory();
    let cron = put(
        &store,
        "nightly",
        "30 2 * * *",
        json!({
            "workflowVersion": "1", "input": { "n": 12345678901234567890_u64 },
            "enqueue": { "queue": "q", "nodeId": "first", "payload": [1] }
        }),
    );
    assert_eq!(cron["created"], true);
    assert_eq!((&cron["enabled"], &cron["timezone"], &cron["catchUp"]), (&json!(true), &json!("UTC"), &json!("skip")));
    assert_eq!(next_at(&store, "nightly"), "2026-01-01T02:30Z");
    clock.set(START + 2 * HOUR + HOUR / 2 - 1);
    assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 0);
    clock.advance(1);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["cronsFired"], &report["errors"], &report["more"]), (&json!(1), &json!([]), &json!(false)));
    assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 0);

    let runs = call(&store, "executions.list", json!({}))["items"].clone();
    assert_eq!(runs.as_array().unwrap().len(), 1);
    assert_eq!(
        (&runs[0]["workflowId"], &runs[0]["workflowVersion"], &runs[0]["status"]),
        (&json!("w"), &json!("1"), &json!("pending"))
    );
    assert_eq!(runs[0]["input"], json!({ "n": 12345678901234567890_u64 }));
    assert_eq!(runs[0]["metadata"], json!({ "cron": "nightly", "dueAt": at("2026-01-01T02:30:00Z") }));
    let items = call(&store, "queue.list", json!({}))["items"].clone();
    assert_eq!(items.as_array().unwrap().len(), 1);
    assert_eq!((&items[0]["executionId"], &items[0]["nodeId"]), (&runs[0]["id"], &json!("first")));
    assert_eq!((&items[0]["status"], &items[0]["payload"]), (&json!("pending"), &json!([1])));
    assert_eq!(next_at(&store, "nightly"), "2026-01-02T02:30Z");
    assert_eq!(call(&store, "cron.get", json!({ "name": "nightly" }))["lastAt"], at("2026-01-01T02:30:00Z"));
}

#[test]
fn a_time_that_the_clocks_skip_or_repeat_fires_once() {
    // 2026-03-29: at 01:00Z the clocks of Berlin go from 2 to 3. 2026-10-25: at 01:00Z they go from 3 to 2.
    assert_eq!(
        times("2026-03-27T12:00:00Z", "30 2 * * *", "Europe/Berlin", 4),
        ["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z", "2026-03-31T00:30Z"]
    );
    assert_eq!(
        times("2026-10-23T12:00:00Z", "30 2 * * *", "europe/berlin", 4),
        ["2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z", "2026-10-27T01:30Z"]
    );
    // 2026-03-08: at 07:00Z the clocks of New York go from 2 to 3. 2026-11-01: at 06:00Z they go from 2 to 1.
    assert_eq!(
        times("2026-03-06T12:00:00Z", "30 2 * * *", "America/New_York", 3),
        ["2026-03-07T07:30Z", "2026-03-08T07:00Z", "2026-03-09T06:30Z"]
    );
    assert_eq!(
        times("2026-10-30T12:00:00Z", "30 1 * * *", "America/New_York", 3),
        ["2026-10-31T05:30Z", "2026-11-01T05:30Z", "2026-11-02T06:30Z"]
    );
    // Lord Howe's clocks change by half an hour: 2026-04-04T15:00Z from 2:00 to 1:30, 2026-10-03T15:30Z from 2:00 to 2:30.
    assert_eq!(
        times("2026-04-03T00:00:00Z", "45 1 * * *", "Australia/Lord_Howe", 3),
        ["2026-04-03T14:45Z", "2026-04-04T14:45Z", "2026-04-05T15:15Z"]
    );
    assert_eq!(
        times("2026-10-02T00:00:00Z", "15 2 * * *", "Australia/Lord_Howe", 3),
        ["2026-10-02T15:45Z", "2026-10-03T15:30Z", "2026-10-04T15:15Z"]
    );
    assert_eq!(times("2026-01-01T00:00:00Z", "0 9 * * *", "Asia/Kolkata", 2), ["2026-01-01T03:30Z", "2026-01-02T03:30Z"]);
    assert_eq!(times("2026-01-01T00:00:00Z", "0 9 * * *", "Asia/Kathmandu", 1), ["2026-01-01T03:15Z"]);
}

#[test]
fn an_hourly_schedule_goes_by_the_hour_through_the_changes() {
    assert_eq!(
        times("2026-03-28T23:30:00Z", "0 * * * *", "Europe/Berlin", 4),
        ["2026-03-29T00:00Z", "2026-03-29T01:00Z", "2026-03-29T02:00Z", "2026-03-29T03:00Z"]
    );
    assert_eq!(
        times("2026-10-24T22:30:00Z", "0 * * * *", "Europe/Berlin", 4),
        ["2026-10-24T23:00Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z", "2026-10-25T02:00Z"]
    );
}

#[test]
fn days_of_the_month_and_of_the_week() {
    assert_eq!(times("2026-01-01T00:00:00Z", "0 0 29 2 *", "UTC", 2), ["2028-02-29T00:00Z", "2032-02-29T00:00Z"]);
    // The years 2096 and 2104 are leap years, and 2100 is none.
    assert_eq!(times("2096-03-01T00:00:00Z", "0 0 29 2 *", "UTC", 1), ["2104-02-29T00:00Z"]);
    // Fridays, and the 13th, which in January 2026 is a Tuesday.
    assert_eq!(
        times("2026-01-01T00:00:00Z", "0 0 13 * 5", "UTC", 4),
        ["2026-01-02T00:00Z", "2026-01-09T00:00Z", "2026-01-13T00:00Z", "2026-01-16T00:00Z"]
    );
    assert_eq!(
        times("2026-01-01T00:00:00Z", "0 12 31 * *", "UTC", 3),
        ["2026-01-31T12:00Z", "2026-03-31T12:00Z", "2026-05-31T12:00Z"]
    );
    // Names, ranges, lists and steps; Sunday is 0 and 7.
    assert_eq!(
        times("2026-01-02T12:00:00Z", "*/20 8-9,22 * jan-mar Mon-FRI", "UTC", 5),
        ["2026-01-02T22:00Z", "2026-01-02T22:20Z", "2026-01-02T22:40Z", "2026-01-05T08:00Z", "2026-01-05T08:20Z"]
    );
    assert_eq!(times("2026-01-01T00:00:00Z", "0 0 * * 0", "UTC", 1), times("2026-01-01T00:00:00Z", "0 0 * * 7", "UTC", 1));
}

#[test]
fn what_was_missed_is_caught_up_with_as_asked() {
    let (store, clock) = in_memory();
    for catch_up in ["skip", "once", "all"] {
        put(&store, catch_up, "0 6 * * *", json!({ "catchUp": catch_up }));
    }
    clock.advance(3 * DAY);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["cronsFired"], &report["more"]), (&json!(4), &json!(false)));
    let mut begun: Vec<(String, String)> = call(&store, "executions.list", json!({}))["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["metadata"]["cron"].as_str().unwrap().to_owned(), text(run["metadata"]["dueAt"].as_i64().unwrap())))
        .collect();
    begun.sort();
    let expected =
        [("all", "2026-01-01T06:00Z"), ("all", "2026-01-02T06:00Z"), ("all", "2026-01-03T06:00Z"), ("once", "2026-01-03T06:00Z")];
    assert_eq!(begun, expected.map(|(name, due)| (name.to_owned(), due.to_owned())));
    for name in ["skip", "once", "all"] {
        assert_eq!(next_at(&store, name), "2026-01-04T06:00Z");
    }
    // A sweep that is a minute late has missed nothing.
    clock.advance(6 * HOUR + 60_000);
    assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 3);
}

#[test]
fn catching_up_is_bounded_and_in_nobodys_way() {
    let (store, clock) = in_memory();
    put(&store, "minutely", "* * * * *", json!({ "catchUp": "all" }));
    put(&store, "daily", "0 6 * * *", json!({ "catchUp": "once" }));
    clock.advance(7 * HOUR);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["cronsFired"], &report["more"]), (&json!(100), &json!(true)));
    assert_eq!(next_at(&store, "daily"), "2026-01-02T06:00Z");
    let mut fired = 100;
    while call(&store, "cron.get", json!({ "name": "minutely" }))["nextAt"].as_i64().unwrap() <= START + 7 * HOUR {
        fired += call(&store, "sweep", json!({}))["cronsFired"].as_i64().unwrap();
    }
    assert_eq!(fired, 7 * 60 + 1);
    assert_eq!(call(&store, "sweep", json!({}))["more"], false);
    let of_minute = |due: &String| due != "2026-01-01T06:00Z";
    let all: Vec<String> = begun(&store).into_iter().filter(of_minute).collect();
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 7 * 60 - 1);
}

#[test]
fn several_stores_on_one_file_fire_each_time_once() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    let enqueue = json!({ "queue": "q", "nodeId": "n" });
    put(&store, "all", "*/2 * * * *", json!({ "catchUp": "all", "enqueue": enqueue }));
    for name in ["a", "b", "c"] {
        put(&store, name, "0 * * * *", json!({ "catchUp": "once", "enqueue": enqueue }));
    }
    clock.advance(2 * HOUR);
    let fired: i64 = std::thread::scope(|scope| {
        let sweepers: Vec<_> = (0..4)
            .map(|_| {
                let (path, clock) = (&path, &clock);
                scope.spawn(move || {
                    let store = Store::open_with(path, options(clock)).unwrap();
                    let sweeps = (0..3).map(|_| call(&store, "sweep", json!({})));
                    sweeps.map(|report| report["cronsFired"].as_i64().unwrap()).sum::<i64>()
                })
            })
            .collect();
        sweepers.into_iter().map(|sweeper| sweeper.join().unwrap()).sum()
    });
    assert_eq!(fired, 60 + 3);
    assert_eq!(begun(&store).len(), 63);
    assert_eq!(call(&store, "queue.list", json!({ "limit": 1000 }))["items"].as_array().unwrap().len(), 63);
}

#[test]
fn a_clock_that_goes_back_fires_nothing_twice() {
    let (store, clock) = in_memory();
    put(&store, "hourly", "0 * * * *", json!({ "catchUp": "all" }));
    let mut now = START;
    for step in [HOUR, -2 * HOUR, HOUR, HOUR, HOUR, -HOUR / 2, HOUR] {
        now += step;
        clock.set(now);
        call(&store, "sweep", json!({}));
        // Nor does putting it again.
        put(&store, "hourly", "0 * * * *", json!({ "catchUp": "all" }));
    }
    assert_eq!(begun(&store), ["2026-01-01T01:00Z", "2026-01-01T02:00Z"]);
}

#[test]
fn the_same_name_is_one_schedule() {
    let (store, clock) = in_memory();
    for n in 0..3 {
        assert_eq!(put(&store, "c", "0 * * * *", json!({ "input": n }))["created"], n == 0);
        clock.advance(1000);
    }
    assert_eq!(call(&store, "cron.list", json!({}))["items"].as_array().unwrap().len(), 1);
    // What came due before it was put again is not lost, and fires with what was put last.
    clock.set(START + HOUR + 1);
    put(&store, "c", "0 * * * *", json!({ "input": "last" }));
    assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 1);
    assert_eq!(call(&store, "executions.list", json!({}))["items"][0]["input"], "last");
    // Another expression comes due anew.
    clock.set(START + 2 * HOUR + 1);
    put(&store, "c", "30 * * * *", json!({}));
    assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 0);
    assert_eq!(next_at(&store, "c"), "2026-01-01T02:30Z");
}

#[test]
fn a_disabled_schedule_fires_only_when_triggered() {
    let (store, clock) = in_memory();
    let enqueue = json!({ "queue": "q", "nodeId": "n" });
    put(&store, "c", "0 * * * *", json!({ "enabled": false, "catchUp": "all", "enqueue": enqueue }));
    clock.advance(3 * HOUR + 1);
    assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 0);
    let run = call(&store, "cron.trigger", json!({ "name": "c" }));
    assert_eq!(run["metadata"], json!({ "cron": "c", "dueAt": START + 3 * HOUR + 1, "triggered": true }));
    assert_eq!(call(&store, "queue.list", json!({}))["items"][0]["executionId"], run["id"]);
    // It stays disabled unless told otherwise, and then does not make up for the time.
    let cron = put(&store, "c", "0 * * * *", json!({ "catchUp": "all" }));
    assert_eq!((&cron["enabled"], cron.get("nextAt")), (&json!(false), None));
    put(&store, "c", "0 * * * *", json!({ "enabled": true, "catchUp": "all" }));
    assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 0);
    assert_eq!(next_at(&store, "c"), "2026-01-01T04:00Z");
    // Triggering an enabled one does not move it.
    call(&store, "cron.trigger", json!({ "name": "c" }));
    assert_eq!(next_at(&store, "c"), "2026-01-01T04:00Z");
    call(&store, "cron.delete", json!({ "name": "c" }));
    assert_eq!(call(&store, "cron.get", json!({ "name": "c" })), Value::Null);
    for operation in ["cron.delete", "cron.trigger"] {
        assert_eq!(code(&store, operation, json!({ "name": "c" })), "not_found");
    }
    clock.advance(2 * HOUR);
    assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 0);
    assert_eq!(begun(&store).len(), 2);
}

#[test]
fn one_that_cannot_fire_is_reported_retried_and_in_nobodys_way() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    for name in ["bad expression", "bad zone", "bad item", "bad input", "good"] {
        put(&store, name, "0 * * * *", json!({ "catchUp": "all", "enqueue": { "queue": "q", "nodeId": "n" } }));
    }
    let raw = Connection::open(&path).unwrap();
    for (column, value, name) in [
        ("expression", "0 * *", "bad expression"),
        ("timezone", "Mars/Olympus", "bad zone"),
        ("enqueue", "{", "bad item"),
        ("input", "{", "bad input"),
    ] {
        raw.execute(&format!("UPDATE crons SET {column} = ?1 WHERE name = ?2"), [value, name]).unwrap();
    }
    clock.advance(HOUR);
    let report = call(&store, "sweep", json!({}));
    assert_eq!(report["cronsFired"], 1);
    let errors: Vec<_> = report["errors"].as_array().unwrap().iter().map(|e| (e["id"].as_str(), e["code"].as_str())).collect();
    assert_eq!(
        errors,
        [
            (Some("bad expression"), Some("invalid_argument")),
            (Some("bad zone"), Some("invalid_argument")),
            (Some("bad item"), Some("corrupt")),
            (Some("bad input"), Some("corrupt")),
        ]
    );
    assert_eq!(begun(&store).len(), 1);
    let cron = call(&store, "cron.get", json!({ "name": "bad zone" }));
    assert_eq!(cron["lastError"]["code"], "invalid_argument");
    // Not with each sweep, but a minute later; and what was due is still due.
    assert_eq!(call(&store, "sweep", json!({}))["errors"], json!([]));
    raw.execute("UPDATE crons SET timezone = 'UTC' WHERE name = 'bad zone'", []).unwrap();
    clock.advance(60_000);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["cronsFired"], report["errors"].as_array().unwrap().len()), (&json!(1), 3));
    let cron = call(&store, "cron.get", json!({ "name": "bad zone" }));
    assert_eq!((cron.get("lastError"), &cron["lastAt"]), (None, &json!(START + HOUR + 60_000)));
}

#[test]
fn limits_and_suspension_hold_a_schedule_up() {
    let (store, clock) = in_memory();
    call(&store, "tenants.create", json!({ "id": "acme", "limits": { "maxConcurrentExecutions": 1 } }));
    let acme = store.for_tenant("acme");
    put(&acme, "c", "0 * * * *", json!({ "catchUp": "all" }));
    put(&store, "other", "0 * * * *", json!({ "catchUp": "all" }));
    clock.advance(2 * HOUR);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["cronsFired"], &report["errors"][0]["code"]), (&json!(3), &json!("limit_exceeded")));
    call(&store, "tenants.update", json!({ "id": "acme", "status": "suspended" }));
    clock.advance(60_000);
    let report = call(&store, "sweep", json!({}));
    // It waits, and that is no fault to report.
    assert_eq!((&report["cronsFired"], &report["errors"]), (&json!(0), &json!([])));
    assert_eq!(code(&acme, "cron.trigger", json!({ "name": "c" })), "tenant_suspended");
    call(&store, "tenants.update", json!({ "id": "acme", "status": "active" }));
    let run = call(&acme, "executions.list", json!({}))["items"][0]["id"].clone();
    call(&acme, "executions.cancel", json!({ "id": run }));
    clock.advance(60_000);
    assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 1);
    assert_eq!(begun(&acme), ["2026-01-01T01:00Z", "2026-01-01T02:00Z"]);
}

#[test]
fn bad_arguments_are_named() {
    let (store, _) = in_memory();
    for expression in [
        "",
        "* * * *",
        "* * * * * *",
        "0 0 * * * * *",
        "@daily",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "* * * foo *",
        "5-1 * * * *",
        "*/0 * * * *",
        "a b c d e",
        "0 0 * * ü",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "-1 * * * *",
        "1- * * * *",
        ", * * * *",
        "1,, * * * *",
        "99999999999 * * * *",
        "* * * * MON#9",
        "* * W * *",
        "/ * * * *",
        "* * * * #",
        "* * * * ++",
        "1/2/3 * * * *",
    ] {
        let cron = json!({ "name": "c", "expression": expression, "workflowId": "w" });
        let error = try_call(&store, "cron.put", cron).expect_err(expression);
        assert_eq!((error.code(), &error.details()["path"]), (ErrorCode::InvalidArgument, &json!("expression")), "{error}");
        assert_eq!(error.details()["value"], expression);
    }
    for timezone in ["", "Mars/Olympus", "+02:00", "Europe", "Europe/Berlin ", "Berlin"] {
        let cron = json!({ "name": "c", "expression": "* * * * *", "workflowId": "w", "timezone": timezone });
        let error = try_call(&store, "cron.put", cron).expect_err(timezone);
        assert_eq!((error.code(), &error.details()["path"]), (ErrorCode::InvalidArgument, &json!("timezone")), "{error}");
        assert_eq!(error.details()["value"], timezone);
    }
    let put = |more: Value| {
        let mut cron = json!({ "name": "c", "expression": "* * * * *", "workflowId": "w" });
        cron.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        code(&store, "cron.put", cron)
    };
    assert_eq!(put(json!({ "catchUp": "never" })), "invalid_argument");
    assert_eq!(put(json!({ "enqueue": { "queue": "q" } })), "invalid_argument");
    assert_eq!(put(json!({ "enqueue": { "queue": "q", "nodeId": "" } })), "invalid_argument");
    assert_eq!(put(json!({ "name": "" })), "invalid_argument");
    assert_eq!(call(&store, "cron.list", json!({}))["items"], json!([]));
}

/// A zone whose clocks change often, and not on the quarter of an hour.
struct Restless;

impl Zones for Restless {
    fn offset(&self, zone: &str, at: i64) -> Option<i32> {
        (zone == "Restless").then(|| [0, 1800, -1234, 7200, 3599][(at.div_euclid(40_000) % 5) as usize])
    }
}

#[test]
fn zones_can_be_of_ones_own() {
    let clock = clock();
    let store = Store::in_memory_with(Options { zones: Arc::new(Restless), ..options(&clock) }).unwrap();
    put(&store, "c", "* * * * *", json!({ "timezone": "Restless", "catchUp": "all" }));
    let mut last = 0;
    for _ in 0..200 {
        let next = call(&store, "cron.get", json!({ "name": "c" }))["nextAt"].as_i64().unwrap();
        assert!(next > last, "{next} comes after {last}");
        last = next;
        clock.set(next);
        assert_eq!(call(&store, "sweep", json!({}))["cronsFired"], 1);
    }
    assert_eq!(
        code(&store, "cron.put", json!({ "name": "d", "expression": "* * * * *", "workflowId": "w", "timezone": "UTC" })),
        "invalid_argument"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is given as an expression is answered, not a crash.
    #[test]
    fn any_text_is_answered(expression in "([-*/,0-9LW#?+A-Za-z]{1,7} ){4}[-*/,0-9LW#?+A-Za-z]{1,7}|.{0,30}") {
        let (store, _) = in_memory();
        let _ = try_call(&store, "cron.put", json!({ "name": "c", "expression": expression, "workflowId": "w" }));
    }

    /// A daily time fires once a day, each day of the year, in every zone.
    #[test]
    fn a_daily_time_fires_once_a_day(
        hour in 0..24, minute in 0..60,
        zone in prop::sample::select(vec![
            "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca", "Pacific/Chatham",
            "Asia/Tehran", "America/Havana", "Africa/Cairo", "America/Santiago", "Antarctica/Troll",
        ]),
        from in 0..365_i64,
    ) {
        let clock = ManualClock::new(START + from * DAY);
        let store = Store::in_memory_with(options(&clock)).unwrap();
        put(&store, "c", &format!("{minute} {hour} * * *"), json!({ "timezone": zone, "catchUp": "all" }));
        let local_day = |ms: i64| (ms / 1000 + i64::from(TzDatabase.offset(zone, ms / 1000).unwrap())).div_euclid(24 * 60 * 60);
        put(&store, "once", &format!("{minute} {hour} * * *"), json!({ "timezone": zone, "catchUp": "once" }));
        let (mut last, mut newest, mut once) = (None, 0, 0);
        clock.advance(30 * DAY);
        call(&store, "sweep", json!({}));
        for run in call(&store, "executions.list", json!({}))["items"].as_array().unwrap() {
            let due = run["metadata"]["dueAt"].as_i64().unwrap();
            if run["metadata"]["cron"] == "once" {
                once = due;
                continue;
            }
            let day = local_day(due);
            prop_assert!(last.is_none_or(|last: i64| day == last + 1), "{zone} {hour}:{minute}: {last:?} {day}");
            last = Some(day);
            newest = due;
        }
        prop_assert_eq!(once, newest, "{} {}:{}", zone, hour, minute);
        prop_assert!(last.is_some());
    }
}
