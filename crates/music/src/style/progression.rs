//! Chord progressions in the notation of [`Chord::parse`](crate::theory::Chord::parse).
//!
//! A progression fills a phrase: its chords share the bars evenly. `|` separates the phrases of a longer progression.

/// Family of progressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// Four-chord progressions.
    Pop,
    /// ii-V progressions and turnarounds.
    Jazz,
    /// Cadences between tonic and dominant.
    Classical,
    /// Slow changes without a dominant.
    Still,
    /// Few chords, for dance music.
    Dance,
    /// Large root motion for large ensembles.
    Epic,
    /// Twelve-bar blues.
    Blues,
    /// Simple diatonic progressions.
    Folk,
}

/// Progressions of a palette in one mode.
#[derive(Debug, Clone, Copy)]
pub struct Progressions {
    /// Progressions of verses, introductions and endings.
    pub main: &'static [&'static str],
    /// Progressions of choruses and bridges.
    pub other: &'static [&'static str],
    /// Chords before the final one.
    pub close: &'static str,
    /// Chord that replaces a tonic at the end of a phrase that leads to another section.
    pub turnaround: &'static str,
}

impl Palette {
    /// Returns the progressions in major or, if `minor` is `true`, in minor.
    #[must_use]
    pub const fn progressions(self, minor: bool) -> Progressions {
        match (self, minor) {
            (Self::Pop, false) => Progressions {
                main: &["1 5 6 4", "1 6 4 5", "1 4 6 5", "1 3 4 5", "6 4 1 5", "1 4 1 5"],
                other: &["4 5 3 6", "4 1 5 6", "6 4 1 5", "4 5 1 6", "2 4 1 5"],
                close: "4 5",
                turnaround: "5",
            },
            (Self::Pop, true) => Progressions {
                main: &["1 6 3 7", "1 4 6 5", "1 7 6 7", "1 3 7 4", "1 6 4 5"],
                other: &["6 7 1 3", "6 3 7 1", "4 1 6 7", "6 4 1 7"],
                close: "4 5d",
                turnaround: "7",
            },
            (Self::Jazz, false) => Progressions {
                main: &["2 5d 1 6d", "1 6d 2 5d", "3 6d 2 5d", "1 4 3 6d 2 5d 1 5d"],
                other: &["4 4m 3 6d", "2 5d 3 6d", "6 2d 2 5d", "4 7b 1 6d"],
                close: "2 5d",
                turnaround: "5d",
            },
            (Self::Jazz, true) => Progressions {
                main: &["1 4 2 5d", "1 6 2 5d", "4 7 3 6", "1 1 4 5d"],
                other: &["4 7 3 6", "6 2 5d 1", "4 1 2 5d"],
                close: "2 5d",
                turnaround: "5d",
            },
            (Self::Classical, false) => Progressions {
                main: &["1 4 5d 1", "1 6 2 5d", "1 5 6 3 4 1 2 5d", "1 5d 1 5d", "1 4 1 5d"],
                other: &["6 3 4 1", "5 1 2d 5", "4 1 5d 1", "6 2 5d 1"],
                close: "2 5d",
                turnaround: "5d",
            },
            (Self::Classical, true) => Progressions {
                main: &["1 4 5d 1", "1 6 2 5d", "1 5d 6 3 4 1 2 5d", "1 4 7 3"],
                other: &["3 7 1 5d", "6 3 4 5d", "4 7 3 6"],
                close: "4 5d",
                turnaround: "5d",
            },
            (Self::Still, false) => Progressions {
                main: &["1 4", "1 2", "1 3 4 1", "1 5s 4 4", "1 6"],
                other: &["4 1", "6 4", "2 4", "4 6 1 5s"],
                close: "4",
                turnaround: "4",
            },
            (Self::Still, true) => Progressions {
                main: &["1 6", "1 4", "1 7 6 7", "1 3"],
                other: &["6 7", "4 6", "6 1", "4 1 6 7"],
                close: "4",
                turnaround: "7",
            },
            (palette, minor) => palette.more_progressions(minor),
        }
    }

    /// Returns the entry of the second half of the table of [`Palette::progressions`].
    const fn more_progressions(self, minor: bool) -> Progressions {
        match (self, minor) {
            (Self::Dance, false) => Progressions {
                main: &["1 5 6 4", "6 4 1 5", "4 5 6 6", "2 5 1 1"],
                other: &["4 5 6 1", "6 5 4 4", "4 1 5 6"],
                close: "4 5",
                turnaround: "5",
            },
            (Self::Dance, true) => Progressions {
                main: &["1 6 3 7", "1 7 6 6", "1 1 6 7", "1 3 6 7", "1 4 6 7"],
                other: &["6 7 1 1", "6 3 7 1", "4 6 1 7"],
                close: "6 7",
                turnaround: "7",
            },
            (Self::Epic, false) => Progressions {
                main: &["1 5 6 4", "1 3 4 5", "1 6b 7b 1"],
                other: &["6 4 1 5", "4 5 6 3", "6b 7b 1 1"],
                close: "6b 7b",
                turnaround: "5",
            },
            (Self::Epic, true) => Progressions {
                main: &["1 6 3 7", "1 6 4 5d", "1 7 6 5d", "1 4 6 7"],
                other: &["6 7 1 1", "6 3 7 1", "4 1 6 7", "6 4 1 5d"],
                close: "6 7",
                turnaround: "5d",
            },
            (Self::Blues, false) => Progressions {
                main: &["1d 1d 1d 1d | 4d 4d 1d 1d | 5d 4d 1d 5d", "1d 4d 1d 1d | 4d 4d 1d 6d | 2 5d 1d 5d"],
                other: &["4d 4d 1d 1d", "4d 1d 2d 5d"],
                close: "5d 4d",
                turnaround: "5d",
            },
            (Self::Blues, true) => Progressions {
                main: &["1 1 1 1 | 4 4 1 1 | 6d 5d 1 5d"],
                other: &["4 4 1 1", "6d 5d 1 1"],
                close: "6d 5d",
                turnaround: "5d",
            },
            (_, false) => Progressions {
                main: &["1 4 1 5", "1 5 4 1", "1 6 4 5", "1 4 5 1", "1 7b 4 1"],
                other: &["4 1 4 5", "6 4 1 5", "4 5 1 6"],
                close: "4 5",
                turnaround: "5",
            },
            (_, true) => Progressions {
                main: &["1 7 1 7", "1 7 6 7", "1 3 7 1", "1 4 1 7"],
                other: &["3 7 1 7", "6 7 1 1", "3 7 4 1"],
                close: "7",
                turnaround: "7",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::{Chord, Key, Mode};

    const ALL: [Palette; 8] = [
        Palette::Pop,
        Palette::Jazz,
        Palette::Classical,
        Palette::Still,
        Palette::Dance,
        Palette::Epic,
        Palette::Blues,
        Palette::Folk,
    ];

    #[test]
    fn every_chord_is_a_degree_with_a_known_ending_and_phrases_divide_evenly() {
        for (palette, minor) in ALL.into_iter().flat_map(|palette| [(palette, false), (palette, true)]) {
            let progressions = palette.progressions(minor);
            let texts = progressions
                .main
                .iter()
                .chain(progressions.other)
                .chain([&progressions.close, &progressions.turnaround]);
            for token in texts.clone().flat_map(|text| text.split([' ', '|'])).filter(|token| !token.is_empty()) {
                let (degree, ending) = token.split_at(1);
                assert!(("1"..="7").contains(&degree), "{token}");
                assert!(["", "d", "m", "M", "b", "s"].contains(&ending), "{token}");
            }
            for phrase in progressions.main.iter().chain(progressions.other).flat_map(|text| text.split('|')) {
                assert!([1, 2, 4, 8].contains(&phrase.split_whitespace().count()), "{phrase}");
            }
        }
    }

    #[test]
    fn a_lowered_degree_of_major_is_a_major_chord() {
        let key = Key { tonic: 0, mode: Mode::Ionian };
        for (token, root) in [("6b", 8), ("7b", 10)] {
            let chord = Chord::parse(key, token, 0);
            assert_eq!((chord.root, chord.tones), (root, vec![0, 4, 7]), "{token}");
        }
    }
}
