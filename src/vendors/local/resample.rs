//! Making planes larger and smaller by whole factors.
//!
//! Enlarging by a whole factor needs the same few weights for every pixel, so they are computed once and applied to any
//! region: a tile can be enlarged without the rest, and the sums are the same on every machine.

use std::f32::consts::PI;

use super::plane::{Plane, Region};

/// How far a kernel reaches, in source samples to each side.
const REACH: usize = 3;
const TAPS: usize = 2 * REACH + 1;

/// What lies between samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Lanczos with three lobes: sharp, rings a little.
    Lanczos,
    /// A straight line: never leaves the range of its neighbours.
    Linear,
}

impl Kernel {
    fn weight(self, distance: f32) -> f32 {
        let distance = distance.abs();
        match self {
            Self::Lanczos if distance < 1e-6 => 1.0,
            Self::Lanczos if distance < 3.0 => {
                let angle = PI * distance;
                3.0 * angle.sin() * (angle / 3.0).sin() / (angle * angle)
            }
            Self::Lanczos => 0.0,
            Self::Linear => (1.0 - distance).max(0.0),
        }
    }
}

/// Enlarges planes by one factor.
#[derive(Debug, Clone)]
pub struct Enlarger {
    /// For each position between two source samples, the weights of the source samples around it.
    phases: Vec<[f32; TAPS]>,
}

impl Enlarger {
    /// An enlarger by `factor`, which is 2 or 4.
    #[must_use]
    pub fn new(kernel: Kernel, factor: usize) -> Self {
        debug_assert!(matches!(factor, 2 | 4));
        Self { phases: (0..factor).map(|phase| Self::weights(kernel, phase, factor)).collect() }
    }

    fn weights(kernel: Kernel, phase: usize, factor: usize) -> [f32; TAPS] {
        let position = (phase as f32 + 0.5) / factor as f32 - 0.5;
        let weights: [f32; TAPS] = std::array::from_fn(|tap| kernel.weight(position - (tap as f32 - REACH as f32)));
        let sum: f32 = weights.iter().sum();
        weights.map(|weight| weight / sum)
    }

    /// The factor by which each side grows.
    #[must_use]
    pub fn factor(&self) -> usize {
        self.phases.len()
    }

    /// A region of `source`, enlarged.
    #[must_use]
    pub fn enlarge(&self, source: &Plane, region: Region) -> Plane {
        let factor = self.factor();
        let padded = source.window(region.grown(REACH));
        let mut target = Plane::new(region.width * factor, region.height * factor);
        let mut column = vec![0.0; padded.width()];
        for (y, row) in target.rows_mut().enumerate() {
            column.fill(0.0);
            for (tap, weight) in self.phases[y % factor].iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                for (sum, value) in column.iter_mut().zip(padded.row(y / factor + tap)) {
                    *sum += weight * value;
                }
            }
            if factor == 2 { self.spread::<2>(&column, row) } else { self.spread::<4>(&column, row) }
        }
        target
    }

    /// Enlarges one row. The factor is a constant so that the positions between two samples are computed together.
    fn spread<const FACTOR: usize>(&self, source: &[f32], target: &mut [f32]) {
        let weights: [[f32; FACTOR]; TAPS] =
            std::array::from_fn(|tap| std::array::from_fn(|phase| self.phases[phase][tap]));
        for (values, around) in target.as_chunks_mut::<FACTOR>().0.iter_mut().zip(source.windows(TAPS)) {
            let mut sums = [0.0; FACTOR];
            for (weights, value) in weights.iter().zip(around) {
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum += weight * value;
                }
            }
            *values = sums;
        }
    }
}

/// Makes a plane smaller by averaging squares of `factor` samples a side.
#[must_use]
pub fn reduce(source: &Plane, factor: usize) -> Plane {
    let mut target = Plane::new(source.width() / factor, source.height() / factor);
    let share = 1.0 / (factor * factor) as f32;
    for (y, row) in target.rows_mut().enumerate() {
        for part in y * factor..(y + 1) * factor {
            for (sum, values) in row.iter_mut().zip(source.row(part).chunks_exact(factor)) {
                *sum += values.iter().sum::<f32>() * share;
            }
        }
    }
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
        assert_eq!(part, whole.window(Region { left: 12, top: 8, width: 20, height: 16 }));
    }

    #[test]
    fn reducing_averages() {
        let source = Plane::from_fn(4, 2, |x, y| (x + 4 * y) as f32);
        assert_eq!(reduce(&source, 2).values(), [2.5, 4.5]);
    }
}
