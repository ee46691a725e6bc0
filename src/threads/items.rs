//! Items: what a thread is made of, in the order in which they were made.

use std::collections::BTreeMap;

use rusqlite::Row;

use super::{search, text, turns};
use crate::error::{Error, ErrorCode, Result};
use crate::executions::Created;
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Columns, Tx};
use crate::tenants;

pub use text::{AppendText, NewText, Piece, ReadText, TextLength};
pub(crate) use text::{append as append_text, read as read_text};

words! {
    /// What an item is.
    #[derive(Default)]
    pub enum ItemKind {
        #[default]
        UserMessage = "user_message",
        AssistantMessage = "assistant_message",
        Reasoning = "reasoning",
        ToolCall = "tool_call",
        FileChange = "file_change",
        CommandExecution = "command_execution",
        ContextCompaction = "context_compaction",
        Status = "status",
        Error = "error",
    }

    /// Where an item stands. The last four are its end: nothing leaves them.
    pub enum ThreadItemStatus {
        Queued = "queued",
        InProgress = "in_progress",
        Completed = "completed",
        Failed = "failed",
        Interrupted = "interrupted",
        Cancelled = "cancelled",
    }
}

impl ItemKind {
    /// Whether it is part of the conversation, which the thread's `lastMessageAt` tells the time of.
    fn is_message(self) -> bool {
        matches!(self, Self::UserMessage | Self::AssistantMessage)
    }

    /// Where an item begins: what is whole as it comes is complete, the rest is still to be made.
    fn first_status(self, text: &str) -> ThreadItemStatus {
        match self {
            Self::UserMessage | Self::Status | Self::Error => ThreadItemStatus::Completed,
            Self::AssistantMessage | Self::Reasoning if !text.is_empty() => ThreadItemStatus::Completed,
            _ => ThreadItemStatus::Queued,
        }
    }
}

impl ThreadItemStatus {
    /// Whether the item has ended.
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::InProgress)
    }

    /// Whether an item may go from here to `to`. Setting the same status again changes nothing and is fine.
    pub fn may_become(self, to: Self) -> bool {
        match self {
            Self::Queued => to != Self::Queued,
            Self::InProgress => to.is_ended(),
            _ => false,
        }
    }
}

records! {
    /// Something in a thread: a message, a call of a tool, a change of files.
    pub struct ThreadItem {
        pub id: String,
        pub thread_id: String,
        pub turn_id: Option<String>,
        pub parent_id: Option<String>,
        /// 1, 2, 3 … within the thread, in the order in which items were made. A deleted item's is not given again.
        pub position: i64,
        pub kind: ItemKind,
        pub status: ThreadItemStatus,
        pub summary: String,
        /// What a person reads, with what has streamed in so far.
        pub text: String,
        /// What programs read: a tool's input and output.
        pub data: Option<Json>,
        pub metadata: Option<Json>,
        pub blobs: Vec<BlobReference>,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds: when it came to be in progress.
        pub started_at: Option<i64>,
        /// Unix milliseconds.
        pub ended_at: Option<i64>,
    }
}

arguments! {
    /// A blob that an item has to do with.
    #[derive(PartialEq)]
    pub struct BlobReference {
        pub blob_id: Name,
        /// What it is called here.
        pub name: Option<Name>,
    }

    /// A new item, at the end of its thread.
    pub struct CreateItem {
        /// Made by the store unless given. The same id with the same arguments answers the item that exists.
        pub id: Option<Name>,
        pub thread_id: Name,
        /// A turn of the thread.
        pub turn_id: Option<Name>,
        /// The item that this one belongs to, one of the same thread.
        pub parent_id: Option<Name>,
        pub kind: ItemKind,
        /// Unless given, `completed` for what is whole as it comes (a `user_message`, `status` or `error`, and an `assistant_message` or
        /// `reasoning` with a text), and `queued` for what is still to be made.
        pub status: Option<ThreadItemStatus>,
        pub summary: Option<String>,
        pub text: Option<String>,
        pub data: Option<Json>,
        pub metadata: Option<Json>,
        pub blobs: Option<Vec<BlobReference>>,
    }

    /// An item to insert, or to bring up to what is named.
    pub struct PutItem {
        pub id: Name,
        /// Needed for a new item; that of an item that exists cannot change.
        pub thread_id: Option<Name>,
        /// That of an item that exists cannot change.
        pub turn_id: Option<Name>,
        /// Needed for a new item; that of an item that exists cannot change.
        pub kind: Option<ItemKind>,
        pub parent_id: Option<Option<Name>>,
        pub status: Option<ThreadItemStatus>,
        pub summary: Option<String>,
        pub text: Option<String>,
        pub data: Option<Option<Json>>,
        pub metadata: Option<Option<Json>>,
        pub blobs: Option<Option<Vec<BlobReference>>>,
    }

    /// What to change of an item. What is left out stays; null clears.
    pub struct UpdateItem {
        pub id: Name,
        pub parent_id: Option<Option<Name>>,
        pub status: Option<ThreadItemStatus>,
        pub summary: Option<String>,
        /// In the place of the whole text, of what has streamed in too. Who follows the text learns of one that does not begin with it by a
        /// `conflict`.
        pub text: Option<String>,
        pub data: Option<Option<Json>>,
        pub metadata: Option<Option<Json>>,
        pub blobs: Option<Option<Vec<BlobReference>>>,
    }

    pub struct ThreadItemId {
        pub id: Name,
    }

    /// Which items to list: those of a thread, or of a turn.
    pub struct ListThreadItems {
        pub thread_id: Option<Name>,
        pub turn_id: Option<Name>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

/// The narrow part of an item's row: what streaming and changing it need.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) key: i64,
    id: String,
    pub(super) thread: i64,
    pub(super) status: ThreadItemStatus,
}

impl Head {
    fn find(tx: &Tx<'_>, id: &Name) -> Result<Option<Self>> {
        tx.row("SELECT key, id, thread, status FROM thread_items WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), Self::read)
    }

    pub(super) fn get(tx: &Tx<'_>, id: &Name) -> Result<Self> {
        Self::find(tx, id)?.ok_or_else(|| Error::not_found("item", id))
    }

    fn read(row: &Row<'_>) -> Result<Self> {
        let columns = Columns::with_id(row, "thread_items", 1);
        Ok(Self { key: columns.get(0)?, id: columns.get(1)?, thread: columns.get(2)?, status: columns.get(3)? })
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT i.key, i.id, t.id, u.id, i.parent_id, i.position, i.kind, i.status, i.summary, c.text, c.data, c.metadata, c.blobs,
                    i.created_at, i.started_at, i.ended_at, i.turn
             FROM thread_items i
             LEFT JOIN threads t ON t.key = i.thread
             LEFT JOIN turns u ON u.key = i.turn
             LEFT JOIN item_contents c ON c.item = i.key ",
            $rest
        )
    };
}

pub(super) fn without_contents(id: &str) -> Error {
    Error::corrupt("thread_items", id, "its row in item_contents is missing")
}

fn read(tx: &Tx<'_>, row: &Row<'_>) -> Result<ThreadItem> {
    let columns = Columns::with_id(row, "thread_items", 1);
    let id: String = columns.get(1)?;
    let thread_id: Option<String> = columns.get(2)?;
    let turn_id: Option<String> = columns.get(3)?;
    if turn_id.is_none() && columns.get::<Option<i64>>(16)?.is_some() {
        return Err(Error::corrupt("thread_items", &id, "its turn is missing"));
    }
    let status = columns.get(7)?;
    let text: String = columns.get::<Option<String>>(9)?.ok_or_else(|| without_contents(&id))?;
    let text = match status {
        ThreadItemStatus::InProgress => text::with_deltas(tx, columns.get(0)?, &id, text)?,
        _ => text,
    };
    Ok(ThreadItem {
        thread_id: thread_id.ok_or_else(|| Error::corrupt("thread_items", &id, "its thread is missing"))?,
        turn_id,
        id,
        parent_id: columns.get(4)?,
        position: columns.get(5)?,
        kind: columns.get(6)?,
        status,
        summary: columns.get(8)?,
        text,
        data: columns.get(10)?,
        metadata: columns.get(11)?,
        blobs: columns.json(12)?.unwrap_or_default(),
        created_at: columns.get(13)?,
        started_at: columns.get(14)?,
        ended_at: columns.get(15)?,
    })
}

fn by_key(tx: &Tx<'_>, key: i64) -> Result<ThreadItem> {
    tx.row(select!("WHERE i.key = ?1"), [key], |row| read(tx, row))?
        .ok_or_else(|| Error::corrupt("thread_items", &tx.number_of(key).to_string(), "its row is missing"))
}

/// What a caller gives for an item, checked. `None` is what is left out, and `Some(None)` clears.
#[derive(Default)]
struct Changes {
    parent_id: Option<Option<Name>>,
    status: Option<ThreadItemStatus>,
    summary: Option<String>,
    text: Option<String>,
    data: Option<Option<Json>>,
    metadata: Option<Option<Json>>,
    blobs: Option<Option<Json>>,
}

impl Changes {
    fn checked(tx: &Tx<'_>, given: UpdateItem) -> Result<Self> {
        for (name, text) in [("summary", &given.summary), ("text", &given.text)] {
            tx.text(name, text.as_ref().map_or(0, String::len))?;
        }
        for (name, document) in [("data", &given.data), ("metadata", &given.metadata)] {
            tx.document(name, document.as_ref().and_then(Option::as_ref))?;
        }
        let blobs = match given.blobs {
            Some(Some(blobs)) if !blobs.is_empty() => Some(Some(Json::of(&blobs)?)),
            other => other.map(|_| None),
        };
        tx.document("blobs", blobs.as_ref().and_then(Option::as_ref))?;
        Ok(Self {
            parent_id: given.parent_id,
            status: given.status,
            summary: given.summary,
            text: given.text,
            data: given.data,
            metadata: given.metadata,
            blobs,
        })
    }

    fn is_empty(&self) -> bool {
        let Self { parent_id, status, summary, text, data, metadata, blobs } = self;
        parent_id.is_none()
            && status.is_none()
            && summary.is_none()
            && text.is_none()
            && data.is_none()
            && metadata.is_none()
            && blobs.is_none()
    }
}

/// An item's row as it is inserted.
struct NewItem {
    id: String,
    turn: Option<i64>,
    parent_id: Option<String>,
    kind: ItemKind,
    status: ThreadItemStatus,
    summary: String,
    text: String,
    data: Option<Json>,
    metadata: Option<Json>,
    blobs: Option<Json>,
    digest: Option<[u8; 32]>,
    created_at: i64,
    started_at: Option<i64>,
    ended_at: Option<i64>,
}

/// Inserts an item at the end of a thread. Answers its key.
fn insert(tx: &Tx<'_>, thread: &mut super::Head, item: &NewItem) -> Result<i64> {
    let message_at = item.kind.is_message().then_some(item.created_at);
    tx.touch(Topic::ThreadItems, &thread.id);
    let position = thread.give_position(tx, &item.id.parse()?, message_at)?;
    let key = tx.next_key("SELECT key FROM thread_items WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO thread_items (key, tenant, id, thread, turn, parent_id, position, kind, status, summary, created_at, started_at, ended_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        (
            key,
            tx.tenant,
            &item.id,
            thread.key,
            item.turn,
            &item.parent_id,
            position,
            item.kind,
            item.status,
            &item.summary,
            item.created_at,
            item.started_at,
            item.ended_at,
        ),
    )?;
    tx.execute_one(
        "INSERT INTO item_contents (item, length, text, data, metadata, blobs, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (key, text::length(&item.text), &item.text, &item.data, &item.metadata, &item.blobs, item.digest),
    )?;
    if item.status.is_ended() {
        search::index_item(tx, key)?;
    }
    Ok(key)
}

/// The turn that an item is said to belong to, which must be one of its thread.
fn turn_of(tx: &Tx<'_>, thread: &super::Head, id: Option<&Name>) -> Result<Option<turns::Head>> {
    let Some(id) = id else { return Ok(None) };
    let turn = turns::Head::get(tx, id)?;
    if turn.thread == thread.key {
        return Ok(Some(turn));
    }
    let message = format!("the turn {:?} is not one of the thread {:?}", id.as_str(), thread.id.as_str());
    Err(Error::conflict(message).with("path", "turnId").with("turnId", id.as_str()).with("threadId", thread.id.as_str()))
}

/// The item that another one is said to belong to must be one of its thread, and not itself.
fn check_parent(tx: &Tx<'_>, thread: i64, id: Option<&str>, parent: &Name) -> Result<()> {
    let problem = if id == Some(parent) {
        Error::invalid(format!("the item {:?} cannot belong to itself", parent.as_str()))
    } else {
        match Head::find(tx, parent)? {
            Some(known) if known.thread == thread => return Ok(()),
            Some(_) => Error::conflict(format!("parentId {:?} is an item of another thread", parent.as_str())),
            None => Error::not_found("item", parent),
        }
    };
    Err(problem.with("path", "parentId").with("parentId", parent.as_str()))
}

fn add(
    tx: &Tx<'_>,
    id: Option<&Name>,
    thread_id: &Name,
    turn_id: Option<&Name>,
    kind: ItemKind,
    changes: Changes,
    digest: Option<[u8; 32]>,
) -> Result<Created<ThreadItem>> {
    let mut thread = super::Head::get(tx, thread_id)?;
    let turn = turn_of(tx, &thread, turn_id)?;
    if let Some(Some(parent)) = &changes.parent_id {
        check_parent(tx, thread.key, id.map(Name::as_str), parent)?;
    }
    // What a running turn brings is recorded, whatever becomes of the tenant meanwhile.
    if turn.as_ref().is_none_or(|turn| turn.status != turns::TurnStatus::InProgress) {
        tenants::may_create(tx)?;
    }
    let text = changes.text.unwrap_or_default();
    let status = changes.status.unwrap_or_else(|| kind.first_status(&text));
    let item = NewItem {
        id: id.map_or_else(|| new_id(tx.now), Name::to_string),
        turn: turn.map(|turn| turn.key),
        parent_id: changes.parent_id.flatten().map(|id| id.to_string()),
        kind,
        status,
        summary: changes.summary.unwrap_or_default(),
        text,
        data: changes.data.flatten(),
        metadata: changes.metadata.flatten(),
        blobs: changes.blobs.flatten(),
        digest,
        created_at: tx.now,
        started_at: (status == ThreadItemStatus::InProgress).then_some(tx.now),
        ended_at: status.is_ended().then_some(tx.now),
    };
    let key = insert(tx, &mut thread, &item)?;
    Ok(Created { record: by_key(tx, key)?, created: true })
}

pub(crate) fn create(tx: &Tx<'_>, arguments: CreateItem) -> Result<Created<ThreadItem>> {
    let digest = arguments.id.is_some().then(|| digest(&arguments)).transpose()?;
    let CreateItem { id, thread_id, turn_id, parent_id, kind, status, summary, text, data, metadata, blobs } = arguments;
    let changes = UpdateItem {
        id: Name::default(),
        parent_id: parent_id.map(Some),
        status,
        summary,
        text,
        data: data.map(Some),
        metadata: metadata.map(Some),
        blobs: blobs.map(Some),
    };
    let changes = Changes::checked(tx, changes)?;
    if let Some(id) = &id {
        let known = tx.row(
            "SELECT i.key, c.digest FROM thread_items i LEFT JOIN item_contents c ON c.item = i.key WHERE i.tenant = ?1 AND i.id = ?2",
            (tx.tenant, id),
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<[u8; 32]>>(1)?)),
        )?;
        match known {
            None => {}
            Some((key, known)) if known.is_some() && known == digest => {
                return Ok(Created { record: by_key(tx, key)?, created: false });
            }
            Some(_) => {
                let message = format!("there is an item {:?} already, created with other arguments", id.as_str());
                return Err(Error::conflict(message).with("id", id.as_str()));
            }
        }
    }
    add(tx, id.as_ref(), &thread_id, turn_id.as_ref(), kind, changes, digest)
}

pub(crate) fn put(tx: &Tx<'_>, arguments: PutItem) -> Result<Created<ThreadItem>> {
    let PutItem { id, thread_id, turn_id, kind, parent_id, status, summary, text, data, metadata, blobs } = arguments;
    let changes = UpdateItem { id: id.clone(), parent_id, status, summary, text, data, metadata, blobs };
    let changes = Changes::checked(tx, changes)?;
    if let Some(item) = Head::find(tx, &id)? {
        let known = by_key(tx, item.key)?;
        let differs = |name: &str, is: Option<&str>, given: Option<&str>| match given {
            Some(given) if is != Some(given) => {
                let has = is.map_or_else(|| format!("no {name}"), |is| format!("the {name} {is:?}"));
                let message = format!("the item {:?} has {has}, which cannot become {given:?}", id.as_str());
                Err(Error::conflict(message).with("id", id.as_str()).with("path", name))
            }
            _ => Ok(()),
        };
        differs("threadId", Some(&known.thread_id), thread_id.as_deref())?;
        differs("turnId", known.turn_id.as_deref(), turn_id.as_deref())?;
        differs("kind", Some(known.kind.as_str()), kind.map(ItemKind::as_str))?;
        apply(tx, &item, changes)?;
        return Ok(Created { record: by_key(tx, item.key)?, created: false });
    }
    let missing = |name: &str| {
        let message = format!("there is no item {:?} yet, and a new one needs a {name}", id.as_str());
        Error::invalid(message).with("path", name)
    };
    let thread_id = thread_id.ok_or_else(|| missing("threadId"))?;
    let kind = kind.ok_or_else(|| missing("kind"))?;
    add(tx, Some(&id), &thread_id, turn_id.as_ref(), kind, changes, None)
}

pub(crate) fn get(tx: &Tx<'_>, arguments: ThreadItemId) -> Result<Option<ThreadItem>> {
    tx.row(select!("WHERE i.tenant = ?1 AND i.id = ?2"), (tx.tenant, &arguments.id), |row| read(tx, row))
}

pub(crate) fn update(tx: &Tx<'_>, arguments: UpdateItem) -> Result<ThreadItem> {
    let item = Head::get(tx, &arguments.id)?;
    apply(tx, &item, Changes::checked(tx, arguments)?)?;
    by_key(tx, item.key)
}

fn apply(tx: &Tx<'_>, item: &Head, mut changes: Changes) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let status = changes.status.unwrap_or(item.status);
    if status != item.status && !item.status.may_become(status) {
        let message = format!("the item {:?} is {} and cannot become {}", item.id, item.status.as_str(), status.as_str());
        return Err(Error::new(ErrorCode::InvalidTransition, message)
            .with("id", item.id.as_str())
            .with("from", item.status.as_str())
            .with("to", status.as_str()));
    }
    if let Some(Some(parent)) = &changes.parent_id {
        // One that has been deleted since may be given again.
        let is_new = tx.row("SELECT parent_id FROM thread_items WHERE key = ?1", [item.key], |row| {
            Ok(row.get::<_, Option<String>>(0)?.as_deref() != Some(parent))
        })?;
        if is_new == Some(true) {
            check_parent(tx, item.thread, Some(&item.id), parent)?;
        }
    }
    let ends = status.is_ended() && !item.status.is_ended();
    let replaces = changes.text.is_some();
    if ends && !replaces {
        changes.text = text::streamed(tx, item.key, &item.id)?;
    }
    let is_another = changes.text.as_ref().is_some_and(|text| replaces && !text::goes_on(tx, item.key, &item.id, text));
    if replaces || changes.text.is_some() {
        text::forget_deltas(tx, item.key)?;
    }
    let is_indexed = replaces || changes.data.is_some() || changes.summary.is_some();
    if status != item.status || changes.summary.is_some() || changes.parent_id.is_some() {
        tx.execute_one(
            "UPDATE thread_items SET status = ?2, summary = coalesce(?3, summary), parent_id = CASE WHEN ?4 THEN ?5 ELSE parent_id END,
                    started_at = coalesce(?6, started_at), ended_at = coalesce(?7, ended_at)
             WHERE key = ?1",
            (
                item.key,
                status,
                &changes.summary,
                changes.parent_id.is_some(),
                changes.parent_id.flatten(),
                (status == ThreadItemStatus::InProgress && status != item.status).then_some(tx.now),
                ends.then_some(tx.now),
            ),
        )?;
    }
    if changes.text.is_some() || changes.data.is_some() || changes.metadata.is_some() || changes.blobs.is_some() {
        tx.execute_one(
            "UPDATE item_contents SET length = coalesce(?2, length), text = coalesce(?3, text),
                    data = CASE WHEN ?4 THEN ?5 ELSE data END, metadata = CASE WHEN ?6 THEN ?7 ELSE metadata END,
                    blobs = CASE WHEN ?8 THEN ?9 ELSE blobs END, replaced = replaced + ?10
             WHERE item = ?1",
            (
                item.key,
                changes.text.as_deref().map(text::length),
                &changes.text,
                changes.data.is_some(),
                changes.data.flatten(),
                changes.metadata.is_some(),
                changes.metadata.flatten(),
                changes.blobs.is_some(),
                changes.blobs.flatten(),
                is_another,
            ),
        )?;
    }
    if ends || (is_indexed && status.is_ended()) {
        search::index_item(tx, item.key)?;
    }
    super::tell(tx, Topic::ThreadItems, item.thread)?;
    super::Head::touch(tx, item.thread)
}

/// The first text has come in for a queued item.
pub(super) fn begin(tx: &Tx<'_>, item: &Head) -> Result<()> {
    apply(tx, item, Changes { status: Some(ThreadItemStatus::InProgress), ..Changes::default() })
}

/// Deletes an item. The thread ends with the one before it.
pub(crate) fn delete(tx: &Tx<'_>, arguments: ThreadItemId) -> Result<()> {
    let item = Head::get(tx, &arguments.id)?;
    let thread: Option<String> =
        tx.row("SELECT t.id FROM thread_items i JOIN threads t ON t.key = i.thread WHERE i.key = ?1", [item.key], |row| {
            Columns::new(row, "threads", tx.number_of(item.thread).to_string()).get(0)
        })?;
    let thread = thread.ok_or_else(|| Error::corrupt("thread_items", &item.id, "its thread is missing"))?;
    search::forget_item(tx, item.key)?;
    tx.touch(Topic::ThreadItems, &thread);
    tx.execute_one("DELETE FROM thread_items WHERE key = ?1", [item.key])?;
    let last: Option<String> =
        tx.row("SELECT id FROM thread_items WHERE thread = ?1 ORDER BY position DESC LIMIT 1", [item.thread], |row| {
            Columns::with_id(row, "thread_items", 0).get(0)
        })?;
    super::Head::get(tx, &thread.parse()?)?.set_end(tx, last.as_deref())
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListThreadItems) -> Result<Page<ThreadItem>> {
    let limit = page::limit(filter.limit)?;
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::sequences(filter.cursor.as_deref(), order)?;
    let thread = filter.thread_id.as_ref().map(|id| super::Head::get(tx, id)).transpose()?;
    let turn = filter.turn_id.as_ref().map(|id| turns::Head::get(tx, id)).transpose()?;
    let mut page = PageBuilder::unfiltered(limit);
    let (of, sql) = match (thread, turn) {
        (None, None) => {
            return Err(Error::invalid("threadId is missing; give it, or turnId: items are in order within a thread")
                .with("path", "threadId"));
        }
        (Some(thread), Some(turn)) if turn.thread != thread.key => return Ok(page.finish()),
        (_, Some(turn)) => match order {
            Order::Asc => (turn.key, select!("WHERE i.turn = ?1 AND i.position BETWEEN ?2 AND ?3 ORDER BY i.position LIMIT ?4")),
            Order::Desc => {
                (turn.key, select!("WHERE i.turn = ?1 AND i.position BETWEEN ?2 AND ?3 ORDER BY i.position DESC LIMIT ?4"))
            }
        },
        (Some(thread), None) => match order {
            Order::Asc => {
                (thread.key, select!("WHERE i.thread = ?1 AND i.position BETWEEN ?2 AND ?3 ORDER BY i.position LIMIT ?4"))
            }
            Order::Desc => {
                (thread.key, select!("WHERE i.thread = ?1 AND i.position BETWEEN ?2 AND ?3 ORDER BY i.position DESC LIMIT ?4"))
            }
        },
    };
    tx.walk(sql, (of, from, to, page.scanned()), |row| {
        let position: i64 = row.get(5)?;
        page.visit(position, read(tx, row), weigh)
    })?;
    Ok(page.finish())
}

fn weigh(item: &ThreadItem) -> usize {
    let bytes = |document: &Option<Json>| document.as_ref().map_or(0, |document| document.as_str().len());
    item.text.len() + item.summary.len() + bytes(&item.data) + bytes(&item.metadata) + 100 * item.blobs.len() + 400
}

/// Copies the items of a thread up to a position into another one, in their order; what is open there is interrupted here. `turns` are the
/// keys of turns of the one, with those of their copies.
pub(crate) fn copy(
    tx: &Tx<'_>,
    from: &super::Head,
    to: &mut super::Head,
    through_position: i64,
    turns: &[(i64, i64)],
) -> Result<()> {
    let mut copies: BTreeMap<String, String> = BTreeMap::new();
    let mut after = 0;
    loop {
        // One at a time: a thread may hold more than fits in memory.
        let next = tx.row(
            select!("WHERE i.thread = ?1 AND i.position BETWEEN ?2 AND ?3 ORDER BY i.position LIMIT 1"),
            (from.key, after + 1, through_position),
            |row| Ok((read(tx, row)?, row.get::<_, Option<i64>>(16)?)),
        )?;
        let Some((item, turn)) = next else { return Ok(()) };
        after = item.position;
        let is_open = !item.status.is_ended();
        let copy = NewItem {
            id: new_id(tx.now),
            turn: turn.and_then(|turn| turns.binary_search_by_key(&turn, |turn| turn.0).ok()).map(|at| turns[at].1),
            parent_id: item.parent_id.and_then(|id| copies.get(&id).cloned()),
            kind: item.kind,
            status: if is_open { ThreadItemStatus::Interrupted } else { item.status },
            summary: item.summary,
            text: item.text,
            data: item.data,
            metadata: item.metadata,
            blobs: Some(item.blobs).filter(|blobs| !blobs.is_empty()).map(|blobs| Json::of(&blobs)).transpose()?,
            digest: None,
            created_at: item.created_at,
            started_at: item.started_at,
            ended_at: if is_open { Some(tx.now) } else { item.ended_at },
        };
        insert(tx, to, &copy)?;
        copies.insert(item.id, copy.id);
    }
}

/// Ends what a turn that has ended has left open. An item that cannot be read stays as it is, and keeps its turn from nothing.
pub(crate) fn interrupt_open_of_turn(tx: &Tx<'_>, turn: i64, status: ThreadItemStatus) -> Result<()> {
    let open = tx.rows(
        "SELECT key, id, thread, status FROM thread_items WHERE turn = ?1 AND status IN ('queued', 'in_progress') ORDER BY position",
        [turn],
        Head::read,
    )?;
    for item in open {
        match tx.attempt(|tx| apply(tx, &item, Changes { status: Some(status), ..Changes::default() }))? {
            Err(error) if error.code() != ErrorCode::Corrupt => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
