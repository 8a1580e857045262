//! Retouching of one tile.

use super::mask::Skin;
use super::retouch::Retouch;
use super::rows::{grade, mix_bands, reduce_make_up, reduce_shine, sharpen};
use crate::colour::{Planes, to_rgb};
use crate::filters::smooth;
use crate::guide::{Guide, GuidedFilter, Overview};
use crate::light::{gain_of, light_up, luminance, ramp, stops_of, to_light};
use crate::noise;
use crate::plane::{Plane, Region};

/// Data shared by all tiles of a picture.
#[derive(Debug)]
pub struct SkinContext<'a> {
    overview: &'a Overview,
    skin: Skin,
    retouch: Retouch,
    seed: u32,
    /// Largest radius of pores and other fine texture, in pixels of the picture.
    fine: usize,
    /// Form of skin: luma without blemishes.
    form: GuidedFilter,
    /// Blue and red of skin without blotches.
    tones: [GuidedFilter; 2],
    /// Luma at a large radius.
    base: GuidedFilter,
    /// Fill light in stops.
    fill: GuidedFilter,
    /// Bloom at the size of the overview.
    glow: Plane,
    /// Average luma, blue and red of skin.
    mean: [f32; 3],
}

/// Number of samples of a row that are tested for skin together; blocks without skin are skipped.
const BLOCK: usize = 64;
/// Radius of the largest blemishes relative to [`Skin::size`].
const BLEMISH: f32 = 0.065;

impl<'a> SkinContext<'a> {
    /// Computes the data of the whole picture from the overview.
    #[must_use]
    pub fn new(overview: &'a Overview, skin: Skin, retouch: Retouch, seed: u32) -> Self {
        let planes = overview.planes();

        // Radii of blemishes and of the wide filters in samples of the overview, and of pores in pixels.
        let blemish = ((BLEMISH * skin.size).round() as usize).clamp(2, 32);
        let fine = (((blemish * overview.cell) as f32 / 6.0).round() as usize).clamp(2, 12);
        let wide = (overview.width().min(overview.height()) / 16).max(2);

        let mean = average(planes, &skin.likeness);
        let near = Guide::wide(&planes.luma, blemish);
        let far = Guide::wide(&planes.luma, wide);

        Self {
            form: near.fit_itself(0.07),
            tones: [near.fit(&planes.blue, 0.10), near.fit(&planes.red, 0.10)],
            base: far.fit_itself(0.2),
            fill: far.fit(&compute_fill_light(overview, &skin, &far), 0.15),
            glow: glow(overview),
            overview,
            skin,
            retouch,
            seed,
            fine,
            mean,
        }
    }

    /// Returns the number of pixels around a tile that the retouching reads.
    #[must_use]
    pub fn margin(&self) -> usize {
        2 * self.fine + 3
    }

    /// Retouches a tile that covers `region`.
    pub fn retouch(&self, planes: &mut Planes, region: Region) {
        let likeness = self.likeness(planes, region);
        self.separate(planes, region, &likeness);
        self.add_pores(planes, region, &likeness);
        self.light_and_grade(planes, region, &likeness);
        self.sharpen(&mut planes.luma, &likeness);
        // The seed differs from that of the pores, so that the two patterns are independent.
        noise::add_grain(&mut planes.luma, region, self.retouch.grain, !self.seed);
    }

    /// Returns the skin mask of a tile: the overview's mask, corrected by the colour of each pixel.
    fn likeness(&self, planes: &Planes, region: Region) -> Plane {
        let whole = self.overview.stretch(&self.skin.likeness, region);
        Plane::from_rows(region.width, region.height, |y, row| {
            whole.fill(y, row);

            let [lumas, blues, reds] =
                [&planes.luma, &planes.blue, &planes.red].map(|plane| plane.row(y).chunks(BLOCK));
            for (values, ((lumas, blues), reds)) in row.chunks_mut(BLOCK).zip(lumas.zip(blues).zip(reds)) {
                if values.iter().any(|value| *value > 0.01) {
                    for (value, ((luma, blue), red)) in values.iter_mut().zip(lumas.iter().zip(blues).zip(reds)) {
                        let pixel_likeness = self.skin.tone.likeness(to_rgb([*luma, *blue, *red]).map(to_light));
                        *value *= (0.25 + 1.5 * pixel_likeness).min(1.0);
                    }
                }
            }
        })
    }

    /// Separates form, blemishes and texture, and applies their amounts to luma and colour.
    fn separate(&self, planes: &mut Planes, region: Region, likeness: &Plane) {
        let tone = self.retouch.tone;
        let tones = self.tones.each_ref().map(|tone| tone.over(self.overview, region));
        let form = self.form.over(self.overview, region);

        let mut detail = Plane::unwritten(region.width, region.height);
        let mut line = vec![0.0; region.width];

        for (y, ([luma, blue, red], detail)) in planes.rows_mut().zip(detail.rows_mut()).enumerate() {
            for (row, form) in [blue, red].into_iter().zip(&tones) {
                form.fill(y, luma, &mut line);
                for ((value, form), skin) in row.iter_mut().zip(&line).zip(likeness.row(y)) {
                    *value += skin * tone * (form - *value);
                }
            }

            form.fill(y, luma, detail);
            detail.iter_mut().zip(luma).for_each(|(form, luma)| *form = *luma - *form);
        }

        let coarse = smooth(&detail, self.fine);
        mix_bands(planes.luma.values_mut(), [detail.values(), coarse.values()], likeness.values(), &self.retouch);
    }

    /// Adds pores to skin: small, dark, irregular, with a slight variation of red.
    fn add_pores(&self, planes: &mut Planes, region: Region, likeness: &Plane) {
        if self.retouch.pores <= 0.0 {
            return;
        }
        let Some(part) = likeness.bounds(0.0) else { return };

        let grain = (self.fine / 2).max(1);
        // The texture at a pixel depends on the noise around it.
        let reach = 8 * grain;
        let target_region = Region { left: region.left + part.left, top: region.top + part.top, ..part };
        let pores = noise::texture(target_region.grown(reach), grain, self.seed);

        let columns = part.left as usize..part.left as usize + part.width;
        let rows = planes.rows_mut().zip(likeness.rows()).skip(part.top as usize);

        for (([luma, _, red], skin), pores) in rows.zip(pores.rows().skip(reach).take(part.height)) {
            let samples = luma[columns.clone()].iter_mut().zip(&mut red[columns.clone()]).zip(&pores[reach..]);
            for (((luma, red), pore), skin) in samples.zip(&skin[columns.clone()]) {
                let amount = skin * self.retouch.pores * ramp(*luma, 0.05, 0.35) * (1.0 - ramp(*luma, 0.8, 1.0));
                *luma += 0.026 * amount * (pore - 0.25 * pore * pore).clamp(-2.5, 1.2);
                *red += 0.004 * amount * pore;
            }
        }
    }

    /// Applies fill light, shine, make-up and bloom, then contrast and colour, row by row.
    fn light_and_grade(&self, planes: &mut Planes, region: Region, likeness: &Plane) {
        let Retouch { light, shine, make_up, glow, .. } = self.retouch;
        let [fill, base] = [&self.fill, &self.base].map(|guided| guided.over(self.overview, region));

        let face = self.overview.stretch(&self.skin.face, region);
        let bloom = self.overview.stretch(&self.glow, region);

        // Row buffers: guided values (fill light, then base), and the input of an effect (face, then bloom).
        let [mut line, mut input] = [0; 2].map(|_| vec![0.0; region.width]);

        for (y, [luma, blue, red]) in planes.rows_mut().enumerate() {
            // Fill light follows the edges of the picture before other changes.
            fill.fill(y, luma, &mut line);

            let mut row = [luma, blue, red];

            if shine != 0.0 {
                reduce_shine(&mut row, likeness.row(y), shine, self.mean);
            }

            if make_up != 0.0 {
                face.fill(y, &mut input);
                reduce_make_up(&mut row, &input, make_up, self.mean);
            }

            if light != 0.0 || glow != 0.0 {
                bloom.fill(y, &mut input);
                for stops in &mut line {
                    *stops = gain_of(light * *stops);
                }
                light_up(&mut row, [&line; 3], &input, 0.5 * glow);
            }

            base.fill(y, row[0], &mut line);
            grade(&mut row, &line, likeness.row(y), &self.retouch);
        }
    }

    /// Amplifies the finest band where it exceeds noise; less on skin, where pores would become too deep.
    fn sharpen(&self, luma: &mut Plane, likeness: &Plane) {
        if self.retouch.sharpen <= 0.0 {
            return;
        }
        let soft = smooth(luma, 1);
        sharpen(luma.values_mut(), soft.values(), likeness.values(), self.retouch.sharpen);
    }
}

/// Returns the weighted average of luma, blue and red; without any weight, that of light skin.
fn average(planes: &Planes, weights: &Plane) -> [f32; 3] {
    let total = weights.values().iter().sum::<f32>() + 1e-3;
    let light_skin = [0.6, -0.05, 0.08];
    let planes = [&planes.luma, &planes.blue, &planes.red];
    std::array::from_fn(|at| {
        let sum: f32 = planes[at].values().iter().zip(weights.values()).map(|(value, weight)| value * weight).sum();
        (sum + 1e-3 * light_skin[at]) / total
    })
}

/// Returns the fill light in stops for every sample of the overview: shadows gain light, skin more than the rest, and
/// overly bright areas lose some.
fn compute_fill_light(overview: &Overview, skin: &Skin, wide: &Guide) -> Plane {
    // The offset keeps the logarithm of black finite.
    let stops = overview.map(|light| stops_of(luminance(light).max(0.0) + 0.002));
    let mut fill = wide.fit(&stops, 0.1).small(&overview.planes().luma);
    fill.combine(&skin.face, |stops, face| {
        let share = 0.35 + 0.3 * face;
        let target_stops = -2.4 + 0.9 * face;
        let missing = share * (target_stops - stops);
        // Nearly black areas gain less, which keeps night scenes dark.
        let visibility = ramp(stops, -8.5, -4.5);
        if missing > 0.0 { (missing * visibility).min(1.7) } else { (0.6 * missing).max(-0.7) }
    });
    fill
}

/// Returns the blurred light of bright areas.
fn glow(overview: &Overview) -> Plane {
    let bright = overview.map(|light| (luminance(light) - 0.35).max(0.0));
    let radius = (overview.width().max(overview.height()) / 60).max(1);
    smooth(&bright, radius)
}
