//! Dense optical flow between two pictures.
//!
//! A coarse-to-fine pyramid with a few Lucas-Kanade steps per level: each step finds the shift of a window that best
//! explains the difference of brightness, damped where there is no texture. After each step the field is smoothed along
//! the edges of the picture.

use super::depth::look_up;
use super::raster::{Raster, Size, Vec2};
use crate::filters::box_blur;
use crate::guide::{GuidedFilter, stretch};
use crate::plane::{Plane, Region};
use crate::resample::resize_part;

/// Longest side in samples of the pictures that are compared.
const SIDE: usize = 192;
/// Minimum length of the shorter side in the pyramid, in samples.
const SIDE_MIN: usize = 12;
/// Refinements of the flow at each level of the pyramid.
const STEPS_PER_LEVEL: usize = 3;

/// Displacement from every position of one picture to the other picture, in half heights.
#[derive(Debug, Clone)]
pub struct OpticalFlow {
    across: Plane,
    down: Plane,
    /// Width of the pictures divided by their height.
    aspect: f32,
}

/// Motion of a whole picture.
#[derive(Debug, Clone, Copy)]
pub struct GlobalMotion {
    /// Shift in half heights.
    pub shift: Vec2,
    /// Magnification.
    pub zoom: f32,
    /// Clockwise rotation in radians.
    pub rotation: f32,
}

/// Flow in both directions between two pictures, and its quality.
#[derive(Debug, Clone)]
pub struct FlowPair {
    pub forward: OpticalFlow,
    pub backward: OpticalFlow,
    /// Similarity from 0, for pictures of different content, to 1.
    pub likeness: f32,
}

impl OpticalFlow {
    /// Returns the displacement at a position.
    #[must_use]
    pub fn at(&self, point: Vec2) -> Vec2 {
        [&self.across, &self.down].map(|plane| look_up(plane, self.aspect, point))
    }

    /// Computes the flow between two pictures of equal size.
    #[must_use]
    pub fn between(from: &Raster, to: &Raster) -> Self {
        Self::estimate(&pyramid(from), &pyramid(to), from.size().aspect())
    }

    /// Computes the flow between two pyramids of luma, which have the largest level first.
    fn estimate(from: &[Plane], to: &[Plane], aspect: f32) -> Self {
        let smallest = &from[from.len() - 1];
        let mut across = Plane::new(smallest.width(), smallest.height());
        let mut down = across.clone();

        for (from, to) in from.iter().zip(to).rev() {
            let area = Region::covering(from);
            let scale = [across.width() as f32 / area.width as f32, across.height() as f32 / area.height as f32];

            [across, down] = [&across, &down].map(|plane| stretch(plane, scale, area));
            across.values_mut().iter_mut().for_each(|value| *value /= scale[0]);
            down.values_mut().iter_mut().for_each(|value| *value /= scale[1]);

            for _ in 0..STEPS_PER_LEVEL {
                refine(from, to, &mut across, &mut down);
            }
        }

        let half = from[0].height() as f32 * 0.5;
        for plane in [&mut across, &mut down] {
            plane.values_mut().iter_mut().for_each(|value| *value /= half);
        }

        Self { across, down, aspect }
    }

    /// Returns the motion of the whole picture that best fits the flow. Medians reduce the influence of moving objects.
    #[must_use]
    pub fn global_motion(&self) -> GlobalMotion {
        let shift = [&self.across, &self.down].map(|plane| median(plane.values().to_vec()));

        let width = self.across.width();
        let height = self.across.height();
        let mut growths = Vec::new();
        let mut rotations = Vec::new();

        for y in 0..height {
            for x in 0..width {
                let point = [
                    (2.0 * (x as f32 + 0.5) / width as f32 - 1.0) * self.aspect,
                    2.0 * (y as f32 + 0.5) / height as f32 - 1.0,
                ];

                let square = point[0] * point[0] + point[1] * point[1];

                if square > 0.2 {
                    let offset = [self.across.row(y)[x] - shift[0], self.down.row(y)[x] - shift[1]];
                    growths.push((offset[0] * point[0] + offset[1] * point[1]) / square);
                    rotations.push((offset[1] * point[0] - offset[0] * point[1]) / square);
                }
            }
        }

        GlobalMotion { shift, zoom: 1.0 + median(growths), rotation: median(rotations) }
    }
}

/// Returns the median, or 0 without values.
fn median(mut values: Vec<f32>) -> f32 {
    if values.is_empty() {
        return 0.0;
    }

    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f32::total_cmp).1
}

impl FlowPair {
    /// Compares two pictures of equal size.
    #[must_use]
    pub fn between(one: &Raster, other: &Raster) -> Self {
        let from = pyramid(one);
        let to = pyramid(other);
        let aspect = one.size().aspect();
        let (forward, backward) =
            rayon::join(|| OpticalFlow::estimate(&from, &to, aspect), || OpticalFlow::estimate(&to, &from, aspect));
        let likeness = measure_likeness(&from[0], &to[0], &forward, &backward);
        Self { forward, backward, likeness }
    }
}

/// Returns the similarity of two pictures, 0 to 1: the fraction of positions that the flow moves to the other picture
/// and back to the same place, reduced by the remaining difference of brightness.
fn measure_likeness(from: &Plane, to: &Plane, forward: &OpticalFlow, backward: &OpticalFlow) -> f32 {
    let width = from.width();
    let height = from.height();

    let texture = |plane: &Plane| {
        let mean = plane.values().iter().sum::<f32>() / plane.values().len() as f32;
        plane.values().iter().map(|value| (value - mean).abs()).sum::<f32>() / plane.values().len() as f32
    };

    let mut returning = 0.0;
    let mut residual = 0.0;
    for y in 0..height {
        for x in 0..width {
            let point = [
                (2.0 * (x as f32 + 0.5) / width as f32 - 1.0) * forward.aspect,
                2.0 * (y as f32 + 0.5) / height as f32 - 1.0,
            ];

            let forward_offset = forward.at(point);
            let target = [point[0] + forward_offset[0], point[1] + forward_offset[1]];
            let backward_offset = backward.at(target);

            let round_trip_error = ((forward_offset[0] + backward_offset[0]).powi(2)
                + (forward_offset[1] + backward_offset[1]).powi(2))
            .sqrt();
            residual += (from.row(y)[x] - look_up(to, forward.aspect, target)).abs();
            if round_trip_error < 0.03 {
                returning += 1.0;
            }
        }
    }

    let count = (width * height) as f32;
    let similarity_loss = residual / count / (texture(from) + texture(to) + 0.02);
    (returning / count * (1.3 - 2.6 * similarity_loss)).clamp(0.0, 1.0)
}

/// Returns the luma at decreasing sizes, the largest first.
fn pyramid(picture: &Raster) -> Vec<Plane> {
    let Size { width, height } = picture.size();
    let scale = (SIDE as f32 / width.max(height) as f32).min(1.0);
    let luma = picture.luma();

    let resized = |plane: &Plane, scale: f32| {
        let side = |length: usize| ((length as f32 * scale).round() as usize).max(4);
        let part = [0.0, 0.0, plane.width() as f64, plane.height() as f64];
        resize_part(plane, part, side(plane.width()), side(plane.height()))
    };

    let mut levels = vec![resized(&luma, scale)];
    while let Some(last) = levels.last().filter(|last| last.width().min(last.height()) >= 2 * SIDE_MIN) {
        let next = resized(&box_blur(last, 1), 0.5);
        levels.push(next);
    }

    levels
}

/// Refines the flow by one Lucas-Kanade step: adds the shift, in samples, that best explains the remaining difference.
fn refine(from: &Plane, to: &Plane, across: &mut Plane, down: &mut Plane) {
    let width = from.width();
    let height = from.height();
    let radius = (width.max(height) / 40).clamp(2, 5);

    // Interpolates between the four samples around a position.
    let fetch = |plane: &Plane, x: f32, y: f32| {
        let x = x.clamp(0.0, (width - 1) as f32);
        let y = y.clamp(0.0, (height - 1) as f32);
        let left = x as usize;
        let top = y as usize;
        let right = (left + 1).min(width - 1);
        let bottom = (top + 1).min(height - 1);
        let x = x - left as f32;
        let y = y - top as f32;
        let above = plane.row(top)[left] * (1.0 - x) + plane.row(top)[right] * x;
        let below = plane.row(bottom)[left] * (1.0 - x) + plane.row(bottom)[right] * x;
        above * (1.0 - y) + below * y
    };

    let warped =
        Plane::from_fn(width, height, |x, y| fetch(to, x as f32 + across.row(y)[x], y as f32 + down.row(y)[x]));

    let slope = |plane: &Plane, x: usize, y: usize| {
        let left = x.saturating_sub(1);
        let right = (x + 1).min(width - 1);
        let top = y.saturating_sub(1);
        let bottom = (y + 1).min(height - 1);
        [0.5 * (plane.row(y)[right] - plane.row(y)[left]), 0.5 * (plane.row(bottom)[x] - plane.row(top)[x])]
    };

    // Weighted products of the mean gradient and the difference, summed over a window.
    let mut sums: [Plane; 5] = std::array::from_fn(|_| Plane::new(width, height));
    for y in 0..height {
        for x in 0..width {
            let gradient = slope(from, x, y);
            let warped_gradient = slope(&warped, x, y);
            let [right, below] = [0.5 * (gradient[0] + warped_gradient[0]), 0.5 * (gradient[1] + warped_gradient[1])];
            let difference = from.row(y)[x] - warped.row(y)[x];

            // Large differences come from other objects, not from shifts.
            let weight = 1.0 / (1.0 + (difference / 0.15).powi(2));

            let products = [right * right, right * below, below * below, right * difference, below * difference];
            for (sum, product) in sums.iter_mut().zip(products) {
                sum.row_mut(y)[x] = weight * product;
            }
        }
    }

    let sums = sums.map(|plane| box_blur(&box_blur(&plane, radius), radius));

    for at in 0..width * height {
        // Entries of the equations of the shift that explains the difference `d` best; the small summands damp it.
        let [xx, xy, yy, xd, yd] = [0, 1, 2, 3, 4].map(|index| sums[index].values()[at]);

        let xx = xx + 1e-4;
        let yy = yy + 1e-4;
        let determinant = (xx * yy - xy * xy).max(1e-9);
        across.values_mut()[at] += ((yy * xd - xy * yd) / determinant).clamp(-2.0, 2.0);
        down.values_mut()[at] += ((xx * yd - xy * xd) / determinant).clamp(-2.0, 2.0);
    }

    for plane in [across, down] {
        *plane = GuidedFilter::fit(from, plane, radius + 1, 0.1).small(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::texture;

    const SIZE: Size = Size { width: 120, height: 80 };

    fn rough(seed: u32, shift: isize) -> Raster {
        let region = Region { left: shift, top: 0, width: SIZE.width, height: SIZE.height };
        let noise = box_blur(&texture(region, 2, seed), 1);
        Raster::from_fn(SIZE, |x, y| {
            let value = (0.5 + 0.3 * noise.row(y)[x]).clamp(0.0, 1.0);
            [value, value, value, 1.0]
        })
    }

    #[test]
    fn a_shift_is_found_in_both_directions() {
        let flow_pair = FlowPair::between(&rough(1, 0), &rough(1, 6));
        let [across, down] = flow_pair.forward.at([0.1, 0.0]);
        assert!((across + 6.0 / 40.0).abs() < 0.03 && down.abs() < 0.03, "{across} {down}");
        assert!((flow_pair.backward.at([0.0, 0.1])[0] - 6.0 / 40.0).abs() < 0.03);
        let GlobalMotion { shift, zoom, rotation } = flow_pair.forward.global_motion();
        assert!((shift[0] + 0.15).abs() < 0.03);
        assert!((zoom - 1.0).abs() < 0.03);
        assert!(rotation.abs() < 0.03);
    }

    #[test]
    fn pictures_of_different_subjects_are_not_similar() {
        let identical = FlowPair::between(&rough(1, 0), &rough(1, 4));
        let different = FlowPair::between(&rough(1, 0), &rough(2, 0));
        assert!(identical.likeness > 0.6 && different.likeness < 0.4, "{} {}", identical.likeness, different.likeness);
    }
}
