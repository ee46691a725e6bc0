//! Session logs of other programs become threads: what is in them, once, and what is wrong with them.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use runkeep::imports::{FileReport, ImportChunk, SessionFormat};
use runkeep::threads::ListThreads;
use runkeep::threads::items::{ItemKind, ListThreadItems, ThreadItem, ThreadItemStatus};
use runkeep::threads::thread_events::ListThreadEvents;
use runkeep::threads::turns::{ListTurns, Turn, TurnStatus};
use runkeep::threads::usage::{AggregateUsage, ListUsage};
use runkeep::{Json, Store};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions").join(name)
}

/// Recorded sessions that are not part of the project; a test says that it was skipped where they are not there.
fn recorded(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("RUNKEEP_SESSIONS") else {
        eprintln!("skipped: RUNKEEP_SESSIONS names no folder of recorded sessions");
        return None;
    };
    Some(PathBuf::from(folder).join(name))
}

fn read(store: &Store, format: SessionFormat, bytes: &[u8]) -> FileReport {
    store.imports().read(format, "a.jsonl", bytes, |_| true).unwrap()
}

fn import(store: &Store, format: SessionFormat, path: &Path) -> FileReport {
    let go_on = |_: &runkeep::imports::ImportProgress| true;
    let imports = store.imports();
    let mut reports = match format {
        SessionFormat::ClaudeCode => imports.claude_code(&[path], go_on),
        SessionFormat::Codex => imports.codex(&[path], go_on),
        SessionFormat::Zagens => imports.zagens_json(&[path], go_on),
    }
    .unwrap();
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

fn items(store: &Store, thread: &str) -> Vec<ThreadItem> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let page = store
            .items()
            .list(ListThreadItems { thread_id: Some(thread.parse().unwrap()), limit: Some(1000), cursor, ..Default::default() })
            .unwrap();
        all.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

fn turns(store: &Store, thread: &str) -> Vec<Turn> {
    let filter = ListTurns { thread_id: thread.parse().unwrap(), limit: Some(1000), ..Default::default() };
    store.turns().list(filter).unwrap().items
}

fn events(store: &Store, thread: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    let mut after = None;
    loop {
        let filter = ListThreadEvents { thread_id: thread.parse().unwrap(), after, limit: Some(1000), ..Default::default() };
        let page = store.thread_events().list(filter).unwrap();
        let Some(last) = page.items.last() else { return all };
        after = Some(last.sequence);
        for event in page.items {
            *all.entry(event.event_type).or_default() += 1;
        }
    }
}

/// input without cache / output / cache write / cache read / responses
fn totals(store: &Store) -> (i64, i64, i64, i64, usize) {
    let sums = store.usage().aggregate(AggregateUsage::default()).unwrap().totals;
    let records = store.usage().list(ListUsage { limit: Some(1000), ..Default::default() }).unwrap().items.len();
    assert_eq!(sums.input_tokens, sums.no_cache_tokens + sums.cache_read_tokens + sums.cache_write_tokens);
    (sums.no_cache_tokens, sums.output_tokens, sums.cache_write_tokens, sums.cache_read_tokens, records)
}

#[test]
fn recorded_claude_sessions_add_up() {
    type Row = (&'static str, i64, (i64, i64, i64, i64, usize));
    let table: [Row; 5] = [
        ("entire-2.0.76-small", 14, (34, 744, 41_434, 122_052, 4)),
        ("happy-task_non_sdk", 13, (25, 1_163, 28_106, 78_093, 5)),
        ("entire-2.0.76-compact", 54, (102, 2_038, 649_094, 654_807, 13)),
        // Two objects on line 128; line 131 says one of them again, in other words.
        ("entire-2.1.12-gluedline", 170, (346, 7_047, 168_250, 2_618_979, 42)),
        ("ccl-1.0.43-hugeline-0d3a8e6f", 68, (138, 5_057, 85_100, 348_985, 15)),
    ];
    for (name, records, used) in table {
        let Some(path) = recorded(&format!("claude/{name}.jsonl")) else { return };
        let store = Store::in_memory().unwrap();
        let report = import(&store, SessionFormat::ClaudeCode, &path);
        assert_eq!((report.imported, report.skipped), (records, 0), "{name}");
        let rejected: Vec<i64> = report.rejected.iter().map(|rejected| rejected.line).collect();
        assert_eq!(rejected, if name.ends_with("gluedline") { vec![131] } else { vec![] }, "{name}");
        assert_eq!(totals(&store), used, "{name}");
        let thread = report.thread_id.unwrap();
        let before = items(&store, &thread);
        let again = import(&store, SessionFormat::ClaudeCode, &path);
        assert_eq!((again.imported, again.skipped), (0, records), "{name}");
        assert_eq!(totals(&store), used, "{name}");
        assert_eq!(items(&store, &thread), before);
    }
}

#[test]
fn recorded_codex_rollouts_end_with_their_last_total() {
    let table = [
        ("rollout-2026-02-23T13-19-38-019c8a70-dda7-7f33-98ea-f30553347322", 19, (34_469, 3_456, 431, 264)),
        ("rollout-2026-02-23T20-34-25-019c8bfe-ec25-79e0-97d7-bda6a9c575ff", 63, (298_373, 238_848, 1_123, 483)),
        ("rollout-2026-02-23T12-41-04-019c8a4d-8f45-7010-8b5d-7fad920aa6f9", 417, (1_751_428, 1_651_968, 14_600, 4_293)),
    ];
    for (name, lines, used) in table {
        let Some(path) = recorded(&format!("codex/{name}.jsonl")) else { return };
        let store = Store::in_memory().unwrap();
        let report = import(&store, SessionFormat::Codex, &path);
        assert_eq!((report.imported, report.skipped, &report.rejected), (lines, 0, &vec![]), "{name}");
        let sums = || {
            let sums = store.usage().aggregate(AggregateUsage::default()).unwrap().totals;
            (sums.input_tokens, sums.cache_read_tokens, sums.output_tokens, sums.reasoning_tokens)
        };
        assert_eq!(sums(), used, "{name}");
        let thread = report.thread_id.unwrap();
        let found = items(&store, &thread);
        assert_eq!(found.iter().filter(|item| item.kind == ItemKind::UserMessage).count(), 1, "{name}");
        if lines == 417 {
            let calls =
                |item: &&ThreadItem| matches!(item.kind, ItemKind::ToolCall | ItemKind::CommandExecution | ItemKind::FileChange);
            assert_eq!(found.iter().filter(calls).count(), 118);
        }
        if lines == 19 {
            assert_eq!(turns(&store, &thread)[0].status, TurnStatus::Interrupted);
            assert!(found.iter().any(|item| item.status == ThreadItemStatus::Interrupted));
        }
        let again = import(&store, SessionFormat::Codex, &path);
        assert_eq!((again.imported, again.skipped), (0, lines), "{name}");
        assert_eq!(sums(), used, "{name}");
    }
}

#[test]
fn recorded_hostile_files_lose_only_their_bad_lines() {
    let Some(path) = recorded("hostile/claude-hostile.jsonl") else { return };
    let store = Store::in_memory().unwrap();
    let report = import(&store, SessionFormat::ClaudeCode, &path);
    let lines: Vec<i64> = report.rejected.iter().map(|rejected| rejected.line).collect();
    assert_eq!(lines, [9, 10, 11, 15, 16, 17, 18, 19, 20, 21, 24, 25, 27], "{:#?}", report.rejected);
    // Line 13 repeats line 12; line 26 holds two objects.
    assert_eq!((report.imported, report.skipped), (16, 1));
    // Repeats that say something else, and the record without a message, are there all the same.
    let kept = events(&store, &report.thread_id.unwrap());
    assert_eq!(kept.get("claude:brand-new-kind"), Some(&1));
    assert!(kept["claude:user"] >= 4 && kept["claude:assistant"] >= 1, "{kept:?}");

    let small = (34, 744, 41_434, 122_052, 4);
    for (name, imported, rejected) in [("claude-bom-crlf", 14, vec![]), ("claude-truncated-last-line", 13, vec![14])] {
        let Some(path) = recorded(&format!("hostile/{name}.jsonl")) else { return };
        let store = Store::in_memory().unwrap();
        let report = import(&store, SessionFormat::ClaudeCode, &path);
        let lines: Vec<i64> = report.rejected.iter().map(|rejected| rejected.line).collect();
        assert_eq!((report.imported, lines, totals(&store)), (imported, rejected, small), "{name}");
        // The whole file brings what was missing.
        let Some(path) = recorded("claude/entire-2.0.76-small.jsonl") else { return };
        let whole = import(&store, SessionFormat::ClaudeCode, &path);
        assert_eq!((whole.skipped, whole.imported), (imported, 14 - imported), "{name}");
        assert_eq!(totals(&store), small, "{name}");
    }

    let Some(path) = recorded("hostile/codex-old-bare-format.jsonl") else { return };
    let store = Store::in_memory().unwrap();
    let report = import(&store, SessionFormat::Codex, &path);
    assert_eq!((report.imported, &report.rejected), (46, &vec![]));
    let thread = report.thread_id.unwrap();
    let found = items(&store, &thread);
    let count = |kind| found.iter().filter(|item| item.kind == kind).count();
    assert_eq!((count(ItemKind::UserMessage), count(ItemKind::AssistantMessage), count(ItemKind::Reasoning)), (3, 6, 6));
    assert!(found.iter().all(|item| item.status == ThreadItemStatus::Completed));
    assert_eq!(turns(&store, &thread).iter().map(|turn| turn.status).collect::<Vec<_>>(), [TurnStatus::Completed]);
}

#[test]
fn a_zagens_store_comes_with_what_its_own_sums_say() {
    let (store, _) = common::in_memory();
    let price = |pattern: &str, input, cache_read, output| serde_json::json!({ "modelPattern": pattern, "input": input, "cacheRead": cache_read, "output": output });
    let prices = [price("deepseek-v4-pro", 1.74, 0.0145, 3.48), price("deepseek-v4-flash", 0.14, 0.0028, 0.28)];
    common::call(&store, "usage.setPrices", serde_json::json!({ "prices": prices }));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/zagens-0.8.1");
    let reports = store.imports().zagens_json(&[&folder], |_| true).unwrap();
    let rejected: Vec<_> = reports.iter().filter(|report| report.rejected_count > 0).collect();
    assert!(rejected.is_empty(), "{rejected:#?}");
    assert_eq!(reports.iter().map(|report| report.imported).sum::<i64>(), 6 + 18 + 72 + 30);

    let expected: serde_json::Value = serde_json::from_str(include_str!("fixtures/zagens-0.8.1.usage.json")).unwrap();
    let close = |ours: &serde_json::Value, theirs: &serde_json::Value, what: &str| {
        let (ours, theirs) = (ours.as_f64().unwrap_or(0.0), theirs.as_f64().unwrap_or(0.0));
        assert!((ours - theirs).abs() < 1e-9, "{what}: {ours}, not {theirs}");
    };
    let names = [
        ("inputTokens", "input_tokens"),
        ("outputTokens", "output_tokens"),
        ("cacheReadTokens", "cached_tokens"),
        ("noCacheTokens", "miss_tokens"),
        ("reasoningTokens", "reasoning_tokens"),
        ("costUsd", "cost_usd"),
        ("costUsdWithoutCache", "cost_usd_without_cache"),
        ("cacheSavingsUsd", "cache_savings_usd"),
        ("turns", "turns"),
    ];
    for theirs in expected.as_array().unwrap() {
        let ours = common::call(&store, "usage.aggregate", serde_json::json!({ "groupBy": theirs["group_by"] }));
        assert_eq!(ours["cacheTelemetryIncomplete"], theirs["cache_telemetry_incomplete"]);
        for (name, their_name) in names {
            close(&ours["totals"][name], &theirs["totals"][their_name], name);
        }
        close(&ours["totals"]["cacheHitPercent"], &theirs["totals"]["cache_hit_rate"], "cacheHitPercent");
        for bucket in theirs["buckets"].as_array().unwrap() {
            let of_ours = ours["buckets"].as_array().unwrap().iter().find(|ours| ours["key"] == bucket["key"]);
            let of_ours = of_ours.unwrap_or_else(|| panic!("no bucket {}", bucket["key"]));
            for (name, their_name) in names {
                close(&of_ours[name], &bucket[their_name], &format!("{} of {}", name, bucket["key"]));
            }
        }
    }

    let thread = common::call(&store, "threads.get", serde_json::json!({ "id": "thr_000" }));
    assert_eq!(thread["createdAt"], 1_795_290_704_048_i64);
    assert_eq!((&thread["title"], &thread["systemPrompt"]), (&"Refactor 0".into(), &"You are careful.".into()));
    assert_eq!(thread["metadata"]["checklist_snapshot"], serde_json::json!([{ "text": "read", "done": true }]));
    assert_eq!(thread["metadata"]["allow_shell"], true);
    let found = items(&store, "thr_000");
    let ids: Vec<_> = found.iter().map(|item| item.id.as_str()).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    assert_eq!(ids, sorted);
    assert_eq!(found[1].data.as_ref().unwrap().to::<serde_json::Value>().unwrap()["args"]["n"], 9_007_199_254_740_991_i64);
    assert!(found[2].metadata.as_ref().unwrap().as_str().contains("out/log.txt"));
    assert_eq!(events(&store, "thr_000").values().sum::<usize>(), 5);

    let again = store.imports().zagens_json(&[&folder], |_| true).unwrap();
    assert_eq!(
        again.iter().map(|report| (report.imported, report.rejected_count)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
        (0, 0)
    );
    assert_eq!(again.iter().map(|report| report.skipped).sum::<i64>(), 126);
    assert_eq!(items(&store, "thr_000"), found);
}

#[test]
fn zagens_files_with_an_unknown_word_are_kept_as_events_and_told() {
    let (store, _) = common::in_memory();
    let file = |text: &str| read(&store, SessionFormat::Zagens, text.as_bytes());
    assert_eq!(file(r#"{"id": "t1", "model": "m", "created_at": "2026-01-01T00:00:00.123456789Z"}"#).imported, 1);
    let turn = file(r#"{"id": "u1", "thread_id": "t1", "status": "dreaming", "created_at": "2026-01-01T00:00:01Z"}"#);
    assert_eq!((turn.imported, turn.rejected_count), (0, 1));
    assert!(turn.rejected[0].reason.contains("dreaming"), "{turn:?}");
    assert_eq!(turn.unknown_types, BTreeMap::from([("turn:dreaming".to_owned(), 1)]));
    assert!(turns(&store, "t1").is_empty());
    assert_eq!(events(&store, "t1"), BTreeMap::from([("zagens:turn".to_owned(), 1)]));
    let item = file(r#"{"id": "i1", "turn_id": "u1", "kind": "user_message", "status": "completed"}"#);
    assert!(item.rejected[0].reason.contains("there is no turn"), "{item:?}");
    assert_eq!(file("{\n  \"id\": ").rejected_count, 1);
    assert_eq!(file("{\"cut\": ").rejected_count, 1);
}

const FIXTURES: [(SessionFormat, &str); 3] = [
    (SessionFormat::ClaudeCode, "imports/claude.jsonl"),
    (SessionFormat::Codex, "imports/codex.jsonl"),
    (SessionFormat::Codex, "imports/codex-bare.jsonl"),
];

/// Everything that the chat tables hold, as text.
fn everything(store: &Store) -> String {
    let mut text = String::new();
    for thread in store.threads().list(ListThreads::default()).unwrap().items {
        text += &format!("{thread:?}\n");
        let id = thread.id.as_str();
        for turn in turns(store, id) {
            text += &format!("{turn:?}\n");
        }
        for item in items(store, id) {
            text += &format!("{item:?}\n");
        }
        text += &format!(
            "{:?}\n",
            store
                .thread_events()
                .list(ListThreadEvents { thread_id: id.parse().unwrap(), limit: Some(1000), ..Default::default() })
                .unwrap()
                .items
        );
    }
    text + &format!("{:?}", store.usage().list(ListUsage { limit: Some(1000), ..Default::default() }).unwrap().items)
}

/// Sends a file in chunks that end after these lines.
fn in_chunks(store: &Store, format: SessionFormat, lines: &[&[u8]], ends: &[usize]) -> Vec<(i64, i64, i64)> {
    let mut state: Option<Json> = None;
    let mut start = 0;
    let mut counts = Vec::new();
    for end in ends.iter().copied().chain([lines.len()]) {
        let chunk = ImportChunk {
            format,
            line: Some(start as i64 + 1),
            state: state.take(),
            last: Some(end == lines.len()),
            bytes: lines[start..end].concat(),
        };
        let answer = store.imports().chunk(chunk.clone()).unwrap();
        // A chunk that is sent again, because its answer was lost, adds nothing.
        let again = store.imports().chunk(chunk).unwrap();
        assert_eq!((again.imported, &again.state), (0, &answer.state));
        state = Some(answer.state);
        start = end;
        counts.push((answer.imported, answer.skipped, answer.rejected_count));
    }
    counts
}

#[test]
fn wherever_a_file_is_cut_the_rows_are_the_same() {
    for (format, name) in FIXTURES {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let (whole, _) = common::in_memory();
        let report = read(&whole, format, &bytes);
        assert!(report.imported > 5, "{report:#?}");
        let expected = everything(&whole);
        for end in 1..lines.len() {
            let (store, _) = common::in_memory();
            let counts = in_chunks(&store, format, &lines, &[end]);
            assert_eq!(everything(&store), expected, "{name} cut after line {end}");
            assert_eq!(counts.iter().map(|count| count.0).sum::<i64>(), report.imported);
            assert_eq!(counts.iter().map(|count| count.2).sum::<i64>(), report.rejected_count);
        }
        let (store, _) = common::in_memory();
        in_chunks(&store, format, &lines, &(1..lines.len()).collect::<Vec<_>>());
        assert_eq!(everything(&store), expected, "{name} line by line");
        // Stopped anywhere, and begun anew.
        for end in 1..lines.len() {
            let (store, _) = common::in_memory();
            let chunk = ImportChunk { format, line: None, state: None, last: None, bytes: lines[..end].concat() };
            let first = store.imports().chunk(chunk).unwrap();
            let second = read(&store, format, &bytes);
            assert_eq!(
                (first.imported + second.imported, everything(&store)),
                (report.imported, expected.clone()),
                "{name} {end}"
            );
            let third = read(&store, format, &bytes);
            assert_eq!((third.imported, everything(&store)), (0, expected.clone()));
        }
    }
}

/// A reader that gives one byte at a time.
struct Slow<'b>(&'b [u8]);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
        buffer[0] = *first;
        self.0 = rest;
        Ok(1)
    }
}

#[test]
fn how_the_bytes_come_in_does_not_matter() {
    for (format, name) in FIXTURES {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let (whole, _) = common::in_memory();
        let report = read(&whole, format, &bytes);
        let (store, _) = common::in_memory();
        let slow = store.imports().read(format, "a.jsonl", std::io::BufReader::with_capacity(1, Slow(&bytes)), |_| true).unwrap();
        assert_eq!((slow, everything(&store)), (report, everything(&whole)));
    }
}

#[test]
fn a_file_that_grows_goes_on_where_it_was() {
    for (format, name) in FIXTURES {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let (whole, _) = common::in_memory();
        read(&whole, format, &bytes);
        let (store, _) = common::in_memory();
        for end in 1..=lines.len() {
            read(&store, format, &lines[..end].concat());
        }
        assert_eq!(totals(&store), totals(&whole), "{name}");
        let shape = |store: &Store| -> Vec<_> {
            let threads = store.threads().list(ListThreads::default()).unwrap().items;
            let of = |id: &str| {
                (
                    items(store, id).into_iter().map(|i| (i.id, i.kind, i.status, i.ended_at)).collect::<Vec<_>>(),
                    turns(store, id).into_iter().map(|t| (t.id, t.status, t.ended_at)).collect::<Vec<_>>(),
                )
            };
            threads.iter().map(|thread| of(&thread.id)).collect()
        };
        assert_eq!(shape(&store), shape(&whole), "{name}");
    }
}

/// A user's or an assistant's record of a Claude Code session.
fn said(session: &str, uuid: &str, second: u32, message: serde_json::Value) -> String {
    serde_json::json!({
        "type": message["role"], "sessionId": session, "uuid": uuid, "cwd": "/home/dev/kite",
        "timestamp": format!("2026-02-01T08:00:{second:02}.250Z"), "message": message,
    })
    .to_string()
        + "\n"
}

fn answer(id: &str, text: &str, output: i64) -> serde_json::Value {
    let usage = serde_json::json!({ "input_tokens": 3, "output_tokens": output, "cache_read_input_tokens": 100 });
    let content = serde_json::json!([{ "type": "text", "text": text }]);
    serde_json::json!({ "role": "assistant", "id": id, "model": "claude-sonnet-4-5", "content": content, "usage": usage })
}

fn prompt(text: &str) -> serde_json::Value {
    serde_json::json!({ "role": "user", "content": text })
}

#[test]
fn a_session_reads_as_it_was() {
    let (store, _) = common::in_memory();
    let report = import(&store, SessionFormat::ClaudeCode, &fixture("imports/claude.jsonl"));
    let id = report.thread_id.clone().unwrap();
    let thread = common::call(&store, "threads.get", serde_json::json!({ "id": id }));
    assert_eq!(thread["title"], "Kite: wind readings");
    assert_eq!((&thread["workspace"], &thread["model"]), (&"/home/dev/kite".into(), &"claude-sonnet-4-5".into()));
    assert_eq!(thread["createdAt"], 1_769_932_801_001_i64);
    assert_eq!((&thread["metadata"]["gitBranch"], &thread["metadata"]["version"]), (&"main".into(), &"2.1.0".into()));

    let found = items(&store, &id);
    let first: Vec<_> = found[..6].iter().map(|item| (item.kind, item.status, item.text.to_string())).collect();
    use ItemKind::*;
    use ThreadItemStatus::*;
    assert_eq!(
        first,
        [
            (UserMessage, Completed, "The gauge shows negative wind 🌬.\nPlease fix it.".to_owned()),
            (Reasoning, Completed, "A sign error, probably.".to_owned()),
            (AssistantMessage, Completed, "I'll look at the sensor first.".to_owned()),
            (ToolCall, Completed, String::new()),
            (CommandExecution, Failed, String::new()),
            (FileChange, Completed, String::new()),
        ]
    );
    assert_eq!(
        found[3].data.as_ref().unwrap().as_str(),
        r#"{"tool":"Read","callId":"t1","input":{"file_path": "src/gauge.c", "limit": 9007199254740993},"output":[{"type": "text", "text": "int wind = -raw;"}]}"#
    );
    assert!(found[3].metadata.as_ref().unwrap().as_str().contains(r#""toolUseResult":{"file""#));
    assert_eq!(found[3].summary, "Read src/gauge.c");
    let compaction = found.iter().find(|item| item.kind == ContextCompaction).unwrap();
    assert!(compaction.text.to_string().starts_with("This session continues"));
    assert!(compaction.data.as_ref().unwrap().as_str().contains("155000"));
    let last = found.last().unwrap();
    assert_eq!((last.kind, last.status), (CommandExecution, Interrupted));

    let ends: Vec<_> = turns(&store, &id).into_iter().map(|turn| (turn.status, turn.input_summary)).collect();
    assert_eq!(
        ends,
        [
            (TurnStatus::Completed, "The gauge shows negative wind 🌬.".to_owned()),
            (TurnStatus::Interrupted, "And the north mark?".to_owned()),
            (TurnStatus::Completed, "Here is a picture.".to_owned()),
            (TurnStatus::Failed, "Thanks".to_owned()),
            (TurnStatus::Interrupted, "A bad time".to_owned()),
        ]
    );
    // msg_1 is on three lines, with a growing output.
    let used = store.usage().get(runkeep::threads::usage::ResponseId { response_id: "msg_1".parse().unwrap() }).unwrap().unwrap();
    assert_eq!(
        (used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens),
        (113, 20, Some(100), Some(10))
    );
    assert_eq!(totals(&store).4, 8);

    let reasons: Vec<_> = report.rejected.iter().map(|rejected| rejected.reason.split([':', ';']).next().unwrap()).collect();
    assert_eq!(
        reasons,
        [
            "not an object but an array",
            "not an object",
            "not valid JSON",
            "an earlier record has the same uuid and says something else",
            "a record of the type \"assistant\" without a message",
            "a record without a type",
            "data is nested over 128 levels deep",
            "cut off",
        ]
    );
    assert_eq!((report.skipped, report.rejected_count), (1, 8));
    assert_eq!(report.unknown_types.keys().collect::<Vec<_>>(), ["file-history-snapshot", "kite-flown", "progress"]);
    let kept = events(&store, &id);
    assert_eq!((kept["claude:kite-flown"], kept["claude:assistant"], kept["claude:record"]), (1, 1, 1));
}

#[test]
fn a_rollout_reads_as_it_was() {
    let (store, _) = common::in_memory();
    let report = import(&store, SessionFormat::Codex, &fixture("imports/codex.jsonl"));
    let id = report.thread_id.clone().unwrap();
    let thread = common::call(&store, "threads.get", serde_json::json!({ "id": id }));
    assert_eq!((&thread["title"], &thread["systemPrompt"]), (&"Make the kite fly.".into(), &"You write code.".into()));
    assert_eq!((&thread["model"], &thread["metadata"]["cli_version"]), (&"gpt-5.2-codex".into(), &"0.98.0".into()));
    let found: Vec<_> = items(&store, &id).into_iter().map(|item| (item.kind, item.status)).collect();
    use ItemKind::*;
    use ThreadItemStatus::*;
    assert_eq!(
        found,
        [
            (UserMessage, Completed),
            (Reasoning, Completed),
            (AssistantMessage, Completed),
            (CommandExecution, Completed),
            (CommandExecution, Failed),
            (FileChange, Completed),
            (ToolCall, Completed),
            (AssistantMessage, Completed),
            (ContextCompaction, Completed),
            (UserMessage, Completed),
            (UserMessage, Completed),
            (Error, Failed),
            (UserMessage, Completed),
            (CommandExecution, Interrupted),
        ]
    );
    let ends: Vec<_> = turns(&store, &id).into_iter().map(|turn| turn.status).collect();
    assert_eq!(ends, [TurnStatus::Completed, TurnStatus::Interrupted, TurnStatus::Failed, TurnStatus::Interrupted]);
    let sums = store.usage().aggregate(AggregateUsage::default()).unwrap().totals;
    assert_eq!((sums.input_tokens, sums.cache_read_tokens, sums.output_tokens, sums.reasoning_tokens), (3000, 1900, 150, 30));
    assert_eq!(report.rejected.iter().map(|rejected| rejected.line).collect::<Vec<_>>(), [31]);
    assert_eq!(report.unknown_types, BTreeMap::from([("ghost_snapshot".to_owned(), 1)]));
}

#[test]
fn forks_and_side_chains_count_a_response_once() {
    let (store, _) = common::in_memory();
    let first = said("one", "u1", 1, prompt("Go")) + &said("one", "u2", 2, answer("msg_1", "Gone", 5));
    // The fork has its parent's records under its own id, one of them grown, and goes on.
    let fork = said("two", "u1", 1, prompt("Go"))
        + &said("two", "u2", 2, answer("msg_1", "Gone", 7))
        + &said("two", "u3", 3, prompt("Further"))
        + &said("two", "u4", 4, answer("msg_2", "Gone further", 11));
    assert_eq!(read(&store, SessionFormat::ClaudeCode, first.as_bytes()).imported, 2);
    assert_eq!(read(&store, SessionFormat::ClaudeCode, fork.as_bytes()).imported, 4);
    assert_eq!(totals(&store), (6, 18, 0, 200, 2));
    assert_eq!((items(&store, "one").len(), items(&store, "two").len()), (2, 4));
    let month = common::call(&store, "usage.get", serde_json::json!({ "responseId": "msg_1" }));
    assert_eq!((&month["threadId"], &month["outputTokens"]), (&"one".into(), &7.into()));

    let meta = |id: &str, more: serde_json::Value| {
        let mut payload = serde_json::json!({ "id": id, "timestamp": "2026-02-01T08:00:00Z", "model_provider": "openai" });
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::json!({ "timestamp": "2026-02-01T08:00:00Z", "type": "session_meta", "payload": payload }).to_string() + "\n"
    };
    let used = |input: i64| {
        let total = serde_json::json!({ "input_tokens": input, "cached_input_tokens": 0, "output_tokens": 1, "reasoning_output_tokens": 0 });
        let payload = serde_json::json!({ "type": "token_count", "info": { "total_token_usage": total } });
        serde_json::json!({ "timestamp": "2026-02-01T08:00:09Z", "type": "event_msg", "payload": payload }).to_string() + "\n"
    };
    let (store, _) = common::in_memory();
    let parent = meta("p", serde_json::json!({})) + &used(100) + &used(250);
    let fork = meta("f", serde_json::json!({ "forked_from_id": "p" }))
        + &meta("p", serde_json::json!({}))
        + &used(100)
        + &used(250)
        + &used(300);
    read(&store, SessionFormat::Codex, parent.as_bytes());
    read(&store, SessionFormat::Codex, fork.as_bytes());
    assert_eq!(store.usage().aggregate(AggregateUsage::default()).unwrap().totals.input_tokens, 300);
    assert_eq!(store.threads().list(ListThreads::default()).unwrap().items.len(), 2);
}

#[test]
fn what_somebody_has_changed_since_stays() {
    let (store, _) = common::in_memory();
    let bytes = std::fs::read(fixture("imports/claude.jsonl")).unwrap();
    let id = read(&store, SessionFormat::ClaudeCode, &bytes).thread_id.unwrap();
    let found = items(&store, &id);
    common::call(&store, "threads.update", serde_json::json!({ "id": id, "title": "Mine" }));
    common::call(&store, "items.delete", serde_json::json!({ "id": found[1].id }));
    let report = read(&store, SessionFormat::ClaudeCode, &bytes);
    assert_eq!(report.imported, 0);
    assert_eq!(common::call(&store, "threads.get", serde_json::json!({ "id": id }))["title"], "Mine");
    assert_eq!(items(&store, &id).len(), found.len() - 1);
    // Found by its words, too.
    let hits = common::call(&store, "threads.search", serde_json::json!({ "text": "negative wind" }));
    assert_eq!(hits["items"][0]["threadId"], id);
    common::call(&store, "threads.delete", serde_json::json!({ "id": id }));
    assert!(read(&store, SessionFormat::ClaudeCode, &bytes).imported > 20);
}

#[test]
fn a_line_that_is_too_long_is_passed_over() {
    use std::io::Read as _;
    let (store, _) = common::in_memory();
    let first = said("s", "u1", 1, prompt("Go"));
    let last = said("s", "u2", 2, answer("msg_1", "Gone", 5));
    let long = std::io::repeat(b'x').take(65 << 20);
    let reader = std::io::BufReader::new(first.as_bytes().chain(long).chain(&b"\n"[..]).chain(last.as_bytes()));
    let report = store.imports().read(SessionFormat::ClaudeCode, "long.jsonl", reader, |_| true).unwrap();
    assert_eq!((report.imported, report.rejected_count, report.rejected[0].line), (2, 1, 2));
    assert!(report.rejected[0].reason.starts_with("too_large"));
}

#[test]
fn files_that_are_no_sessions_say_so() {
    let (store, _) = common::in_memory();
    for (format, text) in [
        (SessionFormat::ClaudeCode, "{\"type\":\"summary\",\"summary\":\"x\"}\n{\"a\":1}"),
        (SessionFormat::Codex, "{\"type\":\"user\",\"sessionId\":\"s\"}\n{\"a\":1}"),
        (SessionFormat::Zagens, "{\"a\":1}\n{\"b\":2}"),
    ] {
        let report = read(&store, format, text.as_bytes());
        assert_eq!((report.imported, report.rejected_count, report.thread_id), (0, 2, None), "{format:?}");
    }
    assert!(store.threads().list(ListThreads::default()).unwrap().items.is_empty());
    let missing = store.imports().codex(&[Path::new("no/such/file")], |_| true).unwrap();
    assert_eq!(missing[0].rejected[0].line, 0);
}

#[test]
fn an_import_stops_where_it_is_asked_to() {
    let (store, _) = common::in_memory();
    let lines: String = (0..3000).map(|n| said("s", &format!("u{n}"), 1, prompt(&"x".repeat(500)))).collect();
    let mut asked = 0;
    let stopped = store.imports().read(SessionFormat::ClaudeCode, "a", lines.as_bytes(), |_| {
        asked += 1;
        asked < 2
    });
    let stopped = stopped.unwrap();
    assert!(stopped.imported > 100 && stopped.imported < 3000);
    let report = read(&store, SessionFormat::ClaudeCode, lines.as_bytes());
    assert_eq!((report.skipped, report.imported + report.skipped), (stopped.imported, 3000));
}

#[test]
fn a_suspended_tenant_imports_nothing() {
    let (store, _) = common::in_memory();
    common::call(&store, "tenants.create", serde_json::json!({ "id": "t" }));
    common::call(&store, "tenants.update", serde_json::json!({ "id": "t", "status": "suspended" }));
    let bytes = std::fs::read(fixture("imports/codex.jsonl")).unwrap();
    let refused = store.for_tenant("t").imports().read(SessionFormat::Codex, "a", &bytes[..], |_| true).unwrap_err();
    assert_eq!(refused.code(), runkeep::ErrorCode::TenantSuspended);
}

/// Asserts that four times as much takes less than eight times as long: the square of it would take sixteen times.
fn grows_with(what: &str, much: usize, file: impl Fn(usize) -> String) {
    let time = |count: usize| {
        let bytes = file(count);
        let once = |_| {
            let (store, _) = common::in_memory();
            #[expect(clippy::disallowed_methods, reason = "compared with another one, of the same machine")]
            let start = std::time::Instant::now();
            let report = read(&store, SessionFormat::ClaudeCode, bytes.as_bytes());
            assert_eq!(report.rejected, [], "{what}");
            start.elapsed()
        };
        // Others use this machine too.
        (0..2).map(once).min().unwrap()
    };
    let (some, more) = (time(much), time(4 * much));
    assert!(more < 8 * some, "{what}: {much} take {some:?}, four times as many {more:?}");
}

#[test]
fn the_time_grows_with_the_size() {
    grows_with("keys", 10_000, |count| {
        let mut record: serde_json::Value = serde_json::from_str(&said("s", "u1", 1, prompt("Go"))).unwrap();
        record.as_object_mut().unwrap().extend((0..count).map(|key| (format!("key{key}"), key.into())));
        record.to_string()
    });
    let call = |number: usize| {
        let block = serde_json::json!({ "type": "tool_use", "id": format!("toolu_{number:032}"), "name": "Read", "input": {} });
        let message = serde_json::json!({ "role": "assistant", "id": "m", "content": [block] });
        said("s", &format!("a{number}"), 2, message)
    };
    grows_with("open calls", 4_000, |count| said("s", "u1", 1, prompt("Go")) + &(0..count).map(call).collect::<String>());
    grows_with("results of one call", 2_000, |count| {
        let of_call = |number| said("s", &format!("r{number}"), 3, result("c", "x"));
        said("s", "u1", 2, called("m", "c")) + &(0..count).map(of_call).collect::<String>()
    });
    grows_with("unknown types", 1_000, |count| {
        let record = |number| format!("{{\"type\":\"new{number}\",\"uuid\":\"x{number}\"}}");
        said("s", "u1", 1, prompt("Go")) + &(0..count).map(record).collect::<String>()
    });
}

#[test]
fn of_members_with_one_name_the_last_counts() {
    let (store, _) = common::in_memory();
    let first = r#"{"sessionId":"not this","type":"summary","uuid":"u1","a":1,"b":2,"#;
    let last = r#""type":"user","sessionId":"s","a":3,"message":{"content":"lost","role":"user","content":"Go"}}"#;
    let report = read(&store, SessionFormat::ClaudeCode, format!("{first}{last}").as_bytes());
    assert_eq!((report.imported, report.thread_id.as_deref()), (1, Some("s")));
    let item = items(&store, "s").remove(0);
    assert_eq!((item.kind, item.text.to_string()), (ItemKind::UserMessage, "Go".to_owned()));
    assert_eq!(item.metadata.unwrap().as_str(), r#"{"uuid":"u1","b":2,"sessionId":"s","a":3}"#);
}

/// The same record of a side chain.
fn of_agent(record: &str) -> String {
    let mut record: serde_json::Value = serde_json::from_str(record).unwrap();
    record["isSidechain"] = true.into();
    record["agentId"] = "x".into();
    record.to_string() + "\n"
}

fn called(id: &str, call: &str) -> serde_json::Value {
    let content = serde_json::json!([{ "type": "tool_use", "id": call, "name": "Task", "input": { "prompt": "sub" } }]);
    let usage = serde_json::json!({ "input_tokens": 1, "output_tokens": 1 });
    serde_json::json!({ "role": "assistant", "id": id, "model": "claude-sonnet-4-5", "content": content, "usage": usage })
}

fn result(call: &str, text: &str) -> serde_json::Value {
    serde_json::json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": call, "content": text }] })
}

#[test]
fn a_side_chain_of_its_own_file_ends_as_it_ended() {
    let main = [
        said("s", "u1", 1, prompt("Do it")),
        said("s", "u2", 2, called("m1", "task")),
        said("s", "u3", 9, result("task", "Found")),
        said("s", "u4", 10, answer("m2", "All done.", 5)),
    ];
    let mut agents = [
        said("s", "a1", 3, prompt("Find it")),
        said("s", "a2", 4, called("m3", "sub")),
        said("s", "a3", 5, result("sub", "there")),
        said("s", "a4", 8, answer("m4", "Found", 7)),
    ]
    .map(|record| of_agent(&record));
    agents[3] = agents[3].replace("claude-sonnet-4-5", "claude-haiku-4-5");
    let (main, agent) = (main.concat(), agents.concat());
    for files in [[&main, &agent], [&agent, &main]] {
        let (store, _) = common::in_memory();
        for file in files {
            let report = read(&store, SessionFormat::ClaudeCode, file.as_bytes());
            assert_eq!((report.imported, report.rejected_count), (4, 0));
        }
        let found = turns(&store, "s");
        let of = |summary: &str| found.iter().find(|turn| turn.input_summary == summary).unwrap();
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|turn| turn.status == TurnStatus::Completed), "{found:#?}");
        assert_eq!(of("Find it").metadata.as_ref().unwrap().as_str(), r#"{"isSidechain":true,"agentId":"x"}"#);
        let thread = common::call(&store, "threads.get", serde_json::json!({ "id": "s" }));
        assert_eq!(thread["latestTurnId"], *of("Do it").id);
        assert_eq!((&thread["title"], &thread["model"]), (&"Do it".into(), &"claude-sonnet-4-5".into()));
    }

    // Cut off, it is what it looks like, until the rest comes in; asked again, it waits for its answer.
    let (store, _) = common::in_memory();
    let end = |text: &str| {
        read(&store, SessionFormat::ClaudeCode, text.as_bytes());
        turns(&store, "s").iter().map(|turn| turn.status).collect::<Vec<_>>()
    };
    assert_eq!(end(&agents[..2].concat()), [TurnStatus::Interrupted]);
    assert_eq!(end(&agent), [TurnStatus::Completed]);
    let more = agent + &of_agent(&said("s", "a5", 11, prompt("Once more")));
    assert_eq!(end(&more), [TurnStatus::Interrupted]);
    assert_eq!(end(&(more + &of_agent(&said("s", "a6", 12, answer("m5", "Again", 7))))), [TurnStatus::Completed]);
}

#[test]
fn a_side_chain_within_a_session_says_nothing_of_its_end() {
    let (store, _) = common::in_memory();
    // The agent is still at work when the session has answered.
    let session = [
        said("s", "u1", 1, prompt("Do it")),
        of_agent(&said("s", "a1", 2, prompt("Find it"))),
        of_agent(&said("s", "a2", 3, called("m1", "sub"))),
        said("s", "u2", 4, answer("m2", "It is being looked for.", 5)),
        of_agent(&said("s", "a3", 5, result("sub", "there"))),
        of_agent(&said("s", "a4", 6, called("m3", "open"))),
    ];
    read(&store, SessionFormat::ClaudeCode, session.concat().as_bytes());
    let found = turns(&store, "s");
    assert_eq!(found.iter().map(|turn| turn.status).collect::<Vec<_>>(), [TurnStatus::Completed]);
    assert_eq!(found[0].last_request_input_tokens, Some(103));
    let ends: Vec<_> = items(&store, "s").iter().map(|item| item.status).collect();
    use ThreadItemStatus::*;
    assert_eq!(ends, [Completed, Completed, Completed, Completed, Interrupted]);
}

#[test]
fn a_bad_name_or_figure_loses_nothing_else() {
    let most: i64 = 1_000_000_000_000;
    let long = "x".repeat(257);
    let used = serde_json::json!({ "input_tokens": 3, "output_tokens": 4 });
    let with = |name: &str, value: serde_json::Value| {
        let mut message =
            serde_json::json!({ "role": "assistant", "id": "m", "model": "claude-sonnet-4-5", "content": "Here", "usage": used });
        if message.get(name).is_some() {
            message[name] = value
        } else {
            message["usage"][name] = value
        }
        message
    };
    // What is wrong, whether it is counted all the same, and what the reason names.
    for (message, counted, named) in [
        (with("model", "".into()), true, "message.model: the name must not be empty"),
        (with("model", long.as_str().into()), true, "message.model: the name is 257 bytes long"),
        (with("model", "a\u{7}b".into()), true, "message.model: the name contains the control character U+0007"),
        (with("id", "".into()), false, "message.id: the name must not be empty"),
        (with("id", long.as_str().into()), false, "message.id: the name is 257 bytes long"),
        (with("id", "a\nb".into()), false, "message.id: the name contains the control character U+000A"),
        (
            with("cache_read_input_tokens", most.into()),
            false,
            "cache_read_input_tokens and cache_creation_input_tokens are 1000000000003",
        ),
        (with("cache_read_input_tokens", (most + 1).into()), false, "cache_read_input_tokens is 1000000000001"),
        (with("cache_creation_input_tokens", (-1).into()), false, "cache_creation_input_tokens is -1"),
        (with("input_tokens", 2.5.into()), false, "input_tokens is 2.5"),
        (with("output_tokens", "7".into()), false, "output_tokens is \"7\""),
        (with("output_tokens", true.into()), false, "output_tokens is true"),
    ] {
        let (store, _) = common::in_memory();
        let session = said("s", "u1", 1, prompt("Where?")) + &said("s", "u2", 2, message);
        let report = read(&store, SessionFormat::ClaudeCode, session.as_bytes());
        assert_eq!((report.imported, report.rejected_count, report.rejected[0].line), (1, 1, 2), "{named}");
        assert!(report.rejected[0].reason.contains(named), "{}", report.rejected[0].reason);
        assert_eq!(
            items(&store, "s").iter().map(|item| item.text.to_string()).collect::<Vec<_>>(),
            ["Where?", "Here"],
            "{named}"
        );
        let records = store.usage().list(ListUsage::default()).unwrap().items;
        let sums: Vec<_> = records.iter().map(|used| (used.model.as_str(), used.input_tokens, used.output_tokens)).collect();
        assert_eq!(sums, if counted { vec![("unknown", 3, 4)] } else { vec![] }, "{named}");
        assert_eq!(read(&store, SessionFormat::ClaudeCode, session.as_bytes()).imported, 0);
    }
    // A whole number is one, however it is written.
    let (store, _) = common::in_memory();
    let session = said("s", "u2", 2, with("output_tokens", 2.0.into()));
    assert!(session.contains("2.0"));
    assert_eq!(read(&store, SessionFormat::ClaudeCode, session.as_bytes()).rejected_count, 0);
    assert_eq!(totals(&store), (3, 2, 0, 0, 1));
}

#[test]
fn a_rollout_with_a_bad_model_or_figure_keeps_what_is_good() {
    let record = |kind: &str, payload: serde_json::Value| {
        serde_json::json!({ "timestamp": "2026-02-01T08:00:00Z", "type": kind, "payload": payload }).to_string() + "\n"
    };
    let used = |input: serde_json::Value, last: serde_json::Value| {
        let total = serde_json::json!({ "input_tokens": input, "output_tokens": 1 });
        let info = serde_json::json!({ "total_token_usage": total, "last_token_usage": { "input_tokens": last } });
        record("event_msg", serde_json::json!({ "type": "token_count", "info": info }))
    };
    let (store, _) = common::in_memory();
    // The longest id that is one: with a prefix it is too long.
    let id = "p".repeat(256);
    let rollout = [
        record("session_meta", serde_json::json!({ "id": id })),
        record("turn_context", serde_json::json!({ "model": "" })),
        used(100.into(), 90.into()),
        used(2.5.into(), 90.into()),
        used((-1).into(), 90.into()),
        used(300.into(), "80".into()),
    ];
    let report = read(&store, SessionFormat::Codex, rollout.concat().as_bytes());
    let reasons: Vec<_> =
        report.rejected.iter().map(|rejected| (rejected.line, rejected.reason.split(';').next().unwrap())).collect();
    assert_eq!(
        reasons,
        [
            (2, "payload.model: the name must not be empty (a name is 1 to 256 bytes of UTF-8)"),
            (4, "its usage was not counted: input_tokens is 2.5"),
            (5, "its usage was not counted: input_tokens is -1"),
            (6, "last_token_usage: input_tokens is \"80\""),
        ]
    );
    let records = store.usage().list(ListUsage::default()).unwrap().items;
    let sums: Vec<_> = records.iter().map(|used| (used.model.as_str(), used.input_tokens, used.output_tokens)).collect();
    assert_eq!(sums, [("unknown", 100, 1), ("unknown", 200, 0)]);
    assert_eq!(turns(&store, &id)[0].last_request_input_tokens, Some(90));
    assert_eq!(events(&store, &id)["codex:token_count"], 4);
}

#[test]
fn a_zagens_turn_with_a_bad_model_or_figure_is_there() {
    let (store, _) = common::in_memory();
    let file = |value: serde_json::Value| read(&store, SessionFormat::Zagens, value.to_string().as_bytes());
    let turn = |id: &str, thread: &str, used: serde_json::Value| {
        let turn = serde_json::json!({ "id": id, "thread_id": thread, "status": "completed", "usage": used });
        let report = file(turn);
        let item = serde_json::json!({ "id": format!("i-{id}"), "turn_id": id, "kind": "user_message", "status": "completed" });
        assert_eq!(file(item).imported, 1, "{report:?}");
        report.rejected.into_iter().map(|rejected| rejected.reason).collect::<String>()
    };
    file(serde_json::json!({ "id": "b", "model": "" }));
    file(serde_json::json!({ "id": "g", "model": "m" }));
    let reason = turn("t1", "b", serde_json::json!({ "input_tokens": 5, "output_tokens": 1 }));
    assert!(reason.starts_with("the model of the thread: the name must not be empty"), "{reason}");
    let reason = turn("t2", "g", serde_json::json!({ "input_tokens": "5" }));
    assert!(reason.starts_with("its usage was not counted: input_tokens is \"5\""), "{reason}");
    let most: i64 = 1_000_000_000_000;
    let reason = turn("t3", "g", serde_json::json!({ "prompt_cache_hit_tokens": most, "prompt_cache_miss_tokens": most }));
    assert!(reason.contains("prompt_cache_miss_tokens are 2000000000000"), "{reason}");
    assert_eq!(turn(&"t".repeat(250), "g", serde_json::json!({ "input_tokens": 7.0 })), "");
    let records = store.usage().list(ListUsage::default()).unwrap().items;
    let sums: Vec<_> = records.iter().map(|used| (used.model.as_str(), used.input_tokens)).collect();
    assert_eq!(sums, [("unknown", 5), ("m", 7)]);
}

#[test]
fn what_comes_before_the_session_is_told_is_kept() {
    let summary = |number: usize| format!("{{\"type\":\"summary\",\"summary\":\"Title {number}\",\"leafUuid\":\"l{number}\"}}\n");
    let session = said("s", "u1", 1, prompt("Go"));
    for count in [64, 65, 10_000] {
        let (store, _) = common::in_memory();
        let file = (0..count).map(summary).collect::<String>() + &session;
        let report = read(&store, SessionFormat::ClaudeCode, file.as_bytes());
        assert_eq!((report.imported, report.rejected_count), (count as i64 + 1, 0));
        let thread = common::call(&store, "threads.get", serde_json::json!({ "id": "s" }));
        assert_eq!(thread["title"], format!("Title {}", count - 1));
    }
    // Until it is too much to keep.
    let (store, _) = common::in_memory();
    let file = (0..60_000).map(summary).collect::<String>() + &session;
    let report = read(&store, SessionFormat::ClaudeCode, file.as_bytes());
    assert_eq!((report.imported, report.rejected_count), (1, 60_000));
    assert_eq!(report.rejected.len(), 1000);
    assert!(report.rejected[0].reason.contains("4 MiB"), "{}", report.rejected[0].reason);
}

#[test]
fn a_thread_that_is_deleted_while_it_is_imported_loses_its_own_file_only() {
    for (format, name) in FIXTURES {
        let bytes = std::fs::read(fixture(name)).unwrap();
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let (whole, _) = common::in_memory();
        read(&whole, format, &bytes);
        let (store, _) = common::in_memory();
        let mut next = ImportChunk { format, bytes: lines[..6].concat(), ..Default::default() };
        let first = store.imports().chunk(next.clone()).unwrap();
        let thread = first.thread_id.unwrap();
        common::call(&store, "threads.delete", serde_json::json!({ "id": thread }));
        next = ImportChunk { line: Some(7), state: Some(first.state), bytes: lines[6..9].concat(), ..next };
        let second = store.imports().chunk(next.clone()).unwrap();
        assert_eq!((second.imported, second.skipped, second.rejected_count, second.rejected[0].line), (0, 0, 1, 7), "{name}");
        let reason = &second.rejected[0].reason;
        assert!(reason.contains(&format!("the thread {thread:?} was deleted meanwhile")), "{reason}");
        // Said once.
        next = ImportChunk { line: Some(10), state: Some(second.state), last: Some(true), bytes: lines[9..].concat(), ..next };
        let third = store.imports().chunk(next).unwrap();
        assert_eq!((third.imported, third.skipped, third.rejected_count), (0, 0, 0), "{name}");
        assert!(store.threads().list(ListThreads::default()).unwrap().items.is_empty());
        // Imported again, the file is there as it is.
        read(&store, format, &bytes);
        let ends = |store: &Store| turns(store, &thread).into_iter().map(|turn| (turn.id, turn.status)).collect::<Vec<_>>();
        assert_eq!(ends(&store), ends(&whole), "{name}");
        assert!(items(&store, &thread) == items(&whole, &thread), "{name}");
    }
}

#[test]
fn what_is_open_ends_when_the_turn_does_however_much_of_it_was_imported_before() {
    let record = |second: u32, payload: serde_json::Value| {
        let timestamp = format!("2026-02-01T08:00:{second:02}Z");
        serde_json::json!({ "timestamp": timestamp, "type": "response_item", "payload": payload }).to_string() + "\n"
    };
    let header = serde_json::json!({ "timestamp": "2026-02-01T08:00:00Z", "type": "session_meta", "payload": { "id": "s" } });
    let call = |id: &str| serde_json::json!({ "type": "function_call", "name": "shell", "call_id": id, "arguments": "{}" });
    let said = serde_json::json!({ "type": "message", "role": "assistant", "content": "Wait." });
    let result = serde_json::json!({ "type": "function_call_output", "call_id": "b", "output": "done" });
    let lines = [header.to_string() + "\n", record(1, call("a")), record(2, call("b")), record(3, said), record(9, result)];
    let ends = |store: &Store| items(store, "s").into_iter().map(|item| (item.status, item.ended_at)).collect::<Vec<_>>();
    let (whole, _) = common::in_memory();
    read(&whole, SessionFormat::Codex, lines.concat().as_bytes());
    let at = 1_769_932_800_000;
    use ThreadItemStatus::*;
    assert_eq!(ends(&whole), [(Interrupted, Some(at + 9000)), (Completed, Some(at + 9000)), (Completed, Some(at + 3000))]);
    let (store, _) = common::in_memory();
    for end in 1..=lines.len() {
        read(&store, SessionFormat::Codex, lines[..end].concat().as_bytes());
    }
    assert_eq!(ends(&store), ends(&whole));
}

#[test]
fn what_goes_from_chunk_to_chunk_stays_small() {
    let (store, _) = common::in_memory();
    let long = "é".repeat(1 << 19);
    let record =
        |kind: &str, payload: serde_json::Value| serde_json::json!({ "type": kind, "payload": payload }).to_string() + "\n";
    let bytes = [
        record("session_meta", serde_json::json!({ "id": "s", "forked_from_id": long, "model_provider": long })),
        record("turn_context", serde_json::json!({ "model": long })),
        record("event_msg", serde_json::json!({ "type": "error", "message": long })),
        record("response_item", serde_json::json!({ "type": "function_call", "call_id": long, "name": "x" })),
    ];
    let chunk = ImportChunk { format: SessionFormat::Codex, bytes: bytes.concat().into_bytes(), ..Default::default() };
    let answer = store.imports().chunk(chunk).unwrap();
    assert_eq!((answer.imported, answer.rejected_count), (3, 1));
    assert!(answer.state.as_str().len() < 10_000, "{}", answer.state.as_str().len());
    let found = items(&store, "s");
    assert_eq!(found[0].text.to_string(), long);
    assert!(found[1].data.as_ref().unwrap().as_str().contains(&long));
}

#[test]
fn a_call_keeps_its_result_and_others_are_items_of_their_own() {
    let (store, _) = common::in_memory();
    let mut results = result("c", "second");
    let block = results["content"][0].clone();
    results["content"].as_array_mut().unwrap().push(block);
    let session = said("s", "u1", 1, called("m", "c")) + &said("s", "u2", 2, result("c", "first")) + &said("s", "u3", 3, results);
    for imported in [3, 0] {
        let report = read(&store, SessionFormat::ClaudeCode, session.as_bytes());
        assert_eq!((report.imported, report.rejected_count), (imported, 0));
        let found = items(&store, "s");
        let data: Vec<_> = found.iter().map(|item| item.data.as_ref().unwrap().as_str()).collect();
        assert_eq!(data[0], r#"{"tool":"Task","callId":"c","input":{"prompt":"sub"},"output":"first"}"#);
        assert_eq!(data[1..], [r#"{"output":"second"}"#; 2]);
        assert!(found.iter().all(|item| item.status == ThreadItemStatus::Completed && item.kind == ItemKind::ToolCall));
    }
}
