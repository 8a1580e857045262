//! Recycled memory of planes.
//!
//! Processing a tile creates dozens of short-lived planes of similar size. Memory fresh from the system would be
//! cleared page by page and would not be in the cache of the core.
//!
//! A thread keeps up to 16 MiB, less with more than 16 cores: all threads together keep up to 256 MiB.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;
use std::thread;

/// Minimum number of samples of a buffer that is kept.
const PIECE_MIN: usize = 4 * 1024;
/// Maximum number of samples of a buffer that is kept: those of a tile. Larger buffers are freed.
const PIECE_MAX: usize = 512 * 1024;
/// Maximum number of samples, of four bytes each, that a thread keeps in total.
static KEPT_MAX: LazyLock<usize> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (64 * 1024 * 1024 / cores).min(4 * 1024 * 1024)
});

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare { pieces: Vec::new(), samples: 0 }) };
}

/// Unused buffers of this thread.
struct Spare {
    pieces: Vec<Vec<f32>>,
    /// Total number of samples in all buffers.
    samples: usize,
}

impl Spare {
    /// Returns the smallest buffer that fits, unless it is more than twice as large as required.
    fn take(&mut self, length: usize) -> Option<Vec<f32>> {
        let is_suitable = |piece: &Vec<f32>| length >= PIECE_MIN && (length..=2 * length).contains(&piece.len());
        let fitting = self.pieces.iter().enumerate().filter(|(_, piece)| is_suitable(piece));
        let (at, _) = fitting.min_by_key(|(_, piece)| piece.len())?;
        Some(self.remove(at))
    }

    /// Keeps a buffer. If the thread's limit is exceeded, the oldest buffers are freed.
    fn put_back(&mut self, piece: Vec<f32>) {
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

/// Fixed number of samples.
pub struct Samples {
    /// Buffer, possibly longer than `length`.
    piece: Vec<f32>,
    length: usize,
}

impl Samples {
    /// Returns zeros.
    #[must_use]
    pub fn zeros(length: usize) -> Self {
        Self::reuse(length).map_or_else(
            || Self::from(vec![0.0; length]),
            |mut samples| {
                samples.fill(0.0);
                samples
            },
        )
    }

    /// Returns recycled samples with undefined values, if there are any. The caller must write all of them.
    #[must_use]
    pub fn reuse(length: usize) -> Option<Self> {
        let mut samples = Self { piece: SPARE.with_borrow_mut(|spare| spare.take(length))?, length };
        if cfg!(debug_assertions) {
            // NaN makes tests fail if a sample is read before it is written.
            samples.fill(f32::NAN);
        }
        Some(samples)
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
        let Some(mut copy) = Self::reuse(self.length) else { return Self::from(self.to_vec()) };
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
        // During thread shutdown the thread-local storage may be gone; the buffer is then freed.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().put_back(piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare_samples() -> usize {
        SPARE.with_borrow(|spare| spare.samples)
    }

    #[test]
    fn returned_buffers_are_reused_and_zeroed() {
        let first = Samples::from(vec![7.0; PIECE_MIN + 9]);
        let pointer = first.as_ptr();
        drop(first);
        let zeros = Samples::zeros(PIECE_MIN);
        assert_eq!((zeros.as_ptr(), &*zeros), (pointer, &[0.0; PIECE_MIN][..]));
        assert_eq!(zeros.clone(), zeros);
    }

    #[test]
    fn a_thread_keeps_tiles_up_to_a_bound_and_no_whole_pictures() {
        drop(Samples::zeros(PIECE_MAX + 1));
        drop(Samples::zeros(PIECE_MIN - 1));
        assert_eq!(spare_samples(), 0);

        // Given a thread full of small buffers
        let is_full = || (*KEPT_MAX - PIECE_MAX..=*KEPT_MAX).contains(&spare_samples());
        drop((0..=*KEPT_MAX / PIECE_MIN).map(|_| Samples::zeros(PIECE_MIN)).collect::<Vec<_>>());
        assert!(is_full());

        // When larger ones are freed, they replace the small ones
        drop((0..20).map(|_| Samples::zeros(PIECE_MAX)).collect::<Vec<_>>());
        assert!(is_full() && Samples::reuse(PIECE_MAX).is_some());

        // And small requests do not take the large ones
        assert!(Samples::reuse(PIECE_MIN).is_none());
    }
}
