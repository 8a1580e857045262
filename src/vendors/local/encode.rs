//! Encoding of result pictures.

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageError, ImageResult};

use crate::domain::image::ImageFormat;
use crate::media::input::{Decoded, Pixels};

/// Quality of JPEG results, 1 to 100: no visible artefacts, a third of the size of 100.
const JPEG_QUALITY: u8 = 95;
/// Longest side of a JPEG in pixels.
const JPEG_SIDE_MAX: u32 = 65_535;

/// Encodes a picture. A JPEG input yields a JPEG (without chroma subsampling) if possible; everything else yields a
/// PNG, compressed for speed.
///
/// # Errors
/// If the encoder fails.
pub fn encode(picture: &Decoded, came_as: ImageFormat) -> ImageResult<(Vec<u8>, ImageFormat)> {
    let (width, height) = picture.dimensions();
    let mut bytes = Vec::new();

    match &picture.pixels {
        Pixels::Opaque(pixels) if came_as == ImageFormat::Jpeg && width.max(height) <= JPEG_SIDE_MAX => {
            let encoder = JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY);
            write(encoder, picture, pixels, ExtendedColorType::Rgb8)?;
            Ok((bytes, ImageFormat::Jpeg))
        }
        Pixels::Opaque(pixels) => {
            write(png(&mut bytes), picture, pixels, ExtendedColorType::Rgb8)?;
            Ok((bytes, ImageFormat::Png))
        }
        Pixels::Transparent(pixels) => {
            write(png(&mut bytes), picture, pixels, ExtendedColorType::Rgba8)?;
            Ok((bytes, ImageFormat::Png))
        }
    }
}

fn png(bytes: &mut Vec<u8>) -> PngEncoder<&mut Vec<u8>> {
    PngEncoder::new_with_quality(bytes, CompressionType::Fast, FilterType::Adaptive)
}

fn write(
    mut encoder: impl ImageEncoder,
    picture: &Decoded,
    pixels: &[u8],
    colours: ExtendedColorType,
) -> ImageResult<()> {
    if let Some(profile) = &picture.profile {
        encoder.set_icc_profile(profile.clone()).map_err(ImageError::Unsupported)?;
    }
    let (width, height) = picture.dimensions();
    encoder.write_image(pixels, width, height, colours)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::media::decoders::{Decoders, measure};

    #[test]
    fn jpeg_stays_jpeg_and_the_rest_becomes_png() {
        let picture = Decoded { pixels: sample::photo(16), profile: None };
        for format in ImageFormat::ALL {
            let (bytes, becomes) = encode(&picture, *format).unwrap();
            let expected = if *format == ImageFormat::Jpeg { ImageFormat::Jpeg } else { ImageFormat::Png };
            assert_eq!(becomes, expected);
            assert_eq!(measure(&bytes).unwrap().format, expected);
        }
    }

    #[test]
    fn transparency_and_profiles_survive() {
        let mut profile = vec![0; 200];
        profile[16..20].copy_from_slice(b"RGB ");
        let pixels = image::RgbaImage::from_pixel(3, 3, image::Rgba([9, 8, 7, 6]));
        let picture = Decoded { pixels: Pixels::Transparent(pixels), profile: Some(profile) };
        let (bytes, _) = encode(&picture, ImageFormat::Jpeg).unwrap();
        assert_eq!(Decoders::default().decode(&bytes).unwrap(), picture);
    }
}
