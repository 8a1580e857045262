//! Fields of each image endpoint, with their ranges and defaults (contract 6).

use super::check::ParsedImageSubmission;
use crate::domain::image::{
    ImageJob, ImagePrompt, LightSettings, LightSource, OptimizedFor, Percent, PortraitBeautifier, PortraitSettings,
    PortraitStyle, PrecisionFlavor, PrecisionScaleFactor, PrecisionUpscaleJob, RelightEngine, RelightJob, RelightStyle,
    ScaleFactor, SignedStrength, SkinEnhanceJob, SkinFocus, SkinMode, StyleEngine, StyleFlavor, StyleTransferJob,
    TransferLightA, TransferLightB, UpscaleEngine, UpscaleJob,
};
use crate::http::fields::Fields;
use crate::media::input::PictureInput;

impl ParsedImageSubmission {
    /// Creates a deterministic job on one picture.
    const fn deterministic(job: ImageJob) -> Self {
        Self { job, reference: None, is_random: false }
    }
}

pub(super) fn upscale(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    let usual = UpscaleJob::default();
    ParsedImageSubmission::deterministic(ImageJob::Upscale(UpscaleJob {
        scale_factor: fields.text("scale_factor", ScaleFactor::parse).unwrap_or(usual.scale_factor),
        engine: fields.text("engine", UpscaleEngine::parse).unwrap_or(usual.engine),
        optimized_for: fields.text("optimized_for", OptimizedFor::parse).unwrap_or(usual.optimized_for),
        creativity: fields.integer("creativity", SignedStrength::new).unwrap_or_default(),
        fractality: fields.integer("fractality", SignedStrength::new).unwrap_or_default(),
        hdr: fields.integer("hdr", SignedStrength::new).unwrap_or_default(),
        resemblance: fields.integer("resemblance", SignedStrength::new).unwrap_or_default(),
        prompt: fields.text("prompt", ImagePrompt::parse),
    }))
}

pub(super) fn upscale_precisely(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    let usual = PrecisionUpscaleJob::default();
    ParsedImageSubmission::deterministic(ImageJob::UpscalePrecision(PrecisionUpscaleJob {
        scale_factor: fields.integer("scale_factor", PrecisionScaleFactor::new).unwrap_or(usual.scale_factor),
        flavor: fields.text("flavor", PrecisionFlavor::parse).unwrap_or(usual.flavor),
        sharpen: percent(fields, "sharpen", usual.sharpen),
        smart_grain: percent(fields, "smart_grain", usual.smart_grain),
        ultra_detail: percent(fields, "ultra_detail", usual.ultra_detail),
    }))
}

pub(super) fn transfer_style(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    let usual = StyleTransferJob::default();

    // Checked even if no portrait is requested, and ignored then.
    let beautifier = fields.text("portrait_beautifier", PortraitBeautifier::parse);
    let style = fields.text("portrait_style", PortraitStyle::parse).unwrap_or(PortraitStyle::Standard);
    let is_portrait = flag(fields, "is_portrait", false);

    let job = StyleTransferJob {
        engine: fields.text("engine", StyleEngine::parse).unwrap_or(usual.engine),
        flavor: fields.text("flavor", StyleFlavor::parse).unwrap_or(usual.flavor),
        portrait: is_portrait.then_some(PortraitSettings { beautifier, style }),
        prompt: fields.text("prompt", ImagePrompt::parse),
        structure_strength: percent(fields, "structure_strength", usual.structure_strength),
        style_strength: percent(fields, "style_strength", usual.style_strength),
        fixed_generation: flag(fields, "fixed_generation", usual.fixed_generation),
    };

    let reference = fields.text("reference_image", PictureInput::parse).map(|given| ("reference_image", given));
    ParsedImageSubmission { is_random: !job.fixed_generation, job: ImageJob::StyleTransfer(job), reference }
}

pub(super) fn enhance_skin_creatively(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    enhance_skin(fields, SkinMode::Creative)
}

pub(super) fn enhance_skin_faithfully(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    let detail = percent(fields, "skin_detail", SkinMode::DETAIL_DEFAULT);
    enhance_skin(fields, SkinMode::Faithful { detail })
}

pub(super) fn enhance_skin_flexibly(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    let focus = fields.text("optimized_for", SkinFocus::parse).unwrap_or(SkinFocus::EnhanceSkin);
    enhance_skin(fields, SkinMode::Flexible { focus })
}

fn enhance_skin(fields: &mut Fields<'_, '_>, mode: SkinMode) -> ParsedImageSubmission {
    let usual = SkinEnhanceJob::new(mode);
    let job = SkinEnhanceJob {
        sharpen: percent(fields, "sharpen", usual.sharpen),
        smart_grain: percent(fields, "smart_grain", usual.smart_grain),
        ..usual
    };
    ParsedImageSubmission { is_random: true, ..ParsedImageSubmission::deterministic(ImageJob::SkinEnhance(job)) }
}

pub(super) fn relight(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    const REFERENCE: &str = "transfer_light_from_reference_image";
    const LIGHTMAP: &str = "transfer_light_from_lightmap";
    let usual = RelightJob::default();

    let from_reference = fields.text(REFERENCE, PictureInput::parse);
    let from_lightmap = fields.text(LIGHTMAP, PictureInput::parse);
    if fields.value(REFERENCE).is_some() && fields.value(LIGHTMAP).is_some() {
        fields.add_error(LIGHTMAP, format!("must not be combined with {REFERENCE}"));
    }

    let (source, reference) = match (from_reference, from_lightmap) {
        (Some(given), _) => (LightSource::Reference, Some((REFERENCE, given))),
        (None, Some(given)) => (LightSource::Lightmap, Some((LIGHTMAP, given))),
        (None, None) => (LightSource::Prompt, None),
    };

    let job = RelightJob {
        prompt: fields.text("prompt", ImagePrompt::parse),
        source,
        light_transfer_strength: percent(fields, "light_transfer_strength", usual.light_transfer_strength),
        interpolate_from_original: flag(fields, "interpolate_from_original", usual.interpolate_from_original),
        change_background: flag(fields, "change_background", usual.change_background),
        preserve_details: flag(fields, "preserve_details", usual.preserve_details),
        style: fields.text("style", RelightStyle::parse).unwrap_or(usual.style),
        advanced: fields.object("advanced_settings", |fields| Some(light_settings(fields))).unwrap_or_default(),
    };
    ParsedImageSubmission { is_random: !job.advanced.fixed_generation, job: ImageJob::Relight(job), reference }
}

fn light_settings(fields: &mut Fields<'_, '_>) -> LightSettings {
    let usual = LightSettings::default();
    LightSettings {
        whites: percent(fields, "whites", usual.whites),
        blacks: percent(fields, "blacks", usual.blacks),
        brightness: percent(fields, "brightness", usual.brightness),
        contrast: percent(fields, "contrast", usual.contrast),
        saturation: percent(fields, "saturation", usual.saturation),
        engine: fields.text("engine", RelightEngine::parse).unwrap_or(usual.engine),
        transfer_light_a: fields.text("transfer_light_a", TransferLightA::parse).unwrap_or(usual.transfer_light_a),
        transfer_light_b: fields.text("transfer_light_b", TransferLightB::parse).unwrap_or(usual.transfer_light_b),
        fixed_generation: flag(fields, "fixed_generation", usual.fixed_generation),
    }
}

fn percent(fields: &mut Fields<'_, '_>, name: &str, usual: Percent) -> Percent {
    fields.integer(name, Percent::new).unwrap_or(usual)
}

fn flag(fields: &mut Fields<'_, '_>, name: &str, usual: bool) -> bool {
    fields.flag(name).unwrap_or(usual)
}
