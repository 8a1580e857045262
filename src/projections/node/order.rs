//! Slots kept in an order, in chunks: a page anywhere in the list, and moving one entry, cost little however long it is.
//!
//! The keys are not in here but with the nodes: whoever inserts or removes says how the entries compare to the one meant.

use std::cmp::Ordering;

use super::slots::{Bits, Slot};

/// A longer chunk is split.
const CHUNK_MAX: usize = 512;
/// How full chunks are made when the whole list is made: most insertions find room.
const CHUNK_FILL: usize = 384;

/// A list of slots in an order that has no ties.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// None is empty.
    chunks: Vec<Vec<Slot>>,
    len: usize,
}

impl Order {
    /// A list that is in order already.
    #[must_use]
    pub fn from_sorted(slots: &[Slot]) -> Self {
        Self { chunks: slots.chunks(CHUNK_FILL).map(<[Slot]>::to_vec).collect(), len: slots.len() }
    }

    /// Adds a slot to a list that is in the order of slots, unless it is there.
    pub fn insert_slot(&mut self, slot: Slot) {
        let (at, within) = self.place(|other| other.cmp(&slot));
        if self.chunks.get(at).is_none_or(|chunk| chunk.get(within) != Some(&slot)) {
            self.insert(slot, |other| other.cmp(&slot));
        }
    }

    /// Takes a slot out of a list that is in the order of slots.
    pub fn remove_slot(&mut self, slot: Slot) {
        self.remove(slot, |other| other.cmp(&slot));
    }

    /// How many slots there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a slot; `compare` tells how an entry compares to it.
    pub fn insert(&mut self, slot: Slot, compare: impl Fn(Slot) -> Ordering) {
        self.len += 1;
        let (at, within) = self.place(compare);
        if at == self.chunks.len() {
            match self.chunks.last_mut().filter(|last| last.len() < CHUNK_MAX) {
                Some(last) => last.push(slot),
                None => self.chunks.push(vec![slot]),
            }
            return;
        }
        let chunk = &mut self.chunks[at];
        chunk.insert(within, slot);
        if chunk.len() > CHUNK_MAX {
            let upper = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(at + 1, upper);
        }
    }

    /// Takes a slot out; `compare` tells how an entry compares to it, by the key with which it was inserted. Gives whether it
    /// was there.
    pub fn remove(&mut self, slot: Slot, compare: impl Fn(Slot) -> Ordering) -> bool {
        let (at, within) = self.place(compare);
        let Some(chunk) = self.chunks.get_mut(at).filter(|chunk| chunk.get(within) == Some(&slot)) else {
            return false;
        };
        chunk.remove(within);
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
        self.len -= 1;
        true
    }

    /// The chunk and the place in it of the first entry that is not before the one meant.
    fn place(&self, compare: impl Fn(Slot) -> Ordering) -> (usize, usize) {
        let before = |slot: &Slot| compare(*slot).is_lt();
        let at = self.chunks.partition_point(|chunk| chunk.last().is_some_and(before));
        (at, self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(before)))
    }

    /// Adds many slots that are in order; none is there yet.
    pub fn insert_all(&mut self, slots: &[Slot], compare: impl Fn(Slot, Slot) -> Ordering) {
        let (mut merged, mut new) = (Vec::with_capacity(self.len + slots.len()), slots.iter().copied().peekable());
        for old in self.iter() {
            while let Some(new) = new.next_if(|new| compare(*new, old).is_lt()) {
                merged.push(new);
            }
            merged.push(old);
        }
        merged.extend(new);
        *self = Self::from_sorted(&merged);
    }

    /// Takes out every slot of a set.
    pub fn remove_all(&mut self, slots: &Bits) {
        let kept: Vec<Slot> = self.iter().filter(|slot| !slots.contains(*slot)).collect();
        *self = Self::from_sorted(&kept);
    }

    /// All slots in order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        self.chunks.iter().flatten().copied()
    }

    /// The slots from a place on.
    pub fn from(&self, offset: usize) -> impl Iterator<Item = Slot> {
        let (mut first, mut skipped) = (0, offset);
        while let Some(chunk) = self.chunks.get(first).filter(|chunk| chunk.len() <= skipped) {
            skipped -= chunk.len();
            first += 1;
        }
        self.chunks[first..].iter().flatten().copied().skip(skipped)
    }
}

/// Equal as lists, however they are cut into chunks.
impl PartialEq for Order {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Keys with many ties; ties go by slot.
    fn key(slot: Slot) -> (u32, Slot) {
        (slot.wrapping_mul(2_654_435_761) % 7, slot)
    }

    fn by_key(a: Slot, b: Slot) -> Ordering {
        key(a).cmp(&key(b))
    }

    proptest! {
        #[test]
        fn it_is_a_sorted_list(changes in prop::collection::vec((0..3000_u32, prop::bool::weighted(0.7)), 0..2500)) {
            let (mut order, mut model) = (Order::default(), Vec::<Slot>::new());
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
                prop_assert!(order.from(offset).eq(model.iter().copied().skip(offset)));
            }
        }

        #[test]
        fn many_at_once_are_as_one_by_one(kept in prop::collection::btree_set(0..2000_u32, 0..900), moved in prop::collection::btree_set(0..2000_u32, 0..900)) {
            let sorted = |slots: &mut dyn Iterator<Item = Slot>| {
                let mut slots: Vec<Slot> = slots.collect();
                slots.sort_by(|a, b| by_key(*a, *b));
                slots
            };
            let whole = sorted(&mut kept.union(&moved).copied());
            let rest = sorted(&mut kept.difference(&moved).copied());
            let mut order = Order::from_sorted(&whole);
            order.remove_all(&moved.iter().copied().collect());
            prop_assert!(order.iter().eq(rest.iter().copied()));
            order.insert_all(&sorted(&mut moved.iter().copied()), by_key);
            prop_assert!(order == Order::from_sorted(&whole));
        }
    }

    #[test]
    fn a_list_of_slots_has_each_once() {
        let mut order = Order::default();
        for slot in [5, 1, 9, 5, 3] {
            order.insert_slot(slot);
        }
        for slot in [5, 6] {
            order.remove_slot(slot);
        }
        assert!(order.iter().eq([1, 3, 9]));
    }

    #[test]
    fn what_grows_at_its_end_fills_its_chunks() {
        let mut order = Order::default();
        for slot in 0..5 * 512 {
            order.insert(slot, |other| other.cmp(&slot));
        }
        assert_eq!(order.chunks.len(), 5);
    }
}
