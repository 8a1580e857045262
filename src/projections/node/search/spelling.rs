//! Correction of misspelt words in queries that match nothing.

use super::{PostingList, Postings, SearchIndex, SearchQuery, WordMatch, matching_words};

/// Minimum length of a corrected word, in characters. Shorter ones have too many neighbours to guess.
const WORD_CHARS_MIN: usize = 4;
/// Maximum length of a corrected word, in characters.
const WORD_CHARS_MAX: usize = 32;
/// Maximum number of corrected words of a query.
const CORRECTIONS_MAX: usize = 3;
/// Characters that can be missing or wrong.
const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyz0123456789";

impl SearchIndex {
    /// Returns the query with each unknown word replaced by the most frequent known word at a distance of one typing
    /// error; `None` if no word is unknown, or one of them cannot be replaced.
    #[must_use]
    pub fn correct(&self, query: &SearchQuery) -> Option<SearchQuery> {
        let mut words = query.words.clone();
        let mut corrections = 0;
        for (index, word) in words.iter_mut().enumerate() {
            if self.is_known(word, query.accepted_match(index)) {
                continue;
            }
            *word = self.correction(word)?;
            corrections += 1;
            if corrections > CORRECTIONS_MAX {
                return None;
            }
        }
        (corrections > 0).then(|| SearchQuery::parse(&words.join(" ")).ok()).flatten()
    }

    fn is_known(&self, word: &str, accepted: WordMatch) -> bool {
        let occurs = |index: &Postings| matching_words(index, word, accepted).next().is_some();
        occurs(&self.nodes) || occurs(&self.owners) || self.slots_with_pair(word).next().is_some()
    }

    fn correction(&self, word: &str) -> Option<String> {
        let frequency = |neighbour: &str| {
            let count = |index: &Postings| index.get(neighbour).map_or(0, PostingList::len);
            count(&self.nodes) + count(&self.owners)
        };
        let candidates = neighbours(word).into_iter().map(|neighbour| (frequency(&neighbour), neighbour));
        let known = candidates.filter(|(frequency, _)| *frequency > 0);
        // Of equally frequent words, the first one in alphabetical order wins.
        let best = known.max_by(|(frequency, word), (other_frequency, other_word)| {
            frequency.cmp(other_frequency).then_with(|| other_word.cmp(word))
        });
        best.map(|(_, neighbour)| neighbour)
    }
}

/// Returns the words from which one typing error makes `word`: two swapped characters, one too many, a wrong one, or
/// one missing.
fn neighbours(word: &str) -> Vec<String> {
    let chars: Vec<char> = word.chars().collect();
    if !(WORD_CHARS_MIN..=WORD_CHARS_MAX).contains(&chars.len()) {
        return Vec::new();
    }

    let mut all = Vec::new();
    for index in 0..=chars.len() {
        let (before, after) = chars.split_at(index);
        let mut add = |middle: &[char], rest: &[char]| all.push([before, middle, rest].concat().into_iter().collect());
        if let [first, second, rest @ ..] = after {
            add(&[*second, *first], rest);
        }
        for letter in ALPHABET.chars() {
            add(&[letter], after);
        }
        let Some((_, rest)) = after.split_first() else { continue };
        add(&[], rest);
        for letter in ALPHABET.chars() {
            add(&[letter], rest);
        }
    }
    all
}
