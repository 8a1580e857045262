//! Parameters of the synthesis methods for each instrument.

use super::analog::{AnalogPatch, Cutoff, Sweep};
use super::dsp::{Adsr, Vibrato, Wave};
use super::fm::{FmPatch, Pair};
use super::modal::{ModalPatch, Partials};
use super::pluck::PluckPatch;
use super::sound::{Insert, Method};
use super::wind::WindPatch;
use crate::instrument::Instrument;

const fn adsr(attack: f32, decay: f32, sustain: f32, release: f32) -> Adsr {
    Adsr { attack, decay, sustain, release }
}

const fn cutoff(base_hertz: f32, pitch_multiple: f32) -> Cutoff {
    Cutoff { base_hertz, pitch_multiple }
}

const fn sweep(pitch_multiple: f32, seconds: f32) -> Sweep {
    Sweep { pitch_multiple, seconds }
}

/// No vibrato.
const STILL: Vibrato = Vibrato { hertz: 5.0, depth: 0.0, delay: 0.0 };
/// Envelope of struck strings, whose partials decay by themselves.
const STRUCK: Adsr = adsr(0.001, 1.0, 1.0, 0.25);

const fn vibrato(hertz: f32, depth: f32, delay: f32) -> Vibrato {
    Vibrato { hertz, depth, delay }
}

/// Piano; base of other struck strings, pipes and reeds.
const STRING: ModalPatch = ModalPatch {
    partials: Partials::String { stiffness: 0.000_4, slope: 0.85, struck: 0.12 },
    ring: Some(9.0),
    damping: 0.35,
    knock: 0.16,
    touch: 0.7,
    envelope: STRUCK,
};
/// Base of struck bars and bells.
const BAR: ModalPatch = ModalPatch {
    partials: Partials::List(&[(1.0, 1.0), (2.76, 0.3), (5.4, 0.16), (8.93, 0.06)]),
    ring: Some(3.5),
    damping: 0.6,
    knock: 0.1,
    touch: 0.4,
    envelope: adsr(0.001, 1.0, 1.0, 1.2),
};
/// Nylon guitar; base of other plucked strings.
const PLUCK: PluckPatch = PluckPatch { bright: 0.5, ring: 5.0, edge: 0.75, pluck_position: 0.18, release: 0.16 };
/// Base of synthesizers.
const SYNTH: AnalogPatch = AnalogPatch {
    wave: Wave::Saw,
    voices: 2,
    spread: 9.0,
    sub: 0.0,
    noise: 0.0,
    cutoff: cutoff(300.0, 5.0),
    sweep: sweep(6.0, 0.25),
    q: 0.9,
    blown: false,
    body: &[],
    vibrato: STILL,
    envelope: adsr(0.004, 0.4, 0.7, 0.16),
};
/// Violin; base of other bowed strings, choirs and brass sections.
const BOWED: AnalogPatch = AnalogPatch {
    voices: 1,
    spread: 0.0,
    noise: 0.035,
    cutoff: cutoff(600.0, 6.0),
    sweep: sweep(0.0, 0.1),
    q: 0.7,
    blown: true,
    body: &[(290.0, 4.0, 0.7), (480.0, 4.0, 0.8), (1_150.0, 2.5, 0.6), (2_700.0, 2.0, 0.7)],
    vibrato: vibrato(5.6, 0.007, 0.22),
    envelope: adsr(0.07, 0.4, 0.85, 0.2),
    ..SYNTH
};
/// Flute; base of other wind instruments.
const WIND: WindPatch = WindPatch {
    harmonics: [1.0, 0.42, 0.16, 0.08, 0.04, 0.02, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0],
    attack_growth: 1.2,
    breath: 0.1,
    chiff: 0.4,
    vibrato: vibrato(5.2, 0.006, 0.3),
    envelope: adsr(0.05, 0.3, 0.88, 0.14),
};
/// Electric piano.
const FM: FmPatch = FmPatch {
    pairs: [
        Pair { carrier: 1.0, modulator: 1.0, index: 1.7, fade: 1.6, level: 0.8 },
        Pair { carrier: 1.0, modulator: 14.0, index: 1.0, fade: 0.25, level: 0.22 },
    ],
    envelope: adsr(0.002, 5.0, 0.0, 0.22),
};

const HARPSICHORD: ModalPatch = ModalPatch {
    partials: Partials::String { stiffness: 0.000_1, slope: 0.45, struck: 0.09 },
    ring: Some(4.5),
    touch: 0.0,
    knock: 0.1,
    ..STRING
};
/// Pipes by length: 16, 8, 5 1/3, 4, 2 2/3, 2, 1 3/5, 1 1/3 and 1 foot.
const PIPES: &[(f32, f32)] =
    &[(0.5, 0.5), (1.0, 1.0), (1.5, 0.35), (2.0, 0.7), (3.0, 0.4), (4.0, 0.35), (5.0, 0.12), (6.0, 0.15), (8.0, 0.2)];
const ORGAN: ModalPatch = ModalPatch {
    partials: Partials::List(PIPES),
    ring: None,
    knock: 0.03,
    touch: 0.0,
    envelope: adsr(0.012, 1.0, 1.0, 0.12),
    ..STRING
};
/// Two slightly detuned reeds.
const REEDS: &[(f32, f32)] =
    &[(1.0, 1.0), (1.006, 0.8), (2.0, 0.6), (2.011, 0.5), (3.0, 0.5), (4.0, 0.4), (5.0, 0.3), (6.0, 0.2), (7.0, 0.15)];
const ACCORDION: ModalPatch = ModalPatch {
    partials: Partials::List(REEDS),
    ring: None,
    knock: 0.01,
    touch: 0.1,
    envelope: adsr(0.05, 1.0, 1.0, 0.14),
    ..STRING
};
const MUSIC_BOX: ModalPatch = ModalPatch {
    partials: Partials::List(&[(1.0, 1.0), (2.0, 0.12), (5.8, 0.22), (8.2, 0.08)]),
    ring: Some(5.0),
    damping: 0.9,
    knock: 0.12,
    ..BAR
};
const VIBRAPHONE: ModalPatch = ModalPatch {
    partials: Partials::List(&[(1.0, 1.0), (4.0, 0.22), (9.8, 0.04)]),
    ring: Some(6.0),
    knock: 0.03,
    ..BAR
};
const MARIMBA: ModalPatch = ModalPatch {
    partials: Partials::List(&[(1.0, 1.0), (3.9, 0.28), (9.2, 0.06)]),
    ring: Some(1.3),
    knock: 0.14,
    ..BAR
};
/// Hum, prime, tierce, quint, nominal and upper partials.
const BELL: &[(f32, f32)] =
    &[(0.5, 0.5), (1.0, 0.8), (1.19, 0.5), (1.5, 0.35), (2.0, 0.6), (2.52, 0.3), (3.0, 0.2), (4.07, 0.25), (5.4, 0.12)];
const BELLS: ModalPatch = ModalPatch { partials: Partials::List(BELL), ring: Some(9.0), damping: 0.4, ..BAR };

/// Returns the modal sound of a struck, piped or reed instrument.
pub fn struck(instrument: Instrument) -> (Method, Insert) {
    use Instrument as I;

    let (patch, insert) = match instrument {
        I::Harpsichord => (HARPSICHORD, Insert::None),
        I::Organ => (ORGAN, Insert::Tremolo),
        I::Accordion => (ACCORDION, Insert::None),
        I::MusicBox => (MUSIC_BOX, Insert::None),
        I::Glockenspiel => (ModalPatch { ring: Some(6.5), ..BAR }, Insert::None),
        I::Vibraphone => (VIBRAPHONE, Insert::Tremolo),
        I::Marimba => (MARIMBA, Insert::None),
        I::Bells => (BELLS, Insert::None),
        _ => (STRING, Insert::None),
    };

    (Method::Modal(patch), insert)
}

/// Returns the sound of a plucked string.
pub fn plucked(instrument: Instrument) -> (Method, Insert) {
    use Instrument as I;

    let (patch, insert) = match instrument {
        I::SteelGuitar => {
            (PluckPatch { bright: 0.75, ring: 6.5, edge: 0.85, pluck_position: 0.14, ..PLUCK }, Insert::None)
        }
        I::ElectricGuitar => {
            (PluckPatch { bright: 0.5, ring: 9.0, edge: 0.8, pluck_position: 0.25, ..PLUCK }, Insert::Chorus)
        }
        I::DistortedGuitar => {
            (PluckPatch { bright: 0.8, ring: 14.0, edge: 0.9, pluck_position: 0.1, release: 0.1 }, Insert::Drive(9.0))
        }
        I::Harp => (PluckPatch { bright: 0.4, ring: 7.0, edge: 0.7, pluck_position: 0.35, release: 0.8 }, Insert::None),
        I::Ukulele => (PluckPatch { bright: 0.65, ring: 2.2, edge: 0.7, pluck_position: 0.22, ..PLUCK }, Insert::None),
        I::Sitar => {
            (PluckPatch { bright: 0.95, ring: 9.0, edge: 0.96, pluck_position: 0.06, release: 0.5 }, Insert::Drive(1.5))
        }
        I::Pizzicato => {
            (PluckPatch { bright: 0.35, ring: 0.9, edge: 0.6, pluck_position: 0.2, release: 0.2 }, Insert::Chorus)
        }
        I::UprightBass => {
            (PluckPatch { bright: 0.3, ring: 3.0, edge: 0.6, pluck_position: 0.3, release: 0.12 }, Insert::None)
        }
        I::ElectricBass => {
            (PluckPatch { bright: 0.45, ring: 5.0, edge: 0.75, pluck_position: 0.17, release: 0.08 }, Insert::None)
        }
        _ => (PLUCK, Insert::None),
    };

    (Method::Pluck(patch), insert)
}

/// Returns an FM sound.
pub fn modulated(instrument: Instrument) -> FmPatch {
    let pair = |carrier, modulator, index, fade, level| Pair { carrier, modulator, index, fade, level };

    match instrument {
        Instrument::GlassPad => FmPatch {
            pairs: [pair(1.0, 2.0, 0.9, 6.0, 0.7), pair(2.0, 7.0, 0.5, 3.0, 0.25)],
            envelope: adsr(0.5, 3.0, 0.75, 1.6),
        },
        Instrument::SynthBass => FmPatch {
            pairs: [pair(1.0, 1.0, 3.4, 0.5, 0.8), pair(0.5, 1.0, 0.6, 0.4, 0.5)],
            envelope: adsr(0.004, 0.8, 0.7, 0.07),
        },
        Instrument::SubBass => FmPatch {
            pairs: [pair(1.0, 1.0, 0.7, 0.7, 1.0), pair(2.0, 1.0, 1.2, 0.2, 0.14)],
            envelope: adsr(0.006, 3.0, 0.8, 0.1),
        },
        _ => FM,
    }
}

/// Returns the sound of a solo wind instrument.
pub fn blown(instrument: Instrument) -> WindPatch {
    use Instrument as I;

    match instrument {
        I::PanFlute => WindPatch {
            harmonics: [1.0, 0.12, 0.2, 0.03, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            breath: 0.28,
            chiff: 0.9,
            ..WIND
        },
        I::Clarinet => WindPatch {
            harmonics: [1.0, 0.04, 0.62, 0.05, 0.36, 0.07, 0.2, 0.06, 0.12, 0.05, 0.06, 0.03],
            breath: 0.03,
            chiff: 0.1,
            vibrato: vibrato(4.8, 0.002, 0.4),
            ..WIND
        },
        I::Oboe => WindPatch {
            harmonics: [0.5, 0.75, 1.0, 0.7, 0.45, 0.3, 0.22, 0.15, 0.1, 0.07, 0.05, 0.03],
            breath: 0.03,
            chiff: 0.08,
            attack_growth: 0.7,
            ..WIND
        },
        I::Saxophone => WindPatch {
            harmonics: [1.0, 0.85, 0.6, 0.5, 0.42, 0.3, 0.22, 0.16, 0.12, 0.1, 0.07, 0.05],
            breath: 0.09,
            chiff: 0.25,
            attack_growth: 1.6,
            vibrato: vibrato(5.0, 0.009, 0.28),
            ..WIND
        },
        I::Trumpet => WindPatch {
            harmonics: [0.8, 0.9, 1.0, 0.9, 0.75, 0.6, 0.45, 0.33, 0.25, 0.18, 0.13, 0.1],
            breath: 0.02,
            chiff: 0.05,
            attack_growth: 1.9,
            vibrato: vibrato(5.4, 0.005, 0.35),
            envelope: adsr(0.035, 0.25, 0.85, 0.12),
        },
        I::Horns => WindPatch {
            harmonics: [1.0, 0.8, 0.55, 0.35, 0.22, 0.13, 0.08, 0.05, 0.03, 0.02, 0.0, 0.0],
            breath: 0.02,
            chiff: 0.04,
            attack_growth: 2.2,
            vibrato: vibrato(4.6, 0.003, 0.5),
            envelope: adsr(0.09, 0.4, 0.88, 0.25),
        },
        _ => WIND,
    }
}

const CELLO: AnalogPatch = AnalogPatch {
    cutoff: cutoff(450.0, 5.0),
    body: &[(175.0, 4.0, 0.8), (340.0, 3.5, 0.8), (800.0, 2.5, 0.6), (1_900.0, 2.0, 0.5)],
    vibrato: vibrato(5.1, 0.006, 0.25),
    ..BOWED
};
const STRINGS: AnalogPatch = AnalogPatch { voices: 4, spread: 13.0, envelope: adsr(0.16, 0.5, 0.9, 0.4), ..BOWED };
/// The body resonances are the formants of the vowel "ah".
const CHOIR: AnalogPatch = AnalogPatch {
    voices: 4,
    spread: 16.0,
    noise: 0.05,
    cutoff: cutoff(900.0, 3.0),
    body: &[(640.0, 7.0, 1.6), (1_080.0, 8.0, 1.0), (2_500.0, 9.0, 0.6), (3_100.0, 9.0, 0.35)],
    vibrato: vibrato(5.0, 0.006, 0.3),
    envelope: adsr(0.28, 0.5, 0.95, 0.5),
    ..BOWED
};
const BRASS: AnalogPatch = AnalogPatch {
    voices: 3,
    spread: 7.0,
    noise: 0.0,
    cutoff: cutoff(250.0, 7.0),
    body: &[],
    envelope: adsr(0.045, 0.3, 0.8, 0.12),
    ..BOWED
};
const SUPER_SAW: AnalogPatch =
    AnalogPatch { voices: 5, spread: 19.0, cutoff: cutoff(600.0, 8.0), envelope: adsr(0.012, 0.6, 0.8, 0.25), ..SYNTH };
const WARM_PAD: AnalogPatch = AnalogPatch {
    voices: 3,
    spread: 12.0,
    sub: 0.25,
    cutoff: cutoff(350.0, 2.2),
    sweep: sweep(1.5, 1.2),
    q: 0.7,
    envelope: adsr(0.45, 1.0, 0.85, 0.9),
    ..SYNTH
};
const SYNTH_PLUCK: AnalogPatch = AnalogPatch {
    cutoff: cutoff(200.0, 1.5),
    sweep: sweep(11.0, 0.14),
    q: 1.4,
    envelope: adsr(0.002, 0.9, 0.0, 0.2),
    ..SYNTH
};
const CHIP: AnalogPatch = AnalogPatch {
    wave: Wave::Pulse(0.25),
    voices: 1,
    spread: 0.0,
    cutoff: cutoff(12_000.0, 1.0),
    sweep: sweep(0.0, 0.1),
    q: 0.7,
    vibrato: vibrato(6.0, 0.004, 0.25),
    envelope: adsr(0.002, 0.25, 0.6, 0.03),
    ..SYNTH
};
const LEAD: AnalogPatch = AnalogPatch { vibrato: vibrato(5.4, 0.005, 0.3), ..SYNTH };

/// Returns a subtractive sound.
pub fn subtractive(instrument: Instrument) -> (Method, Insert) {
    use Instrument as I;

    let (patch, insert) = match instrument {
        I::Violin => (BOWED, Insert::None),
        I::Cello => (CELLO, Insert::None),
        I::Strings => (STRINGS, Insert::Chorus),
        I::Choir => (CHOIR, Insert::Chorus),
        I::Brass => (BRASS, Insert::None),
        I::SquareLead => (AnalogPatch { wave: Wave::Pulse(0.5), ..LEAD }, Insert::None),
        I::SuperSaw => (SUPER_SAW, Insert::Chorus),
        I::WarmPad => (WARM_PAD, Insert::Chorus),
        I::SynthPluck => (SYNTH_PLUCK, Insert::None),
        I::Chip => (CHIP, Insert::None),
        _ => (LEAD, Insert::None),
    };

    (Method::Analog(patch), insert)
}
