//! Time that the disk has spent on the writer's current request. A hanging disk reports no error: the call does not
//! return, so the durations of completed calls do not show it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Start of the disk request in progress, if any.
#[derive(Default)]
pub struct DiskRequest(Mutex<Option<Instant>>);

impl DiskRequest {
    /// Runs a disk request. The writer runs one at a time.
    pub fn measure<T>(&self, work: impl FnOnce() -> T) -> T {
        *self.0.lock() = Some(Instant::now());
        let _guard = DiskRequestGuard(self);
        work()
    }

    /// Returns the time since the start of the request, or zero between requests. Never blocks.
    pub fn pending(&self) -> Duration {
        self.0.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Guard that ends the request, even if the work panics.
struct DiskRequestGuard<'d>(&'d DiskRequest);

impl Drop for DiskRequestGuard<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}
