//! Picture and video engine: classical image processing without a network and without models.
//!
//! A [`PictureJob`] computes a picture from decoded pictures; [`encode()`] writes the file. [`video`] renders a
//! [`video::VideoPlan`] to an MP4 file. Everything is deterministic: the same inputs, parameters and seed give the same
//! bytes on one machine for any number of cores. Other processor types may round sums differently.
//!
//! ```
//! use mediary_engine::{DecodedPicture, PictureJob, Pixels, ResultFormat, PictureUpscale, encode};
//!
//! let picture = DecodedPicture { pixels: Pixels::Opaque(image::RgbImage::new(8, 6)), profile: None };
//! let result = PictureJob::Upscale(PictureUpscale::default()).run(picture, None, 1);
//! assert_eq!(result.dimensions(), (16, 12));
//!
//! let (png, _) = encode(&result, ResultFormat::Png)?;
//! assert!(png.starts_with(b"\x89PNG"));
//! # Ok::<(), image::ImageError>(())
//! ```
//!
//! Work runs on the threads of rayon's current pool. The caller must limit memory; the modules state what a job needs.
//! In order of dependency:
//!
//! - single channels (`plane`) and operations on them (`resample`, `filters`, `flow`, `noise`, `denoise`)
//! - light (`light`) and pictures as channels (`colour`), tile by tile (`bands`) or as an overview (`guide`)
//! - parameters (`presets`, `prompt`)
//! - processing at the size of the input (`grade`) and of the output (`detail`, `invent`, `tiles`)
//! - whole jobs (`upscale`, `precision`, `style`, `skin`, `relight`, dispatched by `job`) and files (`encode`)
//! - videos ([`video`])

#![warn(missing_docs)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "pixels: coordinates are far below 2^24 and samples are clamped before they are narrowed"
)]

mod bands;
mod colour;
mod denoise;
mod detail;
mod encode;
mod filters;
mod flow;
mod grade;
mod guide;
mod invent;
mod job;
mod light;
mod noise;
mod picture;
mod plane;
mod precision;
mod presets;
mod prompt;
mod prompt_report;
mod relight;
mod resample;
mod samples;
mod skin;
mod style;
mod tiles;
mod upscale;
pub mod video;

#[cfg(test)]
mod test_pictures;

pub use encode::{ResultFormat, encode};
pub use job::{
    ColourStrength, LightAdjustments, LightCharacter, LightCurve, LightOrigin, LightTransfer, PictureJob, PictureKind,
    PictureRelight, PictureUpscale, PortraitAdjustments, PrecisionJob, PrecisionPreset, RelightAlgorithm, SkinJob,
    SkinPurpose, SkinSmoothing, SkinTreatment, StyleJob, StyleMethod, StylePreset, UpscaleCharacter, UpscaleFactor,
};
pub use picture::{DecodedPicture, Pixels};
pub use prompt::prompt_seed;
pub use prompt_report::PromptReport;
