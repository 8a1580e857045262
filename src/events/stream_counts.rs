//! Number of events per stream, kept apart from the index. It reveals entries that the index has lost.

use std::collections::HashMap;

use super::stream::StreamId;

/// Number of events by [`StreamHash`]: about 20 bytes per stream in memory, at most 12 in a snapshot.
///
/// Streams with the same hash share a number. A collision costs reads of the other stream's records, but never causes a
/// wrong result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamCounts(HashMap<u64, u32>);

/// Hash of a stream name. The index is sorted by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamHash(pub u64);

impl From<&StreamId> for StreamHash {
    /// FNV-1a, which must not change: snapshots and the index contain it.
    fn from(stream: &StreamId) -> Self {
        let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(stream.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }
}

impl StreamCounts {
    /// Adds events of a stream.
    pub fn add(&mut self, stream: StreamHash, events: usize) {
        let count = self.0.entry(stream.0).or_default();
        *count = count.saturating_add(u32::try_from(events).unwrap_or(u32::MAX));
    }

    /// Returns the number of events of all streams with this hash.
    #[must_use]
    pub fn get(&self, stream: StreamHash) -> u64 {
        self.0.get(&stream.0).copied().map_or(0, u64::from)
    }

    /// Returns the entries, for a snapshot.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u32)> {
        self.0.iter().map(|(hash, count)| (*hash, *count))
    }

    /// Restores the entries of a snapshot.
    pub fn restore(&mut self, saved: Vec<(u64, u32)>) {
        self.0.extend(saved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_counts_continue() {
        let [a, b] = ["node/a", "node/b"].map(|name| StreamHash::from(&StreamId::parse(name).unwrap()));
        let mut counts = StreamCounts::default();
        counts.add(a, 2);
        let mut restored = StreamCounts::default();
        restored.restore(counts.entries().collect());
        assert_eq!(restored, counts);
        restored.add(a, 1);
        assert_eq!([a, b].map(|stream| restored.get(stream)), [3, 0]);
    }
}
