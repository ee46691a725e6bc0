//! Tenants: every row belongs to one. Within one origin they are order, not a security boundary.

use rusqlite::Row;

use crate::error::{Error, ErrorCode, Result};
use crate::executions::Created;
use crate::ids::Name;
use crate::json::{Json, digest};
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Columns, Tx};

words! {
    #[derive(Default)]
    pub enum TenantStatus {
        #[default]
        Active = "active",
        /// It reads, and settles what it holds; it neither creates nor claims.
        Suspended = "suspended",
        /// As suspended, and kept for the record.
        Archived = "archived",
    }
}

arguments! {
    /// What a tenant may have at most. A limit that is reached refuses what would begin something, never what records.
    #[derive(PartialEq)]
    pub struct TenantLimits {
        /// Executions that have not ended.
        pub max_concurrent_executions: Option<i64>,
        /// Workflows, whatever their versions.
        pub max_workflows: Option<i64>,
        /// Input and output tokens in one UTC month.
        pub max_tokens_per_month: Option<i64>,
        /// US dollars in one UTC month.
        pub max_cost_per_month_usd: Option<f64>,
    }
}

records! {
    pub struct Tenant {
        pub id: String,
        pub name: Option<String>,
        pub status: TenantStatus,
        /// The caller's own; the store keeps it.
        pub policy: Option<Json>,
        pub limits: TenantLimits,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds.
        pub updated_at: i64,
    }
}

arguments! {
    pub struct CreateTenant {
        /// Made by the store unless given.
        pub id: Option<Name>,
        pub name: Option<Name>,
        pub policy: Option<Json> as optional,
        pub limits: Option<TenantLimits>,
    }

    pub struct TenantId {
        pub id: Name,
    }

    /// What to change. What is left out stays, null clears.
    pub struct UpdateTenant {
        pub id: Name,
        pub name: Option<Option<Name>>,
        pub status: Option<TenantStatus>,
        pub policy: Option<Option<Json>>,
        /// Takes the place of all limits.
        pub limits: Option<Option<TenantLimits>>,
    }

    /// Which tenants to list.
    pub struct ListTenants {
        pub status: Option<TenantStatus>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT number, id, name, status, policy, limits, created_at, updated_at FROM tenants ", $rest)
    };
}

fn read(row: &Row<'_>) -> Result<Tenant> {
    let columns = Columns::with_id(row, "tenants", 1);
    Ok(Tenant {
        id: columns.get(1)?,
        name: columns.get(2)?,
        status: columns.get(3)?,
        policy: columns.get(4)?,
        limits: columns.json(5)?.unwrap_or_default(),
        created_at: columns.get(6)?,
        updated_at: columns.get(7)?,
    })
}

fn check_limits(limits: Option<&TenantLimits>) -> Result<()> {
    let Some(limits) = limits else { return Ok(()) };
    let negative = [
        ("limits.maxConcurrentExecutions", limits.max_concurrent_executions.is_some_and(|n| n < 0)),
        ("limits.maxWorkflows", limits.max_workflows.is_some_and(|n| n < 0)),
        ("limits.maxTokensPerMonth", limits.max_tokens_per_month.is_some_and(|n| n < 0)),
        ("limits.maxCostPerMonthUsd", limits.max_cost_per_month_usd.is_some_and(|n| n < 0.0)),
    ];
    match negative.iter().find(|(_, negative)| *negative) {
        Some((path, _)) => Err(Error::invalid(format!("{path} must not be negative")).with("path", *path)),
        None => Ok(()),
    }
}

pub(crate) fn create(tx: &Tx<'_>, arguments: CreateTenant) -> Result<Created<Tenant>> {
    tx.document("policy", arguments.policy.as_ref())?;
    check_limits(arguments.limits.as_ref())?;
    let digest = arguments.id.is_some().then(|| digest(&arguments)).transpose()?;
    if let Some(id) = &arguments.id {
        let known: Option<Option<[u8; 32]>> = tx.row("SELECT digest FROM tenants WHERE id = ?1", [id], |row| Ok(row.get(0)?))?;
        match known {
            None => {}
            Some(known) if known.is_some() && known == digest => {
                return Ok(Created { record: existing(tx, id)?, created: false });
            }
            Some(_) => {
                return Err(Error::conflict(format!(
                    "there is a tenant {:?} already, created with other arguments",
                    id.as_str()
                ))
                .with("id", id.as_str()));
            }
        }
    }
    let id = arguments.id.map_or_else(|| crate::ids::new_id(tx.now), |id| id.to_string());
    tx.execute_one(
        "INSERT INTO tenants (number, id, name, status, policy, limits, digest, created_at, updated_at)
         VALUES (?1, ?2, ?3, 'active', ?4, ?5, ?6, ?7, ?7)",
        (
            next_number(tx)?,
            &id,
            &arguments.name,
            &arguments.policy,
            arguments.limits.map(|limits| Json::of(&limits)).transpose()?,
            digest,
            tx.now,
        ),
    )?;
    Ok(Created { record: existing(tx, &id)?, created: true })
}

/// The number of the next new tenant.
pub(crate) fn next_number(tx: &Tx<'_>) -> Result<i64> {
    let last = tx.row("SELECT number FROM tenants ORDER BY number DESC LIMIT 1", (), |row| Ok(row.get::<_, i64>(0)?))?;
    Ok(last.unwrap_or(0) + 1)
}

fn existing(tx: &Tx<'_>, id: &str) -> Result<Tenant> {
    tx.row(select!("WHERE id = ?1"), [id], read)?.ok_or_else(|| Error::not_found("tenant", id))
}

pub(crate) fn get(tx: &Tx<'_>, arguments: TenantId) -> Result<Option<Tenant>> {
    tx.row(select!("WHERE id = ?1"), [arguments.id], read)
}

pub(crate) fn update(tx: &Tx<'_>, arguments: UpdateTenant) -> Result<Tenant> {
    let UpdateTenant { id, name, status, policy, limits } = arguments;
    tx.document("policy", policy.as_ref().and_then(Option::as_ref))?;
    check_limits(limits.as_ref().and_then(Option::as_ref))?;
    let before = existing(tx, &id)?;
    let status = status.unwrap_or(before.status);
    if before.id == "default" && status == TenantStatus::Archived {
        return Err(Error::new(ErrorCode::InvalidTransition, "the tenant \"default\" always exists and cannot be archived"));
    }
    let name = name.unwrap_or(before.name.as_deref().map(str::parse).transpose()?);
    let limits = limits.unwrap_or(Some(before.limits));
    tx.execute_one(
        "UPDATE tenants SET name = ?2, status = ?3, policy = ?4, limits = ?5, updated_at = ?6 WHERE id = ?1",
        (&id, name, status, policy.unwrap_or(before.policy), limits.map(|limits| Json::of(&limits)).transpose()?, tx.now),
    )?;
    existing(tx, &id)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListTenants) -> Result<Page<Tenant>> {
    let mut page = PageBuilder::filtered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::sequences(filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => select!("WHERE number BETWEEN ?1 AND ?2 ORDER BY number LIMIT ?3"),
        Order::Desc => select!("WHERE number BETWEEN ?1 AND ?2 ORDER BY number DESC LIMIT ?3"),
    };
    tx.walk(sql, (from, to, page.scanned()), |row| {
        let number = row.get(0)?;
        let record = read(row);
        if record.as_ref().is_ok_and(|tenant| filter.status.is_some_and(|wanted| wanted != tenant.status)) {
            page.skip(number);
            return Ok(true);
        }
        page.visit(number, record, |tenant| tenant.policy.as_ref().map_or(300, |policy| policy.as_str().len() + 300))
    })?;
    Ok(page.finish())
}

/// The number of the tenant with this id.
pub(crate) fn number(tx: &Tx<'_>, id: &str) -> Result<i64> {
    tx.row("SELECT number FROM tenants WHERE id = ?1", [id], |row| Ok(row.get(0)?))?.ok_or_else(|| Error::not_found("tenant", id))
}

fn of(tx: &Tx<'_>) -> Result<Tenant> {
    tx.row(select!("WHERE number = ?1"), [tx.tenant], read)?
        .ok_or_else(|| Error::corrupt("tenants", &tx.tenant.to_string(), "the row of a tenant in use is missing"))
}

pub(crate) fn is_active(tx: &Tx<'_>) -> Result<bool> {
    Ok(of(tx)?.status == TenantStatus::Active)
}

/// Refuses what a tenant that is not active must not create or claim. Answers the tenant's id.
pub(crate) fn may_create(tx: &Tx<'_>) -> Result<String> {
    let active = tx.row("SELECT id FROM tenants WHERE number = ?1 AND status = 'active'", [tx.tenant], |row| Ok(row.get(0)?))?;
    active.map_or_else(|| self::active(tx).map(|tenant| tenant.id), Ok)
}

fn active(tx: &Tx<'_>) -> Result<Tenant> {
    let tenant = of(tx)?;
    if tenant.status == TenantStatus::Active {
        return Ok(tenant);
    }
    Err(Error::new(
        ErrorCode::TenantSuspended,
        format!(
            "the tenant {:?} is {}: it reads and settles what it holds, and neither creates nor claims",
            tenant.id,
            tenant.status.as_str()
        ),
    )
    .with("tenantId", tenant.id)
    .with("status", tenant.status.as_str()))
}

fn reached(tenant: &Tenant, limit: &str, most: impl Into<serde_json::Value>, what: &str) -> Error {
    let most = most.into();
    Error::new(ErrorCode::LimitExceeded, format!("the tenant {:?} has reached {limit} ({most} {what})", tenant.id))
        .with("tenantId", tenant.id.as_str())
        .with("limit", limit)
        .with("most", most)
}

/// Refuses to begin anything that costs, once the tokens or the money of the month are spent.
pub(crate) fn may_begin(tx: &Tx<'_>) -> Result<()> {
    // Most have no limits: then nothing else has to be read.
    let is_free =
        tx.row("SELECT 1 FROM tenants WHERE number = ?1 AND status = 'active' AND limits IS NULL", [tx.tenant], |_| Ok(()))?;
    if is_free.is_some() {
        return Ok(());
    }
    let tenant = active(tx)?;
    within_month(tx, &tenant)
}

fn within_month(tx: &Tx<'_>, tenant: &Tenant) -> Result<()> {
    let limits = &tenant.limits;
    if limits.max_tokens_per_month.is_none() && limits.max_cost_per_month_usd.is_none() {
        return Ok(());
    }
    let (tokens, cost) = spent(tx)?;
    if let Some(most) = limits.max_tokens_per_month.filter(|&most| tokens >= most) {
        return Err(reached(tenant, "maxTokensPerMonth", most, "tokens this month"));
    }
    if let Some(most) = limits.max_cost_per_month_usd.filter(|&most| cost >= most) {
        return Err(reached(tenant, "maxCostPerMonthUsd", most, "US dollars this month"));
    }
    Ok(())
}

/// Refuses another execution where the tenant may have no more.
pub(crate) fn admit_execution(tx: &Tx<'_>) -> Result<()> {
    let tenant = active(tx)?;
    if let Some(most) = tenant.limits.max_concurrent_executions {
        let open = tx.row(
            "SELECT coalesce(sum(count), 0) FROM execution_counts WHERE tenant = ?1 AND status IN ('pending', 'running', 'paused')",
            [tx.tenant],
            |row| Ok(row.get::<_, i64>(0)?),
        )?;
        if open.unwrap_or(0) >= most {
            return Err(reached(&tenant, "maxConcurrentExecutions", most, "executions that have not ended"));
        }
    }
    within_month(tx, &tenant)
}

/// Refuses another workflow where the tenant may have no more. Another version of one that it has is none.
pub(crate) fn admit_workflow(tx: &Tx<'_>, id: &Name) -> Result<()> {
    let tenant = active(tx)?;
    within_month(tx, &tenant)?;
    let Some(most) = tenant.limits.max_workflows else { return Ok(()) };
    let known = tx.row("SELECT 1 FROM workflows WHERE tenant = ?1 AND id = ?2 LIMIT 1", (tx.tenant, id), |_| Ok(()))?;
    if known.is_some() {
        return Ok(());
    }
    let count = tx.row(
        "SELECT count(*) FROM (SELECT DISTINCT id FROM workflows WHERE tenant = ?1 LIMIT ?2)",
        (tx.tenant, most),
        |row| Ok(row.get::<_, i64>(0)?),
    )?;
    if count.unwrap_or(0) >= most {
        return Err(reached(&tenant, "maxWorkflows", most, "workflows"));
    }
    Ok(())
}

/// What the tenant has used in this UTC month: tokens, and US dollars.
fn spent(tx: &Tx<'_>) -> Result<(i64, f64)> {
    let spent = tx.row(
        "SELECT tokens, cost_usd FROM monthly_usage WHERE tenant = ?1 AND month = ?2",
        (tx.tenant, month(tx.now)),
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(spent.unwrap_or((0, 0.0)))
}

/// Adds to what the tenant has used in this month. Recording is never refused.
pub(crate) fn spend(tx: &Tx<'_>, tokens: i64, cost_usd: f64) -> Result<()> {
    if tokens == 0 && cost_usd == 0.0 {
        return Ok(());
    }
    tx.execute_one(
        "INSERT INTO monthly_usage (tenant, month, tokens, cost_usd) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tenant, month) DO UPDATE SET tokens = tokens + excluded.tokens, cost_usd = cost_usd + excluded.cost_usd",
        (tx.tenant, month(tx.now), tokens, cost_usd),
    )
}

/// The number of the UTC month, counted from January of the year 0.
fn month(now_ms: i64) -> i64 {
    use chrono::Datelike;
    let date = chrono::DateTime::from_timestamp_millis(now_ms).unwrap_or_default();
    i64::from(date.year()) * 12 + i64::from(date.month0())
}

#[cfg(test)]
mod tests {
    use super::month;

    #[test]
    fn a_month_ends_at_midnight_utc() {
        // 2026-01-31T23:59:59.999Z and the millisecond after it.
        assert_eq!(month(1_769_903_999_999) + 1, month(1_769_904_000_000));
    }
}
