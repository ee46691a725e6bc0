//! Threads: the chat side. A thread has turns, a turn has items; beside them the prompt inbox, thread events, usage and blobs.

pub mod blobs;
mod fork;
pub mod inbox;
pub mod items;
mod prices;
mod search;
mod text;
pub mod thread_events;
pub mod turns;
pub mod usage;
