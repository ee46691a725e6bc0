-- The key of a tenant's row is tenant * 2^40 + a number that rises within the tenant and table: the rows of a tenant lie together, a
-- list is a range of the primary key, and no number that leaves the store tells of another tenant's rows.
-- Times are integers, Unix milliseconds. JSON documents are text, as they came.

-- Marks the file as a runkeep store: "rnkp".
PRAGMA application_id = 0x726e6b70;

CREATE TABLE tenants (
    number     INTEGER PRIMARY KEY CHECK (number BETWEEN 1 AND 4194303),
    id         TEXT    NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    -- The largest fence of any work item that was deleted: an item that is given the id of such a one goes on from there, so that
    -- those who still hold an old fence cannot settle it.
    past_fence INTEGER NOT NULL DEFAULT 0 CHECK (past_fence >= 0)
) STRICT;

-- Narrow on purpose: each event appended rewrites this row. What is written once or seldom is in the two tables below.
CREATE TABLE executions (
    key              INTEGER PRIMARY KEY,
    tenant           INTEGER NOT NULL REFERENCES tenants (number),
    id               TEXT    NOT NULL,
    workflow_id      TEXT    NOT NULL,
    workflow_version TEXT,
    status           TEXT    NOT NULL CHECK (status IN ('pending', 'running', 'paused', 'completed', 'failed', 'cancelled', 'limit_exceeded')),
    session_type     TEXT    CHECK (session_type IN ('stateless', 'resumable', 'persistent_governed', 'ephemeral', 'approval_gated')),
    parent_id        TEXT,
    segment          INTEGER NOT NULL CHECK (segment >= 0),
    last_sequence    INTEGER NOT NULL CHECK (last_sequence >= 0),
    created_at       INTEGER NOT NULL,
    started_at       INTEGER,
    updated_at       INTEGER NOT NULL,
    completed_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX executions_by_id ON executions (tenant, id);
CREATE INDEX executions_by_status ON executions (tenant, status);
CREATE INDEX executions_by_parent ON executions (tenant, parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE execution_documents (
    execution INTEGER PRIMARY KEY REFERENCES executions (key) ON DELETE CASCADE,
    input     TEXT NOT NULL,
    tags      TEXT NOT NULL,
    metadata  TEXT,
    -- Of the arguments, where the caller gave the id: tells a repeated call from another one.
    digest    BLOB
) STRICT;

-- What the fold of the log has made of an execution; absent while it has made nothing.
CREATE TABLE execution_states (
    execution INTEGER PRIMARY KEY REFERENCES executions (key) ON DELETE CASCADE,
    state     TEXT,
    output    TEXT,
    error     TEXT
) STRICT;

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
    execution    INTEGER NOT NULL REFERENCES executions (key) ON DELETE CASCADE,
    approval_id  TEXT    NOT NULL,
    node_id      TEXT    NOT NULL,
    requested    INTEGER NOT NULL,
    decided      INTEGER,
    PRIMARY KEY (execution, approval_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_open ON approvals (execution, requested) WHERE decided IS NULL;

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
    status           TEXT    NOT NULL CHECK (status IN ('scheduled', 'pending', 'claimed', 'completed', 'dead_lettered', 'cancelled')),
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
    CHECK ((status IN ('completed', 'dead_lettered', 'cancelled')) = (finished_at IS NOT NULL)),
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

-- How long finished things are kept, in milliseconds; for ever where NULL. The cursors are where the next pass goes on.
CREATE TABLE retention (
    tenant           INTEGER PRIMARY KEY REFERENCES tenants (number),
    executions_ms    INTEGER CHECK (executions_ms >= 0),
    items_ms         INTEGER CHECK (items_ms >= 0),
    attempts_ms      INTEGER CHECK (attempts_ms >= 0),
    dead_letters_ms  INTEGER CHECK (dead_letters_ms >= 0),
    history_ms       INTEGER CHECK (history_ms >= 0),
    execution_cursor INTEGER NOT NULL DEFAULT 0,
    item_cursor      INTEGER NOT NULL DEFAULT 0
) STRICT;
