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
    /// The words of the query; the last word can be a prefix.
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

    /// Returns how indexed words may match the word at this index: the last word can be a prefix.
    fn accepted_match(&self, index: usize) -> WordMatch {
        if index + 1 == self.words.len() { WordMatch::Prefix } else { WordMatch::Whole }
    }

    /// Returns the query in lowercase, which is the key of a node whose id equals it.
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

/// Returns the search words of a node, without the words of its publisher.
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

const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x100_0000_01b3;
/// 2⁶⁴ divided by the golden ratio: a multiplication by it mixes all bits into the high ones.
const FIBONACCI_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the fingerprint of a text given in parts: FNV-1a, mixed, with the low bits left free for a slot. A collision
/// only adds a node to the result.
fn fingerprint<'t>(parts: impl IntoIterator<Item = &'t str>) -> u64 {
    let bytes = parts.into_iter().flat_map(str::bytes);
    let hash = bytes.fold(FNV_OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    (hash ^ hash >> 32).wrapping_mul(FIBONACCI_MULTIPLIER) & !0 << SLOT_BITS
}

/// Postings by word.
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

    /// Inserts a posting unless the list already has it.
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
            self.rank(word, query.accepted_match(index), owners, &mut levels);
            self.rank_descriptions(word, &mut levels);

            // The pairs that contain this word, joined with the previous word and with the next word.
            let first_pair = index.saturating_sub(1);
            let end_pair = (index + 1).min(query.pairs.len());
            for pair in &query.pairs[first_pair..end_pair] {
                self.rank(pair, WordMatch::Whole, owners, &mut levels);
            }

            for slot in levels.matched.iter() {
                scores[slot as usize] += u16::from(levels.level_by_slot[slot as usize]);
            }
            levels.keep_matched();
        }

        // Separators do not matter: a name can match the joined words as well as the separate words.
        let matching_all = std::mem::replace(&mut levels.candidates, std::mem::take(candidates));
        if let Some(word) = &query.joined {
            self.rank_names(word, &mut levels);
        }

        let word_count = u16::try_from(query.words.len()).unwrap_or(u16::MAX);
        for slot in levels.matched.iter() {
            let separate_score = if matching_all.contains(slot) { scores[slot as usize] } else { 0 };
            let joined_score = u16::from(levels.level_by_slot[slot as usize]).saturating_mul(word_count);
            scores[slot as usize] = separate_score.max(joined_score);
        }

        *candidates = matching_all;
        candidates.unite(&levels.matched);
        scores
    }

    /// Raises the level of every slot that matches one word.
    fn rank(&self, word: &str, accepted: WordMatch, owners: &Owners, levels: &mut MatchLevels) {
        for (indexed_word, nodes) in matching_words(&self.nodes, word, accepted) {
            levels.raise_matches(nodes.iter(), WordMatch::from_words(indexed_word, word));
        }
        for (indexed_word, publishers) in matching_words(&self.owners, word, accepted) {
            let level = match_level(AUTHOR, WordMatch::from_words(indexed_word, word));
            for slot in publishers.iter().flat_map(|owner| owners.slots(owner)) {
                levels.raise(*slot, level);
            }
        }
    }

    /// Raises the level of slots whose description contains the word as two words; counts like a prefix.
    fn rank_descriptions(&self, word: &str, levels: &mut MatchLevels) {
        for slot in self.slots_with_pair(word) {
            levels.raise(slot, match_level(DESCRIPTION, WordMatch::Prefix));
        }
    }

    /// Returns the slots whose description contains two adjacent words that form this word when joined.
    fn slots_with_pair(&self, word: &str) -> impl Iterator<Item = Slot> {
        let pair = fingerprint([word]);
        let postings = self.pairs.iter_from(pair).take_while(move |posting| posting >> SLOT_BITS == pair >> SLOT_BITS);
        postings.filter_map(|posting| Slot::try_from(posting & !(!0 << SLOT_BITS)).ok())
    }

    /// Raises the level of slots with the joined words of the query in their id or name.
    fn rank_names(&self, joined: &str, levels: &mut MatchLevels) {
        for (indexed_word, nodes) in matching_words(&self.nodes, joined, WordMatch::Prefix) {
            let name_postings = nodes.iter().filter(|packed| packed & u32::from(NAMES) != 0);
            match WordMatch::from_words(indexed_word, joined) {
                WordMatch::Whole => levels.raise_matches(name_postings, WordMatch::Whole),
                // A prefix can belong to an unrelated word, so it has the lowest weight.
                WordMatch::Prefix => name_postings.for_each(|packed| levels.raise(packed >> FIELD_BITS, 1)),
            }
        }
    }
}

/// Match of an indexed word with a word of the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordMatch {
    Whole,
    /// The indexed word only starts with the word of the query.
    Prefix,
}

impl WordMatch {
    /// Returns how an indexed word matches a word that it equals or starts with.
    fn from_words(indexed_word: &str, word: &str) -> Self {
        if indexed_word.len() == word.len() { Self::Whole } else { Self::Prefix }
    }
}

/// Candidates that match one word, each with the weight of its best match ([`match_level`]).
struct MatchLevels {
    candidates: SlotSet,
    matched: SlotSet,
    /// 0 if the slot does not match.
    level_by_slot: Vec<u8>,
}

impl MatchLevels {
    fn new(candidates: SlotSet, slots: usize) -> Self {
        Self { candidates, matched: SlotSet::default(), level_by_slot: vec![0; slots] }
    }

    /// Prepares for the next word: candidates that do not match this one are dropped.
    fn keep_matched(&mut self) {
        self.candidates = std::mem::take(&mut self.matched);
        self.level_by_slot.fill(0);
    }

    fn raise(&mut self, slot: Slot, level: u8) {
        if self.candidates.contains(slot) {
            let current = &mut self.level_by_slot[slot as usize];
            *current = (*current).max(level);
            self.matched.set(slot, true);
        }
    }

    fn raise_matches(&mut self, nodes: impl Iterator<Item = u32>, word_match: WordMatch) {
        nodes.for_each(|packed| {
            let fields = packed.to_le_bytes()[0] & ((1 << FIELD_BITS) - 1);
            self.raise(packed >> FIELD_BITS, match_level(fields, word_match));
        });
    }
}

/// Returns the weight of a match, from 1 for a prefix in the description to 8 for a whole word in id or name.
fn match_level(fields: u8, word_match: WordMatch) -> u8 {
    let top_field = u8::try_from(fields.checked_ilog2().unwrap_or(0)).unwrap_or(0);
    2 * top_field + 1 + u8::from(word_match == WordMatch::Whole)
}

/// Returns the indexed words that equal a word or, if prefixes are accepted, start with it. Reads the text of few words
/// only.
fn matching_words<'i>(
    index: &'i Postings,
    word: &str,
    accepted: WordMatch,
) -> impl Iterator<Item = (&'i str, &'i PostingList)> {
    use std::ops::Bound::Included;
    let last = match accepted {
        WordMatch::Whole => word.to_owned(),
        // Words consist of letters and digits, which all sort before this character.
        WordMatch::Prefix => format!("{word}{}", char::MAX),
    };
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
