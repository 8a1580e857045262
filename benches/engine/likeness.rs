//! Similarity of two pictures: PSNR, and SSIM as defined by Wang et al., of their luma.

#![allow(clippy::cast_precision_loss, reason = "numbers of samples are far below 2^52")]

use image::RgbImage;

/// Side of the squares for SSIM, and their distance, in pixels.
const SQUARE: usize = 8;
const STEP: usize = 2;
const C1: f64 = (0.01 * 255.0) * (0.01 * 255.0);
const C2: f64 = (0.03 * 255.0) * (0.03 * 255.0);

/// Returns PSNR in decibels, and SSIM.
pub fn of(one: &RgbImage, other: &RgbImage) -> (f64, f64) {
    let (width, height) = (one.width() as usize, one.height() as usize);
    let (one, other) = (luma(one), luma(other));
    let squares: f64 = one.iter().zip(&other).map(|(a, b)| (a - b).powi(2)).sum();
    let psnr = 10.0 * (255.0 * 255.0 / (squares / one.len() as f64)).log10();
    let places =
        (0..height - SQUARE).step_by(STEP).flat_map(|y| (0..width - SQUARE).step_by(STEP).map(move |x| (x, y)));
    let similarities: Vec<f64> = places.map(|(x, y)| similarity(&one, &other, width, x, y)).collect();
    (psnr, similarities.iter().sum::<f64>() / similarities.len() as f64)
}

fn luma(picture: &RgbImage) -> Vec<f64> {
    picture
        .pixels()
        .map(|pixel| 0.299 * f64::from(pixel[0]) + 0.587 * f64::from(pixel[1]) + 0.114 * f64::from(pixel[2]))
        .collect()
}

fn similarity(one: &[f64], other: &[f64], width: usize, left: usize, top: usize) -> f64 {
    let places = || (top..top + SQUARE).flat_map(move |y| (left..left + SQUARE).map(move |x| y * width + x));
    let count = (SQUARE * SQUARE) as f64;
    let mean = |samples: &[f64]| places().map(|at| samples[at]).sum::<f64>() / count;
    let (mean_one, mean_other) = (mean(one), mean(other));
    let common = |a: &[f64], of_a: f64, b: &[f64], of_b: f64| {
        places().map(|at| (a[at] - of_a) * (b[at] - of_b)).sum::<f64>() / count
    };
    let spread = common(one, mean_one, one, mean_one) + common(other, mean_other, other, mean_other);
    let both = common(one, mean_one, other, mean_other);
    (2.0 * mean_one * mean_other + C1) * (2.0 * both + C2)
        / ((mean_one.powi(2) + mean_other.powi(2) + C1) * (spread + C2))
}
