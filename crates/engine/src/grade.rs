//! Processing at the size of the input: statistics, smoothing, local contrast, tone and colour.
//!
//! None of these effects is finer than a pixel of the input. They therefore run before the enlargement, which is
//! cheaper and loses nothing. Back-projection compares the enlargement with the graded picture, not with the input.

use rayon::prelude::*;

use crate::colour::Planes;
use crate::filters::{finer_than, smooth_between_edges};
use crate::plane::{Plane, copy_clamped};
use crate::presets::Look;

/// Side in pixels of the blocks of the statistics.
const BLOCK: usize = 8;
/// Deviation of the finest band below which a block has no variation.
const FLAT_MAX: f32 = 0.003;
/// Deviation of the finest band from which a block contains a strong edge.
const EDGE_MIN: f32 = 0.06;

/// Statistics of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    /// Standard deviation of the noise, estimated from the plainest fifth of the picture.
    pub noise: f32,
    /// Fraction of blocks without variation.
    pub flat: f32,
    /// Fraction of strong edges among the blocks with variation.
    pub edges: f32,
}

impl Statistics {
    /// Measures the finest band of a picture.
    #[must_use]
    pub fn from_luma(luma: &Plane) -> Self {
        let mut blocks = measure_blocks(luma);
        blocks.sort_by(|a, b| a.deviation.total_cmp(&b.deviation));

        let flat = blocks.partition_point(|block| block.deviation < FLAT_MAX);
        let strong = blocks.len() - blocks.partition_point(|block| block.deviation < EDGE_MIN);

        let plainest = &blocks[..blocks.len().div_ceil(5)];
        let share = |count: usize, total: usize| count as f32 / total.max(1) as f32;

        Self {
            noise: plainest.iter().map(Block::noise).fold(0.0, |sum, noise| sum + noise) / plainest.len().max(1) as f32,
            flat: share(flat, blocks.len()),
            edges: share(strong, blocks.len() - flat),
        }
    }

    /// Returns `true` for photographs in bad light and damaged files, whose noise sharpening would amplify.
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.noise > 0.02
    }

    /// Returns `true` for drawings, logos and text, which have flat areas and hard edges.
    #[must_use]
    pub fn is_drawn(&self) -> bool {
        self.flat > 0.3 && self.edges > 0.4
    }
}

/// Measurements of a block.
struct Block {
    /// Standard deviation of the finest band.
    deviation: f32,
    /// Standard deviation of the noise if all of [`crookedness`] were noise.
    crooked: f32,
}

impl Block {
    /// Estimates the standard deviation of the noise. For white noise, both measurements give the same value. Texture
    /// varies more on coarser scales and has less crookedness, so the difference is subtracted.
    fn noise(&self) -> f32 {
        (2.0 * self.crooked - self.deviation / FINE_SHARE).max(0.0)
    }
}

/// Fraction of the standard deviation of white noise that the finest band keeps.
const FINE_SHARE: f32 = 0.91;

fn measure_blocks(luma: &Plane) -> Vec<Block> {
    let fine = finer_than(luma, 1);
    let crooked = crookedness(luma);
    let mut blocks = Vec::with_capacity(luma.values().len() / (BLOCK * BLOCK));
    let rows = luma.height() / BLOCK;
    let columns = luma.width() / BLOCK;

    let mut sums = vec![[0.0_f32; 2]; columns];

    for row in 0..rows {
        sums.fill([0.0; 2]);

        for y in row * BLOCK..(row + 1) * BLOCK {
            for (at, plane) in [&fine, &crooked].into_iter().enumerate() {
                let squares = plane.row(y).as_chunks::<BLOCK>().0.iter();
                let squares = squares.map(|part| part.iter().map(|value| value * value).sum::<f32>());
                sums.iter_mut().zip(squares).for_each(|(sum, square)| sum[at] += square);
            }
        }

        blocks.extend(sums.iter().map(|sums| {
            let [deviation, crooked] = sums.map(|sum| (sum / (BLOCK * BLOCK) as f32).sqrt());
            Block { deviation, crooked }
        }));
    }

    blocks
}

/// Returns the difference of two Laplacians, which is zero for slopes and for edges and lines along an axis (Immerkaer,
/// "Fast noise variance estimation"), scaled to keep the standard deviation of white noise.
#[must_use]
pub fn crookedness(luma: &Plane) -> Plane {
    let bottom = luma.height() - 1;
    let mut row = vec![0.0; luma.width() + 2];
    let mut bent = vec![0.0; luma.width() + 2];

    Plane::from_rows(luma.width(), luma.height(), |y, target| {
        bent.fill(0.0);
        for (y, weight) in [(y.saturating_sub(1), 1.0), (y, -2.0), ((y + 1).min(bottom), 1.0)] {
            copy_clamped(luma.row(y), -1, &mut row);
            bent.iter_mut().zip(&row).for_each(|(sum, value)| *sum += weight * value);
        }

        let around = bent.iter().zip(&bent[1..]).zip(&bent[2..]);
        for (value, ((left, middle), right)) in target.iter_mut().zip(around) {
            *value = (left - 2.0 * middle + right) / 6.0;
        }
    })
}

/// Radius of smoothing in pixels: large enough for surfaces, too small to join separate objects.
const SMOOTH_RADIUS: usize = 3;
/// Radius of skin smoothing in pixels.
const SKIN_RADIUS: usize = 5;

/// Applies the smoothing, contrast and colour of a look.
#[must_use]
pub fn grade(mut planes: Planes, look: &Look) -> Planes {
    if look.smooth > 0.0 {
        smooth_surfaces(&mut planes, look.smooth);
    }
    if look.skin > 0.0 {
        smooth_skin(&mut planes, look.skin);
    }
    if look.local_contrast != 0.0 {
        shape_local_contrast(&mut planes.luma, look.local_contrast);
    }
    apply_tone(&mut planes, look);
    planes
}

/// Smooths surfaces. A larger amount also smooths higher steps; colours are smoothed less to avoid bleeding.
fn smooth_surfaces(planes: &mut Planes, amount: f32) {
    let even = smooth_between_edges(&planes.luma, SMOOTH_RADIUS, 0.03 + 0.09 * amount);
    planes.luma.combine(&even, |value, even| value + amount * (even - value));

    for difference in [&mut planes.blue, &mut planes.red] {
        let even = smooth_between_edges(difference, SMOOTH_RADIUS, 0.02);
        difference.combine(&even, |value, even| value + 0.7 * amount * (even - value));
    }
}

fn smooth_skin(planes: &mut Planes, amount: f32) {
    let even = smooth_between_edges(&planes.luma, SKIN_RADIUS, 0.07);
    for (y, [luma, blue, red]) in planes.rows_mut().enumerate() {
        for ((luma, even), (blue, red)) in luma.iter_mut().zip(even.row(y)).zip(blue.iter().zip(red)) {
            *luma += amount * skin_likeness(*luma, *blue, *red) * (even - *luma);
        }
    }
}

/// Returns the similarity of a colour to skin, 0 to 1. Skin of every shade is slightly red with a little less blue, and
/// varies mostly in luma.
fn skin_likeness(luma: f32, blue: f32, red: f32) -> f32 {
    let blue = (blue + 0.08) / 0.09;
    let red = (red - 0.08) / 0.08;
    let likeness = (1.6 - (blue * blue + red * red).sqrt()).clamp(0.0, 1.0);
    likeness * ((luma - 0.1) * 8.0).clamp(0.0, 1.0)
}

/// Amplifies or attenuates local contrast, less near black and white to avoid clipping.
fn shape_local_contrast(luma: &mut Plane, amount: f32) {
    let radius = (luma.width().min(luma.height()) / 20).clamp(3, 64);
    let base = smooth_between_edges(luma, radius, 0.25);
    luma.combine(&base, |value, base| {
        let value = value.clamp(0.001, 0.999);
        let change = amount * (value - base);
        if change < 0.0 {
            value * (change / value).exp()
        } else {
            1.0 - (1.0 - value) * (-change / (1.0 - value)).exp()
        }
    });
}

fn apply_tone(planes: &mut Planes, look: &Look) {
    let colours = [look.saturation, look.vibrance, look.greens, look.warmth];
    let tones = [look.contrast, look.exposure, look.highlights];
    if tones.into_iter().chain(colours).all(|amount| amount == 0.0) {
        return;
    }

    let gamma = (-0.7 * look.exposure).exp2();

    planes.par_rows_mut().for_each(|[luma, blue, red]| {
        for ((luma, blue), red) in luma.iter_mut().zip(blue).zip(red) {
            let before = luma.clamp(0.0, 1.0);
            *luma = shape_tone(before.powf(gamma), look);
            // Colour differences must follow the luma to keep their apparent saturation.
            let follow = ((*luma + 0.1) / (before + 0.1)).sqrt();
            [*blue, *red] = shape_colour(*luma, [*blue * follow, *red * follow], look);
        }
    });
}

/// Applies contrast and highlights. Both keep black and white unchanged.
fn shape_tone(luma: f32, look: &Look) -> f32 {
    let curved = luma + look.contrast * 4.0 * luma * (1.0 - luma) * (luma - 0.5);
    (curved + look.highlights * curved * curved * (1.0 - curved)).clamp(0.0, 1.0)
}

fn shape_colour(luma: f32, [blue, red]: [f32; 2], look: &Look) -> [f32; 2] {
    let strength = (blue * blue + red * red).sqrt();
    let weak = look.vibrance * (1.0 - strength / 0.3).max(0.0);
    let green = look.greens * (-blue * 12.0).clamp(0.0, 1.0) * (-red * 12.0).clamp(0.0, 1.0);
    let gain = ((1.0 + look.saturation) * (1.0 + weak + green)).max(0.0);
    // The tint is strongest in midtones; black and white remain neutral.
    let tint = 0.06 * look.warmth * (4.0 * luma * (1.0 - luma)).max(0.0);
    [blue * gain - tint, red * gain + tint]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_pictures;

    #[test]
    fn noise_drawings_and_photographs_are_distinguished() {
        let photo = Statistics::from_luma(&Planes::from_pixels(&test_pictures::photo(64)).luma);
        assert!(!photo.is_noisy() && !photo.is_drawn(), "{photo:?}");
        let drawing = Statistics::from_luma(&Planes::from_pixels(&test_pictures::drawing(64)).luma);
        assert!(!drawing.is_noisy() && drawing.is_drawn(), "{drawing:?}");
        let noisy = Statistics::from_luma(&Planes::from_pixels(&test_pictures::noisy(64)).luma);
        assert!(noisy.is_noisy() && !noisy.is_drawn(), "{noisy:?}");
    }

    #[test]
    fn a_picture_smaller_than_a_block_has_statistics() {
        assert_eq!(Statistics::from_luma(&Plane::new(3, 2)).noise.to_bits(), 0.0_f32.to_bits());
    }

    #[test]
    fn zero_amounts_change_nothing() {
        let planes = Planes::from_pixels(&test_pictures::photo(16));
        let graded = grade(planes.clone(), &Look::NONE);
        assert_eq!((graded.luma, graded.blue, graded.red), (planes.luma, planes.blue, planes.red));
    }

    #[test]
    fn skin_of_every_shade_is_skin_and_sky_is_not() {
        let likeness = |colour: [u8; 3]| {
            let [luma, blue, red] = crate::colour::split(colour.map(|value| f32::from(value) / 255.0));
            skin_likeness(luma, blue, red)
        };
        for skin in [[255, 219, 190], [224, 172, 140], [198, 134, 96], [141, 85, 56], [92, 58, 42]] {
            assert!(likeness(skin) > 0.5, "{skin:?} {}", likeness(skin));
        }
        for other in [[120, 170, 230], [60, 140, 50], [128, 128, 128], [250, 20, 20]] {
            assert!(likeness(other) < 0.35, "{other:?} {}", likeness(other));
        }
    }
}
