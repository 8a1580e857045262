//! Video engine: renders a plan to a video.
//!
//! The engine does not recognize objects: it moves a camera through the input pictures and through scenes of its own.
//! It estimates the depth of a picture (`depth`), moves the camera (`camera`) as the prompt requests
//! (`words`), draws the result (`view`), and adds weather (`weather`) and light (`mood`). Two pictures are joined
//! along their optical flow (`optical`, `shots`). Without a picture it paints a scene of known depth (`scene`). An
//! existing video is decoded and its motion continued (`extend`).
//!
//! Frames are drawn and encoded in groups that start with a key frame, on all cores. A group holds one frame at a time,
//! so memory depends on the number of cores and not on the length. The same plan gives the same bytes for any number of
//! threads.

#![allow(
    clippy::many_single_char_names,
    clippy::similar_names,
    reason = "positions are x and y, and their neighbours a to d"
)]

mod camera;
mod codec;
mod compose;
mod cutout;
mod depth;
mod extend;
mod mood;
mod mp4;
mod optical;
mod plan;
mod raster;
mod render;
mod scene;
mod shots;
mod sound;
mod view;
mod watermark;
mod weather;
mod words;

use crate::prompt_report::PromptReport;

pub use codec::{Codec, CodecError, Decoder, Encoder, EncodingQuality, FPS, H264, Yuv};
pub use extend::{footage_bytes, footage_size};
pub use mp4::{AccessUnit, EncodedVideo, Packet, ParsedVideo, Sound, write as write_mp4};
pub use plan::{Material, MotionAmount, RenderedVideo, Transition, VideoPlan, Watermark, WatermarkCorner, size_of};
pub use raster::Size;
pub use render::{frames, render};
pub use sound::{BackgroundMusic, SoundContent, SoundPlan, Stereo};

/// Reports which words of a prompt have an effect.
pub(crate) fn interpret(prompt: &str) -> PromptReport {
    words::VideoKeywords::interpret(prompt).1
}

/// Reason for a failed rendering.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VideoError {
    /// Unusable input.
    #[error("{reason}")]
    Input {
        /// Error code of the API.
        code: &'static str,
        /// Message for the client.
        reason: String,
    },
    /// The task was cancelled.
    #[error("the video was cancelled")]
    Cancelled,
    /// Error of the engine or a codec, independent of the input.
    #[error("{0}")]
    Internal(String),
}

impl From<codec::CodecError> for VideoError {
    fn from(error: codec::CodecError) -> Self {
        Self::Internal(error.to_string())
    }
}

/// Observer of a rendering.
pub trait RenderObserver: Sync {
    /// Receives the progress, 0 to 1, occasionally and from any thread.
    fn report_progress(&self, share: f32);

    /// Returns `true` if the video is no longer wanted. Called before each frame.
    fn is_cancelled(&self) -> bool;
}

/// Observer that never cancels.
impl RenderObserver for () {
    fn report_progress(&self, _share: f32) {}

    fn is_cancelled(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
