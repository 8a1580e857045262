//! Finished composition: the notes and their timing, without sound.

use crate::instrument::Instrument;

/// Sample rate of the whole engine in hertz.
pub const RATE: u32 = 48_000;

/// Composition ready to be played. The same prompt gives an equal piece.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Title made from the words of the prompt.
    pub title: String,
    /// Descriptive tags, a few words each; the genre comes first.
    pub tags: Vec<String>,
    /// Exact length in samples.
    pub frames: u32,
    /// Parts that play together.
    pub(crate) parts: Vec<Part>,
    /// Reverb, echo and ending.
    pub(crate) space: Space,
    /// Samples at which the kick drum sounds, in rising order; used for ducking.
    pub(crate) kicks: Vec<u32>,
    /// Seed of the noise in the synthesizers.
    pub(crate) seed: u64,
}

/// Instrument with its notes.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub instrument: Instrument,
    /// Drum sounds; used by drum parts only.
    pub kit: DrumKit,
    /// Notes in order of their start.
    pub notes: Vec<Note>,
    /// Level in decibels relative to a lead.
    pub level_db: f32,
    /// Stereo position from -1 (left) to 1 (right).
    pub pan: f32,
    /// Send level to the reverb, 0 to 1.
    pub reverb: f32,
    /// Send level to the echo, 0 to 1.
    pub echo: f32,
    /// Amount by which the kick drum lowers the level, 0 to 1.
    pub duck: f32,
}

/// Single note. In drum parts, the pitch is the number of a [`Drum`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Note {
    /// First sample.
    pub start: u32,
    /// Samples until release; the instrument's decay follows.
    pub frames: u32,
    /// MIDI pitch.
    pub pitch: f32,
    /// Loudness, 0 to 1.
    pub velocity: f32,
}

/// Acoustics of a piece.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Space {
    /// Seconds until the reverb has decayed by 60 dB.
    pub reverb_seconds: f32,
    /// Samples between the repeats of the echo.
    pub echo_frames: u32,
    /// Level of each repeat relative to the previous repeat, 0 to 1.
    pub echo_feedback: f32,
    /// Cutoff frequency of the tape filter in hertz, if there is one.
    pub tape_hertz: Option<f32>,
    /// Length of the fade-out in samples.
    pub fade_frames: u32,
    /// `true` if the end loops back to the beginning; the end then has no fade-out beyond the few samples that avoid a
    /// click.
    pub seamless: bool,
    /// Background sound, if any.
    pub texture: Option<Texture>,
}

/// Background sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texture {
    /// Crackle of a vinyl record.
    Vinyl,
    /// Rain.
    Rain,
    /// Waves on a shore.
    Sea,
    /// Wind.
    Wind,
}

/// Drum kit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrumKit {
    /// Acoustic drums.
    Acoustic,
    /// Acoustic drums played with brushes, dry.
    Brushes,
    /// Drum machine with a hard kick.
    Electronic,
    /// Drum machine with a long low kick.
    Deep,
    /// Soft, lo-fi drums.
    Dusty,
    /// Orchestral percussion.
    Orchestral,
}

/// Drum. Its number is the pitch of its notes.
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
    /// All drums in order of their number.
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

    /// Returns the pitch that names this drum in a note.
    #[must_use]
    pub fn pitch(self) -> f32 {
        f32::from(self as u8)
    }

    /// Returns the drum that a note names, or the kick if the number is unknown.
    #[must_use]
    pub fn from_pitch(pitch: f32) -> Self {
        Self::ALL.get(pitch as usize).copied().unwrap_or(Self::Kick)
    }
}
