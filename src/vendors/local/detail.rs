//! The work at the size of the output, tile by tile: edges, texture, fidelity and grain of the luma.
//!
//! A tile is computed with a margin wide enough for everything that looks at neighbours, and what is invented depends on
//! the place in the picture alone, so that tiles meet without a seam and memory does not grow with the picture.

use multiversion::multiversion;

use super::colour::Planes;
use super::filters::smooth;
use super::flow::{Directions, Flow};
use super::invent::Model;
use super::noise;
use super::plane::{Plane, Region};
use super::presets::Look;
use super::resample::{Enlarged, Enlarger, Kernel, reduce};

/// Width of the margin in source pixels, for what looks at neighbours of neighbours: two for following edges, sharpening and
/// steepening, and one for each correction.
const MARGIN: usize = 2;
/// What texture looks at in source pixels: four for its coarsest band, and two for combing, for which directions must be known.
const TEXTURE_MARGIN: usize = 4;
const COMBING_MARGIN: usize = 2;

/// Everything that the tiles of one enlargement share.
#[derive(Debug)]
pub struct Detailer<'a> {
    source: &'a Planes,
    look: Look,
    seed: u32,
    /// Whether the picture is enlarged no further: grain belongs to the film, not to what was filmed.
    last: bool,
    noise: f32,
    margin: usize,
    lanczos: Enlarger,
    linear: Enlarger,
    flow: Flow,
    model: Option<Model>,
}

/// A part of the enlarged picture.
#[derive(Debug)]
pub struct Tile<'a> {
    /// With the margin.
    luma: Plane,
    margin: usize,
    pub blue: Enlarged<'a>,
    pub red: Enlarged<'a>,
    pub alpha: Option<Plane>,
}

impl Tile<'_> {
    /// Row `y` of the luma.
    #[must_use]
    pub fn luma_row(&self, y: usize) -> &[f32] {
        let row = self.luma.row(y + self.margin);
        &row[self.margin..row.len() - self.margin]
    }
}

impl<'a> Detailer<'a> {
    /// Prepares the enlargement of `source` by `factor`, 2 to 13. `noise` is the noise of the source.
    #[must_use]
    pub fn new(source: &'a Planes, factor: usize, look: Look, seed: u32, noise: f32, last: bool) -> Self {
        let textured = look.texture > 0.0 || look.own_detail > 0.0;
        let corrected = look.fidelity.max(0.0).ceil() as usize;
        Self {
            source,
            look,
            seed,
            last,
            noise,
            // One more, as no direction is known right at the border.
            margin: (MARGIN + corrected).max(COMBING_MARGIN + 1),
            lanczos: Enlarger::new(Kernel::Lanczos, factor),
            linear: Enlarger::new(Kernel::Linear, factor),
            flow: Flow::of(&source.luma, noise),
            model: textured.then(|| Model::of(&source.luma, noise)),
        }
    }

    /// The factor by which each side grows.
    #[must_use]
    pub fn factor(&self) -> usize {
        self.lanczos.factor()
    }

    /// Computes the part of the result that `region` of the source becomes.
    #[must_use]
    pub fn tile(&self, region: Region) -> Tile<'_> {
        let grown = region.grown(self.margin);
        let source = self.source.luma.window(grown);
        let luma = self.lanczos.enlarge(&self.source.luma, grown);
        let directions = self.flow.within(grown, &self.linear);
        let mut luma = directions.follow(&luma);
        self.shape(&mut luma, &source);
        self.correct(&mut luma, &source);
        self.add_texture(&mut luma, grown, &directions);
        if self.last {
            noise::add_grain(&mut luma, self.enlarged(grown), self.look.grain, !self.seed);
        }
        Tile {
            luma,
            margin: self.margin * self.factor(),
            blue: self.lanczos.rows(&self.source.blue, region),
            red: self.lanczos.rows(&self.source.red, region),
            alpha: self.source.alpha.as_ref().map(|alpha| self.enlarge_alpha(alpha, region)),
        }
    }

    /// Alpha is enlarged as sharply as luma but may not ring at all: a ring would be a ghost around what is cut out.
    fn enlarge_alpha(&self, alpha: &Plane, region: Region) -> Plane {
        let mut enlarged = self.lanczos.enlarge(alpha, region);
        let mut ranges = Ranges::new(alpha.window(region.grown(1)), self.factor());
        enlarged.rows_mut().enumerate().for_each(|(y, row)| ranges.pull_back(y, row, 0.0));
        enlarged
    }

    /// Sharpens, pulls back what left the range of the source around it, and makes edges steeper.
    fn shape(&self, luma: &mut Plane, source: &Plane) {
        let whole = Region::whole(source);
        let soft = smooth(luma, self.factor() / 2);
        let mut ranges = Ranges::new(source.window(whole.grown(1)), self.factor());
        let extremes = (self.look.crisp > 0.0).then(|| extremes(source));
        let extremes =
            extremes.as_ref().map(|(low, high)| (self.linear.rows(low, whole), self.linear.rows(high, whole)));
        let (mut low, mut high) = (vec![0.0; luma.width()], vec![0.0; luma.width()]);
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

    /// Raises the finest band where it is more than noise.
    fn sharpen(&self, row: &mut [f32], soft: &[f32]) {
        let amount = self.look.sharpen;
        let floor = if amount > 0.0 { (2.0 * self.noise + 0.004).powi(2) } else { 0.0 };
        raise(row, soft, amount, floor);
    }

    /// Moves every value towards the lowest or the highest of the source around it, whichever is nearer: edges become
    /// steeper and nothing overshoots. Where the source varies no more than noise does, nothing happens.
    fn steepen(&self, row: &mut [f32], low: &[f32], high: &[f32]) {
        let floor = (6.0 * self.noise + 0.03).powi(2);
        steepen(row, low, high, self.look.crisp, floor);
    }

    /// Adds what is invented, by chance and from the picture itself, as strong as the texture that is there.
    fn add_texture(&self, luma: &mut Plane, grown: Region, directions: &Directions) {
        let Some(model) = &self.model else { return };
        // What is laid over texture of no strength is not seen: only the surroundings of the rest are worked out.
        let wanted = smooth(&model.strength.window(grown), 1);
        let whole = Region::whole(&wanted);
        let (edge, combed) = ((self.margin - COMBING_MARGIN) as isize, 2 * (self.margin - COMBING_MARGIN));
        let kept = Region { left: edge, top: edge, width: whole.width - combed, height: whole.height - combed };
        let Some(part) = wanted.bounds(0.0).map(|part| part.within(kept)).filter(|part| part.width * part.height > 0)
        else {
            return;
        };
        let part = part.grown(TEXTURE_MARGIN);
        let place = Region { left: grown.left + part.left, top: grown.top + part.top, ..part };
        let amounts = [self.look.texture, self.look.own_detail];
        let texture = model.texture(self.enlarged(place), self.factor(), amounts, self.seed);
        // Fur, hair and the grain of wood run in a direction, and so must what is added to them.
        let directions = directions.only_where(&wanted, part);
        let texture = directions.follow(&directions.follow(&texture));
        self.lay_over(luma, &texture, part, &self.linear.rows(&model.strength, place));
    }

    /// Adds texture, as strong as is said, to the part of the luma that it lies over, which is counted in source pixels and may
    /// reach beyond.
    fn lay_over(&self, luma: &mut Plane, texture: &Plane, part: Region, strengths: &Enlarged) {
        let factor = self.factor() as isize;
        let mut strength = vec![0.0; texture.width()];
        let (left, top) = (part.left * factor, part.top * factor);
        let (before, after) = (left.min(0).unsigned_abs(), left.max(0) as usize);
        for (y, texture) in texture.rows().enumerate() {
            let Some(target) = usize::try_from(top + y as isize).ok().filter(|y| *y < luma.height()) else { continue };
            strengths.fill(y, &mut strength);
            let row = luma.row_mut(target)[after..].iter_mut();
            for ((value, strength), texture) in row.zip(&strength[before..]).zip(&texture[before..]) {
                *value += strength * texture;
            }
        }
    }

    /// Reduces the result, compares it with the source and adds what is missing, a few times (iterative back-projection).
    fn correct(&self, luma: &mut Plane, source: &Plane) {
        let whole = Region::whole(source);
        let mut line = vec![0.0; luma.width()];
        let mut rounds = self.look.fidelity;
        while rounds > 0.0 {
            let share = rounds.min(1.0);
            let mut missing = reduce(luma, self.factor());
            missing.combine(source, |reduced, source| share * (source - reduced));
            let missing = self.linear.rows(&missing, whole);
            for (y, row) in luma.rows_mut().enumerate() {
                missing.fill(y, &mut line);
                row.iter_mut().zip(&line).for_each(|(value, missing)| *value += missing);
            }
            rounds -= 1.0;
        }
    }

    fn enlarged(&self, region: Region) -> Region {
        let factor = self.factor();
        Region {
            left: region.left * factor as isize,
            top: region.top * factor as isize,
            width: region.width * factor,
            height: region.height * factor,
        }
    }
}

/// Raises what is finer than `soft`, less where its square is below `floor`.
#[multiversion(targets("x86_64+avx2"))]
fn raise(row: &mut [f32], soft: &[f32], amount: f32, floor: f32) {
    for (value, soft) in row.iter_mut().zip(soft) {
        let fine = *value - soft;
        let squared = fine * fine + 1e-12;
        *value += amount * fine * (squared / (squared + floor));
    }
}

/// Moves values towards the nearer end of their range, less where the square of the range is below `floor`.
#[multiversion(targets("x86_64+avx2"))]
fn steepen(row: &mut [f32], low: &[f32], high: &[f32], amount: f32, floor: f32) {
    for ((value, low), high) in row.iter_mut().zip(low).zip(high) {
        let range = high - low;
        let place = ((*value - low) / (range + 1e-6)).clamp(0.0, 1.0);
        let steeper = place * place * (3.0 - 2.0 * place);
        *value += amount * range * (steeper - place) * (range * range / (range * range + floor));
    }
}

/// Brings values that left their range by more than `overshoot` of it back, softly.
#[multiversion(targets("x86_64+avx2"))]
fn pull_back(row: &mut [f32], low: &[f32], high: &[f32], overshoot: f32) {
    for ((value, low), high) in row.iter_mut().zip(low).zip(high) {
        let room = overshoot * (high - low);
        let beyond = *value - value.max(*low).min(*high);
        *value -= beyond * beyond.abs() / (room + beyond.abs() + 1e-6);
    }
}

/// The ranges of the source that the values between its pixels lie in.
struct Ranges {
    /// The source with one more pixel on every side.
    padded: Plane,
    factor: usize,
    /// The row of cells, each of four pixels, whose lowest and highest are filled in.
    current: usize,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl Ranges {
    fn new(padded: Plane, factor: usize) -> Self {
        let empty = vec![0.0; (padded.width() - 1) * factor];
        Self { padded, factor, current: usize::MAX, low: empty.clone(), high: empty }
    }

    /// A value between four source pixels may leave their range by a share of it, softly; more would be a halo.
    fn pull_back(&mut self, y: usize, row: &mut [f32], overshoot: f32) {
        let cell = (y + self.factor / 2) / self.factor;
        if cell != self.current {
            self.current = cell;
            self.fill(cell);
        }
        let (low, high) = (&self.low[self.factor / 2..], &self.high[self.factor / 2..]);
        pull_back(row, low, high, overshoot);
    }

    /// The lowest and the highest of each four neighbours in two rows.
    fn fill(&mut self, cell: usize) {
        let (above, below) = (self.padded.row(cell), self.padded.row(cell + 1));
        let fours = || above.iter().zip(&above[1..]).zip(below.iter().zip(&below[1..]));
        let least = fours().map(|((a, b), (c, d))| a.min(*b).min(c.min(*d)));
        repeat(least, self.factor, &mut self.low);
        let most = fours().map(|((a, b), (c, d))| a.max(*b).max(c.max(*d)));
        repeat(most, self.factor, &mut self.high);
    }
}

/// Each value `count` times.
fn repeat(values: impl Iterator<Item = f32>, count: usize, target: &mut [f32]) {
    match count {
        2 => target.as_chunks_mut::<2>().0.iter_mut().zip(values).for_each(|(same, value)| *same = [value; 2]),
        4 => target.as_chunks_mut::<4>().0.iter_mut().zip(values).for_each(|(same, value)| *same = [value; 4]),
        _ => target.chunks_exact_mut(count).zip(values).for_each(|(same, value)| same.fill(value)),
    }
}

/// The lowest and the highest of the nine samples around each.
fn extremes(source: &Plane) -> (Plane, Plane) {
    let padded = source.window(Region::whole(source).grown(1));
    (of_nine(&padded, f32::min), of_nine(&padded, f32::max))
}

fn of_nine(padded: &Plane, choose: impl Fn(f32, f32) -> f32) -> Plane {
    let mut line = vec![0.0; padded.width()];
    Plane::from_rows(padded.width() - 2, padded.height() - 2, |y, target| {
        let rows = padded.row(y).iter().zip(padded.row(y + 1)).zip(padded.row(y + 2));
        line.iter_mut().zip(rows).for_each(|(value, ((a, b), c))| *value = choose(choose(*a, *b), *c));
        let beside = line.iter().zip(&line[1..]).zip(&line[2..]);
        target.iter_mut().zip(beside).for_each(|(value, ((a, b), c))| *value = choose(choose(*a, *b), *c));
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn look() -> Look {
        Look { sharpen: 0.5, overshoot: 0.2, texture: 0.5, own_detail: 0.5, grain: 0.3, fidelity: 1.5, ..Look::NONE }
    }

    #[test]
    fn tiles_meet_without_a_seam() {
        let source = Planes::of(&sample::photo(48));
        for factor in [2, 4] {
            let detailer = Detailer::new(&source, factor, look(), 7, 0.002, true);
            let whole = detailer.tile(Region { left: 0, top: 0, width: 48, height: 24 });
            let part = detailer.tile(Region { left: 13, top: 9, width: 20, height: 8 });
            let same = (0..8 * factor).flat_map(|y| &whole.luma_row(9 * factor + y)[13 * factor..][..20 * factor]);
            let part = (0..8 * factor).flat_map(|y| part.luma_row(y));
            let worst = part.zip(same).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-3, "factor {factor}: {worst}");
        }
    }

    #[test]
    fn sharpening_leaves_no_halo() {
        let step = Plane::from_fn(16, 16, |x, _| if x < 8 { 0.2 } else { 0.8 });
        let source = Planes { luma: step, ..Planes::new(16, 16) };
        let look = Look { sharpen: 2.0, overshoot: 0.0, ..Look::NONE };
        let detailer = Detailer::new(&source, 4, look, 7, 0.0, true);
        let tile = detailer.tile(Region::whole(&source.luma));
        let row = tile.luma_row(32);
        assert!(row.iter().all(|value| (0.19..0.81).contains(value)), "{row:?}");
        // Half of the step is taken within two pixels of 64.
        assert!(row[33] - row[30] > 0.3, "{row:?}");
    }
}
