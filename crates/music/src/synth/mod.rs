//! Synthesis of notes: one voice per note.

pub mod analog;
pub mod drum;
pub mod dsp;
pub mod fm;
pub mod modal;
mod patches;
pub mod pluck;
pub mod sound;
pub mod texture;
pub mod wind;

use crate::instrument::Instrument;
use crate::piece::{Drum, DrumKit, Note};
use crate::theory::hertz;
use sound::Method;

/// Sounding note.
#[derive(Debug, Clone)]
pub struct Voice {
    source: Source,
    gain: f32,
    pan: f32,
}

/// Running synthesis of a note.
#[derive(Debug, Clone)]
enum Source {
    Modal(Box<modal::Modal>),
    Pluck(Box<pluck::Pluck>),
    Fm(Box<fm::Fm>),
    Analog(Box<analog::Analog>),
    Wind(Box<wind::Wind>),
    Drum(Box<drum::DrumHit>),
}

/// Exponent of the velocity in the gain of a note.
const TOUCH: f32 = 1.4;

impl Voice {
    /// Starts a note.
    #[must_use]
    pub fn start(instrument: Instrument, kit: DrumKit, note: &Note, seed: u64) -> Self {
        let velocity = note.velocity;
        let held_frames = note.frames;
        let seed = seed ^ (u64::from(note.start) << 20) ^ u64::from(note.pitch.to_bits());

        if instrument == Instrument::Drums {
            let hit = drum::DrumHit::new(kit, Drum::from_pitch(note.pitch), velocity, seed);
            return Self { gain: DRUM_GAIN, pan: hit.pan(), source: Source::Drum(Box::new(hit)) };
        }

        let hertz = hertz(note.pitch);
        let sound = sound::sound(instrument);

        let source = match &sound.method {
            Method::Modal(patch) => {
                Source::Modal(Box::new(modal::Modal::new(patch, hertz, velocity, held_frames, seed)))
            }
            Method::Pluck(patch) => {
                Source::Pluck(Box::new(pluck::Pluck::new(patch, hertz, velocity, held_frames, seed)))
            }
            Method::Fm(patch) => Source::Fm(Box::new(fm::Fm::new(patch, hertz, velocity, held_frames))),
            Method::Analog(patch) => {
                Source::Analog(Box::new(analog::Analog::new(patch, hertz, velocity, held_frames, seed)))
            }
            Method::Wind(patch) => Source::Wind(Box::new(wind::Wind::new(patch, hertz, velocity, held_frames, seed))),
        };

        let gain = 10_f32.powf(sound.level_db / 20.0) * velocity.powf(TOUCH);
        // As seen by a pianist, low strings are on the left and high ones on the right.
        let spread = if matches!(source, Source::Modal(_)) { (note.pitch - 64.0) / 90.0 } else { 0.0 };
        Self { source, gain, pan: spread.clamp(-0.35, 0.35) }
    }

    /// Returns the position relative to the part, from -1 to 1.
    #[must_use]
    pub const fn pan(&self) -> f32 {
        self.pan
    }

    /// Returns the gain within the part.
    #[must_use]
    pub const fn gain(&self) -> f32 {
        self.gain
    }

    /// Adds the next samples at unit gain; returns `false` once the note has ended.
    pub fn render(&mut self, out: &mut [f32]) -> bool {
        match &mut self.source {
            Source::Modal(voice) => voice.render(out),
            Source::Pluck(voice) => voice.render(out),
            Source::Fm(voice) => voice.render(out),
            Source::Analog(voice) => voice.render(out),
            Source::Wind(voice) => voice.render(out),
            Source::Drum(voice) => voice.render(out),
        }
    }
}

/// Gain that matches the loudness of drums to the other instruments.
const DRUM_GAIN: f32 = 0.5;
