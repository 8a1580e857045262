//! Wordless voice: vowels in the rhythm of speech.

use std::f32::consts::TAU;

use super::{Band, Noise, RATE, Stereo};
use crate::noise::hash;
use crate::prompt;
use crate::video::camera::random;

/// First three formants of vowels in Hz.
const VOWELS: [[f32; 3]; 5] = [
    [730.0, 1090.0, 2440.0],
    [530.0, 1840.0, 2480.0],
    [300.0, 2200.0, 2950.0],
    [570.0, 840.0, 2410.0],
    [320.0, 870.0, 2240.0],
];
/// Gains of the formants.
const GAINS: [f32; 3] = [1.0, 0.5, 0.22];
/// Speed of the murmur.
const SYLLABLES_PER_SECOND: f32 = 4.2;
/// Syllables in a phrase, including a silent one at the end.
const PHRASE_SYLLABLES: u32 = 9;

/// Adds a murmur. The voice id, or the seed without one, determines pitch and formant scale.
pub(super) fn add(mix: &mut [Stereo], voice_id: Option<&str>, gain: f32, seed: u32) {
    let voice = voice_id.and_then(prompt::prompt_seed).unwrap_or(seed);
    // High voices have high formants, so both follow from the same random number.
    let pitch = 92.0 * 2.4_f32.powf(random(voice, 71));
    let formant_scale = 0.88 + 0.26 * random(voice, 71) + 0.06 * random(voice, 72);

    let mut noise = Noise::new(seed);
    let mut bands: [Band; 3] = Default::default();
    let mut phase = 0.0_f32;
    let mut formants = VOWELS[0];

    for (at, sample) in mix.iter_mut().enumerate() {
        let time = at as f32 / RATE as f32;
        let syllable = (time * SYLLABLES_PER_SECOND) as u32;
        let syllable_phase = (time * SYLLABLES_PER_SECOND).fract();

        let random_at = |salt: u32| random(hash(syllable, 1, seed), salt);
        let target = VOWELS[(random_at(1) * 5.0) as usize % 5];
        let in_phrase = (syllable % PHRASE_SYLLABLES) as f32 / PHRASE_SYLLABLES as f32;

        // The pitch falls over a phrase and varies by syllable.
        let tone = pitch * (1.12 - 0.22 * in_phrase + 0.10 * (random_at(2) - 0.5) + 0.01 * (TAU * 5.1 * time).sin());
        phase = (phase + tone / RATE as f32).fract();

        let glottis = (1.0 - phase).powi(3) - 0.25 + 0.03 * noise.next();
        let is_breath = syllable % PHRASE_SYLLABLES == PHRASE_SYLLABLES - 1;
        let opening = if is_breath {
            0.0
        } else {
            (std::f32::consts::PI * syllable_phase).sin().powf(0.7) * (0.55 + 0.45 * random_at(3))
        };

        let mut value = 0.0;
        for formant in 0..3 {
            // The formants glide to the next vowel with a time constant of about 35 ms.
            formants[formant] += (target[formant] * formant_scale - formants[formant]) * 0.0006;
            value += GAINS[formant] * bands[formant].next(glottis, formants[formant], 0.12);
        }

        let value = 0.11 * gain * opening * value;
        *sample = [sample[0] + value, sample[1] + value];
    }
}
