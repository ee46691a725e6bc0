//! Usage: what responses of models have used, and what that cost.

use rusqlite::Row;

use super::prices::{Cost, Prices, Used};
use super::turns;
use crate::error::{Error, Result};
use crate::executions::Created;
use crate::ids::Name;
use crate::json::Json;
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Columns, Store, Tx};
use crate::tenants;
use crate::zones::Days;

pub use super::prices::{GetPrices, Price, PriceList, SetPrices};
pub(crate) use super::prices::{get as get_prices, set as set_prices};

/// The most tokens that one response may have used: sums of millions of them stay exact.
const MOST_TOKENS: i64 = 1_000_000_000_000;

/// The end of the year 9999, in Unix milliseconds: days have dates until then.
const LAST_MS: i64 = 253_402_300_799_999;

records! {
    /// What one response of a model has used.
    pub struct UsageRecord {
        pub response_id: String,
        pub turn_id: String,
        pub thread_id: String,
        pub model: String,
        pub provider: Option<String>,
        /// All input, cache reads and writes included.
        pub input_tokens: i64,
        /// All output, reasoning included.
        pub output_tokens: i64,
        /// Absent where the provider did not tell.
        pub cache_read_tokens: Option<i64>,
        pub cache_write_tokens: Option<i64>,
        /// Input that had nothing to do with a cache.
        pub no_cache_tokens: i64,
        pub reasoning_tokens: Option<i64>,
        /// In US dollars, by the prices of the time at which it was recorded; absent where there was none for the model.
        pub cost_usd: Option<f64>,
        /// What it would have cost, had there been no cache.
        pub cost_usd_without_cache: Option<f64>,
        pub metadata: Option<Json>,
        /// Unix milliseconds.
        pub created_at: i64,
    }

    /// What the responses of one turn have used.
    pub struct TurnUsage {
        pub input_tokens: i64,
        pub output_tokens: i64,
        pub cache_read_tokens: i64,
        pub cache_write_tokens: i64,
        pub no_cache_tokens: i64,
        pub reasoning_tokens: i64,
        /// In US dollars, of the responses that have a price; null where none has.
        #[cfg_attr(feature = "development", ts(optional = false))]
        pub cost_usd: Option<f64> as null,
        pub responses: i64,
        /// Of them, how many have no price.
        pub unpriced_responses: i64,
    }

    /// Sums over responses.
    pub struct UsageTotals {
        /// All input, cache reads and writes included.
        pub input_tokens: i64,
        /// All output, reasoning included.
        pub output_tokens: i64,
        pub cache_read_tokens: i64,
        pub cache_write_tokens: i64,
        /// Input that had nothing to do with a cache.
        pub no_cache_tokens: i64,
        pub reasoning_tokens: i64,
        /// In US dollars, of the responses that have a price; null where there are responses and none has one.
        #[cfg_attr(feature = "development", ts(optional = false))]
        pub cost_usd: Option<f64> as null,
        /// What the same responses would have cost, had there been no cache.
        #[cfg_attr(feature = "development", ts(optional = false))]
        pub cost_usd_without_cache: Option<f64> as null,
        /// The difference; 0 where the cache made it dearer.
        #[cfg_attr(feature = "development", ts(optional = false))]
        pub cache_savings_usd: Option<f64> as null,
        /// Cache reads in percent of all input; null without input.
        #[cfg_attr(feature = "development", ts(optional = false))]
        pub cache_hit_percent: Option<f64> as null,
        /// How many turns the responses belong to.
        pub turns: i64,
        /// Of them, how many have a response without a price: the costs lack it.
        pub unpriced_turns: i64,
    }

    pub struct UsageBucket {
        /// The day as `YYYY-MM-DD`, the model, the provider, or the thread's id; null for what has no provider.
        #[cfg_attr(feature = "development", ts(optional = false))]
        pub key: Option<String> as null,
        #[cfg_attr(feature = "development", ts(flatten))]
        pub sums: UsageTotals as members,
    }

    pub struct UsageAggregate {
        pub totals: UsageTotals,
        /// In the order of their keys, null last. None unless `groupBy` is given.
        pub buckets: Vec<UsageBucket>,
        /// Whether some response came without `cacheReadTokens`: `cacheHitPercent` and the costs know nothing of its cache.
        pub cache_telemetry_incomplete: bool,
    }

    pub struct Repriced {
        /// How many responses were looked at.
        pub looked_at: i64,
        /// How many of them have another cost now.
        pub repriced: i64,
        /// How many of them have no price.
        pub unpriced: i64,
    }
}

words! {
    /// What the responses of a bucket have in common.
    pub enum UsageGroup {
        Day = "day",
        Model = "model",
        Provider = "provider",
        Thread = "thread",
    }
}

arguments! {
    /// What a response has used. Tokens are 0 to 1,000,000,000,000.
    pub struct RecordUsage {
        pub turn_id: Name,
        /// The provider's id of the response. What is known already answers the first record, whatever else is given.
        pub response_id: Name,
        pub model: Name,
        pub provider: Option<Name>,
        /// All input, cache reads and writes included.
        pub input_tokens: i64,
        /// All output, reasoning included.
        pub output_tokens: i64,
        /// Input that a cache held; leave it out where the provider does not tell.
        pub cache_read_tokens: Option<i64>,
        /// Input that went into a cache.
        pub cache_write_tokens: Option<i64>,
        /// Input that had nothing to do with a cache; the rest of `inputTokens` unless given.
        pub no_cache_tokens: Option<i64>,
        /// Output that is reasoning: part of `outputTokens`.
        pub reasoning_tokens: Option<i64>,
        pub metadata: Option<Json> as optional,
        /// Unix milliseconds; now unless given. The price is that of this time.
        pub created_at: Option<i64>,
    }

    pub struct ResponseId {
        pub response_id: Name,
    }

    /// Which records to list.
    pub struct ListUsage {
        pub turn_id: Option<Name>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }

    /// What to sum up.
    pub struct AggregateUsage {
        /// Unix milliseconds: what was used at this time or later.
        pub since: Option<i64>,
        /// Unix milliseconds: what was used before this time.
        pub until: Option<i64>,
        pub group_by: Option<UsageGroup>,
        /// The IANA time zone whose days count; `UTC` unless given.
        pub timezone: Option<String>,
    }

    pub struct RepriceUsage {
        /// Only what has no price so far. Otherwise everything gets the cost that it has by today's list, or none.
        pub only_unpriced: Option<bool>,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT key, response_id, turn_id, thread_id, model, provider, input_tokens, output_tokens, cache_read_tokens,
                    cache_write_tokens, no_cache_tokens, reasoning_tokens, cost_usd, cost_without_cache, metadata, created_at
             FROM usage_records ",
            $rest
        )
    };
}

fn read(row: &Row<'_>) -> Result<UsageRecord> {
    let columns = Columns::with_id(row, "usage_records", 1);
    Ok(UsageRecord {
        response_id: columns.get(1)?,
        turn_id: columns.get(2)?,
        thread_id: columns.get(3)?,
        model: columns.get(4)?,
        provider: columns.get(5)?,
        input_tokens: columns.get(6)?,
        output_tokens: columns.get(7)?,
        cache_read_tokens: columns.get(8)?,
        cache_write_tokens: columns.get(9)?,
        no_cache_tokens: columns.get(10)?,
        reasoning_tokens: columns.get(11)?,
        cost_usd: columns.get(12)?,
        cost_usd_without_cache: columns.get(13)?,
        metadata: columns.get(14)?,
        created_at: columns.get(15)?,
    })
}

fn of_response(tx: &Tx<'_>, id: &Name) -> Result<Option<UsageRecord>> {
    tx.row(select!("WHERE tenant = ?1 AND response_id = ?2"), (tx.tenant, id), read)
}

fn missing(id: &Name) -> Error {
    Error::corrupt("usage_records", id, "its row is missing")
}

/// Checks the figures, and answers how many tokens had nothing to do with a cache.
fn check(arguments: &RecordUsage) -> Result<i64> {
    let RecordUsage { input_tokens: input, cache_read_tokens, cache_write_tokens, no_cache_tokens, .. } = *arguments;
    for (path, tokens) in [
        ("inputTokens", Some(input)),
        ("outputTokens", Some(arguments.output_tokens)),
        ("cacheReadTokens", cache_read_tokens),
        ("cacheWriteTokens", cache_write_tokens),
        ("noCacheTokens", no_cache_tokens),
        ("reasoningTokens", arguments.reasoning_tokens),
    ] {
        if let Some(tokens) = tokens.filter(|tokens| !(0..=MOST_TOKENS).contains(tokens)) {
            return Err(Error::invalid(format!("{path} must be 0 to {MOST_TOKENS}, not {tokens}")).with("path", path));
        }
    }
    let (cache_read, cache_write) = (cache_read_tokens.unwrap_or(0), cache_write_tokens.unwrap_or(0));
    let rest = input - cache_read - cache_write;
    if rest < no_cache_tokens.unwrap_or(0) {
        let no_cache = no_cache_tokens.map_or(String::new(), |tokens| format!(", noCacheTokens {tokens}"));
        return Err(Error::invalid(format!(
            "inputTokens is all input, and has fewer ({input}) than its parts: cacheReadTokens {cache_read}, cacheWriteTokens \
             {cache_write}{no_cache}; where the provider leaves the cache out, add it"
        ))
        .with("path", "inputTokens"));
    }
    Ok(no_cache_tokens.unwrap_or(rest))
}

/// Records what a caller says that a response has used. Imports are not asked for reasoning that is part of the output: logs are as they are.
pub(crate) fn record_checked(tx: &Tx<'_>, arguments: RecordUsage) -> Result<Created<UsageRecord>> {
    let (output, reasoning) = (arguments.output_tokens, arguments.reasoning_tokens.unwrap_or(0));
    if (0..=MOST_TOKENS).contains(&reasoning) && (0..reasoning).contains(&output) {
        return Err(Error::invalid(format!(
            "outputTokens is all output, and has fewer ({output}) than its part: reasoningTokens {reasoning}; where the provider leaves \
             the reasoning out, add it"
        ))
        .with("path", "outputTokens"));
    }
    record(tx, arguments)
}

/// Records what a response has used, once, with the cost by the prices of its time.
pub(crate) fn record(tx: &Tx<'_>, arguments: RecordUsage) -> Result<Created<UsageRecord>> {
    let no_cache = check(&arguments)?;
    tx.document("metadata", arguments.metadata.as_ref())?;
    let created_at = arguments.created_at.unwrap_or(tx.now);
    if !(0..=LAST_MS).contains(&created_at) {
        return Err(Error::invalid(format!("createdAt must be Unix milliseconds, not {created_at}")).with("path", "createdAt"));
    }
    let id = &arguments.response_id;
    if let Some(record) = of_response(tx, id)? {
        return Ok(Created { record, created: false });
    }
    let turn = turns::Head::get(tx, &arguments.turn_id)?;
    let cost = Prices::of(tx)?.cost(&Used {
        model: &arguments.model,
        provider: arguments.provider.as_deref(),
        at: created_at,
        input: arguments.input_tokens,
        cache_read: arguments.cache_read_tokens.unwrap_or(0),
        cache_write: arguments.cache_write_tokens.unwrap_or(0),
        output: arguments.output_tokens,
    });
    let (usd, without_cache) = (cost.as_ref().map(|cost| cost.usd), cost.as_ref().map(|cost| cost.without_cache));
    let key = tx.next_key("SELECT key FROM usage_records WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    tx.execute_one(
        "INSERT INTO usage_records (key, tenant, response_id, turn, turn_id, thread_id, model, provider, input_tokens, output_tokens,
             cache_read_tokens, cache_write_tokens, no_cache_tokens, reasoning_tokens, cost_usd, cost_without_cache, metadata, created_at)
         SELECT ?1, ?2, ?3, ?4, ?5, id, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18 FROM threads WHERE key = ?6",
        rusqlite::params![
            key,
            tx.tenant,
            id,
            turn.key,
            arguments.turn_id,
            turn.thread,
            arguments.model,
            arguments.provider,
            arguments.input_tokens,
            arguments.output_tokens,
            arguments.cache_read_tokens,
            arguments.cache_write_tokens,
            no_cache,
            arguments.reasoning_tokens,
            usd,
            without_cache,
            arguments.metadata,
            created_at,
        ],
    )?;
    // In the month in which it was used, which for an import is not this one.
    tenants::spend(&tx.at(created_at), arguments.input_tokens + arguments.output_tokens, usd.unwrap_or(0.0))?;
    Ok(Created { record: of_response(tx, id)?.ok_or_else(|| missing(id))?, created: true })
}

pub(crate) fn get(tx: &Tx<'_>, arguments: ResponseId) -> Result<Option<UsageRecord>> {
    of_response(tx, &arguments.response_id)
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListUsage) -> Result<Page<UsageRecord>> {
    let mut page = PageBuilder::unfiltered(page::limit(filter.limit)?);
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let scanned = page.scanned();
    let visit = |row: &Row<'_>| {
        let weigh = |record: &UsageRecord| record.metadata.as_ref().map_or(600, |metadata| metadata.as_str().len() + 600);
        page.visit(tx.number_of(row.get(0)?), read(row), weigh)
    };
    match filter.turn_id {
        Some(id) => {
            let turn = turns::Head::get(tx, &id)?.key;
            let sql = match order {
                Order::Asc => select!("WHERE turn = ?1 AND key BETWEEN ?2 AND ?3 ORDER BY key LIMIT ?4"),
                Order::Desc => select!("WHERE turn = ?1 AND key BETWEEN ?2 AND ?3 ORDER BY key DESC LIMIT ?4"),
            };
            tx.walk(sql, (turn, from, to, scanned), visit)?;
        }
        None => {
            let sql = match order {
                Order::Asc => select!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"),
                Order::Desc => select!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3"),
            };
            tx.walk(sql, (from, to, scanned), visit)?;
        }
    }
    Ok(page.finish())
}

/// What the responses of a turn have used; none without any.
pub(crate) fn of_turn(tx: &Tx<'_>, turn: i64) -> Result<Option<TurnUsage>> {
    let sums = tx.row(
        "SELECT sum(input_tokens), sum(output_tokens), total(cache_read_tokens), total(cache_write_tokens), sum(no_cache_tokens),
                total(reasoning_tokens), sum(cost_usd), count(*), count(*) - count(cost_usd)
         FROM usage_records WHERE turn = ?1 HAVING count(*) > 0",
        [turn],
        |row| {
            let columns = Columns::new(row, "usage_records", format!("of the turn {}", tx.number_of(turn)));
            let total = |at| columns.get::<f64>(at).map(|total| total as i64);
            Ok(TurnUsage {
                input_tokens: columns.get(0)?,
                output_tokens: columns.get(1)?,
                cache_read_tokens: total(2)?,
                cache_write_tokens: total(3)?,
                no_cache_tokens: columns.get(4)?,
                reasoning_tokens: total(5)?,
                cost_usd: columns.get(6)?,
                responses: columns.get(7)?,
                unpriced_responses: columns.get(8)?,
            })
        },
    )?;
    Ok(sums)
}

/// The sums of a span of time: what `UsageTotals` needs, and how many responses told nothing of the cache.
macro_rules! sums {
    ($key:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $key,
            ", coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0),
                coalesce(sum(cache_write_tokens), 0), coalesce(sum(no_cache_tokens), 0), coalesce(sum(reasoning_tokens), 0), sum(cost_usd),
                sum(cost_without_cache), count(DISTINCT turn_id), count(DISTINCT CASE WHEN cost_usd IS NULL THEN turn_id END),
                count(*) - count(cache_read_tokens)
             FROM usage_records WHERE tenant = ?1 AND created_at >= ?2 AND created_at < ?3 ",
            $rest
        )
    };
}

fn read_sums(row: &Row<'_>) -> Result<(UsageTotals, bool)> {
    let columns = Columns::new(row, "usage_records", "(sums)");
    let (input_tokens, cache_read_tokens): (i64, i64) = (columns.get(1)?, columns.get(3)?);
    let unpriced_turns: i64 = columns.get(10)?;
    // Where nothing was used, nothing is what it cost.
    let cost = |at| columns.get(at).map(|cost: Option<f64>| cost.or((unpriced_turns == 0).then_some(0.0)));
    let (cost_usd, cost_usd_without_cache) = (cost(7)?, cost(8)?);
    let totals = UsageTotals {
        input_tokens,
        output_tokens: columns.get(2)?,
        cache_read_tokens,
        cache_write_tokens: columns.get(4)?,
        no_cache_tokens: columns.get(5)?,
        reasoning_tokens: columns.get(6)?,
        cost_usd,
        cost_usd_without_cache,
        cache_savings_usd: cost_usd.zip(cost_usd_without_cache).map(|(cost, without)| (without - cost).max(0.0)),
        cache_hit_percent: (input_tokens > 0).then(|| cache_read_tokens as f64 * 100.0 / input_tokens as f64),
        turns: columns.get(9)?,
        unpriced_turns,
    };
    Ok((totals, columns.get::<i64>(11)? > 0))
}

pub(crate) fn aggregate(tx: &Tx<'_>, arguments: AggregateUsage) -> Result<UsageAggregate> {
    let (since, until) = (arguments.since.unwrap_or(i64::MIN), arguments.until.unwrap_or(i64::MAX));
    if since > until {
        return Err(Error::invalid(format!("since ({since}) lies after until ({until})")).with("path", "since"));
    }
    let days = Days::new(tx.zones, arguments.timezone.as_deref().unwrap_or("UTC"))?;
    let span = (tx.tenant, since, until);
    let (totals, cache_telemetry_incomplete) = tx
        .row(sums!("NULL", ""), span, read_sums)?
        .ok_or_else(|| Error::corrupt("usage_records", "(sums)", "there is no sum"))?;
    let grouped = |sql| tx.rows(sql, span, |row| Ok(UsageBucket { key: row.get(0)?, sums: read_sums(row)?.0 }));
    let buckets = match arguments.group_by {
        None => Vec::new(),
        Some(UsageGroup::Day) => by_day(tx, &days, since, until)?,
        Some(UsageGroup::Model) => grouped(sums!("model", "GROUP BY model ORDER BY model"))?,
        Some(UsageGroup::Provider) => grouped(sums!("provider", "GROUP BY provider ORDER BY provider NULLS LAST"))?,
        Some(UsageGroup::Thread) => grouped(sums!("thread_id", "GROUP BY thread_id ORDER BY thread_id"))?,
    };
    Ok(UsageAggregate { totals, buckets, cache_telemetry_incomplete })
}

/// A bucket for each day with usage: the limits of a day come first, then one sum between them.
fn by_day(tx: &Tx<'_>, days: &Days<'_>, since: i64, until: i64) -> Result<Vec<UsageBucket>> {
    let mut buckets = Vec::new();
    let mut from = since;
    loop {
        let next = tx.row(
            "SELECT created_at FROM usage_records WHERE tenant = ?1 AND created_at >= ?2 AND created_at < ?3 ORDER BY created_at LIMIT 1",
            (tx.tenant, from, until),
            |row| Ok(row.get::<_, i64>(0)?),
        )?;
        let Some(at) = next else { return Ok(buckets) };
        let day = days.of(at)?;
        let end = day.end.min(until);
        let sums = tx.row(sums!("NULL", ""), (tx.tenant, from.max(day.start), end), read_sums)?;
        buckets.extend(sums.map(|(sums, _)| UsageBucket { key: Some(day.date), sums }));
        from = end;
    }
}

/// How many records one transaction gives another price.
const STEP: i64 = 500;

/// Gives records the cost that they have by today's list of prices. Bounded transactions: stopped anywhere, it can be run again.
pub(crate) fn reprice(store: &Store, arguments: RepriceUsage) -> Result<Repriced> {
    let only_unpriced = arguments.only_unpriced.unwrap_or(false);
    let mut all = Repriced { looked_at: 0, repriced: 0, unpriced: 0 };
    let mut after = 0;
    loop {
        let (step, last) = store.write(|tx| reprice_step(tx, only_unpriced, after))?;
        all.looked_at += step.looked_at;
        all.repriced += step.repriced;
        all.unpriced += step.unpriced;
        if step.looked_at < STEP {
            return Ok(all);
        }
        after = last;
    }
}

fn reprice_step(tx: &Tx<'_>, only_unpriced: bool, after: i64) -> Result<(Repriced, i64)> {
    for topic in [Topic::Usage, Topic::Turns] {
        tx.touch_any(topic);
    }
    let prices = Prices::of(tx)?;
    let (first, last) = tx.keys();
    let first = first.max(after + 1);
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, read(row)?));
    let records = if only_unpriced {
        let sql = select!("WHERE tenant = ?1 AND cost_usd IS NULL AND key BETWEEN ?2 AND ?3 ORDER BY key LIMIT ?4");
        tx.rows(sql, (tx.tenant, first, last, STEP), read)?
    } else {
        tx.rows(select!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"), (first, last, STEP), read)?
    };
    let mut step = Repriced { looked_at: records.len() as i64, repriced: 0, unpriced: 0 };
    for (key, record) in &records {
        let cost = prices.cost(&Used {
            model: &record.model,
            provider: record.provider.as_deref(),
            at: record.created_at,
            input: record.input_tokens,
            cache_read: record.cache_read_tokens.unwrap_or(0),
            cache_write: record.cache_write_tokens.unwrap_or(0),
            output: record.output_tokens,
        });
        step.unpriced += i64::from(cost.is_none());
        let (usd, without_cache) = cost.map_or((None, None), |Cost { usd, without_cache }| (Some(usd), Some(without_cache)));
        if (usd, without_cache) == (record.cost_usd, record.cost_usd_without_cache) {
            continue;
        }
        tx.execute_one(
            "UPDATE usage_records SET cost_usd = ?2, cost_without_cache = ?3 WHERE key = ?1",
            (key, usd, without_cache),
        )?;
        tenants::spend(&tx.at(record.created_at), 0, usd.unwrap_or(0.0) - record.cost_usd.unwrap_or(0.0))?;
        step.repriced += 1;
    }
    Ok((step, records.last().map_or(after, |(key, _)| *key)))
}
