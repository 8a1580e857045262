//! `skin-enhancer`: its three modes, with every parameter except the picture and the webhook.

use serde::{Deserialize, Serialize};

use super::Percent;
use crate::domain::value::named_values;

named_values! {
    /// Purpose of the flexible mode.
    SkinFocus {
        EnhanceSkin = "enhance_skin",
        ImproveLighting = "improve_lighting",
        EnhanceEverything = "enhance_everything",
        TransformToReal = "transform_to_real",
        NoMakeUp = "no_make_up",
    }
}

/// Treatment of skin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkinMode {
    /// Artistic and stylised.
    Creative,
    /// Natural, keeping `detail` percent of the skin texture.
    Faithful { detail: Percent },
    /// Optimised for one purpose.
    Flexible { focus: SkinFocus },
}

impl SkinMode {
    /// Default `detail` of the faithful mode (contract 6).
    pub const DETAIL_DEFAULT: Percent = Percent::saturating(80);
}

/// A skin-enhancer job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkinEnhanceJob {
    pub mode: SkinMode,
    /// Strength of the edge sharpening; 0 by default (contract 6).
    pub sharpen: Percent,
    /// Strength of the added fine grain; 2 by default (contract 6).
    pub smart_grain: Percent,
}

impl SkinEnhanceJob {
    /// Creates a job with the defaults of contract 6.
    #[must_use]
    pub const fn new(mode: SkinMode) -> Self {
        Self { mode, sharpen: Percent::saturating(0), smart_grain: Percent::saturating(2) }
    }
}
