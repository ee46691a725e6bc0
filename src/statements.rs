//! The connection of a store, and the statements that it has prepared. rusqlite's own cache hashes and copies the text of a statement each
//! time that it is used, which was a tenth of what an operation costs: here a statement is found by where its text is in the program.

use std::cell::RefCell;
use std::mem::{ManuallyDrop, transmute};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rusqlite::{Connection, PrepFlags, Statement};

/// A connection that is open, with its statements.
pub(crate) struct Database {
    connection: NonNull<Connection>,
    statements: Statements,
}

// SAFETY: SQLite binds neither a connection nor its statements to a thread, and all of them go to another one together: no statement
// leaves the database but in a `Prepared`, which borrows it.
unsafe impl Send for Database {}

/// In the order of their keys; those that are in use are out.
#[derive(Default)]
struct Statements(RefCell<Vec<(Key, Option<Statement<'static>>)>>);

/// Where the text of a statement begins, and how long it is.
type Key = (usize, usize);

impl Database {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection: NonNull::from(Box::leak(Box::new(connection))), statements: Statements::default() }
    }

    pub(crate) fn connection(&self) -> &Connection {
        // SAFETY: it is made from a box in `new`, and ends only with `self`.
        unsafe { self.connection.as_ref() }
    }

    /// A statement whose text is part of the program.
    pub(crate) fn prepare(&self, sql: &'static str) -> rusqlite::Result<Prepared<'_>> {
        let key = (sql.as_ptr() as usize, sql.len());
        let statement: Statement<'_> = match self.statements.take(key) {
            Some(statement) => statement,
            None => self.connection().prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)?,
        };
        Ok(Prepared { statement: ManuallyDrop::new(statement), key, home: &self.statements })
    }

    pub(crate) fn close(self) -> rusqlite::Result<()> {
        let mut this = ManuallyDrop::new(self);
        this.take().close().map_err(|(_, error)| error)
    }

    /// The connection as a value, when its statements are gone. Only for the end of `self`.
    fn take(&mut self) -> Connection {
        self.statements.0.get_mut().clear();
        // SAFETY: it is made from a box in `new`; nothing borrows it any more, as the statements are gone and `self` is borrowed for
        // writing; and whoever calls this does so once, when it ends `self`.
        *unsafe { Box::from_raw(self.connection.as_ptr()) }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl Statements {
    fn take(&self, key: Key) -> Option<Statement<'static>> {
        let mut all = self.0.borrow_mut();
        let at = all.binary_search_by_key(&key, |known| known.0).ok()?;
        all.get_mut(at)?.1.take()
    }

    /// Where one use was within another of the same text, one of the two is enough.
    fn put(&self, key: Key, statement: Statement<'static>) {
        let mut all = self.0.borrow_mut();
        match all.binary_search_by_key(&key, |known| known.0) {
            Ok(at) => all[at].1 = Some(statement),
            Err(at) => all.insert(at, (key, Some(statement))),
        }
    }
}

/// A statement in use, which goes back afterwards.
pub(crate) struct Prepared<'c> {
    statement: ManuallyDrop<Statement<'c>>,
    key: Key,
    home: &'c Statements,
}

impl<'c> Deref for Prepared<'c> {
    type Target = Statement<'c>;

    fn deref(&self) -> &Self::Target {
        &self.statement
    }
}

impl DerefMut for Prepared<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.statement
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // What was bound may be large.
        self.statement.clear_bindings();
        // SAFETY: `statement` is not used after this.
        let statement = unsafe { ManuallyDrop::take(&mut self.statement) };
        // SAFETY: a statement of the connection that `home` belongs to, which ends only after all that is in `home`.
        self.home.put(self.key, unsafe { transmute::<Statement<'_>, Statement<'static>>(statement) });
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use rusqlite::Connection;

    use super::Database;

    fn known(database: &Database) -> usize {
        database.statements.0.borrow().iter().filter(|known| known.1.is_some()).count()
    }

    #[test]
    fn a_statement_is_prepared_once_and_goes_with_the_connection() {
        let database = Database::new(Connection::open_in_memory().unwrap());
        let count = |sql| -> i64 { database.prepare(sql).unwrap().query_row([7], |row| row.get(0)).unwrap() };
        assert_eq!((count("SELECT ?1"), known(&database)), (7, 1));
        assert_eq!((count("SELECT ?1 + 1"), known(&database)), (8, 2));
        {
            let mut outer = database.prepare("SELECT 1 UNION ALL SELECT 2").unwrap();
            let mut rows = outer.query(()).unwrap();
            while let Some(row) = rows.next().unwrap() {
                let outer: i64 = row.get(0).unwrap();
                let mut inner = database.prepare("SELECT 1 UNION ALL SELECT 2").unwrap();
                let last: i64 = inner.query_map((), |row| row.get(0)).unwrap().last().unwrap().unwrap();
                assert!(outer <= last);
            }
        }
        assert_eq!(known(&database), 3);
        assert!(database.prepare("SELECT nothing").is_err());
        database.close().unwrap();

        // Two texts where one begins as the other: what is the same address is not the same statement.
        let text = "SELECT 12";
        let database = Database::new(Connection::open_in_memory().unwrap());
        let answer = |sql| -> i64 { database.prepare(sql).unwrap().query_row((), |row| row.get(0)).unwrap() };
        assert_eq!((answer(text), answer(&text[..8]), answer(text)), (12, 1, 12));
    }
}
