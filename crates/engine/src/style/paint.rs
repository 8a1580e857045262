//! Painterly filters: areas, lines, relief and strokes.

use rayon::prelude::*;

use super::bands::{ROWS, draw_plane, smooth};
use super::flow::Tangents;
use super::working::Colours;
use crate::noise;
use crate::plane::{Plane, Region};

/// Weight of colour differences relative to lightness differences when areas are compared.
const COLOUR_WEIGHT: f32 = 1.5;

/// Flattens a picture into areas (Kuwahara filter with soft weights): every pixel becomes the weighted mean of nine
/// discs in and around it, in which even discs dominate. Edges become crisp, and details smaller than the discs vanish.
pub fn areas(source: &Colours, radius: usize) -> Colours {
    let mean = source.map(|plane| smooth(plane, radius));

    let mut squares = source.l.clone();
    for (index, value) in squares.values_mut().iter_mut().enumerate() {
        *value = energy(source.at(index));
    }

    let mut spread = smooth(&squares, radius);
    for (index, value) in spread.values_mut().iter_mut().enumerate() {
        *value = weight((*value - energy(mean.at(index))).max(0.0));
    }

    let mut result = Colours::new(source.l.width(), source.l.height());
    result
        .par_bands_mut(ROWS)
        .enumerate()
        .for_each(|(band, target)| average_discs(&mean, &spread, radius, band, target));
    result
}

/// Moves the painting towards that of a finer brush where the two differ strongly: eyes return, pores do not.
pub fn add_features(painted: &mut Colours, finer: &Colours, share: f32) {
    let Colours { l, a, b } = painted;
    let fine = finer.l.values().iter().zip(finer.a.values()).zip(finer.b.values());
    for (((l, a), b), ((fine_l, fine_a), fine_b)) in
        l.values_mut().iter_mut().zip(a.values_mut()).zip(b.values_mut()).zip(fine)
    {
        let [miss_l, miss_a, miss_b] = [fine_l - *l, fine_a - *a, fine_b - *b];
        let error = energy([miss_l, miss_a, miss_b]).sqrt();
        // Features are usually darker than the area around them, so dark deviations count more.
        let error = error + 0.5 * (-miss_l).max(0.0);

        let blend = (share * ((error - 0.05) * 12.0)).clamp(0.0, share.min(1.0));
        (*l, *a, *b) = (*l + blend * miss_l, *a + blend * miss_a, *b + blend * miss_b);
    }
}

/// Returns the squared magnitude of a colour or of a difference of colours.
fn energy([l, a, b]: [f32; 3]) -> f32 {
    l * l + COLOUR_WEIGHT * (a * a + b * b)
}

/// Returns the weight of a disc from the variance of its colours. Even discs are favoured strongly.
fn weight(variance: f32) -> f32 {
    let even = 1.0 / (1.0 + 2500.0 * variance);
    even * even * even * even + 1e-7
}

/// Writes a band of rows: for every pixel, the mean of its nine discs, weighted by `weights`.
fn average_discs(mean: &Colours, weights: &Plane, radius: usize, band: usize, [l, a, b]: [&mut [f32]; 3]) {
    let width = weights.width();
    let reach = 2 * radius;
    let rows = l.len() / width;
    let region = Region { left: 0, top: (band * ROWS) as isize, width, height: rows }.grown(reach);
    let windows = [&mean.l, &mean.a, &mean.b, weights].map(|plane| plane.window(region));

    let offsets = offsets(radius);

    for y in 0..rows {
        // For each pixel: the weighted sums of the three components, and the sum of the weights.
        let mut sums = vec![[0.0_f32; 4]; width];
        for (right, down) in offsets {
            let row = (y + reach).wrapping_add_signed(down);
            let left = reach.wrapping_add_signed(right);
            let [lights, reds, yellows, weight] = [0, 1, 2, 3].map(|at| &windows[at].row(row)[left..left + width]);

            for (x, sum) in sums.iter_mut().enumerate() {
                let weight = weight[x];
                *sum = [
                    sum[0] + weight * lights[x],
                    sum[1] + weight * reds[x],
                    sum[2] + weight * yellows[x],
                    sum[3] + weight,
                ];
            }
        }

        for (x, [light, red, yellow, weight]) in sums.into_iter().enumerate() {
            let at = y * width + x;
            let scale = 1.0 / weight;
            [l[at], a[at], b[at]] = [light * scale, red * scale, yellow * scale];
        }
    }
}

/// Returns the centres of the discs, right and down: the pixel itself and eight around it.
fn offsets(radius: usize) -> [(isize, isize); 9] {
    // `s` for straight and `d` for diagonal neighbours; both are 1.5 radii away (1.06 is 1.5 divided by the root of 2).
    let s = (1.5 * radius as f32 + 0.5) as isize;
    let d = (1.06 * radius as f32 + 0.5) as isize;
    [(0, 0), (s, 0), (-s, 0), (0, s), (0, -s), (d, d), (d, -d), (-d, d), (-d, -d)]
}

/// Returns the strength of dark lines relative to the area around them, smoothed along the flow so that strokes are
/// continuous. `radius` is about half of the line width.
pub fn lines(lightness: &Plane, tangents: &Tangents, radius: usize, length: f32) -> Plane {
    let (mut narrow, wide) = rayon::join(|| smooth(lightness, radius), || smooth(lightness, 2 * radius + 1));
    narrow.combine(&wide, |narrow, wide| (wide - narrow) / (0.25 + wide));
    tangents.smooth(&narrow, length)
}

/// Returns the strength from which a line is drawn: that of the strongest `share` of the pixels, within limits. It
/// selects only the main lines of a busy picture and no noise of a plain one.
pub fn line_threshold(lines: &Plane, share: f32) -> f32 {
    let step = (lines.values().len() / 20_000).max(1);
    let mut sample: Vec<f32> = lines.values().iter().copied().step_by(step).collect();
    sample.sort_unstable_by(f32::total_cmp);
    let at = ((1.0 - share) * (sample.len() - 1) as f32) as usize;
    sample[at].clamp(0.008, 0.04)
}

/// Edge strength of smooth shading and of the steps of 8-bit gradients, which bound no form.
const SHADING: f32 = 0.06;

/// Minimum deviation of slopes in a picture with forms. Scaling smaller slopes to full shading would turn the steps of
/// a gradient into rings.
const SLOPE_MIN: f32 = 0.025;

/// Returns the shading of forms that bulge between edges, lit from above: -1 in shadow to 1 in light.
pub fn relief(lightness: &Plane, radius: usize) -> Plane {
    let width = lightness.width();
    let height = lightness.height();

    let edges = draw_plane(width, height, |x, y| {
        let row = lightness.row(y);
        let across = row[(x + 1).min(width - 1)] - row[x.saturating_sub(1)];
        let down = lightness.row((y + 1).min(height - 1))[x] - lightness.row(y.saturating_sub(1))[x];
        (6.0 * (across * across + down * down).sqrt() - SHADING).clamp(0.0, 1.0)
    });

    let mut swell = smooth(&edges, radius);
    swell.combine(lightness, |edges, lightness| 0.25 * lightness - edges);
    let swell = smooth(&swell, (radius / 3).max(1));

    let reach = (radius / 3).max(1);
    let slope = draw_plane(width, height, |x, y| {
        let upper = swell.row(y.saturating_sub(reach))[x.saturating_sub(reach)];
        swell.row((y + reach).min(height - 1))[(x + reach).min(width - 1)] - upper
    });

    compress(slope)
}

/// Compresses values into -1 to 1, scaled by their deviation.
fn compress(mut plane: Plane) -> Plane {
    let scale = 1.0 / (1.5 * deviation(plane.values()).max(SLOPE_MIN));
    plane.values_mut().iter_mut().for_each(|value| {
        let scaled = *value * scale;
        *value = scaled / (1.0 + scaled.abs());
    });
    plane
}

/// Returns brush strokes along the flow, lit from the side: mean 0, deviation about 1.
pub fn strokes(tangents: &Tangents, size: (usize, usize), radius: usize, seed: u32) -> Plane {
    let (width, height) = size;

    let grain = draw_plane(width, height, |x, y| f32::from(noise::hash(x as u32, y as u32, seed).to_le_bytes()[1]));
    let grain = tangents.smooth(&smooth(&grain, radius), 3.0 * radius as f32);
    let bristles = tangents.smooth(&grain, 5.0 * radius as f32);

    let mut lit = draw_plane(width, height, |x, y| {
        let upper = bristles.row(y.saturating_sub(radius))[x.saturating_sub(radius)];
        bristles.row((y + radius).min(height - 1))[(x + radius).min(width - 1)] - upper
    });

    let scale = 1.0 / deviation(lit.values()).max(1e-6);
    lit.values_mut().iter_mut().for_each(|value| *value = (*value * scale).clamp(-2.5, 2.5));
    lit
}

/// Returns the standard deviation around zero.
pub fn deviation(values: &[f32]) -> f32 {
    let sum: f64 = values.iter().map(|value| f64::from(value * value)).sum();
    (sum / values.len().max(1) as f64).sqrt() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(noise: f32) -> Colours {
        let grain = noise::white(Region { left: 0, top: 0, width: 80, height: 60 }, 1);
        let l = Plane::from_fn(80, 60, |x, y| noise * grain.row(y)[x] + if x < 40 { 0.3 } else { 0.7 });
        Colours { a: Plane::new(80, 60), b: Plane::new(80, 60), l }
    }

    #[test]
    fn areas_are_plain_and_their_edges_stay() {
        let areas = areas(&step(0.03), 2);
        let row = areas.l.row(30);
        assert!(row[42] - row[37] > 0.36, "{:?}", &row[36..44]);
        assert!(deviation(&row[5..33].iter().map(|value| value - 0.3).collect::<Vec<_>>()) < 0.012);
    }

    #[test]
    fn lines_are_found_on_the_dark_side_of_edges_only() {
        let lightness = step(0.0).l;
        let lines = lines(&lightness, &Tangents::from_lightness(&lightness, 2), 1, 3.0);
        assert!(lines.row(30)[39] > 0.05);
        assert!(lines.row(30)[40] < 0.0);
        assert!(lines.row(30)[10].abs() < 1e-4);
    }

    #[test]
    fn strokes_run_along_the_flow() {
        let stripes = Plane::from_fn(120, 120, |x, _| 0.5 + 0.4 * (0.5 * x as f32).sin());
        let strokes = strokes(&Tangents::from_lightness(&stripes, 3), (120, 120), 1, 5);
        let change = |right: usize, down: usize| {
            let pairs = (20..100).flat_map(|y| (20..100).map(move |x| (x, y)));
            pairs.map(|(x, y)| (strokes.row(y + down)[x + right] - strokes.row(y)[x]).abs()).sum::<f32>()
        };
        assert!(change(0, 1) < 0.6 * change(1, 0), "{} {}", change(0, 1), change(1, 0));
    }

    #[test]
    fn forms_are_lit_from_above_and_dark_below() {
        let disc = Plane::from_fn(90, 90, |x, y| {
            let x = x as f32 - 45.0;
            let y = y as f32 - 45.0;
            if x * x + y * y < 900.0 { 0.6 } else { 0.3 }
        });
        let relief = relief(&disc, 8);
        assert!(relief.row(30)[30] > 0.2 && relief.row(60)[60] < -0.2, "{} {}", relief.row(30)[30], relief.row(60)[60]);
    }
}
