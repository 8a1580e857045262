//! Detection of the requested length in a prompt.

use super::words::{self, Word};

/// Maximum length of a piece in seconds, as the API allows.
pub const SECONDS_MAX: u16 = 360;

/// Typical lengths in seconds by keyword; the first match counts.
pub const TYPICAL_LENGTHS: &[(&[&str], u16)] = &[
    (&["notification", "ringtone alert", "alert sound", "ui sound"], 2),
    (&["stinger", "sting", "sounder"], 4),
    (&["short jingle"], 6),
    (&["jingle", "ident", "logo", "fanfare"], 9),
    (&["full length", "full song", "long", "extended", "lengthy"], 180),
    (&["short", "brief", "snippet", "clip", "little"], 15),
];

const ONES: &[&str] = &[
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: &[&str] = &["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// Returns the requested length in whole seconds, 1 to 360, or `None` if the prompt does not name one.
///
/// A number with a unit takes precedence over a word such as "jingle". Lengths above the maximum are clamped.
#[must_use]
pub fn parse(words: &[Word]) -> Option<u16> {
    let stated = (0..words.len()).find_map(|at| parse_clock(&words[at].text).or_else(|| measured_length(words, at)));
    let typical =
        || TYPICAL_LENGTHS.iter().find(|(phrases, _)| words::wants(words, phrases)).map(|(_, seconds)| *seconds);
    stated.filter(|seconds| *seconds > 0.0).map(round_seconds).or_else(typical)
}

/// Returns the text of a word, or nothing beyond the end.
fn text_at(words: &[Word], at: usize) -> &str {
    words.get(at).map_or("", |word| word.text.as_str())
}

/// Rounds a length to whole seconds, 1 to [`SECONDS_MAX`].
fn round_seconds(seconds: f32) -> u16 {
    seconds.round().clamp(1.0, f32::from(SECONDS_MAX)) as u16
}

/// Parses `1:30` into seconds.
fn parse_clock(text: &str) -> Option<f32> {
    let (minutes, seconds) = text.split_once(':')?;
    let minutes: u8 = minutes.parse().ok()?;
    let seconds: u8 = seconds.parse().ok().filter(|value| *value < 60 && seconds.len() == 2)?;
    Some(f32::from(minutes) * 60.0 + f32::from(seconds))
}

/// Returns the seconds of the quantity at `at`, including an addition: "two minutes and a half", "1 min 30 s".
fn measured_length(words: &[Word], at: usize) -> Option<f32> {
    let Quantity { count, unit, next } = parse_quantity(words, at)?;
    let mut sum = count * unit;

    let text = |at: usize| text_at(words, at);
    let after = if text(next) == "and" { next + 1 } else { next };
    if after > next && text(after) == "a" && text(after + 1) == "half" {
        sum += unit / 2.0;
    } else if unit > 1.0
        && let Some(Quantity { count, unit: 1.0, .. }) = parse_quantity(words, after)
    {
        sum += count;
    }
    Some(sum)
}

/// Length in a unit of time.
struct Quantity {
    count: f32,
    /// Seconds in the unit.
    unit: f32,
    /// Index of the word after the unit.
    next: usize,
}

/// Parses the count and the unit at `at`.
fn parse_quantity(words: &[Word], at: usize) -> Option<Quantity> {
    let text = |at: usize| text_at(words, at);
    if let Some((count, unit)) = parse_joined(text(at), at.checked_sub(1).map_or("", text)) {
        return Some(Quantity { count, unit, next: at + 1 });
    }

    let (count, next) = parse_number(words, at)?;
    // Skips the article in "half a minute".
    let next = if text(at) == "half" && matches!(text(next), "a" | "an") { next + 1 } else { next };
    unit_seconds(text(next)).map(|unit| Quantity { count, unit, next: next + 1 })
}

/// Parses `30s` or `2min` into the count and the seconds of its unit. `80s` is a decade unless the word before it
/// announces a length.
fn parse_joined(text: &str, before: &str) -> Option<(f32, f32)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (count, name) = text.split_at(digits);
    let count: f32 = count.parse().ok()?;
    let is_decade = name == "s" && [50.0, 60.0, 70.0, 80.0, 90.0].contains(&count);
    let is_length = matches!(before, "for" | "lasting" | "duration" | "length" | "about" | "around" | "of");
    if is_decade && !is_length { None } else { unit_seconds(name).map(|unit| (count, unit)) }
}

/// Returns the seconds in a unit of time.
fn unit_seconds(name: &str) -> Option<f32> {
    match name {
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        _ => None,
    }
}

/// Parses a number in digits or words and returns it with the index of the next word.
fn parse_number(words: &[Word], at: usize) -> Option<(f32, usize)> {
    let text = |at: usize| text_at(words, at);
    let word = text(at);

    let first_is_digit = word.starts_with(|c: char| c.is_ascii_digit());
    if let Some(value) = Some(word).filter(|_| first_is_digit).and_then(|word| word.parse::<f32>().ok()) {
        return Some((value, at + 1));
    }

    let index_of = |names: &[&str], word: &str| names.iter().position(|name| *name == word);
    if let Some(tens) = index_of(TENS, word) {
        let tens = 20.0 + 10.0 * tens as f32;
        let digit = index_of(ONES, text(at + 1)).filter(|digit| (1..10).contains(digit));
        return Some(digit.map_or((tens, at + 1), |digit| (tens + digit as f32, at + 2)));
    }

    match word {
        "a" | "an" => Some((1.0, at + 1)),
        "half" => Some((0.5, at + 1)),
        "couple" => Some((2.0, if text(at + 1) == "of" { at + 2 } else { at + 1 })),
        _ => index_of(ONES, word).map(|digit| (digit as f32, at + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_parsed_in_digits_and_words() {
        for (prompt, seconds) in [
            ("30 seconds of rain", Some(30)),
            ("a 30-second loop", Some(30)),
            ("calm, 45s", Some(45)),
            ("two minutes", Some(120)),
            ("twenty five seconds", Some(25)),
            ("1:30 of jazz", Some(90)),
            ("a minute and a half of jazz", Some(90)),
            ("1.5 minutes", Some(90)),
            ("half a minute", Some(30)),
            ("1 min 30 s", Some(90)),
            ("one minute and ten seconds", Some(70)),
            ("a couple of minutes", Some(120)),
            ("ten minutes", Some(360)),
            ("lasting 90s", Some(90)),
            ("80s synth", None),
            ("the 90s", None),
            ("0 seconds", None),
            ("short jingle", Some(6)),
            ("a jingle", Some(9)),
            ("30 second jingle", Some(30)),
            ("a long drone", Some(180)),
            ("not long", None),
            ("4/4 at 120 bpm", None),
            ("99999999999999999999 seconds", Some(360)),
        ] {
            assert_eq!(parse(&words::parse(prompt)), seconds, "{prompt}");
        }
    }
}
