//! Plan of a relighting: all parameters, combined into the strengths of a few effects.

use crate::job::{LightCharacter, LightCurve, LightTransfer, PictureRelight, RelightAlgorithm};
use crate::light::ramp;

/// Strengths of the effects. `light` and `tint` are gains of the computed light; zero in any other field has no effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RelightPlan {
    /// Strength of the transferred exposure.
    pub light: f32,
    /// Strength of the transferred colour.
    pub tint: f32,
    /// Additional strength on faces.
    pub on_faces: f32,
    /// Amount of blur of the light, 0 to 1; a fully blurred light follows only the composition.
    pub spread: f32,
    /// Hardness of the borders between light and shade.
    pub hardness: f32,
    /// Steps of light in place of a gradient, 0 to 1.
    pub steps: f32,
    /// Amount of cooler light, 0 to 1.
    pub cool: f32,
    /// Bloom around bright areas.
    pub glow: f32,
    /// Smoothing of surfaces.
    pub smooth: f32,
    /// Overall brightness in stops.
    pub stops: f32,
    /// Contrast of the whole picture; negative values flatten it.
    pub contrast: f32,
    /// Contrast at a large radius.
    pub local_contrast: f32,
    /// Amount by which black is lifted; negative values deepen it.
    pub lift: f32,
    /// Fraction of the colour cast removed from greys.
    pub neutral: f32,
    /// Change of saturation: -1 removes all colour, 1 doubles it.
    pub saturation: f32,
    /// Fraction of the original colours kept.
    pub keep_colours: f32,
}

impl RelightPlan {
    /// Unchanged light and no other work.
    pub const NONE: Self = Self {
        light: 1.0,
        tint: 1.0,
        on_faces: 0.0,
        spread: 0.0,
        hardness: 0.0,
        steps: 0.0,
        cool: 0.0,
        glow: 0.0,
        smooth: 0.0,
        stops: 0.0,
        contrast: 0.0,
        local_contrast: 0.0,
        lift: 0.0,
        neutral: 0.0,
        saturation: 0.0,
        keep_colours: 0.0,
    };

    /// Creates the plan of a job. `is_drawn` is `true` for drawings.
    #[must_use]
    pub fn from_job(job: &PictureRelight, is_drawn: bool) -> Self {
        let strength = job.light_transfer_strength;
        let engine = engine_plan(job.advanced.engine, is_drawn);
        let style = style_plan(job.style);
        let transfer = transfer_plan(job.advanced.transfer_light_a);
        let curve = curve_plan(job.advanced.transfer_light_b);

        Self {
            light: strength * engine.light * style.light * transfer.light * curve.light,
            tint: strength * engine.tint * style.tint * transfer.light * curve.tint,
            on_faces: transfer.on_faces,
            spread: (engine.spread + style.spread + curve.spread).clamp(0.0, 1.0),
            hardness: engine.hardness + style.hardness,
            steps: strength * engine.steps,
            cool: strength * engine.cool,
            glow: strength * engine.glow + style.glow,
            smooth: (strength * engine.smooth + style.smooth).min(1.0),
            stops: strength * engine.stops + style.stops,
            contrast: strength * engine.contrast + style.contrast,
            local_contrast: strength * engine.local_contrast + style.local_contrast,
            lift: strength * engine.lift + style.lift,
            neutral: style.neutral,
            saturation: strength * engine.saturation + style.saturation,
            keep_colours: style.keep_colours,
        }
    }
}

/// Short name for the tables below.
const NONE: RelightPlan = RelightPlan::NONE;

/// Returns the effects of a style, which the strength of the job does not scale, except for `light` and `tint`.
fn style_plan(style: LightCharacter) -> RelightPlan {
    match style {
        LightCharacter::Standard => NONE,
        LightCharacter::DarkerButRealistic => {
            RelightPlan { stops: -0.8, contrast: 0.12, lift: -0.02, saturation: -0.06, ..NONE }
        }
        LightCharacter::Clean => {
            RelightPlan { stops: 0.25, neutral: 0.7, tint: 0.5, lift: 0.01, contrast: 0.06, ..NONE }
        }
        LightCharacter::Smooth => {
            RelightPlan { spread: 0.6, smooth: 0.5, contrast: -0.1, local_contrast: -0.25, glow: 0.15, ..NONE }
        }
        LightCharacter::Brighter => RelightPlan { stops: 0.85, lift: 0.015, ..NONE },
        LightCharacter::ContrastedNHdr => {
            RelightPlan { local_contrast: 0.9, contrast: 0.16, saturation: 0.12, hardness: 0.4, ..NONE }
        }
        LightCharacter::JustComposition => RelightPlan { tint: 0.0, keep_colours: 1.0, ..NONE },
    }
}

/// Returns the effects of an engine. `is_drawn` is `true` for drawings.
fn engine_plan(engine: RelightAlgorithm, is_drawn: bool) -> RelightPlan {
    match engine {
        // Drawings tolerate stronger relighting than photographs before the result looks false.
        RelightAlgorithm::Automatic if is_drawn => RelightPlan { light: 1.2, tint: 1.2, hardness: 0.3, ..NONE },
        RelightAlgorithm::Automatic => RelightPlan { light: 0.9, tint: 0.9, spread: 0.1, ..NONE },
        RelightAlgorithm::Balanced => NONE,
        RelightAlgorithm::Cool => RelightPlan { tint: 0.7, cool: 0.3, saturation: -0.08, ..NONE },
        RelightAlgorithm::Real => {
            RelightPlan { light: 1.1, tint: 0.8, hardness: 0.3, contrast: 0.05, local_contrast: 0.1, ..NONE }
        }
        RelightAlgorithm::Illusio => {
            RelightPlan { tint: 1.2, smooth: 0.7, glow: 0.35, saturation: 0.12, spread: 0.2, ..NONE }
        }
        RelightAlgorithm::Fairy => RelightPlan {
            light: 0.8,
            tint: 1.3,
            spread: 0.4,
            glow: 0.8,
            lift: 0.05,
            stops: 0.25,
            smooth: 0.3,
            contrast: -0.08,
            saturation: 0.15,
            ..NONE
        },
        RelightAlgorithm::ColorfulAnime => {
            RelightPlan { light: 1.2, steps: 0.85, smooth: 0.8, saturation: 0.45, hardness: 0.6, contrast: 0.1, ..NONE }
        }
        RelightAlgorithm::HardTransform => RelightPlan { light: 1.6, tint: 1.4, hardness: 1.0, contrast: 0.12, ..NONE },
        RelightAlgorithm::Softy => {
            RelightPlan { light: 0.65, tint: 0.8, spread: 0.7, glow: 0.25, smooth: 0.25, contrast: -0.12, ..NONE }
        }
    }
}

/// Returns the gain of the light and its additional strength on faces.
fn transfer_plan(transfer: LightTransfer) -> RelightPlan {
    match transfer {
        LightTransfer::Automatic => RelightPlan { light: 0.9, on_faces: 0.3, ..NONE },
        LightTransfer::Low => RelightPlan { light: 0.4, ..NONE },
        LightTransfer::Medium => RelightPlan { light: 0.7, ..NONE },
        LightTransfer::Normal => NONE,
        LightTransfer::High => RelightPlan { light: 1.45, ..NONE },
        LightTransfer::HighOnFaces => RelightPlan { on_faces: 1.0, ..NONE },
    }
}

/// Returns the gains of light and colour, and the amount of blur. The other curves only select the affected tones; see
/// [`affected_share`].
fn curve_plan(curve: LightCurve) -> RelightPlan {
    match curve {
        LightCurve::Composition => RelightPlan { light: 1.1, spread: 0.8, ..NONE },
        LightCurve::StyleShift => RelightPlan { light: 0.55, tint: 1.8, ..NONE },
        LightCurve::StrongShift => RelightPlan { light: 1.5, tint: 1.8, ..NONE },
        _ => NONE,
    }
}

/// Returns the fraction of the light, 0 to 1.6, that affects a brightness from 0 (black) to 1 (white).
#[must_use]
#[inline]
pub fn affected_share(curve: LightCurve, brightness: f32) -> f32 {
    let from_dark = ramp(brightness, 0.0, 0.55);
    let to_bright = 1.0 - ramp(brightness, 0.45, 1.0);
    let middle = ramp(brightness, 0.0, 0.5) * (1.0 - ramp(brightness, 0.5, 1.0));

    match curve {
        LightCurve::Straight | LightCurve::Composition | LightCurve::StyleShift | LightCurve::StrongShift => 1.0,
        LightCurve::Automatic => 0.88 + 0.12 * middle,
        LightCurve::SmoothIn => from_dark,
        LightCurve::SmoothOut => to_bright,
        LightCurve::SmoothBoth => from_dark * to_bright,
        LightCurve::ReverseBoth => 1.0 - 0.85 * middle,
        LightCurve::SoftIn => 0.5 + 0.5 * from_dark,
        LightCurve::SoftOut => 0.5 + 0.5 * to_bright,
        LightCurve::SoftMid => 1.0 - 0.5 * middle,
        LightCurve::StrongMid => 0.7 + 0.9 * middle,
    }
}
