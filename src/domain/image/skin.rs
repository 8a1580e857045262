//! `skin-enhancer`: its three modes, every parameter but the picture and the webhook.

use serde::{Deserialize, Serialize};

use super::Percent;
use crate::domain::value::named_values;

named_values! {
    /// What the flexible mode works on.
    SkinFocus {
        EnhanceSkin = "enhance_skin",
        ImproveLighting = "improve_lighting",
        EnhanceEverything = "enhance_everything",
        TransformToReal = "transform_to_real",
        NoMakeUp = "no_make_up",
    }
}

/// How skin is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SkinMode {
    /// Artistic and stylised.
    Creative,
    /// As it is, with `detail` of its texture kept.
    Faithful { detail: Percent },
    /// For one purpose.
    Flexible { focus: SkinFocus },
}

impl SkinMode {
    /// The texture that the faithful mode keeps when nothing is said (contract 6).
    pub const DETAIL_DEFAULT: Percent = Percent::of(80);
}

/// A skin-enhancer job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkinEnhance {
    pub mode: SkinMode,
    /// How much edges gain; 0 when not given (contract 6).
    pub sharpen: Percent,
    /// How much fine grain is laid over; 2 when not given (contract 6).
    pub smart_grain: Percent,
}

impl SkinEnhance {
    /// A mode with the defaults of contract 6.
    #[must_use]
    pub const fn of(mode: SkinMode) -> Self {
        Self { mode, sharpen: Percent::of(0), smart_grain: Percent::of(2) }
    }
}
