//! Tests that each parameter acts in the direction of its name, on a drawn portrait in front of a wall.

use image::{Rgb, RgbImage, Rgba, RgbaImage};

use super::*;
use crate::colour::Planes;
use crate::filters::{finer_than, smooth};
use crate::job::{LightAdjustments, LightCharacter, LightCurve, LightTransfer, RelightAlgorithm};
use crate::picture::Pixels;
use crate::plane::Region;
use crate::{noise, sample};

const SIDE: u32 = 128;
const FACE: Region = Region { left: 48, top: 40, width: 32, height: 40 };
const LEFT: Region = Region { left: 2, top: 20, width: 20, height: 80 };
const RIGHT: Region = Region { left: 106, top: 20, width: 20, height: 80 };

/// Face in front of an even wall with some texture, and small letters below.
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

fn drawn(of: impl Fn(f32, f32) -> [f32; 3]) -> DecodedPicture {
    let byte = |part: f32| (part.clamp(0.0, 1.0) * 255.0) as u8;
    let pixels = RgbImage::from_fn(64, 64, |x, y| Rgb(of(x as f32 / 63.0, y as f32 / 63.0).map(byte)));
    DecodedPicture { pixels: Pixels::Opaque(pixels), profile: None }
}

/// Light map that is lit on the left and dark on the right.
fn map() -> DecodedPicture {
    drawn(|u, _| [1.0 - u; 3])
}

/// Dark orange evening with a light on the right.
fn evening() -> DecodedPicture {
    drawn(|u, v| [0.15 + 0.6 * u, 0.08 + 0.3 * u * v, 0.03 + 0.05 * v])
}

fn mapped() -> PictureRelight {
    PictureRelight { source: LightOrigin::Lightmap, ..PictureRelight::default() }
}

fn prompt(text: &str) -> PictureRelight {
    PictureRelight { prompt: Some(text.to_owned()), ..PictureRelight::default() }
}

fn lit_by(source: &DecodedPicture, job: &PictureRelight) -> Planes {
    Planes::of(&relight(portrait(), Some(source), job, 1).pixels)
}

fn by_map(job: &PictureRelight) -> Planes {
    lit_by(&map(), job)
}

fn by_words(text: &str) -> Planes {
    Planes::of(&relight(portrait(), None, &prompt(text), 1).pixels)
}

fn original() -> Planes {
    Planes::of(&portrait().pixels)
}

fn with(change: impl Fn(&mut LightAdjustments)) -> PictureRelight {
    let mut job = mapped();
    change(&mut job.advanced);
    job
}

fn mean(plane: &Plane, region: Region) -> f32 {
    let part = plane.window(region);
    part.values().iter().sum::<f32>() / part.values().len() as f32
}

fn deviation(plane: &Plane) -> f32 {
    let mean = mean(plane, Region::whole(plane));
    (plane.values().iter().map(|value| (value - mean).powi(2)).sum::<f32>() / plane.values().len() as f32).sqrt()
}

fn whole(plane: &Plane) -> f32 {
    mean(plane, Region::whole(plane))
}

/// Difference of red and blue.
fn warmth(planes: &Planes) -> f32 {
    whole(&planes.red) - whole(&planes.blue)
}

fn distance(one: &Planes, other: &Planes) -> f32 {
    let of = |one: &Plane, other: &Plane| {
        let mut difference = one.clone();
        difference.combine(other, |one, other| (one - other).abs());
        whole(&difference)
    };
    of(&one.luma, &other.luma) + of(&one.blue, &other.blue) + of(&one.red, &other.red)
}

fn fine(planes: &Planes) -> f32 {
    deviation(&finer_than(&planes.luma, 1))
}

/// Difference of brightness between left and right.
fn sides(planes: &Planes) -> f32 {
    mean(&planes.luma, LEFT) - mean(&planes.luma, RIGHT)
}

fn assert_all_differ(all: &[Planes]) {
    for (at, one) in all.iter().enumerate() {
        for (beside, other) in all.iter().enumerate().skip(at + 1) {
            let difference = distance(one, other);
            assert!(difference > 2e-3, "{at} and {beside}: {difference}");
        }
    }
}

#[test]
fn white_of_a_map_is_lit_and_black_is_not_and_its_colour_is_that_of_the_light() {
    let before = original();
    let after = by_map(&mapped());
    assert!(mean(&after.luma, LEFT) > mean(&before.luma, LEFT) + 0.05);
    assert!(mean(&after.luma, RIGHT) < mean(&before.luma, RIGHT) - 0.15);
    let blue = lit_by(&drawn(|_, _| [0.3, 0.4, 1.0]), &mapped());
    assert!(mean(&blue.blue, FACE) > mean(&before.blue, FACE) + 0.05);
}

#[test]
fn the_light_of_a_reference_is_taken_over() {
    let job = PictureRelight { source: LightOrigin::Reference, ..PictureRelight::default() };
    let before = original();
    let after = lit_by(&evening(), &job);
    assert!(whole(&after.luma) < whole(&before.luma) - 0.05 && sides(&after) < sides(&before) - 0.03);
    assert!(whole(&after.red) > whole(&before.red) + 0.03 && whole(&after.blue) < whole(&before.blue) - 0.02);
}

#[test]
fn words_say_where_light_comes_from_and_what_it_is_like() {
    let plain = by_words("a portrait");
    assert!(sides(&by_words("light from the left")) > 0.05 && sides(&by_words("light from the right")) < -0.05);
    assert!(whole(&by_words("dark night").luma) < whole(&plain.luma) - 0.1);
    assert!(whole(&by_words("bright").luma) > whole(&plain.luma) + 0.05);
    assert!(warmth(&by_words("golden sunset")) > warmth(&plain) + 0.03);
    assert!(warmth(&by_words("cold")) < warmth(&plain) - 0.03);
    let behind = by_words("from behind");
    assert!(mean(&behind.luma, FACE) - mean(&behind.luma, LEFT) < mean(&plain.luma, FACE) - mean(&plain.luma, LEFT));
}

#[test]
fn a_prompt_counts_beside_a_map_too() {
    let warm = PictureRelight { prompt: prompt("warm").prompt, ..mapped() };
    assert!(warmth(&by_map(&warm)) > warmth(&by_map(&mapped())) + 0.01);
    let nothing = PictureRelight { prompt: prompt("a cat").prompt, ..mapped() };
    assert!(distance(&by_map(&nothing), &by_map(&mapped())) < 1e-6);
}

#[test]
fn the_seed_chooses_where_light_comes_from_if_nobody_says() {
    let of = |seed: u32| relight(portrait(), None, &PictureRelight::default(), seed);
    assert!(of(1) == of(1) && (2..6).any(|seed| of(seed) != of(1)));
    let map = map();
    let [one, two] = [1, 2].map(|seed| relight(portrait(), Some(&map), &mapped(), seed));
    assert_eq!(one, two);
}

#[test]
fn strength_goes_from_nothing_to_all() {
    let change = [0.0, 0.5, 1.0].map(|strength| {
        let job = PictureRelight { light_transfer_strength: strength, ..mapped() };
        distance(&by_map(&job), &original())
    });
    assert!(change[0] < 2e-3 && change[0] < 0.5 * change[1] && change[1] < 0.8 * change[2], "{change:?}");
}

#[test]
fn interpolation_keeps_near_the_original() {
    let job = PictureRelight { interpolate_from_original: true, ..mapped() };
    let near = distance(&by_map(&job), &original());
    let far = distance(&by_map(&mapped()), &original());
    assert!(near < 0.6 * far && near > 0.2 * far, "{near} {far}");
}

#[test]
fn the_background_is_lit_only_if_it_is_to_change() {
    let job = PictureRelight { change_background: false, ..mapped() };
    let before = original();
    let only_face = by_map(&job);
    let all = by_map(&mapped());
    let change = |planes: &Planes, region| (mean(&planes.luma, region) - mean(&before.luma, region)).abs();
    assert!(change(&only_face, RIGHT) < 0.25 * change(&all, RIGHT));
    assert!(change(&only_face, FACE) > 0.5 * change(&all, FACE));
}

#[test]
fn details_are_preserved_or_dissolved() {
    let of = |preserve_details| fine(&by_map(&PictureRelight { preserve_details, ..mapped() }));
    let kept = of(true);
    let dissolved = of(false);
    assert!(kept > 1.2 * dissolved && kept > 0.9 * fine(&original()), "{kept} {dissolved}");
}

#[test]
fn styles_have_their_characters() {
    let of = |style| by_map(&PictureRelight { style, ..mapped() });
    let all: Vec<Planes> = LightCharacter::ALL.iter().map(|style| of(*style)).collect();
    assert_all_differ(&all);
    let [standard, darker, clean, soft, brighter, hdr, composition] = &all[..] else { panic!("seven styles") };
    assert!(whole(&darker.luma) < whole(&standard.luma) - 0.05);
    assert!(whole(&brighter.luma) > whole(&standard.luma) + 0.05 && whole(&clean.luma) > whole(&standard.luma));
    assert!(sides(soft) < sides(standard) && deviation(&hdr.luma) > deviation(&standard.luma));
    assert!(mean(&clean.blue, LEFT) < 0.8 * mean(&standard.blue, LEFT));
    let colours = |planes: &Planes| {
        let mut change = planes.red.clone();
        change.combine(&original().red, |after, before| (after - before).abs());
        whole(&change)
    };
    assert!(colours(composition) < 2e-3 && colours(standard) > 5e-3);
    assert!((whole(&composition.luma) - whole(&standard.luma)).abs() < 0.02);
}

#[test]
fn engines_have_their_characters() {
    let of = |engine| by_map(&with(|settings| settings.engine = engine));
    let all: Vec<Planes> = RelightAlgorithm::ALL.iter().map(|engine| of(*engine)).collect();
    assert_all_differ(&all);
    let [_, balanced, cool, real, illusio, fairy, anime, hard, softy] = &all[..] else { panic!("nine engines") };
    assert!(whole(&cool.blue) > whole(&balanced.blue) && deviation(&real.luma) > deviation(&balanced.luma));
    assert!(deviation(&anime.red) > 1.2 * deviation(&balanced.red));
    assert!(sides(hard) > sides(balanced) && sides(softy) < sides(balanced));
    assert!(whole(&fairy.luma) > whole(&balanced.luma));
    let coarse = |planes: &Planes| deviation(&smooth(&planes.luma, 2));
    assert!((coarse(illusio) - coarse(balanced)).abs() < 0.05);
}

#[test]
fn light_is_carried_over_more_or_less_and_most_on_faces() {
    let of = |place| by_map(&with(|settings| settings.transfer_light_a = place));
    let all: Vec<Planes> = LightTransfer::ALL.iter().map(|place| of(*place)).collect();
    assert_all_differ(&all);
    let [automatic, low, medium, normal, high, on_faces] = &all[..] else { panic!("six") };
    let change = |planes: &Planes| distance(planes, &original());
    assert!(change(low) < change(medium) && change(medium) < change(normal) && change(normal) < change(high));
    assert!(change(low) < change(automatic) && change(automatic) < change(high));
    assert!((mean(&on_faces.luma, LEFT) - mean(&normal.luma, LEFT)).abs() < 5e-3);
    let on_face = |planes: &Planes| {
        let side = |left| mean(&planes.luma, Region { left, width: 8, ..FACE });
        side(44) - side(76)
    };
    assert!(on_face(on_faces) > 1.2 * on_face(normal), "{} {}", on_face(on_faces), on_face(normal));
}

/// Wedge from black to white under a light that doubles everything.
fn wedge(course: LightCurve) -> [f32; 3] {
    let pixels = RgbImage::from_fn(96, 24, |x, _| Rgb([(x * 255 / 95) as u8; 3]));
    let input = DecodedPicture { pixels: Pixels::Opaque(pixels), profile: None };
    let job = with(|settings| {
        settings.transfer_light_b = course;
        settings.transfer_light_a = LightTransfer::Normal;
        settings.engine = RelightAlgorithm::Balanced;
    });
    let before = Planes::of(&input.pixels).luma;
    let after = Planes::of(&relight(input, Some(&drawn(|_, _| [0.15; 3])), &job, 1).pixels).luma;
    // Measured in stops; otherwise the midtones would always change most.
    [12, 48, 80].map(|x| (after.row(12)[x] / before.row(12)[x]).ln().abs())
}

#[test]
fn the_course_of_the_transfer_goes_from_dark_to_bright_as_it_is_called() {
    let of = wedge;
    let straight = of(LightCurve::Straight);
    let relative = |course| {
        let [dark, middle, bright] = of(course);
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
    assert!(relative(LightCurve::SoftMid)[1] < 0.8 && relative(LightCurve::StrongMid)[1] > 1.2);
    assert!(relative(LightCurve::StyleShift)[1] < 0.8 && relative(LightCurve::StrongShift)[1] > 1.2);
    let automatic = relative(LightCurve::Automatic);
    assert!(automatic[0] < 0.97 && automatic[1] > automatic[0], "{automatic:?}");
}

#[test]
fn composition_is_wide_and_shifts_change_colour() {
    let coloured = drawn(|u, _| [1.0 - u, 0.8 * (1.0 - u), 0.3 * (1.0 - u)]);
    let of = |course| lit_by(&coloured, &with(|settings| settings.transfer_light_b = course));
    let straight = of(LightCurve::Straight);
    let bars = drawn(|u, _| if ((u * 8.0) as u32).is_multiple_of(2) { [0.3; 3] } else { [1.0; 3] });
    let stripes = |course| {
        let lit = lit_by(&bars, &with(|settings| settings.transfer_light_b = course));
        deviation(&lit.luma.window(Region { left: 0, top: 4, width: 128, height: 12 }))
    };
    assert!(stripes(LightCurve::Composition) < 0.7 * stripes(LightCurve::Straight));
    for shift in [LightCurve::StyleShift, LightCurve::StrongShift] {
        assert!(mean(&of(shift).blue, LEFT) < mean(&straight.blue, LEFT) - 0.02);
    }
}

#[test]
fn fine_adjustments_go_the_way_they_are_called() {
    let of = |set: fn(&mut LightAdjustments, f32)| {
        [0.0, 0.5, 1.0].map(|share| by_map(&with(|settings| set(settings, share))))
    };
    let rises = |measures: [f32; 3]| assert!(measures[0] < measures[1] && measures[1] < measures[2], "{measures:?}");
    let ends = |planes: &Planes| {
        let mut values = planes.luma.values().to_vec();
        values.sort_by(f32::total_cmp);
        [values[values.len() / 50], values[values.len() * 49 / 50]]
    };
    rises(of(|settings, share| settings.whites = share).each_ref().map(|planes| ends(planes)[1]));
    rises(of(|settings, share| settings.blacks = share).each_ref().map(|planes| -ends(planes)[0]));
    rises(of(|settings, share| settings.brightness = share).each_ref().map(|planes| whole(&planes.luma)));
    rises(of(|settings, share| settings.contrast = share).each_ref().map(|planes| deviation(&planes.luma)));
    let saturation = of(|settings, share| settings.saturation = share);
    rises(saturation.each_ref().map(|planes| deviation(&planes.red)));
    assert!(deviation(&saturation[0].red) < 1e-2);
}

#[test]
fn alpha_profile_and_size_stay_whatever_the_picture() {
    assert_eq!(relight(portrait(), None, &PictureRelight::default(), 1).profile, Some(vec![3]));
    let cut = RgbaImage::from_fn(30, 20, |x, y| Rgba([90, 80, 70, (x * 8 + y) as u8]));
    let input = DecodedPicture { pixels: Pixels::Transparent(cut.clone()), profile: None };
    let Pixels::Transparent(after) = relight(input, Some(&map()), &mapped(), 1).pixels else {
        panic!("transparency is kept")
    };
    assert!(after.pixels().zip(cut.pixels()).all(|(after, before)| after.0[3] == before.0[3]));
    let everything =
        PictureRelight { style: LightCharacter::ContrastedNHdr, ..prompt("neon spotlight from behind, left") };
    for (width, height) in [(1, 1), (1, 40), (900, 2)] {
        let input = DecodedPicture { pixels: Pixels::Opaque(RgbImage::new(width, height)), profile: None };
        let one = DecodedPicture { pixels: Pixels::Opaque(RgbImage::new(1, 1)), profile: None };
        for job in
            [mapped(), PictureRelight { source: LightOrigin::Reference, ..everything.clone() }, everything.clone()]
        {
            assert_eq!(relight(input.clone(), Some(&one), &job, 1).dimensions(), (width, height));
        }
    }
    let drawing = DecodedPicture { pixels: sample::drawing(48), profile: None };
    assert_ne!(relight(drawing.clone(), None, &PictureRelight::default(), 1), drawing);
}
