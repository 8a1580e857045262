//! Distortion of a picture: magnification around a centre, as for a caricature, and waves. The waves fade out towards
//! the border.

use image::{ImageBuffer, Pixel, Rgb, RgbImage, Rgba, RgbaImage};
use rayon::prelude::*;

use super::oklab;
use crate::picture::Pixels;

/// Distortion in pixels of the full size.
#[derive(Debug, Clone, Copy)]
pub struct Distortion {
    /// Centre of the magnification, across and down.
    pub centre: [f32; 2],
    /// Radius of the magnification.
    pub radius: f32,
    /// Amount of magnification at the centre; 0.4 magnifies 1.67 times across and 1.47 times down.
    pub bulge: f32,
    /// Height of the waves in pixels.
    pub waves: f32,
    /// Phase of the waves in turns.
    pub phase: f32,
}

/// Number of waves along the longer side.
const WAVE_COUNT: f32 = 4.5;

impl Distortion {
    /// Returns the position in the source that appears at a position in the result.
    fn source(&self, x: f32, y: f32, [width, height]: [f32; 2]) -> [f32; 2] {
        let right = x - self.centre[0];
        let down = y - self.centre[1];
        // The region is taller than wide, like a head.
        let distance = ((right * 1.15).powi(2) + (down * 0.9).powi(2)).sqrt() / self.radius;

        let mut point = [x, y];

        if distance < 1.0 {
            let strength = self.bulge * (1.0 - distance * distance).powi(2);
            // The part above the centre grows more and the part below narrows: a large brow and a small chin.
            let chin = (down / self.radius).clamp(-1.0, 1.0);
            let across = 1.0 - strength * (1.0 - 1.3 * chin);
            let vertical = 1.0 - strength * 0.8;
            point = [self.centre[0] + right * across, self.centre[1] + down * vertical];
        }

        if self.waves > 0.0 {
            let longer = width.max(height);
            let wave = |value: f32| (std::f32::consts::TAU * (WAVE_COUNT * value / longer + self.phase)).sin();
            // From 0 at the border to 1 at an eighth of the side.
            let edge = |value: f32, side: f32| (8.0 * value.min(side - value).max(0.0) / side).min(1.0);
            let amplitude = self.waves * edge(x, width) * edge(y, height);
            point = [point[0] + amplitude * wave(y + 0.3 * x), point[1] + amplitude * wave(x * 0.8 - 0.2 * y)];
        }

        point
    }
}

/// Returns the distorted picture. Pixels are interpolated in linear light, weighted by alpha.
pub fn distort(pixels: &Pixels, distortion: &Distortion) -> Pixels {
    match pixels {
        Pixels::Opaque(pixels) => Pixels::Opaque(warp(pixels, distortion, interpolate_opaque)),
        Pixels::Transparent(pixels) => Pixels::Transparent(warp(pixels, distortion, interpolate_transparent)),
    }
}

/// Draws every pixel of the result with `interpolate`, which samples the source at a position.
fn warp<P>(
    pixels: &ImageBuffer<P, Vec<u8>>,
    distortion: &Distortion,
    interpolate: impl Fn(&ImageBuffer<P, Vec<u8>>, f32, f32) -> P + Sync,
) -> ImageBuffer<P, Vec<u8>>
where
    P: Pixel<Subpixel = u8> + Sync,
{
    let (width, height) = pixels.dimensions();
    let channels = usize::from(P::CHANNEL_COUNT);
    let mut result = ImageBuffer::new(width, height);
    result.par_chunks_mut(channels * width as usize).enumerate().for_each(|(y, row)| {
        for (x, target) in row.chunks_exact_mut(channels).enumerate() {
            let [from_x, from_y] = distortion.source(x as f32, y as f32, [width as f32, height as f32]);
            target.copy_from_slice(interpolate(pixels, from_x, from_y).channels());
        }
    });
    result
}

/// Returns the column, row and weight of the four pixels around a position; the weights add up to 1.
fn corners(x: f32, y: f32, (width, height): (u32, u32)) -> [(u32, u32, f32); 4] {
    let x = x.clamp(0.0, (width - 1) as f32);
    let y = y.clamp(0.0, (height - 1) as f32);
    let left = x as u32;
    let top = y as u32;
    let right = (left + 1).min(width - 1);
    let bottom = (top + 1).min(height - 1);
    let across = x - left as f32;
    let down = y - top as f32;

    [
        (left, top, (1.0 - across) * (1.0 - down)),
        (right, top, across * (1.0 - down)),
        (left, bottom, (1.0 - across) * down),
        (right, bottom, across * down),
    ]
}

/// Returns the colour at a position, interpolated in linear light.
fn interpolate_opaque(pixels: &RgbImage, x: f32, y: f32) -> Rgb<u8> {
    let light = oklab::light_of_bytes();
    let mut sum = [0.0; 3];
    for (x, y, fraction) in corners(x, y, pixels.dimensions()) {
        let pixel = pixels.get_pixel(x, y).0;
        sum = std::array::from_fn(|at| sum[at] + fraction * light[usize::from(pixel[at])]);
    }
    Rgb(sum.map(|part| oklab::to_byte(part, 0.5)))
}

/// Returns the colour and alpha at a position, interpolated in linear light and weighted by alpha.
fn interpolate_transparent(pixels: &RgbaImage, x: f32, y: f32) -> Rgba<u8> {
    let light = oklab::light_of_bytes();
    let mut sum = [0.0; 3];
    let mut total_weight = 0.0;
    for (x, y, fraction) in corners(x, y, pixels.dimensions()) {
        let [red, green, blue, alpha] = pixels.get_pixel(x, y).0;
        let weight = fraction * f32::from(alpha);
        let part = [red, green, blue].map(|part| weight * light[usize::from(part)]);
        sum = std::array::from_fn(|at| sum[at] + part[at]);
        total_weight += weight;
    }
    let [red, green, blue] = sum.map(|part| oklab::to_byte(part / total_weight.max(1e-6), 0.5));
    Rgba([red, green, blue, (total_weight + 0.5) as u8])
}

#[cfg(test)]
mod tests {
    use super::*;

    const BULGE: Distortion = Distortion { centre: [32.0, 32.0], radius: 28.0, bulge: 0.4, waves: 0.0, phase: 0.0 };

    fn disc() -> Pixels {
        Pixels::Opaque(RgbImage::from_fn(64, 64, |x, y| {
            let in_disc = (x as f32 - 32.0).powi(2) + (y as f32 - 32.0).powi(2) < 100.0;
            if in_disc { Rgb([250, 200, 10]) } else { Rgb([10, 20, 60]) }
        }))
    }

    #[test]
    fn a_bulge_enlarges_the_inside_and_keeps_the_border() {
        let count = |pixels: &Pixels| {
            let Pixels::Opaque(pixels) = pixels else { panic!("the picture is opaque") };
            assert_eq!(pixels.get_pixel(0, 0).0, [10, 20, 60]);
            pixels.pixels().filter(|pixel| pixel.0[0] > 128).count()
        };
        let before = count(&disc());
        let after = count(&distort(&disc(), &BULGE));
        assert!(after > before * 3 / 2, "the disc has {after} pixels instead of {before}");
    }

    #[test]
    fn waves_displace_pixels_with_their_alpha() {
        let pixels = RgbaImage::from_fn(64, 64, |x, _| Rgba([90, 90, 90, if x < 32 { 255 } else { 0 }]));
        let waves = Distortion { bulge: 0.0, waves: 6.0, ..BULGE };
        let Pixels::Transparent(distorted) = distort(&Pixels::Transparent(pixels.clone()), &waves) else {
            panic!("the picture is transparent")
        };
        assert_ne!(distorted, pixels, "no pixel moved");
        assert!(distorted.pixels().all(|pixel| pixel.0[3] == 0 || pixel.0[0].abs_diff(90) <= 1));
    }
}
