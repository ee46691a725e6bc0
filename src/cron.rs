//! Cron: schedules that begin an execution, and its first work item, each time they come due. The sweep fires them.

use rusqlite::Row;
use serde_json::json;

use crate::error::{Error, ErrorCode, Result};
use crate::executions::{self, Created, Execution, begin, existing};
use crate::ids::{Name, new_id};
use crate::json::Json;
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder};
use crate::queue::{self, EnqueueItem};
use crate::store::{Columns, Tx};
use crate::sweep::{Problem, SweepReport};
use crate::tenants;
use crate::zones::Schedule;

words! {
    #[derive(Default)]
    /// What becomes of the times that passed while nobody swept.
    pub enum CatchUp {
        /// Nothing: what is late by more than two minutes does not fire.
        #[default]
        Skip = "skip",
        /// However many there are, it fires once for them.
        Once = "once",
        /// Each fires, oldest first.
        All = "all",
    }
}

records! {
    /// A schedule by which executions begin.
    pub struct CronSchedule {
        pub name: String,
        pub expression: String,
        pub timezone: String,
        pub workflow_id: String,
        pub workflow_version: Option<String>,
        pub input: Json,
        /// The first work item of each execution, as it was given.
        pub enqueue: Option<Json>,
        pub enabled: bool,
        pub catch_up: CatchUp,
        /// Unix milliseconds: when it comes due next, or has come due and not fired yet. Absent while it is disabled.
        pub next_at: Option<i64>,
        /// Unix milliseconds: when it fired last.
        pub last_at: Option<i64>,
        /// Why it could not fire; absent once it has fired again.
        pub last_error: Option<Problem>,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds: when it was put last.
        pub updated_at: i64,
    }
}

arguments! {
    /// A schedule. There is one under a name: putting it again changes it.
    pub struct PutCron {
        pub name: Name,
        /// Five fields: minute, hour, day of the month, month, day of the week. Names, ranges, lists and steps are fine; a day of the
        /// month and a day of the week together mean either.
        pub expression: String,
        /// An IANA name such as `Europe/Berlin`; `UTC` unless given.
        pub timezone: Option<String>,
        pub workflow_id: Name,
        pub workflow_version: Option<Name>,
        /// The input of each execution: any JSON; null unless given.
        pub input: Option<Json>,
        /// The first work item of each execution.
        pub enqueue: Option<CronItem>,
        /// Stays as it is unless given; true at first.
        pub enabled: Option<bool>,
        /// `skip` unless given.
        pub catch_up: Option<CatchUp>,
    }

    pub struct CronItem {
        pub queue: Name,
        pub node_id: Name,
        /// Any JSON; null unless given.
        pub payload: Option<Json>,
    }

    pub struct CronName {
        pub name: Name,
    }

    /// Which schedules to list.
    pub struct ListCrons {
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

/// How late a time may fire that is not caught up with: timers of a hidden page run once a minute.
const PUNCTUAL_MS: i64 = 2 * 60 * 1000;

/// How long a schedule that could not fire is left alone.
const RETRY_MS: i64 = 60 * 1000;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT key, name, expression, timezone, workflow_id, workflow_version, input, enqueue, enabled, catch_up, next_at, last_at,
                    last_error, created_at, updated_at
             FROM crons ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<CronSchedule> {
    let columns = Columns::with_id(row, "crons", 1);
    Ok(CronSchedule {
        name: columns.get(1)?,
        expression: columns.get(2)?,
        timezone: columns.get(3)?,
        workflow_id: columns.get(4)?,
        workflow_version: columns.get(5)?,
        input: columns.get(6)?,
        enqueue: columns.get(7)?,
        enabled: columns.get(8)?,
        catch_up: columns.get(9)?,
        next_at: columns.get(10)?,
        last_at: columns.get(11)?,
        last_error: columns.json(12)?,
        created_at: columns.get(13)?,
        updated_at: columns.get(14)?,
    })
}

fn by_key(tx: &Tx<'_>, key: i64) -> Result<CronSchedule> {
    tx.row(select!("WHERE key = ?1"), [key], read)?
        .ok_or_else(|| Error::corrupt("crons", &tx.number_of(key).to_string(), "its row is missing"))
}

fn key_of(tx: &Tx<'_>, name: &Name) -> Result<Option<i64>> {
    tx.row("SELECT key FROM crons WHERE tenant = ?1 AND name = ?2", (tx.tenant, name), |row| Ok(row.get(0)?))
}

pub(crate) fn put(tx: &Tx<'_>, arguments: PutCron) -> Result<Created<CronSchedule>> {
    tx.document("input", arguments.input.as_ref())?;
    let timezone = arguments.timezone.as_deref().unwrap_or("UTC");
    let next_at = Schedule::new(tx.zones, &arguments.expression, timezone)?.next(tx.now)?;
    let enqueue = arguments.enqueue.as_ref().map(Json::from_value).transpose()?;
    if let Some(item) = arguments.enqueue {
        // Of an execution that is yet to begin.
        queue::check_item(tx, "enqueue.", &first_item(item, &arguments.name))?;
    }
    tenants::may_create(tx)?;
    let known = tx.row(
        "SELECT key, expression, timezone, enabled, next_at, wake_at FROM crons WHERE tenant = ?1 AND name = ?2",
        (tx.tenant, &arguments.name),
        |row| {
            let columns = Columns::new(row, "crons", arguments.name.as_str());
            let is_same = columns.get::<String>(1)? == arguments.expression && columns.get::<String>(2)? == timezone;
            let times = columns.get::<Option<i64>>(4)?.zip(columns.get::<Option<i64>>(5)?);
            // An application that puts its schedules whenever it starts must not lose what came due before.
            Ok((columns.get::<i64>(0)?, columns.get::<bool>(3)?, times.filter(|_| is_same)))
        },
    )?;
    tx.touch(Topic::Crons, &arguments.name);
    let was_enabled = known.is_none_or(|(_, enabled, _)| enabled);
    let enabled = arguments.enabled.unwrap_or(was_enabled);
    let kept = known.and_then(|(_, _, times)| times);
    let (next_at, wake_at) = kept.or(Some((next_at, next_at))).filter(|_| enabled).unzip();
    let input = arguments.input.unwrap_or_default();
    let catch_up = arguments.catch_up.unwrap_or_default();
    let key = match known {
        Some((key, ..)) => {
            tx.execute_one(
                "UPDATE crons SET expression = ?2, timezone = ?3, workflow_id = ?4, workflow_version = ?5, input = ?6, enqueue = ?7,
                                  enabled = ?8, catch_up = ?9, next_at = ?10, wake_at = ?11, updated_at = ?12
                 WHERE key = ?1",
                (
                    key,
                    &arguments.expression,
                    timezone,
                    &arguments.workflow_id,
                    &arguments.workflow_version,
                    input,
                    enqueue,
                    enabled,
                    catch_up,
                    next_at,
                    wake_at,
                    tx.now,
                ),
            )?;
            key
        }
        None => {
            let key = tx.next_key("SELECT key FROM crons WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
            tx.execute_one(
                "INSERT INTO crons (key, tenant, name, expression, timezone, workflow_id, workflow_version, input, enqueue, enabled,
                                    catch_up, next_at, wake_at, created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14)",
                (
                    key,
                    tx.tenant,
                    &arguments.name,
                    &arguments.expression,
                    timezone,
                    &arguments.workflow_id,
                    &arguments.workflow_version,
                    input,
                    enqueue,
                    enabled,
                    catch_up,
                    next_at,
                    wake_at,
                    tx.now,
                ),
            )?;
            key
        }
    };
    Ok(Created { record: by_key(tx, key)?, created: known.is_none() })
}

pub(crate) fn get(tx: &Tx<'_>, arguments: CronName) -> Result<Option<CronSchedule>> {
    tx.row(select!("WHERE tenant = ?1 AND name = ?2"), (tx.tenant, &arguments.name), read)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListCrons) -> Result<Page<CronSchedule>> {
    let mut page = PageBuilder::unfiltered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => select!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"),
        Order::Desc => select!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3"),
    };
    let weigh =
        |cron: &CronSchedule| cron.input.as_str().len() + cron.enqueue.as_ref().map_or(0, |item| item.as_str().len()) + 500;
    tx.walk(sql, (from, to, page.scanned()), |row| page.visit(tx.number_of(row.get(0)?), read(row), weigh))?;
    Ok(page.finish())
}

/// Deletes a schedule. What it began goes on.
pub(crate) fn delete(tx: &Tx<'_>, arguments: CronName) -> Result<()> {
    let key = key_of(tx, &arguments.name)?.ok_or_else(|| Error::not_found("cron", &arguments.name))?;
    tx.touch(Topic::Crons, &arguments.name);
    tx.execute_one("DELETE FROM crons WHERE key = ?1", [key])
}

/// Fires a schedule now, whether or not it is enabled. When it comes due next does not change.
pub(crate) fn trigger(tx: &Tx<'_>, arguments: CronName) -> Result<Execution> {
    let key = key_of(tx, &arguments.name)?.ok_or_else(|| Error::not_found("cron", &arguments.name))?;
    let cron = by_key(tx, key)?;
    let id = start(tx, &cron, &json!({ "cron": cron.name, "dueAt": tx.now, "triggered": true }))?;
    tx.touch(Topic::Crons, &cron.name);
    tx.execute_one("UPDATE crons SET last_at = ?2, last_error = NULL WHERE key = ?1", (key, tx.now))?;
    existing(tx, &id)
}

fn first_item(item: CronItem, execution_id: &Name) -> EnqueueItem {
    EnqueueItem {
        queue: item.queue,
        execution_id: Some(execution_id.clone()),
        node_id: Some(item.node_id),
        payload: item.payload,
        ..EnqueueItem::default()
    }
}

/// Begins an execution of a schedule, and enqueues its first work item. Answers its id.
fn start(tx: &Tx<'_>, cron: &CronSchedule, metadata: &serde_json::Value) -> Result<String> {
    let id = new_id(tx.now);
    begin(
        tx,
        &executions::Beginning {
            id: id.clone(),
            workflow_id: cron.workflow_id.clone(),
            workflow_version: cron.workflow_version.clone(),
            session_type: None,
            parent_id: None,
            segment: 0,
            input: cron.input.clone(),
            tags: Vec::new(),
            metadata: Some(metadata.into()),
            digest: None,
            base: None,
        },
    )?;
    if let Some(item) = &cron.enqueue {
        let item = item.read().map_err(|error| Error::corrupt("crons", &cron.name, format!("enqueue: {}", error.message())))?;
        queue::enqueue_named(tx, "enqueue.", first_item(item, &id.parse()?))?;
    }
    Ok(id)
}

/// Fires the schedule that is due for longest, for one of its times. Answers how many it dealt with: one, or none.
pub(crate) fn fire_due(tx: &Tx<'_>, report: &mut SweepReport) -> Result<i64> {
    // As with timers: what a suspended tenant's schedules bring has to wait, and is no fault.
    if !tenants::is_active(tx)? {
        return Ok(0);
    }
    let due = tx.row(
        "SELECT key FROM crons WHERE tenant = ?1 AND wake_at <= ?2 ORDER BY wake_at LIMIT 1",
        (tx.tenant, tx.now),
        |row| Ok(row.get::<_, i64>(0)?),
    )?;
    let Some(key) = due else { return Ok(0) };
    match tx.attempt(|tx| fire(tx, key))? {
        Ok(fired) => report.crons_fired += i64::from(fired),
        Err(error) => {
            // Still due, and tried again later: meanwhile it is in nobody's way.
            tx.execute_one(
                "UPDATE crons SET wake_at = ?2, last_error = ?3 WHERE key = ?1",
                (key, tx.now.saturating_add(RETRY_MS), Json::of(&Problem::of(&error))?),
            )?;
            let name = tx.row("SELECT name FROM crons WHERE key = ?1", [key], |row| Ok(row.get::<_, String>(0)?))?;
            tx.touch(Topic::Crons, name.as_deref().unwrap_or_default());
            report.failed("crons", name, &error);
        }
    }
    Ok(1)
}

/// Fires a schedule for the time that it is due for, and moves it to the next one. Answers whether that time was not too long ago.
fn fire(tx: &Tx<'_>, key: i64) -> Result<bool> {
    let cron = by_key(tx, key)?;
    tx.touch(Topic::Crons, &cron.name);
    let due = cron.next_at.ok_or_else(|| Error::corrupt("crons", &cron.name, "next_at is missing"))?;
    let schedule = Schedule::new(tx.zones, &cron.expression, &cron.timezone)?;
    let late_by_ms = tx.now.saturating_sub(due);
    let (fires_for, next_at) = match cron.catch_up {
        CatchUp::Skip if late_by_ms > PUNCTUAL_MS => (None, schedule.next_from(tx.now.saturating_sub(PUNCTUAL_MS))?),
        CatchUp::Skip | CatchUp::All => (Some(due), schedule.next(due)?),
        // For the newest of the missed ones.
        CatchUp::Once => (Some(schedule.last(tx.now)?.max(due)), schedule.next(tx.now)?),
    };
    if let Some(due) = fires_for {
        start(tx, &cron, &json!({ "cron": cron.name, "dueAt": due }))?;
    }
    // Where it is due again already, other schedules have their turn first.
    let moved = tx.execute(
        "UPDATE crons SET next_at = ?3, wake_at = ?4, last_at = coalesce(?5, last_at), last_error = NULL WHERE key = ?1 AND next_at = ?2",
        (key, due, next_at, next_at.max(tx.now), fires_for.map(|_| tx.now)),
    )?;
    match moved {
        1 => Ok(fires_for.is_some()),
        _ => Err(Error::new(ErrorCode::Internal, format!("the schedule {:?} changed while it fired", cron.name))),
    }
}
