//! Continuous background sounds: vinyl, rain, sea and wind.

use super::dsp::{Filter, Noise, SAMPLE_RATE, sine};
use crate::piece::Texture;

/// Running background sound in stereo.
#[derive(Debug, Clone)]
pub struct Background {
    kind: Texture,
    sides: [Side; 2],
    /// Samples since the start.
    age: u64,
}

/// State of one channel.
#[derive(Debug, Clone)]
struct Side {
    noise: Noise,
    filter: Filter,
    /// Current value of a crackle or raindrop.
    drop: f32,
    drop_filter: Filter,
}

/// Samples between updates of the slow modulation.
const CONTROL: u64 = 64;

impl Background {
    /// Creates a background sound from a seed.
    #[must_use]
    pub fn new(kind: Texture, seed: u64) -> Self {
        let (hertz, q, drop_hertz) = match kind {
            Texture::Vinyl => (1_400.0, 0.7, 3_800.0),
            Texture::Rain => (5_500.0, 0.6, 4_800.0),
            Texture::Sea | Texture::Wind => (500.0, 0.8, 1_000.0),
        };

        let side = |seed: u64| Side {
            noise: Noise::new(seed),
            filter: Filter::new(hertz, q),
            drop: 0.0,
            drop_filter: Filter::new(drop_hertz, 2.5),
        };

        Self { kind, sides: [side(seed), side(seed.rotate_left(23) ^ 0x5555)], age: 0 }
    }

    /// Adds the next samples.
    pub fn render(&mut self, left: &mut [f32], right: &mut [f32]) {
        for (left, right) in left.iter_mut().zip(right.iter_mut()) {
            if self.age.is_multiple_of(CONTROL) {
                self.update_filters();
            }
            *left += self.sides[0].next(self.kind);
            *right += self.sides[1].next(self.kind);
            self.age += 1;
        }
    }

    /// Modulates the filters slowly for the swell of waves and the howl of wind.
    fn update_filters(&mut self) {
        let seconds = self.age as f32 / SAMPLE_RATE;

        for (side, away) in self.sides.iter_mut().zip([0.0, 0.13]) {
            match self.kind {
                Texture::Sea => {
                    let swell = 0.5 + 0.5 * sine(seconds / 8.5 + away - 0.25);
                    side.filter.set(250.0 + 2_400.0 * swell * swell, 0.6);
                }
                Texture::Wind => {
                    let howl = sine(seconds / 5.1 + away) + 0.6 * sine(seconds / 2.3 - away);
                    side.filter.set(420.0 + 170.0 * howl, 3.5);
                }
                Texture::Vinyl | Texture::Rain => {}
            }
        }
    }
}

/// Levels of the components of a background sound.
#[derive(Debug, Clone, Copy)]
struct TextureLevels {
    /// Number of crackles or raindrops per second.
    drops_per_second: f32,
    /// Level of a crackle or raindrop.
    drop: f32,
    /// Level of the continuous noise.
    hiss: f32,
}

impl TextureLevels {
    #[inline]
    const fn from_kind(kind: Texture) -> Self {
        match kind {
            Texture::Vinyl => Self { drops_per_second: 11.0, drop: 0.5, hiss: 0.006 },
            Texture::Rain => Self { drops_per_second: 90.0, drop: 0.16, hiss: 0.035 },
            Texture::Sea => Self { drops_per_second: 0.0, drop: 0.0, hiss: 0.075 },
            Texture::Wind => Self { drops_per_second: 0.0, drop: 0.0, hiss: 0.11 },
        }
    }
}

impl Side {
    /// Returns the next sample.
    #[inline]
    fn next(&mut self, kind: Texture) -> f32 {
        let noise = self.noise.sample();
        let levels = TextureLevels::from_kind(kind);

        let is_struck = self.noise.sample().abs() < levels.drops_per_second / SAMPLE_RATE;
        self.drop = if is_struck { noise } else { self.drop * 0.9 };

        let bands = self.filter.bands(noise);
        let background = match kind {
            Texture::Rain => bands.band + 0.3 * bands.high,
            Texture::Wind => bands.band,
            Texture::Vinyl | Texture::Sea => bands.low,
        };

        levels.hiss * background + levels.drop * self.drop_filter.band(self.drop)
    }
}
