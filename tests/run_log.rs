//! Executions and what belongs to their logs: forks, continuations, changes of state, lists, approvals, definitions, snapshots.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Folder, START, call, clock, code, in_memory, options, try_call};
use runkeep::Store;
use serde_json::{Value, json};

fn create(store: &Store, id: &str) {
    call(store, "executions.create", json!({ "id": id, "workflowId": "w" }));
}

fn running(store: &Store, id: &str) {
    create(store, id);
    set_status(store, id, "running");
}

fn set_status(store: &Store, id: &str, status: &str) {
    call(store, "executions.setStatus", json!({ "id": id, "status": status }));
}

fn append(store: &Store, id: &str, event_type: &str, data: Value) -> Value {
    call(store, "events.append", json!({ "executionId": id, "type": event_type, "data": data }))
}

fn completed(node: &str, output: Value, patch: Value) -> Value {
    json!({ "nodeId": node, "output": output, "statePatch": patch, "durationMs": 1 })
}

fn get(store: &Store, id: &str) -> Value {
    call(store, "executions.get", json!({ "id": id }))
}

fn state(store: &Store, id: &str) -> Value {
    get(store, id)["state"].clone()
}

fn fold(store: &Store, id: &str) -> Value {
    call(store, "executions.materialize", json!({ "id": id }))
}

fn log(store: &Store, id: &str) -> Vec<Value> {
    call(store, "events.list", json!({ "executionId": id, "limit": 1000 }))["items"].as_array().unwrap().clone()
}

fn types(store: &Store, id: &str) -> Vec<String> {
    log(store, id).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

fn counts(store: &Store) -> Value {
    call(store, "executions.count", json!({ "groupBy": "status" }))["byStatus"].clone()
}

/// A fold without what is counted from the beginning of its own log.
fn without_sequences(mut fold: Value) -> Value {
    fold.as_object_mut().unwrap().remove("lastSequence");
    for open in fold["pendingApprovals"].as_array_mut().unwrap() {
        open.as_object_mut().unwrap().remove("sequence");
    }
    fold
}

/// A run with a bit of everything, still running.
fn eventful(store: &Store, id: &str) -> i64 {
    running(store, id);
    append(store, id, "node_scheduled", json!({ "nodeId": "a", "queueType": "q" }));
    append(store, id, "node_completed", completed("a", json!({ "big": "o".repeat(5000) }), json!({ "a": 1, "list": [] })));
    call(store, "executions.appendToState", json!({ "id": id, "key": "list", "value": { "n": 1 } }));
    append(store, id, "node_started", json!({ "nodeId": "b", "workerId": "w", "attempt": 1 }));
    let ask = json!({ "nodeId": "b", "approvalId": "ok?", "toolName": "rm", "approver": "me", "context": { "path": "/tmp" } });
    append(store, id, "tool_approval_required", ask);
    append(store, id, "interrupt_raised", json!({ "nodeId": "c", "reason": "look", "stateForReview": [1] }));
    append(store, id, "node_completed", completed("a", json!(2), json!({ "a": null })));
    call(store, "executions.setState", json!({ "id": id, "state": { "text": "s".repeat(6000) } }));
    get(store, id)["lastSequence"].as_i64().unwrap()
}

#[test]
fn a_fork_begins_where_the_log_stood_and_lives_on_its_own() {
    let (store, clock) = in_memory();
    let last = eventful(&store, "origin");
    call(&store, "queue.enqueue", json!({ "id": "i", "queue": "q", "executionId": "origin", "nodeId": "b" }));
    clock.advance(1000);
    let whole = fold(&store, "origin");
    let mut folds = Vec::new();
    for at in 0..=last {
        let id = format!("fork{at}");
        let fork = call(&store, "executions.fork", json!({ "id": "origin", "at": at, "newId": id }));
        assert_eq!(fork["parentId"], "origin");
        assert_eq!(
            (&fork["created"], &fork["lastSequence"], &fork["createdAt"]),
            (&json!(true), &json!(0), &json!(START + 1000))
        );
        let then = call(&store, "executions.materialize", json!({ "id": "origin", "at": at }));
        assert_eq!(without_sequences(fold(&store, &id)), without_sequences(then), "at {at}");
        folds.push(fold(&store, &id));
        assert_eq!(call(&store, "queue.list", json!({ "executionId": id }))["items"], json!([]));
    }
    // What changes in one does not touch the others.
    let note = "fork4";
    append(&store, note, "node_completed", completed("z", json!(1), json!({ "z": 1 })));
    call(&store, "executions.cancel", json!({ "id": "fork5" }));
    assert_eq!(fold(&store, "origin"), whole);
    append(&store, "origin", "workflow_completed", json!({ "output": 1 }));
    for (at, before) in folds.iter().enumerate().filter(|(at, _)| !(4..=5).contains(at)) {
        assert_eq!(fold(&store, &format!("fork{at}")), *before);
    }
    // Nor does the end of the origin: outputs of nodes and open approvals are the fork's own.
    call(&store, "executions.delete", json!({ "id": "origin" }));
    for (at, before) in folds.iter().enumerate().filter(|(at, _)| !(4..=5).contains(at)) {
        assert_eq!(fold(&store, &format!("fork{at}")), *before);
    }
    let id = format!("fork{last}");
    assert_eq!(get(&store, &id)["parentId"], "origin");
    let forks_fork = call(&store, "executions.fork", json!({ "id": id }));
    call(&store, "executions.delete", json!({ "id": id }));
    let id = forks_fork["id"].as_str().unwrap();
    let open = call(&store, "approvals.list", json!({ "executionId": id, "status": "pending" }))["items"].clone();
    assert_eq!(open[0]["approvalId"], "ok?");
    assert_eq!((&open[0]["toolName"], &open[0]["context"]), (&json!("rm"), &json!({ "path": "/tmp" })));
    assert_eq!((&open[1]["reason"], &open[1]["context"]), (&json!("look"), &json!([1])));
    for approval in open.as_array().unwrap() {
        assert_eq!(fold(&store, id)["status"], "paused");
        let arguments = json!({ "executionId": id, "approvalId": approval["approvalId"], "decision": "approved" });
        let decided = call(&store, "approvals.resolve", arguments);
        assert_eq!((&decided["status"], &decided["context"]), (&json!("approved"), &approval["context"]));
    }
    assert_eq!(fold(&store, id)["status"], "running");
}

#[test]
fn forks_are_asked_for_with_care() {
    let (store, _) = in_memory();
    let last = eventful(&store, "origin");
    for at in [-1, last + 1, i64::MIN, i64::MAX] {
        for operation in ["executions.fork", "executions.materialize"] {
            let error = try_call(&store, operation, json!({ "id": "origin", "at": at })).unwrap_err();
            assert_eq!(error.code().as_str(), "invalid_argument");
            assert_eq!((&error.details()["path"], &error.details()["lastSequence"]), (&json!("at"), &json!(last)));
        }
    }
    assert_eq!(code(&store, "executions.fork", json!({ "id": "none" })), "not_found");
    assert_eq!(code(&store, "executions.fork", json!({ "id": "origin", "newId": "origin" })), "conflict");
    let arguments = json!({ "id": "origin", "newId": "fork" });
    let fork = call(&store, "executions.fork", arguments.clone());
    append(&store, "origin", "x-note", json!(1));
    let again = call(&store, "executions.fork", arguments.clone());
    assert_eq!((&again["created"], &again["id"], &again["state"]), (&json!(false), &fork["id"], &fork["state"]));
    assert_eq!(code(&store, "executions.fork", json!({ "id": "origin", "newId": "fork", "at": 1 })), "conflict");
    call(&store, "executions.delete", json!({ "id": "origin" }));
    assert_eq!(call(&store, "executions.fork", arguments)["created"], false);
    // A fork of the end of a run is an ended run; one of before goes on.
    running(&store, "short");
    append(&store, "short", "workflow_completed", json!({ "output": null }));
    let ended = call(&store, "executions.fork", json!({ "id": "short" }));
    assert_eq!((&ended["status"], ended.get("output")), (&json!("completed"), Some(&Value::Null)));
    assert_eq!(call(&store, "executions.fork", json!({ "id": "short", "at": 1 }))["status"], "running");
}

#[test]
fn a_run_continues_as_a_new_one_once() {
    let (store, clock) = in_memory();
    call(
        &store,
        "executions.create",
        json!({ "id": "one", "workflowId": "w", "workflowVersion": "3", "input": [1], "tags": ["t"], "metadata": { "m": 1 },
                "sessionType": "resumable" }),
    );
    set_status(&store, "one", "running");
    call(&store, "executions.patchState", json!({ "id": "one", "patch": { "a": "x".repeat(5000) } }));
    call(&store, "queue.enqueue", json!({ "id": "old", "queue": "q", "executionId": "one", "nodeId": "n" }));
    clock.advance(10);
    let first = json!({ "id": "first", "queue": "q", "nodeId": "n", "payload": 7 });
    let given = json!({ "id": "one", "state": { "carried": 1 }, "enqueue": first });
    let mut wrong = given.clone();
    wrong["enqueue"]["executionId"] = "one".into();
    assert_eq!(code(&store, "executions.continueAsNew", wrong), "invalid_argument");
    assert_eq!(get(&store, "one")["status"], "running");
    let two = call(&store, "executions.continueAsNew", given.clone());
    let id = two["id"].as_str().unwrap();
    for (field, value) in [
        ("created", json!(true)),
        ("parentId", json!("one")),
        ("segment", json!(1)),
        ("status", json!("pending")),
        ("state", json!({ "carried": 1 })),
        ("input", json!([1])),
        ("tags", json!(["t"])),
        ("metadata", json!({ "m": 1 })),
        ("workflowId", json!("w")),
        ("workflowVersion", json!("3")),
        ("sessionType", json!("resumable")),
        ("lastSequence", json!(0)),
    ] {
        assert_eq!(two[field], value, "{field}");
    }
    let item = call(&store, "queue.get", json!({ "id": "first" }));
    assert_eq!((&item["executionId"], &item["status"]), (&two["id"], &json!("pending")));
    let old = get(&store, "one");
    assert_eq!((&old["status"], &old["completedAt"], &old["segment"]), (&json!("completed"), &json!(START + 10), &json!(0)));
    let log = log(&store, "one");
    assert_eq!(log[2]["type"], "segment_boundary");
    assert_eq!(log[2]["data"], json!({ "segmentNumber": 0, "nextExecutionId": id }));
    assert_eq!((&log[3]["type"], log.len()), (&json!("node_cancelled"), 4), "its waiting item");
    // Asked again, the same one; with something else, a conflict. Forks and other children are no segments.
    call(&store, "executions.fork", json!({ "id": "one", "newId": "fork" }));
    call(&store, "executions.create", json!({ "id": "child", "workflowId": "w", "parentId": "one" }));
    let again = call(&store, "executions.continueAsNew", given.clone());
    assert_eq!((&again["id"], &again["created"]), (&two["id"], &json!(false)));
    assert_eq!(code(&store, "executions.continueAsNew", json!({ "id": "one" })), "conflict");
    assert_eq!(code(&store, "executions.continueAsNew", json!({ "id": "fork" })), "invalid_transition");
    assert_eq!(call(&store, "executions.list", json!({ "parentId": "one" }))["items"].as_array().unwrap().len(), 3);
    // Without a state, the present one is carried; segments count on.
    set_status(&store, id, "running");
    call(&store, "executions.patchState", json!({ "id": id, "patch": { "big": "y".repeat(9000) } }));
    let three = call(&store, "executions.continueAsNew", json!({ "id": id }));
    assert_eq!((&three["segment"], &three["state"]), (&json!(2), &state(&store, id)));
    // A null is a state. What has ended continues no more, and a failure changes nothing.
    let four = call(&store, "executions.continueAsNew", json!({ "id": three["id"], "state": null }));
    assert_eq!((&four["state"], &four["segment"]), (&Value::Null, &json!(3)));
    call(&store, "executions.cancel", json!({ "id": four["id"] }));
    assert_eq!(code(&store, "executions.continueAsNew", json!({ "id": four["id"] })), "invalid_transition");
    running(&store, "careful");
    let taken = json!({ "id": "careful", "enqueue": { "id": "first", "queue": "q", "nodeId": "n" } });
    assert_eq!(code(&store, "executions.continueAsNew", taken), "conflict");
    let nodeless = json!({ "id": "careful", "enqueue": { "queue": "q" } });
    assert_eq!(code(&store, "executions.continueAsNew", nodeless), "invalid_argument");
    assert_eq!((get(&store, "careful")["status"].clone(), types(&store, "careful").len()), (json!("running"), 1));
    assert_eq!(call(&store, "executions.list", json!({ "parentId": "careful" }))["items"], json!([]));
}

#[test]
fn states_change_by_commands() {
    let (store, _) = in_memory();
    running(&store, "run");
    let change = |operation: &str, mut arguments: Value| {
        arguments["id"] = "run".into();
        try_call(&store, operation, arguments).map_err(|error| error.code().as_str())
    };
    // A merge patch by RFC 7396.
    for (patch, state) in [
        (json!({ "a": { "b": 1, "c": null } }), json!({ "a": { "b": 1 } })),
        (json!({ "a": { "b": null, "d": [null, { "e": null }] }, "gone": null }), json!({ "a": { "d": [null, { "e": null }] } })),
        (json!({ "a": 1 }), json!({ "a": 1 })),
        (json!({ "a": { "x": {} } }), json!({ "a": { "x": {} } })),
        (json!({}), json!({ "a": { "x": {} } })),
    ] {
        change("executions.patchState", json!({ "patch": patch })).unwrap();
        assert_eq!(self::state(&store, "run"), state);
    }
    for patch in [json!(null), json!([1]), json!("text"), json!(1), json!(true)] {
        assert_eq!(change("executions.patchState", json!({ "patch": patch })), Err("invalid_argument"), "{patch}");
    }
    assert_eq!(change("executions.patchState", json!({})), Err("invalid_argument"));
    assert_eq!(change("executions.setState", json!({})), Err("invalid_argument"));
    // Appending makes the array, and refuses what is none.
    change("executions.setState", json!({ "state": { "none": null, "text": "t", "object": {} } })).unwrap();
    for key in ["none", "text", "object"] {
        assert_eq!(change("executions.appendToState", json!({ "key": key, "value": 1 })), Err("conflict"), "{key}");
    }
    for value in [json!(1), json!(null), json!([2])] {
        change("executions.appendToState", json!({ "key": "l\u{1f600}", "value": value })).unwrap();
    }
    assert_eq!(state(&store, "run")["l\u{1f600}"], json!([1, null, [2]]));
    assert_eq!(change("executions.appendToState", json!({ "key": "l" })), Err("invalid_argument"));
    for state in [json!(null), json!([]), json!("text")] {
        change("executions.setState", json!({ "state": state })).unwrap();
        assert_eq!(change("executions.appendToState", json!({ "key": "l", "value": 1 })), Err("conflict"), "{state}");
    }
    // Only where the log is where it was expected.
    let last = get(&store, "run")["lastSequence"].as_i64().unwrap();
    for (operation, arguments) in [
        ("executions.setState", json!({ "state": {} })),
        ("executions.patchState", json!({ "patch": {} })),
        ("executions.appendToState", json!({ "key": "l", "value": 1 })),
    ] {
        let last = get(&store, "run")["lastSequence"].as_i64().unwrap();
        let mut arguments = arguments;
        for wrong in [last - 1, last + 1, 0] {
            arguments["expectedSequence"] = wrong.into();
            assert_eq!(change(operation, arguments.clone()), Err("conflict"));
        }
        arguments["expectedSequence"] = last.into();
        assert_eq!(change(operation, arguments).unwrap(), json!({ "lastSequence": last + 1, "status": "running" }));
    }
    assert_eq!(state(&store, "run"), json!({ "l": [1] }));
    assert_eq!(get(&store, "run")["lastSequence"], last + 3);
    // The status likewise; and once it has ended, nothing.
    let to =
        |status: &str, expected: &str| change("executions.setStatus", json!({ "status": status, "expectedStatus": expected }));
    assert_eq!(to("paused", "pending"), Err("conflict"));
    assert_eq!(to("running", "paused"), Err("conflict"));
    assert!(to("paused", "running").is_ok());
    assert!(change("executions.cancel", json!({ "reason": "enough" })).is_ok());
    assert_eq!(log(&store, "run").last().unwrap()["data"], json!({ "from": "paused", "to": "cancelled", "reason": "enough" }));
    let before = get(&store, "run");
    assert!(change("executions.cancel", json!({})).is_ok(), "it is cancelled already");
    for (operation, arguments) in [
        ("executions.setState", json!({ "state": {} })),
        ("executions.patchState", json!({ "patch": {}, "expectedSequence": 1 })),
        ("executions.appendToState", json!({ "key": "l", "value": 1 })),
        ("executions.setStatus", json!({ "status": "running" })),
        ("executions.continueAsNew", json!({})),
    ] {
        assert_eq!(change(operation, arguments), Err("invalid_transition"), "{operation}");
    }
    assert_eq!(get(&store, "run"), before);
    running(&store, "done");
    set_status(&store, "done", "completed");
    assert_eq!(code(&store, "executions.cancel", json!({ "id": "done" })), "invalid_transition");
}

#[test]
fn a_deep_state_survives_snapshots_forks_and_continuations() {
    let (store, _) = in_memory();
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for large in [false, true] {
        let id = if large { "large" } else { "small" };
        running(&store, id);
        // Text: serde_json's macro refuses such depths as we do beyond ours.
        let set = |state: &str| store.call("executions.setState", &format!("{{\"id\":\"{id}\",\"state\":{state}}}"));
        assert_eq!(set(&nested(129)).unwrap_err().code().as_str(), "too_large");
        let padding = if large { "p".repeat(5000) } else { String::new() };
        set(&format!("{{\"p\":\"{padding}\",\"d\":{}}}", nested(127))).unwrap();
        let add = |levels: usize| {
            store.call("executions.appendToState", &format!("{{\"id\":\"{id}\",\"key\":\"l\",\"value\":{}}}", nested(levels)))
        };
        add(126).unwrap();
        assert_eq!(add(127).unwrap_err().code().as_str(), "too_large");
        let events: Vec<Value> = (0..200).map(|_| json!({ "type": "x-note", "data": "n".repeat(100) })).collect();
        call(&store, "events.appendMany", json!({ "executionId": id, "events": events }));
        let get = |id: &str| store.call("executions.get", &format!("{{\"id\":{id:?}}}")).unwrap();
        let whole = get(id);
        assert!(whole.contains(&nested(127)));
        assert!(store.call("snapshots.latest", &format!("{{\"executionId\":\"{id}\"}}")).unwrap().contains("sequence"));
        store.call("executions.materialize", &format!("{{\"id\":\"{id}\"}}")).unwrap();
        store.call("executions.fork", &format!("{{\"id\":\"{id}\",\"newId\":\"fork-{id}\"}}")).unwrap();
        assert!(get(&format!("fork-{id}")).contains(&nested(127)));
        assert!(store.call("executions.continueAsNew", &format!("{{\"id\":\"{id}\"}}")).unwrap().contains(&nested(127)));
    }
}

#[test]
fn a_null_output_is_no_missing_one_however_it_is_kept() {
    let (store, _) = in_memory();
    running(&store, "run");
    append(&store, "run", "workflow_completed", json!({ "finalState": { "s": "x".repeat(5000) }, "output": null }));
    for _ in 0..3 {
        let events: Vec<Value> = (0..150).map(|_| json!({ "type": "x-note", "data": "n".repeat(100) })).collect();
        call(&store, "events.appendMany", json!({ "executionId": "run", "events": events }));
        assert_eq!(get(&store, "run").get("output"), Some(&Value::Null));
        assert_eq!(fold(&store, "run").get("output"), Some(&Value::Null));
    }
    assert!(call(&store, "snapshots.list", json!({ "executionId": "run" }))["items"].as_array().unwrap().len() > 1);
    let fork = call(&store, "executions.fork", json!({ "id": "run" }));
    assert_eq!(fork.get("output"), Some(&Value::Null));
}

/// All of a list, page by page; `between` runs after each.
fn walk(store: &Store, mut filter: Value, mut between: impl FnMut(usize)) -> Vec<String> {
    let (mut all, mut pages) = (Vec::new(), 0);
    loop {
        let page = call(store, "executions.list", filter.clone());
        all.extend(ids(&page));
        between(pages);
        pages += 1;
        if page["nextCursor"].is_null() {
            return all;
        }
        filter["cursor"] = page["nextCursor"].clone();
    }
}

#[test]
fn lists_filter_and_keep_their_order() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    // All in one millisecond.
    let mut all = Vec::new();
    for n in 0..100 {
        let id = format!("{}-{n}", ["z", "a", "m"][n % 3]);
        let (flow, parent) = (["f", "g"][n % 2], ["p", "q", "r"][n / 34]);
        let tags: Vec<String> =
            (1..=4).filter(|divisor| n % divisor == 0).map(|divisor| format!("by {divisor}, \"\u{1f600}\"")).collect();
        call(&store, "executions.create", json!({ "id": id, "workflowId": flow, "parentId": parent, "tags": tags }));
        all.push(id);
    }
    append(&store, &all[2], "x-note", json!(1));
    set_status(&store, &all[3], "running");
    let reversed: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(walk(&store, json!({ "limit": 7 }), |_| {}), all);
    assert_eq!(walk(&store, json!({ "limit": 7, "order": "desc" }), |_| {}), reversed);
    let where_ = |keep: &dyn Fn(usize) -> bool| -> Vec<String> {
        all.iter().enumerate().filter(|(n, _)| keep(*n)).map(|(_, id)| id.clone()).collect()
    };
    all.iter().step_by(5).for_each(|id| set_status(&store, id, "running"));
    let is_running = |n: usize| n.is_multiple_of(5) || n == 3;
    for limit in [1, 3, 1000] {
        let list = |mut filter: Value| {
            filter["limit"] = limit.into();
            walk(&store, filter, |_| {})
        };
        assert_eq!(list(json!({ "status": "running" })), where_(&is_running));
        assert_eq!(list(json!({ "status": "running", "tag": "by 3, \"\u{1f600}\"" })), where_(&|n| is_running(n) && n % 3 == 0));
        assert_eq!(list(json!({ "workflowId": "g" })), where_(&|n| n % 2 == 1));
        assert_eq!(list(json!({ "parentId": "q", "tag": "by 4, \"\u{1f600}\"" })), where_(&|n| n / 34 == 1 && n % 4 == 0));
        assert_eq!(
            list(json!({ "parentId": "q", "status": "running", "workflowId": "f" })),
            where_(&|n| n / 34 == 1 && is_running(n) && n % 2 == 0)
        );
        assert_eq!(list(json!({ "tag": "by 3" })), Vec::<String>::new());
        assert_eq!(list(json!({ "createdAfter": START })), Vec::<String>::new());
        assert_eq!(list(json!({ "createdAfter": START - 1, "createdBefore": START + 1 })), all);
        assert_eq!(list(json!({ "createdBefore": START })), Vec::<String>::new());
    }
    let mut desc = where_(&is_running);
    desc.reverse();
    assert_eq!(walk(&store, json!({ "status": "running", "order": "desc", "limit": 2 }), |_| {}), desc);
    // A tag once, however often it was given, sorted.
    let tagged = call(&store, "executions.create", json!({ "id": "tags", "workflowId": "w", "tags": ["b", "a", "b"] }));
    assert_eq!(tagged["tags"], json!(["a", "b"]));
    for bad in [
        json!({ "limit": 0 }),
        json!({ "limit": 1001 }),
        json!({ "cursor": "x" }),
        json!({ "cursor": "-1" }),
        json!({ "tag": "" }),
        json!({ "status": "gone" }),
        json!({ "colour": 1 }),
    ] {
        assert_eq!(code(&store, "executions.list", bad.clone()), "invalid_argument", "{bad}");
    }
    store.close().unwrap();
    let store = Store::open_with(&path, options(&clock)).unwrap();
    assert_eq!(walk(&store, json!({ "limit": 13, "workflowId": "f" }), |_| {}), where_(&|n| n % 2 == 0));
}

#[test]
fn a_row_that_is_there_all_the_while_appears_once_whatever_changes() {
    let (store, clock) = in_memory();
    for order in ["asc", "desc"] {
        let (store, clock) = (store.for_tenant("default"), clock.clone());
        let before: Vec<String> = (0..60).map(|n| format!("{order}{n}")).collect();
        before.iter().for_each(|id| create(&store, id));
        let filter = json!({ "limit": 7, "order": order });
        let seen = walk(&store, filter, |page| {
            // One behind and one ahead changes, one comes, one goes.
            clock.advance(if page % 2 == 0 { -500 } else { 300 });
            for changed in [page * 5 % 60, 59 - page] {
                let _ = try_call(&store, "events.append", json!({ "executionId": before[changed], "type": "x-note", "data": 1 }));
            }
            if page < 8 {
                create(&store, &format!("{order}new{page}"));
                call(&store, "executions.delete", json!({ "id": format!("{order}{}", 10 + page * 4) }));
            }
        });
        let unique: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(unique.len(), seen.len(), "a row twice");
        let lasting = before.iter().enumerate().filter(|(n, _)| !(*n >= 10 && (n - 10) % 4 == 0 && (n - 10) / 4 < 8));
        for (_, id) in lasting {
            assert!(unique.contains(id), "{id} was skipped");
        }
    }
}

#[test]
fn recent_is_in_order_of_change_whatever_the_clock_does() {
    let (store, clock) = in_memory();
    let mut order: Vec<String> = Vec::new();
    let mut touch = |id: &str, clock_ms: i64| {
        clock.advance(clock_ms);
        order.retain(|known| known != id);
        order.insert(0, id.to_owned());
        let recent = call(&store, "executions.recent", json!({ "limit": 200 }));
        assert_eq!(ids(&recent), order);
    };
    for n in 0..9 {
        create(&store, &format!("r{n}"));
        touch(&format!("r{n}"), -10);
    }
    for (step, n) in [3, 3, 8, 0, 3, 8, 8, 5, 0, 1, 2].into_iter().enumerate() {
        let id = format!("r{n}");
        match step % 4 {
            0 => drop(append(&store, &id, "x-note", json!(1))),
            1 => drop(call(&store, "executions.patchState", json!({ "id": id, "patch": {} }))),
            2 => drop(append(
                &store,
                &id,
                "workflow_started",
                json!({ "workflowId": "w", "workflowVersion": "1", "initialInput": 1 }),
            )),
            _ => drop(append(&store, &id, "node_cancelled", json!({ "nodeId": "n" }))),
        }
        touch(&id, if step % 2 == 0 { -1_000_000 } else { 7 });
    }
    call(&store, "executions.fork", json!({ "id": "r4", "newId": "fork" }));
    touch("fork", 0);
    // What changes nothing moves nothing: a status that it has, a repeated event.
    call(&store, "executions.setStatus", json!({ "id": "r4", "status": "pending" }));
    touch("fork", 0);
    // The newest one goes, and the numbers go on.
    call(&store, "executions.delete", json!({ "id": "fork" }));
    order.remove(0);
    create(&store, "last");
    order.insert(0, "last".to_owned());
    append(&store, "r6", "x-note", json!(1));
    order.retain(|id| id != "r6");
    order.insert(0, "r6".to_owned());
    assert_eq!(ids(&call(&store, "executions.recent", json!({}))), order);
    assert_eq!(ids(&call(&store, "executions.recent", json!({ "limit": 3 }))), order[..3]);
    for limit in [0, 201, -1] {
        assert_eq!(code(&store, "executions.recent", json!({ "limit": limit })), "invalid_argument");
    }
}

#[test]
fn counts_are_what_counting_finds() {
    let (store, clock) = in_memory();
    assert_eq!(call(&store, "executions.count", json!({ "groupBy": "status" })), json!({ "total": 0, "byStatus": {} }));
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for step in 0..1500 {
        let id = format!("e{}", random(40));
        let statuses = ["pending", "running", "paused", "completed", "failed", "cancelled", "limit_exceeded"];
        let (operation, arguments) = match random(12) {
            0..=3 => ("executions.create", json!({ "id": id, "workflowId": "w" })),
            4..=6 => ("executions.setStatus", json!({ "id": id, "status": statuses[random(7) as usize] })),
            7 => ("executions.delete", json!({ "id": id })),
            8 => ("executions.fork", json!({ "id": id })),
            9 => ("executions.continueAsNew", json!({ "id": id })),
            10 => (
                "events.append",
                json!({ "executionId": id, "type": "interrupt_raised", "data": { "nodeId": "n", "reason": "r", "stateForReview": 1 } }),
            ),
            _ => ("executions.cancel", json!({ "id": id })),
        };
        let _ = try_call(&store, operation, arguments);
        clock.advance(1);
        if step % 50 == 0 {
            if random(3) == 0 {
                call(&store, "retention.set", json!({ "executionsMs": 200 }));
                call(&store, "sweep", json!({}));
            }
            let mut counted: BTreeMap<String, i64> = BTreeMap::new();
            let mut filter = json!({ "limit": 1000 });
            loop {
                let page = call(&store, "executions.list", filter.clone());
                for execution in page["items"].as_array().unwrap() {
                    *counted.entry(execution["status"].as_str().unwrap().to_owned()).or_default() += 1;
                }
                filter["cursor"] = page["nextCursor"].clone();
                if filter["cursor"].is_null() {
                    break;
                }
            }
            assert_eq!(counts(&store), json!(counted), "step {step}");
            assert_eq!(call(&store, "executions.count", json!({})), json!({ "total": counted.values().sum::<i64>() }));
        }
    }
}

#[test]
fn deleting_takes_all_that_belongs_to_an_execution() {
    let (store, clock) = in_memory();
    call(&store, "queues.configure", json!({ "name": "q", "keyConcurrency": 1 }));
    eventful(&store, "run");
    call(&store, "executions.create", json!({ "id": "child", "workflowId": "w", "parentId": "run" }));
    for (id, key) in [("claimed", "k"), ("scheduled", "k"), ("pending", "k"), ("dead", "d")] {
        let delay = if id == "scheduled" { 60_000 } else { 0 };
        let item = json!({ "id": id, "queue": "q", "executionId": "run", "nodeId": "n", "concurrencyKey": key, "delayMs": delay, "maxAttempts": 1,
                           "payload": "p".repeat(10_000) });
        call(&store, "queue.enqueue", item);
    }
    call(&store, "queue.enqueue", json!({ "id": "other", "queue": "q", "concurrencyKey": "k", "priority": -1 }));
    let claim = || call(&store, "queue.claim", json!({ "workerId": "w", "queues": ["q"], "limit": 10 }));
    assert_eq!(claim().as_array().unwrap().len(), 2);
    call(&store, "queue.fail", json!({ "id": "dead", "fence": 1, "error": "e", "retryable": false }));
    call(&store, "timers.schedule", json!({ "id": "timer", "executionId": "run", "nodeId": "n", "delayMs": 10 }));
    assert_eq!(claim(), json!([]));
    call(&store, "executions.delete", json!({ "id": "run" }));
    // A waiting item whose key the deleted one held can run now.
    assert_eq!(claim()[0]["id"], "other");
    let stats = call(&store, "queues.stats", json!({ "queue": "q" }));
    for (status, count) in [("claimed", 1), ("pending", 0), ("scheduled", 0), ("dead_lettered", 0), ("completed", 0)] {
        assert_eq!(stats["counts"][status], count, "{status} of {stats}");
    }
    assert_eq!(call(&store, "executions.get", json!({ "id": "run" })), Value::Null);
    assert_eq!(get(&store, "child")["parentId"], "run");
    assert_eq!(call(&store, "executions.list", json!({ "parentId": "run" }))["items"].as_array().unwrap().len(), 1);
    for (operation, arguments) in [
        ("executions.delete", json!({ "id": "run" })),
        ("events.append", json!({ "executionId": "run", "type": "x-note", "data": 1 })),
        ("events.list", json!({ "executionId": "run" })),
        ("queue.complete", json!({ "id": "claimed", "fence": 1 })),
        ("executions.patchState", json!({ "id": "run", "patch": {} })),
        ("executions.materialize", json!({ "id": "run" })),
        ("deadLetters.redrive", json!({ "id": "dead" })),
        ("timers.cancel", json!({ "id": "timer" })),
    ] {
        assert_eq!(code(&store, operation, arguments), "not_found", "{operation}");
    }
    assert_eq!(call(&store, "approvals.list", json!({}))["items"], json!([]));
    assert_eq!(counts(&store), json!({ "pending": 1 }));
    clock.advance(100_000);
    let report = call(&store, "sweep", json!({}));
    assert_eq!((&report["timersFired"], &report["errors"]), (&json!(0), &json!([])));
    // The id is free again, for a run without a past.
    create(&store, "run");
    assert_eq!((state(&store, "run"), log(&store, "run").len()), (json!({}), 0));
}

#[test]
fn the_first_decision_counts() {
    let (store, clock) = in_memory();
    let ask = |run: &str, node: &str, id: Option<&str>| {
        let mut data = json!({ "nodeId": node, "toolName": "rm", "approver": "me", "context": { "of": run } });
        if let Some(id) = id {
            data["approvalId"] = id.into();
        }
        append(&store, run, "tool_approval_required", data)["id"].as_str().unwrap().to_owned()
    };
    for run in ["one", "two"] {
        running(&store, run);
    }
    ask("one", "n", Some("same"));
    ask("two", "m", Some("same"));
    let unnamed = ask("two", "m", None);
    clock.advance(5);
    let interrupt =
        append(&store, "one", "interrupt_raised", json!({ "nodeId": "i", "reason": "why", "stateForReview": { "s": 1 } }));
    let interrupt = interrupt["id"].as_str().unwrap();
    let list = |filter: Value| -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut filter = filter;
        filter["limit"] = 1.into();
        loop {
            let page = call(&store, "approvals.list", filter.clone());
            let text = |item: &Value, field: &str| item[field].as_str().unwrap().to_owned();
            all.extend(
                page["items"].as_array().unwrap().iter().map(|item| (text(item, "executionId"), text(item, "approvalId"))),
            );
            filter["cursor"] = page["nextCursor"].clone();
            if filter["cursor"].is_null() {
                return all;
            }
        }
    };
    let pair = |run: &str, id: &str| (run.to_owned(), id.to_owned());
    let all = [pair("one", "same"), pair("two", "same"), pair("two", &unnamed), pair("one", interrupt)];
    assert_eq!(list(json!({})), all);
    assert_eq!(list(json!({ "status": "pending", "order": "desc" })), all.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(list(json!({ "executionId": "two" })), all[1..3]);
    assert_eq!(list(json!({ "executionId": "two", "status": "approved" })), []);
    // The node is taken from the event that asked; the patch is merged; a paused run goes on when nothing else is open.
    clock.advance(5);
    let decided = call(
        &store,
        "approvals.resolve",
        json!({ "executionId": "one", "approvalId": interrupt, "decision": "approved", "userId": "me", "comment": "fine", "payload": null,
                "statePatch": { "ok": true } }),
    );
    let expected = json!({
        "executionId": "one", "approvalId": interrupt, "nodeId": "i", "status": "approved", "reason": "why", "context": { "s": 1 },
        "requestedAt": START + 5, "decidedAt": START + 10, "userId": "me", "comment": "fine", "payload": null,
    });
    assert_eq!(decided, expected);
    assert_eq!((&get(&store, "one")["status"], state(&store, "one")), (&json!("paused"), json!({ "ok": true })));
    let resolve = |run: &str, id: &str, decision: &str| {
        try_call(&store, "approvals.resolve", json!({ "executionId": run, "approvalId": id, "decision": decision }))
            .map_err(|error| error.code().as_str())
    };
    resolve("one", "same", "rejected").unwrap();
    assert_eq!(get(&store, "one")["status"], "running");
    assert_eq!(
        log(&store, "one").last().unwrap()["data"],
        json!({ "nodeId": "n", "approvalId": "same", "decision": "rejected" })
    );
    // A second one is refused, whatever it says, and leaves no event.
    let last = get(&store, "one");
    for decision in ["approved", "rejected"] {
        assert_eq!(resolve("one", "same", decision), Err("conflict"));
    }
    assert_eq!(get(&store, "one"), last);
    for (run, id, decision, code) in [
        ("one", "none", "approved", "not_found"),
        ("one", unnamed.as_str(), "approved", "not_found"),
        ("none", "same", "approved", "not_found"),
        ("two", "same", "maybe", "invalid_argument"),
        ("two", "", "approved", "invalid_argument"),
    ] {
        assert_eq!(resolve(run, id, decision), Err(code), "{run} {id} {decision}");
    }
    for patch in [json!([1]), json!("text"), json!(1)] {
        let arguments = json!({ "executionId": "two", "approvalId": "same", "decision": "approved", "statePatch": patch });
        assert_eq!(code(&store, "approvals.resolve", arguments), "invalid_argument");
    }
    // An event may decide too, without naming the approval: the oldest of the node.
    append(&store, "two", "approval_received", json!({ "nodeId": "m", "decision": "approved", "approvalId": null }));
    assert_eq!(list(json!({ "status": "pending" })), [pair("two", &unnamed)]);
    assert_eq!(resolve("two", "same", "approved"), Err("conflict"));
    // Asked again, it is open again.
    ask("two", "m", Some("same"));
    assert_eq!(list(json!({ "status": "pending" })).len(), 2);
    resolve("two", "same", "approved").unwrap();
    // Nobody decides for a run that has ended.
    call(&store, "executions.cancel", json!({ "id": "two" }));
    assert_eq!(resolve("two", &unnamed, "approved"), Err("invalid_transition"));
}

#[test]
fn definitions_are_put_once() {
    let (store, clock) = in_memory();
    let put = |id: &str, version: &str, definition: Value, more: Value| {
        let mut arguments = json!({ "id": id, "version": version, "definition": definition });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        try_call(&store, "workflows.put", arguments).map_err(|error| error.code().as_str())
    };
    let first = put("flow", "2", json!({ "a": 1, "b": [null] }), json!({})).unwrap();
    assert_eq!(
        first,
        json!({ "id": "flow", "version": "2", "definition": { "a": 1, "b": [null] }, "createdAt": START, "updatedAt": START, "created": true })
    );
    clock.advance(5);
    // The same content, in another order of keys, changes nothing.
    let again =
        store.call("workflows.put", r#"{"id":"flow","version":"2","definition":{"b":[null],  "a":1},"replace":true}"#).unwrap();
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((&again["created"], &again["updatedAt"]), (&json!(false), &json!(START)));
    assert_eq!(put("flow", "2", json!({ "a": 2 }), json!({})), Err("conflict"));
    assert_eq!(put("flow", "2", json!({ "a": 2 }), json!({ "replace": false })), Err("conflict"));
    let replaced = put("flow", "2", json!({ "a": 2 }), json!({ "replace": true })).unwrap();
    assert_eq!(
        (&replaced["created"], &replaced["createdAt"], &replaced["updatedAt"]),
        (&json!(false), &json!(START), &json!(START + 5))
    );
    // The latest is the one that was put last, whatever its version is called.
    put("flow", "10", json!(null), json!({})).unwrap();
    put("flow", "1", json!("text"), json!({})).unwrap();
    put("other", "1", json!(1), json!({})).unwrap();
    let get = |arguments: Value| call(&store, "workflows.get", arguments);
    assert_eq!(get(json!({ "id": "flow" }))["version"], "1");
    assert_eq!(get(json!({ "id": "flow", "version": "2" }))["definition"], json!({ "a": 2 }));
    assert_eq!(get(json!({ "id": "flow", "version": "10" })).get("definition"), Some(&Value::Null));
    assert_eq!((get(json!({ "id": "flow", "version": "3" })), get(json!({ "id": "none" }))), (Value::Null, Value::Null));
    let versions = |filter: Value| -> Vec<String> {
        let page = call(&store, "workflows.list", filter);
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|w| format!("{}@{}", w["id"].as_str().unwrap(), w["version"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(versions(json!({})), ["flow@2", "flow@10", "flow@1", "other@1"]);
    assert_eq!(versions(json!({ "id": "flow", "order": "desc" })), ["flow@1", "flow@10", "flow@2"]);
    assert_eq!(versions(json!({ "id": "none" })), [""; 0]);
    assert_eq!(put("flow", "", json!(1), json!({})), Err("invalid_argument"));
    assert_eq!(code(&store, "workflows.put", json!({ "id": "flow", "version": "9" })), "invalid_argument");
}

/// How many bytes the log of writes has grown by, in the middle of `count` patches of one key.
fn patch_cost(bytes: usize, count: usize) -> (u64, std::time::Duration) {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    running(&store, "run");
    call(&store, "executions.setState", json!({ "id": "run", "state": { "n": 0, "text": "x".repeat(bytes) } }));
    // A reader keeps the log of writes from starting over.
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM executions").unwrap();
    let written = || std::fs::metadata(format!("{}-wal", path.display())).unwrap().len();
    let mut costs = Vec::new();
    for n in 0..count {
        let arguments = json!({ "id": "run", "patch": { "n": n } }).to_string();
        let before = written();
        #[expect(clippy::disallowed_methods, reason = "printed, not judged")]
        let began = std::time::Instant::now();
        store.call("executions.patchState", &arguments).unwrap();
        costs.push((written() - before, began.elapsed()));
    }
    assert_eq!(state(&store, "run")["n"], count - 1);
    let mut times: Vec<_> = costs.iter().map(|cost| cost.1).collect();
    times.sort();
    costs.sort();
    (costs[count / 2].0, times[count / 2])
}

#[test]
fn a_patch_of_one_key_costs_the_same_in_a_large_state() {
    let ((small, small_time), (large, large_time)) = (patch_cost(1000, 301), patch_cost(1_000_000, 301));
    println!("1 KB: {small} bytes written, {small_time:?}; 1 MB: {large} bytes, {large_time:?}");
    assert!(large <= 5 * small, "{large} bytes against {small}");
}

#[test]
fn what_is_folded_stays_short_however_long_the_log_is() {
    let (store, _) = in_memory();
    running(&store, "run");
    call(&store, "executions.patchState", json!({ "id": "run", "patch": { "text": "x".repeat(3500) } }));
    let mut furthest = 0;
    for round in 0..100 {
        let events: Vec<Value> = (0..200)
            .map(|n| {
                let node = format!("node-{}", (round * 200 + n) % 1000);
                json!({ "type": "node_completed", "data": completed(&node, json!({ "n": n }), json!({ "round": round })) })
            })
            .collect();
        call(&store, "events.appendMany", json!({ "executionId": "run", "events": events }));
        let kept = call(&store, "snapshots.latest", json!({ "executionId": "run" }));
        furthest = furthest.max(get(&store, "run")["lastSequence"].as_i64().unwrap() - kept["sequence"].as_i64().unwrap_or(0));
    }
    // The fold weighs about 40 KB with a thousand nodes, an event about 100 bytes.
    assert!(furthest <= 1000, "{furthest} events to fold");
    let snapshots = call(&store, "snapshots.list", json!({ "executionId": "run", "limit": 1000 }));
    let snapshots: i64 = snapshots["items"].as_array().unwrap().iter().map(|snapshot| snapshot["bytes"].as_i64().unwrap()).sum();
    let mut events = 0;
    for after in (0..20_002).step_by(1000) {
        let page = call(&store, "events.list", json!({ "executionId": "run", "after": after, "limit": 1000 }));
        events += page["items"].as_array().unwrap().iter().map(|event| event["data"].to_string().len()).sum::<usize>();
    }
    println!("{events} bytes of events, {snapshots} bytes of snapshots, at most {furthest} events to fold");
    assert!(snapshots as usize <= 2 * events);
}

#[test]
fn an_unreadable_event_is_named_and_hides_no_other() {
    let spoil = [
        "UPDATE events SET data = '{broken' WHERE id = 'b'",
        "UPDATE events SET data = '5' WHERE id = 'b'",
        "UPDATE events SET data = CAST(x'ff' AS TEXT) WHERE id = 'b'",
        "UPDATE events SET type = CAST(x'ff' AS TEXT) WHERE id = 'b'",
        "UPDATE events SET data = '{broken' WHERE id = 'x'",
    ];
    for spoil in spoil {
        let folder = Folder::new();
        let path = folder.file("store.db");
        let store = Store::open(&path).unwrap();
        running(&store, "run");
        let event = |id: &str, event_type: &str, data: Value| {
            call(&store, "events.append", json!({ "executionId": "run", "id": id, "type": event_type, "data": data }));
        };
        event("a", "node_completed", completed("n", json!(1), json!({})));
        event("b", "node_completed", completed("m", json!(2), json!({})));
        event("x", "x-note", json!([1]));
        event("c", "node_completed", completed("o", json!(3), json!({})));
        let raw = rusqlite::Connection::open(&path).unwrap();
        raw.execute_batch("PRAGMA ignore_check_constraints = on").unwrap();
        assert_eq!(raw.execute(spoil, ()).unwrap(), 1, "{spoil}");
        let damaged = if spoil.ends_with("'x'") { "x" } else { "b" };
        let error = try_call(&store, "executions.materialize", json!({ "id": "run" })).unwrap_err();
        let named = (error.code().as_str(), &error.details()["table"], &error.details()["id"]);
        assert_eq!(named, ("corrupt", &json!("events"), &json!(damaged)), "{spoil}");
        // What came before can still be seen.
        assert_eq!(call(&store, "executions.materialize", json!({ "id": "run", "at": 2 }))["completedNodes"], json!({ "n": 1 }));
        // Data that is JSON, if not what its type has, can be shown.
        if !spoil.contains("'5'") {
            let page = call(&store, "events.list", json!({ "executionId": "run" }));
            let ids: Vec<_> =
                page["items"].as_array().unwrap().iter().map(|event| &event["id"]).filter(|id| *id != damaged).collect();
            assert_eq!(ids.len(), 4, "{spoil}: {page}");
            assert_eq!(page["damaged"][0]["id"], damaged, "{spoil}");
        }
    }
}

#[test]
fn a_cost_beyond_every_number_is_the_largest() {
    let (store, _clock) = in_memory();
    running(&store, "run");
    for cost in ["1e400", "0.5"] {
        let data = format!(r#"{{"nodeId":"n","output":null,"statePatch":null,"durationMs":1,"costUsd":{cost}}}"#);
        store.call("events.append", &format!(r#"{{"executionId":"run","type":"node_completed","data":{data}}}"#)).unwrap();
    }
    assert_eq!(call(&store, "executions.materialize", json!({ "id": "run" }))["budget"]["costUsd"], json!(f64::MAX));
}

/// A run is folded again only from where it was last asked for. What has become of it meanwhile must not be missed.
#[test]
fn a_fold_that_is_known_follows_its_run() {
    let folder = Folder::new();
    let clock = clock();
    let open = || Store::open_with(folder.file("store.db"), options(&clock)).unwrap();
    let (store, other) = (open(), open());
    let write = |store: &Store, value: &str| {
        let data = json!({ "nodeId": value, "output": value, "statePatch": { "last": value }, "durationMs": 1 });
        call(store, "events.append", json!({ "executionId": "run", "type": "node_completed", "data": data }));
    };
    let create = |store: &Store| {
        call(store, "executions.create", json!({ "id": "run", "workflowId": "w" }));
    };
    let expect = |nodes: &[&str]| {
        for store in [&store, &other] {
            let seen = call(store, "executions.materialize", json!({ "id": "run" }));
            assert_eq!(seen["state"]["last"].as_str(), nodes.last().copied());
            let completed: Vec<&String> = seen["completedNodes"].as_object().unwrap().keys().collect();
            assert_eq!(completed, nodes);
            let at = json!({ "id": "run", "at": nodes.len() });
            assert_eq!(call(store, "executions.materialize", at), seen);
        }
    };
    create(&store);
    expect(&[]);
    write(&store, "a");
    expect(&["a"]);
    write(&other, "b");
    expect(&["a", "b"]);

    // Another run takes its place, in the same row and under the same id.
    for (deletes, creates, node) in [(&store, &store, "c"), (&other, &other, "d"), (&store, &other, "e")] {
        call(deletes, "executions.delete", json!({ "id": "run" }));
        assert_eq!(code(&store, "executions.materialize", json!({ "id": "run" })), "not_found");
        create(creates);
        write(creates, node);
        expect(&[node]);
    }

    // What is undone has not been.
    let failing = json!({ "calls": [
        { "operation": "executions.delete", "arguments": { "id": "run" } },
        { "operation": "executions.delete", "arguments": { "id": "none" } },
    ] });
    assert_eq!(code(&store, "batch", failing), "not_found");
    expect(&["e"]);
    let many: Vec<String> = (0..250).map(|n| format!("n{n:03}")).collect();
    let mut nodes = vec!["e"];
    for (n, node) in many.iter().enumerate() {
        write(&store, node);
        nodes.push(node);
        if n % 70 == 0 {
            expect(&nodes);
        }
    }
    expect(&nodes);
}
