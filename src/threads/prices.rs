//! Prices of models.

use std::sync::OnceLock;

use crate::error::{Error, ErrorCode, Result};
use crate::ids::Name;
use crate::store::{Columns, Tx};

arguments! {
    /// What a model's tokens cost from one time to another, in US dollars per million.
    ///
    /// Of the prices that fit a response, the one with the most specific pattern counts: one without `*` before one with it, then the one with
    /// the most other characters; of equal patterns one that names the provider; of what is still equal the later in the list.
    #[derive(PartialEq)]
    pub struct Price {
        /// The model's name, in any case; `*` stands for any characters, or none.
        pub model_pattern: Name,
        /// Only for responses of this provider, in any case.
        pub provider: Option<Name>,
        /// Unix milliseconds: only for responses of this time and later.
        pub from: Option<i64>,
        /// Unix milliseconds: only for responses before this time.
        pub until: Option<i64>,
        /// Of input that is neither read from the cache nor written to it.
        pub input: f64,
        /// Of input that the cache held; as `input` unless given.
        pub cache_read: Option<f64>,
        /// Of input that went into the cache; as `input` unless given.
        pub cache_write: Option<f64>,
        /// Of output, reasoning included.
        pub output: f64,
    }
}

records! {
    /// The prices that count.
    pub struct PriceList {
        pub prices: Vec<Price>,
        /// Whether they are the ones that come with runkeep, and none were set.
        pub is_default: bool,
        /// The day on which the default prices were gathered, as `YYYY-MM-DD`.
        pub as_of: Option<String>,
        /// Where the default prices are from.
        pub source: Option<String>,
    }
}

arguments! {
    pub struct SetPrices {
        /// Takes the place of all prices, the default ones included. An empty list leaves everything without a price.
        pub prices: Vec<Price>,
    }

    pub struct GetPrices {}
}

/// The most prices of a list.
const MOST_PRICES: usize = 2000;

arguments! {
    /// The file of default prices.
    struct Defaults {
        as_of: String,
        source: String,
        prices: Vec<Price>,
    }
}

fn defaults() -> Result<&'static Defaults> {
    static DEFAULTS: OnceLock<Option<Defaults>> = OnceLock::new();
    let read = || serde_json::from_str(include_str!("prices.json")).ok();
    let read = DEFAULTS.get_or_init(read).as_ref();
    read.ok_or_else(|| Error::new(ErrorCode::Internal, "the list of default prices cannot be read"))
}

/// What a response has used, as far as it costs.
pub(crate) struct Used<'a> {
    pub(crate) model: &'a str,
    pub(crate) provider: Option<&'a str>,
    pub(crate) at: i64,
    pub(crate) input: i64,
    pub(crate) cache_read: i64,
    pub(crate) cache_write: i64,
    pub(crate) output: i64,
}

/// What it cost, in US dollars.
pub(crate) struct Cost {
    pub(crate) usd: f64,
    /// What it would have cost, had there been no cache.
    pub(crate) without_cache: f64,
}

/// The prices of a tenant, for the responses of one operation.
pub(crate) enum Prices {
    Default(&'static [Price]),
    Set(Vec<Price>),
}

impl Prices {
    pub(crate) fn of(tx: &Tx<'_>) -> Result<Self> {
        let set = tx.row("SELECT prices FROM price_lists WHERE tenant = ?1", [tx.tenant], |row| {
            Columns::new(row, "price_lists", tx.tenant.to_string()).json::<Vec<Price>>(0)
        })?;
        Ok(match set.flatten() {
            Some(prices) => Self::Set(prices),
            None => Self::Default(&defaults()?.prices),
        })
    }

    fn list(&self) -> &[Price] {
        match self {
            Self::Default(prices) => prices,
            Self::Set(prices) => prices,
        }
    }

    /// What a response cost; none where there is no price for it.
    pub(crate) fn cost(&self, used: &Used<'_>) -> Option<Cost> {
        let fitting = self.list().iter().filter(|price| price.fits(used));
        // Of several that are equal, the last.
        fitting.max_by_key(|price| price.precedence()).map(|price| price.cost(used))
    }
}

impl Price {
    fn fits(&self, used: &Used<'_>) -> bool {
        let of_provider = |wanted: &Name| used.provider.is_some_and(|provider| provider.eq_ignore_ascii_case(wanted));
        self.from.is_none_or(|from| from <= used.at)
            && self.until.is_none_or(|until| used.at < until)
            && self.provider.as_ref().is_none_or(of_provider)
            && matches(&self.model_pattern, used.model)
    }

    fn precedence(&self) -> (bool, usize, bool) {
        let literal = self.model_pattern.bytes().filter(|byte| *byte != b'*').count();
        (literal == self.model_pattern.len(), literal, self.provider.is_some())
    }

    fn cost(&self, used: &Used<'_>) -> Cost {
        let dollars = |tokens: i64, per_million: f64| tokens as f64 * per_million / 1e6;
        let rest = used.input - used.cache_read - used.cache_write;
        let output = dollars(used.output, self.output);
        Cost {
            usd: dollars(rest, self.input)
                + dollars(used.cache_read, self.cache_read.unwrap_or(self.input))
                + dollars(used.cache_write, self.cache_write.unwrap_or(self.input))
                + output,
            without_cache: dollars(used.input, self.input) + output,
        }
    }

    fn check(&self, index: usize) -> Result<()> {
        let amounts = [
            ("input", Some(self.input)),
            ("cacheRead", self.cache_read),
            ("cacheWrite", self.cache_write),
            ("output", Some(self.output)),
        ];
        for (name, amount) in amounts {
            // A price beyond this is a price per token, or a slip.
            if let Some(amount) = amount.filter(|amount| !(0.0..=1e6).contains(amount)) {
                let path = format!("prices[{index}].{name}");
                return Err(Error::invalid(format!(
                    "{path} must be US dollars per million tokens, 0 to 1000000; it is {amount}"
                ))
                .with("path", path));
            }
        }
        if let (Some(from), Some(until)) = (self.from, self.until)
            && from >= until
        {
            let path = format!("prices[{index}].until");
            return Err(Error::invalid(format!("{path} must lie after from ({from}); it is {until}")).with("path", path));
        }
        Ok(())
    }
}

/// Whether a name is what a pattern describes.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest: &[u8] = name.as_bytes();
    let starts = |text: &[u8], part: &str| text.len() >= part.len() && text[..part.len()].eq_ignore_ascii_case(part.as_bytes());
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    if !starts(rest, first) {
        return false;
    }
    rest = &rest[first.len()..];
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = (0..=rest.len()).find(|&at| starts(&rest[at..], part)) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && starts(&rest[rest.len() - last.len()..], last)
}

pub(crate) fn get(tx: &Tx<'_>, _: GetPrices) -> Result<PriceList> {
    Ok(match Prices::of(tx)? {
        Prices::Set(prices) => PriceList { prices, is_default: false, as_of: None, source: None },
        Prices::Default(prices) => {
            let Defaults { as_of, source, .. } = defaults()?;
            PriceList { prices: prices.to_vec(), is_default: true, as_of: Some(as_of.clone()), source: Some(source.clone()) }
        }
    })
}

/// Puts a list of prices in the place of the one there is. What was recorded keeps the cost of its time.
pub(crate) fn set(tx: &Tx<'_>, arguments: SetPrices) -> Result<PriceList> {
    let SetPrices { prices } = arguments;
    if prices.len() > MOST_PRICES {
        return Err(Error::new(
            ErrorCode::TooLarge,
            format!("prices has {} entries, over the limit of {MOST_PRICES}; use patterns", prices.len()),
        )
        .with("path", "prices"));
    }
    prices.iter().enumerate().try_for_each(|(index, price)| price.check(index))?;
    tx.execute_one(
        "INSERT INTO price_lists (tenant, prices) VALUES (?1, ?2) ON CONFLICT (tenant) DO UPDATE SET prices = excluded.prices",
        (tx.tenant, crate::json::Json::of(&prices)?),
    )?;
    get(tx, GetPrices {})
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use super::{Price, Prices, Used, defaults, matches};

    fn price(pattern: &str, provider: Option<&str>, input: f64) -> Price {
        let provider = provider.map(|name| name.parse().unwrap());
        Price { model_pattern: pattern.parse().unwrap(), provider, input, ..Price::default() }
    }

    fn input_price(prices: &[Price], model: &str, provider: Option<&str>) -> Option<f64> {
        let used = Used { model, provider, at: 0, input: 1_000_000, cache_read: 0, cache_write: 0, output: 0 };
        Prices::Set(prices.to_vec()).cost(&used).map(|cost| cost.usd)
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name) in [
            ("m", "m"),
            ("M-1", "m-1"),
            ("*", "m"),
            ("m*", "m"),
            ("m*", "mm"),
            ("*m", "mm"),
            ("a*b*c", "abbc"),
            ("a*b*c", "axbxbxc"),
            ("*é*", "ééé"),
            ("**", "m"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("m", "mm"), ("m*m", "m"), ("a*b*c", "acb"), ("*m", "mx"), ("m", ""), ("a*ba", "aba-"), ("ab*ba", "aba")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn the_most_specific_price_counts_then_the_last() {
        let prices = [
            price("*", None, 1.0),
            price("gpt-5", None, 4.0),
            price("gpt-*", None, 2.0),
            price("gpt-5*", Some("azure"), 3.0),
            price("gpt-5*", None, 2.5),
            price("gpt-5", None, 5.0),
        ];
        for (model, provider, expected) in [
            ("other", None, 1.0),
            ("gpt-4", None, 2.0),
            ("gpt-5-mini", None, 2.5),
            ("gpt-5-mini", Some("Azure"), 3.0),
            ("gpt-5", Some("azure"), 5.0),
            ("GPT-5", None, 5.0),
        ] {
            assert_eq!(input_price(&prices, model, provider), Some(expected), "{model} {provider:?}");
        }
        assert_eq!(input_price(&prices[1..], "other", None), None);
    }

    #[test]
    fn the_default_prices_are_dated_and_in_order() {
        let defaults = defaults().unwrap();
        assert!(defaults.as_of.len() == 10 && defaults.source.len() > 20);
        assert!(defaults.prices.len() > 20);
        for (index, price) in defaults.prices.iter().enumerate() {
            price.check(index).unwrap();
            assert!(
                price.input > 0.0 && price.output > price.input && price.cache_read.is_none_or(|read| read < price.input),
                "{price:?}"
            );
        }
        for (model, expected) in [
            ("claude-sonnet-4-5-20250929", Some(3.0)),
            ("claude-opus-4-20250514", Some(15.0)),
            ("gpt-5-mini-2025-08-07", Some(0.25)),
            ("gpt-5", Some(1.25)),
            ("gpt-5-unheard-of", None),
            ("gemini-2.5-flash", Some(0.3)),
        ] {
            assert_eq!(input_price(&defaults.prices, model, None), expected, "{model}");
        }
    }
}
