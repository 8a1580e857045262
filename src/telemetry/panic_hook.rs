//! Panics as log lines, with their location, in the log's format, and within the span of their request.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};

use tracing::Level;

/// Logs panics of this process. If error lines are filtered out, the previous hook runs.
pub(super) fn install_hook() {
    let previous_hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if tracing::enabled!(Level::ERROR) {
            log_panic(panic);
        } else {
            previous_hook(panic);
        }
    }));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let reason = panic.payload_as_str().unwrap_or("no reason given");
    let at = panic.location().map(ToString::to_string);
    // Captures only if `RUST_BACKTRACE` asks for it.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(reason, at, thread = std::thread::current().name(), backtrace, "panicked");
}
