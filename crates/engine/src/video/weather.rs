//! Particles and fog in front of a picture: rain, snow, dust, fireflies, fog, petals.
//!
//! The position of a particle follows from its number, the seed and the time, so frames can be drawn in any order.

use std::f32::consts::TAU;

use super::camera::{Pose, random};
use super::depth::{Depth, look_up};
use super::raster::Raster;
use super::words::Weather;
use crate::light::ramp;
use crate::noise::{hash, texture};
use crate::plane::{Plane, Region};

/// Weather of a video.
#[derive(Debug)]
pub struct WeatherLayer {
    kind: Weather,
    seed: u32,
    /// Number of particles.
    count: u32,
    /// Cloud textures of fog.
    clouds: Option<[Plane; 2]>,
}

/// Particle at a time.
struct Particle {
    /// Position from 0 to 1 across and down the frame.
    at: [f32; 2],
    /// Nearness from 0 (far) to 1.
    near: f32,
    /// Random number of the particle, 0 to 1.
    random_offset: f32,
}

impl WeatherLayer {
    /// Creates weather; a `strength` of 1 is the normal density.
    #[must_use]
    pub fn new(kind: Weather, strength: f32, seed: u32) -> Self {
        let count = match kind {
            Weather::Rain => 520.0,
            Weather::Snow => 560.0,
            Weather::Dust => 130.0,
            Weather::Fireflies => 46.0,
            Weather::Petals => 60.0,
            Weather::Fog => 0.0,
        };

        let clouds = (kind == Weather::Fog).then(|| [clouds(seed, 6), clouds(seed ^ 0x5A, 3)]);

        Self { kind, seed: hash(kind as u32, 77, seed), count: (count * strength) as u32, clouds }
    }

    /// Draws the weather over a frame. Nearby particles move with the camera.
    pub fn draw(&self, seconds: f32, pose: &Pose, depth: Option<&Depth>, frame: &mut Raster) {
        match self.kind {
            Weather::Fog => self.draw_fog(seconds, pose, depth, frame),
            _ => (0..self.count).for_each(|index| self.draw_particle(index, seconds, pose, frame)),
        }
    }

    /// Returns a random number, 0 to 1, for a particle and a purpose.
    fn random(&self, index: u32, salt: u32) -> f32 {
        random(self.seed ^ index.wrapping_mul(0x9E37_79B1), salt)
    }

    /// Returns a particle at a time. `speed` is in widths and heights of the frame per second.
    fn particle_at(&self, index: u32, seconds: f32, pose: &Pose, speed: [f32; 2]) -> Particle {
        let near = self.random(index, 3);

        let speed_factor = 0.45 + 0.55 * near;
        let drift = |at: usize| 0.5 * (pose.shift[at] + pose.drift[at] * (0.5 + near));

        // Particles leave the frame and return within a margin of a tenth around it.
        let across = self.random(index, 1) * 1.2 + seconds * speed_factor * speed[0] - drift(0);
        let down = self.random(index, 2) * 1.2 + seconds * speed_factor * speed[1] - drift(1);

        Particle {
            at: [across.rem_euclid(1.2) - 0.1, down.rem_euclid(1.2) - 0.1],
            near,
            random_offset: self.random(index, 4),
        }
    }

    /// Draws a particle. Lengths are in pixels of a frame 360 pixels high.
    fn draw_particle(&self, index: u32, seconds: f32, pose: &Pose, frame: &mut Raster) {
        let size = frame.size();

        let unit = size.height as f32 / 360.0;
        let at = |particle: &Particle| [particle.at[0] * size.width as f32, particle.at[1] * size.height as f32];
        let sway = |frequency: f32, amplitude: f32, phase: f32| amplitude * (frequency * seconds + TAU * phase).sin();

        match self.kind {
            Weather::Rain => {
                let particle = self.particle_at(index, seconds, pose, [-0.22, 1.9]);
                let length = unit * (10.0 + 22.0 * particle.near);
                let half_width = unit * (0.45 + 0.5 * particle.near);
                draw_streak(frame, at(&particle), [0.11 * length, -length], half_width, 0.10 + 0.20 * particle.near);
            }
            Weather::Snow => {
                let mut particle = self.particle_at(index, seconds, pose, [-0.03, 0.17]);
                particle.at[0] += sway(0.9 + particle.random_offset, 0.012, particle.random_offset);
                let radius = unit * (0.9 + 3.0 * particle.near * particle.near);
                draw_disc(frame, at(&particle), radius, 1.0, [0.97, 0.98, 1.0], 0.45 + 0.4 * particle.near);
            }
            Weather::Dust => {
                let mut particle = self.particle_at(index, seconds, pose, [0.018, -0.012]);
                particle.at[1] += sway(0.5 + particle.random_offset, 0.015, particle.random_offset);
                let radius = unit * (0.7 + 2.8 * particle.near * particle.random_offset);
                let light = 0.20 + 0.28 * (0.5 + sway(1.1, 0.5, particle.random_offset));
                draw_disc(frame, at(&particle), radius, 1.6, [1.0, 0.93, 0.78], light);
            }
            Weather::Fireflies => {
                let mut particle = self.particle_at(index, seconds, pose, [0.0, 0.0]);
                particle.at[0] += sway(0.45 + 0.4 * particle.random_offset, 0.05, particle.random_offset);
                particle.at[1] = 0.25 + 0.75 * particle.at[1] + sway(0.7, 0.03, particle.random_offset * 3.0);
                let light = ramp(sway(1.6 + particle.random_offset, 1.0, particle.random_offset * 7.0), -0.4, 0.9);
                draw_disc(
                    frame,
                    at(&particle),
                    unit * (5.0 + 5.0 * particle.near),
                    1.0,
                    [0.95, 0.9, 0.35],
                    0.35 * light,
                );
                draw_disc(frame, at(&particle), unit * (1.2 + particle.near), 0.5, [1.0, 1.0, 0.8], light);
            }
            Weather::Petals => {
                let mut particle = self.particle_at(index, seconds, pose, [0.06, 0.10]);
                particle.at[0] += sway(1.3 + particle.random_offset, 0.03, particle.random_offset);
                let turned = sway(2.0 + 2.0 * particle.random_offset, 1.0, particle.random_offset).abs();
                let colour = [1.0, 0.72 + 0.16 * particle.random_offset, 0.78];
                let radius = unit * (1.6 + 3.2 * particle.near);
                draw_oval(frame, at(&particle), [radius, radius * (0.35 + 0.65 * turned)], colour, 0.85);
            }
            Weather::Fog => {}
        }
    }

    /// Draws two cloud layers of different speed, denser over far areas.
    fn draw_fog(&self, seconds: f32, pose: &Pose, depth: Option<&Depth>, frame: &mut Raster) {
        let Some([coarse, fine]) = &self.clouds else { return };
        let size = frame.size();
        let half = size.height as f32 * 0.5;

        for y in 0..size.height {
            let v = (y as f32 + 0.5 - half) / half;
            for x in 0..size.width {
                let u = (x as f32 + 0.5) / half - size.aspect();

                let distance = depth.map_or(0.5, |depth| 1.0 - depth.at(pose.source([u, v], 0.5)));

                let [a, b] = [(coarse, 0.05, 0.35), (fine, 0.11, 0.8)].map(|(cloud, speed, scale)| {
                    let across = (u + pose.shift[0] + pose.drift[0]) * scale + seconds * speed;
                    sample_mirrored(cloud, across, v * scale)
                });

                let low = 0.55 + 0.25 * v;
                let dense = (low * (0.25 + 0.9 * distance) * (0.35 + 0.5 * a + 0.3 * b)).clamp(0.0, 0.85);
                frame.blend_pixel(x, y, [0.86, 0.88, 0.90], dense);
            }
        }
    }
}

/// Returns smooth noise from 0 to 1.
fn clouds(seed: u32, grain: usize) -> Plane {
    let side = 96;
    let mut noise = texture(Region { left: 0, top: 0, width: side, height: side }, grain, seed);
    noise.values_mut().iter_mut().for_each(|value| *value = (0.5 + 0.28 * *value).clamp(0.0, 1.0));
    noise
}

/// Samples a plane that is repeated without end, mirrored every other time. One unit is half of the plane.
fn sample_mirrored(plane: &Plane, across: f32, down: f32) -> f32 {
    let mirrored = |at: f32| {
        let turned = (at + 1.0).rem_euclid(4.0);
        if turned > 2.0 { 3.0 - turned } else { turned - 1.0 }
    };
    look_up(plane, 1.0, [mirrored(across), mirrored(down)])
}

/// Returns the columns or rows between two positions, clamped to the frame.
fn span(from: f32, to: f32, length: usize) -> std::ops::Range<usize> {
    let last = length as f32;
    (from.floor().clamp(0.0, last) as usize)..(to.ceil().clamp(0.0, last) as usize)
}

/// Draws a soft disc; `edge` is the exponent of its falloff.
fn draw_disc(frame: &mut Raster, [x, y]: [f32; 2], radius: f32, edge: f32, colour: [f32; 3], opacity: f32) {
    let size = frame.size();
    for row in span(y - radius - 1.0, y + radius + 1.0, size.height) {
        for column in span(x - radius - 1.0, x + radius + 1.0, size.width) {
            let [dx, dy] = [column as f32 + 0.5 - x, row as f32 + 0.5 - y];
            let distance = (dx.powi(2) + dy.powi(2)).sqrt() / radius.max(0.8);
            let coverage = (1.0 - distance).max(0.0).powf(edge);
            if coverage > 0.0 {
                frame.blend_pixel(column, row, colour, opacity * coverage);
            }
        }
    }
}

/// Draws an ellipse with soft borders and the radii `half_width` and `half_height`.
fn draw_oval(
    frame: &mut Raster,
    [x, y]: [f32; 2],
    [half_width, half_height]: [f32; 2],
    colour: [f32; 3],
    opacity: f32,
) {
    let size = frame.size();
    for row in span(y - half_height - 1.0, y + half_height + 1.0, size.height) {
        for column in span(x - half_width - 1.0, x + half_width + 1.0, size.width) {
            let [dx, dy] = [column as f32 + 0.5 - x, row as f32 + 0.5 - y];
            let distance_squared = (dx / half_width.max(0.6)).powi(2) + (dy / half_height.max(0.6)).powi(2);
            let coverage = ((1.0 - distance_squared) * 1.5).clamp(0.0, 1.0);
            if coverage > 0.0 {
                frame.blend_pixel(column, row, colour, opacity * coverage);
            }
        }
    }
}

/// Draws a thin line with soft ends.
fn draw_streak(frame: &mut Raster, [x, y]: [f32; 2], [across, down]: [f32; 2], half_width: f32, opacity: f32) {
    let size = frame.size();

    for row in span(y + down, y, size.height) {
        let share = (row as f32 + 0.5 - y) / down;
        if !(0.0..=1.0).contains(&share) {
            continue;
        }

        let middle = x + share * across;
        let fade = (4.0 * share * (1.0 - share)).sqrt();

        for column in span(middle - half_width - 1.0, middle + half_width + 1.0, size.width) {
            let coverage = (half_width + 0.5 - (column as f32 + 0.5 - middle).abs()).clamp(0.0, 1.0);
            frame.blend_pixel(column, row, [0.85, 0.89, 0.95], opacity * coverage * fade);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::raster::Size;

    const SIZE: Size = Size { width: 64, height: 36 };

    fn draw_weather(kind: Weather, seconds: f32) -> Raster {
        let mut frame = Raster::from_fn(SIZE, |_, _| [0.2, 0.2, 0.25, 1.0]);
        WeatherLayer::new(kind, 1.0, 5).draw(seconds, &Pose::OWN, None, &mut frame);
        frame
    }

    #[test]
    fn all_weather_is_visible_and_moves() {
        for kind in [Weather::Rain, Weather::Snow, Weather::Dust, Weather::Fireflies, Weather::Fog, Weather::Petals] {
            let clear = Raster::from_fn(SIZE, |_, _| [0.2, 0.2, 0.25, 1.0]);
            let earlier = draw_weather(kind, 0.5);
            let later = draw_weather(kind, 1.0);
            assert!(earlier != clear && earlier != later, "{kind:?}");
            assert_eq!(earlier, draw_weather(kind, 0.5), "{kind:?} depends on the time alone");
            assert!(earlier.pixels().iter().flatten().all(|value| (0.0..=1.0).contains(value)), "{kind:?}");
        }
    }

    #[test]
    fn strength_scales_the_density() {
        let lit = |strength| {
            let mut frame = Raster::new(SIZE);
            WeatherLayer::new(Weather::Snow, strength, 5).draw(0.0, &Pose::OWN, None, &mut frame);
            frame.pixels().iter().map(|pixel| pixel[0]).sum::<f32>()
        };
        assert!(lit(0.3) < 0.6 * lit(1.0));
    }
}
