//! Encoding of result pictures.

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageError, ImageResult};

use crate::picture::{DecodedPicture, Pixels};

/// Quality of JPEG results, 1 to 100: no visible artefacts, a third of the size that 100 gives.
const JPEG_QUALITY: u8 = 95;
/// Longest side of a JPEG in pixels.
const JPEG_SIDE_MAX: u32 = 65_535;

/// File format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFormat {
    /// JPEG without chroma subsampling.
    Jpeg,
    /// PNG, compressed for speed.
    Png,
}

/// Encodes a picture and returns the bytes and their format: PNG instead of a preferred JPEG if the picture is
/// transparent or too large.
///
/// # Errors
/// If the encoder fails.
pub fn encode(picture: &DecodedPicture, preferred: ResultFormat) -> ImageResult<(Vec<u8>, ResultFormat)> {
    let (width, height) = picture.dimensions();
    let mut bytes = Vec::new();

    match &picture.pixels {
        Pixels::Opaque(pixels) if preferred == ResultFormat::Jpeg && width.max(height) <= JPEG_SIDE_MAX => {
            let encoder = JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY);
            write_pixels(encoder, picture, pixels, ExtendedColorType::Rgb8)?;
            Ok((bytes, ResultFormat::Jpeg))
        }
        Pixels::Opaque(pixels) => {
            write_pixels(png_encoder(&mut bytes), picture, pixels, ExtendedColorType::Rgb8)?;
            Ok((bytes, ResultFormat::Png))
        }
        Pixels::Transparent(pixels) => {
            write_pixels(png_encoder(&mut bytes), picture, pixels, ExtendedColorType::Rgba8)?;
            Ok((bytes, ResultFormat::Png))
        }
    }
}

fn png_encoder(bytes: &mut Vec<u8>) -> PngEncoder<&mut Vec<u8>> {
    PngEncoder::new_with_quality(bytes, CompressionType::Fast, FilterType::Adaptive)
}

/// Writes the pixels of a picture with its ICC profile.
fn write_pixels(
    mut encoder: impl ImageEncoder,
    picture: &DecodedPicture,
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
    use super::*;
    use crate::test_pictures;

    const FORMATS: [ResultFormat; 2] = [ResultFormat::Jpeg, ResultFormat::Png];

    fn decode_profile_and_pixels(png: &[u8]) -> (Option<Vec<u8>>, image::DynamicImage) {
        let reader = image::ImageReader::new(std::io::Cursor::new(png)).with_guessed_format().unwrap();
        let mut decoder = reader.into_decoder().unwrap();
        let profile = image::ImageDecoder::icc_profile(&mut decoder).unwrap();
        (profile, image::DynamicImage::from_decoder(decoder).unwrap())
    }

    #[test]
    fn an_opaque_picture_gets_the_preferred_format() {
        let picture = DecodedPicture { pixels: test_pictures::photo(16), profile: None };
        for (preferred, codec) in FORMATS.into_iter().zip([image::ImageFormat::Jpeg, image::ImageFormat::Png]) {
            let (bytes, format) = encode(&picture, preferred).unwrap();
            assert_eq!((format, image::guess_format(&bytes).unwrap()), (preferred, codec));
        }
    }

    #[test]
    fn transparency_and_profiles_survive() {
        let mut profile = vec![0; 200];
        profile[16..20].copy_from_slice(b"RGB ");
        let pixels = image::RgbaImage::from_pixel(3, 3, image::Rgba([9, 8, 7, 6]));
        let picture = DecodedPicture { pixels: Pixels::Transparent(pixels.clone()), profile: Some(profile.clone()) };
        for preferred in FORMATS {
            let (bytes, format) = encode(&picture, preferred).unwrap();
            assert_eq!(format, ResultFormat::Png);
            assert_eq!(decode_profile_and_pixels(&bytes), (Some(profile.clone()), pixels.clone().into()));
        }
    }
}
