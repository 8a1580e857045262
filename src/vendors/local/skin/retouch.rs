//! What each mode does, as amounts of a few kinds of work.

use crate::domain::image::{SkinEnhance, SkinFocus, SkinMode};

/// Amounts of work. Zero leaves a thing as it is; most are from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retouch {
    /// Share of blemishes and blotches taken out of skin, and of wrinkles softened.
    pub even: f32,
    /// Change of the fine texture of skin: -1 takes it out, 1 doubles it.
    pub texture: f32,
    /// Share of the uneven colour taken out of skin.
    pub tone: f32,
    /// Invented pores.
    pub pores: f32,
    /// Share of the shine taken off skin.
    pub shine: f32,
    /// Share of paint taken off the face.
    pub make_up: f32,
    /// Evening and filling of the light.
    pub light: f32,
    /// Contrast against the wide surroundings, everywhere.
    pub local_contrast: f32,
    /// Contrast of the whole picture.
    pub contrast: f32,
    /// Smoothing of what is not skin.
    pub smooth: f32,
    /// Light that spreads from what is bright.
    pub glow: f32,
    /// Strength of all colours.
    pub saturation: f32,
    /// Towards orange.
    pub warmth: f32,
    /// Gain of the finest band.
    pub sharpen: f32,
    pub grain: f32,
}

impl Retouch {
    /// Nothing of anything.
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

    /// What a job asks for.
    #[must_use]
    pub fn of(job: SkinEnhance) -> Self {
        let mode = match job.mode {
            SkinMode::Creative => CREATIVE,
            SkinMode::Faithful { detail } => faithful(detail.ratio()),
            SkinMode::Flexible { focus } => flexible(focus),
        };
        Self { sharpen: mode.sharpen + 2.0 * job.sharpen.ratio(), grain: job.smart_grain.ratio(), ..mode }
    }
}

/// A portrait as for a cover: porcelain with invented pores, glowing, rich and warm.
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

/// The detail of skin at which its texture stays as it is: the default of the interface.
const DETAIL_KEPT: f32 = 0.8;

/// Only blemishes go, and with less detail ever more of the texture; with more than usual the texture is brought out.
fn faithful(detail: f32) -> Retouch {
    let less = (1.0 - detail / DETAIL_KEPT).max(0.0);
    let more = ((detail - DETAIL_KEPT) / (1.0 - DETAIL_KEPT)).max(0.0);
    Retouch { even: 0.95 - 0.75 * detail, texture: more - less, tone: 0.6 - 0.35 * detail, ..Retouch::NONE }
}

/// One row for each purpose.
fn flexible(focus: SkinFocus) -> Retouch {
    let none = Retouch::NONE;
    match focus {
        SkinFocus::EnhanceSkin => Retouch { even: 0.75, texture: 0.35, tone: 0.6, shine: 0.3, ..none },
        SkinFocus::ImproveLighting => Retouch { light: 1.0, even: 0.15, shine: 0.4, contrast: 0.05, ..none },
        SkinFocus::EnhanceEverything => Retouch {
            even: 0.6,
            texture: 0.2,
            tone: 0.5,
            light: 0.45,
            local_contrast: 0.45,
            contrast: 0.1,
            saturation: 0.18,
            sharpen: 0.8,
            ..none
        },
        SkinFocus::TransformToReal => Retouch {
            texture: 0.6,
            pores: 0.6,
            shine: 0.5,
            saturation: -0.09,
            contrast: -0.08,
            warmth: -0.03,
            sharpen: 0.3,
            ..none
        },
        SkinFocus::NoMakeUp => Retouch { make_up: 1.0, texture: 0.3, shine: 0.5, saturation: -0.06, ..none },
    }
}
