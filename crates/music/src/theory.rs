//! Pitches, scales and chords.
//!
//! Pitches are MIDI numbers (60 is middle C), pitch classes are 0 to 11 (0 is C) and scale degrees start at 0.

/// Scale of seven steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Major.
    Ionian,
    /// Natural minor with a raised sixth.
    Dorian,
    /// Natural minor with a lowered second.
    Phrygian,
    /// Major with a raised fourth.
    Lydian,
    /// Major with a lowered seventh.
    Mixolydian,
    /// Natural minor.
    Aeolian,
    /// Natural minor with a raised seventh.
    HarmonicMinor,
}

impl Mode {
    /// Returns the semitones of each scale degree above the tonic.
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

    /// Returns `true` if the third is minor.
    #[must_use]
    pub const fn is_minor(self) -> bool {
        self.steps()[2] == 3
    }

    /// Returns the common name.
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

/// Tonic and mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Pitch class of the tonic.
    pub tonic: i32,
    /// Scale built on the tonic.
    pub mode: Mode,
}

impl Key {
    /// Returns the pitch of a degree. Degree 0 is the tonic in the lowest octave; any number of steps up or down is
    /// valid.
    #[must_use]
    pub const fn pitch(self, degree: i32) -> i32 {
        self.tonic + 12 * degree.div_euclid(7) + self.mode.steps()[degree.rem_euclid(7) as usize]
    }

    /// Returns the degree whose pitch is nearest to `pitch`, the lower one if two are equally near.
    #[must_use]
    pub fn degree(self, pitch: i32) -> i32 {
        let approximate = (pitch - self.tonic).div_euclid(12) * 7;
        (approximate..approximate + 8).min_by_key(|degree| (self.pitch(*degree) - pitch).abs()).unwrap_or(approximate)
    }

    /// Returns `true` if the pitch is in the scale.
    #[must_use]
    pub fn contains(self, pitch: i32) -> bool {
        self.mode.steps().contains(&(pitch - self.tonic).rem_euclid(12))
    }

    /// Returns a name such as `F# minor` in the usual spelling.
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

/// Chord of three to five tones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chord {
    /// Pitch class of the root.
    pub root: i32,
    /// Semitones above the root in rising order, starting with the root itself.
    pub tones: Vec<i32>,
    /// Scale degree of the root, 0 to 6.
    pub degree: i32,
}

impl Chord {
    /// Parses a chord token of the progression tables: a degree from 1 to 7 and an optional change to the scale's own
    /// chord.
    ///
    /// The change is `d` for a dominant seventh, `m` for minor, `M` for major, `b` for major on the lowered degree or
    /// `s` for a fourth in place of the third. `extension` adds the seventh (1) and the ninth (2) where the token
    /// leaves them open.
    #[must_use]
    pub fn parse(key: Key, token: &str, extension: u8) -> Self {
        let digit = token.bytes().next().map_or(1, |byte| i32::from(byte) - i32::from(b'0'));
        let degree = (digit - 1).clamp(0, 6);
        let root = key.pitch(degree);
        // Semitones from the root to the scale tone that is this many degrees above it.
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
                // A minor ninth above the root clashes.
                if extension > 1 && above(8) == 14 {
                    tones.push(14);
                }
                tones
            }
        };

        let lowered = i32::from(token.as_bytes().get(1) == Some(&b'b'));
        Self { root: (root - lowered).rem_euclid(12), tones, degree }
    }

    /// Returns `true` if the pitch belongs to the chord.
    #[must_use]
    pub fn contains(&self, pitch: i32) -> bool {
        self.tones.iter().any(|tone| (self.root + tone - pitch).rem_euclid(12) == 0)
    }

    /// Returns the pitch class of the fifth, which may be diminished or augmented.
    #[must_use]
    pub fn fifth(&self) -> i32 {
        (self.root + self.tones.get(2).copied().unwrap_or(7)).rem_euclid(12)
    }

    /// Returns the chord pitch nearest to a pitch, the lower one if two are equally near.
    #[must_use]
    pub fn nearest(&self, pitch: i32) -> i32 {
        (0..12)
            .flat_map(|distance| [pitch - distance, pitch + distance])
            .find(|candidate| self.contains(*candidate))
            .unwrap_or(pitch)
    }

    /// Returns a scale pitch adjusted to this chord: a scale degree that the chord raises or lowers follows the chord.
    #[must_use]
    pub fn adjust(&self, key: Key, pitch: i32) -> i32 {
        for tone in &self.tones {
            let altered = self.root + tone;
            // Major thirds and sevenths outside of the scale are raised; every other tone outside of it is lowered.
            let step = if matches!(tone, 4 | 11) { 1 } else { -1 };
            if !key.contains(altered) && (altered - step - pitch).rem_euclid(12) == 0 && !self.contains(pitch) {
                return pitch + step;
            }
        }
        pitch
    }
}

/// Returns the lowest pitch of a class at or above a pitch.
#[must_use]
pub const fn at_or_above(class: i32, pitch: i32) -> i32 {
    pitch + (class - pitch).rem_euclid(12)
}

/// Returns the frequency in hertz of a MIDI pitch; 0.01 is a cent.
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
    fn tokens_without_a_change_give_the_chords_of_the_scale() {
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
        assert_eq!(dominant.adjust(A_MINOR, 67), 68);
        assert_eq!(dominant.adjust(A_MINOR, 69), 69);
        let lowered = Chord::parse(C_MAJOR, "7b", 0);
        assert_eq!([69, 71, 72].map(|pitch| lowered.adjust(C_MAJOR, pitch)), [69, 70, 72]);
        assert_eq!(dominant.nearest(66), 64);
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
