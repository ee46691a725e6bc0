//! What the holder of a lease does with it. Every call names the item and the fence of its claim.

use serde_json::{Value, json};

use super::claim::DEFAULT_LEASE_MS;
use super::enqueue::{EnqueueItem, Inserted, insert};
use super::limits::changed;
use super::reclaim::{Ended, Ending, end_delivery};
use super::{AttemptOutcome, Held, ItemStatus, LONGEST_DELAY_MS, LONGEST_LEASE_MS, check_ms, shift, touch};
use crate::error::{Error, ErrorCode, Result};
use crate::events::{self, EventInput, NewEvent};
use crate::executions::record;
use crate::ids::Name;
use crate::json::{FromJson, Json, ToJson, digest, text};
use crate::store::Tx;

arguments! {
    /// Keeps the lease for longer.
    pub struct RenewLease {
        pub id: Name,
        pub fence: i64,
        /// Milliseconds from now; the length of the claim's lease unless given.
        pub lease_ms: Option<i64>,
        /// Any JSON, kept on the item and shown to the next attempt.
        pub progress: Option<Json>,
    }

    /// Settles an item, with what follows from it, in one transaction.
    pub struct CompleteItem {
        pub id: Name,
        pub fence: i64,
        pub output: Option<Json>,
        /// Appended to the log of the item's execution.
        pub events: Option<Vec<EventInput>>,
        /// An RFC 7396 merge patch for the state of the item's execution, applied before `events`.
        pub state_patch: Option<Json> as optional,
        /// Items to enqueue.
        pub enqueue: Option<Vec<EnqueueItem>>,
    }

    /// Ends the delivery as failed.
    pub struct FailItem {
        pub id: Name,
        pub fence: i64,
        /// A string, or `{message, code?, stack?}`.
        pub error: Json,
        /// False sends the item to the dead letters at once; true unless given.
        pub retryable: Option<bool>,
        /// Milliseconds until the next attempt, instead of the backoff.
        pub delay_ms: Option<i64>,
        /// Appended to the log of the item's execution.
        pub events: Option<Vec<EventInput>>,
    }

    /// Gives the item back. The attempt is not counted.
    pub struct ReleaseItem {
        pub id: Name,
        pub fence: i64,
        /// Milliseconds until it can be claimed again; 0 unless given.
        pub delay_ms: Option<i64>,
        /// At most 256 bytes, no control characters.
        pub reason: Option<String>,
    }
}

records! {
    pub struct Renewed {
        /// Unix milliseconds.
        pub lease_expires_at: i64,
        /// Whether somebody asked to cancel the item: stop, and `release` or `fail` it.
        pub cancel_requested: bool,
        /// Whether the lease had run out already, and nobody had noticed.
        pub late: bool,
    }
}

kept! {
    pub struct Completed {
        pub status: ItemStatus,
        /// Whether the lease had run out already, and nobody had noticed.
        pub late: bool,
        /// The last sequence of the execution's log, where the item has one.
        pub last_sequence: Option<i64>,
        /// The items of `enqueue`, in order.
        pub enqueued: Vec<EnqueuedItem>,
        /// Whether the execution had ended, so that its statePatch and its items of `enqueue` were dropped.
        pub dropped: bool,
    }

    pub struct EnqueuedItem {
        pub id: String,
        pub created: bool,
    }

    pub struct Failed {
        pub outcome: FailOutcome,
        /// Unix milliseconds: when it can be claimed again.
        pub run_at: Option<i64>,
        /// Whether the lease had run out already, and nobody had noticed.
        pub late: bool,
    }

    pub struct Released {
        pub outcome: ReleaseOutcome,
        /// Unix milliseconds: when it can be claimed again.
        pub run_at: Option<i64>,
        /// Whether the lease had run out already, and nobody had noticed.
        pub late: bool,
    }
}

words! {
    pub enum FailOutcome {
        RetryScheduled = "retry_scheduled",
        DeadLettered = "dead_lettered",
        Cancelled = "cancelled",
    }

    pub enum ReleaseOutcome {
        Released = "released",
        Cancelled = "cancelled",
    }
}

/// A settling call under a fence: either the item is held under it, or the same call settled it before.
enum Turn<A> {
    Held(Box<Held>),
    Repeated(A),
}

arguments! {
    /// What a settling call was, kept with the item.
    struct Settlement {
        call: String,
        digest: String,
        answer: Json,
    }
}

impl Settlement {
    /// Its JSON text.
    fn of(call: &str, digest: &str, answer: &dyn ToJson) -> String {
        format!(r#"{{"call":"{call}","digest":"{digest}","answer":{}}}"#, text(answer))
    }
}

fn hex(arguments: &dyn ToJson) -> Result<String> {
    let digits = digest(arguments)?.into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect())
}

fn turn<A: FromJson>(tx: &Tx<'_>, id: &str, fence: i64, call: &str, digest: &str) -> Result<Turn<A>> {
    let item = Held::get(tx, id)?;
    let lost = |why: &str| {
        Err(Error::new(
            ErrorCode::LeaseLost,
            format!("the work item {id:?} is not held under fence {fence}: {why}; stop working on it and claim again"),
        )
        .with("id", id)
        .with("fence", fence)
        .with("currentFence", item.fence)
        .with("status", item.status.as_str()))
    };
    if item.fence != fence {
        return lost(&format!("its fence is {} now", item.fence));
    }
    if item.status == ItemStatus::Claimed {
        return Ok(Turn::Held(Box::new(item)));
    }
    let Some(settlement) = item.settlement.as_ref().map(Json::read::<Settlement>).transpose()? else {
        return lost(&format!("the lease has ended, and the item is {}", item.status.as_str()));
    };
    if settlement.call == call && settlement.digest == digest {
        return Ok(Turn::Repeated(settlement.answer.read()?));
    }
    let how = if settlement.call == call { "with other arguments" } else { "already" };
    Err(Error::conflict(format!(
        "the work item {id:?} was settled under fence {fence} by {} {how} and is {}",
        settlement.call,
        item.status.as_str()
    ))
    .with("id", id)
    .with("fence", fence)
    .with("settledBy", settlement.call)
    .with("status", item.status.as_str()))
}

pub(crate) fn renew(tx: &Tx<'_>, arguments: RenewLease) -> Result<Renewed> {
    check_ms("leaseMs", arguments.lease_ms, 1, LONGEST_LEASE_MS)?;
    tx.document("progress", arguments.progress.as_ref())?;
    // A renewal settles nothing, so there is no repeat of it to recognise.
    let Turn::Held(item) = turn::<Json>(tx, &arguments.id, arguments.fence, "renew", "")? else {
        return Err(Error::new(ErrorCode::Internal, "a renewal cannot have settled an item"));
    };
    let lease_ms = arguments.lease_ms.or(item.lease_ms).unwrap_or(DEFAULT_LEASE_MS);
    let lease_expires_at = tx.now.saturating_add(lease_ms);
    tx.execute_one(
        "UPDATE items SET lease_expires_at = ?3, lease_ms = ?4, progress = coalesce(?5, progress)
         WHERE key = ?1 AND fence = ?2 AND status = 'claimed'",
        (item.key, item.fence, lease_expires_at, lease_ms, &arguments.progress),
    )?;
    touch(tx, item.queue)?;
    Ok(Renewed { lease_expires_at, cancel_requested: item.cancel_requested, late: item.is_late(tx.now) })
}

/// Refuses what only makes sense for the item of an execution.
fn needs_execution(item: &Held, given: bool, field: &str) -> Result<()> {
    if !given || item.execution.is_some() {
        return Ok(());
    }
    Err(Error::invalid(format!("{field} is given, and the work item {:?} belongs to no execution", item.id)).with("path", field))
}

pub(crate) fn complete(tx: &Tx<'_>, arguments: CompleteItem) -> Result<Completed> {
    tx.document("output", arguments.output.as_ref())?;
    tx.document("statePatch", arguments.state_patch.as_ref())?;
    let patch = match arguments.state_patch.as_ref().map(Json::to::<Value>).transpose()? {
        None => None,
        Some(patch @ Value::Object(_)) => Some(patch),
        Some(_) => {
            return Err(Error::invalid("statePatch must be an object: it is a merge patch").with("path", "statePatch"));
        }
    };
    let digest = hex(&arguments)?;
    let item = match turn(tx, &arguments.id, arguments.fence, "complete", &digest)? {
        Turn::Repeated(answer) => return Ok(answer),
        Turn::Held(item) => item,
    };
    needs_execution(&item, patch.is_some(), "statePatch")?;
    let mut events = events::checked(tx, "events", arguments.events.unwrap_or_default())?;
    needs_execution(&item, !events.is_empty(), "events")?;
    let mut execution = item.execution(tx)?;
    // Of an execution that had ended before, nothing follows. Where these events end it, only what would be its own is dropped.
    let had_ended = execution.as_ref().is_some_and(|head| head.status.is_terminal());
    let mut dropped = had_ended && patch.is_some();
    if let Some(head) = &mut execution {
        if let Some(patch) = patch.filter(|_| !had_ended) {
            events.insert(0, NewEvent::of("execution_state_patched", &json!({ "patch": patch })));
        }
        if !events.is_empty() {
            record(tx, head, events)?;
        }
    }
    let ended = execution.as_ref().filter(|head| head.status.is_terminal());
    let mut enqueued = Vec::new();
    for (index, next) in arguments.enqueue.unwrap_or_default().into_iter().enumerate() {
        if ended.is_some_and(|head| had_ended || next.execution_id.as_deref() == Some(head.id.as_str())) {
            dropped = true;
            continue;
        }
        enqueued.push(match insert(tx, &format!("enqueue[{index}]."), next).map_err(|error| error.with("index", index))? {
            Inserted::New(item) => EnqueuedItem { id: item.id, created: true },
            Inserted::Known(key) => {
                let id = tx.row("SELECT id FROM items WHERE key = ?1", [key], |row| Ok(row.get::<_, String>(0)?))?;
                EnqueuedItem { id: id.unwrap_or_default(), created: false }
            }
        });
    }
    let completed = Completed {
        status: ItemStatus::Completed,
        late: item.is_late(tx.now),
        last_sequence: execution.as_ref().map(|head| head.last_sequence),
        enqueued,
        dropped,
    };
    tx.execute_one(
        "UPDATE items SET status = 'completed', finished_at = ?3, output = ?4, lease_expires_at = NULL, lease_ms = NULL, settlement = ?5
         WHERE key = ?1 AND fence = ?2 AND status = 'claimed'",
        (item.key, item.fence, tx.now, &arguments.output, Settlement::of("complete", &digest, &completed)),
    )?;
    shift(tx, item.queue, Some(ItemStatus::Claimed), Some(ItemStatus::Completed), 1)?;
    changed(tx, item.queue, item.concurrency_key.as_deref())?;
    Ok(completed)
}

pub(crate) fn fail(tx: &Tx<'_>, arguments: FailItem) -> Result<Failed> {
    check_ms("delayMs", arguments.delay_ms, 0, LONGEST_DELAY_MS)?;
    let error = &arguments.error;
    tx.document("error", Some(error))?;
    events::types::check_error("error", error)?;
    let digest = hex(&arguments)?;
    let item = match turn(tx, &arguments.id, arguments.fence, "fail", &digest)? {
        Turn::Repeated(answer) => return Ok(answer),
        Turn::Held(item) => item,
    };
    let events = events::checked(tx, "events", arguments.events.unwrap_or_default())?;
    needs_execution(&item, !events.is_empty(), "events")?;
    let late = item.is_late(tx.now);
    let answer = |ended: Ended| Failed {
        outcome: match ended.status {
            ItemStatus::DeadLettered => FailOutcome::DeadLettered,
            ItemStatus::Cancelled => FailOutcome::Cancelled,
            _ => FailOutcome::RetryScheduled,
        },
        run_at: ended.run_at,
        late,
    };
    let ending = Ending {
        outcome: AttemptOutcome::Failed,
        error: Some(error),
        retryable: arguments.retryable.unwrap_or(true),
        delay_ms: arguments.delay_ms,
        events,
        settlement: &|ended| Some(Settlement::of("fail", &digest, &answer(ended))),
    };
    Ok(answer(end_delivery(tx, &item, ending)?))
}

pub(crate) fn release(tx: &Tx<'_>, arguments: ReleaseItem) -> Result<Released> {
    check_ms("delayMs", arguments.delay_ms, 0, LONGEST_DELAY_MS)?;
    if let Some(Err(rule)) = arguments.reason.as_deref().map(Name::check_text) {
        return Err(Error::invalid(format!("reason {rule}")).with("path", "reason"));
    }
    let digest = hex(&arguments)?;
    let item = match turn(tx, &arguments.id, arguments.fence, "release", &digest)? {
        Turn::Repeated(answer) => return Ok(answer),
        Turn::Held(item) => item,
    };
    let late = item.is_late(tx.now);
    let answer = |ended: Ended| Released {
        outcome: if ended.status == ItemStatus::Cancelled { ReleaseOutcome::Cancelled } else { ReleaseOutcome::Released },
        run_at: ended.run_at,
        late,
    };
    let reason = arguments.reason.map(|reason| Json::from(Value::String(reason)));
    let ending = Ending {
        outcome: AttemptOutcome::Released,
        error: reason.as_ref(),
        retryable: true,
        delay_ms: arguments.delay_ms,
        events: Vec::new(),
        settlement: &|ended| Some(Settlement::of("release", &digest, &answer(ended))),
    };
    Ok(answer(end_delivery(tx, &item, ending)?))
}
