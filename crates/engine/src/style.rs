//! Style transfer: applies the look of a reference and of an engine preset to a picture.
//!
//! The reference provides colours (`transfer`) and texture (`surface`). The preset, the flavor, the portrait options
//! and the prompt select further work (`recipe`): painting in areas, lines, forms, strokes (`paint`, `flow`),
//! distortion (`warp`) and light. A prompt can also name a `technique` that draws the whole result. Without a reference
//! the preset alone defines the style.
//!
//! Filters run on a copy of at most two million pixels (`working`). The resulting fields (`scene`) are drawn over the
//! full-size picture in place (`render`), so large pictures cost little more than reading and writing them. A strength
//! of 0 returns the picture unchanged. Alpha is kept; a distortion moves it with the colours.
//!
//! Memory: at most 170 MB in addition to the picture, for any size, plus another copy of the picture (3 or 4 bytes per
//! pixel) during a distortion (caricature, psychedelia).

use crate::job::StyleJob;
use crate::noise::hash;
use crate::picture::{DecodedPicture, Pixels};

mod bands;
mod flow;
mod focus;
mod oklab;
mod paint;
mod palette;
mod recipe;
mod render;
mod scene;
mod surface;
mod technique;
mod transfer;
mod warp;
mod working;

use focus::Focus;
use recipe::Recipe;
use render::Renderer;
use scene::{ReferenceFeatures, Scene};
use warp::Distortion;
use working::WorkingPicture;

/// Magnification of the focus in a caricature.
const BULGE: f32 = 0.42;
/// Maximum of [`Distortion::bulge`].
const BULGE_MAX: f32 = 0.6;
/// Height of the waves in units of [`WorkingPicture::unit`].
const WAVE_HEIGHT: f32 = 7.0;

/// Applies a style to a picture.
///
/// The result is deterministic. The seed determines strokes, grain, the synthesis of the reference's texture, and the
/// phase of colours and waves.
#[must_use]
pub fn style(input: DecodedPicture, reference: Option<&DecodedPicture>, job: &StyleJob, seed: u32) -> DecodedPicture {
    let strength = job.style_strength;
    if strength <= 0.0 {
        return input;
    }

    let DecodedPicture { mut pixels, profile } = input;

    let recipe = Recipe::from_job(job);
    let mut working = WorkingPicture::from_pixels(&pixels);
    if let Some(distortion) = distortion(&recipe, &working, strength, seed) {
        pixels = warp::distort(&pixels, &distortion);
        working = WorkingPicture::from_pixels(&pixels);
    }

    let unit = working.unit;
    let fringe = (recipe.fringe * unit * working.factor as f32 + 0.5) as usize;
    let features = reference
        .map(|reference| ReferenceFeatures::from_reference(&WorkingPicture::from_pixels(&reference.pixels), unit));
    let scene = Scene::new(&working, recipe, features.as_ref(), seed);

    let (width, height) = match &pixels {
        Pixels::Opaque(pixels) => pixels.dimensions(),
        Pixels::Transparent(pixels) => pixels.dimensions(),
    };
    let width = width as usize;
    let height = height as usize;

    let renderer = Renderer { scene: &scene, strength, phase: phase(seed), fringe, width, height };

    match &mut pixels {
        Pixels::Opaque(pixels) => renderer.draw::<3>(pixels),
        Pixels::Transparent(pixels) => renderer.draw::<4>(pixels),
    }

    DecodedPicture { pixels, profile }
}

/// Returns the distortion of the picture, if the recipe has one.
fn distortion(recipe: &Recipe, working: &WorkingPicture, strength: f32, seed: u32) -> Option<Distortion> {
    if recipe.bulge <= 0.0 && recipe.waves <= 0.0 {
        return None;
    }

    let Focus { centre, radius } = Focus::from_working(working);
    let factor = working.factor as f32;
    Some(Distortion {
        centre: centre.map(|part| part * factor),
        radius: radius * factor,
        bulge: (BULGE * recipe.bulge * strength).min(BULGE_MAX),
        waves: WAVE_HEIGHT * working.unit * factor * recipe.waves * strength,
        phase: phase(seed),
    })
}

/// Returns a phase in turns, 0 to below 1.
fn phase(seed: u32) -> f32 {
    (hash(1, 2, seed) >> 8) as f32 / (1 << 24) as f32
}

#[cfg(test)]
mod tests;
