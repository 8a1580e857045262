//! What the service says about itself while it runs: log lines on stderr, for people or for machines, and metrics.

mod lines;
pub mod metrics;

pub use lines::{Filter, Format, start};
