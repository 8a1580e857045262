//! Recipe of a style transfer: all parameters, combined into the strengths of a few effects.
//!
//! Engine, flavor, portrait options and prompt add up; the structure strength then adjusts the sum. The values were
//! chosen by viewing results on photographs of people, objects and text.

use crate::job::{ColourStrength, PortraitAdjustments, SkinSmoothing, StyleJob, StyleMethod, StylePreset};
use crate::presets::Look;
use crate::prompt::{self, Technique};

/// Strengths of the effects. Zero has no effect unless stated otherwise. Lengths are in units of
/// [`WorkingPicture::unit`], which is proportional to the size of the picture.
///
/// [`WorkingPicture::unit`]: super::working::WorkingPicture::unit
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recipe {
    /// Technique that draws the whole result, if any.
    pub technique: Option<Technique>,
    /// Tone, colour, contrast and grain. Its sharpening and detail are gains of the picture's own fine detail.
    pub look: Look,
    /// Fraction painted in areas, 0 to 1.
    pub paint: f32,
    /// Radius of the brush in units.
    pub brush: f32,
    /// Amount of small features, such as eyes, added by a finer brush.
    pub features: f32,
    /// Visibility of brush strokes.
    pub strokes: f32,
    /// Gain of the fine detail; 1 keeps it unchanged.
    pub detail: f32,
    /// Number of tones; zero does not quantize.
    pub tones: f32,
    /// Darkness of drawn lines.
    pub ink: f32,
    /// Width of drawn lines in units.
    pub ink_width: f32,
    /// Shading of forms that bulge between edges, lit from above.
    pub relief: f32,
    /// Bloom around bright areas.
    pub glow: f32,
    /// Magnification of the focus.
    pub bulge: f32,
    /// Wave distortion of the whole picture.
    pub waves: f32,
    /// Hue rotations from black to white.
    pub cycles: f32,
    /// Amount of neon colours in shadows and highlights.
    pub neon: f32,
    /// Colour fringes at edges in units.
    pub fringe: f32,
    /// Blue shadows and yellow highlights.
    pub split: f32,
    /// Automatic black and white points.
    pub levels: f32,
    /// Darkening towards the corners.
    pub vignette: f32,
    /// Amount of the reference's colours, 0 to 1.
    pub colours: f32,
    /// Amount of the reference's lightness distribution, 0 to 1.
    pub light: f32,
    /// Amount of the reference's texture, 0 to 1.
    pub surface: f32,
    /// Protection of skin from lines, texture and changes of colour.
    pub skin: f32,
    /// Smoothing of skin.
    pub beauty: f32,
}

/// Short name for the tables below.
const NONE: Look = Look::NONE;

impl Recipe {
    /// Effect of the reference alone.
    pub const PLAIN: Self = Self {
        technique: None,
        look: NONE,
        paint: 0.0,
        brush: 1.6,
        features: 0.9,
        strokes: 0.0,
        detail: 1.0,
        tones: 0.0,
        ink: 0.0,
        ink_width: 0.7,
        relief: 0.0,
        glow: 0.0,
        bulge: 0.0,
        waves: 0.0,
        cycles: 0.0,
        neon: 0.0,
        fringe: 0.0,
        split: 0.0,
        levels: 0.0,
        vignette: 0.0,
        colours: 0.9,
        light: 0.7,
        surface: 0.6,
        skin: 0.0,
        beauty: 0.0,
    };

    /// Combines all parameters of a job.
    pub fn from_job(job: &StyleJob) -> Self {
        let mut recipe = engine_recipe(job.engine);
        recipe.apply_flavor(job.flavor);
        if let Some(portrait) = job.portrait {
            recipe.apply_portrait(portrait);
        }
        if let Some(text) = &job.prompt {
            let (look, technique, _) = prompt::interpret_style(text.as_str());
            if let Some(technique) = technique {
                recipe.apply_technique(technique);
            }
            recipe.apply_look(&look);
        }
        recipe.apply_structure(job.structure_strength);
        recipe
    }

    /// Applies a flavor.
    fn apply_flavor(&mut self, flavor: StyleMethod) {
        match flavor {
            StyleMethod::Faithful => {}
            StyleMethod::GenZ => {
                self.neon = 0.75;
                self.fringe = 2.2;
                self.look.add(&Look { contrast: 0.15, saturation: 0.3, grain: 0.45, exposure: 0.1, ..NONE }, 1.0);
                self.glow += 0.2;
            }
            StyleMethod::Psychedelia => {
                self.cycles = 1.6;
                self.waves = 1.0;
                self.paint = self.paint.max(0.8);
                self.brush = self.brush.max(2.2);
                self.detail = self.detail.min(0.5);
                self.look.add(&Look { saturation: 0.5, contrast: 0.1, ..NONE }, 1.0);
            }
            StyleMethod::Detaily => {
                self.detail += 0.9;
                self.paint *= 0.6;
                self.surface = 1.0;
                self.look.add(&Look { local_contrast: 0.55, contrast: 0.05, ..NONE }, 1.0);
            }
            StyleMethod::Clear => {
                self.levels = 0.9;
                self.strokes *= 0.2;
                self.surface = 0.15;
                self.detail = self.detail.mul_add(0.8, 0.25);
                self.look.add(&Look { smooth: 0.7, exposure: 0.12, vibrance: 0.15, local_contrast: 0.15, ..NONE }, 1.0);
                self.look.grain = 0.0;
            }
            StyleMethod::Donotstyle => self.keep_colours(),
            StyleMethod::DonotstyleSharp => {
                self.keep_colours();
                self.detail = self.detail.max(0.6) + 0.9;
                self.look.add(&Look { local_contrast: 0.2, ..NONE }, 1.0);
            }
        }
    }

    /// Keeps the colours of the picture: takes none from the reference and shifts none.
    fn keep_colours(&mut self) {
        self.colours = 0.0;
        self.light = 0.5;
        self.split = 0.0;
        let Look { saturation, vibrance, greens, warmth, .. } = &mut self.look;
        [*saturation, *vibrance, *greens, *warmth] = [0.0; 4];
    }

    /// Applies the portrait options.
    fn apply_portrait(&mut self, portrait: PortraitAdjustments) {
        self.skin = 0.8;
        match portrait.style {
            ColourStrength::Standard => {}
            ColourStrength::Pop => {
                self.look.add(&Look { saturation: 0.22, vibrance: 0.2, contrast: 0.1, exposure: 0.05, ..NONE }, 1.0);
                self.vignette = 0.25;
            }
            ColourStrength::SuperPop => {
                self.look.add(
                    &Look {
                        saturation: 0.5,
                        vibrance: 0.4,
                        contrast: 0.15,
                        local_contrast: 0.2,
                        exposure: 0.1,
                        ..NONE
                    },
                    1.0,
                );
                self.vignette = 0.45;
            }
        }
        self.beauty = match portrait.beautifier {
            None => 0.0,
            Some(SkinSmoothing::Face) => 0.55,
            Some(SkinSmoothing::FaceMax) => 1.0,
        };
    }

    /// Prepares the picture for a technique, which replaces other lines, strokes and light.
    fn apply_technique(&mut self, technique: Technique) {
        self.technique = Some(technique);
        [self.tones, self.strokes, self.relief, self.glow] = [0.0; 4];
        self.look.grain = 0.0;
        match technique {
            Technique::Watercolour => {
                self.paint = 1.0;
                self.brush = self.brush.max(3.2);
                self.features = 0.6;
                self.detail = 0.0;
                self.ink = 0.0;
                self.look.add(&Look { exposure: 0.3, contrast: -0.05, saturation: 0.15, vibrance: 0.2, ..NONE }, 1.0);
            }
            Technique::PixelArt => {
                self.paint = 1.0;
                self.brush = self.brush.min(1.4);
                self.detail = 0.0;
                self.ink = 0.0;
                self.look.add(&Look { contrast: 0.15, saturation: 0.25, ..NONE }, 1.0);
            }
            Technique::Charcoal => {
                self.paint = 0.8;
                self.brush = self.brush.min(1.6);
                self.detail = 0.4;
                self.ink = 1.0;
                self.ink_width = 0.9;
                self.levels = 0.8;
                self.look.add(&Look { contrast: 0.05, local_contrast: 0.3, ..NONE }, 1.0);
            }
        }
    }

    /// Adds the look of the prompt. Its texture becomes visible strokes.
    fn apply_look(&mut self, look: &Look) {
        self.look.add(&Look { sharpen: 0.0, own_detail: 0.0, texture: 0.0, ..*look }, 1.0);
        self.detail = (self.detail + 0.5 * look.sharpen + 0.25 * look.own_detail - 0.4 * look.smooth).max(0.0);
        self.skin = self.skin.max(look.skin);
        self.beauty = (self.beauty + 0.5 * look.skin).clamp(0.0, 1.0);
        self.strokes = (self.strokes + 0.12 * look.texture).max(0.0);
    }

    /// Applies the structure strength, 0 to 1. One half keeps the values of the engine; less loosens the structure of
    /// the picture, more preserves it.
    fn apply_structure(&mut self, structure: f32) {
        let looser = (1.0 - 2.0 * structure).max(0.0);
        let tighter = (2.0 * structure - 1.0).max(0.0);

        self.brush *= 1.0 + 0.9 * looser - 0.45 * tighter;
        self.paint = (self.paint + 0.55 * looser).min(1.0) * (1.0 - 0.55 * tighter);
        self.detail = if self.detail < 1.0 { self.detail + 0.75 * tighter * (1.0 - self.detail) } else { self.detail };
        self.detail *= 1.0 - 0.75 * looser;

        self.features = (self.features + tighter) * (1.0 - 0.85 * looser);
        self.tones *= 1.0 - 0.3 * looser + 0.4 * tighter;

        for distortion in [&mut self.bulge, &mut self.waves] {
            *distortion *= 1.0 + 0.5 * looser - 0.5 * tighter;
        }

        self.strokes *= 1.0 + 0.5 * looser - 0.3 * tighter;
    }
}

/// Half painting, half photograph.
const BALANCED: Recipe = Recipe {
    paint: 0.5,
    brush: 1.6,
    detail: 0.75,
    strokes: 0.12,
    look: Look { contrast: 0.1, saturation: 0.12, vibrance: 0.1, local_contrast: 0.12, ..NONE },
    ..Recipe::PLAIN
};

/// Emphasis on edges and texture.
const DEFINIO: Recipe = Recipe {
    detail: 1.7,
    ink: 0.35,
    ink_width: 0.5,
    look: Look { contrast: 0.18, local_contrast: 0.55, vibrance: 0.12, ..NONE },
    ..Recipe::PLAIN
};

/// Oil painting with strokes that follow the forms.
const ILLUSIO: Recipe = Recipe {
    paint: 1.0,
    brush: 3.2,
    features: 0.55,
    detail: 0.1,
    strokes: 0.9,
    glow: 0.12,
    split: 0.2,
    look: Look { saturation: 0.22, vibrance: 0.2, ..NONE },
    ..Recipe::PLAIN
};

/// Rendered cartoon: plain surfaces, rounded forms with highlights, strong warm colours.
const CARTOON_3D: Recipe = Recipe {
    paint: 1.0,
    brush: 2.4,
    features: 1.1,
    detail: 0.12,
    relief: 1.0,
    glow: 0.08,
    surface: 0.1,
    look: Look {
        saturation: 0.35,
        vibrance: 0.3,
        exposure: 0.06,
        contrast: 0.1,
        local_contrast: 0.25,
        warmth: 0.08,
        ..NONE
    },
    ..Recipe::PLAIN
};

/// Drawn animation: flat tones, clean dark lines, strong light colours.
const COLORFUL_ANIME: Recipe = Recipe {
    paint: 1.0,
    brush: 2.2,
    features: 1.1,
    detail: 0.0,
    tones: 6.0,
    ink: 0.95,
    ink_width: 0.7,
    split: 0.5,
    surface: 0.0,
    look: Look { saturation: 0.5, vibrance: 0.3, exposure: 0.25, contrast: 0.12, ..NONE },
    ..Recipe::PLAIN
};

/// Magnified focus, drawn with a bold pen.
const CARICATURE: Recipe = Recipe {
    paint: 0.9,
    brush: 2.0,
    detail: 0.25,
    tones: 9.0,
    ink: 1.0,
    ink_width: 1.2,
    bulge: 1.0,
    surface: 0.2,
    look: Look { saturation: 0.3, contrast: 0.12, local_contrast: 0.4, warmth: 0.12, exposure: -0.05, ..NONE },
    ..Recipe::PLAIN
};

/// Photograph taken with a good camera.
const REAL: Recipe = Recipe {
    detail: 1.15,
    look: Look { contrast: 0.12, highlights: -0.12, local_contrast: 0.1, saturation: 0.05, grain: 0.12, ..NONE },
    surface: 0.4,
    ..Recipe::PLAIN
};

/// Hyperrealism: full detail in shadows and highlights.
const SUPER_REAL: Recipe = Recipe {
    detail: 1.8,
    levels: 0.3,
    glow: 0.05,
    surface: 0.4,
    look: Look { contrast: 0.15, local_contrast: 0.85, vibrance: 0.4, saturation: 0.05, ..NONE },
    ..Recipe::PLAIN
};

/// Soft focus: bloom, gentle contrast, smooth surfaces.
const SOFTY: Recipe = Recipe {
    detail: 0.35,
    glow: 0.6,
    surface: 0.2,
    look: Look {
        smooth: 0.8,
        contrast: -0.15,
        local_contrast: -0.2,
        exposure: 0.25,
        saturation: -0.12,
        warmth: 0.15,
        ..NONE
    },
    ..Recipe::PLAIN
};

/// Returns the recipe of an engine.
const fn engine_recipe(engine: StylePreset) -> Recipe {
    match engine {
        StylePreset::Balanced => BALANCED,
        StylePreset::Definio => DEFINIO,
        StylePreset::Illusio => ILLUSIO,
        StylePreset::Cartoon3d => CARTOON_3D,
        StylePreset::ColorfulAnime => COLORFUL_ANIME,
        StylePreset::Caricature => CARICATURE,
        StylePreset::Real => REAL,
        StylePreset::SuperReal => SUPER_REAL,
        StylePreset::Softy => SOFTY,
    }
}
