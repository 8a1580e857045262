//! Filters that run in parallel on bands of rows. Each band includes the rows around it that the filter reads. Bands do
//! not depend on the number of threads, so the results do not either.

use rayon::prelude::*;

use crate::filters;
use crate::plane::{Plane, Region};

/// Rows per band.
pub const ROWS: usize = 96;

/// Returns the filtered plane. `filter` reads at most `reach` rows above and below each row and keeps the size.
pub fn filter_in_bands(source: &Plane, reach: usize, filter: impl Fn(&Plane) -> Plane + Sync) -> Plane {
    let width = source.width();
    let height = source.height();
    let mut result = Plane::new(width, height);
    result.values_mut().par_chunks_mut(width * ROWS).enumerate().for_each(|(band, target)| {
        let rows = target.len() / width;
        let top = (band * ROWS) as isize - reach as isize;
        let window = source.window(Region { left: 0, top, width, height: rows + 2 * reach });
        let filtered = filter(&window);
        target.copy_from_slice(&filtered.values()[reach * width..][..rows * width]);
    });
    result
}

/// Creates a plane whose samples are computed from column and row, in parallel.
pub fn draw_plane(width: usize, height: usize, sample: impl Fn(usize, usize) -> f32 + Sync) -> Plane {
    let mut plane = Plane::new(width, height);
    plane.values_mut().par_chunks_mut(width).enumerate().for_each(|(y, row)| {
        row.iter_mut().enumerate().for_each(|(x, value)| *value = sample(x, y));
    });
    plane
}

/// Parallel version of [`filters::smooth`].
pub fn smooth(source: &Plane, radius: usize) -> Plane {
    filter_in_bands(source, 2 * radius, |plane| filters::smooth(plane, radius))
}

/// Parallel version of [`filters::smooth_between_edges`].
pub fn smooth_between_edges(source: &Plane, radius: usize, step: f32) -> Plane {
    filter_in_bands(source, 2 * radius, |plane| filters::smooth_between_edges(plane, radius, step))
}

/// Returns the averages of squares with a side of `factor` samples; squares at the border may be smaller.
pub fn reduce(source: &Plane, factor: usize) -> Plane {
    let width = source.width();
    let height = source.height();
    draw_plane(width.div_ceil(factor), height.div_ceil(factor), |x, y| {
        let columns = x * factor..((x + 1) * factor).min(width);
        let rows = y * factor..((y + 1) * factor).min(height);
        let count = (columns.len() * rows.len()) as f32;
        rows.map(|row| source.row(row)[columns.clone()].iter().sum::<f32>()).sum::<f32>() / count
    })
}

/// Plane stored at `1 / factor` of its size.
#[derive(Debug)]
pub struct EnlargedField {
    plane: Plane,
    factor: usize,
}

impl EnlargedField {
    /// Creates a field from one sample for each square with a side of `factor` samples.
    pub fn new(plane: Plane, factor: usize) -> Self {
        Self { plane, factor }
    }

    /// Writes one row of the enlarged plane with linear interpolation.
    pub fn draw(&self, y: usize, row: &mut [f32]) {
        if self.factor == 1 {
            return row.copy_from_slice(self.plane.row(y));
        }

        let last = self.plane.width() - 1;
        let (above, below, fraction) = self.rows_around(y);
        let at = |x: usize| above[x] + fraction * (below[x] - above[x]);

        let centre = 0.5 - 0.5 * self.factor as f32;
        let scale = 1.0 / self.factor as f32;
        // The current interval: its left column, and the samples at that column and the next.
        let mut left_column = 0;
        let mut left = at(0);
        let mut right = at(1.min(last));

        for (x, value) in row.iter_mut().enumerate() {
            let position = ((x as f32 + centre) * scale).clamp(0.0, last as f32);
            let column = position as usize;
            if column != left_column {
                left_column = column;
                left = at(column);
                right = at((column + 1).min(last));
            }
            *value = left + (position - column as f32) * (right - left);
        }
    }

    /// Returns the enlarged plane, cropped to `width` and `height`.
    pub fn to_plane(&self, width: usize, height: usize) -> Plane {
        let mut plane = Plane::new(width, height);
        plane.values_mut().par_chunks_mut(width).enumerate().for_each(|(y, row)| self.draw(y, row));
        plane
    }

    /// Returns the two stored rows around row `y` of the enlarged plane, and the weight of the lower one.
    fn rows_around(&self, y: usize) -> (&[f32], &[f32], f32) {
        let last = self.plane.height() - 1;
        let position = ((y as f32 + 0.5) / self.factor as f32 - 0.5).clamp(0.0, last as f32);
        let top = position as usize;
        (self.plane.row(top), self.plane.row((top + 1).min(last)), position - top as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;

    #[test]
    fn bands_leave_no_seam() {
        let plane = noise::white(Region { left: 0, top: 0, width: 30, height: 3 * ROWS + 7 }, 1);
        let whole = filters::smooth(&plane, 5);
        let banded = smooth(&plane, 5);
        // At the border the two differ slightly: the samples outside of the picture are smoothed once less.
        let inner = 30 * 10..30 * (3 * ROWS - 3);
        let pairs = whole.values()[inner.clone()].iter().zip(&banded.values()[inner]);
        assert!(pairs.clone().count() > 0);
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-4));
    }

    #[test]
    fn a_slope_is_enlarged_to_a_slope() {
        let field = EnlargedField::new(Plane::from_fn(10, 10, |x, y| (x + 2 * y) as f32), 4);
        let plane = field.to_plane(38, 40);
        for (x, y) in [(8, 8), (20, 13), (30, 30)] {
            let expected = ((x as f32 + 0.5) + 2.0 * (y as f32 + 0.5)) / 4.0 - 1.5;
            assert!((plane.row(y)[x] - expected).abs() < 1e-3, "{x} {y}");
        }
        assert_eq!(reduce(&plane, 4).width(), 10);
    }
}
