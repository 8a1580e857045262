//! Interpretation of a prompt about light: direction, colour, amount and softness. Other words have no effect.

use crate::prompt::words;
use crate::prompt_report::PromptReport;

/// Requested light: the sum of the effects of all words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestedLight {
    /// Direction that the light comes from: across (positive is right) and down.
    pub from: [f32; 2],
    /// Amount of light from behind the subject.
    pub behind: f32,
    /// Amount of light from the camera, which casts few shadows.
    pub front: f32,
    /// Amount of light limited to the centre.
    pub spot: f32,
    /// Overall brightness in stops.
    pub stops: f32,
    /// Binary logarithm of the contrast between light and shade, relative to the default.
    pub contrast: f32,
    /// Red, green and blue of lit areas in stops.
    pub lit: [f32; 3],
    /// Red, green and blue of shaded areas in stops.
    pub shade: [f32; 3],
    /// Amount of bloom.
    pub glow: f32,
}

impl RequestedLight {
    /// No request.
    pub const NONE: Self = Self {
        from: [0.0; 2],
        behind: 0.0,
        front: 0.0,
        spot: 0.0,
        stops: 0.0,
        contrast: 0.0,
        lit: [0.0; 3],
        shade: [0.0; 3],
        glow: 0.0,
    };

    /// Interprets a prompt. Each group of words counts once; a negation such as "no" inverts the next word.
    #[must_use]
    pub fn from_prompt(prompt: &str) -> Self {
        Self::interpret(prompt).0
    }

    /// Interprets a prompt; also reports which words have an effect.
    pub fn interpret(prompt: &str) -> (Self, PromptReport) {
        let mut sum = Self::NONE;
        let mut report = PromptReport::default();
        let mut used = Vec::new();
        let mut negator: Option<String> = None;

        for word in words(prompt) {
            if NEGATORS.contains(&word.as_str()) {
                negator = Some(word);
                continue;
            }
            if FILLERS.contains(&word.as_str()) {
                continue;
            }

            let hint = HINTS.iter().position(|(synonyms, _)| synonyms.contains(&word.as_str()));
            if let Some(index) = hint.filter(|index| !used.contains(index)) {
                used.push(index);
                sum.add(&HINTS[index].1, if negator.is_some() { -1.0 } else { 1.0 });
            }

            // A negator is understood if the word that it inverts is.
            if let Some(negator) = negator.take() {
                report.add(negator, hint.is_some());
            }
            report.add(word, hint.is_some());
        }
        (sum, report)
    }

    /// Adds another request, scaled by `share`.
    fn add(&mut self, other: &Self, share: f32) {
        // A copy, because `parts_mut` needs a mutable reference.
        let mut other = *other;
        for (value, addend) in self.parts_mut().into_iter().flatten().zip(other.parts_mut().into_iter().flatten()) {
            *value += share * *addend;
        }
    }

    /// Returns all numbers in a fixed order.
    fn parts_mut(&mut self) -> [&mut [f32]; 9] {
        let Self { from, behind, front, spot, stops, contrast, lit, shade, glow } = self;
        let [behind, front, spot, stops, contrast, glow] =
            [behind, front, spot, stops, contrast, glow].map(std::slice::from_mut);
        [from, behind, front, spot, stops, contrast, lit, shade, glow]
    }
}

/// Short name for the tables below.
const NONE: RequestedLight = RequestedLight::NONE;

/// Returns coloured light: `lit` in stops of red, green and blue, and a weaker tint in the shade.
const fn coloured(lit: [f32; 3]) -> RequestedLight {
    RequestedLight { lit, shade: [0.3 * lit[0], 0.3 * lit[1], 0.3 * lit[2]], ..NONE }
}

/// Tints of lit areas: red, green and blue in stops.
const WARM: [f32; 3] = [0.35, -0.02, -0.6];
const COLD: [f32; 3] = [-0.5, -0.05, 0.45];

/// Words that invert the effect of the next word.
const NEGATORS: [&str; 5] = ["no", "not", "without", "less", "never"];

/// Words that may stand between a negator and the word that it inverts, as in "not too dark".
const FILLERS: [&str; 7] = ["too", "very", "so", "the", "a", "any", "much"];

/// Synonyms with the light that they request.
const HINTS: &[(&[&str], RequestedLight)] = &[
    (&["left"], RequestedLight { from: [-1.0, 0.0], ..NONE }),
    (&["right"], RequestedLight { from: [1.0, 0.0], ..NONE }),
    (&["top", "above", "overhead", "ceiling"], RequestedLight { from: [0.0, -1.0], ..NONE }),
    (&["below", "underneath", "bottom", "footlights"], RequestedLight { from: [0.0, 1.0], ..NONE }),
    (&["window"], RequestedLight { from: [-0.8, -0.2], contrast: 0.2, ..NONE }),
    (&["behind", "backlight", "backlit", "rim", "silhouette"], RequestedLight { behind: 1.0, contrast: 0.3, ..NONE }),
    (&["front", "frontal", "flash", "ring"], RequestedLight { front: 1.0, stops: 0.3, ..NONE }),
    (&["spotlight", "spot", "stage", "torch"], RequestedLight { spot: 1.0, contrast: 0.6, ..NONE }),
    (&["studio", "softbox"], RequestedLight { from: [-0.5, -0.5], stops: 0.2, ..NONE }),
    (&["warm", "cosy", "cozy", "tungsten", "lamp"], coloured(WARM)),
    (
        &["golden", "sunset", "sunrise", "dusk"],
        RequestedLight { from: [0.6, 0.2], glow: 0.4, ..coloured([0.45, 0.02, -0.8]) },
    ),
    (
        &["candle", "candlelight", "fire", "firelight"],
        RequestedLight { stops: -0.6, contrast: 0.4, ..coloured([0.6, -0.1, -1.3]) },
    ),
    (&["cold", "cool", "icy", "winter", "wintry"], coloured(COLD)),
    (
        &["moon", "moonlight", "moonlit", "night"],
        RequestedLight { stops: -1.5, contrast: 0.2, shade: [-0.4, -0.1, 0.4], ..coloured([-0.6, -0.05, 0.6]) },
    ),
    (&["red", "crimson"], coloured([1.0, -0.7, -0.7])),
    (&["orange", "amber"], coloured([0.7, -0.1, -1.2])),
    (&["yellow"], coloured([0.35, 0.2, -1.1])),
    (&["green", "emerald"], coloured([-0.6, 0.5, -0.4])),
    (&["cyan", "teal", "turquoise"], coloured([-0.8, 0.25, 0.35])),
    (&["blue", "azure"], coloured([-0.7, -0.15, 0.9])),
    (&["purple", "violet"], coloured([0.3, -0.6, 0.8])),
    (&["pink", "rose", "magenta"], coloured([0.6, -0.4, 0.35])),
    (
        &["neon", "cyberpunk"],
        RequestedLight { lit: [0.7, -0.6, 0.6], shade: [-0.9, 0.1, 0.7], contrast: 0.4, glow: 0.5, ..NONE },
    ),
    (&["bright", "luminous", "radiant"], RequestedLight { stops: 0.8, ..NONE }),
    (
        &["sunny", "sun", "sunlight", "sunlit"],
        RequestedLight { stops: 0.5, contrast: 0.3, lit: [0.15, 0.0, -0.3], shade: [-0.1, 0.0, 0.15], ..NONE },
    ),
    (&["day", "daylight", "noon", "midday"], RequestedLight { from: [0.0, -0.5], stops: 0.5, ..NONE }),
    (&["dark", "dim", "gloomy", "moody"], RequestedLight { stops: -1.0, contrast: 0.3, ..NONE }),
    (&["dramatic", "hard", "harsh", "noir", "contrast"], RequestedLight { contrast: 0.8, ..NONE }),
    (&["soft", "diffuse", "gentle", "even"], RequestedLight { contrast: -0.7, ..NONE }),
    (
        &["cloudy", "overcast", "foggy", "fog", "mist", "misty"],
        RequestedLight { contrast: -1.0, lit: [-0.08, 0.0, 0.1], glow: 0.3, ..NONE },
    ),
    (&["glow", "glowing", "dreamy", "ethereal", "magic", "magical"], RequestedLight { glow: 0.8, ..NONE }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_words_count_once_and_are_negated() {
        assert!(RequestedLight::from_prompt("Sunset from the left").lit[2] < -0.5);
        assert_eq!(RequestedLight::from_prompt("warm, cosy lamp"), RequestedLight::from_prompt("warm"));
        assert!(
            RequestedLight::from_prompt("not too dark").stops > 0.0 && RequestedLight::from_prompt("dark").stops < 0.0
        );
        assert_eq!(RequestedLight::from_prompt("a cat on a mat"), RequestedLight::NONE);
    }

    #[test]
    fn no_word_is_in_two_hints() {
        let mut seen = std::collections::HashSet::new();
        for word in HINTS.iter().flat_map(|(words, _)| words.iter()) {
            assert!(seen.insert(*word), "{word} is in two hints");
        }
    }
}
