//! Smoothing at a cost per pixel that does not depend on the radius.

use super::plane::Plane;

/// Up to this radius adding up anew at every sample is faster than carrying a sum along: it is done for many samples at once.
const DIRECT_MAX: usize = 6;

/// The average of the square of `2 * radius + 1` samples a side around each sample.
#[must_use]
pub fn box_blur(source: &Plane, radius: usize) -> Plane {
    let mut across = Plane::new(source.width(), source.height());
    if radius <= DIRECT_MAX {
        let mut padded = vec![0.0; source.width() + 2 * radius];
        for (target, row) in across.rows_mut().zip(source.rows()) {
            pad(row, radius, &mut padded);
            sum_windows(&padded, radius, target);
        }
    } else {
        for (target, row) in across.rows_mut().zip(source.rows()) {
            blur_row(row, radius, target);
        }
    }
    blur_columns(&across, radius)
}

/// A row with its first and last sample repeated `radius` times.
fn pad(row: &[f32], radius: usize, padded: &mut [f32]) {
    padded[..radius].fill(row[0]);
    padded[radius..radius + row.len()].copy_from_slice(row);
    padded[radius + row.len()..].fill(row[row.len() - 1]);
}

/// The average of the `2 * radius + 1` samples from each place on.
fn sum_windows(padded: &[f32], radius: usize, target: &mut [f32]) {
    let share = 1.0 / (2 * radius + 1) as f32;
    let length = target.len();
    target.copy_from_slice(&padded[..length]);
    let mut shift = 1;
    // Two at a time: half of the passes over the row.
    while shift < 2 * radius {
        let pairs = padded[shift..][..length].iter().zip(&padded[shift + 1..][..length]);
        target.iter_mut().zip(pairs).for_each(|(sum, (one, other))| *sum += one + other);
        shift += 2;
    }
    for sum in target.iter_mut() {
        *sum *= share;
    }
}

fn blur_row(source: &[f32], radius: usize, target: &mut [f32]) {
    let last = source.len() - 1;
    let share = 1.0 / (2 * radius + 1) as f32;
    let mut sum = source[0] * radius as f32 + (0..=radius).map(|x| source[x.min(last)]).sum::<f32>();
    for (x, value) in target.iter_mut().enumerate() {
        *value = sum * share;
        sum += source[(x + radius + 1).min(last)] - source[x.saturating_sub(radius)];
    }
}

fn blur_columns(source: &Plane, radius: usize) -> Plane {
    let last = source.height() - 1;
    let share = 1.0 / (2 * radius + 1) as f32;
    let mut sums: Vec<f32> = source.row(0).iter().map(|value| value * radius as f32).collect();
    for y in 0..=radius {
        for (sum, value) in sums.iter_mut().zip(source.row(y.min(last))) {
            *sum += value;
        }
    }
    let mut target = Plane::new(source.width(), source.height());
    for (y, row) in target.rows_mut().enumerate() {
        let (entering, leaving) = (source.row((y + radius + 1).min(last)), source.row(y.saturating_sub(radius)));
        for (((value, sum), entering), leaving) in row.iter_mut().zip(&mut sums).zip(entering).zip(leaving) {
            *value = *sum * share;
            *sum += entering - leaving;
        }
    }
    target
}

/// Close to a Gaussian of standard deviation `sqrt(2 * radius * (radius + 1) / 3)`: the box twice.
#[must_use]
pub fn smooth(source: &Plane, radius: usize) -> Plane {
    if radius == 1 { smooth_least(source) } else { box_blur(&box_blur(source, radius), radius) }
}

/// The box of radius 1 twice, in one pass across and one down.
fn smooth_least(source: &Plane) -> Plane {
    const WEIGHTS: [f32; 3] = [3.0 / 9.0, 2.0 / 9.0, 1.0 / 9.0];
    let (width, height) = (source.width(), source.height());
    let mut padded = vec![0.0; width + 4];
    let mut across = Plane::new(width, height);
    for (target, row) in across.rows_mut().zip(source.rows()) {
        pad(row, 2, &mut padded);
        let taps: [&[f32]; 5] = std::array::from_fn(|shift| &padded[shift..][..width]);
        weigh(&taps, WEIGHTS, target);
    }
    let mut down = Plane::new(width, height);
    for (y, target) in down.rows_mut().enumerate() {
        let taps: [&[f32]; 5] = std::array::from_fn(|shift| across.row((y + shift).saturating_sub(2).min(height - 1)));
        weigh(&taps, WEIGHTS, target);
    }
    down
}

/// Weighted sums of five rows: the weight of the middle one, of those beside it and of the outermost.
fn weigh(taps: &[&[f32]; 5], [middle, near, far]: [f32; 3], target: &mut [f32]) {
    let beside = taps[1].iter().zip(taps[3]).zip(taps[0].iter().zip(taps[4]));
    for ((value, centre), ((left, right), (first, last))) in target.iter_mut().zip(taps[2]).zip(beside) {
        *value = middle * centre + near * (left + right) + far * (first + last);
    }
}

/// Smooths what varies less than `step` around it and keeps the edges that are higher: the guided filter of He, Sun and
/// Tang with the plane as its own guide.
#[must_use]
pub fn smooth_between_edges(source: &Plane, radius: usize, step: f32) -> Plane {
    let mut squares = source.clone();
    squares.values_mut().iter_mut().for_each(|value| *value *= *value);
    let mut mean = box_blur(source, radius);
    let mut slope = box_blur(&squares, radius);
    drop(squares);
    slope.combine(&mean, |square, mean| {
        let variance = (square - mean * mean).max(0.0);
        variance / (variance + step * step)
    });
    mean.combine(&slope, |mean, slope| mean * (1.0 - slope));
    let slope = box_blur(&slope, radius);
    let mut result = box_blur(&mean, radius);
    drop(mean);
    for ((value, slope), source) in result.values_mut().iter_mut().zip(slope.values()).zip(source.values()) {
        *value += slope * source;
    }
    result
}

/// What is finer than a smoothing of this radius.
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
            assert!((value - expected).abs() < 1e-5);
        }
        let column = Plane::from_fn(1, 4, |_, y| [0.0, 3.0, 6.0, 9.0][y]);
        assert_eq!(box_blur(&column, 1).values(), blurred.values());
    }

    #[test]
    fn a_radius_larger_than_the_plane_is_no_harm() {
        let plane = Plane::from_fn(2, 2, |x, y| (x + y) as f32);
        assert!(box_blur(&plane, 50).values().iter().all(|value| (value - 1.0).abs() < 0.2));
    }

    #[test]
    fn edges_stay_and_ripples_go() {
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
