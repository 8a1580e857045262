//! Parameters of image jobs by their API names.

use super::{
    ImageJob, ImagePrompt, LightSettings, LightSource, PortraitBeautifier, PrecisionUpscaleJob, RelightJob,
    SkinEnhanceJob, SkinMode, StyleTransferJob, UpscaleJob,
};
use crate::domain::parameter::{JobParameter, JobParameters};

impl ImageJob {
    /// Returns all parameters, with the picture to process and, if the job takes one, the reference picture.
    pub fn parameters<P>(&self, image: P, reference: Option<P>) -> JobParameters<P> {
        let parameters = JobParameters::new()
            .with("image", JobParameter::File(image))
            .with_optional_file(self.reference_field(), reference)
            .with_optional("prompt", self.prompt());
        parameters.merge(match self {
            Self::Upscale(job) => upscale(job),
            Self::UpscalePrecision(job) => upscale_precisely(*job),
            Self::StyleTransfer(job) => transfer_style(job),
            Self::SkinEnhance(job) => enhance_skin(*job),
            Self::Relight(job) => relight(job),
        })
    }

    const fn reference_field(&self) -> &'static str {
        match self {
            Self::Relight(RelightJob { source: LightSource::Lightmap, .. }) => "transfer_light_from_lightmap",
            Self::Relight(_) => "transfer_light_from_reference_image",
            _ => "reference_image",
        }
    }

    const fn prompt(&self) -> Option<&ImagePrompt> {
        match self {
            Self::Upscale(job) => job.prompt.as_ref(),
            Self::StyleTransfer(job) => job.prompt.as_ref(),
            Self::Relight(job) => job.prompt.as_ref(),
            Self::UpscalePrecision(_) | Self::SkinEnhance(_) => None,
        }
    }
}

fn upscale<P>(job: &UpscaleJob) -> JobParameters<P> {
    JobParameters::new()
        .with("scale_factor", job.scale_factor.as_str())
        .with("engine", job.engine.as_str())
        .with("optimized_for", job.optimized_for.as_str())
        .with("creativity", job.creativity.get())
        .with("fractality", job.fractality.get())
        .with("hdr", job.hdr.get())
        .with("resemblance", job.resemblance.get())
}

fn upscale_precisely<P>(job: PrecisionUpscaleJob) -> JobParameters<P> {
    JobParameters::new()
        .with("scale_factor", job.scale_factor.get())
        .with("flavor", job.flavor.as_str())
        .with("sharpen", job.sharpen.get())
        .with("smart_grain", job.smart_grain.get())
        .with("ultra_detail", job.ultra_detail.get())
}

fn transfer_style<P>(job: &StyleTransferJob) -> JobParameters<P> {
    let portrait = job.portrait.as_ref();
    JobParameters::new()
        .with("engine", job.engine.as_str())
        .with("flavor", job.flavor.as_str())
        .with("style_strength", job.style_strength.get())
        .with("structure_strength", job.structure_strength.get())
        .with("is_portrait", portrait.is_some())
        .with_optional("portrait_style", portrait.map(|portrait| portrait.style.as_str()))
        .with_optional(
            "portrait_beautifier",
            portrait.and_then(|portrait| portrait.beautifier).map(PortraitBeautifier::as_str),
        )
        .with("fixed_generation", job.fixed_generation)
}

fn enhance_skin<P>(job: SkinEnhanceJob) -> JobParameters<P> {
    let common = JobParameters::new().with("sharpen", job.sharpen.get()).with("smart_grain", job.smart_grain.get());
    match job.mode {
        SkinMode::Creative => common,
        SkinMode::Faithful { detail } => common.with("skin_detail", detail.get()),
        SkinMode::Flexible { focus } => common.with("optimized_for", focus.as_str()),
    }
}

fn relight<P>(job: &RelightJob) -> JobParameters<P> {
    JobParameters::new()
        .with("light_transfer_strength", job.light_transfer_strength.get())
        .with("style", job.style.as_str())
        .with("interpolate_from_original", job.interpolate_from_original)
        .with("change_background", job.change_background)
        .with("preserve_details", job.preserve_details)
        .with("advanced_settings", light_settings(&job.advanced))
}

fn light_settings<P>(settings: &LightSettings) -> JobParameters<P> {
    JobParameters::new()
        .with("whites", settings.whites.get())
        .with("blacks", settings.blacks.get())
        .with("brightness", settings.brightness.get())
        .with("contrast", settings.contrast.get())
        .with("saturation", settings.saturation.get())
        .with("engine", settings.engine.as_str())
        .with("transfer_light_a", settings.transfer_light_a.as_str())
        .with("transfer_light_b", settings.transfer_light_b.as_str())
        .with("fixed_generation", settings.fixed_generation)
}
