//! Size of coded pictures from a sequence parameter set (SPS). They may be far larger than the visible part.

/// Properties that determine whether a stream is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodingProperties {
    /// Number of pixels of a coded picture, including cropped ones.
    pub pixels: u64,
    /// Maximum number of reference pictures.
    pub references: u32,
    pub interlaced: bool,
}

/// Bit reader of a parameter set.
struct Bits {
    bytes: Vec<u8>,
    /// Position of the next bit.
    at: usize,
}

impl Bits {
    /// Creates a reader of the bits after the header, without emulation prevention bytes.
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

    /// Reads one bit, or returns `None` at the end.
    fn read_bit(&mut self) -> Option<u32> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = (byte >> (7 - self.at % 8)) & 1;
        self.at += 1;
        Some(u32::from(bit))
    }

    /// Reads a number of `count` bits, at most 32, most significant first.
    fn read_bits(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0_u32, |value, _| Some((value << 1) | self.read_bit()?))
    }

    /// Reads an unsigned Exp-Golomb number.
    fn read_unsigned(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.read_bit()? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let suffix = self.read_bits(zeros)?;
        u32::try_from((1_u64 << zeros) - 1 + u64::from(suffix)).ok()
    }

    /// Reads a signed Exp-Golomb number.
    fn read_signed(&mut self) -> Option<i64> {
        let value = i64::from(self.read_unsigned()?);
        Some(if value % 2 == 1 { value / 2 + 1 } else { -(value / 2) })
    }
}

/// Type of a NAL unit that is a sequence parameter set.
const PARAMETER_SET_TYPE: u8 = 7;
/// Number of pixels of a macroblock.
const BLOCK_PIXELS: u64 = 16 * 16;
/// Profiles whose parameter sets contain the chroma format (H.264, 7.3.2.1.1).
const HIGH_PROFILES: [u32; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

/// Returns `true` if a NAL unit is a sequence parameter set.
pub(super) fn is_parameter_set(nal: &[u8]) -> bool {
    nal.first().is_some_and(|header| header & 0x1f == PARAMETER_SET_TYPE)
}

/// Parses a parameter set up to the size of the pictures; returns `None` if it ends before that. The comments name the
/// skipped fields as the standard does.
pub(super) fn parse_coding_properties(nal: &[u8]) -> Option<CodingProperties> {
    let mut bits = Bits::new(nal);
    let profile = bits.read_bits(8)?;
    bits.read_bits(16)?; // constraint_set flags and level_idc
    bits.read_unsigned()?; // seq_parameter_set_id
    if HIGH_PROFILES.contains(&profile) {
        skip_high_profile(&mut bits)?;
    }
    bits.read_unsigned()?; // log2_max_frame_num_minus4

    let order_type = bits.read_unsigned()?;
    match order_type {
        0 => {
            bits.read_unsigned()?; // log2_max_pic_order_cnt_lsb_minus4
        }
        1 => {
            bits.read_bit()?; // delta_pic_order_always_zero_flag
            bits.read_signed()?; // offset_for_non_ref_pic
            bits.read_signed()?; // offset_for_top_to_bottom_field
            for _ in 0..bits.read_unsigned()?.min(255) {
                bits.read_signed()?; // offset_for_ref_frame
            }
        }
        _ => {}
    }

    let references = bits.read_unsigned()?;
    bits.read_bit()?; // gaps_in_frame_num_value_allowed_flag

    // The size in macroblocks; an interlaced picture has two fields of this height.
    let width = u64::from(bits.read_unsigned()?) + 1;
    let height = u64::from(bits.read_unsigned()?) + 1;
    let interlaced = bits.read_bit()? == 0;
    let rows = height * if interlaced { 2 } else { 1 };

    Some(CodingProperties { pixels: width.saturating_mul(rows).saturating_mul(BLOCK_PIXELS), references, interlaced })
}

/// Skips the chroma format and the scaling lists.
fn skip_high_profile(bits: &mut Bits) -> Option<()> {
    let format = bits.read_unsigned()?;
    if format == 3 {
        bits.read_bit()?; // separate_colour_plane_flag
    }
    bits.read_unsigned()?; // bit_depth_luma_minus8
    bits.read_unsigned()?; // bit_depth_chroma_minus8
    bits.read_bit()?; // qpprime_y_zero_transform_bypass_flag

    let has_scaling_lists = bits.read_bit()? == 1;
    if has_scaling_lists {
        for list in 0..if format == 3 { 12 } else { 8 } {
            if bits.read_bit()? == 1 {
                skip_scaling_list(bits, if list < 6 { 16 } else { 64 })?;
            }
        }
    }

    Some(())
}

/// Skips a scaling list, whose values are stored as differences. A value of zero ends them.
fn skip_scaling_list(bits: &mut Bits, length: usize) -> Option<()> {
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
        let coded = parse_coding_properties(&unit[start + 3..]).unwrap();
        assert_eq!((coded.pixels, coded.interlaced), (112 * 64, false));
    }

    #[test]
    fn truncated_parameter_sets_have_no_size() {
        assert_eq!(parse_coding_properties(&[]), None);
        assert_eq!(parse_coding_properties(&[0x67, 100, 0, 30]), None);
        assert_eq!(parse_coding_properties(&[0x67, 66, 0, 30, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
