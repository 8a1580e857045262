//! Frequency modulation: one sine bends another (Chowning 1973). Electric pianos, bells of glass, basses.

use super::dsp::{Adsr, Envelope, SAMPLES, decay, sine};

/// A pair of operators.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// Frequency of what is heard, against the pitch.
    pub carrier: f32,
    /// Frequency of what bends it.
    pub modulator: f32,
    /// How far it bends at full strength.
    pub index: f32,
    /// Seconds until the bending has faded by 60 dB.
    pub fade: f32,
    /// How loud it is.
    pub level: f32,
}

/// What bends what.
#[derive(Debug, Clone, Copy)]
pub struct FmPatch {
    /// Two pairs at most.
    pub pairs: [Pair; 2],
    /// Loudness over time.
    pub envelope: Adsr,
}

/// A sounding note.
#[derive(Debug, Clone)]
pub struct Fm {
    pairs: [Running; 2],
    envelope: Envelope,
}

#[derive(Debug, Clone)]
struct Running {
    carrier: f32,
    modulator: f32,
    carrier_turns: f32,
    modulator_turns: f32,
    index: f32,
    least: f32,
    fade: f32,
    level: f32,
}

impl Fm {
    /// Begins a note.
    #[must_use]
    pub fn new(patch: &FmPatch, hertz: f32, velocity: f32, held: u32) -> Self {
        // High notes are bent less, or they would screech.
        let keyed = (440.0 / hertz).powf(0.35).clamp(0.3, 1.6);
        let pairs = patch.pairs.map(|pair| {
            let index = pair.index * velocity * keyed / std::f32::consts::TAU;
            Running {
                carrier: 0.0,
                modulator: 0.0,
                carrier_turns: (hertz * pair.carrier / SAMPLES).min(0.45),
                modulator_turns: (hertz * pair.modulator / SAMPLES).min(0.45),
                index,
                least: index * 0.12,
                fade: decay(pair.fade),
                level: pair.level,
            }
        });
        Self { pairs, envelope: Envelope::new(patch.envelope, held) }
    }

    /// Adds the next samples; false when it is over.
    pub fn render(&mut self, out: &mut [f32]) -> bool {
        for sample in out.iter_mut() {
            let mut sum = 0.0;
            for pair in &mut self.pairs {
                sum += pair.level * sine(pair.carrier + pair.index * sine(pair.modulator));
                pair.carrier += pair.carrier_turns;
                pair.carrier -= pair.carrier.floor();
                pair.modulator += pair.modulator_turns;
                pair.modulator -= pair.modulator.floor();
                pair.index = pair.least + (pair.index - pair.least) * pair.fade;
            }
            *sample += sum * self.envelope.advance();
        }
        !self.envelope.is_over()
    }
}
