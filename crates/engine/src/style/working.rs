//! Reduced copy of the picture for filters.
//!
//! Styles depend on the scale of the whole picture and not on its pixels. Filters therefore run on a copy of at most
//! two million pixels, and their smooth results are drawn at full size.

use image::{RgbImage, RgbaImage};
use rayon::prelude::*;

use super::bands::smooth;
use super::oklab::{self, Lab};
use crate::picture::Pixels;
use crate::plane::Plane;

/// Maximum number of pixels of the copy.
const PIXELS_MAX: usize = 1 << 21;
/// Side of a square picture whose unit is one pixel.
const UNIT_SIDE: f32 = 700.0;

/// Planes of equal size: lightness, green to red, blue to yellow.
#[derive(Debug, Clone)]
pub struct Colours {
    pub l: Plane,
    pub a: Plane,
    pub b: Plane,
}

impl Colours {
    /// Creates black planes.
    pub fn new(width: usize, height: usize) -> Self {
        let plane = Plane::new(width, height);
        Self { l: plane.clone(), a: plane.clone(), b: plane }
    }

    /// Returns the colour at a row-major index.
    pub fn at(&self, index: usize) -> Lab {
        [self.l.values()[index], self.a.values()[index], self.b.values()[index]]
    }

    /// Returns bands of `rows` rows for parallel iteration.
    pub fn par_bands_mut(&mut self, rows: usize) -> impl IndexedParallelIterator<Item = [&mut [f32]; 3]> {
        let samples = self.l.width() * rows;
        let [l, a, b] = [&mut self.l, &mut self.a, &mut self.b].map(|plane| plane.values_mut().par_chunks_mut(samples));
        l.zip(a).zip(b).map(|((l, a), b)| [l, a, b])
    }

    /// Returns the planes that a filter produces from each plane.
    pub fn map(&self, filter: impl Fn(&Plane) -> Plane) -> Self {
        Self { l: filter(&self.l), a: filter(&self.a), b: filter(&self.b) }
    }

    /// Moves every sample by `share` towards `other`.
    pub fn mix(&mut self, other: &Self, share: f32) {
        for (plane, other) in [(&mut self.l, &other.l), (&mut self.a, &other.a), (&mut self.b, &other.b)] {
            plane.combine(other, |value, other| value + share * (other - value));
        }
    }
}

/// Picture reduced by an integer factor, averaged in linear light.
#[derive(Debug)]
pub struct WorkingPicture {
    pub colours: Colours,
    /// Alpha, or `None` if the picture is opaque.
    pub alpha: Option<Plane>,
    /// Side in original pixels of one reduced pixel.
    pub factor: usize,
    /// Unit of length in reduced pixels, proportional to the size of the picture.
    pub unit: f32,
}

impl WorkingPicture {
    /// Reduces a picture by the smallest possible factor.
    pub fn from_pixels(pixels: &Pixels) -> Self {
        let mut working = match pixels {
            Pixels::Opaque(pixels) => reduce_opaque(pixels),
            Pixels::Transparent(pixels) => reduce_transparent(pixels),
        };

        let Colours { l, .. } = &working.colours;
        // Limits the unit of narrow strips, whose filter windows would otherwise be many times as large as the strip.
        let narrow = 3.0 * l.width().min(l.height()) as f32;
        working.unit = (l.values().len() as f32).sqrt().min(narrow) / UNIT_SIDE;

        working
    }

    /// Returns a length in units as a radius in pixels, at least one.
    pub fn radius(&self, units: f32) -> usize {
        ((units * self.unit + 0.5) as usize).max(1)
    }

    /// Returns about `count` evenly spread colours of visible pixels.
    pub fn sample(&self, count: usize) -> Vec<Lab> {
        let total = self.colours.l.values().len();
        let is_visible = |index: &usize| self.alpha.as_ref().is_none_or(|alpha| alpha.values()[*index] > 0.5);

        let step = (total / count).max(1);
        // A step that is not a divisor of the width visits all columns.
        let step = if step > 1 && self.colours.l.width().is_multiple_of(step) { step + 1 } else { step };
        (0..total).step_by(step).filter(is_visible).map(|index| self.colours.at(index)).collect()
    }
}

/// Returns the smallest reduction factor with which the copy has at most [`PIXELS_MAX`] pixels.
fn factor_for(width: usize, height: usize) -> usize {
    let is_small_enough = |factor: &usize| width.div_ceil(*factor) * height.div_ceil(*factor) <= PIXELS_MAX;
    (1..=width.max(height)).find(is_small_enough).unwrap_or(1)
}

/// Reduces a picture. The caller sets the unit.
fn reduce_opaque(pixels: &RgbImage) -> WorkingPicture {
    let width = pixels.width() as usize;
    let height = pixels.height() as usize;
    let factor = factor_for(width, height);
    let light = oklab::light_of_bytes();
    let mut colours = Colours::new(width.div_ceil(factor), height.div_ceil(factor));

    let source = pixels.par_chunks(3 * width * factor);
    colours.par_bands_mut(1).zip(source).for_each(|([l, a, b], rows)| {
        let rows: Vec<_> = rows.chunks_exact(3 * width).map(|row| row.as_chunks::<3>().0).collect();
        for x in 0..l.len() {
            let columns = x * factor..((x + 1) * factor).min(width);

            let mut sum = [0.0; 3];
            for pixel in rows.iter().flat_map(|row| &row[columns.clone()]) {
                sum = std::array::from_fn(|at| sum[at] + light[usize::from(pixel[at])]);
            }

            let scale = 1.0 / (rows.len() * columns.len()) as f32;
            [l[x], a[x], b[x]] = oklab::from_linear(sum.map(|part| part * scale));
        }
    });

    WorkingPicture { colours, alpha: None, factor, unit: 1.0 }
}

/// Reduces a picture with colours weighted by alpha; hidden pixels take the mean colour of their neighbours. The caller
/// sets the unit.
fn reduce_transparent(pixels: &RgbaImage) -> WorkingPicture {
    let width = pixels.width() as usize;
    let height = pixels.height() as usize;
    let factor = factor_for(width, height);
    let light = oklab::light_of_bytes();
    let mut colours = Colours::new(width.div_ceil(factor), height.div_ceil(factor));
    let mut alpha = colours.l.clone();

    let source = pixels.par_chunks(4 * width * factor);
    let alpha_rows = alpha.values_mut().par_chunks_mut(width.div_ceil(factor));
    colours.par_bands_mut(1).zip(alpha_rows).zip(source).for_each(|(([l, a, b], alpha), rows)| {
        let rows: Vec<_> = rows.chunks_exact(4 * width).map(|row| row.as_chunks::<4>().0).collect();
        for x in 0..l.len() {
            let columns = x * factor..((x + 1) * factor).min(width);

            // Red, green and blue weighted by opacity, and the sum of the opacities.
            let mut sum = [0.0; 4];
            for [red, green, blue, alpha] in rows.iter().flat_map(|row| &row[columns.clone()]) {
                let opacity = f32::from(*alpha) / 255.0;
                let part = [red, green, blue].map(|part| opacity * light[usize::from(*part)]);
                sum = [sum[0] + part[0], sum[1] + part[1], sum[2] + part[2], sum[3] + opacity];
            }

            let scale = 1.0 / sum[3].max(1e-6);
            [l[x], a[x], b[x]] = oklab::from_linear([sum[0] * scale, sum[1] * scale, sum[2] * scale]);
            alpha[x] = sum[3] / (rows.len() * columns.len()) as f32;
        }
    });

    let colours = colours.map(|plane| fill_hidden(plane, &alpha));
    WorkingPicture { colours, alpha: Some(alpha), factor, unit: 1.0 }
}

/// Radius in pixels within which hidden pixels take the mean colour of visible ones.
const FILL_RADIUS: usize = 4;

/// Returns the plane with transparent samples filled by the mean of the visible ones around them.
fn fill_hidden(plane: &Plane, alpha: &Plane) -> Plane {
    let mut visible = plane.clone();
    visible.combine(alpha, |value, alpha| value * alpha);
    let around = smooth(&visible, FILL_RADIUS);
    let weight = smooth(alpha, FILL_RADIUS);
    for (((value, own), around), weight) in
        visible.values_mut().iter_mut().zip(alpha.values()).zip(around.values()).zip(weight.values())
    {
        *value += (1.0 - own) * around / weight.max(1e-4);
    }
    visible
}

#[cfg(test)]
mod tests {
    use image::{Rgb, Rgba};

    use super::*;

    #[test]
    fn small_pictures_keep_their_size_and_large_ones_are_reduced() {
        assert_eq!(
            [(1, 1), (1448, 1448), (1449, 1449), (100_000_000, 1)].map(|(w, h)| factor_for(w, h)),
            [1, 1, 2, 48]
        );
    }

    #[test]
    fn light_is_averaged_not_bytes() {
        let pixels = RgbImage::from_fn(3000, 1500, |x, _| if x % 2 == 0 { Rgb([0; 3]) } else { Rgb([255; 3]) });
        let working = WorkingPicture::from_pixels(&Pixels::Opaque(pixels));
        assert_eq!((working.factor, working.colours.l.width()), (2, 1500));
        assert!((working.colours.l.row(700)[700].powi(3) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn hidden_colours_are_ignored() {
        let pixels = RgbaImage::from_fn(32, 8, |x, _| if x < 16 { Rgba([90; 4]) } else { Rgba([255, 0, 0, 0]) });
        let working = WorkingPicture::from_pixels(&Pixels::Transparent(pixels));
        let [visible, hidden] = [10, 17].map(|x| working.colours.l.row(4)[x]);
        assert!((visible - hidden).abs() < 0.02, "lightness {visible} beside {hidden}");
        assert!(working.sample(1000).iter().all(|[_, a, _]| a.abs() < 1e-3) || working.sample(1000).is_empty());
    }
}
