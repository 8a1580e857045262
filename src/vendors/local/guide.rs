//! A picture as a whole: what is wide is worked out on a small copy and laid over the large one along its edges.

use rayon::prelude::*;

use super::colour::{Planes, split};
use super::filters::box_blur;
use super::light::{to_code, to_light};
use super::plane::{Plane, Region};
use crate::media::input::Pixels;

/// A small copy: the average light of square cells.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Light of red, green and blue, 0 to 1.
    pub light: [Plane; 3],
    /// Side of a cell in pixels.
    pub cell: usize,
}

impl Overview {
    /// Makes a picture small, to at most `side_max` samples a side. What is transparent hardly counts.
    #[must_use]
    pub fn of(pixels: &Pixels, side_max: usize) -> Self {
        match pixels {
            Pixels::Opaque(pixels) => Self::of_samples::<3>(pixels, pixels.width() as usize, side_max),
            Pixels::Transparent(pixels) => Self::of_samples::<4>(pixels, pixels.width() as usize, side_max),
        }
    }

    fn of_samples<const N: usize>(samples: &[u8], full_width: usize, side_max: usize) -> Self {
        let height = samples.len() / (N * full_width);
        let cell = full_width.max(height).div_ceil(side_max);
        let (width, height) = (full_width.div_ceil(cell), height.div_ceil(cell));
        let table: [f32; 256] = std::array::from_fn(|byte| to_light(byte as f32 / 255.0));
        let mut planes = Planes::new(width, height);
        let bands = samples.par_chunks(N * full_width * cell);
        planes.par_rows_mut().zip(bands).for_each(|([red, green, blue], band)| {
            let mut sums = vec![[0.0_f32; 4]; width];
            for row in band.chunks_exact(N * full_width) {
                for (x, pixel) in row.as_chunks::<N>().0.iter().enumerate() {
                    let weight = if N == 4 { f32::from(pixel[N - 1]) / 255.0 + 1e-3 } else { 1.0 };
                    let sum = &mut sums[x / cell];
                    (0..3).for_each(|at| sum[at] += weight * table[usize::from(pixel[at])]);
                    sum[3] += weight;
                }
            }
            for (x, sum) in sums.iter().enumerate() {
                [red[x], green[x], blue[x]] = [0, 1, 2].map(|at| sum[at] / sum[3]);
            }
        });
        Self { light: [planes.luma, planes.blue, planes.red], cell }
    }

    /// Samples in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.light[0].width()
    }

    /// Number of rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.light[0].height()
    }

    /// The light at every place, row after row.
    pub fn colours(&self) -> impl Iterator<Item = [f32; 3]> {
        let [red, green, blue] = &self.light;
        red.values().iter().zip(green.values()).zip(blue.values()).map(|((red, green), blue)| [*red, *green, *blue])
    }

    /// A plane of one value for each place, computed from its light.
    #[must_use]
    pub fn map(&self, of: impl Fn([f32; 3]) -> f32) -> Plane {
        let mut plane = Plane::new(self.width(), self.height());
        plane.values_mut().iter_mut().zip(self.colours()).for_each(|(value, colour)| *value = of(colour));
        plane
    }

    /// The copy as luma and colour differences.
    #[must_use]
    pub fn planes(&self) -> Planes {
        let mut planes = Planes::new(self.width(), self.height());
        let mut colours = self.colours();
        for [lumas, blues, reds] in planes.rows_mut() {
            for (((luma, blue), red), light) in lumas.iter_mut().zip(blues).zip(reds).zip(&mut colours) {
                [*luma, *blue, *red] = split(light.map(to_code));
            }
        }
        planes
    }

    /// The part of `plane`, which has the size of this copy, that lies over `region` of the picture.
    #[must_use]
    pub fn stretch(&self, plane: &Plane, region: Region) -> Plane {
        stretch(plane, [1.0 / self.cell as f32; 2], region)
    }
}

/// A part of an enlarged plane, by straight lines between its samples. `scale` is samples of `plane` per sample of the
/// result, across and down.
#[must_use]
pub fn stretch(plane: &Plane, scale: [f32; 2], region: Region) -> Plane {
    let between = |at: isize, scale: f32, length: usize| {
        let at = ((at as f32 + 0.5) * scale - 0.5).clamp(0.0, (length - 1) as f32);
        let first = at as usize;
        (first, (first + 1).min(length - 1), at - first as f32)
    };
    let places: Vec<_> = (region.left..).take(region.width).map(|x| between(x, scale[0], plane.width())).collect();
    Plane::from_rows(region.width, region.height, |y, row| {
        let (upper, lower, down) = between(region.top + y as isize, scale[1], plane.height());
        let (upper, lower) = (plane.row(upper), plane.row(lower));
        for (value, (left, right, across)) in row.iter_mut().zip(&places) {
            let above = upper[*left] + across * (upper[*right] - upper[*left]);
            let below = lower[*left] + across * (lower[*right] - lower[*left]);
            *value = above + down * (below - above);
        }
    })
}

/// A plane as straight lines of another, the guide, which hold around each place: the guided filter of He, Sun and Tang.
/// Worked out on a small copy, the lines give a plane whose edges are those of the large guide.
#[derive(Debug)]
pub struct Guided {
    slope: Plane,
    offset: Plane,
}

impl Guided {
    /// Finds the lines within `radius`. Where the guide varies less than `step`, the result is an average.
    #[must_use]
    pub fn fit(guide: &Plane, target: &Plane, radius: usize, step: f32) -> Self {
        let product = |one: &Plane, other: &Plane| {
            let mut both = one.clone();
            both.combine(other, |one, other| one * other);
            box_blur(&both, radius)
        };
        let (mean, mut offset) = (box_blur(guide, radius), box_blur(target, radius));
        let (squares, mut slope) = (product(guide, guide), product(guide, target));
        let places = slope.values_mut().iter_mut().zip(offset.values_mut()).zip(mean.values()).zip(squares.values());
        for (((slope, offset), mean), square) in places {
            let variance = (square - mean * mean).max(0.0);
            *slope = (*slope - mean * *offset) / (variance + step * step);
            *offset -= *slope * mean;
        }
        Self { slope: box_blur(&slope, radius), offset: box_blur(&offset, radius) }
    }

    /// The plane over a region of the large picture, whose guide there is `guide`.
    #[must_use]
    pub fn over(&self, overview: &Overview, region: Region, guide: &Plane) -> Plane {
        let mut result = overview.stretch(&self.slope, region);
        result.combine(guide, |slope, guide| slope * guide);
        result.combine(&overview.stretch(&self.offset, region), |product, offset| product + offset);
        result
    }

    /// The plane at the size of the copy.
    #[must_use]
    pub fn small(&self, guide: &Plane) -> Plane {
        let mut result = self.slope.clone();
        result.combine(guide, |slope, guide| slope * guide);
        result.combine(&self.offset, |product, offset| product + offset);
        result
    }
}
