//! Texture of the reference: the strength of its fine and coarse detail, and a grain sample for texture synthesis.

use super::bands::{EnlargedField, draw_plane, reduce, smooth};
use super::paint::deviation;
use super::working::WorkingPicture;
use crate::noise;
use crate::plane::{Plane, Region};

/// Side of the sample in pixels.
const SIDE: usize = 64;
/// Side of the synthesis cells in pixels. Each corner of a cell has a random offset into the sample.
const CELL: usize = 32;

/// Texture of a reference.
#[derive(Debug)]
pub struct Surface {
    pub strength: Strength,
    /// Detail of a square with a side of [`SIDE`], if the reference has texture.
    sample: Option<Plane>,
}

/// Strength of the detail in a picture, in lightness from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub struct Strength {
    /// Standard deviation of the finest detail.
    pub fine: f32,
    /// Standard deviation of detail that is a few times coarser.
    pub coarse: f32,
}

/// Maximum side in pixels of the central window in which detail is measured.
const WINDOW_SIDE_MAX: usize = 640;

impl Strength {
    /// Measures the middle of a picture.
    pub fn from_lightness(lightness: &Plane) -> Self {
        let [width, height] = [lightness.width(), lightness.height()].map(|side| side.min(WINDOW_SIDE_MAX));
        let [left, top] = [lightness.width() - width, lightness.height() - height].map(|excess| (excess / 2) as isize);
        let mut fine = lightness.window(Region { left, top, width, height });
        let mut near = smooth(&fine, 1);
        let far = smooth(&fine, 4);
        fine.combine(&near, |value, near| value - near);
        near.combine(&far, |near, far| near - far);
        Self { fine: deviation(fine.values()), coarse: deviation(near.values()) }
    }
}

impl Surface {
    /// Analyses the texture at the scale of a picture whose unit has `unit` pixels.
    pub fn from_working(working: &WorkingPicture, unit: f32) -> Self {
        let lightness = resize(&working.colours.l, unit / working.unit);
        let strength = Strength::from_lightness(&lightness);
        let far = smooth(&lightness, 4);
        let mut detail = lightness;
        detail.combine(&far, |value, far| value - far);
        Self { strength, sample: most_even(&detail) }
    }

    /// Synthesizes texture of any size without repetition; `None` if the reference has no texture.
    pub fn synthesize(&self, width: usize, height: usize, seed: u32) -> Option<Plane> {
        let sample = self.sample.as_ref()?;

        // The sample continues mirrored beyond its border.
        let mirrored_index = |x: usize, shift: u32| {
            let at = (x + shift as usize) % (2 * SIDE);
            if at < SIDE { at } else { 2 * SIDE - 1 - at }
        };

        Some(draw_plane(width, height, |x, y| {
            let column = x / CELL;
            let row = y / CELL;
            let [across, down] = [x % CELL, y % CELL].map(|part| part as f32 / CELL as f32);
            let mut sum = 0.0;
            let mut squares = 0.0;

            for (right, below) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                let [column_weight, row_weight] =
                    [(right, across), (below, down)].map(|(far, part)| if far == 1 { part } else { 1.0 - part });
                // Two shifts below `2 * SIDE`.
                let random = noise::hash((column + right) as u32, (row + below) as u32, seed);
                let value = sample.row(mirrored_index(y, random >> 8 & 127))[mirrored_index(x, random & 127)];
                sum += column_weight * row_weight * value;
                squares += (column_weight * row_weight) * (column_weight * row_weight);
            }
            // Averaging independent values reduces their variance; the division restores it.
            sum / squares.sqrt()
        }))
    }
}

/// Returns the plane enlarged or reduced by the integer factor nearest to `ratio`, at most four times larger.
fn resize(plane: &Plane, ratio: f32) -> Plane {
    let factor = |value: f32| (value + 0.5) as usize;
    if ratio >= 1.5 {
        let times = factor(ratio).min(4);
        EnlargedField::new(plane.clone(), times).to_plane(plane.width() * times, plane.height() * times)
    } else if ratio > 0.0 && ratio <= 0.67 {
        reduce(plane, factor(1.0 / ratio).min(plane.width().min(plane.height())).max(1))
    } else {
        plane.clone()
    }
}

/// Minimum standard deviation of the lightness in a square that contains grain.
const STRENGTH_MIN: f32 = 0.004;

/// Candidate for the sample.
struct SampleCandidate {
    region: Region,
    /// Standard deviation of the detail.
    strength: f32,
    /// Largest detail relative to the strength: high for objects, low for grain.
    peak: f32,
}

/// Returns the most even square among those of medium strength, which contains grain and not objects.
fn most_even(detail: &Plane) -> Option<Plane> {
    let tops = (0..=detail.height().checked_sub(SIDE)?).step_by(SIDE / 2);
    let last = detail.width().checked_sub(SIDE)?;

    let mut squares = Vec::new();

    for (top, left) in tops.flat_map(|top| (0..=last).step_by(SIDE / 2).map(move |left| (top, left))) {
        let region = Region { left: left as isize, top: top as isize, width: SIDE, height: SIDE };
        let square = detail.window(region);
        let strength = deviation(square.values());
        let highest = square.values().iter().fold(0.0_f32, |highest, value| highest.max(value.abs()));
        squares.push(SampleCandidate { region, strength, peak: highest / strength.max(1e-6) });
    }

    squares.sort_by(|a, b| a.strength.total_cmp(&b.strength));
    let count = squares.len();
    let middling =
        squares.into_iter().skip(count / 3).take((count / 2).max(1)).filter(|square| square.strength > STRENGTH_MIN);
    middling.min_by(|a, b| a.peak.total_cmp(&b.peak)).map(|square| detail.window(square.region))
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage};

    use super::*;
    use crate::picture::Pixels;

    fn working(amount: f32) -> WorkingPicture {
        let noise = noise::white(Region { left: 0, top: 0, width: 160, height: 160 }, 4);
        WorkingPicture::from_pixels(&Pixels::Opaque(RgbImage::from_fn(160, 160, |x, y| {
            Rgb([(128.0 + amount * noise.row(y as usize)[x as usize]) as u8; 3])
        })))
    }

    #[test]
    fn grain_is_measured_and_added_with_the_same_strength() {
        let working = working(12.0);
        let surface = Surface::from_working(&working, working.unit);
        let texture = surface.synthesize(300, 200, 7).unwrap();
        let ratio = deviation(texture.values()) / deviation(surface.sample.as_ref().unwrap().values());
        assert!((0.8..1.25).contains(&ratio), "{ratio}");
        assert_ne!(texture, surface.synthesize(300, 200, 8).unwrap());
    }

    #[test]
    fn plain_references_have_no_texture() {
        let working = working(0.0);
        assert!(Surface::from_working(&working, 1.0).synthesize(10, 10, 1).is_none());
        assert!(Surface::from_working(&working, 0.05).synthesize(10, 10, 1).is_none());
    }
}
