//! Synthesized texture, random and from the picture itself, as strong as the texture around it.

use std::ops::Range;

use crate::filters::{box_blur, finer_than, smooth};
use crate::noise;
use crate::plane::{Plane, Region, copy_clamped};

/// Strength and kind of the texture in a source.
#[derive(Debug)]
pub struct Model {
    /// Maximum strength of synthesized texture in luma.
    pub strength: Plane,
    /// Finest band of the source relative to its environment: about one where there is texture.
    band: Plane,
}

impl Model {
    /// Analyses a source with the given noise.
    #[must_use]
    pub fn from_luma(luma: &Plane, noise: f32) -> Self {
        let mut activity = finer_than(luma, 1);
        activity.values_mut().iter_mut().for_each(|value| *value = value.abs());
        let activity = box_blur(&activity, 1);

        // Texture extends to all sides; beside an edge or a line one side has less.
        let mut strength = least_around(&least_around(&activity, 3), 6);
        strength
            .values_mut()
            .iter_mut()
            .for_each(|value| *value = (2.0 * *value - 1.5 * noise - 0.003).clamp(0.0, 0.06));

        // The very finest scale is left out: it is mostly noise, whose repetition would form a dot pattern.
        let mut band = finer_than(&box_blur(luma, 1), 2);
        band.combine(&box_blur(&activity, 3), |value, activity| {
            let relative = value / (0.5 * activity + 0.005);
            relative / (1.0 + relative * relative)
        });

        Self { strength: smooth(&strength, 2), band }
    }

    /// Returns the texture of a part of the enlargement by `factor`: the sum of random texture and of the picture's
    /// own, with the given amounts.
    #[must_use]
    pub fn texture(&self, region: Region, factor: usize, [by_chance, own]: [f32; 2], seed: u32) -> Plane {
        let mut texture = Plane::new(region.width, region.height);
        if by_chance > 0.0 {
            texture = noise::texture(region, factor / 2, seed);
            texture.values_mut().iter_mut().for_each(|value| *value *= by_chance);
        }
        if own > 0.0 {
            add_band(&self.band, region, factor, seed, own, &mut texture);
        }
        texture
    }
}

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
/// Maximum random offset of a patch in source pixels.
const PATCH_SHIFT: u32 = 6;

/// Columns of the result covered by the same two patches.
struct Run {
    columns: Range<usize>,
    /// Source columns, in both patches, of the first column.
    sources: [isize; 2],
}

/// Adds the band of the source unscaled, patch by patch near the corresponding position, which continues the texture
/// below the scale of the source.
fn add_band(band: &Plane, region: Region, factor: usize, seed: u32, amount: f32, target: &mut Plane) {
    let columns: Vec<_> = (region.left..).take(region.width).map(|x| patches(x, factor, seed)).collect();
    let weights: [Vec<f32>; 2] =
        [0, 1].map(|side| columns.iter().map(|weights_pair| amount * weights_pair[side].1).collect());

    let runs = runs(region, &columns);
    let first = runs.iter().flat_map(|run| run.sources).min().unwrap_or_default();
    let last = runs.iter().flat_map(|run| run.sources.map(|at| at + run.columns.len() as isize)).max().unwrap_or(first);
    let sources: Vec<usize> = (first..last).map(|x| mirrored(x, band.width())).collect();

    let mut line = vec![0.0; sources.len()];

    for (y, row) in target.rows_mut().enumerate() {
        let rows = patches(region.top + y as isize, factor, !seed);
        let [upper, lower] = rows.map(|(at, weight)| (band.row(mirrored(at, band.height())), weight));

        for (value, x) in line.iter_mut().zip(&sources) {
            *value = upper.1 * upper.0[*x] + lower.1 * lower.0[*x];
        }

        for Run { columns, sources } in &runs {
            let [left, right] = sources.map(|at| &line[(at - first) as usize..][..columns.len()]);
            let [left_weight, right_weight] = weights.each_ref().map(|weights| &weights[columns.clone()]);
            let sides = left.iter().zip(left_weight).zip(right.iter().zip(right_weight));
            for (value, ((left, left_weight), (right, right_weight))) in row[columns.clone()].iter_mut().zip(sides) {
                *value += left * left_weight + right * right_weight;
            }
        }
    }
}

/// Groups the columns of a region by their patches.
fn runs(region: Region, columns: &[[(isize, f32); 2]]) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut start = 0;
    while start < region.width {
        let x = region.left + start as isize;
        let end = (start + PATCH / 2 - x.rem_euclid((PATCH / 2) as isize) as usize).min(region.width);
        runs.push(Run { columns: start..end, sources: columns[start].map(|(at, _)| at) });
        start = end;
    }
    runs
}

/// Returns the source coordinates in the two patches that overlap at a coordinate of the result, with their weights.
/// The squares of the weights add up to one, which keeps the strength constant. Random offsets keep neighbouring
/// patches from showing the same detail.
fn patches(at: isize, factor: usize, seed: u32) -> [(isize, f32); 2] {
    let step = (PATCH / 2) as isize;
    let first = at.div_euclid(step) - 1;
    let along = (at.rem_euclid(step) as f32 + 0.5) / step as f32 * std::f32::consts::FRAC_PI_2;
    [(first, along.cos()), (first + 1, along.sin())].map(|(patch, weight)| {
        let centre = (patch + 1) * step;
        let shift = (noise::scramble(patch as u32, 0, seed) % (2 * PATCH_SHIFT + 1)) as isize - PATCH_SHIFT as isize;
        (centre.div_euclid(factor as isize) + shift + at - centre, weight)
    })
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
}
