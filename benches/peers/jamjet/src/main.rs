//! JamJet's SQLite backend (jamjet-state 0.3.2) with the same works as runkeep's, for `node benches/native.mjs`. A JSON line each way, until
//! the input ends: `{"work":"append","rows":1000,"iterations":100}` is answered with `{"us":…}`, the mean microseconds of one operation.
//!
//! `SqliteBackend::open` as its documentation has it, without settings: WAL, `synchronous` at SQLite's default, which is FULL, a pool of up
//! to ten connections, and tokio's default runtime.
//!
//! - `append`: `append_event` of a `node_completed` event, into ten executions in turn, with `rows` events beside them in logs of 1,000.
//! - `enqueue`, `claim_complete`: `enqueue_work_item`, and `claim_work_item` with `complete_work_item`, with `rows` pending items.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use chrono::Utc;
use jamjet_core::workflow::{ExecutionId, WorkflowExecution, WorkflowStatus};
use jamjet_state::{Event, EventKind, SqliteBackend, StateBackend, WorkItem};
use serde_json::json;
use uuid::Uuid;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const QUEUE: &str = "steps";
const RUNNING: usize = 10;
const LOG: i64 = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    Append,
    Enqueue,
    ClaimComplete,
}

#[derive(serde::Deserialize)]
struct Request {
    work: Work,
    rows: i64,
    iterations: u32,
}

/// A file, with what `rows` counts.
struct World {
    backend: SqliteBackend,
    running: Vec<ExecutionId>,
    rows: i64,
    turn: usize,
    pending: i64,
}

impl World {
    async fn new(path: PathBuf, work: Work, rows: i64) -> Result<Self> {
        let url = format!("sqlite://{}", path.display());
        let backend = SqliteBackend::open(&url).await.map_err(|error| error.to_string())?;
        // 2 is FULL. What is compared must flush each commit.
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&backend.pool()).await?;
        if synchronous != 2 {
            return Err(format!("synchronous is {synchronous}, not 2").into());
        }
        let mut running = Vec::new();
        for _ in 0..RUNNING {
            running.push(begin(&backend).await?);
        }
        let world = Self { backend, running, rows, turn: 0, pending: rows };
        match work {
            Work::Append => world.fill_logs().await?,
            Work::Enqueue | Work::ClaimComplete => world.fill_queue().await?,
        }
        Ok(world)
    }

    /// What `append_event` writes, in one transaction instead of one each.
    async fn fill_logs(&self) -> Result<()> {
        for _ in 0..self.rows / LOG {
            let execution = begin(&self.backend).await?;
            let mut transaction = self.backend.pool().begin().await?;
            for n in 1..=LOG {
                let event = Event::new(execution.clone(), n, completed(n as usize));
                sqlx::query("INSERT INTO events (id, execution_id, sequence, kind_json, created_at) VALUES (?, ?, ?, ?, ?)")
                    .bind(event.id.to_string())
                    .bind(execution.0.to_string())
                    .bind(n)
                    .bind(serde_json::to_string(&event.kind)?)
                    .bind(event.created_at.to_rfc3339())
                    .execute(&mut *transaction)
                    .await?;
            }
            transaction.commit().await?;
        }
        Ok(())
    }

    /// What `enqueue_work_item` writes, in one transaction instead of one each.
    async fn fill_queue(&self) -> Result<()> {
        let mut transaction = self.backend.pool().begin().await?;
        for n in 0..self.rows as usize {
            let item = self.item(n);
            sqlx::query(
                "INSERT INTO work_items (id, execution_id, node_id, queue_type, payload_json, attempt, max_attempts, status, created_at)
                 VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', ?)",
            )
            .bind(item.id.to_string())
            .bind(item.execution_id.0.to_string())
            .bind(&item.node_id)
            .bind(&item.queue_type)
            .bind(serde_json::to_string(&item.payload)?)
            .bind(i64::from(item.attempt))
            .bind(i64::from(item.max_attempts))
            .bind(item.created_at.to_rfc3339())
            .execute(&mut *transaction)
            .await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    fn execution(&self, n: usize) -> ExecutionId {
        self.running[n % RUNNING].clone()
    }

    fn item(&self, n: usize) -> WorkItem {
        WorkItem {
            id: Uuid::new_v4(),
            execution_id: self.execution(n),
            node_id: "step".into(),
            queue_type: QUEUE.into(),
            payload: json!({ "query": "sky blue", "page": n, "options": { "language": "en", "safe": true, "limit": 20 } }),
            attempt: 0,
            max_attempts: 3,
            created_at: Utc::now(),
            lease_expires_at: None,
            worker_id: None,
            tenant_id: "default".into(),
        }
    }

    async fn measure(&mut self, work: Work, iterations: u32) -> Result<Duration> {
        let mut took = Duration::ZERO;
        for _ in 0..iterations {
            self.turn += 1;
            let turn = self.turn;
            match work {
                Work::Append => {
                    let event = Event::new(self.execution(turn), 0, completed(turn));
                    let start = Instant::now();
                    self.backend.append_event(event).await?;
                    took += start.elapsed();
                }
                Work::Enqueue => {
                    let item = self.item(turn);
                    let start = Instant::now();
                    self.backend.enqueue_work_item(item).await?;
                    took += start.elapsed();
                    self.pending += 1;
                }
                Work::ClaimComplete => {
                    if self.pending < self.rows {
                        self.backend.enqueue_work_item(self.item(turn)).await?;
                        self.pending += 1;
                    }
                    let start = Instant::now();
                    let claimed = self.backend.claim_work_item("worker", &[QUEUE]).await?.ok_or("nothing is pending")?;
                    self.backend.complete_work_item(claimed.id).await?;
                    took += start.elapsed();
                    self.pending -= 1;
                }
            }
        }
        Ok(took)
    }
}

async fn begin(backend: &SqliteBackend) -> Result<ExecutionId> {
    let (id, now) = (ExecutionId::new(), Utc::now());
    let execution = WorkflowExecution {
        execution_id: id.clone(),
        workflow_id: "research".into(),
        workflow_version: "1".into(),
        status: WorkflowStatus::Running,
        initial_input: json!(null),
        current_state: json!({}),
        started_at: now,
        updated_at: now,
        completed_at: None,
        session_type: None,
    };
    backend.create_execution(execution).await?;
    Ok(id)
}

fn completed(n: usize) -> EventKind {
    EventKind::NodeCompleted {
        node_id: format!("step-{}", n % 10),
        output: json!({
            "n": n,
            "text": "A sentence or two that the step has put out, as long as such things are in the middle of a run.",
        }),
        state_patch: json!({ "last": n }),
        duration_ms: 1200,
        gen_ai_system: None,
        gen_ai_model: None,
        input_tokens: None,
        output_tokens: None,
        finish_reason: None,
        cost_usd: None,
        provenance: None,
    }
}

/// The files, in a folder that is removed in the end.
struct Worlds {
    folder: PathBuf,
    all: HashMap<(Work, i64), World>,
}

impl Worlds {
    async fn answer(&mut self, line: &str) -> Result<serde_json::Value> {
        let Request { work, rows, iterations } = serde_json::from_str(line)?;
        // What is enqueued is claimed.
        let key = (if work == Work::Enqueue { Work::ClaimComplete } else { work }, rows);
        if !self.all.contains_key(&key) {
            let path = self.folder.join(format!("{}.db", self.all.len()));
            self.all.insert(key, World::new(path, work, rows).await?);
        }
        let world = self.all.get_mut(&key).ok_or("there is no such world")?;
        let took = world.measure(work, iterations).await?;
        Ok(json!({ "us": took.as_secs_f64() * 1e6 / f64::from(iterations.max(1)) }))
    }
}

impl Drop for Worlds {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("runkeep-jamjet-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut worlds = Worlds { folder, all: HashMap::new() };
    for line in std::io::stdin().lines() {
        let answer = worlds.answer(&line?).await.unwrap_or_else(|error| json!({ "error": error.to_string() }));
        println!("{answer}");
    }
    Ok(())
}
