//! Bulk indexing of nodes. Gives the same words as [`super::words_of_node`] without an allocation per word and node.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::words::{joined, pairs, words, words_of_name};
use super::{AUTHOR, DESCRIPTION, Entry, NAMES, Order, PLACES, Postings, TAGS, beside, fingerprint, pack};
use crate::domain::node::NodeProfile;
use crate::domain::value::{Labels, Text};
use crate::projections::node::slots::Slot;

/// Nodes that one thread indexes together.
const SHARE: usize = 8192;

/// Returns slots with field bits by word, and the fingerprints of word pairs with their slots, both ascending.
pub fn postings(entries: &[Arc<Entry>]) -> (Postings, Order<u64>) {
    let shares: Vec<Share> = entries.par_chunks(SHARE).enumerate().map(|(nth, part)| Share::of(nth, part)).collect();
    let mut pairs = Vec::with_capacity(shares.iter().map(|share| share.pairs.len()).sum());
    let mut words = Vec::new();
    let mut found = Vec::with_capacity(shares.len());
    for (nth, share) in shares.into_iter().enumerate() {
        pairs.extend(share.pairs);
        words.extend(share.words.into_iter().map(|(word, place)| Word {
            begins: beginning(&word),
            text: word,
            nth,
            place,
        }));
        found.push(share.found);
    }

    words.par_sort_unstable_by(|a, b| (a.begins, &a.text, a.nth).cmp(&(b.begins, &b.text, b.nth)));
    let sort_pairs = move || {
        pairs.par_sort_unstable();
        pairs.dedup();
        Order::from_sorted(&pairs)
    };

    rayon::join(|| joined_up(words, &found), sort_pairs)
}

/// A word of a batch.
struct Word {
    /// Prefix that decides most comparisons without accessing the text.
    begins: u64,
    text: Box<str>,
    /// Index of the batch, and the range of the word's slots in it.
    nth: usize,
    place: Range<usize>,
}

/// Returns the first bytes of a word in an order-preserving form.
fn beginning(word: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = word.len().min(8);
    bytes[..length].copy_from_slice(&word.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

/// Merges the sorted words of all batches into one list per word.
fn joined_up(words: Vec<Word>, found: &[Vec<u32>]) -> Postings {
    let mut lists: Vec<(Box<str>, Order)> = Vec::with_capacity(words.len());
    let mut words = words.into_iter().peekable();
    let mut slots = Vec::new();
    while let Some(Word { text, nth, place, .. }) = words.next() {
        slots.clear();
        slots.extend_from_slice(&found[nth][place]);
        while let Some(more) = words.next_if(|next| next.text == text) {
            slots.extend_from_slice(&found[more.nth][more.place]);
        }
        lists.push((text, Order::from_sorted(&slots)));
    }
    lists.into_iter().collect()
}

/// Words of a batch of nodes.
struct Share {
    /// Distinct words with the range of their slots.
    words: Vec<(Box<str>, Range<usize>)>,
    /// Slots with field bits, grouped by word, ascending in each group.
    found: Vec<u32>,
    /// Fingerprints of word pairs with their slots, unsorted.
    pairs: Vec<u64>,
}

impl Share {
    fn of(nth: usize, entries: &[Arc<Entry>]) -> Self {
        let mut reading = Reading::default();
        let first = Slot::try_from(nth * SHARE).unwrap_or(Slot::MAX);
        for (slot, entry) in (first..).zip(entries) {
            if let Some(node) = entry.profile() {
                reading.read(slot, node);
                reading.settle(slot);
            }
        }
        reading.sorted()
    }
}

/// State while a batch is read.
#[derive(Default)]
struct Reading {
    numbers: HashMap<Box<str>, u32>,
    /// Numbers of words with slots and field bits, ascending by slot.
    found: Vec<(u32, u32)>,
    /// Numbers of the current node's words, with field bits in the lowest bits.
    here: Vec<u32>,
    pairs: Vec<u64>,
    /// Buffers for the current and the previous lowercase word.
    buffer: String,
    before: String,
}

impl Reading {
    fn read(&mut self, slot: Slot, node: &NodeProfile) {
        let fields = &node.fields;
        for name in [Some(node.id.as_str()), fields.name.as_ref().map(Text::as_str)].into_iter().flatten() {
            self.name(name, NAMES);
        }
        for tag in fields.tags.as_ref().into_iter().flat_map(Labels::iter) {
            self.name(tag, TAGS);
        }
        self.name(fields.author.as_ref().map_or("", Text::as_str), AUTHOR);
        self.description(fields.description.as_ref().map_or("", Text::as_str), slot);
    }

    /// Adds the words of a name like [`words_of_name`]. ASCII names without capitals take a faster path.
    fn name(&mut self, name: &str, place: u8) {
        let plain = name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        if !plain {
            for word in words_of_name(name) {
                self.note(&word, place);
            }
            return;
        }

        let mut before = "";
        let mut buffer = std::mem::take(&mut self.buffer);
        for word in pieces(name) {
            self.note(word, place);
            if are_pair(before, word) {
                buffer.clear();
                buffer.push_str(before);
                buffer.push_str(word);
                self.note(&buffer, place);
            }
            before = word;
        }

        self.buffer = buffer;
        let whole = joined(name);
        if !whole.is_empty() {
            self.note(&whole, place);
        }
    }

    /// Adds the words of a description like [`words`], with their [`pairs`].
    fn description(&mut self, text: &str, slot: Slot) {
        if !text.is_ascii() {
            let words: Vec<String> = words(text).collect();
            for word in &words {
                self.note(word, DESCRIPTION);
            }
            self.pairs.extend(pairs(&words).filter_map(|(a, b)| beside(fingerprint([a, b]), slot)));
            return;
        }
        let mut word = std::mem::take(&mut self.buffer);
        let mut before = std::mem::take(&mut self.before);

        before.clear();
        for piece in pieces(text) {
            word.clear();
            word.push_str(piece);
            word.make_ascii_lowercase();
            self.note(&word, DESCRIPTION);
            if are_pair(&before, &word) {
                self.pairs.extend(beside(fingerprint([&*before, &*word]), slot));
            }
            std::mem::swap(&mut word, &mut before);
        }

        (self.buffer, self.before) = (word, before);
    }

    fn note(&mut self, word: &str, place: u8) {
        let number = self.numbers.get(word).copied().unwrap_or_else(|| {
            let number = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            self.numbers.insert(word.into(), number);
            number
        });
        self.here.push(pack(number, place));
    }

    /// Finishes a node: merges the field bits of each word.
    fn settle(&mut self, slot: Slot) {
        self.here.sort_unstable();
        for same in self.here.chunk_by(|a, b| a >> PLACES == b >> PLACES) {
            let places = same.iter().fold(0, |places, word| places | (word & ((1 << PLACES) - 1)));
            self.found.push((same[0] >> PLACES, slot << PLACES | places));
        }
        self.here.clear();
    }

    /// Finishes the batch: groups the slots by word.
    fn sorted(self) -> Share {
        let mut ends = vec![0; self.numbers.len()];
        for (number, _) in &self.found {
            ends[*number as usize] += 1;
        }

        let mut end = 0;
        for count in &mut ends {
            end += std::mem::replace(count, end);
        }

        let mut found = vec![0; self.found.len()];
        for (number, entry) in self.found {
            let at = &mut ends[number as usize];
            found[*at] = entry;
            *at += 1;
        }

        let starts = |number: u32| number.checked_sub(1).map_or(0, |before| ends[before as usize]);
        let place = |number: u32| starts(number)..ends[number as usize];
        let words = self.numbers.into_iter().map(|(word, number)| (word, place(number))).collect();
        Share { words, found, pairs: self.pairs }
    }
}

/// Returns the words of an ASCII text, in their original case.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|piece| !piece.is_empty())
}

/// Returns `true` if two ASCII words form a pair ([`pairs`]); `before` is empty for the first word.
fn are_pair(before: &str, word: &str) -> bool {
    !before.is_empty() && before.len() + word.len() > 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{NodeId, PublisherId};
    use crate::domain::node::{NodeEvent, NodeFields};
    use crate::domain::value::{Name, Timestamp};
    use crate::projections::node::search::{NodeWords, SearchIndex, words_of_node};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_at_once_is_as_one_by_one(texts in prop::collection::vec(("[a-zA-Z0-9 _.ÄéİßΣ顔-]{0,12}", "[a-zA-Z -]{0,30}", "\\PC{0,20}"), 0..6)) {
            let (mut entries, mut index) = (Vec::new(), SearchIndex::default());
            for (slot, (name, author, description)) in (0..).zip(texts) {
                let fields = NodeFields {
                    tags: Some(Labels::recorded(vec![author.clone(), name.clone()])),
                    name: Some(Name::recorded(name)),
                    author: Some(Name::recorded(author)),
                    description: Some(Text::recorded(description)),
                    ..NodeFields::default()
                };
                let id = NodeId::parse(&format!("Node-{slot}")).unwrap();
                let mut entry = Entry::new(0);
                let created = NodeEvent::NodeCreated { id, publisher: PublisherId::parse("acme").unwrap(), fields };
                entry.evolve(&created, Timestamp::from_micros(1));
                index.change(slot, &NodeWords::default(), &words_of_node(entry.profile().unwrap()));
                entries.push(Arc::new(entry));
            }
            let (nodes, pairs) = postings(&entries);
            prop_assert_eq!(nodes, index.nodes);
            prop_assert_eq!(pairs, index.pairs);
        }
    }
}
