//! Telemetry: log lines, metrics and traces.

mod client;
mod lines;
pub mod metrics;
pub mod otlp;
mod panics;
pub mod trace;

pub use client::ClientAddress;
pub use lines::{Filter, Format, start};
