//! Stream versions from a source other than sled. They reveal missing events until the log itself has been checked.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::stream::{StreamId, Version};

/// Marks names with the same hash, whose versions are unknown.
const UNKNOWN: u32 = u32::MAX;

/// Stream versions by a hash of the stream name: about 20 bytes per stream in memory, at most 12 in a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamVersions(HashMap<u64, u32>);

impl StreamVersions {
    /// Records an event. Versions of a stream are consecutive; otherwise two streams share a hash.
    pub fn observe(&mut self, stream: &StreamId, version: Version) {
        let version = u32::try_from(version.0).unwrap_or(UNKNOWN);
        match self.0.entry(hash(stream)) {
            Entry::Vacant(entry) => drop(entry.insert(version)),
            Entry::Occupied(mut entry) => {
                let is_next = entry.get().checked_add(1) == Some(version);
                entry.insert(if is_next { version } else { UNKNOWN });
            }
        }
    }

    /// Lower bound of a stream's version.
    #[must_use]
    pub fn lower_bound(&self, stream: &StreamId) -> Version {
        let version = self.0.get(&hash(stream)).filter(|version| **version != UNKNOWN);
        Version(version.map_or(0, |version| u64::from(*version)))
    }

    /// The entries, for a snapshot.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u32)> {
        self.0.iter().map(|(hash, version)| (*hash, *version))
    }

    /// Restores the entries of a snapshot.
    pub fn restore(&mut self, entries: Vec<(u64, u32)>) {
        self.0.extend(entries);
    }
}

/// FNV-1a. An attacker who finds colliding names disables the check of those streams, and nothing else.
fn hash(stream: &StreamId) -> u64 {
    stream
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(key: &str) -> StreamId {
        StreamId::parse(&format!("node/{key}")).unwrap()
    }

    #[test]
    fn streams_are_counted_one_by_one() {
        let mut versions = StreamVersions::default();
        (1..=3).for_each(|version| versions.observe(&stream("a"), Version(version)));
        versions.observe(&stream("b"), Version(1));
        assert_eq!(["a", "b", "c"].map(|key| versions.lower_bound(&stream(key)).0), [3, 1, 0]);
    }

    #[test]
    fn what_was_saved_goes_on() {
        let mut versions = StreamVersions::default();
        versions.observe(&stream("a"), Version(1));
        let mut restored = StreamVersions::default();
        restored.restore(versions.entries().collect());
        assert_eq!(restored, versions);
        restored.observe(&stream("a"), Version(2));
        assert_eq!(restored.lower_bound(&stream("a")), Version(2));
    }

    #[test]
    fn nothing_is_known_of_streams_that_share_a_hash() {
        let mut versions = StreamVersions::default();
        (1..=5).for_each(|version| versions.observe(&stream("a"), Version(version)));
        // As if a second stream with the same hash had begun and continued.
        (1..=7).for_each(|version| versions.observe(&stream("a"), Version(version)));
        assert_eq!(versions.lower_bound(&stream("a")), Version(0));
    }
}
