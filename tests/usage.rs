//! Usage against figures that another program has given for the same responses.

mod common;

use common::{call, in_memory};
use runkeep::imports::SessionFormat;
use runkeep::{ErrorCode, Store};
use serde_json::{Value, json};

const MINUTE: i64 = 60_000;
/// 2026-11-21T19:51:44.048Z.
const FIRST: i64 = 1_795_290_704_048;

/// What its own aggregation says of a store of zagens-runtime-orchestrator 0.8.1, by model, day, provider and thread.
const EXPECTED: &str = include_str!("fixtures/zagens-0.8.1.usage.json");

type Turns = (&'static str, &'static str, &'static str, i64, i64, Option<i64>);

/// The turns of that store: thread, model, provider, how many turns, input, and what the cache held of it. Threads begin seven hours and
/// turns three minutes after one another; each turn has 200 tokens of output, of which 40 are reasoning.
const THREADS: &[Turns] = &[
    ("thr_000", "deepseek-v4-pro", "deepseek", 2, 1000, Some(700)),
    ("thr_001", "deepseek-v4-flash", "deepseek", 3, 1010, None),
    ("thr_002", "openai/gpt-5", "openrouter", 4, 1020, Some(700)),
    ("thr_003", "deepseek-v4-pro", "deepseek", 2, 1030, None),
    ("thr_004", "deepseek-v4-flash", "deepseek", 3, 1040, Some(700)),
    ("thr_005", "openai/gpt-5", "openrouter", 4, 1050, None),
];

fn zagens() -> Store {
    let (store, _) = in_memory();
    let prices = json!([
        { "modelPattern": "deepseek-v4-pro", "input": 1.74, "cacheRead": 0.0145, "output": 3.48 },
        { "modelPattern": "deepseek-v4-flash", "input": 0.14, "cacheRead": 0.0028, "output": 0.28 },
    ]);
    call(&store, "usage.setPrices", json!({ "prices": prices }));
    for (hours, (thread, model, provider, turns, input, cache_read)) in (0..).step_by(7).zip(THREADS) {
        call(&store, "threads.create", json!({ "id": thread }));
        for n in 0..*turns {
            let turn = format!("{thread}/{n}");
            call(&store, "turns.create", json!({ "id": turn, "threadId": thread }));
            let record = json!({
                "turnId": turn, "responseId": turn, "model": model, "provider": provider, "inputTokens": input, "outputTokens": 200,
                "reasoningTokens": 40, "cacheReadTokens": cache_read, "createdAt": FIRST + (hours * 60 + n * 3) * MINUTE,
            });
            call(&store, "usage.record", record);
        }
    }
    store
}

#[track_caller]
fn assert_near(actual: &Value, expected: &Value, what: &str) {
    let (actual, expected) = (actual.as_f64().unwrap_or(0.0), expected.as_f64().unwrap());
    assert!((actual - expected).abs() < 1e-12 + expected.abs() * 1e-12, "{what}: {actual}, expected {expected}");
}

#[track_caller]
fn assert_same(ours: &Value, theirs: &Value) {
    for (name, their_name) in [
        ("inputTokens", "input_tokens"),
        ("outputTokens", "output_tokens"),
        ("cacheReadTokens", "cached_tokens"),
        ("noCacheTokens", "miss_tokens"),
        ("reasoningTokens", "reasoning_tokens"),
        ("turns", "turns"),
    ] {
        assert_eq!(ours[name], theirs[their_name], "{name} of {theirs}");
    }
    for (name, their_name) in [
        ("costUsd", "cost_usd"),
        ("costUsdWithoutCache", "cost_usd_without_cache"),
        ("cacheSavingsUsd", "cache_savings_usd"),
        ("cacheHitPercent", "cache_hit_rate"),
    ] {
        assert_near(&ours[name], &theirs[their_name], name);
    }
}

#[test]
fn the_figures_are_those_of_another_program() {
    let store = zagens();
    let expected: Vec<Value> = serde_json::from_str(EXPECTED).unwrap();
    assert_eq!(expected.len(), 4);
    for theirs in &expected {
        let ours = call(&store, "usage.aggregate", json!({ "groupBy": theirs["group_by"], "timezone": "UTC" }));
        assert_same(&ours["totals"], &theirs["totals"]);
        assert_eq!(ours["cacheTelemetryIncomplete"], theirs["cache_telemetry_incomplete"]);
        let (ours, theirs) = (ours["buckets"].as_array().unwrap(), theirs["buckets"].as_array().unwrap());
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_eq!(ours["key"], theirs["key"]);
            assert_same(ours, theirs);
            // Theirs says 0 where there is no price; ours says that there is none.
            let unpriced = ours["unpricedTurns"] == ours["turns"];
            assert_eq!((ours["costUsd"].is_null(), theirs["cost_usd"] == 0.0), (unpriced, unpriced), "{ours}");
        }
    }
}

#[test]
fn a_list_of_prices_that_cannot_be_read_is_corrupt() {
    let folder = common::Folder::new();
    let path = folder.file("store.db");
    let store = Store::open(&path).unwrap();
    call(&store, "threads.create", json!({ "id": "t" }));
    call(&store, "turns.create", json!({ "id": "turn", "threadId": "t" }));
    call(&store, "usage.setPrices", json!({ "prices": [] }));
    let used = json!({ "turnId": "turn", "responseId": "r", "model": "m", "inputTokens": 1, "outputTokens": 1 });
    call(&store, "usage.record", used.clone());
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE price_lists SET prices = '[{}]'", ()).unwrap();
    let error = common::try_call(&store, "usage.record", common::with(&used, json!({ "responseId": "s" }))).unwrap_err();
    assert_eq!((error.code().as_str(), &error.details()["table"]), ("corrupt", &json!("price_lists")));
    assert_eq!(call(&store, "usage.list", json!({}))["items"].as_array().unwrap().len(), 1);
    raw.execute("UPDATE usage_records SET model = CAST(x'ff' AS TEXT)", ()).unwrap();
    let page = call(&store, "usage.list", json!({}));
    assert_eq!(page["damaged"][0]["table"], "usage_records", "{page}");
    assert_eq!(page["damaged"][0]["id"], "r");
}

/// A caller is told that its figures do not agree; what a log says has happened, and is kept.
#[test]
fn an_import_keeps_a_turn_whose_reasoning_is_beside_its_output() {
    let (store, _) = in_memory();
    for (path, text) in [
        ("threads/t.json", json!({ "id": "t", "model": "grok", "created_at": "2026-01-01T00:00:00Z" })),
        (
            "turns/u.json",
            json!({ "id": "u", "thread_id": "t", "status": "completed", "created_at": "2026-01-01T00:00:00Z",
                    "usage": { "input_tokens": 5, "output_tokens": 3, "reasoning_tokens": 40 } }),
        ),
    ] {
        let report = store.imports().read(SessionFormat::Zagens, path, text.to_string().as_bytes(), |_| true).unwrap();
        assert_eq!((report.imported, report.rejected_count), (1, 0), "{report:?}");
    }
    let usage = call(&store, "usage.list", json!({}))["items"][0].clone();
    assert_eq!((&usage["outputTokens"], &usage["reasoningTokens"]), (&json!(3), &json!(40)));
    let given =
        json!({ "turnId": "u", "responseId": "r", "model": "grok", "inputTokens": 5, "outputTokens": 3, "reasoningTokens": 40 });
    let error = store.call("usage.record", &given.to_string()).unwrap_err();
    assert_eq!((error.code(), &error.details()["path"]), (ErrorCode::InvalidArgument, &json!("outputTokens")), "{error}");
}
