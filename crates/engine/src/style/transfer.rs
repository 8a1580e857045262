//! Transfer of the colour distribution of one picture to another (sliced optimal transport).
//!
//! Along one direction after the other, projected colours are moved so that they are distributed as in the reference.
//! Each slice is a curve, so the whole is a function of colour that applies to pixels outside of the sample too. The
//! curves are smooth with bounded slopes, which prevents amplified noise and banding.

use super::oklab::Lab;

/// Number of intervals of a curve.
const KNOTS: usize = 24;
/// Number of slices: three axes and nine directions between them.
const SLICES: usize = 12;
/// Maximum slope of an axis.
const AXIS_SLOPE_MAX: f32 = 2.0;
/// Maximum slope of a direction between the axes, which is less because the slopes of slices multiply.
const DIAGONAL_SLOPE_MAX: f32 = 1.2;
/// Minimum slope.
const SLOPE_MIN: f32 = 0.3;

/// Mapping between colour distributions.
#[derive(Debug)]
pub struct Transfer {
    slices: Vec<Slice>,
}

/// Shift of colours along one direction, which depends on their position in it.
#[derive(Debug)]
struct Slice {
    direction: Lab,
    /// Position of the first knot.
    low: f32,
    /// Distance of the knots.
    step: f32,
    /// Shift at each knot.
    shifts: [f32; KNOTS + 1],
}

impl Transfer {
    /// Learns the mapping from samples. It is the identity if either sample is empty.
    pub fn learn(mut from: Vec<Lab>, to: &[Lab]) -> Self {
        let mut slices = Vec::new();
        if from.is_empty() || to.is_empty() {
            return Self { slices };
        }
        for (at, direction) in directions().into_iter().enumerate() {
            let slope_max = if at < 3 { AXIS_SLOPE_MAX } else { DIAGONAL_SLOPE_MAX };
            let slice = Slice::learn(direction, &from, to, slope_max);
            from = from.into_iter().map(|colour| slice.apply(colour)).collect();
            slices.push(slice);
        }
        Self { slices }
    }

    /// Maps a colour.
    pub fn apply(&self, colour: Lab) -> Lab {
        self.slices.iter().fold(colour, |colour, slice| slice.apply(colour))
    }
}

/// Returns the axes, then a spiral over a hemisphere.
fn directions() -> Vec<Lab> {
    let mut vectors = vec![[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let spiral = SLICES - vectors.len();
    vectors.extend((0..spiral).map(|at| {
        let height = (at as f32 + 0.5) / spiral as f32;
        let around = (1.0 - height * height).sqrt();
        // The golden angle spreads the directions evenly.
        let angle = 2.399_963 * at as f32;
        [height, around * angle.cos(), around * angle.sin()]
    }));
    vectors
}

/// Returns the sorted positions of colours along a direction.
fn project(direction: Lab, colours: &[Lab]) -> Vec<f32> {
    let mut projections: Vec<f32> = colours.iter().map(|colour| dot(direction, *colour)).collect();
    projections.sort_unstable_by(f32::total_cmp);
    projections
}

fn dot(one: Lab, other: Lab) -> f32 {
    one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
}

impl Slice {
    /// Learns the shifts that give `from` the distribution of `to` along `direction`.
    fn learn(direction: Lab, from: &[Lab], to: &[Lab], slope_max: f32) -> Self {
        let from = project(direction, from);
        let to = project(direction, to);
        let low = quantile(&from, 0.005);
        let high = quantile(&from, 0.995);

        let step = ((high - low) / KNOTS as f32).max(1e-4);

        let mut shifts: [f32; KNOTS + 1] = std::array::from_fn(|knot| {
            let position = low + knot as f32 * step;
            // The mean rank of the colours around the knot.
            let below = from.partition_point(|value| *value < position - 0.5 * step);
            let count = from.partition_point(|value| *value <= position + 0.5 * step);
            quantile(&to, 0.5 * (below + count) as f32 / from.len() as f32) - position
        });

        for _ in 0..3 {
            shifts = smoothed(shifts);
        }

        limit_differences(&mut shifts, (slope_max - 1.0) * step, (SLOPE_MIN - 1.0) * step);
        Self { direction, low, step, shifts }
    }

    /// Returns the colour moved along the direction.
    fn apply(&self, colour: Lab) -> Lab {
        let position = ((dot(self.direction, colour) - self.low) / self.step).clamp(0.0, KNOTS as f32 - 1e-3);
        let knot = position as usize;
        let shift = self.shifts[knot] + (position - knot as f32) * (self.shifts[knot + 1] - self.shifts[knot]);
        std::array::from_fn(|at| colour[at] + shift * self.direction[at])
    }
}

/// Returns the value below which the given `fraction` of the sorted values lies.
fn quantile(sorted: &[f32], fraction: f32) -> f32 {
    let position = fraction.clamp(0.0, 1.0) * (sorted.len() - 1) as f32;
    let left = position as usize;
    let right = (left + 1).min(sorted.len() - 1);
    sorted[left] + (position - left as f32) * (sorted[right] - sorted[left])
}

/// Returns the shifts averaged with their neighbours.
fn smoothed(shifts: [f32; KNOTS + 1]) -> [f32; KNOTS + 1] {
    std::array::from_fn(|at| {
        let before = shifts[at.saturating_sub(1)];
        let after = shifts[(at + 1).min(KNOTS)];
        0.25 * before + 0.5 * shifts[at] + 0.25 * after
    })
}

/// Limits the differences of neighbours, outwards from the middle.
fn limit_differences(shifts: &mut [f32; KNOTS + 1], maximum: f32, minimum: f32) {
    let middle = KNOTS / 2;
    for at in middle..KNOTS {
        shifts[at + 1] = shifts[at] + (shifts[at + 1] - shifts[at]).clamp(minimum, maximum);
    }
    for at in (0..middle).rev() {
        shifts[at] = shifts[at + 1] - (shifts[at + 1] - shifts[at]).clamp(minimum, maximum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::hash;

    /// Returns random colours around a centre.
    fn cloud(centre: Lab, spread: Lab, seed: u32) -> Vec<Lab> {
        let random = |at: u32, axis: usize| hash(at, axis as u32, seed) as f32 / u32::MAX as f32 - 0.5;
        (0..4000).map(|at| std::array::from_fn(|axis| centre[axis] + spread[axis] * random(at, axis))).collect()
    }

    fn mean_and_spread(colours: &[Lab]) -> (Lab, Lab) {
        let count = colours.len() as f32;
        let mean: Lab = std::array::from_fn(|at| colours.iter().map(|colour| colour[at]).sum::<f32>() / count);
        let spread =
            std::array::from_fn(|at| (colours.iter().map(|c| (c[at] - mean[at]).powi(2)).sum::<f32>() / count).sqrt());
        (mean, spread)
    }

    #[test]
    fn the_mean_and_the_spread_become_those_of_the_reference() {
        let from = cloud([0.4, 0.0, 0.0], [0.4, 0.1, 0.1], 1);
        let to = cloud([0.6, 0.1, -0.05], [0.6, 0.05, 0.15], 2);
        let transfer = Transfer::learn(from.clone(), &to);
        let transferred: Vec<Lab> = from.iter().map(|colour| transfer.apply(*colour)).collect();
        let ((mean, spread), (target_mean, target_spread)) = (mean_and_spread(&transferred), mean_and_spread(&to));
        for at in 0..3 {
            assert!((mean[at] - target_mean[at]).abs() < 0.02, "{mean:?} {target_mean:?}");
            assert!((spread[at] / target_spread[at] - 1.0).abs() < 0.2, "{spread:?} {target_spread:?}");
        }
    }

    #[test]
    fn a_single_colour_is_shifted_and_empty_samples_give_the_identity() {
        let transfer = Transfer::learn(vec![[0.5, 0.0, 0.0]; 10], &[[0.7, 0.1, 0.1]; 5]);
        assert!((transfer.apply([0.5, 0.0, 0.0])[0] - 0.7).abs() < 0.01);
        assert!(Transfer::learn(Vec::new(), &[[0.7; 3]]).slices.is_empty());
    }
}
