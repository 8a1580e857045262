//! How long the disk has been at what the writer gave it. A disk that hangs refuses nothing: the call just does not return, and what is
//! measured of calls that have returned does not show it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::SledLog;

/// When the disk was given what it is at, if it is at anything.
#[derive(Default)]
pub struct Disk(Mutex<Option<Instant>>);

impl Disk {
    /// Has the disk do something. The writer gives it one thing at a time.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        *self.0.lock() = Some(Instant::now());
        let _underway = Underway(self);
        work()
    }
}

/// Ends also where the work panics.
struct Underway<'d>(&'d Disk);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}

impl SledLog {
    /// How long the disk has been at the group that it was given, or at HEAD; zero when it is at neither. Never blocks.
    #[must_use]
    pub fn sync_pending(&self) -> Duration {
        self.shared.disk.0.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }
}
