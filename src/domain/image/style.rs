//! `image-style-transfer`: every parameter of the request except the pictures and the webhook.

use serde::{Deserialize, Serialize};

use super::{ImagePrompt, Percent};
use crate::domain::value::named_values;

named_values! {
    /// Look of the result, in addition to the style of the reference.
    StyleEngine {
        Balanced = "balanced",
        Definio = "definio",
        Illusio = "illusio",
        Cartoon3d = "3d_cartoon",
        ColorfulAnime = "colorful_anime",
        Caricature = "caricature",
        Real = "real",
        SuperReal = "super_real",
        Softy = "softy",
    }
}

named_values! {
    /// Method of the style transfer.
    StyleFlavor {
        Faithful = "faithful",
        GenZ = "gen_z",
        Psychedelia = "psychedelia",
        Detaily = "detaily",
        Clear = "clear",
        /// Transfers structure and light, not the colours of the reference.
        Donotstyle = "donotstyle",
        /// `Donotstyle` with sharpening.
        DonotstyleSharp = "donotstyle_sharp",
    }
}

named_values! {
    /// Skin smoothing in portraits.
    PortraitBeautifier { Face = "beautify_face", FaceMax = "beautify_face_max" }
}

named_values! {
    /// Colour strength of portraits.
    PortraitStyle { Standard = "standard", Pop = "pop", SuperPop = "super_pop" }
}

/// Settings of portraits; ignored without `is_portrait` (seed specification).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortraitSettings {
    pub beautifier: Option<PortraitBeautifier>,
    pub style: PortraitStyle,
}

/// A style-transfer job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StyleTransferJob {
    pub engine: StyleEngine,
    pub flavor: StyleFlavor,
    /// Present if the picture is processed as a portrait.
    pub portrait: Option<PortraitSettings>,
    pub prompt: Option<ImagePrompt>,
    /// Strength with which the picture's structure is kept.
    pub structure_strength: Percent,
    /// Strength with which the reference's style is applied.
    pub style_strength: Percent,
    /// `true` if identical requests give identical bytes.
    pub fixed_generation: bool,
}

impl Default for StyleTransferJob {
    /// Returns the defaults of contract 6.
    fn default() -> Self {
        Self {
            engine: StyleEngine::Balanced,
            flavor: StyleFlavor::Faithful,
            portrait: None,
            prompt: None,
            structure_strength: Percent::saturating(50),
            style_strength: Percent::saturating(100),
            fixed_generation: false,
        }
    }
}
