//! Small versions of pictures for lists: made on demand, and kept in memory up to a number of bytes.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::thumbnail;
use image::{Rgb, RgbImage};
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

/// Bytes of the thumbnails that are kept.
const KEPT_BYTES_MAX: u64 = 32 << 20;
/// Usual size of a thumbnail, from which the cache estimates how many it keeps.
const USUAL_BYTES: u64 = 16 << 10;
/// Size of an entry of the cache, besides the thumbnail.
const ENTRY_BYTES: u64 = 128;
/// A smaller file is its own thumbnail.
const FILE_BYTES_MIN: u64 = 8 * 1024;
/// Quality of the JPEG files, from 1 to 100.
const QUALITY: u8 = 78;
/// Background of transparent pixels.
const BACKGROUND: u32 = 0xff;

/// Media type of thumbnails.
pub const MEDIA_TYPE: &str = "image/jpeg";

/// JPEG file; `None` if the picture is small or cannot be decoded, and so stands for itself.
pub type Thumbnail = Option<Bytes>;

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
        ENTRY_BYTES + thumbnail.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }
}

/// Thumbnails that were requested last. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Thumbnails {
    kept: Arc<Cache<ThumbnailKey, Thumbnail, ThumbnailWeight>>,
}

impl Default for Thumbnails {
    fn default() -> Self {
        let items = usize::try_from(KEPT_BYTES_MAX / USUAL_BYTES).unwrap_or(usize::MAX);
        Self { kept: Arc::new(Cache::with_weighter(items, KEPT_BYTES_MAX, ThumbnailWeight)) }
    }
}

impl Thumbnails {
    /// Returns a thumbnail that was made before.
    #[must_use]
    pub fn get(&self, digest: Digest, size: ThumbnailSize) -> Option<Thumbnail> {
        self.kept.get(&(digest, size))
    }

    /// Makes the thumbnail of a file, unless another request has made it in the meantime. Blocks.
    ///
    /// # Errors
    /// If the file cannot be read, or the decoders are busy.
    pub fn make(
        &self,
        (path, digest): (&Path, Digest),
        size: ThumbnailSize,
        decoders: &PictureDecoders,
    ) -> Result<Thumbnail, ThumbnailError> {
        if let Some(thumbnail) = self.get(digest, size) {
            return Ok(thumbnail);
        }

        let length = fs::metadata(path)?.len();
        let thumbnail = if (FILE_BYTES_MIN..=INPUT_BYTES_MAX as u64).contains(&length) {
            match decoders.decode(&fs::read(path)?) {
                Ok(picture) => Some(Bytes::from(encode(&reduce(picture, size.side_max()))?)),
                Err(PictureDecodeError::Busy) => return Err(ThumbnailError::Busy),
                Err(PictureDecodeError::Invalid(_)) => None,
            }
        } else {
            None
        };
        self.kept.insert((digest, size), thumbnail.clone());
        Ok(thumbnail)
    }
}

/// Reduces a picture to at most `side_max` pixels of width and height, on the background.
fn reduce(picture: DecodedPicture, side_max: u32) -> RgbImage {
    let (width, height) = picture.dimensions();
    let longest = width.max(height).max(1);
    let scaled = |side: u32| {
        let scaled = u64::from(side) * u64::from(side_max.min(longest)) / u64::from(longest);
        u32::try_from(scaled).unwrap_or(side_max).max(1)
    };
    let (width, height) = (scaled(width), scaled(height));
    match picture.pixels {
        Pixels::Opaque(pixels) => thumbnail(&pixels, width, height),
        Pixels::Transparent(pixels) => {
            let pixels = thumbnail(&pixels, width, height);
            RgbImage::from_fn(width, height, |x, y| {
                let [red, green, blue, alpha] = pixels.get_pixel(x, y).0.map(u32::from);
                let over = |color: u32| (color * alpha + BACKGROUND * (255 - alpha)) / 255;
                Rgb([red, green, blue].map(|color| u8::try_from(over(color)).unwrap_or(u8::MAX)))
            })
        }
    }
}

fn encode(pixels: &RgbImage) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, QUALITY).encode_image(pixels).map_err(io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use image::RgbaImage;

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
    fn transparent_pixels_show_the_background() {
        let pixels = Pixels::Transparent(RgbaImage::new(8, 8));
        let reduced = reduce(DecodedPicture { pixels, profile: None }, 4);
        assert!(reduced.pixels().all(|pixel| *pixel == Rgb([255, 255, 255])));
    }
}
