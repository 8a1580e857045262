//! Directions of edges, and smoothing along them.
//!
//! A separable kernel turns slanted edges into stairs. The structure tensor of the source gives the direction of an
//! edge reliably, and a short average along it removes the stairs without reducing sharpness. The tensor doubles the
//! angles of gradients, so the opposite gradients on the two sides of a line add up instead of cancelling out.

use std::ops::Range;

use multiversion::multiversion;

use crate::filters::smooth;
use crate::plane::{Plane, Region};
use crate::resample::Enlarger;

/// Axis of the gradient at every source pixel, as a vector at twice its angle. The length of the vector, 0 to 1, is the
/// agreement of the gradients around the pixel.
#[derive(Debug)]
pub struct EdgeFlow {
    /// Length times the cosine of twice the angle.
    cosine: Plane,
    /// Length times the sine of twice the angle.
    sine: Plane,
}

/// Agreement below which a direction is random.
const AGREEMENT_MIN: f32 = 0.3;

impl EdgeFlow {
    /// Computes the axes. `noise` is the noise of the source; weaker slopes have no direction.
    #[must_use]
    pub fn from_luma(luma: &Plane, noise: f32) -> Self {
        let width = luma.width();
        let height = luma.height();
        let [mut cosine, mut sine, mut energy] = [0; 3].map(|_| Plane::new(width, height));

        let mut padded = vec![0.0; width + 2];

        let rows = cosine.rows_mut().zip(sine.rows_mut()).zip(energy.rows_mut());
        for (y, ((cosine, sine), energy)) in rows.enumerate() {
            luma.copy_row(y as isize, -1, &mut padded);

            let down = luma.row((y + 1).min(height - 1)).iter().zip(luma.row(y.saturating_sub(1)));
            let slopes = padded.iter().zip(&padded[2..]).zip(down);
            let targets = cosine.iter_mut().zip(sine).zip(energy);

            for (((cosine, sine), energy), ((left, right), (below, above))) in targets.zip(slopes) {
                let across = right - left;
                let down = below - above;

                *cosine = across * across - down * down;
                *sine = 2.0 * across * down;
                *energy = across * across + down * down;
            }
        }

        let energy = smooth(&energy, 1);
        let floor = (6.0 * noise + 0.02).powi(2);
        let [cosine, sine] = [cosine, sine].map(|part| {
            let mut part = smooth(&part, 1);
            part.combine(&energy, |part, energy| part / (energy + floor));
            part
        });

        Self { cosine, sine }
    }

    /// Returns the directions in the enlargement of `region`.
    #[must_use]
    pub fn in_region(&self, region: Region, linear: &Enlarger) -> Directions {
        let cosines = linear.rows(&self.cosine, region);
        let sines = linear.rows(&self.sine, region);
        let reach = linear.factor();
        let columns = cosines.width();
        let rows = region.height * linear.factor();
        let mut directions = Directions { factor: reach, columns, items: Vec::new(), ends: Vec::with_capacity(rows) };

        let [mut cosine, mut sine, mut share] = [0; 3].map(|_| vec![0.0; columns]);

        for y in 0..rows {
            if inner(rows, reach).contains(&y) {
                cosines.fill(y, &mut cosine);
                sines.fill(y, &mut sine);
                turn_to_slopes(&mut cosine, &mut sine, &mut share);
                let column_range = inner(columns, reach);

                let slopes = cosine[column_range.clone()].iter().zip(&sine[column_range.clone()]);
                for ((share, (slope, steep)), x) in share[column_range.clone()].iter().zip(slopes).zip(column_range) {
                    if *share > 0.0 {
                        let slope = *slope as i16;
                        let steep = *steep > 0.0;
                        directions.items.push(FlowDirection { x: x as u32, share: *share, slope, steep });
                    }
                }
            }

            directions.ends.push(directions.items.len());
        }

        directions
    }
}

/// Returns the positions in `0..length` from which `steps` along an edge and one pixel to its side stay inside.
fn inner(length: usize, steps: usize) -> Range<usize> {
    let last = length.saturating_sub(steps + 2);
    (steps + 1).min(last)..last
}

/// Converts doubled angles of gradients to slopes of edges and a flag for steep edges (1 or 0). `shares` becomes the
/// weight of the average, at most 0 where the direction is random.
#[multiversion(targets("x86_64+avx2"))]
fn turn_to_slopes(cosines: &mut [f32], sines: &mut [f32], shares: &mut [f32]) {
    for ((cosine, sine), share) in cosines.iter_mut().zip(sines).zip(shares) {
        let agreement = (*cosine * *cosine + *sine * *sine).sqrt();
        let (across, down) = tangent(*cosine / (agreement + 1e-9), *sine);
        let steep = down.abs() > across.abs();
        let (long, short) = if steep { (down, across) } else { (across, down) };
        (*cosine, *sine) = (short / long * UNIT as f32, if steep { 1.0 } else { 0.0 });
        *share = (agreement - AGREEMENT_MIN) * (1.0 / (1.0 - AGREEMENT_MIN));
    }
}

/// Fixed-point unit of slopes.
const UNIT: i32 = 1 << UNIT_BITS;
/// Number of fractional bits of slopes.
const UNIT_BITS: u32 = 8;

/// Directions in a part of the enlarged picture, stored row by row for the pixels that have one.
#[derive(Debug)]
pub struct Directions {
    /// Enlargement factor, and the distance in pixels that the smoothing covers along an edge.
    factor: usize,
    columns: usize,
    items: Vec<FlowDirection>,
    /// End of each row in `items`.
    ends: Vec<usize>,
}

/// Direction at one pixel.
#[derive(Debug, Clone, Copy)]
struct FlowDirection {
    x: u32,
    /// Weight of the average, 0 to 1.
    share: f32,
    /// Offset to the side for one step along the edge, in units of [`UNIT`].
    slope: i16,
    /// `true` if a step along the edge goes to the next row instead of the next column.
    steep: bool,
}

impl Directions {
    /// Smooths along the edges.
    #[must_use]
    pub fn follow(&self, plane: &Plane) -> Plane {
        debug_assert_eq!((plane.width(), plane.height()), (self.columns, self.ends.len()));
        let width = self.columns;

        let far = EdgeSamples::new(self.factor, width);
        let near = EdgeSamples::new((self.factor / 2).max(1), width);
        let values = plane.values();

        Plane::from_rows(width, self.ends.len(), |y, row| {
            row.copy_from_slice(plane.row(y));
            for direction in self.row(y as isize) {
                let x = direction.x as usize;
                let at = y * width + x;
                // The weights of the four samples add up to 0.7.
                let change =
                    0.225 * near.sum(values, at, direction) + 0.125 * far.sum(values, at, direction) - 0.7 * row[x];
                row[x] += direction.share * change;
            }
        })
    }

    /// Returns the directions within `part` where `mask` is above 0. `part` is in source pixels and may extend beyond
    /// the picture; `mask` has the size of the source.
    #[must_use]
    pub fn only_where(&self, mask: &Plane, part: Region) -> Self {
        let factor = self.factor;
        let columns = part.width * factor;
        let mut only = Self { factor, columns, items: Vec::new(), ends: Vec::with_capacity(part.height * factor) };

        let left = part.left * factor as isize;
        let mut sources = vec![0.0; part.width];
        let mut cells = vec![false; columns];

        for y in 0..part.height * factor {
            if y % factor == 0 {
                mask.copy_row(part.top + (y / factor) as isize, part.left, &mut sources);
                cells.chunks_mut(factor).zip(&sources).for_each(|(cells, mask)| cells.fill(*mask > 0.0));
            }

            if inner(part.height * factor, factor).contains(&y) {
                let row = self.row(part.top * factor as isize + y as isize).iter();
                let shifted =
                    row.map(|direction| FlowDirection { x: (direction.x as isize - left) as u32, ..*direction });
                let column_range = inner(columns, factor);
                only.items.extend(
                    shifted.filter(|direction| {
                        column_range.contains(&(direction.x as usize)) && cells[direction.x as usize]
                    }),
                );
            }

            only.ends.push(only.items.len());
        }

        only
    }

    /// Returns the directions in a row, none beyond the borders.
    fn row(&self, y: isize) -> &[FlowDirection] {
        let Some(end) = usize::try_from(y).ok().and_then(|y| self.ends.get(y)) else { return &[] };
        let start = if y == 0 { 0 } else { self.ends[y as usize - 1] };
        &self.items[start..*end]
    }
}

/// Offsets of the two samples at a distance along an edge, on both sides of a position.
struct EdgeSamples {
    steps: i32,
    /// Index offsets of flat and of steep edges: between samples along the edge, and side by side.
    strides: [(isize, isize); 2],
}

impl EdgeSamples {
    fn new(steps: usize, width: usize) -> Self {
        let width = width as isize;
        let length = steps as isize;
        Self { steps: steps as i32, strides: [(length, width), (length * width, 1)] }
    }

    /// Returns the sum of both samples, linearly interpolated. All positions lie within the plane.
    #[inline]
    fn sum(&self, values: &[f32], at: usize, direction: &FlowDirection) -> f32 {
        let (along, across) = self.strides[usize::from(direction.steep)];
        let side = self.steps * i32::from(direction.slope);
        let first = along + (side >> UNIT_BITS) as isize * across;
        let share = (side & (UNIT - 1)) as f32 * (1.0 / UNIT as f32);

        let pair_sum = |away: isize| values[at.wrapping_add_signed(away)] + values[at.wrapping_add_signed(-away)];
        let first_pair = pair_sum(first);
        let other = pair_sum(first + across);
        first_pair + share * (other - first_pair)
    }
}

/// Returns the direction of the edge, at right angles to the gradient whose doubled angle is given.
fn tangent(cosine: f32, sine: f32) -> (f32, f32) {
    let gradient_x = (0.5 * (1.0 + cosine)).max(0.0).sqrt();
    let gradient_y = (0.5 * (1.0 - cosine)).max(0.0).sqrt().copysign(sine);
    (-gradient_y, gradient_x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resample::Kernel;

    /// Interpolates between four samples.
    fn sample(plane: &Plane, x: f32, y: f32) -> f32 {
        let x = x.clamp(0.0, (plane.width() - 1) as f32);
        let y = y.clamp(0.0, (plane.height() - 1) as f32);
        let left = x as usize;
        let top = y as usize;
        let right = (left + 1).min(plane.width() - 1);
        let bottom = (top + 1).min(plane.height() - 1);
        let part_x = x - left as f32;
        let part_y = y - top as f32;
        let upper = plane.row(top);
        let lower = plane.row(bottom);
        let above = upper[left] + part_x * (upper[right] - upper[left]);
        let below = lower[left] + part_x * (lower[right] - lower[left]);
        above + part_y * (below - above)
    }

    #[test]
    fn slanted_edges_become_smooth() {
        let slant = |x: f32, y: f32| if 2.0 * y > x { 0.9 } else { 0.1 };
        let source = Plane::from_fn(24, 24, |x, y| slant(x as f32, y as f32));
        let region = Region::covering(&source);
        let enlarged = Enlarger::new(Kernel::Lanczos, 4).enlarge(&source, region);
        let smoothed =
            EdgeFlow::from_luma(&source, 0.0).in_region(region, &Enlarger::new(Kernel::Linear, 4)).follow(&enlarged);
        // The result should be constant along a line parallel to the edge.
        let unevenness = |plane: &Plane| {
            let line: Vec<f32> = (24..72).map(|x| sample(plane, x as f32, x as f32 / 2.0 + 0.5)).collect();
            let mean = line.iter().sum::<f32>() / line.len() as f32;
            line.iter().map(|value| (value - mean).powi(2)).sum::<f32>()
        };
        assert!(unevenness(&smoothed) < 0.5 * unevenness(&enlarged));
    }

    #[test]
    fn tangents_are_at_right_angles_to_gradients() {
        for degrees in [0.0_f32, 30.0, 60.0, 90.0, 120.0, 179.0] {
            let angle = degrees.to_radians();
            let (x, y) = tangent((2.0 * angle).cos(), (2.0 * angle).sin());
            assert!((x * angle.cos() + y * angle.sin()).abs() < 1e-3, "{degrees}");
        }
    }
}
