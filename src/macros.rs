//! How the types that cross the boundary are declared, so that Rust, JSON and TypeScript agree by construction.
//!
//! Members are camelCase in JSON. What is written behind a member's type says what else is to know of it:
//! - `as "name"`: its name in JSON
//! - `as skip`: JSON does not have it
//! - `as required`: an argument that may be null, and may not be left out
//! - `as optional`: an argument that may be any JSON but null, which counts as left out
//! - `as null`: where there is none, a record has null and does not leave it out
//! - `as list`: a record leaves it out where it is empty
//! - `as members`: its members are the record's own

/// A name of Rust's as it is written in JSON, made when the crate is compiled.
macro_rules! json_name {
    ($field:ident) => {{
        const SNAKE: &str = stringify!($field);
        const BYTES: [u8; $crate::json::camel_len(SNAKE)] = $crate::json::camel(SNAKE);
        const CAMEL: &str = match std::str::from_utf8(&BYTES) {
            Ok(name) => name,
            Err(_) => SNAKE,
        };
        CAMEL
    }};
    ($field:ident, skip) => {
        ""
    };
    ($field:ident, $name:literal) => {
        $name
    };
    ($field:ident, $how:ident) => {
        json_name!($field)
    };
}

macro_rules! read_member {
    ($members:ident, $into:expr) => {
        $members.read(&mut $into)?
    };
    ($members:ident, $into:expr, skip) => {
        let _ = $members.next();
    };
    ($members:ident, $into:expr, optional) => {
        $members.read_unless_null(&mut $into)?
    };
    ($members:ident, $into:expr, required) => {
        $members.read_required(&mut $into)?
    };
    ($members:ident, $into:expr, $name:literal) => {
        $members.read(&mut $into)?
    };
}

macro_rules! write_member {
    ($object:ident, $from:ident.$field:ident) => {
        $object.member(json_name!($field), &$from.$field)
    };
    ($object:ident, $from:ident.$field:ident, skip) => {};
    ($object:ident, $from:ident.$field:ident, members) => {
        $crate::json::Record::members(&$from.$field, $object)
    };
    ($object:ident, $from:ident.$field:ident, list) => {
        if !$from.$field.is_empty() {
            $object.member(json_name!($field), &$from.$field);
        }
    };
    ($object:ident, $from:ident.$field:ident, null) => {
        $object.member_or_null(json_name!($field), &$from.$field)
    };
    ($object:ident, $from:ident.$field:ident, optional) => {
        $object.member(json_name!($field), &$from.$field)
    };
    ($object:ident, $from:ident.$field:ident, required) => {
        $object.member_or_null(json_name!($field), &$from.$field)
    };
    ($object:ident, $from:ident.$field:ident, $name:literal) => {
        $object.member($name, &$from.$field)
    };
}

/// Writing as JSON, for a type whose members are known.
macro_rules! written {
    ($type:ident $(<$of:ident: $bound:path>)? { $($field:ident $(as $how:tt)?,)* }) => {
        impl $(<$of: $bound>)? $crate::json::Record for $type $(<$of>)? {
            #[allow(unused_variables, reason = "some have no members")]
            fn members(&self, object: &mut $crate::json::Object<'_>) {
                $(write_member!(object, self.$field $(, $how)?);)*
            }
        }

        impl $(<$of: $bound>)? $crate::json::ToJson for $type $(<$of>)? {
            fn to_json(&self, out: &mut Vec<u8>) {
                $crate::json::object(self, out);
            }
        }

        impl $(<$of: $bound>)? serde::Serialize for $type $(<$of>)? {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::json::serialize(self, serializer)
            }
        }
    };
}

/// Argument structs: unknown fields refused, options left out or null where they are none.
macro_rules! arguments {
    ($($(#[$meta:meta])* $pub:vis struct $name:ident { $($(#[$field_meta:meta])* $field_pub:vis $field:ident: $type:ty $(as $how:tt)?,)* })*) => {$(
        #[derive(Debug, Clone, Default)]
        #[cfg_attr(feature = "development", derive(ts_rs::TS), ts(rename_all = "camelCase", optional_fields))]
        $(#[$meta])*
        $pub struct $name { $($(#[$field_meta])* $field_pub $field: $type,)* }

        written! { $name { $($field $(as $how)?,)* } }

        impl $crate::json::FromJson for $name {
            #[allow(unused_mut, unused_variables, reason = "some have no members")]
            fn from_json(text: &str) -> Result<Self, Box<$crate::json::Problem>> {
                let mut members = $crate::json::Members::of(text, &[$(json_name!($field $(, $how)?)),*])?;
                let mut given = Self::default();
                $(read_member!(members, given.$field $(, $how)?);)*
                Ok(given)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::json::deserialize(deserializer)
            }
        }
    )*};
}

/// Records that the store answers.
macro_rules! records {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty $(as $how:tt)?,)* })*) => {$(
        #[derive(Debug, Clone, PartialEq)]
        #[cfg_attr(feature = "development", derive(ts_rs::TS), ts(rename_all = "camelCase", optional_fields))]
        $(#[$meta])*
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        written! { $name { $($field $(as $how)?,)* } }
    )*};
}

/// Records that the store reads back, too.
macro_rules! kept {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty $(as $how:tt)?,)* })*) => {
        records! { $($(#[$meta])* pub struct $name { $($(#[$field_meta])* pub $field: $type $(as $how)?,)* })* }

        $(
            impl $crate::json::FromJson for $name {
                fn from_json(text: &str) -> Result<Self, Box<$crate::json::Problem>> {
                    let mut members = $crate::json::Members::of(text, &[$(json_name!($field $(, $how)?)),*])?;
                    Ok(Self { $($field: members.take()?,)* })
                }
            }
        )*
    };
}

/// Enums that are one word in JSON and in the database. An unknown word in a row makes the row unreadable, never a default.
macro_rules! words {
    ($($(#[$meta:meta])* $pub:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)* })*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $(#[$meta])*
        #[cfg_attr(feature = "development", derive(ts_rs::TS))]
        $pub enum $name { $($(#[$variant_meta])* #[cfg_attr(feature = "development", ts(rename = $word))] $variant,)* }

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant),*];
            const WORDS: &[&str] = &[$($word),*];

            /// The word as it is written in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            #[allow(dead_code, reason = "not every word is looked for")]
            pub(crate) fn of(word: &str) -> Option<Self> {
                Self::WORDS.iter().position(|known| *known == word).map(|at| Self::ALL[at])
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl $crate::json::FromJson for $name {
            fn from_json(text: &str) -> Result<Self, Box<$crate::json::Problem>> {
                $crate::json::word(text, Self::WORDS).map(|at| Self::ALL[at])
            }
        }

        impl $crate::json::ToJson for $name {
            fn to_json(&self, out: &mut Vec<u8>) {
                $crate::json::ToJson::to_json(&self.as_str(), out);
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::json::deserialize_word(deserializer, Self::WORDS).map(|at| Self::ALL[at])
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                let word = value.as_str()?;
                Self::of(word).ok_or_else(|| $crate::json::no_such_word(word, stringify!($name)))
            }
        }

        impl rusqlite::types::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }
    )*};
}
