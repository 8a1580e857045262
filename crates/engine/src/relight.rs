//! Relighting of a picture.
//!
//! The new light is computed on a small copy as exposure (in stops) and colour for every sample. It comes from a light
//! map, from a reference picture (its tones, their positions, and the colours of its shadows and highlights) or from
//! the prompt. A prompt beside a map or a reference has half of its strength. The job's strength, engine, curve and
//! options for faces and background shape the light. The picture is then multiplied by the light, tile by tile in
//! linear light, and graded.
//!
//! Memory: 6 or 8 bytes per pixel (opaque or with alpha), 3 or 4 per pixel of the reference, plus about 30 MB for the
//! small copies and 20 MB per core.

use self::field::LightField;
use self::plan::RelightPlan;
use self::subject::find_subject;
use self::words::RequestedLight;
use self::work::{MARGIN, RelightContext};
use crate::bands::transform_tiles;
use crate::grade::Statistics;
use crate::guide::Overview;
use crate::job::{LightOrigin, PictureRelight};
use crate::picture::DecodedPicture;
use crate::plane::Plane;
use crate::prompt_report::PromptReport;
use crate::skin::mask::Skin;

mod field;
mod plan;
pub(super) mod subject;
mod words;
mod work;

/// Longest side of the small copy in samples.
const OVERVIEW_SIDE: usize = 512;
/// Weight of the prompt's light when a reference or a map provides the main light.
const SECONDARY_PROMPT_SHARE: f32 = 0.5;

/// Reports which words of a prompt about light have an effect.
pub fn interpret(prompt: &str) -> PromptReport {
    RequestedLight::interpret(prompt).1
}

/// Relights a picture. `source` is the reference or the map that the job names; without it only the prompt counts.
///
/// The result is deterministic. The seed determines the direction of the light if nothing else does.
#[must_use]
pub fn relight(
    input: DecodedPicture,
    source: Option<&DecodedPicture>,
    job: &PictureRelight,
    seed: u32,
) -> DecodedPicture {
    let DecodedPicture { pixels, profile } = input;

    let overview = Overview::from_pixels(&pixels, OVERVIEW_SIDE);
    let face = Skin::find(&overview).face;
    let subject = find_subject(&overview, &face);
    let source = source.map(|source| Overview::from_pixels(&source.pixels, OVERVIEW_SIDE));

    let field = compute_field(&overview, source.as_ref(), job, &subject, seed);
    let plan = RelightPlan::from_job(job, Statistics::from_luma(&overview.planes().luma).is_drawn());
    let context = RelightContext::new(&overview, job, plan, field, &face, &subject);

    let pixels = transform_tiles(&pixels, MARGIN, |planes, region| context.relight(planes, region));
    DecodedPicture { pixels, profile }
}

/// Returns the light that the job requests, from its source, its prompt or both. `seed` chooses the direction if only
/// the prompt counts and it names none.
fn compute_field(
    overview: &Overview,
    source: Option<&Overview>,
    job: &PictureRelight,
    subject: &Plane,
    seed: u32,
) -> LightField {
    let request =
        job.prompt.as_ref().map_or(RequestedLight::NONE, |prompt| RequestedLight::from_prompt(prompt.as_str()));

    let mut field = match (job.source, source) {
        (LightOrigin::Prompt, _) | (_, None) => {
            return LightField::from_request(overview, &request, subject, Some(seed));
        }
        (LightOrigin::Reference, Some(reference)) => LightField::from_reference(overview, reference),
        (LightOrigin::Lightmap, Some(map)) => LightField::from_map(overview, map),
    };

    if request != RequestedLight::NONE {
        field.add(&LightField::from_request(overview, &request, subject, None), SECONDARY_PROMPT_SHARE);
    }
    field
}

#[cfg(test)]
mod tests;
