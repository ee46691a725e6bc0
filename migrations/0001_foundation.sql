-- The key of a tenant's row is tenant * 2^40 + a number that rises within the tenant and table: the rows of a tenant lie together, a
-- list is a range of the primary key, and no number that leaves the store tells of another tenant's rows.
-- Times are integers, Unix milliseconds. JSON documents are text, as they came.

-- Marks the file as a runkeep store: "rnkp".
PRAGMA application_id = 0x726e6b70;

CREATE TABLE tenants (
    number     INTEGER PRIMARY KEY CHECK (number BETWEEN 1 AND 4194303),
    id         TEXT    NOT NULL UNIQUE,
    name       TEXT,
    status     TEXT    NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended', 'archived')),
    policy     TEXT,
    limits     TEXT,
    digest     BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- The largest fence of any work item that was deleted: an item that is given the id of such a one goes on from there, so that
    -- those who still hold an old fence cannot settle it.
    past_fence INTEGER NOT NULL DEFAULT 0 CHECK (past_fence >= 0)
) STRICT;

-- How many executions stand where: kept with every change, so that nothing is counted.
CREATE TABLE execution_counts (
    tenant INTEGER NOT NULL REFERENCES tenants (number),
    status TEXT    NOT NULL,
    count  INTEGER NOT NULL CHECK (count >= 0),
    PRIMARY KEY (tenant, status)
) STRICT, WITHOUT ROWID;

-- What a tenant has used in a UTC month, counted from January of the year 0.
CREATE TABLE monthly_usage (
    tenant   INTEGER NOT NULL REFERENCES tenants (number),
    month    INTEGER NOT NULL,
    tokens   INTEGER NOT NULL,
    cost_usd REAL    NOT NULL,
    PRIMARY KEY (tenant, month)
) STRICT, WITHOUT ROWID;

-- Only the digest of a token is stored.
CREATE TABLE tokens (
    key          INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL REFERENCES tenants (number),
    id           TEXT    NOT NULL,
    sha256       BLOB    NOT NULL UNIQUE,
    name         TEXT    NOT NULL,
    role         TEXT    NOT NULL CHECK (role IN ('operator', 'developer', 'reviewer', 'viewer')),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;
CREATE UNIQUE INDEX tokens_by_id ON tokens (tenant, id);

CREATE TABLE workflows (
    key        INTEGER PRIMARY KEY,
    tenant     INTEGER NOT NULL REFERENCES tenants (number),
    id         TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    definition TEXT    NOT NULL,
    digest     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX workflows_by_version ON workflows (tenant, id, version);

-- Narrow on purpose: each event appended rewrites this row. What is written once or seldom is in the two tables below.
CREATE TABLE executions (
    key              INTEGER PRIMARY KEY,
    tenant           INTEGER NOT NULL REFERENCES tenants (number),
    id               TEXT    NOT NULL,
    workflow_id      TEXT    NOT NULL,
    workflow_version TEXT,
    -- Not IN: for a list of more than two, SQLite makes a temporary table, fills it and drops it, with each statement that writes the column.
    status           TEXT    NOT NULL CHECK (status = 'pending' OR status = 'running' OR status = 'paused' OR status = 'completed'
                                             OR status = 'failed' OR status = 'cancelled' OR status = 'limit_exceeded'),
    session_type     TEXT    CHECK (session_type IN ('stateless', 'resumable', 'persistent_governed', 'ephemeral', 'approval_gated')),
    parent_id        TEXT,
    segment          INTEGER NOT NULL CHECK (segment >= 0),
    last_sequence    INTEGER NOT NULL CHECK (last_sequence >= 0),
    created_at       INTEGER NOT NULL,
    started_at       INTEGER,
    updated_at       INTEGER NOT NULL,
    completed_at     INTEGER,
    -- Rises within the tenant with each change, where another execution changed in between: the order of "recent".
    changed          INTEGER NOT NULL,
    -- The newest snapshot, what it weighs, and what the events after it weigh.
    snapshot_at      INTEGER NOT NULL DEFAULT 0,
    snapshot_bytes   INTEGER NOT NULL DEFAULT 0,
    tail_bytes       INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX executions_by_id ON executions (tenant, id);
CREATE INDEX executions_by_status ON executions (tenant, status);
CREATE INDEX executions_by_parent ON executions (tenant, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX executions_by_change ON executions (tenant, changed);

CREATE TABLE execution_documents (
    execution INTEGER PRIMARY KEY REFERENCES executions (key) ON DELETE CASCADE,
    input     TEXT NOT NULL,
    tags      TEXT NOT NULL,
    metadata  TEXT,
    -- Of the arguments, where the caller gave the id: tells a repeated call from another one.
    digest    BLOB
) STRICT;

-- What the fold of the log has made of an execution; absent while it has made nothing. The state is NULL where it is large: then it is
-- folded when asked for, so that a small change of a large state writes little.
CREATE TABLE execution_states (
    execution INTEGER PRIMARY KEY REFERENCES executions (key) ON DELETE CASCADE,
    state     TEXT,
    output    TEXT,
    error     TEXT
) STRICT;

-- The fold at sequence 0, where it is not the empty one: what a fork or a continuation brought.
CREATE TABLE execution_bases (
    execution INTEGER PRIMARY KEY REFERENCES executions (key) ON DELETE CASCADE,
    fold      TEXT NOT NULL
) STRICT;

CREATE TABLE snapshots (
    execution  INTEGER NOT NULL REFERENCES executions (key) ON DELETE CASCADE,
    sequence   INTEGER NOT NULL,
    fold       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (execution, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    execution  INTEGER NOT NULL REFERENCES executions (key) ON DELETE CASCADE,
    sequence   INTEGER NOT NULL CHECK (sequence >= 1),
    tenant     INTEGER NOT NULL,
    id         TEXT    NOT NULL,
    type       TEXT    NOT NULL,
    data       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (execution, sequence)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX events_by_id ON events (tenant, id);

CREATE TABLE approvals (
    key         INTEGER PRIMARY KEY,
    tenant      INTEGER NOT NULL REFERENCES tenants (number),
    execution   INTEGER NOT NULL REFERENCES executions (key) ON DELETE CASCADE,
    approval_id TEXT    NOT NULL,
    node_id     TEXT    NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('pending', 'approved', 'rejected')),
    -- The sequences of the events that asked and that decided.
    requested   INTEGER NOT NULL,
    decided     INTEGER
) STRICT;
CREATE UNIQUE INDEX approvals_of_execution ON approvals (execution, approval_id);
CREATE INDEX approvals_in_order ON approvals (execution);
CREATE INDEX approvals_open ON approvals (execution, requested) WHERE status = 'pending';
CREATE INDEX approvals_by_status ON approvals (tenant, status);

CREATE TABLE timers (
    key             INTEGER PRIMARY KEY,
    tenant          INTEGER NOT NULL REFERENCES tenants (number),
    id              TEXT    NOT NULL,
    execution       INTEGER NOT NULL REFERENCES executions (key) ON DELETE CASCADE,
    node_id         TEXT    NOT NULL,
    correlation_key TEXT,
    status          TEXT    NOT NULL CHECK (status IN ('pending', 'fired', 'cancelled', 'failed')),
    fire_at         INTEGER NOT NULL,
    enqueue         TEXT,
    created_at      INTEGER NOT NULL,
    fired_at        INTEGER,
    late_by_ms      INTEGER,
    error           TEXT,
    digest          BLOB
) STRICT;
CREATE UNIQUE INDEX timers_by_id ON timers (tenant, id);
CREATE INDEX timers_due ON timers (tenant, fire_at) WHERE status = 'pending';
CREATE INDEX timers_of_execution ON timers (execution);
CREATE INDEX timers_by_status ON timers (tenant, status);

CREATE TABLE crons (
    key              INTEGER PRIMARY KEY,
    tenant           INTEGER NOT NULL REFERENCES tenants (number),
    name             TEXT    NOT NULL,
    expression       TEXT    NOT NULL,
    timezone         TEXT    NOT NULL,
    workflow_id      TEXT    NOT NULL,
    workflow_version TEXT,
    input            TEXT    NOT NULL,
    enqueue          TEXT,
    enabled          INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    catch_up         TEXT    NOT NULL CHECK (catch_up IN ('skip', 'once', 'all')),
    -- When it comes due next; NULL while it is disabled.
    next_at          INTEGER,
    -- When to look at it: at next_at, or later where that failed or others are to come first.
    wake_at          INTEGER,
    last_at          INTEGER,
    last_error       TEXT,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    CHECK ((next_at IS NULL) = (wake_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX crons_by_name ON crons (tenant, name);
CREATE INDEX crons_due ON crons (tenant, wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE queues (
    key              INTEGER PRIMARY KEY,
    tenant           INTEGER NOT NULL REFERENCES tenants (number),
    name             TEXT    NOT NULL,
    paused           INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    held_until       INTEGER,
    concurrency      INTEGER CHECK (concurrency >= 1),
    key_concurrency  INTEGER CHECK (key_concurrency >= 1),
    rate_limit       TEXT,
    key_rate_limit   TEXT,
    max_attempts     INTEGER CHECK (max_attempts >= 1),
    backoff          TEXT,
    -- The token bucket of rate_limit: what was in it at tokens_at, in parts of which perMs make a token. NULL where it is full.
    tokens           INTEGER CHECK (tokens >= 0),
    tokens_at        INTEGER,
    -- Kept with every change of an item, so that stats count nothing.
    scheduled        INTEGER NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
    pending          INTEGER NOT NULL DEFAULT 0 CHECK (pending >= 0),
    claimed          INTEGER NOT NULL DEFAULT 0 CHECK (claimed >= 0),
    completed        INTEGER NOT NULL DEFAULT 0 CHECK (completed >= 0),
    dead_lettered    INTEGER NOT NULL DEFAULT 0 CHECK (dead_lettered >= 0),
    cancelled        INTEGER NOT NULL DEFAULT 0 CHECK (cancelled >= 0)
) STRICT;
CREATE UNIQUE INDEX queues_by_name ON queues (tenant, name);

-- Holds and token buckets of concurrency keys. A row goes when it says no more than its absence would.
CREATE TABLE queue_keys (
    queue           INTEGER NOT NULL REFERENCES queues (key) ON DELETE CASCADE,
    concurrency_key TEXT    NOT NULL,
    held_until      INTEGER,
    tokens          INTEGER CHECK (tokens >= 0),
    tokens_at       INTEGER,
    -- When to look at the key again.
    wake_at         INTEGER NOT NULL,
    PRIMARY KEY (queue, concurrency_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_keys_by_wake ON queue_keys (queue, wake_at);

-- The distinct sets of capabilities that a queue's items require; class 0 is "nothing required" and has no row.
CREATE TABLE requirement_classes (
    key      INTEGER PRIMARY KEY,
    queue    INTEGER NOT NULL REFERENCES queues (key) ON DELETE CASCADE,
    requires TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX requirement_classes_of_queue ON requirement_classes (queue, requires);

CREATE TABLE items (
    key              INTEGER PRIMARY KEY,
    tenant           INTEGER NOT NULL REFERENCES tenants (number),
    id               TEXT    NOT NULL,
    queue            INTEGER NOT NULL REFERENCES queues (key),
    class            INTEGER NOT NULL,
    execution        INTEGER REFERENCES executions (key) ON DELETE CASCADE,
    node_id          TEXT,
    status           TEXT    NOT NULL CHECK (status = 'scheduled' OR status = 'pending' OR status = 'claimed' OR status = 'completed'
                                             OR status = 'dead_lettered' OR status = 'cancelled'),
    priority         INTEGER NOT NULL,
    attempt          INTEGER NOT NULL CHECK (attempt >= 0),
    max_attempts     INTEGER NOT NULL CHECK (max_attempts >= 1),
    run_at           INTEGER NOT NULL,
    fence            INTEGER NOT NULL CHECK (fence >= 0),
    lease_expires_at INTEGER,
    lease_ms         INTEGER,
    namespace        TEXT,
    worker_id        TEXT,
    created_at       INTEGER NOT NULL,
    claimed_at       INTEGER,
    finished_at      INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
    concurrency_key  TEXT,
    -- Pending, and kept out of the index of what can be claimed because its concurrency key has no room. Derived: see src/queue/limits.rs.
    blocked          INTEGER NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1)),
    -- The fence whose lease was lengthened once because the device slept.
    graced_fence     INTEGER,
    idempotency_key  TEXT,
    backoff          TEXT,
    progress         TEXT,
    last_error       TEXT,
    output           TEXT,
    -- What the settling call was and answered, for a repeat of it under the same fence.
    settlement       TEXT,
    -- Of the arguments, where the caller gave an id or an idempotency key: tells a repeated call from another one.
    digest           BLOB,
    -- NULL where it is large and lies in item_payloads: an update rewrites the whole row.
    payload          TEXT,
    CHECK ((status = 'claimed') = (lease_expires_at IS NOT NULL)),
    CHECK ((status = 'completed' OR status = 'dead_lettered' OR status = 'cancelled') = (finished_at IS NOT NULL)),
    CHECK ((execution IS NULL) OR (node_id IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX items_by_id ON items (tenant, id);
CREATE INDEX items_ready ON items (queue, class, priority DESC, run_at) WHERE status = 'pending' AND blocked = 0;
CREATE INDEX items_scheduled ON items (queue, run_at) WHERE status = 'scheduled';
CREATE INDEX items_leased ON items (queue, lease_expires_at) WHERE status = 'claimed';
CREATE INDEX items_waiting_by_key ON items (queue, concurrency_key, class, blocked, priority DESC, run_at)
    WHERE status = 'pending' AND concurrency_key IS NOT NULL;
CREATE INDEX items_blocked ON items (queue, run_at) WHERE status = 'pending' AND blocked = 1;
CREATE INDEX items_claimed_by_key ON items (queue, concurrency_key) WHERE status = 'claimed' AND concurrency_key IS NOT NULL;
CREATE INDEX items_of_execution ON items (execution) WHERE execution IS NOT NULL;
CREATE INDEX items_by_idempotency_key ON items (queue, idempotency_key, finished_at) WHERE idempotency_key IS NOT NULL;
CREATE INDEX items_dead_lettered ON items (tenant) WHERE status = 'dead_lettered';

CREATE TABLE item_payloads (
    item    INTEGER PRIMARY KEY REFERENCES items (key) ON DELETE CASCADE,
    payload TEXT NOT NULL
) STRICT;

-- One row for each delivery that ended without completion.
CREATE TABLE attempts (
    item       INTEGER NOT NULL REFERENCES items (key) ON DELETE CASCADE,
    fence      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    worker_id  TEXT    NOT NULL,
    namespace  TEXT    NOT NULL,
    claimed_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    outcome    TEXT    NOT NULL CHECK (outcome IN ('failed', 'lease_expired', 'released', 'cancelled')),
    error      TEXT,
    PRIMARY KEY (item, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    key               INTEGER PRIMARY KEY,
    tenant            INTEGER NOT NULL REFERENCES tenants (number),
    namespace         TEXT    NOT NULL,
    worker_id         TEXT    NOT NULL,
    pool              TEXT    NOT NULL,
    queues            TEXT    NOT NULL,
    capabilities      TEXT    NOT NULL,
    liveness_ttl_ms   INTEGER NOT NULL CHECK (liveness_ttl_ms >= 1),
    registered_at     INTEGER NOT NULL,
    last_heartbeat_at INTEGER NOT NULL,
    expires_at        INTEGER NOT NULL,
    -- Whether its time was lengthened once since its last heartbeat because the device slept.
    graced            INTEGER NOT NULL DEFAULT 0 CHECK (graced IN (0, 1)),
    load              REAL,
    metadata          TEXT
) STRICT;
CREATE UNIQUE INDEX workers_by_id ON workers (tenant, namespace, worker_id);
CREATE INDEX workers_by_expiry ON workers (tenant, expires_at);

CREATE TABLE worker_history (
    key       INTEGER PRIMARY KEY,
    tenant    INTEGER NOT NULL REFERENCES tenants (number),
    namespace TEXT    NOT NULL,
    worker_id TEXT    NOT NULL,
    pool      TEXT    NOT NULL,
    change    TEXT    NOT NULL CHECK (change IN ('registered', 'refreshed', 'marked_dead', 'ttl_swept')),
    reason    TEXT,
    at        INTEGER NOT NULL
) STRICT;

-- How long finished things are kept, in milliseconds; for ever where NULL. The cursors are where a walk goes on; due is when the next
-- one can find something, or, during a walk, what it has found of that so far.
CREATE TABLE retention (
    tenant           INTEGER PRIMARY KEY REFERENCES tenants (number),
    executions_ms    INTEGER CHECK (executions_ms >= 0),
    items_ms         INTEGER CHECK (items_ms >= 0),
    attempts_ms      INTEGER CHECK (attempts_ms >= 0),
    dead_letters_ms  INTEGER CHECK (dead_letters_ms >= 0),
    history_ms       INTEGER CHECK (history_ms >= 0),
    threads_ms       INTEGER CHECK (threads_ms >= 0),
    execution_cursor INTEGER NOT NULL DEFAULT 0,
    execution_due    INTEGER NOT NULL DEFAULT 0,
    item_cursor      INTEGER NOT NULL DEFAULT 0,
    item_due         INTEGER NOT NULL DEFAULT 0,
    thread_cursor    INTEGER NOT NULL DEFAULT 0,
    thread_due       INTEGER NOT NULL DEFAULT 0
) STRICT;
