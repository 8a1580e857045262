//! Generated pictures of the places that a prompt names, painted from noise with known depth.

mod sceneries;

use super::camera::random;
use super::depth::Depth;
use super::raster::{Raster, Size};
use super::view::View;
use super::words::{MovingElement, Scenery, TimeOfDay, VideoKeywords};
use crate::light::ramp;
use crate::noise::hash;
use crate::plane::Plane;
use crate::prompt;

/// Red, green and blue as sRGB values from 0 to 1.
type Colour = [f32; 3];

/// Point of a picture.
#[derive(Debug, Clone, Copy)]
struct ScenePoint {
    colour: Colour,
    /// From 0 (far) to 1.
    nearness: f32,
}

/// Longest side of a depth map in samples.
const DEPTH_SIDE: usize = 320;

/// Paints the place that a prompt names, or hills by default.
#[must_use]
pub fn paint(keywords: &VideoKeywords, prompt: &str, size: Size, seed: u32) -> View {
    let seed = hash(prompt::prompt_seed(prompt).unwrap_or(0), 3, seed);
    let painter = Painter::from_keywords(keywords, seed);
    let half = size.height as f32 * 0.5;

    let picture = Raster::from_fn(size, |x, y| {
        let point = [(x as f32 + 0.5) / half - size.aspect(), (y as f32 + 0.5) / half - 1.0];
        let colour = painter.point(point, 1.0 / half).colour;
        // Dithering avoids banding in skies.
        let grain = ((hash(x as u32, y as u32, seed) & 0xff) as f32 / 255.0 - 0.5) / 128.0;
        let [red, green, blue] = colour.map(|part| (part + grain).clamp(0.0, 1.0));
        [red, green, blue, 1.0]
    });

    // The depth map has one sample for each cell of pixels.
    let cell = size.width.max(size.height).div_ceil(DEPTH_SIDE);
    let width = size.width.div_ceil(cell);
    let height = size.height.div_ceil(cell);

    let map = Plane::from_fn(width, height, |x, y| {
        let point = [
            ((x as f32 + 0.5) / width as f32 * 2.0 - 1.0) * size.aspect(),
            (y as f32 + 0.5) / height as f32 * 2.0 - 1.0,
        ];
        painter.point(point, 1.0 / half).nearness
    });

    let map = crate::filters::box_blur(&map, 1);
    View { picture, depth: Depth::from_map(map, size.aspect()) }
}

/// Returns the moving element of a painted place, if there is one.
pub fn default_element(keywords: &VideoKeywords) -> Option<MovingElement> {
    match keywords.scenery {
        Some(Scenery::Sea) => Some(MovingElement::Water),
        Some(Scenery::Forest) => Some(MovingElement::Leaves),
        Some(Scenery::Hills | Scenery::Desert) | None => Some(MovingElement::Clouds),
        Some(Scenery::City | Scenery::Space | Scenery::Abstract) => None,
    }
}

/// Colours of a time of day.
#[derive(Debug, Clone, Copy)]
struct SceneColours {
    zenith: Colour,
    horizon: Colour,
    sun: Colour,
    /// Colour of lit surfaces.
    lit: Colour,
    /// Colour of surfaces in shadow.
    dark: Colour,
    is_night: bool,
}

impl SceneColours {
    fn from_time_of_day(time_of_day: TimeOfDay) -> Self {
        let [zenith, horizon, sun, lit, dark] = match time_of_day {
            TimeOfDay::Dawn => {
                [[0.36, 0.47, 0.70], [0.98, 0.78, 0.66], [1.0, 0.92, 0.78], [0.86, 0.74, 0.66], [0.28, 0.30, 0.42]]
            }
            TimeOfDay::Day => {
                [[0.20, 0.45, 0.80], [0.76, 0.87, 0.95], [1.0, 0.98, 0.90], [0.92, 0.94, 0.86], [0.24, 0.32, 0.38]]
            }
            TimeOfDay::Dusk => {
                [[0.20, 0.20, 0.44], [0.98, 0.55, 0.30], [1.0, 0.80, 0.48], [0.95, 0.62, 0.42], [0.16, 0.13, 0.24]]
            }
            TimeOfDay::Night => {
                [[0.02, 0.03, 0.09], [0.10, 0.14, 0.28], [0.92, 0.94, 1.0], [0.34, 0.40, 0.55], [0.02, 0.03, 0.07]]
            }
        };

        Self { zenith, horizon, sun, lit, dark, is_night: time_of_day == TimeOfDay::Night }
    }
}

/// Generator of the points of one picture.
struct Painter {
    scenery: Scenery,
    palette: SceneColours,
    seed: u32,
    /// Position of the sun, or of the moon at night.
    sun: [f32; 2],
    /// Vertical position of the horizon.
    horizon: f32,
}

impl Painter {
    /// Chooses scenery, time of day, horizon and sun; the seed decides what the prompt leaves open.
    fn from_keywords(keywords: &VideoKeywords, seed: u32) -> Self {
        let scenery = keywords.scenery.unwrap_or(Scenery::Hills);

        let default_time_of_day = match scenery {
            Scenery::City | Scenery::Space => TimeOfDay::Night,
            _ => [TimeOfDay::Day, TimeOfDay::Dusk, TimeOfDay::Dawn][(3.0 * random(seed, 20)) as usize % 3],
        };

        let horizon = match scenery {
            Scenery::Sea => 0.05 + 0.15 * random(seed, 21),
            Scenery::City => 0.45,
            Scenery::Desert => 0.1,
            _ => 0.2,
        };

        let time_of_day = keywords.time_of_day.unwrap_or(default_time_of_day);
        let elevation = if matches!(time_of_day, TimeOfDay::Day | TimeOfDay::Night) { 0.62 } else { 0.16 };
        let sun = [1.4 * random(seed, 22) - 0.7, horizon - elevation - 0.1 * random(seed, 23)];

        Self { scenery, palette: SceneColours::from_time_of_day(time_of_day), seed, sun, horizon }
    }

    /// Returns the point at a position; `pixel` is the size of a pixel in half heights.
    fn point(&self, position: [f32; 2], pixel: f32) -> ScenePoint {
        match self.scenery {
            Scenery::Hills => self.paint_hills(position),
            Scenery::Sea => self.paint_sea(position),
            Scenery::City => self.paint_city(position, pixel),
            Scenery::Forest => self.paint_forest(position),
            Scenery::Desert => self.paint_desert(position),
            Scenery::Space => self.paint_space(position, pixel),
            Scenery::Abstract => self.paint_abstract(position),
        }
    }

    /// Returns the colour of the sky: glow around the sun, clouds, stars at night.
    fn sky_colour(&self, [x, y]: [f32; 2]) -> Colour {
        let SceneColours { zenith, horizon, sun, is_night, .. } = self.palette;
        let height = ((self.horizon - y) / (1.0 + self.horizon)).clamp(0.0, 1.0);
        let mut colour = mix(horizon, zenith, height.powf(0.65));

        let distance = ((x - self.sun[0]).powi(2) + (y - self.sun[1]).powi(2)).sqrt();
        let glow = (-distance * if is_night { 5.0 } else { 2.2 }).exp();
        colour = mix(colour, sun, 0.65 * glow);

        if is_night {
            // One random number per cell of the sky; few cells have a star.
            let star = random(self.seed ^ 0x57A5, hash((x * 260.0 + 900.0) as u32, (y * 260.0 + 900.0) as u32, 1));
            colour = mix(colour, [1.0; 3], if star > 0.9975 { 0.8 * height } else { 0.0 });
        }

        // Clouds are flat layers seen from below, so they become denser towards the horizon.
        let depth = 0.25 + 1.6 * height;
        let cloud = self.fractal_noise([x / depth * 1.1, 1.0 / depth * 2.4], 5, 11);
        let dense = ramp(cloud, 0.50, 0.78) * (0.25 + 0.75 * ramp(height, 0.02, 0.25));
        let shade = mix(mix(horizon, sun, 0.5), zenith, 0.25 + 0.3 * (cloud - 0.5));
        colour = mix(colour, shade, 0.75 * dense);

        mix(colour, sun, ramp(0.085 - distance, 0.0, 0.012))
    }

    /// Returns fractal noise from 0 to 1: the sum of `octaves` noises, each half as strong and twice as fine. Calls
    /// with different salts are independent.
    fn fractal_noise(&self, [x, y]: [f32; 2], octaves: u32, salt: u32) -> f32 {
        let mut sum = 0.0;
        let mut weight = 0.5;
        let mut scale = 1.0;

        for octave in 0..octaves {
            sum +=
                weight * self.noise([x * scale + 17.3 * octave as f32, y * scale - 9.1 * octave as f32], salt + octave);
            weight *= 0.5;
            scale *= 2.03;
        }
        sum / (1.0 - 0.5_f32.powi(octaves as i32))
    }

    /// Returns smooth noise from 0 to 1, interpolated between random values at integer positions.
    fn noise(&self, [x, y]: [f32; 2], salt: u32) -> f32 {
        let left = x.floor();
        let top = y.floor();
        let across = ramp(x - left, 0.0, 1.0);
        let down = ramp(y - top, 0.0, 1.0);

        let corner = |dx: i32, dy: i32| {
            let hash = hash((left as i32 + dx) as u32, (top as i32 + dy) as u32, self.seed.wrapping_add(salt * 7919));
            (hash >> 8) as f32 / (1 << 24) as f32
        };

        let above = corner(0, 0) + across * (corner(1, 0) - corner(0, 0));
        let below = corner(0, 1) + across * (corner(1, 1) - corner(0, 1));
        above + down * (below - above)
    }
}

/// Returns the colour between `from`, at a `share` of 0, and `to`, at 1.
fn mix(from: Colour, to: Colour, share: f32) -> Colour {
    std::array::from_fn(|at| from[at] + share * (to[at] - from[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { width: 64, height: 36 };

    fn painted(prompt: &str) -> View {
        paint(&VideoKeywords::from_prompt(prompt), prompt, SIZE, 5)
    }

    fn brightness(view: &View) -> f32 {
        view.picture.luma().values().iter().sum::<f32>() / SIZE.area() as f32
    }

    #[test]
    fn every_scenery_has_a_picture_with_depth() {
        let mut pictures = Vec::new();
        for prompt in ["mountains", "sea", "city", "forest", "desert", "galaxy", "abstract"] {
            let view = painted(prompt);
            let column: Vec<f32> = (0..36).map(|y| view.depth.at([0.3, y as f32 / 18.0 - 1.0])).collect();
            let span = column.iter().copied().fold(0.0, f32::max) - column.iter().copied().fold(1.0, f32::min);
            assert!(span > 0.1, "{prompt}: the depths differ only by {span}");
            assert!(!pictures.contains(&view.picture), "{prompt} looks like another scenery");
            pictures.push(view.picture);
        }
    }

    #[test]
    fn night_is_dark_and_other_words_paint_another_picture() {
        assert!(brightness(&painted("hills at night")) < 0.5 * brightness(&painted("hills at noon")));
        assert_ne!(painted("hills and a cat").picture, painted("hills and a dog").picture);
    }
}
