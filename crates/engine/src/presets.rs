//! Enlargement parameters, combined into the strengths of a few effects.
//!
//! Base, engine, kind of picture, the four strengths and the prompt add up to a [`Look`], which is all that the rest of
//! the engine uses. The amounts were chosen by viewing results on photographs, drawings and renders.

use crate::grade::Statistics;
use crate::job::{PictureKind, PictureUpscale, UpscaleCharacter};
use crate::prompt;

/// Strengths of the effects. Zero has no effect. Most range from -1 to 1; negative ones have the opposite effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Amount of edge-preserving smoothing, 0 to 1.
    pub smooth: f32,
    /// Amount of additional smoothing of skin colours, 0 to 1.
    pub skin: f32,
    /// Contrast at a large radius.
    pub local_contrast: f32,
    /// Contrast of the whole picture.
    pub contrast: f32,
    /// Brightness of midtones.
    pub exposure: f32,
    /// Brightness of highlights.
    pub highlights: f32,
    /// Saturation of all colours.
    pub saturation: f32,
    /// Saturation of weak colours.
    pub vibrance: f32,
    /// Saturation of greens.
    pub greens: f32,
    /// Shift towards orange; negative values shift towards blue.
    pub warmth: f32,
    /// Gain of the finest band; negative values soften.
    pub sharpen: f32,
    /// Steepness of edges.
    pub crisp: f32,
    /// Maximum overshoot of sharpening as a fraction of the local range.
    pub overshoot: f32,
    /// Synthesized texture where there is texture.
    pub texture: f32,
    /// Fine detail of the picture, repeated at the next smaller scale.
    pub own_detail: f32,
    /// Film grain.
    pub grain: f32,
    /// Rounds of back-projection, which corrects the result against the input, 0 to 3.
    pub fidelity: f32,
}

impl Look {
    /// No effect.
    pub const NONE: Self = Self {
        smooth: 0.0,
        skin: 0.0,
        local_contrast: 0.0,
        contrast: 0.0,
        exposure: 0.0,
        highlights: 0.0,
        saturation: 0.0,
        vibrance: 0.0,
        greens: 0.0,
        warmth: 0.0,
        sharpen: 0.0,
        crisp: 0.0,
        overshoot: 0.0,
        texture: 0.0,
        own_detail: 0.0,
        grain: 0.0,
        fidelity: 0.0,
    };

    /// Base of every picture: slight sharpening with limited overshoot, and enough correction for fidelity.
    const BASE: Self = Self { sharpen: 0.35, crisp: 0.2, overshoot: 0.25, fidelity: 1.5, ..Self::NONE };

    /// Adds up all parameters.
    #[must_use]
    pub fn from_parameters(parameters: &PictureUpscale, statistics: &Statistics) -> Self {
        let mut look = Self::BASE;
        look.add(&engine_look(parameters.engine, statistics), 1.0);
        look.add(&kind_look(parameters.optimized_for), 1.0);
        look.add(&creativity_look(parameters.creativity), 1.0);
        look.add(&fractality_look(parameters.fractality), 1.0);
        look.add(&hdr_look(parameters.hdr), 1.0);

        if let Some(text) = &parameters.prompt {
            // The API defines fractality as the strength of the prompt: none at -1, full at 1.
            look.add(&prompt::parse_look(text.as_str()), 0.5 + 0.5 * parameters.fractality);
        }

        look.with_resemblance(parameters.resemblance).clamped()
    }

    /// Adds `strength` times another look.
    pub fn add(&mut self, other: &Self, strength: f32) {
        for (amount, other) in self.amounts_mut().into_iter().zip(other.amounts()) {
            *amount += strength * other;
        }
    }

    /// Applies the resemblance. Higher values weaken all other parameters and correct the result more often against the
    /// input; lower values correct less and add styling.
    fn with_resemblance(self, ratio: f32) -> Self {
        if ratio < 0.0 {
            let mut look = self;
            look.add(&Self { fidelity: 1.5 * ratio, smooth: -0.5 * ratio, sharpen: -0.3 * ratio, ..Self::NONE }, 1.0);
            return look;
        }
        let mut look = self;
        look.amounts_mut().into_iter().for_each(|amount| *amount *= 1.0 - 0.9 * ratio);
        Self { overshoot: self.overshoot, fidelity: self.fidelity + (3.0 - self.fidelity) * ratio, ..look }
    }

    /// Returns the look of a second enlargement, which adds to the effect of the first.
    #[must_use]
    pub fn for_second_pass(self) -> Self {
        Self {
            sharpen: 0.6 * self.sharpen,
            crisp: 0.6 * self.crisp,
            texture: 0.6 * self.texture,
            own_detail: 0.6 * self.own_detail,
            ..self
        }
    }

    fn amounts(&self) -> [f32; 17] {
        let mut copy = *self;
        copy.amounts_mut().map(|amount| *amount)
    }

    fn amounts_mut(&mut self) -> [&mut f32; 17] {
        let Self {
            smooth,
            skin,
            local_contrast,
            contrast,
            exposure,
            highlights,
            saturation,
            vibrance,
            greens,
            warmth,
            sharpen,
            crisp,
            overshoot,
            texture,
            own_detail,
            grain,
            fidelity,
        } = self;
        [
            smooth,
            skin,
            local_contrast,
            contrast,
            exposure,
            highlights,
            saturation,
            vibrance,
            greens,
            warmth,
            sharpen,
            crisp,
            overshoot,
            texture,
            own_detail,
            grain,
            fidelity,
        ]
    }

    /// Clamps sums to ranges that do not damage the picture.
    fn clamped(self) -> Self {
        Self {
            smooth: self.smooth.clamp(0.0, 1.0),
            skin: self.skin.clamp(0.0, 1.0),
            local_contrast: self.local_contrast.clamp(-0.8, 1.5),
            contrast: self.contrast.clamp(-0.5, 0.5),
            exposure: self.exposure.clamp(-1.0, 1.0),
            highlights: self.highlights.clamp(-0.5, 0.5),
            saturation: self.saturation.clamp(-0.9, 0.8),
            vibrance: self.vibrance.clamp(0.0, 0.8),
            greens: self.greens.clamp(-0.5, 0.6),
            warmth: self.warmth.clamp(-1.0, 1.0),
            sharpen: self.sharpen.clamp(-0.9, 2.5),
            crisp: self.crisp.clamp(0.0, 1.8),
            overshoot: self.overshoot.clamp(0.0, 0.5),
            texture: self.texture.clamp(0.0, 4.0),
            own_detail: self.own_detail.clamp(0.0, 5.0),
            grain: self.grain.clamp(0.0, 1.0),
            fidelity: self.fidelity.clamp(0.0, 3.0),
        }
    }
}

/// Soft and painterly: even surfaces with intact edges.
const ILLUSIO: Look = Look { smooth: 0.75, sharpen: -0.15, overshoot: -0.1, ..Look::NONE };
/// Crisp: strong finest band with tight limits on halos.
const SHARPY: Look = Look { sharpen: 1.1, crisp: 1.0, overshoot: -0.05, own_detail: 0.6, ..Look::NONE };
/// Moderate: local contrast, bright highlights and stronger weak colours. Tone and colour stay within half a decibel of
/// the input, which stronger amounts of them do not.
const SPARKLE: Look =
    Look { sharpen: 0.45, local_contrast: 0.1, highlights: 0.06, vibrance: 0.08, own_detail: 0.4, ..Look::NONE };

/// Returns the look of an engine. The automatic engine selects by the statistics and applies a weak variant without
/// colours for fidelity.
fn engine_look(engine: UpscaleCharacter, statistics: &Statistics) -> Look {
    match engine {
        UpscaleCharacter::Illusio => ILLUSIO,
        UpscaleCharacter::Sharpy => SHARPY,
        UpscaleCharacter::Sparkle => SPARKLE,
        UpscaleCharacter::Automatic if statistics.is_noisy() => Look { smooth: 0.25, sharpen: -0.15, ..Look::NONE },
        UpscaleCharacter::Automatic if statistics.is_drawn() => Look { sharpen: 0.2, crisp: 0.3, ..Look::NONE },
        UpscaleCharacter::Automatic => Look { sharpen: 0.1, ..Look::NONE },
    }
}

/// Returns the look of a kind of picture.
fn kind_look(kind: PictureKind) -> Look {
    let base = Look::NONE;
    match kind {
        PictureKind::Standard => base,
        PictureKind::SoftPortraits => {
            Look { skin: 0.75, smooth: 0.1, local_contrast: -0.15, warmth: 0.12, sharpen: -0.1, ..base }
        }
        PictureKind::HardPortraits => {
            Look { local_contrast: 0.5, contrast: 0.12, sharpen: 0.4, own_detail: 0.8, saturation: -0.05, ..base }
        }
        PictureKind::ArtNIllustration => {
            Look { smooth: 0.6, sharpen: 0.4, crisp: 0.9, overshoot: -0.15, saturation: 0.1, ..base }
        }
        PictureKind::VideogameAssets => Look {
            smooth: 0.35,
            sharpen: 0.7,
            crisp: 1.4,
            overshoot: -0.25,
            saturation: 0.12,
            contrast: 0.1,
            grain: -1.0,
            ..base
        },
        PictureKind::NatureNLandscapes => Look {
            texture: 0.8,
            own_detail: 1.5,
            greens: 0.35,
            saturation: 0.12,
            local_contrast: 0.25,
            sharpen: 0.25,
            ..base
        },
        PictureKind::FilmsNPhotography => {
            Look { grain: 0.5, highlights: -0.15, contrast: -0.04, saturation: -0.06, warmth: 0.05, ..base }
        }
        PictureKind::Renders3d => {
            Look { smooth: 0.45, sharpen: 0.3, crisp: 0.6, overshoot: -0.2, local_contrast: 0.1, grain: -1.0, ..base }
        }
        PictureKind::ScienceFictionNHorror => Look {
            exposure: -0.35,
            warmth: -0.35,
            contrast: 0.25,
            saturation: -0.15,
            local_contrast: 0.3,
            sharpen: 0.25,
            ..base
        },
    }
}

/// Returns the look for a value of `creativity`: positive values synthesize detail, negative ones simplify.
fn creativity_look(ratio: f32) -> Look {
    if ratio >= 0.0 {
        Look { texture: 2.0 * ratio, own_detail: 0.8 * ratio, sharpen: 0.1 * ratio, ..Look::NONE }
    } else {
        Look { smooth: -0.6 * ratio, sharpen: 0.4 * ratio, ..Look::NONE }
    }
}

/// Returns the look for a value of `fractality`: positive values repeat the picture's detail at a smaller scale,
/// negative ones soften small scales.
fn fractality_look(ratio: f32) -> Look {
    if ratio >= 0.0 {
        Look { own_detail: 3.5 * ratio, sharpen: 0.35 * ratio, ..Look::NONE }
    } else {
        Look { sharpen: 0.8 * ratio, ..Look::NONE }
    }
}

/// Returns the look for a value of `hdr`: positive values raise local contrast, negative ones lower it.
fn hdr_look(ratio: f32) -> Look {
    let contrast = if ratio >= 0.0 { 0.9 } else { 0.6 };
    Look { local_contrast: contrast * ratio, sharpen: 0.3 * ratio, ..Look::NONE }
}
