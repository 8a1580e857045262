//! What the service says about itself while it runs: log lines on stderr, for people or for machines, metrics, and traces.

mod lines;
pub mod metrics;
pub mod otlp;
pub mod trace;

pub use lines::{Filter, Format, start};
