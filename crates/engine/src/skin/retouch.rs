//! Retouching amounts of each mode.

use crate::job::{SkinJob, SkinPurpose, SkinTreatment};

/// Strengths of the effects. Zero has no effect; most range from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retouch {
    /// Fraction of blemishes and blotches removed from skin; it also softens wrinkles.
    pub even: f32,
    /// Change of the fine skin texture: -1 removes it, 1 doubles it.
    pub texture: f32,
    /// Fraction of uneven colour removed from skin.
    pub tone: f32,
    /// Amount of synthesized pores.
    pub pores: f32,
    /// Fraction of shine removed from skin.
    pub shine: f32,
    /// Fraction of make-up removed from the face.
    pub make_up: f32,
    /// Amount of fill light.
    pub light: f32,
    /// Contrast at a large radius, everywhere.
    pub local_contrast: f32,
    /// Contrast of the whole picture.
    pub contrast: f32,
    /// Smoothing outside of skin.
    pub smooth: f32,
    /// Amount of bloom.
    pub glow: f32,
    /// Change of saturation.
    pub saturation: f32,
    /// Shift towards orange.
    pub warmth: f32,
    /// Gain of the finest band.
    pub sharpen: f32,
    /// Amount of film grain.
    pub grain: f32,
}

impl Retouch {
    /// No effect.
    pub const NONE: Self = Self {
        even: 0.0,
        texture: 0.0,
        tone: 0.0,
        pores: 0.0,
        shine: 0.0,
        make_up: 0.0,
        light: 0.0,
        local_contrast: 0.0,
        contrast: 0.0,
        smooth: 0.0,
        glow: 0.0,
        saturation: 0.0,
        warmth: 0.0,
        sharpen: 0.0,
        grain: 0.0,
    };

    /// Returns the amounts of a job.
    #[must_use]
    pub fn from_job(job: SkinJob) -> Self {
        let mode = match job.mode {
            SkinTreatment::Creative => CREATIVE,
            SkinTreatment::Faithful { detail } => faithful(detail),
            SkinTreatment::Flexible { focus } => flexible(focus),
        };
        Self { sharpen: mode.sharpen + 2.0 * job.sharpen, grain: job.smart_grain, ..mode }
    }
}

/// Magazine cover: smooth skin with synthesized pores, bloom, rich and warm colours.
const CREATIVE: Retouch = Retouch {
    even: 0.9,
    texture: -0.5,
    tone: 0.75,
    pores: 0.2,
    shine: 0.25,
    light: 0.35,
    local_contrast: 0.25,
    contrast: 0.22,
    smooth: 0.45,
    glow: 0.5,
    saturation: 0.16,
    warmth: 0.35,
    sharpen: 0.3,
    ..Retouch::NONE
};

/// Detail setting at which the skin texture is unchanged: the default of the API.
const DETAIL_KEPT: f32 = 0.8;

/// Returns the amounts that remove blemishes. Less detail than the default weakens the texture, more detail amplifies
/// it.
fn faithful(detail: f32) -> Retouch {
    let smoothing = (1.0 - detail / DETAIL_KEPT).max(0.0);
    let emphasis = ((detail - DETAIL_KEPT) / (1.0 - DETAIL_KEPT)).max(0.0);
    Retouch { even: 0.95 - 0.75 * detail, texture: emphasis - smoothing, tone: 0.6 - 0.35 * detail, ..Retouch::NONE }
}

/// Returns the amounts for a focus.
fn flexible(focus: SkinPurpose) -> Retouch {
    let base = Retouch::NONE;
    match focus {
        SkinPurpose::EnhanceSkin => Retouch { even: 0.75, texture: 0.35, tone: 0.6, shine: 0.3, ..base },
        SkinPurpose::ImproveLighting => Retouch { light: 1.0, even: 0.15, shine: 0.4, contrast: 0.05, ..base },
        SkinPurpose::EnhanceEverything => Retouch {
            even: 0.6,
            texture: 0.2,
            tone: 0.5,
            light: 0.45,
            local_contrast: 0.45,
            contrast: 0.1,
            saturation: 0.18,
            sharpen: 0.8,
            ..base
        },
        SkinPurpose::TransformToReal => Retouch {
            texture: 0.6,
            pores: 0.6,
            shine: 0.5,
            saturation: -0.09,
            contrast: -0.08,
            warmth: -0.03,
            sharpen: 0.3,
            ..base
        },
        SkinPurpose::NoMakeUp => Retouch { make_up: 1.0, texture: 0.3, shine: 0.5, saturation: -0.06, ..base },
    }
}
