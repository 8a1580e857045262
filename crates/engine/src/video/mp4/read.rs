//! Reads videos from untrusted sources: checked against limits before decoding, with a specific error if unsupported.

use std::num::NonZeroU32;

use shiguredo_mp4::TrackKind;
use shiguredo_mp4::bitstream::h264::{parse_annexb_nal_units, parse_sps};
use shiguredo_mp4::boxes::{Avc1Box, SampleEntry};
use shiguredo_mp4::demux::{Input, Mp4FileDemuxer, Mp4FileKind, Mp4FileKindDetector, RequiredInput, Sample};

use super::work::{DECODED_PIXELS_MAX, Slices, too_many_pixels};
use super::{Packet, Sound, fragments, sps};
use crate::video::VideoError;
use crate::video::raster::Size;

/// Maximum size of a file in bytes.
pub const BYTES_MAX: usize = 512 << 20;
/// Maximum length of a video in seconds.
pub const SECONDS_MAX: u64 = 300;
/// Maximum number of pictures, and of packets of sound.
pub const SAMPLES_MAX: usize = 36_000;
/// Maximum number of pixels of a picture: 4096 by 2304.
const PIXELS_MAX: usize = 4096 * 2304;
/// Longest side of a picture in pixels.
const SIDE_MAX: usize = 8192;
/// Maximum number of reference pictures (H.264, A.3.1).
const REFERENCES_MAX: u32 = 16;
/// Maximum size of an encoded picture in bytes.
const SAMPLE_BYTES_MAX: usize = 32 << 20;

/// Structure of a video file: the positions of its pictures, and its sound.
#[derive(Debug)]
pub struct ParsedVideo {
    /// Size of the pictures.
    pub size: Size,
    /// Pictures in decoding order.
    pub units: Vec<AccessUnit>,
    /// Sound track, if there is one.
    pub sound: Option<Sound>,
    /// Ticks per second of the pictures.
    pub timescale: NonZeroU32,
    /// Parameter sets with start codes.
    pub parameter_sets: Vec<u8>,
    /// Pixels that a decoder holds at once: one coded picture and the reference pictures.
    pub kept_pixels: u64,
    /// Coded pixels of a picture.
    coded_pixels: u64,
    /// Number of bytes of the length before each part of a picture.
    length_bytes: usize,
}

/// Position and times of a coded picture in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessUnit {
    /// `true` for a key frame.
    pub key: bool,
    /// Presentation time in ticks.
    pub shown_at: u64,
    /// Duration in ticks.
    pub ticks: u32,
    /// Position of the first byte.
    offset: usize,
    /// Number of bytes.
    bytes: usize,
}

/// Returns an error with a code of the API and a message for the client.
fn rejected(code: &'static str, reason: impl Into<String>) -> VideoError {
    VideoError::Input { code, reason: reason.into() }
}

/// Returns the error for a file whose structure cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
pub(super) fn unreadable(error: impl ToString) -> VideoError {
    rejected("video_unreadable", format!("cannot read the video: {}", error.to_string()))
}

/// Returns the error for an unsupported video; `feature` completes the sentence "the video is".
pub(super) fn unsupported(feature: &str) -> VideoError {
    rejected(
        "video_unsupported",
        format!("the video is {feature}; only progressive H.264 with 8 bits and 4:2:0 in MP4 is supported"),
    )
}

impl ParsedVideo {
    /// Reads the structure of a file.
    ///
    /// # Errors
    /// Returns [`VideoError::Input`] if the file is not a supported video or exceeds a limit.
    pub fn parse(file: &[u8]) -> Result<Self, VideoError> {
        if file.len() > BYTES_MAX {
            return Err(rejected("video_too_large", format!("the video has more than {} MiB", BYTES_MAX >> 20)));
        }

        let mut demuxed = DemuxedVideo::default();

        match detect_kind(file)? {
            Mp4FileKind::Mp4 => demuxed.add_indexed_samples(file)?,
            Mp4FileKind::FragmentedMp4 => {
                // The first samples may precede the fragments.
                demuxed.add_indexed_samples(file)?;
                fragments::for_each_sample(file, |sample| demuxed.add_sample(file, sample))?;
            }
        }

        let mut video = demuxed.pictures.into_video()?;
        video.sound = demuxed.sound.map(|(_, sound)| sound).filter(|sound| sound.packets.len() <= SAMPLES_MAX);
        Ok(video)
    }

    /// Returns a picture as an access unit with start codes.
    ///
    /// # Errors
    /// If its parts are malformed, or it contains parameters that differ from the announced ones.
    pub fn access_unit(&self, file: &[u8], unit: &AccessUnit) -> Result<Vec<u8>, VideoError> {
        let mut remaining =
            file.get(unit.offset..unit.offset + unit.bytes).ok_or_else(|| unreadable("it is cut off"))?;
        let mut slices = Slices::default();
        let mut unit_bytes = if unit.key { self.parameter_sets.clone() } else { Vec::new() };
        unit_bytes.reserve(unit.bytes + 16);

        while !remaining.is_empty() {
            let (length, after) =
                remaining.split_at_checked(self.length_bytes).ok_or_else(|| unreadable("a picture is cut off"))?;
            let length = length.iter().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
            let (nal, after) = after.split_at_checked(length).ok_or_else(|| unreadable("a picture is cut off"))?;
            if sps::is_parameter_set(nal) {
                let announced = check_parameter_set(nal)?;
                if announced.size != self.size
                    || announced.kept_pixels > self.kept_pixels
                    || announced.coded_pixels > self.coded_pixels
                {
                    return Err(unsupported("made of parts with different descriptions"));
                }
            }
            slices.count(nal)?;
            if !nal.is_empty() {
                unit_bytes.extend([0, 0, 0, 1]);
                unit_bytes.extend(nal);
            }
            remaining = after;
        }

        Ok(unit_bytes)
    }

    /// Returns the duration in ticks.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        let start = self.start();
        self.units.iter().map(|unit| unit.shown_at + u64::from(unit.ticks) - start).max().unwrap_or(0)
    }

    /// Returns the presentation time of the first picture, in ticks.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.units.iter().map(|unit| unit.shown_at).min().unwrap_or(0)
    }
}

/// Returns the error for a video with too many seconds or pictures.
pub(super) fn too_long() -> VideoError {
    rejected(
        "video_too_long",
        format!("the video is longer than {SECONDS_MAX} seconds or has more than {SAMPLES_MAX} pictures"),
    )
}

/// Returns the requested bytes, as far as the file contains them.
pub(super) fn available_input(file: &[u8], required: RequiredInput) -> Input<'_> {
    let start = usize::try_from(required.position).unwrap_or(usize::MAX).min(file.len());
    let end = required.size.and_then(|size| start.checked_add(size)).unwrap_or(file.len()).min(file.len());
    Input { position: start as u64, data: &file[start..end] }
}

/// Maximum number of steps. Each requests the next box; an index needs fewer.
const STEPS_MAX: usize = 1024;

/// Returns the kind of the file: fragmented or not.
fn detect_kind(file: &[u8]) -> Result<Mp4FileKind, VideoError> {
    let mut detector = Mp4FileKindDetector::new();
    for _ in 0..STEPS_MAX {
        let Some(required) = detector.required_input() else { break };
        detector.handle_input(available_input(file, required));
    }
    detector.file_kind().map_err(unreadable)?.ok_or_else(|| unreadable("it has no index"))
}

/// Returns a demuxer that has read the index.
fn open_demuxer(file: &[u8]) -> Result<Mp4FileDemuxer, VideoError> {
    let mut demuxer = Mp4FileDemuxer::new();
    for _ in 0..STEPS_MAX {
        let Some(required) = demuxer.required_input() else { break };
        demuxer.handle_input(available_input(file, required));
    }
    demuxer.tracks().map_err(unreadable)?;
    Ok(demuxer)
}

/// A video being read.
#[derive(Default)]
struct DemuxedVideo {
    /// Number of samples so far.
    samples: usize,
    /// Sum of the sizes of the samples so far, in bytes.
    bytes: u64,
    pictures: Pictures,
    /// Id of the sound track, and its packets so far.
    sound: Option<(u32, Sound)>,
}

impl DemuxedVideo {
    /// Adds all samples of the index.
    fn add_indexed_samples(&mut self, file: &[u8]) -> Result<(), VideoError> {
        let mut demuxer = open_demuxer(file)?;
        while let Some(sample) = demuxer.next_sample().map_err(unreadable)? {
            self.add_sample(file, &sample)?;
        }
        Ok(())
    }

    /// Adds a picture or a packet of sound.
    fn add_sample(&mut self, file: &[u8], sample: &Sample<'_>) -> Result<(), VideoError> {
        self.samples += 1;
        if self.samples > 2 * SAMPLES_MAX {
            return Err(too_long());
        }

        let start = usize::try_from(sample.data_offset).map_err(unreadable)?;
        let end = start.checked_add(sample.data_size).ok_or_else(|| unreadable("a sample has no end"))?;
        let bytes = file.get(start..end).ok_or_else(|| unreadable("it is cut off"))?;

        // Sound is copied and pictures are decoded: samples that share bytes would multiply the work of a small file.
        self.bytes += bytes.len() as u64;
        if self.bytes > file.len() as u64 {
            return Err(unreadable("the same bytes are several samples"));
        }

        match sample.track.kind {
            TrackKind::Video => {
                let shown_at = sample.timestamp.saturating_add_signed(sample.composition_time_offset.unwrap_or(0));
                let unit = AccessUnit {
                    key: sample.keyframe,
                    shown_at,
                    ticks: sample.duration,
                    offset: start,
                    bytes: bytes.len(),
                };
                self.pictures.add_sample(unit, sample.track.track_id, sample.track.timescale, sample.sample_entry)?;
            }
            TrackKind::Audio => add_sound(&mut self.sound, bytes, sample),
            TrackKind::Subtitle => {}
        }

        Ok(())
    }
}

/// Keeps a packet of the first sound track whose packets can be copied unchanged.
fn add_sound(sound: &mut Option<(u32, Sound)>, bytes: &[u8], sample: &Sample<'_>) {
    let packet = Packet { bytes: bytes.to_vec(), ticks: sample.duration };
    let track = sample.track.track_id;

    match (sound, sample.sample_entry) {
        (Some((first, sound)), entry)
            if *first == track
                && sound.packets.len() <= SAMPLES_MAX
                && entry.is_none_or(|entry| *entry == sound.entry) =>
        {
            sound.packets.push(packet);
        }
        (slot @ None, Some(entry @ (SampleEntry::Mp4a(_) | SampleEntry::Opus(_)))) => {
            let timescale = sample.track.timescale;
            *slot = Some((track, Sound { entry: entry.clone(), timescale, packets: vec![packet] }));
        }
        // Another track, a second description, too many packets, or an unsupported codec.
        _ => {}
    }
}

/// The pictures read so far.
#[derive(Default)]
struct Pictures {
    /// Id and timescale of the track.
    track: Option<(u32, NonZeroU32)>,
    description: Option<Description>,
    units: Vec<AccessUnit>,
}

impl Pictures {
    /// Keeps a picture of the first track.
    fn add_sample(
        &mut self,
        unit: AccessUnit,
        track: u32,
        timescale: NonZeroU32,
        entry: Option<&SampleEntry>,
    ) -> Result<(), VideoError> {
        let (first, _) = *self.track.get_or_insert((track, timescale));
        if first != track {
            return Ok(());
        }

        if let Some(entry) = entry {
            let description = read_description(entry)?;
            if self.description.as_ref().is_some_and(|previous| *previous != description) {
                return Err(unsupported("made of parts with different descriptions"));
            }
            self.description = Some(description);
        }

        let end = unit.shown_at.saturating_add(u64::from(unit.ticks));
        if self.units.len() >= SAMPLES_MAX || end > SECONDS_MAX.saturating_mul(u64::from(timescale.get())) {
            return Err(too_long());
        }
        if unit.bytes > SAMPLE_BYTES_MAX {
            return Err(rejected("video_too_large", "a picture of the video is too large"));
        }
        self.units.push(unit);

        Ok(())
    }

    /// Checks the pictures as a whole and returns the video without sound.
    fn into_video(self) -> Result<ParsedVideo, VideoError> {
        let no_pictures = || rejected("video_unreadable", "the video has no pictures");
        let (_, timescale) = self.track.ok_or_else(no_pictures)?;
        let Description { announced, parameter_sets, length_bytes } = self.description.ok_or_else(no_pictures)?;
        let AnnouncedSizes { size, coded_pixels, kept_pixels } = announced;
        let pixels = coded_pixels.saturating_mul(self.units.len() as u64);

        if pixels > DECODED_PIXELS_MAX {
            let description = format!("the video has {} pictures of {size}", self.units.len());
            return Err(rejected("video_too_large", too_many_pixels(&description, pixels, DECODED_PIXELS_MAX)));
        }

        let video = ParsedVideo {
            size,
            units: self.units,
            sound: None,
            timescale,
            parameter_sets,
            kept_pixels,
            coded_pixels,
            length_bytes,
        };
        if video.ticks() == 0 || !video.units.first().is_some_and(|unit| unit.key) {
            return Err(rejected("video_unreadable", "the video does not begin with a whole picture"));
        }

        Ok(video)
    }
}

/// Sizes announced by a parameter set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AnnouncedSizes {
    /// Size of the visible part.
    size: Size,
    /// Number of pixels of a coded picture.
    coded_pixels: u64,
    /// Number of pixels that a decoder holds at once.
    kept_pixels: u64,
}

/// Description of the pictures in the index: announced sizes, parameter sets, and the number of bytes of a length.
#[derive(PartialEq, Eq)]
struct Description {
    announced: AnnouncedSizes,
    parameter_sets: Vec<u8>,
    length_bytes: usize,
}

/// Reads the description of the pictures; its sizes are the largest of all parameter sets.
fn read_description(entry: &SampleEntry) -> Result<Description, VideoError> {
    let avc1 = match entry {
        SampleEntry::Avc1(avc1) => avc1,
        SampleEntry::Hev1(_) | SampleEntry::Hvc1(_) => return Err(unsupported("HEVC")),
        SampleEntry::Vp08(_) => return Err(unsupported("VP8")),
        SampleEntry::Vp09(_) => return Err(unsupported("VP9")),
        SampleEntry::Av01(_) => return Err(unsupported("AV1")),
        _ => return Err(unsupported("in an unknown codec")),
    };

    let Avc1Box { avcc_box, .. } = avc1;
    let mut announced: Option<AnnouncedSizes> = None;

    for sps in &avcc_box.sps_list {
        let next = check_parameter_set(sps)?;
        let kept_pixels = announced.map_or(0, |before| before.kept_pixels).max(next.kept_pixels);
        let coded_pixels = announced.map_or(0, |before| before.coded_pixels).max(next.coded_pixels);
        announced = Some(AnnouncedSizes { coded_pixels, kept_pixels, ..next });
    }

    let mut parameter_sets = Vec::new();

    for set in avcc_box.sps_list.iter().chain(&avcc_box.pps_list) {
        parameter_sets.extend([0, 0, 0, 1]);
        parameter_sets.extend(set);
    }

    parse_annexb_nal_units(&parameter_sets).map_err(unreadable)?;
    let announced = announced.ok_or_else(|| unreadable("it has no description of its pictures"))?;
    Ok(Description { announced, parameter_sets, length_bytes: usize::from(avcc_box.length_size_minus_one.get()) + 1 })
}

/// Returns the sizes announced by a parameter set, if its pictures may be decoded.
fn check_parameter_set(sps: &[u8]) -> Result<AnnouncedSizes, VideoError> {
    let coding = parse_sps(sps).map_err(unreadable)?;
    if coding.bit_depth_luma_minus8 != 0 || coding.bit_depth_chroma_minus8 != 0 {
        return Err(unsupported("coded with more than 8 bits"));
    }
    if coding.chroma_format_idc != 1 {
        return Err(unsupported("coded with a chroma format other than 4:2:0"));
    }

    let size = Size { width: coding.width.into(), height: coding.height.into() };
    let coded = sps::parse_coding_properties(sps).ok_or_else(|| unreadable("it has no description of its pictures"))?;
    if coded.interlaced {
        return Err(unsupported("interlaced"));
    }

    // Cropped pixels are decoded too; a picture may be cropped by one block on each side.
    let pixels_max = (PIXELS_MAX + 16 * 2 * SIDE_MAX) as u64;
    if size.area() > PIXELS_MAX || size.width.max(size.height) > SIDE_MAX || coded.pixels > pixels_max {
        return Err(rejected("video_too_large", "the video has more than 4096 by 2304 pixels"));
    }
    if coded.references > REFERENCES_MAX {
        return Err(unreadable("it keeps more pictures than the standard allows"));
    }
    if size.width < 16 || size.height < 16 || !size.width.is_multiple_of(2) || !size.height.is_multiple_of(2) {
        return Err(unsupported("of an odd width or height, or narrower or lower than 16 pixels"));
    }

    Ok(AnnouncedSizes {
        size,
        coded_pixels: coded.pixels,
        kept_pixels: coded.pixels * (1 + u64::from(coded.references)),
    })
}

#[cfg(test)]
mod tests;
