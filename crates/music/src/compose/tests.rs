//! Tests of whole pieces as data.

use proptest::prelude::*;

use super::compose;
use crate::instrument::Instrument;
use crate::piece::{Drum, Note, Piece, RATE};
use crate::theory::Key;

const PROMPTS: &[&str] = &[
    "lofi hip hop with rain",
    "epic orchestral battle, building up",
    "a calm solo piano waltz",
    "house at 124 bpm",
    "sad cello and strings",
    "drum and bass",
    "6/8 irish jig with flute",
    "dark ambient drone",
    "8 bit boss fight",
    "jazz trio, 5/4",
];

fn melodic_notes(piece: &Piece) -> impl Iterator<Item = &Note> {
    piece.parts.iter().filter(|part| part.instrument != Instrument::Drums).flat_map(|part| &part.notes)
}

fn has_instrument(piece: &Piece, instrument: Instrument) -> bool {
    piece.parts.iter().any(|part| part.instrument == instrument)
}

#[test]
fn equal_prompts_give_equal_pieces_and_different_prompts_different_ones() {
    for prompt in PROMPTS {
        assert_eq!(compose(prompt, Some(40)), compose(prompt, Some(40)), "{prompt}");
    }
    assert_ne!(compose("calm piano", Some(40)).parts, compose("calm piano at dusk", Some(40)).parts);
}

#[test]
fn notes_fill_every_length_and_none_is_after_the_end() {
    for seconds in 1..=360 {
        let prompt = PROMPTS[usize::from(seconds) % PROMPTS.len()];
        let piece = compose(prompt, Some(seconds));
        assert_eq!(piece.frames, u32::from(seconds) * RATE);
        let starts: Vec<u32> = piece.parts.iter().flat_map(|part| part.notes.iter().map(|note| note.start)).collect();
        assert!(starts.iter().min().is_some_and(|first| *first < RATE / 2), "{prompt} {seconds}");
        assert!(starts.iter().all(|start| *start < piece.frames), "{prompt} {seconds}");
        for part in &piece.parts {
            assert!(part.notes.is_sorted_by_key(|note| note.start), "{prompt} {seconds}");
        }
    }
}

#[test]
fn there_is_no_long_silence() {
    for prompt in PROMPTS {
        let piece = compose(prompt, Some(100));
        let mut sounding: Vec<(u32, u32)> = piece
            .parts
            .iter()
            .flat_map(|part| &part.notes)
            .map(|note| (note.start, note.start + note.frames))
            .collect();
        sounding.sort_unstable();
        let mut until = 0;
        for (start, end) in sounding {
            assert!(start < until + 2 * RATE, "{prompt}: nothing from {until} to {start}");
            until = until.max(end);
        }
        assert!(piece.frames < until + 6 * RATE, "{prompt}");
    }
}

#[test]
fn notes_are_in_the_range_of_their_instrument_and_for_the_most_part_in_the_key() {
    for prompt in PROMPTS {
        let piece = compose(&format!("{prompt} in D minor"), Some(60));
        let key = Key { tonic: 2, mode: crate::theory::Mode::Aeolian };
        for part in piece.parts.iter().filter(|part| part.instrument != Instrument::Drums) {
            let (low, high) = part.instrument.range();
            let outside: Vec<_> =
                part.notes.iter().filter(|note| !(low..=high).contains(&(note.pitch as i32))).collect();
            assert!(outside.is_empty(), "{prompt}: {:?} {outside:?}", part.instrument);
        }
        let (in_key, total) = melodic_notes(&piece)
            .fold((0, 0), |(in_key, total), note| (in_key + u32::from(key.contains(note.pitch as i32)), total + 1));
        assert!(in_key * 10 > total * 8, "{prompt}: {in_key} of {total} in the key");
    }
}

#[test]
fn a_piece_ends_on_its_tonic() {
    for prompt in PROMPTS {
        let piece = compose(&format!("{prompt} in G major"), Some(30));
        let end = |note: &Note| note.start + note.frames;
        let last = melodic_notes(&piece).map(end).max().unwrap();
        let ringing = melodic_notes(&piece).filter(|note| end(note) + RATE / 2 > last);
        let lowest = ringing.min_by(|a, b| a.pitch.total_cmp(&b.pitch));
        assert_eq!(lowest.unwrap().pitch as i32 % 12, 7, "{prompt}");
    }
}

#[test]
fn words_have_their_intended_effect() {
    let notes = |prompt: &str| compose(prompt, Some(60)).parts.iter().map(|part| part.notes.len()).sum::<usize>();
    assert!(notes("energetic folk") > notes("calm folk"));
    assert!(
        has_instrument(&compose("rock", None), Instrument::Drums)
            && !has_instrument(&compose("rock without drums", None), Instrument::Drums)
    );
    assert!(compose("solo piano", None).parts.iter().all(|part| part.instrument == Instrument::Piano));
    assert!(compose("lofi", None).space.tape_hertz.is_some() && compose("house", None).space.tape_hertz.is_none());
    assert!(compose("house", None).parts.iter().any(|part| part.duck > 0.3));
    assert!(compose("pop fade out", Some(40)).space.fade_frames > compose("pop", Some(40)).space.fade_frames);

    let loop_space = compose("techno loop", Some(20)).space;
    assert!(loop_space.seamless);
    assert_eq!(loop_space.fade_frames, 0);
    assert!(compose("ambient", None).space.reverb_seconds > 2.0 * compose("funk", None).space.reverb_seconds);

    let kicks = compose("techno at 120 bpm, loop", Some(16)).kicks;
    assert!(kicks.windows(2).all(|pair| pair[1] - pair[0] == RATE / 2) && kicks.len() >= 28, "{}", kicks.len());
}

#[test]
fn a_piece_that_builds_up_is_louder_at_its_end() {
    let piece = compose("rock, building up", Some(60));
    let third = piece.frames / 3;
    let loudness = |from: u32| {
        let starts_within = |note: &&Note| (from..from + third).contains(&note.start);
        piece
            .parts
            .iter()
            .flat_map(|part| &part.notes)
            .filter(starts_within)
            .map(|note| f64::from(note.velocity))
            .sum::<f64>()
    };
    assert!(loudness(0) * 1.25 < loudness(2 * third - 1), "{} {}", loudness(0), loudness(2 * third - 1));
}

#[test]
fn drum_fills_precede_new_sections() {
    let piece = compose("rock with drums", Some(60));
    let drums = piece.parts.iter().find(|part| part.instrument == Instrument::Drums).unwrap();
    let count = |drum: Drum| drums.notes.iter().filter(|note| Drum::from_pitch(note.pitch) == drum).count();
    assert!(count(Drum::TomLow) >= 2);
    assert!(count(Drum::Crash) >= 1);
    assert!(count(Drum::Snare) > 20);
}

#[test]
fn titles_do_not_repeat_the_prompt_and_tags_describe_the_piece() {
    for prompt in PROMPTS {
        let piece = compose(prompt, None);
        assert!(!piece.title.is_empty() && !piece.title.eq_ignore_ascii_case(prompt), "{}", piece.title);
        assert!(piece.tags.len() >= 3, "{:?}", piece.tags);
    }
    let piece = compose("a sad song about dragons, 90 bpm in E minor with harp, no drums, 3/4", None);
    assert!(piece.title.contains("Dragons"), "{}", piece.title);
    for tag in ["sad", "90 bpm", "E minor", "3/4", "harp", "no drums"] {
        assert!(piece.tags.iter().any(|other| other == tag), "{tag}: {:?}", piece.tags);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_prompt_yields_a_piece(prompt in "\\PC{0,200}", seconds in proptest::option::of(1_u16..=360)) {
        let piece = compose(&prompt, seconds);
        prop_assert!((1..=360).contains(&(piece.frames / RATE)) && piece.frames.is_multiple_of(RATE));
        prop_assert!((1..=super::title::TITLE_MAX).contains(&piece.title.chars().count()));
        prop_assert!((1..=super::title::TAGS_MAX).contains(&piece.tags.len()));
        prop_assert!(piece.tags.iter().all(|tag| (1..=40).contains(&tag.chars().count())));
        prop_assert!(piece.parts.iter().any(|part| !part.notes.is_empty()));
    }
}
