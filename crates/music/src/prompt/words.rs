//! Prompt as a list of words, with negated words marked.

/// Word in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// `true` if the prompt rejects the word, as in "no drums".
    pub negated: bool,
    /// `true` if punctuation precedes the word.
    pub after_break: bool,
}

/// Words that negate the words after them, up to the next punctuation or one of [`RESUMERS`].
const NEGATORS: &[&str] = &["no", "not", "without", "minus", "except", "avoid", "excluding", "never", "dont", "zero"];
/// Words that end a negation.
const RESUMERS: &[&str] = &["but", "with", "just", "only", "plus", "in", "at", "for", "featuring", "instead", "and"];
/// Words that do not count towards the reach of a negation.
const FILLERS: &[&str] = &["any", "the", "a", "an", "of", "or", "nor", "too", "very", "much", "use", "have"];
/// Number of words that a negation reaches, not counting fillers.
const REACH: u8 = 3;

/// Splits a prompt into words in lower case. Hyphens separate words; `#` is part of a word, and `/`, `:` and decimal
/// points are part of a number.
#[must_use]
pub fn parse(prompt: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    // Number of words that the current negation still reaches.
    let mut negation_reach = 0_u8;
    // "Without drums and bass" negates both; "no drums and bass" negates only the drums.
    let mut through_and = false;

    for token in split_tokens(prompt) {
        let Token { text, after_break } = token;
        if after_break {
            negation_reach = 0;
        }

        if is_negator(&text) {
            negation_reach = REACH;
            through_and = text == "without" || text == "minus";
            words.push(Word { text, negated: false, after_break });
            continue;
        }

        if RESUMERS.contains(&text.as_str()) && !(text == "and" && through_and) {
            negation_reach = 0;
        }

        let negated = negation_reach > 0;
        if negated && !FILLERS.contains(&text.as_str()) && text != "and" {
            negation_reach -= 1;
        }
        words.push(Word { text, negated, after_break });
    }

    negate_backwards(&mut words);
    words
}

/// Returns `true` if the word negates those after it.
#[must_use]
pub fn is_negator(word: &str) -> bool {
    NEGATORS.contains(&word)
}

/// Negates the word that "free" refers to, as in "drum free" and "free of drums".
fn negate_backwards(words: &mut [Word]) {
    for at in 0..words.len() {
        if words[at].text == "free" {
            let is_of = words.get(at + 1).is_some_and(|word| word.text == "of");
            let target = if is_of { at.checked_add(2) } else { at.checked_sub(1) };
            if let Some(word) = target.and_then(|target| words.get_mut(target)) {
                word.negated = true;
            }
        }
    }
}

/// Word in lower case.
struct Token {
    text: String,
    /// `true` if punctuation precedes the word.
    after_break: bool,
}

/// Splits a prompt at spaces and punctuation.
fn split_tokens(prompt: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut text = String::new();
    let mut after_break = false;
    let letters: Vec<char> = prompt.chars().flat_map(char::to_lowercase).collect();

    for (at, &letter) in letters.iter().enumerate() {
        let next_is_digit = letters.get(at + 1).is_some_and(char::is_ascii_digit);
        let in_number = text.ends_with(|c: char| c.is_ascii_digit()) && next_is_digit;
        let character = match letter {
            '♯' | '#' => Some('#'),
            '♭' => Some('b'),
            '/' | ':' | '.' if in_number => Some(letter),
            '\'' | '’' => continue,
            _ => Some(letter).filter(|letter| letter.is_alphanumeric()),
        };

        if let Some(character) = character {
            text.push(character);
            continue;
        }

        if !text.is_empty() {
            tokens.push(Token { text: std::mem::take(&mut text), after_break });
            after_break = false;
        }
        after_break |= matches!(letter, '.' | ',' | ';' | ':' | '!' | '?' | '\n' | '(' | ')' | '|');
    }

    if !text.is_empty() {
        tokens.push(Token { text, after_break });
    }
    tokens
}

/// Occurrence of a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// Index of the first word.
    pub at: usize,
    /// `false` if a word of the phrase is negated.
    pub is_wanted: bool,
}

/// Finds a phrase. A wanted occurrence takes precedence over an earlier negated one.
#[must_use]
pub fn find(words: &[Word], phrase: &str) -> Option<Occurrence> {
    let parts = phrase.split(' ');
    let length = parts.clone().count();
    let matches = words.windows(length).enumerate().filter(|(_, window)| {
        let is_unbroken = window.iter().skip(1).all(|word| !word.after_break);
        is_unbroken && window.iter().map(|word| word.text.as_str()).eq(parts.clone())
    });

    let mut unwanted = None;
    for (at, window) in matches {
        if !window.iter().any(|word| word.negated) {
            return Some(Occurrence { at, is_wanted: true });
        }
        unwanted = unwanted.or(Some(Occurrence { at, is_wanted: false }));
    }
    unwanted
}

/// Returns `true` if any of the phrases is wanted.
#[must_use]
pub fn wants(words: &[Word], phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| find(words, phrase).is_some_and(|occurrence| occurrence.is_wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(prompt: &str, phrase: &str) -> Option<bool> {
        find(&parse(prompt), phrase).map(|occurrence| occurrence.is_wanted)
    }

    #[test]
    fn negation_reaches_to_the_next_break_or_conjunction() {
        for (prompt, drums, bass) in [
            ("drums and bass", true, true),
            ("no drums, bass", false, true),
            ("no drums or bass", false, false),
            ("without drums and bass", false, false),
            ("no drums and bass", false, true),
            ("no heavy drums but bass", false, true),
            ("drum-free: no drums with bass", false, true),
            ("free of drums; bass", false, true),
        ] {
            assert_eq!(wanted(prompt, "drums"), Some(drums), "{prompt}");
            assert_eq!(wanted(prompt, "bass"), Some(bass), "{prompt}");
        }
    }

    #[test]
    fn phrases_are_found_regardless_of_separators() {
        for prompt in ["hip hop", "Hip-Hop!", "a HIP  hop beat"] {
            assert_eq!(wanted(prompt, "hip hop"), Some(true), "{prompt}");
        }
        assert_eq!(wanted("hip, hop", "hip hop"), None);
        assert_eq!(wanted("", "hip hop"), None);
    }

    #[test]
    fn punctuation_within_numbers_and_keys_is_kept() {
        let words: Vec<_> = parse("C# 3/4, 1:30 1.5 F♯m. 120bpm don't").into_iter().map(|word| word.text).collect();
        assert_eq!(words, ["c#", "3/4", "1:30", "1.5", "f#m", "120bpm", "dont"]);
    }
}
