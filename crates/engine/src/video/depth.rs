//! Depth estimation from a single picture.
//!
//! Cues for nearness are: the subject in front of its background ([`find_subject`]), a low position, sharpness, warm
//! colours and darkness. High, even, bright and blue areas such as haze and sky are far. The sum is filtered along the
//! edges of the picture, so that an object has one distance.

use super::camera::{FAR, NEAR};
use super::raster::{Raster, Vec2};
use crate::filters::smooth;
use crate::guide::{GuidedFilter, Overview};
use crate::light::{luminance, ramp, to_srgb};
use crate::picture::Pixels;
use crate::plane::Plane;
use crate::relight::subject::find_subject;

/// Longest side of an estimated map in samples.
const MAP_SIDE: usize = 224;

/// Map of nearness (1 / distance), from [`FAR`] to [`NEAR`].
#[derive(Debug, Clone)]
pub struct Depth {
    map: Plane,
    /// Width of the picture divided by its height.
    aspect: f32,
}

impl Depth {
    /// Creates a map from known values: 0 is far and 1 is near.
    #[must_use]
    pub fn from_map(mut map: Plane, aspect: f32) -> Self {
        map.values_mut().iter_mut().for_each(|value| *value = FAR + (NEAR - FAR) * value.clamp(0.0, 1.0));
        Self { map, aspect }
    }

    /// Estimates the map of a picture.
    #[must_use]
    pub fn estimate(picture: &Raster) -> Self {
        let size = picture.size();
        let overview = Overview::from_pixels(&Pixels::Opaque(picture.to_image()), MAP_SIDE);
        let luma = overview.map(|light| to_srgb(luminance(light)));
        let width = luma.width();
        let height = luma.height();
        let radius = (width.max(height) / 32).max(1);

        let subject = find_subject(&overview, &Plane::new(width, height));
        let sky = find_sky(&overview, &luma);

        let mut sharp = luma.clone();
        sharp.combine(&smooth(&luma, 1), |value, around| (value - around).abs());
        let sharp = smooth(&sharp, radius);
        let sharpest = sharp.values().iter().copied().fold(1e-3, f32::max);
        let warm = overview.map(|[red, _, blue]| ((red - blue) / (red + blue + 0.05)).clamp(-1.0, 1.0));

        let mut map = Plane::from_fn(width, height, |x, y| {
            let index = y * width + x;
            let down = (y as f32 + 0.5) / height as f32;
            // The ground comes nearer downwards. Objects on it have a constant distance from head to foot; otherwise
            // they would bend.
            let ground = ramp(down, 0.55, 1.15);
            let object = subject.values()[index];
            let sharpness = sharp.values()[index] / sharpest;
            let cues = 0.06 * sharpness + 0.04 * warm.values()[index] - 0.04 * luma.values()[index];
            let nearness = 0.15 + 0.40 * ground * (1.0 - object) + 0.45 * object + cues;
            nearness * (1.0 - 0.9 * sky.values()[index])
        });

        map = GuidedFilter::fit(&luma, &smooth(&map, radius / 2), 2 * radius, 0.08).small(&luma);
        stretch_contrast(&mut map);

        // Dilating gives the border of an object the depth of the object. Smoothing then turns the steps beyond it into
        // slopes, which avoids gaps in the drawn picture.
        let soft = (width.max(height) / 90).max(1);
        Self::from_map(smooth(&dilate(&map, soft), soft), size.aspect())
    }

    /// Returns the nearness at a position.
    #[must_use]
    pub fn at(&self, point: Vec2) -> f32 {
        look_up(&self.map, self.aspect, point)
    }
}

/// Returns the interpolated value of a map at a position of the picture, clamped to its border. Map and picture may
/// differ in size; `aspect` is the width of the picture divided by its height.
#[must_use]
pub fn look_up(map: &Plane, aspect: f32, [x, y]: Vec2) -> f32 {
    let width = map.width();
    let height = map.height();
    let across = ((x / aspect + 1.0) * 0.5 * width as f32 - 0.5).clamp(0.0, (width - 1) as f32);
    let down = ((y + 1.0) * 0.5 * height as f32 - 0.5).clamp(0.0, (height - 1) as f32);

    let left = across as usize;
    let top = down as usize;
    let right = (left + 1).min(width - 1);
    let bottom = (top + 1).min(height - 1);
    let across = across - left as f32;
    let down = down - top as f32;
    let upper = map.row(top);
    let lower = map.row(bottom);

    let above = upper[left] + across * (upper[right] - upper[left]);
    let below = lower[left] + across * (lower[right] - lower[left]);
    above + down * (below - above)
}

/// Returns the likelihood of sky, 0 to 1: bright or blue, even, and connected to the upper border.
#[must_use]
pub fn find_sky(overview: &Overview, luma: &Plane) -> Plane {
    let width = luma.width();
    let height = luma.height();

    let mut rough = luma.clone();
    rough.combine(&smooth(luma, 2), |value, around| (value - around).abs());
    let rough = smooth(&rough, 2);

    let blue = overview.map(|[red, green, blue]| ramp(blue - 0.5 * (red + green), -0.02, 0.12));

    let likelihood = Plane::from_fn(width, height, |x, y| {
        let at = y * width + x;
        let bright = ramp(luma.values()[at], 0.45, 0.8).max(blue.values()[at]);
        bright * (1.0 - ramp(rough.values()[at], 0.012, 0.05))
    });

    // A pixel is at most as likely to be sky as the likeliest of the three pixels above it.
    let mut sky = Plane::new(width, height);
    for y in 0..height {
        for x in 0..width {
            let above = |x: usize| if y == 0 { 1.0 } else { sky.row(y - 1)[x] };
            let maximum = above(x).max(0.98 * above(x.saturating_sub(1))).max(0.98 * above((x + 1).min(width - 1)));
            let value = likelihood.row(y)[x].min(maximum);
            sky.row_mut(y)[x] = value;
        }
    }

    smooth(&sky, 2)
}

/// Dilates near areas by a radius: each value becomes the maximum around it.
fn dilate(map: &Plane, radius: usize) -> Plane {
    let maximum_of = |plane: &Plane, across: usize, down: usize| {
        let width = plane.width();
        let height = plane.height();
        Plane::from_fn(width, height, |x, y| {
            let rows = y.saturating_sub(down)..(y + down + 1).min(height);
            let columns = x.saturating_sub(across)..(x + across + 1).min(width);
            rows.flat_map(|y| plane.row(y)[columns.clone()].iter().copied()).fold(0.0, f32::max)
        })
    };
    maximum_of(&maximum_of(map, radius, 0), 0, radius)
}

/// Maps the 2nd to the 98th percentile to 0 to 1.
fn stretch_contrast(map: &mut Plane) {
    let mut sorted = map.values().to_vec();
    sorted.sort_by(f32::total_cmp);
    let low = sorted[sorted.len() / 50];
    let high = sorted[(sorted.len() - 1) * 49 / 50];
    // A nearly flat map is not stretched completely, because that would amplify noise.
    let span = (high - low).max(0.3);
    map.values_mut().iter_mut().for_each(|value| *value = ((*value - low) / span).clamp(0.0, 1.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::raster::Size;

    #[test]
    fn objects_in_front_of_the_sky_are_nearer() {
        let size = Size { width: 96, height: 64 };
        let picture = Raster::from_fn(size, |x, y| match (x, y) {
            (36..60, 24..64) => [0.5, 0.25, 0.15, 1.0],
            (_, 44..) => [0.3, 0.4, 0.2, 1.0],
            _ => [0.5, 0.65, 0.9, 1.0],
        });
        let depth = Depth::estimate(&picture);
        let [subject, ground, sky] = [[0.0, 0.2], [-1.2, 0.6], [1.0, -0.8]].map(|point| depth.at(point));
        assert!(subject > sky + 0.3 && ground > sky + 0.1, "{subject} {ground} {sky}");
        assert!((FAR..=NEAR).contains(&subject));
        assert!((FAR..=NEAR).contains(&sky));
    }

    #[test]
    fn pictures_of_any_size_are_processed() {
        for (width, height) in [(2, 2), (4, 64), (64, 2)] {
            let depth = Depth::estimate(&Raster::new(Size { width, height }));
            assert!(depth.at([9.0, -9.0]).is_finite());
        }
    }
}
