//! From samples to a file that browsers play: Opus in Ogg (RFC 6716, RFC 7845), piece by piece.

use opus_pure::{Application, MAX_PACKET_BYTES, OggOpusWriter, OpusEncoder, OpusHead, OpusTags};

use super::mix::Stereo;
use super::piece::RATE;

/// What went wrong while encoding.
pub type EncodeError = opus_pure::Error;

/// Bits a second.
const BITRATE: i32 = 128_000;
/// Samples of a packet: 20 ms.
const FRAME: usize = RATE as usize / 50;
/// How hard the encoder tries, 0 to 10: above this it takes much longer for little.
const COMPLEXITY: i32 = 7;

/// An encoder whose output, put together, is one file with exactly the samples that went in.
pub struct Encoder {
    opus: OpusEncoder,
    ogg: Option<OggOpusWriter<Vec<u8>>>,
    /// Samples that fill no packet yet, interleaved.
    pending: Vec<f32>,
    packet: Vec<u8>,
    /// Samples that went in.
    frames: u64,
    pre_skip: u16,
}

impl Encoder {
    /// Begins a file.
    ///
    /// # Errors
    /// When the encoder refuses its settings.
    pub fn new(title: &str, genre: &str) -> Result<Self, EncodeError> {
        let mut opus = OpusEncoder::new(RATE as i32, 2, Application::Audio)?;
        opus.bitrate_bps = BITRATE;
        opus.complexity = COMPLEXITY;
        let head = OpusHead::for_encoder(&opus, RATE);
        let pre_skip = head.pre_skip;
        let mut tags = OpusTags::new();
        tags.push("TITLE", title)?;
        tags.push("GENRE", genre)?;
        let mut ogg = OggOpusWriter::with_tags(Vec::new(), head, tags)?;
        // Small pages, so that what is encoded is not held back.
        ogg.set_page_target(4 * 1024);
        Ok(Self {
            opus,
            ogg: Some(ogg),
            pending: Vec::with_capacity(4 * FRAME),
            packet: vec![0; MAX_PACKET_BYTES],
            frames: 0,
            pre_skip,
        })
    }

    /// Takes samples in and tells the bytes of the file that are ready: none, some, or many.
    ///
    /// # Errors
    /// When the encoder fails.
    pub fn add(&mut self, samples: &Stereo) -> Result<Vec<u8>, EncodeError> {
        self.frames += samples.left.len() as u64;
        self.pending.extend(samples.left.iter().zip(&samples.right).flat_map(|(left, right)| [*left, *right]));
        // The last packet is kept back: it must carry the end (RFC 7845, 4.4).
        let mut used = 0;
        while self.pending.len() - used > 2 * FRAME {
            self.packet(used, None)?;
            used += 2 * FRAME;
        }
        self.pending.drain(..used);
        Ok(self.ready())
    }

    /// Ends the file and tells the rest of it. The encoder is some milliseconds behind, so silence drives the last samples
    /// out, and the file says where the music ended.
    ///
    /// # Errors
    /// When the encoder fails.
    pub fn finish(&mut self) -> Result<Vec<u8>, EncodeError> {
        let end = u64::from(self.pre_skip) + self.frames;
        let written = self.granule();
        let packets = (end - written).div_ceil(FRAME as u64) as usize;
        self.pending.resize(2 * FRAME * packets.max(1), 0.0);
        for nth in 0..packets {
            let last = (nth + 1 == packets).then(|| (end - self.granule()) as u32);
            self.packet(2 * FRAME * nth, last)?;
        }
        self.pending.clear();
        self.ogg.take().map_or_else(|| Ok(Vec::new()), OggOpusWriter::finish)
    }

    fn granule(&self) -> u64 {
        self.ogg.as_ref().map_or(0, |ogg| ogg.granule().unsigned_abs())
    }

    /// Encodes the packet whose samples begin here; the last one says how many of them count.
    fn packet(&mut self, at: usize, counts: Option<u32>) -> Result<(), EncodeError> {
        let length = self.opus.encode(&self.pending[at..at + 2 * FRAME], FRAME, &mut self.packet)?;
        let Some(ogg) = &mut self.ogg else { return Ok(()) };
        match counts {
            Some(counts) => ogg.write_packet_with_duration(&self.packet[..length], counts),
            None => ogg.write_packet(&self.packet[..length]),
        }
    }

    fn ready(&mut self) -> Vec<u8> {
        self.ogg.as_mut().and_then(OggOpusWriter::get_mut).map(std::mem::take).unwrap_or_default()
    }
}
