//! Pitches, scales and chords.
//!
//! Pitches are MIDI numbers (60 is middle C), pitch classes 0 to 11 (0 is C), degrees of a scale are counted from 0.

/// A scale of seven steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Major.
    Ionian,
    /// Minor with a bright sixth.
    Dorian,
    /// Minor with a low second.
    Phrygian,
    /// Major with a high fourth.
    Lydian,
    /// Major with a low seventh.
    Mixolydian,
    /// Natural minor.
    Aeolian,
    /// Minor with the seventh of major.
    HarmonicMinor,
}

impl Mode {
    /// Semitones above the tonic.
    #[must_use]
    pub const fn steps(self) -> [i32; 7] {
        match self {
            Self::Ionian => [0, 2, 4, 5, 7, 9, 11],
            Self::Dorian => [0, 2, 3, 5, 7, 9, 10],
            Self::Phrygian => [0, 1, 3, 5, 7, 8, 10],
            Self::Lydian => [0, 2, 4, 6, 7, 9, 11],
            Self::Mixolydian => [0, 2, 4, 5, 7, 9, 10],
            Self::Aeolian => [0, 2, 3, 5, 7, 8, 10],
            Self::HarmonicMinor => [0, 2, 3, 5, 7, 8, 11],
        }
    }

    /// Whether its third is minor.
    #[must_use]
    pub const fn is_minor(self) -> bool {
        self.steps()[2] == 3
    }

    /// As people say it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ionian => "major",
            Self::Dorian => "dorian",
            Self::Phrygian => "phrygian",
            Self::Lydian => "lydian",
            Self::Mixolydian => "mixolydian",
            Self::Aeolian => "minor",
            Self::HarmonicMinor => "harmonic minor",
        }
    }
}

/// A tonic and a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Pitch class of the tonic.
    pub tonic: i32,
    /// The scale on it.
    pub mode: Mode,
}

impl Key {
    /// The pitch of a degree, degree 0 being the tonic in the lowest octave; any number of steps up or down.
    #[must_use]
    pub const fn pitch(self, degree: i32) -> i32 {
        self.tonic + 12 * degree.div_euclid(7) + self.mode.steps()[degree.rem_euclid(7) as usize]
    }

    /// The degree whose pitch is nearest, the lower one of two.
    #[must_use]
    pub fn degree(self, pitch: i32) -> i32 {
        let about = (pitch - self.tonic).div_euclid(12) * 7;
        (about..about + 8).min_by_key(|degree| (self.pitch(*degree) - pitch).abs()).unwrap_or(about)
    }

    /// Whether a pitch is in the scale.
    #[must_use]
    pub fn holds(self, pitch: i32) -> bool {
        self.mode.steps().contains(&(pitch - self.tonic).rem_euclid(12))
    }

    /// Such as `F# minor`, spelled as keys usually are.
    #[must_use]
    pub fn name(self) -> String {
        const SHARP: [&str; 12] = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"];
        const USUAL_MAJOR: [&str; 12] = ["C", "Db", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"];
        const USUAL_MINOR: [&str; 12] = ["C", "C#", "D", "Eb", "E", "F", "F#", "G", "G#", "A", "Bb", "B"];
        let names = match self.mode {
            Mode::Ionian => USUAL_MAJOR,
            Mode::Aeolian | Mode::HarmonicMinor => USUAL_MINOR,
            _ => SHARP,
        };
        format!("{} {}", names[self.tonic.rem_euclid(12) as usize], self.mode.name())
    }
}

/// A chord of three to five tones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chord {
    /// Pitch class of the root.
    pub root: i32,
    /// Semitones above the root, the root first, rising.
    pub tones: Vec<i32>,
    /// The degree of the scale on which it stands, 0 to 6.
    pub degree: i32,
}

impl Chord {
    /// Reads a chord as the tables write it: a degree from 1 to 7 and how it differs from what the scale gives there.
    ///
    /// `d` is a dominant seventh, `m` minor, `M` major, `b` major on the lowered degree, `s` with the fourth for the third.
    /// `extension` adds the seventh (1) and the ninth (2) to what is not said to be otherwise.
    #[must_use]
    pub fn parse(key: Key, token: &str, extension: u8) -> Self {
        let digit = token.bytes().next().map_or(1, |byte| i32::from(byte) - i32::from(b'0'));
        let degree = (digit - 1).clamp(0, 6);
        let root = key.pitch(degree);
        let above = |steps: i32| key.pitch(degree + steps) - root;
        let seventh = extension > 0;
        let tones = match token.as_bytes().get(1) {
            Some(b'd') if extension > 1 => vec![0, 4, 7, 10, 14],
            Some(b'd') => vec![0, 4, 7, 10],
            Some(b'm') if seventh => vec![0, 3, 7, 10],
            Some(b'm') => vec![0, 3, 7],
            Some(b'M' | b'b') if seventh => vec![0, 4, 7, 11],
            Some(b'M' | b'b') => vec![0, 4, 7],
            Some(b's') => vec![0, 5, 7],
            _ => {
                let mut tones = vec![0, above(2), above(4)];
                if seventh {
                    tones.push(above(6));
                }
                // A ninth a semitone above the root is no colour but a clash.
                if extension > 1 && above(8) == 14 {
                    tones.push(14);
                }
                tones
            }
        };
        let lowered = i32::from(token.as_bytes().get(1) == Some(&b'b'));
        Self { root: (root - lowered).rem_euclid(12), tones, degree }
    }

    /// Whether a pitch belongs to it.
    #[must_use]
    pub fn holds(&self, pitch: i32) -> bool {
        self.tones.iter().any(|tone| (self.root + tone - pitch).rem_euclid(12) == 0)
    }

    /// Pitch class of the fifth, whatever its quality.
    #[must_use]
    pub fn fifth(&self) -> i32 {
        (self.root + self.tones.get(2).copied().unwrap_or(7)).rem_euclid(12)
    }

    /// The pitch of the chord that is nearest to a pitch, the lower one of two.
    #[must_use]
    pub fn nearest(&self, pitch: i32) -> i32 {
        let far = |distance: &i32| [pitch - distance, pitch + distance].into_iter().find(|pitch| self.holds(*pitch));
        (0..12).find_map(|distance| far(&distance)).unwrap_or(pitch)
    }

    /// A pitch of the scale as it sounds over this chord: where the chord has raised or lowered a step, the step follows.
    #[must_use]
    pub fn bend(&self, key: Key, pitch: i32) -> i32 {
        for tone in &self.tones {
            let altered = self.root + tone;
            // Thirds and sevenths that are not of the scale are raised if they are major; everything else was lowered.
            let step = if matches!(tone, 4 | 11) { 1 } else { -1 };
            if !key.holds(altered) && (altered - step - pitch).rem_euclid(12) == 0 && !self.holds(pitch) {
                return pitch + step;
            }
        }
        pitch
    }
}

/// The pitch of a class that is at or above a pitch.
#[must_use]
pub const fn at_or_above(class: i32, pitch: i32) -> i32 {
    pitch + (class - pitch).rem_euclid(12)
}

/// Hertz of a MIDI pitch, fractions being cents.
#[must_use]
pub fn hertz(pitch: f32) -> f32 {
    440.0 * ((pitch - 69.0) / 12.0).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A_MINOR: Key = Key { tonic: 9, mode: Mode::Aeolian };
    const C_MAJOR: Key = Key { tonic: 0, mode: Mode::Ionian };

    #[test]
    fn chords_are_those_of_the_scale_unless_they_say_otherwise() {
        let chord = |key, token, extension| {
            let chord = Chord::parse(key, token, extension);
            (chord.root, chord.tones)
        };
        assert_eq!(chord(C_MAJOR, "1", 0), (0, vec![0, 4, 7]));
        assert_eq!(chord(C_MAJOR, "2", 1), (2, vec![0, 3, 7, 10]));
        assert_eq!(chord(C_MAJOR, "7", 0), (11, vec![0, 3, 6]));
        assert_eq!(chord(C_MAJOR, "7b", 0), (10, vec![0, 4, 7]));
        assert_eq!(chord(C_MAJOR, "3", 2), (4, vec![0, 3, 7, 10]));
        assert_eq!(chord(A_MINOR, "5", 0), (4, vec![0, 3, 7]));
        assert_eq!(chord(A_MINOR, "5d", 0), (4, vec![0, 4, 7, 10]));
    }

    #[test]
    fn degrees_and_pitches_are_each_others_inverse() {
        for degree in 20..60 {
            assert_eq!(A_MINOR.degree(A_MINOR.pitch(degree)), degree);
        }
        assert_eq!(C_MAJOR.pitch(35), 60);
        assert_eq!(C_MAJOR.degree(61), 35);
    }

    #[test]
    fn the_leading_tone_follows_its_dominant() {
        let dominant = Chord::parse(A_MINOR, "5d", 0);
        assert_eq!(dominant.bend(A_MINOR, 67), 68);
        assert_eq!(dominant.bend(A_MINOR, 69), 69);
        let lowered = Chord::parse(C_MAJOR, "7b", 0);
        assert_eq!([69, 71, 72].map(|pitch| lowered.bend(C_MAJOR, pitch)), [69, 70, 72]);
        assert_eq!(dominant.nearest(66), 65 - 1);
        assert_eq!(at_or_above(9, 60), 69);
        assert_eq!(at_or_above(0, 60), 60);
    }

    #[test]
    fn keys_are_named_as_they_usually_are() {
        assert_eq!(Key { tonic: 3, mode: Mode::Ionian }.name(), "Eb major");
        assert_eq!(Key { tonic: 1, mode: Mode::Aeolian }.name(), "C# minor");
        assert_eq!(Key { tonic: 2, mode: Mode::Dorian }.name(), "D dorian");
    }
}
