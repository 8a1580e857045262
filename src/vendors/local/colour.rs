//! A picture as channels: luma, two colour differences, alpha (BT.601 on sRGB values, as in JPEG).
//!
//! The work is done on sRGB values, not on linear light. Averaging linear light is right for making pictures smaller;
//! making them larger, the ringing of a sharp kernel shows as dark rims beside bright edges, because equal steps of light
//! are larger steps of brightness in the dark. Eyes, the parameters and the usual measures of likeness all count in sRGB.
//!
//! Transparent pixels often hide a colour that was never meant to be seen. Before anything looks at neighbours, the colour
//! of a pixel that is far more transparent than its surroundings is taken from them, weighted by their alpha, so that
//! nothing hidden bleeds into what is seen; from there on colour and alpha are independent.

use image::{RgbImage, RgbaImage};
use multiversion::multiversion;
use rayon::prelude::*;

use super::filters::smooth;
use super::plane::Plane;
use crate::media::input::Pixels;

/// A picture as planes of one size. Luma and alpha from 0 to 1, colour differences from -0.5 to 0.5.
#[derive(Debug, Clone)]
pub struct Planes {
    pub luma: Plane,
    /// Blue minus luma, scaled.
    pub blue: Plane,
    /// Red minus luma, scaled.
    pub red: Plane,
    /// None when the picture is opaque.
    pub alpha: Option<Plane>,
}

impl Planes {
    /// Black planes.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        let plane = Plane::new(width, height);
        Self { luma: plane.clone(), blue: plane.clone(), red: plane, alpha: None }
    }

    /// Takes a picture apart.
    #[must_use]
    pub fn of(pixels: &Pixels) -> Self {
        match pixels {
            Pixels::Opaque(pixels) => Self::of_opaque(pixels),
            Pixels::Transparent(pixels) => Self::of_transparent(pixels),
        }
    }

    fn of_opaque(pixels: &RgbImage) -> Self {
        let width = pixels.width() as usize;
        let [luma, blue, red] = [0; 3].map(|_| Plane::unwritten(width, pixels.height() as usize));
        let mut planes = Self { luma, blue, red, alpha: None };
        planes.par_rows_mut().zip(pixels.par_chunks_exact(3 * width)).for_each(|([luma, blue, red], row)| {
            split_row(row.as_chunks::<3>().0, [luma, blue, red]);
        });
        planes
    }

    fn of_transparent(pixels: &RgbaImage) -> Self {
        let (width, height) = (pixels.width() as usize, pixels.height() as usize);
        let channel = |at: usize| {
            let mut values = pixels.as_chunks::<4>().0.iter().map(|pixel| unit(pixel[at]));
            Plane::from_fn(width, height, |_, _| values.next().unwrap_or_default())
        };
        let alpha = channel(3);
        let [red, green, blue] = [0, 1, 2].map(|at| fill_hidden(channel(at), &alpha));
        let mut planes = Self::new(width, height);
        for (y, [luma, to_blue, to_red]) in planes.rows_mut().enumerate() {
            for x in 0..width {
                [luma[x], to_blue[x], to_red[x]] = split([red.row(y)[x], green.row(y)[x], blue.row(y)[x]]);
            }
        }
        planes.alpha = Some(alpha);
        planes
    }

    /// The rows of luma, blue and red together, to be changed.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = [&mut [f32]; 3]> {
        let rows = self.luma.rows_mut().zip(self.blue.rows_mut()).zip(self.red.rows_mut());
        rows.map(|((luma, blue), red)| [luma, blue, red])
    }

    /// As [`Planes::rows_mut`], in parallel.
    pub fn par_rows_mut(&mut self) -> impl IndexedParallelIterator<Item = [&mut [f32]; 3]> {
        self.par_bands_mut(1)
    }

    /// The planes in bands of `height` rows, in parallel.
    pub fn par_bands_mut(&mut self, height: usize) -> impl IndexedParallelIterator<Item = [&mut [f32]; 3]> {
        let samples = self.luma.width() * height;
        let luma = self.luma.values_mut().par_chunks_mut(samples);
        let (blue, red) =
            (self.blue.values_mut().par_chunks_mut(samples), self.red.values_mut().par_chunks_mut(samples));
        luma.zip(blue).zip(red).map(|((luma, blue), red)| [luma, blue, red])
    }
}

/// How far hidden pixels look for a colour, in pixels.
const FILL_RADIUS: usize = 3;

/// Gives pixels that are more transparent than their surroundings the colour of the surroundings.
fn fill_hidden(mut colour: Plane, alpha: &Plane) -> Plane {
    let mut seen = colour.clone();
    seen.combine(alpha, |colour, alpha| colour * alpha);
    let (seen, around) = (smooth(&seen, FILL_RADIUS), smooth(alpha, FILL_RADIUS));
    let places = colour.values_mut().iter_mut().zip(alpha.values()).zip(seen.values()).zip(around.values());
    for (((colour, alpha), seen), around) in places {
        if *around > 1e-4 {
            let own = (alpha / around).min(1.0);
            *colour = own * *colour + (1.0 - own) * (seen / around).clamp(0.0, 1.0);
        }
    }
    colour
}

fn unit(value: u8) -> f32 {
    f32::from(value) * (1.0 / 255.0)
}

/// Red, green, blue to luma and the two differences.
#[must_use]
pub fn split([red, green, blue]: [f32; 3]) -> [f32; 3] {
    let luma = 0.299 * red + 0.587 * green + 0.114 * blue;
    [luma, (blue - luma) * (1.0 / 1.772), (red - luma) * (1.0 / 1.402)]
}

/// The nearest byte. Added to two to the 23rd, a number has its whole part in its lowest bits: faster than a conversion, and
/// done for many at once.
fn byte_of(value: f32) -> u32 {
    const WHOLE: f32 = 8_388_608.0;
    ((255.0 * value).clamp(0.0, 255.0) + WHOLE).to_bits() & 0xFF
}

/// Pixels that are taken apart or put together at a time.
const BLOCK: usize = 64;

/// A row of pixels, of which the first three samples are colours, as luma, blue and red.
#[multiversion(targets("x86_64+avx2"))]
pub fn split_row<const N: usize>(pixels: &[[u8; N]], [lumas, blues, reds]: [&mut [f32]; 3]) {
    let targets = lumas.chunks_mut(BLOCK).zip(blues.chunks_mut(BLOCK)).zip(reds.chunks_mut(BLOCK));
    for (pixels, ((lumas, blues), reds)) in pixels.chunks(BLOCK).zip(targets) {
        let mut bytes = [[0_u8; BLOCK]; 3];
        for (at, pixel) in pixels.iter().enumerate() {
            (0..3).for_each(|channel| bytes[channel][at] = pixel[channel]);
        }
        let [red, green, blue] = &bytes;
        let colours = red.iter().zip(green).zip(blue);
        for (((luma, to_blue), to_red), ((red, green), blue)) in lumas.iter_mut().zip(blues).zip(reds).zip(colours) {
            [*luma, *to_blue, *to_red] = split([*red, *green, *blue].map(unit));
        }
    }
}

/// Writes a row of luma, blue and red as colours, the first three samples of each pixel.
#[multiversion(targets("x86_64+avx2"))]
pub fn join_row<const N: usize>([lumas, blues, reds]: [&[f32]; 3], pixels: &mut [[u8; N]]) {
    let sources = lumas.chunks(BLOCK).zip(blues.chunks(BLOCK)).zip(reds.chunks(BLOCK));
    for (pixels, ((lumas, blues), reds)) in pixels.chunks_mut(BLOCK).zip(sources) {
        let mut packed = [0_u32; BLOCK];
        for (packed, ((luma, blue), red)) in packed.iter_mut().zip(lumas.iter().zip(blues).zip(reds)) {
            let [red, green, blue] = joined([*luma, *blue, *red]).map(byte_of);
            *packed = red | (green << 8) | (blue << 16);
        }
        for (pixel, packed) in pixels.iter_mut().zip(packed) {
            pixel[..3].copy_from_slice(&packed.to_le_bytes()[..3]);
        }
    }
}

/// Luma and the two differences to red, green, blue.
#[must_use]
pub fn joined([luma, blue, red]: [f32; 3]) -> [f32; 3] {
    [luma + 1.402 * red, luma - (0.299 * 1.402 / 0.587) * red - (0.114 * 1.772 / 0.587) * blue, luma + 1.772 * blue]
}

#[cfg(test)]
mod tests {
    use image::{Rgb, Rgba};

    use super::*;

    #[test]
    fn colours_survive_the_way_there_and_back() {
        for colour in [[0, 0, 0], [255, 255, 255], [255, 0, 0], [1, 128, 254], [17, 230, 3]] {
            let [luma, blue, red] = split(colour.map(unit));
            let mut pixel = [[0; 3]];
            join_row([&[luma], &[blue], &[red]], &mut pixel);
            assert_eq!(pixel, [colour]);
        }
        let planes = Planes::of(&Pixels::Opaque(RgbImage::from_pixel(2, 2, Rgb([255, 0, 0]))));
        assert!((planes.luma.row(1)[1] - 0.299).abs() < 1e-6 && (planes.red.row(0)[0] - 0.5).abs() < 1e-6);
    }

    #[test]
    fn hidden_colours_are_replaced_by_those_beside_them() {
        let pixels =
            RgbaImage::from_fn(16, 4, |x, _| if x < 8 { Rgba([0, 255, 0, 255]) } else { Rgba([255, 0, 0, 0]) });
        let planes = Planes::of(&Pixels::Transparent(pixels));
        let [luma, _, _] = split([0.0, 1.0, 0.0]);
        assert!((planes.luma.row(2)[9] - luma).abs() < 0.01);
        assert_eq!(planes.alpha.unwrap().row(0)[9].to_bits(), 0.0_f32.to_bits());
    }

    #[test]
    fn even_transparency_leaves_colours_alone() {
        let pixels = RgbaImage::from_fn(8, 8, |x, y| Rgba([(x * 30) as u8, (y * 30) as u8, 9, 100]));
        let transparent = Planes::of(&Pixels::Transparent(pixels.clone()));
        let opaque =
            Planes::of(&Pixels::Opaque(RgbImage::from_fn(8, 8, |x, y| Rgb([(x * 30) as u8, (y * 30) as u8, 9]))));
        for (a, b) in transparent.luma.values().iter().zip(opaque.luma.values()) {
            assert!((a - b).abs() < 1e-3);
        }
    }
}
