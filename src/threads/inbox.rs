//! The prompt inbox: what people have asked for while a turn was running.

use rusqlite::Row;

use super::turns::{self, CreateTurn, Turn, TurnStatus};
use crate::error::{Error, ErrorCode, Result};
use crate::executions::Created;
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::page::{self, MAX_PAGE_BYTES, Order, Page, PageBuilder};
use crate::store::{Columns, Tx};
use crate::tenants;
use crate::threads;

words! {
    /// Where a prompt stands. Nothing leaves the last two.
    pub enum PromptStatus {
        /// It waits.
        Admitted = "admitted",
        /// A turn has taken it.
        Promoted = "promoted",
        /// It was taken back.
        Withdrawn = "withdrawn",
    }
}

words! {
    /// What a prompt is for.
    #[derive(Default)]
    pub enum Delivery {
        /// A turn of its own, after those before it.
        #[default]
        Queue = "queue",
        /// The turn that is running.
        Steer = "steer",
    }
}

records! {
    /// A prompt that was admitted to a thread.
    pub struct Prompt {
        pub id: String,
        pub thread_id: String,
        /// The prompts of a thread are numbered 1, 2, 3 … as they come; no number is given twice.
        pub admitted_sequence: i64,
        pub status: PromptStatus,
        pub delivery: Delivery,
        /// As it was given.
        pub prompt: Json,
        pub request: Option<Json>,
        /// The turn that has taken it.
        pub turn_id: Option<String>,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds.
        pub promoted_at: Option<i64>,
        /// Unix milliseconds.
        pub withdrawn_at: Option<i64>,
    }

    /// A prompt and the turn that was created for it.
    pub struct PromotedNext {
        pub prompt: Prompt,
        pub turn: Turn,
        /// False where the same call had promoted it before.
        pub created: bool,
    }
}

arguments! {
    pub struct AdmitPrompt {
        pub thread_id: Name,
        /// Made by the store unless given. The same id with the same arguments answers the admission that exists.
        pub id: Option<Name>,
        /// A text, or whatever the agent takes.
        pub prompt: Json,
        /// `queue` unless given.
        pub delivery: Option<Delivery>,
        /// What goes with it, such as the model to use.
        pub request: Option<Json>,
    }

    pub struct PromptId {
        pub id: Name,
    }

    pub struct InboxOf {
        pub thread_id: Name,
    }

    pub struct PromotePrompt {
        pub id: Name,
        /// The turn that takes it, one of the same thread that has not ended.
        pub turn_id: Option<Name>,
    }

    /// The turn for the prompt, as for `turns.create`.
    pub struct NextTurn {
        /// Made by the store unless given. The same call again answers the same prompt and turn.
        pub id: Option<Name>,
        pub execution_id: Option<Name>,
        /// `queued` unless given.
        pub status: Option<TurnStatus>,
        /// The beginning of the prompt, where that is a text, unless given.
        pub input_summary: Option<String>,
        pub owner_id: Option<Name>,
        pub metadata: Option<Json>,
    }

    pub struct PromoteNext {
        pub thread_id: Name,
        pub turn: Option<NextTurn>,
        /// Takes a steer that no turn has taken, too, if it is the oldest that waits.
        pub include_steers: Option<bool>,
    }

    /// Which prompts to list.
    pub struct ListPrompts {
        pub thread_id: Name,
        pub status: Option<PromptStatus>,
        pub delivery: Option<Delivery>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

/// How many characters of a prompt become the summary of its turn.
const SUMMARY_CHARS: usize = 200;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT i.key, i.id, t.id, i.admitted_sequence, i.status, i.delivery, i.prompt, i.request, i.turn_id, i.created_at,
                    i.promoted_at, i.withdrawn_at
             FROM inbox i LEFT JOIN threads t ON t.key = i.thread ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<Prompt> {
    let columns = Columns::with_id(row, "inbox", 1);
    let id: String = columns.get(1)?;
    let thread_id: Option<String> = columns.get(2)?;
    Ok(Prompt {
        thread_id: thread_id.ok_or_else(|| Error::corrupt("inbox", &id, "its thread is missing"))?,
        id,
        admitted_sequence: columns.get(3)?,
        status: columns.get(4)?,
        delivery: columns.get(5)?,
        prompt: columns.get(6)?,
        request: columns.get(7)?,
        turn_id: columns.get(8)?,
        created_at: columns.get(9)?,
        promoted_at: columns.get(10)?,
        withdrawn_at: columns.get(11)?,
    })
}

fn weigh(prompt: &Prompt) -> usize {
    prompt.prompt.as_str().len() + prompt.request.as_ref().map_or(0, |request| request.as_str().len()) + 500
}

fn by_key(tx: &Tx<'_>, key: i64) -> Result<Prompt> {
    tx.row(select!("WHERE i.key = ?1"), [key], read)?
        .ok_or_else(|| Error::corrupt("inbox", &tx.number_of(key).to_string(), "its row is missing"))
}

/// Where a prompt stands.
struct Head {
    key: i64,
    thread: i64,
    status: PromptStatus,
    delivery: Delivery,
    turn_id: Option<String>,
}

impl Head {
    fn get(tx: &Tx<'_>, id: &Name) -> Result<Self> {
        let head = tx.row(
            "SELECT key, thread, status, delivery, turn_id FROM inbox WHERE tenant = ?1 AND id = ?2",
            (tx.tenant, id),
            |row| {
                let columns = Columns::new(row, "inbox", id.as_str());
                Ok(Self {
                    key: columns.get(0)?,
                    thread: columns.get(1)?,
                    status: columns.get(2)?,
                    delivery: columns.get(3)?,
                    turn_id: columns.get(4)?,
                })
            },
        )?;
        head.ok_or_else(|| Error::not_found("prompt", id))
    }

    fn must_wait(&self, id: &Name) -> Result<()> {
        if self.status == PromptStatus::Admitted {
            return Ok(());
        }
        let turn = self.turn_id.as_ref().map_or(String::new(), |turn| format!(" into the turn {turn:?}"));
        Err(Error::conflict(format!("the prompt {:?} is {} already{turn}", id.as_str(), self.status.as_str()))
            .with("id", id.as_str())
            .with("status", self.status.as_str())
            .with("turnId", self.turn_id.clone()))
    }
}

/// Keeps a prompt, and gives it the thread's next number.
pub(crate) fn admit(tx: &Tx<'_>, arguments: AdmitPrompt) -> Result<Created<Prompt>> {
    tx.document("prompt", Some(&arguments.prompt))?;
    tx.document("request", arguments.request.as_ref())?;
    let digest = arguments.id.is_some().then(|| digest(&arguments)).transpose()?;
    if let Some(id) = &arguments.id {
        let known = tx.row("SELECT key, digest FROM inbox WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<[u8; 32]>>(1)?))
        })?;
        match known {
            Some((key, known)) if known.is_some() && known == digest => {
                return Ok(Created { record: by_key(tx, key)?, created: false });
            }
            Some(_) => {
                return Err(Error::conflict(format!(
                    "there is a prompt {:?} already, admitted with other arguments",
                    id.as_str()
                ))
                .with("id", id.as_str()));
            }
            None => {}
        }
    }
    tenants::may_create(tx)?;
    let mut thread = threads::Head::get(tx, &arguments.thread_id)?;
    let sequence = thread.give_admitted(tx)?;
    let key = tx.next_key("SELECT key FROM inbox WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO inbox (key, tenant, id, thread, admitted_sequence, status, delivery, prompt, request, created_at, digest)
         VALUES (?1, ?2, ?3, ?4, ?5, 'admitted', ?6, ?7, ?8, ?9, ?10)",
        (
            key,
            tx.tenant,
            arguments.id.map_or_else(|| new_id(tx.now), |id| id.to_string()),
            thread.key,
            sequence,
            arguments.delivery.unwrap_or_default(),
            &arguments.prompt,
            &arguments.request,
            tx.now,
            digest,
        ),
    )?;
    Ok(Created { record: by_key(tx, key)?, created: true })
}

pub(crate) fn get(tx: &Tx<'_>, arguments: PromptId) -> Result<Option<Prompt>> {
    tx.row(select!("WHERE i.tenant = ?1 AND i.id = ?2"), (tx.tenant, &arguments.id), read)
}

/// The oldest prompt of a thread that waits for such a delivery: its key.
fn waiting(tx: &Tx<'_>, thread: i64, delivery: Delivery) -> Result<Option<(i64, i64)>> {
    tx.row(
        "SELECT admitted_sequence, key FROM inbox WHERE thread = ?1 AND delivery = ?2 AND status = 'admitted'
         ORDER BY admitted_sequence LIMIT 1",
        (thread, delivery),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// The oldest prompt that waits for a turn of its own.
pub(crate) fn next(tx: &Tx<'_>, arguments: InboxOf) -> Result<Option<Prompt>> {
    let thread = threads::Head::get(tx, &arguments.thread_id)?.key;
    waiting(tx, thread, Delivery::Queue)?.map(|(_, key)| by_key(tx, key)).transpose()
}

/// The prompts that wait for the running turn, oldest first. Of very many, or very long ones, those that fit into an answer: the others
/// come once these are promoted.
pub(crate) fn steers(tx: &Tx<'_>, arguments: InboxOf) -> Result<Vec<Prompt>> {
    let thread = threads::Head::get(tx, &arguments.thread_id)?.key;
    let mut steers: Vec<Prompt> = Vec::new();
    let mut bytes = 0;
    tx.walk(
        select!("WHERE i.thread = ?1 AND i.delivery = 'steer' AND i.status = 'admitted' ORDER BY i.admitted_sequence LIMIT ?2"),
        (thread, page::MAX_LIMIT),
        |row| {
            let steer = read(row)?;
            bytes += weigh(&steer);
            let fits = steers.is_empty() || bytes <= MAX_PAGE_BYTES;
            steers.extend(fits.then_some(steer));
            Ok(fits)
        },
    )?;
    Ok(steers)
}

/// Says that a turn has taken a prompt.
fn take(tx: &Tx<'_>, key: i64, turn_id: Option<&str>) -> Result<()> {
    tx.execute_one(
        "UPDATE inbox SET status = 'promoted', turn_id = ?2, promoted_at = ?3 WHERE key = ?1 AND status = 'admitted'",
        (key, turn_id, tx.now),
    )
}

/// Takes a prompt out of the inbox, once.
pub(crate) fn promote(tx: &Tx<'_>, arguments: PromotePrompt) -> Result<Prompt> {
    let head = Head::get(tx, &arguments.id)?;
    head.must_wait(&arguments.id)?;
    if let Some(id) = &arguments.turn_id {
        let turn = turns::Head::get(tx, id)?;
        if turn.thread != head.thread {
            return Err(Error::invalid(format!("turnId {:?} is a turn of another thread than the prompt's", id.as_str()))
                .with("path", "turnId"));
        }
        // Nobody would work on it: it stays for the next turn.
        if turn.status.is_terminal() {
            let message = format!("the turn {:?} is {} and takes no more prompts", id.as_str(), turn.status.as_str());
            return Err(Error::new(ErrorCode::InvalidTransition, message)
                .with("path", "turnId")
                .with("turnId", id.as_str())
                .with("status", turn.status.as_str()));
        }
        if head.delivery == Delivery::Steer {
            turns::count_steer(tx, id)?;
        }
    }
    take(tx, head.key, arguments.turn_id.as_deref())?;
    by_key(tx, head.key)
}

/// Creates the turn of the oldest prompt that waits, and takes the prompt out of the inbox: both or neither.
pub(crate) fn promote_next(tx: &Tx<'_>, arguments: PromoteNext) -> Result<Option<PromotedNext>> {
    let thread = threads::Head::get(tx, &arguments.thread_id)?.key;
    let turn = arguments.turn.unwrap_or_default();
    // A call that is made again must not put a second prompt into the turn.
    if let Some(id) = &turn.id {
        let taken = tx.row(
            "SELECT key, thread FROM inbox WHERE tenant = ?1 AND turn_id = ?2 ORDER BY key LIMIT 1",
            (tx.tenant, id),
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
        )?;
        if let Some((key, of_thread)) = taken
            && let Some(turn) = turns::get(tx, turns::TurnId { id: id.clone() })?
        {
            if of_thread != thread {
                return Err(Error::conflict(format!("there is a turn {:?} already, of another thread", id.as_str()))
                    .with("id", id.as_str()));
            }
            return Ok(Some(PromotedNext { prompt: by_key(tx, key)?, turn, created: false }));
        }
    }
    let mut oldest = waiting(tx, thread, Delivery::Queue)?;
    if arguments.include_steers.unwrap_or(false) {
        oldest = [oldest, waiting(tx, thread, Delivery::Steer)?].into_iter().flatten().min();
    }
    let Some((_, key)) = oldest else { return Ok(None) };
    let summary = match turn.input_summary {
        Some(summary) => summary,
        None => by_key(tx, key)?.prompt.to::<String>().map_or(String::new(), |text| text.chars().take(SUMMARY_CHARS).collect()),
    };
    let created = turns::create(
        tx,
        CreateTurn {
            thread_id: arguments.thread_id,
            id: turn.id,
            execution_id: turn.execution_id,
            status: turn.status,
            input_summary: Some(summary),
            owner_id: turn.owner_id,
            metadata: turn.metadata,
        },
    )?;
    let turn = created.record;
    if !created.created {
        return Err(Error::conflict(format!("there is a turn {:?} already, which was not created for a prompt", turn.id))
            .with("id", turn.id));
    }
    take(tx, key, Some(&turn.id))?;
    Ok(Some(PromotedNext { prompt: by_key(tx, key)?, turn, created: true }))
}

/// Takes a prompt back that no turn has taken. Repeating it is fine.
pub(crate) fn withdraw(tx: &Tx<'_>, arguments: PromptId) -> Result<Prompt> {
    let head = Head::get(tx, &arguments.id)?;
    if head.status != PromptStatus::Withdrawn {
        head.must_wait(&arguments.id)?;
        tx.execute_one(
            "UPDATE inbox SET status = 'withdrawn', withdrawn_at = ?2 WHERE key = ?1 AND status = 'admitted'",
            (head.key, tx.now),
        )?;
    }
    by_key(tx, head.key)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListPrompts) -> Result<Page<Prompt>> {
    let limit = page::limit(filter.limit)?;
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::sequences(filter.cursor.as_deref(), order)?;
    let thread = threads::Head::get(tx, &filter.thread_id)?.key;
    let is_filtered = filter.status.is_some() || filter.delivery.is_some();
    let mut page = if is_filtered { PageBuilder::filtered(limit) } else { PageBuilder::unfiltered(limit) };
    let (status, delivery) = (filter.status.map(PromptStatus::as_str), filter.delivery.map(Delivery::as_str));
    let sql = match order {
        Order::Asc => {
            select!("WHERE i.thread = ?1 AND i.admitted_sequence BETWEEN ?2 AND ?3 ORDER BY i.admitted_sequence LIMIT ?4")
        }
        Order::Desc => {
            select!("WHERE i.thread = ?1 AND i.admitted_sequence BETWEEN ?2 AND ?3 ORDER BY i.admitted_sequence DESC LIMIT ?4")
        }
    };
    tx.walk(sql, (thread, from, to, page.scanned()), |row| {
        let sequence = row.get(3)?;
        let differs =
            |at, wanted: Option<&str>| Ok::<_, Error>(wanted.is_some() && row.get::<_, String>(at).ok().as_deref() != wanted);
        if differs(4, status)? || differs(5, delivery)? {
            page.skip(sequence);
            return Ok(true);
        }
        page.visit(sequence, read(row), weigh)
    })?;
    Ok(page.finish())
}
