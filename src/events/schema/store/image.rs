//! Conversion of image jobs to stored shapes.

use std::borrow::Cow;

use super::media::picture;
use super::{some_text, v1, v2};
use crate::domain::image::{
    ImageJob, ImageWork, LightSettings, PictureSource, PrecisionUpscaleJob, RelightJob, SkinEnhanceJob, SkinMode,
    StyleTransferJob, UpscaleJob,
};

/// Uses the shape of version 1 if the job fits it: an upscale of an uploaded picture, without a reference and a seed.
pub(super) fn work(work: &ImageWork) -> v2::WorkV2<'_> {
    match work {
        ImageWork {
            job: ImageJob::Upscale(parameters),
            image: PictureSource::Stored(input),
            reference: None,
            seed: None,
        } => v2::WorkV2::ImageUpscale { input: picture(input), parameters: upscale(parameters) },
        ImageWork { job: image_job, image, reference, seed } => v2::WorkV2::Image {
            job: Box::new(job(image_job)),
            image: source(image),
            reference: reference.as_ref().map(source),
            seed: *seed,
        },
    }
}

pub(super) fn source(picture_source: &PictureSource) -> v2::SourceV2<'_> {
    match picture_source {
        PictureSource::Stored(stored) => v2::SourceV2::Kept(picture(stored)),
        PictureSource::Remote(url) => v2::SourceV2::Remote(Cow::Borrowed(url.as_str())),
    }
}

fn job(job: &ImageJob) -> v2::ImageJobV2<'_> {
    match job {
        ImageJob::Upscale(job) => v2::ImageJobV2::Upscale(upscale(job)),
        ImageJob::UpscalePrecision(job) => v2::ImageJobV2::UpscalePrecision(precision(job)),
        ImageJob::StyleTransfer(job) => v2::ImageJobV2::StyleTransfer(style(job)),
        ImageJob::SkinEnhance(job) => v2::ImageJobV2::SkinEnhance(skin(job)),
        ImageJob::Relight(job) => v2::ImageJobV2::Relight(relight(job)),
    }
}

fn upscale(job: &UpscaleJob) -> v1::UpscaleV1<'_> {
    v1::UpscaleV1 {
        scale_factor: Cow::Borrowed(job.scale_factor.as_str()),
        engine: Cow::Borrowed(job.engine.as_str()),
        optimized_for: Cow::Borrowed(job.optimized_for.as_str()),
        creativity: job.creativity.get(),
        fractality: job.fractality.get(),
        hdr: job.hdr.get(),
        resemblance: job.resemblance.get(),
        prompt: some_text(job.prompt.as_ref()),
    }
}

fn precision(job: &PrecisionUpscaleJob) -> v2::UpscalePrecisionV2<'_> {
    v2::UpscalePrecisionV2 {
        scale_factor: job.scale_factor.get(),
        flavor: name(job.flavor.as_str()),
        sharpen: job.sharpen.get(),
        smart_grain: job.smart_grain.get(),
        ultra_detail: job.ultra_detail.get(),
    }
}

fn style(job: &StyleTransferJob) -> v2::StyleTransferV2<'_> {
    let portrait = job.portrait.map(|portrait| v2::PortraitV2 {
        beautifier: portrait.beautifier.map(|beautifier| name(beautifier.as_str())),
        style: name(portrait.style.as_str()),
    });
    v2::StyleTransferV2 {
        engine: name(job.engine.as_str()),
        flavor: name(job.flavor.as_str()),
        portrait,
        prompt: some_text(job.prompt.as_ref()),
        structure_strength: job.structure_strength.get(),
        style_strength: job.style_strength.get(),
        fixed_generation: job.fixed_generation,
    }
}

fn skin(job: &SkinEnhanceJob) -> v2::SkinEnhanceV2<'_> {
    let mode = match job.mode {
        SkinMode::Creative => v2::SkinModeV2::Creative,
        SkinMode::Faithful { detail } => v2::SkinModeV2::Faithful { detail: detail.get() },
        SkinMode::Flexible { focus } => v2::SkinModeV2::Flexible { focus: name(focus.as_str()) },
    };
    v2::SkinEnhanceV2 { mode, sharpen: job.sharpen.get(), smart_grain: job.smart_grain.get() }
}

fn relight(job: &RelightJob) -> v2::RelightV2<'_> {
    v2::RelightV2 {
        prompt: some_text(job.prompt.as_ref()),
        source: name(job.source.as_str()),
        light_transfer_strength: job.light_transfer_strength.get(),
        interpolate_from_original: job.interpolate_from_original,
        change_background: job.change_background,
        preserve_details: job.preserve_details,
        style: name(job.style.as_str()),
        advanced: light_settings(&job.advanced),
    }
}

fn light_settings(settings: &LightSettings) -> v2::LightSettingsV2<'static> {
    v2::LightSettingsV2 {
        whites: settings.whites.get(),
        blacks: settings.blacks.get(),
        brightness: settings.brightness.get(),
        contrast: settings.contrast.get(),
        saturation: settings.saturation.get(),
        engine: name(settings.engine.as_str()),
        transfer_light_a: name(settings.transfer_light_a.as_str()),
        transfer_light_b: name(settings.transfer_light_b.as_str()),
        fixed_generation: settings.fixed_generation,
    }
}

pub(super) fn name(name: &'static str) -> v1::Str<'static> {
    Cow::Borrowed(name)
}
