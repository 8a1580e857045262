//! Finding nodes by words: which word stands where, and how well a node fits a query.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::Entry;
use super::order::Order;
use super::owners::Owners;
use super::slots::{Bits, Slot};
use super::words::{joined, words, words_of_name};
use crate::domain::node::NodeProfile;
use crate::domain::value::{Invalid, Labels, Text};

/// Where a word of a node can stand, from what counts least to what counts most; each is a bit.
const DESCRIPTION: u8 = 1;
const AUTHOR: u8 = 2;
const TAGS: u8 = 4;
const NAMES: u8 = 8;
/// How many bits there are.
const PLACES: u32 = 4;
/// What one word can add to a score at most.
const WORD_MAX: u16 = 8;

/// Most characters of a query.
pub const QUERY_MAX: usize = 200;
/// Most words of a query.
const QUERY_WORDS_MAX: usize = 64;

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SearchText {
    /// As it was given, in lower case.
    exact: String,
    /// The last one may be the beginning of a word.
    words: Vec<String>,
    /// All words as one, if there are several.
    joined: Option<String>,
}

impl SearchText {
    /// Takes a query apart.
    ///
    /// # Errors
    /// When it is longer than anybody types.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.chars().count() > QUERY_MAX {
            return Err(Invalid::new(format!("must be at most {QUERY_MAX} characters")));
        }
        let words: Vec<String> = words(text).collect();
        if words.len() > QUERY_WORDS_MAX {
            return Err(Invalid::new(format!("must have at most {QUERY_WORDS_MAX} words")));
        }
        let joined = (words.len() > 1).then(|| joined(text));
        Ok(Self { exact: text.trim().to_lowercase(), words, joined })
    }

    /// Whether nothing in particular is searched for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The key of the node that has this very id, if there is one.
    #[must_use]
    pub fn exact(&self) -> &str {
        &self.exact
    }

    /// The score of the node that has this very id: more than words can give.
    #[must_use]
    pub fn best(&self) -> u16 {
        u16::try_from(self.words.len()).unwrap_or(u16::MAX).saturating_mul(WORD_MAX).saturating_add(1)
    }
}

/// Every word of a node and where it stands, sorted.
pub type NodeWords = Vec<(String, u8)>;

/// The words by which a node is found, but for those of its publisher.
#[must_use]
pub fn words_of_node(node: &NodeProfile) -> NodeWords {
    let fields = &node.fields;
    let names = [Some(node.id.as_str()), fields.name.as_ref().map(Text::as_str)];
    let names = names.into_iter().flatten().flat_map(words_of_name).map(|word| (word, NAMES));
    let tags = fields.tags.as_ref().into_iter().flat_map(Labels::iter);
    let tags = tags.flat_map(words_of_name).map(|word| (word, TAGS));
    let author = fields.author.as_ref().map_or("", Text::as_str);
    let author = words_of_name(author).into_iter().map(|word| (word, AUTHOR));
    let description = words(fields.description.as_ref().map_or("", Text::as_str)).map(|word| (word, DESCRIPTION));
    let mut all: NodeWords = names.chain(tags).chain(author).chain(description).collect();
    all.sort_unstable();
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 |= next.1;
        }
        same
    });
    all
}

type Postings = BTreeMap<Box<str>, Order>;

/// The inverted index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchIndex {
    /// By word: the slots that have it, each with its places in the lowest bits, ascending.
    nodes: Postings,
    /// By word: the publishers that have it in their id or name, ascending.
    owners: Postings,
}

impl SearchIndex {
    /// Indexes the words of nodes, by slot.
    #[must_use]
    pub fn build(entries: &[Arc<Entry>]) -> Self {
        Self { nodes: gather::postings(entries), owners: Postings::new() }
    }

    /// What was `before` among the words of a node is now `after`.
    pub fn change(&mut self, slot: Slot, before: &NodeWords, after: &NodeWords) {
        // Both are sorted, so that what stayed is found without a look into the index.
        for (word, places) in before.iter().filter(|word| after.binary_search(word).is_err()) {
            take_out(&mut self.nodes, word, pack(slot, *places));
        }
        for (word, places) in after.iter().filter(|word| before.binary_search(word).is_err()) {
            put_in(&mut self.nodes, word, pack(slot, *places));
        }
    }

    /// What a publisher was called `before` it is called now.
    pub fn rename_owner(&mut self, owner: u32, id: &str, before: Option<&str>, after: &str) {
        let words_of = |name: &str| [words_of_name(id), words_of_name(name)].concat();
        for word in before.into_iter().flat_map(words_of) {
            take_out(&mut self.owners, &word, owner);
        }
        for word in words_of(after) {
            put_in(&mut self.owners, &word, owner);
        }
    }

    /// Scores what fits the query among `candidates`, and takes the rest out of them. `slots` is how many slots there are.
    #[must_use]
    pub fn score(&self, query: &SearchText, owners: &Owners, candidates: &mut Bits, slots: usize) -> Vec<u16> {
        let mut together = vec![0; slots];
        if let Some(word) = &query.joined {
            // Separators do not matter: all words as one are as good as each of them.
            self.rank_names(word, &mut together);
        }
        let mut scores = vec![0_u16; slots];
        let mut levels = vec![0_u8; slots];
        let mut fitting = candidates.clone();
        for (index, word) in query.words.iter().enumerate() {
            levels.fill(0);
            self.rank(word, index + 1 == query.words.len(), owners, &mut levels);
            fitting.retain(|slot| levels[slot as usize] != 0);
            scores.iter_mut().zip(&levels).for_each(|(score, level)| *score += u16::from(*level));
        }
        let count = u16::try_from(query.words.len()).unwrap_or(u16::MAX);
        candidates.retain(|slot| {
            let at = slot as usize;
            let apart = if fitting.contains(slot) { scores[at] } else { 0 };
            scores[at] = apart.max(u16::from(together[at]).saturating_mul(count));
            scores[at] != 0
        });
        scores
    }

    /// Notes for every slot how well one word fits it, 0 when it does not.
    fn rank(&self, word: &str, by_prefix: bool, owners: &Owners, levels: &mut [u8]) {
        for (found, nodes) in matches(&self.nodes, word, by_prefix) {
            note(nodes.iter(), found.len() == word.len(), levels);
        }
        for (found, publishers) in matches(&self.owners, word, by_prefix) {
            let level = level(AUTHOR, found.len() == word.len());
            for slot in publishers.iter().flat_map(|owner| owners.slots(owner)) {
                raise(levels, *slot, level);
            }
        }
    }

    fn rank_names(&self, beginning: &str, levels: &mut [u8]) {
        for (found, nodes) in matches(&self.nodes, beginning, true) {
            let named = nodes.iter().filter(|packed| packed & u32::from(NAMES) != 0);
            if found.len() == beginning.len() {
                note(named, true, levels);
            } else {
                // Perhaps the beginning of another word altogether: it counts least.
                named.for_each(|packed| raise(levels, packed >> PLACES, 1));
            }
        }
    }
}

fn note(nodes: impl Iterator<Item = u32>, whole: bool, levels: &mut [u8]) {
    for packed in nodes {
        let places = packed.to_le_bytes()[0] & ((1 << PLACES) - 1);
        raise(levels, packed >> PLACES, level(places, whole));
    }
}

fn raise(levels: &mut [u8], slot: Slot, level: u8) {
    if let Some(known) = levels.get_mut(slot as usize) {
        *known = (*known).max(level);
    }
}

/// From 1 for the beginning of a word of the description to 8 for a whole word of the id or name.
fn level(places: u8, whole: bool) -> u8 {
    let best = u8::try_from(places.checked_ilog2().unwrap_or(0)).unwrap_or(0);
    2 * best + 1 + u8::from(whole)
}

fn matches<'i>(index: &'i Postings, word: &'i str, by_prefix: bool) -> impl Iterator<Item = (&'i str, &'i Order)> {
    use std::ops::Bound::{Included, Unbounded};
    let from = index.range::<str, _>((Included(word), Unbounded)).map(|(found, list)| (&**found, list));
    from.take_while(move |(found, _)| if by_prefix { found.starts_with(word) } else { *found == word })
}

fn pack(slot: Slot, places: u8) -> u32 {
    slot << PLACES | u32::from(places)
}

fn put_in(index: &mut Postings, word: &str, entry: u32) {
    match index.get_mut(word) {
        Some(list) => list.insert_slot(entry),
        None => drop(index.insert(word.into(), Order::from_sorted(&[entry]))),
    }
}

fn take_out(index: &mut Postings, word: &str, entry: u32) {
    if let Some(list) = index.get_mut(word) {
        list.remove_slot(entry);
        if list.len() == 0 {
            index.remove(word);
        }
    }
}

mod gather;
#[cfg(test)]
mod tests;
