//! What holds a queue back: pauses, holds, rate limits, and limits on how much runs at once.
//!
//! Items that can be claimed lie in an index. Limits of a whole queue are looked at when it is claimed from. Limits of a concurrency key
//! cannot be part of the index, and passing over 100,000 items of one key would cost too much. So a pending item whose key has no room
//! is `blocked` and leaves the index: of each key, and each class of `requires`, only as many items are in it as the key has room for,
//! the first ones in claim order. `rebalance` restores this after every change to a key's items. What counts as running is the claimed
//! rows themselves, so no path can leak a slot.
//!
//! Where a key has much room, its items come in by and by: counting thousands of them with each change, or letting them in at once when a
//! bucket is full again, would take long too. A claim never meets more than [`MOST_CLAIMED`] of them before it looks again.

use std::cmp::Reverse;

use serde::Serialize;

use super::claim::{MOST_CLAIMED, classes};
use super::{Backoff, QueueRate};
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::json::Json;
use crate::operation::Topic;
use crate::store::{Columns, Tx};

/// No more items than this of one key and class are in the index, where its key has limits at all.
const WINDOW: i64 = 2 * MOST_CLAIMED;

/// A queue's settings and its bucket.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) key: i64,
    pub(super) name: String,
    pub(super) paused: bool,
    pub(super) held_until: Option<i64>,
    pub(super) concurrency: Option<i64>,
    pub(super) key_concurrency: Option<i64>,
    pub(super) rate_limit: Option<QueueRate>,
    pub(super) key_rate_limit: Option<QueueRate>,
    pub(super) max_attempts: Option<i64>,
    pub(super) backoff: Option<Backoff>,
    bucket: Bucket,
}

/// What there is in a queue beside items that can be claimed.
pub(super) struct Upkeep {
    /// Leases that have run out.
    pub(super) has_expired: bool,
    /// Scheduled items that have become due.
    pub(super) has_due: bool,
    /// Concurrency keys with a hold or a bucket.
    pub(super) has_keys: bool,
    /// Items that not every worker may have.
    pub(super) has_classes: bool,
}

/// What was in a token bucket at a time, in parts of which `perMs` make a token, so that a millisecond brings a whole number of them
/// and nothing is rounded. An empty column means a full bucket.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    parts: Option<i64>,
    at: Option<i64>,
}

impl Bucket {
    const FULL: Self = Self { parts: None, at: None };

    /// What is in it now. A clock that went back brings nothing, and takes nothing.
    fn now(self, rate: &QueueRate, now: i64) -> i64 {
        match (self.parts, self.at) {
            (Some(parts), Some(at)) => {
                let brought = now.saturating_sub(at).max(0).saturating_mul(rate.limit);
                parts.saturating_add(brought).min(rate.full())
            }
            _ => rate.full(),
        }
    }

    /// How many whole tokens are in it now.
    fn tokens(self, rate: &QueueRate, now: i64) -> i64 {
        self.now(rate, now) / rate.per_ms
    }

    /// What is left after so many tokens were taken. From here on the present counts, also where the clock went back: a bucket must not
    /// wait for a time that has been.
    fn less(self, rate: &QueueRate, count: i64, now: i64) -> Self {
        let taken = count.saturating_mul(rate.per_ms);
        Self { parts: Some(self.now(rate, now).saturating_sub(taken).max(0)), at: Some(now) }
    }

    /// Whether it was last looked at in what is the future now.
    fn is_ahead(self, now: i64) -> bool {
        self.at.is_some_and(|at| at > now)
    }
}

impl QueueRate {
    /// The parts of a full bucket.
    fn full(&self) -> i64 {
        self.limit.saturating_mul(self.per_ms)
    }

    /// For how long a key may lie before it is looked at again: its bucket is full by then. Later wake-up calls than this come from a
    /// clock that went back. A minute at least, so that held keys are not looked at all the time.
    fn horizon(&self) -> i64 {
        self.per_ms.max(60_000)
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT key, name, paused, held_until, concurrency, key_concurrency, rate_limit, key_rate_limit, max_attempts, backoff, tokens,
                    tokens_at FROM queues ",
            $rest
        )
    };
}
pub(super) use select as select_settings;

impl Settings {
    pub(super) fn find(tx: &Tx<'_>, name: &str) -> Result<Option<Self>> {
        tx.row(select!("WHERE tenant = ?1 AND name = ?2"), (tx.tenant, name), Self::read)
    }

    /// The queue of this name, and what a claim has to do before it takes from it: asked at once, as mostly it is nothing.
    pub(super) fn to_claim_from(tx: &Tx<'_>, name: &str) -> Result<Option<(Self, Upkeep)>> {
        tx.row(
            "SELECT key, name, paused, held_until, concurrency, key_concurrency, rate_limit, key_rate_limit, max_attempts, backoff, tokens,
                    tokens_at,
                    EXISTS (SELECT 1 FROM items WHERE queue = q.key AND status = 'claimed' AND lease_expires_at <= ?3),
                    EXISTS (SELECT 1 FROM items WHERE queue = q.key AND status = 'scheduled' AND run_at <= ?3),
                    EXISTS (SELECT 1 FROM queue_keys WHERE queue = q.key),
                    EXISTS (SELECT 1 FROM requirement_classes WHERE queue = q.key)
             FROM queues q WHERE tenant = ?1 AND name = ?2",
            (tx.tenant, name, tx.now),
            |row| {
                let upkeep = Upkeep {
                    has_expired: row.get(12)?,
                    has_due: row.get(13)?,
                    has_keys: row.get(14)?,
                    has_classes: row.get(15)?,
                };
                Ok((Self::read(row)?, upkeep))
            },
        )
    }

    pub(super) fn of(tx: &Tx<'_>, queue: i64) -> Result<Self> {
        tx.row(select!("WHERE key = ?1"), [queue], Self::read)?
            .ok_or_else(|| Error::corrupt("queues", &queue.to_string(), "the row of a queue with items is missing"))
    }

    /// The queue of this name, made if there is none.
    pub(super) fn ensure(tx: &Tx<'_>, name: &Name) -> Result<Self> {
        if let Some(found) = Self::find(tx, name)? {
            return Ok(found);
        }
        let key = tx.next_key("SELECT key FROM queues WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
        tx.execute_one("INSERT INTO queues (key, tenant, name) VALUES (?1, ?2, ?3)", (key, tx.tenant, name))?;
        tx.touch(Topic::Queues, name);
        Self::of(tx, key)
    }

    pub(super) fn read(row: &rusqlite::Row<'_>) -> Result<Self> {
        let columns = Columns::with_id(row, "queues", 1);
        Ok(Self {
            key: columns.get(0)?,
            name: columns.get(1)?,
            paused: columns.get(2)?,
            held_until: columns.get(3)?,
            concurrency: columns.get(4)?,
            key_concurrency: columns.get(5)?,
            rate_limit: columns.json(6)?,
            key_rate_limit: columns.json(7)?,
            max_attempts: columns.get(8)?,
            backoff: columns.json(9)?,
            bucket: Bucket { parts: columns.get(10)?, at: columns.get(11)? },
        })
    }

    /// How many items the limits of the whole queue let through now.
    pub(super) fn room(&self, tx: &Tx<'_>) -> Result<i64> {
        if self.paused || self.held_until.is_some_and(|until| until > tx.now) {
            return Ok(0);
        }
        let mut room = i64::MAX;
        if let Some(limit) = self.concurrency {
            // No further than the limit: it may have been lowered.
            let claimed = tx.row(
                "SELECT count(*) FROM (SELECT 1 FROM items WHERE queue = ?1 AND status = 'claimed' LIMIT ?2)",
                (self.key, limit),
                |row| Ok(row.get::<_, i64>(0)?),
            )?;
            room = room.min(limit - claimed.unwrap_or(0));
        }
        if let Some(rate) = &self.rate_limit {
            if self.bucket.is_ahead(tx.now) {
                self.store(tx, self.bucket.less(rate, 0, tx.now))?;
            }
            room = room.min(self.bucket.tokens(rate, tx.now));
        }
        Ok(room.max(0))
    }

    fn store(&self, tx: &Tx<'_>, bucket: Bucket) -> Result<()> {
        tx.execute_one("UPDATE queues SET tokens = ?2, tokens_at = ?3 WHERE key = ?1", (self.key, bucket.parts, bucket.at))
    }

    /// Takes tokens for `count` claimed items.
    pub(super) fn spend(&self, tx: &Tx<'_>, count: i64) -> Result<()> {
        let Some(rate) = self.rate_limit.as_ref().filter(|_| count > 0) else { return Ok(()) };
        self.store(tx, self.bucket.less(rate, count, tx.now))
    }

    /// How many more items of a concurrency key may run now.
    pub(super) fn room_of_key(&self, tx: &Tx<'_>, concurrency_key: &str) -> Result<i64> {
        let mut room = i64::MAX;
        if let Some(limit) = self.key_concurrency {
            let claimed = tx.row(
                "SELECT count(*) FROM (SELECT 1 FROM items WHERE queue = ?1 AND concurrency_key = ?2 AND status = 'claimed' LIMIT ?3)",
                (self.key, concurrency_key, limit),
                |row| Ok(row.get::<_, i64>(0)?),
            )?;
            room = room.min(limit - claimed.unwrap_or(0));
        }
        let state = KeyState::find(tx, self.key, concurrency_key)?;
        if state.held_until.is_some_and(|until| until > tx.now) {
            return Ok(0);
        }
        if let Some(rate) = &self.key_rate_limit {
            room = room.min(state.bucket.tokens(rate, tx.now));
        }
        Ok(room.max(0))
    }
}

/// The hold and the bucket of one concurrency key.
struct KeyState {
    held_until: Option<i64>,
    bucket: Bucket,
}

impl KeyState {
    fn find(tx: &Tx<'_>, queue: i64, concurrency_key: &str) -> Result<Self> {
        let found = tx.row(
            "SELECT held_until, tokens, tokens_at FROM queue_keys WHERE queue = ?1 AND concurrency_key = ?2",
            (queue, concurrency_key),
            |row| {
                let columns = Columns::new(row, "queue_keys", concurrency_key);
                let bucket = Bucket { parts: columns.get(1)?, at: columns.get(2)? };
                Ok(Self { held_until: columns.get(0)?, bucket })
            },
        )?;
        Ok(found.unwrap_or(Self { held_until: None, bucket: Bucket::FULL }))
    }

    /// Writes the state, with the time at which it next lets something through; or removes it where it holds nothing back.
    fn store(&self, tx: &Tx<'_>, settings: &Settings, concurrency_key: &str) -> Result<()> {
        let held = self.held_until.filter(|&until| until > tx.now);
        let rate = settings.key_rate_limit.as_ref();
        let bucket = rate.map(|rate| (rate, self.bucket.now(rate, tx.now))).filter(|(rate, parts)| *parts < rate.full());
        if held.is_none() && bucket.is_none() {
            tx.execute("DELETE FROM queue_keys WHERE queue = ?1 AND concurrency_key = ?2", (settings.key, concurrency_key))?;
            return Ok(());
        }
        let filled = bucket.map(|(rate, parts)| {
            // The next whole token, or the last one, after which the bucket need not be remembered.
            let wanted = if parts < rate.per_ms { rate.per_ms } else { rate.full() };
            let missing = wanted - parts;
            tx.now.saturating_add(missing / rate.limit + i64::from(missing % rate.limit > 0))
        });
        let horizon = rate.map_or(i64::MAX, |rate| tx.now.saturating_add(rate.horizon()));
        let wake_at = held.or(filled).unwrap_or(tx.now).min(horizon);
        tx.execute_one(
            "INSERT INTO queue_keys (queue, concurrency_key, held_until, tokens, tokens_at, wake_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (queue, concurrency_key) DO UPDATE SET held_until = excluded.held_until, tokens = excluded.tokens,
                 tokens_at = excluded.tokens_at, wake_at = excluded.wake_at",
            (settings.key, concurrency_key, held, bucket.map(|(_, parts)| parts), bucket.map(|_| tx.now), wake_at),
        )
    }
}

/// Takes a token of a key's bucket for one claimed item.
pub(super) fn spend_of_key(tx: &Tx<'_>, settings: &Settings, concurrency_key: &str) -> Result<()> {
    let Some(rate) = &settings.key_rate_limit else { return Ok(()) };
    let mut state = KeyState::find(tx, settings.key, concurrency_key)?;
    state.bucket = state.bucket.less(rate, 1, tx.now);
    state.store(tx, settings, concurrency_key)
}

/// Holds a key back until a time, or lets it go.
pub(super) fn hold_key(tx: &Tx<'_>, settings: &Settings, concurrency_key: &str, until: Option<i64>) -> Result<()> {
    let mut state = KeyState::find(tx, settings.key, concurrency_key)?;
    state.held_until = until;
    state.store(tx, settings, concurrency_key)?;
    rebalance(tx, settings, concurrency_key).map(drop)
}

/// After a change to the items of a key, in a queue that may have limits for keys.
pub(super) fn changed(tx: &Tx<'_>, queue: i64, concurrency_key: Option<&str>) -> Result<()> {
    concurrency_key.map_or(Ok(()), |key| rebalance(tx, &Settings::of(tx, queue)?, key).map(drop))
}

/// Lets the first items of a key into the index of what can be claimed, as many as it has room for, and no others. Answers whether any
/// came in.
pub(super) fn rebalance(tx: &Tx<'_>, settings: &Settings, concurrency_key: &str) -> Result<bool> {
    let room = settings.room_of_key(tx, concurrency_key)?;
    let mut came_in = false;
    for class in classes(tx, settings.key)? {
        let at = (settings.key, concurrency_key, class.key);
        if room == i64::MAX {
            came_in |= let_in(tx, at, WINDOW)?;
            continue;
        }
        let open = tx.row(
            "SELECT count(*) FROM items WHERE queue = ?1 AND concurrency_key = ?2 AND class = ?3 AND blocked = 0 AND status = 'pending'",
            at,
            |row| Ok(row.get::<_, i64>(0)?),
        )?;
        let open = open.unwrap_or(0);
        // The last in claim order go out, the first of the blocked come in.
        tx.execute(
            "UPDATE items SET blocked = 1 WHERE key IN (
                 SELECT key FROM items WHERE queue = ?1 AND concurrency_key = ?2 AND class = ?3 AND blocked = 0 AND status = 'pending'
                 ORDER BY priority, run_at DESC, key DESC LIMIT ?4)",
            (at.0, at.1, at.2, (open - room.min(WINDOW)).max(0)),
        )?;
        if open < room.min(MOST_CLAIMED) {
            came_in |= let_in(tx, at, room.min(WINDOW) - open)?;
        }
        if open > 0 && room > 0 {
            came_in |= restore_order(tx, at)?;
        }
    }
    Ok(came_in)
}

/// Lets the first of the blocked items in. Answers whether there was one.
fn let_in(tx: &Tx<'_>, at: (i64, &str, i64), count: i64) -> Result<bool> {
    let came_in = tx.execute(
        "UPDATE items SET blocked = 0 WHERE key IN (
             SELECT key FROM items WHERE queue = ?1 AND concurrency_key = ?2 AND class = ?3 AND blocked = 1 AND status = 'pending'
             ORDER BY priority DESC, run_at, key LIMIT ?4)",
        (at.0, at.1, at.2, count),
    )?;
    Ok(came_in > 0)
}

/// Exchanges items of a key and class until none that is let in comes after one that is not. An item that arrives may have taken a place
/// that is another's: one that a released item makes by coming back, or that time made without anybody looking. Answers whether there
/// was one.
fn restore_order(tx: &Tx<'_>, at: (i64, &str, i64)) -> Result<bool> {
    let mut came_in = false;
    let read = |row: &rusqlite::Row<'_>| Ok((Reverse(row.get::<_, i64>(0)?), row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    loop {
        let last_open = tx.row(
            "SELECT priority, run_at, key FROM items WHERE queue = ?1 AND concurrency_key = ?2 AND class = ?3 AND blocked = 0 AND status = 'pending'
             ORDER BY priority, run_at DESC, key DESC LIMIT 1",
            at,
            read,
        )?;
        let first_blocked = tx.row(
            "SELECT priority, run_at, key FROM items WHERE queue = ?1 AND concurrency_key = ?2 AND class = ?3 AND blocked = 1 AND status = 'pending'
             ORDER BY priority DESC, run_at, key LIMIT 1",
            at,
            read,
        )?;
        match (last_open, first_blocked) {
            (Some(open), Some(blocked)) if blocked < open => {
                tx.execute_one("UPDATE items SET blocked = 1 WHERE key = ?1 AND status = 'pending' AND blocked = 0", [open.2])?;
                tx.execute_one(
                    "UPDATE items SET blocked = 0 WHERE key = ?1 AND status = 'pending' AND blocked = 1",
                    [blocked.2],
                )?;
                came_in = true;
            }
            _ => return Ok(came_in),
        }
    }
}

/// Looks at every key of a queue again, after its limits have changed.
pub(super) fn rebalance_all(tx: &Tx<'_>, settings: &Settings) -> Result<()> {
    let mut after = String::new();
    // One index step a key: the items of a key are passed over.
    while let Some(key) = tx.row(
        "SELECT concurrency_key FROM items WHERE queue = ?1 AND concurrency_key > ?2 AND status = 'pending' AND concurrency_key IS NOT NULL
         ORDER BY concurrency_key LIMIT 1",
        (settings.key, &after),
        |row| Ok(row.get::<_, String>(0)?),
    )? {
        rebalance(tx, settings, &key)?;
        after = key;
    }
    Ok(())
}

/// Looks again at keys whose hold has ended or whose bucket has filled up since. Answers how many.
pub(super) fn wake_keys(tx: &Tx<'_>, settings: &Settings, limit: i64) -> Result<i64> {
    let mut due = tx.rows(
        "SELECT concurrency_key FROM queue_keys WHERE queue = ?1 AND wake_at <= ?2 ORDER BY wake_at LIMIT ?3",
        (settings.key, tx.now, limit),
        |row| Ok(row.get::<_, String>(0)?),
    )?;
    if let Some(rate) = &settings.key_rate_limit {
        // The clock went back since. Looking at a bucket sets it to the present.
        due.extend(tx.rows(
            "SELECT concurrency_key FROM queue_keys WHERE queue = ?1 AND wake_at > ?2 ORDER BY wake_at DESC LIMIT ?3",
            (settings.key, tx.now.saturating_add(rate.horizon()), limit - due.len() as i64),
            |row| Ok(row.get::<_, String>(0)?),
        )?);
    }
    for key in &due {
        KeyState::find(tx, settings.key, key)?.store(tx, settings, key)?;
        rebalance(tx, settings, key)?;
    }
    Ok(due.len() as i64)
}

/// The settings columns as JSON text.
pub(super) fn json_column(value: Option<&impl Serialize>) -> Result<Option<Json>> {
    value.map(Json::from_value).transpose()
}
