//! Style transfer: the look of a reference and of an engine preset given to a picture.
//!
//! The reference brings its colours (`transfer`) and its texture (`surface`); the preset, the flavor, the portrait options
//! and the prompt say what else is done (`recipe`): painting in areas, lines, forms, strokes (`paint`, `flow`), bending
//! (`warp`), light. Without a reference the preset alone makes the style.
//!
//! Neighbours are looked at in a copy of at most two million pixels (`working`); the fields that come of it (`scene`) are
//! drawn over the picture at full size, in place (`render`), so that large pictures cost little more than reading and
//! writing them. A strength of 0 gives the picture back as it came. Alpha stays, or bends with the colours.
//!
//! Memory: beside the picture at most 170 MB whatever its size, and the same size again (3 or 4 bytes a pixel) while a
//! picture is bent (caricature, psychedelia).

use super::noise::scramble;
use crate::domain::image::StyleTransfer;
use crate::media::input::{Decoded, Pixels};

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
mod transfer;
mod warp;
mod working;

use focus::Focus;
use recipe::Recipe;
use render::Renderer;
use scene::{Scene, Taken};
use warp::Bend;
use working::Working;

/// By how much the middle of the attention grows in a caricature.
const BULGE: f32 = 0.42;
/// Height of the waves in units.
const WAVES: f32 = 7.0;

/// Gives a picture a style. The same pictures, parameters and seed give the same pixels; the seed decides strokes, grain, the
/// weave of the reference's texture, and where colours and waves begin.
#[must_use]
pub fn style(input: Decoded, reference: Option<&Decoded>, job: &StyleTransfer, seed: u32) -> Decoded {
    let strength = job.style_strength.ratio();
    if strength <= 0.0 {
        return input;
    }
    let Decoded { mut pixels, profile } = input;
    let recipe = Recipe::of(job);
    let mut working = Working::of(&pixels);
    if let Some(bend) = bend_of(&recipe, &working, strength, seed) {
        pixels = warp::bend(&pixels, &bend);
        working = Working::of(&pixels);
    }
    let unit = working.unit;
    let fringe = (recipe.fringe * unit * working.factor as f32 + 0.5) as usize;
    let taken = reference.map(|reference| Taken::of(&Working::of(&reference.pixels), unit));
    let scene = Scene::of(&working, recipe, taken.as_ref(), seed);
    let (width, height) = match &pixels {
        Pixels::Opaque(pixels) => pixels.dimensions(),
        Pixels::Transparent(pixels) => pixels.dimensions(),
    };
    let (width, height) = (width as usize, height as usize);
    let renderer = Renderer { scene: &scene, strength, phase: phase(seed), fringe, width, height };
    match &mut pixels {
        Pixels::Opaque(pixels) => renderer.draw::<3>(pixels),
        Pixels::Transparent(pixels) => renderer.draw::<4>(pixels),
    }
    Decoded { pixels, profile }
}

/// How a picture is bent, if it is.
fn bend_of(recipe: &Recipe, working: &Working, strength: f32, seed: u32) -> Option<Bend> {
    if recipe.bulge <= 0.0 && recipe.waves <= 0.0 {
        return None;
    }
    let Focus { centre, radius } = Focus::of(working);
    let factor = working.factor as f32;
    Some(Bend {
        centre: centre.map(|part| part * factor),
        radius: radius * factor,
        bulge: (BULGE * recipe.bulge * strength).min(0.6),
        waves: WAVES * working.unit * factor * recipe.waves * strength,
        phase: phase(seed),
    })
}

/// A turn from 0 to 1.
fn phase(seed: u32) -> f32 {
    (scramble(1, 2, seed) >> 8) as f32 / (1 << 24) as f32
}

#[cfg(test)]
mod tests;
