//! Decisions for a whole piece: the requests of the prompt, completed by the defaults of the genre.

use super::clock::{Clock, Pace, PieceEnding};
use crate::instrument::Instrument;
use crate::prompt::lexicon::{Feeling, Metre, THREE};
use crate::prompt::{MusicRequest, length::SECONDS_MAX};
use crate::rng::SeededRng;
use crate::style::progression::Palette;
use crate::style::{Genre, Style};
use crate::theory::{Key, Mode};

/// Decisions for a whole piece.
#[derive(Debug, Clone)]
pub struct PiecePlan {
    /// Main genre.
    pub style: &'static Style,
    /// Second genre, which provides some of the instruments.
    pub second: Option<&'static Style>,
    /// Mood of the prompt and the genre combined.
    pub feeling: Feeling,
    pub key: Key,
    pub clock: Clock,
}

impl PiecePlan {
    /// Decides on all properties. `seconds` takes precedence over a length in the prompt.
    #[must_use]
    pub fn from_request(request: &MusicRequest, seconds: Option<u16>) -> Self {
        let mut rng = request.rng.fork("plan");
        let genre = request.genres.first().copied().unwrap_or_else(|| choose_genre(request, &mut rng));
        let style = genre.style();
        let second = request.genres.get(1).map(|genre| genre.style());

        let feeling = blend_feelings(style.feeling, request);
        let key = choose_key(request, style, feeling, &mut rng);

        let metre = request.metre.unwrap_or(style.metre);
        let bpm = choose_tempo(request, style, feeling, metre, &mut rng);
        let seconds = seconds.or(request.seconds).unwrap_or_else(|| default_length(request, style, metre, bpm));

        let ending = match request.form {
            form if form.seamless => PieceEnding::Seamless,
            form if form.fade_out => PieceEnding::Fade,
            _ => PieceEnding::Chord { ritards: style.ritards && !request.form.build },
        };

        let clock = Clock::new(&Pace {
            seconds: seconds.clamp(1, SECONDS_MAX),
            bpm,
            fixed: request.tempo.requested_bpm.is_some(),
            metre,
            swing: style.swing,
            swing_steps: style.swing_steps,
            ending,
        });

        Self { style, second, feeling, key, clock }
    }
}

/// Chooses the genre of a prompt that names none: by its instruments, or else by its mood.
fn choose_genre(request: &MusicRequest, rng: &mut SeededRng) -> Genre {
    use Instrument as I;
    let wants = |instruments: &[I]| instruments.iter().any(|instrument| request.wanted.contains(instrument));
    let has_mood = |mood: &str| request.moods.contains(&mood);
    let Feeling { valence, energy, tension, .. } = request.feeling;

    if wants(&[I::Chip]) {
        Genre::Chiptune
    } else if wants(&[I::DistortedGuitar]) {
        Genre::Rock
    } else if wants(&[I::Saxophone, I::UprightBass, I::Vibraphone]) {
        Genre::Jazz
    } else if wants(&[I::SawLead, I::SquareLead, I::SuperSaw, I::SynthBass]) {
        if energy > 0.4 { Genre::Trance } else { Genre::Synthwave }
    } else if wants(&[I::MusicBox, I::Glockenspiel]) || has_mood("sleepy") {
        Genre::Lullaby
    } else if has_mood("epic") || has_mood("triumphant") || tension > 0.55 || wants(&[I::Horns, I::Brass]) {
        Genre::Cinematic
    } else if request.metre == Some(THREE) || wants(&[I::Violin, I::Cello, I::Harpsichord, I::Oboe, I::Clarinet]) {
        Genre::Classical
    } else if energy < -0.55 && valence > -0.4 && !wants(&[I::Piano, I::NylonGuitar, I::SteelGuitar]) {
        Genre::Ambient
    } else if wants(&[I::SteelGuitar, I::Ukulele, I::Accordion, I::NylonGuitar, I::PanFlute]) {
        Genre::Folk
    } else if valence < -0.4 || request.solo {
        Genre::Classical
    } else if has_mood("groovy") {
        Genre::Funk
    } else if energy > 0.6 {
        rng.pick(&[Genre::Pop, Genre::House, Genre::Rock])
    } else if has_mood("chill") {
        Genre::Lofi
    } else if wants(&[I::Strings, I::Choir]) {
        Genre::Cinematic
    } else {
        // Pop is listed twice, so that it is as likely as the other two together.
        rng.pick(&[Genre::Pop, Genre::Folk, Genre::Synthwave, Genre::Pop])
    }
}

/// Blends the mood of the genre with that of the prompt, which has the larger weight.
fn blend_feelings(default_feeling: Feeling, request: &MusicRequest) -> Feeling {
    if request.moods.is_empty() && request.feeling.valence == 0.0 {
        return default_feeling;
    }

    let mix = |default: f32, requested_value: f32| 0.3 * default + 0.7 * requested_value;
    let requested = request.feeling;
    Feeling {
        valence: mix(default_feeling.valence, requested.valence),
        energy: mix(default_feeling.energy, requested.energy),
        tension: mix(default_feeling.tension, requested.tension),
        space: mix(default_feeling.space, requested.space),
    }
}

/// Returns the requested key. Without one, the mood determines the mode, and the tonic is random.
fn choose_key(request: &MusicRequest, style: &Style, feeling: Feeling, rng: &mut SeededRng) -> Key {
    // Functional harmony uses only major and minor.
    let is_functional = matches!(style.palette, Palette::Jazz | Palette::Classical | Palette::Blues);
    let Feeling { valence, tension, space, .. } = feeling;
    let draw = rng.unit();

    let guessed = if valence > 0.12 {
        if is_functional || draw < 0.7 {
            Mode::Ionian
        } else if space > 0.5 {
            Mode::Lydian
        } else {
            Mode::Mixolydian
        }
    } else if valence > -0.15 && tension < 0.4 {
        if is_functional && draw < 0.5 {
            Mode::Ionian
        } else if is_functional || draw < 0.45 {
            Mode::Aeolian
        } else {
            Mode::Dorian
        }
    } else if tension > 0.75 && !is_functional && draw < 0.6 {
        Mode::Phrygian
    } else if tension > 0.5 && draw < 0.5 {
        Mode::HarmonicMinor
    } else {
        Mode::Aeolian
    };

    let tonic = rng.below(12) as i32;
    Key { tonic: request.key.tonic.unwrap_or(tonic), mode: request.key.mode.unwrap_or(guessed) }
}

/// Returns the requested tempo in beats per minute. Without one, the mood selects it within the range of the genre.
fn choose_tempo(request: &MusicRequest, style: &Style, feeling: Feeling, metre: Metre, rng: &mut SeededRng) -> f32 {
    let (low, high) = style.tempo;
    let drive = (0.5 + 0.5 * (feeling.energy - style.feeling.energy) + rng.between(-0.2, 0.2)).clamp(-0.4, 1.4);
    // A compound metre in a genre of simple metres has longer beats.
    let beat_factor = if metre.beat == 6 && style.metre.beat != 6 { 0.67 } else { 1.0 };
    let bpm = (low + (high - low) * drive) * request.tempo.factor * beat_factor;
    request.tempo.requested_bpm.unwrap_or_else(|| bpm.round().clamp(40.0, 200.0))
}

/// Returns the default length in seconds. A loop has eight bars.
fn default_length(request: &MusicRequest, style: &Style, metre: Metre, bpm: f32) -> u16 {
    if !request.form.seamless {
        return style.seconds;
    }
    let bar = metre.bar as f32 * 60.0 / bpm / f32::from(metre.tempo_steps());
    (8.0 * bar).round().clamp(8.0, 40.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt;

    fn plan(prompt: &str) -> PiecePlan {
        PiecePlan::from_request(&prompt::parse(prompt), None)
    }

    #[test]
    fn explicit_requests_are_followed() {
        let piece_plan = plan("techno at 131 bpm in F# minor, 7/8, 40 seconds");
        assert!((piece_plan.clock.bpm() - 131.0).abs() < 0.01);
        assert_eq!((piece_plan.key, piece_plan.clock.metre.name), (Key { tonic: 6, mode: Mode::Aeolian }, "7/8"));
        assert_eq!((piece_plan.style.genre, piece_plan.clock.frames), (Genre::Techno, 40 * 48_000));
        assert_eq!(PiecePlan::from_request(&prompt::parse("40 seconds"), Some(7)).clock.frames, 7 * 48_000);
    }

    #[test]
    fn moods_choose_mode_and_tempo() {
        for seed in ["red", "blue", "green", "white", "black"] {
            let bright = plan(&format!("happy {seed} piano"));
            let dark = plan(&format!("sad dark {seed} piano"));
            assert!(!bright.key.mode.is_minor() && dark.key.mode.is_minor(), "{seed}");
            let calm = plan(&format!("calm {seed} folk"));
            let driven = plan(&format!("energetic {seed} folk"));
            assert!(driven.clock.bpm() > calm.clock.bpm() + 8.0, "{seed}");
            let slow = plan(&format!("slow {seed} rock"));
            let fast = plan(&format!("fast {seed} rock"));
            assert!(fast.clock.bpm() > 1.3 * slow.clock.bpm(), "{seed}");
        }
    }

    #[test]
    fn a_genre_is_inferred_if_none_is_named() {
        for (prompt, genre) in [
            ("saxophone at night", Genre::Jazz),
            ("calm", Genre::Ambient),
            ("epic and dark", Genre::Cinematic),
            ("distorted guitars", Genre::Rock),
            ("a waltz", Genre::Classical),
            ("sad solo piano", Genre::Classical),
            ("music box", Genre::Lullaby),
            ("chill", Genre::Lofi),
        ] {
            assert_eq!(plan(prompt).style.genre, genre, "{prompt}");
        }
    }

    #[test]
    fn the_default_length_is_that_of_the_genre_and_loops_are_short() {
        assert_eq!(plan("ambient").clock.frames, 90 * 48_000);
        assert_eq!(plan("ambient for 20 seconds").clock.frames, 20 * 48_000);
        let looped = plan("a house loop");
        assert!(looped.clock.frames <= 20 * 48_000);
        assert_eq!((looped.clock.ending, looped.clock.steps), (PieceEnding::Seamless, 8 * 16));
    }
}
