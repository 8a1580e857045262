//! Generated pictures for tests.

use image::{Rgb, RgbImage};

use crate::noise;
use crate::picture::Pixels;
use crate::plane::Region;

/// Returns a square picture that resembles a photograph, with `side` pixels on each side: a sky gradient, discs in
/// several colours, stripes that become finer, and rough ground.
pub fn photo(side: u32) -> Pixels {
    let ground = noise::texture(Region { left: 0, top: 0, width: side as usize, height: side as usize }, 1, 3);
    let scale = side as f32;
    Pixels::Opaque(RgbImage::from_fn(side, side, |x, y| {
        let u = x as f32 / scale;
        let v = y as f32 / scale;

        let mut colour = [0.45 + 0.3 * v, 0.6 + 0.2 * v, 0.9 - 0.1 * v];

        for (left, top, radius, disc_colour) in [
            (0.3, 0.35, 0.2, [0.8, 0.55, 0.42]),
            (0.68, 0.3, 0.15, [0.2, 0.5, 0.15]),
            (0.5, 0.55, 0.12, [0.9, 0.85, 0.2]),
        ] {
            let distance = ((u - left).powi(2) + (v - top).powi(2)).sqrt();
            let cover = ((radius - distance) * scale / 2.0 + 0.5).clamp(0.0, 1.0);
            let shade = 1.0 - 0.5 * distance / radius;
            colour = std::array::from_fn(|at| colour[at] + cover * (disc_colour[at] * shade - colour[at]));
        }

        if v > 0.7 {
            let rough = 0.1 * ground.row(y as usize)[x as usize];
            let stripes = 0.1 * (u * u * 60.0).sin();
            colour = [0.35, 0.4, 0.25].map(|channel| channel + rough + stripes);
        }

        Rgb(colour.map(|channel: f32| (channel.clamp(0.0, 1.0) * 255.0) as u8))
    }))
}

/// Returns a picture of flat areas with hard edges.
pub fn drawing(side: u32) -> Pixels {
    Pixels::Opaque(RgbImage::from_fn(side, side, |x, y| {
        let u = x * 100 / side;
        let v = y * 100 / side;
        match (u, v) {
            (10..40, 10..45) => Rgb([220, 30, 40]),
            (55..90, 20..80) if (u + v) % 40 < 20 => Rgb([20, 20, 20]),
            _ => Rgb([250, 250, 245]),
        }
    }))
}

/// Returns a flat grey picture with strong noise.
pub fn noisy(side: u32) -> Pixels {
    let noise = noise::white(Region { left: 0, top: 0, width: side as usize, height: side as usize }, 5);
    Pixels::Opaque(RgbImage::from_fn(side, side, |x, y| {
        Rgb([(128.0 + 14.0 * noise.row(y as usize)[x as usize]).clamp(0.0, 255.0) as u8; 3])
    }))
}
