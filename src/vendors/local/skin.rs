//! Retouching skin: what a retoucher does by frequency separation, with a mask that finds the skin by itself.
//!
//! The picture is looked at as a whole on a small copy: where skin is, what it is like, how the light falls. Then it is
//! worked on in tiles: skin is taken apart into its form, its blemishes and its fine texture, each with its own amount;
//! then light, colour, sharpness and grain.
//!
//! Memory: 6 or 8 bytes a pixel, and beside that some 40 MB for the small copy and 20 MB for each core.

use self::mask::Skin;
use self::retouch::Retouch;
use self::work::Work;
use super::bands::change;
use super::guide::Overview;
use crate::domain::image::SkinEnhance;
use crate::media::input::Decoded;

pub mod mask;
mod region;
mod retouch;
mod rows;
mod texture;
mod work;

/// Side of the small copy in samples.
const OVERVIEW_SIDE: usize = 768;

/// Retouches a picture. The same input, parameters and seed give the same pixels; the seed decides grain and pores.
#[must_use]
pub fn skin(input: Decoded, job: &SkinEnhance, seed: u32) -> Decoded {
    let Decoded { pixels, profile } = input;
    let overview = Overview::of(&pixels, OVERVIEW_SIDE);
    let work = Work::new(&overview, Skin::find(&overview), Retouch::of(*job), seed);
    let pixels = change(&pixels, work.margin(), |planes, region| work.change(planes, region));
    Decoded { pixels, profile }
}

#[cfg(test)]
mod tests;
