//! Report of the words that the engine understands in a prompt.

use crate::prompt;
use crate::relight;
use crate::video;

/// Words without a meaning of their own, which reports leave out unless they have an effect.
const FUNCTION_WORDS: &[&str] = &[
    "a", "an", "and", "any", "as", "at", "be", "but", "by", "for", "from", "in", "is", "it", "its", "of", "on", "or",
    "so", "that", "the", "then", "there", "this", "to", "too", "very", "while", "with",
];

/// Words of a prompt that have an effect, and those that have none, each once and in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptReport {
    /// Words that have an effect.
    pub understood: Vec<String>,
    /// Words without an effect.
    pub ignored: Vec<String>,
}

impl PromptReport {
    /// Returns the report on the prompt of a video.
    #[must_use]
    pub fn for_video(prompt: &str) -> Self {
        video::interpret(prompt)
    }

    /// Returns the report on the prompt of an upscale.
    #[must_use]
    pub fn for_upscale(prompt: &str) -> Self {
        prompt::interpret_look(prompt).1
    }

    /// Returns the report on the prompt of a style transfer.
    #[must_use]
    pub fn for_style_transfer(prompt: &str) -> Self {
        prompt::interpret_style(prompt).2
    }

    /// Returns the report on the prompt of a relight.
    #[must_use]
    pub fn for_relight(prompt: &str) -> Self {
        relight::interpret(prompt)
    }

    /// Adds the words of another report.
    pub fn merge(&mut self, other: Self) {
        other.understood.into_iter().for_each(|word| self.add(word, true));
        other.ignored.into_iter().for_each(|word| self.add(word, false));
    }

    /// Adds a word, unless the report already contains it. Ignored function words such as "the" are left out.
    pub fn add(&mut self, word: String, is_understood: bool) {
        if is_understood {
            self.ignored.retain(|ignored| *ignored != word);
        }
        let is_function_word = !is_understood && FUNCTION_WORDS.contains(&word.as_str());
        if is_function_word || self.understood.contains(&word) || self.ignored.contains(&word) {
            return;
        }
        if is_understood { self.understood.push(word) } else { self.ignored.push(word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the understood and the ignored words, each separated by spaces.
    fn joined(report: &PromptReport) -> (String, String) {
        (report.understood.join(" "), report.ignored.join(" "))
    }

    #[test]
    fn understood_and_ignored_words_of_videos_are_distinguished() {
        for (prompt, understood, ignored) in [
            ("A cat on a mat", "", "cat mat"),
            ("The camera pans slowly to the left over a stormy sea", "pans slowly left stormy sea", "camera over"),
            ("left", "", "left"),
            ("no rain, static", "no rain static", ""),
            ("no cats", "", "cats no"),
            ("Sea, SEA and sea", "sea", ""),
            ("", "", ""),
        ] {
            assert_eq!(joined(&PromptReport::for_video(prompt)), (understood.into(), ignored.into()), "{prompt}");
        }
    }

    #[test]
    fn understood_and_ignored_words_of_pictures_are_distinguished() {
        let look = PromptReport::for_upscale("a vivid cat, not too dark, noise-free; noise");
        assert_eq!(joined(&look), ("vivid not dark noise free".into(), "cat".into()));
        assert_eq!(joined(&PromptReport::for_upscale("a noisy photo")), (String::new(), "noisy photo".into()));
        let light = PromptReport::for_relight("warm sun from the left, no purple elephant");
        assert_eq!(joined(&light), ("warm sun left no purple".into(), "elephant".into()));
    }

    #[test]
    fn techniques_are_words_of_style_transfers_only() {
        for (prompt, understood, ignored) in [
            ("a watercolour painting of a cat", "watercolour painting", "cat"),
            ("Pixel-art, vivid", "pixel art vivid", ""),
            ("charcoal sketch", "charcoal sketch", ""),
            ("a pixel", "", "pixel"),
            ("no charcoal", "", "no charcoal"),
            ("watercolor or charcoal", "watercolor", "charcoal"),
        ] {
            assert_eq!(
                joined(&PromptReport::for_style_transfer(prompt)),
                (understood.into(), ignored.into()),
                "{prompt}"
            );
        }
        assert_eq!(
            joined(&PromptReport::for_upscale("pixel art in charcoal")),
            (String::new(), "pixel art charcoal".into())
        );
    }

    #[test]
    fn a_word_that_is_understood_once_is_not_ignored() {
        let mut report = PromptReport::for_video("left");
        report.merge(PromptReport::for_video("pan left"));
        assert_eq!(joined(&report), ("pan left".into(), String::new()));
    }
}
