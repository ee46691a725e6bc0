//! The door to JavaScript: one engine is one open store.

mod pool;
mod zones;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

use crate::clock::{Clock, SystemClock};
use crate::error::{Error, ErrorCode, Result};
use crate::operation::{Answer, Call, Given, envelope};
use crate::store::{Options, SCHEMA_VERSION, Store};

pub(crate) use zones::HostZones;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenOptions {
    name: String,
    storage: Storage,
    now_ms: Option<f64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Storage {
    Opfs,
    Memory,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    version: &'static str,
    schema_version: i64,
    sqlite_version: &'static str,
    storage: Storage,
}

/// The system's clock, or the time that a test gives with its calls.
#[derive(Default)]
struct HostClock {
    /// i64::MIN while the system's clock counts.
    given: AtomicI64,
}

impl HostClock {
    fn set(&self, now_ms: Option<f64>) {
        self.given.store(now_ms.map_or(i64::MIN, |ms| ms as i64), Ordering::Relaxed);
    }
}

impl Clock for HostClock {
    fn now(&self) -> i64 {
        match self.given.load(Ordering::Relaxed) {
            i64::MIN => SystemClock.now(),
            given => given,
        }
    }
}

/// An open store.
#[wasm_bindgen]
pub struct Engine {
    store: Store,
    clock: Arc<HostClock>,
    storage: Storage,
    pool: Cell<Option<pool::Pool>>,
}

#[wasm_bindgen]
impl Engine {
    /// Opens a store: `{name, storage: "opfs" | "memory", nowMs?}`. OPFS only in a dedicated worker. Rejects with
    /// `{code, message, details?, retryable}`.
    pub async fn open(options: JsValue) -> Result<Engine, JsValue> {
        Self::open_store(options).await.map_err(|error| to_js(&error))
    }

    async fn open_store(options: JsValue) -> Result<Engine> {
        let options: OpenOptions =
            serde_wasm_bindgen::from_value(options).map_err(|error| Error::invalid(format!("open: {error}")))?;
        let clock = Arc::new(HostClock::default());
        clock.set(options.now_ms);
        let store_options = Options { clock: clock.clone(), ..Options::default() };
        let (store, pool) = match options.storage {
            Storage::Memory => (Store::in_memory_with(store_options)?, None),
            Storage::Opfs => {
                let pool = pool::Pool::open(&options.name).await?;
                match Store::open_vfs(pool::DATABASE, pool.vfs(), store_options) {
                    Ok(store) => (store, Some(pool)),
                    Err(error) => {
                        pool.release();
                        return Err(error);
                    }
                }
            }
        };
        Ok(Self { store, clock, storage: options.storage, pool: Cell::new(pool) })
    }

    /// `{version, schemaVersion, sqliteVersion, storage}`.
    pub fn info(&self) -> JsValue {
        to_js(&Info {
            version: env!("CARGO_PKG_VERSION"),
            schema_version: SCHEMA_VERSION,
            sqlite_version: Store::sqlite_version(),
            storage: self.storage,
        })
    }

    /// Runs calls, given flat as operation and arguments in turn, and with what bytes each has beside that, if any has. Answers one JSON text
    /// for each, `{"ok": …}` or `{"error": …}`, or `{text, bytes}` where there are bytes beside it.
    pub fn run(&self, calls: Vec<String>, bytes: Option<js_sys::Array>, now_ms: Option<f64>) -> js_sys::Array {
        self.clock.set(now_ms);
        let bytes = |index: usize| -> Option<Vec<u8>> {
            let given = bytes.as_ref()?.get(index as u32);
            given.dyn_ref::<js_sys::Uint8Array>().map(js_sys::Uint8Array::to_vec)
        };
        let calls: Vec<(&[String], Option<Vec<u8>>)> =
            calls.chunks_exact(2).enumerate().map(|(index, pair)| (pair, bytes(index))).collect();
        let calls: Vec<Call<'_>> = calls
            .iter()
            .map(|(pair, bytes)| Call { operation: &pair[0], given: Given { arguments: &pair[1], bytes: bytes.as_deref() } })
            .collect();
        self.store.call_many(&calls).into_iter().map(|outcome| answer(envelope(outcome))).collect()
    }

    /// Closes the database and gives back the OPFS handles. Closing twice is fine.
    pub fn close(&self) -> Result<(), JsValue> {
        let closed = self.store.close();
        if let Some(pool) = self.pool.take() {
            pool.release();
        }
        closed.map_err(|error| to_js(&error))
    }
}

fn answer(Answer { text, bytes }: Answer) -> JsValue {
    let text = JsValue::from(text);
    let Some(bytes) = bytes else { return text };
    let both = js_sys::Object::new();
    // Setting a member of a plain object does not fail.
    let _ = js_sys::Reflect::set(&both, &"text".into(), &text);
    let _ = js_sys::Reflect::set(&both, &"bytes".into(), &js_sys::Uint8Array::from(bytes.as_slice()));
    both.into()
}

/// A plain object, not a Map, whatever is nested in it.
fn to_js(value: &impl Serialize) -> JsValue {
    value
        .serialize(&serde_wasm_bindgen::Serializer::json_compatible())
        .unwrap_or_else(|error| JsValue::from_str(&format!("{}: {error}", ErrorCode::Internal.as_str())))
}
