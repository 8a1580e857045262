//! Threads of the built-in engines. Each running job has its own, so that the operating system divides CPU time among
//! jobs: in a shared pool, a small job would wait behind the loops of a large job.

use std::num::NonZero;
use std::thread::available_parallelism;

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use crate::priority::{BackgroundWork, lower_priority};

/// Maximum number of threads of a job. More cores are used by more jobs.
const THREADS_MAX: usize = 8;
/// Maximum number of pools that are kept for the next jobs.
const IDLE_MAX: usize = 4;

/// Thread pools of the running jobs.
#[derive(Default)]
pub(super) struct EngineThreads {
    idle: Mutex<Vec<ThreadPool>>,
}

impl EngineThreads {
    /// Returns the number of threads of a job.
    pub fn per_job() -> usize {
        available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX)
    }

    /// Runs a job on threads of its own, at a low priority. Blocks until it ends; propagates a panic.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> T + Send) -> T {
        let idle = self.idle.lock().pop();
        match idle.map_or_else(start_pool, Ok) {
            Ok(pool) => {
                let result = pool.install(job);
                self.put_back(pool);
                result
            }
            Err(error) => {
                tracing::warn!(%error, "engine threads not started, job uses shared threads");
                job()
            }
        }
    }

    fn put_back(&self, pool: ThreadPool) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(pool);
        }
    }
}

fn start_pool() -> Result<ThreadPool, ThreadPoolBuildError> {
    ThreadPoolBuilder::new()
        .num_threads(EngineThreads::per_job())
        .thread_name(|index| format!("engine-{index}"))
        .start_handler(|_| lower_priority(BackgroundWork::Rendering))
        .build()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_job_does_not_wait_for_the_threads_of_another() {
        // Given a job that occupies all of its threads
        let threads = EngineThreads::default();
        let (end, end_signal) = mpsc::channel::<()>();
        let end_signal = Mutex::new(end_signal);
        let (started, started_signal) = mpsc::channel();
        std::thread::scope(|scope| {
            let threads = &threads;
            let end_signal = &end_signal;
            scope.spawn(move || {
                threads.run(|| {
                    rayon::broadcast(|_| {
                        started.send(()).expect("the test waits");
                        let _ = end_signal.lock().recv();
                    });
                });
            });
            started_signal.recv().expect("the job begins");

            // When another job runs, then it completes
            assert_eq!(threads.run(|| rayon::join(|| 1, || 2)), (1, 2));
            drop(end);
        });
        assert_eq!(threads.idle.lock().len(), 2);
    }
}
