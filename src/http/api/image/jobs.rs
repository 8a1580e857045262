//! Fields of each image endpoint, with their ranges and defaults (contract 6).

use super::check::ParsedImageSubmission;
use crate::domain::image::{
    ImageJob, ImagePrompt, LightSettings, LightSource, OptimizedFor, Percent, PortraitBeautifier, PortraitSettings,
    PortraitStyle, PrecisionFlavor, PrecisionScaleFactor, PrecisionUpscaleJob, RelightEngine, RelightJob, RelightStyle,
    ScaleFactor, SignedStrength, SkinEnhanceJob, SkinFocus, SkinMode, StyleEngine, StyleFlavor, StyleTransferJob,
    TransferLightA, TransferLightB, UpscaleEngine, UpscaleJob,
};
use crate::http::request::fields::Fields;
use crate::media::input::PictureInput;

impl ParsedImageSubmission {
    /// Creates a deterministic job on one picture.
    const fn deterministic(job: ImageJob) -> Self {
        Self { job, reference: None, is_random: false }
    }
}

pub(super) fn upscale(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    let defaults = UpscaleJob::default();
    ParsedImageSubmission::deterministic(ImageJob::Upscale(UpscaleJob {
        scale_factor: fields.text("scale_factor", ScaleFactor::parse).unwrap_or(defaults.scale_factor),
        engine: fields.text("engine", UpscaleEngine::parse).unwrap_or(defaults.engine),
        optimized_for: fields.text("optimized_for", OptimizedFor::parse).unwrap_or(defaults.optimized_for),
        creativity: fields.integer("creativity", SignedStrength::new).unwrap_or_default(),
        fractality: fields.integer("fractality", SignedStrength::new).unwrap_or_default(),
        hdr: fields.integer("hdr", SignedStrength::new).unwrap_or_default(),
        resemblance: fields.integer("resemblance", SignedStrength::new).unwrap_or_default(),
        prompt: fields.text("prompt", ImagePrompt::parse),
    }))
}

pub(super) fn upscale_precisely(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    let defaults = PrecisionUpscaleJob::default();
    ParsedImageSubmission::deterministic(ImageJob::UpscalePrecision(PrecisionUpscaleJob {
        scale_factor: fields.integer("scale_factor", PrecisionScaleFactor::new).unwrap_or(defaults.scale_factor),
        flavor: fields.text("flavor", PrecisionFlavor::parse).unwrap_or(defaults.flavor),
        sharpen: percent(fields, "sharpen", defaults.sharpen),
        smart_grain: percent(fields, "smart_grain", defaults.smart_grain),
        ultra_detail: percent(fields, "ultra_detail", defaults.ultra_detail),
    }))
}

pub(super) fn transfer_style(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    let defaults = StyleTransferJob::default();

    // Checked even if no portrait is requested, and ignored then.
    let beautifier = fields.text("portrait_beautifier", PortraitBeautifier::parse);
    let style = fields.text("portrait_style", PortraitStyle::parse).unwrap_or(PortraitStyle::Standard);
    let is_portrait = flag(fields, "is_portrait", false);

    let job = StyleTransferJob {
        engine: fields.text("engine", StyleEngine::parse).unwrap_or(defaults.engine),
        flavor: fields.text("flavor", StyleFlavor::parse).unwrap_or(defaults.flavor),
        portrait: is_portrait.then_some(PortraitSettings { beautifier, style }),
        prompt: fields.text("prompt", ImagePrompt::parse),
        structure_strength: percent(fields, "structure_strength", defaults.structure_strength),
        style_strength: percent(fields, "style_strength", defaults.style_strength),
        fixed_generation: flag(fields, "fixed_generation", defaults.fixed_generation),
    };

    let reference = fields.text("reference_image", PictureInput::parse).map(|picture| ("reference_image", picture));
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
    let defaults = SkinEnhanceJob::new(mode);
    let job = SkinEnhanceJob {
        sharpen: percent(fields, "sharpen", defaults.sharpen),
        smart_grain: percent(fields, "smart_grain", defaults.smart_grain),
        ..defaults
    };
    ParsedImageSubmission { is_random: true, ..ParsedImageSubmission::deterministic(ImageJob::SkinEnhance(job)) }
}

pub(super) fn relight(fields: &mut Fields<'_, '_>) -> ParsedImageSubmission {
    const REFERENCE: &str = "transfer_light_from_reference_image";
    const LIGHTMAP: &str = "transfer_light_from_lightmap";
    let defaults = RelightJob::default();

    let from_reference = fields.text(REFERENCE, PictureInput::parse);
    let from_lightmap = fields.text(LIGHTMAP, PictureInput::parse);
    if fields.value(REFERENCE).is_some() && fields.value(LIGHTMAP).is_some() {
        fields.add_error(LIGHTMAP, format!("must not be combined with {REFERENCE}"));
    }

    let (source, reference) = match (from_reference, from_lightmap) {
        (Some(picture), _) => (LightSource::Reference, Some((REFERENCE, picture))),
        (None, Some(picture)) => (LightSource::Lightmap, Some((LIGHTMAP, picture))),
        (None, None) => (LightSource::Prompt, None),
    };

    let job = RelightJob {
        prompt: fields.text("prompt", ImagePrompt::parse),
        source,
        light_transfer_strength: percent(fields, "light_transfer_strength", defaults.light_transfer_strength),
        interpolate_from_original: flag(fields, "interpolate_from_original", defaults.interpolate_from_original),
        change_background: flag(fields, "change_background", defaults.change_background),
        preserve_details: flag(fields, "preserve_details", defaults.preserve_details),
        style: fields.text("style", RelightStyle::parse).unwrap_or(defaults.style),
        advanced: fields.object("advanced_settings", |fields| Some(light_settings(fields))).unwrap_or_default(),
    };
    ParsedImageSubmission { is_random: !job.advanced.fixed_generation, job: ImageJob::Relight(job), reference }
}

fn light_settings(fields: &mut Fields<'_, '_>) -> LightSettings {
    let defaults = LightSettings::default();
    LightSettings {
        whites: percent(fields, "whites", defaults.whites),
        blacks: percent(fields, "blacks", defaults.blacks),
        brightness: percent(fields, "brightness", defaults.brightness),
        contrast: percent(fields, "contrast", defaults.contrast),
        saturation: percent(fields, "saturation", defaults.saturation),
        engine: fields.text("engine", RelightEngine::parse).unwrap_or(defaults.engine),
        transfer_light_a: fields.text("transfer_light_a", TransferLightA::parse).unwrap_or(defaults.transfer_light_a),
        transfer_light_b: fields.text("transfer_light_b", TransferLightB::parse).unwrap_or(defaults.transfer_light_b),
        fixed_generation: flag(fields, "fixed_generation", defaults.fixed_generation),
    }
}

fn percent(fields: &mut Fields<'_, '_>, name: &str, default: Percent) -> Percent {
    fields.integer(name, Percent::new).unwrap_or(default)
}

fn flag(fields: &mut Fields<'_, '_>, name: &str, default: bool) -> bool {
    fields.flag(name).unwrap_or(default)
}
