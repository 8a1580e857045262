//! Tests of whole videos of minimum size.

use std::sync::atomic::{AtomicUsize, Ordering};

use image::{Rgb, RgbImage};

use super::codec::{Codec as _, EncodingQuality, FPS, H264, Yuv};
use super::mp4::{EncodedVideo, ParsedVideo};
use super::raster::{Raster, Size};
use super::sound::SoundPlan;
use super::*;
use crate::picture::Pixels;

const SIZE: Size = Size { width: 96, height: 54 };

fn picture(seed: u32) -> Pixels {
    Pixels::Opaque(RgbImage::from_fn(120, 80, |x, y| {
        let in_box = x.abs_diff(40 + 20 * (seed % 3)) < 14 && y.abs_diff(45) < 18;
        let shade = (40 + x + y) as u8;
        if in_box { Rgb([220, 90, 40]) } else { Rgb([shade, shade / 2 + 60, 200 - shade / 2]) }
    }))
}

fn plan(material: Material, prompt: &str) -> VideoPlan<'static> {
    VideoPlan {
        size: SIZE,
        material,
        prompt: prompt.to_owned(),
        amplitude: MotionAmount::Medium,
        seed: 7,
        anime: false,
        enhance: false,
        recommended: false,
        quality: EncodingQuality::High,
        watermark: None,
        sound: None,
    }
}

fn still_plan(prompt: &str) -> VideoPlan<'static> {
    plan(Material::Still { picture: picture(0), seconds: 1 }, prompt)
}

fn render_plan(plan: VideoPlan<'_>) -> RenderedVideo {
    render(plan, &()).unwrap()
}

#[test]
fn a_video_has_its_size_length_and_colours_and_starts_before_it_is_loaded() {
    let rendered = render_plan(still_plan("pan right"));
    assert_eq!((rendered.size, rendered.frames), (SIZE, 24));
    let video = ParsedVideo::parse(&rendered.bytes).unwrap();
    assert_eq!((video.size, video.units.len()), (SIZE, 24));
    assert_eq!(video.ticks() * u64::from(FPS), 24 * u64::from(video.timescale.get()));
    let at = |name: &[u8]| rendered.bytes.windows(name.len()).position(|bytes| bytes == name).unwrap();
    assert!(at(b"moov") < at(b"mdat"), "the index comes first");
    assert_eq!(rendered.bytes[at(b"nclx") + 4..][..7], [0, 1, 0, 1, 0, 1, 0], "BT.709, 16 to 235");
    assert!(video.units[0].key);
    assert!(!video.units[1].key);
    assert!(video.units[12].key);
    assert_eq!(image::load_from_memory(&rendered.cover).unwrap().width(), 96);
}

#[test]
fn the_same_plan_gives_the_same_bytes_whatever_the_number_of_threads() {
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| render_plan(still_plan("orbit in the snow")))
    };
    let rendered = with_threads(1);
    assert_eq!(rendered, with_threads(3));
    assert_ne!(rendered.bytes, render_plan(VideoPlan { seed: 8, ..still_plan("orbit in the snow") }).bytes);
}

#[test]
fn amplitude_prompt_and_style_change_the_video() {
    let base = render_plan(still_plan("pan right"));
    let large = render_plan(VideoPlan { amplitude: MotionAmount::Large, ..still_plan("pan right") });
    let rain = render_plan(still_plan("pan right in the rain"));
    let enhanced = render_plan(VideoPlan { enhance: true, ..still_plan("pan right") });
    let compact = render_plan(VideoPlan { quality: EncodingQuality::Compact, ..still_plan("pan right") });
    assert_eq!(base.cover, large.cover);
    assert!(base.bytes != large.bytes);
    assert!(base.bytes != rain.bytes);
    assert!(base.cover != enhanced.cover);
    assert!(compact.bytes.len() < base.bytes.len());
    assert_ne!(render_plan(VideoPlan { anime: true, ..still_plan("pan right") }).cover, base.cover);
}

#[test]
fn the_watermark_is_in_the_video_and_not_on_the_cover() {
    let watermark = || Watermark { position: WatermarkCorner::TopLeft, picture: None };
    let unmarked = render_plan(still_plan("static"));
    let marked = render_plan(VideoPlan { watermark: Some(watermark()), ..still_plan("static") });
    assert!(marked.bytes != unmarked.bytes);
    assert!(marked.cover == unmarked.cover);

    let with_watermark = |watermark| {
        render_plan(VideoPlan {
            watermark,
            ..plan(Material::Footage { file: unmarked.bytes.clone(), seconds: 1, end: None }, "")
        })
        .bytes
    };
    assert_ne!(with_watermark(Some(watermark())), with_watermark(None));
}

#[test]
fn sound_is_as_long_as_the_video() {
    let sound = SoundPlan { audio: Some(SoundContent::All), voice_id: None, background_music: None };
    let rendered = render_plan(VideoPlan { sound: Some(sound), ..still_plan("a storm") });
    let sound = ParsedVideo::parse(&rendered.bytes).unwrap().sound.unwrap();
    assert_eq!((sound.timescale.get(), sound.packets.len()), (48_000, 50));
    assert!(sound.packets.iter().all(|packet| packet.ticks == 960));
    assert!(ParsedVideo::parse(&render_plan(still_plan("a storm")).bytes).unwrap().sound.is_none());
}

#[test]
fn transitions_are_concatenated_and_a_prompt_alone_suffices() {
    let transition = |seed, seconds| Transition { picture: picture(seed), seconds, prompt: String::new() };
    let rendered = render_plan(plan(
        Material::Transitions { start: picture(0), transitions: vec![transition(1, 1), transition(2, 2)] },
        "zoom in",
    ));
    assert_eq!(rendered.frames, 72);
    let from_words = render_plan(plan(Material::Words { seconds: 1 }, "a calm sea at sunset"));
    let references = Material::References { pictures: vec![picture(0), picture(1)], seconds: 1 };
    assert_eq!((from_words.frames, render_plan(plan(references, "a forest")).frames), (24, 24));
}

#[test]
fn an_extended_video_continues_sound_and_motion() {
    let sound = SoundPlan { audio: Some(SoundContent::SoundEffectOnly), voice_id: None, background_music: None };
    let first = render_plan(VideoPlan { sound: Some(sound), ..still_plan("fast pan right") });
    let extended_to = |end| plan(Material::Footage { file: first.bytes.clone(), seconds: 1, end }, "");
    let longer = render_plan(extended_to(None));
    let before = ParsedVideo::parse(&first.bytes).unwrap();
    let after = ParsedVideo::parse(&longer.bytes).unwrap();
    assert_eq!((longer.frames, after.units.len()), (48, 48));
    assert_eq!(before.sound, after.sound);
    assert_ne!(longer.bytes, render_plan(extended_to(Some(picture(2)))).bytes);
    let small_plan = VideoPlan { size: Size { width: 64, height: 48 }, ..extended_to(None) };
    assert_eq!(ParsedVideo::parse(&render_plan(small_plan).bytes).unwrap().size, Size { width: 64, height: 48 });
}

/// Observer that cancels after a number of frames.
struct CancelAfter {
    calls_max: usize,
    calls: AtomicUsize,
}

impl CancelAfter {
    fn frames(calls_max: usize) -> Self {
        Self { calls_max, calls: AtomicUsize::new(0) }
    }
}

impl RenderObserver for CancelAfter {
    fn report_progress(&self, share: f32) {
        assert!((0.0..=1.0).contains(&share));
    }

    fn is_cancelled(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) >= self.calls_max
    }
}

#[test]
fn a_cancelled_video_is_not_rendered() {
    assert_eq!(render(still_plan(""), &CancelAfter::frames(5)), Err(VideoError::Cancelled));
}

fn code_of(file: Vec<u8>) -> &'static str {
    match render(plan(Material::Footage { file, seconds: 1, end: None }, ""), &()) {
        Err(VideoError::Input { code, .. }) => code,
        Err(error) => panic!("{error}"),
        Ok(_) => "rendered",
    }
}

#[test]
fn other_files_are_rejected_with_a_code() {
    let rendered = render_plan(still_plan("")).bytes;
    let with_replaced = |from: &[u8], to: &[u8]| {
        let mut other = rendered.clone();
        let at = other.windows(from.len()).position(|bytes| bytes == from).unwrap();
        other[at..at + to.len()].copy_from_slice(to);
        other
    };
    assert_eq!(code_of(Vec::new()), "video_unreadable");
    assert_eq!(code_of(b"GIF89a".repeat(20)), "video_unreadable");
    assert_eq!(code_of(rendered[..rendered.len() / 2].to_vec()), "video_unreadable");
    assert_eq!(code_of(with_replaced(b"avc1\0\0\0\0\0\0\0\x01", b"xvid")), "video_unsupported");
    assert!(code_of(rendered.clone()) == "rendered");
}

#[test]
fn the_total_pixels_of_a_long_video_are_limited() {
    // Given a video of 300 seconds in less than a megabyte
    let size = Size { width: 16, height: 16 };
    let picture = Yuv::from_raster(&Raster::new(size));
    let mut encoder = H264.encoder(size, EncodingQuality::Compact).unwrap();
    let key = encoder.encode(&picture).unwrap();
    let next = encoder.encode(&picture).unwrap();
    let frames = 300 * FPS as usize;
    let units = std::iter::once(key).chain(std::iter::repeat_n(next, frames - 1)).collect();
    let file = mp4::write(&EncodedVideo { groups: vec![units] }, None).unwrap();
    assert!(file.len() < 1 << 20, "{} bytes", file.len());

    // When it is extended at another size
    let footage = Material::Footage { file, seconds: 1, end: None };
    let result = render(VideoPlan { size: Size { width: 1080, height: 1080 }, ..plan(footage, "") }, &());

    // Then nothing is drawn, and the error contains the numbers
    let reason =
        "the video would have 7224 frames of 1080x1080, 8427 million pixels in all; at most 5000 million are allowed";
    assert_eq!(result.unwrap_err(), VideoError::Input { code: "video_too_large", reason: reason.to_owned() });
}
