//! A log that several nodes share: an external engine orders opaque groups, and every node applies them to its own log
//! by the same rules (ADR 35).

pub mod admission;
pub mod applier;
pub mod checkpoint;
pub mod engine;
pub mod engine_check;
mod engine_events;
pub mod format;
pub mod generation;
pub mod memory_engine;
pub mod nats;
pub mod postgres;
mod progress;
pub mod shared_log;
mod stamps;
