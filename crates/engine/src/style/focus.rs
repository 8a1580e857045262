//! Detection of skin and of the focus of a picture.

use super::bands::{draw_plane, reduce, smooth};
use super::oklab::Lab;
use super::working::WorkingPicture;
use crate::plane::Plane;

/// Side of the squares that get one weight each, in pixels of the working picture.
const SQUARE_SIDE: usize = 8;

/// Returns the similarity of a colour to skin, 0 to 1. Skin of every shade has an orange hue and a low chroma.
fn skin_likeness([l, a, b]: Lab) -> f32 {
    // The hue of skin is about 52 degrees; `chroma` is the part of the colour in that direction.
    let chroma = 0.616 * a + 0.788 * b;
    let hue_offset = 0.616 * b - 0.788 * a;
    let hue = (1.6 - hue_offset.abs() / (0.42 * chroma).max(1e-4)).clamp(0.0, 1.0);
    let strength = ((chroma - 0.012) * 60.0).clamp(0.0, 1.0) * ((0.135 - chroma) * 30.0).clamp(0.0, 1.0);
    hue * strength * ((l - 0.2) * 8.0).clamp(0.0, 1.0)
}

/// Returns a skin mask, 0 to 1, with soft borders.
pub fn skin(working: &WorkingPicture) -> Plane {
    let colours = &working.colours;
    let width = colours.l.width();
    let likeness = draw_plane(width, colours.l.height(), |x, y| skin_likeness(colours.at(y * width + x)));

    // Smoothing removes single pixels of that hue and fills holes such as lips and freckles.
    let mut mask = smooth(&likeness, working.radius(3.0));
    mask.values_mut().iter_mut().for_each(|value| *value = ((*value - 0.25) * 2.5).clamp(0.0, 1.0));
    smooth(&mask, working.radius(1.0))
}

/// Centre of the focus and its radius, in pixels of the working picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Focus {
    pub centre: [f32; 2],
    pub radius: f32,
}

impl Focus {
    /// Finds faces if there is enough skin, otherwise the most detailed area near the middle.
    pub fn from_working(working: &WorkingPicture) -> Self {
        let lightness = &working.colours.l;
        let width = lightness.width() as f32;
        let height = lightness.height() as f32;

        let skin = reduce(&skin(working), SQUARE_SIDE);
        let skin_share = skin.values().iter().sum::<f32>() / skin.values().len() as f32;

        // Detail is the difference from the blurred picture.
        let blurred = smooth(lightness, working.radius(4.0));
        let mut detail = lightness.clone();
        detail.combine(&blurred, |value, blurred| (value - blurred).abs());
        let detail = reduce(&detail, SQUARE_SIDE);

        // Skin with detail beside it is a face; skin tones without detail may be a wall.
        let mut weights = smooth(&detail, 2);
        weights.combine(&skin, |detail, skin| detail * if skin_share > 0.01 { skin } else { 1.0 });

        let side = width.min(height);

        // The search starts above the middle, where faces usually are, and narrows to the largest weights.
        let mut centre = [0.5 * width, 0.4 * height];
        let mut window = 0.6 * side;
        let mut spread = 0.0;

        for _ in 0..6 {
            (centre, spread) = centroid(&weights, centre, window);
            window = (0.8 * window).max(0.22 * side);
        }

        Self { centre, radius: (3.2 * spread).clamp(0.26 * side, 0.6 * side) }
    }
}

/// Returns the centroid of the weights near a point and their standard deviation around it, in pixels of the working
/// picture. `window` is the distance in pixels at which the influence of a weight drops to 1/e.
fn centroid(weights: &Plane, [near_x, near_y]: [f32; 2], window: f32) -> ([f32; 2], f32) {
    // Sums of the weights, and of the weighted offsets to the right, down and squared.
    let mut sums = [0.0_f32; 4];
    for (row, y) in weights.rows().zip(0..) {
        for (weight, x) in row.iter().zip(0..) {
            let [right, down] = [x as f32, y as f32].map(|at| (at + 0.5) * SQUARE_SIDE as f32);
            let right = right - near_x;
            let down = down - near_y;

            let squared_distance = right * right + down * down;
            let weight = (weight + 1e-6) * (-squared_distance / (window * window)).exp();
            let parts = [1.0, right, down, squared_distance];
            sums = std::array::from_fn(|at| sums[at] + weight * parts[at]);
        }
    }

    let [right, down, squared_distance] = [1, 2, 3].map(|at| sums[at] / sums[0].max(1e-12));
    ([near_x + right, near_y + down], (squared_distance - right * right - down * down).max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage};

    use super::*;
    use crate::picture::Pixels;
    use crate::style::oklab;

    #[test]
    fn skin_of_every_shade_is_skin_and_sky_is_not() {
        let likeness = |colour: [u8; 3]| {
            skin_likeness(oklab::from_linear(colour.map(|byte| oklab::light_of_bytes()[usize::from(byte)])))
        };
        for skin in [[255, 219, 190], [224, 172, 140], [198, 134, 96], [141, 85, 56], [92, 58, 42]] {
            assert!(likeness(skin) > 0.5, "{skin:?} {}", likeness(skin));
        }
        for other in [[120, 170, 230], [60, 140, 50], [128, 128, 128], [250, 20, 20], [250, 240, 20]] {
            assert!(likeness(other) < 0.3, "{other:?} {}", likeness(other));
        }
    }

    #[test]
    fn the_focus_is_on_the_face() {
        let pixels = RgbImage::from_fn(200, 160, |x, y| {
            let in_face = (x as f32 - 60.0).powi(2) + (y as f32 - 70.0).powi(2) < 900.0;
            let in_eye = (x % 20 < 6) && (y % 20 < 6);
            if in_face { Rgb(if in_eye { [60, 30, 20] } else { [224, 172, 140] }) } else { Rgb([90, 120, 160]) }
        });
        let Focus { centre: [x, y], .. } = Focus::from_working(&WorkingPicture::from_pixels(&Pixels::Opaque(pixels)));
        assert!((x - 60.0).abs() < 12.0 && (y - 70.0).abs() < 12.0, "{x} {y}");
    }
}
