//! `extend`: continues a video.

use serde::{Deserialize, Serialize};

use super::{Footage, Resolution, VideoModel, VideoPrompt, VideoSeconds};
use crate::domain::value::named_values;

named_values! {
    /// Models of `extend` and `multiframe` (seed specification).
    ExtendModel {
        Vq2Pro = "vq2-pro",
        Vq2Turbo = "vq2-turbo",
    }
}

impl From<ExtendModel> for VideoModel {
    fn from(model: ExtendModel) -> Self {
        match model {
            ExtendModel::Vq2Pro => Self::Vq2Pro,
            ExtendModel::Vq2Turbo => Self::Vq2Turbo,
        }
    }
}

named_values! {
    /// Resolutions of `extend` and `multiframe` (seed specification).
    ExtendResolution {
        P540 = "540p",
        P720 = "720p",
        P1080 = "1080p",
    }
}

impl From<ExtendResolution> for Resolution {
    fn from(resolution: ExtendResolution) -> Self {
        match resolution {
            ExtendResolution::P540 => Self::P540,
            ExtendResolution::P720 => Self::P720,
            ExtendResolution::P1080 => Self::P1080,
        }
    }
}

/// An `extend` job: every parameter of the request except the picture of the end frame, the callback, and the payload
/// and metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtendJob {
    pub model: ExtendModel,
    pub resolution: ExtendResolution,
    /// Length to add.
    pub seconds: VideoSeconds,
    pub prompt: Option<VideoPrompt>,
    /// The video to continue.
    pub video: Footage,
}

impl ExtendJob {
    /// Maximum length to add, in seconds (seed specification).
    pub const SECONDS_MAX: u8 = 7;
}
