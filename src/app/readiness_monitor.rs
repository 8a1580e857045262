//! Logs readiness changes: not ready, not ready for another reason, ready again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::StartError;
use crate::http::server::{Readiness, ReadinessFailure, ReadinessFailureKind};

/// Interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Thread that checks readiness. A separate thread, because a writing thread cannot notice that the disk hangs.
pub(super) struct ReadinessMonitor {
    stop_requested: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl ReadinessMonitor {
    /// Starts the checks.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(readiness: &Readiness) -> Result<Self, StartError> {
        let readiness = Arc::clone(readiness);
        let stop_requested = Arc::new(AtomicBool::new(false));
        let stop_flag = Arc::clone(&stop_requested);
        let watch = move || {
            let mut last_reported = LastReported::default();
            while !stop_flag.load(Ordering::Acquire) {
                if let Some(transition) = last_reported.update(readiness()) {
                    transition.log();
                }
                thread::park_timeout(CHECK_INTERVAL);
            }
        };

        let thread = thread::Builder::new().name("readiness".to_owned()).spawn(watch);
        let thread = thread.map_err(|error| StartError::part("the readiness monitor", &error))?;
        Ok(Self { stop_requested, thread })
    }

    /// Stops the checks. Must be called before the checked parts stop.
    pub fn stop(self) {
        self.stop_requested.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("readiness monitor panicked");
        }
    }
}

/// Last logged reason for not being ready; `None` while ready.
#[derive(Default)]
struct LastReported(Option<ReadinessFailureKind>);

/// Change to log.
#[derive(Debug, PartialEq, Eq)]
enum ReadinessTransition {
    NotReady { reason: String },
    ReadyAgain,
}

impl LastReported {
    fn update(&mut self, readiness: Result<(), ReadinessFailure>) -> Option<ReadinessTransition> {
        match readiness {
            Ok(()) => self.0.take().map(|_| ReadinessTransition::ReadyAgain),
            // `DiskSpace` logs a full disk itself.
            Err(ReadinessFailure { kind: ReadinessFailureKind::Full, .. }) => None,
            Err(ReadinessFailure { kind, .. }) if self.0 == Some(kind) => None,
            Err(ReadinessFailure { kind, reason, .. }) => {
                self.0 = Some(kind);
                Some(ReadinessTransition::NotReady { reason })
            }
        }
    }
}

impl ReadinessTransition {
    fn log(&self) {
        match self {
            Self::NotReady { reason } => tracing::warn!(reason, "not ready"),
            Self::ReadyAgain => tracing::info!("ready again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_new_reason_and_the_recovery_are_logged_once() {
        let unready = |kind, reason: &str| {
            Err(ReadinessFailure { kind, public_message: String::new(), reason: reason.to_owned() })
        };
        let not_ready = |reason: &str| Some(ReadinessTransition::NotReady { reason: reason.to_owned() });
        let mut last_reported = LastReported::default();

        for (readiness, expected) in [
            (Ok(()), None),
            (unready(ReadinessFailureKind::Hanging, "the disk hangs for 6 s"), not_ready("the disk hangs for 6 s")),
            (unready(ReadinessFailureKind::Hanging, "the disk hangs for 7 s"), None),
            (unready(ReadinessFailureKind::Full, "no room"), None),
            (unready(ReadinessFailureKind::ReadOnly, "a sync failed"), not_ready("a sync failed")),
            (Ok(()), Some(ReadinessTransition::ReadyAgain)),
            (Ok(()), None),
            (unready(ReadinessFailureKind::Full, "no room"), None),
            (Ok(()), None),
        ] {
            assert_eq!(last_reported.update(readiness), expected);
        }
    }
}
