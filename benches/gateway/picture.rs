//! Small pictures, all different, and the submissions that contain them.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{ImageFormat, Rgb, RgbImage};

use crate::http::request;
use crate::service::TOKEN;

/// Side in pixels.
const SIDE: u32 = 48;
const PATH: &str = "/proxy/imagevendor/v1/ai/image-upscaler";

/// Returns a PNG file whose colours are unique to `index`.
pub fn png(index: usize) -> Vec<u8> {
    let [red, green, blue, ..] = index.to_le_bytes();
    let colour = |x: u32, y: u32| {
        let along = u8::try_from(4 * (x + y) % 256).unwrap_or_default();
        if (x / 8 + y / 8).is_multiple_of(2) { Rgb([red, green, along]) } else { Rgb([along, red, blue]) }
    };
    let mut bytes = Cursor::new(Vec::new());
    RgbImage::from_fn(SIDE, SIDE, colour).write_to(&mut bytes, ImageFormat::Png).expect("writing to memory succeeds");
    bytes.into_inner()
}

/// Returns the picture of `index` as base64.
pub fn base64_png(index: usize) -> String {
    STANDARD.encode(png(index))
}

/// Returns a complete HTTP request that submits the picture of `index`. `webhook` is the URL of its webhook.
pub fn submission(index: usize, webhook: &str) -> Vec<u8> {
    let body = serde_json::json!({"image": base64_png(index), "webhook_url": webhook});
    request("POST", PATH, TOKEN, &body.to_string())
}
