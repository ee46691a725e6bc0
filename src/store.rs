//! The store: opening, migrating, transactions.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(not(target_arch = "wasm32"))]
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, FromSqlError};
use rusqlite::{Connection, Row};
use rusqlite_migration::{M, Migrations};

use crate::changes::{Change, Touched};
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorCode, Result};
use crate::folds::Folds;
use crate::json::{FromJson, Json, MAX_DOCUMENT_BYTES};
use crate::operation::Topic;
use crate::parameters::{Parameters, bind};
use crate::requests::Asked;
use crate::statements::Database;
use crate::zones::Zones;

/// The schema, one step a file. The number of steps is the schema version.
const MIGRATIONS: Migrations<'static> = Migrations::from_slice(STEPS);
const STEPS: &[M<'static>] = &[
    M::up(include_str!("../migrations/0001_foundation.sql")),
    M::up(include_str!("../migrations/0002_chat.sql")),
    M::up(include_str!("../migrations/0003_search.sql")),
    M::up(include_str!("../migrations/0004_requests.sql")),
];

/// The newest schema that this version reads and writes.
pub const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// What the first migration marks a runkeep store with.
const APPLICATION_ID: i64 = 0x726e_6b70;

/// The tenant of the plain store.
const DEFAULT_TENANT: i64 = 1;

/// A key is `tenant << TENANT_SHIFT | number`; see the first migration.
const TENANT_SHIFT: u32 = 40;

/// How long a connection waits for another one before it answers `busy`.
#[cfg(not(target_arch = "wasm32"))]
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(not(target_arch = "wasm32"))]
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// What a commit survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// A crash of the program; not necessarily a loss of power.
    #[default]
    Relaxed,
    /// A loss of power too: each commit is flushed.
    Strict,
}

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    pub clock: Arc<dyn Clock>,
    /// Where cron schedules learn of time zones.
    pub zones: Arc<dyn Zones>,
    /// The size limit of one JSON document in bytes of text; 16 MiB.
    pub max_document_bytes: usize,
    pub durability: Durability,
}

impl Default for Options {
    fn default() -> Self {
        #[cfg(not(target_arch = "wasm32"))]
        let zones = crate::zones::TzDatabase;
        #[cfg(target_arch = "wasm32")]
        let zones = crate::wasm::HostZones;
        Self {
            clock: Arc::new(SystemClock),
            zones: Arc::new(zones),
            max_document_bytes: MAX_DOCUMENT_BYTES,
            durability: Durability::default(),
        }
    }
}

/// A durable store of runs. Clones are handles on the same connection.
///
/// ```
/// use runkeep::{Store, executions::CreateExecution};
/// # fn main() -> runkeep::Result<()> {
/// let store = Store::in_memory()?;
/// let run = store.executions().create(CreateExecution { workflow_id: "greet".parse()?, ..Default::default() })?;
/// assert_eq!(run.record.status.as_str(), "pending");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    /// The tenant whose rows this handle sees; the plain store without one.
    tenant: Option<Arc<str>>,
    /// Where it is told what this handle's transactions changed, after each commit.
    listener: Option<Arc<Mutex<Touched<String>>>>,
    /// For which request this handle runs a procedure.
    asked: Option<Arc<Asked>>,
}

struct Inner {
    /// `None` once closed.
    database: Mutex<Option<Database>>,
    options: Options,
    /// The last tick of this store's driver of sweeps.
    tick: Mutex<Option<Tick>>,
    folds: Mutex<Folds>,
    /// Counts this process's writing transactions, for those who wait for a change.
    writes: Mutex<u64>,
    written: Condvar,
    #[cfg(feature = "development")]
    efforts: Mutex<crate::effort::Efforts>,
}

/// A sweep that is one of a series, and when the next is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tick {
    pub(crate) at: i64,
    interval_ms: i64,
}

impl Tick {
    pub(crate) fn new(at: i64, interval_ms: i64) -> Self {
        Self { at, interval_ms }
    }

    /// Whether so much time has passed since that the device must have slept: more than two minutes, and than three intervals.
    pub(crate) fn is_overdue(&self, now: i64) -> bool {
        const SLEEP_MS: i64 = 2 * 60 * 1000;
        now.saturating_sub(self.at) > SLEEP_MS.max(self.interval_ms.saturating_mul(3))
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in the file at `path`, making it if there is none. Several processes may have the same file open.
    ///
    /// # Errors
    /// `schema_too_new` for a file of a newer version, `corrupt` for a file that is no store; both leave the file as it was.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, Options::default())
    }

    /// [`open`](Self::open) with a clock and limits of your own.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        // While another process makes the file, SQLite answers "busy" at once where waiting could deadlock (the change to WAL).
        let mut patience = BUSY_TIMEOUT;
        loop {
            refuse_newer(path.as_ref())?;
            let connection = Connection::open(&path)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            match Self::prepare(connection, options.clone(), |connection| set_journal_mode(connection, "wal")) {
                Err(error) if error.code() == ErrorCode::Busy && patience > RETRY_PAUSE => {
                    std::thread::sleep(RETRY_PAUSE);
                    patience -= RETRY_PAUSE;
                }
                outcome => return outcome,
            }
        }
    }

    /// A store that lives as long as its handles do.
    pub fn in_memory() -> Result<Self> {
        Self::in_memory_with(Options::default())
    }

    /// [`in_memory`](Self::in_memory) with a clock and limits of your own.
    pub fn in_memory_with(options: Options) -> Result<Self> {
        Self::prepare(Connection::open_in_memory()?, options, |connection| set_journal_mode(connection, "memory"))
    }

    /// The store in the OPFS pool that is registered under the name `vfs`.
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn open_vfs(path: impl AsRef<Path>, vfs: &str, options: Options) -> Result<Self> {
        let connection = Connection::open_with_flags_and_vfs(path, rusqlite::OpenFlags::default(), vfs)?;
        // The pool serves one connection and has no shared memory. Without it, WAL needs the exclusive mode, set before the first read.
        connection.query_row("PRAGMA locking_mode = exclusive", [], |_| Ok(()))?;
        Self::prepare(connection, options, |connection| set_journal_mode(connection, "wal"))
    }

    fn prepare(mut connection: Connection, options: Options, journal: impl FnOnce(&Connection) -> Result<()>) -> Result<Self> {
        // Until the file is known to be ours, nothing may write to it, the checkpoint at closing included.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // A plan depends on the SQL alone, so that statements are planned once: otherwise parameters that are compared with the condition
        // of a partial index have the statement planned again whenever their value changes, which costs more than running it.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        check_file(&connection)?;
        journal(&connection)?;
        connection.execute_batch(
            "PRAGMA foreign_keys = on;
             PRAGMA temp_store = memory;
             PRAGMA cache_size = -16384;",
        )?;
        set_synchronous(&connection, options.durability)?;
        migrate(&mut connection)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        // Where it is there already, opening writes nothing.
        if !connection.query_row("SELECT EXISTS (SELECT 1 FROM tenants WHERE number = ?1)", [DEFAULT_TENANT], |row| row.get(0))? {
            connection.execute(
                "INSERT INTO tenants (number, id, created_at, updated_at) VALUES (?1, 'default', ?2, ?2) ON CONFLICT DO NOTHING",
                (DEFAULT_TENANT, options.clock.now()),
            )?;
        }
        let inner = Inner {
            database: Mutex::new(Some(Database::new(connection))),
            options,
            tick: Mutex::new(None),
            folds: Mutex::default(),
            writes: Mutex::new(0),
            written: Condvar::new(),
            #[cfg(feature = "development")]
            efforts: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner), tenant: None, listener: None, asked: None })
    }

    /// The same store, bound to one tenant: nothing of another's can be read, changed, counted, claimed or found to exist. Calls answer
    /// `not_found` while there is no such tenant. Within one process this is order, not a security boundary.
    pub fn for_tenant(&self, id: impl Into<Arc<str>>) -> Self {
        Self { tenant: Some(id.into()), ..self.clone() }
    }

    /// The same store, and what is changed by way of it.
    pub(crate) fn listening(&self) -> (Self, Listener) {
        let listener = Arc::default();
        (Self { listener: Some(Arc::clone(&listener)), ..self.clone() }, Listener(listener))
    }

    /// The same store, for running a procedure that somebody asked for.
    pub(crate) fn asked_by(&self, asked: Asked) -> Self {
        Self { asked: Some(Arc::new(asked)), ..self.clone() }
    }

    pub(crate) fn asked(&self) -> Option<&Asked> {
        self.asked.as_deref()
    }

    /// Changes what commits survive from now on, for every handle.
    pub fn set_durability(&self, durability: Durability) -> Result<()> {
        set_synchronous(self.lock().as_ref().ok_or_else(closed)?.connection(), durability)
    }

    /// Whether this handle sees one tenant only.
    pub(crate) fn is_bound(&self) -> bool {
        self.tenant.is_some()
    }

    /// Closes the database for every handle. Later calls answer `closed`; closing twice is fine.
    pub fn close(&self) -> Result<()> {
        match self.lock().take() {
            Some(database) => Ok(database.close()?),
            None => Ok(()),
        }
    }

    /// The version of the SQLite library in use.
    pub fn sqlite_version() -> &'static str {
        rusqlite::version()
    }

    /// The time by the store's clock, in Unix milliseconds.
    pub(crate) fn now(&self) -> i64 {
        self.inner.options.clock.now()
    }

    /// The last tick of this store's driver of sweeps, which `replace` takes the place of.
    pub(crate) fn tick(&self, replace: Option<Tick>) -> Option<Tick> {
        let mut tick = self.inner.tick.lock().unwrap_or_else(PoisonError::into_inner);
        let last = *tick;
        *tick = replace.or(last);
        last
    }

    /// The SQL of every statement that this store has run so far.
    #[cfg(feature = "development")]
    pub fn statements(&self) -> Vec<String> {
        self.inner.efforts.lock().unwrap_or_else(PoisonError::into_inner).all()
    }

    /// What the statements that ran since this was last asked have taken, by their SQL.
    #[cfg(feature = "development")]
    pub fn efforts(&self) -> std::collections::BTreeMap<String, crate::effort::Effort> {
        self.inner.efforts.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Database>> {
        // A panic while the lock was held rolled its transaction back; the connection is usable.
        self.inner.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `body` in one transaction that writes. All or nothing.
    pub(crate) fn write<R>(&self, body: impl FnOnce(&Tx<'_>) -> Result<R>) -> Result<R> {
        self.transaction(Behavior::Immediate, body)
    }

    /// Runs `body` on one consistent state of the database.
    pub(crate) fn read<R>(&self, body: impl FnOnce(&Tx<'_>) -> Result<R>) -> Result<R> {
        self.transaction(Behavior::Deferred, body)
    }

    fn transaction<R>(&self, behavior: Behavior, body: impl FnOnce(&Tx<'_>) -> Result<R>) -> Result<R> {
        let (mut body, mut answer) = (Some(body), None);
        self.transact(behavior, &mut |tx| {
            if let Some(body) = body.take() {
                answer = Some(body(tx)?);
            }
            Ok(())
        })?;
        answer.ok_or_else(|| Error::new(ErrorCode::Internal, "a transaction ended without an answer"))
    }

    fn transact(&self, behavior: Behavior, body: &mut dyn FnMut(&Tx<'_>) -> Result<()>) -> Result<()> {
        let guard = self.lock();
        let transaction = Transaction::begin(guard.as_ref().ok_or_else(closed)?, behavior, &self.inner.folds)?;
        let touched = RefCell::default();
        let plain = Tx {
            database: transaction.database,
            folds: &self.inner.folds,
            #[cfg(feature = "development")]
            efforts: &self.inner.efforts,
            clock: &*self.inner.options.clock,
            zones: &*self.inner.options.zones,
            now: self.now(),
            tick: self.tick(None),
            tenant: DEFAULT_TENANT,
            is_plain: true,
            max_document_bytes: self.inner.options.max_document_bytes,
            touched: self.listener.as_ref().map(|_| &touched),
        };
        match &self.tenant {
            None => body(&plain),
            Some(id) => plain.of_named_tenant(id).and_then(|tx| body(&tx)),
        }?;
        let changes = plain.named(touched.take())?;
        transaction.commit()?;
        if let Some(listener) = &self.listener {
            let mut all = listener.lock().unwrap_or_else(PoisonError::into_inner);
            changes.into_iter().for_each(|change| all.merge(change.tenant, change.topics));
        }
        if matches!(behavior, Behavior::Immediate) {
            *self.inner.writes.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.inner.written.notify_all();
        }
        Ok(())
    }
}

/// How a transaction begins.
#[derive(Clone, Copy)]
enum Behavior {
    /// It reads.
    Deferred,
    /// It writes.
    Immediate,
}

/// A transaction, undone unless it is committed. rusqlite's own would have SQLite parse BEGIN and COMMIT each time.
struct Transaction<'c> {
    database: &'c Database,
    /// Of which none must come from what is undone.
    folds: &'c Mutex<Folds>,
    behavior: Behavior,
    is_committed: bool,
}

impl<'c> Transaction<'c> {
    fn begin(database: &'c Database, behavior: Behavior, folds: &'c Mutex<Folds>) -> Result<Self> {
        let sql = match behavior {
            Behavior::Deferred => "BEGIN DEFERRED",
            Behavior::Immediate => "BEGIN IMMEDIATE",
        };
        database.prepare(sql)?.execute(())?;
        Ok(Self { database, folds, behavior, is_committed: false })
    }

    fn commit(mut self) -> Result<()> {
        self.database.prepare("COMMIT")?.execute(())?;
        self.is_committed = true;
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        // Where SQLite has undone it by itself, there is none any more.
        let connection = self.database.connection();
        if !connection.is_autocommit() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        if matches!(self.behavior, Behavior::Immediate) {
            self.folds.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }
}

/// Hears what a handle's transactions changed.
pub(crate) struct Listener(Arc<Mutex<Touched<String>>>);

impl Listener {
    /// What was heard so far.
    pub(crate) fn take(&self) -> Vec<Change> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.0.into_iter().map(|(tenant, topics)| Change { tenant, topics }).collect()
    }
}

fn closed() -> Error {
    Error::new(ErrorCode::Closed, "this store is closed; open it again")
}

#[cfg(not(target_arch = "wasm32"))]
impl crate::operation::Queue<'_> {
    /// [`claim`](Self::claim), and while there is nothing to claim, waits for up to `wait_ms`. Blocks the thread. The wait is in real
    /// time, whatever the store's clock says.
    pub fn claim_waiting(&self, arguments: crate::queue::ClaimItems) -> Result<Vec<crate::queue::WorkItem>> {
        // What other processes write, and what time brings, is noticed only by looking.
        const LOOK: Duration = Duration::from_millis(50);
        #[expect(clippy::disallowed_methods, reason = "a thread waits in real time")]
        let now = std::time::Instant::now;
        let end = now() + Duration::from_millis(arguments.wait_ms.unwrap_or(0).try_into().unwrap_or(0));
        loop {
            let inner = &self.store().inner;
            let before = *inner.writes.lock().unwrap_or_else(PoisonError::into_inner);
            let claimed = self.claim(arguments.clone())?;
            let left = end.saturating_duration_since(now());
            if !claimed.is_empty() || left.is_zero() {
                return Ok(claimed);
            }
            let writes = inner.writes.lock().unwrap_or_else(PoisonError::into_inner);
            // The claim itself was a write.
            drop(inner.written.wait_timeout_while(writes, left.min(LOOK), |writes| *writes <= before + 1));
        }
    }
}

/// Refuses a file of a newer version by its header, where that tells it: opening it would leave files of SQLite's beside it.
#[cfg(not(target_arch = "wasm32"))]
fn refuse_newer(path: &Path) -> Result<()> {
    use std::io::Read;
    let mut header = [0; 72];
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    // With something in the WAL, the header may be old.
    let is_whole = std::fs::metadata(wal).map_or(true, |wal| wal.len() == 0);
    let is_read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header)).is_ok();
    let word = |at: usize| i64::from(u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    if is_whole && is_read && header.starts_with(b"SQLite format 3\0") && word(68) == APPLICATION_ID && word(60) > SCHEMA_VERSION
    {
        return Err(too_new(word(60)));
    }
    Ok(())
}

fn too_new(schema: i64) -> Error {
    Error::new(
        ErrorCode::SchemaTooNew,
        format!(
            "the store has schema {schema}, and this version of runkeep knows schemas up to {SCHEMA_VERSION}; use a newer version"
        ),
    )
    .with("schema", schema)
    .with("supported", SCHEMA_VERSION)
}

/// Refuses files that this version must not write to.
fn check_file(connection: &Connection) -> Result<()> {
    // One state of the file: somebody else may be migrating it right now.
    let snapshot = connection.unchecked_transaction()?;
    let number = |sql: &str| snapshot.query_row(sql, [], |row| row.get::<_, i64>(0));
    let schema = number("PRAGMA user_version")?;
    let application = number("PRAGMA application_id")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if tables > 0 && application != APPLICATION_ID {
        return Err(Error::new(
            ErrorCode::Corrupt,
            "the file is a SQLite database, but not a runkeep store; choose another path or name",
        ));
    }
    if schema > SCHEMA_VERSION {
        return Err(too_new(schema));
    }
    Ok(())
}

fn set_synchronous(connection: &Connection, durability: Durability) -> Result<()> {
    let level = match durability {
        Durability::Relaxed => "normal",
        Durability::Strict => "full",
    };
    Ok(connection.execute_batch(&format!("PRAGMA synchronous = {level}"))?)
}

fn set_journal_mode(connection: &Connection, wanted: &str) -> Result<()> {
    let mode: String = connection.query_row(&format!("PRAGMA journal_mode = {wanted}"), [], |row| row.get(0))?;
    // SQLite answers the mode that it kept instead of failing.
    if mode != wanted {
        return Err(Error::new(
            ErrorCode::StorageUnavailable,
            format!("SQLite stays in journal mode {mode:?} and does not take {wanted:?}"),
        ));
    }
    Ok(())
}

fn migrate(connection: &mut Connection) -> Result<()> {
    // Processes that open one new file at the same moment all see version 0; one migrates it, the others find it done.
    for last in [false, false, true] {
        let outcome = MIGRATIONS.to_latest(connection);
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match outcome {
            Ok(()) => break,
            Err(_) if version == SCHEMA_VERSION => break,
            Err(rusqlite_migration::Error::RusqliteError { err, .. }) if last => return Err(err.into()),
            Err(error) if last => return Err(Error::new(ErrorCode::Internal, format!("migration: {error}"))),
            Err(_) => {}
        }
    }
    Ok(())
}

/// One transaction of one tenant, at one moment.
pub struct Tx<'c> {
    database: &'c Database,
    folds: &'c Mutex<Folds>,
    #[cfg(feature = "development")]
    efforts: &'c Mutex<crate::effort::Efforts>,
    clock: &'c dyn Clock,
    pub(crate) zones: &'c dyn Zones,
    /// The time of this operation.
    pub(crate) now: i64,
    tick: Option<Tick>,
    pub(crate) tenant: i64,
    /// Whether this is the plain store, not one bound to a tenant.
    is_plain: bool,
    max_document_bytes: usize,
    /// What was changed, where somebody listens.
    touched: Option<&'c RefCell<Touched<i64>>>,
}

impl Tx<'_> {
    fn connection(&self) -> &Connection {
        self.database.connection()
    }

    /// The same transaction at the present moment: each call of a group has its own.
    pub(crate) fn at_present(&self) -> Self {
        Tx { database: self.database, now: self.clock.now(), ..*self }
    }

    /// The same transaction at another moment: for what an import brings from the past.
    pub(crate) fn at(&self, now: i64) -> Self {
        Tx { database: self.database, now, ..*self }
    }

    /// The same transaction for another tenant.
    pub(crate) fn of_tenant(&self, tenant: i64) -> Self {
        Tx { database: self.database, tenant, ..*self }
    }

    /// The folds that are known. What they tell of must be cleared from them before it is deleted or undone.
    pub(crate) fn folds(&self) -> MutexGuard<'_, Folds> {
        self.folds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something of this topic changed. Which id stands for it, [`Change::topics`] tells.
    pub(crate) fn touch(&self, topic: Topic, id: &str) {
        if let Some(touched) = self.touched {
            touched.borrow_mut().add(self.tenant, topic, Some(id));
        }
    }

    /// Says that anything of this topic may have changed.
    pub(crate) fn touch_any(&self, topic: Topic) {
        if let Some(touched) = self.touched {
            touched.borrow_mut().add(self.tenant, topic, None);
        }
    }

    /// Whether anybody wants to hear of changes.
    pub(crate) fn is_heard(&self) -> bool {
        self.touched.is_some()
    }

    /// Runs `body` as one call of those that share this transaction, and tells whether it changed rows. Then all of `topics` have changed.
    pub(crate) fn as_call<R>(&self, topics: &[Topic], body: impl FnOnce(&Tx<'_>) -> Result<R>) -> Result<(R, bool)> {
        let before = self.connection().total_changes();
        let own = RefCell::default();
        let answer = body(&Tx { database: self.database, touched: self.touched.map(|_| &own), ..*self })?;
        let has_changed = self.connection().total_changes() != before;
        if let Some(all) = self.touched.filter(|_| has_changed) {
            let mut own = own.into_inner();
            own.complete(self.tenant, topics);
            let mut all = all.borrow_mut();
            own.0.into_iter().for_each(|(tenant, topics)| all.merge(tenant, topics));
        }
        Ok((answer, has_changed))
    }

    /// What was touched, with the ids of tenants.
    fn named(&self, touched: Touched<i64>) -> Result<Vec<Change>> {
        let named = touched.0.into_iter().map(|(tenant, topics)| {
            let tenant = match tenant {
                DEFAULT_TENANT => "default".to_owned(),
                tenant => self
                    .row("SELECT id FROM tenants WHERE number = ?1", [tenant], |row| Ok(row.get(0)?))?
                    .ok_or_else(|| Error::corrupt("tenants", &tenant.to_string(), "its row is missing"))?,
            };
            Ok(Change { tenant, topics })
        });
        named.collect()
    }

    /// The whole database as a file, at this moment.
    pub(crate) fn serialize(&self) -> Result<Vec<u8>> {
        Ok(self.connection().serialize("main")?.to_vec())
    }

    /// Runs `body`. Where it fails, what it changed is undone, its error is in the answer, and the transaction can go on. What is wrong
    /// with the store as such fails the transaction instead.
    pub(crate) fn attempt<R>(&self, body: impl FnOnce(&Self) -> Result<R>) -> Result<Result<R>> {
        self.connection().execute_batch("SAVEPOINT attempt")?;
        match body(self) {
            Ok(answer) => {
                self.connection().execute_batch("RELEASE attempt")?;
                Ok(Ok(answer))
            }
            // SQLite may have rolled the whole transaction back.
            Err(error) if error.code().is_of_the_store() => Err(error),
            Err(error) => {
                self.connection().execute_batch("ROLLBACK TO attempt; RELEASE attempt")?;
                self.folds().clear();
                Ok(Err(error))
            }
        }
    }

    /// Whether this store is swept regularly, and the next sweep is so late that the device must have slept.
    pub(crate) fn is_driver_overdue(&self) -> bool {
        self.tick.is_some_and(|tick| tick.is_overdue(self.now))
    }

    /// The time by which workers are judged alive: before a sweep has dealt with a sleep of the device, what it was when it fell asleep.
    pub(crate) fn waking(&self) -> i64 {
        self.tick.filter(|tick| tick.is_overdue(self.now)).map_or(self.now, |tick| tick.at)
    }

    /// The same transaction for the tenant of this id.
    pub(crate) fn of_named_tenant(&self, id: &str) -> Result<Self> {
        let tenant = crate::tenants::number(self, id)?;
        Ok(Tx { database: self.database, tenant, is_plain: false, ..*self })
    }

    /// Whether this is the plain store's: tokens of every tenant may be asked for, and what concerns the whole store.
    pub(crate) fn sees_all_tenants(&self) -> bool {
        self.is_plain
    }

    /// Every tenant's number.
    pub(crate) fn tenants(&self) -> Result<Vec<i64>> {
        self.rows("SELECT number FROM tenants ORDER BY number", (), |row| Ok(row.get(0)?))
    }

    #[cfg(not(feature = "development"))]
    fn prepare(&self, sql: &'static str) -> Result<crate::statements::Prepared<'_>> {
        Ok(self.database.prepare(sql)?)
    }

    #[cfg(feature = "development")]
    fn prepare(&self, sql: &'static str) -> Result<crate::effort::Counted<'_>> {
        Ok(crate::effort::Counted::new(self.database.prepare(sql)?, sql, self.efforts))
    }

    // Generic only on the outside: what is inside exists once.

    pub(crate) fn execute(&self, sql: &'static str, parameters: impl Parameters) -> Result<usize> {
        self.execute_with(sql, &parameters)
    }

    fn execute_with(&self, sql: &'static str, parameters: &dyn Parameters) -> Result<usize> {
        let mut statement = self.prepare(sql)?;
        bind(&mut statement, parameters)?;
        Ok(statement.raw_execute()?)
    }

    /// Runs a statement that must change exactly one row: a guarded transition that matched none, or several, is a fault.
    pub(crate) fn execute_one(&self, sql: &'static str, parameters: impl Parameters) -> Result<()> {
        self.execute_one_with(sql, &parameters)
    }

    fn execute_one_with(&self, sql: &'static str, parameters: &dyn Parameters) -> Result<()> {
        match self.execute_with(sql, parameters)? {
            1 => Ok(()),
            changed => Err(Error::new(ErrorCode::Internal, format!("a statement for one row changed {changed}: {sql}"))),
        }
    }

    pub(crate) fn row<T>(
        &self,
        sql: &'static str,
        parameters: impl Parameters,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        self.walk_with(sql, &parameters, &mut |row| {
            found = Some(read(row)?);
            Ok(false)
        })?;
        Ok(found)
    }

    pub(crate) fn rows<T>(
        &self,
        sql: &'static str,
        parameters: impl Parameters,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.walk_with(sql, &parameters, &mut |row| {
            all.push(read(row)?);
            Ok(true)
        })?;
        Ok(all)
    }

    /// Walks rows until `visit` answers false.
    pub(crate) fn walk(
        &self,
        sql: &'static str,
        parameters: impl Parameters,
        mut visit: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        self.walk_with(sql, &parameters, &mut visit)
    }

    fn walk_with(
        &self,
        sql: &'static str,
        parameters: &dyn Parameters,
        visit: &mut dyn FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut statement = self.prepare(sql)?;
        bind(&mut statement, parameters)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            if !visit(row)? {
                break;
            }
        }
        Ok(())
    }

    /// The first key that this tenant may use, and the last.
    pub(crate) fn keys(&self) -> (i64, i64) {
        let base = self.tenant << TENANT_SHIFT;
        (base + 1, base + (1 << TENANT_SHIFT) - 1)
    }

    /// The key after the last one; `last_key` selects the largest key between ?1 and ?2.
    pub(crate) fn next_key(&self, last_key: &'static str) -> Result<i64> {
        let (first, last) = self.keys();
        let used = self.row(last_key, (first, last), |row| Ok(row.get::<_, i64>(0)?))?;
        Ok(used.map_or(first, |key| key + 1))
    }

    /// A key as the number that callers may see.
    pub(crate) fn number_of(&self, key: i64) -> i64 {
        key - (self.tenant << TENANT_SHIFT)
    }

    /// The number that callers see as a key, kept within the tenant.
    pub(crate) fn key_of(&self, number: i64) -> i64 {
        let (first, last) = self.keys();
        first.saturating_sub(1).saturating_add(number).clamp(first - 1, last)
    }

    /// Checks a document of the caller's against the limits, naming it.
    pub(crate) fn document(&self, name: &str, document: Option<&Json>) -> Result<()> {
        document.map_or(Ok(()), |document| document.check(name, self.max_document_bytes))
    }

    /// Checks a text of the caller's, by its length in bytes, against the limit of documents, naming it.
    pub(crate) fn text(&self, name: &str, bytes: usize) -> Result<()> {
        let most = self.max_document_bytes;
        if bytes <= most {
            return Ok(());
        }
        Err(Error::new(ErrorCode::TooLarge, format!("{name} makes a text of {bytes} bytes, over the limit of {most}"))
            .with("path", name)
            .with("bytes", bytes)
            .with("maxDocumentBytes", most))
    }
}

/// Reads the columns of one row; what cannot be read is `corrupt`, with the table and the row's id.
pub(crate) struct Columns<'r, 'q> {
    row: &'r Row<'q>,
    table: &'static str,
    id: RowId<'r>,
}

/// What an error names a row by.
enum RowId<'r> {
    Known(Cow<'r, str>),
    /// The text in this column.
    InColumn(usize),
}

impl<'r, 'q> Columns<'r, 'q> {
    pub(crate) fn new(row: &'r Row<'q>, table: &'static str, id: impl Into<Cow<'r, str>>) -> Self {
        Self { row, table, id: RowId::Known(id.into()) }
    }

    /// With the text in column `at` as the row's id.
    pub(crate) fn with_id(row: &'r Row<'q>, table: &'static str, at: usize) -> Self {
        Self { row, table, id: RowId::InColumn(at) }
    }

    fn id(&self) -> Cow<'_, str> {
        match &self.id {
            RowId::Known(id) => Cow::Borrowed(id),
            RowId::InColumn(at) => match self.row.get_ref(*at).map(|value| value.as_bytes()) {
                Ok(Ok(bytes)) => String::from_utf8_lossy(bytes),
                _ => Cow::Borrowed("(no text)"),
            },
        }
    }

    pub(crate) fn get<T: FromSql>(&self, at: usize) -> Result<T> {
        T::column_result(self.row.get_ref(at)?).map_err(|error| self.corrupt(at, &error))
    }

    fn corrupt(&self, at: usize, error: &FromSqlError) -> Error {
        let column = self.row.as_ref().column_name(at).unwrap_or("?");
        let reason = match error {
            FromSqlError::Other(inner) => inner.to_string(),
            // In the words of the error that rusqlite makes of it.
            FromSqlError::InvalidType => match self.row.get_ref(at) {
                Ok(value) => format!("Invalid column type {} at index: {at}, name: {column}", value.data_type()),
                Err(other) => other.to_string(),
            },
            other => other.to_string(),
        };
        Error::corrupt(self.table, &self.id(), format!("{column}: {reason}"))
    }

    /// A JSON column read as a Rust value.
    pub(crate) fn json<T: FromJson>(&self, at: usize) -> Result<Option<T>> {
        self.get::<Option<Json>>(at)?
            .map(|document| {
                document.read().map_err(|error| {
                    let column = self.row.as_ref().column_name(at).unwrap_or("?");
                    Error::corrupt(self.table, &self.id(), format!("{column}: {}", error.message()))
                })
            })
            .transpose()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use super::{Durability, Options, Store};

    fn synchronous(store: &Store) -> i64 {
        store.lock().as_ref().unwrap().connection().query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn strict_stores_flush_each_commit() {
        const NORMAL: i64 = 1;
        const FULL: i64 = 2;
        let store = Store::in_memory().unwrap();
        assert_eq!(synchronous(&store), NORMAL);
        store.set_durability(Durability::Strict).unwrap();
        assert_eq!(synchronous(&store), FULL);
        store.set_durability(Durability::Relaxed).unwrap();
        assert_eq!(synchronous(&store), NORMAL);
        let strict = Store::in_memory_with(Options { durability: Durability::Strict, ..Options::default() }).unwrap();
        assert_eq!(synchronous(&strict), FULL);
    }
}
