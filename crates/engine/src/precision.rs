//! Precise enlargement, corrected against the input.
//!
//! The flavor may denoise or smooth the picture at the size of the input. The picture is then enlarged by any factor
//! from 2 to 16, in one step or two, along its edges, and corrected until the reduced result equals the input
//! (iterative back-projection). Detail, sharpness and grain are added in the requested amounts; without them only the
//! input counts.
//!
//! Memory: about 45 bytes per pixel of the input, 3 or 4 per pixel of the result, 12 or 16 per pixel between two steps,
//! plus about 30 MB per core.

use crate::colour::Planes;
use crate::denoise::denoise;
use crate::detail::{Detailer, Pass};
use crate::filters::smooth_between_edges;
use crate::grade::Statistics;
use crate::job::{PrecisionJob, PrecisionPreset};
use crate::picture::DecodedPicture;
use crate::presets::Look;
use crate::tiles::{enlarge, enlarge_to_pixels};

/// Enlarges a picture. The result is deterministic; the seed determines grain and synthesized texture.
#[must_use]
pub fn precision(input: DecodedPicture, job: &PrecisionJob, seed: u32) -> DecodedPicture {
    let DecodedPicture { pixels, profile } = input;
    let planes = Planes::from_pixels(&pixels);
    drop(pixels);

    let planes = apply_flavor(planes, job.flavor);
    let noise = Statistics::from_luma(&planes.luma).noise;
    let look = look(*job);

    let pixels = match steps(job.scale_factor) {
        (None, factor) => enlarge_to_pixels(&planes, &Detailer::new(&planes, factor, look, seed, noise, Pass::Final)),
        (Some(before), factor) => {
            let intermediate = enlarge(&planes, &Detailer::new(&planes, before, look, seed, noise, Pass::Intermediate));
            drop(planes);
            let noise = Statistics::from_luma(&intermediate.luma).noise;
            enlarge_to_pixels(
                &intermediate,
                &Detailer::new(&intermediate, factor, look.for_second_pass(), seed, noise, Pass::Final),
            )
        }
    };

    DecodedPicture { pixels, profile }
}

/// Returns the factors of the successive enlargements. Two steps keep kernels small and add one octave of detail each.
const fn steps(factor: usize) -> (Option<usize>, usize) {
    match factor {
        6 | 8 | 10 | 14 => (Some(factor / 2), 2),
        9 | 12 | 15 => (Some(factor / 3), 3),
        16 => (Some(4), 4),
        _ => (None, factor),
    }
}

/// Base of every precise enlargement.
const BASE: Look = Look { sharpen: 0.3, crisp: 0.15, overshoot: 0.3, fidelity: 2.0, ..Look::NONE };

/// Returns the strengths of the effects for the parameters of a job.
fn look(job: PrecisionJob) -> Look {
    let mut look = BASE;

    if job.flavor == PrecisionPreset::Sublime {
        look.add(&Look { crisp: 0.7, overshoot: -0.2, sharpen: 0.1, ..Look::NONE }, 1.0);
    }

    look.add(&Look { sharpen: 2.2, crisp: 0.9, ..Look::NONE }, job.sharpen);
    look.add(&Look { own_detail: 3.2, texture: 1.6, sharpen: 0.7, ..Look::NONE }, job.ultra_detail);
    look.add(&Look { grain: 1.0, ..Look::NONE }, job.smart_grain);
    look
}

/// Minimum standard deviation of the noise that the denoiser removes, in luma.
const SIGMA_MIN: f32 = 0.008;

/// Applies the flavor at the size of the input.
fn apply_flavor(mut planes: Planes, flavor: PrecisionPreset) -> Planes {
    match flavor {
        PrecisionPreset::Photo => {}
        PrecisionPreset::Sublime => {
            // More smoothing would make the result less accurate than bicubic interpolation.
            let even = smooth_between_edges(&planes.luma, 2, 0.04);
            planes.luma.combine(&even, |value, even| value + 0.4 * (even - value));
        }
        PrecisionPreset::PhotoDenoiser => {
            // Colour differences contain little detail and most of the visible noise.
            for (plane, strength, stride) in
                [(&mut planes.luma, 1.1, 2), (&mut planes.blue, 1.6, 4), (&mut planes.red, 1.6, 4)]
            {
                let sigma = (strength * Statistics::from_luma(plane).noise).max(SIGMA_MIN);
                *plane = denoise(plane, sigma, stride);
            }
        }
    }

    planes
}

#[cfg(test)]
mod tests {
    use image::RgbImage;
    use image::imageops::{self, FilterType};

    use super::*;
    use crate::filters::finer_than;
    use crate::picture::Pixels;
    use crate::plane::{Plane, Region};
    use crate::test_pictures;

    fn plain_job(scale_factor: usize) -> PrecisionJob {
        PrecisionJob { scale_factor, flavor: PrecisionPreset::Photo, sharpen: 0.0, smart_grain: 0.0, ultra_detail: 0.0 }
    }

    fn enlarged(pixels: &Pixels, job: PrecisionJob) -> DecodedPicture {
        precision(DecodedPicture { pixels: pixels.clone(), profile: Some(vec![1]) }, &job, 1)
    }

    fn luma(pixels: &Pixels, job: PrecisionJob) -> Plane {
        Planes::from_pixels(&enlarged(pixels, job).pixels).luma
    }

    fn deviation(plane: &Plane) -> f32 {
        let count = plane.values().len() as f32;
        let mean = plane.values().iter().sum::<f32>() / count;
        (plane.values().iter().map(|value| (value - mean).powi(2)).sum::<f32>() / count).sqrt()
    }

    fn opaque(pixels: Pixels) -> RgbImage {
        let Pixels::Opaque(pixels) = pixels else { panic!("the picture is opaque") };
        pixels
    }

    /// Returns the mean squared error between two planes.
    fn error(one: &Plane, other: &Plane) -> f32 {
        let squares: f32 = one.values().iter().zip(other.values()).map(|(a, b)| (a - b).powi(2)).sum();
        squares / one.values().len() as f32
    }

    /// Returns the structural similarity (Wang et al.) over blocks of 8 × 8 samples.
    fn similarity(one: &Plane, other: &Plane) -> f32 {
        let mut sum = 0.0;
        let origins =
            (0..one.height() - 7).step_by(4).flat_map(|y| (0..one.width() - 7).step_by(4).map(move |x| (x, y)));
        let mut count = 0.0;
        for (x, y) in origins {
            let square = Region { left: x as isize, top: y as isize, width: 8, height: 8 };
            let a = one.window(square);
            let b = other.window(square);
            let mean = |plane: &Plane| plane.values().iter().sum::<f32>() / 64.0;
            let mean_a = mean(&a);
            let mean_b = mean(&b);
            let pairs = a.values().iter().zip(b.values());
            let common = pairs.map(|(a, b)| (a - mean_a) * (b - mean_b)).sum::<f32>() / 64.0;
            let spread = deviation(&a).powi(2) + deviation(&b).powi(2);
            sum += (2.0 * mean_a * mean_b + 1e-4) * (2.0 * common + 9e-4)
                / ((mean_a.powi(2) + mean_b.powi(2) + 1e-4) * (spread + 9e-4));
            count += 1.0;
        }
        sum / count
    }

    #[test]
    fn precision_restores_better_than_bicubic() {
        for picture in [test_pictures::photo(128), test_pictures::drawing(128)] {
            let original = opaque(picture);
            let original_luma = Planes::from_pixels(&Pixels::Opaque(original.clone())).luma;
            for kernel in [FilterType::Triangle, FilterType::CatmullRom] {
                let small = imageops::resize(&original, 32, 32, kernel);
                let bicubic = imageops::resize(&small, 128, 128, FilterType::CatmullRom);
                let bicubic = Planes::from_pixels(&Pixels::Opaque(bicubic)).luma;
                let sharpened = PrecisionJob { scale_factor: 4, ..Default::default() };
                let sublime = PrecisionJob { flavor: PrecisionPreset::Sublime, ..plain_job(4) };
                for job in [plain_job(4), sharpened, sublime] {
                    let upscaled = luma(&Pixels::Opaque(small.clone()), job);
                    let error_ours = error(&upscaled, &original_luma);
                    let error_bicubic = error(&bicubic, &original_luma);
                    assert!(
                        error_ours < error_bicubic,
                        "{kernel:?} {job:?}: squared error {error_ours}, bicubic {error_bicubic}"
                    );
                    let similarity_ours = similarity(&upscaled, &original_luma);
                    let similarity_bicubic = similarity(&bicubic, &original_luma);
                    assert!(
                        similarity_ours > similarity_bicubic,
                        "{kernel:?} {job:?}: similarity {similarity_ours}, bicubic {similarity_bicubic}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_factor_gives_its_size_and_keeps_the_brightness_and_the_profile() {
        let input = test_pictures::photo(11);
        let mean = |plane: &Plane| plane.values().iter().sum::<f32>() / plane.values().len() as f32;
        let before = mean(&Planes::from_pixels(&input).luma);
        for factor in 2..=16 {
            let result = enlarged(&input, plain_job(factor as usize));
            assert_eq!((result.dimensions(), result.profile), ((11 * factor, 11 * factor), Some(vec![1])));
            let after = mean(&Planes::from_pixels(&result.pixels).luma);
            assert!((before - after).abs() < 0.01, "{factor}: {before} {after}");
        }
    }

    #[test]
    fn an_even_colour_stays_at_full_strength_of_every_effect() {
        for flavor in PrecisionPreset::ALL {
            let job = PrecisionJob { flavor: *flavor, sharpen: 1.0, ultra_detail: 1.0, ..plain_job(13) };
            let one = Pixels::Opaque(RgbImage::from_pixel(3, 1, image::Rgb([200, 100, 50])));
            let result = opaque(enlarged(&one, job).pixels);
            assert!(result.pixels().all(|pixel| pixel.0.iter().zip([200, 100, 50]).all(|(a, b)| a.abs_diff(b) <= 1)));
        }
    }

    /// Asserts that the fine detail of the result increases with the parameter that `set` changes.
    fn assert_detail_increases(set: impl Fn(&mut PrecisionJob, f32)) {
        for factor in [2, 6] {
            let measures = [0.0, 0.5, 1.0].map(|amount| {
                let mut job = plain_job(factor);
                set(&mut job, amount);
                deviation(&finer_than(&luma(&test_pictures::photo(32), job), 1))
            });
            assert!(measures[0] < 0.99 * measures[1] && measures[1] < 0.99 * measures[2], "{factor}: {measures:?}");
        }
    }

    #[test]
    fn sharpen_gives_edges_definition() {
        assert_detail_increases(|job, amount| job.sharpen = amount);
    }

    #[test]
    fn ultra_detail_adds_fine_structure() {
        assert_detail_increases(|job, amount| job.ultra_detail = amount);
    }

    #[test]
    fn smart_grain_adds_texture_that_depends_on_the_seed() {
        assert_detail_increases(|job, amount| job.smart_grain = amount);
        let grey = Pixels::Opaque(RgbImage::from_pixel(16, 16, image::Rgb([128; 3])));
        let job = PrecisionJob { smart_grain: 1.0, ..plain_job(4) };
        assert!(deviation(&luma(&grey, job)) > 0.02);
        let [first, same_seed, other_seed] =
            [1, 1, 2].map(|seed| precision(DecodedPicture { pixels: grey.clone(), profile: None }, &job, seed));
        assert!(first == same_seed && first != other_seed);
    }

    #[test]
    fn flavors_smooth_keep_and_denoise() {
        let [sublime, photo, denoised] =
            [PrecisionPreset::Sublime, PrecisionPreset::Photo, PrecisionPreset::PhotoDenoiser]
                .map(|flavor| move |picture: &Pixels| luma(picture, PrecisionJob { flavor, ..plain_job(2) }));
        let noisy = test_pictures::noisy(64);
        assert!(deviation(&denoised(&noisy)) < 0.3 * deviation(&photo(&noisy)));

        // The denoiser distinguishes texture from noise and does not blur clean lines.
        let picture = test_pictures::photo(64);
        let fine = |plane: Plane| deviation(&finer_than(&plane, 2));
        let sublime = fine(sublime(&picture));
        let photo = fine(photo(&picture));
        let denoised = fine(denoised(&picture));
        assert!(denoised > 0.9 * photo && sublime < 0.99 * photo, "{sublime} {photo} {denoised}");
    }

    #[test]
    fn transparency_is_enlarged_with_the_picture() {
        let cut = image::RgbaImage::from_fn(16, 16, |x, _| image::Rgba([0, 200, 0, if x < 8 { 255 } else { 0 }]));
        for factor in [3, 9] {
            let Pixels::Transparent(large) = enlarged(&Pixels::Transparent(cut.clone()), plain_job(factor)).pixels
            else {
                panic!("transparency is kept")
            };
            assert_eq!((large.get_pixel(5, 20).0[3], large.get_pixel(14 * factor as u32, 20).0[3]), (255, 0));
        }
    }
}
