//! Tests with videos from other encoders.

use shiguredo_mp4::demux::TrackInfo;

use super::*;
use crate::video::codec::{Codec as _, EncodingQuality, H264, Yuv};
use crate::video::mp4::work::SLICES_MAX;
use crate::video::mp4::{EncodedVideo, write};
use crate::video::raster::Raster;

const VIDEO: &[u8] = include_bytes!("../../../../../../fuzz/seeds/video/reordered_aac.mp4");

#[test]
fn a_foreign_video_is_read_in_decoding_order() {
    let video = ParsedVideo::parse(VIDEO).unwrap();
    assert_eq!((video.size.width, video.size.height, video.units.len()), (64, 48, 12));
    assert!(!video.units.is_sorted_by_key(|unit| unit.shown_at));
    assert!(video.sound.is_some());
}

#[test]
fn only_the_first_of_two_sound_tracks_is_kept() {
    let entry = ParsedVideo::parse(VIDEO).unwrap().sound.unwrap().entry;
    let track = |track_id| TrackInfo { track_id, kind: TrackKind::Audio, duration: 0, timescale: NonZeroU32::MIN };
    let mut sound = None;

    // Interleaved as in a video. The first packet of each track has its description, which is the same.
    for (index, track) in [track(2), track(3), track(2), track(3)].iter().enumerate() {
        let sample = Sample {
            track,
            sample_entry: (index < 2).then_some(&entry),
            keyframe: true,
            timestamp: 0,
            duration: 1,
            data_offset: 0,
            data_size: 1,
            composition_time_offset: None,
        };
        add_sound(&mut sound, &[u8::try_from(track.track_id).unwrap()], &sample);
    }

    let packets: Vec<_> = sound.unwrap().1.packets.into_iter().map(|packet| packet.bytes).collect();
    assert_eq!(packets, [[2], [2]]);
}

#[test]
fn too_many_samples_are_rejected_before_they_are_copied() {
    let mut file = VIDEO.to_vec();
    let u32_at = |file: &[u8], at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());

    for at in 0..file.len() - 4 {
        match &file[at..at + 4] {
            // One size for all samples, and every chunk at the same offset.
            b"stsz" => file[at + 8..at + 12].copy_from_slice(&150_u32.to_be_bytes()),
            b"stco" => {
                for chunk in 0..u32_at(&file, at + 8) as usize {
                    file[at + 12 + 4 * chunk..at + 16 + 4 * chunk].copy_from_slice(&100_u32.to_be_bytes());
                }
            }
            _ => {}
        }
    }

    let Err(VideoError::Input { reason, .. }) = ParsedVideo::parse(&file) else { panic!("the video was accepted") };
    assert_eq!(reason, "cannot read the video: the same bytes are several samples");
}

/// Returns a video of nearly identical pictures of a few bytes each.
fn long_video(width: usize, height: usize, pictures: usize) -> Vec<u8> {
    let size = Size { width, height };
    let picture = Yuv::from_raster(&Raster::new(size));
    let mut encoder = H264.encoder(size, EncodingQuality::Compact).unwrap();
    let key = encoder.encode(&picture).unwrap();
    let next = encoder.encode(&picture).unwrap();
    let units = std::iter::once(key).chain(std::iter::repeat_n(next, pictures - 1)).collect();
    write(&EncodedVideo { groups: vec![units] }, None).unwrap()
}

#[test]
fn total_pixels_are_limited_regardless_of_file_size() {
    // Given a picture of 1280 by 720 pixels: 10,850 of them are ten billion pixels
    let allowed = long_video(1280, 720, 5000);
    assert!(ParsedVideo::parse(&allowed).is_ok());
    let file = long_video(2560, 1440, 4000);
    assert!(file.len() < 1 << 20, "{} bytes", file.len());

    let Err(VideoError::Input { code, reason }) = ParsedVideo::parse(&file) else { panic!("the video was accepted") };

    assert_eq!(code, "video_too_large");
    let message =
        "the video has 4000 pictures of 2560x1440, 14746 million pixels in all; at most 10000 million are allowed";
    assert_eq!(reason, message);
}

#[test]
fn a_sample_of_several_pictures_is_rejected() {
    let first_slice: [u8; 3] = [0x41, 0x9a, 0];
    let next_slice: [u8; 3] = [0x41, 0x5a, 0];
    let mut slices = Slices::default();
    assert!([first_slice, next_slice, next_slice].iter().all(|slice| slices.count(slice).is_ok()));
    assert!(slices.count(&[0x06, 0xFF]).is_ok(), "only slices are counted");
    assert!(slices.count(&first_slice).is_err(), "a second picture begins");
    let mut counter = Slices::default();
    let accepted = (0..1000).take_while(|_| counter.count(&next_slice).is_ok()).count();
    assert_eq!(accepted, SLICES_MAX);
}
