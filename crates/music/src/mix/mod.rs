//! Mixer: renders a piece to samples in half-second hops and bounded memory (voices, parts, reverb, level, limiter).

pub mod limiter;
pub mod loudness;
mod part;
pub mod space;

#[cfg(test)]
mod tests;

use crate::piece::{Piece, RATE};
use crate::synth::dsp::Filter;
use crate::synth::texture::Background;
use limiter::{LATENCY, Limiter};
use loudness::Leveller;
use part::Track;
use space::{Echo, Reverb};

/// Samples rendered and measured at once: half a second.
pub const HOP: usize = RATE as usize / 2;
/// Samples that voices render at once.
pub const BLOCK: usize = 120;
/// Samples over which the start fades in and the end fades out to avoid clicks.
const EDGE: u32 = 240;

/// Stereo samples.
#[derive(Debug, Clone, Default)]
pub struct Stereo {
    pub left: Vec<f32>,
    pub right: Vec<f32>,
}

impl Stereo {
    /// Returns silent samples.
    fn silence(frames: usize) -> Self {
        Self { left: vec![0.0; frames], right: vec![0.0; frames] }
    }

    fn clear(&mut self) {
        self.left.fill(0.0);
        self.right.fill(0.0);
    }
}

/// Iterator over the hops of a piece. The last hop may be shorter; together they have exactly the samples of the piece.
#[derive(Debug)]
pub struct Player {
    /// Length of the piece in samples.
    frames: u32,
    /// Length of the fade-out in samples.
    fade_frames: u32,
    /// `true` if the piece loops.
    seamless: bool,
    tracks: Vec<Track>,
    /// Samples at which the kick drum sounds.
    kicks: Vec<u32>,
    reverb: Reverb,
    echo: Echo,
    /// Low-pass filters of a piece that sounds like a tape, by channel.
    tape: Option<[Filter; 2]>,
    /// High-pass filters that remove rumble, by channel.
    rumble: [Filter; 2],
    background: Option<Background>,
    leveller: Leveller,
    /// Gain at the end of the previous hop in decibels.
    gain_db: Option<f64>,
    limiter: Limiter,
    /// Samples rendered so far.
    rendered: u32,
    /// Samples of the limiter's delay that have yet to be dropped.
    to_drop: usize,
    /// Samples returned so far.
    returned: u32,
}

impl Player {
    /// Creates the player. Nothing is rendered in advance.
    #[must_use]
    pub fn new(piece: Piece) -> Self {
        let expected = part::expected_power(&piece);
        let space = piece.space;
        let kicks = piece.kicks;
        Self {
            frames: piece.frames,
            fade_frames: space.fade_frames,
            seamless: space.seamless,
            tracks: (0_u64..).zip(piece.parts).map(|(index, part)| Track::new(part, piece.seed ^ index)).collect(),
            kicks,
            reverb: Reverb::new(space.reverb_seconds),
            echo: Echo::new(&space),
            tape: space.tape_hertz.map(|hertz| [Filter::new(hertz, 0.75), Filter::new(hertz, 0.75)]),
            rumble: [Filter::new(28.0, 0.7), Filter::new(28.0, 0.7)],
            background: space.texture.map(|texture| Background::new(texture, piece.seed)),
            leveller: Leveller::new(expected),
            gain_db: None,
            limiter: Limiter::default(),
            rendered: 0,
            to_drop: LATENCY,
            returned: 0,
        }
    }

    /// Returns `true` if at most one hop has been rendered.
    #[must_use]
    pub const fn is_early(&self) -> bool {
        self.rendered as usize <= HOP
    }

    /// Renders a hop of the mix before level control and limiter.
    fn render_mix(&mut self, frames: usize) -> Stereo {
        let mut mix = Stereo::silence(frames);
        let mut dry = Stereo::silence(BLOCK);
        let mut to_room = Stereo::silence(BLOCK);
        let mut to_echo = Stereo::silence(BLOCK);

        let mut at = 0;
        while at < frames {
            let count = BLOCK.min(frames - at);
            [&mut dry, &mut to_room, &mut to_echo].into_iter().for_each(Stereo::clear);

            let now = self.rendered + at as u32;
            let duck = Ducking::at(&self.kicks, now);
            for track in &mut self.tracks {
                track.render(now, count, &duck, &mut dry, &mut to_room, &mut to_echo);
            }

            let left = &mut dry.left[..count];
            let right = &mut dry.right[..count];
            self.echo.render((&to_echo.left, &to_echo.right), left, right);
            self.reverb.render((&to_room.left, &to_room.right), left, right);

            if let Some(tape) = &mut self.tape {
                for sample in left.iter_mut() {
                    *sample = tape[0].low(*sample);
                }
                for sample in right.iter_mut() {
                    *sample = tape[1].low(*sample);
                }
            }

            if let Some(background) = &mut self.background {
                background.render(left, right);
            }

            for sample in left.iter_mut() {
                *sample = self.rumble[0].high(*sample);
            }
            for sample in right.iter_mut() {
                *sample = self.rumble[1].high(*sample);
            }

            mix.left[at..at + count].copy_from_slice(left);
            mix.right[at..at + count].copy_from_slice(right);
            at += count;
        }
        mix
    }

    /// Applies the gain, gliding from that of the previous hop, and the fades.
    fn apply_level(&mut self, mix: &mut Stereo) {
        let next = self.leveller.look_ahead(&mix.left, &mix.right);
        let from = self.gain_db.unwrap_or(next);
        self.gain_db = Some(next);

        let count = mix.left.len() as f64;
        let gain = |db: f64| 10_f64.powf(db / 20.0);
        let from = gain(from);
        let to = gain(next);

        for at in 0..mix.left.len() {
            let glide = from + (to - from) * (at as f64 / count);
            let factor = glide as f32 * self.fade_factor(self.rendered + at as u32);
            mix.left[at] *= factor;
            mix.right[at] *= factor;
        }
    }

    /// Returns the factor, 0 to 1, of the fades at a sample of the piece.
    fn fade_factor(&self, at: u32) -> f32 {
        let remaining = self.frames - at.min(self.frames);
        let edge = if self.seamless { EDGE / 4 } else { EDGE };

        let rising = (at as f32 / edge as f32).min(1.0);
        let falling = (remaining as f32 / edge as f32).min(1.0);

        let fading = if self.fade_frames > remaining {
            let part = remaining as f32 / self.fade_frames as f32;
            part * part * (3.0 - 2.0 * part)
        } else {
            1.0
        };

        rising * falling * fading
    }
}

impl Iterator for Player {
    type Item = Stereo;

    fn next(&mut self) -> Option<Stereo> {
        if self.returned == self.frames {
            return None;
        }

        let remaining = (self.frames - self.rendered) as usize;
        let mut hop = if remaining > 0 { self.render_mix(HOP.min(remaining)) } else { Stereo::silence(LATENCY) };
        if remaining > 0 {
            self.apply_level(&mut hop);
            self.rendered += hop.left.len() as u32;
        }

        self.limiter.render(&mut hop.left, &mut hop.right);

        let dropped = self.to_drop.min(hop.left.len());
        hop.left.drain(..dropped);
        hop.right.drain(..dropped);
        self.to_drop -= dropped;

        let length = hop.left.len().min((self.frames - self.returned) as usize);
        hop.left.truncate(length);
        hop.right.truncate(length);
        self.returned += length as u32;

        self.leveller.measure_output(&hop.left, &hop.right);
        Some(hop)
    }
}

/// Ducking by the kick drum during one block.
#[derive(Debug, Clone, Copy)]
pub struct Ducking {
    /// Samples from the last kick to the start of the block.
    since_kick: Option<u32>,
    /// Samples from the start of the block to a kick inside of it.
    next: Option<u32>,
}

/// Samples until a ducked part has recovered.
const DUCK_FRAMES: f32 = 0.24 * RATE as f32;

impl Ducking {
    /// Returns the ducking during the block that starts at the sample `now`.
    fn at(kicks: &[u32], now: u32) -> Self {
        let behind = kicks.partition_point(|kick| *kick <= now);
        let since_kick = behind.checked_sub(1).map(|last| now - kicks[last]);
        let next = kicks.get(behind).map(|kick| kick - now).filter(|away| *away < BLOCK as u32);
        Self { since_kick, next }
    }

    /// Returns the gain at a sample of the block for a part that is ducked by `depth`.
    #[inline]
    fn factor(&self, at: u32, depth: f32) -> f32 {
        let since_kick = match (self.next, self.since_kick) {
            (Some(next), _) if at >= next => at - next,
            (_, Some(since_kick)) => since_kick + at,
            (_, None) => return 1.0,
        };
        let recovery = (since_kick as f32 / DUCK_FRAMES).min(1.0);
        // The gain falls over three milliseconds to avoid a click.
        let down = (since_kick as f32 / 144.0).min(1.0);
        let ducked = 1.0 - depth * (1.0 - recovery * recovery);
        1.0 + (ducked - 1.0) * down
    }
}
