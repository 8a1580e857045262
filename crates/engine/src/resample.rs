//! Resizing of planes.
//!
//! Enlargement by integer factors resizes horizontally first. Rows of the result are then computed on request, so
//! row-by-row readers need no full plane. Weights depend only on distance, and samples beyond the requested part are
//! included, so a tile equals the corresponding part of the whole.
//!
//! Other sizes use the SIMD convolutions of `fast_image_resize`. Its results are identical on one machine, but may
//! differ in the last bit on another.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::F32;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

use crate::filters::weighted_sum;
use crate::plane::{Plane, Region};

/// Reach of a kernel in source samples to each side.
const REACH: usize = 3;

/// Interpolation kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Lanczos with three lobes: sharp, with slight ringing.
    Lanczos,
    /// Linear: stays within the range of its neighbours.
    Linear,
}

impl Kernel {
    /// Returns the number of samples on each side.
    const fn lobes(self) -> usize {
        match self {
            Self::Lanczos => REACH,
            Self::Linear => 1,
        }
    }

    fn weight(self, distance: f32) -> f32 {
        let lobes = self.lobes() as f32;
        let sinc = |x: f32| if x == 0.0 { 1.0 } else { (std::f32::consts::PI * x).sin() / (std::f32::consts::PI * x) };
        match self {
            Self::Lanczos if distance.abs() < lobes => sinc(distance) * sinc(distance / lobes),
            Self::Lanczos => 0.0,
            Self::Linear => (1.0 - distance.abs()).max(0.0),
        }
    }
}

/// Weights of a subsample position.
#[derive(Debug, Clone)]
struct Phase {
    /// First sample with a weight, counted from [`REACH`] before the position.
    first: usize,
    weights: Vec<f32>,
}

impl Phase {
    /// Computes the weights of position `phase` of the `factor` positions of a sample.
    fn new(kernel: Kernel, phase: usize, factor: usize) -> Self {
        let position = (phase as f32 + 0.5) / factor as f32 - 0.5;
        let first = position.floor() as isize + 1 - kernel.lobes() as isize;
        let taps = (first..).take(2 * kernel.lobes());
        let weights: Vec<f32> = taps.map(|tap| kernel.weight(position - tap as f32)).collect();

        let sum: f32 = weights.iter().sum();
        Self { first: (first + REACH as isize) as usize, weights: weights.iter().map(|weight| weight / sum).collect() }
    }

    /// Writes the weighted sum of samples. `tap` returns them by index from [`REACH`] before the position. The
    /// number of weights is constant in each branch, so that the sum can be vectorized.
    fn sum<'a>(&self, tap: impl Fn(usize) -> &'a [f32], target: &mut [f32]) {
        if let Ok(weights) = <&[f32; 2 * REACH]>::try_from(&self.weights[..]) {
            weighted_sum(std::array::from_fn(|at| tap(self.first + at)), weights, target);
        } else {
            weighted_sum([tap(self.first), tap(self.first + 1)], &[self.weights[0], self.weights[1]], target);
        }
    }
}

/// Enlargement by one factor.
#[derive(Debug, Clone)]
pub struct Enlarger {
    /// One phase for each subsample position.
    phases: Vec<Phase>,
}

impl Enlarger {
    /// Creates an enlarger by `factor`, at least 2.
    #[must_use]
    pub fn new(kernel: Kernel, factor: usize) -> Self {
        debug_assert!(factor >= 2);
        Self { phases: (0..factor).map(|phase| Phase::new(kernel, phase, factor)).collect() }
    }

    /// Returns the factor of each side.
    #[must_use]
    pub fn factor(&self) -> usize {
        self.phases.len()
    }

    /// Enlarges a region of `source`.
    #[must_use]
    pub fn enlarge(&self, source: &Plane, region: Region) -> Plane {
        let rows = self.rows(source, region);
        let factor = self.factor();
        Plane::from_rows(region.width * factor, region.height * factor, |y, row| rows.fill(y, row))
    }

    /// Enlarges a region of `source`, with rows computed on request.
    #[must_use]
    pub fn rows(&self, source: &Plane, region: Region) -> EnlargedPlane<'_> {
        let factor = self.factor();
        let padded = Region { height: region.height + 2 * REACH, top: region.top - REACH as isize, ..region };

        let mut samples = vec![0.0; region.width + 2 * REACH];
        let mut lines = vec![0.0; region.width * factor];

        let across = Plane::from_rows(region.width * factor, padded.height, |y, row| {
            source.copy_row(padded.top + y as isize, region.left - REACH as isize, &mut samples);
            for (phase, line) in self.phases.iter().zip(lines.chunks_exact_mut(region.width)) {
                phase.sum(|tap| &samples[tap..][..region.width], line);
            }

            match factor {
                2 => interleave::<2>(&lines, row),
                3 => interleave::<3>(&lines, row),
                4 => interleave::<4>(&lines, row),
                _ => interleave_any(&lines, factor, row),
            }
        });

        EnlargedPlane { phases: &self.phases, across }
    }
}

/// Interleaves lines that are stored one after the other.
fn interleave<const LINES: usize>(lines: &[f32], target: &mut [f32]) {
    let width = lines.len() / LINES;
    let lines: [&[f32]; LINES] = std::array::from_fn(|line| &lines[line * width..][..width]);
    for (at, values) in target.as_chunks_mut::<LINES>().0[..width].iter_mut().enumerate() {
        *values = lines.map(|line| line[at]);
    }
}

fn interleave_any(lines: &[f32], count: usize, target: &mut [f32]) {
    for (first, line) in lines.chunks_exact(lines.len() / count).enumerate() {
        for (value, sample) in target[first..].chunks_mut(count).zip(line) {
            value[0] = *sample;
        }
    }
}

/// Part of a plane, enlarged across.
#[derive(Debug)]
pub struct EnlargedPlane<'a> {
    phases: &'a [Phase],
    /// Includes [`REACH`] more rows above and below.
    across: Plane,
}

impl EnlargedPlane<'_> {
    /// Computes row `y` of the result.
    pub fn fill(&self, y: usize, target: &mut [f32]) {
        let row = y / self.phases.len();
        let phase = y % self.phases.len();
        self.phases[phase].sum(|tap| self.across.row(row + tap), target);
    }

    /// Returns the number of samples in a row of the result.
    #[must_use]
    pub fn width(&self) -> usize {
        self.across.width()
    }
}

/// Reduces a plane by averaging squares with a side of `factor` samples. The plane must contain at least one.
#[must_use]
pub fn reduce(source: &Plane, factor: usize) -> Plane {
    let width = source.width() / factor;
    let scale = 1.0 / (factor * factor) as f32;

    let mut sums = vec![0.0; width * factor];
    Plane::from_rows(width, source.height() / factor, |y, target| {
        sums.copy_from_slice(&source.row(y * factor)[..width * factor]);
        for row in (1..factor).map(|row| source.row(y * factor + row)) {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }

        match factor {
            2 => average_across::<2>(&sums, scale, target),
            4 => average_across::<4>(&sums, scale, target),
            _ => {
                let squares = sums.chunks_exact(factor).map(|square| scale * square.iter().sum::<f32>());
                target.iter_mut().zip(squares).for_each(|(value, mean)| *value = mean);
            }
        }
    })
}

fn average_across<const FACTOR: usize>(sums: &[f32], scale: f32, target: &mut [f32]) {
    for (value, square) in target.iter_mut().zip(sums.as_chunks::<FACTOR>().0) {
        *value = scale * square.iter().sum::<f32>();
    }
}

/// Resizes a part of a plane, given as left, top, width and height, with a Lanczos kernel.
///
/// # Panics
/// Panics if the part does not lie within the plane.
#[must_use]
pub fn resize_part(source: &Plane, [left, top, across, down]: [f64; 4], width: usize, height: usize) -> Plane {
    const FITS: &str = "the buffers match their sizes, and the part lies within the plane";

    let mut target = Plane::new(width, height);

    let lanczos = ResizeAlg::Convolution(FilterType::Lanczos3);
    let options = ResizeOptions::new().resize_alg(lanczos).crop(left, top, across, down);

    let samples = bytemuck::cast_slice(source.values());
    let source = TypedImageRef::<F32>::from_buffer(source.width() as u32, source.height() as u32, samples).expect(FITS);

    let samples = bytemuck::cast_slice_mut(target.values_mut());
    let mut image = TypedImage::<F32>::from_buffer(width as u32, height as u32, samples).expect(FITS);

    Resizer::new().resize_typed(&source, &mut image, &options).expect(FITS);
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resampling_keeps_constants_and_slopes() {
        for (kernel, factor) in [(Kernel::Lanczos, 2), (Kernel::Lanczos, 4), (Kernel::Linear, 2), (Kernel::Linear, 4)] {
            let flat = Plane::from_fn(5, 4, |_, _| 0.7);
            let large = Enlarger::new(kernel, factor).enlarge(&flat, Region::covering(&flat));
            assert!(large.values().iter().all(|value| (value - 0.7).abs() < 1e-5));

            let slope = Plane::from_fn(20, 4, |x, _| x as f32);
            let large = Enlarger::new(kernel, factor).enlarge(&slope, Region::covering(&slope));
            let middle = 10 * factor;
            let expected = (middle as f32 + 0.5) / factor as f32 - 0.5;
            assert!((large.row(0)[middle] - expected).abs() < 0.02, "{kernel:?} {factor}");
        }
    }

    #[test]
    fn a_tile_is_enlarged_as_in_the_whole_picture() {
        let source = Plane::from_fn(12, 9, |x, y| ((x * 7 + y * 5) % 11) as f32);
        let enlarger = Enlarger::new(Kernel::Lanczos, 4);
        let whole = enlarger.enlarge(&source, Region::covering(&source));
        let part = enlarger.enlarge(&source, Region { left: 3, top: 2, width: 5, height: 4 });
        let expected = whole.window(Region { left: 12, top: 8, width: 20, height: 16 });
        assert_eq!((part.width(), part.height()), (expected.width(), expected.height()));
        assert!(part.values().iter().zip(expected.values()).all(|(part, same)| (part - same).abs() < 1e-5));
    }

    #[test]
    fn reducing_averages() {
        let source = Plane::from_fn(4, 2, |x, y| (x + 4 * y) as f32);
        let reduced = reduce(&source, 2);
        assert!(reduced.values().iter().zip([2.5, 4.5]).all(|(value, mean)| (value - mean).abs() < 1e-5));
        assert_eq!((reduced.width(), reduced.height()), (2, 1));
    }
}
