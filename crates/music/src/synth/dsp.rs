//! Building blocks of synthesis: envelopes, oscillators, filters and noise. All process single samples at [`RATE`].

use std::f32::consts::TAU;

use crate::piece::RATE;

/// Samples per second.
pub const SAMPLE_RATE: f32 = RATE as f32;
/// Natural logarithm of a decay by 60 dB.
pub const LN_60_DB: f32 = -6.907_755;

/// Returns the factor per sample of an exponential decay by 60 dB in the given number of seconds.
#[must_use]
pub fn decay(seconds: f32) -> f32 {
    (LN_60_DB / (seconds.max(0.000_5) * SAMPLE_RATE)).exp()
}

/// Returns the sine of a phase in periods, exact to 0.2 %, which is sufficient for every sound here.
#[must_use]
#[inline]
pub fn sine(phase: f32) -> f32 {
    let phase = phase - phase.floor() - 0.5;
    let parabola = phase * (8.0 - 16.0 * phase.abs());
    -(0.775 * parabola + 0.225 * parabola * parabola.abs())
}

/// White noise, -1 to 1 (xorshift, Marsaglia 2003).
#[derive(Debug, Clone)]
pub struct Noise(u32);

impl Noise {
    /// Creates noise from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self((seed ^ (seed >> 32)) as u32 | 1)
    }

    /// Returns the next sample.
    #[inline]
    pub fn sample(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as i32 as f32 / 2_147_483_648.0
    }
}

/// Attack, decay and release times in seconds, and the sustain level.
#[derive(Debug, Clone, Copy)]
pub struct Adsr {
    pub attack: f32,
    pub decay: f32,
    pub sustain: f32,
    pub release: f32,
}

/// Running envelope. It decays after the note is released.
#[derive(Debug, Clone)]
pub struct Envelope {
    level: f32,
    /// Change of the level per sample during the attack.
    rise: f32,
    /// Factor per sample of the distance from the sustain level during the decay.
    fall: f32,
    sustain: f32,
    /// Factor of the level per sample after the release.
    release: f32,
    /// `true` during the attack.
    rising: bool,
    /// Samples until the note is released.
    held_frames: u32,
}

/// Level below which a sound is inaudible.
const SILENCE: f32 = 0.000_06;

impl Envelope {
    /// Creates the envelope of a note that is held for `held_frames` samples.
    #[must_use]
    pub fn new(adsr: Adsr, held_frames: u32) -> Self {
        Self {
            level: 0.0,
            rise: 1.0 / (adsr.attack.max(0.001) * SAMPLE_RATE),
            fall: decay(adsr.decay),
            sustain: adsr.sustain,
            release: decay(adsr.release.max(0.012)),
            rising: true,
            held_frames,
        }
    }

    /// Returns the next level.
    #[inline]
    pub fn advance(&mut self) -> f32 {
        if self.held_frames == 0 {
            self.level *= self.release;
            return self.level;
        }

        self.held_frames -= 1;

        if self.rising {
            self.level += self.rise;
            if self.level >= 1.0 {
                self.level = 1.0;
                self.rising = false;
            }
        } else {
            self.level = self.sustain + (self.level - self.sustain) * self.fall;
        }

        self.level
    }

    /// Returns `true` if the remaining sound is inaudible.
    #[must_use]
    pub fn is_over(&self) -> bool {
        (self.held_frames == 0 || !self.rising && self.sustain < SILENCE) && self.level < SILENCE
    }
}

/// Second-order state-variable filter that allows modulation (Simper 2013).
#[derive(Debug, Clone, Default)]
pub struct Filter {
    // Coefficients and states as in the paper.
    a1: f32,
    a2: f32,
    a3: f32,
    k: f32,
    s1: f32,
    s2: f32,
}

/// Outputs of a filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bands {
    pub low: f32,
    pub band: f32,
    pub high: f32,
}

impl Filter {
    /// Creates a filter at a frequency with the resonance `q`; 0.7 has no resonance.
    #[must_use]
    pub fn new(hertz: f32, q: f32) -> Self {
        let mut filter = Self::default();
        filter.set(hertz, q);
        filter
    }

    /// Changes frequency and resonance.
    pub fn set(&mut self, hertz: f32, q: f32) {
        let g = (std::f32::consts::PI * hertz.clamp(20.0, 20_000.0) / SAMPLE_RATE).tan();
        self.k = 1.0 / q.max(0.1);
        self.a1 = 1.0 / (1.0 + g * (g + self.k));
        self.a2 = g * self.a1;
        self.a3 = g * self.a2;
    }

    /// Filters the next sample. `band` has unity gain at the filter frequency.
    #[inline]
    pub fn bands(&mut self, input: f32) -> Bands {
        let v3 = input - self.s2;
        let v1 = self.a1 * self.s1 + self.a2 * v3;
        let v2 = self.s2 + self.a2 * self.s1 + self.a3 * v3;
        self.s1 = 2.0 * v1 - self.s1;
        self.s2 = 2.0 * v2 - self.s2;
        Bands { low: v2, band: v1 * self.k, high: input - self.k * v1 - v2 }
    }

    /// Returns the low-pass output.
    #[inline]
    pub fn low(&mut self, input: f32) -> f32 {
        self.bands(input).low
    }

    /// Returns the band-pass output.
    #[inline]
    pub fn band(&mut self, input: f32) -> f32 {
        self.bands(input).band
    }

    /// Returns the high-pass output.
    #[inline]
    pub fn high(&mut self, input: f32) -> f32 {
        self.bands(input).high
    }
}

/// Waveform of an oscillator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wave {
    Saw,
    /// Pulse wave with its width; 0.5 is a square wave.
    Pulse(f32),
}

/// Band-limited oscillator (polynomial step corrections, Valimaki and Huovilainen 2007).
#[derive(Debug, Clone)]
pub struct Oscillator {
    phase: f32,
}

impl Oscillator {
    /// Creates an oscillator at a phase from 0 to 1.
    #[must_use]
    pub const fn new(phase: f32) -> Self {
        Self { phase }
    }

    /// Returns the next sample. `phase_step` is the frequency in periods per sample.
    #[inline]
    pub fn next(&mut self, wave: Wave, phase_step: f32) -> f32 {
        let phase = self.phase;
        self.phase += phase_step;
        self.phase -= self.phase.floor();

        match wave {
            Wave::Saw => 2.0 * phase - 1.0 - step_correction(phase, phase_step),
            Wave::Pulse(width) => {
                let fall = phase + 1.0 - width;
                let square = if phase < width { 1.0 } else { -1.0 };
                square + step_correction(phase, phase_step)
                    - step_correction(fall - fall.floor(), phase_step)
                    - (2.0 * width - 1.0)
            }
        }
    }
}

/// Returns the correction near the step of a wave that removes the frequencies above half of the sample rate.
#[inline]
fn step_correction(phase: f32, phase_step: f32) -> f32 {
    if phase < phase_step {
        let at = phase / phase_step;
        at + at - at * at - 1.0
    } else if phase > 1.0 - phase_step {
        let at = (phase - 1.0) / phase_step;
        at * at + at + at + 1.0
    } else {
        0.0
    }
}

/// Delayed vibrato.
#[derive(Debug, Clone, Copy)]
pub struct Vibrato {
    /// Frequency in hertz.
    pub hertz: f32,
    /// Depth as a fraction of the pitch; 0.01 is a sixth of a semitone.
    pub depth: f32,
    /// Seconds until it starts.
    pub delay: f32,
}

impl Vibrato {
    /// Returns the pitch factor at a time in seconds after the start of the note.
    #[must_use]
    pub fn at(&self, seconds: f32) -> f32 {
        let grown = ((seconds - self.delay) / 0.35).clamp(0.0, 1.0);
        1.0 + self.depth * grown * (TAU * self.hertz * seconds).sin()
    }
}

/// High-pass filter that removes a constant offset.
#[derive(Debug, Clone, Default)]
pub struct DcBlock {
    last_in: f32,
    last_out: f32,
}

impl DcBlock {
    /// Returns the next sample.
    #[inline]
    pub fn next(&mut self, input: f32) -> f32 {
        self.last_out = input - self.last_in + 0.997 * self.last_out;
        self.last_in = input;
        self.last_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_approximate_sine_is_close_to_the_exact_one() {
        for at in 0..1_000 {
            let phase = at as f32 / 1_000.0;
            assert!((sine(phase) - (TAU * phase).sin()).abs() < 0.002, "{phase}");
            assert!((sine(phase + 3.0) - sine(phase)).abs() < 0.001);
            assert!((sine(phase - 2.0) - sine(phase)).abs() < 0.001);
        }
    }

    #[test]
    fn an_envelope_rises_rests_falls_and_ends() {
        let mut envelope = Envelope::new(Adsr { attack: 0.01, decay: 0.1, sustain: 0.5, release: 0.1 }, 24_000);
        let levels: Vec<f32> = (0..48_000).map(|_| envelope.advance()).collect();
        assert!(levels[479] > 0.99);
        assert!((levels[20_000] - 0.5).abs() < 0.01);
        assert!(levels[30_000] < 0.001);
        assert!(envelope.is_over());
        assert!(levels.windows(2).all(|pair| (pair[1] - pair[0]).abs() < 0.003), "no steps");
    }

    #[test]
    fn filters_pass_their_band() {
        let through = |hertz: f32, pass: fn(Bands) -> f32| {
            let mut filter = Filter::new(1_000.0, 0.7);
            let wave = (0..9_600).map(|at| sine(hertz * at as f32 / SAMPLE_RATE));
            wave.map(|sample| pass(filter.bands(sample)).powi(2)).skip(2_400).sum::<f32>()
        };
        assert!(through(100.0, |bands| bands.low) > 100.0 * through(10_000.0, |bands| bands.low));
        assert!(through(10_000.0, |bands| bands.high) > 100.0 * through(100.0, |bands| bands.high));
        assert!(through(1_000.0, |bands| bands.band) > 10.0 * through(50.0, |bands| bands.band));
    }

    #[test]
    fn oscillators_have_no_offset() {
        for wave in [Wave::Saw, Wave::Pulse(0.5), Wave::Pulse(0.25)] {
            let mut oscillator = Oscillator::new(0.0);
            let sum: f32 = (0..48_000).map(|_| oscillator.next(wave, 100.0 / SAMPLE_RATE)).sum();
            assert!(sum.abs() / 48_000.0 < 0.01, "{wave:?}: {sum}");
        }
    }
}
