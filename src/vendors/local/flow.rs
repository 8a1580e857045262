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
        let mut cosine = Plane::new(width, height);
        let mut sine = Plane::new(width, height);
        let mut energy = Plane::new(width, height);
        for y in 0..height {
            let (above, row, below) = (luma.row(y.saturating_sub(1)), luma.row(y), luma.row((y + 1).min(height - 1)));
            for x in 0..width {
                let across = row[(x + 1).min(width - 1)] - row[x.saturating_sub(1)];
                let down = below[x] - above[x];
                cosine.row_mut(y)[x] = across * across - down * down;
                sine.row_mut(y)[x] = 2.0 * across * down;
                energy.row_mut(y)[x] = across * across + down * down;
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
        Directions {
            reach: linear.factor() as f32,
            cosine: linear.enlarge(&self.cosine, region),
            sine: linear.enlarge(&self.sine, region),
        }
    }
}

/// Directions in a part of the enlarged picture.
#[derive(Debug)]
pub struct Directions {
    /// How far to look along an edge, in pixels: one source pixel.
    reach: f32,
    cosine: Plane,
    sine: Plane,
}

impl Directions {
    /// Smooths along the edges.
    #[must_use]
    pub fn follow(&self, plane: &Plane) -> Plane {
        let mut result = plane.clone();
        for (y, row) in result.rows_mut().enumerate() {
            let directions = self.cosine.row(y).iter().zip(self.sine.row(y));
            for (x, (value, (cosine, sine))) in row.iter_mut().zip(directions).enumerate() {
                let agreement = (cosine * cosine + sine * sine).sqrt();
                if agreement > AGREEMENT_MIN {
                    let share = (agreement - AGREEMENT_MIN) / (1.0 - AGREEMENT_MIN);
                    let average = self.average_along(plane, (x, y), tangent(cosine / agreement, *sine));
                    *value += share * (average - *value);
                }
            }
        }
        result
    }

    /// Five samples along the edge, the nearer ones weighing more.
    fn average_along(&self, plane: &Plane, (x, y): (usize, usize), (along_x, along_y): (f32, f32)) -> f32 {
        let at = |distance: f32| sample(plane, x as f32 + distance * along_x, y as f32 + distance * along_y);
        let near = at(0.5 * self.reach) + at(-0.5 * self.reach);
        let far = at(self.reach) + at(-self.reach);
        0.3 * plane.row(y)[x] + 0.225 * near + 0.125 * far
    }
}

/// The direction of the edge: at right angles to the gradient, whose doubled angle is given.
fn tangent(cosine: f32, sine: f32) -> (f32, f32) {
    let gradient_x = (0.5 * (1.0 + cosine)).max(0.0).sqrt();
    let gradient_y = (0.5 * (1.0 - cosine)).max(0.0).sqrt().copysign(sine);
    (-gradient_y, gradient_x)
}

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

#[cfg(test)]
mod tests {
    use super::super::resample::Kernel;
    use super::*;

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
