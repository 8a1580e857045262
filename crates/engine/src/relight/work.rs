//! Relighting of one tile.

use multiversion::multiversion;

use super::field::LightField;
use super::plan::{RelightPlan, affected_share};
use crate::colour::Planes;
use crate::filters::smooth;
use crate::guide::{Guide, GuidedFilter, Overview};
use crate::job::{LightAdjustments, PictureRelight};
use crate::light::{apply_gain, gain_of, light_up, luminance, ramp, stops_of};
use crate::plane::{Plane, Region};

/// Data shared by all tiles of a picture.
#[derive(Debug)]
pub struct RelightContext<'a> {
    overview: &'a Overview,
    plan: RelightPlan,
    preserve_details: bool,
    /// `true` if the result is the average of the relit and the original picture.
    interpolate: bool,
    settings: LightAdjustments,
    /// Strength of the transfer, 0 to 1.
    strength: f32,
    /// Change of exposure in stops.
    stops: GuidedFilter,
    /// Change of red, green and blue in stops, if the light is coloured.
    tint: Option<[GuidedFilter; 3]>,
    /// Surfaces without texture, if the plan smooths them.
    form: Option<GuidedFilter>,
    /// Brightness at a large radius, if the plan changes local contrast.
    base: Option<GuidedFilter>,
    /// Bloom at the size of the overview, if the plan has any.
    glow: Option<Plane>,
    /// Colour cast of greys: blue and red.
    cast: [f32; 2],
}

/// Radius of small text and texture in pixels.
const DETAIL: usize = 2;
/// Pixels around a tile that the relighting reads.
pub const MARGIN: usize = 2 * DETAIL + 2;
/// Tint of the coolest light in stops.
const COOL: [f32; 3] = [-0.55, -0.02, 0.5];

impl<'a> RelightContext<'a> {
    /// Prepares the relighting of tiles. `field` is the computed light. `face` marks where the light may be stronger,
    /// and `subject` where it applies if the background is to be kept.
    #[must_use]
    pub fn new(
        overview: &'a Overview,
        job: &PictureRelight,
        plan: RelightPlan,
        field: LightField,
        face: &Plane,
        subject: &Plane,
    ) -> Self {
        let planes = overview.planes();
        let wide = (overview.width().min(overview.height()) / 16).max(2);

        let field = apply_plan(field, job, &plan, &planes.luma, face, subject);

        let near = Guide::new(&planes.luma, 2);
        let fit = |target: &Plane| near.fit(target, 0.06);
        let coloured = field.tint.iter().any(|tint| tint.values().iter().any(|value| *value != 0.0));

        Self {
            stops: fit(&field.stops),
            tint: coloured.then(|| field.tint.each_ref().map(fit)),
            form: (plan.smooth > 0.0).then(|| Guide::new(&planes.luma, 3).fit_itself(0.06)),
            base: (plan.local_contrast != 0.0).then(|| Guide::wide(&planes.luma, wide).fit_itself(0.2)),
            glow: (plan.glow > 0.0).then(|| glow(overview, &field.stops)),
            cast: measure_cast(planes),
            overview,
            plan,
            preserve_details: job.preserve_details,
            interpolate: job.interpolate_from_original,
            settings: job.advanced,
            strength: job.light_transfer_strength,
        }
    }

    /// Relights a tile that covers `region`.
    pub fn relight(&self, planes: &mut Planes, region: Region) {
        let original = planes.luma.clone();
        self.light_and_grade(planes, &original, region);

        self.restore_detail(&mut planes.luma, &original);

        if self.interpolate {
            average_with(planes.luma.values_mut(), original.values());
        }

        adjust(planes, &self.settings);
    }

    /// Smooths surfaces, applies the light, and adjusts contrast and colour, row by row.
    fn light_and_grade(&self, planes: &mut Planes, original: &Plane, region: Region) {
        let over = |guided: &GuidedFilter| guided.over(self.overview, region);

        let form = self.form.as_ref().map(over);
        let stops = over(&self.stops);
        let base = self.base.as_ref().map(over);

        let tints: Vec<_> = self.tint.iter().flatten().map(over).collect();
        let glow = self.glow.as_ref().map(|glow| self.overview.stretch(glow, region));

        // `line` holds in turn the smooth surface, the light in stops, and the brightness at a large radius.
        let [mut line, mut glow_row, mut own_blue, mut own_red] = [0; 4].map(|_| vec![0.0; region.width]);
        let mut gains = [0; 3].map(|_| vec![0.0; region.width]);

        let bloom = 0.6 * self.plan.glow;

        // Each row consists of luma, blue and red.
        for (y, mut row) in planes.rows_mut().enumerate() {
            own_blue.copy_from_slice(row[1]);
            own_red.copy_from_slice(row[2]);

            if let Some(form) = &form {
                form.fill(y, row[0], &mut line);
                row[0].iter_mut().zip(&line).for_each(|(value, form)| *value += self.plan.smooth * (form - *value));
            }

            stops.fill(y, row[0], &mut line);
            if let Some(glow) = &glow {
                glow.fill(y, &mut glow_row);
            }

            if tints.is_empty() {
                gains[0].iter_mut().zip(&line).for_each(|(gain, stops)| *gain = gain_of(*stops));
                light_up(&mut row, [&gains[0]; 3], &glow_row, bloom);
            } else {
                for (gains, tint) in gains.iter_mut().zip(&tints) {
                    tint.fill(y, row[0], gains);
                    gains.iter_mut().zip(&line).for_each(|(gain, stops)| *gain = gain_of(stops + *gain));
                }
                light_up(&mut row, gains.each_ref().map(Vec::as_slice), &glow_row, bloom);
            }

            match &base {
                Some(base) => base.fill(y, original.row(y), &mut line),
                None => line.copy_from_slice(original.row(y)),
            }
            grade(&mut row, [original.row(y), &own_blue, &own_red], &line, &self.plan, self.cast);

            if self.interpolate {
                average_with(row[1], &own_blue);
                average_with(row[2], &own_red);
            }
        }
    }

    /// Restores the strength of small text and texture, or weakens them with the strength of the light.
    fn restore_detail(&self, luma: &mut Plane, original: &Plane) {
        let soft = smooth(luma, DETAIL);
        if self.preserve_details {
            let share = 0.9 * (1.0 - 0.7 * self.plan.steps);
            let before = smooth(original, DETAIL);
            strengthen_detail(luma.values_mut(), soft.values(), [original.values(), before.values()], share);
        } else {
            luma.combine(&soft, |value, soft| value - 0.4 * self.strength * (value - soft));
        }
    }
}

/// Restores a `share` of the original detail where it has become weaker. Detail is the difference between `luma` and
/// `soft`, and between `original` and `original_soft`; the soft rows are smoothed copies.
#[multiversion(targets("x86_64+avx2"))]
fn strengthen_detail(luma: &mut [f32], soft: &[f32], [original, original_soft]: [&[f32]; 2], share: f32) {
    for ((value, soft), (original, original_soft)) in luma.iter_mut().zip(soft).zip(original.iter().zip(original_soft))
    {
        let fine = *value - soft;
        let before = original - original_soft;
        // Detail that the light made stronger is kept.
        *value += if before.abs() > fine.abs() { share * (before - fine) } else { 0.0 };
    }
}

/// Adjusts contrast and colour. `before` is the original luma, blue and red; `base` is the brightness at a large
/// radius; `cast` is the colour cast of greys, blue and red.
#[multiversion(targets("x86_64+avx2"))]
fn grade(
    [lumas, blues, reds]: &mut [&mut [f32]; 3],
    before: [&[f32]; 3],
    base: &[f32],
    plan: &RelightPlan,
    cast: [f32; 2],
) {
    let [own_lumas, own_blues, own_reds] = before;

    for ((luma, own_luma), base) in lumas.iter_mut().zip(own_lumas).zip(base) {
        let value = luma.clamp(0.0, 1.0);
        let headroom = 4.0 * value * (1.0 - value);
        *luma = value
            + headroom * (plan.contrast * (value - 0.5) + plan.local_contrast * (own_luma - base).clamp(-0.3, 0.3))
            + plan.lift * (1.0 - value).powi(2);
    }

    if plan.steps > 0.0 {
        lumas.iter_mut().for_each(|luma| *luma += 0.7 * plan.steps * (stepped(*luma, 5.0) - *luma));
    }

    let gain = 1.0 + plan.saturation;
    let colours = blues.iter_mut().zip(reds.iter_mut()).zip(own_blues.iter().zip(own_reds));

    for ((blue, red), (own_blue, own_red)) in colours {
        let grey = plan.neutral * (1.0 - ramp((*blue * *blue + *red * *red).sqrt(), 0.04, 0.16));
        *blue = gain * (*blue - grey * cast[0]);
        *red = gain * (*red - grey * cast[1]);

        *blue += plan.keep_colours * (own_blue - *blue);
        *red += plan.keep_colours * (own_red - *red);
    }
}

/// Averages the values with the original ones.
#[multiversion(targets("x86_64+avx2"))]
fn average_with(values: &mut [f32], before: &[f32]) {
    values.iter_mut().zip(before).for_each(|(value, before)| *value = 0.5 * (*value + before));
}

/// Returns the light as the plan changes it: spread, hardened, stepped, cooled and limited to the transferred areas.
fn apply_plan(
    mut field: LightField,
    job: &PictureRelight,
    plan: &RelightPlan,
    luma: &Plane,
    face: &Plane,
    subject: &Plane,
) -> LightField {
    let wide = (luma.width().max(luma.height()) / 10).max(1);
    spread(&mut field.stops, plan.spread, wide);
    harden(&mut field.stops, plan.hardness);

    let transfer_mask = transfer_mask(job, plan, luma, face, subject);
    let values = field.stops.values_mut().iter_mut().zip(transfer_mask.values()).zip(subject.values());
    for ((value, transfer), subject) in values {
        let light = plan.light * transfer * *value;
        let steps = light + 0.8 * plan.steps * (stepped(0.6 * light, 1.0) / 0.6 - light);
        let everywhere = if job.change_background { plan.stops } else { plan.stops * subject };
        *value = (steps + everywhere).clamp(-4.5, 3.0);
    }

    for (tint, cool) in field.tint.iter_mut().zip(COOL) {
        if plan.cool == 0.0 && tint.values().iter().all(|value| *value == 0.0) {
            continue;
        }
        spread(tint, 0.5 * plan.spread, wide);
        tint.combine(&transfer_mask, |value, transfer| {
            plan.tint * transfer * value + plan.cool * transfer.min(1.0) * cool
        });
    }

    field
}

/// Returns the strength of the light at each sample of the overview.
fn transfer_mask(job: &PictureRelight, plan: &RelightPlan, luma: &Plane, face: &Plane, subject: &Plane) -> Plane {
    let mut mask = luma.clone();
    for (value, (face, subject)) in mask.values_mut().iter_mut().zip(face.values().iter().zip(subject.values())) {
        let on_faces = 1.0 + plan.on_faces * face;
        let background = if job.change_background { 1.0 } else { *subject };
        *value = background * on_faces * affected_share(job.advanced.transfer_light_b, value.clamp(0.0, 1.0));
    }
    mask
}

/// Blurs a plane by `amount`, 0 to 1.
fn spread(plane: &mut Plane, amount: f32, radius: usize) {
    if amount > 0.0 {
        plane.combine(&smooth(plane, radius), |value, wide| value + amount * (wide - value));
    }
}

/// Increases the distance of values from their mean, up to the original extremes.
fn harden(plane: &mut Plane, hardness: f32) {
    if hardness <= 0.0 {
        return;
    }
    let mean = plane.values().iter().sum::<f32>() / plane.values().len() as f32;
    let extent = plane.values().iter().map(|value| (value - mean).abs()).fold(1e-3, f32::max);
    plane.values_mut().iter_mut().for_each(|value| {
        *value = mean + extent * ((1.0 + 1.5 * hardness) * (*value - mean) / extent).tanh();
    });
}

/// Returns the value quantized with short transitions between the steps.
fn stepped(value: f32, steps_per_unit: f32) -> f32 {
    let at = value * steps_per_unit;
    (at.floor() + ramp(at - at.floor(), 0.35, 0.65)) / steps_per_unit
}

/// Returns the blurred light of areas that are bright once `stops` are applied.
fn glow(overview: &Overview, stops: &Plane) -> Plane {
    let mut bright = overview.map(luminance);
    bright.combine(stops, |light, stops| (apply_gain(light, gain_of(stops)) - 0.35).max(0.0));
    smooth(&bright, (overview.width().max(overview.height()) / 50).max(1))
}

/// Returns the average blue and red of nearly grey samples.
fn measure_cast(planes: &Planes) -> [f32; 2] {
    let mut sums = [0.0_f32, 0.0, 1e-3];
    for (blue, red) in planes.blue.values().iter().zip(planes.red.values()) {
        let grey = 1.0 - ramp((blue * blue + red * red).sqrt(), 0.03, 0.12);
        sums = [sums[0] + grey * blue, sums[1] + grey * red, sums[2] + grey];
    }
    [sums[0] / sums[2], sums[1] / sums[2]]
}

/// Applies the fine adjustments, each from 0 to 1: 0.5 has no effect, and greater values increase the named property.
/// Increasing `blacks` darkens the picture, increasing `whites` brightens it.
fn adjust(planes: &mut Planes, settings: &LightAdjustments) {
    let to_signed = |share: f32| 2.0 * share - 1.0;
    let [whites, blacks, brightness, contrast, saturation] =
        [settings.whites, settings.blacks, settings.brightness, settings.contrast, settings.saturation].map(to_signed);

    if [whites, blacks, brightness, contrast, saturation].iter().all(|amount| *amount == 0.0) {
        return;
    }

    let gamma = (-brightness).exp2();
    for [lumas, blues, reds] in planes.rows_mut() {
        for ((luma, blue), red) in lumas.iter_mut().zip(blues).zip(reds) {
            let before = luma.clamp(0.0, 1.0);
            let value = if brightness == 0.0 { before } else { gain_of(gamma * stops_of(before)) };
            let value = value + contrast * 2.4 * value * (1.0 - value) * (value - 0.5);
            let value = value + 0.3 * whites * value * value - 0.3 * blacks * (1.0 - value).powi(2);
            *luma = value.clamp(0.0, 1.0);

            // Colour follows the change of brightness.
            let follow = (1.0 + saturation) * ((*luma + 0.1) / (before + 0.1)).sqrt();
            [*blue, *red] = [follow * *blue, follow * *red];
        }
    }
}
