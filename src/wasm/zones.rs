//! Time zones as the browser knows them: its database is there already, and kept up to date.

use std::cell::RefCell;
use std::collections::BTreeMap;

use js_sys::{Array, Function, JsString, Object, Reflect};
use wasm_bindgen::{JsCast, JsValue};

use crate::zones::{Zones, moment};

/// The time zones of `Intl.DateTimeFormat`.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct HostZones;

thread_local! {
    /// Making a formatter takes far longer than using it.
    static FORMATTERS: RefCell<BTreeMap<String, Formatter>> = const { RefCell::new(BTreeMap::new()) };
}

/// Formatters to keep: a store has few time zones, and names come from callers.
const MOST_FORMATTERS: usize = 64;

impl Zones for HostZones {
    fn offset(&self, zone: &str, at: i64) -> Option<i32> {
        FORMATTERS.with_borrow_mut(|formatters| {
            if !formatters.contains_key(zone) {
                if formatters.len() >= MOST_FORMATTERS {
                    formatters.clear();
                }
                formatters.insert(zone.to_owned(), Formatter::new(zone)?);
            }
            formatters.get(zone)?.offset(at)
        })
    }
}

struct Formatter {
    object: JsValue,
    format_to_parts: Function,
}

impl Formatter {
    fn new(zone: &str) -> Option<Self> {
        // Browsers take "+05:30" for a zone, the tz database has no such name.
        if !zone.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        let options = Object::new();
        for (name, value) in [
            ("timeZone", zone),
            ("hourCycle", "h23"),
            ("year", "numeric"),
            ("month", "numeric"),
            ("day", "numeric"),
            ("hour", "numeric"),
            ("minute", "numeric"),
            ("second", "numeric"),
        ] {
            Reflect::set(&options, &name.into(), &value.into()).ok()?;
        }
        let intl = Reflect::get(&js_sys::global(), &"Intl".into()).ok()?;
        let constructor: Function = Reflect::get(&intl, &"DateTimeFormat".into()).ok()?.dyn_into().ok()?;
        let arguments = Array::of2(&"en-US-u-ca-gregory-nu-latn".into(), &options);
        // Throws where the zone is unknown.
        let object = Reflect::construct(&constructor, &arguments).ok()?;
        let format_to_parts = Reflect::get(&object, &"formatToParts".into()).ok()?.dyn_into().ok()?;
        Some(Self { object, format_to_parts })
    }

    fn offset(&self, at: i64) -> Option<i32> {
        let at = moment(at);
        let parts: Array =
            self.format_to_parts.call1(&self.object, &(at.timestamp_millis() as f64).into()).ok()?.dyn_into().ok()?;
        let (mut year, mut month, mut day, mut hour, mut minute, mut second) = (0, 1, 1, 0, 0, 0);
        for part in parts.iter() {
            let field = match text(&part, "type")?.as_str() {
                "month" => &mut month,
                "day" => &mut day,
                "hour" => &mut hour,
                "minute" => &mut minute,
                "second" => &mut second,
                "year" => {
                    year = text(&part, "value")?.parse().ok()?;
                    continue;
                }
                _ => continue,
            };
            *field = text(&part, "value")?.parse::<u32>().ok()?;
        }
        let local = chrono::NaiveDate::from_ymd_opt(year, month, day)?.and_hms_opt(hour, minute, second)?.and_utc();
        i32::try_from(local.timestamp() - at.timestamp()).ok()
    }
}

fn text(part: &JsValue, name: &str) -> Option<String> {
    Reflect::get(part, &name.into()).ok()?.dyn_into::<JsString>().ok().map(String::from)
}
