//! Kinds of tasks: what lists of tasks tell apart.

use crate::domain::image::ImageJob;
use crate::domain::value::named_values;

named_values! {
    /// Where a task was submitted: the last part of the path, without the mode.
    TaskKind {
        ImageUpscaler = "image-upscaler",
        ImageUpscalerPrecision = "image-upscaler-precision-v2",
        ImageStyleTransfer = "image-style-transfer",
        SkinEnhancer = "skin-enhancer",
        ImageRelight = "image-relight",
    }
}

impl TaskKind {
    /// The kind of a job of the image gateway.
    #[must_use]
    pub const fn of_image(job: &ImageJob) -> Self {
        match job {
            ImageJob::Upscale(_) => Self::ImageUpscaler,
            ImageJob::UpscalePrecision(_) => Self::ImageUpscalerPrecision,
            ImageJob::StyleTransfer(_) => Self::ImageStyleTransfer,
            ImageJob::SkinEnhance(_) => Self::SkinEnhancer,
            ImageJob::Relight(_) => Self::ImageRelight,
        }
    }
}
