//! Drum patterns of one bar. Each letter is a sixteenth: `X` loud, `x` normal, `o` soft, `.` silent.

use crate::piece::Drum;
use Drum::{Clap, Conga, Crash, HatClosed, HatOpen, Kick, Ride, Rim, Shaker, Snare, TomHigh, TomLow, TomMiddle};

/// Drum pattern of a genre: for each drum the letters of its strokes.
#[derive(Debug, Clone, Copy)]
pub struct Groove {
    /// Pattern of sixteen steps, also used for all bars that do not have twelve.
    pub four: &'static [(Drum, &'static str)],
    /// Pattern for bars of twelve steps.
    pub three: &'static [(Drum, &'static str)],
    /// Drums that also play in quiet phrases.
    pub pulse: &'static [Drum],
    /// Fill before a new section.
    pub fill: Fill,
}

/// Fill at the end of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Descending toms.
    Toms,
    /// Snare roll.
    Roll,
    /// Short break of rim, clap and hi-hat.
    Gap,
    /// Low drums.
    Low,
}

const WALTZ: &[(Drum, &str)] =
    &[(Kick, "X..........."), (Snare, "....o...o..."), (HatClosed, "x.o.x.o.x.o."), (Ride, "............")];
const WALTZ_SOFT: &[(Drum, &str)] = &[(Kick, "x..........."), (Rim, "....x...x..."), (Shaker, "o.o.x.o.x.o.")];
const WALTZ_MACHINE: &[(Drum, &str)] = &[(Kick, "X...X...X..."), (Clap, "........x..."), (HatOpen, "..x...x...x.")];

pub const HOUSE: Groove = Groove {
    four: &[
        (Kick, "X...X...X...X..."),
        (Clap, "....x.......x..."),
        (HatOpen, "..x...x...x...x."),
        (HatClosed, "o.o.o.o.o.o.o.oo"),
        (Shaker, "o..oo..oo..oo..o"),
    ],
    three: WALTZ_MACHINE,
    pulse: &[Kick, HatClosed],
    fill: Fill::Gap,
};
pub const TECHNO: Groove = Groove {
    four: &[
        (Kick, "X...X...X...X..."),
        (HatOpen, "..X...X...X...X."),
        (HatClosed, "xoxoxoxoxoxoxoxo"),
        (Rim, "...o..o....o..o."),
        (Clap, "............o..."),
    ],
    three: WALTZ_MACHINE,
    pulse: &[Kick],
    fill: Fill::Gap,
};
pub const TRANCE: Groove = Groove {
    four: &[
        (Kick, "X...X...X...X..."),
        (HatOpen, "..X...X...X...X."),
        (HatClosed, "o..oo..oo..oo..o"),
        (Clap, "....x.......x..."),
    ],
    three: WALTZ_MACHINE,
    pulse: &[Kick],
    fill: Fill::Roll,
};
pub const DISCO: Groove = Groove {
    four: &[
        (Kick, "X...X...X...X..."),
        (Snare, "....X.......X..."),
        (HatOpen, "..x...x...x...x."),
        (HatClosed, "x..xx..xx..xx..x"),
        (Conga, "..o..o.o..o..oo."),
    ],
    three: WALTZ_MACHINE,
    pulse: &[Kick, HatClosed],
    fill: Fill::Toms,
};
pub const BACKBEAT: Groove = Groove {
    four: &[(Kick, "X......xX......."), (Snare, "....X.......X..."), (HatClosed, "x.o.x.o.x.o.x.o.")],
    three: WALTZ,
    pulse: &[HatClosed, Kick],
    fill: Fill::Toms,
};
pub const ROCK: Groove = Groove {
    four: &[(Kick, "X.....x.X.x....."), (Snare, "....X.......X..."), (HatClosed, "X.x.X.x.X.x.X.x.")],
    three: WALTZ,
    pulse: &[HatClosed, Kick],
    fill: Fill::Toms,
};
pub const METAL: Groove = Groove {
    four: &[(Kick, "X.xxX.xxX.xxX.xx"), (Snare, "....X.......X..."), (Ride, "X...x...X...x...")],
    three: &[(Kick, "X.xxX.xxX.xx"), (Snare, "......X....."), (Ride, "X...x...x...")],
    pulse: &[Kick, Ride],
    fill: Fill::Toms,
};
pub const BOOM_BAP: Groove = Groove {
    four: &[(Kick, "X......x..x....."), (Snare, "....X..o....X..."), (HatClosed, "x.o.x.o.x.o.x.oo")],
    three: WALTZ_SOFT,
    pulse: &[HatClosed, Kick],
    fill: Fill::Gap,
};
pub const TRAP: Groove = Groove {
    four: &[
        (Kick, "X.....x...x....."),
        (Snare, "........X......."),
        (Clap, "........x......."),
        (HatClosed, "x.x.x.xxx.x.xoxo"),
        (HatOpen, "..............x."),
    ],
    three: WALTZ_SOFT,
    pulse: &[HatClosed],
    fill: Fill::Roll,
};
pub const BREAK: Groove = Groove {
    four: &[
        (Kick, "X.........X....."),
        (Snare, "....X..o.o..X..o"),
        (HatClosed, "x.x.x.x.x.x.x.x."),
        (Ride, "o...o...o...o..."),
    ],
    three: WALTZ,
    pulse: &[HatClosed],
    fill: Fill::Roll,
};
pub const SYNTH: Groove = Groove {
    four: &[
        (Kick, "X...X...X...X..."),
        (Snare, "....X.......X..."),
        (HatClosed, "x.x.x.x.x.x.x.x."),
        (TomLow, "..............o."),
    ],
    three: WALTZ_MACHINE,
    pulse: &[Kick, HatClosed],
    fill: Fill::Toms,
};
pub const CHIP: Groove = Groove {
    four: &[(Kick, "X...x...X...x..."), (Snare, "....X.......X..."), (HatClosed, "x.xox.xox.xox.xo")],
    three: WALTZ,
    pulse: &[HatClosed],
    fill: Fill::Roll,
};
pub const SHUFFLE: Groove = Groove {
    four: &[(Kick, "X.......X.o....."), (Snare, "....X.......X..."), (Ride, "x.o.x.o.x.o.x.o.")],
    three: WALTZ,
    pulse: &[Ride, Kick],
    fill: Fill::Toms,
};
pub const TRAIN: Groove = Groove {
    four: &[(Kick, "X.......X......."), (Snare, "o.oox.ooo.oox.oo"), (HatClosed, "....o.......o...")],
    three: WALTZ,
    pulse: &[Snare],
    fill: Fill::Roll,
};
pub const FOLK: Groove = Groove {
    four: &[(Kick, "x.......x......."), (Shaker, "o.x.o.x.o.x.o.x."), (Rim, "....o.......o...")],
    three: WALTZ_SOFT,
    pulse: &[Shaker],
    fill: Fill::Gap,
};
pub const FUNK: Groove = Groove {
    four: &[
        (Kick, "X..x..x...x..x.."),
        (Snare, "....X..o.o..X..o"),
        (HatClosed, "xoxoxoxoxoxox.xo"),
        (HatOpen, ".............x.."),
    ],
    three: WALTZ,
    pulse: &[HatClosed, Kick],
    fill: Fill::Toms,
};
pub const ONE_DROP: Groove = Groove {
    four: &[(Kick, "........X......."), (Rim, "........x....o.."), (HatClosed, "x.o.x.o.x.o.x.oo")],
    three: WALTZ_SOFT,
    pulse: &[HatClosed],
    fill: Fill::Toms,
};
pub const BOSSA: Groove = Groove {
    four: &[
        (Kick, "x..xx..xx..xx..x"),
        (Rim, "x..x..x...x..x.."),
        (Shaker, "xoxoxoxoxoxoxoxo"),
        (Conga, "..o...oo..o...oo"),
    ],
    three: WALTZ_SOFT,
    pulse: &[Shaker, Rim],
    fill: Fill::Gap,
};
pub const SWING: Groove = Groove {
    four: &[
        (Ride, "x...x.o.x...x.o."),
        (HatClosed, "....x.......x..."),
        (Kick, "o...o...o...o..."),
        (Snare, "......o.......o."),
    ],
    three: &[(Ride, "x...x.o.x..."), (HatClosed, "....x...x..."), (Kick, "x..........."), (Snare, "......o.....")],
    pulse: &[Ride],
    fill: Fill::Roll,
};
pub const EPIC: Groove = Groove {
    four: &[
        (TomLow, "X..x..x.X..x..x."),
        (Kick, "X.......X......."),
        (TomMiddle, "......o.......oo"),
        (Snare, "....o..oo...o.oo"),
    ],
    three: &[(TomLow, "X..x..x..x.."), (Kick, "X..........."), (Snare, "....o...o.oo")],
    pulse: &[TomLow],
    fill: Fill::Low,
};

impl Groove {
    /// Returns the pattern for a bar of `steps` sixteenths.
    #[must_use]
    pub fn pattern(&self, steps: u32) -> &'static [(Drum, &'static str)] {
        if steps == 12 { self.three } else { self.four }
    }
}

/// Returns the velocity of a pattern letter, 0 to 1.
#[must_use]
pub fn velocity(letter: u8) -> f32 {
    match letter {
        b'X' => 0.95,
        b'x' => 0.74,
        b'o' => 0.42,
        _ => 0.0,
    }
}

/// Returns the strokes of a fill: steps before the bar line, drum, and velocity from 0 to 1.
#[must_use]
pub const fn fill(fill: Fill) -> &'static [(u32, Drum, f32)] {
    match fill {
        Fill::Toms => &[
            (8, TomHigh, 0.7),
            (7, TomHigh, 0.6),
            (6, TomMiddle, 0.75),
            (5, TomMiddle, 0.6),
            (4, TomLow, 0.8),
            (3, TomLow, 0.7),
            (2, Snare, 0.8),
            (1, Snare, 0.9),
        ],
        Fill::Roll => {
            &[(6, Snare, 0.35), (5, Snare, 0.42), (4, Snare, 0.5), (3, Snare, 0.6), (2, Snare, 0.7), (1, Snare, 0.85)]
        }
        Fill::Gap => &[(3, Rim, 0.5), (2, Clap, 0.6), (1, HatOpen, 0.7)],
        Fill::Low => &[(6, TomHigh, 0.7), (4, TomMiddle, 0.8), (3, TomMiddle, 0.7), (2, TomLow, 0.9), (1, TomLow, 1.0)],
    }
}

/// Drum that marks the start of a section.
pub const MARK: Drum = Crash;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_as_long_as_their_bars() {
        let all = [
            HOUSE, TECHNO, TRANCE, DISCO, BACKBEAT, ROCK, METAL, BOOM_BAP, TRAP, BREAK, SYNTH, CHIP, SHUFFLE, TRAIN,
            FOLK, FUNK, ONE_DROP, BOSSA, SWING, EPIC,
        ];
        for groove in all {
            assert!(groove.four.iter().all(|(_, pattern)| pattern.len() == 16), "{groove:?}");
            assert!(groove.three.iter().all(|(_, pattern)| pattern.len() == 12), "{groove:?}");
            assert!(groove.pulse.iter().all(|drum| groove.four.iter().any(|(other, _)| other == drum)), "{groove:?}");
        }
    }
}
