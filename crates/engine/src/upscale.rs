//! Pipeline of an enlargement.
//!
//! The picture is split into channels, analysed and graded at the size of the input. It is enlarged once by 2 or 4, or
//! twice for 8 and 16, each time in tiles, and converted to pixels. Two steps keep kernels small and add one octave of
//! detail each.
//!
//! Memory: about 45 bytes per pixel of the input, 3 or 4 per pixel of the result and about 20 MB per core. In total,
//! that is at most about 15 bytes per pixel of a large result.

use crate::colour::Planes;
use crate::detail::{Detailer, Pass};
use crate::grade::{Statistics, grade};
use crate::job::{PictureUpscale, UpscaleFactor};
use crate::picture::DecodedPicture;
use crate::presets::Look;
use crate::tiles::{enlarge, enlarge_to_pixels};

/// Enlarges a picture. The result is deterministic; the seed determines synthesized texture and grain.
#[must_use]
pub fn upscale(input: DecodedPicture, parameters: &PictureUpscale, seed: u32) -> DecodedPicture {
    let DecodedPicture { pixels, profile } = input;
    let planes = Planes::from_pixels(&pixels);
    drop(pixels);

    let statistics = Statistics::from_luma(&planes.luma);
    let look = Look::from_parameters(parameters, &statistics);
    let mut planes = grade(planes, &look);

    let (before, last) = steps(parameters.scale_factor);
    let mut noise = statistics.noise;
    if let Some(factor) = before {
        planes = enlarge(&planes, &Detailer::new(&planes, factor, look, seed, noise, Pass::Intermediate));
        noise = Statistics::from_luma(&planes.luma).noise;
    }

    let look = if before.is_some() { look.for_second_pass() } else { look };
    let pixels = enlarge_to_pixels(&planes, &Detailer::new(&planes, last, look, seed, noise, Pass::Final));

    DecodedPicture { pixels, profile }
}

/// Returns the factors of the successive enlargements.
const fn steps(scale: UpscaleFactor) -> (Option<usize>, usize) {
    match scale {
        UpscaleFactor::X2 => (None, 2),
        UpscaleFactor::X4 => (None, 4),
        UpscaleFactor::X8 => (Some(4), 2),
        UpscaleFactor::X16 => (Some(4), 4),
    }
}

#[cfg(test)]
mod tests {
    use image::imageops::{self, FilterType};
    use image::{RgbImage, Rgba, RgbaImage};

    use super::*;
    use crate::filters::{box_blur, finer_than};
    use crate::job::{PictureKind, UpscaleCharacter};
    use crate::picture::Pixels;
    use crate::plane::{Plane, Region};
    use crate::{resample, test_pictures};

    fn plain_job(scale_factor: UpscaleFactor) -> PictureUpscale {
        PictureUpscale { scale_factor, ..PictureUpscale::default() }
    }

    fn decoded(pixels: Pixels) -> DecodedPicture {
        DecodedPicture { pixels, profile: None }
    }

    fn opaque(pixels: Pixels) -> RgbImage {
        let Pixels::Opaque(pixels) = pixels else { panic!("the picture is opaque") };
        pixels
    }

    fn upscaled_planes(parameters: &PictureUpscale) -> Planes {
        Planes::from_pixels(&upscale(decoded(test_pictures::photo(40)), parameters, 1).pixels)
    }

    /// Returns the standard deviation.
    fn deviation(plane: &Plane) -> f32 {
        let count = plane.values().len() as f32;
        let mean = plane.values().iter().sum::<f32>() / count;
        (plane.values().iter().map(|value| (value - mean).powi(2)).sum::<f32>() / count).sqrt()
    }

    /// Returns the amount of fine detail in an enlarged photograph.
    fn detail_amount(parameters: &PictureUpscale) -> f32 {
        deviation(&finer_than(&upscaled_planes(parameters).luma, 1))
    }

    /// Returns the mean absolute difference.
    fn distance(a: &Plane, b: &Plane) -> f32 {
        let mut difference = a.clone();
        difference.combine(b, |a, b| (a - b).abs());
        difference.values().iter().sum::<f32>() / difference.values().len() as f32
    }

    fn mean(plane: &Plane) -> f32 {
        plane.values().iter().sum::<f32>() / plane.values().len() as f32
    }

    /// Measures the results for -1, 0 and 1 of one parameter.
    fn measure_range(set: impl Fn(&mut PictureUpscale, f32), measure: impl Fn(&PictureUpscale) -> f32) -> [f32; 3] {
        [-1.0, 0.0, 1.0].map(|value| {
            let mut parameters = plain_job(UpscaleFactor::X2);
            set(&mut parameters, value);
            measure(&parameters)
        })
    }

    /// Asserts that each measure is at least 3 % above the one before.
    fn assert_rises(measures: [f32; 3]) {
        let [low, middle, high] = measures;
        assert!(low < 0.97 * middle && middle < 0.97 * high, "{measures:?}");
    }

    fn mean_squared_error(a: &RgbImage, b: &RgbImage) -> f32 {
        let squares: f32 = a.iter().zip(b.iter()).map(|(a, b)| (f32::from(*a) - f32::from(*b)).powi(2)).sum();
        squares / a.len() as f32
    }

    #[test]
    fn by_default_the_result_is_at_least_as_faithful_as_bicubic() {
        for pictures in [
            [test_pictures::photo(128), test_pictures::photo(32)],
            [test_pictures::drawing(128), test_pictures::drawing(32)],
        ] {
            let original = opaque(pictures[0].clone());
            let reduced = imageops::thumbnail(&original, 32, 32);
            let bicubic = imageops::resize(&reduced, 128, 128, FilterType::CatmullRom);
            let upscaled = opaque(upscale(decoded(Pixels::Opaque(reduced)), &plain_job(UpscaleFactor::X4), 1).pixels);
            let upscaled_error = mean_squared_error(&upscaled, &original);
            let bicubic_error = mean_squared_error(&bicubic, &original);
            assert!(upscaled_error <= bicubic_error, "squared error {upscaled_error}, bicubic {bicubic_error}");
        }
    }

    #[test]
    fn every_scale_gives_its_size_and_keeps_the_brightness() {
        let input = test_pictures::photo(10);
        for scale in UpscaleFactor::ALL {
            let (before, last) = steps(*scale);
            let side = (10 * before.unwrap_or(1) * last) as u32;
            let result = upscale(decoded(input.clone()), &plain_job(*scale), 1);
            assert_eq!(result.dimensions(), (side, side));
            let input_brightness = mean(&Planes::from_pixels(&input).luma);
            let brightness = mean(&Planes::from_pixels(&result.pixels).luma);
            assert!((input_brightness - brightness).abs() < 0.01, "{scale:?} {input_brightness} {brightness}");
        }
    }

    #[test]
    fn the_smallest_picture_can_be_enlarged() {
        for (width, height) in [(1, 1), (1, 9), (9, 1)] {
            let input = decoded(Pixels::Opaque(RgbImage::from_pixel(width, height, image::Rgb([200, 100, 50]))));
            let mut parameters = plain_job(UpscaleFactor::X16);
            parameters.creativity = 1.0;
            parameters.fractality = 1.0;
            parameters.hdr = 1.0;
            let result = opaque(upscale(input, &parameters, 1).pixels);
            assert!(result.pixels().all(|pixel| pixel.0.iter().zip([200, 100, 50]).all(|(a, b)| a.abs_diff(b) <= 1)));
        }
    }

    #[test]
    fn the_same_job_gives_the_same_pixels_and_another_seed_does_not() {
        let mut parameters = plain_job(UpscaleFactor::X2);
        parameters.creativity = 1.0;
        let [first, repeated, other_seed] =
            [1, 1, 2].map(|seed| upscale(decoded(test_pictures::photo(40)), &parameters, seed));
        assert_eq!(first, repeated);
        assert_ne!(first, other_seed);
    }

    #[test]
    fn resemblance_brings_the_reduced_result_closer_to_the_input() {
        let input = Planes::from_pixels(&test_pictures::photo(40)).luma;
        let [low, middle, high] = measure_range(
            |parameters, value| parameters.resemblance = value,
            |parameters| distance(&resample::reduce(&upscaled_planes(parameters).luma, 2), &input),
        );
        assert!(high < 0.97 * middle && middle < 0.97 * low, "{low} {middle} {high}");
    }

    #[test]
    fn resemblance_has_a_visible_effect_in_both_directions() {
        // Given default parameters, and some that change the picture a lot
        let styled = PictureUpscale { engine: UpscaleCharacter::Sharpy, hdr: 0.8, ..plain_job(UpscaleFactor::X2) };
        for (base, minimum) in [(plain_job(UpscaleFactor::X2), 0.5), (styled, 2.0)] {
            let luma = |resemblance: f32| upscaled_planes(&PictureUpscale { resemblance, ..base.clone() }).luma;
            // In 1/255
            let change = |resemblance: f32| 255.0 * distance(&luma(resemblance), &luma(0.0));

            // Then each step goes further, and the total range is visible
            let upward = [0.0, 0.3, 0.6, 1.0].map(change);
            assert!(upward.is_sorted_by(|a, b| a + 0.1 * minimum < *b) && upward[3] > minimum, "{upward:?}");
            let downward = [0.0, -0.3, -0.6, -1.0].map(change);
            assert!(downward.is_sorted_by(|a, b| a + 0.1 < *b) && downward[3] > 0.5, "{downward:?}");
        }
    }

    #[test]
    fn creativity_invents_detail() {
        assert_rises(measure_range(|parameters, value| parameters.creativity = value, detail_amount));
    }

    #[test]
    fn creativity_does_not_clip_bright_texture() {
        // Given pale skin with pores: the red channel is nearly full
        let pores = crate::noise::texture(Region { left: 0, top: 0, width: 64, height: 64 }, 1, 2);
        let skin = RgbImage::from_fn(64, 64, |x, y| {
            let pore = 11.0 * pores.row(y as usize)[x as usize];
            image::Rgb([222.0, 186.0, 160.0].map(|part| (part + pore) as u8))
        });
        let clipped = |pixels: &RgbImage| {
            let count = pixels.pixels().filter(|pixel| pixel.0.iter().any(|part| *part >= 254)).count();
            count as f32 / pixels.pixels().len() as f32
        };
        assert!(clipped(&skin) < 0.0005, "{}", clipped(&skin));

        // When it is enlarged with the most creativity
        let job = PictureUpscale { creativity: 1.0, ..plain_job(UpscaleFactor::X4) };
        let result = opaque(upscale(decoded(Pixels::Opaque(skin)), &job, 1).pixels);

        // Then almost no pixel is clipped
        assert!(clipped(&result) < 0.002, "{}", clipped(&result));
    }

    #[test]
    fn fractality_makes_small_scales_intricate() {
        assert_rises(measure_range(|parameters, value| parameters.fractality = value, detail_amount));
    }

    #[test]
    fn hdr_raises_local_contrast() {
        let local_contrast = |parameters: &PictureUpscale| {
            let luma = upscaled_planes(parameters).luma;
            let mut difference = box_blur(&luma, 8);
            difference.combine(&luma, |wide, value| value - wide);
            deviation(&difference)
        };
        assert_rises(measure_range(|parameters, value| parameters.hdr = value, local_contrast));
    }

    #[test]
    fn fractality_is_the_strength_of_the_prompt() {
        let warmth = |fractality: f32, prompt: Option<&str>| {
            let mut parameters = plain_job(UpscaleFactor::X2);
            parameters.fractality = fractality;
            parameters.prompt = prompt.map(str::to_owned);
            mean(&upscaled_planes(&parameters).red)
        };
        let shifts = [-1.0, 0.0, 1.0].map(|fractality| warmth(fractality, Some("warm")) - warmth(fractality, None));
        assert!(shifts[0].abs() < 1e-4 && shifts[0] < shifts[1] && shifts[1] < shifts[2], "{shifts:?}");
    }

    #[test]
    fn any_prompt_adds_a_little_texture_of_its_own() {
        let with_prompt = |fractality: f32, prompt: &str, seed: u32| {
            let prompt = Some(prompt.to_owned());
            Planes::from_pixels(
                &upscale(
                    decoded(test_pictures::photo(40)),
                    &PictureUpscale { fractality, prompt, ..plain_job(UpscaleFactor::X2) },
                    seed,
                )
                .pixels,
            )
            .luma
        };
        // "?" has no words, so it adds no texture.
        let [low, middle, high] = [-1.0, 0.0, 1.0]
            .map(|fractality| distance(&with_prompt(fractality, "a cat", 1), &with_prompt(fractality, "?", 1)));
        assert!(low < 1e-6 && middle > 1e-4 && middle < high && high < 0.02, "{low} {middle} {high}");
        let prompt_difference = distance(&with_prompt(0.0, "a cat", 1), &with_prompt(0.0, "a dog", 2));
        assert!(prompt_difference > 1e-4, "two prompts give the same texture: {prompt_difference}");
        let without_prompt = upscaled_planes(&plain_job(UpscaleFactor::X2)).luma;
        let difference = distance(&with_prompt(0.0, "?", 1), &without_prompt);
        assert!(difference < 1e-6, "a prompt without words has an effect: {difference}");
    }

    #[test]
    fn engines_have_their_characters() {
        let with_engine = |engine| PictureUpscale { engine, ..plain_job(UpscaleFactor::X2) };
        let detail_of = |engine| detail_amount(&with_engine(engine));
        let soft = detail_of(UpscaleCharacter::Illusio);
        let crisp = detail_of(UpscaleCharacter::Sharpy);
        let moderate = detail_of(UpscaleCharacter::Sparkle);
        let automatic = detail_of(UpscaleCharacter::Automatic);
        assert!(soft < automatic && automatic < moderate && moderate < crisp, "{soft} {automatic} {moderate} {crisp}");

        let highlights = |engine| {
            let luma = upscaled_planes(&with_engine(engine)).luma;
            let bright: Vec<f32> = luma.values().iter().copied().filter(|value| *value > 0.6).collect();
            bright.iter().sum::<f32>() / bright.len() as f32
        };
        let sparkle = highlights(UpscaleCharacter::Sparkle);
        let sharpy = highlights(UpscaleCharacter::Sharpy);
        assert!(sparkle > sharpy, "mean of the bright pixels: {sparkle} {sharpy}");
    }

    #[test]
    fn sparkle_is_as_faithful_as_lanczos_and_sharper() {
        for factor in [UpscaleFactor::X2, UpscaleFactor::X4] {
            // Given a photograph of soft colours, reduced
            let (_, times) = steps(factor);
            let side = 32 * times as u32;
            let original = opaque(test_pictures::photo(side));
            let reduced = imageops::thumbnail(&original, 32, 32);
            let lanczos = imageops::resize(&reduced, side, side, FilterType::Lanczos3);
            let detail_of = |picture: &RgbImage| {
                deviation(&finer_than(&Planes::from_pixels(&Pixels::Opaque(picture.clone())).luma, 1))
            };

            // When it is enlarged again
            let job = PictureUpscale { engine: UpscaleCharacter::Sparkle, ..plain_job(factor) };
            let upscaled = opaque(upscale(decoded(Pixels::Opaque(reduced)), &job, 1).pixels);

            // Then it loses at most half a decibel, and is sharper
            let error_of = |picture: &RgbImage| mean_squared_error(picture, &original);
            let loss = 10.0 * (error_of(&upscaled) / error_of(&lanczos)).log10();
            assert!(loss < 0.5, "{factor:?}: {loss} dB");
            let detail = detail_of(&upscaled);
            let lanczos_detail = detail_of(&lanczos);
            assert!(detail > 1.1 * lanczos_detail, "{factor:?}: {detail} {lanczos_detail}");
        }
    }

    #[test]
    fn each_kind_of_picture_has_the_effect_of_its_name() {
        let with_kind = |kind| upscaled_planes(&PictureUpscale { optimized_for: kind, ..plain_job(UpscaleFactor::X2) });
        let detail = |planes: &Planes| deviation(&finer_than(&planes.luma, 1));
        let variants: Vec<Planes> = PictureKind::ALL.iter().map(|kind| with_kind(*kind)).collect();
        for (index, variant) in variants.iter().enumerate() {
            for later in &variants[index + 1..] {
                assert!(distance(&variant.luma, &later.luma) > 1e-3, "two kinds after kind {index} look the same");
            }
        }

        let [standard, soft, hard, art, assets, nature, film, renders, dark] = &variants[..] else {
            panic!("nine kinds")
        };
        // Contrast in parts of the photograph
        let skin = |planes: &Planes| {
            deviation(&finer_than(&planes.luma.window(Region { left: 18, top: 22, width: 12, height: 12 }), 2))
        };
        let ground =
            |planes: &Planes| deviation(&planes.luma.window(Region { left: 0, top: 60, width: 80, height: 20 }));
        let sky = |planes: &Planes| {
            detail(&Planes {
                luma: planes.luma.window(Region { left: 0, top: 0, width: 16, height: 8 }),
                ..Planes::new(1, 1)
            })
        };
        assert!(
            skin(soft) <= skin(standard) && detail(soft) < detail(standard),
            "soft portraits keep too much texture"
        );
        assert!(
            deviation(&hard.luma) > deviation(&standard.luma) && detail(hard) > detail(standard),
            "hard portraits have too little contrast"
        );
        assert!(ground(art) < ground(standard), "art does not smooth the ground");
        assert!(
            sky(assets) <= sky(standard) + 1e-3 && detail(assets) > detail(renders),
            "game assets are not crisp on even areas"
        );
        assert!(
            detail(nature) > detail(standard) && deviation(&nature.red) > deviation(&standard.red),
            "nature has too little detail or colour"
        );
        assert!(sky(film) > sky(standard) + 0.002, "film has no grain");
        assert!(ground(renders) < ground(standard), "renders do not smooth the ground");
        assert!(
            mean(&dark.luma) < mean(&standard.luma) - 0.03 && mean(&dark.red) < mean(&standard.red),
            "dark scenes are too bright"
        );
    }

    #[test]
    fn cut_outs_have_no_fringe() {
        let input =
            RgbaImage::from_fn(16, 16, |x, _| if x < 8 { Rgba([0, 200, 0, 255]) } else { Rgba([255, 0, 255, 0]) });
        for scale in [UpscaleFactor::X4, UpscaleFactor::X8] {
            let result = upscale(decoded(Pixels::Transparent(input.clone())), &plain_job(scale), 1);
            let Pixels::Transparent(pixels) = result.pixels else { panic!("transparency is kept") };
            assert!(
                pixels.pixels().filter(|pixel| pixel.0[3] > 0).all(|pixel| pixel.0[0] < 12 && pixel.0[2] < 12),
                "a hidden colour shows"
            );
            assert!(
                pixels.get_pixel(pixels.width() * 3 / 4, 20).0[3] == 0 && pixels.get_pixel(5, 20).0[3] == 255,
                "the alpha changed"
            );
        }
    }

    #[test]
    fn grey_stays_grey() {
        let grey = |x: u32, y: u32| image::Rgb([(40 + 9 * x + 4 * y) as u8; 3]);
        let result =
            upscale(decoded(Pixels::Opaque(RgbImage::from_fn(12, 12, grey))), &plain_job(UpscaleFactor::X2), 1);
        assert!(opaque(result.pixels).pixels().all(|pixel| pixel.0[0] == pixel.0[1] && pixel.0[1] == pixel.0[2]));
    }
}
