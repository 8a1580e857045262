//! Ambient sound of places: modulated bands of noise, and short sounds such as drops and birds.

use std::f32::consts::TAU;

use super::{Band, Noise, RATE, Stereo};
use crate::noise::hash;
use crate::video::camera::random;
use crate::video::words::{Mood, MovingElement, Scenery, TimeOfDay, VideoKeywords, Weather};

/// Band of noise with slow swells.
struct Layer {
    /// Centre of the band in Hz.
    band: f32,
    /// Modulation of the centre as a fraction of it.
    wander: f32,
    /// Damping of the filter, and so the width of the band; 2 is wide.
    damp: f32,
    gain: f32,
    /// Swells per second.
    frequency: f32,
    /// Amplitude of the swells, 0 to 1.
    depth: f32,
}

/// Kind of a short sound that occurs at random times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShortSound {
    Drops,
    Birds,
    Crickets,
    Crackle,
    Thunder,
    Chimes,
}

/// Quiet room tone under every sound.
const ROOM: Layer = Layer { band: 180.0, wander: 0.1, damp: 1.6, gain: 0.06, frequency: 0.1, depth: 0.2 };
const WIND: Layer = Layer { band: 420.0, wander: 0.5, damp: 0.7, gain: 0.13, frequency: 0.23, depth: 0.7 };
const RAIN: Layer = Layer { band: 5200.0, wander: 0.05, damp: 1.8, gain: 0.16, frequency: 0.3, depth: 0.15 };
/// Low part of the sound of rain.
const RAIN_LOW: Layer = Layer { band: 900.0, wander: 0.1, damp: 1.6, gain: 0.07, frequency: 0.2, depth: 0.2 };
const SURF: Layer = Layer { band: 700.0, wander: 0.55, damp: 1.4, gain: 0.26, frequency: 0.14, depth: 0.85 };
const SPRAY: Layer = Layer { band: 3800.0, wander: 0.3, damp: 1.7, gain: 0.06, frequency: 0.14, depth: 0.95 };
const CITY: Layer = Layer { band: 130.0, wander: 0.3, damp: 0.9, gain: 0.30, frequency: 0.17, depth: 0.4 };
const TRAFFIC: Layer = Layer { band: 900.0, wander: 0.4, damp: 1.5, gain: 0.045, frequency: 0.11, depth: 0.8 };
const LEAVES: Layer = Layer { band: 3200.0, wander: 0.3, damp: 1.6, gain: 0.07, frequency: 0.31, depth: 0.7 };
const FIRE: Layer = Layer { band: 320.0, wander: 0.3, damp: 1.2, gain: 0.16, frequency: 1.7, depth: 0.4 };
/// Drone of space and of abstract pictures.
const DEEP: Layer = Layer { band: 70.0, wander: 0.2, damp: 0.25, gain: 0.16, frequency: 0.07, depth: 0.6 };

/// Adds the sound of a place, and wind noise of a fast camera.
pub(super) fn add(mix: &mut [Stereo], keywords: &VideoKeywords, speed: impl Fn(f32) -> f32, seed: u32) {
    let (layers, short_sounds) = sounds_for(keywords);
    for (index, layer) in (0..).zip(&layers) {
        layer.add(mix, seed.wrapping_add(index * 101));
    }

    for sound in short_sounds {
        add_short_sounds(mix, sound, seed);
    }

    add_camera_wind(mix, speed, seed);
}

/// Returns the layers and the kinds of short sounds for a place, its weather and its mood.
fn sounds_for(keywords: &VideoKeywords) -> (Vec<Layer>, Vec<ShortSound>) {
    let mut layers = vec![ROOM];
    let mut short_sounds = Vec::new();

    let is_night = keywords.time_of_day == Some(TimeOfDay::Night);

    match keywords.scenery {
        Some(Scenery::Sea) => layers.extend([SURF, SPRAY]),
        Some(Scenery::City) => layers.extend([CITY, TRAFFIC]),
        Some(Scenery::Forest) => layers.push(LEAVES),
        Some(Scenery::Hills | Scenery::Desert) => layers.push(WIND),
        Some(Scenery::Space | Scenery::Abstract) => {
            layers.push(DEEP);
            short_sounds.push(ShortSound::Chimes);
        }
        None => {}
    }

    if keywords.scenery != Some(Scenery::Sea) && keywords.elements.contains(&MovingElement::Water) {
        layers.push(SURF);
    }

    if keywords.elements.contains(&MovingElement::Leaves) || keywords.weather.contains(&Weather::Petals) {
        layers.push(LEAVES);
    }

    if keywords.weather.contains(&Weather::Snow) || keywords.elements.contains(&MovingElement::Clouds) {
        layers.push(WIND);
    }

    if keywords.weather.contains(&Weather::Rain) {
        layers.extend([RAIN, RAIN_LOW]);
        short_sounds.push(ShortSound::Drops);
    }

    if keywords.weather.contains(&Weather::Fireflies) && !short_sounds.contains(&ShortSound::Chimes) {
        short_sounds.push(ShortSound::Chimes);
    }

    if keywords.moods.contains(&Mood::Flicker) {
        layers.push(FIRE);
        short_sounds.push(ShortSound::Crackle);
    }

    if keywords.moods.contains(&Mood::Storm) {
        layers.push(WIND);
        short_sounds.push(ShortSound::Thunder);
    }

    if matches!(keywords.scenery, Some(Scenery::Forest | Scenery::Hills)) && keywords.weather.is_empty() {
        short_sounds.push(if is_night { ShortSound::Crickets } else { ShortSound::Birds });
    }

    (layers, short_sounds)
}

impl Layer {
    /// Adds the noise to both sides, each with its own swells.
    fn add(&self, mix: &mut [Stereo], seed: u32) {
        let phase = TAU * random(seed, 3);
        for side in 0..2 {
            let mut noise = Noise::new(hash(side as u32, 5, seed));
            let mut band = Band::default();

            for (at, sample) in mix.iter_mut().enumerate() {
                let time = at as f32 / RATE as f32;
                let phase_at = TAU * self.frequency * time + phase + 0.6 * side as f32;
                let swell = 0.5 + 0.5 * (phase_at.sin() + 0.35 * (2.7 * phase_at + 1.0).sin()).clamp(-1.0, 1.0);

                let frequency = self.band * (1.0 + self.wander * (swell - 0.5) * 2.0);
                let level = self.gain * (1.0 - self.depth * (1.0 - swell));
                sample[side] += level * self.damp.sqrt() * band.next(noise.next(), frequency, self.damp);
            }
        }
    }
}

/// Adds the short sounds of one kind, each at a random time and position between left and right.
fn add_short_sounds(mix: &mut [Stereo], kind: ShortSound, seed: u32) {
    let seconds = mix.len() as f32 / RATE as f32;
    let per_second = match kind {
        ShortSound::Drops => 26.0,
        ShortSound::Birds => 0.9,
        ShortSound::Crickets => 2.0,
        ShortSound::Crackle => 11.0,
        ShortSound::Thunder => 0.34,
        ShortSound::Chimes => 0.8,
    };

    let count = (per_second * seconds).ceil() as u32;

    for index in 0..count {
        let random_at = |salt: u32| random(hash(index, kind as u32, seed), salt);
        let start = (random_at(1) * mix.len() as f32) as usize;
        let side = random_at(2);
        let gains = [(1.0 - side).sqrt(), side.sqrt()];

        let remaining = &mut mix[start..];
        let length = remaining.len().min((kind.seconds() * RATE as f32) as usize);

        let mut sound = kind.generator(random_at(3), random_at(4), hash(index, 9, seed));
        for (at, sample) in remaining[..length].iter_mut().enumerate() {
            let value = sound(at as f32 / RATE as f32);
            (0..2).for_each(|side| sample[side] += gains[side] * value);
        }
    }
}

impl ShortSound {
    /// Returns the maximum duration in seconds.
    fn seconds(self) -> f32 {
        match self {
            Self::Drops | Self::Crackle => 0.06,
            Self::Birds => 0.7,
            Self::Crickets => 0.5,
            Self::Thunder => 3.5,
            Self::Chimes => 2.5,
        }
    }

    /// Returns a function from the time in seconds to a sample, to be called once for each sample. `pitch_seed` and
    /// `timbre_seed` are random numbers from 0 to 1.
    fn generator(self, pitch_seed: f32, timbre_seed: f32, seed: u32) -> impl FnMut(f32) -> f32 {
        let mut noise = Noise::new(seed);
        let mut band = Band::default();
        let mut phase = 0.0_f32;

        move |time| match self {
            Self::Drops => {
                phase += TAU * (1400.0 + 2600.0 * pitch_seed + 9000.0 * time) / RATE as f32;
                0.035 * (0.3 + timbre_seed) * phase.sin() * (-90.0 * time).exp()
            }
            Self::Crackle => {
                0.3 * timbre_seed * timbre_seed * noise.next() * (-(120.0 + 300.0 * pitch_seed) * time).exp()
            }
            Self::Birds => {
                let note_phase = (time * (7.0 + 5.0 * pitch_seed)).fract();
                phase += TAU * (2300.0 + 1500.0 * timbre_seed + 900.0 * (note_phase * (3.0 + 4.0 * pitch_seed)).sin())
                    / RATE as f32;
                0.035 * phase.sin() * (std::f32::consts::PI * note_phase).sin().powi(2) * (1.0 - time / 0.7).max(0.0)
            }
            Self::Crickets => {
                phase += TAU * (4100.0 + 500.0 * pitch_seed) / RATE as f32;
                0.016 * phase.sin() * (TAU * 17.0 * time).sin().max(0.0) * (1.0 - time / 0.5).max(0.0)
            }
            Self::Thunder => {
                let value = band.next(noise.next(), 90.0 - 40.0 * (time / 3.5), 0.8);
                let swell = (time * 9.0).min(1.0)
                    * (-1.3 * time).exp()
                    * (0.7 + 0.3 * (11.0 * time * (1.0 + pitch_seed)).sin());
                (0.9 + 0.6 * timbre_seed) * swell * (value + 0.5 * band.low())
            }
            Self::Chimes => {
                let tone = [523.25, 587.33, 659.26, 783.99, 880.0, 1046.5][(pitch_seed * 6.0) as usize % 6];
                phase += TAU * tone / RATE as f32;
                0.03 * (phase.sin() + 0.4 * (2.76 * phase).sin() * (-4.0 * time).exp())
                    * (time * 80.0).min(1.0)
                    * (-1.8 * time).exp()
            }
        }
    }
}

/// Adds wind noise whose level and pitch rise with the speed of the camera.
fn add_camera_wind(mix: &mut [Stereo], speed: impl Fn(f32) -> f32, seed: u32) {
    /// Samples between two measurements of the speed.
    const STEP: usize = RATE / 50;
    let count = mix.len() / STEP + 2;
    let speeds: Vec<f32> = (0..count).map(|at| speed((at * STEP) as f32 / mix.len() as f32).min(1.5)).collect();

    for side in 0..2 {
        let mut noise = Noise::new(seed ^ 0xA1B ^ side as u32);
        let mut band = Band::default();
        for (at, sample) in mix.iter_mut().enumerate() {
            let step = at / STEP;
            let fraction = (at % STEP) as f32 / STEP as f32;
            let fast = speeds[step] + fraction * (speeds[step + 1] - speeds[step]);

            let value = band.next(noise.next(), 260.0 + 1500.0 * fast, 0.9);
            sample[side] += 0.9 * (fast - 0.04).max(0.0).powf(1.4) * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_short_sound_of_a_scene_is_added_once() {
        let (_, short_sounds) = sounds_for(&VideoKeywords::from_prompt("rain and fireflies in a galaxy"));
        assert_eq!(short_sounds, [ShortSound::Chimes, ShortSound::Drops]);
    }
}
