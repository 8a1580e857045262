//! Who acts when: aggregates that decide, the writer that makes it durable, and reactors that carry it on.

pub mod error;

pub use crate::events::envelope::{Actor, Circumstances};
