//! Read models, folded from events in the order of the log.

pub mod budget;
pub mod claim;
pub mod delivery;
pub mod node;
pub mod page;
pub mod publisher;
pub mod read_models;
pub mod snapshot;
pub mod task;
pub mod token;
pub mod user;
pub mod version;

pub use read_models::{ReadError, ReadModels};
