//! Composition of a scene from reference pictures.
//!
//! Transparent pictures provide their shape. The subject of a single opaque picture is detected by its colours and cut
//! out. Opaque pictures are shown whole, as cards, if there are several references, if the subject is nearly nothing or
//! nearly everything, or if its outline is not clear.
//!
//! The background is painted if the prompt names a place; otherwise it is the first picture out of focus. Objects have
//! individual distances, and the camera moves from one to the next.

use super::camera::{FAR, NEAR, Pose, Track, random};
use super::cutout;
use super::depth::Depth;
use super::raster::{Raster, Size};
use super::scene;
use super::view::View;
use super::words::VideoKeywords;
use crate::filters::{box_blur, smooth};
use crate::guide::Overview;
use crate::light::ramp;
use crate::picture::Pixels;
use crate::plane::{Plane, Region};
use crate::relight::subject::find_subject;
use crate::video::MotionAmount;

/// Side in pixels of the squares of a scene that share one nearness while objects are drawn.
const NEARNESS_CELL: usize = 4;

/// Scene with the positions of its objects.
pub struct ComposedScene {
    pub view: View,
    /// Centres of the objects in the order of the references, as positions on the picture.
    anchors: Vec<[f32; 2]>,
}

/// Object of a scene: a picture whose alpha is its shape.
struct SceneObject {
    picture: Raster,
    /// `true` if the object rests on the ground; cards are centred instead.
    is_standing: bool,
}

/// Returns the size of a reference that fits the frame with its own aspect ratio.
#[must_use]
pub fn fit_size(pixels: &Pixels, frame: Size) -> Size {
    let (width, height) = match pixels {
        Pixels::Opaque(picture) => picture.dimensions(),
        Pixels::Transparent(picture) => picture.dimensions(),
    };
    let width = width as f32;
    let height = height as f32;

    let scale = (frame.width as f32 / width).min(frame.height as f32 / height).min(1.0e3);
    let side = |length: f32| ((length * scale).round() as usize).max(4);
    Size { width: side(width), height: side(height) }
}

/// Composes a scene from references.
#[must_use]
pub fn compose(references: &[Raster], keywords: &VideoKeywords, prompt: &str, size: Size, seed: u32) -> ComposedScene {
    let mut view = draw_background(references, keywords, prompt, size, seed);
    let count = references.len().max(1);

    // Nearness of the scene, from 0 (far) to 1.
    let columns = size.width.div_ceil(NEARNESS_CELL);
    let rows = size.height.div_ceil(NEARNESS_CELL);
    let mut nearness = Plane::from_fn(columns, rows, |x, y| {
        let half = size.height as f32 * 0.5;
        let point = [(NEARNESS_CELL * x) as f32 / half - size.aspect(), (NEARNESS_CELL * y) as f32 / half - 1.0];
        // The background, up to 0.55, stays behind its objects.
        0.55 * (view.depth.at(point) - FAR) / (NEAR - FAR)
    });

    let mut anchors = Vec::new();
    for (index, reference) in references.iter().enumerate() {
        let subject = SceneObject::from_reference(reference, count == 1);

        // Several objects stand side by side and alternate in distance.
        let slot = (index as f32 + 0.5) / count as f32;
        let near = if count == 1 { 0.85 } else { 0.68 + 0.27 * ((index % 2) as f32) };

        // The object is as large as its slot and its share of the height allow.
        let height_max = size.height as f32 * if count == 1 { 0.80 } else { 0.60 + 0.12 * near };
        let width_max = size.width as f32 / count as f32 * 0.94;
        let own_size = subject.picture.size();
        let scale = (height_max / own_size.height as f32).min(width_max / own_size.width as f32);
        let side = |length: usize| ((length as f32 * scale) as usize).max(4);
        let Size { width, height } = subject.picture.size();
        let fitted = subject.picture.resize_to_cover(Size { width: side(width), height: side(height) });

        // Objects stand on the lower border; cards are centred.
        let Size { width, height } = fitted.size();
        let left = (slot * size.width as f32 - width as f32 * 0.5) as isize;
        let floor = if subject.is_standing { 1.0 } else { 0.5 + 0.5 * height as f32 / size.height as f32 };
        let top = (floor * size.height as f32) as isize - height as isize;

        draw_shadow(&mut view.picture, &fitted, left, top, subject.is_standing);
        draw_object(&mut view.picture, &mut nearness, &fitted, [left, top], near);

        // The camera looks at a point slightly above the middle.
        let half = size.height as f32 * 0.5;
        anchors.push([
            (left as f32 + width as f32 * 0.5) / half - size.aspect(),
            (top as f32 + height as f32 * 0.45) / half - 1.0,
        ]);
    }

    let nearness = smooth(&nearness, (size.height / NEARNESS_CELL / 60).max(1));
    view.depth = Depth::from_map(nearness, size.aspect());
    ComposedScene { view, anchors }
}

impl ComposedScene {
    /// Returns the motion from object to object. With a single object or with camera moves in the prompt, it is the
    /// motion of the prompt.
    #[must_use]
    pub fn track(&self, keywords: &VideoKeywords, amplitude: MotionAmount, seconds: f32, seed: u32) -> Track {
        let [Some(first), Some(last)] = [self.anchors.first(), self.anchors.last()] else { return Track::still() };
        let base_track = Track::from_keywords(keywords, amplitude, seconds, seed);
        if self.anchors.len() == 1 || !keywords.moves.is_empty() || keywords.still {
            return base_track;
        }

        let strength = match amplitude {
            MotionAmount::Small => 0.35,
            MotionAmount::Auto | MotionAmount::Medium => 0.65,
            MotionAmount::Large => 0.9,
        };

        let pose_at = |anchor: &[f32; 2]| Pose {
            shift: [strength * anchor[0], 0.3 * strength * anchor[1]],
            zoom: 1.0 + 0.7 * strength,
            drift: [0.12 * strength * anchor[0].signum(), 0.0, 0.0],
            rotation: 0.0,
        };

        Track::between(pose_at(first), pose_at(last), seconds)
    }
}

/// Draws what is behind the objects: the first reference out of focus if it is opaque and the prompt names no place,
/// otherwise a painted place.
fn draw_background(references: &[Raster], keywords: &VideoKeywords, prompt: &str, size: Size, seed: u32) -> View {
    let first = references.first().filter(|_| keywords.scenery.is_none());
    let Some(first) = first.filter(|first| first.pixels().iter().all(|pixel| pixel[3] > 0.99)) else {
        return scene::paint(keywords, prompt, size, seed);
    };

    let small = first.resize_to_cover(Size { width: (size.width / 8).max(4), height: (size.height / 8).max(4) });
    let radius = (small.size().height / 5).max(2);
    let soft: Vec<Plane> = (0..3).map(|at| smooth(&smooth(&small.channel(at), radius), radius)).collect();

    let soft = Raster::from_fn(small.size(), |x, y| {
        let [red, green, blue] = [0, 1, 2].map(|at: usize| soft[at].row(y)[x]);
        [0.62 * red, 0.62 * green, 0.66 * blue, 1.0]
    });

    let depth = Plane::from_fn(8, 8, |_, y| y as f32 / 14.0 + 0.1 * random(seed, 12));

    View { picture: soft.resize_to_cover(size), depth: Depth::from_map(depth, size.aspect()) }
}

impl SceneObject {
    /// Creates the object of a reference: its own shape, its cut-out subject, or a card. `is_alone` is `true` if it
    /// is the only reference.
    fn from_reference(reference: &Raster, is_alone: bool) -> Self {
        // A picture has a shape if more than 2 percent of it are transparent.
        let transparent = reference.pixels().iter().filter(|pixel| pixel[3] < 0.5).count();
        if transparent * 50 > reference.size().area() {
            return Self { picture: reference.clone(), is_standing: true };
        }

        let overview = Overview::from_pixels(&Pixels::Opaque(reference.to_image()), 240);
        let likelihood = find_subject(&overview, &Plane::new(overview.width(), overview.height()));
        let share = likelihood.values().iter().sum::<f32>() / likelihood.values().len() as f32;
        let top_share = likelihood.row(0).iter().sum::<f32>() / likelihood.width() as f32;

        let is_clear = (0.06..0.7).contains(&share) && top_share <= 0.3 && cutout::has_clear_outline(&likelihood);
        if !is_alone || !is_clear {
            return Self { picture: card(reference), is_standing: false };
        }

        Self { picture: cutout::cut_out(reference, &likelihood), is_standing: true }
    }
}

/// Returns the whole picture with rounded corners.
fn card(reference: &Raster) -> Raster {
    let mut picture = reference.clone();
    let Size { width, height } = picture.size();
    let radius = 0.05 * width.min(height) as f32;
    for y in 0..height {
        for (x, pixel) in picture.row_mut(y).iter_mut().enumerate() {
            let over = |at: usize, length: usize| (radius - (at.min(length - 1 - at) as f32 + 0.5)).max(0.0);
            let far = (over(x, width).powi(2) + over(y, height).powi(2)).sqrt();
            pixel[3] *= (radius - far + 0.5).clamp(0.0, 1.0);
        }
    }
    picture
}

/// Draws the soft shadow of an object whose upper left corner is at `left` and `top`.
fn draw_shadow(scene: &mut Raster, subject: &Raster, left: isize, top: isize, is_standing: bool) {
    let margin = subject.size().height / 12 + 2;
    let cover = subject.channel(3);

    let area = Region { left: 0, top: 0, width: subject.size().width, height: subject.size().height }.grown(margin);

    let coverage = Plane::from_fn(area.width, area.height, |x, y| {
        let x = x.wrapping_sub(margin);
        let y = y.wrapping_sub(margin);
        if x < cover.width() && y < cover.height() { cover.row(y)[x] } else { 0.0 }
    });

    let soft = box_blur(&box_blur(&coverage, margin / 3 + 1), margin / 3 + 1);
    let size = scene.size();
    let dark = if is_standing { 0.35 } else { 0.55 };

    for y in 0..area.height {
        for x in 0..area.width {
            let at = [left + x as isize - margin as isize, top + y as isize - margin as isize + margin as isize / 4];
            if let (Ok(across), Ok(down)) = (usize::try_from(at[0]), usize::try_from(at[1]))
                && across < size.width
                && down < size.height
            {
                scene.blend_pixel(across, down, [0.02, 0.02, 0.04], dark * soft.row(y)[x]);
            }
        }
    }
}

/// Draws an object over the scene, and its nearness `near` over the map of nearness, which has one sample per
/// [`NEARNESS_CELL`].
fn draw_object(scene: &mut Raster, nearness: &mut Plane, subject: &Raster, [left, top]: [isize; 2], near: f32) {
    let size = scene.size();
    for y in 0..subject.size().height {
        for x in 0..subject.size().width {
            let [Ok(across), Ok(down)] = [left + x as isize, top + y as isize].map(usize::try_from) else { continue };
            if across >= size.width || down >= size.height {
                continue;
            }

            let [red, green, blue, cover] = subject.row(y)[x];
            scene.blend_pixel(across, down, [red, green, blue], cover);

            if across.is_multiple_of(NEARNESS_CELL) && down.is_multiple_of(NEARNESS_CELL) {
                let value = &mut nearness.row_mut(down / NEARNESS_CELL)[across / NEARNESS_CELL];
                *value += ramp(cover, 0.3, 0.7) * (near - *value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { width: 96, height: 54 };

    fn disc(colour: [f32; 3]) -> Raster {
        Raster::from_fn(Size { width: 40, height: 40 }, |x, y| {
            let far = (x as f32 - 20.0).hypot(y as f32 - 22.0);
            [colour[0], colour[1], colour[2], if far < 15.0 { 1.0 } else { 0.0 }]
        })
    }

    /// Returns an object of a scene with one reference.
    fn single_object(reference: &Raster) -> SceneObject {
        SceneObject::from_reference(reference, true)
    }

    #[test]
    fn every_reference_is_shown_in_front_of_the_scene() {
        let composed = compose(
            &[disc([0.9, 0.1, 0.1]), disc([0.1, 0.1, 0.9])],
            &VideoKeywords::from_prompt("a beach"),
            "a beach",
            SIZE,
            3,
        );
        let [red, blue] = [composed.anchors[0], composed.anchors[1]];
        let at = |[x, y]: [f32; 2]| {
            let picture = &composed.view.picture;
            picture.sample((x + SIZE.aspect()) * 27.0, (y + 1.0) * 27.0)
        };
        assert!(at(red)[0] > 0.7 && at(blue)[2] > 0.7, "{:?} {:?}", at(red), at(blue));

        let background_depth = composed.view.depth.at([0.0, -0.8]);
        assert!(composed.view.depth.at(red) > background_depth + 0.2);
    }

    #[test]
    fn the_camera_goes_from_the_first_to_the_last() {
        let composed = compose(
            &[disc([0.9, 0.1, 0.1]), disc([0.1, 0.1, 0.9])],
            &VideoKeywords::from_prompt("a beach"),
            "a beach",
            SIZE,
            3,
        );
        let track = composed.track(&VideoKeywords::neutral(), MotionAmount::Medium, 4.0, 1);
        assert!(track.at(0.0).shift[0] < -0.1);
        assert!(track.at(1.0).shift[0] > 0.1);
    }

    #[test]
    fn a_picture_without_a_subject_is_a_card() {
        let even = Raster::from_fn(Size { width: 80, height: 60 }, |_, _| [0.3, 0.6, 0.4, 1.0]);
        let card = single_object(&even);
        assert!(!card.is_standing);
        assert!(card.picture.row(30)[40][3] > 0.9);
        assert!(card.picture.row(0)[0][3] < 0.5);
    }

    #[test]
    fn a_subject_is_cut_out_softly_without_its_old_background() {
        // Given a dark disc with an anti-aliased edge on white
        let size = Size { width: 320, height: 240 };
        let dark = [0.30, 0.15, 0.10];
        let reference = Raster::from_fn(size, |x, y| {
            let far = (x as f32 - 160.0).hypot(y as f32 - 130.0);
            let cover = (80.5 - far).clamp(0.0, 2.0) * 0.5;
            let [red, green, blue] = dark.map(|part| 1.0 + cover * (part - 1.0));
            [red, green, blue, 1.0]
        });

        // When it becomes an object
        let object = single_object(&reference);

        // Then no visible pixel is brightened by the white
        assert!(object.is_standing);
        let halo = object.picture.pixels().iter().map(|pixel| pixel[3] * (pixel[0] - dark[0]).abs());
        assert!(halo.clone().fold(0.0, f32::max) < 0.15, "{}", halo.fold(0.0, f32::max));

        // And the edge is as soft as in the picture
        let row = object.picture.row(130);
        assert!(row[160][3] > 0.99);
        assert!(row[60][3] < 0.01);
        let soft = row.iter().filter(|pixel| (0.1..0.9).contains(&pixel[3])).count();
        assert!((2..=10).contains(&soft), "{soft}");
    }

    #[test]
    fn a_subject_without_a_clear_outline_stays_on_its_card() {
        let reference = Raster::from_fn(Size { width: 320, height: 240 }, |x, y| {
            let far = (x as f32 - 160.0).hypot(y as f32 - 130.0);
            let glow = (1.0 - far / 130.0).clamp(0.0, 1.0);
            [0.2 + 0.7 * glow, 0.3 + 0.3 * glow, 0.5, 1.0]
        });
        assert!(!single_object(&reference).is_standing);
    }
}
