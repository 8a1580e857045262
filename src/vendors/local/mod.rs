//! The engines inside: media made by this process, without a network.
//!
//! Music is made in [`music`], which stands alone, and played by [`musician`].
//!
//! All the rest is classical image processing, which is deterministic: the same file and the same parameters give the same
//! bytes on one machine, whatever the number of cores; on another kind of processor sums may be rounded otherwise. In order
//! of dependency: a channel ([`plane`]), what can be done with one ([`resample`], [`filters`], [`flow`], [`noise`],
//! [`denoise`]), light ([`light`]), a picture as channels ([`colour`]), tile by tile ([`bands`]) and as a whole
//! ([`guide`]), what is wanted ([`presets`], [`prompt`]), the work at the size of the input ([`grade`]) and of the output
//! ([`detail`], `invent`, [`tiles`]), the whole way of each job ([`upscale`], [`precision`], [`style`], [`skin`],
//! [`relight`]), the file ([`encode`]) and the vendor with its jobs ([`image`]). Films are made on top of that ([`video`]).

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "pixels: coordinates are far below 2^24 and samples are clamped before they are narrowed"
)]

pub mod bands;
pub mod colour;
pub mod denoise;
pub mod detail;
pub mod encode;
pub mod filters;
pub mod flow;
pub mod grade;
pub mod guide;
pub mod image;
mod invent;
mod job;
mod jobs;
pub mod light;
pub mod music;
pub mod musician;
pub mod noise;
pub mod plane;
pub mod precision;
pub mod presets;
pub mod prompt;
pub mod relight;
pub mod resample;
mod samples;
pub mod skin;
pub mod style;
pub mod tiles;
pub mod upscale;
pub mod video;

pub use jobs::Wanted;

#[cfg(test)]
mod sample;
