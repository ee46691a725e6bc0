//! The whole store as one SQLite file.

use crate::error::{Error, Result};
use crate::operation::GivesBytes;
use crate::store::{SCHEMA_VERSION, Tx};

arguments! {
    pub struct ExportDatabase {}
}

records! {
    /// A store as a file. In Rust, `bytes` are the file; elsewhere they travel beside the text.
    pub struct Exported {
        pub schema_version: i64,
        /// In bytes.
        pub size: i64,
        #[cfg_attr(feature = "development", ts(skip))]
        pub bytes: Vec<u8> as skip,
    }
}

impl GivesBytes for Exported {
    fn take_bytes(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.bytes))
    }
}

pub(crate) fn database(tx: &Tx<'_>, _: ExportDatabase) -> Result<Exported> {
    let mut bytes = tx.serialize()?;
    // The versions for reading and writing: 2 would say that a WAL lies beside the file, and stores in memory cannot open such a one.
    let Some(versions) = bytes.get_mut(18..20) else {
        return Err(Error::corrupt("sqlite_schema", "database", "the store has no header"));
    };
    versions.copy_from_slice(&[1, 1]);
    Ok(Exported { schema_version: SCHEMA_VERSION, size: bytes.len() as i64, bytes })
}
