//! Repeatable noise that depends only on position and seed, so that tiles join without seams.

use crate::filters::{box_blur, smooth};
use crate::plane::{Plane, Region};

/// Returns white noise with mean 0 and variance 1, nearly Gaussian (the sum of the four bytes of a hash).
#[must_use]
pub fn white(region: Region, seed: u32) -> Plane {
    Plane::from_rows(region.width, region.height, |y, row| {
        let left = region.left as u32;
        let y = (region.top + y as isize) as u32;

        for (x, value) in row.iter_mut().enumerate() {
            let hash = hash(left.wrapping_add(x as u32), y, seed);
            // Adds the bytes in pairs, then both sums.
            let pairs = (hash & 0x00FF_00FF) + ((hash >> 8) & 0x00FF_00FF);

            let sum = ((pairs & 0xFFFF) + (pairs >> 16)) as i32;
            *value = (sum as f32 - 510.0) * (1.0 / 147.8);
        }
    })
}

/// Returns a hash of a seed and two numbers, usually a position.
#[must_use]
pub fn hash(x: u32, y: u32, seed: u32) -> u32 {
    let mut hash = x.wrapping_mul(0x9E37_79B1) ^ y.wrapping_mul(0x85EB_CA77).rotate_left(16) ^ seed;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x7FEB_352D);
    hash = (hash ^ (hash >> 15)).wrapping_mul(0x846C_A68B);
    hash ^ (hash >> 16)
}

/// Returns texture: noise of two octaves with mean 0 and variance about 1. `grain` is the radius of the finest octave
/// in pixels; nothing is coarser than six times that.
#[must_use]
pub fn texture(region: Region, grain: usize, seed: u32) -> Plane {
    let fine = smooth(&white(region, seed), grain);
    let middle = smooth(&fine, grain);

    let coarse = smooth(&middle, 2 * grain);

    // Each band is the difference of two smoothings. The gains give both bands equal shares of a total variance of 1.
    let fine_gain = 5.2 * grain as f32;
    let middle_gain = 5.5 * grain as f32;

    let mut texture = fine;
    for ((value, middle), coarse) in texture.values_mut().iter_mut().zip(middle.values()).zip(coarse.values()) {
        *value = (*value - middle) * fine_gain + (middle - coarse) * middle_gain;
    }
    texture
}

/// Adds film grain of about 1.5 pixels to the luma of `region`, strongest in midtones. `amount` ranges from 0 to 1.
pub fn add_grain(luma: &mut Plane, region: Region, amount: f32, seed: u32) {
    if amount <= 0.0 {
        return;
    }
    // One more pixel on every side makes the grain of a tile equal to that of the whole picture.
    let fine = white(region.grown(1), seed);
    let soft = box_blur(&fine, 1);

    for ((row, fine), soft) in luma.rows_mut().zip(fine.rows().skip(1)).zip(soft.rows().skip(1)) {
        for ((value, fine), soft) in row.iter_mut().zip(&fine[1..]).zip(&soft[1..]) {
            let tone = 0.3 + 2.8 * (*value * (1.0 - *value)).max(0.0);
            *value += 0.045 * amount * tone * (0.35 * fine + 1.6 * soft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_variance(plane: &Plane) -> (f32, f32) {
        let count = plane.values().len() as f32;
        let mean = plane.values().iter().sum::<f32>() / count;
        (mean, plane.values().iter().map(|value| (value - mean).powi(2)).sum::<f32>() / count)
    }

    const REGION: Region = Region { left: -5, top: 3, width: 128, height: 128 };

    #[test]
    fn noise_has_mean_zero_and_variance_one() {
        let (mean, variance) = mean_and_variance(&white(REGION, 7));
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        for grain in [1, 2] {
            let (mean, variance) = mean_and_variance(&texture(REGION, grain, 7));
            assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.3, "{grain}: {mean} {variance}");
        }
    }

    #[test]
    fn noise_depends_on_position_and_seed_only() {
        let whole = white(REGION, 7);
        let part = white(Region { left: 10, top: 20, width: 9, height: 9 }, 7);
        assert_eq!(part, whole.window(Region { left: 15, top: 17, width: 9, height: 9 }));
        assert_ne!(white(REGION, 8), whole);
    }
}
