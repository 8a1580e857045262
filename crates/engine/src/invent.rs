//! Synthesized texture, as strong as the texture of the picture at that position. It is partly random and partly
//! repeats detail of the picture.

use crate::colour::{Planes, to_rgb};
use crate::filters::{box_blur, finer_than, smooth};
use crate::grade::crookedness;
use crate::noise;
use crate::plane::{Plane, Region, copy_clamped};

/// Strength and kind of the texture in a source.
#[derive(Debug)]
pub struct TextureModel {
    /// Maximum strength of synthesized texture in luma.
    pub strength: Plane,
    /// Difference between the brightest channel and the luma. Bright colours clip before the luma does.
    pub brightest: Plane,
    /// Finest band of the source relative to the activity around it: about one where there is texture.
    band: Plane,
}

impl TextureModel {
    /// Analyses a source with the given noise.
    #[must_use]
    pub fn from_planes(planes: &Planes, noise: f32) -> Self {
        let luma = &planes.luma;
        let mut activity = finer_than(luma, 1);
        activity.values_mut().iter_mut().for_each(|value| *value = value.abs());
        let activity = box_blur(&activity, 1);

        // The features of a small face are as active as fur, but smooth: they have less crookedness.
        let mut crooked = crookedness(luma);
        crooked.values_mut().iter_mut().for_each(|value| *value = value.abs());
        let mut texture = box_blur(&crooked, 1);
        texture.combine(&activity, |crooked, activity| {
            let rough = (2.4 * crooked - 0.2 * activity).max(0.0).min(activity);
            activity + SMOOTH_LOSS * (rough - activity)
        });

        // Texture extends to all sides; beside an edge or a line one side has less.
        let mut strength = least_around(&least_around(&texture, 3), 6);
        strength
            .values_mut()
            .iter_mut()
            .for_each(|value| *value = (2.0 * *value - 1.5 * noise - 0.003).clamp(0.0, 0.06));

        let mut brightest = planes.red.clone();
        brightest.combine(&planes.blue, |red, blue| to_rgb([0.0, blue, red]).into_iter().fold(0.0, f32::max));

        // The very finest scale is left out: it is mostly noise, whose repetition would form a dot pattern.
        let mut band = finer_than(&box_blur(luma, 1), 2);
        band.combine(&box_blur(&activity, 3), |value, activity| {
            let relative = value / (0.5 * activity + 0.005);
            relative / (1.0 + relative * relative)
        });

        Self { strength: smooth(&strength, 2), brightest, band }
    }

    /// Returns the texture of a part of the enlargement by `factor`: the sum of random and of repeated texture, with
    /// the given amounts.
    #[must_use]
    pub fn texture(&self, region: Region, factor: usize, [random, repeated]: [f32; 2], seed: u32) -> Plane {
        let mut texture = Plane::new(region.width, region.height);
        if random > 0.0 {
            texture = noise::texture(region, factor / 2, seed);
            texture.values_mut().iter_mut().for_each(|value| *value *= random);
        }
        if repeated > 0.0 {
            add_band(&self.band, region, factor, seed, repeated, &mut texture);
        }
        texture
    }
}

/// Reduction of the strength where the activity is smooth.
const SMOOTH_LOSS: f32 = 0.55;

/// Returns the minimum of a sample and of those at `distance` to each of the four sides.
fn least_around(plane: &Plane, distance: usize) -> Plane {
    let width = plane.width();
    let height = plane.height();
    let mut padded = vec![0.0; width + 2 * distance];

    Plane::from_rows(width, height, |y, target| {
        copy_clamped(plane.row(y), -(distance as isize), &mut padded);
        let above = plane.row(y.saturating_sub(distance));
        let below = plane.row((y + distance).min(height - 1));

        let beside = padded.iter().zip(&padded[2 * distance..]);
        for (((value, own), (left, right)), (above, below)) in
            target.iter_mut().zip(plane.row(y)).zip(beside).zip(above.iter().zip(below))
        {
            *value = own.min(left.min(*right)).min(above.min(*below));
        }
    })
}

/// Side in pixels of the patches in which the band is repeated; they overlap by half.
const PATCH: usize = 16;
/// Distance in pixels between the centres of neighbouring patches.
const STEP: usize = PATCH / 2;
/// Maximum random offset of a patch in source pixels, per axis.
const PATCH_SHIFT: u32 = 6;

/// Adds the band of the source unscaled, patch by patch near the corresponding position, which continues the texture
/// below the scale of the source.
///
/// Every patch has an offset of its own in both directions. Offsets shared by whole rows and columns of patches would
/// line up their seams to a grid.
fn add_band(band: &Plane, region: Region, factor: usize, seed: u32, amount: f32, target: &mut Plane) {
    let last_column = region.left + region.width as isize - 1;
    let cells = region.left.div_euclid(STEP as isize)..=last_column.div_euclid(STEP as isize);
    let weights = overlap_weights();

    let mut patches = Vec::new();
    let mut loaded_row = None;

    for (y, row) in (region.top..).zip(target.rows_mut()) {
        let cell_row = y.div_euclid(STEP as isize);
        if loaded_row != Some(cell_row) {
            let patches_in_row = |row_of_cells: isize| {
                (*cells.start() - 1..=*cells.end()).map(move |column| Patch::new([column, row_of_cells], factor, seed))
            };
            patches = patches_in_row(cell_row - 1).zip(patches_in_row(cell_row)).collect::<Vec<_>>();
            loaded_row = Some(cell_row);
        }

        let [upper, lower] = weights[y.rem_euclid(STEP as isize) as usize].map(|weight| amount * weight);

        for (cell, pairs) in cells.clone().zip(patches.windows(2)) {
            let [(upper_left, lower_left), (upper_right, lower_right)] = pairs else { continue };
            let start = (cell * STEP as isize).max(region.left);
            let end = ((cell + 1) * STEP as isize).min(region.left + region.width as isize);
            let columns = (start - region.left) as usize..(end - region.left) as usize;
            let weights = &weights[(start - cell * STEP as isize) as usize..];

            let [mut a, mut b, mut c, mut d] = [[0.0; STEP]; 4];
            for (patch, samples) in
                [(upper_left, &mut a), (upper_right, &mut b), (lower_left, &mut c), (lower_right, &mut d)]
            {
                patch.read(band, [start, y], &mut samples[..columns.len()]);
            }

            for (at, value) in row[columns].iter_mut().enumerate() {
                let [left, right] = weights[at];
                *value += upper * (left * a[at] + right * b[at]) + lower * (left * c[at] + right * d[at]);
            }
        }
    }
}

/// Returns the weights, for every position in a cell, of the two patches that overlap there. Their squares add up to
/// one, which keeps the strength constant.
fn overlap_weights() -> [[f32; 2]; STEP] {
    std::array::from_fn(|at| {
        let along = (at as f32 + 0.5) / STEP as f32 * std::f32::consts::FRAC_PI_2;
        [along.cos(), along.sin()]
    })
}

/// Displacement of a patch from the result to the source.
#[derive(Debug, Clone, Copy)]
struct Patch {
    across: isize,
    down: isize,
}

impl Patch {
    /// Returns the patch at a grid position. Random offsets keep neighbouring patches from showing the same detail.
    fn new(at: [isize; 2], factor: usize, seed: u32) -> Self {
        let hash = noise::hash(at[0] as u32, at[1] as u32, seed);
        let [across, down] = [(at[0], hash & 0xFFFF), (at[1], hash >> 16)].map(|(patch, random)| {
            let centre = (patch + 1) * STEP as isize;
            let shift = (random % (2 * PATCH_SHIFT + 1)) as isize - PATCH_SHIFT as isize;
            centre.div_euclid(factor as isize) + shift - centre
        });
        Self { across, down }
    }

    /// Reads samples from position `[x, y]` of the result on.
    fn read(self, band: &Plane, [x, y]: [isize; 2], samples: &mut [f32]) {
        let row = band.row(mirrored(y + self.down, band.height()));
        let first = x + self.across;
        match usize::try_from(first).ok().and_then(|first| row.get(first..first + samples.len())) {
            Some(part) => samples.copy_from_slice(part),
            None => (first..).zip(samples).for_each(|(x, sample)| *sample = row[mirrored(x, row.len())]),
        }
    }
}

/// Reflects a coordinate at the borders of `0..length`.
fn mirrored(at: isize, length: usize) -> usize {
    let period = 2 * length as isize;
    let at = at.rem_euclid(period);
    at.min(period - 1 - at) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrored_indices_stay_in_range() {
        assert_eq!([-2, -1, 0, 1, 2, 3, 4, 5, 6].map(|at| mirrored(at, 3)), [1, 0, 0, 1, 2, 2, 1, 0, 0]);
    }

    /// Returns the relative deviation of the energy of rows or of columns, whichever is smaller.
    ///
    /// Texture without a grid has about the same energy everywhere.
    fn lattice(texture: &Plane) -> f32 {
        let count = texture.width() as f32;
        let [rows, columns]: [Vec<f32>; 2] = [
            texture.rows().map(|row| row.iter().map(|value| value * value).sum()).collect(),
            (0..texture.width()).map(|x| texture.rows().map(|row| row[x] * row[x]).sum()).collect(),
        ];
        let spread = |energies: &[f32]| {
            let mean = energies.iter().sum::<f32>() / count;
            (energies.iter().map(|energy| (energy - mean).powi(2)).sum::<f32>() / count).sqrt() / mean
        };
        spread(&rows).min(spread(&columns))
    }

    #[test]
    fn repeated_detail_forms_no_grid() {
        // Given fur: a few bright hairs on even ground
        let luma = Plane::from_fn(96, 96, |x, y| {
            let is_hair = noise::hash(x as u32, y as u32, 3).is_multiple_of(24);
            if is_hair { 0.6 } else { 0.4 }
        });
        let planes = Planes { luma, ..Planes::new(96, 96) };
        let model = TextureModel::from_planes(&planes, 0.0);

        let region = Region { left: 64, top: 64, width: 256, height: 256 };
        let texture = model.texture(region, 4, [0.0, 1.0], 5);

        assert!(lattice(&texture) < 0.12, "{}", lattice(&texture));
    }

    #[test]
    fn smooth_features_are_not_texture() {
        // Given soft spots as active as the rough ground beside them
        let ground = noise::white(Region { left: 0, top: 0, width: 128, height: 64 }, 1);
        let ground = box_blur(&finer_than(&ground, 2), 1);
        let luma = Plane::from_fn(128, 64, |x, y| {
            let spots = 0.07 * ((0.7 * x as f32).sin() + (0.7 * y as f32).sin());
            0.5 + if x < 64 { spots } else { 0.1 * ground.row(y)[x] }
        });
        let activity = finer_than(&luma, 1);
        let planes = Planes { luma, ..Planes::new(128, 64) };
        let model = TextureModel::from_planes(&planes, 0.0);

        let sum = |plane: &Plane, left: usize| {
            (16..48).map(|y| plane.row(y)[left..left + 32].iter().map(|value| value.abs()).sum::<f32>()).sum::<f32>()
        };
        let [spots, ground] = [16, 80].map(|left| sum(&activity, left));
        assert!(spots > 0.9 * ground, "{spots} {ground}");
        let [spots, ground] = [16, 80].map(|left| sum(&model.strength, left));
        assert!(spots < 0.5 * ground, "{spots} {ground}");
    }
}
