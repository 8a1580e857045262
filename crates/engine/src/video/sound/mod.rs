//! Sound of a video: ambience, camera noise, a wordless voice, and music from the music engine.
//!
//! There is no speech synthesis: a voice is a murmur of vowels, at a pitch that `voice_id` selects.

mod ambience;
mod opus;
mod voice;

use super::VideoError;
use super::codec::FPS;
use super::mp4::Sound;
use super::words::VideoKeywords;

/// Samples per second.
pub const RATE: usize = 48_000;

/// Left and right, from -1 to 1.
pub type Stereo = [f32; 2];

/// Source of music: returns the requested number of samples.
pub type BackgroundMusic<'a> = &'a (dyn Fn(usize) -> Vec<Stereo> + Sync);

/// Content of a sound track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoundContent {
    /// Ambience and a voice.
    All,
    /// A voice only.
    SpeechOnly,
    /// Ambience only.
    SoundEffectOnly,
}

/// Sound to render.
#[derive(Clone)]
pub struct SoundPlan<'a> {
    /// Kind of generated sound, or `None` for music only.
    pub audio: Option<SoundContent>,
    /// Name that selects the pitch of the voice.
    pub voice_id: Option<String>,
    /// Background music, if any.
    pub background_music: Option<BackgroundMusic<'a>>,
}

/// Gain of music without other sound.
const MUSIC_GAIN: f32 = 0.8;
/// Strength of the ducking of music: at a level of 0.1 the gain falls to less than half.
const DUCKING_STRENGTH: f32 = 12.0;
/// Attack time constant of the ducking in samples.
const DUCKING_ATTACK: f32 = RATE as f32 / 30.0;
/// Release time constant of the ducking in samples.
const DUCKING_RELEASE: f32 = RATE as f32 / 3.0;
/// Length of the fade-in and the fade-out in samples.
const FADE: usize = RATE / 12;
/// Maximum amplitude.
const CEILING: f32 = 0.89;

/// Renders the sound of a video of `frames` frames. `speed` returns the speed of the camera at a fraction of the video,
/// in half heights per second.
///
/// # Errors
/// Returns an error if the codec fails.
pub fn render_track(
    plan: &SoundPlan<'_>,
    keywords: &VideoKeywords,
    frames: usize,
    speed: impl Fn(f32) -> f32,
    seed: u32,
) -> Result<Sound, VideoError> {
    let samples = mix_sound(plan, keywords, frames * RATE / FPS as usize, speed, seed);
    opus::encode(&samples)
}

/// Returns `length` samples of the mixed sound.
fn mix_sound(
    plan: &SoundPlan<'_>,
    keywords: &VideoKeywords,
    length: usize,
    speed: impl Fn(f32) -> f32,
    seed: u32,
) -> Vec<Stereo> {
    let mut mix = vec![[0.0; 2]; length];

    if matches!(plan.audio, Some(SoundContent::All | SoundContent::SoundEffectOnly)) {
        ambience::add(&mut mix, keywords, speed, seed);
    }

    if matches!(plan.audio, Some(SoundContent::All | SoundContent::SpeechOnly)) {
        let gain = if plan.audio == Some(SoundContent::All) { 0.5 } else { 1.0 };
        voice::add(&mut mix, plan.voice_id.as_deref(), gain, seed);
    }

    if let Some(background_music) = plan.background_music {
        mix_music(&mut mix, &background_music(length));
    }

    let fade = FADE.min(length / 4).max(1);
    for (at, sample) in mix.iter_mut().enumerate() {
        let edge = (at.min(length - 1 - at) as f32 / fade as f32).min(1.0);
        *sample = sample.map(|value| CEILING * (edge * value / CEILING).tanh());
    }

    mix
}

/// Adds music, ducked under other sound.
fn mix_music(mix: &mut [Stereo], music: &[Stereo]) {
    let mut level = 0.0_f32;
    for (sum, music_sample) in mix.iter_mut().zip(music) {
        let other_level = sum[0].abs().max(sum[1].abs());
        level += (other_level - level) / if other_level > level { DUCKING_ATTACK } else { DUCKING_RELEASE };
        let gain = MUSIC_GAIN / (1.0 + DUCKING_STRENGTH * level);
        (0..2).for_each(|side| sum[side] += gain * music_sample[side]);
    }
}

/// Noise generator.
#[derive(Debug, Clone)]
struct Noise(u32);

impl Noise {
    fn new(seed: u32) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B1) | 1)
    }

    /// Returns a sample from -1 to 1.
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Band-pass filter whose frequency may change with every sample.
#[derive(Debug, Clone, Default)]
struct Band {
    low: f32,
    band: f32,
}

impl Band {
    /// Returns the band around a frequency in Hz; `damp` is its width, 2 is wide.
    fn next(&mut self, value: f32, frequency: f32, damp: f32) -> f32 {
        let tune = 2.0 * (std::f32::consts::PI * (frequency / RATE as f32).min(0.16)).sin();
        self.low += tune * self.band;
        let high = value - self.low - damp * self.band;
        self.band += tune * high;
        self.band
    }

    /// Returns the low-pass output of the last sample.
    fn low(&self) -> f32 {
        self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(audio: Option<SoundContent>) -> SoundPlan<'static> {
        SoundPlan { audio, voice_id: None, background_music: None }
    }

    fn mix_of(plan: &SoundPlan<'_>, prompt: &str) -> Vec<Stereo> {
        mix_sound(plan, &VideoKeywords::from_prompt(prompt), RATE, |_| 0.1, 7)
    }

    fn loudness(samples: &[Stereo]) -> f32 {
        (samples.iter().flatten().map(|value| value * value).sum::<f32>() / (2 * samples.len()) as f32).sqrt()
    }

    #[test]
    fn sceneries_sound_different_and_nothing_clips() {
        let mut mixes: Vec<Vec<Stereo>> = Vec::new();
        for prompt in ["", "rain", "the sea", "a city at night", "a forest", "campfire", "storm", "galaxy"] {
            let samples = mix_of(&plan(Some(SoundContent::SoundEffectOnly)), prompt);
            let loud = loudness(&samples);
            assert!((0.003..0.4).contains(&loud), "{prompt}: {loud}");
            assert!(
                samples.iter().flatten().all(|value| value.abs() <= CEILING) && !mixes.contains(&samples),
                "{prompt}"
            );
            mixes.push(samples);
        }
    }

    #[test]
    fn audio_types_select_their_sounds() {
        let [effects, speech, all] = [SoundContent::SoundEffectOnly, SoundContent::SpeechOnly, SoundContent::All]
            .map(|kind| mix_of(&plan(Some(kind)), ""));
        assert!(effects != speech);
        assert!(speech != all);
        assert!(all != effects);
        let voices = ["anna", "bert"].map(|id| {
            let plan = SoundPlan { voice_id: Some(id.to_owned()), ..plan(Some(SoundContent::SpeechOnly)) };
            mix_of(&plan, "")
        });
        assert_ne!(voices[0], voices[1]);
    }

    #[test]
    fn music_is_mixed_in() {
        let background_music = |count: usize| vec![[0.5, -0.5]; count];
        let samples = mix_of(&SoundPlan { background_music: Some(&background_music), ..plan(None) }, "");
        let [left, right] = samples[RATE / 2];
        assert!((left + right).abs() < 1e-6);
        assert!(left > 0.2);
        assert!(samples[0][0].abs() < 0.01);
    }

    #[test]
    fn music_is_ducked_under_other_sound_and_returns() {
        let second = RATE;
        let mut mix = vec![[0.0; 2]; 3 * second];
        (second..2 * second).for_each(|at| mix[at] = [if at % 100 < 50 { 0.3 } else { -0.3 }; 2]);
        let before = mix.clone();
        mix_music(&mut mix, &vec![[0.5; 2]; 3 * second]);
        let added = |at: usize| mix[at][0] - before[at][0];
        let [outside, under, after] = [second - 1, 2 * second - 1, 3 * second - 1].map(added);
        assert!(
            outside > 0.39 && under < outside / 3.0 && under > 0.05 && after > 0.8 * outside,
            "{outside} {under} {after}"
        );
    }
}
