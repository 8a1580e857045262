//! State shared by all parts during composition, and the writer that places notes in time.

use super::clock::{Clock, PieceEnding};
use super::form::Phrase;
use super::harmony::Span;
use super::plan::PiecePlan;
use crate::instrument::Role;
use crate::piece::{Note, RATE};
use crate::rng::SeededRng;

/// Input shared by all parts.
#[derive(Debug, Clone)]
pub struct Score {
    /// Decisions for the whole piece.
    pub plan: PiecePlan,
    /// Phrases of the form.
    pub phrases: Vec<Phrase>,
    /// Chords in order; the last one rings out.
    pub spans: Vec<Span>,
    /// Random numbers for the parts.
    pub rng: SeededRng,
    /// `true` if the intensity grows over the whole piece.
    pub builds: bool,
    /// `true` if all roles play in every phrase because there are few of them.
    pub is_permanent: bool,
    /// Role that plays in phrases without any other.
    pub fallback_role: Role,
    /// Roles of the ensemble.
    pub roles: Vec<Role>,
}

impl Score {
    /// Returns the timing.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.plan.clock
    }

    /// Returns `true` if a role plays in a phrase.
    #[must_use]
    pub fn plays(&self, role: Role, phrase: &Phrase) -> bool {
        let is_unplayed = || !self.roles.iter().any(|role| phrase.has(*role, self.builds));
        self.is_permanent || phrase.has(role, self.builds) || (role == self.fallback_role && is_unplayed())
    }

    /// Returns the phrases in which a role plays.
    pub fn phrases_of(&self, role: Role) -> impl Iterator<Item = &Phrase> {
        self.phrases.iter().filter(move |phrase| self.plays(role, phrase))
    }

    /// Returns the chord at a step.
    #[must_use]
    pub fn span_at(&self, step: u32) -> &Span {
        let behind = self.spans.partition_point(|span| span.start <= step);
        &self.spans[behind.saturating_sub(1)]
    }

    /// Returns the chord that follows the chord at a step, or the last chord.
    #[must_use]
    pub fn span_after(&self, step: u32) -> &Span {
        let behind = self.spans.partition_point(|span| span.start <= step);
        &self.spans[behind.min(self.spans.len() - 1)]
    }

    /// Returns the chords that start within a phrase.
    pub fn spans_in(&self, phrase: &Phrase) -> impl Iterator<Item = &Span> {
        let start = phrase.start;
        let end = phrase.end();
        self.spans.iter().filter(move |span| span.steps > 0 && (start..end).contains(&span.start))
    }

    /// Returns the chord that rings out, if the piece ends with one.
    #[must_use]
    pub fn last_chord(&self) -> Option<&Span> {
        self.spans.last().filter(|_| matches!(self.clock().ending, PieceEnding::Chord { .. }))
    }

    /// Creates the writer of the notes of one part.
    #[must_use]
    pub fn note_writer(&self, part: &str) -> NoteWriter {
        let jitter_max = self.plan.style.human_ms / 1000.0 * RATE as f32;
        NoteWriter { clock: *self.clock(), rng: self.rng.fork(part), jitter_max, notes: Vec::new() }
    }
}

/// Writer of notes. It varies timing and velocity slightly to imitate a human player.
#[derive(Debug)]
pub struct NoteWriter {
    clock: Clock,
    rng: SeededRng,
    /// Maximum random deviation of a start in samples.
    jitter_max: f32,
    notes: Vec<Note>,
}

/// Minimum length of a note in samples; no note starts closer to the end.
const SHORTEST: u32 = 400;

impl NoteWriter {
    /// Writes a note that starts at a step and lasts `steps`. A note that would start after the end is dropped.
    pub fn note(&mut self, start: f64, steps: f64, pitch: i32, velocity: f32) {
        self.late_note(start, steps, pitch, velocity, 0.0);
    }

    /// Writes a note with a delay in milliseconds, as in a strum.
    pub fn late_note(&mut self, start: f64, steps: f64, pitch: i32, velocity: f32, late_ms: f32) {
        let jitter = self.rng.between(-1.0, 1.0) * self.jitter_max + late_ms / 1000.0 * RATE as f32;
        let played = (velocity * (1.0 + 0.04 * self.rng.between(-1.0, 1.0))).clamp(0.05, 1.0);
        let start_frame = self.clock.frame_at(start).saturating_add_signed(jitter as i32);
        let end_frame = self.clock.frame_at(start + steps);
        if start_frame + SHORTEST > self.clock.frames {
            return;
        }
        let frames = end_frame.saturating_sub(start_frame).max(SHORTEST);
        self.notes.push(Note { start: start_frame, frames, pitch: pitch as f32, velocity: played });
    }

    /// Writes a note of the last chord, held to the end.
    pub fn last_note(&mut self, pitch: i32, velocity: f32, late_ms: f32) {
        let start = f64::from(self.clock.steps);
        let ring = self.clock.frames.saturating_sub(self.clock.frame_at(start));
        let steps = f64::from(ring) / f64::from(RATE) / f64::from(self.clock.step_seconds());
        self.late_note(start, steps * 0.8, pitch, velocity, late_ms);
    }

    /// Returns the notes in order of their start.
    #[must_use]
    pub fn finish(mut self) -> Vec<Note> {
        self.notes.sort_by_key(|note| note.start);
        self.notes
    }
}

/// Returns the velocity, 0 to 1, of a note at an intensity from 0 to 1. `base` is the velocity at full intensity.
#[must_use]
pub fn dynamic(base: f32, intensity: f32) -> f32 {
    base * (0.62 + 0.38 * intensity)
}
