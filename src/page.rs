//! Lists: pages, cursors, and rows that cannot be read.

use crate::error::{Error, ErrorCode, Result};
use crate::store::Tx;

/// The most rows that a page can be asked for.
pub const MAX_LIMIT: i64 = 1000;
const DEFAULT_LIMIT: i64 = 100;

/// How many rows a filtered list looks at for one page before it answers a short one.
pub(crate) const SCAN_LIMIT: i64 = 10_000;

/// A page is cut when its rows weigh more than this, but holds at least one row.
pub(crate) const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

words! {
    /// The direction of a list.
    #[derive(Default)]
    pub enum Order {
        /// Oldest first.
        #[default]
        Asc = "asc",
        /// Newest first.
        Desc = "desc",
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "development", derive(ts_rs::TS), ts(rename_all = "camelCase"))]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page begins; null at the end. Only null is the end: a page of a filtered list may be short, or empty, before it.
    pub next_cursor: Option<String>,
    /// Rows of this page that cannot be read. The others are all in `items`.
    #[cfg_attr(feature = "development", ts(optional, as = "Option<Vec<Damaged>>"))]
    pub damaged: Vec<Damaged>,
}

records! {
    /// A row that cannot be read.
    pub struct Damaged {
        pub table: String,
        pub id: String,
        pub reason: String,
    }
}

/// The rows that changed last, newest first.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "development", derive(ts_rs::TS))]
pub struct Recent<T> {
    pub items: Vec<T>,
    /// Rows among them that cannot be read.
    #[cfg_attr(feature = "development", ts(optional, as = "Option<Vec<Damaged>>"))]
    pub damaged: Vec<Damaged>,
}

written! { Page<T: crate::json::ToJson> { items, next_cursor as null, damaged as list, } }
written! { Recent<T: crate::json::ToJson> { items, damaged as list, } }

impl<T> Recent<T> {
    pub(crate) fn push(&mut self, record: Result<T>) -> Result<()> {
        match record {
            Ok(record) => self.items.push(record),
            Err(error) if error.code() == ErrorCode::Corrupt => self.damaged.push(Damaged::from(&error)),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Checks the limit of a list by change: 1 to 200, 50 unless given.
pub(crate) fn recent_limit(given: Option<i64>) -> Result<i64> {
    match given.unwrap_or(50) {
        limit @ 1..=200 => Ok(limit),
        other => Err(Error::invalid(format!("limit must be 1 to 200, not {other}")).with("path", "limit")),
    }
}

/// Checks a limit: 1 to 1000, 100 unless given.
pub(crate) fn limit(given: Option<i64>) -> Result<i64> {
    match given {
        None => Ok(DEFAULT_LIMIT),
        Some(limit @ 1..=MAX_LIMIT) => Ok(limit),
        Some(other) => Err(Error::invalid(format!("limit must be 1 to {MAX_LIMIT}, not {other}")).with("path", "limit")),
    }
}

/// A cursor is the sequence of the last row seen, within its list.
pub(crate) fn parse_cursor(cursor: Option<&str>) -> Result<Option<i64>> {
    cursor
        .map(|text| {
            text.parse::<i64>().ok().filter(|&n| n >= 0).ok_or_else(|| {
                Error::invalid(format!("cursor {text:?} is none of this store's; pass nextCursor of the page before"))
                    .with("path", "cursor")
            })
        })
        .transpose()
}

/// The keys of a tenant's list that are still to come, first and last.
pub(crate) fn range(tx: &Tx<'_>, cursor: Option<&str>, order: Order) -> Result<(i64, i64)> {
    let (first, last) = tx.keys();
    Ok(match (parse_cursor(cursor)?.map(|number| tx.key_of(number)), order) {
        (None, _) => (first, last),
        (Some(cursor), Order::Asc) => (cursor + 1, last),
        (Some(cursor), Order::Desc) => (first, cursor - 1),
    })
}

/// The sequences of a list within one execution that are still to come, first and last.
pub(crate) fn sequences(cursor: Option<&str>, order: Order) -> Result<(i64, i64)> {
    Ok(match (parse_cursor(cursor)?, order) {
        (None, _) => (0, i64::MAX),
        (Some(cursor), Order::Asc) => (cursor + 1, i64::MAX),
        (Some(cursor), Order::Desc) => (0, cursor - 1),
    })
}

/// Builds a page from rows in list order, one [`visit`](Self::visit) or [`skip`](Self::skip) a row.
pub(crate) struct PageBuilder<T> {
    page: Page<T>,
    limit: i64,
    /// How many rows the query returns at most: a shorter result is known to be the end.
    scanned: i64,
    seen: i64,
    bytes: usize,
    last: Option<i64>,
    full: bool,
}

impl<T> PageBuilder<T> {
    /// For a query that returns up to `limit + 1` rows, all of which belong to the list.
    pub(crate) fn unfiltered(limit: i64) -> Self {
        Self::new(limit, limit + 1)
    }

    /// For a query that returns up to [`SCAN_LIMIT`] rows, of which some are skipped.
    pub(crate) fn filtered(limit: i64) -> Self {
        Self::new(limit, SCAN_LIMIT)
    }

    fn new(limit: i64, scanned: i64) -> Self {
        let page = Page { items: Vec::with_capacity(limit.clamp(0, 100) as usize), next_cursor: None, damaged: Vec::new() };
        Self { page, limit, scanned, seen: 0, bytes: 0, last: None, full: false }
    }

    /// The LIMIT of the query.
    pub(crate) fn scanned(&self) -> i64 {
        self.scanned
    }

    /// Takes the next row that belongs to the list. Answers whether to go on.
    pub(crate) fn visit(&mut self, sequence: i64, record: Result<T>, weigh: impl FnOnce(&T) -> usize) -> Result<bool> {
        if (self.page.items.len() + self.page.damaged.len()) as i64 >= self.limit {
            self.full = true;
            return Ok(false);
        }
        match record {
            Ok(record) => {
                let weight = weigh(&record);
                if !self.page.items.is_empty() && self.bytes + weight > MAX_PAGE_BYTES {
                    self.full = true;
                    return Ok(false);
                }
                self.bytes += weight;
                self.page.items.push(record);
            }
            Err(error) if error.code() == ErrorCode::Corrupt => self.page.damaged.push(Damaged::from(&error)),
            Err(error) => return Err(error),
        }
        self.skip(sequence);
        Ok(true)
    }

    /// Passes over a row that the filter leaves out.
    pub(crate) fn skip(&mut self, sequence: i64) {
        self.last = Some(sequence);
        self.seen += 1;
    }

    pub(crate) fn finish(self) -> Page<T> {
        let more = self.full || self.seen >= self.scanned;
        Page { next_cursor: self.last.filter(|_| more).map(|sequence| sequence.to_string()), ..self.page }
    }
}

impl From<&Error> for Damaged {
    fn from(error: &Error) -> Self {
        let text = |key: &str| error.details().get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        Self { table: text("table"), id: text("id"), reason: text("reason") }
    }
}
