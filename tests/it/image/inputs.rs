//! Input pictures of every kind, from the submission to the result, as docs/images.md describes them.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::{
    Delay, DynamicImage, ExtendedColorType, Frame, ImageBuffer, ImageEncoder, ImageFormat, Luma, Rgb, RgbImage, Rgba,
    RgbaImage,
};
use serde_json::json;

use super::{UPSCALER, upscaled};
use crate::support::TestApp;
use crate::support::picture::{encoded, png};

fn file(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, format).expect("a picture can be encoded");
    bytes.into_inner()
}

/// Returns the picture that results from doubling the file.
async fn doubled(bytes: &[u8]) -> DynamicImage {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let result = upscaled(&app, &alice, json!({"image": STANDARD.encode(bytes)})).await;
    app.stop().await;
    image::load_from_memory(&result).expect("a picture")
}

/// Submits a file that is rejected; returns the reason.
async fn rejection_reason(bytes: &[u8]) -> String {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    let body = json!({"image": STANDARD.encode(bytes)});
    let problem = app.post_as(&alice.token, UPSCALER, body).await.expect(400).json();
    app.stop().await;
    assert_eq!(problem["errors"][0]["pointer"], "/image", "{problem}");
    problem["errors"][0]["reason"].as_str().expect("a reason").to_owned()
}

#[actix_web::test]
async fn every_input_format_gives_a_result() {
    let app = TestApp::start().await;
    let alice = app.user("alice").await;
    for format in
        [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Bmp, ImageFormat::Tiff]
    {
        let result = upscaled(&app, &alice, json!({"image": STANDARD.encode(encoded(12, 8, format))})).await;
        let picture = image::load_from_memory(&result).expect("a picture");
        assert_eq!((picture.width(), picture.height()), (24, 16), "{format:?}");
    }
    app.stop().await;
}

#[actix_web::test]
async fn exif_orientation_is_applied() {
    // Given a JPEG lying on its side, red on its left, whose EXIF orientation turns it clockwise
    let mut exif = b"MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00".to_vec();
    exif.extend([6, 0, 0, 0, 0, 0, 0]);
    let mut bytes = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, 100);
    encoder.set_exif_metadata(exif).unwrap();
    let rotated = RgbImage::from_fn(32, 16, |x, _| if x < 16 { Rgb([255, 0, 0]) } else { Rgb([0, 0, 255]) });
    encoder.write_image(&rotated, 32, 16, ExtendedColorType::Rgb8).unwrap();

    // When it is enlarged
    let result = doubled(&bytes).await.into_rgb8();

    // Then the result is upright, red at its top
    assert_eq!(result.dimensions(), (32, 64));
    assert!(result.get_pixel(16, 8).0[0] > 200 && result.get_pixel(16, 56).0[2] > 200);
}

#[actix_web::test]
async fn transparency_is_kept() {
    let half = RgbaImage::from_fn(16, 16, |x, _| Rgba([200, 100, 50, if x < 8 { 0 } else { 255 }]));
    let result = doubled(&file(half, ImageFormat::Png)).await;
    assert!(result.color().has_alpha());
    let result = result.into_rgba8();
    assert_eq!((result.get_pixel(2, 16).0[3], result.get_pixel(29, 16).0[3]), (0, 255));
}

#[actix_web::test]
async fn sixteen_bits_become_eight_and_grey_becomes_rgb() {
    let deep = ImageBuffer::<Luma<u16>, _>::from_pixel(16, 16, Luma([0x80FF]));
    let result = doubled(&file(deep, ImageFormat::Png)).await;
    assert_eq!(result.color(), image::ColorType::Rgb8);
    let middle = result.into_rgb8().get_pixel(16, 16).0;
    assert!(middle.iter().all(|level| level.abs_diff(0x80) <= 2), "{middle:?}");
}

#[actix_web::test]
async fn the_first_frame_of_an_animation_is_used() {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    for colour in [[255, 0, 0, 255], [0, 255, 0, 255]] {
        let frame = ImageBuffer::from_pixel(16, 16, Rgba(colour));
        encoder.encode_frame(Frame::from_parts(frame, 0, 0, Delay::from_numer_denom_ms(100, 1))).unwrap();
    }
    drop(encoder);
    let middle = doubled(&bytes).await.into_rgb8().get_pixel(16, 16).0;
    assert!(middle[0] > 200 && middle[1] < 50, "{middle:?}");
}

/// Returns a JPEG of 8x8 pixels in CMYK, all cyan: levels are inverted, as is usual in such files.
fn cyan_jpeg() -> Vec<u8> {
    let mut jpeg = vec![0xFF, 0xD8];
    let mut segment = |marker: u8, payload: &[u8]| {
        let length = u16::try_from(payload.len() + 2).unwrap().to_be_bytes();
        jpeg.extend([&[0xFF, marker][..], &length, payload].concat());
    };
    segment(0xEE, b"Adobe\x00\x64\x00\x00\x00\x00\x00");
    segment(0xDB, &[&[0][..], &[8; 64]].concat());
    let channels: Vec<u8> = (1..=4).flat_map(|id| [id, 0x11, 0]).collect();
    segment(0xC0, &[&[8, 0, 8, 0, 8, 4][..], &channels].concat());
    // One code of one bit each: a difference of seven bits, and the end of a block.
    let one_code = |class: u8, symbol: u8| [&[class, 1][..], &[0; 15], &[symbol]].concat();
    segment(0xC4, &one_code(0x00, 7));
    segment(0xC4, &one_code(0x10, 0));
    segment(0xDA, &[4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0]);
    // 0 0000000 0 for full ink, 0 1111111 0 for none, padded with ones.
    jpeg.extend([0x00, 0x3F, 0x9F, 0xCF, 0xEF, 0xFF, 0xD9]);
    jpeg
}

#[actix_web::test]
async fn cmyk_becomes_rgb() {
    let middle = doubled(&cyan_jpeg()).await.into_rgb8().get_pixel(8, 8).0;
    assert!(middle[0] < 20 && middle[1] > 235 && middle[2] > 235, "{middle:?}");
}

#[actix_web::test]
async fn a_decompression_bomb_is_refused_by_its_header() {
    // A PNG of a few bytes that declares 20000x20000 pixels.
    let mut bytes = png(1, 1);
    bytes[16..24].copy_from_slice(&[0, 0, 0x4E, 0x20, 0, 0, 0x4E, 0x20]);
    let checksum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(rejection_reason(&bytes).await, "has 20000x20000 pixels; at most 100 million are allowed");
}

/// Returns the checksum of PNG chunks.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[actix_web::test]
async fn a_truncated_file_is_refused() {
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif] {
        let full_file = encoded(40, 30, format);
        let reason = rejection_reason(&full_file[..full_file.len() * 9 / 10]).await;
        assert!(reason.contains("truncated"), "{format:?}: {reason}");
    }
}
