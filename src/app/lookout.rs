//! Logs readiness changes: not ready, not ready for another reason, ready again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::StartError;
use crate::http::server::{Hindered, Readiness, Unready};

/// Interval of the checks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Thread that checks readiness. A separate thread, because a writing thread cannot notice that the disk hangs.
pub(super) struct Lookout {
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Lookout {
    /// Starts the checks.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(readiness: &Readiness) -> Result<Self, StartError> {
        let readiness = Arc::clone(readiness);
        let ending = Arc::new(AtomicBool::new(false));
        let is_ending = Arc::clone(&ending);
        let watch = move || {
            let mut told = Told::default();
            while !is_ending.load(Ordering::Acquire) {
                if let Some(news) = told.news(readiness()) {
                    news.tell();
                }
                thread::park_timeout(LOOK_EVERY);
            }
        };

        let thread = thread::Builder::new().name("lookout".to_owned()).spawn(watch);
        let thread = thread.map_err(|error| StartError::part("the thread that looks after the service", &error))?;
        Ok(Self { ending, thread })
    }

    /// Stops the checks. Must be called before the checked parts stop.
    pub fn stop(self) {
        self.ending.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that looks after the service panicked");
        }
    }
}

/// Last logged reason for not being ready; `None` while ready.
#[derive(Default)]
struct Told(Option<Hindered>);

/// Change to log.
#[derive(Debug, PartialEq, Eq)]
enum News {
    NotReady { reason: String },
    ReadyAgain,
}

impl Told {
    fn news(&mut self, now: Result<(), Unready>) -> Option<News> {
        match now {
            Ok(()) => self.0.take().map(|_| News::ReadyAgain),
            // `Space` logs a full disk itself.
            Err(Unready { by: Hindered::Full, .. }) => None,
            Err(Unready { by, .. }) if self.0 == Some(by) => None,
            Err(Unready { by, reason, .. }) => {
                self.0 = Some(by);
                Some(News::NotReady { reason })
            }
        }
    }
}

impl News {
    fn tell(&self) {
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
    fn each_reason_is_told_when_it_begins_and_that_none_is_left() {
        let unready = |by, reason: &str| Err(Unready { by, told: String::new(), reason: reason.to_owned() });
        let not_ready = |reason: &str| Some(News::NotReady { reason: reason.to_owned() });
        let mut told = Told::default();

        for (now, news) in [
            (Ok(()), None),
            (unready(Hindered::Hanging, "the disk hangs for 6 s"), not_ready("the disk hangs for 6 s")),
            (unready(Hindered::Hanging, "the disk hangs for 7 s"), None),
            (unready(Hindered::Full, "no room"), None),
            (unready(Hindered::ReadOnly, "a sync failed"), not_ready("a sync failed")),
            (Ok(()), Some(News::ReadyAgain)),
            (Ok(()), None),
            (unready(Hindered::Full, "no room"), None),
            (Ok(()), None),
        ] {
            assert_eq!(told.news(now), news);
        }
    }
}
