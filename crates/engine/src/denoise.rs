//! Noise reduction by DCT thresholding: overlapping blocks are transformed, coefficients no stronger than the noise are
//! dropped, and the results of each pixel are averaged with larger weights for plainer blocks (Yu and Sapiro, "DCT
//! image denoising").
//!
//! Coefficients stronger than the noise are kept in full, so edges and texture stay sharper than after smoothing.

use std::sync::LazyLock;

use rayon::prelude::*;

use crate::plane::{Plane, Region};

/// Side of a block.
const SIDE: usize = 8;
/// Rows that are computed together.
const BAND_ROWS: usize = 64;
/// Threshold in standard deviations, which pure noise rarely exceeds.
const THRESHOLD: f32 = 2.8;

type Square = [[f32; SIDE]; SIDE];

/// DCT basis vectors, each of length one.
static WAVES: LazyLock<Square> = LazyLock::new(|| {
    std::array::from_fn(|wave| {
        let length = if wave == 0 { 1.0 } else { std::f32::consts::SQRT_2 } / (SIDE as f32).sqrt();
        std::array::from_fn(|x| length * (std::f32::consts::PI * wave as f32 * (x as f32 + 0.5) / SIDE as f32).cos())
    })
});

/// Removes white noise of standard deviation `sigma`. Blocks begin every `stride` samples, 1 to 8: a larger stride is
/// faster and less smooth.
#[must_use]
pub fn denoise(source: &Plane, sigma: f32, stride: usize) -> Plane {
    let width = source.width();
    let mut result = Plane::new(width, source.height());
    result.values_mut().par_chunks_mut(BAND_ROWS * width).enumerate().for_each(|(band, target)| {
        denoise_band(source, THRESHOLD * sigma, stride, band * BAND_ROWS, target);
    });
    result
}

/// Fills the rows from `top` on. All blocks that overlap these rows count; block positions do not depend on the bands.
fn denoise_band(source: &Plane, threshold: f32, stride: usize, top: usize, target: &mut [f32]) {
    let width = source.width();
    let height = target.len() / source.width();

    let grown = Region { left: 0, top: top as isize, width, height }.grown(SIDE);
    let window = source.window(grown);
    let mut sum = Plane::new(window.width(), window.height());
    let mut weights = Plane::new(window.width(), window.height());

    for upper in (0..=window.height() - SIDE).filter(|y| (y + top).is_multiple_of(stride)) {
        for left in (0..=window.width() - SIDE).step_by(stride) {
            let (square, weight) = remove_weak_waves(&window, left, upper, threshold);

            for (y, row) in square.iter().enumerate() {
                let sums = &mut sum.row_mut(upper + y)[left..left + SIDE];
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
                weights.row_mut(upper + y)[left..left + SIDE].iter_mut().for_each(|sum| *sum += weight);
            }
        }
    }

    for (y, row) in target.chunks_exact_mut(width).enumerate() {
        let sums = &sum.row(y + SIDE)[SIDE..];
        let weights = &weights.row(y + SIDE)[SIDE..];
        row.iter_mut().zip(sums).zip(weights).for_each(|((value, sum), weight)| *value = sum / weight);
    }
}

/// Returns a block without coefficients below the threshold, and its weight, which decreases with the number of
/// remaining coefficients.
fn remove_weak_waves(window: &Plane, left: usize, top: usize, threshold: f32) -> (Square, f32) {
    let waves = &*WAVES;
    let mut square: Square = std::array::from_fn(|y| {
        let mut row = [0.0; SIDE];
        row.copy_from_slice(&window.row(top + y)[left..left + SIDE]);
        row
    });

    square = forward_dct(waves, &transposed(&forward_dct(waves, &square)));

    let mut kept_count = 0.0_f32;
    let mean = square[0][0];

    for value in square.as_flattened_mut() {
        let weight = if value.abs() > threshold { 1.0 } else { 0.0 };
        *value *= weight;
        kept_count += weight;
    }

    square[0][0] = mean;
    (inverse_dct(waves, &transposed(&inverse_dct(waves, &square))), 1.0 / (1.0 + kept_count))
}

type Row = [f32; SIDE];

fn sum(one: &Row, other: &Row) -> Row {
    std::array::from_fn(|x| one[x] + other[x])
}

fn difference(one: &Row, other: &Row) -> Row {
    std::array::from_fn(|x| one[x] - other[x])
}

/// Returns the weighted sum of rows.
fn weighted_sum<const N: usize>(rows: [&Row; N], factor: impl Fn(usize) -> f32) -> Row {
    let mut result = [0.0; SIDE];
    for (at, row) in rows.into_iter().enumerate() {
        let factor = factor(at);
        result.iter_mut().zip(row).for_each(|(value, part)| *value += factor * part);
    }
    result
}

/// Transforms each column into DCT coefficients. The symmetry of the basis vectors allows computing most products for
/// two or four rows at once.
fn forward_dct(waves: &Square, rows: &Square) -> Square {
    let [s0, s1, s2, s3]: [Row; 4] = std::array::from_fn(|y| sum(&rows[y], &rows[7 - y]));
    let odd: [Row; 4] = std::array::from_fn(|y| difference(&rows[y], &rows[7 - y]));
    let outer = [sum(&s0, &s3), sum(&s1, &s2)];
    let inner = [difference(&s0, &s3), difference(&s1, &s2)];

    std::array::from_fn(|wave| match wave % 4 {
        0 => weighted_sum(outer.each_ref(), |y| waves[wave][y]),
        2 => weighted_sum(inner.each_ref(), |y| waves[wave][y]),
        _ => weighted_sum(odd.each_ref(), |y| waves[wave][y]),
    })
}

/// Transforms DCT coefficients back into columns.
fn inverse_dct(waves: &Square, rows: &Square) -> Square {
    let outer: [Row; 2] = std::array::from_fn(|y| weighted_sum([&rows[0], &rows[4]], |at| waves[4 * at][y]));
    let inner: [Row; 2] = std::array::from_fn(|y| weighted_sum([&rows[2], &rows[6]], |at| waves[4 * at + 2][y]));

    let even = [
        sum(&outer[0], &inner[0]),
        sum(&outer[1], &inner[1]),
        difference(&outer[1], &inner[1]),
        difference(&outer[0], &inner[0]),
    ];

    let odd: [Row; 4] =
        std::array::from_fn(|y| weighted_sum([&rows[1], &rows[3], &rows[5], &rows[7]], |at| waves[2 * at + 1][y]));

    std::array::from_fn(|y| if y < 4 { sum(&even[y], &odd[y]) } else { difference(&even[7 - y], &odd[7 - y]) })
}

fn transposed(square: &Square) -> Square {
    std::array::from_fn(|y| std::array::from_fn(|x| square[x][y]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;

    fn deviation(one: &Plane, other: &Plane) -> f32 {
        let squares: f32 = one.values().iter().zip(other.values()).map(|(a, b)| (a - b).powi(2)).sum();
        (squares / one.values().len() as f32).sqrt()
    }

    #[test]
    fn noise_is_removed_and_edges_and_stripes_kept() {
        let clean = Plane::from_fn(96, 150, |x, y| {
            let stripes = if y > 75 { 0.2 * (x as f32 * 0.8).sin() } else { 0.0 };
            stripes + if x < 40 { 0.3 } else { 0.7 }
        });
        let mut dirty = clean.clone();
        let noise = noise::white(Region::covering(&clean), 3);
        dirty.combine(&noise, |value, noise| value + 0.05 * noise);
        for stride in [1, 2, 3, 4] {
            let error = deviation(&denoise(&dirty, 0.05, stride), &clean);
            assert!(error < 0.02, "stride {stride}: {error}");
        }
    }

    #[test]
    fn without_noise_nothing_changes() {
        let plane = Plane::from_fn(21, 70, |x, y| ((x * 7 + y * 5) % 11) as f32 / 11.0);
        assert!(deviation(&denoise(&plane, 0.0, 2), &plane) < 1e-5);
        let pixel = Plane::from_fn(1, 1, |_, _| 0.4);
        assert!(deviation(&denoise(&pixel, 0.1, 2), &pixel) < 1e-5);
    }
}
