//! Request bodies of image submissions. Defaults come from the domain types.

use serde_json::{Value, json};

use super::super::schema::{Documented, Field, body, field, field_of};
use crate::domain::image::{
    Dial, Factor, LightSettings, OptimizedFor, Percent, PortraitBeautifier, PortraitStyle, PrecisionFlavor, Prompt,
    Relight, RelightEngine, RelightStyle, ScaleFactor, SkinEnhance, SkinFocus, SkinMode, StyleEngine, StyleFlavor,
    StyleTransfer, TransferLightA, TransferLightB, Upscale, UpscaleEngine, UpscalePrecision,
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
    let usual = Upscale::default();
    let dial = |name, about| field::<Dial>(name, about);
    body([
        dial("creativity", "Amount of new detail."),
        chosen::<UpscaleEngine>(
            "engine",
            "Upscaling engine, which determines how edges and fine detail are rendered.",
            usual.engine.as_str(),
        ),
        dial("fractality", "Strength of the prompt and intricacy per square pixel."),
        dial("hdr", "Level of definition and detail."),
        image("Picture to upscale."),
        chosen::<OptimizedFor>(
            "optimized_for",
            "Content that the upscaler is optimized for.",
            usual.optimized_for.as_str(),
        ),
        prompt("Prompt that guides the upscale."),
        dial("resemblance", "Resemblance to the original."),
        chosen::<ScaleFactor>("scale_factor", "Factor by which each side grows.", usual.scale_factor.as_str()),
        webhook("URL of a webhook for every change of status; empty means none."),
    ])
}

fn precision() -> Value {
    let usual = UpscalePrecision::default();
    body([
        chosen::<PrecisionFlavor>(
            "flavor",
            "Kind of processing: general, for photographs, or with noise reduction.",
            usual.flavor.as_str(),
        ),
        image("Picture to upscale."),
        field::<Factor>("scale_factor", "Factor by which each side grows.").with("default", usual.scale_factor.get()),
        percent("sharpen", "Sharpness of edges.", usual.sharpen),
        percent("smart_grain", "Amount of fine grain.", usual.smart_grain),
        percent("ultra_detail", "Amount of new detail.", usual.ultra_detail),
        webhook("URL of a webhook for the end of the task; empty means none."),
    ])
}

fn style() -> Value {
    let usual = StyleTransfer::default();
    body([
        chosen::<StyleEngine>("engine", "Engine preset, which determines the look.", usual.engine.as_str()),
        flag("fixed_generation", "`true` to get identical bytes for identical requests.", usual.fixed_generation),
        chosen::<StyleFlavor>(
            "flavor",
            "Style flavor, which determines how the style is applied.",
            usual.flavor.as_str(),
        ),
        image("Picture to transform."),
        flag("is_portrait", "`true` to process the picture as a portrait.", usual.portrait.is_some()),
        field::<PortraitBeautifier>(
            "portrait_beautifier",
            "Skin smoothing of portraits; ignored unless `is_portrait`.",
        ),
        chosen::<PortraitStyle>(
            "portrait_style",
            "Style of portraits; ignored unless `is_portrait`.",
            PortraitStyle::Standard.as_str(),
        ),
        prompt("Prompt that guides the style."),
        picture("reference_image", "Picture whose style is applied."),
        percent("structure_strength", "Percentage of the original structure that is kept.", usual.structure_strength),
        percent("style_strength", "Percentage of the style that is applied.", usual.style_strength),
        webhook("URL of a webhook for every change of status; empty means none."),
    ])
}

fn creative_skin() -> Value {
    body(skin(SkinMode::Creative))
}

fn faithful_skin() -> Value {
    let detail = percent("skin_detail", "Percentage of the skin texture that is kept.", SkinMode::DETAIL_DEFAULT);
    let mode = SkinMode::Faithful { detail: SkinMode::DETAIL_DEFAULT };
    body(skin(mode).into_iter().chain([detail]))
}

fn flexible_skin() -> Value {
    let focus =
        chosen::<SkinFocus>("optimized_for", "Aspect of the picture to improve.", SkinFocus::EnhanceSkin.as_str());
    let mode = SkinMode::Flexible { focus: SkinFocus::EnhanceSkin };
    body(skin(mode).into_iter().chain([focus]))
}

fn skin(mode: SkinMode) -> [Field; 4] {
    let usual = SkinEnhance::of(mode);
    [
        image("Picture to enhance."),
        percent("sharpen", "Sharpness of edges.", usual.sharpen),
        percent("smart_grain", "Amount of fine grain.", usual.smart_grain),
        webhook("URL of a webhook for every change of status; empty means none."),
    ]
}

fn relight() -> Value {
    let usual = Relight::default();
    let instead = |other| format!("Mutually exclusive with `{other}`.");
    body([
        field_of("advanced_settings", "Tone, engine and how the light is transferred.", light_settings()),
        flag("change_background", "`true` to relight the background too.", usual.change_background),
        image("Picture to relight."),
        flag(
            "interpolate_from_original",
            "`true` to keep the result close to the original.",
            usual.interpolate_from_original,
        ),
        percent(
            "light_transfer_strength",
            "Percentage of the light that is transferred.",
            usual.light_transfer_strength,
        ),
        flag("preserve_details", "`true` to restore small text and texture.", usual.preserve_details),
        prompt("Prompt that describes the light."),
        chosen::<RelightStyle>("style", "Style of the light.", usual.style.as_str()),
        picture(
            "transfer_light_from_lightmap",
            &format!(
                "Light map: white areas are lit, black ones are not. {}",
                instead("transfer_light_from_reference_image")
            ),
        ),
        picture(
            "transfer_light_from_reference_image",
            &format!("Picture whose light is transferred. {}", instead("transfer_light_from_lightmap")),
        ),
        webhook("URL of a webhook for every change of status; empty means none."),
    ])
}

fn light_settings() -> Value {
    let usual = LightSettings::default();
    let tone = |name, about: &str, usual| percent(name, &format!("{about} 50 leaves it unchanged."), usual);
    body([
        tone("blacks", "Level of the darkest parts.", usual.blacks),
        tone("brightness", "Overall brightness.", usual.brightness),
        tone("contrast", "Contrast between bright and dark parts.", usual.contrast),
        chosen::<RelightEngine>(
            "engine",
            "Relight engine, which determines how the light is computed.",
            usual.engine.as_str(),
        ),
        flag("fixed_generation", "`true` to get identical bytes for identical requests.", usual.fixed_generation),
        tone("saturation", "Saturation of colours.", usual.saturation),
        chosen::<TransferLightA>(
            "transfer_light_a",
            "Strength of the light transfer.",
            usual.transfer_light_a.as_str(),
        ),
        chosen::<TransferLightB>(
            "transfer_light_b",
            "Tone curve of the light transfer, from dark to bright.",
            usual.transfer_light_b.as_str(),
        ),
        tone("whites", "Level of the brightest parts.", usual.whites),
    ])
}

fn image(about: &str) -> Field {
    picture("image", about).required()
}

fn picture(name: &'static str, about: &str) -> Field {
    let about = format!(
        "{about} PNG, JPEG, WebP, GIF, BMP or TIFF, as base64, as a data URI with base64, or as an http(s) URL \
         without user name and password."
    );
    field_of(name, &about, json!({"type": "string", "minLength": 1}))
}

fn prompt(about: &str) -> Field {
    field::<Prompt>("prompt", about)
}

fn webhook(about: &str) -> Field {
    field::<Link>("webhook_url", about)
}

fn chosen<T: Documented>(name: &'static str, about: &str, usual: &'static str) -> Field {
    field::<T>(name, about).with("default", usual)
}

fn percent(name: &'static str, about: &str, usual: Percent) -> Field {
    field::<Percent>(name, about.trim()).with("default", usual.get())
}

fn flag(name: &'static str, about: &str, usual: bool) -> Field {
    field::<bool>(name, about).with("default", usual)
}
