//! Conversion between sRGB values and linear light. Mixing is correct only in linear light.
//!
//! Curves are approximated by polynomials instead of powers, because calls would prevent vectorization.

use multiversion::multiversion;

use crate::colour::{split, to_rgb};

/// Coefficients of the curve from sRGB to linear light, above its linear part; the error is at most 4e-6.
const LIGHT_FROM_SRGB: [f32; 8] = [
    0.000_870_191_3,
    0.034_663_882,
    0.494_246_07,
    0.804_604_1,
    -0.663_273_16,
    0.544_300_1,
    -0.277_580_14,
    0.062_168_993,
];
/// Coefficients of the inverse curve over the fourth root of light, where it is nearly a parabola; the error is at most
/// 3e-6.
const SRGB_FROM_LIGHT: [f32; 7] =
    [-0.059_546_456, 0.139_604_54, 1.365_916_1, -0.852_948_84, 0.657_177_4, -0.318_408_76, 0.068_206_02];

/// Evaluates a polynomial of five to eight coefficients, the constant first, by Estrin's scheme, which allows more
/// parallel operations than Horner's.
#[inline]
fn polynomial<const N: usize>(factors: &[f32; N], x: f32) -> f32 {
    const { assert!(N > 4 && N <= 8) };
    let pair = |at: usize| if at + 1 < N { factors[at] + x * factors[at + 1] } else { factors[at] };

    let squared = x * x;
    let low = pair(0) + squared * pair(2);
    let high = if N > 6 { pair(4) + squared * pair(6) } else { pair(4) };

    low + squared * squared * high
}

/// Converts an sRGB value to linear light. Values are clamped to 0 to 1.
#[must_use]
pub fn to_light(value: f32) -> f32 {
    let value = value.clamp(0.0, 1.0);
    let straight = value * (1.0 / 12.92);
    let curved = polynomial(&LIGHT_FROM_SRGB, value);
    if value <= 0.04045 { straight } else { curved }
}

/// Converts linear light to an sRGB value. Values are clamped to 0 to 1.
#[must_use]
pub fn to_srgb(light: f32) -> f32 {
    let light = light.clamp(0.0, 1.0);
    let straight = 12.92 * light;
    let curved = polynomial(&SRGB_FROM_LIGHT, light.sqrt().sqrt());
    if light <= 0.003_130_8 { straight } else { curved }
}

/// Returns the luminance of linear red, green and blue (BT.709).
#[must_use]
pub fn luminance([red, green, blue]: [f32; 3]) -> f32 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Coefficients of the Taylor series of the exponential function.
const EXPONENTIAL: [f32; 6] = [1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0];

/// 1.5 times 2^23. The sum with a small number has the nearest integer of that number in its lowest bits.
const ROUNDING_OFFSET: f32 = 12_582_912.0;

/// Returns two to the power of `stops` to six digits. `stops` is clamped to -126 to 126.
#[must_use]
pub fn gain_of(stops: f32) -> f32 {
    let stops = stops.clamp(-126.0, 126.0);
    let shifted = stops + ROUNDING_OFFSET;
    let part = stops - (shifted - ROUNDING_OFFSET);

    // The fraction is at most one half, where the error of the series is below 3e-6.
    let power = polynomial(&EXPONENTIAL, part * std::f32::consts::LN_2);
    let exponent = shifted.to_bits().wrapping_sub(ROUNDING_OFFSET.to_bits()).wrapping_add(127);
    f32::from_bits(exponent << 23) * power
}

/// Returns the binary logarithm of light to six digits. The result for 0 is undefined.
#[must_use]
pub fn stops_of(light: f32) -> f32 {
    const FACTORS: [f32; 7] =
        [1.442_696_3, -0.721_367_7, 0.480_648_7, -0.359_184_86, 0.295_100_06, -0.270_976_8, 0.176_165_04];
    // The fraction is between the square roots of one half and of two.
    let exponent = (light.to_bits() as i32 - 0x3F35_04F3) >> 23;
    let part = f32::from_bits((light.to_bits() as i32 - (exponent << 23)) as u32) - 1.0;
    exponent as f32 + part * polynomial(&FACTORS, part)
}

/// Applies a gain to light. A gain above 1 approaches white (1) and never exceeds it; a gain of 1 has no effect.
#[must_use]
pub fn apply_gain(light: f32, gain: f32) -> f32 {
    gain * light / (1.0 + (gain - 1.0).max(0.0) * light)
}

/// Applies gains of red, green and blue to a row of luma, blue and red, and adds `glow` times `amount`. Results
/// approach white and never exceed it.
#[multiversion(targets("x86_64+avx2"))]
pub fn light_up([lumas, blues, reds]: &mut [&mut [f32]; 3], gains: [&[f32]; 3], glow: &[f32], amount: f32) {
    let samples = lumas.iter_mut().zip(blues.iter_mut()).zip(reds.iter_mut()).zip(glow);
    let [red_gain, green_gain, blue_gain] = gains;
    let gains = red_gain.iter().zip(green_gain).zip(blue_gain);

    for ((((luma, blue), red), glow), ((red_gain, green_gain), blue_gain)) in samples.zip(gains) {
        let spread = amount * glow;
        let pixel = to_rgb([*luma, *blue, *red]);
        let gains = [*red_gain, *green_gain, *blue_gain];

        let pixel: [f32; 3] = std::array::from_fn(|at| {
            let light = apply_gain(to_light(pixel[at]), gains[at]);
            to_srgb(light + spread * (1.0 - light))
        });

        [*luma, *blue, *red] = split(pixel);
    }
}

/// Returns the smoothstep of `value`, which rises from 0 to 1 between `low` and `high`.
#[must_use]
pub fn ramp(value: f32, low: f32, high: f32) -> f32 {
    let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
    share * share * (3.0 - 2.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_round_trips_through_linear_light() {
        for byte in 0..=255_u8 {
            let value = f32::from(byte) / 255.0;
            assert!((to_srgb(to_light(value)) - value).abs() < 2e-4, "{byte}");
        }
        assert!((to_light(0.5) - 0.2140).abs() < 1e-4);
    }

    #[test]
    fn a_gain_of_one_has_no_effect_and_white_stays_white() {
        assert!(
            (apply_gain(0.3, 1.0) - 0.3).abs() < 1e-6
                && (apply_gain(1.0, 9.0) - 1.0).abs() < 1e-6
                && apply_gain(0.3, 2.0) > 0.4
        );
    }

    #[test]
    fn approximations_are_close_to_the_exact_functions() {
        for stops in (-80..80).map(|step| step as f32 / 7.0) {
            assert!((gain_of(stops) / stops.exp2() - 1.0).abs() < 5e-6, "{stops}");
        }
        assert!(gain_of(f32::MAX).is_finite() && gain_of(f32::MIN) > 0.0);

        for light in (1..400).map(|step| step as f32 / 97.0) {
            assert!((stops_of(light) - light.log2()).abs() < 5e-6, "{light}");
            let expected = if light <= 0.04045 { light / 12.92 } else { ((light + 0.055) / 1.055).powf(2.4) };
            assert!((to_light(light) - expected.min(1.0)).abs() < 5e-6, "{light}");
        }
    }

    #[test]
    fn values_outside_the_range_are_clamped() {
        assert!([to_light(-1.0), to_srgb(-1.0), ramp(-1.0, 0.0, 1.0)].iter().all(|value| value.abs() < 1e-6));
        assert!([to_light(2.0), to_srgb(2.0), ramp(2.0, 0.0, 1.0)].iter().all(|value| (value - 1.0).abs() < 1e-6));
    }
}
