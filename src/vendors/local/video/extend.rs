//! A film that goes on: decoded as it was, then its last picture in the motion that it had.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Fault;
use super::camera::{Pose, Track};
use super::codec::{Codec, FPS, Yuv};
use super::mp4::{Reel, Sound};
use super::optical::Flow;
use super::plan::size_of;
use super::raster::{Raster, Size};
use super::shots::{Morph, Shot, Still};
use super::view::View;
use super::words::Wishes;
use crate::domain::video::{MovementAmplitude, Resolution};
use crate::media::input::Pixels;

/// A film that was read and can be played.
pub struct Head {
    file: Vec<u8>,
    reel: Reel,
}

/// Pictures that wait for one that is shown before them: as many as a stream may hold back.
const HELD_MAX: usize = 17;
/// How far apart the pictures are that tell the motion, in frames.
const APART: usize = 6;

impl Head {
    /// Looks through a file.
    ///
    /// # Errors
    /// [`Fault::Input`] when it cannot be read.
    pub fn open(file: Vec<u8>) -> Result<Self, Fault> {
        let reel = catch_unwind(AssertUnwindSafe(|| Reel::of(&file))).unwrap_or_else(|_| Err(damaged()))?;
        Ok(Self { file, reel })
    }

    /// Number of frames at the rate of what is made here.
    #[must_use]
    pub fn frames(&self) -> usize {
        let ticks = u64::from(self.reel.timescale.get());
        ((self.reel.ticks() * u64::from(FPS) + ticks / 2) / ticks).max(1) as usize
    }

    /// Plays it at a size and at the rate of what is made here.
    ///
    /// # Errors
    /// [`Fault::Input`] when a picture cannot be decoded, and what `take` answers.
    pub fn play(
        &self,
        codec: &dyn Codec,
        size: Size,
        mut take: impl FnMut(Yuv) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (begin, timescale) = (self.reel.begin(), u64::from(self.reel.timescale.get()));
        let (frames, mut shown) = (self.frames(), 0);
        let mut last: Option<Yuv> = None;
        self.decode(codec, 0, |time, picture| {
            // The picture before is seen until this one comes.
            let until = ((time - begin) * u64::from(FPS)).div_ceil(timescale) as usize;
            if let Some(before) = &last {
                while shown < until.min(frames) {
                    take(before.clone())?;
                    shown += 1;
                }
            }
            last = Some(fitted(picture, size));
            Ok(())
        })?;
        let last = last.ok_or_else(damaged)?;
        while shown < frames {
            take(last.clone())?;
            shown += 1;
        }
        Ok(())
    }

    /// The last pictures, the very last at the end.
    fn tail(&self, codec: &dyn Codec, size: Size) -> Result<Vec<Yuv>, Fault> {
        let units = &self.reel.units;
        let early = units.len().saturating_sub(APART + 1);
        let from = (0..=early).rev().find(|at| units[*at].key).unwrap_or(0);
        let mut recent: Vec<Yuv> = Vec::new();
        self.decode(codec, from, |_, picture| {
            if recent.len() > APART {
                recent.remove(0);
            }
            recent.push(picture);
            Ok(())
        })?;
        Ok(recent.into_iter().map(|picture| fitted(picture, size)).collect())
    }

    /// How many pictures there are in a second.
    fn rate(&self) -> f32 {
        let seconds = self.reel.ticks() as f32 / self.reel.timescale.get() as f32;
        self.reel.units.len() as f32 / seconds.max(1e-3)
    }

    /// Decodes the pictures from a key frame on, in the order in which they are shown. A panic of the codec is damage of
    /// the file.
    fn decode(
        &self,
        codec: &dyn Codec,
        from: usize,
        mut take: impl FnMut(u64, Yuv) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut decoder = codec.decoder();
        // When pictures are shown, in that order: those that come out first are shown first.
        let mut held: Vec<(u64, Yuv)> = Vec::new();
        let units = &self.reel.units[from..];
        let mut waiting: Vec<u64> = units.iter().map(|unit| unit.shown).collect();
        waiting.sort_unstable();
        let mut due = waiting.into_iter().peekable();
        for unit in units {
            let bytes = self.reel.access_unit(&self.file, unit)?;
            let decoded = catch_unwind(AssertUnwindSafe(|| decoder.decode(&bytes)));
            let decoded = decoded.map_err(|_| damaged())?.map_err(|error| Fault::Input {
                code: "video_undecodable",
                reason: format!("the video cannot be decoded: {error}"),
            })?;
            let Some((_, picture)) = decoded else { continue };
            if picture.size != self.reel.size {
                return Err(damaged());
            }
            held.push((unit.shown, picture));
            while let Some(next) = due.peek().copied() {
                let ready = held.iter().position(|(shown, _)| *shown == next);
                let Some(at) = ready.or_else(|| (held.len() > HELD_MAX).then(|| earliest(&held))) else { break };
                let (shown, picture) = held.swap_remove(at);
                take(shown.max(next), picture)?;
                due.next();
            }
        }
        while !held.is_empty() {
            let (shown, picture) = held.swap_remove(earliest(&held));
            take(shown, picture)?;
        }
        Ok(())
    }

    /// Its sound, as it was.
    #[must_use]
    pub fn into_sound(self) -> Option<Sound> {
        self.reel.sound
    }
}

fn earliest(held: &[(u64, Yuv)]) -> usize {
    (0..held.len()).min_by_key(|at| held[*at].0).unwrap_or(0)
}

fn damaged() -> Fault {
    Fault::Input { code: "video_undecodable", reason: "the video is damaged".to_owned() }
}

/// The size of a film that goes on: at a resolution, in its own shape; none when it cannot be read.
pub fn size(file: &[u8], resolution: Resolution) -> Option<Size> {
    let reel = catch_unwind(AssertUnwindSafe(|| Reel::of(file))).ok()?.ok()?;
    Some(size_of(resolution, None, Some((reel.size.width as u32, reel.size.height as u32))))
}

/// Bytes that the pictures of a film take while it is decoded: those that the decoder keeps, and those that wait to be shown or
/// tell the motion. None when it cannot be read.
pub fn bytes(file: &[u8]) -> Option<u64> {
    let reel = catch_unwind(AssertUnwindSafe(|| Reel::of(file))).ok()?.ok()?;
    let waiting = (HELD_MAX + 1 + APART + 1) as u64 * reel.size.area() as u64;
    // A byte of brightness for each pixel, and two of colour for four.
    Some((reel.kept_pixels + waiting) * 3 / 2)
}

/// A decoded picture at another size.
fn fitted(picture: Yuv, size: Size) -> Yuv {
    if picture.size == size { picture } else { Yuv::of(&picture.to_raster().cover(size)) }
}

/// The shot that follows a film: its last picture, from where its camera goes on, to the end frame if there is one.
///
/// # Errors
/// As [`Head::play`].
pub fn shot(
    head: &Head,
    codec: &dyn Codec,
    size: Size,
    (wishes, amplitude): (&Wishes, MovementAmplitude),
    seconds: u32,
    (end, seed): (Option<&Pixels>, u32),
) -> Result<Box<dyn Shot>, Fault> {
    let recent = head.tail(codec, size)?;
    let [Some(before), Some(last)] = [recent.first(), recent.last()] else { return Err(damaged()) };
    let picture = last.to_raster();
    let rate = head.rate() / (recent.len() - 1).max(1) as f32;
    let velocity = (recent.len() > 1).then(|| Velocity::between(&before.to_raster(), &picture, rate));
    let view = View::of(picture);
    let length = seconds as f32;
    let own = Track::of(wishes, amplitude, length, seed);
    if let Some(end) = end {
        return Ok(Box::new(Morph::between(view, View::of(Raster::of(end, size)), &own)));
    }
    let track = match velocity.filter(|_| wishes.moves.is_empty() && !wishes.still) {
        Some(velocity) if velocity.moves() => velocity.carried(length),
        _ => own,
    };
    Ok(Box::new(Still { view, track, life: wishes.life.clone() }))
}

/// How a camera moves: by the second.
#[derive(Debug, Clone, Copy)]
struct Velocity {
    shift: [f32; 2],
    /// Natural logarithm of the growth.
    growth: f32,
    turn: f32,
}

impl Velocity {
    /// From two pictures, of which there are `rate` in a second.
    fn between(before: &Raster, last: &Raster, rate: f32) -> Self {
        let (shift, growth, turn) = Flow::between(before, last).whole();
        // Things that go to the left are seen by a camera that goes to the right.
        Self { shift: shift.map(|part| -rate * part), growth: rate * growth.max(0.2).ln(), turn: rate * turn }
    }

    /// Whether it is more than the trembling of compression.
    fn moves(&self) -> bool {
        self.shift[0].hypot(self.shift[1]) > 0.012 || self.growth.abs() > 0.01 || self.turn.abs() > 0.008
    }

    /// The motion going on and coming to rest softly.
    fn carried(&self, seconds: f32) -> Track {
        // As far as something goes that slows down evenly over the time, within what a picture gives.
        let reach = 0.5 * seconds;
        let growth = (self.growth * reach).clamp(-0.5, 0.5);
        let within = |value: f32, most: f32| (value * reach).clamp(-most, most);
        Track::slowing(
            Pose {
                shift: [within(self.shift[0], 0.45), within(self.shift[1], 0.3)],
                way: [within(self.shift[0], 0.12), within(self.shift[1], 0.1), 0.0],
                zoom: growth.exp(),
                turn: within(self.turn, 0.25),
            },
            seconds,
        )
    }
}
