//! Conversion of stored image jobs to domain values.

use super::media::picture;
use super::{DecodeError, checked, text, v1, v2};
use crate::domain::image::{
    Dial, Factor, ImageJob, ImageWork, LightSettings, LightSource, OptimizedFor, Percent, Portrait, PortraitBeautifier,
    PortraitStyle, PrecisionFlavor, Relight, RelightEngine, RelightStyle, ScaleFactor, SkinEnhance, SkinFocus,
    SkinMode, Source, StyleEngine, StyleFlavor, StyleTransfer, TransferLightA, TransferLightB, Upscale, UpscaleEngine,
    UpscalePrecision,
};
use crate::domain::value::CallbackUrl;

/// An upscale of an uploaded picture, in the shape of version 1.
pub(super) fn first_upscale(input: &v1::Picture<'_>, parameters: v1::Upscale<'_>) -> Result<ImageWork, DecodeError> {
    let job = ImageJob::Upscale(upscale(parameters)?);
    let image = Source::Kept(picture(input)?);
    Ok(ImageWork { job, image, reference: None, seed: None })
}

pub(super) fn work(
    asked: v2::ImageJob<'_>,
    image: v2::Source<'_>,
    reference: Option<v2::Source<'_>>,
    seed: Option<u32>,
) -> Result<ImageWork, DecodeError> {
    Ok(ImageWork { job: job(asked)?, image: source(image)?, reference: reference.map(source).transpose()?, seed })
}

pub(super) fn source(stored: v2::Source<'_>) -> Result<Source, DecodeError> {
    Ok(match stored {
        v2::Source::Kept(kept) => Source::Kept(picture(&kept)?),
        v2::Source::Remote(url) => Source::Remote(CallbackUrl::recorded(url.into_owned())),
    })
}

fn job(stored: v2::ImageJob<'_>) -> Result<ImageJob, DecodeError> {
    Ok(match stored {
        v2::ImageJob::Upscale(stored) => ImageJob::Upscale(upscale(stored)?),
        v2::ImageJob::UpscalePrecision(stored) => ImageJob::UpscalePrecision(precision(&stored)?),
        v2::ImageJob::StyleTransfer(stored) => ImageJob::StyleTransfer(style(stored)?),
        v2::ImageJob::SkinEnhance(stored) => ImageJob::SkinEnhance(skin(&stored)?),
        v2::ImageJob::Relight(stored) => ImageJob::Relight(relight(stored)?),
    })
}

fn upscale(stored: v1::Upscale<'_>) -> Result<Upscale, DecodeError> {
    let dial = |field, value: i8| checked(field, Dial::new(i64::from(value)));
    Ok(Upscale {
        scale_factor: checked("scale factor", ScaleFactor::parse(&stored.scale_factor))?,
        engine: checked("engine", UpscaleEngine::parse(&stored.engine))?,
        optimized_for: checked("optimized_for", OptimizedFor::parse(&stored.optimized_for))?,
        creativity: dial("creativity", stored.creativity)?,
        fractality: dial("fractality", stored.fractality)?,
        hdr: dial("hdr", stored.hdr)?,
        resemblance: dial("resemblance", stored.resemblance)?,
        prompt: stored.prompt.map(text),
    })
}

fn precision(stored: &v2::UpscalePrecision<'_>) -> Result<UpscalePrecision, DecodeError> {
    Ok(UpscalePrecision {
        scale_factor: checked("scale factor", Factor::new(stored.scale_factor.into()))?,
        flavor: checked("flavor", PrecisionFlavor::parse(&stored.flavor))?,
        sharpen: percent("sharpen", stored.sharpen)?,
        smart_grain: percent("smart_grain", stored.smart_grain)?,
        ultra_detail: percent("ultra_detail", stored.ultra_detail)?,
    })
}

fn style(stored: v2::StyleTransfer<'_>) -> Result<StyleTransfer, DecodeError> {
    Ok(StyleTransfer {
        engine: checked("engine", StyleEngine::parse(&stored.engine))?,
        flavor: checked("flavor", StyleFlavor::parse(&stored.flavor))?,
        portrait: stored.portrait.as_ref().map(portrait).transpose()?,
        prompt: stored.prompt.map(text),
        structure_strength: percent("structure_strength", stored.structure_strength)?,
        style_strength: percent("style_strength", stored.style_strength)?,
        fixed_generation: stored.fixed_generation,
    })
}

fn portrait(stored: &v2::Portrait<'_>) -> Result<Portrait, DecodeError> {
    let beautifier = stored.beautifier.as_ref();
    Ok(Portrait {
        beautifier: beautifier
            .map(|beautifier| checked("portrait beautifier", PortraitBeautifier::parse(beautifier)))
            .transpose()?,
        style: checked("portrait style", PortraitStyle::parse(&stored.style))?,
    })
}

fn skin(stored: &v2::SkinEnhance<'_>) -> Result<SkinEnhance, DecodeError> {
    let mode = match &stored.mode {
        v2::SkinMode::Creative => SkinMode::Creative,
        v2::SkinMode::Faithful { detail } => SkinMode::Faithful { detail: percent("skin_detail", *detail)? },
        v2::SkinMode::Flexible { focus } => {
            SkinMode::Flexible { focus: checked("optimized_for", SkinFocus::parse(focus))? }
        }
    };
    let sharpen = percent("sharpen", stored.sharpen)?;
    let smart_grain = percent("smart_grain", stored.smart_grain)?;
    Ok(SkinEnhance { mode, sharpen, smart_grain })
}

fn relight(stored: v2::Relight<'_>) -> Result<Relight, DecodeError> {
    Ok(Relight {
        prompt: stored.prompt.map(text),
        source: checked("light source", LightSource::parse(&stored.source))?,
        light_transfer_strength: percent("light_transfer_strength", stored.light_transfer_strength)?,
        interpolate_from_original: stored.interpolate_from_original,
        change_background: stored.change_background,
        preserve_details: stored.preserve_details,
        style: checked("style", RelightStyle::parse(&stored.style))?,
        advanced: light_settings(&stored.advanced)?,
    })
}

fn light_settings(stored: &v2::LightSettings<'_>) -> Result<LightSettings, DecodeError> {
    Ok(LightSettings {
        whites: percent("whites", stored.whites)?,
        blacks: percent("blacks", stored.blacks)?,
        brightness: percent("brightness", stored.brightness)?,
        contrast: percent("contrast", stored.contrast)?,
        saturation: percent("saturation", stored.saturation)?,
        engine: checked("engine", RelightEngine::parse(&stored.engine))?,
        transfer_light_a: checked("transfer_light_a", TransferLightA::parse(&stored.transfer_light_a))?,
        transfer_light_b: checked("transfer_light_b", TransferLightB::parse(&stored.transfer_light_b))?,
        fixed_generation: stored.fixed_generation,
    })
}

fn percent(field: &'static str, stored: u8) -> Result<Percent, DecodeError> {
    checked(field, Percent::new(stored.into()))
}
