//! Threads that an import brings: rows with past times and given statuses. No limit of the tenant counts, recording is never refused.

use super::items::{ItemKind, ThreadItemStatus};
use super::prices::{Prices, Used};
use super::turns::TurnStatus;
use super::usage::{self, RecordUsage, ResponseId};
use super::{Head, search, text};
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::json::Json;
use crate::store::Tx;
use crate::tenants;

/// 16 bytes of a SHA-256: enough to tell the records of one thread apart.
pub(crate) type Mark = [u8; 16];

/// A thread as it was elsewhere.
#[derive(Default)]
pub(crate) struct ImportedThread {
    pub(crate) title: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) workspace: Option<String>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) task_id: Option<String>,
    pub(crate) task_type: Option<String>,
    pub(crate) archived: bool,
    pub(crate) metadata: Option<Json>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

/// A turn as it was elsewhere.
pub(crate) struct ImportedTurn {
    pub(crate) id: Name,
    pub(crate) status: TurnStatus,
    pub(crate) input_summary: String,
    pub(crate) created_at: i64,
    pub(crate) started_at: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) duration_ms: Option<i64>,
    pub(crate) last_request_input_tokens: Option<i64>,
    pub(crate) error: Option<Json>,
    pub(crate) steer_count: i64,
    pub(crate) metadata: Option<Json>,
    /// Whether it ran beside the others: the thread's latest turn is another one, where there is one.
    pub(crate) is_side: bool,
}

/// How a turn ended.
pub(crate) struct TurnEnd {
    pub(crate) status: TurnStatus,
    pub(crate) ended_at: i64,
    pub(crate) error: Option<Json>,
    pub(crate) last_request_input_tokens: Option<i64>,
}

/// An item as it was elsewhere.
pub(crate) struct ImportedItem {
    pub(crate) id: Name,
    /// The key of its turn.
    pub(crate) turn: Option<i64>,
    pub(crate) kind: ItemKind,
    pub(crate) status: ThreadItemStatus,
    pub(crate) summary: String,
    pub(crate) text: String,
    pub(crate) data: Option<Json>,
    pub(crate) metadata: Option<Json>,
    pub(crate) created_at: i64,
    pub(crate) started_at: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    /// Where it stands; at the end unless given.
    pub(crate) position: Option<i64>,
}

/// The key of an item, its status, its data and its metadata.
pub(crate) type Contents = (i64, ThreadItemStatus, Option<Json>, Option<Json>);

/// What became of a record before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Known {
    New,
    Same,
    /// Another record is called the same.
    Other,
}

/// A thread that is being filled. What its row says is written once, by [`save`](Self::save).
#[derive(Clone)]
pub(crate) struct Conversation {
    pub(crate) key: i64,
    pub(crate) id: Name,
    last_position: i64,
    head_item_id: Option<String>,
    latest_turn_id: Option<String>,
    last_message_at: Option<i64>,
    updated_at: i64,
    changed: bool,
}

impl Conversation {
    pub(crate) fn find(tx: &Tx<'_>, id: &Name) -> Result<Option<Self>> {
        tx.row(
            "SELECT key, last_position, head_item_id, latest_turn_id, last_message_at, updated_at FROM threads WHERE tenant = ?1 AND id = ?2",
            (tx.tenant, id),
            |row| {
                Ok(Self {
                    key: row.get(0)?,
                    id: id.clone(),
                    last_position: row.get(1)?,
                    head_item_id: row.get(2)?,
                    latest_turn_id: row.get(3)?,
                    last_message_at: row.get(4)?,
                    updated_at: row.get(5)?,
                    changed: false,
                })
            },
        )
    }

    pub(crate) fn create(tx: &Tx<'_>, id: &Name, imported: ImportedThread) -> Result<Self> {
        tx.document("metadata", imported.metadata.as_ref())?;
        let key = tx.next_key("SELECT key FROM threads WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
        tx.execute_one(
            "INSERT INTO threads (key, tenant, id, title, archived, created_at, updated_at, changed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)",
            (key, tx.tenant, id, imported.title, imported.archived, imported.created_at, imported.updated_at),
        )?;
        tx.execute_one(
            "INSERT INTO thread_documents (thread, model, mode, workspace, system_prompt, task_id, task_type, metadata)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            (
                key,
                imported.model,
                imported.mode,
                imported.workspace,
                imported.system_prompt,
                imported.task_id,
                imported.task_type,
                imported.metadata,
            ),
        )?;
        search::index_thread(tx, key)?;
        Ok(Self {
            key,
            id: id.clone(),
            last_position: 0,
            head_item_id: None,
            latest_turn_id: None,
            last_message_at: None,
            updated_at: imported.updated_at,
            changed: true,
        })
    }

    /// Writes what has changed of the thread's row.
    pub(crate) fn save(&mut self, tx: &Tx<'_>) -> Result<()> {
        if std::mem::take(&mut self.changed) {
            tx.execute_one(
                "UPDATE threads SET last_position = ?2, head_item_id = ?3, latest_turn_id = ?4, last_message_at = ?5 WHERE key = ?1",
                (self.key, self.last_position, &self.head_item_id, &self.latest_turn_id, self.last_message_at),
            )?;
            Head::touch(&tx.at(self.updated_at), self.key)?;
        }
        Ok(())
    }

    fn seen(&mut self, at: i64) {
        self.changed = true;
        self.updated_at = self.updated_at.max(at);
    }

    /// Whether a record is here already. A new one is noted.
    pub(crate) fn note(&mut self, tx: &Tx<'_>, record: &Mark, digest: &Mark) -> Result<Known> {
        let known =
            tx.row("SELECT digest FROM imported_records WHERE thread = ?1 AND record = ?2", (self.key, record), |row| {
                Ok(row.get::<_, Option<Mark>>(0)?)
            })?;
        match known {
            Some(Some(known)) => return Ok(if known == *digest { Known::Same } else { Known::Other }),
            Some(None) => {
                tx.execute_one(
                    "UPDATE imported_records SET digest = ?3 WHERE thread = ?1 AND record = ?2",
                    (self.key, record, digest),
                )?;
            }
            None => tx.execute_one(
                "INSERT INTO imported_records (thread, record, digest) VALUES (?1, ?2, ?3)",
                (self.key, record, digest),
            )?,
        }
        Ok(Known::New)
    }

    /// Keeps the next position for a record that is still to come.
    pub(crate) fn reserve(&mut self, tx: &Tx<'_>, record: &Mark) -> Result<()> {
        self.last_position += 1;
        self.changed = true;
        tx.execute(
            "INSERT INTO imported_records (thread, record, position) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            (self.key, record, self.last_position),
        )?;
        Ok(())
    }

    /// The position that was kept for a record.
    pub(crate) fn reserved(&self, tx: &Tx<'_>, record: &Mark) -> Result<Option<i64>> {
        let position =
            tx.row("SELECT position FROM imported_records WHERE thread = ?1 AND record = ?2", (self.key, record), |row| {
                Ok(row.get::<_, Option<i64>>(0)?)
            })?;
        Ok(position.flatten())
    }

    /// Gives the thread a title; only in the place of `instead_of`, so that what somebody has written stays.
    pub(crate) fn entitle(&mut self, tx: &Tx<'_>, title: &str, instead_of: Option<&str>) -> Result<()> {
        let changed =
            tx.execute("UPDATE threads SET title = ?2 WHERE key = ?1 AND title IS ?3", (self.key, title, instead_of))?;
        if changed > 0 {
            self.changed = true;
            search::index_thread(tx, self.key)?;
        }
        Ok(())
    }

    /// Fills in what the thread does not say yet.
    pub(crate) fn complete(&mut self, tx: &Tx<'_>, model: Option<&str>, workspace: Option<&str>) -> Result<()> {
        tx.execute_one(
            "UPDATE thread_documents SET model = coalesce(model, ?2), workspace = coalesce(workspace, ?3) WHERE thread = ?1",
            (self.key, model, workspace),
        )
    }

    /// Inserts a turn, or finds the one of this id. Answers its key.
    pub(crate) fn turn(&mut self, tx: &Tx<'_>, turn: ImportedTurn) -> Result<i64> {
        if let Some((key, thread)) = find_turn(tx, &turn.id)? {
            return if thread == self.key { Ok(key) } else { Err(taken("turn", &turn.id)) };
        }
        for (name, document) in [("metadata", &turn.metadata), ("error", &turn.error)] {
            tx.document(name, document.as_ref())?;
        }
        let key = tx.next_key("SELECT key FROM turns WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
        tx.execute_one(
            "INSERT INTO turns (key, tenant, id, thread, status, input_summary, created_at, started_at, ended_at, duration_ms,
                                last_request_input_tokens, error, steer_count, metadata)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            (
                key,
                tx.tenant,
                &turn.id,
                self.key,
                turn.status,
                &turn.input_summary,
                turn.created_at,
                turn.started_at,
                turn.ended_at,
                turn.duration_ms,
                turn.last_request_input_tokens,
                &turn.error,
                turn.steer_count,
                &turn.metadata,
            ),
        )?;
        if !turn.is_side || self.latest_turn_id.is_none() {
            self.latest_turn_id = Some(turn.id.to_string());
        }
        self.seen(turn.ended_at.unwrap_or(turn.created_at));
        Ok(key)
    }

    /// Ends a turn, and what it has left open. One that ended in this way before stays as it is.
    pub(crate) fn end_turn(&mut self, tx: &Tx<'_>, turn: i64, end: &TurnEnd) -> Result<()> {
        let before =
            tx.row("SELECT ended_at FROM turns WHERE key = ?1", [turn], |row| Ok(row.get::<_, Option<i64>>(0)?))?.flatten();
        let changed = tx.execute(
            "UPDATE turns SET status = ?2, ended_at = ?3, duration_ms = max(?3 - started_at, 0), error = ?4, last_request_input_tokens = ?5
             WHERE key = ?1 AND (status <> ?2 OR ended_at IS NOT ?3)",
            (turn, end.status, end.ended_at, &end.error, end.last_request_input_tokens),
        )?;
        if changed == 0 {
            return Ok(());
        }
        self.seen(end.ended_at);
        // What an earlier end has left interrupted is so until this one.
        tx.execute(
            "UPDATE thread_items SET ended_at = ?3 WHERE turn = ?1 AND status = ?4 AND ended_at = ?2",
            (turn, before, end.ended_at, ThreadItemStatus::Interrupted),
        )?;
        super::items::interrupt_open_of_turn(&tx.at(end.ended_at), turn, ThreadItemStatus::Interrupted)
    }

    /// Inserts an item.
    pub(crate) fn item(&mut self, tx: &Tx<'_>, item: ImportedItem) -> Result<()> {
        if find_item(tx, &item.id)?.is_some() {
            return Err(taken("item", &item.id));
        }
        tx.document("data", item.data.as_ref())?;
        tx.document("metadata", item.metadata.as_ref())?;
        tx.text("text", item.text.len())?;
        let position = item.position.unwrap_or(self.last_position + 1);
        let key = tx.next_key("SELECT key FROM thread_items WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
        tx.execute_one(
            "INSERT INTO thread_items (key, tenant, id, thread, turn, position, kind, status, summary, created_at, started_at, ended_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            (
                key,
                tx.tenant,
                &item.id,
                self.key,
                item.turn,
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
            "INSERT INTO item_contents (item, length, text, data, metadata) VALUES (?1, ?2, ?3, ?4, ?5)",
            (key, text::length(&item.text), &item.text, &item.data, &item.metadata),
        )?;
        if item.status.is_ended() {
            search::index_item(tx, key)?;
        }
        self.last_position = self.last_position.max(position);
        if position == self.last_position {
            self.head_item_id = Some(item.id.to_string());
        }
        if matches!(item.kind, ItemKind::UserMessage | ItemKind::AssistantMessage) {
            self.last_message_at = self.last_message_at.max(Some(item.created_at));
        }
        self.seen(item.ended_at.unwrap_or(item.created_at));
        Ok(())
    }

    /// What an item of this thread holds, if there is one of this id.
    pub(crate) fn contents(&self, tx: &Tx<'_>, id: &Name) -> Result<Option<Contents>> {
        match find_item(tx, id)? {
            Some((key, thread, status)) if thread == self.key => {
                tx.row("SELECT data, metadata FROM item_contents WHERE item = ?1", [key], |row| {
                    Ok((key, status, row.get(0)?, row.get(1)?))
                })
            }
            _ => Ok(None),
        }
    }

    /// Ends an item with its result.
    pub(crate) fn end_item(
        &mut self,
        tx: &Tx<'_>,
        key: i64,
        status: ThreadItemStatus,
        ended_at: i64,
        data: &Json,
        metadata: Option<&Json>,
    ) -> Result<()> {
        tx.document("data", Some(data))?;
        tx.document("metadata", metadata)?;
        tx.execute_one("UPDATE thread_items SET status = ?2, ended_at = ?3 WHERE key = ?1", (key, status, ended_at))?;
        tx.execute_one("UPDATE item_contents SET data = ?2, metadata = ?3 WHERE item = ?1", (key, data, metadata))?;
        self.seen(ended_at);
        search::index_item(tx, key)
    }

    /// Gives an item its text.
    pub(crate) fn write_text(&mut self, tx: &Tx<'_>, key: i64, written: &str, metadata: Option<&Json>) -> Result<()> {
        tx.text("text", written.len())?;
        tx.document("metadata", metadata)?;
        tx.execute_one(
            "UPDATE item_contents SET text = ?2, length = ?3, metadata = ?4 WHERE item = ?1",
            (key, written, text::length(written), metadata),
        )?;
        self.changed = true;
        search::index_item(tx, key)
    }

    /// Appends a thread event.
    pub(crate) fn event(
        &mut self,
        tx: &Tx<'_>,
        event_type: Name,
        turn_id: Option<Name>,
        item_id: Option<Name>,
        data: Json,
        at: i64,
    ) -> Result<()> {
        let thread_id = self.id.clone();
        super::thread_events::append(
            &tx.at(at),
            super::thread_events::AppendThreadEvent { thread_id, turn_id, item_id, event_type, data: Some(data) },
        )?;
        self.seen(at);
        Ok(())
    }
}

fn taken(kind: &str, id: &Name) -> Error {
    Error::conflict(format!("there is another {kind} {:?} already", id.as_str())).with("id", id.as_str())
}

/// The key and the thread of a turn.
pub(crate) fn find_turn(tx: &Tx<'_>, id: &Name) -> Result<Option<(i64, i64)>> {
    tx.row("SELECT key, thread FROM turns WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| Ok((row.get(0)?, row.get(1)?)))
}

/// The id and the model of a turn's thread.
pub(crate) fn thread_of(tx: &Tx<'_>, thread: i64) -> Result<Option<(Name, Option<String>)>> {
    tx.row(
        "SELECT t.id, d.model FROM threads t LEFT JOIN thread_documents d ON d.thread = t.key WHERE t.key = ?1",
        [thread],
        |row| Ok((row.get::<_, String>(0)?.parse()?, row.get(1)?)),
    )
}

fn find_item(tx: &Tx<'_>, id: &Name) -> Result<Option<(i64, i64, ThreadItemStatus)>> {
    tx.row("SELECT key, thread, status FROM thread_items WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
}

/// Records what a response has used. One that is known keeps the larger of each figure: logs repeat a response while it grows.
pub(crate) fn record_usage(tx: &Tx<'_>, given: RecordUsage) -> Result<()> {
    let Some(known) = usage::get(tx, ResponseId { response_id: given.response_id.clone() })? else {
        usage::record(tx, given)?;
        return Ok(());
    };
    let (read, write) =
        (known.cache_read_tokens.max(given.cache_read_tokens), known.cache_write_tokens.max(given.cache_write_tokens));
    let (given_read, given_write) = (given.cache_read_tokens.unwrap_or(0), given.cache_write_tokens.unwrap_or(0));
    let no_cache = known.no_cache_tokens.max(given.input_tokens - given_read - given_write);
    let input = no_cache + read.unwrap_or(0) + write.unwrap_or(0);
    let output = known.output_tokens.max(given.output_tokens);
    let reasoning = known.reasoning_tokens.max(given.reasoning_tokens);
    if (input, output, read, write, reasoning)
        == (known.input_tokens, known.output_tokens, known.cache_read_tokens, known.cache_write_tokens, known.reasoning_tokens)
    {
        return Ok(());
    }
    let cost = Prices::of(tx)?.cost(&Used {
        model: &known.model,
        provider: known.provider.as_deref(),
        at: known.created_at,
        input,
        cache_read: read.unwrap_or(0),
        cache_write: write.unwrap_or(0),
        output,
    });
    let (usd, without_cache) = (cost.as_ref().map(|cost| cost.usd), cost.as_ref().map(|cost| cost.without_cache));
    tx.execute_one(
        "UPDATE usage_records SET input_tokens = ?3, output_tokens = ?4, cache_read_tokens = ?5, cache_write_tokens = ?6,
             no_cache_tokens = ?7, reasoning_tokens = ?8, cost_usd = ?9, cost_without_cache = ?10
         WHERE tenant = ?1 AND response_id = ?2",
        (tx.tenant, &given.response_id, input, output, read, write, no_cache, reasoning, usd, without_cache),
    )?;
    let tokens = input + output - known.input_tokens - known.output_tokens;
    tenants::spend(&tx.at(known.created_at), tokens, usd.unwrap_or(0.0) - known.cost_usd.unwrap_or(0.0))
}
