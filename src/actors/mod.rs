//! The write side: aggregates decide, the writer makes events durable, and reactors perform external effects.
//!
//! ```text
//! Dispatch ──▶ Router ──▶ AggregateActor ──▶ Writer ──▶ log, then Projector ──▶ read models ──▶ Reactor
//!    ▲        (one live actor per stream)   (on their arbiter)                            (poller, dispatcher, usage)
//!    └──────────────────────────────────── commands ─────────────────────────────────────────────┘
//! ```

pub mod aggregate;
pub mod callback_dispatcher;
mod concurrency_limit;
pub mod cross_stream_rules;
pub mod error;
pub mod input_fetcher;
pub mod music_vendor;
pub mod poller;
pub mod projector;
pub mod reactor;
pub mod retention;
pub mod router;
pub mod system;
pub mod task_progress;
pub mod usage_counters;
pub mod vendor_cancellations;
pub mod vendor_webhooks;
pub mod writer;

pub use crate::events::envelope::{Actor, CommandClaim, CommandContext};
