//! Which way edges run, and smoothing along them.
//!
//! A kernel that knows only rows and columns turns a slanted edge into stairs. The direction of an edge is known well at the
//! size of the source (from the structure tensor: gradients averaged as axes, so that the two sides of a line agree), and
//! averaging a little along it takes the stairs away without touching its sharpness.

use std::ops::Range;

use multiversion::multiversion;

use super::filters::smooth;
use super::plane::{Plane, Region};
use super::resample::Enlarger;

/// The axis of the gradient at every source pixel as a doubled angle; the length says how much the surroundings agree,
/// 0 to 1.
#[derive(Debug)]
pub struct Flow {
    /// Length times the cosine of twice the angle.
    cosine: Plane,
    /// Length times the sine of twice the angle.
    sine: Plane,
}

/// Agreement below which a direction is chance.
const AGREEMENT_MIN: f32 = 0.3;

impl Flow {
    /// Finds the directions. `noise` is the noise of the source: slopes no steeper have no direction.
    #[must_use]
    pub fn of(luma: &Plane, noise: f32) -> Self {
        let (width, height) = (luma.width(), luma.height());
        let [mut cosine, mut sine, mut energy] = [0; 3].map(|_| Plane::new(width, height));
        let mut padded = vec![0.0; width + 2];
        let rows = cosine.rows_mut().zip(sine.rows_mut()).zip(energy.rows_mut());
        for (y, ((cosine, sine), energy)) in rows.enumerate() {
            luma.copy_row(y as isize, -1, &mut padded);
            let down = luma.row((y + 1).min(height - 1)).iter().zip(luma.row(y.saturating_sub(1)));
            let slopes = padded.iter().zip(&padded[2..]).zip(down);
            let targets = cosine.iter_mut().zip(sine).zip(energy);
            for (((cosine, sine), energy), ((left, right), (below, above))) in targets.zip(slopes) {
                let (across, down) = (right - left, below - above);
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

    /// The directions in the enlargement of `region`.
    #[must_use]
    pub fn within(&self, region: Region, linear: &Enlarger) -> Directions {
        let (cosines, sines) = (linear.rows(&self.cosine, region), linear.rows(&self.sine, region));
        let (reach, columns, rows) = (linear.factor(), cosines.width(), region.height * linear.factor());
        let mut directions = Directions { factor: reach, columns, ways: Vec::new(), ends: Vec::with_capacity(rows) };
        let [mut cosine, mut sine, mut share] = [0; 3].map(|_| vec![0.0; columns]);
        for y in 0..rows {
            if inner(rows, reach).contains(&y) {
                cosines.fill(y, &mut cosine);
                sines.fill(y, &mut sine);
                turn_to_slopes(&mut cosine, &mut sine, &mut share);
                let places = inner(columns, reach);
                let slopes = cosine[places.clone()].iter().zip(&sine[places.clone()]);
                for ((share, (slope, steep)), x) in share[places.clone()].iter().zip(slopes).zip(places) {
                    if *share > 0.0 {
                        let (slope, steep) = (*slope as i16, *steep > 0.0);
                        directions.ways.push(Way { x: x as u32, share: *share, slope, steep });
                    }
                }
            }
            directions.ends.push(directions.ways.len());
        }
        directions
    }
}

/// Where so many steps along, and one more to the side, end within a length.
fn inner(length: usize, steps: usize) -> Range<usize> {
    let last = length.saturating_sub(steps + 2);
    (steps + 1).min(last)..last
}

/// Turns doubled angles of gradients into slopes of edges and whether they are steep (1 or 0), and says how far to go from
/// values to averages: not above 0 where the direction is chance.
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

/// Parts of a pixel in which slopes are counted, and their bits.
const UNIT: i32 = 1 << UNIT_BITS;
const UNIT_BITS: u32 = 8;

/// Directions in a part of the enlarged picture: the places where there is one, row by row.
#[derive(Debug)]
pub struct Directions {
    /// Pixels of the enlargement per source pixel, and how far to look along an edge, in pixels.
    factor: usize,
    columns: usize,
    ways: Vec<Way>,
    /// For each row, where its last way ends.
    ends: Vec<usize>,
}

/// The direction at one place.
#[derive(Debug, Clone, Copy)]
struct Way {
    x: u32,
    /// How far to go from the value towards the average, 0 to 1.
    share: f32,
    /// Units to the side for a step along the edge.
    slope: i16,
    /// Whether steps go down; across otherwise.
    steep: bool,
}

impl Directions {
    /// Smooths along the edges.
    #[must_use]
    pub fn follow(&self, plane: &Plane) -> Plane {
        debug_assert_eq!((plane.width(), plane.height()), (self.columns, self.ends.len()));
        let width = self.columns;
        let (far, near) = (Along::new(self.factor, width), Along::new((self.factor / 2).max(1), width));
        let values = plane.values();
        Plane::from_rows(width, self.ends.len(), |y, row| {
            row.copy_from_slice(plane.row(y));
            for way in self.row(y as isize) {
                let (x, at) = (way.x as usize, y * width + way.x as usize);
                let change = 0.225 * near.sum(values, at, way) + 0.125 * far.sum(values, at, way) - 0.7 * row[x];
                row[x] += way.share * change;
            }
        })
    }

    /// Those within `part`, which is counted in source pixels and may reach beyond, where `wanted`, which has the size of the
    /// source, is above 0.
    #[must_use]
    pub fn only_where(&self, wanted: &Plane, part: Region) -> Self {
        let factor = self.factor;
        let columns = part.width * factor;
        let mut only = Self { factor, columns, ways: Vec::new(), ends: Vec::with_capacity(part.height * factor) };
        let left = part.left * factor as isize;
        let mut sources = vec![0.0; part.width];
        let mut cells = vec![false; columns];
        for y in 0..part.height * factor {
            if y % factor == 0 {
                wanted.copy_row(part.top + (y / factor) as isize, part.left, &mut sources);
                cells.chunks_mut(factor).zip(&sources).for_each(|(cells, wanted)| cells.fill(*wanted > 0.0));
            }
            if inner(part.height * factor, factor).contains(&y) {
                let ways = self.row(part.top * factor as isize + y as isize).iter();
                let moved = ways.map(|way| Way { x: (way.x as isize - left) as u32, ..*way });
                let places = inner(columns, factor);
                only.ways.extend(moved.filter(|way| places.contains(&(way.x as usize)) && cells[way.x as usize]));
            }
            only.ends.push(only.ways.len());
        }
        only
    }

    /// The ways of a row; none beyond the borders.
    fn row(&self, y: isize) -> &[Way] {
        let Some(end) = usize::try_from(y).ok().and_then(|y| self.ends.get(y)) else { return &[] };
        let begin = if y == 0 { 0 } else { self.ends[y as usize - 1] };
        &self.ways[begin..*end]
    }
}

/// The two samples that lie so many steps along an edge, on both sides of a place.
struct Along {
    steps: i32,
    /// For edges that are not steep and that are: how far apart values are that lie as many steps apart, and side by side.
    strides: [(isize, isize); 2],
}

impl Along {
    fn new(steps: usize, width: usize) -> Self {
        let (width, length) = (width as isize, steps as isize);
        Self { steps: steps as i32, strides: [(length, width), (length * width, 1)] }
    }

    /// The sum of both, each between two values. All of them lie within the plane.
    #[inline]
    fn sum(&self, values: &[f32], at: usize, way: &Way) -> f32 {
        let (along, beside) = self.strides[usize::from(way.steep)];
        let side = self.steps * i32::from(way.slope);
        let first = along + (side >> UNIT_BITS) as isize * beside;
        let share = (side & (UNIT - 1)) as f32 * (1.0 / UNIT as f32);
        let both = |away: isize| values[at.wrapping_add_signed(away)] + values[at.wrapping_add_signed(-away)];
        let (one, other) = (both(first), both(first + beside));
        one + share * (other - one)
    }
}

/// The direction of the edge: at right angles to the gradient, whose doubled angle is given.
fn tangent(cosine: f32, sine: f32) -> (f32, f32) {
    let gradient_x = (0.5 * (1.0 + cosine)).max(0.0).sqrt();
    let gradient_y = (0.5 * (1.0 - cosine)).max(0.0).sqrt().copysign(sine);
    (-gradient_y, gradient_x)
}

#[cfg(test)]
mod tests {
    use super::super::resample::Kernel;
    use super::*;

    /// The value between four samples.
    fn sample(plane: &Plane, x: f32, y: f32) -> f32 {
        let (x, y) = (x.clamp(0.0, (plane.width() - 1) as f32), y.clamp(0.0, (plane.height() - 1) as f32));
        let (left, top) = (x as usize, y as usize);
        let (right, bottom) = ((left + 1).min(plane.width() - 1), (top + 1).min(plane.height() - 1));
        let (part_x, part_y) = (x - left as f32, y - top as f32);
        let (upper, lower) = (plane.row(top), plane.row(bottom));
        let above = upper[left] + part_x * (upper[right] - upper[left]);
        let below = lower[left] + part_x * (lower[right] - lower[left]);
        above + part_y * (below - above)
    }

    #[test]
    fn a_slanted_edge_loses_its_stairs() {
        let slant = |x: f32, y: f32| if 2.0 * y > x { 0.9 } else { 0.1 };
        let source = Plane::from_fn(24, 24, |x, y| slant(x as f32, y as f32));
        let region = Region::whole(&source);
        let enlarged = Enlarger::new(Kernel::Lanczos, 4).enlarge(&source, region);
        let followed = Flow::of(&source, 0.0).within(region, &Enlarger::new(Kernel::Linear, 4)).follow(&enlarged);
        // Along a line parallel to the edge, the picture should be even.
        let unevenness = |plane: &Plane| {
            let line: Vec<f32> = (24..72).map(|x| sample(plane, x as f32, x as f32 / 2.0 + 0.5)).collect();
            let mean = line.iter().sum::<f32>() / line.len() as f32;
            line.iter().map(|value| (value - mean).powi(2)).sum::<f32>()
        };
        assert!(unevenness(&followed) < 0.5 * unevenness(&enlarged));
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
