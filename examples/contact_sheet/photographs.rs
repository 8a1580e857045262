//! Pictures for the contact sheet: two photographs in the public domain, and a printed page that is rendered like a
//! photograph, because no freely licensed photograph of text was available.

use anyhow::Context;
use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

use crate::letters::{ADVANCE, HEIGHT, covers};

/// Size of submitted photographs.
pub const SIZE: (u32, u32) = (384, 288);
/// Size of the detail for upscalers: a quarter of each side.
pub const DETAIL: (u32, u32) = (96, 72);

/// Fraction of each side in the close-up.
const CLOSE_UP: f32 = 0.42;

/// A source picture.
pub struct Photograph {
    pub name: &'static str,
    pub whole: RgbImage,
    /// Close-up, scaled to the size of the whole.
    pub close: RgbImage,
    /// Detail for upscaling.
    pub detail: RgbImage,
}

/// Loads the photographs of the sheet.
///
/// # Errors
/// If an embedded photograph cannot be decoded.
pub fn photographs() -> anyhow::Result<[Photograph; 3]> {
    let portrait = include_bytes!("../../data/photographs/portrait.jpg");
    let landscape = include_bytes!("../../data/photographs/landscape.jpg");
    Ok([
        crop_photograph(
            "portrait",
            &decode(portrait)?,
            CropPlan { from_middle: false, close: (0.22, 0.03), detail: (120, 36) },
        ),
        crop_photograph(
            "landscape",
            &decode(landscape)?,
            CropPlan { from_middle: true, close: (0.29, 0.56), detail: (150, 130) },
        ),
        crop_photograph("text", &render_text(), CropPlan { from_middle: true, close: (0.06, 0.06), detail: (60, 60) }),
    ])
}

fn decode(file: &[u8]) -> anyhow::Result<RgbImage> {
    Ok(image::load_from_memory(file).context("a photograph of the program cannot be decoded")?.into_rgb8())
}

/// Crops of a picture.
#[derive(Clone, Copy)]
struct CropPlan {
    /// `true` to crop from the centre, `false` from the top left.
    from_middle: bool,
    /// Origin of the close-up as a fraction of each side.
    close: (f32, f32),
    /// Origin of the detail in pixels of the whole.
    detail: (u32, u32),
}

/// Crops the largest part with the right aspect ratio, and the close-up and detail from it.
fn crop_photograph(name: &'static str, picture: &RgbImage, plan: CropPlan) -> Photograph {
    let (width, height) = picture.dimensions();
    let scaled_width = height * SIZE.0 / SIZE.1;
    let scaled_height = width * SIZE.1 / SIZE.0;
    let (width, height) =
        if scaled_width <= width { (scaled_width, height) } else { (width, scaled_height.min(height)) };
    let margin = |total: u32, size: u32| if plan.from_middle { (total - size) / 2 } else { 0 };
    let left = margin(picture.width(), width);
    let top = margin(picture.height(), height);
    let cropped = imageops::crop_imm(picture, left, top, width, height).to_image();
    let resize = |picture: &RgbImage| imageops::resize(picture, SIZE.0, SIZE.1, FilterType::Lanczos3);
    let fraction_of = |side: u32, fraction: f32| truncate_to_u32(as_float(side) * fraction);
    let close = imageops::crop_imm(
        &cropped,
        fraction_of(width, plan.close.0),
        fraction_of(height, plan.close.1),
        fraction_of(width, CLOSE_UP),
        fraction_of(height, CLOSE_UP),
    );
    let whole = resize(&cropped);
    let close = resize(&close.to_image());
    let detail = imageops::crop_imm(&whole, plan.detail.0, plan.detail.1, DETAIL.0, DETAIL.1).to_image();
    Photograph { name, whole, close, detail }
}

const LINES: [&str; 12] = [
    "A NODE REGISTRY AND A MEDIA",
    "GENERATION GATEWAY, IN ONE",
    "BINARY. EVERY CHANGE IS AN",
    "EVENT: WHAT WAS ANSWERED IS",
    "DURABLE, AND NOTHING IS LOST.",
    "",
    "0123456789  10 x 15 = 150",
    "",
    "THE QUICK BROWN FOX JUMPS",
    "OVER THE LAZY DOG. PACK MY",
    "BOX WITH FIVE DOZEN JUGS OF",
    "LIQUID GLUE. SPHINX OF QUARTZ",
];
/// Page pixels per letter pixel, and line height.
const LETTER_PIXEL: f32 = 3.4;
const LINE_HEIGHT: f32 = 46.0;
/// Rotation of the page in radians.
const PAGE_ROTATION: f32 = 0.035;

/// Renders the page: slightly rotated, lit from the left, about a pixel out of focus, with paper and sensor grain.
fn render_text() -> RgbImage {
    let width = 768;
    let height = 576;
    let sharp = RgbImage::from_fn(width, height, |x, y| {
        let ink = ink_at(as_float(x), as_float(y));
        let light = 1.04 - 0.34 * as_float(x) / 768.0 - 0.12 * as_float(y) / 576.0;
        let grain = f32::from(noise(x, y)) / 255.0 - 0.5;
        let paper = [246.0, 238.0, 220.0];
        Rgb(paper.map(|channel: f32| clamp_to_u8((channel * (1.0 - 0.86 * ink) + 14.0 * grain) * light)))
    });
    imageops::blur(&sharp, 1.1)
}

/// Returns 1 if there is ink at a point of the page, otherwise 0.
fn ink_at(x: f32, y: f32) -> f32 {
    let x = x - 60.0;
    let y = y - 34.0;
    let across = x * PAGE_ROTATION.cos() + y * PAGE_ROTATION.sin();
    let down = y * PAGE_ROTATION.cos() - x * PAGE_ROTATION.sin();
    if across < 0.0 || down < 0.0 {
        return 0.0;
    }
    let line = truncate_to_u32(down / LINE_HEIGHT);
    let row = truncate_to_u32(down % LINE_HEIGHT / LETTER_PIXEL);
    let letter = truncate_to_u32(across / LETTER_PIXEL) / ADVANCE;
    let column = truncate_to_u32(across / LETTER_PIXEL) % ADVANCE;
    let text = LINES.get(line as usize).copied().unwrap_or_default();
    let is_ink = text.chars().nth(letter as usize).is_some_and(|letter| row < HEIGHT && covers(letter, column, row));
    if is_ink { 1.0 } else { 0.0 }
}

/// Returns deterministic noise.
fn noise(x: u32, y: u32) -> u8 {
    let hash = (x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca6b)).wrapping_mul(0xc2b2_ae35);
    (hash ^ (hash >> 15)).wrapping_mul(0x27d4_eb2f).to_be_bytes()[0]
}

#[expect(clippy::cast_precision_loss, reason = "less than a thousand pixels")]
fn as_float(pixels: u32) -> f32 {
    pixels as f32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "coordinates on the page are not negative")]
fn truncate_to_u32(number: f32) -> u32 {
    number as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
fn clamp_to_u8(sample: f32) -> u8 {
    sample.clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_photograph_has_a_detail_with_contrast() {
        for photograph in photographs().unwrap() {
            let sizes = [&photograph.whole, &photograph.close, &photograph.detail].map(RgbImage::dimensions);
            assert_eq!(sizes, [SIZE, SIZE, DETAIL]);
            let samples = photograph.detail.as_raw();
            let range = samples.iter().max().unwrap() - samples.iter().min().unwrap();
            assert!(range > 100, "{}: {range}", photograph.name);
        }
    }
}
