//! Telemetry: log lines, metrics and traces.

mod client_address;
pub mod history;
mod latency;
mod logging;
pub mod metrics;
pub mod otlp;
mod panic_hook;
pub mod trace;

pub use client_address::ClientAddressDetail;
pub use logging::{LogFilter, LogFormat, init_logging};
