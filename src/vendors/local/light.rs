//! Light and its code: sRGB values are how light is written down, and mixing is right only in light itself.

use std::sync::LazyLock;

/// Steps of the tables between 0 and 1.
const STEPS: usize = 4096;

static TO_LIGHT: LazyLock<Vec<f32>> = LazyLock::new(|| {
    let light = |value: f32| if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
    (0..=STEPS + 1).map(|step| light(step as f32 / STEPS as f32)).collect()
});

/// Over the square root of light, of which the code is nearly a straight line.
static TO_CODE: LazyLock<Vec<f32>> = LazyLock::new(|| {
    let code = |light: f32| if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 };
    (0..=STEPS + 1).map(|step| code((step as f32 / STEPS as f32).powi(2))).collect()
});

/// The light of an sRGB value, both from 0 to 1; what lies outside is cut.
#[must_use]
pub fn to_light(value: f32) -> f32 {
    look_up(&TO_LIGHT, value)
}

/// The sRGB value of light, both from 0 to 1; what lies outside is cut.
#[must_use]
pub fn to_code(light: f32) -> f32 {
    look_up(&TO_CODE, light.max(0.0).sqrt())
}

fn look_up(table: &[f32], at: f32) -> f32 {
    let at = at.clamp(0.0, 1.0) * STEPS as f32;
    let step = at as usize;
    table[step] + (at - step as f32) * (table[step + 1] - table[step])
}

/// How much of the light of red, green and blue the eye sees (BT.709).
#[must_use]
pub fn luminance([red, green, blue]: [f32; 3]) -> f32 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// Two to the power of `stops`, from -126 to 127, to six digits and without a call: a gain in stops of light.
#[must_use]
pub fn gain_of(stops: f32) -> f32 {
    let stops = stops.clamp(-126.0, 127.0);
    let whole = stops.floor();
    let part = stops - whole;
    // Taylor's series about the middle of the interval, whose ends it meets within two millionths.
    let x = (part - 0.5) * std::f32::consts::LN_2;
    let power = 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0 + x / 120.0))));
    f32::from_bits(((whole as i32 + 127) as u32) << 23) * std::f32::consts::SQRT_2 * power
}

/// Light after a gain. What is raised comes near white, 1, and never over it; a gain of 1 changes nothing.
#[must_use]
pub fn lit(light: f32, gain: f32) -> f32 {
    gain * light / (1.0 + (gain - 1.0).max(0.0) * light)
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
        assert!([to_light(-1.0), to_code(-1.0), ramp(-1.0, 0.0, 1.0)].iter().all(|value| value.abs() < 1e-6));
        assert!([to_light(2.0), to_code(2.0), ramp(2.0, 0.0, 1.0)].iter().all(|value| (value - 1.0).abs() < 1e-6));
    }
}
