//! Colour grading as one three-dimensional lookup table: levels, colours of the reference, tone, saturation and tints.

use rayon::prelude::*;

use super::oklab::Lab;
use super::recipe::Recipe;
use super::transfer::Transfer;

/// Nodes along each axis.
const SIDE: usize = 33;
/// Largest absolute value on the colour axes of the table; the sRGB gamut is smaller.
const REACH: f32 = 0.36;

/// Lookup table from colour to colour.
#[derive(Debug)]
pub struct Palette {
    /// Results at the nodes: lightness varies slowest, then green to red, then blue to yellow.
    nodes: Vec<Lab>,
}

impl Palette {
    /// Creates the table of a recipe from a colour sample of the picture and, if there is one, of the reference.
    pub fn new(recipe: &Recipe, sample: &[Lab], reference: Option<&[Lab]>) -> Self {
        let levels = Levels::from_sample(sample, recipe.levels);
        let transfer = reference.map(|reference| {
            let levelled = sample.iter().map(|colour| levels.apply(*colour)).collect();
            Transfer::learn(levelled, reference)
        });

        Self::from_fn(|colour| {
            let levelled = levels.apply(colour);

            let transferred = transfer.as_ref().map_or(levelled, |transfer| {
                let [l, a, b] = transfer.apply(levelled);
                let towards = |value: f32, target: f32, share: f32| value + share * (target - value);

                [
                    towards(levelled[0], l, recipe.light),
                    towards(levelled[1], a, recipe.colours),
                    towards(levelled[2], b, recipe.colours),
                ]
            });

            tint(grade(transferred, recipe), recipe)
        })
    }

    /// Creates the table of a function.
    fn from_fn(change: impl Fn(Lab) -> Lab + Sync) -> Self {
        let axis = |at: usize| (at as f32 / (SIDE - 1) as f32 - 0.5) * 2.0 * REACH;
        let node = |at: usize| {
            let l = (at / (SIDE * SIDE)) as f32 / (SIDE - 1) as f32;
            change([l, axis(at / SIDE % SIDE), axis(at % SIDE)])
        };
        Self { nodes: (0..SIDE * SIDE * SIDE).into_par_iter().map(node).collect() }
    }

    /// Looks a colour up with trilinear interpolation.
    pub fn apply(&self, [l, a, b]: Lab) -> Lab {
        let scale = (SIDE - 1) as f32;
        // Splits a position from 0 to 1 into the node below it and the fraction of the way to the next node.
        let split_index = |value: f32| {
            let value = (value * scale).clamp(0.0, scale - 1e-3);
            (value as usize, value.fract())
        };

        let chroma = |value: f32| split_index(value / (2.0 * REACH) + 0.5);
        let (l, part_l) = split_index(l);
        let (a, part_a) = chroma(a);
        let (b, part_b) = chroma(b);

        let corner = (l * SIDE + a) * SIDE + b;
        let between =
            |low: Lab, high: Lab, part: f32| -> Lab { std::array::from_fn(|at| low[at] + part * (high[at] - low[at])) };

        // The next node along b follows directly, along a after `SIDE` nodes, and along l after `SIDE * SIDE`.
        let along_b = |from: usize| between(self.nodes[from], self.nodes[from + 1], part_b);
        let along_a = |from: usize| between(along_b(from), along_b(from + SIDE), part_a);
        between(along_a(corner), along_a(corner + SIDE * SIDE), part_l)
    }
}

/// Black and white points.
struct Levels {
    /// Lightness that becomes black.
    black: f32,
    /// Gain of lightness and colour after the black point is subtracted.
    gain: f32,
}

impl Levels {
    /// Chooses the points that move the darkest and the lightest percentile by `share` of the way to black and white.
    fn from_sample(sample: &[Lab], share: f32) -> Self {
        if sample.is_empty() || share <= 0.0 {
            return Self { black: 0.0, gain: 1.0 };
        }

        let mut tones: Vec<f32> = sample.iter().map(|colour| colour[0]).collect();
        tones.sort_unstable_by(f32::total_cmp);
        let at = |part: f32| tones[(part * (tones.len() - 1) as f32) as usize];

        // The limit of a quarter removes fog but keeps night scenes dark.
        let black = share * at(0.01).clamp(0.0, 0.25);
        let white = 1.0 - share * (1.0 - at(0.99)).clamp(0.0, 0.25);
        Self { black, gain: 1.0 / (white - black).max(0.2) }
    }

    /// Returns the colour with the black and white points applied.
    fn apply(&self, [l, a, b]: Lab) -> Lab {
        [(l - self.black) * self.gain, a * self.gain, b * self.gain]
    }
}

/// Applies tone and saturation.
fn grade([l, a, b]: Lab, recipe: &Recipe) -> Lab {
    let look = &recipe.look;
    let before = l.clamp(0.0, 1.0);
    let bright = before.powf((-0.7 * look.exposure).exp2());
    let curved = bright + look.contrast.clamp(-0.5, 0.7) * 4.0 * bright * (1.0 - bright) * (bright - 0.5);
    let l = (curved + look.highlights * curved * curved * (1.0 - curved)).clamp(0.0, 1.0);

    // Colour follows the change of lightness.
    let follow = ((l + 0.1) / (before + 0.1)).sqrt();
    let [a, b] = [a * follow, b * follow];

    let strength = (a * a + b * b).sqrt();
    let weak = look.vibrance.clamp(0.0, 1.0) * (1.0 - strength / 0.22).max(0.0);
    let green = look.greens * (-a * 20.0).clamp(0.0, 1.0) * (b * 20.0).clamp(0.0, 1.0);
    let gain = ((1.0 + look.saturation.clamp(-1.0, 1.2)) * (1.0 + weak + green)).max(0.0);

    // Soft limit of saturation near the edge of the gamut.
    let strong = strength * gain;
    let gain = if strong > 0.2 { gain * (0.2 + (strong - 0.2) / (1.0 + 4.0 * (strong - 0.2))) / strong } else { gain };

    let warm = look.warmth.clamp(-1.0, 1.0) * 4.0 * l * (1.0 - l);
    [l, a * gain + 0.012 * warm, b * gain + 0.035 * warm]
}

/// Tints shadows and highlights.
fn tint([l, a, b]: Lab, recipe: &Recipe) -> Lab {
    let dark = (1.0 - l) * (1.0 - l);
    let light = l * l;
    let [mut a, mut b] =
        [a + recipe.split * 0.012 * dark, b + recipe.split * (0.03 * light - 0.055 * dark) * (4.0 * l).min(1.0)];
    if recipe.neon > 0.0 {
        let [neon_a, neon_b] = neon(l);
        a += recipe.neon * (neon_a - 0.75 * a);
        b += recipe.neon * (neon_b - 0.75 * b);
    }
    [l, a, b]
}

/// Returns the neon colour of a lightness: violet, pink, peach, mint.
fn neon(l: f32) -> [f32; 2] {
    const STOPS: [[f32; 2]; 5] = [[0.02, -0.06], [0.10, -0.17], [0.17, -0.07], [0.09, 0.05], [-0.06, 0.03]];
    let position = l.clamp(0.0, 0.999) * (STOPS.len() - 1) as f32;
    let at = position as usize;
    std::array::from_fn(|axis| STOPS[at][axis] + position.fract() * (STOPS[at + 1][axis] - STOPS[at][axis]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::Look;

    #[test]
    fn the_plain_recipe_is_the_identity() {
        let palette = Palette::new(&Recipe::PLAIN, &[], None);
        for colour in [[0.1, 0.0, 0.0], [0.5, 0.1, -0.15], [0.9, -0.12, 0.15]] {
            let away: f32 = palette.apply(colour).iter().zip(colour).map(|(a, b)| (a - b).abs()).sum();
            assert!(away < 0.002, "{colour:?} {:?}", palette.apply(colour));
        }
    }

    #[test]
    fn parameters_have_the_effect_of_their_names() {
        let apply_look =
            |look: Look| Palette::new(&Recipe { look, ..Recipe::PLAIN }, &[], None).apply([0.5, 0.05, 0.05]);
        assert!(apply_look(Look { exposure: 0.5, ..Look::NONE })[0] > 0.55);
        assert!(apply_look(Look { saturation: 0.5, ..Look::NONE })[1] > 0.07);
        assert!(apply_look(Look { warmth: 0.5, ..Look::NONE })[2] > 0.06);
    }

    #[test]
    fn levels_reach_from_black_to_white() {
        let sample: Vec<Lab> = (0..100).map(|at| [0.2 + 0.006 * at as f32, 0.0, 0.0]).collect();
        let palette = Palette::new(&Recipe { levels: 1.0, ..Recipe::PLAIN }, &sample, None);
        assert!(palette.apply(sample[2])[0] < 0.03);
        assert!(palette.apply(sample[98])[0] > 0.97);
    }
}
