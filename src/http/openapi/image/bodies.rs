//! Described: the bodies of image submissions. Defaults come from the types that have them.

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
        dial("creativity", "How much detail is invented."),
        chosen::<UpscaleEngine>("engine", "How edges and fine detail are rendered.", usual.engine.as_str()),
        dial("fractality", "Strength of the prompt, and intricacy per square pixel."),
        dial("hdr", "Level of definition and detail."),
        image("The picture to enlarge."),
        chosen::<OptimizedFor>("optimized_for", "What the picture shows.", usual.optimized_for.as_str()),
        prompt("Guides the upscale."),
        dial("resemblance", "To the original."),
        chosen::<ScaleFactor>("scale_factor", "How much each side grows.", usual.scale_factor.as_str()),
        webhook("Told of every change of status; empty means none."),
    ])
}

fn precision() -> Value {
    let usual = UpscalePrecision::default();
    body([
        chosen::<PrecisionFlavor>("flavor", "What the enlargement keeps and mends.", usual.flavor.as_str()),
        image("The picture to enlarge."),
        field::<Factor>("scale_factor", "How much each side grows.").with("default", usual.scale_factor.get()),
        percent("sharpen", "How much edges gain.", usual.sharpen),
        percent("smart_grain", "How much fine grain is laid over.", usual.smart_grain),
        percent("ultra_detail", "How much detail is made up.", usual.ultra_detail),
        webhook("Told once, when the task has ended; empty means none."),
    ])
}

fn style() -> Value {
    let usual = StyleTransfer::default();
    body([
        chosen::<StyleEngine>("engine", "The look that the picture is given.", usual.engine.as_str()),
        flag("fixed_generation", "Whether identical requests give identical bytes.", usual.fixed_generation),
        chosen::<StyleFlavor>("flavor", "How the style is taken over.", usual.flavor.as_str()),
        image("The picture to transform."),
        flag("is_portrait", "Whether it is treated as a portrait.", usual.portrait.is_some()),
        field::<PortraitBeautifier>("portrait_beautifier", "Smooths skin. Without effect unless `is_portrait`."),
        chosen::<PortraitStyle>(
            "portrait_style",
            "Without effect unless `is_portrait`.",
            PortraitStyle::Standard.as_str(),
        ),
        prompt("Guides the style."),
        picture("reference_image", "The picture whose style is taken."),
        percent("structure_strength", "How much of the structure of the image is kept.", usual.structure_strength),
        percent("style_strength", "How much of the style is taken on.", usual.style_strength),
        webhook("Told of every change of status; empty means none."),
    ])
}

fn creative_skin() -> Value {
    body(skin(SkinMode::Creative))
}

fn faithful_skin() -> Value {
    let detail = percent("skin_detail", "How much of the texture of the skin is kept.", SkinMode::DETAIL_DEFAULT);
    let mode = SkinMode::Faithful { detail: SkinMode::DETAIL_DEFAULT };
    body(skin(mode).into_iter().chain([detail]))
}

fn flexible_skin() -> Value {
    let focus = chosen::<SkinFocus>("optimized_for", "What is worked on.", SkinFocus::EnhanceSkin.as_str());
    let mode = SkinMode::Flexible { focus: SkinFocus::EnhanceSkin };
    body(skin(mode).into_iter().chain([focus]))
}

fn skin(mode: SkinMode) -> [Field; 4] {
    let usual = SkinEnhance::of(mode);
    [
        image("The picture to enhance."),
        percent("sharpen", "How much edges gain.", usual.sharpen),
        percent("smart_grain", "How much fine grain is laid over.", usual.smart_grain),
        webhook("Told of every change of status; empty means none."),
    ]
}

fn relight() -> Value {
    let usual = Relight::default();
    let instead = |other| format!("Not together with `{other}`.");
    body([
        field_of("advanced_settings", "Fine adjustments.", light_settings()),
        flag("change_background", "Whether the background is lit anew too.", usual.change_background),
        image("The picture to light."),
        flag(
            "interpolate_from_original",
            "Whether the result stays near the original.",
            usual.interpolate_from_original,
        ),
        percent("light_transfer_strength", "How much of the light is taken over.", usual.light_transfer_strength),
        flag("preserve_details", "Whether small text and texture are put back.", usual.preserve_details),
        prompt("Describes the light."),
        chosen::<RelightStyle>("style", "The character of the light.", usual.style.as_str()),
        picture(
            "transfer_light_from_lightmap",
            &format!(
                "A map in which white is lit and black is not. {}",
                instead("transfer_light_from_reference_image")
            ),
        ),
        picture(
            "transfer_light_from_reference_image",
            &format!("A picture whose light is taken. {}", instead("transfer_light_from_lightmap")),
        ),
        webhook("Told of every change of status; empty means none."),
    ])
}

fn light_settings() -> Value {
    let usual = LightSettings::default();
    let tone = |name, about: &str, usual| percent(name, &format!("{about} 50 changes nothing."), usual);
    body([
        tone("blacks", "Level of the darkest parts.", usual.blacks),
        tone("brightness", "Of the picture as a whole.", usual.brightness),
        tone("contrast", "How far bright and dark are apart.", usual.contrast),
        chosen::<RelightEngine>("engine", "How the light is worked out.", usual.engine.as_str()),
        flag("fixed_generation", "Whether identical requests give identical bytes.", usual.fixed_generation),
        tone("saturation", "How strong the colours are.", usual.saturation),
        chosen::<TransferLightA>(
            "transfer_light_a",
            "How strongly light is taken over.",
            usual.transfer_light_a.as_str(),
        ),
        chosen::<TransferLightB>(
            "transfer_light_b",
            "Its course from dark to bright.",
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
        "{about} Base64, a data URI with base64, or an http(s) URL without user name and password: png, jpeg, webp, gif, bmp or tiff."
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
