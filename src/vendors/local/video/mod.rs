//! The video engine: a plan goes in, a film comes out.
//!
//! It knows no objects and draws nothing that is not in the pictures or in its own scenes; it moves a camera through them.
//! From a picture it estimates how near everything is ([`depth`]), moves a camera ([`camera`]) that the prompt directs
//! ([`words`]), draws what the camera sees (`view`), and adds weather ([`weather`]) and light ([`mood`]). Two pictures
//! are joined along the optical flow between them (`optical`, `shots`). Without a picture it paints one whose depth is
//! known (`scene`). A film that goes on is decoded, and its motion continued (`extend`).
//!
//! Frames are drawn and encoded in groups that begin with a key frame, on all cores; a group needs one frame at a time, so
//! memory is bounded by cores, not by length. The same plan gives the same bytes, whatever the number of threads.

#![allow(
    clippy::many_single_char_names,
    clippy::similar_names,
    reason = "places are x and y, and their neighbours a to d"
)]

pub mod camera;
pub mod codec;
mod compose;
pub mod depth;
mod extend;
mod job;
pub mod mark;
pub mod mood;
pub mod mp4;
mod optical;
pub mod plan;
pub mod raster;
mod render;
mod scene;
mod shots;
pub mod sound;
pub mod vendor;
mod view;
pub mod weather;
pub mod words;

pub use plan::{Film, Leg, Material, Plan, Stamp};
pub use render::{frames, render};

/// Why there is no film.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// What was given cannot be used: a stable code, and a sentence for whoever gave it.
    #[error("{reason}")]
    Input { code: &'static str, reason: String },
    /// Nobody wants it any more.
    #[error("the film was cancelled")]
    Cancelled,
    /// A defect of the engine.
    #[error("{0}")]
    Defect(String),
}

impl From<codec::CodecError> for Fault {
    fn from(error: codec::CodecError) -> Self {
        Self::Defect(error.to_string())
    }
}

/// Who waits for a film.
pub trait Watch: Sync {
    /// Is told how much is done, from 0 to 1, now and then, from any thread.
    fn done(&self, share: f32);

    /// Whether nobody wants the film any more; asked before each frame.
    fn gone(&self) -> bool;
}

/// Nobody in particular.
impl Watch for () {
    fn done(&self, _share: f32) {}

    fn gone(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
