//! Memory budget of all picture decoders of the process: submissions, fetched inputs, results and the built-in engines.
//!
//! A picture of a few hundred kilobytes may announce gigabytes. The memory needed is estimated from the header before
//! decoding, and reserved while the decoder runs. A picture that needs more than the whole budget is rejected.

use std::time::Duration;

use crate::domain::value::InvalidValue;
use crate::fairness::{FairPermit, FairSemaphore};

use super::input::{DecodedPicture, MeasuredPicture, PictureInfo};

/// Default budget: one picture of 100 megapixels with 8 bits in any format, except CMYK and progressive JPEG.
pub const DECODE_MEMORY: u64 = 1 << 30;

/// Default longest wait for the budget. Decoding the largest picture takes seconds.
const BUDGET_WAIT_MAX: Duration = Duration::from_secs(20);

/// Reason why a picture was not decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PictureDecodeError {
    /// The picture cannot be decoded, or is not allowed.
    #[error("{0}")]
    Invalid(InvalidValue),
    /// Other pictures held the budget for too long. The picture may be fine.
    #[error("the memory for decoding pictures is in use; try again later")]
    Busy,
}

/// Decoders that share one budget. Cheap to clone; each call blocks the thread.
#[derive(Clone)]
pub struct PictureDecoders {
    /// Memory budget in bytes. All callers share one account: they are few, because each already holds a permit of
    /// another limit.
    budget: FairSemaphore<()>,
    /// Longest wait for the budget.
    wait_max: Duration,
}

impl From<InvalidValue> for PictureDecodeError {
    fn from(reason: InvalidValue) -> Self {
        Self::Invalid(reason)
    }
}

impl Default for PictureDecoders {
    fn default() -> Self {
        Self::new(DECODE_MEMORY)
    }
}

impl PictureDecoders {
    /// Creates decoders that use at most `memory` bytes together.
    #[must_use]
    pub fn new(memory: u64) -> Self {
        Self::with_wait(memory, BUDGET_WAIT_MAX)
    }

    /// Creates decoders that use at most `memory` bytes together, and wait at most `wait_max` for them.
    #[must_use]
    pub fn with_wait(memory: u64, wait_max: Duration) -> Self {
        Self { budget: FairSemaphore::new(memory), wait_max }
    }

    /// Checks a picture completely: header, size, and that every pixel can be decoded.
    ///
    /// # Errors
    /// If the picture cannot be decoded or needs more than the budget, or the budget stays in use.
    pub fn inspect(&self, bytes: &[u8]) -> Result<PictureInfo, PictureDecodeError> {
        let picture = MeasuredPicture::read(bytes)?;
        // A picture that cannot be decoded later is rejected now.
        self.check_budget(picture.memory_to_decode())?;
        let _permit = self.reserve(picture.memory_to_inspect())?;
        picture.inspect(bytes)?;
        Ok(picture.info())
    }

    /// Decodes a picture and applies its orientation.
    ///
    /// # Errors
    /// Same as [`PictureDecoders::inspect`].
    pub fn decode(&self, bytes: &[u8]) -> Result<DecodedPicture, PictureDecodeError> {
        let picture = MeasuredPicture::read(bytes)?;
        let _permit = self.reserve(picture.memory_to_decode())?;
        Ok(picture.decode(bytes)?)
    }

    /// Returns the bytes of the budget that decoding a picture needs.
    ///
    /// # Errors
    /// If the header cannot be read, or the picture needs more than the budget.
    pub fn memory_needed(&self, bytes: &[u8]) -> Result<u64, InvalidValue> {
        let picture = MeasuredPicture::read(bytes)?;
        let needed = picture.memory_to_decode().max(picture.memory_to_inspect());
        self.check_budget(needed)?;
        Ok(needed)
    }

    /// Returns the bytes that the decoders use together at most.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.budget.capacity()
    }

    fn check_budget(&self, needed: u64) -> Result<(), InvalidValue> {
        let allowed = self.budget.capacity();
        if needed <= allowed {
            return Ok(());
        }
        let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
        Err(InvalidValue::new(format!(
            "requires {} MB of memory to decode; at most {} MB are allowed",
            megabytes(needed),
            megabytes(allowed)
        )))
    }

    fn reserve(&self, needed: u64) -> Result<FairPermit<()>, PictureDecodeError> {
        self.check_budget(needed)?;
        self.budget.acquire_blocking((), needed, self.wait_max).ok_or(PictureDecodeError::Busy)
    }
}

/// Reads the header of a picture: format and size, without decoding pixels.
///
/// # Errors
/// If there are too many bytes, the format is unknown, or the picture has no pixels or too many.
pub fn read_picture_info(bytes: &[u8]) -> Result<PictureInfo, InvalidValue> {
    MeasuredPicture::read(bytes).map(|picture| picture.info())
}
