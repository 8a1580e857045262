//! Places of generated pictures, drawn from near to far. The numbers were chosen by viewing results.

use super::{Colour, Painter, ScenePoint, mix};
use crate::light::ramp;
use crate::noise::hash;
use crate::video::camera::random;

/// Number of hill ridges.
const RIDGES: usize = 6;

impl Painter {
    /// Paints hills: ridges with increasing haze.
    pub(super) fn paint_hills(&self, [x, y]: [f32; 2]) -> ScenePoint {
        for ridge in (0..RIDGES).rev() {
            let near = ridge as f32 / (RIDGES - 1) as f32;
            let salt = 20 + 8 * ridge as u32;
            let height = 0.42 - 0.26 * near;
            let width = 0.9 + 0.8 * (1.0 - near);

            let rough = self.fractal_noise([x * width + 31.0 * near, 0.5], 3 + (3.0 * (1.0 - near)) as u32, salt);
            let trees =
                if near > 0.5 { 0.05 * near * self.noise([x * 55.0 / (0.4 + near), 0.0], salt + 6) } else { 0.0 };
            let crest = -0.18 + 0.95 * near - height * (rough - 0.3) * 2.0 - trees;

            if y > crest {
                let below = (y - crest).min(1.0);
                let ground = self.fractal_noise([x * (9.0 - 4.0 * near), y * (14.0 - 6.0 * near)], 4, salt + 3);
                let green = mix([0.34, 0.42, 0.30], [0.18, 0.27, 0.13], near);

                let mut colour = shade(green, self.palette.lit, self.palette.dark, 0.2 + 0.6 * ground - 0.25 * near);
                let haze = mix(self.palette.horizon, self.palette.zenith, 0.38);
                colour = mix(colour, haze, (1.0 - near).powi(2) * 0.82);

                // Mist hides the foot of far ridges.
                colour = mix(colour, self.palette.horizon, 0.42 * (1.0 - near) * ramp(below, 0.0, 0.35));
                return ScenePoint {
                    colour,
                    nearness: 0.12 + 0.75 * near * near + 0.13 * ramp(below, 0.0, 1.0) * near,
                };
            }
        }
        ScenePoint { colour: self.sky_colour([x, y]), nearness: 0.0 }
    }

    /// Paints the sea: waves that become denser towards the horizon, with a glitter path of the sun.
    pub(super) fn paint_sea(&self, [x, y]: [f32; 2]) -> ScenePoint {
        if y < self.horizon {
            let land = self.horizon - 0.05 * ramp(self.fractal_noise([x * 1.6, 0.0], 4, 70), 0.45, 0.8);
            let hill = mix(self.palette.dark, self.palette.horizon, 0.55);
            return if y > land {
                ScenePoint { colour: hill, nearness: 0.05 }
            } else {
                ScenePoint { colour: self.sky_colour([x, y]), nearness: 0.0 }
            };
        }

        let down = y - self.horizon;
        let distance = 1.0 / (down + 0.025);
        let wave = self.fractal_noise([x * distance * 0.55, distance * 2.2], 4, 71)
            + 0.35 * (self.fractal_noise([x * distance * 2.0, distance * 7.0], 3, 75) - 0.5);

        let mirrored = self.sky_colour([x + 0.1 * (wave - 0.5), self.horizon - 0.7 * down - 0.25 * (wave - 0.4)]);
        let deep = mix(self.palette.dark, [0.05, 0.20, 0.26], if self.palette.is_night { 0.2 } else { 0.6 });
        let mut colour = mix(deep, mirrored, (0.85 - 0.6 * down.sqrt() + 0.5 * (wave - 0.5)).clamp(0.1, 0.95));

        let path = (-((x - self.sun[0]) / (0.10 + 0.30 * down)).powi(2)).exp();
        let glitter = ramp(wave, 0.56, 0.68) * path;
        colour = mix(colour, self.palette.sun, 0.9 * glitter);

        let foam = ramp(wave, 0.74, 0.84) * ramp(down, 0.25, 0.9);
        ScenePoint {
            colour: mix(colour, [0.92, 0.95, 0.96], 0.5 * foam),
            nearness: (down / (1.0 - self.horizon)).powf(0.8),
        }
    }

    /// Paints a city: rows of buildings with lit windows, reflected in a wet street.
    pub(super) fn paint_city(&self, [x, y]: [f32; 2], pixel: f32) -> ScenePoint {
        let ground = 0.62;
        if y <= ground {
            return self.paint_skyline([x, y], pixel, ground);
        }

        let down = y - ground;
        let ripple = 0.05 * down * (self.noise([x * 22.0, y * 90.0], 95) - 0.5);
        let mirrored = self.paint_skyline([x + ripple, ground - 1.6 * down], pixel, ground).colour;

        let wet = mix(mirrored, self.palette.dark, 0.45 + 0.25 * self.fractal_noise([x * 6.0, y * 30.0], 3, 96));
        ScenePoint { colour: wet, nearness: 0.62 + 0.38 * (down / (1.0 - ground)) }
    }

    /// Paints rows of buildings that stand on `ground`, the vertical position of the street.
    fn paint_skyline(&self, [x, y]: [f32; 2], pixel: f32, ground: f32) -> ScenePoint {
        const ROWS: usize = 4;
        for row in (0..ROWS).rev() {
            let near = row as f32 / (ROWS - 1) as f32;
            let width = 0.10 + 0.13 * near;
            let at = x / width + 100.0 + 0.37 * row as f32;
            let house_index = at.floor();
            let random_at =
                |salt: u32| random(self.seed ^ (house_index as u32).wrapping_mul(0x9E37), 200 + 16 * row as u32 + salt);

            let position = at - house_index;
            let margin = 0.04 + 0.12 * random_at(1);
            let height = 0.35 + 0.85 * random_at(0) * (1.15 - 0.55 * near);
            let top = ground - height * (1.0 - 0.35 * near);

            if y > top && position > margin && position < 1.0 - margin {
                let wall = mix(self.palette.dark, self.palette.horizon, 0.62 * (1.0 - near) + 0.08);
                let wall = mix(wall, self.palette.lit, 0.10 * (1.0 - (position - 0.3).abs()));

                let columns = 4.0 + (4.0 * random_at(2)).floor();
                let floor = 0.030 + 0.022 * near;
                let column = (position - margin) / (1.0 - 2.0 * margin) * columns;
                let storey = (y - top) / floor;
                let window = random(
                    self.seed ^ (column as u32 + 64 * storey as u32).wrapping_mul(0x85EB),
                    300 + house_index as u32 * 7 + row as u32,
                );

                let softness = (pixel / floor * 1.5).clamp(0.05, 0.4);
                let pane = pane_mask(column.fract(), 0.22, softness) * pane_mask(storey.fract(), 0.25, softness);

                let share = if self.palette.is_night { 0.42 } else { 0.16 };
                let lamp =
                    if window < share { 0.55 + 0.45 * random(self.seed, 400 + (window * 9000.0) as u32) } else { 0.0 };
                let warm = mix([1.0, 0.80, 0.45], [0.65, 0.85, 1.0], if random_at(3) > 0.75 { 1.0 } else { 0.0 });

                let colour = mix(mix(wall, self.palette.horizon, 0.1 * pane), warm, lamp * pane * (0.55 + 0.45 * near));
                return ScenePoint { colour, nearness: 0.10 + 0.52 * near };
            }
        }
        ScenePoint { colour: self.sky_colour([x, y]), nearness: 0.0 }
    }

    /// Paints a forest: rows of trunks, crowns above, light between.
    pub(super) fn paint_forest(&self, [x, y]: [f32; 2]) -> ScenePoint {
        const ROWS: usize = 5;
        let sunny = mix(self.palette.horizon, self.palette.sun, 0.4);

        for row in (0..ROWS).rev() {
            let near = row as f32 / (ROWS - 1) as f32;
            let salt = 120 + 8 * row as u32;
            let floor = 0.25 + 0.55 * near + 0.06 * self.fractal_noise([x * 2.0, near], 3, salt);
            let dark = mix(mix([0.30, 0.42, 0.30], self.palette.horizon, 0.6), [0.07, 0.10, 0.05], near.powf(0.6));

            if y > floor {
                let moss = self.fractal_noise([x * 14.0, y * 30.0], 4, salt + 1);
                let colour =
                    shade([0.26, 0.34, 0.12], self.palette.lit, self.palette.dark, 0.15 + 0.7 * moss - 0.2 * near);
                return ScenePoint {
                    colour: mix(colour, sunny, 0.5 * (1.0 - near).powi(2)),
                    nearness: 0.15 + 0.8 * near,
                };
            }

            let width = 0.20 + 0.28 * near;
            let at = x / width + 57.0 + 0.31 * row as f32;
            let random_at = |offset: u32| random(self.seed ^ (at.floor() as u32).wrapping_mul(0x9E37), salt + offset);
            let lean = 0.06 * (random_at(0) - 0.5) * y;
            let thick = (0.035 + 0.075 * random_at(1)) * (1.0 + 0.5 * ramp(y, floor - 0.25, floor));
            let distance = (at.fract() - 0.2 - 0.6 * random_at(2) + lean).abs();

            if distance < thick {
                let bark = self.fractal_noise([at * 40.0, y * 5.0], 3, salt + 4);
                let round = 1.0 - (distance / thick).powi(2);
                let colour = shade(dark, self.palette.lit, self.palette.dark, 0.08 + 0.35 * bark * round);
                return ScenePoint { colour: mix(colour, sunny, 0.55 * (1.0 - near)), nearness: 0.12 + 0.8 * near };
            }

            let crown = self.fractal_noise([x * (4.0 + 2.0 * near), y * 5.0], 5, salt + 5);
            if crown > 0.60 + 0.35 * (y + 0.95) - 0.12 * near && y < 0.1 {
                let leaf = mix(mix([0.36, 0.50, 0.18], dark, 0.6 * near), sunny, 0.45 * (1.0 - near));
                return ScenePoint {
                    colour: mix(leaf, sunny, 0.3 * ramp(crown, 0.7, 0.8)),
                    nearness: 0.10 + 0.75 * near,
                };
            }
        }

        let shaft = self.noise([x * 7.0 - y * 2.5, 0.0], 118) * ramp(0.5 - y, 0.0, 1.0);
        ScenePoint {
            colour: mix(mix(self.palette.horizon, [0.55, 0.68, 0.45], 0.35), self.palette.sun, 0.5 * shaft),
            nearness: 0.0,
        }
    }

    /// Paints a desert: dunes with a lit and a shaded side.
    pub(super) fn paint_desert(&self, [x, y]: [f32; 2]) -> ScenePoint {
        const ROWS: usize = 5;
        for row in (0..ROWS).rev() {
            let near = row as f32 / (ROWS - 1) as f32;
            let salt = 160 + 8 * row as u32;

            let crest = |x: f32| {
                0.06 + 0.62 * near
                    - (0.26 - 0.05 * near) * self.fractal_noise([x * (1.3 - 0.5 * near) + 13.0 * near, 0.3], 2, salt)
            };

            if y > crest(x) {
                let slope = (crest(x + 0.01) - crest(x - 0.01)) * 50.0;
                let side = ramp(slope * if self.sun[0] < 0.0 { -1.0 } else { 1.0 }, -0.45, 0.45);

                let lines = 0.5
                    + 0.5
                        * (90.0 * (y - crest(x)) / (0.5 + near) + 6.0 * self.noise([x * 3.0, y * 3.0], salt + 2)).sin();

                let sand = shade(
                    [0.93, 0.70, 0.42],
                    self.palette.lit,
                    self.palette.dark,
                    0.25 + 0.6 * side + 0.05 * lines * near,
                );
                return ScenePoint {
                    colour: mix(sand, self.palette.horizon, 0.65 * (1.0 - near).powi(2)),
                    nearness: 0.15 + 0.8 * near,
                };
            }
        }
        ScenePoint { colour: self.sky_colour([x, y]), nearness: 0.0 }
    }

    /// Paints space: nebula, stars and a planet.
    pub(super) fn paint_space(&self, [x, y]: [f32; 2], pixel: f32) -> ScenePoint {
        let middle = [0.9 * random(self.seed, 50) - 0.2, 0.5 * random(self.seed, 51) - 0.1];
        let radius = 0.34 + 0.16 * random(self.seed, 52);
        let hue = random(self.seed, 53);

        let [dx, dy] = [(x - middle[0]) / radius, (y - middle[1]) / radius];
        let distance = (dx * dx + dy * dy).sqrt();

        let mut colour = self.nebula_colour([x, y], hue);

        for scale in [34.0, 70.0_f32] {
            let cell = [(x * scale).floor(), (y * scale).floor()];
            let cell_seed = hash((cell[0] + 5000.0) as u32, (cell[1] + 5000.0) as u32, self.seed);
            let random_at = |offset: u32| random(cell_seed, offset + scale as u32);
            let at = [x * scale - cell[0] - 0.2 - 0.6 * random_at(1), y * scale - cell[1] - 0.2 - 0.6 * random_at(2)];
            let size = 0.04 + 0.10 * random_at(3).powi(4) + 0.6 * pixel * scale;
            let star = (-(at[0] * at[0] + at[1] * at[1]) / (size * size)).exp() * ramp(random_at(4), 0.80, 1.0);
            colour = mix(colour, [1.0, 0.97, 0.92], star.min(1.0));
        }

        let edge = ramp(1.0 - distance, -1.5 * pixel / radius, 1.5 * pixel / radius);
        if edge > 0.0 {
            let deep = (1.0 - distance * distance).max(0.0).sqrt();
            let light = (0.62 * -dx - 0.45 * dy + 0.64 * deep).max(0.0);
            let bands =
                self.fractal_noise([dx * 0.6, dy * 4.0 + 0.6 * self.fractal_noise([dx * 3.0, dy * 3.0], 3, 62)], 4, 60);
            let ground = mix(spectrum(hue + 0.45), spectrum(hue + 0.62), bands);
            let planet = ground.map(|part| part * (0.03 + 1.1 * light));
            colour = mix(colour, planet, edge);
        }

        let halo = (-(distance - 1.0).max(0.0) * 14.0).exp() * (0.5 - 0.5 * dx).clamp(0.0, 1.0);
        colour = mix(colour, spectrum(hue + 0.5), if distance >= 1.0 { 0.35 * halo } else { 0.0 });
        ScenePoint {
            colour,
            nearness: 0.10 + 0.75 * ramp(1.05 - distance, 0.0, 0.1) + 0.1 * self.fractal_noise([x, y], 2, 55),
        }
    }

    /// Returns the colour of the nebula whose main colour has the hue `hue`.
    fn nebula_colour(&self, [x, y]: [f32; 2], hue: f32) -> Colour {
        let bent = [self.fractal_noise([x * 1.3, y * 1.3], 4, 56), self.fractal_noise([x * 1.3 + 5.0, y * 1.3], 4, 57)];
        let cloud = self.fractal_noise([x * 1.1 + 1.8 * bent[0], y * 1.1 + 1.8 * bent[1]], 5, 58);
        let gas = mix(spectrum(hue), spectrum(hue + 0.22), bent[1]);
        mix([0.01, 0.01, 0.03], gas, 0.75 * ramp(cloud, 0.42, 0.85))
    }

    /// Paints an abstract picture: colours that flow into each other.
    pub(super) fn paint_abstract(&self, [x, y]: [f32; 2]) -> ScenePoint {
        let warp =
            [self.fractal_noise([x * 0.9, y * 0.9], 4, 80), self.fractal_noise([x * 0.9 + 4.0, y * 0.9 + 2.0], 4, 81)];
        let second_warp = [
            self.fractal_noise([x + 2.4 * warp[0], y + 2.4 * warp[1]], 4, 82),
            self.fractal_noise([x + 2.4 * warp[1] + 3.0, y - 2.4 * warp[0]], 4, 83),
        ];

        let value = self.fractal_noise([x * 0.8 + 2.2 * second_warp[0], y * 0.8 + 2.2 * second_warp[1]], 4, 84);

        let hue = random(self.seed, 85);
        let colour =
            mix(spectrum(hue + 0.35 * second_warp[0]), spectrum(hue + 0.5 + 0.2 * warp[1]), ramp(value, 0.3, 0.7));
        let light = 0.55 + 0.9 * (value - 0.35) + 0.25 * ramp(second_warp[1], 0.5, 0.75);
        ScenePoint { colour: colour.map(|part| part * light), nearness: ramp(value, 0.2, 0.8) }
    }
}

/// Returns 1 in the inner part of a cell and 0 at its border, with soft edges. All arguments are fractions of the cell.
fn pane_mask(at: f32, border: f32, softness: f32) -> f32 {
    ramp(at, border - softness, border + softness) * ramp(1.0 - at, border - softness, border + softness)
}

/// Returns the colour of a surface between shadow (`share` 0) and light (1).
fn shade(surface: Colour, light: Colour, dark: Colour, share: f32) -> Colour {
    let share = share.clamp(0.0, 1.0);
    std::array::from_fn(|at| {
        surface[at] * (0.35 * dark[at] + share * (1.25 * light[at])) + 0.25 * dark[at] * (1.0 - share)
    })
}

/// Returns a vivid colour; `angle` is the hue in turns.
fn spectrum(angle: f32) -> Colour {
    [0.0, 0.33, 0.67].map(|phase| 0.52 + 0.42 * (std::f32::consts::TAU * (angle + phase)).cos())
}
