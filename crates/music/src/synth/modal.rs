//! Modal synthesis: partials with individual decay. Used for struck strings, bars, bells, organ pipes and reeds.

use std::f32::consts::TAU;

use super::dsp::{Adsr, Envelope, Filter, Noise, SAMPLE_RATE, decay};

/// Maximum number of partials: a multiple of the vector width.
const LANES: usize = 24;

/// Parameters of a modal sound.
#[derive(Debug, Clone, Copy)]
pub struct ModalPatch {
    /// Frequencies relative to the pitch, and levels.
    pub partials: Partials,
    /// Seconds until the lowest partial of middle C has decayed by 60 dB; `None` for pipes and reeds, which do not
    /// decay.
    pub ring: Option<f32>,
    /// Additional damping of high partials.
    pub damping: f32,
    /// Level of the strike noise.
    pub knock: f32,
    /// Loss of high partials at a low velocity: 0 for none, 1 for much.
    pub touch: f32,
    pub envelope: Adsr,
}

/// Frequencies and levels of partials.
#[derive(Debug, Clone, Copy)]
pub enum Partials {
    /// Stiff string: its stiffness, the slope of the levels, and the strike position as a fraction of the length.
    String { stiffness: f32, slope: f32, struck: f32 },
    /// Ratio and level of each partial.
    List(&'static [(f32, f32)]),
}

/// Sounding note.
#[derive(Debug, Clone)]
pub struct Modal {
    /// State of each partial: a complex number that rotates by its frequency and shrinks by its decay.
    re: [f32; LANES],
    im: [f32; LANES],
    /// Rotation and decay of each partial per sample.
    cos: [f32; LANES],
    sin: [f32; LANES],
    envelope: Envelope,
    /// Current level of the strike noise.
    knock: f32,
    /// Factor of that level per sample.
    knock_decay: f32,
    knock_filter: Filter,
    noise: Noise,
    /// Samples until the partials have decayed.
    remaining_frames: Option<u32>,
}

impl Modal {
    /// Starts a note.
    #[must_use]
    pub fn new(patch: &ModalPatch, hertz: f32, velocity: f32, held_frames: u32, seed: u64) -> Self {
        let mut sound = Self {
            re: [0.0; LANES],
            im: [0.0; LANES],
            cos: [0.0; LANES],
            sin: [0.0; LANES],
            envelope: Envelope::new(patch.envelope, held_frames),
            knock: patch.knock * velocity,
            knock_decay: decay(0.04),
            knock_filter: Filter::new((hertz * 3.0).clamp(300.0, 2_500.0), 0.8),
            noise: Noise::new(seed),
            remaining_frames: None,
        };

        // Decay times shorten with pitch: by about a half every octave and a half.
        let ring = patch.ring.map(|seconds| seconds * (261.6 / hertz).powf(0.65).clamp(0.12, 2.6));

        let mut partials = audible_partials(patch, hertz, velocity);
        let sum: f32 = partials.iter().map(|(_, level)| level * level).sum::<f32>().sqrt().max(0.001);
        partials.truncate(LANES);

        for (lane, (ratio, level)) in partials.into_iter().enumerate() {
            let angle = TAU * hertz * ratio / SAMPLE_RATE;
            let fade = ring.map_or(1.0, |ring| decay(ring / (1.0 + patch.damping * (ratio - 1.0).max(0.0))));
            sound.cos[lane] = fade * angle.cos();
            sound.sin[lane] = fade * angle.sin();
            sound.re[lane] = level / sum;
        }

        sound.remaining_frames = ring.map(|seconds| (seconds * 1.4 * SAMPLE_RATE) as u32);
        sound
    }

    /// Adds the next samples; returns `false` once the note has ended.
    pub fn render(&mut self, out: &mut [f32]) -> bool {
        for sample in out.iter_mut() {
            let mut sum = 0.0;
            for lane in 0..LANES {
                let re = self.re[lane];
                let im = self.im[lane];
                self.re[lane] = re * self.cos[lane] - im * self.sin[lane];
                self.im[lane] = re * self.sin[lane] + im * self.cos[lane];
                sum += self.im[lane];
            }

            let knock = self.knock_filter.low(self.noise.sample()) * self.knock;
            self.knock *= self.knock_decay;
            *sample += (sum + knock) * self.envelope.advance();
        }

        let faded = self.remaining_frames.as_mut().is_some_and(|remaining| {
            *remaining = remaining.saturating_sub(out.len() as u32);
            *remaining == 0
        });

        !faded && !self.envelope.is_over()
    }
}

/// Returns ratio and level of the audible partials.
fn audible_partials(patch: &ModalPatch, hertz: f32, velocity: f32) -> Vec<(f32, f32)> {
    let audible = |ratio: f32| hertz * ratio < 16_000.0;
    // A soft touch attenuates high partials.
    let dull = |ratio: f32| (-(ratio - 1.0).max(0.0) * patch.touch * (1.05 - velocity) * 0.5).exp();

    match patch.partials {
        Partials::List(list) => list
            .iter()
            .filter(|(ratio, _)| audible(*ratio))
            .map(|(ratio, level)| (*ratio, level * dull(*ratio)))
            .collect(),
        Partials::String { stiffness, slope, struck } => {
            let mut partials = Vec::new();
            // Partials beyond the available lanes are too weak to matter.
            for harmonic in 1_u8..=16 {
                let harmonic = f32::from(harmonic);
                let ratio = harmonic * (1.0 + stiffness * harmonic * harmonic).sqrt();
                let level = (TAU / 2.0 * harmonic * struck).sin().abs() * harmonic.powf(-slope) * dull(harmonic);
                if audible(ratio) {
                    partials.push((ratio, level));
                    // The slightly detuned strings of one key make the lower partials beat.
                    if harmonic <= 8.0 {
                        partials.push((ratio * 1.000_6, level * 0.7));
                    }
                }
            }
            partials
        }
    }
}
