-- The tables that the bench's operations touch, with the indexes of runkeep's that their rows are in.
CREATE TABLE executions (
    key            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             text   NOT NULL UNIQUE,
    workflow_id    text   NOT NULL,
    status         text   NOT NULL,
    last_sequence  bigint NOT NULL DEFAULT 0,
    created_at     bigint NOT NULL,
    updated_at     bigint NOT NULL,
    changed        bigint NOT NULL,
    snapshot_at    bigint NOT NULL DEFAULT 0,
    snapshot_bytes bigint NOT NULL DEFAULT 0,
    tail_bytes     bigint NOT NULL DEFAULT 0
);
CREATE INDEX executions_by_status ON executions (status);
CREATE INDEX executions_by_change ON executions (changed);
CREATE TABLE execution_states (execution bigint PRIMARY KEY REFERENCES executions (key), state text);
CREATE TABLE snapshots (
    execution  bigint NOT NULL REFERENCES executions (key),
    sequence   bigint NOT NULL,
    fold       text   NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (execution, sequence)
);
CREATE TABLE events (
    execution  bigint NOT NULL REFERENCES executions (key),
    sequence   bigint NOT NULL,
    id         text   NOT NULL UNIQUE,
    type       text   NOT NULL,
    data       text   NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (execution, sequence)
);
CREATE TABLE queues (
    key       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name      text   NOT NULL UNIQUE,
    pending   bigint NOT NULL DEFAULT 0,
    claimed   bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0
);
CREATE TABLE items (
    key              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id               text   NOT NULL UNIQUE,
    queue            bigint NOT NULL REFERENCES queues (key),
    class            bigint NOT NULL DEFAULT 0,
    execution        bigint REFERENCES executions (key),
    node_id          text,
    status           text   NOT NULL,
    priority         bigint NOT NULL DEFAULT 0,
    attempt          bigint NOT NULL DEFAULT 0,
    max_attempts     bigint NOT NULL DEFAULT 3,
    run_at           bigint NOT NULL,
    fence            bigint NOT NULL DEFAULT 0,
    lease_expires_at bigint,
    lease_ms         bigint,
    worker_id        text,
    created_at       bigint NOT NULL,
    claimed_at       bigint,
    finished_at      bigint,
    output           text,
    settlement       text,
    payload          text
);
CREATE INDEX items_ready ON items (queue, class, priority DESC, run_at, key) WHERE status = 'pending';
CREATE INDEX items_leased ON items (queue, lease_expires_at) WHERE status = 'claimed';
CREATE INDEX items_of_queue ON items (queue, key);
CREATE INDEX items_of_execution ON items (execution);
CREATE TABLE requests (
    client text   NOT NULL,
    number bigint NOT NULL,
    digest bytea  NOT NULL,
    answer text   NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (client, number)
);

CREATE FUNCTION keep(client_ text, number_ bigint, acked bigint, now bigint, answer text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO requests VALUES (client_, number_, '\x0123456789012345678901234567890123456789012345678901234567890123', answer, now);
    DELETE FROM requests WHERE client = client_ AND number <= acked;
    RETURN answer;
END $$;

CREATE FUNCTION append_event(client text, number bigint, acked bigint, now bigint, event_id text, run text, event_type text, event_data text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    head executions;
    last bigint;
BEGIN
    SELECT * INTO head FROM executions WHERE id = run;
    INSERT INTO events VALUES (head.key, head.last_sequence + 1, event_id, event_type, event_data, now);
    SELECT changed INTO last FROM executions ORDER BY changed DESC LIMIT 1;
    UPDATE executions SET last_sequence = head.last_sequence + 1, updated_at = now, tail_bytes = head.tail_bytes + length(event_data),
        changed = CASE WHEN last = head.changed THEN last ELSE last + 1 END WHERE key = head.key;
    IF head.last_sequence + 1 - head.snapshot_at >= 100 THEN
        INSERT INTO snapshots VALUES (head.key, head.last_sequence + 1, '{"state":{}}', now);
        INSERT INTO execution_states VALUES (head.key, '{}') ON CONFLICT (execution) DO UPDATE SET state = excluded.state;
        UPDATE executions SET snapshot_at = head.last_sequence + 1, snapshot_bytes = 12, tail_bytes = 0 WHERE key = head.key;
    END IF;
    RETURN keep(client, number, acked, now, json_build_object('record', json_build_object('id', event_id, 'executionId', run, 'sequence',
        head.last_sequence + 1, 'type', event_type, 'data', event_data::json, 'createdAt', now), 'created', true)::text);
END $$;

CREATE FUNCTION enqueue_item(client text, number bigint, acked bigint, now bigint, item_id text, into_queue text, run text, node text, item_payload text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    item items;
BEGIN
    INSERT INTO items (id, queue, execution, node_id, status, run_at, created_at, payload)
        SELECT item_id, q.key, e.key, node, 'pending', now, now, item_payload FROM queues q, executions e WHERE q.name = into_queue AND e.id = run
        RETURNING * INTO item;
    UPDATE queues SET pending = pending + 1 WHERE key = item.queue;
    RETURN keep(client, number, acked, now, json_build_object('record', row_to_json(item), 'created', true)::text);
END $$;

CREATE FUNCTION claim_item(client text, number bigint, acked bigint, now bigint, from_queue text, lease bigint, worker text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    from_key bigint;
    item items;
BEGIN
    SELECT key INTO from_key FROM queues WHERE name = from_queue;
    IF EXISTS (SELECT FROM items WHERE queue = from_key AND status = 'claimed' AND lease_expires_at <= now) THEN
        RAISE 'the bench has none';
    END IF;
    UPDATE items SET status = 'claimed', attempt = attempt + 1, fence = fence + 1, lease_expires_at = now + lease, lease_ms = lease,
        worker_id = worker, claimed_at = now, settlement = NULL
        WHERE key = (SELECT key FROM items WHERE queue = from_key AND class = 0 AND status = 'pending' ORDER BY priority DESC, run_at, key LIMIT 1)
        RETURNING * INTO item;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE queues SET pending = pending - 1, claimed = claimed + 1 WHERE key = from_key;
    PERFORM keep(client, number, acked, now, json_build_array(json_build_array(item.id, item.fence))::text);
    RETURN row_to_json(item)::text;
END $$;

CREATE FUNCTION complete_item(client text, number bigint, acked bigint, now bigint, item_id text, held bigint, item_output text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    item items;
    answer text;
BEGIN
    SELECT * INTO item FROM items WHERE id = item_id AND status = 'claimed' AND fence = held;
    IF NOT FOUND THEN
        RAISE 'the lease is lost';
    END IF;
    SELECT json_build_object('status', 'completed', 'late', false, 'lastSequence', last_sequence, 'enqueued', json_build_array(), 'dropped', false)::text
        INTO answer FROM executions WHERE key = item.execution;
    UPDATE items SET status = 'completed', finished_at = now, output = item_output, lease_expires_at = NULL, lease_ms = NULL,
        settlement = json_build_object('call', 'complete', 'digest', repeat('0', 64), 'answer', answer)::text WHERE key = item.key;
    UPDATE queues SET claimed = claimed - 1, completed = completed + 1 WHERE key = item.queue;
    RETURN keep(client, number, acked, now, answer);
END $$;
