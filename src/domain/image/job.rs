//! A complete image job: its parameters and input pictures.

use serde::{Deserialize, Serialize};

use super::{
    OUTPUT_PIXELS_MAX, Picture, PrecisionUpscaleJob, RelightJob, SkinEnhanceJob, StyleTransferJob, UpscaleJob,
};
use crate::domain::value::{CallbackUrl, InvalidValue};
use crate::domain::video::Credits;

/// Location of an input picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PictureSource {
    /// In the media store.
    Stored(Picture),
    /// At a URL; fetched before the job starts.
    Remote(CallbackUrl),
}

impl PictureSource {
    /// Returns the picture if it is in the media store.
    #[must_use]
    pub fn stored(&self) -> Option<&Picture> {
        if let Self::Stored(picture) = self { Some(picture) } else { None }
    }
}

/// Parameters of a job, one variant per submission endpoint; the skin modes share one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageJob {
    /// `image-upscaler`
    Upscale(UpscaleJob),
    /// `image-upscaler-precision-v2`
    UpscalePrecision(PrecisionUpscaleJob),
    /// `image-style-transfer`
    StyleTransfer(StyleTransferJob),
    /// `skin-enhancer/creative`, `/faithful` and `/flexible`
    SkinEnhance(SkinEnhanceJob),
    /// `image-relight`
    Relight(RelightJob),
}

/// Jobs that share a status endpoint (contract 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageFamily {
    Upscaler,
    StyleTransfer,
    SkinEnhancer,
    Relight,
}

impl ImageJob {
    /// Returns the family, and with it the status endpoint.
    #[must_use]
    pub const fn family(&self) -> ImageFamily {
        match self {
            Self::Upscale(_) | Self::UpscalePrecision(_) => ImageFamily::Upscaler,
            Self::StyleTransfer(_) => ImageFamily::StyleTransfer,
            Self::SkinEnhance(_) => ImageFamily::SkinEnhancer,
            Self::Relight(_) => ImageFamily::Relight,
        }
    }

    /// Returns `true` if the webhook is called only at the end (seed specification: the precision upscaler).
    #[must_use]
    pub const fn notifies_only_at_end(&self) -> bool {
        matches!(self, Self::UpscalePrecision(_))
    }

    /// Returns the factor by which each side of the result is larger than the input's.
    #[must_use]
    pub fn scale(&self) -> u32 {
        match self {
            Self::Upscale(job) => job.scale_factor.scale(),
            Self::UpscalePrecision(job) => job.scale_factor.scale(),
            Self::StyleTransfer(_) | Self::SkinEnhance(_) | Self::Relight(_) => 1,
        }
    }

    /// Checks the output size of an upscaler; other jobs keep the size.
    ///
    /// # Errors
    /// If the output would have more than 25.3 million pixels; the reason contains both sizes.
    pub fn check_output_size(&self, width: u32, height: u32) -> Result<(), InvalidValue> {
        let scale = self.scale();
        let out_width = u64::from(width) * u64::from(scale);
        let out_height = u64::from(height) * u64::from(scale);
        if scale == 1 || out_width.saturating_mul(out_height) <= OUTPUT_PIXELS_MAX {
            return Ok(());
        }
        Err(InvalidValue::new(format!(
            "{width}x{height} pixels upscaled {scale}x exceed 25.3 million pixels: {out_width}x{out_height}",
        )))
    }
}

/// An image job with its pictures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageWork {
    pub job: ImageJob,
    /// The picture to process.
    pub image: PictureSource,
    /// The style, light or light map reference, if the job takes one.
    pub reference: Option<PictureSource>,
    /// Seed of the random numbers. `None` derives them from pictures and parameters, so that identical requests give
    /// identical bytes.
    pub seed: Option<u32>,
    /// Price, charged at submission.
    pub credits: Credits,
}

impl ImageWork {
    /// Returns the input pictures, starting with the picture to process.
    pub fn sources(&self) -> impl Iterator<Item = &PictureSource> {
        std::iter::once(&self.image).chain(&self.reference)
    }

    /// Returns the URLs of pictures not yet in the media store, in the order of [`ImageWork::sources`].
    pub fn remote_urls(&self) -> impl Iterator<Item = &CallbackUrl> {
        self.sources().filter_map(|source| if let PictureSource::Remote(url) = source { Some(url) } else { None })
    }

    /// Replaces URLs by fetched pictures, in order. Ignores surplus pictures; URLs without a picture remain.
    pub fn set_fetched_pictures(&mut self, pictures: &[Picture]) {
        let sources = std::iter::once(&mut self.image).chain(&mut self.reference);
        for (source, picture) in sources.filter(|source| matches!(source, PictureSource::Remote(_))).zip(pictures) {
            *source = PictureSource::Stored(*picture);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::{ImageFormat, PrecisionScaleFactor};
    use crate::domain::value::Digest;

    fn picture(seed: u8) -> Picture {
        Picture { digest: Digest([seed; 32]), format: ImageFormat::Png, bytes: 100, width: 8, height: 8 }
    }

    fn remote() -> PictureSource {
        PictureSource::Remote(CallbackUrl::parse("https://a.example/x.png").unwrap())
    }

    fn work(image: PictureSource, reference: Option<PictureSource>) -> ImageWork {
        ImageWork {
            job: ImageJob::StyleTransfer(StyleTransferJob::default()),
            image,
            reference,
            seed: None,
            credits: 0,
        }
    }

    #[test]
    fn fetched_pictures_replace_their_urls() {
        let mut two_remote = work(remote(), Some(remote()));
        assert_eq!(two_remote.remote_urls().count(), 2);
        two_remote.set_fetched_pictures(&[picture(1), picture(2)]);
        assert_eq!(two_remote, work(PictureSource::Stored(picture(1)), Some(PictureSource::Stored(picture(2)))));

        let mut one_remote = work(PictureSource::Stored(picture(1)), Some(remote()));
        one_remote.set_fetched_pictures(&[picture(3), picture(4)]);
        assert_eq!(one_remote, work(PictureSource::Stored(picture(1)), Some(PictureSource::Stored(picture(3)))));
    }

    #[test]
    fn output_of_upscalers_may_have_exactly_25_3_million_pixels() {
        let double = ImageJob::Upscale(UpscaleJob::default());
        let sixteen_times = ImageJob::UpscalePrecision(PrecisionUpscaleJob {
            scale_factor: PrecisionScaleFactor::new(16).unwrap(),
            ..PrecisionUpscaleJob::default()
        });
        assert_eq!(double.check_output_size(2530, 2500), Ok(()));
        assert!(double.check_output_size(2531, 2500).is_err());
        assert!(sixteen_times.check_output_size(400, 400).is_err());
        assert!(sixteen_times.check_output_size(u32::MAX, u32::MAX).is_err());
    }

    #[test]
    fn jobs_that_keep_the_size_are_not_limited() {
        assert_eq!(ImageJob::Relight(RelightJob::default()).check_output_size(10_000, 10_000), Ok(()));
    }
}
