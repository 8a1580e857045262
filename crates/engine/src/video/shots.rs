//! Shots of a video: a camera in a still picture, and transitions between two pictures.

use super::camera::{Pose, Track, eased};
use super::depth::Depth;
use super::optical::FlowPair;
use super::raster::{Raster, Vec2};
use super::view::View;
use super::words::MovingElement;

/// Part of a video. Frames can be drawn in any order.
pub trait Shot: Sync + Send {
    /// Draws the frame `seconds` after the start of the shot, which is the fraction `share` of it. Returns the pose of
    /// the camera, with which the weather moves.
    fn draw(&self, seconds: f32, share: f32, frame: &mut Raster) -> Pose;

    /// Returns the depth for fog, or `None` if it changes during the shot.
    fn depth(&self) -> Option<&Depth>;

    /// Returns the speed of the camera at a fraction of the shot, in half heights per second.
    fn speed(&self, share: f32) -> f32;
}

/// Camera in a single picture.
pub struct StillShot {
    pub view: View,
    pub track: Track,
    pub elements: Vec<MovingElement>,
}

impl Shot for StillShot {
    fn draw(&self, seconds: f32, share: f32, frame: &mut Raster) -> Pose {
        let pose = self.view.limited_to(&self.track.at(share), frame.size());

        if self.elements.is_empty() {
            self.view.draw(&pose, None, frame);
        } else {
            // Motion fades in, so that the video starts with the unchanged picture.
            let fade_in = (2.0 * seconds).min(1.0);
            let bend = |point: Vec2| {
                self.elements
                    .iter()
                    .fold(point, |point, element| displace(*element, point, seconds, fade_in, &self.view.depth))
            };
            self.view.draw(&pose, Some(&bend), frame);
        }

        pose
    }

    fn depth(&self) -> Option<&Depth> {
        Some(&self.view.depth)
    }

    fn speed(&self, share: f32) -> f32 {
        self.track.speed(share)
    }
}

/// Returns the position in the unmoved picture that appears at `point` because an element such as water moves.
/// `fade_in` is the strength of the motion, 0 to 1.
fn displace(element: MovingElement, point: Vec2, seconds: f32, fade_in: f32, depth: &Depth) -> Vec2 {
    let [x, y] = point;
    let near = depth.at(point);

    match element {
        MovingElement::Water => {
            // Waves grow with nearness. Areas above the horizon have no waves.
            let down = ((y - 0.05) / 0.95).clamp(0.0, 1.0);
            let far = 0.12 + down;
            let wave = |frequency: f32, along: f32, across: f32| {
                (frequency * seconds + along * y / far + across * x / far).sin()
            };
            let high = 0.014 * fade_in * down.sqrt() * far;
            [
                x + high * (wave(2.1, 26.0, 5.0) + 0.5 * wave(3.3, 41.0, -7.0)),
                y + 0.6 * high * (wave(1.7, 31.0, 4.0) + 0.5 * wave(2.6, 23.0, -6.0)),
            ]
        }
        MovingElement::Clouds => {
            let far = ((0.42 - near) / 0.17).clamp(0.0, 1.0) * (0.3 - y).clamp(0.0, 1.0).sqrt();
            [x - 0.035 * far * seconds * fade_in, y]
        }
        MovingElement::Leaves => {
            let gust = 0.6 + 0.4 * (0.7 * seconds + x).sin();
            let sway = (2.3 * seconds + 7.0 * x + 3.0 * y).sin() + 0.4 * (4.1 * seconds - 11.0 * x + 5.0 * y).sin();
            let shift = 0.006 * fade_in * gust * near * (1.0 - 0.5 * y.max(0.0));
            [x + shift * sway, y + 0.3 * shift * (3.1 * seconds + 9.0 * x).sin()]
        }
    }
}

/// Transition between two pictures.
///
/// Similar pictures morph into each other over the whole time. Otherwise the flow is of little use: the camera moves
/// through both pictures with a cross-fade in the middle, which starts in similar areas.
pub struct Morph {
    from: View,
    to: View,
    flow: FlowPair,
    /// Motion of the camera in the first picture.
    outgoing: Track,
    /// Motion of the camera in the second picture.
    incoming: Track,
}

impl Morph {
    /// Creates a transition. The more similar the pictures are, the less the camera moves.
    #[must_use]
    pub fn between(from: View, to: View, track: &Track) -> Self {
        let flow = FlowPair::between(&from.picture, &to.picture);
        let strength = 0.7 * (1.0 - flow.likeness).powi(2);
        let outgoing = track.scaled(strength);
        let incoming = track.scaled(strength).reversed();
        Self { from, to, flow, outgoing, incoming }
    }

    /// Returns the opacity of the second picture at a fraction of the time, before local adjustment.
    fn second_opacity(&self, share: f32) -> f32 {
        let half = 0.16 + 0.34 * self.flow.likeness;
        let at = ((share - 0.5 + half) / (2.0 * half)).clamp(0.0, 1.0);
        at * at * (3.0 - 2.0 * at)
    }
}

impl Shot for Morph {
    fn draw(&self, _seconds: f32, share: f32, frame: &mut Raster) -> Pose {
        let second_opacity = self.second_opacity(share);
        let progress = eased(share);

        // The flow between dissimilar pictures is random and would tear them, so less of it is used.
        let flow = 0.35 + 0.65 * self.flow.likeness;

        let pose = self.from.limited_to(&self.outgoing.at(share), frame.size());

        if second_opacity < 1.0 {
            let bend = |point: Vec2| {
                let offset = self.flow.forward.at(point);
                [point[0] - flow * progress * offset[0], point[1] - flow * progress * offset[1]]
            };
            self.from.draw(&pose, (progress > 0.0).then_some(&bend), frame);
        }

        if second_opacity > 0.0 {
            let incoming_pose = self.to.limited_to(&self.incoming.at(share), frame.size());
            let remaining = 1.0 - progress;
            let bend = |point: Vec2| {
                let offset = self.flow.backward.at(point);
                [point[0] - flow * remaining * offset[0], point[1] - flow * remaining * offset[1]]
            };

            if second_opacity < 1.0 {
                let mut incoming_frame = Raster::new(frame.size());
                self.to.draw(&incoming_pose, Some(&bend), &mut incoming_frame);
                blend(frame, &incoming_frame, second_opacity, self.flow.likeness);
            } else {
                self.to.draw(&incoming_pose, (remaining > 0.0).then_some(&bend), frame);
            }
            return if second_opacity < 0.5 { pose } else { incoming_pose };
        }

        pose
    }

    fn depth(&self) -> Option<&Depth> {
        None
    }

    fn speed(&self, share: f32) -> f32 {
        self.outgoing.speed(share) + 0.3 * (1.0 - self.flow.likeness) * (1.0 - (2.0 * share - 1.0).powi(2))
    }
}

/// Blends `incoming_frame` into `frame` in linear light, with the opacity `second_opacity` from 0 to 1.
///
/// Similar areas change early, different areas late and quickly to avoid double images. The less alike the pictures are
/// as a whole (`likeness`, 0 to 1), the stronger this effect.
fn blend(frame: &mut Raster, incoming_frame: &Raster, second_opacity: f32, likeness: f32) {
    let sharp = 1.0 - likeness;
    for (pixel, next) in frame.pixels_mut().iter_mut().zip(incoming_frame.pixels()) {
        let differ = ((pixel[0] - next[0]).abs() + (pixel[1] - next[1]).abs() + (pixel[2] - next[2]).abs()) / 3.0;
        let delay = 0.5 * sharp * (2.0 * differ - 0.35).clamp(-0.35, 0.5);
        let share = ((second_opacity - 0.5 - delay * (1.0 - (2.0 * second_opacity - 1.0).abs())) * (1.0 + 0.6 * sharp)
            + 0.5)
            .clamp(0.0, 1.0);

        for at in 0..3 {
            // The square approximates linear light at low cost.
            let light = pixel[at] * pixel[at] * (1.0 - share) + next[at] * next[at] * share;
            pixel[at] = light.max(0.0).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::video::MotionAmount;
    use crate::video::camera::Track;
    use crate::video::raster::Size;
    use crate::video::words::VideoKeywords;

    const SIZE: Size = Size { width: 64, height: 36 };

    fn picture(at: usize, colour: [f32; 3]) -> View {
        let picture = Raster::from_fn(SIZE, |x, y| {
            let in_box = (at..at + 12).contains(&x) && (12..24).contains(&y);
            let shade = 0.2 + 0.005 * (x + y) as f32;
            if in_box { [colour[0], colour[1], colour[2], 1.0] } else { [shade, shade, shade, 1.0] }
        });
        View::from_picture(picture)
    }

    fn frame(shot: &dyn Shot, share: f32) -> Raster {
        let mut frame = Raster::new(SIZE);
        shot.draw(2.0 * share, share, &mut frame);
        frame
    }

    #[test]
    fn a_morph_begins_and_ends_at_its_pictures() {
        for to in [picture(24, [0.9, 0.8, 0.1]), picture(40, [0.1, 0.2, 0.9])] {
            let from = picture(20, [0.9, 0.8, 0.1]);
            let track = Track::from_keywords(&VideoKeywords::from_prompt("orbit"), MotionAmount::Large, 2.0, 3);
            let first = from.picture.clone();
            let last = to.picture.clone();
            let morph = Morph::between(from, to, &track);
            assert_eq!((frame(&morph, 0.0), frame(&morph, 1.0)), (first, last));
        }
    }

    #[test]
    fn similar_objects_move_instead_of_fading() {
        let yellow = [0.9, 0.8, 0.1];
        let morph = Morph::between(picture(20, yellow), picture(26, yellow), &Track::still());
        let middle = frame(&morph, 0.5);
        let bright: Vec<_> = (0..64).filter(|x| middle.row(18)[*x][0] > 0.6).collect();
        assert!(bright.len() < 16 && bright.contains(&28), "{bright:?}");
    }

    #[test]
    fn water_and_leaves_move_and_a_still_picture_begins_as_itself() {
        for element in [MovingElement::Water, MovingElement::Clouds, MovingElement::Leaves] {
            let view = picture(20, [0.8, 0.2, 0.1]);
            let first = view.picture.clone();
            let still = StillShot { view, track: Track::still(), elements: vec![element] };
            assert!(frame(&still, 0.0).pixels().iter().zip(first.pixels()).all(|(a, b)| (a[0] - b[0]).abs() < 1e-3));
            if element != MovingElement::Clouds {
                assert_ne!(frame(&still, 0.7), frame(&still, 0.9), "{element:?}");
            }
        }
    }
}
