//! The music engine: from a prompt to a file that can be played, made while it is sent.
//!
//! In order of dependency: what chance draws ([`chance`]), pitches ([`theory`]), who can play ([`instrument`]), what the prompt
//! says ([`prompt`]), what is usual ([`style`]), the composition ([`mod@compose`], a [`piece::Piece`] of plain data), the sounds
//! ([`synth`]), the mix ([`mix`]) and the file ([`encode`]). `docs/music.md` says what is understood and how it is made.

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

/// A piece on its way into a file: an iterator of chunks of about a second, which put together are one Ogg/Opus file of
/// exactly the samples of the piece. The first one comes after half a second of music was made. What is held in memory is
/// the notes, the voices that sound, the room, and one chunk.
pub struct Stream {
    player: Player,
    encoder: Encoder,
    ended: bool,
}

impl Stream {
    /// Gets ready; nothing is made yet.
    ///
    /// # Errors
    /// When the encoder refuses its settings, which no piece can bring about.
    pub fn new(piece: Piece) -> Result<Self, EncodeError> {
        let genre = piece.tags.first().map_or("music", String::as_str);
        let encoder = Encoder::new(&piece.title, genre)?;
        Ok(Self { encoder, player: Player::new(piece), ended: false })
    }
}

/// Hops of a chunk, but for the first: a second.
const CHUNK_HOPS: u32 = 2;

impl Iterator for Stream {
    type Item = Result<Vec<u8>, EncodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let (mut chunk, mut hops) = (Vec::new(), 0);
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
