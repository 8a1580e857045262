//! Oklab colour space (Björn Ottosson, "A perceptual color space for image processing", which defines the matrices):
//! lightness and two opponent axes with uniform perceptual steps and constant hue.
//!
//! The cube of lightness is linear light (exactly for greys), so light is mixed on cubes.

use std::sync::LazyLock;

/// Lightness from 0 to 1, green to red, blue to yellow.
pub type Lab = [f32; 3];

/// Linear light of every sRGB byte.
static LIGHT: LazyLock<[f32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|byte| {
        let value = byte as f32 / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
});

/// Entries of the table from light to bytes: at least five per byte in the dark, where bytes are closest.
const STEPS: usize = 16384;

/// sRGB values of linear light from 0 to 1 in [`STEPS`] steps, as bytes times 256.
static BYTES: LazyLock<Vec<u16>> = LazyLock::new(|| {
    let code = |step: usize| {
        let light = step as f32 / (STEPS - 1) as f32;
        let value = if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 };
        (value * 255.0 * 256.0) as u16
    };
    (0..STEPS).map(code).collect()
});

/// Returns the linear light of every sRGB byte.
pub fn light_of_bytes() -> &'static [f32; 256] {
    &LIGHT
}

/// Returns the sRGB byte of linear light. A fractional part of at least `1 - dither` rounds up, so a `dither` of 0.5
/// rounds to the nearest byte.
pub fn to_byte(light: f32, dither: f32) -> u8 {
    let code = BYTES[((light.clamp(0.0, 1.0) * (STEPS - 1) as f32 + 0.5) as usize).min(STEPS - 1)];
    ((u32::from(code) + (dither * 256.0) as u32) >> 8).min(255) as u8
}

/// Converts linear red, green and blue to Oklab.
pub fn from_linear([red, green, blue]: [f32; 3]) -> Lab {
    let long = cube_root(0.412_221_46 * red + 0.536_332_55 * green + 0.051_445_995 * blue);
    let middle = cube_root(0.211_903_5 * red + 0.680_699_5 * green + 0.107_396_96 * blue);
    let short = cube_root(0.088_302_46 * red + 0.281_718_85 * green + 0.629_978_7 * blue);
    [
        0.210_454_26 * long + 0.793_617_8 * middle - 0.004_072_047 * short,
        1.977_998_5 * long - 2.428_592_2 * middle + 0.450_593_7 * short,
        0.025_904_037 * long + 0.782_771_77 * middle - 0.808_675_77 * short,
    ]
}

/// Converts to linear red, green and blue. Colours outside of the gamut move towards grey of the same lightness.
pub fn to_linear([lightness, a, b]: Lab) -> [f32; 3] {
    let long = cube(lightness + 0.396_337_78 * a + 0.215_803_76 * b);
    let middle = cube(lightness - 0.105_561_346 * a - 0.063_854_17 * b);
    let short = cube(lightness - 0.089_484_18 * a - 1.291_485_5 * b);
    let light = [
        4.076_741_7 * long - 3.307_711_6 * middle + 0.230_969_94 * short,
        -1.268_438 * long + 2.609_757_4 * middle - 0.341_319_38 * short,
        -0.004_196_086_3 * long - 0.703_418_6 * middle + 1.707_614_7 * short,
    ];
    within_gamut(light, cube(lightness.clamp(0.0, 1.0)))
}

/// Moves a colour towards `grey` until red, green and blue are between 0 and 1.
fn within_gamut(light: [f32; 3], grey: f32) -> [f32; 3] {
    let share = light.iter().fold(1.0_f32, |share, part| {
        let away = part - grey;
        let headroom = if away > 0.0 { 1.0 - grey } else { grey };
        share.min(headroom / away.abs().max(1e-6))
    });
    light.map(|part| grey + share * (part - grey))
}

fn cube(value: f32) -> f32 {
    value * value * value
}

/// Returns the cube root of a non-negative value, exact to about one part in 30 000: an estimate from the exponent and
/// one Halley step.
pub fn cube_root(value: f32) -> f32 {
    let value = value.max(1e-9);
    let guess = f32::from_bits(value.to_bits() / 3 + 0x2A51_19F2);
    let cubed = cube(guess);
    guess * (cubed + 2.0 * value) / (2.0 * cubed + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_round_trips() {
        for colour in (0..=255_u8).flat_map(|byte| [[byte; 3], [byte, 255 - byte, 40], [byte, 0, 255], [9, 255, byte]])
        {
            let lab = from_linear(colour.map(|byte| LIGHT[usize::from(byte)]));
            assert_eq!(to_linear(lab).map(|light| to_byte(light, 0.5)), colour, "{lab:?}");
        }
    }

    #[test]
    fn the_cube_of_lightness_is_light() {
        for light in [0.01, 0.18, 0.5, 1.0] {
            assert!((cube(from_linear([light; 3])[0]) - light).abs() < 1e-3 * light);
        }
    }

    #[test]
    fn out_of_gamut_colours_keep_their_lightness() {
        let light = to_linear([0.6, 0.4, -0.3]);
        assert!(light.iter().all(|part| (-1e-5..=1.0 + 1e-5).contains(part)), "{light:?}");
    }
}
