-- The chat side: threads, their turns and items, the prompt inbox, usage, blobs.

-- Narrow on purpose: each item of the thread rewrites this row. What is written seldom is in the table below.
CREATE TABLE threads (
    key             INTEGER PRIMARY KEY,
    tenant          INTEGER NOT NULL REFERENCES tenants (number),
    id              TEXT    NOT NULL,
    title           TEXT,
    archived        INTEGER NOT NULL DEFAULT 0 CHECK (archived IN (0, 1)),
    -- The item at the end of the thread, and the newest turn: ids, as they are answered.
    head_item_id    TEXT,
    latest_turn_id  TEXT,
    last_message_at INTEGER,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    -- Rises within the tenant with each change: the order of "recent".
    changed         INTEGER NOT NULL,
    -- The position of the newest item and the number of the newest prompt; neither is given twice.
    last_position   INTEGER NOT NULL DEFAULT 0 CHECK (last_position >= 0),
    last_admitted   INTEGER NOT NULL DEFAULT 0 CHECK (last_admitted >= 0)
) STRICT;
CREATE UNIQUE INDEX threads_by_id ON threads (tenant, id);
CREATE INDEX threads_by_archived ON threads (tenant, archived);
CREATE INDEX threads_by_change ON threads (tenant, archived, changed);

CREATE TABLE thread_documents (
    thread        INTEGER PRIMARY KEY REFERENCES threads (key) ON DELETE CASCADE,
    model         TEXT,
    mode          TEXT,
    workspace     TEXT,
    system_prompt TEXT,
    task_id       TEXT,
    task_type     TEXT,
    metadata      TEXT,
    -- JSON: {"threadId", "itemId"?, "turnId"?}.
    forked_from   TEXT,
    -- Of the arguments, where the caller gave the id: tells a repeated call from another one.
    digest        BLOB
) STRICT;

CREATE TABLE turns (
    key                       INTEGER PRIMARY KEY,
    tenant                    INTEGER NOT NULL REFERENCES tenants (number),
    id                        TEXT    NOT NULL,
    thread                    INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
    execution_id              TEXT,
    status                    TEXT    NOT NULL CHECK (status IN ('queued', 'in_progress', 'completed', 'failed', 'interrupted', 'cancelled')),
    input_summary             TEXT    NOT NULL,
    created_at                INTEGER NOT NULL,
    started_at                INTEGER,
    ended_at                  INTEGER,
    duration_ms               INTEGER,
    last_request_input_tokens INTEGER,
    error                     TEXT,
    steer_count               INTEGER NOT NULL DEFAULT 0 CHECK (steer_count >= 0),
    owner_id                  TEXT,
    metadata                  TEXT,
    digest                    BLOB
) STRICT;
CREATE UNIQUE INDEX turns_by_id ON turns (tenant, id);
CREATE INDEX turns_of_thread ON turns (thread);
CREATE INDEX turns_open ON turns (tenant) WHERE status IN ('queued', 'in_progress');

-- Items of threads. Narrow on purpose, as threads are; what an item holds is in the two tables below.
CREATE TABLE thread_items (
    key        INTEGER PRIMARY KEY,
    tenant     INTEGER NOT NULL REFERENCES tenants (number),
    id         TEXT    NOT NULL,
    thread     INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
    turn       INTEGER REFERENCES turns (key) ON DELETE CASCADE,
    parent_id  TEXT,
    position   INTEGER NOT NULL CHECK (position >= 1),
    kind       TEXT    NOT NULL CHECK (kind IN ('user_message', 'assistant_message', 'reasoning', 'tool_call', 'file_change', 'command_execution',
                                                'context_compaction', 'status', 'error')),
    status     TEXT    NOT NULL CHECK (status IN ('queued', 'in_progress', 'completed', 'failed', 'interrupted', 'cancelled')),
    summary    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at   INTEGER
) STRICT;
CREATE UNIQUE INDEX thread_items_by_id ON thread_items (tenant, id);
CREATE UNIQUE INDEX thread_items_by_position ON thread_items (thread, position);
CREATE INDEX thread_items_of_turn ON thread_items (turn, position) WHERE turn IS NOT NULL;

CREATE TABLE item_contents (
    item     INTEGER PRIMARY KEY REFERENCES thread_items (key) ON DELETE CASCADE,
    -- Of the text, in UTF-16 code units: known without reading it.
    length   INTEGER NOT NULL CHECK (length >= 0),
    text     TEXT NOT NULL,
    -- How often another text has taken the place of what readers may know: one that does not begin with it.
    replaced INTEGER NOT NULL DEFAULT 0,
    data     TEXT,
    metadata TEXT,
    -- JSON: [{"blobId", "name"?}].
    blobs    TEXT,
    digest   BLOB
) STRICT;

-- Text that has streamed in since: appended, never rewritten, and joined to the text above when the item ends.
CREATE TABLE item_deltas (
    item  INTEGER NOT NULL REFERENCES thread_items (key) ON DELETE CASCADE,
    -- Of the whole text up to and with this one, in UTF-16 code units and in bytes: the last row tells how long the text is.
    until INTEGER NOT NULL CHECK (until >= 1),
    bytes INTEGER NOT NULL CHECK (bytes >= 1),
    -- Where the stream was cut within a surrogate pair: its second half, which comes before the text, and its first, which comes after it.
    low   INTEGER CHECK (low BETWEEN 0xdc00 AND 0xdfff),
    high  INTEGER CHECK (high BETWEEN 0xd800 AND 0xdbff),
    text  TEXT    NOT NULL,
    PRIMARY KEY (item, until)
) STRICT, WITHOUT ROWID;

-- The key's number is the sequence that callers see: one row of numbers a tenant, never reused.
CREATE TABLE thread_events (
    key        INTEGER PRIMARY KEY,
    tenant     INTEGER NOT NULL REFERENCES tenants (number),
    thread     INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
    turn_id    TEXT,
    item_id    TEXT,
    type       TEXT    NOT NULL,
    data       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX thread_events_of_thread ON thread_events (thread);

-- The newest sequence of thread events, also of deleted ones.
CREATE TABLE thread_event_sequences (
    tenant INTEGER PRIMARY KEY REFERENCES tenants (number),
    last   INTEGER NOT NULL
) STRICT;

CREATE TABLE inbox (
    key               INTEGER PRIMARY KEY,
    tenant            INTEGER NOT NULL REFERENCES tenants (number),
    id                TEXT    NOT NULL,
    thread            INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
    admitted_sequence INTEGER NOT NULL,
    status            TEXT    NOT NULL CHECK (status IN ('admitted', 'promoted', 'withdrawn')),
    delivery          TEXT    NOT NULL CHECK (delivery IN ('queue', 'steer')),
    prompt            TEXT    NOT NULL,
    request           TEXT,
    turn_id           TEXT,
    created_at        INTEGER NOT NULL,
    promoted_at       INTEGER,
    withdrawn_at      INTEGER,
    digest            BLOB
) STRICT;
CREATE UNIQUE INDEX inbox_by_id ON inbox (tenant, id);
CREATE UNIQUE INDEX inbox_of_thread ON inbox (thread, admitted_sequence);
CREATE INDEX inbox_by_turn ON inbox (tenant, turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX inbox_waiting ON inbox (thread, delivery, admitted_sequence) WHERE status = 'admitted';

-- What a response of a model has used, once. It outlives its thread: what was spent stays spent.
CREATE TABLE usage_records (
    key                 INTEGER PRIMARY KEY,
    tenant              INTEGER NOT NULL REFERENCES tenants (number),
    response_id         TEXT    NOT NULL,
    -- NULL once the turn is gone.
    turn                INTEGER REFERENCES turns (key) ON DELETE SET NULL,
    turn_id             TEXT    NOT NULL,
    thread_id           TEXT    NOT NULL,
    model               TEXT    NOT NULL,
    provider            TEXT,
    input_tokens        INTEGER NOT NULL CHECK (input_tokens >= 0),
    output_tokens       INTEGER NOT NULL CHECK (output_tokens >= 0),
    -- NULL where the provider did not tell.
    cache_read_tokens   INTEGER CHECK (cache_read_tokens >= 0),
    cache_write_tokens  INTEGER CHECK (cache_write_tokens >= 0),
    no_cache_tokens     INTEGER NOT NULL CHECK (no_cache_tokens >= 0),
    reasoning_tokens    INTEGER CHECK (reasoning_tokens >= 0),
    -- In US dollars; NULL where there was no price.
    cost_usd            REAL,
    cost_without_cache  REAL,
    metadata            TEXT,
    created_at          INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX usage_by_response ON usage_records (tenant, response_id);
CREATE INDEX usage_by_time ON usage_records (tenant, created_at);
CREATE INDEX usage_of_turn ON usage_records (turn) WHERE turn IS NOT NULL;
CREATE INDEX usage_unpriced ON usage_records (tenant) WHERE cost_usd IS NULL;

-- The prices that a tenant has set, as JSON; the default list counts without a row.
CREATE TABLE price_lists (
    tenant INTEGER PRIMARY KEY REFERENCES tenants (number),
    prices TEXT    NOT NULL
) STRICT;

CREATE TABLE blobs (
    key        INTEGER PRIMARY KEY,
    tenant     INTEGER NOT NULL REFERENCES tenants (number),
    sha256     BLOB    NOT NULL,
    size       INTEGER NOT NULL CHECK (size >= 0),
    media_type TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX blobs_by_hash ON blobs (tenant, sha256);

-- In chunks of one size, so that a range is read without what lies before it.
CREATE TABLE blob_chunks (
    blob   INTEGER NOT NULL REFERENCES blobs (key) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 0),
    bytes  BLOB    NOT NULL,
    PRIMARY KEY (blob, number)
) STRICT, WITHOUT ROWID;

-- Which records of other programs' files are in a thread, so that importing them again adds nothing.
CREATE TABLE imported_records (
    thread   INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
    -- Digests, 16 bytes each: of what the record is called, and of all of it.
    record   BLOB    NOT NULL,
    digest   BLOB,
    -- Of an item that is still to come: where its turn says that it stands.
    position INTEGER,
    PRIMARY KEY (thread, record)
) STRICT, WITHOUT ROWID;
