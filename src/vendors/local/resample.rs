//! Making planes larger and smaller by whole factors, by the SIMD convolutions of `fast_image_resize`.
//!
//! The resizer weighs samples by their distance alone and looks beyond the part that it is asked for, so a tile is
//! enlarged as it would be in the whole, up to rounding. Sums are formed as suits the processor: always the same on one
//! machine, but not always to the last bit the same on another.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::F32;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

use super::plane::{Plane, Region};

/// How far a kernel reaches, in source samples to each side.
const REACH: usize = 3;

/// What lies between samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Lanczos with three lobes: sharp, rings a little.
    Lanczos,
    /// A straight line: never leaves the range of its neighbours.
    Linear,
}

impl Kernel {
    const fn filter(self) -> FilterType {
        match self {
            Self::Lanczos => FilterType::Lanczos3,
            Self::Linear => FilterType::Bilinear,
        }
    }
}

/// Enlarges planes by one factor.
#[derive(Debug, Clone)]
pub struct Enlarger {
    kernel: Kernel,
    factor: usize,
}

impl Enlarger {
    /// An enlarger by `factor`, which is at least 2.
    #[must_use]
    pub fn new(kernel: Kernel, factor: usize) -> Self {
        debug_assert!(factor >= 2);
        Self { kernel, factor }
    }

    /// The factor by which each side grows.
    #[must_use]
    pub fn factor(&self) -> usize {
        self.factor
    }

    /// A region of `source`, enlarged.
    #[must_use]
    pub fn enlarge(&self, source: &Plane, region: Region) -> Plane {
        let padded = source.window(region.grown(REACH));
        let inner = Region { left: REACH as isize, top: REACH as isize, ..region };
        let target = Plane::new(region.width * self.factor, region.height * self.factor);
        resize(&padded, inner, self.kernel.filter(), target)
    }
}

/// Makes a plane smaller by averaging squares of `factor` samples a side; it has at least one such square.
#[must_use]
pub fn reduce(source: &Plane, factor: usize) -> Plane {
    let target = Plane::new(source.width() / factor, source.height() / factor);
    let whole = Region { left: 0, top: 0, width: target.width() * factor, height: target.height() * factor };
    resize(source, whole, FilterType::Box, target)
}

/// A part of a plane, given as left, top, width and height, at another size, by a sharp kernel.
///
/// # Panics
/// When the part does not lie within the plane.
#[must_use]
pub fn fit(source: &Plane, part: [f64; 4], width: usize, height: usize) -> Plane {
    resize_part(source, part, FilterType::Lanczos3, Plane::new(width, height))
}

/// Fills `target` with a part of `source`, which lies within its borders.
fn resize(source: &Plane, part: Region, filter: FilterType, target: Plane) -> Plane {
    resize_part(source, [part.left as f64, part.top as f64, part.width as f64, part.height as f64], filter, target)
}

fn resize_part(source: &Plane, part: [f64; 4], filter: FilterType, mut target: Plane) -> Plane {
    const FITS: &str = "planes have samples, one for every place, and the part lies within";
    let [left, top, across, down] = part;
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter)).crop(left, top, across, down);
    let (width, height) = (target.width() as u32, target.height() as u32);
    let samples = bytemuck::cast_slice(source.values());
    let source = TypedImageRef::<F32>::from_buffer(source.width() as u32, source.height() as u32, samples).expect(FITS);
    let samples = bytemuck::cast_slice_mut(target.values_mut());
    let mut image = TypedImage::<F32>::from_buffer(width, height, samples).expect(FITS);
    Resizer::new().resize_typed(&source, &mut image, &options).expect(FITS);
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_stays_flat_and_slopes_stay_slopes() {
        for (kernel, factor) in [(Kernel::Lanczos, 2), (Kernel::Lanczos, 4), (Kernel::Linear, 2), (Kernel::Linear, 4)] {
            let flat = Plane::from_fn(5, 4, |_, _| 0.7);
            let large = Enlarger::new(kernel, factor).enlarge(&flat, Region::whole(&flat));
            assert!(large.values().iter().all(|value| (value - 0.7).abs() < 1e-5));

            let slope = Plane::from_fn(20, 4, |x, _| x as f32);
            let large = Enlarger::new(kernel, factor).enlarge(&slope, Region::whole(&slope));
            let middle = 10 * factor;
            let expected = (middle as f32 + 0.5) / factor as f32 - 0.5;
            assert!((large.row(0)[middle] - expected).abs() < 0.02, "{kernel:?} {factor}");
        }
    }

    #[test]
    fn a_part_is_enlarged_as_in_the_whole() {
        let source = Plane::from_fn(12, 9, |x, y| ((x * 7 + y * 5) % 11) as f32);
        let enlarger = Enlarger::new(Kernel::Lanczos, 4);
        let whole = enlarger.enlarge(&source, Region::whole(&source));
        let part = enlarger.enlarge(&source, Region { left: 3, top: 2, width: 5, height: 4 });
        let same = whole.window(Region { left: 12, top: 8, width: 20, height: 16 });
        assert_eq!((part.width(), part.height()), (same.width(), same.height()));
        assert!(part.values().iter().zip(same.values()).all(|(part, same)| (part - same).abs() < 1e-5));
    }

    #[test]
    fn reducing_averages() {
        let source = Plane::from_fn(4, 2, |x, y| (x + 4 * y) as f32);
        let reduced = reduce(&source, 2);
        assert!(reduced.values().iter().zip([2.5, 4.5]).all(|(value, mean)| (value - mean).abs() < 1e-5));
        assert_eq!((reduced.width(), reduced.height()), (2, 1));
    }
}
