//! Size of coded pictures from a parameter set; they may be far larger than the visible part.

/// Properties that determine whether a stream is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodingProperties {
    /// Pixels of a coded picture.
    pub pixels: u64,
    /// Maximum number of reference pictures.
    pub references: u32,
    pub interlaced: bool,
}

/// Bit reader of a parameter set.
struct Bits {
    bytes: Vec<u8>,
    at: usize,
}

impl Bits {
    /// Returns the bits after the header, without emulation prevention bytes.
    fn new(nal: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(nal.len());
        let mut zeros = 0;
        for byte in nal.iter().skip(1) {
            if zeros >= 2 && *byte == 3 {
                zeros = 0;
                continue;
            }
            zeros = if *byte == 0 { zeros + 1 } else { 0 };
            bytes.push(*byte);
        }
        Self { bytes, at: 0 }
    }

    fn bit(&mut self) -> Option<u32> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = (byte >> (7 - self.at % 8)) & 1;
        self.at += 1;
        Some(u32::from(bit))
    }

    fn bits(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0_u32, |value, _| Some((value << 1) | self.bit()?))
    }

    /// Reads an unsigned Exp-Golomb number.
    fn read_unsigned(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let suffix = self.bits(zeros)?;
        u32::try_from((1_u64 << zeros) - 1 + u64::from(suffix)).ok()
    }

    fn read_signed(&mut self) -> Option<i64> {
        let value = i64::from(self.read_unsigned()?);
        Some(if value % 2 == 1 { value / 2 + 1 } else { -(value / 2) })
    }
}

/// Profiles whose parameter sets contain the chroma format (H.264, 7.3.2.1.1).
const HIGH: [u32; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

/// Parses a parameter set up to the size; `None` if it ends before that.
pub(super) fn coded(nal: &[u8]) -> Option<CodingProperties> {
    let mut bits = Bits::new(nal);
    let profile = bits.bits(8)?;
    bits.bits(16)?;
    bits.read_unsigned()?;
    if HIGH.contains(&profile) {
        high(&mut bits)?;
    }
    bits.read_unsigned()?;

    match bits.read_unsigned()? {
        0 => {
            bits.read_unsigned()?;
        }
        1 => {
            bits.bit()?;
            bits.read_signed()?;
            bits.read_signed()?;
            for _ in 0..bits.read_unsigned()?.min(255) {
                bits.read_signed()?;
            }
        }
        _ => {}
    }

    let references = bits.read_unsigned()?;
    bits.bit()?;

    let width = u64::from(bits.read_unsigned()?) + 1;
    let height = u64::from(bits.read_unsigned()?) + 1;
    let interlaced = bits.bit()? == 0;
    let rows = height * if interlaced { 2 } else { 1 };

    Some(CodingProperties { pixels: width.saturating_mul(rows).saturating_mul(256), references, interlaced })
}

/// Skips the chroma format and the scaling lists.
fn high(bits: &mut Bits) -> Option<()> {
    let format = bits.read_unsigned()?;
    if format == 3 {
        bits.bit()?;
    }
    bits.read_unsigned()?;
    bits.read_unsigned()?;
    bits.bit()?;

    if bits.bit()? == 1 {
        for list in 0..if format == 3 { 12 } else { 8 } {
            if bits.bit()? == 1 {
                skip_list(bits, if list < 6 { 16 } else { 64 })?;
            }
        }
    }

    Some(())
}

fn skip_list(bits: &mut Bits, length: usize) -> Option<()> {
    let mut last = 8_i64;
    let mut next = 8_i64;
    for _ in 0..length {
        if next != 0 {
            next = (last + bits.read_signed()?).rem_euclid(256);
        }
        last = if next == 0 { last } else { next };
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::codec::{Codec, EncodingQuality, H264, Yuv};
    use crate::video::raster::{Raster, Size};

    #[test]
    fn the_coded_size_is_that_of_whole_blocks() {
        let size = Size { width: 98, height: 54 };
        let unit =
            H264.encoder(size, EncodingQuality::High).unwrap().encode(&Yuv::from_raster(&Raster::new(size))).unwrap();
        let start = unit.windows(4).position(|bytes| bytes[..3] == [0, 0, 1] && bytes[3] & 0x1f == 7).unwrap();
        let coded = coded(&unit[start + 3..]).unwrap();
        assert_eq!((coded.pixels, coded.interlaced), (112 * 64, false));
    }

    #[test]
    fn truncated_parameter_sets_have_no_size() {
        assert_eq!(coded(&[]), None);
        assert_eq!(coded(&[0x67, 100, 0, 30]), None);
        assert_eq!(coded(&[0x67, 66, 0, 30, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
