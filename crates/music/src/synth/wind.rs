//! Solo wind instruments: harmonics that brighten with the level, breath noise and delayed vibrato.

use std::f32::consts::TAU;

use super::dsp::{Adsr, Envelope, Filter, Noise, SAMPLE_RATE, Vibrato};

/// Samples between updates of vibrato and brightness.
const CONTROL: usize = 16;
/// Number of harmonics.
const HARMONICS: usize = 12;

/// Parameters of a wind sound.
#[derive(Debug, Clone, Copy)]
pub struct WindPatch {
    /// Levels of the harmonics, the lowest first.
    pub harmonics: [f32; HARMONICS],
    /// Exponent that makes high harmonics follow the level more strongly.
    pub attack_growth: f32,
    /// Level of the breath noise.
    pub breath: f32,
    /// Additional breath noise at the start of the note.
    pub chiff: f32,
    pub vibrato: Vibrato,
    pub envelope: Adsr,
}

/// Sounding note.
#[derive(Debug, Clone)]
pub struct Wind {
    patch: WindPatch,
    /// Frequency in periods per sample.
    phase_step: f32,
    /// Phase in periods.
    phase: f32,
    /// Number of harmonics below 16 kHz.
    audible: usize,
    /// Current levels of the harmonics.
    levels: [f32; HARMONICS],
    breath: Filter,
    noise: Noise,
    envelope: Envelope,
    velocity: f32,
    /// Last level of the envelope.
    level: f32,
    /// Samples since the start.
    age: u32,
}

impl Wind {
    /// Starts a note.
    #[must_use]
    pub fn new(patch: &WindPatch, hertz: f32, velocity: f32, held_frames: u32, seed: u64) -> Self {
        Self {
            patch: *patch,
            phase_step: hertz / SAMPLE_RATE,
            phase: 0.0,
            audible: ((16_000.0 / hertz) as usize).clamp(1, HARMONICS),
            levels: [0.0; HARMONICS],
            breath: Filter::new((hertz * 2.0).clamp(400.0, 6_000.0), 1.2),
            noise: Noise::new(seed),
            envelope: Envelope::new(patch.envelope, held_frames),
            velocity,
            level: 0.0,
            age: 0,
        }
    }

    /// Adds the next samples; returns `false` once the note has ended.
    pub fn render(&mut self, out: &mut [f32]) -> bool {
        for chunk in out.chunks_mut(CONTROL) {
            let seconds = self.age as f32 / SAMPLE_RATE;
            let phase_step = self.phase_step * self.patch.vibrato.at(seconds) * (1.0 - 0.01 * (-seconds * 45.0).exp());

            let blown = (self.level * (0.5 + 0.5 * self.velocity)).max(0.001);
            // The level of each harmonic is a power of the blowing pressure, computed as a running product.
            let step = blown.powf(self.patch.attack_growth * 0.25);
            let mut grown = 1.0;

            for (level, harmonic) in self.levels.iter_mut().zip(self.patch.harmonics) {
                *level = harmonic * grown;
                grown *= step;
            }

            let breath = self.patch.breath + self.patch.chiff * (-seconds * 30.0).exp();
            self.age += chunk.len() as u32;

            for sample in chunk {
                self.level = self.envelope.advance();
                let tone = self.tone(phase_step);
                *sample += (tone + breath * self.breath.band(self.noise.sample())) * self.level;
            }
        }

        !self.envelope.is_over()
    }

    /// Returns the sum of the harmonics. Each sine follows from the two before it.
    #[inline]
    fn tone(&mut self, phase_step: f32) -> f32 {
        self.phase += phase_step;
        self.phase -= self.phase.floor();
        let (sin, cos) = (TAU * self.phase).sin_cos();
        let mut before = 0.0;
        let mut now = sin;
        let mut sum = 0.0;
        for level in &self.levels[..self.audible] {
            sum += level * now;
            (before, now) = (now, 2.0 * cos * now - before);
        }
        sum
    }
}
