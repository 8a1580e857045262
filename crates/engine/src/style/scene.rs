//! Analysis of a picture before drawing: its palette and the fields of lines, areas, light and texture.

use super::bands::{self, EnlargedField, draw_plane, reduce, smooth, smooth_between_edges};
use super::flow::Tangents;
use super::focus;
use super::oklab::Lab;
use super::paint;
use super::palette::Palette;
use super::recipe::Recipe;
use super::surface::{Strength, Surface};
use super::technique::Medium;
use super::working::{Colours, WorkingPicture};
use crate::filters;
use crate::noise;
use crate::plane::Plane;

/// Number of colours in a sample of a picture.
const SAMPLE_COLOURS: usize = 8192;
/// Additional reduction for filters with a large radius.
const WIDE_FACTOR: usize = 4;

/// Input of the renderer.
#[derive(Debug)]
pub struct Scene {
    pub recipe: Recipe,
    pub palette: Palette,
    /// Picture without its fine detail: lightness, green to red, blue to yellow.
    pub base: [EnlargedField; 3],
    /// Lightness of the base after local contrast.
    pub shaped: EnlargedField,
    /// Strength of dark lines, if the recipe draws them.
    pub lines: Option<EnlargedField>,
    /// Strength at which a line begins.
    pub line_start: f32,
    /// Strength at which a line is fully drawn.
    pub line_full: f32,
    /// Shading of forms, -1 to 1.
    pub relief: Option<EnlargedField>,
    /// Blurred light for bloom.
    pub glow: Option<EnlargedField>,
    /// Change of lightness by strokes, the reference's texture and grain.
    pub texture: Option<EnlargedField>,
    /// Likelihood of skin, 0 to 1.
    pub skin: Option<EnlargedField>,
    /// Technique that the prompt names, if any.
    pub medium: Option<Medium>,
    pub seed: u32,
}

/// Features of a reference.
#[derive(Debug)]
pub struct ReferenceFeatures {
    colours: Vec<Lab>,
    surface: Surface,
}

impl ReferenceFeatures {
    /// Analyses a reference for a picture whose unit has `unit` pixels.
    pub fn from_reference(reference: &WorkingPicture, unit: f32) -> Self {
        Self { colours: reference.sample(SAMPLE_COLOURS), surface: Surface::from_working(reference, unit) }
    }
}

impl Scene {
    /// Analyses a picture. With `features`, the recipe takes the strength of its detail from the reference.
    pub fn new(working: &WorkingPicture, mut recipe: Recipe, features: Option<&ReferenceFeatures>, seed: u32) -> Self {
        let skin = (recipe.skin > 0.0).then(|| focus::skin(working));

        if let Some(features) = features {
            match_detail(&mut recipe, working, &features.surface);
        }

        let sample = working.sample(SAMPLE_COLOURS);
        let palette = Palette::new(&recipe, &sample, features.map(|features| &features.colours[..]));

        let tangents = needs_flow(&recipe).then(|| Tangents::from_lightness(&working.colours.l, working.radius(2.5)));
        let mut base = compute_base(working, &recipe, tangents.as_ref());
        if let Some(skin) = skin.as_ref().filter(|_| recipe.beauty > 0.0) {
            beautify(&mut base, skin, recipe.beauty, working);
        }

        let medium = recipe
            .technique
            .map(|technique| Medium::new(technique, working, &mut base, &palette, tangents.as_ref(), seed));

        let shaped = change_local_contrast(&base.l, recipe.look.local_contrast, working);
        let texture = compute_texture(working, &recipe, tangents.as_ref(), features, seed);

        let lines = tangents.as_ref().filter(|_| recipe.ink > 0.0).map(|tangents| {
            let radius = ((recipe.ink_width * working.unit + 0.5) as usize).max(1);
            paint::lines(&base.l, tangents, radius, 3.0 * working.unit)
        });
        let threshold = lines.as_ref().map_or(0.0, |lines| paint::line_threshold(lines, 0.12));

        let glow = (recipe.glow > 0.0).then(|| bloom(&base.l, working));
        let relief = (recipe.relief > 0.0).then(|| paint::relief(&base.l, working.radius(9.0)));

        let factor = working.factor;
        let field = |plane: Plane| EnlargedField::new(plane, factor);
        let Colours { l, a, b } = base;

        Self {
            recipe,
            palette,
            base: [l, a, b].map(field),
            shaped: field(shaped),
            lines: lines.map(field),
            line_start: threshold,
            line_full: 2.2 * threshold + 0.01,
            relief: relief.map(field),
            glow: glow.map(|plane| EnlargedField::new(plane, WIDE_FACTOR * factor)),
            texture: texture.map(field),
            skin: skin.map(field),
            medium,
            seed,
        }
    }
}

/// Returns `true` if an effect of the recipe follows the direction field.
fn needs_flow(recipe: &Recipe) -> bool {
    recipe.paint > 0.0 || recipe.ink > 0.0 || recipe.strokes > 0.0
}

/// Adjusts the strength of the detail towards that of the reference.
fn match_detail(recipe: &mut Recipe, working: &WorkingPicture, surface: &Surface) {
    let own_strength = Strength::from_lightness(&working.colours.l);
    let ratio = |target: f32, current: f32| (target.max(1e-4) / current.max(1e-4)).clamp(0.4, 2.5);
    recipe.detail *= ratio(surface.strength.fine, own_strength.fine).powf(0.6 * recipe.surface);
    recipe.look.local_contrast +=
        0.35 * recipe.surface * (ratio(surface.strength.coarse, own_strength.coarse) - 1.0).clamp(-0.6, 0.8);
}

/// Returns the picture without fine detail: smoothed between edges and painted according to the recipe.
fn compute_base(working: &WorkingPicture, recipe: &Recipe, tangents: Option<&Tangents>) -> Colours {
    let colours = &working.colours;
    let step = 0.04 + 0.08 * recipe.look.smooth.clamp(0.0, 1.0);
    let radius = working.radius(2.0);
    let smoothed = |plane: &Plane, step: f32| smooth_between_edges(plane, radius, step);

    if recipe.paint <= 0.0 {
        let l = smoothed(&colours.l, step);
        return Colours { l, a: smoothed(&colours.a, 0.03), b: smoothed(&colours.b, 0.03) };
    }

    let radius = working.radius(recipe.brush);
    let mut painted = paint::areas(colours, radius);
    if recipe.features > 0.0 {
        paint::add_features(&mut painted, &fine_brush(working, radius), recipe.features);
    }

    if let Some(tangents) = tangents {
        painted = tangents.smooth_colours(&painted, 1.4 * recipe.brush * working.unit);
    }

    if recipe.paint < 1.0 {
        let smooth_colours =
            Colours { l: smoothed(&colours.l, step), a: smoothed(&colours.a, 0.03), b: smoothed(&colours.b, 0.03) };
        painted.mix(&smooth_colours, 1.0 - recipe.paint);
    }

    painted
}

/// Returns the picture painted with a brush of less than half the size.
fn fine_brush(working: &WorkingPicture, radius: usize) -> Colours {
    if radius > 2 { paint::areas(&working.colours, radius * 2 / 5) } else { working.colours.clone() }
}

/// Smooths skin in lightness and more in colour, and brightens it slightly.
fn beautify(base: &mut Colours, skin: &Plane, amount: f32, working: &WorkingPicture) {
    let radius = working.radius(5.0);
    let even = |plane: &Plane, step: f32| smooth_between_edges(plane, radius, step);
    let evened = Colours { l: even(&base.l, 0.05 + 0.06 * amount), a: even(&base.a, 0.04), b: even(&base.b, 0.04) };

    for (plane, evened) in [(&mut base.l, &evened.l), (&mut base.a, &evened.a), (&mut base.b, &evened.b)] {
        for ((value, evened), skin) in plane.values_mut().iter_mut().zip(evened.values()).zip(skin.values()) {
            *value += amount * skin * (evened - *value);
        }
    }

    base.l.combine(skin, |value, skin| value + 0.03 * amount * skin * (4.0 * value * (1.0 - value)));
    base.a.combine(skin, |value, skin| value + 0.004 * amount * skin);
}

/// Amplifies or attenuates local contrast, less towards black and white.
fn change_local_contrast(lightness: &Plane, amount: f32, working: &WorkingPicture) -> Plane {
    if amount == 0.0 {
        return lightness.clone();
    }

    let small = reduce(lightness, WIDE_FACTOR);
    let radius = (working.radius(24.0) / WIDE_FACTOR).max(2);
    let even = bands::filter_in_bands(&small, 2 * radius, |plane| filters::smooth_between_edges(plane, radius, 0.2));
    let wide = EnlargedField::new(even, WIDE_FACTOR).to_plane(lightness.width(), lightness.height());

    let mut shaped = lightness.clone();
    shaped.combine(&wide, |value, wide| {
        let value = value.clamp(0.001, 0.999);
        let change = amount.clamp(-0.8, 1.5) * (value - wide).clamp(-0.3, 0.3);
        if change < 0.0 {
            value * (change / value).exp()
        } else {
            1.0 - (1.0 - value) * (-change / (1.0 - value)).exp()
        }
    });

    shaped
}

/// Returns the linear light, blurred at a small and a large radius, at `1 / WIDE_FACTOR` of the size.
fn bloom(lightness: &Plane, working: &WorkingPicture) -> Plane {
    let mut light = reduce(lightness, WIDE_FACTOR);
    // The cube of Oklab lightness is linear light.
    light.values_mut().iter_mut().for_each(|value| *value = value.max(0.0).powi(3));
    let mut near = smooth(&light, (working.radius(5.0) / WIDE_FACTOR).max(1));
    let far = smooth(&near, (working.radius(18.0) / WIDE_FACTOR).max(1));
    near.combine(&far, |near, far| 0.6 * near + 0.4 * far);
    near
}

/// Returns the sum of strokes, the reference's texture and grain, or `None` if the recipe uses none.
fn compute_texture(
    working: &WorkingPicture,
    recipe: &Recipe,
    tangents: Option<&Tangents>,
    features: Option<&ReferenceFeatures>,
    seed: u32,
) -> Option<Plane> {
    let width = working.colours.l.width();
    let height = working.colours.l.height();
    // Planes with their amounts.
    let mut parts = Vec::new();

    if let Some(tangents) = tangents.filter(|_| recipe.strokes > 0.0) {
        parts.push((paint::strokes(tangents, (width, height), working.radius(0.7), seed), 0.022 * recipe.strokes));
    }

    if let Some(texture) =
        features.filter(|_| recipe.surface > 0.0).and_then(|features| features.surface.synthesize(width, height, seed))
    {
        parts.push((texture, 0.7 * recipe.surface));
    }

    if recipe.look.grain > 0.0 {
        let white = draw_plane(width, height, |x, y| grain(x, y, seed));
        parts.push((if working.unit > 1.2 { smooth(&white, 1) } else { white }, 0.05 * recipe.look.grain));
    }

    parts
        .into_iter()
        .map(|(mut plane, amount)| {
            plane.values_mut().iter_mut().for_each(|value| *value *= amount);
            plane
        })
        .reduce(|mut sum, part| {
            sum.combine(&part, |sum, part| sum + part);
            sum
        })
}

/// Returns a sample of noise with mean 0 and deviation 1: the sum of two random bytes, which has a deviation of 104.5.
fn grain(x: usize, y: usize, seed: u32) -> f32 {
    let [first, second, ..] = noise::hash(x as u32, y as u32, seed ^ 0x5EED).to_le_bytes().map(f32::from);
    (first + second - 255.0) / 104.5
}
