//! Threads: the chat side. A thread has turns, a turn has items; beside them the prompt inbox, thread events, usage and blobs.

pub mod blobs;
mod fork;
pub(crate) mod import;
pub mod inbox;
pub mod items;
mod prices;
pub mod search;
mod text;
pub mod thread_events;
pub mod turns;
pub mod usage;

use rusqlite::Row;

use crate::error::{Error, Result};
use crate::executions::Created;
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder, Recent};
use crate::retention::Pass;
use crate::store::{Columns, Tx};
use crate::tenants;

pub use fork::ForkThread;
pub(crate) use fork::fork;
pub use search::Archived;

records! {
    /// A conversation, or whatever else consists of turns and items.
    pub struct Thread {
        pub id: String,
        pub title: Option<String>,
        pub model: Option<String>,
        pub mode: Option<String>,
        pub workspace: Option<String>,
        pub system_prompt: Option<String>,
        pub task_id: Option<String>,
        pub task_type: Option<String>,
        pub archived: bool,
        /// The newest item.
        pub head_item_id: Option<String>,
        pub latest_turn_id: Option<String>,
        /// Unix milliseconds: when the newest message of a person or an assistant was made.
        pub last_message_at: Option<i64>,
        /// Where the thread was forked.
        pub forked_from: Option<ForkedFrom>,
        /// `{}` unless given.
        pub metadata: Json,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds: when the thread, one of its turns or one of its items changed last.
        pub updated_at: i64,
    }
}

kept! {
    /// The point of another thread at which a thread begins: the end of an item, of a turn, or of what the whole thread then was.
    pub struct ForkedFrom {
        pub thread_id: String,
        pub item_id: Option<String>,
        pub turn_id: Option<String>,
    }
}

arguments! {
    /// A new thread; nothing has to be given.
    pub struct CreateThread {
        /// Made by the store unless given. The same id with the same arguments answers the thread that exists.
        pub id: Option<Name>,
        pub title: Option<String>,
        pub model: Option<String>,
        pub mode: Option<String>,
        pub workspace: Option<String>,
        pub system_prompt: Option<String>,
        pub task_id: Option<Name>,
        pub task_type: Option<Name>,
        pub archived: Option<bool>,
        /// Any JSON; `{}` unless given.
        pub metadata: Option<Json> as optional,
    }

    pub struct ThreadId {
        pub id: Name,
    }

    /// What to change of a thread. What is left out stays, null clears.
    pub struct UpdateThread {
        pub id: Name,
        pub title: Option<Option<String>>,
        pub model: Option<Option<String>>,
        pub mode: Option<Option<String>>,
        pub workspace: Option<Option<String>>,
        pub system_prompt: Option<Option<String>>,
        pub task_id: Option<Option<Name>>,
        pub task_type: Option<Option<Name>>,
        pub archived: Option<bool>,
        pub metadata: Option<Option<Json>>,
    }

    /// Which threads to list.
    pub struct ListThreads {
        /// "exclude" unless given.
        pub archived: Option<Archived>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }

    /// Which threads changed last.
    pub struct RecentThreads {
        /// 1 to 200; 50 unless given.
        pub limit: Option<i64>,
        /// "exclude" unless given.
        pub archived: Option<Archived>,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT t.key, t.id, t.title, d.model, d.mode, d.workspace, d.system_prompt, d.task_id, d.task_type, t.archived,
                    t.head_item_id, t.latest_turn_id, t.last_message_at, d.forked_from, d.metadata, t.created_at, t.updated_at, d.thread,
                    t.changed
             FROM threads t LEFT JOIN thread_documents d ON d.thread = t.key ",
            $rest
        )
    };
}

/// An update of the thread ?1 of the tenant ?2 at the time ?3, after which it is the one that changed last.
macro_rules! update {
    ($more:literal) => {
        concat!(
            "UPDATE threads SET updated_at = ?3, changed = 1 + max(
                 coalesce((SELECT changed FROM threads WHERE tenant = ?2 AND archived = 0 ORDER BY changed DESC LIMIT 1), 0),
                 coalesce((SELECT changed FROM threads WHERE tenant = ?2 AND archived = 1 ORDER BY changed DESC LIMIT 1), 0))",
            $more,
            " WHERE key = ?1"
        )
    };
}

fn read(row: &Row<'_>) -> Result<Thread> {
    let columns = Columns::with_id(row, "threads", 1);
    if columns.get::<Option<i64>>(17)?.is_none() {
        return Err(Error::corrupt("threads", &columns.get::<String>(1)?, "its row in thread_documents is missing"));
    }
    Ok(Thread {
        id: columns.get(1)?,
        title: columns.get(2)?,
        model: columns.get(3)?,
        mode: columns.get(4)?,
        workspace: columns.get(5)?,
        system_prompt: columns.get(6)?,
        task_id: columns.get(7)?,
        task_type: columns.get(8)?,
        archived: columns.get(9)?,
        head_item_id: columns.get(10)?,
        latest_turn_id: columns.get(11)?,
        last_message_at: columns.get(12)?,
        forked_from: columns.json(13)?,
        metadata: columns.get::<Option<Json>>(14)?.map_or_else(|| Json::parse("{}"), Ok)?,
        created_at: columns.get(15)?,
        updated_at: columns.get(16)?,
    })
}

fn weigh(thread: &Thread) -> usize {
    let texts = [&thread.title, &thread.workspace, &thread.system_prompt];
    texts.into_iter().flatten().map(String::len).sum::<usize>() + thread.metadata.as_str().len() + 600
}

fn by_key(tx: &Tx<'_>, key: i64) -> Result<Thread> {
    tx.row(select!("WHERE t.key = ?1"), [key], read)?
        .ok_or_else(|| Error::corrupt("threads", &tx.number_of(key).to_string(), "its row is missing"))
}

/// Says that something of this topic changed in a thread.
fn tell(tx: &Tx<'_>, topic: Topic, thread: i64) -> Result<()> {
    if tx.is_heard() {
        let id = tx.row("SELECT id FROM threads WHERE key = ?1", [thread], |row| Ok(row.get::<_, String>(0)?))?;
        // Without its row, whoever reads it is told what is wrong.
        id.map_or_else(|| tx.touch_any(topic), |id| tx.touch(topic, &id));
    }
    Ok(())
}

/// What the parts of a thread need of it.
pub(crate) struct Head {
    pub(crate) key: i64,
    pub(crate) id: Name,
    pub(crate) last_position: i64,
    pub(crate) last_admitted: i64,
}

impl Head {
    pub(crate) fn get(tx: &Tx<'_>, id: &Name) -> Result<Self> {
        let head = tx.row(
            "SELECT key, last_position, last_admitted FROM threads WHERE tenant = ?1 AND id = ?2",
            (tx.tenant, id),
            |row| {
                let columns = Columns::new(row, "threads", id.as_str());
                Ok(Self { key: columns.get(0)?, id: id.clone(), last_position: columns.get(1)?, last_admitted: columns.get(2)? })
            },
        )?;
        head.ok_or_else(|| Error::not_found("thread", id))
    }

    /// The position of a new item, which now is at the end of the thread. `message_at` is when it was made, where it is a message of a
    /// person or an assistant.
    pub(crate) fn give_position(&mut self, tx: &Tx<'_>, item_id: &Name, message_at: Option<i64>) -> Result<i64> {
        tx.touch(Topic::Threads, &self.id);
        self.last_position += 1;
        tx.execute_one(
            update!(", last_position = ?4, head_item_id = ?5, last_message_at = coalesce(?6, last_message_at)"),
            (self.key, tx.tenant, tx.now, self.last_position, item_id, message_at),
        )?;
        Ok(self.last_position)
    }

    /// The number of a new prompt of the inbox. It changes nothing that a thread shows.
    pub(crate) fn give_admitted(&mut self, tx: &Tx<'_>) -> Result<i64> {
        tx.touch(Topic::Inbox, &self.id);
        self.last_admitted += 1;
        tx.execute_one("UPDATE threads SET last_admitted = ?2 WHERE key = ?1", (self.key, self.last_admitted))?;
        Ok(self.last_admitted)
    }

    /// Says which item is at the end of the thread, once the one that was is deleted.
    pub(crate) fn set_end(&self, tx: &Tx<'_>, item_id: Option<&str>) -> Result<()> {
        tx.touch(Topic::Threads, &self.id);
        tx.execute_one(update!(", head_item_id = ?4"), (self.key, tx.tenant, tx.now, item_id))
    }

    /// Says which turn is the newest.
    fn set_latest_turn(&self, tx: &Tx<'_>, turn_id: &str) -> Result<()> {
        tx.execute_one(update!(", latest_turn_id = ?4"), (self.key, tx.tenant, tx.now, turn_id))
    }

    /// Says that something of a thread has changed.
    pub(crate) fn touch(tx: &Tx<'_>, key: i64) -> Result<()> {
        tell(tx, Topic::Threads, key)?;
        tx.execute_one(update!(""), (key, tx.tenant, tx.now))
    }
}

/// What a new thread is made of.
#[derive(Default)]
struct Beginning {
    id: Option<Name>,
    title: Option<String>,
    model: Option<String>,
    mode: Option<String>,
    workspace: Option<String>,
    system_prompt: Option<String>,
    task_id: Option<String>,
    task_type: Option<String>,
    archived: bool,
    metadata: Option<Json>,
    forked_from: Option<ForkedFrom>,
    digest: Option<[u8; 32]>,
}

/// Inserts a thread without turns and items.
fn begin(tx: &Tx<'_>, beginning: Beginning) -> Result<Head> {
    tenants::may_create(tx)?;
    let key = tx.next_key("SELECT key FROM threads WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    let id = beginning.id.map_or_else(|| new_id(tx.now).parse(), Ok)?;
    tx.execute_one(
        "INSERT INTO threads (key, tenant, id, title, archived, created_at, updated_at, changed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, 0)",
        (key, tx.tenant, &id, beginning.title, beginning.archived, tx.now),
    )?;
    Head::touch(tx, key)?;
    tx.execute_one(
        "INSERT INTO thread_documents (thread, model, mode, workspace, system_prompt, task_id, task_type, metadata, forked_from, digest)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        (
            key,
            beginning.model,
            beginning.mode,
            beginning.workspace,
            beginning.system_prompt,
            beginning.task_id,
            beginning.task_type,
            beginning.metadata,
            beginning.forked_from.as_ref().map(|from| Json::of(from)).transpose()?,
            beginning.digest,
        ),
    )?;
    search::index_thread(tx, key)?;
    Ok(Head { key, id, last_position: 0, last_admitted: 0 })
}

/// The thread that a call with this id and digest made before, if there is one; one that another call made is `conflict`.
fn repeated(tx: &Tx<'_>, id: Option<&Name>, digest: Option<[u8; 32]>) -> Result<Option<Thread>> {
    let Some(id) = id else { return Ok(None) };
    let known = tx.row(
        "SELECT t.key, d.digest FROM threads t LEFT JOIN thread_documents d ON d.thread = t.key WHERE t.tenant = ?1 AND t.id = ?2",
        (tx.tenant, id),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<[u8; 32]>>(1)?)),
    )?;
    match known {
        None => Ok(None),
        Some((key, known)) if known.is_some() && known == digest => Ok(Some(by_key(tx, key)?)),
        Some(_) => Err(Error::conflict(format!("there is a thread {:?} already, created with other arguments", id.as_str()))
            .with("id", id.as_str())),
    }
}

fn check_texts(tx: &Tx<'_>, texts: &[(&str, Option<&String>)]) -> Result<()> {
    texts.iter().try_for_each(|(name, text)| tx.text(name, text.map_or(0, |text| text.len())))
}

pub(crate) fn create(tx: &Tx<'_>, arguments: CreateThread) -> Result<Created<Thread>> {
    check_texts(
        tx,
        &[
            ("title", arguments.title.as_ref()),
            ("model", arguments.model.as_ref()),
            ("mode", arguments.mode.as_ref()),
            ("workspace", arguments.workspace.as_ref()),
            ("systemPrompt", arguments.system_prompt.as_ref()),
        ],
    )?;
    tx.document("metadata", arguments.metadata.as_ref())?;
    let digest = arguments.id.is_some().then(|| digest(&arguments)).transpose()?;
    if let Some(record) = repeated(tx, arguments.id.as_ref(), digest)? {
        return Ok(Created { record, created: false });
    }
    let head = begin(
        tx,
        Beginning {
            id: arguments.id,
            title: arguments.title,
            model: arguments.model,
            mode: arguments.mode,
            workspace: arguments.workspace,
            system_prompt: arguments.system_prompt,
            task_id: arguments.task_id.map(|id| id.to_string()),
            task_type: arguments.task_type.map(|name| name.to_string()),
            archived: arguments.archived.unwrap_or(false),
            metadata: arguments.metadata,
            forked_from: None,
            digest,
        },
    )?;
    Ok(Created { record: by_key(tx, head.key)?, created: true })
}

pub(crate) fn get(tx: &Tx<'_>, arguments: ThreadId) -> Result<Option<Thread>> {
    tx.row(select!("WHERE t.tenant = ?1 AND t.id = ?2"), (tx.tenant, &arguments.id), read)
}

/// Changes what is named and nothing else, so that two who change different fields at the same time both have their way.
pub(crate) fn update(tx: &Tx<'_>, changes: UpdateThread) -> Result<Thread> {
    fn text(given: &Option<Option<String>>) -> Option<&String> {
        given.as_ref().and_then(Option::as_ref)
    }
    check_texts(
        tx,
        &[
            ("title", text(&changes.title)),
            ("model", text(&changes.model)),
            ("mode", text(&changes.mode)),
            ("workspace", text(&changes.workspace)),
            ("systemPrompt", text(&changes.system_prompt)),
        ],
    )?;
    tx.document("metadata", changes.metadata.as_ref().and_then(Option::as_ref))?;
    let head = Head::get(tx, &changes.id)?;
    let is_documents = changes.model.is_some()
        || changes.mode.is_some()
        || changes.workspace.is_some()
        || changes.system_prompt.is_some()
        || changes.task_id.is_some()
        || changes.task_type.is_some()
        || changes.metadata.is_some();
    let retitled = changes.title.is_some();
    if is_documents || retitled || changes.archived.is_some() {
        tx.execute_one(
            update!(", title = CASE WHEN ?4 THEN ?5 ELSE title END, archived = coalesce(?6, archived)"),
            (head.key, tx.tenant, tx.now, retitled, changes.title.flatten(), changes.archived),
        )?;
    }
    if is_documents {
        tx.execute_one(
            "UPDATE thread_documents SET model = CASE WHEN ?2 THEN ?3 ELSE model END, mode = CASE WHEN ?4 THEN ?5 ELSE mode END,
                 workspace = CASE WHEN ?6 THEN ?7 ELSE workspace END, system_prompt = CASE WHEN ?8 THEN ?9 ELSE system_prompt END,
                 task_id = CASE WHEN ?10 THEN ?11 ELSE task_id END, task_type = CASE WHEN ?12 THEN ?13 ELSE task_type END,
                 metadata = CASE WHEN ?14 THEN ?15 ELSE metadata END
             WHERE thread = ?1",
            (
                head.key,
                changes.model.is_some(),
                changes.model.flatten(),
                changes.mode.is_some(),
                changes.mode.flatten(),
                changes.workspace.is_some(),
                changes.workspace.flatten(),
                changes.system_prompt.is_some(),
                changes.system_prompt.flatten(),
                changes.task_id.is_some(),
                changes.task_id.flatten(),
                changes.task_type.is_some(),
                changes.task_type.flatten(),
                changes.metadata.is_some(),
                changes.metadata.flatten(),
            ),
        )?;
    }
    if retitled {
        search::index_thread(tx, head.key)?;
    }
    by_key(tx, head.key)
}

pub(crate) fn archive(tx: &Tx<'_>, arguments: ThreadId) -> Result<Thread> {
    set_archived(tx, arguments.id, true)
}

pub(crate) fn unarchive(tx: &Tx<'_>, arguments: ThreadId) -> Result<Thread> {
    set_archived(tx, arguments.id, false)
}

/// Repeating it changes nothing.
fn set_archived(tx: &Tx<'_>, id: Name, archived: bool) -> Result<Thread> {
    match get(tx, ThreadId { id: id.clone() })? {
        Some(thread) if thread.archived == archived => Ok(thread),
        _ => update(tx, UpdateThread { id, archived: Some(archived), ..UpdateThread::default() }),
    }
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListThreads) -> Result<Page<Thread>> {
    let mut page = PageBuilder::unfiltered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let scanned = page.scanned();
    let visit = |row: &Row<'_>| page.visit(tx.number_of(row.get(0)?), read(row), weigh);
    match only(filter.archived) {
        Some(archived) => {
            let sql = match order {
                Order::Asc => {
                    select!("WHERE t.tenant = ?1 AND t.archived = ?2 AND t.key BETWEEN ?3 AND ?4 ORDER BY t.key LIMIT ?5")
                }
                Order::Desc => {
                    select!("WHERE t.tenant = ?1 AND t.archived = ?2 AND t.key BETWEEN ?3 AND ?4 ORDER BY t.key DESC LIMIT ?5")
                }
            };
            tx.walk(sql, (tx.tenant, archived, from, to, scanned), visit)?;
        }
        None => {
            let sql = match order {
                Order::Asc => select!("WHERE t.key BETWEEN ?1 AND ?2 ORDER BY t.key LIMIT ?3"),
                Order::Desc => select!("WHERE t.key BETWEEN ?1 AND ?2 ORDER BY t.key DESC LIMIT ?3"),
            };
            tx.walk(sql, (from, to, scanned), visit)?;
        }
    }
    Ok(page.finish())
}

/// Which of the two kinds of threads is meant; none where both are.
fn only(archived: Option<Archived>) -> Option<bool> {
    match archived.unwrap_or(Archived::Exclude) {
        Archived::Exclude => Some(false),
        Archived::Only => Some(true),
        Archived::Include => None,
    }
}

/// The threads that changed last, newest first.
pub(crate) fn recent(tx: &Tx<'_>, arguments: RecentThreads) -> Result<Recent<Thread>> {
    let limit = page::recent_limit(arguments.limit)?;
    let kinds = only(arguments.archived).map_or(vec![false, true], |archived| vec![archived]);
    let mut keys: Vec<(i64, i64)> = Vec::new();
    for archived in kinds {
        keys.extend(tx.rows(
            "SELECT changed, key FROM threads WHERE tenant = ?1 AND archived = ?2 ORDER BY changed DESC LIMIT ?3",
            (tx.tenant, archived, limit),
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        )?);
    }
    keys.sort_unstable_by(|a, b| b.cmp(a));
    keys.truncate(limit as usize);
    let mut recent = Recent { items: Vec::new(), damaged: Vec::new() };
    for (_, key) in keys {
        recent.push(by_key(tx, key))?;
    }
    Ok(recent)
}

pub(crate) fn delete(tx: &Tx<'_>, arguments: ThreadId) -> Result<()> {
    let head = Head::get(tx, &arguments.id)?;
    remove(tx, head.key)
}

/// Deletes a thread and all that is part of it.
fn remove(tx: &Tx<'_>, key: i64) -> Result<()> {
    search::forget_thread(tx, key)?;
    tx.execute_one("DELETE FROM threads WHERE key = ?1", [key])
}

/// One bounded walk of retention over the threads after the key `after`. What has not changed since the cutoff goes, unless a turn of it
/// waits or runs.
pub(crate) fn prune(tx: &Tx<'_>, cutoff: i64, after: i64, limit: i64) -> Result<Pass> {
    let (first, last) = tx.keys();
    let threads = tx.rows(
        "SELECT key, updated_at, last_position FROM threads WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3",
        (first.max(after.saturating_add(1)), last, limit),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)),
    )?;
    let mut pass = Pass::over(threads.iter().map(|thread| thread.0), limit);
    let (mut items, mut before) = (0, after);
    for (key, updated_at, held) in threads {
        if updated_at > cutoff {
            pass.keep_until(tx.now.saturating_add(updated_at.saturating_sub(cutoff)));
        } else if !turns::is_any_open(tx, key)? {
            // A thread goes whole, and weighs what it holds.
            if items > 0 && items + held > limit {
                pass.last = Some(before);
                pass.looked_at = limit;
                break;
            }
            items += held;
            remove(tx, key)?;
            for topic in [Topic::Threads, Topic::Turns, Topic::ThreadItems, Topic::ThreadEvents, Topic::Inbox] {
                tx.touch_any(topic);
            }
            pass.pruned += 1;
        }
        before = key;
    }
    Ok(pass)
}
