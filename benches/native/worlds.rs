//! The files that are measured.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use runkeep::events::{AppendEvents, EventInput};
use runkeep::executions::CreateExecution;
use runkeep::queue::EnqueueItems;
use runkeep::{Clock, Json, Name, Options, Store, SystemClock};
use rusqlite::Connection;

use crate::floor::Floor;
use crate::{LOG, RUNNING, Result, event, item, log, payload, running};

/// What a file is full of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    Logs,
    Queue,
    Executions,
}

/// A file that an engine has open.
pub struct World<E> {
    pub engine: E,
    /// How many there were in the beginning.
    pub rows: i64,
    /// How often it was used.
    pub turn: i64,
    /// How many items are pending, where it is a queue.
    pub pending: i64,
}

impl<E> World<E> {
    fn new(engine: E, rows: i64) -> Self {
        Self { engine, rows, turn: 0, pending: rows }
    }
}

/// All files, in a folder that is removed in the end.
pub struct Worlds {
    folder: PathBuf,
    runkeep: HashMap<(Family, i64), World<Store>>,
    floor: HashMap<(Family, i64), World<Floor>>,
}

impl Worlds {
    pub fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("runkeep-native-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, runkeep: HashMap::new(), floor: HashMap::new() })
    }

    pub fn runkeep(&mut self, family: Family, rows: i64) -> Result<&mut World<Store>> {
        if !self.runkeep.contains_key(&(family, rows)) {
            let store = Store::open(self.copy(family, rows, "runkeep")?)?;
            self.runkeep.insert((family, rows), World::new(store, rows));
        }
        self.runkeep.get_mut(&(family, rows)).ok_or_else(|| "there is no such world".into())
    }

    pub fn floor(&mut self, family: Family, rows: i64) -> Result<&mut World<Floor>> {
        if !self.floor.contains_key(&(family, rows)) {
            let floor = Floor::open(&self.copy(family, rows, "floor")?, Arc::new(SystemClock))?;
            self.floor.insert((family, rows), World::new(floor, rows));
        }
        self.floor.get_mut(&(family, rows)).ok_or_else(|| "there is no such world".into())
    }

    /// A copy of the file with so many rows, which is made once.
    pub fn copy(&self, family: Family, rows: i64, name: &str) -> Result<PathBuf> {
        let original = self.folder.join(format!("{family:?}-{rows}.db"));
        if !original.exists() {
            fill(&original, family, rows)?;
        }
        let path = self.folder.join(format!("{family:?}-{rows}-{name}.db"));
        fs::copy(&original, &path)?;
        // Otherwise the first flushes that are measured would write it out.
        File::open(&path)?.sync_all()?;
        Ok(path)
    }
}

impl Drop for Worlds {
    fn drop(&mut self) {
        self.runkeep.clear();
        self.floor.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Store> {
    Ok(Store::open_with(path, Options { clock, ..Options::default() })?)
}

fn fill(path: &Path, family: Family, rows: i64) -> Result<()> {
    let store = Store::open(path)?;
    for n in 0..RUNNING {
        begin(&store, running(n)?)?;
    }
    match family {
        Family::Logs => (0..(rows / LOG).max(1)).try_for_each(|n| fill_log(&store, &log(n)?))?,
        Family::Queue => {
            for from in (0..rows).step_by(1000) {
                let items = (from..rows.min(from + 1000)).map(|n| item(running(n)?, payload(n)?)).collect::<Result<_>>()?;
                store.queue().enqueue_many(EnqueueItems { items })?;
            }
        }
        Family::Executions => {}
    }
    store.close()?;
    if family == Family::Executions { fill_executions(path, rows) } else { Ok(()) }
}

fn begin(store: &Store, id: Name) -> Result<()> {
    let execution = CreateExecution { id: Some(id.clone()), workflow_id: "research".parse()?, ..Default::default() };
    store.executions().create(execution)?;
    let data = Json::parse(r#"{"workflowId":"research","workflowVersion":"1","initialInput":null}"#)?;
    append(store, id, vec![EventInput { event_type: "workflow_started".parse()?, data: Some(data), ..Default::default() }])
}

fn append(store: &Store, execution_id: Name, events: Vec<EventInput>) -> Result<()> {
    store.events().append_many(AppendEvents { execution_id, events, ..Default::default() })?;
    Ok(())
}

/// Snapshots come at 50, 150 … 950: the last 50 events are after the newest.
fn fill_log(store: &Store, id: &Name) -> Result<()> {
    begin(store, id.clone())?;
    let completed = |n| Ok(EventInput { event_type: "node_completed".parse()?, data: Some(event(n)?.1), ..Default::default() });
    let mut next = 2;
    for to in (50..LOG).step_by(100).chain([LOG]) {
        append(store, id.clone(), (next..=to).map(completed).collect::<Result<_>>()?)?;
        next = to + 1;
    }
    Ok(())
}

/// Copies of one execution, as it is after its first event.
fn fill_executions(path: &Path, rows: i64) -> Result<()> {
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(&format!(
        "CREATE TEMP TABLE more AS WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT {rows})
             SELECT (SELECT max(key) FROM main.executions) + n AS key, n FROM numbers;
         INSERT INTO executions (key, tenant, id, workflow_id, status, segment, last_sequence, created_at, started_at, updated_at, changed,
                                 tail_bytes)
             SELECT m.key, 1, 'run-' || m.n, workflow_id, status, segment, last_sequence, created_at, started_at, updated_at,
                    1000 + m.n, tail_bytes
             FROM more m JOIN executions e ON e.id = 'running-0';
         INSERT INTO execution_documents (execution, input, tags)
             SELECT key, '{{\"question\":\"Why is the sky blue?\"}}', '[\"sky\"]' FROM more;
         INSERT INTO execution_states (execution, state) SELECT key, '{{\"last\":' || n || '}}' FROM more;
         INSERT INTO events (execution, sequence, tenant, id, type, data, created_at)
             SELECT m.key, v.sequence, 1, v.id || '-' || m.n, v.type, v.data, v.created_at
             FROM more m JOIN events v ON v.execution = (SELECT key FROM executions WHERE id = 'running-0');
         UPDATE execution_counts SET count = count + {rows} WHERE status = 'running';
         DROP TABLE more;"
    ))?;
    transaction.commit()?;
    Ok(())
}
