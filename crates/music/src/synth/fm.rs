//! Frequency modulation synthesis (Chowning 1973): electric pianos, glass pads and basses.

use super::dsp::{Adsr, Envelope, SAMPLE_RATE, decay, sine};

/// Pair of carrier and modulator.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// Carrier frequency relative to the pitch.
    pub carrier: f32,
    /// Modulator frequency relative to the pitch.
    pub modulator: f32,
    /// Modulation index at full velocity.
    pub index: f32,
    /// Seconds until the modulation has decayed by 60 dB to its minimum.
    pub fade: f32,
    /// Level of the pair.
    pub level: f32,
}

/// Parameters of an FM sound.
#[derive(Debug, Clone, Copy)]
pub struct FmPatch {
    pub pairs: [Pair; 2],
    pub envelope: Adsr,
}

/// Sounding note.
#[derive(Debug, Clone)]
pub struct Fm {
    pairs: [RunningPair; 2],
    envelope: Envelope,
}

/// State of a pair. Phases are in periods, steps in periods per sample.
#[derive(Debug, Clone)]
struct RunningPair {
    carrier_phase: f32,
    modulator_phase: f32,
    carrier_step: f32,
    modulator_step: f32,
    /// Current modulation index in periods.
    index: f32,
    /// Minimum of the modulation index.
    index_min: f32,
    /// Factor per sample of the distance of the index from its minimum.
    fade: f32,
    level: f32,
}

impl Fm {
    /// Starts a note.
    #[must_use]
    pub fn new(patch: &FmPatch, hertz: f32, velocity: f32, held_frames: u32) -> Self {
        // High notes are modulated less to avoid a harsh sound.
        let key_scaling = (440.0 / hertz).powf(0.35).clamp(0.3, 1.6);

        let pairs = patch.pairs.map(|pair| {
            let index = pair.index * velocity * key_scaling / std::f32::consts::TAU;
            RunningPair {
                carrier_phase: 0.0,
                modulator_phase: 0.0,
                carrier_step: (hertz * pair.carrier / SAMPLE_RATE).min(0.45),
                modulator_step: (hertz * pair.modulator / SAMPLE_RATE).min(0.45),
                index,
                index_min: index * 0.12,
                fade: decay(pair.fade),
                level: pair.level,
            }
        });

        Self { pairs, envelope: Envelope::new(patch.envelope, held_frames) }
    }

    /// Adds the next samples; returns `false` once the note has ended.
    pub fn render(&mut self, out: &mut [f32]) -> bool {
        for sample in out.iter_mut() {
            let mut sum = 0.0;
            for pair in &mut self.pairs {
                sum += pair.level * sine(pair.carrier_phase + pair.index * sine(pair.modulator_phase));
                pair.carrier_phase += pair.carrier_step;
                pair.carrier_phase -= pair.carrier_phase.floor();
                pair.modulator_phase += pair.modulator_step;
                pair.modulator_phase -= pair.modulator_phase.floor();
                pair.index = pair.index_min + (pair.index - pair.index_min) * pair.fade;
            }

            *sample += sum * self.envelope.advance();
        }

        !self.envelope.is_over()
    }
}
