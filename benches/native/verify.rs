//! Whether the floor does what runkeep does.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use runkeep::ManualClock;
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};
use serde::Serialize;
use serde_json::Value as Document;

use crate::floor::{self, Floor, Record};
use crate::worlds::{Family, Worlds, open};
use crate::{Engine, LOG, RUNNING, Result, event, log, output, payload, running};

const ROWS: i64 = 1000;

/// Enough for two snapshots of each execution that is running.
const APPENDED: i64 = 250 * RUNNING;

/// Has both engines do the same, and fails where rows or answers differ. Answers how many rows were compared.
pub fn verify(worlds: &Worlds) -> Result<usize> {
    let mut compared = 0;
    for family in [Family::Logs, Family::Queue, Family::Executions] {
        let [path, floor_path] = [worlds.copy(family, ROWS, "verify-runkeep")?, worlds.copy(family, ROWS, "verify-floor")?];
        let now = 4_000_000_000_000;
        let clocks = [ManualClock::new(now), ManualClock::new(now)];
        let store = open(&path, Arc::new(clocks[0].clone()))?;
        let floor = Floor::open(&floor_path, Arc::new(clocks[1].clone()))?;
        run(&store, &clocks[0], family)?;
        run(&floor, &clocks[1], family)?;
        compared += same_rows(&path, &floor_path)?;
        match family {
            Family::Logs => {
                for execution in [log(0)?, running(0)?, running(7)?] {
                    let fold = floor.materialize(execution.clone(), None)?;
                    for at in [Some(fold.last_sequence), None, None] {
                        same_fold(&store.materialize(execution.clone(), at)?, &fold)?;
                    }
                    let (page, rows) = (store.list_events(execution.clone(), 13)?, floor.list_events(execution, 13)?);
                    compared += same_page(&page.items, &floor.columns(floor::EVENTS)?, &rows)?;
                }
            }
            Family::Queue => {
                compared += same_page(&store.list_items(3)?.items, &floor.columns(floor::ITEMS)?, &floor.list_items(3)?)?;
            }
            Family::Executions => {
                let (page, rows) = (store.list_executions(3)?, floor.list_executions(3)?);
                compared += same_page(&page.items, &floor.columns(floor::EXECUTIONS)?, &rows)?;
            }
        }
    }
    Ok(compared)
}

fn run<E: Engine>(engine: &E, clock: &ManualClock, family: Family) -> Result<()> {
    for n in 0..if family == Family::Logs { APPENDED } else { 100 } {
        clock.advance(7);
        match family {
            Family::Logs => {
                let (patch, data) = event(2 + n / RUNNING)?;
                engine.append(running(n)?, &patch, data)?;
            }
            Family::Queue => {
                engine.enqueue(running(n)?, payload(n)?)?;
                clock.advance(7);
                let claimed = engine.claim()?;
                clock.advance(7);
                // Some stay claimed.
                if n % 3 > 0 {
                    engine.complete(claimed, output(n)?)?;
                }
            }
            Family::Executions => {}
        }
    }
    Ok(())
}

fn same_rows(path: &Path, floor_path: &Path) -> Result<usize> {
    let (rows, floor_rows) = (dump(path)?, dump(floor_path)?);
    for (row, floor_row) in rows.iter().zip(&floor_rows) {
        if row != floor_row {
            return Err(format!("runkeep leaves {row}, and the floor {floor_row}").into());
        }
    }
    if rows.len() != floor_rows.len() {
        return Err(format!("runkeep leaves {} rows, and the floor {}", rows.len(), floor_rows.len()).into());
    }
    Ok(rows.len())
}

/// Every row of every table, in the order of its key.
fn dump(path: &Path) -> Result<Vec<String>> {
    let connection = Connection::open(path)?;
    let mut tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
    let tables = tables.query_map((), |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut dump = Vec::new();
    for table in tables {
        let mut keys = connection.prepare("SELECT group_concat(name) FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?;
        let key: Option<String> = keys.query_row([&table], |row| row.get(0))?;
        let mut all = connection.prepare(&format!("SELECT * FROM {table} ORDER BY {}", key.as_deref().unwrap_or("rowid")))?;
        let columns = all.column_count();
        let mut rows = all.query(())?;
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|at| Ok(shown(row.get_ref(at)?))).collect::<Result<Vec<_>>>()?;
            dump.push(format!("{table}: {}", values.join(" | ")));
        }
    }
    Ok(dump)
}

/// Random ids, and what depends on them, are as good as any other.
fn shown(value: ValueRef<'_>) -> String {
    let ValueRef::Text(text) = value else { return format!("{value:?}") };
    let text = String::from_utf8_lossy(text);
    let is_id = text.len() == 36 && text.as_bytes().get(14) == Some(&b'7') && text.matches('-').count() == 4;
    if is_id {
        return "(id)".to_owned();
    }
    match text.split_once(r#""digest":""#) {
        Some((before, after)) if after.is_char_boundary(64) => format!("{before}(digest){}", &after[64..]),
        _ => text.into_owned(),
    }
}

fn same_fold(fold: &runkeep::Materialized, floor: &floor::Materialized) -> Result<()> {
    let state: Document = floor.state.as_deref().map_or(Ok(Document::Null), serde_json::from_str)?;
    let nodes: BTreeMap<&str, &str> =
        fold.completed_nodes.iter().map(|(node, output)| (node.as_str(), output.as_str())).collect();
    let floor_nodes: BTreeMap<&str, &str> =
        floor.completed_nodes.iter().map(|(node, output)| (node.as_str(), output.get())).collect();
    let is_same = fold.state == state
        && fold.status.as_str() == floor.status
        && fold.last_sequence == floor.last_sequence
        && nodes == floor_nodes
        && fold.last_sequence > LOG / 10;
    if is_same { Ok(()) } else { Err(format!("the folds differ: {} nodes, and {}", nodes.len(), floor_nodes.len()).into()) }
}

/// Whether each record is what the row beside it says.
fn same_page(records: &[impl Serialize], columns: &[String], rows: &[Record]) -> Result<usize> {
    if records.len() != 100 || rows.len() != 100 {
        return Err(format!("the pages are of {} and {} rows", records.len(), rows.len()).into());
    }
    for (record, row) in records.iter().zip(rows) {
        let record = serde_json::to_value(record)?;
        for (column, value) in columns.iter().zip(row) {
            let expected = record.get(column).unwrap_or(&Document::Null);
            let is_same = match value {
                Value::Null => expected.is_null() || *expected == Document::Object(Default::default()),
                Value::Integer(number) => expected.as_i64().or(expected.as_bool().map(i64::from)) == Some(*number),
                Value::Text(text) => {
                    // The ids of new rows are random.
                    let is_json = serde_json::from_str::<Document>(text).is_ok_and(|document| document == *expected);
                    let is_random =
                        expected.as_str().is_some_and(|expected| shown(expected.into()) == shown(text.as_str().into()));
                    is_json || is_random
                }
                Value::Real(_) | Value::Blob(_) => false,
            };
            if !is_same {
                return Err(format!("{column} is {expected} in runkeep's page, and {value:?} in the floor's").into());
            }
        }
    }
    Ok(rows.len())
}
