//! Composition of a piece from a prompt: plan, form, harmony, then each part.

mod bass;
mod chords;
pub mod clock;
mod drums;
mod ensemble;
pub mod form;
pub mod harmony;
mod melody;
pub mod plan;
mod score;
mod title;

#[cfg(test)]
mod tests;

use clock::PieceEnding;
use ensemble::Performer;
use form::Shape;
use harmony::Harmony;
use plan::PiecePlan;
use score::Score;

use crate::instrument::{Instrument, Role};
use crate::piece::{Drum, DrumKit, Note, Part, Piece, RATE, Space};
use crate::prompt::{self, MusicRequest};

/// Composes a piece. `seconds` takes precedence over a length in the prompt and is clamped to 1 to 360.
#[must_use]
pub fn compose(prompt: &str, seconds: Option<u16>) -> Piece {
    let request = prompt::parse(prompt);
    let plan = PiecePlan::from_request(&request, seconds);
    let performers = ensemble::assign_roles(&request, &plan);

    let score = build_score(&request, plan, &performers);
    let mut parts: Vec<Part> = performers.iter().map(|performer| build_part(&score, *performer)).collect();
    parts.retain(|part| !part.notes.is_empty());
    let kicks = find_kicks(&parts);

    let mut seed = request.rng.fork("noise");
    Piece {
        title: title::choose_title(&request, &score.plan),
        tags: title::build_tags(&request, &score.plan, &performers),
        frames: score.clock().frames,
        space: build_space(&request, &score.plan),
        parts,
        kicks,
        seed: seed.bits(),
    }
}

/// Returns the length in seconds, rounded up, of the piece that [`compose`] returns for these arguments.
#[must_use]
pub fn seconds_of(prompt: &str, seconds: Option<u16>) -> u16 {
    let plan = PiecePlan::from_request(&prompt::parse(prompt), seconds);
    plan.clock.frames.div_ceil(RATE) as u16
}

/// Composes form and harmony.
fn build_score(request: &MusicRequest, plan: PiecePlan, performers: &[Performer]) -> Score {
    let clock = plan.clock;
    let phrases = form::phrases(&Shape {
        steps: clock.steps,
        bar: clock.metre.bar,
        intro: request.form.intro,
        build: request.form.build,
        seamless: clock.ending == PieceEnding::Seamless,
        energy: plan.feeling.energy,
    });

    let harmony = Harmony {
        key: plan.key,
        palette: plan.style.palette,
        extension: plan.style.extension,
        bar: clock.metre.bar,
        closes: matches!(clock.ending, PieceEnding::Chord { .. }),
    };
    let spans = harmony.spans(&phrases, &mut request.rng.fork("harmony"));

    let roles: Vec<Role> = performers.iter().map(|performer| performer.role).collect();
    let role_order = [Role::Pad, Role::Comp, Role::Arpeggio, Role::Lead, Role::Bass, Role::Drums];

    Score {
        plan,
        phrases,
        spans,
        rng: request.rng.fork("parts"),
        builds: request.form.build,
        is_permanent: request.solo || performers.len() < 3,
        fallback_role: role_order.into_iter().find(|role| roles.contains(role)).unwrap_or(Role::Lead),
        roles,
    }
}

/// Mix settings of a role.
struct RoleMix {
    level_db: f32,
    /// Stereo position from -1 (left) to 1 (right).
    pan: f32,
    /// Factors of the style's reverb, echo and ducking.
    reverb: f32,
    echo: f32,
    duck: f32,
}

/// Writes the notes of a performer and sets the levels of the part.
fn build_part(score: &Score, performer: Performer) -> Part {
    let Performer { role, instrument } = performer;
    let notes = match role {
        Role::Lead => melody::write(score, instrument),
        Role::Comp => chords::write_comp(score, instrument),
        Role::Pad => chords::write_pad(score, instrument),
        Role::Arpeggio => chords::write_arpeggio(score, instrument),
        Role::Bass => bass::write(score, instrument),
        Role::Drums => drums::write(score),
    };

    let style = score.plan.style;
    let mix = match role {
        Role::Lead => RoleMix { level_db: 0.0, pan: 0.08, reverb: 1.0, echo: 1.0, duck: 0.25 },
        Role::Comp => RoleMix { level_db: -4.5, pan: -0.28, reverb: 0.8, echo: 0.2, duck: 0.8 },
        Role::Pad => RoleMix { level_db: -8.0, pan: 0.0, reverb: 1.3, echo: 0.1, duck: 1.0 },
        Role::Arpeggio => RoleMix { level_db: -7.0, pan: 0.35, reverb: 1.0, echo: 0.9, duck: 0.7 },
        Role::Bass => RoleMix { level_db: -2.0, pan: 0.0, reverb: 0.12, echo: 0.0, duck: 0.9 },
        Role::Drums => RoleMix { level_db: drum_level(score), pan: 0.0, reverb: 0.35, echo: 0.0, duck: 0.0 },
    };

    let distance = 0.75 + 0.5 * score.plan.feeling.space;
    Part {
        instrument,
        kit: style.kit,
        notes,
        level_db: mix.level_db,
        pan: mix.pan,
        reverb: (style.wet * mix.reverb * distance).min(0.9),
        echo: (style.echo * mix.echo * distance).min(0.6),
        duck: style.duck * mix.duck,
    }
}

/// Returns the drum level in decibels. Drums carry dance music and accompany other genres.
fn drum_level(score: &Score) -> f32 {
    match score.plan.style.kit {
        DrumKit::Brushes => -7.0,
        DrumKit::Dusty => -4.0,
        _ => -1.0 + score.plan.feeling.energy.clamp(-1.0, 1.0),
    }
}

/// Returns the starts of the kick drum in samples.
fn find_kicks(parts: &[Part]) -> Vec<u32> {
    let is_kick = |note: &&Note| Drum::from_pitch(note.pitch) == Drum::Kick;
    let drums = parts.iter().filter(|part| part.instrument == Instrument::Drums);
    drums.flat_map(|part| part.notes.iter().filter(is_kick).map(|note| note.start)).collect()
}

/// Returns reverb, echo and fade-out of the piece.
fn build_space(request: &MusicRequest, plan: &PiecePlan) -> Space {
    let style = plan.style;
    let clock = &plan.clock;
    let beat = clock.step_seconds() * f32::from(clock.metre.tempo_steps());
    let frames = clock.frames;
    let rate = RATE as f32;

    let fade = match clock.ending {
        PieceEnding::Fade => (frames as f32 * 0.25).min(12.0 * rate),
        PieceEnding::Seamless => 0.0,
        // The last chord sustains for the first part of its time and then fades.
        PieceEnding::Chord { .. } => {
            let ring = frames.saturating_sub(clock.frame_at(f64::from(clock.steps)));
            (ring as f32 * 0.6).min(3.0 * rate)
        }
    };

    Space {
        reverb_seconds: style.reverb * (0.8 + 0.5 * plan.feeling.space),
        echo_frames: (beat * 0.75 * rate).clamp(0.08 * rate, 1.2 * rate) as u32,
        echo_feedback: 0.38,
        tape_hertz: style.tape_hertz,
        fade_frames: fade as u32,
        seamless: clock.ending == PieceEnding::Seamless,
        texture: request.texture.or(style.texture),
    }
}
