//! What statements cost, for the project's own tests of growth and of query plans.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Statement, StatementStatus};

use crate::statements::Prepared;

/// What running a statement took, by SQLite's own count. Unlike the time, it is the same each time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// How often it ran.
    pub runs: i64,
    /// Instructions of SQLite's virtual machine.
    pub steps: i64,
    /// Rows stepped over in walks through a whole table or index.
    pub scanned: i64,
    /// Sorts, and indexes made for one run.
    pub sorts: i64,
    /// How often it was planned anew although it was prepared.
    pub replans: i64,
}

impl std::ops::AddAssign for Effort {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.scanned += other.scanned;
        self.sorts += other.sorts;
        self.replans += other.replans;
    }
}

/// The statements that a store has run.
#[derive(Default)]
pub(crate) struct Efforts {
    all: BTreeSet<String>,
    since: BTreeMap<String, Effort>,
}

impl Efforts {
    pub(crate) fn all(&self) -> Vec<String> {
        self.all.iter().cloned().collect()
    }

    /// What ran since this was last asked.
    pub(crate) fn take(&mut self) -> BTreeMap<String, Effort> {
        std::mem::take(&mut self.since)
    }
}

/// A statement whose effort is counted when it is let go.
pub(crate) struct Counted<'c> {
    statement: Prepared<'c>,
    sql: String,
    efforts: &'c Mutex<Efforts>,
}

impl<'c> Counted<'c> {
    pub(crate) fn new(statement: Prepared<'c>, sql: &str, efforts: &'c Mutex<Efforts>) -> Self {
        Self { statement, sql: sql.to_owned(), efforts }
    }
}

impl<'c> Deref for Counted<'c> {
    type Target = Statement<'c>;

    fn deref(&self) -> &Self::Target {
        &self.statement
    }
}

impl DerefMut for Counted<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.statement
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let count = |status| i64::from(self.statement.reset_status(status));
        let effort = Effort {
            runs: count(StatementStatus::Run),
            steps: count(StatementStatus::VmStep),
            scanned: count(StatementStatus::FullscanStep),
            sorts: count(StatementStatus::Sort) + count(StatementStatus::AutoIndex),
            replans: count(StatementStatus::RePrepare),
        };
        let mut efforts = self.efforts.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = std::mem::take(&mut self.sql);
        efforts.all.insert(sql.clone());
        *efforts.since.entry(sql).or_default() += effort;
    }
}
