// Writes the rows that runkeep writes, into its schema, with its settings: what is compared is everything around SQLite.
import sqlite3InitModule from "@sqlite.org/sqlite-wasm";
import foundation from "../../migrations/0001_foundation.sql";
import chat from "../../migrations/0002_chat.sql";
import search from "../../migrations/0003_search.sql";
import requests from "../../migrations/0004_requests.sql";
import { event, item, large, largeLog, largeState, leaseMs, listed, pageSize, queue, run, workerId } from "./work.js";

const migrations = [foundation, chat, search, requests];
const tenant = 1;
const [firstKey, lastKey] = [2 ** 40 + 1, 2 ** 41 - 1];

let pool;
let db;
const prepared = new Map();

function statement(sql) {
  let known = prepared.get(sql);
  if (!known) prepared.set(sql, (known = db.prepare(sql)));
  return known;
}

function execute(sql, values = []) {
  const kept = statement(sql);
  if (values.length > 0) kept.bind(values);
  kept.stepReset();
}

function rows(sql, values) {
  const kept = statement(sql).bind(values);
  const found = [];
  while (kept.step()) found.push(kept.get([]));
  kept.reset();
  return found;
}

const row = (sql, values) => rows(sql, values)[0];

async function open(name) {
  const sqlite3 = await sqlite3InitModule({ print() {}, printErr() {} });
  pool = await sqlite3.installOpfsSAHPoolVfs({ name: `by-hand/${name}`, directory: `by-hand/${name}`, initialCapacity: 6 });
  db = new pool.OpfsSAHPoolDb("/store.db");
  const { capi } = sqlite3;
  capi.sqlite3_db_config(db, capi.SQLITE_DBCONFIG_ENABLE_QPSG, 1, 0);
  db.exec("PRAGMA locking_mode = exclusive; PRAGMA page_size = 8192");
  const journal = db.selectValue("PRAGMA journal_mode = wal");
  if (journal !== "wal") throw new Error(`the journal is ${journal}`);
  db.exec("PRAGMA foreign_keys = on; PRAGMA temp_store = memory; PRAGMA cache_size = -16384; PRAGMA synchronous = normal");
  const version = db.selectValue("PRAGMA user_version");
  if (version < migrations.length) {
    db.transaction(() => db.exec([...migrations.slice(version), `PRAGMA user_version = ${migrations.length}`].join(";")));
  }
  const now = Date.now();
  db.exec({ sql: "INSERT INTO tenants (number, id, created_at, updated_at) VALUES (?, 'default', ?, ?) ON CONFLICT DO NOTHING", bind: [tenant, now, now] });
}

/** An operation of one commit, with the row that lets its answer be given again. */
function change(operation, given, { client, number, acked }) {
  execute("BEGIN IMMEDIATE");
  try {
    const now = Date.now();
    const answer = changes[operation](given, now);
    const kept = operation === "claim" ? answer && [[answer.id, answer.fence]] : answer;
    // runkeep's digest is the SHA-256 of the arguments. Workers hash only asynchronously: here it is as many bytes, for nothing.
    const digest = crypto.getRandomValues(new Uint8Array(32));
    execute("INSERT INTO requests (client, number, digest, answer, at) VALUES (?1, ?2, ?3, ?4, ?5)", [client, number, digest, JSON.stringify(kept), now]);
    execute("DELETE FROM requests WHERE client = ?1 AND number <= ?2", [client, acked]);
    execute("COMMIT");
    return answer;
  } catch (error) {
    execute("ROLLBACK");
    throw error;
  }
}

const changes = {
  append(given, now) {
    const [key, sequence, changed, snapshotAt, tail] = head(run);
    const record = insertEvent(key, run, sequence + 1, given, now);
    const last = row("SELECT changed FROM executions WHERE tenant = ?1 ORDER BY changed DESC LIMIT 1", [tenant])[0];
    const bytes = tail + JSON.stringify(given.data).length;
    execute("UPDATE executions SET status = 'pending', last_sequence = ?2, updated_at = ?3, changed = ?4, tail_bytes = ?5 WHERE key = ?1", [
      key,
      sequence + 1,
      now,
      last === changed ? last : last + 1,
      bytes,
    ]);
    // These events fold into nothing; the snapshot is written as often as runkeep writes it.
    if (sequence + 1 - snapshotAt >= 100) {
      const fold = JSON.stringify({ status: "pending", state: {}, completedNodes: {}, activeNodes: [], lastSequence: sequence + 1 });
      execute("INSERT INTO snapshots (execution, sequence, fold, created_at) VALUES (?1, ?2, ?3, ?4)", [key, sequence + 1, fold, now]);
      storeState(key, {});
      execute("UPDATE executions SET snapshot_at = ?2, snapshot_bytes = ?3, tail_bytes = 0 WHERE key = ?1", [key, sequence + 1, fold.length]);
    }
    return { record, created: true };
  },
  enqueue(given, now) {
    const [key] = head(given.executionId);
    const queueKey = ensureQueue(given.queue);
    const [active] = row("SELECT status = 'active' FROM tenants WHERE number = ?1", [tenant]);
    if (!active) throw new Error("the tenant is suspended");
    const item = nextKey("items");
    execute(
      `INSERT INTO items (key, tenant, id, queue, class, execution, node_id, status, priority, attempt, max_attempts, run_at, fence, created_at, payload)
       VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, 'pending', 0, 0, 3, ?7, 0, ?7, ?8)`,
      [item, tenant, crypto.randomUUID(), queueKey, key, given.nodeId, now, JSON.stringify(given.payload)],
    );
    execute("UPDATE queues SET pending = pending + 1 WHERE key = ?1", [queueKey]);
    return { record: readItem(item), created: true };
  },
  claim(_, now) {
    const [queueKey] = row("SELECT key FROM queues WHERE tenant = ?1 AND name = ?2", [tenant, queue]);
    const [expired] = row("SELECT count(*) FROM items WHERE queue = ?1 AND status = 'claimed' AND lease_expires_at <= ?2", [queueKey, now]);
    const [due] = row("SELECT count(*) FROM items WHERE queue = ?1 AND status = 'scheduled' AND run_at <= ?2", [queueKey, now]);
    if (expired + due > 0) throw new Error("the bench has neither");
    const ready = row("SELECT key FROM items WHERE queue = ?1 AND class = 0 AND status = 'pending' AND blocked = 0 ORDER BY priority DESC, run_at, key LIMIT 1", [queueKey]);
    if (!ready) return undefined;
    execute(
      `UPDATE items SET status = 'claimed', attempt = attempt + 1, fence = fence + 1, lease_expires_at = ?2, lease_ms = ?3, namespace = 'default',
                        worker_id = ?4, claimed_at = ?5, settlement = NULL WHERE key = ?1 AND status = 'pending'`,
      [ready[0], now + leaseMs, leaseMs, workerId, now],
    );
    execute("UPDATE queues SET pending = pending - 1, claimed = claimed + 1 WHERE key = ?1", [queueKey]);
    return readItem(ready[0]);
  },
  complete({ id, fence, output }, now) {
    const [key, queueKey, isHeld] = row("SELECT key, queue, status = 'claimed' AND fence = ?3 FROM items WHERE tenant = ?1 AND id = ?2", [tenant, id, fence]);
    if (!isHeld) throw new Error("the lease is lost");
    const [, lastSequence] = head(run);
    const answer = { status: "completed", late: false, lastSequence, enqueued: [], dropped: false };
    // What runkeep keeps to know the same call again is a digest too.
    const settlement = JSON.stringify({ call: "complete", digest: "0".repeat(64), answer });
    execute(
      `UPDATE items SET status = 'completed', finished_at = ?3, output = ?4, lease_expires_at = NULL, lease_ms = NULL, settlement = ?5
       WHERE key = ?1 AND fence = ?2 AND status = 'claimed'`,
      [key, fence, now, JSON.stringify(output), settlement],
    );
    execute("UPDATE queues SET claimed = claimed - 1, completed = completed + 1 WHERE key = ?1", [queueKey]);
    return answer;
  },
};

const operations = {
  open,
  nothing() {},
  read: () => row("SELECT id, last_sequence FROM executions WHERE tenant = ?1 AND id = ?2", [tenant, run]),
  list() {
    const [queueKey] = row("SELECT key FROM queues WHERE tenant = ?1 AND name = ?2", [tenant, listed]);
    return rows(`${selectItem} WHERE i.key BETWEEN ?1 AND ?2 AND i.queue = ?3 ORDER BY i.key LIMIT ?4`, [firstKey, lastKey, queueKey, pageSize]).map(toItem);
  },
  state() {
    const [state] = row("SELECT s.state FROM executions e JOIN execution_states s ON s.execution = e.key WHERE e.tenant = ?1 AND e.id = ?2", [tenant, large]);
    return JSON.parse(state);
  },
  counts() {
    const [pending, claimed, completed] = row("SELECT pending, claimed, completed FROM queues WHERE tenant = ?1 AND name = ?2", [tenant, queue]);
    const [key, last] = head(run);
    const [events] = row("SELECT count(*) FROM events WHERE execution = ?1", [key]);
    if (events !== last) throw new Error("events are missing");
    return { events, pending, claimed, completed };
  },
  seed(count) {
    execute("BEGIN IMMEDIATE");
    const now = Date.now();
    createExecution(run, now);
    for (let n = 0; n < 200; n++) changes.enqueue(item(n, listed), now);
    for (let n = 0; n < count; n++) changes.enqueue(item(n), now);
    for (let n = 0; n < count; n++) changes.append(event(n), now);
    createExecution(large, now);
    const [key] = head(large);
    largeLog.forEach((event, n) => insertEvent(key, large, n + 1, event, now));
    execute("UPDATE executions SET last_sequence = ?2 WHERE key = ?1", [key, largeLog.length]);
    storeState(key, largeState);
    execute("COMMIT");
  },
  close() {
    for (const kept of prepared.values()) kept.finalize();
    db.close();
    pool.pauseVfs();
  },
};

/** Key, last sequence, number of the last change, last snapshot, bytes since. */
function head(id) {
  return row("SELECT key, last_sequence, changed, snapshot_at, tail_bytes FROM executions WHERE tenant = ?1 AND id = ?2", [tenant, id]);
}

function insertEvent(execution, executionId, sequence, { type, data }, now) {
  const id = crypto.randomUUID();
  execute("INSERT INTO events (execution, sequence, tenant, id, type, data, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", [
    execution,
    sequence,
    tenant,
    id,
    type,
    JSON.stringify(data),
    now,
  ]);
  return { id, executionId, sequence, type, data, createdAt: now };
}

function createExecution(id, now) {
  const key = nextKey("executions");
  execute(
    `INSERT INTO executions (key, tenant, id, workflow_id, status, segment, last_sequence, created_at, updated_at, changed)
     VALUES (?1, ?2, ?3, 'bench', 'pending', 0, 0, ?4, ?4, (SELECT coalesce(max(changed), 0) + 1 FROM executions))`,
    [key, tenant, id, now],
  );
  execute("INSERT INTO execution_documents (execution, input, tags) VALUES (?1, 'null', '[]')", [key]);
}

function storeState(key, state) {
  execute("INSERT INTO execution_states (execution, state) VALUES (?1, ?2) ON CONFLICT (execution) DO UPDATE SET state = excluded.state", [key, JSON.stringify(state)]);
}

function ensureQueue(name) {
  const known = row("SELECT key FROM queues WHERE tenant = ?1 AND name = ?2", [tenant, name]);
  if (known) return known[0];
  const key = nextKey("queues");
  execute("INSERT INTO queues (key, tenant, name) VALUES (?1, ?2, ?3)", [key, tenant, name]);
  return key;
}

function nextKey(table) {
  return (row(`SELECT key FROM ${table} WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1`, [firstKey, lastKey])?.[0] ?? firstKey - 1) + 1;
}

const selectItem = `SELECT i.id, t.id, e.id, i.node_id, q.name, i.payload, i.priority, i.status, i.attempt, i.max_attempts, i.run_at, i.backoff, i.created_at,
  i.claimed_at, i.finished_at, i.worker_id, i.lease_expires_at, i.fence, i.output, i.cancel_requested
  FROM items i JOIN tenants t ON t.number = i.tenant JOIN queues q ON q.key = i.queue LEFT JOIN executions e ON e.key = i.execution`;

const readItem = (key) => toItem(row(`${selectItem} WHERE i.key = ?1`, [key]));

function toItem(columns) {
  const [id, tenantId, executionId, nodeId, queue, payload, priority, status, attempt, maxAttempts, runAt, backoff, createdAt, ...rest] = columns;
  const [claimedAt, finishedAt, workerId, leaseExpiresAt, fence, output, cancelRequested] = rest;
  const known = { id, tenantId, executionId, nodeId, queue, payload: JSON.parse(payload), priority, status, attempt, maxAttempts, runAt, backoff, createdAt };
  return { ...known, claimedAt, finishedAt, workerId, leaseExpiresAt, fence, output: output && JSON.parse(output), cancelRequested: cancelRequested === 1 };
}

onmessage = async ({ data: { id, operation, given, request } }) => {
  try {
    let answer = request ? change(operation, given, request) : operations[operation](given);
    if (operation === "open") answer = await answer;
    postMessage({ id, answer });
  } catch (error) {
    postMessage({ id, error: String(error) });
  }
};
