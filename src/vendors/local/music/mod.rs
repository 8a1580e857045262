//! The music engine: from a prompt to a file that can be played.

pub mod chance;
pub mod compose;
pub mod instrument;
pub mod piece;
pub mod prompt;
pub mod style;
pub mod theory;
