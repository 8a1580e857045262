//! Instruments with their names, pitch ranges and roles.

/// Instrument that can play notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Instrument {
    Piano,
    ElectricPiano,
    Harpsichord,
    Organ,
    Accordion,
    MusicBox,
    Glockenspiel,
    Vibraphone,
    Marimba,
    Bells,
    NylonGuitar,
    SteelGuitar,
    ElectricGuitar,
    DistortedGuitar,
    Harp,
    Ukulele,
    Sitar,
    Pizzicato,
    UprightBass,
    ElectricBass,
    SynthBass,
    SubBass,
    Violin,
    Cello,
    Strings,
    Choir,
    Flute,
    PanFlute,
    Clarinet,
    Oboe,
    Saxophone,
    Trumpet,
    Horns,
    Brass,
    SawLead,
    SquareLead,
    SuperSaw,
    WarmPad,
    GlassPad,
    SynthPluck,
    Chip,
    Drums,
}

/// Function of an instrument in an arrangement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Melody.
    Lead,
    /// Rhythmic chords.
    Comp,
    /// Sustained chords.
    Pad,
    /// Broken chords.
    Arpeggio,
    /// Lowest voice.
    Bass,
    /// Drum pattern.
    Drums,
}

// Short names for the tables below.
use Instrument as I;
use Role as R;

/// Properties of an instrument.
struct InstrumentRow {
    instrument: Instrument,
    name: &'static str,
    /// Lowest and highest MIDI pitch.
    range: (i32, i32),
    /// Roles, the most natural one first.
    roles: &'static [Role],
}

const fn row(instrument: Instrument, name: &'static str, range: (i32, i32), roles: &'static [Role]) -> InstrumentRow {
    InstrumentRow { instrument, name, range, roles }
}

/// Table of all instruments.
const TABLE: &[InstrumentRow] = &[
    row(I::Piano, "piano", (24, 100), &[R::Comp, R::Lead, R::Arpeggio, R::Pad, R::Bass]),
    row(I::ElectricPiano, "electric piano", (31, 96), &[R::Comp, R::Lead, R::Pad, R::Arpeggio]),
    row(I::Harpsichord, "harpsichord", (31, 88), &[R::Arpeggio, R::Lead, R::Comp, R::Bass]),
    row(I::Organ, "organ", (30, 96), &[R::Pad, R::Comp, R::Lead, R::Bass]),
    row(I::Accordion, "accordion", (43, 92), &[R::Lead, R::Comp, R::Pad]),
    row(I::MusicBox, "music box", (60, 103), &[R::Lead, R::Arpeggio, R::Comp]),
    row(I::Glockenspiel, "glockenspiel", (67, 103), &[R::Lead, R::Arpeggio]),
    row(I::Vibraphone, "vibraphone", (53, 89), &[R::Lead, R::Comp, R::Arpeggio, R::Pad]),
    row(I::Marimba, "marimba", (45, 91), &[R::Arpeggio, R::Lead, R::Comp, R::Bass]),
    row(I::Bells, "bells", (55, 96), &[R::Lead, R::Arpeggio]),
    row(I::NylonGuitar, "nylon guitar", (40, 84), &[R::Comp, R::Arpeggio, R::Lead]),
    row(I::SteelGuitar, "acoustic guitar", (40, 84), &[R::Comp, R::Arpeggio, R::Lead]),
    row(I::ElectricGuitar, "electric guitar", (40, 86), &[R::Comp, R::Lead, R::Arpeggio]),
    row(I::DistortedGuitar, "distorted guitar", (38, 86), &[R::Comp, R::Lead]),
    row(I::Harp, "harp", (28, 98), &[R::Arpeggio, R::Lead, R::Comp]),
    row(I::Ukulele, "ukulele", (60, 86), &[R::Comp, R::Lead, R::Arpeggio]),
    row(I::Sitar, "sitar", (48, 84), &[R::Lead, R::Arpeggio]),
    row(I::Pizzicato, "pizzicato strings", (36, 91), &[R::Arpeggio, R::Comp, R::Bass, R::Lead]),
    row(I::UprightBass, "double bass", (28, 55), &[R::Bass]),
    row(I::ElectricBass, "bass guitar", (28, 55), &[R::Bass]),
    row(I::SynthBass, "synth bass", (26, 55), &[R::Bass]),
    row(I::SubBass, "sub bass", (26, 50), &[R::Bass]),
    row(I::Violin, "violin", (55, 96), &[R::Lead, R::Pad]),
    row(I::Cello, "cello", (36, 76), &[R::Lead, R::Bass, R::Pad]),
    row(I::Strings, "strings", (36, 93), &[R::Pad, R::Lead, R::Arpeggio, R::Comp, R::Bass]),
    row(I::Choir, "choir", (43, 84), &[R::Pad, R::Lead]),
    row(I::Flute, "flute", (60, 96), &[R::Lead]),
    row(I::PanFlute, "pan flute", (60, 93), &[R::Lead]),
    row(I::Clarinet, "clarinet", (50, 89), &[R::Lead, R::Pad]),
    row(I::Oboe, "oboe", (58, 88), &[R::Lead]),
    row(I::Saxophone, "saxophone", (49, 82), &[R::Lead]),
    row(I::Trumpet, "trumpet", (54, 84), &[R::Lead]),
    row(I::Horns, "french horns", (41, 77), &[R::Pad, R::Lead]),
    row(I::Brass, "brass", (40, 84), &[R::Comp, R::Lead, R::Pad]),
    row(I::SawLead, "synth lead", (48, 96), &[R::Lead]),
    row(I::SquareLead, "square lead", (48, 96), &[R::Lead, R::Arpeggio]),
    row(I::SuperSaw, "supersaw", (43, 91), &[R::Comp, R::Pad, R::Lead]),
    row(I::WarmPad, "synth pad", (40, 84), &[R::Pad]),
    row(I::GlassPad, "glass pad", (48, 91), &[R::Pad, R::Lead]),
    row(I::SynthPluck, "synth pluck", (45, 96), &[R::Arpeggio, R::Comp, R::Lead]),
    row(I::Chip, "chip synth", (36, 100), &[R::Lead, R::Arpeggio, R::Comp, R::Bass]),
    row(I::Drums, "drums", (0, 127), &[R::Drums]),
];

impl Instrument {
    /// Returns all instruments in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.instrument)
    }

    /// Returns the properties of the instrument.
    fn row(self) -> &'static InstrumentRow {
        // A test ensures that the table contains every instrument.
        TABLE.iter().find(|row| row.instrument == self).unwrap_or(&TABLE[0])
    }

    /// Returns the common name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the lowest and the highest MIDI pitch.
    #[must_use]
    pub fn range(self) -> (i32, i32) {
        self.row().range
    }

    /// Returns the roles, the most natural one first.
    #[must_use]
    pub fn roles(self) -> &'static [Role] {
        self.row().roles
    }
}

/// Phrases that name an instrument in a prompt.
pub const NAMES: &[(&[&str], Instrument)] = &[
    (&["electric piano", "rhodes", "wurlitzer", "ep keys"], I::ElectricPiano),
    (&["piano", "pianos", "pianist", "keys", "keyboard", "grand piano", "upright piano"], I::Piano),
    (&["harpsichord", "clavichord", "cembalo"], I::Harpsichord),
    (&["organ", "church organ", "hammond", "pipe organ"], I::Organ),
    (&["accordion", "harmonica", "bandoneon", "concertina"], I::Accordion),
    (&["music box", "musicbox", "kalimba", "celesta", "celeste"], I::MusicBox),
    (&["glockenspiel", "xylophone", "chimes"], I::Glockenspiel),
    (&["vibraphone", "vibes"], I::Vibraphone),
    (&["marimba", "mallets", "mallet"], I::Marimba),
    (&["bell", "bells", "tubular bells", "carillon"], I::Bells),
    (&["distorted guitar", "distorted guitars", "heavy guitars", "heavy guitar", "distortion"], I::DistortedGuitar),
    (&["electric guitar", "electric guitars", "clean guitar", "guitar solo"], I::ElectricGuitar),
    (&["acoustic guitar", "steel guitar", "fingerpicked guitar", "strummed guitar"], I::SteelGuitar),
    (&["nylon guitar", "classical guitar", "spanish guitar", "guitar", "guitars"], I::NylonGuitar),
    (&["harp", "harps", "lyre"], I::Harp),
    (&["ukulele", "banjo", "mandolin"], I::Ukulele),
    (&["sitar", "oud", "koto", "shamisen"], I::Sitar),
    (&["pizzicato", "plucked strings"], I::Pizzicato),
    (&["double bass", "upright bass", "contrabass", "acoustic bass"], I::UprightBass),
    (&["synth bass", "acid bass", "reese bass", "reese"], I::SynthBass),
    (&["sub bass", "808 bass", "deep bass", "heavy bass", "808", "808s"], I::SubBass),
    (&["bass guitar", "bass", "bassline", "electric bass", "slap bass"], I::ElectricBass),
    (&["violin", "violins", "fiddle", "viola"], I::Violin),
    (&["cello", "cellos", "violoncello"], I::Cello),
    (&["strings", "string section", "string quartet", "orchestra", "string"], I::Strings),
    (&["choir", "choirs", "chorus", "voices", "vocals", "vocal", "choral", "chant", "chants"], I::Choir),
    (&["pan flute", "panflute", "shakuhachi", "ocarina", "recorder", "whistle"], I::PanFlute),
    (&["flute", "flutes", "piccolo"], I::Flute),
    (&["clarinet", "bassoon", "woodwinds", "woodwind"], I::Clarinet),
    (&["oboe", "english horn", "duduk", "bagpipes"], I::Oboe),
    (&["saxophone", "sax", "saxophones"], I::Saxophone),
    (&["trumpet", "trumpets", "flugelhorn", "muted trumpet"], I::Trumpet),
    (&["french horn", "french horns", "horn", "tuba", "trombone", "trombones"], I::Horns),
    (&["brass", "horns", "horn section", "brass section"], I::Brass),
    (&["square lead", "square wave"], I::SquareLead),
    (&["supersaw", "supersaws"], I::SuperSaw),
    (&["glass pad", "shimmer", "crystal"], I::GlassPad),
    (&["pad", "pads", "synth pad", "synth pads", "warm pad"], I::WarmPad),
    (&["pluck", "plucks", "synth pluck", "arp", "arpeggio", "arpeggios", "arpeggiated"], I::SynthPluck),
    (&["chip", "chiptune", "8 bit", "8bit"], I::Chip),
    (&["synth", "synths", "synthesizer", "synthesizers", "synth lead", "lead synth"], I::SawLead),
    (
        &["drums", "drum", "percussion", "beat", "beats", "drum kit", "drum machine", "drumkit", "breakbeat", "taiko"],
        I::Drums,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instrument_has_one_row_a_range_that_can_be_played_and_a_name_in_prompts() {
        for instrument in Instrument::all() {
            assert_eq!(TABLE.iter().filter(|row| row.instrument == instrument).count(), 1, "{instrument:?}");
            assert_eq!(instrument.row().instrument, instrument);
            let (low, high) = instrument.range();
            assert!(high - low >= 24 && !instrument.roles().is_empty(), "{instrument:?}");
            assert!(NAMES.iter().any(|(_, named)| *named == instrument), "no prompt names {instrument:?}");
        }
    }

    #[test]
    fn no_phrase_stands_for_two_instruments() {
        let mut seen = std::collections::HashSet::new();
        for phrase in NAMES.iter().flat_map(|(phrases, _)| phrases.iter()) {
            assert!(seen.insert(*phrase), "{phrase} names two instruments");
        }
    }
}
