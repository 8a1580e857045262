//! Smoothing filters whose cost per pixel does not depend on the radius.

use multiversion::multiversion;

use crate::plane::{Plane, copy_clamped};

/// Averages each sample with its neighbours in a square of `2 * radius + 1` samples a side; the border is repeated.
#[must_use]
pub fn box_blur(source: &Plane, radius: usize) -> Plane {
    let mut windows = Windows::new(source.width(), radius);
    let row_sums = Plane::from_rows(source.width(), source.height(), |y, target| {
        windows.pad(source.row(y), radius);
        windows.sum(radius, target);
    });

    let weight = 1.0 / (2 * radius + 1) as f32;
    sum_columns(&row_sums, radius, weight * weight)
}

/// Buffers for sums of neighbours in a row. Sums of two are combined to sums of four and so on, which can be
/// vectorized.
struct Windows {
    sums: Vec<f32>,
    next: Vec<f32>,
}

impl Windows {
    fn new(width: usize, reach: usize) -> Self {
        let empty = vec![0.0; width + 2 * reach];
        Self { sums: empty.clone(), next: empty }
    }

    /// Loads a row with its first and last sample repeated `reach` times.
    fn pad(&mut self, row: &[f32], reach: usize) {
        self.sums.resize(row.len() + 2 * reach, 0.0);
        self.next.resize(row.len() + 2 * reach, 0.0);
        copy_clamped(row, -(reach as isize), &mut self.sums);
    }

    /// Writes the sums of `2 * radius + 1` samples from each position on; consumes the loaded row.
    fn sum(&mut self, radius: usize, target: &mut [f32]) {
        sum_windows(&mut self.sums, &mut self.next, 2 * radius + 1, target);
    }
}

/// Writes the sums of `window` samples from each position on; overwrites both buffers. `window` is odd; its binary
/// digits select the sums of one, two, four and more samples that make it up.
#[multiversion(targets("x86_64+avx2"))]
fn sum_windows(sums: &mut Vec<f32>, next: &mut Vec<f32>, window: usize, target: &mut [f32]) {
    let length = target.len();
    let mut size = 1;
    // Number of samples that each sum in `target` contains so far.
    let mut summed = 1;

    target.copy_from_slice(&sums[..length]);

    while 2 * size <= window {
        let pairs = sums.iter().zip(&sums[size..]);
        next.iter_mut().zip(pairs).for_each(|(sum, (left, right))| *sum = left + right);
        std::mem::swap(sums, next);
        size *= 2;

        if window & size != 0 {
            target.iter_mut().zip(&sums[summed..]).for_each(|(sum, part)| *sum += part);
            summed += size;
        }
    }
}

/// Returns the sums of the `2 * radius + 1` samples above, at and below each position, times `scale`.
#[multiversion(targets("x86_64+avx2"))]
fn sum_columns(source: &Plane, radius: usize, scale: f32) -> Plane {
    let last = source.height() - 1;

    // Window of the first row: the `radius` rows above it repeat it.
    let mut sums: Vec<f32> = source.row(0).iter().map(|value| value * radius as f32).collect();

    for y in 0..=radius {
        for (sum, value) in sums.iter_mut().zip(source.row(y.min(last))) {
            *sum += value;
        }
    }

    Plane::from_rows(source.width(), source.height(), |y, row| {
        let entering_row = source.row((y + radius + 1).min(last));
        let leaving_row = source.row(y.saturating_sub(radius));

        for (((value, sum), entering), leaving) in row.iter_mut().zip(&mut sums).zip(entering_row).zip(leaving_row) {
            *value = *sum * scale;
            *sum += entering - leaving;
        }
    })
}

/// Smooths with two box filters, close to a Gaussian of standard deviation `sqrt(2 * radius * (radius + 1) / 3)`.
#[must_use]
pub fn smooth(source: &Plane, radius: usize) -> Plane {
    match radius {
        0 => source.clone(),
        // Two box filters of a small radius are one convolution with triangular weights.
        1 => convolve(source, &[1.0, 2.0, 3.0, 2.0, 1.0].map(|weight| weight / 9.0)),
        2 => convolve(source, &[1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, 2.0, 1.0].map(|weight| weight / 25.0)),
        _ => box_blur_twice(source, radius),
    }
}

/// Blurs twice like [`box_blur`]. Sums twice along a row in one pass, with the border of `source` repeated for both.
fn box_blur_twice(source: &Plane, radius: usize) -> Plane {
    let mut windows = Windows::new(source.width(), 2 * radius);
    let mut first_sums = vec![0.0; source.width() + 2 * radius];

    let row_sums = Plane::from_rows(source.width(), source.height(), |y, target| {
        windows.pad(source.row(y), 2 * radius);
        windows.sum(radius, &mut first_sums);
        windows.pad(&first_sums, 0);
        windows.sum(radius, target);
    });

    let weight = 1.0 / (2 * radius + 1) as f32;
    let blurred_once = sum_columns(&row_sums, radius, weight * weight);
    sum_columns(&blurred_once, radius, weight * weight)
}

/// Applies the same weights across and then down.
fn convolve<const TAPS: usize>(source: &Plane, weights: &[f32; TAPS]) -> Plane {
    let width = source.width();
    let height = source.height();
    let reach = TAPS / 2;
    let mut padded = vec![0.0; width + 2 * reach];

    let across = Plane::from_rows(width, height, |y, target| {
        copy_clamped(source.row(y), -(reach as isize), &mut padded);
        weighted_sum(std::array::from_fn(|tap| &padded[tap..][..width]), weights, target);
    });

    Plane::from_rows(width, height, |y, target| {
        let row_of_tap = |tap: usize| across.row((y + tap).saturating_sub(reach).min(height - 1));
        weighted_sum(std::array::from_fn(row_of_tap), weights, target);
    })
}

/// Writes the weighted sums of several rows, each at least as long as the target.
#[multiversion(targets("x86_64+avx2"))]
pub fn weighted_sum<const TAPS: usize>(taps: [&[f32]; TAPS], weights: &[f32; TAPS], target: &mut [f32]) {
    let taps = taps.map(|tap| &tap[..target.len()]);
    for (at, value) in target.iter_mut().enumerate() {
        let mut sum = weights[0] * taps[0][at];
        for tap in 1..TAPS {
            sum += weights[tap] * taps[tap][at];
        }
        *value = sum;
    }
}

/// Smooths variation smaller than `step` and keeps edges higher than that: the guided filter of He, Sun and Tang with
/// the plane as its own guide.
#[must_use]
pub fn smooth_between_edges(source: &Plane, radius: usize, step: f32) -> Plane {
    let mut squares = source.clone();
    squares.values_mut().iter_mut().for_each(|value| *value *= *value);

    // Around each sample, the result is `offset + slope * sample`. The planes of the means are overwritten with slopes
    // and offsets, to save memory.
    let mut mean = box_blur(source, radius);
    let mut slope = box_blur(&squares, radius);
    drop(squares);

    slope.combine(&mean, |square, mean| {
        let variance = (square - mean * mean).max(0.0);
        variance / (variance + step * step)
    });

    mean.combine(&slope, |mean, slope| mean * (1.0 - slope));
    let offset = mean;

    let slope = box_blur(&slope, radius);
    let mut result = box_blur(&offset, radius);
    drop(offset);

    for ((value, slope), source) in result.values_mut().iter_mut().zip(slope.values()).zip(source.values()) {
        *value += slope * source;
    }

    result
}

/// Returns the detail that [`smooth`] with this radius removes.
#[must_use]
pub fn finer_than(source: &Plane, radius: usize) -> Plane {
    let mut fine = smooth(source, radius);
    fine.combine(source, |smooth, value| value - smooth);
    fine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_averages_and_repeats_the_border() {
        let plane = Plane::from_fn(4, 1, |x, _| [0.0, 3.0, 6.0, 9.0][x]);
        let blurred = box_blur(&plane, 1);
        for (value, expected) in blurred.values().iter().zip([1.0, 3.0, 6.0, 8.0]) {
            assert!((value - expected).abs() < 1e-5, "{value} instead of {expected}");
        }
        let column = Plane::from_fn(1, 4, |_, y| [0.0, 3.0, 6.0, 9.0][y]);
        assert_eq!(box_blur(&column, 1).values(), blurred.values());
    }

    #[test]
    fn a_radius_may_exceed_the_plane() {
        let plane = Plane::from_fn(2, 2, |x, y| (x + y) as f32);
        let blurred = box_blur(&plane, 50);
        assert!(blurred.values().iter().all(|value| (value - 1.0).abs() < 0.2), "{:?}", blurred.values());
    }

    #[test]
    fn edges_are_kept_and_ripples_smoothed() {
        let plane = Plane::from_fn(40, 40, |x, y| {
            let ripple = if (x + y) % 2 == 0 { 0.02 } else { -0.02 };
            ripple + if x < 20 { 0.2 } else { 0.8 }
        });
        let result = smooth_between_edges(&plane, 3, 0.1);
        let ripple = (result.row(10)[8] - result.row(10)[9]).abs();
        let edge = result.row(10)[22] - result.row(10)[17];
        assert!(ripple < 0.008, "{ripple}");
        assert!(edge > 0.5, "{edge}");
    }
}
