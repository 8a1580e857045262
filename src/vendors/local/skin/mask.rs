//! Where skin is.
//!
//! Skin of every shade reflects more red than green and more green than blue, by ratios that lie along one line: blood and
//! melanin take away more or less of the same light, and how bright it is does not matter. What is near that line is a
//! candidate; the colours that most candidates agree on are the skin of this picture, in its light. Rough places (hair,
//! wood, ground) are left out, and the borders follow those of the picture.

use super::super::filters::{box_blur, finer_than, smooth};
use super::super::guide::{Guided, Overview};
use super::super::light::{luminance, ramp};
use super::super::plane::Plane;

/// Where skin is and what it is like.
#[derive(Debug)]
pub struct Skin {
    /// How much a place is skin, 0 to 1, at the size of the overview.
    pub likeness: Plane,
    /// The face and what is in it: eyes, lips and brows too, 0 to 1.
    pub face: Plane,
    /// What skin is like here.
    pub tone: Tone,
    /// Side of a square as large as all skin, in samples of the overview.
    pub size: f32,
}

/// The colour of the skin of one picture.
#[derive(Debug, Clone, Copy)]
pub struct Tone {
    /// Logarithms of red by green and of green by blue.
    ratios: [f32; 2],
}

/// Middle of the colours of all skin.
const MIDDLE: [f32; 2] = [0.62, 0.50];
/// Darker than this, colour is noise; in light.
const DARK: f32 = 0.004;

/// Logarithms of red by green and of green by blue, in light.
#[must_use]
pub fn ratios([red, green, blue]: [f32; 3]) -> [f32; 2] {
    let [red, green, blue] = [red, green, blue].map(|light| (light + DARK).ln());
    [red - green, green - blue]
}

/// Distance of a colour from another, in widths towards grey, away from it, and across the line of skin colours.
fn distance(ratios: [f32; 2], from: [f32; 2], [paler, richer, across]: [f32; 3]) -> f32 {
    let [one, other] = [ratios[0] - from[0], ratios[1] - from[1]].map(|part| part * std::f32::consts::FRAC_1_SQRT_2);
    let along = (one + other) / if one + other < 0.0 { paler } else { richer };
    along.hypot((one - other) / across)
}

impl Tone {
    /// How much a colour is like the skin of this picture and could be skin at all, 0 to 1.
    #[must_use]
    pub fn likeness(self, light: [f32; 3]) -> f32 {
        let ratios = ratios(light);
        let own = 1.0 - ramp(distance(ratios, self.ratios, [0.34, 0.45, 0.22]), 0.8, 1.6);
        own * candidate(ratios, luminance(light))
    }

    /// Finds what most candidates agree on: from the middle of all skin uphill to where they are densest.
    fn of(overview: &Overview, plain: &Plane) -> Self {
        let candidates: Vec<_> = overview
            .colours()
            .zip(plain.values())
            .map(|(light, plain)| (ratios(light), plain * candidate(ratios(light), luminance(light))))
            .filter(|(_, weight)| *weight > 0.1)
            .collect();
        let mut ratios = MIDDLE;
        for _ in 0..8 {
            let mut sum = [1e-3 * ratios[0], 1e-3 * ratios[1], 1e-3];
            for (colour, weight) in &candidates {
                let near = weight * (-distance(*colour, ratios, [0.25, 0.25, 0.16]).powi(2)).exp();
                sum = [sum[0] + near * colour[0], sum[1] + near * colour[1], sum[2] + near];
            }
            ratios = [sum[0] / sum[2], sum[1] / sum[2]];
        }
        Self { ratios }
    }
}

/// How much a colour could be skin, 0 to 1.
fn candidate(ratios: [f32; 2], luminance: f32) -> f32 {
    let near = 1.0 - ramp(distance(ratios, MIDDLE, [0.36, 0.58, 0.24]), 0.9, 1.6);
    near * ramp(luminance, 0.006, 0.03)
}

impl Skin {
    /// Looks for skin.
    #[must_use]
    pub fn find(overview: &Overview) -> Self {
        let luma = overview.planes().luma;
        let plain = plainness(&luma);
        let tone = Tone::of(overview, &plain);
        let mut likeness = overview.map(|light| tone.likeness(light));
        likeness.combine(&plain, |likeness, plain| likeness * plain);
        let solid = solid(&likeness, luma.width().max(luma.height()) / 64);
        likeness.combine(&solid, |likeness, solid| likeness * solid);
        let share = likeness.values().iter().sum::<f32>();
        let mut likeness = Guided::fit(&luma, &likeness, 3, 0.06).small(&luma);
        likeness.values_mut().iter_mut().for_each(|value| *value = ramp(*value, 0.1, 0.7));
        let size = share.sqrt();
        let face = closed(&likeness, ((0.12 * size) as usize).max(1));
        Self { likeness, face, tone, size }
    }
}

/// One where the surroundings are plain, less where they are rough.
fn plainness(luma: &Plane) -> Plane {
    let mut rough = finer_than(luma, 1);
    rough.values_mut().iter_mut().for_each(|value| *value = value.abs());
    let mut plain = box_blur(&rough, 2);
    plain.values_mut().iter_mut().for_each(|value| *value = (-(*value / 0.045).powi(2)).exp());
    plain
}

/// Nothing where only specks are: skin comes in patches.
fn solid(likeness: &Plane, radius: usize) -> Plane {
    let mut solid = smooth(likeness, radius.max(1));
    solid.values_mut().iter_mut().for_each(|value| *value = ramp(*value, 0.1, 0.4));
    solid
}

/// With the holes of up to about `radius` filled, and soft borders.
fn closed(likeness: &Plane, radius: usize) -> Plane {
    let mut wide = smooth(likeness, radius);
    wide.values_mut().iter_mut().for_each(|value| *value = ramp(*value, 0.25, 0.55));
    let mut closed = smooth(&wide, (radius / 2).max(1));
    closed.combine(likeness, f32::max);
    closed
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage};

    use super::super::super::light::to_light;
    use super::*;
    use crate::media::input::Pixels;

    const SKINS: [[u8; 3]; 6] =
        [[255, 215, 185], [240, 190, 165], [224, 172, 140], [198, 134, 96], [141, 85, 56], [92, 58, 42]];

    #[test]
    fn skin_of_every_shade_is_found_and_nothing_else() {
        for skin in SKINS {
            let picture = RgbImage::from_fn(96, 96, |x, y| match (x, y) {
                (30..66, 20..76) => Rgb(skin),
                (_, 80..) => Rgb([60, 140, 50]),
                (..48, _) => Rgb([120, 170, 230]),
                _ => Rgb([128, 128, 128]),
            });
            let found = Skin::find(&Overview::of(&Pixels::Opaque(picture), 96));
            assert!(found.likeness.row(48)[48] > 0.9, "{skin:?} {}", found.likeness.row(48)[48]);
            for (x, y) in [(10, 40), (85, 40), (48, 90)] {
                assert!(found.likeness.row(y)[x] < 0.05, "{skin:?} at {x} {y}: {}", found.likeness.row(y)[x]);
            }
        }
    }

    #[test]
    fn skin_is_skin_in_warm_and_in_cool_light() {
        for tint in [[1.0, 0.85, 0.7], [0.8, 0.9, 1.0]] {
            let skin = [198_u8, 134, 96].map(|value| to_light(f32::from(value) / 255.0));
            let lit: [f32; 3] = std::array::from_fn(|at| skin[at] * tint[at]);
            assert!(candidate(ratios(lit), luminance(lit)) > 0.5, "{tint:?}");
        }
    }
}
