//! Looking at the whole: what the store shows and what lies in the file, beside what the model knows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::{Status, Verdict, ensure};
use crate::world::World;

fn count<T>(of: &T) -> i64
where
    for<'a> &'a T: IntoIterator,
{
    of.into_iter().count() as i64
}

/// The columns of an item's row that are checked each time.
struct Row {
    id: String,
    status: String,
    attempt: i64,
    max_attempts: i64,
    fence: i64,
    run_at: i64,
    lease_expires_at: Option<i64>,
    worker: Option<String>,
    blocked: bool,
    cancel_requested: bool,
    finished_at: Option<i64>,
}

/// Checks every unfinished item, and the counts; `all` adds what does not change any more, executions and their logs.
pub fn look(world: &mut World, all: bool) -> Verdict {
    look_at_items(world, all)?;
    look_at_blocked(world)?;
    look_at_counts(world)?;
    let executions: Vec<usize> = (0..world.model.executions.len()).filter(|&index| !world.model.executions[index].gone).collect();
    if all {
        for index in executions {
            look_at_execution(world, index)?;
        }
        look_at_attempts(world)?;
        look_at_history(world)?;
    } else if let Some(index) = world.eyes.maybe_pick(&executions) {
        look_at_execution(world, index)?;
    }
    Ok(())
}

fn look_at_items(world: &World, all: bool) -> Verdict {
    let sql = format!(
        "SELECT id, status, attempt, max_attempts, fence, run_at, lease_expires_at, worker_id, blocked, cancel_requested, finished_at
         FROM items {}",
        if all { "" } else { "WHERE finished_at IS NULL" }
    );
    let mut statement = world.raw.prepare_cached(&sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut seen = 0;
    let mut unfinished = BTreeSet::new();
    while let Some(row) = rows.next().unwrap() {
        let row = Row {
            id: row.get(0).unwrap(),
            status: row.get(1).unwrap(),
            attempt: row.get(2).unwrap(),
            max_attempts: row.get(3).unwrap(),
            fence: row.get(4).unwrap(),
            run_at: row.get(5).unwrap(),
            lease_expires_at: row.get(6).unwrap(),
            worker: row.get(7).unwrap(),
            blocked: row.get(8).unwrap(),
            cancel_requested: row.get(9).unwrap(),
            finished_at: row.get(10).unwrap(),
        };
        seen += 1;
        let id = &row.id;
        let Some(index) = world.model.find(&json!(id)) else {
            return Err(format!("there is an item {id:?}, and should be none"));
        };
        let item = &world.model.items[index];
        let found = (
            row.status.as_str(),
            (row.attempt, row.max_attempts),
            row.fence,
            row.run_at,
            row.lease_expires_at,
            &row.worker,
            row.cancel_requested,
            row.finished_at,
        );
        let expected = (
            item.status.word(),
            (item.attempt, item.max_attempts),
            item.fence,
            item.run_at,
            item.lease_expires_at,
            &item.worker,
            item.cancel_requested,
            item.finished_at,
        );
        ensure!(
            found == expected,
            "the row of {id:?} (status, attempts, fence, runAt, lease, worker, cancel, finished) is\n    {found:?}\n  and should be\n    {expected:?}"
        );
        ensure!(row.attempt <= row.max_attempts, "the item {id:?} has {} attempts of {}", row.attempt, row.max_attempts);
        ensure!(!row.blocked || item.status == Status::Pending, "the item {id:?} is {} and blocked", row.status);
        if let (false, Some(key)) = (item.status.is_finished(), &item.idempotency_key) {
            ensure!(unfinished.insert((item.queue, key)), "two unfinished items have the idempotency key {key:?}");
        }
    }
    let expected = if all { world.model.living().count() } else { world.model.open.len() };
    ensure!(seen == expected, "there are {seen} items, and should be {expected}");
    Ok(())
}

/// Of each key and class, as many items are in the index of what can be claimed as there is room for, and they are the first.
fn look_at_blocked(world: &World) -> Verdict {
    let mut statement = world
        .raw
        .prepare_cached("SELECT id, blocked FROM items WHERE status = 'pending' ORDER BY priority DESC, run_at, key")
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut lines: BTreeMap<(usize, &String, &BTreeSet<String>), Vec<bool>> = BTreeMap::new();
    while let Some(row) = rows.next().unwrap() {
        let (id, blocked): (String, bool) = (row.get(0).unwrap(), row.get(1).unwrap());
        let Some(index) = world.model.find(&json!(id)) else { continue };
        let item = &world.model.items[index];
        match &item.concurrency_key {
            None => ensure!(!blocked, "the item {id:?} without a concurrency key is blocked"),
            Some(key) => lines.entry((item.queue, key, &item.requires)).or_default().push(blocked),
        }
    }
    for ((queue, key, requires), line) in lines {
        let open = line.iter().filter(|blocked| !**blocked).count();
        let of = || format!("the key {key:?} of {:?}, requiring {requires:?}", world.model.queues[queue].name);
        ensure!(line[..open].iter().all(|blocked| !blocked), "{}: blocked items come before open ones: {line:?}", of());
        let claimed = world.model.claimed_of(queue, Some(key));
        if let Some(room) = world.model.queues[queue].timeless_room_of_key(key, claimed) {
            let wanted = room.min(count(&line)) as usize;
            ensure!(open == wanted, "{}: {open} items are open, and should be {wanted}: {line:?}", of());
        }
    }
    Ok(())
}

fn look_at_counts(world: &World) -> Verdict {
    for (index, queue) in world.model.queues.iter().enumerate() {
        let found = world.read("queues.stats", json!({ "queue": queue.name }))?;
        let expected = world.model.stats(Some(index), None);
        ensure!(found == expected, "the counts of {:?} are\n    {found}\n  and should be\n    {expected}", queue.name);
    }
    let (found, expected) = (world.read("queues.stats", json!({}))?, world.model.stats(None, None));
    ensure!(found == expected, "the counts are\n    {found}\n  and should be\n    {expected}");
    let found = world.read("executions.count", json!({ "groupBy": "status" }))?;
    let mut by_status: BTreeMap<&str, i64> = BTreeMap::new();
    for execution in world.model.executions.iter().filter(|execution| !execution.gone) {
        *by_status.entry(&execution.status).or_default() += 1;
    }
    let expected = json!({ "total": by_status.values().sum::<i64>(), "byStatus": by_status });
    ensure!(found == expected, "the counts of executions are\n    {found}\n  and should be\n    {expected}");
    Ok(())
}

/// The row against the model, the row against the fold of the log, the log against what happened.
fn look_at_execution(world: &World, index: usize) -> Verdict {
    let execution = &world.model.executions[index];
    let id = json!({ "id": execution.id });
    let row = world.read("executions.get", id.clone())?;
    world.model.compare_execution(index, &row)?;
    let fold = world.read("executions.materialize", id)?;
    for member in ["status", "state", "output", "lastSequence"] {
        ensure!(
            row.get(member) == fold.get(member),
            "{member} of the execution {:?} is {} in its row, and {} by its log",
            execution.id,
            row[member],
            fold[member]
        );
    }
    let at = world.step % execution.past.len();
    let fold = world.read("executions.materialize", json!({ "id": execution.id, "at": at }))?;
    let (status, state) = &execution.past[at];
    ensure!(
        fold["status"] == json!(status) && fold["state"] == **state,
        "as of event {at} the execution {:?} is {} with {}, and should be {status} with {state}",
        execution.id,
        fold["status"],
        fold["state"]
    );
    let mut statement = world
        .raw
        .prepare_cached(
            "SELECT e.sequence, e.type, json_extract(e.data, '$.nodeId') FROM events e JOIN executions x ON x.key = e.execution
             WHERE x.id = ?1 ORDER BY e.sequence",
        )
        .unwrap();
    let mut rows = statement.query([&execution.id]).unwrap();
    let mut counts: BTreeMap<(String, String), i64> = BTreeMap::new();
    let mut last = 0;
    while let Some(row) = rows.next().unwrap() {
        let sequence: i64 = row.get(0).unwrap();
        ensure!(sequence == last + 1, "after event {last} of {:?} comes {sequence}", execution.id);
        last = sequence;
        let node: Option<String> = row.get(2).unwrap();
        *counts.entry((row.get(1).unwrap(), node.unwrap_or_default())).or_default() += 1;
    }
    ensure!(last == execution.last_sequence, "the log of {:?} ends at {last}, not {}", execution.id, execution.last_sequence);
    ensure!(
        counts == execution.counts,
        "the log of {:?} has\n    {counts:?}\n  and should have\n    {:?}",
        execution.id,
        execution.counts
    );
    Ok(())
}

/// Every delivery that did not complete is told of, unless retention let it go.
fn look_at_attempts(world: &World) -> Verdict {
    let mut statement = world
        .raw
        .prepare_cached(
            "SELECT i.id, a.fence, a.attempt, a.outcome FROM attempts a JOIN items i ON i.key = a.item ORDER BY a.item, a.fence",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut found: BTreeMap<String, Vec<(i64, i64, String)>> = BTreeMap::new();
    while let Some(row) = rows.next().unwrap() {
        found.entry(row.get(0).unwrap()).or_default().push((row.get(1).unwrap(), row.get(2).unwrap(), row.get(3).unwrap()));
    }
    for (_, item) in world.model.living() {
        let mut found = found.remove(&item.id).unwrap_or_default().into_iter().peekable();
        for attempt in &item.attempts {
            let record = &attempt.record;
            let wanted = (
                record["fence"].as_i64().unwrap_or_default(),
                record["attempt"].as_i64().unwrap_or_default(),
                record["outcome"].as_str().unwrap_or_default().to_owned(),
            );
            if found.next_if_eq(&wanted).is_none() {
                ensure!(
                    attempt.may_be_gone,
                    "the attempt {wanted:?} of the item {:?} is missing; next is {:?}",
                    item.id,
                    found.peek()
                );
            }
        }
        ensure!(found.peek().is_none(), "the item {:?} has an attempt too many: {:?}", item.id, found.peek());
    }
    ensure!(found.is_empty(), "there are attempts of no item: {found:?}");
    Ok(())
}

fn look_at_history(world: &World) -> Verdict {
    let mut found: BTreeMap<(String, String), Vec<(String, i64)>> = BTreeMap::new();
    for entry in world.read_all("workers.history", json!({}), 1000)? {
        let text = |member: &str| entry[member].as_str().unwrap_or_default().to_owned();
        let at = entry["at"].as_i64().unwrap_or_default();
        found.entry((text("namespace"), text("workerId"))).or_default().push((text("change"), at));
    }
    for (worker, changes) in &world.model.history {
        let mut found = found.remove(worker).unwrap_or_default().into_iter().peekable();
        for (change, at) in changes {
            let is_there = found.next_if(|(known, when)| known == change && when == at).is_some();
            ensure!(is_there || *at <= world.model.history_gone_before, "the history of {worker:?} lacks {change} at {at}");
        }
        ensure!(found.peek().is_none(), "the history of {worker:?} has too much: {:?}", found.peek());
    }
    ensure!(found.is_empty(), "there is a history of no worker: {found:?}");
    Ok(())
}

/// What SQLite says of the file.
pub fn look_at_file(world: &World) -> Verdict {
    let integrity: String = world.raw.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    ensure!(integrity == "ok", "integrity_check: {integrity}");
    let violations: i64 = world.raw.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).unwrap();
    ensure!(violations == 0, "foreign_key_check finds {violations} rows");
    let unfinished = world.model.open.len();
    ensure!(unfinished == 0, "{unfinished} items are not finished");
    Ok(())
}

/// Somebody looks at one thing through the API.
pub fn observe(world: &mut World) -> Verdict {
    let limit = world.random.pick(&[1, 2, 7, 100]);
    match world.random.below(10) {
        0 | 1 => {
            let living: Vec<usize> = world.model.living().map(|(index, _)| index).collect();
            let Some(index) = world.random.maybe_pick(&living) else { return Ok(()) };
            let found = world.read("queue.get", json!({ "id": world.model.items[index].id }))?;
            world.model.compare_item(index, &found)
        }
        2 => {
            let living: Vec<usize> = world.model.living().map(|(index, _)| index).collect();
            let Some(index) = world.random.maybe_pick(&living) else { return Ok(()) };
            compare_attempts(world, index)
        }
        3 => {
            let status = world.random.pick(&Status::ALL);
            let queues: Vec<usize> = (0..world.model.queues.len()).collect();
            let Some(queue) = world.random.maybe_pick(&queues) else { return Ok(()) };
            let arguments = json!({ "queue": world.model.queues[queue].name, "status": status.word() });
            let found = world.read_all("queue.list", arguments, limit.max(7))?;
            let chosen: Vec<usize> = world
                .model
                .living()
                .filter(|(_, item)| item.queue == queue && item.status == status)
                .map(|(index, _)| index)
                .collect();
            compare_items(world, &chosen, &found)
        }
        4 => {
            let found = world.read_all("deadLetters.list", json!({}), limit)?;
            let letters = world.model.living().filter(|(_, item)| item.status == Status::DeadLettered);
            let letters: Vec<usize> = letters.map(|(index, _)| index).collect();
            compare_items(world, &letters, &found)
        }
        5 => {
            let executions: Vec<usize> =
                (0..world.model.executions.len()).filter(|&index| !world.model.executions[index].gone).collect();
            let Some(index) = world.random.maybe_pick(&executions) else { return Ok(()) };
            let id = world.model.executions[index].id.clone();
            let stats = world.read("queues.stats", json!({ "executionId": id }))?;
            let expected = world.model.stats(None, Some(index));
            ensure!(stats == expected, "the counts of {id:?} are {stats}, and should be {expected}");
            let found = world.read_all("queue.list", json!({ "executionId": id }), limit)?;
            let of_it = world.model.living().filter(|(_, item)| item.execution == Some(index));
            let of_it: Vec<usize> = of_it.map(|(index, _)| index).collect();
            compare_items(world, &of_it, &found)
        }
        6 => {
            let found = world.read_all("leases.listExpired", json!({}), limit)?;
            let expected = world.model.expired_json();
            ensure!(found == expected, "expired leases are\n    {found:?}\n  and should be\n    {expected:?}");
            Ok(())
        }
        7 => {
            let (found, expected) = (world.read_all("workers.list", json!({}), limit)?, world.model.workers_json(0));
            ensure!(found == expected, "the workers are\n    {found:?}\n  and should be\n    {expected:?}");
            Ok(())
        }
        8 => {
            let found = world.read_all("executions.list", json!({}), limit)?;
            let living = world.model.executions.iter().filter(|execution| !execution.gone).map(|execution| json!(execution.id));
            ensure!(
                found.iter().map(|execution| execution["id"].clone()).eq(living),
                "the executions are {:?}",
                found.iter().map(|execution| &execution["id"]).collect::<Vec<_>>()
            );
            Ok(())
        }
        _ => look(world, false),
    }
}

fn compare_items(world: &mut World, expected: &[usize], found: &[Value]) -> Verdict {
    let ids: Vec<&Value> = found.iter().map(|item| &item["id"]).collect();
    let wanted: Vec<Value> = expected.iter().map(|&index| json!(world.model.items[index].id)).collect();
    ensure!(ids.iter().copied().eq(wanted.iter()), "listed are\n    {ids:?}\n  and should be\n    {wanted:?}");
    expected.iter().zip(found).try_for_each(|(&index, found)| world.model.compare_item(index, found))
}

fn compare_attempts(world: &World, index: usize) -> Verdict {
    let item = &world.model.items[index];
    let found = world.read("queue.attempts", json!({ "id": item.id }))?;
    let mut found = found.as_array().into_iter().flatten().cloned().collect::<Vec<_>>().into_iter().peekable();
    for attempt in &item.attempts {
        let is_it = |found: &Value| {
            let mut found = found.clone();
            if let Some(code) = found["error"]["code"].as_str().filter(|code| ["lease_expired", "worker_dead"].contains(code)) {
                found["error"] = json!({ "code": code });
            }
            found == attempt.record
        };
        if found.next_if(is_it).is_none() {
            ensure!(
                attempt.may_be_gone,
                "an attempt of {:?} is\n    {:?}\n  and should be\n    {}",
                item.id,
                found.peek(),
                attempt.record
            );
        }
    }
    ensure!(found.peek().is_none(), "the item {:?} has an attempt too many: {:?}", item.id, found.peek());
    Ok(())
}
