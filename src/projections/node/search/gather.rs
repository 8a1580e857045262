//! Indexing many nodes at once: what [`super::words_of_node`] gives for each of them, without a piece of memory for every
//! word of every node.

use std::collections::HashMap;
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
    let mut all: HashMap<Box<str>, Vec<u32>> = HashMap::new();
    let mut pairs = Vec::with_capacity(shares.iter().map(|share| share.pairs.len()).sum());
    for share in shares {
        pairs.extend(share.pairs);
        for (word, number) in share.numbers {
            let found = &share.found[number as usize];
            match all.get_mut(&word) {
                Some(slots) => slots.extend_from_slice(found),
                None => drop(all.insert(word, found.clone())),
            }
        }
    }
    pairs.par_sort_unstable();
    pairs.dedup();
    let mut all: Vec<_> = all.into_iter().collect();
    all.par_sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let all = all.into_iter().map(|(word, slots)| (word, Order::from_sorted(&slots)));
    (all.collect(), Order::from_sorted(&pairs))
}

/// The words of some nodes.
#[derive(Default)]
struct Share {
    numbers: HashMap<Box<str>, u32>,
    /// By number of the word: where it stands, ascending.
    found: Vec<Vec<u32>>,
    /// Of the present node: numbers of words with their places in the lowest bits.
    here: Vec<u32>,
    /// Fingerprints of pairs of words beside their slots, in no order.
    pairs: Vec<u64>,
    /// A word in lower case, and the one before it.
    buffer: String,
    before: String,
}

impl Share {
    fn of(nth: usize, entries: &[Arc<Entry>]) -> Self {
        let mut share = Self::default();
        let first = Slot::try_from(nth * SHARE).unwrap_or(Slot::MAX);
        for (slot, entry) in (first..).zip(entries) {
            if let Some(node) = entry.profile() {
                share.read(slot, node);
                share.settle(slot);
            }
        }
        share
    }

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
            let number = u32::try_from(self.found.len()).unwrap_or(u32::MAX);
            self.numbers.insert(word.into(), number);
            self.found.push(Vec::new());
            number
        });
        self.here.push(pack(number, place));
    }

    /// The node was read: each of its words once, with all its places.
    fn settle(&mut self, slot: Slot) {
        self.here.sort_unstable();
        for same in self.here.chunk_by(|a, b| a >> PLACES == b >> PLACES) {
            let places = same.iter().fold(0, |places, word| places | (word & ((1 << PLACES) - 1)));
            self.found[(same[0] >> PLACES) as usize].push(slot << PLACES | places);
        }
        self.here.clear();
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
