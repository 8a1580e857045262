//! Sound of each instrument.

use super::analog::AnalogPatch;
use super::fm::FmPatch;
use super::modal::ModalPatch;
use super::patches::{blown, modulated, plucked, struck, subtractive};
use super::pluck::PluckPatch;
use super::wind::WindPatch;
use crate::instrument::Instrument;

/// Synthesis method with its parameters.
#[derive(Debug, Clone, Copy)]
pub enum Method {
    Modal(ModalPatch),
    Pluck(PluckPatch),
    Fm(FmPatch),
    Analog(AnalogPatch),
    Wind(WindPatch),
}

/// Insert effect of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Insert {
    None,
    /// Two voices with drifting pitch that widen the sound.
    Chorus,
    /// Distorting amplifier with its drive.
    Drive(f32),
    /// Amplitude modulation that alternates between left and right.
    Tremolo,
}

/// Synthesis method, level and insert effect of an instrument.
#[derive(Debug, Clone, Copy)]
pub struct Sound {
    pub method: Method,
    /// Gain in decibels that equalizes the loudness of all instruments. The values are measured; a test checks them.
    pub level_db: f32,
    pub insert: Insert,
}

/// Returns the sound of an instrument. [`super::drum`] renders drums.
#[must_use]
pub fn sound(instrument: Instrument) -> Sound {
    let (method, insert) = method(instrument);
    Sound { method, level_db: level_db(instrument), insert }
}

/// Returns the synthesis method and the insert effect of an instrument.
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
        I::ElectricPiano | I::GlassPad | I::SynthBass | I::SubBass => {
            (Method::Fm(modulated(instrument)), Insert::Chorus)
        }
        I::Flute | I::PanFlute | I::Clarinet | I::Oboe | I::Saxophone | I::Trumpet | I::Horns => {
            (Method::Wind(blown(instrument)), Insert::None)
        }
        _ => subtractive(instrument),
    }
}

/// Returns the gain at which consecutive notes in the middle of the range are equally loud on all instruments.
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
