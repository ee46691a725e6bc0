//! Blobs: bytes that items and events refer to, stored once.

use std::fmt::Write;

use rusqlite::Row;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorCode, Result};
use crate::executions::Created;
use crate::ids::Name;
use crate::operation::{GivesBytes, TakesBytes};
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Columns, Tx};
use crate::tenants;

/// The most bytes that one blob may have: 128 MiB. They pass through memory as a whole when they are put.
pub const MAX_BLOB_BYTES: usize = 128 * 1024 * 1024;

/// How many bytes lie in one row.
const CHUNK_BYTES: usize = 256 * 1024;

records! {
    /// What there is to know of a blob, without its bytes.
    pub struct Blob {
        /// The SHA-256 of the bytes, in hex.
        pub id: String,
        /// In bytes.
        pub size: i64,
        pub media_type: Option<String>,
        /// Unix milliseconds.
        pub created_at: i64,
    }

    /// A blob and its bytes, or a range of them.
    pub struct BlobContent {
        /// The SHA-256 of all the bytes, in hex.
        pub id: String,
        /// Of the whole blob, in bytes.
        pub size: i64,
        pub media_type: Option<String>,
        /// Unix milliseconds.
        pub created_at: i64,
        #[cfg_attr(feature = "development", ts(skip))]
        pub bytes: Vec<u8> as skip,
    }
}

arguments! {
    /// Bytes to keep, at most 128 MiB.
    pub struct PutBlob {
        #[cfg_attr(feature = "development", ts(skip))]
        pub bytes: Vec<u8> as skip,
        /// Such as `image/png`. The first one that is given for these bytes stays.
        pub media_type: Option<Name>,
    }

    pub struct BlobId {
        pub id: Name,
    }

    /// Which bytes to get; all unless a range is given.
    pub struct GetBlob {
        pub id: Name,
        /// Of the first byte; 0 unless given, at most the blob's size.
        pub offset: Option<i64>,
        /// How many bytes at most; up to the end unless given.
        pub length: Option<i64>,
    }

    pub struct ListBlobs {
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

impl TakesBytes for PutBlob {
    fn give_bytes(&mut self, bytes: &[u8]) {
        self.bytes = bytes.to_vec();
    }
}

impl GivesBytes for BlobContent {
    fn take_bytes(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.bytes))
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT key, sha256, size, media_type, created_at FROM blobs ", $rest)
    };
}

fn read(tx: &Tx<'_>, row: &Row<'_>) -> Result<(i64, Blob)> {
    let key = row.get(0)?;
    let columns = Columns::new(row, "blobs", tx.number_of(key).to_string());
    let sha256: [u8; 32] = columns.get(1)?;
    let blob = Blob { id: hex(&sha256), size: columns.get(2)?, media_type: columns.get(3)?, created_at: columns.get(4)? };
    Ok((key, blob))
}

fn by_hash(tx: &Tx<'_>, sha256: [u8; 32]) -> Result<Option<(i64, Blob)>> {
    tx.row(select!("WHERE tenant = ?1 AND sha256 = ?2"), (tx.tenant, sha256), |row| read(tx, row))
}

fn by_id(tx: &Tx<'_>, id: &Name) -> Result<Option<(i64, Blob)>> {
    // No blob has another kind of id.
    unhex(id).map_or(Ok(None), |sha256| by_hash(tx, sha256))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let is_hex = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate().filter(|_| is_hex) {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    is_hex.then_some(bytes)
}

/// Keeps bytes. The same bytes again answer the blob that exists.
pub(crate) fn put(tx: &Tx<'_>, arguments: PutBlob) -> Result<Created<Blob>> {
    let PutBlob { bytes, media_type } = arguments;
    if bytes.len() > MAX_BLOB_BYTES {
        return Err(Error::new(
            ErrorCode::TooLarge,
            format!("the blob has {} bytes, over the limit of {MAX_BLOB_BYTES}; store it in parts", bytes.len()),
        )
        .with("bytes", bytes.len())
        .with("maxBlobBytes", MAX_BLOB_BYTES));
    }
    let sha256: [u8; 32] = Sha256::digest(&bytes).into();
    if let Some((key, mut blob)) = by_hash(tx, sha256)? {
        if let (None, Some(media_type)) = (&blob.media_type, media_type) {
            tx.execute_one("UPDATE blobs SET media_type = ?2 WHERE key = ?1", (key, &media_type))?;
            blob.media_type = Some(media_type.to_string());
        }
        return Ok(Created { record: blob, created: false });
    }
    tenants::may_create(tx)?;
    let key = tx.next_key("SELECT key FROM blobs WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    let size = bytes.len() as i64;
    tx.execute_one(
        "INSERT INTO blobs (key, tenant, sha256, size, media_type, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (key, tx.tenant, sha256, size, &media_type, tx.now),
    )?;
    for (number, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
        tx.execute_one("INSERT INTO blob_chunks (blob, number, bytes) VALUES (?1, ?2, ?3)", (key, number as i64, chunk))?;
    }
    let media_type = media_type.map(|media_type| media_type.to_string());
    Ok(Created { record: Blob { id: hex(&sha256), size, media_type, created_at: tx.now }, created: true })
}

/// The bytes of a blob, or a range of them, which ends where the blob does.
pub(crate) fn get(tx: &Tx<'_>, arguments: GetBlob) -> Result<Option<BlobContent>> {
    let (offset, length) = (arguments.offset.unwrap_or(0), arguments.length.unwrap_or(i64::MAX));
    for (path, value) in [("offset", offset), ("length", length)] {
        if value < 0 {
            return Err(Error::invalid(format!("{path} must not be negative; it is {value}")).with("path", path));
        }
    }
    let Some((key, blob)) = by_id(tx, &arguments.id)? else { return Ok(None) };
    let Blob { id, size, media_type, created_at } = blob;
    if offset > size {
        return Err(Error::invalid(format!("offset is {offset}, and the blob has {size} bytes"))
            .with("path", "offset")
            .with("size", size));
    }
    let end = offset.saturating_add(length).min(size);
    let bytes = range(tx, key, &id, offset, end)?;
    Ok(Some(BlobContent { id, size, media_type, created_at, bytes }))
}

fn range(tx: &Tx<'_>, key: i64, id: &str, from: i64, to: i64) -> Result<Vec<u8>> {
    const CHUNK: i64 = CHUNK_BYTES as i64;
    let mut bytes = Vec::with_capacity((to - from) as usize);
    if from < to {
        tx.walk(
            "SELECT number, bytes FROM blob_chunks WHERE blob = ?1 AND number BETWEEN ?2 AND ?3 ORDER BY number",
            (key, from / CHUNK, (to - 1) / CHUNK),
            |row| {
                let columns = Columns::new(row, "blob_chunks", id);
                let start: i64 = columns.get::<i64>(0)? * CHUNK;
                let chunk = row.get_ref(1)?.as_blob().unwrap_or_default();
                let within = |at: i64| (at - start).clamp(0, chunk.len() as i64) as usize;
                bytes.extend_from_slice(&chunk[within(from)..within(to)]);
                Ok(true)
            },
        )?;
    }
    if bytes.len() as i64 != to - from {
        return Err(Error::corrupt("blob_chunks", id, format!("{} of {} bytes are there", bytes.len(), to - from)));
    }
    Ok(bytes)
}

/// Deletes a blob's bytes, whether or not something refers to them.
pub(crate) fn delete(tx: &Tx<'_>, arguments: BlobId) -> Result<()> {
    let (key, _) = by_id(tx, &arguments.id)?.ok_or_else(|| Error::not_found("blob", &arguments.id))?;
    tx.execute_one("DELETE FROM blobs WHERE key = ?1", [key])
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListBlobs) -> Result<Page<Blob>> {
    let mut page = PageBuilder::unfiltered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => select!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"),
        Order::Desc => select!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3"),
    };
    tx.walk(sql, (from, to, page.scanned()), |row| {
        page.visit(tx.number_of(row.get(0)?), read(tx, row).map(|(_, blob)| blob), |_| 300)
    })?;
    Ok(page.finish())
}
