//! Tokens: secrets that name a tenant and a role. Only their digest is stored.

use rusqlite::Row;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::ids::{Name, new_id, new_secret};
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Columns, Tx};
use crate::tenants;

words! {
    #[derive(Default)]
    pub enum Role {
        #[default]
        Operator = "operator",
        Developer = "developer",
        Reviewer = "reviewer",
        Viewer = "viewer",
    }
}

records! {
    /// What there is to know of a token, without the secret itself.
    pub struct TokenInfo {
        pub id: String,
        pub tenant_id: String,
        pub name: String,
        pub role: Role,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds.
        pub expires_at: Option<i64>,
        /// Unix milliseconds.
        pub revoked_at: Option<i64>,
        /// Unix milliseconds, to the minute.
        pub last_used_at: Option<i64>,
    }

    /// A new token.
    pub struct NewToken {
        /// The secret. It is shown this once.
        pub token: String,
        pub info: TokenInfo,
    }
}

arguments! {
    pub struct CreateToken {
        pub name: Name,
        pub role: Role,
        /// Unix milliseconds; never unless given.
        pub expires_at: Option<i64>,
    }

    pub struct ValidateToken {
        pub token: String,
    }

    pub struct TokenId {
        pub id: Name,
    }

    /// Which tokens to list.
    pub struct ListTokens {
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

/// How long a token's use is not written again.
const LAST_USED_MS: i64 = 60_000;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT k.key, k.id, t.id, k.name, k.role, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
             FROM tokens k CROSS JOIN tenants t ON t.number = k.tenant ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<TokenInfo> {
    let columns = Columns::with_id(row, "tokens", 1);
    Ok(TokenInfo {
        id: columns.get(1)?,
        tenant_id: columns.get(2)?,
        name: columns.get(3)?,
        role: columns.get(4)?,
        created_at: columns.get(5)?,
        expires_at: columns.get(6)?,
        revoked_at: columns.get(7)?,
        last_used_at: columns.get(8)?,
    })
}

fn by_key(tx: &Tx<'_>, key: i64) -> Result<TokenInfo> {
    tx.row(select!("WHERE k.key = ?1"), [key], read)?
        .ok_or_else(|| Error::corrupt("tokens", &key.to_string(), "its row is missing"))
}

fn sha256(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

pub(crate) fn create(tx: &Tx<'_>, arguments: CreateToken) -> Result<NewToken> {
    tenants::may_create(tx)?;
    if let Some(at) = arguments.expires_at.filter(|&at| at <= tx.now) {
        return Err(Error::invalid(format!("expiresAt must lie in the future; it is {at}, and now is {}", tx.now))
            .with("path", "expiresAt"));
    }
    let token = format!("rk_{}", new_secret()?);
    let key = tx.next_key("SELECT key FROM tokens WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO tokens (key, tenant, id, sha256, name, role, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        (key, tx.tenant, new_id(tx.now), sha256(&token), &arguments.name, arguments.role, tx.now, arguments.expires_at),
    )?;
    Ok(NewToken { token, info: by_key(tx, key)? })
}

/// The token of this id under another secret: for whoever asked for it and did not get the first one, which is kept nowhere.
pub(crate) fn renew(tx: &Tx<'_>, id: &str) -> Result<NewToken> {
    let key = tx.row("SELECT key FROM tokens WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| Ok(row.get(0)?))?;
    let key: i64 = key.ok_or_else(|| Error::not_found("token", id))?;
    let token = format!("rk_{}", new_secret()?);
    tx.execute_one("UPDATE tokens SET sha256 = ?2 WHERE key = ?1", (key, sha256(&token)))?;
    Ok(NewToken { token, info: by_key(tx, key)? })
}

/// What a token stands for: of this tenant, or on the plain store of any. Nothing is told of why one does not count.
pub(crate) fn validate(tx: &Tx<'_>, arguments: ValidateToken) -> Result<Option<TokenInfo>> {
    let found = tx.row("SELECT key, tenant FROM tokens WHERE sha256 = ?1", [sha256(&arguments.token)], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    })?;
    let Some((key, _)) = found.filter(|&(_, tenant)| tx.sees_all_tenants() || tenant == tx.tenant) else { return Ok(None) };
    let info = by_key(tx, key)?;
    if info.revoked_at.is_some() || info.expires_at.is_some_and(|at| at <= tx.now) {
        return Ok(None);
    }
    if info.last_used_at.is_none_or(|at| tx.now.saturating_sub(at) >= LAST_USED_MS) {
        tx.execute_one("UPDATE tokens SET last_used_at = ?2 WHERE key = ?1", (key, tx.now))?;
        return by_key(tx, key).map(Some);
    }
    Ok(Some(info))
}

/// Ends a token. Repeating it is fine.
pub(crate) fn revoke(tx: &Tx<'_>, arguments: TokenId) -> Result<TokenInfo> {
    let key =
        tx.row("SELECT key FROM tokens WHERE tenant = ?1 AND id = ?2", (tx.tenant, &arguments.id), |row| Ok(row.get(0)?))?;
    let key: i64 = key.ok_or_else(|| Error::not_found("token", &arguments.id))?;
    tx.execute_one("UPDATE tokens SET revoked_at = coalesce(revoked_at, ?2) WHERE key = ?1", (key, tx.now))?;
    by_key(tx, key)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListTokens) -> Result<Page<TokenInfo>> {
    let mut page = PageBuilder::unfiltered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => select!("WHERE k.key BETWEEN ?1 AND ?2 ORDER BY k.key LIMIT ?3"),
        Order::Desc => select!("WHERE k.key BETWEEN ?1 AND ?2 ORDER BY k.key DESC LIMIT ?3"),
    };
    tx.walk(sql, (from, to, page.scanned()), |row| page.visit(tx.number_of(row.get(0)?), read(row), |_| 300))?;
    Ok(page.finish())
}
