//! Renders a plan: prepares the shots, draws and encodes groups of frames on all cores, and writes the file.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::camera::{Track, random};
use super::codec::{Codec, EncodingQuality, FPS, H264, Yuv};
use super::extend::{self, Extension, SourceVideo};
use super::mood::Light;
use super::mp4::{self, EncodedVideo, Sound};
use super::plan::{Material, RenderedVideo, Transition, VideoPlan};
use super::raster::{Raster, Size};
use super::scene;
use super::shots::{Morph, Shot, StillShot};
use super::sound;
use super::view::View;
use super::watermark::PreparedWatermark;
use super::weather::WeatherLayer;
use super::words::{Mood, VideoKeywords, Weather};
use super::{RenderObserver, VideoError, compose};
use crate::encode::{ResultFormat, encode};
use crate::job::{StyleJob, StylePreset};
use crate::picture::{DecodedPicture, Pixels};
use crate::style::style;

/// Frames per group; fewer in short videos, so that at least two cores have work.
const GROUP_FRAMES: usize = 24;
/// Maximum number of pixels drawn and encoded for one video: 100 seconds of 1080p.
pub const DRAWN_PIXELS_MAX: u64 = 5_000_000_000;
/// Number of groups of a decoded video that are encoded at once; their frames are held in memory.
const SOURCE_GROUPS: usize = 4;

/// Renders a video.
///
/// # Errors
/// Returns [`VideoError::Input`] if an input video cannot be read, and [`VideoError::Cancelled`] if the observer
/// cancels the rendering.
pub fn render(plan: VideoPlan<'_>, observer: &dyn RenderObserver) -> Result<RenderedVideo, VideoError> {
    render_with(&H264, plan, observer)
}

/// Draws the frames of a video one by one, without watermark and without the video that it extends.
///
/// # Errors
/// Same as [`render`], and the errors of `on_frame`.
pub fn frames(plan: VideoPlan<'_>, mut on_frame: impl FnMut(&Yuv) -> Result<(), VideoError>) -> Result<(), VideoError> {
    let VideoPlan { size, seed, quality, .. } = plan;
    let keywords = VideoKeywords::from_prompt(&plan.prompt);
    let (_, parts) = prepare_parts(plan, &keywords, &H264)?;
    let prepared = PreparedVideo { codec: &H264, size, quality, seed, parts, watermark: None };
    (0..prepared.frame_count()).try_for_each(|at| on_frame(&Yuv::from_raster(&prepared.draw_frame(at))))
}

/// A shot with its overlays.
struct Part {
    /// Number of frames.
    frames: usize,
    shot: Box<dyn Shot>,
    weather: Vec<WeatherLayer>,
    moods: Vec<Mood>,
    /// Start in seconds from the first drawn frame; frames of an extended video do not count.
    start: f32,
}

/// A video whose shots are prepared.
struct PreparedVideo<'a> {
    codec: &'a dyn Codec,
    size: Size,
    quality: EncodingQuality,
    seed: u32,
    parts: Vec<Part>,
    watermark: Option<PreparedWatermark>,
}

/// A group of pictures as access units.
type Group = Vec<Vec<u8>>;

/// Renders with another codec; see [`render`].
pub(super) fn render_with(
    codec: &dyn Codec,
    plan: VideoPlan<'_>,
    observer: &dyn RenderObserver,
) -> Result<RenderedVideo, VideoError> {
    let VideoPlan { size, seed, quality, .. } = plan;
    let watermark = plan.watermark.as_ref().map(|watermark| PreparedWatermark::new(watermark, size));
    let keywords = VideoKeywords::from_prompt(&plan.prompt);
    let keywords = if plan.recommended { keywords.recommended() } else { keywords };
    let sound_plan = plan.sound.clone();

    let (source, parts) = prepare_parts(plan, &keywords, codec)?;
    let prepared = PreparedVideo { codec, size, quality, seed, parts, watermark };
    let frame_count = prepared.frame_count();
    let frames = frame_count + source.as_ref().map_or(0, SourceVideo::frames);
    let progress = Progress { observer, frames, frames_drawn: AtomicUsize::new(0) };

    let mut encoded = EncodedVideo::default();
    let mut cover = None;
    if let Some(source) = &source {
        prepared.encode_source(source, &progress, &mut cover, &mut encoded)?;
    }

    let group_frames = if frame_count <= 2 * GROUP_FRAMES { GROUP_FRAMES / 2 } else { GROUP_FRAMES };
    let group_starts: Vec<usize> = (0..frame_count).step_by(group_frames).collect();
    let groups: Vec<Result<Group, VideoError>> = group_starts
        .into_par_iter()
        .map(|group_start| prepared.render_group(group_start, (group_start + group_frames).min(frame_count), &progress))
        .collect();
    for group in groups {
        encoded.groups.push(group?);
    }

    let track = match source {
        Some(source) => source.into_sound(),
        None => sound_plan
            .map(|plan| sound::render_track(&plan, &keywords, frame_count, |share| prepared.speed(share), seed))
            .transpose()?,
    };
    let cover = cover.unwrap_or_else(|| prepared.draw_frame(0));
    prepared.finish(&encoded, track.as_ref(), &cover, frames)
}

/// Progress of a rendering.
struct Progress<'a> {
    observer: &'a dyn RenderObserver,
    /// Number of frames to draw.
    frames: usize,
    frames_drawn: AtomicUsize,
}

impl Progress<'_> {
    /// Counts a frame and reports every fourth. Fails if the rendering is cancelled.
    fn count_frame(&self) -> Result<(), VideoError> {
        if self.observer.is_cancelled() {
            return Err(VideoError::Cancelled);
        }
        let frames_drawn = self.frames_drawn.fetch_add(1, Ordering::Relaxed) + 1;
        if frames_drawn.is_multiple_of(4) {
            self.observer.report_progress(frames_drawn as f32 / (self.frames + 1) as f32);
        }
        Ok(())
    }
}

impl PreparedVideo<'_> {
    /// Encodes the video being extended at the size of the new video and stores its first frame in `cover`.
    fn encode_source(
        &self,
        source: &SourceVideo,
        progress: &Progress<'_>,
        cover: &mut Option<Raster>,
        encoded: &mut EncodedVideo,
    ) -> Result<(), VideoError> {
        // Groups of frames that wait for encoding.
        let mut pending: Vec<Vec<Yuv>> = vec![Vec::new()];
        let mut encode = |pending: &mut Vec<Vec<Yuv>>| -> Result<(), VideoError> {
            let frame_groups = std::mem::replace(pending, vec![Vec::new()]);
            let frame_groups = frame_groups.into_par_iter().filter(|frames| !frames.is_empty());
            let groups: Vec<Result<Group, VideoError>> =
                frame_groups.map(|frames| self.encode_frames(frames)).collect();
            groups.into_iter().try_for_each(|group| group.map(|group| encoded.groups.push(group)))
        };

        source.play(self.codec, self.size, |frame| {
            progress.count_frame()?;
            if cover.is_none() {
                *cover = Some(frame.to_raster());
            }
            let last = pending.len() - 1;
            pending[last].push(frame);
            if pending[last].len() == GROUP_FRAMES {
                if pending.len() == SOURCE_GROUPS {
                    return encode(&mut pending);
                }
                pending.push(Vec::new());
            }
            Ok(())
        })?;

        encode(&mut pending)
    }

    /// Adds the watermark to decoded frames and encodes them as one group.
    fn encode_frames(&self, frames: Vec<Yuv>) -> Result<Group, VideoError> {
        let mut encoder = self.codec.encoder(self.size, self.quality)?;
        let units = frames.into_iter().map(|mut frame| {
            if let Some(watermark) = &self.watermark {
                let mut marked = frame.to_raster();
                watermark.draw(&mut marked);
                frame = Yuv::from_raster(&marked);
            }
            encoder.encode(&frame).map_err(VideoError::from)
        });
        units.collect()
    }

    /// Draws and encodes one group of frames.
    fn render_group(&self, start: usize, end: usize, progress: &Progress<'_>) -> Result<Group, VideoError> {
        let mut encoder = self.codec.encoder(self.size, self.quality)?;
        let units = (start..end).map(|at| {
            progress.count_frame()?;
            let mut frame = self.draw_frame(at);
            if let Some(watermark) = &self.watermark {
                watermark.draw(&mut frame);
            }
            Ok(encoder.encode(&Yuv::from_raster(&frame))?)
        });
        units.collect()
    }

    /// Returns the number of frames of all shots.
    fn frame_count(&self) -> usize {
        self.parts.iter().map(|part| part.frames).sum()
    }

    /// Returns the shot that contains a frame, and the frame's index within it.
    fn find_part(&self, frame: usize) -> (&Part, usize) {
        let mut index = frame;
        for part in &self.parts[..self.parts.len() - 1] {
            if index < part.frames {
                return (part, index);
            }
            index -= part.frames;
        }
        (&self.parts[self.parts.len() - 1], index)
    }

    /// Draws a frame with its weather and light, without the watermark.
    fn draw_frame(&self, index: usize) -> Raster {
        let (part, at) = self.find_part(index);

        // The last frame of a shot precedes the first one of the next shot; the last shot includes its end.
        let is_last = self.parts.last().is_some_and(|last| std::ptr::eq(last, part));
        let share = at as f32 / (part.frames - usize::from(is_last)).max(1) as f32;
        let seconds = at as f32 / FPS as f32;

        let mut frame = Raster::new(self.size);
        let pose = part.shot.draw(seconds, share, &mut frame);

        let time = part.start + seconds;
        let length = self.frame_count() as f32 / FPS as f32;

        for weather in &part.weather {
            weather.draw(time, &pose, part.shot.depth(), &mut frame);
        }
        Light::from_moods(&part.moods, time, time / length, self.seed).apply(&mut frame);

        frame
    }

    /// Returns the speed of the camera at the fraction `share` of all shots, in half heights per second.
    fn speed(&self, share: f32) -> f32 {
        let (part, at) = self.find_part((share * self.frame_count() as f32) as usize);
        part.shot.speed((at as f32 / part.frames as f32).min(1.0))
    }

    /// Writes the MP4 file and encodes the cover as a JPEG file.
    fn finish(
        &self,
        encoded: &EncodedVideo,
        track: Option<&Sound>,
        cover: &Raster,
        frames: usize,
    ) -> Result<RenderedVideo, VideoError> {
        let cover = DecodedPicture { pixels: Pixels::Opaque(cover.to_image()), profile: None };
        let (cover, _) = encode(&cover, ResultFormat::Jpeg).map_err(|error| VideoError::Internal(error.to_string()))?;
        Ok(RenderedVideo { bytes: mp4::write(encoded, track)?, cover, size: self.size, frames })
    }
}

/// Settings with which pictures are prepared for a video.
struct PictureStyler {
    size: Size,
    anime: bool,
    enhance: bool,
    seed: u32,
}

impl PictureStyler {
    /// Returns the picture at a size and in the style of the video.
    fn prepare(&self, pixels: &Pixels, size: Size) -> Raster {
        let mut picture = Raster::from_pixels(pixels, size);
        if self.enhance {
            picture.enhance(1.0);
        }
        if self.anime { self.stylize(&picture) } else { picture }
    }

    /// Returns the picture as drawn animation: even colours, and ink along the edges.
    fn stylize(&self, picture: &Raster) -> Raster {
        let job = StyleJob { engine: StylePreset::ColorfulAnime, style_strength: 0.9, ..StyleJob::default() };
        let decoded = DecodedPicture { pixels: Pixels::Opaque(picture.to_image()), profile: None };
        Raster::from_pixels(&style(decoded, None, &job, self.seed).pixels, picture.size())
    }
}

/// Checks the number of drawn pixels, which depends on the length of the input video and not on its frame or file size.
fn check_drawn_pixels(frames: usize, size: Size) -> Result<(), VideoError> {
    let pixels = (frames as u64).saturating_mul(size.area() as u64);
    if pixels <= DRAWN_PIXELS_MAX {
        return Ok(());
    }
    let description = format!("the video would have {frames} frames of {size}");
    Err(VideoError::Input {
        code: "video_too_large",
        reason: mp4::too_many_pixels(&description, pixels, DRAWN_PIXELS_MAX),
    })
}

/// Prepares the shots of a video, and the video that it extends.
fn prepare_parts(
    plan: VideoPlan<'_>,
    keywords: &VideoKeywords,
    codec: &dyn Codec,
) -> Result<(Option<SourceVideo>, Vec<Part>), VideoError> {
    let VideoPlan { size, amplitude, seed, anime, enhance, .. } = plan;
    let styler = PictureStyler { size, anime, enhance, seed };
    let track_for = |keywords: &VideoKeywords, seconds: u32, seed: u32| {
        Track::from_keywords(keywords, amplitude, seconds as f32, seed)
    };
    let mut parts = PartList { list: Vec::new(), seed, start: 0.0 };
    let mut source = None;

    match plan.material {
        Material::Words { seconds } => {
            let mut view = scene::paint(keywords, &plan.prompt, size, seed);
            if anime {
                view.picture = styler.stylize(&view.picture);
            }
            let mut elements = keywords.elements.clone();
            elements.extend(scene::default_element(keywords).filter(|element| !keywords.elements.contains(element)));
            let still = StillShot { view, track: track_for(keywords, seconds, seed), elements };
            parts.add(seconds, keywords, Box::new(still));
        }
        Material::Still { picture, seconds } => {
            let view = View::from_picture(styler.prepare(&picture, size));
            let still =
                StillShot { view, track: track_for(keywords, seconds, seed), elements: keywords.elements.clone() };
            parts.add(seconds, keywords, Box::new(still));
        }
        Material::Transitions { start, transitions } => {
            let mut from = View::from_picture(styler.prepare(&start, size));
            for (index, transition) in (0..).zip(transitions) {
                let keywords = transition_keywords(keywords, &transition);
                let seconds = transition.seconds;
                let to = View::from_picture(styler.prepare(&transition.picture, size));
                let track = track_for(&keywords, seconds, seed.wrapping_add(index));
                // Between two equal pictures, the camera leaves the picture and returns to it.
                let shot: Box<dyn Shot> = if from.picture == to.picture {
                    Box::new(StillShot { view: from, track: track.returning(), elements: keywords.elements.clone() })
                } else {
                    Box::new(Morph::between(from, to.clone(), &track))
                };
                parts.add(seconds, &keywords, shot);
                from = to;
            }
        }
        Material::References { pictures, seconds } => {
            let pictures: Vec<Raster> =
                pictures.iter().map(|pixels| styler.prepare(pixels, compose::fit_size(pixels, styler.size))).collect();
            let composed = compose::compose(&pictures, keywords, &plan.prompt, size, seed);
            let track = composed.track(keywords, amplitude, seconds as f32, seed);
            let still = StillShot { view: composed.view, track, elements: Vec::new() };
            parts.add(seconds, keywords, Box::new(still));
        }
        Material::Footage { file, seconds, end } => {
            let video = SourceVideo::open(file)?;
            check_drawn_pixels(video.frames() + (seconds * FPS) as usize, size)?;
            let extension = Extension { keywords, amplitude, seconds, end: end.as_ref(), seed };
            let shot = extend::shot(&video, codec, size, &extension)?;
            parts.add(seconds, keywords, shot);
            source = Some(video);
        }
    }

    Ok((source, parts.list))
}

/// Returns the keywords for one transition: those of its own prompt, completed by those of the whole video.
fn transition_keywords(video_keywords: &VideoKeywords, transition: &Transition) -> VideoKeywords {
    let mut transition_keywords = VideoKeywords::from_prompt(&transition.prompt);
    if transition_keywords.moves.is_empty() && !transition_keywords.still {
        transition_keywords.moves.clone_from(&video_keywords.moves);
        transition_keywords.still = video_keywords.still;
    }
    if transition_keywords.weather.is_empty() {
        transition_keywords.weather.clone_from(&video_keywords.weather);
    }
    if transition_keywords.moods.is_empty() {
        transition_keywords.moods.clone_from(&video_keywords.moods);
    }
    transition_keywords
}

/// Prepared shots in their order.
struct PartList {
    list: Vec<Part>,
    seed: u32,
    /// Start of the next shot in seconds.
    start: f32,
}

impl PartList {
    /// Adds a shot with the weather and the moods of `keywords`.
    fn add(&mut self, seconds: u32, keywords: &VideoKeywords, shot: Box<dyn Shot>) {
        let strength = 0.8 + 0.5 * random(self.seed, 30);
        let weather = |kind: &Weather| WeatherLayer::new(*kind, strength, self.seed);
        self.list.push(Part {
            frames: (seconds * FPS) as usize,
            shot,
            weather: keywords.weather.iter().map(weather).collect(),
            moods: keywords.moods.clone(),
            start: self.start,
        });
        self.start += seconds as f32;
    }
}
