//! Report of the words that the engine understands.

use std::collections::HashMap;

use super::words::{self, Word};
use super::{key, length, lexicon, parse_tempo};
use crate::instrument::NAMES;
use crate::style::phrases;

/// Returns each word of a prompt once, in lower case, with `true` if the engine knows a meaning for it. A negation is
/// understood if it rejects an understood word.
#[must_use]
pub fn interpret(prompt: &str) -> Vec<(String, bool)> {
    let words = words::parse(prompt);
    let mut understood = vec![false; words.len()];
    for phrase in known_phrases() {
        mark_phrase(&words, phrase, &mut understood);
    }
    mark_numbers(&words, &mut understood);
    mark_negations(&words, &mut understood);

    let mut report: Vec<(String, bool)> = Vec::new();
    let mut indices = HashMap::new();
    for (word, is_understood) in words.into_iter().zip(understood) {
        let index = *indices.entry(word.text.clone()).or_insert(report.len());
        match report.get_mut(index) {
            Some((_, known)) => *known |= is_understood,
            None => report.push((word.text, is_understood)),
        }
    }
    report
}

/// Returns all phrases of the vocabulary.
fn known_phrases() -> impl Iterator<Item = &'static str> {
    let moods = lexicon::MOODS.iter().map(|row| row.0);
    let tempi = lexicon::TEMPI.iter().map(|row| row.0);
    let metres = lexicon::METRES.iter().map(|row| row.0);
    let textures = lexicon::TEXTURES.iter().map(|row| row.0);
    let instruments = NAMES.iter().map(|row| row.0);
    let form = [lexicon::LOOP, lexicon::FADE_OUT, lexicon::INTRO, lexicon::BUILD, lexicon::SOLO, lexicon::DRUMLESS];
    let lengths = length::TYPICAL_LENGTHS.iter().map(|row| row.0);

    let groups = moods.chain(tempi).chain(metres).chain(textures).chain(instruments).chain(form).chain(lengths);
    groups.flatten().copied().chain(phrases().map(|(phrase, _)| phrase))
}

/// Marks every occurrence of a phrase.
fn mark_phrase(words: &[Word], phrase: &str, understood: &mut [bool]) {
    let length = phrase.split(' ').count();
    for start in 0..(words.len() + 1).saturating_sub(length) {
        if words::find(&words[start..start + length], phrase).is_some() {
            understood[start..start + length].fill(true);
        }
    }
}

/// Words on each side of a word that may form a key, a tempo or a length with it.
const NEIGHBOURS: usize = 5;
/// Maximum number of words that are compared with the meaning of the whole prompt.
const CANDIDATES_MAX: usize = 16;

/// Marks the words of a key, a tempo or a length: those without which the prompt would name a different one.
///
/// Reading a long prompt again for each of its words takes most of a second, so the neighbours of a word decide first.
fn mark_numbers(words: &[Word], understood: &mut [bool]) {
    let matters = |words: &[Word], at: usize| {
        let meaning = |words: &[Word]| (key::parse(words), parse_tempo(words).requested_bpm, length::parse(words));
        meaning(&[&words[..at], &words[at + 1..]].concat()) != meaning(words)
    };
    let may_matter = |at: &usize| {
        let start = at.saturating_sub(NEIGHBOURS);
        let end = words.len().min(at + NEIGHBOURS + 1);
        matters(&words[start..end], at - start)
    };

    let unknown: Vec<usize> = (0..words.len()).filter(|at| !understood[*at]).collect();
    for at in unknown.into_iter().filter(may_matter).take(CANDIDATES_MAX) {
        understood[at] = matters(words, at);
    }
}

/// Marks the words that reject an understood word.
fn mark_negations(words: &[Word], understood: &mut [bool]) {
    let rejected: Vec<bool> = words.iter().zip(&*understood).map(|(word, known)| word.negated && *known).collect();
    for (at, word) in words.iter().enumerate() {
        let reaches = |at: &usize| words[*at].negated;
        let after = (at + 1..words.len()).take_while(reaches).any(|next| rejected[next]);
        // "drum free" and "free of drums".
        let is_free =
            word.text == "free" && (at > 0 && rejected[at - 1] || rejected.get(at + 2).is_some_and(|known| *known));
        understood[at] |= is_free || (words::is_negator(&word.text) && after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_a_meaning_are_understood() {
        for (prompt, understood, ignored) in [
            ("A calm waltz for solo piano", "calm waltz solo piano", "a for"),
            ("drum and bass in F# minor at 174 bpm", "drum and bass f# minor 174 bpm", "in at"),
            ("no drums, without any bass", "no drums without bass", "any"),
            ("drum-free lofi", "drum free lofi", ""),
            ("no cats", "", "no cats"),
            ("two minutes and a half of jazz", "two minutes and a half jazz", "of"),
            ("a tempo of 90", "tempo 90", "a of"),
            ("rain, Rain and RAIN", "rain", "and"),
            ("1 2 3 90 bpm, not 100 bpm", "90 bpm", "1 2 3 not 100"),
            ("Katzen tanzen", "", "katzen tanzen"),
            ("", "", ""),
        ] {
            let report = interpret(prompt);
            let join_words = |known| {
                report
                    .iter()
                    .filter(|(_, is)| *is == known)
                    .map(|(word, _)| word.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            assert_eq!((join_words(true), join_words(false)), (understood.into(), ignored.into()), "{prompt}");
        }
    }
}
