//! Subtractive synthesis: rich waves through moving filters. Used for synthesizers, bowed strings, brass sections and
//! choirs.

use super::dsp::{Adsr, Envelope, Filter, Noise, Oscillator, SAMPLE_RATE, Vibrato, Wave, decay};

/// Samples between updates of filter and vibrato.
const CONTROL: usize = 16;
/// Maximum number of oscillators per note.
const VOICES: usize = 5;

/// Cutoff frequency: a constant plus a multiple of the pitch.
#[derive(Debug, Clone, Copy)]
pub struct Cutoff {
    pub base_hertz: f32,
    pub pitch_multiple: f32,
}

/// Decaying addition to the cutoff frequency.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// Initial multiple of the pitch.
    pub pitch_multiple: f32,
    /// Seconds until the addition has decayed.
    pub seconds: f32,
}

/// Parameters of a subtractive sound.
#[derive(Debug, Clone, Copy)]
pub struct AnalogPatch {
    pub wave: Wave,
    /// Number of unison oscillators.
    pub voices: usize,
    /// Detuning of the outermost oscillators in cents.
    pub spread: f32,
    /// Level of a sine an octave below.
    pub sub: f32,
    /// Level of breath or bow noise.
    pub noise: f32,
    /// Cutoff frequency of the filter.
    pub cutoff: Cutoff,
    /// Addition to the cutoff frequency at the start of the note.
    pub sweep: Sweep,
    /// Filter resonance.
    pub q: f32,
    /// `true` if the filter opens with the level, as in blown and bowed instruments.
    pub blown: bool,
    /// Body resonances: frequency in hertz, sharpness and level. Empty for synthesizers.
    pub body: &'static [(f32, f32, f32)],
    pub vibrato: Vibrato,
    pub envelope: Adsr,
}

/// Sounding note.
#[derive(Debug, Clone)]
pub struct Analog {
    patch: AnalogPatch,
    /// Frequency in periods per sample.
    phase_step: f32,
    hertz: f32,
    velocity: f32,
    /// Unison oscillators with their frequencies relative to the pitch.
    oscillators: [(Oscillator, f32); VOICES],
    /// Phase in periods of the sine an octave below.
    sub: f32,
    filter: Filter,
    /// Body resonances with their levels.
    body: Vec<(Filter, f32)>,
    noise: Noise,
    envelope: Envelope,
    /// Last level of the envelope.
    level: f32,
    /// Remaining fraction of the filter sweep.
    sweep: f32,
    /// Samples since the start.
    age: u32,
}

impl Analog {
    /// Starts a note.
    #[must_use]
    pub fn new(patch: &AnalogPatch, hertz: f32, velocity: f32, held_frames: u32, seed: u64) -> Self {
        let mut noise = Noise::new(seed);

        let voices = patch.voices.clamp(1, VOICES);
        let oscillators = std::array::from_fn(|index| {
            let position = if voices > 1 { 2.0 * index as f32 / (voices - 1) as f32 - 1.0 } else { 0.0 };
            (Oscillator::new(0.5 + 0.5 * noise.sample()), (position * patch.spread / 1_200.0).exp2())
        });

        let body = patch.body.iter().map(|(hertz, q, level)| (Filter::new(*hertz, *q), *level)).collect();

        Self {
            patch: *patch,
            phase_step: hertz / SAMPLE_RATE,
            hertz,
            velocity,
            oscillators,
            sub: 0.0,
            filter: Filter::default(),
            body,
            noise,
            envelope: Envelope::new(patch.envelope, held_frames),
            level: 0.0,
            sweep: 1.0,
            age: 0,
        }
    }

    /// Adds the next samples; returns `false` once the note has ended.
    pub fn render(&mut self, out: &mut [f32]) -> bool {
        for chunk in out.chunks_mut(CONTROL) {
            let bend = self.update_controls(chunk.len());
            self.render_samples(chunk, bend);
        }
        !self.envelope.is_over()
    }

    /// Updates the filter for the next `samples` and returns the pitch factor of vibrato and slide.
    fn update_controls(&mut self, samples: usize) -> f32 {
        let seconds = self.age as f32 / SAMPLE_RATE;

        let Cutoff { base_hertz, pitch_multiple } = self.patch.cutoff;
        let sweep = self.patch.sweep;
        let open = if self.patch.blown { 0.25 + 0.75 * self.level } else { 1.0 };
        let touch = 0.55 + 0.45 * self.velocity;
        let cutoff = base_hertz + self.hertz * (pitch_multiple * open + sweep.pitch_multiple * self.sweep) * touch;
        self.filter.set(cutoff.min(17_000.0), self.patch.q);

        self.sweep *= decay(sweep.seconds.max(0.01) * 2.0).powi(samples as i32);
        self.age += samples as u32;

        // Blown and bowed instruments slide into the note.
        let slide = if self.patch.blown { 1.0 - 0.012 * (-seconds * 40.0).exp() } else { 1.0 };
        self.patch.vibrato.at(seconds) * slide
    }

    /// Adds the next samples at the pitch factor `bend`.
    fn render_samples(&mut self, out: &mut [f32], bend: f32) {
        let voices = self.patch.voices.clamp(1, VOICES);
        let scale = 1.0 / (voices as f32).sqrt();
        let phase_step = self.phase_step * bend;

        for sample in out {
            let mut sum = 0.0;
            for (oscillator, detune) in &mut self.oscillators[..voices] {
                sum += oscillator.next(self.patch.wave, phase_step * *detune);
            }
            sum *= scale;

            if self.patch.sub > 0.0 {
                self.sub += phase_step * 0.5;
                self.sub -= self.sub.floor();
                sum += self.patch.sub * super::dsp::sine(self.sub);
            }

            if self.patch.noise > 0.0 {
                sum += self.patch.noise * self.noise.sample();
            }

            let mut filtered = self.filter.low(sum);

            if !self.body.is_empty() {
                let dry = filtered;
                filtered *= 0.35;
                for (resonance, level) in &mut self.body {
                    filtered += *level * resonance.band(dry);
                }
            }

            self.level = self.envelope.advance();
            *sample += filtered * self.level;
        }
    }
}
