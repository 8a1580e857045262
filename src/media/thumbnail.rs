//! Small versions of pictures for lists: made on demand, and kept in memory up to a number of bytes.
//!
//! Their decoders have a budget of their own, so that lists delay neither submissions nor jobs.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::imageops::thumbnail;
use image::{ExtendedColorType, ImageBuffer, ImageEncoder};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::decoders::{PictureDecodeError, PictureDecoders};
use super::input::{DecodedPicture, Pixels};
use crate::domain::image::INPUT_BYTES_MAX;
use crate::domain::value::{Digest, named_values};

named_values! {
    /// Size of a thumbnail.
    ThumbnailSize {
        /// For rows of a list.
        Small = "small",
        /// For cards.
        Large = "large",
    }
}

impl ThumbnailSize {
    /// Returns the maximum width and height in pixels.
    const fn side_max(self) -> u32 {
        match self {
            Self::Small => 128,
            Self::Large => 400,
        }
    }
}

/// Maximum size of the cached thumbnails in bytes.
const CACHE_BYTES_MAX: u64 = 32 << 20;
/// Usual size of a thumbnail in bytes, from which the cache estimates how many it will hold.
const USUAL_BYTES: u64 = 16 << 10;
/// Size of a cache entry in bytes, without its thumbnail.
const ENTRY_BYTES: u64 = 128;
/// Size in bytes below which a file is its own thumbnail.
const FILE_BYTES_MIN: u64 = 8 * 1024;
/// Quality of the JPEG files, from 1 to 100.
const QUALITY: u8 = 78;
/// Longest wait for the memory of the decoders.
const DECODE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Encoded thumbnail.
#[derive(Debug, Clone)]
pub struct ThumbnailFile {
    /// Content of the file.
    pub bytes: Bytes,
    /// PNG for pictures with transparent pixels, otherwise JPEG.
    pub media_type: &'static str,
}

/// Thumbnail; `None` if the picture is small or cannot be decoded, and so stands for itself.
pub type Thumbnail = Option<ThumbnailFile>;

/// Reason why no thumbnail can be made now.
#[derive(Debug, thiserror::Error)]
pub enum ThumbnailError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The decoders are busy.
    #[error("the memory for decoding pictures is in use")]
    Busy,
}

type ThumbnailKey = (Digest, ThumbnailSize);

/// Weighs thumbnails by their bytes.
#[derive(Debug, Clone)]
struct ThumbnailWeight;

impl Weighter<ThumbnailKey, Thumbnail> for ThumbnailWeight {
    fn weight(&self, _: &ThumbnailKey, thumbnail: &Thumbnail) -> u64 {
        ENTRY_BYTES + thumbnail.as_ref().map_or(0, |file| file.bytes.len() as u64)
    }
}

/// Thumbnails that were requested last. Cheap to clone.
#[derive(Clone)]
pub struct Thumbnails {
    cache: Arc<Cache<ThumbnailKey, Thumbnail, ThumbnailWeight>>,
    decoders: PictureDecoders,
}

impl Thumbnails {
    /// Creates an empty cache, with decoders that use at most `memory` bytes. A picture that needs more stands for itself.
    #[must_use]
    pub fn new(memory: u64) -> Self {
        let items = usize::try_from(CACHE_BYTES_MAX / USUAL_BYTES).unwrap_or(usize::MAX);
        Self {
            cache: Arc::new(Cache::with_weighter(items, CACHE_BYTES_MAX, ThumbnailWeight)),
            decoders: PictureDecoders::with_wait(memory, DECODE_WAIT_MAX),
        }
    }

    /// Returns a thumbnail that was made before.
    #[must_use]
    pub fn get(&self, digest: Digest, size: ThumbnailSize) -> Option<Thumbnail> {
        self.cache.get(&(digest, size))
    }

    /// Makes the thumbnail of a file, unless another request has made it or is making it. Blocks.
    ///
    /// # Errors
    /// If the file cannot be read, or the decoders are busy.
    pub fn make(&self, path: &Path, digest: Digest, size: ThumbnailSize) -> Result<Thumbnail, ThumbnailError> {
        self.cache.get_or_insert_with(&(digest, size), || self.create(path, size))
    }

    fn create(&self, path: &Path, size: ThumbnailSize) -> Result<Thumbnail, ThumbnailError> {
        let length = fs::metadata(path)?.len();
        if !(FILE_BYTES_MIN..=INPUT_BYTES_MAX as u64).contains(&length) {
            return Ok(None);
        }

        match self.decoders.decode(&fs::read(path)?) {
            Ok(picture) => Ok(Some(encode(reduce(picture, size.side_max()))?)),
            Err(PictureDecodeError::Busy) => Err(ThumbnailError::Busy),
            Err(PictureDecodeError::Invalid(_)) => Ok(None),
        }
    }
}

/// Reduces a picture to at most `side_max` pixels of width and height.
fn reduce(picture: DecodedPicture, side_max: u32) -> DecodedPicture {
    let (width, height) = picture.dimensions();
    let longest = width.max(height).max(1);
    let scaled = |side: u32| {
        let scaled = u64::from(side) * u64::from(side_max.min(longest)) / u64::from(longest);
        u32::try_from(scaled).unwrap_or(side_max).max(1)
    };

    let (width, height) = (scaled(width), scaled(height));
    let pixels = match picture.pixels {
        Pixels::Opaque(pixels) => Pixels::Opaque(thumbnail(&pixels, width, height)),
        Pixels::Transparent(pixels) => Pixels::Transparent(thumbnail(&pixels, width, height)),
    };
    DecodedPicture { pixels, profile: picture.profile }
}

/// Encodes a picture with its colour profile.
fn encode(DecodedPicture { pixels, profile }: DecodedPicture) -> io::Result<ThumbnailFile> {
    let mut bytes = Vec::new();
    let media_type = match pixels {
        Pixels::Opaque(pixels) => {
            write(JpegEncoder::new_with_quality(&mut bytes, QUALITY), profile, &pixels, ExtendedColorType::Rgb8)?;
            "image/jpeg"
        }
        Pixels::Transparent(pixels) => {
            write(PngEncoder::new(&mut bytes), profile, &pixels, ExtendedColorType::Rgba8)?;
            "image/png"
        }
    };
    Ok(ThumbnailFile { bytes: bytes.into(), media_type })
}

fn write<P: image::Pixel<Subpixel = u8>>(
    mut encoder: impl ImageEncoder,
    profile: Option<Vec<u8>>,
    pixels: &ImageBuffer<P, Vec<u8>>,
    color: ExtendedColorType,
) -> io::Result<()> {
    if let Some(profile) = profile {
        encoder.set_icc_profile(profile).map_err(io::Error::other)?;
    }
    encoder.write_image(pixels, pixels.width(), pixels.height(), color).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{DynamicImage, ImageDecoder, ImageReader, RgbImage, Rgba, RgbaImage};

    use super::*;

    #[test]
    fn a_thumbnail_keeps_the_aspect_ratio_and_is_never_larger() {
        let dimensions = |width, height| {
            let pixels = Pixels::Opaque(RgbImage::new(width, height));
            reduce(DecodedPicture { pixels, profile: None }, 100).dimensions()
        };
        assert_eq!(dimensions(400, 200), (100, 50));
        assert_eq!(dimensions(200, 400), (50, 100));
        assert_eq!(dimensions(10, 20), (10, 20));
        assert_eq!(dimensions(5000, 1), (100, 1));
    }

    #[test]
    fn transparent_pixels_and_the_profile_are_kept() {
        let pixels = Pixels::Transparent(RgbaImage::new(8, 8));
        let reduced = reduce(DecodedPicture { pixels, profile: Some(vec![1, 2, 3]) }, 4);
        let file = encode(reduced).expect("encoded");

        let reader = ImageReader::new(Cursor::new(&file.bytes)).with_guessed_format().expect("a format");
        let mut decoder = reader.into_decoder().expect("a picture");
        assert_eq!(decoder.icc_profile().expect("readable"), Some(vec![1, 2, 3]));
        let shown = DynamicImage::from_decoder(decoder).expect("pixels").to_rgba8();
        assert_eq!((file.media_type, shown.dimensions()), ("image/png", (4, 4)));
        assert!(shown.pixels().all(|pixel| *pixel == Rgba([0, 0, 0, 0])));
    }
}
