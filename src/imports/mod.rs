//! Imports of other programs' files.

mod claude;
mod codex;
mod files;
mod foreign;
mod jamjet;
mod jamjet_events;
mod record;
mod sessions;
mod zagens;

use std::collections::BTreeMap;

use crate::error::Result;
use crate::executions::ExecutionStatus;
use crate::operation::TakesBytes;
use crate::store::Store;

pub use files::{FileReport, ImportProgress};
pub(crate) use sessions::chunk;
pub use sessions::{ImportChunk, ImportedChunk, RejectedLine, SessionFormat};

arguments! {
    /// A JamJet state database.
    pub struct ImportJamjet {
        /// The file.
        #[cfg_attr(feature = "development", ts(skip))]
        pub bytes: Vec<u8> as skip,
    }
}

impl TakesBytes for ImportJamjet {
    fn give_bytes(&mut self, bytes: &[u8]) {
        self.bytes = bytes.to_vec();
    }
}

pub(crate) fn jamjet(store: &Store, arguments: ImportJamjet) -> Result<ImportReport> {
    jamjet::import(store, &arguments.bytes)
}

records! {
    /// What an import did. Importing the same file again adds nothing.
    #[derive(Default)]
    pub struct ImportReport {
        /// By the tables of the file.
        pub tables: BTreeMap<String, ImportCounts>,
        /// Executions whose row said something else than their events; an `execution_reconciled` follows those.
        pub reconciled: Vec<ReconciledExecution>,
        /// Rows that were not imported, and why.
        pub rejected: Vec<RejectedRow>,
        /// Snapshots whose state is not what the events before them make. They were imported with what the events make.
        pub differing_snapshots: Vec<DifferingSnapshot>,
        /// Events of other types than those of this store, or with other data, by the type under which they were kept.
        pub unknown_events: BTreeMap<String, i64>,
    }

    /// What became of the rows of one table.
    #[derive(Default)]
    pub struct ImportCounts {
        pub read: i64,
        pub imported: i64,
        /// Imported before.
        pub skipped: i64,
        pub rejected: i64,
    }

    pub struct ReconciledExecution {
        pub tenant_id: String,
        pub execution_id: String,
        /// Of the `execution_reconciled` event.
        pub sequence: i64,
        /// What the row says.
        pub status: ExecutionStatus,
        /// What the events make.
        pub folded_status: ExecutionStatus,
        /// Whether the states differed.
        pub state_differed: bool,
    }

    pub struct RejectedRow {
        pub table: String,
        pub id: String,
        pub reason: String,
    }

    pub struct DifferingSnapshot {
        pub tenant_id: String,
        pub execution_id: String,
        pub sequence: i64,
    }
}

/// What became of one row.
enum Outcome {
    Imported,
    Skipped,
    Rejected(String),
}

impl ImportReport {
    fn add(&mut self, table: &str, id: &str, outcome: Outcome) {
        let counts = self.tables.entry(table.to_owned()).or_default();
        match outcome {
            Outcome::Imported => counts.imported += 1,
            Outcome::Skipped => counts.skipped += 1,
            Outcome::Rejected(reason) => {
                counts.rejected += 1;
                self.rejected.push(RejectedRow { table: table.to_owned(), id: id.to_owned(), reason });
            }
        }
    }
}
