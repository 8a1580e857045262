//! Bounds of the work that a film makes, which the size of its file does not tell.

use super::super::Fault;
use super::read::unsupported;

/// The most pixels that are decoded of a film: pixels of a picture, as it is coded, times pictures. A picture that repeats the one
/// before takes a few bytes, so the size of the file bounds nothing.
pub const DECODED_PIXELS_MAX: u64 = 10_000_000_000;
/// The most slices of a picture.
pub(super) const SLICES_MAX: usize = 256;

/// Says how many pixels there would be and how many there may be, in words that go after `told`.
pub(in crate::vendors::local::video) fn too_many_pixels(told: &str, pixels: u64, most: u64) -> String {
    let millions = |pixels: u64| pixels.div_ceil(1_000_000);
    format!("{told}, {} million pixels in all; at most {} million are allowed", millions(pixels), millions(most))
}

/// Slices of an access unit, each of which costs up to a whole picture.
#[derive(Default)]
pub(super) struct Slices {
    all: usize,
    first: usize,
}

impl Slices {
    /// Counts a unit of the stream.
    ///
    /// # Errors
    /// When the sample holds more than one picture, or too many slices.
    pub fn count(&mut self, nal: &[u8]) -> Result<(), Fault> {
        let [header, start, ..] = nal else { return Ok(()) };
        if matches!(header & 0x1f, 1 | 2 | 5) {
            self.all += 1;
            // A first bit that is set says that the slice begins at the first block.
            self.first += usize::from(start & 0x80 != 0);
        }
        if self.first > 1 || self.all > SLICES_MAX {
            return Err(unsupported("made of samples with several pictures"));
        }
        Ok(())
    }
}
