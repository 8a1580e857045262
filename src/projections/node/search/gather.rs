//! Indexing many nodes at once: what [`super::words_of_node`] gives for each of them, without a piece of memory for every
//! word of every node.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::words::{joined, pairs, words, words_of_name};
use super::{AUTHOR, DESCRIPTION, Entry, NAMES, Order, PLACES, Postings, TAGS, beside, fingerprint, pack};
use crate::domain::node::NodeProfile;
use crate::domain::value::{Labels, Text};
use crate::projections::node::slots::Slot;

/// Nodes that are indexed together, on one core.
const SHARE: usize = 8192;

/// By word: the slots that have it, each with its places, ascending; and the fingerprints of pairs beside their slots.
pub fn postings(entries: &[Arc<Entry>]) -> (Postings, Order<u64>) {
    let shares: Vec<Share> = entries.par_chunks(SHARE).enumerate().map(|(nth, part)| Share::of(nth, part)).collect();
    let mut pairs = Vec::with_capacity(shares.iter().map(|share| share.pairs.len()).sum());
    let (mut words, mut found) = (Vec::new(), Vec::with_capacity(shares.len()));
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

/// A word of a share.
struct Word {
    /// Most words differ in this, which needs no look elsewhere.
    begins: u64,
    text: Box<str>,
    /// The share, and the place of its slots there.
    nth: usize,
    place: Range<usize>,
}

/// The first bytes of a word, which compare as it does.
fn beginning(word: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = word.len().min(8);
    bytes[..length].copy_from_slice(&word.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

/// One list for each word out of those of the shares, which come in order.
fn joined_up(words: Vec<Word>, found: &[Vec<u32>]) -> Postings {
    let mut lists: Vec<(Box<str>, Order)> = Vec::with_capacity(words.len());
    let (mut words, mut slots) = (words.into_iter().peekable(), Vec::new());
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

/// The words of some nodes.
struct Share {
    /// Each word once, with the place of its slots.
    words: Vec<(Box<str>, Range<usize>)>,
    /// Slots with the places of a word in them; of each word ascending.
    found: Vec<u32>,
    /// Fingerprints of pairs of words beside their slots, in no order.
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

/// Some nodes while they are read.
#[derive(Default)]
struct Reading {
    numbers: HashMap<Box<str>, u32>,
    /// Numbers of words with the slots that have them, ascending by slot.
    found: Vec<(u32, u32)>,
    /// Of the present node: numbers of words with their places in the lowest bits.
    here: Vec<u32>,
    pairs: Vec<u64>,
    /// A word in lower case, and the one before it.
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

    /// As [`words_of_name`]; in a plain name without capitals there are only its words, neighbours as one, and all of it as one.
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

    /// As [`words`], with [`pairs`] of them.
    fn description(&mut self, text: &str, slot: Slot) {
        if !text.is_ascii() {
            let words: Vec<String> = words(text).collect();
            for word in &words {
                self.note(word, DESCRIPTION);
            }
            self.pairs.extend(pairs(&words).filter_map(|(a, b)| beside(fingerprint([a, b]), slot)));
            return;
        }
        let (mut word, mut before) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.before));
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

    /// The node was read: each of its words once, with all its places.
    fn settle(&mut self, slot: Slot) {
        self.here.sort_unstable();
        for same in self.here.chunk_by(|a, b| a >> PLACES == b >> PLACES) {
            let places = same.iter().fold(0, |places, word| places | (word & ((1 << PLACES) - 1)));
            self.found.push((same[0] >> PLACES, slot << PLACES | places));
        }
        self.here.clear();
    }

    /// Everything was read: what was found, word by word.
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

/// The words of a text in ASCII, as they are written.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|piece| !piece.is_empty())
}

/// Whether two words in ASCII are a pair ([`pairs`]); nothing comes before the first one.
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
