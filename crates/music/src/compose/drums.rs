//! Drum part.

use super::form::Phrase;
use super::score::{NoteWriter, Score, dynamic};
use crate::instrument::Role;
use crate::piece::{Drum, Note};
use crate::style::groove::{self, Groove};

/// Writes the drum part. The ducking reads the kicks from its notes.
#[must_use]
pub fn write(score: &Score) -> Vec<Note> {
    let mut writer = score.note_writer("drums");
    let groove = score.plan.style.groove.unwrap_or(&groove::FOLK);
    // A piece too short for a phrase has only the final stroke.
    let mut played = score.phrases.is_empty();

    for phrase in score.phrases_of(Role::Drums) {
        let pattern = DrumPattern { score, groove, phrase, full: phrase.intensity >= 0.55 || score.is_permanent };
        pattern.write(&mut writer);
        played = phrase.last;
    }

    if played && score.last_chord().is_some() {
        writer.last_note(Drum::Kick.pitch() as i32, 0.85, 0.0);
        writer.last_note(groove::MARK.pitch() as i32, 0.6, 0.0);
    }
    writer.finish()
}

/// Number of steps of the longest fill.
const FILL_STEPS: u32 = 8;

/// Drum pattern of one phrase.
struct DrumPattern<'a> {
    score: &'a Score,
    groove: &'a Groove,
    phrase: &'a Phrase,
    /// `true` if all drums play; otherwise only the pulse of the groove.
    full: bool,
}

impl DrumPattern<'_> {
    /// Writes the strokes of the phrase.
    fn write(&self, writer: &mut NoteWriter) {
        let bar = self.score.clock().metre.bar;
        let mut rng = self.score.rng.fork(&format!("bar {}", self.phrase.start));

        // A full phrase fills the end of a section. A phrase that ends the piece without a last chord has no fill.
        let fills = self.full && !(self.phrase.last && self.score.last_chord().is_none()) && self.phrase.steps >= bar;

        for at in 0..self.phrase.steps {
            let remaining = self.phrase.steps - at;
            let is_filling = fills && remaining <= FILL_STEPS && self.phrase.closes;

            for (drum, letters) in self.groove.pattern(bar) {
                let in_bar = (at % bar) as usize;
                let velocity = groove::velocity(letters.as_bytes()[in_bar % letters.len()]);
                let plays = self.full || self.groove.pulse.contains(drum);
                let gives_way = is_filling && matches!(drum, Drum::Snare | Drum::HatOpen | Drum::Clap);

                if velocity == 0.0 || !plays || gives_way {
                    continue;
                }

                // Soft strokes are left out at random so that bars differ slightly.
                if velocity < 0.5 && rng.odds(0.22) {
                    continue;
                }

                self.strike(writer, at, *drum, velocity);
            }

            // A rare rim stroke as an ornament.
            if self.full && self.groove.pulse.contains(&Drum::HatClosed) && rng.odds(0.015) {
                self.strike(writer, at, Drum::Rim, 0.35);
            }
        }

        if fills && self.phrase.closes {
            for (before, drum, velocity) in groove::fill(self.groove.fill) {
                self.strike(writer, self.phrase.steps - before, *drum, *velocity);
            }
        }

        if self.phrase.opens && self.full && self.phrase.start > 0 {
            self.strike(writer, 0, groove::MARK, 0.7);
        }
    }

    /// Writes a stroke at a step of the phrase.
    fn strike(&self, writer: &mut NoteWriter, at: u32, drum: Drum, velocity: f32) {
        let velocity = dynamic(velocity, self.phrase.intensity);
        writer.note(f64::from(self.phrase.start + at), 1.0, drum.pitch() as i32, velocity);
    }
}
