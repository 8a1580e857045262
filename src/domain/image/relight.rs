//! `image-relight`: every parameter of contract 6 but the pictures and the webhook.

use serde::{Deserialize, Serialize};

use super::{Percent, Prompt};
use crate::domain::value::named_values;

named_values! {
    /// The character of the new light.
    RelightStyle {
        Standard = "standard",
        DarkerButRealistic = "darker_but_realistic",
        Clean = "clean",
        Smooth = "smooth",
        Brighter = "brighter",
        ContrastedNHdr = "contrasted_n_hdr",
        /// Light and shadow are set anew, colours stay.
        JustComposition = "just_composition",
    }
}

named_values! {
    /// How the light is worked out.
    RelightEngine {
        Automatic = "automatic",
        Balanced = "balanced",
        Cool = "cool",
        Real = "real",
        Illusio = "illusio",
        Fairy = "fairy",
        ColorfulAnime = "colorful_anime",
        HardTransform = "hard_transform",
        Softy = "softy",
    }
}

named_values! {
    /// How strongly light is carried over, and where.
    TransferLightA {
        Automatic = "automatic",
        Low = "low",
        Medium = "medium",
        Normal = "normal",
        High = "high",
        HighOnFaces = "high_on_faces",
    }
}

named_values! {
    /// The course of the transfer from dark to bright.
    TransferLightB {
        Automatic = "automatic",
        Composition = "composition",
        Straight = "straight",
        SmoothIn = "smooth_in",
        SmoothOut = "smooth_out",
        SmoothBoth = "smooth_both",
        ReverseBoth = "reverse_both",
        SoftIn = "soft_in",
        SoftOut = "soft_out",
        SoftMid = "soft_mid",
        StrongMid = "strong_mid",
        StyleShift = "style_shift",
        StrongShift = "strong_shift",
    }
}

named_values! {
    /// Where the light comes from; which picture that is stands beside the job.
    LightSource {
        /// The prompt alone.
        Prompt = "prompt",
        /// The light of another picture is taken over.
        Reference = "reference",
        /// A map in which white is lit and black is not, laid over the picture.
        Lightmap = "lightmap",
    }
}

/// The fine adjustments (`advanced_settings`); 50 changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LightSettings {
    pub whites: Percent,
    pub blacks: Percent,
    pub brightness: Percent,
    pub contrast: Percent,
    pub saturation: Percent,
    pub engine: RelightEngine,
    pub transfer_light_a: TransferLightA,
    pub transfer_light_b: TransferLightB,
    /// Whether identical requests give identical bytes.
    pub fixed_generation: bool,
}

impl Default for LightSettings {
    /// Contract 6.
    fn default() -> Self {
        let middle = Percent::of(50);
        Self {
            whites: middle,
            blacks: middle,
            brightness: middle,
            contrast: middle,
            saturation: middle,
            engine: RelightEngine::Automatic,
            transfer_light_a: TransferLightA::Automatic,
            transfer_light_b: TransferLightB::Automatic,
            fixed_generation: false,
        }
    }
}

/// A relight job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relight {
    pub prompt: Option<Prompt>,
    pub source: LightSource,
    pub light_transfer_strength: Percent,
    /// The result is kept near the original, for pictures whose shape must not drift.
    pub interpolate_from_original: bool,
    /// The background is lit anew as well as the subject.
    pub change_background: bool,
    /// Small text and texture are put back after lighting.
    pub preserve_details: bool,
    pub style: RelightStyle,
    pub advanced: LightSettings,
}

impl Default for Relight {
    /// Contract 6.
    fn default() -> Self {
        Self {
            prompt: None,
            source: LightSource::Prompt,
            light_transfer_strength: Percent::of(100),
            interpolate_from_original: false,
            change_background: true,
            preserve_details: true,
            style: RelightStyle::Standard,
            advanced: LightSettings::default(),
        }
    }
}
