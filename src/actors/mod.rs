//! The write side: aggregates decide, the writer makes events durable, and reactors perform external effects.
//!
//! ```text
//! Dispatch ──▶ Router ──▶ AggregateActor ──▶ Writer ──▶ log, then Projector ──▶ read models ──▶ Reactor
//!    ▲        (one live actor a stream)     (on their arbiter)                              (poller, dispatcher, tally)
//!    └──────────────────────────────────── commands ─────────────────────────────────────────────┘
//! ```

pub mod across;
pub mod aggregate;
pub mod dispatcher;
pub mod error;
pub mod hints;
pub mod inputs;
pub mod live;
pub mod musician;
pub mod poller;
pub mod projector;
pub mod reactor;
pub mod router;
mod shares;
pub mod sweeper;
pub mod system;
pub mod tally;
pub mod writer;

pub use crate::events::envelope::{Actor, CommandContext};
