//! Vocabulary of moods, tempo, metre and form, with the meaning of each word.

use crate::piece::Texture;

/// Effect of a mood on the music.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feeling {
    /// From sad (-1) to happy (1).
    pub valence: f32,
    /// From quiet (-1) to driving (1).
    pub energy: f32,
    /// From relaxed (0) to tense (1).
    pub tension: f32,
    /// From dry and close (0) to wide and distant (1).
    pub space: f32,
}

const fn feeling(valence: f32, energy: f32, tension: f32, space: f32) -> Feeling {
    Feeling { valence, energy, tension, space }
}

/// Moods: the words of each, of which the first is the tag, and the effect.
pub const MOODS: &[(&[&str], Feeling)] = &[
    (&["happy", "joyful", "cheerful", "joy", "merry", "bright", "sunny", "jolly"], feeling(0.9, 0.4, 0.0, 0.3)),
    (&["uplifting", "optimistic", "hopeful", "inspiring", "positive", "motivational"], feeling(0.8, 0.4, 0.1, 0.5)),
    (&["playful", "quirky", "funny", "whimsical", "cute", "bouncy", "silly"], feeling(0.8, 0.3, 0.1, 0.2)),
    (&["triumphant", "victorious", "victory", "heroic", "glorious", "majestic"], feeling(0.7, 0.8, 0.2, 0.7)),
    (&["romantic", "love", "tender", "loving", "wedding"], feeling(0.5, -0.4, 0.1, 0.5)),
    (&["warm", "cozy", "cosy", "comforting", "gentle", "soft", "sweet"], feeling(0.4, -0.5, 0.0, 0.4)),
    (&["calm", "peaceful", "relaxing", "serene", "tranquil", "soothing", "relaxed"], feeling(0.3, -0.8, 0.0, 0.7)),
    (&["chill", "laid back", "mellow", "easygoing", "lazy", "smooth"], feeling(0.2, -0.5, 0.0, 0.4)),
    (&["sleepy", "sleep", "lullaby", "bedtime", "meditative", "meditation"], feeling(0.3, -1.0, 0.0, 0.8)),
    (&["dreamy", "ethereal", "floating", "hazy", "dream", "dreamlike", "celestial"], feeling(0.2, -0.5, 0.1, 0.9)),
    (&["nostalgic", "wistful", "bittersweet", "reflective", "memories"], feeling(-0.2, -0.4, 0.1, 0.6)),
    (&["sad", "melancholic", "melancholy", "sorrowful", "mournful", "tragic", "lonely"], feeling(-0.8, -0.6, 0.2, 0.6)),
    (&["emotional", "moving", "heartfelt", "touching"], feeling(-0.3, -0.2, 0.2, 0.6)),
    (&["mysterious", "mystic", "enigmatic", "curious", "mystical"], feeling(-0.3, -0.3, 0.6, 0.8)),
    (&["dark", "gloomy", "brooding", "sinister", "ominous", "grim"], feeling(-0.8, 0.0, 0.7, 0.6)),
    (&["scary", "horror", "creepy", "eerie", "haunting", "spooky"], feeling(-0.9, -0.1, 1.0, 0.8)),
    (&["tense", "suspenseful", "suspense", "anxious", "thriller", "nervous"], feeling(-0.6, 0.4, 0.9, 0.5)),
    (&["aggressive", "angry", "fierce", "brutal", "furious", "heavy"], feeling(-0.6, 1.0, 0.7, 0.2)),
    (&["epic", "powerful", "dramatic", "grand", "massive", "intense"], feeling(-0.1, 0.9, 0.5, 0.8)),
    (&["energetic", "driving", "exciting", "upbeat", "lively", "party", "dynamic"], feeling(0.5, 0.9, 0.2, 0.3)),
    (&["groovy", "funky", "sexy", "cool", "swaggering"], feeling(0.4, 0.4, 0.0, 0.2)),
];

/// Tempo words: beats per minute if the word fixes them, and the factor applied to the genre's tempo otherwise.
pub const TEMPI: &[(&[&str], Option<f32>, f32)] = &[
    (&["very slow", "extremely slow", "super slow", "glacial"], None, 0.68),
    (&["very fast", "extremely fast", "super fast", "breakneck", "frantic"], None, 1.4),
    (&["largo", "grave"], Some(50.0), 1.0),
    (&["adagio", "lento"], Some(66.0), 1.0),
    (&["andante"], Some(84.0), 1.0),
    (&["moderato"], Some(108.0), 1.0),
    (&["allegro"], Some(132.0), 1.0),
    (&["vivace"], Some(156.0), 1.0),
    (&["presto"], Some(180.0), 1.0),
    (&["slow", "slowly", "slowed", "downtempo", "unhurried"], None, 0.8),
    (&["mid tempo", "midtempo", "medium tempo"], None, 1.0),
    (&["uptempo", "up tempo", "upbeat", "brisk", "lively"], None, 1.12),
    (&["fast", "quick", "rapid", "racing", "speedy", "hectic"], None, 1.25),
];

/// Metre. Lengths are counted in steps; a quarter note has four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metre {
    /// Steps per bar.
    pub bar: u32,
    /// Steps per beat.
    pub beat: u32,
    /// Notation such as `4/4`.
    pub name: &'static str,
}

impl Metre {
    /// Returns the steps of the note that the tempo counts: a dotted quarter in compound metres, otherwise a quarter.
    #[must_use]
    pub const fn tempo_steps(self) -> u8 {
        if self.beat == 6 { 6 } else { 4 }
    }
}

/// Default metre.
pub const FOUR: Metre = Metre { bar: 16, beat: 4, name: "4/4" };
/// Metre of waltzes.
pub const THREE: Metre = Metre { bar: 12, beat: 4, name: "3/4" };
/// Compound metre of two beats.
pub const SIX: Metre = Metre { bar: 12, beat: 6, name: "6/8" };
const FIVE: Metre = Metre { bar: 20, beat: 4, name: "5/4" };
const SEVEN: Metre = Metre { bar: 14, beat: 2, name: "7/8" };

/// Words that name a metre.
pub const METRES: &[(&[&str], Metre)] = &[
    (&["3/4", "waltz", "waltzes", "minuet", "three four", "triple time"], THREE),
    (&["6/8", "12/8", "six eight", "jig", "barcarolle", "sea shanty", "shanty"], SIX),
    (&["5/4", "five four"], FIVE),
    (&["7/8", "seven eight"], SEVEN),
    (&["4/4", "2/4", "four four", "common time", "march"], FOUR),
];

/// Words that name a background sound.
pub const TEXTURES: &[(&[&str], Texture)] = &[
    (&["vinyl", "crackle", "record noise", "dusty"], Texture::Vinyl),
    (&["rain", "rainy", "rainfall", "thunderstorm", "storm"], Texture::Rain),
    (&["ocean", "sea", "waves", "beach", "seaside", "shore"], Texture::Sea),
    (&["wind", "windy", "desert", "arctic", "tundra", "blizzard"], Texture::Wind),
];

/// Words for an ending that loops back to the beginning.
pub const LOOP: &[&str] = &["loop", "looping", "loopable", "seamless", "looped"];
/// Words for a fade-out.
pub const FADE_OUT: &[&str] = &["fade out", "fades out", "fading out", "fadeout", "fade away", "fade at the end"];
/// Words for a slow introduction.
pub const INTRO: &[&str] = &["intro", "introduction", "slow start", "starts quietly", "starts softly"];
/// Words for an increase towards the end.
pub const BUILD: &[&str] = &[
    "build",
    "builds",
    "building",
    "build up",
    "buildup",
    "crescendo",
    "rising",
    "grows",
    "growing",
    "gradually",
    "climax",
];
/// Words that limit the ensemble to the named instruments.
pub const SOLO: &[&str] = &["solo", "only", "just", "unaccompanied", "alone", "a cappella", "acapella"];
/// Single words for music without drums.
pub const DRUMLESS: &[&str] = &["drumless", "beatless", "percussionless", "unplugged"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_within_each_category() {
        fn assert_unique<'a>(phrases: impl Iterator<Item = &'a [&'a str]>) {
            let mut seen = std::collections::HashSet::new();
            for phrase in phrases.flatten() {
                assert!(seen.insert(*phrase), "{phrase} is there twice");
            }
        }
        assert_unique(MOODS.iter().map(|row| row.0));
        assert_unique(TEMPI.iter().map(|row| row.0));
        assert_unique(METRES.iter().map(|row| row.0));
        assert_unique(TEXTURES.iter().map(|row| row.0));
    }

    #[test]
    fn bars_are_whole_beats() {
        assert!(METRES.iter().all(|(_, metre)| metre.bar % metre.beat == 0));
    }
}
