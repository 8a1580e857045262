//! Skin retouching by frequency separation, with automatic skin detection.
//!
//! A small copy of the picture shows where skin is, its tone, and the light. The picture is then processed in tiles:
//! skin is separated into form, blemishes and fine texture with individual amounts, followed by light, colour,
//! sharpness and grain.
//!
//! Memory: 6 or 8 bytes per pixel (opaque or with alpha), plus about 40 MB for the small copy and 20 MB per core.

use self::mask::Skin;
use self::retouch::Retouch;
use self::work::SkinContext;
use crate::bands::transform_tiles;
use crate::guide::Overview;
use crate::job::SkinJob;
use crate::picture::DecodedPicture;

pub mod mask;
mod region;
mod retouch;
mod rows;
mod texture;
mod work;

/// Longest side of the small copy in samples.
const OVERVIEW_SIDE: usize = 768;

/// Retouches a picture. The result is deterministic; the seed determines grain and pores.
#[must_use]
pub fn skin(input: DecodedPicture, job: &SkinJob, seed: u32) -> DecodedPicture {
    let DecodedPicture { pixels, profile } = input;
    let overview = Overview::from_pixels(&pixels, OVERVIEW_SIDE);
    let context = SkinContext::new(&overview, Skin::find(&overview), Retouch::from_job(*job), seed);
    let pixels = transform_tiles(&pixels, context.margin(), |planes, region| context.retouch(planes, region));
    DecodedPicture { pixels, profile }
}

#[cfg(test)]
mod tests;
