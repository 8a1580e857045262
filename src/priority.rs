//! Thread priorities: responding to requests precedes background work when the CPU is busy (ADR 20).
//!
//! Linux has a nice value per thread, which new threads inherit. `docs/performance.md` has the measured effect on
//! submissions.

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

/// Background work that runs at a lower priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Copying the journal to sled, and verifying old data. Gets about a third of the CPU share of normal threads; with
    /// less, a busy machine would starve it and delay the shutdown of the log.
    LogUpkeep,
    /// Vendor calls, inputs, results and webhooks. The same share, because tasks have deadlines.
    Outside,
    /// Rendering pictures and videos.
    Drawing,
    /// Snapshots of the read models.
    Snapshots,
}

impl Work {
    /// Returns the nice value. Each step reduces the share of a contended CPU by about a fifth.
    const fn nice(self) -> i32 {
        match self {
            Self::LogUpkeep | Self::Outside => 5,
            Self::Drawing | Self::Snapshots => 10,
        }
    }
}

/// Lowers the priority of this thread and of threads that it starts later. Cannot be undone.
pub fn yield_to_answers(work: Work) {
    let thread = Some(gettid());
    // The service may already have been started with a higher nice value.
    let nice = |given: i32| setpriority_process(thread, work.nice().max(given));
    if let Err(error) = getpriority_process(thread).and_then(nice) {
        tracing::debug!(%error, ?work, "done at normal priority");
    }
}

/// Lowers the priority of the rayon threads. Works only once per process, before the pool is used.
pub fn yield_when_drawing() {
    let pool = rayon::ThreadPoolBuilder::new().thread_name(|number| format!("drawing-{number}"));
    // Fails if the pool already exists.
    let _ = pool.start_handler(|_| yield_to_answers(Work::Drawing)).build_global();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice_of_this_thread() -> i32 {
        getpriority_process(Some(gettid())).expect("a thread may ask for its own")
    }

    #[test]
    fn a_thread_that_yields_hands_it_on_and_leaves_others_as_they_were() {
        let before = nice_of_this_thread();
        let started = std::thread::spawn(|| {
            yield_to_answers(Work::Drawing);
            std::thread::spawn(nice_of_this_thread).join().expect("it was asked")
        });
        assert_eq!(started.join().expect("it was started"), Work::Drawing.nice().max(before));
        assert_eq!(nice_of_this_thread(), before);
    }
}
