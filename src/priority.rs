//! Who goes first when the processor is short: answering before everything that nobody waits for at an open connection.
//!
//! Linux keeps the nice value per thread, and threads inherit it from the one that starts them. What it is worth for
//! submissions was measured (`docs/performance.md`).

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

/// What work gives way to answering, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Filling sled, and checking what was written long ago. A third of what others get: lower, and a busy machine starves it,
    /// and with it whoever waits for the log to close.
    LogUpkeep,
    /// Vendors, inputs, results and callbacks: a third as well, for a task has a deadline.
    Outside,
    /// Drawing pictures and films, the fewest of which anybody waits for by the second.
    Drawing,
    /// Snapshots of the read models.
    Snapshots,
}

impl Work {
    /// The nice value: each step is about a fifth less of a processor that others want too.
    const fn nice(self) -> i32 {
        match self {
            Self::LogUpkeep | Self::Outside => 5,
            Self::Drawing | Self::Snapshots => 10,
        }
    }
}

/// Lets answers go before the work of this thread, and of those that it starts from now on. There is no way back.
pub fn yield_to_answers(work: Work) {
    let thread = Some(gettid());
    // Whoever started the service may have given it less than that.
    let nice = |given: i32| setpriority_process(thread, work.nice().max(given));
    if let Err(error) = getpriority_process(thread).and_then(nice) {
        tracing::debug!(%error, ?work, "done at normal priority");
    }
}

/// Lets the threads that draw in parallel yield. Has an effect once in a process, and before anything was drawn.
pub fn yield_when_drawing() {
    let pool = rayon::ThreadPoolBuilder::new().thread_name(|number| format!("drawing-{number}"));
    // Refused where there is a pool already.
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
