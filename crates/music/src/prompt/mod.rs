//! Interpretation of a prompt. Unknown words affect only the random numbers.

pub mod key;
pub mod length;
pub mod lexicon;
pub mod report;
pub mod words;

use key::RequestedKey;
use lexicon::{Feeling, Metre};

use crate::instrument::{Instrument, NAMES};
use crate::piece::Texture;
use crate::rng::SeededRng;
use crate::style::Genre;
use words::{Occurrence, Word};

/// Requests of an interpreted prompt.
#[derive(Debug, Clone)]
pub struct MusicRequest {
    /// Words of the prompt, used for the title.
    pub words: Vec<Word>,
    /// Random numbers seeded by the words.
    pub rng: SeededRng,
    /// Genres in the order of the prompt.
    pub genres: Vec<Genre>,
    /// Mood names in the order of the prompt.
    pub moods: Vec<&'static str>,
    /// Mean of all moods.
    pub feeling: Feeling,
    /// Requested tempo.
    pub tempo: Tempo,
    /// Tonic and mode.
    pub key: RequestedKey,
    /// Metre, if the prompt names one.
    pub metre: Option<Metre>,
    /// Requested instruments in the order of the prompt.
    pub wanted: Vec<Instrument>,
    /// Rejected instruments.
    pub unwanted: Vec<Instrument>,
    /// `true` if only the requested instruments play.
    pub solo: bool,
    /// Requested form.
    pub form: RequestedForm,
    /// Background sound.
    pub texture: Option<Texture>,
    /// Length in seconds.
    pub seconds: Option<u16>,
}

/// Requested tempo.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tempo {
    /// Explicit tempo in beats per minute.
    pub requested_bpm: Option<f32>,
    /// Factor applied to the genre's tempo if no tempo is explicit.
    pub factor: f32,
}

/// Requested form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent requests that can all apply at once")]
pub struct RequestedForm {
    /// The end loops back to the beginning.
    pub seamless: bool,
    /// The end fades out.
    pub fade_out: bool,
    /// The piece has an introduction.
    pub intro: bool,
    /// The intensity grows from beginning to end.
    pub build: bool,
}

/// Lowest and highest explicit tempo in beats per minute; other numbers are ignored.
pub const BPM: (f32, f32) = (30.0, 260.0);

/// Interprets a prompt.
#[must_use]
pub fn parse(prompt: &str) -> MusicRequest {
    let words = words::parse(prompt);
    let joined: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let (moods, feeling) = parse_moods(&words);
    let (wanted, unwanted) = parse_instruments(&words);

    let wants = |phrases: &[&str]| words::wants(&words, phrases);
    let form = RequestedForm {
        seamless: wants(lexicon::LOOP),
        fade_out: wants(lexicon::FADE_OUT),
        intro: wants(lexicon::INTRO),
        build: wants(lexicon::BUILD),
    };

    MusicRequest {
        rng: SeededRng::from_text(&joined.join(" ")),
        genres: Genre::named_in(&words),
        moods,
        feeling,
        tempo: parse_tempo(&words),
        key: key::parse(&words),
        metre: lexicon::METRES.iter().find(|(phrases, _)| wants(phrases)).map(|(_, metre)| *metre),
        solo: wants(lexicon::SOLO) && !wanted.is_empty(),
        wanted,
        unwanted,
        form,
        texture: lexicon::TEXTURES.iter().find(|(phrases, _)| wants(phrases)).map(|(_, texture)| *texture),
        seconds: length::parse(&words),
        words,
    }
}

/// Returns the moods in the order of the prompt, and their mean. A rejected mood counts as half of its opposite.
fn parse_moods(words: &[Word]) -> (Vec<&'static str>, Feeling) {
    // Position and name of each wanted mood.
    let mut moods: Vec<(usize, &'static str)> = Vec::new();
    let mut sum = Feeling { valence: 0.0, energy: 0.0, tension: 0.0, space: 0.0 };
    let mut weight = 0.0;

    for (phrases, feeling) in lexicon::MOODS {
        let matches = phrases.iter().filter_map(|phrase| words::find(words, phrase));
        let first = matches.min_by_key(|occurrence| (!occurrence.is_wanted, occurrence.at));
        let Some(Occurrence { at, is_wanted }) = first else { continue };
        let sign = if is_wanted { 1.0 } else { -0.5 };

        weight += 1.0;
        sum.valence += sign * feeling.valence;
        sum.energy += sign * feeling.energy;
        if is_wanted {
            sum.tension += feeling.tension;
            sum.space += feeling.space;
            moods.push((at, phrases[0]));
        }
    }

    moods.sort_unstable();
    let mean = |sum: f32, otherwise: f32| if weight > 0.0 { sum / weight } else { otherwise };
    let feeling = Feeling {
        valence: mean(sum.valence, 0.0),
        energy: mean(sum.energy, 0.0),
        tension: mean(sum.tension, 0.1),
        space: mean(sum.space, 0.4),
    };

    (moods.into_iter().map(|(_, name)| name).collect(), feeling)
}

/// Returns the requested and the rejected instruments.
///
/// Longer phrases match first and consume their words, so that "double bass" does not also name a bass guitar.
fn parse_instruments(words: &[Word]) -> (Vec<Instrument>, Vec<Instrument>) {
    let mut named: Vec<(Occurrence, Instrument)> = Vec::new();
    let mut phrases: Vec<(&str, Instrument)> =
        NAMES.iter().flat_map(|(phrases, instrument)| phrases.iter().map(|phrase| (*phrase, *instrument))).collect();
    phrases.sort_by_key(|(phrase, _)| std::cmp::Reverse(phrase.split(' ').count()));

    let mut remaining_words = words.to_vec();
    for (phrase, instrument) in phrases {
        let length = phrase.split(' ').count();
        while let Some(occurrence) = words::find(&remaining_words, phrase) {
            named.push((occurrence, instrument));
            remaining_words[occurrence.at..occurrence.at + length].iter_mut().for_each(|word| word.text.clear());
        }
    }

    // "drum and bass" names a genre; "8 bit" also names the sound of its genre.
    named.retain(|(Occurrence { at, is_wanted }, instrument)| {
        !(*is_wanted && *instrument != Instrument::Chip && Genre::covers(words, *at))
    });
    named.sort_unstable_by_key(|(occurrence, _)| occurrence.at);

    let mut requested = Vec::new();
    let mut rejected = Vec::new();
    for (occurrence, instrument) in named {
        let list = if occurrence.is_wanted { &mut requested } else { &mut rejected };
        if !list.contains(&instrument) {
            list.push(instrument);
        }
    }

    if words::wants(words, lexicon::DRUMLESS) {
        rejected.push(Instrument::Drums);
    }
    requested.retain(|instrument| !rejected.contains(instrument));
    (requested, rejected)
}

/// Returns the tempo that a number or a word names.
fn parse_tempo(words: &[Word]) -> Tempo {
    let number_at = |at: usize| words.get(at).and_then(|word| word.text.parse::<f32>().ok());
    let joined_bpm = |text: &str| text.strip_suffix("bpm").and_then(|number| number.parse::<f32>().ok());
    let is_unit = |at: usize| words.get(at).is_some_and(|word| word.text == "bpm");

    let is_spelled_unit = |at: usize| {
        let texts = words.get(at..at + 3).unwrap_or_default().iter().map(|word| word.text.as_str());
        texts.eq(["beats", "per", "minute"]) || is_unit(at)
    };

    let requested_bpm = (0..words.len()).find_map(|at| {
        let text = words[at].text.as_str();
        let before = if text == "tempo" || is_unit(at) {
            let next = if words.get(at + 1).is_some_and(|word| word.text == "of") { at + 2 } else { at + 1 };
            number_at(next)
        } else {
            None
        };
        joined_bpm(text).or(number_at(at).filter(|_| is_spelled_unit(at + 1))).or(before)
    });

    let requested_bpm = requested_bpm.filter(|bpm| (BPM.0..=BPM.1).contains(bpm));
    let (word_bpm, factor) = lexicon::TEMPI
        .iter()
        .find(|(phrases, ..)| words::wants(words, phrases))
        .map_or((None, 1.0), |(_, bpm, factor)| (*bpm, *factor));

    Tempo { requested_bpm: requested_bpm.or(word_bpm), factor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instrument::Instrument as I;

    #[test]
    fn tempo_is_read_from_numbers_and_words() {
        for (prompt, bpm) in [
            ("house at 124 bpm", Some(124.0)),
            ("124bpm house", Some(124.0)),
            ("tempo 90", Some(90.0)),
            ("tempo of 90", Some(90.0)),
            ("bpm: 99.5", Some(99.5)),
            ("at 140 beats per minute", Some(140.0)),
            ("5000 bpm", None),
            ("an allegro", Some(132.0)),
            ("30 seconds", None),
        ] {
            assert_eq!(parse(prompt).tempo.requested_bpm, bpm, "{prompt}");
        }

        let factor = |prompt| parse(prompt).tempo.factor;
        assert!(factor("very slow") < factor("slow") && factor("slow") < 1.0 && factor("fast") < factor("very fast"));
        assert!((factor("not fast") - 1.0).abs() < f32::EPSILON);
    }

    #[test]
    fn instruments_are_wanted_or_not() {
        for (prompt, wanted, unwanted) in [
            ("solo piano", vec![I::Piano], vec![]),
            ("guitar and drums, no bass", vec![I::NylonGuitar, I::Drums], vec![I::ElectricBass]),
            ("double bass and electric piano", vec![I::UprightBass, I::ElectricPiano], vec![]),
            ("drum and bass", vec![], vec![]),
            ("drumless jazz", vec![], vec![I::Drums]),
            ("flute, flute and oboe", vec![I::Flute, I::Oboe], vec![]),
            ("a cat on a mat", vec![], vec![]),
        ] {
            let request = parse(prompt);
            assert_eq!((request.wanted, request.unwanted), (wanted, unwanted), "{prompt}");
        }
        assert!(parse("solo piano").solo && parse("just a piano").solo && !parse("just calm").solo);
    }

    #[test]
    fn moods_add_up_in_the_order_of_the_prompt() {
        assert_eq!(parse("dark, epic and tense").moods, ["dark", "epic", "tense"]);
        assert!(parse("sad").feeling.valence < -0.5 && parse("happy").feeling.valence > 0.5);
        assert!(parse("not sad").feeling.valence > 0.0 && parse("not sad").moods.is_empty());
        assert!(parse("calm").feeling.energy < -0.5 && parse("energetic").feeling.energy > 0.5);
    }

    #[test]
    fn forms_metres_and_backgrounds_are_named() {
        let request = parse("a looping waltz with rain");
        assert!(request.form.seamless);
        assert!(!request.form.fade_out);
        assert_eq!((request.metre.map(|metre| metre.name), request.texture), (Some("3/4"), Some(Texture::Rain)));
        let request = parse("builds up slowly, then fades out; intro in 6/8");
        assert!(request.form.build);
        assert!(request.form.fade_out);
        assert!(request.form.intro);
        assert_eq!(request.metre.map(|metre| metre.name), Some("6/8"));
        assert_eq!(parse("no waltz").metre, None);
    }

    #[test]
    fn punctuation_and_case_change_nothing() {
        let bits = |prompt| parse(prompt).rng.bits();
        assert_eq!(bits("A calm,  slow piece."), bits("a calm slow piece"));
        assert_ne!(bits("a calm slow piece"), bits("a calm slow place"));
    }
}
