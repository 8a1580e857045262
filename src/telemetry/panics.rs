//! Panics as log lines: with their place, in the form of all other lines, and within the request in which they happened.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};

use tracing::Level;

/// From now on panics of this process are told as log lines; where no line of an error is written, as they were before.
pub(super) fn log() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| if tracing::enabled!(Level::ERROR) { tell(panic) } else { before(panic) }));
}

fn tell(panic: &PanicHookInfo<'_>) {
    let reason = panic.payload_as_str().unwrap_or("it gave no reason");
    let at = panic.location().map(ToString::to_string);
    // Only where RUST_BACKTRACE asks for one.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(reason, at, thread = std::thread::current().name(), backtrace, "panicked");
}
