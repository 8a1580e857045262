//! Event log: its traits, backends, stored schemas and verification.

pub mod codec;
pub mod envelope;
mod follower;
pub mod journal;
pub mod log;
pub mod memory_log;
pub mod open_error;
pub mod schema;
pub mod sled_log;
pub mod stream;
pub mod stream_versions;
mod tail;
pub mod verify;
mod version_cache;
