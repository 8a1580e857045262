//! Plan of a video with all its inputs.

use super::codec::EncodingQuality;
use super::raster::Size;
use super::sound::SoundPlan;
use crate::picture::Pixels;

/// Video to render.
pub struct VideoPlan<'a> {
    /// Size of the frames; both sides are even.
    pub size: Size,
    /// Source material, with the length of the video.
    pub material: Material,
    /// Keywords for the camera, the weather, the light and the scene.
    pub prompt: String,
    /// Amount of camera motion.
    pub amplitude: MotionAmount,
    /// Seed of everything random.
    pub seed: u32,
    /// `true` for drawn animation with ink lines and flat colours.
    pub anime: bool,
    /// `true` to enhance the pictures first.
    pub enhance: bool,
    /// `true` if the engine adds its recommendations to the prompt.
    pub recommended: bool,
    /// Quality of the encoding.
    pub quality: EncodingQuality,
    /// Watermark, if any.
    pub watermark: Option<Watermark>,
    /// Sound, or `None` for a silent video. An extended video keeps its own sound.
    pub sound: Option<SoundPlan<'a>>,
}

/// Amount of camera motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MotionAmount {
    /// Chosen by the engine: slightly less than medium.
    Auto,
    /// Little.
    Small,
    /// Usual.
    Medium,
    /// Much.
    Large,
}

/// Corner of a watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatermarkCorner {
    /// Top left.
    TopLeft,
    /// Top right.
    TopRight,
    /// Bottom right.
    BottomRight,
    /// Bottom left.
    BottomLeft,
}

/// Source material of a video.
pub enum Material {
    /// Prompt without pictures.
    Words {
        /// Length in seconds.
        seconds: u32,
    },
    /// First frame.
    Still {
        /// The first frame.
        picture: Pixels,
        /// Length in seconds.
        seconds: u32,
    },
    /// First frame and the key frames that follow.
    Transitions {
        /// The first frame.
        start: Pixels,
        /// Transitions to the key frames.
        transitions: Vec<Transition>,
    },
    /// Objects to appear.
    References {
        /// One picture for each object.
        pictures: Vec<Pixels>,
        /// Length in seconds.
        seconds: u32,
    },
    /// Existing video to extend.
    Footage {
        /// MP4 file.
        file: Vec<u8>,
        /// Length to add, in seconds.
        seconds: u32,
        /// Last frame, if requested.
        end: Option<Pixels>,
    },
}

/// Transition to a key frame.
pub struct Transition {
    /// The key frame.
    pub picture: Pixels,
    /// Length in seconds.
    pub seconds: u32,
    /// Prompt of this transition, in addition to that of the video.
    pub prompt: String,
}

/// Watermark.
pub struct Watermark {
    /// Corner of the frame.
    pub position: WatermarkCorner,
    /// Custom mark; the default mark if absent.
    pub picture: Option<Pixels>,
}

/// Rendered video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedVideo {
    /// MP4 file, including the watermark.
    pub bytes: Vec<u8>,
    /// First frame as a JPEG file.
    pub cover: Vec<u8>,
    /// Size of the frames.
    pub size: Size,
    /// Number of frames, [`FPS`](super::FPS) per second.
    pub frames: usize,
}

/// Maximum aspect ratio of pictures, as the API allows.
const RATIO_MAX: f64 = 4.0;

/// Aspect ratio of a video without a requested ratio and without a picture.
const RATIO_DEFAULT: (u16, u16) = (16, 9);

/// Returns the size of a video with `lines` pixels on the shorter side, which must be even. The aspect ratio is the
/// requested `ratio`, otherwise that of `picture`, both given as width and height, otherwise 16:9. It is limited to
/// 4:1.
#[must_use]
pub fn size_of(lines: u32, ratio: Option<(u16, u16)>, picture: Option<(u32, u32)>) -> Size {
    let (width, height) = match (ratio, picture) {
        (Some((width, height)), _) => (f64::from(width), f64::from(height)),
        (None, Some((width, height))) => (f64::from(width.max(1)), f64::from(height.max(1))),
        (None, None) => (f64::from(RATIO_DEFAULT.0), f64::from(RATIO_DEFAULT.1)),
    };

    let ratio = (width / height).clamp(1.0 / RATIO_MAX, RATIO_MAX);

    let lines = lines as usize;
    let long_side = |ratio: f64| 2 * (lines as f64 * ratio / 2.0).round() as usize;

    if ratio >= 1.0 {
        Size { width: long_side(ratio), height: lines }
    } else {
        Size { width: lines, height: long_side(1.0 / ratio) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_resolution_and_ratio_and_are_even() {
        let size = |lines, ratio| {
            let Size { width, height } = size_of(lines, Some(ratio), None);
            (width, height)
        };
        for (lines, wide, high, square, cinema) in [
            (360, (640, 360), (360, 640), (360, 360), (840, 360)),
            (540, (960, 540), (540, 960), (540, 540), (1260, 540)),
            (720, (1280, 720), (720, 1280), (720, 720), (1680, 720)),
            (1080, (1920, 1080), (1080, 1920), (1080, 1080), (2520, 1080)),
            (1440, (2560, 1440), (1440, 2560), (1440, 1440), (3360, 1440)),
        ] {
            assert_eq!(
                [(16, 9), (9, 16), (1, 1), (21, 9)].map(|ratio| size(lines, ratio)),
                [wide, high, square, cinema]
            );
        }
        assert_eq!((size(720, (4, 3)), size(720, (3, 4))), ((960, 720), (720, 960)));

        for width in 1..=100 {
            let size = size_of(360, None, Some((width, 37)));
            assert!(
                size.width.is_multiple_of(2) && size.height.is_multiple_of(2) && size.width.min(size.height) == 360,
                "{width}:37 gives {}x{}",
                size.width,
                size.height
            );
        }
    }
}
