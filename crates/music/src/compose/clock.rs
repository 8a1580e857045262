//! Timing of the steps: tempo, swing, ritardando and an exact length.

use crate::piece::RATE;
use crate::prompt::lexicon::Metre;

/// Input of [`Clock::new`].
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Length in seconds.
    pub seconds: u16,
    /// Beats per minute.
    pub bpm: f32,
    /// `true` if the prompt fixes the tempo. Otherwise it is adjusted slightly so that whole bars fill the length.
    pub fixed: bool,
    pub metre: Metre,
    /// Delay of every second note: 0 for none, 1 for half of a note of `swing_steps`.
    pub swing: f32,
    /// Length in steps of the notes that swing.
    pub swing_steps: u32,
    pub ending: PieceEnding,
}

/// Ending of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceEnding {
    /// Last chord that rings out.
    Chord {
        /// `true` if the last bar slows down.
        ritards: bool,
    },
    /// Fade-out while the music continues.
    Fade,
    /// The last bar leads back to the first.
    Seamless,
}

/// Mapping from steps to time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Steps up to the last chord or, without one, to the end.
    pub steps: u32,
    pub metre: Metre,
    /// Length in samples.
    pub frames: u32,
    pub ending: PieceEnding,
    /// Seconds per step.
    step: f64,
    /// Step at which the ritardando begins.
    slows_at: f64,
    /// Stretch of the last step relative to the first, as a fraction.
    slowing: f64,
    swing: f64,
    swing_steps: f64,
}

/// Maximum change of a tempo that is not fixed, as a fraction.
const STRETCH_MAX: f64 = 0.07;
/// Maximum change of the tempo of a piece of up to four bars.
const SHORT_STRETCH_MAX: f64 = 0.3;
/// Maximum stretch of the last bar.
const SLOWING_MAX: f64 = 0.55;

impl Clock {
    /// Computes tempo and length.
    #[must_use]
    pub fn new(pace: &Pace) -> Self {
        let Metre { bar, beat, .. } = pace.metre;
        let seconds = f64::from(pace.seconds);
        let mut step = 60.0 / f64::from(pace.bpm) / f64::from(pace.metre.tempo_steps());
        let bar_steps = f64::from(bar);
        let mut slowing = 0.0;

        let steps = match pace.ending {
            PieceEnding::Seamless => {
                let bars = (seconds / (step * bar_steps)).round().max(1.0);
                step = seconds / (bars * bar_steps);
                bars * bar_steps
            }
            PieceEnding::Fade => (seconds / (step * bar_steps)).ceil().max(1.0) * bar_steps,
            PieceEnding::Chord { ritards } => {
                // Seconds of the last chord.
                let ring = (seconds * 0.07).clamp(0.6, 5.0).max((step * f64::from(beat) * 2.0).min(seconds * 0.4));
                let available = seconds - ring;
                let (unit, rounded) = if available < step * bar_steps {
                    (f64::from(beat), (available / (step * f64::from(beat))).floor())
                } else {
                    let bars = available / (step * bar_steps);
                    (bar_steps, if pace.fixed { bars.floor() } else { bars.round() })
                };

                let steps = unit * rounded.max(0.0);
                if steps > 0.0 && !pace.fixed {
                    let max_stretch = if steps > 4.0 * bar_steps { STRETCH_MAX } else { SHORT_STRETCH_MAX };
                    step = (available / steps).clamp(step * (1.0 - max_stretch), step * (1.0 + max_stretch));
                }

                if ritards && steps >= 2.0 * bar_steps {
                    // The ritardando fills the time that whole bars leave before the last chord, but has a minimum.
                    let spare_bars = (available - steps * step) / (step * bar_steps);
                    slowing = (2.0 * spare_bars).clamp(0.12, SLOWING_MAX);
                }
                steps
            }
        };

        Self {
            steps: steps as u32,
            metre: pace.metre,
            frames: u32::from(pace.seconds) * RATE,
            ending: pace.ending,
            step,
            slows_at: steps - bar_steps,
            slowing,
            swing: if beat == 4 { f64::from(pace.swing) } else { 0.0 },
            swing_steps: f64::from(pace.swing_steps),
        }
    }

    /// Returns the actual tempo in beats per minute.
    #[must_use]
    pub fn bpm(&self) -> f32 {
        (60.0 / (self.step * f64::from(self.metre.tempo_steps()))) as f32
    }

    /// Returns the seconds per step.
    #[must_use]
    pub fn step_seconds(&self) -> f32 {
        self.step as f32
    }

    /// Returns the second at which a step begins, with swing and ritardando.
    #[must_use]
    pub fn seconds_at(&self, step: f64) -> f64 {
        let swung = self.swung(step);
        let slow = (swung - self.slows_at).max(0.0);
        let bar = f64::from(self.metre.bar);
        // The tempo falls evenly over the last bar and then stays constant.
        let steps_in_bar = slow.min(bar);
        let stretch = self.slowing * (steps_in_bar * steps_in_bar / (2.0 * bar) + (slow - steps_in_bar));
        (swung + stretch) * self.step
    }

    /// Returns the sample at which a step begins, clamped to the end.
    #[must_use]
    pub fn frame_at(&self, step: f64) -> u32 {
        let frame = (self.seconds_at(step) * f64::from(RATE)).round().max(0.0);
        (frame as u32).min(self.frames)
    }

    /// Returns the position of a step after swing, which delays the middle of each pair of notes.
    fn swung(&self, step: f64) -> f64 {
        let pair = 2.0 * self.swing_steps;
        let fraction = step.rem_euclid(pair) / pair;
        let delay = self.swing / 4.0;
        let middle = 0.5 + delay;
        let swung =
            if fraction < 0.5 { fraction * 2.0 * middle } else { middle + (fraction - 0.5) * 2.0 * (1.0 - middle) };
        step + (swung - fraction) * pair
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::lexicon::{FOUR, SIX, THREE};

    fn pace(seconds: u16, bpm: f32, ending: PieceEnding) -> Pace {
        Pace { seconds, bpm, fixed: false, metre: FOUR, swing: 0.0, swing_steps: 2, ending }
    }

    #[test]
    fn the_last_chord_can_ring_out_at_any_length_and_tempo() {
        for (seconds, bpm, metre) in (1..=360).flat_map(|s| [(s, 48.0, SIX), (s, 90.0, THREE), (s, 174.0, FOUR)]) {
            for (fixed, ritards) in [(false, true), (true, false), (true, true)] {
                let clock = Clock::new(&Pace { fixed, metre, ..pace(seconds, bpm, PieceEnding::Chord { ritards }) });
                let ring = f64::from(seconds) - clock.seconds_at(f64::from(clock.steps));
                assert!(ring >= 0.25 && ring <= 5.5 + 60.0 / f64::from(bpm) * 6.0, "{seconds} {bpm}: {ring}");
                assert_eq!(clock.frames, u32::from(seconds) * RATE);
                assert!(clock.steps.is_multiple_of(metre.beat));
                assert!(!fixed || (clock.bpm() - bpm).abs() < 0.01);
                assert!((clock.bpm() / bpm - 1.0).abs() < 0.45, "{}", clock.bpm());
            }
        }
    }

    #[test]
    fn a_loop_is_whole_bars_and_ends_where_it_began() {
        for seconds in 4..=60 {
            let clock = Clock::new(&pace(seconds, 100.0, PieceEnding::Seamless));
            assert_eq!(clock.steps % 16, 0);
            assert_eq!(clock.frame_at(f64::from(clock.steps)), clock.frames);
        }
    }

    #[test]
    fn the_clock_is_monotonic() {
        let swings = Pace { swing: 0.66, ..pace(20, 120.0, PieceEnding::Chord { ritards: true }) };
        let clock = Clock::new(&swings);
        let times: Vec<_> = (0..4 * clock.steps).map(|quarter| clock.seconds_at(f64::from(quarter) / 4.0)).collect();
        assert!(times.is_sorted());
        // The second eighth of a beat is late by half a step or more; the beats themselves are not.
        let straight = Clock::new(&Pace { swing: 0.0, ..swings });
        assert!(clock.seconds_at(2.0) - straight.seconds_at(2.0) > 0.5 * f64::from(clock.step_seconds()));
        assert!((clock.seconds_at(4.0) - straight.seconds_at(4.0)).abs() < 1e-9);
    }

    #[test]
    fn the_last_bar_slows_down_where_that_is_usual() {
        let bar = |ritards, bars_before: f64| {
            let clock = Clock::new(&pace(30, 100.0, PieceEnding::Chord { ritards }));
            let end = f64::from(clock.steps) - 16.0 * bars_before;
            clock.seconds_at(end) - clock.seconds_at(end - 16.0)
        };
        assert!(bar(true, 0.0) > 1.04 * bar(true, 2.0));
        assert!((bar(false, 0.0) - bar(false, 2.0)).abs() < 1e-9);
    }
}
