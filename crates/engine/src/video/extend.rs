//! Extension of a video: the decoded original, then its last picture with continued motion.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::VideoError;
use super::camera::{Pose, Track};
use super::codec::{Codec, FPS, Yuv};
use super::mp4::{ParsedVideo, Sound};
use super::optical::{GlobalMotion, OpticalFlow};
use super::plan::size_of;
use super::raster::{Raster, Size};
use super::shots::{Morph, Shot, StillShot};
use super::view::View;
use super::words::VideoKeywords;
use crate::picture::Pixels;
use crate::video::MotionAmount;

/// Video to extend.
pub struct SourceVideo {
    file: Vec<u8>,
    video: ParsedVideo,
}

/// Maximum number of pictures that wait for an earlier one, as many as a stream may hold back.
const HELD_MAX: usize = 17;
/// Distance in frames of the pictures that are compared to estimate the motion.
const COMPARED_DISTANCE: usize = 6;

impl SourceVideo {
    /// Parses a file.
    ///
    /// # Errors
    /// Returns [`VideoError::Input`] if the file cannot be read.
    pub fn open(file: Vec<u8>) -> Result<Self, VideoError> {
        let video = catch_unwind(AssertUnwindSafe(|| ParsedVideo::parse(&file))).unwrap_or_else(|_| Err(damaged()))?;
        Ok(Self { file, video })
    }

    /// Returns the number of frames at [`FPS`].
    #[must_use]
    pub fn frames(&self) -> usize {
        let ticks = u64::from(self.video.timescale.get());
        ((self.video.ticks() * u64::from(FPS) + ticks / 2) / ticks).max(1) as usize
    }

    /// Plays the video at a size and at [`FPS`].
    ///
    /// # Errors
    /// Returns [`VideoError::Input`] if a picture cannot be decoded, and any error of `on_frame`.
    pub fn play(
        &self,
        codec: &dyn Codec,
        size: Size,
        mut on_frame: impl FnMut(Yuv) -> Result<(), VideoError>,
    ) -> Result<(), VideoError> {
        let start = self.video.start();
        let timescale = u64::from(self.video.timescale.get());
        let frames = self.frames();
        let mut frame_count = 0;

        let mut last: Option<Yuv> = None;

        self.decode(codec, 0, |time, picture| {
            // The previous picture is displayed until this one.
            let frame_end = ((time - start) * u64::from(FPS)).div_ceil(timescale) as usize;
            if let Some(before) = &last {
                while frame_count < frame_end.min(frames) {
                    on_frame(before.clone())?;
                    frame_count += 1;
                }
            }
            last = Some(fit_to(picture, size));
            Ok(())
        })?;

        let last = last.ok_or_else(damaged)?;

        while frame_count < frames {
            on_frame(last.clone())?;
            frame_count += 1;
        }

        Ok(())
    }

    /// Returns the last pictures, at most [`COMPARED_DISTANCE`] + 1, in display order.
    fn last_frames(&self, codec: &dyn Codec, size: Size) -> Result<Vec<Yuv>, VideoError> {
        let units = &self.video.units;
        let first_unit = units.len().saturating_sub(COMPARED_DISTANCE + 1);
        let from = (0..=first_unit).rev().find(|at| units[*at].key).unwrap_or(0);

        let mut recent: Vec<Yuv> = Vec::new();
        self.decode(codec, from, |_, picture| {
            if recent.len() > COMPARED_DISTANCE {
                recent.remove(0);
            }
            recent.push(picture);
            Ok(())
        })?;

        Ok(recent.into_iter().map(|picture| fit_to(picture, size)).collect())
    }

    /// Returns the number of pictures per second.
    fn pictures_per_second(&self) -> f32 {
        let seconds = self.video.ticks() as f32 / self.video.timescale.get() as f32;
        self.video.units.len() as f32 / seconds.max(1e-3)
    }

    /// Decodes the pictures, starting at the key frame with index `from`. Calls `on_frame` in display order with the
    /// display time in ticks and the picture. A panic of the codec counts as a damaged file.
    fn decode(
        &self,
        codec: &dyn Codec,
        from: usize,
        mut on_frame: impl FnMut(u64, Yuv) -> Result<(), VideoError>,
    ) -> Result<(), VideoError> {
        let mut decoder = codec.decoder();
        // Decoded pictures that wait for one displayed earlier, with their display times in ticks.
        let mut waiting: Vec<(u64, Yuv)> = Vec::new();
        let units = &self.video.units[from..];
        // The file lists the display times, so the order is known before the pictures are decoded.
        let mut pending: Vec<u64> = units.iter().map(|unit| unit.shown_at).collect();
        pending.sort_unstable();
        let mut due = pending.into_iter().peekable();

        for unit in units {
            let bytes = self.video.access_unit(&self.file, unit)?;
            let decoded = catch_unwind(AssertUnwindSafe(|| decoder.decode(&bytes)));
            let decoded = decoded.map_err(|_| damaged())?.map_err(|error| VideoError::Input {
                code: "video_undecodable",
                reason: format!("the video cannot be decoded: {error}"),
            })?;

            let Some((_, picture)) = decoded else { continue };
            if picture.size != self.video.size {
                return Err(damaged());
            }

            waiting.push((unit.shown_at, picture));

            while let Some(next) = due.peek().copied() {
                // A time whose picture never comes must not hold back all others.
                let shown_next = waiting.iter().position(|(shown, _)| *shown == next);
                let Some(at) = shown_next.or_else(|| (waiting.len() > HELD_MAX).then(|| earliest(&waiting))) else {
                    break;
                };
                let (shown, picture) = waiting.swap_remove(at);
                on_frame(shown.max(next), picture)?;
                due.next();
            }
        }

        while !waiting.is_empty() {
            let (shown, picture) = waiting.swap_remove(earliest(&waiting));
            on_frame(shown, picture)?;
        }

        Ok(())
    }

    /// Returns the unchanged sound track.
    #[must_use]
    pub fn into_sound(self) -> Option<Sound> {
        self.video.sound
    }
}

/// Returns the index of the picture that is displayed first.
fn earliest(waiting: &[(u64, Yuv)]) -> usize {
    (0..waiting.len()).min_by_key(|at| waiting[*at].0).unwrap_or(0)
}

/// Returns the error for a video that the codec cannot decode.
fn damaged() -> VideoError {
    VideoError::Input { code: "video_undecodable", reason: "the video is damaged".to_owned() }
}

/// Returns the size of the extended video with its own aspect ratio and `lines` pixels on the shorter side, or `None`
/// if the file cannot be read.
#[must_use]
pub fn footage_size(file: &[u8], lines: u32) -> Option<Size> {
    let video = catch_unwind(AssertUnwindSafe(|| ParsedVideo::parse(file))).ok()?.ok()?;
    Some(size_of(lines, None, Some((video.size.width as u32, video.size.height as u32))))
}

/// Returns the memory in bytes for pictures while a video is decoded: those of the decoder and those that wait. Returns
/// `None` if the file cannot be read.
#[must_use]
pub fn footage_bytes(file: &[u8]) -> Option<u64> {
    let video = catch_unwind(AssertUnwindSafe(|| ParsedVideo::parse(file))).ok()?.ok()?;
    let buffered_bytes = (HELD_MAX + 1 + COMPARED_DISTANCE + 1) as u64 * video.size.area() as u64;
    // One byte of luma per pixel, and two of chroma per four pixels.
    Some((video.kept_pixels + buffered_bytes) * 3 / 2)
}

/// Resizes a decoded picture if necessary.
fn fit_to(picture: Yuv, size: Size) -> Yuv {
    if picture.size == size { picture } else { Yuv::from_raster(&picture.to_raster().resize_to_cover(size)) }
}

/// Continuation of a video.
pub struct Extension<'a> {
    pub keywords: &'a VideoKeywords,
    pub amplitude: MotionAmount,
    /// Length to add, in seconds.
    pub seconds: u32,
    /// Last frame, if one is given.
    pub end: Option<&'a Pixels>,
    pub seed: u32,
}

/// Returns the shot after a video. It starts at the last picture and continues the motion of the camera, or leads to
/// the end frame, if there is one.
///
/// # Errors
/// Returns the same errors as [`SourceVideo::play`].
pub fn shot(
    source: &SourceVideo,
    codec: &dyn Codec,
    size: Size,
    extension: &Extension<'_>,
) -> Result<Box<dyn Shot>, VideoError> {
    let Extension { keywords, amplitude, seconds, end, seed } = *extension;
    let recent = source.last_frames(codec, size)?;
    let [Some(before), Some(last)] = [recent.first(), recent.last()] else { return Err(damaged()) };

    let picture = last.to_raster();
    let rate = source.pictures_per_second() / (recent.len() - 1).max(1) as f32;
    let velocity = (recent.len() > 1).then(|| Velocity::between(&before.to_raster(), &picture, rate));

    let view = View::from_picture(picture);
    let length = seconds as f32;
    let own_track = Track::from_keywords(keywords, amplitude, length, seed);

    if let Some(end) = end {
        return Ok(Box::new(Morph::between(view, View::from_picture(Raster::from_pixels(end, size)), &own_track)));
    }

    let track = match velocity.filter(|_| keywords.moves.is_empty() && !keywords.still) {
        Some(velocity) if velocity.is_motion() => velocity.continued(length),
        _ => own_track,
    };

    Ok(Box::new(StillShot { view, track, elements: keywords.elements.clone() }))
}

/// Velocity of a camera per second.
#[derive(Debug, Clone, Copy)]
struct Velocity {
    /// Shift in half heights.
    shift: [f32; 2],
    /// Natural logarithm of the magnification.
    zoom_rate: f32,
    /// Clockwise rotation in radians.
    rotation_rate: f32,
}

impl Velocity {
    /// Estimates the velocity from two pictures; `rate` is the number of intervals between two such pictures per
    /// second.
    fn between(before: &Raster, last: &Raster, rate: f32) -> Self {
        let GlobalMotion { shift, zoom, rotation } = OpticalFlow::between(before, last).global_motion();
        // Objects that move to the left mean a camera that moves to the right.
        Self {
            shift: shift.map(|part| -rate * part),
            zoom_rate: rate * zoom.max(0.2).ln(),
            rotation_rate: rate * rotation,
        }
    }

    /// Returns `true` if the motion exceeds compression noise.
    fn is_motion(&self) -> bool {
        self.shift[0].hypot(self.shift[1]) > 0.012 || self.zoom_rate.abs() > 0.01 || self.rotation_rate.abs() > 0.008
    }

    /// Returns a motion that continues and decelerates.
    fn continued(&self, seconds: f32) -> Track {
        // Distance of a uniform deceleration, limited to the area that the picture provides.
        let distance = 0.5 * seconds;

        let zoom = (self.zoom_rate * distance).clamp(-0.5, 0.5);
        let limited = |value: f32, maximum: f32| (value * distance).clamp(-maximum, maximum);

        Track::slowing(
            Pose {
                shift: [limited(self.shift[0], 0.45), limited(self.shift[1], 0.3)],
                drift: [limited(self.shift[0], 0.12), limited(self.shift[1], 0.1), 0.0],
                zoom: zoom.exp(),
                rotation: limited(self.rotation_rate, 0.25),
            },
            seconds,
        )
    }
}
