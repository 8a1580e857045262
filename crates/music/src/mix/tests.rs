//! Tests of the mix before encoding.

use super::limiter::CEILING;
use super::loudness::{Meter, TARGET};
use super::*;
use crate::compose;
use crate::instrument::Instrument;
use crate::piece::{Drum, DrumKit, Note};
use crate::synth::Voice;

fn play(prompt: &str, seconds: u16) -> Stereo {
    let mut output = Stereo::default();
    for hop in Player::new(compose(prompt, Some(seconds))) {
        output.left.extend(hop.left);
        output.right.extend(hop.right);
    }
    output
}

fn lufs(sound: &Stereo) -> f64 {
    let mut meter = Meter::default();
    meter.add(&sound.left, &sound.right);
    meter.integrated().unwrap_or(-99.0)
}

/// Renders one note from beginning to end at the gain of its voice.
fn render_note(instrument: Instrument, kit: DrumKit, note: &Note) -> Vec<f32> {
    let mut voice = Voice::start(instrument, kit, note, 5);
    let mut out = Vec::new();
    loop {
        let mut block = vec![0.0; BLOCK];
        let alive = voice.render(&mut block);
        out.extend(block.iter().map(|sample| sample * voice.gain()));
        if !alive || out.len() > 48_000 * 20 {
            return out;
        }
    }
}

#[test]
fn instruments_are_as_loud_as_each_other() {
    for instrument in Instrument::all().filter(|instrument| *instrument != Instrument::Drums) {
        let low = instrument.range().0.max(36);
        let high = instrument.range().1.min(84);
        let mut meter = Meter::default();
        for index in 0..4 {
            let pitch = low + (high - low) * (2 * index + 1) / 8;
            let note = Note { start: 0, frames: 24_000, pitch: pitch as f32, velocity: 0.75 };
            let mut sound = render_note(instrument, DrumKit::Acoustic, &note);
            sound.resize(24_000, 0.0);
            meter.add(&sound, &sound);
        }
        let loud = meter.integrated().unwrap();
        assert!((loud + 20.0).abs() < 3.0, "{instrument:?} is at {loud:.1} LUFS");
    }
}

#[test]
fn notes_begin_and_end_without_a_click() {
    for instrument in Instrument::all() {
        for (frames, velocity) in [(600, 0.9), (9_000, 0.5)] {
            let pitch = if instrument == Instrument::Drums { Drum::Snare.pitch() } else { 60.0 };
            let pitch = pitch.min(instrument.range().1 as f32);
            let sound = render_note(instrument, DrumKit::Acoustic, &Note { start: 0, frames, pitch, velocity });
            let peak = sound.iter().fold(0.0_f32, |peak, sample| peak.max(sample.abs()));
            let last = sound[sound.len() - 1].abs();
            assert!(peak > 0.001 && peak < 4.0, "{instrument:?}: {peak}");
            assert!(last < 0.003 * peak.max(0.3), "{instrument:?} ends at {last} of {peak}");
            assert!(sound.len() < 48_000 * 20, "{instrument:?} does not end");
        }
    }
}

#[test]
fn a_piece_has_exactly_its_samples_and_no_peak_above_the_ceiling() {
    for (prompt, seconds) in [("rock", 3), ("ambient", 2), ("techno loop", 2), ("a sting", 1)] {
        let sound = play(prompt, seconds);
        assert_eq!(
            (sound.left.len(), sound.right.len()),
            (usize::from(seconds) * 48_000, usize::from(seconds) * 48_000)
        );
        let samples = || sound.left.iter().chain(&sound.right);
        assert!(samples().all(|sample| sample.is_finite() && sample.abs() <= CEILING + 1e-4), "{prompt}");
    }
}

#[test]
fn loudness_meets_the_target_without_silence() {
    for prompt in ["house", "calm solo piano", "epic orchestral"] {
        let sound = play(prompt, 4);
        let loud = lufs(&sound);
        assert!((loud - TARGET).abs() < 2.0, "{prompt}: {loud:.1} LUFS");
        for (index, part) in sound.left[..48_000 * 3].chunks(12_000).enumerate() {
            let power = part.iter().map(|sample| sample * sample).sum::<f32>() / part.len() as f32;
            assert!(power > 1e-7, "{prompt}: silence in quarter {index}");
        }
    }
}

#[test]
fn the_signal_is_continuous_across_hops() {
    let sound = play("warm pads, ambient", 3);
    // A click raises the second difference far above that of the neighbouring samples.
    let bend = |at: usize| (sound.left[at + 1] - 2.0 * sound.left[at] + sound.left[at - 1]).abs();
    let largest_bend = |range: std::ops::Range<usize>| range.map(bend).fold(0.0_f32, f32::max);
    for border in (HOP..sound.left.len()).step_by(HOP) {
        // The limiter delays the output, so hop boundaries appear a little earlier in it.
        for at in [border, border - LATENCY].into_iter().filter(|at| at + 2_001 < sound.left.len()) {
            let around = largest_bend(at - 2_000..at - 4).max(largest_bend(at + 4..at + 2_000));
            assert!(largest_bend(at - 4..at + 4) < 1.5 * around + 1e-4, "at {at}");
        }
    }
    assert!(sound.left[0].abs() < 0.001);
    assert!(sound.left[sound.left.len() - 1].abs() < 0.002);
}

#[test]
fn ducked_parts_are_lowered_by_the_kick_and_return() {
    let kicks = [1_000, 40_000];
    let factor = |at: u32| Ducking::at(&kicks, at - at % BLOCK as u32).factor(at % BLOCK as u32, 0.8);
    assert!((factor(500) - 1.0).abs() < f32::EPSILON);
    assert!(factor(1_300) < 0.35);
    assert!(factor(20_000) > 0.99);
    let steps = (1_u32..60_000).map(|at| (factor(at) - factor(at - 1)).abs());
    assert!(steps.fold(0.0_f32, f32::max) < 0.01);
}
