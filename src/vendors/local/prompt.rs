//! What a prompt can say to an engine that knows no language.
//!
//! Some words name things that classical image processing can do: they are hints, and add to the other parameters. "no",
//! "not", "without" and "less" before a hint turn it round. All other words have no meaning here; what they do is to fix
//! the invented texture: the same prompt gives the same texture, whatever the picture.

use sha2::{Digest, Sha256};

use super::presets::Look;

const NONE: Look = Look::NONE;

/// The words that are understood, and what each adds at full strength.
const HINTS: &[(&[&str], Look)] = &[
    (&["sharp", "crisp", "clear", "focused", "hd", "4k", "8k"], Look { sharpen: 0.6, ..NONE }),
    (&["detailed", "intricate", "detail", "details"], Look { own_detail: 1.5, sharpen: 0.2, ..NONE }),
    (&["texture", "textured", "rough"], Look { texture: 1.2, ..NONE }),
    (&["soft", "blurry", "dreamy", "gentle"], Look { smooth: 0.3, sharpen: -0.4, ..NONE }),
    (&["smooth", "clean", "denoise", "denoised", "polished"], Look { smooth: 0.5, ..NONE }),
    (&["noise", "noisy", "grain", "grainy"], Look { grain: 0.5, ..NONE }),
    (&["film", "analog", "analogue", "vintage"], Look { grain: 0.4, saturation: -0.1, warmth: 0.15, ..NONE }),
    (&["painting", "painterly", "watercolor", "watercolour", "oil"], Look { smooth: 0.7, ..NONE }),
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

/// The sum of the hints in a prompt, each counted once.
#[must_use]
pub fn hints(prompt: &str) -> Look {
    let mut sum = Look::NONE;
    let mut direction = 1.0;
    let mut heard = [false; HINTS.len()];
    for word in words(prompt) {
        if matches!(word.as_str(), "no" | "not" | "without" | "less") {
            direction = -1.0;
            continue;
        }
        let hint = HINTS.iter().position(|(words, _)| words.contains(&word.as_str()));
        if let Some(hint) = hint.filter(|hint| !std::mem::replace(&mut heard[*hint], true)) {
            sum.add(&HINTS[hint].1, direction);
        }
        direction = 1.0;
    }
    sum
}

/// The seed of the texture that a prompt stands for; case, spaces and punctuation do not matter. None without words.
#[must_use]
pub fn seed(prompt: &str) -> Option<u32> {
    let mut hash = Sha256::new();
    let mut any = false;
    for word in words(prompt) {
        any = true;
        hash.update(word.as_bytes());
        hash.update([0]);
    }
    let hash = hash.finalize();
    any.then(|| u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]]))
}

fn words(prompt: &str) -> impl Iterator<Item = String> {
    prompt.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_heard_once_and_turned_by_a_no() {
        let sharp = hints("Sharp, crisp!");
        assert!(sharp.sharpen > 0.0);
        assert_eq!(sharp, hints("a crisp photo of a cat"));
        assert_eq!(hints("not sharp").sharpen.to_bits(), (-sharp.sharpen).to_bits());
        assert_eq!(hints("no cats, sharp"), sharp);
        assert_eq!(hints("a cat on a mat"), Look::NONE);
    }

    #[test]
    fn each_word_stands_for_one_hint() {
        let mut seen = std::collections::HashSet::new();
        assert!(HINTS.iter().flat_map(|(words, _)| words.iter()).all(|word| seen.insert(*word)));
    }

    #[test]
    fn the_seed_is_that_of_the_words() {
        assert_eq!(seed("A cat,  on a mat."), seed("a cat on a mat"));
        assert_ne!(seed("a cat on a mat"), seed("a dog on a mat"));
        assert_eq!(seed(" ?! "), None);
    }
}
