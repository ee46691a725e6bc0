//! Full text search over threads: their titles, and what people and agents have written and tools have put out.
//!
//! An item is indexed when it ends, not while it streams. The index holds words, and a snippet is made from the text itself.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

use rusqlite::Row;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, ErrorCode, Result};
use crate::ids::Name;
use crate::json::Json;
use crate::page::Damaged;
use crate::store::{Columns, Tx};

use super::Head;
use super::items::{ItemKind, ThreadItemStatus};

mod words;

/// How much of an item is indexed, in bytes.
const INDEXED_BYTES: usize = 1024 * 1024;

/// A title's key in the index is its thread's with this bit: above all items, so that titles are seen first.
const TITLE: i64 = 1 << 39;

/// The hits that are ranked: titles, then the newest items. What is said a thousand times a day is not gone through to its beginning.
const RANKED: i64 = 5000;

/// How much of what was typed is looked at, in bytes, and how many of its words are looked for; the rest of a pasted page hardly narrows
/// it.
const TYPED_BYTES: usize = 64 * 1024;
const LOOKED_FOR: usize = 64;

/// About how long a snippet is, and how much of it is before the first match, in characters.
const SNIPPET: usize = 200;
const BEFORE: usize = 50;

/// How many matches in an item are looked at to choose its snippet.
const MATCHES: usize = 500;

words! {
    /// Whether archived threads are meant: with the others, without them, or they alone.
    #[derive(Default)]
    pub enum Archived {
        #[default]
        Exclude = "exclude",
        Include = "include",
        Only = "only",
    }
}

impl Archived {
    fn takes(self, archived: bool) -> bool {
        match self {
            Self::Exclude => !archived,
            Self::Include => true,
            Self::Only => archived,
        }
    }
}

records! {
    /// What a search has found, best first.
    pub struct SearchResults {
        pub items: Vec<SearchHit>,
        /// Whether there is more than `limit` let through.
        pub more: bool,
        /// Rows among them that cannot be read.
        #[cfg_attr(feature = "development", ts(optional, as = "Option<Vec<Damaged>>"))]
        pub damaged: Vec<Damaged> as list,
    }

    /// A title or an item that was found.
    pub struct SearchHit {
        pub thread_id: String,
        pub thread_title: Option<String>,
        /// Whether the thread is archived.
        pub archived: bool,
        /// The item; none where it is the title that was found.
        pub item_id: Option<String>,
        pub turn_id: Option<String>,
        pub kind: Option<ItemKind>,
        /// When the item, or the thread, was created, in Unix milliseconds.
        pub created_at: i64,
        /// Where it was found: plain text in pieces, those that match marked. White space is one space; "…" stands for what was left out.
        pub snippet: Vec<SnippetPart>,
    }

    /// A piece of a snippet: plain text, not HTML.
    pub struct SnippetPart {
        pub text: String,
        /// Whether this is what was looked for.
        #[cfg_attr(feature = "development", ts(rename = "match"))]
        pub is_match: bool as "match",
    }
}

arguments! {
    /// What to look for.
    pub struct SearchThreads {
        /// What somebody has typed. All words have to be there, in any order and spelt with or without accents; of the last one, the
        /// beginning (two letters at least). What is written together ("main.rs", 你好) or in double quotes has to stand together. No other
        /// sign means anything. Without a word nothing is found. Of a long text, the first 64 words count.
        pub text: String,
        /// Only in this thread.
        pub thread_id: Option<Name>,
        /// "exclude" unless given.
        pub archived: Option<Archived>,
        /// 1 to 200; 20 unless given.
        pub limit: Option<i64>,
    }
}

/// What an item puts into the index.
#[derive(Default, PartialEq)]
struct Document {
    message: String,
    output: String,
}

/// What marks a tenant's words. There are so many marks that hardly ever two tenants share one; which of them a hit is of, its key tells.
fn mark(tx: &Tx<'_>) -> char {
    const FIRST: u32 = 0x100;
    const MARKS: i64 = 0xcf00;
    u32::try_from(tx.tenant % MARKS).ok().and_then(|number| char::from_u32(FIRST + number)).unwrap_or('\u{100}')
}

/// The word that all rows of a thread have. No text has it.
fn thread_word(tx: &Tx<'_>, thread: i64) -> String {
    format!("{}§{}", mark(tx), tx.number_of(thread))
}

/// The words of texts, as they are indexed.
fn indexed<'t>(tx: &Tx<'_>, parts: impl IntoIterator<Item = &'t str>) -> String {
    let mark = mark(tx);
    let mut all = String::new();
    for part in parts {
        if !all.is_empty() {
            // What stands together is not in two parts.
            all.push_str(" ¶ ");
        }
        words::words(part, |word, _| {
            all.push(mark);
            all.push_str(word);
            all.push(' ');
            true
        });
    }
    all
}

/// Brings the index up to a thread's title.
pub(crate) fn index_thread(tx: &Tx<'_>, thread: i64) -> Result<()> {
    let title = tx.row("SELECT title FROM threads WHERE key = ?1", [thread], |row| Ok(row.get::<_, Option<String>>(0)?))?;
    let title = title.flatten().unwrap_or_default();
    let words = indexed(tx, [cut(&title, INDEXED_BYTES)]);
    let key = thread | TITLE;
    let known = tx.row("SELECT title FROM search_index WHERE rowid = ?1", [key], |row| Ok(row.get::<_, String>(0)?))?;
    if known.as_deref().unwrap_or_default() == words {
        return Ok(());
    }
    forget(tx, key)?;
    if !words.is_empty() {
        tx.execute_one(
            "INSERT INTO search_index (rowid, thread, title, message, output) VALUES (?1, ?2, ?3, '', '')",
            (key, thread_word(tx, thread), words),
        )?;
    }
    Ok(())
}

/// Brings the index up to an item that has ended, or that changed after it ended.
pub(crate) fn index_item(tx: &Tx<'_>, item: i64) -> Result<()> {
    let row = tx.row(ITEM, [item], |row| {
        let columns = Columns::with_id(row, "thread_items", 0);
        let text: Option<String> = columns.get(6)?;
        let data: Option<Json> = columns.get(7)?;
        let summary: String = columns.get(8)?;
        let kind: ItemKind = columns.get(2)?;
        let wanted = match columns.get::<ThreadItemStatus>(3)? {
            ThreadItemStatus::Queued | ThreadItemStatus::InProgress => Document::default(),
            _ => document(tx, kind, &parts(kind, text.as_deref().unwrap_or_default(), data.as_ref(), &summary)?),
        };
        Ok((columns.get::<i64>(1)?, wanted))
    })?;
    let (thread, wanted) =
        row.ok_or_else(|| Error::corrupt("thread_items", &tx.number_of(item).to_string(), "its row is missing"))?;
    let known = tx.row("SELECT message, output FROM search_index WHERE rowid = ?1", [item], |row| {
        Ok(Document { message: row.get(0)?, output: row.get(1)? })
    })?;
    if known.unwrap_or_default() == wanted {
        return Ok(());
    }
    forget(tx, item)?;
    if wanted != Document::default() {
        tx.execute_one(
            "INSERT INTO search_index (rowid, thread, title, message, output) VALUES (?1, ?2, '', ?3, ?4)",
            (item, thread_word(tx, thread), wanted.message, wanted.output),
        )?;
    }
    Ok(())
}

/// Takes an item out of the index.
pub(crate) fn forget_item(tx: &Tx<'_>, item: i64) -> Result<()> {
    forget(tx, item)
}

/// Takes a thread and its items out of the index.
pub(crate) fn forget_thread(tx: &Tx<'_>, thread: i64) -> Result<()> {
    let (first, last) = tx.keys();
    tx.execute(
        "DELETE FROM search_index WHERE search_index MATCH ?1 AND rowid BETWEEN ?2 AND ?3",
        (quoted(&thread_word(tx, thread)), first, last),
    )?;
    Ok(())
}

fn forget(tx: &Tx<'_>, key: i64) -> Result<()> {
    tx.execute("DELETE FROM search_index WHERE rowid = ?1", [key])?;
    Ok(())
}

const ITEM: &str = "SELECT i.id, i.thread, i.kind, i.status, i.created_at, u.id, c.text, c.data, i.summary
     FROM thread_items i LEFT JOIN item_contents c ON c.item = i.key LEFT JOIN turns u ON u.key = i.turn WHERE i.key = ?1";

/// What an item of this kind puts into the index.
fn document(tx: &Tx<'_>, kind: ItemKind, parts: &[Cow<'_, str>]) -> Document {
    let words = indexed(tx, parts.iter().map(AsRef::as_ref));
    match kind {
        ItemKind::UserMessage | ItemKind::AssistantMessage => Document { message: words, output: String::new() },
        _ => Document { message: String::new(), output: words },
    }
}

/// The texts by which an item is found, in the order in which they are indexed, and no more of them than that.
fn parts<'t>(kind: ItemKind, text: &'t str, data: Option<&Json>, summary: &'t str) -> Result<Vec<Cow<'t, str>>> {
    let (summary, strings) = match kind {
        ItemKind::UserMessage | ItemKind::AssistantMessage => ("", Vec::new()),
        ItemKind::ToolCall | ItemKind::CommandExecution | ItemKind::FileChange | ItemKind::Error => {
            (summary, data.map(Json::to::<Strings>).transpose()?.unwrap_or_default().texts)
        }
        // What an agent thinks to itself, and tells of its progress, is nobody's answer; a compaction repeats what was said.
        ItemKind::Reasoning | ItemKind::Status | ItemKind::ContextCompaction => return Ok(Vec::new()),
    };
    // Often the text's own beginning.
    let summary = if text.contains(summary) { "" } else { summary };
    let mut parts = Vec::new();
    let mut left = INDEXED_BYTES;
    for part in [Cow::Borrowed(text), Cow::Borrowed(summary)].into_iter().chain(strings.into_iter().map(Cow::Owned)) {
        let part = match part {
            Cow::Borrowed(text) => Cow::Borrowed(cut(text, left)),
            Cow::Owned(text) => Cow::Owned(cut(&text, left).to_owned()),
        };
        left -= part.len();
        if !part.is_empty() {
            parts.push(part);
        }
    }
    Ok(parts)
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The strings in a JSON document that a person may have read, in order, as many as are indexed.
#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    bytes: usize,
}

impl<'de> serde::Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut strings = Self::default();
        Collect(&mut strings).deserialize(deserializer)?;
        Ok(strings)
    }
}

/// Collects the strings of one value.
struct Collect<'s>(&'s mut Strings);

impl<'de> DeserializeSeed<'de> for Collect<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Collect<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.0.bytes < INDEXED_BYTES && !is_encoded(text) {
            self.0.bytes += text.len();
            self.0.texts.push(cut(text, INDEXED_BYTES).to_owned());
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(Collect(self.0))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        while array.next_element_seed(Collect(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
}

/// Whether this is bytes written as text, a picture for instance: long, and without a gap.
fn is_encoded(text: &str) -> bool {
    let sample = text.as_bytes().get(256..1024).unwrap_or_default();
    !sample.is_empty() && sample.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_".contains(byte))
}

/// Words that have to stand together.
struct Phrase {
    words: Vec<String>,
    /// Whether the last word may be the beginning of one.
    is_open: bool,
}

/// What somebody has typed.
struct Query(Vec<Phrase>);

impl Query {
    fn parse(text: &str) -> Self {
        let mut phrases = Vec::new();
        let mut count = 0;
        let mut add = |text: &str| {
            let mut phrase = Vec::new();
            words::words(text, |word, _| {
                if count < LOOKED_FOR {
                    count += 1;
                    phrase.push(word.to_owned());
                }
                count < LOOKED_FOR
            });
            if !phrase.is_empty() {
                phrases.push(Phrase { words: phrase, is_open: false });
            }
            count < LOOKED_FOR
        };
        let quotes: Vec<&str> = cut(text, TYPED_BYTES).split('"').collect();
        'text: for (number, piece) in quotes.iter().enumerate() {
            // A quote that nothing closes is a sign like others.
            let is_quoted = number % 2 == 1 && number + 1 < quotes.len();
            if is_quoted {
                if !add(piece) {
                    break;
                }
                continue;
            }
            for chunk in piece.split_whitespace() {
                if !add(chunk) {
                    break 'text;
                }
            }
        }
        if let Some(last) = phrases.last_mut() {
            // By one letter, half of everything would be found; a character that is a word by itself begins no other.
            let is_long_enough = |word: &String| word.chars().nth(1).is_some() && !word.chars().any(words::is_alone);
            last.is_open = last.words.last().is_some_and(is_long_enough);
        }
        Self(phrases)
    }

    /// In the language of FTS5. Nothing in it but words of ours.
    fn expression(&self, tx: &Tx<'_>, thread: Option<i64>) -> String {
        let mark = mark(tx);
        let mut all = thread.map_or_else(String::new, |thread| quoted(&thread_word(tx, thread)));
        for phrase in &self.0 {
            if !all.is_empty() {
                all.push_str(" AND ");
            }
            let words: Vec<_> = phrase.words.iter().map(|word| format!("{mark}{word}")).collect();
            all.push_str(&quoted(&words.join(" ")));
            if phrase.is_open {
                all.push_str(" *");
            }
        }
        all
    }
}

fn quoted(words: &str) -> String {
    format!("\"{words}\"")
}

/// A match in a text, and of which phrase.
struct Match {
    place: Range<usize>,
    phrase: usize,
}

/// The matches of a query in a text, by where they end.
fn matches(query: &Query, text: &str) -> Vec<Match> {
    let mut found = Vec::new();
    // Of each phrase, beginnings that have been seen: how many words, and from where.
    let mut begun: Vec<Vec<(usize, usize)>> = query.0.iter().map(|_| Vec::new()).collect();
    words::words(text, |word, place| {
        for (number, (phrase, begun)) in query.0.iter().zip(&mut begun).enumerate() {
            begun.push((0, place.start));
            begun.retain_mut(|(seen, start)| {
                let is_last = *seen + 1 == phrase.words.len();
                let wanted = &phrase.words[*seen];
                if word != wanted && !(is_last && phrase.is_open && word.starts_with(wanted.as_str())) {
                    return false;
                }
                *seen += 1;
                if is_last {
                    found.push(Match { place: *start..place.end, phrase: number });
                }
                !is_last
            });
        }
        found.len() < MATCHES
    });
    found
}

/// The place of a text where most of what was looked for is close together.
fn snippet(query: &Query, parts: &[Cow<'_, str>]) -> Vec<SnippetPart> {
    // The first of the parts, unless another has more of the phrases.
    let mut best: (u32, &str, Vec<Match>, usize) = (0, parts.first().map_or("", AsRef::as_ref), Vec::new(), 0);
    for part in parts {
        let found = matches(query, part);
        let (mut count, mut at) = (0, 0);
        for (number, first) in found.iter().enumerate() {
            let close = found[number..].iter().take_while(|next| next.place.end <= first.place.start + SNIPPET - BEFORE);
            let different = close.fold(0u64, |seen, next| seen | 1 << next.phrase).count_ones();
            if different > count {
                (count, at) = (different, first.place.start);
            }
        }
        if count > best.0 {
            best = (count, part, found, at);
        }
    }
    let (_, text, found, at) = best;
    let place = surroundings(text, at);
    let mut marked: Vec<_> =
        found.into_iter().map(|found| found.place).filter(|found| found.start >= place.start && found.end <= place.end).collect();
    marked.sort_by_key(|found| (found.start, found.end));
    let mut pieces = Pieces::default();
    if place.start > 0 {
        pieces.push("…", false);
    }
    let mut done = place.start;
    for found in marked {
        let start = found.start.max(done);
        pieces.push(&text[done..start], false);
        pieces.push(&text[start..found.end.max(start)], true);
        done = found.end.max(start);
    }
    pieces.push(&text[done..place.end], false);
    if place.end < text.len() {
        pieces.push("…", false);
    }
    pieces.0
}

/// What of a text is shown around a match at `at`.
fn surroundings(text: &str, at: usize) -> Range<usize> {
    let back = text[..at].char_indices().rev().take(BEFORE);
    let mut start = back.last().map_or(at, |(start, _)| start);
    if start > 0 {
        // At a word's beginning, where there is one.
        start = text[start..at].find(char::is_whitespace).map_or(start, |gap| start + gap);
    }
    let end = text[start..].char_indices().nth(SNIPPET).map_or(text.len(), |(end, _)| start + end);
    if end == text.len() {
        return start..end;
    }
    let gap = text[start..end].rfind(char::is_whitespace).map(|gap| start + gap).filter(|gap| *gap > at);
    start..gap.unwrap_or(end)
}

/// A snippet in the making.
#[derive(Default)]
struct Pieces(Vec<SnippetPart>);

impl Pieces {
    fn push(&mut self, text: &str, is_match: bool) {
        for c in text.chars() {
            let is_gap = c.is_whitespace() || c.is_control();
            let last = self.0.last().map_or(' ', |part| part.text.chars().next_back().unwrap_or(' '));
            if is_gap && last == ' ' {
                continue;
            }
            let c = if is_gap { ' ' } else { c };
            match self.0.last_mut() {
                Some(part) if part.is_match == is_match => part.text.push(c),
                _ => self.0.push(SnippetPart { text: c.to_string(), is_match }),
            }
        }
    }
}

/// The thread of a hit.
struct FoundThread {
    id: String,
    title: Option<String>,
    archived: bool,
    created_at: i64,
}

pub(crate) fn search(tx: &Tx<'_>, arguments: SearchThreads) -> Result<SearchResults> {
    let limit = match arguments.limit.unwrap_or(20) {
        limit @ 1..=200 => usize::try_from(limit).unwrap_or_default(),
        other => return Err(Error::invalid(format!("limit must be 1 to 200, not {other}")).with("path", "limit")),
    };
    let thread = arguments.thread_id.as_ref().map(|id| Ok::<_, Error>(Head::get(tx, id)?.key)).transpose()?;
    let query = Query::parse(&arguments.text);
    let mut results = SearchResults { items: Vec::new(), more: false, damaged: Vec::new() };
    if query.0.is_empty() {
        return Ok(results);
    }
    let (first, last) = tx.keys();
    // A title says what all of its thread is about, and what a tool put out is often long and by the way.
    let mut hits = tx.rows(
        "SELECT rowid, bm25(search_index, 0.0, 8.0, 2.0, 1.0) FROM search_index
         WHERE search_index MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid DESC LIMIT ?4",
        (query.expression(tx, thread), first, last, RANKED),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?)),
    )?;
    // The best has the smallest; of equals, the newest comes first, as they came.
    hits.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal));
    let archived = arguments.archived.unwrap_or_default();
    let mut threads = Vec::new();
    for (key, _) in hits {
        let hit = match hit(tx, key, &query, archived, &mut threads) {
            Ok(Some(hit)) => hit,
            Ok(None) => continue,
            Err(error) if error.code() == ErrorCode::Corrupt => {
                results.damaged.push(Damaged::from(&error));
                continue;
            }
            Err(error) => return Err(error),
        };
        if results.items.len() == limit {
            results.more = true;
            break;
        }
        results.items.push(hit);
    }
    Ok(results)
}

/// What was found under a key of the index; none where its thread is not asked for.
fn hit(
    tx: &Tx<'_>,
    key: i64,
    query: &Query,
    archived: Archived,
    threads: &mut Vec<(i64, FoundThread)>,
) -> Result<Option<SearchHit>> {
    let missing = || Error::corrupt("search_index", &tx.number_of(key).to_string(), "what it is of is missing");
    if key & TITLE != 0 {
        let thread = found_thread(tx, key & !TITLE, threads)?.ok_or_else(missing)?;
        let title = thread.title.as_deref().unwrap_or_default();
        return Ok(archived
            .takes(thread.archived)
            .then(|| SearchHit { snippet: snippet(query, &[Cow::Borrowed(cut(title, INDEXED_BYTES))]), ..thread.hit() }));
    }
    let thread = tx.row("SELECT thread FROM thread_items WHERE key = ?1", [key], |row| Ok(row.get::<_, i64>(0)?))?;
    let thread = found_thread(tx, thread.ok_or_else(missing)?, threads)?.ok_or_else(missing)?;
    if !archived.takes(thread.archived) {
        return Ok(None);
    }
    let read = |row: &Row<'_>| {
        let columns = Columns::with_id(row, "thread_items", 0);
        let kind: ItemKind = columns.get(2)?;
        let text: Option<String> = columns.get(6)?;
        let data: Option<Json> = columns.get(7)?;
        let summary: String = columns.get(8)?;
        Ok(SearchHit {
            item_id: Some(columns.get(0)?),
            turn_id: columns.get(5)?,
            kind: Some(kind),
            created_at: columns.get(4)?,
            snippet: snippet(query, &parts(kind, text.as_deref().unwrap_or_default(), data.as_ref(), &summary)?),
            ..thread.hit()
        })
    };
    tx.row(ITEM, [key], read)
}

fn found_thread<'t>(tx: &Tx<'_>, key: i64, threads: &'t mut Vec<(i64, FoundThread)>) -> Result<Option<&'t FoundThread>> {
    if let Some(at) = threads.iter().position(|(known, _)| *known == key) {
        return Ok(Some(&threads[at].1));
    }
    let thread = tx.row("SELECT id, title, archived, created_at FROM threads WHERE key = ?1", [key], |row| {
        let columns = Columns::with_id(row, "threads", 0);
        Ok(FoundThread { id: columns.get(0)?, title: columns.get(1)?, archived: columns.get(2)?, created_at: columns.get(3)? })
    })?;
    threads.extend(thread.map(|thread| (key, thread)));
    Ok(threads.last().filter(|(last, _)| *last == key).map(|(_, thread)| thread))
}

impl FoundThread {
    /// A hit in this thread.
    fn hit(&self) -> SearchHit {
        SearchHit {
            thread_id: self.id.clone(),
            thread_title: self.title.clone(),
            archived: self.archived,
            item_id: None,
            turn_id: None,
            kind: None,
            created_at: self.created_at,
            snippet: Vec::new(),
        }
    }
}
