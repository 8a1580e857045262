//! What the contact sheet is made of: two photographs in the public domain, and a page of print that is computed here as a
//! camera would see it, because there was no photograph of text to be had that may be passed on.

use anyhow::Context;
use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

use super::letters::{ADVANCE, HEIGHT, covers};

/// The size in which photographs are sent in.
pub const SIZE: (u32, u32) = (384, 288);
/// The part that upscalers are given: a quarter of each side.
pub const DETAIL: (u32, u32) = (96, 72);

/// A picture to work on.
pub struct Photograph {
    pub name: &'static str,
    pub whole: RgbImage,
    /// A part of it where there is something to see.
    pub detail: RgbImage,
}

/// The photographs of the sheet.
///
/// # Errors
/// When one that is built in cannot be decoded.
pub fn photographs() -> anyhow::Result<[Photograph; 3]> {
    let portrait = include_bytes!("../../../../data/photographs/portrait.jpg");
    let landscape = include_bytes!("../../../../data/photographs/landscape.jpg");
    Ok([
        of("portrait", &decoded(portrait)?, 0.0, (120, 36)),
        of("landscape", &decoded(landscape)?, 0.5, (150, 130)),
        of("text", &print(), 0.5, (60, 60)),
    ])
}

fn decoded(file: &[u8]) -> anyhow::Result<RgbImage> {
    Ok(image::load_from_memory(file).context("a photograph of the program cannot be decoded")?.into_rgb8())
}

/// The largest part of a picture that has the right shape: from the top or the left at 0, from the middle at 0.5.
fn of(name: &'static str, picture: &RgbImage, from: f32, detail: (u32, u32)) -> Photograph {
    let (width, height) = picture.dimensions();
    let (wide, high) = (height * SIZE.0 / SIZE.1, width * SIZE.1 / SIZE.0);
    let (width_kept, height_kept) = if wide <= width { (wide, height) } else { (width, high.min(height)) };
    let part = |all: u32, kept: u32| ((all - kept) * u32::from(from > 0.0)) / 2;
    let (left, top) = (part(width, width_kept), part(height, height_kept));
    let cut = imageops::crop_imm(picture, left, top, width_kept, height_kept).to_image();
    let whole = imageops::resize(&cut, SIZE.0, SIZE.1, FilterType::Lanczos3);
    let detail = imageops::crop_imm(&whole, detail.0, detail.1, DETAIL.0, DETAIL.1).to_image();
    Photograph { name, whole, detail }
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
/// Pixels of the page for one of a letter, and from line to line.
const LETTER: f32 = 3.4;
const LINE: f32 = 46.0;
/// How much the page is turned, in radians.
const TURN: f32 = 0.035;

/// The page: turned a little, lit from the left, out of focus by a pixel or so, with the grain of paper and sensor.
fn print() -> RgbImage {
    let (width, height) = (768, 576);
    let sharp = RgbImage::from_fn(width, height, |x, y| {
        let ink = inked(as_float(x), as_float(y));
        let light = 1.04 - 0.34 * as_float(x) / 768.0 - 0.12 * as_float(y) / 576.0;
        let grain = f32::from(noise(x, y)) / 255.0 - 0.5;
        let paper = [246.0, 238.0, 220.0];
        Rgb(paper.map(|channel: f32| narrow((channel * (1.0 - 0.86 * ink) + 14.0 * grain) * light)))
    });
    imageops::blur(&sharp, 1.1)
}

/// Whether there is ink at a place of the page: 0 or 1.
fn inked(x: f32, y: f32) -> f32 {
    let (x, y) = (x - 60.0, y - 34.0);
    let (across, down) = (x * TURN.cos() + y * TURN.sin(), y * TURN.cos() - x * TURN.sin());
    if across < 0.0 || down < 0.0 {
        return 0.0;
    }
    let (line, within) = (whole(down / LINE), whole(down % LINE / LETTER));
    let (letter, column) = (whole(across / LETTER) / ADVANCE, whole(across / LETTER) % ADVANCE);
    let text = LINES.get(line as usize).copied().unwrap_or_default();
    let covered =
        text.chars().nth(letter as usize).is_some_and(|letter| within < HEIGHT && covers(letter, column, within));
    if covered { 1.0 } else { 0.0 }
}

/// Noise that is the same at every run.
fn noise(x: u32, y: u32) -> u8 {
    let mixed = (x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca6b)).wrapping_mul(0xc2b2_ae35);
    (mixed ^ (mixed >> 15)).wrapping_mul(0x27d4_eb2f).to_be_bytes()[0]
}

#[expect(clippy::cast_precision_loss, reason = "less than a thousand pixels")]
fn as_float(pixels: u32) -> f32 {
    pixels as f32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places on the page are not negative")]
fn whole(number: f32) -> u32 {
    number as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
fn narrow(sample: f32) -> u8 {
    sample.clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_three_and_each_has_a_part_with_something_in_it() {
        for photograph in photographs().unwrap() {
            assert_eq!((photograph.whole.dimensions(), photograph.detail.dimensions()), (SIZE, DETAIL));
            let samples = photograph.detail.as_raw();
            let range = samples.iter().max().unwrap() - samples.iter().min().unwrap();
            assert!(range > 100, "{}: {range}", photograph.name);
        }
    }
}
