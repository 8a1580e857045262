//! A log that several nodes share: an external engine orders opaque groups, and every node applies them to its own log
//! by the same rules (ADR 35).
//!
//! No setting leads here yet: the service always uses its embedded log. The commands, the reload of aggregates and the
//! probes that a cluster needs are missing.

pub mod admission;
mod applier;
mod checkpoint;
pub mod engine;
pub mod format;
pub mod memory_engine;
mod progress;
pub mod shared_log;
