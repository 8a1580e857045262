//! Look-ahead limiter. It catches peaks between samples and lowers the gain smoothly, without distortion.

use std::collections::VecDeque;

/// Maximum output peak as a fraction of full scale: -2.2 dB, which leaves headroom for the codec.
pub const CEILING: f32 = 0.776;

/// Look-ahead in samples: 5 ms, in which the gain falls.
const AHEAD: usize = 240;
/// Taps of each interpolation filter for peaks between samples.
const TAPS: usize = 12;
/// Fraction of the lost gain that recovers with each sample: most of it within 120 ms.
const RECOVERY: f32 = 1.0 / 5_760.0;

/// Delay of the output in samples.
pub const LATENCY: usize = AHEAD - 1 + TAPS / 2;

/// Stereo limiter with one gain for both channels.
#[derive(Debug, Clone)]
pub struct Limiter {
    /// Delayed samples by channel.
    delayed: [VecDeque<f32>; 2],
    /// Most recent samples by channel, for the interpolation.
    recent: [[f32; TAPS]; 2],
    /// Interpolation filters at a quarter, half and three quarters between two samples.
    between: [[f32; TAPS]; 3],
    /// Candidate minimum gains of the window in rising order, each with its sample number.
    minima: VecDeque<(u64, f32)>,
    /// Gains of the last `AHEAD` samples, whose mean is applied.
    smooth: VecDeque<f32>,
    smooth_sum: f64,
    /// Most recent gain, before the mean.
    gain: f32,
    /// Number of the current sample.
    now: u64,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            delayed: [(); 2].map(|()| VecDeque::from(vec![0.0; LATENCY])),
            recent: [[0.0; TAPS]; 2],
            between: [0.25, 0.5, 0.75].map(interpolator),
            minima: VecDeque::new(),
            smooth: VecDeque::from(vec![1.0; AHEAD]),
            smooth_sum: AHEAD as f64,
            gain: 1.0,
            now: 0,
        }
    }
}

/// Returns a windowed sinc that interpolates at the fraction `part` after sample `TAPS / 2 - 1`.
fn interpolator(part: f32) -> [f32; TAPS] {
    let centre = TAPS as f32 / 2.0 - 1.0 + part;
    let mut taps: [f32; TAPS] = std::array::from_fn(|at| {
        let x = (at as f32 - centre) * std::f32::consts::PI;
        let sinc = if x.abs() < 1e-6 { 1.0 } else { x.sin() / x };
        let window = (x / TAPS as f32).cos();
        sinc * window * window
    });

    let sum: f32 = taps.iter().sum();
    for tap in &mut taps {
        *tap /= sum;
    }

    taps
}

impl Limiter {
    /// Limits the samples in place. The output is delayed by [`LATENCY`] samples.
    pub fn render(&mut self, left: &mut [f32], right: &mut [f32]) {
        for (left, right) in left.iter_mut().zip(right.iter_mut()) {
            let peak = self.next_peak([*left, *right]);
            let target_gain = if peak > CEILING { CEILING / peak } else { 1.0 };
            let gain = self.next_gain(target_gain);
            for (sample, delayed) in [left, right].into_iter().zip(&mut self.delayed) {
                delayed.push_back(*sample);
                *sample = delayed.pop_front().unwrap_or(0.0) * gain;
            }
        }
    }

    /// Adds a sample of each channel. Returns the highest absolute value at the centre of the recent samples, including
    /// interpolated values.
    fn next_peak(&mut self, samples: [f32; 2]) -> f32 {
        let mut peak = 0.0_f32;
        for (recent, sample) in self.recent.iter_mut().zip(samples) {
            recent.copy_within(1.., 0);
            recent[TAPS - 1] = sample;

            let near = recent[TAPS / 2 - 1].abs().max(recent[TAPS / 2].abs());
            peak = peak.max(near);

            // Peaks between samples that are far below the ceiling cannot exceed it.
            if near > 0.4 * CEILING {
                for taps in &self.between {
                    let sum: f32 = taps.iter().zip(recent.iter()).map(|(tap, sample)| tap * sample).sum();
                    peak = peak.max(sum.abs());
                }
            }
        }
        peak
    }

    /// Adds a target gain. Returns the smoothed minimum of the target gains in the window, with gradual recovery.
    fn next_gain(&mut self, target_gain: f32) -> f32 {
        while self.minima.back().is_some_and(|(_, gain)| *gain >= target_gain) {
            self.minima.pop_back();
        }

        self.minima.push_back((self.now, target_gain));

        while self.minima.front().is_some_and(|(at, _)| at + AHEAD as u64 <= self.now) {
            self.minima.pop_front();
        }

        self.now += 1;
        let minimum = self.minima.front().map_or(1.0, |(_, gain)| *gain);
        self.gain = minimum.min(self.gain + (1.0 - self.gain) * RECOVERY);

        self.smooth_sum += f64::from(self.gain) - f64::from(self.smooth.pop_front().unwrap_or(1.0));
        self.smooth.push_back(self.gain);
        (self.smooth_sum / AHEAD as f64) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SeededRng;

    #[test]
    fn quiet_signals_pass_unchanged_with_a_delay() {
        let wave: Vec<f32> = (0..4_800).map(|at| 0.5 * (at as f32 * 0.05).sin()).collect();
        let mut left = wave.clone();
        let mut right = wave.clone();
        Limiter::default().render(&mut left, &mut right);
        for at in LATENCY..4_800 {
            assert!((left[at] - wave[at - LATENCY]).abs() < 1e-5);
            assert!(left[at].to_bits() == right[at].to_bits());
        }
    }

    #[test]
    fn the_output_stays_below_the_ceiling_and_the_gain_is_continuous() {
        let mut rng = SeededRng::from_text("peaks");
        let wave: Vec<f32> = (0..48_000)
            .map(|at| {
                let burst = if at % 9_000 < 300 { 4.0 } else { 0.4 };
                burst * (at as f32 * 0.31).sin() + 0.3 * rng.between(-1.0, 1.0)
            })
            .collect();
        let mut left = wave.clone();
        let mut right = wave.clone();
        Limiter::default().render(&mut left, &mut right);
        assert!(left.iter().all(|sample| sample.abs() <= CEILING + 1e-4));

        let gains: Vec<f32> = (LATENCY..48_000)
            .filter(|at| wave[at - LATENCY].abs() > 0.2)
            .map(|at| left[at] / wave[at - LATENCY])
            .collect();
        assert!(gains.windows(2).all(|pair| (pair[1] - pair[0]).abs() < 0.06));
    }

    #[test]
    fn peaks_between_samples_are_seen() {
        // A sine at a quarter of the sample rate, sampled beside its peaks: each sample is 3 dB below them.
        let mut wave: Vec<f32> = (0..4_800).map(|at| ((at as f32 + 0.5) * std::f32::consts::FRAC_PI_2).sin()).collect();
        let mut other = wave.clone();
        Limiter::default().render(&mut wave, &mut other);
        let highest = wave[2_000..].iter().fold(0.0_f32, |highest, sample| highest.max(sample.abs()));
        assert!(highest < CEILING * 0.74, "{highest}");
    }
}
