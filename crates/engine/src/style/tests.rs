//! Tests of each parameter on generated pictures.

use image::{Rgb, RgbImage, Rgba, RgbaImage};

use super::paint::deviation;
use super::working::Colours;
use super::*;
use crate::filters::finer_than;
use crate::job::{ColourStrength, PortraitAdjustments, SkinSmoothing, StyleMethod, StylePreset};
use crate::plane::Plane;
use crate::test_pictures;

const SIDE: u32 = 96;

fn photo() -> DecodedPicture {
    DecodedPicture { pixels: test_pictures::photo(SIDE), profile: None }
}

/// Returns a dark blue, rough picture that is easy to recognize.
fn reference() -> DecodedPicture {
    let pixels = test_pictures::noisy(SIDE);
    let Pixels::Opaque(noisy) = pixels else { panic!("the picture is opaque") };
    let blue = |pixel: &Rgb<u8>| Rgb([pixel.0[0] / 4, pixel.0[1] / 3, pixel.0[2]]);
    DecodedPicture {
        pixels: Pixels::Opaque(RgbImage::from_fn(SIDE, SIDE, |x, y| blue(noisy.get_pixel(x, y)))),
        profile: None,
    }
}

/// Returns a picture like a face with pores: rough skin in front of green.
fn face() -> DecodedPicture {
    let Pixels::Opaque(noisy) = test_pictures::noisy(SIDE) else { panic!("the picture is opaque") };
    let pixels = RgbImage::from_fn(SIDE, SIDE, |x, y| {
        let in_face = (x as f32 - 48.0).powi(2) + (y as f32 - 48.0).powi(2) < 1200.0;
        let rough = noisy.get_pixel(x, y).0[0] / 4;
        Rgb(if in_face { [190 + rough, 130 + rough, 95 + rough] } else { [90, 110, 94] })
    });
    DecodedPicture { pixels: Pixels::Opaque(pixels), profile: None }
}

fn colours(picture: &DecodedPicture) -> Colours {
    WorkingPicture::from_pixels(&picture.pixels).colours
}

fn render_colours(job: &StyleJob) -> Colours {
    colours(&style(photo(), None, job, 1))
}

fn render_with_reference(job: &StyleJob) -> Colours {
    colours(&style(photo(), Some(&reference()), job, 1))
}

fn with_engine(engine: StylePreset) -> StyleJob {
    StyleJob { engine, ..StyleJob::default() }
}

fn with_flavor(flavor: StyleMethod) -> StyleJob {
    StyleJob { flavor, ..StyleJob::default() }
}

fn mean(plane: &Plane) -> f32 {
    plane.values().iter().sum::<f32>() / plane.values().len() as f32
}

fn fine(colours: &Colours) -> f32 {
    deviation(finer_than(&colours.l, 1).values())
}

fn chroma(colours: &Colours) -> f32 {
    let parts = colours.a.values().iter().zip(colours.b.values());
    parts.map(|(a, b)| (a * a + b * b).sqrt()).sum::<f32>() / colours.a.values().len() as f32
}

/// Returns the mean difference of two pictures.
fn distance(one: &Colours, other: &Colours) -> f32 {
    let planes = [(&one.l, &other.l), (&one.a, &other.a), (&one.b, &other.b)];
    let plane_distance = |(one, other): (&Plane, &Plane)| {
        let pairs = one.values().iter().zip(other.values());
        pairs.map(|(a, b)| (a - b).abs()).sum::<f32>() / one.values().len() as f32
    };
    planes.map(plane_distance).iter().sum()
}

/// Returns the similarity of the slopes of two pictures, at most 1.
fn correlation(one: &Colours, other: &Colours) -> f32 {
    let [one, other] = [one, other].map(|colours| finer_than(&colours.l, 2));
    let product: f32 = one.values().iter().zip(other.values()).map(|(a, b)| a * b).sum();
    product / (deviation(one.values()) * deviation(other.values()) * one.values().len() as f32).max(1e-9)
}

/// Returns the fraction of pixels that equal their neighbours.
fn evenness(colours: &Colours) -> f32 {
    let rows = colours.l.rows();
    let even = |row: &[f32]| row.windows(2).filter(|pair| (pair[0] - pair[1]).abs() < 0.012).count();
    rows.map(even).sum::<usize>() as f32 / colours.l.values().len() as f32
}

fn assert_rises(measures: &[f32]) {
    assert!(measures.windows(2).all(|pair| pair[0] < pair[1]), "{measures:?}");
}

#[test]
fn the_stronger_the_style_the_further_from_the_picture() {
    let original = colours(&photo());
    for engine in StylePreset::ALL {
        let at = |share: f32| StyleJob { style_strength: share, ..with_engine(*engine) };
        assert_eq!(style(photo(), Some(&reference()), &at(0.0), 1), photo(), "{engine:?}");
        assert_rises(&[0.3, 0.65, 1.0].map(|share| distance(&render_with_reference(&at(share)), &original)));
    }
}

#[test]
fn the_more_structure_the_more_of_it_is_kept() {
    let original = colours(&photo());
    for engine in StylePreset::ALL {
        let at = |share: f32| StyleJob { structure_strength: share, ..with_engine(*engine) };
        let [low, middle, high] = [0.0, 0.5, 1.0].map(|share| correlation(&render_colours(&at(share)), &original));
        // Engines that remove no structure cannot keep more of it at a higher strength.
        let removes_none = matches!(engine, StylePreset::Definio | StylePreset::Real | StylePreset::SuperReal);
        assert!(low < middle && (middle < high || removes_none && middle > 0.9), "{engine:?} {low} {middle} {high}");
    }
}

#[test]
fn all_engines_and_flavors_differ() {
    let engines: Vec<_> = StylePreset::ALL.iter().map(|engine| render_colours(&with_engine(*engine))).collect();
    let flavors: Vec<_> = StyleMethod::ALL.iter().map(|flavor| render_with_reference(&with_flavor(*flavor))).collect();
    for variants in [engines, flavors] {
        for (index, variant) in variants.iter().enumerate() {
            let is_distinct = variants[index + 1..].iter().all(|later| distance(variant, later) > 5e-3);
            assert!(is_distinct, "variant {index} looks like a later one");
        }
    }
}

#[test]
fn engines_have_the_look_of_their_names() {
    let original = colours(&photo());
    let with_style_engine = |engine| render_colours(&with_engine(engine));
    let real = with_style_engine(StylePreset::Real);
    let super_real = with_style_engine(StylePreset::SuperReal);
    let softy = with_style_engine(StylePreset::Softy);
    let anime = with_style_engine(StylePreset::ColorfulAnime);
    let balanced = with_style_engine(StylePreset::Balanced);
    let definio = with_style_engine(StylePreset::Definio);
    let cartoon = with_style_engine(StylePreset::Cartoon3d);
    let illusio = with_style_engine(StylePreset::Illusio);
    assert_rises(&[fine(&softy), fine(&original), fine(&real), fine(&super_real)]);
    assert_rises(&[distance(&real, &original), distance(&balanced, &original), distance(&anime, &original)]);
    assert!(fine(&definio) > 1.2 * fine(&balanced), "definio has too little detail");
    assert!(mean(&softy.l) > mean(&original.l), "softy is not brighter");
    assert!(
        evenness(&anime) > evenness(&original) && chroma(&anime) > 1.3 * chroma(&original),
        "anime is not even and colourful"
    );
    assert!(chroma(&cartoon) > 1.2 * chroma(&original), "the cartoon is not colourful");
    assert!(
        correlation(&illusio, &original).max(correlation(&cartoon, &original))
            < correlation(&balanced, &original) - 0.03,
        "paintings and cartoons keep too much of the structure"
    );
}

#[test]
fn cartoons_are_lit_and_drawn_ones_have_lines() {
    let disc = RgbImage::from_fn(SIDE, SIDE, |x, y| {
        let in_disc = (x as f32 - 48.0).powi(2) + (y as f32 - 48.0).powi(2) < 400.0;
        Rgb(if in_disc { [170, 120, 90] } else { [150, 190, 210] })
    });
    let draw = |engine| {
        let disc = DecodedPicture { pixels: Pixels::Opaque(disc.clone()), profile: None };
        colours(&style(disc, None, &with_engine(engine), 1))
    };
    let cartoon = draw(StylePreset::Cartoon3d);
    assert!(cartoon.l.row(35)[35] > cartoon.l.row(61)[61] + 0.02, "the cartoon is not lit from the upper left");

    let darkest = |colours: &Colours| colours.l.values().iter().copied().fold(1.0, f32::min);
    let anime = draw(StylePreset::ColorfulAnime);
    let caricature = draw(StylePreset::Caricature);
    assert!(
        darkest(&anime) < 0.3 && darkest(&caricature) < 0.3 && darkest(&cartoon) > 0.4,
        "{} {} {}",
        darkest(&anime),
        darkest(&caricature),
        darkest(&cartoon)
    );

    let area = |colours: &Colours| colours.b.values().iter().filter(|b| **b > 0.02).count();
    assert!(area(&caricature) > area(&anime) * 11 / 10, "{} {}", area(&caricature), area(&anime));
}

/// Returns the maximum distance of the lightness in the middle column from its moving average, away from the border.
fn ringing(colours: &Colours) -> f32 {
    const REACH: usize = 12;
    let middle = colours.l.width() / 2;
    let column: Vec<f32> = colours.l.rows().map(|row| row[middle - 8..middle + 8].iter().sum::<f32>() / 16.0).collect();
    let away = |window: &[f32]| (window[REACH] - window.iter().sum::<f32>() / window.len() as f32).abs();
    column[8..column.len() - 8].windows(2 * REACH + 1).map(away).fold(0.0, f32::max)
}

#[test]
fn cartoons_of_smooth_gradients_have_no_rings() {
    // Given a sky, alone and above a building
    for has_building in [false, true] {
        let sky = RgbImage::from_fn(64, 400, |x, y| {
            let v = y as f32 / 400.0;
            let is_building = has_building && !(12..=52).contains(&x) && y > 150;
            Rgb(if is_building {
                [60, 50, 40]
            } else {
                [0.25 + 0.4 * v, 0.45 + 0.4 * v, 0.85].map(|part| (part * 255.0) as u8)
            })
        });
        let sky = DecodedPicture { pixels: Pixels::Opaque(sky), profile: None };
        let before = ringing(&colours(&sky));

        // When it becomes a cartoon
        let cartoon = colours(&style(sky, None, &with_engine(StylePreset::Cartoon3d), 1));

        // Then it has no more steps than the picture
        assert!(ringing(&cartoon) < 1.5 * before, "{has_building}: {} {before}", ringing(&cartoon));
    }
}

#[test]
fn the_reference_brings_its_colours_and_its_texture() {
    let without = render_colours(&StyleJob::default());
    let with_reference = render_with_reference(&StyleJob::default());
    assert!(
        mean(&with_reference.b) < mean(&without.b) - 0.05 && mean(&with_reference.l) < mean(&without.l) - 0.05,
        "the result is not dark blue like the reference"
    );
    let gradient = RgbImage::from_fn(SIDE, SIDE, |x, y| Rgb([20, 20 + (x / 8) as u8, 90 + (y / 4) as u8]));
    let gradient = DecodedPicture { pixels: Pixels::Opaque(gradient), profile: None };
    let smooth = colours(&style(photo(), Some(&gradient), &StyleJob::default(), 1));
    assert!(fine(&with_reference) > 1.3 * fine(&smooth), "{} {}", fine(&with_reference), fine(&smooth));
}

#[test]
fn flavors_have_the_effect_of_their_names() {
    let with_reference = |flavor| render_with_reference(&with_flavor(flavor));
    let faithful = with_reference(StyleMethod::Faithful);
    let unstyled = with_reference(StyleMethod::Donotstyle);
    let sharp = with_reference(StyleMethod::DonotstyleSharp);
    let original = colours(&photo());
    assert!(
        (mean(&unstyled.b) - mean(&original.b)).abs() < 0.4 * (mean(&faithful.b) - mean(&original.b)).abs(),
        "the unstyled result has the colours of the reference"
    );
    assert!(fine(&sharp) > 1.15 * fine(&unstyled), "the sharp result is not sharper");
    assert!(fine(&with_reference(StyleMethod::Detaily)) > 1.15 * fine(&faithful), "detaily has too little detail");

    let with_flavor_only = |flavor| render_colours(&with_flavor(flavor));
    let clear = with_flavor_only(StyleMethod::Clear);
    let faithful_result = with_flavor_only(StyleMethod::Faithful);
    let range = |colours: &Colours| {
        let values = colours.l.values();
        values.iter().copied().fold(0.0, f32::max) - values.iter().copied().fold(1.0, f32::min)
    };
    assert!(range(&clear) > range(&faithful_result), "clear has too little contrast");

    let gen_z = with_flavor_only(StyleMethod::GenZ);
    let psychedelic = with_flavor_only(StyleMethod::Psychedelia);
    assert!(mean(&gen_z.a) > mean(&faithful_result.a) + 0.05, "pink");

    let hues = |colours: &Colours| deviation(colours.a.values()) + deviation(colours.b.values());
    assert!(
        hues(&psychedelic) > 1.3 * hues(&faithful_result) && chroma(&psychedelic) > 1.3 * chroma(&faithful_result),
        "psychedelia has too few colours"
    );
}

#[test]
fn portraits_pop_and_skin_keeps_its_colour() {
    let portrait = |style, beautifier| StyleJob {
        portrait: Some(PortraitAdjustments { beautifier, style }),
        ..StyleJob::default()
    };
    let draw = |job: &StyleJob, reference: Option<&DecodedPicture>| colours(&style(face(), reference, job, 1));
    assert_rises(
        &ColourStrength::ALL.iter().map(|strength| chroma(&draw(&portrait(*strength, None), None))).collect::<Vec<_>>(),
    );

    let centre = |colours: &Colours| colours.b.row(48)[48];
    let blue = reference();
    let general = draw(&StyleJob::default(), Some(&blue));
    let portrait_result = draw(&portrait(ColourStrength::Standard, None), Some(&blue));
    assert!(centre(&portrait_result) > centre(&general) + 0.02, "{} {}", centre(&portrait_result), centre(&general));

    let rough = |beautifier| {
        let fine = finer_than(&draw(&portrait(ColourStrength::Standard, beautifier), None).l, 2);
        deviation(&(30..66).flat_map(|y| fine.row(y)[30..66].to_vec()).collect::<Vec<_>>())
    };
    let [full, partial] = [SkinSmoothing::FaceMax, SkinSmoothing::Face].map(|kind| rough(Some(kind)));
    assert_rises(&[full, partial, rough(None)]);
}

#[test]
fn prompts_have_an_effect() {
    let draw = |text: &str| render_colours(&with_prompt(text));
    assert_rises(&[mean(&draw("cold").b), mean(&draw("a cat").b), mean(&draw("warm").b)]);
    assert_rises(&[mean(&draw("dark").l), mean(&draw("a cat").l), mean(&draw("bright").l)]);
    assert_rises(&[chroma(&draw("monochrome")), chroma(&draw("muted")), chroma(&draw("vivid"))]);
    assert_rises(&[fine(&draw("smooth")), fine(&draw("a cat")), fine(&draw("sharp"))]);
    assert!(distance(&draw("a cat"), &draw("?")) > 1e-4, "a prompt without known words has no effect");
    let face_detail = |text: &str| fine(&colours(&style(face(), None, &with_prompt(text), 1)));
    assert!(face_detail("a face") < face_detail("a cat"), "faces are not drawn softer");
}

/// Creates a job with the prompt as the only parameter.
fn with_prompt(text: &str) -> StyleJob {
    StyleJob { prompt: Some(text.to_owned()), ..StyleJob::default() }
}

#[test]
fn pixel_art_has_hard_blocks_of_few_colours() {
    let Pixels::Opaque(drawn) = style(photo(), None, &with_prompt("pixel art"), 1).pixels else { panic!("opaque") };
    let palette: std::collections::HashSet<_> = drawn.pixels().map(|pixel| pixel.0).collect();
    assert!((6..=20).contains(&palette.len()), "{}", palette.len());
    let is_even = |x: u32, y: u32| {
        let colour = drawn.get_pixel(x, y);
        [(1, 0), (0, 1), (1, 1)].iter().all(|(right, down)| drawn.get_pixel(x + right, y + down) == colour)
    };
    assert!((0..SIDE).step_by(2).all(|y| (0..SIDE).step_by(2).all(|x| is_even(x, y))), "a block has several colours");
}

#[test]
fn charcoal_is_grey_grainy_and_dark() {
    let drawn = render_colours(&with_prompt("charcoal drawing"));
    let plain = render_colours(&with_prompt("monochrome drawing"));
    assert!(chroma(&drawn) < 0.01, "{}", chroma(&drawn));
    assert!(fine(&drawn) > 2.0 * fine(&plain), "{} {}", fine(&drawn), fine(&plain));
    let share = |is: &dyn Fn(f32) -> bool| {
        drawn.l.values().iter().filter(|value| is(**value)).count() as f32 / drawn.l.values().len() as f32
    };
    assert!(share(&|l| l < 0.35) > 0.05 && share(&|l| l > 0.85) > 0.05, "black or white is missing");
}

#[test]
fn watercolour_runs_over_edges_and_shows_the_paper() {
    // Given two flat colours with a hard edge
    let input = RgbImage::from_fn(SIDE, SIDE, |x, _| Rgb(if x < SIDE / 2 { [60, 110, 90] } else { [210, 170, 120] }));
    let input = DecodedPicture { pixels: Pixels::Opaque(input), profile: None };
    let steepest = |colours: &Colours| {
        let steps = colours.l.rows().map(|row| row.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f32::max));
        steps.sum::<f32>() / colours.l.height() as f32
    };
    let left = |colours: &Colours| colours.l.window(crate::plane::Region { left: 8, top: 8, width: 32, height: 80 });
    let spread = |plane: &Plane| {
        let mean = mean(plane);
        deviation(&plane.values().iter().map(|value| value - mean).collect::<Vec<_>>())
    };

    // When it is painted
    let plain = colours(&style(input.clone(), None, &with_prompt("a cat"), 1));
    let painted = colours(&style(input, None, &with_prompt("watercolor"), 1));

    // Then the edge is soft, and the paper shows through lighter paint
    assert!(steepest(&painted) < 0.75 * steepest(&plain), "{} {}", steepest(&painted), steepest(&plain));
    let [even, rough] = [&plain, &painted].map(|colours| spread(&left(colours)));
    assert!(rough > 0.008 && rough > 2.0 * even, "{rough} {even}");
    assert!(mean(&left(&painted)) > mean(&left(&plain)) + 0.02, "the paper does not show through");
}

#[test]
fn techniques_fit_pictures_of_any_size_with_alpha() {
    for prompt in ["watercolour", "pixel art", "charcoal"] {
        for (width, height) in [(1, 1), (1, 9), (9, 1), (2, 3), (41, 2), (130, 97)] {
            let input = DecodedPicture { pixels: Pixels::Transparent(RgbaImage::new(width, height)), profile: None };
            let result = style(input, None, &with_prompt(prompt), 1);
            let Pixels::Transparent(result) = result.pixels else { panic!("alpha is kept") };
            assert_eq!(result.dimensions(), (width, height), "{prompt}");
            assert!(result.pixels().all(|pixel| pixel.0[3] == 0), "{prompt}");
        }
    }
}

#[test]
fn the_seed_decides_and_the_number_of_threads_does_not() {
    for engine in StylePreset::ALL {
        let job = with_engine(*engine);
        let with_seed = |seed| style(photo(), Some(&reference()), &job, seed);
        let single_threaded = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let multi_threaded = rayon::ThreadPoolBuilder::new().num_threads(5).build().unwrap();
        let first = single_threaded.install(|| with_seed(1));
        assert_eq!(first, multi_threaded.install(|| with_seed(1)), "{engine:?}");
        assert_ne!(first, with_seed(2), "{engine:?}");
    }
}

#[test]
fn alpha_and_profile_stay() {
    let pixels = RgbaImage::from_fn(40, 30, |x, y| Rgba([x as u8 * 6, 90, y as u8 * 8, (x * 6) as u8]));
    let input = DecodedPicture { pixels: Pixels::Transparent(pixels.clone()), profile: Some(vec![1, 2, 3]) };
    let result = style(input, Some(&reference()), &with_engine(StylePreset::ColorfulAnime), 1);
    let Pixels::Transparent(styled) = result.pixels else { panic!("the picture is transparent") };
    assert!(styled.pixels().zip(pixels.pixels()).all(|(a, b)| a.0[3] == b.0[3]));
    assert_eq!(result.profile, Some(vec![1, 2, 3]));
}

#[test]
fn the_smallest_pictures_can_be_styled_and_referred_to() {
    let portrait =
        Some(PortraitAdjustments { beautifier: Some(SkinSmoothing::FaceMax), style: ColourStrength::SuperPop });
    let dot = DecodedPicture { pixels: Pixels::Opaque(RgbImage::from_pixel(1, 1, Rgb([200, 100, 50]))), profile: None };
    let transparent_picture = DecodedPicture { pixels: Pixels::Transparent(RgbaImage::new(3, 3)), profile: None };
    let sizes = [(1, 1), (1, 9), (9, 1), (2, 3), (40, 2)];
    let mut references = [None, Some(&dot), Some(&transparent_picture)].into_iter().cycle();
    for engine in StylePreset::ALL {
        for (flavor, (width, height)) in StyleMethod::ALL.iter().zip(sizes.iter().cycle()) {
            let input = DecodedPicture { pixels: Pixels::Opaque(RgbImage::new(*width, *height)), profile: None };
            let job = StyleJob { flavor: *flavor, portrait, ..with_engine(*engine) };
            assert_eq!(style(input, references.next().flatten(), &job, 1).dimensions(), (*width, *height));
        }
        assert_eq!(style(transparent_picture.clone(), Some(&dot), &with_engine(*engine), 1).dimensions(), (3, 3));
    }
}
