//! Thread priorities: responding to requests precedes background work when the CPU is busy (ADR 20).
//!
//! Linux has a nice value per thread, which new threads inherit. `benches/RESULTS.md` has the measured effect on
//! submissions.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;
use tokio::sync::oneshot;

/// Background work that runs at a lower priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundWork {
    /// Copying the journal to sled, and verifying old data. Gets about a third of the CPU share of normal threads; with
    /// less, a busy machine would starve it and delay the shutdown of the log.
    LogMaintenance,
    /// Vendor calls, inputs, results and webhooks. The same share, because tasks have deadlines.
    OutboundCalls,
    /// Checking submitted pictures, videos and archives, which may take seconds. The same share: a client waits.
    Inspection,
    /// Rendering pictures and videos.
    Rendering,
    /// Snapshots of the read models.
    Snapshots,
}

impl BackgroundWork {
    /// Returns the nice value. Each step reduces the share of a contended CPU by about a fifth.
    const fn nice(self) -> i32 {
        match self {
            Self::LogMaintenance | Self::OutboundCalls | Self::Inspection => 5,
            Self::Rendering | Self::Snapshots => 10,
        }
    }
}

/// Lowers the priority of this thread and of threads that it starts later. Cannot be undone.
pub fn lower_priority(work: BackgroundWork) {
    let thread = Some(gettid());
    // The service may already have been started with a higher nice value.
    let raise_nice = |current: i32| setpriority_process(thread, work.nice().max(current));
    if let Err(error) = getpriority_process(thread).and_then(raise_nice) {
        tracing::debug!(%error, ?work, "thread priority not lowered");
    }
}

/// Threads of lower priority for CPU-bound work, besides those that respond to requests.
pub struct BackgroundThreads {
    pool: ThreadPool,
}

/// The work panicked.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("background work panicked")]
pub struct WorkPanicked;

impl BackgroundThreads {
    /// Starts threads.
    ///
    /// # Errors
    /// If the operating system refuses them.
    pub fn start(work: BackgroundWork, threads: usize) -> Result<Self, ThreadPoolBuildError> {
        let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("background-{index}"));
        let pool = builder.start_handler(move |_| lower_priority(work)).build()?;
        Ok(Self { pool })
    }

    /// Runs work to its end, even if the future is dropped.
    ///
    /// # Errors
    /// If the work panics.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, WorkPanicked> {
        let (sender, receiver) = oneshot::channel();
        let span = tracing::Span::current();
        self.pool.spawn(move || {
            // A panic would abort the process. Its message is printed by the panic hook.
            if let Ok(result) = catch_unwind(AssertUnwindSafe(|| span.in_scope(work))) {
                // The receiver is gone if the future was dropped.
                let _ = sender.send(result);
            }
        });
        receiver.await.map_err(|_| WorkPanicked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice_of_this_thread() -> i32 {
        getpriority_process(Some(gettid())).expect("a thread can read its own priority")
    }

    #[test]
    fn a_lowered_priority_is_inherited_and_other_threads_keep_theirs() {
        let before = nice_of_this_thread();
        let thread = std::thread::spawn(|| {
            lower_priority(BackgroundWork::Rendering);
            std::thread::spawn(nice_of_this_thread).join().expect("the thread does not panic")
        });
        assert_eq!(thread.join().expect("the thread does not panic"), BackgroundWork::Rendering.nice().max(before));
        assert_eq!(nice_of_this_thread(), before);
    }

    #[tokio::test]
    async fn background_threads_have_a_lower_priority_and_survive_a_panic() {
        let threads = BackgroundThreads::start(BackgroundWork::Inspection, 1).expect("the thread starts");
        assert!(threads.run(|| panic!("intended")).await.is_err());
        let nice = threads.run(nice_of_this_thread).await.expect("the thread does not panic");
        assert_eq!(nice, BackgroundWork::Inspection.nice().max(nice_of_this_thread()));
    }
}
