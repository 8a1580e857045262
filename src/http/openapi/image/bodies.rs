//! Request bodies of image submissions. Defaults come from the domain types.

use serde_json::{Value, json};

use super::super::schema::{HasSchema, SchemaField, field, field_with_schema, request_object};
use crate::domain::image::{
    ImagePrompt, LightSettings, OptimizedFor, Percent, PortraitBeautifier, PortraitStyle, PrecisionFlavor,
    PrecisionScaleFactor, PrecisionUpscaleJob, RelightEngine, RelightJob, RelightStyle, ScaleFactor, SignedStrength,
    SkinEnhanceJob, SkinFocus, SkinMode, StyleEngine, StyleFlavor, StyleTransferJob, TransferLightA, TransferLightB,
    UpscaleEngine, UpscaleJob,
};
use crate::domain::value::Link;

pub(super) fn components() -> Vec<(&'static str, Value)> {
    vec![
        ("UpscaleBody", upscale()),
        ("PrecisionBody", precision()),
        ("StyleTransferBody", style()),
        ("CreativeSkinBody", creative_skin()),
        ("FaithfulSkinBody", faithful_skin()),
        ("FlexibleSkinBody", flexible_skin()),
        ("RelightBody", relight()),
    ]
}

fn upscale() -> Value {
    let defaults = UpscaleJob::default();
    let strength_field = |name, about| field::<SignedStrength>(name, about);
    request_object([
        strength_field("creativity", "Amount of new detail."),
        enum_field::<UpscaleEngine>(
            "engine",
            "Upscaling engine, which determines how edges and fine detail are rendered.",
            defaults.engine.as_str(),
        ),
        strength_field("fractality", "Strength of the prompt and intricacy per square pixel."),
        strength_field("hdr", "Level of definition and detail."),
        image_field("Picture to upscale."),
        enum_field::<OptimizedFor>(
            "optimized_for",
            "Content that the upscaler is optimized for.",
            defaults.optimized_for.as_str(),
        ),
        prompt_field("Prompt that guides the upscale."),
        strength_field("resemblance", "Resemblance to the original."),
        enum_field::<ScaleFactor>("scale_factor", "Factor by which each side grows.", defaults.scale_factor.as_str()),
        webhook_field("URL of a webhook for every change of status; empty means none."),
    ])
}

fn precision() -> Value {
    let defaults = PrecisionUpscaleJob::default();
    request_object([
        enum_field::<PrecisionFlavor>(
            "flavor",
            "Kind of processing: general, for photographs, or with noise reduction.",
            defaults.flavor.as_str(),
        ),
        image_field("Picture to upscale."),
        field::<PrecisionScaleFactor>("scale_factor", "Factor by which each side grows.")
            .with("default", defaults.scale_factor.get()),
        percent_field("sharpen", "Sharpness of edges.", defaults.sharpen),
        percent_field("smart_grain", "Amount of fine grain.", defaults.smart_grain),
        percent_field("ultra_detail", "Amount of new detail.", defaults.ultra_detail),
        webhook_field("URL of a webhook for the end of the task; empty means none."),
    ])
}

fn style() -> Value {
    let defaults = StyleTransferJob::default();
    request_object([
        enum_field::<StyleEngine>("engine", "Engine preset, which determines the look.", defaults.engine.as_str()),
        flag_field(
            "fixed_generation",
            "`true` to get identical bytes for identical requests.",
            defaults.fixed_generation,
        ),
        enum_field::<StyleFlavor>(
            "flavor",
            "Style flavor, which determines how the style is applied.",
            defaults.flavor.as_str(),
        ),
        image_field("Picture to transform."),
        flag_field("is_portrait", "`true` to process the picture as a portrait.", defaults.portrait.is_some()),
        field::<PortraitBeautifier>(
            "portrait_beautifier",
            "Skin smoothing of portraits; ignored unless `is_portrait`.",
        ),
        enum_field::<PortraitStyle>(
            "portrait_style",
            "Style of portraits; ignored unless `is_portrait`.",
            PortraitStyle::Standard.as_str(),
        ),
        prompt_field("Prompt that guides the style."),
        picture_field("reference_image", "Picture whose style is applied."),
        percent_field(
            "structure_strength",
            "Percentage of the original structure that is kept.",
            defaults.structure_strength,
        ),
        percent_field("style_strength", "Percentage of the style that is applied.", defaults.style_strength),
        webhook_field("URL of a webhook for every change of status; empty means none."),
    ])
}

fn creative_skin() -> Value {
    request_object(skin(SkinMode::Creative))
}

fn faithful_skin() -> Value {
    let detail = percent_field("skin_detail", "Percentage of the skin texture that is kept.", SkinMode::DETAIL_DEFAULT);
    let mode = SkinMode::Faithful { detail: SkinMode::DETAIL_DEFAULT };
    request_object(skin(mode).into_iter().chain([detail]))
}

fn flexible_skin() -> Value {
    let focus =
        enum_field::<SkinFocus>("optimized_for", "Aspect of the picture to improve.", SkinFocus::EnhanceSkin.as_str());
    let mode = SkinMode::Flexible { focus: SkinFocus::EnhanceSkin };
    request_object(skin(mode).into_iter().chain([focus]))
}

fn skin(mode: SkinMode) -> [SchemaField; 4] {
    let defaults = SkinEnhanceJob::new(mode);
    [
        image_field("Picture to enhance."),
        percent_field("sharpen", "Sharpness of edges.", defaults.sharpen),
        percent_field("smart_grain", "Amount of fine grain.", defaults.smart_grain),
        webhook_field("URL of a webhook for every change of status; empty means none."),
    ]
}

fn relight() -> Value {
    let defaults = RelightJob::default();
    let exclusion = |other| format!("Mutually exclusive with `{other}`.");
    request_object([
        field_with_schema("advanced_settings", "Tone, engine and how the light is transferred.", light_settings()),
        flag_field("change_background", "`true` to relight the background too.", defaults.change_background),
        image_field("Picture to relight."),
        flag_field(
            "interpolate_from_original",
            "`true` to keep the result close to the original.",
            defaults.interpolate_from_original,
        ),
        percent_field(
            "light_transfer_strength",
            "Percentage of the light that is transferred.",
            defaults.light_transfer_strength,
        ),
        flag_field("preserve_details", "`true` to restore small text and texture.", defaults.preserve_details),
        prompt_field("Prompt that describes the light."),
        enum_field::<RelightStyle>("style", "Style of the light.", defaults.style.as_str()),
        picture_field(
            "transfer_light_from_lightmap",
            &format!(
                "Light map: white areas are lit, black ones are not. {}",
                exclusion("transfer_light_from_reference_image")
            ),
        ),
        picture_field(
            "transfer_light_from_reference_image",
            &format!("Picture whose light is transferred. {}", exclusion("transfer_light_from_lightmap")),
        ),
        webhook_field("URL of a webhook for every change of status; empty means none."),
    ])
}

fn light_settings() -> Value {
    let defaults = LightSettings::default();
    let tone = |name, about: &str, default| percent_field(name, &format!("{about} 50 leaves it unchanged."), default);
    request_object([
        tone("blacks", "Level of the darkest parts.", defaults.blacks),
        tone("brightness", "Overall brightness.", defaults.brightness),
        tone("contrast", "Contrast between bright and dark parts.", defaults.contrast),
        enum_field::<RelightEngine>(
            "engine",
            "Relight engine, which determines how the light is computed.",
            defaults.engine.as_str(),
        ),
        flag_field(
            "fixed_generation",
            "`true` to get identical bytes for identical requests.",
            defaults.fixed_generation,
        ),
        tone("saturation", "Saturation of colours.", defaults.saturation),
        enum_field::<TransferLightA>(
            "transfer_light_a",
            "Strength of the light transfer.",
            defaults.transfer_light_a.as_str(),
        ),
        enum_field::<TransferLightB>(
            "transfer_light_b",
            "Tone curve of the light transfer, from dark to bright.",
            defaults.transfer_light_b.as_str(),
        ),
        tone("whites", "Level of the brightest parts.", defaults.whites),
    ])
}

fn image_field(about: &str) -> SchemaField {
    picture_field("image", about).required()
}

fn picture_field(name: &'static str, about: &str) -> SchemaField {
    let about = format!(
        "{about} PNG, JPEG, WebP, GIF, BMP or TIFF, as base64, as a data URI with base64, or as an http(s) URL \
         without user name and password."
    );
    field_with_schema(name, &about, json!({"type": "string", "minLength": 1}))
}

fn prompt_field(about: &str) -> SchemaField {
    field::<ImagePrompt>("prompt", about)
}

fn webhook_field(about: &str) -> SchemaField {
    field::<Link>("webhook_url", about)
}

fn enum_field<T: HasSchema>(name: &'static str, about: &str, default: &'static str) -> SchemaField {
    field::<T>(name, about).with("default", default)
}

fn percent_field(name: &'static str, about: &str, default: Percent) -> SchemaField {
    field::<Percent>(name, about.trim()).with("default", default.get())
}

fn flag_field(name: &'static str, about: &str, default: bool) -> SchemaField {
    field::<bool>(name, about).with("default", default)
}
