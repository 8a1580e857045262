//! History of the main metrics: one sample a minute over the last 24 hours, in memory, so that the console can draw
//! charts without a monitoring system. Minutes in which the service did not run have no sample.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Serialize, Serializer};

mod columns;
mod file;

#[cfg(test)]
mod tests;

pub use columns::{HistoryColumn, HistorySampler};
pub use file::HistoryFileError;

/// Number of samples: 24 hours.
pub const HISTORY_MINUTES: u16 = 24 * 60;

/// Samples of the last 24 hours. Cheap to clone; clones share the samples.
#[derive(Clone)]
pub struct MetricsHistory {
    columns: Arc<[HistoryColumn]>,
    samples: Arc<Mutex<HistoryRing>>,
}

/// Samples by ascending minute. At most [`HISTORY_MINUTES`], each with a value per column.
#[derive(Debug, Default)]
struct HistoryRing(VecDeque<HistorySample>);

/// Values at the end of one minute.
#[derive(Debug, Clone, PartialEq)]
struct HistorySample {
    /// Minutes since 1970 at the end of the minute that the counts cover.
    minute: i64,
    /// A value per column.
    values: Box<[HistoryValue]>,
}

/// Value of one column in one minute; NaN if unknown. Serialized as a number, without decimals if it is an integer,
/// or `null`.
#[derive(Debug, Clone, Copy)]
pub struct HistoryValue(f64);

/// Values of consecutive minutes.
#[derive(Debug, Clone)]
pub struct HistoryWindow {
    /// Minutes since 1970 of the first value.
    pub first_minute: i64,
    /// Values by column, in the order of [`MetricsHistory::columns`]. All have the same length.
    pub values: Vec<Vec<HistoryValue>>,
}

impl MetricsHistory {
    /// Creates an empty history for these failure codes and vendors.
    #[must_use]
    pub fn new(failure_codes: &[&'static str], vendors: &[Arc<str>]) -> Self {
        Self { columns: columns::build(failure_codes, vendors).into(), samples: Arc::default() }
    }

    /// Returns the columns.
    #[must_use]
    pub fn columns(&self) -> &[HistoryColumn] {
        &self.columns
    }

    /// Adds the sample of a minute and drops samples that are older than 24 hours. Samples of this or later minutes
    /// are dropped too: the clock was set back.
    pub fn record(&self, minute: i64, values: Box<[HistoryValue]>) {
        self.samples.lock().push(HistorySample { minute, values });
    }

    /// Returns the values of the last `minutes` up to `now`, in minutes since 1970. The current minute is included only
    /// if it has a sample, since it is taken a moment after the minute has begun.
    #[must_use]
    pub fn window(&self, now: i64, minutes: u16) -> HistoryWindow {
        let ring = self.samples.lock();
        let is_taken = ring.0.back().is_some_and(|sample| sample.minute >= now);
        let end = if is_taken { now } else { now - 1 };
        let first_minute = end - i64::from(minutes) + 1;

        let mut values = vec![vec![HistoryValue::UNKNOWN; usize::from(minutes)]; self.columns.len()];
        for sample in ring.0.iter().filter(|sample| (first_minute..=end).contains(&sample.minute)) {
            let index = usize::try_from(sample.minute - first_minute).unwrap_or_default();
            for (column, value) in values.iter_mut().zip(&sample.values) {
                column[index] = *value;
            }
        }
        HistoryWindow { first_minute, values }
    }
}

impl HistoryRing {
    fn push(&mut self, sample: HistorySample) {
        let minute = sample.minute;
        while self.0.back().is_some_and(|last| last.minute >= minute) {
            self.0.pop_back();
        }
        self.0.push_back(sample);
        while self.0.front().is_some_and(|first| first.minute <= minute - i64::from(HISTORY_MINUTES)) {
            self.0.pop_front();
        }
    }
}

impl HistoryValue {
    /// No value.
    pub const UNKNOWN: Self = Self(f64::NAN);
    /// Largest integer that JSON numbers represent exactly.
    const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

    /// Creates a value, which is unknown unless it is finite. Decimals are rounded to the sixth.
    #[must_use]
    pub fn new(value: f64) -> Self {
        if value.is_finite() { Self((value * 1e6).round() / 1e6) } else { Self::UNKNOWN }
    }

    /// Creates a value from a count.
    #[must_use]
    pub fn from_count(count: u64) -> Self {
        Self(super::latency::as_f64(count))
    }

    /// Returns the number, if it is known.
    #[must_use]
    pub fn get(self) -> Option<f64> {
        (!self.0.is_nan()).then_some(self.0)
    }
}

impl PartialEq for HistoryValue {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Serialize for HistoryValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.get() {
            None => serializer.serialize_none(),
            #[expect(clippy::cast_possible_truncation, reason = "an integer that fits")]
            Some(value) if value.fract() == 0.0 && value.abs() <= Self::INTEGER_MAX => {
                serializer.serialize_i64(value as i64)
            }
            Some(value) => serializer.serialize_f64(value),
        }
    }
}
