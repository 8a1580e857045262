//! Conversion of image jobs to stored shapes.

use std::borrow::Cow;

use super::media::picture;
use super::{some_text, v1, v2};
use crate::domain::image::{
    ImageJob, ImageWork, LightSettings, Relight, SkinEnhance, SkinMode, Source, StyleTransfer, Upscale,
    UpscalePrecision,
};

/// Uses the shape of version 1 if the job fits it: an upscale of an uploaded picture, without a reference and a seed.
pub(super) fn work(work: &ImageWork) -> v2::Work<'_> {
    match work {
        ImageWork { job: ImageJob::Upscale(parameters), image: Source::Kept(input), reference: None, seed: None } => {
            v2::Work::ImageUpscale { input: picture(input), parameters: upscale(parameters) }
        }
        ImageWork { job: asked, image, reference, seed } => v2::Work::Image {
            job: Box::new(job(asked)),
            image: source(image),
            reference: reference.as_ref().map(source),
            seed: *seed,
        },
    }
}

pub(super) fn source(place: &Source) -> v2::Source<'_> {
    match place {
        Source::Kept(kept) => v2::Source::Kept(picture(kept)),
        Source::Remote(url) => v2::Source::Remote(Cow::Borrowed(url.as_str())),
    }
}

fn job(job: &ImageJob) -> v2::ImageJob<'_> {
    match job {
        ImageJob::Upscale(job) => v2::ImageJob::Upscale(upscale(job)),
        ImageJob::UpscalePrecision(job) => v2::ImageJob::UpscalePrecision(precision(job)),
        ImageJob::StyleTransfer(job) => v2::ImageJob::StyleTransfer(style(job)),
        ImageJob::SkinEnhance(job) => v2::ImageJob::SkinEnhance(skin(job)),
        ImageJob::Relight(job) => v2::ImageJob::Relight(relight(job)),
    }
}

fn upscale(job: &Upscale) -> v1::Upscale<'_> {
    v1::Upscale {
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

fn precision(job: &UpscalePrecision) -> v2::UpscalePrecision<'_> {
    v2::UpscalePrecision {
        scale_factor: job.scale_factor.get(),
        flavor: name(job.flavor.as_str()),
        sharpen: job.sharpen.get(),
        smart_grain: job.smart_grain.get(),
        ultra_detail: job.ultra_detail.get(),
    }
}

fn style(job: &StyleTransfer) -> v2::StyleTransfer<'_> {
    let portrait = job.portrait.map(|portrait| v2::Portrait {
        beautifier: portrait.beautifier.map(|beautifier| name(beautifier.as_str())),
        style: name(portrait.style.as_str()),
    });
    v2::StyleTransfer {
        engine: name(job.engine.as_str()),
        flavor: name(job.flavor.as_str()),
        portrait,
        prompt: some_text(job.prompt.as_ref()),
        structure_strength: job.structure_strength.get(),
        style_strength: job.style_strength.get(),
        fixed_generation: job.fixed_generation,
    }
}

fn skin(job: &SkinEnhance) -> v2::SkinEnhance<'_> {
    let mode = match job.mode {
        SkinMode::Creative => v2::SkinMode::Creative,
        SkinMode::Faithful { detail } => v2::SkinMode::Faithful { detail: detail.get() },
        SkinMode::Flexible { focus } => v2::SkinMode::Flexible { focus: name(focus.as_str()) },
    };
    v2::SkinEnhance { mode, sharpen: job.sharpen.get(), smart_grain: job.smart_grain.get() }
}

fn relight(job: &Relight) -> v2::Relight<'_> {
    v2::Relight {
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

fn light_settings(settings: &LightSettings) -> v2::LightSettings<'static> {
    v2::LightSettings {
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
