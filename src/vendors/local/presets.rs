//! What is wanted of a picture: every parameter of the interface as amounts of a few kinds of work.
//!
//! All sources add up: the base, the engine, the kind of picture, the four dials and the prompt. Everything else in the
//! engine sees only the sum, a [`Look`]; the numbers below were chosen by looking at photographs, drawings and renders.

use super::grade::Statistics;
use super::prompt;
use crate::domain::image::{OptimizedFor, Upscale, UpscaleEngine};

/// Amounts of work. Zero leaves a thing as it is; most amounts are from -1 to 1, and a negative amount does the opposite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Share of the edge-preserving smoothing, 0 to 1.
    pub smooth: f32,
    /// Share of additional smoothing where colours are those of skin, 0 to 1.
    pub skin: f32,
    /// Contrast against the wide surroundings.
    pub local_contrast: f32,
    /// Contrast of the whole picture.
    pub contrast: f32,
    /// Brightness of the middle tones.
    pub exposure: f32,
    /// Lift of what is bright already.
    pub highlights: f32,
    /// Strength of all colours.
    pub saturation: f32,
    /// Strength of weak colours.
    pub vibrance: f32,
    /// Strength of greens.
    pub greens: f32,
    /// Towards orange; negative towards blue.
    pub warmth: f32,
    /// Gain of the finest band; negative softens.
    pub sharpen: f32,
    /// Steepness of edges.
    pub crisp: f32,
    /// How far sharpening may leave the range of the neighbours, as a share of the range.
    pub overshoot: f32,
    /// Invented texture where there is texture.
    pub texture: f32,
    /// The picture's own fine detail, repeated on the next smaller scale.
    pub own_detail: f32,
    /// Film grain.
    pub grain: f32,
    /// Rounds of correction after which the reduced result is the input, 0 to 3.
    pub fidelity: f32,
}

impl Look {
    /// Nothing of anything.
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

    /// What every picture gets: a little sharpness, limited, and enough correction to be faithful.
    const BASE: Self = Self { sharpen: 0.35, crisp: 0.2, overshoot: 0.25, fidelity: 1.5, ..Self::NONE };

    /// The sum of everything that was asked for.
    #[must_use]
    pub fn of(parameters: &Upscale, statistics: &Statistics) -> Self {
        let mut look = Self::BASE;
        look.add(&engine(parameters.engine, statistics), 1.0);
        look.add(&kind(parameters.optimized_for), 1.0);
        look.add(&creativity(parameters.creativity.ratio()), 1.0);
        look.add(&fractality(parameters.fractality.ratio()), 1.0);
        look.add(&definition(parameters.hdr.ratio()), 1.0);
        if let Some(text) = &parameters.prompt {
            // The strength of the prompt is what fractality is, by its description: nothing at -10, all at 10.
            look.add(&prompt::wish(text.as_str()), 0.5 + 0.5 * parameters.fractality.ratio());
        }
        look.resembling(parameters.resemblance.ratio()).limited()
    }

    /// Adds `strength` times another look.
    pub fn add(&mut self, other: &Self, strength: f32) {
        for (amount, other) in self.amounts_mut().into_iter().zip(other.amounts()) {
            *amount += strength * other;
        }
    }

    /// Higher takes back what every other parameter makes of the picture and corrects the result more often towards the input; lower
    /// stops correcting and lets the styling go further.
    fn resembling(self, ratio: f32) -> Self {
        if ratio < 0.0 {
            let mut look = self;
            look.add(&Self { fidelity: 1.5 * ratio, smooth: -0.5 * ratio, sharpen: -0.3 * ratio, ..Self::NONE }, 1.0);
            return look;
        }
        let mut look = self;
        look.amounts_mut().into_iter().for_each(|amount| *amount *= 1.0 - 0.9 * ratio);
        Self { overshoot: self.overshoot, fidelity: self.fidelity + (3.0 - self.fidelity) * ratio, ..look }
    }

    /// What a second enlargement takes of this look: each step adds to the one before it.
    #[must_use]
    pub fn again(self) -> Self {
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

    /// Sums that would break the picture are cut to what it bears.
    fn limited(self) -> Self {
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

/// Soft and painterly: surfaces become even, edges stay.
const ILLUSIO: Look = Look { smooth: 0.75, sharpen: -0.15, overshoot: -0.1, ..Look::NONE };
/// Crisp: far more of the finest band, and hardly any room for halos.
const SHARPY: Look = Look { sharpen: 1.1, crisp: 1.0, overshoot: -0.05, own_detail: 0.6, ..Look::NONE };
/// Between the two, with small contrasts, bright lights and weak colours brought out.
const SPARKLE: Look =
    Look { sharpen: 0.35, local_contrast: 0.12, highlights: 0.25, vibrance: 0.25, own_detail: 0.4, ..Look::NONE };

/// Automatic takes the character that fits the picture, but only a share of it and no colours, so that the result stays
/// faithful.
fn engine(engine: UpscaleEngine, statistics: &Statistics) -> Look {
    match engine {
        UpscaleEngine::Illusio => ILLUSIO,
        UpscaleEngine::Sharpy => SHARPY,
        UpscaleEngine::Sparkle => SPARKLE,
        UpscaleEngine::Automatic if statistics.is_noisy() => Look { smooth: 0.25, sharpen: -0.15, ..Look::NONE },
        UpscaleEngine::Automatic if statistics.is_drawn() => Look { sharpen: 0.2, crisp: 0.3, ..Look::NONE },
        UpscaleEngine::Automatic => Look { sharpen: 0.1, ..Look::NONE },
    }
}

/// One row for each kind of picture, each in the direction of its name.
fn kind(kind: OptimizedFor) -> Look {
    let none = Look::NONE;
    match kind {
        OptimizedFor::Standard => none,
        OptimizedFor::SoftPortraits => {
            Look { skin: 0.75, smooth: 0.1, local_contrast: -0.15, warmth: 0.12, sharpen: -0.1, ..none }
        }
        OptimizedFor::HardPortraits => {
            Look { local_contrast: 0.5, contrast: 0.12, sharpen: 0.4, own_detail: 0.8, saturation: -0.05, ..none }
        }
        OptimizedFor::ArtNIllustration => {
            Look { smooth: 0.6, sharpen: 0.4, crisp: 0.9, overshoot: -0.15, saturation: 0.1, ..none }
        }
        OptimizedFor::VideogameAssets => Look {
            smooth: 0.35,
            sharpen: 0.7,
            crisp: 1.4,
            overshoot: -0.25,
            saturation: 0.12,
            contrast: 0.1,
            grain: -1.0,
            ..none
        },
        OptimizedFor::NatureNLandscapes => Look {
            texture: 0.8,
            own_detail: 1.5,
            greens: 0.35,
            saturation: 0.12,
            local_contrast: 0.25,
            sharpen: 0.25,
            ..none
        },
        OptimizedFor::FilmsNPhotography => {
            Look { grain: 0.5, highlights: -0.15, contrast: -0.04, saturation: -0.06, warmth: 0.05, ..none }
        }
        OptimizedFor::Renders3d => {
            Look { smooth: 0.45, sharpen: 0.3, crisp: 0.6, overshoot: -0.2, local_contrast: 0.1, grain: -1.0, ..none }
        }
        OptimizedFor::ScienceFictionNHorror => Look {
            exposure: -0.35,
            warmth: -0.35,
            contrast: 0.25,
            saturation: -0.15,
            local_contrast: 0.3,
            sharpen: 0.25,
            ..none
        },
    }
}

/// Higher invents detail, lower stays plain.
fn creativity(ratio: f32) -> Look {
    if ratio >= 0.0 {
        Look { texture: 2.4 * ratio, own_detail: 0.6 * ratio, sharpen: 0.1 * ratio, ..Look::NONE }
    } else {
        Look { smooth: -0.6 * ratio, sharpen: 0.4 * ratio, ..Look::NONE }
    }
}

/// Higher repeats the picture's own detail on a smaller scale, lower makes small scales plainer.
fn fractality(ratio: f32) -> Look {
    if ratio >= 0.0 {
        Look { own_detail: 3.5 * ratio, sharpen: 0.35 * ratio, ..Look::NONE }
    } else {
        Look { sharpen: 0.8 * ratio, ..Look::NONE }
    }
}

/// Higher brings out definition against the surroundings, lower flattens.
fn definition(ratio: f32) -> Look {
    let contrast = if ratio >= 0.0 { 0.9 } else { 0.6 };
    Look { local_contrast: contrast * ratio, sharpen: 0.3 * ratio, ..Look::NONE }
}
