//! Full text search over threads.

use crate::error::Result;
use crate::store::Tx;

/// Brings the index up to a thread's title.
pub(crate) fn index_thread(_tx: &Tx<'_>, _thread: i64) -> Result<()> {
    Ok(())
}

/// Brings the index up to an item that has ended, or that changed after it ended.
pub(crate) fn index_item(_tx: &Tx<'_>, _item: i64) -> Result<()> {
    Ok(())
}

/// Takes an item out of the index: before its row is deleted.
pub(crate) fn forget_item(_tx: &Tx<'_>, _item: i64) -> Result<()> {
    Ok(())
}

/// Takes a thread and its items out of the index: before its row is deleted.
pub(crate) fn forget_thread(_tx: &Tx<'_>, _thread: i64) -> Result<()> {
    Ok(())
}
