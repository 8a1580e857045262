//! Changes of light over a video.

use super::camera::random;
use super::raster::{Pixel, Raster};
use super::words::Mood;

/// Effect of the light on every pixel of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Light {
    /// Gain of red, green and blue.
    gain: [f32; 3],
    /// Darkening of the corners, 0 to 1.
    corners: f32,
}

impl Light {
    /// Unchanged light.
    pub const UNCHANGED: Self = Self { gain: [1.0; 3], corners: 0.0 };

    /// Returns the combined light of moods at a time in seconds, which is the fraction `share` of the whole video.
    #[must_use]
    pub fn from_moods(moods: &[Mood], seconds: f32, share: f32, seed: u32) -> Self {
        let mut light = Self::UNCHANGED;
        for mood in moods {
            let Self { gain, corners } = Self::from_mood(*mood, seconds, share, seed);
            (0..3).for_each(|at| light.gain[at] *= gain[at]);
            light.corners += corners;
        }
        light
    }

    /// Returns the light of one mood. Frequencies are in radians per second.
    fn from_mood(mood: Mood, seconds: f32, share: f32, seed: u32) -> Self {
        let mix = |from: [f32; 3], to: [f32; 3], share: f32| -> [f32; 3] {
            std::array::from_fn(|at| from[at] + share * (to[at] - from[at]))
        };

        match mood {
            Mood::Sunset => Self { gain: mix([1.0; 3], [1.02, 0.74, 0.56], share), corners: 0.35 * share },
            Mood::Sunrise => {
                Self { gain: mix([0.62, 0.66, 0.82], [1.12, 1.04, 0.96], share), corners: 0.3 * (1.0 - share) }
            }
            Mood::Flicker => {
                let wave = |frequency: f32, phase: f32| (frequency * seconds + phase + 6.0 * random(seed, 40)).sin();
                let flame = 1.0 + 0.09 * wave(7.3, 0.0) + 0.06 * wave(13.1, 1.0) + 0.04 * wave(23.7, 2.0);
                Self { gain: [1.06 * flame, 0.96 * flame, 0.82 * flame], corners: 0.35 }
            }
            Mood::Storm => {
                let flash = flash(seconds, seed);
                Self { gain: [0.80 + flash, 0.84 + flash, 0.92 + flash], corners: 0.2 }
            }
            Mood::Pulse => {
                let pulse = 1.0 + 0.12 * (1.8 * seconds + 6.0 * random(seed, 41)).sin();
                Self { gain: [pulse, 0.97 * pulse, 1.04 * pulse], corners: 0.1 }
            }
        }
    }

    /// Applies the light to a frame.
    pub fn apply(&self, frame: &mut Raster) {
        if *self == Self::UNCHANGED {
            return;
        }

        let size = frame.size();
        let half = size.height as f32 * 0.5;
        let aspect = size.aspect();

        for y in 0..size.height {
            let v = (y as f32 + 0.5) / half - 1.0;
            for (x, pixel) in frame.row_mut(y).iter_mut().enumerate() {
                let u = ((x as f32 + 0.5) / half - aspect) / aspect;
                let dark = 1.0 - self.corners * 0.5 * (u * u + v * v);
                apply_gain(pixel, self.gain.map(|gain| gain * dark));
            }
        }
    }
}

/// Applies a gain that approaches white instead of clipping.
fn apply_gain(pixel: &mut Pixel, gain: [f32; 3]) {
    for at in 0..3 {
        pixel[at] = crate::light::apply_gain(pixel[at], gain[at]).clamp(0.0, 1.0);
    }
}

/// Returns the brightness that lightning adds: a decaying flash in about every third second.
fn flash(seconds: f32, seed: u32) -> f32 {
    let second = seconds.floor();
    let salt = 60 + second as u32;
    if random(seed, salt) > 0.38 {
        return 0.0;
    }

    let elapsed = seconds - second - 0.6 * random(seed, salt + 1000);
    if elapsed < 0.0 { 0.0 } else { 0.9 * (-9.0 * elapsed).exp() * (0.7 + 0.3 * (40.0 * elapsed).cos()) }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "neutral light must not change any bit")]
mod tests {
    use super::*;
    use crate::video::raster::Size;

    fn grey(moods: &[Mood], share: f32) -> Pixel {
        let mut frame = Raster::from_fn(Size { width: 8, height: 8 }, |_, _| [0.5, 0.5, 0.5, 1.0]);
        Light::from_moods(moods, 4.0 * share, share, 3).apply(&mut frame);
        frame.row(4)[4]
    }

    #[test]
    fn evening_turns_warm_and_dark_and_morning_bright() {
        assert_eq!(grey(&[Mood::Sunset], 0.0), [0.5, 0.5, 0.5, 1.0]);
        let evening = grey(&[Mood::Sunset], 1.0);
        assert!(evening[2] < 0.35);
        assert!(evening[0] > evening[2] + 0.1);
        assert!(grey(&[Mood::Sunrise], 1.0)[0] > grey(&[Mood::Sunrise], 0.0)[0] + 0.1);
    }

    #[test]
    fn fire_flickers_and_no_mood_changes_nothing() {
        assert_ne!(grey(&[Mood::Flicker], 0.3), grey(&[Mood::Flicker], 0.35));
        assert_eq!(grey(&[], 0.3), [0.5, 0.5, 0.5, 1.0]);
    }
}
