//! Tests that each parameter acts in the direction of its name, on a drawn portrait in front of a wall.

use image::{Rgb, RgbImage, Rgba, RgbaImage};

use super::*;
use crate::colour::Planes;
use crate::filters::{finer_than, smooth};
use crate::job::{LightAdjustments, LightCharacter, LightCurve, LightTransfer, RelightAlgorithm};
use crate::picture::Pixels;
use crate::plane::Region;
use crate::{noise, test_pictures};

const SIDE: u32 = 128;
const FACE: Region = Region { left: 48, top: 40, width: 32, height: 40 };
const LEFT: Region = Region { left: 2, top: 20, width: 20, height: 80 };
const RIGHT: Region = Region { left: 106, top: 20, width: 20, height: 80 };

/// Returns a face in front of an even wall with some texture, and small letters below.
fn portrait() -> DecodedPicture {
    let texture = noise::texture(Region { left: 0, top: 0, width: SIDE as usize, height: SIDE as usize }, 1, 4);
    let pixels = RgbImage::from_fn(SIDE, SIDE, |x, y| {
        let u = x as f32 / SIDE as f32 - 0.5;
        let v = y as f32 / SIDE as f32 - 0.47;
        let rough = 0.02 * texture.row(y as usize)[x as usize];
        let mut colour = [0.36, 0.42, 0.5];
        if (u / 0.24).hypot(v / 0.33) < 1.0 {
            colour = [0.78, 0.58, 0.47];
        }
        if y > 112 && x % 4 < 2 && y % 6 < 3 {
            colour = [0.2, 0.22, 0.25];
        }
        Rgb(colour.map(|part| ((part + rough).clamp(0.0, 1.0) * 255.0) as u8))
    });
    DecodedPicture { pixels: Pixels::Opaque(pixels), profile: Some(vec![3]) }
}

fn draw_picture(colour_at: impl Fn(f32, f32) -> [f32; 3]) -> DecodedPicture {
    let byte = |part: f32| (part.clamp(0.0, 1.0) * 255.0) as u8;
    let pixels = RgbImage::from_fn(64, 64, |x, y| Rgb(colour_at(x as f32 / 63.0, y as f32 / 63.0).map(byte)));
    DecodedPicture { pixels: Pixels::Opaque(pixels), profile: None }
}

/// Returns a light map that is lit on the left and dark on the right.
fn left_lit_map() -> DecodedPicture {
    draw_picture(|u, _| [1.0 - u; 3])
}

/// Returns a dark orange evening with a light on the right.
fn evening() -> DecodedPicture {
    draw_picture(|u, v| [0.15 + 0.6 * u, 0.08 + 0.3 * u * v, 0.03 + 0.05 * v])
}

/// Returns a job with a light map as its source.
fn with_light_map() -> PictureRelight {
    PictureRelight { source: LightOrigin::Lightmap, ..PictureRelight::default() }
}

fn with_prompt(text: &str) -> PictureRelight {
    PictureRelight { prompt: Some(text.to_owned()), ..PictureRelight::default() }
}

fn relit_by(source: &DecodedPicture, job: &PictureRelight) -> Planes {
    Planes::from_pixels(&relight(portrait(), Some(source), job, 1).pixels)
}

fn relit_by_map(job: &PictureRelight) -> Planes {
    relit_by(&left_lit_map(), job)
}

fn relit_by_prompt(text: &str) -> Planes {
    Planes::from_pixels(&relight(portrait(), None, &with_prompt(text), 1).pixels)
}

fn original_planes() -> Planes {
    Planes::from_pixels(&portrait().pixels)
}

fn with_adjustments(change: impl Fn(&mut LightAdjustments)) -> PictureRelight {
    let mut job = with_light_map();
    change(&mut job.advanced);
    job
}

fn mean_in(plane: &Plane, region: Region) -> f32 {
    let part = plane.window(region);
    part.values().iter().sum::<f32>() / part.values().len() as f32
}

fn deviation(plane: &Plane) -> f32 {
    let mean = mean_in(plane, Region::covering(plane));
    (plane.values().iter().map(|value| (value - mean).powi(2)).sum::<f32>() / plane.values().len() as f32).sqrt()
}

fn mean_value(plane: &Plane) -> f32 {
    mean_in(plane, Region::covering(plane))
}

/// Returns the difference between the mean red and the mean blue.
fn warmth(planes: &Planes) -> f32 {
    mean_value(&planes.red) - mean_value(&planes.blue)
}

fn distance(one: &Planes, other: &Planes) -> f32 {
    let plane_distance = |one: &Plane, other: &Plane| {
        let mut difference = one.clone();
        difference.combine(other, |a, b| (a - b).abs());
        mean_value(&difference)
    };
    plane_distance(&one.luma, &other.luma)
        + plane_distance(&one.blue, &other.blue)
        + plane_distance(&one.red, &other.red)
}

/// Returns the standard deviation of the finest detail.
fn fine_detail(planes: &Planes) -> f32 {
    deviation(&finer_than(&planes.luma, 1))
}

/// Returns the difference in brightness between the left and the right of the wall.
fn left_minus_right(planes: &Planes) -> f32 {
    mean_in(&planes.luma, LEFT) - mean_in(&planes.luma, RIGHT)
}

fn assert_all_differ(variants: &[Planes]) {
    for (index, left) in variants.iter().enumerate() {
        for (later_index, right) in variants.iter().enumerate().skip(index + 1) {
            let difference = distance(left, right);
            assert!(difference > 2e-3, "variants {index} and {later_index} differ only by {difference}");
        }
    }
}

#[test]
fn a_light_map_sets_brightness_and_colour() {
    let before = original_planes();
    let after = relit_by_map(&with_light_map());
    assert!(mean_in(&after.luma, LEFT) > mean_in(&before.luma, LEFT) + 0.05, "the lit side is not brighter");
    assert!(mean_in(&after.luma, RIGHT) < mean_in(&before.luma, RIGHT) - 0.15, "the unlit side is not darker");
    let blue = relit_by(&draw_picture(|_, _| [0.3, 0.4, 1.0]), &with_light_map());
    assert!(mean_in(&blue.blue, FACE) > mean_in(&before.blue, FACE) + 0.05, "the light of a blue map is not blue");
}

#[test]
fn the_light_of_a_reference_is_transferred() {
    let job = PictureRelight { source: LightOrigin::Reference, ..PictureRelight::default() };
    let before = original_planes();
    let after = relit_by(&evening(), &job);
    assert!(
        mean_value(&after.luma) < mean_value(&before.luma) - 0.05
            && left_minus_right(&after) < left_minus_right(&before) - 0.03,
        "the light does not come from the right like that of the reference"
    );
    assert!(
        mean_value(&after.red) > mean_value(&before.red) + 0.03
            && mean_value(&after.blue) < mean_value(&before.blue) - 0.02,
        "the light is not orange like that of the reference"
    );
}

#[test]
fn prompt_words_set_direction_and_character_of_the_light() {
    let by_default = relit_by_prompt("a portrait");

    assert!(
        left_minus_right(&relit_by_prompt("light from the left")) > 0.05
            && left_minus_right(&relit_by_prompt("light from the right")) < -0.05,
        "the prompt does not set the direction"
    );
    assert!(
        mean_value(&relit_by_prompt("dark night").luma) < mean_value(&by_default.luma) - 0.1,
        "\"dark\" does not darken"
    );
    assert!(
        mean_value(&relit_by_prompt("bright").luma) > mean_value(&by_default.luma) + 0.05,
        "\"bright\" does not brighten"
    );
    assert!(warmth(&relit_by_prompt("golden sunset")) > warmth(&by_default) + 0.03, "\"golden\" is not warm");
    assert!(warmth(&relit_by_prompt("cold")) < warmth(&by_default) - 0.03, "\"cold\" is not cold");
    let behind = relit_by_prompt("from behind");
    assert!(
        mean_in(&behind.luma, FACE) - mean_in(&behind.luma, LEFT)
            < mean_in(&by_default.luma, FACE) - mean_in(&by_default.luma, LEFT),
        "light from behind does not shade the face"
    );
}

#[test]
fn a_prompt_has_an_effect_in_addition_to_a_map() {
    let warm = PictureRelight { prompt: with_prompt("warm").prompt, ..with_light_map() };
    assert!(
        warmth(&relit_by_map(&warm)) > warmth(&relit_by_map(&with_light_map())) + 0.01,
        "\"warm\" has no effect with a map"
    );
    let without_light = PictureRelight { prompt: with_prompt("a cat").prompt, ..with_light_map() };
    assert!(
        distance(&relit_by_map(&without_light), &relit_by_map(&with_light_map())) < 1e-6,
        "a prompt without light words has an effect"
    );
}

#[test]
fn the_seed_chooses_the_direction_if_the_prompt_does_not() {
    let relight_with = |seed: u32| relight(portrait(), None, &PictureRelight::default(), seed);
    assert!(relight_with(1) == relight_with(1));
    assert!((2..6).any(|seed| relight_with(seed) != relight_with(1)));
    let map = left_lit_map();
    let [first, second] = [1, 2].map(|seed| relight(portrait(), Some(&map), &with_light_map(), seed));
    assert_eq!(first, second);
}

#[test]
fn strength_scales_the_effect_from_none_to_full() {
    let change = [0.0, 0.5, 1.0].map(|strength| {
        let job = PictureRelight { light_transfer_strength: strength, ..with_light_map() };
        distance(&relit_by_map(&job), &original_planes())
    });
    assert!(change[0] < 2e-3 && change[0] < 0.5 * change[1] && change[1] < 0.8 * change[2], "{change:?}");
}

#[test]
fn interpolation_halves_the_change() {
    let job = PictureRelight { interpolate_from_original: true, ..with_light_map() };
    let near = distance(&relit_by_map(&job), &original_planes());
    let far = distance(&relit_by_map(&with_light_map()), &original_planes());
    assert!(near < 0.6 * far && near > 0.2 * far, "{near} {far}");
}

#[test]
fn the_background_is_relit_only_if_requested() {
    let job = PictureRelight { change_background: false, ..with_light_map() };
    let before = original_planes();
    let only_face = relit_by_map(&job);
    let everywhere = relit_by_map(&with_light_map());
    let change = |planes: &Planes, region| (mean_in(&planes.luma, region) - mean_in(&before.luma, region)).abs();
    assert!(change(&only_face, RIGHT) < 0.25 * change(&everywhere, RIGHT), "the background is relit");
    assert!(change(&only_face, FACE) > 0.5 * change(&everywhere, FACE), "the face is not relit");
}

#[test]
fn details_are_preserved_or_dissolved() {
    let with_preserved =
        |preserve_details| fine_detail(&relit_by_map(&PictureRelight { preserve_details, ..with_light_map() }));
    let preserved = with_preserved(true);
    let dissolved = with_preserved(false);
    assert!(
        preserved > 1.2 * dissolved && preserved > 0.9 * fine_detail(&original_planes()),
        "{preserved} {dissolved}"
    );
}

#[test]
fn styles_have_their_characters() {
    let with_style = |style| relit_by_map(&PictureRelight { style, ..with_light_map() });
    let variants: Vec<Planes> = LightCharacter::ALL.iter().map(|style| with_style(*style)).collect();
    assert_all_differ(&variants);

    let [standard, darker, clean, soft, brighter, hdr, composition] = &variants[..] else { panic!("seven styles") };
    assert!(mean_value(&darker.luma) < mean_value(&standard.luma) - 0.05, "darker is not darker");
    assert!(
        mean_value(&brighter.luma) > mean_value(&standard.luma) + 0.05
            && mean_value(&clean.luma) > mean_value(&standard.luma),
        "brighter or clean is too dark"
    );
    assert!(
        left_minus_right(soft) < left_minus_right(standard) && deviation(&hdr.luma) > deviation(&standard.luma),
        "soft or HDR has the wrong contrast"
    );
    assert!(mean_in(&clean.blue, LEFT) < 0.8 * mean_in(&standard.blue, LEFT), "clean has too much colour");

    let colours = |planes: &Planes| {
        let mut change = planes.red.clone();
        change.combine(&original_planes().red, |after, before| (after - before).abs());
        mean_value(&change)
    };
    assert!(
        colours(composition) < 2e-3 && colours(standard) > 5e-3,
        "composition changes colours, or the standard does not"
    );
    assert!(
        (mean_value(&composition.luma) - mean_value(&standard.luma)).abs() < 0.02,
        "composition has another brightness"
    );
}

#[test]
fn engines_have_their_characters() {
    let with_engine = |engine| relit_by_map(&with_adjustments(|settings| settings.engine = engine));
    let variants: Vec<Planes> = RelightAlgorithm::ALL.iter().map(|engine| with_engine(*engine)).collect();
    assert_all_differ(&variants);

    let [_, balanced, cool, real, illusio, fairy, anime, hard, softy] = &variants[..] else { panic!("nine engines") };
    assert!(
        mean_value(&cool.blue) > mean_value(&balanced.blue) && deviation(&real.luma) > deviation(&balanced.luma),
        "cool is not blue, or real has too little contrast"
    );
    assert!(deviation(&anime.red) > 1.2 * deviation(&balanced.red), "anime has too little colour");
    assert!(
        left_minus_right(hard) > left_minus_right(balanced) && left_minus_right(softy) < left_minus_right(balanced),
        "hard or softy has the wrong contrast"
    );
    assert!(mean_value(&fairy.luma) > mean_value(&balanced.luma), "fairy is not bright");
    let coarse = |planes: &Planes| deviation(&smooth(&planes.luma, 2));
    assert!((coarse(illusio) - coarse(balanced)).abs() < 0.05, "illusio has another coarse contrast");
}

#[test]
fn light_transfer_has_levels_and_is_strongest_on_faces() {
    let with_transfer = |transfer| relit_by_map(&with_adjustments(|settings| settings.transfer_light_a = transfer));
    let variants: Vec<Planes> = LightTransfer::ALL.iter().map(|transfer| with_transfer(*transfer)).collect();
    assert_all_differ(&variants);

    let [automatic, low, medium, normal, high, on_faces] = &variants[..] else { panic!("six levels") };
    let change = |planes: &Planes| distance(planes, &original_planes());
    assert!(
        change(low) < change(medium) && change(medium) < change(normal) && change(normal) < change(high),
        "the levels do not rise"
    );
    assert!(change(low) < change(automatic) && change(automatic) < change(high), "automatic is not between the levels");
    assert!(
        (mean_in(&on_faces.luma, LEFT) - mean_in(&normal.luma, LEFT)).abs() < 5e-3,
        "the background is lit in another way"
    );

    let on_face = |planes: &Planes| {
        let side = |left| mean_in(&planes.luma, Region { left, width: 8, ..FACE });
        side(44) - side(76)
    };
    assert!(on_face(on_faces) > 1.2 * on_face(normal), "{} {}", on_face(on_faces), on_face(normal));
}

/// Relights a wedge from black to white evenly. Returns by how much a dark, a middle and a bright tone change, as the
/// absolute logarithm of the ratio.
fn relight_wedge(curve: LightCurve) -> [f32; 3] {
    let pixels = RgbImage::from_fn(96, 24, |x, _| Rgb([(x * 255 / 95) as u8; 3]));
    let input = DecodedPicture { pixels: Pixels::Opaque(pixels), profile: None };
    let job = with_adjustments(|settings| {
        settings.transfer_light_b = curve;
        settings.transfer_light_a = LightTransfer::Normal;
        settings.engine = RelightAlgorithm::Balanced;
    });
    let before = Planes::from_pixels(&input.pixels).luma;
    let after = Planes::from_pixels(&relight(input, Some(&draw_picture(|_, _| [0.15; 3])), &job, 1).pixels).luma;
    // On a linear scale, the midtones would always change most.
    [12, 48, 80].map(|x| (after.row(12)[x] / before.row(12)[x]).ln().abs())
}

#[test]
fn transfer_curves_are_ordered_from_dark_to_bright() {
    let straight = relight_wedge(LightCurve::Straight);
    let relative = |curve| {
        let [dark, middle, bright] = relight_wedge(curve);
        [dark / straight[0], middle / straight[1], bright / straight[2]]
    };
    let [dark, middle, bright] = relative(LightCurve::SmoothIn);
    assert!(dark < 0.5 && middle > 0.7 && bright > 0.9, "{dark} {middle} {bright}");

    let [dark, middle, bright] = relative(LightCurve::SmoothOut);
    assert!(dark > 0.9 && middle > 0.7 && bright < 0.5, "{dark} {middle} {bright}");

    let [dark, middle, bright] = relative(LightCurve::SmoothBoth);
    assert!(dark < 0.5 && middle > 0.7 && bright < 0.5, "{dark} {middle} {bright}");

    let [dark, middle, bright] = relative(LightCurve::ReverseBoth);
    assert!(dark > 0.7 && middle < 0.4 && bright > 0.5, "{dark} {middle} {bright}");

    // Soft variants act in the same direction, but less.
    for (smooth, soft, end) in
        [(LightCurve::SmoothIn, LightCurve::SoftIn, 0), (LightCurve::SmoothOut, LightCurve::SoftOut, 2)]
    {
        let smooth = relative(smooth)[end];
        let soft = relative(soft)[end];
        assert!(smooth < soft && soft < 0.9, "{smooth} {soft}");
    }
    assert!(
        relative(LightCurve::SoftMid)[1] < 0.8 && relative(LightCurve::StrongMid)[1] > 1.2,
        "a curve for midtones has no effect"
    );
    assert!(
        relative(LightCurve::StyleShift)[1] < 0.8 && relative(LightCurve::StrongShift)[1] > 1.2,
        "a shift has no effect on midtones"
    );

    let automatic = relative(LightCurve::Automatic);
    assert!(automatic[0] < 0.97 && automatic[1] > automatic[0], "{automatic:?}");
}

#[test]
fn composition_is_wide_and_shifts_change_colour() {
    let coloured = draw_picture(|u, _| [1.0 - u, 0.8 * (1.0 - u), 0.3 * (1.0 - u)]);
    let with_curve = |curve| relit_by(&coloured, &with_adjustments(|settings| settings.transfer_light_b = curve));
    let straight = with_curve(LightCurve::Straight);
    let bars = draw_picture(|u, _| if ((u * 8.0) as u32).is_multiple_of(2) { [0.3; 3] } else { [1.0; 3] });
    let stripes = |curve| {
        let lit = relit_by(&bars, &with_adjustments(|settings| settings.transfer_light_b = curve));
        deviation(&lit.luma.window(Region { left: 0, top: 4, width: 128, height: 12 }))
    };
    assert!(
        stripes(LightCurve::Composition) < 0.7 * stripes(LightCurve::Straight),
        "narrow bars of light are not smoothed"
    );

    for shift in [LightCurve::StyleShift, LightCurve::StrongShift] {
        assert!(
            mean_in(&with_curve(shift).blue, LEFT) < mean_in(&straight.blue, LEFT) - 0.02,
            "{shift:?} does not change the colour"
        );
    }
}

#[test]
fn fine_adjustments_have_the_effect_of_their_names() {
    let with_setting = |set: fn(&mut LightAdjustments, f32)| {
        [0.0, 0.5, 1.0].map(|share| relit_by_map(&with_adjustments(|settings| set(settings, share))))
    };
    let assert_rising = |measures: [f32; 3]| {
        assert!(measures[0] < measures[1] && measures[1] < measures[2], "{measures:?}");
    };
    // Nearly the darkest and the brightest tone: 2 and 98 percent of the samples are darker.
    let extremes = |planes: &Planes| {
        let mut values = planes.luma.values().to_vec();
        values.sort_by(f32::total_cmp);
        [values[values.len() / 50], values[values.len() * 49 / 50]]
    };
    let whites = with_setting(|settings, share| settings.whites = share);
    assert_rising(whites.each_ref().map(|planes| extremes(planes)[1]));
    let blacks = with_setting(|settings, share| settings.blacks = share);
    assert_rising(blacks.each_ref().map(|planes| -extremes(planes)[0]));
    let brightness = with_setting(|settings, share| settings.brightness = share);
    assert_rising(brightness.each_ref().map(|planes| mean_value(&planes.luma)));
    let contrast = with_setting(|settings, share| settings.contrast = share);
    assert_rising(contrast.each_ref().map(|planes| deviation(&planes.luma)));
    let saturation = with_setting(|settings, share| settings.saturation = share);
    assert_rising(saturation.each_ref().map(|planes| deviation(&planes.red)));
    assert!(deviation(&saturation[0].red) < 1e-2, "no saturation leaves no colour");
}

#[test]
fn alpha_profile_and_size_are_kept_for_any_picture() {
    assert_eq!(relight(portrait(), None, &PictureRelight::default(), 1).profile, Some(vec![3]));

    let cut = RgbaImage::from_fn(30, 20, |x, y| Rgba([90, 80, 70, (x * 8 + y) as u8]));
    let input = DecodedPicture { pixels: Pixels::Transparent(cut.clone()), profile: None };
    let Pixels::Transparent(after) = relight(input, Some(&left_lit_map()), &with_light_map(), 1).pixels else {
        panic!("transparency is kept")
    };
    assert!(after.pixels().zip(cut.pixels()).all(|(after, before)| after.0[3] == before.0[3]));

    let all_options =
        PictureRelight { style: LightCharacter::ContrastedNHdr, ..with_prompt("neon spotlight from behind, left") };
    for (width, height) in [(1, 1), (1, 40), (900, 2)] {
        let input = DecodedPicture { pixels: Pixels::Opaque(RgbImage::new(width, height)), profile: None };
        let single_pixel = DecodedPicture { pixels: Pixels::Opaque(RgbImage::new(1, 1)), profile: None };
        for job in [
            with_light_map(),
            PictureRelight { source: LightOrigin::Reference, ..all_options.clone() },
            all_options.clone(),
        ] {
            assert_eq!(relight(input.clone(), Some(&single_pixel), &job, 1).dimensions(), (width, height));
        }
    }

    let drawing = DecodedPicture { pixels: test_pictures::drawing(48), profile: None };
    assert_ne!(relight(drawing.clone(), None, &PictureRelight::default(), 1), drawing);
}
