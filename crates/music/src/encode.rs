//! Streaming encoder from samples to Opus in Ogg (RFC 6716, RFC 7845), which browsers can play.

use opus_pure::{Application, MAX_PACKET_BYTES, OggOpusWriter, OpusEncoder, OpusHead, OpusTags};

use crate::mix::Stereo;
use crate::piece::RATE;

/// Error of the Opus or Ogg encoder.
pub type EncodeError = opus_pure::Error;

/// Bit rate in bits per second.
const BITRATE: i32 = 128_000;
/// Samples per channel in a packet: 20 ms.
const FRAME: usize = RATE as usize / 50;
/// Encoder complexity, 0 to 10. Higher values take much longer for little gain.
const COMPLEXITY: i32 = 7;

/// Encoder whose concatenated output is one file with exactly the samples it was given.
pub struct Encoder {
    opus: OpusEncoder,
    ogg: Option<OggOpusWriter<Vec<u8>>>,
    /// Interleaved samples that do not fill a packet yet.
    pending: Vec<f32>,
    /// Buffer of an encoded packet.
    packet: Vec<u8>,
    /// Samples per channel received so far.
    frames: u64,
    /// Delay of the encoder in samples.
    pre_skip: u16,
}

impl Encoder {
    /// Starts a file with a title and a genre tag.
    ///
    /// # Errors
    /// Returns an error if the encoder rejects its settings.
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
        // Small pages keep the delay between encoding and output short.
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

    /// Encodes samples and returns the bytes of the file that are complete, possibly none.
    ///
    /// # Errors
    /// Returns an error if the encoder fails.
    pub fn add(&mut self, samples: &Stereo) -> Result<Vec<u8>, EncodeError> {
        self.frames += samples.left.len() as u64;
        self.pending.extend(samples.left.iter().zip(&samples.right).flat_map(|(left, right)| [*left, *right]));

        // The last packet is held back because it must carry the end-of-stream flag (RFC 7845, 4.4).
        let mut consumed = 0;
        while self.pending.len() - consumed > 2 * FRAME {
            self.write_packet(consumed, None)?;
            consumed += 2 * FRAME;
        }
        self.pending.drain(..consumed);
        Ok(self.take_output())
    }

    /// Ends the file and returns its remaining bytes.
    ///
    /// The encoder delays its input by some milliseconds, so silence flushes the last samples; the final granule
    /// position marks the real end.
    ///
    /// # Errors
    /// Returns an error if the encoder fails.
    pub fn finish(&mut self) -> Result<Vec<u8>, EncodeError> {
        let end = u64::from(self.pre_skip) + self.frames;
        let written = self.granule_position();
        let packets = (end - written).div_ceil(FRAME as u64) as usize;

        self.pending.resize(2 * FRAME * packets.max(1), 0.0);

        for index in 0..packets {
            let last = (index + 1 == packets).then(|| (end - self.granule_position()) as u32);
            self.write_packet(2 * FRAME * index, last)?;
        }

        self.pending.clear();
        self.ogg.take().map_or_else(|| Ok(Vec::new()), OggOpusWriter::finish)
    }

    /// Returns the number of samples written so far, including the pre-skip.
    fn granule_position(&self) -> u64 {
        self.ogg.as_ref().map_or(0, |ogg| ogg.granule().unsigned_abs())
    }

    /// Encodes the packet that starts at sample `at`. For the last packet, `duration` is the number of its samples that
    /// are played.
    fn write_packet(&mut self, at: usize, duration: Option<u32>) -> Result<(), EncodeError> {
        let length = self.opus.encode(&self.pending[at..at + 2 * FRAME], FRAME, &mut self.packet)?;
        let Some(ogg) = &mut self.ogg else { return Ok(()) };
        match duration {
            Some(duration) => ogg.write_packet_with_duration(&self.packet[..length], duration),
            None => ogg.write_packet(&self.packet[..length]),
        }
    }

    /// Takes the complete pages of the file.
    fn take_output(&mut self) -> Vec<u8> {
        self.ogg.as_mut().and_then(OggOpusWriter::get_mut).map(std::mem::take).unwrap_or_default()
    }
}
