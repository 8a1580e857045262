//! `multiframe`: a video through a sequence of key frames.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{ExtendModel, ExtendResolution, VideoPrompt, VideoSeconds};
use crate::domain::image::PictureSource;

/// A key frame and the transition to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFrame<P = PictureSource> {
    pub image: P,
    /// Length of the transition.
    pub seconds: VideoSeconds,
    pub prompt: Option<VideoPrompt>,
}

impl<P> KeyFrame<P> {
    /// Maximum length of a transition in seconds (contract 7).
    pub const SECONDS_MAX: u8 = 8;
}

/// A `multiframe` job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MultiframeJob<P = PictureSource> {
    pub model: ExtendModel,
    pub resolution: ExtendResolution,
    /// First frame; `None` starts at the first key frame (contract 7).
    pub start_image: Option<P>,
    /// Key frames in order; their number is in [`MultiframeJob::COUNT`].
    pub key_frames: Vec<KeyFrame<P>>,
}

impl<P> MultiframeJob<P> {
    /// Allowed number of key frames (seed specification).
    pub const COUNT: RangeInclusive<usize> = 2..=9;

    /// Converts every picture with `map_picture`, the start image first.
    ///
    /// # Errors
    /// The first error of `map_picture`.
    pub fn try_map_pictures<Q, E>(
        self,
        map_picture: &mut impl FnMut(P) -> Result<Q, E>,
    ) -> Result<MultiframeJob<Q>, E> {
        let start_image = self.start_image.map(&mut *map_picture).transpose()?;
        let map_frame =
            |KeyFrame { image, seconds, prompt }| Ok(KeyFrame { image: map_picture(image)?, seconds, prompt });
        let key_frames = self.key_frames.into_iter().map(map_frame).collect::<Result<_, E>>()?;
        Ok(MultiframeJob { model: self.model, resolution: self.resolution, start_image, key_frames })
    }

    /// Returns the length of the video in seconds.
    #[must_use]
    pub fn seconds(&self) -> u32 {
        self.key_frames.iter().map(|frame| u32::from(frame.seconds.get())).sum()
    }
}
