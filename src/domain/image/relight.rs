//! `image-relight`: every parameter of contract 6 except the pictures and the webhook.

use serde::{Deserialize, Serialize};

use super::{ImagePrompt, Percent};
use crate::domain::value::named_values;

named_values! {
    /// Character of the new light.
    RelightStyle {
        Standard = "standard",
        DarkerButRealistic = "darker_but_realistic",
        Clean = "clean",
        Smooth = "smooth",
        Brighter = "brighter",
        ContrastedNHdr = "contrasted_n_hdr",
        /// New light and shadow, unchanged colours.
        JustComposition = "just_composition",
    }
}

named_values! {
    /// Relighting algorithm.
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
    /// Strength and region of the light transfer.
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
    /// Curve of the transfer from dark to bright.
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
    /// Source of the light. Its picture, if any, is the `reference` of the job.
    LightSource {
        /// The prompt alone.
        Prompt = "prompt",
        /// The light of the reference picture.
        Reference = "reference",
        /// A light map over the picture: white is lit, black is not.
        Lightmap = "lightmap",
    }
}

/// Fine adjustments (`advanced_settings`); 50 is neutral.
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
    /// `true` if identical requests give identical bytes.
    pub fixed_generation: bool,
}

impl Default for LightSettings {
    /// Returns the defaults of contract 6.
    fn default() -> Self {
        let neutral = Percent::saturating(50);
        Self {
            whites: neutral,
            blacks: neutral,
            brightness: neutral,
            contrast: neutral,
            saturation: neutral,
            engine: RelightEngine::Automatic,
            transfer_light_a: TransferLightA::Automatic,
            transfer_light_b: TransferLightB::Automatic,
            fixed_generation: false,
        }
    }
}

/// A relight job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelightJob {
    pub prompt: Option<ImagePrompt>,
    pub source: LightSource,
    pub light_transfer_strength: Percent,
    /// Keeps the result near the original, for pictures whose shape must not drift.
    pub interpolate_from_original: bool,
    /// Relights the background as well as the subject.
    pub change_background: bool,
    /// Restores small text and texture after relighting.
    pub preserve_details: bool,
    pub style: RelightStyle,
    pub advanced: LightSettings,
}

impl Default for RelightJob {
    /// Returns the defaults of contract 6.
    fn default() -> Self {
        Self {
            prompt: None,
            source: LightSource::Prompt,
            light_transfer_strength: Percent::saturating(100),
            interpolate_from_original: false,
            change_background: true,
            preserve_details: true,
            style: RelightStyle::Standard,
            advanced: LightSettings::default(),
        }
    }
}
