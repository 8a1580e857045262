//! Colour planes of a picture: luma, two colour differences and alpha (BT.601 on sRGB values, as in JPEG).
//!
//! Enlarging works on sRGB values and not on linear light. In linear light the ringing of a sharp kernel would show as
//! dark rims beside bright edges, because equal steps of light are larger steps of brightness in the dark. sRGB values
//! are close to perception, and the parameters and the usual quality metrics are based on them. Linear light is right
//! for reducing pictures.
//!
//! Transparent pixels often hide a meaningless colour. Before filters run, pixels that are far more transparent than
//! their neighbours therefore take the mean colour of these, weighted by alpha. After that, colour and alpha are
//! independent.

use image::{RgbImage, RgbaImage};
use multiversion::multiversion;
use rayon::prelude::*;

use crate::filters::smooth;
use crate::picture::Pixels;
use crate::plane::Plane;

/// Planes of equal size. Luma and alpha range from 0 to 1, colour differences from -0.5 to 0.5.
#[derive(Debug, Clone)]
pub struct Planes {
    pub luma: Plane,
    /// Blue minus luma, scaled.
    pub blue: Plane,
    /// Red minus luma, scaled.
    pub red: Plane,
    /// Alpha, or `None` if the picture is opaque.
    pub alpha: Option<Plane>,
}

impl Planes {
    /// Creates black planes.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        let plane = Plane::new(width, height);
        Self { luma: plane.clone(), blue: plane.clone(), red: plane, alpha: None }
    }

    /// Splits a picture into planes.
    #[must_use]
    pub fn from_pixels(pixels: &Pixels) -> Self {
        match pixels {
            Pixels::Opaque(pixels) => Self::from_opaque(pixels),
            Pixels::Transparent(pixels) => Self::from_transparent(pixels),
        }
    }

    fn from_opaque(pixels: &RgbImage) -> Self {
        let width = pixels.width() as usize;
        let [luma, blue, red] = [0; 3].map(|_| Plane::unwritten(width, pixels.height() as usize));
        let mut planes = Self { luma, blue, red, alpha: None };
        planes.par_rows_mut().zip(pixels.par_chunks_exact(3 * width)).for_each(|([luma, blue, red], row)| {
            split_row(row.as_chunks::<3>().0, [luma, blue, red]);
        });
        planes
    }

    fn from_transparent(pixels: &RgbaImage) -> Self {
        let width = pixels.width() as usize;
        let height = pixels.height() as usize;
        let channel = |at: usize| {
            let mut values = pixels.as_chunks::<4>().0.iter().map(|pixel| to_unit(pixel[at]));
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

    /// Returns the rows of luma, blue and red together.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = [&mut [f32]; 3]> {
        let rows = self.luma.rows_mut().zip(self.blue.rows_mut()).zip(self.red.rows_mut());
        rows.map(|((luma, blue), red)| [luma, blue, red])
    }

    /// Parallel version of [`Planes::rows_mut`].
    pub fn par_rows_mut(&mut self) -> impl IndexedParallelIterator<Item = [&mut [f32]; 3]> {
        self.par_bands_mut(1)
    }

    /// Returns bands of `height` rows for parallel iteration.
    pub fn par_bands_mut(&mut self, height: usize) -> impl IndexedParallelIterator<Item = [&mut [f32]; 3]> {
        let samples = self.luma.width() * height;
        let luma = self.luma.values_mut().par_chunks_mut(samples);
        let blue = self.blue.values_mut().par_chunks_mut(samples);
        let red = self.red.values_mut().par_chunks_mut(samples);
        luma.zip(blue).zip(red).map(|((luma, blue), red)| [luma, blue, red])
    }
}

/// Radius in pixels of the neighbourhood whose mean colour hidden pixels take.
const FILL_RADIUS: usize = 3;

/// Gives pixels that are more transparent than their neighbours the mean colour of these.
fn fill_hidden(mut colour: Plane, alpha: &Plane) -> Plane {
    let mut visible = colour.clone();
    visible.combine(alpha, |colour, alpha| colour * alpha);
    let visible = smooth(&visible, FILL_RADIUS);
    let around = smooth(alpha, FILL_RADIUS);
    let samples = colour.values_mut().iter_mut().zip(alpha.values()).zip(visible.values()).zip(around.values());
    for (((colour, alpha), visible), around) in samples {
        if *around > 1e-4 {
            let opacity_share = (alpha / around).min(1.0);
            *colour = opacity_share * *colour + (1.0 - opacity_share) * (visible / around).clamp(0.0, 1.0);
        }
    }
    colour
}

fn to_unit(value: u8) -> f32 {
    f32::from(value) * (1.0 / 255.0)
}

/// Converts red, green and blue to luma and two differences.
#[must_use]
pub fn split([red, green, blue]: [f32; 3]) -> [f32; 3] {
    let luma = 0.299 * red + 0.587 * green + 0.114 * blue;
    [luma, (blue - luma) * (1.0 / 1.772), (red - luma) * (1.0 / 1.402)]
}

/// Returns the nearest byte. Adding 2^23 moves the integer part into the lowest bits, which is faster than a conversion
/// and can be vectorized.
fn to_byte(value: f32) -> u32 {
    const WHOLE: f32 = 8_388_608.0;
    ((255.0 * value).clamp(0.0, 255.0) + WHOLE).to_bits() & 0xFF
}

/// Pixels converted at a time.
const BLOCK: usize = 64;

/// Converts a row of pixels, whose first three samples are colours, to luma, blue and red.
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
            [*luma, *to_blue, *to_red] = split([*red, *green, *blue].map(to_unit));
        }
    }
}

/// Converts a row of luma, blue and red to colours, the first three samples of each pixel.
#[multiversion(targets("x86_64+avx2"))]
pub fn join_row<const N: usize>([lumas, blues, reds]: [&[f32]; 3], pixels: &mut [[u8; N]]) {
    let sources = lumas.chunks(BLOCK).zip(blues.chunks(BLOCK)).zip(reds.chunks(BLOCK));
    for (pixels, ((lumas, blues), reds)) in pixels.chunks_mut(BLOCK).zip(sources) {
        let mut packed = [0_u32; BLOCK];
        for (packed, ((luma, blue), red)) in packed.iter_mut().zip(lumas.iter().zip(blues).zip(reds)) {
            let [red, green, blue] = to_rgb([*luma, *blue, *red]).map(to_byte);
            *packed = red | (green << 8) | (blue << 16);
        }

        for (pixel, packed) in pixels.iter_mut().zip(packed) {
            pixel[..3].copy_from_slice(&packed.to_le_bytes()[..3]);
        }
    }
}

/// Converts luma and two differences to red, green and blue.
#[must_use]
pub fn to_rgb([luma, blue, red]: [f32; 3]) -> [f32; 3] {
    [luma + 1.402 * red, luma - (0.299 * 1.402 / 0.587) * red - (0.114 * 1.772 / 0.587) * blue, luma + 1.772 * blue]
}

#[cfg(test)]
mod tests {
    use image::{Rgb, Rgba};

    use super::*;

    #[test]
    fn colours_round_trip() {
        for colour in [[0, 0, 0], [255, 255, 255], [255, 0, 0], [1, 128, 254], [17, 230, 3]] {
            let [luma, blue, red] = split(colour.map(to_unit));
            let mut pixel = [[0; 3]];
            join_row([&[luma], &[blue], &[red]], &mut pixel);
            assert_eq!(pixel, [colour]);
        }
        let planes = Planes::from_pixels(&Pixels::Opaque(RgbImage::from_pixel(2, 2, Rgb([255, 0, 0]))));
        assert!((planes.luma.row(1)[1] - 0.299).abs() < 1e-6 && (planes.red.row(0)[0] - 0.5).abs() < 1e-6);
    }

    #[test]
    fn hidden_colours_are_replaced_by_those_beside_them() {
        let pixels =
            RgbaImage::from_fn(16, 4, |x, _| if x < 8 { Rgba([0, 255, 0, 255]) } else { Rgba([255, 0, 0, 0]) });
        let planes = Planes::from_pixels(&Pixels::Transparent(pixels));
        let [luma, _, _] = split([0.0, 1.0, 0.0]);
        assert!((planes.luma.row(2)[9] - luma).abs() < 0.01);
        assert_eq!(planes.alpha.unwrap().row(0)[9].to_bits(), 0.0_f32.to_bits());
    }

    #[test]
    fn even_transparency_leaves_colours_alone() {
        let pixels = RgbaImage::from_fn(8, 8, |x, y| Rgba([(x * 30) as u8, (y * 30) as u8, 9, 100]));
        let transparent = Planes::from_pixels(&Pixels::Transparent(pixels.clone()));
        let opaque = Planes::from_pixels(&Pixels::Opaque(RgbImage::from_fn(8, 8, |x, y| {
            Rgb([(x * 30) as u8, (y * 30) as u8, 9])
        })));
        for (a, b) in transparent.luma.values().iter().zip(opaque.luma.values()) {
            assert!((a - b).abs() < 1e-3);
        }
    }
}
