//! Camera motion.
//!
//! A pose consists of position, rotation and zoom. A video starts at the picture's own pose, so the first frame equals
//! the picture; motion eases in and out. Where a pose would show an area beyond the border, the zoom increases as far
//! as necessary.

use super::raster::Place;
use super::words::{Move, Wishes};
use crate::noise::scramble;
use crate::video::MotionAmount;

/// Nearness (1 / distance) of the nearest objects.
pub const NEAR: f32 = 1.0;
/// Nearness of the farthest objects.
pub const FAR: f32 = 0.25;
/// Nearness of the pivot of an orbit, which keeps its position in the frame.
const PIVOT: f32 = 0.6;

/// Pose of the camera.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pose {
    /// Shift of the whole picture.
    pub shift: Place,
    /// Translation to the right, down and forward; 1 forward reaches the nearest objects.
    pub way: [f32; 3],
    /// Magnification of the lens.
    pub zoom: f32,
    /// Clockwise rotation in radians.
    pub turn: f32,
}

impl Pose {
    /// Pose of the original picture.
    pub const OWN: Self = Self { shift: [0.0; 2], way: [0.0; 3], zoom: 1.0, turn: 0.0 };

    /// Returns the source position in the picture of an object of nearness `near` at a position in the frame.
    #[must_use]
    pub fn source(&self, [x, y]: Place, near: f32) -> Place {
        let (sine, cosine) = self.turn.sin_cos();
        let (x, y) = ((cosine * x + sine * y) / self.zoom, (cosine * y - sine * x) / self.zoom);
        let depth = 1.0 - self.way[2] * near;
        [x * depth + self.way[0] * near + self.shift[0], y * depth + self.way[1] * near + self.shift[1]]
    }

    /// Interpolates towards another pose.
    #[must_use]
    pub fn towards(&self, other: &Self, share: f32) -> Self {
        let mix = |from: f32, to: f32| from + share * (to - from);
        Self {
            shift: std::array::from_fn(|at| mix(self.shift[at], other.shift[at])),
            way: std::array::from_fn(|at| mix(self.way[at], other.way[at])),
            // Zoom is interpolated geometrically, which looks uniform.
            zoom: self.zoom * (other.zoom / self.zoom).powf(share),
            turn: mix(self.turn, other.turn),
        }
    }

    /// Returns the pose with the zoom increased until the frame shows nothing beyond the border of the picture, at most
    /// 1.8 times.
    #[must_use]
    pub fn within(&self, frame: f32, picture: f32, near: impl Fn(Place) -> f32) -> Self {
        let rim = (0..32).map(|at| {
            let along = (at % 8) as f32 / 4.0 - 1.0;
            match at / 8 {
                0 => [along * frame, -1.0],
                1 => [frame, along],
                2 => [-along * frame, 1.0],
                _ => [-frame, -along],
            }
        });

        let mut pose = *self;

        for place in rim {
            let inside = |zoom: f32| {
                let [x, y] = Self { zoom, ..*self }.source(place, near(Self { zoom, ..*self }.source(place, FAR)));
                x.abs() <= picture && y.abs() <= 1.0
            };
            if inside(pose.zoom) {
                continue;
            }

            let mut low = pose.zoom;
            let mut high = 1.8 * self.zoom.max(1.0);
            for _ in 0..12 {
                let middle = 0.5 * (low + high);
                if inside(middle) { high = middle } else { low = middle }
            }

            pose.zoom = high;
        }

        pose
    }
}

/// Camera motion of a shot.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    from: Pose,
    to: Pose,
    /// Amplitude of the handheld shake.
    hand: f32,
    phase: f32,
    seconds: f32,
    pace: Pace,
}

/// Timing of a motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Eases in and out.
    Eased,
    /// Starts at full speed and eases out.
    Slowing,
    /// Moves there and back.
    Returning,
}

impl Track {
    /// Creates the motion that a prompt requests, or one chosen by the seed.
    #[must_use]
    pub fn of(wishes: &Wishes, amplitude: MotionAmount, seconds: f32, seed: u32) -> Self {
        let moves = if wishes.still {
            Vec::new()
        } else if wishes.moves.is_empty() {
            chosen(seed)
        } else {
            wishes.moves.clone()
        };

        let strength = wishes.pace * strength(amplitude) * (seconds / 4.0).powf(0.6).clamp(0.5, 1.6);
        let share = strength / (moves.len().max(1) as f32).sqrt();

        let mut from = Pose::OWN;
        let mut to = Pose::OWN;

        for step in &moves {
            apply(*step, share, &mut from, &mut to);
        }

        let hand = if moves.contains(&Move::Handheld) { 0.012 * strength } else { 0.0 };

        Self { from, to, hand, phase: chance(seed, 9) * 50.0, seconds, pace: Pace::Eased }
    }

    /// Returns a motion without movement.
    #[must_use]
    pub fn standing() -> Self {
        Self { from: Pose::OWN, to: Pose::OWN, hand: 0.0, phase: 0.0, seconds: 1.0, pace: Pace::Eased }
    }

    /// Returns a motion between two poses.
    #[must_use]
    pub fn over(from: Pose, to: Pose, seconds: f32) -> Self {
        Self { from, to, seconds, ..Self::standing() }
    }

    /// Returns a motion that starts at the picture's own pose and decelerates uniformly.
    #[must_use]
    pub fn slowing(to: Pose, seconds: f32) -> Self {
        Self { to, seconds, pace: Pace::Slowing, ..Self::standing() }
    }

    /// Returns a motion that continues this one and ends at the picture's own pose.
    #[must_use]
    pub fn arriving(&self) -> Self {
        // The direction continues: a camera that moved left keeps moving left.
        let before = Pose {
            shift: self.to.shift.map(|part| -part),
            way: self.to.way.map(|part| -part),
            zoom: (1.0 / self.to.zoom).max(1.0),
            turn: -self.to.turn,
        };

        Self { from: before, to: Pose::OWN, ..self.clone() }
    }

    /// Scales the motion.
    #[must_use]
    pub fn scaled(&self, share: f32) -> Self {
        Self { from: Pose::OWN.towards(&self.from, share), to: Pose::OWN.towards(&self.to, share), ..self.clone() }
    }

    /// Returns the motion there and back. It starts at the picture's own pose, even if this motion ends there.
    #[must_use]
    pub fn returning(&self) -> Self {
        let [from, to] = if self.from == Pose::OWN { [self.from, self.to] } else { [self.to, self.from] };
        Self { from, to, pace: Pace::Returning, ..self.clone() }
    }

    /// Returns the pose at a fraction of the time.
    #[must_use]
    pub fn at(&self, share: f32) -> Pose {
        let gone = match self.pace {
            Pace::Eased => eased(share),
            Pace::Slowing => share * (2.0 - share),
            Pace::Returning => (std::f32::consts::PI * share).sin().powi(2),
        };

        let mut pose = self.from.towards(&self.to, gone);

        if self.hand > 0.0 {
            let time = self.phase + share * self.seconds;
            // The shake fades in, so that the video starts at the picture's own pose.
            let hand = self.hand * (4.0 * share).min(1.0);
            let sway = |pace: f32, at: f32| (pace * time + at).sin();
            pose.shift[0] += hand * (sway(2.1, 0.0) + 0.6 * sway(3.7, 1.0) + 0.3 * sway(8.3, 2.0));
            pose.shift[1] += hand * (sway(1.7, 4.0) + 0.6 * sway(4.3, 3.0) + 0.3 * sway(9.1, 5.0));
            pose.turn += 0.4 * hand * sway(1.3, 2.0);
        }

        pose
    }

    /// Returns the speed at a fraction of the time, in half heights per second.
    #[must_use]
    pub fn speed(&self, share: f32) -> f32 {
        let step = 0.02;
        let one = self.at((share - step).max(0.0));
        let two = self.at((share + step).min(1.0));
        let [a, b] = [one, two].map(|pose| pose.source([0.7, 0.5], PIVOT));
        ((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)).sqrt() / (2.0 * step * self.seconds)
    }
}

/// Easing curve from 0 to 1: a blend of linear and smoothstep.
#[must_use]
pub fn eased(share: f32) -> f32 {
    let share = share.clamp(0.0, 1.0);
    0.35 * share + 0.65 * share * share * (3.0 - 2.0 * share)
}

fn strength(amplitude: MotionAmount) -> f32 {
    match amplitude {
        MotionAmount::Auto => 0.85,
        MotionAmount::Small => 0.45,
        MotionAmount::Medium => 1.0,
        MotionAmount::Large => 1.65,
    }
}

/// Returns a random number from 0 to below 1 for a seed and a purpose.
#[must_use]
pub fn chance(seed: u32, what: u32) -> f32 {
    (scramble(what, 0x51ED, seed) >> 8) as f32 / (1 << 24) as f32
}

/// Returns a pair of moves that combine well.
fn chosen(seed: u32) -> Vec<Move> {
    const PAIRS: [[Move; 2]; 6] = [
        [Move::OrbitLeft, Move::DollyIn],
        [Move::OrbitRight, Move::DollyIn],
        [Move::TruckRight, Move::DollyIn],
        [Move::TruckLeft, Move::ZoomIn],
        [Move::Rise, Move::DollyIn],
        [Move::OrbitRight, Move::Rise],
    ];
    PAIRS[(chance(seed, 1) * PAIRS.len() as f32) as usize % PAIRS.len()].to_vec()
}

/// Adds a move to the end poses. An orbit is a translation with a shift that keeps the pivot in place.
fn apply(step: Move, share: f32, from: &mut Pose, to: &mut Pose) {
    let mut aside = |across: f32, down: f32, looking: f32| {
        to.way[0] += share * across;
        to.way[1] += share * down;
        to.shift[0] -= looking * PIVOT * share * across;
        to.shift[1] -= looking * PIVOT * share * down;
    };

    match step {
        Move::PanLeft => to.shift[0] -= 0.20 * share,
        Move::PanRight => to.shift[0] += 0.20 * share,
        Move::TiltUp => to.shift[1] -= 0.16 * share,
        Move::TiltDown => to.shift[1] += 0.16 * share,
        Move::TruckLeft => aside(-0.20, 0.0, 0.3),
        Move::TruckRight => aside(0.20, 0.0, 0.3),
        Move::OrbitLeft => aside(-0.22, 0.0, 1.0),
        Move::OrbitRight => aside(0.22, 0.0, 1.0),
        Move::Rise => aside(0.0, -0.20, 0.5),
        Move::Sink => aside(0.0, 0.20, 0.5),
        Move::ZoomIn => to.zoom *= 1.0 + 0.22 * share,
        Move::ZoomOut => from.zoom *= 1.0 + 0.22 * share,
        Move::DollyIn => to.way[2] += 0.20 * share,
        Move::DollyOut => from.way[2] += 0.20 * share,
        Move::TurnLeft => to.turn -= 0.09 * share,
        Move::TurnRight => to.turn += 0.09 * share,
        Move::Handheld => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(prompt: &str, amplitude: MotionAmount) -> Track {
        Track::of(&Wishes::of(prompt), amplitude, 4.0, 7)
    }

    /// Source position in the middle of the last frame, relative to the first frame.
    fn way(prompt: &str, amplitude: MotionAmount) -> Place {
        track(prompt, amplitude).at(1.0).source([0.0, 0.0], NEAR)
    }

    #[test]
    fn a_film_begins_at_the_picture() {
        for prompt in ["pan left", "zoom in", "orbit", "rise", "rotate", "handheld", ""] {
            assert_eq!(track(prompt, MotionAmount::Large).at(0.0), Pose::OWN, "{prompt}");
        }
    }

    #[test]
    fn moves_go_where_they_are_told() {
        let medium = MotionAmount::Medium;
        assert!(way("pan left", medium)[0] < -0.1 && way("pan right", medium)[0] > 0.1);
        assert!(way("tilt up", medium)[1] < -0.1 && way("rise", medium)[1] < -0.05);
        assert!(track("zoom in", medium).at(1.0).zoom > 1.1 && track("zoom out", medium).at(0.0).zoom > 1.1);
        assert!(track("rotate clockwise", medium).at(1.0).turn > 0.0);
        assert_eq!(track("static", medium).at(1.0), Pose::OWN);
    }

    #[test]
    fn amplitude_and_pace_are_distances() {
        let [small, medium, large] =
            [MotionAmount::Small, MotionAmount::Medium, MotionAmount::Large].map(|a| way("pan right", a)[0]);
        assert!(small < 0.6 * medium && medium < 0.7 * large);
        assert!(way("pan right slowly", MotionAmount::Medium)[0] < 0.7 * medium);
        assert!(way("fast pan right", MotionAmount::Medium)[0] > 1.4 * medium);
    }

    #[test]
    fn going_around_keeps_the_middle_distance_in_its_place() {
        let pose = track("orbit right", MotionAmount::Medium).at(1.0);
        let [near, middle, far] = [NEAR, PIVOT, FAR].map(|near| pose.source([0.0, 0.0], near)[0]);
        assert!(near > 0.02 && middle.abs() < 1e-5 && far < -0.02);
    }

    #[test]
    fn the_lens_closes_in_at_the_border() {
        let pose = track("pan right", MotionAmount::Large).at(1.0).within(1.5, 1.5, |_| 0.5);
        for corner in [[1.5, 1.0], [1.5, -1.0], [-1.5, 1.0]] {
            let [x, y] = pose.source(corner, 0.5);
            assert!(x.abs() <= 1.501 && y.abs() <= 1.001, "{x} {y}");
        }
        assert!(pose.zoom > 1.1);
    }
}
