//! Direction field of a picture, with the filters that follow it: strokes, coherent lines and edge-preserving
//! smoothing.

use rayon::prelude::*;

use super::bands::{draw_plane, smooth};
use super::working::Colours;
use crate::plane::Plane;

/// Maximum number of steps along the flow to each side; longer distances use longer steps.
const STEPS_MAX: f32 = 4.0;

/// Direction of the edges at every pixel, as unit vectors.
#[derive(Debug)]
pub struct Tangents {
    width: usize,
    height: usize,
    /// Unit vectors, across and down, in row-major order.
    along: Vec<[f32; 2]>,
}

impl Tangents {
    /// Computes the directions from the structure tensor, smoothed over `radius` pixels. The tensor doubles the angles
    /// of gradients, so the opposite gradients on the two sides of a line add up instead of cancelling out.
    pub fn from_lightness(lightness: &Plane, radius: usize) -> Self {
        let width = lightness.width();
        let height = lightness.height();

        // Brightness differences across and down.
        let slope = |x: usize, y: usize| {
            let row = lightness.row(y);
            let right = (x + 1).min(width - 1);
            let bottom = (y + 1).min(height - 1);
            let across = row[right] - row[x.saturating_sub(1)];
            (across, lightness.row(bottom)[x] - lightness.row(y.saturating_sub(1))[x])
        };

        let squares = draw_plane(width, height, |x, y| {
            let (across, down) = slope(x, y);
            across * across - down * down
        });
        let products = draw_plane(width, height, |x, y| {
            let (across, down) = slope(x, y);
            2.0 * across * down
        });

        let (cosine, sine) = rayon::join(|| smooth(&squares, radius), || smooth(&products, radius));
        let along = cosine.values().par_iter().zip(sine.values()).map(|(cosine, sine)| tangent(*cosine, *sine));
        Self { width, height, along: along.collect() }
    }

    /// Returns the mean of the samples up to `length` pixels along the flow on both sides.
    pub fn smooth(&self, plane: &Plane, length: f32) -> Plane {
        let sampling = FlowSampling::with_length(length);
        draw_plane(self.width, self.height, |x, y| {
            let mut sum = plane.row(y)[x];
            self.visit_flow((x, y), sampling, |index| sum += plane.values()[index]);
            sum * sampling.weight
        })
    }

    /// Smooths all planes of a picture like [`Tangents::smooth`].
    pub fn smooth_colours(&self, source: &Colours, length: f32) -> Colours {
        let sampling = FlowSampling::with_length(length);
        let mut result = Colours::new(self.width, self.height);

        result.par_bands_mut(1).enumerate().for_each(|(y, [l, a, b])| {
            for x in 0..self.width {
                let mut sum = source.at(y * self.width + x);
                self.visit_flow((x, y), sampling, |index| {
                    let colour = source.at(index);
                    sum = std::array::from_fn(|at| sum[at] + colour[at]);
                });
                [l[x], a[x], b[x]] = sum.map(|part| part * sampling.weight);
            }
        });

        result
    }

    /// Calls `visit` with the row-major index of each sampled pixel along the flow through a pixel, first in one
    /// direction and then in the other.
    fn visit_flow(&self, (x, y): (usize, usize), sampling: FlowSampling, mut visit: impl FnMut(usize)) {
        let right = (self.width - 1) as f32;
        let bottom = (self.height - 1) as f32;

        for direction in [1.0, -1.0] {
            let mut point = [x as f32, y as f32];
            let mut step = self.along[y * self.width + x].map(|part| direction * sampling.stride * part);

            for _ in 0..sampling.steps {
                point = [(point[0] + step[0]).clamp(0.0, right), (point[1] + step[1]).clamp(0.0, bottom)];

                let index = (point[1] + 0.5) as usize * self.width + (point[0] + 0.5) as usize;
                visit(index);

                let next = self.along[index];
                let turned = sampling.stride.copysign(next[0] * step[0] + next[1] * step[1]);
                step = next.map(|part| turned * part);
            }
        }
    }
}

/// Sampling of a distance along the flow.
#[derive(Debug, Clone, Copy)]
struct FlowSampling {
    /// Number of steps in each direction.
    steps: usize,
    /// Length of a step in pixels.
    stride: f32,
    /// Weight of each sample.
    weight: f32,
}

impl FlowSampling {
    /// Returns the sampling of `length` pixels on each side.
    fn with_length(length: f32) -> Self {
        let steps = (length + 0.5).clamp(1.0, STEPS_MAX).floor();
        Self { steps: steps as usize, stride: (length / steps).max(1.0), weight: 1.0 / (2.0 * steps + 1.0) }
    }
}

/// Returns the unit vector at right angles to the gradient. Arguments are proportional to the cosine and sine of the
/// gradient's doubled angle.
fn tangent(cosine: f32, sine: f32) -> [f32; 2] {
    let length = (cosine * cosine + sine * sine).sqrt();
    if length < 1e-12 {
        return [1.0, 0.0];
    }
    let across = (0.5 + 0.5 * cosine / length).max(0.0).sqrt();
    let down = (0.5 - 0.5 * cosine / length).max(0.0).sqrt().copysign(sine);
    [-down, across]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;
    use crate::plane::Region;

    #[test]
    fn the_flow_runs_along_stripes() {
        let stripes = Plane::from_fn(60, 60, |x, y| 0.5 + 0.4 * (0.2 * (x as f32 + 2.0 * y as f32)).sin());
        let tangents = Tangents::from_lightness(&stripes, 3);
        let [x, y] = tangents.along[30 * 60 + 30];
        assert!((x * 1.0 + y * 2.0).abs() < 0.1 && (x * x + y * y - 1.0).abs() < 1e-3, "{x} {y}");
    }

    #[test]
    fn smoothing_along_the_flow_removes_noise_and_keeps_stripes() {
        let stripe = |x: usize| 0.5 + 0.3 * (0.7 * x as f32).sin();
        let noise = noise::white(Region { left: 0, top: 0, width: 60, height: 60 }, 1);
        let rough = Plane::from_fn(60, 60, |x, y| stripe(x) + 0.05 * noise.row(y)[x]);
        let smoothed = Tangents::from_lightness(&rough, 3).smooth(&rough, 6.0);
        let error = |plane: &Plane| {
            let away = |x: usize, y: usize| (plane.row(y)[x] - stripe(x)).powi(2);
            (10..50).flat_map(|y| (10..50).map(move |x| (x, y))).map(|(x, y)| away(x, y)).sum::<f32>()
        };
        assert!(error(&smoothed) < 0.4 * error(&rough), "{} {}", error(&smoothed), error(&rough));
    }
}
