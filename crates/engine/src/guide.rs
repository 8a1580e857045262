//! Small overview of a picture. Wide filters run on it, and their results are applied to the full picture along its
//! edges.

use std::borrow::Cow;
use std::sync::OnceLock;

use multiversion::multiversion;
use rayon::prelude::*;

use crate::colour::{Planes, split};
use crate::filters::box_blur;
use crate::light::{to_light, to_srgb};
use crate::picture::Pixels;
use crate::plane::{Plane, Region};
use crate::resample::reduce;

/// Small copy that holds the average light of square cells.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Linear light of red, green and blue, 0 to 1.
    pub light: [Plane; 3],
    /// Side of a cell in pixels.
    pub cell: usize,
    /// Luma and colour differences, computed on first use.
    planes: OnceLock<Planes>,
}

impl Overview {
    /// Reduces a picture to at most `side_max` samples in each direction. Transparent pixels have nearly no weight.
    #[must_use]
    pub fn from_pixels(pixels: &Pixels, side_max: usize) -> Self {
        match pixels {
            Pixels::Opaque(pixels) => Self::from_samples::<3>(pixels, pixels.width() as usize, side_max),
            Pixels::Transparent(pixels) => Self::from_samples::<4>(pixels, pixels.width() as usize, side_max),
        }
    }

    fn from_samples<const N: usize>(samples: &[u8], full_width: usize, side_max: usize) -> Self {
        let height = samples.len() / (N * full_width);
        let cell = full_width.max(height).div_ceil(side_max);
        let width = full_width.div_ceil(cell);
        let height = height.div_ceil(cell);

        let table: [f32; 256] = std::array::from_fn(|byte| to_light(byte as f32 / 255.0));
        // Used as three plain buffers here: `luma` holds red, `blue` holds green, and `red` holds blue.
        let mut planes = Planes::new(width, height);

        let bands = samples.par_chunks(N * full_width * cell);
        planes.par_rows_mut().zip(bands).for_each(|([red, green, blue], band)| {
            let mut sums = vec![[0.0_f32; 4]; width];
            for row in band.chunks_exact(N * full_width) {
                for (sum, pixels) in sums.iter_mut().zip(row.as_chunks::<N>().0.chunks(cell)) {
                    for pixel in pixels {
                        let weight = if N == 4 { f32::from(pixel[N - 1]) / 255.0 + 1e-3 } else { 1.0 };
                        (0..3).for_each(|at| sum[at] += weight * table[usize::from(pixel[at])]);
                        sum[3] += weight;
                    }
                }
            }

            for (x, sum) in sums.iter().enumerate() {
                [red[x], green[x], blue[x]] = [0, 1, 2].map(|at| sum[at] / sum[3]);
            }
        });

        Self { light: [planes.luma, planes.blue, planes.red], cell, planes: OnceLock::new() }
    }

    /// Returns the number of samples in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.light[0].width()
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.light[0].height()
    }

    /// Returns the light of all samples in row-major order.
    pub fn colours(&self) -> impl Iterator<Item = [f32; 3]> {
        let [red, green, blue] = &self.light;
        red.values().iter().zip(green.values()).zip(blue.values()).map(|((red, green), blue)| [*red, *green, *blue])
    }

    /// Returns a plane with a value for each sample, computed from its light.
    #[must_use]
    pub fn map(&self, value_of: impl Fn([f32; 3]) -> f32) -> Plane {
        let mut plane = Plane::new(self.width(), self.height());
        plane.values_mut().iter_mut().zip(self.colours()).for_each(|(value, colour)| *value = value_of(colour));
        plane
    }

    /// Returns the copy as luma and colour differences.
    #[must_use]
    pub fn planes(&self) -> &Planes {
        self.planes.get_or_init(|| {
            let mut planes = Planes::new(self.width(), self.height());
            let mut colours = self.colours();
            for [lumas, blues, reds] in planes.rows_mut() {
                for (((luma, blue), red), light) in lumas.iter_mut().zip(blues).zip(reds).zip(&mut colours) {
                    [*luma, *blue, *red] = split(light.map(to_srgb));
                }
            }
            planes
        })
    }

    /// Returns the enlarged part of `plane`, which has the size of this copy, over `region` of the picture.
    #[must_use]
    pub fn stretch(&self, plane: &Plane, region: Region) -> StretchedPlane {
        StretchedPlane::new(plane, [1.0 / self.cell as f32; 2], region)
    }
}

/// Returns a part of an enlarged plane with linear interpolation. `scale` is samples of `plane` per sample of the
/// result, across and down.
#[must_use]
pub fn stretch(plane: &Plane, scale: [f32; 2], region: Region) -> Plane {
    let stretched = StretchedPlane::new(plane, scale, region);
    Plane::from_rows(region.width, region.height, |y, row| stretched.fill(y, row))
}

/// Part of a plane that has been enlarged horizontally. Its rows are interpolated vertically on request.
#[derive(Debug)]
pub struct StretchedPlane {
    /// Rows of the plane that the part needs.
    stretched_rows: Plane,
    /// Two neighbouring rows of `stretched_rows` for every row of the part, and the weight of the second.
    rows: Vec<(usize, usize, f32)>,
}

impl StretchedPlane {
    fn new(plane: &Plane, scale: [f32; 2], region: Region) -> Self {
        let between = |at: isize, scale: f32, length: usize| {
            let at = ((at as f32 + 0.5) * scale - 0.5).clamp(0.0, (length - 1) as f32);
            let first = at as usize;
            (first, (first + 1).min(length - 1), at - first as f32)
        };

        let columns: Vec<_> = (region.left..).take(region.width).map(|x| between(x, scale[0], plane.width())).collect();
        let mut rows: Vec<_> =
            (region.top..).take(region.height).map(|y| between(y, scale[1], plane.height())).collect();

        let first = rows.first().map_or(0, |row| row.0);
        let last = rows.last().map_or(0, |row| row.1);

        for row in &mut rows {
            (row.0, row.1) = (row.0 - first, row.1 - first);
        }

        let stretched_rows = Plane::from_rows(region.width, last + 1 - first, |y, target| {
            let row = plane.row(first + y);
            for (value, (left, right, fraction)) in target.iter_mut().zip(&columns) {
                *value = row[*left] + fraction * (row[*right] - row[*left]);
            }
        });

        Self { stretched_rows, rows }
    }

    /// Computes row `y`.
    pub fn fill(&self, y: usize, target: &mut [f32]) {
        let (upper, lower, fraction) = self.rows_around(y);
        blend(upper, lower, fraction, target);
    }

    fn rows_around(&self, y: usize) -> (&[f32], &[f32], f32) {
        let (upper, lower, fraction) = self.rows[y];
        (self.stretched_rows.row(upper), self.stretched_rows.row(lower), fraction)
    }
}

/// Precomputed statistics of a guide for the guided filter, shared by several targets.
#[derive(Debug)]
pub struct Guide<'a> {
    plane: Cow<'a, Plane>,
    /// Samples of the original guide per sample of `plane`, in each direction.
    reduction: usize,
    radius: usize,
    mean: Plane,
    variance: Plane,
}

impl<'a> Guide<'a> {
    /// Analyses a guide with the given window radius.
    #[must_use]
    pub fn new(guide: &'a Plane, radius: usize) -> Self {
        Self::from_plane(Cow::Borrowed(guide), 1, radius)
    }

    /// Analyses a reduced copy, which is sufficient for a large radius (He and Sun, "Fast guided filter").
    #[must_use]
    pub fn wide(guide: &'a Plane, radius: usize) -> Self {
        let reduction = (radius / 4).clamp(1, 4).min(guide.width()).min(guide.height());
        if reduction == 1 {
            Self::new(guide, radius)
        } else {
            Self::from_plane(Cow::Owned(reduce(guide, reduction)), reduction, radius / reduction)
        }
    }

    fn from_plane(guide: Cow<'a, Plane>, reduction: usize, radius: usize) -> Self {
        let mean = box_blur(&guide, radius);
        let mut squares = guide.as_ref().clone();
        squares.values_mut().iter_mut().for_each(|value| *value *= *value);
        let mut variance = box_blur(&squares, radius);
        variance.combine(&mean, |square, mean| (square - mean * mean).max(0.0));
        Self { plane: guide, reduction, radius, mean, variance }
    }

    /// Fits linear models of `target`. Where the guide varies less than `step`, the result is an average.
    #[must_use]
    pub fn fit(&self, target: &Plane, step: f32) -> GuidedFilter {
        let target =
            if self.reduction == 1 { Cow::Borrowed(target) } else { Cow::Owned(reduce(target, self.reduction)) };

        let mut product = target.as_ref().clone();
        product.combine(&self.plane, |target, guide| target * guide);

        let mut slope = box_blur(&product, self.radius);
        let mut offset = box_blur(&target, self.radius);

        let coefficients = slope.values_mut().iter_mut().zip(offset.values_mut()).zip(self.mean.values());
        for (((slope, offset), mean), variance) in coefficients.zip(self.variance.values()) {
            *slope = (*slope - mean * *offset) / (variance + step * step);
            *offset -= *slope * mean;
        }

        self.average_models(&slope, &offset)
    }

    /// Fits linear models of the guide itself, which smooths variation smaller than `step`.
    #[must_use]
    pub fn fit_itself(&self, step: f32) -> GuidedFilter {
        let mut slope = self.variance.clone();
        let mut offset = self.mean.clone();
        for (slope, offset) in slope.values_mut().iter_mut().zip(offset.values_mut()) {
            *slope /= *slope + step * step;
            *offset -= *slope * *offset;
        }
        self.average_models(&slope, &offset)
    }

    /// Averages the models of all windows that contain a sample.
    fn average_models(&self, slope: &Plane, offset: &Plane) -> GuidedFilter {
        let [slope, offset] = [slope, offset].map(|plane| box_blur(plane, self.radius));
        GuidedFilter { slope, offset, reduction: self.reduction }
    }
}

/// Plane expressed by local linear models of a guide: the guided filter of He, Sun and Tang. Models computed on a small
/// copy give a plane with the edges of the large guide.
#[derive(Debug)]
pub struct GuidedFilter {
    slope: Plane,
    offset: Plane,
    /// Samples of the guide per sample of the models, in each direction.
    reduction: usize,
}

impl GuidedFilter {
    /// Fits models in windows of `radius`. Where the guide varies less than `step`, the result is an average.
    #[must_use]
    pub fn fit(guide: &Plane, target: &Plane, radius: usize, step: f32) -> Self {
        Guide::new(guide, radius).fit(target, step)
    }

    /// Returns the plane over a region of the large picture, row by row.
    #[must_use]
    pub fn over(&self, overview: &Overview, region: Region) -> GuidedRows {
        self.rows(overview.cell, region)
    }

    /// Returns the plane at the size of the guide.
    #[must_use]
    pub fn small(&self, guide: &Plane) -> Plane {
        let rows = self.rows(1, Region::covering(guide));
        Plane::from_rows(guide.width(), guide.height(), |y, row| rows.fill(y, guide.row(y), row))
    }

    fn rows(&self, cell: usize, region: Region) -> GuidedRows {
        let scale = [1.0 / (cell * self.reduction) as f32; 2];
        let [slope, offset] = [&self.slope, &self.offset].map(|plane| StretchedPlane::new(plane, scale, region));
        GuidedRows { slope, offset }
    }
}

/// Rows of a guided plane over a region of the large picture.
#[derive(Debug)]
pub struct GuidedRows {
    slope: StretchedPlane,
    offset: StretchedPlane,
}

impl GuidedRows {
    /// Computes row `y` along the edges of `guide`, which is that row of the picture.
    pub fn fill(&self, y: usize, guide: &[f32], target: &mut [f32]) {
        let (slopes, lower_slopes, fraction) = self.slope.rows_around(y);
        let (offsets, lower_offsets, _) = self.offset.rows_around(y);
        blend_lines([slopes, lower_slopes], [offsets, lower_offsets], fraction, guide, target);
    }
}

/// Interpolates between two rows; `fraction` is the weight of the second.
#[multiversion(targets("x86_64+avx2"))]
fn blend(first: &[f32], second: &[f32], fraction: f32, target: &mut [f32]) {
    for (value, (first, second)) in target.iter_mut().zip(first.iter().zip(second)) {
        *value = first + fraction * (second - first);
    }
}

/// Interpolates between two rows of slopes and offsets, and applies them to the guide.
#[multiversion(targets("x86_64+avx2"))]
fn blend_lines(slopes: [&[f32]; 2], offsets: [&[f32]; 2], fraction: f32, guide: &[f32], target: &mut [f32]) {
    let lines = slopes[0].iter().zip(slopes[1]).zip(offsets[0].iter().zip(offsets[1]));
    for ((value, guide), ((slope, lower_slope), (offset, lower_offset))) in target.iter_mut().zip(guide).zip(lines) {
        let slope = slope + fraction * (lower_slope - slope);
        let offset = offset + fraction * (lower_offset - offset);
        *value = slope * guide + offset;
    }
}
