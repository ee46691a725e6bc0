//! Tenants: nothing of one can be read, changed, counted, claimed or found to exist by another. Limits, suspension, tokens.

mod common;

use std::collections::BTreeSet;

use common::{Folder, START, call, clock, code, in_memory, options, try_call};
use runkeep::threads::blobs::PutBlob;
use runkeep::{Answer, Call, ErrorCode, Given, ManualClock, OPERATIONS, Store};
use serde_json::{Value, json};

const MINUTE: i64 = 60_000;

fn create_tenant(store: &Store, id: &str) -> Store {
    call(store, "tenants.create", json!({ "id": id }));
    store.for_tenant(id)
}

/// What one tenant does. Rows are named with `prefix`; queues, workers' queues and keys are the same for all.
fn populate(store: &Store, prefix: &str) {
    let id = |name: &str| format!("{prefix}{name}");
    let all = |operation: &str, each: &[Value]| each.iter().for_each(|arguments| drop(call(store, operation, arguments.clone())));
    let item = |name: &str, more: Value| {
        let mut item = json!({ "id": id(name), "queue": "q", "payload": { "of": prefix }, "concurrencyKey": "k" });
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    all("workflows.put", &[json!({ "id": id("flow"), "version": "1", "definition": { "of": prefix } })]);
    for name in ["run", "paused", "ended", "long"] {
        all(
            "executions.create",
            &[json!({ "id": id(name), "workflowId": id("flow"), "input": prefix, "tags": ["t"], "parentId": id("parent") })],
        );
        all("executions.setStatus", &[json!({ "id": id(name), "status": "running" })]);
    }
    all("executions.setState", &[json!({ "id": id("run"), "state": { "list": [prefix] } })]);
    all(
        "events.append",
        &[
            json!({ "executionId": id("run"), "id": id("event"), "type": "x-note", "data": prefix }),
            json!({ "executionId": id("paused"), "id": id("ask"), "type": "interrupt_raised",
                    "data": { "nodeId": "n", "reason": prefix, "stateForReview": prefix } }),
        ],
    );
    all("executions.cancel", &[json!({ "id": id("ended"), "reason": prefix })]);
    let events: Vec<Value> = (0..120)
        .map(|n| json!({ "id": format!("{prefix}long{n}"), "type": "x-note", "data": "some text of an event" }))
        .collect();
    all("events.appendMany", &[json!({ "executionId": id("long"), "events": events })]);
    all(
        "queue.enqueue",
        &[
            item("dead", json!({ "queue": "dying", "maxAttempts": 1 })),
            item("expired", json!({ "executionId": id("run"), "nodeId": "n", "priority": 5 })),
            item("claimed", json!({ "concurrencyKey": "held", "priority": 4 })),
        ],
    );
    let claim = |queue: &str, worker: &str, lease: i64| {
        let claimed = call(store, "queue.claim", json!({ "workerId": id(worker), "queues": [queue], "leaseMs": lease }));
        json!({ "id": claimed[0]["id"], "fence": claimed[0]["fence"] })
    };
    let mut dead = claim("dying", "worker", 1000);
    dead["error"] = json!("broken");
    dead["retryable"] = json!(false);
    all("queue.fail", &[dead]);
    claim("q", "worker", 0x7fff);
    claim("q", "worker", 1000);
    all(
        "queue.enqueue",
        &[
            item("waiting", json!({ "idempotencyKey": id("once") })),
            item("gpu", json!({ "requires": ["gpu"], "concurrencyKey": "other" })),
            item("later", json!({ "delayMs": 60_000 })),
            item("limited", json!({ "queue": "limited" })),
        ],
    );
    all("queues.configure", &[json!({ "name": "limited", "concurrency": 1, "rateLimit": { "limit": 1, "perMs": 1000 } })]);
    all("queues.pause", &[json!({ "name": "paused" })]);
    all("queues.hold", &[json!({ "name": "held", "key": "k", "until": START + 100_000 })]);
    all(
        "workers.register",
        &[json!({ "workerId": id("worker"), "pool": prefix, "queues": ["q"], "capabilities": ["gpu"], "livenessTtlMs": 1000 })],
    );
    all("timers.schedule", &[json!({ "id": id("timer"), "executionId": id("run"), "nodeId": "n", "delayMs": 100 })]);
    all("cron.put", &[json!({ "name": id("cron"), "expression": "0 * * * *", "workflowId": id("flow") })]);
    all("tokens.create", &[json!({ "name": id("token"), "role": "viewer" })]);
    all("retention.set", &[json!({ "itemsMs": prefix.len() })]);
    all("threads.create", &[json!({ "id": id("asked"), "title": prefix })]);
    all("threadEvents.append", &[json!({ "threadId": id("asked"), "type": "said", "data": prefix })]);
    let owned = json!({ "id": id("owned"), "threadId": id("asked"), "status": "in_progress", "ownerId": id("tab"), "inputSummary": prefix });
    all("turns.create", &[owned]);
    for turn in ["turn", "idle"] {
        all("turns.create", &[json!({ "id": id(turn), "threadId": id("asked") })]);
    }
    for name in ["said", "streams", "heard"] {
        let item = json!({ "id": id(name), "threadId": id("asked"), "turnId": id("turn"), "kind": "tool_call", "data": prefix });
        all("items.create", &[item]);
    }
    let words = format!("both say this, and {}", id("secret"));
    all("items.create", &[json!({ "threadId": id("asked"), "kind": "assistant_message", "text": words })]);
    for name in ["streams", "heard"] {
        all("items.appendText", &[json!({ "id": id(name), "delta": prefix })]);
    }
    for (name, delivery) in [("prompt", "queue"), ("second", "queue"), ("steer", "steer"), ("back", "queue")] {
        all("inbox.admit", &[json!({ "id": id(name), "threadId": id("asked"), "prompt": prefix, "delivery": delivery })]);
    }
    all("inbox.promoteNext", &[json!({ "threadId": id("asked"), "turn": { "id": id("next") } })]);
    all("inbox.withdraw", &[json!({ "id": id("back") })]);
    let tokens = prefix.bytes().map(i64::from).sum::<i64>();
    let used =
        json!({ "turnId": id("turn"), "responseId": id("response"), "model": "m", "inputTokens": tokens, "outputTokens": 0 });
    all("usage.record", &[used]);
    all("usage.setPrices", &[json!({ "prices": [{ "modelPattern": id("model"), "input": 1, "output": 1 }] })]);
    store.blobs().put(PutBlob { bytes: prefix.into(), media_type: None }).unwrap();
}

/// A walk through a list, two rows a page, with the cursors.
fn walk(store: &Store, operation: &str, mut arguments: Value) -> Value {
    let mut pages = Vec::new();
    arguments["limit"] = 2.into();
    loop {
        let page = call(store, operation, arguments.clone());
        arguments["cursor"] = page["nextCursor"].clone();
        pages.push(page);
        if arguments["cursor"].is_null() {
            return pages.into();
        }
    }
}

/// Everything that a tenant can read of itself.
fn readable(store: &Store) -> Vec<(String, Value)> {
    let mut seen = Vec::new();
    let mut see = |name: String, value: Value| seen.push((name, value));
    for list in [
        "executions.list",
        "approvals.list",
        "workflows.list",
        "queue.list",
        "queues.list",
        "deadLetters.list",
        "leases.listExpired",
        "workers.list",
        "workers.history",
        "tokens.list",
        "timers.list",
        "cron.list",
        "threads.list",
        "turns.listIncomplete",
        "usage.list",
        "blobs.list",
    ] {
        see(list.to_owned(), walk(store, list, json!({})));
    }
    see("recent".to_owned(), call(store, "executions.recent", json!({})));
    see("recent threads".to_owned(), call(store, "threads.recent", json!({ "archived": "include" })));
    see("count".to_owned(), call(store, "executions.count", json!({ "groupBy": "status" })));
    see("stats".to_owned(), call(store, "queues.stats", json!({})));
    see("retention".to_owned(), call(store, "retention.get", json!({})));
    for group in ["day", "model", "provider", "thread"] {
        see(format!("usage by {group}"), call(store, "usage.aggregate", json!({ "groupBy": group })));
    }
    see("prices".to_owned(), call(store, "usage.getPrices", json!({})));
    see("search".to_owned(), call(store, "threads.search", json!({ "text": "both say", "archived": "include" })));
    for prefix in ["a-", "b-"] {
        let of = json!({ "threadId": format!("{prefix}asked") });
        for operation in ["turns.list", "threadEvents.list", "items.list", "inbox.list", "inbox.next", "inbox.steers"] {
            see(format!("{operation} of {prefix}"), try_call(store, operation, of.clone()).unwrap_or_default());
        }
    }
    see("leases".to_owned(), walk(store, "leases.listExpired", json!({ "asOf": START + 1_000_000 })));
    for execution in call(store, "executions.list", json!({ "limit": 1000 }))["items"].as_array().unwrap() {
        let id = &execution["id"];
        see(format!("events of {id}"), walk(store, "events.list", json!({ "executionId": id })));
        see(format!("snapshots of {id}"), walk(store, "snapshots.list", json!({ "executionId": id })));
        see(format!("fold of {id}"), call(store, "executions.materialize", json!({ "id": id })));
    }
    for item in call(store, "queue.list", json!({ "limit": 1000 }))["items"].as_array().unwrap() {
        see(format!("attempts of {}", item["id"]), call(store, "queue.attempts", json!({ "id": item["id"] })));
    }
    seen
}

/// Arguments of every operation that aim at rows of another tenant: by id (`b-…`), or by what both have.
fn attacks(operation: &str, token: &str, token_id: &str) -> Option<Vec<Value>> {
    let held = json!({ "id": "b-claimed", "fence": 1 });
    let with = |mut held: Value, more: Value| {
        held.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        held
    };
    let run = json!({ "id": "b-run" });
    let of_run = json!({ "executionId": "b-run" });
    let note = json!({ "type": "x-note", "data": 1 });
    let b_item =
        json!({ "id": "b-waiting", "queue": "q", "payload": { "of": "b-" }, "concurrencyKey": "k", "idempotencyKey": "once2" });
    Some(match operation {
        "executions.create" => vec![
            json!({ "id": "b-run", "workflowId": "mine" }),
            json!({ "id": "a-child", "workflowId": "b-flow", "parentId": "b-run" }),
        ],
        "executions.get"
        | "executions.materialize"
        | "queue.get"
        | "queue.attempts"
        | "queue.cancel"
        | "deadLetters.delete"
        | "timers.cancel"
        | "timers.get" => {
            ["b-paused", "b-long", "b-waiting", "b-claimed", "b-dead", "b-timer"].map(|id| json!({ "id": id })).into()
        }
        "executions.list" => vec![
            json!({}),
            json!({ "status": "running" }),
            json!({ "parentId": "b-parent" }),
            json!({ "tag": "t" }),
            json!({ "workflowId": "b-flow" }),
            json!({ "order": "desc", "limit": 1 }),
            json!({ "cursor": "9999999999999" }),
            json!({ "order": "desc", "cursor": "9999999999999" }),
            json!({ "cursor": "9223372036854775807" }),
        ],
        "executions.setStatus" => vec![json!({ "id": "b-long", "status": "paused" })],
        "executions.recent" => vec![json!({}), json!({ "limit": 1 })],
        "executions.count" => vec![json!({}), json!({ "groupBy": "status" })],
        "executions.cancel" => vec![json!({ "id": "b-long" })],
        "executions.setState" => vec![with(json!({ "id": "b-long" }), json!({ "state": 1 }))],
        "executions.patchState" => vec![json!({ "id": "b-long", "patch": {} })],
        "executions.appendToState" => vec![json!({ "id": "b-long", "key": "list", "value": 1 })],
        "executions.continueAsNew" => vec![json!({ "id": "b-long" })],
        "executions.fork" => vec![json!({ "id": "b-long" }), json!({ "id": "a-long", "newId": "b-ended", "at": 3 })],
        "executions.delete" => vec![json!({ "id": "b-ended2" }), json!({ "id": "b-paused" })],
        "events.append" => vec![
            with(of_run.clone(), note),
            // An id that an event of the other tenant has.
            json!({ "executionId": "a-run", "id": "b-event", "type": "x-note", "data": "b-" }),
        ],
        "events.appendMany" => vec![json!({ "executionId": "b-run", "events": [{ "type": "x-note" }] })],
        "events.list" | "snapshots.list" | "events.latestSequence" | "snapshots.latest" => {
            vec![json!({ "executionId": "b-paused" }), json!({ "executionId": "b-long" })]
        }
        "approvals.list" => vec![
            json!({}),
            json!({ "status": "pending" }),
            json!({ "executionId": "b-paused" }),
            json!({ "order": "desc", "status": "pending" }),
        ],
        "approvals.resolve" => vec![
            json!({ "executionId": "b-paused", "approvalId": "b-ask", "decision": "approved" }),
            json!({ "executionId": "a-paused", "approvalId": "b-ask", "decision": "approved" }),
        ],
        "workflows.put" => vec![json!({ "id": "b-flow", "version": "1", "definition": 1 })],
        "workflows.get" => vec![json!({ "id": "b-flow" }), json!({ "id": "b-flow", "version": "2" })],
        "workflows.list" => vec![json!({}), json!({ "id": "b-flow" }), json!({ "order": "desc" })],
        "queue.enqueue" => vec![
            b_item,
            json!({ "id": "a-other", "queue": "q", "idempotencyKey": "b-once", "payload": "other" }),
            json!({ "queue": "q", "executionId": "b-run", "nodeId": "n" }),
        ],
        "queue.enqueueMany" => vec![json!({ "items": [{ "id": "b-gpu", "queue": "q" }] })],
        "queue.claim" => vec![
            json!({ "workerId": "b-worker", "queues": ["q", "dying", "held", "paused", "limited", "nothing"], "limit": 100 }),
            json!({ "workerId": "a-worker", "queues": ["limited"], "limit": 100 }),
        ],
        "queue.renew" => vec![with(held, json!({ "leaseMs": 5000 }))],
        "queue.complete" => vec![held.clone(), json!({ "id": "b-expired", "fence": 1 })],
        "queue.fail" => vec![with(held, json!({ "error": "e" }))],
        "queue.release" => vec![held],
        "queue.list" => vec![
            json!({}),
            json!({ "queue": "q" }),
            json!({ "status": "pending" }),
            json!({ "status": "claimed", "queue": "q" }),
            json!({ "executionId": "b-run" }),
            json!({ "order": "desc", "cursor": "9999999999999" }),
        ],
        "queues.list" => vec![json!({}), json!({ "order": "desc", "limit": 1 })],
        "queues.configure" => {
            vec![json!({ "name": "limited", "concurrency": 7 }), json!({ "name": "b-queue", "maxAttempts": 2 })]
        }
        "queues.pause" | "queues.resume" => vec![json!({ "name": "q" }), json!({ "name": "paused" })],
        "queues.hold" => vec![json!({ "name": "held", "key": "k", "until": null })],
        "queues.stats" => vec![json!({}), json!({ "queue": "q" }), json!({ "executionId": "b-run" })],
        "deadLetters.list" => vec![json!({}), json!({ "queue": "dying" })],
        "deadLetters.redrive" => vec![json!({ "id": "b-dead" }), json!({ "queue": "dying" })],
        "leases.listExpired" => {
            vec![json!({}), json!({ "asOf": START + 1_000_000 }), json!({ "asOf": START + 1_000_000, "namespace": "default" })]
        }
        "workers.register" => {
            vec![json!({ "workerId": "b-worker", "pool": "other", "queues": [], "capabilities": [], "livenessTtlMs": 1000 })]
        }
        "workers.heartbeat" => vec![json!({ "workerId": "b-worker" }), json!({ "workerId": "b-worker2" })],
        "workers.markDead" => vec![json!({ "workerId": "b-worker", "reason": "r" })],
        "workers.history" | "workers.list" => vec![json!({}), json!({ "namespace": "default" })],
        "timers.schedule" => vec![
            json!({ "executionId": "b-run", "nodeId": "n", "delayMs": 1 }),
            json!({ "id": "b-timer", "executionId": "a-long", "nodeId": "n", "delayMs": 1 }),
        ],
        "timers.list" => vec![json!({}), json!({ "executionId": "b-run" }), json!({ "status": "pending" })],
        "cron.put" => vec![json!({ "name": "b-cron", "expression": "1 * * * *", "workflowId": "w" })],
        "cron.get" | "cron.trigger" | "cron.delete" => vec![json!({ "name": "b-cron" }), json!({ "name": "b-cron2" })],
        "cron.list" => vec![json!({})],
        "tokens.create" => vec![json!({ "name": "b-token", "role": "operator" })],
        "tokens.validate" => vec![json!({ "token": token })],
        "tokens.revoke" => vec![json!({ "id": token_id })],
        "tokens.list" => vec![json!({}), json!({ "order": "desc" })],
        "threads.search" => vec![
            json!({ "text": "both say" }),
            json!({ "text": "b-secret", "archived": "include" }),
            json!({ "text": "b" }),
            json!({ "text": "both", "threadId": "b-asked" }),
        ],
        "threads.create" => vec![json!({ "id": "b-asked", "title": "mine" }), json!({ "id": "b-asked2" })],
        "threads.get" | "threads.archive" | "threads.unarchive" => ["b-asked", "b-asked3"].map(|id| json!({ "id": id })).into(),
        "threads.update" => vec![json!({ "id": "b-asked", "title": "mine", "model": "m", "archived": true })],
        "threads.list" => vec![
            json!({}),
            json!({ "archived": "include", "order": "desc" }),
            json!({ "archived": "only" }),
            json!({ "cursor": "9223372036854775807" }),
        ],
        "threads.recent" => vec![json!({}), json!({ "archived": "include", "limit": 1 })],
        "threads.delete" => vec![json!({ "id": "b-asked3" })],
        "threads.fork" => vec![
            json!({ "id": "b-asked" }),
            json!({ "id": "a-asked", "atItem": "b-said" }),
            json!({ "id": "a-asked", "atTurn": "b-turn" }),
            json!({ "id": "a-asked", "newId": "b-forked" }),
        ],
        "turns.create" => {
            vec![json!({ "threadId": "b-asked" }), json!({ "id": "b-turn", "threadId": "a-asked", "executionId": "b-run" })]
        }
        "turns.get" => vec![json!({ "id": "b-owned" }), json!({ "id": "b-owned2" })],
        "turns.update" => vec![json!({ "id": "b-owned", "status": "completed", "inputSummary": "mine" })],
        "turns.list" => vec![
            json!({ "threadId": "b-asked" }),
            json!({ "threadId": "a-asked", "order": "desc", "cursor": "9223372036854775807" }),
        ],
        "turns.listIncomplete" => vec![json!({}), json!({ "order": "desc", "limit": 1 })],
        "turns.recover" => vec![json!({ "liveOwnerIds": ["a-tab"] }), json!({ "liveOwnerIds": [] })],
        "threadEvents.append" => {
            vec![json!({ "threadId": "b-asked", "type": "t" }), json!({ "threadId": "a-asked", "turnId": "b-turn", "type": "t" })]
        }
        "threadEvents.list" => {
            vec![json!({ "threadId": "b-asked" }), json!({ "threadId": "a-asked", "cursor": "9223372036854775807" })]
        }
        "items.create" => vec![
            json!({ "threadId": "b-asked", "kind": "error" }),
            json!({ "threadId": "a-asked", "turnId": "b-turn", "kind": "error" }),
            json!({ "id": "b-said", "threadId": "a-asked", "kind": "error", "parentId": "b-streams" }),
        ],
        "items.put" => vec![
            json!({ "id": "b-streams", "text": "mine" }),
            json!({ "id": "b-streams", "threadId": "b-asked", "kind": "tool_call" }),
            json!({ "id": "b-streams", "threadId": "a-asked", "kind": "tool_call", "text": "mine" }),
        ],
        "items.get" | "items.delete" | "items.readText" => ["b-heard", "b-heard2"].map(|id| json!({ "id": id })).into(),
        "items.update" => vec![json!({ "id": "b-heard", "text": "mine" })],
        "items.appendText" => {
            vec![json!({ "id": "b-heard", "delta": "mine" }), json!({ "id": "b-heard", "delta": "x", "at": 0 })]
        }
        "items.list" => vec![
            json!({ "threadId": "b-asked" }),
            json!({ "turnId": "b-turn" }),
            json!({ "threadId": "a-asked", "turnId": "b-turn" }),
            json!({ "threadId": "a-asked", "order": "desc", "cursor": "9223372036854775807" }),
        ],
        "inbox.admit" => vec![
            json!({ "threadId": "b-asked", "prompt": 1 }),
            json!({ "id": "b-prompt", "threadId": "a-asked", "prompt": "b-" }),
        ],
        "inbox.get" | "inbox.withdraw" => ["b-prompt", "b-second", "b-steer"].map(|id| json!({ "id": id })).into(),
        "inbox.promote" => vec![
            json!({ "id": "b-second" }),
            json!({ "id": "b-steer", "turnId": "b-turn" }),
            json!({ "id": "a-steer", "turnId": "b-turn" }),
        ],
        "inbox.next" | "inbox.steers" | "inbox.list" => vec![json!({ "threadId": "b-asked" }), json!({ "threadId": "a-asked" })],
        "inbox.promoteNext" => vec![
            json!({ "threadId": "b-asked" }),
            json!({ "threadId": "a-asked", "turn": { "id": "b-next" }, "includeSteers": true }),
        ],
        "usage.record" => vec![
            json!({ "turnId": "b-turn", "responseId": "new", "model": "m", "inputTokens": 1, "outputTokens": 1 }),
            json!({ "turnId": "a-turn", "responseId": "b-response", "model": "b-model", "inputTokens": 1, "outputTokens": 1 }),
        ],
        "usage.get" => vec![json!({ "responseId": "b-response" }), json!({ "responseId": "b-response2" })],
        "usage.list" => vec![json!({}), json!({ "turnId": "b-turn" }), json!({ "order": "desc", "cursor": "9999999999999" })],
        "usage.aggregate" => vec![json!({}), json!({ "groupBy": "thread" }), json!({ "groupBy": "day", "since": 0 })],
        "usage.getPrices" => vec![json!({})],
        "usage.setPrices" => vec![json!({ "prices": [{ "modelPattern": "m", "input": 1, "output": 1 }] })],
        "usage.reprice" => vec![json!({ "onlyUnpriced": true }), json!({})],
        "blobs.put" => vec![json!({}), json!({ "mediaType": "text/plain" })],
        "blobs.get" | "blobs.delete" => vec![json!({ "id": BLOB_OF_B }), json!({ "id": BLOB_OF_NOBODY })],
        "blobs.list" => vec![json!({}), json!({ "order": "desc", "limit": 1 })],
        "imports.chunk" => vec![
            json!({ "format": "claude_code", "last": true }),
            json!({ "format": "codex", "state": { "thread": "b-asked" } }),
            json!({ "format": "codex", "state": { "thread": "a-asked", "turn": null } }),
        ],
        "retention.get" => vec![json!({})],
        "retention.set" => vec![json!({ "historyMs": 5 })],
        "batch" => vec![
            json!({ "calls": [{ "operation": "executions.cancel", "arguments": run }] }),
            json!({ "calls": [{ "operation": "queue.cancel", "arguments": { "id": "b-waiting2" } }] }),
            json!({ "calls": [{ "operation": "tenants.update", "arguments": { "id": "b", "status": "suspended" } }] }),
            json!({ "calls": [{ "operation": "executions.cancel@b", "arguments": run }] }),
        ],
        _ => return None,
    })
}

/// The SHA-256 of the bytes `b-`, and of `b-2`.
const BLOB_OF_B: &str = "ac24adad7d1ea2e9e767cb318ad1e3cef73594d32631738c5d1e1e5e640f2a3a";
const BLOB_OF_NOBODY: &str = "77c1005401bd4fd1dd7abead933235efcdb445de720551146bc8f8bd13abf74c";

/// Without what chance has made: ids of the store's own, and secrets.
fn without_chance(text: &str) -> String {
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut parts: Vec<String> = Vec::new();
    for part in text.split('"') {
        let bare = part.trim_end_matches('\\');
        let is_id = bare.len() == 36 && bare.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && bare.split('-').all(is_hex);
        let is_secret = bare.strip_prefix("rk_").is_some_and(is_hex);
        parts.push(if is_id || is_secret { "…".to_owned() } else { part.to_owned() });
    }
    parts.join("\"")
}

fn outcome(store: &Store, operation: &str, arguments: &Value) -> String {
    let arguments = arguments.to_string();
    let bytes = ["blobs.put", "imports.chunk"].contains(&operation).then_some(&b"b-2"[..]);
    let call = Call { given: Given { arguments: &arguments, bytes }, ..Call::new(operation, "") };
    let answer = runkeep::envelope(store.call_many(&[call]).answers.remove(0));
    format!("{} {:?}", without_chance(&answer.text), answer.bytes)
}

/// Whether and when the other tenant exists.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Other {
    None,
    First,
    Last,
}

/// Tenant a's answers to everything it tries, and what it reads in the end.
fn answers_of_a(other: Other, token: Option<&(String, String)>) -> (Vec<(String, String)>, (String, String)) {
    let (store, clock) = in_memory();
    let mut secret = (String::new(), String::new());
    let mut other_store = None;
    let mut make_other = || {
        let b = create_tenant(&store, "b");
        // Rows under the same names as those of a, and under names of its own.
        populate(&b, "a-");
        populate(&b, "b-");
        let made = call(&b, "tokens.create", json!({ "name": "known", "role": "operator" }));
        secret = (made["token"].as_str().unwrap().to_owned(), made["info"]["id"].as_str().unwrap().to_owned());
        other_store = Some(b);
    };
    if other == Other::First {
        make_other();
    }
    let a = create_tenant(&store, "a");
    populate(&a, "a-");
    if other == Other::Last {
        make_other();
    }
    clock.advance(1500);
    let before = other_store.as_ref().map(readable);
    let (token, token_id) = token.unwrap_or(&secret);
    let mut answers = Vec::new();
    let mut covered = BTreeSet::new();
    for operation in OPERATIONS {
        if operation.whole_store {
            let error = try_call(&a, operation.name, json!({ "id": "b" })).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unsupported, "{}", operation.name);
            assert!(error.message().contains("plain store"), "{error}");
            covered.insert(operation.name);
            continue;
        }
        let attacks = attacks(operation.name, token, token_id)
            .unwrap_or_else(|| panic!("{} is not in the table: what must it not do to another tenant?", operation.name));
        for arguments in attacks {
            answers.push((format!("{} {arguments}", operation.name), outcome(&a, operation.name, &arguments)));
            covered.insert(operation.name);
        }
    }
    println!("{other:?}: {} of {} operations, {} calls", covered.len(), OPERATIONS.len(), answers.len());
    assert_eq!(covered.len(), OPERATIONS.len());
    if let Some(b) = other_store {
        let after = readable(&b);
        for (before, after) in before.unwrap().iter().zip(&after) {
            assert_eq!(before, after, "a has changed something of b's");
        }
        assert_eq!(call(&store, "tokens.validate", json!({ "token": secret.0 }))["tenantId"], "b");
    }
    // What time brings to b is nothing to a either.
    clock.advance(10_000);
    call(&store, "sweep", json!({}));
    answers.extend(readable(&a).into_iter().map(|(name, value)| (name, without_chance(&value.to_string()))));
    (answers, secret)
}

#[test]
fn a_tenant_cannot_tell_whether_another_exists() {
    for other in [Other::First, Other::Last] {
        let (with, secret) = answers_of_a(other, None);
        let (without, _) = answers_of_a(Other::None, Some(&secret));
        for (with, without) in with.iter().zip(&without) {
            assert_eq!(with, without, "{other:?}");
        }
        assert_eq!(with.len(), without.len());
    }
}

#[test]
fn a_store_bound_to_an_unknown_tenant_answers_not_found() {
    let (store, _) = in_memory();
    let nobody = store.for_tenant("nobody");
    assert_eq!(code(&nobody, "executions.list", json!({})), "not_found");
    assert_eq!(code(&nobody, "executions.create", json!({ "workflowId": "w" })), "not_found");
    assert_eq!(code(&nobody, "sweep", json!({})), "unsupported");
    assert_eq!(nobody.tenants().list(Default::default()).unwrap_err().code(), ErrorCode::Unsupported);
    assert_eq!(nobody.upkeep().sweep(Default::default()).unwrap_err().code(), ErrorCode::Unsupported);
    // The plain store is the tenant "default", which always exists.
    let made = call(&store.for_tenant("default"), "executions.create", json!({ "workflowId": "w" }));
    assert_eq!(made["tenantId"], "default");
    assert!(call(&store, "executions.get", json!({ "id": made["id"] })).is_object());
    assert_eq!(code(&store, "tenants.update", json!({ "id": "default", "status": "archived" })), "invalid_transition");
}

#[test]
fn a_call_names_its_tenant() {
    let (store, _) = in_memory();
    create_tenant(&store, "acme@home");
    create_tenant(&store, "beta");
    let run = |calls: &[(&str, Value)]| -> Vec<Result<Value, &'static str>> {
        let texts: Vec<String> = calls.iter().map(|call| call.1.to_string()).collect();
        let calls: Vec<Call<'_>> = calls.iter().zip(&texts).map(|(call, arguments)| Call::new(call.0, arguments)).collect();
        let read = |answer: Answer| serde_json::from_str(&answer.text).unwrap();
        store
            .call_many(&calls)
            .answers
            .into_iter()
            .map(|answer| answer.map(read).map_err(|error| error.code().as_str()))
            .collect()
    };
    let create = json!({ "id": "run", "workflowId": "w" });
    let answers = run(&[
        ("executions.create@acme@home", create.clone()),
        ("executions.create@beta", create.clone()),
        ("executions.create", create.clone()),
        ("executions.count@beta", json!({})),
        ("executions.list@acme@home", json!({})),
    ]);
    let tenants: Vec<&Value> = answers[..3].iter().map(|answer| &answer.as_ref().unwrap()["tenantId"]).collect();
    assert_eq!(tenants, ["acme@home", "beta", "default"]);
    assert_eq!(answers[3].as_ref().unwrap()["total"], 1);
    assert_eq!(answers[4].as_ref().unwrap()["items"][0]["tenantId"], "acme@home");
    // One failure harms no other, whoever's it is; a procedure in between runs for its tenant too.
    let answers = run(&[
        ("queue.enqueue@beta", json!({ "id": "i", "queue": "q", "maxAttempts": 1 })),
        ("executions.create@nobody", create.clone()),
        ("executions.create@", create),
        ("sweep@beta", json!({})),
        ("tenants.list@beta", json!({})),
        ("nothing@beta", json!({})),
        ("queue.claim@beta", json!({ "workerId": "w", "queues": ["q"] })),
        ("queue.fail@beta", json!({ "id": "i", "fence": 1, "error": "e" })),
        ("deadLetters.redrive@beta", json!({ "queue": "q" })),
        ("queue.get@beta", json!({ "id": "i" })),
        ("queue.get", json!({ "id": "i" })),
    ]);
    let codes: Vec<Option<&str>> = answers.iter().map(|answer| answer.as_ref().err().copied()).collect();
    let failed = [None, Some("not_found"), Some("not_found"), Some("unsupported"), Some("unsupported"), Some("unsupported")];
    assert_eq!(codes[..6], failed);
    assert_eq!(codes[6..], [None; 5]);
    assert_eq!(answers[9].as_ref().unwrap()["status"], "pending");
    assert_eq!(answers[10], Ok(Value::Null));
    // A store that is bound stays so.
    assert_eq!(code(&store.for_tenant("beta"), "executions.get@default", json!({ "id": "run" })), "unsupported");
}

/// A tenant with limits.
fn limited(limits: Value) -> (Store, Store, ManualClock) {
    let (store, clock) = in_memory();
    call(&store, "tenants.create", json!({ "id": "t", "limits": limits }));
    let tenant = store.for_tenant("t");
    (store, tenant, clock)
}

fn spend(tenant: &Store, id: &str, tokens: i64, cost: f64) {
    let data = json!({ "nodeId": "n", "output": 1, "statePatch": null, "durationMs": 1, "inputTokens": tokens, "outputTokens": tokens,
                       "costUsd": cost });
    call(tenant, "events.append", json!({ "executionId": id, "type": "node_completed", "data": data }));
}

#[test]
fn executions_that_have_not_ended_are_limited() {
    let (store, tenant, _) = limited(json!({ "maxConcurrentExecutions": 2 }));
    let create = |id: &str| try_call(&tenant, "executions.create", json!({ "id": id, "workflowId": "w" }));
    create("one").unwrap();
    create("two").unwrap();
    let error = create("three").unwrap_err();
    assert_eq!(error.code().as_str(), "limit_exceeded");
    assert_eq!(error.details()["limit"], "maxConcurrentExecutions");
    // The same call again begins nothing; a segment takes the place of the one before.
    assert_eq!(create("two").unwrap()["created"], false);
    call(&tenant, "executions.setStatus", json!({ "id": "one", "status": "running" }));
    assert_eq!(call(&tenant, "executions.continueAsNew", json!({ "id": "one" }))["created"], true);
    assert_eq!(code(&tenant, "executions.fork", json!({ "id": "two" })), "limit_exceeded");
    assert_eq!(code(&tenant, "executions.create", json!({ "workflowId": "w" })), "limit_exceeded");
    call(&tenant, "executions.cancel", json!({ "id": "two" }));
    create("three").unwrap();
    // Limits are the tenant's own, and can be changed and cleared.
    call(&store, "executions.create", json!({ "workflowId": "w" }));
    assert_eq!(code(&tenant, "executions.create", json!({ "workflowId": "w" })), "limit_exceeded");
    assert_eq!(call(&store, "tenants.update", json!({ "id": "t", "limits": null }))["limits"], json!({}));
    create("four").unwrap();
}

#[test]
fn workflows_are_limited_and_their_versions_are_not() {
    let (_, tenant, _) = limited(json!({ "maxWorkflows": 1 }));
    let put =
        |id: &str, version: &str| try_call(&tenant, "workflows.put", json!({ "id": id, "version": version, "definition": 1 }));
    put("one", "1").unwrap();
    put("one", "2").unwrap();
    put("one", "2").unwrap();
    assert_eq!(put("two", "1").unwrap_err().code().as_str(), "limit_exceeded");
}

#[test]
fn tokens_and_cost_of_a_month_are_limited_and_never_the_recording() {
    for (limits, tokens, cost) in [(json!({ "maxTokensPerMonth": 20 }), 5, 0.0), (json!({ "maxCostPerMonthUsd": 1.5 }), 0, 0.75)]
    {
        let (_, tenant, clock) = limited(limits);
        call(&tenant, "executions.create", json!({ "id": "run", "workflowId": "w" }));
        call(&tenant, "queue.enqueue", json!({ "id": "i", "queue": "q", "executionId": "run", "nodeId": "n" }));
        call(&tenant, "queue.enqueue", json!({ "id": "j", "queue": "q", "executionId": "run", "nodeId": "n" }));
        let claim = || try_call(&tenant, "queue.claim", json!({ "workerId": "w", "queues": ["q"], "leaseMs": 600_000 }));
        spend(&tenant, "run", tokens, cost);
        assert_eq!(claim().unwrap()[0]["id"], "i");
        spend(&tenant, "run", tokens, cost);
        assert_eq!(claim().unwrap_err().code().as_str(), "limit_exceeded");
        assert_eq!(code(&tenant, "executions.create", json!({ "workflowId": "w" })), "limit_exceeded");
        assert_eq!(code(&tenant, "workflows.put", json!({ "id": "w", "version": "1", "definition": {} })), "limit_exceeded");
        // What runs is recorded and settled to its end.
        spend(&tenant, "run", tokens, cost);
        call(&tenant, "queue.renew", json!({ "id": "i", "fence": 1 }));
        call(&tenant, "queue.complete", json!({ "id": "i", "fence": 1, "output": 1 }));
        call(&tenant, "executions.patchState", json!({ "id": "run", "patch": { "a": 1 } }));
        // The month ends at midnight UTC.
        clock.set(START + 31 * 24 * 60 * MINUTE - 1);
        assert_eq!(claim().unwrap_err().code().as_str(), "limit_exceeded");
        clock.advance(1);
        assert_eq!(claim().unwrap()[0]["id"], "j");
        call(&tenant, "executions.create", json!({ "workflowId": "w" }));
    }
}

#[test]
fn a_suspended_tenant_reads_and_settles_and_begins_nothing() {
    let (store, clock) = in_memory();
    let tenant = create_tenant(&store, "t");
    populate(&tenant, "s-");
    call(&store, "tenants.update", json!({ "id": "t", "status": "suspended" }));
    clock.advance(100);
    let before = readable(&tenant);
    for (operation, arguments) in [
        ("executions.create", json!({ "workflowId": "w" })),
        ("executions.fork", json!({ "id": "s-run" })),
        ("executions.continueAsNew", json!({ "id": "s-run" })),
        ("queue.enqueue", json!({ "queue": "q" })),
        ("queue.claim", json!({ "workerId": "s-worker", "queues": ["q"] })),
        ("workflows.put", json!({ "id": "new", "version": "1", "definition": 1 })),
        ("tokens.create", json!({ "name": "n", "role": "viewer" })),
        ("timers.schedule", json!({ "executionId": "s-run", "nodeId": "n", "delayMs": 1 })),
        ("cron.put", json!({ "name": "new", "expression": "* * * * *", "workflowId": "w" })),
        ("cron.trigger", json!({ "name": "s-cron" })),
        ("items.create", json!({ "threadId": "s-asked", "kind": "user_message", "text": "hello" })),
        ("items.put", json!({ "id": "new", "threadId": "s-asked", "turnId": "s-turn", "kind": "tool_call" })),
    ] {
        assert_eq!(code(&tenant, operation, arguments), "tenant_suspended", "{operation}");
    }
    assert_eq!(readable(&tenant), before);
    let next = json!([{ "id": "next", "queue": "q" }]);
    call(&tenant, "queue.complete", json!({ "id": "s-claimed", "fence": 1, "output": 1, "enqueue": next }));
    assert_eq!(call(&tenant, "queue.enqueue", json!({ "id": "next", "queue": "q" }))["created"], false);
    spend(&tenant, "s-run", 1, 1.0);
    call(&tenant, "approvals.resolve", json!({ "executionId": "s-paused", "approvalId": "s-ask", "decision": "rejected" }));
    call(&tenant, "items.appendText", json!({ "id": "s-streams", "delta": "the rest" }));
    call(&tenant, "items.put", json!({ "id": "s-streams", "status": "completed" }));
    call(&tenant, "executions.cancel", json!({ "id": "s-run" }));
    // Others go on, and it does too once it is active.
    call(&store, "executions.create", json!({ "workflowId": "w" }));
    call(&store, "tenants.update", json!({ "id": "t", "status": "active" }));
    call(&tenant, "executions.create", json!({ "workflowId": "w" }));
}

#[test]
fn tenants_are_records_like_others() {
    let (store, clock) = in_memory();
    let arguments = json!({ "id": "t", "name": "T", "policy": { "p": [1] }, "limits": { "maxWorkflows": 3 } });
    let made = call(&store, "tenants.create", arguments.clone());
    assert_eq!(made["created"], true);
    assert_eq!(call(&store, "tenants.create", arguments)["created"], false);
    assert_eq!(code(&store, "tenants.create", json!({ "id": "t" })), "conflict");
    assert_eq!(code(&store, "tenants.create", json!({ "id": "default" })), "conflict");
    assert_eq!(code(&store, "tenants.update", json!({ "id": "none", "name": "x" })), "not_found");
    assert_eq!(code(&store, "tenants.update", json!({ "id": "t", "status": "gone" })), "invalid_argument");
    assert_eq!(code(&store, "tenants.update", json!({ "id": "t", "limits": { "maxWorkflows": -1 } })), "invalid_argument");
    assert_eq!(code(&store, "tenants.update", json!({ "id": "t", "limits": { "maxFlows": 1 } })), "invalid_argument");
    assert_eq!(call(&store, "tenants.get", json!({ "id": "none" })), Value::Null);
    // What is left out stays; null clears.
    clock.advance(5);
    let updated = call(&store, "tenants.update", json!({ "id": "t", "status": "suspended" }));
    assert_eq!(
        updated,
        json!({ "id": "t", "name": "T", "status": "suspended", "policy": { "p": [1] }, "limits": { "maxWorkflows": 3 },
                "createdAt": START, "updatedAt": START + 5 })
    );
    let cleared = call(&store, "tenants.update", json!({ "id": "t", "name": null, "policy": null, "limits": null }));
    assert_eq!(cleared, json!({ "id": "t", "status": "suspended", "limits": {}, "createdAt": START, "updatedAt": START + 5 }));
    let ids: Vec<Value> =
        walk(&store, "tenants.list", json!({}))[0]["items"].as_array().unwrap().iter().map(|t| t["id"].clone()).collect();
    assert_eq!(ids, ["default", "t"]);
    let listed = call(&store, "tenants.list", json!({ "status": "suspended" }));
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_token_is_shown_once_and_only_its_digest_is_kept() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let store = Store::open_with(&path, options(&clock)).unwrap();
    let (a, b) = (create_tenant(&store, "a"), create_tenant(&store, "b"));
    let made = call(&a, "tokens.create", json!({ "name": "ci", "role": "developer", "expiresAt": START + 10 * MINUTE }));
    let token = made["token"].as_str().unwrap().to_owned();
    let hex = token.strip_prefix("rk_").unwrap();
    assert!(hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{token}");
    let info = json!({ "id": made["info"]["id"], "tenantId": "a", "name": "ci", "role": "developer", "createdAt": START,
                       "expiresAt": START + 10 * MINUTE });
    assert_eq!(made["info"], info);
    // On the plain store any tenant's counts; on a bound store its own.
    let validate = |store: &Store| call(store, "tokens.validate", json!({ "token": token }));
    let mut used = info.clone();
    used["lastUsedAt"] = START.into();
    assert_eq!(validate(&b), Value::Null);
    assert_eq!(validate(&store), used);
    // The use is written at most once a minute, also when the clock goes back.
    for (ms, last) in
        [(MINUTE - 1, START), (1, START + MINUTE), (-5 * MINUTE, START + MINUTE), (5 * MINUTE + 30_000, START + MINUTE)]
    {
        clock.advance(ms);
        assert_eq!(validate(&a)["lastUsedAt"], last, "{ms}");
    }
    clock.set(START + 10 * MINUTE - 1);
    assert_eq!(validate(&a)["id"], info["id"]);
    clock.advance(1);
    assert_eq!(validate(&a), Value::Null);
    assert_eq!(validate(&store), Value::Null);

    let other = call(&a, "tokens.create", json!({ "name": "x", "role": "viewer" }));
    let id = &other["info"]["id"];
    assert_eq!(code(&b, "tokens.revoke", json!({ "id": id })), "not_found");
    let revoked = call(&a, "tokens.revoke", json!({ "id": id }));
    clock.advance(1);
    assert_eq!(call(&a, "tokens.revoke", json!({ "id": id })), revoked);
    assert_eq!(call(&a, "tokens.validate", json!({ "token": other["token"] })), Value::Null);
    assert_eq!(call(&a, "tokens.list", json!({}))["items"].as_array().unwrap().len(), 2);
    assert_eq!(call(&store, "tokens.list", json!({}))["items"], json!([]));
    for unknown in ["", "rk_", "rk_00", &token[3..], &token.to_uppercase()] {
        assert_eq!(call(&store, "tokens.validate", json!({ "token": unknown })), Value::Null);
    }
    assert_eq!(code(&a, "tokens.create", json!({ "name": "x", "role": "root" })), "invalid_argument");
    assert_eq!(code(&a, "tokens.create", json!({ "name": "", "role": "viewer" })), "invalid_argument");
    assert_eq!(code(&a, "tokens.create", json!({ "name": "x", "role": "viewer", "expiresAt": START })), "invalid_argument");

    let bytes = |suffix: &str| std::fs::read(format!("{}{suffix}", path.display())).unwrap_or_default();
    let log = bytes("-wal");
    store.close().unwrap();
    for bytes in [log, bytes(""), bytes("-wal")] {
        assert!(!bytes.windows(32).any(|window| window == &hex.as_bytes()[..32]), "the secret is in the file");
    }
}
