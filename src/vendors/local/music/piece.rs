//! A finished composition: what is played when, and nothing of how it sounds.

use super::instrument::Instrument;

/// Samples a second, everywhere in the engine.
pub const RATE: u32 = 48_000;

/// A composition, ready to be played. Two of the same prompt are equal.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// What it is called.
    pub title: String,
    /// What it is, in a few words each.
    pub tags: Vec<String>,
    /// Its length in samples: exactly so many are heard.
    pub frames: u32,
    /// Who plays.
    pub parts: Vec<Part>,
    /// The room, the echo and how it ends.
    pub space: Space,
    /// Samples at which the kick drum sounds, rising; parts may duck under it.
    pub kicks: Vec<u32>,
    /// Where noise begins that the sound engine needs.
    pub seed: u64,
}

/// One instrument with its notes.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What plays.
    pub instrument: Instrument,
    /// Which drums, for drums.
    pub kit: Kit,
    /// The notes by their beginning.
    pub notes: Vec<Note>,
    /// Level in decibels against a lead.
    pub level_db: f32,
    /// From -1 (left) to 1 (right).
    pub pan: f32,
    /// How much goes to the room, 0 to 1.
    pub reverb: f32,
    /// How much goes to the echo, 0 to 1.
    pub echo: f32,
    /// How much it gives way to the kick drum, 0 to 1.
    pub duck: f32,
}

/// One note. For drums the pitch is the number of a [`Drum`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Note {
    /// First sample.
    pub start: u32,
    /// Samples until it is let go; it rings on as the instrument does.
    pub frames: u32,
    /// MIDI pitch.
    pub pitch: f32,
    /// How hard, 0 to 1.
    pub velocity: f32,
}

/// What surrounds the players.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Space {
    /// Seconds until the room has faded by 60 dB.
    pub reverb_seconds: f32,
    /// Samples between repeats of the echo.
    pub echo_frames: u32,
    /// What remains of each repeat, 0 to 1.
    pub echo_feedback: f32,
    /// Highest frequency that the tape lets through, in hertz; none for all.
    pub tape_hertz: Option<f32>,
    /// Samples over which the end fades out.
    pub fade_frames: u32,
    /// Whether the end leads back to the beginning: it is not faded at all but for a click's length.
    pub seamless: bool,
    /// Background sound.
    pub texture: Option<Texture>,
}

/// Background sounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texture {
    /// Crackle of a record.
    Vinyl,
    /// Rain.
    Rain,
    /// Waves on a shore.
    Sea,
    /// Wind.
    Wind,
}

/// Sets of drums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kit {
    /// Drums of wood and skin.
    Acoustic,
    /// Played with brushes, dry.
    Brushes,
    /// Drum machine with a hard kick.
    Electronic,
    /// Drum machine with a long low kick.
    Deep,
    /// Soft and dusty.
    Dusty,
    /// Drums of an orchestra.
    Orchestral,
}

/// Drums, by the number that stands for the pitch of their notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Drum {
    Kick,
    Snare,
    Clap,
    Rim,
    HatClosed,
    HatOpen,
    Ride,
    Crash,
    TomLow,
    TomMiddle,
    TomHigh,
    Shaker,
    Cowbell,
    Conga,
}

impl Drum {
    /// All, by number.
    pub const ALL: [Self; 14] = [
        Self::Kick,
        Self::Snare,
        Self::Clap,
        Self::Rim,
        Self::HatClosed,
        Self::HatOpen,
        Self::Ride,
        Self::Crash,
        Self::TomLow,
        Self::TomMiddle,
        Self::TomHigh,
        Self::Shaker,
        Self::Cowbell,
        Self::Conga,
    ];

    /// The pitch by which notes name it.
    #[must_use]
    pub fn pitch(self) -> f32 {
        f32::from(self as u8)
    }

    /// The drum that a note names; the kick when there is none of that number.
    #[must_use]
    pub fn of(pitch: f32) -> Self {
        Self::ALL.get(pitch as usize).copied().unwrap_or(Self::Kick)
    }
}

impl Piece {
    /// Its length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f32 {
        self.frames as f32 / RATE as f32
    }
}
