//! Conversion of stored image jobs to domain values.

use super::media::picture;
use super::{CommitDecodeError, check_field, text, v1, v2};
use crate::domain::image::{
    ImageJob, ImageWork, LightSettings, LightSource, OptimizedFor, Percent, PictureSource, PortraitBeautifier,
    PortraitSettings, PortraitStyle, PrecisionFlavor, PrecisionScaleFactor, PrecisionUpscaleJob, RelightEngine,
    RelightJob, RelightStyle, ScaleFactor, SignedStrength, SkinEnhanceJob, SkinFocus, SkinMode, StyleEngine,
    StyleFlavor, StyleTransferJob, TransferLightA, TransferLightB, UpscaleEngine, UpscaleJob,
};
use crate::domain::value::CallbackUrl;

/// An upscale of an uploaded picture, in the shape of version 1.
pub(super) fn first_upscale(
    input: &v1::PictureV1<'_>,
    parameters: v1::UpscaleV1<'_>,
) -> Result<ImageWork, CommitDecodeError> {
    let job = ImageJob::Upscale(upscale(parameters)?);
    let image = PictureSource::Stored(picture(input)?);
    Ok(ImageWork { job, image, reference: None, seed: None })
}

pub(super) fn work(
    stored_job: v2::ImageJobV2<'_>,
    image: v2::SourceV2<'_>,
    reference: Option<v2::SourceV2<'_>>,
    seed: Option<u32>,
) -> Result<ImageWork, CommitDecodeError> {
    Ok(ImageWork { job: job(stored_job)?, image: source(image)?, reference: reference.map(source).transpose()?, seed })
}

pub(super) fn source(stored: v2::SourceV2<'_>) -> Result<PictureSource, CommitDecodeError> {
    Ok(match stored {
        v2::SourceV2::Kept(stored_picture) => PictureSource::Stored(picture(&stored_picture)?),
        v2::SourceV2::Remote(url) => PictureSource::Remote(CallbackUrl::from_recorded(url.into_owned())),
    })
}

fn job(stored: v2::ImageJobV2<'_>) -> Result<ImageJob, CommitDecodeError> {
    Ok(match stored {
        v2::ImageJobV2::Upscale(stored) => ImageJob::Upscale(upscale(stored)?),
        v2::ImageJobV2::UpscalePrecision(stored) => ImageJob::UpscalePrecision(precision(&stored)?),
        v2::ImageJobV2::StyleTransfer(stored) => ImageJob::StyleTransfer(style(stored)?),
        v2::ImageJobV2::SkinEnhance(stored) => ImageJob::SkinEnhance(skin(&stored)?),
        v2::ImageJobV2::Relight(stored) => ImageJob::Relight(relight(stored)?),
    })
}

fn upscale(stored: v1::UpscaleV1<'_>) -> Result<UpscaleJob, CommitDecodeError> {
    let strength = |field, value: i8| check_field(field, SignedStrength::new(i64::from(value)));
    Ok(UpscaleJob {
        scale_factor: check_field("scale factor", ScaleFactor::parse(&stored.scale_factor))?,
        engine: check_field("engine", UpscaleEngine::parse(&stored.engine))?,
        optimized_for: check_field("optimized_for", OptimizedFor::parse(&stored.optimized_for))?,
        creativity: strength("creativity", stored.creativity)?,
        fractality: strength("fractality", stored.fractality)?,
        hdr: strength("hdr", stored.hdr)?,
        resemblance: strength("resemblance", stored.resemblance)?,
        prompt: stored.prompt.map(text),
    })
}

fn precision(stored: &v2::UpscalePrecisionV2<'_>) -> Result<PrecisionUpscaleJob, CommitDecodeError> {
    Ok(PrecisionUpscaleJob {
        scale_factor: check_field("scale factor", PrecisionScaleFactor::new(stored.scale_factor.into()))?,
        flavor: check_field("flavor", PrecisionFlavor::parse(&stored.flavor))?,
        sharpen: percent("sharpen", stored.sharpen)?,
        smart_grain: percent("smart_grain", stored.smart_grain)?,
        ultra_detail: percent("ultra_detail", stored.ultra_detail)?,
    })
}

fn style(stored: v2::StyleTransferV2<'_>) -> Result<StyleTransferJob, CommitDecodeError> {
    Ok(StyleTransferJob {
        engine: check_field("engine", StyleEngine::parse(&stored.engine))?,
        flavor: check_field("flavor", StyleFlavor::parse(&stored.flavor))?,
        portrait: stored.portrait.as_ref().map(portrait).transpose()?,
        prompt: stored.prompt.map(text),
        structure_strength: percent("structure_strength", stored.structure_strength)?,
        style_strength: percent("style_strength", stored.style_strength)?,
        fixed_generation: stored.fixed_generation,
    })
}

fn portrait(stored: &v2::PortraitV2<'_>) -> Result<PortraitSettings, CommitDecodeError> {
    let beautifier = stored.beautifier.as_ref();
    Ok(PortraitSettings {
        beautifier: beautifier
            .map(|beautifier| check_field("portrait beautifier", PortraitBeautifier::parse(beautifier)))
            .transpose()?,
        style: check_field("portrait style", PortraitStyle::parse(&stored.style))?,
    })
}

fn skin(stored: &v2::SkinEnhanceV2<'_>) -> Result<SkinEnhanceJob, CommitDecodeError> {
    let mode = match &stored.mode {
        v2::SkinModeV2::Creative => SkinMode::Creative,
        v2::SkinModeV2::Faithful { detail } => SkinMode::Faithful { detail: percent("skin_detail", *detail)? },
        v2::SkinModeV2::Flexible { focus } => {
            SkinMode::Flexible { focus: check_field("optimized_for", SkinFocus::parse(focus))? }
        }
    };
    let sharpen = percent("sharpen", stored.sharpen)?;
    let smart_grain = percent("smart_grain", stored.smart_grain)?;
    Ok(SkinEnhanceJob { mode, sharpen, smart_grain })
}

fn relight(stored: v2::RelightV2<'_>) -> Result<RelightJob, CommitDecodeError> {
    Ok(RelightJob {
        prompt: stored.prompt.map(text),
        source: check_field("light source", LightSource::parse(&stored.source))?,
        light_transfer_strength: percent("light_transfer_strength", stored.light_transfer_strength)?,
        interpolate_from_original: stored.interpolate_from_original,
        change_background: stored.change_background,
        preserve_details: stored.preserve_details,
        style: check_field("style", RelightStyle::parse(&stored.style))?,
        advanced: light_settings(&stored.advanced)?,
    })
}

fn light_settings(stored: &v2::LightSettingsV2<'_>) -> Result<LightSettings, CommitDecodeError> {
    Ok(LightSettings {
        whites: percent("whites", stored.whites)?,
        blacks: percent("blacks", stored.blacks)?,
        brightness: percent("brightness", stored.brightness)?,
        contrast: percent("contrast", stored.contrast)?,
        saturation: percent("saturation", stored.saturation)?,
        engine: check_field("engine", RelightEngine::parse(&stored.engine))?,
        transfer_light_a: check_field("transfer_light_a", TransferLightA::parse(&stored.transfer_light_a))?,
        transfer_light_b: check_field("transfer_light_b", TransferLightB::parse(&stored.transfer_light_b))?,
        fixed_generation: stored.fixed_generation,
    })
}

fn percent(field: &'static str, stored: u8) -> Result<Percent, CommitDecodeError> {
    check_field(field, Percent::new(stored.into()))
}
