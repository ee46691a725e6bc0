//! Full text search: what deleting leaves of a text, and what indexing and searching cost.

mod common;

#[allow(dead_code, reason = "each test uses a part")]
#[path = "simulation/random.rs"]
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Folder, call, clock, dump, options, with};
use random::Random;
use runkeep::Store;
use rusqlite::Connection;
use serde_json::{Value, json};

fn say(store: &Store, thread: &str, id: &str, text: &str) {
    let item = json!({ "id": id, "threadId": thread, "kind": "assistant_message", "status": "completed", "text": text });
    call(store, "items.create", item);
}

fn find(store: &Store, query: Value) -> BTreeSet<String> {
    let hits = call(store, "threads.search", with(&json!({ "limit": 200 }), query));
    assert_eq!((&hits["more"], &hits["damaged"]), (&json!(false), &Value::Null));
    let id = |hit: &Value| hit.get("itemId").unwrap_or(&hit["threadId"]).as_str().unwrap().to_owned();
    hits["items"].as_array().unwrap().iter().map(id).collect()
}

/// The words in the index, without the tenants' marks, and without what the threads are found by.
fn vocabulary(path: &Path) -> BTreeSet<String> {
    let raw = Connection::open(path).unwrap();
    raw.execute_batch(
        "CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab ('main', 'search_index', 'row');
         INSERT INTO search_index (search_index) VALUES ('integrity-check');",
    )
    .unwrap();
    let mut statement = raw.prepare("SELECT term FROM temp.vocabulary").unwrap();
    let terms = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    terms.filter(|term| !term.contains('§')).map(|term| term.chars().skip(1).collect()).collect()
}

/// Common words, and rare ones.
fn sentence(random: &mut Random) -> String {
    let length = 1 + random.below(60);
    let word = |random: &mut Random| {
        let of = random.pick(&[40, 40, 1_000, 1_000_000]);
        format!("w{}", random.below(of))
    };
    (0..length).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

fn words(texts: &BTreeMap<String, (String, String)>) -> BTreeSet<String> {
    texts.values().flat_map(|(_, text)| text.split(' ').map(str::to_owned)).collect()
}

/// Whatever was written, changed and deleted before: the index holds the words that are there, no others, and finds what has them.
#[test]
fn the_index_holds_what_is_there_and_nothing_else() {
    let (folder, clock) = (Folder::in_memory(), clock());
    let path = folder.file("store.db");
    let mut store = Store::open_with(&path, options(&clock)).unwrap();
    let mut random = Random::new(5);
    let mut texts: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut threads: Vec<String> = Vec::new();
    for step in 0..1_500 {
        let some = random.maybe_pick(&texts.keys().cloned().collect::<Vec<_>>());
        match (random.below(20), some) {
            (0, _) if threads.len() < 8 => {
                let (id, title) = (format!("t{step}"), sentence(&mut random));
                call(&store, "threads.create", json!({ "id": id, "title": title }));
                texts.insert(id.clone(), (id.clone(), title));
                threads.push(id);
            }
            (1, _) if threads.len() > 4 => {
                let id = threads.swap_remove(random.below(threads.len()));
                call(&store, "threads.delete", json!({ "id": id }));
                texts.retain(|_, (thread, _)| *thread != id);
            }
            (2..=6, Some(id)) if texts[&id].0 != id => {
                call(&store, "items.delete", json!({ "id": id }));
                texts.remove(&id);
            }
            (7..=9, Some(id)) => {
                let text = sentence(&mut random);
                match texts[&id].0 == id {
                    true => call(&store, "threads.update", json!({ "id": id, "title": text })),
                    false => call(&store, "items.update", json!({ "id": id, "text": text })),
                };
                texts.get_mut(&id).unwrap().1 = text;
            }
            _ => {
                let Some(thread) = random.maybe_pick(&threads) else { continue };
                let (id, text) = (format!("i{step}"), sentence(&mut random));
                say(&store, &thread, &id, &text);
                texts.insert(id, (thread, text));
            }
        }
        if step % 100 == 99 {
            assert_eq!(vocabulary(&path), words(&texts), "after step {step}");
            store.close().unwrap();
            store = Store::open_with(&path, options(&clock)).unwrap();
            for _ in 0..20 {
                let (whole, begin) = (format!("w{}", random.below(1_000)), format!("w{}", random.below(100)));
                let matches = |text: &str| {
                    text.split(' ').any(|word| word == whole) && text.split(' ').any(|word| word.starts_with(&begin))
                };
                let expected = texts.iter().filter(|(_, (_, text))| matches(text)).map(|(id, _)| id.clone()).collect();
                assert_eq!(find(&store, json!({ "text": format!("{whole} {begin}") })), expected, "{whole} {begin}");
            }
        }
    }
    for id in threads {
        call(&store, "threads.delete", json!({ "id": id }));
    }
    assert_eq!(vocabulary(&path), BTreeSet::new());
}

#[test]
fn no_byte_of_a_deleted_text_stays_in_a_table() {
    let (folder, clock) = (Folder::new(), clock());
    let path = folder.file("store.db");
    let plain = Store::open_with(&path, options(&clock)).unwrap();
    call(&plain, "tenants.create", json!({ "id": "acme" }));
    for store in [&plain, &plain.for_tenant("acme")] {
        for n in 0..50 {
            let thread = format!("t{n}");
            call(store, "threads.create", json!({ "id": thread, "title": format!("title {n}") }));
            say(store, &thread, &format!("i{n}"), &format!("word{n} other{n}"));
        }
        call(store, "threads.create", json!({ "id": "t", "title": "qxtitle" }));
        say(store, "t", "a", "about qxitem and more");
        say(store, "t7", "b", "about qxother and more");
        say(store, "t7", "c", "about qxchanged and more");
        call(store, "items.update", json!({ "id": "c", "text": "about something else" }));
        call(store, "items.delete", json!({ "id": "b" }));
        call(store, "threads.delete", json!({ "id": "t" }));
        assert_eq!(find(store, json!({ "text": "qx" })), BTreeSet::new());
        assert_eq!(find(store, json!({ "text": "something" })), ["c".to_owned()].into());
        assert!(!vocabulary(&path).iter().any(|word| word.starts_with("qx") && word != "qxold"));
        call(store, "threads.create", json!({ "id": "old", "title": "qxold" }));
        say(store, "old", "d", "qxold");
        call(store, "retention.set", json!({ "threadsMs": 1_000 }));
    }
    clock.advance(1_001);
    while call(&plain, "sweep", json!({}))["more"] == true {}
    assert_eq!(vocabulary(&path), BTreeSet::new());
    let rows = dump(&path);
    assert!(!rows.contains("qx"), "{}", rows.lines().find(|row| row.contains("qx")).unwrap());
    // The bytes of the index itself are numbers in that.
    let raw = Connection::open(&path).unwrap();
    for table in ["data", "idx", "content"] {
        let kept: Vec<u8> = match table {
            "data" => collect(&raw, "SELECT block FROM search_index_data"),
            "idx" => collect(&raw, "SELECT term FROM search_index_idx"),
            _ => collect(&raw, "SELECT CAST(c1 || c2 || c3 AS BLOB) FROM search_index_content"),
        };
        for rest in [&b"qx"[..], b"title", b"changed", b"old"] {
            assert!(!kept.windows(rest.len()).any(|window| window == rest), "{table} holds {:?}", String::from_utf8_lossy(rest));
        }
    }
}

fn collect(raw: &Connection, sql: &str) -> Vec<u8> {
    let mut statement = raw.prepare(sql).unwrap();
    statement.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap().flat_map(Result::unwrap).collect()
}

/// Lesson 29.
#[test]
fn what_is_found_and_cannot_be_read_is_named_and_hides_nothing() {
    let spoil = [
        ("UPDATE thread_items SET kind = 'poem' WHERE id = 'b'", "thread_items", "b"),
        (
            "UPDATE item_contents SET text = CAST(x'ff' AS TEXT) WHERE item = (SELECT key FROM thread_items WHERE id = 'b')",
            "thread_items",
            "b",
        ),
        ("UPDATE item_contents SET data = '{' WHERE item = (SELECT key FROM thread_items WHERE id = 'b')", "thread_items", "b"),
        ("DELETE FROM thread_items WHERE id = 'b'", "search_index", "2"),
        ("UPDATE threads SET title = CAST(x'ff' AS TEXT) WHERE id = 'u'", "threads", "u"),
    ];
    for (spoil, table, id) in spoil {
        let folder = Folder::new();
        let path = folder.file("store.db");
        let store = Store::open(&path).unwrap();
        for (thread, item) in [("t", "a"), ("u", "b"), ("v", "c")] {
            call(&store, "threads.create", json!({ "id": thread, "title": "of it" }));
            let item = json!({ "id": item, "threadId": thread, "kind": "tool_call", "status": "completed", "text": "walnut", "data": {} });
            call(&store, "items.create", item);
        }
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch("PRAGMA ignore_check_constraints = on; PRAGMA foreign_keys = off;").unwrap();
        assert_eq!(raw.execute(spoil, ()).unwrap(), 1, "{spoil}");
        let hits = call(&store, "threads.search", json!({ "text": "walnut" }));
        let found: Vec<&Value> = hits["items"].as_array().unwrap().iter().map(|hit| &hit["itemId"]).collect();
        assert_eq!(found, ["c", "a"], "{spoil}");
        let damaged = hits["damaged"].as_array().unwrap();
        assert_eq!((damaged.len(), &damaged[0]["table"], &damaged[0]["id"]), (1, &json!(table), &json!(id)), "{spoil}: {hits}");
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed(body: impl FnOnce()) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "SQLite does not count what its index takes")]
    let start = Instant::now();
    body();
    start.elapsed()
}

/// Items of a kilobyte in threads of 20.
fn fill(store: &Store, prefix: &str, count: usize, random: &mut Random) {
    for n in 0..count {
        if n % 20 == 0 {
            call(store, "threads.create", json!({ "id": format!("{prefix}{n}") }));
        }
        let text: String = (0..4).map(|_| sentence(random) + " ").collect();
        say(store, &format!("{prefix}{}", n - n % 20), &format!("{prefix}i{n}"), &text);
    }
}

/// The two stores are measured in turns, so that what else the machine does meets both.
#[test]
fn indexing_an_item_and_finding_a_rare_word_cost_the_same_in_a_large_index() {
    let (small, large) = (Store::in_memory().unwrap(), Store::in_memory().unwrap());
    let mut random = Random::new(9);
    fill(&small, "t", 200, &mut random);
    fill(&large, "t", 6_000, &mut random);
    let mut times = [const { Vec::new() }; 4];
    for n in 0..201 {
        let text: String = (0..4).map(|_| sentence(&mut random) + " ").collect();
        for (at, store) in [&small, &large].into_iter().enumerate() {
            times[at].push(timed(|| say(store, "t0", &format!("new{n}"), &format!("{text} rare{n}x"))));
            let query = json!({ "text": format!("rare{n}x") });
            times[2 + at].push(timed(|| assert_eq!(find(store, query).len(), 1)));
        }
    }
    let [index_small, index_large, find_small, find_large] = times.map(median);
    println!("an item: {index_small:?} and {index_large:?}; a search: {find_small:?} and {find_large:?}");
    assert!(index_large < index_small * 3, "an item: {index_small:?} among 200, {index_large:?} among 6,000");
    assert!(find_large < find_small * 3, "a search: {find_small:?} among 200, {find_large:?} among 6,000");
}

/// What a big tenant says all day, a small one says once.
#[test]
fn a_small_tenant_does_not_wait_behind_a_big_one() {
    let plain = Store::in_memory().unwrap();
    let mut random = Random::new(3);
    call(&plain, "tenants.create", json!({ "id": "small" }));
    let small = plain.for_tenant("small");
    fill(&small, "t", 20, &mut random);
    let search = || {
        let times = (0..51)
            .map(|n| timed(|| drop(call(&small, "threads.search", json!({ "text": format!("w{} w{}", n % 40, n % 10) })))));
        median(times.collect())
    };
    let alone = search();
    fill(&plain, "t", 6_000, &mut random);
    let beside = search();
    let big =
        median((0..11).map(|n| timed(|| drop(call(&plain, "threads.search", json!({ "text": format!("w{n} w1") }))))).collect());
    println!("alone {alone:?}, beside a big tenant {beside:?}, which itself takes {big:?}");
    assert!(beside < alone * 3, "{alone:?} alone, {beside:?} beside a big tenant");
}
