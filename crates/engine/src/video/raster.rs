//! Frame buffer: pixels as floating-point numbers, with sampling between pixels.

use std::fmt;

use image::{Rgb, RgbImage};
use rayon::prelude::*;

use crate::colour::{split, to_rgb};
use crate::filters::smooth;
use crate::picture::Pixels;
use crate::plane::Plane;
use crate::resample;

/// Red, green and blue as sRGB values from 0 to 1, and the coverage from 0 to 1.
pub type Pixel = [f32; 4];

/// A position or distance on a picture: to the right and down from its centre, where 1 is half of its height.
pub type Vec2 = [f32; 2];

/// Width and height in pixels. Those of a video are even, because it has one chroma sample for every four pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl Size {
    /// Returns the width divided by the height.
    #[must_use]
    pub fn aspect(self) -> f32 {
        self.width as f32 / self.height as f32
    }

    /// Returns the number of pixels.
    #[must_use]
    pub const fn area(self) -> usize {
        self.width * self.height
    }
}

/// A picture as rows of pixels.
#[derive(Debug, Clone, PartialEq)]
pub struct Raster {
    size: Size,
    pixels: Vec<Pixel>,
}

impl Raster {
    /// Returns a black picture.
    #[must_use]
    pub fn new(size: Size) -> Self {
        Self { size, pixels: vec![[0.0, 0.0, 0.0, 1.0]; size.area()] }
    }

    /// Creates a picture whose pixels are computed from column and row, in parallel.
    #[must_use]
    pub fn from_fn(size: Size, pixel: impl Fn(usize, usize) -> Pixel + Sync) -> Self {
        let mut raster = Self::new(size);
        raster.pixels.par_chunks_mut(size.width).enumerate().for_each(|(y, row)| {
            row.iter_mut().enumerate().for_each(|(x, value)| *value = pixel(x, y));
        });
        raster
    }

    /// Converts a decoded picture to a size, cropped to its centre if the proportions differ.
    #[must_use]
    pub fn from_pixels(pixels: &Pixels, size: Size) -> Self {
        match pixels {
            Pixels::Opaque(picture) => Self::from_samples::<3>(picture, picture.dimensions(), size),
            Pixels::Transparent(picture) => Self::from_samples::<4>(picture, picture.dimensions(), size),
        }
        .resize_to_cover(size)
    }

    /// Converts samples, averaging large pictures down to about twice the size, because a pixel of a raster takes
    /// 16 bytes.
    fn from_samples<const N: usize>(samples: &[u8], (width, height): (u32, u32), size: Size) -> Self {
        let width = width as usize;
        let height = height as usize;
        let factor = (width / (2 * size.width)).min(height / (2 * size.height)).max(1);
        let full_coverage = (255 * factor * factor) as f32;
        let reduced = Size { width: width / factor, height: height / factor };

        Self::from_fn(reduced, |x, y| {
            let mut sum = [0_u32; 4];
            for row in samples.chunks_exact(N * width).skip(y * factor).take(factor) {
                for pixel in &row.as_chunks::<N>().0[x * factor..][..factor] {
                    // Colours are weighted by their coverage.
                    let coverage = if N == 3 { 255 } else { u32::from(pixel[N - 1]) };
                    for (total, value) in sum[..3].iter_mut().zip(pixel) {
                        *total += coverage * u32::from(*value);
                    }
                    sum[3] += coverage;
                }
            }
            let full_colour = 255.0 * sum[3].max(1) as f32;
            let [red, green, blue] = [0, 1, 2].map(|at| sum[at] as f32 / full_colour);
            [red, green, blue, sum[3] as f32 / full_coverage]
        })
    }

    /// Returns the size in pixels.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns all pixels, row by row.
    #[must_use]
    pub fn pixels(&self) -> &[Pixel] {
        &self.pixels
    }

    /// Returns all pixels, mutable.
    pub fn pixels_mut(&mut self) -> &mut [Pixel] {
        &mut self.pixels
    }

    /// Returns one row.
    #[must_use]
    pub fn row(&self, y: usize) -> &[Pixel] {
        &self.pixels[y * self.size.width..][..self.size.width]
    }

    /// Returns one row, mutable.
    pub fn row_mut(&mut self, y: usize) -> &mut [Pixel] {
        &mut self.pixels[y * self.size.width..][..self.size.width]
    }

    /// Returns one channel: 0 to 2 for the colours, 3 for the coverage.
    #[must_use]
    pub fn channel(&self, at: usize) -> Plane {
        Plane::from_rows(self.size.width, self.size.height, |y, row| {
            row.iter_mut().zip(self.row(y)).for_each(|(value, pixel)| *value = pixel[at]);
        })
    }

    /// Returns the picture at another size, resampled with a sharp kernel and cropped to its centre if the proportions
    /// differ.
    #[must_use]
    pub fn resize_to_cover(&self, size: Size) -> Self {
        if self.size == size {
            return self.clone();
        }

        let width = self.size.width as f64;
        let height = self.size.height as f64;
        let scale = (width / size.width as f64).min(height / size.height as f64);
        let across = size.width as f64 * scale;
        let down = size.height as f64 * scale;
        // Left, top, width and height of the part that is shown.
        let part = [(width - across) / 2.0, (height - down) / 2.0, across, down];

        // Colours are weighted by their coverage; otherwise hidden ones would show as a fringe.
        let is_covered = self.pixels.iter().all(|pixel| pixel[3] >= 1.0);
        let channels: Vec<Plane> = (0..4_usize)
            .into_par_iter()
            .map(|at| {
                let mut channel = self.channel(at);
                if !is_covered && at < 3 {
                    channel.combine(&self.channel(3), |value, coverage| value * coverage);
                }
                resample::resize_part(&channel, part, size.width, size.height)
            })
            .collect();

        let mut raster = Self::new(size);

        for (at, plane) in channels.iter().enumerate() {
            for (pixel, value) in raster.pixels.iter_mut().zip(plane.values()) {
                pixel[at] = *value;
            }
        }

        for pixel in &mut raster.pixels {
            let coverage = if is_covered { 1.0 } else { pixel[3].max(1e-3) };
            for value in &mut pixel[..3] {
                *value = (*value / coverage).clamp(0.0, 1.0);
            }
            pixel[3] = pixel[3].clamp(0.0, 1.0);
        }

        raster
    }

    /// Returns the interpolated pixel at a position in pixels; beyond its borders the picture is mirrored.
    #[must_use]
    pub fn sample(&self, x: f32, y: f32) -> Pixel {
        let (left, right, across) = mirrored_neighbours(x, self.size.width);
        let (top, bottom, down) = mirrored_neighbours(y, self.size.height);
        let upper = self.row(top);
        let lower = self.row(bottom);

        std::array::from_fn(|channel| {
            let above = upper[left][channel] + across * (upper[right][channel] - upper[left][channel]);
            let below = lower[left][channel] + across * (lower[right][channel] - lower[left][channel]);
            above + down * (below - above)
        })
    }

    /// Blends a colour over a pixel. A `coverage` of 1 replaces the pixel's colour, 0 keeps it.
    pub fn blend_pixel(&mut self, x: usize, y: usize, colour: [f32; 3], coverage: f32) {
        let pixel = &mut self.pixels[y * self.size.width + x];
        for (value, target) in pixel.iter_mut().zip(colour) {
            *value += coverage * (target - *value);
        }
    }

    /// Returns the luma of every pixel.
    #[must_use]
    pub fn luma(&self) -> Plane {
        Plane::from_rows(self.size.width, self.size.height, |y, row| {
            row.iter_mut()
                .zip(self.row(y))
                .for_each(|(value, pixel)| *value = split([pixel[0], pixel[1], pixel[2]])[0]);
        })
    }

    /// Increases local contrast, colour and, slightly, global contrast. An amount of 0 changes nothing, 1 is usual.
    pub fn enhance(&mut self, amount: f32) {
        let luma = self.luma();
        let fine = smooth(&luma, 1);
        let broad = smooth(&luma, (self.size.height / 40).max(2));
        for (((pixel, value), fine), broad) in
            self.pixels.iter_mut().zip(luma.values()).zip(fine.values()).zip(broad.values())
        {
            let [_, blue, red] = split([pixel[0], pixel[1], pixel[2]]);
            let sharper = value + amount * (0.8 * (value - fine) + 0.25 * (value - broad));
            // An S-curve that keeps black, middle grey and white.
            let contrasted = sharper
                + amount * 0.25 * (sharper - 0.5) * sharper.clamp(0.0, 1.0) * (1.0 - sharper.clamp(0.0, 1.0)) * 4.0;
            let saturation = 1.0 + 0.18 * amount;
            let colour = to_rgb([contrasted, saturation * blue, saturation * red]);
            for (target, value) in pixel.iter_mut().zip(colour) {
                *target = value.clamp(0.0, 1.0);
            }
        }
    }

    /// Converts to 8 bits; uncovered pixels are white.
    #[must_use]
    pub fn to_image(&self) -> RgbImage {
        let mut image = RgbImage::new(self.size.width as u32, self.size.height as u32);
        for (target, pixel) in image.pixels_mut().zip(&self.pixels) {
            *target = Rgb([0, 1, 2].map(|at| {
                let value = 1.0 + pixel[3] * (pixel[at] - 1.0);
                (value.clamp(0.0, 1.0) * 255.0 + 0.5) as u8
            }));
        }
        image
    }
}

/// Returns the two neighbours of a position and the weight of the second, mirrored at both ends.
fn mirrored_neighbours(at: f32, length: usize) -> (usize, usize, f32) {
    let last = (length - 1) as f32;
    let mut at = at;
    if !(0.0..=last).contains(&at) {
        let folded = at.abs().rem_euclid(2.0 * last.max(0.5));
        at = if folded > last { 2.0 * last - folded } else { folded }.clamp(0.0, last);
    }
    let first = at as usize;
    (first, (first + 1).min(length - 1), at - first as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gradient(width: usize, height: usize) -> Raster {
        Raster::from_fn(Size { width, height }, |x, y| [x as f32 / 10.0, y as f32 / 10.0, 0.0, 1.0])
    }

    #[test]
    fn beyond_its_borders_a_picture_is_mirrored() {
        let picture = gradient(5, 3);
        for (inner, outer) in [(1.0, -1.0), (3.5, 4.5), (0.0, 8.0), (2.0, -6.0)] {
            assert!((picture.sample(inner, 1.0)[0] - picture.sample(outer, 1.0)[0]).abs() < 1e-5, "{outer}");
        }
        assert!((picture.sample(1.25, 0.5)[0] - 0.125).abs() < 1e-6);
        assert!((picture.sample(1.25, 0.5)[1] - 0.05).abs() < 1e-6);
    }

    #[test]
    fn large_pictures_are_averaged_while_they_are_converted() {
        let picture = RgbImage::from_fn(90, 60, |x, y| Rgb([if (x + y) % 2 == 0 { 255 } else { 0 }, 51, 0]));
        let raster = Raster::from_pixels(&Pixels::Opaque(picture), Size { width: 8, height: 6 });
        assert_eq!(raster.size(), Size { width: 8, height: 6 });
        assert!((raster.row(3)[4][0] - 0.5).abs() < 0.03);
        assert!((raster.row(3)[4][1] - 0.2).abs() < 0.01);
    }

    #[test]
    fn a_picture_is_cropped_to_its_centre_for_another_shape() {
        let covered = gradient(10, 4).resize_to_cover(Size { width: 4, height: 4 });
        let row: Vec<_> = covered.row(0).iter().map(|pixel| (pixel[0] * 10.0).round() as i32).collect();
        assert_eq!(row, [3, 4, 5, 6]);
    }

    #[test]
    fn uncovered_pixels_are_white() {
        let mut raster = gradient(2, 2);
        raster.pixels_mut()[0] = [0.0, 0.0, 0.0, 0.0];
        assert_eq!(raster.to_image().get_pixel(0, 0).0, [255; 3]);
    }

    #[test]
    fn hidden_colours_do_not_show_at_another_size() {
        // Given a red disc whose transparent background is white
        let disc = Raster::from_fn(Size { width: 60, height: 60 }, |x, y| {
            let coverage = (25.0 - (x as f32 - 29.5).hypot(y as f32 - 29.5)).clamp(0.0, 1.0);
            if coverage > 0.0 { [0.8, 0.1, 0.1, coverage] } else { [1.0, 1.0, 1.0, 0.0] }
        });
        for side in [34, 100] {
            let resized = disc.resize_to_cover(Size { width: side, height: side });
            let fringe = resized.pixels().iter().map(|pixel| pixel[3] * (pixel[1] - 0.1).abs()).fold(0.0, f32::max);
            assert!(fringe < 0.03, "{side}: {fringe}");
        }
    }
}
