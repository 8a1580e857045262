//! Drum sounds: a falling sine, coloured noise and, for cymbals, inharmonic square waves.

use super::dsp::{Filter, Noise, SAMPLE_RATE, decay, sine};
use crate::piece::{Drum, DrumKit};

/// Parameters of a drum sound.
#[derive(Debug, Clone, Copy)]
struct DrumPatch {
    /// Frequency of the tone.
    tone: Glide,
    /// Level of the tone.
    ring: Decay,
    /// Level of the noise.
    noise: Decay,
    /// Filter of the noise.
    colour: NoiseFilter,
    /// Level of the metallic component.
    metal: f32,
    /// Number of noise bursts at the start, as in a handclap.
    bursts: u8,
    /// Level within the kit.
    level: f32,
    /// Stereo position from -1 (left) to 1 (right).
    pan: f32,
}

/// Falling frequency.
#[derive(Debug, Clone, Copy)]
struct Glide {
    start_hertz: f32,
    end_hertz: f32,
    /// Seconds between the two frequencies.
    seconds: f32,
}

const fn glide(start_hertz: f32, end_hertz: f32, seconds: f32) -> Glide {
    Glide { start_hertz, end_hertz, seconds }
}

/// Decaying level.
#[derive(Debug, Clone, Copy)]
struct Decay {
    level: f32,
    /// Seconds until the level has decayed by 60 dB.
    seconds: f32,
}

const fn decaying(level: f32, seconds: f32) -> Decay {
    Decay { level, seconds }
}

/// Filter of noise. Above a sharpness of 1 it is a band-pass, otherwise a high-pass.
#[derive(Debug, Clone, Copy)]
struct NoiseFilter {
    hertz: f32,
    sharpness: f32,
}

const fn filter(hertz: f32, sharpness: f32) -> NoiseFilter {
    NoiseFilter { hertz, sharpness }
}

/// Silent patch, the base of the others.
const NONE: DrumPatch = DrumPatch {
    tone: glide(100.0, 100.0, 0.1),
    ring: decaying(0.0, 0.1),
    noise: decaying(0.0, 0.1),
    colour: filter(1_000.0, 0.7),
    metal: 0.0,
    bursts: 1,
    level: 1.0,
    pan: 0.0,
};

/// Base frequencies in hertz of the six square waves of a cymbal.
const METAL: [f32; 6] = [317.0, 465.0, 587.0, 829.0, 1_117.0, 1_493.0];

/// Returns the parameters of a drum in a kit.
fn patch(kit: DrumKit, drum: Drum) -> DrumPatch {
    let base = base_patch(drum);
    match (kit, drum) {
        (DrumKit::Electronic, Drum::Kick) => DrumPatch {
            tone: glide(240.0, 48.0, 0.045),
            ring: decaying(1.1, 0.42),
            noise: decaying(0.12, 0.02),
            colour: filter(3_000.0, 0.7),
            ..base
        },
        (DrumKit::Electronic, Drum::Snare) => {
            DrumPatch { ring: decaying(0.4, 0.14), noise: decaying(0.75, 0.24), ..base }
        }
        (DrumKit::Deep, Drum::Kick) => {
            DrumPatch { tone: glide(160.0, 41.0, 0.05), ring: decaying(1.15, 1.1), noise: decaying(0.1, 0.02), ..base }
        }
        (DrumKit::Deep, Drum::Snare) => {
            DrumPatch { tone: glide(260.0, 200.0, 0.03), noise: decaying(0.8, 0.18), ..base }
        }
        (DrumKit::Deep | DrumKit::Electronic, Drum::HatClosed) => {
            DrumPatch { noise: decaying(0.3, 0.06), metal: 0.5, ..base }
        }
        (DrumKit::Dusty, Drum::Kick) => DrumPatch {
            tone: glide(120.0, 52.0, 0.05),
            ring: decaying(0.95, 0.28),
            noise: decaying(0.1, 0.03),
            colour: filter(900.0, 0.7),
            ..base
        },
        (DrumKit::Dusty, Drum::Snare) => {
            DrumPatch { noise: decaying(0.6, 0.18), colour: filter(1_400.0, 1.1), level: 0.8, ..base }
        }
        (DrumKit::Dusty, Drum::HatClosed) => DrumPatch { noise: decaying(0.35, 0.05), metal: 0.15, level: 0.3, ..base },
        (DrumKit::Brushes, Drum::Kick) => {
            DrumPatch { ring: decaying(0.7, 0.25), noise: decaying(0.05, 0.02), level: 0.6, ..base }
        }
        (DrumKit::Brushes, Drum::Snare) => DrumPatch {
            ring: decaying(0.12, 0.1),
            noise: decaying(0.6, 0.3),
            colour: filter(2_600.0, 0.7),
            level: 0.6,
            ..base
        },
        (DrumKit::Orchestral, Drum::Kick) => DrumPatch {
            tone: glide(85.0, 47.0, 0.08),
            ring: decaying(1.0, 1.2),
            noise: decaying(0.25, 0.08),
            colour: filter(220.0, 1.5),
            ..base
        },
        (DrumKit::Orchestral, Drum::TomLow) => DrumPatch {
            tone: glide(105.0, 72.0, 0.07),
            ring: decaying(1.0, 0.8),
            noise: decaying(0.4, 0.09),
            colour: filter(380.0, 1.5),
            ..base
        },
        (DrumKit::Orchestral, Drum::TomMiddle) => DrumPatch {
            tone: glide(150.0, 104.0, 0.06),
            ring: decaying(1.0, 0.6),
            noise: decaying(0.4, 0.08),
            colour: filter(520.0, 1.5),
            ..base
        },
        (DrumKit::Orchestral, Drum::Snare) => {
            DrumPatch { ring: decaying(0.3, 0.16), noise: decaying(0.7, 0.35), level: 0.55, ..base }
        }
        _ => base,
    }
}

/// Returns the parameters of an acoustic drum.
fn base_patch(drum: Drum) -> DrumPatch {
    match drum {
        Drum::Kick => DrumPatch {
            tone: glide(150.0, 54.0, 0.05),
            ring: decaying(1.05, 0.36),
            noise: decaying(0.2, 0.03),
            colour: filter(2_400.0, 0.7),
            ..NONE
        },
        Drum::Snare => DrumPatch {
            tone: glide(230.0, 182.0, 0.03),
            ring: decaying(0.5, 0.16),
            noise: decaying(0.62, 0.26),
            colour: filter(1_700.0, 0.7),
            level: 0.85,
            pan: -0.05,
            ..NONE
        },
        Drum::Clap => DrumPatch {
            noise: decaying(1.0, 0.24),
            colour: filter(1_250.0, 1.6),
            bursts: 4,
            level: 0.75,
            pan: 0.06,
            ..NONE
        },
        Drum::Rim => DrumPatch {
            tone: glide(1_750.0, 1_650.0, 0.01),
            ring: decaying(0.5, 0.05),
            noise: decaying(0.25, 0.02),
            colour: filter(2_500.0, 2.0),
            level: 0.45,
            pan: 0.15,
            ..NONE
        },
        Drum::HatClosed => DrumPatch {
            noise: decaying(0.4, 0.075),
            colour: filter(7_200.0, 0.7),
            metal: 0.3,
            level: 0.36,
            pan: 0.25,
            ..NONE
        },
        Drum::HatOpen => DrumPatch {
            noise: decaying(0.4, 0.42),
            colour: filter(6_800.0, 0.7),
            metal: 0.35,
            level: 0.34,
            pan: 0.25,
            ..NONE
        },
        Drum::Ride => DrumPatch {
            noise: decaying(0.18, 0.7),
            colour: filter(5_600.0, 0.7),
            metal: 0.5,
            level: 0.3,
            pan: -0.3,
            ..NONE
        },
        Drum::Crash => DrumPatch {
            noise: decaying(0.6, 1.9),
            colour: filter(3_800.0, 0.7),
            metal: 0.35,
            level: 0.42,
            pan: 0.3,
            ..NONE
        },
        Drum::TomLow => tom(96.0, -0.35),
        Drum::TomMiddle => tom(132.0, 0.0),
        Drum::TomHigh => tom(176.0, 0.35),
        Drum::Shaker => {
            DrumPatch { noise: decaying(0.6, 0.08), colour: filter(5_200.0, 1.6), level: 0.34, pan: -0.3, ..NONE }
        }
        Drum::Cowbell => {
            DrumPatch { ring: decaying(0.0, 0.2), metal: 1.0, noise: decaying(0.0, 0.2), level: 0.3, pan: 0.2, ..NONE }
        }
        Drum::Conga => DrumPatch {
            tone: glide(310.0, 262.0, 0.03),
            ring: decaying(0.8, 0.2),
            noise: decaying(0.12, 0.03),
            colour: filter(1_900.0, 1.2),
            level: 0.5,
            pan: 0.32,
            ..NONE
        },
    }
}

/// Returns the parameters of a tom whose tone ends at `hertz`.
fn tom(hertz: f32, pan: f32) -> DrumPatch {
    DrumPatch {
        tone: glide(hertz * 1.7, hertz, 0.06),
        ring: decaying(1.0, 0.42),
        noise: decaying(0.16, 0.05),
        colour: filter(900.0, 0.7),
        level: 0.72,
        pan,
        ..NONE
    }
}

/// Sounding drum hit.
#[derive(Debug, Clone)]
pub struct DrumHit {
    patch: DrumPatch,
    velocity: f32,
    /// Phase of the tone in periods.
    phase: f32,
    /// Current frequency of the tone.
    hertz: f32,
    /// Factor per sample of the distance from the end frequency.
    glide: f32,
    /// Current level of the tone, and its factor per sample.
    tone: f32,
    tone_fade: f32,
    /// Current level of noise and metal, and its factor per sample.
    hiss: f32,
    hiss_fade: f32,
    filter: Filter,
    metal_filter: Filter,
    /// Phases of the square waves in periods.
    metal: [f32; 6],
    noise: Noise,
    /// Samples since the start.
    age: u32,
}

/// Samples between the bursts of a handclap.
const BURST: u32 = 480;

impl DrumHit {
    /// Starts a hit.
    #[must_use]
    pub fn new(kit: DrumKit, drum: Drum, velocity: f32, seed: u64) -> Self {
        let patch = patch(kit, drum);
        let NoiseFilter { hertz: filter_hertz, sharpness } = patch.colour;

        Self {
            patch,
            velocity,
            phase: 0.0,
            hertz: patch.tone.start_hertz,
            glide: decay(patch.tone.seconds * 3.0),
            tone: patch.ring.level,
            tone_fade: decay(patch.ring.seconds),
            hiss: 1.0,
            hiss_fade: decay(patch.noise.seconds),
            filter: Filter::new(filter_hertz, sharpness),
            metal_filter: Filter::new(filter_hertz.max(3_000.0) * 0.9, 0.9),
            metal: [0.0; 6],
            noise: Noise::new(seed),
            age: 0,
        }
    }

    /// Returns the stereo position from -1 to 1.
    #[must_use]
    pub const fn pan(&self) -> f32 {
        self.patch.pan
    }

    /// Adds the next samples; returns `false` once the hit has ended.
    pub fn render(&mut self, out: &mut [f32]) -> bool {
        let gain = self.velocity * self.patch.level;
        let end_hertz = self.patch.tone.end_hertz;
        let noise = self.patch.noise.level;
        let metal = self.patch.metal;
        let is_band_pass = self.patch.colour.sharpness > 1.0;
        // Samples until the last burst of a handclap.
        let bursting = BURST * u32::from(self.patch.bursts - 1);

        for sample in out.iter_mut() {
            // A rise of half a millisecond avoids a click.
            let onset = (self.age as f32 / 24.0).min(1.0);

            if self.age > 0 && self.age < bursting && self.age.is_multiple_of(BURST) {
                self.hiss = 1.0;
            }
            let fade = if self.age < bursting { 0.992 } else { self.hiss_fade };

            self.hertz = end_hertz + (self.hertz - end_hertz) * self.glide;
            self.phase += self.hertz / SAMPLE_RATE;
            self.phase -= self.phase.floor();

            let mut sum = self.tone * sine(self.phase);

            if noise > 0.0 {
                let bands = self.filter.bands(self.noise.sample());
                sum += noise * self.hiss * if is_band_pass { 1.6 * bands.band } else { bands.high };
            }

            if metal > 0.0 {
                sum += metal * self.hiss * self.next_metal_sample();
            }

            self.tone *= self.tone_fade;
            self.hiss *= fade;
            self.age += 1;
            *sample += sum * gain * onset;
        }

        self.tone > 0.000_1 || self.hiss * (noise + metal) > 0.000_1
    }

    /// Returns the next sample of the square waves of a cymbal.
    fn next_metal_sample(&mut self) -> f32 {
        let mut sum = 0.0;
        for (phase, hertz) in self.metal.iter_mut().zip(METAL) {
            *phase += hertz * 1.31 / SAMPLE_RATE;
            *phase -= phase.floor();
            sum += if *phase < 0.5 { 1.0 } else { -1.0 };
        }
        self.metal_filter.high(sum * 0.33)
    }
}
