//! Loudness measurement (ITU-R BS.1770-4, EBU R 128), and the gain that brings a mix to the target.

use crate::piece::RATE;

/// Target loudness in LUFS: the level of streaming services.
pub const TARGET: f64 = -14.0;

/// Second-order filter of the standard, in double precision because its poles are close to the unit circle.
#[derive(Debug, Clone, Default)]
struct Biquad {
    /// Coefficients of the input.
    b: [f64; 3],
    /// Coefficients of the output.
    a: [f64; 2],
    state: [f64; 2],
}

impl Biquad {
    #[inline]
    fn next(&mut self, input: f64) -> f64 {
        let out = self.b[0] * input + self.state[0];
        self.state[0] = self.b[1] * input - self.a[0] * out + self.state[1];
        self.state[1] = self.b[2] * input - self.a[1] * out;
        out
    }
}

/// K-weighting of one channel at 48 kHz, with the coefficients of the standard.
#[derive(Debug, Clone)]
struct Weighting {
    shelf: Biquad,
    low_cut: Biquad,
}

impl Weighting {
    fn new() -> Self {
        let shelf = Biquad {
            b: [1.535_124_859_586_97, -2.691_696_189_406_38, 1.198_392_810_852_85],
            a: [-1.690_659_293_182_41, 0.732_480_774_215_85],
            ..Biquad::default()
        };
        let low_cut =
            Biquad { b: [1.0, -2.0, 1.0], a: [-1.990_047_454_833_98, 0.990_072_250_366_21], ..Biquad::default() };
        Self { shelf, low_cut }
    }

    /// Returns the power of the next weighted sample.
    #[inline]
    fn power(&mut self, sample: f32) -> f64 {
        let weighted = self.low_cut.next(self.shelf.next(f64::from(sample)));
        weighted * weighted
    }
}

/// Incremental loudness meter.
#[derive(Debug, Clone)]
pub struct Meter {
    sides: [Weighting; 2],
    /// Sum of the powers in the current 100 ms, and the number of their samples.
    sum: f64,
    count: usize,
    /// Mean power of each 100 ms.
    tenths: Vec<f64>,
}

/// Samples in 100 ms.
const TENTH: usize = RATE as usize / 10;
/// Length of a measurement block of the standard, in units of 100 ms.
const BLOCK: usize = 4;

impl Default for Meter {
    fn default() -> Self {
        Self { sides: [Weighting::new(), Weighting::new()], sum: 0.0, count: 0, tenths: Vec::new() }
    }
}

impl Meter {
    /// Measures more samples.
    pub fn add(&mut self, left: &[f32], right: &[f32]) {
        for (left, right) in left.iter().zip(right) {
            self.sum += self.sides[0].power(*left) + self.sides[1].power(*right);
            self.count += 1;
            if self.count == TENTH {
                self.tenths.push(self.sum / TENTH as f64);
                self.sum = 0.0;
                self.count = 0;
            }
        }
    }

    /// Returns the gated loudness so far in LUFS, or `None` before 0.4 seconds or in silence.
    #[must_use]
    pub fn integrated(&self) -> Option<f64> {
        gated_loudness(&self.tenths)
    }
}

/// Returns the gated loudness of the mean powers of 100 ms each.
fn gated_loudness(tenths: &[f64]) -> Option<f64> {
    let blocks: Vec<f64> = tenths.windows(BLOCK).map(|block| block.iter().sum::<f64>() / BLOCK as f64).collect();
    let mean_above = |gate: f64| {
        let loud: Vec<f64> = blocks.iter().copied().filter(|power| loudness(*power) > gate).collect();
        (!loud.is_empty()).then(|| loud.iter().sum::<f64>() / loud.len() as f64)
    };
    let absolute = mean_above(-70.0)?;
    mean_above(loudness(absolute) - 10.0).map(loudness)
}

/// Returns the loudness of a mean power in LUFS.
fn loudness(power: f64) -> f64 {
    -0.691 + 10.0 * power.max(1e-12).log10()
}

/// Gain control during rendering.
///
/// The power expected from the score gives the relative level of each moment; the measured loudness corrects the error
/// of that estimate.
#[derive(Debug, Clone)]
pub struct Leveller {
    /// Expected mean power of each 100 ms.
    expected: Vec<f64>,
    /// Gain in decibels that follows from the expectation.
    base_db: f64,
    /// Loudness before the gain.
    raw: Meter,
    /// Loudness of the final output.
    output_meter: Meter,
    /// Current correction of the gain in decibels.
    correction_db: f64,
}

/// Maximum correction of the expectation in decibels.
const CORRECTION_MAX_DB: f64 = 14.0;
/// Maximum change of the correction in decibels per second.
const CORRECTION_SPEED: f64 = 1.2;

impl Leveller {
    /// Creates a leveller from the expected power of each 100 ms of the piece.
    #[must_use]
    pub fn new(expected: Vec<f64>) -> Self {
        let overall = gated_loudness(&expected).or_else(|| ungated_loudness(&expected)).unwrap_or(TARGET);
        Self {
            expected,
            base_db: TARGET - overall,
            raw: Meter::default(),
            output_meter: Meter::default(),
            correction_db: 0.0,
        }
    }

    /// Measures the next samples and returns the gain in decibels for their end. Their start uses the gain of the
    /// previous call.
    pub fn look_ahead(&mut self, left: &[f32], right: &[f32]) -> f64 {
        let is_first_call = self.raw.tenths.is_empty();
        self.raw.add(left, right);
        let so_far = self.raw.tenths.len().min(self.expected.len());

        let Some(expected) =
            gated_loudness(&self.expected[..so_far]).or_else(|| ungated_loudness(&self.expected[..so_far]))
        else {
            return self.base_db + self.correction_db;
        };
        let Some(raw) = self.raw.integrated().or_else(|| ungated_loudness(&self.raw.tenths)) else {
            return self.base_db + self.correction_db;
        };

        // The loss in the limiter counts too, with more weight as more of it is measured.
        let limited =
            self.output_meter.integrated().map_or(0.0, |output| (expected + self.base_db - output).clamp(-2.0, 3.0));
        let confidence = (so_far as f64 / 40.0).min(1.0);
        let offset_db = (expected - raw).clamp(-CORRECTION_MAX_DB, CORRECTION_MAX_DB);
        let target_db = offset_db + confidence * (limited - (offset_db - self.correction_db)).clamp(-1.5, 2.5) * 0.7;

        let seconds = left.len() as f64 / f64::from(RATE);
        let step = if is_first_call { CORRECTION_MAX_DB } else { CORRECTION_SPEED * seconds };
        self.correction_db += (target_db - self.correction_db).clamp(-step, step);
        self.base_db + self.correction_db
    }

    /// Measures the final output.
    pub fn measure_output(&mut self, left: &[f32], right: &[f32]) {
        self.output_meter.add(left, right);
    }
}

/// Returns the loudness of the mean power, without the gates of the standard; `None` in silence.
fn ungated_loudness(tenths: &[f64]) -> Option<f64> {
    (!tenths.is_empty())
        .then(|| loudness(tenths.iter().sum::<f64>() / tenths.len() as f64))
        .filter(|lufs| *lufs > -90.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::dsp::sine;

    fn tone(hertz: f32, level: f32, seconds: f32) -> Vec<f32> {
        (0..(seconds * RATE as f32) as usize).map(|at| level * sine(hertz * at as f32 / RATE as f32)).collect()
    }

    #[test]
    fn the_loudness_meter_matches_the_standard() {
        // A full-scale sine of 997 Hz in one channel is -3.01 LUFS.
        let mut meter = Meter::default();
        let wave = tone(997.0, 1.0, 2.0);
        meter.add(&wave, &vec![0.0; wave.len()]);
        assert!((meter.integrated().unwrap() + 3.01).abs() < 0.1, "{:?}", meter.integrated());
        // Silence afterwards does not change the result.
        meter.add(&vec![0.0; 96_000], &vec![0.0; 96_000]);
        assert!((meter.integrated().unwrap() + 3.01).abs() < 0.5);
        assert_eq!(Meter::default().integrated(), None);
    }

    #[test]
    fn the_leveller_reaches_the_target_and_keeps_the_dynamics() {
        // Ten seconds of which the second half is twice as loud, as expected, but all 9 dB softer than expected.
        let expected: Vec<f64> = (0..100).map(|tenth| if tenth < 50 { 0.01 } else { 0.04 }).collect();
        let mut leveller = Leveller::new(expected);
        let mut meter = Meter::default();
        let mut gains = Vec::new();
        let mut gain = None;
        for second in 0..20 {
            let level = if second < 10 { 0.1 } else { 0.2 } * 0.355 * 1.2;
            let part = tone(997.0, level, 0.5);
            let next = leveller.look_ahead(&part, &part);
            let from = gain.unwrap_or(next);
            let scaled: Vec<f32> =
                part.iter().map(|sample| sample * 10_f32.powf((from + next) as f32 / 40.0)).collect();
            leveller.measure_output(&scaled, &scaled);
            meter.add(&scaled, &scaled);
            gains.push(next);
            gain = Some(next);
        }
        assert!((meter.integrated().unwrap() - TARGET).abs() < 1.0, "{:?}", meter.integrated());
        assert!((gains[9] - gains[19]).abs() < 1.5, "{gains:?}");
    }
}
