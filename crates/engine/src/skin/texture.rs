//! Evenness of surfaces.
//!
//! Skin varies by its form, which is wide and soft; fur, wood, cloth and sand vary by fine grain everywhere. A face has
//! few sharp lines, so the typical contrast around a sample counts and not the strongest.

use crate::filters::{box_blur, finer_than, smooth};
use crate::grade::Statistics;
use crate::light::{gain_of, ramp, stops_of};
use crate::plane::Plane;

/// Offset of brightness, which limits the contrast of dark areas.
const DARK: f32 = 0.1;
/// Offset that keeps the logarithm of zero contrast finite.
const LOG_OFFSET: f32 = 1e-3;
/// Typical level of white noise with deviation 1 in the finest and in the coarser band.
const NOISE_LEVELS: [f32; 2] = [0.5, 0.55];

/// Returns 1 where a surface is as even as skin and less, down to 0, where it is grainy or rough. Sensor noise does not
/// count as roughness.
#[must_use]
pub fn evenness(luma: &Plane) -> Plane {
    let radius = (luma.width().max(luma.height()) / 90).max(3);
    let noise = Statistics::from_luma(luma).noise;
    let around = smooth(luma, radius);

    let mut fine = typical_level(finer_than(luma, 1), radius);
    let coarse = typical_level(finer_than(luma, 4), radius);

    for ((fine, coarse), around) in fine.values_mut().iter_mut().zip(coarse.values()).zip(around.values()) {
        let contrast = |level: f32, noise_level: f32| (level - noise_level * noise).max(0.0) / (around + DARK);
        let grain = contrast(*fine, NOISE_LEVELS[0]);
        let form = contrast(*coarse, NOISE_LEVELS[1]);

        // Measured on photographs: 0.2 to 0.35 for skin, 0.5 and more for fur and wood.
        let grainy = ramp(grain / (form + 0.006), 0.36, 0.54) * ramp(grain, 0.007, 0.014);
        *fine = (1.0 - grainy) * gain_of(-std::f32::consts::LOG2_E * (grain / 0.06).powi(2));
    }
    fine
}

/// Returns the local geometric mean of the absolute values, which a few large values hardly affect.
fn typical_level(mut values: Plane, radius: usize) -> Plane {
    values.values_mut().iter_mut().for_each(|value| *value = stops_of(value.abs() + LOG_OFFSET));
    let mut level = box_blur(&values, radius);
    level.values_mut().iter_mut().for_each(|value| *value = gain_of(*value) - LOG_OFFSET);
    level
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;
    use crate::plane::Region;

    fn middle(plane: &Plane) -> f32 {
        plane.row(60)[60]
    }

    fn surface(relief: impl Fn(f32, f32) -> f32) -> Plane {
        let grain = noise::white(Region { left: 0, top: 0, width: 120, height: 120 }, 3);
        Plane::from_fn(120, 120, |x, y| 0.55 + relief(x as f32, y as f32) + 0.004 * grain.row(y)[x])
    }

    #[test]
    fn form_is_even_and_grain_is_not() {
        let form = surface(|x, y| 0.12 * (x / 14.0).sin() * (y / 17.0).cos());
        assert!(middle(&evenness(&form)) > 0.9, "{}", middle(&evenness(&form)));
        let grain = surface(|x, y| 0.05 * (x * 1.9 + y * 0.3).sin());
        assert!(middle(&evenness(&grain)) < 0.1, "{}", middle(&evenness(&grain)));
    }

    #[test]
    fn a_line_does_not_make_a_surface_rough() {
        let line = surface(|x, y| if (x + y - 120.0).abs() < 1.5 { -0.3 } else { 0.03 * (x / 20.0).sin() });
        let evenness_beside = evenness(&line).row(60)[68];
        assert!(evenness_beside > 0.6, "{evenness_beside}");
    }
}
