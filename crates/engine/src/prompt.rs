//! Interpretation of prompts by keywords.
//!
//! Some words name effects of classical image processing. They are hints and add to the other parameters. Other words
//! have no meaning. Every prompt also adds synthesized texture where the picture has texture. All words together are
//! the seed of this texture, so the same prompt gives the same texture on every picture.
//!
//! A hint is negated by words such as "no", "not", "without", "remove" or "less" before it, with only fillers between
//! ("not too dark"), and by "reduction", "removal" or "free" directly after it ("noise-free"). Two negations cancel out
//! ("no noise reduction").
//!
//! Noise and blur are defects. "A noisy photo" describes the picture and has no effect, while "no noise" asks for
//! smoothing and "fix blurry photo" for sharpness. Grain is both: a request, as on film, and a defect when negated.

use sha2::{Digest, Sha256};

use crate::presets::Look;
use crate::prompt_report::PromptReport;

const NONE: Look = Look::NONE;

/// Effect of every prompt: texture, and slight sharpening for pictures without texture.
const GUIDED: Look = Look { texture: GUIDED_TEXTURE, sharpen: 0.1, ..NONE };
/// Texture of every prompt, which hints of smoothness cancel.
const GUIDED_TEXTURE: f32 = 1.2;

const SHARP: Look = Look { sharpen: 0.6, ..NONE };
const EVEN: Look = Look { texture: -GUIDED_TEXTURE, ..NONE };

/// Hints with their effect at full strength.
const HINTS: &[(&[&str], Look)] = &[
    (&["sharp", "crisp", "clear", "focused", "hd", "4k", "8k", "deblur", "deblurred"], SHARP),
    (&["detailed", "intricate", "detail", "details"], Look { own_detail: 1.5, sharpen: 0.2, ..NONE }),
    (&["texture", "textured", "rough"], Look { texture: 1.2, ..NONE }),
    (&["soft", "dreamy", "gentle"], Look { smooth: 0.3, sharpen: -0.4, ..EVEN }),
    (&["smooth", "clean", "denoise", "denoised", "polished"], Look { smooth: 0.5, ..EVEN }),
    (&["grain", "grainy"], Look { grain: 0.5, ..NONE }),
    (&["film", "analog", "analogue", "vintage"], Look { grain: 0.4, saturation: -0.1, warmth: 0.15, ..NONE }),
    (&["painting", "painterly", "watercolor", "watercolour", "oil"], Look { smooth: 0.7, ..EVEN }),
    (&["vivid", "vibrant", "colorful", "colourful", "saturated"], Look { saturation: 0.35, vibrance: 0.3, ..NONE }),
    (&["muted", "desaturated", "pale", "faded"], Look { saturation: -0.4, ..NONE }),
    (&["monochrome", "grayscale", "greyscale"], Look { saturation: -2.0, ..NONE }),
    (&["warm", "golden", "sunset", "sunny"], Look { warmth: 0.5, ..NONE }),
    (&["cold", "cool", "icy", "wintry"], Look { warmth: -0.5, ..NONE }),
    (&["bright", "light", "luminous"], Look { exposure: 0.4, ..NONE }),
    (&["dark", "night", "gloomy", "moody"], Look { exposure: -0.4, ..NONE }),
    (&["contrast", "contrasty", "punchy"], Look { contrast: 0.3, local_contrast: 0.2, ..NONE }),
    (&["dramatic", "hdr", "cinematic"], Look { local_contrast: 0.5, contrast: 0.1, ..NONE }),
    (&["flat", "matte"], Look { contrast: -0.2, local_contrast: -0.3, ..NONE }),
    (&["green", "lush", "foliage"], Look { greens: 0.4, ..NONE }),
    (&["portrait", "skin", "face"], Look { skin: 0.4, ..NONE }),
];

/// Defects with their remedy. They count only when negated.
const DEFECTS: &[(&[&str], Look)] = &[
    (&["noise", "noisy", "grain", "grainy"], Look { smooth: 0.5, grain: -0.5, ..EVEN }),
    (&["texture", "textured", "rough"], Look { smooth: 0.3, ..EVEN }),
    (&["blur", "blurry", "blurred"], SHARP),
];

/// Technique of drawing or painting that the prompt of a style transfer can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Technique {
    /// Thin paint that runs on paper.
    Watercolour,
    /// Large square pixels of few colours.
    PixelArt,
    /// Black strokes on rough paper.
    Charcoal,
}

/// Words that may follow the name of a technique.
const WORKS: &[&str] = &["painting", "drawing", "sketch", "style", "art"];

impl Technique {
    /// Returns the technique that a word names, or that it names together with the next word ("pixel art").
    fn from_words(word: &str, next: Option<&str>) -> Option<Self> {
        match (word, next) {
            ("watercolor" | "watercolour" | "watercolors" | "watercolours" | "aquarelle", _) => Some(Self::Watercolour),
            ("pixelart" | "pixelated", _) | ("pixel", Some("art" | "style")) => Some(Self::PixelArt),
            ("charcoal", _) => Some(Self::Charcoal),
            _ => None,
        }
    }
}

/// Words that negate the next hint.
const NEGATORS: &[&str] = &[
    "no",
    "not",
    "without",
    "remove",
    "removing",
    "reduce",
    "reducing",
    "fix",
    "avoid",
    "fewer",
    "less",
    "reduction",
    "removal",
    "free",
];
/// Words that negate the word directly before them.
const LATE_NEGATORS: &[&str] = &["reduction", "reduced", "removal", "removed", "free"];
/// Words that may stand between a negation and its hint.
const FILLERS: &[&str] = &["too", "very", "so", "the", "any", "a", "an", "of", "all", "much"];

/// Returns the effect of a prompt at full strength: its texture and the sum of its hints, each counted once. A prompt
/// without words has no effect.
#[must_use]
pub fn parse_look(prompt: &str) -> Look {
    interpret_look(prompt).0
}

/// Returns the effect of a prompt, see [`parse_look`], and a report of the words that are hints.
pub fn interpret_look(prompt: &str) -> (Look, PromptReport) {
    let (look, _, report) = interpret(prompt, PromptUse::Look);
    (look, report)
}

/// Returns the effect of a prompt of a style transfer, the first technique that it names, and a report of the words
/// that have an effect.
pub fn interpret_style(prompt: &str) -> (Look, Option<Technique>, PromptReport) {
    interpret(prompt, PromptUse::Style)
}

/// Use of a prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PromptUse {
    Look,
    /// A style, which may be a technique.
    Style,
}

fn interpret(prompt: &str, prompt_use: PromptUse) -> (Look, Option<Technique>, PromptReport) {
    let mut words = words(prompt).peekable();
    let mut technique = None;
    let mut sum = if words.peek().is_some() { GUIDED } else { NONE };
    let mut report = PromptReport::default();
    let mut used = Vec::new();
    let mut negator: Option<String> = None;

    while let Some(word) = words.next() {
        if NEGATORS.contains(&word.as_str()) {
            negator = Some(word);
        } else if let Some(named) = Technique::from_words(&word, words.peek().map(String::as_str))
            .filter(|_| prompt_use == PromptUse::Style && negator.is_none())
        {
            let is_first = technique.is_none_or(|first| first == named);
            technique = technique.or(Some(named));
            let work = words.next_if(|next| WORKS.contains(&next.as_str()));
            [word].into_iter().chain(work).for_each(|word| report.add(word, is_first));
        } else if !FILLERS.contains(&word.as_str()) {
            let late_negator = words.next_if(|next| LATE_NEGATORS.contains(&next.as_str()));
            let hint = meaning(&word, negator.is_some() != late_negator.is_some());
            let is_understood = hint.is_some();
            if let Some((look, strength)) = hint.filter(|hint| !used.contains(&hint.0)) {
                sum.add(look, strength);
                used.push(look);
            }

            negator
                .take()
                .into_iter()
                .chain([word])
                .chain(late_negator)
                .for_each(|word| report.add(word, is_understood));
        }
    }
    (sum, technique, report)
}

/// Returns the effect of a word and its sign.
fn meaning(word: &str, negated: bool) -> Option<(&'static Look, f32)> {
    let find_in =
        |table: &'static [(&[&str], Look)]| table.iter().find(|(words, _)| words.contains(&word)).map(|(_, look)| look);
    let fix = find_in(DEFECTS).filter(|_| negated).map(|look| (look, 1.0));
    fix.or_else(|| find_in(HINTS).map(|look| (look, if negated { -1.0 } else { 1.0 })))
}

/// Returns the seed of a prompt's texture, or `None` without words. Case, spaces and punctuation are ignored.
#[must_use]
pub fn prompt_seed(prompt: &str) -> Option<u32> {
    let mut hash = Sha256::new();
    let mut has_words = false;

    for word in words(prompt) {
        has_words = true;
        hash.update(word.as_bytes());
        hash.update([0]);
    }

    let hash = hash.finalize();
    has_words.then(|| u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]]))
}

/// Returns the words of a prompt in lower case.
pub fn words(prompt: &str) -> impl Iterator<Item = String> {
    prompt.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the effect of a prompt beyond the effect that every prompt has.
    fn hints(prompt: &str) -> Look {
        let mut hints = parse_look(prompt);
        hints.add(&GUIDED, -1.0);
        hints
    }

    #[test]
    fn hints_count_once_and_are_inverted_by_negation() {
        let sharp = hints("Sharp, crisp!");
        assert!(sharp.sharpen > 0.0);
        assert_eq!(sharp, hints("a crisp photo of a cat"));
        assert!((hints("not sharp").sharpen + sharp.sharpen).abs() < 1e-6);
        assert_eq!(hints("no cats, sharp"), sharp);
        assert_eq!(hints("a cat on a mat"), Look::NONE);
    }

    #[test]
    fn negation_skips_fillers_and_may_stand_before_or_after() {
        for brighter in ["not dark", "not too dark", "less of the dark", "without any dark", "fix dark photo"] {
            assert!(hints(brighter).exposure > 0.0, "{brighter}");
        }
        for darker in ["dark", "too dark", "no cats in the dark", "remove dust, dark"] {
            assert!(hints(darker).exposure < 0.0, "{darker}");
        }
    }

    #[test]
    fn negated_defects_are_corrected_and_others_are_ignored() {
        for prompt in [
            "remove noise",
            "reduce the noise",
            "noise reduction",
            "reduction of noise",
            "no noise",
            "noise-free",
            "free of noise",
            "less noisy",
            "not grainy",
            "avoid grain",
            "fewer cats, without grain",
        ] {
            let look = parse_look(prompt);
            assert!(look.smooth > 0.0 && look.grain <= 0.0 && look.texture <= 0.0, "{prompt}: {look:?}");
        }

        for prompt in ["fix blurry photo", "not blurry", "remove blur", "blur removal"] {
            assert!(hints(prompt).sharpen > 0.0, "{prompt}");
        }

        for prompt in ["a noisy photo", "noise", "blurry", "motion blur", "no noise reduction"] {
            assert_eq!(hints(prompt), Look::NONE, "{prompt}");
        }
        assert!(hints("grainy").grain > 0.0);
    }

    #[test]
    fn any_words_add_texture_and_none_add_nothing() {
        assert_eq!(parse_look("a cat on a mat"), GUIDED);
        assert_eq!(parse_look(" ?! "), Look::NONE);
        assert_eq!(parse_look("smooth").texture.to_bits(), 0.0_f32.to_bits());
    }

    #[test]
    fn each_word_stands_for_one_hint() {
        for table in [HINTS, DEFECTS] {
            let mut seen = std::collections::HashSet::new();
            let mut words = table.iter().flat_map(|(words, _)| words.iter());
            assert!(words.all(|word| seen.insert(*word) && !NEGATORS.contains(word) && !FILLERS.contains(word)));
        }
    }

    #[test]
    fn the_seed_is_that_of_the_words() {
        assert_eq!(prompt_seed("A cat,  on a mat."), prompt_seed("a cat on a mat"));
        assert_ne!(prompt_seed("a cat on a mat"), prompt_seed("a dog on a mat"));
        assert_eq!(prompt_seed(" ?! "), None);
    }
}
