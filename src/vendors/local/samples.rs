//! The memory of planes, used again.
//!
//! The work on a tile makes dozens of planes of nearly one size, each for a moment. Asked for at the system each time they
//! would be cleared by it, page by page, and leave the cache of the core that has just used them.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Most samples that are kept in one piece: those of a tile. Planes of a whole picture go back.
const PIECE_MAX: usize = 512 * 1024;
/// Most samples that a thread keeps in all: 16 MiB.
const KEPT_MAX: usize = 4 * 1024 * 1024;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare { pieces: Vec::new(), samples: 0 }) };
}

/// What was given back on this thread.
struct Spare {
    pieces: Vec<Vec<f32>>,
    /// Of all of them.
    samples: usize,
}

impl Spare {
    /// The smallest piece that has room.
    fn take(&mut self, length: usize) -> Option<Vec<f32>> {
        let fitting = self.pieces.iter().enumerate().filter(|(_, piece)| piece.len() >= length);
        let (at, _) = fitting.min_by_key(|(_, piece)| piece.len())?;
        let piece = self.pieces.swap_remove(at);
        self.samples -= piece.len();
        Some(piece)
    }

    fn keep(&mut self, piece: Vec<f32>) {
        if piece.len() <= PIECE_MAX && self.samples + piece.len() <= KEPT_MAX {
            self.samples += piece.len();
            self.pieces.push(piece);
        }
    }
}

/// A fixed number of samples.
pub struct Samples {
    /// May be longer.
    piece: Vec<f32>,
    length: usize,
}

impl Samples {
    /// So many zeros.
    #[must_use]
    pub fn zeros(length: usize) -> Self {
        Self::used(length).map_or_else(
            || Self::from(vec![0.0; length]),
            |mut used| {
                used.fill(0.0);
                used
            },
        )
    }

    /// So many samples that were used before and have any value, if there are some: the caller is to write all of them.
    #[must_use]
    pub fn used(length: usize) -> Option<Self> {
        let piece = SPARE.with_borrow_mut(|spare| spare.take(length))?;
        Some(Self { piece, length })
    }
}

impl From<Vec<f32>> for Samples {
    fn from(piece: Vec<f32>) -> Self {
        Self { length: piece.len(), piece }
    }
}

impl Deref for Samples {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.piece[..self.length]
    }
}

impl DerefMut for Samples {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.piece[..self.length]
    }
}

impl Clone for Samples {
    fn clone(&self) -> Self {
        let Some(mut copy) = Self::used(self.length) else { return Self::from(self.to_vec()) };
        copy.copy_from_slice(self);
        copy
    }
}

impl PartialEq for Samples {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(to)
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        let piece = std::mem::take(&mut self.piece);
        // A thread that ends has nowhere to keep it.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().keep(piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        SPARE.with_borrow(|spare| spare.samples)
    }

    #[test]
    fn what_was_given_back_is_used_again_and_zeros_are_zeros() {
        let first = Samples::from(vec![7.0; 100]);
        let place = first.as_ptr();
        drop(first);
        let zeros = Samples::zeros(60);
        assert_eq!((zeros.as_ptr(), &*zeros), (place, &[0.0; 60][..]));
        let copy = zeros.clone();
        assert_ne!(copy.as_ptr(), place);
        assert_eq!(copy, zeros);
    }

    #[test]
    fn a_thread_keeps_tiles_up_to_a_bound_and_no_whole_pictures() {
        drop(Samples::zeros(PIECE_MAX + 1));
        assert_eq!(kept(), 0);
        let many: Vec<Samples> = (0..20).map(|_| Samples::zeros(PIECE_MAX)).collect();
        drop(many);
        assert_eq!(kept(), KEPT_MAX);
        // The smallest that has room is taken.
        drop(Samples::zeros(10));
        assert_eq!(kept(), KEPT_MAX);
    }
}
