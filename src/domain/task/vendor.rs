//! The vendor of a task, as recorded with each submission.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::VendorReference;
use crate::domain::value::{Digest, InvalidValue, Text};

/// Vendor of a submission and its terms at that time. Later changes of the settings do not change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedVendor {
    /// Configured name, unique among all vendors.
    pub name: Text<64>,
    /// Name of the profile, which describes the protocol.
    pub profile: Text<64>,
    /// Hash of the profile; `None` for vendors without a profile file, such as the built-in engines.
    pub profile_hash: Option<Digest>,
    /// Cost of one accepted job.
    pub price: VendorPrice,
}

impl RecordedVendor {
    /// Profile of the built-in engines.
    pub const BUILT_IN_PROFILE: &'static str = "builtin";

    /// Returns `true` for a built-in engine. Its jobs are free, and are lost when the service stops.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.profile.as_str() == Self::BUILT_IN_PROFILE
    }

    /// Returns `true` if both are the same vendor, even if its price or the content of its profile changed.
    #[must_use]
    pub fn is_same_vendor(&self, other: &Self) -> bool {
        self.name == other.name && self.profile == other.profile
    }
}

/// Cost of a job at its vendor in thousandths of a unit; the operator chooses the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct VendorPrice(u64);

impl VendorPrice {
    /// Largest configurable price, in thousandths.
    pub const MAX: u64 = 1_000_000_000;

    /// Creates a price from thousandths.
    #[must_use]
    pub const fn from_thousandths(thousandths: u64) -> Self {
        Self(thousandths)
    }

    /// Returns the price in thousandths.
    #[must_use]
    pub const fn thousandths(self) -> u64 {
        self.0
    }

    /// Parses a decimal number such as `0.035`.
    ///
    /// # Errors
    /// If the text is not a number from 0 to 1,000,000 with at most three decimal places.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let invalid = || InvalidValue::new("must be a number from 0 to 1000000 with at most three decimal places");
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || fraction.len() > 3 {
            return Err(invalid());
        }

        let thousandths = format!("{whole}{fraction:0<3}").parse().map_err(|_| invalid())?;
        if thousandths <= Self::MAX { Ok(Self(thousandths)) } else { Err(invalid()) }
    }

    /// Returns the price as a JSON number; prices up to [`VendorPrice::MAX`] keep all their digits.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "configurable prices are far below 2^53")]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl fmt::Display for VendorPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0 / 1000;
        let fraction = self.0 % 1000;
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{fraction:03}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// The vendor that a task was submitted to last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskVendor {
    /// `None` in logs from before vendors were recorded; the vendor is then the first vendor of the gateway.
    pub recorded: Option<RecordedVendor>,
    /// Id of the job, once the vendor accepted it: `<family of the job>:<id>`, or the id alone.
    pub reference: Option<VendorReference>,
    /// `true` if an earlier submission to this vendor has an unknown outcome, so that it may have a job even if the
    /// last submission did not arrive.
    pub(super) is_in_doubt: bool,
}

impl TaskVendor {
    /// Returns the id by which the vendor knows the job, once it has accepted it.
    #[must_use]
    pub fn job_id(&self) -> Option<&str> {
        let reference = self.reference.as_ref()?.as_str();
        Some(reference.split_once(':').map_or(reference, |(_, id)| id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_have_at_most_three_decimal_places() {
        let thousandths = |text| VendorPrice::parse(text).ok().map(VendorPrice::thousandths);
        let valid = [("0", 0), ("2", 2000), ("0.035", 35), ("1.5", 1500), ("007", 7000), ("1000000", VendorPrice::MAX)];
        for (text, expected) in valid {
            assert_eq!(thousandths(text), Some(expected), "{text}");
        }
        for text in ["", "-1", "+1", "1.", ".5", "0.0001", "1e3", "1000000.001", "x", "99999999999999999999"] {
            assert_eq!(thousandths(text), None, "{text}");
        }
    }

    #[test]
    fn prices_are_written_as_they_were_read() {
        for text in ["0", "2", "0.035", "1.5", "12.34", "1000000"] {
            let price = VendorPrice::parse(text).unwrap();
            assert_eq!((price.to_string(), price.to_f64().to_string()), (text.to_owned(), text.to_owned()));
        }
    }

    #[test]
    fn a_job_is_shown_by_the_id_that_its_vendor_knows() {
        let cases = [("image-upscaler:3f2c", "3f2c"), ("3f2c", "3f2c"), ("task:a:b", "a:b"), (":a:b", "a:b")];
        for (reference, id) in cases {
            let reference = Some(VendorReference::from_recorded(reference.to_owned()));
            let vendor = TaskVendor { recorded: None, reference, is_in_doubt: false };
            assert_eq!(vendor.job_id(), Some(id));
        }
    }
}
