//! Melody: one-bar motifs that return in sequence, follow the chords, vary and come to rest.

use super::form::{Label, Phrase};
use super::score::{NoteWriter, Score, dynamic};
use crate::instrument::{Instrument, Role};
use crate::piece::Note;
use crate::prompt::lexicon::Metre;
use crate::rng::SeededRng;

/// Rhythm with a contour.
#[derive(Debug, Clone)]
struct Motif {
    tones: Vec<MotifTone>,
}

/// Tone of a motif.
#[derive(Debug, Clone, Copy)]
struct MotifTone {
    /// Start within the bar in steps.
    at: u32,
    /// Length in steps.
    steps: u32,
    /// Offset in scale degrees.
    degree: i32,
}

/// Writes the melody.
#[must_use]
pub fn write(score: &Score, instrument: Instrument) -> Vec<Note> {
    let mut writer = score.note_writer("lead");
    let (low, high) = register(instrument);
    let mut composer =
        MelodyComposer { score, low, high, last: i32::midpoint(low, high), doubles: can_play_thirds(instrument) };

    for phrase in score.phrases_of(Role::Lead) {
        composer.write_phrase(&mut writer, phrase);
    }

    if let Some(span) = score.last_chord() {
        let tonic = span.chord.nearest(composer.last);
        let root = [tonic, tonic - 12, tonic + 12].into_iter().find(|pitch| (low..=high).contains(pitch));
        writer.last_note(root.unwrap_or(tonic), 0.72, 0.0);
    }
    writer.finish()
}

/// Returns the lowest and the highest pitch of a melody: about an octave and a half around the instrument's middle.
fn register(instrument: Instrument) -> (i32, i32) {
    let (low, high) = instrument.range();
    let middle = (i32::midpoint(low, high) + 2).clamp(64, 79);
    ((middle - 9).max(low), (middle + 10).min(high))
}

/// Returns `true` if the instrument can play thirds.
fn can_play_thirds(instrument: Instrument) -> bool {
    instrument.roles().iter().any(|role| matches!(role, Role::Comp | Role::Pad))
}

/// Composer of a melody, with the pitch reached so far.
struct MelodyComposer<'a> {
    score: &'a Score,
    /// Lowest and highest pitch.
    low: i32,
    high: i32,
    /// Last pitch of the melody.
    last: i32,
    /// `true` if strong tones of a loud chorus get a lower voice.
    doubles: bool,
}

impl MelodyComposer<'_> {
    /// Writes one motif for each bar of a phrase.
    fn write_phrase(&mut self, writer: &mut NoteWriter, phrase: &Phrase) {
        let metre = self.score.clock().metre;
        let motifs = self.motifs(phrase.label);
        let mut rng = self.score.rng.fork(&format!("phrase {}", phrase.start));

        let bars = phrase.steps.div_ceil(metre.bar);
        // Offset of the second bar in scale degrees, which forms a sequence.
        let sequence = rng.pick(&[0, 1, -1, 2]);

        for bar in 0..bars {
            let start = phrase.start + bar * metre.bar;
            let length = metre.bar.min(phrase.end() - start);
            let is_last_bar = bar + 1 == bars;

            let mut motif = motifs[usize::from(bar % 4 == 2)].clone();

            if phrase.occurrence > 0 || bar % 4 == 2 {
                motif.vary(&mut rng, metre);
            }

            if phrase.label == Label::Bridge {
                motif.tones.iter_mut().for_each(|tone| tone.degree = -tone.degree);
            }

            if is_last_bar {
                motif.leave_rest(metre, length);
            }

            motif.tones.retain(|tone| tone.at < length);
            let shift = if bar % 4 == 1 { sequence } else { 0 };
            self.write_motif(writer, phrase, &motif, start, shift, is_last_bar);
        }
    }

    /// Returns the motifs of a label, the same each time the label returns.
    fn motifs(&self, label: Label) -> [Motif; 2] {
        let feeling = self.score.plan.feeling;
        let busy = match label {
            Label::Chorus => 0.15,
            Label::Intro | Label::Bridge | Label::Outro => -0.2,
            Label::Verse => 0.0,
        };
        // A fast tempo has fewer notes per beat.
        let pace_bonus = ((self.score.clock().step_seconds() - 0.12) * 2.5).clamp(-0.25, 0.2);
        let density = (0.42 + 0.28 * feeling.energy + busy + pace_bonus).clamp(0.05, 0.95);
        let mut rng = self.score.rng.fork(&format!("motif {label:?}"));
        [(); 2].map(|()| Motif::draw(&mut rng, self.score.clock().metre, density))
    }

    /// Writes a motif from step `start` on, moved by `shift` scale degrees.
    fn write_motif(
        &mut self,
        writer: &mut NoteWriter,
        phrase: &Phrase,
        motif: &Motif,
        start: u32,
        shift: i32,
        is_last_bar: bool,
    ) {
        let key = self.score.plan.key;
        let metre = self.score.clock().metre;
        let lift = if phrase.label == Label::Chorus { 3 } else { 0 };
        let centre = i32::midpoint(self.low, self.high) + lift;
        // Starts on a chord tone between the previous pitch and the middle of the register.
        let anchor = self.score.span_at(start).chord.nearest((self.last + 2 * centre) / 3);
        let degree = key.degree(anchor) + shift;

        let count = motif.tones.len();
        for (index, MotifTone { at, steps, degree: offset }) in motif.tones.iter().enumerate() {
            let chord = &self.score.span_at(start + at).chord;
            let is_strong = at % metre.beat == 0 || *steps >= metre.beat;
            let mut pitch = chord.adjust(key, key.pitch(degree + offset));

            if is_strong && !chord.contains(pitch) {
                pitch = chord.nearest(pitch);
            }

            if is_last_bar && index + 1 == count {
                pitch = self.rest_tone(phrase, start + at, pitch);
            }
            pitch = self.reachable(pitch);

            let accent = if at % metre.bar == 0 {
                1.0
            } else if is_strong {
                0.92
            } else {
                0.82
            };

            let velocity = dynamic(0.86, phrase.intensity) * accent;
            let position = f64::from(start + at);
            writer.note(position, f64::from(*steps) * 0.96, pitch, velocity);

            if self.doubles && phrase.label == Label::Chorus && phrase.intensity > 0.8 && is_strong {
                let below = (3..=9).map(|down| pitch - down).find(|pitch| chord.contains(*pitch));
                if let Some(below) = below {
                    writer.note(position, f64::from(*steps) * 0.9, below, velocity * 0.62);
                }
            }

            self.last = pitch;
        }
    }

    /// Returns the last pitch of a phrase: the root if the section closes, otherwise the nearest chord tone.
    fn rest_tone(&self, phrase: &Phrase, step: u32, near: i32) -> i32 {
        let chord = &self.score.span_at(step).chord;
        let nearest = chord.nearest(near);
        if !phrase.closes {
            return nearest;
        }
        let root = (-6..=6).map(|away| near + away).find(|pitch| (pitch - chord.root).rem_euclid(12) == 0);
        root.unwrap_or(nearest)
    }

    /// Returns the pitch moved by octaves into the register and, where the register allows, to within nine semitones of
    /// the previous one.
    fn reachable(&self, mut pitch: i32) -> i32 {
        while pitch - self.last > 9 || pitch > self.high {
            pitch -= 12;
        }
        while self.last - pitch > 9 && pitch + 12 <= self.high || pitch < self.low {
            pitch += 12;
        }
        pitch
    }
}

/// Rhythm of one to three beats.
struct RhythmCell {
    /// Lengths in steps; negative lengths are rests.
    steps: &'static [i32],
    /// Weight in calm music.
    calm: f32,
    /// Weight in busy music.
    busy: f32,
}

const fn cell(steps: &'static [i32], calm: f32, busy: f32) -> RhythmCell {
    RhythmCell { steps, calm, busy }
}

/// Rhythms for beats of four steps.
const CELLS: &[RhythmCell] = &[
    cell(&[4], 1.0, 0.5),
    cell(&[8], 1.1, 0.1),
    cell(&[2, 2], 0.5, 1.0),
    cell(&[6, 2], 0.8, 0.4),
    cell(&[3, 1], 0.2, 0.4),
    cell(&[1, 1, 2], 0.0, 0.5),
    cell(&[2, 1, 1], 0.0, 0.5),
    cell(&[-2, 2], 0.2, 0.4),
    cell(&[3, 3, 2], 0.1, 0.8),
    cell(&[2, 4, 2], 0.1, 0.5),
    cell(&[-4], 0.3, 0.1),
];
/// Rhythms for beats of six steps.
const SWAYING: &[RhythmCell] = &[
    cell(&[6], 1.0, 0.5),
    cell(&[12], 0.8, 0.1),
    cell(&[4, 2], 1.0, 1.0),
    cell(&[2, 2, 2], 0.2, 1.0),
    cell(&[3, 1, 2], 0.2, 0.5),
    cell(&[-4, 2], 0.2, 0.2),
];
/// Rhythms for beats of two steps.
const SHORT: &[RhythmCell] =
    &[cell(&[2], 1.0, 1.0), cell(&[4], 1.0, 0.5), cell(&[1, 1], 0.0, 0.5), cell(&[6], 0.5, 0.1)];

impl Motif {
    /// Draws a motif of one bar; `density` is 0 for calm and 1 for busy music.
    fn draw(rng: &mut SeededRng, metre: Metre, density: f32) -> Self {
        let cells = match metre.beat {
            6 => SWAYING,
            2 => SHORT,
            _ => CELLS,
        };

        let mut tones = Vec::new();
        let mut at = 0;
        let mut degree = 0;
        let mut leapt = 0;

        while at < metre.bar {
            let remaining = (metre.bar - at) as i32;
            let weight = |cell: &RhythmCell| {
                let is_too_long = cell.steps.iter().map(|steps| steps.abs()).sum::<i32>() > remaining;
                let begins_with_rest = at == 0 && cell.steps[0] < 0;
                if is_too_long || begins_with_rest { 0.0 } else { cell.calm * (1.0 - density) + cell.busy * density }
            };
            let weights: Vec<f32> = cells.iter().map(weight).collect();
            let cell = &cells[rng.weighted(&weights)];

            for steps in cell.steps {
                if *steps > 0 {
                    tones.push(MotifTone { at, steps: steps.unsigned_abs(), degree });
                    (degree, leapt) = next_degree(rng, degree, leapt);
                }
                at += steps.unsigned_abs();
            }
        }
        Self { tones }
    }

    /// Splits some long tones and turns some tones of the second half; the motif stays recognizable.
    fn vary(&mut self, rng: &mut SeededRng, metre: Metre) {
        let mut varied = Vec::new();
        for &MotifTone { at, steps, degree } in &self.tones {
            if steps >= 4 && steps % 2 == 0 && rng.odds(0.3) {
                let neighbour_degree = degree + rng.pick(&[1, -1]);
                varied.push(MotifTone { at, steps: steps / 2, degree });
                varied.push(MotifTone { at: at + steps / 2, steps: steps / 2, degree: neighbour_degree });
            } else {
                let is_turned = at * 2 >= metre.bar && rng.odds(0.3);
                let degree = if is_turned { degree + rng.pick(&[1, -1, 2]) } else { degree };
                varied.push(MotifTone { at, steps, degree });
            }
        }
        self.tones = varied;
    }

    /// Shortens the motif to a few tones, a long one and a rest, within a bar of `length` steps.
    fn leave_rest(&mut self, metre: Metre, length: u32) {
        let from = if metre.bar >= 16 { metre.bar / 2 } else { metre.beat.max(4) }.min(length.saturating_sub(2));
        self.tones.retain(|tone| tone.at < from);
        if let Some(tone) = self.tones.last_mut() {
            tone.steps = tone.steps.min(from - tone.at);
        }
        let degree = self.tones.last().map_or(0, |tone| tone.degree.signum());
        let tone_steps = (length - from).saturating_sub(metre.beat.min(4) / 2).max(1);
        self.tones.push(MotifTone { at: from, steps: tone_steps, degree });
    }
}

/// Returns the next scale degree and the motion to it: mostly steps, and a step back after a leap. `leapt` is the
/// previous motion.
fn next_degree(rng: &mut SeededRng, degree: i32, leapt: i32) -> (i32, i32) {
    let interval = if leapt.abs() >= 2 && rng.odds(0.8) {
        -leapt.signum()
    } else {
        [1, -1, 0, 2, -2, 3, -3, 4][rng.weighted(&[3.0, 3.0, 0.9, 1.3, 1.2, 0.5, 0.4, 0.25])]
    };
    // Stays within five degrees of the start.
    let interval = if (degree + interval).abs() > 5 { -interval } else { interval };
    (degree + interval, interval)
}
