//! The log of requests: calls that are sent again because their answer was lost are answered, not applied a second time.

use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorCode, Result};
use crate::json::{Json, Pairs};
use crate::operation::{Answer, Batch, Given};
use crate::queue;
use crate::store::{Store, Tx};
use crate::tokens;

/// Who makes a call, and which of its calls it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request<'a> {
    /// The client's id: 1 to 256 bytes.
    pub client: &'a str,
    /// Rises with each of the client's calls.
    pub number: i64,
    /// Whether the call was sent before, and may have been applied.
    pub again: bool,
    /// The answers to all calls of the client up to this number have arrived; what is kept of them goes.
    pub acked: i64,
}

/// For how long the rows of a client are kept that is not there: it may come back, or have been missed by mistake.
const KEPT_MS: i64 = 10 * 60 * 1000;

/// What a call asks for, told from other calls.
pub(crate) fn digest(operation: &str, given: Given<'_>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    // Lengths keep the parts apart.
    for part in [operation.as_bytes(), given.arguments.as_bytes(), given.bytes.unwrap_or_default()] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The answer to a call that was applied before, if it was.
pub(crate) fn find(
    tx: &Tx<'_>,
    request: Request<'_>,
    operation: &str,
    given: Given<'_>,
    digest: &[u8; 32],
) -> Result<Option<Answer>> {
    match kept(tx, request, digest)? {
        Some(kept) => Ok(Some(Answer { text: restore(tx, operation, given, kept)?, bytes: None })),
        None => Ok(None),
    }
}

fn kept(tx: &Tx<'_>, request: Request<'_>, digest: &[u8; 32]) -> Result<Option<String>> {
    let kept = tx.row(
        "SELECT digest, answer FROM requests WHERE client = ?1 AND number = ?2",
        (request.client, request.number),
        |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?)),
    )?;
    let Some((kept_digest, kept)) = kept else { return Ok(None) };
    if kept_digest == digest { Ok(Some(kept)) } else { Err(taken(request)) }
}

/// Keeps the answer to a call in the transaction that applied it.
pub(crate) fn keep(
    tx: &Tx<'_>,
    request: Request<'_>,
    operation: &str,
    given: Given<'_>,
    digest: &[u8; 32],
    answer: &Answer,
) -> Result<()> {
    // Bytes are answered by what reads. A claim that found nothing is made again, under the same number, while its caller waits.
    if answer.bytes.is_some() || operation == "queue.claim" && answer.text == "[]" {
        return Ok(());
    }
    let reduced = reduce(operation, given, &answer.text)?;
    insert(tx, request, digest, reduced.as_deref().unwrap_or(&answer.text))
}

fn insert(tx: &Tx<'_>, request: Request<'_>, digest: &[u8; 32], answer: &str) -> Result<()> {
    let inserted = tx.execute(
        "INSERT INTO requests (client, number, digest, answer, at) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
        (request.client, request.number, digest, answer, tx.now),
    )?;
    if inserted == 0 { Err(taken(request)) } else { Ok(()) }
}

fn taken(request: Request<'_>) -> Error {
    Error::conflict(format!("the client {:?} has made another call under the number {}", request.client, request.number))
        .with("client", request.client)
        .with("number", request.number)
}

/// Lets go of what is kept for calls whose answers have arrived.
pub(crate) fn forget(tx: &Tx<'_>, client: &str, acked: i64) -> Result<()> {
    tx.execute("DELETE FROM requests WHERE client = ?1 AND number <= ?2", (client, acked))?;
    Ok(())
}

/// What is kept of an answer that is not kept as it is: of a claim only which items, of a new token everything but the secret.
fn reduce(operation: &str, given: Given<'_>, text: &str) -> Result<Option<String>> {
    let reduced = match operation {
        "queue.claim" => {
            let claims = from_text::<Vec<&RawValue>>(text)?.into_iter().map(|item| {
                let Pairs(members) = from_text(item.get())?;
                let member = |name| members.iter().find(|member| member.0 == name).map_or("null", |member| member.1.get());
                Ok(format!("[{},{}]", member("id"), member("fence")))
            });
            return Ok(Some(format!("[{}]", claims.collect::<Result<Vec<String>>>()?.join(","))));
        }
        "tokens.create" => read::<Value>(text)?["info"]["id"].take().into(),
        "batch" => {
            let batch: Batch = read(given.arguments)?;
            let answers: Vec<Json> = read(text)?;
            let reduced = batch.calls.iter().zip(answers).map(|(call, answer)| {
                let given = Given { arguments: call.arguments.as_str(), bytes: None };
                reduce(&call.operation, given, answer.as_str())?.map_or(Ok(answer), Json::parse)
            });
            Json::of(&reduced.collect::<Result<Vec<Json>>>()?)?
        }
        _ => return Ok(None),
    };
    Ok(Some(reduced.as_str().to_owned()))
}

/// The answer of which `kept` was kept.
fn restore(tx: &Tx<'_>, operation: &str, given: Given<'_>, kept: String) -> Result<String> {
    let restored = match operation {
        "queue.claim" => {
            let claimed: Vec<(String, i64)> = read(&kept)?;
            Json::of(&queue::claimed_before(tx, &claimed)?)?
        }
        "tokens.create" => Json::of(&tokens::renew(tx, &read::<String>(&kept)?)?)?,
        "batch" => {
            let batch: Batch = read(given.arguments)?;
            let kept: Vec<Json> = read(&kept)?;
            let restored = batch.calls.iter().zip(kept).map(|(call, kept)| {
                let given = Given { arguments: call.arguments.as_str(), bytes: None };
                Json::parse(restore(tx, &call.operation, given, kept.as_str().to_owned())?)
            });
            Json::of(&restored.collect::<Result<Vec<Json>>>()?)?
        }
        _ => return Ok(kept),
    };
    Ok(restored.as_str().to_owned())
}

/// Reads what the store has written itself.
fn from_text<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::new(ErrorCode::Internal, format!("the log of requests: {error}")))
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    Json::parse(text)?.to().map_err(|error| Error::new(ErrorCode::Internal, format!("the log of requests: {}", error.message())))
}

/// The request that a procedure is run for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    client: String,
    number: i64,
    again: bool,
    acked: i64,
    digest: [u8; 32],
}

impl Asked {
    pub(crate) fn new(request: Request<'_>, operation: &str, given: Given<'_>) -> Self {
        let Request { client, number, again, acked } = request;
        Self { client: client.to_owned(), number, again, acked, digest: digest(operation, given) }
    }
}

impl Store {
    /// Runs `body` in one transaction that writes: the only one of a procedure, which cannot simply be run again. Where its call was sent
    /// before and has been applied, nothing is done.
    pub(crate) fn once(&self, body: impl FnOnce(&Tx<'_>) -> Result<()>) -> Result<()> {
        let Some(asked) = self.asked() else { return self.write(body) };
        let Asked { number, again, acked, .. } = *asked;
        let request = Request { client: &asked.client, number, again, acked };
        self.write(|tx| {
            if again && kept(tx, request, &asked.digest)?.is_some() {
                return Ok(());
            }
            body(tx)?;
            insert(tx, request, &asked.digest, "null")?;
            forget(tx, request.client, acked)
        })
    }

    /// Lets go of what is kept for clients that are not among `alive` and made their last call over ten minutes ago.
    pub fn forget_clients(&self, alive: &[&str]) -> Result<()> {
        let dead = self.read(|tx| {
            let mut dead = Vec::new();
            let mut last = String::new();
            // From one client to the next, however many rows each has.
            while let Some(client) =
                tx.row("SELECT client FROM requests WHERE client > ?1 ORDER BY client LIMIT 1", [&last], |row| {
                    Ok(row.get::<_, String>(0)?)
                })?
            {
                last.clone_from(&client);
                if alive.contains(&client.as_str()) {
                    continue;
                }
                let at = tx.row("SELECT at FROM requests WHERE client = ?1 ORDER BY number DESC LIMIT 1", [&client], |row| {
                    Ok(row.get::<_, i64>(0)?)
                })?;
                // A time that is still to come was kept before the clock went back.
                if at.is_some_and(|at| !(tx.now.saturating_sub(KEPT_MS)..=tx.now).contains(&at)) {
                    dead.push(client);
                }
            }
            Ok(dead)
        })?;
        if dead.is_empty() {
            return Ok(());
        }
        self.write(|tx| dead.iter().try_for_each(|client| forget(tx, client, i64::MAX)))
    }
}
