//! Camera motion.
//!
//! A pose consists of position, rotation and zoom. A video starts at the picture's own pose, so the first frame equals
//! the picture. Only outward moves (zoom out, dolly out) end there instead. Motion eases in and out. Where a pose would
//! show an area beyond the border, the zoom increases as far as necessary.

use super::raster::Vec2;
use super::words::{CameraMove, VideoKeywords};
use crate::noise::hash;
use crate::video::MotionAmount;

/// Nearness (1 / distance) of the nearest objects. Poses and depth maps use nearness instead of distance.
pub const NEAR: f32 = 1.0;
/// Nearness of the farthest objects.
pub const FAR: f32 = 0.25;
/// Nearness of the pivot of an orbit, which keeps its position in the frame.
const PIVOT: f32 = 0.6;

/// Pose of the camera.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pose {
    /// Shift of the whole picture to the right and down, in half heights.
    pub shift: Vec2,
    /// Translation to the right, down and forward; 1 forward reaches the nearest objects.
    pub drift: [f32; 3],
    /// Magnification of the lens.
    pub zoom: f32,
    /// Clockwise rotation in radians.
    pub rotation: f32,
}

impl Pose {
    /// Pose of the original picture.
    pub const OWN: Self = Self { shift: [0.0; 2], drift: [0.0; 3], zoom: 1.0, rotation: 0.0 };

    /// Returns the source position in the picture of an object of nearness `near` at a position in the frame.
    #[must_use]
    pub fn source(&self, [x, y]: Vec2, near: f32) -> Vec2 {
        let (sine, cosine) = self.rotation.sin_cos();
        let (x, y) = ((cosine * x + sine * y) / self.zoom, (cosine * y - sine * x) / self.zoom);
        let depth = 1.0 - self.drift[2] * near;
        [x * depth + self.drift[0] * near + self.shift[0], y * depth + self.drift[1] * near + self.shift[1]]
    }

    /// Returns the pose between this pose, at a `share` of 0, and `other`, at 1.
    #[must_use]
    pub fn towards(&self, other: &Self, share: f32) -> Self {
        let mix = |from: f32, to: f32| from + share * (to - from);
        Self {
            shift: std::array::from_fn(|at| mix(self.shift[at], other.shift[at])),
            drift: std::array::from_fn(|at| mix(self.drift[at], other.drift[at])),
            // Zoom is interpolated geometrically, which looks uniform.
            zoom: self.zoom * (other.zoom / self.zoom).powf(share),
            rotation: mix(self.rotation, other.rotation),
        }
    }

    /// Returns the pose with the zoom increased until the frame shows nothing beyond the border of the picture, at most
    /// 1.8 times. `frame` and `picture` are aspect ratios; `near` returns the nearness of the picture at a position.
    #[must_use]
    pub fn limited_to(&self, frame: f32, picture: f32, near: impl Fn(Vec2) -> f32) -> Self {
        // 32 points along the border of the frame, clockwise from the upper left corner.
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

        for point in rim {
            let is_inside = |zoom: f32| {
                let [x, y] = Self { zoom, ..*self }.source(point, near(Self { zoom, ..*self }.source(point, FAR)));
                x.abs() <= picture && y.abs() <= 1.0
            };
            if is_inside(pose.zoom) {
                continue;
            }

            // Bisection for the smallest sufficient zoom.
            let mut low = pose.zoom;
            let mut high = 1.8 * self.zoom.max(1.0);
            for _ in 0..12 {
                let middle = 0.5 * (low + high);
                if is_inside(middle) { high = middle } else { low = middle }
            }

            pose.zoom = high;
        }

        pose
    }
}

/// Camera motion of a shot.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Pose at the start.
    from: Pose,
    /// Pose at the end.
    to: Pose,
    /// Amplitude of the handheld shake, in half heights.
    shake_amplitude: f32,
    /// Start time of the shake in seconds, different for each seed.
    phase: f32,
    /// Length of the shot in seconds.
    seconds: f32,
    easing: Easing,
}

/// Timing of a motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Easing {
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
    pub fn from_keywords(keywords: &VideoKeywords, amplitude: MotionAmount, seconds: f32, seed: u32) -> Self {
        let moves = if keywords.still {
            Vec::new()
        } else if keywords.moves.is_empty() {
            choose_moves(seed)
        } else {
            keywords.moves.clone()
        };

        let strength = keywords.speed * amplitude_gain(amplitude) * (seconds / 4.0).powf(0.6).clamp(0.5, 1.6);
        let share = strength / (moves.len().max(1) as f32).sqrt();

        let mut from = Pose::OWN;
        let mut to = Pose::OWN;

        for step in &moves {
            add_move(*step, share, &mut from, &mut to);
        }

        let shake_amplitude = if moves.contains(&CameraMove::Handheld) { 0.012 * strength } else { 0.0 };

        Self { from, to, shake_amplitude, phase: random(seed, 9) * 50.0, seconds, easing: Easing::Eased }
    }

    /// Returns the track of a camera that does not move.
    #[must_use]
    pub fn still() -> Self {
        Self { from: Pose::OWN, to: Pose::OWN, shake_amplitude: 0.0, phase: 0.0, seconds: 1.0, easing: Easing::Eased }
    }

    /// Returns a motion between two poses.
    #[must_use]
    pub fn between(from: Pose, to: Pose, seconds: f32) -> Self {
        Self { from, to, seconds, ..Self::still() }
    }

    /// Returns a motion that starts at the picture's own pose and decelerates uniformly.
    #[must_use]
    pub fn slowing(to: Pose, seconds: f32) -> Self {
        Self { to, seconds, easing: Easing::Slowing, ..Self::still() }
    }

    /// Returns a motion that continues this one and ends at the picture's own pose.
    #[must_use]
    pub fn reversed(&self) -> Self {
        // The direction continues: a camera that moved left keeps moving left.
        let before = Pose {
            shift: self.to.shift.map(|part| -part),
            drift: self.to.drift.map(|part| -part),
            zoom: (1.0 / self.to.zoom).max(1.0),
            rotation: -self.to.rotation,
        };

        Self { from: before, to: Pose::OWN, ..self.clone() }
    }

    /// Returns the motion with `share` of its distances.
    #[must_use]
    pub fn scaled(&self, share: f32) -> Self {
        Self { from: Pose::OWN.towards(&self.from, share), to: Pose::OWN.towards(&self.to, share), ..self.clone() }
    }

    /// Returns the motion there and back. It starts at the picture's own pose, even if this motion ends there.
    #[must_use]
    pub fn returning(&self) -> Self {
        let [from, to] = if self.from == Pose::OWN { [self.from, self.to] } else { [self.to, self.from] };
        Self { from, to, easing: Easing::Returning, ..self.clone() }
    }

    /// Returns the pose at a fraction of the time, 0 to 1.
    #[must_use]
    pub fn at(&self, share: f32) -> Pose {
        let progress = match self.easing {
            Easing::Eased => eased(share),
            Easing::Slowing => share * (2.0 - share),
            Easing::Returning => (std::f32::consts::PI * share).sin().powi(2),
        };

        let mut pose = self.from.towards(&self.to, progress);

        if self.shake_amplitude > 0.0 {
            let time = self.phase + share * self.seconds;
            // The shake fades in, so that the video starts at the picture's own pose.
            let shake_amplitude = self.shake_amplitude * (4.0 * share).min(1.0);
            let sway = |frequency: f32, at: f32| (frequency * time + at).sin();
            pose.shift[0] += shake_amplitude * (sway(2.1, 0.0) + 0.6 * sway(3.7, 1.0) + 0.3 * sway(8.3, 2.0));
            pose.shift[1] += shake_amplitude * (sway(1.7, 4.0) + 0.6 * sway(4.3, 3.0) + 0.3 * sway(9.1, 5.0));
            pose.rotation += 0.4 * shake_amplitude * sway(1.3, 2.0);
        }

        pose
    }

    /// Returns the speed at a fraction of the time, in half heights per second.
    #[must_use]
    pub fn speed(&self, share: f32) -> f32 {
        let step = 0.02;
        let before = self.at((share - step).max(0.0));
        let after = self.at((share + step).min(1.0));
        let [a, b] = [before, after].map(|pose| pose.source([0.7, 0.5], PIVOT));
        ((a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)).sqrt() / (2.0 * step * self.seconds)
    }
}

/// Returns the value of the easing curve from 0 to 1, a blend of linear and smoothstep.
#[must_use]
pub fn eased(share: f32) -> f32 {
    let share = share.clamp(0.0, 1.0);
    0.35 * share + 0.65 * share * share * (3.0 - 2.0 * share)
}

/// Returns the factor of the distances of all moves.
fn amplitude_gain(amplitude: MotionAmount) -> f32 {
    match amplitude {
        MotionAmount::Auto => 0.85,
        MotionAmount::Small => 0.45,
        MotionAmount::Medium => 1.0,
        MotionAmount::Large => 1.65,
    }
}

/// Returns a random number from 0 to below 1 for a seed and a purpose.
#[must_use]
pub fn random(seed: u32, salt: u32) -> f32 {
    (hash(salt, 0x51ED, seed) >> 8) as f32 / (1 << 24) as f32
}

/// Returns a pair of moves that combine well.
fn choose_moves(seed: u32) -> Vec<CameraMove> {
    const PAIRS: [[CameraMove; 2]; 6] = [
        [CameraMove::OrbitLeft, CameraMove::DollyIn],
        [CameraMove::OrbitRight, CameraMove::DollyIn],
        [CameraMove::TruckRight, CameraMove::DollyIn],
        [CameraMove::TruckLeft, CameraMove::ZoomIn],
        [CameraMove::Rise, CameraMove::DollyIn],
        [CameraMove::OrbitRight, CameraMove::Rise],
    ];
    PAIRS[(random(seed, 1) * PAIRS.len() as f32) as usize % PAIRS.len()].to_vec()
}

/// Upper limit of a sideways translation. Depth is estimated: more parallax bends straight lines and stretches objects.
const SIDESTEP_MAX: f32 = 0.15;
/// Upper limit of a translation along the line of sight.
const DOLLY_MAX: f32 = 0.4;

/// Limits a distance softly: small distances stay nearly unchanged, large distances approach `maximum`.
fn limit_softly(distance: f32, maximum: f32) -> f32 {
    distance / (1.0 + (distance / maximum).powi(2)).sqrt()
}

/// Adds a move to the poses of the start and the end; `share` scales its distances. An orbit is a translation with a
/// shift that keeps the pivot in place. Outward moves change the start pose, so that they end at the picture's own
/// pose.
fn add_move(step: CameraMove, share: f32, from: &mut Pose, to: &mut Pose) {
    // `looking` is the fraction of the shift that keeps the pivot in place.
    let mut sidestep = |across: f32, down: f32, looking: f32| {
        let [across, down] = [across, down].map(|distance| limit_softly(share * distance, SIDESTEP_MAX));
        to.drift[0] += across;
        to.drift[1] += down;
        to.shift[0] -= looking * PIVOT * across;
        to.shift[1] -= looking * PIVOT * down;
    };

    match step {
        CameraMove::PanLeft => to.shift[0] -= 0.20 * share,
        CameraMove::PanRight => to.shift[0] += 0.20 * share,
        CameraMove::TiltUp => to.shift[1] -= 0.16 * share,
        CameraMove::TiltDown => to.shift[1] += 0.16 * share,
        CameraMove::TruckLeft => sidestep(-0.20, 0.0, 0.3),
        CameraMove::TruckRight => sidestep(0.20, 0.0, 0.3),
        CameraMove::OrbitLeft => sidestep(-0.22, 0.0, 1.0),
        CameraMove::OrbitRight => sidestep(0.22, 0.0, 1.0),
        CameraMove::Rise => sidestep(0.0, -0.20, 0.5),
        CameraMove::Sink => sidestep(0.0, 0.20, 0.5),
        CameraMove::ZoomIn => to.zoom *= 1.0 + 0.22 * share,
        CameraMove::ZoomOut => from.zoom *= 1.0 + 0.22 * share,
        CameraMove::DollyIn => to.drift[2] += limit_softly(0.20 * share, DOLLY_MAX),
        CameraMove::DollyOut => from.drift[2] += limit_softly(0.20 * share, DOLLY_MAX),
        CameraMove::TurnLeft => to.rotation -= 0.09 * share,
        CameraMove::TurnRight => to.rotation += 0.09 * share,
        CameraMove::Handheld => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(prompt: &str, amplitude: MotionAmount) -> Track {
        Track::from_keywords(&VideoKeywords::from_prompt(prompt), amplitude, 4.0, 7)
    }

    /// Returns the position in the picture of the nearest object that is in the middle of the last frame.
    fn end_position(prompt: &str, amplitude: MotionAmount) -> Vec2 {
        track(prompt, amplitude).at(1.0).source([0.0, 0.0], NEAR)
    }

    #[test]
    fn a_video_begins_with_its_picture() {
        for prompt in ["pan left", "zoom in", "orbit", "rise", "rotate", "handheld", ""] {
            assert_eq!(track(prompt, MotionAmount::Large).at(0.0), Pose::OWN, "{prompt}");
        }
    }

    #[test]
    fn camera_moves_go_in_their_directions() {
        let medium = MotionAmount::Medium;
        assert!(end_position("pan left", medium)[0] < -0.1 && end_position("pan right", medium)[0] > 0.1);
        assert!(end_position("tilt up", medium)[1] < -0.1 && end_position("rise", medium)[1] < -0.05);
        assert!(track("zoom in", medium).at(1.0).zoom > 1.1 && track("zoom out", medium).at(0.0).zoom > 1.1);
        assert!(track("rotate clockwise", medium).at(1.0).rotation > 0.0);
        assert_eq!(track("static", medium).at(1.0), Pose::OWN);
    }

    #[test]
    fn amplitude_and_speed_scale_the_distances() {
        let [small, medium, large] =
            [MotionAmount::Small, MotionAmount::Medium, MotionAmount::Large].map(|a| end_position("pan right", a)[0]);
        assert!(small < 0.6 * medium);
        assert!(medium < 0.7 * large);
        assert!(end_position("pan right slowly", MotionAmount::Medium)[0] < 0.7 * medium);
        assert!(end_position("fast pan right", MotionAmount::Medium)[0] > 1.4 * medium);
    }

    #[test]
    fn an_orbit_keeps_the_middle_distance_in_place() {
        let pose = track("orbit right", MotionAmount::Medium).at(1.0);
        let [near, middle, far] = [NEAR, PIVOT, FAR].map(|near| pose.source([0.0, 0.0], near)[0]);
        assert!(near > 0.02);
        assert!(middle.abs() < 1e-5);
        assert!(far < -0.02);
    }

    #[test]
    fn the_lens_zooms_in_at_the_border() {
        let pose = track("pan right", MotionAmount::Large).at(1.0).limited_to(1.5, 1.5, |_| 0.5);
        for corner in [[1.5, 1.0], [1.5, -1.0], [-1.5, 1.0]] {
            let [x, y] = pose.source(corner, 0.5);
            assert!(x.abs() <= 1.501 && y.abs() <= 1.001, "{x} {y}");
        }
        assert!(pose.zoom > 1.1);
    }
}
