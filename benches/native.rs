//! runkeep beside the floor (see `native/floor.rs`), for `node benches/native.mjs`, which lets several programs take turns. A JSON line
//! each way, until the input ends:
//!
//! `{"engine":"runkeep","work":"append","rows":1000,"synchronous":"full","iterations":100}` is answered with `{"us":…}`, the mean
//! microseconds of one operation, and with `{"error":…}` where it failed. No iterations prepare the file and measure nothing.
//! `{"work":"verify"}` has both engines do the same on copies of one file, and compares all rows, and all that is read.
//!
//! - `append`: a `node_completed` event with a patch of one key for the state, into ten running executions in turn. Beside them the store
//!   holds `rows` events, in logs of 1,000.
//! - `materialize_at`: the fold of one of those logs at its last sequence, each in turn: from a snapshot at 950, and 50 events after it.
//! - `materialize`: the same without a sequence, which the store knows in memory once it has been asked for.
//! - `list_events`: 100 of such a log.
//! - `enqueue`, `claim_complete`: in a queue with `rows` pending items, of ten executions. A claim takes one item.
//! - `list_items`: 100 of those. `list_executions`: 100 of `rows` executions.
#![allow(clippy::disallowed_methods, reason = "this measures real time")]

#[path = "native/floor.rs"]
mod floor;
#[path = "native/verify.rs"]
mod verify;
#[path = "native/worlds.rs"]
mod worlds;

use std::hint::black_box;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use runkeep::events::{AppendEvent, Event, ListEvents};
use runkeep::executions::{Execution, ListExecutions, Materialize};
use runkeep::queue::{ClaimItems, CompleteItem, EnqueueItem, ListItems, WorkItem};
use runkeep::{Durability, Json, Materialized, Name, Page, Store};
use serde_json::json;
use worlds::{Family, World, Worlds};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

pub const QUEUE: &str = "steps";
pub const WORKER: &str = "worker";
pub const LEASE_MS: i64 = 30_000;

/// How many executions are running.
pub const RUNNING: i64 = 10;

/// How many events the other executions have, and how many nodes any has.
pub const LOG: i64 = 1000;
pub const NODES: i64 = 10;

/// What both engines can do, one transaction each.
pub trait Engine {
    type Claimed;
    type Executions;
    type Items;
    type Events;
    type Materialized;

    fn set_durability(&self, durability: Durability) -> Result<()>;
    /// Appends a `node_completed` event; `patch` is the `statePatch` in its data.
    fn append(&self, execution: Name, patch: &str, data: Json) -> Result<()>;
    fn enqueue(&self, execution: Name, payload: Json) -> Result<()>;
    fn claim(&self) -> Result<Self::Claimed>;
    fn complete(&self, claimed: Self::Claimed, output: Json) -> Result<()>;
    /// A page of 100 after so many rows.
    fn list_executions(&self, after: i64) -> Result<Self::Executions>;
    fn list_items(&self, after: i64) -> Result<Self::Items>;
    fn list_events(&self, execution: Name, after: i64) -> Result<Self::Events>;
    fn materialize(&self, execution: Name, at: Option<i64>) -> Result<Self::Materialized>;
}

impl Engine for Store {
    type Claimed = WorkItem;
    type Executions = Page<Execution>;
    type Items = Page<WorkItem>;
    type Events = Page<Event>;
    type Materialized = Materialized;

    fn set_durability(&self, durability: Durability) -> Result<()> {
        Ok(Store::set_durability(self, durability)?)
    }

    fn append(&self, execution: Name, _: &str, data: Json) -> Result<()> {
        let event_type = "node_completed".parse()?;
        let event = AppendEvent { execution_id: execution, event_type, data: Some(data), ..Default::default() };
        black_box(self.events().append(event)?);
        Ok(())
    }

    fn enqueue(&self, execution: Name, payload: Json) -> Result<()> {
        black_box(self.queue().enqueue(item(execution, payload)?)?);
        Ok(())
    }

    fn claim(&self) -> Result<WorkItem> {
        let claim = ClaimItems { worker_id: WORKER.parse()?, queues: vec![QUEUE.parse()?], ..Default::default() };
        Ok(self.queue().claim(claim)?.pop().ok_or("nothing is pending")?)
    }

    fn complete(&self, claimed: WorkItem, output: Json) -> Result<()> {
        let complete = CompleteItem { id: claimed.id.parse()?, fence: claimed.fence, output: Some(output), ..Default::default() };
        black_box(self.queue().complete(complete)?);
        Ok(())
    }

    fn list_executions(&self, after: i64) -> Result<Page<Execution>> {
        Ok(self.executions().list(ListExecutions { cursor: Some(after.to_string()), ..Default::default() })?)
    }

    fn list_items(&self, after: i64) -> Result<Page<WorkItem>> {
        Ok(self.queue().list(ListItems { cursor: Some(after.to_string()), ..Default::default() })?)
    }

    fn list_events(&self, execution: Name, after: i64) -> Result<Page<Event>> {
        Ok(self.events().list(ListEvents { execution_id: execution, after: Some(after), ..Default::default() })?)
    }

    fn materialize(&self, execution: Name, at: Option<i64>) -> Result<Materialized> {
        Ok(self.executions().materialize(Materialize { id: execution, at })?)
    }
}

pub fn item(execution: Name, payload: Json) -> Result<EnqueueItem> {
    let (execution_id, node_id) = (Some(execution), Some("step".parse()?));
    Ok(EnqueueItem { queue: QUEUE.parse()?, execution_id, node_id, payload: Some(payload), ..Default::default() })
}

pub fn running(n: i64) -> Result<Name> {
    Ok(format!("running-{}", n % RUNNING).parse()?)
}

pub fn log(n: i64) -> Result<Name> {
    Ok(format!("log-{n}").parse()?)
}

/// The patch and the data of the event with sequence `n`.
pub fn event(n: i64) -> Result<(String, Json)> {
    let patch = format!(r#"{{"last":{n}}}"#);
    let text = "A sentence or two that the step has put out, as long as such things are in the middle of a run.";
    let data = format!(
        r#"{{"nodeId":"step-{}","output":{{"n":{n},"text":"{text}"}},"statePatch":{patch},"durationMs":1200}}"#,
        n % NODES
    );
    Ok((patch, Json::parse(data)?))
}

pub fn payload(n: i64) -> Result<Json> {
    Ok(Json::parse(format!(r#"{{"query":"sky blue","page":{n},"options":{{"language":"en","safe":true,"limit":20}}}}"#))?)
}

pub fn output(n: i64) -> Result<Json> {
    Ok(Json::parse(format!(r#"{{"answer":"Rayleigh scattering","page":{n}}}"#))?)
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    Append,
    Enqueue,
    ClaimComplete,
    ListExecutions,
    ListItems,
    ListEvents,
    Materialize,
    MaterializeAt,
}

impl Work {
    fn family(self) -> Family {
        match self {
            Self::Append | Self::ListEvents | Self::Materialize | Self::MaterializeAt => Family::Logs,
            Self::Enqueue | Self::ClaimComplete | Self::ListItems => Family::Queue,
            Self::ListExecutions => Family::Executions,
        }
    }
}

#[derive(serde::Deserialize)]
struct Request {
    engine: String,
    work: Work,
    rows: i64,
    synchronous: String,
    iterations: u32,
}

/// Does a work so many times, and answers how long that took.
fn measure<E: Engine>(world: &mut World<E>, work: Work, iterations: u32) -> Result<Duration> {
    // Far from each other, so that no page is met twice in a row.
    const STRIDE: i64 = 7919;
    let mut took = Duration::ZERO;
    for _ in 0..iterations {
        world.turn += 1;
        let World { engine, rows, turn, pending, .. } = &mut *world;
        let (rows, turn) = (*rows, *turn);
        let some_log = || log(turn * STRIDE % (rows / LOG).max(1));
        let somewhere = turn * STRIDE % (rows - 100).max(1);
        match work {
            Work::Append => {
                let (execution, (patch, data)) = (running(turn)?, event(2 + turn / RUNNING)?);
                took += time(|| engine.append(execution, &patch, data))?;
            }
            Work::Enqueue => {
                let (execution, payload) = (running(turn)?, payload(turn)?);
                took += time(|| engine.enqueue(execution, payload))?;
                *pending += 1;
            }
            Work::ClaimComplete => {
                if *pending < rows {
                    engine.enqueue(running(turn)?, payload(turn)?)?;
                    *pending += 1;
                }
                let output = output(turn)?;
                took += time(|| engine.complete(engine.claim()?, output))?;
                *pending -= 1;
            }
            Work::ListExecutions => took += time(|| engine.list_executions(somewhere))?,
            Work::ListItems => took += time(|| engine.list_items(somewhere))?,
            Work::ListEvents => {
                let execution = some_log()?;
                took += time(|| engine.list_events(execution, somewhere % (LOG - 100)))?;
            }
            Work::Materialize | Work::MaterializeAt => {
                let (execution, at) = (some_log()?, matches!(work, Work::MaterializeAt).then_some(LOG));
                took += time(|| engine.materialize(execution, at))?;
            }
        }
    }
    Ok(took)
}

/// How long it takes, to the end of what is answered.
// A function of its own, so that a profiler can be told to look at nothing else.
#[inline(never)]
fn time<R>(body: impl FnOnce() -> Result<R>) -> Result<Duration> {
    let start = Instant::now();
    drop(black_box(body()?));
    Ok(start.elapsed())
}

fn answer(worlds: &mut Worlds, line: &str) -> Result<serde_json::Value> {
    let request: serde_json::Value = serde_json::from_str(line)?;
    if request["work"] == "verify" {
        return Ok(json!({ "verified": verify::verify(worlds)? }));
    }
    let request: Request = serde_json::from_value(request)?;
    let durability = if request.synchronous == "full" { Durability::Strict } else { Durability::Relaxed };
    let took = match request.engine.as_str() {
        "runkeep" => {
            let world = worlds.runkeep(request.work.family(), request.rows)?;
            world.engine.set_durability(durability)?;
            measure(world, request.work, request.iterations)
        }
        "floor" => {
            let world = worlds.floor(request.work.family(), request.rows)?;
            world.engine.set_durability(durability)?;
            measure(world, request.work, request.iterations)
        }
        other => Err(format!("there is no engine {other:?}").into()),
    }?;
    Ok(json!({ "us": took.as_secs_f64() * 1e6 / f64::from(request.iterations.max(1)) }))
}

fn main() -> Result<()> {
    let mut worlds = Worlds::new()?;
    for line in std::io::stdin().lock().lines() {
        let answer = answer(&mut worlds, &line?).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}
