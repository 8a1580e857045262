//! The work at the size of the output, tile by tile: edges, texture, fidelity and grain of the luma.
//!
//! A tile is computed with a margin wide enough for everything that looks at neighbours, and what is invented depends on
//! the place in the picture alone, so that tiles meet without a seam and memory does not grow with the picture.

use super::colour::Planes;
use super::filters::{box_blur, finer_than, smooth};
use super::flow::{Directions, Flow};
use super::noise;
use super::plane::{Plane, Region};
use super::presets::Look;
use super::resample::{Enlarger, Kernel, reduce};

/// Width of the margin in source pixels. What looks furthest is the luma (one for following edges, one each for sharpening and
/// steepening, three for fidelity) and the texture (four for its coarsest band, two for combing).
const MARGIN: usize = 8;

/// Everything that the tiles of one enlargement share.
#[derive(Debug)]
pub struct Detailer<'a> {
    source: &'a Planes,
    look: Look,
    seed: u32,
    /// Whether the picture is enlarged no further: grain belongs to the film, not to what was filmed.
    last: bool,
    noise: f32,
    lanczos: Enlarger,
    linear: Enlarger,
    flow: Flow,
    model: Option<Model>,
}

/// Where the source has texture, and which.
#[derive(Debug)]
struct Model {
    /// How strong invented texture may be, in luma.
    strength: Plane,
    /// The finest band of the source, relative to what surrounds it: about one where there is texture.
    band: Plane,
}

/// A part of the enlarged picture.
#[derive(Debug)]
pub struct Tile {
    pub luma: Plane,
    pub blue: Plane,
    pub red: Plane,
    pub alpha: Option<Plane>,
}

impl<'a> Detailer<'a> {
    /// Prepares the enlargement of `source` by `factor`, 2 to 13. `noise` is the noise of the source.
    #[must_use]
    pub fn new(source: &'a Planes, factor: usize, look: Look, seed: u32, noise: f32, last: bool) -> Self {
        let textured = look.texture > 0.0 || look.own_detail > 0.0;
        Self {
            source,
            look,
            seed,
            last,
            noise,
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
    pub fn tile(&self, region: Region) -> Tile {
        let grown = region.grown(MARGIN);
        let source = self.source.luma.window(grown);
        let luma = self.lanczos.enlarge(&self.source.luma, grown);
        let directions = self.flow.within(grown, &self.linear);
        let mut luma = directions.follow(&luma);
        self.sharpen(&mut luma, &source);
        self.steepen(&mut luma, &source);
        self.correct(&mut luma, &source);
        self.add_texture(&mut luma, grown, &directions);
        if self.last {
            noise::add_grain(&mut luma, self.enlarged(grown), self.look.grain, !self.seed);
        }
        let enlarged = self.enlarged(region);
        let margin = (MARGIN * self.lanczos.factor()) as isize;
        Tile {
            luma: luma.window(Region { left: margin, top: margin, ..enlarged }),
            blue: self.lanczos.enlarge(&self.source.blue, region),
            red: self.lanczos.enlarge(&self.source.red, region),
            alpha: self.source.alpha.as_ref().map(|alpha| self.enlarge_alpha(alpha, region)),
        }
    }

    /// Alpha is enlarged as sharply as luma but may not ring at all: a ring would be a ghost around what is cut out.
    fn enlarge_alpha(&self, alpha: &Plane, region: Region) -> Plane {
        let mut enlarged = self.lanczos.enlarge(alpha, region);
        self.pull_back(&mut enlarged, &alpha.window(region.grown(1)), 0.0);
        enlarged
    }

    /// Raises the finest band where it is more than noise, then pulls back what left the range of the source around it.
    fn sharpen(&self, luma: &mut Plane, source: &Plane) {
        let amount = self.look.sharpen;
        let soft = smooth(luma, self.lanczos.factor() / 2);
        if amount > 0.0 {
            let floor = (2.0 * self.noise + 0.004).powi(2);
            luma.combine(&soft, |value, soft| {
                let fine = value - soft;
                value + amount * fine * (fine * fine / (fine * fine + floor))
            });
        } else {
            luma.combine(&soft, |value, soft| value + amount * (value - soft));
        }
        self.pull_back(luma, &source.window(Region::whole(source).grown(1)), self.look.overshoot);
    }

    /// Moves every value towards the lowest or the highest of the source around it, whichever is nearer: edges become
    /// steeper and nothing overshoots. Where the source varies no more than noise does, nothing happens.
    fn steepen(&self, luma: &mut Plane, source: &Plane) {
        if self.look.crisp <= 0.0 {
            return;
        }
        let (low, high) = extremes(source);
        let whole = Region::whole(source);
        let (low, high) = (self.linear.enlarge(&low, whole), self.linear.enlarge(&high, whole));
        let floor = (6.0 * self.noise + 0.03).powi(2);
        for ((value, low), high) in luma.values_mut().iter_mut().zip(low.values()).zip(high.values()) {
            let range = high - low;
            let place = ((*value - low) / (range + 1e-6)).clamp(0.0, 1.0);
            let steeper = place * place * (3.0 - 2.0 * place);
            *value += self.look.crisp * range * (steeper - place) * (range * range / (range * range + floor));
        }
    }

    /// A value between four source pixels may leave their range by a share of it, softly; more would be a halo. `padded`
    /// is the source with one more pixel on every side.
    fn pull_back(&self, enlarged: &mut Plane, padded: &Plane, overshoot: f32) {
        let factor = self.lanczos.factor();
        let mut ranges = vec![(0.0, 0.0); padded.width() - 1];
        let mut current = usize::MAX;
        for (y, row) in enlarged.rows_mut().enumerate() {
            let cell = (y + factor / 2) / factor;
            if cell != current {
                current = cell;
                fill_ranges(padded.row(cell), padded.row(cell + 1), &mut ranges);
            }
            for (x, value) in row.iter_mut().enumerate() {
                let (low, high) = ranges[(x + factor / 2) / factor];
                let room = overshoot * (high - low);
                let beyond = *value - value.clamp(low, high);
                *value -= beyond * beyond.abs() / (room + beyond.abs() + 1e-6);
            }
        }
    }

    /// Adds what is invented, by chance and from the picture itself, as strong as the texture that is there.
    fn add_texture(&self, luma: &mut Plane, grown: Region, directions: &Directions) {
        let Some(model) = &self.model else { return };
        // What is laid over texture of no strength is not seen: only the surroundings of the rest are worked out.
        let wanted = smooth(&model.strength.window(grown), 1);
        if wanted.values().iter().all(|strength| *strength <= 0.0) {
            return;
        }
        let wanted = |x: usize, y: usize| wanted.row(y)[x] > 0.0;
        let (place, factor) = (self.enlarged(grown), self.lanczos.factor());
        let mut texture = Plane::new(place.width, place.height);
        if self.look.texture > 0.0 {
            texture.combine(&noise::texture(place, factor / 2, self.seed), |_, noise| self.look.texture * noise);
        }
        if self.look.own_detail > 0.0 {
            let own = repeat_band(&model.band, place, factor, self.seed);
            texture.combine(&own, |texture, own| texture + self.look.own_detail * own);
        }
        // Fur, hair and the grain of wood run in a direction, and so must what is added to them.
        let texture = directions.follow_where(&directions.follow_where(&texture, wanted), wanted);
        let strength = self.linear.enlarge(&model.strength, grown);
        for ((value, strength), texture) in luma.values_mut().iter_mut().zip(strength.values()).zip(texture.values()) {
            *value += strength * texture;
        }
    }

    /// Reduces the result, compares it with the source and adds what is missing, a few times (iterative back-projection).
    fn correct(&self, luma: &mut Plane, source: &Plane) {
        let whole = Region::whole(source);
        let mut rounds = self.look.fidelity;
        while rounds > 0.0 {
            let share = rounds.min(1.0);
            let mut missing = reduce(luma, self.lanczos.factor());
            missing.combine(source, |reduced, source| source - reduced);
            luma.combine(&self.linear.enlarge(&missing, whole), |value, missing| value + share * missing);
            rounds -= 1.0;
        }
    }

    fn enlarged(&self, region: Region) -> Region {
        let factor = self.lanczos.factor();
        Region {
            left: region.left * factor as isize,
            top: region.top * factor as isize,
            width: region.width * factor,
            height: region.height * factor,
        }
    }
}

/// The lowest and the highest of the nine samples around each.
fn extremes(source: &Plane) -> (Plane, Plane) {
    let of_three = |values: &[f32]| {
        let (a, b, c) = (values[0], values[1], values[2]);
        (a.min(b).min(c), a.max(b).max(c))
    };
    let padded = source.window(Region::whole(source).grown(1));
    let (mut low, mut high) =
        (Plane::new(source.width(), padded.height()), Plane::new(source.width(), padded.height()));
    for ((low, high), row) in low.rows_mut().zip(high.rows_mut()).zip(padded.rows()) {
        for ((low, high), around) in low.iter_mut().zip(high).zip(row.windows(3)) {
            (*low, *high) = of_three(around);
        }
    }
    let down = |plane: &Plane, choose: fn(f32, f32) -> f32| {
        Plane::from_fn(source.width(), source.height(), |x, y| {
            choose(choose(plane.row(y)[x], plane.row(y + 1)[x]), plane.row(y + 2)[x])
        })
    };
    (down(&low, f32::min), down(&high, f32::max))
}

/// The lowest and the highest of each four neighbours in two rows.
fn fill_ranges(above: &[f32], below: &[f32], ranges: &mut [(f32, f32)]) {
    for ((range, above), below) in ranges.iter_mut().zip(above.windows(2)).zip(below.windows(2)) {
        let (a, b, c, d) = (above[0], above[1], below[0], below[1]);
        *range = (a.min(b).min(c.min(d)), a.max(b).max(c.max(d)));
    }
}

impl Model {
    fn of(luma: &Plane, noise: f32) -> Self {
        let mut activity = finer_than(luma, 1);
        activity.values_mut().iter_mut().for_each(|value| *value = value.abs());
        let activity = box_blur(&activity, 1);
        // Texture has texture on all sides; beside an edge or a line there is less on one of them.
        let mut strength = least_around(&least_around(&activity, 3), 6);
        strength
            .values_mut()
            .iter_mut()
            .for_each(|value| *value = (2.0 * *value - 1.5 * noise - 0.003).clamp(0.0, 0.06));
        // Without the very finest scale: that is mostly noise, and would be repeated as a pattern of dots.
        let mut band = finer_than(&box_blur(luma, 1), 2);
        band.combine(&box_blur(&activity, 3), |value, activity| {
            let relative = value / (0.5 * activity + 0.005);
            relative / (1.0 + relative * relative)
        });
        Self { strength: smooth(&strength, 2), band }
    }
}

/// The least of the samples here and `distance` to each of the four sides.
fn least_around(plane: &Plane, distance: usize) -> Plane {
    let (right, bottom) = (plane.width() - 1, plane.height() - 1);
    Plane::from_rows(plane.width(), plane.height(), |y, target| {
        let (above, row) = (plane.row(y.saturating_sub(distance)), plane.row(y));
        let below = plane.row((y + distance).min(bottom));
        for (x, value) in target.iter_mut().enumerate() {
            let beside = row[x.saturating_sub(distance)].min(row[(x + distance).min(right)]);
            *value = row[x].min(beside).min(above[x]).min(below[x]);
        }
    })
}

/// Side of the patches in which the band is repeated, in pixels; they overlap by half.
const PATCH: usize = 16;
/// How far a patch may be moved, in source pixels.
const PATCH_SHIFT: u32 = 6;

/// The band of the source at its own scale, patch by patch from the place where the patch lies: texture that goes on below
/// the scale of the source as it does above.
fn repeat_band(band: &Plane, place: Region, factor: usize, seed: u32) -> Plane {
    let columns: Vec<_> = (place.left..)
        .take(place.width)
        .map(|x| patches(x, factor, seed).map(|(at, weight)| (mirrored(at, band.width()), weight)))
        .collect();
    Plane::from_rows(place.width, place.height, |y, row| {
        let rows = patches(place.top + y as isize, factor, !seed);
        let [upper, lower] = rows.map(|(at, weight)| (band.row(mirrored(at, band.height())), weight));
        for (value, [left, right]) in row.iter_mut().zip(&columns) {
            let across = |row: &[f32]| row[left.0] * left.1 + row[right.0] * right.1;
            *value = upper.1 * across(upper.0) + lower.1 * across(lower.0);
        }
    })
}

/// For a coordinate of the result, the source coordinates in the two patches that overlap there, and their weights, whose
/// squares add up to one so that the texture is as strong between patches as within. Each patch is moved a little by
/// chance: side by side, neighbours would show the same thing twice.
fn patches(at: isize, factor: usize, seed: u32) -> [(isize, f32); 2] {
    let step = (PATCH / 2) as isize;
    let first = at.div_euclid(step) - 1;
    let along = (at.rem_euclid(step) as f32 + 0.5) / step as f32 * std::f32::consts::FRAC_PI_2;
    [(first, along.cos()), (first + 1, along.sin())].map(|(patch, weight)| {
        let centre = (patch + 1) * step;
        let moved = (noise::scramble(patch as u32, 0, seed) % (2 * PATCH_SHIFT + 1)) as isize - PATCH_SHIFT as isize;
        (centre.div_euclid(factor as isize) + moved + at - centre, weight)
    })
}

/// Reflects a coordinate at the borders of `0..length`.
fn mirrored(at: isize, length: usize) -> usize {
    let period = 2 * length as isize;
    let at = at.rem_euclid(period);
    at.min(period - 1 - at) as usize
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
            let (left, top) = (13 * factor as isize, 9 * factor as isize);
            let same = whole.luma.window(Region { left, top, width: 20 * factor, height: 8 * factor });
            let worst = part.luma.values().iter().zip(same.values()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-3, "factor {factor}: {worst}");
        }
    }

    #[test]
    fn sharpening_leaves_no_halo() {
        let step = Plane::from_fn(16, 16, |x, _| if x < 8 { 0.2 } else { 0.8 });
        let source = Planes { luma: step, ..Planes::new(16, 16) };
        let look = Look { sharpen: 2.0, overshoot: 0.0, ..Look::NONE };
        let tile = Detailer::new(&source, 4, look, 7, 0.0, true).tile(Region::whole(&source.luma));
        let row = tile.luma.row(32);
        assert!(row.iter().all(|value| (0.19..0.81).contains(value)), "{row:?}");
        // Half of the step is taken within two pixels of 64.
        assert!(row[33] - row[30] > 0.3, "{row:?}");
    }

    #[test]
    fn mirrors_have_no_edge() {
        assert_eq!([-2, -1, 0, 1, 2, 3, 4, 5, 6].map(|at| mirrored(at, 3)), [1, 0, 0, 1, 2, 2, 1, 0, 0]);
    }
}
