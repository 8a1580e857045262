//! Detection of the key and mode in a prompt.

use super::words::Word;
use crate::theory::Mode;

/// Key named in a prompt: a tonic, a mode, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedKey {
    /// Pitch class, 0 to 11; 0 is C.
    pub tonic: Option<i32>,
    pub mode: Option<Mode>,
}

/// Returns the key that the prompt names. "In a minor", "key of A" and "C#m" name a tonic; "a minor key" names only a
/// mode.
#[must_use]
pub fn parse(words: &[Word]) -> RequestedKey {
    (0..words.len()).find_map(|at| parse_at(words, at)).unwrap_or_else(|| RequestedKey {
        tonic: None,
        mode: words.iter().filter(|word| !word.negated).find_map(|word| parse_mode(&word.text)),
    })
}

/// Returns the key whose tonic is the word at `at`, or `None` if the word names no tonic.
fn parse_at(words: &[Word], at: usize) -> Option<RequestedKey> {
    let text = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    let before = at.checked_sub(1).map_or("", text);
    let (mut tonic, suffix) = parse_tonic(text(at))?;

    let mut next = at + 1;
    match text(next) {
        "sharp" => {
            tonic += 1;
            next += 1;
        }
        "flat" => {
            tonic -= 1;
            next += 1;
        }
        _ => {}
    }

    let is_harmonic_minor = text(next) == "harmonic" && text(next + 1) == "minor";
    let next_mode = if is_harmonic_minor { Some(Mode::HarmonicMinor) } else { parse_mode(text(next)) };
    let is_introduced = before == "in" || before == "key" || (before == "of" && at > 1 && text(at - 2) == "key");

    // "a" is an article unless a mode follows, and unless a word such as "key" or "mood" follows that mode.
    let is_article =
        text(at) == "a" && next == at + 1 && (next_mode.is_none() || follows_mode(text(next + 1)) && before != "of");

    let mode = match suffix {
        KeySuffix::None => next_mode,
        // "I am" names no key, but "in Am" does.
        KeySuffix::Minor if text(at) == "am" && !is_introduced => return None,
        KeySuffix::Minor => Some(Mode::Aeolian),
        KeySuffix::Major => Some(Mode::Ionian),
    };

    let is_sharp = text(at).contains('#');
    let is_explicit = mode.is_some() || (is_introduced && !is_article) || is_sharp;
    let tonic = Some(tonic.rem_euclid(12));
    (is_explicit && !is_article).then_some(RequestedKey { tonic, mode })
}

/// Returns `true` if the word follows a mode without a tonic, as in "a minor key".
fn follows_mode(word: &str) -> bool {
    matches!(word, "key" | "mode" | "scale" | "mood" | "feel" | "tonality" | "chord" | "chords" | "piece" | "song")
}

/// Mode that is written directly after the tonic, such as `m`.
enum KeySuffix {
    None,
    Minor,
    Major,
}

/// Parses `c`, `c#`, `bb`, `c#m` or `ebmaj` into a pitch class and a mode.
fn parse_tonic(word: &str) -> Option<(i32, KeySuffix)> {
    let mut letters = word.chars();
    let natural = match letters.next()? {
        'c' => 0,
        'd' => 2,
        'e' => 4,
        'f' => 5,
        'g' => 7,
        'a' => 9,
        'b' => 11,
        _ => return None,
    };

    let remaining = letters.as_str();
    let (accidental, remaining) = match remaining.chars().next() {
        Some('#') => (1, &remaining[1..]),
        Some('b') => (-1, &remaining[1..]),
        _ => (0, remaining),
    };

    let suffix = match remaining {
        "" => KeySuffix::None,
        "m" | "min" => KeySuffix::Minor,
        "maj" => KeySuffix::Major,
        _ => return None,
    };
    Some((natural + accidental, suffix))
}

/// Returns the mode that a word names.
fn parse_mode(word: &str) -> Option<Mode> {
    match word {
        "major" | "ionian" | "maj" => Some(Mode::Ionian),
        "minor" | "aeolian" | "min" => Some(Mode::Aeolian),
        "dorian" => Some(Mode::Dorian),
        "phrygian" => Some(Mode::Phrygian),
        "lydian" => Some(Mode::Lydian),
        "mixolydian" => Some(Mode::Mixolydian),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::words;

    #[test]
    fn keys_are_parsed_in_all_spellings() {
        for (prompt, tonic, mode) in [
            ("in A minor", Some(9), Some(Mode::Aeolian)),
            ("C# major scherzo", Some(1), Some(Mode::Ionian)),
            ("E flat major", Some(3), Some(Mode::Ionian)),
            ("e-flat minor", Some(3), Some(Mode::Aeolian)),
            ("B♭ dorian", Some(10), Some(Mode::Dorian)),
            ("key of D", Some(2), None),
            ("in the key of a minor", Some(9), Some(Mode::Aeolian)),
            ("in a minor key", None, Some(Mode::Aeolian)),
            ("a major chord", None, Some(Mode::Ionian)),
            ("F#m groove", Some(6), Some(Mode::Aeolian)),
            ("in Am", Some(9), Some(Mode::Aeolian)),
            ("I am sad", None, None),
            ("a sad song in G", Some(7), None),
            ("in a cave", None, None),
            ("something lydian", None, Some(Mode::Lydian)),
            ("D harmonic minor", Some(2), Some(Mode::HarmonicMinor)),
            ("not major", None, None),
            ("bad cafe, deep", None, None),
        ] {
            assert_eq!(parse(&words::parse(prompt)), RequestedKey { tonic, mode }, "{prompt}");
        }
    }
}
