//! JamJet's state database becomes definitions, executions with their logs and snapshots, work items, dead letters, timers, tenants and
//! tokens.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::foreign::{Foreign, Read, Record, Table};
use super::jamjet_events::convert;
use super::{DifferingSnapshot, ImportReport, Outcome, ReconciledExecution};
use crate::error::{Error, ErrorCode, Result};
use crate::events::Event;
use crate::executions::{self, ExecutionStatus, Head, ImportedExecution};
use crate::fold::Effect;
use crate::ids::{Name, new_id};
use crate::json::{Json, digest};
use crate::operation::Topic;
use crate::queue::{self, ImportedItem, ItemStatus};
use crate::snapshots;
use crate::store::{Store, Tx};
use crate::tenants::{self, TenantLimits, TenantStatus};
use crate::tokens::Role;

const WHAT: &str = "JamJet state database";

macro_rules! tables {
    ($($constant:ident = $name:literal, $required:literal, [$($column:literal)*];)*) => {
        $(const $constant: &Table = &Table { name: $name, columns: &[$($column),*], required: $required };)*
        const TABLES: &[Table] = &[$(Table { name: $name, columns: &[$($column),*], required: $required }),*];
    };
}

tables! {
    TENANTS = "tenants", true, ["id" "name" "status" "policy_json" "limits_json" "created_at" "updated_at"];
    DEFINITIONS = "workflow_definitions", true, ["workflow_id" "version" "ir_json" "created_at" "tenant_id"];
    TOKENS = "api_tokens", true, ["id" "token_hash" "name" "role" "created_at" "expires_at" "last_used_at" "revoked_at" "tenant_id"];
    EXECUTIONS = "workflow_executions", true, ["execution_id" "workflow_id" "workflow_version" "status" "initial_input" "current_state"
        "started_at" "updated_at" "completed_at" "tenant_id"];
    EVENTS = "events", true, ["id" "execution_id" "sequence" "kind_json" "created_at" "tenant_id"];
    SNAPSHOTS = "snapshots", true, ["id" "execution_id" "at_sequence" "state_json" "created_at" "tenant_id"];
    ITEMS = "work_items", true, ["id" "execution_id" "node_id" "queue_type" "payload_json" "attempt" "max_attempts" "status" "worker_id"
        "lease_expires_at" "created_at" "claimed_at" "completed_at" "retry_after" "tenant_id"];
    DEAD_LETTERS = "dead_letter_items", true, ["id" "execution_id" "node_id" "queue_type" "payload_json" "attempt" "last_error"
        "created_at" "dead_lettered_at" "tenant_id"];
    TIMERS = "timers", false, ["id" "execution_id" "node_id" "fire_at" "correlation_key" "fired" "created_at" "fired_at" "tenant_id"];
    CRONS = "cron_jobs", false, ["name" "tenant_id"];
    AGENTS = "agents", false, ["id" "uri" "tenant_id"];
}

/// Rows that one transaction deals with.
const STEP: usize = 100;

/// The same for events, which are many and small.
const EVENT_STEP: usize = 1000;

/// Imports a JamJet state database, given as the content of its file. Ids, sequences, times and documents stay as they are. Where the row of
/// an execution says something else than its events, one `execution_reconciled` follows them. A row that cannot be read, or contradicts what
/// is stored, is reported and left out; nothing that is stored is overwritten.
///
/// A series of transactions: it can stop anywhere and be run again, and what is there already is skipped. Monthly usage counts in the month
/// in which it happened, and no limit of a tenant refuses anything.
pub(super) fn import(store: &Store, bytes: &[u8]) -> Result<ImportReport> {
    // A store that is closed says so before it reads anything.
    store.read(|_| Ok(()))?;
    // Everything is read once before anything is written, so that a damaged file changes nothing.
    let (file, there, rowids, contents) = read_through(bytes).map_err(of_file)?;
    let mut import = Import { store, file, rowids, contents, report: ImportReport::default() };
    for table in there {
        let read = import.rowids(table).len() as i64;
        import.report.tables.entry(table.name.to_owned()).or_default().read = read;
    }
    import.run()?;
    Ok(import.report)
}

type ReadThrough = (Foreign, Vec<&'static Table>, BTreeMap<&'static str, Vec<i64>>, Contents);

fn read_through(bytes: &[u8]) -> Result<ReadThrough> {
    let file = Foreign::open(bytes, WHAT)?;
    let there = file.tables(TABLES, WHAT)?;
    let mut rowids = BTreeMap::new();
    for &table in &there {
        rowids.insert(table.name, file.scan(table, |rowid, _| rowid)?);
    }
    let contents = Contents::read(&file)?;
    Ok((file, there, rowids, contents))
}

/// What SQLite cannot do with the file is the file's fault.
fn of_file(error: Error) -> Error {
    if error.code() != ErrorCode::Internal {
        return error;
    }
    Error::new(ErrorCode::Corrupt, format!("the file cannot be read, and nothing was imported: {}", error.message()))
}

/// What belongs to what in the file, by row number.
struct Contents {
    /// Of an execution: sequence and row of each event, in order.
    events: BTreeMap<String, Vec<(i64, i64)>>,
    snapshots: BTreeMap<String, Vec<(i64, i64)>>,
    dead_letters: BTreeMap<String, i64>,
    /// Events and snapshots that name no execution or no sequence: table, id, reason.
    unplaced: Vec<(&'static str, String, String)>,
}

impl Contents {
    fn read(file: &Foreign) -> Result<Self> {
        let mut unplaced = Vec::new();
        let mut by_execution = |table: &'static Table, sequence: &str| -> Result<BTreeMap<String, Vec<(i64, i64)>>> {
            let mut found: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
            file.scan(table, |rowid, row| {
                match row.get::<String>("execution_id").and_then(|id| Ok((id, row.get::<i64>(sequence)?))) {
                    Ok((id, sequence)) => found.entry(id).or_default().push((sequence, rowid)),
                    Err(reason) => unplaced.push((table.name, row.id(), reason)),
                }
            })?;
            found.values_mut().for_each(|rows| rows.sort_unstable());
            Ok(found)
        };
        let events = by_execution(EVENTS, "sequence")?;
        let snapshots = by_execution(SNAPSHOTS, "at_sequence")?;
        let dead_letters = file.scan(DEAD_LETTERS, |rowid, row| (row.id(), rowid))?.into_iter().collect();
        Ok(Self { events, snapshots, dead_letters, unplaced })
    }
}

struct Import<'s> {
    store: &'s Store,
    file: Foreign,
    rowids: BTreeMap<&'static str, Vec<i64>>,
    contents: Contents,
    report: ImportReport,
}

/// The tenants that rows can be put into: their numbers by id.
type Tenants = BTreeMap<String, i64>;

/// An execution that rows can belong to.
#[derive(Clone)]
struct Owner {
    tenant: i64,
    tenant_id: String,
    key: i64,
}

type Owners = BTreeMap<String, Owner>;

impl Import<'_> {
    fn rowids(&self, table: &Table) -> Vec<i64> {
        self.rowids.get(table.name).cloned().unwrap_or_default()
    }

    fn run(&mut self) -> Result<()> {
        for (table, id, reason) in std::mem::take(&mut self.contents.unplaced) {
            self.report.add(table, &id, Outcome::Rejected(reason));
        }
        self.each(TENANTS, read_tenant, write_tenant)?;
        let tenants: Tenants = self
            .store
            .read(|tx| {
                tx.rows("SELECT id, number FROM tenants ORDER BY number", (), |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))
            })?
            .into_iter()
            .collect();
        self.each(DEFINITIONS, read_definition, |tx, row: &Definition| {
            in_tenant(tx, &tenants, &row.tenant_id, |tx| write_definition(tx, row))
        })?;
        self.each(TOKENS, read_token, |tx, row: &Token| in_tenant(tx, &tenants, &row.tenant_id, |tx| write_token(tx, row)))?;
        let owners = self.executions(&tenants)?;
        self.items(&owners)?;
        self.each(TIMERS, read_timer, |tx, row: &Timer| match owner(&owners, &row.execution_id, &row.tenant_id) {
            Ok(owner) => write_timer(&tx.of_tenant(owner.tenant), owner.key, row),
            Err(reason) => Ok(Outcome::Rejected(reason)),
        })?;
        for (table, reason) in [
            (CRONS, "schedules are not imported, since JamJet's expressions are others: put it with cron.put"),
            (AGENTS, "there is no registry of agents here"),
        ] {
            self.each(table, |_| Err(reason.to_owned()), |_, _: &()| Ok(Outcome::Imported))?;
        }
        Ok(())
    }

    /// Takes the rows of a table over, some in each transaction.
    fn each<T>(
        &mut self,
        table: &'static Table,
        read: impl Fn(&Record<'_, '_>) -> Read<T>,
        write: impl Fn(&Tx<'_>, &T) -> Result<Outcome>,
    ) -> Result<()> {
        for rowids in self.rowids(table).chunks(STEP) {
            let mut rows = Vec::with_capacity(rowids.len());
            for &rowid in rowids {
                rows.push(self.file.row(table, rowid, |row| (row.id(), read(row)))?);
            }
            let outcomes = self.store.write(|tx| {
                let one = |(_, row): &(String, Read<T>)| match row {
                    Ok(row) => guarded(tx, || write(tx, row)),
                    Err(reason) => Ok(Outcome::Rejected(reason.clone())),
                };
                rows.iter().map(one).collect::<Result<Vec<_>>>()
            })?;
            for ((id, _), outcome) in rows.iter().zip(outcomes) {
                self.report.add(table.name, id, outcome);
            }
        }
        Ok(())
    }

    fn executions(&mut self, tenants: &Tenants) -> Result<Owners> {
        let mut owners = Owners::new();
        let mut imported: Vec<(i64, Owner)> = Vec::new();
        let mut seen = BTreeSet::new();
        for rowid in self.rowids(EXECUTIONS) {
            let (id, row) = self.file.row(EXECUTIONS, rowid, |row| (row.id(), read_execution(row)))?;
            seen.insert(id.clone());
            match self.execution(tenants, row)? {
                (Outcome::Rejected(reason), _) => {
                    self.orphans(tenants, &id, &format!("its execution was not imported: {reason}"))?;
                    self.report.add(EXECUTIONS.name, &id, Outcome::Rejected(reason));
                }
                (outcome, Some((updated_at, owner))) => {
                    if matches!(outcome, Outcome::Imported) {
                        imported.push((updated_at, owner.clone()));
                    }
                    owners.insert(id.clone(), owner);
                    self.report.add(EXECUTIONS.name, &id, outcome);
                }
                (outcome, None) => self.report.add(EXECUTIONS.name, &id, outcome),
            }
        }
        let of_none: BTreeSet<String> =
            self.contents.events.keys().chain(self.contents.snapshots.keys()).filter(|id| !seen.contains(*id)).cloned().collect();
        for id in of_none {
            self.orphans(tenants, &id, &format!("the file has no execution {id:?}"))?;
        }
        // What changed last in the file is the last change here.
        imported.sort_by_key(|(updated_at, owner)| (*updated_at, owner.key));
        for chunk in imported.chunks(STEP) {
            self.store
                .write(|tx| chunk.iter().try_for_each(|(_, owner)| executions::touch(&tx.of_tenant(owner.tenant), owner.key)))?;
        }
        Ok(owners)
    }

    /// One execution with its events and snapshots.
    fn execution(
        &mut self,
        tenants: &Tenants,
        row: Read<(String, ImportedExecution)>,
    ) -> Result<(Outcome, Option<(i64, Owner)>)> {
        let (tenant_id, row) = match row {
            Ok(row) => row,
            Err(reason) => return Ok((Outcome::Rejected(reason), None)),
        };
        let Some(&tenant) = tenants.get(&tenant_id) else { return Ok((Outcome::Rejected(no_tenant(&tenant_id)), None)) };
        let mut key = None;
        let outcome = self.store.write(|tx| {
            let tx = &tx.of_tenant(tenant);
            guarded(tx, || match executions::known_import(tx, &row.id)? {
                Some((known, stored)) if stored == Some(row.digest) => {
                    key = Some(known);
                    Ok(Outcome::Skipped)
                }
                Some(_) => Ok(Outcome::Rejected(format!("there is another execution {:?} already", row.id.as_str()))),
                None => {
                    tx.document("initial_input", Some(&row.input))?;
                    tx.document("current_state", Some(&row.state))?;
                    key = Some(executions::import(tx, &row)?);
                    Ok(Outcome::Imported)
                }
            })
        })?;
        let Some(key) = key else { return Ok((outcome, None)) };
        let owner = Owner { tenant, tenant_id, key };
        let events = self.contents.events.remove(row.id.as_str()).unwrap_or_default();
        let mut snapshots = self.contents.snapshots.remove(row.id.as_str()).unwrap_or_default();
        for chunk in events.chunks(EVENT_STEP) {
            self.log(&owner, &row, chunk, &mut snapshots)?;
        }
        let last = events.last().map_or(0, |(sequence, _)| *sequence).max(0);
        self.finish(&owner, &row, last, &snapshots)?;
        Ok((outcome, Some((row.updated_at, owner))))
    }

    /// Some events of an execution, and the snapshots up to the last of them, which are taken from `snapshots`.
    fn log(
        &mut self,
        owner: &Owner,
        row: &ImportedExecution,
        chunk: &[(i64, i64)],
        snapshots: &mut Vec<(i64, i64)>,
    ) -> Result<()> {
        let mut events = Vec::with_capacity(chunk.len());
        for &(_, rowid) in chunk {
            events.push(self.file.row(EVENTS, rowid, |event| (event.id(), read_event(event, &owner.tenant_id)))?);
        }
        let reached = chunk.last().map_or(0, |(sequence, _)| *sequence);
        let covered = snapshots.partition_point(|(sequence, _)| *sequence <= reached);
        let covered = self.read_snapshots(owner, snapshots.drain(..covered))?;
        let (outcomes, kept) = self.store.write(|tx| {
            let tx = &tx.of_tenant(owner.tenant);
            let mut head = Head::by_key(tx, owner.key)?;
            let before = head.last_sequence;
            let mut outcomes = Vec::with_capacity(events.len());
            for (_, event) in &events {
                outcomes.push(match event {
                    Err(reason) => Outcome::Rejected(reason.clone()),
                    Ok((event, _)) => {
                        let unchanged = head.clone();
                        let outcome = guarded(tx, || write_event(tx, &mut head, event))?;
                        if matches!(outcome, Outcome::Rejected(_)) {
                            head = unchanged;
                        }
                        outcome
                    }
                });
            }
            let kept = write_snapshots(tx, &mut head, &covered)?;
            if head.last_sequence != before {
                executions::settle_import(tx, &mut head, row)?;
            }
            Ok((outcomes, kept))
        })?;
        for ((id, event), outcome) in events.iter().zip(outcomes) {
            if let (Ok((event, false)), Outcome::Imported) = (event, &outcome) {
                *self.report.unknown_events.entry(event.event_type.clone()).or_default() += 1;
            }
            self.report.add(EVENTS.name, id, outcome);
        }
        self.report_snapshots(owner, row, kept);
        Ok(())
    }

    /// The snapshots that are left, and the reconciliation of the log with the row.
    fn finish(&mut self, owner: &Owner, row: &ImportedExecution, last: i64, snapshots: &[(i64, i64)]) -> Result<()> {
        let snapshots = self.read_snapshots(owner, snapshots.iter().copied())?;
        let (kept, reconciled) = self.store.write(|tx| {
            let tx = &tx.of_tenant(owner.tenant);
            let mut head = Head::by_key(tx, owner.key)?;
            let kept = write_snapshots(tx, &mut head, &snapshots)?;
            // What follows the imported events is this store's own: the log was reconciled before, or has gone on.
            if head.last_sequence > last {
                return Ok((kept, None));
            }
            Ok((kept, reconcile(tx, &mut head, row, last)?))
        })?;
        self.report_snapshots(owner, row, kept);
        if let Some((sequence, folded_status, state_differed)) = reconciled {
            self.report.reconciled.push(ReconciledExecution {
                tenant_id: owner.tenant_id.clone(),
                execution_id: row.id.to_string(),
                sequence,
                status: row.status,
                folded_status,
                state_differed,
            });
        }
        Ok(())
    }

    fn read_snapshots(
        &self,
        owner: &Owner,
        rows: impl IntoIterator<Item = (i64, i64)>,
    ) -> Result<Vec<(String, Read<SnapshotRow>)>> {
        let read = |(_, rowid)| self.file.row(SNAPSHOTS, rowid, |row| (row.id(), read_snapshot(row, &owner.tenant_id)));
        rows.into_iter().map(read).collect()
    }

    fn report_snapshots(&mut self, owner: &Owner, row: &ImportedExecution, kept: Vec<(String, Outcome, Option<i64>)>) {
        for (id, outcome, differing) in kept {
            if let Some(sequence) = differing {
                self.report.differing_snapshots.push(DifferingSnapshot {
                    tenant_id: owner.tenant_id.clone(),
                    execution_id: row.id.to_string(),
                    sequence,
                });
            }
            self.report.add(SNAPSHOTS.name, &id, outcome);
        }
    }

    /// The events and snapshots of an execution that is not imported. Those that are there already are skipped all the same.
    fn orphans(&mut self, tenants: &Tenants, execution: &str, reason: &str) -> Result<()> {
        let events = self.contents.events.remove(execution).unwrap_or_default();
        for chunk in events.chunks(EVENT_STEP) {
            let mut rows = Vec::with_capacity(chunk.len());
            for &(_, rowid) in chunk {
                rows.push(self.file.row(EVENTS, rowid, |row| {
                    let tenant_id = row.get::<String>("tenant_id").unwrap_or_default();
                    (row.id(), read_event(row, &tenant_id), tenants.get(&tenant_id).copied())
                })?);
            }
            let outcomes = self.store.read(|tx| {
                let one = |(_, event, tenant): &(String, Read<(Event, bool)>, Option<i64>)| {
                    let (Ok((event, _)), Some(tenant)) = (event, tenant) else { return Ok(Outcome::Rejected(reason.to_owned())) };
                    Ok(known_event(&tx.of_tenant(*tenant), None, event)?
                        .filter(|outcome| matches!(outcome, Outcome::Skipped))
                        .unwrap_or_else(|| Outcome::Rejected(reason.to_owned())))
                };
                rows.iter().map(one).collect::<Result<Vec<_>>>()
            })?;
            for ((id, ..), outcome) in rows.iter().zip(outcomes) {
                self.report.add(EVENTS.name, id, outcome);
            }
        }
        for (_, rowid) in self.contents.snapshots.remove(execution).unwrap_or_default() {
            let id = self.file.row(SNAPSHOTS, rowid, |row| row.id())?;
            self.report.add(SNAPSHOTS.name, &id, Outcome::Rejected(reason.to_owned()));
        }
        Ok(())
    }

    /// Work items and dead letters. JamJet lists a dead letter in both tables; here it is one item.
    fn items(&mut self, owners: &Owners) -> Result<()> {
        let mut in_both = BTreeSet::new();
        for rowids in self.rowids(ITEMS).chunks(STEP) {
            let mut rows = Vec::with_capacity(rowids.len());
            for &rowid in rowids {
                let (id, item) = self.file.row(ITEMS, rowid, |row| (row.id(), read_item(row)))?;
                let letter = match self.contents.dead_letters.get(&id) {
                    Some(&rowid) => Some(self.file.row(DEAD_LETTERS, rowid, read_dead_letter)?),
                    None => None,
                };
                rows.push((id, item, letter));
            }
            let outcomes = self.store.write(|tx| {
                let one = |(_, item, letter): &(String, Read<Item>, Option<Read<Item>>)| match item {
                    Err(reason) => Ok((Outcome::Rejected(reason.clone()), None)),
                    Ok(item) => {
                        let letter = letter.as_ref().map(|letter| together(item, letter.as_ref()));
                        let last_word = letter.as_ref().and_then(|letter| letter.as_ref().ok().copied());
                        let outcome = guarded(tx, || write_item(tx, owners, item, last_word))?;
                        Ok((outcome, letter.map(|letter| letter.map(drop))))
                    }
                };
                rows.iter().map(one).collect::<Result<Vec<_>>>()
            })?;
            for ((id, ..), (outcome, letter)) in rows.iter().zip(outcomes) {
                match letter {
                    // Its item cannot be read, or there is none: the letter stands for itself.
                    None => {}
                    Some(Ok(())) if matches!(outcome, Outcome::Rejected(_)) => {}
                    Some(letter) => {
                        in_both.insert(id.clone());
                        let outcome = match letter {
                            Ok(()) if matches!(outcome, Outcome::Skipped) => Outcome::Skipped,
                            Ok(()) => Outcome::Imported,
                            Err(reason) => Outcome::Rejected(reason),
                        };
                        self.report.add(DEAD_LETTERS.name, id, outcome);
                    }
                }
                self.report.add(ITEMS.name, id, outcome);
            }
        }
        let alone: Vec<i64> =
            self.contents.dead_letters.iter().filter(|(id, _)| !in_both.contains(*id)).map(|(_, &rowid)| rowid).collect();
        self.rowids.insert(DEAD_LETTERS.name, alone);
        self.each(DEAD_LETTERS, read_dead_letter, |tx, letter: &Item| write_item(tx, owners, letter, None))
    }
}

/// Runs what one row takes. What is wrong with the row undoes that, and no more.
fn guarded(tx: &Tx<'_>, body: impl FnOnce() -> Result<Outcome>) -> Result<Outcome> {
    const CONSTRAINT: i64 = 19;
    tx.execute("SAVEPOINT imported_row", ())?;
    let outcome = match body() {
        Err(error) => {
            let refused = error.details().get("sqlite").and_then(Value::as_i64).is_some_and(|code| code & 0xff == CONSTRAINT);
            let is_of_row = matches!(
                error.code(),
                ErrorCode::InvalidArgument | ErrorCode::TooLarge | ErrorCode::Conflict | ErrorCode::NotFound
            );
            if !refused && !is_of_row {
                return Err(error);
            }
            Outcome::Rejected(error.message().to_owned())
        }
        Ok(outcome) => outcome,
    };
    if matches!(outcome, Outcome::Rejected(_)) {
        tx.execute("ROLLBACK TO imported_row", ())?;
    }
    tx.execute("RELEASE imported_row", ())?;
    Ok(outcome)
}

fn no_tenant(id: &str) -> String {
    format!("its tenant {id:?} was not imported, and the store has none of this id")
}

fn in_tenant(tx: &Tx<'_>, tenants: &Tenants, id: &str, write: impl FnOnce(&Tx<'_>) -> Result<Outcome>) -> Result<Outcome> {
    match tenants.get(id) {
        Some(&tenant) => write(&tx.of_tenant(tenant)),
        None => Ok(Outcome::Rejected(no_tenant(id))),
    }
}

/// The execution that a row belongs to.
fn owner<'o>(owners: &'o Owners, execution: &str, tenant_id: &str) -> Read<&'o Owner> {
    let owner = owners.get(execution).ok_or_else(|| format!("its execution {execution:?} was not imported"))?;
    if owner.tenant_id != tenant_id {
        return Err(format!("it is of the tenant {tenant_id:?}, and its execution of {:?}", owner.tenant_id));
    }
    Ok(owner)
}

fn not_negative(row: &Record<'_, '_>, column: &str) -> Read<i64> {
    match row.get::<i64>(column)? {
        number if number < 0 => Err(format!("{column}: it is {number}")),
        number => Ok(number),
    }
}

struct TenantRow {
    id: Name,
    name: Name,
    status: TenantStatus,
    policy: Option<Json>,
    limits: Option<TenantLimits>,
    created_at: i64,
    updated_at: i64,
    digest: [u8; 32],
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    max_concurrent_executions: Option<u32>,
    max_workflows: Option<u32>,
    max_tokens_per_month: Option<u64>,
    max_cost_per_month_usd: Option<f64>,
}

fn read_limits(json: &Json) -> Read<TenantLimits> {
    let limits: Limits = json.to().map_err(|error| format!("limits_json: {}", error.message()))?;
    if limits.max_cost_per_month_usd.is_some_and(|most| most < 0.0) {
        return Err("limits_json: max_cost_per_month_usd is negative".to_owned());
    }
    Ok(TenantLimits {
        max_concurrent_executions: limits.max_concurrent_executions.map(i64::from),
        max_workflows: limits.max_workflows.map(i64::from),
        max_tokens_per_month: limits.max_tokens_per_month.map(|most| i64::try_from(most).unwrap_or(i64::MAX)),
        max_cost_per_month_usd: limits.max_cost_per_month_usd,
    })
}

fn read_tenant(row: &Record<'_, '_>) -> Read<TenantRow> {
    Ok(TenantRow {
        id: row.name("id")?,
        name: row.name("name")?,
        status: row.get("status")?,
        policy: row.optional_json("policy_json")?,
        limits: row.optional_json("limits_json")?.as_ref().map(read_limits).transpose()?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        digest: row.digest(),
    })
}

fn write_tenant(tx: &Tx<'_>, row: &TenantRow) -> Result<Outcome> {
    tx.document("policy_json", row.policy.as_ref())?;
    let limits = row.limits.as_ref().map(Json::from_value).transpose()?;
    // The store makes the default tenant by itself. Until somebody says something of it, its row says nothing that could be lost.
    let known = tx.row(
        "SELECT digest, name IS NULL AND policy IS NULL AND limits IS NULL AND digest IS NULL AND status = 'active' AND number = 1
         FROM tenants WHERE id = ?1",
        [&row.id],
        |known| Ok((known.get::<_, Option<[u8; 32]>>(0)?, known.get::<_, bool>(1)?)),
    )?;
    match known {
        Some((Some(stored), _)) if stored == row.digest => Ok(Outcome::Skipped),
        Some((_, true)) if row.status == TenantStatus::Archived => {
            Ok(Outcome::Rejected("status: the default tenant always exists and cannot be archived".to_owned()))
        }
        Some((_, true)) => {
            tx.execute_one(
                "UPDATE tenants SET name = ?2, status = ?3, policy = ?4, limits = ?5, digest = ?6, created_at = ?7, updated_at = ?8
                 WHERE id = ?1",
                (&row.id, &row.name, row.status, &row.policy, limits, row.digest, row.created_at, row.updated_at),
            )?;
            Ok(Outcome::Imported)
        }
        Some(_) => Ok(Outcome::Rejected(format!(
            "there is another tenant {:?} already; it stays as it is, and takes the rows of this one",
            row.id.as_str()
        ))),
        None => {
            tx.execute_one(
                "INSERT INTO tenants (number, id, name, status, policy, limits, digest, created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                (
                    tenants::next_number(tx)?,
                    &row.id,
                    &row.name,
                    row.status,
                    &row.policy,
                    limits,
                    row.digest,
                    row.created_at,
                    row.updated_at,
                ),
            )?;
            Ok(Outcome::Imported)
        }
    }
}

struct Definition {
    tenant_id: String,
    id: Name,
    version: Name,
    definition: Json,
    created_at: i64,
}

fn read_definition(row: &Record<'_, '_>) -> Read<Definition> {
    Ok(Definition {
        tenant_id: row.get("tenant_id")?,
        id: row.name("workflow_id")?,
        version: row.name("version")?,
        definition: row.json("ir_json")?,
        created_at: row.time("created_at")?,
    })
}

fn write_definition(tx: &Tx<'_>, row: &Definition) -> Result<Outcome> {
    tx.document("ir_json", Some(&row.definition))?;
    let content = digest(&row.definition)?;
    let known = tx.row(
        "SELECT digest FROM workflows WHERE tenant = ?1 AND id = ?2 AND version = ?3",
        (tx.tenant, &row.id, &row.version),
        |known| Ok(known.get::<_, [u8; 32]>(0)?),
    )?;
    match known {
        Some(known) if known == content => return Ok(Outcome::Skipped),
        Some(_) => {
            return Ok(Outcome::Rejected(format!(
                "version {:?} of this workflow has another definition already",
                row.version.as_str()
            )));
        }
        None => {}
    }
    tx.touch(Topic::Workflows, &row.id);
    let key = tx.next_key("SELECT key FROM workflows WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO workflows (key, tenant, id, version, definition, digest, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
        (key, tx.tenant, &row.id, &row.version, &row.definition, content, row.created_at),
    )?;
    Ok(Outcome::Imported)
}

struct Token {
    tenant_id: String,
    id: Name,
    sha256: [u8; 32],
    name: Name,
    role: Role,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
    revoked_at: Option<i64>,
}

fn read_token(row: &Record<'_, '_>) -> Read<Token> {
    Ok(Token {
        tenant_id: row.get("tenant_id")?,
        id: row.name("id")?,
        // Of the token's text, as here: whoever has the token goes on using it.
        sha256: from_hex(&row.get::<String>("token_hash")?).ok_or("token_hash: it is no SHA-256 in hex")?,
        name: row.name("name")?,
        role: row.get("role")?,
        created_at: row.time("created_at")?,
        expires_at: row.optional_time("expires_at")?,
        last_used_at: row.optional_time("last_used_at")?,
        revoked_at: row.optional_time("revoked_at")?,
    })
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn write_token(tx: &Tx<'_>, row: &Token) -> Result<Outcome> {
    let known = tx.row(
        "SELECT tenant = ?1 AND id = ?2 AND sha256 = ?3 AND role = ?4 AND expires_at IS ?5 AND (?6 IS NULL OR revoked_at IS NOT NULL)
         FROM tokens WHERE (tenant = ?1 AND id = ?2) OR sha256 = ?3",
        (tx.tenant, &row.id, row.sha256, row.role, row.expires_at, row.revoked_at),
        |known| Ok(known.get::<_, bool>(0)?),
    )?;
    match known {
        Some(true) => return Ok(Outcome::Skipped),
        Some(false) => return Ok(Outcome::Rejected("there is another token of this id or secret already".to_owned())),
        None => {}
    }
    let key = tx.next_key("SELECT key FROM tokens WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO tokens (key, tenant, id, sha256, name, role, created_at, expires_at, revoked_at, last_used_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        rusqlite::params![
            key,
            tx.tenant,
            row.id,
            row.sha256,
            row.name,
            row.role,
            row.created_at,
            row.expires_at,
            row.revoked_at,
            row.last_used_at,
        ],
    )?;
    Ok(Outcome::Imported)
}

fn read_execution(row: &Record<'_, '_>) -> Read<(String, ImportedExecution)> {
    let status: ExecutionStatus = row.get("status")?;
    let completed_at = row.optional_time("completed_at")?;
    let execution = ImportedExecution {
        id: row.name("execution_id")?,
        workflow_id: row.name("workflow_id")?,
        workflow_version: row.name("workflow_version")?,
        status,
        input: row.json("initial_input")?,
        state: row.json("current_state")?,
        started_at: row.time("started_at")?,
        updated_at: row.time("updated_at")?,
        completed_at: completed_at.filter(|_| status.is_terminal()),
        digest: row.digest(),
    };
    Ok((row.get("tenant_id")?, execution))
}

/// An event, and whether its type is known.
fn read_event(row: &Record<'_, '_>, tenant_id: &str) -> Read<(Event, bool)> {
    same_tenant(row, tenant_id)?;
    let sequence = row.get::<i64>("sequence")?;
    if sequence < 1 {
        return Err(format!("sequence: it is {sequence}, and the first is 1"));
    }
    let converted = convert(&row.json("kind_json")?)?;
    let event = Event {
        id: row.name("id")?.to_string(),
        execution_id: row.get("execution_id")?,
        sequence,
        event_type: converted.event_type,
        data: converted.data,
        created_at: row.time("created_at")?,
    };
    Ok((event, converted.is_known))
}

fn same_tenant(row: &Record<'_, '_>, tenant_id: &str) -> Read<()> {
    let own = row.get::<String>("tenant_id")?;
    if own == tenant_id { Ok(()) } else { Err(format!("it is of the tenant {own:?}, and its execution of {tenant_id:?}")) }
}

/// What an event of this id that is there already means for an imported one. `execution` is the key of its own, where that is known.
fn known_event(tx: &Tx<'_>, execution: Option<i64>, event: &Event) -> Result<Option<Outcome>> {
    tx.row(
        "SELECT v.execution, v.sequence, v.type, v.data, e.id FROM events v JOIN executions e ON e.key = v.execution
         WHERE v.tenant = ?1 AND v.id = ?2",
        (tx.tenant, &event.id),
        |row| {
            let same = execution.is_none_or(|key| row.get(0) == Ok(key))
                && row.get::<_, i64>(1)? == event.sequence
                && row.get::<_, String>(2)? == event.event_type
                && row.get::<_, String>(3)? == event.data.as_str()
                && row.get::<_, String>(4)? == event.execution_id;
            Ok(if same { Outcome::Skipped } else { Outcome::Rejected("there is another event of this id already".to_owned()) })
        },
    )
}

fn write_event(tx: &Tx<'_>, head: &mut Head, event: &Event) -> Result<Outcome> {
    if let Some(outcome) = known_event(tx, Some(head.key), event)? {
        return Ok(outcome);
    }
    if event.sequence <= head.last_sequence {
        return Ok(Outcome::Rejected(format!(
            "its sequence is {}, and the log has come to {} with other events",
            event.sequence, head.last_sequence
        )));
    }
    tx.document("kind_json", Some(&event.data))?;
    let effect = Effect::of(&event.event_type, event.data.as_str())?;
    executions::import_event(tx, head, event, &effect)?;
    Ok(Outcome::Imported)
}

/// Brings the log up to what the row says, where that is something else. Answers the sequence of the event that does, the status before
/// it, and whether the states differed.
fn reconcile(tx: &Tx<'_>, head: &mut Head, row: &ImportedExecution, last: i64) -> Result<Option<(i64, ExecutionStatus, bool)>> {
    let folded = snapshots::fold(tx, head, head.last_sequence)?.outcome;
    let state_differed = row.state.to::<Value>()? != folded.state;
    if !state_differed && folded.status == row.status {
        return Ok(None);
    }
    // The change is as old as the row that tells of it.
    let at = row.completed_at.unwrap_or(row.updated_at);
    let data = Json::parse(format!("{{\"status\":\"{}\",\"state\":{}}}", row.status.as_str(), row.state.as_str()))?;
    let event = Event {
        id: new_id(at),
        execution_id: row.id.to_string(),
        sequence: last + 1,
        event_type: "execution_reconciled".to_owned(),
        data,
        created_at: at,
    };
    let effect = Effect::of(&event.event_type, event.data.as_str())?;
    executions::import_event(tx, head, &event, &effect)?;
    executions::settle_import(tx, head, row)?;
    Ok(Some((event.sequence, folded.status, state_differed)))
}

struct SnapshotRow {
    sequence: i64,
    state: Json,
    created_at: i64,
}

fn read_snapshot(row: &Record<'_, '_>, tenant_id: &str) -> Read<SnapshotRow> {
    same_tenant(row, tenant_id)?;
    Ok(SnapshotRow {
        sequence: not_negative(row, "at_sequence")?,
        state: row.json("state_json")?,
        created_at: row.time("created_at")?,
    })
}

/// Writes snapshots: each as the fold of the imported events, since that is what a snapshot here is. Answers for each what became of it,
/// and its sequence where its state was another.
fn write_snapshots(
    tx: &Tx<'_>,
    head: &mut Head,
    rows: &[(String, Read<SnapshotRow>)],
) -> Result<Vec<(String, Outcome, Option<i64>)>> {
    let mut kept = Vec::with_capacity(rows.len());
    for (id, row) in rows {
        let (outcome, differing) = match row {
            Err(reason) => (Outcome::Rejected(reason.clone()), None),
            Ok(row) if row.sequence > head.last_sequence => {
                let reason = format!("at_sequence: it is {}, and the log ends at {}", row.sequence, head.last_sequence);
                (Outcome::Rejected(reason), None)
            }
            Ok(row) => match snapshots::made_at(tx, head, row.sequence)? {
                Some(at) if at == row.created_at => (Outcome::Skipped, None),
                Some(_) => (Outcome::Rejected("there is another snapshot at this sequence already".to_owned()), None),
                None => {
                    let fold = snapshots::import(tx, head, row.sequence, row.created_at)?;
                    let differs = row.state.to::<Value>().is_ok_and(|state| state != fold.outcome.state);
                    (Outcome::Imported, differs.then_some(row.sequence))
                }
            },
        };
        kept.push((id.clone(), outcome, differing));
    }
    Ok(kept)
}

/// A work item or a dead letter.
struct Item {
    tenant_id: String,
    execution_id: String,
    /// Its key of the execution is filled in when it is written.
    item: ImportedItem,
    /// Where a row of the dead letters tells when and why it died.
    is_told: bool,
}

fn in_words(code: &str, message: &str) -> Json {
    serde_json::json!({ "code": code, "message": message }).into()
}

fn read_item(row: &Record<'_, '_>) -> Read<Item> {
    let status = row.get::<String>("status")?;
    let (created_at, claimed_at) = (row.time("created_at")?, row.optional_time("claimed_at")?);
    let (completed_at, retry_after) = (row.optional_time("completed_at")?, row.optional_time("retry_after")?);
    let attempt = not_negative(row, "attempt")?;
    let worker_id = row.get::<Option<String>>("worker_id")?.map(|_| row.name("worker_id")).transpose()?;
    let mut item = ImportedItem {
        id: row.name("id")?,
        execution: 0,
        node_id: row.name("node_id")?,
        queue: row.name("queue_type")?,
        payload: row.json("payload_json")?,
        status: ItemStatus::Pending,
        attempt,
        max_attempts: row.get("max_attempts")?,
        run_at: retry_after.unwrap_or(created_at),
        lease_expires_at: None,
        worker_id,
        created_at,
        claimed_at,
        finished_at: None,
        last_error: None,
        digest: row.digest(),
    };
    if item.max_attempts < 1 {
        return Err(format!("max_attempts: it is {}", item.max_attempts));
    }
    // JamJet counts the deliveries that failed; here the present one counts too.
    let delivered = attempt.saturating_add(1);
    match status.as_str() {
        "pending" => {}
        "claimed" => {
            if item.worker_id.is_none() || claimed_at.is_none() {
                return Err("status: it is claimed, and worker_id or claimed_at is missing".to_owned());
            }
            item.status = ItemStatus::Claimed;
            item.attempt = delivered;
            item.lease_expires_at = Some(row.time("lease_expires_at")?);
        }
        "completed" => {
            item.status = ItemStatus::Completed;
            item.attempt = delivered;
            item.finished_at = Some(completed_at.ok_or("status: it is completed, and completed_at is missing")?);
        }
        // Its row keeps neither the reason nor the time.
        "failed" => {
            item.status = ItemStatus::DeadLettered;
            item.attempt = delivered;
            item.finished_at = completed_at.or(claimed_at).or(Some(created_at));
            item.last_error = Some(in_words("jamjet_failed", "it had failed in JamJet, which keeps no reason of a failed item"));
        }
        "dead_lettered" => {
            item.status = ItemStatus::DeadLettered;
            item.finished_at = completed_at.or(claimed_at).or(Some(created_at));
            item.last_error =
                Some(in_words("jamjet_dead_lettered", "it was a dead letter in JamJet, and the row that told why is missing"));
        }
        other => return Err(format!("status: {other:?} is no status of a work item")),
    }
    Ok(Item { tenant_id: row.get("tenant_id")?, execution_id: row.get("execution_id")?, item, is_told: false })
}

fn read_dead_letter(row: &Record<'_, '_>) -> Read<Item> {
    const DEFAULT_MAX_ATTEMPTS: i64 = 3;
    let created_at = row.time("created_at")?;
    let item = ImportedItem {
        id: row.name("id")?,
        execution: 0,
        node_id: row.name("node_id")?,
        queue: row.name("queue_type")?,
        payload: row.json("payload_json")?,
        status: ItemStatus::DeadLettered,
        attempt: not_negative(row, "attempt")?,
        max_attempts: DEFAULT_MAX_ATTEMPTS,
        run_at: created_at,
        lease_expires_at: None,
        worker_id: None,
        created_at,
        claimed_at: None,
        finished_at: Some(row.time("dead_lettered_at")?),
        last_error: Some(Value::String(row.get("last_error")?).into()),
        digest: row.digest(),
    };
    Ok(Item { tenant_id: row.get("tenant_id")?, execution_id: row.get("execution_id")?, item, is_told: true })
}

/// The dead letter of a work item, if it tells of the same thing.
fn together<'i>(item: &Item, letter: Result<&'i Item, &String>) -> Read<&'i Item> {
    let letter = letter.map_err(Clone::clone)?;
    if item.item.status != ItemStatus::DeadLettered {
        return Err(format!("its work item is {}, and is imported as that", item.item.status.as_str()));
    }
    let same = item.tenant_id == letter.tenant_id
        && item.execution_id == letter.execution_id
        && item.item.node_id == letter.item.node_id
        && item.item.queue == letter.item.queue
        && item.item.payload == letter.item.payload;
    if same { Ok(letter) } else { Err("it differs from the work item of its id, which is imported".to_owned()) }
}

/// Writes an item; `letter` tells when and why it died.
fn write_item(tx: &Tx<'_>, owners: &Owners, row: &Item, letter: Option<&Item>) -> Result<Outcome> {
    let owner = match owner(owners, &row.execution_id, &row.tenant_id) {
        Ok(owner) => owner,
        Err(reason) => return Ok(Outcome::Rejected(reason)),
    };
    let tx = &tx.of_tenant(owner.tenant);
    match queue::digest_of(tx, &row.item.id)? {
        Some(stored) if stored == Some(row.item.digest) => return Ok(Outcome::Skipped),
        Some(_) if row.is_told => {
            return Ok(Outcome::Rejected("there is a work item of this id already, and it is another".to_owned()));
        }
        Some(_) => return Ok(Outcome::Rejected("there is another work item of this id already".to_owned())),
        None => {}
    }
    tx.document("payload_json", Some(&row.item.payload))?;
    let mut item = row.item.clone();
    item.execution = owner.key;
    if item.status == ItemStatus::Pending && item.run_at > tx.now {
        item.status = ItemStatus::Scheduled;
    }
    if let Some(letter) = letter {
        item.attempt = letter.item.attempt;
        item.finished_at = letter.item.finished_at;
        item.last_error = letter.item.last_error.clone();
    }
    queue::import(tx, &item)?;
    Ok(Outcome::Imported)
}

struct Timer {
    tenant_id: String,
    execution_id: String,
    id: Name,
    node_id: Name,
    correlation_key: Option<Name>,
    fire_at: i64,
    fired_at: Option<i64>,
    created_at: i64,
    digest: [u8; 32],
}

fn read_timer(row: &Record<'_, '_>) -> Read<Timer> {
    let fired_at = row.optional_time("fired_at")?;
    Ok(Timer {
        tenant_id: row.get("tenant_id")?,
        execution_id: row.get("execution_id")?,
        id: row.name("id")?,
        node_id: row.name("node_id")?,
        correlation_key: row.get::<Option<String>>("correlation_key")?.map(|_| row.name("correlation_key")).transpose()?,
        fire_at: row.time("fire_at")?,
        fired_at: match row.get::<i64>("fired")? {
            0 => None,
            _ => Some(fired_at.ok_or("fired: it has fired, and fired_at is missing")?),
        },
        created_at: row.time("created_at")?,
        digest: row.digest(),
    })
}

fn write_timer(tx: &Tx<'_>, execution: i64, row: &Timer) -> Result<Outcome> {
    let known = tx.row("SELECT digest FROM timers WHERE tenant = ?1 AND id = ?2", (tx.tenant, &row.id), |known| {
        Ok(known.get::<_, Option<[u8; 32]>>(0)?)
    })?;
    match known {
        Some(stored) if stored == Some(row.digest) => return Ok(Outcome::Skipped),
        Some(_) => return Ok(Outcome::Rejected("there is another timer of this id already".to_owned())),
        None => {}
    }
    tx.touch_any(Topic::Timers);
    let key = tx.next_key("SELECT key FROM timers WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO timers (key, tenant, id, execution, node_id, correlation_key, status, fire_at, created_at, fired_at, late_by_ms,
                             digest)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        (
            key,
            tx.tenant,
            &row.id,
            execution,
            &row.node_id,
            &row.correlation_key,
            if row.fired_at.is_some() { "fired" } else { "pending" },
            row.fire_at,
            row.created_at,
            row.fired_at,
            row.fired_at.map(|at| at.saturating_sub(row.fire_at).max(0)),
            row.digest,
        ),
    )?;
    Ok(Outcome::Imported)
}
