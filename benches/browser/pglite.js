// PGlite in its own worker wrapper. A function an operation, called in one statement: each is one transaction, and one query of the page.
import { PGliteWorker } from "@electric-sql/pglite/worker";
import schema from "./pglite.sql";
import { event, item, large, largeLog, largeState, leaseMs, listed, output, pageSize, queue, Requests, run, workerId } from "./work.js";

/**
 * Its documentation recommends IndexedDB, because Safari does not support its files in OPFS. Where they are supported they are the faster of the two,
 * and taken here; with relaxed durability, as queries then do not wait for the files to be flushed.
 */
export async function open(name) {
  const worker = new Worker("/bench/pglite-worker.js", { type: "module" });
  const db = await PGliteWorker.create(worker, { id: name, dataDir: `opfs-ahp://${name}`, relaxedDurability: true });
  const one = async (sql, values) => (await db.query(sql, values)).rows[0];
  if (!(await one("SELECT to_regclass('requests') AS found")).found) await db.exec(schema);
  const requests = new Requests();
  const change = (operation, values) =>
    requests.make(async (client, number, acked) => {
      const parameters = values.map((_, index) => `$${index + 5}`);
      const { answer } = await one(`SELECT ${operation}($1, $2, $3, $4${parameters.map((name) => `, ${name}`).join("")}) AS answer`, [
        client,
        number,
        acked,
        Date.now(),
        ...values,
      ]);
      return answer === null ? undefined : JSON.parse(answer);
    });
  const itemValues = ({ queue, executionId, nodeId, payload }) => [crypto.randomUUID(), queue, executionId, nodeId, JSON.stringify(payload)];
  return {
    read: () => one("SELECT id, last_sequence FROM executions WHERE id = $1", [run]),
    seed: (count) =>
      db.transaction(async (tx) => {
        const now = Date.now();
        await tx.query("INSERT INTO executions (id, workflow_id, status, created_at, updated_at, changed) VALUES ($1, 'bench', 'pending', $3, $3, 1), ($2, 'bench', 'pending', $3, $3, 2)", [run, large, now]);
        await tx.query("INSERT INTO queues (name) VALUES ($1), ($2)", [listed, queue]);
        const fill = async (name, count) => {
          const { queue, executionId, nodeId, payload } = item(0, name);
          await tx.query(
            `INSERT INTO items (id, queue, execution, node_id, status, run_at, created_at, payload)
             SELECT gen_random_uuid()::text, q.key, e.key, $3, 'pending', $4, $4, replace($5, '"n":0', '"n":' || n)
             FROM queues q, executions e, generate_series(0, $6::int - 1) n WHERE q.name = $1 AND e.id = $2 ORDER BY n`,
            [queue, executionId, nodeId, now, JSON.stringify(payload), count],
          );
          await tx.query("UPDATE queues SET pending = $2 WHERE name = $1", [name, count]);
        };
        await fill(listed, 200);
        await fill(queue, count);
        const { type, data } = event(0);
        await tx.query(
          `INSERT INTO events (execution, sequence, id, type, data, created_at)
           SELECT e.key, n + 1, gen_random_uuid()::text, $2, replace($3, '"n":0', '"n":' || n), $4 FROM executions e, generate_series(0, $5::int - 1) n WHERE e.id = $1`,
          [run, type, JSON.stringify(data), now, count],
        );
        await tx.query("UPDATE executions SET last_sequence = $2 WHERE id = $1", [run, count]);
        await tx.query(
          `INSERT INTO events (execution, sequence, id, type, data, created_at)
           SELECT e.key, n, gen_random_uuid()::text, event->>'type', event->>'data', $3 FROM executions e, json_array_elements($2::json) WITH ORDINALITY AS log (event, n) WHERE e.id = $1`,
          [large, JSON.stringify(largeLog), now],
        );
        await tx.query("INSERT INTO execution_states (execution, state) SELECT key, $2 FROM executions WHERE id = $1", [large, JSON.stringify(largeState)]);
      }),
    append(n) {
      const { type, data } = event(n);
      return change("append_event", [crypto.randomUUID(), run, type, JSON.stringify(data)]);
    },
    enqueue: (n) => change("enqueue_item", itemValues(item(n))),
    claim: () => change("claim_item", [queue, leaseMs, workerId]),
    complete: ({ id, fence }) => change("complete_item", [id, fence, JSON.stringify(output)]),
    async list() {
      const { rows } = await db.query("SELECT i.*, q.name AS queue, e.id AS execution FROM items i JOIN queues q ON q.key = i.queue LEFT JOIN executions e ON e.key = i.execution WHERE q.name = $1 ORDER BY i.key LIMIT $2", [
        listed,
        pageSize,
      ]);
      return rows.map((row) => ({ ...row, payload: JSON.parse(row.payload) }));
    },
    state: async () => JSON.parse((await one("SELECT s.state FROM executions e JOIN execution_states s ON s.execution = e.key WHERE e.id = $1", [large])).state),
    async counts() {
      const { events } = await one("SELECT count(*) AS events FROM events v JOIN executions e ON e.key = v.execution WHERE e.id = $1", [run]);
      const { pending, claimed, completed } = await one("SELECT pending, claimed, completed FROM queues WHERE name = $1", [queue]);
      return { events: Number(events), pending: Number(pending), claimed: Number(claimed), completed: Number(completed) };
    },
    /** Stores what relaxed durability left for later, so that it runs in nobody else's time. */
    settle: () => db.syncToFs(),
    async close() {
      await db.exec("CHECKPOINT");
      await db.syncToFs();
      await db.close();
    },
  };
}
