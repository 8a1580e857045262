//! Kinds of tasks and their gateways.

use serde::{Deserialize, Serialize};

use crate::domain::image::ImageJob;
use crate::domain::value::named_values;
use crate::domain::video::VideoJob;

named_values! {
    /// Submission endpoint of a task: the last segment of the path, without the mode.
    TaskKind {
        ImageUpscaler = "image-upscaler",
        ImageUpscalerPrecision = "image-upscaler-precision-v2",
        ImageStyleTransfer = "image-style-transfer",
        SkinEnhancer = "skin-enhancer",
        ImageRelight = "image-relight",
        StartEndToVideo = "start-end2video",
        ReferenceToVideo = "reference2video",
        ExtendVideo = "extend",
        MultiframeVideo = "multiframe",
        Music = "music",
    }
}

/// Gateway that accepted a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Gateway {
    Image,
    Video,
    Music,
}

impl Gateway {
    /// Returns the name of its medium in settings and responses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Music => "music",
        }
    }
}

impl TaskKind {
    /// Returns the kind of an image job.
    #[must_use]
    pub const fn from_image_job(job: &ImageJob) -> Self {
        match job {
            ImageJob::Upscale(_) => Self::ImageUpscaler,
            ImageJob::UpscalePrecision(_) => Self::ImageUpscalerPrecision,
            ImageJob::StyleTransfer(_) => Self::ImageStyleTransfer,
            ImageJob::SkinEnhance(_) => Self::SkinEnhancer,
            ImageJob::Relight(_) => Self::ImageRelight,
        }
    }

    /// Returns the kind of a video job.
    #[must_use]
    pub const fn from_video_job<P>(job: &VideoJob<P>) -> Self {
        match job {
            VideoJob::StartEnd(_) => Self::StartEndToVideo,
            VideoJob::Reference(_) => Self::ReferenceToVideo,
            VideoJob::Extend(_) => Self::ExtendVideo,
            VideoJob::Multiframe(_) => Self::MultiframeVideo,
        }
    }

    /// Returns the gateway of the kind.
    #[must_use]
    pub const fn gateway(self) -> Gateway {
        match self {
            Self::ImageUpscaler
            | Self::ImageUpscalerPrecision
            | Self::ImageStyleTransfer
            | Self::SkinEnhancer
            | Self::ImageRelight => Gateway::Image,
            Self::StartEndToVideo | Self::ReferenceToVideo | Self::ExtendVideo | Self::MultiframeVideo => {
                Gateway::Video
            }
            Self::Music => Gateway::Music,
        }
    }
}
