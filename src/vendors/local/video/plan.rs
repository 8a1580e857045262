//! Plan of a video with all its inputs.

use super::codec::Effort;
use super::raster::Size;
use super::sound::SoundPlan;
use crate::domain::video::{AspectRatio, MovementAmplitude, Resolution, WatermarkPosition};
use crate::media::input::Pixels;

/// Video to render.
pub struct Plan<'a> {
    pub size: Size,
    pub material: Material,
    pub prompt: String,
    pub amplitude: MovementAmplitude,
    pub seed: u32,
    /// `true` for drawn animation with ink lines and flat colours.
    pub anime: bool,
    pub enhance: bool,
    /// `true` if the engine adds its recommendations to the prompt.
    pub recommended: bool,
    pub effort: Effort,
    pub stamp: Option<Stamp>,
    /// Sound, or `None` for a silent video. An extended video keeps its own sound.
    pub sound: Option<SoundPlan<'a>>,
}

/// Source material of a video.
pub enum Material {
    /// Prompt without pictures.
    Words { seconds: u32 },
    /// First frame.
    Still { picture: Pixels, seconds: u32 },
    /// First frame and the key frames that follow.
    Legs { start: Pixels, legs: Vec<Leg> },
    /// Objects to appear.
    References { pictures: Vec<Pixels>, seconds: u32 },
    /// Existing video (an MP4 file) to extend.
    Footage { file: Vec<u8>, seconds: u32, end: Option<Pixels> },
}

/// Transition to a key frame.
pub struct Leg {
    pub picture: Pixels,
    pub seconds: u32,
    /// Prompt of this transition, in addition to that of the video.
    pub prompt: String,
}

/// Watermark.
pub struct Stamp {
    pub position: WatermarkPosition,
    /// Custom mark; the default mark if absent.
    pub picture: Option<Pixels>,
}

/// Rendered video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Film {
    /// MP4 file, including the watermark.
    pub bytes: Vec<u8>,
    /// First frame as a JPEG file.
    pub cover: Vec<u8>,
    pub size: Size,
    /// Number of frames, [`super::codec::FPS`] per second.
    pub frames: usize,
}

/// Maximum aspect ratio of pictures, as the API allows.
const RATIO_MAX: f64 = 4.0;

/// Returns the size of a video. The resolution is the shorter side; the aspect ratio is the requested one, otherwise
/// that of a picture.
#[must_use]
pub fn size_of(resolution: Resolution, ratio: Option<AspectRatio>, picture: Option<(u32, u32)>) -> Size {
    let sides = |ratio: AspectRatio| (f64::from(ratio.sides().0), f64::from(ratio.sides().1));
    let (width, height) = match (ratio, picture) {
        (Some(ratio), _) => sides(ratio),
        (None, Some((width, height))) => (f64::from(width.max(1)), f64::from(height.max(1))),
        (None, None) => sides(AspectRatio::USUAL),
    };

    let ratio = (width / height).clamp(1.0 / RATIO_MAX, RATIO_MAX);

    let lines = resolution.lines() as usize;
    let other = |ratio: f64| 2 * (lines as f64 * ratio / 2.0).round() as usize;

    if ratio >= 1.0 {
        Size { width: other(ratio), height: lines }
    } else {
        Size { width: lines, height: other(1.0 / ratio) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_resolution_and_ratio_and_are_even() {
        let size = |resolution, ratio: &str| {
            let Size { width, height } = size_of(resolution, AspectRatio::parse(ratio).ok(), None);
            (width, height)
        };
        for (resolution, wide, high, square, cinema) in [
            (Resolution::P360, (640, 360), (360, 640), (360, 360), (840, 360)),
            (Resolution::P540, (960, 540), (540, 960), (540, 540), (1260, 540)),
            (Resolution::P720, (1280, 720), (720, 1280), (720, 720), (1680, 720)),
            (Resolution::P1080, (1920, 1080), (1080, 1920), (1080, 1080), (2520, 1080)),
            (Resolution::K2, (2560, 1440), (1440, 2560), (1440, 1440), (3360, 1440)),
        ] {
            assert_eq!(
                ["16:9", "9:16", "1:1", "21:9"].map(|ratio| size(resolution, ratio)),
                [wide, high, square, cinema]
            );
        }
        assert_eq!((size(Resolution::P720, "4:3"), size(Resolution::P720, "3:4")), ((960, 720), (720, 960)));
        for width in 1..=100 {
            let size = size_of(Resolution::P360, None, Some((width, 37)));
            assert!(
                size.width.is_multiple_of(2) && size.height.is_multiple_of(2) && size.width.min(size.height) == 360
            );
        }
    }
}
