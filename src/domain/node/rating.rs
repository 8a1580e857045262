//! Ratings of nodes: the stars of one review, and their mean.

use serde::{Deserialize, Serialize};

use crate::domain::field_set::TextSize;
use crate::domain::value::InvalidValue;

/// Stars of one review, 1 to 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stars(u8);

impl Stars {
    /// Validates the range.
    ///
    /// # Errors
    /// If the value is outside 1 to 5.
    pub fn new(stars: i64) -> Result<Self, InvalidValue> {
        let valid = u8::try_from(stars).ok().filter(|stars| (1..=5).contains(stars));
        valid.map(Self).ok_or_else(|| InvalidValue::new("must be an integer from 1 to 5"))
    }

    /// Returns the number of stars.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

/// A mean of stars from 0 to 5, stored in hundredths so that equality is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rating(u16);

impl Rating {
    /// Maximum, in hundredths of a star.
    const MAX: u16 = 500;

    /// Validates the range and rounds to hundredths.
    ///
    /// # Errors
    /// If the value is outside 0 to 5.
    pub fn new(mean: f64) -> Result<Self, InvalidValue> {
        if !(0.0..=5.0).contains(&mean) {
            return Err(InvalidValue::new("must be a number from 0 to 5"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 500, as checked above")]
        Ok(Self((mean * 100.0).round() as u16))
    }

    /// Creates a rating from hundredths of a star; values above 5 stars become 5.
    #[must_use]
    pub fn from_hundredths(hundredths: u16) -> Self {
        Self(hundredths.min(Self::MAX))
    }

    /// Returns the rating in hundredths of a star.
    #[must_use]
    pub fn hundredths(self) -> u16 {
        self.0
    }

    /// Returns the rating in stars, with two decimals.
    #[must_use]
    pub fn get(self) -> f64 {
        f64::from(self.0) / 100.0
    }

    /// Returns the mean of some stars, or `None` without any.
    pub fn mean(stars: impl IntoIterator<Item = Stars>) -> Option<Self> {
        let (sum, count) = stars.into_iter().fold((0, 0), |(sum, count), Stars(n)| (sum + u64::from(n), count + 1));
        Self::from_sum(sum, count)
    }

    /// Returns the mean of `count` reviews with `sum` stars in total, or `None` if `count` is 0.
    #[must_use]
    pub fn from_sum(sum: u64, count: u64) -> Option<Self> {
        let hundredths = (sum * 100 + count / 2).checked_div(count)?;
        Some(Self::from_hundredths(u16::try_from(hundredths).unwrap_or(Self::MAX)))
    }
}

impl TextSize for Rating {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_1_to_5() {
        assert_eq!((1..=5).map(|n| Stars::new(n).unwrap().get()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        for bad in [0, 6, -1, 256 + 3, i64::MAX] {
            assert!(Stars::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ratings_are_0_to_5_in_hundredths() {
        let hundredths = |mean| Rating::new(mean).map(Rating::hundredths).ok();
        assert_eq!([0.0, 5.0, 4.567, 4.564].map(hundredths), [Some(0), Some(500), Some(457), Some(456)]);
        assert_eq!([-0.1, 5.001, f64::NAN, f64::INFINITY].map(hundredths), [None; 4]);
        assert!((Rating::from_hundredths(433).get() - 4.33).abs() < f64::EPSILON);
        assert_eq!(Rating::from_hundredths(501).hundredths(), 500);
    }

    #[test]
    fn a_mean_is_rounded() {
        let mean = |stars: &[i64]| Rating::mean(stars.iter().map(|n| Stars::new(*n).unwrap())).map(Rating::hundredths);
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[4]), Some(400));
        assert_eq!(mean(&[4, 5, 5]), Some(467));
        assert_eq!(mean(&[4, 4, 5]), Some(433));
        assert_eq!(mean(&[5; 1000]), Some(500));
    }
}
