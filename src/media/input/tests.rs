//! Tests of every format, of damaged files, and of the memory limits.

use std::io::Write as _;

use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::{Delay, ExtendedColorType, Frame, ImageBuffer, ImageEncoder, Rgb, RgbImage, Rgba, RgbaImage};

use super::*;
use crate::media::decoders::{PictureDecodeError, PictureDecoders};

fn inspect(bytes: &[u8]) -> Result<PictureInfo, InvalidValue> {
    PictureDecoders::default().inspect(bytes).map_err(invalid_reason)
}

fn decode(bytes: &[u8]) -> Result<DecodedPicture, InvalidValue> {
    PictureDecoders::default().decode(bytes).map_err(invalid_reason)
}

fn invalid_reason(error: PictureDecodeError) -> InvalidValue {
    let PictureDecodeError::Invalid(reason) = error else { panic!("the budget is in use") };
    reason
}

fn gradient(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([x * 7, y * 11, x + y].map(|value| value.to_le_bytes()[0])))
}

fn encode(picture: impl Into<DynamicImage>, codec: image::ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, codec).unwrap();
    bytes.into_inner()
}

/// Returns an EXIF block with this orientation.
fn exif(orientation: u8) -> Vec<u8> {
    let mut exif = b"MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
    exif
}

const CODECS: [(image::ImageFormat, ImageFormat); 6] = [
    (image::ImageFormat::Png, ImageFormat::Png),
    (image::ImageFormat::Jpeg, ImageFormat::Jpeg),
    (image::ImageFormat::WebP, ImageFormat::Webp),
    (image::ImageFormat::Gif, ImageFormat::Gif),
    (image::ImageFormat::Bmp, ImageFormat::Bmp),
    (image::ImageFormat::Tiff, ImageFormat::Tiff),
];

#[test]
fn every_format_is_detected_from_its_content() {
    for (codec, format) in CODECS {
        let bytes = encode(gradient(20, 10), codec);
        assert_eq!(inspect(&bytes), Ok(PictureInfo { format, width: 20, height: 10 }), "{format:?}");
    }
}

#[test]
fn a_truncated_file_of_any_format_is_rejected() {
    for (codec, format) in CODECS {
        let bytes = encode(gradient(40, 30), codec);
        for tenths in [2, 5, 9] {
            let cut = &bytes[..bytes.len() * tenths / 10];
            assert!(inspect(cut).is_err(), "{format:?} cut to {tenths} tenths");
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    for (codec, _) in CODECS {
        let bytes = encode(gradient(16, 16), codec);
        for at in 0..bytes.len().min(120) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xFF;
            let _ = inspect(&damaged);
        }
    }
}

#[test]
fn other_files_are_rejected_with_the_list_of_formats() {
    for bytes in [&b""[..], b"x", b"<svg/>", b"%PDF-1.4"] {
        assert_eq!(inspect(bytes).unwrap_err().to_string(), "must be a PNG, JPEG, WebP, GIF, BMP or TIFF picture");
    }
}

#[test]
fn excessive_size_is_rejected_from_the_header_alone() {
    // A PNG that announces 20000x20000 pixels but has none.
    let mut bytes = encode(gradient(1, 1), image::ImageFormat::Png);
    bytes[16..24].copy_from_slice(&[0, 0, 0x4E, 0x20, 0, 0, 0x4E, 0x20]);
    let checksum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(inspect(&bytes).unwrap_err().to_string(), "has 20000x20000 pixels; at most 100 million are allowed");
}

/// Returns the checksum of PNG chunks.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn exif_orientation_is_applied() {
    let mut bytes = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, 100);
    encoder.set_exif_metadata(exif(6)).unwrap();
    let rotated = RgbImage::from_fn(32, 16, |x, _| if x < 16 { Rgb([255, 0, 0]) } else { Rgb([0, 0, 255]) });
    encoder.write_image(&rotated, 32, 16, ExtendedColorType::Rgb8).unwrap();

    let inspected = inspect(&bytes).unwrap();
    let Pixels::Opaque(upright) = decode(&bytes).unwrap().pixels else { panic!("no pixel is transparent") };

    assert_eq!((inspected.width, inspected.height), (16, 32));
    assert_eq!(upright.dimensions(), (16, 32));
    // After a clockwise turn, the left half is at the top.
    assert!(upright.get_pixel(8, 4).0[0] > 200 && upright.get_pixel(8, 28).0[2] > 200);
}

#[test]
fn only_the_first_frame_of_an_animation_is_used() {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    for colour in [[255, 0, 0, 255], [0, 255, 0, 255]] {
        let frame = ImageBuffer::from_pixel(4, 4, Rgba(colour));
        encoder.encode_frame(Frame::from_parts(frame, 0, 0, Delay::from_numer_denom_ms(100, 1))).unwrap();
    }
    drop(encoder);
    let Pixels::Opaque(first) = decode(&bytes).unwrap().pixels else { panic!("no pixel is transparent") };
    assert_eq!(first.get_pixel(1, 1).0, [255, 0, 0]);
}

#[test]
fn sixteen_bits_become_eight_and_grey_becomes_rgb() {
    let deep = ImageBuffer::<image::Luma<u16>, _>::from_pixel(3, 2, image::Luma([0x80FF]));
    let Pixels::Opaque(pixels) = decode(&encode(deep, image::ImageFormat::Png)).unwrap().pixels else {
        panic!("no pixel is transparent")
    };
    assert_eq!(pixels.get_pixel(0, 0).0, [0x80; 3]);
}

#[test]
fn transparency_is_kept_if_any_pixel_has_it() {
    let mut picture = RgbaImage::from_pixel(4, 4, Rgba([10, 20, 30, 255]));
    let opaque = decode(&encode(picture.clone(), image::ImageFormat::Png)).unwrap();
    assert!(matches!(opaque.pixels, Pixels::Opaque(_)));
    picture.put_pixel(1, 1, Rgba([10, 20, 30, 7]));
    let transparent = decode(&encode(picture.clone(), image::ImageFormat::Png)).unwrap();
    assert_eq!(transparent.pixels, Pixels::Transparent(picture));
}

#[test]
fn cmyk_becomes_rgb() {
    // A one-pixel CMYK TIFF (one byte a channel, uncompressed): cyan.
    let mut tiff = b"II*\x00\x08\x00\x00\x00".to_vec();
    // Tag, type, number of values, and value or offset.
    let entries: [(u16, u16, u32, u32); 10] = [
        (256, 3, 1, 1),
        (257, 3, 1, 1),
        (258, 3, 4, 134),
        (259, 3, 1, 1),
        (262, 3, 1, 5),
        (273, 4, 1, 142),
        (277, 3, 1, 4),
        (278, 3, 1, 1),
        (279, 4, 1, 4),
        (284, 3, 1, 1),
    ];

    tiff.extend(10_u16.to_le_bytes());

    for (tag, kind, count, value) in entries {
        tiff.extend(tag.to_le_bytes());
        tiff.extend(kind.to_le_bytes());
        tiff.extend(count.to_le_bytes());
        tiff.extend(value.to_le_bytes());
    }

    tiff.extend([0; 4]);
    tiff.extend([8u16; 4].iter().flat_map(|bits| bits.to_le_bytes()));
    tiff.write_all(&[255, 0, 0, 0]).unwrap();

    let Pixels::Opaque(pixels) = decode(&tiff).unwrap().pixels else { panic!("no pixel is transparent") };
    assert_eq!(pixels.get_pixel(0, 0).0, [0, 255, 255]);
}

#[test]
fn only_rgb_profiles_are_kept() {
    let mut profile = vec![0; 128];
    profile[16..20].copy_from_slice(b"RGB ");
    assert!(is_usable_profile(&profile));
    profile[16..20].copy_from_slice(b"CMYK");
    assert!(!is_usable_profile(&profile) && !is_usable_profile(b"short"));
}

#[test]
fn sizes_that_overflow_the_memory_estimate_are_rejected_by_pixel_count() {
    // Found by fuzzing: the memory for the rows was computed before the number of pixels was checked.
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    png.extend([0x7e, 0, 0, 0, 0x7e, 0, 0, 0, 16, 6, 0, 0, 0, 0, 0, 0, 0]);
    png.extend(b"\0\0\0\0IDAT\0\0\0\0");
    let mut tiff = b"II\x2a\0\x08\0\0\0\x03\0".to_vec();
    for (tag, value) in [(256_u16, u32::MAX), (257, u32::MAX), (277, u32::MAX)] {
        tiff.extend(tag.to_le_bytes());
        tiff.extend([4, 0, 1, 0, 0, 0]);
        tiff.extend(value.to_le_bytes());
    }
    tiff.extend([0; 4]);

    for bytes in [png, tiff] {
        let message = inspect(&bytes).expect_err("too many pixels").to_string();
        assert!(message.contains("at most 100 million are allowed"), "{message}");
    }
}
