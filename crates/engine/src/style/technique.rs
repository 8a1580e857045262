//! Techniques that a prompt can name: watercolour, pixel art and charcoal.

use super::bands::{EnlargedField, draw_plane, reduce, smooth};
use super::flow::Tangents;
use super::oklab::Lab;
use super::paint::deviation;
use super::palette::Palette;
use super::working::{Colours, WorkingPicture};
use crate::noise::hash;
use crate::plane::Plane;
use crate::prompt::Technique;

/// Input of the renderer for a technique.
#[derive(Debug)]
pub enum Medium {
    /// Paint on paper.
    Watercolour {
        /// Relative density of the pigment, around 0.
        pigment: EnlargedField,
    },
    /// Square pixels.
    PixelArt(Mosaic),
    /// Charcoal on paper.
    Charcoal {
        /// Height of the paper and direction of the strokes, around 0.
        tooth: EnlargedField,
    },
}

impl Medium {
    /// Prepares a technique. `base` is the picture without its fine detail, which a technique may change.
    pub fn new(
        technique: Technique,
        working: &WorkingPicture,
        base: &mut Colours,
        palette: &Palette,
        tangents: Option<&Tangents>,
        seed: u32,
    ) -> Self {
        match technique {
            Technique::Watercolour => {
                *base = let_run(base, working, seed);
                let pigment = pigment(base, working, seed);
                Self::Watercolour { pigment: EnlargedField::new(pigment, working.factor) }
            }
            Technique::PixelArt => Self::PixelArt(Mosaic::new(working, base, palette)),
            Technique::Charcoal => {
                Self::Charcoal { tooth: EnlargedField::new(tooth(working, tangents, seed), working.factor) }
            }
        }
    }
}

/// Lightness of paper, 0 to 1.
const PAPER: f32 = 0.97;

/// Applies watercolour to a row: pigment lets the paper through, and its density varies.
pub fn paint_watercolour([lights, reds, yellows]: &mut [Vec<f32>; 3], pigment: &[f32]) {
    for (((l, a), b), pigment) in lights.iter_mut().zip(reds).zip(yellows).zip(pigment) {
        let density = (PAPER - *l).max(0.0) + 0.02;
        // Thin paint varies less.
        let gain = 1.0 + pigment * (density * 4.0).min(1.0);
        *l = PAPER - 0.88 * density * gain;
        *a *= gain.sqrt();
        *b *= gain.sqrt();
        // Grain of the paper, even where there is no paint.
        *l += 0.012 * pigment.clamp(-1.0, 1.0);
    }
}

/// Applies charcoal to a row: dark tones cover the paper, middle ones only its raised grain.
pub fn draw_charcoal([lights, reds, yellows]: &mut [Vec<f32>; 3], tooth: &[f32]) {
    for (((l, a), b), tooth) in lights.iter_mut().zip(reds).zip(yellows).zip(tooth) {
        let tone = 1.0 - l.clamp(0.0, 1.0);
        let pressure = 1.15 * tone - 0.12;
        let covered = ((pressure + 0.24 * tooth * (4.0 * pressure).clamp(0.25, 1.0)) * 1.1).clamp(0.0, 1.0);
        *l = PAPER - (PAPER - 0.13) * covered * covered * (3.0 - 2.0 * covered) + 0.008 * tooth;
        (*a, *b) = (0.0, 0.004);
    }
}

/// Returns smooth noise with deviation 1 and features of about `units` of [`WorkingPicture::unit`].
fn grain(working: &WorkingPicture, units: f32, seed: u32) -> Plane {
    let width = working.colours.l.width();
    let height = working.colours.l.height();
    let radius = units * working.unit;

    // Coarse noise is computed on a reduced copy.
    let factor = ((radius / 3.0) as usize).max(1);
    let white = draw_plane(width.div_ceil(factor), height.div_ceil(factor), |x, y| {
        // The sum of four random bytes is nearly normally distributed around 510.
        let [one, two, three, four] = hash(x as u32, y as u32, seed).to_le_bytes().map(f32::from);
        one + two + three + four - 510.0
    });
    let small = smooth(&white, (radius / factor as f32 + 0.5) as usize);
    let mut noise = EnlargedField::new(small, factor).to_plane(width, height);
    normalize(&mut noise);
    noise
}

/// Scales values to a deviation of 1 and limits them to 2.5 deviations.
fn normalize(plane: &mut Plane) {
    let scale = 1.0 / deviation(plane.values()).max(1e-6);
    plane.values_mut().iter_mut().for_each(|value| *value = (*value * scale).clamp(-2.5, 2.5));
}

/// Returns the picture with irregular and soft edges, as if wet paint had run.
fn let_run(base: &Colours, working: &WorkingPicture, seed: u32) -> Colours {
    let [across, down] = [0xB, 0xC].map(|salt| grain(working, 4.0, seed ^ salt));
    let reach = 1.8 * working.unit;
    let right = base.l.width() - 1;
    let bottom = base.l.height() - 1;

    let soft = base.map(|plane| smooth(plane, working.radius(0.8)));
    soft.map(|plane| {
        draw_plane(plane.width(), plane.height(), |x, y| {
            let at = |from: usize, offset: f32, last: usize| {
                (from as f32 + reach * offset + 0.5).clamp(0.0, last as f32) as usize
            };
            plane.row(at(y, down.row(y)[x], bottom))[at(x, across.row(y)[x], right)]
        })
    })
}

/// Returns the density of pigment: it gathers at the edges of areas and in the valleys of the paper, and runs in large
/// blooms.
fn pigment(base: &Colours, working: &WorkingPicture, seed: u32) -> Plane {
    let mut pigment = grain(working, 0.8, seed ^ 0xD);
    let blooms = grain(working, 22.0, seed ^ 0xE);
    pigment.combine(&blooms, |paper, bloom| 0.07 * paper + 0.13 * bloom);

    let near = smooth(&base.l, working.radius(0.8));
    let mut rim = smooth(&base.l, working.radius(2.6));
    rim.combine(&near, |wide, near| (8.0 * (wide - near) - 0.08).clamp(0.0, 0.7));
    pigment.combine(&rim, |pigment, rim| pigment + rim);
    pigment
}

/// Returns the heights of rough paper and the direction of strokes on it, with deviation 1.
fn tooth(working: &WorkingPicture, tangents: Option<&Tangents>, seed: u32) -> Plane {
    let mut tooth = grain(working, 0.6, seed ^ 0xF);
    if let Some(tangents) = tangents {
        let mut streaks = tangents.smooth(&grain(working, 0.5, seed ^ 0x10), 9.0 * working.unit);
        normalize(&mut streaks);
        tooth.combine(&streaks, |paper, streak| 0.75 * paper + 0.65 * streak);
    }
    tooth
}

/// Number of blocks along the side of a square picture of the same area.
const BLOCKS: f32 = 104.0;
/// Smallest side of a block in pixels.
const BLOCK_MIN: usize = 2;
/// Maximum number of colours in pixel art.
const COLOURS: usize = 20;
/// Iterations of the k-means clustering.
const ROUNDS: usize = 8;

/// Square blocks, each with a colour of a small palette.
#[derive(Debug)]
pub struct Mosaic {
    /// Side of a block in pixels of the picture.
    side: usize,
    /// Number of blocks in a row.
    columns: usize,
    /// Colours of the palette.
    colours: Vec<Lab>,
    /// Index of the colour of each block.
    blocks: Vec<usize>,
}

impl Mosaic {
    /// Reduces the picture to blocks, applies `palette` to them, and chooses their colours.
    fn new(working: &WorkingPicture, base: &Colours, palette: &Palette) -> Self {
        let width = base.l.width();
        let height = base.l.height();
        let step = ((((width * height) as f32).sqrt() / BLOCKS + 0.5) as usize).max(1);
        let factor = working.factor;
        let step = if factor * step < BLOCK_MIN { BLOCK_MIN } else { step };

        let small = base.map(|plane| reduce(plane, step));
        let means: Vec<Lab> = (0..small.l.values().len()).map(|at| palette.apply(small.at(at))).collect();
        let colours = cluster_colours(&means);
        let blocks = means.iter().map(|colour| nearest(&colours, *colour)).collect();
        Self { side: step * factor, columns: small.l.width(), colours, blocks }
    }

    /// Writes row `y` of the picture.
    pub fn draw(&self, y: usize, [lights, reds, yellows]: &mut [Vec<f32>; 3]) {
        let blocks = &self.blocks[y / self.side * self.columns..][..self.columns];
        let targets = lights.chunks_mut(self.side).zip(reds.chunks_mut(self.side)).zip(yellows.chunks_mut(self.side));
        for (((l, a), b), block) in targets.zip(blocks) {
            let colour = self.colours[*block];
            l.fill(colour[0]);
            a.fill(colour[1]);
            b.fill(colour[2]);
        }
    }
}

/// Returns the squared distance between two colours. Hue counts more than lightness.
fn distance(one: Lab, other: Lab) -> f32 {
    let [l, a, b] = [0, 1, 2].map(|at| one[at] - other[at]);
    l * l + 2.0 * (a * a + b * b)
}

/// Returns the index of the colour in `colours` that is nearest to `colour`.
fn nearest(colours: &[Lab], colour: Lab) -> usize {
    let all = colours.iter().enumerate();
    all.min_by(|a, b| distance(*a.1, colour).total_cmp(&distance(*b.1, colour))).map_or(0, |(at, _)| at)
}

/// Returns a palette found by k-means clustering. The initial colours are far from each other, so that rare but
/// distinct ones are found.
fn cluster_colours(sample: &[Lab]) -> Vec<Lab> {
    let Some(first) = sample.first() else { return vec![[0.0; 3]] };
    let mut colours = vec![*first];
    // Distance of each sample from the nearest colour chosen so far.
    let mut away: Vec<f32> = sample.iter().map(|colour| distance(*colour, *first)).collect();

    while colours.len() < COLOURS {
        let Some((farthest, _)) = away.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)) else { break };
        if away[farthest] < 1e-4 {
            break;
        }
        let colour = sample[farthest];
        colours.push(colour);
        away.iter_mut().zip(sample).for_each(|(away, other)| *away = away.min(distance(colour, *other)));
    }

    for _ in 0..ROUNDS {
        // For each colour: the sums of its samples' components, and their number.
        let mut sums = vec![[0.0_f64; 4]; colours.len()];
        for colour in sample {
            let sum = &mut sums[nearest(&colours, *colour)];
            (0..3).for_each(|at| sum[at] += f64::from(colour[at]));
            sum[3] += 1.0;
        }
        for (colour, sum) in colours.iter_mut().zip(&sums).filter(|(_, sum)| sum[3] > 0.0) {
            *colour = std::array::from_fn(|at| (sum[at] / sum[3]) as f32);
        }
    }
    colours
}
