//! Time zones, and the search for the times at which a cron expression comes due in one.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, Timelike};
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use croner::{CivilDateTime, Cron, CronDateTime, Direction, Resolution, Weekday};

use crate::error::{Error, Result};

/// Tells how far the clocks of a time zone are from UTC.
pub trait Zones: Send + Sync {
    /// How many seconds the clocks of `zone` (an IANA name such as `Europe/Berlin`, in any case) are ahead of UTC at `at`, in Unix
    /// seconds. `None` where the zone is unknown.
    fn offset(&self, zone: &str, at: i64) -> Option<i32>;
}

/// The time zones that come with the crate.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug, Default, Clone, Copy)]
pub struct TzDatabase;

#[cfg(not(target_arch = "wasm32"))]
impl Zones for TzDatabase {
    fn offset(&self, zone: &str, at: i64) -> Option<i32> {
        use chrono::{Offset, TimeZone};
        let known = zone.parse().ok();
        let zone: chrono_tz::Tz =
            known.or_else(|| chrono_tz::TZ_VARIANTS.into_iter().find(|known| known.name().eq_ignore_ascii_case(zone)))?;
        Some(zone.offset_from_utc_datetime(&moment(at).naive_utc()).fix().local_minus_utc())
    }
}

/// The moment of these Unix seconds, or the first or last one that there is.
pub(crate) fn moment(seconds: i64) -> DateTime<chrono::Utc> {
    let (first, last) = (DateTime::<chrono::Utc>::MIN_UTC, DateTime::<chrono::Utc>::MAX_UTC);
    DateTime::from_timestamp(seconds, 0).unwrap_or(if seconds < 0 { first } else { last })
}

/// How far ahead to look. What comes due at all does so within 40 years: a 29 February that is a Monday, around 2100.
const MOST_YEARS: u32 = 50;

/// A cron expression in a time zone.
pub(crate) struct Schedule<'z> {
    expression: &'z str,
    cron: Cron,
    zone: Zone<'z>,
}

impl<'z> Schedule<'z> {
    pub(crate) fn new(zones: &'z dyn Zones, expression: &'z str, timezone: &'z str) -> Result<Self> {
        let refuse = |reason: String| {
            Error::invalid(format!("expression {expression:?} {reason}")).with("path", "expression").with("value", expression)
        };
        let fields = expression.split_whitespace().count();
        if fields != 5 {
            return Err(refuse(format!(
                "has {fields} fields; give five: minute, hour, day of the month, month, day of the week, as in \"30 2 * * *\""
            )));
        }
        if let Some(other) = expression.chars().find(|c| !c.is_ascii_alphanumeric() && !"*,-/#?+ \t".contains(*c)) {
            return Err(refuse(format!("has the character {other:?}, which means nothing in it")));
        }
        // The parser passes over them; a list of nothing else would never come due.
        if expression.split_whitespace().any(|field| field.split(',').any(str::is_empty)) {
            return Err(refuse("has a list with an empty entry".to_owned()));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(expression).map_err(|error| refuse(format!("is no cron expression: {error}")))?;
        let zone = Zone { zones, name: timezone, known: RefCell::default() };
        if zone.offset(0).is_none() {
            return Err(unknown_zone(timezone));
        }
        Ok(Self { expression, cron, zone })
    }

    /// The first time that it comes due after `after`, in Unix milliseconds.
    pub(crate) fn next(&self, after: i64) -> Result<i64> {
        self.find(after, false, Direction::Forward)
    }

    /// The first time that it comes due at `from` or after it.
    pub(crate) fn next_from(&self, from: i64) -> Result<i64> {
        // Cron knows whole seconds: what is left of this one is past.
        self.find(from.saturating_sub(1), false, Direction::Forward)
    }

    /// The last time that it came due by `by`.
    pub(crate) fn last(&self, by: i64) -> Result<i64> {
        self.find(by, true, Direction::Backward)
    }

    fn find(&self, from: i64, inclusive: bool, direction: Direction) -> Result<i64> {
        let seconds = from.div_euclid(1000);
        let zone = &self.zone;
        let offset = zone.offset(seconds).ok_or_else(|| unknown_zone(zone.name))?;
        let year = moment(seconds).year();
        let start = Moment { zone, seconds, offset, year };
        // An expression like "0 0 30 2 *" is well-formed and never comes due.
        let found = match direction {
            Direction::Forward => self.cron.find_next_occurrence(&start, inclusive),
            Direction::Backward => self.cron.find_previous_occurrence(&start, inclusive),
        };
        let expression = self.expression;
        let found = found.map_err(|error| {
            let reason = match error {
                CronError::TimeSearchLimitExceeded => format!("within {MOST_YEARS} years; is there such a day?"),
                other => format!("in {:?}: {other}", zone.name),
            };
            Error::invalid(format!("expression {expression:?} does not come due {reason}"))
                .with("path", "expression")
                .with("value", expression)
        })?;
        Ok(found.seconds.saturating_mul(1000))
    }
}

fn unknown_zone(name: &str) -> Error {
    Error::invalid(format!("timezone {name:?} is unknown; give an IANA name such as \"Europe/Berlin\", or \"UTC\""))
        .with("path", "timezone")
        .with("value", name)
}

/// One time zone, with what was asked about it.
struct Zone<'z> {
    zones: &'z dyn Zones,
    name: &'z str,
    /// Offsets by quarter of an hour, where one holds for all of it: the search through a gap asks for each second.
    known: RefCell<BTreeMap<i64, i32>>,
}

impl Zone<'_> {
    fn offset(&self, at: i64) -> Option<i32> {
        const QUARTER: i64 = 15 * 60;
        let quarter = at.div_euclid(QUARTER);
        if let Some(offset) = self.known.borrow().get(&quarter) {
            return Some(*offset);
        }
        let ask = |at| self.zones.offset(self.name, at);
        let (first, last) = (ask(quarter * QUARTER)?, ask(quarter * QUARTER + QUARTER - 1)?);
        if first != last {
            return ask(at);
        }
        self.known.borrow_mut().insert(quarter, first);
        Some(first)
    }
}

/// The days of a time zone.
pub(crate) struct Days<'z>(Zone<'z>);

/// One day: from its first millisecond to the one before `end`.
pub(crate) struct Day {
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// As `YYYY-MM-DD`.
    pub(crate) date: String,
}

impl<'z> Days<'z> {
    pub(crate) fn new(zones: &'z dyn Zones, timezone: &'z str) -> Result<Self> {
        let zone = Zone { zones, name: timezone, known: RefCell::default() };
        if zone.offset(0).is_none() {
            return Err(unknown_zone(timezone));
        }
        Ok(Self(zone))
    }

    /// The day in which these Unix milliseconds lie.
    pub(crate) fn of(&self, at: i64) -> Result<Day> {
        let seconds = at.div_euclid(1000);
        let local = seconds.saturating_add(self.offset(seconds)?);
        let mut date = moment(local).date_naive();
        let mut start = self.start(date)?;
        let mut end = self.start(following(date))?;
        // Where the clocks go back over midnight, the last minutes of the day before come again; they belong to the day that has begun.
        if seconds >= end {
            date = following(date);
            (start, end) = (end, self.start(following(date))?);
        }
        Ok(Day { start: start.saturating_mul(1000), end: end.saturating_mul(1000), date: date.to_string() })
    }

    fn offset(&self, at: i64) -> Result<i64> {
        self.0.offset(at).map(i64::from).ok_or_else(|| unknown_zone(self.0.name))
    }

    /// The first second of a day. Where the clocks skip midnight, the second after that.
    fn start(&self, date: chrono::NaiveDate) -> Result<i64> {
        let midnight = date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp();
        let has_begun = |at: i64| self.offset(at).map(|offset| at.saturating_add(offset) >= midnight);
        // Usually the clocks do not change just then.
        for near in [midnight - FURTHEST, midnight + FURTHEST] {
            let guess = midnight - self.offset(near)?;
            if guess + self.offset(guess)? == midnight && !has_begun(guess - 1)? {
                return Ok(guess);
            }
        }
        let (mut before, mut after) = (midnight - FURTHEST, midnight + FURTHEST);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if has_begun(middle)? { after = middle } else { before = middle }
        }
        Ok(after)
    }
}

/// The day after; the last one that there is has none.
fn following(date: chrono::NaiveDate) -> chrono::NaiveDate {
    date.succ_opt().unwrap_or(date)
}

/// In seconds: no zone ever was further from UTC.
const FURTHEST: i64 = 16 * 60 * 60;

/// A second in a time zone.
#[derive(Clone)]
struct Moment<'z> {
    zone: &'z Zone<'z>,
    seconds: i64,
    offset: i32,
    /// Of the time that the search began at.
    year: i32,
}

impl Moment<'_> {
    /// Another time in the same zone.
    fn at(&self, seconds: i64) -> Option<Self> {
        Some(Self { seconds, offset: self.zone.offset(seconds)?, ..*self })
    }

    fn local(&self) -> DateTime<chrono::Utc> {
        moment(self.seconds.saturating_add(self.offset.into()))
    }
}

impl CronDateTime for Moment<'_> {
    fn to_civil(&self) -> CivilDateTime {
        let local = self.local();
        CivilDateTime::new(
            croner::CivilDate::from_parts_unchecked(local.year(), local.month(), local.day()),
            croner::CivilTime::from_parts_unchecked(local.hour(), local.minute(), local.second()),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        Weekday::from_days_from_sunday(self.local().weekday().num_days_from_sunday())
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        if civil.year().abs_diff(self.year) > MOST_YEARS {
            return Err(CronError::TimeSearchLimitExceeded);
        }
        let local = chrono::NaiveDate::from_ymd_opt(civil.year(), civil.month(), civil.day())
            .and_then(|date| date.and_hms_opt(civil.hour(), civil.minute(), civil.second()))
            .ok_or(CronError::InvalidDate)?
            .and_utc()
            .timestamp();
        // The offsets before and after whatever change is near; each is right where it leads to a time that has it.
        let mut found: Vec<Self> = Vec::with_capacity(2);
        for near in [local - FURTHEST, local + FURTHEST] {
            let offset = self.zone.offset(near).ok_or(CronError::InvalidTime)?;
            // Two changes may be nearer to each other than that: the offset at the guess counts too.
            let guess = local - i64::from(offset);
            let at_guess = self.zone.offset(guess).ok_or(CronError::InvalidTime)?;
            for seconds in [guess, local - i64::from(at_guess)] {
                let moment = self.at(seconds).ok_or(CronError::InvalidTime)?;
                let fits = seconds + i64::from(moment.offset) == local;
                if fits && found.iter().all(|known| known.seconds != seconds) {
                    found.push(moment);
                }
            }
        }
        found.sort_by_key(|moment| moment.seconds);
        let last = found.pop();
        Ok(match (found.into_iter().next(), last) {
            (Some(earlier), Some(later)) => Resolution::Ambiguous(earlier, later),
            (_, Some(only)) => Resolution::Single(only),
            (_, None) => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.at(self.seconds.checked_add(seconds)?)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.seconds.cmp(&other.seconds)
    }
}
