//! Reading arguments from JSON text. What serde derives for a type is a copy of the parser for each; of these there are over a hundred,
//! and they were a quarter of the WebAssembly. Here the parser finds the members of an object, once for all, and each member reads itself.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Json, path_at};

/// Why text is not what was expected, and where in it.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Like `items[3].cost`; empty for the whole.
    pub(crate) path: String,
    pub(crate) said: String,
}

impl Problem {
    pub(crate) fn new(said: impl Into<String>) -> Box<Self> {
        Box::new(Self { path: String::new(), said: said.into() })
    }

    /// The same problem, seen from around the member or element.
    fn within(mut self: Box<Self>, place: &str) -> Box<Self> {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{place}{dot}{}", self.path);
        self
    }

    /// What serde_json says of `text`.
    fn of(text: &str, error: &serde_json::Error) -> Box<Self> {
        let said = error.to_string();
        let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(before, _)| before);
        let path = if error.is_data() { String::new() } else { path_at(text, offset(text, error.line(), error.column())) };
        Box::new(Self { path, said: in_words_of_json(said) })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.path, self.said)
    }
}

type Read<T> = Result<T, Box<Problem>>;

/// What can be read from JSON text.
pub(crate) trait FromJson: Sized {
    fn from_json(text: &str) -> Read<Self>;

    /// The value of a member that may be left out or null.
    fn optional(text: &str) -> Read<Option<Self>> {
        if text == "null" { Ok(None) } else { Self::from_json(text).map(Some) }
    }

    /// What a member is that was left out, if it may be.
    fn left_out() -> Option<Self> {
        None
    }
}

/// The members of an object by their names, to be read in the order in which those were given.
pub(crate) struct Members<'a> {
    names: &'static [&'static str],
    values: Vec<Option<&'a str>>,
    next: usize,
}

impl<'a> Members<'a> {
    /// Refuses members of other names, and two of one name. A name that is empty stands for a member that JSON does not have.
    pub(crate) fn of(text: &'a str, names: &'static [&'static str]) -> Read<Self> {
        let Pairs(found) = from_str(text)?;
        let mut values = vec![None; names.len()];
        for (name, value) in found {
            let Some(at) = names.iter().position(|known| *known == name && !known.is_empty()) else {
                let named: Vec<String> = names.iter().filter(|name| !name.is_empty()).map(|name| format!("`{name}`")).collect();
                let expected = match named.as_slice() {
                    [] => "there are no fields".to_owned(),
                    [one] => format!("expected {one}"),
                    [one, other] => format!("expected {one} or {other}"),
                    all => format!("expected one of {}", all.join(", ")),
                };
                return Err(Problem::new(format!("unknown field `{name}`, {expected}")).within(&name));
            };
            if values[at].replace(value.get()).is_some() {
                return Err(Problem::new(format!("duplicate field `{name}`")).within(&name));
            }
        }
        Ok(Self { names, values, next: 0 })
    }

    /// The text of the next member.
    pub(crate) fn next(&mut self) -> (&'static str, Option<&'a str>) {
        let at = self.next;
        self.next += 1;
        (self.names.get(at).copied().unwrap_or_default(), self.values.get(at).copied().flatten())
    }

    /// The next member.
    #[inline(never)]
    pub(crate) fn take<T: FromJson>(&mut self) -> Read<T> {
        let (name, text) = self.next();
        match text {
            Some(text) => T::from_json(text).map_err(|problem| problem.within(name)),
            None => T::left_out().ok_or_else(|| missing(name)),
        }
    }

    /// Reads the next member.
    pub(crate) fn read<T: FromJson>(&mut self, into: &mut T) -> Read<()> {
        *into = self.take()?;
        Ok(())
    }

    /// Reads the next member, of which null counts as left out.
    pub(crate) fn read_unless_null<T: FromJson>(&mut self, into: &mut Option<T>) -> Read<()> {
        let (name, text) = self.next();
        let text = text.filter(|text| *text != "null");
        *into = text.map(T::from_json).transpose().map_err(|problem| problem.within(name))?;
        Ok(())
    }

    /// Reads the next member, which may be null, and may not be left out.
    pub(crate) fn read_required<T: FromJson>(&mut self, into: &mut Option<T>) -> Read<()> {
        let (name, text) = self.next();
        *into = T::optional(text.ok_or_else(|| missing(name))?).map_err(|problem| problem.within(name))?;
        Ok(())
    }
}

fn missing(name: &str) -> Box<Problem> {
    Problem::new("is missing").within(name)
}

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(text: &str) -> Read<Self> {
        T::optional(text)
    }

    /// Null in an update clears; left out, everything stays as it is.
    fn optional(text: &str) -> Read<Option<Self>> {
        if text == "null" { Ok(Some(None)) } else { T::from_json(text).map(|value| Some(Some(value))) }
    }

    fn left_out() -> Option<Self> {
        Some(None)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(text: &str) -> Read<Self> {
        let mut all = Vec::new();
        for (index, element) in elements(text)?.into_iter().enumerate() {
            all.push(T::from_json(element.get()).map_err(|problem| problem.within(&format!("[{index}]")))?);
        }
        Ok(all)
    }
}

fn elements(text: &str) -> Read<Vec<&RawValue>> {
    from_str(text)
}

impl FromJson for Json {
    fn from_json(text: &str) -> Read<Self> {
        let whole: Box<RawValue> = from_str(text)?;
        Ok(Self(whole))
    }

    /// Null is a document too.
    fn optional(text: &str) -> Read<Option<Self>> {
        Self::from_json(text).map(Some)
    }
}

macro_rules! from_json_by_serde {
    ($($type:ty)*) => {$(
        impl FromJson for $type {
            fn from_json(text: &str) -> Read<Self> {
                from_str(text)
            }
        }
    )*};
}

from_json_by_serde! { bool i64 usize [i64; 4] f64 String crate::Name crate::threads::items::Piece }

/// Reads one of `words`; answers which.
pub(crate) fn word(text: &str, words: &[&str]) -> Read<usize> {
    let said: String = from_str(text)?;
    which(&said, words).map_err(Problem::new)
}

fn which(said: &str, words: &[&str]) -> Result<usize, String> {
    words.iter().position(|word| *word == said).ok_or_else(|| {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        format!("unknown value `{said}`, expected one of {}", words.join(", "))
    })
}

/// [`word`] for whatever serde reads.
pub(crate) fn deserialize_word<'de, D: Deserializer<'de>>(deserializer: D, words: &[&str]) -> Result<usize, D::Error> {
    let said: String = serde::Deserialize::deserialize(deserializer)?;
    which(&said, words).map_err(serde::de::Error::custom)
}

fn from_str<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Read<T> {
    serde_json::from_str(text).map_err(|error| Problem::of(text, &error))
}

/// For types that are read as here from whatever serde reads: `serde::Deserialize` by way of JSON text.
pub(crate) fn by_text<'de, T: FromJson, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text: Box<RawValue> = serde::Deserialize::deserialize(deserializer)?;
    T::from_json(text.get()).map_err(serde::de::Error::custom)
}

/// The members of a JSON object, in order, those of one name too.
#[derive(Default)]
pub(crate) struct Pairs<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Found;

        impl<'de> Visitor<'de> for Found {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Found)
    }
}

#[derive(serde::Deserialize)]
pub(crate) struct Key<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    before + column
}

/// serde speaks of Rust types; callers know JSON.
fn in_words_of_json(said: &str) -> String {
    let mut said = said.to_owned();
    for (rust, json) in [
        ("expected i64", "expected an integer"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected an array"),
        ("expected a borrowed string", "expected a string"),
        ("floating point `", "number `"),
        ("a map", "an object"),
        ("invalid type: map", "invalid type: object"),
        ("invalid type: sequence", "invalid type: array"),
        ("expected value", "this is not a value that is allowed here"),
    ] {
        said = said.replace(rust, json);
    }
    said
}
