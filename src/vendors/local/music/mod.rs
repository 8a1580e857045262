//! Built-in music engine: turns a prompt into an Ogg/Opus file, generated while it is streamed.
//!
//! Modules in order of dependency: random numbers ([`chance`]), pitches ([`theory`]), the instruments ([`instrument`]),
//! prompt parsing ([`prompt`]), genre defaults ([`style`]), composition ([`mod@compose`], which produces a
//! [`piece::Piece`] of plain data), sound synthesis ([`synth`]), mixing ([`mix`]) and encoding ([`encode`]).
//! `docs/music.md` describes the prompt language and the result.

pub mod bed;
pub mod chance;
pub mod compose;
pub mod encode;
pub mod instrument;
pub mod mix;
pub mod piece;
pub mod prompt;
pub mod style;
pub mod synth;
pub mod theory;

#[cfg(test)]
mod tests;

pub use bed::bed;
pub use compose::compose;
use encode::{EncodeError, Encoder};
use mix::Player;
use piece::Piece;

/// Iterator over the encoded chunks of a piece, each about one second long.
///
/// Concatenated, the chunks form one Ogg/Opus file with exactly the samples of the piece. The first chunk is returned
/// after half a second of music to keep the delay short. Memory holds the notes, the sounding voices, the reverb and
/// one chunk.
pub struct Stream {
    player: Player,
    encoder: Encoder,
    ended: bool,
}

impl Stream {
    /// Creates the stream; rendering starts with the first call of `next`.
    ///
    /// # Errors
    /// Returns an error if the encoder rejects its settings, which do not depend on the piece.
    pub fn new(piece: Piece) -> Result<Self, EncodeError> {
        let genre = piece.tags.first().map_or("music", String::as_str);
        let encoder = Encoder::new(&piece.title, genre)?;
        Ok(Self { encoder, player: Player::new(piece), ended: false })
    }
}

/// Hops per chunk after the first: one second.
const CHUNK_HOPS: u32 = 2;

impl Iterator for Stream {
    type Item = Result<Vec<u8>, EncodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let mut chunk = Vec::new();
        let mut hops = 0;
        loop {
            hops += 1;
            let made = if let Some(hop) = self.player.next() {
                self.encoder.add(&hop)
            } else {
                self.ended = true;
                self.encoder.finish()
            };
            match made {
                Ok(bytes) => chunk.extend(bytes),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }

            let enough = hops >= CHUNK_HOPS || self.player.is_early();
            if self.ended || (enough && !chunk.is_empty()) {
                return Some(Ok(chunk));
            }
        }
    }
}
