//! Folds in memory. Whoever shows a run asks for it again and again while its log grows: then only what came since is folded.
//!
//! A log only grows, so a fold stays true for as long as its execution exists. What is undone or deleted may come again as something else:
//! after that nothing is known any more, and neither where another process has written.

use crate::fold::Fold;

/// About as many bytes as all of them may take.
const MOST_BYTES: usize = 16 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct Folds {
    /// The one that was used last is the last.
    kept: Vec<Kept>,
    bytes: usize,
    /// SQLite's `data_version` of when they were folded.
    version: i64,
}

struct Kept {
    execution: i64,
    fold: Box<Fold>,
    bytes: usize,
}

impl Folds {
    pub(crate) fn take(&mut self, version: i64, execution: i64) -> Option<Box<Fold>> {
        if self.version != version {
            self.clear();
            self.version = version;
        }
        let at = self.kept.iter().rposition(|kept| kept.execution == execution)?;
        let kept = self.kept.remove(at);
        self.bytes -= kept.bytes;
        Some(kept.fold)
    }

    pub(crate) fn keep(&mut self, execution: i64, fold: Box<Fold>) {
        let bytes = fold.bytes();
        self.bytes += bytes;
        self.kept.push(Kept { execution, fold, bytes });
        while self.bytes > MOST_BYTES {
            self.bytes -= self.kept.remove(0).bytes;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.bytes = 0;
    }
}
