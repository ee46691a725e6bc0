//! Documents come back as they were given.

mod common;

use common::{call, in_memory};
use runkeep::executions::{CreateExecution, ExecutionId};
use runkeep::{Created, ErrorCode, Json, executions::Execution};
use serde_json::json;

fn create(store: &runkeep::Store, id: &str, input: &str) -> runkeep::Result<Created<Execution>> {
    store.executions().create(CreateExecution {
        id: Some(id.parse()?),
        workflow_id: "w".parse()?,
        input: Some(Json::parse(input)?),
        ..Default::default()
    })
}

fn stored(store: &runkeep::Store, id: &str) -> String {
    store.executions().get(ExecutionId { id: id.parse().unwrap() }).unwrap().unwrap().input.as_str().to_owned()
}

/// Lesson 26.
#[test]
fn a_document_is_byte_equal_when_it_comes_back() {
    let (store, _) = in_memory();
    for (id, text) in [
        ("number", r#"{"n":9007199254740993}"#),
        ("float", r#"[1.0,1e400,-0.0,0.1000000000000000055511151231257827]"#),
        ("spaces", "{ \"a\" : [ 1 ,\t2 ] }"),
        ("order", r#"{"b":1,"a":2,"b":3}"#),
        ("nul", r#""a\u0000b""#),
        ("emoji", r#"["😀","\ud83d\ude00"]"#),
        ("null", "null"),
    ] {
        create(&store, id, text).unwrap();
        assert_eq!(stored(&store, id), text);
        let through_json: Box<serde_json::value::RawValue> =
            serde_json::from_str(&store.call("executions.get", &json!({ "id": id }).to_string()).unwrap()).unwrap();
        assert!(through_json.get().contains(text), "{id}: {through_json}");
    }
}

/// Lesson 27.
#[test]
fn half_an_emoji_becomes_the_replacement_character() {
    let (store, _) = in_memory();
    let given = r#"{"workflowId":"w","id":"run","input":["\ud83d","\ude00 tail","\\ud83d","\ud83d\u0041","\ud83d\ud83d\ude00"]}"#;
    store.call("executions.create", given).unwrap();
    assert_eq!(stored(&store, "run"), r#"["\ufffd","\ufffd tail","\\ud83d","\ufffd\u0041","\ufffd\ud83d\ude00"]"#);
}

#[test]
fn a_document_of_128_levels_is_kept_and_of_129_refused() {
    let (store, _) = in_memory();
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    create(&store, "deep", &nested(128)).unwrap();
    assert_eq!(stored(&store, "deep"), nested(128));
    assert_eq!(create(&store, "deeper", &nested(129)).unwrap_err().code(), ErrorCode::TooLarge);
    assert_eq!(create(&store, "deepest", &nested(100_000)).unwrap_err().code(), ErrorCode::TooLarge);
    // Brackets inside strings are no levels.
    create(&store, "text", &format!("\"{}\"", "[".repeat(1000))).unwrap();
}

#[test]
fn a_state_as_deep_as_documents_may_be_folds() {
    let (store, _) = in_memory();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    // With the event's data around it: 128 levels.
    let state = format!("{}1{}", "{\"a\":".repeat(127), "}".repeat(127));
    let event = format!(r#"{{"executionId":"run","type":"workflow_completed","data":{{"finalState":{state}}}}}"#);
    store.call("events.append", &event).unwrap();
    let run = store.executions().get(ExecutionId { id: "run".parse().unwrap() }).unwrap().unwrap();
    assert_eq!(run.state.as_str(), state);
}

#[test]
fn a_document_over_the_limit_is_refused_and_named() {
    let clock = common::clock();
    let options = runkeep::Options { max_document_bytes: 100, ..common::options(&clock) };
    let store = runkeep::Store::in_memory_with(options).unwrap();
    let error = create(&store, "big", &format!("\"{}\"", "a".repeat(99))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::TooLarge);
    assert_eq!(error.details()["path"], "input");
    assert_eq!(error.details()["bytes"], 101);
    create(&store, "fits", &format!("\"{}\"", "a".repeat(98))).unwrap();
}

#[test]
fn the_same_arguments_are_recognised_whatever_their_spelling() {
    let (store, _) = in_memory();
    assert!(create(&store, "run", r#"{"a":1,"b":[1,2]}"#).unwrap().created);
    assert!(!create(&store, "run", r#"{ "b":[1,2], "a":1 }"#).unwrap().created);
    assert_eq!(create(&store, "run", r#"{"a":1,"b":[2,1]}"#).unwrap_err().code(), ErrorCode::Conflict);
    assert_eq!(stored(&store, "run"), r#"{"a":1,"b":[1,2]}"#);
}

#[test]
fn errors_name_the_place_in_the_arguments() {
    let (store, _) = in_memory();
    for (arguments, path) in [
        (r#"{"items":[{"queue":"q"},{"queue":"q","priority":"high"}]}"#, "items[1].priority"),
        (r#"{"items":[{"queue":"q","backoff":{"kind":"fixed","baseMs":1.5}}]}"#, "items[0].backoff.baseMs"),
        (r#"{"items":[{"queue":"q","requires":["a","b\u0007"]}]}"#, "items[0].requires[1]"),
        (r#"{"items":[{"queue":"q","colour":"red"}]}"#, "items[0].colour"),
        (r#"{"items":[{"queue":"q","backoff":{"kind":"never"}}]}"#, "items[0].backoff.kind"),
        (r#"{"items":{"queue":"q"}}"#, "items"),
        (r#"{"items":[{"queue":"q"},{"priority":1}]}"#, "items[1].queue"),
        (r#"{"items":[{}]}"#, "items[0].queue"),
        ("{}", "items"),
        (r#"{"items":[{"queue":"q"},{"queue":"q","maxAttempts":0}]}"#, "items[1].maxAttempts"),
        (r#"{"items":[{"queue":"q","delayMs":-1}]}"#, "items[0].delayMs"),
        (r#"{"items":[{"queue":"q","nodeId":"n"}]}"#, "items[0].nodeId"),
    ] {
        let error = store.call("queue.enqueueMany", arguments).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{arguments}");
        assert_eq!(error.details()["path"], path, "{arguments}: {error}");
        assert!(error.message().contains(path), "{error}");
    }
    assert_eq!(call(&store, "queues.stats", json!({}))["counts"]["pending"], 0);
}

#[test]
fn a_document_nested_very_deeply_is_refused_wherever_it_stands() {
    let (store, _) = in_memory();
    call(&store, "executions.create", json!({ "workflowId": "w", "id": "run" }));
    call(&store, "queue.enqueue", json!({ "queue": "q", "executionId": "run", "nodeId": "n" }));
    call(&store, "queue.claim", json!({ "workerId": "w", "queues": ["q"] }));
    let item = call(&store, "queue.list", json!({}))["items"][0]["id"].clone();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for (operation, arguments) in [
        ("queue.complete", format!(r#"{{"id":{item},"fence":1,"events":[{{"type":"x-a","data":{deep}}}]}}"#)),
        ("queue.complete", format!(r#"{{"id":{item},"fence":1,"enqueue":[{{"queue":"q","payload":{deep}}}]}}"#)),
        ("queue.complete", format!(r#"{{"id":{item},"fence":1,"output":{deep}}}"#)),
        ("queue.complete", format!(r#"{{"id":{item},"fence":1,"statePatch":{deep}}}"#)),
        ("queue.fail", format!(r#"{{"id":{item},"fence":1,"error":{deep}}}"#)),
        ("queue.renew", format!(r#"{{"id":{item},"fence":1,"progress":{deep}}}"#)),
        ("queue.enqueue", format!(r#"{{"queue":"q","id":"i","payload":{deep}}}"#)),
        ("executions.create", format!(r#"{{"workflowId":"w","id":"e","metadata":{deep}}}"#)),
        ("events.append", format!(r#"{{"executionId":"run","id":"e","type":"x-a","data":{deep}}}"#)),
        (
            "workers.register",
            format!(r#"{{"workerId":"w","pool":"p","queues":[],"capabilities":[],"livenessTtlMs":1,"metadata":{deep}}}"#),
        ),
    ] {
        assert_eq!(store.call(operation, &arguments).unwrap_err().code(), ErrorCode::TooLarge, "{operation}");
    }
}

#[test]
fn numbers_count_to_the_last_digit() {
    let (store, _) = in_memory();
    create(&store, "run", "[123456789012345678901]").unwrap();
    assert!(!create(&store, "run", "[ 123456789012345678901 ]").unwrap().created);
    assert_eq!(create(&store, "run", "[123456789012345678902]").unwrap_err().code(), ErrorCode::Conflict);
    call(&store, "executions.setStatus", json!({ "id": "run", "status": "running" }));
    let event = r#"{"executionId":"run","type":"workflow_completed","data":{"finalState":{"n":123456789.12345679}}}"#;
    store.call("events.append", event).unwrap();
    let state = store.executions().get(ExecutionId { id: "run".parse().unwrap() }).unwrap().unwrap().state;
    assert_eq!(state.as_str(), r#"{"n":123456789.12345679}"#);
}
