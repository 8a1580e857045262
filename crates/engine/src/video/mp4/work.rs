//! Limits of the work that decoding a video causes, which its file size does not show.

use super::read::unsupported;
use crate::video::VideoError;

/// Maximum number of decoded pixels of a video: the coded pixels of a picture times the number of pictures. A repeated
/// picture takes a few bytes, so the file size does not limit them.
pub const DECODED_PIXELS_MAX: u64 = 10_000_000_000;
/// Maximum number of slices of a picture.
pub(super) const SLICES_MAX: usize = 256;

/// Returns the message for an excess of pixels; it begins with `description`.
pub(in crate::video) fn too_many_pixels(description: &str, pixels: u64, limit: u64) -> String {
    let millions = |pixels: u64| pixels.div_ceil(1_000_000);
    format!(
        "{description}, {} million pixels in all; at most {} million are allowed",
        millions(pixels),
        millions(limit)
    )
}

/// Counter of the slices of an access unit, each of which may cost as much as a whole picture.
#[derive(Default)]
pub(super) struct Slices {
    total: usize,
    /// Number of slices that begin a picture.
    first: usize,
}

impl Slices {
    /// Counts a NAL unit.
    ///
    /// # Errors
    /// If the sample contains several pictures or too many slices.
    pub fn count(&mut self, nal: &[u8]) -> Result<(), VideoError> {
        let [header, start, ..] = nal else { return Ok(()) };
        // A slice, its first partition, or a slice of a key frame.
        if matches!(header & 0x1f, 1 | 2 | 5) {
            self.total += 1;
            // A set first bit means that the slice begins at the first block.
            self.first += usize::from(start & 0x80 != 0);
        }
        if self.first > 1 || self.total > SLICES_MAX {
            return Err(unsupported("made of samples with several pictures"));
        }
        Ok(())
    }
}
