//! Chord parts: struck, sustained and broken chords.

use super::harmony::Span;
use super::score::{NoteWriter, Score, dynamic};
use crate::instrument::{Instrument, Role};
use crate::piece::Note;
use crate::style::Comping;

/// Milliseconds between the strings of a strum.
const STRUM_MS: f32 = 14.0;

/// Writes sustained chords.
#[must_use]
pub fn write_pad(score: &Score, instrument: Instrument) -> Vec<Note> {
    let mut writer = score.note_writer("pad");
    for phrase in score.phrases_of(Role::Pad) {
        for span in score.spans_in(phrase) {
            for pitch in voices(span, instrument, 0) {
                writer.note(f64::from(span.start), f64::from(span.steps) * 1.01, pitch, dynamic(0.7, phrase.intensity));
            }
        }
    }

    if let Some(span) = score.last_chord() {
        for pitch in voices(span, instrument, 0) {
            writer.last_note(pitch, 0.6, 0.0);
        }
    }
    writer.finish()
}

/// Writes struck chords.
#[must_use]
pub fn write_comp(score: &Score, instrument: Instrument) -> Vec<Note> {
    let mut writer = score.note_writer("comp");
    for phrase in score.phrases_of(Role::Comp) {
        let style_comping = score.plan.style.comping;
        let comping = match style_comping {
            Comping::Beats | Comping::Strummed | Comping::Pulse | Comping::Chug if phrase.intensity < 0.42 => {
                Comping::Held
            }
            Comping::Beats if score.plan.feeling.energy < -0.15 => Comping::Broken,
            other => other,
        };

        for span in score.spans_in(phrase) {
            ChordPlayer { score, span, voices: struck(span, instrument, comping) }.play(
                &mut writer,
                comping,
                dynamic(0.72, phrase.intensity),
            );
        }
    }

    if let Some(span) = score.last_chord() {
        let strum = if score.plan.style.comping == Comping::Strummed { 30.0 } else { 12.0 };
        for (index, pitch) in (0_u8..).zip(voices(span, instrument, 0)) {
            writer.last_note(pitch, 0.62, f32::from(index) * strum);
        }
    }
    writer.finish()
}

/// Returns the voices of a struck chord. Power chords are root, fifth and octave.
fn struck(span: &Span, instrument: Instrument, comping: Comping) -> Vec<i32> {
    if comping == Comping::Chug && instrument == Instrument::DistortedGuitar {
        let root = crate::theory::at_or_above(span.chord.root, instrument.range().0);
        return vec![root, root + 7, root + 12];
    }
    voices(span, instrument, 0)
}

/// Returns the voices of a chord, moved by `shift` semitones and then by octaves into the range of the instrument.
fn voices(span: &Span, instrument: Instrument, shift: i32) -> Vec<i32> {
    let (low, high) = instrument.range();
    let lowest = span.voices.first().copied().unwrap_or(60) + shift;
    let highest = span.voices.last().copied().unwrap_or(60) + shift;
    let octaves_up = if lowest < low { (low - lowest + 11).div_euclid(12) * 12 } else { 0 };
    let octaves_down = if highest > high { (highest - high + 11).div_euclid(12) * 12 } else { 0 };

    let transposed = span.voices.iter().map(|pitch| pitch + shift + octaves_up - octaves_down);
    transposed.filter(|pitch| (low..=high).contains(pitch)).collect()
}

/// Player of one chord.
struct ChordPlayer<'a> {
    score: &'a Score,
    span: &'a Span,
    /// Pitches to strike.
    voices: Vec<i32>,
}

impl ChordPlayer<'_> {
    /// Writes the notes of the chord in the rhythm of `comping`.
    fn play(&self, writer: &mut NoteWriter, comping: Comping, velocity: f32) {
        let steps = self.span.steps;
        let beat = self.score.clock().metre.beat;
        let weight = |at: u32| if at.is_multiple_of(self.score.clock().metre.bar) { 1.0 } else { 0.85 };

        match comping {
            Comping::Held => self.strike(writer, 0, f64::from(steps) * 0.97, velocity, 6.0),
            Comping::Beats => {
                for at in (0..steps).step_by(beat as usize) {
                    self.strike(writer, at, f64::from(beat) * 0.9, velocity * weight(self.span.start + at), 4.0);
                }
            }
            Comping::OffBeats => {
                for at in (beat / 2..steps).step_by(beat as usize) {
                    self.strike(writer, at, 1.3, velocity, 2.0);
                }
            }
            Comping::Charleston => self.repeat_strokes(writer, &[(0, 3.4), (6, 1.6), (11, 2.2)], velocity),
            Comping::Tresillo => {
                self.repeat_strokes(writer, &[(0, 2.2), (3, 1.4), (6, 2.4), (10, 1.4), (12, 2.6)], velocity);
            }
            Comping::Pulse => {
                for at in (0..steps).step_by(2) {
                    let accent = if at % beat == 0 { 1.0 } else { 0.78 };
                    self.strike(writer, at, 1.5, velocity * accent, 0.0);
                }
            }
            Comping::Chug => {
                for at in (0..steps).step_by(2) {
                    let accent = if at % (2 * beat) == 0 { 1.0 } else { 0.8 };
                    let length = if at + 2 >= steps { 1.9 } else { 1.5 };
                    self.strike(writer, at, length, velocity * accent, 3.0);
                }
            }
            Comping::Broken => self.play_broken(writer, velocity),
            Comping::Strummed => self.strum(writer, velocity),
        }
    }

    /// Strikes all voices at a step of the chord, for `steps`, each `spread_ms` later than the voice below.
    fn strike(&self, writer: &mut NoteWriter, at: u32, steps: f64, velocity: f32, spread_ms: f32) {
        for (index, pitch) in (0_u8..).zip(&self.voices) {
            let start = f64::from(self.span.start + at);
            writer.late_note(start, steps, *pitch, velocity, f32::from(index) * spread_ms);
        }
    }

    /// Repeats strokes every sixteen steps until the chord ends. A stroke is a step of the bar and a length in steps.
    fn repeat_strokes(&self, writer: &mut NoteWriter, strokes: &[(u32, f64)], velocity: f32) {
        for bar in (0..self.span.steps).step_by(16) {
            for (at, steps) in strokes.iter().filter(|(at, _)| bar + at < self.span.steps) {
                self.strike(writer, bar + at, *steps, velocity, 4.0);
            }
        }
    }

    /// Plays an Alberti bass: low, high, middle, high. Metres of twelve steps run up and down instead.
    fn play_broken(&self, writer: &mut NoteWriter, velocity: f32) {
        let metre = self.score.clock().metre;
        let order: &[usize] = if metre.beat == 6 || metre.bar == 12 { &[0, 1, 2, 3, 2, 1] } else { &[0, 2, 1, 2] };
        for (index, at) in (0..self.span.steps).step_by(2).enumerate() {
            let voice_index = order[index % order.len()];
            let Some(pitch) = self.voices.get(voice_index.min(self.voices.len().saturating_sub(1))) else { continue };
            let accent = if index % order.len() == 0 { 1.0 } else { 0.8 };
            // Each tone is held while the next ones join it.
            let steps = f64::from((self.span.steps - at).min(6));
            writer.note(f64::from(self.span.start + at), steps, *pitch, velocity * accent);
        }
    }

    /// Strums down on the beats and up between them.
    fn strum(&self, writer: &mut NoteWriter, velocity: f32) {
        let metre = self.score.clock().metre;
        let strokes: &[u32] = if metre.bar == 12 { &[0, 4, 6, 8, 10] } else { &[0, 4, 6, 10, 12, 14] };

        for bar in (0..self.span.steps).step_by(metre.bar.min(16) as usize) {
            for at in strokes.iter().map(|at| bar + at).filter(|at| *at < self.span.steps) {
                let is_downstroke = at % 4 == 0;
                let last = self.voices.len().saturating_sub(1);
                for (index, pitch) in self.voices.iter().enumerate() {
                    let order = if is_downstroke { index } else { last - index };
                    let accent = if is_downstroke { 1.0 } else { 0.72 };
                    let start = f64::from(self.span.start + at);
                    writer.late_note(start, 3.2, *pitch, velocity * accent, order as f32 * STRUM_MS);
                }
            }
        }
    }
}

/// Orders of the tones in a broken chord.
const ORDERS: &[&[usize]] = &[
    &[0, 1, 2, 3, 4, 3, 2, 1],
    &[0, 1, 2, 3, 4, 5, 3, 4],
    &[0, 2, 1, 3, 2, 4, 3, 5],
    &[5, 4, 3, 2, 1, 0, 1, 2],
    &[0, 3, 1, 4, 2, 5, 2, 3],
];

/// Writes broken chords.
#[must_use]
pub fn write_arpeggio(score: &Score, instrument: Instrument) -> Vec<Note> {
    let mut writer = score.note_writer("arpeggio");
    let mut rng = score.rng.fork("arpeggio order");
    let order = rng.pick(ORDERS);
    // Sixteenths if the tempo leaves time for them and the mood is not quiet, otherwise eighths.
    let gap = if score.clock().step_seconds() > 0.105 && score.plan.feeling.energy > -0.5 { 1 } else { 2 };

    for phrase in score.phrases_of(Role::Arpeggio) {
        for span in score.spans_in(phrase) {
            let tones = ladder(span, instrument);
            for (index, at) in (0..span.steps).step_by(gap as usize).enumerate() {
                let Some(pitch) = tones.get(order[index % order.len()] % tones.len().max(1)) else { continue };
                let accent = if at % score.clock().metre.beat == 0 { 1.0 } else { 0.78 };
                let velocity = dynamic(0.66, phrase.intensity) * accent;
                writer.note(f64::from(span.start + at), f64::from(gap) * 1.4, *pitch, velocity);
            }
        }
    }

    if let Some(span) = score.last_chord() {
        for (index, pitch) in (0_u8..).zip(ladder(span, instrument)) {
            writer.last_note(pitch, 0.5, f32::from(index) * 70.0);
        }
    }
    writer.finish()
}

/// Returns the tones of a chord over two octaves.
fn ladder(span: &Span, instrument: Instrument) -> Vec<i32> {
    let mut tones = [voices(span, instrument, 0), voices(span, instrument, 12)].concat();
    tones.sort_unstable();
    tones.dedup();
    tones
}
