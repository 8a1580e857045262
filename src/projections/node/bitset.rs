//! Bit set of node slots.

/// Index of a node, in the order of creation; never reused.
pub type Slot = u32;

/// Number of slots in a word.
const WORD_BITS: u32 = u64::BITS;

/// A set of slots.
#[derive(Debug, Clone, Default)]
pub struct SlotSet {
    words: Vec<u64>,
}

impl SlotSet {
    /// Adds or removes a slot.
    pub fn set(&mut self, slot: Slot, present: bool) {
        let (word, mask) = word_and_mask(slot);
        if word >= self.words.len() {
            if !present {
                return;
            }
            self.words.resize(word + 1, 0);
        }
        if present {
            self.words[word] |= mask;
        } else {
            self.words[word] &= !mask;
        }
    }

    /// Returns `true` if the slot is in the set.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        let (word, mask) = word_and_mask(slot);
        self.words.get(word).is_some_and(|word| word & mask != 0)
    }

    /// Returns `true` if the set has no slot. Stops at the first slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns `true` if all slots are also in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(others).all(|(word, other)| word & !other == 0)
    }

    /// Returns the number of slots in the set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the number of the given slots that are in the set.
    #[must_use]
    pub fn count_of(&self, slots: &[Slot]) -> usize {
        // Branch-free, because a page counts thousands of slots.
        let bit = |slot: &Slot| {
            let word = self.words.get((*slot / WORD_BITS) as usize);
            word.map_or(0, |word| word >> (*slot % WORD_BITS) & 1)
        };
        usize::try_from(slots.iter().map(bit).sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Adds the slots in `other`.
    pub fn unite(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Keeps only slots that are also in `other`.
    pub fn intersect(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Removes the slots in `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Keeps only the slots for which `predicate` returns `true`.
    pub fn retain(&mut self, mut predicate: impl FnMut(Slot) -> bool) {
        for (index, word) in self.words.iter_mut().enumerate() {
            for slot in slots_of_word(index, *word) {
                if !predicate(slot) {
                    let (_, mask) = word_and_mask(slot);
                    *word &= !mask;
                }
            }
        }
    }

    /// Returns the slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.words.iter().enumerate().flat_map(|(index, word)| slots_of_word(index, *word))
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut bits = Self::default();
        slots.into_iter().for_each(|slot| bits.set(slot, true));
        bits
    }
}

/// Compares the slots. Trailing zero words, which removed slots leave behind, do not matter.
impl PartialEq for SlotSet {
    fn eq(&self, other: &Self) -> bool {
        let common = self.words.len().min(other.words.len());
        let excess = self.words[common..].iter().chain(&other.words[common..]);
        self.words[..common] == other.words[..common] && excess.into_iter().all(|word| *word == 0)
    }
}

/// Returns the index of the word of `slot` and the mask of its bit.
fn word_and_mask(slot: Slot) -> (usize, u64) {
    ((slot / WORD_BITS) as usize, 1 << (slot % WORD_BITS))
}

fn slots_of_word(index: usize, word: u64) -> impl Iterator<Item = Slot> {
    #[expect(clippy::cast_possible_truncation, reason = "the words of a set of 32-bit slots have 26-bit indexes")]
    let first = index as Slot * WORD_BITS;
    // Each step clears the lowest bit.
    std::iter::successors((word != 0).then_some(word), |remaining| {
        Some(remaining & (remaining - 1)).filter(|remaining| *remaining != 0)
    })
    .map(move |remaining| first + remaining.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_slot_set_behaves_like_a_btree_set(changes in prop::collection::vec((0..300_u32, any::<bool>()), 0..200), other in prop::collection::btree_set(0..300_u32, 0..80)) {
            let mut bits = SlotSet::default();
            let mut model = BTreeSet::new();
            for (slot, present) in changes {
                bits.set(slot, present);
                if present { model.insert(slot); } else { model.remove(&slot); }
            }
            prop_assert!(bits.iter().eq(model.iter().copied()));
            prop_assert_eq!(bits.count(), model.len());
            prop_assert_eq!(&bits, &model.iter().copied().collect());

            let other_bits: SlotSet = other.iter().copied().collect();
            let mut intersection = bits.clone();
            let mut difference = bits.clone();
            let mut even = bits.clone();
            let mut union = bits.clone();
            union.unite(&other_bits);
            intersection.intersect(&other_bits);
            difference.subtract(&other_bits);
            even.retain(|slot| slot % 2 == 0);

            prop_assert!(intersection.iter().eq(model.intersection(&other).copied()));
            prop_assert!(difference.iter().eq(model.difference(&other).copied()));
            prop_assert!(union.iter().eq(model.union(&other).copied()));
            prop_assert_eq!(bits.count_of(&other.iter().copied().collect::<Vec<_>>()), intersection.count());
            prop_assert!(even.iter().eq(model.iter().copied().filter(|slot| slot % 2 == 0)));
        }
    }

    #[test]
    fn sets_are_compared_regardless_of_their_capacity() {
        let mut grown = SlotSet::from_iter([1, 500]);
        let small = SlotSet::from_iter([1]);
        assert_ne!(grown, small);
        grown.set(500, false);
        assert_eq!(grown, small);
        assert!(!grown.contains(9999));
    }
}
