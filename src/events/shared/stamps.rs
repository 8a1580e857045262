//! The chain hashes after the last groups, to compare the logs of two nodes.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::events::journal::ChainHash;

/// Number of groups whose chain hashes are kept.
const STAMPS_MAX: usize = 16 * 1024;

/// Chain hashes by sequence, without gaps.
pub struct ChainStamps(Mutex<VecDeque<(u64, ChainHash)>>);

impl ChainStamps {
    /// Begins after a group.
    pub fn new(sequence: u64, chain: ChainHash) -> Self {
        Self(Mutex::new(VecDeque::from([(sequence, chain)])))
    }

    /// Records the hash after the next group.
    pub fn push(&self, sequence: u64, chain: ChainHash) {
        let mut stamps = self.0.lock();
        stamps.push_back((sequence, chain));
        if stamps.len() > STAMPS_MAX {
            stamps.pop_front();
        }
    }

    /// Returns `true` if a log with this hash after this group is the same up to there; `None` if that is not known,
    /// because the group is too old or not applied yet.
    pub fn compare(&self, sequence: u64, chain: ChainHash) -> Option<bool> {
        let stamps = self.0.lock();
        let (first, _) = stamps.front()?;
        let index = usize::try_from(sequence.checked_sub(*first)?).ok()?;
        stamps.get(index).map(|(_, own)| *own == chain)
    }
}
