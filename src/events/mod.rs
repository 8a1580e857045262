//! Event log: its traits, backends, stored schemas and verification.

pub mod codec;
pub mod envelope;
pub mod guard;
pub mod journal;
pub mod log;
pub mod memory_log;
pub mod open_error;
pub mod schema;
pub mod shared;
pub mod sled_log;
pub mod stream;
pub mod stream_counts;
pub mod verify;
