//! Detection of the subject of a picture by its colours.
//!
//! The background is connected to the border without large changes of colour; areas enclosed by large changes are the
//! subject. The measure is the minimum barrier distance (Zhang et al., "Minimum barrier salient object detection at 80
//! FPS"): the smallest range of values on any path to the border.

use crate::filters::smooth;
use crate::guide::{Guide, Overview, stretch};
use crate::light::ramp;
use crate::plane::{Plane, Region};

/// Longest side in samples of the copy that is searched.
const SIDE: usize = 160;

/// Returns the likelihood, 0 to 1, that each sample of the overview belongs to the subject. Faces always do.
#[must_use]
pub fn find_subject(overview: &Overview, face: &Plane) -> Plane {
    let planes = overview.planes();
    let cell = overview.width().max(overview.height()).div_ceil(SIDE);
    let width = overview.width().div_ceil(cell);
    let height = overview.height().div_ceil(cell);

    let small = |plane: &Plane| {
        let whole = Region { left: 0, top: 0, width, height };
        let scale = [overview.width() as f32 / width as f32, overview.height() as f32 / height as f32];
        stretch(&smooth(plane, cell), scale, whole)
    };

    let mut distance = barrier_distances(&small(&planes.luma));
    for colour in [&planes.blue, &planes.red] {
        distance.combine(&barrier_distances(&small(colour)), |sum, colour| sum + 2.0 * colour);
    }

    let (low, high) = percentile_range(&distance);

    // Samples far from the border in colour belong to the subject, more so near the middle, where subjects usually are.
    for (y, row) in distance.rows_mut().enumerate() {
        for (x, value) in row.iter_mut().enumerate() {
            let across = 2.0 * (x as f32 + 0.5) / width as f32 - 1.0;
            let down = 2.0 * (y as f32 + 0.5) / height as f32 - 1.0;
            let central = 1.0 - 0.45 * (across * across + 0.6 * down * down).min(1.0);
            *value = ramp(central * (*value - low) / (high - low + 0.02), 0.15, 0.5);
        }
    }

    let whole = Region::covering(&planes.luma);
    let scale = [width as f32 / whole.width as f32, height as f32 / whole.height as f32];
    let mut subject = stretch(&smooth(&distance, 1), scale, whole);
    subject.combine(face, f32::max);

    // The mask follows the edges of the picture.
    let radius = (whole.width.max(whole.height) / 50).max(2);
    let mut subject = Guide::wide(&planes.luma, radius).fit(&subject, 0.08).small(&planes.luma);
    subject.values_mut().iter_mut().for_each(|value| *value = ramp(*value, 0.1, 0.9));

    subject
}

/// Returns the 10th and the 95th percentile of the values.
fn percentile_range(plane: &Plane) -> (f32, f32) {
    let mut values = plane.values().to_vec();
    values.sort_by(f32::total_cmp);
    (values[values.len() / 10], values[(values.len() - 1) * 19 / 20])
}

/// Returns for every sample the smallest range of values on a path to the border, found in four raster passes of
/// alternating direction.
fn barrier_distances(values: &Plane) -> Plane {
    let width = values.width();
    let height = values.height();

    // Smallest and largest value on the best path found so far from each sample to the border.
    let mut path_ranges: Vec<[f32; 2]> = values.values().iter().map(|value| [*value; 2]).collect();

    // Only the upper border and the upper part of the sides count as background, because subjects often reach the lower
    // border.
    let is_background = |x: usize, y: usize| y == 0 || ((x == 0 || x + 1 == width) && 10 * y <= 7 * height);
    let mut distance = Plane::from_fn(width, height, |x, y| if is_background(x, y) { 0.0 } else { f32::INFINITY });

    for pass in 0..4 {
        let forwards = pass % 2 == 0;
        for step in 0..width * height {
            let at = if forwards { step } else { width * height - 1 - step };
            let x = at % width;
            let y = at / width;

            let neighbours = if forwards {
                [(x > 0).then(|| at - 1), (y > 0).then(|| at - width)]
            } else {
                [(x + 1 < width).then(|| at + 1), (y + 1 < height).then(|| at + width)]
            };

            for from in neighbours.into_iter().flatten() {
                let value = values.values()[at];
                let low = path_ranges[from][0].min(value);
                let high = path_ranges[from][1].max(value);
                if high - low < distance.values()[at] {
                    distance.values_mut()[at] = high - low;
                    path_ranges[at] = [low, high];
                }
            }
        }
    }

    distance
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage};

    use super::*;
    use crate::picture::Pixels;

    #[test]
    fn an_object_in_front_of_a_gradient_is_the_subject() {
        let picture = RgbImage::from_fn(120, 90, |x, y| {
            if (40..80).contains(&x) && y > 25 && y < 85 { Rgb([160, 60, 40]) } else { Rgb([90, 120 + y as u8, 200]) }
        });
        let overview = Overview::from_pixels(&Pixels::Opaque(picture), 120);
        let subject = find_subject(&overview, &Plane::new(120, 90));
        assert!(subject.row(50)[60] > 0.9);
        assert!(subject.row(50)[10] < 0.1);
        assert!(subject.row(10)[100] < 0.1);
    }

    #[test]
    fn plain_pictures_of_any_size_have_no_subject() {
        for (width, height) in [(1, 1), (2, 5), (64, 64)] {
            let overview =
                Overview::from_pixels(&Pixels::Opaque(RgbImage::from_pixel(width, height, Rgb([9, 99, 50]))), 64);
            let subject = find_subject(&overview, &Plane::new(width as usize, height as usize));
            assert!(subject.values().iter().all(|value| *value < 0.1));
        }
    }
}
