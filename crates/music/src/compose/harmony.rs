//! Chords over time, and the voice leading between them.

use super::form::{Label, Phrase};
use crate::rng::SeededRng;
use crate::style::progression::Palette;
use crate::theory::{Chord, Key, at_or_above};

/// Chord with its position and voices.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// First step.
    pub start: u32,
    /// Number of steps; 0 for the final chord.
    pub steps: u32,
    pub chord: Chord,
    /// Pitches of the upper voices in rising order.
    pub voices: Vec<i32>,
}

/// Lowest and highest MIDI pitch of the upper voices.
pub const VOICES: (i32, i32) = (50, 74);
/// Lowest pitch of the bass that is assumed for the voice leading.
const BASS_MIN: i32 = 36;
/// Maximum motion of an upper voice in semitones, exceeded only if no voicing avoids it.
const LEAP_MAX: i32 = 7;

/// Input of the harmony.
#[derive(Debug, Clone, Copy)]
pub struct Harmony {
    pub key: Key,
    /// Family of progressions.
    pub palette: Palette,
    /// 0 for triads, 1 for sevenths, 2 for ninths.
    pub extension: u8,
    /// Steps per bar.
    pub bar: u32,
    /// `true` if the last phrase ends with a cadence.
    pub closes: bool,
}

impl Harmony {
    /// Returns the chords of all phrases and the final one, which has no steps.
    #[must_use]
    pub fn spans(&self, phrases: &[Phrase], rng: &mut SeededRng) -> Vec<Span> {
        let progressions = self.palette.progressions(self.key.mode.is_minor());
        let main = rng.pick(progressions.main);
        let chorus = rng.pick(progressions.other);
        let bridge = rng.pick(progressions.other);

        let mut spans: Vec<Span> = Vec::new();
        for phrase in phrases {
            let text = match phrase.label {
                Label::Chorus => chorus,
                Label::Bridge => bridge,
                _ => main,
            };

            let parts: Vec<&str> = text.split('|').collect();
            let part = parts[phrase.occurrence as usize % parts.len()];
            let mut tokens: Vec<&str> = part.split_whitespace().collect();
            self.fit(&mut tokens, phrase);

            let leads_on = phrase.closes && !phrase.last && tokens.last() == Some(&"1");
            if leads_on && let Some(last) = tokens.last_mut() {
                *last = progressions.turnaround;
            }

            if phrase.last && self.closes {
                append_cadence(&mut tokens, progressions.close);
            }

            self.push_spans(&tokens, phrase, &mut spans);
        }

        let end = phrases.last().map_or(0, Phrase::end);
        spans.push(Span { start: end, steps: 0, chord: self.chord("1"), voices: Vec::new() });
        choose_voicings(&mut spans);
        spans
    }

    /// Returns the chord of a token; see [`Chord::parse`].
    fn chord(&self, token: &str) -> Chord {
        Chord::parse(self.key, token, self.extension)
    }

    /// Truncates the chords of a short phrase so that each bar has as many as in a full phrase.
    fn fit(&self, tokens: &mut Vec<&str>, phrase: &Phrase) {
        let token_count = (tokens.len() as u32 * phrase.steps).div_ceil(4 * self.bar);
        tokens.truncate(token_count.max(1) as usize);
    }

    /// Distributes the chords evenly over a phrase.
    fn push_spans(&self, tokens: &[&str], phrase: &Phrase, spans: &mut Vec<Span>) {
        let count = tokens.len() as u32;
        for (at, token) in (0..count).zip(tokens) {
            let start = phrase.steps * at / count;
            let end = phrase.steps * (at + 1) / count;
            if end > start {
                let chord = self.chord(token);
                spans.push(Span { start: phrase.start + start, steps: end - start, chord, voices: Vec::new() });
            }
        }
    }
}

/// Replaces the last chords with the cadence.
fn append_cadence<'a>(tokens: &mut Vec<&'a str>, cadence: &'a str) {
    let cadence: Vec<&str> = cadence.split(' ').collect();
    let kept_count = tokens.len().saturating_sub(cadence.len());
    tokens.truncate(kept_count);
    tokens.extend(cadence);
}

/// Pitches of a chord.
#[derive(Debug, Clone)]
pub struct Voicing {
    /// Upper voices in rising order.
    pub upper: Vec<i32>,
    pub bass: i32,
}

/// Chooses the voicing of every chord, each as close as possible to the previous one.
fn choose_voicings(spans: &mut [Span]) {
    let mut previous: Option<Voicing> = None;
    for span in spans {
        let bass = at_or_above(span.chord.root, BASS_MIN);
        span.voices = best_voicing(&span.chord, bass, previous.as_ref());
        previous = Some(Voicing { upper: span.voices.clone(), bass });
    }
}

/// Returns the upper voices with the lowest cost: they move little, and avoid parallels, leaps and the ends of the
/// range.
fn best_voicing(chord: &Chord, bass: i32, before: Option<&Voicing>) -> Vec<i32> {
    let cost = |voices: &Vec<i32>| {
        let middle = voices.iter().sum::<i32>() / voices.len() as i32;
        let centred = (middle - i32::midpoint(VOICES.0, VOICES.1)).abs();
        let Some(before) = before else { return centred };
        let leaps = paired(&before.upper, voices).any(|(from, to)| (to - from).abs() > LEAP_MAX);
        let voice_cost = motion(&before.upper, voices) * 4 + parallels(before, voices, bass) * 30;
        voice_cost + centred + if leaps { 1_000 } else { 0 }
    };
    voicings(chord).into_iter().min_by_key(cost).unwrap_or_default()
}

/// Returns the total motion in semitones, counting the largest one twice.
fn motion(before: &[i32], after: &[i32]) -> i32 {
    let moves = paired(before, after).map(|(from, to)| (to - from).abs());
    let (sum, largest) = moves.fold((0, 0), |(sum, largest), distance| (sum + distance, largest.max(distance)));
    sum + largest
}

/// Pairs the voices from top to bottom; the lowest voices of the larger chord stay unpaired.
fn paired<'a>(before: &'a [i32], after: &'a [i32]) -> impl Iterator<Item = (i32, i32)> + 'a {
    before.iter().rev().copied().zip(after.iter().rev().copied())
}

/// Counts parallel fifths and octaves among the upper voices and the bass. `after` and `bass` are the next chord.
#[must_use]
pub fn parallels(before: &Voicing, after: &[i32], bass: i32) -> i32 {
    // Pitch of each voice before and after, from top to bottom.
    let mut pairs: Vec<(i32, i32)> = paired(&before.upper, after).collect();
    pairs.push((before.bass, bass));
    let is_perfect = |a: i32, b: i32| (a - b).rem_euclid(12) == 0 || (a - b).abs() % 12 == 7;

    let mut count = 0;
    for (at, &(high_before, high_after)) in pairs.iter().enumerate() {
        for &(low_before, low_after) in &pairs[at + 1..] {
            let high_motion = high_after - high_before;
            let moves_together = high_motion != 0 && high_motion.signum() == (low_after - low_before).signum();
            let is_same_interval = (high_before - low_before).rem_euclid(12) == (high_after - low_after).rem_euclid(12);
            let stays_perfect =
                is_same_interval && is_perfect(high_before, low_before) && is_perfect(high_after, low_after);
            count += i32::from(moves_together && stays_perfect);
        }
    }
    count
}

/// Returns every voicing of a chord within the range: each inversion, close and open. Ninth chords leave the root to
/// the bass.
fn voicings(chord: &Chord) -> Vec<Vec<i32>> {
    let skipped = usize::from(chord.tones.len() > 4);
    let classes: Vec<i32> = chord.tones.iter().skip(skipped).map(|tone| (chord.root + tone).rem_euclid(12)).collect();

    let mut candidates = Vec::new();
    for first in 0..classes.len() {
        for octave in [0, 12] {
            let mut voices = vec![at_or_above(classes[first], VOICES.0 + octave)];
            for next in 1..classes.len() {
                let below = voices[voices.len() - 1] + 1;
                voices.push(at_or_above(classes[(first + next) % classes.len()], below));
            }

            let mut open = voices.clone();
            let second = open.len() - 2;
            open[second] -= 12;
            open.sort_unstable();
            candidates.extend([voices, open]);
        }
    }

    candidates.retain(|voices| voices[0] >= VOICES.0 && voices[voices.len() - 1] <= VOICES.1);
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::form::{Shape, phrases};
    use crate::theory::Mode;

    fn harmony(palette: Palette, mode: Mode, extension: u8) -> Harmony {
        Harmony { key: Key { tonic: 2, mode }, palette, extension, bar: 16, closes: true }
    }

    fn spans(harmony: &Harmony, steps: u32, seed: &str) -> Vec<Span> {
        harmony.spans(&phrases(&Shape { steps, bar: 16, ..Shape::default() }), &mut SeededRng::from_text(seed))
    }

    #[test]
    fn chords_cover_every_step_and_end_on_the_tonic_after_a_close() {
        for (palette, mode) in
            [(Palette::Pop, Mode::Ionian), (Palette::Jazz, Mode::Aeolian), (Palette::Blues, Mode::Ionian)]
        {
            for steps in (0..1_600).step_by(4) {
                let spans = spans(&harmony(palette, mode, 0), steps, "cover");
                assert!(spans.windows(2).all(|pair| pair[0].start + pair[0].steps == pair[1].start));
                let last = &spans[spans.len() - 1];
                assert_eq!((last.start, last.chord.root, last.chord.degree), (steps, 2, 0));
                if steps >= 64 {
                    let before = spans[spans.len() - 2].chord.degree;
                    assert!(before == 4 || before == 3 && palette == Palette::Blues, "{palette:?} {steps}: {before}");
                }
            }
        }
    }

    #[test]
    fn voices_move_little_and_keep_common_tones() {
        for (palette, mode, extension) in [
            (Palette::Classical, Mode::Ionian, 0),
            (Palette::Pop, Mode::Aeolian, 0),
            (Palette::Jazz, Mode::Ionian, 1),
            (Palette::Still, Mode::Lydian, 2),
        ] {
            for seed in ["a", "b", "c", "d"] {
                let spans = spans(&harmony(palette, mode, extension), 640, seed);
                for pair in spans.windows(2) {
                    let moves: Vec<i32> =
                        paired(&pair[0].voices, &pair[1].voices).map(|(from, to)| (to - from).abs()).collect();
                    assert!(moves.iter().all(|moved| *moved <= 7), "{palette:?}: {moves:?}");
                    assert!(pair[1].voices.is_sorted());
                    assert!(pair[1].voices.iter().all(|pitch| pair[1].chord.contains(*pitch)));
                    if pair[0].chord == pair[1].chord {
                        assert_eq!(pair[0].voices, pair[1].voices);
                    }
                }
            }
        }
    }

    #[test]
    fn classical_genres_avoid_parallel_fifths_and_octaves() {
        let mut moves = 0;
        let mut parallel_count = 0;
        for (seed, mode) in
            ["a", "b", "c", "d", "e", "f"].into_iter().flat_map(|s| [(s, Mode::Ionian), (s, Mode::Aeolian)])
        {
            let spans = spans(&harmony(Palette::Classical, mode, 0), 640, seed);
            for pair in spans.windows(2) {
                let bass = |span: &Span| at_or_above(span.chord.root, BASS_MIN);
                moves += 1;
                let before = Voicing { upper: pair[0].voices.clone(), bass: bass(&pair[0]) };
                parallel_count += parallels(&before, &pair[1].voices, bass(&pair[1]));
            }
        }
        assert!(parallel_count * 25 <= moves, "{parallel_count} of {moves}");

        let fifth = Voicing { upper: vec![60, 67], bass: 48 };
        assert!(parallels(&fifth, &[62, 69], 50) >= 2, "all voices move up");
        assert_eq!(parallels(&fifth, &[60, 67], 48), 0, "no voice moves");
    }
}
