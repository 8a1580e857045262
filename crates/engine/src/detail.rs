//! Processing of luma at the size of the output, tile by tile: edges, texture, fidelity and grain.
//!
//! A tile is computed with a margin for all filters, and synthesized texture depends only on the position in the
//! picture. Tiles therefore join without seams, and memory does not grow with the picture.

use multiversion::multiversion;

use crate::colour::Planes;
use crate::filters::smooth;
use crate::flow::{Directions, EdgeFlow};
use crate::invent::TextureModel;
use crate::noise;
use crate::plane::{Plane, Region};
use crate::presets::Look;
use crate::resample::{EnlargedPlane, Enlarger, Kernel, reduce};

/// Margin in source pixels of filters: two for edge following, sharpening and steepening, and one for each correction.
const MARGIN: usize = 2;
/// Margin in source pixels of the coarsest band of texture.
const TEXTURE_MARGIN: usize = 4;
/// Margin in source pixels of smoothing along known directions.
const COMBING_MARGIN: usize = 2;

/// Position of an enlargement among successive ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Another enlargement follows.
    Intermediate,
    /// The result has the final size. Only this pass adds grain.
    Final,
}

/// Data shared by all tiles of an enlargement.
#[derive(Debug)]
pub struct Detailer<'a> {
    source: &'a Planes,
    look: Look,
    seed: u32,
    pass: Pass,
    noise: f32,
    margin: usize,
    lanczos: Enlarger,
    linear: Enlarger,
    flow: EdgeFlow,
    model: Option<TextureModel>,
}

/// Part of the enlarged picture.
#[derive(Debug)]
pub struct Tile<'a> {
    /// Luma including the margin.
    luma: Plane,
    margin: usize,
    pub blue: EnlargedPlane<'a>,
    pub red: EnlargedPlane<'a>,
    pub alpha: Option<Plane>,
}

impl Tile<'_> {
    /// Returns row `y` of the luma.
    #[must_use]
    pub fn luma_row(&self, y: usize) -> &[f32] {
        let row = self.luma.row(y + self.margin);
        &row[self.margin..row.len() - self.margin]
    }
}

impl<'a> Detailer<'a> {
    /// Prepares the enlargement of `source` by `factor`, 2 to 13. `noise` is the noise of the source.
    #[must_use]
    pub fn new(source: &'a Planes, factor: usize, look: Look, seed: u32, noise: f32, pass: Pass) -> Self {
        let textured = look.texture > 0.0 || look.own_detail > 0.0;
        let corrected = look.fidelity.max(0.0).ceil() as usize;

        Self {
            source,
            look,
            seed,
            pass,
            noise,
            // One more pixel, because directions at the border are unknown.
            margin: (MARGIN + corrected).max(COMBING_MARGIN + 1),
            lanczos: Enlarger::new(Kernel::Lanczos, factor),
            linear: Enlarger::new(Kernel::Linear, factor),
            flow: EdgeFlow::from_luma(&source.luma, noise),
            model: textured.then(|| TextureModel::from_planes(source, noise)),
        }
    }

    /// Returns the enlargement factor of each side.
    #[must_use]
    pub fn factor(&self) -> usize {
        self.lanczos.factor()
    }

    /// Computes the part of the result that corresponds to `region` of the source.
    #[must_use]
    pub fn tile(&self, region: Region) -> Tile<'_> {
        let grown = region.grown(self.margin);
        let source = self.source.luma.window(grown);

        let luma = self.lanczos.enlarge(&self.source.luma, grown);
        let directions = self.flow.in_region(grown, &self.linear);

        let mut luma = directions.follow(&luma);
        self.shape(&mut luma, &source);
        self.correct(&mut luma, &source);
        self.add_texture(&mut luma, grown, &directions);

        if self.pass == Pass::Final {
            noise::add_grain(&mut luma, self.enlarged_region(grown), self.look.grain, !self.seed);
        }

        Tile {
            luma,
            margin: self.margin * self.factor(),
            blue: self.lanczos.rows(&self.source.blue, region),
            red: self.lanczos.rows(&self.source.red, region),
            alpha: self.source.alpha.as_ref().map(|alpha| self.enlarge_alpha(alpha, region)),
        }
    }

    /// Enlarges alpha as sharply as luma but without ringing, which would show as a halo around the cut-out.
    fn enlarge_alpha(&self, alpha: &Plane, region: Region) -> Plane {
        let mut enlarged = self.lanczos.enlarge(alpha, region);
        let mut ranges = Ranges::new(alpha.window(region.grown(1)), self.factor());
        enlarged.rows_mut().enumerate().for_each(|(y, row)| ranges.pull_back(y, row, 0.0));
        enlarged
    }

    /// Sharpens, limits overshoot to the range of the source, and steepens edges.
    fn shape(&self, luma: &mut Plane, source: &Plane) {
        let area = Region::covering(source);
        let soft = smooth(luma, self.factor() / 2);
        let mut ranges = Ranges::new(source.window(area.grown(1)), self.factor());

        let extremes = (self.look.crisp > 0.0).then(|| extremes(source));
        let extremes = extremes.as_ref().map(|(low, high)| (self.linear.rows(low, area), self.linear.rows(high, area)));

        let mut low = vec![0.0; luma.width()];
        let mut high = vec![0.0; luma.width()];

        for (y, row) in luma.rows_mut().enumerate() {
            self.sharpen(row, soft.row(y));
            ranges.pull_back(y, row, self.look.overshoot);
            if let Some((lows, highs)) = &extremes {
                lows.fill(y, &mut low);
                highs.fill(y, &mut high);
                self.steepen(row, &low, &high);
            }
        }
    }

    /// Amplifies the finest band where it exceeds noise.
    fn sharpen(&self, row: &mut [f32], soft: &[f32]) {
        let amount = self.look.sharpen;
        let floor = if amount > 0.0 { (2.0 * self.noise + 0.004).powi(2) } else { 0.0 };
        sharpen_row(row, soft, amount, floor);
    }

    /// Moves every value towards the nearer end of the local range of the source, which steepens edges without
    /// overshoot. Areas that vary no more than noise are unchanged.
    fn steepen(&self, row: &mut [f32], low: &[f32], high: &[f32]) {
        let floor = (6.0 * self.noise + 0.03).powi(2);
        steepen_row(row, low, high, self.look.crisp, floor);
    }

    /// Adds synthesized texture, random and from the picture itself, at the strength of the existing texture.
    fn add_texture(&self, luma: &mut Plane, grown: Region, directions: &Directions) {
        let Some(model) = &self.model else { return };

        // Texture is needed only where its strength is not zero.
        let strength = smooth(&model.strength.window(grown), 1);
        let area = Region::covering(&strength);

        let edge = (self.margin - COMBING_MARGIN) as isize;
        let combed = 2 * (self.margin - COMBING_MARGIN);
        let inner = Region { left: edge, top: edge, width: area.width - combed, height: area.height - combed };

        let Some(part) =
            strength.bounds(0.0).map(|part| part.clipped_to(inner)).filter(|part| part.width * part.height > 0)
        else {
            return;
        };

        let part = part.grown(TEXTURE_MARGIN);
        let target_region = Region { left: grown.left + part.left, top: grown.top + part.top, ..part };
        let amounts = [self.look.texture, self.look.own_detail];
        let texture = model.texture(self.enlarged_region(target_region), self.factor(), amounts, self.seed);

        // Fur, hair and wood grain have a direction that the added texture must follow.
        let directions = directions.only_where(&strength, part);
        let texture = directions.follow(&directions.follow(&texture));

        let fields = [&model.strength, &model.brightest].map(|field| self.linear.rows(field, target_region));
        self.blend_texture(luma, &texture, part, &fields);
    }

    /// Adds texture to a part of the luma. `fields` are the strength and the brightest channel above the luma. `part`
    /// is in source pixels and may extend beyond the luma.
    fn blend_texture(&self, luma: &mut Plane, texture: &Plane, part: Region, fields: &[EnlargedPlane; 2]) {
        let factor = self.factor() as isize;
        let [mut strength, mut brightest] = [0; 2].map(|_| vec![0.0; texture.width()]);

        let left = part.left * factor;
        let top = part.top * factor;
        let before = left.min(0).unsigned_abs();
        let after = left.max(0) as usize;

        for (y, texture) in texture.rows().enumerate() {
            let Some(target) = usize::try_from(top + y as isize).ok().filter(|y| *y < luma.height()) else { continue };
            fields[0].fill(y, &mut strength);
            fields[1].fill(y, &mut brightest);

            let row = &mut luma.row_mut(target)[after..];
            add_within_range(row, &texture[before..], &strength[before..], &brightest[before..]);
        }
    }

    /// Corrects the result by iterative back-projection: reduces it, compares it with the source and adds the
    /// difference, `fidelity` times.
    fn correct(&self, luma: &mut Plane, source: &Plane) {
        let area = Region::covering(source);
        let mut line = vec![0.0; luma.width()];
        let mut rounds = self.look.fidelity;
        while rounds > 0.0 {
            let share = rounds.min(1.0);

            let mut missing = reduce(luma, self.factor());
            missing.combine(source, |reduced, source| share * (source - reduced));
            let missing = self.linear.rows(&missing, area);

            for (y, row) in luma.rows_mut().enumerate() {
                missing.fill(y, &mut line);
                row.iter_mut().zip(&line).for_each(|(value, missing)| *value += missing);
            }

            rounds -= 1.0;
        }
    }

    fn enlarged_region(&self, region: Region) -> Region {
        let factor = self.factor();
        Region {
            left: region.left * factor as isize,
            top: region.top * factor as isize,
            width: region.width * factor,
            height: region.height * factor,
        }
    }
}

/// Amplifies detail finer than `soft`, less where its square is below `floor`.
#[multiversion(targets("x86_64+avx2"))]
fn sharpen_row(row: &mut [f32], soft: &[f32], amount: f32, floor: f32) {
    for (value, soft) in row.iter_mut().zip(soft) {
        let fine = *value - soft;
        let squared = fine * fine + 1e-12;
        *value += amount * fine * (squared / (squared + floor));
    }
}

/// Moves values towards the nearer end of their range, less where the square of the range is below `floor`.
#[multiversion(targets("x86_64+avx2"))]
fn steepen_row(row: &mut [f32], low: &[f32], high: &[f32], amount: f32, floor: f32) {
    for ((value, low), high) in row.iter_mut().zip(low).zip(high) {
        let range = high - low;
        let position = ((*value - low) / (range + 1e-6)).clamp(0.0, 1.0);
        let steeper = position * position * (3.0 - 2.0 * position);
        *value += amount * range * (steeper - position) * (range * range / (range * range + floor));
    }
}

/// Maximum share of the distance to black or white that texture may cover.
const TEXTURE_SHARE_MAX: f32 = 0.6;

/// Adds texture, softly limited so that neither black nor white is reached: clipped texture looks burnt.
#[multiversion(targets("x86_64+avx2"))]
fn add_within_range(row: &mut [f32], texture: &[f32], strength: &[f32], brightest: &[f32]) {
    let fields = texture.iter().zip(strength).zip(brightest);
    for (value, ((texture, strength), brightest)) in row.iter_mut().zip(fields) {
        let change = strength * texture;
        let room = if change > 0.0 { 1.0 - brightest - *value } else { *value };
        let limit = TEXTURE_SHARE_MAX * room.max(0.0) + 1e-4;
        let excess = change / limit;
        *value += change / (1.0 + excess * excess).sqrt();
    }
}

/// Reduces the overshoot of values beyond their range, softly limited to `overshoot` times the range.
#[multiversion(targets("x86_64+avx2"))]
fn pull_back(row: &mut [f32], low: &[f32], high: &[f32], overshoot: f32) {
    for ((value, low), high) in row.iter_mut().zip(low).zip(high) {
        let slack = overshoot * (high - low);
        let beyond = *value - value.max(*low).min(*high);
        *value -= beyond * beyond.abs() / (slack + beyond.abs() + 1e-6);
    }
}

/// Local value ranges of the source.
struct Ranges {
    /// Source with one more pixel on every side.
    padded: Plane,
    factor: usize,
    /// Row of 2 × 2 cells whose minimum and maximum are loaded.
    current: usize,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl Ranges {
    fn new(padded: Plane, factor: usize) -> Self {
        let empty = vec![0.0; (padded.width() - 1) * factor];
        Self { padded, factor, current: usize::MAX, low: empty.clone(), high: empty }
    }

    /// Limits the overshoot of values between four source pixels, which would otherwise show as a halo.
    fn pull_back(&mut self, y: usize, row: &mut [f32], overshoot: f32) {
        let cell = (y + self.factor / 2) / self.factor;
        if cell != self.current {
            self.current = cell;
            self.fill(cell);
        }

        let low = &self.low[self.factor / 2..];
        let high = &self.high[self.factor / 2..];
        pull_back(row, low, high, overshoot);
    }

    /// Loads the minimum and the maximum of each four neighbours in two rows.
    fn fill(&mut self, cell: usize) {
        let above = self.padded.row(cell);
        let below = self.padded.row(cell + 1);
        let fours = || above.iter().zip(&above[1..]).zip(below.iter().zip(&below[1..]));
        let minimum = fours().map(|((a, b), (c, d))| a.min(*b).min(c.min(*d)));
        repeat(minimum, self.factor, &mut self.low);
        let maximum = fours().map(|((a, b), (c, d))| a.max(*b).max(c.max(*d)));
        repeat(maximum, self.factor, &mut self.high);
    }
}

/// Writes each value `count` times.
fn repeat(values: impl Iterator<Item = f32>, count: usize, target: &mut [f32]) {
    match count {
        2 => target.as_chunks_mut::<2>().0.iter_mut().zip(values).for_each(|(same, value)| *same = [value; 2]),
        4 => target.as_chunks_mut::<4>().0.iter_mut().zip(values).for_each(|(same, value)| *same = [value; 4]),
        _ => target.chunks_exact_mut(count).zip(values).for_each(|(same, value)| same.fill(value)),
    }
}

/// Returns the minimum and the maximum of the nine samples around each.
fn extremes(source: &Plane) -> (Plane, Plane) {
    let padded = source.window(Region::covering(source).grown(1));
    (combine_neighbourhood(&padded, f32::min), combine_neighbourhood(&padded, f32::max))
}

/// Combines each sample with its eight neighbours. `padded` is one sample larger on each side.
fn combine_neighbourhood(padded: &Plane, choose: impl Fn(f32, f32) -> f32) -> Plane {
    let mut line = vec![0.0; padded.width()];
    Plane::from_rows(padded.width() - 2, padded.height() - 2, |y, target| {
        let rows = padded.row(y).iter().zip(padded.row(y + 1)).zip(padded.row(y + 2));
        line.iter_mut().zip(rows).for_each(|(value, ((a, b), c))| *value = choose(choose(*a, *b), *c));

        let triples = line.iter().zip(&line[1..]).zip(&line[2..]);
        target.iter_mut().zip(triples).for_each(|(value, ((a, b), c))| *value = choose(choose(*a, *b), *c));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_pictures;

    fn look() -> Look {
        Look { sharpen: 0.5, overshoot: 0.2, texture: 0.5, own_detail: 0.5, grain: 0.3, fidelity: 1.5, ..Look::NONE }
    }

    #[test]
    fn tiles_meet_without_a_seam() {
        let source = Planes::from_pixels(&test_pictures::photo(48));
        for factor in [2, 4] {
            let detailer = Detailer::new(&source, factor, look(), 7, 0.002, Pass::Final);
            let whole = detailer.tile(Region { left: 0, top: 0, width: 48, height: 24 });
            let part = detailer.tile(Region { left: 13, top: 9, width: 20, height: 8 });
            let expected = (0..8 * factor).flat_map(|y| &whole.luma_row(9 * factor + y)[13 * factor..][..20 * factor]);
            let part = (0..8 * factor).flat_map(|y| part.luma_row(y));
            let worst = part.zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-3, "factor {factor}: {worst}");
        }
    }

    #[test]
    fn sharpening_leaves_no_halo() {
        let step = Plane::from_fn(16, 16, |x, _| if x < 8 { 0.2 } else { 0.8 });
        let source = Planes { luma: step, ..Planes::new(16, 16) };
        let look = Look { sharpen: 2.0, overshoot: 0.0, ..Look::NONE };
        let detailer = Detailer::new(&source, 4, look, 7, 0.0, Pass::Final);
        let tile = detailer.tile(Region::covering(&source.luma));
        let row = tile.luma_row(32);
        assert!(row.iter().all(|value| (0.19..0.81).contains(value)), "{row:?}");
        // Half of the step occurs within two of 64 pixels.
        assert!(row[33] - row[30] > 0.3, "{row:?}");
    }
}
