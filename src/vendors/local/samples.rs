//! The memory of planes, used again.
//!
//! The work on a tile makes dozens of planes of nearly one size, each for a moment. Asked for at the system each time they
//! would be cleared by it, page by page, and leave the cache of the core that has just used them.
//!
//! A thread keeps 16 MiB, less where there are more than 16 cores: together they keep 256 MiB.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;
use std::thread;

/// Fewest samples that are worth keeping.
const PIECE_MIN: usize = 4 * 1024;
/// Most samples that are kept in one piece: those of a tile. Planes of a whole picture go back.
const PIECE_MAX: usize = 512 * 1024;
/// Most samples that a thread keeps in all.
static KEPT_MAX: LazyLock<usize> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (64 * 1024 * 1024 / cores).min(4 * 1024 * 1024)
});

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
    /// The smallest piece that has room, if that is not far more than is needed.
    fn take(&mut self, length: usize) -> Option<Vec<f32>> {
        let fits = |piece: &Vec<f32>| length >= PIECE_MIN && (length..=2 * length).contains(&piece.len());
        let fitting = self.pieces.iter().enumerate().filter(|(_, piece)| fits(piece));
        let (at, _) = fitting.min_by_key(|(_, piece)| piece.len())?;
        Some(self.remove(at))
    }

    /// Keeps a piece; where a thread has enough, in place of the one that was kept first.
    fn keep(&mut self, piece: Vec<f32>) {
        if !(PIECE_MIN..=PIECE_MAX).contains(&piece.len()) {
            return;
        }
        while !self.pieces.is_empty() && self.samples + piece.len() > *KEPT_MAX {
            self.remove(0);
        }
        self.samples += piece.len();
        self.pieces.push(piece);
    }

    fn remove(&mut self, at: usize) -> Vec<f32> {
        let piece = self.pieces.remove(at);
        self.samples -= piece.len();
        piece
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
        let mut used = Self { piece: SPARE.with_borrow_mut(|spare| spare.take(length))?, length };
        if cfg!(debug_assertions) {
            // What nobody writes spoils whatever is made of it, so that a test sees it.
            used.fill(f32::NAN);
        }
        Some(used)
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
        let first = Samples::from(vec![7.0; PIECE_MIN + 9]);
        let place = first.as_ptr();
        drop(first);
        let zeros = Samples::zeros(PIECE_MIN);
        assert_eq!((zeros.as_ptr(), &*zeros), (place, &[0.0; PIECE_MIN][..]));
        assert_eq!(zeros.clone(), zeros);
    }

    #[test]
    fn a_thread_keeps_tiles_up_to_a_bound_and_no_whole_pictures() {
        drop(Samples::zeros(PIECE_MAX + 1));
        drop(Samples::zeros(PIECE_MIN - 1));
        assert_eq!(kept(), 0);
        // Given a thread that is full of small pieces
        let is_full = || (*KEPT_MAX - PIECE_MAX..=*KEPT_MAX).contains(&kept());
        drop((0..=*KEPT_MAX / PIECE_MIN).map(|_| Samples::zeros(PIECE_MIN)).collect::<Vec<_>>());
        assert!(is_full());
        // When larger ones come, then they take their place
        drop((0..20).map(|_| Samples::zeros(PIECE_MAX)).collect::<Vec<_>>());
        assert!(is_full() && Samples::used(PIECE_MAX).is_some());
        // And nothing small takes them up
        assert!(Samples::used(PIECE_MIN).is_none());
    }
}
