//! JPEG header: the segments up to the first scan.

use image::metadata::Orientation;

use super::{DecodeMemory, PictureHeader, u16_be};
use crate::domain::image::ImageFormat;

/// Prefix of EXIF in a segment.
const EXIF: &[u8] = b"Exif\0\0";

pub(super) fn read(bytes: &[u8]) -> Option<PictureHeader> {
    let mut frame = None;
    let mut orientation = Orientation::NoTransforms;
    let mut at = 2;

    loop {
        let offset = bytes.get(at..)?.windows(2).position(super::super::is_marker)?;
        at += offset + 2;
        let marker = bytes[at - 1];
        match marker {
            // The temporary marker has no segment.
            0x01 => continue,
            // First scan, or end of the picture.
            0xDA | 0xD9 => break,
            _ => {}
        }

        let end = at + usize::from(u16_be(bytes, at)?);
        let segment = bytes.get(at + 2..end).unwrap_or_default();
        match marker {
            // Frame headers, which have the size.
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => frame = JpegFrame::read(segment),
            // Application segment 1, for EXIF.
            0xE1 => {
                let exif = segment.strip_prefix(EXIF);
                orientation = exif.and_then(Orientation::from_exif_chunk).unwrap_or(orientation);
            }
            _ => {}
        }
        at = end;
    }

    let frame = frame?;
    let coefficients = if may_buffer_coefficients(bytes) { frame.coefficient_bytes() } else { 0 };
    let rows = u64::from(frame.width) * 64 * frame.components;
    // The file is copied; its metadata is copied at most twice.
    let decoder = 3 * bytes.len() as u64 + coefficients + rows;
    let source = if frame.components == 1 { 1 } else { 3 };
    let memory = DecodeMemory { decoder, source, output: 3 };
    let width = frame.width;
    let height = frame.height;
    Some(PictureHeader { format: ImageFormat::Jpeg, width, height, orientation, memory })
}

struct JpegFrame {
    width: u32,
    height: u32,
    components: u64,
    /// Samples per block of the only component; 1 if there are several components.
    sampling: u64,
}

impl JpegFrame {
    fn read(segment: &[u8]) -> Option<Self> {
        let height = u16_be(segment, 1)?.into();
        let width = u16_be(segment, 3)?.into();
        let components = u64::from(*segment.get(5)?);
        let factors = *segment.get(7)?;
        let sampling = if components == 1 { u64::from(factors >> 4) * u64::from(factors & 0xF) } else { 1 };
        Some(Self { width, height, components, sampling: sampling.max(1) })
    }

    /// Returns two bytes per sample; sides are padded to blocks of at most 32 pixels.
    fn coefficient_bytes(&self) -> u64 {
        (u64::from(self.width) + 32) * (u64::from(self.height) + 32) * 2 * self.components * self.sampling
    }
}

/// Returns the memory to decode the largest JPEG stream embedded anywhere in another file.
pub(super) fn embedded_decode_memory(bytes: &[u8]) -> u64 {
    let begins_frame = |pair: &[u8]| matches!(*pair, [0xFF, 0xC0..=0xC2]);
    let frames = bytes.windows(2).enumerate().filter(|(_, pair)| begins_frame(pair)).filter_map(|(at, _)| {
        let segment = bytes.get(at + 4..)?;
        let frame = JpegFrame::read(segment)?;
        // Bytes that only look like a frame have another length, or another depth than 8 bits.
        let is_frame = u64::from(u16_be(bytes, at + 2)?) == 8 + 3 * frame.components && segment.first() == Some(&8);
        is_frame.then(|| frame.coefficient_bytes() + frame.coefficient_bytes() / 2)
    });
    frames.max().unwrap_or(0) + 3 * bytes.len() as u64
}

/// Returns `true` if the decoder may keep all coefficients until the last scan, as for progressive pictures and several
/// scans.
///
/// A thumbnail in the metadata counts too, so the estimate may be too high but never too low.
fn may_buffer_coefficients(bytes: &[u8]) -> bool {
    let markers = |marker: u8| bytes.windows(2).filter(move |pair| **pair == [0xFF, marker]);
    markers(0xC2).next().is_some() || markers(0xDA).nth(1).is_some()
}
