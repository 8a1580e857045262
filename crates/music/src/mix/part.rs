//! Playback of a part: its voices, insert effect and pan; and an estimate of its loudness.

use super::space::Chorus;
use super::{BLOCK, Ducking, Stereo};
use crate::instrument::Instrument;
use crate::piece::{Drum, Note, Part, Piece, RATE};
use crate::synth::Voice;
use crate::synth::dsp::{Filter, sine};
use crate::synth::sound::{self, Insert};

/// Part with its sounding voices.
#[derive(Debug)]
pub struct Track {
    part: Part,
    /// Index of the next note to start.
    next: usize,
    /// Sounding voices, each with the samples until its start in the next block.
    voices: Vec<(Voice, u32)>,
    insert: Effect,
    gain: f32,
    seed: u64,
    /// Sum of the voices in the current block, the input of the insert effect.
    mono: Vec<f32>,
    /// Samples of one voice.
    scratch: Vec<f32>,
    /// Output of the current block.
    wide: Stereo,
}

/// Insert effect with its state.
#[derive(Debug)]
enum Effect {
    None,
    Chorus(Box<Chorus>),
    Drive {
        amount: f32,
        /// Low-pass and high-pass filter of the loudspeaker.
        cabinet: [Filter; 2],
    },
    Tremolo {
        /// Phase in periods.
        phase: f32,
    },
}

/// Maximum number of voices in a part, which bounds work and memory. A new voice replaces the oldest.
const VOICES_MAX: usize = 48;
/// Gain of a part at 0 dB and a velocity of one.
const UNIT: f32 = 0.25;

impl Track {
    /// Creates a track at the start of its part.
    pub fn new(part: Part, seed: u64) -> Self {
        let insert = match sound::sound(part.instrument).insert {
            _ if part.instrument == Instrument::Drums => Effect::None,
            Insert::None => Effect::None,
            Insert::Chorus => Effect::Chorus(Box::new(Chorus::new((seed % 97) as f32 / 97.0))),
            Insert::Drive(amount) => {
                Effect::Drive { amount, cabinet: [Filter::new(4_200.0, 0.8), Filter::new(85.0, 0.7)] }
            }
            Insert::Tremolo => Effect::Tremolo { phase: 0.0 },
        };

        let gain = UNIT * gain_from_decibels(part.level_db);
        let wide = Stereo { left: vec![0.0; BLOCK], right: vec![0.0; BLOCK] };

        Self {
            part,
            next: 0,
            voices: Vec::new(),
            insert,
            gain,
            seed,
            mono: vec![0.0; BLOCK],
            scratch: vec![0.0; BLOCK],
            wide,
        }
    }

    /// Adds the next `count` samples, at most [`BLOCK`], to the mix and to the sends of the reverb and the echo. `now`
    /// is the number of samples before them.
    pub fn render(
        &mut self,
        now: u32,
        count: usize,
        duck: &Ducking,
        dry: &mut Stereo,
        to_room: &mut Stereo,
        to_echo: &mut Stereo,
    ) {
        self.begin_notes(now, count);
        if self.voices.is_empty() && matches!(self.insert, Effect::None) {
            return;
        }

        self.play_voices(count);
        self.apply_insert(count);

        let depth = self.part.duck;
        for at in 0..count {
            let factor = if depth > 0.0 { self.gain * duck.factor(at as u32, depth) } else { self.gain };
            let left = self.wide.left[at] * factor;
            let right = self.wide.right[at] * factor;
            dry.left[at] += left;
            dry.right[at] += right;
            to_room.left[at] += left * self.part.reverb;
            to_room.right[at] += right * self.part.reverb;
            to_echo.left[at] += left * self.part.echo;
            to_echo.right[at] += right * self.part.echo;
        }
    }

    /// Starts the notes of this block, each with its offset in samples.
    fn begin_notes(&mut self, now: u32, count: usize) {
        while let Some(note) = self.part.notes.get(self.next).filter(|note| note.start < now + count as u32) {
            let voice = Voice::start(self.part.instrument, self.part.kit, note, self.seed);
            if self.voices.len() == VOICES_MAX {
                self.voices.remove(0);
            }
            self.voices.push((voice, note.start.saturating_sub(now)));
            self.next += 1;
        }
    }

    /// Renders the voices into the mono input of the insert effect or, without one, into their stereo positions.
    fn play_voices(&mut self, count: usize) {
        let has_insert = !matches!(self.insert, Effect::None);
        self.mono[..count].fill(0.0);
        self.wide.left[..count].fill(0.0);
        self.wide.right[..count].fill(0.0);

        let scratch = &mut self.scratch;
        let mono = &mut self.mono;
        let wide = &mut self.wide;
        let pan = self.part.pan;

        self.voices.retain_mut(|(voice, wait)| {
            let from = (*wait as usize).min(count);
            *wait = 0;
            scratch[from..count].fill(0.0);
            let is_alive = voice.render(&mut scratch[from..count]);

            if has_insert {
                let gain = voice.gain();
                mono[from..count].iter_mut().zip(&scratch[from..count]).for_each(|(sum, sample)| *sum += gain * sample);
            } else {
                let (left, right) = stereo_gains(pan + voice.pan(), voice.gain());
                let sides = wide.left[from..count].iter_mut().zip(&mut wide.right[from..count]);
                for ((to_left, to_right), sample) in sides.zip(&scratch[from..count]) {
                    *to_left += left * sample;
                    *to_right += right * sample;
                }
            }

            is_alive
        });
    }

    /// Passes the mono input through the insert effect, if there is one.
    fn apply_insert(&mut self, count: usize) {
        let mono = &mut self.mono[..count];
        let left = &mut self.wide.left[..count];
        let right = &mut self.wide.right[..count];
        let gains = stereo_gains(self.part.pan, 1.0);

        match &mut self.insert {
            Effect::None => {}
            Effect::Chorus(chorus) => chorus.render(mono, gains, left, right),
            Effect::Drive { amount, cabinet } => {
                for (at, sample) in mono.iter().enumerate() {
                    // A stronger drive also raises the level; the divisor compensates for that.
                    let bent = (*amount * *sample).tanh() / (1.0 + 0.6 * *amount);
                    let muffled = cabinet[0].low(bent);
                    let amplified = cabinet[1].high(muffled);
                    left[at] += gains.0 * amplified;
                    right[at] += gains.1 * amplified;
                }
            }
            Effect::Tremolo { phase } => {
                for (at, sample) in mono.iter().enumerate() {
                    *phase += 5.2 / RATE as f32;
                    *phase -= phase.floor();
                    let sway = 0.22 * sine(*phase);
                    left[at] += gains.0 * sample * (1.0 + sway);
                    right[at] += gains.1 * sample * (1.0 - sway);
                }
            }
        }
    }
}

/// Returns the gains of left and right for a pan from -1 (left) to 1 (right) at constant power.
fn stereo_gains(pan: f32, gain: f32) -> (f32, f32) {
    let angle = (pan.clamp(-1.0, 1.0) + 1.0) * std::f32::consts::FRAC_PI_4;
    (gain * angle.cos(), gain * angle.sin())
}

/// Returns the factor of an amplitude change in decibels.
fn gain_from_decibels(db: f32) -> f32 {
    10_f32.powf(db / 20.0)
}

/// Samples in 100 ms.
const TENTH: u32 = RATE / 10;

/// Estimates the power of each 100 ms from the score.
///
/// Only the proportions matter, and the overall level within a few decibels: [`super::loudness::Leveller`] corrects the
/// rest.
pub fn expected_power(piece: &Piece) -> Vec<f64> {
    let mut tenths = vec![0.0; (piece.frames / TENTH) as usize];

    for part in &piece.parts {
        let level = f64::from(UNIT * gain_from_decibels(part.level_db)).powi(2) * f64::from(1.0 + 0.4 * part.reverb);
        for note in &part.notes {
            let NotePower { power, frames } = note_power(part.instrument, note);
            let first = note.start / TENTH;
            let last = (note.start + frames) / TENTH;

            let spread = level * power / f64::from(last - first + 1);
            for tenth in tenths.iter_mut().take(last as usize + 1).skip(first as usize) {
                *tenth += spread;
            }
        }
    }
    tenths
}

/// Estimated power of a note.
struct NotePower {
    /// Power, summed over units of 100 ms.
    power: f64,
    /// Samples that contain most of the power.
    frames: u32,
}

/// Estimates the power of a note before the level of its part.
fn note_power(instrument: Instrument, note: &Note) -> NotePower {
    if instrument == Instrument::Drums {
        let power = match Drum::from_pitch(note.pitch) {
            Drum::Kick | Drum::TomLow => 0.10,
            Drum::Snare | Drum::Clap | Drum::Crash | Drum::TomMiddle | Drum::TomHigh => 0.14,
            _ => 0.02,
        };
        return NotePower { power: power * f64::from(note.velocity).powi(2), frames: TENTH };
    }

    let velocity_power = f64::from(note.velocity).powf(2.8);
    let ring_seconds = ring_seconds(instrument);
    let frames = note.frames.min((ring_seconds * RATE as f32) as u32).max(TENTH);
    NotePower { power: NOTE_POWER * velocity_power * f64::from(frames) / f64::from(TENTH), frames }
}

/// Power of a level-matched instrument that plays full notes without gaps.
const NOTE_POWER: f64 = 0.2;

/// Returns the seconds that contain most of a note's energy.
fn ring_seconds(instrument: Instrument) -> f32 {
    use crate::instrument::Instrument as I;
    match instrument {
        I::Marimba | I::Pizzicato | I::Ukulele | I::SynthPluck => 0.3,
        I::Piano | I::ElectricPiano | I::Harpsichord | I::MusicBox | I::NylonGuitar | I::UprightBass => 0.8,
        I::Glockenspiel | I::Vibraphone | I::Bells | I::SteelGuitar | I::ElectricGuitar | I::Harp | I::Sitar => 1.2,
        I::ElectricBass | I::SubBass | I::SynthBass => 1.5,
        // Others sound as long as they are held.
        _ => 600.0,
    }
}
