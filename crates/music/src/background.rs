//! Background music for a video: derived from the video's prompt, exactly as long as the video, with a fade-out.

use crate::compose::compose;
use crate::mix::Player;
use crate::piece::RATE;

/// Maximum length of the fade-out in samples. It is shortened to a quarter of a short video.
const FADE_MAX: usize = 2 * RATE as usize;

/// Returns `samples` stereo samples, left and right from -1 to 1, at [`RATE`]. The same prompt and seed give the same
/// music.
#[must_use]
pub fn background_music(prompt: &str, seed: u32, samples: usize) -> Vec<[f32; 2]> {
    let seconds = samples.div_ceil(RATE as usize).clamp(1, usize::from(u16::MAX));
    // A separate sentence, so that no negation in the prompt reaches the seed word.
    let text = format!("{prompt}. {}", seed_word(seed));

    let mut piece = compose(&text, u16::try_from(seconds).ok());
    piece.frames = piece.frames.min(u32::try_from(samples).unwrap_or(u32::MAX));
    piece.space.seamless = false;
    piece.space.fade_frames = u32::try_from((samples / 4).min(FADE_MAX)).unwrap_or(0);

    let mut sound = Vec::with_capacity(samples);
    for hop in Player::new(piece) {
        sound.extend(hop.left.iter().zip(&hop.right).map(|(left, right)| [*left, *right]));
    }

    // A piece has a maximum length; a video may be longer.
    sound.resize(samples, [0.0; 2]);
    sound
}

/// Returns a word without musical meaning, which is different for each seed and changes the random numbers.
fn seed_word(seed: u32) -> String {
    const LETTERS: &[u8; 16] = b"bcdfghjklmnpqrtv";
    let digits = (0..8).map(|digit| char::from(LETTERS[(seed >> (4 * digit)) as usize % LETTERS.len()]));
    std::iter::once('q').chain(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: usize = 4;

    fn energy(samples: &[[f32; 2]]) -> f32 {
        samples.iter().flatten().map(|value| value * value).sum::<f32>() / (2 * samples.len()) as f32
    }

    /// Returns the autocorrelation of 50 ms at the best-fitting pitch: near 1 for tones, near 0 for noise.
    fn periodicity(window: &[f32]) -> f32 {
        let at = |lag: usize| window.iter().zip(&window[lag..]).map(|(a, b)| a * b).sum::<f32>();
        let best = (60..800).map(|lag| at(lag) / (at(0) * (window.len() - lag) as f32 / window.len() as f32));
        best.fold(0.0, f32::max)
    }

    #[test]
    fn the_music_has_the_length_of_the_video_and_fades_out() {
        for samples in [RATE as usize, SECONDS * RATE as usize, 70_001] {
            let sound = background_music("a walk on the beach", 5, samples);
            assert_eq!(sound.len(), samples);
            let middle = &sound[samples / 3..samples / 2];
            let end = &sound[samples - samples / 40..];
            assert!(energy(middle) > 1e-3 && energy(end) < energy(middle) / 20.0, "{samples}");
            assert!(sound.iter().flatten().all(|value| value.abs() <= 1.0));
        }
    }

    #[test]
    fn prompt_and_seed_select_the_music() {
        let samples = RATE as usize;
        let render = |prompt, seed| background_music(prompt, seed, samples);
        assert!(render("techno", 1) == render("techno", 1));
        assert!(render("techno", 1) != render("techno", 2) && render("techno", 1) != render("calm piano", 1));
    }

    #[test]
    fn the_music_is_tonal() {
        let sound = background_music("calm solo piano", 5, SECONDS * RATE as usize);
        let mono: Vec<f32> = sound.iter().map(|[left, right]| left + right).collect();
        let windows: Vec<&[f32]> = mono.chunks_exact(RATE as usize / 20).collect();
        let tonal = windows.iter().filter(|window| periodicity(window) > 0.6).count();
        assert!(tonal * 2 > windows.len(), "{tonal} of {}", windows.len());

        // The measure itself distinguishes tones from noise.
        let mut state = 1_u32;
        let noise: Vec<f32> = (0..2_400)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as f32 / 32_768.0 - 1.0
            })
            .collect();
        assert!(periodicity(&noise) < 0.4, "{}", periodicity(&noise));
    }
}
