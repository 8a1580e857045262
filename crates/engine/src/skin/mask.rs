//! Skin detection.
//!
//! Skin of every shade reflects more red than green and more green than blue, by ratios along one line: blood and
//! melanin absorb more or less of the same light, independent of brightness (the skin locus of Störring, Andersen and
//! Granum, "Physics-based modelling of human skin colour under mixed illuminants"). Colours near that line are
//! candidates. The colours that most candidates share are the skin tone of the picture, in its light.
//!
//! Fur, wood and sand have such colours, too, but more grain (`texture.rs`). Grain is measured at each sample, around
//! it and in the whole connected region, so that blurred parts of fur are excluded as well. Mask borders follow the
//! edges of the picture.

use super::region;
use super::texture::evenness;
use crate::filters::smooth;
use crate::guide::{GuidedFilter, Overview};
use crate::light::{gain_of, luminance, ramp, stops_of};
use crate::plane::Plane;

/// Skin of a picture.
#[derive(Debug)]
pub struct Skin {
    /// Likelihood of skin, 0 to 1, at the size of the overview.
    pub likeness: Plane,
    /// Face including eyes, lips and brows, 0 to 1.
    pub face: Plane,
    /// Skin tone of the picture.
    pub tone: Tone,
    /// Side of a square with the area of all skin, in samples of the overview.
    pub size: f32,
}

/// Skin tone of one picture.
#[derive(Debug, Clone, Copy)]
pub struct Tone {
    /// Natural logarithms of red by green and of green by blue.
    ratios: [f32; 2],
}

/// Centre of the skin tones of all people, as [`ratios`].
const MIDDLE: [f32; 2] = [0.62, 0.50];
/// Widths of the skin tones of all people, for [`distance`].
const ANYONE_WIDTHS: [f32; 3] = [0.36, 0.58, 0.24];
/// Widths of the skin tones of one picture.
const PICTURE_WIDTHS: [f32; 3] = [0.34, 0.45, 0.22];
/// Widths of the window in which the skin tone of a picture is averaged.
const SEARCH_WIDTHS: [f32; 3] = [0.25, 0.25, 0.16];
/// Linear light, 0 to 1, below which colour is noise.
const DARK: f32 = 0.004;

/// Returns the natural logarithms of red by green and of green by blue in linear light.
#[must_use]
#[expect(clippy::inline_always, reason = "loops that call it are vectorized only if it is inlined")]
#[inline(always)]
pub fn ratios([red, green, blue]: [f32; 3]) -> [f32; 2] {
    let [red, green, blue] = [red, green, blue].map(|light| std::f32::consts::LN_2 * stops_of(light.max(0.0) + DARK));
    [red - green, green - blue]
}

/// Returns the distance between colours relative to three widths: towards grey, away from grey, and across the skin
/// locus.
#[expect(clippy::inline_always, reason = "loops that call it are vectorized only if it is inlined")]
#[inline(always)]
fn distance(ratios: [f32; 2], from: [f32; 2], [paler, richer, across]: [f32; 3]) -> f32 {
    let [du, dv] = [ratios[0] - from[0], ratios[1] - from[1]].map(|part| part * std::f32::consts::FRAC_1_SQRT_2);
    let along = (du + dv) / if du + dv < 0.0 { paler } else { richer };
    let across = (du - dv) / across;
    (along * along + across * across).sqrt()
}

impl Tone {
    /// Returns the likelihood, 0 to 1, that a colour is skin of this picture.
    #[must_use]
    #[expect(clippy::inline_always, reason = "loops that call it are vectorized only if it is inlined")]
    #[inline(always)]
    pub fn likeness(self, light: [f32; 3]) -> f32 {
        let ratios = ratios(light);
        self.similarity(ratios) * candidate_likelihood(ratios, luminance(light))
    }

    /// Returns the similarity of a colour to the skin tone of this picture, 0 to 1.
    #[expect(clippy::inline_always, reason = "loops that call it are vectorized only if it is inlined")]
    #[inline(always)]
    fn similarity(self, ratios: [f32; 2]) -> f32 {
        1.0 - ramp(distance(ratios, self.ratios, PICTURE_WIDTHS), 0.8, 1.6)
    }

    /// Finds the colour that most candidates share, by mean shift from the centre of all skin tones.
    fn from_weights(overview: &Overview, weights: &Plane) -> Self {
        let weighted = || overview.colours().zip(weights.values()).filter(|(_, weight)| **weight > 0.1);
        let step = weighted().count().div_ceil(CANDIDATES_MAX).max(1);
        let candidates: Vec<_> = weighted().step_by(step).map(|(light, weight)| (ratios(light), *weight)).collect();

        let mut middle = MIDDLE;
        for _ in 0..8 {
            let mut sum = [1e-3 * middle[0], 1e-3 * middle[1], 1e-3];
            for (colour, weight) in &candidates {
                let away = distance(*colour, middle, SEARCH_WIDTHS);
                let near = weight * gain_of(-std::f32::consts::LOG2_E * away * away);
                sum = [sum[0] + near * colour[0], sum[1] + near * colour[1], sum[2] + near];
            }
            middle = [sum[0] / sum[2], sum[1] / sum[2]];
        }

        Self { ratios: middle }
    }
}

/// Maximum number of candidates in the sample from which the skin tone is found.
const CANDIDATES_MAX: usize = 16_384;

/// Returns the likelihood, 0 to 1, that a colour is skin of any person.
#[expect(clippy::inline_always, reason = "loops that call it are vectorized only if it is inlined")]
#[inline(always)]
fn candidate_likelihood(ratios: [f32; 2], luminance: f32) -> f32 {
    let near = 1.0 - ramp(distance(ratios, MIDDLE, ANYONE_WIDTHS), 0.9, 1.6);
    near * ramp(luminance, 0.006, 0.03)
}

impl Skin {
    /// Finds the skin of a picture.
    #[must_use]
    pub fn find(overview: &Overview) -> Self {
        let luma = &overview.planes().luma;
        let side = luma.width().max(luma.height());
        let even = evenness(luma);

        // The skin tone of this picture.
        let candidates = overview.map(|light| candidate_likelihood(ratios(light), luminance(light)));
        let mut weights = candidates.clone();
        weights.combine(&even, |candidate, even| candidate * even);
        let tone = Tone::from_weights(overview, &weights);

        // Likelihood by colour and evenness, at the sample and around it.
        let coloured = overview.map(|light| tone.likeness(light));
        let mut likeness = coloured.clone();
        likeness.combine(&even, |likeness, even| likeness * even);
        let around = even_around(&coloured, &likeness, (side / 20).max(4));
        likeness.combine(&around, |likeness, around| likeness * around);

        // Specks and uneven regions are excluded.
        let solid = measure_solidity(&likeness, side / 64);
        likeness.combine(&solid, |likeness, solid| likeness * solid);
        let regions = even_regions(&candidates, &even);
        likeness.combine(&regions, |likeness, region| likeness * region);

        // The mask follows the edges of the picture.
        let area = likeness.values().iter().sum::<f32>();
        let mut likeness = GuidedFilter::fit(luma, &likeness, 3, 0.06).small(luma);
        likeness.values_mut().iter_mut().for_each(|value| *value = ramp(*value, 0.1, 0.7));

        let extent = area.sqrt();
        let face = close_holes(&likeness, ((0.12 * extent) as usize).max(1));
        Self { likeness, face, tone, size: extent }
    }
}

/// Returns a factor from 0 to 1, which is 0 where most of the skin-coloured samples within `radius` are not even.
fn even_around(coloured: &Plane, likeness: &Plane, radius: usize) -> Plane {
    let mut around = smooth(likeness, radius);
    around.combine(&smooth(coloured, radius), |even, total| ramp(even / (total + 0.02), 0.25, 0.5));
    around
}

/// Returns a factor from 0.3 to 1, which is low in connected regions with a large uneven part, such as fur with blurred
/// parts. The minimum is not 0 because fair hair or a wooden wall may touch a face.
fn even_regions(candidates: &Plane, even: &Plane) -> Plane {
    let mut regions = region::averages(&smooth(candidates, 2), 0.35, even);
    regions.values_mut().iter_mut().for_each(|share| *share = 0.3 + 0.7 * ramp(*share, 0.6, 0.78));
    smooth(&regions, 2)
}

/// Returns a factor from 0 to 1, which is 0 for isolated specks.
fn measure_solidity(likeness: &Plane, radius: usize) -> Plane {
    let mut solid = smooth(likeness, radius.max(1));
    solid.values_mut().iter_mut().for_each(|value| *value = ramp(*value, 0.1, 0.4));
    solid
}

/// Fills holes up to about `radius` and softens borders.
fn close_holes(likeness: &Plane, radius: usize) -> Plane {
    let mut wide = smooth(likeness, radius);
    wide.values_mut().iter_mut().for_each(|value| *value = ramp(*value, 0.25, 0.55));
    let mut closed = smooth(&wide, (radius / 2).max(1));
    closed.combine(likeness, f32::max);
    closed
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage};

    use super::*;
    use crate::light::to_light;
    use crate::picture::Pixels;

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
            let skin_mask = Skin::find(&Overview::from_pixels(&Pixels::Opaque(picture), 96)).likeness;
            assert!(skin_mask.row(48)[48] > 0.9, "{skin:?} {}", skin_mask.row(48)[48]);
            for (x, y) in [(10, 40), (85, 40), (48, 90)] {
                assert!(skin_mask.row(y)[x] < 0.05, "{skin:?} at {x} {y}: {}", skin_mask.row(y)[x]);
            }
        }
    }

    #[test]
    fn skin_is_skin_in_warm_and_in_cool_light() {
        for tint in [[1.0, 0.85, 0.7], [0.8, 0.9, 1.0]] {
            let skin = [198_u8, 134, 96].map(|value| to_light(f32::from(value) / 255.0));
            let lit: [f32; 3] = std::array::from_fn(|at| skin[at] * tint[at]);
            assert!(candidate_likelihood(ratios(lit), luminance(lit)) > 0.5, "{tint:?}");
        }
    }

    /// Returns the fraction of skin found in each part of a photograph in `data/photographs`. A part is given by its
    /// left, top, right and bottom.
    fn skin_shares<const N: usize>(name: &str, parts: [[usize; 4]; N]) -> [f32; N] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/photographs").join(name);
        let picture = image::load_from_memory(&std::fs::read(path).unwrap()).unwrap().into_rgb8();
        let skin_mask = Skin::find(&Overview::from_pixels(&Pixels::Opaque(picture), 768)).likeness;
        parts.map(|[left, top, right, bottom]| {
            let sum: f32 = (top..bottom).map(|y| skin_mask.row(y)[left..right].iter().sum::<f32>()).sum();
            sum / ((right - left) * (bottom - top)) as f32
        })
    }

    #[test]
    fn only_the_face_is_detected_as_skin() {
        let [left_cheek, right_cheek, forehead, chin] = skin_shares(
            "portrait.jpg",
            [[190, 122, 206, 148], [242, 118, 258, 146], [205, 86, 252, 98], [205, 155, 240, 172]],
        );
        assert!(left_cheek > 0.8 && right_cheek > 0.8, "{left_cheek} {right_cheek}");
        assert!(forehead > 0.35 && chin > 0.5, "{forehead} {chin}");
        let others =
            [[165, 30, 290, 60], [60, 280, 120, 400], [300, 60, 370, 200], [400, 20, 435, 100], [0, 100, 90, 500]];
        for (part, likeness) in others.into_iter().zip(skin_shares("portrait.jpg", others)) {
            assert!(likeness < 0.03, "{part:?} {likeness}");
        }
    }

    #[test]
    fn fur_wood_and_concrete_are_hardly_skin() {
        let fur = [[150, 20, 300, 90], [60, 150, 200, 230], [215, 110, 290, 220], [10, 200, 90, 300], [0, 0, 451, 300]];
        for (part, likeness) in fur.into_iter().zip(skin_shares("fur.jpg", fur)) {
            assert!(likeness < 0.2, "{part:?} {likeness}");
        }
        let wood = [[8, 96, 56, 304], [384, 120, 472, 304], [72, 160, 136, 264], [0, 0, 480, 320]];
        for (part, likeness) in wood.into_iter().zip(skin_shares("wood.jpg", wood)) {
            assert!(likeness < 0.12, "{part:?} {likeness}");
        }
        let [concrete, sky, rocket] =
            skin_shares("landscape.jpg", [[275, 410, 365, 425], [100, 50, 500, 100], [315, 180, 330, 400]]);
        assert!(concrete.max(sky).max(rocket) < 0.05, "{concrete} {sky} {rocket}");
    }

    #[test]
    fn sand_is_not_skin_despite_its_colour() {
        let grain = crate::noise::texture(crate::plane::Region { left: 0, top: 0, width: 96, height: 96 }, 1, 5);
        let sand = RgbImage::from_fn(96, 96, |x, y| {
            let light = 1.0 + 0.12 * grain.row(y as usize)[x as usize];
            Rgb([224.0, 178.0, 142.0].map(|value: f32| (value * light).clamp(0.0, 255.0) as u8))
        });
        let skin_mask = Skin::find(&Overview::from_pixels(&Pixels::Opaque(sand), 96)).likeness;
        let mean = skin_mask.values().iter().sum::<f32>() / skin_mask.values().len() as f32;
        assert!(mean < 0.1, "{mean}");
    }
}
