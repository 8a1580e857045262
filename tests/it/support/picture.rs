//! Generated pictures for tests.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, Rgb, RgbImage};

/// Returns a picture with gradients, an edge and some texture.
pub fn scene(width: u32, height: u32) -> RgbImage {
    let level = |value: u32| u8::try_from(value).expect("at most 255");
    RgbImage::from_fn(width, height, |x, y| {
        let edge = if x > width / 2 { 60 } else { 0 };
        let texture = (x * 7 + y * 13) % 5 * 6;
        Rgb([level(x * 180 / width + edge), level(y * 200 / height + texture), level(90 + texture)])
    })
}

/// Returns the [`scene`] as a PNG file.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    encoded(width, height, ImageFormat::Png)
}

/// Returns the [`scene`] as a file in `format`.
pub fn encoded(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    scene(width, height).write_to(&mut bytes, format).expect("a picture can be encoded");
    bytes.into_inner()
}

/// Returns the [`scene`] as a PNG file in base64.
pub fn base64_png(width: u32, height: u32) -> String {
    STANDARD.encode(png(width, height))
}
