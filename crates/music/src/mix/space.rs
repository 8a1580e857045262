//! Reverb, echo and chorus.

use crate::piece::{RATE, Space};
use crate::synth::dsp::sine;

/// Ring buffer of samples.
#[derive(Debug, Clone)]
struct DelayLine {
    samples: Vec<f32>,
    /// Index of the oldest sample.
    at: usize,
}

impl DelayLine {
    fn new(length: usize) -> Self {
        Self { samples: vec![0.0; length.max(1)], at: 0 }
    }

    /// Replaces the oldest sample and returns it.
    #[inline]
    fn swap(&mut self, input: f32) -> f32 {
        let oldest = std::mem::replace(&mut self.samples[self.at], input);
        self.at = if self.at + 1 == self.samples.len() { 0 } else { self.at + 1 };
        oldest
    }

    /// Returns the oldest sample.
    #[inline]
    fn oldest(&self) -> f32 {
        self.samples[self.at]
    }

    /// Returns the sample that is `age` samples old, with linear interpolation.
    #[inline]
    fn delayed(&self, age: f32) -> f32 {
        let length = self.samples.len();
        let whole_samples = age as usize;
        let fraction = age - whole_samples as f32;
        let newest = self.at + length - 1;
        let near = self.samples[(newest - whole_samples) % length];
        let far = self.samples[(newest - whole_samples - 1) % length];
        near + fraction * (far - near)
    }
}

/// Reverb: a feedback delay network of eight lines with an energy-preserving matrix (Jot 1991).
#[derive(Debug, Clone)]
pub struct Reverb {
    /// Delay of the input by channel: 20 and 23 ms.
    early_reflections: [DelayLine; 2],
    lines: [DelayLine; LINES],
    /// Gain of each pass through a line.
    gains: [f32; LINES],
    /// State of the low-pass filter of each line.
    damped: [f32; LINES],
    /// Weight of the previous sample in the low-pass filters.
    damping: f32,
}

/// Number of delay lines.
const LINES: usize = 8;
/// Lengths of the delay lines in samples, without common divisors.
const LENGTHS: [usize; LINES] = [1_423, 1_733, 2_053, 2_437, 2_791, 3_121, 3_547, 3_931];

impl Reverb {
    /// Creates a reverb whose sound decays by 60 dB in the given number of seconds.
    #[must_use]
    pub fn new(seconds: f32) -> Self {
        let rate = RATE as f32;
        let gain = |length: usize| 10_f32.powf(-3.0 * length as f32 / (seconds.max(0.2) * rate));

        Self {
            early_reflections: [DelayLine::new(960), DelayLine::new(1_117)],
            lines: LENGTHS.map(DelayLine::new),
            gains: LENGTHS.map(gain),
            damped: [0.0; LINES],
            damping: 0.42,
        }
    }

    /// Adds the reverb of the left and right input `send` to both channels.
    pub fn render(&mut self, send: (&[f32], &[f32]), left: &mut [f32], right: &mut [f32]) {
        for (at, (left, right)) in left.iter_mut().zip(right.iter_mut()).enumerate() {
            let input = [self.early_reflections[0].swap(send.0[at]), self.early_reflections[1].swap(send.1[at])];

            let mut line_outputs = [0.0; LINES];
            for (index, out) in line_outputs.iter_mut().enumerate() {
                let oldest = self.lines[index].oldest();
                self.damped[index] += (1.0 - self.damping) * (oldest - self.damped[index]);
                *out = self.damped[index] * self.gains[index];
            }

            *left += (line_outputs[0] + line_outputs[2] - line_outputs[4] + line_outputs[6]) * 0.5;
            *right += (line_outputs[1] - line_outputs[3] + line_outputs[5] + line_outputs[7]) * 0.5;

            hadamard_transform(&mut line_outputs);
            for (index, sample) in line_outputs.into_iter().enumerate() {
                // The lines get the left and the right channel alternately.
                self.lines[index].swap(sample + 0.5 * input[index % 2]);
            }
        }
    }
}

/// Multiplies by a normalized Hadamard matrix.
#[inline]
fn hadamard_transform(values: &mut [f32; LINES]) {
    let mut gap = 1;
    while gap < LINES {
        for at in 0..LINES {
            if at & gap == 0 {
                let a = values[at];
                let b = values[at | gap];
                (values[at], values[at | gap]) = (a + b, a - b);
            }
        }
        gap *= 2;
    }

    // The square root of 1/8 preserves the energy.
    for value in values.iter_mut() {
        *value *= 0.353_553_4;
    }
}

/// Ping-pong echo that loses treble with each repeat.
#[derive(Debug, Clone)]
pub struct Echo {
    lines: [DelayLine; 2],
    /// State of the low-pass filter of each line.
    dulled: [f32; 2],
    feedback: f32,
}

impl Echo {
    /// Creates the echo of a piece.
    #[must_use]
    pub fn new(space: &Space) -> Self {
        let line = || DelayLine::new(space.echo_frames as usize);
        Self { lines: [line(), line()], dulled: [0.0; 2], feedback: space.echo_feedback.clamp(0.0, 0.8) }
    }

    /// Adds the repeats of the left and right input `send` to both channels.
    pub fn render(&mut self, send: (&[f32], &[f32]), left: &mut [f32], right: &mut [f32]) {
        for (at, (left, right)) in left.iter_mut().zip(right.iter_mut()).enumerate() {
            let input = 0.5 * (send.0[at] + send.1[at]);
            let echoes = [self.lines[0].oldest(), self.lines[1].oldest()];

            for (dulled, echo) in self.dulled.iter_mut().zip(echoes) {
                *dulled += 0.45 * (echo - *dulled);
            }

            // The repeats of the left line feed the right line and vice versa.
            self.lines[0].swap(input + self.feedback * self.dulled[1]);
            self.lines[1].swap(self.feedback.max(0.3) * self.dulled[0]);
            *left += echoes[0];
            *right += echoes[1];
        }
    }
}

/// Chorus: two more voices with drifting pitch, one on each side.
#[derive(Debug, Clone)]
pub struct Chorus {
    line: DelayLine,
    /// Phase of the drift in periods.
    phase: f32,
}

/// Maximum delay of a voice in samples.
const DRIFT: usize = 1_440;

impl Chorus {
    /// Creates a chorus at the given phase of its drift.
    #[must_use]
    pub fn new(phase: f32) -> Self {
        Self { line: DelayLine::new(DRIFT), phase }
    }

    /// Widens mono samples: adds them to both channels with the gains of left and right.
    pub fn render(&mut self, input: &[f32], gains: (f32, f32), left: &mut [f32], right: &mut [f32]) {
        for (sample, (left, right)) in input.iter().zip(left.iter_mut().zip(right.iter_mut())) {
            self.line.swap(*sample);
            self.phase += 0.55 / RATE as f32;
            self.phase -= self.phase.floor();
            let drift = |away: f32| 620.0 + 260.0 * sine(self.phase + away);
            *left += gains.0 * (0.62 * sample + 0.55 * self.line.delayed(drift(0.0)));
            *right += gains.1 * (0.62 * sample + 0.55 * self.line.delayed(drift(0.37)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reverb_decays_in_its_time_and_is_wide() {
        for seconds in [1.0, 3.0] {
            let mut reverb = Reverb::new(seconds);
            let mut send = vec![0.0; 48_000 * 4];
            send[0] = 1.0;
            let mut left = vec![0.0; send.len()];
            let mut right = vec![0.0; send.len()];
            reverb.render((&send, &send), &mut left, &mut right);
            let power = |from: f32| left[(from * 48_000.0) as usize..].iter().take(4_800).map(|s| s * s).sum::<f32>();
            let fallen = 10.0 * (power(0.15) / power(0.15 + seconds / 2.0)).log10();
            assert!((24.0..60.0).contains(&fallen), "{seconds}: {fallen} dB in half the time");
            let correlation =
                left.iter().zip(&right).map(|(l, r)| l * r).sum::<f32>() / left.iter().map(|l| l * l).sum::<f32>();
            assert!(correlation.abs() < 0.35, "{correlation}");
        }
    }

    #[test]
    fn an_echo_repeats_from_side_to_side() {
        let space = Space {
            reverb_seconds: 1.0,
            echo_frames: 1_000,
            echo_feedback: 0.5,
            tape_hertz: None,
            fade_frames: 0,
            seamless: false,
            texture: None,
        };
        let mut send = vec![0.0; 5_000];
        send[0] = 1.0;
        let mut left = vec![0.0; 5_000];
        let mut right = vec![0.0; 5_000];
        Echo::new(&space).render((&send, &send), &mut left, &mut right);
        assert!(left[1_000] > 0.9);
        assert!(left[1_500].abs() < 1e-6);
        assert!(right[2_000..2_010].iter().sum::<f32>() > 0.2);
        assert!(right[1_000].abs() < 1e-6);
    }
}
