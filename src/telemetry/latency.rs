//! Latency histograms whose counts can be read back; those of the metrics library can only be rendered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of bounded buckets. One more has no upper bound.
const BOUNDS: usize = 18;

/// Counts of latencies in buckets whose bounds double.
#[derive(Debug)]
pub struct LatencyHistogram {
    /// Upper bound of the first bucket, in seconds.
    first_bound: f64,
    buckets: [AtomicU64; BOUNDS + 1],
}

/// Counts at one time, or between two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyCounts {
    first_bound: f64,
    buckets: [u64; BOUNDS + 1],
}

impl LatencyHistogram {
    /// Creates an empty histogram; `first_bound` is the upper bound of the first bucket in seconds.
    #[must_use]
    pub fn new(first_bound: f64) -> Self {
        Self { first_bound, buckets: Default::default() }
    }

    /// Counts one latency.
    pub fn observe(&self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        let mut bound = self.first_bound;
        let mut bucket = 0;
        while bucket < BOUNDS && seconds > bound {
            bucket += 1;
            bound *= 2.0;
        }
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts since the start.
    #[must_use]
    pub fn read(&self) -> LatencyCounts {
        let buckets = std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed));
        LatencyCounts { first_bound: self.first_bound, buckets }
    }
}

impl LatencyCounts {
    /// Returns the counts that were added after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added = |bucket: usize| self.buckets[bucket].saturating_sub(earlier.buckets[bucket]);
        Self { first_bound: self.first_bound, buckets: std::array::from_fn(added) }
    }

    /// Returns the number of latencies.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the latency in seconds that `percent` of all do not exceed, interpolated within its bucket; `None`
    /// without latencies. A value without an upper bound counts as the highest bound.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<f64> {
        let rank = (self.total() * percent).div_ceil(100).max(1);
        let mut below = 0;
        let mut lower = 0.0;
        let mut upper = self.first_bound;

        for count in &self.buckets[..BOUNDS] {
            if below + count >= rank {
                return Some(lower + (upper - lower) * as_f64(rank - below) / as_f64(*count));
            }
            below += count;
            lower = upper;
            upper *= 2.0;
        }
        (self.total() > 0).then_some(lower)
    }
}

/// Converts a count. No count here comes near the integers that `f64` cannot represent.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
#[must_use]
pub fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(millis: &[u64]) -> LatencyCounts {
        let histogram = LatencyHistogram::new(0.001);
        for millis in millis {
            histogram.observe(Duration::from_millis(*millis));
        }
        histogram.read()
    }

    #[track_caller]
    fn assert_percentile(counts: &LatencyCounts, percent: u64, expected: f64) {
        let actual = counts.percentile(percent).unwrap();
        assert!((actual - expected).abs() < 1e-9, "{actual} is not {expected}");
    }

    #[test]
    fn percentiles_are_interpolated_within_their_bucket() {
        // 2 in the bucket up to 1 ms, 2 in that from 64 to 128 ms
        let counts = counts(&[1, 1, 100, 120]);
        assert_percentile(&counts, 25, 0.0005);
        assert_percentile(&counts, 50, 0.001);
        assert_percentile(&counts, 75, 0.096);
        assert_percentile(&counts, 100, 0.128);
    }

    #[test]
    fn a_latency_above_all_bounds_counts_as_the_highest_bound() {
        let counts = counts(&[3_600_000]);
        assert_eq!(counts.total(), 1);
        assert_percentile(&counts, 95, 131.072);
    }

    #[test]
    fn counts_of_a_period_exclude_earlier_ones() {
        let histogram = LatencyHistogram::new(0.001);
        histogram.observe(Duration::from_secs(1));
        let earlier = histogram.read();
        assert_eq!(histogram.read().since(&earlier).percentile(50), None);

        histogram.observe(Duration::from_millis(1));
        let period = histogram.read().since(&earlier);
        assert_eq!(period.total(), 1);
        assert_percentile(&period, 50, 0.001);
    }
}
