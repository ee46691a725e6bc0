//! The text of items, and what of it is still streaming in.

use std::fmt;

use rusqlite::Row;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::items::{self, ThreadItemStatus};
use crate::error::{Error, ErrorCode, Result};
use crate::ids::Name;
use crate::json::{replace_lone_surrogates, unicode_escape};
use crate::operation::Topic;
use crate::store::{Columns, Tx};

/// A piece of a text that streams. A stream is cut anywhere, also within a surrogate pair: a piece may begin with the second half of one, and
/// end with the first half. In JSON such a half is an escape (`"\ud83c"`); where the two meet again, the character is whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "development", derive(ts_rs::TS), ts(type = "string"))]
pub struct Piece {
    /// 0xdc00 to 0xdfff, before the text.
    low: Option<u16>,
    text: String,
    /// 0xd800 to 0xdbff, after the text.
    high: Option<u16>,
}

impl Piece {
    /// The length in UTF-16 code units.
    pub fn length(&self) -> i64 {
        i64::from(self.low.is_some()) + length(&self.text) + i64::from(self.high.is_some())
    }

    /// The length in bytes of UTF-8, of which a half has two.
    fn bytes(&self) -> i64 {
        self.text.len() as i64 + 2 * i64::from(self.low.is_some()) + 2 * i64::from(self.high.is_some())
    }

    /// Goes on with the next piece. A half that stays without the other becomes U+FFFD, which is as long.
    fn push(&mut self, next: &Self) {
        let is_empty = *self == Self::default();
        match (self.high.take(), next.low) {
            (Some(high), Some(low)) => {
                self.text.extend(char::decode_utf16([high, low]).map(|pair| pair.unwrap_or(char::REPLACEMENT_CHARACTER)));
            }
            (None, Some(low)) if is_empty => self.low = Some(low),
            (None, None) => {}
            _ => self.text.push(char::REPLACEMENT_CHARACTER),
        }
        self.text.push_str(&next.text);
        self.high = next.high;
    }

    /// What follows the first so many code units.
    fn after(mut self, units: i64) -> Self {
        let mut left = units;
        if left > 0 && self.low.take().is_some() {
            left -= 1;
        }
        let mut begins = self.text.len();
        for (at, c) in self.text.char_indices() {
            if left <= 0 {
                begins = at;
                break;
            }
            let units = c.len_utf16() as i64;
            if units > left {
                self.low = c.encode_utf16(&mut [0; 2]).last().copied();
            }
            left -= units;
        }
        self.text.drain(..begins);
        if left > 0 {
            self.high = None;
        }
        self
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        Self { low: None, text, high: None }
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// A half becomes U+FFFD.
impl From<Piece> for String {
    fn from(piece: Piece) -> Self {
        if piece.low.is_none() && piece.high.is_none() { piece.text } else { piece.to_string() }
    }
}

/// As text, in which a half is U+FFFD.
impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = |half: Option<u16>| if half.is_some() { "\u{fffd}" } else { "" };
        write!(f, "{}{}{}", half(self.low), self.text, half(self.high))
    }
}

impl Serialize for Piece {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.low.is_none() && self.high.is_none() {
            return self.text.serialize(serializer);
        }
        let escape = |half: Option<u16>| half.map(|half| format!("\\u{half:04x}")).unwrap_or_default();
        let text = serde_json::to_string(&self.text).map_err(serde::ser::Error::custom)?;
        let text = format!("\"{}{}{}\"", escape(self.low), &text[1..text.len() - 1], escape(self.high));
        RawValue::from_string(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Piece {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const ESCAPE: usize = "\\ud83c".len();
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let raw = raw.get();
        let mended = replace_lone_surrogates(raw);
        let mut text: String = serde_json::from_str(&mended).map_err(|_| match raw.as_bytes().first() {
            Some(b'"') => D::Error::custom("the string has an escape that JSON does not know"),
            Some(b'{') => D::Error::invalid_type(Unexpected::Map, &"a string"),
            Some(b'[') => D::Error::invalid_type(Unexpected::Seq, &"a string"),
            _ => D::Error::invalid_type(Unexpected::Other(raw), &"a string"),
        })?;
        // A half at either end is one that has been mended there.
        let half = |at: Option<usize>| {
            let unit = unicode_escape(raw.as_bytes(), at?)?;
            let is_mended = unicode_escape(mended.as_bytes(), at?) != Some(unit);
            u16::try_from(unit).ok().filter(|_| is_mended)
        };
        let low = half(Some(1)).filter(|half| (0xdc00..0xe000).contains(half));
        let high = half(raw.len().checked_sub(1 + ESCAPE)).filter(|half| (0xd800..0xdc00).contains(half));
        if low.is_some() {
            text.remove(0);
        }
        if high.is_some() {
            text.pop();
        }
        Ok(Self { low, text, high })
    }
}

arguments! {
    /// Text that has come in for an item.
    pub struct AppendText {
        pub id: Name,
        /// What follows on the text there is.
        pub delta: Piece,
        /// The length of the text there is, in UTF-16 code units: `conflict` if it is another, so that a delta that comes twice is seen.
        pub at: Option<i64>,
    }

    pub struct ReadText {
        pub id: Name,
        /// How many UTF-16 code units are known already; 0 unless given.
        pub after: Option<i64>,
        /// The version of the text that they are of, as `readText` answered it: `conflict` if another text has taken its place since, so that
        /// the beginning of one is never read with the end of another.
        pub version: Option<String>,
    }
}

records! {
    pub struct TextLength {
        /// Of the whole text, in UTF-16 code units.
        pub length: i64,
    }

    /// What of a text is new.
    pub struct NewText {
        pub text: Piece,
        /// Of the whole text, in UTF-16 code units: after how many to read next.
        pub length: i64,
        /// Where the item stands; once it has ended, nothing more streams in.
        pub status: ThreadItemStatus,
        /// Of the text, to be given with the next read: another one once the text no longer begins with what it was.
        pub version: String,
    }
}

/// The length of a text in UTF-16 code units.
pub(super) fn length(text: &str) -> i64 {
    text.chars().map(|c| c.len_utf16() as i64).sum()
}

/// How long the text of an item is, in code units and in bytes, by the newest delta or by what was joined before.
fn measure(tx: &Tx<'_>, item: i64, id: &str) -> Result<(i64, i64)> {
    let delta = tx.row("SELECT until, bytes FROM item_deltas WHERE item = ?1 ORDER BY until DESC LIMIT 1", [item], |row| {
        let columns = Columns::new(row, "item_deltas", id);
        Ok((columns.get(0)?, columns.get(1)?))
    })?;
    if let Some(measured) = delta {
        return Ok(measured);
    }
    tx.row("SELECT length, octet_length(text) FROM item_contents WHERE item = ?1", [item], |row| {
        let columns = Columns::new(row, "item_contents", id);
        Ok((columns.get(0)?, columns.get(1)?))
    })?
    .ok_or_else(|| items::without_contents(id))
}

fn joined(tx: &Tx<'_>, item: i64, id: &str) -> Result<String> {
    tx.row("SELECT text FROM item_contents WHERE item = ?1", [item], |row| Columns::new(row, "item_contents", id).get(0))?
        .ok_or_else(|| items::without_contents(id))
}

fn read_delta(row: &Row<'_>, id: &str) -> Result<(i64, Piece)> {
    let columns = Columns::new(row, "item_deltas", id);
    Ok((columns.get(0)?, Piece { low: columns.get(1)?, text: columns.get(2)?, high: columns.get(3)? }))
}

/// Visits what has streamed in after so many code units: the deltas, and the length of the text up to and with each.
fn walk(tx: &Tx<'_>, item: i64, id: &str, after: i64, mut visit: impl FnMut(i64, Piece) -> Result<()>) -> Result<()> {
    let sql = "SELECT until, low, text, high FROM item_deltas WHERE item = ?1 AND until > ?2 ORDER BY until";
    tx.walk(sql, (item, after), |row| {
        let (until, delta) = read_delta(row, id)?;
        visit(until, delta)?;
        Ok(true)
    })
}

/// `text`, which was joined before, with all that has streamed in since.
pub(super) fn with_deltas(tx: &Tx<'_>, item: i64, id: &str, text: String) -> Result<String> {
    let mut all = Piece::from(text);
    walk(tx, item, id, 0, |_, delta| {
        all.push(&delta);
        Ok(())
    })?;
    Ok(all.into())
}

/// Whether a text begins with all of the item's, so that who knows that knows the beginning of this one. Nobody knows one that is damaged.
pub(super) fn goes_on(tx: &Tx<'_>, item: i64, id: &str, text: &str) -> bool {
    joined(tx, item, id).and_then(|known| with_deltas(tx, item, id, known)).is_ok_and(|known| text.starts_with(&known))
}

/// Names a text and whatever it grows to. A deleted item's position is not given again, so that an item of the same id has another.
fn version(tx: &Tx<'_>, item: i64, id: &str) -> Result<String> {
    let sql =
        "SELECT i.position || '.' || c.replaced FROM thread_items i JOIN item_contents c ON c.item = i.key WHERE i.key = ?1";
    tx.row(sql, [item], |row| Columns::new(row, "item_contents", id).get(0))?.ok_or_else(|| items::without_contents(id))
}

/// The whole text of an item of which something has streamed in since it was joined.
pub(super) fn streamed(tx: &Tx<'_>, item: i64, id: &str) -> Result<Option<String>> {
    let mut all: Option<Piece> = None;
    walk(tx, item, id, 0, |_, delta| {
        if all.is_none() {
            all = Some(joined(tx, item, id)?.into());
        }
        all.iter_mut().for_each(|all| all.push(&delta));
        Ok(())
    })?;
    Ok(all.map(String::from))
}

/// Forgets what has streamed in: it has been joined, or another text takes its place.
pub(super) fn forget_deltas(tx: &Tx<'_>, item: i64) -> Result<()> {
    tx.execute("DELETE FROM item_deltas WHERE item = ?1", [item]).map(drop)
}

pub(crate) fn append(tx: &Tx<'_>, arguments: AppendText) -> Result<TextLength> {
    let AppendText { id, delta, at } = arguments;
    let item = items::Head::get(tx, &id)?;
    if item.status.is_ended() {
        let message = format!("the item {:?} is {} and takes no more text", id.as_str(), item.status.as_str());
        return Err(Error::new(ErrorCode::InvalidTransition, message)
            .with("id", id.as_str())
            .with("from", item.status.as_str())
            .with("to", ThreadItemStatus::InProgress.as_str()));
    }
    let (length, bytes) = measure(tx, item.key, &id)?;
    if let Some(at) = at.filter(|&at| at != length) {
        let message = format!("the text of the item {:?} is {length} UTF-16 code units long, not {at} as expected", id.as_str());
        return Err(Error::conflict(message).with("id", id.as_str()).with("at", at).with("length", length));
    }
    let bytes = bytes + delta.bytes();
    tx.text("delta", bytes as usize)?;
    let until = length + delta.length();
    if until > length {
        super::tell(tx, Topic::ThreadItems, item.thread)?;
        tx.execute_one(
            "INSERT INTO item_deltas (item, until, bytes, low, text, high) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (item.key, until, bytes, delta.low, &delta.text, delta.high),
        )?;
    }
    if item.status == ThreadItemStatus::Queued {
        items::begin(tx, &item)?;
    }
    Ok(TextLength { length: until })
}

pub(crate) fn read(tx: &Tx<'_>, arguments: ReadText) -> Result<NewText> {
    let ReadText { id, after, version: known } = arguments;
    let after = after.unwrap_or(0);
    if after < 0 {
        return Err(Error::invalid(format!("after must not be negative; it is {after}")).with("path", "after"));
    }
    let item = items::Head::get(tx, &id)?;
    let (length, _) = measure(tx, item.key, &id)?;
    let version = version(tx, item.key, &id)?;
    if after > length || (after > 0 && known.is_some_and(|known| known != version)) {
        let message = format!(
            "the text of the item {:?} is {length} UTF-16 code units long, and {after} are said to be known: it is another text now; read from 0",
            id.as_str()
        );
        return Err(Error::conflict(message).with("id", id.as_str()).with("after", after).with("length", length));
    }
    let mut text = Piece::default();
    let mut known = after;
    if after < length {
        walk(tx, item.key, &id, after, |until, delta| {
            let begins = until - delta.length();
            if begins > known {
                text.push(&Piece::from(joined(tx, item.key, &id)?).after(known));
                known = begins;
            }
            text.push(&delta.after(known - begins));
            known = until;
            Ok(())
        })?;
        if known == after {
            text = Piece::from(joined(tx, item.key, &id)?).after(after);
        }
    }
    Ok(NewText { text, length, status: item.status, version })
}
