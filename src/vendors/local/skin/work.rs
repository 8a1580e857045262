//! The work on one tile.

use super::super::colour::{Planes, joined, split};
use super::super::filters::{finer_than, smooth};
use super::super::guide::{Guided, Overview};
use super::super::light::{gain_of, lit, luminance, ramp, to_code, to_light};
use super::super::noise;
use super::super::plane::{Plane, Region};
use super::mask::Skin;
use super::retouch::Retouch;

/// Everything that the tiles of one picture share.
#[derive(Debug)]
pub struct Work<'a> {
    overview: &'a Overview,
    skin: Skin,
    retouch: Retouch,
    seed: u32,
    /// Largest radius of pores and other fine texture, in pixels.
    fine: usize,
    /// The form of skin: luma and colours without blemishes.
    form: [Guided; 3],
    /// The wide surroundings.
    base: Guided,
    /// Light to add, in stops.
    fill: Guided,
    /// Light that spreads, at the size of the overview.
    glow: Plane,
    /// Average luma and colour of skin.
    mean: [f32; 3],
}

/// What the skin of a picture is at most taken for, as a share of its size: blemishes and blotches.
const BLEMISH: f32 = 0.065;

impl<'a> Work<'a> {
    /// Looks at the whole.
    #[must_use]
    pub fn new(overview: &'a Overview, skin: Skin, retouch: Retouch, seed: u32) -> Self {
        let planes = overview.planes();
        let blemish = ((BLEMISH * skin.size).round() as usize).clamp(2, 32);
        let fine = (((blemish * overview.cell) as f32 / 6.0).round() as usize).clamp(2, 12);
        let wide = (overview.width().min(overview.height()) / 16).max(2);
        let mean = average(&planes, &skin.likeness);
        let fit = |target: &Plane, step: f32| Guided::fit(&planes.luma, target, blemish, step);
        Self {
            form: [fit(&planes.luma, 0.07), fit(&planes.blue, 0.10), fit(&planes.red, 0.10)],
            base: Guided::fit(&planes.luma, &planes.luma, wide, 0.2),
            fill: Guided::fit(&planes.luma, &fill(overview, &skin, wide), wide, 0.15),
            glow: glow(overview),
            overview,
            skin,
            retouch,
            seed,
            fine,
            mean,
        }
    }

    /// How far the work looks around, in pixels.
    #[must_use]
    pub fn margin(&self) -> usize {
        2 * self.fine + 3
    }

    /// Changes a tile that covers `region`.
    pub fn change(&self, planes: &mut Planes, region: Region) {
        let likeness = self.likeness(planes, region);
        self.separate(planes, region, &likeness);
        self.add_pores(planes, region, &likeness);
        self.light_up(planes, region, &likeness);
        self.grade(planes, region, &likeness);
        self.sharpen(&mut planes.luma, &likeness);
        noise::add_grain(&mut planes.luma, region, self.retouch.grain, !self.seed);
    }

    /// Skin as far as the whole and the single pixel agree.
    fn likeness(&self, planes: &Planes, region: Region) -> Plane {
        let mut likeness = self.overview.stretch(&self.skin.likeness, region);
        for (y, row) in likeness.rows_mut().enumerate() {
            let pixels = planes.luma.row(y).iter().zip(planes.blue.row(y)).zip(planes.red.row(y));
            for (value, ((luma, blue), red)) in row.iter_mut().zip(pixels).filter(|(value, _)| **value > 0.01) {
                let own = self.skin.tone.likeness(joined([*luma, *blue, *red]).map(to_light));
                *value *= (0.25 + 1.5 * own).min(1.0);
            }
        }
        likeness
    }

    /// Form, blemishes, texture: each its own amount, of luma and of colour.
    fn separate(&self, planes: &mut Planes, region: Region, likeness: &Plane) {
        let Retouch { even, texture, tone, smooth: elsewhere, .. } = self.retouch;
        let [luma, blue, red] = &self.form;
        let guide = planes.luma.clone();
        let mut detail = luma.over(self.overview, region, &guide);
        detail.combine(&guide, |form, luma| luma - form);
        let coarse = smooth(&detail, self.fine);
        let samples = planes.luma.values_mut().iter_mut().zip(detail.values()).zip(coarse.values());
        for (((value, detail), coarse), skin) in samples.zip(likeness.values()) {
            let fine = detail - coarse;
            let on_skin = texture * fine - even * coarse;
            *value += skin * on_skin - (1.0 - skin) * elsewhere * (0.5 * fine + 0.8 * coarse);
        }
        for (plane, form) in [(&mut planes.blue, blue), (&mut planes.red, red)] {
            let form = form.over(self.overview, region, &guide);
            for ((value, form), skin) in plane.values_mut().iter_mut().zip(form.values()).zip(likeness.values()) {
                *value += skin * tone * (form - *value);
            }
        }
    }

    /// Pores are dark, small and everywhere a little different; with them goes a trace of uneven red.
    fn add_pores(&self, planes: &mut Planes, region: Region, likeness: &Plane) {
        if self.retouch.pores <= 0.0 {
            return;
        }
        let grain = (self.fine / 2).max(1);
        // The texture looks further around than a tile reaches.
        let reach = 8 * grain;
        let inner = Region { left: reach as isize, top: reach as isize, width: region.width, height: region.height };
        let pores = noise::texture(region.grown(reach), grain, self.seed).window(inner);
        let samples = planes.luma.values_mut().iter_mut().zip(planes.red.values_mut()).zip(pores.values());
        for (((luma, red), pore), skin) in samples.zip(likeness.values()) {
            let amount = skin * self.retouch.pores * ramp(*luma, 0.05, 0.35) * (1.0 - ramp(*luma, 0.8, 1.0));
            *luma += 0.026 * amount * (pore - 0.25 * pore * pore).clamp(-2.5, 1.2);
            *red += 0.004 * amount * pore;
        }
    }

    /// Fill light, shine, paint and glow: all that is light, in light.
    fn light_up(&self, planes: &mut Planes, region: Region, likeness: &Plane) {
        let Retouch { light, shine, make_up, glow, .. } = self.retouch;
        if light == 0.0 && shine == 0.0 && make_up == 0.0 && glow == 0.0 {
            return;
        }
        let fill = self.fill.over(self.overview, region, &planes.luma);
        let face = self.overview.stretch(&self.skin.face, region);
        let bloom = self.overview.stretch(&self.glow, region);
        let mut at = 0;
        for [lumas, blues, reds] in planes.rows_mut() {
            for ((luma, blue), red) in lumas.iter_mut().zip(blues).zip(reds) {
                let (skin, face) = (likeness.values()[at], face.values()[at]);
                let mut pixel = self.without_shine([*luma, *blue, *red], shine * skin);
                pixel = self.without_paint(pixel, make_up * face);
                if light != 0.0 || glow != 0.0 {
                    let gain = gain_of(light * fill.values()[at]);
                    let spread = glow * bloom.values()[at];
                    let raised = joined(pixel).map(|value| {
                        let value = lit(to_light(value), gain);
                        to_code(value + 0.5 * spread * (1.0 - value))
                    });
                    pixel = split(raised);
                }
                [*luma, *blue, *red] = pixel;
                at += 1;
            }
        }
    }

    /// Shine is what is brighter than skin and paler: it is brought down softly and gets the colour of skin.
    fn without_shine(&self, [luma, blue, red]: [f32; 3], amount: f32) -> [f32; 3] {
        let above = luma - self.mean[0] - 0.12;
        if amount <= 0.0 || above <= 0.0 {
            return [luma, blue, red];
        }
        let lower = above * above / (above + 0.12);
        let colour = amount * ramp(above, 0.0, 0.2) * 0.6;
        [luma - 0.6 * amount * lower, blue + colour * (self.mean[1] - blue), red + colour * (self.mean[2] - red)]
    }

    /// Paint is colour in the face that is not that of its skin: lips too red, lids blue or dark. It goes half the way to
    /// skin; the white of eyes and teeth has no colour and stays.
    fn without_paint(&self, [luma, blue, red]: [f32; 3], amount: f32) -> [f32; 3] {
        if amount <= 0.0 {
            return [luma, blue, red];
        }
        let (to_blue, to_red) = (blue - self.mean[1], red - self.mean[2]);
        let strong = ramp((blue * blue + red * red).sqrt(), 0.03, 0.09);
        let strange = ramp((to_blue * to_blue + to_red * to_red).sqrt(), 0.015, 0.07);
        let share = 0.7 * amount * strong * strange;
        let dark = amount * strange * ramp(self.mean[0] - luma, 0.05, 0.25) * ramp(luma, 0.08, 0.3) * strong;
        [luma + 0.25 * dark * (self.mean[0] - luma), blue - share * to_blue, red - share * to_red]
    }

    /// Contrast against the surroundings (skin would look old by it) and of the whole, colours.
    fn grade(&self, planes: &mut Planes, region: Region, likeness: &Plane) {
        let Retouch { local_contrast, contrast, saturation, warmth, .. } = self.retouch;
        let base = self.base.over(self.overview, region, &planes.luma);
        for (y, [lumas, blues, reds]) in planes.rows_mut().enumerate() {
            let samples = lumas.iter_mut().zip(blues).zip(reds).zip(base.row(y)).zip(likeness.row(y));
            for ((((luma, blue), red), base), skin) in samples {
                let before = luma.clamp(0.0, 1.0);
                let room = 4.0 * before * (1.0 - before);
                let local_contrast = local_contrast * (1.0 - 0.8 * skin);
                *luma += room * (local_contrast * (before - base).clamp(-0.3, 0.3) + contrast * (before - 0.5));
                let (gain, tint) = (1.0 + saturation, 0.05 * warmth * room);
                [*blue, *red] = [*blue * gain - tint, *red * gain + tint];
            }
        }
    }

    /// Raises the finest band where it is more than noise; on skin less, or every pore would be a hole.
    fn sharpen(&self, luma: &mut Plane, likeness: &Plane) {
        if self.retouch.sharpen <= 0.0 {
            return;
        }
        let fine = finer_than(luma, 1);
        for ((value, fine), skin) in luma.values_mut().iter_mut().zip(fine.values()).zip(likeness.values()) {
            let gained = self.retouch.sharpen * (1.0 - 0.4 * skin) * fine * (fine * fine / (fine * fine + 1e-4));
            // Never more than 0.12.
            *value += gained / (1.0 + (gained / 0.12).powi(2)).sqrt();
        }
    }
}

/// Weighted average of the planes.
fn average(planes: &Planes, weights: &Plane) -> [f32; 3] {
    let total = weights.values().iter().sum::<f32>() + 1e-3;
    let (default, planes) = ([0.6, -0.05, 0.08], [&planes.luma, &planes.blue, &planes.red]);
    std::array::from_fn(|at| {
        let sum: f32 = planes[at].values().iter().zip(weights.values()).map(|(value, weight)| value * weight).sum();
        (sum + 1e-3 * default[at]) / total
    })
}

/// How many stops of light every place should gain: shadows are filled towards the light of the middle, skin more than the
/// rest and a little brighter than it, and what is too bright comes down.
fn fill(overview: &Overview, skin: &Skin, wide: usize) -> Plane {
    let stops = overview.map(|light| (luminance(light) + 0.002).log2());
    let guide = overview.planes().luma;
    let base = Guided::fit(&guide, &stops, wide, 0.1).small(&guide);
    let mut fill = base;
    fill.combine(&skin.face, |stops, face| {
        let (share, aim) = (0.35 + 0.3 * face, -2.4 + 0.9 * face);
        let missing = share * (aim - stops);
        // Night stays night: what is nearly black gets less.
        let seen = ramp(stops, -8.5, -4.5);
        if missing > 0.0 { (missing * seen).min(1.7) } else { (0.6 * missing).max(-0.7) }
    });
    fill
}

/// The light of what is bright, spread wide.
fn glow(overview: &Overview) -> Plane {
    let bright = overview.map(|light| (luminance(light) - 0.35).max(0.0));
    let radius = (overview.width().max(overview.height()) / 60).max(1);
    smooth(&bright, radius)
}
