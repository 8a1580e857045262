//! Pauses between attempts. Each is jittered, so that tasks that began together do not retry together. Pure: callers
//! pass a random number from 0 to 1.

use std::time::Duration;

/// Shortest and longest pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub min: Duration,
    pub max: Duration,
}

impl Backoff {
    /// Returns the pause after `failures` consecutive failures (from 1): each failure doubles it, up to the maximum.
    #[must_use]
    pub fn after_failures(self, failures: u32, random: f64) -> Duration {
        // The limit only prevents an overflow of the shift.
        let doublings = failures.saturating_sub(1).min(20);
        with_half_jitter(self.min.saturating_mul(1 << doublings).clamp(self.min, self.max), random)
    }

    /// Returns the pause until the next poll of a task: half its age, so that short jobs are polled often and long jobs
    /// seldom.
    #[must_use]
    pub fn poll_interval(self, age: Duration, random: f64) -> Duration {
        with_half_jitter((age / 2).clamp(self.min, self.max), random)
    }
}

/// Returns a pause between half of `delay` and all of it.
fn with_half_jitter(delay: Duration, random: f64) -> Duration {
    delay.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
}

/// Returns up to a tenth more than `delay`, so that callers do not retry at the same moment.
#[must_use]
pub fn add_jitter(delay: Duration, random: f64) -> Duration {
    delay.mul_f64(1.0 + random.clamp(0.0, 1.0) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { min: Duration::from_secs(2), max: Duration::from_mins(5) };

    #[test]
    fn each_failure_doubles_the_pause_up_to_the_maximum() {
        let full_delay = |failures| BACKOFF.after_failures(failures, 1.0).as_secs();
        assert_eq!([1, 2, 3, 4, 9, u32::MAX].map(full_delay), [2, 4, 8, 16, 300, 300]);
        assert_eq!(BACKOFF.after_failures(3, 0.0).as_secs(), 4, "a random number of 0 halves the pause");
        assert_eq!(BACKOFF.after_failures(0, 1.0).as_secs(), 2, "0 failures count as 1");
    }

    #[test]
    fn old_tasks_are_polled_less_often() {
        let full_delay = |age| BACKOFF.poll_interval(Duration::from_secs(age), 1.0).as_secs();
        assert_eq!([0, 4, 60, 86_400].map(full_delay), [2, 2, 30, 300]);
    }

    #[test]
    fn jitter_never_shortens_a_pause() {
        let requested = Duration::from_secs(10);
        assert_eq!([0.0, 1.0].map(|random| add_jitter(requested, random).as_secs()), [10, 11]);
    }
}
