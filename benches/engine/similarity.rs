//! Similarity of two pictures: PSNR, and SSIM as defined by Wang et al., of their luma.

#![allow(clippy::cast_precision_loss, reason = "numbers of samples are far below 2^52")]

use image::RgbImage;

/// Side of the squares for SSIM, in pixels.
const SQUARE: usize = 8;
/// Distance between two squares, in pixels.
const STEP: usize = 2;
/// Constants of SSIM, from its K1 = 0.01 and K2 = 0.03 and samples from 0 to 255.
const C1: f64 = (0.01 * 255.0) * (0.01 * 255.0);
const C2: f64 = (0.03 * 255.0) * (0.03 * 255.0);

/// Returns PSNR in decibels, and SSIM.
pub fn psnr_and_ssim(original: &RgbImage, candidate: &RgbImage) -> (f64, f64) {
    let (width, height) = (original.width() as usize, original.height() as usize);
    let (original_luma, candidate_luma) = (luma(original), luma(candidate));
    let squared_error: f64 = original_luma.iter().zip(&candidate_luma).map(|(a, b)| (a - b).powi(2)).sum();
    let psnr = 10.0 * (255.0 * 255.0 / (squared_error / original_luma.len() as f64)).log10();
    let windows =
        (0..height - SQUARE).step_by(STEP).flat_map(|y| (0..width - SQUARE).step_by(STEP).map(move |x| (x, y)));
    let similarities: Vec<f64> =
        windows.map(|(x, y)| ssim_of_square(&original_luma, &candidate_luma, width, x, y)).collect();
    (psnr, similarities.iter().sum::<f64>() / similarities.len() as f64)
}

/// Returns the luma of every pixel.
fn luma(picture: &RgbImage) -> Vec<f64> {
    picture
        .pixels()
        .map(|pixel| 0.299 * f64::from(pixel[0]) + 0.587 * f64::from(pixel[1]) + 0.114 * f64::from(pixel[2]))
        .collect()
}

/// Returns the SSIM of one square.
fn ssim_of_square(first: &[f64], second: &[f64], width: usize, left: usize, top: usize) -> f64 {
    let pixel_indices = || (top..top + SQUARE).flat_map(move |y| (left..left + SQUARE).map(move |x| y * width + x));
    let count = (SQUARE * SQUARE) as f64;
    let mean = |samples: &[f64]| pixel_indices().map(|at| samples[at]).sum::<f64>() / count;
    let (mean_first, mean_second) = (mean(first), mean(second));
    let covariance_of = |a: &[f64], mean_a: f64, b: &[f64], mean_b: f64| {
        pixel_indices().map(|at| (a[at] - mean_a) * (b[at] - mean_b)).sum::<f64>() / count
    };
    let variances =
        covariance_of(first, mean_first, first, mean_first) + covariance_of(second, mean_second, second, mean_second);
    let covariance = covariance_of(first, mean_first, second, mean_second);
    (2.0 * mean_first * mean_second + C1) * (2.0 * covariance + C2)
        / ((mean_first.powi(2) + mean_second.powi(2) + C1) * (variances + C2))
}
