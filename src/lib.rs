//! A durable store for AI-agent and workflow runs: executions and their event logs, a leased work queue, and a registry of workers,
//! over SQLite. The same crate runs natively and, compiled to wasm32, in the browser on OPFS.
//!
//! ```
//! use runkeep::{Store, queue::{ClaimItems, CompleteItem, EnqueueItem}};
//! # fn main() -> runkeep::Result<()> {
//! let store = Store::in_memory()?;
//! store.queue().enqueue(EnqueueItem { queue: "mail".parse()?, ..Default::default() })?;
//! let claimed = store.queue().claim(ClaimItems {
//!     worker_id: "w1".parse()?,
//!     queues: vec!["mail".parse()?],
//!     ..Default::default()
//! })?;
//! let item = &claimed[0];
//! store.queue().complete(CompleteItem { id: item.id.parse()?, fence: item.fence, ..Default::default() })?;
//! # Ok(())
//! # }
//! ```
// A panic traps the whole wasm module: answer an Error instead.
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[macro_use]
mod macros;

pub mod approvals;
#[cfg(feature = "development")]
pub mod bindings;
mod changes;
mod clock;
pub mod cron;
#[cfg(feature = "development")]
pub mod effort;
mod error;
pub mod events;
pub mod executions;
pub mod export;
mod fold;
mod folds;
mod ids;
pub mod imports;
mod json;
mod operation;
mod page;
mod parameters;
pub mod queue;
mod requests;
pub mod retention;
pub mod snapshots;
mod statements;
mod store;
mod sweep;
pub mod tenants;
pub mod threads;
pub mod timers;
pub mod tokens;
#[cfg(target_arch = "wasm32")]
mod wasm;
pub mod workers;
pub mod workflows;
mod zones;

pub use changes::{Change, Topics};
pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorCode, Result};
pub use executions::Created;
pub use fold::{Budget, Materialized, PendingApproval};
pub use ids::Name;
pub use json::Json;
pub use operation::{
    Answer, Approvals, Blobs, Call, Crons, DeadLetters, Events, Executions, Given, GivesBytes, Handler, Imports, Inbox, Items,
    Leases, OPERATIONS, Operation, Outcome, Queue, Queues, Retention, Shape, Snapshots, TakesBytes, Tenants, ThreadEvents,
    Threads, Timers, Tokens, Topic, Turns, Upkeep, Usage, Workers, Workflows, envelope,
};
pub use page::{Damaged, Order, Page, Recent};
pub use requests::Request;
pub use store::{Durability, Options, SCHEMA_VERSION, Store, Tx};
pub use sweep::{Problem, SweepError, SweepReport, SweepRequest};
#[cfg(not(target_arch = "wasm32"))]
pub use zones::TzDatabase;
pub use zones::Zones;
