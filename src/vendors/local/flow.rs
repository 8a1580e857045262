//! Which way edges run, and smoothing along them.
//!
//! A kernel that knows only rows and columns turns a slanted edge into stairs. The direction of an edge is known well at the
//! size of the source (from the structure tensor: gradients averaged as axes, so that the two sides of a line agree), and
//! averaging a little along it takes the stairs away without touching its sharpness.

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
        // What looks beyond the border of a tile lies in its margin.
        let inner = |length: usize| {
            let last = length.saturating_sub(reach + 2);
            (reach + 1).min(last)..last
        };
        let [mut cosine, mut sine, mut share] = [0; 3].map(|_| vec![0.0; columns]);
        for y in 0..rows {
            if inner(rows).contains(&y) {
                cosines.fill(y, &mut cosine);
                sines.fill(y, &mut sine);
                turn_to_tangents(&mut cosine, &mut sine, &mut share, (reach as i32 * UNIT) as f32);
                let places = inner(columns);
                let steps = cosine[places.clone()].iter().zip(&sine[places.clone()]);
                for ((share, (across, down)), x) in share[places.clone()].iter().zip(steps).zip(places) {
                    if *share > 0.0 {
                        let (across, down) = (*across as i16, *down as i16);
                        directions.ways.push(Way { x: x as u32, share: *share, across, down });
                    }
                }
            }
            directions.ends.push(directions.ways.len());
        }
        directions
    }
}

/// Turns doubled angles of gradients into steps of `length` along edges, across and down, and says how far to go from values to
/// averages: not above 0 where the direction is chance.
fn turn_to_tangents(cosines: &mut [f32], sines: &mut [f32], shares: &mut [f32], length: f32) {
    for ((cosine, sine), share) in cosines.iter_mut().zip(sines).zip(shares) {
        let agreement = (*cosine * *cosine + *sine * *sine).sqrt();
        let (across, down) = tangent(*cosine / (agreement + 1e-9), *sine);
        (*cosine, *sine) = (length * across, length * down);
        *share = (agreement - AGREEMENT_MIN) * (1.0 / (1.0 - AGREEMENT_MIN));
    }
}

/// Parts of a pixel in which steps are counted, and their bits.
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
    /// As far along the edge as is looked, in units.
    across: i16,
    down: i16,
}

impl Directions {
    /// Smooths along the edges.
    #[must_use]
    pub fn follow(&self, plane: &Plane) -> Plane {
        debug_assert_eq!((plane.width(), plane.height()), (self.columns, self.ends.len()));
        let mut result = plane.clone();
        let mut begin = 0;
        for (y, (row, end)) in result.rows_mut().zip(&self.ends).enumerate() {
            for way in &self.ways[begin..*end] {
                let x = way.x as usize;
                let value = &mut row[x];
                *value += way.share * (average_along(plane, (x, y), way) - *value);
            }
            begin = *end;
        }
        result
    }

    /// Those within `part`, which is counted in source pixels, where `wanted`, which has the size of the source, is above 0.
    #[must_use]
    pub fn only_where(&self, wanted: &Plane, part: Region) -> Self {
        let factor = self.factor;
        let (left, top) = (part.left as usize * factor, part.top as usize * factor);
        let columns = part.width * factor;
        let mut only = Self { factor, columns, ways: Vec::new(), ends: Vec::with_capacity(part.height * factor) };
        let mut cells = vec![false; columns];
        for y in 0..part.height * factor {
            if y % factor == 0 {
                let row = &wanted.row((top + y) / factor)[part.left as usize..];
                cells.chunks_mut(factor).zip(row).for_each(|(cells, wanted)| cells.fill(*wanted > 0.0));
            }
            let begin = if top + y == 0 { 0 } else { self.ends[top + y - 1] };
            let ways = self.ways[begin..self.ends[top + y]].iter();
            let moved = ways.map(|way| Way { x: way.x.wrapping_sub(left as u32), ..*way });
            only.ways.extend(moved.filter(|way| cells.get(way.x as usize) == Some(&true)));
            only.ends.push(only.ways.len());
        }
        only
    }
}

/// Five samples along the edge, the nearer ones weighing more. All lie within the plane.
fn average_along(plane: &Plane, (x, y): (usize, usize), way: &Way) -> f32 {
    let (values, width) = (plane.values(), plane.width());
    let (middle_x, middle_y) = (x as i32 * UNIT, y as i32 * UNIT);
    let at = |across: i32, down: i32| {
        let (x, y) = (middle_x + across, middle_y + down);
        // Neither is negative: shifts are divisions.
        let first = (y >> UNIT_BITS) as usize * width + (x >> UNIT_BITS) as usize;
        let part = |at: i32| (at & (UNIT - 1)) as f32 * (1.0 / UNIT as f32);
        let (part_x, part_y) = (part(x), part(y));
        let (upper, lower) = (&values[first..first + 2], &values[first + width..first + width + 2]);
        let above = upper[0] + part_x * (upper[1] - upper[0]);
        let below = lower[0] + part_x * (lower[1] - lower[0]);
        above + part_y * (below - above)
    };
    let (across, down) = (i32::from(way.across), i32::from(way.down));
    let near = at(across / 2, down / 2) + at(-across / 2, -down / 2);
    let far = at(across, down) + at(-across, -down);
    0.3 * values[y * width + x] + 0.225 * near + 0.125 * far
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
