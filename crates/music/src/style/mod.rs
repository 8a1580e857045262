//! Genres and their defaults: tempo, drums, bass, accompaniment, instruments, harmony and reverb.

mod band;
mod electronic;
pub mod groove;
pub mod progression;

use groove::Groove;
use progression::Palette;

use crate::instrument::Instrument;
use crate::piece::{DrumKit, Texture};
use crate::prompt::lexicon::{Feeling, Metre};
use crate::prompt::words::{self, Occurrence, Word};

/// Genre of music.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Genre {
    Lofi,
    HipHop,
    Trap,
    House,
    Techno,
    Trance,
    DrumAndBass,
    Synthwave,
    Ambient,
    Chiptune,
    Disco,
    Pop,
    Rock,
    Metal,
    Blues,
    Country,
    Folk,
    Funk,
    Reggae,
    Latin,
    Jazz,
    Classical,
    Cinematic,
    Lullaby,
}

/// Motion of the bass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BassLine {
    /// One note per chord.
    Held,
    /// Root on the first beat, fifth in the middle of the bar.
    RootFifth,
    /// Root in eighths.
    Eighths,
    /// Root between the beats.
    OffBeats,
    /// One note per beat, leading to the next chord.
    Walking,
    /// Sixteenths with gaps.
    Funky,
    /// Root and its octave in turn, in eighths.
    Octaves,
    /// Long notes with pickups.
    Sparse,
    /// Syncopated rhythm with long notes on the beats one and three.
    Tresillo,
}

/// Rhythm of struck chords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comping {
    /// Once per chord.
    Held,
    /// On the beats.
    Beats,
    /// Low note and chord tones in turn, in eighths.
    Broken,
    /// Strummed up and down.
    Strummed,
    /// Short, between the beats.
    OffBeats,
    /// Syncopated as in swing.
    Charleston,
    /// Repeated eighths.
    Pulse,
    /// Latin syncopation based on 3 + 3 + 2.
    Tresillo,
    /// Chords in eighths; power chords on a distorted guitar.
    Chug,
}

/// Defaults of a genre.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub genre: Genre,
    /// Names in prompts; the first is the tag.
    pub names: &'static [&'static str],
    /// Usual lowest and highest tempo in beats per minute.
    pub tempo: (f32, f32),
    pub metre: Metre,
    /// Delay of every second note: 0 for none, 1 for half of a note of `swing_steps`.
    pub swing: f32,
    /// Length in steps of the notes that swing: 2 for eighths, 1 for sixteenths.
    pub swing_steps: u32,
    /// Drum pattern, if the genre has drums.
    pub groove: Option<&'static Groove>,
    /// Drum sounds.
    pub kit: DrumKit,
    /// Motion of the bass.
    pub bass: BassLine,
    /// Rhythm of struck chords.
    pub comping: Comping,
    /// Instruments for the melody.
    pub leads: &'static [Instrument],
    /// Instruments for struck chords; may be empty.
    pub comps: &'static [Instrument],
    /// Instruments for sustained chords; may be empty.
    pub pads: &'static [Instrument],
    /// Instruments for broken chords; may be empty.
    pub arpeggios: &'static [Instrument],
    /// Instruments for the bass; may be empty.
    pub basses: &'static [Instrument],
    /// Family of chord progressions.
    pub palette: Palette,
    /// 0 for triads, 1 for sevenths, 2 for ninths.
    pub extension: u8,
    /// Mood of the genre without a prompt.
    pub feeling: Feeling,
    /// Default length in seconds.
    pub seconds: u16,
    /// Decay time of the reverb in seconds.
    pub reverb: f32,
    /// Level of the reverb, 0 to 1.
    pub wet: f32,
    /// Level of the echo, 0 to 1.
    pub echo: f32,
    /// Amount of ducking by the kick drum, 0 to 1.
    pub duck: f32,
    /// Cutoff frequency of the tape filter in hertz, if there is one.
    pub tape_hertz: Option<f32>,
    /// Background sound, if any.
    pub texture: Option<Texture>,
    /// Maximum random deviation of the timing in milliseconds.
    pub human_ms: f32,
    /// `true` if the last bar slows down.
    pub ritards: bool,
    /// Probability of a melody, 0 to 1.
    pub melody_probability: f32,
}

impl Genre {
    /// Returns the style.
    #[must_use]
    pub fn style(self) -> &'static Style {
        // A test ensures that every genre has a row.
        styles().find(|style| style.genre == self).unwrap_or(&band::POP)
    }

    /// Returns the requested genres in the order of the prompt.
    ///
    /// A genre within the name of another one ("hip hop" in "lofi hip hop") counts too. At the same position, the
    /// longer name comes first.
    #[must_use]
    pub fn named_in(words: &[Word]) -> Vec<Self> {
        // Position of each name in the prompt, its number of words, and its genre.
        let mut matches: Vec<(usize, usize, Self)> = Vec::new();
        for (phrase, genre) in phrases() {
            if let Some(Occurrence { at, is_wanted: true }) = words::find(words, phrase) {
                matches.push((at, phrase.split(' ').count(), genre));
            }
        }

        matches.sort_by_key(|(at, length, _)| (*at, std::cmp::Reverse(*length)));

        let mut genres = Vec::new();
        for (_, _, genre) in matches {
            if !genres.contains(&genre) {
                genres.push(genre);
            }
        }
        genres
    }

    /// Returns `true` if the word at index `at` is part of a genre name of more than one word.
    #[must_use]
    pub fn covers(words: &[Word], at: usize) -> bool {
        let is_covered = |phrase: &str| {
            let length = phrase.split(' ').count();
            let starts = at.saturating_sub(length - 1)..=at;
            length > 1
                && starts.into_iter().any(|start| {
                    words.get(start..start + length).is_some_and(|window| words::find(window, phrase).is_some())
                })
        };
        phrases().any(|(phrase, _)| is_covered(phrase))
    }
}

/// Returns the styles of all genres.
fn styles() -> impl Iterator<Item = &'static Style> {
    electronic::STYLES.iter().chain(band::STYLES)
}

/// Returns the names of all genres, each with its genre.
pub fn phrases() -> impl Iterator<Item = (&'static str, Genre)> {
    styles().flat_map(|style| style.names.iter().map(|name| (*name, style.genre)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_can_be_played() {
        for style in styles() {
            let genre_style = style.genre.style();
            assert_eq!(genre_style.names, style.names, "{:?} is there twice", style.genre);
            assert!(!style.leads.is_empty() && style.tempo.0 < style.tempo.1, "{:?}", style.genre);
            assert!(style.comps.len() + style.pads.len() + style.arpeggios.len() > 0, "{:?}", style.genre);
            assert!((10..=180).contains(&style.seconds), "{:?}", style.genre);
        }
        let mut seen = std::collections::HashSet::new();
        for (phrase, _) in phrases() {
            assert!(seen.insert(phrase), "{phrase} names two genres");
        }
    }

    #[test]
    fn genres_are_parsed_in_the_order_of_the_prompt() {
        for (prompt, genres) in [
            ("lofi hip hop", vec![Genre::Lofi, Genre::HipHop]),
            ("Drum'n'bass with jazz chords", vec![Genre::DrumAndBass, Genre::Jazz]),
            ("drum & bass", vec![Genre::DrumAndBass]),
            ("not rock", vec![]),
            ("an epic orchestral film score", vec![Genre::Cinematic]),
            ("a waltz for piano", vec![]),
        ] {
            assert_eq!(Genre::named_in(&words::parse(prompt)), genres, "{prompt}");
        }
    }
}
