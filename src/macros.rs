//! How the types that cross the boundary are declared, so that Rust, JSON and TypeScript agree by construction.

/// Argument structs: camelCase in JSON, unknown fields refused.
macro_rules! arguments {
    ($($item:item)*) => {$(
        #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        #[cfg_attr(feature = "development", derive(ts_rs::TS), ts(optional_fields))]
        $item
    )*};
}

/// Records that the store answers: camelCase in JSON.
macro_rules! records {
    ($($item:item)*) => {$(
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        #[cfg_attr(feature = "development", derive(ts_rs::TS), ts(optional_fields))]
        $item
    )*};
}

/// Enums that are one word in JSON and in the database. An unknown word in a row makes the row unreadable, never a default.
macro_rules! words {
    ($($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)* })*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        #[cfg_attr(feature = "development", derive(ts_rs::TS))]
        pub enum $name { $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// The word as it is written in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                match value.as_str()? {
                    $($word => Ok(Self::$variant),)*
                    other => Err(rusqlite::types::FromSqlError::Other(
                        format!("{other:?} is no {}", stringify!($name)).into(),
                    )),
                }
            }
        }

        impl rusqlite::types::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.as_str().into())
            }
        }
    )*};
}
