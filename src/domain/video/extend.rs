//! `extend`: a video that goes on.

use serde::{Deserialize, Serialize};

use super::{Footage, Resolution, Seconds, VideoModel, VideoPrompt};
use crate::domain::value::named_values;

named_values! {
    /// The models that extend a video and that join key frames (seed).
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
    /// The resolutions in which they do so (seed).
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

/// An `extend` job: every parameter of the seed but the picture of the end frame, the callback and what is only handed back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extend {
    pub model: ExtendModel,
    pub resolution: ExtendResolution,
    /// How much longer it becomes.
    pub seconds: Seconds,
    pub prompt: Option<VideoPrompt>,
    /// The video that goes on.
    pub video: Footage,
}

impl Extend {
    /// By how much a video can be extended at most, in seconds (seed).
    pub const SECONDS_MAX: u8 = 7;
}
