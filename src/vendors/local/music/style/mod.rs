//! Genres, and what is usual in each: tempo, drums, bass, accompaniment, instruments, harmony, room.

mod band;
pub mod groove;
mod machine;
pub mod progression;

use groove::Groove;
use progression::Palette;

use super::instrument::Instrument;
use super::piece::{Kit, Texture};
use super::prompt::lexicon::{Feeling, Metre};
use super::prompt::words::{self, Word};

/// What kind of music.
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

/// How the bass moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BassLine {
    /// One note a chord.
    Held,
    /// Root on the first beat, fifth in the middle.
    RootFifth,
    /// Every eighth.
    Eighths,
    /// Between the beats.
    OffBeats,
    /// A step every beat, on the way to the next chord.
    Walking,
    /// Sixteenths with gaps.
    Funky,
    /// Low and high in turn.
    Octaves,
    /// Long, with pickups.
    Sparse,
    /// The rhythm of 3 + 3 + 2.
    Tresillo,
}

/// How chords are struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comping {
    /// Once a chord.
    Held,
    /// On the beats.
    Beats,
    /// Low note and chord tones in turn, in eighths.
    Broken,
    /// Strummed up and down.
    Strummed,
    /// Between the beats, short.
    OffBeats,
    /// Syncopated, as in swing.
    Charleston,
    /// Repeated eighths.
    Pulse,
    /// The rhythm of 3 + 3 + 2.
    Tresillo,
    /// Fifths in low eighths.
    Chug,
}

/// What is usual in a genre.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Which genre.
    pub genre: Genre,
    /// What prompts call it; the first is its tag.
    pub names: &'static [&'static str],
    /// Slowest and fastest usual tempo, in beats a minute.
    pub tempo: (f32, f32),
    /// How beats are grouped.
    pub metre: Metre,
    /// How far every other note comes late, as a part of its step: eighths where `swing_steps` is 2, sixteenths where 1.
    pub swing: f32,
    /// Which notes swing.
    pub swing_steps: u32,
    /// Drums, if it has any.
    pub groove: Option<&'static Groove>,
    /// Which drums.
    pub kit: Kit,
    /// How the bass moves.
    pub bass: BassLine,
    /// How chords are struck.
    pub comping: Comping,
    /// Instruments for the tune.
    pub leads: &'static [Instrument],
    /// For struck chords; may be none.
    pub comps: &'static [Instrument],
    /// For held chords; may be none.
    pub pads: &'static [Instrument],
    /// For broken chords; may be none.
    pub arpeggios: &'static [Instrument],
    /// For the bass; may be none.
    pub basses: &'static [Instrument],
    /// Chords.
    pub palette: Palette,
    /// 1 with sevenths, 2 with ninths.
    pub extension: u8,
    /// The mood that it has by itself.
    pub feeling: Feeling,
    /// Length in seconds when nothing is said.
    pub seconds: u16,
    /// Seconds of the room.
    pub reverb: f32,
    /// How much of it, 0 to 1.
    pub wet: f32,
    /// How much echo, 0 to 1.
    pub echo: f32,
    /// How much gives way to the kick, 0 to 1.
    pub duck: f32,
    /// Highest frequency of the tape, in hertz.
    pub tape_hertz: Option<f32>,
    /// Background.
    pub texture: Option<Texture>,
    /// By how many milliseconds players are early or late.
    pub human_ms: f32,
    /// Whether the last bar slows down.
    pub ritards: bool,
    /// How often there is a tune of its own, 0 to 1.
    pub tune: f32,
}

impl Genre {
    /// Its style.
    #[must_use]
    pub fn style(self) -> &'static Style {
        // Every genre has a row, which a test makes sure of.
        styles().find(|style| style.genre == self).unwrap_or(&band::POP)
    }

    /// The genres that the words want, those named first first. One within the name of another that was found ("hip hop"
    /// in "lofi hip hop") counts, but after it.
    #[must_use]
    pub fn named_in(words: &[Word]) -> Vec<Self> {
        let mut found: Vec<(usize, usize, Self)> = Vec::new();
        for (phrase, genre) in phrases() {
            if let Some((at, true)) = words::find(words, phrase) {
                let length = phrase.split(' ').count();
                found.push((at, usize::MAX - length, genre));
            }
        }
        found.sort_by_key(|(at, length, _)| (*at, *length));
        let mut genres = Vec::new();
        for (_, _, genre) in found {
            if !genres.contains(&genre) {
                genres.push(genre);
            }
        }
        genres
    }

    /// Whether the word at this place is part of a name of more than one word.
    #[must_use]
    pub fn covers(words: &[Word], at: usize) -> bool {
        let within = |phrase: &str| {
            let length = phrase.split(' ').count();
            let begins = at.saturating_sub(length - 1)..=at;
            length > 1
                && begins.into_iter().any(|begin| {
                    words.get(begin..begin + length).is_some_and(|window| words::find(window, phrase).is_some())
                })
        };
        phrases().any(|(phrase, _)| within(phrase))
    }
}

fn styles() -> impl Iterator<Item = &'static Style> {
    machine::STYLES.iter().chain(band::STYLES)
}

fn phrases() -> impl Iterator<Item = (&'static str, Genre)> {
    styles().flat_map(|style| style.names.iter().map(|name| (*name, style.genre)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_can_be_played() {
        for style in styles() {
            let named = style.genre.style();
            assert_eq!(named.names, style.names, "{:?} is there twice", style.genre);
            assert!(!style.leads.is_empty() && style.tempo.0 < style.tempo.1, "{:?}", style.genre);
            assert!(style.comps.len() + style.pads.len() + style.arpeggios.len() > 0, "{:?}", style.genre);
            assert!((10..=180).contains(&style.seconds), "{:?}", style.genre);
        }
        let mut seen = std::collections::HashSet::new();
        assert!(phrases().all(|(phrase, _)| seen.insert(phrase)));
    }

    #[test]
    fn genres_are_heard_in_the_order_of_the_prompt() {
        for (prompt, genres) in [
            ("lofi hip hop", vec![Genre::Lofi, Genre::HipHop]),
            ("Drum'n'bass with jazz chords", vec![Genre::DrumAndBass, Genre::Jazz]),
            ("drum & bass", vec![Genre::DrumAndBass]),
            ("not rock", vec![]),
            ("an epic orchestral film score", vec![Genre::Cinematic]),
            ("a waltz for piano", vec![]),
        ] {
            assert_eq!(Genre::named_in(&words::read(prompt)), genres, "{prompt}");
        }
    }
}
