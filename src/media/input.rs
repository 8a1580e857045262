//! Pictures as clients send them: what is accepted, and the pixels of it.
//!
//! What is decided here:
//! - The format is what the bytes say, never what a data URI or a name claims.
//! - Size is checked from the header before a single pixel is decoded; then the whole picture is decoded, within a bound on
//!   memory, so that what is accepted can be worked on later. A JPEG must reach its end marker, because the decoder would
//!   fill a truncated one with grey.
//! - The EXIF orientation is applied: width and height are those of the upright picture.
//! - Of an animation the first frame counts, of a multi-page TIFF the first page.
//! - 16 bits a channel and floating point become 8 bits, grey becomes RGB, CMYK becomes RGB by the decoder's plain formula.
//! - Transparency is kept where any pixel has it; an RGB colour profile is kept beside the pixels.
//!
//! Both block the thread, so callers bound how many run at once. Inspecting takes the pixels as the file has them: 1 to 4
//! bytes a pixel where a channel has 8 bits, up to 16 for floating point. Decoding takes them and a copy of up to 4 bytes a
//! pixel while it converts and turns. Decoders are told to keep within 8 bytes a pixel and 64 MiB beside that.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageReader, Limits, RgbImage, RgbaImage};

use crate::domain::image::{INPUT_BYTES_MAX, INPUT_PIXELS_MAX, ImageFormat};
use crate::domain::value::Invalid;

pub use super::field::Given;
use super::field::too_many_bytes;

/// Largest colour profile that is kept, in bytes; display profiles have a few hundred to a few thousand.
const PROFILE_BYTES_MAX: usize = 1 << 20;

/// What decoders may allocate beside 8 bytes a pixel, in bytes.
const DECODER_SLACK: u64 = 64 << 20;

/// What is known of a picture that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inspected {
    pub format: ImageFormat,
    /// Width of the upright picture in pixels.
    pub width: u32,
    /// Height of the upright picture in pixels.
    pub height: u32,
}

/// The pixels of an upright picture.
#[derive(Debug, Clone, PartialEq)]
pub enum Pixels {
    /// No pixel is transparent.
    Opaque(RgbImage),
    /// At least one pixel is; colours are not multiplied by alpha.
    Transparent(RgbaImage),
}

/// A decoded picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    pub pixels: Pixels,
    /// The ICC profile of the colours; sRGB when there is none.
    pub profile: Option<Vec<u8>>,
}

impl Decoded {
    /// Width and height in pixels.
    #[must_use]
    pub fn dimensions(&self) -> (u32, u32) {
        match &self.pixels {
            Pixels::Opaque(pixels) => pixels.dimensions(),
            Pixels::Transparent(pixels) => pixels.dimensions(),
        }
    }
}

/// Reads the header: format and size, without decoding pixels.
///
/// # Errors
/// When the bytes are too many or no known picture, or the picture has no pixels or too many.
pub fn measure(bytes: &[u8]) -> Result<Inspected, Invalid> {
    guarded(|| open(bytes).map(|(inspected, _, _)| inspected))
}

/// Checks a picture whole: header, size, and that every pixel can be decoded.
///
/// # Errors
/// As [`measure`], and when the picture is truncated or damaged.
pub fn inspect(bytes: &[u8]) -> Result<Inspected, Invalid> {
    guarded(|| read_whole(bytes).map(|whole| whole.inspected))
}

/// Decodes a picture and sets it upright.
///
/// # Errors
/// As [`inspect`].
pub fn decode(bytes: &[u8]) -> Result<Decoded, Invalid> {
    guarded(|| {
        let Whole { picture, profile, orientation, .. } = read_whole(bytes)?;
        let mut picture = to_eight_bits(picture);
        picture.apply_orientation(orientation);
        let pixels = match picture {
            DynamicImage::ImageRgba8(pixels) => Pixels::Transparent(pixels),
            opaque => Pixels::Opaque(opaque.into_rgb8()),
        };
        Ok(Decoded { pixels, profile })
    })
}

/// A picture as its file has it.
struct Whole {
    inspected: Inspected,
    picture: DynamicImage,
    profile: Option<Vec<u8>>,
    orientation: Orientation,
}

fn read_whole(bytes: &[u8]) -> Result<Whole, Invalid> {
    let (inspected, mut decoder, orientation) = open(bytes)?;
    if inspected.format == ImageFormat::Jpeg && !reaches_its_end(bytes) {
        return Err(Invalid::new("is a truncated picture: the JPEG ends before its end marker"));
    }
    let profile = decoder.icc_profile().ok().flatten().filter(|profile| is_usable(profile));
    let picture = DynamicImage::from_decoder(decoder).map_err(|error| refusal(&error))?;
    Ok(Whole { inspected, picture, profile, orientation })
}

/// A decoder that panics on strange bytes refuses them.
fn guarded<T>(read: impl FnOnce() -> Result<T, Invalid>) -> Result<T, Invalid> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(Invalid::new("cannot be decoded: the file is damaged")))
}

fn open(bytes: &[u8]) -> Result<(Inspected, impl ImageDecoder + '_, Orientation), Invalid> {
    if bytes.len() > INPUT_BYTES_MAX {
        return Err(too_many_bytes());
    }
    let (format, codec) = format_of(bytes)?;
    let mut decoder =
        ImageReader::with_format(Cursor::new(bytes), codec).into_decoder().map_err(|error| refusal(&error))?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(Invalid::new("must have at least one pixel"));
    }
    if pixels > INPUT_PIXELS_MAX {
        let most = INPUT_PIXELS_MAX / 1_000_000;
        return Err(Invalid::new(format!("has {width}x{height} pixels; at most {most} million are allowed")));
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(pixels * 8 + DECODER_SLACK);
    decoder.set_limits(limits).map_err(|error| refusal(&error))?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let (width, height) = if is_turned(orientation) { (height, width) } else { (width, height) };
    Ok((Inspected { format, width, height }, decoder, orientation))
}

fn format_of(bytes: &[u8]) -> Result<(ImageFormat, image::ImageFormat), Invalid> {
    let codec = image::guess_format(bytes).ok();
    let format = match codec {
        Some(image::ImageFormat::Png) => Some(ImageFormat::Png),
        Some(image::ImageFormat::Jpeg) => Some(ImageFormat::Jpeg),
        Some(image::ImageFormat::WebP) => Some(ImageFormat::Webp),
        Some(image::ImageFormat::Gif) => Some(ImageFormat::Gif),
        Some(image::ImageFormat::Bmp) => Some(ImageFormat::Bmp),
        Some(image::ImageFormat::Tiff) => Some(ImageFormat::Tiff),
        _ => None,
    };
    format.zip(codec).ok_or_else(|| Invalid::new("must be a png, jpeg, webp, gif, bmp or tiff picture"))
}

fn refusal(error: &ImageError) -> Invalid {
    match error {
        ImageError::Limits(_) => Invalid::new("needs too much memory to be decoded"),
        ImageError::Unsupported(_) => Invalid::new(format!("cannot be decoded: {error}")),
        _ => Invalid::new(format!("cannot be decoded, the file is damaged or truncated: {error}")),
    }
}

const fn is_turned(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90 | Orientation::Rotate270 | Orientation::Rotate90FlipH | Orientation::Rotate270FlipH
    )
}

/// Whether the profile describes RGB, as the decoded pixels are.
fn is_usable(profile: &[u8]) -> bool {
    profile.len() <= PROFILE_BYTES_MAX && profile.get(16..20) == Some(b"RGB ")
}

/// RGBA where any pixel is transparent, else RGB.
fn to_eight_bits(picture: DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return picture.into_rgb8().into();
    }
    let pixels = picture.into_rgba8();
    let opaque = pixels.pixels().all(|pixel| pixel.0[3] == u8::MAX);
    let picture = DynamicImage::from(pixels);
    if opaque { picture.into_rgb8().into() } else { picture }
}

/// Walks the segments of a JPEG to its end marker. A thumbnail's end marker inside a segment does not count.
fn reaches_its_end(jpeg: &[u8]) -> bool {
    let mut at = 2;
    loop {
        let Some(offset) = jpeg.get(at..).and_then(|rest| rest.windows(2).position(is_marker)) else { return false };
        at += offset + 2;
        match jpeg[at - 1] {
            0xD9 => return true,
            0x01 => {}
            _ => match jpeg.get(at..at + 2) {
                Some(length) => at += usize::from(u16::from_be_bytes([length[0], length[1]])),
                None => return false,
            },
        }
    }
}

/// Stuffed zeros, fill bytes and restarts stand in the compressed data and begin no segment.
fn is_marker(pair: &[u8]) -> bool {
    pair[0] == 0xFF && !matches!(pair[1], 0x00 | 0xFF | 0xD0..=0xD7)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use image::codecs::gif::GifEncoder;
    use image::codecs::jpeg::JpegEncoder;
    use image::{Delay, ExtendedColorType, Frame, ImageBuffer, ImageEncoder, Rgb, Rgba};

    use super::*;

    fn gradient(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| Rgb([x * 7, y * 11, x + y].map(|value| value.to_le_bytes()[0])))
    }

    fn encoded(picture: impl Into<DynamicImage>, codec: image::ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        picture.into().write_to(&mut bytes, codec).unwrap();
        bytes.into_inner()
    }

    /// The start of an EXIF block that says how to turn the picture.
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
    fn every_format_is_known_by_its_content() {
        for (codec, format) in CODECS {
            let bytes = encoded(gradient(20, 10), codec);
            assert_eq!(inspect(&bytes), Ok(Inspected { format, width: 20, height: 10 }), "{format:?}");
        }
    }

    #[test]
    fn a_truncated_file_is_refused_whatever_its_format() {
        for (codec, format) in CODECS {
            let bytes = encoded(gradient(40, 30), codec);
            for share in [2, 5, 9] {
                let cut = &bytes[..bytes.len() * share / 10];
                assert!(inspect(cut).is_err(), "{format:?} cut to {share} tenths");
            }
        }
    }

    #[test]
    fn damaged_files_never_panic() {
        for (codec, _) in CODECS {
            let bytes = encoded(gradient(16, 16), codec);
            for at in 0..bytes.len().min(120) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0xFF;
                let _ = inspect(&damaged);
            }
        }
    }

    #[test]
    fn what_is_no_picture_is_refused_with_the_formats() {
        for bytes in [&b""[..], b"x", b"<svg/>", b"%PDF-1.4"] {
            assert_eq!(inspect(bytes).unwrap_err().to_string(), "must be a png, jpeg, webp, gif, bmp or tiff picture");
        }
    }

    #[test]
    fn size_is_refused_from_the_header_alone() {
        // A PNG that claims 20000x20000 pixels and has none of them.
        let mut bytes = encoded(gradient(1, 1), image::ImageFormat::Png);
        bytes[16..24].copy_from_slice(&[0, 0, 0x4E, 0x20, 0, 0, 0x4E, 0x20]);
        let checksum = crc32(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(inspect(&bytes).unwrap_err().to_string(), "has 20000x20000 pixels; at most 100 million are allowed");
    }

    /// The checksum of PNG chunks.
    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
        })
    }

    #[test]
    fn pictures_are_set_upright() {
        let mut bytes = Vec::new();
        let mut encoder = JpegEncoder::new_with_quality(&mut bytes, 100);
        encoder.set_exif_metadata(exif(6)).unwrap();
        let lying = RgbImage::from_fn(32, 16, |x, _| if x < 16 { Rgb([255, 0, 0]) } else { Rgb([0, 0, 255]) });
        encoder.write_image(&lying, 32, 16, ExtendedColorType::Rgb8).unwrap();

        let inspected = inspect(&bytes).unwrap();
        let Pixels::Opaque(upright) = decode(&bytes).unwrap().pixels else { panic!("no pixel is transparent") };

        assert_eq!((inspected.width, inspected.height), (16, 32));
        assert_eq!(upright.dimensions(), (16, 32));
        // Turned clockwise, the left half comes to the top.
        assert!(upright.get_pixel(8, 4).0[0] > 200 && upright.get_pixel(8, 28).0[2] > 200);
    }

    #[test]
    fn of_an_animation_the_first_frame_counts() {
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
        let Pixels::Opaque(pixels) = decode(&encoded(deep, image::ImageFormat::Png)).unwrap().pixels else {
            panic!("no pixel is transparent")
        };
        assert_eq!(pixels.get_pixel(0, 0).0, [0x80; 3]);
    }

    #[test]
    fn transparency_is_kept_where_there_is_any() {
        let mut picture = RgbaImage::from_pixel(4, 4, Rgba([10, 20, 30, 255]));
        let opaque = decode(&encoded(picture.clone(), image::ImageFormat::Png)).unwrap();
        assert!(matches!(opaque.pixels, Pixels::Opaque(_)));
        picture.put_pixel(1, 1, Rgba([10, 20, 30, 7]));
        let transparent = decode(&encoded(picture.clone(), image::ImageFormat::Png)).unwrap();
        assert_eq!(transparent.pixels, Pixels::Transparent(picture));
    }

    #[test]
    fn cmyk_becomes_rgb() {
        // A one-pixel CMYK TIFF (one byte a channel, uncompressed): cyan.
        let mut tiff = b"II*\x00\x08\x00\x00\x00".to_vec();
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
        assert!(is_usable(&profile));
        profile[16..20].copy_from_slice(b"CMYK");
        assert!(!is_usable(&profile) && !is_usable(b"short"));
    }
}
