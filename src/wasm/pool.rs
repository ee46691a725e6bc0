//! The OPFS files of a store: a pool of access handles in a directory of its own.

use std::time::Duration;

use js_sys::Math;
use rsqlite_vfs::{OsCallback, VfsResult};
use sqlite_wasm_vfs::sahpool::{OpfsSAHError, OpfsSAHPoolCfgBuilder, OpfsSAHPoolUtil, install};

use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorCode, Result};

/// The database's name within its pool.
pub(super) const DATABASE: &str = "store.db";

/// The files that one database needs at most: itself, its WAL, its journal; and one to spare. Each takes time at opening.
const SLOTS: usize = 4;

#[derive(Default)]
struct Host;

impl OsCallback for Host {
    fn sleep(&self, _: Duration) {}

    fn random(&self, buffer: &mut [u8]) -> usize {
        // Names of temporary files: they must differ, and need not be secret.
        for byte in &mut *buffer {
            *byte = (Math::random() * 256.0) as u8;
        }
        buffer.len()
    }

    fn epoch_timestamp_in_ms(&self) -> VfsResult<i64> {
        Ok(SystemClock.now())
    }
}

/// Exclusive handles on the files of one store.
pub(super) struct Pool {
    vfs: String,
    directory: String,
    util: OpfsSAHPoolUtil,
}

impl Pool {
    pub(super) async fn open(name: &str) -> Result<Self> {
        let directory = directory(name);
        let vfs = format!("runkeep/{directory}");
        let options = OpfsSAHPoolCfgBuilder::new().vfs_name(&vfs).directory(&directory).initial_capacity(SLOTS).build();
        let util = install::<Host>(&options, false).await.map_err(|error| refuse(name, &error))?;
        // A pool that an earlier engine of this worker released is still registered, without handles.
        if util.is_paused() {
            util.resume().await.map_err(|error| refuse(name, &error))?;
        }
        Ok(Self { vfs, directory, util })
    }

    pub(super) fn directory(&self) -> &str {
        &self.directory
    }

    pub(super) fn vfs(&self) -> &str {
        &self.vfs
    }

    /// Gives the handles back, so that another worker can take them.
    pub(super) fn release(&self) {
        // Fails only while a file is open, and the store has just been closed.
        let _ = self.util.pause();
    }
}

fn refuse(name: &str, error: &OpfsSAHError) -> Error {
    Error::new(ErrorCode::StorageUnavailable, format!("the files of the store {name:?} in OPFS cannot be opened: {error}"))
        .with("name", name)
}

/// The store's directory in OPFS: the name, with what a file name does not take written as hex.
fn directory(name: &str) -> String {
    let mut path = String::from("runkeep/");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => path.push(byte as char),
            other => path.push_str(&format!("%{other:02x}")),
        }
    }
    path
}
