//! Plucked strings: a noise burst in a damped delay line (Karplus and Strong 1983; Jaffe and Smith 1983).

use super::dsp::{Adsr, DcBlock, Envelope, LN_60_DB, Noise, SAMPLE_RATE};

/// Parameters of a plucked string.
#[derive(Debug, Clone, Copy)]
pub struct PluckPatch {
    /// Brightness of the pluck, 0 to 1.
    pub bright: f32,
    /// Seconds until the string of middle C has decayed by 60 dB.
    pub ring: f32,
    /// Weight of the newest sample in the damping average, 0.5 to 1; higher values damp high partials less.
    pub edge: f32,
    /// Plucking position as a fraction of the length.
    pub pluck_position: f32,
    /// Release time in seconds.
    pub release: f32,
}

/// Sounding string.
#[derive(Debug, Clone)]
pub struct Pluck {
    /// One period of the string as a ring buffer, and the next position in it.
    string: Vec<f32>,
    at: usize,
    /// Coefficient of the all-pass filter that tunes the fraction of a sample.
    allpass: f32,
    /// Last input and output of the all-pass filter.
    allpass_input: f32,
    allpass_output: f32,
    /// Last sample read from the string.
    last: f32,
    /// Weight of the newest sample in the damping average.
    edge: f32,
    /// Gain of each pass through the string.
    loss: f32,
    envelope: Envelope,
    dc: DcBlock,
}

impl Pluck {
    /// Starts a note.
    #[must_use]
    pub fn new(patch: &PluckPatch, hertz: f32, velocity: f32, held_frames: u32, seed: u64) -> Self {
        let edge = patch.edge.clamp(0.5, 0.999);

        // The two-sample average delays by 1 - edge samples; the all-pass filter provides the remaining fraction.
        let period = SAMPLE_RATE / hertz.max(20.0);
        let delay_samples = (period - (1.0 - edge) - 0.4).floor().max(2.0);
        let fraction = period - (1.0 - edge) - delay_samples;
        let length = delay_samples as usize;

        let mut noise = Noise::new(seed);
        let mut string: Vec<f32> = (0..length).map(|_| noise.sample()).collect();
        soften(&mut string, (patch.bright * (0.45 + 0.55 * velocity)).clamp(0.03, 1.0));
        attenuate_nodes(&mut string, patch.pluck_position);
        normalize(&mut string);

        let ring = patch.ring * (261.6 / hertz).powf(0.5).clamp(0.25, 2.2);
        let envelope = Adsr { attack: 0.001, decay: 1.0, sustain: 1.0, release: patch.release };

        Self {
            string,
            at: 0,
            allpass: (1.0 - fraction) / (1.0 + fraction),
            allpass_input: 0.0,
            allpass_output: 0.0,
            last: 0.0,
            edge,
            loss: (LN_60_DB / (ring * hertz)).exp(),
            envelope: Envelope::new(envelope, held_frames.min((ring * 1.3 * SAMPLE_RATE) as u32)),
            dc: DcBlock::default(),
        }
    }

    /// Adds the next samples; returns `false` once the note has ended.
    pub fn render(&mut self, out: &mut [f32]) -> bool {
        for sample in out.iter_mut() {
            let now = self.string[self.at];
            let averaged = self.edge * now + (1.0 - self.edge) * self.last;
            self.last = now;

            let damped = averaged * self.loss;
            let tuned = self.allpass * (damped - self.allpass_output) + self.allpass_input;
            self.allpass_input = damped;
            self.allpass_output = tuned;

            self.string[self.at] = tuned;
            self.at = if self.at + 1 == self.string.len() { 0 } else { self.at + 1 };

            *sample += self.dc.next(now) * self.envelope.advance();
        }

        !self.envelope.is_over()
    }
}

/// Low-pass filters the burst, twice for a steeper slope. `bright` is 0 to 1; 1 leaves the burst unchanged.
fn soften(string: &mut [f32], bright: f32) {
    for _ in 0..2 {
        let mut last = 0.0;
        for sample in string.iter_mut() {
            last += bright * (*sample - last);
            *sample = last;
        }
    }
}

/// Attenuates the partials that have a node at the plucking position.
fn attenuate_nodes(string: &mut [f32], position: f32) {
    let gap = ((string.len() as f32 * position) as usize).max(1);
    let plucked = string.to_vec();
    for (at, sample) in string.iter_mut().enumerate() {
        *sample -= 0.9 * plucked[(at + plucked.len() - gap % plucked.len()) % plucked.len()];
    }
}

/// Removes the mean and scales the burst to a standard deviation of 0.5.
fn normalize(string: &mut [f32]) {
    let mean = string.iter().sum::<f32>() / string.len() as f32;
    for sample in string.iter_mut() {
        *sample -= mean;
    }
    let power = string.iter().map(|sample| sample * sample).sum::<f32>() / string.len() as f32;
    let gain = 0.5 / power.sqrt().max(0.000_1);
    for sample in string.iter_mut() {
        *sample *= gain;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_in_tune() {
        for hertz in [55.0, 110.0, 220.0, 440.0, 659.26, 987.77] {
            let patch = PluckPatch { bright: 0.5, ring: 6.0, edge: 0.6, pluck_position: 0.2, release: 0.1 };
            let mut out = vec![0.0; 48_000];
            Pluck::new(&patch, hertz, 0.8, 48_000, 7).render(&mut out);
            // The lag with the highest autocorrelation is the period. Eight periods reduce the interpolation error to
            // an eighth.
            let window = &out[8_000..20_000];
            let alike = |lag: f32| {
                let whole_lag = lag as usize;
                let part = lag.fract();
                let pairs = window
                    .windows(whole_lag + 2)
                    .map(|w| w[0] * (w[whole_lag] * (1.0 - part) + w[whole_lag + 1] * part));
                pairs.sum::<f32>()
            };
            let period = SAMPLE_RATE / hertz;
            let lags = (-60..=60).map(|step| period * (1.0 + step as f32 * 0.000_5));
            let best = lags.max_by(|a, b| alike(8.0 * a).total_cmp(&alike(8.0 * b))).unwrap();
            let cents = 1_200.0 * (period / best).log2();
            assert!(cents.abs() < 6.0, "{hertz}: {cents} cents");
        }
    }
}
