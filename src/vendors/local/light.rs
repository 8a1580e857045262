//! Light and its code: sRGB values are how light is written down, and mixing is right only in light itself.
//!
//! Curves are polynomials, as near as their degree allows, instead of powers: no calls, so that loops work on many samples at
//! once.

use multiversion::multiversion;

use super::colour::{joined, split};

/// The curve of sRGB above its straight beginning, within four millionths.
const LIGHT: [f32; 8] = [
    0.000_870_191_3,
    0.034_663_882,
    0.494_246_07,
    0.804_604_1,
    -0.663_273_16,
    0.544_300_1,
    -0.277_580_14,
    0.062_168_993,
];
/// The way back, over the fourth root of light, of which the code is nearly a parabola; within three millionths.
const CODE: [f32; 7] =
    [-0.059_546_456, 0.139_604_54, 1.365_916_1, -0.852_948_84, 0.657_177_4, -0.318_408_76, 0.068_206_02];

/// A polynomial of at most eight factors, the constant first. Pairs are summed first, then pairs of those (Estrin's scheme): a
/// processor that waits for one sum has others to work on, which it has not by Horner's.
#[inline]
fn polynomial<const N: usize>(factors: &[f32; N], x: f32) -> f32 {
    const { assert!(N > 4 && N <= 8) };
    let pair = |at: usize| if at + 1 < N { factors[at] + x * factors[at + 1] } else { factors[at] };
    let squared = x * x;
    let low = pair(0) + squared * pair(2);
    let high = if N > 6 { pair(4) + squared * pair(6) } else { pair(4) };
    low + squared * squared * high
}

/// The light of an sRGB value, both from 0 to 1; what lies outside is cut.
#[must_use]
pub fn to_light(value: f32) -> f32 {
    let value = value.clamp(0.0, 1.0);
    let (straight, curved) = (value * (1.0 / 12.92), polynomial(&LIGHT, value));
    if value <= 0.04045 { straight } else { curved }
}

/// The sRGB value of light, both from 0 to 1; what lies outside is cut.
#[must_use]
pub fn to_code(light: f32) -> f32 {
    let light = light.clamp(0.0, 1.0);
    let (straight, curved) = (12.92 * light, polynomial(&CODE, light.sqrt().sqrt()));
    if light <= 0.003_130_8 { straight } else { curved }
}

/// How much of the light of red, green and blue the eye sees (BT.709).
#[must_use]
pub fn luminance([red, green, blue]: [f32; 3]) -> f32 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Taylor's series of the exponential function.
const POWER: [f32; 6] = [1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0];

/// Added to a number, leaves its nearest whole number in the lowest bits.
const WHOLE: f32 = 12_582_912.0;

/// Two to the power of `stops`, from -126 to 127, to six digits: a gain in stops of light.
#[must_use]
pub fn gain_of(stops: f32) -> f32 {
    let stops = stops.clamp(-126.0, 126.0);
    let moved = stops + WHOLE;
    let part = stops - (moved - WHOLE);
    // The part is at most a half: the series meets it within three millionths.
    let power = polynomial(&POWER, part * std::f32::consts::LN_2);
    let exponent = moved.to_bits().wrapping_sub(WHOLE.to_bits()).wrapping_add(127);
    f32::from_bits(exponent << 23) * power
}

/// The logarithm of light to the base of two, to six digits: its stops. Not of 0.
#[must_use]
pub fn stops_of(light: f32) -> f32 {
    const FACTORS: [f32; 7] =
        [1.442_696_3, -0.721_367_7, 0.480_648_7, -0.359_184_86, 0.295_100_06, -0.270_976_8, 0.176_165_04];
    // The part is from the square root of a half to that of two.
    let exponent = (light.to_bits() as i32 - 0x3F35_04F3) >> 23;
    let part = f32::from_bits((light.to_bits() as i32 - (exponent << 23)) as u32) - 1.0;
    exponent as f32 + part * polynomial(&FACTORS, part)
}

/// Light after a gain. What is raised comes near white, 1, and never over it; a gain of 1 changes nothing.
#[must_use]
pub fn lit(light: f32, gain: f32) -> f32 {
    gain * light / (1.0 + (gain - 1.0).max(0.0) * light)
}

/// Multiplies the light of a row of luma, blue and red by the gains of red, green and blue, and adds `glow`, so much of it; what
/// has become bright comes near white and never over it.
#[multiversion(targets("x86_64+avx2"))]
pub fn light_up([lumas, blues, reds]: &mut [&mut [f32]; 3], gains: [&[f32]; 3], glow: &[f32], amount: f32) {
    let samples = lumas.iter_mut().zip(blues.iter_mut()).zip(reds.iter_mut()).zip(glow);
    let [of_red, of_green, of_blue] = gains;
    let gains = of_red.iter().zip(of_green).zip(of_blue);
    for ((((luma, blue), red), glow), ((of_red, of_green), of_blue)) in samples.zip(gains) {
        let spread = amount * glow;
        let pixel = joined([*luma, *blue, *red]);
        let gains = [*of_red, *of_green, *of_blue];
        let pixel: [f32; 3] = std::array::from_fn(|at| {
            let light = lit(to_light(pixel[at]), gains[at]);
            to_code(light + spread * (1.0 - light))
        });
        [*luma, *blue, *red] = split(pixel);
    }
}

/// From 0 to 1 where `value` goes from `low` to `high`, without a kink.
#[must_use]
pub fn ramp(value: f32, low: f32, high: f32) -> f32 {
    let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
    share * share * (3.0 - 2.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_the_way_to_light_and_back() {
        for byte in 0..=255_u8 {
            let value = f32::from(byte) / 255.0;
            assert!((to_code(to_light(value)) - value).abs() < 2e-4, "{byte}");
        }
        assert!((lit(0.3, 1.0) - 0.3).abs() < 1e-6 && (lit(1.0, 9.0) - 1.0).abs() < 1e-6 && lit(0.3, 2.0) > 0.4);
        assert!((to_light(0.5) - 0.2140).abs() < 1e-4);
        for stops in (-80..80).map(|step| step as f32 / 7.0) {
            assert!((gain_of(stops) / stops.exp2() - 1.0).abs() < 5e-6, "{stops}");
        }
        assert!(gain_of(f32::MAX).is_finite() && gain_of(f32::MIN) > 0.0);
        for light in (1..400).map(|step| step as f32 / 97.0) {
            assert!((stops_of(light) - light.log2()).abs() < 5e-6, "{light}");
            let exact = if light <= 0.04045 { light / 12.92 } else { ((light + 0.055) / 1.055).powf(2.4) };
            assert!((to_light(light) - exact.min(1.0)).abs() < 5e-6, "{light}");
        }
        assert!([to_light(-1.0), to_code(-1.0), ramp(-1.0, 0.0, 1.0)].iter().all(|value| value.abs() < 1e-6));
        assert!([to_light(2.0), to_code(2.0), ramp(2.0, 0.0, 1.0)].iter().all(|value| (value - 1.0).abs() < 1e-6));
    }
}
