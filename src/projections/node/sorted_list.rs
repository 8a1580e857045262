//! Sorted list in chunks: reading a page at any offset and moving an entry are fast for any length.
//!
//! Entries can be slots whose sort keys are stored with the nodes. The caller of an insertion or removal therefore
//! passes a comparison function.

use std::cmp::Ordering;
use std::ops::Range;

use super::bitset::{Slot, SlotSet};

/// Maximum entries of a chunk; a larger one is split.
const CHUNK_MAX: usize = 512;
/// Entries per chunk of a newly built list; leaves capacity for insertions.
const CHUNK_FILL: usize = 384;

/// A sorted list without ties.
#[derive(Debug, Clone)]
pub struct SortedList<T = Slot> {
    /// Non-empty chunks.
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for SortedList<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

/// Methods of a list in the natural order of its entries.
impl<T: Copy + Ord> SortedList<T> {
    /// Adds an entry if it is missing.
    pub fn insert_natural(&mut self, entry: T) {
        let (chunk_index, offset) = self.locate(|other| other.cmp(&entry));
        if self.chunks.get(chunk_index).is_none_or(|chunk| chunk.get(offset) != Some(&entry)) {
            self.insert(entry, |other| other.cmp(&entry));
        }
    }

    /// Removes an entry.
    pub fn remove_natural(&mut self, entry: T) {
        self.remove(entry, |other| other.cmp(&entry));
    }

    /// Returns the entries from this one on.
    pub fn iter_from(&self, entry: T) -> impl Iterator<Item = T> {
        let (chunk_index, offset) = self.locate(|other| other.cmp(&entry));
        self.chunks[chunk_index..].iter().flatten().copied().skip(offset)
    }

    /// Returns the number of entries after this one, which may be missing.
    #[must_use]
    pub fn count_after(&self, entry: T) -> usize {
        let chunk_index = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| *last <= entry));
        let remaining_in_chunk = self
            .chunks
            .get(chunk_index)
            .map_or(0, |chunk| chunk.len() - chunk.partition_point(|other| *other <= entry));
        remaining_in_chunk + self.chunks.iter().skip(chunk_index + 1).map(Vec::len).sum::<usize>()
    }
}

impl<T: Copy + PartialEq> SortedList<T> {
    /// Creates a list from sorted entries.
    #[must_use]
    pub fn from_sorted(entries: &[T]) -> Self {
        Self { chunks: entries.chunks(CHUNK_FILL).map(<[T]>::to_vec).collect(), len: entries.len() }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry. `compare` returns the order of another entry relative to it.
    pub fn insert(&mut self, entry: T, compare: impl Fn(T) -> Ordering) {
        self.len += 1;
        let (chunk_index, offset) = self.locate(compare);
        if chunk_index == self.chunks.len() {
            match self.chunks.last_mut().filter(|last| last.len() < CHUNK_MAX) {
                Some(last) => last.push(entry),
                None => self.chunks.push(vec![entry]),
            }
            return;
        }

        let chunk = &mut self.chunks[chunk_index];
        chunk.insert(offset, entry);
        if chunk.len() > CHUNK_MAX {
            let upper = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(chunk_index + 1, upper);
        }
    }

    /// Removes an entry and returns `true` if it was present. `compare` returns the order of another entry relative to
    /// it, by the key with which it was inserted.
    pub fn remove(&mut self, entry: T, compare: impl Fn(T) -> Ordering) -> bool {
        let (chunk_index, offset) = self.locate(compare);
        let Some(chunk) = self.chunks.get_mut(chunk_index).filter(|chunk| chunk.get(offset) == Some(&entry)) else {
            return false;
        };
        chunk.remove(offset);
        if chunk.is_empty() {
            self.chunks.remove(chunk_index);
        }
        self.len -= 1;
        true
    }

    /// Returns the chunk of the first entry that is not before the compared one, and the index of that entry in the
    /// chunk.
    fn locate(&self, compare: impl Fn(T) -> Ordering) -> (usize, usize) {
        let is_before = |entry: &T| compare(*entry).is_lt();
        let chunk_index = self.chunks.partition_point(|chunk| chunk.last().is_some_and(is_before));
        (chunk_index, self.chunks.get(chunk_index).map_or(0, |chunk| chunk.partition_point(is_before)))
    }

    /// Returns the offsets of the entries that compare equal.
    pub fn range_of(&self, compare: impl Fn(T) -> Ordering) -> Range<usize> {
        let offset_of = |(chunk_index, offset): (usize, usize)| {
            self.chunks[..chunk_index].iter().map(Vec::len).sum::<usize>() + offset
        };
        let start = offset_of(self.locate(&compare));
        start..offset_of(self.locate(|entry| if compare(entry).is_gt() { Ordering::Greater } else { Ordering::Less }))
    }

    /// Adds many sorted entries, none of which is present.
    pub fn insert_all(&mut self, entries: &[T], compare: impl Fn(T, T) -> Ordering) {
        let mut merged = Vec::with_capacity(self.len + entries.len());
        let mut additions = entries.iter().copied().peekable();
        for existing in self.iter() {
            while let Some(addition) = additions.next_if(|addition| compare(*addition, existing).is_lt()) {
                merged.push(addition);
            }
            merged.push(existing);
        }
        merged.extend(additions);
        *self = Self::from_sorted(&merged);
    }

    /// Keeps only the entries for which `predicate` returns `true`.
    pub fn retain(&mut self, mut predicate: impl FnMut(T) -> bool) {
        let entries: Vec<T> = self.iter().filter(|entry| predicate(*entry)).collect();
        *self = Self::from_sorted(&entries);
    }

    /// Returns all entries in order.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        self.chunks.iter().flatten().copied()
    }

    /// Returns the entries from an offset on.
    pub fn iter_from_offset(&self, offset: usize) -> impl Iterator<Item = T> {
        let mut first_chunk = 0;
        let mut remaining = offset;
        while let Some(chunk) = self.chunks.get(first_chunk).filter(|chunk| chunk.len() <= remaining) {
            remaining -= chunk.len();
            first_chunk += 1;
        }
        self.chunks[first_chunk..].iter().flatten().copied().skip(remaining)
    }

    /// Returns the entries in reverse order, skipping `offset` entries at the end.
    pub fn iter_rev_from_end(&self, offset: usize) -> impl Iterator<Item = T> {
        let mut end_chunk = self.chunks.len();
        let mut remaining = offset;
        while let Some(chunk) =
            end_chunk.checked_sub(1).map(|index| &self.chunks[index]).filter(|chunk| chunk.len() <= remaining)
        {
            remaining -= chunk.len();
            end_chunk -= 1;
        }
        self.chunks[..end_chunk].iter().rev().flat_map(|chunk| chunk.iter().rev()).copied().skip(remaining)
    }
}

impl SortedList<Slot> {
    /// Returns the offset of the entry with this index among the entries in `set`, of which there are `count`; the
    /// length of the list if there is none. Walks from the nearer end, a chunk at a time.
    #[must_use]
    pub fn offset_within(&self, set: &SlotSet, index: usize, count: usize) -> usize {
        let position = |chunk: &[Slot], index: usize| {
            let matching = chunk.iter().enumerate().filter(|(_, slot)| set.contains(**slot));
            matching.map(|(position, _)| position).nth(index).unwrap_or(chunk.len())
        };

        if index >= count {
            return self.len;
        }

        if index < count / 2 {
            let mut offset = 0;
            let mut remaining = index;
            for chunk in &self.chunks {
                let matching = set.count_of(chunk);
                if remaining < matching {
                    return offset + position(chunk, remaining);
                }
                remaining -= matching;
                offset += chunk.len();
            }
            return offset;
        }

        let mut offset = self.len;
        let mut from_end = count - index;
        for chunk in self.chunks.iter().rev() {
            let matching = set.count_of(chunk);
            offset -= chunk.len();
            if from_end <= matching {
                return offset + position(chunk, matching - from_end);
            }
            from_end -= matching;
        }
        offset
    }
}

/// Compares the entries, regardless of the chunks.
impl<T: Copy + PartialEq> PartialEq for SortedList<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sort keys with many ties, which are broken by slot.
    fn key(slot: Slot) -> (u32, Slot) {
        (slot.wrapping_mul(2_654_435_761) % 7, slot)
    }

    fn by_key(a: Slot, b: Slot) -> Ordering {
        key(a).cmp(&key(b))
    }

    proptest! {
        #[test]
        fn a_sorted_list_behaves_like_a_sorted_vec(changes in prop::collection::vec((0..3000_u32, prop::bool::weighted(0.7)), 0..2500)) {
            let mut order = SortedList::default();
            let mut model = Vec::<Slot>::new();
            for (slot, add) in changes {
                match (model.binary_search_by(|other| by_key(*other, slot)), add) {
                    (Err(at), true) => {
                        order.insert(slot, |other| by_key(other, slot));
                        model.insert(at, slot);
                    }
                    (found, false) => {
                        prop_assert_eq!(order.remove(slot, |other| by_key(other, slot)), found.is_ok());
                        if let Ok(at) = found {
                            model.remove(at);
                        }
                    }
                    (Ok(_), true) => {}
                }
            }
            prop_assert_eq!(order.len(), model.len());
            prop_assert!(order.iter().eq(model.iter().copied()));
            prop_assert!(order.chunks.iter().all(|chunk| (1..=CHUNK_MAX).contains(&chunk.len())));

            for offset in (0..model.len() + 2).step_by(97) {
                prop_assert!(order.iter_from_offset(offset).eq(model.iter().copied().skip(offset)));
                prop_assert!(order.iter_rev_from_end(offset).eq(model.iter().rev().copied().skip(offset)));
            }
        }

        #[test]
        fn entries_of_a_set_are_located(entries in prop::collection::btree_set(0..4000_u32, 0..2000), seed in any::<u32>()) {
            let entries: Vec<Slot> = entries.into_iter().collect();
            let order = SortedList::from_sorted(&entries);
            let members: Vec<Slot> = entries.iter().copied().filter(|slot| (slot ^ seed) % 3 == 0).collect();
            let set: SlotSet = members.iter().copied().collect();
            for index in (0..members.len()).step_by(53) {
                let expected = entries.binary_search(&members[index]);
                prop_assert_eq!(Ok(order.offset_within(&set, index, members.len())), expected);
            }
            prop_assert_eq!(order.offset_within(&set, members.len(), members.len()), entries.len());
        }

        #[test]
        fn bulk_changes_equal_a_new_list(kept in prop::collection::btree_set(0..2000_u32, 0..900), moved in prop::collection::btree_set(0..2000_u32, 0..900)) {
            let sorted = |slots: &mut dyn Iterator<Item = Slot>| {
                let mut slots: Vec<Slot> = slots.collect();
                slots.sort_by(|a, b| by_key(*a, *b));
                slots
            };
            let all = sorted(&mut kept.union(&moved).copied());
            let remaining = sorted(&mut kept.difference(&moved).copied());

            let mut order = SortedList::from_sorted(&all);
            order.retain(|slot| !moved.contains(&slot));
            prop_assert!(order.iter().eq(remaining.iter().copied()));
            order.insert_all(&sorted(&mut moved.iter().copied()), by_key);
            prop_assert!(order == SortedList::from_sorted(&all));
        }
    }

    #[test]
    fn a_list_of_slots_has_each_once() {
        let mut order = SortedList::default();
        for slot in [5, 1, 9, 5, 3] {
            order.insert_natural(slot);
        }
        for slot in [5, 6] {
            order.remove_natural(slot);
        }

        assert!(order.iter().eq([1, 3, 9]));
        assert!(order.iter_from(2).eq([3, 9]) && order.iter_from(3).eq([3, 9]) && order.iter_from(10).next().is_none());
        assert_eq!(order.range_of(|slot| (slot / 3).cmp(&1)), 1..2);
        assert_eq!(order.range_of(|slot| (slot / 8).cmp(&0)), 0..2);
        assert_eq!(order.range_of(|slot| slot.cmp(&7)), 2..2);
        assert_eq!([0, 1, 2, 9].map(|slot| order.count_after(slot)), [3, 2, 2, 0]);
    }

    #[test]
    fn appending_fills_the_chunks() {
        let mut order = SortedList::default();
        for slot in 0..5 * 512 {
            order.insert(slot, |other| other.cmp(&slot));
        }
        assert_eq!(order.chunks.len(), 5);
    }
}
