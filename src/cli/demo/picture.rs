//! Picture that the demo upscales: hills before an evening sky, computed here.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};

const WIDTH: u32 = 192;
const HEIGHT: u32 = 128;
/// Samples per side of a pixel.
const GRID: u32 = 4;

/// Position (x, y) and radius of the sun in pixels.
const SUN: (f32, f32, f32) = (132.0, 58.0, 17.0);
/// Ridges from far to near: distance from the top, width and height of their waves, all in pixels, and colour.
const RIDGES: [(f32, f32, f32, [f32; 3]); 4] = [
    (78.0, 31.0, 5.0, [150.0, 108.0, 132.0]),
    (90.0, 23.0, 6.0, [104.0, 76.0, 110.0]),
    (103.0, 17.0, 5.0, [62.0, 52.0, 82.0]),
    (116.0, 12.0, 4.0, [26.0, 26.0, 46.0]),
];

/// Encodes the picture as PNG.
///
/// # Errors
/// If encoding fails.
pub(super) fn png() -> anyhow::Result<Vec<u8>> {
    let picture = RgbImage::from_fn(WIDTH, HEIGHT, |x, y| Rgb(colour(x, y)));
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, ImageFormat::Png)?;
    Ok(file.into_inner())
}

/// Returns the colour of a pixel: the mean over a grid of samples inside it, for smooth edges.
#[expect(clippy::cast_precision_loss, reason = "a few hundred pixels")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "colours from 0 to 255")]
fn colour(x: u32, y: u32) -> [u8; 3] {
    let sample_position = |pixel: u32, sample: u32| pixel as f32 + (sample as f32 + 0.5) / GRID as f32 - 0.5;
    let mut sum = [0.0; 3];
    for (down, across) in (0..GRID).flat_map(|down| (0..GRID).map(move |across| (down, across))) {
        let point = colour_at(sample_position(x, across), sample_position(y, down));
        sum = std::array::from_fn(|channel| sum[channel] + point[channel]);
    }
    sum.map(|channel| (channel / (GRID * GRID) as f32).round() as u8)
}

fn colour_at(x: f32, y: f32) -> [f32; 3] {
    let ridge = RIDGES.iter().rfind(|(level, wave, height, _)| {
        let crest = (x / wave).sin() + 0.4 * (x / wave * 2.7 + level).sin();
        y > level - height * crest
    });
    ridge.map_or_else(|| sky(x, y), |(_, _, _, colour)| *colour).map(|channel| channel.clamp(0.0, 255.0))
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred pixels")]
fn sky(x: f32, y: f32) -> [f32; 3] {
    let (sun_x, sun_y, radius) = SUN;
    let distance = (x - sun_x).hypot(y - sun_y);
    if distance < radius {
        return [255.0, 236.0, 178.0];
    }
    let dusk = y / HEIGHT as f32;
    let glow = 60.0 * (-(distance - radius) / 28.0).exp();
    [54.0 + 250.0 * dusk + glow, 74.0 + 110.0 * dusk + glow, 128.0 + 40.0 * dusk + 0.4 * glow]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_small_and_shows_a_sun_and_hills() {
        let file = png().unwrap();
        let picture = image::load_from_memory(&file).unwrap().into_rgb8();
        assert_eq!(picture.dimensions(), (WIDTH, HEIGHT));
        assert_eq!(picture.get_pixel(132, 58).0, [255, 236, 178], "the sun");
        assert_eq!(picture.get_pixel(0, HEIGHT - 1).0, [26, 26, 46], "the nearest hill");
        assert!(file.len() < 64 * 1024, "{} bytes", file.len());
    }
}
