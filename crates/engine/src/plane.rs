//! Single channel of a picture or of a part of it.

use crate::samples::Samples;

/// Rows of samples, usually from 0 to 1. Beyond its borders a plane repeats its outermost samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    width: usize,
    values: Samples,
}

impl Plane {
    /// Creates a plane of zeros.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self { width, values: Samples::zeros(width * height) }
    }

    /// Creates a plane with undefined samples. The caller must write every sample.
    #[must_use]
    pub fn unwritten(width: usize, height: usize) -> Self {
        let length = width * height;
        Self { width, values: Samples::reuse(length).unwrap_or_else(|| Samples::zeros(length)) }
    }

    /// Creates a plane whose rows are filled one by one. `fill` must write the whole row before reading it.
    #[must_use]
    pub fn from_rows(width: usize, height: usize, mut fill: impl FnMut(usize, &mut [f32])) -> Self {
        if let Some(values) = Samples::reuse(width * height) {
            let mut plane = Self { width, values };
            plane.rows_mut().enumerate().for_each(|(y, row)| fill(y, row));
            return plane;
        }

        // Filling one cached row and copying it avoids clearing new memory first.
        let mut row = vec![0.0; width];
        let mut values = Vec::with_capacity(width * height);

        for y in 0..height {
            fill(y, &mut row);
            values.extend_from_slice(&row);
        }

        Self { width, values: Samples::from(values) }
    }

    /// Creates a plane whose samples are computed from column and row.
    #[must_use]
    pub fn from_fn(width: usize, height: usize, mut sample: impl FnMut(usize, usize) -> f32) -> Self {
        Self::from_rows(width, height, |y, row| {
            row.iter_mut().enumerate().for_each(|(x, value)| *value = sample(x, y));
        })
    }

    /// Returns the number of samples in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.values.len() / self.width
    }

    /// Returns all samples in row-major order.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns all samples, mutable.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Returns one row.
    #[must_use]
    pub fn row(&self, y: usize) -> &[f32] {
        &self.values[y * self.width..][..self.width]
    }

    /// Returns one row, mutable.
    pub fn row_mut(&mut self, y: usize) -> &mut [f32] {
        &mut self.values[y * self.width..][..self.width]
    }

    /// Iterates over the rows from the top.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.width)
    }

    /// Iterates over the rows from the top, mutable.
    pub fn rows_mut(&mut self) -> std::slice::ChunksExactMut<'_, f32> {
        self.values.chunks_exact_mut(self.width)
    }

    /// Replaces every sample by a function of itself and of the sample of `other` at its position.
    pub fn combine(&mut self, other: &Self, change: impl Fn(f32, f32) -> f32) {
        for (value, other) in self.values.iter_mut().zip(other.values()) {
            *value = change(*value, *other);
        }
    }

    /// Returns the smallest region that contains all samples above `floor`, if there are any.
    #[must_use]
    pub fn bounds(&self, floor: f32) -> Option<Region> {
        let above = |value: &f32| *value > floor;
        let rows: Vec<usize> = (0..self.height()).filter(|y| self.row(*y).iter().any(above)).collect();
        let top = *rows.first()?;
        let bottom = *rows.last()?;

        let left = rows.iter().filter_map(|y| self.row(*y).iter().position(above)).min()?;
        let right = rows.iter().filter_map(|y| self.row(*y).iter().rposition(above)).max()?;

        let width = right + 1 - left;
        let height = bottom + 1 - top;
        Some(Region { left: left as isize, top: top as isize, width, height })
    }

    /// Copies a region, which may extend beyond the borders.
    #[must_use]
    pub fn window(&self, region: Region) -> Self {
        Self::from_rows(region.width, region.height, |y, row| {
            self.copy_row(region.top + y as isize, region.left, row);
        })
    }

    /// Fills `target` with the samples of row `y` from column `left` on. Row and column may lie beyond the borders.
    pub fn copy_row(&self, y: isize, left: isize, target: &mut [f32]) {
        copy_clamped(self.row(clamped(y, self.height() - 1)), left, target);
    }
}

/// Fills `target` with the samples of `source` from index `left` on. Beyond its ends, `source` repeats its first and
/// its last sample.
pub fn copy_clamped<T: Copy>(source: &[T], left: isize, target: &mut [T]) {
    let last = source.len() - 1;
    let before = left.min(0).unsigned_abs().min(target.len());
    let (outside, rest) = target.split_at_mut(before);
    outside.fill(source[0]);

    let start = clamped(left, source.len());
    let common = rest.len().min(source.len() - start);
    rest[..common].copy_from_slice(&source[start..start + common]);
    rest[common..].fill(source[last]);
}

/// Clamps an index to 0 to `last`.
#[must_use]
pub fn clamped(index: isize, last: usize) -> usize {
    usize::try_from(index).unwrap_or(0).min(last)
}

/// Rectangle of samples. It may extend beyond the borders of its plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub left: isize,
    pub top: isize,
    pub width: usize,
    pub height: usize,
}

impl Region {
    /// Returns the region of a whole plane.
    #[must_use]
    pub fn covering(plane: &Plane) -> Self {
        Self { left: 0, top: 0, width: plane.width(), height: plane.height() }
    }

    /// Returns the intersection with `bounds`.
    #[must_use]
    pub fn clipped_to(self, bounds: Self) -> Self {
        let span = |start: isize, length: usize, from: isize, total: usize| {
            let end = (start + length as isize).min(from + total as isize);
            let start = start.max(from);
            (start, (end - start).max(0) as usize)
        };

        let (left, width) = span(self.left, self.width, bounds.left, bounds.width);
        let (top, height) = span(self.top, self.height, bounds.top, bounds.height);
        Self { left, top, width, height }
    }

    /// Returns the region with a margin of `margin` samples on every side.
    #[must_use]
    pub fn grown(self, margin: usize) -> Self {
        let shift = margin as isize;
        Self {
            left: self.left - shift,
            top: self.top - shift,
            width: self.width + 2 * margin,
            height: self.height + 2 * margin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_contain_all_values_above_the_threshold() {
        let plane = Plane::from_fn(9, 7, |x, y| if [(3, 2), (5, 4)].contains(&(x, y)) { 1.0 } else { 0.0 });
        assert_eq!(plane.bounds(0.5), Some(Region { left: 3, top: 2, width: 3, height: 3 }));
        assert_eq!(plane.bounds(1.0), None);
        let grown = Region { left: 3, top: 2, width: 3, height: 3 }.grown(3).clipped_to(Region::covering(&plane));
        assert_eq!(grown, Region { left: 0, top: 0, width: 9, height: 7 });
    }

    #[test]
    fn windows_reach_beyond_the_borders() {
        let plane = Plane::from_fn(3, 2, |x, y| (10 * y + x) as f32);
        let window = plane.window(Region::covering(&plane).grown(2));
        assert_eq!(window.row(0), [0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0]);
        assert_eq!(window.row(5), [10.0, 10.0, 10.0, 11.0, 12.0, 12.0, 12.0]);
        let outside = plane.window(Region { left: 7, top: -9, width: 2, height: 1 });
        assert_eq!(outside.row(0), [2.0, 2.0]);
        let before = plane.window(Region { left: -7, top: 9, width: 2, height: 1 });
        assert_eq!(before.row(0), [10.0, 10.0]);
    }
}
