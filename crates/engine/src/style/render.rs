//! Drawing of a scene over the full-size picture, row by row and in place.

use rayon::prelude::*;

use super::oklab;
use super::scene::Scene;
use super::technique::{self, Medium};
use crate::noise::hash;

/// Number of rows that one task draws with the same buffers.
const ROWS: usize = 16;

/// Renderer of the styled picture over the original.
#[derive(Debug)]
pub struct Renderer<'a> {
    pub scene: &'a Scene,
    /// Opacity of the style, 0 to 1.
    pub strength: f32,
    /// Hue offset in turns.
    pub phase: f32,
    /// Width of the fringes in pixels.
    pub fringe: usize,
    pub width: usize,
    pub height: usize,
}

/// Buffers of one row. Colours are planes of lightness, green to red, and blue to yellow.
struct Line {
    y: usize,
    /// The original.
    source: [Vec<f32>; 3],
    /// The original without its fine detail.
    base: [Vec<f32>; 3],
    /// The result.
    styled: [Vec<f32>; 3],
    /// The field that the current step uses.
    field: Vec<f32>,
    /// Likelihood of skin, 0 to 1.
    skin: Vec<f32>,
}

impl Line {
    fn new(width: usize) -> Self {
        let empty = vec![0.0; width];
        let planes = [empty.clone(), empty.clone(), empty.clone()];
        Self { y: 0, source: planes.clone(), base: planes.clone(), styled: planes, field: empty.clone(), skin: empty }
    }
}

impl Renderer<'_> {
    /// Draws over pixels of `CHANNELS` bytes. The first three are colours; others are kept.
    pub fn draw<const CHANNELS: usize>(&self, pixels: &mut [u8]) {
        let row_bytes = CHANNELS * self.width;
        pixels.par_chunks_mut(ROWS * row_bytes).enumerate().for_each(|(band, rows)| {
            let mut line = Line::new(self.width);
            for (at, row) in rows.chunks_exact_mut(row_bytes).enumerate() {
                line.y = band * ROWS + at;
                let row = row.as_chunks_mut::<CHANNELS>().0;
                read_row(row, &mut line.source);
                self.render(&mut line);
                self.write_row(row, &line);
            }
        });
    }

    /// Computes the styled row from the source row.
    fn render(&self, line: &mut Line) {
        let scene = self.scene;
        if let Some(Medium::PixelArt(mosaic)) = &scene.medium {
            return mosaic.draw(line.y, &mut line.styled);
        }

        match &scene.skin {
            Some(skin) => skin.draw(line.y, &mut line.skin),
            None => line.skin.fill(0.0),
        }

        for (field, row) in scene.base.iter().zip(&mut line.base) {
            field.draw(line.y, row);
        }
        scene.shaped.draw(line.y, &mut line.field);

        self.apply_palette(line);
        if scene.recipe.cycles > 0.0 {
            self.rotate_hues(line);
        }

        if scene.recipe.tones > 0.0 {
            quantize(&mut line.styled[0], scene.recipe.tones);
        }

        self.add_detail(line);
        self.add_light(line);
        self.add_texture(line);
        self.draw_lines(line);
        self.apply_technique(line);

        if self.fringe > 0 {
            self.shift_colours(line);
        }
        if scene.recipe.vignette > 0.0 {
            self.darken_corners(line);
        }
    }

    /// Applies the palette to the base, together with the edges that its smoothing has removed.
    fn apply_palette(&self, line: &mut Line) {
        let recipe = &self.scene.recipe;
        let detail_share = self.edge_share();
        let chroma = recipe.detail.min(1.0);
        let protect = 0.55 * recipe.skin;

        for x in 0..self.width {
            let residual: [f32; 3] = std::array::from_fn(|at| line.source[at][x] - line.base[at][x]);
            let edge = detail_share * edge_likelihood(residual[0]);
            let colours = [0, 1, 2].map(|at| line.base[at][x] + edge.max(chroma) * residual[at]);
            let before = [line.field[x] + edge * residual[0], colours[1], colours[2]];

            let [l, a, b] = self.scene.palette.apply(before);
            let skin_share = protect * line.skin[x];

            line.styled[0][x] = l;
            line.styled[1][x] = a + skin_share * (1.1 * before[1] - a);
            line.styled[2][x] = b + skin_share * (1.1 * before[2] - b);
        }
    }

    /// Rotates the hue by lightness and position. Greys get a colour, too.
    fn rotate_hues(&self, line: &mut Line) {
        let recipe = &self.scene.recipe;
        let across = 0.6 / self.width.max(self.height) as f32;
        for x in 0..self.width {
            let position = across * (x + line.y) as f32;
            let cycle_phase = self.phase + position + recipe.cycles * line.styled[0][x];
            let (sine, cosine) = (std::f32::consts::TAU * cycle_phase).sin_cos();
            let a = line.styled[1][x];
            let b = line.styled[2][x];
            line.styled[1][x] = 0.6 * (a * cosine - b * sine) + 0.15 * cosine;
            line.styled[2][x] = 0.6 * (a * sine + b * cosine) + 0.15 * sine;
        }
    }

    /// Adds the fine detail, reduced on beautified skin.
    fn add_detail(&self, line: &mut Line) {
        let recipe = &self.scene.recipe;
        let detail_share = self.edge_share();
        for x in 0..self.width {
            let residual = line.source[0][x] - line.base[0][x];
            let share = recipe.detail * (1.0 - 0.85 * recipe.beauty * line.skin[x]);
            line.styled[0][x] += share * (1.0 - detail_share * edge_likelihood(residual)) * residual;
        }
    }

    /// Applies relief shading and bloom.
    fn add_light(&self, line: &mut Line) {
        let recipe = &self.scene.recipe;
        if let Some(relief) = &self.scene.relief {
            relief.draw(line.y, &mut line.field);
            for (l, shade) in line.styled[0].iter_mut().zip(&line.field) {
                let shine = ((shade - 0.45) * 3.0).clamp(0.0, 1.0) * *l;
                // Highlights are lit less to avoid clipping at rims.
                let headroom = if *shade > 0.0 { 1.4 * (1.05 - *l).max(0.0) } else { 1.0 };
                *l +=
                    recipe.relief * (0.13 * shade * headroom * (0.3 + *l) + 0.14 * shine * shine * (1.1 - *l).max(0.0));
            }
        }

        if let Some(glow) = &self.scene.glow {
            glow.draw(line.y, &mut line.field);
            for (l, spilled) in line.styled[0].iter_mut().zip(&line.field) {
                let light = l.clamp(0.0, 1.0).powi(3);
                *l = oklab::cube_root(1.0 - (1.0 - light) * (1.0 - recipe.glow * 0.7 * spilled));
            }
        }
    }

    /// Adds strokes, the texture of the reference and grain, but less on protected skin and near black and white.
    fn add_texture(&self, line: &mut Line) {
        if let Some(texture) = &self.scene.texture {
            texture.draw(line.y, &mut line.field);
            let protect = 0.6 * self.scene.recipe.skin.max(self.scene.recipe.beauty);
            for ((l, grain), skin) in line.styled[0].iter_mut().zip(&line.field).zip(&line.skin) {
                let texture_share = 0.35 + 2.6 * (*l * (1.0 - *l)).max(0.0);
                *l += grain * texture_share * (1.0 - protect * skin);
            }
        }
    }

    /// Draws lines nearly black and desaturated.
    fn draw_lines(&self, line: &mut Line) {
        let Some(lines) = &self.scene.lines else { return };
        lines.draw(line.y, &mut line.field);
        let start = self.scene.line_start;
        let full = self.scene.line_full;

        let recipe = &self.scene.recipe;
        for x in 0..self.width {
            let ink = smoothstep((line.field[x] - start) / (full - start));
            let ink = recipe.ink * ink * (1.0 - 0.35 * recipe.skin * line.skin[x]);
            line.styled[0][x] += ink * (0.12 - line.styled[0][x]).min(0.0);
            line.styled[1][x] *= 1.0 - 0.7 * ink;
            line.styled[2][x] *= 1.0 - 0.7 * ink;
        }
    }

    /// Draws with the technique that the prompt names.
    fn apply_technique(&self, line: &mut Line) {
        match &self.scene.medium {
            Some(Medium::Watercolour { pigment }) => {
                pigment.draw(line.y, &mut line.field);
                technique::paint_watercolour(&mut line.styled, &line.field);
            }
            Some(Medium::Charcoal { tooth }) => {
                tooth.draw(line.y, &mut line.field);
                technique::draw_charcoal(&mut line.styled, &line.field);
            }
            Some(Medium::PixelArt(_)) | None => {}
        }
    }

    /// Returns the fraction of the edges lost in smoothing that passes through the palette; [`Renderer::add_detail`]
    /// adds the rest. The fraction is 0 in watercolour, whose paint runs over edges.
    fn edge_share(&self) -> f32 {
        let is_wet = matches!(self.scene.medium, Some(Medium::Watercolour { .. }));
        if is_wet { 0.0 } else { 1.0 - 0.75 * self.scene.recipe.paint }
    }

    /// Shifts one colour axis to the left and the other to the right.
    fn shift_colours(&self, line: &mut Line) {
        let last = self.width - 1;
        let a = line.styled[1].clone();
        let b = line.styled[2].clone();
        for x in 0..self.width {
            line.styled[1][x] = a[(x + self.fringe).min(last)];
            line.styled[2][x] = b[x.saturating_sub(self.fringe)];
        }
    }

    /// Darkens the row towards the corners.
    fn darken_corners(&self, line: &mut Line) {
        let width = self.width as f32;
        let height = self.height as f32;
        let down = (2.0 * line.y as f32 / height - 1.0).powi(2);
        for (x, l) in line.styled[0].iter_mut().enumerate() {
            let distance_squared = 0.5 * (down + (2.0 * x as f32 / width - 1.0).powi(2));
            *l *= 1.0 - 0.6 * self.scene.recipe.vignette * smoothstep((distance_squared - 0.25) / 0.75);
        }
    }

    /// Blends the result with the original and writes bytes with dithering.
    fn write_row<const CHANNELS: usize>(&self, row: &mut [[u8; CHANNELS]], line: &Line) {
        // Dithering would make blocks of one colour uneven.
        let is_pixel_art = matches!(self.scene.medium, Some(Medium::PixelArt(_)));
        for (x, pixel) in row.iter_mut().enumerate() {
            let mixed = [0, 1, 2].map(|at| {
                let original = line.source[at][x];
                original + self.strength * (line.styled[at][x] - original)
            });
            let noise = hash(x as u32, line.y as u32, self.scene.seed) >> 8;
            let dither = if is_pixel_art { 0.5 } else { 0.25 + 0.5 * (noise as f32 / (1 << 24) as f32) };
            for (target, light) in pixel.iter_mut().zip(oklab::to_linear(mixed)) {
                *target = oklab::to_byte(light, dither);
            }
        }
    }
}

/// Converts a row of pixels to Oklab.
fn read_row<const CHANNELS: usize>(row: &[[u8; CHANNELS]], source: &mut [Vec<f32>; 3]) {
    let light = oklab::light_of_bytes();
    for (x, pixel) in row.iter().enumerate() {
        let [l, a, b] = oklab::from_linear([0, 1, 2].map(|at| light[usize::from(pixel[at])]));
        [source[0][x], source[1][x], source[2][x]] = [l, a, b];
    }
}

/// Returns the likelihood, 0 to 1, that a deviation from the base is an edge and not texture.
fn edge_likelihood(residual: f32) -> f32 {
    smoothstep((residual.abs() - 0.05) / 0.1)
}

/// Returns a smooth step from 0 to 1 between the values 0 and 1.
fn smoothstep(value: f32) -> f32 {
    let value = value.clamp(0.0, 1.0);
    value * value * (3.0 - 2.0 * value)
}

/// Quantizes tones with short soft transitions. Some of the gradient remains to avoid banding in skies.
fn quantize(tones: &mut [f32], count: f32) {
    for tone in tones {
        let level = tone.clamp(0.0, 1.0) * count;
        let step_share = ((level.fract() - 0.5) * 5.0 + 0.5).clamp(0.0, 1.0);
        *tone += 0.85 * ((level.floor() + smoothstep(step_share)) / count - *tone);
    }
}
