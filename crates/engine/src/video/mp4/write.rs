//! Writes MP4 files: the index before the media, sound interleaved with pictures.

use std::num::NonZeroU32;

use shiguredo_mp4::bitstream::h264::{
    H264NalUnitType, H264SampleEntryConfig, LengthSize, build_avc1_box_from_annexb, parse_annexb_nal_units,
};
use shiguredo_mp4::boxes::{Avc1Box, SampleEntry, UnknownBox};
use shiguredo_mp4::mux::{Mp4FileMuxer, Mp4FileMuxerOptions, Sample, estimate_maximum_moov_box_size};
use shiguredo_mp4::{BoxSize, BoxType, TrackKind};

use super::{Packet, Sound};
use crate::video::codec::{CodecError, FPS};

/// Ticks per second of the pictures: one tick is a frame.
const FRAME_TIMESCALE: NonZeroU32 = NonZeroU32::new(FPS).expect("a second has frames");

/// Encoded pictures of a video, in groups that each begin with a key frame. Access units have start codes.
#[derive(Debug, Default)]
pub struct EncodedVideo {
    /// Access units of each group.
    pub groups: Vec<Vec<Vec<u8>>>,
}

/// Writes a video. Each group of pictures is followed by its sound.
///
/// # Errors
/// If the pictures are not an H.264 stream.
pub fn write(video: &EncodedVideo, sound: Option<&Sound>) -> Result<Vec<u8>, CodecError> {
    let frames: usize = video.groups.iter().map(Vec::len).sum();
    let packets = sound.map_or(0, |sound| sound.packets.len());
    let first =
        video.groups.first().and_then(|group| group.first()).ok_or_else(|| muxer_error("the video has no pictures"))?;
    let options = Mp4FileMuxerOptions {
        reserved_moov_box_size: estimate_maximum_moov_box_size(&[frames, packets]),
        ..Mp4FileMuxerOptions::default()
    };

    let muxer = Mp4FileMuxer::with_options(options).map_err(muxer_error)?;
    let mut muxed = MuxedVideo { bytes: muxer.initial_boxes_bytes().to_vec(), muxer };
    let mut entry = Some(SampleEntry::Avc1(build_description(first)?));
    let mut pending_packets = PendingSound::new(sound);
    let mut frames_shown = 0;

    for group in &video.groups {
        for (at, unit) in group.iter().enumerate() {
            muxed.append_picture(unit, at == 0, entry.take())?;
        }
        frames_shown += group.len() as u64;
        while let Some((packet, entry)) = pending_packets.next_before(frames_shown, frames_shown == frames as u64) {
            muxed.append_sound(packet, entry, pending_packets.timescale)?;
        }
    }

    muxed.finish()
}

/// Wraps an error of the muxer.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn muxer_error(error: impl ToString) -> CodecError {
    CodecError(error.to_string())
}

/// Returns the description of the stream with its colour space, which the codec does not write: BT.709, 16 to 235.
fn build_description(unit: &[u8]) -> Result<Avc1Box, CodecError> {
    let config = H264SampleEntryConfig { length_size: LengthSize::FourBytes };
    let mut description = build_avc1_box_from_annexb(unit, &config).map_err(muxer_error)?;
    let mut payload = b"nclx".to_vec();
    // Primaries, transfer and matrix of BT.709 (1 each, in two bytes), then the flag of the full range.
    payload.extend([0, 1, 0, 1, 0, 1, 0]);
    let box_size = BoxSize::U32(8 + payload.len() as u32);
    description.unknown_boxes.push(UnknownBox { box_type: BoxType::Normal(*b"colr"), box_size, payload });
    Ok(description)
}

/// Packets of sound that are not written yet.
struct PendingSound<'a> {
    packets: std::iter::Peekable<std::slice::Iter<'a, Packet>>,
    /// Description of the codec, until the first packet is written.
    entry: Option<SampleEntry>,
    timescale: NonZeroU32,
    /// Start of the next packet in ticks.
    at: u64,
}

impl<'a> PendingSound<'a> {
    fn new(sound: Option<&'a Sound>) -> Self {
        let packets: &[Packet] = sound.map_or(&[], |sound| &sound.packets);
        Self {
            packets: packets.iter().peekable(),
            entry: sound.map(|sound| sound.entry.clone()),
            timescale: sound.map_or(NonZeroU32::MIN, |sound| sound.timescale),
            at: 0,
        }
    }

    /// Returns the next packet if it begins before `frames` pictures have been shown, or if `is_end` is `true`. The
    /// first packet comes with the description of the codec.
    fn next_before(&mut self, frames: u64, is_end: bool) -> Option<(&'a Packet, Option<SampleEntry>)> {
        let is_due = is_end || self.at * u64::from(FPS) < frames * u64::from(self.timescale.get());
        let packet = self.packets.next_if(|_| is_due)?;
        self.at += u64::from(packet.ticks);
        Some((packet, self.entry.take()))
    }
}

/// A file being written.
struct MuxedVideo {
    /// Content of the file so far.
    bytes: Vec<u8>,
    muxer: Mp4FileMuxer,
}

impl MuxedVideo {
    /// Appends a picture without parameter sets, which are in the description.
    fn append_picture(
        &mut self,
        unit: &[u8],
        keyframe: bool,
        sample_entry: Option<SampleEntry>,
    ) -> Result<(), CodecError> {
        let start = self.bytes.len();
        for nal in parse_annexb_nal_units(unit).map_err(muxer_error)? {
            if !matches!(nal.nal_unit_type, H264NalUnitType::Sps | H264NalUnitType::Pps) {
                let length = u32::try_from(nal.data.len()).map_err(muxer_error)?;
                self.bytes.extend(length.to_be_bytes());
                self.bytes.extend(nal.data);
            }
        }
        self.append_sample(start, TrackKind::Video, sample_entry, keyframe, FRAME_TIMESCALE, 1)
    }

    /// Appends a packet of sound.
    fn append_sound(
        &mut self,
        packet: &Packet,
        sample_entry: Option<SampleEntry>,
        timescale: NonZeroU32,
    ) -> Result<(), CodecError> {
        let start = self.bytes.len();
        self.bytes.extend(&packet.bytes);
        self.append_sample(start, TrackKind::Audio, sample_entry, true, timescale, packet.ticks)
    }

    /// Describes the bytes from `start` on as a sample. `duration` is in ticks of `timescale`.
    fn append_sample(
        &mut self,
        start: usize,
        track_kind: TrackKind,
        sample_entry: Option<SampleEntry>,
        keyframe: bool,
        timescale: NonZeroU32,
        duration: u32,
    ) -> Result<(), CodecError> {
        let sample = Sample {
            track_kind,
            sample_entry,
            keyframe,
            timescale,
            duration,
            composition_time_offset: None,
            data_offset: start as u64,
            data_size: self.bytes.len() - start,
        };

        self.muxer.append_sample(&sample).map_err(muxer_error)
    }

    /// Writes the index into the space reserved for it and returns the file.
    fn finish(mut self) -> Result<Vec<u8>, CodecError> {
        let boxes = self.muxer.finalize().map_err(muxer_error)?;
        if !boxes.is_faststart_enabled() {
            return Err(muxer_error("no room for the index at the beginning of the video"));
        }
        for (offset, part) in boxes.offset_and_bytes_pairs() {
            let offset = usize::try_from(offset).map_err(muxer_error)?;
            self.bytes[offset..offset + part.len()].copy_from_slice(part);
        }
        Ok(self.bytes)
    }
}
