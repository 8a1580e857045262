//! The MP4 container: written for progressive playback, and read from untrusted sources.

mod fragments;
mod read;
mod sps;
mod work;
mod write;

pub use read::{AccessUnit, ParsedVideo};
pub(super) use work::too_many_pixels;
pub use write::{EncodedVideo, write};

use std::num::NonZeroU32;

use shiguredo_mp4::boxes::SampleEntry;

/// A sound track with unchanged packets.
#[derive(Debug, Clone, PartialEq)]
pub struct Sound {
    /// Description of the codec.
    pub(crate) entry: SampleEntry,
    /// Ticks per second.
    pub timescale: NonZeroU32,
    /// Packets in order.
    pub packets: Vec<Packet>,
}

/// A packet of sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Encoded sound.
    pub bytes: Vec<u8>,
    /// Duration in ticks.
    pub ticks: u32,
}
