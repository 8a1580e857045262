//! Full-text search of nodes: inverted index and scores.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bitset::{Slot, SlotSet};
use super::entry::NodeEntry;
use super::owners::Owners;
use super::sorted_list::SortedList;
use super::tokenize::{adjacent_pairs, join_words, words, words_of_name};
use crate::domain::node::NodeProfile;
use crate::domain::value::{InvalidValue, Labels, Text};

/// Fields in which a word can occur, one bit each, in ascending weight.
const DESCRIPTION: u8 = 1;
const AUTHOR: u8 = 2;
const TAGS: u8 = 4;
const NAMES: u8 = 8;
/// Number of field bits.
const FIELD_BITS: u32 = 4;
/// Maximum score of one word.
const WORD_SCORE_MAX: u16 = 8;

/// Maximum characters of a query.
pub const QUERY_MAX: usize = 200;
/// Maximum words of a query.
const QUERY_WORDS_MAX: usize = 64;

/// A parsed search query.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SearchQuery {
    /// The query in lowercase.
    exact: String,
    /// The words of the query; the last one can be a prefix.
    words: Vec<String>,
    /// All words joined into one, if there are several.
    joined: Option<String>,
    /// Each two adjacent words joined into one.
    pairs: Vec<String>,
}

impl SearchQuery {
    /// Returns the approximate memory use in bytes, beyond the structure itself.
    #[must_use]
    pub fn weight(&self) -> usize {
        let texts = self.words.iter().chain(&self.joined).chain(&self.pairs).chain([&self.exact]);
        texts.map(|text| text.len() + 48).sum()
    }

    /// Parses a query.
    ///
    /// # Errors
    /// If the query has more than [`QUERY_MAX`] characters or too many words.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        if text.chars().count() > QUERY_MAX {
            return Err(InvalidValue::new(format!("must have at most {QUERY_MAX} characters")));
        }
        let words: Vec<String> = words(text).collect();
        if words.len() > QUERY_WORDS_MAX {
            return Err(InvalidValue::new(format!("must have at most {QUERY_WORDS_MAX} words")));
        }
        let joined = (words.len() > 1).then(|| join_words(text));
        let pairs = words.windows(2).map(<[String]>::concat).collect();
        Ok(Self { exact: text.trim().to_lowercase(), words, joined, pairs })
    }

    /// Returns `true` if the query is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    /// Returns `true` if the query is not empty but contains no word; it matches nothing.
    #[must_use]
    pub fn is_wordless(&self) -> bool {
        self.words.is_empty() && !self.is_empty()
    }

    /// Returns the key of a node whose id equals the query.
    #[must_use]
    pub fn exact(&self) -> &str {
        &self.exact
    }

    /// Returns the score of a node whose id equals the query, which is above all other scores.
    #[must_use]
    pub fn exact_score(&self) -> u16 {
        u16::try_from(self.words.len()).unwrap_or(u16::MAX).saturating_mul(WORD_SCORE_MAX).saturating_add(1)
    }
}

/// Search words of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeWords {
    /// Distinct words with their field bits, sorted.
    words: Vec<(String, u8)>,
    /// Fingerprints of adjacent description words joined into one, sorted. There are too many to store as text.
    pairs: Vec<u64>,
}

/// Returns the search words of a node, without those of its publisher.
#[must_use]
pub fn words_of_node(node: &NodeProfile) -> NodeWords {
    let fields = &node.fields;

    let description: Vec<String> = words(fields.description.as_ref().map_or("", Text::as_str)).collect();
    let mut pair_hashes: Vec<u64> = adjacent_pairs(&description).map(|(a, b)| fingerprint([a, b])).collect();
    pair_hashes.sort_unstable();
    pair_hashes.dedup();

    let mut weighted_words: Vec<(String, u8)> = Vec::new();
    let mut add_name = |name: &str, field: u8| {
        weighted_words.extend(words_of_name(name).into_iter().map(|word| (word, field)));
    };
    add_name(node.id.as_str(), NAMES);
    add_name(fields.name.as_ref().map_or("", Text::as_str), NAMES);
    add_name(fields.author.as_ref().map_or("", Text::as_str), AUTHOR);
    for tag in fields.tags.iter().flat_map(Labels::iter) {
        add_name(tag, TAGS);
    }
    weighted_words.extend(description.into_iter().map(|word| (word, DESCRIPTION)));

    weighted_words.sort_unstable();
    weighted_words.dedup_by(|word, previous| {
        let is_same_word = word.0 == previous.0;
        if is_same_word {
            previous.1 |= word.1;
        }
        is_same_word
    });
    NodeWords { words: weighted_words, pairs: pair_hashes }
}

/// Low bits of a fingerprint that hold a slot.
const SLOT_BITS: u32 = 28;

/// Returns the fingerprint of a text given in parts: FNV-1a, mixed, with the low bits left free for a slot. A collision
/// only adds a node to the result.
fn fingerprint<'t>(parts: impl IntoIterator<Item = &'t str>) -> u64 {
    let bytes = parts.into_iter().flat_map(str::bytes);
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !0 << SLOT_BITS
}

type Postings = BTreeMap<Box<str>, PostingList>;

/// Postings of one word, ascending. Most words occur in one node only, whose posting needs no allocation.
#[derive(Debug, Clone)]
enum PostingList {
    One(u32),
    Many(SortedList),
}

impl PostingList {
    /// Creates a list from sorted postings.
    fn from_sorted(postings: &[u32]) -> Self {
        match postings {
            [posting] => Self::One(*posting),
            postings => Self::Many(SortedList::from_sorted(postings)),
        }
    }

    fn insert(&mut self, posting: u32) {
        if let Self::One(existing) = self {
            if *existing == posting {
                return;
            }
            *self = Self::Many(SortedList::from_sorted(&[*existing]));
        }
        if let Self::Many(list) = self {
            list.insert_natural(posting);
        }
    }

    /// Removes a posting; returns `true` if none is left.
    fn remove(&mut self, posting: u32) -> bool {
        match self {
            Self::One(existing) => *existing == posting,
            Self::Many(list) => {
                list.remove_natural(posting);
                list.len() == 0
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(list) => list.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        let (one, many) = match self {
            Self::One(posting) => (Some(*posting), None),
            Self::Many(list) => (None, Some(list.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// Compares the postings, regardless of the representation.
impl PartialEq for PostingList {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// The inverted index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchIndex {
    /// Slots by word, each with its field bits in the lowest bits, ascending.
    nodes: Postings,
    /// Fingerprints of joined word pairs with the slot in the low bits, ascending.
    pairs: SortedList<u64>,
    /// Publishers by word of their id or name, ascending.
    owners: Postings,
}

impl SearchIndex {
    /// Indexes the words of nodes, by slot.
    #[must_use]
    pub fn build(entries: &[Arc<NodeEntry>]) -> Self {
        let (nodes, pairs) = posting_merge::build_postings(entries);
        Self { nodes, pairs, owners: Postings::new() }
    }

    /// Replaces the words of a node.
    pub fn update(&mut self, slot: Slot, before: &NodeWords, after: &NodeWords) {
        // Both lists are sorted, so unchanged words are found without accessing the index.
        for (word, fields) in before.words.iter().filter(|word| after.words.binary_search(word).is_err()) {
            remove_posting(&mut self.nodes, word, pack_posting(slot, *fields));
        }

        for (word, fields) in after.words.iter().filter(|word| before.words.binary_search(word).is_err()) {
            insert_posting(&mut self.nodes, word, pack_posting(slot, *fields));
        }

        for pair in before.pairs.iter().filter(|pair| after.pairs.binary_search(pair).is_err()) {
            if let Some(posting) = pair_posting(*pair, slot) {
                self.pairs.remove_natural(posting);
            }
        }
        for pair in after.pairs.iter().filter(|pair| before.pairs.binary_search(pair).is_err()) {
            if let Some(posting) = pair_posting(*pair, slot) {
                self.pairs.insert_natural(posting);
            }
        }
    }

    /// Replaces the words of a publisher after a change of its name.
    pub fn rename_owner(&mut self, owner: u32, id: &str, before: Option<&str>, after: &str) {
        let words_with_id = |name: &str| [words_of_name(id), words_of_name(name)].concat();
        for word in before.into_iter().flat_map(words_with_id) {
            remove_posting(&mut self.owners, &word, owner);
        }
        for word in words_with_id(after) {
            insert_posting(&mut self.owners, &word, owner);
        }
    }

    /// Scores the candidates and removes those that do not match. `slots` is the total number of slots. Takes one step
    /// per posting of the words and per matching node, and for each word a pass over the levels of all slots.
    #[must_use]
    pub fn score(&self, query: &SearchQuery, owners: &Owners, candidates: &mut SlotSet, slots: usize) -> Vec<u16> {
        let mut scores = vec![0_u16; slots];
        let mut levels = MatchLevels::new(candidates.clone(), slots);
        for (index, word) in query.words.iter().enumerate() {
            self.rank(word, index + 1 == query.words.len(), owners, &mut levels);
            self.rank_descriptions(word, &mut levels);
            // The pairs that contain this word: with the previous word and with the next one.
            for pair in query.pairs.iter().skip(index.saturating_sub(1)).take(1 + index.min(1)) {
                self.rank(pair, false, owners, &mut levels);
            }
            levels.matched.iter().for_each(|slot| scores[slot as usize] += u16::from(levels.levels[slot as usize]));
            levels.keep_matched();
        }
        let matching_all = std::mem::replace(&mut levels.candidates, std::mem::take(candidates));

        if let Some(word) = &query.joined {
            // Separators do not matter: the joined words match as well as the separate ones.
            self.rank_names(word, &mut levels);
        }

        let word_count = u16::try_from(query.words.len()).unwrap_or(u16::MAX);
        for slot in levels.matched.iter() {
            let separate_score = if matching_all.contains(slot) { scores[slot as usize] } else { 0 };
            let joined_score = u16::from(levels.levels[slot as usize]).saturating_mul(word_count);
            scores[slot as usize] = separate_score.max(joined_score);
        }
        *candidates = matching_all;
        candidates.unite(&levels.matched);
        scores
    }

    /// Raises the level of every slot that matches one word.
    fn rank(&self, word: &str, by_prefix: bool, owners: &Owners, levels: &mut MatchLevels) {
        for (matched, nodes) in matching_words(&self.nodes, word, by_prefix) {
            levels.raise_matches(nodes.iter(), matched.len() == word.len());
        }
        for (matched, publishers) in matching_words(&self.owners, word, by_prefix) {
            let level = match_level(AUTHOR, matched.len() == word.len());
            for slot in publishers.iter().flat_map(|owner| owners.slots(owner)) {
                levels.raise(*slot, level);
            }
        }
    }

    /// Raises the level of slots whose description contains the word as two words; counts like a prefix.
    fn rank_descriptions(&self, word: &str, levels: &mut MatchLevels) {
        let pair = fingerprint([word]);
        let postings = self.pairs.iter_from(pair).take_while(|posting| posting >> SLOT_BITS == pair >> SLOT_BITS);
        for slot in postings.filter_map(|entry| Slot::try_from(entry & !(!0 << SLOT_BITS)).ok()) {
            levels.raise(slot, match_level(DESCRIPTION, false));
        }
    }

    fn rank_names(&self, prefix: &str, levels: &mut MatchLevels) {
        for (matched, nodes) in matching_words(&self.nodes, prefix, true) {
            let name_postings = nodes.iter().filter(|packed| packed & u32::from(NAMES) != 0);
            if matched.len() == prefix.len() {
                levels.raise_matches(name_postings, true);
            } else {
                // A prefix can belong to an unrelated word, so it has the lowest weight.
                name_postings.for_each(|packed| levels.raise(packed >> FIELD_BITS, 1));
            }
        }
    }
}

/// Candidates that match one word, each with the weight of its best match ([`match_level`]).
struct MatchLevels {
    candidates: SlotSet,
    matched: SlotSet,
    /// By slot; 0 if it does not match.
    levels: Vec<u8>,
}

impl MatchLevels {
    fn new(candidates: SlotSet, slots: usize) -> Self {
        Self { candidates, matched: SlotSet::default(), levels: vec![0; slots] }
    }

    /// Prepares for the next word: candidates that do not match this one are dropped.
    fn keep_matched(&mut self) {
        self.candidates = std::mem::take(&mut self.matched);
        self.levels.fill(0);
    }

    fn raise(&mut self, slot: Slot, level: u8) {
        if self.candidates.contains(slot) {
            let current = &mut self.levels[slot as usize];
            *current = (*current).max(level);
            self.matched.set(slot, true);
        }
    }

    fn raise_matches(&mut self, nodes: impl Iterator<Item = u32>, is_whole_word: bool) {
        nodes.for_each(|packed| {
            let fields = packed.to_le_bytes()[0] & ((1 << FIELD_BITS) - 1);
            self.raise(packed >> FIELD_BITS, match_level(fields, is_whole_word));
        });
    }
}

/// Returns the weight of a match, from 1 for a prefix in the description to 8 for a whole word in id or name.
fn match_level(fields: u8, is_whole_word: bool) -> u8 {
    let top_field = u8::try_from(fields.checked_ilog2().unwrap_or(0)).unwrap_or(0);
    2 * top_field + 1 + u8::from(is_whole_word)
}

/// Returns the indexed words that equal a word or, with `by_prefix`, start with it. Reads the text of few words only.
fn matching_words<'i>(
    index: &'i Postings,
    word: &str,
    by_prefix: bool,
) -> impl Iterator<Item = (&'i str, &'i PostingList)> {
    use std::ops::Bound::Included;
    // Words consist of letters and digits, which all sort before this character.
    let last = if by_prefix { format!("{word}{}", char::MAX) } else { word.to_owned() };
    let range = index.range::<str, _>((Included(word), Included(last.as_str())));
    range.map(|(indexed_word, list)| (&**indexed_word, list))
}

fn pack_posting(slot: Slot, fields: u8) -> u32 {
    slot << FIELD_BITS | u32::from(fields)
}

/// Combines a fingerprint with a slot; `None` if the slot exceeds the available bits.
fn pair_posting(pair: u64, slot: Slot) -> Option<u64> {
    (slot >> SLOT_BITS == 0).then_some(pair | u64::from(slot))
}

fn insert_posting(index: &mut Postings, word: &str, posting: u32) {
    match index.get_mut(word) {
        Some(list) => list.insert(posting),
        None => drop(index.insert(word.into(), PostingList::One(posting))),
    }
}

fn remove_posting(index: &mut Postings, word: &str, posting: u32) {
    if index.get_mut(word).is_some_and(|list| list.remove(posting)) {
        index.remove(word);
    }
}

mod posting_merge;
mod spelling;
#[cfg(test)]
mod tests;
