//! Fragmented MP4, as made by streaming and by recording in browsers. Fragments are read one by one, with a limited
//! number of samples.

use shiguredo_mp4::demux::{Fmp4FileDemuxer, Sample};

use super::read::{SAMPLES_MAX, available_input, too_long, unreadable};
use crate::video::VideoError;

/// Maximum number of boxes: a fragment takes four steps and contains at least one picture or packet of sound.
const STEPS_MAX: usize = 8 * SAMPLES_MAX;

/// Calls `on_sample` for every sample in decoding order.
///
/// # Errors
/// If the fragments cannot be read or announce too many samples, and the errors of `on_sample`.
pub(super) fn for_each_sample(
    file: &[u8],
    mut on_sample: impl FnMut(&Sample<'_>) -> Result<(), VideoError>,
) -> Result<(), VideoError> {
    let mut demuxer = Fmp4FileDemuxer::new();

    for _ in 0..STEPS_MAX {
        let required = loop {
            if let Some(required) = demuxer.required_input() {
                break required;
            }
            let Some(sample) = demuxer.next_sample().map_err(unreadable)? else { return Ok(()) };
            on_sample(&sample)?;
        };
        let input = available_input(file, required);
        if announced_samples(input.data) > 2 * SAMPLES_MAX as u64 {
            return Err(too_long());
        }
        demuxer.handle_input(input);
    }

    Err(too_long())
}

/// Returns a lower bound of the samples announced by the header of a fragment. A few bytes may announce millions, which
/// the library would trust. Everything that looks like a list of samples is counted.
fn announced_samples(fragment: &[u8]) -> u64 {
    let Some((length, kind)) = fragment.split_first_chunk::<4>() else { return 0 };
    if !kind.starts_with(b"moof") {
        return 0;
    }

    let length = match u32::from_be_bytes(*length) {
        // The length is in a later field, or extends to the end of the file.
        0 | 1 => fragment.len(),
        length => fragment.len().min(length as usize),
    };

    let header = &fragment[..length];
    let u32_at = |at: usize| header.get(at..)?.first_chunk().map(|bytes| u64::from(u32::from_be_bytes(*bytes)));
    let lists = header.windows(4).enumerate().filter(|(_, name)| name == b"trun");

    // Version and flags (4 bytes) precede the number of samples, as does a long length (8 bytes).
    lists.map(|(at, _)| u32_at(at + if u32_at(at.wrapping_sub(4)) == Some(1) { 16 } else { 8 }).unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::mp4::ParsedVideo;

    const FRAGMENTS: &[u8] = include_bytes!("../../../../../fuzz/seeds/video/fragments_aac.mp4");
    const REORDERED: &[u8] = include_bytes!("../../../../../fuzz/seeds/video/fragments_reordered.mp4");

    #[test]
    fn fragmented_videos_are_read_with_their_sound() {
        let video = ParsedVideo::parse(FRAGMENTS).unwrap();
        assert_eq!((video.size.width, video.size.height, video.units.len()), (64, 48, 12));
        // The encoder does not know the duration of the last picture of a fragment.
        assert_eq!(video.ticks() * 24 / u64::from(video.timescale.get()), 12);
        assert_eq!(video.units.iter().filter(|unit| unit.key).count(), 2);
        assert!(video.sound.is_some_and(|sound| sound.packets.len() > 20));
        let reordered = ParsedVideo::parse(REORDERED).unwrap();
        assert_eq!((reordered.units.len(), reordered.sound), (12, None));
        assert!(!reordered.units.is_sorted_by_key(|unit| unit.shown_at), "some pictures are shown after later ones");
    }

    fn with_number_of_samples(count: u32) -> Vec<u8> {
        let mut file = FRAGMENTS.to_vec();
        let at = file.windows(4).position(|name| name == b"trun").unwrap();
        file[at + 8..at + 12].copy_from_slice(&count.to_be_bytes());
        file
    }

    #[test]
    fn a_fragment_that_announces_millions_of_samples_is_rejected_early() {
        let code = |file: &[u8]| match ParsedVideo::parse(file) {
            Err(VideoError::Input { code, .. }) => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(&with_number_of_samples(16_000_000)), "video_too_long");
        assert_eq!(code(&with_number_of_samples(u32::MAX)), "video_too_long");
        assert_eq!(code(&with_number_of_samples(1000)), "video_unreadable");
    }

    #[test]
    fn a_long_box_length_does_not_hide_the_number_of_samples() {
        let short_form = b"\0\0\0\x20moof\0\0\0\x10trun\0\0\0\0\0\0\0\x05".as_slice();
        let long = b"\0\0\0\x28moof\0\0\0\x01trun\0\0\0\0\0\0\0\x18\0\0\0\0\0\0\0\x07".as_slice();
        assert_eq!([short_form, long, &short_form[..14], b"\0\0\0\x08mdat"].map(announced_samples), [5, 7, 0, 0]);
    }
}
