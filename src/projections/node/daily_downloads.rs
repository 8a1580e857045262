//! Downloads of a node by day.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::domain::value::Timestamp;

/// Maximum number of days that are kept.
pub const DAYS_MAX: usize = 90;

/// Downloads of the last [`DAYS_MAX`] days with downloads, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DailyDownloads(Vec<(NaiveDate, u64)>);

impl DailyDownloads {
    /// Adds downloads. Those of an earlier day count for the last day: the times of consecutive events go back by
    /// moments at most, so this happens only around midnight.
    pub fn add(&mut self, count: u64, at: Timestamp) {
        let day = at.utc_date();
        match self.0.last_mut() {
            Some((last, downloads)) if *last >= day => *downloads = downloads.saturating_add(count),
            _ => self.0.push((day, count)),
        }
        if self.0.len() > DAYS_MAX {
            self.0.remove(0);
        }
    }

    /// Returns the downloads of a day.
    #[must_use]
    pub fn on(&self, day: NaiveDate) -> u64 {
        self.0
            .binary_search_by_key(&day, |(day, _)| *day)
            .ok()
            .and_then(|index| self.0.get(index))
            .map_or(0, |(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: u32) -> NaiveDate {
        NaiveDate::from_num_days_from_ce_opt(739_000 + i32::try_from(day).unwrap()).unwrap()
    }

    #[test]
    fn downloads_are_counted_by_day() {
        let mut downloads = DailyDownloads::default();
        for (count, number) in [(2, 0), (3, 0), (1, 4), (1, 3)] {
            downloads.add(count, Timestamp::midnight(day(number)));
        }
        assert_eq!([0, 1, 3, 4].map(|number| downloads.on(day(number))), [5, 0, 0, 2]);
    }

    #[test]
    fn the_oldest_days_are_forgotten() {
        let mut downloads = DailyDownloads::default();
        for number in 0..=u32::try_from(DAYS_MAX).unwrap() {
            downloads.add(1, Timestamp::midnight(day(number)));
        }
        assert_eq!((downloads.on(day(0)), downloads.on(day(1))), (0, 1));
        assert_eq!(downloads.0.len(), DAYS_MAX);
    }
}
