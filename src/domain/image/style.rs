//! `image-style-transfer`: every parameter of the seed but the pictures and the webhook.

use serde::{Deserialize, Serialize};

use super::{Percent, Prompt};
use crate::domain::value::named_values;

named_values! {
    /// The look that the picture is given besides what the reference brings.
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
    /// How the style is taken over.
    StyleFlavor {
        Faithful = "faithful",
        GenZ = "gen_z",
        Psychedelia = "psychedelia",
        Detaily = "detaily",
        Clear = "clear",
        /// Structure and light are worked on, the colours of the reference are not taken.
        Donotstyle = "donotstyle",
        /// The same, and sharper.
        DonotstyleSharp = "donotstyle_sharp",
    }
}

named_values! {
    /// How skin is smoothed in a portrait.
    PortraitBeautifier { Face = "beautify_face", FaceMax = "beautify_face_max" }
}

named_values! {
    /// How strongly a portrait is coloured.
    PortraitStyle { Standard = "standard", Pop = "pop", SuperPop = "super_pop" }
}

/// What holds only for portraits; without `is_portrait` these fields are ignored (seed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portrait {
    pub beautifier: Option<PortraitBeautifier>,
    pub style: PortraitStyle,
}

/// A style-transfer job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StyleTransfer {
    pub engine: StyleEngine,
    pub flavor: StyleFlavor,
    /// Present when the picture is processed as a portrait.
    pub portrait: Option<Portrait>,
    pub prompt: Option<Prompt>,
    /// How much of the structure of the picture is kept.
    pub structure_strength: Percent,
    /// How much of the style is taken on.
    pub style_strength: Percent,
    /// Whether identical requests give identical bytes.
    pub fixed_generation: bool,
}

impl Default for StyleTransfer {
    /// Contract 6.
    fn default() -> Self {
        Self {
            engine: StyleEngine::Balanced,
            flavor: StyleFlavor::Faithful,
            portrait: None,
            prompt: None,
            structure_strength: Percent::of(50),
            style_strength: Percent::of(100),
            fixed_generation: false,
        }
    }
}
