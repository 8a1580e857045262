//! Computation of the new light: exposure and colour for every sample of the overview, from a map, a reference or the
//! words of a prompt.

use super::words::RequestedLight;
use crate::filters::smooth;
use crate::guide::{Guide, Overview, stretch};
use crate::light::{luminance, ramp, stops_of, to_srgb};
use crate::noise::hash;
use crate::plane::{Plane, Region};

/// Change of light for every sample of the overview.
#[derive(Debug, Clone)]
pub struct LightField {
    /// Change of exposure in stops.
    pub stops: Plane,
    /// Additional change of red, green and blue in stops.
    pub tint: [Plane; 3],
}

/// Luminance, 0 to 1, below which light has no measurable colour.
const DARK: f32 = 0.01;
/// Maximum change of exposure in stops.
const STOPS_MAX: f32 = 4.0;
/// Maximum change of colour in stops.
const TINT_MAX: f32 = 1.3;

impl LightField {
    /// Returns a field without change.
    #[must_use]
    pub fn none(overview: &Overview) -> Self {
        let plane = Plane::new(overview.width(), overview.height());
        Self { stops: plane.clone(), tint: [plane.clone(), plane.clone(), plane] }
    }

    /// Returns the light of a map: white is lit, black is dark, and colour is the colour of the light.
    #[must_use]
    pub fn from_map(overview: &Overview, map: &Overview) -> Self {
        let radius = (map.width().max(map.height()) / 100).max(1);
        let smoothed = |plane: &Plane| resized_to(&smooth(plane, radius), overview);

        let mut stops = smoothed(&map.map(|light| to_srgb(luminance(light))));
        // Black removes 3.9 stops and white adds 1.5.
        stops.values_mut().iter_mut().for_each(|value| *value = 5.4 * *value - 3.9);

        let tint = [0, 1, 2].map(|at| smoothed(&map.map(|light| colour(light)[at])));
        Self { stops, tint }
    }

    /// Returns the light of a reference: its distribution of brightness, roughly at the same positions, with the
    /// colours of its shadows in shadows and of its highlights in highlights.
    #[must_use]
    pub fn from_reference(overview: &Overview, reference: &Overview) -> Self {
        let own_form = stops_without_detail(overview);
        let reference_form = stops_without_detail(reference);
        let own_quantiles = Quantiles::from_plane(&own_form);
        let reference_quantiles = Quantiles::from_plane(&reference_form);
        let own_wide = centred_blur(&own_form);
        let reference_wide = resized_to(&centred_blur(&reference_form), overview);

        let mut stops = own_form.clone();
        let samples = stops.values_mut().iter_mut().zip(own_wide.values()).zip(reference_wide.values());
        for ((value, own_wide), reference_wide) in samples {
            // Towards the reference's tone of the same rank, and from the picture's own distribution of light over the
            // area towards that of the reference.
            let tones = reference_quantiles.at(own_quantiles.rank(*value)) - *value;
            *value = (0.75 * tones + 0.6 * reference_wide - 0.35 * own_wide).clamp(-STOPS_MAX, STOPS_MAX);
        }

        let own_colours = zone_colours(overview, &own_form, &own_quantiles);
        let reference_colours = zone_colours(reference, &reference_form, &reference_quantiles);
        let tint = [0, 1, 2].map(|at| {
            let mut tint = own_form.clone();
            tint.values_mut().iter_mut().for_each(|value| {
                let weights = zone_weights(own_quantiles.rank(*value));
                let change: f32 =
                    (0..3).map(|zone| weights[zone] * (reference_colours[zone][at] - own_colours[zone][at])).sum();
                *value = (0.9 * change).clamp(-TINT_MAX, TINT_MAX);
            });
            tint
        });

        Self { stops, tint }
    }

    /// Returns the light that the words of a prompt describe. `subject` marks the subject, which is shaded like a round
    /// body. If the words give no direction, `seed` chooses one; without a seed, the light has no direction.
    #[must_use]
    pub fn from_request(overview: &Overview, request: &RequestedLight, subject: &Plane, seed: Option<u32>) -> Self {
        let lit = compute_lit_share(overview, request, subject, seed);
        let contrast = request.contrast.clamp(-1.5, 1.2).exp2();

        let ambient = request.front.clamp(0.0, 1.0);

        let mut field = Self::none(overview);

        for (stops, lit) in field.stops.values_mut().iter_mut().zip(lit.values()) {
            // At the default contrast, from -2 stops in the shade to 1.2 stops in full light.
            let shaped = -2.0 * contrast + (1.2 * contrast.sqrt() + 2.0 * contrast) * lit;
            *stops = (request.stops + (1.0 - 0.8 * ambient) * shaped).clamp(-STOPS_MAX, STOPS_MAX);
        }

        for (at, tint) in field.tint.iter_mut().enumerate() {
            for (tint, lit) in tint.values_mut().iter_mut().zip(lit.values()) {
                let mixed = request.shade[at] + lit * (request.lit[at] - request.shade[at]);
                *tint = mixed.clamp(-TINT_MAX, TINT_MAX);
            }
        }

        field
    }

    /// Adds another field, scaled by `share`.
    pub fn add(&mut self, other: &Self, share: f32) {
        let planes = [&mut self.stops].into_iter().chain(&mut self.tint);
        for (plane, other) in planes.zip([&other.stops].into_iter().chain(&other.tint)) {
            plane.combine(other, |value, other| value + share * other);
        }
    }
}

/// Returns the colour of light: red, green and blue in stops relative to its luminance.
fn colour(light: [f32; 3]) -> [f32; 3] {
    let brightness = luminance(light);
    // The colour of dark light is unreliable.
    let confidence = ramp(brightness, 0.0, 3.0 * DARK);
    light.map(|part| {
        (confidence * (stops_of(part.max(0.0) + DARK) - stops_of(brightness.max(0.0) + DARK)))
            .clamp(-TINT_MAX, TINT_MAX)
    })
}

/// Returns the luminance in stops, smoothed between edges.
fn stops_without_detail(overview: &Overview) -> Plane {
    // The offset keeps the logarithm of black finite.
    let stops = overview.map(|light| stops_of(luminance(light).max(0.0) + 0.002));
    let guide = overview.map(|light| to_srgb(luminance(light)));
    let radius = (overview.width().min(overview.height()) / 24).max(1);
    Guide::wide(&guide, radius).fit(&stops, 0.12).small(&guide)
}

/// Returns the strongly smoothed values, shifted to a mean of zero.
fn centred_blur(stops: &Plane) -> Plane {
    let mut wide = smooth(stops, (stops.width().max(stops.height()) / 8).max(1));
    let mean = wide.values().iter().sum::<f32>() / wide.values().len() as f32;
    wide.values_mut().iter_mut().for_each(|value| *value -= mean);
    wide
}

/// Resizes a plane of another picture to the size of `overview`.
fn resized_to(plane: &Plane, overview: &Overview) -> Plane {
    let whole = Region { left: 0, top: 0, width: overview.width(), height: overview.height() };
    let scale = [plane.width() as f32 / whole.width as f32, plane.height() as f32 / whole.height as f32];
    // Averages first if the other picture is larger, to avoid aliasing.
    let radius = (scale[0].max(scale[1]) / 2.0) as usize;
    stretch(&smooth(plane, radius), scale, whole)
}

/// Number of intervals between the stored quantiles.
const RANKS: usize = 32;

/// Quantiles of the values of a plane.
struct Quantiles([f32; RANKS + 1]);

impl Quantiles {
    /// Computes the quantiles of a plane, which must not be empty.
    fn from_plane(plane: &Plane) -> Self {
        let mut values = plane.values().to_vec();
        values.sort_by(f32::total_cmp);
        Self(std::array::from_fn(|rank| values[rank * (values.len() - 1) / RANKS]))
    }

    /// Returns the rank of a value: the fraction of values below it, 0 to 1.
    fn rank(&self, value: f32) -> f32 {
        let above = self.0.partition_point(|sample| *sample <= value).clamp(1, RANKS);
        let low = self.0[above - 1];
        let high = self.0[above];
        let part = if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 };
        ((above - 1) as f32 + part) / RANKS as f32
    }

    /// Returns the value at a rank from 0 to 1.
    fn at(&self, rank: f32) -> f32 {
        let at = rank.clamp(0.0, 1.0) * RANKS as f32;
        let step = (at as usize).min(RANKS - 1);
        self.0[step] + (at - step as f32) * (self.0[step + 1] - self.0[step])
    }
}

/// Returns the weights of shadows, midtones and highlights at a rank; they add up to 1.
fn zone_weights(rank: f32) -> [f32; 3] {
    let shadow = 1.0 - ramp(rank, 0.1, 0.5);
    let light = ramp(rank, 0.5, 0.9);
    [shadow, 1.0 - shadow - light, light]
}

/// Returns the average colours of shadows, midtones and highlights, each as [`colour`] returns it.
fn zone_colours(overview: &Overview, stops: &Plane, quantiles: &Quantiles) -> [[f32; 3]; 3] {
    // For each zone: the weighted sums of red, green and blue, and the sum of the weights.
    let mut sums = [[0.0_f32; 4]; 3];

    for (light, stops) in overview.colours().zip(stops.values()) {
        let colour = colour(light);
        for (sum, weight) in sums.iter_mut().zip(zone_weights(quantiles.rank(*stops))) {
            (0..3).for_each(|at| sum[at] += weight * colour[at]);
            sum[3] += weight;
        }
    }
    sums.map(|sum| [0, 1, 2].map(|at| sum[at] / (sum[3] + 1e-3)))
}

/// Returns the fraction of the light that reaches every sample, 0 to 1.
fn compute_lit_share(overview: &Overview, request: &RequestedLight, subject: &Plane, seed: Option<u32>) -> Plane {
    let width = overview.width();
    let height = overview.height();

    let from = direction(request, seed);
    let radius = (width.max(height) / 24).max(1);
    let round = smooth(subject, radius);
    let relief = smooth(&overview.map(|light| to_srgb(luminance(light))), radius / 3 + 1);

    let slope = |plane: &Plane, x: usize, y: usize| {
        let right = width - 1;
        let bottom = height - 1;
        let across = plane.row(y)[(x + 1).min(right)] - plane.row(y)[x.saturating_sub(1)];
        let down = plane.row((y + 1).min(bottom))[x] - plane.row(y.saturating_sub(1))[x];
        [across, down].map(|part| part * radius as f32)
    };

    Plane::from_fn(width, height, |x, y| {
        let across = 2.0 * (x as f32 + 0.5) / width as f32 - 1.0;
        let down = 2.0 * (y as f32 + 0.5) / height as f32 - 1.0;

        // A subject is shaded like a round body: edges that face the light are lit.
        let edge = slope(&round, x, y);
        let bump = slope(&relief, x, y);
        let subject_share = subject.row(y)[x];
        // The background has no such shape, so it is not shaded by its edges.
        let facing = -subject_share * (edge[0] * from[0] + edge[1] * from[1]);
        let bumps = -(bump[0] * from[0] + bump[1] * from[1]).clamp(-0.4, 0.4) * (0.3 + 0.7 * subject_share);

        let side = 0.5 * (across * from[0] + down * from[1]);
        let mut lit = ramp(0.5 + 0.75 * side + 0.6 * facing.clamp(-0.6, 0.6) + 0.35 * bumps, 0.05, 0.95);

        if request.behind > 0.0 {
            let rim = (2.0 * edge[0].hypot(edge[1])).min(1.0) * subject_share;
            lit += request.behind.min(1.0) * ((1.0 - 0.75 * subject_share + 0.6 * rim).min(1.0) - lit);
        }

        if request.spot > 0.0 {
            let centre = (across * across + down * down).sqrt();
            lit += request.spot.min(1.0) * (1.0 - ramp(centre, 0.2, 0.95) - lit);
        }

        lit
    })
}

/// Returns the direction that the light comes from, across and down, at most of length 1. If the prompt names none,
/// `seed` chooses light from above and one side.
fn direction(request: &RequestedLight, seed: Option<u32>) -> [f32; 2] {
    let [across, down] = request.from;
    let strength = across.hypot(down);
    if strength > 0.1 {
        return [across / strength.max(1.0), down / strength.max(1.0)];
    }

    let Some(seed) = seed else { return [0.0; 2] };
    let random = |at: u32| (hash(at, 7, seed) % 1024) as f32 / 1023.0;
    // An angle from the vertical, in radians.
    let side = if random(0) < 0.5 { -1.0 } else { 1.0 } * (0.5 + 0.7 * random(1));
    [side.sin(), -side.cos()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_values_are_inverse() {
        let quantiles = Quantiles::from_plane(&Plane::from_fn(101, 1, |x, _| (x as f32 / 100.0).powi(2)));
        for value in [0.0, 0.1, 0.5, 1.0] {
            assert!((quantiles.at(quantiles.rank(value)) - value).abs() < 0.02, "{value}");
        }
        assert_eq!(quantiles.rank(-5.0).to_bits(), 0.0_f32.to_bits());
        let plain = Quantiles::from_plane(&Plane::from_fn(3, 1, |_, _| 0.4));
        assert!((plain.at(plain.rank(0.4)) - 0.4).abs() < 1e-6);
    }

    #[test]
    fn zone_weights_add_up_to_one() {
        for rank in [0.0, 0.2, 0.5, 0.7, 1.0] {
            assert!((zone_weights(rank).iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }
}
