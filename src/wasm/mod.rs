//! The door to JavaScript: one engine is one open store.

mod pool;
mod zones;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::Deserialize;
use wasm_bindgen::prelude::*;

use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::json::{ToJson, text};
use crate::operation::{Answer, Call, Given, envelope};
use crate::requests::Request;
use crate::store::{Durability, Options, SCHEMA_VERSION, Store};

pub(crate) use zones::HostZones;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenOptions {
    name: String,
    storage: Storage,
    now_ms: Option<f64>,
}

words! {
    pub enum Storage {
        Opfs = "opfs",
        Memory = "memory",
    }
}

records! {
    pub struct Info {
        pub version: &'static str,
        pub schema_version: i64,
        pub sqlite_version: &'static str,
        pub storage: Storage,
        /// Where its files are in OPFS, from the root.
        pub directory: Option<String>,
    }
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
    directory: Option<String>,
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
        let directory = pool.as_ref().map(|pool| pool.directory().to_owned());
        Ok(Self { store, clock, storage: options.storage, directory, pool: Cell::new(pool) })
    }

    /// `{version, schemaVersion, sqliteVersion, storage, directory?}`.
    pub fn info(&self) -> JsValue {
        to_js(&Info {
            version: env!("CARGO_PKG_VERSION"),
            schema_version: SCHEMA_VERSION,
            sqlite_version: Store::sqlite_version(),
            storage: self.storage,
            directory: self.directory.clone(),
        })
    }

    /// Runs a batch of calls:
    ///
    /// - `calls`: flat, operation and arguments in turn
    /// - `bytes?`: what each has beside that, if any has
    /// - `nowMs?`: the time, where the system's clock does not count
    /// - `clients?`, `requests?`: who makes the calls, for those that must be applied once; three numbers a call: which of `clients`, or -1;
    ///   the number of the call; 1 where it was sent before
    /// - `acked?`: for each of `clients`, up to which number all its calls have been answered
    ///
    /// Answers `{answers, changes?}`: one JSON text for each call, `{"ok": …}` or `{"error": …}`, or `{text, bytes}` where there are bytes
    /// beside it; and where something was changed, the JSON text of `[{tenant, topics: {topic: [id, …] | null}}]`.
    pub fn run(&self, batch: &JsValue) -> Result<JsValue, JsValue> {
        self.clock.set(member(batch, "nowMs").as_f64());
        let texts = |name| -> Vec<String> { array(batch, name).iter().filter_map(|text| text.as_string()).collect() };
        let (texts, clients, bytes) = (texts("calls"), texts("clients"), array(batch, "bytes"));
        let numbers =
            |name| -> Vec<i64> { array(batch, name).iter().map(|number| number.as_f64().unwrap_or(0.0) as i64).collect() };
        let (requests, acked) = (numbers("requests"), numbers("acked"));
        let bytes: Vec<Option<Vec<u8>>> = (0..texts.len() / 2)
            .map(|index| bytes.get(index as u32).dyn_ref::<js_sys::Uint8Array>().map(js_sys::Uint8Array::to_vec))
            .collect();
        let request = |index: usize| {
            let &[client, number, again] = requests.get(index * 3..index * 3 + 3)? else { return None };
            let client = usize::try_from(client).ok()?;
            let acked = acked.get(client).copied().unwrap_or(0);
            Some(Request { client: clients.get(client)?, number, again: again != 0, acked })
        };
        let calls: Vec<Call<'_>> = texts
            .chunks_exact(2)
            .enumerate()
            .map(|(index, pair)| Call {
                operation: &pair[0],
                given: Given { arguments: &pair[1], bytes: bytes[index].as_deref() },
                request: request(index),
            })
            .collect();
        let outcome = self.store.call_many(&calls);
        let answers: js_sys::Array = outcome.answers.into_iter().map(|outcome| answer(envelope(outcome))).collect();
        let changes = if outcome.changes.is_empty() { JsValue::UNDEFINED } else { text(&outcome.changes).into() };
        Ok(object([("answers", answers.into()), ("changes", changes)]))
    }

    /// Lets go of what is kept of calls by clients that are not among these and made their last one over ten minutes ago.
    #[wasm_bindgen(js_name = forgetClients)]
    pub fn forget_clients(&self, alive: Vec<String>) -> Result<(), JsValue> {
        let alive: Vec<&str> = alive.iter().map(String::as_str).collect();
        self.store.forget_clients(&alive).map_err(|error| to_js(&error))
    }

    /// What commits survive from now on: `"relaxed"` or `"strict"`.
    #[wasm_bindgen(js_name = setDurability)]
    pub fn set_durability(&self, durability: JsValue) -> Result<(), JsValue> {
        let set = || {
            let durability: Durability = serde_wasm_bindgen::from_value(durability)
                .map_err(|error| Error::invalid(format!("durability: {error}")).with("path", "durability"))?;
            self.store.set_durability(durability)
        };
        set().map_err(|error| to_js(&error))
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
    object([("text", text), ("bytes", js_sys::Uint8Array::from(bytes.as_slice()).into())])
}

/// A member of an object; undefined where there is none.
fn member(object: &JsValue, name: &str) -> JsValue {
    js_sys::Reflect::get(object, &name.into()).unwrap_or(JsValue::UNDEFINED)
}

/// A member that is an array; empty where there is none.
fn array(object: &JsValue, name: &str) -> js_sys::Array {
    member(object, name).dyn_into().unwrap_or_default()
}

fn object<const N: usize>(members: [(&str, JsValue); N]) -> JsValue {
    let object = js_sys::Object::new();
    for (name, value) in members.into_iter().filter(|(_, value)| !value.is_undefined()) {
        // Setting a member of a plain object does not fail.
        let _ = js_sys::Reflect::set(&object, &name.into(), &value);
    }
    object.into()
}

/// A record as a plain object.
fn to_js(record: &dyn ToJson) -> JsValue {
    // What was written as JSON can be read as JSON.
    js_sys::JSON::parse(&text(record)).unwrap_or_default()
}
