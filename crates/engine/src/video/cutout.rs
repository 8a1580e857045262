//! Cut-out of a subject with soft edges and without the colours of its old background.
//!
//! The likelihood of the subject is known on a small copy only. Where it is certain, it provides the colours of the
//! subject and of the background nearby. Between them, the coverage of a pixel is the position of its colour between
//! these two, and the share of the background is removed from its colour.

use super::depth::look_up;
use super::raster::Raster;
use crate::filters::smooth;
use crate::light::ramp;
use crate::plane::Plane;

/// Difference between the colours of subject and background up to which they do not tell the coverage of a pixel.
const CONTRAST_MIN: f32 = 0.08;
/// Difference between the colours of subject and background from which they alone tell the coverage.
const CONTRAST_MAX: f32 = 0.25;

/// Radius of the gaps in the outline that are closed, in samples of the likelihood.
const GAP_RADIUS: usize = 3;

/// Maximum mean width of the uncertain outline of a subject that can be cut out, in samples of the likelihood.
const OUTLINE_MAX: f32 = 3.0;

/// Returns `true` if the outline of a subject is certain enough for a cut-out: a likelihood that rises slowly, or in
/// many places, follows no object.
#[must_use]
pub fn has_clear_outline(likelihood: &Plane) -> bool {
    let unsure = likelihood.values().iter().filter(|value| (0.15..0.85).contains(*value)).count();
    let crossings =
        |one: &[f32], other: &[f32]| one.iter().zip(other).filter(|(a, b)| (**a >= 0.5) != (**b >= 0.5)).count();
    let across: usize = likelihood.rows().map(|row| crossings(row, &row[1..])).sum();
    let down: usize = likelihood.rows().zip(likelihood.rows().skip(1)).map(|(row, next)| crossings(row, next)).sum();
    let outline = (across + down) as f32;
    unsure as f32 <= OUTLINE_MAX * outline
}

/// Returns the picture with the subject's coverage. `likelihood` is that of the subject, at any size.
#[must_use]
pub fn cut_out(reference: &Raster, likelihood: &Plane) -> Raster {
    let size = reference.size();
    let likelihood = fill_holes(likelihood);
    let cell = size.width.max(size.height).div_ceil(likelihood.width().max(likelihood.height()));

    let aspect = size.aspect();
    let half = size.height as f32 * 0.5;
    let likely = Plane::from_rows(size.width, size.height, |y, row| {
        let down = (y as f32 + 0.5) / half - 1.0;
        for (x, value) in row.iter_mut().enumerate() {
            *value = look_up(&likelihood, aspect, [(x as f32 + 0.5) / half - aspect, down]);
        }
    });

    // Certain areas keep a distance of about two cells from the edge.
    let around = smooth(&likely, 2 * cell);
    let certain = |from: f32, to: f32| {
        let mut weight = around.clone();
        weight.values_mut().iter_mut().for_each(|value| *value = ramp(*value, from, to));
        weight
    };
    let inside = certain(0.75, 0.95);
    let outside = certain(0.25, 0.05);

    let radius = 4 * cell;
    let subject = nearby(reference, &inside, radius);
    let background = nearby(reference, &outside, radius);

    let mut picture = reference.clone();
    for y in 0..size.height {
        for (x, pixel) in picture.row_mut(y).iter_mut().enumerate() {
            let colours = [&subject, &background].map(|planes| [0, 1, 2, 3].map(|at: usize| planes[at].row(y)[x]));
            let certainties = [inside.row(y)[x], outside.row(y)[x]];
            let (coverage, [red, green, blue]) = matte(*pixel, likely.row(y)[x], certainties, colours);

            // A subject that reaches the sides fades out there to avoid a hard line.
            let side = (x.min(size.width - 1 - x) as f32 / size.width as f32 * 14.0).min(1.0);
            *pixel = [red, green, blue, pixel[3] * coverage * side];
        }
    }
    picture
}

/// Returns the weighted mean colour around each pixel, and the weight that is available there.
fn nearby(picture: &Raster, weight: &Plane, radius: usize) -> [Plane; 4] {
    let available = smooth(weight, radius);
    let mean = |at: usize| {
        let mut channel = picture.channel(at);
        channel.combine(weight, |value, weight| value * weight);
        let mut mean = smooth(&channel, radius);
        mean.combine(&available, |sum, available| sum / available.max(1e-3));
        mean
    };
    let [red, green, blue] = [0, 1, 2].map(mean);
    [red, green, blue, available]
}

/// Returns the coverage of a pixel and the colour of the subject in it. `likely` is the likelihood of the subject;
/// `inside` and `outside` are the certainty that the pixel belongs to the subject or to the background. `subject` and
/// `background` are their colours nearby, with the weight that is available.
fn matte(
    pixel: [f32; 4],
    likely: f32,
    [inside, outside]: [f32; 2],
    [subject, background]: [[f32; 4]; 2],
) -> (f32, [f32; 3]) {
    let own = [pixel[0], pixel[1], pixel[2]];
    if inside >= 1.0 || outside >= 1.0 {
        return (inside, own);
    }

    let between: [f32; 3] = std::array::from_fn(|at| subject[at] - background[at]);
    let length = between.iter().map(|part| part * part).sum::<f32>();
    let position = (0..3).map(|at| between[at] * (own[at] - background[at])).sum::<f32>() / length.max(1e-4);

    let is_known = ramp(subject[3].min(background[3]), 0.002, 0.02);
    let trust = is_known * ramp(length.sqrt(), CONTRAST_MIN, CONTRAST_MAX);
    let guess = ramp(likely, 0.3, 0.7);
    let coverage = guess + trust * (ramp(position, 0.08, 0.92) - guess);
    let coverage = (coverage * (1.0 - outside)).max(inside);

    // The colour without the share of the background; where little of the subject remains, its colour nearby.
    let share = is_known * ramp(coverage, 0.9, 0.3);
    let colour = std::array::from_fn(|at| {
        let foreground = (own[at] - (1.0 - coverage) * background[at]) / coverage.max(0.1);
        let cleaned = own[at] + is_known * (foreground.clamp(0.0, 1.0) - own[at]);
        cleaned + share * (subject[at] - cleaned)
    });
    (coverage, colour)
}

/// Fills areas that the subject encloses. Only areas connected to the border of the picture are background.
fn fill_holes(likelihood: &Plane) -> Plane {
    let width = likelihood.width();
    let height = likelihood.height();
    // Narrow gaps are closed, so that a face does not become background where a bright cheek meets a bright wall.
    let around = smooth(likelihood, GAP_RADIUS);
    let is_free = |at: usize| likelihood.values()[at].max(around.values()[at]) < 0.4;

    let mut is_outside = vec![false; width * height];
    let mut open: Vec<usize> = (0..width * height)
        .filter(|at| at % width == 0 || at % width == width - 1 || at / width == 0 || at / width == height - 1)
        .filter(|at| is_free(*at))
        .collect();
    for at in &open {
        is_outside[*at] = true;
    }

    while let Some(at) = open.pop() {
        let x = at % width;
        let y = at / width;
        let neighbours = [
            (x > 0).then(|| at - 1),
            (x + 1 < width).then(|| at + 1),
            (y > 0).then(|| at - width),
            (y + 1 < height).then(|| at + width),
        ];
        for next in neighbours.into_iter().flatten() {
            if is_free(next) && !is_outside[next] {
                is_outside[next] = true;
                open.push(next);
            }
        }
    }

    let mut filled = likelihood.clone();
    for (at, value) in filled.values_mut().iter_mut().enumerate() {
        if is_free(at) && !is_outside[at] {
            *value = 1.0;
        }
    }
    filled
}
