//! Music engine: turns a prompt into an Ogg/Opus stream, rendered while it is read.
//!
//! [`compose()`] interprets the prompt and returns a [`Piece`]: notes and their timing, without sound. [`Stream`] plays
//! a piece and encodes it, chunk by chunk. [`background_music()`] returns samples for a video. Everything is
//! synthesized and deterministic: the same prompt gives the same bytes.
//!
//! ```
//! let piece = mediary_music::compose("a calm waltz for piano", Some(1));
//! assert_eq!(piece.frames, mediary_music::RATE);
//!
//! let chunks: Result<Vec<Vec<u8>>, _> = mediary_music::Stream::new(piece)?.collect();
//! assert!(chunks?.concat().starts_with(b"OggS"));
//! # Ok::<(), mediary_music::EncodeError>(())
//! ```
//!
//! Modules in order of dependency: random numbers (`rng`), pitches (`theory`), the instruments (`instrument`),
//! prompt parsing (`prompt`), genre defaults (`style`), composition (`compose`), sound synthesis (`synth`), mixing
//! (`mix`) and encoding (`encode`). `docs/music.md` of Mediary describes the prompt language and the result.

#![warn(missing_docs)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "samples: positions are far below 2^24 and values are clamped before they are narrowed"
)]

mod background;
mod compose;
mod encode;
mod instrument;
mod mix;
mod piece;
mod prompt;
mod rng;
mod style;
mod synth;
mod theory;

#[cfg(test)]
mod tests;

pub use background::background_music;
pub use compose::{compose, seconds_of};
pub use encode::EncodeError;
pub use piece::{Piece, RATE};
pub use prompt::report::interpret;

use encode::Encoder;
use mix::Player;

/// Iterator over the encoded chunks of a piece, each about one second long.
///
/// Concatenated, the chunks form one Ogg/Opus file with exactly the samples of the piece. The first chunk is returned
/// after half a second of music to keep the delay short. Memory holds the notes, the sounding voices, the reverb and
/// one chunk.
pub struct Stream {
    player: Player,
    encoder: Encoder,
    is_ended: bool,
}

impl Stream {
    /// Creates the stream; rendering starts with the first call of `next`.
    ///
    /// # Errors
    /// Returns an error if the encoder rejects its settings, which do not depend on the piece.
    pub fn new(piece: Piece) -> Result<Self, EncodeError> {
        let genre = piece.tags.first().map_or("music", String::as_str);
        let encoder = Encoder::new(&piece.title, genre)?;
        Ok(Self { encoder, player: Player::new(piece), is_ended: false })
    }
}

/// Hops per chunk after the first: one second.
const CHUNK_HOPS: u32 = 2;

impl Iterator for Stream {
    type Item = Result<Vec<u8>, EncodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended {
            return None;
        }
        let mut chunk = Vec::new();
        let mut hops = 0;
        loop {
            hops += 1;
            let packet_result = if let Some(hop) = self.player.next() {
                self.encoder.add(&hop)
            } else {
                self.is_ended = true;
                self.encoder.finish()
            };
            match packet_result {
                Ok(bytes) => chunk.extend(bytes),
                Err(error) => {
                    self.is_ended = true;
                    return Some(Err(error));
                }
            }

            let is_chunk_full = hops >= CHUNK_HOPS || self.player.is_early();
            if self.is_ended || (is_chunk_full && !chunk.is_empty()) {
                return Some(Ok(chunk));
            }
        }
    }
}
