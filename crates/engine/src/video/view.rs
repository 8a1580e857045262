//! Rendering of a picture with known depth from a camera pose.
//!
//! The picture is rendered by backward mapping: for each position of the frame, the nearest visible part of the picture
//! is searched along the line of sight, from near to far. This runs on a grid and is interpolated between its points.
//! Near objects therefore cover far ones without holes, and disoccluded areas show what was beside the object. A frame
//! uses one thread; groups of frames run in parallel.

use super::camera::{FAR, NEAR, Pose};
use super::depth::Depth;
use super::raster::{Raster, Size, Vec2};

/// Distance of grid points in pixels.
const GRID: usize = 4;
/// Number of distances that are tested.
const STEPS: usize = 10;

/// Picture with its depth.
#[derive(Debug, Clone)]
pub struct View {
    pub picture: Raster,
    pub depth: Depth,
}

/// Displacement of positions in a picture before they are sampled.
pub type ViewBend<'a> = &'a (dyn Fn(Vec2) -> Vec2 + Sync);

impl View {
    /// Creates a view with estimated depth.
    #[must_use]
    pub fn from_picture(picture: Raster) -> Self {
        Self { depth: Depth::estimate(&picture), picture }
    }

    /// Returns the pose with the zoom that a frame within this picture requires.
    #[must_use]
    pub fn limited_to(&self, pose: &Pose, frame: Size) -> Pose {
        pose.limited_to(frame.aspect(), self.picture.size().aspect(), |point| self.depth.at(point))
    }

    /// Draws the view from a pose, and bends it if requested.
    pub fn draw(&self, pose: &Pose, bend: Option<ViewBend<'_>>, frame: &mut Raster) {
        if *pose == Pose::OWN && bend.is_none() && frame.size() == self.picture.size() {
            frame.pixels_mut().copy_from_slice(self.picture.pixels());
            return;
        }

        let size = frame.size();
        let grid = Grid::new(size, |point| {
            let source_point = self.find_source(pose, point);
            bend.map_or(source_point, |bend| bend(source_point))
        });

        let width = self.picture.size().width as f32;
        let height = self.picture.size().height as f32;
        let half = height * 0.5;

        for y in 0..size.height {
            let row = grid.row(y);
            for (x, pixel) in frame.row_mut(y).iter_mut().enumerate() {
                let [across, down] = Grid::interpolate(&row, x);
                *pixel = self.picture.sample(across * half + 0.5 * (width - 1.0), down * half + 0.5 * (height - 1.0));
            }
        }
    }

    /// Returns the position of the picture that is visible at a position of the frame.
    fn find_source(&self, pose: &Pose, point: Vec2) -> Vec2 {
        // Without drift, the source is the same at every distance.
        if pose.drift.iter().all(|part| *part == 0.0) {
            return pose.source(point, NEAR);
        }

        let step = (NEAR - FAR) / (STEPS - 1) as f32;
        // Tested nearness of the previous step, and its excess over the nearness of the picture there.
        let mut previous: Option<(f32, f32)> = None;

        for index in 0..STEPS {
            let near = NEAR - step * index as f32;
            let excess = near - self.depth.at(pose.source(point, near));
            if excess <= 0.0 {
                // The line of sight meets the picture between the previous distance and this one.
                let near = previous.map_or(near, |(previous_near, previous_excess)| {
                    previous_near + (near - previous_near) * previous_excess / (previous_excess - excess)
                });
                return pose.source(point, near);
            }

            previous = Some((near, excess));
        }

        pose.source(point, FAR)
    }
}

/// Source positions for every [`GRID`]th pixel of a frame.
struct Grid {
    /// Number of points in a row.
    columns: usize,
    source_points: Vec<Vec2>,
}

impl Grid {
    /// Computes the source position of every grid point of a frame.
    fn new(size: Size, source_of: impl Fn(Vec2) -> Vec2 + Sync) -> Self {
        let columns = size.width.div_ceil(GRID) + 1;
        let rows = size.height.div_ceil(GRID) + 1;
        let half = size.height as f32 * 0.5;
        let at = |index: usize, length: usize| ((index * GRID) as f32 + 0.5 - length as f32 * 0.5) / half;
        let source_points = (0..rows * columns)
            .map(|index| source_of([at(index % columns, size.width), at(index / columns, size.height)]));
        Self { columns, source_points: source_points.collect() }
    }

    /// Returns the source positions of the grid columns in row `y` of the frame.
    fn row(&self, y: usize) -> Vec<Vec2> {
        let above = y / GRID;
        let fraction = (y % GRID) as f32 / GRID as f32;
        let upper = &self.source_points[above * self.columns..][..self.columns];
        let lower = &self.source_points[(above + 1) * self.columns..][..self.columns];
        let mix = |(a, b): (&Vec2, &Vec2)| [a[0] + fraction * (b[0] - a[0]), a[1] + fraction * (b[1] - a[1])];
        upper.iter().zip(lower).map(mix).collect()
    }

    /// Returns the source position of column `x`, from those of the grid columns.
    fn interpolate(row: &[Vec2], x: usize) -> Vec2 {
        let a = row[x / GRID];
        let b = row[x / GRID + 1];
        let fraction = (x % GRID) as f32 / GRID as f32;
        [a[0] + fraction * (b[0] - a[0]), a[1] + fraction * (b[1] - a[1])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::Plane;
    use crate::video::MotionAmount;
    use crate::video::camera::Track;
    use crate::video::words::VideoKeywords;

    const SIZE: Size = Size { width: 96, height: 64 };

    /// Returns a near red square in front of a far gradient from left to right.
    fn view() -> View {
        let in_box = |x: usize, y: usize| (36..60).contains(&x) && (20..44).contains(&y);
        let picture =
            Raster::from_fn(
                SIZE,
                |x, y| {
                    if in_box(x, y) { [1.0, 0.0, 0.0, 1.0] } else { [0.0, x as f32 / 95.0, 0.0, 1.0] }
                },
            );
        let map = Plane::from_fn(96, 64, |x, y| if in_box(x, y) { 1.0 } else { 0.0 });
        View { picture, depth: Depth::from_map(map, SIZE.aspect()) }
    }

    fn render_view(pose: Pose) -> Raster {
        let mut frame = Raster::new(SIZE);
        view().draw(&pose, None, &mut frame);
        frame
    }

    #[test]
    fn the_own_pose_shows_the_picture_unchanged() {
        assert_eq!(render_view(Pose::OWN), view().picture);
        let nearly = render_view(Pose { zoom: 1.000_001, ..Pose::OWN });
        let original = view().picture;
        let error = nearly.pixels().iter().zip(original.pixels()).map(|(a, b)| (a[1] - b[1]).abs());
        assert!(error.fold(0.0, f32::max) < 1e-3, "a tiny zoom changes the picture visibly");
    }

    #[test]
    fn near_pixels_move_more_and_occlude_far_ones() {
        // At a shift of a quarter of half the height, near objects move 8 pixels to the left and far ones 2.
        let frame = render_view(Pose { drift: [0.25, 0.0, 0.0], ..Pose::OWN });
        let row = frame.row(32);
        assert!(row[40][0] > 0.9 && row[31][0] > 0.9, "the square is seen further left");
        assert!(row[58][0] < 0.1, "and no longer where it was");
        let far = (row[80][1] - 82.0 / 95.0).abs();
        assert!(far < 0.01, "{far}");
        assert!(row.iter().all(|pixel| pixel[0] + pixel[1] > 0.01), "without holes");
    }

    #[test]
    fn a_bend_displaces_pixels() {
        let mut frame = Raster::new(SIZE);
        view().draw(&Pose::OWN, Some(&|[x, y]| [x + 4.0 / 32.0, y]), &mut frame);
        assert!((frame.row(5)[10][1] - 14.0 / 95.0).abs() < 1e-3, "the pixels are not 4 columns from their place");
    }

    #[test]
    fn the_largest_orbit_keeps_straight_lines_nearly_straight() {
        // Given posts in front of a wall and on the floor
        let size = Size { width: 240, height: 160 };
        let picture = Raster::from_fn(size, |x, y| match (x, y) {
            (118..122, _) => [0.1, 0.1, 0.1, 1.0],
            (100..140, 60..140) => [0.7, 0.2, 0.15, 1.0],
            (_, 96..) => [0.45, 0.4, 0.32, 1.0],
            _ => [0.75, 0.72, 0.66, 1.0],
        });
        let view = View::from_picture(picture);
        let keywords = VideoKeywords::from_prompt("fast orbit right");
        let pose = Track::from_keywords(&keywords, MotionAmount::Large, 8.0, 7).at(1.0);

        // When the camera has moved as far as it can
        let mut frame = Raster::new(size);
        view.draw(&view.limited_to(&pose, size), None, &mut frame);

        // Then no post is bent by more than a few percent of the height
        let darkest = |y: usize| {
            let row = frame.row(y).iter().enumerate();
            row.min_by(|a, b| a.1[0].total_cmp(&b.1[0])).map_or(0.0, |(x, _)| x as f32)
        };
        let [top, bottom] = [darkest(4), darkest(155)];
        let bend =
            (4..156).map(|y| (darkest(y) - top - (bottom - top) * (y as f32 - 4.0) / 151.0).abs()).fold(0.0, f32::max);
        assert!(bend < 0.04 * 160.0, "{bend} pixels");
    }
}
