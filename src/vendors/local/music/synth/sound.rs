//! How each instrument sounds.

use super::super::instrument::Instrument;
use super::analog::AnalogPatch;
use super::fm::FmPatch;
use super::modal::ModalPatch;
use super::patches::{bent, blown, plucked, rich, struck};
use super::pluck::PluckPatch;
use super::wind::WindPatch;

/// The method by which a sound is made, with what it needs.
#[derive(Debug, Clone, Copy)]
pub enum Method {
    Modal(ModalPatch),
    Pluck(PluckPatch),
    Fm(FmPatch),
    Analog(AnalogPatch),
    Wind(WindPatch),
}

/// What a part passes through on its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Insert {
    /// Nothing.
    None,
    /// Two voices that drift: makes one player wide.
    Chorus,
    /// A loud amplifier.
    Drive(f32),
    /// Left and right in turn.
    Tremolo,
}

/// A sound with its place in the mix.
#[derive(Debug, Clone, Copy)]
pub struct Sound {
    /// How it is made.
    pub method: Method,
    /// What evens the loudness of all instruments out, in decibels: measured, and held to by a test.
    pub level_db: f32,
    /// What it passes through.
    pub insert: Insert,
}

/// The sound of an instrument. Drums are made elsewhere.
#[must_use]
pub fn sound(instrument: Instrument) -> Sound {
    let (method, insert) = method(instrument);
    Sound { method, level_db: level_db(instrument), insert }
}

fn method(instrument: Instrument) -> (Method, Insert) {
    use Instrument as I;
    match instrument {
        I::Piano
        | I::Harpsichord
        | I::Organ
        | I::Accordion
        | I::MusicBox
        | I::Glockenspiel
        | I::Vibraphone
        | I::Marimba
        | I::Bells => struck(instrument),
        I::NylonGuitar
        | I::SteelGuitar
        | I::ElectricGuitar
        | I::DistortedGuitar
        | I::Harp
        | I::Ukulele
        | I::Sitar
        | I::Pizzicato
        | I::UprightBass
        | I::ElectricBass => plucked(instrument),
        I::ElectricPiano | I::GlassPad | I::SynthBass | I::SubBass => (Method::Fm(bent(instrument)), Insert::Chorus),
        I::Flute | I::PanFlute | I::Clarinet | I::Oboe | I::Saxophone | I::Trumpet | I::Horns => {
            (Method::Wind(blown(instrument)), Insert::None)
        }
        _ => rich(instrument),
    }
}

/// Levels at which all instruments are as loud, playing one note after the other in the middle of their range.
fn level_db(instrument: Instrument) -> f32 {
    use Instrument as I;
    match instrument {
        I::Oboe | I::Trumpet => -20.0,
        I::Saxophone => -19.0,
        I::Clarinet | I::Horns => -17.0,
        I::Piano | I::Organ | I::Accordion | I::Flute | I::SquareLead => -16.0,
        I::PanFlute => -15.0,
        I::Harpsichord | I::Bells | I::SubBass | I::Chip => -14.0,
        I::Vibraphone | I::SuperSaw => -13.0,
        I::ElectricPiano | I::MusicBox | I::Glockenspiel | I::Brass | I::SawLead => -12.0,
        I::ElectricBass | I::SynthBass | I::Violin => -11.0,
        I::ElectricGuitar | I::DistortedGuitar | I::Harp | I::Sitar | I::UprightBass | I::Cello | I::GlassPad => -10.0,
        I::NylonGuitar | I::SteelGuitar | I::Strings | I::Choir | I::WarmPad => -9.0,
        I::Marimba => -8.0,
        I::SynthPluck => -6.0,
        I::Pizzicato => -5.0,
        I::Ukulele => -4.0,
        I::Drums => 0.0,
    }
}
