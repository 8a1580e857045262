//! Bulk indexing of nodes. Gives the same words as [`super::words_of_node`] without an allocation per word and node.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::super::tokenize::{adjacent_pairs, join_words, words, words_of_name};
use super::{
    AUTHOR, DESCRIPTION, FIELD_BITS, NAMES, NodeEntry, PostingList, Postings, SortedList, TAGS, fingerprint,
    pack_posting, pair_posting,
};
use crate::domain::node::NodeProfile;
use crate::domain::value::{Labels, Text};
use crate::projections::node::bitset::Slot;

/// Nodes that one thread indexes together.
const BATCH_NODES: usize = 8192;

/// Returns slots with field bits by word, and the fingerprints of word pairs with their slots, both ascending.
pub fn build_postings(entries: &[Arc<NodeEntry>]) -> (Postings, SortedList<u64>) {
    let batches: Vec<WordBatch> = entries
        .par_chunks(BATCH_NODES)
        .enumerate()
        .map(|(index, chunk)| WordBatch::from_entries(index, chunk))
        .collect();

    let mut pairs = Vec::with_capacity(batches.iter().map(|batch| batch.pairs.len()).sum());
    let mut words = Vec::new();
    let mut postings = Vec::with_capacity(batches.len());
    for (index, batch) in batches.into_iter().enumerate() {
        pairs.extend(batch.pairs);
        words.extend(batch.words.into_iter().map(|(word, range)| BatchWord {
            prefix: word_prefix(&word),
            text: word,
            batch: index,
            range,
        }));
        postings.push(batch.postings);
    }

    words.par_sort_unstable_by(|a, b| (a.prefix, &a.text, a.batch).cmp(&(b.prefix, &b.text, b.batch)));
    let sort_pairs = move || {
        pairs.par_sort_unstable();
        pairs.dedup();
        SortedList::from_sorted(&pairs)
    };

    rayon::join(|| merge_batches(words, &postings), sort_pairs)
}

/// A word of a batch.
struct BatchWord {
    /// Prefix that decides most comparisons without accessing the text.
    prefix: u64,
    text: Box<str>,
    /// Index of the batch, and the range of the word's slots in it.
    batch: usize,
    range: Range<usize>,
}

/// Returns the first bytes of a word in an order-preserving form.
fn word_prefix(word: &str) -> u64 {
    let mut bytes = [0; 8];
    let length = word.len().min(8);
    bytes[..length].copy_from_slice(&word.as_bytes()[..length]);
    u64::from_be_bytes(bytes)
}

/// Merges the sorted words of all batches into one list per word.
fn merge_batches(words: Vec<BatchWord>, postings: &[Vec<u32>]) -> Postings {
    let mut lists: Vec<(Box<str>, PostingList)> = Vec::with_capacity(words.len());
    let mut words = words.into_iter().peekable();
    let mut slots = Vec::new();
    while let Some(BatchWord { text, batch, range, .. }) = words.next() {
        slots.clear();
        slots.extend_from_slice(&postings[batch][range]);
        while let Some(duplicate) = words.next_if(|next| next.text == text) {
            slots.extend_from_slice(&postings[duplicate.batch][duplicate.range]);
        }
        lists.push((text, PostingList::from_sorted(&slots)));
    }
    lists.into_iter().collect()
}

/// Words of a batch of nodes.
struct WordBatch {
    /// Distinct words with the range of their slots.
    words: Vec<(Box<str>, Range<usize>)>,
    /// Slots with field bits, grouped by word, ascending in each group.
    postings: Vec<u32>,
    /// Fingerprints of word pairs with their slots, unsorted.
    pairs: Vec<u64>,
}

impl WordBatch {
    fn from_entries(batch_index: usize, entries: &[Arc<NodeEntry>]) -> Self {
        let mut reader = WordBatchReader::default();
        let first = Slot::try_from(batch_index * BATCH_NODES).unwrap_or(Slot::MAX);
        for (slot, entry) in (first..).zip(entries) {
            if let Some(node) = entry.profile() {
                reader.read_node(slot, node);
                reader.finish_node(slot);
            }
        }
        reader.into_batch()
    }
}

/// State while a batch is read.
#[derive(Default)]
struct WordBatchReader {
    word_ids: HashMap<Box<str>, u32>,
    /// Numbers of words with slots and field bits, ascending by slot.
    postings: Vec<(u32, u32)>,
    /// Numbers of the current node's words, with field bits in the lowest bits.
    node_words: Vec<u32>,
    pairs: Vec<u64>,
    /// Buffers for the current and the previous lowercase word.
    buffer: String,
    previous: String,
}

impl WordBatchReader {
    fn read_node(&mut self, slot: Slot, node: &NodeProfile) {
        let fields = &node.fields;
        for name in [Some(node.id.as_str()), fields.name.as_ref().map(Text::as_str)].into_iter().flatten() {
            self.add_name(name, NAMES);
        }
        for tag in fields.tags.as_ref().into_iter().flat_map(Labels::iter) {
            self.add_name(tag, TAGS);
        }
        self.add_name(fields.author.as_ref().map_or("", Text::as_str), AUTHOR);
        self.add_description(fields.description.as_ref().map_or("", Text::as_str), slot);
    }

    /// Adds the words of a name like [`words_of_name`]. ASCII names without capitals take a faster path.
    fn add_name(&mut self, name: &str, field: u8) {
        let is_lowercase_ascii = name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        if !is_lowercase_ascii {
            for word in words_of_name(name) {
                self.add_word(&word, field);
            }
            return;
        }

        let mut previous = "";
        let mut buffer = std::mem::take(&mut self.buffer);
        for word in ascii_words(name) {
            self.add_word(word, field);
            if are_pair(previous, word) {
                buffer.clear();
                buffer.push_str(previous);
                buffer.push_str(word);
                self.add_word(&buffer, field);
            }
            previous = word;
        }

        self.buffer = buffer;
        let joined = join_words(name);
        if !joined.is_empty() {
            self.add_word(&joined, field);
        }
    }

    /// Adds the words of a description like [`words`], with their [`adjacent_pairs`].
    fn add_description(&mut self, text: &str, slot: Slot) {
        if !text.is_ascii() {
            let words: Vec<String> = words(text).collect();
            for word in &words {
                self.add_word(word, DESCRIPTION);
            }
            self.pairs.extend(adjacent_pairs(&words).filter_map(|(a, b)| pair_posting(fingerprint([a, b]), slot)));
            return;
        }

        let mut word = std::mem::take(&mut self.buffer);
        let mut previous = std::mem::take(&mut self.previous);
        previous.clear();
        for token in ascii_words(text) {
            word.clear();
            word.push_str(token);
            word.make_ascii_lowercase();
            self.add_word(&word, DESCRIPTION);
            if are_pair(&previous, &word) {
                self.pairs.extend(pair_posting(fingerprint([&*previous, &*word]), slot));
            }
            std::mem::swap(&mut word, &mut previous);
        }

        self.buffer = word;
        self.previous = previous;
    }

    fn add_word(&mut self, word: &str, field: u8) {
        let word_id = self.word_ids.get(word).copied().unwrap_or_else(|| {
            let word_id = u32::try_from(self.word_ids.len()).unwrap_or(u32::MAX);
            self.word_ids.insert(word.into(), word_id);
            word_id
        });
        self.node_words.push(pack_posting(word_id, field));
    }

    /// Finishes a node: merges the field bits of each word.
    fn finish_node(&mut self, slot: Slot) {
        self.node_words.sort_unstable();
        for postings in self.node_words.chunk_by(|a, b| a >> FIELD_BITS == b >> FIELD_BITS) {
            let fields = postings.iter().fold(0, |fields, word| fields | (word & ((1 << FIELD_BITS) - 1)));
            self.postings.push((postings[0] >> FIELD_BITS, slot << FIELD_BITS | fields));
        }
        self.node_words.clear();
    }

    /// Finishes the batch: groups the slots by word, with a counting sort.
    fn into_batch(self) -> WordBatch {
        let mut positions = vec![0; self.word_ids.len()];
        for (word_id, _) in &self.postings {
            positions[*word_id as usize] += 1;
        }

        // Turns the counts into the start of each word's range.
        let mut end = 0;
        for count in &mut positions {
            end += std::mem::replace(count, end);
        }

        let mut postings = vec![0; self.postings.len()];
        for (word_id, posting) in self.postings {
            let next_index = &mut positions[word_id as usize];
            postings[*next_index] = posting;
            *next_index += 1;
        }

        // Each position is now the end of its word's range.
        let start_of = |word_id: u32| word_id.checked_sub(1).map_or(0, |previous_id| positions[previous_id as usize]);
        let range_of = |word_id: u32| start_of(word_id)..positions[word_id as usize];
        let words = self.word_ids.into_iter().map(|(word, word_id)| (word, range_of(word_id))).collect();
        WordBatch { words, postings, pairs: self.pairs }
    }
}

/// Returns the words of an ASCII text, in their original case.
fn ascii_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|token| !token.is_empty())
}

/// Returns `true` if two ASCII words form a pair ([`adjacent_pairs`]); `previous` is empty for the first word.
fn are_pair(previous: &str, word: &str) -> bool {
    !previous.is_empty() && previous.len() + word.len() > 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::ids::{NodeId, PublisherId};
    use crate::domain::node::{NodeEvent, NodeFields};
    use crate::domain::value::{Name, Timestamp};
    use crate::projections::node::search::{NodeWords, SearchIndex, words_of_node};

    proptest! {
        #[test]
        fn bulk_indexing_equals_single_updates(texts in prop::collection::vec(("[a-zA-Z0-9 _.ÄéİßΣ顔-]{0,12}", "[a-zA-Z -]{0,30}", "\\PC{0,20}"), 0..6)) {
            let mut entries = Vec::new();
            let mut index = SearchIndex::default();
            for (slot, (name, author, description)) in (0..).zip(texts) {
                let fields = NodeFields {
                    tags: Some(Labels::from_recorded(vec![author.clone(), name.clone()])),
                    name: Some(Name::from_recorded(name)),
                    author: Some(Name::from_recorded(author)),
                    description: Some(Text::from_recorded(description)),
                    ..NodeFields::default()
                };
                let id = NodeId::parse(&format!("Node-{slot}")).unwrap();
                let mut entry = NodeEntry::new(0);
                let created = NodeEvent::NodeCreated { id, publisher: PublisherId::parse("acme").unwrap(), fields };
                entry.evolve(&created, Timestamp::from_micros(1));
                index.update(slot, &NodeWords::default(), &words_of_node(entry.profile().unwrap()));
                entries.push(Arc::new(entry));
            }
            let (nodes, pairs) = build_postings(&entries);
            prop_assert_eq!(nodes, index.nodes);
            prop_assert_eq!(pairs, index.pairs);
        }
    }
}
