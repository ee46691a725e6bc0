//! What cannot be done faster on this schema with SQLite: the fewest prepared statements that leave the same rows as runkeep does, or that
//! read what its answer is made of. Nothing is checked, no call is told from a repeated one, and no record is answered.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;

use runkeep::{Clock, Durability, Json, Name};
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, Row};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::{Engine, LEASE_MS, NODES, QUEUE, Result, WORKER};

/// The key of the first row of the plain store's tenant, less one, and the keys after it.
const KEYS: i64 = 1 << 40;

const SNAPSHOT_EVERY: i64 = 100;

pub struct Floor {
    connection: Connection,
    clock: Arc<dyn Clock>,
}

/// A row of a list: names as in runkeep's answer, and values.
pub type Record = Vec<Value>;

/// The nodes of a fold, and where the output of each is.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fold {
    completed_nodes: BTreeMap<String, At>,
}

#[derive(serde::Deserialize)]
struct At {
    at: i64,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Completion<'a> {
    node_id: &'a str,
    #[serde(borrow)]
    output: &'a RawValue,
}

/// What [`Engine::materialize`] answers: status, state, outputs and the last sequence.
pub struct Materialized {
    pub status: String,
    pub state: Option<String>,
    pub completed_nodes: BTreeMap<String, Box<RawValue>>,
    pub last_sequence: i64,
}

impl Floor {
    /// Opens a file that runkeep has made, with the pragmas that it opens it with.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(
            "PRAGMA journal_mode = wal;
             PRAGMA foreign_keys = on;
             PRAGMA temp_store = memory;
             PRAGMA cache_size = -16384;",
        )?;
        connection.set_prepared_statement_cache_capacity(256);
        Ok(Self { connection, clock })
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    fn execute(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<()> {
        match self.prepare(sql)?.execute(parameters)? {
            1 => Ok(()),
            changed => Err(format!("{changed} rows changed: {sql}").into()),
        }
    }

    fn transaction<R>(&self, begin: &str, body: impl FnOnce(i64) -> Result<R>) -> Result<R> {
        self.prepare(begin)?.execute(())?;
        let answer = body(self.clock.now())?;
        self.prepare("COMMIT")?.execute(())?;
        Ok(answer)
    }

    fn write<R>(&self, body: impl FnOnce(i64) -> Result<R>) -> Result<R> {
        self.transaction("BEGIN IMMEDIATE", body)
    }

    fn page(&self, sql: &str, parameters: impl rusqlite::Params) -> Result<Vec<Record>> {
        let mut statement = self.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query(parameters)?;
        let mut page = Vec::with_capacity(100);
        while let Some(row) = rows.next()? {
            page.push((0..columns).map(|at| row.get(at)).collect::<rusqlite::Result<Record>>()?);
        }
        Ok(page)
    }

    /// The names of the columns of a list, for checking it.
    pub fn columns(&self, sql: &str) -> Result<Vec<String>> {
        Ok(self.prepare(sql)?.column_names().into_iter().map(str::to_owned).collect())
    }
}

fn new_id(now: i64) -> String {
    let ms = now as u64;
    uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, ms / 1000, ((ms % 1000) * 1_000_000) as u32)).to_string()
}

/// The snapshot of a log as [`crate::event`] makes it: what each node has put out is in its newest event.
fn fold(last: i64, started_at: i64) -> String {
    let nodes: Vec<String> = (0..NODES)
        .map(|node| {
            let at = last - (last - node).rem_euclid(NODES);
            format!(r#""step-{node}":{{"at":{at}}}"#)
        })
        .collect();
    format!(
        r#"{{"outcome":{{"status":"running","state":{{"last":{last}}},"startedAt":{started_at},"completedAt":null}},"completedNodes":{{{}}},"activeNodes":[],"budget":{{"inputTokens":0,"outputTokens":0,"costUsd":0.0,"iterations":0,"toolCalls":0,"consecutiveErrors":0,"circuitBreakerTripped":false}},"pendingApprovals":[],"lastSequence":{last}}}"#,
        nodes.join(",")
    )
}

pub const EXECUTIONS: &str = "SELECT e.id AS id, t.id AS tenantId, e.workflow_id AS workflowId, e.workflow_version AS workflowVersion,
        e.status AS status, d.input AS input, s.state AS state, s.output AS output, e.session_type AS sessionType, e.parent_id AS parentId,
        e.segment AS segment, s.error AS error, d.tags AS tags, d.metadata AS metadata, e.last_sequence AS lastSequence,
        e.created_at AS createdAt, e.started_at AS startedAt, e.updated_at AS updatedAt, e.completed_at AS completedAt
 FROM executions e
 CROSS JOIN tenants t ON t.number = e.tenant
 LEFT JOIN execution_documents d ON d.execution = e.key
 LEFT JOIN execution_states s ON s.execution = e.key
 WHERE e.key BETWEEN ?1 AND ?2 ORDER BY e.key LIMIT 100";

pub const ITEMS: &str = "SELECT i.id AS id, t.id AS tenantId, e.id AS executionId, i.node_id AS nodeId, q.name AS queue,
        coalesce(i.payload, p.payload) AS payload, i.priority AS priority, coalesce(c.requires, '[]') AS requires, i.status AS status,
        i.attempt AS attempt, i.max_attempts AS maxAttempts, i.run_at AS runAt, i.backoff AS backoff,
        i.idempotency_key AS idempotencyKey, i.concurrency_key AS concurrencyKey, i.created_at AS createdAt, i.claimed_at AS claimedAt,
        i.finished_at AS finishedAt, i.worker_id AS workerId, i.lease_expires_at AS leaseExpiresAt, i.fence AS fence,
        i.output AS output, i.last_error AS lastError, i.progress AS progress, i.cancel_requested AS cancelRequested
 FROM items i
 CROSS JOIN tenants t ON t.number = i.tenant
 CROSS JOIN queues q ON q.key = i.queue
 LEFT JOIN executions e ON e.key = i.execution
 LEFT JOIN requirement_classes c ON c.key = i.class
 LEFT JOIN item_payloads p ON p.item = i.key
 WHERE i.key BETWEEN ?1 AND ?2 ORDER BY i.key LIMIT 100";

pub const EVENTS: &str =
    "SELECT v.id AS id, ?1 AS executionId, v.sequence AS sequence, v.type AS type, v.data AS data, v.created_at AS createdAt
 FROM events v WHERE v.execution = (SELECT key FROM executions WHERE tenant = 1 AND id = ?1) AND v.sequence BETWEEN ?2 AND ?3
 ORDER BY v.sequence LIMIT 100";

impl Engine for Floor {
    type Claimed = (String, i64);
    type Executions = Vec<Record>;
    type Items = Vec<Record>;
    type Events = Vec<Record>;
    type Materialized = Materialized;

    fn set_durability(&self, durability: Durability) -> Result<()> {
        let level = if durability == Durability::Strict { "full" } else { "normal" };
        Ok(self.connection.pragma_update(None, "synchronous", level)?)
    }

    fn append(&self, execution: Name, patch: &str, data: Json) -> Result<()> {
        self.write(|now| {
            let bytes = data.as_str().len() as i64;
            // `changed` rises where another execution has changed since.
            let read = |row: &Row<'_>| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, i64>(1)?,
                    row.get::<_, i64>(2)?,
                    row.get::<_, i64>(3)?,
                    row.get::<_, i64>(4)?,
                ))
            };
            let (key, sequence, snapshot_at, is_due, started_at) = self
                .prepare(
                    "UPDATE executions SET last_sequence = last_sequence + 1, updated_at = ?2, tail_bytes = tail_bytes + ?3,
                            changed = (SELECT o.changed + (o.changed <> executions.changed) FROM executions o WHERE o.tenant = 1
                                       ORDER BY o.changed DESC LIMIT 1)
                     WHERE tenant = 1 AND id = ?1
                     RETURNING key, last_sequence, snapshot_at, tail_bytes >= snapshot_bytes, started_at",
                )?
                .query_row((&execution, now, bytes), read)?;
            self.execute(
                "INSERT INTO events (execution, sequence, tenant, id, type, data, created_at)
                 VALUES (?1, ?2, 1, ?3, 'node_completed', ?4, ?5)",
                (key, sequence, new_id(now), &data, now),
            )?;
            self.execute(
                "INSERT INTO execution_states (execution, state) VALUES (?1, ?2)
                 ON CONFLICT (execution) DO UPDATE SET state = json_patch(state, excluded.state)",
                (key, patch),
            )?;
            if sequence - snapshot_at < SNAPSHOT_EVERY || is_due == 0 {
                return Ok(());
            }
            let fold = fold(sequence, started_at);
            self.execute(
                "INSERT INTO snapshots (execution, sequence, fold, created_at) VALUES (?1, ?2, ?3, ?4)",
                (key, sequence, &fold, now),
            )?;
            self.execute(
                "UPDATE executions SET snapshot_at = ?2, snapshot_bytes = ?3, tail_bytes = 0 WHERE key = ?1",
                (key, sequence, fold.len() as i64),
            )
        })
    }

    fn enqueue(&self, execution: Name, payload: Json) -> Result<()> {
        self.write(|now| {
            self.execute(
                "INSERT INTO items (key, tenant, id, queue, class, execution, node_id, status, priority, attempt, max_attempts, run_at,
                                    fence, created_at, payload)
                 VALUES ((SELECT max(key) FROM items WHERE key BETWEEN ?1 AND ?2) + 1, 1, ?3,
                         (SELECT key FROM queues WHERE tenant = 1 AND name = ?4), 0,
                         (SELECT key FROM executions WHERE tenant = 1 AND id = ?5), 'step', 'pending', 0, 0, 3, ?6, 0, ?6, ?7)",
                (KEYS, 2 * KEYS - 1, new_id(now), QUEUE, &execution, now, &payload),
            )?;
            self.execute("UPDATE queues SET pending = pending + 1 WHERE tenant = 1 AND name = ?1", [QUEUE])
        })
    }

    fn claim(&self) -> Result<Self::Claimed> {
        self.write(|now| {
            // The payload is what the worker is to do.
            let claimed = self
                .prepare(
                    "UPDATE items SET status = 'claimed', attempt = attempt + 1, fence = fence + 1, lease_expires_at = ?2, lease_ms = ?3,
                            namespace = 'default', worker_id = ?4, claimed_at = ?5, settlement = NULL
                     WHERE key = (SELECT key FROM items WHERE queue = (SELECT key FROM queues WHERE tenant = 1 AND name = ?1)
                                  AND class = 0 AND status = 'pending' AND blocked = 0 ORDER BY priority DESC, run_at, key LIMIT 1)
                     RETURNING id, fence, payload",
                )?
                .query_row((QUEUE, now + LEASE_MS, LEASE_MS, WORKER, now), |row| {
                    std::hint::black_box(row.get::<_, String>(2)?);
                    Ok((row.get(0)?, row.get(1)?))
                })?;
            self.execute("UPDATE queues SET pending = pending - 1, claimed = claimed + 1 WHERE tenant = 1 AND name = ?1", [QUEUE])?;
            Ok(claimed)
        })
    }

    fn complete(&self, (id, fence): Self::Claimed, output: Json) -> Result<()> {
        self.write(|now| {
            let mut hash = Sha256::new();
            hash.update(&id);
            hash.update(fence.to_le_bytes());
            hash.update(output.as_str());
            let digits = hash.finalize().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
            let digest: String = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
            let settled = format!(
                r#"{{"call":"complete","digest":"{digest}","answer":{{"status":"completed","late":false,"lastSequence":"#
            );
            self.execute(
                r#"UPDATE items SET status = 'completed', finished_at = ?3, output = ?4, lease_expires_at = NULL, lease_ms = NULL,
                       settlement = ?5 || (SELECT last_sequence FROM executions WHERE key = items.execution)
                                    || ',"enqueued":[],"dropped":false}}'
                   WHERE tenant = 1 AND id = ?1 AND fence = ?2 AND status = 'claimed'"#,
                (&id, fence, now, &output, &settled),
            )?;
            self.execute(
                "UPDATE queues SET claimed = claimed - 1, completed = completed + 1 WHERE tenant = 1 AND name = ?1",
                [QUEUE],
            )
        })
    }

    fn list_executions(&self, after: i64) -> Result<Self::Executions> {
        self.page(EXECUTIONS, (KEYS + after + 1, 2 * KEYS - 1))
    }

    fn list_items(&self, after: i64) -> Result<Self::Items> {
        self.page(ITEMS, (KEYS + after + 1, 2 * KEYS - 1))
    }

    fn list_events(&self, execution: Name, after: i64) -> Result<Self::Events> {
        self.page(EVENTS, (&execution, after + 1, i64::MAX))
    }

    // It is only asked for the last sequence.
    fn materialize(&self, execution: Name, _: Option<i64>) -> Result<Materialized> {
        self.transaction("BEGIN DEFERRED", |_| {
            let (key, mut materialized, snapshot) = self
                .prepare(
                    "SELECT e.key, e.status, e.last_sequence, s.state, n.sequence, n.fold FROM executions e
                     LEFT JOIN execution_states s ON s.execution = e.key
                     LEFT JOIN snapshots n ON n.execution = e.key AND n.sequence = e.snapshot_at
                     WHERE e.tenant = 1 AND e.id = ?1",
                )?
                .query_row([&execution], |row| {
                    let (status, last_sequence, state) = (row.get(1)?, row.get(2)?, row.get(3)?);
                    let materialized = Materialized { status, state, completed_nodes: BTreeMap::new(), last_sequence };
                    Ok((row.get::<_, i64>(0)?, materialized, row.get::<_, Option<i64>>(4)?.zip(row.get::<_, Option<String>>(5)?)))
                })?;
            let (from, fold) = snapshot.map_or((0, None), |(sequence, fold)| (sequence, Some(fold)));
            let outputs = &mut materialized.completed_nodes;
            let mut tail =
                self.prepare("SELECT type, data FROM events WHERE execution = ?1 AND sequence > ?2 ORDER BY sequence")?;
            let mut rows = tail.query((key, from))?;
            while let Some(row) = rows.next()? {
                let (kind, data) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?);
                if kind == "node_completed" {
                    let completion: Completion<'_> = serde_json::from_str(data)?;
                    outputs.insert(completion.node_id.to_owned(), completion.output.to_owned());
                }
            }
            let Some(fold) = fold else { return Ok(materialized) };
            for (node, At { at }) in serde_json::from_str::<Fold>(&fold)?.completed_nodes {
                if let Entry::Vacant(missing) = outputs.entry(node) {
                    let mut event = self.prepare("SELECT data FROM events WHERE execution = ?1 AND sequence = ?2")?;
                    let data: String = event.query_row((key, at), |row| row.get(0))?;
                    missing.insert(serde_json::from_str::<Completion<'_>>(&data)?.output.to_owned());
                }
            }
            Ok(materialized)
        })
    }
}
