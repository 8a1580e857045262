//! Bass part.

use super::harmony::Span;
use super::score::{NoteWriter, Score, dynamic};
use crate::instrument::{Instrument, Role};
use crate::piece::Note;
use crate::style::BassLine;
use crate::theory::at_or_above;

/// Writes the bass part.
#[must_use]
pub fn write(score: &Score, instrument: Instrument) -> Vec<Note> {
    let mut writer = score.note_writer("bass");
    let floor = instrument.range().0.max(28);
    let ceiling = instrument.range().1;

    for phrase in score.phrases_of(Role::Bass) {
        let line = if phrase.intensity < 0.45 { BassLine::Held } else { score.plan.style.bass };
        for span in score.spans_in(phrase) {
            let player = BassPlayer { score, span, line, root: at_or_above(span.chord.root, floor), floor, ceiling };
            player.write(&mut writer, dynamic(0.85, phrase.intensity));
        }
    }

    if let Some(span) = score.last_chord() {
        writer.last_note(at_or_above(span.chord.root, floor), 0.8, 0.0);
    }
    writer.finish()
}

/// Bass line over one chord.
struct BassPlayer<'a> {
    score: &'a Score,
    span: &'a Span,
    line: BassLine,
    /// Pitch of the root.
    root: i32,
    /// Lowest pitch of the part.
    floor: i32,
    /// Highest pitch of the instrument.
    ceiling: i32,
}

/// First step, tone and length in steps of a stroke in a pattern.
type Stroke = (u32, Tone, f64);

/// Tone relative to the chord.
#[derive(Clone, Copy)]
enum Tone {
    Root,
    Fifth,
    Octave,
}

/// Pattern of [`BassLine::Funky`].
const FUNKY: &[Stroke] = &[
    (0, Tone::Root, 1.6),
    (3, Tone::Octave, 0.8),
    (6, Tone::Root, 0.9),
    (7, Tone::Octave, 0.7),
    (10, Tone::Root, 1.5),
    (13, Tone::Fifth, 0.9),
    (14, Tone::Octave, 1.2),
];
/// Pattern of [`BassLine::Sparse`].
const SPARSE: &[Stroke] = &[(0, Tone::Root, 6.0), (7, Tone::Root, 1.6), (10, Tone::Root, 4.0), (14, Tone::Fifth, 1.8)];

impl BassPlayer<'_> {
    /// Writes the notes of the chord in the rhythm of the bass line.
    fn write(&self, writer: &mut NoteWriter, velocity: f32) {
        let beat = self.score.clock().metre.beat;
        match self.line {
            BassLine::Held => self.write_stroke(writer, 0, f64::from(self.span.steps) * 0.97, self.root, velocity),
            BassLine::RootFifth => {
                let half = if self.span.steps.is_multiple_of(2 * beat) { self.span.steps / 2 } else { self.span.steps };
                let half = half.min(half_bar_steps(self.score));
                for (index, at) in (0..self.span.steps).step_by(half.max(1) as usize).enumerate() {
                    let pitch = if index % 2 == 0 { self.root } else { self.fifth() };
                    self.write_stroke(writer, at, f64::from(half) * 0.85, pitch, velocity);
                }
            }
            BassLine::Eighths => self.write_every(writer, 2, 0, |_| Tone::Root, velocity),
            BassLine::OffBeats => self.write_every(writer, beat, beat / 2, |_| Tone::Root, velocity),
            BassLine::Octaves => {
                let tone_at = |index| if index % 2 == 0 { Tone::Root } else { Tone::Octave };
                self.write_every(writer, 2, 0, tone_at, velocity);
            }
            BassLine::Walking => self.walk(writer, beat, velocity),
            BassLine::Funky => self.write_pattern(writer, FUNKY, velocity),
            BassLine::Sparse => self.write_pattern(writer, SPARSE, velocity),
            BassLine::Tresillo => {
                let strokes =
                    [(0, Tone::Root, 2.6), (6, Tone::Root, 1.6), (8, Tone::Fifth, 3.0), (14, Tone::Root, 1.7)];
                self.write_pattern(writer, &strokes, velocity);
            }
        }
    }

    /// Returns the pitch of a tone.
    fn pitch(&self, tone: Tone) -> i32 {
        match tone {
            Tone::Root => self.root,
            Tone::Fifth => self.fifth(),
            Tone::Octave => self.root + 12,
        }
    }

    /// Returns the fifth below the root unless it is too low, otherwise the one above.
    fn fifth(&self) -> i32 {
        let above = at_or_above(self.span.chord.fifth(), self.root);
        if above - 12 >= self.floor { above - 12 } else { above }
    }

    /// Writes a note, an octave lower if it is above the ceiling.
    fn write_stroke(&self, writer: &mut NoteWriter, at: u32, steps: f64, pitch: i32, velocity: f32) {
        let pitch = if pitch > self.ceiling { pitch - 12 } else { pitch };
        writer.note(f64::from(self.span.start + at), steps, pitch, velocity);
    }

    /// Writes a note every `gap` steps from the step `first` on; `tone` returns the tone of each note by its index.
    fn write_every(&self, writer: &mut NoteWriter, gap: u32, first: u32, tone: impl Fn(u32) -> Tone, velocity: f32) {
        for (index, at) in (0..).zip((first..self.span.steps).step_by(gap as usize)) {
            let accent = if at % self.score.clock().metre.beat == 0 { 1.0 } else { 0.86 };
            self.write_stroke(writer, at, f64::from(gap.min(4)) * 0.82, self.pitch(tone(index)), velocity * accent);
        }
    }

    /// Writes a pattern of sixteen steps repeatedly, as far as the chord lasts.
    fn write_pattern(&self, writer: &mut NoteWriter, strokes: &[Stroke], velocity: f32) {
        for bar in (0..self.span.steps).step_by(16) {
            for (at, tone, steps) in strokes.iter().filter(|(at, ..)| bar + at < self.span.steps) {
                let left = f64::from(self.span.steps - bar - at);
                self.write_stroke(writer, bar + at, steps.min(left), self.pitch(*tone), velocity);
            }
        }
    }

    /// Plays one note per beat: the root, chord tones, and finally a neighbour of the next root.
    fn walk(&self, writer: &mut NoteWriter, beat: u32, velocity: f32) {
        let beats = self.span.steps / beat;
        let next = at_or_above(self.score.span_after(self.span.start).chord.root, self.floor);

        for index in 0..beats {
            let tones = &self.span.chord.tones;
            let pitch = match index {
                0 => self.root,
                _ if index + 1 == beats => {
                    let below = self.score.plan.key.contains(next - 1) || next > self.root;
                    if below { next - 1 } else { next + 1 }
                }
                _ => self.root + tones[index as usize % tones.len().min(4)],
            };
            self.write_stroke(writer, index * beat, f64::from(beat) * 0.92, pitch, velocity);
        }

        if beats == 0 {
            self.write_stroke(writer, 0, f64::from(self.span.steps) * 0.9, self.root, velocity);
        }
    }
}

/// Returns the steps between root and fifth: half of an even bar, all of an odd one.
fn half_bar_steps(score: &Score) -> u32 {
    let metre = score.clock().metre;
    if metre.bar.is_multiple_of(2 * metre.beat) { metre.bar / 2 } else { metre.bar }
}
