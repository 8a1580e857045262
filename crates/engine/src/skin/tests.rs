//! Tests that each parameter acts in the direction of its name, on a drawn portrait.

use image::{Rgb, RgbImage, Rgba, RgbaImage};

use super::*;
use crate::colour::Planes;
use crate::filters::{finer_than, smooth};
use crate::job::{SkinPurpose, SkinTreatment};
use crate::picture::Pixels;
use crate::plane::{Plane, Region};
use crate::{noise, test_pictures};

const SIDE: u32 = 160;
/// Cheeks without the lips.
const CHEEKS: Region = Region { left: 54, top: 66, width: 52, height: 24 };
const LIPS: Region = Region { left: 72, top: 108, width: 16, height: 6 };
const WALL: Region = Region { left: 4, top: 4, width: 30, height: 60 };

/// Returns a face with blotches, pores and red lips, half in the shade, in front of a rough blue wall.
fn portrait() -> RgbImage {
    let whole = Region { left: 0, top: 0, width: SIDE as usize, height: SIDE as usize };
    let blotches = noise::texture(whole, 3, 5);
    let pores = noise::texture(whole, 1, 6);
    RgbImage::from_fn(SIDE, SIDE, |x, y| {
        let u = x as f32 / SIDE as f32 - 0.5;
        let v = y as f32 / SIDE as f32 - 0.5;
        let at = |plane: &Plane| plane.row(y as usize)[x as usize];
        let face = (u / 0.28).hypot(v / 0.4);
        let mut colour = [0.35, 0.5, 0.7].map(|part| part + 0.05 * at(&pores));
        if face < 1.0 {
            let shade = 1.0 - 0.45 * (u * 4.0).clamp(0.0, 1.0);
            let blotch = 0.03 * at(&blotches);
            let pore = 0.02 * at(&pores);
            colour = [0.84 + blotch, 0.64 - 0.3 * blotch, 0.52 - 0.3 * blotch].map(|part| shade * (part + pore));
        }
        if (u / 0.09).hypot((v - 0.19) / 0.03) < 1.0 {
            colour = [0.75, 0.2, 0.25];
        }
        Rgb(colour.map(|part| (part.clamp(0.0, 1.0) * 255.0) as u8))
    })
}

fn retouched(job: SkinJob) -> Planes {
    let input = DecodedPicture { pixels: Pixels::Opaque(portrait()), profile: None };
    Planes::from_pixels(&skin(input, &job, 1).pixels)
}

fn job_with_mode(mode: SkinTreatment) -> SkinJob {
    SkinJob { smart_grain: 0.0, ..SkinJob::new(mode) }
}

fn faithful(detail: f32) -> SkinJob {
    job_with_mode(SkinTreatment::Faithful { detail })
}

fn flexible(focus: SkinPurpose) -> Planes {
    retouched(job_with_mode(SkinTreatment::Flexible { focus }))
}

fn original() -> Planes {
    Planes::from_pixels(&Pixels::Opaque(portrait()))
}

fn mean(plane: &Plane) -> f32 {
    plane.values().iter().sum::<f32>() / plane.values().len() as f32
}

fn deviation(plane: &Plane) -> f32 {
    let mean = mean(plane);
    (plane.values().iter().map(|value| (value - mean).powi(2)).sum::<f32>() / plane.values().len() as f32).sqrt()
}

fn distance(one: &Plane, other: &Plane) -> f32 {
    let mut difference = one.clone();
    difference.combine(other, |a, b| (a - b).abs());
    mean(&difference)
}

/// Returns the standard deviation of the fine texture of the cheeks.
fn pores(planes: &Planes) -> f32 {
    deviation(&finer_than(&planes.luma, 1).window(CHEEKS))
}

/// Returns the standard deviation on the cheeks of detail coarser than texture and finer than form.
fn blotches(plane: &Plane) -> f32 {
    let mut band = smooth(plane, 2);
    band.combine(&smooth(plane, 6), |fine, coarse| fine - coarse);
    deviation(&band.window(CHEEKS))
}

#[test]
fn skin_detail_ranges_from_smooth_to_every_pore() {
    let details = [0.0, 0.25, 0.5, 0.8, 1.0];
    let results = details.map(|detail| retouched(faithful(detail)));
    // The skin texture increases with the detail; at the default it equals that of the photograph.
    let texture = results.each_ref().map(pores);
    assert!(texture.is_sorted_by(|less, more| *less < 0.85 * more), "{texture:?}");
    assert!((texture[3] / pores(&original()) - 1.0).abs() < 0.15, "{texture:?}");
    assert!(texture[0] < 0.4 * texture[3] && texture[4] > 1.3 * texture[3], "{texture:?}");

    // Blemishes decrease with the texture.
    let uneven = results.each_ref().map(|result| blotches(&result.luma));
    assert!(uneven.is_sorted_by(|less, more| less < more), "{uneven:?}");

    // Both ends are visible: measured in steps of 1/255 on the cheeks.
    let cheeks = |result: &Planes| result.luma.window(CHEEKS);
    let distances = [0, 4].map(|end| 255.0 * distance(&cheeks(&results[end]), &cheeks(&results[3])));
    assert!(distances[0] > 2.5 && distances[1] > 1.5, "{distances:?}");
}

#[test]
fn blemishes_are_removed_and_other_areas_kept() {
    let before = original();
    let after = retouched(faithful(0.8));
    let measures = [&before.luma, &after.luma, &before.red, &after.red].map(blotches);
    assert!(measures[1] < 0.9 * measures[0] && measures[3] < 0.9 * measures[2], "{measures:?}");
    let wall = |planes: &Planes| planes.luma.window(WALL);
    assert!(distance(&wall(&before), &wall(&after)) < 1e-3, "the wall changed");
}

#[test]
fn sharpen_gives_edges_definition() {
    let fine = [0.0, 0.5, 1.0].map(|share| {
        let job = SkinJob { sharpen: share, ..faithful(0.8) };
        deviation(&finer_than(&retouched(job).luma, 1))
    });
    assert!(fine[0] < 0.95 * fine[1] && fine[1] < 0.95 * fine[2], "{fine:?}");
}

#[test]
fn smart_grain_adds_grain_that_the_seed_decides() {
    let with_grain = |share: f32, seed: u32| {
        let input = DecodedPicture { pixels: Pixels::Opaque(portrait()), profile: None };
        skin(input, &SkinJob { smart_grain: share, ..faithful(0.8) }, seed)
    };
    let grain =
        [0.0, 0.5, 1.0].map(|share| deviation(&finer_than(&Planes::from_pixels(&with_grain(share, 1).pixels).luma, 1)));
    assert!(grain[0] < 0.98 * grain[1] && grain[1] < 0.98 * grain[2], "{grain:?}");
    assert!(with_grain(0.5, 1) == with_grain(0.5, 1));
    assert!(with_grain(0.5, 1) != with_grain(0.5, 2));
    assert!(with_grain(0.0, 1) == with_grain(0.0, 2));
}

#[test]
fn modes_and_purposes_differ_from_each_other_and_from_the_original() {
    let mut variants = vec![original(), retouched(job_with_mode(SkinTreatment::Creative)), retouched(faithful(0.8))];
    variants.extend(SkinPurpose::ALL.iter().map(|focus| flexible(*focus)));
    for (at, left) in variants.iter().enumerate() {
        for right in &variants[at + 1..] {
            let difference = distance(&left.luma, &right.luma) + distance(&left.red, &right.red);
            assert!(difference > 1.5e-3, "{at}: {difference}");
        }
    }
    // The creative mode changes most.
    let change = |planes: &Planes| distance(&planes.luma, &variants[0].luma);
    assert!(change(&variants[1]) > 2.0 * change(&variants[2]), "the creative mode changes too little");
}

#[test]
fn creative_is_smooth_warm_and_rich() {
    let before = original();
    let after = retouched(job_with_mode(SkinTreatment::Creative));
    let measures = [blotches(&before.luma), blotches(&after.luma), distance(&before.luma, &after.luma)];
    assert!(measures[1] < 0.85 * measures[0] && measures[2] > 0.015, "{measures:?}");
    assert!(mean(&after.red.window(CHEEKS)) > mean(&before.red.window(CHEEKS)) + 0.01, "the cheeks are not warmer");
}

#[test]
fn enhance_skin_evens_it_and_brings_out_its_texture() {
    let before = original();
    let after = flexible(SkinPurpose::EnhanceSkin);
    let measures = [blotches(&before.luma), blotches(&after.luma), pores(&before), pores(&after)];
    assert!(measures[1] < 0.9 * measures[0] && measures[3] > measures[2], "{measures:?}");
}

#[test]
fn improve_lighting_fills_the_shadow_of_the_face() {
    let side = |planes: &Planes, left: isize| mean(&planes.luma.window(Region { left, width: 14, ..CHEEKS }));
    let ratio = |planes: &Planes| side(planes, 50) / side(planes, 102);
    let before = original();
    let after = flexible(SkinPurpose::ImproveLighting);
    assert!(ratio(&after) < 0.93 * ratio(&before), "{} {}", ratio(&before), ratio(&after));
    assert!(side(&after, 102) > side(&before, 102) + 0.03, "the shadow is not brighter");
}

#[test]
fn enhance_everything_reaches_beyond_skin() {
    let before = original();
    let after = flexible(SkinPurpose::EnhanceEverything);
    let wall = |planes: &Planes| deviation(&planes.luma.window(WALL));
    let measures = [wall(&before), wall(&after), blotches(&before.red), blotches(&after.red)];
    assert!(measures[1] > 1.2 * measures[0] && measures[3] < 0.9 * measures[2], "{measures:?}");
    assert!(mean(&after.blue.window(WALL)) > mean(&before.blue.window(WALL)), "the wall has no more colour");
}

#[test]
fn transform_to_real_gives_skin_pores_and_takes_strong_colours_back() {
    let before = original();
    let after = flexible(SkinPurpose::TransformToReal);
    assert!(pores(&after) > 1.3 * pores(&before), "{} {}", pores(&before), pores(&after));
    assert!(mean(&after.blue.window(WALL)) < mean(&before.blue.window(WALL)), "the wall has too much colour");
}

#[test]
fn no_make_up_brings_lips_towards_skin() {
    let red = |planes: &Planes| mean(&planes.red.window(LIPS)) - mean(&planes.red.window(CHEEKS));
    let before = original();
    let after = flexible(SkinPurpose::NoMakeUp);
    assert!(red(&after) < 0.75 * red(&before) && red(&after) > 0.1 * red(&before), "{} {}", red(&before), red(&after));
}

#[test]
fn alpha_and_profile_stay() {
    let pixels = RgbaImage::from_fn(40, 30, |x, y| Rgba([200, 150, 120, (x * 5 + y) as u8]));
    let input = DecodedPicture { pixels: Pixels::Transparent(pixels.clone()), profile: Some(vec![7]) };
    let result = skin(input, &job_with_mode(SkinTreatment::Creative), 1);
    let Pixels::Transparent(after) = result.pixels else { panic!("transparency is kept") };
    assert!(after.pixels().zip(pixels.pixels()).all(|(after, before)| after.0[3] == before.0[3]), "the alpha changed");
    assert_eq!(result.profile, Some(vec![7]));
}

#[test]
fn any_size_and_any_picture_is_accepted() {
    for (width, height) in [(1, 1), (1, 9), (700, 2)] {
        let input =
            DecodedPicture { pixels: Pixels::Opaque(RgbImage::from_pixel(width, height, Rgb([9; 3]))), profile: None };
        assert_eq!(skin(input, &job_with_mode(SkinTreatment::Creative), 1).dimensions(), (width, height));
    }
    let landscape = DecodedPicture { pixels: test_pictures::drawing(64), profile: None };
    let unchanged = skin(landscape.clone(), &faithful(1.0), 1);
    assert!(
        distance(&Planes::from_pixels(&unchanged.pixels).luma, &Planes::from_pixels(&landscape.pixels).luma) < 4e-3
    );
}

#[test]
fn wide_filters_scale_with_the_picture() {
    // Beyond the size of the overview: a picture three times as large is retouched in the same way.
    let large = image::imageops::resize(&portrait(), 3 * SIDE, 3 * SIDE, image::imageops::FilterType::CatmullRom);
    let result = skin(
        DecodedPicture { pixels: Pixels::Opaque(large), profile: None },
        &job_with_mode(SkinTreatment::Creative),
        1,
    );
    let reduced = crate::resample::reduce(&Planes::from_pixels(&result.pixels).luma, 3);
    assert!(
        distance(&reduced, &retouched(job_with_mode(SkinTreatment::Creative)).luma) < 0.03,
        "a larger picture is retouched in another way"
    );
}
